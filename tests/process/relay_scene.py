"""A store that tests kill and start again, a relay in front of it, and what their cases share."""

import http.client
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "elastic"),
                os.path.join(HERE, "..", "wire")]
from c10d import Peer, modern  # noqa: E402
from cases import check  # noqa: E402
from servers import OPERATOR, Rdzvd, free_port  # noqa: E402

SEED = int(os.environ.get("RDZV_SEED", "1"))

MIB = 1 << 20


def same(got, wanted, what):
    check(got == wanted, "%s: %.300r, not %.300r" % (what, got, wanted))


class Store:
    """A store on one port, with a directory (inside `parent`) that outlives it; or, `durable` False,
    without."""

    def __init__(self, *flags, durable=True, start=True, mode="batch", parent=None):
        self.folder = tempfile.mkdtemp(prefix="rdzv-relay-", dir=parent)
        self.port = free_port()
        self.flags = list(flags) + (["--data-dir=" + self.folder, "--sync=" + mode] if durable else [])
        self.daemon = None
        self.log = ""
        if start:
            self.start()

    def start(self, host="127.0.0.1", binary=None):
        self.daemon = Rdzvd(*self.flags, listen=("%s:%d" % (host, self.port),), binary=binary)

    def kill(self, sig=signal.SIGKILL):
        code = self.daemon.stop(sig)
        self.log += self.daemon.log()
        wanted = 0 if sig == signal.SIGTERM else -sig
        check(code == wanted, "the store ended with %d, not %d:\n%s" % (code, wanted, self.daemon.log()))
        self.daemon = None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.daemon is not None:
            if kind is not None:
                print("the store's log ends:\n" + self.daemon.log()[-3000:])
                self.daemon.stop(signal.SIGKILL)
            else:
                self.kill(signal.SIGTERM)
        shutil.rmtree(self.folder)


class Relay(Rdzvd):
    def __init__(self, *stores, flags=(), **kwargs):
        upstream = ",".join(s if isinstance(s, str) else "127.0.0.1:%d" % s.port for s in stores)
        super().__init__("--upstream=" + upstream, *flags, **kwargs)

    def linked(self, count=1):
        self.wait_log("event=upstream_connected", count=count)

    def lost(self, count=1):
        self.wait_log("event=upstream_lost", count=count)

    def __exit__(self, kind, *_):
        if kind is not None:
            print("the relay's log ends:\n" + self.log()[-3000:])
            self.stop(signal.SIGKILL)
        else:
            code = self.stop()
            check(code == 0, "the relay ended with %d:\n%s" % (code, self.log()))


def ask(port, path, method="GET", headers=None):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    c.request(method, path, headers=dict(headers or {}, Host="localhost"))
    answer = c.getresponse()
    got = answer.status, answer.read().decode()
    c.close()
    return got


def order(store, path):
    """Of an operator; `path` is that of the run or nodes and the query. The status and the answer."""
    return ask(store.port, "/rdzv/v1/spaces/default/" + path, "PUT", OPERATOR)


def metric(port, name):
    found = re.search(r"^%s (\S+)$" % re.escape(name), ask(port, "/metrics")[1], re.M)
    check(found, "no metric " + name)
    return float(found.group(1))


def until(condition, what, seconds=20):
    """Asks again until it is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < deadline, "not after %d s: %s" % (seconds, what))
        time.sleep(0.01)


def in_thread(function, *args):
    """Runs it; .join() raises what it raised."""
    class Thread(threading.Thread):
        failure = None

        def run(self):
            try:
                function(*args)
            except Exception as e:  # told by finish()
                self.failure = e

        def finish(self, timeout=60):
            self.join(timeout)
            check(not self.is_alive(), "it hangs")
            if self.failure is not None:
                raise self.failure

    thread = Thread(daemon=True)
    thread.start()
    return thread


class Load:
    """Clients that count their acknowledged changes, for a comparison with the store's content."""

    def __init__(self, ports, clients, mixed):
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.added = self.appended = self.pushed = self.cas = self.parts = 0
        self.popped = []
        self.threads = [in_thread(self.run, ports[i % len(ports)], i, mixed) for i in range(clients)]

    def tell(self, name, value):
        with self.lock:
            setattr(self, name, getattr(self, name) + value)

    def run(self, port, i, mixed):
        random_ = random.Random(SEED * 1000 + i)
        p, n, own = Peer(port), 0, 0
        while not self.stop.is_set():
            n += 1
            kind = random_.choice(("add", "append", "cas", "push", "pop", "own", "get")) if mixed else "add"
            mark, part = b"<%d.%d>" % (i, n), b"%d" % (n // 50)  # so that no value gets long
            if kind == "add":
                p.add(b"sum", 1)
                self.tell("added", 1)
            elif kind == "append":
                p.append(b"text" + part, mark)
                self.tell("appended", 1)
            elif kind == "cas":
                while True:
                    have = p.get(b"cas" + part)
                    if p.cas(b"cas" + part, have, have + mark) == have + mark:
                        break
                self.tell("cas", 1)
            elif kind == "push":
                p.push(b"queue", mark)
                self.tell("pushed", 1)
            elif kind == "pop":
                p.send(modern.pop(b"queue"))
                if p.number() > 0:
                    with self.lock:
                        self.popped.append(p.blob())
            elif kind == "own":
                own += 1
                same(p.add(b"own%d" % i, 1), own, "ADD of a key that nobody else has")
            else:
                p.get(b"text" + part)
        p.ping()
        p.close()
        with self.lock:
            self.parts = max(self.parts, n // 50 + 1)

    def finish(self):
        self.stop.set()
        for thread in self.threads:
            thread.finish()

    def compare(self, port):
        p = Peer(port)
        same(p.add(b"sum", 0), self.added, "ADDs")
        for key, count in ((b"text", self.appended), (b"cas", self.cas)):
            marks = [m for i in range(self.parts) for m in re.findall(rb"<[^>]*>", p.get(key + b"%d" % i))]
            same(len(marks), count, "parts of " + key.decode())
            same(len(set(marks)), count, "different parts of " + key.decode())
        left = []
        while True:
            p.send(modern.pop(b"queue"))
            if p.number() == 0:
                break
            left.append(p.blob())
        same(len(self.popped) + len(left), self.pushed, "elements of the queue")
        same(len(set(self.popped + left)), self.pushed, "different elements of the queue")
        p.close()


def frames(daemon, event, count=1):
    """The version of the frames that the last such event says."""
    return int(daemon.wait_log("event=%s .*frames=(\\d+)" % event, count=count)[-1].group(1))
