"""Relays in front of a real store, which is killed, stopped and started again under its clients: they
notice nothing, and everything happens once.

    relay.py [NAME...]     all cases, or the cases whose name contains a NAME

$RDZV_SEED is the seed of what is random (1). $RDZVD_OTHER is another release, for upgrades; without it, the
test uses the build's second rdzvd, which also speaks a newer version of the frames. Everything stays on loopback and
in directories that the test made. The cases of elastic jobs and of upgrades are in modules imported here.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import relay_scene  # noqa: F401  first, since it says where the modules of the tests are
import cases
import relay_jobs  # noqa: F401
import relay_restarts  # noqa: F401
import relay_upgrades  # noqa: F401
from c10d import NONCE, WAIT_CANCELED, Peer, legacy, modern, number
from cases import case, check
from relay_scene import MIB, SEED, Load, Relay, Store, ask, in_thread, metric, same, until
from servers import free_port, rdzvd_binary


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
        check("the store has been away for" in body, body)
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


@case
def clients_that_ask_the_same_at_the_same_time_share_one_request():
    with Store() as store, Relay(store) as relay:
        clients = [Peer(relay.port) for _ in range(4)]
        rounds = []
        for client in clients:
            check(not client.check(b"k"), "no key")

        def shared():  # they ask each half second or less often, as NCCL's thread does
            time.sleep(0.6)
            for client in clients:
                client.send(modern.check(b"k"))
            for client in clients:
                client.expect(b"\1")
            rounds.append(clients)
            return metric(relay.port, "rdzvd_relay_requests_shared_total")

        until(shared, "requests are shared")
        same(metric(store.port, 'rdzvd_requests_total{protocol="c10d",operation="CHECK"}') +
             metric(relay.port, "rdzvd_relay_requests_shared_total"), 4 + 4 * len(rounds), "CHECKs")
        clients[0].set(b"k", b"v")
        check(clients[0].check(b"k"), "its own key")
        for client in clients:
            check(client.check(b"k"), "the key of another client")


def killed_under_load(mode, kills, clients, mixed):
    random_ = random.Random(SEED)
    with Store(mode=mode) as store, Relay(store) as one, Relay(store) as two:
        one.linked(1)
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
        relay.wait_log(r"event=session_lost .*has lost its state .--data-dir keeps it")
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
        relay.wait_log("level=info event=upstream_connected")


@case
def the_log_of_warnings_says_that_the_store_is_back():
    """The backend of torchrun starts its relays with --log-level=warn."""
    with Store() as store, Relay(store) as relay:
        relay.wait_log("level=info event=upstream_connected")
        store.kill()
        relay.lost()
        store.start()
        relay.wait_log("level=warn event=upstream_connected")


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
                        (("--node-label=index=-1",), "index=NUMBER"), (("--node-label=rack=1",), "index=NUMBER"),
                        (("--node-label=domain=a//b",), "index=NUMBER"),
                        (("--upstream=h:99999",), "HOST:PORT")):
        done = subprocess.run([rdzvd_binary(), "--upstream=127.0.0.1:1", *flags], capture_output=True,
                              text=True, timeout=20, stdin=subprocess.DEVNULL)
        check(done.returncode == 2 and word in done.stderr, "%s: %d %s" % (
            flags, done.returncode, done.stderr))
    for flags, word in ((("--upstream=h:1",), "add --expect=N"), (("--expect=3",), "--upstream"),
                        (("--upstream=h:1", "--expect=3", "--exit-on-restart=256"), "from 0 to 255")):
        done = subprocess.run([rdzvd_binary(), "--exit-on-restart=85", *flags], capture_output=True, text=True, timeout=20)
        check(done.returncode == 2 and word in done.stderr, "%s: %d %s" % (flags, done.returncode, done.stderr))
    for flag in "--space=jobA", "--node-label=index=1":
        done = subprocess.run([rdzvd_binary(), flag], capture_output=True, text=True, timeout=20)
        check(done.returncode == 2 and "--upstream" in done.stderr, done.stderr)
    done = subprocess.run([rdzvd_binary(), "--upstream=[::1]:29400,b.test:1", "--space=jobA",
                           "--expect=3", "--check-config"], capture_output=True, text=True, timeout=20)
    check(done.returncode == 0 and 'space: "jobA"' in done.stdout and "warning: --expect" in done.stdout,
          done.stdout + done.stderr)


if __name__ == "__main__":
    sys.exit(cases.run("tests/process/relay.py"))
