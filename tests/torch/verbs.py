"""Orders of an operator among the faults of chaos.py: rdzvctl, what holds after them, and what the log of the store says
of it.

Checked in that log: no round is complete with a node that an order keeps out, nor while the run is on hold; its size
obeys the rules; its ranks are 0 to n-1, once each; and a node keeps its rank if the round has so many nodes.
"""

import json
import os
import re
import subprocess
import time

from job import JobFailed
from pods import rdzvd_binary

CTL = os.environ.get("RDZVCTL") or os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(rdzvd_binary()))), "client", "rdzvctl")
RUN = "training"
REFUSED = 5  # exit code of rdzvctl
SLACK_SECONDS = 5  # between a round and its workers
OLD_SECONDS = 90  # until an agent of torch before 2.3 has ended that is kept out: when the nodes meet
CLOSE_SECONDS = 30  # until all agents of a closed run have ended

ORDERS = {}


def order(weight, name):
    def add(function):
        ORDERS[name] = (weight, function)
        return function
    return add


class Operator:
    def __init__(self, sequence):
        self.sequence = sequence
        self.socket = "unix:" + os.path.join(sequence.folder, "sock")
        self.cordons = {}  # names of hosts, and since when they get no place
        self.out = set()  # those of them that must not train any more
        self.held = False
        self.multiple, self.ruled = 1, 0  # and since when that is so

    def ctl(self, *words, codes=(0,), wrapper=(), server=None):
        done = subprocess.run([*wrapper, CTL, "-s", server or self.socket, "--timeout=20s", *words],
                              capture_output=True, text=True, timeout=60, check=False)
        if done.returncode not in codes:
            raise JobFailed("rdzvctl %s: exit %d: %s%s" % (" ".join(words), done.returncode, done.stdout, done.stderr))
        return done

    def key(self, *words, codes=(0,)):
        """A command about a key, in the pod of the store."""
        return self.ctl(*words, codes=codes, wrapper=self.sequence.store_pod.enter(own_pids=False),
                        server="127.0.0.1:%d" % self.sequence.store.port)

    def give(self, *words, codes=(0,), reason="chaos"):
        """False: it was refused."""
        taken = self.ctl(*words, "--reason", reason, codes=codes).returncode == 0
        self.sequence.note("rdzvctl %s%s" % (" ".join(words), "" if taken else ": refused"))
        return taken

    # -------------------------------------------------------- what is expected

    def inside(self, world=None):
        """Live agents that may train. Those of `world` may although they are cordoned, if it is older."""
        def may(agent):
            name = agent.pod.name
            since = self.cordons.get(name)
            return name not in self.out and (
                since is None or (world is not None and agent.name in world.agents and
                                  world.began - world.loading - SLACK_SECONDS <= since))
        return {agent.name for agent in self.sequence.live() if may(agent)}

    def size(self, nodes, most):
        nodes = min(nodes, most)
        return nodes - nodes % self.multiple

    def allows(self, world, most):
        """It may be the last one."""
        inside = self.inside(world)
        fits = self.size(len(inside), most)
        is_old = world.began - world.loading - SLACK_SECONDS <= self.ruled
        return world.agents <= inside and len(world.agents) == world.size and (
            world.size == fits or (is_old and fits <= world.size))

    # -------------------------------------------------------- orders

    def uncordon(self, name):
        """An agent of torch before 2.3 ends first."""
        job = self.sequence.job
        old = [a for a in job.agents.values() if a.pod.name == name and not lives_on(self.sequence)]
        job.extend(OLD_SECONDS)
        job.wait(lambda: all(a.code is not None for a in old if a.killed), "the end of an agent that is kept out")
        self.give("uncordon", name)
        del self.cordons[name]
        self.out.discard(name)

    def rule(self, multiple):
        words = ["nodes-multiple=%d" % multiple] if multiple != 1 else []
        self.give("rules", RUN, *words, reason="multiple of %d" % multiple)
        self.multiple, self.ruled = multiple, time.time()

    def release(self):
        if self.sequence.store in self.sequence.idle:
            self.sequence.after(1, self.release)
        elif self.held:
            self.give("release", RUN, codes=(0, REFUSED))  # --until has ended it
            self.held = False

    def take_back(self):
        """All orders."""
        for name in list(self.cordons):
            self.uncordon(name)
        if self.multiple != 1:
            self.rule(1)
        self.release()

    def close(self):
        """An end of the job."""
        job = self.sequence.job
        live = self.sequence.live()
        for agent in live:
            agent.killed = True  # it may end with an error
        self.give("close", RUN, "--yes")
        job.extend(CLOSE_SECONDS)
        job.wait(lambda: all(a.code is not None for a in live), "the end of all agents of a closed run")
        codes = {agent.name: agent.code for agent in live}
        if set(codes.values()) != {1}:
            raise JobFailed("exit codes of a closed run: %s" % codes)


def lives_on(s):
    """Agents of torch 2.3 and later live on while they are kept out. One of an older release ends: another one comes."""
    return not s.torch.is_1x


def chosen(s):
    """An agent that an order can keep out, while another one can train; or None."""
    inside = s.operator.inside()
    agents = [a for a in s.live() if a.name in inside]
    if len(agents) < 2 or not hasattr(agents[0].pod, "network"):
        return None
    return s.random.choice(agents)


def keep_out(s, verb, *words):
    """The agent; None: there is none to keep out."""
    agent = chosen(s)
    if agent is None or (not lives_on(s) and agent in s.idle):
        return None
    new = None
    if not lives_on(s):
        agent.killed = True
        new = s.spare()
    s.operator.cordons.setdefault(agent.pod.name, time.time())
    s.operator.give(verb, agent.pod.name, *words)
    if new is not None:
        s.is_rough = True
        s.note("%s comes" % new.name)
        s.job.go(new)
    return agent


@order(1, "a node cordoned")
def cordoned(s):
    """Without a spare's way to wait, the agent ends when the nodes meet, which a full round does for no newcomer."""
    agent = keep_out(s, "cordon")
    if agent is not None and not lives_on(s):
        s.operator.give("restart", RUN, "--yes", codes=(0, REFUSED))
    return agent is not None


@order(2, "a node evicted")
def evicted(s):
    agent = keep_out(s, "evict", "--yes")
    if agent is not None:
        s.operator.out.add(agent.pod.name)
    return agent is not None


@order(1, "a node drained")
def drained(s):
    """Workers confirm it, or the time is over."""
    seconds, confirms = s.random.randrange(1, 8), s.random.random() < 0.5
    agent = keep_out(s, "drain", "--in=%ds" % seconds)
    if agent is None:
        return False
    name = agent.pod.name
    if confirms:
        said = s.operator.key("get", "/rdzvd/drain", codes=(0, 1))  # 1: it trains no more
        if said.returncode == 0:
            s.operator.key("set", "/rdzvd/checkpointed", str(json.loads(said.stdout)["id"]))
            s.note("the drain is confirmed")
    s.after(seconds + 1, lambda: name in s.operator.cordons and s.operator.out.add(name))
    return True


@order(2, "a node let back")
def let_back(s):
    names = sorted(s.operator.cordons)
    if not names:
        return False
    s.operator.uncordon(s.random.choice(names))
    return True


@order(2, "a restart")
def restart(s):
    s.operator.give("restart", RUN, "--yes", codes=(0, REFUSED))  # the nodes are meeting
    return True


@order(1, "a hold")
def hold(s):
    words = ["--until=%d" % len(s.live())] if s.random.random() < 0.3 else []
    seconds = s.random.uniform(1, 15)
    if s.operator.held or not s.job.worlds():
        return False
    if not s.operator.give("hold", RUN, *words, "--yes", codes=(0,) if lives_on(s) else (REFUSED,)):
        return True
    s.operator.held = True
    s.after(seconds, s.operator.release)
    return True


@order(1, "a rule")
def rule(s):
    if not lives_on(s):
        return False
    s.operator.rule(1 if s.operator.multiple == 2 else 2)
    return True


# ------------------------------------------------------------ the log

EVENT = re.compile(r"event=(operator_order|round_complete) ")
FIELD = re.compile(r'(\w+)=("[^"]*"|\S+)')


def check_round(ranks, before, cordons, held, multiple):
    """What is wrong, or None."""
    if sorted(ranks.values()) != list(range(len(ranks))):
        return "ranks"
    if held:
        return "the run is on hold"
    if cordons & set(ranks):
        return "%s is kept out" % sorted(cordons & set(ranks))
    if len(ranks) % multiple != 0:
        return "the size is no multiple of %d" % multiple
    for name, rank in ranks.items():
        if before.get(name, len(ranks)) < len(ranks) and before[name] != rank:
            return "%s had rank %d" % (name, before[name])
    return None


def check_log(text, names_differ):
    """`names_differ`: each node has a host name of its own. Returns how many rounds there were."""
    before, cordons, held, multiple, rounds = {}, set(), False, 1, 0
    for line in text.splitlines():
        match = EVENT.search(line)
        if match is None:
            continue
        fields = {key: value.strip('"') for key, value in FIELD.findall(line)}
        verb = fields.get("order")
        if verb in ("cordon", "evict", "drain"):
            cordons.add(fields["about"])
        elif verb == "uncordon":
            cordons.discard(fields["about"])
        elif verb in ("hold", "release"):
            held = verb == "hold"
        elif verb == "rules":
            multiple = int(fields["reason"].split()[-1])
        if match.group(1) != "round_complete":
            continue
        rounds += 1
        nodes = [word.split("=") for word in fields["ranks"].split()]
        if not names_differ:
            continue
        ranks = {node.split("/")[0]: int(rank) for rank, node in nodes}
        wrong = check_round(ranks, before, cordons, held, multiple)
        if wrong or len(nodes) != len(ranks):
            raise JobFailed("a round of %s: %s; the last one was %s" % (ranks, wrong, before), "wrong round")
        before = ranks
    return rounds
