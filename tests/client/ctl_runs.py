"""rdzvctl shows runs: status, list, watch, monitor and top. The cases run with ctl.py."""

import contextlib
import datetime
import http.client
import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("support", "elastic"):
    sys.path.insert(0, os.path.join(HERE, "..", folder))
import torch_state as ts  # noqa: E402
from agents import Agent, meet, read_together, rejoin  # noqa: E402
from c10d import Peer  # noqa: E402
from cases import case, check  # noqa: E402
from servers import OPERATOR, Rdzvd, token_flag  # noqa: E402
from ctl_program import (  # noqa: E402
    FINE, MISSING, RDZVCTL, REFUSED, TOKEN, UNKNOWN, UNREACHABLE, USAGE, environment, has, job,
    lines_in_order, rdzvctl)


# ---- runs


@case
def status_names_the_node_that_is_missing():
    with job(["node-a", "node-b", "node-c"], "--expect=4") as (daemon, agents):
        out, _ = rdzvctl("status", server=daemon, code=MISSING)
        lines_in_order(out, "RUN JOB", "3 of 4 nodes", "MISSING: 1", "1 node has not been seen yet",
                       "HERE: node-a, node-b, node-c")
        agents[1].close()
        daemon.wait_log("event=node_disconnected|event=round_restarted|event=node_lost")
        out, _ = rdzvctl("status", "JOB", server=daemon, code=MISSING)
        lines_in_order(out, "2 of 4 nodes", "MISSING: 2", "node-b", "disconnected",
                       "1 more has not been seen yet", "HERE: node-a, node-c", "EARLIER ROUNDS",
                       "node-b (pid 100) was lost")
        agents[1] = Peer(daemon.port)


@case
def the_first_round_has_an_exit_code_of_its_own():
    for flags, code, wanted in (((), UNKNOWN, "1 node; how many are wanted is not known before the first round is "
                                 "complete\n"), (("--expect=1",), FINE, "1 of 1 nodes, none missing\n"),
                                (("--expect=2",), MISSING, "MISSING: 1\n")):
        with Rdzvd(*flags) as daemon:
            agent = Agent(daemon.port, "none", "node-a")
            agent.join()
            out, _ = rdzvctl("status", server=daemon, code=code)
            has(out, wanted, "HINT: none is torchrun's default id: give each job one of its own (--rdzv-id)")
            check(("HINT: nodes that have joined: 1; how many torch waits for is not known: --expect" in out) == (code == UNKNOWN), out)
            if code == UNKNOWN:
                agent.join(complete=True)
                check("none missing" in rdzvctl("status", server=daemon)[0], "the round is complete")
            agent.close()


@case
def ranks_are_shown_with_the_edges_between_domains():
    with tempfile.TemporaryDirectory(prefix="rdzvd-") as tmp:
        table = os.path.join(tmp, "domains")
        with open(table, "w", encoding="utf-8") as f:
            f.write("w-2 row1/a\nw-10 row1/a\nw-1 row2/b\n")
        with job(["w-1", "w-10", "w-2"], "--topology-file=" + table) as (daemon, agents):
            out, _ = rdzvctl("ranks", "JOB", server=daemon)
            lines_in_order(out, "RANK", "DOMAIN", "0     w-2", "row1/a  -", "1     w-10", "row1/a  row2/b", "2     w-1",
                           "row2/b  row1/a", "round 0, --rank-order=keep: 2 of 3 edges of the ring cross domains")
            nodes = json.loads(rdzvctl("ranks", "JOB", "-o", "json", server=daemon)[0])
            check([(n["rank"], n["addr"], n.get("next_domain")) for n in nodes] ==
                  [(0, "w-2", None), (1, "w-10", "row2/b"), (2, "w-1", "row1/a")], nodes)
            check(rdzvctl("ranks", "JOB", "-o", "name", server=daemon)[0] == "w-2\nw-10\nw-1\n", "names")
            agents[0].leave()
            _, error = rdzvctl("ranks", "JOB", server=daemon, code=MISSING)
            has(error, "JOB has no ranks: its round is not complete")
            rdzvctl("ranks", "OTHER", server=daemon, code=MISSING)


def lose_the_last(daemon, agents):
    """One of three is lost, and the others meet again."""
    agents[2].close()
    daemon.wait_log("event=node_disconnected")
    read_together(agents[:2])
    for agent in agents[:2]:
        agent.leave()
    rejoin(agents[:2])


def parts_of(daemon):
    """{part: times}; each has a share of the time."""
    parts = json.loads(rdzvctl("goodput", "JOB", "-o", "json", server=daemon)[0])
    check(all(p["seconds"] >= 0 and p["share"].endswith(" %") for p in parts), parts)
    return {p["part"]: p["times"] for p in parts}


@case
def goodput_has_the_causes_of_all_waits_also_over_a_start():
    with tempfile.TemporaryDirectory(prefix="rdzvd-") as tmp:
        with job(["node-a", "node-b", "node-c"], "--data-dir=" + tmp) as (daemon, agents):
            check(parts_of(daemon) == {"training": 1, "first_nodes": 1}, "a round is complete")
            lose_the_last(daemon, agents)
            seen = {"training": 2, "first_nodes": 1, "lost_node": 1}
            check(parts_of(daemon) == seen, "a node was lost")
            out, _ = rdzvctl("goodput", "JOB", server=daemon)
            lines_in_order(out, "PART", "SHARE", "TIMES", "training", "%  2", "first_nodes", "lost_node")
            for agent in agents[:2]:
                agent.close()
            daemon.wait_log("event=node_disconnected", count=3)
            agents[:] = []
        with Rdzvd("--data-dir=" + tmp) as daemon:
            parts = parts_of(daemon)
            check(parts == {**seen, "lost_node": 2}, parts)
            rdzvctl("goodput", "OTHER", server=daemon, code=MISSING)


@case
def status_names_the_absent_node():
    with job(["node-a", "node-b", "node-c"]) as (daemon, agents):
        lose_the_last(daemon, agents)
        out, _ = rdzvctl("status", "JOB", server=daemon)
        lines_in_order(out, "2 nodes", "none missing, 1 absent", "ABSENT: 1, and the run goes on without it",
                       "node-c", "2", "disconnected", "HERE: node-a, node-b", "EARLIER ROUNDS\n",
                       "node-c (pid 100) was lost")
        agents[2] = Peer(daemon.port)


@case
def status_names_the_node_that_has_failed():
    with job(["node-a", "node-b"]) as (daemon, agents):
        agents[1].close_run()
        agents[1].close()
        daemon.wait_log("event=run_ended .*end=failed")
        out, _ = rdzvctl("status", "JOB", server=daemon, code=1)
        lines_in_order(out, "RUN JOB  failed, round 0", "1 of 2 nodes", "HINT: workers of node-b (pid 100) failed", "agents that still end their workers: 1",
                       "HERE: node-a", "EARLIER ROUNDS\n", "workers of node-b (pid 100) failed")
        check("none missing" not in out, out)
        agents[1] = Peer(daemon.port)


@case
def status_says_since_when_it_knows_of_rounds():
    with tempfile.TemporaryDirectory() as folder:
        data = "--data-dir=" + os.path.join(folder, "data")
        with job(["node-a"], data):
            pass
        with Rdzvd(token_flag(), data) as daemon:
            out, _ = rdzvctl("status", "JOB", server=daemon)
            check(re.search(r"EARLIER ROUNDS are known since the store was started, [0-9.]+m?s ago\n", out), out)
            _, error = rdzvctl("why", "JOB", server=daemon, code=MISSING)
            has(error, "no complete round of JOB has ended since the store was started")


@case
def status_says_what_is_waited_for():
    with job(["node-a", "node-b"]) as (daemon, _):
        waiting = [Peer(daemon.port) for _ in range(3)]
        for peer in waiting:
            peer.wait(b"/config/\x1b[31mred")
        waiting[0].send(b"")
        while "3 clients" not in rdzvctl("status", server=daemon)[0]:
            pass
        out, _ = rdzvctl("status", server=daemon)
        has(out, "none missing")
        check(re.search(r"^ +3 +/config/\\x1b\[31mred +- +-$", out, re.M), out)
        check("\x1b" not in out, "a key reached the terminal as it is")
        out, _ = rdzvctl("waiters", server=daemon)
        check(out.count("/config/") == 3, out)
        waits = json.loads(rdzvctl("waiters", "-o", "json", server=daemon)[0])
        check({w["peer"] for w in waits} == {p.name for p in waiting}, str(waits))
        check(all(w["keys"] == ["/config/\x1b[31mred"] for w in waits), str(waits))


@contextlib.contextmanager
def a_store_that_says(text):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield "127.0.0.1:%d" % server.server_port
        server.shutdown()
        thread.join()


@case
def status_exits_with_1_if_a_client_waits_for_long():
    """An agent at the exit barrier waits as long as the slowest node trains."""
    barrier = "/torch.rendezvous.JOB.0/torchelastic/agent/terminal_state/last_member"
    for owner, key, since, words, code in (
            ("run", "/default_pg/0//cpu//0/1", "20:57:48Z", ["status"], MISSING),
            ("run", "/default_pg/0//cpu//0/1", "20:57:48Z", ["status", "JOB"], MISSING),
            ("run", "/default_pg/0//cpu//0/1", "20:57:49Z", ["status"], FINE),
            ("run", barrier, "20:00:00Z", ["status"], FINE),
            ("space", "/default_pg/0//cpu//0/1", "20:57:48Z", ["status"], MISSING),
            ("space", "/default_pg/0//cpu//0/1", "20:57:48Z", ["status", "JOB"], FINE)):
        wait = {"waits": [{"keys": [key], "since": "2026-11-20T" + since}], "waits_count": 1}
        run = {"id": "JOB", "state": "complete", "participants": 2, **(wait if owner == "run" else {})}
        space = {"name": "default", "runs": [run], **(wait if owner == "space" else {})}
        with a_store_that_says(json.dumps({"now": "2026-11-20T20:58:18Z", "spaces": [space]})) as address:
            rdzvctl("-s", address, *words, code=code)


@case
def many_nodes_fit_on_a_screen():
    names = ["node-%03d" % i for i in range(60)]
    with job(names) as (daemon, agents):

        def missing():
            return json.loads(rdzvctl("runs", "-o", "json", server=daemon)[0])[0]["missing_count"]

        for i in (7, 19, 20, 21, 59):
            agents[i].close()
        while missing() < 5:
            pass
        out, _ = rdzvctl("status", server=daemon, code=MISSING)
        check(len(out.splitlines()) < 24, out)
        lines_in_order(out, "55 of 60 nodes", "MISSING: 5", "node-007", "node-019", "node-059",
                       "HERE: node-[000-006,008-018,022-058]")
        for i in range(22, 40):
            agents[i].close()
        while missing() < 23:
            pass
        out, _ = rdzvctl("status", server=daemon, code=MISSING)
        has(out, "23 disconnected: node-[007,019-039,059]")
        check(len(out.splitlines()) < 24, out)
        out, _ = rdzvctl("status", "-o", "wide", server=daemon, code=MISSING)
        check(len(re.findall(r"^ +node-\d+ +100 +participant", out, re.M)) == 37, out)


@case
def lists_have_a_line_for_each():
    with job(["a", "b"], "--expect=3") as (daemon, _):
        out, _ = rdzvctl("runs", server=daemon)
        has(out, "JOB", "default", "c10d", "complete", "2 of 3")
        check(rdzvctl("runs", "-o", "name", server=daemon)[0] == "JOB\n", "names alone")
        check(rdzvctl("spaces", "-o", "name", server=daemon)[0] == "default\n", "names alone")
        spaces = json.loads(rdzvctl("spaces", "-o", "json", server=daemon)[0])
        check(spaces[0]["name"] == "default" and spaces[0]["runs"] == 1, str(spaces))
        run = json.loads(rdzvctl("status", "JOB", "-o", "json", server=daemon, code=MISSING)[0])
        check(run["id"] == "JOB" and run["missing_count"] == 1, str(run))
        out, err = rdzvctl("status", "NO-JOB", server=daemon, code=MISSING)
        check(out == "" and "knows no run NO-JOB" in err, err)
        out, err = rdzvctl("status", "--space", "no-space", server=daemon, code=MISSING)
        has(err, "no-space")


@case
def runs_of_one_name_in_two_spaces_are_both_told():
    with Rdzvd(token_flag(), listen=("127.0.0.1:0/one", "127.0.0.1:0/two")) as daemon:
        agents = [agent for port in daemon.ports for agent in meet(port, "JOB", ["a"])]
        runs = json.loads(rdzvctl("status", "JOB", "-o", "json", server=daemon, RDZVCTL_TOKEN_FILE=TOKEN)[0])
        check([(run["id"], run["space"]) for run in runs] == [("JOB", "one"), ("JOB", "two")], str(runs))
        for agent in agents:
            agent.close()


@case
def an_order_goes_to_the_space_that_has_the_run_or_the_node():
    with Rdzvd(token_flag(), listen=("127.0.0.1:0", "127.0.0.1:0/one", "127.0.0.1:0/two")) as daemon:
        one, two = meet(daemon.ports[1], "A", ["a", "c"]), meet(daemon.ports[2], "B", ["b"])

        def order(*words, **kwargs):
            return rdzvctl(*words, server=daemon, RDZVCTL_TOKEN_FILE=TOKEN, **kwargs)

        def orders():
            client = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=20)
            client.request("GET", "/rdzv/v1/status", headers=OPERATOR)
            spaces = json.loads(client.getresponse().read())["spaces"]
            client.close()
            return {s["name"]: [(o["order"], o.get("node", o.get("run"))) for o in s["orders"]] for s in spaces if s["orders"]}

        out, err = order("cordon", "b")
        has(out, "such nodes in the space two now: 1")
        has(err, "without such nodes, B has fewer than its MIN, so it will wait")
        out, err = order("cordon", "none")
        has(out, "such nodes in the space default now: 0")
        has(err, "no run has a node none now", "`rdzvctl uncordon none` takes back")
        has(order("drain", "none", "--wait", code=MISSING)[1], "no run has a node none", "`rdzvctl uncordon none` takes back")
        order("hold", "A", "--yes")
        check(orders() == {"default": [("drain", "none")], "one": [("hold", "A")], "two": [("cordon", "b")]}, orders())
        out, _ = order("status", "A")
        check("in the space one" in out and "in the space two" not in out, out)
        for words, wanted in ((["nodes-multiple=x"], "write nodes-multiple=COUNT"), (["group=2,grow=1s"], "write RULE[,RULE...]")):
            has(order("rules", "A", *words, code=USAGE)[1], wanted)
        for words in (["uncordon", "b"], ["uncordon", "none"], ["release", "A"]):
            order(*words)
        check(orders() == {}, "each is taken back where it is")
        has(order("cordon", "?", code=USAGE)[1], "? is in the spaces one and two: choose one with --space")
        order("cordon", "?", "--space", "one")
        check(list(orders()) == ["one"], orders())
        for agent in one + two:
            agent.close()


@case
def a_store_without_runs_says_so():
    with Rdzvd() as daemon:
        for command in (["status"], ["status", "--space", "default"]):
            check(re.search("no runs at 127.0.0.1:%d: no agent has come since the store was started, [0-9]+s ago .jobs without "
                            "torchrun have no run.\n" % daemon.port, rdzvctl(*command, server=daemon)[0]), command)
        for command in (["runs"], ["runs", "--ended"], ["waiters"]):
            has(rdzvctl(*command, server=daemon)[1], "rdzvctl: there are none\n")


@case
def ended_runs_are_listed_with_their_reasons():
    with Rdzvd(token_flag(), "--closed-run-ttl=100ms") as daemon:
        check(rdzvctl("runs", "--ended", "-o", "json", server=daemon)[0] == "[]\n", "at first")
        for name in "good", "bad":
            agents = meet(daemon.port, name, ["a", "b", "c"])
            for agent in agents:  # it has the ranks of its workers
                agent.set(agent.round_key(0, b"torchelastic/assigned_ranks/0"), b"[]")
                agent.get(agent.round_key(0, b"torchelastic/assigned_ranks/0"))
            if name == "good":
                agents[0].finish(0)
            else:
                agents[2].close()
                daemon.wait_log("event=node_disconnected .*run=bad node=c/100/0|run=bad .*node=c/100/0")
            agents[0].close_run()
            for agent in agents:
                agent.close()
        daemon.wait_log("event=run_forgotten", count=2)
        out, _ = rdzvctl("runs", "--ended", server=daemon)
        check([line.split()[:3] for line in out.splitlines()] == [
            ["RUN", "SPACE", "END"], ["bad", "default", "failed"], ["good", "default", "done"]], out)
        lines_in_order(out, "MISSING", "WHY\n", " c/100/0 ", "workers of a (pid 100) failed", "its workers have ended well")
        check(rdzvctl("runs", "--ended", "-o", "name", server=daemon)[0] == "bad\ngood\n", "names alone")
        has(rdzvctl("status", server=daemon)[0], "all have ended, 2 in the last day: `rdzvctl runs --ended`")
        for command in "status", "why", "goodput":
            out, err = rdzvctl(command, "bad", server=daemon, code=MISSING)
            lines_in_order(out, "TRAINED", "bad ", "failed", "workers of a (pid 100) failed")
            check("good" not in out and err == "rdzvctl: the run bad has ended\n", out + err)
        check([r["id"] for r in json.loads(rdzvctl("why", "good", "-o", "json", server=daemon, code=MISSING)[0])] == ["good"], "json")


@case
def a_run_that_failed_is_shown_with_the_next_one_of_its_id():
    with Rdzvd(token_flag(), "--closed-run-ttl=100ms") as daemon:
        def fails(count):
            agents = meet(daemon.port, "JOB", ["a", "b"])
            agents[1].close_run()
            for agent in agents:
                agent.close()
            daemon.wait_log("event=run_forgotten", count=count)
        for count in 1, 2:
            fails(count)
        agents = meet(daemon.port, "JOB", ["a", "b"])
        last = r"EARLIER RUNS of this id that have failed: 2; the last one, \d+s ago: workers of b \(pid 100\) failed"
        for command in "status", "why", "goodput":
            out, _ = rdzvctl(command, "JOB", server=daemon)
            check(re.search(last, out), out)
        check(json.loads(rdzvctl("why", "JOB", "-o", "json", server=daemon)[0])["end"] == "failed", "json")
        agents[1].close_run()
        out, _ = rdzvctl("status", "JOB", server=daemon, code=MISSING)
        check("EARLIER RUNS" not in out, out)
        for agent in agents:
            agent.close()


@case
def why_shows_the_last_complete_round_and_what_is_waited_for():
    with job(["node-a", "node-b", "node-c"]) as (daemon, agents):
        lose_the_last(daemon, agents)
        waiting = Peer(daemon.port)
        waiting.wait(b"/nobody-writes-it")
        waiting.send(b"")
        while "/nobody" not in (out := rdzvctl("why", "JOB", server=daemon)[0]):
            pass
        lines_in_order(out, "round 0 ended: node-c (pid 100) was lost", "no worker is known to have ended before\n", "WAITING")
        for agent in agents[:2]:
            agent.read()
            agent.leave()
        agents[0].join()
        rdzvctl("close", "JOB", "--reason=night", "--yes", server=daemon, RDZVCTL_TOKEN_FILE=TOKEN)
        out, _ = rdzvctl("why", "JOB", server=daemon)
        check(re.match(r"round \d ended: an operator has closed it: night .*\nround \d ended: node-a ", out), out)
        check("node-a" in json.loads(rdzvctl("why", "JOB", "-o", "json", server=daemon)[0])["why"], "json")
        agents[:] = [waiting]


@case
def ended_runs_of_all_spaces_are_listed_the_newest_first():
    with Rdzvd(token_flag(), listen=("127.0.0.1:0/one", "127.0.0.1:0/two")) as daemon:
        for i, name in enumerate(["A", "B", "C"]):
            agents = meet(daemon.ports[i % 2], name, ["a"])
            rdzvctl("forget", name, "--yes", server=daemon, RDZVCTL_TOKEN_FILE=TOKEN)
            agents[0].close()
        out, _ = rdzvctl("runs", "--ended", "-o", "name", server=daemon, RDZVCTL_TOKEN_FILE=TOKEN)
        check(out == "C\nB\nA\n", out)


@case
def a_cancelled_job_is_left_and_not_broken():
    with job(["node-a", "node-b"], "--expect=2") as (daemon, agents):
        for agent in agents:
            agent.close()
        while "left" not in rdzvctl("runs", server=daemon)[0]:
            pass
        out, _ = rdzvctl("status", "JOB", server=daemon)
        lines_in_order(out, "RUN JOB  left, ", "0 of 2 nodes", "none missing", "all its agents have gone")
        check(re.search(r"^RUN JOB  left, round \d, for \d+s  ", out, re.M), out)
        agents[:] = [Peer(daemon.port)]


@case
def yaml_is_what_json_is():
    import yaml
    with job(["a", "b"]) as (daemon, _):
        for command in (["status"], ["runs"], ["spaces"], ["waiters"], ["keys"]):
            out = rdzvctl(*command, "-o", "yaml", server=daemon)[0]
            as_yaml, as_json = yaml.safe_load(out), json.loads(
                rdzvctl(*command, "-o", "json", server=daemon)[0])
            strip = re.compile(r'"(bytes|heartbeat|c10d_clients|seconds)": [^,}]*')
            check(strip.sub("", json.dumps(as_yaml)) == strip.sub("", json.dumps(as_json)), out)


@case
def watch_shows_it_again():
    with job(["a", "b"]) as (daemon, _):
        process = subprocess.Popen(
            [RDZVCTL, "-s", "127.0.0.1:%d" % daemon.port, "runs", "-w", "--interval", "100ms"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        heads = 0
        while heads < 3:
            line = process.stdout.readline()
            check(line, "it ended after %d looks" % heads)
            heads += line.startswith("RUN ")
        daemon.stop()
        _, err = process.communicate(timeout=60)
        check(process.returncode == UNREACHABLE and "no rdzvd at" in err, err)


@contextlib.contextmanager
def running(daemon, *args):
    process = subprocess.Popen([RDZVCTL, "-s", "127.0.0.1:%d" % daemon.port, *args], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line_with(process, words):
    """Reads the process's output up to a line that contains `words`; returns all lines read."""
    found = []
    while not found or words not in found[-1]:
        found.append(process.stdout.readline())
        if not found[-1]:
            raise AssertionError("no %r in %s%s" % (words, found, process.stderr.read()))
    return found


def first_json(process):
    text = ""
    while True:
        text += process.stdout.readline()
        try:
            return json.loads(text)
        except ValueError:
            check(process.poll() is None, text)


@case
def status_watches_what_is_new():
    """Nothing is printed again while nothing is new; and what happens, at once."""
    with job(["a", "b"]) as (daemon, agents):
        for space in ([], ["--space", "default"]):
            with running(daemon, "status", "-w", "-o", "json", *space) as process:
                first = first_json(process)
                check(first[0]["runs"][0]["missing_count"] == 0, first)
        with running(daemon, "status", "JOB", "-w") as process:
            line_with(process, "JOB")
            agents[0].close()
            line_with(process, "connection ended")
            daemon.stop()
            process.wait(60)
            check(process.returncode == UNREACHABLE, process.returncode)
            has(process.stderr.read(), "127.0.0.1:%d" % daemon.port)


@case
def status_that_is_watched_counts_a_last_call_down():
    with Rdzvd() as daemon:
        agent = meet(daemon.port, "JOB", ["a"])[0]
        agent.leave()

        def join(state):
            state.wait_list.discard(agent.node)
            state.participants[agent.node] = 0
            state.deadline = ts.now() + datetime.timedelta(seconds=300)
            agent.beat(state)

        agent.write(join)
        with running(daemon, "status", "-w") as process:
            line_with(process, "s left")
        agent.close()


def repeat(request, process, seconds=60):
    """Sends requests until the process, which needs a moment to connect, has seen enough of them."""
    deadline = time.monotonic() + seconds
    while process.poll() is None:
        check(time.monotonic() < deadline, "it has not ended after %d s" % seconds)
        request()


@case
def monitor_prints_requests():
    with Rdzvd(token_flag()) as daemon:
        with running(daemon, "monitor", "--token-file", TOKEN, "-c", "3") as process:
            peer = Peer(daemon.port)
            repeat(lambda: (peer.set(b"/key\x1b1", b"SECRET"), peer.ping()), process)
            out, err = process.communicate(timeout=60)
            check(process.returncode == FINE, err)
            has(out, "TIME", "OPERATION", "default", "127.0.0.1:")
            check("SECRET" not in out and "\x1b" not in out, out)
            rows = [line for line in out.splitlines()[1:] if "more requests" not in line]
            check(len(rows) == 3 and all(" SET " in r or " PING " in r for r in rows), out)
            check(all(re.match(r"\d\d:\d\d:\d\d\.\d{6}  127", r) for r in rows), out)
        with running(daemon, "monitor", "--token-file", TOKEN, "-c", "2", "-o", "json") as process:
            repeat(lambda: peer.add(b"/n", 1), process)
            found = [json.loads(line) for line in process.communicate(timeout=60)[0].splitlines()]
            check(len(found) == 2 and found[0]["operation"] == "ADD" and found[0]["key"] == "/n", found)
        peer.close()
        out, err = rdzvctl("monitor", server=daemon, code=REFUSED)
        has(err, "--token-file")
    rdzvctl("-s", "127.0.0.1:1", "monitor", code=UNREACHABLE)


@case
def top_counts_requests():
    with Rdzvd() as daemon:
        stop = threading.Event()

        def work():
            peer = Peer(daemon.port)
            while not stop.is_set():
                peer.add(b"/n", 1)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            top = json.loads(rdzvctl("top", "--interval", "300ms", "-o", "json", server=daemon)[0])
        finally:
            stop.set()
            thread.join()
        check(top["c10d_requests_per_second"] > 10 and top["connections"] >= 1, str(top))
        check(top["spaces"][0]["name"] == "default" and top["spaces"][0]["keys"] == 1, str(top))
        check(top["role"] == "store", str(top))
        out, _ = rdzvctl("top", "--interval", "100ms", server=daemon)
        has(out, "requests/s", "default")
        check("has no spaces" not in out, out)
        began = time.monotonic()
        rdzvctl("top", "--interval", "50ms", server=daemon)
        check(time.monotonic() - began < 1.9, "50ms became the 2 s that it is without --interval")
