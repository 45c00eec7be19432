#!/usr/bin/env python3
"""What a monitor costs a store: its own processor time per request, by turns without one and with it.

    monitor.py [--rounds N] [--seconds S] [--clients N] [--batch N] [--instructions]

The daemon is $RDZVD (of --buildtype=release, or the figures mean little), else the one in build/. The
ratio is that of the medians.

--instructions: what requests and samples of the monitor take outside the kernel, counted by callgrind (of
Debian's package valgrind), which does not depend on what else the machine does. A store has 500 samples
a second at most, however many requests there are; so their part is told for a store that is busy with
these requests for the whole second, of which it then carries out as many as its processor time says.
"""

import argparse
import contextlib
import http.client
import itertools
import json
import os
import re
import socket
import statistics
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "elastic")]
from c10d import modern  # noqa: E402
from servers import OPERATOR, Rdzvd, token_flag  # noqa: E402


def load(port, batch, ends):
    """One client: requests in batches, as a worker that joins sends them, until `ends` says so."""
    ask = (modern.set(b"/key", b"0123456789abcdef") + modern.add(b"/n", 1) + modern.get(b"/key")) * batch
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(modern.validate())
        while not ends():
            s.sendall(ask)
            left = batch * (8 + 8 + 16)
            while left > 0:
                left -= len(s.recv(left))


def figures(port):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    c.request("GET", "/metrics")
    text = c.getresponse().read().decode()
    c.close()
    cpu = float(re.search(r"(?m)^process_cpu_seconds_total (\S+)$", text).group(1))
    return cpu, sum(map(float, re.findall(r'(?m)^rdzvd_requests_total\{protocol="c10d".* (\S+)$', text)))


def begin_monitor(port):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    c.request("GET", "/rdzv/v1/monitor", headers=OPERATOR)
    return c, c.getresponse()


def monitor(port, stop):
    c, answer = begin_monitor(port)
    while not stop.is_set():
        answer.readline()
    c.close()


def measure(port, looker, seconds):
    """Processor time of the store per request, in microseconds."""
    stop = threading.Event()
    threads = [threading.Thread(target=looker, args=(port, stop))] if looker else []
    for t in threads:
        t.start()
    before = figures(port)
    time.sleep(seconds)
    after = figures(port)
    stop.set()
    for t in threads:
        t.join()
    return (after[0] - before[0]) / (after[1] - before[1]) * 1e6


# ---- by processor time


@contextlib.contextmanager
def loaded(options):
    """A store whose clients ask all the time."""
    with Rdzvd(token_flag()) as store:
        stop = threading.Event()
        clients = [threading.Thread(target=load, args=(store.port, options.batch, stop.is_set))
                   for _ in range(options.clients)]
        for c in clients:
            c.start()
        try:
            yield store
        finally:
            stop.set()
            for c in clients:
                c.join()


def compare(options):
    ways = {"nobody looks": None, "a monitor": monitor}
    found = {way: [] for way in ways}
    with loaded(options) as store:
        for _ in range(options.rounds):
            for way, looker in ways.items():
                found[way].append(measure(store.port, looker, options.seconds))
    base = statistics.median(found["nobody looks"])
    for way, times in found.items():
        print("%-22s %6.3f us a request, %5.3f x   (%s)" % (
            way, statistics.median(times), statistics.median(times) / base,
            " ".join("%.3f" % t for t in sorted(times))))


# ---- by instructions

REQUESTS = (3000, 15000)
SAMPLES = 500  # a second, at most


def collected(batch, requests, monitored):
    """The instructions of the loop for these requests, and how many of them were shown."""
    wrapper = ("valgrind", "--tool=callgrind", "--toggle-collect=server_run", "--toggle-collect=on_tick",
               "--toggle-collect=heap_trim", "--callgrind-out-file=/dev/null")
    shown, seen = 0, 0 if monitored else requests
    with Rdzvd(token_flag(), wrapper=wrapper) as store:
        c, answer = begin_monitor(store.port) if monitored else (None, None)
        sent = itertools.count(0, 3 * batch)
        load(store.port, batch, lambda: next(sent) >= requests)
        while seen < requests:
            line = answer.readline()
            if line.startswith(b'data: {"now"'):
                event = json.loads(line[6:])
                seen, shown = seen + event["c10d_requests"], shown + event["shown"]
        if c:
            c.close()
        store.stop(timeout=300)
        return int(store.wait_log(r"Collected : (\d+)")[0].group(1)), shown


def count(options):
    def grows(monitored):
        short, long = (collected(options.batch, n, monitored) for n in REQUESTS)
        return long[0] - short[0], long[1] - short[1]

    with loaded(options) as store:
        time_us = min(measure(store.port, None, options.seconds) for _ in range(options.rounds))
    requests = REQUESTS[1] - REQUESTS[0]
    alone = grows(False)[0]
    seen, shown = grows(True)
    request, sample = alone / requests, (seen - alone) / shown
    print("a request %.0f instructions and %.2f us; a sample %.0f, all of its event included (%d of %d requests shown)" % (
        request, time_us, sample, shown, requests))
    print("with a monitor, of a second that the store is busy: %.2f %% more instructions" % (
        100 * SAMPLES * sample / (request * 1e6 / time_us)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--batch", type=int, default=50, help="of three requests each, sent together")
    parser.add_argument("--instructions", action="store_true")
    options = parser.parse_args()
    (count if options.instructions else compare)(options)


if __name__ == "__main__":
    main()
