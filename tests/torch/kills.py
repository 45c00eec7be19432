"""A real job trains while its store is killed with kill -9 and started again, time after time: no
agent and no worker may notice.

    kills.py [--seed N] [--kills N] [--torch NAME]... [--way relay|held]... [--sync MODE] [--logs DIR]
             [--outage SECONDS] [--read_timeout SECONDS] [--at_once N] [--tell]

Two agents with two workers each. The ways:

    relay   c10d; each agent comes to a relay of its own, and the relay to the store
    held    etcd-v2, without relays; the process that starts rdzvd holds its listening socket, as
            systemd does, so that a client that connects meanwhile waits and is not refused

The store is killed while the first agent waits for the other one, each half a second while they meet
and their workers start, then while they train, and again while the job ends; it is away for up to a
second each time. The seed chooses the times, --kills is how many there are at least. With --outage it is
away for that long once more while they train, and --read_timeout says for how long the agents wait for it
(torch's default is 60 s, emitted manifests with a relay say 900). Checked: every
rank is started once, all end with 0 at one step with one model.
"""

import argparse
import concurrent.futures
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

import torches
from job import STOP, WORKERS_PER_AGENT, Job, JobFailed, out

sys.path.insert(0, os.path.join(torches.ROOT, "tests", "support"))
from servers import Rdzvd, free_port, rdzvd_binary  # noqa: E402

AGENTS = ("a", "b")
RANKS = len(AGENTS) * WORKERS_PER_AGENT


class Store:
    """A data directory, and the rdzvd that uses it just now."""

    def __init__(self, folder, sync):
        self.flags = ["--data-dir=" + os.path.join(folder, "data"), "--sync=" + sync]
        self.daemon, self.logs = None, []

    def launch(self):
        raise NotImplementedError

    def start(self):
        self.daemon = self.launch()
        self.daemon.wait_log(r"event=ready ")

    def kill(self, away_seconds):
        code = self.daemon.stop(signal.SIGKILL)
        if code != -signal.SIGKILL:
            raise JobFailed("rdzvd ended with %d of itself:\n%s" % (code, self.daemon.log()))
        self.logs.append(self.daemon.log())
        time.sleep(away_seconds)
        self.start()

    def wait_first(self):
        """Until the first agent has written to it."""
        raise NotImplementedError

    def log(self):
        return "\n".join(self.logs + [self.daemon.log()] if self.daemon else [])

    def end(self):
        if self.daemon is not None:
            self.daemon.stop(signal.SIGTERM)


class Held(Store):
    """Its listening socket outlives it."""

    backend = "etcd-v2"

    def __init__(self, folder, sync):
        super().__init__(folder, sync)
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(1024)
        self.port = self.socket.getsockname()[1]
        # python-etcd repeats a request whose connection broke at another URL that it was told.
        self.flags.append("--advertise-client-urls=" + ",".join(
            "http://%s:%d" % (host, self.port) for host in ("127.0.0.1", "localhost")))

    def launch(self):
        fd = self.socket.fileno()
        script = 'exec 3<&%d; export LISTEN_PID=$$ LISTEN_FDS=1; exec "$0" "$@"' % fd
        return Rdzvd(*self.flags, listen=(), wrapper=["bash", "-c", script], pass_fds=[fd])

    def wait_first(self):
        url = "http://127.0.0.1:%d/v2/keys/torch" % self.port
        while True:
            try:
                urllib.request.urlopen(url, timeout=60).close()
                return
            except urllib.error.HTTPError as error:
                error.close()
                time.sleep(0.1)

    def endpoint(self, _):
        return "127.0.0.1:%d" % self.port

    def end(self):
        super().end()
        self.socket.close()


class Relayed(Store):
    """Each agent has a relay, which outlives the store."""

    backend = "c10d"

    def __init__(self, folder, sync):
        super().__init__(folder, sync)
        self.port = free_port()
        upstream = "--upstream=127.0.0.1:%d" % self.port
        self.relays = {name: Rdzvd(upstream) for name in AGENTS}

    def launch(self):
        return Rdzvd(*self.flags, listen=("127.0.0.1:%d" % self.port,))

    def wait_first(self):
        self.daemon.wait_log(r"event=run_started ", timeout=90)

    def endpoint(self, name):
        return "127.0.0.1:%d" % self.relays[name].port

    def log(self):
        return super().log() + "".join("\n-- relay of %s\n%s" % (name, relay.log())
                                       for name, relay in self.relays.items())

    def end(self):
        super().end()
        for relay in self.relays.values():
            relay.stop()


WAYS = {"relay": Relayed, "held": Held}


class KilledJob(Job):
    pace = ("--steps=40", "--tell=5")

    def __init__(self, torch, store, folder, seconds, read_timeout):
        super().__init__(torch, store.backend, store.port, folder, "training", "2:2",
                         seconds=seconds, shares=store.backend == "c10d" and torch.name != "2.6")
        self.store = store
        if read_timeout:
            self.conf = ["read_timeout=%d" % read_timeout]

    def endpoint_of(self, name):
        return self.store.endpoint(name)

    def started(self):
        return [e for e in self.events if e["event"] == "start"]

    def check_untouched(self):
        """No worker was started again."""
        ranks = sorted(int(e["rank"]) for e in self.started())
        if ranks != list(range(RANKS)):
            raise JobFailed("ranks that were started: %s, and each should have been once" % ranks)


class Run:
    def __init__(self, options, torch, way, folder):
        self.options, self.torch, self.way, self.folder = options, torch, way, folder
        self.random = random.Random("%d %s %s" % (options.seed, torch.name, way))
        self.begin, self.kills = time.monotonic(), 0

    def tell(self, text):
        if self.options.tell:
            out("  [%s %s, %5.1f s] %s" % (self.torch.name, self.way,
                                           time.monotonic() - self.begin, text))

    def kill(self, store, longest):
        """After a while: once, and the store is away for a while."""
        time.sleep(longest * self.random.random())
        away = self.random.choice((0, 0.1, 1)) * self.random.random()
        store.kill(away)
        self.kills += 1
        self.tell("killed; was away for %.2f s" % away)

    def kill_while(self, store, busy):
        """Again and again, until busy() has returned."""
        errors = []

        def work():
            try:
                busy()
            except JobFailed as error:
                errors.append(error)
        worker = threading.Thread(target=work)
        worker.start()
        while worker.is_alive():
            self.kill(store, 0.7)
        worker.join()
        if errors:
            raise errors[0]

    def go_through(self, store):
        job = KilledJob(self.torch, store, self.folder,
                        120 + 15 * self.options.kills + self.options.outage,
                        self.options.read_timeout)
        self.job = job
        job.start_agent(AGENTS[0])
        store.wait_first()
        self.tell("agent %s has come" % AGENTS[0])
        self.kill(store, 1)  # it waits for the other one
        for name in AGENTS[1:]:
            job.start_agent(name)
        self.kill_while(store, lambda: job.wait_training(RANKS))
        self.tell("%d ranks train" % RANKS)
        for _ in range(max(self.options.kills // 2, self.options.kills - self.kills)):
            self.kill(store, 2)
        if self.options.outage:
            store.kill(self.options.outage)
            self.tell("was away for %d s" % self.options.outage)
        job.check_untouched()
        mark = job.mark()
        job.wait_training(RANKS, since=mark)
        self.kill_while(store, lambda: job.finish(RANKS))
        job.check_untouched()

    def run(self):
        store, self.job = WAYS[self.way](self.folder, self.options.sync), None
        try:
            store.start()
            self.go_through(store)
            return True
        except JobFailed as error:
            out("failed  torch %s %s (%.1f s): %s" % (self.torch.name, self.way,
                                                      time.monotonic() - self.begin, error))
            if self.job is not None:
                out(self.job.logs())
            out("---- rdzvd\n" + "\n".join(store.log().splitlines()[-150:]))
            return False
        finally:
            if self.job is not None:
                self.job.end()
            store.end()


def run(options, torch, way):
    folder = tempfile.mkdtemp(prefix="rdzv-kills-", dir=options.logs)
    one = Run(options, torch, way, folder)
    if not one.run():
        out("again: RDZVD=%s %s %s --torch %s --way %s --seed %d --kills %d --sync %s\nlogs: %s" % (
            rdzvd_binary(), sys.executable, os.path.abspath(__file__), torch.name, way,
            options.seed, options.kills, options.sync, folder))
        return False
    out("passed  torch %s %s: %d kills, no restart (%.1f s)" % (
        torch.name, way, one.kills, time.monotonic() - one.begin))
    if not options.logs:
        shutil.rmtree(folder)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--torch", action="append", help="%s; repeatable" % ", ".join(torches.ALL))
    parser.add_argument("--way", action="append", choices=tuple(WAYS))
    parser.add_argument("--sync", choices=("batch", "always"), default="batch")
    parser.add_argument("--logs", help="a folder for all logs, kept")
    parser.add_argument("--outage", type=int, default=0)
    parser.add_argument("--read_timeout", type=int, default=0)
    parser.add_argument("--at_once", type=int, default=2, help="how many runs at a time")
    parser.add_argument("--tell", action="store_true", help="say what goes on")
    options = parser.parse_args()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: STOP.set())
    runs = [(torch, way) for torch in torches.choose(options.torch)
            for way in options.way or WAYS]
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        results = list(pool.map(lambda r: run(options, *r), runs))
    print("%d passed, %d failed" % (results.count(True), results.count(False)))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
