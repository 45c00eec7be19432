"""What etcd may do to replicas (--journal): refuse for want of space, take little, let others write, ask for users
and certificates. Acknowledged changes survive, and rdzvd logs a remedy.

    replicas_etcd.py [NAME...]     all cases, or the cases whose name contains a NAME
    ETCD=forky replicas_etcd.py    as replicas.py
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "elastic")]
import certs  # noqa: E402
import replica_cases  # noqa: E402
from c10d import Peer  # noqa: E402
from cases import case, check  # noqa: E402
from etcd3 import release, text  # noqa: E402
from filled import ask, put, same  # noqa: E402
from replica_cases import (LEASE_S, MIB, Adder, ready, wait_for_leader, with_cluster,  # noqa: E402
                           write_until_snapshots)
from servers import bench_binary, free_port, rdzvd_binary  # noqa: E402


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
@with_cluster(flags=("--max-request-bytes=65536",))
def an_etcd_that_takes_little_gets_smaller_chunks(cluster, start):
    """Its entries fit, so it is a snapshot that finds out. With the second one, what the log had before the first is
    gone."""
    r = ready(start())
    same(Peer(r.port).add(b"before", 1), 1, "a change")
    write_until_snapshots(r, 2, size=30 << 10)
    check(0 < r.log().find("event=journal_smaller") < r.log().find("event=snapshot_written"), "the chunks fit")
    values = [Peer(r.port).get(b"large/%d" % i) for i in range(9)]
    r.stop(signal.SIGKILL)
    r = ready(start(port=r.port))
    same(Peer(r.port).add(b"before", 1), 2, "a change, after a start")
    same([Peer(r.port).get(b"large/%d" % i) for i in range(9)], values, "the values, after a start")


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
    r.wait_log("event=lease_lost")
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
    r.wait_log("event=journal_conflict")
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
        r.wait_ready(503, "authentication failed, invalid user ID or password; see --journal-user=rdzv")
        r.wait_log("event=etcd_failed .*authentication failed.* hint=.*" + file.name)
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
    other.wait_ready(503, "user name is empty; give a user of etcd with --journal-user=NAME")
    other.wait_log("event=etcd_failed .*user name is empty.* hint=.*--journal-password-file=FILE")


@case
@with_cluster(flags=("--bcrypt-cost=4",))
def a_password_that_cannot_be_read(cluster, start):
    """At the start, whether or not etcd is there, and later; it is read again for each login."""
    make_users(cluster)
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/password"
        r = start("--journal-user=rdzv", "--journal-password-file=" + path)
        r.wait_log("event=password_unreadable setting=--journal-password-file file=%s "
                   'reason="No such file or directory" hint="write the password' % path)
        r.wait_ready(503, path + ": No such file or directory; write the password into that file")
        with open(path, "w", encoding="ascii") as file:
            file.write("pw")
        ready(r)
        os.remove(path)
        os.mkdir(path)
        cluster.members[0].stop()
        cluster.members[0].start_again()
        r.wait_log("event=password_unreadable .*Is a directory")
        check(r.log().count("event=password_unreadable") == 2, "it is not said once for each reason:\n" + r.log())


@case
@with_cluster(flags=("--bcrypt-cost=4",))
def a_user_without_a_right(cluster, start):
    make_users(cluster)
    root = cluster.call("/v3/auth/authenticate", {"name": "root", "password": "rootpw"})["token"]
    cluster.call("/v3/auth/user/add", {"name": "guest", "password": "pw"}, token=root)
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("pw")
        file.flush()
        r = start("--journal-user=guest", "--journal-password-file=" + file.name)
        r.wait_ready(503, "permission denied; the user guest needs the permission")
        r.wait_log("event=etcd_failed .*permission denied.* hint=.*grant-permission ROLE readwrite .*/rdzvd/test/")


# --- Members that are away.

@case
@with_cluster(3)
def most_members_are_away(cluster, start):
    """/readyz reports how many members are away, whichever member answered last; the log has one hint for each
    endpoint."""
    for member in cluster.members[:2]:
        member.stop(signal.SIGKILL)
    r = start()
    r.wait_log("event=etcd_failed .*cannot be reached.* hint=.*is --journal right", count=2)
    r.wait_log("event=etcd_failed .*does not answer.* hint=.*without a majority", timeout=60)
    r.wait_ready(503, "2 of etcd's 3 endpoints cannot be reached: etcd may have no majority")
    for endpoint, where in re.findall(r"event=etcd_failed endpoint=(\S+) reason=\"(\S+) ", r.log()):
        same(endpoint, where, "the endpoint that the reason is about")


@case
@with_cluster(flags=("--bcrypt-cost=4",))
def users_come_while_replicas_run(cluster, start):
    """Their connections began without: etcd says that a name is missing, and they log in."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("pw")
        file.flush()
        flags = ("--journal-user=rdzv", "--journal-password-file=" + file.name)
        r = ready(start(*flags))
        s = start(*flags)
        s.wait_ready(503, "stands by")
        adder = Adder(r.port)
        adder.wait()
        make_users(cluster)
        adder.wait()
        adder.finish(r.port)
        r.stop(signal.SIGKILL)
        same(Peer(ready(s).port).add(b"k", 1), 1, "a change at the one that stood by")


def keys_of_tokens(folder):
    """Flags with which etcd signs tokens that end after 3 s, however much they are used."""
    private, public = os.path.join(folder, "jwt.key"), os.path.join(folder, "jwt.pub")
    subprocess.run(["openssl", "genrsa", "-out", private, "2048"], check=True, capture_output=True)
    subprocess.run(["openssl", "rsa", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)
    return ("--bcrypt-cost=4", "--auth-token=jwt,pub-key=%s,priv-key=%s,sign-method=RS256,ttl=3s" % (public, private))


@case
def tokens_end_under_load():
    """Tokens of etcd expire by time, by a change of etcd's users, and by a new password: changes continue, the leader
    stays, and each change counts once."""
    with tempfile.TemporaryDirectory(prefix="rdzv-tokens-") as folder:
        with_cluster(3, keys_of_tokens(folder))(tokens_end)()


def tokens_end(cluster, start):
    def as_root(path, body):
        token = cluster.call("/v3/auth/authenticate", {"name": "root", "password": "rootpw"})["token"]
        cluster.call(path, body, token=token)
    make_users(cluster)
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("pw")
        file.flush()
        flags = ("--journal-user=rdzv", "--journal-password-file=" + file.name)
        r, s = ready(start(*flags)), start(*flags)
        s.wait_ready(503, "stands by")
        adder = Adder(r.port)
        for i in range(3):
            end = time.monotonic() + 4  # longer than a token is good for
            while time.monotonic() < end:
                adder.wait()
            as_root("/v3/auth/role/add", {"name": "other-%d" % i})
            adder.wait()
        file.seek(0)
        file.write("new")
        file.flush()
        as_root("/v3/auth/user/changepw", {"name": "rdzv", "password": "new"})
        adder.wait()
        adder.finish(r.port)
        check(adder.slowest < LEASE_S, "no answer for %.1f s" % adder.slowest)
        check("event=leading" not in s.log() and "event=lease_lost" not in r.log(), "another replica has begun to lead")
        s.wait_ready(503, "stands by")


# --- Clocks.

CLOCK = os.path.join(os.path.dirname(rdzvd_binary()), "..", "tests", "libclock_ahead.so")


def away_ms(replica):
    """As it says when it leads."""
    return int(replica.wait_log(r"event=leading .*away_ms=(\d+)")[0].group(1))


@case
@with_cluster()
def clocks_a_minute_off(cluster, start):
    """Each replica says so while another leads. Whoever leads next, changes count once, no TTL ends too soon, and no
    agent gets a minute for its heartbeats."""
    if not os.path.exists(CLOCK):
        return "a build with sanitizers has no libclock_ahead.so"

    def stands_by(port, ahead_s):
        replica = start(port=port, env=dict(os.environ, LD_PRELOAD=CLOCK, CLOCK_AHEAD_S=str(ahead_s)))
        replica.wait_ready(503, "stands by")
        return replica
    ports = [free_port() for _ in range(3)]
    leader, ahead = ready(start(port=ports[0])), stands_by(ports[1], 60)
    adder = Adder(*ports)
    adder.wait()
    put(leader.port, "/k", "value=v&ttl=30")
    ahead.wait_log(r"event=clock_differs .*ahead_ms=-(59|60)\d{3} ")
    leader.stop(signal.SIGKILL)
    adder.wait()
    check(away_ms(ahead) < 1000 * (LEASE_S + 20), "away for %d ms" % away_ms(ahead))
    node = json.loads(ask(ahead.port, "GET", "/v2/keys/k")[2])["node"]
    check(5 < node["ttl"] <= 31, node)
    behind = stands_by(ports[2], -60)
    behind.wait_log(r"event=clock_differs .*ahead_ms=1(19|20)\d{3} ")
    ahead.stop(signal.SIGKILL)
    adder.wait()
    check(away_ms(behind) < 1000 * (LEASE_S + 20), "away for %d ms" % away_ms(behind))
    same(json.loads(ask(behind.port, "GET", "/v2/keys/k")[2])["node"]["value"], "v", "the key")
    adder.finish(behind.port)
    check(adder.slowest < LEASE_S + 5, "no answer for %.1f s" % adder.slowest)


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
    """etcd's TLS alert for an expired client certificate: etcd 3.4 sends no specific alert."""
    return "alert bad certificate" if release() == "3.4" else "alert certificate expired"


@case
@with_cluster(secure=True)
def what_is_wrong_with_tls_to_etcd_is_said(cluster, start):
    secure = cluster.secure
    other = certs.Ca("another-ca")
    ca, own = ["--journal-ca=" + secure.ca.pem], secure.flags()
    strange, old = other.issue("stranger", None), secure.ca.expired("rdzvd", None)
    for flags, words in (
            ([], "closed the connection.* hint=.*--journal-ca=FILE"),
            (["--journal-ca=" + other.pem, *own[1:]], "give the file of the CA that signed it"),
            (ca, "the server accepts only clients of its own CA"),
            (ca + ["--journal-cert=" + strange[0], "--journal-key=" + strange[1]], "clients of its own CA"),
            (ca + ["--journal-cert=" + old[0], "--journal-key=" + old[1]], expired_alert()),
            (own + ["--journal-server-name=etcd.ml.svc"], "connect by a name of that certificate.* hint=.*-server-name")):
        replica = start(*flags)
        replica.wait_ready(503, words.split(".*")[0])
        replica.wait_log("event=etcd_failed .*" + words)
        replica.stop()
    secure.renew(secure.ca.expired("etcd"))
    start(*own).wait_ready(503, "certificate has expired; the clock of this machine")
    secure.renew(secure.ca.issue("etcd", "DNS:etcd.ml.svc"))
    start(*own).wait_ready(503, "connect by a name of that certificate")
    start(*own, "--journal-server-name=etcd.ml.svc").wait_ready()


def put_files(pair, to):
    for path, name in zip(pair, to):
        shutil.copy(path, name + ".new")
        os.rename(name + ".new", name)


@case
@with_cluster(3, secure=True)
def certificates_are_rotated_under_load(cluster, start):
    """The certificates of etcd's members and of rdzvd are signed again; then each member restarts with its new
    certificate."""
    secure = cluster.secure
    own = secure.ca.path("own.pem"), secure.ca.path("own.key")
    put_files(secure.client, own)
    flags = "--journal-ca=" + secure.ca.pem, "--journal-cert=" + own[0], "--journal-key=" + own[1]
    r, s = ready(start(*flags)), start(*flags)
    s.wait_ready(503, "stands by")
    adder = Adder(r.port, s.port)
    adder.wait()
    secure.renew(secure.ca.issue("etcd"))
    put_files(secure.ca.issue("rdzvd", None), own)
    for replica in r, s:
        replica.wait_log("event=certificate_loaded .*own.pem")
    for member in cluster.members:
        member.stop()
        member.start_again()
        cluster.wait(member)
        adder.wait()
    adder.finish(wait_for_leader(r, s).port)
    check("event=etcd_failed .*certificate" not in r.log() + s.log(), "a certificate was refused")


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
    put_files(old, own)
    replica = start("--journal-ca=" + secure.ca.pem, "--journal-cert=" + own[0], "--journal-key=" + own[1])
    replica.wait_log("event=etcd_failed .*" + expired_alert())
    put_files(new, own)
    replica.wait_log("event=certificate_loaded .*own.pem")
    replica.wait_ready()
    same(Peer(replica.port).add(b"n", 1), 1, "a change")
    put_files((secure.ca.pem, own[1]), own)
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


# --- rdzv-bench.

@case
@with_cluster()
def a_benchmark_asks_etcd_itself(cluster, start):
    """Again and again over the same connections: at the end of each work, messages of several requests may come
    before the trailers of the first, and none of them is an error."""
    del start
    ran = subprocess.run([bench_binary(), "--connect=127.0.0.1:%d" % cluster.members[0].port, "--clients=4", "--depth=4",
                          "--seconds=0.05", *40 * ["etcd3-txn"]], capture_output=True, text=True, timeout=60)
    same((ran.returncode, ran.stderr, ran.stdout.count("work=etcd3-txn clients=4 ")), (0, "", 40), "its end")


@case
@with_cluster(flags=("--bcrypt-cost=4",))
def a_benchmark_says_that_etcd_refuses(cluster, start):
    del start
    make_users(cluster)
    ran = subprocess.run([bench_binary(), "--connect=127.0.0.1:%d" % cluster.members[0].port, "--clients=4", "--depth=4",
                          "--seconds=0.2", "etcd3-txn"], capture_output=True, text=True, timeout=60)
    same((ran.returncode, ran.stderr), (1, "rdzv-bench: etcd refuses a transaction: etcdctl names the reason\n"), "its end")


if __name__ == "__main__":
    sys.exit(replica_cases.main(__file__))
