#!/usr/bin/env python3
"""What it costs rdzvd to be looked at: a scrape each second and an open status page; and many pages.

    observed.py [--build DIR] [--nodes N] [--pages N] [--rounds N] [--seconds S] [--runs N] [--connections N]

First, many runs of one node each, and connections that ask for nothing: the CPU of one scrape, of one status, and of
a scrape each second beside an open page. Then a run of N nodes, whose status changes twice a second while pages are
open: the CPU of the daemon, which does nothing else, so that so much less of a core is left for requests; and the CPU
per request under load with a scraper and one page, to the same load without them, in turns on one daemon. On a busy
machine, where the daemon gets little of a core, the same work for pages is more of each request. Nothing here passes
or fails.
"""

import argparse
import http.client
import os
import resource
import selectors
import socket
import statistics
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "page"))
import scenes  # noqa: E402
from servers import Rdzvd  # noqa: E402

WATCH = b"GET /rdzv/v1/status?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n"


def cpu_seconds(pid):
    with open("/proc/%d/schedstat" % pid, encoding="ascii") as f:
        return int(f.read().split()[0]) / 1e9


class Observers:
    """`pages` open streams that are read, a change of the run twice a second, and, with `scrapes`, /metrics
    each second; until it is closed. All in one thread."""

    def __init__(self, server, pages, scrapes):
        self.server, self.scrapes, self.bytes, self.changes = server, scrapes, 0, 0
        self.selector, self.streams, self.stop = selectors.DefaultSelector(), [], threading.Event()
        for _ in range(pages):
            stream = socket.create_connection(("127.0.0.1", server.port))
            stream.sendall(WATCH)
            stream.setblocking(False)
            self.selector.register(stream, selectors.EVENT_READ)
            self.streams.append(stream)
        self.waiter = None
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        change_at = scrape_at = time.monotonic()
        while not self.stop.is_set():
            for key, _ in self.selector.select(0.05):
                self.bytes += len(key.fileobj.recv(1 << 20))
            if time.monotonic() >= change_at:
                self.change()
                change_at += 0.5
            if self.scrapes and time.monotonic() >= scrape_at:
                c = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
                c.request("GET", "/metrics")
                c.getresponse().read()
                c.close()
                scrape_at += 1

    def change(self):
        """Another client waits for a key."""
        if self.waiter is not None:
            self.waiter.close()
        self.changes += 1
        self.waiter = scenes.Peer(self.server.port)
        self.waiter.wait(b"never/%d" % self.changes)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        for s in self.streams:
            s.close()
        self.waiter.close()


def load(options, server):
    done = subprocess.run([os.path.join(options.build, "tests", "bench", "rdzv-bench"),
                           "--connect", "127.0.0.1:%d" % server.port, "--server-pid", str(server.pid),
                           "--core", "1", "--seconds", str(options.seconds), "add"], stdout=subprocess.PIPE, text=True, check=True)
    figures = dict(word.split("=", 1) for word in done.stdout.splitlines()[-1].split())
    return float(figures["cpu_us"]), float(figures["rps"])


def under_load(options, server):
    rows = []
    for _ in range(options.rounds):
        alone, rps = load(options, server)
        with Observers(server, 1, True):
            seen, seen_rps = load(options, server)
        rows.append((seen / alone, seen_rps / rps))
    for name, i in (("CPU per ADD", 0), ("ADDs per second", 1)):
        values = [row[i] for row in rows]
        print("| %s with a scrape each second and one page, to none | %.3f (%.3f to %.3f) |" % (
            name, statistics.median(values), min(values), max(values)), flush=True)


def with_pages(options, server, pages, scrapes, what):
    shares, rates = [], []
    for _ in range(options.rounds):
        with Observers(server, pages, scrapes) as o:
            time.sleep(1)
            before, sent, began = cpu_seconds(server.pid), o.bytes, time.monotonic()
            time.sleep(2 * options.seconds)
            took = time.monotonic() - began
            shares.append((cpu_seconds(server.pid) - before) / took)
            rates.append((o.bytes - sent) / took)
    print("| %s, %s, two changes a second: rdzvd's part of a core | %.2f %% (%.2f to %.2f); %.1f MB/s are sent |" % (
        "one page, a scrape each second" if scrapes else "%d pages" % pages, what, 100 * statistics.median(shares),
        100 * min(shares), 100 * max(shares), statistics.median(rates) / 1e6), flush=True)


def get(port, path):
    c = http.client.HTTPConnection("localhost", port, timeout=60)
    c.request("GET", path)
    body = c.getresponse().read()
    c.close()
    return len(body)


def with_many(options):
    """What looking costs that has to name a thousand runs among ten thousand connections."""
    with Rdzvd() as server:
        os.sched_setaffinity(server.pid, {0})
        agents = [scenes.Agent(server.port, "job-%04d" % i, scenes.name_of(i), pid=4000 + i) for i in range(options.runs)]
        for agent in agents:
            agent.join()
        idle = [scenes.Peer(server.port) for _ in range(options.connections - options.runs)]
        many = "%d runs, %d connections" % (options.runs, options.connections)
        for path in ("/metrics", "/rdzv/v1/status"):
            costs = []
            for _ in range(4 * options.rounds):
                before = cpu_seconds(server.pid)
                size = get(server.port, path)
                costs.append(1e3 * (cpu_seconds(server.pid) - before))
            print("| GET %s, %s: rdzvd's CPU | %.2f ms (%.2f to %.2f), for %d kB |" % (
                path, many, statistics.median(costs), min(costs), max(costs), size / 1000), flush=True)
        with_pages(options, server, 1, True, many)
        for peer in agents + idle:
            peer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build-release")
    parser.add_argument("--nodes", type=int, default=10000)
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--connections", type=int, default=10000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args()
    os.environ.setdefault("RDZVD", os.path.join(options.build, "rdzv", "rdzvd"))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print("| | |\n|---|---|")
    with_many(options)
    with Rdzvd() as server:
        os.sched_setaffinity(server.pid, {0})
        crowd = scenes.Crowd(server.port, "crowd", options.nodes)
        nodes = "%d nodes" % options.nodes
        with_pages(options, server, 1, True, nodes)
        with_pages(options, server, options.pages, False, nodes)
        under_load(options, server)
        crowd.close()


if __name__ == "__main__":
    main()
