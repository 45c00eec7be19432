#!/usr/bin/env python3
"""Hostile clients of all protocols against one daemon, and beside them well-behaved ones, each of whose
answers is checked: whatever the ones do, the others lose nothing and are answered rightly.

    adversary.py [--seed N] [--seeds COUNT] [--seconds S] [--clients K] [--only LIFE]
                 [--max-iteration MS] [--max-wait MS] [--results FILE]
    adversary.py --soak SECONDS

A seed chooses the daemon's settings and what each hostile client does (hostile.py); when the daemon gets
it, the machine decides. Well-behaved are (polite.py) workers, the agents of a torch job, and etcd's
clients; somebody who asks for /health; and a probe that sends an ADD each millisecond (probe.py).

They may be refused for one reason alone: the hostile ones have used up --memory-limit. Then a c10d
connection may be closed, HTTP be answered with an error that says so, and a connection not be let in;
the log and /metrics must say the same. Where there was no memory for a new round's worker store, workers
may find the last round's, if the log says repair_failed. /health is always answered.

At the end of a seed the daemon lives, and has said nothing bad; when all have gone and the spaces are
emptied, its memory is back; on SIGTERM it exits 0. What the probe waited and how long iterations of the
loop took is told, and judged only with --max-wait and --max-iteration: of a wait, what is the daemon's
part (probe.py). --soak keeps one daemon for all seeds, and judges that its memory stays flat.

--results appends a line to FILE for each seed, and leaves out the seeds that have passed there: so a long
run may be broken off and continued, or be made in portions, one after the other or beside each other, and
the last line is about all that is in FILE.
"""

import argparse
import datetime
import http.client
import json
import os
import random
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

import servers                 # noqa: E402
from iterations import Iterations  # noqa: E402
from probe import Probe        # noqa: E402

MIB = 1 << 20
PATIENCE = 60
SWARMS = 2                     # processes of hostile clients
MORE = 1 * MIB                 # of the account, that may stay beyond 1.2 times of before
MORE_RSS = 24 * MIB            # of the process: what its heap keeps in pieces
SPACES = ["probe", "plain", "job", "one", "two"]
TOKEN = "operator-of-tests"
SMALL_EVENTS = b"PUT /v2/keys/small?value=v HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1001 + \
    b"DELETE /v2/keys/small HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class Fault(Exception):
    """Something that must not be."""


# ---- settings


def sizes(rng, *choices):
    return rng.choice(choices)


def settings(seed):
    """The flags of a seed's daemon, and the limits that its hostile clients try."""
    rng = random.Random("settings/%s" % seed)
    limits = {"value": rng.choice((8 * MIB, 8 * MIB, MIB, 64 << 10)),
              "key": 8192, "keys": 131072, "request": 64 * MIB}
    flags = ["--value-limit=%d" % limits["value"],
             "--memory-limit=%s" % rng.choice(("256MiB", "256MiB", "128MiB", "64MiB")),
             "--space-limit=%s" % rng.choice(("4GiB", "64MiB", "16MiB", "4MiB")),
             "--output-limit=%s" % rng.choice(("64MiB", "64MiB", "1MiB", "64KiB")),
             "--request-timeout=%s" % rng.choice(("1m", "1m", "1s", "300ms")),
             "--closed-run-ttl=%s" % rng.choice(("5s", "300ms", "1ms")),
             "--closed-run-wait=%s" % rng.choice(("45s", "300ms", "off")),
             "--idle-run-ttl=%s" % rng.choice(("1d", "1m")),
             "--close-needs-all=%s" % rng.choice(("off", "off", "on")),
             "--elastic-fixes=%s" % rng.choice(("on", "on", "on", "off")),
             *rng.choice(([], [], ["--disable=c10d-legacy"])),
             "--session-timeout=%s" % rng.choice(("1s", "3s")),
             "--space-idle-timeout=%s" % rng.choice(("off", "off", "200ms")),
             "--log-level=%s" % rng.choice(("info", "info", "debug")),
             "--log-format=logfmt", "--host-whitelist=*"]
    pauses = [(0.2 + 0.6 * rng.random(), rng.choice((0.3, 1, 1.5)))] if rng.random() < 0.25 else []
    return flags, limits, pauses


# ---- the daemon


class Daemon:
    """rdzvd with a listener for each space, and a Unix socket for us."""

    def __init__(self, flags):
        self.folder = tempfile.mkdtemp(prefix="rdzv-adversary-")
        self.socket = os.path.join(self.folder, "s")
        listen = ["127.0.0.1:0/" + space for space in SPACES] + ["unix:" + self.socket]
        argv = [servers.rdzvd_binary()]
        for address in listen:
            argv += ["--listen", address]
        self.iterations = Iterations()
        self.server = servers.Server(argv + [servers.token_flag(), *flags],
                                     env=self.iterations.environment())
        try:
            found = self.server.wait_log(r"event=listening address=127\S+:(\d+) space=(\S+)",
                                         timeout=PATIENCE, count=len(SPACES))
            self.server.wait_log("event=ready", timeout=PATIENCE)
        except AssertionError as e:
            self.close()
            raise Fault("the daemon did not start: %s" % e) from None
        self.ports = {m.group(2): int(m.group(1)) for m in found}
        self.pid = self.server.pid

    def alive(self):
        if self.server.process.poll() is not None:
            raise Fault("the daemon ended with %s" % self.server.process.poll())

    def ask(self, method, path):
        """As an operator. (status, body)"""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE)
            s.connect(self.socket)
            s.sendall(("%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % (
                method, path)).encode())
            answer = http.client.HTTPResponse(s, method=method)
            answer.begin()
            return answer.status, answer.read()

    def metrics(self):
        status, body = self.ask("GET", "/metrics")
        if status != 200:
            raise Fault("/metrics was answered %d %.200r" % (status, body))
        return {name: float(value) for name, value in re.findall(
            r"^([a-z]\S*) (\S+)$", body.decode(), re.MULTILINE)}

    def memory(self):
        """The account's sum, its parts, and the process's resident bytes."""
        metrics = self.metrics()
        parts = {m.group(1): int(value) for name, value in metrics.items()
                 for m in [re.match(r'rdzvd_memory_bytes\{kind="(\w+)"', name)] if m}
        return sum(parts.values()), parts, self.resident("VmRSS")

    def resident(self, name):
        with open("/proc/%d/status" % self.pid, encoding="ascii") as f:
            return int(re.search(name + r":\s+(\d+)", f.read()).group(1)) << 10

    def core(self):
        """(seconds computed, seconds in line for a core)"""
        with open("/proc/%d/schedstat" % self.pid, encoding="ascii") as f:
            computed, stood, _ = f.read().split()
        return int(computed) / 1e9, int(stood) / 1e9

    def empty(self):
        """All spaces. etcd's trees keep their last thousand events, with what they removed; so there
        are a thousand small ones."""
        for space in SPACES:
            status, body = self.ask("DELETE", "/rdzv/v1/spaces/" + space)
            if status != 200:
                raise Fault("space %s was not emptied: %d %.200r" % (space, status, body))
        for space in SPACES:
            self.make_events(space)

    def make_events(self, space):
        """The store frees emptied spaces bit by bit, so memory for the events may be missing at first."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.ports[space]), timeout=PATIENCE) as s:
                    s.sendall(SMALL_EVENTS)
                    while s.recv(1 << 20):
                        pass
                return
            except ConnectionError:
                if time.monotonic() > deadline:
                    raise Fault("small events are refused in an empty space") from None
                time.sleep(0.05)

    def end(self):
        """By SIGTERM, and with all that was said."""
        self.alive()
        try:
            code = self.server.stop(timeout=PATIENCE)
        except AssertionError as e:
            raise Fault(str(e)) from None
        if code != 0:
            raise Fault("exit code %d on SIGTERM" % code)

    def close(self):
        if self.server.process.poll() is None:
            self.server.process.kill()
        self.server.process.wait()
        self.iterations.close()
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        os.rmdir(self.folder)


def is_sanitized():
    """Sanitizers keep freed memory for a while, so the process's size says nothing."""
    with open(servers.rdzvd_binary(), "rb") as f:
        return b"__asan_init" in f.read()


# ---- processes


class Child:
    """hostile.py or polite.py."""

    def __init__(self, script, orders):
        self.process = subprocess.Popen([sys.executable, os.path.join(HERE, script)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdin.write(json.dumps(orders) + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "ready\n":
            raise Fault("%s did not begin: exit code %s" % (script, self.process.wait()))

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self):
        out = self.process.communicate()[0]
        if self.process.returncode != 0:
            raise Fault("%s ended with %d" % (self.process.args[-1], self.process.returncode))
        return json.loads(out)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


class Health(threading.Thread):
    """Asks for /health, each time on a connection of its own, until told to end."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port = port
        self.over = threading.Event()
        self.asked, self.wrong = 0, None
        self.start()

    def run(self):
        while not self.over.wait(0.1) and self.wrong is None:
            self.wrong = self.ask()
            self.asked += 1

    def ask(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", "/health")
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as e:
            return "/health was answered by %r" % e
        finally:
            connection.close()
        if (answer.status, body) != (200, b'{"health":"true"}'):
            return "/health was answered %d %r" % (answer.status, body)
        return None

    def end(self):
        self.over.set()
        self.join(2 * PATIENCE)
        if self.is_alive():
            return "/health was not answered"
        return self.wrong


# ---- one seed


class Found:
    """What a seed came to."""

    def __init__(self):
        self.faults = []
        self.checks = self.connections = self.refusals = self.asked = 0
        self.lives = {}
        self.waits = self.iterations = self.longest = None
        self.peak = self.after = 0

    def text(self):
        return "%d checks, %d connections, %d refusals, %d probes; %s; waits: %s" % (
            self.checks, self.connections, self.refusals, self.asked, self.iterations,
            self.waits.text() if self.waits else "no probe")


def monotonic_of(logged):
    """The time of a line of the log by the clock that tests have."""
    wall = datetime.datetime.fromisoformat(logged.replace("Z", "+00:00")).timestamp()
    return time.monotonic() - (time.time() - wall)


class Attack:
    """A daemon and all of a seed's clients."""

    def __init__(self, daemon, seed, options):
        self.daemon, self.seed, self.options = daemon, seed, options
        self.found = Found()
        flags, self.limits, self.pauses = settings(seed)
        self.shows_names = "--elastic-fixes=off" in flags
        self.stopped = []
        self.children = []

    def child(self, script, **orders):
        self.children.append(Child(script, dict(orders, seed=self.seed)))
        return self.children[-1]

    def run(self):
        ports = self.daemon.ports
        orders = {"hostile": [("127.0.0.1", ports["one"])] * 3 + [("127.0.0.1", ports["two"])],
                  "shared": ("127.0.0.1", ports["plain"]), "unix": self.daemon.socket,
                  "token": TOKEN, "spaces": ["one", "two"], "limits": self.limits,
                  "only": self.options.only, "seconds": self.options.seconds}
        try:
            swarms = [self.child("hostile.py", clients=list(range(
                n, self.options.clients, SWARMS)), **orders) for n in range(SWARMS)]
            polite = self.child("polite.py", shows_names=self.shows_names, **ports)
            with Probe(ports["probe"], self.daemon.pid) as probe:
                health = Health(ports["probe"])
                self.daemon.iterations.begin()
                for swarm in swarms:
                    swarm.go()
                self.stop_at_times()
                for swarm in swarms:
                    self.tell(swarm.end())
                wrong = health.end()
                self.found.waits = probe.end(self.stopped)
            self.found.asked = health.asked
            found = polite.end()
        finally:
            for child in self.children:
                child.close()
            if self.daemon.server.process.poll() is None:
                self.found.peak = self.daemon.resident("VmHWM")
                self.found.longest = self.daemon.iterations.longest()
                self.found.iterations = self.daemon.iterations.text()
        self.daemon.alive()
        self.found.checks = found["checks"]
        self.found.faults += self.unexplained(found["wrong"]) + self.found.waits.wrong + ([wrong] if wrong else [])
        self.judge_refusals(found["refused"] + [
            [when, name, "the probe"] for when, name in self.found.waits.closed])

    def unexplained(self, wrong):
        """Where there was no memory for a round's worker store, workers find an older one, and the log
        has an error for the run."""
        failed = "event=repair_failed space=job run=job-a" in self.daemon.server.log()
        return [w for w in wrong if not (failed and w.startswith("job-a: workers of round"))]

    def stop_at_times(self):
        """SIGSTOP and SIGCONT, as a machine that is short of memory, or a debugger, would."""
        began = time.monotonic()
        for at, length in self.pauses:
            time.sleep(max(0, began + at * self.options.seconds - time.monotonic()))
            self.daemon.server.process.send_signal(signal.SIGSTOP)
            stopped = time.monotonic()
            time.sleep(length)
            self.daemon.server.process.send_signal(signal.SIGCONT)
            self.stopped.append((stopped, time.monotonic()))

    def tell(self, found):
        self.found.connections += found["connections"]
        for name, count in found["lives"].items():
            self.found.lives[name] = self.found.lives.get(name, 0) + count

    def judge_refusals(self, refused):
        """Polite ones are refused for want of memory alone, and the daemon says so."""
        self.found.refusals = len(refused)
        if not refused:
            return
        metrics, log = self.daemon.metrics(), self.daemon.server.log()
        if metrics["rdzvd_memory_refused_total"] == 0:
            self.found.faults.append("refused without a limit that was reached: %s" % refused[0][2])
        for when, name, whom in refused:
            # Most lines about a flood of drops are held back; what is said of one must be right.
            # (Ports are reused: hostile clients may have had this port before, or in another space.)
            lines = re.findall(r"time=(\S+) .*(event=dropped peer=%s protocol=\S+ "
                               r"space=(?:plain|job|probe) .*)" % re.escape(name), log) if name else []
            for at, said in lines:
                if "memory" not in said and abs(monotonic_of(at) - when) < 1:
                    self.found.faults.append("%s (%s): %s" % (whom, name, said))


def settle(daemon, before, sanitized):
    """All have gone and the spaces are emptied: the memory is back, some seconds later. Its account
    and the process's size then."""
    deadline = time.monotonic() + 30
    while daemon.metrics()["rdzvd_connections"] > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    daemon.empty()
    while True:
        total, parts, rss = daemon.memory()
        good = total <= 1.2 * before[0] + MORE
        small = sanitized or rss <= 1.2 * before[2] + MORE_RSS
        if good and small:
            return total, rss
        if time.monotonic() > deadline:
            raise Fault("memory: %d KiB of the account (%d before: %s), %d MiB resident (%d before)" % (
                total >> 10, before[0] >> 10, ", ".join(
                    "%s %d" % part for part in sorted(parts.items()) if part[1]), rss >> 20, before[2] >> 20))
        time.sleep(0.2)


def check_log(daemon):
    for line in daemon.server.log().split("\n"):
        if re.search(r"AddressSanitizer|LeakSanitizer|runtime error:|ssertion .*failed|level=error event="
                     r"(?!repair_failed|worker_port_failed|accept_failed)", line):
            raise Fault("it said: %s" % line)


def end_of(log):
    """What a sanitizer has said, or the last lines."""
    at = log.find("ERROR: AddressSanitizer")
    return log[at:at + 10000] if at >= 0 else log[-3000:]


def run_seed(seed, options, daemon=None):
    """Runs one seed against `daemon`, or against its own daemon if None. Returns the findings."""
    own = daemon is None
    attack = None
    try:
        if own:
            daemon = Daemon(settings(seed)[0])
        if own:
            daemon.empty()
        before = daemon.memory() if own else options.before
        attack = Attack(daemon, seed, options)
        attack.run()
        attack.found.after = settle(daemon, before, options.sanitized)[1]
        judge_times(attack.found, options)
        check_log(daemon)
        if own:
            daemon.end()
            check_log(daemon)
    except (Fault, OSError, http.client.HTTPException) as e:
        if attack is None:
            raise
        attack.found.faults.append(e if isinstance(e, Fault) else repr(e))
    finally:
        if attack is not None and attack.found.faults and daemon is not None:
            time.sleep(0.2)  # for what it says at its end
            attack.found.log = daemon.server.log()
        if own and daemon is not None:
            daemon.close()
    return attack.found


def judge_times(found, options):
    """Where that is asked for."""
    if options.max_wait is not None and found.waits is not None and \
            1000 * found.waits.longest_own > options.max_wait:
        found.faults.append("the probe waited %s" % found.waits.text())
    if options.max_iteration is not None and found.longest is not None and \
            found.longest > options.max_iteration:
        found.faults.append(found.iterations)


# ---- results of several runs


def write_result(path, seed, found, options):
    """One write, so that several runs may have the same file."""
    waits = found.waits
    line = json.dumps({
        "seed": seed, "seconds": options.seconds, "clients": options.clients, "passed": not found.faults,
        "longest_ms": waits and round(1000 * waits.longest, 2),
        "longest_own_ms": waits and round(1000 * waits.longest_own, 2),
        "p999_own_ms": waits and round(1000 * waits.p999_own, 2), "iteration_ms": found.longest,
        "checks": found.checks, "faults": [str(fault) for fault in found.faults[:3]]}) + "\n"
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


def read_results(path, options):
    """The latest line of each seed that was run as this run is."""
    lines = []
    if path is not None and os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
    return {line["seed"]: line for line in lines
            if (line["seconds"], line["clients"]) == (options.seconds, options.clients)}


def tell_results(path, options):
    """All that is in the file. True when nothing is wrong there."""
    lines = list(read_results(path, options).values())
    failed = sorted(line["seed"] for line in lines if not line["passed"])
    probed = [line for line in lines if line["longest_own_ms"] is not None]
    if probed:
        worst = max(probed, key=lambda line: line["longest_own_ms"])
        print("%s: %d seeds; by the daemon, longest wait %.1f ms (seed %d), over 20 ms in %d seeds, "
              "p99.9 over 5 ms in %d" % (
                  path, len(lines), worst["longest_own_ms"], worst["seed"],
                  sum(line["longest_own_ms"] > 20 for line in probed),
                  sum(line["p999_own_ms"] > 5 for line in probed)))
    if failed:
        print("failed: %s" % " ".join(map(str, failed)))
    print("%d passed, %d failed" % (len(lines) - len(failed), len(failed)))
    return not failed


def again(seed, options):
    words = ["python3", os.path.relpath(os.path.abspath(__file__)), "--seed", str(seed), "--seconds",
             "%g" % options.seconds, "--clients", str(options.clients)]
    if options.only:
        words += ["--only", options.only]
    if options.max_iteration is not None:
        words += ["--max-iteration", "%g" % options.max_iteration]
    if options.max_wait is not None:
        words += ["--max-wait", "%g" % options.max_wait]
    return "RDZVD=%s %s" % (servers.rdzvd_binary(), " ".join(words))


def tell(seed, found, options):
    """True when nothing is wrong."""
    print("%s seed %s: %s; %d MiB peak, %d after" % (
        "FAIL" if found.faults else "ok  ", seed, found.text(), found.peak >> 20, found.after >> 20),
        flush=True)
    if not found.faults:
        return True
    for fault in found.faults[:10]:
        print("     %s" % fault)
    print("     again: %s" % again(seed, options))
    print("     settings: %s" % " ".join(settings(seed)[0]))
    print("     the log ends:\n%s" % end_of(found.log), flush=True)
    return False


def soak(options):
    """Seeds one after the other in one daemon: after each of them the memory is told."""
    flags = settings(options.seed)[0]
    daemon = Daemon(flags)
    good, sizes_, told, began = True, [], 0, time.monotonic()
    try:
        seed = options.seed
        daemon.empty()
        options.before = daemon.memory()
        while time.monotonic() - began < options.soak and good:
            found = run_seed(seed, options, daemon)
            good = tell(seed, found, options)
            sizes_.append(daemon.memory()[::2])
            if time.monotonic() - told >= 60:
                told = time.monotonic()
                print("after %d s: %d KiB in the account, %d MiB resident" % (
                    told - began, sizes_[-1][0] >> 10, sizes_[-1][1] >> 20), flush=True)
            seed += 1
        daemon.end()
        check_log(daemon)
    except Fault as e:
        print("FAIL %s\n%s" % (e, end_of(daemon.server.log())))
        good = False
    finally:
        daemon.close()
    third = len(sizes_) // 3
    if third:
        for name, at, more in (("the account", 0, MORE), ("the process", 1, MORE_RSS)):
            second, last = (statistics.median(s[at] for s in part)
                            for part in (sizes_[third:2 * third], sizes_[-third:]))
            grew = last > 1.1 * second + more / 4
            print("%s %s: %d KiB in the second third, %d in the last" % (
                "FAIL" if grew else "ok  ", name, int(second) >> 10, int(last) >> 10))
            good = good and not grew
    print("%d passed, %d failed" % (good, not good))
    return 0 if good else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--seeds", type=int, default=1, help="how many, from the first one on")
    parser.add_argument("--seconds", type=float, default=10, help="of each seed")
    parser.add_argument("--clients", type=int, default=32, help="hostile ones")
    parser.add_argument("--only", help="what they all do; see LIVES in hostile.py")
    parser.add_argument("--max-wait", type=float, metavar="MS", help="for the probe, at most")
    parser.add_argument("--max-iteration", type=float, metavar="MS",
                        help="CPU time of one iteration of the loop, at most")
    parser.add_argument("--soak", type=float, metavar="SECONDS", help="one daemon for all seeds")
    parser.add_argument("--results", metavar="FILE", help="append to it, and leave out what has passed there")
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    options.sanitized = is_sanitized()
    if options.soak:
        return soak(options)
    failed, done = 0, read_results(options.results, options)
    for seed in range(options.seed, options.seed + options.seeds):
        if seed in done and done[seed]["passed"]:
            continue
        found = run_seed(seed, options)
        failed += not tell(seed, found, options)
        if options.results:
            write_result(options.results, seed, found, options)
    if options.results:
        return 0 if tell_results(options.results, options) else 1
    print("%d passed, %d failed" % (options.seeds - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
