#!/usr/bin/env python3
"""Counts the instructions that two builds of rdzvd need for one request, outside the kernel.

    instructions.py [--runs SHORT,LONG] [--keep DIR] BASE HEAD [CASE]...

BASE and HEAD are two daemons, both built with --buildtype=release. For each case each daemon runs
twice under callgrind (of Debian's package valgrind), and answers SHORT and LONG requests of one
client, one at a time; the difference of the two counts, by the difference in requests, is what one
of them takes. The same two builds give the same figures within 0.5 %, whatever the machine does
beside. They exclude the kernel's instructions and cache misses.

--keep leaves callgrind's files for callgrind_annotate(1) in DIR. Nothing here passes or fails.
"""

import argparse
import os
import re
import socket
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "elastic")]

from c10d import NONCE, Peer, modern  # noqa: E402
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
        self.peer = Peer(port)
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
        return modern.add(key(), 1)


class AddDeep(Add):
    """Sixteen in one segment."""

    answer = 16 * 8

    def request(self, i):
        return 16 * modern.add(key(), 1)


class Get(C10d):
    answer = 8 + len(VALUE)

    def request(self, i):
        return modern.get(key())


class Set(C10d):
    """A SET is not answered: the PING in the same segment is."""

    answer = 4

    def request(self, i):
        return modern.set(key(), VALUE) + modern.ping()


class SetNew(Set):
    def request(self, i):
        return modern.set(key(1 + i), VALUE) + modern.ping()


class Wait(C10d):
    answer = 1

    def request(self, i):
        return modern.wait(key())


class WaitLater(C10d):
    """The key comes later, by a SET behind the WAIT; then a DELETE."""

    answer = 1 + 8

    def prepare(self):
        self.setter = Peer(self.peer.socket.getpeername()[1])

    def ask(self, i):
        self.peer.send(modern.wait(key()) + modern.ping())
        self.peer.expect(NONCE)
        self.setter.set(key(), VALUE)
        self.peer.expect_stop_waiting()
        self.setter.send(modern.delete(key()))
        self.setter.number()

    def end(self):
        self.setter.close()
        super().end()


class Check(C10d):
    answer = 1

    def request(self, i):
        return modern.check(key(), key())


class CountKeys(C10d):
    def request(self, i):
        return modern.count()


class Delete(C10d):
    """Of a key that a SET in the same segment has made."""

    def request(self, i):
        return modern.set(key(1), VALUE) + modern.delete(key(1))


class Append(C10d):
    """With a SET before it, in the same segment, and a PING."""

    answer = 4

    def request(self, i):
        return modern.set(key(), VALUE) + modern.append(key(), OTHER) + modern.ping()


class MultiGet(C10d):
    """Of eight keys."""

    answer = 8 * (8 + len(VALUE))

    def prepare(self):
        for i in range(8):
            self.peer.set(key(i), VALUE)

    def request(self, i):
        return modern.multi_get(*(key(n) for n in range(8)))


class MultiSet(C10d):
    """Of eight keys, and a PING."""

    answer = 4

    def request(self, i):
        return modern.multi_set(*((key(n), VALUE) for n in range(8))) + modern.ping()


class Ping(C10d):
    answer = 4

    def request(self, i):
        return modern.ping()


class Queue(C10d):
    """A QUEUE_PUSH and the QUEUE_POP of it."""

    answer = 8 + 8 + len(VALUE)

    def request(self, i):
        return modern.push(b"queue", VALUE) + modern.pop(b"queue")


class ListKeys(C10d):
    """Of eight keys."""

    answer = 8 + 8 * (8 + len(key()))

    def prepare(self):
        for i in range(8):
            self.peer.set(key(i), VALUE)

    def request(self, i):
        return modern.list_keys()


class CompareSet(C10d):
    answer = 8 + len(VALUE)

    def request(self, i):
        old, new = (OTHER, VALUE) if i % 2 else (VALUE, OTHER)
        return modern.compare_set(key(), old, new)


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
        return got

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


class V2List(Http):
    """The GET of a directory with eight keys."""

    def __init__(self, port):
        super().__init__(port)
        for i in range(1, 8):
            self.exchange(self.put(i))

    def request(self, i):
        return b"GET /v2/keys/torchelastic/p2p/run/rdzv?recursive=true HTTP/1.1\r\nHost: localhost\r\n\r\n"


class V2CompareSwap(Http):
    def request(self, i):
        old, new = (OTHER, VALUE) if i % 2 else (VALUE, OTHER)
        return (b"PUT /v2/keys/torchelastic/p2p/run/rdzv/000000?prevValue=%b&value=%b HTTP/1.1\r\n"
                b"Host: localhost\r\nContent-Length: 0\r\n\r\n" % (old, new))


class V2Ttl(Http):
    """A PUT that begins a TTL anew, as torch's keep-alive does."""

    def request(self, i):
        return (b"PUT /v2/keys/torchelastic/p2p/run/rdzv/000000?value=%b&ttl=60 HTTP/1.1\r\n"
                b"Host: localhost\r\nContent-Length: 0\r\n\r\n" % VALUE)


class V2Post(Http):
    """A POST of a key in order, and the DELETE of what it made."""

    def ask(self, i):
        made = self.exchange(b"POST /v2/keys/queue?value=%b HTTP/1.1\r\nHost: localhost\r\n"
                             b"Content-Length: 0\r\n\r\n" % VALUE)
        name = re.search(rb'"key":"(/queue/\d+)"', made).group(1)
        self.exchange(b"DELETE /v2/keys%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % name)


CASES = {
    "c10d-add": Add, "c10d-add-deep": AddDeep, "c10d-get": Get, "c10d-set": Set,
    "c10d-set-new": SetNew, "c10d-wait": Wait,
    "c10d-wait-later": WaitLater, "c10d-check": Check, "c10d-compare-set": CompareSet,
    "c10d-delete": Delete, "c10d-append": Append, "c10d-multi-get": MultiGet,
    "c10d-multi-set": MultiSet, "c10d-queue": Queue, "c10d-count": CountKeys,
    "c10d-list": ListKeys, "c10d-ping": Ping,
    "v2-get": V2Get, "v2-list": V2List, "v2-put": V2Put, "v2-put-new": V2PutNew,
    "v2-compare-swap": V2CompareSwap, "v2-ttl": V2Ttl, "v2-post": V2Post,
}


# --- Counting. ---

def count(daemon, case, requests, out):
    """The instructions of the daemon's loop, from its first iteration to its last, without what it
    does each second or each 10 ms: on a busy machine, that would be the larger part."""
    os.environ["RDZVD"] = daemon
    wrapper = ("valgrind", "--tool=callgrind", "--toggle-collect=server_run",
               "--toggle-collect=on_tick", "--toggle-collect=heap_trim",
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
