"""Jobs to look at: scripted agents bring a run into a state that the status page is to show."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "elastic"))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
import torch_state as ts  # noqa: E402
from agents import Agent, Peer  # noqa: E402,F401


def name_of(i):
    return "node-%04d.train" % i


def node(i):
    return ts.Node(name_of(i), 4000 + i, 0)


class Crowd:
    """A run of many nodes, all written by one agent: rdzvd takes them as it takes those that have
    come through agents before it was started."""

    def __init__(self, port, run, count):
        self.agent = Agent(port, run, name_of(0), pid=4000)
        self.agent.write(lambda state: self.fill(state, count))

    @staticmethod
    def fill(state, count):
        for i in range(count):
            state.participants[node(i)] = i
            state.last_heartbeats[node(i)] = ts.now()
        state.complete = True

    def change(self, wait=(), beat=True):
        """These nodes wait for the next round beside it; all that are there have a new heartbeat."""
        def write(state):
            state.wait_list.update(node(i) for i in wait)
            for n in list(state.participants) + list(state.wait_list):
                state.last_heartbeats[n] = ts.now()
        self.agent.write(write)

    def close(self):
        self.agent.close()
