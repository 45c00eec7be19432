"""Replicas that pass their clients on to the one that leads (--upstream beside --journal), on a real etcd v3
cluster: clients go on when it changes who leads.

    followers.py [NAME...]    all cases, or the cases whose name contains a NAME
    ETCD=forky followers.py   as replicas.py
"""

import http.client
import os
import signal
import socket
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "elastic")]
import certs  # noqa: E402
import replica_cases  # noqa: E402
from c10d import Peer, modern  # noqa: E402
from cases import case, check  # noqa: E402
from filled import ask, put, same  # noqa: E402
from replica_cases import Adder, leads, metric, ready, until_end, with_cluster  # noqa: E402
from servers import OPERATOR, Rdzvd, free_port  # noqa: E402


# --- Replicas that pass their clients on to the one that leads (--upstream).

def passing(start, count, *flags):
    """So many of them; the first one leads, and the others are linked to it."""
    ports = [free_port() for _ in range(count)]
    upstream = "--upstream=" + ",".join("127.0.0.1:%d" % port for port in ports)
    replicas = []
    for port in ports:
        replicas.append(start(upstream, *flags, port=port))
        replicas[-1].wait_ready()
    says = replicas[0].ready()[1]
    check("[+]leader ok\n" in says and "[+]upstream ok\n" in says, says)
    for r in replicas[1:]:
        says = r.ready()[1]
        check("stands by" in says and "[+]upstream ok: connected to " in says, says)
    return replicas


def again(start, replicas, at):
    """Starts a stopped replica again at its old port."""
    replicas[at] = start(*replicas[at].flags, port=replicas[at].port)
    return replicas[at]


def until_one_leads(*replicas, timeout=30):
    end = time.monotonic() + timeout
    while True:
        for r in replicas:
            if leads(r):
                return r
        check(time.monotonic() < end, "nobody leads after %d s" % timeout)
        time.sleep(0.02)


@case
@with_cluster()
def a_follower_passes_nobody_on_to_another_journal(cluster, start):
    """A replica among --upstream whose --journal has another name."""
    other = start(typo="-mistyped")
    other.wait_ready()
    leader = start()
    leader.wait_ready()
    follower = start("--upstream=127.0.0.1:%d" % other.port)
    follower.wait_ready(503, "its journal is")
    says = follower.ready()[1]
    check("-mistyped, on the etcd cluster" in says and "that of this replica is" in says, says)


@case
@with_cluster()
def a_follower_passes_clients_on(cluster, start):
    leader, follower = passing(start, 2)
    here, there = Peer(follower.port), Peer(leader.port)
    same(there.add(b"n", 1), 1, "an ADD at the leader")
    same(here.add(b"n", 1), 2, "an ADD at the follower")
    there.set(b"k", b"v")
    there.ping()
    same(here.get(b"k"), b"v", "what the leader was told")
    here.wait(b"later")
    check(here.is_silent(there), "a WAIT has ended before its key came")
    there.set(b"later", b"now")
    here.expect_stop_waiting()
    same(ask(follower.port, "GET", "/health")[0], 200, "/health")
    put(follower.port, "/a", "value=1")
    same(ask(leader.port, "GET", "/v2/keys/a")[2], ask(follower.port, "GET", "/v2/keys/a")[2], "a key of etcd")
    same(ask(follower.port, "GET", "/rdzv/v1/status")[0], 200, "the status")
    same(ask(follower.port, "GET", "/")[0], 200, "the page")
    same(metric(follower, "rdzvd_relay_clients"), 1, "clients that the follower passes on")
    same(metric(follower, "rdzvd_relay_upstream_connected"), 1, "its link")
    same(metric(follower, "rdzvd_ready"), 1, "it is ready")
    check(b'role="standby"' in ask(follower.port, "GET", "/metrics")[2], "its role")
    for r in follower, leader:
        same(r.stop(), 0, "the exit code")


@case
@with_cluster()
def a_followers_clients_outlive_leaders(cluster, start):
    """Leaders are killed, and so the follower leads that passes the clients on: over a link to itself. None of them
    notices; each ADD counts once; a WAIT ends when its key comes."""
    replicas = passing(start, 2)
    leader, follower = replicas
    peer, waits, count = Peer(follower.port), Peer(follower.port), 0
    waits.wait(b"later")
    for _ in range(50):
        count += 1
        same(peer.add(b"count", 1), count, "an ADD at a follower")
    peer.send(modern.add(b"count", 1))
    leader.stop(signal.SIGKILL)
    count += 1
    same(peer.number(), count, "the ADD that the leader's death met")
    check(leads(follower), "who passes on leads now")
    for _ in range(50):
        count += 1
        same(peer.add(b"count", 1), count, "an ADD through a link to itself")
    same(metric(follower, "rdzvd_relay_clients"), 2, "clients that are still passed on")
    direct = Peer(follower.port)
    same(direct.add(b"count", 0), count, "what a client sees that came later")
    same(metric(follower, "rdzvd_relay_clients"), 2, "clients that are passed on, but those that came later")
    check(waits.is_silent(direct), "a WAIT has ended before its key came")
    direct.set(b"later", b"now")
    waits.expect_stop_waiting()
    third = ready(again(start, replicas, 0))
    moved = Peer(third.port)
    same(moved.add(b"count", 0), count, "at the replica that has come back")
    follower.stop(signal.SIGKILL)
    for gone in peer, direct:
        same(until_end(gone, 20), b"", "a client of the replica that was killed")
    same(moved.add(b"count", 1), count + 1, "an ADD behind the second death")
    check(leads(third), "the third one leads")


@case
@with_cluster()
def a_chain_of_leaders(cluster, start):
    """Of three replicas two die, one after the other; a client of the third one sees nothing of that."""
    replicas = passing(start, 3)
    last, count = replicas[2], 0
    peer, others = Peer(last.port), replicas[:2]
    while others:
        leader = until_one_leads(*replicas)
        if leader is last:  # its turn came early: it goes on with a link to itself
            break
        peer.send(modern.add(b"count", 1))
        count += 1
        leader.stop(signal.SIGKILL)
        same(peer.number(), count, "an ADD over a leader's death")
        others.remove(leader)
        replicas.remove(leader)
    for _ in range(20):
        count += 1
        same(peer.add(b"count", 1), count, "an ADD")


@case
@with_cluster()
def a_stop_gives_the_lease_back_whoever_is_passed_on(cluster, start):
    """A leader is stopped that passes clients on to itself, with requests under way: it does not wait for an answer
    that only the next leader could give."""
    replicas = passing(start, 2)
    leader, follower = replicas
    adders = [Adder(follower.port, leader.port) for _ in range(4)]
    adders[0].wait()
    leader.stop(signal.SIGKILL)
    adders[0].wait()
    check(leads(follower), "the follower leads")
    watch = socket.create_connection(("127.0.0.1", follower.port), timeout=20)
    third = ready(again(start, replicas, 0))
    for adder in adders:
        adder.slowest = 0
    began = time.monotonic()
    same(follower.stop(), 0, "the exit code")
    took = time.monotonic() - began
    check(took < 2, "the leader has stopped after %.1f s" % took)
    follower.wait_log("event=leadership_ended .*given_back=true")
    for adder in adders:
        adder.wait()
        check(adder.slowest < 2, "no answer for %.1f s" % adder.slowest)
    check(leads(third), "the other one leads")
    same(watch.recv(1), b"", "a client that has said nothing")
    for adder in adders:
        adder.stopping.set()
        adder.join(30)
    known, lost = sum(a.known for a in adders), sum(a.lost for a in adders)
    got = Peer(third.port).add(b"count", 0)
    check(known <= got <= known + lost, "the key is %d, with %d answered and %d lost" % (got, known, lost))


@case
@with_cluster()
def http_at_a_follower_outlives_leaders(cluster, start):
    """One connection: PUT, GET, and a watch which is open while the leader dies, and again when its follower leads."""
    leader, follower = passing(start, 2)
    index = put(follower.port, "/w", "value=0")
    kept = http.client.HTTPConnection("127.0.0.1", follower.port, timeout=60)
    kept.request("GET", "/v2/keys/w")
    check(b'"value":"0"' in kept.getresponse().read(), "a GET")
    watch = http.client.HTTPConnection("127.0.0.1", follower.port, timeout=60)
    watch.request("GET", "/v2/keys/w?wait=true&waitIndex=%d" % (index + 1))
    answer = watch.getresponse()  # etcd's head comes at once
    leader.stop(signal.SIGKILL)
    kept.request("GET", "/v2/keys/w")
    check(b'"value":"0"' in kept.getresponse().read(), "a GET over a leader's death")
    check(leads(follower), "the follower leads")
    put(follower.port, "/w", "value=1")
    check(b'"value":"1"' in answer.read(), "what the watch tells")
    for method, body in (("PUT", "value=2"), ("GET", None)):
        kept.request(method, "/v2/keys/w", body=body, headers={"Content-Type": "application/x-www-form-urlencoded"})
        check(b'"value":"2"' in kept.getresponse().read(), "%s on the connection from before" % method)


@case
@with_cluster()
def two_spaces_at_a_follower(cluster, start):
    """Each listener's clients are in its space, through one link each; a mistyped one of a relay is made at the leader."""
    ports = [free_port() for _ in range(4)]
    upstream = "--upstream=127.0.0.1:%d,127.0.0.1:%d" % (ports[0], ports[2])
    leader = start(upstream, "--listen=127.0.0.1:%d/job-b" % ports[1], port=ports[0])
    leader.wait_ready()
    follower = start(upstream, "--listen=127.0.0.1:%d/job-b" % ports[3], port=ports[2])
    follower.wait_ready()
    one, two = Peer(ports[2]), Peer(ports[3])
    for peer in one, two:
        same(peer.add(b"n", 1), 1, "an ADD of its own space")
    same(Peer(ports[0]).add(b"n", 1), 2, "the first space at the leader")
    same(Peer(ports[1]).add(b"n", 1), 2, "the second one")
    put(ports[3], "/b", "value=1")
    same([ask(p, "GET", "/v2/keys/b")[0] for p in ports], [404, 200, 404, 200], "a key of the second space")
    leader.stop(signal.SIGKILL)
    for peer in one, two:
        same(peer.add(b"n", 1), 3, "an ADD over the leader's death")
    check(leads(follower), "the follower leads")


@case
@with_cluster()
def readers_at_a_follower_and_behind_a_relay(cluster, start):
    """The token is passed on, and the leader decides. An order is taken back wherever it was given."""
    path = os.path.join(cluster.folder, "readers")
    with open(path, "w", encoding="ascii") as f:
        f.write("of-readers\n")
    leader, follower = passing(start, 2, "--read-token-file=" + path)
    token = {"Authorization": "Bearer of-readers"}
    with Rdzvd("--upstream=127.0.0.1:%d,127.0.0.1:%d" % (leader.port, follower.port)) as relay:
        relay.wait_log("event=upstream_connected")
        for daemon in leader, follower, relay:
            for headers, status in (None, 403), (token, 200):
                c = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=20)
                c.request("GET", "/rdzv/v1/status", headers=dict(headers or {}, Host="localhost"))
                same(c.getresponse().status, status, "/rdzv/v1/status at port %d" % daemon.port)
                c.close()
            same(ask(daemon.port, "GET", "/v2/keys/")[0], 200, "etcd's API")
        for daemon, undoes in (leader, relay), (follower, leader), (relay, follower):
            for port, method, status in (daemon.port, "PUT", 200), (undoes.port, "DELETE", 200), (daemon.port, "DELETE", 404):
                c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
                c.request(method, "/rdzv/v1/spaces/default/nodes/x?order=cordon", headers=dict(OPERATOR, Host="localhost"))
                same(c.getresponse().status, status, "%s of an order at port %d" % (method, port))
                c.close()


@case
@with_cluster()
def nobody_goes_in_circles(cluster, start):
    """While no replica leads, each replica answers the HELLO of a link itself, and holds the requests of clients."""
    replicas = passing(start, 3)
    leader, first, second = replicas
    peers = [Peer(r.port) for r in (first, second)]
    cluster.members[0].pause()
    leader.stop(signal.SIGKILL)
    for peer in peers:
        peer.send(modern.add(b"n", 1))
    for r in first, second:
        r.wait_log("event=upstream_lost")
        r.wait_ready(503, "[-]journal failed", timeout=30)
        check(metric(r, "rdzvd_connections") <= 5, "its client, the probe, and a link of each replica")
        same(metric(r, "rdzvd_relay_clients"), 1, "clients that it holds")
    cluster.members[0].process.send_signal(signal.SIGCONT)
    same(sorted(peer.number() for peer in peers), [1, 2], "what was held")


@case
@with_cluster()
def tls_between_replicas(cluster, start):
    ca = certs.Ca()
    cert, key = ca.issue("replica")
    flags = ("--cert=" + cert, "--key=" + key, "--client-ca=" + ca.pem, "--client-cert=optional", "--plaintext=on",
             "--upstream-ca=" + ca.pem, "--upstream-cert=" + cert, "--upstream-key=" + key)
    leader, follower = passing(start, 2, *flags)
    peer = Peer(follower.port)
    same(peer.add(b"n", 1), 1, "an ADD")
    put(follower.port, "/a", "value=1")
    leader.stop(signal.SIGKILL)
    same(peer.add(b"n", 1), 2, "an ADD over the leader's death")
    same(ask(follower.port, "GET", "/v2/keys/a")[0], 200, "a key of etcd")


@case
@with_cluster()
def a_leader_without_lease_cuts_only_its_clients(cluster, start):
    """A client of a follower waits for the next leader; the connections of the stopped leader's own clients end."""
    leader, follower = passing(start, 2)
    here, there = Peer(follower.port), Peer(leader.port)
    same(there.add(b"n", 1), 1, "an ADD at the leader")
    leader.process.send_signal(signal.SIGSTOP)
    same(here.add(b"n", 1), 2, "an ADD while the leader is stopped")
    leader.process.send_signal(signal.SIGCONT)
    leader.wait_log("event=lease_lost")
    same(until_end(there, 20), b"", "a client of the leader that lost its lease")
    leader.wait_ready(200, "stands by")
    same(Peer(leader.port).add(b"n", 1), 3, "an ADD at the replica that lost its lease")


if __name__ == "__main__":
    sys.exit(replica_cases.main(__file__))
