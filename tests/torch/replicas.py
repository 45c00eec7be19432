"""A real job trains through relays while the replicas of its store, and the etcd cluster on which these keep
it, are killed, stopped, cut off and moved: no agent and no worker may notice, and each change counts once.

    replicas.py [--seed N] [--faults N] [--only FAULT]... [--torch NAME]... [--lease SECONDS] [--pause SECONDS]
                [--followers] [--logs DIR] [--tell]

Three replicas, each with a way of its own to the three members of a real etcd v3 cluster; two agents with two
workers each, and each agent has a relay that knows all replicas; a third relay has a client that adds 1 to a key
again and again. Once all ranks train, each of these happens --faults times, in an order that the seed chooses:

    leader-killed   kill -9 of the replica that leads; it is started again
    leader-ended    SIGTERM, and it is started again
    leader-paused   it is stopped for --pause seconds (30), and goes on
    leader-cut      nothing passes between it and etcd for as long as its lease (--lease, 5), and some seconds more
    member-killed   kill -9 of a member of etcd, whichever; it is started again
    etcd-moved      another member leads etcd's cluster
    compacted       etcd forgets all earlier revisions

After each fault, every rank must make progress, and the client must get answers. Checked: each answer is the previous
one plus 1; every rank started once; all agents end with exit code 0, at the same step with the same model.
--followers: no relays. Each agent, and the client, has its own follower: a further replica that forwards requests to the
leader. While a fault strikes the leader, the followers are cut off from etcd, so another replica becomes leader. At the
end all other replicas stop, and a follower leads with its forwarded clients.
It prints for each kind of fault how long the client waited.
"""

import argparse
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time

import torches
from job import STOP, JobFailed, out
from kills import AGENTS, RANKS, KilledJob

sys.path[:0] = [os.path.join(torches.ROOT, "tests", folder) for folder in ("support", "elastic")]
from c10d import Peer  # noqa: E402
from etcd3 import Cluster, Replica  # noqa: E402
from proxy import Proxy  # noqa: E402
from servers import Rdzvd, free_port, rdzvd_binary  # noqa: E402

REPLICAS = 3
MEMBERS = 3
PATIENCE_S = 60  # until a replica leads


class Way:
    """Of one replica to etcd. It has what a Replica asks of a cluster: the URL."""

    def __init__(self, cluster):
        self.proxies = [Proxy(member.port) for member in cluster.members]
        self.url = "etcd://%s/test" % ",".join("127.0.0.1:%d" % p.port for p in self.proxies)

    def stop(self):
        for p in self.proxies:
            p.flows.clear()

    def go_on(self, reset):
        for p in self.proxies:
            if reset:
                p.reset()
            p.flows.set()

    def close(self):
        for p in self.proxies:
            p.close()


class Adder(threading.Thread):
    """Adds 1 to a key repeatedly on one connection. `answered`: the number of answers, which equals the key's value."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.peer = Peer(port)
        self.answered, self.at, self.longest, self.wrong = 0, time.monotonic(), 0, None
        self.stopping = threading.Event()
        self.start()

    def run(self):
        try:
            while not self.stopping.wait(0.005):
                got = self.peer.add(b"count", 1)
                now = time.monotonic()
                if got != self.answered + 1:
                    self.wrong = "ADD came to %d behind %d" % (got, self.answered)
                    return
                self.answered = got
                self.longest, self.at = max(self.longest, now - self.at), now
        except (OSError, EOFError) as error:
            self.wrong = "the connection of the client has ended behind %d ADDs: %s" % (self.answered, error)

    def begin(self):
        self.longest = 0

    def wait(self, more, timeout=PATIENCE_S):
        wanted, end = self.answered + more, time.monotonic() + timeout
        while self.answered < wanted and self.wrong is None:
            if time.monotonic() > end:
                raise JobFailed("after %d s, %d of %d ADDs are answered" % (timeout, self.answered, wanted))
            time.sleep(0.01)
        if self.wrong is not None:
            raise JobFailed(self.wrong)

    def finish(self):
        self.stopping.set()
        self.join(PATIENCE_S)
        if self.wrong is not None:
            raise JobFailed(self.wrong)


class Store:
    """The replicas, their cluster, and a relay, or a replica that passes on, for each agent and for the client."""

    backend = "c10d"

    def __init__(self, lease_s, followers):
        names = (*AGENTS, "client")
        self.cluster = Cluster(MEMBERS)
        self.lease_s = lease_s
        self.ways = [Way(self.cluster) for _ in range(REPLICAS)]
        ports = [free_port() for _ in range(REPLICAS + len(names))]
        upstream = "--upstream=" + ",".join("127.0.0.1:%d" % p for p in (ports if followers else ports[:REPLICAS]))
        flags = ("--journal-lease=%ds" % lease_s, *((upstream,) if followers else ()))
        self.replicas = [Replica(way, *flags, port=p) for way, p in zip(self.ways, ports)]
        self.logs = []
        self.port = self.replicas[0].port
        self.leader()
        self.followers_way = Way(self.cluster) if followers else None
        if followers:
            self.relays = {name: Replica(self.followers_way, *flags, port=p) for name, p in zip(names, ports[REPLICAS:])}
            for r in self.relays.values():
                r.wait_ready(says="[+]upstream ok: connected to ")
        else:
            self.relays = {name: Rdzvd(upstream) for name in names}

    def endpoint(self, name):
        return "127.0.0.1:%d" % self.relays[name].port

    def leader(self, among=None):
        """The number of the replica that leads, once one does."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            for at, r in enumerate(among or self.replicas):
                try:
                    status, says = r.ready()
                    if status == 200 and "[+]leader ok\n" in says:
                        return at
                except OSError:
                    pass  # it is stopped, or has not begun to listen
            time.sleep(0.05)
        raise JobFailed("no replica leads after %d s" % PATIENCE_S)

    def end_replica(self, at, number):
        code = self.replicas[at].stop(number)
        if code != (0 if number == signal.SIGTERM else -number):
            raise JobFailed("replica %d ended with %d:\n%s" % (at, code, self.replicas[at].log()))
        self.logs.append(self.replicas[at].log())

    def start_replica(self, at):
        self.replicas[at] = self.replicas[at].again()

    def log(self):
        daemons = [("replica %d" % at, r) for at, r in enumerate(self.replicas)]
        daemons += [("relay of %s" % name, r) for name, r in self.relays.items()]
        daemons += [("etcd " + m.name, m) for m in self.cluster.members]
        return "".join("\n-- %s\n%s" % (name, "\n".join(d.log().splitlines()[-60:])) for name, d in daemons)

    def end(self):
        for relay in self.relays.values():
            relay.stop()
        for r in self.replicas:
            if r.process.poll() is None:
                r.process.send_signal(signal.SIGCONT)
                r.stop(signal.SIGKILL)
        for way in self.ways + ([self.followers_way] if self.followers_way else []):
            way.close()
        self.cluster.__exit__()


# --- What happens. Each gets the run.

def kill_leader(run):
    at = run.store.leader()
    run.store.end_replica(at, signal.SIGKILL)
    time.sleep(run.random.random())
    run.store.start_replica(at)


def end_leader(run):
    at = run.store.leader()
    run.store.end_replica(at, signal.SIGTERM)
    run.store.start_replica(at)


def pause_leader(run):
    r = run.store.replicas[run.store.leader()]
    r.process.send_signal(signal.SIGSTOP)
    time.sleep(run.options.pause)
    r.process.send_signal(signal.SIGCONT)


def cut_leader(run):
    way = run.store.ways[run.store.leader()]
    way.stop()
    time.sleep(run.store.lease_s + 3 * run.random.random())
    way.go_on(reset=run.random.random() < 0.5)


def kill_member(run):
    member = run.random.choice(run.store.cluster.members)
    member.stop(signal.SIGKILL)
    time.sleep(run.random.random())
    member.start_again()
    run.store.cluster.wait(member)


def move_etcd(run):
    cluster = run.store.cluster
    status = [cluster.call("/v3/maintenance/status", {}, m) for m in cluster.members]
    ids = [s["header"]["member_id"] for s in status]
    leads = ids.index(status[0]["leader"])
    target = run.random.choice([i for i in ids if i != ids[leads]])
    cluster.call("/v3/maintenance/transfer-leadership", {"targetID": target}, cluster.members[leads])


def compact(run):
    cluster = run.store.cluster
    revision = cluster.call("/v3/maintenance/status", {})["header"]["revision"]
    cluster.call("/v3/kv/compaction", {"revision": revision, "physical": True})


FAULTS = {"leader-killed": kill_leader, "leader-ended": end_leader, "leader-paused": pause_leader,
          "leader-cut": cut_leader, "member-killed": kill_member, "etcd-moved": move_etcd, "compacted": compact}


class Run:
    def __init__(self, options, torch, folder):
        self.options, self.torch, self.folder = options, torch, folder
        self.random = random.Random("%d %s" % (options.seed, torch.name))
        self.begin = time.monotonic()
        self.waits = {name: [] for name in FAULTS}
        self.store = self.job = self.adder = None

    def tell(self, text):
        if self.options.tell:
            out("  [%s, %5.1f s] %s" % (self.torch.name, time.monotonic() - self.begin, text))

    def strike(self, name):
        """While all replicas could lead, as a disruption budget has it."""
        for r in self.store.replicas:
            r.wait_warm()
        way = self.store.followers_way if name.startswith("leader-") else None
        if way is not None:
            way.stop()
        self.adder.begin()
        FAULTS[name](self)
        self.store.leader()
        self.see_them_go_on(name)
        if way is not None:
            way.go_on(reset=self.random.random() < 0.5)

    def see_them_go_on(self, name):
        self.adder.wait(20)
        self.job.wait_training(RANKS, since=self.job.mark())
        self.job.check_untouched()
        self.waits[name].append(self.adder.longest)
        self.tell("%s: the client waited for %.2f s" % (name, self.adder.longest))

    def let_a_follower_lead(self):
        """Stops all other replicas, so a follower becomes leader and keeps its forwarded clients."""
        followers = list(self.store.relays.values())
        for r in followers:
            r.wait_warm()
        self.adder.begin()
        for at in range(REPLICAS):
            self.store.end_replica(at, self.random.choice((signal.SIGKILL, signal.SIGTERM)))
        self.store.leader(followers)
        self.waits["follower-leads"] = []
        self.see_them_go_on("follower-leads")
        for at in range(REPLICAS):
            self.store.start_replica(at)
            self.store.replicas[at].wait_warm()

    def go_through(self):
        names = [n for n in FAULTS if not self.options.only or n in self.options.only] * self.options.faults
        self.random.shuffle(names)
        self.store = Store(self.options.lease, self.options.followers)
        self.adder = Adder(self.store.relays["client"].port)
        self.job = KilledJob(self.torch, self.store, self.folder,
                             120 + len(names) * (self.options.pause + 30), read_timeout=0)
        for name in AGENTS:
            self.job.start_agent(name)
        self.job.wait_training(RANKS)
        self.tell("%d ranks train" % RANKS)
        for name in names:
            self.strike(name)
        if self.options.followers:
            self.let_a_follower_lead()
        self.job.finish(RANKS)
        self.job.check_untouched()
        self.adder.finish()
        if Peer(self.store.relays["client"].port).add(b"count", 0) != self.adder.answered:
            raise JobFailed("the key is not what the last ADD has answered")

    def run(self):
        try:
            self.go_through()
            return True
        except JobFailed as error:
            out("failed  torch %s (%.1f s): %s" % (self.torch.name, time.monotonic() - self.begin, error))
            if self.job is not None:
                out(self.job.logs())
            if self.store is not None:
                out(self.store.log())
            return False
        finally:
            if self.adder is not None:
                self.adder.stopping.set()
            if self.job is not None:
                self.job.end()
            if self.store is not None:
                self.store.end()

    def figures(self):
        return "; ".join("%s %d times, %.2f s (at most %.2f)" % (name, len(w), statistics.median(w), max(w))
                         for name, w in self.waits.items() if w)


def run_one(options, torch):
    folder = tempfile.mkdtemp(prefix="rdzv-replicas-", dir=options.logs)
    one = Run(options, torch, folder)
    if not one.run():
        out("again: RDZVD=%s %s %s --torch %s --seed %d --faults %d%s%s --lease %d --pause %d\nlogs: %s" % (
            rdzvd_binary(), sys.executable, os.path.abspath(__file__), torch.name, options.seed, options.faults,
            "".join(" --only " + name for name in options.only or ()), " --followers" if options.followers else "",
            options.lease, options.pause, folder))
        return False
    out("passed  torch %s: no restart, %d ADDs, each once (%.1f s). The client waited: %s" % (
        torch.name, one.adder.answered, time.monotonic() - one.begin, one.figures()))
    if not options.logs:
        shutil.rmtree(folder)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=1, help="how many of each kind")
    parser.add_argument("--only", action="append", choices=tuple(FAULTS))
    parser.add_argument("--torch", action="append", help="%s; repeatable" % ", ".join(torches.ALL))
    parser.add_argument("--lease", type=int, default=5)
    parser.add_argument("--pause", type=int, default=30)
    parser.add_argument("--followers", action="store_true", help="no relays: replicas pass agents on")
    parser.add_argument("--logs", help="a folder for all logs, kept")
    parser.add_argument("--tell", action="store_true", help="say what goes on")
    options = parser.parse_args()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: STOP.set())
    results = [run_one(options, torch) for torch in torches.choose(options.torch)]
    print("%d passed, %d failed" % (results.count(True), results.count(False)))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
