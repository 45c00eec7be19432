"""Orders of an operator to a real elastic job: unmodified agents obey them, and none costs a restart.

    orders.py [--torch NAME]... [--all] [--case NAME]... [--tell] [--logs DIR]

Three agents train with --max-restarts=0, and from torch 2.3 on a fourth one is a spare; two of them have a relay. `rdzvctl`
takes a node out, lets it back, keeps a new one out, starts all workers again, holds the job longer than its join_timeout,
lets it go on, and closes it. Workers (peers.py) are in a collective all the time, so each one that does not end in the same
moment as the others fails, which ends its agent. In each round, each worker must have the rank that `rdzvctl ranks` says,
and nodes keep theirs.

A second job has rounds of 2 or 4 nodes by a rule, whatever nodes come and go, a hold that ends when 5 are there, and a rule
by which it grows later. A third one is held before its first round, and its nodes are in two racks. The workers of a node
fail until a rule cordons it, and then another worker until the restart budget is used up.
A fourth one fails until a rule closes it, since it gets no further. A fifth one has a spare, and is started again and again:
both nodes keep their places, though the workers of one of them end late, also after a hold that ends at its time.
A sixth one is of two groups, which take part as a whole. The store of a seventh one is two replicas on etcd: orders go to the
replica that does not lead, and hold when the leader is killed.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import torches
from job import STOP, Agent, Job, JobFailed, out

sys.path.insert(0, os.path.join(torches.ROOT, "tests", "support"))
from etcd3 import Cluster, Replica  # noqa: E402
from servers import Rdzvd, free_port, rdzvd_binary, token_flag  # noqa: E402

JOIN_TIMEOUT_S = 12  # also on busy cores, the joins of one round must come within it
CTL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(rdzvd_binary()))), "client", "rdzvctl")


class OrderJob(Job):
    workers_per_agent = 1
    max_restarts = 0
    last_call_s = 3
    conf = ["join_timeout=%d" % JOIN_TIMEOUT_S]

    def __init__(self, torch, server, folder, nnodes, tell, relay=None):
        super().__init__(torch, "c10d", server.port, folder, "job", nnodes, shares=torch.name != "2.6")
        self.server, self.tell, self.relay = server, tell, relay
        self.meeting = os.path.join(folder, "peers")
        os.mkdir(self.meeting)

    @property
    def own_word(self):
        return "--folder=" + self.meeting

    def program(self):
        return [os.path.join(torches.HERE, "peers.py"), self.own_word, "--collective=ring"]

    def is_so(self, participants, spares, rounds):
        """So many nodes are there, and none waits, after that many rounds."""
        run, roles = self.run(), self.roles()
        done = run["round"] + (run["state"] == "complete")
        return (len(roles["participant"]), len(roles["waiting"]), len(roles["spare"])) == (participants, 0, spares) \
            and done == rounds

    def await_size(self, what, *size):
        self.wait(lambda: self.is_so(*size), "%s: %s; there are %s" % (what, size, self.roles()))
        self.tell(what)

    def start_agent(self, name):
        """The node's host is 127.0.0.NAME."""
        more = [] if self.torch.is_1x else ["--local_addr=127.0.0." + name]
        argv = self.torchrun(name, self.endpoint_of(name), 1, *more)
        env = self.environment(RDZV_TEST_NODE=name, TMPDIR=tempfile.gettempdir())
        self.agents[name] = Agent(self, name, argv, env)

    def endpoint_of(self, name):
        """Agents of even numbers have the relay, if there is one."""
        return "127.0.0.1:%d" % (self.relay.port if self.relay and int(name) % 2 == 0 else self.port)

    def asked(self):
        return ["-s", "unix:" + os.path.join(self.folder, "sock")]

    def ctl(self, *words, codes=(0,)):
        done = subprocess.run([CTL, *self.asked(), *words], capture_output=True, text=True, timeout=60)
        if done.returncode not in codes:
            raise JobFailed("rdzvctl %s: exit %d: %s%s" % (" ".join(words), done.returncode, done.stdout, done.stderr))
        return done.stdout + done.stderr

    def order(self, *words):
        self.ctl(*words, "--reason", "a test")
        self.tell("rdzvctl " + " ".join(words))

    def run(self):
        # 1: nodes are missing; 6: in a new round it is not known yet how many
        return json.loads(self.ctl("status", "job", "-o", "json", codes=(0, 1, 6)))

    def roles(self):
        """The hosts of each role, by their last number."""
        roles = {"participant": set(), "waiting": set(), "spare": set()}
        for node in self.run()["nodes"]:
            roles[node["role"]].add(node["addr"].rpartition(".")[2])
        return roles

    def await_roles(self, what, **wanted):
        def are_so():
            roles = self.roles()
            return all(roles[role] == set(names) for role, names in wanted.items())
        self.wait(are_so, "%s: %s, not %s" % (what, wanted, self.roles()))
        self.tell(what)

    def await_world(self, world, since, *ranks):
        """New workers of that many ranks train. `ranks`: the agents by rank."""
        def started():
            return {int(e["rank"]) for e in self.events[since:] if e["event"] == "start" and int(e["world"]) == world}
        self.wait(lambda: started() == set(range(world)), "new workers of %d ranks" % world)
        restarts = {e["restart"] for e in self.events if e["event"] == "start"}
        if restarts != {"0"}:
            raise JobFailed("restarts were used: %s" % restarts)
        if ranks:
            self.check_ranks(since, *ranks)

    def check_ranks(self, since, *ranks):
        """The workers of these agents have ranks 0, 1, 2 …, and `rdzvctl ranks` says the same."""
        newest = {e["by"]: (int(e["rank"]), int(e["group"])) for e in self.events[since:] if e["event"] == "start"}
        wanted = {name: (rank, rank) for rank, name in enumerate(ranks)}
        listed = [(node["rank"], node["pid"]) for node in json.loads(self.ctl("ranks", "job", "-o", "json"))]
        if newest != wanted or listed != [(rank, self.agents[name].pid) for rank, name in enumerate(ranks)]:
            raise JobFailed("ranks of workers are %s, those of rdzvctl are %s, not %s" % (newest, listed, wanted))

    def by_rank(self, since):
        """The agents of the newest workers."""
        newest = {int(e["rank"]): e["by"] for e in self.events[since:] if e["event"] == "start"}
        return [newest[rank] for rank in sorted(newest)]

    def check_no_start(self, since):
        if [e for e in self.events[since:] if e["event"] == "start"]:
            raise JobFailed("nodes have met: %s" % self.events[since:])

    def check_end(self, name, error):
        """That agent has ended with 1, by this error of torch."""
        with open(self.agents[name].log_path, encoding="utf-8", errors="replace") as f:
            text = f.read()
        if self.agents[name].code != 1 or error not in text:
            raise JobFailed("agent %s ended with %s, and not by %s" % (name, self.agents[name].code, error))

    def sleep(self, seconds):
        """Agents that end meanwhile are a failure."""
        until = time.monotonic() + seconds
        self.wait(lambda: time.monotonic() >= until, "time to pass")


def steer(job):
    """Torch 2.3 and later. By the bytes of the names, 127.0.0.9 is the last one."""
    for name in ("9", "12", "13"):
        job.start_agent(name)
    job.await_world(3, 0, "9", "12", "13")
    job.start_agent("14")
    job.await_roles("14 is a spare", participant=["9", "12", "13"], spare=["14"])

    mark = job.mark()
    job.order("evict", "127.0.0.12", "--yes")
    job.await_roles("the spare has the place of 12", participant=["9", "13", "14"], spare=["12"])
    job.await_world(3, mark, "9", "14", "13")
    job.sleep(JOIN_TIMEOUT_S + 4)
    job.await_roles("12 still waits", participant=["9", "13", "14"], spare=["12"])
    if "a test" not in job.ctl("status") or "keep out: 1" not in job.ctl("status", "job"):
        raise JobFailed("the status does not show the order")

    mark = job.mark()
    job.order("evict", "127.0.0.1[34]", "--yes")
    job.await_roles("two are out, and too few are left", participant=["9"], spare=["12", "13", "14"])
    job.order("uncordon", "127.0.0.12")
    job.await_world(2, mark, "9", "12")
    mark = job.mark()
    job.order("cordon", "127.0.0.15")
    job.start_agent("15")
    job.await_roles("a new node is kept out", participant=["9", "12"], spare=["13", "14", "15"])
    job.sleep(3)
    job.check_no_start(mark)
    job.order("evict", "127.0.0.14", "--yes")
    job.order("uncordon", "127.0.0.1[34]")
    job.await_world(3, mark, "9", "12", "13")

    mark, ended = job.mark(), job.agents["13"]
    ended.killed = True  # it may end with 1
    job.order("evict", "127.0.0.13", "--end", "--yes")
    job.wait(lambda: ended.code is not None, "the end of the agent of 13")
    job.await_world(2, mark, "9", "12")
    mark = job.mark()
    job.start_agent("13")
    job.await_roles("13 is back as a spare", participant=["9", "12"], spare=["13", "14", "15"])
    if ended.code != 1:
        raise JobFailed("the exit code is %s" % ended.code)
    job.order("uncordon", "127.0.0.13")
    job.await_world(3, mark, "9", "12", "13")

    mark = job.mark()
    job.order("restart", "job", "--yes")
    job.await_world(3, mark, "9", "12", "13")

    job.order("hold", "job", "--yes")
    job.await_roles("all wait", participant=[], spare=["9", "12", "13", "14", "15"])
    job.sleep(JOIN_TIMEOUT_S + 4)
    mark = job.mark()
    job.order("release", "job")
    job.await_world(3, mark, "9", "12", "13")
    check_goodput(job)
    close(job)


def check_goodput(job):
    """It trained for the first sleep at least, and waited for the operator during the last one."""
    parts = {part["part"]: part for part in json.loads(job.ctl("goodput", "job", "-o", "json"))}
    if min(parts[name]["seconds"] for name in ("training", "operator")) < JOIN_TIMEOUT_S + 4 or parts["operator"]["times"] < 4:
        raise JobFailed("goodput: %s" % parts)


def steer_old(job):
    """Torch before 2.3, whose agents cannot wait outside. All nodes have this machine's name."""
    for name in ("11", "12", "13"):
        job.start_agent(name)
    job.await_world(3, 0)
    mark, ranks = job.mark(), job.by_rank(0)
    job.start_agent("14")  # the round is full until its join_timeout is over
    job.agents["14"].killed = True  # it may end with 1
    job.wait(lambda: job.agents["14"].code is not None, "the end of an agent without a place")
    job.check_end("14", "RendezvousTimeoutError")
    job.check_no_start(mark)
    job.order("restart", "job", "--yes")
    job.await_world(3, mark, *ranks)
    said = job.ctl("hold", "job", "--yes", codes=(5,))
    if "before 2.3" not in said:
        raise JobFailed("hold: %s" % said)
    close(job)


class SizeJob(OrderJob):
    def program(self):
        return [*super().program()[:-1], "--collective=hang"]


def size(job):
    """Torch 2.3 and later, nnodes 2:4, by the rule nodes-multiple=2. Ranks are by the numbers in the names."""
    for name in ("9", "12", "13"):
        job.start_agent(name)
    job.await_world(2, 0)
    job.await_size("two train, the third is a spare", 2, 1, 1)
    job.sleep(JOIN_TIMEOUT_S + 4)
    mark = job.mark()
    job.start_agent("14")
    job.await_world(4, mark, "9", "12", "13", "14")
    job.await_size("all four have met once", 4, 0, 2)

    mark = job.mark()
    job.kill_agent("9")
    job.await_world(2, mark)
    job.await_size("one is lost: two train", 2, 1, 3)
    mark = job.mark()
    job.start_agent("15")
    job.await_world(4, mark, "12", "13", "14", "15")
    job.await_size("its successor makes four", 4, 0, 4)

    job.order("hold", "job", "--until", "5", "--yes")
    job.await_size("all wait", 0, 4, 4)
    job.sleep(JOIN_TIMEOUT_S + 4)
    mark = job.mark()
    job.start_agent("16")
    job.await_world(4, mark)
    job.await_size("the fifth ends the hold", 4, 1, 5)
    job.order("rules", "job", "nodes-multiple=3")
    if job.run()["nodes_multiple"] != 3:
        raise JobFailed("the run has no rules of its own")
    job.sleep(3)
    job.await_size("a rule moves no node of a round", 4, 1, 5)
    mark = job.mark()
    job.order("restart", "job", "--yes")
    job.await_world(3, mark)
    job.await_size("the next round has three", 3, 2, 6)

    mark = job.mark()
    job.order("rules", "job", "grow-interval=10s")
    job.sleep(2)
    job.check_no_start(mark)
    job.await_world(4, mark)
    job.await_size("it has grown", 4, 1, 7)
    job.order("rules", "job", "grow-interval=1h")
    mark = job.mark()
    job.kill_agent(min(job.roles()["participant"]))
    job.await_world(4, mark)
    job.await_size("a spare takes the place of a lost node at once", 4, 0, 8)


def begin_with_a_spare(job):
    for name in ("9", "12"):
        job.start_agent(name)
    job.await_world(2, 0, "9", "12")
    job.start_agent("13")
    job.await_roles("13 is a spare", participant=["9", "12"], spare=["13"])


def places(job):
    """Torch 2.3 and later, nnodes 2:2 and spares. The workers of 12 end late each second time; 12 and 14 are in one rack."""
    begin_with_a_spare(job)
    slow = os.path.join(job.meeting, "slow.12")
    for times in range(10):
        if times % 2 == 0:
            with open(slow, "w") as f:
                f.write("2")
        else:
            os.remove(slow)
        mark = job.mark()
        job.order("restart", "job", "--yes")
        job.await_world(2, mark, "9", "12")
        job.await_size("restart %d: all have their places" % times, 2, 1, times + 2)
    began, mark = time.monotonic(), job.mark()
    job.order("hold", "job", "--for", "%ds" % (JOIN_TIMEOUT_S + 4), "--yes")
    job.await_roles("all wait", participant=[], spare=["9", "12", "13"])
    if "holds the run until " not in job.ctl("status", "job"):
        raise JobFailed("the status does not show the end of the hold")
    job.await_world(2, mark, "9", "12")
    if time.monotonic() - began < JOIN_TIMEOUT_S + 4:
        raise JobFailed("the hold has ended before its time")
    job.await_roles("after the hold, too", participant=["9", "12"], spare=["13"])
    job.start_agent("14")
    job.await_roles("there are two spares", participant=["9", "12"], spare=["13", "14"])
    mark = job.mark()
    job.order("evict", "127.0.0.12", "--yes")
    job.await_world(2, mark, "9", "14")
    mark = job.mark()
    job.kill_agent("14")
    job.await_world(2, mark, "9", "13")


def groups(job):
    """Torch 2.3 and later, nnodes 2:4, by the rule group=2: 9 and 12 are a group, and 13 and 14."""
    for name in ("9", "12", "13"):
        job.start_agent(name)
    job.await_world(2, 0)
    job.await_roles("a group trains, a part of one waits", participant=["9", "12"], spare=["13"])
    mark = job.mark()
    job.start_agent("14")
    job.await_world(4, mark)
    job.await_size("both have met once", 4, 0, 2)

    mark = job.mark()
    job.kill_agent("12")
    job.await_world(2, mark, "13", "14")
    job.await_roles("one is lost: the other group trains", participant=["13", "14"], spare=["9"])
    for words in ("ranks", "job"), ("status", "job", "-o", "wide"):
        if "its group is not whole" not in job.ctl(*words, codes=(0, 1)):
            raise JobFailed("rdzvctl %s does not say why 9 waits" % words[0])
    job.sleep(JOIN_TIMEOUT_S + 4)
    mark = job.mark()
    job.start_agent("12")
    job.await_world(4, mark)
    job.await_size("its successor makes its group whole", 4, 0, 4)

    mark = job.mark()
    job.order("evict", "127.0.0.13", "--yes")
    job.await_world(2, mark)
    job.await_roles("a whole group is out", participant=["9", "12"], spare=["13", "14"])
    mark = job.mark()
    job.order("uncordon", "127.0.0.13")
    job.await_world(4, mark)
    job.await_size("it is back", 4, 0, 6)


class Replicas:
    """Two replicas of one store, on a real etcd, and a relay that knows both."""

    def __init__(self):
        self.cluster = Cluster(1)
        ports = [free_port() for _ in range(2)]
        upstream = "--upstream=" + ",".join("127.0.0.1:%d" % port for port in ports)
        self.replicas = [Replica(self.cluster, "--journal-lease=2s", upstream, port=port) for port in ports]
        self.relay = Rdzvd(upstream)
        self.port = ports[0]

    def leader(self):
        """The number of the replica that leads, once one does and the other one could."""
        for replica in self.replicas:
            replica.wait_warm()
        end = time.monotonic() + 60
        while time.monotonic() < end:
            for at, replica in enumerate(self.replicas):
                if "[+]leader ok" in replica.ready()[1]:
                    return at
            time.sleep(0.05)
        raise JobFailed("no replica leads: %s" % [replica.ready()[1] for replica in self.replicas])

    def kill_leader(self):
        """Kills the leader, waits until the other replica leads, and starts the killed one again."""
        at = self.leader()
        self.replicas[at].stop(signal.SIGKILL)
        self.replicas[1 - at].wait_ready(says="[+]leader ok")
        self.replicas[at] = self.replicas[at].again()

    def log(self):
        return "\n---- the other one\n".join(replica.log() for replica in self.replicas)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for daemon in (self.relay, *self.replicas):
            daemon.stop(signal.SIGKILL)
        self.cluster.__exit__()


class ReplicaJob(SizeJob):
    def endpoint_of(self, name):
        return "127.0.0.1:%d" % self.server.relay.port

    def asked(self):
        follower = self.server.replicas[1 - self.server.leader()]
        return ["-s", "127.0.0.1:%d" % follower.port, token_flag().replace("admin-", "")]


def failovers(job):
    """Torch 2.3 and later, nnodes 2:2. No order that was answered is lost with the leader, and nobody meets for that."""
    begin_with_a_spare(job)
    mark = job.mark()
    job.order("evict", "127.0.0.12", "--yes")
    job.await_world(2, mark, "9", "13")
    mark = job.mark()
    job.server.kill_leader()
    job.await_roles("12 is still out", participant=["9", "13"], spare=["12"])
    if "a test" not in job.ctl("status"):
        raise JobFailed("the status does not show the order")
    job.sleep(3)
    job.check_no_start(mark)
    job.order("uncordon", "127.0.0.12")
    job.order("hold", "job", "--yes")
    job.await_roles("all wait", participant=[], spare=["9", "12", "13"])
    job.server.kill_leader()
    job.sleep(3)
    job.check_no_start(mark)
    job.order("release", "job")
    job.await_world(2, mark, "9", "13")


class FailingJob(SizeJob):
    max_restarts = 9

    def fail(self, name):
        """The worker of that node is killed."""
        mark = self.mark()
        self.kill_worker(name, min(self.workers(name)))
        self.tell("a worker of %s is killed" % name)
        return mark

    def await_start(self, since, count=3):
        self.wait(lambda: len({e["rank"] for e in self.events[since:] if e["event"] == "start"}) == count, "%d workers" % count)


def failures(job):
    """Torch 2.3 and later, nnodes 2:3, by the rules cordon-after=2/1h and restart-budget=2/1h. The table has two racks."""
    job.start_agent("11")
    job.server.wait_log("event=node_joined .*node=127.0.0.11/", 60)
    job.order("hold", "job", "--yes")
    for name in ("12", "13"):
        job.start_agent(name)
    job.await_roles("all are held before their first round", participant=[], spare=["11", "12", "13"])
    job.sleep(JOIN_TIMEOUT_S + 4)
    job.check_no_start(0)
    job.order("release", "job")
    job.await_start(0)
    job.check_ranks(0, "11", "13", "12")
    if "2 of 3 edges of the ring cross domains" not in job.ctl("ranks", "job"):
        raise JobFailed("ranks: %s" % job.ctl("ranks", "job"))
    with open(os.path.join(job.folder, "racks"), "w", encoding="utf-8") as f:
        f.write(RACKS.replace("1[13]", "1[123]").replace("1[24]", "14"))
    job.server.process.send_signal(signal.SIGHUP)
    job.wait(lambda: job.ctl("ranks", "job").count("  rack1 ") == 3, "the new table: %s" % job.ctl("ranks", "job"))
    job.order("cordon", "127.0.0.12")
    job.await_start(job.fail("12"), 2)
    job.await_roles("the others meet without a failed node that is kept out", participant=["11", "13"], spare=["12"])
    mark = job.mark()
    job.order("uncordon", "127.0.0.12")
    job.await_start(mark)
    job.start_agent("14")
    job.await_roles("all have begun again, and 14 is a spare", participant=["11", "12", "13"], spare=["14"])
    mark = job.fail("12")
    job.await_start(mark)
    job.await_roles("12 is cordoned", participant=["11", "13", "14"], spare=["12"])
    job.check_ranks(mark, "11", "13", "14")
    if "its workers failed first 2 times in 1h" not in job.ctl("status"):
        raise JobFailed("the status does not show the cordon")
    for agent in job.agents.values():
        agent.killed = True  # it may end with 1
    job.fail("13")
    job.wait(lambda: all(a.code is not None for a in job.agents.values()), "the end of all agents")
    why = "restart budget of 2 in 1h is used up: first to fail was node 127.0.0.12 in 2 of 3 rounds"
    if why not in " ".join(job.ctl("runs", "--ended").split()):
        raise JobFailed("the ended run: %s" % job.ctl("runs", "--ended"))


class VainJob(FailingJob):
    def program(self):
        return [os.path.join(torches.HERE, "peers.py"), self.own_word, "--collective=gloo"]

    def reach(self, number):
        """The next workers set rdzvd/progress to it."""
        with open(os.path.join(self.meeting, "progress"), "w") as f:
            f.write(str(number))


def vain(job):
    """Nnodes 3:3, by the rule no-progress=2/1h. Two failures at 57 are one in vain, and three at 58 are two."""
    mark = 0
    job.reach(57)
    for name in ("11", "12", "13"):
        job.start_agent(name)
    for times in range(4):
        job.await_start(mark)
        if times == 1:
            job.reach(58)
        mark = job.fail("12")
    job.await_start(mark)
    for agent in job.agents.values():
        agent.killed = True  # it may end with 1
    job.fail("13")
    job.wait(lambda: all(a.code is not None for a in job.agents.values()), "the end of all agents")
    why = "no progress: each of the last 2 rounds failed within 1h, none raised rdzvd/progress"
    for words in ("runs", "--ended"), ("why", "job"):
        if why not in " ".join(job.ctl(*words).split()):
            raise JobFailed("rdzvctl %s: %s" % (" ".join(words), job.ctl(*words)))


def close(job):
    """Each agent ends its workers when it polls: those of the others may fail before. Torch has a fault with spares."""
    spares, mark = job.roles()["spare"], job.mark()
    for agent in job.agents.values():
        agent.killed = True  # it may end with 1
    job.order("close", "job", "--yes")
    job.wait(lambda: all(a.code is not None for a in job.agents.values()), "the end of all agents")
    ended = {e["by"]: e["event"] for e in job.events[mark:] if e["event"] in ("sigterm", "lost")}
    if len(ended) != 3 or "sigterm" not in ended.values():
        raise JobFailed("workers have ended by %s" % ended)
    for name, agent in job.agents.items():
        error = "AttributeError" if name in spares else "RendezvousClosedError" if ended.get(name) == "sigterm" else ""
        job.check_end(name, "RendezvousTimeoutError" if job.torch.is_1x and name == "14" else error)
    if "an operator has closed it: a test (" not in job.ctl("runs", "--ended"):
        raise JobFailed("the ended run has no reason: %s" % job.ctl("runs", "--ended"))
    job.start_agent("16")
    job.agents["16"].killed = True
    job.wait(lambda: job.agents["16"].code is not None, "the end of an agent that comes later")
    job.check_end("16", "RendezvousClosedError")
    if job.run()["state"] != "closed":
        raise JobFailed("the run has begun again")
    job.tell("all agents have ended, and the run stays closed")


RACKS = "127.0.0.9 rack0\n127.0.0.1[13] rack1\n127.0.0.1[24] rack2\n"
GROUPS = "127.0.0.9 row/a\n127.0.0.12 row/a\n127.0.0.13 row/b\n127.0.0.14 row/b\n"

# Of each case, the job, its --nnodes, flags of rdzvd, and what happens.
CASES = {"orders": (OrderJob, "2:3", [], steer),
         "sizes": (SizeJob, "2:4", ["--rules=nodes-multiple=2", "--rank-order=natural"], size),
         "places": (SizeJob, "2:2", [], places),
         "groups": (SizeJob, "2:4", ["--rules=group=2"], groups),
         "replicas": (ReplicaJob, "2:2", [], failovers),
         "failures": (FailingJob, "2:3", ["--rules=cordon-after=2/1h,restart-budget=2/1h"], failures),
         "progress": (VainJob, "3:3", ["--rules=no-progress=2/1h"], vain)}


def run_case(options, torch, name):
    """True if it passed. Says so, or all that is known about the failure."""
    folder = tempfile.mkdtemp(prefix="rdzv-orders-", dir=options.logs)
    begin, job = time.monotonic(), None

    def tell(text):
        if options.tell:
            out("  [%s, %5.1f s] %s" % (torch.name, time.monotonic() - begin, text))

    flags = ["--listen=unix:" + os.path.join(folder, "sock"), "--data-dir=" + os.path.join(folder, "data")]
    kind, nnodes, more, happens = CASES[name]
    if name in ("failures", "places", "groups"):
        flags.append("--topology-file=" + os.path.join(folder, "racks"))
        with open(os.path.join(folder, "racks"), "w", encoding="utf-8") as f:
            f.write(GROUPS if name == "groups" else RACKS)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(Replicas() if kind is ReplicaJob else Rdzvd(*flags, *more))
        relay = None
        if name in ("orders", "groups"):
            relay = stack.enter_context(Rdzvd("--upstream=127.0.0.1:%d" % server.port))
        try:
            job = kind(torch, server, folder, nnodes, tell, relay)
            (steer_old if torch.is_1x else happens)(job)
        except Exception as error:  # reported, counted, and the next one runs
            out("failed  torch %s, %s (%.1f s): %s" % (torch.name, name, time.monotonic() - begin, error))
            if not isinstance(error, JobFailed):
                out(traceback.format_exc())
            if job is not None:
                out(job.logs())
            out("---- server\n" + "\n".join(server.log().splitlines()[-100:]))
            return False
        finally:
            if job is not None:
                job.end()
    out("passed  torch %s, %s (%.1f s)" % (torch.name, name, time.monotonic() - begin))
    shutil.rmtree(folder, ignore_errors=True)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", action="append", help="%s; repeatable" % ", ".join(torches.ALL))
    parser.add_argument("--all", action="store_true", help="every release")
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--tell", action="store_true", help="say what goes on")
    parser.add_argument("--logs", help="a folder for the logs of what fails")
    options = parser.parse_args()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: STOP.set())
    chosen = list(torches.choose(options.torch or (torches.ALL if options.all else None)))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:  # they wait most of the time
        cases = [(torch, name) for torch in chosen for name in (["orders"] if torch.is_1x else options.case or CASES)
                 if name != "progress" or torch.name != "2.6"]  # where worker 0 hosts the store
        results = list(pool.map(lambda case: run_case(options, *case), cases))
    print("%d passed, %d failed" % (results.count(True), results.count(False)))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
