"""An elastic job whose agents live in pods (netns.py) and meet, with torch's default settings, at a
store in a pod of its own: rdzvd, or torch's own server. Knows the worlds that its workers form.

Python's standard library only; the agents run under the torch release that is asked for.
"""

import contextlib
import datetime
import os
import random
import re
import signal
import sys
import tempfile
import time
import traceback

import torches
from job import STOP, Agent, Job, JobFailed, out
from run_store_api import PeerStore

sys.path.insert(0, os.path.join(torches.ROOT, "tests", "support"))
from servers import Rdzvd, free_port, rdzvd_binary  # noqa: E402,F401

PORT = 29400
FAULT_SECONDS = 240  # torch's own waits end after 60 s, containers wait up to 80: more hangs


def utc(text):
    """Seconds since 1970 of a time in rdzvd's log."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class PodRdzvd(Rdzvd):
    def __init__(self, pod, *args):
        own = hasattr(pod, "network")  # a port that nobody else can have taken
        super().__init__(*args, listen=("0.0.0.0:%d" % (PORT if own else 0),),
                         wrapper=pod.enter(own_pids=False))
        self.endpoint = "%s:%d" % (pod.name, self.port)


class PodDurable:
    """rdzvd with a data directory, which can be killed and started again at the same endpoint."""

    def __init__(self, pod, folder, *args):
        self.pod, self.args, self.logs = pod, ["--data-dir=" + os.path.join(folder, "data"), *args], []
        self.port = PORT if hasattr(pod, "network") else free_port()
        self.endpoint = "%s:%d" % (pod.name, self.port)
        self.daemon = None

    def start(self):
        self.daemon = Rdzvd(*self.args, listen=("0.0.0.0:%d" % self.port,),
                            wrapper=self.pod.enter(own_pids=False))

    def kill(self):
        code = self.daemon.stop(signal.SIGKILL)
        if code != -signal.SIGKILL:
            raise JobFailed("rdzvd ended with %d of itself" % code)
        self.logs.append(self.daemon.log())
        self.daemon = None

    @property
    def pid(self):
        return self.daemon.pid

    def log(self):
        return "\n".join(self.logs + ([self.daemon.log()] if self.daemon else []))

    def stop(self):
        return self.daemon.stop()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.daemon is not None:
            self.daemon.stop()


class PodRelay(Rdzvd):
    """A relay for the processes of a pod; it ends with the pod's agent."""

    def __init__(self, pod, upstream):
        own = hasattr(pod, "network")
        host = "127.0.0.1" if own else pod.address
        super().__init__("--upstream=" + upstream, listen=("%s:%d" % (host, PORT if own else 0),),
                         wrapper=pod.enter(own_pids=False))
        self.endpoint = "%s:%d" % ("localhost" if own else host, self.port)


class PodPeerStore(PeerStore):
    def __init__(self, pod, torch):
        own = hasattr(pod, "network")
        super().__init__(torch, pod.name, str(PORT if own else 0),
                         wrapper=pod.enter(own_pids=False))
        self.endpoint = "%s:%d" % (pod.name, self.port)

    @property
    def pid(self):
        return self.process.pid


class World:
    """Ranks that train together, from what they said."""

    def __init__(self, name, size):
        self.name, self.size = name, size
        self.starts, self.steps, self.first = {}, {}, None
        self.done = {}  # steps, and when the first rank told of each
        self.agents, self.loading = set(), 0

    def add(self, event):
        at, rank = float(event["at"]), int(event["rank"])
        self.first = min(self.first or at, at)
        self.agents.add(event["by"])
        if event["event"] == "start":
            self.starts[rank] = at
            self.loading = max(self.loading, float(event["loaded"]))
        else:
            self.steps[rank] = at  # the latest
            self.done[event["step"]] = min(self.done.get(event["step"], at), at)

    @property
    def last(self):
        """The time of the last event. All ranks do a step together, so a rank that stood still after a step reports it
        late."""
        return max([*self.starts.values(), *self.done.values()])

    @property
    def began(self):
        """When its last rank was ready to train; None: not all of them are."""
        return max(self.starts.values()) if len(self.starts) == self.size else None

    def stepped(self, after):
        """Whether each rank has done a step since."""
        return (len(self.steps) == self.size and min(self.steps.values()) > after)

    def __str__(self):
        return "%s (%d of %d ranks, %.1f to %.1f)" % (
            self.name, len(self.starts), self.size, self.first % 1000, self.last % 1000)


class PodJob(Job):
    pace = ("--steps=20", "--tell=1", "--step_ms=100")  # most of the time they are waited for
    forks_agents = False  # each is the first process of its pod

    def __init__(self, torch, endpoint, folder, run_id, nnodes, workers=1, max_restarts=3,
                 last_call_s=2, shares=True):
        os.makedirs(folder, exist_ok=True)
        super().__init__(torch, "c10d", None, folder, run_id, nnodes, seconds=180, shares=shares)
        self.endpoint, self.workers_each = endpoint, workers
        self.relays = False  # each pod has one
        self.max_restarts, self.last_call_s = max_restarts, last_call_s

    # -------------------------------------------------------- agents

    def prepare(self, pod, clock_ahead_s=0, flags=()):
        """Prepares an agent in this pod, without starting it. The pod may have had earlier agents. `flags` override the
        job's flags."""
        name = "%s.%d" % (pod.name, len(self.agents))
        fifo = os.path.join(self.folder, name + ".fifo")
        os.mkfifo(fifo)
        env, more = self.environment(GATE_CLOCK_AHEAD_S=str(clock_ahead_s)), []
        if hasattr(pod, "network"):
            del env["GLOO_SOCKET_IFNAME"]  # the pod's name leads to its address, as by default
        elif not self.torch.is_1x:
            more = ["--local_addr=" + pod.address]
        relay = PodRelay(pod, self.endpoint) if self.relays else None
        argv = self.torchrun(name, relay.endpoint if relay else self.endpoint, self.workers_each,
                             *more, *flags)
        module = argv.index("-m")
        argv[module:module + 1] = [os.path.join(torches.HERE, "gate.py"), fifo]
        agent = Agent(self, name, pod.enter() + argv, env)
        agent.pod, agent.fifo, agent.relay = pod, fifo, relay
        self.agents[name] = agent
        return agent

    def await_ready(self, *agents):
        self.extend(180)
        names = {a.name for a in agents}
        self.wait(lambda: names <= {e["by"] for e in self.events if e["event"] == "ready"},
                  "agents that have loaded torch")

    def go(self, *agents):
        """Lets agents begin that are ready."""
        for agent in agents:
            agent.began = time.time()
            with open(agent.fifo, "w"):
                pass

    def rank_owner(self, rank):
        """The agent whose worker has this rank, and that worker's pid as it sees it itself."""
        last = [e for e in self.events if e["event"] == "start" and int(e["rank"]) == rank][-1]
        return self.agents[last["by"]], int(last["pid"])

    def agent_with(self, rank):
        return self.rank_owner(rank)[0]

    def kill_rank(self, rank):
        agent, inner = self.rank_owner(rank)
        os.kill(agent.pod.processes(agent.process)[inner], signal.SIGKILL)

    def kill_pod(self, agent):
        """Kills the agent, its relay and all processes of its container."""
        agent.killed = True
        self.kill_relay(agent)
        agent.pod.kill(agent.process)

    @staticmethod
    def kill_relay(agent):
        if agent.relay is not None:
            agent.relay.stop(signal.SIGKILL)

    @staticmethod
    def hears(agent, number):
        """Whether it has a handler for that signal. The first process of a container that has none
        is not even ended by it; torch's agents have one once their workers have begun."""
        with open("/proc/%d/status" % agent.pod.first(agent.process)) as f:
            caught = [line.split()[1] for line in f if line.startswith("SigCgt:")]
        return bool(int(caught[0], 16) >> (number - 1) & 1)

    def terminate(self, agent):
        """As the kubelet asks: the agent has time to end by itself, with whatever exit code; one
        that does not hear it is killed."""
        if not self.hears(agent, signal.SIGTERM):
            self.kill_pod(agent)
            return
        agent.killed = True
        os.kill(agent.pod.first(agent.process), signal.SIGTERM)

    def signal_pod(self, agent, number, workers):
        """The agent alone, or its workers too: those that have not ended meanwhile."""
        if workers:
            for pid in agent.pod.processes(agent.process).values():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        else:
            os.kill(agent.pod.first(agent.process), number)

    def end(self):
        for agent in self.agents.values():
            if agent.code is None:
                agent.pod.kill(agent.process)
            self.kill_relay(agent)
        super().end()

    # -------------------------------------------------------- worlds

    def worlds(self):
        """All that ever trained, in the order they began."""
        found = {}
        with self._grew:
            for event in self.events:
                if "id" in event:
                    world = found.setdefault(event["id"], World(event["id"], int(event["world"])))
                    world.add(event)
        return sorted(found.values(), key=lambda w: w.first)

    def wait_world(self, size, after, known=(), of=None):
        """The first world of this size in which every rank has done a step after that time, whose
        name is not one of those known, and all of whose agents have one of the names `of`."""
        def seen():
            return [w for w in self.worlds() if w.size == size and w.began and w.stepped(after) and
                    w.name not in known and (of is None or w.agents <= of)]
        try:
            self.wait(seen, "a world of %d" % size)
        except JobFailed as error:
            error.args = ("%s; there were: %s" % (
                error, ", ".join(map(str, self.worlds())) or "none"),)
            raise
        return seen()[0]

    def extend(self, seconds):
        """Something new happens: it has time of its own."""
        self.deadline = time.monotonic() + seconds

    def check_apart(self):
        """No two worlds at the same time."""
        worlds = self.worlds()
        for one, other in zip(worlds, worlds[1:]):
            if one.last > other.first:
                raise JobFailed("two worlds at once: " + ", ".join(map(str, worlds)), "two worlds")

    def check_worlds(self, sizes):
        """No two at the same time, and just these, one after the other."""
        self.check_apart()
        worlds = self.worlds()
        told = ", ".join(map(str, worlds))
        if [w.size for w in worlds] != sizes:
            raise JobFailed("worlds of %s were to form, one after the other; there were: %s" % (
                sizes, told), "%d worlds" % len(worlds))



class Cases(dict):
    """A script's cases by name: what happens, and the function that makes it happen."""

    def __call__(self, name, title):
        def add(function):
            self[name] = (title, function)
            return function
        return add

    def print(self):
        for name, (title, _) in self.items():
            print("%-18s %s" % (name, title))


class PodRun:
    """One run of one case of a script: its folder, its messages, and the times of its faults.
    A script's own class starts `store`, adds to `jobs`, and knows its again_command()."""

    def __init__(self, options, script, torch, name, seed, *words):
        self.options, self.torch, self.name, self.seed = options, torch, name, seed
        self.label = ", ".join((name, "torch " + torch.name) + words + ("seed %d" % seed,))
        self.random = random.Random("%s %d" % (name, seed))
        self.begin, self.jobs, self.seconds, self.starts = time.monotonic(), [], [], []
        self.network = self.store = None
        self.known, self.at = set(), 0
        folder = "-".join((script, name, torch.name) + words + (str(seed),))
        if options.logs:
            self.folder = os.path.join(os.path.abspath(options.logs), folder)
            if not torch.sees(self.folder):
                sys.exit("--logs: torch %s runs in a tree, which has the checkout and %s alone" % (
                    torch.name, tempfile.gettempdir()))
            os.makedirs(self.folder)
        else:
            self.folder = tempfile.mkdtemp(prefix="rdzv-%s-" % folder)

    def tell(self, text):
        if self.options.tell:
            out("  [%s, %5.1f s] %s" % (self.label, time.monotonic() - self.begin, text))

    def pass_steps(self, job):
        """Trains until the moment for the fault has come, which the seed chooses. Agents say each
        5 s that they live, and 1.13's look each 5 s what has happened: any moment of those."""
        job.wait(lambda: any(int(e["step"]) >= 1 for e in job.events if "step" in e), "a step")
        self.pass_seconds(self.random.uniform(0, 5))

    def fault(self, job):
        """What comes next is measured from here."""
        self.tell("fault")
        job.extend(FAULT_SECONDS)
        self.known = {w.name for w in job.worlds()}
        self.at = time.time()

    @staticmethod
    def pass_seconds(seconds):
        """The length of a fault, and nothing that is waited for."""
        if STOP.wait(seconds):
            raise JobFailed("told to stop")

    def formed(self, job, size, old_may_go_on=False):
        """Waits until a world of this size trains after the fault. Returns whether the world is new. Records the
        seconds until all its ranks were ready, without the seconds that its workers needed to load torch."""
        world = job.wait_world(size, self.at, () if old_may_go_on else self.known)
        new = world.name not in self.known
        took = (world.began - world.loading if new else min(world.steps.values())) - self.at
        start = self.own_start(job)
        self.seconds.append(took)
        self.starts.append(start)
        self.tell("a world of %d %s, after %.1f s%s, and %.1f s of loading" % (
            size, "trains" if new else "goes on", took,
            ", of which a new agent's start took %.1f s" % start if start else "", world.loading))
        return new

    def joined_at(self, agent):
        """When this agent joined its run, as rdzvd says; None: it has not, or nobody says."""
        name = re.escape(agent.pod.name)
        for line in self.store.log().splitlines() if isinstance(self.store, Rdzvd) else ():
            match = re.match(r"time=(\S+) .*event=node_joined .*node=%s[./]" % name, line)
            if match and utc(match.group(1)) >= agent.began:
                return utc(match.group(1))
        return None

    def own_start(self, job):
        """How long the slowest agent that began since the fault took to join, which no store can
        make shorter: it reads its arguments, connects, and waits for up to 0.3 s. None: no agent
        began."""
        new = [a for a in job.agents.values() if a.began is not None and a.began >= self.at]
        joined = [(self.joined_at(a), a.began) for a in new]
        return max((at - began for at, began in joined if at is not None), default=None)

    def passed(self):
        out("passed  %s: %s (%.0f s in all)" % (
            self.label, " ".join("%.1f s" % s for s in self.seconds) or "-",
            time.monotonic() - self.begin))

    def report(self, error):
        """All that is known about a failure."""
        lines = ["failed  %s: %s" % (self.label, error)]
        if not isinstance(error, JobFailed):
            lines.append("".join(traceback.format_exception(error)))
        lines += [job.logs(40) for job in self.jobs]
        for job in self.jobs:
            lines += ["---- relay of %s\n%s" % (a.name, "\n".join(a.relay.log().splitlines()[-15:]))
                      for a in job.agents.values() if a.relay is not None]
        if self.store is not None:
            lines.append("---- store\n" + "\n".join(self.store.log().splitlines()[-60:]))
        lines += ["again: " + self.again_command(), "logs: " + self.folder]
        return "\n".join(lines)
