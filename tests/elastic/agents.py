"""Torchrun's agents as scripts: each changes the rendezvous state over a connection of its own. Nothing in here waits
for time.
"""

import datetime
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support")]
import torch_state as ts  # noqa: E402
from c10d import Peer, modern  # noqa: E402

PREFIX = b"/torch.rendezvous."


class Agent(Peer):
    """An agent of run `run`: keeps the value that it saw last, and changes it."""

    def __init__(self, port, run, name, pid=100, ping=True, source=None, meet=True, host="127.0.0.1", nnodes=None):
        super().__init__(port, ping=ping, source=source, host=host)
        self.run = run.encode() if isinstance(run, str) else run
        self.key = PREFIX + self.run
        self.node = ts.Node(name, pid, 0)
        self.attempts = 0
        self.nnodes, self.looks = nnodes, []  # MIN and MAX of its torchrun; the nodes that its answers name
        self.seen = self.cas(self.key, b"", ts.SENTINEL) if meet else None

    def state(self):
        """What it saw last."""
        return ts.State() if self.seen == ts.SENTINEL else ts.loads(self.seen)

    def read(self):
        """One clean sync: WAIT and GET."""
        self.seen = self.wait_get(self.key)
        return self.state()

    def begin_to_read(self):
        self.send(modern.wait(self.key) + modern.get(self.key))

    def end_reading(self):
        self.expect_stop_waiting()
        self.seen = self.blob()
        return self.state()

    def try_write(self, desired):
        """One dirty sync: True when it was the one to write."""
        self.attempts += 1
        self.seen = self.cas(self.key, self.seen, desired)
        if self.nnodes is not None:
            self.answer_looks()
        elif self.is_measured(desired):
            state = self.state()
            state.participants[self.node] = 0
            self.seen = self.cas(self.key, self.seen, ts.dumps(state))
        return self.seen == desired or self.finds_done(desired)

    def is_measured(self, desired):
        """True: it has joined an open round, and is shown a complete one without it, as rdzvd measures MIN and MAX. A script
        that has none joins that round, as no agent of torch does, which ends the measurement."""
        try:
            seen, wanted = ts.loads(self.seen), ts.loads(desired)
        except Exception:
            return False
        return (self.node in wanted.participants and not wanted.complete and seen.complete and not seen.closed and
                self.node not in seen.participants)

    def answer_looks(self):
        """Writes as torch's agent does, until that would only read a second later."""
        for _ in range(100):
            state = self.state()
            if not self.decide(state):
                return
            self.looks.append(len(state.participants))
            self.seen = self.cas(self.key, self.seen, ts.dumps(state))
        raise AssertionError("%s: still writes after 100 attempts" % self.name)

    def decide(self, state):
        """_RendezvousJoinOp of dynamic_rendezvous.py, for nnodes. False: it reads a second later, or is done."""
        (low, high), count, now = self.nnodes, len(state.participants), ts.now()
        if state.closed or (self.node in state.participants and state.complete):
            return False
        if state.complete:
            if self.node in state.wait_list | state.redundancy_list:
                return False
            (state.wait_list if count < high else state.redundancy_list).add(self.node)
            self.beat(state)
        elif self.node not in state.participants:
            state.participants[self.node] = 0
            self.beat(state)
            if count + 1 == low:
                state.deadline = now + datetime.timedelta(seconds=30)
            if count + 1 == high:
                complete_round(state)
        elif low <= count <= high and state.deadline is not None and state.deadline < now:
            complete_round(state)
        elif state.last_heartbeats[self.node] <= now - datetime.timedelta(seconds=5):
            self.beat(state)
        else:
            return False
        return True

    def finds_done(self, desired):
        """Whether the answer, which is another text, has all that it wanted: torch's agent looks at
        the answer, for itself and not for the others, and goes on. If the answer names other nodes, and
        the agent had been shown other nodes, the answer is the whole state: then it has the other nodes
        as the agent wanted them."""
        try:
            seen, wanted = ts.loads(self.seen), ts.loads(desired)
        except Exception:
            return False
        own = [(s.round, s.complete, s.closed, self.node in s.participants,
                self.node in s.wait_list, self.node in s.redundancy_list,
                self.node in s.last_heartbeats) for s in (seen, wanted)]
        if own[0] != own[1] or (self.node in seen.last_heartbeats and
                                seen.last_heartbeats[self.node] < wanted.last_heartbeats[self.node]):
            return False  # a view may show a newer heartbeat than the agent has sent
        for state in (seen, wanted):
            state.__dict__.pop("last_heartbeats")
        return seen.__dict__ == wanted.__dict__ or self.is_short(seen) or self.is_short(wanted)

    def is_short(self, state):
        """True if the text names no other nodes, or only placeholders of rdzvd for other nodes."""
        others = (state.participants.keys() | state.wait_list | state.redundancy_list) - {self.node}
        return all("rdzvd." in node.addr for node in others)

    def write(self, change, attempts=100):
        """As torch does: again from each answer until it succeeds."""
        for _ in range(attempts):
            state = self.state()
            change(state)
            if self.try_write(ts.dumps(state)):
                return self.state()
        raise AssertionError("%s: not written in %d attempts" % (self.name, attempts))

    def beat(self, state, at=None):
        state.last_heartbeats[self.node] = at or ts.now()

    def join(self, complete=False):
        """Until it has joined; or until it finds the round complete, and itself in it."""
        for _ in range(100):
            state = self.state()
            if state.complete and self.node not in state.participants:
                raise AssertionError("joins a complete round")
            if state.complete:
                return state
            state.wait_list.discard(self.node)
            state.participants[self.node] = 0
            self.beat(state)
            if complete:
                complete_round(state)
            if self.try_write(ts.dumps(state)):
                return self.state()
        raise AssertionError("%s: not joined in 100 attempts" % self.name)

    def wait_in_line(self):
        def change(state):
            state.wait_list.add(self.node)
            self.beat(state)
        return self.write(change)

    def leave(self):
        """The round is over, as if all had left it: the next one begins without nodes. A tool writes
        that, since no agent is shown the others."""
        tool_write(self, lambda state: state.__dict__.update(
            complete=False, deadline=None, round=state.round + 1, participants={}, wait_list=set(),
            redundancy_list=set(), last_heartbeats={}))
        return self.read()

    def step_out(self):
        """As each agent that meets the others again: the last one to do so begins the next round."""
        for _ in range(100):
            state = self.state()
            if self.node not in state.participants:
                return state
            del state.participants[self.node]
            state.last_heartbeats.pop(self.node, None)
            if state.complete and not state.participants:
                state.complete = False
                state.round += 1
            self.try_write(ts.dumps(state))
        raise AssertionError("%s: not out in 100 attempts" % self.name)

    def close_run(self):
        def change(state):
            state.closed = True
            self.beat(state)
        return self.write(change)

    def finish(self, number):
        """Its workers have ended well: it adds itself at the exit barrier."""
        return self.add(self.round_key(number, b"torchelastic/agent/terminal_state/num_members"), 1)

    def round_key(self, number, name):
        return b"%s.%d/%s" % (self.key, number, name)

    def say_where(self, number, addr, port):
        """What agent 0 does once a round is complete."""
        self.set(self.round_key(number, b"MASTER_ADDR"), addr)
        self.set(self.round_key(number, b"MASTER_PORT"), b"%d" % port)

    def ask_where(self, number):
        """What all do: (address, port)."""
        return (self.wait_get(self.round_key(number, b"MASTER_ADDR")).decode(),
                int(self.wait_get(self.round_key(number, b"MASTER_PORT"))))


def tool_write(agent, change):
    """Changes the value itself, as a client that is no agent."""
    tool = Peer(agent.socket.getpeername()[1], host=agent.socket.getpeername()[0])
    while True:
        seen = tool.get(agent.key)
        state = ts.loads(seen)
        change(state)
        wanted = ts.dumps(state)
        if tool.cas(agent.key, seen, wanted) == wanted:
            break
    tool.close()


def complete_round(state):
    state.complete = True
    state.deadline = None
    for rank, node in enumerate(sorted(state.participants)):
        state.participants[node] = rank


def meet(port, run, names, full=True, **kwargs):
    """Agents who have completed round 0, in the order of their ranks. `full`: they are MAX, else the last call was over."""
    agents = [Agent(port, run, name, **kwargs) for name in sorted(names)]
    rejoin(agents, full)
    return agents


def read_together(agents):
    """All of them look: if a node waits, each look is held until the last one has come."""
    for a in agents:
        a.begin_to_read()
    return [a.end_reading() for a in agents]


def rejoin(agents, full=True):
    """All of them join the round that has begun, and the last one completes it."""
    for a in agents:
        state = a.join(complete=full and a is agents[-1])
    if not full:
        agents[-1].write(complete_round)
    for a in agents:
        a.read()
    return state
