"""What the tests of replicas on a real etcd v3 cluster share: clusters and replicas that end with their case,
clients that count, and the way to run cases side by side."""

import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "elastic"))
import cases  # noqa: E402
from c10d import Peer  # noqa: E402
from cases import case, check  # noqa: E402
from etcd3 import Cluster, Replica, Secure  # noqa: E402
from filled import ask, contents  # noqa: E402

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
                    return function(cluster, start)
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
    `lost`: requests without an answer, which the store may have carried out."""

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


def write_until_snapshots(leader, count, size=MIB // 4):
    """Values of that size, until the leader has written so many snapshots in all."""
    peer, sent = Peer(leader.port), 0
    while leader.log().count("event=snapshot_written") < count:
        check(sent * size < 100 * MIB, "no snapshot after %d values" % sent)
        peer.set(b"large/%d" % (sent % 9), bytes([sent % 256]) * size)
        peer.get(b"large/%d" % (sent % 9))
        sent += 1
    peer.socket.close()


def state(replica):
    """The whole content that clients see, except the replica's own address."""
    seen = contents(replica.port)
    del seen["/v2/members"]
    return seen


def metric(replica, name):
    """One without labels."""
    return float(re.search(rb"^%s (\S+)$" % name.encode(), ask(replica.port, "GET", "/metrics")[2], re.M).group(1))


def until_end(peer, timeout):
    """What comes; b"" is the end of the connection, None that nothing comes."""
    peer.socket.settimeout(timeout)
    try:
        return peer.socket.recv(100)
    except ConnectionError:
        return b""
    except TimeoutError:
        return None


def leads(replica):
    return b"rdzvd_journal_leads 1" in ask(replica.port, "GET", "/metrics")[2]


def wait_for_leader(*replicas):
    end = time.monotonic() + 20
    while time.monotonic() < end:
        for r in replicas:
            if r.process.poll() is None and r.ready()[0] == 200:
                return r
        time.sleep(0.02)
    raise AssertionError("nobody leads")


def run_alone(path, name):
    done = subprocess.run([sys.executable, path, name] + (["--all"] if ALL else []),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in done.stdout.splitlines():
        if done.returncode != 0 or line.startswith("skip "):
            print(line, flush=True)
    return done.returncode


def main(path):
    """The exit code of a test file. Cases mostly wait for leases to expire, so several cases run in parallel, each in
    its own process."""
    if len(sys.argv) > 1:
        return cases.run(os.path.relpath(path))
    names = [function.__name__ for function in cases.CASES]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(lambda name: run_alone(path, name), names))
    failed = sum(code != 0 for code in codes)
    print("%d passed, %d failed" % (len(codes) - failed, failed))
    return 1 if failed else 0
