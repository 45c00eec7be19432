"""Which worker ended first, and what is known of it: tests/torch/why.py shows it with real workers."""

import re
import struct
import time

from agents import Agent, rejoin
from c10d import Peer, modern
from cases import case, check
from orders import gives, order
from scene import await_status, daemon, http_request, same, settle, status_of

KEY = b"/default_pg/0//cpu//0/%d"


def two_nodes(server, hosts=("127.0.0.1", "127.0.0.3")):
    """The agents of two nodes with two workers each, when all have ranks."""
    agents = [Agent(server.port, "job", name, source=host) for name, host in zip("ab", hosts)]
    rejoin(agents)
    settle(agents)
    for rank, agent in enumerate(agents):
        agent.set(agent.round_key(0, b"torchelastic/role_info/%d" % rank),
                  b'{"role": "default", "rank": %d, "local_world_size": 2}' % rank)
        agent.set(agent.round_key(0, b"torchelastic/assigned_ranks/%d" % rank), b"[%d, 4, %d, 4]" % (2 * rank, 2 * rank))
        agent.get(agent.round_key(0, b"torchelastic/assigned_ranks/%d" % rank))
    return agents


class Worker(Peer):
    """With a pid of its own; a gloo worker has set the key of its rank."""

    def __init__(self, server, pid, rank=None, host="127.0.0.1", ping=True):
        super().__init__(server.port, ping=ping, source=host)
        if ping:
            nonce = struct.pack("<I", pid)
            self.send(modern.ping(nonce))
            self.expect(nonce)
        self.add(b"/init/", 1)
        if rank is not None:
            self.set(KEY % rank, b"its address")
            self.count()


def end(server, worker, left):
    """Returns when rdzvd has seen it."""
    worker.close()
    await_status(server.port, lambda r: r["workers_connected"] == left)


def leave(agent):
    agent.read()
    agent.step_out()


def round_of(server):
    return status_of(server.port)[0]["rounds"][0]


def says(server, pattern):
    why = round_of(server).get("why", "")
    check(re.fullmatch(pattern, why), why)


@case
def the_first_worker_that_ended_is_named():
    with daemon() as server:
        _, b = two_nodes(server)
        workers = [Worker(server, 40 + rank, rank) for rank in range(4)]
        workers[0].wait(b"/default_pg/0//cuda//0")
        await_status(server.port, lambda r: len(r["waits"]) == 1)
        end(server, workers[2], 3)
        check("why" not in round_of(server), "the round goes on")
        end(server, workers[3], 2)
        end(server, workers[1], 1)
        leave(b)
        why = r"rank 2 on b \(pid 42\) \(waits then: 1, the first for /default_pg/0//cuda//0 of rank 0 of default_pg, " \
              r"on a \(pid 40\), at its first collective\) ended first; b \(pid 100\) left the round by itself; " \
              r"then rank 3 on b \(pid 43\) after \d+ ms, rank 1 on a \(pid 41\) after \d+ ms, b \(pid 100\) left after \d+ ms"
        says(server, why)
        server.wait_log(r"level=warn event=first_failure space=default run=job round=0 rank=2 reason=\"%s\"" % why)


@case
def a_long_wait_that_has_timed_out_is_named():
    """As of torch: the worker cancels its wait, and then ends. If the key came before, it is no cause."""
    with daemon() as waits, daemon() as comes:
        agents, workers = {}, {}
        for server in waits, comes:
            agents[server] = two_nodes(server)
            workers[server] = Worker(server, 40, 0)
            workers[server].wait(KEY % 1)
        for server in waits, comes:
            server.wait_log("event=workers_wait .*key=/default_pg/0//cpu//0/1 ", timeout=60)
        came = Worker(comes, 41, 1)
        workers[comes].expect_stop_waiting()
        workers[waits].send(modern.cancel_wait())
        await_status(waits.port, lambda r: not r["waits"])
        for server in waits, comes:
            workers[server].close()
            await_status(server.port, lambda r: r["workers_connected"] == (server is comes))
            leave(agents[server][1])
        says(waits, r"rank 0 on a \(pid 40\) \(waits then: 0, the last for /default_pg/0//cpu//0/1 of rank 1 of default_pg, on a "
                    r"\(its agent's pid 100\), in init_process_group\(\)\) ended first; .*")
        says(comes, r"rank 0 on a \(pid 40\) ended first; .*")
        came.close()


@case
def a_rank_that_no_key_tells_follows_from_its_pid():
    with daemon(listen=("0.0.0.0:0",)) as server:
        _, b = two_nodes(server)
        same_process = [Worker(server, 52, host="127.0.0.3") for _ in range(2)]
        others = [Worker(server, 51, host="127.0.0.3"), Worker(server, 53)]
        end(server, same_process[0], 3)  # its process goes on
        end(server, same_process[1], 2)
        end(server, others[1], 1)  # the other worker of its node has not connected: not known
        leave(b)
        says(server, r"rank 3 \(inferred from its pid\) on b \(pid 52\) ended first; .*; then b \(pid 100\) left after \d+ ms")


@case
def a_rank_that_stands_still_is_told_from_the_one_that_timed_out():
    with daemon() as server:
        agents = two_nodes(server)
        workers = [Worker(server, 60 + rank, rank) for rank in range(4)]
        clocks = [Worker(server, 60 + rank) for rank in range(4)]  # as the thread of NCCL
        check(not any(clock.check(b"/exception_dump") for clock in clocks), "no key")
        until = time.monotonic() + 5  # only three of them go on
        while time.monotonic() < until:
            check(not any(clock.check(b"/exception_dump") for clock in clocks[:3]), "no key")
            time.sleep(0.2)
        workers[1].set(b"/default_pg/0//cuda//remote_error:0", struct.pack("<i", 1))
        workers[1].set(b"/exception_dump", struct.pack("<i", 2))  # later
        workers[1].count()
        same(status_of(server.port)[0]["rounds"][0]["why"], "a collective of rank 1 timed out first: the rank that hangs is "
             "another one; rank 3 stands still", "the cause of %d agents" % len(agents))


@case
def ends_that_follow_from_something_else_do_not_count():
    for what in "newcomer", "close", "done", "operator", "hold":
        with daemon() as server:
            a, b = two_nodes(server)
            workers = [Worker(server, 40 + rank, rank) for rank in range(4)]
            if what == "newcomer":
                c = Agent(server.port, "job", "c")
                c.read()
                c.wait_in_line()
            elif what == "close":
                gives(server, "runs/job", "close")
            elif what == "operator":
                gives(server, "runs/job", "restart", "&reason=night&by=ann")
            elif what == "hold":
                gives(server, "runs/job", "hold", "&by=ann")
            for left, worker in enumerate(reversed(workers)):
                end(server, worker, 3 - left)
            if what == "done":
                for agent in (a, b):
                    agent.read()
                    agent.finish(0)
                a.close_run()
            run, space = status_of(server.port)
            check("ended first" not in run["rounds"][0].get("why", ""), (what, run))
            check(not any("ended first" in report["why"] for report in space["ended"]), space["ended"])
            if what == "operator":
                check("an operator makes the nodes (2) meet again: night (ann at " in run["rounds"][0]["why"], run)
            if what == "hold":
                check(run["rounds"][0]["why"].startswith("an operator holds the run, and its nodes (2) wait (ann at "), run)


@case
def an_agent_that_ends_after_its_workers_has_had_a_signal():
    """Workers of gloo on other nodes fail at once."""
    with daemon() as server:
        _, b = two_nodes(server)
        workers = [Worker(server, 40 + rank, rank) for rank in range(4)]
        for left, rank in (3, 2), (2, 3), (1, 0):
            end(server, workers[rank], left)
        b.close()
        await_status(server.port, lambda run: run["absent"] or run["missing"])
        says(server, r"b \(pid 100\) was lost: its workers and its agent ended, as after a SIGTERM; rdzvd makes .*")
        check("first_failure" not in server.log(), server.log())


@case
def the_report_of_a_failed_run_has_the_first_failure():
    with daemon() as server:
        _, b = two_nodes(server)
        workers = [Worker(server, 40 + rank, rank) for rank in range(4)]
        end(server, workers[3], 3)
        b.read()
        b.close_run()
        run, space = status_of(server.port)
        why = "rank 3 on b (pid 43) ended first; workers of b (pid 100) failed, and its agent had no restart left"
        same([(e["end"], e["why"]) for e in space["ended"]], [("failed", why)], "ended")
        check(run["hints"][0].startswith(why), run["hints"])
        for event in "first_failure", "run_ended":
            server.wait_log(r"event=%s .*reason=\"%s\"" % (event, re.escape(why)))


@case
def a_dump_that_no_worker_reads_hides_no_failure():
    with daemon() as server:
        _, b = two_nodes(server)
        workers = [Worker(server, 40 + rank, rank) for rank in range(4)]
        same(order(server, "runs/job", "dump")[0], 409, "gloo")
        end(server, workers[3], 3)
        leave(b)
        says(server, r"rank 3 on b \(pid 43\) ended first; .*")


@case
def a_dump_sets_the_key_that_workers_look_for():
    with daemon() as server:
        a, b = two_nodes(server)
        status, answer = order(server, "runs/job", "dump")
        check(status == 409 and "No worker uses a store of rdzvd" in answer["message"], (status, answer))
        worker = Worker(server, 40, 0)
        status, answer = order(server, "runs/job", "dump")
        check(status == 409 and "No worker has looked for torch's key" in answer["message"], (status, answer))
        check(not worker.check(b"/exception_dump"), "before the order")
        gives(server, "runs/job", "dump", "&reason=it%20hangs&by=ann")
        same(worker.get(b"/exception_dump"), b"\xff" * 4, "no rank")
        server.wait_log(r"event=operator_order space=default order=dump about=job reason=\"it hangs\" by=\"ann at ")
        check("why" not in round_of(server), "the workers end later")
        leave(b)
        run = status_of(server.port)[0]
        check(run["rounds"][0]["why"].startswith("an operator has asked for flight records: it hangs (ann at "), run)
        check(not a.check(b"/exception_dump"), "the store of the agents")
        same(http_request(server.port, "PUT", "/rdzv/v1/spaces/default/runs/none?order=dump")[0], 404, "no such run")
