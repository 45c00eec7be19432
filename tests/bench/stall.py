#!/usr/bin/env python3
"""Measures for how long requests that cost much keep the other clients waiting, and what memory they
take.

    stall.py [--list] [--scale F] [--patience S] [--memory-limit SIZE] [--json FILE] [CASE]...

Each case has a rdzvd of its own ($RDZVD), makes a state, and sends what costs much. Meanwhile
another process sends an ADD each millisecond, on time whether the last one has been answered or
not (probe.py). Printed are its longest wait and the 99.9th percentile, without the attack and with
it, and how much of them is the daemon's doing; what the daemon computed meanwhile, and the CPU time
of its longest iteration (iterations.py), which says most on a busy machine; and its memory: before,
the most, when all clients have gone, and how much of that it holds for somebody: keys that were set,
etcd's last thousand events.

--scale makes states and attacks smaller, for a quick look. Nothing here passes or fails.
"""

import argparse
import json
import os
import resource
import select
import socket
import sys
import threading
import time
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", where) for where in ("support", "elastic", "wire")]

import agents                # noqa: E402
from c10d import NONCE, STOP_WAITING, Peer, modern  # noqa: E402
import relay_frames as relay  # noqa: E402
import servers               # noqa: E402
import torch_state as ts     # noqa: E402
from iterations import Iterations  # noqa: E402
from probe import Probe      # noqa: E402

MIB = 1 << 20
PROBED_LEAST = 2  # seconds: a percentile needs some ADDs
FALLS_BACK = 15   # seconds that the memory is given when all have gone
RUN = b"/torch.rendezvous."
CASES = {}
SMALL_MEMORY = "--memory-limit=256MiB"
KEYS_MAX = 131072    # of one request
RUN_KEYS_MAX = 4096  # the same of keys of runs


def case(*flags):
    """A generator that makes a state, yields a description of its requests, sends them, and returns after the last
    answer. It may yield once more and then delete its state, to show whether rdzvd frees the memory. `flags` are for
    its daemon."""
    def add(function):
        CASES[function.__name__.replace("_", "-")] = (function, flags)
        return function
    return add


# --- The scene. ---

class Scene:
    """A daemon, how large the case is to be, and the peers of the case."""

    def __init__(self, flags, options):
        if options.memory_limit:
            flags += ("--memory-limit=" + options.memory_limit,)
        # The probe has a space of its own, so that a case may empty the other one.
        self.iterations = Iterations()
        self.daemon = servers.Rdzvd(servers.token_flag(), *flags, env=self.iterations.environment(),
                                    listen=("127.0.0.1:0", "127.0.0.1:0/probe"))
        self.port, self.probed = self.daemon.ports
        self.options = options
        self.peers = []

    def of(self, count):
        """That many at full scale."""
        return max(1, int(count * self.options.scale))

    def peer(self):
        peer = Peer(self.port)
        peer.socket.settimeout(self.options.patience)
        self.peers.append(peer)
        return peer

    def http(self):
        peer = socket.create_connection(("127.0.0.1", self.port), timeout=self.options.patience)
        self.peers.append(peer)
        return peer

    def ask(self, method, path, body=None, type_="application/json"):
        request = urllib.request.Request(self.daemon.url + path, data=body, method=method,
                                         headers={"Content-Type": type_})
        if path.startswith("/rdzv/"):
            request.headers.update(servers.OPERATOR)
        with urllib.request.urlopen(request, timeout=600) as answer:
            return answer.read()

    def held(self):
        """MiB that the daemon counts for somebody: its account."""
        text = self.ask("GET", "/metrics").decode()
        return sum(float(line.split()[1]) for line in text.splitlines()
                   if line.startswith("rdzvd_memory_bytes{")) / MIB

    def close_peers(self):
        for peer in self.peers:
            peer.close()
        self.peers = []

    def cpu(self):
        with open("/proc/%d/stat" % self.daemon.pid, encoding="ascii") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, name):
        with open("/proc/%d/status" % self.daemon.pid, encoding="ascii") as f:
            for line in f:
                if line.startswith(name):
                    return int(line.split()[1]) / 1024
        return 0


def send_all(sock, data):
    """Sends all data while reading answers, then reads to the end. Returns the number of bytes read."""
    def send():
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the daemon has ended it; the reader sees that too

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    got = 0
    while True:
        more = sock.recv(1 << 20)
        if not more:
            return got
        got += len(more)


def read_to(sock, last):
    """What comes, up to these bytes."""
    got = b""
    while last not in got:
        more = sock.recv(1 << 20)
        if not more:
            raise ConnectionError("the daemon has closed the connection")
        got = got[-len(last):] + more


def multi_set(peer, pairs, most=100000):
    """In requests of some MB, of `most` keys, so that none is over a limit."""
    pairs, size, batch = iter(pairs), 0, []
    for key, value in pairs:
        batch.append((key, value))
        size += len(batch[-1])
        if size > 4 * MIB or len(batch) == most:
            peer.send(modern.multi_set(*batch))
            size, batch = 0, []
    peer.send(modern.multi_set(*batch))
    peer.ping()


def http_request(method, path, body=b"", headers=""):
    return ("%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n" % (
        method, path, headers, "Content-Length: %d\r\n" % len(body) if body else "")
    ).encode() + body


# --- The cases. ---

@case()
def list_keys(s):
    """Thousands of LIST_KEYS in one segment, while a client WAITs for absent keys."""
    waiter = s.peer()
    waiter.wait(*(b"absent/%d" % i for i in range(s.of(131072))))
    waiter.send(modern.ping())  # read behind the WAIT
    waiter.expect(NONCE)
    peer, count = s.peer(), s.of(16000)
    yield "%d LIST_KEYS in %d bytes" % (count, count)
    send_all(peer.socket, modern.list_keys() * count)


@case()
def multi_get(s):
    """MULTI_GET of keys that do not exist, many times."""
    peer, keys, count = s.peer(), s.of(100000), s.of(40)
    request = modern.multi_get(*(b"%d" % i for i in range(keys)))
    yield "%d MULTI_GET of %d absent keys, %d bytes each" % (count, keys, len(request))
    send_all(peer.socket, request * count)


@case()
def metrics(s):
    """GET /metrics again and again, with many idle connections."""
    for _ in range(min(s.of(10000), resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 200)):
        s.http()
    peer, count = s.http(), s.of(1900)
    request = http_request("GET", "/metrics")
    yield "%d GET /metrics, %d bytes; %d idle connections" % (
        count, count * len(request), len(s.peers) - 1)
    send_all(peer, request * count)


@case()
def controls(s):
    """GET of an etcd key that is all control characters, by ten clients at a time."""
    size = s.of(10 * MIB - 100)
    s.ask("PUT", "/v2/keys/controls", b"value=" + b"\x01" * size,
          "application/x-www-form-urlencoded")
    request = http_request("GET", "/v2/keys/controls", headers="Connection: close\r\n")
    peers = [s.http() for _ in range(10)]
    yield "%d GETs of one key, %d bytes; its value has %d" % (
        len(peers), len(peers) * len(request), size)
    readers = [threading.Thread(target=send_all, args=(peer, request)) for peer in peers]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()


def closed_runs(s, count):
    """That many runs, each closed by an agent that stays connected."""
    state = ts.State()
    state.closed = True
    value = ts.dumps(state)
    for i in range(count):
        peer = s.peer()
        peer.send(modern.compare_set(RUN + b"closed-%d" % i, b"", value))
        peer.blob()


def leave_and_await_forgotten(s, peer, left=0):
    """All agents go, and the runs with them but so many; other keys are not to."""
    for agent in [p for p in s.peers if p is not peer]:
        agent.close()
    s.peers = [peer]
    deadline = time.monotonic() + s.options.patience
    while time.monotonic() < deadline and s.ask(
            "GET", "/rdzv/v1/spaces/default/status").count(b'"id"') > left:
        time.sleep(0.02)


@case("--closed-run-ttl=1s")
def forget_runs(s):
    """Closed runs are forgotten, beside many other keys."""
    peer, keys, runs = s.peer(), s.of(1000000), s.of(100)
    multi_set(peer, ((b"other/%d" % i, b"v") for i in range(keys)))
    closed_runs(s, runs)
    yield "%d closed runs are left; %d other keys" % (runs, keys)
    leave_and_await_forgotten(s, peer)


@case("--closed-run-ttl=1s")
def forget_large_run(s):
    """A closed run with many keys of its rounds is forgotten."""
    peer, count = s.peer(), s.of(400000)
    closed_runs(s, 1)
    multi_set(peer, ((RUN + b"closed-0.1/%d" % i, b"v") for i in range(count)), RUN_KEYS_MAX)
    yield "1 closed run is left; it has %d keys of its rounds" % count
    leave_and_await_forgotten(s, peer)


@case("--closed-run-ttl=1s")
def forget_beside_longer_run(s):
    """A closed run is forgotten, beside many keys of one whose name begins as its own."""
    peer, count = s.peer(), s.of(400000)
    closed_runs(s, 1)
    multi_set(peer, [(RUN + b"closed-0.1/", ts.dumps(ts.State()))])
    multi_set(peer, ((RUN + b"closed-0.1/.1/%d" % i, b"v") for i in range(count)), RUN_KEYS_MAX)
    yield "1 closed run is left; %d keys are of one with a longer name" % count
    leave_and_await_forgotten(s, peer, left=1)
    yield
    delete(peer, (RUN + b"closed-0.1/.1/%d" % i for i in range(count)))


def slashes(s):
    tail = RUN + b"/.1" * ((8192 - len(RUN) - 8) // 3)
    return len(tail) + 7, ((tail + b"/%06d" % i, b"v") for i in range(s.of(2000)))


@case("--closed-run-ttl=1s")
def forget_beside_slashes(s):
    """A closed run is forgotten, beside keys that look like keys of a round everywhere."""
    peer, (size, pairs) = s.peer(), slashes(s)
    closed_runs(s, 1)
    multi_set(peer, pairs)
    yield "1 closed run is left; %d keys of %d bytes, full of \"/.1\"" % (s.of(2000), size)
    leave_and_await_forgotten(s, peer)


@case()
def set_slashes(s):
    """The keys of forget-beside-slashes are set, in requests of 4 MB."""
    peer, (size, pairs) = s.peer(), slashes(s)
    yield "%d keys of %d bytes, full of \"/.1\", are set" % (s.of(2000), size)
    multi_set(peer, pairs)
    yield
    delete(peer, (key for key, _ in slashes(s)[1]))


@case()
def many_runs(s):
    """One client has made many runs; then seconds pass."""
    peer, count = s.peer(), s.of(24000)
    yield "a compare-and-set of each of %d runs; then 3 s" % count
    state = ts.dumps(ts.State())
    for first in range(0, count, 500):
        runs = range(first, min(count, first + 500))
        peer.send(b"".join(modern.compare_set(RUN + b"%d" % i, b"", state) for i in runs))
        for _ in runs:
            peer.blob()
    time.sleep(3)


@case()
def list_runs(s):
    """One client has made many runs; another looks at them one by one."""
    peer, count = s.peer(), s.of(15000)
    state = ts.dumps(ts.State())
    multi_set(peer, ((RUN + b"%d" % i, state) for i in range(count)), RUN_KEYS_MAX)
    path = "/rdzv/v1/spaces/default/runs/"
    requests = b"".join(http_request("GET", "%s%d?rank=0" % (path, count - i)) for i in range(1, s.of(5000)))
    yield "%d GETs of one of %d runs" % (requests.count(b"GET"), count)
    send_all(s.http(), requests)


def add_keys(s, count):
    """One by one, in pipelines."""
    peer = s.peer()
    for first in range(0, count, 10000):
        keys = range(first, min(first + 10000, count))
        peer.send(b"".join(modern.set(b"some/key/%d" % i, b"v")
                           for i in keys))
        peer.ping()


@case()
def one_by_one(s):
    """Many keys are set one by one, so that tables grow."""
    count = s.of(2200000)
    yield "%d SETs" % count
    add_keys(s, count)
    yield
    delete(s.peer(), (b"some/key/%d" % i for i in range(count)))


@case()
def clear_space(s):
    """A large space is emptied by an operator."""
    count = s.of(1100000)
    add_keys(s, count)
    yield "a DELETE of a space with %d keys" % count
    s.ask("DELETE", "/rdzv/v1/spaces/default")


@case("--space-idle-timeout=1s")
def idle_space(s):
    """A large space is forgotten, since all its clients have gone."""
    count = s.of(1100000)
    add_keys(s, count)
    yield "the last client leaves a space with %d keys" % count
    s.close_peers()
    s.daemon.wait_log("event=space_forgotten space=default", timeout=60)


@case("--space-idle-timeout=1s")
def idle_space_large(s):
    """The same of large values."""
    peer, count = s.peer(), s.of(20000)
    multi_set(peer, ((b"large/%d" % i, b"v" * 50000) for i in range(count)))
    yield "the last client leaves a space with %d values of 50000 bytes" % count
    s.close_peers()
    s.daemon.wait_log("event=space_forgotten space=default", timeout=60)


@case(SMALL_MEMORY)
def long_path(s):
    """PUTs whose path is nearly as long as the head of a request may be."""
    path = "/v2/keys" + "/a" * ((MIB - 1000) // 2)
    request = http_request("PUT", path, b"value=v", "Content-Type: application/x-www-form-urlencoded\r\n")
    count = s.of(20)
    yield "%d PUTs with a path of %d bytes" % (count, len(path))
    for _ in range(count):
        send_all(s.http(), request)


@case("--space-limit=10MiB", SMALL_MEMORY)
def worker_rounds(s):
    """Workers of many rounds fill the store of their round, and stay. At the end the run is forgotten."""
    rounds, nodes = s.of(30), ["a", "b"]
    yield "workers of %d rounds set what they may, with --space-limit=10MiB" % rounds
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listening:
        agents_ = agents.meet(s.port, "job", nodes)
        for number in range(rounds):
            agents_[0].say_where(number, b"agent-0.example", listening.getsockname()[1])
            where = [agent.ask_where(number) for agent in agents_][0]
            for _ in range(3):
                worker = Peer(where[1])
                s.peers.append(worker)
                try:
                    multi_set(worker, ((b"w/%d" % i, b"v" * 1000) for i in range(s.of(10000))))
                except (EOFError, OSError):
                    pass  # it may not have so much
            agents_[0].leave()
            agents_[1].read()
            agents.rejoin(agents_)
        s.peers += agents_
    s.ask("DELETE", "/rdzv/v1/spaces/default/runs/job")


@case()
def appends(s):
    """Small APPENDs to a large value at a run's key: the start of a state, never a whole one."""
    peer, size, count = s.peer(), s.of(8 * MIB - 1000) & ~3, s.of(200)
    state = ts.State()
    while len(state.participants) < size // 60:  # nodes take more than that
        state.participants[ts.Node("node-%d" % len(state.participants), 1, 0)] = 0
    peer.set(RUN + b"big", ts.dumps(state)[:size])
    peer.ping()
    request = modern.append(RUN + b"big", b"AAAA")
    yield "%d APPENDs, %d bytes, to a value of %d" % (count, count * len(request), size)
    send_all(peer.socket, request * count)


@case()
def appends_to_held(s):
    """Small APPENDs to a large value. A GET whose answer the client has not read precedes each APPEND, so rdzvd must
    copy the value."""
    peers, size = [s.peer() for _ in range(4)], s.of(7 * MIB)
    peers[0].set(b"held", b"v" * size)
    peers[0].ping()
    request = (modern.get(b"held") + modern.append(b"held", b"x")) * 6
    yield "6 GETs and APPENDs by each of %d clients, to a value of %d bytes" % (len(peers), size)
    for peer in peers:
        peer.send(request)
    for_all(lambda peer: take(peer.socket, 6 * size), peers)


@case()
def delete_large(s):
    """DELETEs of large values in one segment."""
    peer, size, count = s.peer(), s.of(7 * MIB), s.of(40)
    for i in range(count):
        peer.set(b"large/%d" % i, b"v" * size)
    peer.ping()
    request = b"".join(modern.delete(b"large/%d" % i) for i in range(count))
    yield "%d DELETEs of values of %d bytes, %d bytes" % (count, size, len(request))
    peer.send(request)
    take(peer.socket, 8 * count)


@case()
def add_to_blanks(s):
    """Many clients ADD to 8 MB of blanks. This value is no number, so rdzvd closes each connection."""
    peers = [s.peer() for _ in range(s.of(300))]
    peers[0].set(b"blanks", b" " * s.of(8 * MIB - 1000))
    peers[0].ping()
    yield "an ADD by each of %d clients, to a value of 8 MB of blanks" % len(peers)
    for peer in peers:
        peer.send(modern.add(b"blanks", 1))
    for peer in peers:
        if peer.socket.recv(1):
            raise AssertionError("blanks are no number")


# --- Lists, requests with many keys, and changes that many wait for. ---

def name_of(i, size=0):
    return (b"key/%07d" % i).ljust(size, b".")


def for_all(function, peers):
    """At the same time."""
    threads = [threading.Thread(target=function, args=(peer,)) for peer in peers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def take(sock, size):
    while size > 0:
        size -= len(sock.recv(min(size, 1 << 20))) or sys.exit("the daemon closed a connection")


def settle(s, quiet=1):
    """Until the daemon has computed little for that many seconds: those who wait go on."""
    while True:
        before = s.cpu()
        time.sleep(quiet)
        if s.cpu() - before <= 0.1 * quiet:
            return


def send_unread(s, sock, data):
    """Sends as much as the daemon takes, and reads nothing."""
    sock.setblocking(False)
    since, sent = time.monotonic(), 0
    while sent < len(data) and time.monotonic() - since < 3:
        try:
            sent += sock.send(data[sent:sent + (1 << 20)])
            since = time.monotonic()
        except BlockingIOError:
            time.sleep(0.01)
        except OSError:
            break  # the daemon has had enough of it
    settle(s)


def delete(peer, keys):
    """In pipelines; all of them are there."""
    keys = list(keys)
    for first in range(0, len(keys), 10000):
        part = keys[first:first + 10000]
        peer.send(b"".join(modern.delete(key) for key in part))
        take(peer.socket, 8 * len(part))


def with_keys(s, count, size=0):
    multi_set(s.peer(), ((name_of(i, size), b"v") for i in range(count)))


def lists(s, clients, each):
    keys = s.of(1000000)
    with_keys(s, keys)
    peers = [s.peer() for _ in range(clients)]
    size = 8 + keys * (8 + len(name_of(0)))
    yield "%d LIST_KEYS by each of %d clients; %d keys" % (each, clients, keys)

    def ask(peer):
        peer.send(modern.list_keys() * each)
        take(peer.socket, size * each)
    for_all(ask, peers)


@case()
def list_all(s):
    """LIST_KEYS of many keys, once."""
    yield from lists(s, 1, 1)


@case()
def list_all_pipelined(s):
    """LIST_KEYS of many keys, again and again."""
    yield from lists(s, 1, 20)


@case()
def list_all_clients(s):
    """LIST_KEYS of many keys, by many clients at once."""
    yield from lists(s, 100, 1)


@case()
def list_all_changing(s):
    """LIST_KEYS of many keys again and again, while others make keys and delete them."""
    keys, ended = s.of(1000000), threading.Event()
    with_keys(s, keys)
    peer, changer = s.peer(), s.peer()
    yield "20 LIST_KEYS of %d keys; others delete keys and make them" % keys

    def change():
        i = 0
        while not ended.is_set():
            i += 1
            key = name_of(i * 7919 % keys)
            changer.send((modern.delete(key) + modern.set(key, b"v")) * 50)
            take(changer.socket, 50 * 8)

    thread = threading.Thread(target=change)
    thread.start()
    for _ in range(20):
        peer.send(modern.list_keys())
        take(peer.socket, 8 + keys * (8 + len(name_of(0))) - (0 if peer.number() == keys else 19))
    ended.set()
    thread.join()


@case(SMALL_MEMORY)
def list_unread(s):
    """LIST_KEYS of long keys by a client that never reads."""
    count = s.of(11500)
    with_keys(s, count, 8000)
    yield "20 LIST_KEYS of %d keys of 8000 bytes, nobody reads" % count
    send_unread(s, s.peer().socket, modern.list_keys() * 20)


def cold(s):
    """What is in the processor's caches goes."""
    bytearray(256 * MIB)


def many(s, pack, keys, answer):
    """The same request, 10 times, of keys that lie far apart."""
    with_keys(s, s.of(1000000))
    with_keys(s, s.of(1000), 1000)
    peer, count = s.peer(), s.of(KEYS_MAX)
    request = pack(*(keys(i) for i in range(count)))
    yield "10 times a %s of %d keys, %d bytes each; many keys in the store" % (
        pack.__name__, count, len(request))
    for _ in range(10):
        cold(s)
        peer.send(request)
        peer.socket.settimeout(None)
        take(peer.socket, answer(count))


def far(s):
    total = s.of(1000000)
    return lambda i: name_of(i * 524287 % total)


@case()
def check_many(s):
    """CHECK of the largest number of keys, all present."""
    yield from many(s, modern.check, far(s), lambda _: 1)


@case()
def check_queues(s):
    """CHECK of the largest number of queues, while another queue comes and goes."""
    peer, other, count = s.peer(), s.peer(), s.of(KEYS_MAX)
    names = [b"queue/%d" % (i * 524287 % count) for i in range(count)]
    for first in range(0, count, 10000):
        peer.send(b"".join(modern.push(name, b"v")
                           for name in names[first:first + 10000]))
    peer.ping()
    names.sort()
    request, ended = modern.check(*names), threading.Event()
    flap = modern.push(b"other", b"v") + modern.pop(b"other")

    def come_and_go():
        while not ended.is_set():
            other.send(flap)
            take(other.socket, 17)

    yield "10 CHECKs of %d queues, %d bytes each, and a queue that comes and goes" % (
        count, len(request))
    flapper = threading.Thread(target=come_and_go)
    flapper.start()
    for _ in range(10):
        cold(s)
        peer.send(request)
        peer.socket.settimeout(None)
        peer.expect_stop_waiting()
    ended.set()
    flapper.join()
    yield
    for first in range(0, count, 10000):
        part = names[first:first + 10000]
        peer.send(b"".join(modern.pop(name) for name in part))
        take(peer.socket, 17 * len(part))


@case()
def check_long(s):
    """CHECK of long keys, which all exist."""
    yield from many(s, modern.check, lambda i: name_of(i % s.of(1000), 1000), lambda _: 1)


@case()
def get_many(s):
    """MULTI_GET of as many keys as it may have."""
    yield from many(s, modern.multi_get, far(s), lambda count: 9 * count)


@case()
def get_absent(s):
    """The same of keys that do not exist."""
    yield from many(s, modern.multi_get, lambda i: b"absent/%d" % i, lambda count: 8 * count)


def come_and_go(s, request):
    """So many connections ask, and are closed in one moment, before they are answered; then the next
    ones come."""
    count, data = s.of(500), modern.hello() + request
    yield "40 times %d connections, %d bytes each, that are closed before they are answered" % (
        count, len(data))
    for _ in range(40):
        peers = [s.http() for _ in range(count)]
        for peer in peers:
            peer.sendall(data)
        s.close_peers()


@case()
def come_and_go_cheap(s):
    """An ADD of each."""
    yield from come_and_go(s, modern.add(b"n", 1))


@case()
def come_and_go_waiting(s):
    """A WAIT for 1,000 absent keys of each."""
    yield from come_and_go(s, modern.wait(*(b"absent/%d" % i for i in range(1000))))


@case()
def wait_many(s):
    """WAIT for the largest number of keys: only the last key is absent. A client sets and deletes that key."""
    total = s.of(1000000)
    with_keys(s, total)
    waiter, setter, count = s.peer(), s.peer(), s.of(KEYS_MAX)
    request = modern.wait(*(far(s)(i) for i in range(count - 1)), b"last")
    yield "10 WAITs of %d keys, %d bytes each; %d keys in the store" % (count, len(request), total)
    for _ in range(10):
        cold(s)
        waiter.send(request)
        settle(s, 0.2)
        setter.set(b"last", b"v")
        waiter.expect_stop_waiting()
        setter.send(modern.delete(b"last"))
        setter.number()


@case()
def wait_absent(s):
    """WAIT for as many absent keys as it may have. Then they all come at once."""
    total = s.of(1000000)
    with_keys(s, total)
    waiter, setter, count = s.peer(), s.peer(), s.of(KEYS_MAX)
    yield "5 WAITs of %d absent keys, then a MULTI_SET of them; %d keys in the store" % (
        count, total)
    for i in range(5):
        keys = [b"round/%d/%d" % (i, k) for k in range(count)]
        waiter.wait(*keys)
        settle(s, 0.2)
        setter.send(modern.multi_set(*((key, b"v") for key in keys)))
        waiter.expect_stop_waiting()
    yield
    delete(setter, (b"round/%d/%d" % (i, k) for i in range(5) for k in range(count)))


@case(SMALL_MEMORY)
def set_awaited(s):
    """MULTI_SET of the largest number of keys, while 20 clients wait for every key."""
    count = s.of(KEYS_MAX)
    keys = [b"round/%d" % k for k in range(count)]
    waiters, setter = [s.peer() for _ in range(20)], s.peer()
    for waiter in waiters:
        waiter.send(modern.wait(*keys) + modern.ping())
        waiter.expect(NONCE)
    yield "a MULTI_SET of %d keys, for each of which %d clients wait" % (count, len(waiters))
    setter.send(modern.multi_set(*((key, b"v") for key in keys)))
    for waiter in waiters:
        waiter.expect_stop_waiting()
    yield
    delete(setter, keys)


@case()
def set_many(s):
    """MULTI_SET of as many keys as it may have, new ones and old ones."""
    total = s.of(1000000)
    with_keys(s, total)
    peer, count = s.peer(), s.of(KEYS_MAX)
    yield "5 MULTI_SETs of %d new keys, and of as many old ones; %d keys in the store" % (
        count, total)
    for keys in [[b"new/%d/%d" % (i, k) for k in range(count)] for i in range(5)] + [
            [far(s)(k) for k in range(count)]] * 5:
        cold(s)
        peer.send(modern.multi_set(*((key, b"value") for key in keys)))
        peer.ping()
    yield
    delete(peer, (b"new/%d/%d" % (i, k) for i in range(5) for k in range(count)))


@case()
def set_many_and_a_run(s):
    """MULTI_SET of as many old keys as it may have, and one of a run among them."""
    total = s.of(1000000)
    with_keys(s, total)
    peer, count = s.peer(), s.of(KEYS_MAX)
    keys = [RUN + b"job"] + [far(s)(k) for k in range(count - 1)]
    yield "10 MULTI_SETs of %d keys, the first of which is of a run; %d keys in the store" % (count, total)
    for _ in range(10):
        cold(s)
        peer.send(modern.multi_set(*((key, b"value") for key in keys)))
        peer.ping()
    yield
    delete(peer, [RUN + b"job"])


@case()
def set_many_of_run(s):
    """MULTI_SET of the largest number of keys of one run, first new keys and then existing keys. Each key's name also
    matches the pattern of three other runs."""
    peer, count, state = s.peer(), s.of(RUN_KEYS_MAX), ts.State()
    state.participants[ts.Node("node", 1, 0)] = 0
    peer.set(RUN + b"job", ts.dumps(state))
    keys = [RUN + b"job.0/%d.1/%d.2/%d.3/" % (k % 1000, k, k) for k in range(count)]
    yield "10 MULTI_SETs of %d keys of one run" % count
    for _ in range(10):
        cold(s)
        peer.send(modern.multi_set(*((key, b"value") for key in keys)))
        peer.ping()
    yield
    delete(peer, keys + [RUN + b"job"])


def wakes(s, request, answer, count):
    """That many clients wait for one key; it comes, and goes, 10 times."""
    peers = [s.peer() for _ in range(count)]
    setter = s.peer()
    yield "%d clients wait for one key that comes, 10 times" % count
    for _ in range(10):
        for peer in peers:
            peer.send(request)
        settle(s, 0.2)
        setter.set(b"wanted", b"v")
        for peer in peers:
            peer.expect(answer)
        setter.send(modern.delete(b"wanted"))
        setter.number()


@case()
def wake_waiters(s):
    """A key comes that many clients wait for."""
    yield from wakes(s, modern.wait(b"wanted"), STOP_WAITING, s.of(9000))


def watchers(s, count, paths):
    peers = []
    for i in range(count):
        peer = s.http()
        peer.sendall(http_request("GET", "/v2/keys" + paths[i % len(paths)]))
        peers.append(peer)
    for peer in peers:
        peer.recv(1 << 16)  # the head
    return peers


def put(s, key, value):
    s.ask("PUT", "/v2/keys" + key, b"value=" + value, "application/x-www-form-urlencoded")


def read_until(s, peers, last):
    """Reads all peers in parallel until each has sent the bytes `last`. Returns how many peers closed before."""
    left, tails, early, poll = {p.fileno(): p for p in peers}, {}, 0, select.poll()
    for fd in left:
        poll.register(fd, select.POLLIN)
    while left:
        for fd, _ in poll.poll(1000 * s.options.patience) or sys.exit("not all are told"):
            got = left[fd].recv(1 << 20)
            tail = tails.get(fd, b"") + got
            tails[fd] = tail[-400:]
            if not got or last in tail:
                early += not got
                poll.unregister(fd)
                del left[fd]
    return early


def await_watchers(s, count):
    """Until the daemon has so many open watches."""
    deadline = time.monotonic() + s.options.patience
    while json.loads(s.ask("GET", "/v2/stats/store"))["watchers"] != count:
        if time.monotonic() > deadline:
            raise TimeoutError("there are not %d watches" % count)
        time.sleep(0.02)


@case()
def lost_link(s):
    """The link of a relay with as many clients as it may have is lost, time after time; half of them are
    agents of one run. It comes back, and they with it; but for the last time, when they are given up."""
    count = s.of(65536)
    yield "10 links of %d sessions are lost" % count
    look = modern.check(RUN + b"job")
    for turn in range(10):
        link = s.http()
        link.sendall(relay.hello(b"default"))
        for first in range(1, count + 1, 1000):
            link.sendall(b"".join(
                relay.opened(i, i, turn > 0) + (relay.request(look, i, 1) if i % 2 and turn == 0 else b"")
                for i in range(first, min(first + 1000, count + 1))))
            link.setblocking(False)
            try:
                while link.recv(1 << 20):
                    pass
            except BlockingIOError:
                link.settimeout(s.options.patience)
        link.sendall(relay.frame(relay.PING, number=7))
        read_to(link, relay.frame(relay.PONG, number=7))
        link.close()
        s.peers.remove(link)
        settle(s, 0.5)
    time.sleep(4)  # RELAY_RETURN_MS, and a tick


@case()
def watch_key(s):
    """PUTs of a key that many watch, and its directories."""
    count = s.of(9000)
    paths = ["/a/b/c?wait=true", "/a/b?wait=true&recursive=true", "/a?wait=true&recursive=true"]
    yield "10 times: %d watches, then a PUT" % count
    for i in range(10):
        peers = watchers(s, count, paths)
        put(s, "/a/b/c", b"%d" % i)
        for peer in peers:
            while not peer.recv(1 << 16).endswith(b"0\r\n\r\n"):
                pass
        for peer in peers:
            peer.close()
        s.peers = s.peers[:-count]


@case()
def watch_directory(s):
    """PUTs below a directory that many watch as a stream."""
    peers = watchers(s, s.of(1000), ["/dir?wait=true&recursive=true&stream=true"])
    count = s.of(2000)
    request = b"".join(http_request(
        "PUT", "/v2/keys/dir/%d" % i, b"value=" + b"v" * 100,
        "Content-Type: application/x-www-form-urlencoded\r\n") for i in range(count))
    yield "%d PUTs, %d watchers" % (count, len(peers))
    sender = threading.Thread(target=send_all, args=(s.http(), request))
    sender.start()
    read_until(s, peers, ('"key":"/dir/%d"' % (count - 1)).encode())
    sender.join()


@case(SMALL_MEMORY)
def watch_unread(s):
    """PUTs that many watch as a stream, and nobody reads."""
    peers, count = [], s.of(4000)
    for _ in range(s.of(2000)):
        peer = s.http()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        peer.sendall(http_request("GET", "/v2/keys/dir?wait=true&recursive=true&stream=true"))
        peers.append(peer)
    settle(s, 0.3)
    request = b"".join(http_request(
        "PUT", "/v2/keys/dir/%d" % (i % 100), b"value=" + b"v" * 300,
        "Content-Type: application/x-www-form-urlencoded\r\n") for i in range(count))
    yield "%d PUTs of 300 bytes, %d stream watches" % (count, len(peers))
    send_all(s.http(), request)
    settle(s)


@case(SMALL_MEMORY)
def get_unread(s):
    """MULTI_GET of one key again and again in the same request, and nobody reads."""
    peer, count = s.peer(), s.of(KEYS_MAX)
    peer.set(b"one", b"v" * 1000)
    request = modern.multi_get(*[b"one"] * count)
    yield "20 MULTI_GETs of one key of 1000 bytes, %d times each, %d bytes" % (
        count, 20 * len(request))
    send_unread(s, peer.socket, request * 20)


# --- Cases of large trees and values. ---

def pipelined(s, requests):
    """Sends many small requests on one connection; all are answered when it returns."""
    peer = s.http()
    send_all(peer, b"".join(requests))
    peer.close()
    s.peers.remove(peer)


def many_nodes(s, count, ttl=None):
    """Keys /t/0/0 to /t/999/…, so that there are that many nodes."""
    pipelined(s, (http_request(
        "PUT", "/v2/keys/t/%d/%d?value=v%s" % (i % 1000, i, "" if ttl is None else "&ttl=%d" % ttl))
                  for i in range(count)))


def by_all(peers, data):
    """Each sends that and reads to the end of the answer, at the same time."""
    readers = [threading.Thread(target=send_all, args=(peer, data)) for peer in peers]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()


def get_recursive(s, clients, query):
    many_nodes(s, s.of(1000000))
    request = http_request("GET", "/v2/keys/t?" + query, headers="Connection: close\r\n")
    peers = [s.http() for _ in range(clients)]
    yield "%d GETs of a tree of %d nodes, ?%s" % (clients, s.of(1000000), query)
    by_all(peers, request)


@case()
def recursive_get(s):
    """GET of a large tree."""
    yield from get_recursive(s, 1, "recursive=true")


@case()
def recursive_get_by_ten(s):
    """The same by ten clients at a time."""
    yield from get_recursive(s, 10, "recursive=true")


@case()
def sorted_get(s):
    """GET of one directory with many keys, sorted by name; the keys were created in another order."""
    count = s.of(1000000)
    pipelined(s, (http_request("PUT", "/v2/keys/t/%d?value=v" % (i * 7919 % count))
                  for i in range(count)))
    yield "1 GET of a directory of %d keys, ?sorted=true" % count
    send_all(s.http(), http_request("GET", "/v2/keys/t?sorted=true",
                                    headers="Connection: close\r\n"))


@case()
def recursive_delete(s):
    """DELETE of a large tree."""
    many_nodes(s, s.of(1000000))
    yield "1 DELETE of a tree of %d nodes" % s.of(1000000)
    send_all(s.http(), http_request("DELETE", "/v2/keys/t?recursive=true"))
    time.sleep(1)  # what is left of it is freed


@case()
def ttls(s):
    """Many TTLs end at the same time."""
    count = s.of(300000)
    began = time.monotonic()
    many_nodes(s, count, ttl=40)
    yield "%d keys expire" % count
    time.sleep(max(0, began + 40 - time.monotonic()))
    while b'"key":"/t/999/' in s.ask("GET", "/v2/keys/t/999"):
        time.sleep(0.1)


@case()
def large_put_watchers(s):
    """PUTs of a large value that many watch."""
    size, watchers, count = s.of(MIB), s.of(1000), 4
    request = http_request("GET", "/v2/keys/large?wait=true")
    peers = [s.http() for _ in range(watchers)]
    yield "%d PUTs of %d bytes, %d watchers, each of the next" % (count, size, watchers)
    body = b"value=" + b"x" * size
    form = "Content-Type: application/x-www-form-urlencoded\r\n"
    for _ in range(count):
        for peer in peers:
            peer.sendall(request)
        await_watchers(s, watchers)
        sender = threading.Thread(target=send_all, args=(
            s.http(), http_request("PUT", "/v2/keys/large", body, headers=form)))
        sender.start()
        early = read_until(s, peers, b"\r\n0\r\n\r\n")
        sender.join()
        if early > 0:
            raise ConnectionError("the daemon ended %d watches: %s" % (early, s.daemon.log()[-300:]))


@case()
def large_put(s):
    """PUTs of values that are all control characters: what was is in the answer, too."""
    size, count = s.of(10 * MIB - 100), 4
    body = b"value=" + b"\x01" * size
    form = "Content-Type: application/x-www-form-urlencoded\r\n"
    yield "%d PUTs of %d bytes" % (count, size)
    for _ in range(count):
        send_all(s.http(), http_request("PUT", "/v2/keys/large", body, headers=form))


# --- Running. ---

def ms(seconds):
    return "%.1f" % (1000 * seconds)


def fall_back(scene, before):
    """Closes all peers, and returns the memory once it is stable and back near `before`, or after FALLS_BACK
    seconds."""
    scene.close_peers()
    deadline, now = time.monotonic() + max(1, min(1, scene.options.scale) * FALLS_BACK), None
    while time.monotonic() < deadline:
        last, now = now, scene.memory("VmRSS")
        if now == last and now <= 1.2 * before:
            break
        time.sleep(1)
    return now


def measure(name, options):
    function, flags = CASES[name]
    scene = Scene(flags, options)
    probe = None
    try:
        attack = function(scene)
        sends = next(attack)
        probe = Probe(scene.probed, scene.daemon.pid)
        time.sleep(min(1, options.scale) * PROBED_LEAST)
        quiet = probe.end()
        before, cpu = scene.memory("VmRSS"), scene.cpu()
        scene.iterations.begin()
        probe = Probe(scene.probed, scene.daemon.pid)
        began = time.monotonic()
        try:
            next(attack, None)
            ended = ""
        except OSError as e:
            ended = " (not to the end: %s)" % e
        took, cpu = time.monotonic() - began, scene.cpu() - cpu
        time.sleep(max(0, min(1, options.scale) * PROBED_LEAST - took))
        waits = probe.end()
        longest, iterations = scene.iterations.longest() or 0, scene.iterations.text()
        peak = scene.memory("VmHWM")
        next(attack, None)
        after = fall_back(scene, before)
        held = scene.held()
        print("%s: %s\n    took %.2f s%s, the daemon computed %.2f s\n"
              "    %s\n    others waited: %s\n    without it: %s\n"
              "    memory: %.1f MiB before, peak %.1f, %.1f when all have gone, of which %.1f are held" % (
                  name, sends, took, ended, cpu, iterations, waits.text(), quiet.text(), before, peak,
                  after, held),
              flush=True)
        return {"case": name, "took": took, "computed": cpu, "iteration": longest, "longest": waits.longest,
                "p999": waits.p999, "longest_own": waits.longest_own, "p999_own": waits.p999_own,
                "quiet": quiet.longest, "before": before, "peak": peak, "after": after, "held": held}
    finally:
        if probe is not None:
            probe.close()
        scene.close_peers()
        scene.daemon.process.kill()
        scene.daemon.process.wait()


HEAD = ("case", "computed", "iteration", "longest", "p99.9", "own longest", "own p99.9", "before", "peak", "after", "held")


def table(results):
    """One line for each case. `iteration` is the CPU time of the longest; `own`, the daemon's part."""
    rows = [HEAD] + [(r["case"], "%.2f s" % r["computed"], "%.1f" % r["iteration"],
                      ms(r["longest"]), ms(r["p999"]),
                      ms(r["longest_own"]), ms(r["p999_own"]), *("%.0f" % r[key] for key in (
                          "before", "peak", "after", "held"))) for r in results]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    print("\nmilliseconds, and MiB")
    for row in rows:
        print("  ".join(cell.ljust(w) if i == 0 else cell.rjust(w)
                        for i, (cell, w) in enumerate(zip(row, widths))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--list", action="store_true", help="print the cases")
    parser.add_argument("--scale", type=float, default=1, help="of states and attacks")
    parser.add_argument("--patience", type=float, default=90, help="seconds without an answer")
    parser.add_argument("--memory-limit", metavar="SIZE", help="of the daemons, in all cases")
    parser.add_argument("--json", metavar="FILE", help="write all figures there, too")
    options = parser.parse_args()

    if options.list:
        for name, (function, _) in CASES.items():
            print("%-22s %s" % (name, function.__doc__))
        return
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error("no such case: %s; see --list" % ", ".join(unknown))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    results = []
    for name in options.cases or CASES:
        try:
            results.append(measure(name, options))
        except (AssertionError, OSError) as e:
            print("%s: %s" % (name, e), flush=True)
    table(results)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(results, f, indent=1)


main()
