"""Stores and relays of another release, and servers that are no store of a relay."""

import os
import re
import signal
import socket

from c10d import Peer, modern
from cases import case, check
from relay_scene import Load, Relay, Store, ask, frames, in_thread, same, until
from servers import Rdzvd, rdzvd_binary


def build(name):
    """An rdzvd of another release, as tests/meson.build makes it."""
    return os.path.join(os.path.dirname(rdzvd_binary()), "..", "tests", "rdzvd_" + name)

OTHER = os.environ.get("RDZVD_OTHER") or build("next")

NEWEST = 2  # version of the frames that rdzvd_next speaks


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
        check(re.search("the store has been away for .*the store refuses this relay: .*" + wanted, body), body)
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
            check("the store refuses this relay: the relay has --space=jobB, and this listener of the store takes only "
                  "relays of space jobA" in body, body)
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
