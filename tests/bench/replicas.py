#!/usr/bin/env python3
"""What it costs to keep state in an etcd v3 cluster.

    replicas.py [--build DIR] [--members N] [--rounds N] [--seconds S] [--sync-ms MS] [--depth N]

One client: the round trip of an ADD through rdzvd, at the leader and at a replica that passes it on,
beside that of a transaction of one put that is sent to etcd itself. 64 clients: ADDs per second,
beside such transactions, each from a connection of its own; once in lock step, and once with --depth
of them under way on each connection, as of a client that does not wait for its answers. 1,024 clients:
the same in lock step. Then what an ADD takes of the CPU of both replicas. The contestants take turns;
figures and ratios are medians over the rounds, beside the best of them. Nothing here passes or fails.

With --sync-ms each sync of etcd's takes so much longer than that of the disk at hand, which may be
none: strace lets it wait. etcd's documentation wants a disk whose 99th percentile is below 10 ms.
"""

import argparse
import contextlib
import os
import statistics
import sys

from run import Bench, servers, spread, table

sys.path.insert(0, os.path.dirname(servers.__file__))
import etcd3  # noqa: E402


def ask_etcd(bench, cluster, clients, depth):
    return bench.run(cluster.members[0], ["etcd3-txn"], "--clients", str(clients), "--depth", str(depth))[-1]


def cpu_s(replica):
    with open("/proc/%d/stat" % replica.pid, encoding="ascii") as f:
        words = f.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def ask_rdzvd(bench, replicas, asked, clients, depth):
    """`cpu_of`: of each replica, for a request."""
    before = [cpu_s(r) for r in replicas]
    figures = bench.measure(asked, "add", "--clients", str(clients), "--depth", str(depth))
    requests = figures["rps"] * bench.options.seconds
    figures["cpu_of"] = [1e6 * (cpu_s(r) - b) / requests for r, b in zip(replicas, before)]
    return figures


def slow_disk(ms):
    """Becomes the program whose arguments follow, and stops it at no other call."""
    return ["strace", "-D", "-f", "--seccomp-bpf", "-qqq", "-e", "trace=fdatasync", "-e",
            "inject=fdatasync:delay_exit=%d" % (1000 * ms), "-o", "/dev/null"] if ms > 0 else []


@contextlib.contextmanager
def replicas_of(options):
    """A cluster, a replica that leads, and one that passes clients on. Each round has new ones, so that none writes a
    snapshot meanwhile."""
    with etcd3.Cluster(options.members, under=slow_disk(options.sync_ms)) as cluster:
        ports = [servers.free_port() for _ in range(2)]
        upstream = "--upstream=" + ",".join("127.0.0.1:%d" % p for p in ports)
        with etcd3.Replica(cluster, upstream, port=ports[0]) as leader:
            leader.wait_ready(says="[+]leader ok\n")
            with etcd3.Replica(cluster, upstream, port=ports[1]) as follower:
                follower.wait_ready(says="[+]upstream ok: connected to ")
                yield cluster, leader, follower


def compare(bench, clients, depth, key):
    found = {"etcd": [], "the leader": [], "a follower": []}
    for _ in range(bench.options.rounds):
        with replicas_of(bench.options) as (cluster, *replicas):
            found["etcd"].append(ask_etcd(bench, cluster, clients, depth))
            found["the leader"].append(ask_rdzvd(bench, replicas, replicas[0], clients, depth))
            found["a follower"].append(ask_rdzvd(bench, replicas, replicas[1], clients, depth))
    ratio = {name: spread([b[key] / a[key] for a, b in zip(found["etcd"], runs)]) for name, runs in found.items()}
    table("%d client%s, %d under way on each" % (clients, "s" if clients > 1 else "", depth),
          [["asked", "changes/s", "most", "p50 us", "least", key + ", to etcd"]] +
          [[name, "%.0f" % statistics.median(r["rps"] for r in runs),
            "%.0f" % max(r["rps"] for r in runs),
            "%.0f" % statistics.median(r["p50_us"] for r in runs),
            "%.0f" % min(r["p50_us"] for r in runs), ratio[name]] for name, runs in found.items()])
    for name, runs in list(found.items())[1:]:
        print("CPU of an ADD at %s: %.0f us of the leader, %.0f us of the follower" % (
            name, *(statistics.median(r["cpu_of"][i] for r in runs) for i in range(2))))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build-release")
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement")
    parser.add_argument("--sync-ms", type=float, default=0)
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--load-core", type=int, default=1)
    options = parser.parse_args()
    os.environ.setdefault("RDZVD", os.path.join(options.build, "rdzv", "rdzvd"))
    bench = Bench(options)
    compare(bench, 1, 1, "p50_us")
    compare(bench, 64, 1, "rps")
    compare(bench, 64, options.depth, "rps")
    compare(bench, 1024, 1, "rps")


if __name__ == "__main__":
    main()
