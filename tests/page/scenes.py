"""Jobs to look at: scripted agents bring a run into a state that the status page is to show."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "elastic"))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
import torch_state as ts  # noqa: E402
from agents import Agent  # noqa: E402,F401
from c10d import Peer  # noqa: E402,F401


def name_of(i):
    return "node-%04d.train" % i


def node(i):
    return ts.Node(name_of(i), 4000 + i, 0)


def run_key(run, key):
    """A key of the agents of a run over c10d, as its clients write it."""
    return ("/torch.rendezvous.%s.0/%s" % (run, key)).encode()


class Crowd:
    """A run of many nodes, whose state one client sets, as whoever restores one would."""

    def __init__(self, port, run, count):
        self.agent = Agent(port, run, name_of(0), pid=4000)
        self.state = ts.State()
        for i in range(count):
            self.state.participants[node(i)] = i
        self.state.complete = True
        self.change()

    def change(self, wait=()):
        """These nodes wait for the next round; all that are there have a new heartbeat."""
        self.state.wait_list.update(node(i) for i in wait)
        for n in list(self.state.participants) + list(self.state.wait_list):
            self.state.last_heartbeats[n] = ts.now()
        self.agent.set(self.agent.key, ts.dumps(self.state))
        self.agent.ping()

    def close(self):
        self.agent.close()
