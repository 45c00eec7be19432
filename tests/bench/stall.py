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
import socket
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", where) for where in ("support", "elastic", "wire")]
import agents                # noqa: E402
from c10d import NONCE, Peer, modern  # noqa: E402
import torch_state as ts     # noqa: E402
from probe import Probe      # noqa: E402
from stall_many import await_watchers, delete, for_all, read_until, take, watchers  # noqa: E402
from stall_scene import (  # noqa: E402
    CASES, FALLS_BACK, MIB, PROBED_LEAST, RUN, RUN_KEYS_MAX, SMALL_MEMORY, Scene, case, http_request,
    multi_set, send_all)


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
    size = s.of(MIB - 100)
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
    while time.monotonic() < deadline and len(json.loads(s.ask(
            "GET", "/rdzv/v1/spaces/default/status"))["runs"]) > left:
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
