"""Orders of operators: who may give them, what they refuse, and how long they hold. tests/torch/orders.py shows what real
agents make of them.
"""

import datetime
import http.client
import json
import os
import re
import signal
import tempfile

import c10d
import torch_state as ts
from agents import Agent, meet, read_together, rejoin
from cases import case, check
from scene import await_space, daemon, http_request, same, status_of

SPACE = "/rdzv/v1/spaces/default"


def order(server, what, word, more=""):
    """The status, and the answer."""
    status, body = http_request(server.port, "PUT", "%s/%s?order=%s%s" % (SPACE, what, word, more))
    return status, json.loads(body)


def undo(server, what):
    """DELETE. The status, and the answer without the numbers of nodes."""
    status, body = http_request(server.port, "DELETE", "%s/%s" % (SPACE, what))
    return status, {name: value for name, value in json.loads(body).items() if name in ("order", "about", "message")}


def space_of(server):
    return json.loads(http_request(server.port, "GET", SPACE + "/status")[1])


def orders(server):
    space = space_of(server)
    return [(o["order"], o.get("run") or o["node"], o["reason"]) for o in space["orders"]]


def gives(server, what, word, more=""):
    status, answer = order(server, what, word, more)
    for name in "nodes", "participants", "lacks":
        answer.pop(name, None)
    same((status, answer), (200, {"order": word, "about": what.partition("/")[2]}), word)


@case
def only_operators_give_orders_and_wrong_ones_get_a_sentence():
    with daemon() as server:
        meet(server.port, "job", ["a", "b"])
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        client.request("PUT", SPACE + "/runs/job?order=restart")
        same(client.getresponse().status, 403, "without the token")
        client.close()
        for what, word, status, words in [("runs/job", "cordon", 400, "restart, hold, release, close, dump or rules"),
                                          ("runs/job", "stop", 400, "release, close, dump or rules"),
                                          ("runs/job", "rules&rules=nodes-multiple=x", 400, "nodes-multiple=COUNT"),
                                          ("runs/job", "rules&rules=group=2,grow-interval=", 400, "write grow-interval=DURATION"),
                                          ("runs/job", "rules&rules=rank-zero=a", 400, "rdzvd --rules also takes rank-zero=NODE"),
                                          ("runs/job", "hold&until=0", 400, "until=NODES"),
                                          ("runs/job", "restart&until=2", 400, "until=NODES"),
                                          ("runs/job", "hold&for=0s", 400, "for=DURATION is for hold and cordon: such as 1h, not 0"),
                                          ("runs/job", "hold&for=8761h", 400, "8760h at most"),
                                          ("runs/job", "close&for=1h", 400, "for=DURATION"),
                                          ("nodes/a", "evict&for=1h", 400, "hold and cordon"),
                                          ("nodes/a", "hold", 400, "cordon, drain, evict or uncordon"),
                                          ("nodes/a", "drain&in=2x", 400, "in=DURATION"),
                                          ("nodes/a", "drain&in=25h", 400, "24h at most"),
                                          ("nodes/a", "drain&until=2", 400, "until=gone"),
                                          ("nodes/a", "cordon&until=gone", 400, "until=gone"),
                                          ("runs/job", "hold&until=gone", 400, "until=NODES"),
                                          ("nodes/a", "cordon&end=true", 400, "end=true is for evict"),
                                          ("nodes/a", "evict&end=yes", 400, "end=true is for evict"),
                                          ("nodes/" + 256 * "a", "cordon", 400, "by its host"),
                                          ("nodes/a/100/0", "cordon", 400, "by its host"),
                                          ("nodes/a", "uncordon", 404, "no such order"),
                                          ("runs/none", "restart", 404, "No such run"),
                                          ("runs/job", "release", 409, "not on hold")]:
            got, answer = order(server, what, word)
            check(got == status and words in answer["message"], (what, word, got, answer))
        same(orders(server), [], "orders")


@case
def delete_takes_an_order_back_and_forgets_no_run():
    with tempfile.TemporaryDirectory() as folder:
        with daemon("--data-dir=" + folder) as server:
            meet(server.port, "job", ["a", "b"])
            for word, query in [("cordon", ""), ("cordon", "?order=cordon"), ("drain", "?order=drain&reason=well&by=ann"),
                                ("evict", "?order=evict"), ("evict", "?order=cordon")]:
                gives(server, "nodes/c*", word)
                same(undo(server, "nodes/c*" + query), (200, {"order": "uncordon", "about": "c*"}), word + query)
                same(orders(server), [], word + query)
            server.wait_log("event=operator_order .*order=uncordon about=c.* reason=well by=\"ann at ")
            gives(server, "runs/job", "hold")
            gives(server, "runs/job", "rules", "&rules=nodes-multiple=2")
            same(undo(server, "runs/job?order=hold"), (200, {"order": "release", "about": "job"}), "hold")
            same(undo(server, "runs/job?order=rules&rules=group=1"), (200, {"order": "rules", "about": "job"}), "rules")
            client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
            client.request("DELETE", SPACE + "/nodes/a")
            same(client.getresponse().status, 403, "without the token")
            client.close()
            for what, status, words in [("nodes/c*", 404, "no such order"), ("nodes/a?order=hold", 400, "Only hold"),
                                        ("runs/job?order=hold", 409, "not on hold"), ("runs/none?order=hold", 404, "No such run"),
                                        ("runs/job?order=close", 400, "without a query forgets"),
                                        ("runs/job?order=cordon", 400, "Only hold"), ("runs/job?order=", 400, "Only hold"),
                                        ("runs/job?order=h%zzld", 400, "Only hold"), ("runs/job?reason=x", 400, "Only hold")]:
                got, answer = undo(server, what)
                check(got == status and words in answer["message"], (what, got, answer))
        with daemon("--data-dir=" + folder) as server:
            same((orders(server), len(space_of(server)["runs"])), ([], 1), "orders and runs after a start")
            same(undo(server, "runs/job")[0], 200, "the run is forgotten")
            same(space_of(server)["runs"], [], "runs")


@case
def orders_outlive_rdzvd_and_the_keys_of_the_space():
    wanted = [("cordon", "c*", "ECC errors"), ("close", "job", "wrong")]
    with tempfile.TemporaryDirectory() as folder:
        with daemon("--data-dir=" + folder) as server:
            meet(server.port, "job", ["a", "b"])
            gives(server, "nodes/c*", "cordon", "&reason=ECC%20errors&by=ann")
            gives(server, "nodes/d", "cordon")
            gives(server, "nodes/d", "uncordon")
            gives(server, "runs/job", "close", "&reason=wrong&by=ann")
            server.wait_log(r"event=operator_order space=default order=cordon about=c\* reason=\"ECC errors\" by=\"ann at ")
            why = r"an operator has closed it: wrong \(ann at .*\)"
            server.wait_log(r"event=run_ended .* end=closed by=\"\" .* reason=\"%s\"" % why)
            check([(end, bool(re.fullmatch(why, is_why))) for end, is_why in ended(server)] == [("closed", True)], ended(server))
            same(order(server, "runs/job", "restart")[0], 409, "it is closed")
            same(orders(server), wanted, "before the start")
        with daemon("--data-dir=" + folder) as server:
            same(orders(server), wanted, "after it")
            check(Agent(server.port, "job", "x").read().closed, "the run stays closed")
            http_request(server.port, "DELETE", SPACE + "/runs/job")
            same(orders(server), wanted[:1], "after the run was forgotten")
            http_request(server.port, "DELETE", SPACE)
            same(orders(server), wanted[:1], "after all keys were removed")


def ended(server):
    return [(e["end"], e["why"]) for e in space_of(server)["ended"] if e["id"] == "job"]


def fail(agents, name, joins=True):
    """A worker of that node has failed: its agent leaves the round and waits, and the others meet it. True: the run is
    closed then. Else, all join the next round."""
    first = next(a for a in agents if a.node.addr == name)
    first.read()
    first.step_out()
    first.read()
    first.wait_in_line()
    others = [a for a in agents if a is not first]
    read_together(others)
    for agent in others:
        agent.step_out()
    if any([agent.read().closed for agent in agents]):
        return True
    if joins:
        rejoin(agents)
    return False


@case
def a_run_ends_when_its_restart_budget_is_used_up():
    why = "restart budget of 2 in 1h is used up: first to fail was node b in 2 of 3 rounds"
    with tempfile.TemporaryDirectory() as folder:
        with daemon("--data-dir=" + folder, "--rules=restart-budget=2/1h") as server:
            agents = meet(server.port, "job", ["a", "b"])
            same([fail(agents, name) for name in "bab"], [False, False, True], "closed")
            server.wait_log(r"event=operator_order space=default order=close about=job reason=\"%s\" by=rdzvd" % why)
            server.wait_log(r"event=run_ended space=default run=job end=closed .* reason=\"%s\"" % why)
            same((orders(server), ended(server)), ([("close", "job", why)], [("closed", why)]), "orders and ends")
            metrics = http_request(server.port, "GET", "/metrics")[1].decode()
            check("\nrdzvd_torch_runs_stopped_total 1\n" in metrics, metrics)
        with daemon("--data-dir=" + folder) as server:
            check(Agent(server.port, "job", "a").read().closed, "the run stays closed")


def fail_outside(agents, name, most):
    """The workers of a node that is kept out fail: its agent becomes a spare, and the other nodes meet without that node."""
    first = next(a for a in agents if a.node.addr == name)
    first.read()
    first.step_out()
    first.read()
    while decides(first, most):
        pass
    others = [a for a in agents if a is not first]
    for agent, state in zip(others, read_together(others)):
        check(state.wait_list, "the others meet")
        agent.step_out()


def meet_with_spare(server):
    agents = meet(server.port, "job", ["a", "b", "c"])
    spare = Agent(server.port, "job", "d")
    spare.read()
    while decides(spare, 3):
        pass
    agents[0].spare = spare  # it lives as long as they do
    return agents


@case
def a_node_whose_workers_fail_first_again_and_again_is_cordoned():
    why = "its workers failed first 2 times in 1h"
    with daemon("--rules=cordon-after=2/1h") as server:
        agents = meet_with_spare(server)
        fail(agents, "b")
        same(orders(server), [], "after one failure")
        fail(agents, "b", joins=False)
        server.wait_log(r"event=operator_order space=default order=cordon about=b reason=\"%s\" by=rdzvd" % why)
        same(orders(server), [("cordon", "b", why)], "orders")
        gives(server, "nodes/b", "uncordon")
    with daemon("--rules=cordon-after=2/1h") as server:
        agents = meet(server.port, "job", ["a", "b", "c"])
        for _ in range(2):
            fail(agents, "b")
        server.wait_log(r"event=node_not_cordoned space=default run=job node=b reason=\"%s\"" % why)
        same(orders(server), [], "without a spare")


@case
def a_cordon_ends_at_its_time():
    def lasts(o):
        since, ends = (datetime.datetime.fromisoformat(o[name]) for name in ("since", "ends"))
        return ends - since

    over = "event=operator_order .*order=uncordon about=%s reason=\"its time is over\" by=rdzvd"
    with tempfile.TemporaryDirectory() as folder:
        with daemon("--data-dir=" + folder, "--rules=cordon-after=1/1h/2s") as server:
            agents = meet_with_spare(server)
            gives(server, "nodes/x", "cordon", "&for=1h")
            fail(agents, "b", joins=False)
            server.wait_log("event=operator_order .*order=cordon about=b .*by=rdzvd")
            same([lasts(o).total_seconds() for o in space_of(server)["orders"]], [3600, 2], "durations")
            server.wait_log(over % "b")
            same(orders(server), [("cordon", "x", "")], "orders")
            gives(server, "nodes/y", "cordon", "&for=1s")
        with daemon("--data-dir=" + folder) as server:
            server.wait_log(over % "y")
            same(orders(server), [("cordon", "x", "")], "orders after a start")
    with daemon("--rules=cordon-after=1/1h/2s") as server:
        agents = meet_with_spare(server)
        gives(server, "nodes/b", "cordon", "&reason=ECC")
        fail_outside(agents, "b", 3)
        same(orders(server), [("cordon", "b", "ECC")], "the operator's order stays")


@case
def a_run_that_fails_again_and_again_uses_up_its_budget():
    with tempfile.TemporaryDirectory() as folder:
        for times in range(3):  # the store is started again, too
            with daemon("--data-dir=" + folder, "--rules=restart-budget=1/1h") as server:
                agents = meet(server.port, "job", ["a", "b"])
                check(not agents[1].state().closed, "the run has begun again")
                agents[1].close_run()
                if times == 0:
                    for agent in agents:
                        agent.close()
                    await_space(server.port, lambda s: not s["runs"])
                    continue
                why = "restart budget of 1 in 1h is used up: first to fail was node b in 1 of 1 rounds"
                server.wait_log(r"event=run_ended space=default run=job end=closed .* reason=\"%s\"" % why)
                same(orders(server), [("close", "job", why)], "orders")
                http_request(server.port, "DELETE", SPACE + "/runs/job")
                agents = meet(server.port, "job", ["a", "b"])
                check(not fail(agents, "b"), "an operator has forgotten the run, so its budget begins anew")
                break


@case
def a_run_without_progress_ends():
    why = "no progress: each of the last 2 rounds failed within 1h, none raised rdzvd/progress"
    with daemon("--rules=no-progress=2/1h") as server:
        agents = meet(server.port, "job", ["a", "b"])
        for times, progress in enumerate([57, 57, 58]):
            check(not fail(agents, "b"), "closed after %d failures" % (times + 1))
            worker = c10d.Peer(server.port)
            worker.set(b"/default_pg/0//rdzvd/progress", b"%d" % progress)
            worker.set(b"/rdzvd/progress", b"no number")
        check(not fail(agents, "b"), "that round had progress")
        same(c10d.Peer(server.port).add(b"/rdzvd/progress", 58), 58, "no more than before")
        check(not fail(agents, "b"), "one failure")
        check(fail(agents, "b"), "two failures in a row")
        server.wait_log(r"event=operator_order space=default order=close about=job reason=\"%s\" by=rdzvd" % why)
        same(ended(server), [("closed", why)], "ends")
        check(why in status_of(server.port)[0]["rounds"][0]["why"], "why the last round has ended")


@case
def a_run_that_begins_again_and_again_makes_no_progress():
    why = "no progress: each of the last 2 rounds failed within 1h, none raised rdzvd/progress"
    with tempfile.TemporaryDirectory() as folder:
        for progress, vain in [(57, False), (57, False), (57, True)]:
            with daemon("--data-dir=" + folder, "--rules=no-progress=2/1h") as server:
                agents = meet(server.port, "job", ["a", "b"])
                c10d.Peer(server.port).set(b"/default_pg/0//rdzvd/progress", b"%d" % progress)
                await_space(server.port, lambda s: s["runs"][0]["state"] == "complete")
                agents[1].close_run()
                server.wait_log(r"event=run_ended space=default run=job end=%s" % ("closed" if vain else "failed"))
                same(orders(server), [("close", "job", why)] if vain else [], "orders")
                same(space_of(server)["ended"][0].get("progress"), progress, "the report")
                for agent in agents:
                    agent.close()
                if not vain:
                    await_space(server.port, lambda s: not s["runs"])


def rules_of(server):
    run, _ = status_of(server.port)
    return run.get("nodes_multiple"), run.get("grow_interval")


@case
def a_run_has_rules_of_its_own_until_it_is_forgotten():
    own = "&rules=nodes-multiple=2,grow-interval=30m"
    with tempfile.TemporaryDirectory() as folder:
        flags = "--data-dir=" + folder, "--grow-interval=1h", "--rules=rank-zero=none"
        with daemon(*flags) as server:
            agents = meet(server.port, "job", ["a", "b"], full=False)
            same(rules_of(server), (None, 3600), "those of the daemon")
            gives(server, "runs/job", "rules", own + "&reason=pairs")
            same(rules_of(server), (2, 1800), "its own")
            agents.append(Agent(server.port, "job", "c"))
            agents[2].read()
            while decides(agents[2], 4):
                check(not agents[0].read().wait_list, "a node meets for the third one")
            nodes = {n["addr"]: n["role"] + (", surplus" if n.get("surplus") else "")
                     for n in status_of(server.port)[0]["nodes"]}
            same(nodes, {"a": "participant", "b": "participant", "c": "spare, surplus"}, "roles")
            check("without a place: 1" in " ".join(status_of(server.port)[0]["hints"]), "a hint")
            gives(server, "nodes/c", "cordon")
            hints = " ".join(status_of(server.port)[0]["hints"])
            check("keep out: 1" in hints and "without a place" not in hints, hints)
            gives(server, "nodes/c", "uncordon")
            full = meet(server.port, "full", ["a", "b"])
            gives(server, "runs/full", "rules", own)
            full.append(Agent(server.port, "full", "c"))
            full[2].read()
            while decides(full[2], 4):
                pass
            run = status_of(server.port, "full")[0]
            check(run["max"] == 2 and "without a place" not in " ".join(run["hints"]), run["hints"])
            gives(server, "runs/full", "rules")
        with daemon(*flags) as server:
            same(rules_of(server), (2, 1800), "after a start")
            same(orders(server), [("rules", "job", "pairs")], "orders")
            gives(server, "runs/job", "rules")
            same((rules_of(server), orders(server)), ((None, 3600), []), "those of the daemon again")
            gives(server, "runs/job", "rules", own)
            http_request(server.port, "DELETE", SPACE + "/runs/job")
            same(orders(server), [], "after the run was forgotten")


@case
def a_run_that_an_order_leaves_short_misses_the_node_that_is_kept_out():
    for more, role in ("", ["a", "b"]), ("&end", ["a"]):
        with daemon("--expect=2") as server:
            a, b = meet(server.port, "job", ["a", "b"])
            gives(server, "nodes/b", "evict", more)
            read_together([a, b])
            if more:
                b.close()
            else:
                b.leave()
            a.leave()
            a.join(complete=False)
            while not more and decides(b, 2):
                pass
            run = status_of(server.port)[0]
            same((sorted(n["addr"] for n in run["nodes"]), [(m["addr"], m["why"]) for m in run["missing"]],
                  run["missing_count"]), (role, [("b", "kept out")], 1), more)


@case
def a_closed_run_lists_the_nodes_whose_agents_are_there():
    with daemon("--closed-run-ttl=1h") as server:
        a, b = meet(server.port, "job", ["a", "b"])
        gives(server, "runs/job", "close")
        same(sorted(n["addr"] for n in status_of(server.port)[0]["nodes"]), ["a", "b"], "both are there")
        a.close()
        await_space(server.port, lambda space: [n["addr"] for n in space["runs"][0]["nodes"]] == ["b"])
        b.close()
        await_space(server.port, lambda space: space["runs"][0]["nodes"] == [])


@case
def a_hold_ends_when_so_many_nodes_are_there():
    with tempfile.TemporaryDirectory() as folder:
        with daemon("--data-dir=" + folder) as server:
            agents = meet(server.port, "job", ["a", "b"])
            status, answer = order(server, "runs/job", "hold", "&until=2")
            check(status == 409 and "So many nodes take part already" in answer["message"], (status, answer))
            check("event=operator_order" not in server.log(), "a refused order changes nothing")
            gives(server, "runs/job", "hold", "&until=3&reason=quota")
            same(orders(server), [("hold", "job", "quota")], "orders")
            agents.append(Agent(server.port, "job", "c"))
            agents[2].read()
            decides(agents[2], 3)  # its write says which node it is
            server.wait_log(r"event=operator_order space=default order=release about=job .*by=rdzvd")
            same(orders(server), [], "orders")


@case
def a_hold_ends_at_its_time_also_after_a_start():
    def ends():
        hold, = space_of(server)["orders"]
        return datetime.datetime.fromisoformat(hold["ends"]), hold.get("nodes")

    with tempfile.TemporaryDirectory() as folder:
        with daemon("--data-dir=" + folder) as server:
            agents = meet(server.port, "job", ["a", "b"])
            gives(server, "runs/job", "hold", "&for=1h")
            first = ends()[0]
            gives(server, "runs/job", "hold", "&for=2h&until=3")
            second, nodes = ends()
            check(datetime.timedelta(minutes=59) < second - first < datetime.timedelta(minutes=61), (first, second))
            same(nodes, 3, "the second order replaces the first one")
            hint = " ".join(status_of(server.port)[0]["hints"])
            check("holds the run until %s, so" % second.strftime("%Y-%m-%d %H:%M:%SZ") in hint, hint)
        with daemon("--data-dir=" + folder) as server:
            same(ends(), (second, 3), "after a start")
            gives(server, "runs/job", "hold", "&for=300ms&until=3")
            server.wait_log("event=operator_order .*order=release about=job reason=\"its time is over\" by=rdzvd")
            same(orders(server), [], "orders")
            gives(server, "runs/job", "hold", "&for=1s")
            del agents
        with daemon("--data-dir=" + folder) as server:  # without agents
            server.wait_log("event=operator_order .*order=release about=job reason=\"its time is over\" by=rdzvd")
            same(orders(server), [], "orders")


def keys_of_drain(client):
    """The value that workers find; None: none."""
    keys = b"/rdzvd/drain", b"/default_pg/0//rdzvd/drain"
    there = {client.check(key) for key in keys}
    check(len(there) == 1, "both keys or none")
    return json.loads(client.get(keys[1])) if there == {True} else None


@case
def a_drain_asks_the_workers_and_ends_with_their_confirmation_or_its_time():
    with tempfile.TemporaryDirectory() as folder:
        with daemon("--data-dir=" + folder) as server:
            agents = meet(server.port, "job", ["a", "b"])
            client = c10d.Peer(server.port)
            check(keys_of_drain(client) is None, "before the order")
            gives(server, "nodes/c", "drain")
            check(keys_of_drain(client) is None, "no such node trains")
            gives(server, "nodes/a", "drain", "&reason=heat")
            first = keys_of_drain(client)
            same((first["nodes"], first["reason"]), (["a", "c"], "heat"), "the key")
            nodes = {n["addr"]: n.get("draining", False) for n in status_of(server.port)[0]["nodes"]}
            same(nodes, {"a": True, "b": False}, "draining")
            gives(server, "nodes/a", "drain", "&reason=more%20heat")
            second = keys_of_drain(client)
            check(second["id"] > first["id"], "a new id")
            client.set(b"/x/rdzvd/checkpointed", b"%d" % first["id"])  # of an order that is replaced
        with daemon("--data-dir=" + folder) as server:
            client = c10d.Peer(server.port)
            same(keys_of_drain(client), second, "after a start")
            same(orders(server), [("drain", "c", ""), ("drain", "a", "more heat")], "orders")
            check(all("until" in o for o in space_of(server)["orders"]), "both drains have a time")
            client.set(b"/x/rdzvd/checkpointed", b"%d" % second["id"])
            server.wait_log(r"event=drain_over space=default orders=2 reason=\"workers have confirmed")
            same(orders(server), [("evict", "c", ""), ("evict", "a", "more heat")], "orders")
            check(not any("until" in o for o in space_of(server)["orders"]), "evictions have none")
            check(keys_of_drain(client) is None, "the drain is over")
            gives(server, "nodes/b", "drain", "&in=1ms")
            server.wait_log(r"event=drain_over space=default orders=1 reason=\"the time of the order is over")
            gives(server, "nodes/b", "uncordon")
            same(len(agents), 2, "agents")


@case
def the_answer_to_a_drain_names_a_run_that_lacks_nodes_then():
    with daemon() as server:
        agents = [Agent(server.port, "job", name, nnodes=(2, 3)) for name in "abc"]
        for agent in agents:
            agent.read()
            agent.answer_looks()
        same(status_of(server.port)[0]["state"], "complete", "state")
        for pattern, lacks in ("*", "job"), ("[ab]", "job"), ("a", None), ("none", None):
            status, answer = order(server, "nodes/" + pattern, "drain", "&in=1h")
            same((status, answer.get("lacks")), (200, lacks), pattern)
            gives(server, "nodes/" + pattern, "uncordon")
        gives(server, "nodes/c", "cordon")
        same(order(server, "nodes/a", "drain", "&in=1h")[1].get("lacks"), "job", "without c")


@case
def the_history_has_the_reason_of_a_drain():
    with daemon() as server:
        agents = meet(server.port, "job", ["a", "b", "c"])
        gives(server, "nodes/a", "drain", "&in=1ms&reason=maint&by=ann")
        server.wait_log("event=drain_over")
        why = status_of(server.port)[0]["rounds"][0]["why"]
        check("meet again: maint (ann at " in why, why)
        same(len(agents), 3, "agents")


@case
def an_order_until_gone_ends_with_its_nodes():
    with daemon() as server:
        agents = meet(server.port, "job", ["a", "b"])
        gives(server, "nodes/a", "drain", "&in=1ms&until=gone")
        gives(server, "nodes/c", "evict", "&reason=%22ends%22:%22gone%22")
        gives(server, "nodes/d", "evict", "&until=gone")
        gives(server, "nodes/g", "cordon", "&reason=ECC")
        gives(server, "nodes/g", "evict", "&until=gone&reason=preStop")
        server.wait_log("event=operator_order space=default order=uncordon about=d .*by=rdzvd")
        server.wait_log("event=drain_over")
        same([o[:2] for o in orders(server)], [("evict", "a"), ("evict", "c"), ("evict", "g")], "the agent of a is there")
        agents[1].leave()
        for name in "ef":  # each second rdzvd looks at one order
            gives(server, "nodes/" + name, "evict", "&until=gone")
            server.wait_log("event=operator_order space=default order=uncordon about=%s .*by=rdzvd" % name)
        same([o[:2] for o in orders(server)], [("evict", "a"), ("evict", "c"), ("evict", "g")], "the agent of a meets the others again")
        agents[0].close()
        server.wait_log("event=operator_order space=default order=uncordon about=a .*by=rdzvd")
        same(orders(server), [("evict", "c", '"ends":"gone"'), ("evict", "g", "ECC")], "it has gone; g had a cordon without an end")


def decides(agent, most):
    """Writes what torch's agent decides by what it is shown, if it may have `most` nodes. False: it waits, for any
    time."""
    state, node = agent.state(), agent.node
    if node in state.redundancy_list:
        if len(state.participants) == most:
            return False
        state.redundancy_list.discard(node)
        state.last_heartbeats.pop(node, None)
    else:
        (state.wait_list if len(state.participants) < most else state.redundancy_list).add(node)
        agent.beat(state)
    agent.try_write(ts.dumps(state))
    return True


def places(server):
    return {n["addr"]: n.get("why", "kept out" if n.get("kept_out") else n["role"])
            for n in status_of(server.port)[0]["nodes"]}


def settle(agents, most):
    for agent in agents:
        agent.read()
        for _ in range(40):
            if agent.state().complete and not decides(agent, most):
                break


def come_back(server, agents):
    """Spares whose group has a place."""
    await_space(server.port, lambda space: not {"its group has no place"} & {places(server)[a.node.addr] for a in agents})
    for agent in agents:
        agent.read()
        agent.write(lambda state, node=agent.node: state.redundancy_list.discard(node))
        agent.read()


@case
def groups_of_the_table_take_part_as_a_whole():
    broken, late = "its group is not whole", "its group has no place"
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "table")
        with open(table, "w", encoding="utf-8") as file:
            file.write("a row/r1\nb row/r1\nc row/r2\nd row/r2\ne row/r3\nf row/r3\n")
        with daemon("--topology-file=" + table) as server:
            a, b, c, d = meet(server.port, "job", ["a", "b", "c", "d"])  # MAX is 4
            gives(server, "runs/job", "rules", "&rules=group=2")
            same(status_of(server.port)[0]["group"], 2, "the rule")
            e, f = Agent(server.port, "job", "e"), Agent(server.port, "job", "f")
            settle([e, f], 4)
            train = dict.fromkeys("abcd", "participant")
            same(places(server), train | {"e": late, "f": late}, "MAX is smaller than all groups")

            b.close()
            for agent in read_together([a, c, d]):
                check(agent.wait_list, "all meet in the same moment")
            for agent in a, c, d:
                agent.step_out()
            come_back(server, [e, f])
            for agent in c, d:
                agent.read()
            rejoin([c, d, e, f])
            train = dict.fromkeys("cdef", "participant")
            same(places(server), {"a": broken} | train, "b is lost")
            settle([a], 4)
            b = Agent(server.port, "job", "b", pid=101)
            settle([b, a], 4)
            check(not c.read().wait_list, "no node meets for a group that has no place")
            same(places(server), {"a": late, "b": late} | train, "b is back")

            gives(server, "nodes/c", "evict")
            for agent in read_together([c, d, e, f]):
                check(agent.wait_list, "the evicted node meets with the others")
            for agent in c, d, e, f:
                agent.step_out()
            come_back(server, [a, b])
            for agent in e, f:
                agent.read()
            rejoin([a, b, e, f])
            train = dict.fromkeys("abef", "participant")
            same(places(server), train | {"c": "kept out", "d": broken}, "c is evicted")
            with open(table, "w", encoding="utf-8") as file:
                file.write("a row/r1\nb row/r1\nd row\ne row/r3\nf row/r3\n")
            server.process.send_signal(signal.SIGHUP)
            await_space(server.port, lambda space: places(server)["d"] == "whole groups have all places")


@case
def a_node_that_is_kept_out_waits_outside_whatever_its_max():
    for most in 2, 3, 8, 100, 1001:
        with daemon() as server:
            agents = meet(server.port, "job", ["a", "b"])
            gives(server, "nodes/c", "cordon")
            c = Agent(server.port, "job", "c")
            c.read()
            steps = 0
            while decides(c, most):
                steps += 1
                check(steps < 40, "MAX %d is not found" % most)
                for agent in agents:
                    same(len(agent.read().wait_list), 0, "nodes that others see wait")
            nodes = {n["addr"]: n["role"] + (", kept out" if n.get("kept_out") else "")
                     for n in status_of(server.port)[0]["nodes"]}
            same(nodes, {"a": "participant", "b": "participant", "c": "spare, kept out"}, "roles")
            gives(server, "nodes/c", "uncordon")
            c.read()
            check(decides(c, most) or most == 2, "it sees a free place")
            check(c.node not in c.state().redundancy_list or most == 2, "it is no spare any more")


@case
def a_cordoned_node_trains_on_when_another_one_is_evicted():
    with daemon() as server:
        agents = meet(server.port, "job", ["a", "b"])
        gives(server, "nodes/b", "cordon")
        for word, meets in (("nodes/z", False), ("nodes/b*", True)):
            gives(server, word, "evict")
            same([bool(state.wait_list) for state in read_together(agents)], [meets, meets], word)


@case
def a_node_that_fails_and_is_kept_out_makes_the_others_meet():
    """Without that, the workers of the others would hang in a collective, since no node waits."""
    with daemon() as server:
        agents = meet(server.port, "job", ["a", "b", "c"])
        gives(server, "nodes/b", "cordon")
        fail_outside(agents, "b", 3)
        server.wait_log("event=nodes_restarted .*reason=\"one of them has left the round, and is kept out\"")
        others = agents[::2]
        for agent in others:
            agent.read()
        rejoin(others)
        run, _ = status_of(server.port)
        check("a worker of b (pid 100) failed: its agent left" in run["rounds"][1]["why"], run["rounds"])
        same({n["addr"]: n["role"] for n in run["nodes"]}, {"a": "participant", "b": "spare", "c": "participant"}, "roles")


@case
def a_spare_gets_no_place_of_a_node_that_meets_the_others_again():
    with daemon() as server:
        agents = meet(server.port, "job", ["a", "b"])
        spare = Agent(server.port, "job", "c")
        spare.read()
        while decides(spare, 2):
            pass
        gives(server, "runs/job", "restart")
        for agent, state in zip(agents, read_together(agents)):
            check(state.wait_list, "all meet")
            agent.step_out()
            spare.read()
            check(not decides(spare, 2), "the spare asks for a place")
        for agent in agents:
            agent.read()
        rejoin(agents)
        spare.read()
        check(not decides(spare, 2), "the spare asks for a place")
        agents[1].close()
        server.wait_log("event=node_disconnected .*node=b/")
        spare.read()
        check(decides(spare, 2) and spare.node not in spare.state().redundancy_list, "a place is free")


def has_ended(agent):
    try:
        agent.read()
    except (OSError, EOFError):
        return True
    return False


@case
def an_eviction_may_end_the_agents_of_its_nodes():
    with daemon() as server:
        agents = meet(server.port, "job", ["a", "b", "c"])
        gives(server, "nodes/c", "evict", "&end=true")
        for agent in agents:
            agent.begin_to_read()
        for agent in agents[:2]:
            check(agent.end_reading().wait_list, "the others meet in the same moment")
            agent.step_out()
        server.wait_log("event=dropped .*an operator ends its agent")
        check(has_ended(agents.pop()), "a participant")
        for agent in agents:
            agent.read()
        rejoin(agents)
        for more in "&end=true", "":
            spare = Agent(server.port, "job", "c")
            spare.read()
            while decides(spare, 3):
                pass
            nodes = {n["addr"]: n["role"] + (", kept out" if n.get("kept_out") else "")
                     for n in status_of(server.port)[0]["nodes"]}
            same(nodes, {"a": "participant", "b": "participant", "c": "spare, kept out"}, "the next agent of the host")
            gives(server, "nodes/c", "evict", more)
            same(has_ended(spare), more != "", "a spare")


@case
def an_agent_that_asks_for_a_place_without_end_is_closed():
    with daemon() as server:
        meet(server.port, "job", ["a", "b"])
        gives(server, "nodes/c", "cordon")
        c = Agent(server.port, "job", "c")
        try:
            for _ in range(40):
                c.read()
                decides(c, 1 << 40)
        except (OSError, EOFError):
            pass
        server.wait_log("event=dropped .*reason=.*a MAX above")


@case
def an_order_says_how_many_nodes_it_is_about_and_a_run_on_hold_misses_none():
    with daemon("--expect=2") as server:
        agents = meet(server.port, "job", ["a1", "a2"])
        for pattern, nodes in [("a*", 2), ("a1", 1), ("b", 0), ("[a", 0)]:
            same(order(server, "nodes/" + pattern, "cordon")[1]["nodes"], nodes, pattern)
        gives(server, "nodes/a*", "uncordon")
        gives(server, "runs/job", "hold")
        run, _ = status_of(server.port)
        same((run["missing_count"], "release" in " ".join(run["hints"]), run["held"]), (0, True, True), "a held run")
        status, answer = order(server, "runs/job", "restart")
        check(status == 409 and "on hold already" in answer["message"], answer)
        gives(server, "runs/job", "release")
        del agents
