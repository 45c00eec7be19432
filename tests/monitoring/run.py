"""What Prometheus and Grafana are given: metrics, alerts and a dashboard, with a real Prometheus.

    run.py [NAME...]     all cases, or the cases whose name contains a NAME

Each alert of deploy/monitoring/rules.yaml fires after a real fault. For that, its times are made
shorter: see SCALE. The daemon is $RDZVD, else the one in build/. Prometheus and promtool are
Debian's; Prometheus listens on loopback alone.
"""

import datetime
import http.client
import itertools
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("support", "elastic", "linear"):
    sys.path.insert(0, os.path.join(HERE, "..", folder))
import agents as ag  # noqa: E402
import cases  # noqa: E402
import certs  # noqa: E402
from c10d import Peer, modern  # noqa: E402
from cases import case, check  # noqa: E402
from faults import EIO, Disk, preload  # noqa: E402
from servers import ROOT, Rdzvd, Server, free_port  # noqa: E402

FOLDER = os.path.join(ROOT, "deploy", "monitoring")
RULES = os.path.join(FOLDER, "rules.yaml")
DASHBOARD = os.path.join(FOLDER, "dashboard.json")

# Shorter times for the alerts, so the test ends within minutes: each text and its replacement.
SCALE = {
    "[1h]": "[2m]", "[15m]": "[1m]", "[10m]": "[1m]", "[5m]": "[1m]",
    **{"for: %s\n" % text: "for: 3s\n" for text in ("15s", "20s", "1m", "2m", "5m")},
    ", 14400)": ", 40)", "> 300": "> 1", "lag_seconds > 5": "lag_seconds > 1",
}
PATIENCE = 120  # seconds; a busy machine takes its time


def promtool(*args, text=None):
    done = subprocess.run(["promtool", *args], input=text, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def scraped(port):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    c.request("GET", "/metrics")
    text = c.getresponse().read().decode()
    c.close()
    return text


def until(ask, what):
    return cases.until(ask, what, PATIENCE)


# --- Prometheus. ---

class Prometheus(Server):
    """One for all cases: each has targets of its own."""

    def __init__(self, folder):
        self.folder, self.port, self.targets = folder, free_port(), []
        rules = open(RULES, encoding="utf-8").read()
        for text, shorter in SCALE.items():
            check(text in rules, "rules.yaml has no %r any more" % text)
            rules = rules.replace(text, shorter)
        self.write("rules.yaml", rules)
        self.write("targets.json", "[]")
        self.write("prometheus.yml", json.dumps({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{"job_name": "rdzvd", "file_sd_configs": [
                {"files": ["targets.json"], "refresh_interval": "1s"}]}]}))
        super().__init__([
            "prometheus", "--config.file=" + os.path.join(folder, "prometheus.yml"),
            "--storage.tsdb.path=" + os.path.join(folder, "data"),
            "--web.listen-address=127.0.0.1:%d" % self.port])
        self.wait_log("Server is ready to receive web requests", timeout=PATIENCE)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write(text)
        os.rename(path + ".new", path)

    def watch(self, port):
        """Adds the daemon to Prometheus's targets, and waits for its first scrape."""
        self.targets.append("127.0.0.1:%d" % port)
        self.write("targets.json", json.dumps([{"targets": self.targets}]))
        until(lambda: self.query('up{instance="127.0.0.1:%d"} == 1' % port), "the first scrape")

    def forget(self, port):
        self.targets.remove("127.0.0.1:%d" % port)
        self.write("targets.json", json.dumps([{"targets": self.targets}]))

    def ask(self, path, **values):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        c.request("GET", "/api/v1/" + path + "?" + urllib.parse.urlencode(values))
        answer = json.loads(c.getresponse().read())
        c.close()
        check(answer["status"] == "success", (path, values, answer))
        return answer["data"]

    def query(self, expr):
        return self.ask("query", query=expr)["result"]

    def alerts(self, port, states=("firing",)):
        return [a for a in self.ask("alerts")["alerts"] if a["state"] in states and
                a["labels"].get("instance") == "127.0.0.1:%d" % port]


class Watched:
    """A daemon and the Prometheus that scrapes it."""

    def __init__(self, *args, **kwargs):
        self.daemon = Rdzvd(*args, **kwargs)
        self.port = self.daemon.port

    def __enter__(self):
        prometheus().watch(self.port)
        return self

    def __exit__(self, *exc):
        prometheus().forget(self.port)
        if self.daemon.process.poll() is None:
            self.daemon.process.send_signal(signal.SIGCONT)
        self.daemon.__exit__(*exc)

    def fires(self, *names):
        """Returns when each of these alerts fires, with texts that say something."""
        for name in names:
            found = until(lambda: [a for a in prometheus().alerts(self.port)
                                   if a["labels"]["alertname"] == name], name)[0]
            for text in found["annotations"].values():
                check(not re.search(r"<no value>|<error|\{\{|%!|NaN", text), found)

    def sees(self, expr, what):
        """Returns when Prometheus does; `{}` in it stands for the labels of this daemon."""
        until(lambda: prometheus().query(expr.replace("{}", '{instance="127.0.0.1:%d"}' % self.port)), what)


_prometheus = None


def prometheus():
    return _prometheus


# --- Names, and texts. ---

@case
def metrics_are_well_named():
    with tempfile.TemporaryDirectory() as folder:
        with Rdzvd("--data-dir", folder) as store, Rdzvd("--upstream=127.0.0.1:%d" % store.port) as relay:
            agents = ag.meet(store.port, "JOB", ["a", "b"])
            for port in (store.port, relay.port):
                check(promtool("check", "metrics", text=scraped(port)) == (0, ""), "metrics")
            for a in agents:
                a.close()


@case
def rules_are_right():
    for args in (("check", "rules", RULES), ("test", "rules", os.path.join(HERE, "rules_test.yaml"))):
        code, text = promtool(*args)
        check(code == 0, text)


@case
def each_alert_has_its_texts_and_its_tests():
    rules, tests, own, readme = (open(p, encoding="utf-8").read() for p in (
        RULES, os.path.join(HERE, "rules_test.yaml"), __file__, os.path.join(FOLDER, "README.md")))
    blocks = re.split(r"(?m)^ +- alert: ", rules)[1:]
    names = [block.split("\n")[0] for block in blocks]
    check(len(names) == len(set(names)) > 20, names)
    for name, block in zip(names, blocks):
        for member in ("severity: ", "summary: ", "description: ", "README.md#%s\n" % name.lower()):
            check(member in block + "\n", "%s has no %s" % (name, member))
        check("### %s\n" % name in readme, "README.md says nothing about " + name)
        check('count(ALERTS{alertname="%s"' % name in tests, "rules_test.yaml lacks " + name)
        check('"%s"' % name in own, "no fault makes %s fire" % name)
    check(set(re.findall(r"(?m)^### (\w+)$", readme)) == set(names), "README.md tells of others")


# --- A healthy run. ---

def traffic(peer):
    """Sends requests of each kind in a thread until the caller sets the returned event."""
    stop = threading.Event()

    def go_on():
        for i in itertools.count():
            try:
                peer.set(b"/key/%d" % (i % 100), b"value")
                peer.add(b"/sum", 1)
                peer.get(b"/sum")
            except (AssertionError, OSError):
                return  # the case has failed, and its daemon has ended
            if stop.wait(0.02):
                return

    threading.Thread(target=go_on, daemon=True).start()
    return stop


def is_busy():
    return os.getloadavg()[0] > 2 * os.cpu_count()


@case
def a_healthy_run_is_quiet():
    with tempfile.TemporaryDirectory() as folder, \
            Watched("--data-dir", folder, "--memory-limit=1GiB", "--space-limit=100MiB") as store, \
            Watched("--upstream=127.0.0.1:%d" % store.port) as relay:
        agents = ag.meet(relay.port, "JOB", ["a", "b", "c"])
        stop = traffic(Peer(relay.port))
        store.sees("sum_over_time(rdzvd_run_participants{}[1m]) >= 30", "ten scrapes of the run")
        fired = {a["labels"]["alertname"] for w in (store, relay)
                 for a in prometheus().alerts(w.port, ("firing", "pending"))}
        stop.set()
        for a in agents:
            a.close()
        if is_busy():  # then these are right
            fired -= {"RdzvdSlowIterations", "RdzvdJournalIsSlow"}
        check(not fired, fired)


def recover(agents):
    """One of the nodes has been lost. The others meet again, with one more. An agent that has not polled for 5 to 15 s
    may send a heartbeat: rdzvd holds its poll for up to 40 s."""
    first = agents[0]
    first.socket.settimeout(90)
    first.read()
    first.leave()
    for a in agents[1:]:
        a.read()
    return ag.rejoin([first] + agents[1:])


@case
def the_dashboard_shows_all():
    with open(DASHBOARD, encoding="utf-8") as f:
        board = json.load(f)
    exprs = [(p["title"], t["expr"]) for p in board["panels"] for t in p.get("targets", ())]
    exprs += [("annotation", a["expr"]) for a in board["annotations"]["list"] if False]
    check(len(exprs) > 50, "the dashboard has %d queries" % len(exprs))
    with tempfile.TemporaryDirectory() as folder, \
            Watched("--data-dir", folder, "--memory-limit=1GiB", "--space-limit=100MiB") as store, \
            Watched("--upstream=127.0.0.1:%d" % store.port) as relay:
        stops = [traffic(Peer(port)) for port in (store.port, relay.port)]
        lost, kept = ag.meet(store.port, "JOB", ["a", "b"])
        store.sees("rdzvd_torch_rounds_completed_total{} == 1", "the first round")
        lost.close()
        store.sees("rdzvd_torch_nodes_disconnected_total{} == 1", "the loss")
        other = ag.Agent(store.port, "JOB", "c")
        recover([kept, other])
        store.sees("rdzvd_torch_recovery_seconds_count{} == 1", "the recovery")
        instances = "|".join("127.0.0.1:%d" % w.port for w in (store, relay))
        for title, expr in exprs:
            for name, value in (("$job", "rdzvd"), ("$instance", instances), ("$space", ".*"),
                                ("$__rate_interval", "1m")):
                expr = expr.replace(name, value)
            until(lambda e=expr: [r for r in prometheus().query(e) if r["value"][1] != "NaN"],
                  "%s: %s" % (title, expr))
        for stop in stops:
            stop.set()
        kept.close()
        other.close()


@case
def variables_of_the_dashboard_are_labels():
    with open(DASHBOARD, encoding="utf-8") as f:
        board = json.load(f)
    with Rdzvd() as store:
        text = scraped(store.port)
    for variable in board["templating"]["list"][1:]:
        metric, label = re.match(r"label_values\((\w+)(?:\{.*\})?, (\w+)\)$", variable["query"]["query"]).groups()
        check(re.search(r"(?m)^%s\{" % metric, text), "no metric " + metric)
        check(label in ("job", "instance") or "%s{%s=" % (metric, label) in text, (metric, label))


# --- Alerts about the daemon. ---

@case
def one_that_does_not_answer():
    with Watched() as w:
        w.daemon.stop(signal.SIGKILL)
        w.fires("RdzvdDown")


@case
def one_that_starts_again_and_again():
    port = free_port()
    with Watched(listen=("127.0.0.1:%d" % port,)) as w:
        for i in range(3):
            w.daemon.stop()
            w.daemon = Rdzvd(listen=("127.0.0.1:%d" % port,))
            w.sees("changes(process_start_time_seconds{}[2m]) >= %d" % (i + 1), "the start")
        w.fires("RdzvdRestartsOften")


@case
def too_little_memory():
    with Watched("--memory-limit=32MiB") as w:
        peer = Peer(w.port, ping=False)
        try:
            for i in range(1000):
                peer.set(b"/%d" % i, bytes(64 << 10))
                peer.count()
        except (AssertionError, OSError):
            pass  # it was dropped, as it was to be
        w.fires("RdzvdMemoryRefused", "RdzvdMemoryNearLimit")


@case
def a_space_that_is_nearly_full():
    with Watched("--space-limit=100KiB") as w:
        Peer(w.port).set(b"/large", bytes(96 << 10))
        w.fires("RdzvdSpaceNearLimit")


@case
def an_iteration_that_takes_long():
    """The process is stopped while it works, as one is that does not get the processor."""
    with Watched() as w:
        stop = threading.Event()

        def flood():
            with socket.create_connection(("127.0.0.1", w.port)) as s:
                s.sendall(modern.validate())
                while not stop.is_set():
                    s.sendall(modern.get(b"/none") * 2000)
                    left = 8 * 2000
                    while left > 0:
                        left -= len(s.recv(left))

        thread = threading.Thread(target=flood, daemon=True)
        thread.start()

        def slow():
            w.daemon.process.send_signal(signal.SIGSTOP)
            time.sleep(0.1)  # the fault itself: so long it gets no processor
            w.daemon.process.send_signal(signal.SIGCONT)
            counts = dict(re.findall(r'rdzvd_loop_iteration_seconds_bucket\{le="([^"]+)"\} (\d+)', scraped(w.port)))
            return int(counts["+Inf"]) - int(counts["0.05"]) > 20

        until(slow, "iterations that take long")
        stop.set()
        w.fires("RdzvdSlowIterations")
        thread.join(20)


# --- Alerts about clients. ---

@case
def more_connections_than_there_may_be():
    with Watched("--connection-limit=20") as w:
        peers = [socket.create_connection(("127.0.0.1", w.port)) for _ in range(25)]
        for p in peers:
            p.sendall(modern.validate())
        w.fires("RdzvdConnectionsRefused", "RdzvdConnectionsNearLimit")
        for p in peers:
            p.close()


@case
def more_clients_at_once_than_the_kernel_keeps():
    with open("/proc/sys/net/core/somaxconn", encoding="ascii") as f:
        count = int(f.read()) + 100
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < count + 100:
        return "needs %d descriptors" % (count + 100)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Watched() as w:
        w.daemon.process.send_signal(signal.SIGSTOP)
        clients = []
        for _ in range(count):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(("127.0.0.1", w.port))
            clients.append(s)
        w.daemon.process.send_signal(signal.SIGCONT)
        w.fires("RdzvdListenOverflows")
        for s in clients:
            s.close()


@case
def requests_without_a_right():
    with Watched() as w:
        for _ in range(30):
            c = http.client.HTTPConnection("127.0.0.1", w.port, timeout=20)
            c.request("GET", "/v2/keys/", headers={"Host": "example.com"})
            check(c.getresponse().status == 403, "a foreign Host")
            c.close()
        w.fires("RdzvdAccessRefused")


@case
def a_certificate_that_ends_soon():
    ca = certs.Ca()
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=3)
    cert, key = ca.issue(dates=("20200101000000Z", end.strftime("%Y%m%d%H%M%SZ")))
    with Watched("--cert=" + cert, "--key=" + key, "--plaintext=on") as w:
        w.fires("RdzvdCertificateExpires")


@case
def clients_that_make_no_sense():
    with Watched() as w:
        for _ in range(30):
            with socket.create_connection(("127.0.0.1", w.port), timeout=20) as s:
                s.sendall(b"\xff\xff\xff\xff\xff")
                s.recv(1)
        w.fires("RdzvdClientsDropped")


# --- Alerts about runs. ---

@case
def a_node_that_is_lost():
    with Watched() as w:
        lost, kept = ag.meet(w.port, "JOB \"x\"\\", ["a", "b"])
        lost.close()
        w.fires("RdzvdRunMissesNodes")
        other = ag.Agent(w.port, "JOB \"x\"\\", "c")
        recover([kept, other])
        w.fires("RdzvdRecoveryIsSlow")
        kept.close()
        other.close()


@case
def a_node_that_waits_for_others():
    with Watched() as w:
        agent = ag.Agent(w.port, "JOB", "a")
        agent.join()
        w.fires("RdzvdRunDoesNotComplete")
        agent.close()


@case
def a_run_that_begins_again_and_again():
    with Watched() as w:
        agents = ag.meet(w.port, "JOB", ["a", "b"])
        for i in range(8):
            w.sees("rdzvd_run_round{} == %d" % i, "round %d" % i)
            agents[0].read()
            agents[0].leave()
            for a in agents:
                a.read()
            ag.rejoin(agents)
        w.fires("RdzvdRunRestartsOften")
        for a in agents:
            a.close()


# --- Alerts about the disk. ---

def on_bad_disk(folder):
    disk = Disk(folder)
    return disk, Watched("--data-dir", os.path.join(folder, "data"),
                         env=dict(os.environ, LD_PRELOAD=preload(), FAIL_DISK=disk.path))


@case
def a_disk_that_fails():
    with tempfile.TemporaryDirectory() as folder:
        disk, watched = on_bad_disk(folder)
        with watched as w:
            disk.set(sync_error=EIO)
            Peer(w.port).set(b"/key", b"value")
            w.fires("RdzvdJournalFailed", "RdzvdJournalFailures", "RdzvdNotReady")
            disk.heal()
            w.sees("rdzvd_ready{} == 1", "it goes on")


@case
def a_disk_that_is_slow_and_full():
    with tempfile.TemporaryDirectory() as folder:
        disk, watched = on_bad_disk(folder)
        with watched as w:
            disk.set(sync_us=600000, free_percent=5)
            stop = traffic(Peer(w.port))
            w.fires("RdzvdJournalIsSlow", "RdzvdDiskNearlyFull")
            stop.set()


# --- Alerts about relays. ---

@case
def a_store_that_does_not_answer_its_relay():
    with Rdzvd() as store, Watched("--upstream=127.0.0.1:%d" % store.port) as relay:
        peer = Peer(relay.port)
        store.process.send_signal(signal.SIGSTOP)
        peer.send(modern.add(b"/sum", 1))
        relay.fires("RdzvdRelayLags")
        store.stop(signal.SIGKILL)
        relay.fires("RdzvdRelayIsCutOff")


@case
def a_store_that_has_lost_its_memory():
    port = free_port()
    with Watched("--upstream=127.0.0.1:%d" % port) as relay:
        with Rdzvd(listen=("127.0.0.1:%d" % port,)):
            peer = Peer(relay.port)
            peer.add(b"/sum", 1)
            relay.sees('sum(rdzvd_relay_clients_lost_total{}) == 0', "nobody is lost")
        with Rdzvd(listen=("127.0.0.1:%d" % port,)):
            peer.expect_end()
            relay.fires("RdzvdRelayLosesClients")


@case
def a_relay_that_does_not_come_back():
    with Watched() as store:
        with Rdzvd("--upstream=127.0.0.1:%d" % store.port) as relay:
            peer = Peer(relay.port)
            peer.add(b"/sum", 1)
            store.sees('rdzvd_relay_sessions{} == 1', "a session")
            relay.stop(signal.SIGKILL)
            peer.close()
        store.fires("RdzvdRelayIsAway")


def main():
    global _prometheus
    with tempfile.TemporaryDirectory(prefix="rdzv-monitoring-") as folder:
        with Prometheus(folder) as _prometheus:
            return cases.run("tests/monitoring/run.py")


if __name__ == "__main__":
    sys.exit(main())
