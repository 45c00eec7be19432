"""What operators and Prometheus see of the daemon's work: metrics by operation, their bounds, and the
monitor. The names of metrics are documents.py's, alerts are tests/monitoring's.

    observe.py [NAME...]     all cases, or the cases whose name contains a NAME
"""

import http.client
import json
import os
import re
import socket
import sys
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "elastic")]
import agents as ag  # noqa: E402
import cases  # noqa: E402
import torch_state as ts  # noqa: E402
from c10d import Peer, modern  # noqa: E402
from cases import case, check  # noqa: E402
from servers import OPERATOR, Rdzvd, token_flag  # noqa: E402


def same(a, b, what):
    check(a == b, "%s: %r, not %r" % (what, a, b))


def ask(port, method, path, body=None, headers=None):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    c.request(method, path, body, headers or {})
    answer = c.getresponse()
    text = answer.read().decode()
    c.close()
    return answer.status, text


def values(port):
    """{line without its value: value}"""
    return {k: float(v) for k, v in re.findall(r"(?m)^([^#].*) (\S+)$", ask(port, "GET", "/metrics")[1])}


# --- Metrics. ---

@case
def requests_are_counted_by_operation():
    with Rdzvd() as daemon:
        peer = Peer(daemon.port)
        peer.set(b"/a", b"1")
        peer.add(b"/n", 1)
        peer.add(b"/n", 1)
        peer.get(b"/a")
        for method, path in (("PUT", "/v2/keys/a?value=1"), ("GET", "/v2/keys/a"), ("GET", "/v2/keys/b"),
                             ("GET", "/nothing")):
            ask(daemon.port, method, path)
        seen = values(daemon.port)
        for protocol, operation, count in (
                ("c10d", "SET", 1), ("c10d", "ADD", 2), ("c10d", "GET", 1), ("c10d", "PING", 1),
                ("c10d", "APPEND", 0), ("http", "PUT /v2/keys", 1), ("http", "GET /v2/keys", 2),
                ("http", "GET /metrics", 1), ("http", "other", 1)):
            line = 'rdzvd_requests_total{protocol="%s",operation="%s"}' % (protocol, operation)
            same(seen.get(line), count, line)
        for code, count in ((200, 1), (201, 1), (404, 2)):
            line = 'rdzvd_http_responses_total{code="%d"}' % code
            same(seen.get(line), count, line)
        same(seen['etcd_http_received_total{method="GET"}'], 2, "etcd's own")


def put_run(port, count, complete):
    """So many runs over etcd-v2, by one connection."""
    state = ts.State()
    state.participants = {ts.Node("a", 1, 0): 0}
    state.complete = complete
    state.last_heartbeats = {ts.Node("a", 1, 0): ts.now()}
    value = urllib.parse.quote(ts.dumps(state))
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for i in range(count):
        c.request("PUT", "/v2/keys/torch/elastic/rendezvous/run-%d?value=%s" % (i, value))
        check(c.getresponse().read(), "an answer")
    c.close()


@case
def runs_over_the_bound_are_summed():
    """And the scrape is made in slices: others are served meanwhile."""
    count = 3000
    with Rdzvd() as daemon:
        put_run(daemon.port, count, True)
        status, text = ask(daemon.port, "GET", "/metrics")
        same(status, 200, "status")
        check(len(text) < 150000, "%d bytes" % len(text))
        seen = values(daemon.port)
        runs = [k for k in seen if k.startswith("rdzvd_run_participants{")]
        same(len(runs), 101, "lines of runs")
        same(len([k for k in runs if 'backend="etcd-v2",run="run-' in k]), 100, "runs with a name")
        others = '{space="default",backend="",run=""}'
        same(seen["rdzvd_run_participants" + others] + seen["rdzvd_run_silent_nodes" + others], count - 100,
             "nodes of others")
        same(seen['rdzvd_space_runs{space="default",state="complete"}'], count, "runs")
        check(seen['rdzvd_run_state_seconds{space="default",backend="",run="",state="complete"}'] >= 0, "age")


@case
def a_name_that_is_no_label_is_summed():
    with Rdzvd() as daemon:
        agents = [ag.meet(daemon.port, run, ["a"]) for run in (b"bad\xff", b"x" * 129, b"good\n\"\\")]
        text = ask(daemon.port, "GET", "/metrics")[1]
        same(re.findall(r'(?m)^rdzvd_run_participants\{.*run="(.*)"\} (\d)$', text),
             [('good\\n\\"\\\\', "1"), ("", "2")], "runs")
        for a in agents:
            a[0].close()


@case
def spaces_over_the_bound_are_summed():
    flags = [x for i in range(120) for x in ("--listen", "127.0.0.1:0/s%d" % i)]
    with Rdzvd(*flags[2:], token_flag(), listen=("127.0.0.1:0/s0",)) as daemon:
        found = daemon.wait_log(r"event=listening address=\S+:(\d+) space=(\w+)", timeout=60, count=120)
        last = [int(m.group(1)) for m in found if m.group(2) == "s119"][0]
        peers = [Peer(last)]
        peers[0].set(b"/key", b"value")
        text = ask(daemon.port, "GET", "/metrics", headers=OPERATOR)[1]
        keys = dict(re.findall(r'(?m)^rdzvd_space_keys\{space="(\w*)"\} (\d+)$', text))
        same(keys, {"s119": "1", "": "0"}, "of those in use, and of the others")
        peers[0].close()


# --- The monitor. ---

class Stream:
    """Server-sent events, as they come."""

    def __init__(self, port, headers=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.connection.request("GET", "/rdzv/v1/monitor", headers=OPERATOR if headers is None else headers)
        self.answer = self.connection.getresponse()

    def event(self):
        name = self.answer.readline().decode()
        data = self.answer.readline().decode()
        check(name.startswith("event: ") and data.startswith("data: "), (name, data))
        same(self.answer.readline(), b"\n", "the end of an event")
        return name[7:-1], json.loads(data[6:])

    def until(self, wanted):
        """Reads events up to the first that `wanted` accepts; returns all."""
        found = []
        while not found or not wanted(found[-1]):
            found.append(self.event()[1])
        return found

    def close(self):
        self.answer.close()
        self.connection.close()


@case
def the_monitor_is_for_operators():
    with Rdzvd(token_flag()) as daemon:
        for headers in ({}, {"Authorization": "Bearer wrong"}, dict(OPERATOR, Origin="http://a")):
            same(ask(daemon.port, "GET", "/rdzv/v1/monitor", headers=headers)[0], 403, headers)
        same(ask(daemon.port, "POST", "/rdzv/v1/monitor", headers=OPERATOR)[0], 405, "POST")


@case
def the_monitor_shows_who_asks_for_what():
    with Rdzvd(token_flag()) as daemon:
        stream = Stream(daemon.port)
        same(stream.answer.getheader("Content-Type"), "text/event-stream", "type")
        peer = Peer(daemon.port)
        peer.set(b"/secret-key", b"SECRET-VALUE")
        peer.wait(b"/secret-key", b"/other")
        ask(daemon.port, "PUT", "/v2/keys/x", "value=SECRET-VALUE",
            {"Content-Type": "application/x-www-form-urlencoded"})
        events = stream.until(lambda e: any(r["operation"] == "PUT" for r in e["requests"]))
        check("SECRET-VALUE" not in json.dumps(events), events)
        requests = [r for e in events for r in e["requests"]]
        shown = [(r["protocol"], r["operation"], r["key"], r.get("keys"), r["space"]) for r in requests
                 if r["operation"] != "PING"]
        same(shown, [("c10d", "SET", "/secret-key", None, "default"),
                     ("c10d", "WAIT", "/secret-key", 2, "default"),
                     ("http", "PUT", "/v2/keys/x", None, "default")], "requests")
        same({r["peer"].split(":")[0] for r in requests}, {"127.0.0.1"}, "peers")
        same(requests[-1]["bytes"], len("value=SECRET-VALUE"), "bytes")
        same(sum(e["shown"] for e in events), len(requests), "shown")
        stream.close()
        peer.close()


@case
def the_monitor_takes_a_sample_and_says_so():
    """A flood is counted whole, and shown in part; what is held back is shown once."""
    count = 20000
    with Rdzvd(token_flag()) as daemon:
        stream = Stream(daemon.port)
        with socket.create_connection(("127.0.0.1", daemon.port), timeout=60) as s:
            s.sendall(modern.validate())
            request = modern.add(b"/n", 1)
            for _ in range(20):
                s.sendall(request * (count // 20))
                left = 8 * (count // 20)
                while left > 0:
                    left -= len(s.recv(65536))
        total, events = 0, []
        while total < count:
            events.append(stream.event()[1])
            total += events[-1]["c10d_requests"]
        same(total, count, "requests")
        for e in events:
            check(e["shown"] == len(e["requests"]) <= 50, e)
        check(0 < sum(e["shown"] for e in events) < count, "a part is shown")
        stream.close()


@case
def the_monitor_ends_with_its_client():
    with Rdzvd(token_flag()) as daemon:
        peer = Peer(daemon.port)
        for _ in range(20):
            streams = [Stream(daemon.port) for _ in range(8)]
            same(ask(daemon.port, "GET", "/rdzv/v1/monitor", headers=OPERATOR)[0], 503, "a ninth")
            peer.add(b"/n", 1)
            streams[0].event()
            for s in streams:
                s.close()
            deadline = time.monotonic() + 60
            while values(daemon.port)["rdzvd_connections"] > 2:
                check(time.monotonic() < deadline, "they stay")
        same(values(daemon.port)['rdzvd_memory_bytes{kind="watches"}'], 0, "memory of the monitor")
        peer.close()


if __name__ == "__main__":
    sys.exit(cases.run("tests/process/observe.py"))
