"""Nodes that are lost, come back or wait, and how a run goes on or ends."""

import datetime
import os
import re
import signal
import time

import torch_state as ts
from agents import Agent, complete_round, meet, read_together, rejoin, tool_write
from c10d import Peer, modern
from cases import case, check
from scene import (Filler, await_agents, await_state, daemon, held, http_request, knock, know_ranks, prune, same,
                   status_of, while_numbers_last, whole)


@case
def the_other_agents_learn_of_a_lost_node():
    with daemon() as server:
        a, b, c = meet(server.port, "job", ["a", "b", "c"])
        c.close()
        server.wait_log(r"level=warn event=nodes_restarted space=default run=job round=0 lost=c/100/0 nodes=2 "
                        r"action=\"the others end their workers and meet again: .*\" reason=\"the connection of one")
        state = read_together([a, b])[0]
        same(len(whole(server, a).participants), 2, "c is out")
        same(len(state.wait_list), 1, "something waits to be admitted")
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
        missing, = status_of(server.port)[0]["missing"]
        now = datetime.datetime.now(datetime.timezone.utc)
        check((now - datetime.datetime.fromisoformat(missing["since"])).total_seconds() > 5, "since its last message")
        check("\nrdzvd_torch_nodes_silent_total 1\n" in
              http_request(server.port, "GET", "/metrics")[1].decode(), "counted")
        b.read()
        same(whole(server, b).participants, {a.node: 0, b.node: 1}, "it only slept")


@case
def an_agent_gets_its_ranks_after_agent_0_is_lost():
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


def is_admitted_while_it_polls():
    """False: rdzvd's tick has come between two requests of `a`, so that `b` was answered, or must join by itself."""
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
        if not (b.state().round == 1 and b.state().complete and b.node in b.state().participants):
            return False
        server.wait_log(r"event=nodes_admitted space=default run=job round=1 nodes=1 participants=2 ")
        return True


@case
def a_waiting_node_is_answered_when_it_is_admitted():
    """Its look is held: it learns that its round is complete at that moment, and not a second later."""
    check(any(is_admitted_while_it_polls() for _ in range(5)), "it is not admitted")
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
        a, b = meet(server.port, "job", ["a", "b"], full=False)
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
def the_view_of_an_agent_does_not_grow_with_the_round():
    sizes = {}
    for count in (8, 999, 1000, 5200):
        with daemon() as server:
            a = Agent(server.port, "job", "a")
            crowd(a, count)
            state = a.read()
            same(sum(isinstance(p, int) for p in state.participants), count - 1 if count >= 1000 else 0, "only counted")
            a.beat(state, ts.now() + datetime.timedelta(milliseconds=500))
            a.try_write(ts.dumps(state))
            same(a.state().last_heartbeats, state.last_heartbeats, "heartbeats before its rank is read")
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
    check(abs(sizes[8] - sizes[5200]) < 16 and sizes[8] < 800, "bytes seen: %r" % sizes)


@case
def agents_leave_wait_and_meet_by_their_views():
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
def an_agent_closes_the_run_by_its_view():
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
def a_write_of_a_frozen_agent_harms_no_round():
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
@while_numbers_last
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
def a_node_presumed_dead_returns_to_its_round():
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
def an_agent_that_takes_itself_for_dead_finds_its_rank_in_the_round():
    """Its view names it alone, so it ends the round for itself and asks for a place. By the answer it is a participant,
    and the number of nodes has to be above its rank: torch 1.13 makes an IndexError of a rank that is not."""
    with daemon() as server:
        agents = meet(server.port, "job", ["a", "b", "c"])
        know_ranks(*agents)
        b, c = agents[1:]
        same(list(b.read().participants), [b.node], "an agent that trains sees only itself")
        shown = b.seen
        c.close()
        server.wait_log(r"event=node_disconnected .*node=c/")
        for joins in (True, False):
            b.seen = shown
            state = b.state()
            state.participants, state.wait_list = ({b.node: 0}, set()) if joins else ({}, {b.node})
            if joins:
                state.complete, state.round = False, 1
            b.beat(state)
            check(not b.try_write(ts.dumps(state)), "it has a place")
            seen = b.state()
            same((seen.complete, seen.participants[b.node], len(seen.participants)), (True, 1, 3), "its rank of 3 nodes")
            know_ranks(b)


@case
def a_node_presumed_dead_returns_once_the_space_has_room():
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
def a_node_presumed_dead_waits_after_a_smaller_round_has_begun():
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
        server.wait_log(r"event=repaired .*node=a/100/0 .*action=\"waits to be admitted\"")


@case
def a_node_presumed_dead_waits_if_the_new_round_was_not_full():
    """The last call was over before max nodes had met, so the round has free places."""
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"], full=False)
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
def a_replaced_node_loses_its_connection():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"], full=False)
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
def a_node_that_left_is_not_put_back():
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
def a_close_is_ignored_while_other_nodes_take_part():
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
        server.wait_log(r"event=run_ended .*run=job .*by=b/100/0")
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        a.close_run()
        check(b.read().closed, "by default one closes for all")


def are_silent(agents, other):
    return all(a.is_silent(other) for a in agents)


@case
def all_agents_of_a_round_are_notified_at_once():
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
def the_answer_to_a_heartbeat_hides_waiting_nodes():
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
def a_failed_run_ends_for_all_agents_and_starts_again_at_once():
    with daemon("--closed-run-ttl=1h") as server:
        agents = meet(server.port, "job", ["a", "b", "c"])
        know_ranks(*agents)
        agents[1].close_run()
        agents[1].close()
        server.wait_log(r"level=warn event=run_ended .*run=job end=failed by=b/100/0 .*had no restart")
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
def a_failed_run_goes_on_with_end_failed_runs_off():
    with daemon("--end-failed-runs=off") as server:
        a, b = meet(server.port, "job", ["a", "b"])
        know_ranks(a, b)
        a.close_run()
        same(b.read().wait_list, set(), "nothing makes it look")
        check("--end-failed-runs=off" in status_of(server.port)[0]["hints"][1], "the status says so")


@case
def a_finished_agent_does_not_wait_for_a_lost_node():
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
        server.wait_log(r"event=run_ended .*by=a/")


def meet_with_spare(server):
    """MAX is 2, which rdzvd learns in the second round. The workers of a fail; while a is out of the round, c asks for its
    place: a becomes the spare of b and c."""
    a, b = meet(server.port, "job", "ab", full=False)
    c = Agent(server.port, "job", "c")
    a.step_out()
    c.wait_in_line()
    a.wait_in_line()
    b.step_out()
    b.join()
    c.read()
    c.join(complete=True)
    return a, b, c


@case
def the_loss_of_a_spare_ends_no_round():
    with daemon() as server:
        a, b, c = meet_with_spare(server)
        server.wait_log("event=node_joined.*node=a/.* role=spare previous=waiting")
        a.close()
        server.wait_log("event=node_disconnected .*node=a/.* previous=spare")
        newest = status_of(server.port)[0]["rounds"][0]
        same((newest["round"], "why" in newest), (1, False), newest)


@case
def a_node_beyond_max_is_a_spare_until_a_place_is_free():
    with daemon() as server:
        a, b, c = meet_with_spare(server)
        for agent in (b, c, a):
            state = agent.read()
            same((state.complete, state.round, len(state.wait_list)), (True, 1, agent is a), agent.node.addr)
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
