#!/usr/bin/env python3
"""What N agents of a job cost rdzvd while its round is complete, and how soon they have met.

    agents.py [--build DIR] [--agents N,N…] [--seconds S] [--durable] [FLAG-OF-RDZVD]…

The agents are those of bench_agents, a model of torch's: each looks at the state once a second, by
a WAIT and a GET, and sends a heartbeat each 5 s. Bytes are c10d's, sent and received. They
share the machine's cores with rdzvd, and reading the whole state is most of what they do in a join.
With --durable rdzvd has a data directory, and what it writes to its journal is counted, too.
Nothing here passes or fails.
"""

import argparse
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import servers  # noqa: E402


def cpu_seconds(pid):
    with open("/proc/%d/schedstat" % pid, encoding="ascii") as f:
        return int(f.read().split()[0]) / 1e9


def journal_bytes(folder):
    """Bytes in the journal, which stays too short to trigger a snapshot."""
    path = os.path.join(folder, "rdzvd")
    if not os.path.isdir(path):
        return 0
    return sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path)
               if name.startswith("journal-"))


def measure(options, count, folder):
    """{phase: (seconds, up, down, rdzvd's CPU seconds, bytes written to the journal)}"""
    phases, written = {}, 0
    durable = ["--data-dir=" + folder] if options.durable else []
    with servers.Rdzvd(*durable, *options.flags) as server:
        load = subprocess.Popen([os.path.join(options.build, "tests", "bench", "bench_agents"),
                                 str(server.port), str(count), str(options.seconds)],
                                stdout=subprocess.PIPE, text=True)
        before = cpu_seconds(server.pid)
        for line in load.stdout:
            phase, seconds, up, down, _ = line.split()
            now, kept = cpu_seconds(server.pid), journal_bytes(folder)
            phases[phase] = float(seconds), int(up), int(down), now - before, kept - written
            before, written = now, kept
        if load.wait() != 0:
            raise SystemExit("bench_agents has failed")
    return phases


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build-release")
    parser.add_argument("--agents", default="8,64,256,1000")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--durable", action="store_true", help="rdzvd keeps its state on disk")
    parser.add_argument("flags", nargs="*")
    options = parser.parse_args()
    os.environ.setdefault("RDZVD", os.path.join(options.build, "rdzv", "rdzvd"))
    print("| agents | B/s of an agent: up, down | rdzvd's CPU | join s, its CPU s | again s, its CPU s | journal B/s |")
    print("|---|---|---|---|---|---|")
    for count in map(int, options.agents.split(",")):
        with tempfile.TemporaryDirectory(prefix="rdzv-agents-") as folder:
            p = measure(options, count, folder)
        seconds, up, down, cpu, kept = p["steady"]
        # The 6 s before, in which nothing is printed, are in rdzvd's CPU seconds and the journal, too.
        print("| %d | %.0f, %.0f | %.1f %% | %.1f, %.2f | %.1f, %.2f | %.0f |" % (
            count, up / seconds / count, down / seconds / count, 100 * cpu / (seconds + 6),
            p["join"][0], p["join"][3], p["again"][0], p["again"][3], kept / (seconds + 6)), flush=True)


if __name__ == "__main__":
    main()
