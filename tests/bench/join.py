#!/usr/bin/python3
"""Measures join storms and the steady load of N torchrun agents: never a pass or a fail.

N real DynamicRendezvousHandlers of one torch release meet at once, through torch's own TCPStore
server in a process of its own, through rdzvd with torch's bare semantics (--elastic-fixes=off),
and through rdzvd as it comes. The servers take turns, round by round. They and the nodes share the
machine's cores: on few cores the nodes' own work is much of the time that a join takes.
"""

import argparse
import json
import os
import select
import socket
import statistics
import subprocess
import sys
import time

import run  # of this folder: tables, verdicts

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "torch"))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import servers  # noqa: E402
import torches  # noqa: E402
from run_store_api import PeerStore  # noqa: E402

CAS_TARGET, JOIN_TARGET, TARGET_NODES, FINISH_NODES = 5, 5.0, 256, 512
STORMS = {"join": "join", "again": "join again", "close": "close"}
SETTLE_SECONDS = 3  # after the last one is in, before the steady phase is measured


class Load:
    """join_load.py with its torch imported, ready for trials."""

    def __init__(self, torch):
        self.process = subprocess.Popen(
            torch.python + [os.path.join(HERE, "join_load.py")], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=torch.environment())
        self.expect("ready")

    def expect(self, word):
        line = self.process.stdout.readline().strip()
        if line != word:
            raise SystemExit("join_load.py said %r, and not %r" % (line, word))

    def begin(self, trial):
        self.process.stdin.write(json.dumps(trial) + "\n")
        self.process.stdin.flush()

    def stop(self):
        """Kills the process, and with it the children of an unfinished trial."""
        self.process.kill()
        self.process.wait()


class Peers:
    """The connections to the processes of a trial: JSON lines in both directions."""

    def __init__(self, listener, count):
        self.partial = {}
        listener.settimeout(60)
        for _ in range(count):
            connection, _ = listener.accept()
            self.partial[connection] = b""
        self.queue = []

    def order(self, **words):
        for connection in self.partial:
            connection.sendall((json.dumps(words) + "\n").encode())

    def next(self, deadline):
        """The next (connection, words), or None when the time is over."""
        while not self.queue:
            left = deadline - time.monotonic()
            readable = select.select(list(self.partial), [], [], max(0, left))[0]
            if not readable and left <= 0:
                return None
            for connection in readable:
                data = connection.recv(1 << 16)
                if not data:
                    raise SystemExit("a process of the load is gone")
                *lines, rest = (self.partial[connection] + data).split(b"\n")
                self.partial[connection] = rest
                self.queue += [(connection, json.loads(line)) for line in lines]
        return self.queue.pop(0)

    def close(self):
        for connection in self.partial:
            connection.close()


def server_times(pid):
    """(seconds on a CPU, seconds ready to run but without one), all threads."""
    ran = waited = 0
    for tid in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/schedstat" % (pid, tid)) as f:
            words = f.read().split()
        ran, waited = ran + int(words[0]), waited + int(words[1])
    return ran / 1e9, waited / 1e9


class Trial:
    """N nodes meet once on one server, and then stay for a while."""

    def __init__(self, options, load, listener, server, nodes, run_id):
        self.options, self.server, self.nodes = options, server, nodes
        self.order, self.inside, self.last_in = None, {}, 0.0
        self.states, self.errors, self.answers = [], [], []
        low, high = (nodes, nodes) if options.variant == "fixed" else (nodes // 2, 2 * nodes)
        self.trial = {
            "control": listener.getsockname()[1], "store": server.port, "run": run_id,
            "nodes": nodes, "min": low, "max": high,
            "processes": min(options.processes, nodes), "trace": options.trace,
            "config": dict({"last_call_timeout": str(options.last_call)}, **options.conf)}
        load.begin(self.trial)
        self.peers = Peers(listener, self.trial["processes"] + 1)

    def collect(self, deadline, until, wanted=None):
        """Takes in what comes until `until()` or the time is over; says whether it came to be."""
        while not until():
            got = self.peers.next(deadline)
            if got is None:
                return False
            connection, words = got
            if words["event"] == "in" and words["order"] == self.order:
                self.inside[connection] = words["count"]
                self.last_in = max(self.last_in, words["at"])
            elif words["event"] == "state":
                self.states.append(words)
            elif words["event"] == "error":
                self.errors.append(words["text"])
            if words["event"] == wanted:
                self.answers.append(words)
        return True

    def ask(self, order, answer, count, **more):
        """The answers of the processes to an order."""
        self.answers = []
        if order:
            self.peers.order(order=order, **more)
        if not self.collect(time.monotonic() + 120, lambda: len(self.answers) == count, answer):
            raise SystemExit("no %s from the load within 120 s" % answer)
        return self.answers

    def load_cpu(self):
        return sum(a["seconds"] for a in self.ask("cpu", "cpu", self.trial["processes"]))

    def marks(self):
        return time.monotonic(), server_times(self.server.pid), self.load_cpu()

    def storm(self, name):
        """All nodes at once: join, again, or close; and how long the last one took."""
        self.order, self.inside, self.last_in = name, {}, 0.0
        before = self.marks()
        start = time.monotonic() + 0.2
        self.peers.order(order=name, at=start)
        done = self.collect(start + self.options.limit,
                            lambda: sum(self.inside.values()) == self.nodes)
        end = self.last_in if done else time.monotonic()
        after = self.marks()
        first = 0 if name == "join" else before[0]  # the key is made before
        return dict(self.sums(first, end + 1e-3), done=done, seconds=end - start,
                    inside=sum(self.inside.values()), **used(before, after))

    def steady(self):
        self.collect(time.monotonic() + SETTLE_SECONDS, lambda: False)
        first = self.marks()
        self.collect(time.monotonic() + self.options.steady, lambda: False)
        last = self.marks()
        seen = [s for s in self.states if first[0] <= s["at"] < last[0]]
        return dict(self.sums(first[0], last[0]), done=True, seconds=last[0] - first[0],
                    oldest=max((s["oldest"] for s in seen), default=0),
                    missing=self.nodes - min((s["participants"] for s in seen), default=0),
                    **used(first, last))

    def sums(self, begin, end):
        """What the nodes did from `begin` to `end`: sums, and the greatest of what is a greatest."""
        parts = self.ask("report", "report", self.trial["processes"], begin=begin, end=end)
        return {key: (max if key.endswith("_max") else sum)(p["sums"][key] for p in parts)
                for key in parts[0]["sums"]}

    def measure(self):
        """{phase: its figures}; the phases behind a storm that did not end are left out."""
        self.ask(None, "ready", self.trial["processes"] + 1)
        result = {}
        for phase in self.options.phases:
            result[phase] = self.steady() if phase == "steady" else self.storm(phase)
            if not result[phase]["done"]:
                break
        return result

    def end(self, load):
        self.peers.order(order="end")
        load.expect("over")
        self.peers.close()
        if self.options.trace:
            with open(os.path.join(self.options.trace, self.trial["run"] + "-states.jsonl"),
                      "w") as f:
                f.writelines(json.dumps(state) + "\n" for state in self.states)


def used(before, after):
    """CPU seconds of the server and of the load, and those in which the server had to wait."""
    return {"server": after[1][0] - before[1][0], "waited": after[1][1] - before[1][1],
            "load": after[2] - before[2]}


def size(count):
    for unit in ("B", "kB", "MB"):
        if count < 1000 or unit == "MB":
            return ("%.0f %s" if count >= 10 or unit == "B" else "%.1f %s") % (count, unit)
        count /= 1000


def each(runs, form, value):
    """The median over the rounds, and the ends between which they lay, when there were several."""
    values = [value(r) for r in runs]
    return run.spread(values, form) if len(values) > 1 else form % values[0]


def storm_table(phase, nodes, rounds, baseline):
    rows = [["%s, %d" % (STORMS[phase], nodes), "CAS/node", "set", "bytes up", "down",
             "last one after s", "slowest CAS s", "server CPU s", "waited", "load CPU s",
             "seconds / %s" % baseline]]
    for name, trials in rounds.items():
        runs = [t[phase] for t in trials if phase in t]
        done = [r for r in runs if r["done"]]
        if not runs:
            continue
        shown = done or runs
        after = each(shown, "%.1f", lambda r: r["seconds"])
        if not done:
            after = "not in %.0f (%d had)" % (runs[0]["seconds"], runs[0]["inside"])
        elif len(done) < len(runs):
            after += " %d/%d" % (len(done), len(runs))

        def median(key):
            return statistics.median(r[key] for r in shown)
        rows.append([
            name, each(shown, "%.1f", lambda r: r["cas"] / nodes), "%.1f" % (median("set") / nodes),
            size(median("up")), size(median("down")), after, "%.2f" % median("cas_max"),
            "%.2f" % median("server"), "%.2f" % median("waited"), "%.1f" % median("load"),
            ratio(phase, rounds, name, baseline)])
    if len(rows) > 1:
        run.table("", rows)


def ratio(phase, rounds, name, baseline):
    """Round by round, so that what slows the machine for a while slows both sides."""
    pairs = [(a.get(phase), b.get(phase))
             for a, b in zip(rounds[name], rounds.get(baseline, []))]
    values = [a["seconds"] / b["seconds"] for a, b in pairs if a and b and a["done"] and b["done"]]
    return run.spread(values) if len(values) > 1 else "%.2f" % values[0] if values else ""


def steady_table(nodes, rounds):
    rows = [["steady, %d" % nodes, "CAS/s", "set", "not", "heartbeats/s", "needed", "in one CAS",
             "merged", "not fresh", "oldest s", "missing", "up/s", "down/s", "server CPU", "waited",
             "load CPU"]]
    for name, trials in rounds.items():
        done = [t["steady"] for t in trials if "steady" in t]
        if not done:
            continue

        def rate(key):
            return statistics.median(s[key] / s["seconds"] for s in done)

        def share(key, of):
            return "%.0f %%" % (100 * statistics.median(s[key] / max(1, s[of]) for s in done))
        rows.append([
            name, "%.1f" % rate("cas"), "%.1f" % rate("set"), "%.1f" % (rate("cas") - rate("set")),
            "%.1f" % rate("beats"), "%.1f" % (nodes / 5), share("one", "beats"),
            share("merged", "beats"), "%d" % max(s["not_fresh"] for s in done),
            "%.1f" % max(s["oldest"] for s in done), "%d" % max(s["missing"] for s in done),
            size(rate("up")), size(rate("down")),
            *("%.0f %%" % (100 * rate(key)) for key in ("server", "waited", "load"))])
    if len(rows) > 1:
        run.table("", rows)


def rdzvd_help():
    return subprocess.run([servers.rdzvd_binary(), "--help"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout


def contestants(options, torch):
    """{name: how it is started}, in the order of a round."""
    known = rdzvd_help()
    makers = {}
    if "torch" in options.only:
        makers["torch %s" % torch.name] = lambda: PeerStore(torch)
    if "plain" in options.only:
        flags = ["--elastic-fixes=off"] if "--elastic-fixes" in known else []
        makers["rdzvd plain"] = lambda: servers.Rdzvd(*flags)
    if "rdzvd" in options.only:
        if "--elastic-fixes" in known:
            makers["rdzvd"] = servers.Rdzvd
        else:
            print("this rdzvd knows nothing of torch's rendezvous: it is all plain")
    for extra in options.also:
        name, _, flags = extra.partition(":")
        makers[name] = lambda flags=flags: servers.Rdzvd(*flags.split())
    return makers


def measure_all(bench, load, listener, started):
    """The tables, one pair for each number of nodes."""
    options = bench.options
    baseline = next(iter(started))
    serial = 0
    for nodes in options.nodes:
        rounds = {name: [] for name in started}
        for _ in range(options.rounds):
            for name, server in started.items():
                if any(not phase["done"] for r in rounds[name] for phase in r.values()):
                    continue  # it has had its chance, and every other one would wait for it
                serial += 1
                trial = Trial(options, load, listener, server, nodes, "%d-%d-%d" % (
                    os.getpid(), nodes, serial))
                result = trial.measure()
                trial.end(load)
                rounds[name].append(result)
                for text in sorted(set(trial.errors)):
                    print("  %s, %d nodes: %d failed: %s" % (
                        name, nodes, trial.errors.count(text), text))
                if options.tell:
                    print("  " + json.dumps(dict(name=name, nodes=nodes, run=trial.trial["run"],
                                                 **result)), flush=True)
        for phase in options.phases:
            if phase == "steady":
                steady_table(nodes, rounds)
            else:
                storm_table(phase, nodes, rounds, baseline)
        if options.variant == "fixed":
            add_verdicts(bench, nodes, rounds)


def add_verdicts(bench, nodes, rounds):
    for name, runs in rounds.items():
        if not name.startswith("rdzvd") or name == "rdzvd plain":
            continue
        done = [r["join"] for r in runs if r["join"]["done"]]
        if nodes == TARGET_NODES and done:
            cas = statistics.median(r["cas"] / nodes for r in done)
            seconds = statistics.median(r["seconds"] for r in done)
            bench.verdict("%s: join of %d: compare-and-sets per node" % (name, nodes),
                          "%.1f" % cas, "<= %d" % CAS_TARGET, cas <= CAS_TARGET)
            bench.verdict("%s: join of %d: last one in" % (name, nodes), "%.1f s" % seconds,
                          "<= %.0f s" % JOIN_TARGET, seconds <= JOIN_TARGET)
        if nodes in (TARGET_NODES, FINISH_NODES):
            bench.verdict("%s: joins of %d that finish" % (name, nodes), "%d of %d" % (
                len(done), len(runs)), "all", len(done) == len(runs))


def print_machine(options, torch):
    print("machine  %d cores, load average %.2f %.2f %.2f before" % (
        os.cpu_count(), *os.getloadavg()))
    print("rdzvd    %s" % run.version([servers.rdzvd_binary(), "--version"]))
    print("torch    %s, both as the nodes and as the server" % torch.name)
    print("nodes    threads in %d processes, names of 61 characters, %s%s" % (
        options.processes, "MIN = MAX = N" if options.variant == "fixed" else
        "MIN = N/2, MAX = 2 N, last call %d s" % options.last_call,
        "".join(", %s=%s" % pair for pair in options.conf.items())))
    print("rounds   %d, servers taking turns; medians (lowest..highest)" % options.rounds)
    print("columns  CAS: compare-and-sets, in a join with the one that creates the key; set: the "
          "answer was what\n         was sent; merged: a heartbeat that was not set and yet is in "
          "the state; oldest: heartbeat in the\n         state (15 s is death); missing: "
          "participants evicted; waited: the server could have run and\n         had no core: the "
          "nodes' work and the noise of the machine")
    sys.stdout.flush()


def pair(text):
    key, _, value = text.partition("=")
    return key, value


def parse_options():
    root = os.path.normpath(os.path.join(HERE, "..", ".."))
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=os.path.join(root, "build"),
                   help="the build folder; rdzvd is the one named by $RDZVD, else its own")
    p.add_argument("--torch", default="2.13.0", help="which release (default: %(default)s)")
    p.add_argument("--nodes", default="8,32,128,256", help="(default: %(default)s)")
    p.add_argument("--variant", choices=("fixed", "elastic"), default="fixed",
                   help="MIN = MAX = N, or MIN = N/2 and MAX = 2 N (default: %(default)s)")
    p.add_argument("--last-call", type=int, default=3, help="seconds (default: %(default)s)")
    p.add_argument("--conf", type=pair, action="append", default=[], metavar="KEY=VALUE",
                   help="more for the handlers, as in --rdzv-conf; repeatable")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steady", type=float, default=15, help="seconds (default: %(default)s)")
    p.add_argument("--phases", default="join,steady,again,close",
                   help="what a trial is made of (default: %(default)s): join; steady; again: all "
                        "join once more, as after a worker has failed; close: all end at once")
    p.add_argument("--limit", type=float, default=60, help="seconds for a storm")
    p.add_argument("--processes", type=int, default=4, help="that the nodes are spread over")
    p.add_argument("--only", default="torch,plain,rdzvd", help="(default: %(default)s)")
    p.add_argument("--also", action="append", default=[], metavar="NAME:FLAGS",
                   help="rdzvd with these flags too; repeatable")
    p.add_argument("--tell", action="store_true", help="print each trial's figures as JSON")
    p.add_argument("--trace", help="write every request of every node, and the state four times a second, "
                        "into files in this folder")
    options = p.parse_args()
    options.only = [word for word in options.only.split(",") if word]
    unknown = set(options.only) - {"torch", "plain", "rdzvd"}
    if unknown:
        p.error("--only %s: not a contestant" % ",".join(sorted(unknown)))
    options.phases = [word for word in options.phases.split(",") if word]
    if options.phases[:1] != ["join"] or set(options.phases) - {*STORMS, "steady"}:
        p.error("--phases: begins with join, and the others are steady, again, close")
    options.nodes = [int(n) for n in options.nodes.split(",")]
    options.conf = dict(options.conf)
    if options.trace:
        options.trace = os.path.abspath(options.trace)
        os.makedirs(options.trace, exist_ok=True)
    if "RDZVD" not in os.environ:
        os.environ["RDZVD"] = os.path.join(options.build, "rdzv", "rdzvd")
    if not os.path.exists(servers.rdzvd_binary()):
        p.error("there is no %s: build first, or name the build folder with --build"
                % servers.rdzvd_binary())
    return options


def main():
    options = parse_options()
    torch = torches.choose([options.torch])[0]
    print_machine(options, torch)
    bench = run.Bench(options)
    load = Load(torch)
    started = {}
    try:
        for name, make in contestants(options, torch).items():
            server = make()
            if isinstance(server, PeerStore):
                server.pid = server.process.pid
                name += " " + server.backend
            started[name] = server
        if not started:
            raise SystemExit("there is nothing to measure")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            measure_all(bench, load, listener, started)
    finally:
        for server in started.values():
            server.stop()
        load.stop()
    if bench.verdicts:
        print("\ntargets")
        for line in bench.verdicts:
            print("  " + line)
    print("\nload average %.2f %.2f %.2f after" % os.getloadavg())


if __name__ == "__main__":
    main()
