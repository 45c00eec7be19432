"""What the log, the status and its stream say about runs."""

import datetime
import http.client
import json
import os
import re
import socket
import tempfile
import time

import torch_state as ts
from agents import PREFIX, Agent, complete_round, meet, read_together, rejoin, tool_write
from c10d import Peer, modern, number
from cases import case, check
from scene import (STATUS, await_agents, await_space, await_status, daemon, get_json, http_request, knock, same,
                   settle, status_of)
from servers import OPERATOR, Rdzvd


@case
def the_log_explains_each_step_of_a_run():
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
        server.wait_log(r"event=run_ended space=default run=job end=closed by=d/100/0 rounds=1 ")
        for agent in (a, b, d):
            agent.close()
        server.wait_log(r"event=run_forgotten space=default run=job closed=true keys=\d+ reason=")


@case
def the_status_names_missing_nodes():
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
        same(http_request(server.port, "POST", here + "/job")[0], 405, "POST")


@case
def the_status_shows_times_of_any_year():
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


def barrier_request(key, size):
    return modern.barrier(key, size)


@case
def the_status_shows_waiting_clients_and_their_keys():
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
        ranks = Agent(server.port, "job", "b")  # its wait is for keys that node 0 writes, so it accuses no other node
        ranks.wait(ranks.round_key(0, b"torchelastic/assigned_ranks/1"))
        await_status(server.port, lambda r: r["waits"])
        same(status_of(server.port)[0]["barriers"], [], "barriers")
        ranks.close()
        await_status(server.port, lambda r: not r["waits"])
        a.wait(*(a.round_key(0, b"torchelastic/role_info/%d" % i) for i in (0, 1)))
        run, space = await_status(server.port, lambda r: r["waits"])
        same((run["expect"], run["missing_count"], run["missing"]), (3, 1, []), "who is missing")
        wait = run["waits"][0]
        same((wait["peer"], wait["node"], wait["rank"]), (a.name, "a", 0), "who waits")
        key = a.round_key(0, b"torchelastic/role_info/1").decode()
        same((wait["keys"], wait["key_count"]), ([key], 1), "for what")
        same(run["absent_keys"], [{"key": key, "waiters": 1, "what": "the number of its workers", "writer_rank": 1,
                                   "writer_node": "b", "written_by": "node 1, on b (pid 100), when the round is complete"}],
             "keys that are not there")
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
def the_status_names_the_node_missing_at_the_exit_barrier():
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
def the_status_names_the_node_missing_at_a_barrier_of_workers():
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
        same([w["node"] for w in run["waits"]], ["a", "a", "b"], "the nodes of the workers that wait")
        same(run["absent_keys"], [{"key": (key + b":last_worker").decode(), "waiters": 3}], "keys")
        workers[1].close()
        run = await_status(server.port, lambda r: len(r["waits"]) == 2)[0]
        same(run["barriers"],
             [{"key": key.decode(), "arrived": 3, "size": 4}], "who has left is not told apart")


@case
def the_status_names_the_writer_of_a_key_that_workers_wait_for():
    with daemon() as server:
        agents = meet(server.port, "job", ["a", "b"])
        for rank, agent in enumerate(agents):
            agent.set(agent.round_key(0, b"torchelastic/role_info/%d" % rank),
                      b'{"role": "default", "rank": %d, "local_world_size": 2}' % rank)
            agent.set(agent.round_key(0, b"torchelastic/assigned_ranks/%d" % rank),
                      b"[%d, 4, %d, 4]" % (2 * rank, 2 * rank))
        workers = [Peer(server.port) for _ in range(3)]
        # The log names the key that is waited for longest, so each wait begins after the one before.
        for i, key in enumerate((b"/default_pg/0//cuda//0", b"/default_pg/0//cpu//0/3", b"/mine")):
            workers[i].wait(key)
            run = await_status(server.port, lambda r: len(r["waits"]) == i + 1)[0]
        same(sorted(((k["key"], k.get("writer_node"), k.get("written_by")) for k in run["absent_keys"]), key=str),
             [("/default_pg/0//cpu//0/3", "b", "rank 3 of default_pg, on b (its agent's pid 100), in init_process_group()"),
              ("/default_pg/0//cuda//0", "a", "rank 0 of default_pg, on a (its agent's pid 100), at its first collective"),
              ("/mine", None, None)], "writers")
        same([w.get("rank") for w in run["waits"]], [None] * 3, "ranks")
        same((run["workers_connected"], run["workers"]), (3, 4), "workers")
        for rank in (1, 2):
            workers.append(Peer(server.port))
            workers[-1].set(b"/default_pg/0//cpu//0/%d" % rank, b"its address")
            workers[-1].wait(b"/default_pg/0//cpu//0/3")
        run = await_status(server.port, lambda r: len(r["waits"]) == 5)[0]
        same(sorted((w["rank"], w["node"]) for w in run["waits"] if "rank" in w), [(1, "a"), (2, "b")], "their ranks")
        workers.append(Peer(server.port))
        workers[-1].set(b"/default_pg/0//cpu//0/0", b"its address")  # and then it asks for nothing
        agents[1].wait(agents[1].round_key(0, b"MASTER_ADDR"))
        log = server.wait_log(r"event=workers_wait .*", timeout=60)[0].group()
        check("/default_pg/0//cuda//0" in log and "rank 0 of default_pg, on a" in log, log)
        check(re.search(r"it is connected, and has asked nothing since \d\d:\d\d:\d\dZ", log), log)
        run = status_of(server.port)[0]  # torch sends no heartbeat while it waits for a key
        same([(n["addr"], n.get("silent", False)) for n in run["nodes"]], [("a", True), ("b", False)], "silent nodes")
        agents[0].read()
        run = status_of(server.port)[0]  # its heartbeat is old, and it has just asked
        same([n.get("silent", False) for n in run["nodes"]], [False, False], "silent nodes")


@case
def a_wait_that_still_registers_keys_is_not_overdue():
    with daemon() as server:
        agents = meet(server.port, "job", ["a", "b"])  # a run with agents has a tick each second
        workers, other = [Peer(server.port) for _ in range(8)], Peer(server.port)
        other.set(b"/there", b"1")
        wait = modern.wait(b"/first", *[b"/there"] * 100000)
        end = time.monotonic() + 2.5  # two ticks at least, in which the log looks for long waits
        while time.monotonic() < end:
            for worker in workers:
                worker.send(wait)
            other.set(b"/first", b"1")
            for worker in workers:
                worker.expect_stop_waiting()
            other.send(modern.delete(b"/first"))
            same(other.number(), 1, "deleted keys")
        check(len(agents) == 2 and "workers_wait" not in server.log(), server.log())


def hints_of(port, space="default"):
    return [" ".join(run["hints"]) for run in runs_of(port, space)]


def runs_of(port, space):
    return json.loads(http_request(port, "GET", "/rdzv/v1/spaces/%s/status" % space)[1])["runs"]


@case
def nodes_of_one_job_with_different_ids_are_named():
    with daemon() as server:
        agents = [Agent(server.port, "job-%d" % i, name) for i, name in enumerate(["a", "b"])]
        for agent in agents:
            agent.join()
        same(['1, such as "job-%d" of %s: do' % (1 - i, "ba"[i]) in hint for i, hint in enumerate(hints_of(server.port))],
             [True, True], hints_of(server.port))
        # A second node shows that the first run is a job of its own.
        third = Agent(server.port, "job-0", "c")
        third.join()
        same(["--rdzv-id" in hint for hint in hints_of(server.port)], [False, False], "two nodes have one id")


@case
def nodes_of_one_job_with_nearly_one_id_are_named():
    """Also if one of the two runs has several nodes. People number their jobs, so another number is another job."""
    for one, other, is_hint in (("job-1", "job-l", True), ("job", "job ", True), ("Job", "jOB", True), ("train", "tran", True),
                                ("job-1", "job-2", False), ("job-1", "job-11", False), ("job-a", "job-bc", False)):
        with daemon() as server:
            agents = [Agent(server.port, run, name) for run, name in ((one, "a"), (one, "b"), (other, "c"))]
            for agent in agents:
                agent.join()
            hints = hints_of(server.port)
            same(["do the nodes of one job have different ids" in hint for hint in hints], [is_hint] * 2, (one, other, hints))


@case
def one_run_in_two_spaces_is_named_in_both():
    with daemon(listen=("127.0.0.1:0/a", "127.0.0.1:0/b")) as server:
        agents = [Agent(port, "job", name) for port, name in zip(server.ports, "cd")]
        for agent in agents:
            agent.join()
        hints = [hints_of(port, space)[0] for port, space in zip(server.ports, "ab")]
        same(["another space" in hint for hint in hints], [True, True], hints)


@case
def the_status_says_the_reason_why_a_round_ended():
    with daemon() as server:
        a, b = meet(server.port, "job", ["a", "b"])
        b.close()
        server.wait_log(r"event=node_disconnected ")
        run = status_of(server.port)[0]
        same([(m["addr"], m["rank"], m["why"], m["peer"]) for m in run["missing"]],
             [("b", 1, "disconnected", b.name)], "who is missing")
        check("b (pid 100) was lost: its connection ended; rdzvd makes" in run["rounds"][0]["why"], run)
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
def the_status_names_absent_nodes_while_the_run_continues():
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
                same([m["addr"] for m in run["absent"]], ["c"] if lost is b else [], "absent")
                read_together(left)
                for agent in left:
                    agent.leave()
                rejoin(left)
                run = status_of(server.port)[0]
                same((run["missing"], run["missing_count"]), ([], 0), "nobody waits for it any more")
            same([(m["addr"], m["why"], m["peer"], m["rank"]) for m in run["absent"]],
                 [("b", "disconnected", b.name, 1), ("c", "disconnected", c.name, 2)], "they are absent")
            same(run["absent_count"], 2, "so many")
            check("known_since" not in run, "the daemon has seen all of the run")

            a.read()
            a.leave()
            again = Agent(server.port, "job", "c", pid=777)  # its successor, at the same address
            rejoin([a, again])
            run = status_of(server.port)[0]
            same([m["addr"] for m in run["absent"]], ["b"], "one of them has come again")
            again.close()
        with daemon(data) as server:
            run = status_of(server.port)[0]
            check(run["known_since"].endswith("Z") and [sorted(r) for r in run["rounds"]] == [["nodes", "round", "why"]]
                  and run["absent"] == [],
                  "what was before the start is forgotten, and the status says so: %s" % run)


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
def a_stream_of_the_status_shows_each_change():
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


def delete_request(key):
    return modern.delete(key)


@case
def runs_start_and_end_while_the_status_is_written():
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
def a_slow_reader_of_the_stream_gets_the_newest_status():
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


@case
def a_client_that_only_reads_a_run_is_no_agent():
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
def the_status_reports_two_agents_that_claim_one_node():
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


@case
def two_connected_clients_of_one_rank_are_a_hint():
    """Without torchrun: two jobs, or nodes that were started with the same RANK."""
    with daemon() as server:
        peers = [Peer(server.port) for _ in range(3)]
        for rank, peer in zip((0, 1, 1), peers):
            hints = await_space(server.port, lambda s: True)["hints"]
            same([h for h in hints if "have not come" not in h and "has not come" not in h], [], "one client for each rank")
            peer.set(b"/default_pg/0//cpu//0/%d" % rank, b"its address")
            peer.wait(b"/default_pg/0//cpu//0/2")
        space = await_space(server.port, lambda s: s["waits_count"] == 3)
        same(sorted(w["rank"] for w in space["waits"]), [0, 1, 1], "ranks")
        check(space["hints"][0].startswith("rank 2 of 3 or more has not come: is it started"), space)
        check(len(space["hints"]) == 2 and "2 connected clients are rank 1 of default_pg" in space["hints"][1], space)
        peers[1].close()
        await_space(server.port, lambda s: not any("connected clients" in h for h in s["hints"]))


@case
def ranks_and_nodes_that_have_not_come_are_a_hint():
    """Of jobs without a rendezvous. Node 0 of torchrun --rdzv-backend=static counts all clients before it writes a key."""
    roles, ranks = b"/none/torchelastic/role_info/%d", b"/none/torchelastic/assigned_ranks/%d"

    def hint(server, text, waits):
        def says(space):
            zero.add(b"init/", 0)
            return space["waits_count"] == waits and space["hints"][:1] == [text] * bool(text)
        await_space(server.port, says)

    with daemon() as server:
        zero, two, three = (Peer(server.port) for _ in range(3))
        for peer in zero, two, three:
            peer.add(b"init/", 1)
        ask = ": is it started, and does it reach this store?"
        hint(server, "node 1 of 2 or more has not come" + ask, 0)
        for number, peer in (2, two), (3, three):
            peer.set(roles % number, b"{}")
            peer.wait(ranks % number)
        hint(server, "node 1 of 4 or more has not come" + ask, 2)
        zero.set(roles % 0, b"{}")
        zero.wait(*(roles % number for number in range(5)))
        await_space(server.port, lambda s: s["waits_count"] == 3 and s["hints"] == [
            "nodes 1, 4 of 5 have not come: is each started, and does it reach this store?"])
    with daemon() as server:
        zero, rank = (Peer(server.port) for _ in range(2))
        rank.set(b"/default_pg/0//cpu//0/12", b"address")
        rank.wait(b"/default_pg/0//cpu//0/0")
        hint(server, "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 4 more of 13 or more have not come: is each started, "
             "and does it reach this store?", 1)


@case
def keys_of_an_earlier_attempt_are_a_hint():
    """Without torchrun, nothing else tells two attempts apart."""
    key = b"store_based_barrier_key:1"
    for flags, old in (((), 1), (("--space-idle-timeout=1h",), 0)):
        with daemon(*flags) as server:
            first = Peer(server.port)
            first.add(key, 2)
            same(await_space(server.port, lambda s: s["keys"] == 1)["hints"], [], "of the first attempt")
            first.close()
            await_space(server.port, lambda s: s["c10d_clients"] == 0)
            second = Peer(server.port)
            second.add(key, 1)
            second.wait(key + b":last_worker")
            space = await_space(server.port, lambda s: s["waits_count"] == 1)
            same(len(space["hints"]), 1 + old, space["hints"])
            check("more clients have arrived at a barrier" in space["hints"][0], space["hints"])
            check("--space-idle-timeout" in space["hints"][-1] or not old, space["hints"])
            same(Agent(server.port, "job", "a").state().closed, False, "a run begins")
            space = await_space(server.port, lambda s: len(s["runs"]) == 1)
            same(len(space["hints"]), 1, "keys are of the run")
