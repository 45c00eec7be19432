"""Linearizability: a dozen clients ask at random, directly or through relays, while the daemon is
killed, stopped, killed in the middle of a write, and its disk is slow or fails; then it is checked
that one daemon that never failed could have answered the same (keys.py, tree.py).

    run.py [--seed N] [--runs N] [--mode batch|always|both|etcd] [--seconds S] [--relayed [--http]] [--followers]
           [--keep DIR]
    run.py --check FILE...          histories that were kept, once more
    run.py --planted [NAME...]      each bug of planted.py has to be found within --runs (50)

A run that fails prints its seed and where its history is kept. A seed fixes what is asked and what
is done; when each of it happens, the machine decides.
"""

import argparse
import http.client
import os
import random
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support")]
import clients  # noqa: E402
import faults  # noqa: E402
import history  # noqa: E402
import keys  # noqa: E402
import replicated  # noqa: E402
import tree  # noqa: E402


class Run:
    """One history."""

    def __init__(self, seed, mode, options):
        self.seed, self.mode, self.relayed = seed, mode, options.relayed
        self.http = options.http
        self.rng = random.Random("run/%s" % seed)
        self.seconds = options.seconds
        self.pause = self.rng.choice((0.004, 0.01, 0.02))
        self.groups = self.rng.sample(clients.GROUPS, self.rng.choice((4, 6, 9)))
        self.history = history.History({"seed": seed, "mode": mode, "relayed": self.relayed})
        cluster = replicated.Followed if options.followers else replicated.Replicated if mode == "etcd" else faults.Cluster
        self.cluster = cluster(self.history, seed, mode, relays=2 if self.relayed else 0)
        self.fill_port = self.cluster.ports[2]
        self.stopped, self.ended = threading.Event(), threading.Event()
        self.struck = []

    def stopping(self):
        return self.stopped.is_set()

    def port_of(self, group, client):
        if not self.relayed:
            return self.cluster.ports[1 if group == clients.WHOLE else 0]
        ours = [r for r in self.cluster.relays if (r.space == "small") == (group == clients.WHOLE)]
        return ours[client % len(ours)].port

    def tree_port(self, client):
        """The port of a tree client. Also in a run with relays, tree clients connect to the store, unless
        --http sends them to the relays."""
        return self.port_of(self.groups[0], client) if self.http else self.cluster.ports[0]

    def ask(self, method, path, form):
        """Sends one request to the tree, which must succeed."""
        client = clients.TreeClient(self, "t0")
        client.p, client.seen = self.history.connection(), {}
        c = http.client.HTTPConnection("127.0.0.1", self.tree_port(0), timeout=30)
        client.ask(c, method, path, form)
        c.close()
        row = self.history.of("etcd")[-1]
        if row["status"] is None or row["status"] >= 500:
            raise AssertionError("a request at the end was answered %s" % row)
        return row["index"]

    def first_index(self):
        c = http.client.HTTPConnection("127.0.0.1", self.tree_port(0), timeout=30)
        index = clients.ask_http(c, "GET", "/", {})[1]
        c.close()
        return index

    def work(self):
        head = self.history.rows[0]
        self.first_index = head["first_index"] = self.first_index()
        workers = [clients.KeyClient(self, "c%d-" % i) for i in range(8)]
        workers += [clients.KeyClient(self, "c%dw" % i) for i in range(2)]
        workers += [clients.TreeClient(self, "t%d" % i) for i in range(3)]
        workers.append(clients.Streamer(self, "stream"))
        if self.rng.random() < 0.3:
            workers.append(clients.Filler(self, "filler"))
        watchers = [clients.Watcher(self, "watch%d" % i, self.first_index + 1) for i in range(2)]
        for w in workers + watchers:
            w.start()
        try:
            until = time.monotonic() + self.seconds
            while time.monotonic() < until:
                self.cluster.a_while(0.05, 0.5)
                self.struck.append(self.cluster.strike())
                self.raise_trouble(workers + watchers)
            self.cluster.a_while(0.05, 0.2)
            self.stopped.set()
            self.join(workers)
            self.settle()
            self.final_reads()
            last = head["final_index"] = self.ask("PUT", "/e/end", {"value": "the end"})
            late = clients.Watcher(self, "late", max(self.first_index + 1,
                                                     last - self.rng.choice((100, 400, 900))))
            late.start()
            self.join(watchers + [late])
        finally:
            self.stopped.set()
            self.ended.set()

    def settle(self):
        """What it takes until a disk that failed is used again is not the test's subject."""
        if self.rng.random() < 0.7:
            self.cluster.restart()
            return
        until = time.monotonic() + 20
        while time.monotonic() < until:
            c = http.client.HTTPConnection("127.0.0.1", self.cluster.ports[0], timeout=30)
            c.request("GET", "/readyz", headers={"Host": "localhost"})
            ready = c.getresponse().status == 200
            c.close()
            if ready:
                return
            time.sleep(0.05)
        raise AssertionError("the daemon is not ready 20 s after the last fault")

    def raise_trouble(self, threads):
        for t in threads:
            if t.trouble:
                raise AssertionError(t.trouble)

    def join(self, threads):
        until = time.monotonic() + clients.PATIENCE + 10
        for t in threads:
            t.join(max(0.1, until - time.monotonic()))
        self.raise_trouble(threads)
        for t in threads:
            if t.is_alive():
                raise AssertionError("%s waits for an answer that never comes" % t.name)

    def final_reads(self):
        """All that is there."""
        for group in self.groups + [clients.WHOLE]:
            c = clients.Connection(self.history, self.port_of(group, 0), self.relayed)
            a = clients.Asker(c, group, self.rng, "end")
            for key in a.all_keys():
                if "/q" in key:
                    while a.pop(key):
                        pass
                else:
                    a.get_key(key)
            if group == clients.WHOLE:
                a.count()
                a.list()
            c.end()
        self.ask("GET", "/e", {"recursive": "true", "sorted": "true"})


def judge(h):
    """What is wrong with a history, or None; how many states were looked at."""
    wrong, visited = keys.check(h)
    return wrong or tree.check(h), visited


def one_run(seed, mode, options):
    """What went wrong, or None; and the run's figures."""
    began = time.monotonic()
    run = Run(seed, mode, options)
    wrong = None
    try:
        run.work()
    except (AssertionError, OSError, EOFError, ValueError) as e:
        wrong = "%s: %s" % (type(e).__name__, e)
    log = run.cluster.close()
    ran = time.monotonic() - began
    visited = 0
    if wrong is None:
        wrong, visited = judge(run.history)
    figures = "%d requests, %d changes of the tree, %d faults, %d states, %.1f + %.1f s" % (
        len(run.history.of("op")), len(run.history.of("etcd")), len(run.struck), visited, ran,
        time.monotonic() - began - ran)
    if wrong is not None and options.keep:
        os.makedirs(options.keep, exist_ok=True)
        path = os.path.join(options.keep, "history-%s-%s%s" % (
            seed, mode, "-followers" if options.followers else "-relayed" if options.relayed else ""))
        run.history.save(path)
        with open(path + ".log", "w", encoding="utf-8") as f:
            f.write(log)
        wrong = "seed %d, --mode %s%s: %s\nhistory: %s\nfaults: %s" % (
            seed, mode, " --followers" if options.followers else " --relayed" if options.relayed else "", wrong, path, " ".join(run.struck))
    return wrong, figures


def check_files(paths):
    failed = 0
    for path in paths:
        wrong, visited = judge(history.load(path))
        print("%s: %s (%d states)" % (path, wrong or "linearizable", visited))
        failed += wrong is not None
    print("%d passed, %d failed" % (len(paths) - failed, failed))
    return 1 if failed else 0


def runs(options, count):
    """Runs with seeds that follow each other; the first failures of them."""
    failures = []
    for i in range(count):
        seed = options.seed + i
        mode = options.mode if options.mode != "both" else ("batch", "always")[seed % 2]
        wrong, figures = one_run(seed, mode, options)
        if options.tell or wrong:
            print("seed %d, %s: %s" % (seed, mode, figures), flush=True)
        if wrong:
            print("FAIL %s" % wrong, flush=True)
            failures.append(seed)
            if options.first:
                break
    return failures


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--runs", type=int)
    p.add_argument("--mode", choices=("batch", "always", "both", "etcd"), default="both",
                   help="etcd: the journal is on an etcd cluster")
    p.add_argument("--seconds", type=float, default=2)
    p.add_argument("--relayed", action="store_true")
    p.add_argument("--http", action="store_true", help="with --relayed: etcd's clients too")
    p.add_argument("--followers", action="store_true",
                   help="with --mode etcd: clients come to replicas that pass them on")
    p.add_argument("--keep", default=tempfile.gettempdir())
    p.add_argument("--tell", action="store_true")
    p.add_argument("--first", action="store_true", help="end with the first failure")
    p.add_argument("--check", nargs="+")
    p.add_argument("--planted", nargs="*")
    options = p.parse_args()
    if options.followers:  # what a client sees there is what it sees at a relay
        options.relayed = options.http = True
        options.mode = "etcd"
    if options.check:
        return check_files(options.check)
    print("seed %d" % options.seed, flush=True)
    if options.planted is not None:
        import planted
        return planted.find_all(options, one_run)
    count = options.runs or 200
    failures = runs(options, count)
    print("%d passed, %d failed" % (count - len(failures), len(failures)))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
