"""The agents of an elastic job of real torchrun meet together and end together. No meeting uses a restart.

    together.py [--case NAME]... [--torch NAME]... [--all] [--usual] [--collective ring|gloo] [--way WAY] [--repeat N]
                [--joins N] [--nodes N] [--monitor-interval S] [--max-restarts N] [--seed N] [--jobs N]
                [--rdzvd_arg=--FLAG=VALUE]... [--logs DIR] [--results FILE] [--brief] [--limits] [--list]
                [--tell]

--case and --torch may be repeated. Without them, the usual two releases run all cases except the long ones. --usual
runs the short forms, which every run of all tests has. The daemon under test is $RDZVD, or the one in build/.

If a node joins or is lost, all other nodes end their workers and meet. If one agent ends its workers before
the other agents look, the workers of the others fail in their collective, and each of these agents uses one of its
--max-restarts. Torch's default is 0, as here, so one such agent ends the whole job. The workers (peers.py) are in a
collective all the time. If a neighbour ends, a worker of `ring` fails within a millisecond, a worker of `gloo` when
torch's collective fails, and a worker of `hang` waits for ever, as with NCCL.

Each run prints one line: nodes that joined and that were lost, restarts used, agents that ended, workers that failed
before their agent looked, milliseconds between the first and the last SIGTERM of a meeting, seconds until all
ranks trained again, and seconds from the first SIGTERM until then. The n-th repeat has seed + n. The exit status is 1 if
one run is not as expected.
"""

import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import torches
from job import STOP, Agent, JobFailed, out
from netns import LoopbackPod
from pods import Cases, PodJob, PodRun, rdzvd_binary, utc
from ways import WAYS


MEETING_S = 90  # a meeting that takes longer has failed
RUN_ID = "training"


class Together(Agent):
    """An agent whose log says whether a worker failed, and when the agent saw a node that waits."""

    def see(self, line):
        super().see(line)
        if "Detected" in line and "new nodes from" in line:
            self.job.event({"event": "detected", "by": self.name, "at": time.time()})
        elif "Local worker group finished" in line:
            self.job.event({"event": "barrier", "by": self.name, "at": time.time()})
        elif re.search(r"failed \(exitcode: ", line):
            self.job.event({"event": "counted", "by": self.name, "at": time.time()})


class TogetherJob(PodJob):
    forks_agents = True

    def __init__(self, run, nnodes, collective, backend="c10d", max_restarts=None, workers=1):
        options, folder = run.options, os.path.join(run.folder, "job%d" % len(run.jobs))
        super().__init__(run.torch, None, folder, RUN_ID, nnodes, workers=workers,
                         max_restarts=options.max_restarts if max_restarts is None else max_restarts,
                         last_call_s=None if backend == "c10d" else 2,  # rdzvd ends that of c10d
                         shares=backend == "c10d" and run.torch.name != "2.6")
        self.run, self.backend, self.collective = run, backend, collective
        self.conf = run.store.conf()
        self.usual_interval = 5 if self.torch.is_1x else 0.1
        self.may_restart = set()  # agents whose workers the case makes fail
        self.meeting = os.path.join(folder, "peers")
        os.mkdir(self.meeting)

    @property
    def own_word(self):
        return "--folder=" + self.meeting

    def program(self):
        return [os.path.join(torches.HERE, "peers.py"), self.own_word, "--collective=" + self.collective]

    def start_node(self, node, interval=None, workers=None, may_end=False):
        """An agent of that node; a node may have several, one after the other. `may_end`: with any exit code."""
        name = "%s.%d" % (node, sum(a.node == node for a in self.agents.values()))
        more = [] if self.torch.is_1x else ["--local_addr=127.0.0.1"]
        interval = interval or self.run.options.monitor_interval
        if interval:
            more.append("--monitor_interval=%s" % interval)
        interval = float(interval or self.usual_interval)
        argv = self.torchrun(name, self.run.store.endpoint(node), workers or self.workers_each, *more)
        agent = Together(self, name, argv, self.environment(LOGLEVEL="INFO", RDZV_TEST_NODE=node,
                                                            TMPDIR=tempfile.gettempdir()))
        agent.node, agent.pod, agent.workers = node, LoopbackPod(1), workers or self.workers_each
        agent.killed, agent.interval = may_end, interval
        self.agents[name] = agent
        return agent

    def live(self):
        return [a for a in list(self.agents.values()) if a.code is None and not a.killed]

    def ranks(self):
        return sum(a.workers for a in self.live())

    def exit_workers(self, node, code):
        """The workers of that node end with this code."""
        path = os.path.join(self.meeting, "exit.%s" % node)
        with open(path + ".new", "w") as f:
            f.write(str(code))
        os.rename(path + ".new", path)

    def let_end(self):
        with open(os.path.join(self.meeting, "over"), "w"):
            pass

    def all_of(self, event, since=0, by=None):
        with self._grew:
            return [e for e in self.events[since:] if e["event"] == event and by in (None, e["by"])]

    def wait(self, condition, what):
        """Raises also if an agent counts a failed worker that the case did not make fail."""
        def checked():
            if condition():
                return True
            counted = [e["by"] for e in self.all_of("counted")
                       if e["by"] not in self.may_restart and not self.agents[e["by"]].killed]
            if counted:
                raise JobFailed("workers of %s failed while waiting for %s" % (", ".join(counted), what), "restart")
            return False
        super().wait(checked, what)

    def restarts_used(self):
        """By agent: the highest restart count that its workers got."""
        used = {}
        for e in self.all_of("start"):
            used[e["by"]] = max(used.get(e["by"], 0), int(e["restart"]))
        return used


# ------------------------------------------------------------ one run


COUNTS = ("joins", "losses", "restarts", "ended", "failed")


def costs(counts, spreads, seconds, stills):
    """The text of what meetings cost."""
    text = "%d joins, %d losses; restarts used %d, agents ended %d, workers failed %d" % tuple(
        counts[n] for n in COUNTS)
    if spreads:
        text += "; SIGTERMs within %.0f ms (at most %.0f)" % (statistics.median(spreads), max(spreads))
    if seconds:
        text += "; trained again after %.1f s (at most %.1f)" % (statistics.median(seconds), max(seconds))
    if stills:
        text += ", no training for %.1f s (at most %.1f)" % (statistics.median(stills), max(stills))
    return text


class Run(PodRun):
    """One case, once."""

    def __init__(self, options, torch, name, seed):
        super().__init__(options, "together", torch, name, seed, options.collective)
        self.wall = time.time()
        self.counts = collections.Counter()
        self.spreads, self.stills, self.figures, self.slow = [], [], [], []
        self.stop_nodes, self.threads = threading.Event(), []

    # -------------------------------------------------------- for the cases

    def open(self, *flags, way=None):
        self.store = WAYS[way or self.options.way](self, *flags)

    def new_job(self, nnodes, collective, **how):
        job = TogetherJob(self, nnodes, collective, **how)
        self.jobs.append(job)
        return job

    def train(self, job, nodes):
        """Starts an agent for each node; a node may be a pair with arguments of start_node(). Returns when all ranks
        train."""
        begin = time.time()
        for node in nodes:
            node, how = node if isinstance(node, tuple) else (node, {})
            job.start_node(node, **how)
        self.formed(job, begin)

    def formed(self, job, since, ranks=None):
        """Waits for a world of all agents that live, or of so many ranks. Seconds until all its ranks trained."""
        job.extend(MEETING_S + 2 * self.look_s(job))
        known = {w.name for w in job.worlds() if w.first < since}
        world = job.wait_world(ranks or job.ranks(), since, known, of=None if ranks else {a.name for a in job.live()})
        return max(world.began, min(world.steps.values())) - since

    @staticmethod
    def look_s(job):
        """The longest time between two looks of an agent."""
        return max([1] + [a.interval for a in job.live()])

    def meet(self, job, what, count, change):
        """Makes all other nodes meet by `change`, and counts the cost."""
        mark, before = job.mark(), {a.name for a in job.live()}
        self.counts[count] += 1
        most = self.limit_s(job)
        begin = time.time()
        change()
        formed = None
        try:
            formed = self.formed(job, begin)
            self.seconds.append(formed)
        finally:
            self.judge(job, mark, before, what, formed and begin + formed)
        if self.seconds[-1] > most:
            self.slow.append("%s: trained again after %.1f s, but the limit is %.0f s" % (
                what, self.seconds[-1], most))

    def limit_s(self, job):
        """Seconds from a change until all ranks train again. rdzvd may need 40 s to learn an interval that is not
        the default of the release; the old workers train meanwhile."""
        unusual = any(a.interval != job.usual_interval for a in job.live())
        return 10 + 2 * self.look_s(job) + job.ranks() / 4 + (40 if unusual else 0)

    def judge(self, job, mark, before, what, formed):
        """`formed`: when all ranks trained again, or None."""
        left = {a.name for a in job.live()} & before
        signals = {}
        for e in job.all_of("sigterm", mark) + job.all_of("detected", mark):
            if e["by"] in left:
                at = float(e["at"])
                if e["event"] == "sigterm" or e["by"] not in signals:
                    signals[e["by"]] = min(at, signals.get(e["by"], at))
        counted = [e["by"] for e in job.all_of("counted", mark)
                   if not job.agents[e["by"]].killed and e["by"] not in job.may_restart]
        self.counts["failed"] += len(counted)
        if formed and signals:
            self.stills.append(formed - min(signals.values()))
        if len(signals) > 1:
            self.spreads.append(1000 * (max(signals.values()) - min(signals.values())))
        self.tell("%s: %d of %d agents ended their workers%s; %d workers failed%s; trained again after %s" % (
            what, len(signals), len(left), " within %.0f ms" % self.spreads[-1] if len(signals) > 1 else "",
            len(counted), " (%s)" % ", ".join(counted) if counted else "",
            "%.1f s" % self.seconds[-1] if formed else "-"))

    def join(self, job, node, **how):
        self.meet(job, "%s joined" % node, "joins", lambda: job.start_node(node, **how))

    def lose(self, job, agent):
        self.meet(job, "%s was lost" % agent.name, "losses", lambda: self.kill(job, agent))

    def kill(self, job, agent):
        """The agent, its workers and its relay, as if their machine were gone."""
        self.store.lose(agent.node)
        job.kill_pod(agent)

    def finish(self, job):
        """All agents end with 0."""
        job.extend(MEETING_S)
        mark = job.mark()
        job.let_end()
        self.await_ends(job)
        if job.all_of("sigterm", mark):
            raise JobFailed("workers got SIGTERM while the job ended: %s" % job.all_of("sigterm", mark))

    @staticmethod
    def await_ends(job):
        job.wait(lambda: not job.live(), "the end of all agents")
        bad = ["%s: %s" % (a.name, a.code) for a in job.agents.values() if not a.killed and a.code != 0]
        if bad:
            raise JobFailed("agents that did not end with 0: " + ", ".join(bad))

    def logged(self, event):
        """When rdzvd logged this event for the last time; 0: never."""
        times = re.findall(r"^time=(\S+) .*event=%s " % event, self.store.log(), re.M)
        return max(utc(t if isinstance(t, str) else t[0]) for t in times) if times else 0

    def keep_node(self, job, node):
        """Starts the node's agent again after each error, as a kubelet does."""
        def keep():
            backoff = 0.5
            while not self.stop_nodes.is_set():
                code = job.start_node(node, may_end=True).process.wait()
                if code == 0 or self.stop_nodes.wait(backoff):
                    return
                backoff = min(2 * backoff, 10)
        self.threads.append(threading.Thread(target=keep))
        self.threads[-1].start()

    # -------------------------------------------------------- for the runner

    def work(self):
        try:
            case[self.name][1](self)
        except JobFailed:
            self.await_consequences()
            raise
        finally:
            self.stop_nodes.set()
            for job in self.jobs:
                self.count_ends(job)
                job.end()
            for thread in self.threads:
                thread.join()
            for job in self.jobs:  # an agent may have begun meanwhile
                job.end()
            if self.store:
                with open(os.path.join(self.folder, "store.log"), "w", encoding="utf-8") as f:
                    f.write(self.store.log() + "\n")
            fault = self.store and self.store.close()
        if fault:
            raise JobFailed(fault)
        if self.counts["restarts"] or self.counts["failed"] or self.counts["ended"]:
            raise JobFailed("restarts were used, workers failed or agents ended")
        if self.options.limits and self.slow:
            raise JobFailed("; ".join(self.slow))

    def await_consequences(self):
        """Gives agents without restarts whose workers have failed 5 s to end. (1.13: they are in the exit barrier.)"""
        end = time.monotonic() + 5
        for job in self.jobs:
            for name in {e["by"] for e in job.all_of("counted")}:
                try:
                    job.agents[name].process.wait(max(0, end - time.monotonic()))
                except subprocess.TimeoutExpired:
                    pass

    def count_ends(self, job):
        used = job.restarts_used()
        self.counts["restarts"] += sum(n for by, n in used.items() if by not in job.may_restart)
        self.counts["ended"] += sum(a.code not in (None, 0) and not a.killed for a in list(job.agents.values()))

    def line(self):
        cost = costs(self.counts, self.spreads, self.seconds, self.stills)
        return "; ".join([cost] + self.figures) + " (%.0f s in all)" % (time.monotonic() - self.begin)

    def again_command(self):
        options = self.options
        words = [sys.executable, os.path.abspath(__file__), "--case", self.name, "--torch", self.torch.name, "--seed",
                 str(self.seed), "--collective", options.collective, "--joins", str(options.joins), "--nodes",
                 str(options.nodes), "--uneven", str(options.uneven), "--way", options.way]
        if options.monitor_interval:
            words += ["--monitor-interval", options.monitor_interval]
        words += ["--rdzvd_arg=" + a for a in options.rdzvd_args]
        return "RDZVD=%s %s" % (rdzvd_binary(), " ".join(words))

    def report(self, error):
        error.args = ("%s: %s" % (self.line(), error),)
        if not self.options.brief:
            return super().report(error)
        return "failed  %s: %s\nagain: %s\nlogs: %s" % (self.label, error, self.again_command(), self.folder)


# ------------------------------------------------------------ cases

case = Cases()


def names(first, last):
    return ["node-%d" % i for i in range(first, last + 1)]


@case("joins", "nodes join one by one, and all others are in a collective all the time")
def joins(run):
    grow(run)


def grow(run, first=3, count=None, way=None, agents=({},), **how):
    """`how`: of the job; `agents`: how each agent is started, in turn."""
    run.open("--expect=%d" % first, way=way)
    job = run.new_job("1:80", run.options.collective, **how)
    turns = itertools.cycle(agents)
    run.train(job, [(node, next(turns)) for node in names(1, first)])
    for node in names(first + 1, first + (count or run.options.joins)):
        run.pass_seconds(run.random.uniform(0, run.look_s(job)))
        run.join(job, node, **next(turns))
    run.finish(job)


INTERVALS = {"interval-0.1": [0.1], "interval-5": [5], "interval-30": [30], "intervals": [0.1, 5, 1]}

for name, seconds in INTERVALS.items():
    @case(name, "joins, and agents look each %s s" % " or ".join(map(str, seconds)))
    def interval(run, seconds=seconds):
        grow(run, agents=[{"interval": s} for s in seconds])


@case("workers-8", "a second node joins, with 8 workers each")
def workers_8(run):
    grow(run, first=1, count=1, workers=8)


@case("workers", "nodes with 1 and with 8 workers join")
def workers(run):
    grow(run, first=2, agents=[{"workers": 8}, {"workers": 1}])


@case("nodes-16", "two nodes join 14")
def nodes_16(run):
    grow(run, first=14, count=2)


@case("nodes-64", "two nodes join 62")
def nodes_64(run):
    grow(run, first=62, count=2)


@case("relays", "joins, and every second agent has a relay")
def relays(run):
    grow(run, way="relays")


@case("relays-tls", "joins, and each agent has a relay, which speaks TLS with rdzvd")
def relays_tls(run):
    grow(run, way="relays-tls")


@case("relays-replicas", "joins, and each agent has a relay, which knows two replicas")
def relays_replicas(run):
    grow(run, way="relays-replicas")


@case("relays-losses", "losses, and every second agent has a relay")
def relays_losses(run):
    lose_and_replace(run, 4, way="relays")


@case("etcd-v2", "joins over etcd-v2")
def etcd_v2(run):
    grow(run, backend="etcd-v2")


@case("etcd-v2-tls", "joins over etcd-v2 and TLS")
def etcd_v2_tls(run):
    grow(run, way="tls", backend="etcd-v2")


def lose_and_replace(run, first, way=None, **how):
    """Nodes are lost one by one. Each is replaced when the others train again."""
    run.open("--expect=%d" % first, "--regroup-wait=2s", way=way)
    job = run.new_job("1:64", "hang", **how)
    run.train(job, names(1, first))
    for node in names(first + 1, first + run.options.joins):
        run.pass_seconds(run.random.uniform(0, run.look_s(job)))
        run.lose(job, run.random.choice(job.live()))
        run.pass_seconds(run.random.uniform(0, run.look_s(job)))
        run.join(job, node)
    run.finish(job)


@case("losses", "nodes are lost and replaced, and the workers of the others wait for ever for the lost ones")
def losses(run):
    lose_and_replace(run, 4)


@case("fails", "a worker fails without a restart left, and all agents are started again (N:N)")
def fails(run):
    """A failed agent of torch 1.13 waits in the exit barrier for up to 300 s and sends the same requests as a finished
    agent, so no store can tell them apart. With 1.13 the workers are in a ring: all of them fail, so no agent waits."""
    count = run.options.nodes
    run.open()
    job = run.new_job("%d:%d" % (count, count), "ring" if run.torch.is_1x else "hang", max_restarts=0)
    for node in names(1, count):
        run.keep_node(job, node)
    run.formed(job, run.wall, count)
    first = list(job.agents.values())
    run.pass_seconds(run.random.uniform(0, run.look_s(job)))
    begin = time.time()
    job.exit_workers(run.random.choice(first).node, 1)
    job.extend(40)
    job.wait(lambda: all(a.code is not None for a in first), "the end of all agents after one failed")
    ended = time.time()
    closed = run.logged("run_ended")
    left = max(run.logged("node_left"), closed)
    run.figures.append("closed %.1f s after the failure; the last agent left %.1f s and the last process ended %.1f s "
                       "after that" % (closed - begin, left - closed, ended - closed))
    again = run.formed(job, begin, count)
    run.figures.append("all trained again %.1f s after the failure" % again)
    job.let_end()
    job.wait(lambda: all(a.code is not None for a in job.agents.values()), "the end of all agents")
    if left - closed > 2 or again > 15 + run.look_s(job):
        run.slow.append("agents have not left within 2 s, or the job does not train within 15 s")


@case("uneven", "the workers of one node end well, long before those of the others")
def uneven(run):
    count = 3
    run.open()
    job = run.new_job("%d:%d" % (count, count), "alone")
    run.train(job, names(1, count))
    first = run.random.choice(names(1, count))
    job.exit_workers(first, 0)
    run.tell("the workers of %s end" % first)
    run.pass_seconds(run.options.uneven)
    if len(job.live()) != count:
        raise JobFailed("agents ended while others trained")
    run.finish(job)


@case("barrier", "one node has ended well and waits in torch's exit barrier, and the other node is lost")
def barrier(run):
    run.open()
    job = run.new_job("2:2", "alone")
    run.train(job, names(1, 2))
    agents = job.live()
    run.random.shuffle(agents)
    ends, lost = agents
    job.exit_workers(ends.node, 0)
    job.extend(30)
    job.wait(lambda: job.all_of("barrier", by=ends.name), "the exit barrier")
    run.pass_seconds(1)
    begin = time.time()
    run.counts["losses"] += 1
    run.kill(job, lost)
    job.extend(30)
    job.wait(lambda: ends.code is not None, "the end of an agent that has ended well")
    run.figures.append("the agent ended %.1f s after the other node was lost" % (time.time() - begin))
    if time.time() - begin > 5:
        run.slow.append("it took the agent more than 5 s")


@case("restart", "a worker fails, and restarts are left: its agent uses one, the others none")
def restart(run):
    run.open("--expect=3")
    job = run.new_job("1:64", "hang", max_restarts=3)
    run.train(job, names(1, 3))
    run.pass_seconds(run.random.uniform(0, run.look_s(job)))
    agent = run.random.choice(job.live())
    job.may_restart.add(agent.name)
    run.meet(job, "a worker of %s failed" % agent.name, "failures", lambda: job.exit_workers(agent.node, 1))
    if job.restarts_used()[agent.name] != 1:
        raise JobFailed("the agent of the worker that failed has used %d restarts" % job.restarts_used()[agent.name])
    run.finish(job)


# ------------------------------------------------------------ running them


# The short forms, which every run of all tests has: release, case, options.
USUAL = (("1.13.1", "joins", {"joins": 3}), ("2.13.0", "interval-5", {"joins": 1}), ("2.13.0", "joins", {"joins": 3}),
         ("2.13.0", "joins", {"joins": 1, "collective": "gloo"}), ("2.13.0", "losses", {"joins": 1}),
         ("1.13.1", "fails", {}), ("2.13.0", "fails", {}), ("1.13.1", "barrier", {}), ("2.13.0", "barrier", {}),
         ("2.13.0", "uneven", {"uneven": 4}), ("2.13.0", "restart", {}),
         ("2.13.0", "workers", {"joins": 1}), ("2.13.0", "relays", {"joins": 1}), ("2.13.0", "etcd-v2", {"joins": 1}))

# Large or slow: only if --case names it, or with --all.
LONG = ("interval-30", "nodes-64")


def planned_runs(options):
    """The release, case, seed and options of each run."""
    if options.usual:
        return [(torches.TORCHES[torch], name, options.seed, argparse.Namespace(**{**vars(options), **own}))
                for torch, name, own in USUAL if torches.choose([torch])]
    cases = options.case or [name for name in case if options.all or name not in LONG]
    return [(torch, name, options.seed + i, options) for i in range(options.repeat) for name in cases
            for torch in torches.choose(options.torch, options.all)]


def run(torch, name, seed, options):
    """One run. Returns its line of the results."""
    if STOP.is_set():
        return None
    one = Run(options, torch, name, seed)
    result = {"case": name, "torch": torch.name, "seed": seed, "ok": False}
    try:
        one.work()
        result.update(ok=True)
        out("passed  %s: %s" % (one.label, one.line()))
        if not options.logs:
            shutil.rmtree(one.folder, ignore_errors=True)
    except Exception as error:  # reported, counted, and the next one runs
        result.update(word=str(error).splitlines()[0])
        out(one.report(error))
    result.update(one.counts, spreads=one.spreads, seconds=one.seconds, stills=one.stills, figures=one.figures)
    return result


def summary(results):
    """A line for each case and release."""
    for name, torch in sorted({(r["case"], r["torch"]) for r in results}):
        of = [r for r in results if (r["case"], r["torch"]) == (name, torch)]
        total = collections.Counter()
        for r in of:
            total.update({k: r.get(k, 0) for k in COUNTS})
        yield "%-15s torch %-6s %d of %d runs as expected: %s" % (
            name, torch, sum(r["ok"] for r in of), len(of),
            costs(total, *([x for r in of for x in r[n]] for n in ("spreads", "seconds", "stills"))))


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=tuple(case), metavar="NAME")
    parser.add_argument("--torch", action="append", help="%s; repeatable" % ", ".join(torches.ALL))
    parser.add_argument("--all", action="store_true", help="every release, not the usual two")
    parser.add_argument("--usual", action="store_true", help="the short forms of every run of all tests")
    parser.add_argument("--way", choices=tuple(WAYS), default="direct", help="from agents to rdzvd")
    parser.add_argument("--collective", choices=("ring", "gloo"), default="ring")
    parser.add_argument("--limits", action="store_true", help="a run that takes too long fails: on quiet cores only")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--joins", type=int, default=3, help="how many nodes join in one run")
    parser.add_argument("--nodes", type=int, default=4, help="of `fails`")
    parser.add_argument("--uneven", type=float, default=20, help="seconds between the ends of `uneven`")
    parser.add_argument("--monitor-interval", help="of all agents; default: that of the release")
    parser.add_argument("--max-restarts", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="how many runs at a time")
    parser.add_argument("--rdzvd_arg", action="append", dest="rdzvd_args", default=[], metavar="--FLAG=VALUE")
    parser.add_argument("--logs", help="a folder for all logs, kept")
    parser.add_argument("--results", help="a file that outcomes are added to")
    parser.add_argument("--brief", action="store_true", help="no logs in the report of a failure")
    parser.add_argument("--list", action="store_true", help="the cases")
    parser.add_argument("--tell", action="store_true", help="say what goes on")
    return parser.parse_args()


def main():
    options = read_arguments()
    if options.list:
        case.print()
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: STOP.set())
    runs = planned_runs(options)
    results = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(run, *r) for r in runs]):
            if future.result() is None:
                continue
            results.append(future.result())
            if options.results:
                with open(options.results, "a", encoding="utf-8") as f:
                    f.write(json.dumps(results[-1]) + "\n")
    for line in summary(results):
        print(line)
    passed = sum(r["ok"] for r in results)
    print("%d passed, %d failed" % (passed, len(runs) - passed))
    sys.exit(0 if passed == len(runs) else 1)


if __name__ == "__main__":
    main()
