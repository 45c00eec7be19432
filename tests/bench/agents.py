#!/usr/bin/env python3
"""What N agents of a job cost rdzvd while its round is complete, and how soon they have met.

    agents.py [--build DIR] [--agents N,N…] [--workers W] [--seconds S] [--durable] [FLAG-OF-RDZVD]…

The agents are those of rdzv-bench, a model of torch's: each looks at the state once a second, by
a WAIT and a GET, and sends a heartbeat each 5 s. Bytes are c10d's, sent and received. They
share the machine's cores with rdzvd, and reading the whole state is most of what they do in a join.
With --durable rdzvd has a data directory, and what it writes to its journal is counted, too. With --workers each
node also has W connections of workers, which ask for one key and then are idle, as while a job trains. Memory is
rdzvd's resident memory in the complete round, and the most that it ever was. The figures of "Sizing" in
README.md come from `agents.py --agents 100,1000,10000 --workers 8 --durable` on a machine that does
nothing else. With workers, 10,000 nodes need `ulimit -n 200000`; without, 20000.
Nothing here passes or fails.
"""

import argparse
import contextlib
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import servers  # noqa: E402
from c10d import Peer  # noqa: E402

PORTS_OF_ADDRESS = 20000  # connections from one address: the kernel has 28,000 ports for each


def cpu_seconds(pid):
    with open("/proc/%d/schedstat" % pid, encoding="ascii") as f:
        return int(f.read().split()[0]) / 1e9


def memory_mib(pid):
    """Resident memory, now and at most."""
    with open("/proc/%d/status" % pid, encoding="ascii") as f:
        text = f.read()
    return [int(re.search(r"^%s:\s+(\d+) kB" % name, text, re.M).group(1)) / 1024 for name in ("VmRSS", "VmHWM")]


@contextlib.contextmanager
def workers(port, count):
    """Connections that have been used once."""
    peers = []
    try:
        for i in range(count):
            peers.append(Peer(port, source="127.0.0.%d" % (2 + i // PORTS_OF_ADDRESS)))
            peers[-1].get(b"default_pg/0")
        yield
    finally:
        for peer in peers:
            peer.close()


def journal_bytes(folder):
    """Bytes in the journal, which stays too short to trigger a snapshot."""
    path = os.path.join(folder, "rdzvd")
    if not os.path.isdir(path):
        return 0
    return sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path)
               if name.startswith("journal-"))


def measure(options, count, folder):
    """{phase: (seconds, up, down, rdzvd's CPU seconds, bytes written to the journal, memory)}"""
    phases, written = {}, 0
    durable = ["--data-dir=" + folder] if options.durable else []
    with servers.Rdzvd(*durable, *options.flags) as server, workers(server.port, count * options.workers):
        load = subprocess.Popen([os.path.join(options.build, "tests", "bench", "rdzv-bench"),
                                 "--connect", "127.0.0.1:%d" % server.port, "--clients", "0",
                                 "--agents", str(count), "--seconds", str(options.seconds), "join", "steady", "again"],
                                stdout=subprocess.PIPE, text=True)
        before = cpu_seconds(server.pid)
        for line in load.stdout:
            figures = dict(word.split("=", 1) for word in line.split())
            now, kept = cpu_seconds(server.pid), journal_bytes(folder)
            phases[figures["work"]] = (float(figures["seconds"]), int(figures["up"]), int(figures["down"]),
                                       now - before, kept - written, memory_mib(server.pid))
            before, written = now, kept
        if load.wait() != 0:
            raise SystemExit("rdzv-bench has failed")
    return phases


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build-release")
    parser.add_argument("--agents", default="8,64,256,1000")
    parser.add_argument("--workers", type=int, default=0, help="idle connections of each node")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--durable", action="store_true", help="rdzvd keeps its state on disk")
    parser.add_argument("flags", nargs="*")
    options = parser.parse_args()
    os.environ.setdefault("RDZVD", os.path.join(options.build, "rdzv", "rdzvd"))
    print("| agents | B/s of an agent: up, down | rdzvd's CPU | join s, its CPU s | again s, its CPU s | journal B/s | "
          "connections | memory MiB: now, most |")
    print("|---|---|---|---|---|---|---|---|")
    for count in map(int, options.agents.split(",")):
        with tempfile.TemporaryDirectory(prefix="rdzv-agents-") as folder:
            p = measure(options, count, folder)
        seconds, up, down, cpu, kept, (now, most) = p["steady"]
        print("| %d | %.0f, %.0f | %.1f %% | %.1f, %.2f | %.1f, %.2f | %.0f | %d | %.0f, %.0f |" % (
            count, up / seconds / count, down / seconds / count, 100 * cpu / seconds,
            p["join"][0], p["join"][3], p["again"][0], p["again"][3], kept / seconds,
            count * (1 + options.workers), now, max(most, p["again"][5][1])), flush=True)


if __name__ == "__main__":
    main()
