#!/usr/bin/env python3
"""What a monitor costs a store: its own processor time per request, by turns without one and with it.

    monitor.py [--rounds N] [--seconds S] [--clients N] [--batch N]

The daemon is $RDZVD (of --buildtype=release, or the figures mean little), else the one in build/. The
ratio is that of the medians; processor time hardly depends on what else the machine does.
"""

import argparse
import http.client
import os
import re
import socket
import statistics
import struct
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "elastic")]
import agents as ag  # noqa: E402
from servers import OPERATOR, Rdzvd, token_flag  # noqa: E402


def load(port, batch, stop):
    """One client: requests in batches, as a worker that joins sends them."""
    ask = (ag.set_request(b"/key", b"0123456789abcdef") + b"\4" + ag.text(b"/n") + struct.pack("<q", 1) +
           ag.get_request(b"/key")) * batch
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(ag.VALIDATE)
        while not stop.is_set():
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


def monitor(port, stop):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    c.request("GET", "/rdzv/v1/monitor", headers=OPERATOR)
    answer = c.getresponse()
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--batch", type=int, default=50, help="of three requests each, sent together")
    options = parser.parse_args()
    ways = {"nobody looks": None, "a monitor": monitor}
    found = {way: [] for way in ways}
    with Rdzvd(token_flag()) as store:
        stop = threading.Event()
        clients = [threading.Thread(target=load, args=(store.port, options.batch, stop))
                   for _ in range(options.clients)]
        for c in clients:
            c.start()
        for _ in range(options.rounds):
            for way, looker in ways.items():
                found[way].append(measure(store.port, looker, options.seconds))
        stop.set()
        for c in clients:
            c.join()
    base = statistics.median(found["nobody looks"])
    for way, times in found.items():
        print("%-22s %6.3f us a request, %5.3f x   (%s)" % (
            way, statistics.median(times), statistics.median(times) / base,
            " ".join("%.3f" % t for t in sorted(times))))


if __name__ == "__main__":
    main()
