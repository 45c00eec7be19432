"""Runs end: rdzvd forgets closed runs, idle runs, and runs that an operator removes."""


import re
import tempfile

import torch_state as ts
from agents import Agent, meet, rejoin
from c10d import Peer, modern
from cases import case, check
from scene import await_space, await_status, daemon, get_json, http_request, knock, same, settle


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


@case
def a_closed_run_is_kept_for_the_grace():
    with daemon("--closed-run-ttl", "1h", "--closed-run-wait", "off") as server:
        closed_run(server).close()
        check(Agent(server.port, "job", "a").state().closed, "closed")
        check("event=agents_waiting" not in server.log(), "nobody was held")


@case
def agents_wait_until_a_closed_run_is_forgotten():
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
def agents_that_have_joined_nothing_when_the_run_closes_wait_as_well():
    """They have introduced themselves before, and poll or write only now."""
    with daemon("--closed-run-ttl", "100ms") as server:
        a = Agent(server.port, "job", "a")
        a.join(complete=True)
        b, c = [Agent(server.port, "job", name) for name in "bc"]
        c.read()
        a.close_run()
        b.begin_to_read()
        b.expect_stop_waiting()
        state = c.state()
        state.wait_list.add(c.node)
        c.beat(state)
        c.send(modern.compare_set(c.key, c.seen, ts.dumps(state)))
        check(all(e.is_silent(Peer(server.port)) for e in (b, c)), "held while one is there")
        a.close()
        server.wait_log(r"event=run_forgotten .*run=job closed=true keys=1 ")
        b.seen, c.seen = b.blob(), c.blob()
        same((b.seen, c.seen), (ts.SENTINEL, ts.SENTINEL), "the next run is a fresh one")
        b.join()
        c.join(complete=True)
        b.read()
        same(settle([b, c]), ("127.0.0.1", server.port), "they meet")


@case
def a_waiting_agent_is_rejected_after_closed_run_wait():
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
def a_waiting_agent_starts_the_run_once_an_operator_deletes_it():
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
def a_waiting_agent_does_not_delay_the_end_of_the_daemon():
    with daemon("--closed-run-ttl", "1h", "--drain-timeout", "1h") as server:
        a = closed_run(server)
        early = knock(server)
        check(early.is_silent(a), "held")
        same(server.stop(), 0, "exit code")


def plain_worker(server, rank):
    """A worker of env://, without torchrun: it counts itself, and writes its address for the group of all ranks."""
    peer = Peer(server.port)
    count = peer.add(b"init/", 1)
    if rank is not None:
        peer.set(b"/default_pg/0//cpu//0/%d" % rank, b"address")
        peer.check(b"done")
    return peer, count


@case
def a_job_without_torchrun_begins_again_when_all_its_clients_have_gone():
    def hints():
        return " ".join(get_json(server.port, "/rdzv/v1/status")["spaces"][0]["hints"])

    with daemon() as server:
        tool = Peer(server.port)
        tool.set(b"/x", b"1")
        tool.close()
        await_space(server.port, lambda s: s["c10d_clients"] == 0)
        workers = [plain_worker(server, rank) for rank in range(3)]
        same([count for _, count in workers], [1, 2, 3], "the first attempt")
        workers[2][0].close()
        server.wait_log("event=rank_ended space=default rank=2 .*c10d_clients=2")
        check("rank 2 of default_pg ended first" in hints(), "a hint: %s" % hints())
        late, count = plain_worker(server, 2)
        same((count, late.check(b"/x")), (4, True), "while others are there, the keys stay")
        for peer in workers[0][0], workers[1][0], late:
            peer.close()
        await_space(server.port, lambda s: s["c10d_clients"] == 0)
        looks = Peer(server.port)
        same(looks.check(b"/x"), True, "a client that does not count itself")
        looks.close()
        await_space(server.port, lambda s: s["c10d_clients"] == 0)
        again, count = plain_worker(server, 0)
        same((count, again.check(b"/x"), hints()), (1, False, ""), "the second attempt")
        server.wait_log("event=space_forgotten .*reason=\"all clients of a job have gone\"")
        same(server.log().count("event=rank_ended"), 1, "the first end of the attempt")


@case
def keys_of_groups_go_with_the_last_rank_while_agents_stay():
    """Of torchrun --rdzv-backend=static: agents restart their workers, and read their own keys again."""
    with daemon() as server:
        agent = Peer(server.port)
        agent.add(b"init/", 1)
        agent.set(b"/none/torchelastic/role_info/0", b"{}")
        first, second = (plain_worker(server, rank)[0] for rank in range(2))
        first.set(b"/default_pg/0//1//cpu//0/0", b"address")
        first.check(b"done")
        keys = (b"/default_pg/0//cpu//0/0", b"/default_pg/0//cpu//0/1", b"/default_pg/0//1//cpu//0/0")
        first.close()
        await_space(server.port, lambda s: s["c10d_clients"] == 2)
        again = plain_worker(server, 0)[0]
        same([agent.check(key) for key in keys], [True] * 3, "keys while rank 1 is there")
        for peer in second, again:
            peer.close()
        await_space(server.port, lambda s: s["c10d_clients"] == 1)
        same([agent.check(key) for key in keys], [True] * 3, "keys until the next client counts itself")
        last, count = plain_worker(server, None)
        same(([agent.check(key) for key in keys], agent.check(b"/none/torchelastic/role_info/0"), count),
             ([False] * 3, True, 5), "keys of the next attempt")
        server.wait_log("event=space_forgotten .*keys=3 reason=\"all ranks of a job have gone\"")
        same(await_space(server.port, lambda s: True)["hints"], [], "no rank has ended in this attempt")
        last.close()


@case
def clients_that_write_no_rank_keep_their_keys():
    with daemon() as server:
        for count in 1, 2, 3:
            peer, got = plain_worker(server, None)
            same(got, count, "clients")
            peer.close()
            await_space(server.port, lambda s: s["c10d_clients"] == 0)


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
def an_open_run_stays_for_agents_that_return():
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
def a_space_is_deleted_while_agents_and_workers_use_it():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        settle([a, b])
        worker, waiting = Peer(server.port), Peer(server.port)
        worker.set(b"/w", b"1")
        waiting.wait(b"/never")
        worker.ping()
        others = meet(server.port, "other", ["x", "y"])  # a run that agents leave has no port
        other_worker = Peer(settle(others)[1])
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
def a_run_is_deleted_while_agents_and_workers_use_it():
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


# --- The report of an end, which outlives the run. ---

def ended(server):
    """The reports, the newest first; with the number of the last one that came."""
    return get_json(server.port, "/rdzv/v1/spaces/default/status")["ended"]


def give_up(agent):
    """Torch's join operation when its time is over: the node goes, and then the agent closes the run."""
    agent.step_out()
    agent.write(lambda state: setattr(state, "closed", True))
    agent.close()


def end_well(server, run):
    a, b = meet(server.port, run, ["a", "b"])
    a.finish(0)
    a.close_run()
    a.close()
    b.close()


def end_in_failure(server, run):
    agents = meet(server.port, run, ["a", "b", "c"])
    for i, a in enumerate(agents):
        a.set(a.round_key(0, b"torchelastic/role_info/%d" % i), b"{}")
        a.set(a.round_key(0, b"torchelastic/assigned_ranks/%d" % i), b"[]")
        a.get(a.round_key(0, b"torchelastic/assigned_ranks/%d" % i))
    agents[2].close()
    server.wait_log(r"event=node_disconnected .*run=%s .*node=c/100/0" % run)
    agents[0].close_run()
    for a in agents[:2]:
        a.close()


def end_while_another_starts_its_workers_again(server, run):
    a, b = meet(server.port, run, ["a", "b"])
    a.finish(0)
    b.read()
    b.step_out()
    b.wait_in_line()
    a.read()
    a.close_run()
    a.close()
    b.close()


def end_in_vain(server, run):
    a, b = (Agent(server.port, run, name) for name in "ab")
    a.join()
    b.read()
    b.join()
    give_up(b)
    server.wait_log(r"event=close_ignored .*run=%s by=b/100/0" % run)
    a.read()
    give_up(a)


def leave(server, run):
    for a in meet(server.port, run, ["a", "b"]):
        a.close()


def forget(server, run):
    agent = Agent(server.port, run, "a")
    agent.join()
    same(http_request(server.port, "DELETE", "/rdzv/v1/spaces/default/runs/" + run)[0], 200, "forgotten")


def empty_the_space(server, run):
    agent = Agent(server.port, run, "a")
    agent.join()
    same(http_request(server.port, "DELETE", "/rdzv/v1/spaces/default")[0], 200, "emptied")


def delete_the_key(server, run):
    agent = Agent(server.port, run, "a")
    agent.join()
    check(Peer(server.port).delete(b"/torch.rendezvous." + run.encode()), "there was one")


ENDS = [  # what happens, its name; rounds, nodes, node, missing; the reason
    (end_well, "done", 1, 2, "a/100/0", [], "a (pid 100) closed the run: its workers have ended well"),
    (end_in_failure, "failed", 1, 3, "a/100/0", ["c/100/0"],
     "workers of a (pid 100) failed, and its agent had no restart left"),
    (end_while_another_starts_its_workers_again, "failed", 1, 2, "b/100/0", [],
     "workers of a (pid 100) have ended well, those of b (pid 100) have not: its agent waits for a new round"),
    (end_in_vain, "join_timeout", 0, 0, "a/100/0", [],
     "the join of a (pid 100) timed out after SOME s; nodes that had joined: 2"),
    (leave, "left", 1, 2, "", [], "all agents have gone, and none has come back"),
    (forget, "forgotten", 0, 0, "", [], "an operator has forgotten it"),
    (empty_the_space, "reset", 0, 0, "", [], "its key was deleted, or its space was emptied"),
    (delete_the_key, "reset", 0, 0, "", [], "its key was deleted, or its space was emptied"),
]


@case
def each_end_is_reported_once_and_over_a_restart():
    with tempfile.TemporaryDirectory() as folder:
        flags = "--closed-run-ttl=100ms", "--idle-run-ttl=200ms", "--data-dir=" + folder
        with daemon(*flags) as server:
            same(ended(server), [], "at first")
            for number, (act, end, rounds, nodes, node, missing, why) in enumerate(ENDS):
                act(server, "run-%d" % number)
                server.wait_log(r"level=%s event=run_ended space=default run=run-%d end=%s by=%s rounds=%d seconds=\d+ "
                                r"missing=%s reason=%s" % (
                                    "warn" if end in ("failed", "join_timeout") else "info", number, end,
                                    node or '""', rounds, missing[0] if missing else '""',
                                    re.escape('"%s"' % why).replace("SOME", r"\d+")))
                report = ended(server)[0]
                began, end_time, seconds, trained = (report.pop(name)
                                                     for name in ("began", "ended", "seconds", "trained"))
                check(began < end_time and 0 <= trained <= seconds < 60, (began, end_time, seconds, trained))
                report["why"] = re.sub(r"\d+ s;", "SOME s;", report["why"])
                same(report, {"id": "run-%d" % number, "end": end, "rounds": rounds, "nodes": nodes, "why": why,
                              "node": node, "missing": missing}, act.__name__)
            kept = ended(server)
            same(server.log().count("event=run_ended"), len(ENDS), "lines")
        with daemon(*flags) as server:
            same(ended(server), kept, "after a restart")


@case
def a_left_run_is_no_trouble_and_goes_on_if_agents_come_back():
    with daemon() as server:
        agents = meet(server.port, "job", ["a", "b"])
        for a in agents:
            a.close()
        run, space = await_status(server.port, lambda run: run["state"] == "left")
        same((run["missing_count"], run["agents"]), (0, 0), "none is missing")
        check("since" in run, run)
        same(space["ended"], [], "containers may start again")
        check("state=\"left\"" in http_request(server.port, "GET", "/metrics")[1].decode(), "a metric has the state")
        again = Agent(server.port, "job", "a")
        again.join()
        run, _ = await_status(server.port, lambda run: run["state"] == "joining")
        same(run["participants"], 1, "it goes on")


@case
def a_space_keeps_the_reports_of_the_last_hundred_runs():
    with daemon() as server:
        for number in range(103):
            forget(server, "run-%d" % number)
        same([report["id"] for report in ended(server)], ["run-%d" % n for n in range(102, 2, -1)], "the last ones")


# --- A job that has ended well stays ended for its other hosts. ---

def end_with_others(server):
    """Hosts b and c are a spare and a lost node of the job of host a, which ends well."""
    a = Agent(server.port, "job", "a")
    c = Agent(server.port, "job", "c")
    a.join()
    c.read()
    c.join(complete=True)
    a.read()
    b = Agent(server.port, "job", "b")
    b.wait_in_line()
    c.close()
    server.wait_log(r"event=node_disconnected .*node=c/100/0")
    a.finish(0)
    a.close_run()
    a.close()
    b.close()
    server.wait_log(r"event=run_forgotten .*closed=true")


def begin_to_join(agent):
    """Its answer is the caller's."""
    state = agent.state()
    state.participants[agent.node] = 0
    agent.beat(state)
    agent.send(modern.compare_set(agent.key, agent.seen, ts.dumps(state)))


def end_late(agent):
    """As torch's agent does when it learns that the run is closed."""
    agent.seen = agent.blob()
    check(agent.state().closed, "closed")
    agent.seen = agent.get(agent.key)
    agent.write(lambda state: setattr(state, "closed", True))
    agent.close()


ENDED_FLAGS = "--closed-run-ttl=100ms", "--closed-run-wait=1s"


@case
def a_spare_and_a_lost_node_do_not_begin_a_job_again_that_has_ended_well():
    with tempfile.TemporaryDirectory() as folder:
        with daemon(*ENDED_FLAGS, "--data-dir=" + folder) as server:
            end_with_others(server)
        with daemon(*ENDED_FLAGS, "--data-dir=" + folder) as server:
            for number, name in enumerate("bc"):
                late = Agent(server.port, "job", name, pid=200)
                same(late.seen, ts.SENTINEL, "until its host is known, it may be a new job's")
                begin_to_join(late)
                end_late(late)
                server.wait_log(r"event=run_forgotten .*reason=\"no host has come", count=number + 1)
            server.wait_log(r"event=agents_rejected .*agents=1 reason=\"the job has ended well", count=2)
            same(server.log().count("event=run_ended"), 0, "ends: there was no run")


@case
def they_join_when_another_host_begins_it_again():
    for name in "az":
        with daemon("--closed-run-ttl=100ms") as server:
            end_with_others(server)
            late = Agent(server.port, "job", "b", pid=200)
            begin_to_join(late)
            server.wait_log(r"event=agents_waiting .*reason=\"the job has ended well")
            check(late.is_silent(Peer(server.port)), "held")
            first = Agent(server.port, "job", name, pid=200)
            first.join()
            late.seen = late.blob()
            late.join(complete=True)
            same(len(first.read().participants), 2, "nodes of the next job")


@case
def an_ended_job_is_begun_again_on_the_word_of_an_operator_or_when_it_is_long_ago():
    for flags, forgets in (((), True), (("--ended-job-ttl=1ms",), False), (("--ended-job-ttl=off",), False)):
        with daemon("--closed-run-ttl=100ms", *flags) as server:
            end_with_others(server)
            path = "/rdzv/v1/spaces/default/runs/job"
            if forgets:
                same([http_request(server.port, "DELETE", path)[0] for _ in range(2)], [200, 404], "DELETE")
            agent = Agent(server.port, "job", "b", pid=200)
            agent.join(complete=True)
            check(agent.read().complete, "it trains alone")


@case
def an_operator_lets_a_host_begin_an_ended_job_that_waits_already():
    with daemon("--closed-run-ttl=100ms") as server:
        end_with_others(server)
        late = Agent(server.port, "job", "b", pid=200)
        begin_to_join(late)
        server.wait_log(r"event=agents_waiting .*reason=\"the job has ended well")
        same(http_request(server.port, "DELETE", "/rdzv/v1/spaces/default/runs/job")[0], 200, "DELETE")
        late.seen = late.blob()
        late.join(complete=True)
        check(late.read().complete, "it trains")


@case
def the_memory_of_ended_jobs_is_bounded():
    with daemon("--closed-run-ttl=1ms") as server:
        sizes = []
        for number in range(220):
            a, b = meet(server.port, "job-%03d" % number, ["a", "b" + 200 * "x"])
            b.close()
            server.wait_log("event=node_disconnected", count=number + 1)
            a.finish(0)
            a.close_run()
            a.close()
            if number in (109, 219):
                server.wait_log("event=run_forgotten", count=number + 1)
                space = await_space(server.port, lambda s: s["keys"] == 0)
                sizes.append(space["bytes"])
                check(40 <= len(space["ended"]) <= 100, "%d reports" % len(space["ended"]))
        check(sizes[1] < sizes[0] + 2000, sizes)
