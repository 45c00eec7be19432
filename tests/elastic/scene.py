"""What the cases of elastic jobs share: a daemon, agents whose state they read, and the status of a run."""

import contextlib
import functools
import http.client
import json
import os
import socket
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support")]
import torch_state as ts  # noqa: E402
from agents import Agent, tool_write  # noqa: E402
from c10d import Peer, modern  # noqa: E402
from cases import check  # noqa: E402
from servers import OPERATOR, Rdzvd, token_flag  # noqa: E402

STATUS = "/rdzv/v1/status"


def same(a, b, what):
    if a != b:
        raise AssertionError("%s: %r, not %r" % (what, a, b))


NUMBER_S = 0.9  # an agent that does not write for so long loses its number (rdzv/rendezvous/numbers.c)


def while_numbers_last(function):
    """A case that fails after more than NUMBER_S runs again: on a machine that stood still, it shows nothing."""
    @functools.wraps(function)
    def repeated():
        for _ in range(8):
            begin = time.monotonic()
            try:
                return function()
            except AssertionError:
                if time.monotonic() - begin < NUMBER_S:
                    raise
        return function()
    return repeated


@contextlib.contextmanager
def daemon(*flags, **kwargs):
    with Rdzvd(token_flag(), *flags, **kwargs) as server:
        try:
            yield server
            same(server.stop(), 0, "exit code")
        except BaseException:
            print("the daemon's log:\n%s" % server.log())
            raise


@contextlib.contextmanager
def store_of_agent_0():
    """Somebody listens where agent 0 says that its store is."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        yield s.getsockname()[1]


def settle(agents, number=0):
    """Agent 0 says where its store is; returns what everybody is told, and that it is the same."""
    with store_of_agent_0() as port:
        agents[0].say_where(number, b"agent-0.example", port)
        told = [a.ask_where(number) for a in agents]
    for t in told:
        same(t, told[0], "what agents are told")
    return told[0]


def http_request(port, method, path):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    c.request(method, path, headers=OPERATOR)
    answer = c.getresponse()
    body = answer.read()
    c.close()
    return answer.status, body


def get_json(port, path):
    status, body = http_request(port, "GET", path)
    same(status, 200, path)
    return json.loads(body)


def status_of(port, run="job"):
    """Returns the run's status, and the status of its space."""
    space = get_json(port, STATUS)["spaces"][0]
    runs = [r for r in space["runs"] if r["id"] == run]
    same(len(runs), 1, "runs of that name")
    return runs[0], space


def await_space(port, condition):
    """Waits until the status of the space fulfills `condition`, and returns it: rdzvd reads other
    connections in iterations of their own."""
    deadline = time.monotonic() + 20
    while True:
        space = get_json(port, STATUS)["spaces"][0]
        if condition(space):
            return space
        check(time.monotonic() < deadline, "waited in vain: %s" % space)


def await_status(port, condition):
    """The run "job" and its space, once `condition` holds of the run."""
    space = await_space(port, lambda s: any(r["id"] == "job" and condition(r) for r in s["runs"]))
    return next(r for r in space["runs"] if r["id"] == "job"), space


def await_agents(port, count):
    """Returns once the daemon has seen that so many agents are left of all runs."""
    while True:
        runs = json.loads(http_request(port, "GET", "/rdzv/v1/spaces/default/status")[1])["runs"]
        if sum(r.get("agents", 0) for r in runs) == count:
            return


def whole(server, agent):
    """The state in the store; agents of a complete round are shown only what concerns them."""
    tool = Peer(server.port)
    state = ts.loads(tool.get(agent.key))
    tool.close()
    return state


def await_state(agent, what, truth):
    """Looks, as agents do, until it is so."""
    deadline = time.monotonic() + 20
    while not truth(agent.read()):
        check(time.monotonic() < deadline, what)
        time.sleep(0.02)
    return agent.state()


def prune(agent, *others):
    """Removes the other agents' nodes from the state, as if they had been silent for torch's 15 s."""
    def change(state):
        for other in others:
            state.participants.pop(other.node, None)
            state.wait_list.discard(other.node)
            state.last_heartbeats.pop(other.node, None)
    tool_write(agent, change)
    return agent.read()


def know_ranks(*agents):
    """Sets the keys that each agent sets once it has read its own rank and the ranks of its workers."""
    for a in agents:
        a.set(a.round_key(a.state().round, b"torchelastic/role_info-%s.FIN" % a.node.addr.encode()), b"x")
        a.ping()


def knock(server, name="b"):
    """An agent whose introduction is sent, and not answered yet."""
    agent = Agent(server.port, "job", name, meet=False)
    agent.send(modern.compare_set(agent.key, b"", ts.SENTINEL))
    return agent


class Filler:
    """Fills a space of 20 KiB to the last byte. Made before any run is: its connections are no
    workers of one."""

    def __init__(self, port):
        self.peers = [Peer(port) for _ in range(16)]
        for p in self.peers:
            p.check(b"/filler")

    def fill(self):
        filled = 0
        for more in (2 ** n for n in range(14, -1, -1)):
            try:
                self.peers[-1].set(b"/filler", b"x" * (filled + more))
                self.peers[-1].ping()
                filled += more
            except (EOFError, ConnectionError):  # full: refused, and its connection with it
                self.peers.pop()

    def make_room(self):
        same(self.peers[-1].delete(b"/filler"), 1, "DELETE_KEY")


def join_value(agent):
    state = agent.state()
    state.participants[agent.node] = 0
    agent.beat(state)
    return ts.dumps(state)


def held(server, *behind):
    """Three agents: the first has joined, b joins next, and c joins after b: rdzvd holds the write of c
    and the requests behind it."""
    first = Agent(server.port, "job", "first")
    first.join()
    b, c = Agent(server.port, "job", "b"), Agent(server.port, "job", "c")
    same([len(a.read().participants) for a in (b, c)], [1, 2], "shown participants")
    c.send(modern.compare_set(c.key, c.seen, join_value(c)) + b"".join(behind))
    check(c.is_silent(first), "held")
    return first, b, c
