#!/usr/bin/env python3
"""What it costs to keep state on a disk, and to come to the store through a relay.

    durable.py [--build DIR] [--only sync,etcd,relay] [--rounds N] [--seconds S] [--dir DIR]

sync: requests per second of rdzvd with --sync=batch and always, beside one in memory. etcd: puts
per second of 64 clients with --sync=always, beside a real etcd, which syncs each of them, too.
relay: the round trip of one client through a relay, beside the same without; and how many requests
of 64 clients the store carries out in a second of its own CPU, with and without one.

The contestants take turns, each server on one core; ratios are medians over the rounds. Nothing
here passes or fails.
"""

import argparse
import os
import shutil
import statistics
import tempfile

from run import Bench, pin, ratios, servers, spread, table


class Via:
    """A relay, with the store behind it as the process whose CPU is counted."""

    def __init__(self, relay, store):
        self.relay, self.store = relay, store
        self.port, self.pid = relay.port, store.pid

    def log(self):
        return self.relay.log() + self.store.log()

    def stop(self):
        self.relay.stop()


class Durable(Bench):
    def __init__(self, options):
        super().__init__(options)
        self.open, self.folders = [], []

    def data_folder(self):
        self.folders.append(tempfile.mkdtemp(prefix="rdzv-bench-", dir=self.options.dir))
        return self.folders[-1]

    def keep(self, server):
        self.open.append(server)
        return server

    def store(self, sync=None, *flags):
        flags = list(flags)
        if sync is not None:
            flags += ["--data-dir=" + os.path.join(self.data_folder(), "data"), "--sync=" + sync]
        return self.keep(self.started(servers.Rdzvd(*flags)))

    def relay(self, store):
        relay = servers.Rdzvd("--upstream=127.0.0.1:%d" % store.port)
        pin(relay.pid, self.options.load_core)
        return self.keep(Via(relay, store))

    def take_turns(self, contestants, mode, *more):
        found = {name: [] for name in contestants}
        for _ in range(self.options.rounds):
            for name, server in contestants.items():
                found[name].append(self.measure(server, mode, *more))
        return found

    def end(self):
        for server in reversed(self.open):
            server.stop()
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)
        self.open, self.folders = [], []


def row(name, rounds, beside, key, form="%.2f"):
    runs = rounds[name]
    return [name, "%.0f" % statistics.median(r["rps"] for r in runs),
            "%.1f" % statistics.median(r["p50_us"] for r in runs),
            "%.2f" % statistics.median(r["cpu_us"] for r in runs),
            spread(ratios(rounds, name, beside, key), form)]


def bench_sync(bench):
    contestants = {"memory": bench.store(), "batch": bench.store("batch"),
                   "always": bench.store("always")}
    for mode in ("add", "set-get", "etcd-put"):
        rounds = bench.take_turns(contestants, mode)
        table("%s, 64 connections" % mode, [["store", "requests/s", "p50 us", "CPU us", "requests/s, to memory"]] +
              [row(name, rounds, "memory", "rps") for name in contestants])


def bench_etcd(bench):
    etcd = bench.keep(bench.etcd(bench.data_folder()))
    contestants = {"etcd": etcd, "always": bench.store("always")}
    rounds = bench.take_turns(contestants, "etcd-put")
    table("etcd v2 PUT, 64 connections; both sync", [["store", "requests/s", "p50 us", "CPU us", "requests/s, to etcd"]] +
          [row(name, rounds, "etcd", "rps") for name in contestants])


def bench_relay(bench):
    store = bench.store("batch")
    contestants = {"direct": store, "relay": bench.relay(store)}
    for mode in ("add", "get"):
        rounds = bench.take_turns(contestants, mode, "--clients", "1")
        added = [b["p50_us"] - a["p50_us"] for a, b in zip(rounds["direct"], rounds["relay"])]
        table("%s, one connection: the relay adds %s us to a round trip" % (mode, spread(added, "%.1f")),
              [["way", "requests/s", "p50 us", "store's CPU us", "p50, to direct"]] +
              [row(name, rounds, "direct", "p50_us") for name in contestants])
        rounds = bench.take_turns(contestants, mode)
        gain = [a / b for a, b in zip((r["cpu_us"] for r in rounds["direct"]),
                                      (r["cpu_us"] for r in rounds["relay"]))]
        table("%s, 64 connections: requests per second of the store's CPU are %s times those of direct" % (
            mode, spread(gain)),
              [["way", "requests/s", "p50 us", "store's CPU us", "CPU, to direct"]] +
              [row(name, rounds, "direct", "cpu_us") for name in contestants])


PARTS = {"sync": bench_sync, "etcd": bench_etcd, "relay": bench_relay}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build-release")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement")
    parser.add_argument("--dir", default="/var/tmp", help="where the data goes; on a disk")
    parser.add_argument("--server-core", type=int, default=0)
    parser.add_argument("--load-core", type=int, default=1)
    options = parser.parse_args()
    os.environ.setdefault("RDZVD", os.path.join(options.build, "rdzv", "rdzvd"))
    os.environ["GOMAXPROCS"] = "1"  # etcd: one core is one scheduler, as for the others
    bench = Durable(options)
    for part in options.only.split(","):
        if part not in PARTS:
            parser.error("--only %s: not a part" % part)
        try:
            PARTS[part](bench)
        finally:
            bench.end()


if __name__ == "__main__":
    main()
