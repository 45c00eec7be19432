#!/usr/bin/env python3
"""What peers may do to the daemon without harm to anybody else: stop in the middle, send garbage,
announce more than they send, never read. Each test has a daemon of its own, which must outlive it
and exit 0 on SIGTERM.

    bad_input.py [--wrapper CMD] [--seed N] [--count N] [--peers N] [TEST]...

The garbage comes from the seed; --seed SEED --only N sends connection N's alone.
"""

import argparse
import http.client
import json
import os
import random
import re
import resource
import shlex
import signal
import socket
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.path.insert(0, os.path.join(HERE, "..", "elastic"))

import script as wire  # noqa: E402
import servers         # noqa: E402
import torch_state     # noqa: E402
from c10d import NONCE, STOP_WAITING, blob, modern, read_number  # noqa: E402
from iterations import Iterations  # noqa: E402
from mutation import VALID, fields, mutate  # noqa: E402
from stage import Connection, Unmet  # noqa: E402

MIB = 1 << 20


def check(condition, text):
    if not condition:
        raise AssertionError(text)


class Scene:
    """A daemon, and the peers that the test has made; all of them go with it."""

    def __init__(self, options, *flags, env=None):
        command = shlex.split(options.server) if options.server else [servers.rdzvd_binary()]
        argv = shlex.split(options.wrapper) + command + ["--listen", "127.0.0.1:0/bad",
                                                              "--host-whitelist=*", servers.token_flag(),
                                                              *flags]
        self.options = options
        self.daemon = servers.Server(argv, env=env)
        found = self.daemon.wait_log(r"event=listening address=\S+:(\d+)", timeout=60)
        self.port = int(found[0].group(1))
        self.peers = []
        self.control = self.peer(modern.hello())
        self.control.expect([NONCE])

    def peer(self, data=b"", receive_buffer=None):
        peer = Connection(("127.0.0.1", self.port), self.options.patience, receive_buffer)
        self.peers.append(peer)
        peer.send(data)
        return peer

    def sync(self):
        """Returns when the daemon has read what was sent before; see run.py."""
        check(self.daemon.process.poll() is None,
              "the daemon ended with %s" % self.daemon.process.poll())
        for nonce in (b"one.", b"two."):
            self.control.send(modern.ping(nonce))
            self.control.expect([nonce])

    def serves(self):
        """Both protocols work, for newcomers too. Returns the slowest round trip in seconds."""
        slowest = 0
        c10d = self.peer(modern.hello())
        c10d.expect([NONCE])
        http = self.peer()
        for n in range(20):
            began = time.monotonic()
            c10d.send(fields('M:SET str:"/alive" str:"%d" M:GET str:"/alive"' % n))
            c10d.expect([fields('str:"%d"' % n)])
            http.send(fields('head:"GET /v2/keys/alive-no HTTP/1.1","Host: x"'))
            http.expect_http(wire.parse_expectation("http:404")[1], {})
            slowest = max(slowest, time.monotonic() - began)
        self.leave(c10d)
        self.leave(http)
        return slowest

    def leave(self, peer):
        peer.close()
        self.peers.remove(peer)

    def rss(self):
        """The daemon's resident memory in bytes."""
        with open("/proc/%d/status" % self.daemon.pid) as status:
            return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) * 1024

    def logged(self, peer):
        """The lines about a peer; waits until there is one."""
        name = re.escape(peer.name) + r"\b"
        self.daemon.wait_log(name, self.options.patience)
        return [line for line in self.daemon.log().split("\n") if re.search(name, line)]

    def __enter__(self):
        return self

    def witness(self):
        """What the daemon is doing and has said, for whoever reads about a failure."""
        try:
            with open("/proc/%d/stack" % self.daemon.pid) as stack:
                doing = "it is in\n%s" % stack.read().rstrip()
        except OSError as error:  # it has ended, or we are not root
            doing = "where it is: %s" % error.strerror
        print("     the daemon's exit code: %s; %s\n     its log ends:\n%s" % (
            self.daemon.process.poll(), doing, self.daemon.log()[-3000:]), flush=True)

    def __exit__(self, kind, *_):
        if kind is not None:
            self.witness()
        for peer in self.peers:
            peer.close()
        code = self.daemon.process.poll()
        if code is None:
            code = self.daemon.stop(timeout=max(20, self.options.patience))
        if kind is None and code != 0:
            raise AssertionError("exit code %d; the log ends:\n%s" % (
                code, self.daemon.log()[-3000:]))


# ---- half requests

# The first part of a request, the rest of it, and the answer (None: any answer).
HALVES = [(fields(first), fields(rest), answer and fields(answer)) for first, rest, answer in (
    ('hex:00', 'u32:0x3c85f7ce M:PING u32:5', 'u32:5'),
    ('hex:00cef785', 'hex:3c M:PING u32:5', 'u32:5'),
    ('HS M:SET', 'str:"/h" str:"v" M:GET str:"/h"', 'HSR str:"v"'),
    ('HS M:SET u64:5 "/h"', '"alf" str:"v" M:GET str:"/half"', 'HSR str:"v"'),
    ('HS M:SET str:"/big" u64:8388608 "123456789"', '"x"*8388599 M:PING u32:5', 'HSR u32:5'),
    ('HS M:MULTI_SET u64:2 str:"/a" str:"1"', 'str:"/b" str:"2" M:PING u32:5', 'HSR u32:5'),
    ('HS M:CHECK u64:3 str:"/no"', 'str:"/no" str:"/no"', 'HSR u8:1'),
    ('HS M:ADD str:"/n" u8:0', 'hex:00000000000000 M:PING u32:5', 'HSR i64:0 u32:5'),
    ('C:SET u64:4', '"/cls" str:"v" C:GET str:"/cls"', 'str:"v"'),
    ('C:CHECK list: C:GET', 'str:"/none"', 'u8:0 str:""'),
    ('"G"', r'"ET /nowhere HTTP/1.0\r\n\r\n"', None),
    (r'"GET /nowhere HTTP/1.1\r\nHost"', r'": x\r\nConnection: close\r\n\r\n"', None),
    ('head:"PUT /v2/keys/h HTTP/1.1","Host: x","Content-Length: 9"', '"123456789"', None),
    (r'head:"PUT /v2/keys/c HTTP/1.1","Host: x","Transfer-Encoding: chunked" "5\r\n123"',
     r'"45\r\n0\r\n\r\n"', None),
)]


def half_requests_stall_nobody(options):
    """Hundreds of peers stop in the middle of something; the others do not notice."""
    with Scene(options) as scene:
        alone = scene.serves()
        halves = []
        for n in range(options.peers):
            first, rest, answer = HALVES[n % len(HALVES)]
            halves.append((scene.peer(first), rest, answer))
        scene.sync()
        crowded = scene.serves()
        print("     slowest of 20 double round trips: %.1f ms, with %d half requests %.1f ms" % (
            1000 * alone, options.peers, 1000 * crowded))
        check(crowded < alone + 0.5, "half requests of others cost %.3f s" % crowded)
        # They are slow, not wrong: what they began can be finished. Large ones only once.
        for n, (peer, rest, answer) in enumerate(halves):
            if len(rest) > MIB and n >= len(HALVES):
                continue
            peer.send(rest)
            if answer is not None:
                peer.expect([answer])
            else:
                peer.wait_for(1, "an answer")
        scene.serves()


def half_requests_end_some_day(options):
    """Who owes the rest of a request is cut after --request-timeout; idle and waiting peers are
    not, whatever they have sent before."""
    with Scene(options, "--request-timeout=300ms") as scene:
        idle = [scene.peer(), scene.peer(modern.hello()), scene.peer(fields("C:GETNUMKEYS")),
                scene.peer(fields('HS M:WAIT list:"/never"')), scene.peer(fields("hex:00")),
                scene.peer(fields('head:"GET /v2/keys/never?wait=true HTTP/1.1","Host: x"'))]
        undecided = idle.pop(4)
        halves = [scene.peer(fields('HS M:SET u64:5 "/h"')), scene.peer(fields("C:SET u64:4")),
                  scene.peer(fields('"GET / HTTP/1.1"')),
                  scene.peer(fields('head:"PUT /v2/keys/h HTTP/1.1","Host: x","Content-Length: 9",'
                                    '"Content-Type: application/x-www-form-urlencoded"')),
                  # Answered at once, since nobody looks at its body; which is owed all the same.
                  scene.peer(fields('head:"PUT /v2/keys/h HTTP/1.1","Host: x","Content-Length: 9"'))]
        for peer in halves + [undecided]:
            peer.expect_closed(skip=True)
            lines = scene.logged(peer)
            check(any("reason=" in line for line in lines), "no reason in %r" % lines)
        scene.sync()
        for peer in idle:
            check(peer.still_open(), "an idle peer was cut: %s" % scene.daemon.log())
        scene.serves()


# ---- garbage

def garbage_of(seed, index):
    """What connection `index` of a run does: its bytes in segments, whether the daemon reads each
    of them before the next one comes, and how it ends."""
    rng = random.Random("%d/%d" % (seed, index))
    if rng.random() < 0.15:
        data = rng.randbytes(rng.choice((1, 5, 60, 3000)))
    elif rng.random() < 0.2:
        # HTTP in form, nonsense in content.
        line = bytes(rng.choice(b"GETPU /v2keys?=&%0aZ:\r\n\x00\xff;") for _ in range(200))
        data = rng.choice((b"GET /", b"PUT /v2/keys/", b"A")) + line + b"\r\n\r\n"
    else:
        data = mutate(rng, rng.choice(VALID))
    segments = []
    while data:
        border = data.find(b"\r\n\r\n") + 4  # of an HTTP request; 3 where there is none
        cut = rng.choice((1, 2, 7, 50, border, border, len(data), len(data)))
        segments.append(data[:cut])
        data = data[cut:]
        if len(segments) == 30:
            segments.append(data)
            break
    return (segments, rng.random() < 0.3,
            rng.choice(("close", "reset", "half-close", "read", "stay")))


def act_garbage(scene, seed, index):
    segments, apart, end = garbage_of(seed, index)
    peer = scene.peer()
    for segment in segments:
        peer.send(segment)
        if apart:
            scene.sync()
    if end in ("half-close", "read"):
        if end == "half-close":
            peer.half_close()
        peer.listen(0.002)
    if end == "reset":
        peer.reset()
        scene.peers.remove(peer)
    elif end != "stay":
        scene.leave(peer)
    elif len(scene.peers) > 200:
        scene.leave(scene.peers[1])  # the oldest that stayed; the first is the control connection


def garbage_ends_nothing(options):
    """Random bytes, and valid streams with something wrong in them."""
    seed = options.seed
    indexes = [options.only] if options.only is not None else range(options.count)
    print("     seed %d" % seed)
    with Scene(options) as scene:
        done = first = 0
        try:
            for first in range(0, len(indexes), 50):
                for done in indexes[first:first + 50]:
                    act_garbage(scene, seed, done)
                scene.sync()
            scene.serves()
        except (AssertionError, Unmet, OSError) as error:
            raise AssertionError("after connections %d to %d of seed %d: %s\n%s" % (
                indexes[first], done, seed, error, scene.daemon.log()[-2000:])) from None


# ---- memory and output

def memory_follows_no_announcement(options):
    """Hundreds of peers announce megabytes and send a few bytes."""
    bytes_per_peer = 32 * 1024  # a buffer that has been begun, and what a connection costs
    for name, texts in (
            ("values of 8 MiB", ['HS M:SET str:"/k" u64:8388608', '"123456789"']),
            ("lists of 131072 keys", ['HS M:MULTI_SET u64:131072 str:"/k" u64:8388608', '"1"']),
            ("legacy values", ['C:SET str:"/k" u64:8388608', '"123456789"']),
            ("forms of 10 MiB", ['head:"PUT /v2/keys/k HTTP/1.1","Host: x",'
                                 '"Content-Length: 10485760",'
                                 '"Content-Type: application/x-www-form-urlencoded"',
                                 '"value=123"']),
            ("chunks of 8 MiB", ['head:"PUT /v2/keys/k HTTP/1.1","Host: x",'
                                 '"Transfer-Encoding: chunked",'
                                 '"Content-Type: application/x-www-form-urlencoded"',
                                 '"800000\\r\\nvalue=123"'])):
        with Scene(options) as scene:
            scene.serves()
            before = scene.rss()
            peers = [scene.peer(fields(texts[0])) for _ in range(options.peers)]
            scene.sync()
            for peer in peers:  # a second segment: the first one's rest is kept, this one grows it
                peer.send(fields(texts[1]))
            scene.sync()
            grown = scene.rss() - before
            print("     %s announced by %d peers: %d KiB more, %.1f KiB each" % (
                name, len(peers), grown >> 10, grown / 1024 / len(peers)))
            check(grown < len(peers) * bytes_per_peer + 2 * MIB,
                  "%s: %d KiB more memory" % (name, grown >> 10))
            scene.serves()


def slow_readers_are_cut(options):
    """Who asks for more than the output limit and never reads is cut, with a line in the log;
    memory follows the limit, and a reader of the same values is served meanwhile."""
    with Scene(options, "--output-limit=256KiB") as scene:
        value = b"0123456789abcdef" * (MIB // 16)
        scene.control.send(modern.set(b"/big", value))
        scene.sync()
        before = scene.rss()
        slow = [scene.peer(modern.hello() + fields('M:GET str:"/big"') * 500, receive_buffer=65536)
                for _ in range(20)]
        scene.control.send(fields('M:GET str:"/big"'))
        scene.control.expect([blob(value)])
        for peer in slow:
            lines = scene.logged(peer)
            check(any(re.search(r"protocol=c10d-modern\b.*reason=", line) for line in lines),
                  "no version and reason in %r" % lines)
        grown = scene.rss() - before
        print("     20 peers asked for 500 MiB each: %d KiB more memory" % (grown >> 10))
        check(grown < 20 * MIB, "%d KiB more memory" % (grown >> 10))
        for peer in slow:
            peer.expect_closed(skip=True)
        scene.serves()


def metric(scene, name):
    """One of the daemon's numbers."""
    with socket.create_connection(("127.0.0.1", scene.port), timeout=20) as s:
        s.sendall(fields('head:"GET /metrics HTTP/1.1","Host: x","Connection: close"'))
        text = b""
        while more := s.recv(1 << 16):
            text += more
    return int(float(re.search(rb"^%s (\S+)" % name.encode(), text, re.MULTILINE).group(1)))


def an_answer_grows_in_large_steps(options):
    """Where there is no room for twice as much, an answer whose length nobody knows before grows by
    less, but not by a few bytes each time: each step may copy what is there, and takes memory that
    may be refused, which is counted."""
    with Scene(options, "--memory-limit=64MiB") as scene:
        for i in range(500):  # each byte of their ids is 6 of JSON
            key = b"/torch.rendezvous." + b"%d" % i + b"\x01" * 6000
            scene.control.send(modern.set(key, torch_state.SENTINEL))
        for key, size in ((b"1", 8000000), (b"2", 4500000)):
            scene.control.send(modern.set(key, b"v" * size))
        scene.sync()
        before = metric(scene, "rdzvd_memory_refused_total")
        reader = scene.peer(fields('head:"GET /rdzv/v1/spaces/bad/status HTTP/1.1","Host: x"'))
        reader.expect_http(wire.parse_expectation("http:200")[1], {})
        refused = metric(scene, "rdzvd_memory_refused_total") - before
        print("     memory was refused %d times on the way to 19 MB" % refused)
        check(1 <= refused < 50, "refused %d times" % refused)


def memory_goes_back_when_its_holders_have_gone(options):
    """Values of all lengths come and go, some stay: the daemon is large by what it keeps."""
    with Scene(options, "--memory-limit=256MiB") as scene:
        if is_sanitized(scene):
            return  # sanitizers keep what is freed
        scene.serves()
        before, rng, kept = scene.rss(), random.Random(options.seed), 0
        for turn in range(6):
            for key in range(1000):
                size = rng.choice((100, 5000, 40000, 100000, 130000))
                scene.control.send(modern.set(b"%d" % key, b"v" * size))
            for key in range(1000):
                if key % 20 or turn == 5:
                    scene.control.send(fields('M:DELETE_KEY str:"%d"' % key))
                    scene.control.expect([fields("i64:1")])
            kept = max(kept, scene.rss())
        deadline = time.monotonic() + options.patience
        while scene.rss() > 1.2 * before + 8 * MIB and time.monotonic() < deadline:
            scene.sync()
            time.sleep(0.05)
        print("     %d MiB before, %d with the values, %d behind them" % (
            before >> 20, kept >> 20, scene.rss() >> 20))
        check(scene.rss() <= 1.2 * before + 8 * MIB, "%d KiB behind them" % (scene.rss() >> 10))
        scene.serves()


def a_small_daemon_is_small_again(options):
    """Small values come, and nearly all go: a few MiB of holes go back when there is time for it."""
    with Scene(options) as scene:
        if is_sanitized(scene):
            return  # sanitizers keep what is freed
        scene.serves()
        before, count = scene.rss(), 12000
        for key in range(count):
            scene.control.send(modern.set(b"%d" % key, b"v" * 300))
        scene.sync()
        most = scene.rss()
        for key in range(count):
            if key % 100:
                scene.control.send(fields('M:DELETE_KEY str:"%d"' % key))
                scene.control.expect([fields("i64:1")])
        deadline = time.monotonic() + options.patience
        while scene.rss() > before + 2 * MIB and time.monotonic() < deadline:
            scene.sync()
            time.sleep(0.05)
        print("     %d KiB before, %d with the values, %d behind them" % (
            before >> 10, most >> 10, scene.rss() >> 10))
        check(most > before + 4 * MIB, "the values took %d KiB" % (most - before >> 10))
        check(scene.rss() <= before + 2 * MIB, "%d KiB behind them" % (scene.rss() >> 10))


def put_request(path, body):
    return b"PUT /v2/keys/%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n" \
           b"Content-Length: %d\r\n\r\n" % (path, len(body)) + body


def ask(scene, data):
    """The status and the body."""
    with socket.create_connection(("127.0.0.1", scene.port), scene.options.patience) as sock:
        sock.sendall(data)
        answer = http.client.HTTPResponse(sock)
        answer.begin()
        return answer.status, answer.read()


def cpu_ms(scene):
    with open("/proc/%d/schedstat" % scene.daemon.pid, encoding="ascii") as f:
        return int(f.read().split()[0]) / 1e6


def large_values_stay_as_they_are(options):
    """The largest values of etcd, with escapes everywhere, and values of c10d, which are copied in slices."""
    rng = random.Random(options.seed)
    text = "".join(rng.choices("abcdefgh +%&=/", k=MIB - 1))
    form = "".join("+" if c == " " and rng.random() < 0.5 else "%%%02x" % ord(c)
                   if not c.isalpha() or rng.random() < 0.3 else c for c in text).encode()
    with Scene(options) as scene:
        def is_there(value):
            status, body = ask(scene, b"GET /v2/keys/large HTTP/1.1\r\nHost: x\r\n\r\n")
            check(status == 200 and json.loads(body)["node"]["value"] == value, "another value: %d" % status)

        check(ask(scene, put_request(b"large", b"value=" + form))[0] == 201, "PUT")
        is_there(text)
        check(ask(scene, put_request(b"large", b"value=no&prevValue=" + form + b"a"))[0] == 412, "another")
        check(ask(scene, put_request(b"large", b"prevValue=" + form + b"&value=" + form[::-1].replace(
            b"%", b"")[:MIB]))[0] == 200, "swap")
        check(ask(scene, put_request(b"large", b"prevExist=true&value=" + form))[0] == 200, "update")
        is_there(text)
        old, new = rng.randbytes(7 * MIB), rng.randbytes(6 * MIB + 1)
        scene.control.send(modern.set(b"k", old) + modern.get(b"k"))
        scene.control.expect([blob(old)])
        for value in (new, old):  # the second finds another value than the expected one
            scene.control.send(modern.compare_set(b"k", old, value))
            scene.control.expect([blob(new)])


def deep_paths_take_their_time(options):
    """Each name of a path is a directory to look up, or to make: a few KB are thousands. Thousands of names
    take more than one iteration."""
    path = b"/d" * 1000
    rounds = 60
    with Iterations() as iterations, Scene(options, env=iterations.environment()) as scene:
        request = put_request(path[1:], b"value=v") + \
            b"DELETE /v2/keys/d?recursive=true HTTP/1.1\r\nHost: x\r\n\r\n"
        with socket.create_connection(("127.0.0.1", scene.port), options.patience) as sock:
            sock.sendall(request * rounds)
            sock.shutdown(socket.SHUT_WR)
            got = b""
            while more := sock.recv(1 << 20):
                got += more
        check(got.count(b"HTTP/1.1 201") == rounds and got.count(b"HTTP/1.1 200") == rounds, "answers")
        if iterations.longest() is None:
            return
        scene.sync()  # the iteration that answered has ended
        took = cpu_ms(scene)
        print("     %d deep paths took %.1f ms of CPU, the longest iteration %.1f" % (
            rounds, took, iterations.longest()))
        check(iterations.longest() < took / 15, "one iteration did much of it")


RUNS, RUN_NODES = 20, 2000


def set_runs(scene):
    """Sets runs of many unconnected nodes, each with a completed round."""
    state = torch_state.State()
    state.complete = True
    for i in range(RUN_NODES):
        node = torch_state.Node("node-%04d.pods" % i, i, 0)
        state.participants[node] = i
        state.last_heartbeats[node] = torch_state.now()
    value = torch_state.dumps(state)
    for i in range(RUNS):
        scene.control.send(modern.set(b"/torch.rendezvous.%d" % i, value))
        scene.sync()


def the_status_of_many_runs_takes_several_turns(options):
    """The nodes of all runs of a space are written in slices; one node of a run is found at once."""
    with Iterations() as iterations, Scene(options, env=iterations.environment()) as scene:
        set_runs(scene)

        def get(path):
            iterations.begin()
            before = cpu_ms(scene)
            status, body = ask(scene, b"GET /rdzv/v1/spaces/bad/%s HTTP/1.1\r\nHost: x\r\n\r\n" % path)
            check(status == 200, "%d" % status)
            scene.sync()  # the iteration that answered has ended
            return json.loads(body), cpu_ms(scene) - before

        status, took = get(b"status")
        check(len(status["runs"]) == RUNS, "%d runs" % len(status["runs"]))
        for run in status["runs"]:
            check(run["participants"] == RUN_NODES and run["missing"] == [], run["id"])
        longest = iterations.longest()
        node, _ = get(b"runs/7?rank=%d" % (RUN_NODES - 1))
        check(node["rank"] == RUN_NODES - 1 and node["pid"] == RUN_NODES - 1, "the node %r" % node)
        if longest is None:
            return  # a build with sanitizers
        print("     %d runs of %d nodes took %.1f ms of CPU, their longest iteration %.1f" % (
            RUNS, RUN_NODES, took, longest))
        check(longest < took / 3, "one iteration did most of it")


def is_sanitized(scene):
    with open("/proc/%d/exe" % scene.daemon.pid, "rb") as f:
        return b"__asan_init" in f.read()


BEHIND_MAX = 1 << 20  # bytes of events that a watch may have queued


def a_stream_that_is_told_much_has_no_gap(options):
    """A stream delivers all changes, however fast they come. If its client leaves more than 1 MiB unread,
    the stream ends after some event, without a gap before it, and the connection stays usable."""
    writers, told, last, before = 100, 0, 0, None
    put = b"PUT /v2/keys/s?noValueOnSuccess=true HTTP/1.1\r\nHost:\r\n\r\n"
    with Scene(options) as scene:
        stream = scene.peer(fields(
            'head:"GET /v2/keys/s?wait=true&stream=true HTTP/1.1","Host: x"'))
        stream.expect_http(wire.parse_expectation("http:200 begin")[1], {})
        peers = [scene.peer() for _ in range(writers)]
        # What is sent while the daemon stands still is one turn, once libevent asks for so many
        # events at a time: it begins with 32, and doubles that after each full answer.
        for burst in (1, 1, 700, 700, 700):
            scene.daemon.process.send_signal(signal.SIGSTOP)
            for peer in peers:
                peer.send(put * burst)
            scene.daemon.process.send_signal(signal.SIGCONT)
            for peer in peers:
                for _ in range(burst):
                    peer.expect_http(wire.parse_expectation("http:2xx")[1], {})
            last = size = 0
            while last < writers * burst:
                event = stream.next_event()
                if event is None:
                    break
                size += len(event)
                index = json.loads(event)["node"]["modifiedIndex"]
                check(before is None or index == before + 1, "%s behind %s" % (index, before))
                before = index
                last += 1
            told += last
            if last < writers * burst:
                break
        print("     told %d events, %d of %d in the last burst" % (told, last, writers * burst))
        check(last == writers * burst or size >= BEHIND_MAX,
              "%d events of %d, %d bytes" % (last, writers * burst, size))
        if last < writers * burst:
            stream.send(fields('head:"GET /v2/keys/s HTTP/1.1","Host: x"'))
            stream.expect_http(wire.parse_expectation("http:200")[1], {})
        scene.serves()


# ---- the log

BAD_ENDS = [(fields(text), version, name) for text, version, name in (
    ('HS u8:0x7f', "c10d-modern", "unknown opcode"),
    ('HS M:VALIDATE u32:0x3c85f7ce', "c10d-modern", "VALIDATE again"),
    ('HS M:SET u64:8193', "c10d-modern", "long key"),
    ('HS M:SET str:"/k" u64:8388609', "c10d-modern", "long value"),
    ('HS M:WAIT u64:131073', "c10d-modern", "many keys"),
    ('HS M:SET str:"/t" str:"text" M:ADD str:"/t" i64:1', "c10d-modern", "ADD on text"),
    ('HS M:SET str:"/t" str:"text" M:BARRIER str:"/t" i64:1', "c10d-modern", "BARRIER on text"),
    ('C:GETNUMKEYS u8:0x7f', "c10d-legacy", "unknown opcode"),
    ('C:SET u64:8193', "c10d-legacy", "long key"),
    ('C:ADD str:"/t" i64:1', "c10d-legacy", "ADD on text"),
    ('hex:7f', r"\S+", "unknown first byte"),
    ('hex:00efbeadde00000000', r"\S+", "wrong magic"),
    ('hex:16030100c8010000c40303', r"\S+", "TLS"),
    ('"GET / HTTP/1.1\\r\\n\\r\\n"', "http", "no Host"),
    ('"GET /%zz HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"', "http", "bad escape"),
    ('"NONSENSE\\r\\n"', "http", "no request line"),
    ('head:"PUT /v2/keys/k HTTP/1.1","Host: x","Transfer-Encoding: gzip"', "http", "encoding"),
)]


def each_close_is_logged(options):
    """One line per connection that the daemon ends, with peer, protocol and reason."""
    with Scene(options) as scene:
        for data, version, name in BAD_ENDS:
            peer = scene.peer(data)
            peer.expect_closed(skip=True)
            lines = scene.logged(peer)
            wanted = "event=refused" if name == "TLS" else "protocol=%s" % version
            check(any(re.search(wanted + " .*reason=", line) for line in lines),
                  "%s: no %s and reason in %r" % (name, wanted, lines))
            reasons = [re.search(r'reason=("(?:[^"\\]|\\.)*"|\S+)', line) for line in lines]
            print("     %-20s %s" % (name, ", ".join(r.group(0) for r in reasons if r)))


def a_flood_of_closes_is_counted(options):
    """A scanner cannot fill the disk: the log leaves out lines, and says how many."""
    with Scene(options) as scene:
        flood = 1000
        for _ in range(flood):
            scene.leave(scene.peer(b"\x7f"))
        scene.sync()
        # Lines left out are told by the next line that passes; one comes within a second or so.
        deadline = time.monotonic() + options.patience
        while True:
            log = scene.daemon.log()
            lines = [line for line in log.split("\n") if "event=dropped" in line]
            told = sum(int(n) for n in re.findall(r"suppressed=(\d+)", log))
            if len(lines) + told >= flood or time.monotonic() > deadline:
                break
            scene.daemon.wait_log(r"suppressed=\d+", options.patience)
            time.sleep(0.05)
        print("     %d closes: %d lines, %d counted" % (flood, len(lines), told))
        check(len(lines) < flood // 2, "%d lines" % len(lines))
        check(len(lines) + told >= flood, "%d lines and %d counted for %d closes" % (
            len(lines), told, flood))


# ---- many at once

def a_thundering_herd_is_served(options):
    """Everybody connects at once, waits for one key, and gets it when it is set."""
    with Scene(options) as scene:
        herd = [scene.peer(fields('HS M:ADD str:"init/" i64:1 M:WAIT list:"/id"'))
                for _ in range(options.peers)]
        counts = set()
        for peer in herd:
            peer.expect([NONCE])
            peer.wait_for(8, "a count")
            counts.add(read_number(bytes(peer.got[:8])))
            del peer.got[:8]
        scene.control.send(fields('M:SET str:"/id" str:"the value" M:GET str:"init/"'))
        scene.control.expect([fields('str:"%d"' % len(herd))])
        for peer in herd:
            peer.expect([STOP_WAITING])
            peer.send(fields('M:GET str:"/id"'))
        check(counts == set(range(1, len(herd) + 1)), "counts %s" % sorted(counts))
        for peer in herd:
            peer.expect([fields('str:"the value"')])
        scene.serves()


# ---- large reads

TREE = 20000


def a_large_tree_is_read_as_one_moment(options):
    """GETs of a tree, while another client changes it in an order that the index tells; one client
    goes away meanwhile. At the end the whole tree is deleted during a read."""
    def put(i):
        return "PUT /v2/keys/t/%05d?value=v HTTP/1.1\r\nHost: x\r\n\r\n" % i

    def delete(i):
        return "DELETE /v2/keys/t/%05d HTTP/1.1\r\nHost: x\r\n\r\n" % i

    get = b"GET /v2/keys/t?recursive=true&sorted=true HTTP/1.1\r\nHost: x\r\n\r\n"
    with Scene(options) as scene:
        writer, reader = scene.peer(), scene.peer()
        for first in range(0, TREE, 1000):
            writer.send("".join(put(i) for i in range(first, first + 1000)).encode())
            for _ in range(1000):
                writer.expect_http(wire.parse_expectation("http:201")[1], {})
        base, between = 3 + TREE, 0
        for round_ in range(4):  # each deletes 500 keys at places of its own
            gone = [(round_ + 4 * i) * 7 % TREE for i in range(500)]
            reader.send(get)
            leaver = scene.peer(get)
            writer.send("".join(delete(i) for i in gone).encode())
            scene.leave(leaver)
            index, keys = read_tree(reader)
            done = index - base
            check(0 <= done <= len(gone), "index %d, and %d was the first" % (index, base))
            between += done < len(gone)
            expected = ["/t/%05d" % i for i in sorted(set(range(TREE)) - set(gone[:done]))]
            check(keys == expected, "at index %d: %d keys of %d" % (index, len(keys), len(expected)))
            for _ in gone:
                writer.expect_http(wire.parse_expectation("http:200")[1], {})
            writer.send("".join(put(i) for i in gone).encode())
            for _ in gone:
                writer.expect_http(wire.parse_expectation("http:201")[1], {})
            base += 2 * len(gone)
        check(between > 0, "no change came while a tree was read")
        whole_directory_goes_while_it_is_read(scene, reader, writer, get, base)
        scene.serves()


def read_tree(reader, status=b" 200 "):
    """The index and the keys of the next answer, which comes in chunks."""
    def take(end, what):
        while end not in reader.got:
            reader.wait_for(len(reader.got) + 1, what)
        taken, _, rest = bytes(reader.got).partition(end)
        reader.got[:] = rest
        return taken

    head, body, size = take(b"\r\n\r\n", "a head"), b"", None
    check(status in head and b"Transfer-Encoding: chunked" in head, "answered %s" % head)
    while size != 0:
        size = int(take(b"\r\n", "a chunk"), 16)
        reader.wait_for(size + 2, "a chunk")
        body += reader.got[:size]
        del reader.got[:size + 2]
    index = int(re.search(rb"X-Etcd-Index: (\d+)", head).group(1))
    return index, [node["key"] for node in json.loads(body)["node"]["nodes"]]


def whole_directory_goes_while_it_is_read(scene, reader, writer, get, base):
    """All of it at once, when the first slice is done; requests behind the GET wait for it."""
    reader.send(get + b"GET /v2/keys/t HTTP/1.1\r\nHost: x\r\n\r\n")
    while b"rdzvd_" not in metrics(scene):  # an answer: the GET has begun
        pass
    writer.send(b"DELETE /v2/keys/t?recursive=true HTTP/1.1\r\nHost: x\r\n\r\n")
    index, keys = read_tree(reader)
    check((index, len(keys)) == (base, TREE), "index %d, %d keys" % (index, len(keys)))
    writer.expect_http(wire.parse_expectation("http:200")[1], {})
    reader.wait_for(1, "the next answer")


def metrics(scene):
    peer = scene.peer(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    peer.wait_for(2000, "metrics")
    answer = bytes(peer.got)
    scene.leave(peer)
    return answer


TESTS = [half_requests_stall_nobody, half_requests_end_some_day, garbage_ends_nothing,
         memory_follows_no_announcement, slow_readers_are_cut,
         an_answer_grows_in_large_steps, memory_goes_back_when_its_holders_have_gone,
         a_small_daemon_is_small_again, large_values_stay_as_they_are,
         the_status_of_many_runs_takes_several_turns, deep_paths_take_their_time,
         a_stream_that_is_told_much_has_no_gap,
         each_close_is_logged,
         a_flood_of_closes_is_counted, a_thundering_herd_is_served,
         a_large_tree_is_read_as_one_moment]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", help="the daemon (default: $RDZVD, else build/rdzv/rdzvd)")
    parser.add_argument("--wrapper", default="", help="a command in front of the daemon's")
    parser.add_argument("--patience", type=float, help="seconds an answer may take")
    parser.add_argument("--seed", type=int, default=1, help="where the garbage comes from")
    parser.add_argument("--count", type=int, default=4000, help="connections that send garbage")
    parser.add_argument("--only", type=int, help="of these, the one to send")
    parser.add_argument("--peers", type=int, default=500, help="peers of the other tests")
    parser.add_argument("tests", nargs="*", metavar="TEST", help=", ".join(
        test.__name__ for test in TESTS))
    options = parser.parse_args()
    options.patience = options.patience or (120 if options.wrapper else 20)
    unknown = set(options.tests) - {test.__name__ for test in TESTS}
    if unknown:
        parser.error("no test %s" % ", ".join(sorted(unknown)))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))

    passed = failed = 0
    for test in TESTS:
        if options.tests and test.__name__ not in options.tests:
            continue
        began = time.monotonic()
        print("%s" % test.__name__, flush=True)
        try:
            test(options)
        except (AssertionError, Unmet, OSError) as error:
            failed += 1
            print("FAIL %s: %s" % (test.__name__, error))
            argv = [arg for arg in sys.argv[1:] if arg not in options.tests]
            if not options.server and "RDZVD" in os.environ:
                argv += ["--server", os.environ["RDZVD"]]
            print("     again: python3 %s %s" % (os.path.relpath(__file__),
                                                 shlex.join(argv + [test.__name__])), flush=True)
        else:
            passed += 1
            print("ok   %s (%.1f s)" % (test.__name__, time.monotonic() - began), flush=True)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
