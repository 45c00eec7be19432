"""Lists, requests with many keys, and changes that many clients wait for. The cases run with stall.py."""

import json
import os
import select
import socket
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", where) for where in ("support", "elastic", "wire")]
from c10d import NONCE, STOP_WAITING, modern  # noqa: E402
import relay_frames as relay  # noqa: E402
import torch_state as ts     # noqa: E402
from stall_scene import (  # noqa: E402
    KEYS_MAX, MIB, RUN, RUN_KEYS_MAX, SMALL_MEMORY, case, http_request, multi_set, read_to, send_all)


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
            try:
                changer.send((modern.delete(key) + modern.set(key, b"v")) * 50)
                take(changer.socket, 50 * 8)
            except OSError:
                return  # the case has run out of patience, and its sockets are closed

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
