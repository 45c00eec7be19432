#!/usr/bin/env python3
"""Measures for how long requests that cost much keep the other clients waiting.

    stall.py [--list] [--scale F] [--patience S] [CASE]...

Each case has a rdzvd of its own ($RDZVD), makes a state, and sends what costs much. Meanwhile
another process sends an ADD each millisecond, on time whether the last one has been answered or
not. Printed are its longest wait and the 99.9th percentile, without the attack and with it; what
the daemon computed meanwhile, and its memory.

--scale makes states and attacks smaller, for a quick look. Nothing here passes or fails.
"""

import argparse
import json
import os
import resource
import select
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "elastic")]

import agents                # noqa: E402
import servers               # noqa: E402
import torch_state as ts     # noqa: E402

MIB = 1 << 20
PERIOD = 0.001
PROBED_LEAST = 2  # seconds: a percentile needs some ADDs
RUN = b"/torch.rendezvous."
CASES = {}


def case(*flags):
    """A generator that makes a state, yields what it is going to send, sends it, and returns when
    all is answered. `flags` are for its daemon."""
    def add(function):
        CASES[function.__name__.replace("_", "-")] = (function, flags)
        return function
    return add


# --- Those who wait. ---

def probe(port):
    """Until stdin ends: an ADD each millisecond. Prints what they waited, in seconds."""
    peer = agents.Peer(port)
    request = b"\x04" + agents.text(b"stall/probe") + struct.pack("<q", 1)
    peer.socket.setblocking(False)
    sent, waits, left = [], [], b""
    due, ended = time.monotonic(), False
    print("ready", flush=True)
    while not ended or len(waits) < len(sent):
        now = time.monotonic()
        if not ended and now >= due:
            peer.socket.send(request)
            sent.append(due)
            due += PERIOD
            continue
        watched = [peer.socket] if ended else [peer.socket, sys.stdin]
        for ready in select.select(watched, [], [], None if ended else due - now)[0]:
            if ready is sys.stdin:
                ended = True
                continue
            got = peer.socket.recv(1 << 16)
            if not got:
                raise SystemExit("the daemon closed the connection of those who wait")
            left += got
            now = time.monotonic()
            while len(left) >= 8:
                left = left[8:]
                waits.append(now - sent[len(waits)])
    waits.sort()
    print(json.dumps({"longest": waits[-1], "p999": waits[int(len(waits) * 0.999)]}), flush=True)


class Others:
    """The process that runs probe()."""

    def __init__(self, port):
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--probe",
                                         str(port)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.process.stdout.readline()

    def end(self):
        out = self.process.communicate()[0]
        return json.loads(out) if out else {"longest": float("inf"), "p999": float("inf")}


# --- The scene. ---

class Scene:
    """A daemon, how large the case is to be, and the peers of the case."""

    def __init__(self, flags, options):
        self.daemon = servers.Rdzvd(*flags)
        self.port = self.daemon.port
        self.options = options
        self.peers = []

    def of(self, count):
        """That many at full scale."""
        return max(1, int(count * self.options.scale))

    def peer(self):
        peer = agents.Peer(self.port)
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
        with urllib.request.urlopen(request, timeout=600) as answer:
            return answer.read()

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
    """Sends all while it reads what comes, and then to the end. How many bytes came."""
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


def multi_set(peer, pairs):
    """In requests of some MB, so that none is over a limit."""
    pairs, size, batch = iter(pairs), 0, []
    for key, value in pairs:
        batch.append(agents.text(key) + agents.text(value))
        size += len(batch[-1])
        if size > 4 * MIB or len(batch) == 100000:
            peer.send(b"\x0b" + struct.pack("<Q", len(batch)) + b"".join(batch))
            size, batch = 0, []
    peer.send(b"\x0b" + struct.pack("<Q", len(batch)) + b"".join(batch))
    peer.ping()


def http_request(method, path, body=b"", headers=""):
    return ("%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n" % (
        method, path, headers, "Content-Length: %d\r\n" % len(body) if body else "")
    ).encode() + body


# --- The cases. ---

@case()
def list_keys(s):
    """LIST_KEYS again and again in one segment, while somebody WAITs for absent keys."""
    waiter = s.peer()
    waiter.send(agents.wait_request(*(b"absent/%d" % i for i in range(s.of(131072)))))
    waiter.send(b"\x0d....")  # read behind the WAIT
    waiter.expect(b"....")
    peer, count = s.peer(), s.of(16000)
    yield "%d LIST_KEYS in %d bytes" % (count, count)
    send_all(peer.socket, b"\x11" * count)


@case()
def multi_get(s):
    """MULTI_GET of keys that do not exist, many times."""
    peer, keys, count = s.peer(), s.of(100000), s.of(40)
    request = b"\x0a" + struct.pack("<Q", keys) + b"".join(
        agents.text(b"%d" % i) for i in range(keys))
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


def role_names(first, count):
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
    for n in range(first, first + count):
        yield "".join(letters[n >> shift & 63] for shift in (18, 12, 6, 0))


@case()
def grants(s):
    """Small grants to a user who has as many roles as it may."""
    batch, wanted, have = s.of(140000), s.of(1900000), 0
    s.ask("PUT", "/v2/auth/users/u", b'{"user":"u","password":"p"}')
    while have < wanted and batch > 1000 * s.options.scale:
        body = json.dumps({"user": "u", "grant": list(role_names(have, batch))},
                          separators=(",", ":")).encode()
        try:
            s.ask("PUT", "/v2/auth/users/u", body)
            have += batch
        except urllib.error.HTTPError:
            batch //= 2  # there is no room for that many
    count = s.of(100)
    requests = b"".join(
        http_request("PUT", "/v2/auth/users/u", b'{"user":"u","grant":["+%d"]}' % i)
        for i in range(count))
    yield "%d PUTs with a grant, %d bytes; the user has %d roles" % (count, len(requests), have)
    send_all(s.http(), requests)


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
        peer.send(agents.cas_request(RUN + b"closed-%d" % i, b"", value))
        peer.blob()


def leave_and_await_forgotten(s, peer):
    """All agents go, and the runs with them; other keys are not to."""
    for agent in [p for p in s.peers if p is not peer]:
        agent.close()
    s.peers = [peer]
    deadline = time.monotonic() + s.options.patience
    while time.monotonic() < deadline and b'"id"' in s.ask(
            "GET", "/rdzv/v1/spaces/default/runs"):
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
def forget_beside_slashes(s):
    """A closed run is forgotten, beside keys that look like keys of a round everywhere."""
    peer, keys = s.peer(), s.of(2000)
    tail = RUN + b"/.1" * ((8192 - len(RUN) - 8) // 3)
    closed_runs(s, 1)
    yield "1 closed run is left; %d keys of %d bytes, full of \"/.1\"" % (keys, len(tail) + 7)
    multi_set(peer, ((tail + b"/%06d" % i, b"v") for i in range(keys)))
    leave_and_await_forgotten(s, peer)


@case()
def many_runs(s):
    """One client has made many runs; then seconds pass."""
    peer, count = s.peer(), s.of(24000)
    yield "a compare-and-set of each of %d runs; then 3 s" % count
    state = ts.dumps(ts.State())
    for first in range(0, count, 500):
        runs = range(first, min(count, first + 500))
        peer.send(b"".join(agents.cas_request(RUN + b"%d" % i, b"", state) for i in runs))
        for _ in runs:
            peer.blob()
    time.sleep(3)


@case()
def list_runs(s):
    """One client has made many runs; another looks at them one by one."""
    peer, count = s.peer(), s.of(15000)
    state = ts.dumps(ts.State())
    multi_set(peer, ((RUN + b"%d" % i, state) for i in range(count)))
    path = "/rdzv/v1/spaces/default/runs/"
    requests = b"".join(http_request("GET", path + str(count - i)) for i in range(1, s.of(5000)))
    yield "%d GETs of one of %d runs" % (requests.count(b"GET"), count)
    send_all(s.http(), requests)


@case()
def appends(s):
    """Small APPENDs to a large value at a run's key: the start of a state, never a whole one."""
    peer, size, count = s.peer(), s.of(8 * MIB - 1000) & ~3, s.of(200)
    state = ts.State()
    while len(state.participants) < size // 60:  # nodes take more than that
        state.participants[ts.Node("node-%d" % len(state.participants), 1, 0)] = 0
    peer.set(RUN + b"big", ts.dumps(state)[:size])
    peer.ping()
    request = b"\x09" + agents.text(RUN + b"big") + agents.text(b"AAAA")
    yield "%d APPENDs, %d bytes, to a value of %d" % (count, count * len(request), size)
    send_all(peer.socket, request * count)


@case()
def passwords(s):
    """Requests with wrong passwords in one segment."""
    s.ask("PUT", "/v2/auth/users/root", b'{"user":"root","password":"p"}')
    s.ask("PUT", "/v2/auth/enable", b"")
    count = s.of(500)
    request = http_request("GET", "/v2/keys/", headers="Authorization: Basic cm9vdDp3cm9uZw==\r\n")
    yield "%d GETs with a wrong password, %d bytes" % (count, count * len(request))
    send_all(s.http(), request * count)


@case("--password-backoff=off")
def passwords_of_many(s):
    """Wrong passwords of 50 addresses, none of which has to wait."""
    s.ask("PUT", "/v2/auth/users/root", b'{"user":"root","password":"p"}')
    s.ask("PUT", "/v2/auth/enable", b"")
    count, peers = s.of(500), 50
    request = http_request("GET", "/v2/keys/", headers="Authorization: Basic cm9vdDp3cm9uZw==\r\n")
    yield "%d GETs with a wrong password, of %d addresses" % (count, peers)
    senders = []
    for i in range(peers):
        peer = socket.create_connection(("127.0.0.1", s.port), timeout=s.options.patience,
                                        source_address=("127.0.1.%d" % (i + 1), 0))
        s.peers.append(peer)
        senders.append(threading.Thread(target=send_all, args=(peer, request * (count // peers))))
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()


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
    """GET of one directory with many keys, by name, which is not the order they were made in."""
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


@case(servers.token_flag())
def clear_root(s):
    """A space is emptied whose keys are all in the root of etcd's tree."""
    count = s.of(1000000)
    pipelined(s, (http_request("PUT", "/v2/keys/%d?value=v" % i) for i in range(count)))
    yield "1 DELETE of a space with %d keys of etcd" % count
    token = "".join("%s: %s\r\n" % pair for pair in servers.OPERATOR.items())
    send_all(s.http(), http_request("DELETE", "/rdzv/v1/spaces/default", headers=token))


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


def read_to(peers, end):
    """Reads from all at a time, from each until what came ends so."""
    poll, left = select.poll(), {}
    for peer in peers:
        poll.register(peer, select.POLLIN)
        left[peer.fileno()] = (peer, b"")
    while left:
        for fd, _ in poll.poll(60000) or sys.exit("not all are told"):
            peer, got = left[fd]
            got = got[-len(end):] + (peer.recv(1 << 20) or sys.exit("the daemon ended it"))
            left[fd] = (peer, got)
            if got.endswith(end):
                poll.unregister(fd)
                del left[fd]


def put_large(s, key, value):
    form = "Content-Type: application/x-www-form-urlencoded\r\n"
    send_all(s.http(), http_request("PUT", "/v2/keys/" + key, b"value=" + value, headers=form))


@case()
def large_put_watchers(s):
    """PUTs of a large value that many watch."""
    size, watchers, count = s.of(MIB), s.of(1000), 4
    request = http_request("GET", "/v2/keys/large?wait=true")
    peers = [s.http() for _ in range(watchers)]
    yield "%d PUTs of %d bytes, %d watchers, each of the next" % (count, size, watchers)
    for _ in range(count):
        for peer in peers:
            peer.sendall(request)
        read_to(peers, b"\r\n\r\n")  # the head: it watches
        put_large(s, "large", b"x" * size)
        read_to(peers, b"\r\n0\r\n\r\n")


@case()
def large_put(s):
    """PUTs of values that are all control characters: what was is in the answer, too."""
    size, count = s.of(10 * MIB - 100), 4
    yield "%d PUTs of %d bytes" % (count, size)
    for _ in range(count):
        put_large(s, "large", b"\x01" * size)


# --- Running. ---

def ms(seconds):
    return "%.1f" % (1000 * seconds)


def measure(name, options):
    function, flags = CASES[name]
    scene = Scene(flags, options)
    try:
        attack = function(scene)
        sends = next(attack)
        others = Others(scene.port)
        time.sleep(min(1, options.scale) * PROBED_LEAST)
        quiet = others.end()
        before, cpu = scene.memory("VmRSS"), scene.cpu()
        others = Others(scene.port)
        began = time.monotonic()
        try:
            next(attack, None)
            ended = ""
        except OSError as e:
            ended = " (not to the end: %s)" % e
        took, cpu = time.monotonic() - began, scene.cpu() - cpu
        time.sleep(max(0, min(1, options.scale) * PROBED_LEAST - took))
        waits = others.end()
        scene.close_peers()
        print("%s: %s\n    took %.2f s%s, the daemon computed %.2f s\n"
              "    others wait: longest %s ms, p99.9 %s ms; without it %s, %s\n"
              "    memory: %.0f MiB before, peak %.0f" % (
                  name, sends, took, ended, cpu, ms(waits["longest"]), ms(waits["p999"]),
                  ms(quiet["longest"]), ms(quiet["p999"]), before, scene.memory("VmHWM")),
              flush=True)
    finally:
        scene.close_peers()
        scene.daemon.process.kill()
        scene.daemon.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--list", action="store_true", help="print the cases")
    parser.add_argument("--scale", type=float, default=1, help="of states and attacks")
    parser.add_argument("--patience", type=float, default=90, help="seconds without an answer")
    parser.add_argument("--probe", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()

    if options.probe:
        probe(options.probe)
        return
    if options.list:
        for name, (function, _) in CASES.items():
            print("%-22s %s" % (name, function.__doc__))
        return
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error("no such case: %s; see --list" % ", ".join(unknown))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for name in options.cases or CASES:
        measure(name, options)


main()
