"""Relays in front of a real store, which is killed, stopped and started again under its clients: they
notice nothing, and everything happens once.

    relay.py [NAME...]     all cases, or the cases whose name contains a NAME

$RDZV_SEED is the seed of what is random (1). $RDZVD_OTHER is another release, for upgrades; without it, the
test uses the build's second rdzvd, which also speaks a newer version of the frames. Everything stays on loopback and
in directories that the test made.
"""

import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "elastic")]
import cases  # noqa: E402
from agents import PREFIX, Agent, meet, rejoin  # noqa: E402
from c10d import NONCE, WAIT_CANCELED, Peer, legacy, modern, number  # noqa: E402
from cases import case, check  # noqa: E402
from disk import NEEDS_ROOT, fill_disk, put_ballast, small_disk  # noqa: E402
from proxy import Proxy  # noqa: E402
from servers import Rdzvd, free_port, rdzvd_binary  # noqa: E402
import torch_state  # noqa: E402

SEED = int(os.environ.get("RDZV_SEED", "1"))
MIB = 1 << 20


def same(got, wanted, what):
    check(got == wanted, "%s: %.300r, not %.300r" % (what, got, wanted))


class Store:
    """A store on one port, with a directory (inside `parent`) that outlives it; or, `durable` False,
    without."""

    def __init__(self, *flags, durable=True, start=True, mode="batch", parent=None):
        self.folder = tempfile.mkdtemp(prefix="rdzv-relay-", dir=parent)
        self.port = free_port()
        self.flags = list(flags) + (["--data-dir=" + self.folder, "--sync=" + mode] if durable else [])
        self.daemon = None
        self.log = ""
        if start:
            self.start()

    def start(self, host="127.0.0.1", binary=None):
        self.daemon = Rdzvd(*self.flags, listen=("%s:%d" % (host, self.port),), binary=binary)

    def kill(self, sig=signal.SIGKILL):
        code = self.daemon.stop(sig)
        self.log += self.daemon.log()
        wanted = 0 if sig == signal.SIGTERM else -sig
        check(code == wanted, "the store ended with %d, not %d:\n%s" % (code, wanted, self.daemon.log()))
        self.daemon = None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.daemon is not None:
            if kind is not None:
                print("the store's log ends:\n" + self.daemon.log()[-3000:])
                self.daemon.stop(signal.SIGKILL)
            else:
                self.kill(signal.SIGTERM)
        shutil.rmtree(self.folder)


class Relay(Rdzvd):
    def __init__(self, *stores, flags=(), **kwargs):
        upstream = ",".join(s if isinstance(s, str) else "127.0.0.1:%d" % s.port for s in stores)
        super().__init__("--upstream=" + upstream, *flags, **kwargs)

    def linked(self, count=1):
        self.wait_log("event=upstream_connected", count=count)

    def lost(self, count=1):
        self.wait_log("event=upstream_lost", count=count)

    def __exit__(self, kind, *_):
        if kind is not None:
            print("the relay's log ends:\n" + self.log()[-3000:])
            self.stop(signal.SIGKILL)
        else:
            code = self.stop()
            check(code == 0, "the relay ended with %d:\n%s" % (code, self.log()))


def ask(port, path):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    c.request("GET", path, headers={"Host": "localhost"})
    answer = c.getresponse()
    got = answer.status, answer.read().decode()
    c.close()
    return got


def metric(port, name):
    found = re.search(r"^%s (\S+)$" % re.escape(name), ask(port, "/metrics")[1], re.M)
    check(found, "no metric " + name)
    return float(found.group(1))


def until(condition, what, seconds=20):
    """Asks again until it is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < deadline, "not after %d s: %s" % (seconds, what))
        time.sleep(0.01)


def in_thread(function, *args):
    """Runs it; .join() raises what it raised."""
    class Thread(threading.Thread):
        failure = None

        def run(self):
            try:
                function(*args)
            except Exception as e:  # told by finish()
                self.failure = e

        def finish(self, timeout=60):
            self.join(timeout)
            check(not self.is_alive(), "it hangs")
            if self.failure is not None:
                raise self.failure

    thread = Thread(daemon=True)
    thread.start()
    return thread


# --- Before the first link, and without a link.


@case
def clients_that_start_before_the_store_wait():
    with Store(start=False) as store, Relay(store) as relay:
        status, body = ask(relay.port, "/readyz")
        same(status, 503, "/readyz")
        check("[-]upstream failed: no store was reached yet" in body, body)
        same(ask(relay.port, "/livez")[0], 200, "/livez")
        late = socket.create_connection(("127.0.0.1", relay.port), timeout=20)
        late.sendall(modern.hello())
        old = socket.create_connection(("127.0.0.1", relay.port), timeout=20)
        old.sendall(legacy.add(b"n", 4))
        until(lambda: metric(relay.port, "rdzvd_relay_unconfirmed_requests") == 1, "the ADD is held")
        store.start()
        same(late.recv(4, socket.MSG_WAITALL), NONCE, "PING's answer")
        same(old.recv(8, socket.MSG_WAITALL), number(4), "ADD's answer")
        same(ask(relay.port, "/readyz")[0], 200, "/readyz")
        same(metric(relay.port, "rdzvd_relay_upstream_connected"), 1, "upstream_connected")
        store.kill()
        relay.lost()
        status, body = ask(relay.port, "/readyz?verbose")
        same(status, 200, "/readyz while the store is away")
        check("the store is away since" in body, body)
        same(metric(relay.port, "rdzvd_relay_upstream_connected"), 0, "upstream_connected")
        same(Peer(relay.port).socket.fileno() > 0, True, "PING is answered without a link from now on")
        late.close()
        old.close()


@case
def ipv4_and_ipv6_are_accepted():
    with Store() as store, Relay(store, listen=("127.0.0.1:0", "[::1]:0")) as relay:
        for host, port in (("127.0.0.1", relay.ports[0]), ("::1", relay.ports[-1])):
            Peer(port, host=host).close()


@case
def a_wait_that_is_cancelled_while_the_store_is_away():
    with Store() as store, Relay(store) as relay:
        p, other = Peer(relay.port), Peer(relay.port)
        p.wait(b"k")
        other.set(b"seen", b"1")
        other.ping()
        store.kill()
        relay.lost()
        p.send(modern.cancel_wait())
        p.expect(WAIT_CANCELED)
        store.start()
        p.set(b"k", b"v")
        same(p.wait_get(b"k"), b"v", "GET")
        check(p.is_silent(other), "something came of the WAIT")


@case
def a_client_that_leaves_while_the_link_is_away():
    with Store() as store, Relay(store) as relay:
        waits, writes = Peer(relay.port), Peer(relay.port)
        waits.wait(b"never")
        writes.add(b"n", 1)
        store.kill()
        relay.lost()
        writes.set(b"left", b"behind")
        writes.close()
        waits.close()
        store.start()
        relay.linked(2)
        until(lambda: metric(relay.port, "rdzvd_relay_clients") == 0, "both sessions are closed")
        p = Peer(relay.port)
        same(p.wait_get(b"left"), b"behind", "what came before the end counts")
        same(metric(store.port, 'rdzvd_relay_sessions{state="detached"}'), 0, "detached sessions")
        until(lambda: metric(store.port, 'rdzvd_relay_sessions{state="attached"}') == 1, "one is left")
        p.close()
        until(lambda: metric(store.port, 'rdzvd_relay_sessions{state="attached"}') == 0,
              "the store is told at once")


# --- Exactly once.


class Load:
    """Clients that count their acknowledged changes, for a comparison with the store's content."""

    def __init__(self, ports, clients, mixed):
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.added = self.appended = self.pushed = self.cas = self.parts = 0
        self.popped = []
        self.threads = [in_thread(self.run, ports[i % len(ports)], i, mixed) for i in range(clients)]

    def tell(self, name, value):
        with self.lock:
            setattr(self, name, getattr(self, name) + value)

    def run(self, port, i, mixed):
        random_ = random.Random(SEED * 1000 + i)
        p, n, own = Peer(port), 0, 0
        while not self.stop.is_set():
            n += 1
            kind = random_.choice(("add", "append", "cas", "push", "pop", "own", "get")) if mixed else "add"
            mark, part = b"<%d.%d>" % (i, n), b"%d" % (n // 50)  # so that no value gets long
            if kind == "add":
                p.add(b"sum", 1)
                self.tell("added", 1)
            elif kind == "append":
                p.append(b"text" + part, mark)
                self.tell("appended", 1)
            elif kind == "cas":
                while True:
                    have = p.get(b"cas" + part)
                    if p.cas(b"cas" + part, have, have + mark) == have + mark:
                        break
                self.tell("cas", 1)
            elif kind == "push":
                p.push(b"queue", mark)
                self.tell("pushed", 1)
            elif kind == "pop":
                p.send(modern.pop(b"queue"))
                if p.number() > 0:
                    with self.lock:
                        self.popped.append(p.blob())
            elif kind == "own":
                own += 1
                same(p.add(b"own%d" % i, 1), own, "ADD of a key that nobody else has")
            else:
                p.get(b"text" + part)
        p.ping()
        p.close()
        with self.lock:
            self.parts = max(self.parts, n // 50 + 1)

    def finish(self):
        self.stop.set()
        for thread in self.threads:
            thread.finish()

    def compare(self, port):
        p = Peer(port)
        same(p.add(b"sum", 0), self.added, "ADDs")
        for key, count in ((b"text", self.appended), (b"cas", self.cas)):
            marks = [m for i in range(self.parts) for m in re.findall(rb"<[^>]*>", p.get(key + b"%d" % i))]
            same(len(marks), count, "parts of " + key.decode())
            same(len(set(marks)), count, "different parts of " + key.decode())
        left = []
        while True:
            p.send(modern.pop(b"queue"))
            if p.number() == 0:
                break
            left.append(p.blob())
        same(len(self.popped) + len(left), self.pushed, "elements of the queue")
        same(len(set(self.popped + left)), self.pushed, "different elements of the queue")
        p.close()


def killed_under_load(mode, kills, clients, mixed):
    random_ = random.Random(SEED)
    with Store(mode=mode) as store, Relay(store) as one, Relay(store) as two:
        load = Load((one.port, two.port), clients, mixed)
        for i in range(kills):
            time.sleep(random_.uniform(0.02, 0.3))
            store.kill()
            time.sleep(random_.choice((0, 0.1, 0.3)))
            store.start()
            one.linked(i + 2)
        load.finish()
        check(load.added > kills, "%d ADDs" % load.added)
        load.compare(one.port)
        for relay in (one, two):
            check("session_lost" not in relay.log() and "dropped" not in relay.log(), relay.log())
            same(metric(relay.port, "rdzvd_relay_unconfirmed_requests"), 0, "unconfirmed requests")
        check(metric(one.port, "rdzvd_relay_requests_resumed_total") > 0, "nothing was sent again")


@case
def killed_under_adds():
    killed_under_load("batch", 8, 8, False)


@case
def killed_under_everything():
    killed_under_load("batch", 8, 12, True)


@case
def killed_under_everything_with_sync_always():
    killed_under_load("always", 5, 8, True)


@case
def killed_while_clients_wait():
    with Store() as store, Relay(store) as relay:
        waiters = [Peer(relay.port) for _ in range(20)]
        for p in waiters:
            p.wait(b"a", b"b")
        writer = Peer(relay.port)
        writer.set(b"a", b"1")
        writer.ping()
        for i in range(3):
            store.kill()
            store.start()
            relay.linked(i + 2)
        check(waiters[0].is_silent(writer), "a WAIT was answered early")
        writer.set(b"b", b"2")
        for p in waiters:
            p.expect_stop_waiting()
            same(p.get(b"b"), b"2", "GET")
        for p in waiters:
            check(p.is_silent(writer), "a WAIT was answered twice")


@case
def killed_while_a_barrier_gathers():
    def barrier(p):
        p.send(modern.barrier(b"all", 6))

    with Store() as store, Relay(store) as relay:
        peers = [Peer(relay.port) for _ in range(6)]
        other = Peer(relay.port)
        for i, p in enumerate(peers[:5]):
            barrier(p)
            if i % 2:
                store.kill()
                store.start()
                relay.linked(2 + i // 2)
        until(lambda: other.get(b"all") == b"5", "five have arrived")
        check(peers[0].is_silent(other), "the barrier is open early")
        store.kill()
        relay.lost(3)
        barrier(peers[5])
        store.start()
        for p in peers:
            p.expect_stop_waiting()
        same(other.get(b"all"), b"6", "those who have arrived")


@case
def answers_that_are_lost_with_the_store_are_told_once():
    """The store is killed again and again right after it got a request."""
    with Store() as store, Relay(store) as relay:
        p = Peer(relay.port)
        for i in range(10):
            p.send(modern.add(b"n", 1))
            time.sleep(0.001 * (i % 3))
            store.kill()
            store.start()
            same(p.number(), i + 1, "ADD")
            same(p.delete(b"n%d" % i), 0, "DELETE_KEY")


@case
def a_client_that_has_sent_and_gone():
    with Store() as store, Relay(store) as relay:
        for i in range(30):
            p = Peer(relay.port)
            p.send(b"".join(modern.append(b"log", b"%d.%d " % (i, j)) for j in range(50)))
            p.close()
            if i % 10 == 5:
                store.kill()
                store.start()
        until(lambda: metric(relay.port, "rdzvd_relay_clients") == 0, "all sessions are closed")
        parts = Peer(relay.port).wait_get(b"log").split()
        same(len(parts), 1500, "parts")
        same(len(set(parts)), 1500, "different parts")
        for i in range(30):
            mine = [int(x.split(b".")[1]) for x in parts if x.startswith(b"%d." % i)]
            same(mine, list(range(50)), "their order")


@case
def requests_behind_a_wait_count_once_their_client_is_half_closed():
    """To the store it is the same client as one without a relay."""
    with Store() as store, Relay(store) as relay:
        keys = [b"%d" % i + b"k" * 8000 for i in range(12)]  # in two frames
        for name, port in (("store", store.port), ("relay", relay.port)):
            for wait in (modern.wait(b"never"), modern.wait(*keys)):
                p = Peer(port)
                p.send(wait + modern.set(b"behind", name.encode()) + modern.add(b"n", 1))
                p.socket.shutdown(socket.SHUT_WR)
                p.socket.recv(100)
                p.close()
            q = Peer(port)
            same(q.wait_get(b"behind"), name.encode(), "the SET behind the WAIT")
            until(lambda: q.add(b"n", 0) == 2, "both ADDs behind WAITs count")
            q.add(b"n", -2)
            q.close()


@case
def a_store_that_has_lost_its_memory():
    """Without --data-dir, acknowledged changes are lost, so the relay ends the clients."""
    with Store(durable=False) as store, Relay(store) as relay:
        p, fresh = Peer(relay.port), Peer(relay.port)
        same(p.add(b"n", 1), 1, "ADD")
        store.kill()
        store.start()
        p.expect_end()
        relay.wait_log(r"event=session_lost .*has lost its state")
        same(fresh.add(b"n", 1), 1, "ADD of a client that had asked for nothing")


@case
def a_store_that_has_gone_back():
    """An older copy of its directory replaces the current one: the store ends the clients that have changed keys since
    then, and no others. A killed store does not go back."""
    with Store() as store, Relay(store) as relay:
        p, reads, early = Peer(relay.port), Peer(relay.port), Peer(relay.port)
        same(early.add(b"early", 1), 1, "ADD")
        same(reads.get(b"early"), b"1", "GET")
        for n in range(1, 20):
            same(p.add(b"n", 1), n, "ADD")
            if n == 10:
                store.kill()
                copy = store.folder + ".copy"
                shutil.copytree(store.folder, copy)
                store.start()
        same(reads.get(b"n"), b"19", "GET")
        store.kill()
        shutil.rmtree(store.folder)
        os.rename(copy, store.folder)
        store.start()
        p.expect_end()
        relay.wait_log("event=session_lost .*the store has gone back: what this client had changed is not there")
        same(early.add(b"early", 1), 2, "ADD of a client whose changes are all there")
        same(reads.get(b"n"), b"10", "GET of a client that has changed nothing")
        for reason, count in (("gone_back", 1), ("unknown", 0), ("ended", 0)):
            same(metric(relay.port, 'rdzvd_relay_clients_lost_total{reason="%s"}' % reason), count, reason)
        same(metric(relay.port, "rdzvd_relay_reconnects_total"), 2, "reconnects")
        away = metric(relay.port, "rdzvd_relay_away_seconds_total")
        check(away > 0, "the store was away for %f s" % away)


@case
def a_wait_without_its_store_lags():
    with Store() as store, Relay(store) as relay:
        p, other = Peer(relay.port), Peer(relay.port)
        p.wait(b"k")
        until(lambda: metric(store.port, 'rdzvd_space_waiters{space="default"}') == 1, "it waits")
        same(metric(relay.port, "rdzvd_relay_lag_seconds"), 0, "lag")
        store.kill()
        relay.lost()
        until(lambda: metric(relay.port, "rdzvd_relay_lag_seconds") > 1, "it lags")
        store.start()
        relay.linked(2)
        until(lambda: metric(relay.port, "rdzvd_relay_lag_seconds") == 0, "it waits again")
        other.set(b"k", b"v")
        p.expect_stop_waiting()


# --- A link that is slow, dead, or somewhere else.


@case
def a_store_that_stands_still():
    with Store() as store, Relay(store) as relay:
        p = Peer(relay.port)
        p.add(b"n", 1)
        store.daemon.process.send_signal(signal.SIGSTOP)
        p.send(modern.add(b"n", 1))
        started = time.monotonic()
        relay.wait_log("event=upstream_lost .*nothing has come from the store for 15s", timeout=25)
        check(time.monotonic() - started > 13, "too soon")
        store.daemon.process.send_signal(signal.SIGCONT)
        same(p.number(), 2, "ADD")
        same(p.add(b"n", 1), 3, "ADD")


@case
def the_second_store_is_tried():
    with Store() as store, Relay("127.0.0.1:%d" % free_port(), store) as relay:
        same(Peer(relay.port).add(b"n", 1), 1, "ADD")
        relay.wait_log("event=upstream_failed")


@case
def names_are_looked_up_at_each_connect():
    """A pod's /etc/hosts, in a mount namespace: the store moves to another address under its name."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        return "needs root and mount namespaces"
    hosts = tempfile.NamedTemporaryFile("w", suffix=".hosts")

    def point_to(address):
        hosts.seek(0)
        hosts.truncate()
        hosts.write("127.0.0.1 localhost\n%s the-store.test\n" % address)
        hosts.flush()

    point_to("127.0.0.2")
    wrapper = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts.name]
    with Store(start=False) as store:
        store.start("127.0.0.2")
        with Relay("the-store.test:%d" % store.port, wrapper=wrapper) as relay:
            p = Peer(relay.port)
            same(p.add(b"n", 1), 1, "ADD")
            store.kill()
            relay.lost()
            point_to("127.0.0.3")
            store.start("127.0.0.3")
            same(p.add(b"n", 1), 2, "ADD")
            relay.wait_log("event=upstream_connected address=127.0.0.3:")
    hosts.close()
    return None


# --- Elastic jobs.


def met(*ports):
    """Agents a, b, … of a job that have completed a round, each through the relay at its port."""
    agents = [Agent(port, "job", "abc"[i]) for i, port in enumerate(ports)]
    rejoin(agents)
    return agents


def participate(store, names):
    """The whole state has these participants. An agent that trains is shown only itself."""
    state = torch_state.loads(Peer(store.port).get(PREFIX + b"job"))
    same(sorted(n.addr for n in state.participants), names, "participants")


@case
def a_pod_that_ends_at_once_is_lost():
    """Agent and relay: nobody says that the agent has gone, but for the end of the link."""
    with Store() as store, Relay(store) as stays:
        ends = Relay(store)
        a, _ = met(stays.port, ends.port)
        killed = time.monotonic()
        ends.stop(signal.SIGKILL)
        store.daemon.wait_log("event=node_disconnected .*node=b/.*its relay has closed the link")
        took = time.monotonic() - killed
        check(took > 2.5, "its relay had %.1f s to come back" % took)
        store.daemon.wait_log("event=nodes_restarted .*nodes=1 ")
        same([n.addr for n in a.read().participants], ["a"], "participants")
        until(lambda: a.read().wait_list, "it is not told to meet the others again")


@case
def a_run_keeps_its_port_while_its_agents_may_be_back():
    """The agents' relay has ended, so the store presumes the agents dead; workers of another run still get another
    port."""
    with Store() as store:
        relay = Relay(store)
        gone = dict(zip("ab", met(relay.port, relay.port)))
        relay.stop(signal.SIGKILL)
        for node in gone:
            store.daemon.wait_log("event=node_disconnected .*node=%s/.*its relay has closed the link" % node)
        others = meet(store.port, "other", ["c", "d"])
        others[0].say_where(0, b"127.0.0.1", store.port)
        for agent in others:
            check(agent.ask_where(0)[1] != store.port, "they get the port of the run that may be back")


@case
def a_relay_that_stands_still_loses_nobody():
    with Store() as store, Relay(store) as stays, Relay(store) as stops:
        a, b = met(stays.port, stops.port)
        stops.process.send_signal(signal.SIGSTOP)
        time.sleep(5)
        stops.process.send_signal(signal.SIGCONT)
        for agent in (a, b):
            agent.write(agent.beat)
        participate(store, ["a", "b"])
        check("node_disconnected" not in store.daemon.log(), store.daemon.log())


@case
def a_link_that_is_reset_loses_nobody():
    """Something between the two ends it; the relay is back at once."""
    with Store() as store, Proxy(store.port) as between, \
            Relay("127.0.0.1:%d" % between.port) as relay:
        a, b = met(relay.port, relay.port)
        for i in range(3):
            between.reset()
            relay.linked(i + 2)
            time.sleep(1.5)
        same(len(a.read().participants), 2, "participants")
        check("node_disconnected" not in store.daemon.log(), store.daemon.log())


@case
def a_full_disk_holds_changes_and_loses_nobody():
    """Clients behind relays wait until it has room; what changes nothing is answered meanwhile."""
    with small_disk(24 * MIB) as folder:
        if folder is None:
            return NEEDS_ROOT
        with Store(parent=folder) as store, Relay(store) as relay:
            full_disk(folder, store, relay)
    return None


def full_disk(folder, store, relay):
    a, b = met(relay.port, relay.port)
    old = Peer(relay.port)
    same(old.add(b"n", 1), 1, "ADD")
    ballast = put_ballast(folder, 8 * MIB)
    fill_disk(Peer(store.port), b"fill")
    store.daemon.wait_log("event=journal_failed")
    new = Peer(relay.port)
    same(old.get(b"n"), b"1", "GET")
    waiting = [in_thread(old.add, b"n", 1), in_thread(new.add, b"n", 1),
               *(in_thread(agent.write, agent.beat) for agent in (a, b))]
    until(lambda: metric(relay.port, "rdzvd_relay_unconfirmed_requests") == len(waiting), "changes wait")
    time.sleep(6)  # longer than between two heartbeats
    os.unlink(ballast)
    store.daemon.wait_log("event=journal_resumed")
    for thread in waiting:
        thread.finish()
    same(old.add(b"n", 0), 3, "ADD")
    participate(store, ["a", "b"])
    check("session_lost" not in relay.log(), relay.log())
    log = store.daemon.log()
    same(len(re.findall("event=dropped ", log)), 1, "clients that were dropped: that of fill_disk()")
    check(not re.search("event=(node_left|node_disconnected|nodes_lost|nodes_restarted)", log), log)


@case
def an_agent_that_ends_while_the_store_is_away_is_lost():
    """The agent's relay lives, and reports the loss when the store is back, before --session-timeout."""
    with Store() as store, Relay(store) as relay:
        a, b = met(relay.port, relay.port)
        store.kill()
        relay.lost()
        b.close()
        store.start()
        a.read()
        store.daemon.wait_log("event=nodes_lost .*nodes=1 ", timeout=10)
        store.daemon.wait_log("event=nodes_restarted .*has not come back after a start of rdzvd", timeout=10)
        same([n.addr for n in a.read().participants], ["a"], "participants")
        until(lambda: a.read().wait_list, "it is not told to meet the others again")


def ends(agent):
    """Its workers have ended: as torch, it asks to close the run, sends no heartbeat, and leaves."""
    agent.write(lambda state: setattr(state, "closed", True))
    agent.close()


@case
def a_job_that_ends_while_the_store_is_away_is_over():
    """Both agents close the run when the store has started again, the first before the other's relay is back: the run
    ends as if the store had never been away."""
    with Store("--closed-run-ttl=1s") as store, Relay(store) as first, Relay(store) as second:
        own = Peer(store.port)
        own.set(b"k", b"v")
        a, b = met(first.port, second.port)
        a.say_where(0, b"127.0.0.1", store.port)
        a.ask_where(0)
        own.close()
        a.finish(0)
        b.finish(0)
        store.kill()
        for relay in (first, second):
            relay.lost()
        second.process.send_signal(signal.SIGSTOP)
        store.start()
        ends(a)
        store.daemon.wait_log("event=run_closed .*run=job .*by=a/100/0 ")
        second.process.send_signal(signal.SIGCONT)
        ends(b)
        store.daemon.wait_log("event=run_forgotten .*run=job closed=true ", timeout=10)
        check("nodes_lost" not in store.daemon.log(), store.daemon.log())
        same(Peer(store.port).wait_get(b"k"), b"v", "a key that is no job's")


@case
def one_that_waits_closes_nothing_before_all_are_back():
    """It gives up while the store is away: whether others go on is not known."""
    with Store() as store, Relay(store) as relay:
        a, b = met(relay.port, relay.port)
        c = Agent(relay.port, "job", "c")
        c.wait_in_line()
        store.kill()
        relay.lost()
        store.start()
        ends(c)
        store.daemon.wait_log("event=close_deferred .*by=c/100/0 ")
        check(not a.read().closed and not b.read().closed, "it is closed")
        store.daemon.wait_log("event=close_ignored .*run=job ", timeout=10)


@case
def who_ended_long_ago_is_known_to_have():
    """The relay has been without a link for longer than --session-timeout: so was the store."""
    with Store("--session-timeout=1s") as store, Relay(store) as relay:
        a, b = met(relay.port, relay.port)
        store.kill()
        relay.lost()
        for agent in (a, b):
            agent.close()
        time.sleep(2.5)
        store.flags[0] = "--session-timeout=1m"
        store.start()
        store.daemon.wait_log("event=nodes_lost .*nodes=2 ", timeout=10)


@case
def the_status_tells_who_is_awaited():
    """A relay that does not come back says nothing, so the store waits for its agents."""
    with Store() as store, Relay(store) as stays:
        goes = Relay(store)
        a, _ = met(stays.port, goes.port)
        store.kill()
        goes.stop(signal.SIGKILL)
        store.start()
        a.write(a.beat)
        told = json.loads(ask(store.port, "/rdzv/v1/status")[1])
        run = told["spaces"][0]["runs"][0]
        same(run["state"], "complete", "the state")
        check([h for h in run["hints"] if "not back since rdzvd was started: 1; unless they are" in h],
              run["hints"])


# --- Upgrades.


def build(name):
    """An rdzvd of another release, as tests/meson.build makes it."""
    return os.path.join(os.path.dirname(rdzvd_binary()), "..", "tests", "rdzvd_" + name)


OTHER = os.environ.get("RDZVD_OTHER") or build("next")
NEWEST = 2  # version of the frames that rdzvd_next speaks


def frames(daemon, event, count=1):
    """The version of the frames that the last such event says."""
    return int(daemon.wait_log("event=%s .*frames=(\\d+)" % event, count=count)[-1].group(1))


def store_is_replaced(binaries):
    """A store of one release takes over from one of the other, and back, while clients of relays of both
    add, wait and gather at a barrier."""
    with Store(start=False) as store:
        store.start()
        with Relay(store) as one, Relay(store, binary=OTHER) as two:
            load = Load((one.port, two.port), 6, True)
            waits, gathers, comes = Peer(one.port), Peer(two.port), Peer(one.port)
            waits.wait(b"a", b"b")
            gathers.send(modern.barrier(b"all", 2))
            comes.set(b"a", b"1")
            comes.ping()
            for i, binary in enumerate(binaries):
                store.kill(signal.SIGKILL if i % 2 else signal.SIGTERM)
                store.start(binary=binary)
                for relay in (one, two):
                    relay.linked(i + 2)
            comes.set(b"b", b"2")
            waits.expect_stop_waiting()
            comes.send(modern.barrier(b"all", 2))
            gathers.expect_stop_waiting()
            comes.expect_stop_waiting()
            load.finish()
            check(load.added > 0, "no ADDs")
            load.compare(two.port)
            for relay in (one, two):
                check("session_lost" not in relay.log() and "dropped" not in relay.log(), relay.log())


@case
def a_store_of_another_release_takes_over_and_goes_again():
    store_is_replaced([OTHER, None, OTHER, None])


@case
def the_newest_frames_that_both_speak_are_spoken():
    with Store(start=False) as store:
        store.start(binary=build("next"))
        with Relay(store) as old, Relay(store, binary=build("next")) as new:
            same(frames(old, "upstream_connected"), 1, "frames of this release")
            same(frames(new, "upstream_connected"), NEWEST, "frames of the next one")
            says = ask(new.port, "/readyz?verbose")[1]
            check("connected to 127.0.0.1:%d, rdzvd next, frames 2" % store.port in says, says)
            until(lambda: len(re.findall("event=link_opened .*release=", store.daemon.log())) == 2, "two links")
            p = Peer(new.port)
            same(p.add(b"n", 1), 1, "ADD")
            store.kill()
            store.start()
            same(frames(new, "upstream_connected", 2), 1, "frames with the store of this release")
            same(p.add(b"n", 1), 2, "ADD")
            same(frames(store.daemon, "link_opened .*release=next"), 1, "the same, as the store says")


@case
def relays_of_another_release_come_one_at_a_time():
    """Each relay comes with a new pod and new clients; the clients of the other relays continue."""
    with Store() as store, Relay(store) as stays:
        load, waits = Load((stays.port,), 3, True), Peer(stays.port)
        waits.wait(b"k")
        for binary in (OTHER, None, OTHER):
            with Relay(store, binary=binary) as relay:
                same(Peer(relay.port).add(b"pods", 0) >= 0, True, "ADD")
                Peer(relay.port).add(b"pods", 1)
        same(Peer(stays.port).add(b"pods", 0), 3, "what they added")
        Peer(stays.port).set(b"k", b"v")
        waits.expect_stop_waiting()
        load.finish()
        load.compare(stays.port)
        stays.linked()
        check("upstream_lost" not in stays.log(), stays.log())


@case
def a_store_that_is_too_new_refuses_and_clients_wait_for_another():
    """Store and relay both log the reason, and which of them to upgrade."""
    wanted = (r"the relay \(rdzvd [0-9.]+\) speaks 1 to 1, the store \(rdzvd later\) 2 to 3; "
              "upgrade the relay")
    with Store() as store, Relay(store) as relay:
        p, waits = Peer(relay.port), Peer(relay.port)
        same(p.add(b"n", 1), 1, "ADD")
        waits.wait(b"k")
        store.kill(signal.SIGTERM)
        store.start(binary=build("later"))
        p.send(modern.add(b"n", 1))
        relay.wait_log("event=upstream_refused .*" + wanted)
        store.daemon.wait_log("event=refused .*" + wanted)
        status, body = ask(relay.port, "/readyz?verbose")
        same(status, 200, "/readyz")
        check(re.search("the store is away since .*the store refuses this relay: .*" + wanted, body), body)
        store.kill(signal.SIGTERM)
        store.start()
        same(p.number(), 2, "ADD")
        p.set(b"k", b"v")
        waits.expect_stop_waiting()
        check("session_lost" not in relay.log() and "dropped" not in relay.log(), relay.log())


@case
def a_relay_that_is_too_new_is_refused():
    with Store() as store, Relay(store, binary=build("later")) as relay:
        relay.wait_log(r"event=upstream_refused .*speaks 2 to 3, the store \(rdzvd [0-9.]+\) 1 to 1; upgrade the store")
        status, body = ask(relay.port, "/readyz")
        same(status, 503, "/readyz")
        check("upgrade the store" in body, body)


@case
def a_relay_that_is_refused_says_so():
    with Store(start=False) as store:
        store.daemon = Rdzvd(*store.flags, listen=("127.0.0.1:%d/jobA" % store.port,))
        with Relay(store, flags=("--space=jobB",)) as relay:
            relay.wait_log("event=upstream_refused .*reason=")
            status, body = ask(relay.port, "/readyz?verbose")
            same(status, 503, "/readyz")
            check("the store refuses this relay: the relay has --space=jobB, and this listener of the store takes "
                  "relays of space jobA alone" in body, body)
        with Relay(store, flags=("--space=jobA",)) as relay:
            same(Peer(relay.port).add(b"n", 1), 1, "ADD")


@case
def a_relay_is_no_store_of_another():
    """An --upstream that leads to a relay, or back to itself: both ends say what is wrong."""
    with Store() as store, Relay(store) as relay, Relay("127.0.0.1:%d" % relay.port) as second:
        second.wait_log("event=upstream_failed .*is this address a store, and not a relay")
        relay.wait_log("event=dropped .*its --upstream must be a store")
        same(ask(second.port, "/readyz")[0], 503, "/readyz")
        same(Peer(relay.port).add(b"n", 1), 1, "ADD")


@case
def a_server_that_is_no_store_is_not_taken_for_one():
    """A server that accepts and says nothing, or something else, is left for the next one."""
    deaf = socket.create_server(("127.0.0.1", 0))
    answers = in_thread(lambda: deaf.accept()[0].sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 4))
    with Store() as store, Relay("127.0.0.1:%d" % deaf.getsockname()[1], store) as relay:
        same(Peer(relay.port).add(b"n", 1), 1, "ADD")
        relay.wait_log("event=upstream_failed .*the peer is not a store")
    answers.finish()
    deaf.close()


# --- Back-pressure.


@case
def a_client_that_does_not_read_holds_no_other():
    value = os.urandom(4 * MIB)
    with Store() as store, Relay(store) as relay:
        writer = Peer(relay.port)
        writer.set(b"large", value)
        writer.ping()
        slow = []
        for _ in range(10):
            p = Peer(relay.port)
            p.send(modern.get(b"large") * 5)
            slow.append(p)
        for _ in range(200):
            writer.add(b"n", 1)
        for p in slow:
            for _ in range(5):
                check(p.blob() == value, "another value")


@case
def a_client_that_writes_faster_than_the_store_is_there():
    """More than the window: the rest waits in the client's socket."""
    with Store() as store, Relay(store) as relay:
        fast, other = Peer(relay.port), Peer(relay.port)
        fast.add(b"n", 1)
        store.kill()
        relay.lost()
        size, count = 64 << 10, 400
        writing = in_thread(lambda: [fast.send(modern.push(b"q", b"%08d" % i + b"x" * size))
                                     for i in range(count)])
        until(lambda: metric(relay.port, "rdzvd_relay_unconfirmed_bytes") > 500 << 10, "the window is full")
        check(metric(relay.port, "rdzvd_relay_unconfirmed_bytes") <= MIB, "more than the window")
        check(writing.is_alive(), "25 MB were taken for a store that is away")
        store.start()
        writing.finish()
        fast.ping()
        for i in range(count):
            other.send(modern.pop(b"q"))
            same(other.number(), count - i, "length")
            same(other.blob()[:8], b"%08d" % i, "element")


@case
def requests_that_are_sent_ahead_stay_in_order():
    with Store() as store, Relay(store) as relay:
        p, count = Peer(relay.port), 20000
        sending = in_thread(lambda: p.send(b"".join(
            modern.set(b"k", b"%d" % i) + modern.get(b"k") for i in range(count))))
        for i in range(count):
            same(p.blob(), b"%d" % i, "GET")
            if i == count // 2:
                store.kill()
                store.start()
        sending.finish()


@case
def large_values_pass_and_do_not_hold_small_ones():
    value = os.urandom(8 * MIB - 1)
    with Store() as store, Relay(store) as relay:
        large, small = Peer(relay.port), Peer(relay.port)
        for i in range(3):
            key = b"k%d" % i
            sending = in_thread(large.set, key, value)
            small.add(b"n", 1)
            sending.finish()
            check(large.get(key) == value, "another value")
        same(large.cas(b"k0", value, value[::-1]), value[::-1], "COMPARE_SET")
        store.kill()
        store.start()
        check(small.get(b"k0") == value[::-1], "another value")


@case
def over_the_limits_of_the_store():
    with Store("--value-limit=1KiB") as store, Relay(store) as relay:
        p = Peer(relay.port)
        p.add(b"n", 1)
        p.set(b"k", b"x" * 2000)
        p.expect_end()
        relay.wait_log("event=dropped .*value")


@case
def many_clients_cost_little():
    with Store() as store, Relay(store) as relay:
        first = Peer(relay.port)
        before = sum(metric(relay.port, 'rdzvd_memory_bytes{kind="%s"}' % k) for k in ("sessions", "loop"))
        peers = [Peer(relay.port) for _ in range(2000)]
        for p in peers:
            p.send(modern.add(b"n", 1))
        same(sorted(p.number() for p in peers), list(range(1, 2001)), "ADDs")
        after = sum(metric(relay.port, 'rdzvd_memory_bytes{kind="%s"}' % k) for k in ("sessions", "loop"))
        check((after - before) / 2000 < 2048, "%d bytes a client" % ((after - before) / 2000))
        store.kill()
        store.start()
        for p in peers:
            p.send(modern.add(b"n", 1))
        same(sorted(p.number() for p in peers), list(range(2001, 4001)), "ADDs after a kill")
        for p in peers + [first]:
            p.close()
        until(lambda: metric(relay.port, "rdzvd_relay_clients") == 0, "all sessions are closed")


# --- The relay's own end, and its settings.


@case
def a_relay_that_ends_has_passed_on_what_it_took():
    with Store() as store:
        with Relay(store) as relay:
            p = Peer(relay.port)
            p.send(b"".join(modern.append(b"log", b"%d " % i) for i in range(200)))
            p.wait(b"never")
            until(lambda: metric(relay.port, "rdzvd_relay_unconfirmed_requests") == 1, "all is taken")
            relay.process.send_signal(signal.SIGTERM)
            p.expect_end()
        p = Peer(store.port)
        same(len(p.wait_get(b"log").split()), 200, "parts")
        until(lambda: metric(store.port, 'rdzvd_relay_sessions{state="attached"}') == 0, "its session has ended")
        same(metric(store.port, 'rdzvd_relay_sessions{state="detached"}'), 0, "detached sessions")


@case
def a_relay_that_ends_without_its_store():
    with Store() as store, Relay(store, flags=("--drain-timeout=60s",)) as relay:
        p = Peer(relay.port)
        p.add(b"n", 1)
        store.kill()
        relay.lost()
        same(relay.stop(timeout=30), 0, "exit code, without waiting for what cannot come")


@case
def settings_that_contradict_each_other():
    for flags, word in ((("--data-dir=/tmp/x",), "data-dir"), (("--sync=always",), "sync"),
                        (("--listen=127.0.0.1:0/other",), "--space=other"),
                        (("--space=a b",), "space"), (("--upstream=host",), "HOST:PORT"),
                        (("--upstream=",), "HOST:PORT"), (("--upstream=h:1,",), "HOST:PORT"),
                        (("--upstream=h:99999",), "HOST:PORT")):
        done = subprocess.run([rdzvd_binary(), "--upstream=127.0.0.1:1", *flags], capture_output=True,
                              text=True, timeout=20, stdin=subprocess.DEVNULL)
        check(done.returncode == 2 and word in done.stderr, "%s: %d %s" % (
            flags, done.returncode, done.stderr))
    done = subprocess.run([rdzvd_binary(), "--space=jobA"], capture_output=True, text=True, timeout=20)
    check(done.returncode == 2 and "--upstream" in done.stderr, done.stderr)
    done = subprocess.run([rdzvd_binary(), "--upstream=[::1]:29400,b.test:1", "--space=jobA",
                           "--expect=3", "--check-config"], capture_output=True, text=True, timeout=20)
    check(done.returncode == 0 and 'space: "jobA"' in done.stdout and "warning: --expect" in done.stdout,
          done.stdout + done.stderr)


if __name__ == "__main__":
    print("seed %d" % SEED)
    sys.exit(cases.run("tests/process/relay.py"))
