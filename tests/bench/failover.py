#!/usr/bin/env python3
"""How long a client waits when the replica that leads ends.

    failover.py [--build DIR] [--rounds N] [--lease SECONDS] [--members N]

Three replicas on a real etcd v3 cluster, and a client behind a relay that knows all of them, which adds 1 to a key
again and again. Each round, the leader is told to end (SIGTERM), or killed (kill -9), by turns, and started again
when another one leads. Told is the longest time that the client waited for an answer meanwhile. Each answer has to
be the one behind the last; nothing else passes or fails.
"""

import argparse
import os
import random
import signal
import statistics
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "elastic")]

from c10d import Peer                        # noqa: E402
from etcd3 import Cluster, Replica           # noqa: E402
from replica_cases import wait_for_leader    # noqa: E402
from servers import Rdzvd, free_port         # noqa: E402

REPLICAS = 3


class Client(threading.Thread):
    """`longest`: it has waited so long for an answer, since that was set to 0."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.peer, self.stopping = Peer(port), threading.Event()
        self.longest, self.answered, self.count, self.wrong = 0, time.monotonic(), 0, None
        self.start()

    def run(self):
        while not self.stopping.is_set() and self.wrong is None:
            self.count += 1
            got = self.peer.add(b"count", 1)
            if got != self.count:
                self.wrong = "the %d. ADD came to %d" % (self.count, got)
            now = time.monotonic()
            self.longest, self.answered = max(self.longest, now - self.answered), now


def one_round(client, replicas, number):
    """How long the client waited."""
    old, client.longest = wait_for_leader(*replicas), 0
    at = replicas.index(old)
    old.stop(number)
    replicas[at] = old.again()
    wait_for_leader(*replicas)
    seen = client.count
    while client.count < seen + 10:
        if client.wrong or not client.is_alive():
            sys.exit(client.wrong or "the client's connection has ended")
        time.sleep(0.01)
    waited = client.longest
    replicas[at].wait_warm()
    return waited


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build-release")
    parser.add_argument("--rounds", type=int, default=20, help="of each kind")
    parser.add_argument("--lease", type=int, default=5)
    parser.add_argument("--members", type=int, default=3)
    options = parser.parse_args()
    os.environ.setdefault("RDZVD", os.path.join(options.build, "rdzv", "rdzvd"))
    waits = {signal.SIGTERM: [], signal.SIGKILL: []}
    with Cluster(options.members) as cluster:
        replicas = [Replica(cluster, "--journal-lease=%ds" % options.lease, port=free_port())
                    for _ in range(REPLICAS)]
        try:
            wait_for_leader(*replicas)
            for replica in replicas:
                replica.wait_warm()
            with Rdzvd("--upstream=" + ",".join("127.0.0.1:%d" % r.port for r in replicas)) as relay:
                client = Client(relay.port)
                for i in range(2 * options.rounds):
                    number = list(waits)[i % 2]
                    time.sleep(1 + random.random())
                    waits[number].append(one_round(client, replicas, number))
                client.stopping.set()
                client.join()
        finally:
            for replica in replicas:
                replica.stop(signal.SIGKILL)
    for number, seconds in waits.items():
        print("%s, %d times: the client waited %.2f s (median), at most %.2f" % (
            number.name, len(seconds), statistics.median(seconds), max(seconds)))


if __name__ == "__main__":
    main()
