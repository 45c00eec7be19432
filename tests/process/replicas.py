"""rdzvd on a real etcd v3 cluster (--journal): what clients were answered is there, whoever dies; who
does not lead answers nothing; what etcd refuses is said.

    replicas.py [NAME...]     all cases, or those with one of these words in their name
    replicas.py --all         the long ones, too
    ETCD=forky replicas.py    with the etcd of that suite of Debian (support/install.sh etcds)

Everything stays on loopback and in directories that the test made.
"""

import concurrent.futures
import http.client
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "elastic")]
import cases  # noqa: E402
import certs  # noqa: E402
from agents import Peer, get_request, set_request, text as c10d_text  # noqa: E402
from cases import case, check  # noqa: E402
from etcd3 import Cluster, Replica, Secure, release, text  # noqa: E402
from filled import ask, contents, fill, goes_on, put, same  # noqa: E402
from servers import Rdzvd, free_port, rdzvd_binary  # noqa: E402

ALL = "--all" in sys.argv
if ALL:
    sys.argv.remove("--all")

# The shortest lease: etcd's own least is 1.5 times its election timeout, of 1 s.
LEASE = "--journal-lease=2s"
LEASE_S = 2
MIB = 1 << 20


def long(function):
    """A case for --all."""
    def skipped():
        return function() if ALL else "long; --all runs it"
    skipped.__name__ = function.__name__
    return case(skipped)


def with_cluster(count=1, flags=(), secure=False):
    """The case gets a cluster, and a function that starts replicas on it; all of them end with it."""
    def wrap(function):
        def run():
            with Cluster(count, flags, Secure() if secure else None) as cluster:
                replicas = []

                def start(*more, **how):
                    replicas.append(Replica(cluster, LEASE, *more, **how))
                    return replicas[-1]
                try:
                    function(cluster, start)
                except BaseException:
                    for r in replicas:
                        print("a replica's log ends:\n%s" % r.log()[-3000:])
                    raise
                finally:
                    for r in replicas:
                        if r.process.poll() is None:
                            r.process.send_signal(signal.SIGCONT)
                            r.stop(signal.SIGKILL)
        run.__name__ = function.__name__
        return run
    return wrap


class Adder(threading.Thread):
    """Adds 1 to a key again and again, at whichever replica takes it. `known`: answers so far;
    `lost`: requests of which no answer came, each of which may have counted."""

    def __init__(self, *ports):
        super().__init__(daemon=True)
        self.ports, self.known, self.lost, self.last = ports, 0, 0, 0
        self.stopping = threading.Event()
        self.slowest, self.wrong = 0, None
        self.start()

    def run(self):
        answered = time.monotonic()
        while not self.stopping.is_set():
            for port in self.ports:
                try:
                    peer = Peer(port)
                except (OSError, EOFError):
                    continue
                try:
                    while not self.stopping.is_set():
                        self.lost += 1
                        got = peer.add(b"count", 1)
                        self.lost -= 1
                        self.known += 1
                        now = time.monotonic()
                        self.slowest, answered = max(self.slowest, now - answered), now
                        if not self.last < got <= self.known + self.lost:
                            self.wrong = "ADD came to %d behind %d, with %d answered and %d lost" % (
                                got, self.last, self.known, self.lost)
                        self.last = got
                except (OSError, EOFError):
                    pass
                finally:
                    peer.socket.close()
            time.sleep(0.01)

    def wait(self, more=20, timeout=30):
        """Until so many more are answered."""
        wanted, end = self.known + more, time.monotonic() + timeout
        while self.known < wanted:
            check(time.monotonic() < end, "after %d s, %d of %d ADDs are answered" % (
                timeout, self.known, wanted))
            time.sleep(0.01)

    def finish(self, port):
        self.stopping.set()
        self.join(30)
        check(self.wrong is None, self.wrong)
        got = Peer(port).add(b"count", 0)
        check(self.known <= got <= self.known + self.lost,
              "the key is %d, with %d answered and %d lost" % (got, self.known, self.lost))


def ready(replica):
    replica.wait_ready()
    return replica


def state(replica):
    """All that clients see of it but its own address."""
    seen = contents(replica.port)
    del seen["/v2/members"]
    return seen


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
def an_end_gives_the_lease_back_to_whoever_does_not_read(cluster, start):
    """A client that does not read its answers is cut off after --drain-timeout, and the next replica leads at once."""
    r = ready(start("--drain-timeout=300ms"))
    s = start()
    s.wait_ready(503, "stands by")
    client = Peer(r.port)
    client.set(b"large", bytes(8 * MIB))
    same(client.add(b"k", 1), 1, "an ADD")
    client.send(get_request(b"large") * 4)
    same(client.take(8), struct.pack("<Q", 8 * MIB), "an answer that has begun")
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
    """`?exclude=leader`, of a rolling update: who stands by is ready then, and who cannot read the log is not."""
    def probe(replica, query):
        return subprocess.run([rdzvd_binary(), "--check-ready=localhost:%d%s" % (replica.port, query)],
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


def until_end(peer, timeout):
    """What comes; b"" is the end of the connection, None that nothing comes."""
    peer.socket.settimeout(timeout)
    try:
        return peer.socket.recv(100)
    except ConnectionError:
        return b""
    except TimeoutError:
        return None


def pause_beyond_the_lease(cluster, start, *asked):
    """The leader is stopped with requests in its socket, and goes on when another replica leads and
    has changed what they are about: it answers none of them, neither before it can hear of that from
    etcd nor then."""
    r, s = ready(start()), start()
    s.wait_ready(503, "stands by")
    client = Peer(r.port)
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
    same(until_end(client, 0.5), None, "what a leader has answered that may have been deposed")
    member.process.send_signal(signal.SIGCONT)
    same(until_end(client, 20), b"", "what the deposed leader has answered")
    r.wait_log("event=deposed")
    r.wait_ready(503, "stands by")
    same(peer.get(b"k"), b"new", "the key")
    return r, s


@case
@with_cluster()
def a_paused_leader_answers_no_read(cluster, start):
    for replica in pause_beyond_the_lease(cluster, start, get_request(b"k")):
        same(replica.stop(), 0, "the exit code")  # also of one that has begun anew


@case
@with_cluster()
def a_paused_leader_commits_nothing(cluster, start):
    r, s = pause_beyond_the_lease(cluster, start, set_request(b"k", b"late"), get_request(b"k"))
    s.stop(signal.SIGKILL)
    ready(r)
    same(Peer(r.port).get(b"k"), b"new", "the key, of who was deposed and leads again")


@case
@with_cluster()
def an_etcd_that_comes_back(cluster, start):
    r = ready(start())
    member, peer = cluster.members[0], Peer(r.port)
    peer.add(b"k", 1)
    member.stop(signal.SIGKILL)
    peer.send(b"\x04" + c10d_text(b"k") + struct.pack("<q", 1))
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
            peer.send(b"\x04" + c10d_text(b"count") + struct.pack("<q", 1))
            r.stop(signal.SIGKILL)
            count += 1
            same(peer.number(), count, "the ADD that the leader's death met")
            r, s = s, start(port=r.port)
            s.wait_ready(503, "stands by")


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


def figure(replica, name):
    return int(re.search(rb"^%s (\d+)$" % name.encode(), ask(replica.port, "GET", "/metrics")[2], re.M).group(1))


@case
@with_cluster()
def a_log_that_grows_long_all_of_a_sudden(cluster, start):
    """Short entries are read many at a time; so many long ones are more than an answer may be."""
    r = ready(start())
    peer, sent = Peer(r.port), 0
    # A second snapshot is larger than what comes behind it here: that stays in the log.
    for snapshots in 1, 2:
        while figure(r, "rdzvd_journal_uncovered_bytes") < max(16 * MIB, figure(r, "rdzvd_journal_snapshot_bytes")):
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
        r.wait_log("event=deposed")


@case
@with_cluster()
def members_stand_in_a_file(cluster, start):
    """It is read again before each try; when it is wrong, what was read before stays."""
    member, good = cluster.members[0], "# The members.\n\n127.0.0.1:%d # all of them\n" % cluster.members[0].port
    path = os.path.join(cluster.folder, "members")
    cluster.url = "etcd:///test"

    def write(text):
        with open(path + ".new", "w", encoding="ascii") as f:
            f.write(text)
        os.rename(path + ".new", path)
    write("127.0.0.1:%d\n" % free_port())
    r = start("--journal-endpoints-file=" + path)
    r.wait_ready(503, "cannot be reached")
    write(good)
    ready(r)
    r.wait_log("event=endpoints_loaded file=%s endpoints=1" % path, count=2)
    write(good + " etcd-1.etcd\n")
    member.stop(signal.SIGKILL)
    r.wait_log("event=endpoints_refused .*members:4:2: write HOST:PORT.* endpoints=1")
    s = start("--journal-endpoints-file=" + path)
    s.wait_ready(503, "members:4:2: write HOST:PORT")
    member.start_again()
    same(Peer(ready(r).port).add(b"k", 1), 1, "a change")
    os.remove(path)
    s.wait_ready(503, "No such file or directory")
    write(good)
    s.wait_ready(503, "stands by: ")
    same(r.log().count("event=endpoints_refused"), 1, "times that the fault is told")


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
    """One that was stopped begins anew at its port."""
    replicas[at] = start(*replicas[at].flags, port=replicas[at].port)
    return replicas[at]


def leads(replica):
    return b"rdzvd_journal_leads 1" in ask(replica.port, "GET", "/metrics")[2]


def until_one_leads(*replicas, timeout=30):
    end = time.monotonic() + timeout
    while True:
        for r in replicas:
            if leads(r):
                return r
        check(time.monotonic() < end, "nobody leads after %d s" % timeout)
        time.sleep(0.02)


def metric(replica, name):
    return float(re.search(rb"^%s (\S+)$" % name.encode(), ask(replica.port, "GET", "/metrics")[2], re.M).group(1))


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
    here.send(b"\x06" + struct.pack("<Q", 1) + c10d_text(b"later"))
    check(here.is_silent(there), "a WAIT has ended before its key came")
    there.set(b"later", b"now")
    here.expect(b"\0")
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
    waits.send(b"\x06" + struct.pack("<Q", 1) + c10d_text(b"later"))
    for _ in range(50):
        count += 1
        same(peer.add(b"count", 1), count, "an ADD at a follower")
    peer.send(b"\x04" + c10d_text(b"count") + struct.pack("<q", 1))
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
    waits.expect(b"\0")
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
        peer.send(b"\x04" + c10d_text(b"count") + struct.pack("<q", 1))
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
def nobody_goes_in_circles(cluster, start):
    """While nobody leads, a link's HELLO is answered by who gets it, and clients are held."""
    replicas = passing(start, 3)
    leader, first, second = replicas
    peers = [Peer(r.port) for r in (first, second)]
    cluster.members[0].pause()
    leader.stop(signal.SIGKILL)
    for peer in peers:
        peer.send(b"\x04" + c10d_text(b"n") + struct.pack("<q", 1))
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
def a_deposed_leader_cuts_its_clients_alone(cluster, start):
    """A client of a follower waits for the next leader; those of the one that is stopped see the end."""
    leader, follower = passing(start, 2)
    here, there = Peer(follower.port), Peer(leader.port)
    same(there.add(b"n", 1), 1, "an ADD at the leader")
    leader.process.send_signal(signal.SIGSTOP)
    same(here.add(b"n", 1), 2, "an ADD while the leader is stopped")
    leader.process.send_signal(signal.SIGCONT)
    leader.wait_log("event=deposed")
    same(until_end(there, 20), b"", "a client of the deposed leader")
    leader.wait_ready(200, "stands by")
    same(Peer(leader.port).add(b"n", 1), 3, "an ADD at who was deposed")


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
    """A TCP proxy before a member, which may stop to pass on what the member answers, and then ends
    those connections: what was asked is carried out, and nobody learns of it."""

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

def write_until_snapshots(leader, count):
    """Large values, until the leader has written so many snapshots in all."""
    peer, sent = Peer(leader.port), 0
    while leader.log().count("event=snapshot_written") < count:
        check(sent < 400, "no snapshot after %d values" % sent)
        peer.set(b"large/%d" % (sent % 9), bytes([sent % 256]) * (MIB // 4))
        peer.get(b"large/%d" % (sent % 9))
        sent += 1
    peer.socket.close()


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
    while figure(s, "rdzvd_journal_index") < figure(r, "rdzvd_journal_index"):
        check(time.monotonic() < end, "the follower does not read on")
        time.sleep(0.02)
    check("journal_overtaken" not in s.log(), "overtaken by one snapshot")
    s.process.send_signal(signal.SIGSTOP)  # what it would read next is going to be removed
    write_until_snapshots(r, 3)
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


def wait_for_leader(*replicas):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        for r in replicas:
            if r.process.poll() is None and r.ready()[0] == 200:
                return r
        time.sleep(0.02)
    raise AssertionError("nobody leads")


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
        old.wait_log("event=journal_unreadable .*a newer rdzvd writes the log")
        same(second.stop(), 0, "the exit code")
        time.sleep(2 * LEASE_S)
        same(old.ready()[0], 503, "the release before, while it is alone")
        same(old.stop(), 0, "the exit code")
        ready(start(port=old.port, binary=NEXT))
        same(peer.add(b"count", 1), 4, "an ADD, when all are upgraded")


# --- What etcd refuses.

@case
@with_cluster(flags=("--quota-backend-bytes=%d" % (16 * MIB),))
def an_etcd_without_space(cluster, start):
    r = ready(start())
    peer, known = Peer(r.port), 0
    peer.set(b"before", b"1")
    end = time.monotonic() + 60
    while "space exceeded" not in r.ready()[1]:
        check(time.monotonic() < end, "16 MiB are not full")
        try:
            filler = Peer(r.port)
            filler.socket.settimeout(0.5)
            for i in range(20):
                filler.set(b"fill/%d" % known, b"f" * (MIB // 2))
                same(len(filler.get(b"fill/%d" % known)), MIB // 2, "a value")
                known += 1
        except (OSError, EOFError):
            pass
        finally:
            filler.socket.close()
    r.wait_log("event=journal_failed .*space exceeded")
    revision = cluster.call("/v3/kv/range", {"key": text("x")})["header"]["revision"]
    cluster.call("/v3/kv/compaction", {"revision": revision, "physical": True})
    cluster.call("/v3/maintenance/defragment", {})
    alarm = cluster.call("/v3/maintenance/alarm", {"action": "GET"})["alarms"][0]
    # An operator gives it room: a larger quota, and the alarm goes.
    member = cluster.members[0]
    member.stop()
    member.argv[-1] = "--quota-backend-bytes=%d" % (256 * MIB)
    member.start_again()
    cluster.wait(member)
    cluster.call("/v3/maintenance/alarm", dict(alarm, action="DEACTIVATE"))
    ready(r)
    peer = Peer(r.port)
    same(peer.get(b"before"), b"1", "a key")
    same(peer.get(b"fill/%d" % (known - 1)), b"f" * (MIB // 2), "the last value that was answered")
    same(peer.add(b"after", 1), 1, "a change")


@case
@with_cluster(flags=("--max-request-bytes=65536", "--max-txn-ops=4"))
def an_etcd_that_takes_little(cluster, start):
    r = ready(start())
    peer = Peer(r.port)
    peer.set(b"large", bytes(range(256)) * 4096)
    same(peer.get(b"large"), bytes(range(256)) * 4096, "a value in many entries")
    r.wait_log("event=journal_smaller")
    r.stop(signal.SIGKILL)
    r = ready(start(port=r.port))
    same(Peer(r.port).get(b"large"), bytes(range(256)) * 4096, "the value, after a start")


@case
@with_cluster()
def somebody_else_writes(cluster, start):
    r = ready(start())
    peer = Peer(r.port)
    peer.set(b"k", b"1")
    same(peer.get(b"k"), b"1", "the key")
    cluster.call("/v3/kv/deleterange", {"key": text("/rdzvd/test/leader")})
    try:
        peer.set(b"k", b"2")
        got = peer.get(b"k")
    except (OSError, EOFError):
        got = None
    same(got, None, "what a leader without its key has answered")
    r.wait_log("event=deposed")
    ready(r)
    peer = Peer(r.port)
    same(peer.get(b"k"), b"1", "the key, of the same replica that leads anew")
    cluster.call("/v3/kv/put", {"key": text("/rdzvd/test/head"), "value": text("%016x %016x" % (999, 1))})
    try:
        peer.set(b"k", b"3")
        got = peer.get(b"k")
    except (OSError, EOFError):
        got = None
    same(got, None, "what was answered with a foreign head")
    r.wait_log("event=journal_disturbed")
    r.wait_ready(503, "missing")


# --- Users.

def make_users(cluster):
    for name, password in ("root", "rootpw"), ("rdzv", "pw"):
        cluster.call("/v3/auth/user/add", {"name": name, "password": password})
    cluster.call("/v3/auth/role/add", {"name": "root"})
    cluster.call("/v3/auth/role/add", {"name": "rdzv"})
    cluster.call("/v3/auth/role/grant", {"name": "rdzv", "perm": {
        "permType": "READWRITE", "key": text("/rdzvd/"), "range_end": text("/rdzvd0")}})
    for name in "root", "rdzv":
        cluster.call("/v3/auth/user/grant", {"user": name, "role": name})
    cluster.call("/v3/auth/enable", {})


@case
@with_cluster(flags=("--bcrypt-cost=4", "--auth-token-ttl=3"))
def a_user_with_a_password(cluster, start):
    make_users(cluster)
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("wrong\n")
        file.flush()
        flags = ("--journal-user=rdzv", "--journal-password-file=" + file.name)
        r = start(*flags)
        r.wait_ready(503, "authentication failed")
        file.seek(0)
        file.write("pw\n   ")
        file.flush()
        ready(r)
        peer = Peer(r.port)
        same(peer.add(b"k", 1), 1, "a change")
        member = cluster.members[0]
        member.stop()  # its tokens are gone with it
        member.start_again()
        same(peer.add(b"k", 1), 2, "a change of the member's next life")
    other = start()
    other.wait_ready(503, "user name is empty")


# --- TLS with etcd. ---


@case
@with_cluster(3, secure=True)
def over_tls_with_a_clients_certificate(cluster, start):
    """Changes, large ones too, a second replica, and a fail-over; etcd's members take no other client."""
    flags = cluster.secure.flags()
    first = start(*flags)
    first.wait_ready()
    second = start(*flags)
    second.wait_ready(503, "leads")
    adder = Adder(first.port, second.port)
    big = os.urandom(3 * MIB)
    peer = Peer(first.port)
    peer.set(b"big", big)
    peer.ping()
    adder.wait()
    first.stop(signal.SIGKILL)
    adder.wait()
    adder.finish(second.port)
    same(Peer(second.port).get(b"big") == big, True, "a value of many records")


def expired_alert():
    """What etcd says to a client whose certificate has expired: that of 3.4 does not say what is wrong with it."""
    return "alert bad certificate" if release() == "3.4" else "alert certificate expired"


@case
@with_cluster(secure=True)
def what_is_wrong_with_tls_to_etcd_is_said(cluster, start):
    secure = cluster.secure
    other = certs.Ca("another-ca")
    ca, own = ["--journal-ca=" + secure.ca.pem], secure.flags()
    strange, old = other.issue("stranger", None), secure.ca.expired("rdzvd", None)
    for flags, words in (
            ([], "closed the connection"),
            (["--journal-ca=" + other.pem, *own[1:]], "give the file of the CA that signed it"),
            (ca, "the server takes clients of its own CA alone"),
            (ca + ["--journal-cert=" + strange[0], "--journal-key=" + strange[1]], "clients of its own CA alone"),
            (ca + ["--journal-cert=" + old[0], "--journal-key=" + old[1]], expired_alert()),
            (own + ["--journal-server-name=etcd.ml.svc"], "connect by a name that it has")):
        replica = start(*flags)
        replica.wait_ready(503, words)
        replica.wait_log("event=etcd_failed .*" + words)
        replica.stop()
    secure.renew(secure.ca.expired("etcd"))
    start(*own).wait_ready(503, "certificate has expired; the clock of this machine")
    secure.renew(secure.ca.issue("etcd", "DNS:etcd.ml.svc"))
    start(*own).wait_ready(503, "connect by a name that it has")
    start(*own, "--journal-server-name=etcd.ml.svc").wait_ready()


@case
@with_cluster()
def tls_to_an_etcd_that_has_none(cluster, start):
    ca = certs.Ca()
    start("--journal-ca=" + ca.pem).wait_ready(503, "speaks no TLS")


@case
@with_cluster(secure=True)
def a_new_certificate_is_shown_to_etcd(cluster, start):
    """rdzvd sees that its files have changed, and shows the new certificate with its next connection."""
    secure = cluster.secure
    old, new = secure.ca.expired("rdzvd", None), secure.client
    own = secure.ca.path("own.pem"), secure.ca.path("own.key")

    def put_files(pair):
        for path, to in zip(pair, own):
            shutil.copy(path, to + ".new")
            os.rename(to + ".new", to)
    put_files(old)
    replica = start("--journal-ca=" + secure.ca.pem, "--journal-cert=" + own[0], "--journal-key=" + own[1])
    replica.wait_log("event=etcd_failed .*" + expired_alert())
    put_files(new)
    replica.wait_log("event=certificate_loaded .*own.pem")
    replica.wait_ready()
    same(Peer(replica.port).add(b"n", 1), 1, "a change")
    put_files((secure.ca.pem, own[1]))
    replica.wait_log("event=certificate_kept .*peer=etcd")
    same(Peer(replica.port).add(b"n", 1), 2, "the connection goes on")


@case
@with_cluster(flags=("--bcrypt-cost=4",), secure=True)
def a_user_with_a_password_over_tls(cluster, start):
    with tempfile.NamedTemporaryFile("w", suffix=".password") as file:
        file.write("pw\n")
        file.flush()
        make_users(cluster)
        user = ("--journal-user=rdzv", "--journal-password-file=" + file.name)
        replica = start(*cluster.secure.flags(), *user)
        replica.wait_ready()
        same(Peer(replica.port).add(b"n", 1), 1, "a change")


def run_alone(name):
    done = subprocess.run([sys.executable, __file__, name] + (["--all"] if ALL else []),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in done.stdout.splitlines():
        if done.returncode != 0 or line.startswith("skip "):
            print(line, flush=True)
    return done.returncode


def run_all():
    """They wait for the ends of leases more than for anything else: some at a time, each in a
    process of its own."""
    names = [function.__name__ for function in cases.CASES]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(run_alone, names))
    failed = sum(code != 0 for code in codes)
    print("%d passed, %d failed" % (len(codes) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(run_all() if len(sys.argv) == 1 else cases.run(os.path.relpath(__file__)))
