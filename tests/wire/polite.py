"""Well-behaved clients, as one process: workers and agents of torch jobs, and clients of etcd. Each of
them knows what its own keys must hold, and compares every answer with that.

    polite.py             reads its orders as JSON from stdin; at the end of stdin it prints its findings and ends

When a daemon has no memory left, it may refuse: it closes a c10d connection, and answers HTTP with an
error. Then the client comes again, and finds either what was there before the request or what the
request asked for; what was acknowledged is there. Each refusal is told, with the name of the connection.
"""

import datetime
import http.client
import json
import os
import random
import select
import socket
import sys
import threading
import time
import traceback
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", folder) for folder in ("support", "elastic")]

import agents                       # noqa: E402
import torch_state as ts            # noqa: E402
from agents import Agent, complete_round  # noqa: E402
from c10d import Peer, modern       # noqa: E402

PATIENCE = 60  # seconds without an answer are a failure; what is too long is for the probe to say


class Wrong(Exception):
    """An answer that must not be."""


class Refused(Exception):
    """The daemon has refused the request, and may have carried it out or not."""


class Unkept(Exception):
    """The daemon has said that it did nothing, for want of memory."""


def same(got, wanted, what):
    if got != wanted:
        raise Wrong("%s: %.300r came, not %.300r" % (what, got, wanted))


class Report:
    """What all of them found."""

    def __init__(self):
        self.lock = threading.Lock()
        self.checks = 0
        self.refused = []  # [when, our name, by whom it was seen]
        self.wrong = []
        self.over = threading.Event()

    def checked(self, count=1):
        with self.lock:
            self.checks += count

    def refusal(self, name, whom):
        with self.lock:
            self.refused.append([time.monotonic(), name, whom])

    def failed(self, whom, why):
        with self.lock:
            self.wrong.append("%s: %s" % (whom, why))
        self.over.set()


def again(report, whom, make):
    """Connects until it succeeds: a daemon without memory takes no connections."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return make()
        except socket.timeout:
            raise Wrong("%s: no answer to a new connection in %d s" % (whom, PATIENCE)) from None
        except (EOFError, ConnectionError) as e:
            report.refusal("", "%s, connecting: %s" % (whom, e))
            if time.monotonic() > deadline:
                raise Wrong("%s: not let in for %d s: %s" % (whom, PATIENCE, e)) from None
            time.sleep(0.01)


def patient(peer):
    peer.socket.settimeout(PATIENCE)
    return peer


# ---- c10d


class Worker:
    """Keys, numbers and queues of its own, each request checked against what they are to hold."""

    def __init__(self, report, port, rng, name):
        self.report, self.port, self.rng, self.name = report, port, rng, name
        self.keys, self.numbers, self.queue, self.queues = {}, {}, [], 0
        self.peer = self.other = None
        self.rounds = 0
        self.connect()

    def connect(self):
        for peer in (self.peer, self.other):
            if peer is not None:
                peer.close()
        self.peer, self.other = (again(self.report, self.name, lambda: patient(Peer(self.port)))
                                 for _ in range(2))

    def key(self, kind):
        return b"%s/%s/%d" % (self.name.encode(), kind, self.rng.randrange(5))

    def queue_key(self):
        return b"%s/queue/%d" % (self.name.encode(), self.queues)

    def value(self):
        """Never empty, because GET answers a missing key with an empty value."""
        return bytes(self.rng.choices(b"abcdef\0\xff", k=self.rng.choice((1, 8, 20, 300, 2000))))

    def run(self):
        while not self.report.over.is_set():
            step = self.rng.choice(STEPS)
            self.hope = None  # (a dict, a key, what it may hold by now) while that is not known
            try:
                step(self)
                self.report.checked()
            except socket.timeout:
                raise Wrong("no answer in %d s to %s" % (PATIENCE, step.__name__)) from None
            except (EOFError, ConnectionError) as e:
                for peer in (self.peer, self.other):
                    self.report.refusal(peer.name, "%s, %s: %s" % (self.name, step.__name__, e))
                self.connect()
                self.find_out()
        self.verify()

    def find_out(self):
        """Which of the two it is, after a request without an answer."""
        self.queues, self.queue = self.queues + 1, []
        if self.hope is None:
            return
        kept, key, new = self.hope
        while True:
            try:
                got = self.peer.get(key)
                break
            except (EOFError, ConnectionError):
                self.report.refusal(self.peer.name, self.name + ", finding out")
                self.connect()
        if kept is self.numbers:
            got = int(got or b"0")
        choices = (kept.get(key, 0 if kept is self.numbers else b""), new)
        if got not in choices:
            raise Wrong("%r holds %.200r after a request without an answer, none of %.200r" % (
                key, got, choices))
        kept[key] = got
        if got in (b"", 0):
            del kept[key]

    def verify(self):
        """All that was acknowledged is there."""
        for key, value in self.keys.items():
            same(self.peer.get(key), value, "at the end, %r" % key)
        for key, value in self.numbers.items():
            same(int(self.peer.get(key) or b"0"), value, "at the end, %r" % key)
        self.report.checked(len(self.keys) + len(self.numbers))

    # Each step is one request, or a few.

    def hold(self, key, value):
        """The request has been sent: until its answer arrives, the key may have the old or the new value."""
        self.hope = (self.keys, key, value)

    def set(self):
        key, value = self.key(b"key"), self.value()
        self.hold(key, value)
        self.peer.set(key, value)
        self.peer.ping()
        self.keys[key] = value

    def get(self):
        key = self.key(b"key")
        same(self.peer.get(key), self.keys.get(key, b""), "GET of %r" % key)

    def add(self):
        key, delta = self.key(b"number"), self.rng.choice((1, 1, 5, -3))
        wanted = self.numbers.get(key, 0) + delta
        self.hope = (self.numbers, key, wanted)
        same(self.peer.add(key, delta), wanted, "ADD at %r" % key)
        self.numbers[key] = wanted

    def compare_set(self):
        key, value = self.key(b"key"), self.value()
        old = self.keys.get(key, b"")
        self.hold(key, value)
        if self.rng.random() < 0.5:
            same(self.peer.cas(key, old, value), value, "COMPARE_SET of %r" % key)
            self.keys[key] = value
        elif key in self.keys:  # (of an absent key, it would answer what was expected)
            self.hope = None
            same(self.peer.cas(key, b"not this", value), old, "a COMPARE_SET of %r that fails" % key)

    def append(self):
        key, more = self.key(b"key"), b"more"
        value = self.keys.get(key, b"") + more
        if len(value) > 4000:
            return
        self.hold(key, value)
        self.peer.append(key, more)
        self.peer.ping()
        self.keys[key] = value

    def delete(self):
        key = self.key(b"key")
        self.hold(key, b"")
        same(self.peer.delete(key), int(key in self.keys), "DELETE_KEY of %r" % key)
        self.keys.pop(key, None)

    def many(self):
        """MULTI_SET is one change: either all its keys have the new values or none has, so one key shows
        the result."""
        key, value = self.key(b"key"), self.value()
        self.hold(key, value)
        self.peer.send(modern.multi_set((key, b"first"), (key, value)))
        self.peer.ping()
        self.keys[key] = value
        keys = [k for k in self.keys if self.keys[k]][:4]
        self.hope = None
        self.peer.send(modern.multi_get(*keys))
        for k in keys:
            same(self.peer.blob(), self.keys[k], "MULTI_GET of %r" % k)

    def check(self):
        keys = list(self.keys)[:3]
        same(self.peer.check(*keys), True, "CHECK of %r" % keys)
        same(self.peer.check(*keys, b"%s/none" % self.name.encode()), False, "CHECK of one more")

    def push(self):
        value = self.value()
        self.peer.push(self.queue_key(), value)
        self.peer.ping()
        self.queue.append(value)

    def pop(self):
        same(self.peer.queue_len(self.queue_key()), len(self.queue), "QUEUE_LEN")
        if self.queue:
            self.peer.send(modern.pop(self.queue_key()))
            same(self.peer.number(), len(self.queue), "QUEUE_POP, how many")
            same(self.peer.blob(), self.queue.pop(0), "QUEUE_POP, what")

    def wait(self):
        """One waits for what the other sets; both see it."""
        self.rounds += 1
        key = b"%s/wait/%d" % (self.name.encode(), self.rounds)
        self.other.wait(key)
        if self.rng.random() < 0.5:
            self.other.send(modern.ping(b"here"))  # read behind the WAIT
            self.other.expect(b"here")
        self.peer.set(key, b"go")
        self.peer.ping()  # it was not refused
        self.other.expect_stop_waiting()
        same(self.other.get(key), b"go", "what was waited for, %r" % key)
        same(self.peer.delete(key), 1, "DELETE_KEY of %r" % key)

    def barrier(self):
        self.rounds += 1
        key = b"%s/barrier/%d" % (self.name.encode(), self.rounds)
        for peer in (self.peer, self.other):
            peer.send(modern.barrier(key, 2))
        waiting = {self.peer.socket: self.peer, self.other.socket: self.other}
        while waiting:  # the first to be refused says so
            ready = select.select(list(waiting), [], [], PATIENCE)[0]
            if not ready:
                raise socket.timeout
            for one in ready:
                waiting.pop(one).expect_stop_waiting()
        same(self.peer.add(key, 0), 2, "how many came to %r" % key)
        same(self.peer.delete(key), 1, "DELETE_KEY of %r" % key)


STEPS = [Worker.set, Worker.set, Worker.get, Worker.get, Worker.add, Worker.add, Worker.compare_set,
         Worker.append, Worker.delete, Worker.many, Worker.check, Worker.push, Worker.pop, Worker.wait,
         Worker.barrier]


# ---- torch's rendezvous


class Job:
    """Agents of one run: they join, say that they live, meet again, and send workers."""

    shows_names = False  # --elastic-fixes=off: an agent is shown the other agents by their own names

    def __init__(self, report, port, rng, name):
        self.report, self.port, self.rng, self.name = report, port, rng, name
        self.names = ["%s-%d" % (name, n) for n in range(3)]
        self.agents = [self.come(n) for n in self.names]
        self.beats = {}
        self.round = -1

    def come(self, name):
        def make():
            agent = patient(Agent(self.port, self.name, name, meet=False))
            agent.seen = agent.cas(agent.key, b"", ts.SENTINEL)
            return agent
        return again(self.report, self.name, make)

    def do(self, agent, what):
        """What an agent does; it comes again when it has been refused."""
        while True:
            try:
                out = what(self.agents[agent])
                self.report.checked()
                return out
            except socket.timeout:
                raise Wrong("no answer in %d s" % PATIENCE) from None
            except (EOFError, ConnectionError) as e:
                self.report.refusal(self.agents[agent].name, "%s: %s" % (self.names[agent], e))
                self.agents[agent].close()
                self.agents[agent] = self.come(self.names[agent])

    def look(self, state, agent):
        """What holds of every state that an agent sees."""
        if state.closed:
            raise Wrong("the run is closed, and no agent closed it")
        if state.round < self.round:
            raise Wrong("round %d came behind round %d" % (state.round, self.round))
        node = self.agents[agent].node
        strange = {n.addr for n in state.participants if n != node and not n.addr.startswith(("rdzvd.", "-rdzvd."))}
        if strange and not self.shows_names:
            raise Wrong("these have a name: %r" % strange)
        # An agent that knows its rank is shown only itself.
        if state.complete and node in state.participants and len(state.participants) not in (
                1, len(self.names)):
            raise Wrong("a complete round without some of its nodes: %r" % state.participants)
        beat = state.last_heartbeats.get(node)
        if node in state.participants and node in self.beats and (
                beat is None or beat < self.beats[node] - datetime.timedelta(seconds=1)):
            raise Wrong("the heartbeat of %s was %s, and is %s" % (node, self.beats[node], beat))
        return state

    def write(self, agent, change):
        """As torch does: repeats the write from each answer, until the answer has the agent's own text or
        the merge of it."""
        def act(a):
            for _ in range(1000):
                state = self.look(a.state(), agent)
                if change(state) is False:
                    return state
                a.beat(state)
                if a.try_write(ts.dumps(state)):
                    self.beats[a.node] = state.last_heartbeats[a.node]
                    return state
            raise Wrong("%s was not let write in 1000 attempts" % a.name)
        return self.do(agent, act)

    def read(self, agent):
        return self.do(agent, lambda a: self.look(a.read(), agent))

    def meet(self, number):
        """All of them join round `number`, and the last one completes it."""
        def begin(state):
            if state.round < number:
                state.complete, state.deadline, state.round = False, None, number
                state.participants, state.wait_list, state.redundancy_list = {}, set(), set()

        def join(state):
            if state.complete and state.round == number:
                return False  # it was done, and the answer was lost
            state.participants[self.agents[at].node] = 0
            if len(state.participants) == len(self.names):
                complete_round(state)
            return True
        if number > 0:  # as if all had left the round before
            self.do(0, lambda a: agents.tool_write(a, begin))
        ranks = {}
        for at in range(len(self.agents)):
            self.read(at)
            self.write(at, join)
        for at in range(len(self.agents)):
            state = self.read(at)
            same((state.complete, state.round), (True, number), "what %s sees" % self.names[at])
            ranks[self.names[at]] = state.participants[self.agents[at].node]
        self.round = number
        same(ranks, {n: i for i, n in enumerate(sorted(self.names))}, "ranks")

    def workers(self, number, listening):
        """Agent 0 says where it would have its workers' store; all are told the same, and workers go
        there. They find no key of another round."""
        def say(a):
            a.say_where(number, b"agent-0.example", listening)
            a.ping()
        self.do(0, say)
        told = [self.do(at, lambda a: a.ask_where(number)) for at in range(len(self.agents))]
        for t in told:
            same(t, told[0], "what agents are told")
        if told[0][1] == listening:
            return  # rdzvd leaves it to agent 0
        peers = []
        try:
            for rank in range(3):
                peers.append(patient(Peer(told[0][1])))
                same(peers[-1].add(b"here", 1), rank + 1, "workers of round %d" % number)
            peers[2].wait(b"id")
            peers[0].set(b"id", b"%d" % number)
            peers[0].ping()
            peers[2].expect_stop_waiting()
            same(peers[2].get(b"id"), b"%d" % number, "what worker 0 set")
            self.report.checked(5)
        except socket.timeout:
            raise Wrong("no answer to a worker in %d s" % PATIENCE) from None
        except (EOFError, ConnectionError) as e:
            for peer in peers:
                self.report.refusal(peer.name, "worker of %s: %s" % (self.name, e))
        finally:
            for peer in peers:
                peer.close()

    def run(self):
        number = 0
        with socket.create_server(("127.0.0.1", 0), backlog=4096) as server:
            listening = server.getsockname()[1]
            while not self.report.over.is_set():
                self.meet(number)
                self.workers(number, listening)
                for _ in range(self.rng.choice((3, 20, 60))):
                    at = self.rng.randrange(len(self.agents))
                    self.write(at, lambda state: True)
                    self.read(self.rng.randrange(len(self.agents)))
                    if self.report.over.wait(self.rng.choice((0, 0.001, 0.02))):
                        return
                number += 1


# ---- etcd


class Client:
    """A directory of its own in etcd's tree."""

    def __init__(self, report, port, rng, name):
        self.report, self.port, self.rng, self.name = report, port, rng, name
        self.root = "/polite/" + name
        self.nodes = {}   # path -> (value, modifiedIndex, createdIndex)
        self.mortal = {}  # path -> (value, when its PUT began, when it had been answered)
        self.index = 0
        self.http = self.watcher = None

    def connection(self):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        c.connect()
        return c

    def ask(self, method, path, form=None, **query):
        """(status, body as JSON); checks what holds of every answer."""
        url = "/v2/keys" + path + ("?" + urllib.parse.urlencode(query) if query else "")
        if self.http is None:
            self.http = again(self.report, self.name, self.connection)
            self.told = "%s:%d" % self.http.sock.getsockname()
        try:
            self.http.request(method, url, urllib.parse.urlencode(form) if form else None,
                              {"Content-Type": "application/x-www-form-urlencoded"} if form else {})
            answer = self.http.getresponse()
            body = answer.read()
        except socket.timeout:
            raise Wrong("no answer in %d s to %s %s" % (PATIENCE, method, url)) from None
        except (OSError, http.client.HTTPException) as e:
            self.report.refusal(self.told, "%s, %s %s: %r" % (self.name, method, url, e))
            self.http.close()
            self.http = None
            raise Refused from None
        if answer.will_close:
            self.http.close()
            self.http = None
        if answer.status >= 500 and b"--memory-limit" in body:
            self.report.refusal("", "%s, %s %s: %d" % (self.name, method, url, answer.status))
            raise Unkept
        index = int(answer.headers.get("X-Etcd-Index", 0))
        if index < self.index:
            raise Wrong("%s %s: X-Etcd-Index %d came behind %d" % (method, url, index, self.index))
        self.index = index
        return answer.status, json.loads(body)

    def path(self):
        return "%s/%s" % (self.root, self.rng.choice(("a", "b", "c", "d/e", "d/f")))

    def value(self):
        """Less than 4 KiB as JSON, because the daemon sends small answers even when memory is short."""
        return "".join(self.rng.choices("abc\"<&\\é\t", k=self.rng.choice((0, 1, 20, 300, 500))))

    def seen(self, node, path, value, what):
        same((node.get("key"), node.get("value")), (path, value), what)
        return value, node["modifiedIndex"], node["createdIndex"]

    def changed(self, path, value, answer, action, was):
        """An answer that says that the node holds that now, and held what we know before."""
        status, body = answer
        same(body.get("action"), action, "%s of %s (%d)" % (action, path, status))
        new = self.seen(body["node"], path, value, action)
        if was is not None:
            same(new[1] > was[1], True, "the index of %s grows" % path)
            prev = body["prevNode"]
            same((prev["value"], prev["modifiedIndex"]), was[:2], "prevNode of %s" % path)
        return new

    def change(self, path, value, act):
        """Does it; what is not answered is looked at. `value` is None for what deletes."""
        was = self.nodes.get(path)
        try:
            new = act(was)
        except Unkept:
            self.check(path)
            return
        except Refused:
            self.find_out(path, value)
            return
        self.keep(path, new)

    def keep(self, path, new):
        if new is None:
            self.nodes.pop(path, None)
        else:
            self.nodes[path] = new

    def until_answered(self, act):
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return act()
            except (Unkept, Refused):
                if time.monotonic() > deadline:
                    raise Wrong("reads were refused for %d s" % PATIENCE) from None
                time.sleep(0.01)

    def find_out(self, path, value):
        """Which of two states it is in, after a change without an answer."""
        status, body = self.until_answered(lambda: self.ask("GET", path))
        was = self.nodes.get(path)
        if status == 404:
            if was is not None and value is not None:
                raise Wrong("%s is gone after a change without an answer" % path)
            self.keep(path, None)
            return
        node = body["node"]
        new = node.get("value"), node["modifiedIndex"], node["createdIndex"]
        if new != was and new[0] != value:
            raise Wrong("%s holds %.200r after a change without an answer, neither %.200r nor %.200r" % (
                path, new, was, value))
        self.keep(path, new)

    def check(self, path):
        """It holds what we know."""
        status, body = self.until_answered(lambda: self.ask("GET", path))
        if path not in self.nodes:
            same((status, body.get("errorCode")), (404, 100), "GET of %s, which is not there" % path)
        else:
            same(status, 200, "GET of %s" % path)
            same(self.seen(body["node"], path, self.nodes[path][0], "GET"), self.nodes[path], "GET")

    # Each step is one request, or a few.

    def put(self):
        path, value = self.path(), self.value()
        self.change(path, value, lambda was: self.changed(
            path, value, self.ask("PUT", path, {"value": value}), "set", was))

    def get(self):
        self.check(self.path())

    def swap(self):
        path, value = self.path(), self.value()
        if path not in self.nodes:
            return
        was = self.nodes[path]
        by = self.rng.choice(("prevIndex", "prevValue"))
        known = was[1] if by == "prevIndex" else was[0]
        if known == "":
            return  # an empty prevValue is none
        self.change(path, value, lambda _: self.changed(
            path, value, self.ask("PUT", path, {"value": value}, **{by: known}), "compareAndSwap", was))

    def swap_fails(self):
        path = self.path()
        try:
            status, body = self.ask("PUT", path, {"value": "never"}, prevValue="no such value")
        except (Unkept, Refused):
            self.check(path)
            return
        wanted = (412, 101) if path in self.nodes else (404, 100)
        same((status, body.get("errorCode")), wanted, "a swap of %s that fails" % path)

    def create(self):
        path, value = self.path(), self.value()
        if path not in self.nodes:
            self.change(path, value, lambda _: self.changed(
                path, value, self.ask("PUT", path, {"value": value}, prevExist="false"), "create", None))
            return
        try:
            status, body = self.ask("PUT", path, {"value": value}, prevExist="false")
        except (Unkept, Refused):
            self.check(path)
            return
        same((status, body.get("errorCode")), (412, 105), "a create of %s, which is there" % path)

    def delete(self):
        path = self.path()

        def act(was):
            status, body = self.ask("DELETE", path)
            if was is None:
                same((status, body.get("errorCode")), (404, 100), "DELETE of %s" % path)
            else:
                same((status, body.get("action")), (200, "delete"), "DELETE of %s" % path)
                same(body["prevNode"]["value"], was[0], "prevNode of DELETE of %s" % path)
        self.change(path, None, act)

    def listing(self):
        """All that is ours, and nothing else."""
        try:
            status, body = self.ask("GET", self.root, recursive="true", sorted="true")
        except (Unkept, Refused):
            return
        if status == 404:
            same(self.nodes, {}, "%s is not there" % self.root)
            return
        got, left = {}, [body["node"]]
        while left:
            node = left.pop()
            left += node.get("nodes", [])
            if not node.get("dir"):
                got[node["key"]] = node.get("value"), node["modifiedIndex"], node["createdIndex"]
        same({p: n for p, n in got.items() if "/ttl" not in p}, self.nodes, "the listing of %s" % self.root)

    def live(self):
        """Keys with a TTL exist until their TTL ends, and then disappear."""
        path = "%s/ttl%d" % (self.root, self.rng.randrange(3))
        if path not in self.mortal:
            began = time.monotonic()
            try:
                status, body = self.ask("PUT", path, {"value": "x", "ttl": 2})
            except (Unkept, Refused):
                # The key may exist or not. This client must know the state of all its keys, so it deletes the key.
                self.until_answered(lambda: self.ask("DELETE", path))
                return
            same(status in (200, 201), True, "PUT of %s: %r" % (path, body))
            self.mortal[path] = began
            return
        try:
            status, body = self.ask("GET", path)
        except (Unkept, Refused):
            return
        age = time.monotonic() - self.mortal[path]
        if status == 404:
            same(body["errorCode"], 100, "GET of %s" % path)
            if age < 1.9:
                raise Wrong("%s is gone after %.2f s of 2" % (path, age))
            del self.mortal[path]
        elif age > PATIENCE:
            raise Wrong("%s is there after %.0f s, and had 2" % (path, age))

    def watch(self):
        """A watch is told of the change that follows, and of that one alone."""
        path, value = self.path(), self.value()
        if path not in self.nodes:
            return
        watcher = again(self.report, self.name, self.connection)
        name = "%s:%d" % watcher.sock.getsockname()
        try:
            watcher.request("GET", "/v2/keys%s?wait=true&waitIndex=%d" % (path, self.index + 1))
            before = self.nodes[path]
            self.change(path, value, lambda was: self.changed(
                path, value, self.ask("PUT", path, {"value": value}), "set", was))
            if self.nodes[path] == before:
                return  # it was refused
            answer = watcher.getresponse()
            if answer.status == 400 and json.loads(answer.read())["errorCode"] == 401:
                return  # a thousand events of others came meanwhile
            event = json.loads(answer.read())
        except socket.timeout:
            raise Wrong("a watch of %s was not told in %d s" % (path, PATIENCE)) from None
        except (OSError, http.client.HTTPException) as e:
            self.report.refusal(name, "%s, a watch of %s: %r" % (self.name, path, e))
            return
        except ValueError:  # no JSON: an answer that was cut off by its end
            self.report.refusal(name, "%s, a watch of %s: cut off" % (self.name, path))
            return
        finally:
            watcher.close()
        if "errorCode" in event or "message" in event:
            if "--memory-limit" not in json.dumps(event):
                raise Wrong("a watch of %s was answered %r" % (path, event))
            self.report.refusal("", "%s, a watch of %s" % (self.name, path))
            return
        same(event.get("action"), "set", "a watch of %s" % path)
        same(self.seen(event["node"], path, value, "a watch"), self.nodes[path], "a watch of %s" % path)

    def run(self):
        steps = [self.put, self.put, self.get, self.get, self.swap, self.swap_fails, self.create,
                 self.delete, self.listing, self.live, self.watch]
        while not self.report.over.is_set():
            self.rng.choice(steps)()
            self.report.checked()
        for path in list(self.nodes):
            self.check(path)
        self.report.checked(len(self.nodes))


# ---- all of them


def main():
    orders = json.loads(sys.stdin.readline())
    report = Report()
    Job.shows_names = orders["shows_names"]

    def begin(kind, place, name):
        def act():
            try:
                rng = random.Random("%s/%s" % (orders["seed"], name))
                kind(report, orders[place], rng, name).run()
            except Wrong as e:
                report.failed(name, e)
            except Exception:  # a fault of ours, or an answer that cannot be read
                report.failed(name, traceback.format_exc())
        thread = threading.Thread(target=act, daemon=True)
        thread.start()
        return thread

    threads = [begin(Worker, "plain", "worker-%d" % n) for n in range(3)] + \
        [begin(Job, "job", "job-a")] + \
        [begin(Client, "plain", "client-%d" % n) for n in range(3)]
    print("ready", flush=True)
    sys.stdin.read()
    report.over.set()
    for thread in threads:
        thread.join(2 * PATIENCE)
        if thread.is_alive():
            report.failed(thread.name, "does not come to an end")
    print(json.dumps({"checks": report.checks, "refused": report.refused, "wrong": report.wrong}),
          flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
