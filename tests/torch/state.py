"""Makes rendezvous states with the torch that runs it, and reads them: run_state.py's hands in each
release. What a state says is told as state_tool.c tells it.

    state.py make SEED             one JSON object in a line for each state: its name, its value and its
                                   content (`null`: the tool must reject the value)
    state.py check                 reads lines of name, value and what it should say; prints one for
                                   each
    state.py view                  reads lines of views; prints what torch knows and writes of each
    state.py corpus DIR RELEASE    small states for the fuzzer, one file each
"""

import base64
import copy
import datetime
import json
import os
import pickle
import random
import sys

import torch
from torch.distributed.elastic.rendezvous import dynamic_rendezvous as dynamic
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import _NodeDesc, _RendezvousState

OLD = torch.__version__.startswith("1.")
UTC = datetime.timezone.utc
ZONE = None if OLD else UTC
EPOCH = datetime.datetime(1970, 1, 1)
POD = "trainer-worker-%d.trainer-headless.team-namespace.svc.cluster"

dynamic.construct_and_record_rdzv_event = lambda **_: None  # only a record of events


def encode(bits):
    return base64.b64encode(bits).decode()


def micros(time):
    return (time.replace(tzinfo=None) - EPOCH) // datetime.timedelta(microseconds=1)


def describe(state, bits):
    redundancy = getattr(state, "redundancy_list", None)
    nodes = set(state.participants) | state.wait_list | set(state.last_heartbeats)
    nodes |= redundancy or set()
    times = list(state.last_heartbeats.values()) + ([state.deadline] if state.deadline else [])
    kept = redundancy is not None
    rows = []
    for node in sorted(nodes):
        addr = node.fqdn if hasattr(node, "fqdn") else node.addr
        beat = state.last_heartbeats.get(node)
        rows.append([addr.encode().hex(), node.pid, node.local_id, state.participants.get(node),
                     node in state.wait_list, kept and node in redundancy,
                     None if beat is None else micros(beat)])
    return {
        "round": state.round, "complete": state.complete, "closed": state.closed,
        "deadline": None if state.deadline is None else micros(state.deadline),
        "fqdn": hasattr(next(iter(nodes)), "fqdn") if nodes else not kept,
        "aware": times[0].tzinfo is not None if times else kept,
        "redundancy": kept, "protocol": bits[1], "nodes": rows,
    }


class Agents:
    """Agents of one job who hand the state on, changed by torch's own code."""

    def __init__(self, rng, count, name):
        settings = dynamic.RendezvousSettings(
            run_id="r", min_nodes=max(1, count // 2), max_nodes=max(1, count * 3 // 4),
            timeout=dynamic.RendezvousTimeout(),
            keep_alive_interval=datetime.timedelta(seconds=5), keep_alive_max_attempt=3)
        self.rng, self.state = rng, _RendezvousState()
        self.executors = []
        for i in rng.sample(range(count * 2), count):
            node = _NodeDesc(name(i), rng.choice([1, 7, 200, 255, 256, 65535, 65536, 4194304]),
                             rng.choice([0, 0, 0, 1, 300]))
            self.executors.append(dynamic._DistributedRendezvousOpExecutor(node, None, settings))

    def act(self, executor):
        """One change, as the agent could make it."""
        rng, state, node = self.rng, self.state, executor._node
        executor._state = state
        if node in state.last_heartbeats and rng.random() < 0.4:
            executor._keep_alive()
        elif node in state.participants:
            if rng.random() < 0.2:
                executor._remove_from_participants()
        elif node in state.wait_list:
            executor._remove_from_wait_list()
        elif node in getattr(state, "redundancy_list", ()):
            executor._remove_from_redundancy_list()
        elif not state.complete:
            executor._add_to_participants()
        elif not OLD and hasattr(state, "redundancy_list") and rng.random() < 0.4:
            executor._add_to_redundancy_list()
        else:
            executor._add_to_wait_list()
        if not state.complete and state.deadline and rng.random() < 0.1:
            executor._mark_rendezvous_complete()
        if rng.random() < 0.002:
            executor._mark_rendezvous_closed()

    def run(self, changes):
        for _ in range(changes):
            self.act(self.rng.choice(self.executors))
            if self.rng.random() < 0.7:  # else two agents share a process
                self.state = pickle.loads(pickle.dumps(self.state))
        return self.state


def filled(count, name=POD, kinds="ph", pid=7):
    """A state of so many nodes: p, w, r and h are its four lists."""
    state = _RendezvousState()
    now = datetime.datetime(2026, 11, 21, 0, 0, 0, 1, tzinfo=ZONE)
    for i in range(count):
        node = _NodeDesc(name % i, pid, 0)
        if "p" in kinds:
            state.participants[node] = i
        if "w" in kinds:
            state.wait_list.add(node)
        if "r" in kinds and hasattr(state, "redundancy_list"):
            state.redundancy_list.add(node)
        if "h" in kinds:
            state.last_heartbeats[node] = now + datetime.timedelta(milliseconds=i)
    return state


def one(addr="n", pid=1, local_id=0, rank=0):
    state = _RendezvousState()
    node = _NodeDesc(addr, pid, local_id)
    state.participants[node] = rank
    state.last_heartbeats[node] = datetime.datetime(2026, 11, 21, tzinfo=ZONE)
    return state


def changed(state, **attributes):
    for name, value in attributes.items():
        setattr(state, name, value)
    return state


def without(state, name):
    delattr(state, name)
    return state


def fixed_states():
    """Name and state; some things no agent would do, but torch's classes can hold."""
    yield "fresh", _RendezvousState()
    for count in (1, 2, 3, 30, 85, 255, 256, 257, 500, 1000):
        yield "%d nodes" % count, filled(count)
    for count in (999, 1000, 1001, 2000, 2001):
        yield "%d nodes, all lists" % count, filled(count, "n%d", "pwrh")
    for count in (1, 2, 999, 1000, 1001, 2000):
        yield "%d waiting" % count, filled(count, POD, "wh")
        yield "%d waiting without heartbeats" % count, filled(count, "10.0.0.%d", "w")
    yield "1 spare", filled(1, POD, "rh")
    yield "40 spare", filled(40, POD, "rh")
    yield "heartbeats alone", filled(20, POD, "h")
    yield "participants alone", filled(20, POD, "p")
    yield "4096 nodes", filled(4096)
    for number in (-1, -128, -129, 255, 256, 65535, 65536, 2**31 - 1, 2**31, -2**31, -2**31 - 1,
                   2**39 - 1, 2**39, -2**39, -2**39 - 1, 2**47, 2**55 - 1, 2**55, -2**55,
                   -2**55 - 1, 2**63 - 1, -2**63):
        yield "pid %d" % number, one(pid=number)
        yield "local id and rank %d" % number, one(local_id=number, rank=number)
        yield "round %d" % number, changed(one(), round=number)
    for addr in ("", "a", "x" * 254, "x" * 255, "x" * 256, "x" * 1023, "h\u00f6st", "\u4e3b\u673a",
                 "\U0001f600", "\0", "addr", "datetime", "wait_list", "\ud7ff\ue000"):
        yield "address %r" % addr[:20], one(addr)
    for addr in ("addr", "fqdn", "pid", "wait_list", "last_heartbeats", "datetime"):
        yield "address that is the very %s" % addr, one(sys.intern(addr))
    shared = "10.1.2.3"
    state = filled(0)
    for i in range(300):
        node = _NodeDesc(shared, 1, i)
        state.participants[node] = i
        state.last_heartbeats[node] = datetime.datetime(2026, 11, 21, tzinfo=ZONE)
    yield "one address object", state
    state, texts = filled(0), ["x" * 500 + end for end in ("yz", "yz")]
    assert texts[0] is not texts[1]
    def time():  # torch makes a new one for each node
        return datetime.datetime(2026, 11, 21, tzinfo=ZONE)
    for i in range(300):
        node = _NodeDesc(texts[i % 2], 1, i)
        state.participants[node] = i
        state.last_heartbeats[node] = time()
    yield "an address of two objects, and equal times", state
    yield "these, with that deadline", changed(copy.deepcopy(state), deadline=time())
    state = filled(5, kinds="p")
    for node in state.participants:
        state.last_heartbeats[_NodeDesc(*[getattr(node, a) for a in node.__dict__])] = time()
    yield "nodes of several objects, and equal times", changed(state, deadline=time())
    for time in (datetime.datetime.min, datetime.datetime.max, EPOCH,
                 datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
                 datetime.datetime(2000, 2, 29), datetime.datetime(2100, 3, 1),
                 datetime.datetime(2024, 12, 31, 23, 59, 59)):
        yield "deadline %s" % time, changed(one(), deadline=time.replace(tzinfo=ZONE))
    yield "deadline alone", changed(filled(0), deadline=EPOCH.replace(tzinfo=ZONE))
    yield "the other kind of time", changed(
        filled(3, kinds="p"), deadline=EPOCH.replace(tzinfo=UTC if OLD else None))


class Other:
    pass


class Text(str):
    pass


def foreign_states():
    """Yields names and states that torch would not write, or only perhaps."""
    aware, naive = EPOCH.replace(tzinfo=UTC), EPOCH
    hour = datetime.timezone(datetime.timedelta(hours=1))
    yield "aware and naive times", changed(one(), deadline=naive if ZONE else aware)
    yield "time of another zone", changed(filled(0), deadline=EPOCH.replace(tzinfo=hour))
    yield "zone with a name", changed(
        filled(0), deadline=EPOCH.replace(tzinfo=datetime.timezone(datetime.timedelta(0), "Z")))
    yield "folded time", changed(filled(0), deadline=EPOCH.replace(tzinfo=ZONE, fold=1))
    yield "a date", changed(filled(0), deadline=datetime.date(2026, 1, 1))
    yield "a timedelta", changed(filled(0), deadline=datetime.timedelta(0))
    for value in (1.5, float("nan"), None, "0", b"0", (), [], 2**63, -2**63 - 1, 2**64, 2**2000,
                  True, 1j):
        yield "round %.20r" % (value,), changed(_RendezvousState(), round=value)
        if value != []:  # which no key can hold
            yield "pid %.20r" % (value,), one(pid=value)
        yield "rank %.20r" % (value,), one(rank=value)
    for value in (0, 1, None, "True", []):
        yield "complete %r" % (value,), changed(_RendezvousState(), complete=value)
        yield "closed %r" % (value,), changed(_RendezvousState(), closed=value)
    for value in (0, False, 1.5, "", b""):
        yield "deadline %r" % (value,), changed(_RendezvousState(), deadline=value)
    for value in (None, b"n", 5, ("n",), Text("n")):
        yield "address %r" % (value,), one(addr=value)
    yield "address of 1024", one("x" * 1024)
    yield "address of 70000", one("x" * 70000)
    for name in ("participants", "last_heartbeats"):
        for value in (None, [], set(), frozenset(), {"n": 0}, {1: 2}):
            yield "%s %r" % (name, value), changed(_RendezvousState(), **{name: value})
    for value in (None, [], {}, frozenset(), {"n"}, {1}, {()}):
        yield "wait_list %r" % (value,), changed(_RendezvousState(), wait_list=value)
    for name in ("round", "complete", "deadline", "closed", "participants", "wait_list",
                 "last_heartbeats"):
        yield "without %s" % name, without(one(), name)
        state = one()
        yield "%s out of order" % name, changed(without(one(), name),
                                                **{name: getattr(state, name)}) \
            if name != "last_heartbeats" else changed(without(state, "round"), round=0)
    yield "one more attribute", changed(one(), more=1)
    yield "a node more", changed(_RendezvousState(), wait_list={_RendezvousState()})
    yield "itself", (lambda s: changed(s, deadline=s))(_RendezvousState())
    for value in (_NodeDesc("n", 1, 0), Other(), Other, os.system, [], {}, "text", 7, None, 1.5):
        yield "%.40r alone" % (value,), value


def make(seed):
    def put(name, bits, says):
        print(json.dumps({"name": name, "value": encode(bits), "says": says}))

    for name, state in fixed_states():
        bits = pickle.dumps(state)
        put(name, bits, describe(state, bits))
        again = pickle.dumps(pickle.loads(bits))
        if again != bits:
            put(name + ", twice", again, describe(state, again))
        for protocol in (4, 5):
            if protocol != bits[1]:
                other = pickle.dumps(state, protocol=protocol)
                put("%s, protocol %d" % (name, protocol), other, describe(state, other))
    for name, state in foreign_states():
        put("not mine: " + name, pickle.dumps(state), None)
    for protocol in (0, 1, 2, 3):
        put("not mine: protocol %d" % protocol, pickle.dumps(one(), protocol=protocol), None)
    rng = random.Random(seed)
    for i in range(40):
        count = rng.choice([1, 2, 3, 4, 8, 40, 200])
        name = rng.choice([lambda i: "node-%d" % i, lambda i: POD % i,
                           lambda i: "10.0.%d.%d" % divmod(i, 256)])
        state = Agents(rng, count, name).run(rng.randrange(1, 6 * count + 2))
        bits = pickle.dumps(state)
        put("agents %d of seed %d" % (i, seed), bits, describe(state, bits))


def check_one(case):
    bits = base64.b64decode(case["value"], validate=True)
    state = pickle.loads(bits)
    if type(state) is not _RendezvousState:
        return "loads as a %s" % type(state)
    says = describe(state, bits)
    if says != case["says"]:
        return "says %s" % json.dumps(says)
    again = pickle.dumps(state, protocol=bits[1])
    sets = [state.wait_list, getattr(state, "redundancy_list", set())]
    if max(map(len, sets)) <= 1 and again != bits:
        return "torch writes %s" % encode(again)
    return None


def check():
    for line in sys.stdin:
        case = json.loads(line)
        print(json.dumps({"name": case["name"], "fault": check_one(case)}), flush=True)


def view():
    """An agent reads its rank and the size of its world, and may send a heartbeat."""
    for line in sys.stdin:
        state = pickle.loads(base64.b64decode(json.loads(line), validate=True))
        own = next(iter(state.last_heartbeats))
        state.last_heartbeats[own] += datetime.timedelta(seconds=5)
        print(json.dumps({"rank": state.participants[own], "world": len(state.participants),
                          "value": encode(pickle.dumps(state))}))


def corpus(folder, release):
    rng = random.Random(1)
    small = {
        "fresh": _RendezvousState(), "one": one(), "two": filled(2),
        "joining": changed(filled(2, "node-%d"), deadline=EPOCH.replace(2026, tzinfo=ZONE)),
        "complete": changed(filled(3, "node-%d"), complete=True, round=3),
        "closed": changed(filled(2, "node-%d"), complete=True, closed=True),
        "waiting": filled(2, "node-%d", "wh"), "all-lists": filled(3, "n%d", "pwrh"),
        "numbers": one("h\u00f6st", -5, 2**40, 70000), "long-name": one("x" * 300),
        "heartbeats": filled(2, "n%d", "h"), "memo-over-255": filled(34, "n%d"),
        "agents": Agents(rng, 4, lambda i: "node-%d" % i).run(30),
    }
    for name, state in small.items():
        with open(os.path.join(folder, "torch-%s-%s" % (release, name)), "wb") as f:
            f.write(pickle.dumps(state))


if __name__ == "__main__":
    {"make": lambda: make(int(sys.argv[2])), "check": check, "view": view,
     "corpus": lambda: corpus(sys.argv[2], sys.argv[3])}[sys.argv[1]]()
