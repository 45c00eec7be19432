#!/usr/bin/env python3
"""How much freed memory rdzvd returns to the kernel: a million c10d keys, set and deleted ten times.

    heap.py [--keys N] [--rounds N] [--wait SECONDS] [RDZVD]

RDZVD is a daemon built with --buildtype=release ($RDZVD, else the one in build/). Three rounds by turns have values of
32 bytes, of 1 to 200 bytes, and of 16 bytes with 1 to 2,000 in every tenth; keys are deleted in their order, or in
every second round in a random one. For each round: resident bytes for each key, resident MiB when all keys are
deleted and the given time later, and CPU seconds of both. Then CPU for one ADD. Another malloc() comes with
LD_PRELOAD, as in LD_PRELOAD=libjemalloc.so.2 MALLOC_CONF=narenas:1,background_thread:true,dirty_decay_ms:1000.
"""

import argparse
import os
import random
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "elastic")]

from c10d import Peer, modern, number  # noqa: E402
import servers  # noqa: E402

MIB, AT_A_TIME, ADDS = 1 << 20, 5000, 60000
ADD = modern.add(b"/counter", 1)
SHAPES = (lambda rng: 32, lambda rng: rng.randint(1, 200),
          lambda rng: rng.randint(1, 2000) if rng.random() < 0.1 else 16)


def resident(daemon):
    with open("/proc/%d/status" % daemon.pid, encoding="ascii") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1]) * 1024


def cpu_s(daemon):
    tasks = "/proc/%d/task" % daemon.pid
    return sum(int(open(os.path.join(tasks, t, "schedstat"), encoding="ascii").read().split()[0])
               for t in os.listdir(tasks)) / 1e9


def key(i):
    return b"/worker/key/%08d" % i


def set_all(peer, count, size):
    for first in range(0, count, AT_A_TIME):
        peer.send(modern.multi_set(*((key(i), b"v" * size()) for i in range(first, min(first + AT_A_TIME, count)))))
    peer.ping()


def delete_all(peer, order):
    for first in range(0, len(order), AT_A_TIME):
        some = order[first:first + AT_A_TIME]
        peer.send(b"".join(modern.delete(key(i)) for i in some))
        peer.expect(number(1) * len(some))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1000000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--wait", type=float, default=15)
    parser.add_argument("rdzvd", nargs="?")
    args = parser.parse_args()
    if args.rdzvd:
        os.environ["RDZVD"] = args.rdzvd
    rng = random.Random(1)
    with servers.Rdzvd() as daemon:
        peer, empty = Peer(daemon.port), resident(daemon)
        print("empty: %.1f MiB" % (empty / MIB))
        for number in range(args.rounds):
            began = cpu_s(daemon)
            set_all(peer, args.keys, lambda: SHAPES[number % len(SHAPES)](rng))
            full, filled = resident(daemon), cpu_s(daemon)
            order = list(range(args.keys))
            if number % 2:
                rng.shuffle(order)
            delete_all(peer, order)
            deleted, emptied = resident(daemon), cpu_s(daemon)
            time.sleep(args.wait)
            print("%2d: %.0f bytes for each key, deleted: %.0f MiB, later: %.0f MiB; CPU: set %.2f s, delete %.2f s, "
                  "later %.2f s" % (number, (full - empty) / args.keys, deleted / MIB, resident(daemon) / MIB,
                                    filled - began, emptied - filled, cpu_s(daemon) - emptied), flush=True)
        began = cpu_s(daemon)
        for _ in range(ADDS):
            peer.send(ADD)
            peer.take(8)
        print("ADD: %.2f us" % ((cpu_s(daemon) - began) / ADDS * 1e6))


if __name__ == "__main__":
    main()
