"""Runs end: rdzvd forgets closed runs, idle runs, and runs that an operator removes."""


import torch_state as ts
from agents import Agent, meet, rejoin
from c10d import Peer
from cases import case, check
from scene import daemon, http_request, knock, same, settle


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
