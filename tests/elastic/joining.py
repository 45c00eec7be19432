"""Compare-and-sets: heartbeats, joins that rdzvd puts in order, and a store without the repairs of elastic jobs."""

import datetime
import random
import selectors

import torch_state as ts
from agents import PREFIX, Agent, meet, rejoin
from c10d import Peer, modern
from cases import case, check
from scene import await_agents, daemon, held, join_value, same, settle, status_of, while_numbers_last, whole


@case
def heartbeats_of_two_agents_do_not_conflict():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        at = {}
        for agent in (a, b):  # each has seen the state before the heartbeat of the other
            state = agent.state()
            agent.beat(state)
            at[agent.node] = state.last_heartbeats[agent.node]
            check(agent.try_write(ts.dumps(state)), "%s is written" % agent.node)
        state = whole(server, a)
        same((state.round, state.complete, state.participants), (0, True, {a.node: 0, b.node: 1}),
             "nothing else has changed")
        for node, wanted in at.items():  # by the daemon's clock
            check(abs(state.last_heartbeats[node] - wanted) < datetime.timedelta(seconds=5), node)


@case
def the_value_of_a_tool_is_stored_byte_for_byte():
    with daemon() as server:
        a = Agent(server.port, "job", "a")
        a.join()
        tool = Peer(server.port)
        seen = tool.wait_get(a.key)
        state = ts.loads(seen)
        # An order of nodes and a protocol that the daemon would not choose itself.
        for name in ("z", "m", "b", "\u00e4"):
            state.participants[ts.Node(name, 7, 1)] = 0
            state.last_heartbeats[ts.Node(name, 7, 1)] = ts.now()
        for protocol in (4, 5):
            state.round += 1
            value = ts.dumps(state, protocol)
            same(tool.cas(a.key, seen, value), value, "the answer")
            seen = tool.wait_get(a.key)
            same(seen, value, "the value")


@case
def a_value_that_is_no_state_is_stored_unchanged():
    with daemon() as server:
        a, b = Agent(server.port, "job", "a"), Agent(server.port, "job", "b")
        values = [b"non_base64", b"", b"AAAA", b"\0\xff", b"gASVCgAAAAAAAACMBnN5c3RlbZQu",
                  ts.SENTINEL, ts.SENTINEL + b"\n", ts.dumps(ts.State())[:-8]]
        for value in values:
            a.set(a.key, value)
            a.ping()
            same(b.get(b.key), value, "SET")
            same(b.cas(b.key, b"something else", b"x"), value, "a failed COMPARE_SET")
            same(b.cas(b.key, value, value + b"!"), value + b"!", "COMPARE_SET")
        a.set(a.key, ts.SENTINEL)
        a.read()
        b.read()
        rejoin([a, b])
        same(settle([a, b]), ("127.0.0.1", server.port), "and it can still become a run")


def stale_agents(server, count, run="job"):
    """Agents who all have seen the state before the latest: their next write must fail."""
    agents = [Agent(server.port, run, "n%03d" % i) for i in range(count)]
    agents[0].first = Agent(server.port, run, "first")  # it stays connected
    agents[0].first.join()
    return agents


def join_all_at_once(agents):
    """All agents send their write at once, and repeat it from each answer; returns the number of writes
    of each agent."""
    ready = selectors.DefaultSelector()
    for a in agents:
        a.attempts = 1
        a.wanted = join_value(a)
        a.send(modern.compare_set(a.key, a.seen, a.wanted))
        ready.register(a.socket, selectors.EVENT_READ, a)
    left = len(agents)
    while left:
        events = ready.select(20)
        check(events, "%d agents were never answered" % left)
        for event, _ in events:
            a = event.data
            a.seen = a.blob()
            if a.finds_done(a.wanted):
                left -= 1
                continue
            a.attempts += 1
            a.wanted = join_value(a)
            a.send(modern.compare_set(a.key, a.seen, a.wanted))
    return [a.attempts for a in agents]


@case
@while_numbers_last
def agents_that_join_together_write_once():
    with daemon() as server:
        agents = stale_agents(server, 50)
        for a in agents:
            a.read()
        random.Random(1).shuffle(agents)
        same(join_all_at_once(agents), [1] * 50, "attempts")
        same(len(whole(server, agents[0]).participants), 51, "all are in")


@case
def each_stale_writer_needs_two_attempts():
    """All have seen that no agent has joined; the answer to the first attempt has their numbers."""
    with daemon() as server:
        agents = stale_agents(server, 50)
        same(join_all_at_once(agents), [2] * 50, "attempts")
        same(len(whole(server, agents[0]).participants), 51, "all are in")


@case
@while_numbers_last
def a_join_before_its_turn_is_held():
    with daemon() as server:
        first, b, c = held(server)
        first.write(first.beat)
        check(c.is_silent(first), "a heartbeat is not held, and changes nothing for others")
        newcomer = Agent(server.port, "job", "new")
        same(len(newcomer.read().participants), 3, "participants before the newcomer")
        check(b.try_write(join_value(b)), "the next one")
        c.seen = c.blob()
        check(c.node in c.state().participants, "the one after it")
        check(newcomer.try_write(join_value(newcomer)), "and the newcomer")
        same(len(whole(server, c).participants), 4, "participants")


@case
@while_numbers_last
def the_number_of_a_dead_agent_goes_to_another_agent():
    with daemon() as server:
        first, b, c = held(server)
        b.close()
        c.seen = c.blob()
        check(c.node not in c.state().participants, "refused")
        same(len(c.state().participants), 1, "shown participants")
        check(c.try_write(join_value(c)), "in place of the dead one")
        same(len(whole(server, c).participants), 2, "participants")
        first.close()


@case
@while_numbers_last
def the_number_of_a_stalled_agent_goes_to_another_agent():
    with daemon() as server:
        first, b, c = held(server)
        c.seen = c.blob()  # a second later
        check(c.try_write(join_value(c)), "in place of the one that stalls")
        check(not b.try_write(join_value(b)), "its number is taken")
        check(b.try_write(join_value(b)), "it has another one")
        same(len(whole(server, c).participants), 3, "participants")
        first.close()


@case
@while_numbers_last
def an_agent_whose_join_is_held_may_leave():
    with daemon() as server:
        first, b, c = held(server)
        c.close()
        check(b.try_write(join_value(b)), "the next one")
        await_agents(server.port, 2)
        same(sorted(n.addr for n in whole(server, b).participants), ["b", "first"],
             "no one that has gone has written")
        first.close()


@case
@while_numbers_last
def requests_behind_a_held_join_are_answered_in_order():
    none = modern.get(b"/torch.rendezvous.none")
    with daemon() as server:
        first, b, c = held(server, none, modern.set(b"/torch.rendezvous.other.0/k", b"v"),
                           modern.get(b"/torch.rendezvous.other.0/k"), none[:-3])
        b.join()
        c.seen = c.blob()
        check(c.node in c.state().participants, "COMPARE_SET")
        same(c.blob(), b"", "GET")
        same(c.blob(), b"v", "GET of what was set in between")
        check(c.is_silent(first), "half a request is not answered")
        c.send(none[-3:])
        same(c.blob(), b"", "GET whose end came late")


@case
@while_numbers_last
def a_large_request_may_follow_a_held_join():
    with daemon() as server:
        _, b, c = held(server)
        big = modern.compare_set(b"/torch.rendezvous.none", b"stale", bytes(3 << 20))
        c.send(big[:1 << 16])
        b.join()
        c.seen = c.blob()
        check(c.node in c.state().participants, "COMPARE_SET")
        c.send(big[1 << 16:])
        same(c.blob(), b"stale", "COMPARE_SET of a key that is not there")


@case
def the_first_agent_tells_min_and_max():
    for low, high, looks in [(2, 2, 1), (4, 4, 4), (8, 8, 5), (64, 64, 8), (2, 3, 4), (2, 4, 5), (1, 4, 3), (5, 100, 22), (1, 1, 0)]:
        with daemon() as server:
            first = Agent(server.port, "job", "first", nnodes=(low, high))
            first.answer_looks()
            same(len(first.looks) - 1, looks, "looks for %d:%d" % (low, high))
            state = whole(server, first)
            same((list(state.participants), state.wait_list | state.redundancy_list, state.complete),
                 ([first.node], set(), high == 1), "the state in the store")
            if high > 1:
                server.wait_log("event=size_known space=default run=job round=0 min=%d max=%d$" % (low, high))
            run, _ = status_of(server.port)
            same((run["min"], run["max"], run["missing_count"]), (low, high, low - 1), "the status")
            same(run["hints"], [], "hints")
            check("node_left" not in server.log(), "nothing that it was asked was done")


@case
def others_join_while_the_first_agent_is_measured():
    with daemon() as server:
        first, *others = (Agent(server.port, "job", name, nnodes=(2, 4)) for name in "abcd")
        first.seen = first.cas(first.key, first.seen, join_value(first))
        check(first.state().complete and first.node not in first.state().participants, "a look")
        for agent in others:
            agent.read()
            agent.answer_looks()
            same(len(agent.looks), 1, "writes of the others")
        check(others[2].state().complete, "the last one completes the round")
        first.answer_looks()
        check(first.state().complete and first.node in first.state().participants, "the first one is in it")
        same(len(first.looks), 1, "looks after that")
        same(sorted(whole(server, first).participants.values()), [0, 1, 2, 3], "ranks")


@case
def an_answer_that_is_none_of_torchs_ends_the_measurement():
    def beats(agent):
        state = agent.state()
        agent.beat(state)
        agent.seen = agent.cas(agent.key, agent.seen, ts.dumps(state))

    def joins(agent):
        agent.seen = agent.cas(agent.key, agent.seen, join_value(agent))

    for answer in beats, joins, Agent.read:
        with daemon() as server:
            agent = Agent(server.port, "job", "a")
            joins(agent)
            check(agent.state().complete and agent.node not in agent.state().participants, "a look")
            answer(agent)
            state = agent.state()
            check(agent.node in state.participants and not state.complete, "it has joined: %r" % state.participants)
            agent.write(agent.beat)
            same(list(whole(server, agent).participants), [agent.node], "the state in the store")
            check("event=size_known" not in server.log(), "nothing is known")


class Plain:
    """TCPStore as it is: what each request answers and leaves behind."""

    def __init__(self):
        self.keys = {}

    def set(self, key, value):
        self.keys[key] = value

    def cas(self, key, expected, desired):
        if key not in self.keys and expected:
            return expected
        if self.keys.get(key, b"") == expected:
            self.keys[key] = desired
        return self.keys[key]

    def get(self, key):
        return self.keys.get(key, b"")

    def add(self, key, delta):
        self.keys[key] = b"%d" % (int(self.keys.get(key, b"0")) + delta)
        return int(self.keys[key])

    def check(self, *keys):
        return all(k in self.keys for k in keys)

    def count(self):
        return len(self.keys)


@case
def without_fixes_each_answer_is_that_of_a_plain_store():
    rng = random.Random(5)
    with daemon("--elastic-fixes=off", "--closed-run-ttl", "1ms", "--idle-run-ttl", "1ms") as server:
        model = Plain()
        peers = [Peer(server.port, ping=rng.random() < 0.7) for _ in range(8)]
        keys = [PREFIX + k for k in (b"j", b"j.0/MASTER_ADDR", b"j.0/MASTER_PORT", b"j.1/x", b"k")]
        keys += [b"/w", b"init/"]
        nodes = [ts.Node("n%d" % i, 1, 0) for i in range(4)]
        values = [ts.SENTINEL, b"127.0.0.1", b"1234"]
        for _ in range(1500):
            key, what = rng.choice(keys), rng.randrange(8)
            if rng.random() < 0.1:
                n = rng.randrange(len(peers))
                peers[n].count()
                peers[n].close()
                peers[n] = Peer(server.port)
            p = rng.choice(peers)
            state = ts.State()
            state.round, state.closed = rng.randrange(3), rng.random() < 0.2
            state.complete = rng.random() < 0.5
            for n in rng.sample(nodes, rng.randrange(5)):
                state.participants[n] = 0
                state.last_heartbeats[n] = ts.now()
            values.append(ts.dumps(state))
            value = rng.choice(values[-9:])
            if what < 3:
                expected = rng.choice([model.get(key), model.get(key), b"", rng.choice(values)])
                same(p.cas(key, expected, value), model.cas(key, expected, value), "COMPARE_SET")
            elif what == 3:
                p.set(key, value)
                model.set(key, value)
                p.count()
            elif what == 4:
                same(p.add(b"/n", 3), model.add(b"/n", 3), "ADD")
            elif what == 5:
                same(p.check(key, b"/w"), model.check(key, b"/w"), "CHECK")
            elif model.check(key) and what == 6:
                same(p.wait_get(key), model.get(key), "WAIT and GET")
            else:
                same(p.get(key), model.get(key), "GET")
            same(p.count(), model.count(), "GETNUMKEYS")
        for event in ("run_", "node_", "workers_", "repaired", "last_call", "round_complete"):
            check("event=" + event not in server.log(), "%s is logged" % event)


@case
def without_fixes_stale_writes_fail_as_with_torch():
    with daemon("--elastic-fixes=off") as server:
        a, b, c = stale_agents(server, 3)
        for agent in (a, b, c):
            check(not agent.try_write(join_value(agent)), "stale, and answered at once")
        check(a.try_write(join_value(a)), "the first")
        check(not b.try_write(join_value(b)), "stale again")
