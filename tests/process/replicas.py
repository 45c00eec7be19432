"""rdzvd on a real etcd v3 cluster (--journal): what clients were answered is there, whoever dies; who
does not lead answers nothing.

    replicas.py [NAME...]     all cases, or the cases whose name contains a NAME
    replicas.py --all         the long ones, too
    ETCD=forky replicas.py    with the etcd of that suite of Debian (support/install.sh etcds)

Everything stays on loopback and in directories that the test made.
"""

import base64
import http.client
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "elastic")]
import replica_cases  # noqa: E402
from c10d import Peer, length, modern  # noqa: E402
from cases import case, check  # noqa: E402
from etcd3 import text  # noqa: E402
from filled import ask, contents, fill, goes_on, put, same  # noqa: E402
from proxy import Proxy  # noqa: E402
from replica_cases import (LEASE_S, MIB, Adder, long, metric, ready, state, until_end,  # noqa: E402
                           wait_for_leader, with_cluster, write_until_snapshots)
from servers import Rdzvd, free_port, rdzvd_binary  # noqa: E402


# --- One replica.

@case
@with_cluster()
def everything_survives(cluster, start):
    r = ready(start())
    fill(r.port)
    before = contents(r.port)
    for sig in signal.SIGKILL, signal.SIGTERM:
        code = r.stop(sig)
        same(code, 0 if sig == signal.SIGTERM else -sig, "the exit code")
        r = ready(start(port=r.port))
        same(contents(r.port), before, "after %s" % sig.name)
    goes_on(r.port)


@case
@with_cluster()
def an_end_gives_the_lease_back(cluster, start):
    r = ready(start())
    Peer(r.port).add(b"k", 1)
    s = start()
    s.wait_ready(503, "stands by")
    began = time.monotonic()
    same(r.stop(), 0, "the exit code")
    ready(s)
    took = time.monotonic() - began
    check(took < 1.5, "the other replica led %.2f s after SIGTERM" % took)
    same(Peer(s.port).add(b"k", 0), 1, "the key")


@case
@with_cluster()
def an_end_gives_the_lease_back_past_a_client_that_does_not_read(cluster, start):
    """A client that does not read its answers is cut off after --drain-timeout, and the next replica leads at once."""
    r = ready(start("--drain-timeout=300ms"))
    s = start()
    s.wait_ready(503, "stands by")
    client = Peer(r.port)
    client.set(b"large", bytes(8 * MIB))
    same(client.add(b"k", 1), 1, "an ADD")
    client.send(modern.get(b"large") * 4)
    same(client.take(8), length(8 * MIB), "an answer that has begun")
    began = time.monotonic()
    same(r.stop(), 0, "the exit code")
    ready(s)
    took = time.monotonic() - began
    check(took < 1.8, "the other replica led %.2f s after SIGTERM" % took)
    r.wait_log("event=drain_timeout")
    r.wait_log("event=leadership_ended .*given_back=true")
    same(Peer(s.port).add(b"k", 0), 1, "the key")


@case
@with_cluster()
def a_standby_refuses_clients(cluster, start):
    r = ready(start())
    s = start()
    s.wait_ready(503, "stands by: ")
    try:
        Peer(s.port)
        raise AssertionError("a c10d client was served by a replica that does not lead")
    except (EOFError, OSError):
        pass
    s.wait_log(r"this replica does not lead")
    same(ask(s.port, "GET", "/livez")[0], 200, "/livez")
    same(ask(s.port, "GET", "/v2/keys/")[0], 500, "etcd's API")
    same(ask(s.port, "GET", "/rdzv/v1/status")[0], 503, "the status")
    same(ask(s.port, "GET", "/health")[0], 503, "/health")
    check(b"rdzvd_journal_leads 0" in ask(s.port, "GET", "/metrics")[2], "/metrics of a standby")
    check(b"rdzvd_journal_leads 1" in ask(r.port, "GET", "/metrics")[2], "/metrics of the leader")


@case
@with_cluster()
def a_probe_tells_who_could_lead_from_who_could_not(cluster, start):
    """`?exclude=leader`, for rolling updates: a standby replica is ready, a replica that cannot read the log is not."""
    def probe(replica, query):
        return subprocess.run([rdzvd_binary(), "--check-health=localhost:%d/readyz%s" % (replica.port, query)],
                              capture_output=True, timeout=20, check=False).returncode

    leader, second = ready(start()), start()
    says = second.wait_ready(503, "stands by")
    check("[+]journal ok\n" in says and "[-]leader failed: " in says, says)
    same([probe(r, q) for r in (leader, second) for q in ("", "?exclude=leader", "?exclude=journal")],
         [0, 0, 0, 1, 0, 1], "exit codes")
    says = ask(second.port, "GET", "/readyz?verbose&exclude=leader")
    check(says[0] == 200 and b"[+]leader excluded: " in says[2], says)
    cluster.members[0].pause()
    for replica in (leader, second):
        end = time.monotonic() + 30
        while probe(replica, "?exclude=leader") == 0:
            check(time.monotonic() < end, "ready for 30 s without etcd")
            time.sleep(0.1)


@case
@with_cluster()
def a_killed_leader_is_followed(cluster, start):
    r, s = ready(start()), start()
    s.wait_ready(503, "stands by")
    adder = Adder(r.port, s.port)
    for _ in range(3):
        adder.wait()
        adder.slowest = 0
        r.stop(signal.SIGKILL)
        ready(s)
        adder.wait()
        check(adder.slowest < LEASE_S + 1.5, "no answer for %.1f s" % adder.slowest)
        r, s = s, start(port=r.port)
    adder.finish(r.port)


def pause_beyond_the_lease(cluster, start, *asked, is_new=False):
    """The leader is stopped with requests in its socket, and continues after another replica became leader and changed
    the same keys. It must answer none of the requests, neither before etcd tells it about the new leader nor
    afterwards."""
    r, s = ready(start()), start()
    s.wait_ready(503, "stands by")
    client = Peer(r.port)
    if not is_new:
        client.set(b"k", b"old")
        same(client.get(b"k"), b"old", "the key")
    r.process.send_signal(signal.SIGSTOP)
    ready(s)
    peer = Peer(s.port)
    peer.set(b"k", b"new")
    same(peer.get(b"k"), b"new", "the key")
    for request in asked:
        client.send(request)
    member = cluster.members[0]
    member.pause()
    r.process.send_signal(signal.SIGCONT)
    same(until_end(client, 0.5), None, "what a leader has answered that may have lost its lease")
    member.process.send_signal(signal.SIGCONT)
    same(until_end(client, 20), b"", "an answer of the leader that lost its lease")
    r.wait_log("event=lease_lost")
    r.wait_ready(503, "stands by")
    same(peer.get(b"k"), b"new", "the key")
    return r, s


@case
@with_cluster()
def a_paused_leader_answers_no_read(cluster, start):
    for replica in pause_beyond_the_lease(cluster, start, modern.get(b"k")):
        same(replica.stop(), 0, "the exit code")  # also of one that has begun anew


@case
@with_cluster()
def a_paused_leader_that_has_nothing_answers_no_read(cluster, start):
    pause_beyond_the_lease(cluster, start, modern.get(b"k"), is_new=True)


@case
@with_cluster()
def a_paused_leader_commits_nothing(cluster, start):
    r, s = pause_beyond_the_lease(cluster, start, modern.set(b"k", b"late"), modern.get(b"k"))
    s.stop(signal.SIGKILL)
    ready(r)
    same(Peer(r.port).get(b"k"), b"new", "the key, of a replica that lost its lease and leads again")


@case
@with_cluster()
def an_etcd_that_comes_back(cluster, start):
    r = ready(start())
    member, peer = cluster.members[0], Peer(r.port)
    peer.add(b"k", 1)
    member.stop(signal.SIGKILL)
    peer.send(modern.add(b"k", 1))
    r.wait_ready(503, "etcd does not", timeout=20)
    same(ask(r.port, "GET", "/livez")[0], 200, "/livez while nothing can be committed")
    r.wait_log("event=journal_failed")
    peer.socket.setblocking(False)
    try:
        raise AssertionError("%r was answered before etcd had it" % peer.socket.recv(100))
    except BlockingIOError:
        peer.socket.settimeout(20)
    member.start_again()
    same(peer.number(), 2, "the ADD that waited")
    ready(r)
    r.wait_log("event=journal_resumed")
    same(peer.add(b"k", 1), 3, "the next one")


@case
@with_cluster()
def a_relay_moves_over(cluster, start):
    """Its client keeps its connection, and each of its requests counts once."""
    r, s = ready(start()), start()
    s.wait_ready(503, "stands by")
    with Rdzvd("--upstream=127.0.0.1:%d,127.0.0.1:%d" % (r.port, s.port)) as relay:
        peer, count = Peer(relay.port), 0
        for _ in range(2):
            for _ in range(50):
                count += 1
                same(peer.add(b"count", 1), count, "an ADD through the relay")
            peer.send(modern.add(b"count", 1))
            r.stop(signal.SIGKILL)
            count += 1
            same(peer.number(), count, "the ADD that the leader's death met")
            r, s = s, start(port=r.port)
            s.wait_ready(503, "stands by")


@case
@with_cluster()
def a_relay_stays_with_its_journal(cluster, start):
    """A replica whose --journal has another name leads there, and knows nothing of this one's clients."""
    r, other = ready(start()), ready(start(typo="-mistyped"))
    with Rdzvd("--upstream=127.0.0.1:%d,127.0.0.1:%d" % (r.port, other.port)) as relay:
        peer = Peer(relay.port)
        same(peer.add(b"count", 1), 1, "an ADD through the relay")
        r.stop(signal.SIGKILL)
        peer.send(modern.add(b"count", 1))
        relay.wait_log('event=upstream_failed .*reason="its journal is .*-mistyped, on the etcd cluster')
        ready(start(port=r.port))
        same(peer.number(), 2, "the ADD that the leader's death met")
        check("event=session_lost" not in relay.log(), relay.log())


@case
@with_cluster()
def a_relay_without_sessions_takes_another_journal(cluster, start):
    """Where its last store would have ended all sessions, any store is as good."""
    r, other = ready(start("--session-timeout=1s")), ready(start(typo="-new"))
    with Rdzvd("--upstream=127.0.0.1:%d,127.0.0.1:%d" % (r.port, other.port)) as relay:
        same(Peer(relay.port).add(b"count", 1), 1, "an ADD through the relay")
        r.stop(signal.SIGKILL)
        relay.wait_log('event=upstream_failed .*reason="its journal is')
        relay.wait_log("event=upstream_connected .*address=127.0.0.1:%d" % other.port)
        same(Peer(relay.port).add(b"count", 1), 1, "an ADD of a new client")


def transactions(cluster):
    """That the first member has carried out for clients."""
    c = http.client.HTTPConnection("127.0.0.1", cluster.members[0].port, timeout=5)
    try:
        c.request("GET", "/metrics")
        text = c.getresponse().read().decode()
    finally:
        c.close()
    return sum(float(value) for value in re.findall(r'^grpc_server_handled_total{.*grpc_method="Txn".*} (\S+)$', text, re.M))


@case
@with_cluster()
def a_long_log_is_read_in_few_looks(cluster, start):
    """Else a replica that was started again would be far behind for a minute, and be of no use to anybody."""
    peer = Peer(ready(start()).port)
    for i in range(1000):
        same(peer.add(b"count", 1), i + 1, "an ADD")
    before = transactions(cluster)
    s = start()
    s.wait_warm()
    looks = transactions(cluster) - before
    check(looks < 60, "1000 entries were read in %d transactions" % looks)


@case
@with_cluster()
def a_log_that_grows_long_all_of_a_sudden(cluster, start):
    """Short entries are read many at a time; so many long ones are more than an answer may be."""
    r = ready(start())
    peer, sent = Peer(r.port), 0
    # A second snapshot is larger than what comes behind it here: that stays in the log.
    for snapshots in 1, 2:
        while metric(r, "rdzvd_journal_uncovered_bytes") < max(16 * MIB, metric(r, "rdzvd_journal_snapshot_bytes")):
            peer.set(b"large/%d" % sent, bytes([sent]) * (MIB - 4096))
            sent = peer.add(b"sent", 1)
        r.wait_log("event=snapshot_written", count=snapshots)
    for i in range(8 + 16 + 32 + 64):  # as many as are read until it is 128 at a time
        same(peer.add(b"count", 1), i + 1, "an ADD")
    for i in range(20):
        peer.set(b"large/%d" % i, bytes([255 - i]) * (MIB - 4096))
        peer.add(b"sent", 1)
    s = start()
    s.wait_log(r"event=etcd_failed .*longer than")
    s.wait_ready(503, "stands by")
    same(r.log().count("event=snapshot_written"), 2, "snapshots: the long entries are in the log")
    same(r.stop(), 0, "the exit code")
    peer = Peer(ready(s).port)
    same(peer.add(b"count", 0), 120, "the key, of the next leader")
    for i in range(sent):
        same(peer.get(b"large/%d" % i), bytes([255 - i if i < 20 else i]) * (MIB - 4096), "a value, of the next leader")


SESSION_S = 4


@case
@with_cluster()
def a_relay_may_come_late_to_a_new_leader(cluster, start):
    """A replica that has stood by for longer than --session-timeout waits for relays as long as any other."""
    flag = "--session-timeout=%ds" % SESSION_S
    r, s = ready(start(flag)), start(flag)
    s.wait_ready(503, "stands by")
    stands_by = time.monotonic()
    with Rdzvd("--upstream=127.0.0.1:%d,127.0.0.1:%d" % (r.port, s.port)) as relay:
        peer = Peer(relay.port)
        same(peer.add(b"count", 1), 1, "an ADD through the relay")
        time.sleep(max(0, stands_by + SESSION_S + 1 - time.monotonic()))
        relay.process.send_signal(signal.SIGSTOP)
        r.stop(signal.SIGKILL)
        ready(s)
        time.sleep(SESSION_S / 2)  # it looks for sessions that are not back once a second
        relay.process.send_signal(signal.SIGCONT)
        same(peer.add(b"count", 1), 2, "an ADD after the fail-over")


@case
@with_cluster()
def a_stopped_leader_is_left(cluster, start):
    """A relay that hears nothing goes to the replica that leads meanwhile, and does not wait for the other one."""
    r, s = ready(start()), start()
    s.wait_ready(503, "stands by")
    with Rdzvd("--upstream=127.0.0.1:%d,127.0.0.1:%d" % (r.port, s.port)) as relay:
        peer = Peer(relay.port)
        same(peer.add(b"count", 1), 1, "an ADD through the relay")
        r.process.send_signal(signal.SIGSTOP)
        same(peer.add(b"count", 1), 2, "an ADD while the leader is stopped")
        relay.wait_log("event=upstream_lost .*nothing has come from the store for 5s")
        r.process.send_signal(signal.SIGCONT)
        r.wait_log("event=lease_lost")


@case
@with_cluster()
def a_leader_that_is_cut_off_from_etcd_is_left(cluster, start):
    """It answers nothing, so its relays go to the replica that leads meanwhile: it says so itself."""
    direct = cluster.url
    with Proxy(cluster.members[0].port) as proxy:
        cluster.url = direct.replace(":%d/" % cluster.members[0].port, ":%d/" % proxy.port)
        r, cluster.url = ready(start()), direct
        s = start()
        s.wait_ready(503, "stands by")
        with Rdzvd("--upstream=127.0.0.1:%d,127.0.0.1:%d" % (r.port, s.port)) as relay:
            peer = Peer(relay.port)
            same(peer.add(b"count", 1), 1, "an ADD through the relay")
            proxy.flows.clear()
            same(peer.add(b"count", 1), 2, "an ADD while the leader is cut off")
            relay.wait_log("this replica is cut off from etcd")
            proxy.flows.set()
            r.wait_log("event=lease_lost")


@case
@with_cluster()
def sessions_outlive_an_etcd_that_is_away(cluster, start):
    """A relay that is sent on while all of etcd is away comes back: its sessions wait for it, for longer than
    --session-timeout."""
    r, member = ready(start("--session-timeout=1s")), cluster.members[0]
    with Rdzvd("--upstream=127.0.0.1:%d" % r.port) as relay:
        peer = Peer(relay.port)
        same(peer.add(b"k", 1), 1, "an ADD through the relay")
        member.stop(signal.SIGKILL)
        relay.wait_log("this replica is cut off from etcd", timeout=30)
        time.sleep(3)  # beyond --session-timeout
        member.start_again()
        same(peer.add(b"k", 1), 2, "an ADD on the same connection")
        check("event=lease_lost" not in r.log() and "event=session_timeout" not in r.log(), "it led all the time")


@case
@with_cluster()
def a_member_that_learns_is_left(cluster, start):
    """A learner of etcd answers every request at once with an error; its connection never fails by itself."""
    learner = cluster.add_learner()

    def members(*some):
        cluster.url = "etcd://%s/test" % ",".join("127.0.0.1:%d" % m.port for m in some)
    members(learner)
    start().wait_ready(503, "learner")
    members(learner, cluster.members[0])
    same(Peer(ready(start()).port).add(b"k", 1), 1, "a change")


def connections(port):
    """That this server has."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        fields = [line.split() for line in f.readlines()[1:]]
    return sum(local.endswith(":%04X" % port) and state == "01" for _, local, _, state, *_ in fields)


@case
@with_cluster()
def a_standby_that_stops_lets_relays_go(cluster, start):
    """Not after the 2 s for which a relay may wait on it: it has others to ask."""
    r, s = ready(start()), start()
    s.wait_ready(503, "stands by")
    cluster.members[0].pause()  # nobody leads after this one
    r.stop(signal.SIGKILL)
    with Rdzvd("--upstream=127.0.0.1:%d" % s.port) as relay:
        relay.wait_log("event=upstream_failed .*this replica stands by")
        end = time.monotonic() + 20
        while connections(s.port) != 1:
            check(time.monotonic() < end, "no relay waits")
        began = time.monotonic()
        same(s.stop(), 0, "the exit code")
        took = time.monotonic() - began
        check(took < 1, "it took %.2f s to stop" % took)
        relay.wait_log("event=upstream_failed .*(closed|refused)")


# --- Several members.

@case
@with_cluster(3)
def a_member_dies_or_stops(cluster, start):
    r = ready(start())
    adder = Adder(r.port)
    for member in cluster.members:
        adder.wait()
        member.process.send_signal(signal.SIGSTOP)
        adder.wait(timeout=40)
        member.process.send_signal(signal.SIGCONT)
        member.stop(signal.SIGKILL)
        adder.wait(timeout=40)
        member.start_again()
        cluster.wait(member)
    adder.wait()
    adder.finish(r.port)


@long
@with_cluster(3)
def all_that_dies_at_random(cluster, start):
    """Replicas and members are killed and stopped, one of each kind at a time."""
    rng = random.Random(int(os.environ.get("RDZV_SEED", "1")))
    replicas = [start() for _ in range(3)]
    adder = Adder(*(r.port for r in replicas))
    for _ in range(30):
        adder.wait(timeout=60)
        at = rng.randrange(3)
        if rng.random() < 0.5:
            r = replicas[at]
            if rng.random() < 0.5:
                r.stop(signal.SIGKILL)
                replicas[at] = start(port=r.port)
            else:
                r.process.send_signal(signal.SIGSTOP)
                time.sleep(rng.random() * 2 * LEASE_S)
                r.process.send_signal(signal.SIGCONT)
        else:
            member = cluster.members[at]
            if rng.random() < 0.5:
                member.stop(signal.SIGKILL)
                member.start_again()
            else:
                member.process.send_signal(signal.SIGSTOP)
                time.sleep(rng.random() * 4)
                member.process.send_signal(signal.SIGCONT)
            cluster.wait(member)
    adder.wait(timeout=60)
    leader = next(r for r in replicas if r.ready()[0] == 200)
    adder.finish(leader.port)


class Deaf:
    """A TCP proxy before a member, which can swallow the member's answers and then end the connections: etcd has
    carried out the requests, but the replica does not learn the result."""

    def __init__(self, member):
        self.member, self.deaf, self.lost = member, threading.Event(), 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
                server = socket.create_connection(("127.0.0.1", self.member.port))
            except OSError:
                return
            threading.Thread(target=self.pass_on, args=(client, server), daemon=True).start()
            threading.Thread(target=self.pass_back, args=(server, client), daemon=True).start()

    @staticmethod
    def end(*sockets):
        for s in sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def pass_on(self, client, server):
        try:
            while data := client.recv(65536):
                server.sendall(data)
        except OSError:
            pass
        self.end(client, server)

    def pass_back(self, server, client):
        try:
            while data := server.recv(65536):
                if self.deaf.is_set():
                    self.lost += 1
                    break
                client.sendall(data)
        except OSError:
            pass
        self.end(client, server)


class Putter(threading.Thread):
    """Writes a key of etcd's tree again and again: each change has an index of its own, also if one
    was carried out twice. `known`, `lost`: as of Adder."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.known, self.lost = port, 0, 0
        self.stopping = threading.Event()
        self.start()

    def run(self):
        while not self.stopping.is_set():
            try:
                self.lost += 1
                put(self.port, "/k", "value=v")
                self.lost -= 1
                self.known += 1
            except (OSError, http.client.HTTPException, AssertionError):
                time.sleep(0.01)

    wait = Adder.wait


@case
@with_cluster()
def a_lost_answer(cluster, start):
    """Commits are carried out, and their answers lost: each counts once, then and after a start."""
    proxy = Deaf(cluster.members[0])
    cluster.url = "etcd://127.0.0.1:%d/test" % proxy.port
    r = ready(start())
    putter = Putter(r.port)
    for _ in range(6):
        putter.wait()
        proxy.deaf.set()
        time.sleep(0.05)
        proxy.deaf.clear()
    putter.wait()
    putter.stopping.set()
    putter.join(30)
    check(proxy.lost >= 3, "%d answers were lost" % proxy.lost)
    check(b"rdzvd_journal_commits_repeated_total 0" not in ask(r.port, "GET", "/metrics")[2],
          "no commit was sent again")
    index = int(ask(r.port, "GET", "/v2/keys/")[1]["X-Etcd-Index"])
    r.stop(signal.SIGKILL)
    r = ready(start(port=r.port))
    same(int(ask(r.port, "GET", "/v2/keys/")[1]["X-Etcd-Index"]), index, "the index after a start")
    proxy.listener.close()


# --- Snapshots.

def snapshot_index(cluster):
    """The last entry that the newest snapshot has."""
    answer = cluster.call("/v3/kv/range", {"key": text("/rdzvd/test/snapshot")})
    return int(base64.b64decode(answer["kvs"][0]["value"]).split()[1], 16)


@case
@with_cluster()
def a_snapshot_takes_the_place_of_the_log(cluster, start):
    """But of what comes behind the snapshot before it: a follower that is behind by less than that reads on."""
    r, s = ready(start()), start()
    fill(r.port)
    s.wait_ready(503, "stands by")
    s.process.send_signal(signal.SIGSTOP)
    peer = Peer(r.port)
    peer.set(b"huge", b"h" * (3 * MIB))
    peer.get(b"huge")
    write_until_snapshots(r, 1)
    s.process.send_signal(signal.SIGCONT)
    end = time.monotonic() + 30
    while metric(s, "rdzvd_journal_index") < metric(r, "rdzvd_journal_index"):
        check(time.monotonic() < end, "the follower does not read on")
        time.sleep(0.02)
    check("journal_overtaken" not in s.log(), "overtaken by one snapshot")
    s.process.send_signal(signal.SIGSTOP)  # what it would read next is going to be removed
    write_until_snapshots(r, 2)
    second = snapshot_index(cluster)
    write_until_snapshots(r, 3)
    log = sorted(k for k in cluster.keys() if "/log/" in k)
    same(log[0], "/rdzvd/test/log/%016x" % (second + 1), "the first entry that is left")
    peer.set(b"behind", b"it")
    before = state(r)
    log = [k for k in cluster.keys() if "/log/" in k]
    check(60 < len(log) < 140, "%d entries of some 256 KiB are left of the log" % len(log))
    s.process.send_signal(signal.SIGCONT)
    s.wait_log("event=journal_overtaken")
    third = start()
    for replica in s, third:
        replica.wait_ready(503, "stands by")
    same(r.stop(), 0, "the exit code")
    for _ in range(2):
        leader = wait_for_leader(s, third)
        same(state(leader), before, "of the next leader")
        leader.stop(signal.SIGKILL)


# --- Upgrades.

NEXT = os.path.join(os.path.dirname(rdzvd_binary()), "..", "tests", "rdzvd_next")


@case
@with_cluster()
def a_rolling_upgrade_to_a_release_that_writes_another_log(cluster, start):
    """One replica after the other. A client behind a relay goes on; one of the release before that comes back
    neither follows nor leads, and says what to do."""
    old, second = ready(start()), start()
    second.wait_ready(503, "stands by")
    with Rdzvd("--upstream=127.0.0.1:%d,127.0.0.1:%d" % (old.port, second.port)) as relay:
        peer = Peer(relay.port)
        same(peer.add(b"count", 1), 1, "an ADD of the release before")
        same(second.stop(), 0, "the exit code")
        second = start(port=second.port, binary=NEXT)
        second.wait_ready(503, "stands by")
        same(peer.add(b"count", 1), 2, "an ADD that the next release follows")
        same(old.stop(), 0, "the exit code")
        same(peer.add(b"count", 1), 3, "an ADD of the next release")
        old = start(port=old.port)
        old.wait_ready(503, "a newer rdzvd writes the log: upgrade this replica")
        old.wait_log("event=journal_unreadable .*a newer rdzvd writes the log")  # once, also after its next looks
        write_until_snapshots(second, 1)  # which takes the place of all entries that the old one can read
        waits = start()
        waits.wait_ready(503, "a newer rdzvd writes the log: upgrade this replica")
        same(second.stop(), 0, "the exit code")
        time.sleep(2 * LEASE_S)
        for replica in old, waits:
            same(replica.ready()[0], 503, "the release before, while it is alone")
            check("event=leading" not in replica.log(), "the release before leads")
            check(replica.log().count("event=ready ") == 1, "it has begun anew")
            same(replica.log().count("event=journal_unreadable"), 1, "lines that say so")
            same(replica.stop(), 0, "the exit code")
        ready(start(port=old.port, binary=NEXT))
        same(peer.add(b"count", 1), 4, "an ADD, when all are upgraded")


if __name__ == "__main__":
    sys.exit(replica_cases.main(__file__))
