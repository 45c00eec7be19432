#!/usr/bin/env python3
"""Counts the instructions that two builds of rdzvd need for one request, outside the kernel.

    instructions.py [--runs SHORT,LONG] [--keep DIR] BASE HEAD [CASE]...

BASE and HEAD are two daemons, both built with --buildtype=release. For each case each daemon runs
twice under callgrind (of Debian's package valgrind), and answers SHORT and LONG requests of one
client, one at a time; the difference of the two counts, by the difference in requests, is what one
of them takes. The same two builds give the same figures within 0.5 %, whatever the machine does
beside. What the kernel does, and cache misses, are not in them.

--keep leaves callgrind's files for callgrind_annotate(1) in DIR. Nothing here passes or fails.
"""

import argparse
import os
import re
import socket
import struct
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "elastic")]

import agents   # noqa: E402
import servers  # noqa: E402

VALUE = b"0123456789abcdef"
OTHER = b"fedcba9876543210"


def key(i=0):
    return b"/default_pg/0//worker/%06d" % i


# --- Clients. ---

class C10d:
    """One client of torch's protocol, whose request is answered with so many bytes."""

    answer = 8

    def __init__(self, port):
        self.peer = agents.Peer(port)
        self.prepare()

    def prepare(self):
        self.peer.set(key(), VALUE)

    def ask(self, i):
        self.peer.send(self.request(i))
        self.peer.take(self.answer)

    def end(self):
        self.peer.close()


class Add(C10d):
    def prepare(self):
        pass

    def request(self, i):
        return b"\4" + agents.text(key()) + struct.pack("<q", 1)


class Get(C10d):
    answer = 8 + len(VALUE)

    def request(self, i):
        return agents.get_request(key())


class Set(C10d):
    """A SET is not answered: the PING in the same segment is."""

    answer = 4

    def request(self, i):
        return agents.set_request(key(), VALUE) + agents.PING


class SetNew(Set):
    def request(self, i):
        return agents.set_request(key(1 + i), VALUE) + agents.PING


class Wait(C10d):
    answer = 1

    def request(self, i):
        return agents.wait_request(key())


class CompareSet(C10d):
    answer = 8 + len(VALUE)

    def request(self, i):
        old, new = (OTHER, VALUE) if i % 2 else (VALUE, OTHER)
        return agents.cas_request(key(), old, new)


class Http:
    """One client of etcd's v2 API, on one connection."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.exchange(self.put(0))

    @staticmethod
    def put(i):
        body = b"value=" + VALUE
        return (b"PUT /v2/keys/torchelastic/p2p/run/rdzv/%06d HTTP/1.1\r\n"
                b"Host: localhost\r\n"
                b"Content-Type: application/x-www-form-urlencoded\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (i, len(body), body))

    def exchange(self, request):
        self.socket.sendall(request)
        got = b""
        while True:
            more = self.socket.recv(65536)
            if not more:
                raise EOFError("the daemon closed the connection after %r" % got)
            got += more
            head, found, body = got.partition(b"\r\n\r\n")
            size = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            if found and len(body) == int(size.group(1)):
                break
        if got[9:11] != b"20":
            raise AssertionError("the daemon answered %r" % got)

    def ask(self, i):
        self.exchange(self.request(i))

    def end(self):
        self.socket.close()


class V2Get(Http):
    def request(self, i):
        return b"GET /v2/keys/torchelastic/p2p/run/rdzv/000000 HTTP/1.1\r\nHost: localhost\r\n\r\n"


class V2Put(Http):
    def request(self, i):
        return self.put(0)


class V2PutNew(Http):
    def request(self, i):
        return self.put(1 + i)


CASES = {
    "c10d-add": Add, "c10d-get": Get, "c10d-set": Set, "c10d-set-new": SetNew, "c10d-wait": Wait,
    "c10d-compare-set": CompareSet, "v2-get": V2Get, "v2-put": V2Put, "v2-put-new": V2PutNew,
}


# --- Counting. ---

def count(daemon, case, requests, out):
    """The instructions of the daemon's loop, from its first iteration to its last."""
    os.environ["RDZVD"] = daemon
    wrapper = ("valgrind", "--tool=callgrind", "--toggle-collect=server_run",
               "--callgrind-out-file=" + out)
    with servers.Rdzvd(wrapper=wrapper) as rdzvd:
        client = CASES[case](rdzvd.port)
        for i in range(requests):
            client.ask(i)
        client.end()
        rdzvd.stop(timeout=120)
        found = rdzvd.wait_log(r"Collected : (\d+)")
    return int(found[0].group(1))


def per_request(options, which, case):
    short, long = (int(n) for n in options.runs.split(","))
    daemon = os.path.abspath(getattr(options, which))
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or scratch
        counts = [count(daemon, case, n, os.path.join(folder, "%s-%s-%d" % (case, which, n)))
                  for n in (short, long)]
    return (counts[1] - counts[0]) / (long - short)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base")
    parser.add_argument("head")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="; ".join(CASES))
    parser.add_argument("--runs", default="500,3500", metavar="SHORT,LONG")
    parser.add_argument("--keep", metavar="DIR")
    options = parser.parse_args()
    for case in options.cases:
        if case not in CASES:
            parser.error("there is no case %s, but %s" % (case, ", ".join(CASES)))
    print("%-18s %10s %10s %8s" % ("instructions for", "base", "head", "ratio"), flush=True)
    for case in options.cases or CASES:
        base, head = (per_request(options, which, case) for which in ("base", "head"))
        print("%-18s %10.0f %10.0f %8.3f" % (case, base, head, head / base), flush=True)


if __name__ == "__main__":
    main()
