"""What rdzvd does for torch's elastic agents, over the wire: agents and workers here are scripts, so
that each case chooses who says what when. (With real torchrun: ../torch/repair.py.)

    run.py [--steps N] [--seed N] [NAME...]
                        all cases, or those with one of these words in their name; the fuzzing case
                        takes N steps (10000) from seed N (1)

The daemon is $RDZVD, else the one in build/. Everything stays on loopback; cases run side by side.
"""

import argparse
import concurrent.futures
import contextlib
import datetime
import http.client
import json
import os
import random
import re
import selectors
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import fuzz  # noqa: E402
import torch_state as ts  # noqa: E402
from agents import PREFIX, Agent, complete_round, meet, read_together, rejoin, tool_write  # noqa: E402
from c10d import NONCE, Peer, modern, number  # noqa: E402
from cases import CASES, case, check  # noqa: E402
from servers import OPERATOR, Rdzvd, free_port, free_ports, token_flag  # noqa: E402

TURN = 0.1  # about how long one who was told the newest state may take to write it
SHORT_TURN = 0.02  # when all others have been quick
OPTIONS = None


def same(a, b, what):
    if a != b:
        raise AssertionError("%s: %r, not %r" % (what, a, b))


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


def prune(agent, *others):
    """Removes the other agents' nodes from the state, as if they had been silent for torch's 15 s."""
    def change(state):
        for other in others:
            state.participants.pop(other.node, None)
            state.wait_list.discard(other.node)
            state.last_heartbeats.pop(other.node, None)
    tool_write(agent, change)
    return agent.read()


# ------------------------------------------------------------ where the workers' store is


@case
def each_round_has_fresh_keys_and_old_connections_keep_theirs():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        same(settle([a, b]), ("127.0.0.1", server.port), "the workers' store")
        first = Peer(server.port)
        same(first.add(b"init/", 1), 1, "ADD in the first round")
        first.set(b"/default_pg/0//cpu//0/0", b"first")
        a.leave()
        b.read()
        rejoin([a, b])
        same(a.ask_where(1), ("127.0.0.1", server.port), "told without agent 0's saying so")
        second = Peer(server.port)
        same(second.count(), 0 + a.count(), "a connection that named no key counts the space's")
        same(second.add(b"init/", 1), 1, "ADD in the second round")
        check(not second.check(b"/default_pg/0//cpu//0/0"), "a stale key")
        same(first.get(b"/default_pg/0//cpu//0/0"), b"first", "the old connection's key")
        same(first.add(b"init/", 1), 2, "the old connection's counter")
        second.set(b"/only-here", b"2")
        second.ping()
        check(not first.check(b"/only-here"), "a key of the new round in the old one")
        third = Peer(server.port)
        same(third.wait_get(b"/only-here"), b"2", "another worker of the same round")
        check(not a.check(b"/only-here"), "a worker's key among the agents'")


@case
def a_worker_that_waits_is_woken_by_its_own_round_alone():
    with daemon() as server:
        agents = meet(server.port, "job", ["a", "b"])
        settle(agents)
        old = Peer(server.port)
        old.wait(b"/k")
        old_too = Peer(server.port)
        same(old_too.add(b"/n", 1), 1, "ADD")
        agents[0].leave()
        agents[1].read()
        rejoin(agents)
        new = Peer(server.port)
        new.set(b"/k", b"new")
        check(old.is_silent(new), "woken by the next round's key")
        old_too.set(b"/k", b"old")
        old.expect_stop_waiting()
        same(old.get(b"/k"), b"old", "its own round's value")


@case
def a_worker_may_come_before_agent_0_has_said_anything():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        b.wait(b.round_key(0, b"MASTER_ADDR"))
        check(b.is_silent(a), "answered before anybody knows")
        with store_of_agent_0() as port:
            a.say_where(0, b"agent-0.example", port)
            b.expect_stop_waiting()
            same(b.get(b.round_key(0, b"MASTER_ADDR")), b"127.0.0.1", "MASTER_ADDR")


@case
def agents_are_told_what_advertise_says():
    for flag, expected in (("job.example.svc:1234", ("job.example.svc", 1234)),
                           ("10.1.2.3", ("10.1.2.3", None)), ("[fd00::1]:77", ("fd00::1", 77))):
        with daemon("--advertise", flag) as server:
            agents = meet(server.port, "job", ["a", "b"])
            same(settle(agents), (expected[0], expected[1] or server.port), flag)
            server.wait_log(r"event=worker_store_assigned .*run=job address=\S*%s\S* port=%d "
                            % (re.escape(expected[0]), expected[1] or server.port))


@case
def the_guess_is_an_address_that_an_agent_came_by_and_not_loopback():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))  # sends nothing
            own = s.getsockname()[0]
        except OSError:
            own = "127.0.0.1"
    if own.startswith("127."):
        print("skip: this machine has no address but loopback")
        return
    with daemon(listen=("0.0.0.0:0",)) as server:
        a = Agent(server.port, "job", "a")
        b = Agent(server.port, "job", "b")
        b.close()
        b.socket = socket.create_connection((own, server.port), timeout=20)
        b.send(modern.hello())
        b.expect(NONCE)
        rejoin([a, b])
        same(settle([a, b]), (own, server.port), "the guess")


@case
def when_nobody_listens_agent_0s_own_values_are_answered():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        port = free_port()
        a.say_where(0, b"agent-0.example", port)
        for agent in (a, b):
            same(agent.ask_where(0), ("agent-0.example", port), "own store")
        server.wait_log(r"event=worker_store_external space=default run=job "
                        r"reason=.*TORCH_DISABLE_SHARE_RDZV_TCP_STORE")
        worker = Peer(server.port)
        worker.set(b"/w", b"1")
        same(a.wait_get(b"/w"), b"1", "the plain keys")
        a.leave()
        b.read()
        rejoin([a, b])
        a.say_where(1, b"agent-0.example", port + 1)
        same(b.ask_where(1), ("agent-0.example", port + 1), "and in the next round")
        check(worker.check(b"/w"), "plain keys stay")


@case
def a_port_that_is_none_leaves_agent_0_alone():
    for text in (b"", b"0", b"65536", b"29500x", b"-1"):
        with daemon() as server:
            a, b = meet(server.port, "job", ["a", "b"])
            a.set(a.round_key(0, b"MASTER_ADDR"), b"agent-0.example")
            a.set(a.round_key(0, b"MASTER_PORT"), text)
            same(b.wait_get(b.round_key(0, b"MASTER_PORT")), text, "MASTER_PORT")
            same(b.wait_get(b.round_key(0, b"MASTER_ADDR")), b"agent-0.example", "MASTER_ADDR")


@case
def a_full_space_is_logged_and_nothing_half_told():
    with daemon("--space-limit", "20000") as server:
        a, b = meet(server.port, "job", ["a", "b"])
        for size in (4096, 1024, 256, 64, 16):
            with contextlib.suppress(EOFError, ConnectionError):  # the first that does not fit
                filler = Peer(server.port)
                while True:
                    filler.append(PREFIX + b"fill", b"x" * size)
                    filler.ping()
        with store_of_agent_0() as port:
            a.say_where(0, b"agent-0.example", port)
            server.wait_log(r"level=error event=repair_failed space=default run=job reason=.*--space-limit")
        check(not b.check(b.round_key(0, b"MASTER_ADDR")), "MASTER_ADDR is told")
        check(not b.check(b.round_key(0, b"MASTER_PORT")), "MASTER_PORT is told")
        check("event=workers_" not in server.log(), "said to be decided")


@case
def agents_without_ping_are_left_alone():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"], ping=False)
        a.say_where(0, b"worker-0.example", 1234)
        same(b.ask_where(0), ("worker-0.example", 1234), "what worker 0 is")
        worker = Peer(server.port, ping=False)
        worker.set(b"/w", b"1")
        same(b.wait_get(b"/w"), b"1", "the plain keys")
        a.leave()
        b.read()
        rejoin([a, b])
        check(Peer(server.port, ping=False).check(b"/w"), "the plain keys stay")
        check("event=workers_" not in server.log(), "nothing is decided")


@case
def other_keys_of_a_round_are_plain():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        settle([a, b])
        for name in (b"torchelastic/role_info/0", b"torchelastic/assigned_ranks/1",
                     b"MASTER_ADDRESS", b"MASTER_ADDR/x"):
            a.set(a.round_key(0, name), name)
            same(b.wait_get(b.round_key(0, name)), name, "a round's key")
        a.set(a.round_key(5, b"MASTER_ADDR"), b"of another round")
        same(b.wait_get(b.round_key(5, b"MASTER_ADDR")), b"of another round", "not this round")
        a.set(a.round_key(0, b"MASTER_ADDR"), b"again")
        a.ping()
        same(b.ask_where(0), ("127.0.0.1", server.port), "a later SET is swallowed too")


@case
def each_run_has_a_port_with_worker_ports():
    low = free_ports(200)
    with daemon("--worker-ports", "%d-%d" % (low, low + 199)) as server:
        told = [settle(meet(server.port, "job-%d" % i, ["a", "b"]))[1] for i in range(3)]
        check(len(set(told)) == 3 and all(low <= p < low + 200 for p in told), told)
        workers = [Peer(p) for p in told]
        for w in workers:
            same(w.add(b"/n", 1), 1, "a run's own keys")
        same(Peer(told[1]).add(b"/n", 1), 2, "and the same for all of a run")
        same(Peer(server.port).add(b"/n", 1), 1, "the agents' port is plain")


@case
def two_runs_in_one_space_stay_apart():
    with daemon("--closed-run-ttl", "100ms") as server:
        first, second = (meet(server.port, run, ["a", "b"]) for run in ("one", "two"))
        places = [settle(first)[1], settle(second)[1]]
        same(places[0], server.port, "the first run shares the agents' port")
        check(places[1] != server.port, "the second run does not")
        w1, w2 = (Peer(p) for p in places)
        same((w1.add(b"/n", 1), w2.add(b"/n", 1)), (1, 1), "counters of two runs")
        # When the first is over, its place is free again; the second keeps its own.
        first[0].close_run()
        for a in first:
            a.close()
        server.wait_log(r"event=run_forgotten .*run=one ")
        third = meet(server.port, "three", ["a", "b"])
        same(settle(third)[1], server.port, "the third run")
        same(Peer(server.port).add(b"/n", 1), 1, "its workers' counter")
        same(Peer(places[1]).add(b"/n", 1), 2, "the second run's")
        same(w1.add(b"/n", 1), 2, "the first run's last worker")


@case
def a_run_whose_place_was_taken_gets_a_port_of_its_own():
    """All of the first run's agents are gone for a while, in which a second one begins."""
    with daemon() as server:
        first = meet(server.port, "one", ["a", "b"])
        same(settle(first)[1], server.port, "the first run shares the agents' port")
        for a in first:
            a.close()
        await_agents(server.port, 0)
        second = meet(server.port, "two", ["a", "b"])
        same(settle(second)[1], server.port, "so does the second")
        w2 = Peer(server.port)
        same(w2.add(b"/n", 1), 1, "the second run's counter")

        back = [Agent(server.port, "one", name, pid=200) for name in "ab"]
        back[0].read()
        back[0].join()
        back[1].read()
        back[1].join(complete=True)
        port = back[0].ask_where(1)[1]
        check(port != server.port, "the first run shares no more")
        same(back[1].ask_where(1)[1], port, "what both are told")
        same(Peer(port).add(b"/n", 1), 1, "the first run's counter")
        same(Peer(server.port).add(b"/n", 1), 2, "the second run's")


def listens(port):
    """Whether a process of this machine listens on the port."""
    with open("/proc/net/tcp") as lines:
        return any(fields[1].endswith(":%04X" % port) and fields[3] == "0A" for fields in map(str.split, lines))


@case
def a_run_that_is_left_gives_its_port_back_and_takes_it_again():
    with daemon() as server:
        first, second = (meet(server.port, run, ["a", "b"]) for run in ("one", "two"))
        settle(first)
        port = settle(second)[1]
        check(port != server.port and listens(port), "the second run has a port of its own")
        worker = Peer(port)
        same(worker.add(b"/n", 1), 1, "ADD of a worker")
        for a in second:
            a.close()
        await_agents(server.port, 2)
        same(worker.add(b"/n", 1), 2, "a worker that is left goes on")
        check(listens(port), "and keeps the port")
        worker.close()
        while listens(port):
            await_agents(server.port, 2)  # it asks the daemon, whose tick comes each second

        back = [Agent(server.port, "two", name, pid=200) for name in "ab"]
        back[0].read()
        back[0].join()
        back[1].read()
        back[1].join(complete=True)
        same([a.ask_where(1)[1] for a in back], [port, port], "what both are told")
        same(Peer(port).add(b"/n", 1), 1, "ADD in the new round")


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


@case
def what_a_full_space_could_not_take_is_said_later():
    with daemon("--space-limit", "20KiB") as server:
        filler = Filler(server.port)
        agents = meet(server.port, "job", ["a", "b"])
        agents[1].wait(agents[1].round_key(0, b"MASTER_PORT"))
        filler.fill()
        with store_of_agent_0() as port:
            agents[0].say_where(0, b"a", port)
            server.wait_log(r"event=repair_failed space=default run=job reason=.*--space-limit")
        check(agents[1].is_silent(filler.peers[-1]), "nobody is told")
        filler.make_room()
        agents[1].expect_stop_waiting()
        same(agents[1].ask_where(0)[1], server.port, "where the workers' store is")
        server.wait_log(r"event=worker_store_assigned .*run=job")
        same(server.log().count("event=repair_failed"), 1, "complaints")


@case
def a_run_that_all_have_left_hides_no_keys():
    with daemon() as server:
        other = Peer(server.port)
        other.set(b"/k", b"v")
        agents = meet(server.port, "job", ["a", "b"])
        settle(agents)
        worker = Peer(server.port)
        same(worker.add(b"/n", 1), 1, "ADD")
        for a in agents:
            a.close()
        await_agents(server.port, 0)
        same(Peer(server.port).check(b"/k"), False, "while a worker is there, clients are workers")
        worker.close()
        deadline = time.monotonic() + 20
        while not Peer(server.port).check(b"/k"):
            check(time.monotonic() < deadline, "a run that all have left hides a key")


@case
def a_port_of_its_own_ends_with_its_run():
    with daemon("--closed-run-ttl", "100ms") as server:
        keep = meet(server.port, "one", ["a", "b"])
        settle(keep)
        agents = meet(server.port, "two", ["a", "b"])
        port = settle(agents)[1]
        worker = Peer(port)
        same(worker.add(b"/n", 1), 1, "ADD")
        unnamed = Peer(port)
        agents[0].close_run()
        for a in agents:
            a.close()
        server.wait_log(r"event=run_forgotten .*run=two ")
        same(worker.add(b"/n", 1), 2, "who is connected goes on")
        w = Peer(settle(keep)[1])
        same(w.add(b"/n", 1), 1, "the first run's counter")
        check(unnamed.add(b"/n", 1) == 1, "a late worker of a run that is gone is in no other run")
        same(w.add(b"/n", 1), 2, "and has not counted there")
        try:
            Peer(port)
            raise AssertionError("port %d is still open" % port)
        except ConnectionRefusedError:
            pass


# ------------------------------------------------------------ runs that are forgotten


@case
def a_closed_run_is_forgotten_when_the_last_connection_has_gone():
    with daemon("--closed-run-ttl", "100ms") as server:
        a, b = meet(server.port, "job", ["a", "b"])
        settle([a, b])
        a.finish(0)
        a.close_run()
        a.close()
        other = Agent(server.port, "clock", "x")
        other.join()
        other.close_run()
        other.close()
        server.wait_log(r"event=run_forgotten .*run=clock closed=true")
        check("run=job closed" not in server.log(), "forgotten while an agent is there")
        check(b.read().closed, "still closed")
        b.close()
        # The state, two addresses and the exit barrier.
        server.wait_log(r"event=run_forgotten space=default run=job closed=true keys=4 "
                        r"reason=.*--closed-run-ttl")
        same(Peer(server.port).count(), 0, "keys")
        again = meet(server.port, "job", ["a", "b"])
        same(settle(again), ("127.0.0.1", server.port), "the job starts afresh")
        same(again[0].read().round, 0, "round")


def closed_run(server):
    """An agent that has closed its run and is still connected."""
    a = Agent(server.port, "job", "a")
    a.join()
    a.close_run()
    return a


def knock(server, name="b"):
    """An agent whose introduction is sent, and not answered yet."""
    agent = Agent(server.port, "job", name, meet=False)
    agent.send(modern.compare_set(agent.key, b"", ts.SENTINEL))
    return agent


@case
def a_closed_run_is_kept_for_the_grace():
    with daemon("--closed-run-ttl", "1h", "--closed-run-wait", "off") as server:
        closed_run(server).close()
        check(Agent(server.port, "job", "a").state().closed, "closed")
        check("event=agents_waiting" not in server.log(), "nobody was held")


@case
def who_comes_for_a_closed_run_waits_until_it_is_forgotten():
    """And such an agent does not count among the agents that must leave first."""
    with daemon("--closed-run-ttl", "100ms") as server:
        a = closed_run(server)
        early = [knock(server, name) for name in "bcd"]
        server.wait_log(r"event=agents_waiting space=default run=job first=127.0.0.1:\d+ max_wait_ms=")
        check(all(e.is_silent(Peer(server.port)) for e in early), "held while one is there")
        check(a.read().closed, "who was in it is told at once")
        early.pop().close()
        a.close()
        server.wait_log(r"event=run_forgotten .*run=job closed=true keys=1 ")
        for e in early:
            e.seen = e.blob()
            check(e.seen == ts.SENTINEL, "the next run is a fresh one")
        early[0].join()
        early[1].join(complete=True)
        early[0].read()
        same(settle(early), ("127.0.0.1", server.port), "they meet")
        same(server.log().count("event=agents_waiting"), 1, "lines about those who wait")
        early[0].close_run()
        for e in early:
            e.close()
        server.wait_log(r"event=run_forgotten .*run=job closed=true keys=3 ")


@case
def who_waits_for_a_closed_run_is_told_after_closed_hold():
    with daemon("--closed-run-ttl", "100ms", "--closed-run-wait", "50ms") as server:
        a = closed_run(server)
        early = knock(server)
        early.seen = early.blob()
        check(early.state().closed and early.read().closed, "told that it is closed")
        server.wait_log(r"level=warn event=agents_rejected .*run=job agents=1 reason=.*connected")
        # But a waiting agent is no reason to keep the closed run.
        a.close()
        server.wait_log(r"event=run_forgotten .*run=job ")
        same(Agent(server.port, "job", "c").seen, ts.SENTINEL, "the next run")


@case
def who_waits_for_a_closed_run_goes_on_when_it_is_gone_on_request():
    with daemon("--closed-run-ttl", "1h", "--closed-run-wait", "1h") as server:
        for path in "/rdzv/v1/spaces/default/runs/job", "/rdzv/v1/spaces/default":
            a = closed_run(server)
            early = knock(server)
            check(early.is_silent(Peer(server.port)), "held")
            same(http_request(server.port, "DELETE", path)[0], 200, path)
            same(early.blob(), ts.SENTINEL, "the next run, after DELETE " + path)
            a.close()
            early.close()


@case
def who_waits_for_a_closed_run_does_not_keep_the_daemon():
    with daemon("--closed-run-ttl", "1h", "--drain-timeout", "1h") as server:
        a = closed_run(server)
        early = knock(server)
        check(early.is_silent(a), "held")
        same(server.stop(), 0, "exit code")


@case
def an_open_run_is_forgotten_after_run_ttl():
    with daemon("--idle-run-ttl", "200ms", "--closed-run-ttl", "1h") as server:
        a, b = meet(server.port, "job", ["a", "b"])
        a.close()
        gone = Agent(server.port, "clock", "x")
        gone.close()
        server.wait_log(r"event=run_forgotten .*run=clock closed=false")
        check("run=job closed" not in server.log(), "forgotten while an agent is there")
        b.close()
        server.wait_log(r"event=run_forgotten .*run=job closed=false keys=\d+ reason=.*--idle-run-ttl")
        same(Agent(server.port, "job", "a").seen, ts.SENTINEL, "the job starts afresh")


@case
def an_open_run_stays_for_those_who_come_back():
    with daemon("--closed-run-ttl", "1ms") as server:
        agents = meet(server.port, "job", ["a", "b"])
        settle(agents)
        Peer(server.port).add(b"/n", 1)
        for a in agents:
            a.close()
        clock = Agent(server.port, "clock", "x")
        clock.join()
        clock.close_run()
        clock.close()
        server.wait_log(r"event=run_forgotten .*run=clock ")
        back = Agent(server.port, "job", "a").state()
        same((back.round, back.complete, back.participants), (1, False, {}),
             "the round that all have left is over, and the next one begins")


@case
def ids_with_dots_slashes_and_digits_are_runs_of_their_own():
    names = ["j", "j.0", "j.0/x", "j.0/x.1", "j.1/MASTER_ADDR", "17", "", "a b/\u00fc.3"]
    with daemon("--closed-run-ttl", "100ms") as server:
        runs = {n: meet(server.port, n, ["a", "b"]) for n in names}
        places = {n: settle(agents) for n, agents in runs.items()}
        same(len(set(places.values())), len(names), "a place for each")
        for number, n in enumerate(names):
            for a in runs[n]:
                same(a.read().complete, True, "the state of run %r before it ends" % n)
            runs[n][0].close_run()
            for a in runs[n]:
                a.close()
            server.wait_log(r"event=run_forgotten ", count=number + 1)
            for other in names[number + 1:]:
                for a in runs[other]:
                    same(a.read().closed, False, "run %r when %r is forgotten" % (other, n))
                    same(a.ask_where(0), places[other], "run %r when %r is forgotten" % (other, n))
        same(Peer(server.port).count(), 0, "keys that are left")


@case
def a_space_is_deleted_under_everybody():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        settle([a, b])
        worker, waiting = Peer(server.port), Peer(server.port)
        worker.set(b"/w", b"1")
        waiting.wait(b"/never")
        worker.ping()
        other = settle(meet(server.port, "other", ["x", "y"]))[1]
        other_worker = Peer(other)
        other_worker.set(b"/w", b"1")
        other_worker.ping()
        same(http_request(server.port, "DELETE", "/rdzv/v1/spaces/default")[0], 200, "DELETE")
        check(not worker.check(b"/w") and not other_worker.check(b"/w"), "workers' keys are gone")
        same(a.get(a.key), b"", "the state is gone")
        stale = a.seen
        same(Peer(server.port).cas(a.key, stale, b"x"), stale, "no agent: as torch's store answers")
        same(a.get(a.key), b"", "and nothing is put")
        same(a.cas(a.key, stale, b"x"), ts.SENTINEL, "else torch's agent asks again at once")
        same(a.get(a.key), ts.SENTINEL, "no node has joined")
        worker.set(b"/never", b"1")
        waiting.expect_stop_waiting()
        again = meet(server.port, "job", ["a", "b"])
        same(settle(again), ("127.0.0.1", server.port), "the job starts afresh")
        fresh = Peer(server.port)
        same(fresh.add(b"/w", 1), 1, "its workers' keys")


@case
def a_run_is_forgotten_under_everybody():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        settle([a, b])
        other = meet(server.port, "other", ["a", "b"])
        worker = Peer(server.port)
        same(worker.add(b"/n", 1), 1, "ADD")
        stale = a.seen
        same(http_request(server.port, "DELETE", "/rdzv/v1/spaces/default/runs/job")[0], 200,
             "DELETE")
        server.wait_log(r"event=run_forgotten .*run=job closed=false keys=3 ")
        for agent in (a, b):
            agent.expect_end()  # else it would wait for the state for a minute, and end then
        check("event=node_disconnected" not in server.log(), "nobody is missed")
        a, b = (Agent(server.port, "job", name) for name in "ab")
        same((a.seen, b.seen), (ts.SENTINEL, ts.SENTINEL), "the state is gone")
        same(a.cas(a.key, stale, stale), ts.SENTINEL, "and nobody brings it back")
        same(worker.add(b"/n", 1), 2, "its workers go on")
        for agent in other:
            check(agent.read().complete, "another run goes on")
        rejoin([a, b])
        same(settle([a, b]), ("127.0.0.1", server.port), "who is started again starts afresh")
        same(Peer(server.port).add(b"/n", 1), 1, "the new workers' counter")


# ------------------------------------------------------------ heartbeats


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
def what_a_tool_writes_is_stored_byte_for_byte():
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
def what_is_no_state_is_stored_unchanged():
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


# ------------------------------------------------------------ numbers


def stale_agents(server, count, run="job"):
    """Agents who all have seen the state before the latest: their next write must fail."""
    agents = [Agent(server.port, run, "n%03d" % i) for i in range(count)]
    agents[0].first = Agent(server.port, run, "first")  # it stays connected
    agents[0].first.join()
    return agents


def join_value(agent):
    state = agent.state()
    state.participants[agent.node] = 0
    agent.beat(state)
    return ts.dumps(state)


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
def agents_that_join_together_write_once_each():
    with daemon() as server:
        agents = stale_agents(server, 50)
        for a in agents:
            a.read()
        random.Random(1).shuffle(agents)
        same(join_all_at_once(agents), [1] * 50, "attempts")
        same(len(whole(server, agents[0]).participants), 51, "all are in")


@case
def a_storm_of_stale_writers_takes_two_attempts_each():
    """All have seen that no agent has joined; the answer to the first attempt has their numbers."""
    with daemon() as server:
        agents = stale_agents(server, 50)
        same(join_all_at_once(agents), [2] * 50, "attempts")
        same(len(whole(server, agents[0]).participants), 51, "all are in")


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


@case
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
def the_number_of_one_that_dies_goes_to_another_one():
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
def the_number_of_one_that_stalls_goes_to_another_one():
    with daemon() as server:
        first, b, c = held(server)
        c.seen = c.blob()  # a second later
        check(c.try_write(join_value(c)), "in place of the one that stalls")
        check(not b.try_write(join_value(b)), "its number is taken")
        check(b.try_write(join_value(b)), "it has another one")
        same(len(whole(server, c).participants), 3, "participants")
        first.close()


@case
def one_whose_join_is_held_may_leave():
    with daemon() as server:
        first, b, c = held(server)
        c.close()
        check(b.try_write(join_value(b)), "the next one")
        await_agents(server.port, 2)
        same(sorted(n.addr for n in whole(server, b).participants), ["b", "first"],
             "no one that has gone has written")
        first.close()


@case
def requests_behind_a_held_one_are_answered_in_order():
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
def a_large_request_may_come_behind_a_held_one():
    with daemon() as server:
        _, b, c = held(server)
        big = modern.compare_set(b"/torch.rendezvous.none", b"stale", bytes(3 << 20))
        c.send(big[:1 << 16])
        b.join()
        c.seen = c.blob()
        check(c.node in c.state().participants, "COMPARE_SET")
        c.send(big[1 << 16:])
        same(c.blob(), b"stale", "COMPARE_SET of a key that is not there")


# ------------------------------------------------------------ nodes that are lost


def await_state(agent, what, truth):
    """Looks, as agents do, until it is so."""
    deadline = time.monotonic() + 20
    while not truth(agent.read()):
        check(time.monotonic() < deadline, what)
        time.sleep(0.02)
    return agent.state()


@case
def the_others_are_told_of_a_lost_node():
    with daemon() as server:
        a, b, c = meet(server.port, "job", ["a", "b", "c"])
        c.close()
        server.wait_log(r"level=warn event=nodes_restarted space=default run=job round=0 nodes=2 ")
        state = read_together([a, b])[0]
        same(len(whole(server, a).participants), 2, "c is out")
        same(len(state.wait_list), 1, "something waits to be let in")
        a.step_out()
        b.read()
        state = b.step_out()
        same((state.round, state.complete, state.wait_list), (1, False, set()), "a new round")
        b.join()
        a.read()
        a.join(complete=True)
        state = whole(server, a)
        same((state.complete, len(state.wait_list)), (True, 0), "the mark is gone")


@case
def a_silent_node_is_taken_out_and_put_back():
    with daemon("--silent-node-timeout=6s") as server:
        a, b = meet(server.port, "job", ["a", "b"])
        await_state(a, "b is out", lambda s: len(s.wait_list) == 1)
        same(list(whole(server, a).participants), [a.node], "who is in")
        found = server.wait_log(r"level=warn event=node_silent space=default run=job round=0 "
                                r"node=b/100/0 peer=\S+ previous=participant silent_ms=(\d+) ")
        check(6000 <= int(found[0].group(1)) < 9000, "when its time was over")
        server.wait_log(r"event=nodes_restarted .*reason=.*--silent-node-timeout")
        check("\nrdzvd_torch_nodes_silent_total 1\n" in
              http_request(server.port, "GET", "/metrics")[1].decode(), "counted")
        b.read()
        same(whole(server, b).participants, {a.node: 0, b.node: 1}, "it only slept")


@case
def who_waits_for_the_ranks_of_a_lost_agent_0_goes_on():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        b.wait(b.round_key(0, b"torchelastic/assigned_ranks/1"))
        a.close()
        b.expect_stop_waiting()
        same(b.get(b.round_key(0, b"torchelastic/assigned_ranks/1")), b"[1, 2, 1, 2]", "ranks")
        check(b.read().wait_list, "and it is told to meet again")


@case
def the_last_call_ends_when_all_are_back():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        a.step_out()
        b.read()
        b.step_out()

        def first(state):
            state.participants[b.node] = 0
            b.beat(state)
            state.deadline = ts.now() + datetime.timedelta(seconds=30)
        b.write(first)
        a.read()
        a.join()
        check(a.state().deadline < ts.now(), "the agent that joined last is told at once")
        server.wait_log(r"event=last_call_ended space=default run=job round=1 participants=2 ")


def is_let_in_while_it_looks():
    """False: rdzvd's tick has come between two requests of `a`, so that `b` is to join by itself."""
    with daemon() as server:
        a, = meet(server.port, "job", ["a"])
        b = Agent(server.port, "job", "b")
        b.wait_in_line()
        b.wait(b.key)
        b.expect_stop_waiting()
        b.send(modern.get(b.key))
        check(b.is_silent(a), "it is answered while the round goes on")
        a.read()
        a.step_out()
        a.read()
        a.join()
        b.seen = b.blob()
        same(b.state().round, 1, "the round")
        if not (b.state().complete and b.node in b.state().participants):
            return False
        server.wait_log(r"event=nodes_let_in space=default run=job round=1 nodes=1 participants=2 ")
        return True


@case
def who_waits_is_answered_when_it_is_let_in():
    """Its look is held: it learns that its round is complete at that moment, and not a second later."""
    check(any(is_let_in_while_it_looks() for _ in range(5)), "it is not let in")
    with daemon() as server:  # which then ends as ever
        a, = meet(server.port, "job", ["a"])
        b = Agent(server.port, "job", "b")
        b.wait_in_line()
        b.send(modern.get(b.key))
        check(b.is_silent(a), "it is answered while the round goes on")
        began = time.monotonic()
        same(server.stop(), 0, "exit code")
        check(time.monotonic() - began < 2.5, "rdzvd waits for one whose look it holds")


@case
def a_node_that_is_in_no_round_closes_nothing():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        prune(b, a)
        other = Agent(server.port, "job", "c")
        other.wait_in_line()
        other.close_run()
        check(not b.read().closed, "the run goes on")
        server.wait_log(r"event=close_ignored .*by=c/100/0 reason=.*its workers are in no round")
        b.close_run()
        check(b.read().closed, "who is in it closes it")


@case
def an_agent_without_ranks_closes_nothing():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        ranks = [x.round_key(0, b"torchelastic/assigned_ranks/%d" % i) for i, x in ((0, a), (1, b))]
        a.set(a.round_key(0, b"torchelastic/role_info/0"), b"{}")
        b.get(ranks[1])  # there are none yet
        b.read()
        b.close_run()
        check(not a.read().closed, "it gave up before it had workers")
        server.wait_log(r"event=close_ignored .*by=b/100/0 ")
        a.set(ranks[0], b"[0, 2, 0, 2]")
        same(a.wait_get(ranks[0]), b"[0, 2, 0, 2]", "ranks")
        c = Agent(server.port, "job", "c")
        c.wait_in_line()
        a.read()
        a.close_run()
        check(c.read().closed, "its job is done")


# ------------------------------------------------------------ repairs


def know_ranks(*agents):
    """Sets the keys that each agent sets once it has read its own rank and the ranks of its workers."""
    for a in agents:
        a.set(a.round_key(a.state().round, b"torchelastic/role_info-%s.FIN" % a.node.addr.encode()), b"x")
        a.ping()


def crowd(agent, count):
    """Completes a round of so many nodes; the others have no connections."""
    def complete(state):
        for i in range(count - 1):
            node = ts.Node("node-%05d-worker-0.training.team-a.svc.cluster.local" % i, 7, 0)
            state.participants[node], state.last_heartbeats[node] = 0, ts.now()
        complete_round(state)
    agent.join()
    tool_write(agent, complete)
    same(len(agent.read().participants), count, "participants, before its rank is read")


@case
def what_an_agent_sees_does_not_grow_with_the_round():
    sizes = {}
    for count in (8, 1000):
        with daemon() as server:
            a = Agent(server.port, "job", "a")
            crowd(a, count)
            know_ranks(a)
            state = a.read()
            same(list(state.participants), [a.node], "participants that it sees")
            at = ts.now() + datetime.timedelta(seconds=1)
            a.beat(state, at)
            a.try_write(ts.dumps(state))
            sizes[count] = len(a.seen)
            same(a.state().last_heartbeats, {a.node: at}, "heartbeats")
            same(a.read().last_heartbeats, {a.node: at}, "heartbeats")
            same(len(whole(server, a).participants), count, "participants of the value")
    check(abs(sizes[8] - sizes[1000]) < 16 and sizes[8] < 800, "bytes seen: %r" % sizes)


@case
def agents_leave_wait_and_meet_by_what_they_see():
    with daemon() as server:
        agents = meet(server.port, "job", ["a", "b", "c"])
        know_ranks(*agents)
        new = Agent(server.port, "job", "d")
        new.wait_in_line()
        for a, state in zip(agents, read_together(agents)):
            same(len(state.wait_list), 1, "nodes that wait, as %s sees it" % a.node)
            same(list(a.state().participants), [a.node], "participants that it sees")
        for a in agents[:2]:
            state = a.step_out()
            same((state.complete, state.participants), (True, {}), "the round, for one outside")
            state = a.wait_in_line()
            same((state.complete, state.wait_list), (True, {a.node}), "it waits")
        tool = Peer(server.port)
        whole = ts.loads(tool.get(new.key))
        same((whole.round, set(whole.participants), whole.wait_list),
             (0, {agents[2].node}, {agents[0].node, agents[1].node, new.node}), "the value")
        agents[2].step_out()
        whole = ts.loads(tool.get(new.key))
        same((whole.round, whole.complete, whole.participants), (1, False, {}), "the next round")
        for a in agents + [new]:
            a.read()
        same(len(rejoin(sorted(agents + [new], key=lambda a: a.node)).participants), 4, "nodes")


@case
def one_closes_the_run_by_what_it_sees():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        know_ranks(a, b)
        a.read()
        b.read()
        a.close_run()
        check(b.read().closed, "the other one sees it")
        whole = ts.loads(Peer(server.port).get(a.key))
        same((whole.closed, len(whole.participants)), (True, 2), "the value")


@case
def what_a_frozen_agent_writes_harms_no_round():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        know_ranks(a, b)
        a.read()
        b.read()
        b.step_out()
        frozen = a.seen
        a.step_out()
        b.read()
        rejoin([a, b])
        a.seen = frozen
        state = a.state()
        a.beat(state)
        check(not a.try_write(ts.dumps(state)), "its round has passed")
        same((a.state().round, len(a.state().participants)), (1, 2), "it sees the new one")
        whole = ts.loads(Peer(server.port).get(a.key))
        same((whole.round, whole.complete, len(whole.participants)), (1, True, 2), "the value")


@case
def agents_may_have_clocks_that_are_two_minutes_off():
    ahead = {"a": 0, "b": 120, "c": -120}

    def by_clock(agent):
        return ts.now() + datetime.timedelta(seconds=ahead[agent.node.addr])

    def live(agent, state):
        """As torch does with each state: presumes dead whose heartbeat is too old for its clock."""
        for node, beat in list(state.last_heartbeats.items()):
            if beat < by_clock(agent) - datetime.timedelta(seconds=15):
                del state.last_heartbeats[node]
                check(not state.participants.pop(node, None) and node not in state.wait_list,
                      "%s presumes %s dead" % (agent.node, node))

    with daemon() as server:
        agents = [Agent(server.port, "job", name) for name in sorted(ahead)]
        for _ in range(2):
            for a in agents:
                a.read()

                def join(state):
                    live(a, state)
                    state.participants[a.node] = 0
                    a.beat(state, by_clock(a))
                    if a is agents[-1]:
                        complete_round(state)
                a.write(join)
            for a in agents:
                live(a, a.state() if a is agents[-1] else a.read())  # the last one has seen it
                same(len(a.state().participants), 3, "participants that %s sees" % a.node)
            know_ranks(*agents)
            for a in agents:
                state = a.read()
                live(a, state)
                same(list(state.participants), [a.node], "and when it trains")
                a.beat(state, by_clock(a))
                a.try_write(ts.dumps(state))
            state = whole(server, agents[0])
            for a in agents:
                age = ts.now() - state.last_heartbeats[a.node]
                check(abs(age.total_seconds()) < 10, "the value has the time of the daemon")
            for a in agents:
                a.read()
                a.step_out()


@case
def a_stop_of_the_daemon_ends_no_last_call():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])

        def open_round(state):
            state.complete = False
            state.deadline = ts.now() + datetime.timedelta(seconds=4)
        tool_write(a, open_round)
        before = whole(server, a)
        os.kill(server.pid, signal.SIGSTOP)
        time.sleep(6)
        os.kill(server.pid, signal.SIGCONT)
        seen = b.read()
        check(not seen.complete and seen.deadline > ts.now(), "the last call goes on")
        same(whole(server, b).participants, before.participants, "participants")
        server.wait_log(r"event=resumed paused_ms=(\d+)")


@case
def a_held_answer_comes_after_a_stop_of_the_daemon():
    with daemon("--request-timeout=1s") as server:
        _, b, c = held(server, modern.get(b"/torch.rendezvous.none")[:-1])
        os.kill(server.pid, signal.SIGSTOP)
        c.send(b"e")
        time.sleep(3)
        os.kill(server.pid, signal.SIGCONT)
        b.join()
        check(c.blob(), "the state")
        same(c.blob(), b"", "GET whose end came meanwhile")
        check("event=dropped" not in server.log(), server.log())


@case
def one_taken_for_dead_is_put_back_into_its_round():
    with daemon() as server:
        a, b, c = meet(server.port, "job", ["a", "b", "c"])
        ranks = whole(server, b).participants
        prune(c, a, b)
        same(list(whole(server, c).participants), [c.node], "only c")
        seen = b.read()
        same(seen.participants[b.node], ranks[b.node], "its rank")
        check(b.node in seen.last_heartbeats and not seen.wait_list, "its heartbeat")
        age = abs((ts.now() - seen.last_heartbeats[b.node]).total_seconds())
        check(age < 5, "a fresh heartbeat: %s s" % age)
        server.wait_log(r"event=repaired .*node=b/100/0 .*round=0 action=\"is a participant again\"")
        # By a heartbeat too: the write fails or is merged, and in both cases the node is a participant.
        a.write(a.beat)
        same(whole(server, a).participants, ranks, "all of them, with their ranks")


@case
def one_taken_for_dead_is_put_back_when_there_is_room():
    with daemon("--space-limit", "20KiB") as server:
        filler = Filler(server.port)
        a, b = meet(server.port, "job", ["a", "b"])
        prune(b, a)
        filler.fill()
        check(a.node not in a.read().participants, "the space is full")
        filler.make_room()
        check(a.node in a.read().participants, "and is not any more")
        server.wait_log(r"event=repaired .*node=a/100/0 .*round=0 action=\"is a participant again\"")


@case
def one_taken_for_dead_waits_when_a_smaller_round_has_begun():
    with daemon() as server:
        a, b, c = meet(server.port, "job", ["a", "b", "c"])
        prune(c, a)
        b.read()
        c.read()
        b.leave()
        c.read()
        rejoin([b, c])
        seen = a.read()
        check(a.node in seen.wait_list and a.node not in seen.participants, "it waits")
        same((seen.round, seen.complete), (1, True), "the round goes on")
        server.wait_log(r"event=repaired .*node=a/100/0 .*action=\"waits to be let in\"")


@case
def one_taken_for_dead_waits_when_the_new_round_was_not_full():
    """The last call was over before max nodes had met, so the round has free places."""
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        prune(b, a)

        def anew(state):
            state.complete, state.round = False, state.round + 1
            state.participants = {b.node: 0}
            state.deadline = ts.now() - datetime.timedelta(seconds=1)
        tool_write(b, anew)
        c = Agent(server.port, "job", "c")
        c.read()
        c.join()
        c.write(complete_round)
        check(a.node in a.read().wait_list, "it waits")


@case
def one_taken_for_dead_and_replaced_is_cut():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        prune(b, a)
        b.leave()
        c = Agent(server.port, "job", "c")
        rejoin([b, c])
        a.wait(a.key)
        a.expect_end()
        server.wait_log(r"event=dropped .*reason=\"?presumed dead and replaced.*detail=\"?a\"?")
        same(sorted(n.addr for n in whole(server, b).participants), ["b", "c"], "who is in")
        again = Agent(server.port, "job", "a")
        again.wait_in_line()
        check(again.node in read_together([b, c])[0].wait_list, "started again, it waits")


@case
def one_who_has_left_is_not_put_back():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])

        def leave(state):
            state.participants.pop(a.node)
            state.last_heartbeats.pop(a.node)
        a.write(leave)
        check(a.node not in a.read().participants, "it left by itself")
        a.wait_in_line()
        check(a.node in b.read().wait_list, "it waits as it wants to")


@case
def close_is_ignored_while_others_are_in():
    with daemon("--close-needs-all", "on") as server:
        a, b = meet(server.port, "job", ["a", "b"])
        state = a.state()
        state.closed = True
        check(a.try_write(ts.dumps(state)), "looks like success")
        server.wait_log(r"event=close_ignored space=default run=job by=a/100/0 reason=.*--close-needs-all")
        check(not b.read().closed, "the run is open")
        b.write(b.beat)
        check(not b.state().closed, "and stays open")
        a.close()
        b.finish(0)
        b.close_run()
        check(b.read().closed, "the last one closes it")
        server.wait_log(r"event=run_closed .*run=job .*by=b/100/0")
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        a.close_run()
        check(b.read().closed, "by default one closes for all")


# ------------------------------------------------------------ meetings and ends


def are_silent(agents, other):
    return all(a.is_silent(other) for a in agents)


@case
def all_agents_of_a_round_are_called_at_once():
    with daemon() as server:
        agents = meet(server.port, "job", ["a", "b", "c"])
        know_ranks(*agents)
        new = Agent(server.port, "job", "d")
        new.wait_in_line()
        for a in agents[:2]:
            a.begin_to_read()
            a.expect_stop_waiting()
        check(are_silent(agents[:2], new), "two of three look: nobody is answered")
        agents[2].read()
        for a in agents[:2]:
            a.seen = a.blob()
        for a in agents:
            same(len(a.state().wait_list), 1, "nodes that wait, as %s sees it" % a.node)
        server.wait_log(r"event=nodes_meet .*round=0 participants=3 late=0 .*waiting=d/100/0 ")


@case
def no_heartbeat_is_answered_that_a_node_waits():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        know_ranks(a, b)
        read_together([a, b])
        new = Agent(server.port, "job", "c")
        new.wait_in_line()
        same(a.write(a.beat).wait_list, set(), "its heartbeat is answered")
        states = read_together([a, b])
        same([len(s.wait_list) for s in states], [1, 1], "its look")


@case
def a_failed_run_ends_for_all_and_begins_anew_at_once():
    with daemon("--closed-run-ttl=1h") as server:
        agents = meet(server.port, "job", ["a", "b", "c"])
        know_ranks(*agents)
        agents[1].close_run()
        agents[1].close()
        server.wait_log(r"level=warn event=run_failed .*run=job round=0 by=b/100/0 .*has no restart")
        for a in (agents[0], agents[2]):
            state = a.read()
            check(state.closed and len(state.wait_list) == 1, "it looks, and ends: %r" % vars(state))
        again = knock(server, "b")
        await_agents(server.port, 2)
        run = status_of(server.port)[0]
        same((run["state"], run["failed_node"], run["participants"], run["agents"]),
             ("failed", "b/100/0", 2, 2), "what the status says")
        check("agents that still end their workers: 2" in run["hints"][1], run["hints"])
        agents[0].close()
        check(again.is_silent(agents[2]), "one is still there")
        agents[2].close()
        server.wait_log(r"event=run_forgotten .*run=job .*reason=.it has failed")
        same(again.blob(), ts.SENTINEL, "it begins the run anew")


@case
def a_failed_run_is_torchs_way_if_that_is_wanted():
    with daemon("--end-failed-runs=off") as server:
        a, b = meet(server.port, "job", ["a", "b"])
        know_ranks(a, b)
        a.close_run()
        same(b.read().wait_list, set(), "nothing makes it look")
        check("--end-failed-runs=off" in status_of(server.port)[0]["hints"][1], "the status says so")


@case
def who_has_finished_does_not_wait_for_a_lost_node():
    with daemon() as server:
        a, b, c = meet(server.port, "job", ["a", "b", "c"])
        know_ranks(a, b, c)
        last = a.round_key(0, b"torchelastic/agent/terminal_state/last_member")
        a.finish(0)
        a.wait(last)
        c.close()
        server.wait_log(r"event=node_disconnected .*node=c/")
        check(a.is_silent(b), "b trains")
        b.finish(0)
        a.expect_stop_waiting()
        a.close_run()
        check(b.read().closed, "the run has ended well")
        server.wait_log(r"event=run_closed .*by=a/")


# ------------------------------------------------------------ torch's bare semantics


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
def plain_is_plain_byte_for_byte():
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
def plain_agents_storm_as_they_do_with_torch():
    with daemon("--elastic-fixes=off") as server:
        a, b, c = stale_agents(server, 3)
        for agent in (a, b, c):
            check(not agent.try_write(join_value(agent)), "stale, and answered at once")
        check(a.try_write(join_value(a)), "the first")
        check(not b.try_write(join_value(b)), "stale again")


# ------------------------------------------------------------ the log


@case
def the_log_explains():
    with daemon("--closed-run-ttl", "100ms", "--disable=drop-disconnected") as server:
        a = Agent(server.port, "job", "a")
        a.join()
        here = r"space=default run=job round=0 "
        server.wait_log(r"event=run_started " + here.strip())
        server.wait_log(r"event=node_joined %snode=a/100/0 peer=%s role=participant previous=none"
                        % (here, a.name))
        b = Agent(server.port, "job", "b")

        def last_call(state):
            state.participants[b.node] = 0
            b.beat(state)
            state.deadline = ts.now() + datetime.timedelta(seconds=30)
        b.write(last_call)
        m = server.wait_log(r"event=last_call %sparticipants=2 ends_in_ms=(\d+)" % here)[0]
        check(20000 < int(m.group(1)) <= 31000, m.group(0))
        c = Agent(server.port, "job", "c")
        c.join(complete=True)
        server.wait_log(r'event=round_complete %snodes=3 ranks="0=a/100/0 1=b/100/0 2=c/100/0"' % here)
        d = Agent(server.port, "job", "d")
        d.wait_in_line()
        server.wait_log(r"event=node_joined %snode=d/100/0 peer=%s role=waiting previous=none"
                        % (here, d.name))

        def leave(state):
            state.participants.pop(b.node)
            state.last_heartbeats.pop(b.node)
        b.read()
        b.write(leave)
        server.wait_log(r'event=node_left %snode=b/100/0 peer=%s previous=participant reason="by itself"'
                        % (here, b.name))
        c.close()
        server.wait_log(r"level=warn event=node_disconnected %snode=c/100/0 peer=%s "
                        r"previous=participant reason=.*15s" % (here, c.name))
        # Its container is started again: the same name, the same pid, and its first step is to leave.
        a.close()
        await_agents(server.port, 2)
        a = Agent(server.port, "job", "a")
        a.read()
        a.wait_in_line()
        server.wait_log(r"level=info event=node_left %snode=a/100/0 peer=disconnected "
                        r"previous=participant reason=.*same name.* by=%s" % (here, a.name))
        a.close()
        await_agents(server.port, 2)
        d.read()
        d.close_run()
        server.wait_log(r"event=run_closed %sby=d/100/0 peer=%s" % (here, d.name))
        for agent in (a, b, d):
            agent.close()
        server.wait_log(r"event=run_forgotten space=default run=job closed=true keys=\d+ reason=")


def get_json(port, path):
    status, body = http_request(port, "GET", path)
    same(status, 200, path)
    return json.loads(body)


@case
def runs_tell_who_is_missing():
    with daemon() as server:
        here = "/rdzv/v1/spaces/default/runs"
        get_run = lambda: get_json(server.port, "/rdzv/v1/spaces/default/status")["runs"][0]
        a, b = (Agent(server.port, "job", name) for name in "ab")
        a.join()

        def last_call(state):
            state.participants[b.node] = 0
            b.beat(state)
            state.deadline = ts.now() + datetime.timedelta(seconds=30)
        b.write(last_call)
        run = get_run()
        check(run["last_call_ends"].endswith("Z") and run["state"] == "last_call", run)
        check(not any("rank" in n for n in run["nodes"]), "no ranks before a round is complete")
        b.write(complete_round)
        run = get_run()
        same([(n["addr"], n["rank"], n["peer"]) for n in run["nodes"]],
             [("a", 0, a.name), ("b", 1, b.name)], "nodes")
        check("last_call_ends" not in run, run)
        b.close()
        await_agents(server.port, 1)
        run = get_run()
        same([("peer" in n, n["role"]) for n in run["nodes"]], [(True, "participant")],
             "a is there")
        same([(n["addr"], n["rank"]) for n in run["missing"]], [("b", 1)], "b is missing")
        node = get_json(server.port, here + "/job?rank=0")
        same((node["addr"], node["peer"], node["role"]), ("a", a.name, "participant"), "of rank 0")
        for path, status in (("?rank=1", 404), ("?rank=x", 400), ("", 400)):
            same(http_request(server.port, "GET", here + "/job" + path)[0], status, path)
        a.read()
        a.finish(0)
        a.close_run()
        early = knock(server, "c")
        server.wait_log(r"event=agents_waiting .*run=job .*max_wait_ms=45000 ")
        run = get_run()
        same((run["agents"], run["agents_waiting"], run["state"]), (1, 1, "closed"), "who is there")
        check(early.is_silent(a), "held")
        metrics = http_request(server.port, "GET", "/metrics")[1].decode()
        for name, value in (("rounds_completed", 1), ("runs_closed", 1), ("nodes_disconnected", 1),
                            ("runs_repaired", 0)):
            check("rdzvd_torch_%s_total %d\n" % (name, value) in metrics, name)
        same(http_request(server.port, "GET", here + "/nobody")[0], 404, "no such run")
        same(http_request(server.port, "PUT", here + "/job")[0], 405, "PUT")


@case
def times_of_any_year_are_told():
    # Nanoseconds since 1970, as etcd has its times, would begin in 1677 and end in 2262.
    times = ["0001-01-01T00:00:00", "1677-09-21T00:12:43.145224", "1969-12-31T23:59:59.999999",
             "2262-04-11T23:47:16.854776", "9999-12-31T23:59:59.999999"]
    with daemon() as server:
        a = Agent(server.port, "job", "a")
        a.join()

        def beat_at_all_times(state):
            for i, text in enumerate(times):
                node = ts.Node("n%d" % i, 1, 0)
                state.participants[node] = 0
                state.last_heartbeats[node] = datetime.datetime.fromisoformat(text + "+00:00")
            state.deadline = datetime.datetime.fromisoformat(times[-1] + "+00:00")
        tool_write(a, beat_at_all_times)
        run = get_json(server.port, "/rdzv/v1/spaces/default/status")["runs"][0]
        same(run["last_call_ends"], times[-1] + "Z", "last call")
        same([n["heartbeat"] for n in run["nodes"] if n["addr"] != "a"],
             [text + "Z" for text in times], "heartbeats")


# ------------------------------------------------------------ how a run stands


STATUS = "/rdzv/v1/status"


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


def barrier_request(key, size):
    return modern.barrier(key, size)


@case
def the_status_says_who_waits_for_what():
    with daemon("--expect=3") as server:
        # Before there is a run: later, they would be taken for its workers.
        plain, other = Peer(server.port), Peer(server.port)
        plain.wait(b"/a key", b"/" + 300 * b"k")
        other.send(barrier_request(b"/meet", 3))
        early = Peer(server.port)
        early.wait(PREFIX + b"not-yet")
        space = await_space(server.port, lambda s: len(s["waits"]) == 3)
        check([PREFIX.decode() + "not-yet"] in [w["keys"] for w in space["waits"]], space["waits"])
        early.close()
        await_space(server.port, lambda s: len(s["waits"]) == 2)
        a, b = meet(server.port, "job", ["a", "b"])
        a.set(a.round_key(0, b"torchelastic/role_info/0"), b"{}")
        a.wait(*(a.round_key(0, b"torchelastic/role_info/%d" % i) for i in (0, 1)))
        run, space = await_status(server.port, lambda r: r["waits"])
        same((run["expect"], run["missing_count"], run["missing"]), (3, 1, []), "who is missing")
        wait = run["waits"][0]
        same((wait["peer"], wait["node"], wait["rank"]), (a.name, "a", 0), "who waits")
        key = a.round_key(0, b"torchelastic/role_info/1").decode()
        same((wait["keys"], wait["key_count"]), ([key], 1), "for what")
        same(run["absent_keys"], [{"key": key, "waiters": 1}], "keys that are not there")
        same(run["barriers"], [{"key": key[:-1], "arrived": 1, "size": 2, "absent": [1],
                                "absent_nodes": ["b"]}], "an exchange that goes on")
        same({w["peer"]: (w["key_count"], w["keys"]) for w in space["waits"]},
             {plain.name: (2, ["/a key", "/" + 199 * "k" + "…"]), other.name: (1, ["/meet"])},
             "clients of no run, and their keys")
        same(space["waits_count"], 2, "how many")
        same(space["barriers"], [{"key": "/meet", "arrived": 1, "size": 3}], "a BARRIER")
        b.set(b.round_key(0, b"torchelastic/role_info/1"), b"{}")
        a.expect_stop_waiting()
        same(status_of(server.port)[0]["waits"], [], "nobody waits any more")


@case
def the_status_says_who_is_not_at_the_exit_barrier():
    with daemon() as server:
        agents = meet(server.port, "job", ["a", "b", "c"])
        members = agents[0].round_key(0, b"torchelastic/agent/terminal_state/num_members")
        for agent in agents[0], agents[2]:
            agent.add(members, 1)
            agent.wait(members.replace(b"num_members", b"last_member"))
        run = await_status(server.port, lambda r: len(r["waits"]) == 2)[0]
        same(run["barriers"],
             [{"key": members.decode(), "arrived": 2, "size": 3, "absent": [1],
               "absent_nodes": ["b"]}], "who is not there")
        # The last one to arrive writes the key; if it is lost before, rdzvd writes it.
        agents[1].add(members, 1)
        await_status(server.port, lambda r: r["barriers"] == [])


@case
def the_status_says_which_node_is_not_at_a_barrier_of_workers():
    with daemon(listen=("0.0.0.0:0",)) as server:
        sources = {"a": "127.0.0.1", "b": "127.0.0.3"}
        agents = [Agent(server.port, "job", name, source=sources[name]) for name in "ab"]
        rejoin(agents)
        settle(agents)
        for rank, agent in enumerate(agents):
            agent.set(agent.round_key(0, b"torchelastic/role_info/%d" % rank),
                      b'{"role": "default", "rank": %d, "local_world_size": 2}' % rank)
            agent.set(agent.round_key(0, b"torchelastic/assigned_ranks/%d" % rank),
                      b"[%d, 4, %d, 4]" % (2 * rank, 2 * rank))
        workers = [Peer(server.port, source=sources[name]) for name in "aab"]
        key = b"/default_pg/0//store_based_barrier_key:1"
        for w in workers:
            w.add(key, 1)
            w.wait(key + b":last_worker")
        run = await_status(server.port, lambda r: len(r["waits"]) == 3)[0]
        same(run["barriers"], [{"key": key.decode(), "arrived": 3, "size": 4,
                                "absent_nodes": ["b"]}], "who is not there")
        same(run["absent_keys"], [{"key": (key + b":last_worker").decode(), "waiters": 3}], "keys")
        workers[1].close()
        run = await_status(server.port, lambda r: len(r["waits"]) == 2)[0]
        same(run["barriers"],
             [{"key": key.decode(), "arrived": 3, "size": 4}], "who has left is not told apart")


@case
def the_status_knows_why_a_round_ended():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        b.close()
        server.wait_log(r"event=node_disconnected ")
        run = status_of(server.port)[0]
        same([(m["addr"], m["rank"], m["why"], m["peer"]) for m in run["missing"]],
             [("b", 1, "disconnected", b.name)], "who is missing")
        check("b (pid 100) was lost: its connection ended; rdzvd told" in run["rounds"][0]["why"], run)
        a.read()
        a.leave()
        rejoin([a])
        run = status_of(server.port)[0]
        same([r["round"] for r in run["rounds"]], [1, 0], "rounds")
        check("ended" in run["rounds"][1] and "why" not in run["rounds"][0], run["rounds"])
        same(run["missing"], [], "the new round has all it needs")
        whole = get_json(server.port, "/rdzv/v1/spaces/default/status")
        same(whole["runs"][0]["rounds"], run["rounds"], "the space alone")
        same(whole["name"], "default", "its name")
        same(http_request(server.port, "GET", "/rdzv/v1/spaces/nobody/status")[0], 404, "no space")
        same(http_request(server.port, "PUT", STATUS)[0], 405, "PUT")


@case
def the_status_names_who_is_gone_when_the_others_go_on():
    with tempfile.TemporaryDirectory() as folder:
        data = "--data-dir=" + os.path.join(folder, "data")
        with daemon(data) as server:
            a, b, c = meet(server.port, "job", ["a", "b", "c"])
            for name, lost in (("c", c), ("b", b)):
                left = [a, b] if lost is c else [a]
                lost.close()
                server.wait_log(r"event=node_disconnected .*node=%s/" % name)
                run = status_of(server.port)[0]
                same([m["addr"] for m in run["missing"]], [name], "the others wait for it")
                same([m["addr"] for m in run["gone"]], ["c"] if lost is b else [], "gone")
                read_together(left)
                for agent in left:
                    agent.leave()
                rejoin(left)
                run = status_of(server.port)[0]
                same((run["missing"], run["missing_count"]), ([], 0), "nobody waits for it any more")
            same([(m["addr"], m["why"], m["peer"], m["rank"]) for m in run["gone"]],
                 [("b", "disconnected", b.name, 1), ("c", "disconnected", c.name, 2)], "they are gone")
            same(run["gone_count"], 2, "so many")
            check("known_since" not in run, "the daemon has seen all of the run")

            a.read()
            a.leave()
            again = Agent(server.port, "job", "c", pid=777)  # its successor, at the same address
            rejoin([a, again])
            run = status_of(server.port)[0]
            same([m["addr"] for m in run["gone"]], ["b"], "one of them has come again")
            again.close()
        with daemon(data) as server:
            run = status_of(server.port)[0]
            check(run["known_since"].endswith("Z") and run["rounds"] == [] and run["gone"] == [],
                  "what was before the start is forgotten, and the status says so: %s" % run)


def etcd_put(port, path, value, **more):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    c.request("PUT", "/v2/keys" + path, urllib.parse.urlencode(dict(more, value=value)),
              {"Content-Type": "application/x-www-form-urlencoded"})
    reply = c.getresponse()
    reply.read()
    check(reply.status in (200, 201), reply.status)
    name = "%s:%d" % c.sock.getsockname()[:2]
    c.close()
    return name


class EtcdAgent:
    """An agent of the backend etcd-v2, with the last state that it has read, and the index of this state."""
    PATH = "/v2/keys/torch/elastic/rendezvous/job"

    def __init__(self, port, name):
        self.link = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        self.node = ts.Node(name, 7, 0)

    def begin_to_read(self):
        self.link.request("GET", self.PATH)

    def begin_to_write(self, change):
        change(self.state)
        self.state.last_heartbeats[self.node] = ts.now()
        form = {"value": ts.dumps(self.state).decode(), "ttl": 7200,
                **({"prevIndex": self.index} if self.index else {"prevExist": "false"})}
        self.link.request("PUT", self.PATH, urllib.parse.urlencode(form),
                          {"Content-Type": "application/x-www-form-urlencoded"})

    def end(self):
        """The status of the answer."""
        reply = self.link.getresponse()
        body = json.loads(reply.read())
        self.state, self.index = ts.State(), 0
        if reply.status in (200, 201):
            self.state = ts.loads(body["node"]["value"].encode())
            self.index = body["node"]["modifiedIndex"]
        return reply.status

    def read(self):
        self.begin_to_read()
        return self.end()

    def write(self, change):
        self.begin_to_write(change)
        return self.end()

    def join(self, complete):
        def change(state):
            state.participants[self.node] = 0
            if complete:
                complete_round(state)
        self.read()
        check(self.write(change) in (200, 201), "it has joined")

    def wait_in_line(self, state):
        state.wait_list.add(self.node)

    def is_silent(self, port):
        """Another request has been answered since, and nothing has come here."""
        http_request(port, "GET", "/health")
        return not selectors_ready(self.link.sock)


def selectors_ready(sock):
    with selectors.DefaultSelector() as s:
        s.register(sock, selectors.EVENT_READ)
        return bool(s.select(0))


def etcd_round(port, names):
    agents = [EtcdAgent(port, name) for name in names]
    for a in agents:
        a.join(complete=a is agents[-1])
    return agents


def etcd_newcomer(port):
    """Agent c, whose write by which it begins to wait is held."""
    new = EtcdAgent(port, "c")
    new.read()
    new.begin_to_write(new.wait_in_line)
    check(new.is_silent(port), "its write is held")
    return new


@case
def all_agents_over_etcd_are_called_at_once():
    with daemon() as server:
        a, b = etcd_round(server.port, "ab")
        new = etcd_newcomer(server.port)
        same(EtcdAgent(server.port, "x").read(), 200, "whoever else reads is answered")
        a.begin_to_read()
        check(a.is_silent(server.port), "a look is held")
        b.begin_to_read()
        same((new.end(), a.end(), b.end()), (200, 200, 200), "all are answered")
        same([len(x.state.wait_list) for x in (new, a, b)], [1, 1, 1], "and see that it waits")


@case
def a_heartbeat_over_etcd_may_come_before_the_call():
    with daemon() as server:
        a, b = etcd_round(server.port, "ab")
        new = etcd_newcomer(server.port)
        b.begin_to_read()
        check(b.is_silent(server.port), "a look is held")
        a.index = b.index  # what it has read last
        a.state = ts.copy(b.state)
        same(a.write(lambda state: None), 200, "a heartbeat")
        a.begin_to_read()
        same(new.end(), 412, "what it has read is old")
        new.read()
        same(new.write(new.wait_in_line), 200, "now all look: it is not held")
        same((a.end(), b.end()), (200, 200), "all are answered")
        same([len(x.state.wait_list) for x in (new, a, b)], [1, 1, 1], "and see that it waits")


@case
def who_waits_over_etcd_and_leaves_holds_nobody():
    with daemon() as server:
        a, b = etcd_round(server.port, "ab")
        new = etcd_newcomer(server.port)
        a.begin_to_read()
        check(a.is_silent(server.port), "a look is held")
        new.link.close()
        same(a.end(), 200, "it goes on")
        same(a.state.wait_list, set(), "nobody waits")
        same((b.read(), b.state.wait_list), (200, set()), "nor does b see anybody")


@case
def an_agent_over_etcd_that_does_not_look_is_not_waited_for():
    with daemon() as server:
        a, b = etcd_round(server.port, "ab")
        new = EtcdAgent(server.port, "c")
        new.read()
        new.begin_to_write(new.wait_in_line)
        a.begin_to_read()
        same((new.end(), a.end()), (200, 200), "b has not looked")
        same(len(a.state.wait_list), 1, "a sees that it waits")
        same((b.read(), len(b.state.wait_list)), (200, 1), "so does b at its next look")


@case
def runs_over_etcd_are_shown():
    with daemon() as server:
        state = ts.State()
        node = ts.Node("a", 7, 0)
        state.participants[node] = 0
        state.last_heartbeats[node] = ts.now()
        name = etcd_put(server.port, "/torch/elastic/rendezvous/job", ts.dumps(state), ttl=7200)
        run, space = status_of(server.port)
        same((run["backend"], run["state"], run["round"]), ("etcd-v2", "joining", 0), "the run")
        same([(n["addr"], n["pid"], n["peer"]) for n in run["nodes"]], [("a", 7, name)], "its node")
        # A long value is read when it is asked for.
        for i in range(400):
            other = ts.Node("node-%d" % i, 7, 0)
            state.participants[other] = 0
            state.last_heartbeats[other] = ts.now()
        complete_round(state)
        etcd_put(server.port, "/torch/elastic/rendezvous/job", ts.dumps(state))
        run = status_of(server.port)[0]
        same((run["state"], run["participants"], len(run["nodes"])), ("complete", 401, 401), "all")
        old = "/p/run_old/rdzv/active_version"
        etcd_put(server.port, old, '{"status": "joinable", "version": "3", "participants": [0]}')
        run = status_of(server.port, "old")[0]
        same((run["backend"], run["state"], run["round"], run["participants"]),
             ("etcd", "joining", 3, 1), "the older backend")
        same([r["id"] for r in status_of(server.port)[1]["runs"]], ["job", "old"], "both")
        c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        c.request("DELETE", "/v2/keys/torch/elastic/rendezvous/job")
        same(c.getresponse().status, 200, "DELETE")
        c.close()
        await_space(server.port, lambda s: len(s["runs"]) == 1)
        same(http_request(server.port, "DELETE", "/rdzv/v1/spaces/default")[0], 200, "DELETE of all")
        same(get_json(server.port, STATUS)["spaces"][0]["runs"], [], "runs of a space that is empty")


@case
def runs_over_etcd_are_there_after_a_restart():
    with tempfile.TemporaryDirectory() as folder:
        data = "--data-dir=" + os.path.join(folder, "data")
        with daemon(data) as server:
            a = Agent(server.port, "agents", "a")
            rejoin([a])
            state = ts.State()
            node = ts.Node("b", 7, 0)
            state.participants[node] = 0
            state.last_heartbeats[node] = ts.now()
            complete_round(state)
            etcd_put(server.port, "/torch/elastic/rendezvous/job", ts.dumps(state))
        with daemon(data) as server:
            runs = {r["id"]: r for r in get_json(server.port, STATUS)["spaces"][0]["runs"]}
            same(sorted(runs), ["agents", "job"], "runs")
            same([(n["addr"], n["rank"]) for n in runs["job"]["nodes"]], [("b", 0)], "its node")
            check("since" not in runs["job"]["nodes"][0], "nobody has seen it join")
            same(runs["agents"]["agents"], 0, "agents of c10d")


class Stream:
    """Server-sent events."""

    def __init__(self, port, path=STATUS, version=11):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        self.connection._http_vsn_str = "HTTP/1.%d" % (version - 10)
        self.connection.request("GET", path + "?watch=true", headers=OPERATOR)
        self.reply = self.connection.getresponse()
        same(self.reply.status, 200, "status")
        same(self.reply.getheader("Content-Type"), "text/event-stream", "type")
        same(self.reply.getheader("Cache-Control"), "no-store", "cache")

    def next(self, kind=b"status"):
        """The text of the next event of that kind."""
        while True:
            lines = [self.reply.readline() for _ in range(3)]
            check(lines[0].startswith(b"event: ") and lines[1].startswith(b"data: ")
                  and lines[2] == b"\n", lines)
            if lines[0] == b"event: " + kind + b"\n":
                return lines[1][6:-1]

    def next_json(self):
        """Returns the space of the next status; of a status with all spaces, the first space."""
        status = json.loads(self.next())
        return status if "name" in status else status["spaces"][0]

    def until(self, condition):
        """The first text from now on of which that holds."""
        while True:
            text = self.next()
            if condition(text):
                return text


@case
def who_watches_the_status_is_told_of_changes():
    with daemon() as server, Rdzvd("--upstream=127.0.0.1:%d" % server.port) as relay:
        streams = [Stream(server.port), Stream(server.port, version=10), Stream(relay.port),
                   Stream(server.port, "/rdzv/v1/spaces/default/status")]
        for s in streams:
            same(s.next_json()["runs"], [], "nothing yet")
        agents = meet(server.port, "job", ["a", "b"])
        texts = [s.until(lambda t: t.count(b'"role":"participant"') == 2 and b'"complete"' in t)
                 for s in streams]
        same(texts[0], texts[1], "the text of all who have the same scope")
        same(texts[0], texts[2], "and of who comes through a relay")
        check(b"heartbeat" not in texts[0] and b'"keys"' not in texts[0].split(b'"runs"')[0],
              "what changes by itself")
        counters = json.loads(streams[0].next(b"counters"))
        check(counters["c10d_requests"] > 0 and counters["spaces"][0]["c10d_clients"] == 2, counters)
        # The next text of all is of the next change: none was sent without one.
        agents[1].close()
        for s in streams:
            same([m["addr"] for m in s.next_json()["runs"][0]["missing"]], ["b"], "who is missing")
        streams[0].connection.close()
        streams[0].reply.close()
        agents[0].close()
        for s in streams[1:]:
            s.until(lambda t: b'"participants":0' in t)


@case
def a_node_that_a_round_has_no_room_for_is_a_spare_until_it_has():
    """MAX is 2. The workers of a fail; while a is out of the round, c asks for its place."""
    with daemon() as server:
        a, b = meet(server.port, "job", "ab")
        c = Agent(server.port, "job", "c")
        a.step_out()
        c.wait_in_line()
        a.wait_in_line()
        b.step_out()
        b.join()
        c.read()
        c.join(complete=True)
        for agent in (b, c, a):
            state = agent.read()
            same((state.complete, state.round, state.wait_list), (True, 1, set()), agent.node.addr)
        same(state.redundancy_list, {a.node}, "spares")
        server.wait_log("event=node_joined.*role=spare previous=waiting")
        c.close()
        while len(a.read().participants) == 2:  # until there is a place
            time.sleep(0.1)

        def change(state):
            state.redundancy_list.discard(a.node)
            state.last_heartbeats.pop(a.node)
        a.write(change)
        a.wait_in_line()
        check(b.read().wait_list, "b is told to meet again")
        b.step_out()
        b.join()
        state = a.read()
        if not state.complete:
            state = a.join(complete=True)
        state = whole(server, a)
        same((state.round, sorted(n.addr for n in state.participants)), (2, ["a", "b"]), "in")
        server.wait_log("event=round_complete .*round=2 ")
        same(len(re.findall("event=node_joined.*role=spare previous=waiting", server.log())), 1, "told of the spare")
        same(server.log().count("event=round_complete"), 3, "rounds")


@case
def who_waits_for_a_run_stays_with_the_keys_of_the_space():
    """The keys of the space keep its wait, whatever keys its later requests name."""
    with daemon() as server:
        both = meet(server.port, "job", "ab")
        settle(both)  # from now on, other clients get the keys of workers
        looker, other = Peer(server.port), Peer(server.port)
        looker.wait(b"/torch.rendezvous.none")
        looker.send(modern.set(b"of-the-space", b"v") + modern.ping())
        looker.expect(NONCE)
        other.set(b"of-workers", b"v")
        same(other.count(), 1, "the keys of workers")
        looker.close()
        other.close()


@case
def agent_0_is_lost_before_it_has_said_where():
    with daemon() as server:
        a, b = meet(server.port, "job", "ab")
        a.close()
        same(b.ask_where(0), ("127.0.0.1", server.port), "the one that is left")
        b.read()
        b.step_out()
        c = Agent(server.port, "job", "c")
        rejoin([b, c])
        # b knows a place, and says none; c is new.
        b.set(b.round_key(1, b"torchelastic/role_info/0"), b"{}")
        same(c.ask_where(1), ("127.0.0.1", server.port), "the new one")


@case
def who_only_looks_at_a_run_is_no_agent_of_it():
    """As rdzvctl watch does: before the run begins, while it goes on, and when it is closed."""
    with daemon("--expect=2", "--closed-run-ttl=1s") as server:
        key = PREFIX + b"job"
        early, late = Peer(server.port), Peer(server.port)
        early.wait(key)
        a, b = Agent(server.port, "job", "a"), Agent(server.port, "job", "b")
        early.expect_stop_waiting()
        late.wait_get(key)
        a.join()
        b.read()
        state = b.state()
        state.participants[b.node] = 0
        state.deadline = ts.now() + datetime.timedelta(seconds=30)
        b.beat(state)
        b.try_write(ts.dumps(state))
        server.wait_log("event=last_call_ended")
        same(status_of(server.port)[0]["agents"], 2, "agents")
        a.read()
        a.write(complete_round)
        a.close_run()
        a.close()
        b.close()
        server.wait_log("event=run_forgotten")
        for peer in early, late:
            same(peer.check(key), False, "it is there still")
        late.cas(key, b"", ts.SENTINEL)  # it is one, after all
        same(status_of(server.port)[0]["agents"], 1, "agents")


@case
def two_agents_that_are_one_node_are_told_apart():
    with daemon() as server:
        first, second = (Agent(server.port, "job", "host", pid=1) for _ in range(2))
        first.join()
        same([h for h in status_of(server.port)[0]["hints"] if "two agents" in h], [], "one")
        second.read()
        second.join()
        hints = [h for h in status_of(server.port)[0]["hints"] if "two agents" in h]
        check(len(hints) == 1 and "host (pid 1)" in hints[0] and first.name in hints[0]
              and second.name in hints[0], hints)
        first.close()
        await_status(server.port, lambda r: not any("two agents" in h for h in r["hints"]))


def delete_request(key):
    return modern.delete(key)


@case
def runs_come_and_go_while_the_status_is_written():
    keys = [PREFIX + b"job-%d" % i for i in range(4000)]
    with daemon() as server:
        stream, writer = Stream(server.port), Peer(server.port)
        for _ in range(6):
            writer.send(b"".join(modern.set(key, ts.SENTINEL) for key in keys))
            writer.ping()
            reader = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
            reader.request("GET", STATUS, headers=OPERATOR)
            # All go between two of the slices in which it is written.
            writer.send(b"".join(map(delete_request, keys)))
            runs = json.loads(reader.getresponse().read())["spaces"][0]["runs"]
            reader.close()
            same(len({r["id"] for r in runs}), len(runs), "no run twice")
            same(writer.take(8 * len(keys)), len(keys) * number(1), "deleted")
        writer.send(b"".join(modern.set(key, ts.SENTINEL) for key in keys))
        told = json.loads(stream.until(lambda t: b'"runs_left_out":3500' in t))
        same(len(told["spaces"][0]["runs"]), 500, "runs in a stream")


@case
def who_does_not_read_the_stream_gets_the_newest_then():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "s")
        with daemon("--listen=unix:" + path) as server:
            a = Agent(server.port, "job", "a")
            state = ts.State()
            for i in range(500):  # its text is as long as half of what a socket of this kind takes
                node = ts.Node("node-%d" % i + 100 * "-", 100, 0)
                state.participants[node] = 0
                state.last_heartbeats[node] = ts.now()
            a.seen = a.cas(a.key, a.seen, ts.dumps(state))
            slow = socket.socket(socket.AF_UNIX)
            slow.settimeout(20)
            slow.connect(path)
            slow.sendall(b"GET %s?watch=true HTTP/1.0\r\n\r\n" % STATUS.encode())
            other, waiting = Stream(server.port), []
            for i in range(8):
                waiting.append(Peer(server.port))
                waiting[-1].wait(b"/change-%d" % i)
                other.until(lambda t, i=i: b"/change-%d" % i in t)
            texts, last = b"", b"/change-7"
            while last not in texts:
                texts += slow.recv(1 << 20)
            got = [i for i in range(8) if b'"key":"/change-%d"' % i in texts]
            shown = texts.count(b"event: status\n")
            check(1 < shown < 9, "%d texts of 9" % shown)
            same(got, list(range(8)), "what the last one says")
            slow.close()


# ------------------------------------------------------------ anything at all


@case
def whatever_agents_say_does_no_harm():
    fuzz.run(OPTIONS.seed, OPTIONS.steps)


def run_case(function, out):
    out.begin()
    start = time.monotonic()
    try:
        function()
        ok = True
    except Exception:
        traceback.print_exc(file=sys.stdout)
        ok = False
    return ok, time.monotonic() - start, out.end()


class ByThread:
    """stdout of each case apart, since they run side by side."""

    def __init__(self, real):
        self.real, self.local = real, threading.local()

    def begin(self):
        self.local.text = []

    def end(self):
        text, self.local.text = "".join(self.local.text), None
        return text

    def write(self, text):
        kept = getattr(self.local, "text", None)
        if kept is None:
            self.real.write(text)
        else:
            kept.append(text)

    def flush(self):
        self.real.flush()


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("names", nargs="*")
    OPTIONS = parser.parse_args()
    wanted = [f for f in CASES
              if not OPTIONS.names or any(n in f.__name__ for n in OPTIONS.names)]
    out = sys.stdout = ByThread(sys.stdout)
    failed = []
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        for f, done in [(f, pool.submit(run_case, f, out)) for f in wanted]:
            ok, seconds, text = done.result()
            print("%s %s (%.1f s)" % ("ok  " if ok else "FAIL", f.__name__, seconds))
            if not ok or "skip" in text or "seed" in text or "again:" in text:
                print("    " + text.rstrip().replace("\n", "\n    "))
            if not ok:
                failed.append(f.__name__)
            out.flush()
    for name in failed:
        print("again: tests/elastic/run.py %s" % name)
    print("%d passed, %d failed" % (len(wanted) - len(failed), len(failed)))
    return 1 if failed or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
