#!/usr/bin/env python3
"""Every kind of request, while the k-th allocation from its beginning on fails, for every k: the answer is right or an
error, or the connection ends; rdzvd lives, and its content is as before the request or as after it.

    no_memory.py [--deep] [--relay] [NAME...]     all kinds of request, or the kinds whose name contains a NAME

--relay: allocations fail in a relay that passes HTTP requests on to a store with memory. --deep: all allocations from
the k-th on also fail, except those that fit into memory freed since. fail_malloc.c makes them fail; sanitizers bring
their own malloc(), so the test skips such builds.
"""

import datetime
import json
import mmap
import os
import pickle
import re
import socket
import struct
import sys
import tempfile
import time
import urllib.parse

for folder in ("support", "elastic", "wire"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder))
import relay_frames as frames  # noqa: E402
import torch_state  # noqa: E402
from agents import complete_round  # noqa: E402
from c10d import blob, legacy, modern, read_number  # noqa: E402
from servers import Rdzvd, OPERATOR, rdzvd_binary, token_flag  # noqa: E402

LIBRARY = os.path.join(os.path.dirname(os.path.abspath(rdzvd_binary())), "..", "tests",
                       "libfail_malloc.so")
CALLS_MOST = 600
STATE = re.compile(rb"gA[A-Za-z0-9+/]{60,}=*")  # a pickle in base64, of any protocol

# ---- c10d


HELLO = modern.hello(b"hey!")
PONG = b"hey!"
END = b"!end"  # no letter of base64 begins it: a state may stand before it
BIG = b"v" * 5000
LARGE = b"v" * ((1 << 20) + 1)  # its copy takes several turns
LARGE_FORM = b"%41v+" * 60000  # 300,000 bytes, which are decoded
MANY = [(b"k%d" % i + b"." * 60, b"v") for i in range(270)]  # its requests take several turns


# ---- c10d as torch 1.x speaks it

# If the key is absent, the answer of COMPARE_SET is the expected value.
LEGACY_END = legacy.compare_set(b"absent", END, b"v")

# ---- a relay

CHANNEL, SESSION = 5, b"%SESSION"  # each try opens a session of its own


def link(*requests):
    """A client comes, and sends these; only the last has an answer."""
    opening = frames.opened(CHANNEL, int.from_bytes(SESSION, "little"), False)
    return opening + b"".join(frames.request(r, CHANNEL, i + 1) for i, r in enumerate(requests))


def frames_of(got):
    """(kind, flags, payload) of each whole frame; see proto/relay.h."""
    out, at = [], 0
    while len(got) - at >= 20:
        size, kind, flags = struct.unpack_from("<IBB", got, at)
        if len(got) - at < 20 + size:
            break
        out.append((kind, flags, got[at + 20:at + 20 + size]))
        at += 20 + size
    return out


def is_welcome(got):
    return any(kind in (frames.WELCOME, frames.REFUSED) for kind, _, _ in frames_of(got))


def is_told(got, asked):
    """Whether the relay has an answer for each request that it sent."""
    kinds = [(kind, flags & frames.MORE) for kind, flags, _ in frames_of(got)]
    return (frames.PONG, 0) in kinds and (
        not asked or (frames.ANSWER, 0) in kinds or (frames.ENDED, 0) in kinds)


def link_shape(got):
    """What a relay passes on: when it hears that a request is done may differ."""
    heard = frames_of(got)
    return ([(flags, payload) for kind, flags, payload in heard if kind == frames.OPENED],
            b"".join(payload for kind, _, payload in heard if kind == frames.ANSWER))


# ---- torch's agents

RUN = b"/torch.rendezvous.r"


def states():
    """The states that two agents write: the first agent joined; both joined and the round is complete; one agent closed
    the run. Their clocks are an hour ahead: rdzvd removes a node whose heartbeat has become old, and a run of this
    program may take minutes."""
    ahead = datetime.timedelta(hours=1)
    state, written = torch_state.State(), [torch_state.SENTINEL]
    for name in ("node-a", "node-b"):
        node = torch_state.Node(name, 100, 0)
        state.participants[node] = 0
        state.last_heartbeats[node] = torch_state.now() + ahead
        if len(state.participants) == 2:
            complete_round(state)
        written.append(torch_state.dumps(state))
    state.closed = True
    return written + [torch_state.dumps(state)]


CREATED, JOINED, COMPLETE, CLOSED = states()


def swap(old, new):
    return modern.compare_set(RUN, old, new)


# ---- HTTP


def http(method, path, body=None, kind="application/x-www-form-urlencoded", headers=()):
    lines = ["%s %s HTTP/1.1" % (method, path), "Host: localhost"]
    lines += ["%s: %s" % pair for pair in headers]
    if body is not None:
        lines += ["Content-Type: " + kind, "Content-Length: %d" % len(body)]
    return "\r\n".join(lines + ["", ""]).encode() + (body or b"")


OPERATOR_HEADERS = tuple(OPERATOR.items())


def quoted(value):
    return urllib.parse.quote(value).encode()


RUN_V2 = "/v2/keys/torch/elastic/rendezvous/r"

# The kinds of request: what is there before, and what is asked. c10d: a PING follows each request.
REQUESTS = {
    "c10d_hello": ([], b""),
    "c10d_set": ([], modern.set(b"new", b"value")),
    "c10d_set_big": ([], modern.set(b"new", BIG)),
    "c10d_set_again": ([modern.set(b"k", b"old")], modern.set(b"k", BIG)),
    "c10d_set_large": ([], modern.set(b"new", LARGE)),
    "c10d_set_large_again": ([modern.set(b"k", LARGE)], modern.set(b"k", LARGE[:-1] + b"w" * 99)),
    "c10d_compare_set_large": ([modern.set(b"k", b"old")],
                               modern.compare_set(b"k", b"old", LARGE)),
    "c10d_multi_set_large": ([modern.set(b"k1", b"old")],
                             modern.multi_set((b"k0", LARGE), (b"k1", LARGE), (b"k2", b"v"))),
    "c10d_append_large": ([modern.set(b"k", LARGE)], modern.append(b"k", LARGE)),
    "c10d_push_large": ([], modern.push(b"q", LARGE)),
    "c10d_add": ([], modern.add(b"n", 7)),
    "c10d_add_again": ([modern.add(b"n", 7)], modern.add(b"n", 7)),
    "c10d_compare_set": ([], modern.compare_set(b"k", b"", BIG)),
    "c10d_compare_set_again": ([modern.set(b"k", b"old")],
                               modern.compare_set(b"k", b"old", BIG)),
    "c10d_append": ([modern.set(b"k", b"old")], modern.append(b"k", b"new" * 30)),
    "c10d_delete": ([modern.set(b"k", b"old")], modern.delete(b"k")),
    "c10d_get": ([modern.set(b"k", BIG)], modern.get(b"k")),
    "c10d_multi_get": ([modern.set(b"k", BIG)], modern.multi_get(*[b"k"] * 50)),
    "c10d_multi_set": ([], modern.multi_set(*[(b"k%d" % i, b"v" * 50) for i in range(10)])),
    "c10d_many_get": ([modern.multi_set(*MANY)], modern.multi_get(*[k for k, _ in MANY])),
    "c10d_many_set": ([modern.multi_set(*MANY)], modern.multi_set(*[(k, b"new") for k, _ in MANY])),
    "c10d_many_set_of_run": ([swap(b"", CREATED), modern.multi_set(*MANY)], modern.multi_set(
        (RUN, COMPLETE), *[(RUN + b"/%d" % i, b"v") for i in range(20)], *MANY)),
    "c10d_many_check": ([modern.multi_set(*MANY)], modern.check(*[k for k, _ in MANY])),
    "c10d_many_wait": ([modern.multi_set(*MANY)], modern.wait(b"absent", *[k for k, _ in MANY]) + modern.cancel_wait()),
    "c10d_wait": ([], modern.wait(b"a", b"b") + modern.cancel_wait()),
    "c10d_barrier": ([], modern.barrier(b"b", 2) + modern.cancel_wait()),
    "c10d_push": ([], modern.push(b"q", b"element")),
    "c10d_pop": ([modern.push(b"q", BIG)], modern.pop(b"q")),
    "c10d_queue_len": ([modern.push(b"q", BIG)], modern.queue_len(b"q")),
    "c10d_list": ([modern.multi_set(*[(b"k%d" % i * 20, b"v") for i in range(50)])], modern.list_keys()),
    "c10d_agent": ([], swap(b"", CREATED)),
    "c10d_agent_joins": ([swap(b"", CREATED)], swap(CREATED, JOINED)),
    "c10d_agent_completes": ([swap(b"", CREATED), swap(CREATED, JOINED)], swap(JOINED, COMPLETE)),
    "c10d_agent_closes": ([swap(b"", COMPLETE)], swap(COMPLETE, CLOSED)),
    "c10d_agent_looks": ([swap(b"", COMPLETE)], modern.get(RUN)),
    "c10d_run_set": ([modern.set(b"k", b"v")], modern.set(RUN, COMPLETE)),
    "legacy_set": ([], legacy.set(b"k", BIG)),
    "legacy_add": ([], legacy.add(b"k", 7)),
    "legacy_get": ([legacy.set(b"k", BIG)], legacy.get(b"k")),
    "legacy_wait": ([legacy.set(b"k", b"v")], legacy.wait(b"k")),
    "legacy_watch": ([], legacy.watch(b"k")),
    "legacy_watch_two": ([legacy.set(b"k", b"v")],
                         legacy.watch(b"k") + legacy.watch(b"l")),
    "legacy_watched": ([legacy.set(b"k", b"old")],
                       legacy.watch(b"k") + legacy.set(b"k", BIG) + legacy.delete(b"k")),
    "link_hello": ([], b""),
    "link_open": ([], link()),
    "link_close": ([], link() + frames.frame(frames.CLOSE, b"", CHANNEL)),
    "link_set": ([], link(modern.set(b"new", BIG), modern.get(b"new"))),
    "link_set_large": ([], link(modern.set(b"new", LARGE), modern.add(b"n", 7))),
    "link_compare_set": ([modern.set(b"k", b"old")],
                         link(modern.compare_set(b"k", b"old", BIG))),
    "link_get_large": ([modern.set(b"k", LARGE)], link(modern.get(b"k"))),
    "link_many_set": ([modern.multi_set(*MANY)], link(modern.multi_set(*[(k, b"new") for k, _ in MANY]),
                                               modern.queue_len(b"q"))),
    "link_wait": ([], link(modern.wait(b"a", b"b")) + frames.request(modern.cancel_wait(), CHANNEL, 2)),
    "link_barrier": ([], link(modern.barrier(b"b" * 3000, 2)) + frames.request(modern.cancel_wait(), CHANNEL, 2)),
    "link_agent_joins": ([swap(b"", CREATED)], link(swap(CREATED, JOINED))),
    "http_put": ([], http("PUT", "/v2/keys/a/b/c?value=v")),
    "http_put_form": ([], http("PUT", "/v2/keys/a", b"value=" + BIG)),
    "http_put_large_form": ([http("PUT", "/v2/keys/a", b"value=" + LARGE_FORM)],
                            http("PUT", "/v2/keys/a", b"value=" + LARGE_FORM + b"end")),
    "http_swap_large_form": ([http("PUT", "/v2/keys/a", b"value=" + LARGE_FORM)],
                             http("PUT", "/v2/keys/a", b"prevValue=" + LARGE_FORM + b"&value=" + LARGE_FORM[5:])),
    "http_put_large_plain": ([], http("PUT", "/v2/keys/a", b"value=" + LARGE[1:])),
    "http_post_large_form": ([], http("POST", "/v2/keys/queue", b"value=" + LARGE_FORM)),
    "http_put_again": ([http("PUT", "/v2/keys/a?value=old")],
                       http("PUT", "/v2/keys/a", b"value=" + BIG)),
    "http_put_ttl": ([], http("PUT", "/v2/keys/a?value=v&ttl=1000")),
    "http_put_dir": ([], http("PUT", "/v2/keys/a?dir=true")),
    "http_refresh": ([http("PUT", "/v2/keys/a?value=v&ttl=1000")],
                     http("PUT", "/v2/keys/a?ttl=2000&refresh=true&prevExist=true")),
    "http_post": ([], http("POST", "/v2/keys/queue?value=v")),
    "http_swap": ([http("PUT", "/v2/keys/a?value=old")],
                  http("PUT", "/v2/keys/a?prevValue=old&value=new")),
    "http_swap_fails": ([http("PUT", "/v2/keys/a", b"value=" + BIG)],
                        http("PUT", "/v2/keys/a?prevValue=other&value=new")),
    "http_delete": ([http("PUT", "/v2/keys/a?value=old")], http("DELETE", "/v2/keys/a")),
    "http_delete_all": ([http("PUT", "/v2/keys/a/b/c?value=v")],
                        http("DELETE", "/v2/keys/a?recursive=true")),
    "http_get": ([http("PUT", "/v2/keys/a", b"value=" + BIG)], http("GET", "/v2/keys/a")),
    "http_get_all": ([http("PUT", "/v2/keys/a/b/%d?value=v" % i) for i in range(30)],
                     http("GET", "/v2/keys/?recursive=true&sorted=true")),
    "http_get_large": ([http("PUT", "/v2/keys/a", b"value=" + 20 * BIG)],
                       http("GET", "/v2/keys/a")),
    "http_get_many": ([http("PUT", "/v2/keys/a/%d/b?value=v" % i) for i in range(150)],
                      http("GET", "/v2/keys/?recursive=true&sorted=true")),
    "http_put_large": ([http("PUT", "/v2/keys/a", b"value=" + 20 * BIG)],
                       http("PUT", "/v2/keys/a", b"value=" + 21 * BIG)),
    "http_watch_large": ([http("PUT", "/v2/keys/a", b"value=" + 20 * BIG)],
                         http("GET", "/v2/keys/a?wait=true&waitIndex=%INDEX%")),
    "http_watch_past": ([http("PUT", "/v2/keys/a?value=v")],
                        http("GET", "/v2/keys/a?wait=true&waitIndex=%INDEX%")),
    "http_users": ([], http("GET", "/v2/auth/users")),
    "http_roles": ([], http("GET", "/v2/auth/roles")),
    "http_role": ([], http("GET", "/v2/auth/roles/none")),
    "http_members": ([], http("GET", "/v2/members")),
    "http_machines": ([], http("GET", "/v2/machines")),
    "http_stats": ([], http("GET", "/v2/stats/store")),
    "http_stats_self": ([], http("GET", "/v2/stats/self")),
    "http_stats_leader": ([], http("GET", "/v2/stats/leader")),
    "http_log_level": ([], http("PUT", "/config/local/log", b'{"Level":"INFO"}', "application/json")),
    "http_vars": ([], http("GET", "/debug/vars")),
    "http_health": ([], http("GET", "/health")),
    "http_version": ([], http("GET", "/version")),
    "http_livez": ([], http("GET", "/livez?verbose")),
    "http_readyz": ([], http("GET", "/readyz?verbose")),
    "http_metrics": ([], http("GET", "/metrics", headers=OPERATOR_HEADERS)),
    "http_run_of_etcd_v2": ([http("PUT", RUN_V2, b"value=" + quoted(JOINED))],
                            http("PUT", RUN_V2, b"value=" + quoted(COMPLETE))),
    "http_page": ([], http("GET", "/")),
    "http_status": ([], http("GET", "/rdzv/v1/status", headers=OPERATOR_HEADERS)),
    "http_space_status": ([], http("GET", "/rdzv/v1/spaces/default/status")),
    "http_node": ([http("PUT", RUN_V2, b"value=" + quoted(JOINED))],
                  http("GET", "/rdzv/v1/spaces/default/runs/r?rank=0", headers=OPERATOR_HEADERS)),
    "http_forget_run": ([http("PUT", RUN_V2, b"value=" + quoted(JOINED))],
                        http("DELETE", "/rdzv/v1/spaces/default/runs/r", headers=OPERATOR_HEADERS)),
    "http_monitor": ([], http("GET", "/rdzv/v1/monitor", headers=OPERATOR_HEADERS)),
    "http_status_feed": ([http("PUT", RUN_V2, b"value=" + quoted(JOINED))],
                         http("GET", "/rdzv/v1/spaces/default/status",
                              headers=OPERATOR_HEADERS + (("Accept", "text/event-stream"),))),
    "http_reset": ([http("PUT", "/v2/keys/a?value=v")],
                   http("DELETE", "/rdzv/v1/spaces/default", headers=OPERATOR_HEADERS)),
    "http_redirect": ([], http("GET", "/v2//keys/" + "a" * 3000)),
    "http_long_path": ([], http("GET", "/v2/keys/" + "a" * 3000)),
    "http_not_found": ([], http("GET", "/nothing")),
}

# ---- the daemon


class Page:
    """What fail_malloc.c reads and writes."""

    def __init__(self, path):
        with open(path, "wb") as f:
            f.write(bytes(4096))
        self.file = open(path, "r+b")
        self.map = mmap.mmap(self.file.fileno(), 4096)

    def arm(self, k, every, least=0):
        self.map[24:32] = struct.pack("<q", least)
        self.map[:24] = struct.pack("<qqq", k, every, 0)

    def disarm(self):
        failed = struct.unpack("<q", self.map[16:24])[0]
        self.map[:24] = bytes(24)
        return failed


class Client:
    def __init__(self, port, hello=b""):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.socket.sendall(hello)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # it has been closed

    def until(self, done):
        """What has come once done(it) or the connection has ended; and whether the first is so."""
        got = b""
        while not done(got):
            try:
                more = self.socket.recv(1 << 20)
            except ConnectionResetError:
                return got, False
            if not more:
                return got, False
            got += more
        return got, True


def whole_http(got):
    head, end, body = got.partition(b"\r\n\r\n")
    if not end:
        return False
    length = re.search(rb"Content-Length: (\d+)", head)
    if length:
        return len(body) >= int(length.group(1))
    return b"chunked" not in head or body.endswith(b"0\r\n\r\n")


def is_event(got):
    """The first one of a stream has come, or there is no stream."""
    head, end, body = got.partition(b"\r\n\r\n")
    return b"\n\n" in body if b"event-stream" in head else whole_http(got)


def is_watched(got):
    """Events stand behind the answers, in the order of the changes: one of SET, one of DELETE."""
    answers, end, events = got.partition(END)
    return end and events.endswith(blob(BIG) + blob(b""))


def dialect(kind, request):
    """The bytes that open a connection, a test for the end of their answer, the bytes behind the request, and a test
    for the end of all answers."""
    if kind.startswith("c10d"):
        return HELLO, lambda got: got.endswith(PONG), modern.ping(END), lambda got: got.endswith(END)
    if kind.startswith("legacy"):
        return (b"", lambda got: True, LEGACY_END,
                is_watched if kind == "legacy_watched" else lambda got: got.endswith(END))
    if kind == "link_hello":
        return b"", lambda got: True, frames.hello(b"default"), is_welcome
    if kind.startswith("link"):
        asked = any(kind == frames.REQUEST for kind, _, _ in frames_of(request))
        return (frames.hello(b"default"), is_welcome, frames.frame(frames.PING),
                lambda got: is_told(got, asked))
    return b"", lambda got: True, b"", is_event if kind in STREAMS else whole_http


def ask(port, kind, request, before=lambda: None):
    """Sends a request on a connection of its own; `before` is called when that is there."""
    hello, is_greeted, tail, is_done = dialect(kind, request)
    with Client(port, hello) as c:
        c.until(is_greeted)
        before()
        c.send(request + tail)
        return c.until(is_done)


def timeless(got):
    """The bytes with each state of torch replaced by a text that names the nodes with a heartbeat, but omits the times:
    rdzvd moves heartbeats forward, and shifts them to the clock of each agent."""
    def text_of(found):
        try:
            s = torch_state.loads(found.group())
        except (AssertionError, EOFError, ValueError, pickle.UnpicklingError):
            return found.group()  # what is there instead is compared as it is
        return repr((s.round, s.complete, s.deadline is not None, s.closed, sorted(s.participants.items()),
                     sorted(s.wait_list), sorted(s.redundancy_list), sorted(s.last_heartbeats))).encode()
    return STATE.sub(text_of, got)


def plain(node):
    """A node of etcd's tree without its indexes and times."""
    return {"key": re.sub(r"\d{20}$", "N", node.get("key", "/")), "ttl": "ttl" in node,
            "value": timeless(node.get("value", "").encode()),
            "nodes": sorted((plain(n) for n in node.get("nodes", ())), key=lambda n: n["key"])}


def tree(port):
    got, _ = ask(port, "http", http("GET", "/v2/keys/?recursive=true"))
    head, _, body = without_chunks(got).partition(b"\r\n\r\n")
    return int(re.search(rb"X-Etcd-Index: (\d+)", head).group(1)), plain(json.loads(body)["node"])


def blobs(got, count):
    at, items = 0, []
    for _ in range(count):
        size = read_number(got[at:at + 8])
        items.append(got[at + 8:at + 8 + size])
        at += 8 + size
    return items


def keys(port):
    got, _ = ask(port, "c10d", modern.list_keys())
    names = blobs(got[8:], read_number(got[:8]))
    values = blobs(ask(port, "c10d", modern.multi_get(*names))[0], len(names)) if names else []
    return names, [timeless(value) for value in values], ask(port, "c10d", modern.queue_len(b"q"))[0]


def runs(port):
    """The status of all runs, without times and connections."""
    got = ask(port, "http", http("GET", "/rdzv/v1/spaces/default/status", headers=OPERATOR_HEADERS))
    listed = json.loads(got[0].partition(b"\r\n\r\n")[2])["runs"]
    return [(r["id"], r["backend"], r["state"], r.get("round"), r["participants"], r["waiting"],
             [(n["addr"], n["role"], n.get("rank")) for n in r["nodes"]]) for r in listed]


def state(port):
    index, nodes = tree(port)
    return {"index": index, "tree": nodes, "keys": keys(port), "runs": runs(port)}


class Lab:
    def __init__(self, directory, relay):
        self.page = Page(os.path.join(directory, "page"))
        environment = dict(os.environ, LD_PRELOAD=LIBRARY, FAIL_MALLOC=self.page.file.name)
        # The end of an agent's connection changes the state, too, and is no request.
        flags = token_flag(), "--disable=drop-disconnected"
        if relay:
            self.store = Rdzvd(*flags)
            self.server = Rdzvd("--upstream=127.0.0.1:%d" % self.store.port, env=environment)
        else:
            self.store = None
            self.server = Rdzvd(*flags, env=environment)
        self.port = self.server.port

    def stop(self):
        code = self.server.stop()
        if self.store is not None:
            self.store.stop()
        return code

    def reset(self, kind, setup):
        """Nothing is there but what the setup makes. Returns the state."""
        got, _ = ask(self.port, "http",
                     http("DELETE", "/rdzv/v1/spaces/default", headers=OPERATOR_HEADERS))
        if not got.startswith(b"HTTP/1.1 2"):
            raise AssertionError("a reset came to %r" % got[:100])
        spoken = kind.partition("_")[0]
        for request in setup:
            _, whole = ask(self.port, "c10d" if spoken == "link" else spoken, request)
            if not whole:
                raise AssertionError("what is there before was refused: %r" % request[:100])
        return state(self.port)


def relative(now, base):
    return dict(now, index=now["index"] - base)


def without_chunks(got):
    """A whole answer: how its body is cut into chunks depends on when its bytes came."""
    head, end, rest = got.partition(b"\r\n\r\n")
    if b"\r\nTransfer-Encoding: chunked" not in head or not whole_http(got):
        return got
    body = b""
    while rest and not rest.startswith(b"0\r\n"):
        size, _, rest = rest.partition(b"\r\n")
        body, rest = body + rest[:int(size, 16)], rest[int(size, 16) + 2:]
    return head + end + body


STREAMS = ("http_monitor", "http_status_feed")
ANY_ANSWER = ("http_metrics", "http_stats", "http_vars") + STREAMS


def same_answer(kind, answer, right):
    """Indexes, times and dates differ, the length with them; and so does what counts requests. 59 s are followed by 1m0s."""
    def shape(got):
        if kind.startswith("link"):
            return link_shape(got)
        got = timeless(re.sub(rb"Date: [^\r]*|(?<=\"uptime\":\")[^\"]*", b"", without_chunks(got)))
        return re.sub(rb"\d+", b"N", got) if kind.startswith("http") else got
    return shape(answer) == shape(right) or kind in ANY_ANSWER


def is_error(kind, answer):
    if kind.startswith("link"):
        return any(k in (frames.ENDED, frames.REFUSED) for k, _, _ in frames_of(answer))
    return kind.startswith("http") and re.match(rb"HTTP/1.1 (5\d\d|400)", answer)


def try_once(lab, kind, k, every):
    """One request whose k-th allocation fails. Returns how many failed, and why it is wrong."""
    setup, request = REQUESTS[kind]
    before = lab.reset(kind, setup)
    request = request.replace(b"%INDEX%", b"%d" % before["index"]).replace(SESSION, os.urandom(8))
    answer, whole = ask(lab.port, kind, request, before=lambda: lab.page.arm(k, every))
    failed = lab.page.disarm()
    after = state(lab.port)
    return failed, answer, whole, relative(before, before["index"]), relative(after, before["index"])


def settled(lab, right, now):
    """A run that could not be read is read again by the next tick."""
    deadline = time.monotonic() + 5
    while now not in right and time.monotonic() < deadline:
        again = state(lab.port)
        now = dict(again, index=now["index"])
    return now


SETTLES_LATER = ("c10d_agent_closes",)  # rdzvd looks at it again a tick later, without a request


def states_of(lab, kind, before, changed):
    """What may be there after a request."""
    deadline, later = time.monotonic() + 5, changed
    while kind in SETTLES_LATER and later == changed and time.monotonic() < deadline:
        later = dict(state(lab.port), index=changed["index"])
    return before, changed, later


def try_kind(lab, kind, every):
    """None, or what is wrong."""
    _, right, whole, before, changed = try_once(lab, kind, 0, 0)
    if not whole:
        return "without a failure the answer is %r" % right[:200]
    expected = states_of(lab, kind, before, changed)
    for k in range(1, CALLS_MOST):
        failed, answer, whole, _, after = try_once(lab, kind, k, every)
        where = "k=%d: " % k
        if after not in expected:
            after = settled(lab, expected, after)
        if after not in expected:
            return where + "the state is %r, neither %r nor %r" % (after, before, changed)
        if whole and not same_answer(kind, answer, right) and not is_error(kind, answer):
            return where + "the answer is %r, not %r" % (answer[:200], right[:200])
        if whole and same_answer(kind, answer, right) and after not in expected[1:]:
            return where + "the answer is right, and nothing has changed"
        if kind.startswith("http") and whole and is_error(kind, answer) and not is_error(kind, right) \
                and after != before:
            return where + "the answer is an error, and the state has changed"
        if failed == 0:
            print("  %-24s %d allocations" % (kind, k - 1), flush=True)
            return None
    return "still fails at k=%d" % k


LITTLE_METRICS = "metrics_of_little"


def try_metrics(lab):
    """rdzvd answers /metrics even if no allocation of a page or more succeeds: it reserves memory for them."""
    with Client(lab.port) as c:
        for path, least in (("/health", 0), ("/metrics", 4096)):
            if least:
                lab.page.arm(1, 1, least)
            c.send(http("GET", path, headers=OPERATOR_HEADERS))
            answer, _ = c.until(whole_http)
        lab.page.disarm()
    if not answer.startswith(b"HTTP/1.1 200") or b"\nrdzvd_connections " not in answer:
        return "the answer is %r" % answer[:200]
    return None


def main():
    deep = "--deep" in sys.argv
    relay = "--relay" in sys.argv
    words = [w for w in sys.argv[1:] if not w.startswith("--")]
    kinds = [kind for kind in REQUESTS if not relay or kind.startswith("http")] + [LITTLE_METRICS]
    if not os.path.exists(LIBRARY):
        print("0 passed, 0 failed, 1 skipped: no %s; a sanitizer has its own malloc()" % LIBRARY)
        return 0
    passed = failed = 0
    with tempfile.TemporaryDirectory() as directory:
        lab = Lab(directory, relay)
        for every in ([0, 1] if deep else [0]):
            for kind in kinds:
                if words and not any(w in kind for w in words):
                    continue
                try:
                    why = try_metrics(lab) if kind == LITTLE_METRICS else try_kind(lab, kind, every)
                except (OSError, AssertionError, ValueError, AttributeError, struct.error) as e:
                    why = repr(e)
                if why is not None and "refused" in why:
                    lab.server.process.wait(20)
                if lab.server.process.poll() is not None:
                    why = "rdzvd has ended with %s: %s" % (lab.server.process.poll(), why)
                    lab = Lab(directory, relay)
                if why is None:
                    passed += 1
                else:
                    failed += 1
                    print("FAIL %s%s: %s (again: python3 tests/process/no_memory.py %s%s)" % (
                        kind, ", all fail" if every else "", why,
                        ("--deep " if every else "") + ("--relay " if relay else ""), kind),
                        flush=True)
                    lab.page.disarm()
        if lab.stop() != 0:
            failed += 1
            print("FAIL rdzvd ended with %s" % lab.server.process.returncode)
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
