"""Random sequences of faults in an elastic job with torch's default settings: torchrun over c10d,
1 to 4 nodes, each in a pod of its own (netns.py), the store in another.

    chaos.py [--seed N] [--count N] [--faults N] [--torch NAME]... [--jobs N] [--logs DIR] [--tell]
             [--orders] [--joins] [--relays] [--loopback] [--rdzvd_arg=--FLAG=VALUE]...

Of nodes that are lost and not replaced no store knows that they do not come back, so rdzvd has
--regroup-wait=4s, and --expect for the first round. The seed chooses how many nodes begin, which
faults happen, and when: also in the middle of a rendezvous, and while another fault lasts. The n-th
sequence has seed + n. 2.6 gets what README.md says against torch's faults A and B, since any
sequence may meet them. With --relays each pod has a relay, and the store a data directory: the store is killed and
started again; relays are killed as well, and then their agents end. With --joins nodes join and nothing else happens,
up to 8 nodes, and no agent has a restart (--max-restarts=0). With --orders about half of what happens is an operator's
word (verbs.py), there may be one node more than MAX, and some jobs end by `rdzvctl close`.

Checked: when nothing has happened for a while, one world of all agents that live, and may train, trains, and says
how soon; no two worlds train at once; each rank is there once; a node keeps its rank; nodes that meet by an order or for
a new node use no restart; no agent ends of itself; the job ends with 0.
"""

import argparse
import collections
import concurrent.futures
import heapq
import os
import random
import re
import shutil
import signal
import statistics
import sys
import tempfile
import time

import netns
import torches
import verbs
from job import STOP, JobFailed, out
from pods import PodDurable, PodJob, PodRdzvd, PodRun, rdzvd_binary
from repair import full_names

MOST, MOST_JOINED = 4, 8  # nodes
QUIET_SECONDS = 30  # after that long without a fault one world is to train
LOADING_SECONDS = 90  # what workers and agents may need to load torch, on a busy machine
MEET_SECONDS = (4, 12)  # until a meeting has begun: polls come each second, with torch 1.13 each 5 s
LONG = 25  # the longest time for which something stands still or is cut off

FAULTS = {}

# A: dynamic_rendezvous.py:1215 of 2.6, an AssertionError of a surviving agent that becomes rank 0.
# B: its signal handler closes the run for all nodes (local_elastic_agent.py:374 of 2.6); with --close-needs-all, only
# the last agent closes the run, as at the end of a job. So no agent gets a SIGTERM while it is the only one that may
# train.
FAULTY = ("2.6",)

# As the kubelet: seconds between the SIGTERM of an agent and its SIGKILL. C: TailLog.stop() takes the
# exception of the signal for a failure of its own and goes on (multiprocessing/tail_log.py: 1.13
# line 133, 2.13 line 153), so the agent restarts its workers instead.
GRACE_SECONDS = 30
SIGNAL_SWALLOWED = re.compile("error in log tail[eo]r for .*SignalException")

# D: where its node has no network while an agent begins, connect() fails with "no route to host" (the
# store's address is not found), after which torch tries no more (SocketConnectOp::tryConnect() of
# c10d/socket.cpp: it repeats what was refused, reset or timed out), and the agent ends. A kubelet starts
# it again. So an agent is cut off once it has reached its store.


def fault(weight, name):
    def add(function):
        FAULTS[name] = (weight, function)
        return function
    return add


class Sequence(PodRun):
    """One job, its store, and the faults that strike them."""

    def __init__(self, options, torch, seed):
        super().__init__(options, "chaos", torch, "sequence", seed)
        self.begin_with = 2 + self.random.randrange(MOST - 1)
        self.most = MOST_JOINED if options.joins else MOST
        if options.orders and not torch.is_1x:
            self.most = MOST + 1  # one is a spare
        self.told = []
        self.later, self.count = [], 0  # what ends a fault, by time; pods so far
        self.names = set()  # of pods, but the first
        self.job = self.store_pod = None
        self.idle = set()  # agents that stand still or are cut off
        self.ending = {}  # agents that were told to end, and when the time for that is over
        self.operator = verbs.Operator(self)
        self.is_rough = True  # workers may have failed since the last world
        self.restarts = {}  # of the agents of that one

    # -------------------------------------------------------- the scene

    def live(self):
        return [a for a in self.job.agents.values() if a.code is None and not a.killed]

    def note(self, text):
        self.told.append("%6.1f s  %s" % (time.monotonic() - self.begin, text))
        self.tell(text)

    def spare(self, name=None):
        """An agent that has loaded torch, in a new pod or one that takes that name over."""
        self.count += 1
        taken = name is not None
        pod = self.network.pod(name or self.new_name(), publish=not taken)
        agent = self.job.prepare(pod)
        self.job.await_ready(agent)
        return agent

    def new_name(self):
        """A new name for a pod: pods of a cluster have different names. Torch takes agents with the same host name, pid
        and local id for one node."""
        while True:
            name = "node-%d" % self.random.randrange(100, 1000)
            if name not in self.names:
                self.names.add(name)
                return name

    def pause(self, seconds):
        """Lets that much time pass, and ends faults when their time has come."""
        end = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            if self.later and self.later[0][0] <= now:
                _, _, action = heapq.heappop(self.later)
                action()
                continue
            if now >= end:
                return
            self.pass_seconds(max(0, min([end] + [t for t, *_ in self.later]) - now))

    def after(self, seconds, action):
        heapq.heappush(self.later, (time.monotonic() + seconds, len(self.told), action))

    def stand_still(self, agent, seconds, begin, end):
        self.idle.add(agent)
        begin()

        def go_on():
            self.idle.discard(agent)
            self.note("%s goes on" % getattr(agent, "name", "rdzvd"))
            end()
        self.after(seconds, go_on)

    def end_told(self):
        """Waits until each agent with a SIGTERM has ended, and kills it after its grace time. Returns the time of the
        last kill."""
        killed = None
        for agent, end in self.ending.items():
            while agent.code is None and time.monotonic() < end:
                self.pause(0.1)
            if agent.code is not None:
                continue
            with open(agent.log_path, encoding="utf-8", errors="replace") as f:
                if not SIGNAL_SWALLOWED.search(f.read()):
                    raise JobFailed("%s has not ended %d s after it was told to" % (
                        agent.name, GRACE_SECONDS))
            self.note("torch's fault C: %s has lost the signal; it is killed" % agent.name)
            self.job.kill_pod(agent)
            killed = time.time()
        self.ending.clear()
        return killed

    def trains_alone(self):
        worlds = self.job.worlds()
        return bool(worlds) and worlds[-1].size < 2

    def any_agent(self):
        """A random live agent without a current fault, or None."""
        agents = [a for a in self.live() if a not in self.idle]
        return self.random.choice(agents) if agents else None

    # -------------------------------------------------------- checks

    def await_world(self, begin):
        """One of all live agents that may train, which has done a step since."""
        def seen():
            return [w for w in self.job.worlds() if w.began and w.stepped(begin) and
                    self.operator.allows(w, MOST if self.options.orders else self.most)]
        self.job.deadline = time.monotonic() + QUIET_SECONDS + LOADING_SECONDS
        try:
            self.job.wait(seen, "a world of %s" % sorted(self.operator.inside()))
        except JobFailed as error:
            error.args = ("%s; there were: %s" % (error, ", ".join(map(str, self.job.worlds()))),)
            raise
        return seen()[-1]

    def settle(self, what):
        """Waits until all faults have ended and one world of all live agents trains that may."""
        while self.later:
            self.pause(max(0, max(t for t, *_ in self.later) - time.monotonic() + 0.01))
        if self.operator.size(len(self.operator.inside()), self.most) == 0:
            self.operator.take_back()
        begin = time.time()
        begin = self.end_told() or begin
        world = self.await_world(begin)
        took = max(0, world.began - world.loading - begin)
        self.note("a world of %d trains, %.1f s after %s" % (world.size, took, what))
        if took > QUIET_SECONDS:
            raise JobFailed("it took %.1f s until all %d trained" % (took, world.size), "slow")
        self.seconds.append(took)
        self.check_restarts(world)
        return world

    def check_restarts(self, world):
        """Of agents that are still there: without a fault, none has used one."""
        restarts = {e["by"]: e["restart"] for e in self.job.events
                    if e["event"] == "start" and e["id"] == world.name}
        used = {name: (self.restarts[name], now) for name, now in restarts.items()
                if self.restarts.get(name, now) != now}
        if used and not self.is_rough:
            raise JobFailed("a meeting has used restarts: %s" % used, "restarts")
        self.restarts, self.is_rough = restarts, False

    def check_ranks(self):
        for world in self.job.worlds():
            starts = [e for e in self.job.events if e["event"] == "start" and e["id"] == world.name]
            ranks = [int(e["rank"]) for e in starts]
            if len(set(ranks)) != len(ranks) or not set(ranks) <= set(range(world.size)):
                raise JobFailed("ranks of world %s: %s" % (world, ranks), "ranks")
        killed = self.options.relays and any("rdzvd is killed" in text for text in self.told)
        verbs.check_log(self.store.log(), not self.options.loopback and not killed)

    def end_job(self):
        """All agents that may train take part in the end; spares would end with an error."""
        closes = self.options.orders and self.random.random() < 0.15
        if closes:
            self.operator.close()
            return
        if self.options.orders:
            self.operator.take_back()
            self.pause(MEET_SECONDS[self.torch.is_1x])  # workers that end well meanwhile begin once more
            world = self.settle("all orders were taken back")
            for agent in self.live():
                if agent.name not in world.agents:
                    self.job.kill_pod(agent)
        size = len(self.live())
        self.job.deadline = time.monotonic() + QUIET_SECONDS + LOADING_SECONDS
        self.job.finish(size)

    def go_through(self):
        count = self.begin_with
        self.job = PodJob(self.torch, self.store.endpoint, os.path.join(self.folder, "job"),
                          verbs.RUN, "1:%d" % (MOST if self.options.orders else self.most), last_call_s=None,
                          max_restarts=0 if self.options.joins else 1000,
                          shares=self.torch.name not in FAULTY)
        self.job.relays = self.options.relays
        self.jobs.append(self.job)
        agents = [self.job.prepare(self.network.pod("node-%d" % i)) for i in range(count)]
        self.job.await_ready(*agents)
        self.job.go(*agents)
        self.note("%d nodes begin" % count)
        self.settle("the start")
        faults = self.options.faults
        if self.options.joins:
            faults = min(faults, self.most - count)
        for left in reversed(range(faults)):
            self.pause(self.random.choice((0.2, 1, 4, 8)) * self.random.random())
            what = self.one_fault()
            if left == 0 or self.random.random() < 0.4:
                self.settle(what)
        self.end_job()
        self.job.check_apart()
        self.check_ranks()

    def one_fault(self):
        while True:
            faults = FAULTS
            if self.options.orders and self.random.random() < 0.5:
                faults = verbs.ORDERS
            names = [JOIN] if self.options.joins else list(faults)
            name = self.random.choices(names, [faults[n][0] for n in names])[0]
            if name in OF_RELAYS and not self.options.relays:
                continue
            if faults is verbs.ORDERS and self.store in self.idle:
                continue
            if faults[name][1](self):
                self.is_rough = self.is_rough or (faults is FAULTS and name != JOIN)
                return name

    # -------------------------------------------------------- running

    def work(self):
        self.network = (netns.Loopback if self.options.loopback else netns.Network)(self.folder)
        try:
            pod = self.store_pod = self.network.pod("store")
            flags = ["--expect=%d" % self.begin_with, "--regroup-wait=4s",
                     "--listen=" + self.operator.socket, *self.options.rdzvd_args]
            if self.torch.name in FAULTY:
                flags.append("--close-needs-all=on")
            self.store = (PodDurable(pod, self.folder, *flags) if self.options.relays
                          else PodRdzvd(pod, *flags))
            with self.store:
                try:
                    self.go_through()
                finally:
                    if self.options.relays and self.store.daemon is None:
                        self.store.start()
                    os.kill(self.store.pid, signal.SIGCONT)
                    for job in self.jobs:
                        job.end()
                    with open(os.path.join(self.folder, "store.log"), "w") as f:
                        f.write(self.store.log() + "\n")
                code = self.store.stop()
                if code != 0:
                    raise JobFailed("rdzvd ended with %d on SIGTERM" % code)
        finally:
            self.network.close()

    def again_command(self):
        words = [sys.executable, os.path.abspath(__file__), "--seed", str(self.seed), "--torch",
                 self.torch.name, "--faults", str(self.options.faults), "--tell"]
        words += [w for w in ("--loopback", "--relays", "--joins", "--orders") if getattr(self.options, w[2:])]
        words += ["--rdzvd_arg=" + a for a in self.options.rdzvd_args]
        return "RDZVD=%s %s" % (rdzvd_binary(), " ".join(words))


# ------------------------------------------------------------ faults: True when one has happened


@fault(2, "an agent killed and replaced")
def replaced(s):
    """Under a new name, or under its own, as a StatefulSet does it."""
    agent = s.any_agent()
    if agent is None:
        return False
    name = agent.pod.name if s.random.random() < 0.5 else None
    new = s.spare(name)
    s.note("%s is killed and replaced by %s" % (agent.name, new.name))
    s.job.kill_pod(agent)
    new.pod.publish()
    s.job.go(new)
    return True


@fault(1, "an agent killed")
def killed(s):
    agent = s.any_agent()
    if agent is None or len(s.live()) < 2:
        return False
    s.note("%s is killed" % agent.name)
    s.job.kill_pod(agent)
    return True


@fault(1, "an agent told to end, and replaced")
def terminated(s):
    agent = s.any_agent()
    if agent is None or (s.torch.name in FAULTY and len(s.operator.inside()) < 2):
        return False
    new = s.spare()
    s.note("%s is told to end, and %s comes" % (agent.name, new.name))
    s.job.terminate(agent)
    s.ending[agent] = time.monotonic() + GRACE_SECONDS
    s.job.go(new)
    return True


JOIN = "a node added"


@fault(2, JOIN)
def added(s):
    if len(s.live()) == s.most:
        return False
    new = s.spare()
    s.note("%s is added" % new.name)
    s.job.go(new)
    return True


@fault(2, "a worker killed")
def worker(s):
    ranks = sorted({int(e["rank"]) for e in s.job.events if e["event"] == "start"})
    if not ranks:
        return False
    rank = s.random.choice(ranks)
    agent, inner = s.job.rank_owner(rank)
    pid = agent.pod.processes(agent.process).get(inner) if agent.code is None else None
    if pid is None or agent in s.idle or agent.killed:
        return False
    s.note("the worker of rank %d on %s is killed" % (rank, agent.name))
    os.kill(pid, signal.SIGKILL)
    return True


@fault(1, "an agent frozen")
def frozen(s):
    agent = s.any_agent()
    if agent is None:
        return False
    if s.options.orders and s.trains_alone():
        return False
    seconds, workers = s.random.uniform(1, LONG), s.random.random() < 0.5
    s.note("%s%s stands still for %.1f s" % (
        agent.name, " with its workers" if workers else "", seconds))
    s.stand_still(agent, seconds, lambda: s.job.signal_pod(agent, signal.SIGSTOP, workers),
                  lambda: agent.code is None and s.job.signal_pod(agent, signal.SIGCONT, True))
    return True


@fault(1, "a node cut off")
def cut(s):
    """Spares a node that trains alone: it would continue, and agents that join meanwhile would form a second world."""
    agent = s.any_agent()
    if agent is None or not hasattr(agent.pod, "network") or len(s.live()) < 2:
        return False
    if s.trains_alone():
        return False
    if not agent.pod.is_connected(s.store.port):
        return False  # torch's fault D
    seconds = s.random.uniform(1, LONG)
    s.note("%s is cut off for %.1f s" % (agent.name, seconds))
    s.stand_still(agent, seconds, lambda: agent.pod.link(False), lambda: agent.pod.link(True))
    return True


@fault(1, "the store stopped")
def store_stopped(s):
    if s.store in s.idle:
        return False
    seconds = s.random.uniform(1, LONG)
    s.note("rdzvd stands still for %.1f s" % seconds)
    s.stand_still(s.store, seconds, lambda: os.kill(s.store.pid, signal.SIGSTOP),
                  lambda: os.kill(s.store.pid, signal.SIGCONT))
    return True


OF_RELAYS = ("the store killed", "a relay killed")


@fault(3, "the store killed")
def store_killed(s):
    if s.store in s.idle:
        return False
    seconds = s.random.choice((0, 1, 10)) * s.random.random()
    s.note("rdzvd is killed, and away for %.1f s" % seconds)
    s.stand_still(s.store, seconds, s.store.kill, s.store.start)
    return True


@fault(1, "a relay killed")
def relay_killed(s):
    """The relay's agent loses its store and therefore ends; a new agent joins."""
    agent = s.any_agent()
    if agent is None:
        return False
    new = s.spare()
    s.note("the relay of %s is killed, and %s comes" % (agent.name, new.name))
    agent.killed = True
    s.job.kill_relay(agent)
    s.job.go(new)
    return True


# ------------------------------------------------------------ running them


def run(options, torch, seed):
    if STOP.is_set():
        return None
    one = Sequence(options, torch, seed)
    try:
        one.work()
        one.passed()
        if not options.logs:
            shutil.rmtree(one.folder, ignore_errors=True)
        return one.seconds
    except Exception as error:  # reported, counted, and the next one runs
        if STOP.is_set():
            return None
        out(one.report(error) + "\nwhat happened:\n" + "\n".join(one.told))
        return []


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", action="append", metavar="NAME")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1, help="how many sequences")
    parser.add_argument("--faults", type=int, default=5, help="in each sequence")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument("--logs", help="a folder for all logs, kept")
    parser.add_argument("--tell", action="store_true", help="say what goes on")
    parser.add_argument("--joins", action="store_true", help="nodes join, without restarts")
    parser.add_argument("--orders", action="store_true", help="orders of an operator among the faults")
    parser.add_argument("--relays", action="store_true", help="a relay in each pod")
    parser.add_argument("--loopback", action="store_true", help="127.0.0.x, no namespaces")
    parser.add_argument("--rdzvd_arg", action="append", dest="rdzvd_args", default=[],
                        metavar="--FLAG=VALUE", help="another flag for rdzvd")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: STOP.set())
    if not options.loopback:
        folder = tempfile.mkdtemp(prefix="rdzv-chaos-probe-")
        why = netns.refused(folder)
        shutil.rmtree(folder)
        if why:
            out("no network namespaces here (%s): the agents are at 127.0.0.x instead" % why)
            options.loopback = True
    runs = [(torch, options.seed + i) for i in range(options.count)
            for torch in torches.choose(full_names(options.torch))]
    counts, seconds = collections.Counter(), []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for future in concurrent.futures.as_completed(
                [pool.submit(run, options, *r) for r in runs]):
            result = future.result()
            counts["passed" if result else "failed"] += 1
            seconds += result or []
    if seconds:
        out("seconds until all trained: median %.1f, most %.1f, %d times" % (
            statistics.median(seconds), max(seconds), len(seconds)))
    print("%d passed, %d failed" % (counts["passed"], counts["failed"]))
    sys.exit(1 if counts["failed"] else 0)


if __name__ == "__main__":
    main()
