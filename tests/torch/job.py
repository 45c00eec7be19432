"""One elastic job on this machine: torchrun agents, started and ended one by one, and what their
workers (train.py) say. Every wait is for a line or an exit, and has the job's deadline.

Python's standard library only; the agents run under the torch release that is asked for.
"""

import os
import re
import signal
import subprocess
import threading
import time

import torches
from forked import EVERY_FORKS

WORKERS_PER_AGENT = 2
BACKENDS = ("c10d", "etcd-v2", "etcd")
LINE = re.compile(r"train: (\w+) (.*)$")

STOP = threading.Event()  # set: every wait gives up, so that what was started can be ended
PRINT = threading.Lock()


def out(text):
    """Prints a text of one job in one piece, while other jobs print, too."""
    with PRINT:
        print(text, flush=True)


class JobFailed(AssertionError):
    """An expected event did not happen, or came too late; `word` is a short name of the failure."""

    def __init__(self, text, word="wrong"):
        super().__init__(text)
        self.word = word


class Agent:
    """One torchrun with its workers; its output is kept in memory and in a log file."""

    def __init__(self, job, name, argv, env):
        self.job, self.name, self.killed = job, name, False
        self.began = None  # when it was let go, of one that waits for that
        self.relay = None  # of its own
        self.log_path = os.path.join(job.folder, name + ".log")
        self.process = self.start(argv, env)
        self.pid = self.process.pid
        for work in (self._read, self._await_exit):
            threading.Thread(target=work, daemon=True).start()

    def start(self, argv, env):
        if self.job.forks_agents:
            return EVERY_FORKS.of(self.job.torch).start(argv[argv.index("-m") + 1:], env)
        return subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT,
                                start_new_session=True)  # a share of the CPU of its own

    def _read(self):
        with open(self.log_path, "ab") as log:
            for raw in self.process.stdout:
                log.write(raw)
                log.flush()
                self.see(raw.decode(errors="replace").rstrip())

    def see(self, line):
        """Makes an event of a line of its output, if it is a worker's."""
        match = LINE.search(line)
        if match:
            fields = dict(word.split("=", 1) for word in match.group(2).split())
            self.job.event(dict(fields, event=match.group(1), by=self.name))

    def _await_exit(self):
        code = self.process.wait()
        self.job.event({"event": "exit", "by": self.name, "code": code})

    @property
    def code(self):
        """None while it runs."""
        return self.process.poll()

    def last_error(self):
        """The last line of its log that names an error of Python."""
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return next((line.strip() for line in reversed(f.readlines()) if "Error" in line), "none")


class Job:
    workers_per_agent = WORKERS_PER_AGENT
    max_restarts = 3
    last_call_s = 2  # None: torch's default, 30 s
    conf = []  # more of --rdzv_conf
    forks_agents = True  # from a process that has loaded torch
    pace = ("--steps=40", "--tell=5")

    def __init__(self, torch, backend, port, folder, run_id, nnodes, seconds=300, shares=False):
        self.torch, self.backend, self.port = torch, backend, port
        self.folder, self.run_id, self.nnodes = folder, run_id, nnodes
        self.shares = shares  # torch's default from 2.6 on, which needs a store that repairs it
        self.deadline = time.monotonic() + seconds
        self.agents, self.events = {}, []
        self._grew = threading.Condition()
        self.hold = os.path.join(folder, "hold")
        self.checkpoint = os.path.join(folder, "checkpoint.pt")
        with open(self.hold, "w"):
            pass

    # -------------------------------------------------------- agents

    def start_agent(self, name):
        more = ["--monitor_interval=0.5"]
        if not self.torch.is_1x:
            more.append("--local_addr=127.0.0.1")
        argv = self.torchrun(name, self.endpoint_of(name), self.workers_per_agent, *more)
        env = self.environment(TMPDIR=os.environ.get("TMPDIR", "/tmp"))
        self.agents[name] = Agent(self, name, argv, env)
        return self.agents[name]

    def environment(self, **extra):
        """Of an agent."""
        env = self.torch.environment(**extra)
        if not self.shares:
            env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
        return env

    def endpoint_of(self, name):
        """Where that agent finds its store."""
        del name  # all of them at the same place
        return "127.0.0.1:%d" % self.port

    def torchrun(self, name, endpoint, workers, *more):
        """The command line of an agent: torchrun with the flags `more`, and train.py with its arguments."""
        # 1.13 knows only underscores; every release knows them.
        conf = [] if self.last_call_s is None else ["last_call_timeout=%d" % self.last_call_s]
        if self.backend == "c10d":
            conf.insert(0, "is_host=0")
        conf += self.conf
        argv = self.torch.python + [
            "-m", "torch.distributed.run", "--nnodes=" + self.nnodes,
            "--nproc_per_node=%d" % workers, "--rdzv_backend=" + self.backend,
            "--rdzv_endpoint=" + endpoint, "--rdzv_id=" + self.run_id, "--rdzv_conf=" + ",".join(conf),
            "--max_restarts=%d" % self.max_restarts]
        if self.torch.is_1x:
            # Python 3.11 and the default of these two do not go together in 1.13.
            argv += ["--redirects=2", "--tee=2", "--log_dir=" + os.path.join(self.folder, name)]
        return argv + [*more, *self.program()]

    def program(self):
        """The words that start a worker."""
        return [os.path.join(torches.HERE, "train.py"), self.own_word, "--hold=" + self.hold, *self.pace]

    @property
    def own_word(self):
        """A word of its workers' command lines, which no other process has."""
        return "--checkpoint=" + self.checkpoint

    def workers(self, name):
        """The pids of the agent's latest workers, by rank."""
        with self._grew:
            starts = [e for e in self.events if e["event"] == "start" and e["by"] == name]
        latest = {}
        for e in starts[-self.workers_per_agent:]:
            latest[int(e["rank"])] = int(e["pid"])
        return latest

    def kill_worker(self, name, rank):
        pid = self.workers(name)[rank]
        os.kill(pid, signal.SIGKILL)
        return pid

    def kill_agent(self, name):
        """Kills the agent and all its workers, as if their machine had failed."""
        agent = self.agents[name]
        agent.killed = True
        agent.process.kill()
        for pid in self.workers(name).values():
            self._end_worker(pid)
        self.wait(lambda: agent.code is not None, "the end of agent " + name)

    def _end_worker(self, pid):
        """Kills a process if it is a worker of this job: the worker may have ended already, and another process may
        have its pid."""
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as f:
                ours = self.own_word.encode() in f.read().split(b"\0")
            if ours:
                os.kill(pid, signal.SIGKILL)
        except OSError:  # gone, or another user's
            pass

    def end(self):
        """Leaves nothing behind, whatever has happened."""
        for agent in self.agents.values():
            if agent.code is None:
                agent.process.kill()
                agent.process.wait()
        # A worker of a killed agent may not have printed its pid yet, so check every process.
        for name in os.listdir("/proc"):
            if name.isdigit():
                self._end_worker(int(name))

    # -------------------------------------------------------- what happens

    def event(self, event):
        with self._grew:
            self.events.append(event)
            self._grew.notify_all()

    def mark(self):
        """A point in time, for `since`."""
        with self._grew:
            return len(self.events)

    def wait(self, condition, what):
        """Until `condition()` is true. An agent that leaves before it may is the end of waiting."""
        with self._grew:
            while not condition():
                if STOP.is_set():
                    raise JobFailed("told to stop while waiting for " + what)
                left = self.deadline - time.monotonic()
                if left <= 0:
                    raise JobFailed("waited in vain for " + what, "hangs")
                for agent in self.agents.values():
                    if agent.code not in (None, 0) and not agent.killed:
                        raise JobFailed("agent %s ended with %d while waiting for %s; its last error: %s" % (
                            agent.name, agent.code, what, agent.last_error()), "dead")
                self._grew.wait(min(left, 1))

    def wait_training(self, world, since=0):
        """Until every rank of a world of this size has done steps. The events of that world."""
        return self._wait_steps(world, since, lambda e: True)

    def wait_new_training(self, world, since):
        """The same of a world that was formed after `since`: steps of the world before may be printed after it."""
        def is_new(event):
            return event["id"] in {e["id"] for e in self.events[since:] if e["event"] == "start"}
        return self._wait_steps(world, since, is_new)

    def _wait_steps(self, world, since, counts):
        def seen():
            return [e for e in self.events[since:]
                    if e["event"] == "step" and int(e["world"]) == world and counts(e)]
        self.wait(lambda: {int(e["rank"]) for e in seen()} == set(range(world)),
                  "steps of all %d ranks" % world)
        return seen()

    def first_step(self, world, since=0):
        """Where the world of this size that was formed after `since` went on. Steps of the world before may be printed after
        `since`, so this waits for the new one."""
        def steps():
            return [int(e["step"]) for e in self.events[since:] if e["event"] == "start" and int(e["world"]) == world]
        self.wait(steps, "a new world of %d ranks" % world)
        return min(steps())

    def last_agent(self):
        """The agent with the highest rank among its workers."""
        starts = [e for e in self.events if e["event"] == "start"]
        world = int(starts[-1]["world"])
        return [e["by"] for e in starts if int(e["rank"]) == world - 1][-1]

    def agent_of(self, rank):
        return [e["by"] for e in self.events
                if e["event"] == "start" and int(e["rank"]) == rank][-1]

    def finish(self, world):
        """Lets the training end, and checks that all ranks end at the same step with the same model, and all agents
        with exit code 0, except killed agents. Returns rank 0's last event."""
        os.unlink(self.hold)

        def done():
            return [e for e in self.events if e["event"] == "done"]
        self.wait(lambda: len(done()) >= world, "the end of all %d ranks" % world)
        self.wait(lambda: all(a.code is not None for a in self.agents.values()),
                  "the end of all agents")
        for agent in self.agents.values():
            if agent.code != 0 and not agent.killed:
                raise JobFailed("agent %s ended with %d" % (agent.name, agent.code), "dead")
        return self.check_end(world, done())

    def check_end(self, world, last):
        """What `finish` says of `last`, the events of all ranks that are done."""
        if sorted(int(e["rank"]) for e in last) != list(range(world)):
            raise JobFailed("not every rank ended once: %s" % last)
        for word in ("step", "model", "loss", "world"):
            if len({e[word] for e in last}) != 1:
                raise JobFailed("the ranks do not agree on %s: %s" % (word, last))
        losses = [float(e["loss"]) for e in self.events if e["event"] == "step"]
        if not float(last[0]["loss"]) < losses[0]:
            raise JobFailed("nothing was learnt: loss %s, then %s" % (losses[0], last[0]["loss"]))
        return last[0]

    def logs(self, lines=80):
        """The ends of all agents' logs, for a report."""
        parts = []
        for agent in self.agents.values():
            with open(agent.log_path, errors="replace") as f:
                tail = f.read().splitlines()[-lines:]
            parts.append("---- agent %s (%s)\n%s" % (
                agent.name, "killed" if agent.killed else "exit code %s" % agent.code,
                "\n".join(tail)))
        return "\n".join(parts)
