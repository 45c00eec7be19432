#!/usr/bin/env python3
"""What it costs to keep state in an etcd v3 cluster.

    replicas.py [--build DIR] [--members N] [--rounds N] [--seconds S]

One client: the round trip of an ADD through rdzvd, beside that of a transaction of one put that is
sent to etcd itself. 64 clients: ADDs per second, beside such transactions, each from a connection
of its own. The contestants take turns; figures and ratios are medians over the rounds, beside the
best of them. Nothing here passes or fails.
"""

import argparse
import os
import statistics
import subprocess
import sys

from run import Bench, servers, spread, table

sys.path.insert(0, os.path.dirname(servers.__file__))
import etcd3  # noqa: E402


def ask_etcd(bench, cluster, clients):
    done = subprocess.run([os.path.join(bench.folder, "bench_etcd3"),
                           "127.0.0.1:%d" % cluster.members[0].port, str(clients),
                           str(bench.options.seconds)], check=True, stdout=subprocess.PIPE, text=True)
    return {k: float(v) for k, v in (word.split("=") for word in done.stdout.split())}


def compare(bench, cluster, replica, clients, key):
    found = {"etcd": [], "rdzvd": []}
    for _ in range(bench.options.rounds):
        found["etcd"].append(ask_etcd(bench, cluster, clients))
        found["rdzvd"].append(bench.measure(replica, "add", "--connections", str(clients)))
    ratio = [b[key] / a[key] for a, b in zip(found["etcd"], found["rdzvd"])]
    table("%d client%s" % (clients, "s" if clients > 1 else ""),
          [["asked", "changes/s", "most", "p50 us", "least", key + ", to etcd"]] +
          [[name, "%.0f" % statistics.median(r["rps"] for r in runs),
            "%.0f" % max(r["rps"] for r in runs),
            "%.0f" % statistics.median(r["p50_us"] for r in runs),
            "%.0f" % min(r["p50_us"] for r in runs), spread(ratio) if name == "rdzvd" else "1"] for name, runs in found.items()])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build-release")
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement")
    parser.add_argument("--load-core", type=int, default=1)
    options = parser.parse_args()
    os.environ.setdefault("RDZVD", os.path.join(options.build, "rdzv", "rdzvd"))
    bench = Bench(options)
    with etcd3.Cluster(options.members) as cluster:
        with etcd3.Replica(cluster) as replica:
            replica.wait_ready()
            compare(bench, cluster, replica, 1, "p50_us")
            compare(bench, cluster, replica, 64, "rps")


if __name__ == "__main__":
    main()
