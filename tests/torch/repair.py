"""What an elastic job with torch's default settings survives: torchrun over c10d, each agent in a
pod of its own (netns.py), the store in another.

    repair.py [--case NAME]... [--torch NAME]... [--store rdzvd|torch]... [--repeat N | --fill N]
              [--jobs N] [--seed N] [--logs DIR] [--results FILE] [--table] [--list] [--tell]

--case, --torch and --store may be said several times; without them: all cases, the usual two
releases, rdzvd. With `--store torch` the jobs meet at torch's own server in a process apart: how
that ends is written down beside ours and is not a failure; nor is what torch does to itself
whatever the store (TORCHS_OWN below). --torch takes the start of a name (1.13). A seed chooses the
moment of the fault; the n-th repeat has seed + n.

Each line tells the seconds from the fault to the first moment at which all ranks of the new world
were ready to train, without the time in which Python loads torch: new agents have done so when the
fault comes, and what it took the new workers is subtracted. How much of these seconds a new agent
needed from its begin until it had joined, rdzvd's log says. --results FILE adds each outcome to a
file, and --table prints all that are in it, or were seen now, as rows of a Markdown table, with
--case the rows of these cases; `--repeat 0` only prints.

A table of many runs is made in several sittings: with `--results FILE --fill N`, only those runs of
each cell (case, release, store) are made that FILE lacks of N, the next seeds, first those of the
cells that have the fewest. SIGINT ends a sitting; the runs that it cuts off are not in FILE.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time

import netns
import torches
from job import STOP, JobFailed, out
from pods import FAULT_SECONDS, Cases, PodJob, PodPeerStore, PodRdzvd, PodRun, Rdzvd, rdzvd_binary

# What no store can repair, and what an agent's log then says.
TORCHS_OWN = {("2.6", "rank-0-moves"): "AssertionError"}

# In 2.6 (2.3 to 2.7) one agent's SIGTERM closes the run for all, unless the store knows better.
RDZVD_ARGS = {("2.6", "sigterm"): ["--close-needs-all=on"],
              ("2.6", "call-rolling"): ["--close-needs-all=on"]}

# What no store can know: how many nodes the first round is to have, and that no machine comes.
CASE_ARGS = {"call-worker": ["--expect=2"], "call-scale-up": ["--expect=1"],
             "call-vanished": ["--regroup-wait=2s"], "call-gone": ["--regroup-wait=2s"],
             "relay-gone": ["--regroup-wait=2s"], "ended": ["--closed-run-wait=3s"],
             "call-switched-off": ["--regroup-wait=2s", "--silent-node-timeout=6s"],
             "call-slept": ["--regroup-wait=2s", "--silent-node-timeout=6s"],
             "rank-0-moves": ["--rank-order=torch"],
             "call-two": ["--expect=3"], "call-agent-0": ["--expect=3"],
             "call-agent-0-ranks": ["--expect=1"],
             "clock-ahead": ["--expect=2"], "clock-behind": ["--expect=2"]}


class Skipped(Exception):
    pass


# ------------------------------------------------------------ cases

case = Cases()


@case("plain", "nothing happens")
def plain(run):
    job = run.train("2:2", 2)
    run.finish(job, 2)


@case("scale-up", "scale-up 1→2→3")
def scale_up(run):
    job = run.train("1:3", 1, last_call_s=4)
    for size in 2, 3:
        new = run.spare(job, "node-%d" % size)
        run.fault(job)
        job.go(new)
        run.formed(job, size)
    run.finish(job, 3)


def worker_killed(run, rank):
    job = run.train("2:2", 2)
    run.fault(job)
    job.kill_rank(rank)
    run.formed(job, 2)
    run.finish(job, 2)


@case("worker-0", "worker 0 killed")
def worker_0(run):
    worker_killed(run, 0)


@case("worker-1", "worker 1 killed")
def worker_1(run):
    worker_killed(run, 1)


def agent_replaced(run, rank, name, end):
    """Ends the agent of `rank` with `end`; a new agent in a pod called `name` replaces it. The survivor
    is node-1 or node-2."""
    job = run.train("2:2", 2)
    lost = job.agent_with(rank)
    new = run.spare(job, name or lost.pod.name)
    run.fault(job)
    end(job, lost)
    new.pod.publish()
    job.go(new)
    run.formed(job, 2)
    run.finish(job, 2)


@case("agent-last", "agent of the last rank SIGKILLed and replaced")
def agent_last(run):
    agent_replaced(run, 1, "node-9", PodJob.kill_pod)


@case("agent-0", "agent of rank 0 SIGKILLed and replaced")
def agent_0(run):
    """The new name sorts before the survivor's: rank 0 is the new node's."""
    agent_replaced(run, 0, "node-0", PodJob.kill_pod)


@case("ranks-kept", "agents of rank 1, then of rank 0 SIGKILLed and replaced: the new ones get their ranks")
def ranks_kept(run):
    """By their names, they would be the last ones; and torch 2.6 ends a survivor that becomes rank 0. At first, node-2 has
    rank 1, which torch gives node-10."""
    job = run.train("3:3", 3, names=("node-1", "node-2", "node-10"))
    if [job.agent_with(r).pod.name for r in range(3)] != ["node-1", "node-2", "node-10"]:
        raise JobFailed("ranks are not by the numbers in the names")
    for rank, name in ((1, "node-12"), (0, "node-11")):
        before = [job.agent_with(r).name for r in range(3)]
        lost, new = job.agent_with(rank), run.spare(job, name)
        run.fault(job)
        job.kill_pod(lost)
        new.pod.publish()
        job.go(new)
        run.formed(job, 3)
        before[rank] = new.name
        after = [job.agent_with(r).name for r in range(3)]
        if after != before:
            raise JobFailed("ranks of %s, not of %s" % (" ".join(after), " ".join(before)))
    run.finish(job, 3)


@case("rank-0-moves", "the same, and a survivor becomes rank 0")
def rank_0_moves(run):
    agent_replaced(run, 0, "node-9", PodJob.kill_pod)


@case("agent-0-recreated", "the same, under the same name and a new address")
def agent_0_recreated(run):
    agent_replaced(run, 0, None, PodJob.kill_pod)


@case("node-lost", "node of the last rank switched off and replaced")
def node_lost(run):
    """No packet says that it is gone: only the missing heartbeats do."""
    def switch_off(job, agent):
        run.link(agent.pod, False)
        job.kill_pod(agent)
    agent_replaced(run, 1, "node-9", switch_off)


@case("node-cut", "a node cut off for 20 s and back")
def node_cut(run):
    job = run.train("2:2", 2)
    cut = job.agent_with(1)
    run.link(cut.pod, False)
    run.pass_seconds(20)
    run.fault(job)
    run.link(cut.pod, True)
    run.formed(job, 2, old_may_go_on=True)
    run.finish(job, 2)


@case("sigterm", "SIGTERM of one agent, and a new one")
def sigterm(run):
    agent_replaced(run, 1, "node-9", PodJob.terminate)


def all_replaced(run, names):
    job = run.train("2:2", 2)
    agents = list(job.agents.values())
    if names:
        new = [run.spare(job, name) for name in names]
    else:
        new = [job.prepare(agent.pod) for agent in agents]
        job.await_ready(*new)
    run.fault(job)
    for agent in agents:
        job.kill_pod(agent)
    job.go(*new)
    run.formed(job, 2)
    run.finish(job, 2)


@case("all-killed", "all agents killed and restarted in place, same id")
def all_killed(run):
    all_replaced(run, None)


@case("all-replaced", "all agents killed, new ones with other names, same id")
def all_renamed(run):
    all_replaced(run, ("node-8", "node-9"))


@case("again-success", "same id again after success")
def again_success(run):
    job = run.train("2:2", 2)
    again, agents = run.prepare_again(job)
    run.finish(job, 2)
    run.again(again, agents)


def failed_job(run):
    """A failed job, and everything to submit it again."""
    job = run.train("2:2", 2, max_restarts=0)
    again, agents = run.prepare_again(job)
    for agent in job.agents.values():
        agent.killed = True  # they are to fail
    job.extend(FAULT_SECONDS)
    job.kill_rank(1)
    job.wait(lambda: all(a.code is not None for a in job.agents.values()), "the job's failure")
    if not all(a.code for a in job.agents.values()):
        raise JobFailed("a job without restarts left did not fail")
    return again, agents


@case("again-failure", "same id again after failure")
def again_failure(run):
    run.again(*failed_job(run))


@case("again-at-once", "the same, within the grace of a closed run")
def again_at_once(run):
    run.submit_again(*failed_job(run))


@case("ended", "a job has ended well, and then the container of a spare (torch 1.13: of a lost node) starts again")
def ended(run):
    if not isinstance(run.store, Rdzvd):
        raise Skipped("torch's store keeps a closed run for ever")
    if run.torch.is_1x and run.options.loopback:
        raise Skipped("on loopback, all agents of torch 1.13 have one name")
    job = run.train("1:2" if run.torch.is_1x else "1:1", 2 if run.torch.is_1x else 1)
    if run.torch.is_1x:
        late = job.agent_with(1)
        run.fault(job)
        job.kill_pod(late)
        run.formed(job, 1)
    else:
        late = run.spare(job, "node-2")
        job.go(late)
        run.await_event("node_joined role=spare")
        late.killed = True  # torch's spare ends with 1 when its run is closed
    run.finish(job, 1)
    again = run.new_job("1:1")
    agent = again.prepare(late.pod)
    again.await_ready(agent)
    run.store.wait_log("event=run_forgotten .*run=training")
    again.go(agent)
    again.extend(FAULT_SECONDS)
    again.wait(lambda: agent.code is not None, "the end of the agent that came late")
    if agent.code == 0 or again.worlds():
        raise JobFailed("it has trained the job again")
    run.await_event("agents_rejected reason=\"the job has ended well")


@case("joiner-ends", "an agent gives up joining, which closes the run; then two more come (3:3)")
def joiner_ends(run):
    """The agent took part in no round, so the others must meet."""
    job = run.new_job("3:3")
    pods = [run.network.pod("node-%d" % (i + 1)) for i in range(4)]
    ends = job.prepare(pods[0], flags=("--rdzv_conf=is_host=0,join_timeout=4",))
    agents = [job.prepare(pod) for pod in pods[1:]]
    job.await_ready(ends, *agents)
    job.go(ends, agents[0])
    ends.killed = True  # it is to fail
    job.wait(lambda: ends.code is not None, "the end of an agent that nobody joins")
    run.fault(job)
    job.go(*agents[1:])
    run.formed(job, 3)
    run.finish(job, 3)


def joined_after(run, count, seconds, send):
    """One more node comes to `count` of them after a fault of that many seconds."""
    job = run.train("1:3", count, last_call_s=10)
    new = run.spare(job, "node-%d" % (count + 1))
    send(job, signal.SIGSTOP)
    run.pass_seconds(seconds)
    send(job, signal.SIGCONT)
    run.fault(job)
    job.go(new)
    run.formed(job, count + 1)
    run.finish(job, count + 1)


@case("agent-frozen", "an agent frozen for 20 s, then a third node")
def agent_frozen(run):
    joined_after(run, 2, 20, lambda job, number: job.signal_pod(job.agent_with(1), number, False))


@case("node-frozen", "the same, its workers too")
def node_frozen(run):
    joined_after(run, 2, 20, lambda job, number: job.signal_pod(job.agent_with(1), number, True))


@case("all-frozen", "the only agent frozen for 20 s, then a second node")
def all_frozen(run):
    """Nobody is left to take it for dead: but for itself, when it wakes."""
    joined_after(run, 1, 20, lambda job, number: job.signal_pod(job.agent_with(0), number, False))


@case("store-stopped", "the store stopped for 25 s, then a third node")
def store_stopped(run):
    joined_after(run, 2, 25, lambda job, number: os.kill(run.store.pid, number))


def default_call(run, nnodes, count, **how):
    """As train(), with torch's default last call of 30 s in all rounds but the first: a first node
    that fills the job, or --expect, ends that one."""
    return run.train(nnodes, count, last_call_s=None, **how)


def replaced(run, **how):
    job = default_call(run, "1:2", 2, **how)
    lost = job.agent_with(1)
    new = run.spare(job, "node-9")
    run.fault(job)
    job.kill_pod(lost)
    job.go(new)
    run.formed(job, 2)
    run.finish(job, 2)


@case("call-replaced", "agent SIGKILLed and replaced at once (1:2)")
def call_replaced(run):
    replaced(run)


@case("relay-replaced", "a pod SIGKILLed, agent and relay at once, and replaced (1:2)")
def relay_replaced(run):
    """As a kubelet ends a pod by force: no process is left to say that the agent has ended."""
    replaced(run, relays=True)


@case("call-worker", "one worker killed (2 nodes of 1:3)")
def call_worker(run):
    job = default_call(run, "1:3", 2, max_restarts=3)
    run.fault(job)
    job.kill_rank(1)
    run.formed(job, 2)
    run.finish(job, 2)


@case("call-scale-up", "scale-up 1→2 (1:3)")
def call_scale_up(run):
    job = default_call(run, "1:3", 1)
    new = run.spare(job, "node-2")
    run.fault(job)
    job.go(new)
    run.formed(job, 2)
    run.finish(job, 2)


@case("call-all-killed", "all agents killed and started again (1:2)")
def call_all_killed(run):
    job = default_call(run, "1:2", 2)
    agents = list(job.agents.values())
    new = [job.prepare(agent.pod) for agent in agents]
    job.await_ready(*new)
    run.fault(job)
    for agent in agents:
        job.kill_pod(agent)
    job.go(*new)
    run.formed(job, 2)
    run.finish(job, 2)


def not_replaced(run, end, **how):
    """The survivor of two goes on alone, without waiting for another one."""
    job = default_call(run, "1:2", 2, **how)
    lost = job.agent_with(1)
    run.fault(job)
    end(job, lost)
    run.formed(job, 1)
    if lost.code is None:
        job.kill_pod(lost)
    run.finish(job, 1)


@case("call-vanished", "a node vanishes, its workers' sockets stay open; not replaced (1:2, "
                       "`--regroup-wait=2s`)")
def call_vanished(run):
    """All in it stands still, and only its connections to the store end."""
    def vanish(job, agent):
        job.signal_pod(agent, signal.SIGSTOP, True)
        agent.killed = True
        run.reset(agent.pod, int(job.endpoint.rsplit(":", 1)[1]))
    not_replaced(run, vanish)


@case("call-gone", "an agent SIGKILLed with its workers, not replaced (1:2, `--regroup-wait=2s`)")
def call_gone(run):
    not_replaced(run, PodJob.kill_pod)


@case("relay-gone", "a pod SIGKILLed, agent and relay at once, not replaced (1:2, "
                    "`--regroup-wait=2s`)")
def relay_gone(run):
    not_replaced(run, PodJob.kill_pod, relays=True)


@case("call-switched-off", "a node switched off, not replaced (1:2, `--regroup-wait=2s "
                           "--silent-node-timeout=6s`)")
def call_switched_off(run):
    """The node falls silent, and no packet reports its end."""
    def switch_off(job, agent):
        run.link(agent.pod, False)
        job.kill_pod(agent)
    not_replaced(run, switch_off)


@case("call-slept", "a node that was taken out while it stood still goes on (1:2, the same)")
def call_slept(run):
    """The other node trains alone until the stopped node wakes."""
    job = default_call(run, "1:2", 2)
    asleep = job.agent_with(1)
    job.extend(FAULT_SECONDS)
    job.signal_pod(asleep, signal.SIGSTOP, True)
    job.wait_world(1, time.time())
    run.expected[job].append(1)
    run.pass_steps(job)
    run.fault(job)
    job.signal_pod(asleep, signal.SIGCONT, True)
    run.formed(job, 2)
    run.finish(job, 2)


@case("call-rolling", "all nodes drained and replaced, one after the other (1:2)")
def call_rolling(run):
    """The new names sort before the old ones: rank 0 is a new node's, or stays where it is."""
    job = default_call(run, "1:2", 2)
    for lost, name in zip(list(job.agents.values()), ("node-0", "node-00")):
        new = run.spare(job, name)
        run.fault(job)
        job.terminate(lost)
        job.go(new)
        run.formed(job, 2)
        run.pass_steps(job)
    run.finish(job, 2)


@case("call-two", "two nodes of three SIGKILLed and replaced at once (1:4)")
def call_two(run):
    job = default_call(run, "1:4", 3)
    lost = [job.agent_with(rank) for rank in (0, 1)]
    new = [run.spare(job, name) for name in ("node-0", "node-00")]
    run.fault(job)
    for agent in lost:
        job.kill_pod(agent)
    job.go(*new)
    run.formed(job, 3)
    run.finish(job, 3)


@case("call-agent-0", "agent 0 SIGKILLed during a last call, all replaced at once (1:4)")
def call_agent_0(run):
    """The two that are left wait for the third when the first of them is lost as well."""
    job = default_call(run, "1:4", 3)
    lost, agent_0 = job.agent_with(2), job.agent_with(0)
    new = [run.spare(job, name) for name in ("node-0", "node-00")]
    job.extend(FAULT_SECONDS)
    job.kill_pod(lost)
    run.await_event("last_call round=1")
    for rank in (0, 1):
        run.await_event("node_joined round=1 node=%s/.*role=participant" %
                        job.agent_with(rank).pod.name)
    run.fault(job)
    job.kill_pod(agent_0)
    job.go(*new)
    run.formed(job, 3)
    run.finish(job, 3)


@case("call-agent-0-ranks", "agent 0 SIGKILLed between completion and ranks, replaced at once (1:3)")
def call_agent_0_ranks(run):
    """It joins the round first and stands still, so the other one completes the round with it."""
    job = default_call(run, "1:3", 1)
    agent_0, other, new = job.agent_with(0), run.spare(job, "node-2"), run.spare(job, "node-0")
    job.extend(FAULT_SECONDS)
    job.go(other)
    run.await_event("node_joined round=0 node=node-2/.*role=waiting")
    job.signal_pod(other, signal.SIGSTOP, False)
    run.await_event("node_joined round=1 node=node-1/.*role=participant")
    job.signal_pod(agent_0, signal.SIGSTOP, False)
    job.signal_pod(other, signal.SIGCONT, False)
    run.await_event("round_complete round=1 .*0=node-1")
    run.fault(job)
    job.kill_pod(agent_0)
    job.go(new)
    run.formed(job, 2)
    run.finish(job, 2)


def clock_off(run, seconds):
    """Twenty seconds, so that each heartbeat is older or younger than torch's 15 s would have it,
    and then a third node."""
    job = default_call(run, "1:3", 2, clocks={"node-2": seconds})
    run.pass_seconds(20)
    new = run.spare(job, "node-3")
    run.fault(job)
    job.go(new)
    run.formed(job, 3)
    run.finish(job, 3)


@case("clock-ahead", "one of two clocks 2 minutes ahead, then a third node (1:3)")
def clock_ahead(run):
    clock_off(run, 120)


@case("clock-behind", "one of two clocks 2 minutes behind, then a third node (1:3)")
def clock_behind(run):
    clock_off(run, -120)


# ------------------------------------------------------------ running them


class Run(PodRun):
    """One run of one case: its network, store and jobs, and the expected worlds of each job."""

    def __init__(self, options, torch, kind, name, seed):
        super().__init__(options, "repair", torch, name, seed, kind)
        self.kind, self.expected = kind, {}

    # -------------------------------------------------------- for the cases

    def spare(self, job, name):
        """Prepares an agent in a new pod. If a pod of that name exists, the new pod gets the name's address only when
        it is published."""
        taken = any(a.pod.name == name for a in job.agents.values())
        agent = job.prepare(self.network.pod(name, publish=not taken))
        job.await_ready(agent)
        return agent

    def link(self, pod, up):
        if not hasattr(pod, "network"):
            raise Skipped("no cable to pull on loopback")
        pod.link(up)

    def reset(self, pod, port):
        if not hasattr(pod, "network"):
            raise Skipped("no connection can be reset on loopback")
        try:
            pod.reset(port)
        except netns.NoNamespaces as why:
            raise Skipped(str(why)) from why

    def new_job(self, nnodes, relays=False, **how):
        folder = os.path.join(self.folder, "job%d" % len(self.jobs))
        job = PodJob(self.torch, self.store.endpoint, folder, "training", nnodes, **how)
        job.relays = relays
        self.jobs.append(job)
        self.expected[job] = []
        return job

    def await_event(self, words):
        """Until rdzvd's log has a line of this event with these fields, in this order."""
        if not isinstance(self.store, Rdzvd):
            raise Skipped("torch's store does not say when that moment is")
        self.store.wait_log("event=" + words.replace(" ", " .*", 1), timeout=FAULT_SECONDS)

    def train(self, nnodes, count, clocks=(), names=None, **how):
        """A new job of that many agents, node-1 and so on; returns when it has trained a while.
        `clocks` says by how many seconds some are ahead."""
        job = self.new_job(nnodes, **how)
        clocks, names = dict(clocks), names or ["node-%d" % (i + 1) for i in range(count)]
        agents = [job.prepare(self.network.pod(name), clocks.get(name, 0)) for name in names]
        job.await_ready(*agents)
        begin = time.time()
        job.go(*agents)
        world = job.wait_world(count, begin)
        self.expected[job].append(count)
        self.pass_steps(job)
        self.tell("a world of %d trains, after %.1f s" % (count, world.began - begin))
        return job

    def formed(self, job, size, old_may_go_on=False):
        if super().formed(job, size, old_may_go_on):
            self.expected[job].append(size)

    def finish(self, job, size):
        job.extend(FAULT_SECONDS)
        begin = time.time()
        job.finish(size)
        self.tell("all agents ended with 0, after %.1f s" % (time.time() - begin))
        job.check_worlds(self.expected[job])
        if isinstance(self.store, Rdzvd):
            self.store.wait_log("event=run_ended ")  # a job that is done closes its run

    def prepare_again(self, job):
        """A job of the same id in the same pods, and its agents."""
        again = self.new_job("2:2")
        agents = [again.prepare(agent.pod) for agent in job.agents.values()]
        again.await_ready(*agents)
        return again, agents

    def again(self, again, agents):
        """Submits it: to rdzvd when it has forgotten the first job, which takes --closed-run-ttl;
        torch's store never does."""
        if isinstance(self.store, Rdzvd):
            self.store.wait_log("event=run_forgotten .*run=training")
        self.submit_again(again, agents)

    def submit_again(self, again, agents):
        self.fault(again)
        again.go(*agents)
        self.formed(again, 2)
        self.finish(again, 2)

    # -------------------------------------------------------- for the runner

    def start_store(self):
        pod = self.network.pod("store")
        if self.kind == "torch":
            return PodPeerStore(pod, self.torch)
        return PodRdzvd(pod, *CASE_ARGS.get(self.name, ()), *RDZVD_ARGS.get((self.torch.name, self.name), ()),
                        *self.options.rdzvd_args)

    def work(self):
        """Runs the case; raises what went wrong."""
        self.network = (netns.Loopback if self.options.loopback else netns.Network)(self.folder)
        try:
            self.store = self.start_store()
            with self.store:
                try:
                    case[self.name][1](self)
                finally:
                    os.kill(self.store.pid, signal.SIGCONT)
                    for job in self.jobs:
                        job.end()
                    with open(os.path.join(self.folder, "store.log"), "w") as f:
                        f.write(self.store.log() + "\n")
                if isinstance(self.store, Rdzvd):
                    code = self.store.stop()
                    if code != 0:
                        raise JobFailed("rdzvd ended with %d on SIGTERM" % code)
        finally:
            self.network.close()

    def again_command(self):
        words = [sys.executable, os.path.abspath(__file__), "--case", self.name, "--torch",
                 self.torch.name, "--store", self.kind, "--seed", str(self.seed)]
        if self.options.loopback:
            words.append("--loopback")
        words += ["--rdzvd_arg=" + a for a in self.options.rdzvd_args]
        return "RDZVD=%s %s" % (rdzvd_binary(), " ".join(words))

    def torchs_own(self):
        """The word for torch's own failure in this case, if the logs show it, or None."""
        word = TORCHS_OWN.get((self.torch.name, self.name))
        return word if word and any(word in job.logs() for job in self.jobs) else None


def run(options, torch, kind, name, seed):
    """Runs a case; returns its line of the results, or None after an interrupt."""
    if STOP.is_set():
        return None
    one = Run(options, torch, kind, name, seed)
    result = {"case": name, "torch": torch.name, "store": kind, "seed": seed, "ok": False,
              "seconds": one.seconds, "starts": one.starts}
    try:
        one.work()
        result.update(ok=True, word="ok")
        one.passed()
        if not options.logs:
            shutil.rmtree(one.folder, ignore_errors=True)
    except Skipped as why:
        result.update(word="skipped")
        out("skipped %s: %s" % (one.label, why))
    except Exception as error:  # reported, counted, and the next one runs
        result.update(word=getattr(error, "word", "wrong"), text=str(error))
        if STOP.is_set():
            return None
        if one.torchs_own():
            result.update(word=one.torchs_own() + " of torch's own")
        if kind == "torch" or one.torchs_own():
            out("%s %s: %s: %s\nlogs: %s" % (
                "recorded" if kind == "torch" else "skipped", one.label, result["word"],
                str(error).splitlines()[0], one.folder))
        else:
            out(one.report(error))
    return result


# ------------------------------------------------------------ the table


def cell(results):
    """What one release did with one case: its times if it always held, else how often and what.
    The median without a new agent's own start, + the median of that, (fastest–slowest of the
    whole) and how many runs."""
    if not results:
        return ""
    held = [r for r in results if r["ok"]]
    times = [s for r in held for s in r["seconds"]]
    pairs = [(s, start) for r in held for s, start in zip(r["seconds"], r.get("starts", ()))
             if start is not None]
    text = ""
    if times:
        text = "%.1f s (%.0f–%.0f)" % (statistics.median(times), min(times), max(times))
    elif held:
        text = "ok"
    if times and len(pairs) == len(times):
        text = "%.1f + %.1f s (%.0f–%.0f)" % (
            statistics.median(s - start for s, start in pairs),
            statistics.median(start for _, start in pairs), min(times), max(times))
    if len(held) == len(results):
        return "%s %d×" % (text, len(held))
    words = collections.Counter(r["word"] for r in results if not r["ok"])
    bad = ", ".join("%s %d×" % (w, n) for w, n in words.most_common())
    return bad if not held else "%s; %s %d×" % (bad, text, len(held))


def table(results, names, cases):
    """Two rows per case: with rdzvd, with torch's own store."""
    yield "| fault | store | %s |" % " | ".join("torch " + n for n in names)
    yield "|---|---|%s" % ("---|" * len(names))
    for name in cases:
        title = case[name][0]
        for kind in ("rdzvd", "torch"):
            cells = [cell([r for r in results if r["case"] == name and r["store"] == kind
                           and r["torch"] == n and r["word"] != "skipped"]) for n in names]
            if any(cells):
                yield "| %s | %s | %s |" % (
                    title if kind == "rdzvd" else "", "rdzvd" if kind == "rdzvd" else "torch's own",
                    " | ".join(cells))


# ------------------------------------------------------------ which runs


def read_results(path):
    if not path or not os.path.exists(path):
        return []
    with open(path) as f:
        return [json.loads(line) for line in f]


def chosen_cells(options):
    chosen = torches.choose(full_names(torches.ALL if options.all else options.torch))
    return [(torch, kind, name) for name in options.case or case for torch in chosen
            for kind in options.store or ("rdzvd",)]


def missing_runs(cells, done, wanted, seed):
    """The runs that `done` lacks for `wanted` runs of each cell: (runs that are there, cell, seed)."""
    missing = []
    for torch, kind, name in cells:
        seeds = [r["seed"] for r in done
                 if (r["torch"], r["store"], r["case"]) == (torch.name, kind, name)]
        first = max(seeds + [seed - 1]) + 1
        missing += [(len(seeds) + i, (torch, kind, name), first + i)
                    for i in range(wanted - len(seeds))]
    return missing


def planned_runs(options):
    """(torch, store, case, seed) of each run, in their order."""
    cells = chosen_cells(options)
    if not options.fill:
        return [cell + (options.seed + i,) for i in range(options.repeat) for cell in cells]
    missing = missing_runs(cells, read_results(options.results), options.fill, options.seed)
    missing.sort(key=lambda one: one[0])  # stable: the cells stay in their order
    return [cell + (seed,) for _, cell, seed in missing]


# ------------------------------------------------------------ arguments


def full_names(starts):
    names = []
    for start in starts or torches.DEFAULT:
        found = [n for n in torches.ALL if n == start or n.startswith(start + ".")]
        if not found:
            sys.exit("no torch %r: there are %s" % (start, ", ".join(torches.ALL)))
        names += found
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=tuple(case), metavar="NAME")
    parser.add_argument("--torch", action="append", metavar="NAME")
    parser.add_argument("--all", action="store_true", help="every release, not the usual two")
    parser.add_argument("--store", action="append", choices=("rdzvd", "torch"))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--fill", type=int, metavar="N",
                        help="only what --results lacks of N runs a cell")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--logs", help="a folder for all logs, kept")
    parser.add_argument("--results", help="a file that outcomes are added to")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--list", action="store_true", help="the cases")
    parser.add_argument("--tell", action="store_true", help="say what goes on")
    parser.add_argument("--loopback", action="store_true", help="127.0.0.x, no namespaces")
    parser.add_argument("--rdzvd_arg", action="append", dest="rdzvd_args", default=[],
                        metavar="--FLAG=VALUE", help="another flag for rdzvd")
    options = parser.parse_args()

    if options.list:
        case.print()
        return
    if options.fill and not options.results:
        parser.error("--fill: of which --results?")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: STOP.set())
    if not options.loopback and options.repeat:
        folder = tempfile.mkdtemp(prefix="rdzv-repair-probe-")
        why = netns.refused(folder)
        shutil.rmtree(folder)
        if why:
            out("no network namespaces here (%s): the agents are at 127.0.0.x instead" % why)
            options.loopback = True

    runs = planned_runs(options)
    results = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for future in concurrent.futures.as_completed(
                [pool.submit(run, options, *r) for r in runs]):
            result = future.result()
            if result is None:
                continue
            results.append(result)
            if options.results:
                with open(options.results, "a") as f:
                    f.write(json.dumps(result) + "\n")

    if options.table:
        shown = read_results(options.results) or results
        print("\n".join(table(shown, [n for n in torches.ALL
                                      if any(r["torch"] == n for r in shown)],
                              options.case or case)))
    ours = [r for r in results if r["store"] == "rdzvd"]
    counts = collections.Counter(
        "passed" if r["ok"] else
        "skipped" if r["word"] == "skipped" or "torch's own" in r["word"] else "failed"
        for r in ours)
    if ours or not results:
        print("%d passed, %d failed, %d skipped" % (
            counts["passed"], counts["failed"], counts["skipped"]))
    sys.exit(1 if counts["failed"] or len(results) < len(runs) else 0)


if __name__ == "__main__":
    main()
