"""Runs whose agents use the backend etcd-v2."""

import http.client
import json
import os
import selectors
import tempfile
import urllib.parse

import torch_state as ts
from agents import Agent, complete_round, rejoin
from c10d import await_read
from cases import case, check
from scene import STATUS, await_space, daemon, get_json, http_request, same, status_of


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
        """The daemon has read all that was sent here, has answered another request since, and nothing has come here."""
        await_read(self.link.sock)
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
def all_agents_over_etcd_are_notified_at_once():
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
def a_heartbeat_over_etcd_may_precede_the_notification():
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
def a_waiting_node_over_etcd_that_leaves_holds_no_agent():
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
def an_agent_over_etcd_that_does_not_poll_holds_no_agent():
    with daemon() as server:
        a, b = etcd_round(server.port, "ab")
        new = etcd_newcomer(server.port)
        a.begin_to_read()
        same((new.end(), a.end()), (200, 200), "b has not looked")
        same(len(a.state.wait_list), 1, "a sees that it waits")
        same((b.read(), len(b.state.wait_list)), (200, 1), "so does b at its next look")


@case
def ranks_over_etcd_are_those_of_rdzvd():
    """Natural order, then each node keeps its rank: also over a restart, and until the run's key is deleted."""
    with tempfile.TemporaryDirectory(prefix="rdzvd-") as tmp:
        for names, wanted in ((["w-10", "w-2", "w-1"], ["w-1", "w-2", "w-10"]),
                              (["w-10", "w-3", "w-1"], ["w-1", "w-3", "w-10"])):
            with daemon("--data-dir=" + tmp) as server:
                agents = [EtcdAgent(server.port, name) for name in names]
                for a in agents:
                    a.read()
                    a.write(lambda state: begin_round(state, a, names.index(a.node.addr) == len(names) - 1))
                ranks = agents[-1].state.participants
                same([n.addr for n in sorted(ranks, key=ranks.get)], wanted, "the answer")
                check(agents[0].read() == 200 and agents[0].state.participants == ranks, "what the others read")
                nodes = status_of(server.port)[0]["nodes"]
                same([n["addr"] for n in sorted(nodes, key=lambda n: n["rank"])], wanted, "what the status shows")
                agents[0].write(lambda state: None)
                check(agents[0].state.participants == ranks, "a heartbeat changes no rank")


def begin_round(state, agent, complete):
    """The agent joins the open round, or begins the next one without the nodes of the round before."""
    if state.complete:
        state.round += 1
        state.complete = False
        state.participants.clear()
    state.participants[agent.node] = 0
    if complete:
        complete_round(state)


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
        other = Agent(server.port, "other", "a")
        etcd_put(server.port, "/torch/elastic/rendezvous/more", ts.dumps(ts.State()))
        same([r["id"] for r in status_of(server.port)[1]["runs"]], [other.run.decode(), "job", "more"], "all runs")
        c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        c.request("DELETE", "/v2/keys/torch/elastic/rendezvous/job")
        same(c.getresponse().status, 200, "DELETE")
        c.close()
        await_space(server.port, lambda s: len(s["runs"]) == 2)
        same(http_request(server.port, "DELETE", "/rdzv/v1/spaces/default")[0], 200, "DELETE of all")
        same(get_json(server.port, STATUS)["spaces"][0]["runs"], [], "runs of a space that is empty")


@case
def a_run_of_torchs_backend_etcd_is_forgotten_with_its_directory():
    path = "/torchelastic/p2p/run_job"
    with daemon() as server:
        etcd_put(server.port, path + "/rdzv/active_version", '{"status": "closed"}')
        etcd_put(server.port, path + "s/rdzv/active_version", '{"status": "closed"}')
        for status in (200, 404):
            same(http_request(server.port, "DELETE", "/rdzv/v1/spaces/default/runs/job")[0], status, "DELETE")
        same([http_request(server.port, "GET", "/v2/keys" + path + end)[0] for end in ("", "s")], [404, 200], "runs")


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


def closed_over_etcd(server):
    a, b = etcd_round(server.port, "ab")
    check(a.read() == 200 and a.write(lambda state: setattr(state, "closed", True)) == 200, "closed")
    return b


@case
def a_closed_run_over_etcd_is_forgotten_when_no_agent_writes():
    with daemon("--closed-run-ttl=100ms") as server:
        closed_over_etcd(server)
        server.wait_log(r"event=run_forgotten space=default run=job closed=true keys=1 reason=.*no agent has written")
        a, b = etcd_round(server.port, "ab")
        same((a.read(), a.state.round, a.state.closed), (200, 0, False), "the next job")
        check(b.read() == 200 and len(b.state.participants) == 2, "both are in")


@case
def an_operator_forgets_a_run_over_etcd():
    with daemon() as server:
        closed_over_etcd(server)
        path = "/rdzv/v1/spaces/default/runs/job"
        same([http_request(server.port, "DELETE", path)[0] for _ in range(2)], [200, 404], "DELETE")
        server.wait_log(r"event=run_forgotten .*run=job closed=true keys=1 reason=.on request")
        same(len(etcd_round(server.port, "ab")), 2, "the next job")


@case
def a_plain_etcd_forgets_no_closed_run():
    with daemon("--closed-run-ttl=1ms", "--elastic-fixes=off") as server:
        b = closed_over_etcd(server)
        path = "/rdzv/v1/spaces/default/runs/job"
        same(http_request(server.port, "DELETE", path)[0], 404, "DELETE")
        same((b.read(), b.state.closed), (200, True), "closed")
