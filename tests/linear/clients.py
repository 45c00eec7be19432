"""Clients that ask at random, and write down what they asked and were answered."""

import http.client
import json
import os
import random
import select
import socket
import struct
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import history  # noqa: E402
from c10d import NONCE, STOP_WAITING, WAIT_CANCELED, READY, modern, read_number  # noqa: E402
from history import now, shown  # noqa: E402

PATIENCE = 30  # seconds for an answer that has to come


def names(*keys):
    return [k.encode() for k in keys]


class Ended(Exception):
    """The connection, by the daemon."""


class Dropped(Exception):
    """By ourselves."""


class Connection:
    """One c10d connection, which records."""

    def __init__(self, h, port, relayed):
        self.h, self.port, self.relayed = h, port, relayed
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.opened = now()
        self.p = h.connection()
        self.open = []  # rows without an answer yet
        self.socket.sendall(modern.validate())

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError as e:
            raise Ended(repr(e)) from e

    def take(self, n):
        got = bytearray()
        while len(got) < n:
            try:
                more = self.socket.recv(n - len(got))
            except TimeoutError:
                raise
            except OSError as e:
                raise Ended(repr(e)) from e
            if not more:
                raise Ended("closed")
            got += more
        return bytes(got)

    def number(self):
        return read_number(self.take(8))

    def blob(self):
        return self.take(self.number())

    def begin(self, group, op, args, data):
        row = self.h.add("op", p=self.p, call=now(), ret=None, group=group, op=op,
                         args=args, out=None)
        self.open.append(row)
        self.send(data)
        return row

    def finish(self, row, out):
        """The answer of this request has arrived, so all earlier requests have taken effect, too."""
        row["out"] = out
        ret = now()
        for r in self.open:
            r["ret"] = ret
        self.open.clear()

    def settle(self):
        """Returns when all requests sent before have taken effect."""
        self.send(modern.ping())
        if self.take(4) != NONCE:
            raise AssertionError("PING was answered with something else")
        ret = now()
        for r in self.open:
            r["ret"] = ret
        self.open.clear()

    def has_come(self, seconds):
        return bool(select.select([self.socket], [], [], seconds)[0])

    def end(self, ours_at=None):
        """`ours_at`: when we had decided to close it; else the daemon did, some time ago."""
        if self.open:
            self.h.add("end", p=self.p, opened=self.opened, relayed=self.relayed, seen=now(),
                       at=ours_at or self.open[0]["call"])
        self.socket.close()


# What is asked of the keys of a group, by its kind: (weight, request) each. Small groups, since the
# search tries all that may have happened to a whole group.
KINDS = {
    "number": "add 10 set 3 get 4 delete 2 check 2 wait 3",
    "value": "set 4 compare_set 10 append 3 get 5 delete 3 check 1 wait 3",
    "pair": "multi_set 8 multi_get 6 check 4 wait 5 set 4 delete 5 get 3",
    "queue": "push 10 pop 6 queue_len 3 wait 8 check 2",
    "mixed": "push 5 pop 4 set 3 delete 3 wait 8 check 3",
    "barrier": "barrier 8 delete 2 get 3 wait 3",
    "whole": "set 4 delete 4 add 4 append 2 multi_set 2 count 6 list 6",
}
KEYS = {"number": ("n",), "value": ("v",), "pair": ("v0", "v1"), "queue": ("q",),
        "mixed": ("v", "q"), "barrier": ("b",), "whole": ("n", "v0", "v1")}
GROUPS = [(kind, "%s%d" % (kind, i)) for kind, count in
          (("number", 2), ("value", 2), ("pair", 1), ("queue", 2), ("mixed", 1), ("barrier", 1))
          for i in range(count)]
WHOLE = ("whole", "whole")


class Asker:
    """Random requests about one group of keys."""

    def __init__(self, c, group, rng, name):
        self.c, self.rng, self.name = c, rng, name
        self.kind, self.g = group
        self.made = 0
        self.seen = {}  # the value of a key as we know it, to compare with
        plan = KINDS[self.kind].split()
        self.ops, self.weights = plan[::2], list(map(int, plan[1::2]))

    def all_keys(self):
        return ["%s/%s" % (self.g, k) for k in KEYS[self.kind]]

    def some_keys(self):
        """One, or two where there are two."""
        all_ = self.all_keys()
        return self.rng.sample(all_, min(len(all_), self.rng.choice((1, 2))))

    def key(self, initials="nvb"):
        return self.rng.choice([k for k in self.all_keys() if k[len(self.g) + 1] in initials])

    def fresh(self):
        """A value that no other client makes. Some values are long, so that the store records their
        changes as patches."""
        self.made += 1
        name = ("%s.%d" % (self.name, self.made)).encode()
        if self.rng.random() < 0.3:
            return history.long_value(name, 300, 200 + self.rng.randrange(100))
        return name

    def ask(self):
        getattr(self, self.rng.choices(self.ops, self.weights)[0])()

    # Silent ones.

    def silent(self, op, args, data):
        self.c.begin(self.g, op, args, data)
        if self.rng.random() < 0.5:
            self.c.settle()

    def some_value(self, key):
        return b"%d" % self.rng.randrange(100) if "/n" in key else self.fresh()

    def set(self):
        key = self.key()
        value = self.some_value(key)
        self.silent("set", [key, shown(value)], modern.set(key.encode(), value))

    def append(self):
        self.made += 1
        key, value = self.key("v"), b";%s.%d" % (self.name.encode(), self.made)
        self.silent("append", [key, value.decode()], modern.append(key.encode(), value))

    def multi_set(self):
        pairs = [(k, self.some_value(k)) for k in self.rng.sample(self.all_keys(), 2)]
        self.silent("multi_set", [[[k, shown(v)] for k, v in pairs]],
                    modern.multi_set(*((k.encode(), v) for k, v in pairs)))

    def push(self):
        queue, value = self.key("q"), self.fresh()
        self.silent("push", [queue, shown(value)], modern.push(queue.encode(), value))

    # Answered ones.

    def add(self):
        key, delta = self.key("n"), self.rng.choice((1, 1, 1, 5, -3))
        row = self.c.begin(self.g, "add", [key, delta],
                           modern.add(key.encode(), delta))
        self.c.finish(row, self.c.number())

    def get(self):
        self.get_key(self.key())

    def get_key(self, key):
        row = self.c.begin(self.g, "get", [key], modern.get(key.encode()))
        value = self.c.blob()
        self.c.finish(row, shown(value))
        self.seen[key] = value
        if len(value) > 1000 and self.kind == "value":
            self.delete_key(key)

    def multi_get(self):
        keys = self.rng.sample(self.all_keys(), 2)
        row = self.c.begin(self.g, "multi_get", keys, modern.multi_get(*names(*keys)))
        self.c.finish(row, [shown(self.c.blob()) for _ in keys])

    def check(self):
        keys = self.some_keys()
        row = self.c.begin(self.g, "check", keys, modern.check(*names(*keys)))
        self.c.finish(row, self.c.take(1) == READY)

    def compare_set(self):
        key, desired = self.key("v"), self.fresh()
        expected = self.seen.get(key, b"")
        row = self.c.begin(self.g, "compare_set", [key, shown(expected), shown(desired)],
                           modern.compare_set(key.encode(), expected, desired))
        value = self.c.blob()
        self.c.finish(row, shown(value))
        self.seen[key] = value

    def delete(self):
        self.delete_key(self.key())

    def delete_key(self, key):
        row = self.c.begin(self.g, "delete", [key], modern.delete(key.encode()))
        self.c.finish(row, self.c.number())

    def pop(self, queue=None):
        queue = queue or self.key("q")
        row = self.c.begin(self.g, "pop", [queue], modern.pop(queue.encode()))
        count = self.c.number()
        self.c.finish(row, [count] + ([shown(self.c.blob())] if count else []))
        return count

    def queue_len(self):
        queue = self.key("q")
        row = self.c.begin(self.g, "queue_len", [queue], modern.queue_len(queue.encode()))
        self.c.finish(row, self.c.number())

    def count(self):
        row = self.c.begin(self.g, "count", [], modern.count())
        self.c.finish(row, self.c.number())

    def list(self):
        row = self.c.begin(self.g, "list", [], modern.list_keys())
        keys = [self.c.blob().decode() for _ in range(self.c.number())]
        self.c.finish(row, sorted(keys))

    # Waits and barriers, which are cancelled after some time.

    def outcome(self, row, done, seconds):
        """True: it was not cancelled."""
        if self.c.has_come(seconds):
            self.expect(STOP_WAITING)
            self.c.finish(row, done)
            return True
        row["cancel"] = now()
        self.c.send(modern.cancel_wait())
        first = self.c.take(1)
        if first == STOP_WAITING:
            self.expect(WAIT_CANCELED)
        elif first != WAIT_CANCELED:
            raise AssertionError("%r ends a wait" % first)
        if first == WAIT_CANCELED and self.c.relayed:
            # A relay cancels by itself while its store is away. That says nothing of what was asked
            # before, nor when a BARRIER is counted; the next answer does.
            row["out"] = "cancelled"
        else:
            self.c.finish(row, done if first == STOP_WAITING else "cancelled")
        return first == STOP_WAITING

    def expect(self, byte):
        got = self.c.take(1)
        if got != byte:
            raise AssertionError("%r came, not %r" % (got, byte))

    def patience(self):
        return self.rng.choice((0.001, 0.02, 0.1, 0.4))

    def wait(self):
        keys = self.some_keys()
        row = self.c.begin(self.g, "wait", keys, modern.wait(*names(*keys)))
        if not self.outcome(row, "done", self.patience()):
            return
        if "/q" in keys[0]:
            self.pop(keys[0])
        elif self.rng.random() < 0.5:
            self.get_key(keys[0])

    def barrier(self):
        key, world = self.key("b"), self.rng.choice((2, 3, 4, 6))
        row = self.c.begin(self.g, "barrier", [key, world],
                           modern.barrier(key.encode(), world))
        self.outcome(row, "done", self.patience())

    def begin_alone(self):
        """A request whose answer nobody waits for."""
        key = self.rng.choice(self.all_keys())
        if "/q" in key and self.rng.random() < 0.5:
            self.c.begin(self.g, "pop", [key], modern.pop(key.encode()))
        elif "/n" in key:
            self.c.begin(self.g, "add", [key, 7], modern.add(key.encode(), 7))
        else:
            self.c.begin(self.g, "wait", [key], modern.wait(key.encode()))

    # What must have no effect: a request that never became whole.

    def half(self):
        key, value = self.rng.choice(self.all_keys()), self.fresh()
        whole = modern.multi_set((key.encode(), value), (b"k", b"never there"))
        self.c.send(whole[:self.rng.randrange(1, len(whole))])


class Runner(threading.Thread):
    """Does something until it is told to stop; keeps what went wrong."""

    def __init__(self, run, name):
        super().__init__(daemon=True, name=name)
        self.run_ = run
        self.rng = random.Random("%s/%s" % (run.seed, name))
        self.trouble = None

    def run(self):
        try:
            self.work()
        except Exception as e:  # whatever it is, the run has failed
            self.trouble = "%s: %r" % (self.name, e)


class KeyClient(Runner):
    """One connection after the other. A name that ends in w: of the space of its own."""

    def work(self):
        run = self.run_
        while not run.stopping():
            try:
                c = Connection(run.history, run.port_of(self.group(), int(self.name[1:-1])),
                               run.relayed)
            except OSError:
                time.sleep(0.01)  # the daemon is away
                continue
            name = "%s%d" % (self.name, c.p)
            self.askers = {g: Asker(c, g, self.rng, name) for g in GROUPS + [WHOLE]}
            ours = None
            try:
                self.use(c)
            except Dropped:
                ours = now()
            except Ended:
                if run.relayed and c.port not in run.cluster.killed_relays:
                    raise AssertionError("a relay closed a connection of its client") from None
                c.end(None)
                time.sleep(0.3)  # a daemon whose disk fails closes whoever changes something
                continue
            c.end(ours)

    def use(self, c):
        run = self.run_
        c.settle()
        while not run.stopping():
            asker = self.askers[self.group()]
            if not run.relayed and self.rng.random() < 0.01:
                self.drop(c, asker)
            asker.ask()
            time.sleep(self.rng.random() * run.pause)
        c.settle()

    def group(self):
        return WHOLE if self.name[-1] == "w" else self.rng.choice(self.run_.groups)

    def drop(self, c, asker):
        """In the middle of something."""
        if self.rng.random() < 0.3:
            asker.half()
        else:
            while not c.open:
                asker.begin_alone()
        if self.rng.random() < 0.3:
            time.sleep(self.rng.random() * 0.1)
        if self.rng.random() < 0.5:  # a reset, not a FIN
            c.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise Dropped


class Filler(Runner):
    """Fills the journal, so that snapshots are made."""

    def work(self):
        run, value, n = self.run_, bytes(1 << 20), 0
        while not run.stopping() and n < 160:
            try:
                with socket.create_connection(("127.0.0.1", run.fill_port), PATIENCE) as s:
                    s.sendall(modern.validate())
                    while not run.stopping() and n < 160:
                        s.sendall(modern.set(b"fill/%d" % (n % 4), value) + modern.ping())
                        if len(s.recv(4)) == 0:
                            break
                        n += 1
            except OSError:
                pass
            time.sleep(0.01)


# --- etcd.

def ask_http(c, method, path, form):
    """(status, X-Etcd-Index, body)"""
    target, body, headers = "/v2/keys" + path, None, {"Host": "localhost"}
    if method in ("PUT", "POST"):
        body = urllib.parse.urlencode(form)
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    elif form:
        target += "?" + urllib.parse.urlencode(form)
    c.request(method, target, body=body, headers=headers)
    answer = c.getresponse()
    content = answer.read()
    index = answer.getheader("X-Etcd-Index")
    return answer.status, None if index is None else int(index), json.loads(content or b"{}")


class TreeClient(Runner):
    """Random requests to the keys below /e."""

    PLAN = (("set", 12), ("create", 8), ("update", 6), ("swap", 14), ("swap_delete", 6),
            ("delete", 8), ("in_order", 8), ("get", 14), ("listing", 6), ("ttl", 5),
            ("refresh", 4), ("delete_dir", 2))
    KEYS = ("/e/k0", "/e/k1", "/e/d/k2", "/e/d/k3")

    def work(self):
        run = self.run_
        ops, weights = zip(*self.PLAN)
        self.made, self.seen = 0, {}
        while not run.stopping():
            c = http.client.HTTPConnection("127.0.0.1", run.tree_port(int(self.name[1:])),
                                           timeout=PATIENCE)
            try:
                c.connect()
                c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:
                time.sleep(0.01)
                continue
            self.p = run.history.connection()
            try:
                while not run.stopping():
                    method, path, form = getattr(self, self.rng.choices(ops, weights)[0])()
                    self.ask(c, method, path, form)
                    time.sleep(self.rng.random() * run.pause)
            except (OSError, http.client.HTTPException, ValueError) as e:
                if isinstance(e, TimeoutError):
                    raise
            c.close()

    def ask(self, c, method, path, form):
        h = self.run_.history
        row = h.add("etcd", p=self.p, call=now(), ret=None, method=method, path=path, form=form,
                    status=None, index=None, body=None)
        try:
            status, index, body = ask_http(c, method, path, form)
        except (OSError, http.client.HTTPException, ValueError):
            row["lost"] = now()
            raise
        row.update(ret=now(), status=status, index=index, body=body)
        if "node" in body and "value" in body["node"]:
            self.seen[body["node"]["key"]] = body["node"]["value"], body["node"]["modifiedIndex"]
        if status >= 500:
            time.sleep(0.05)

    def fresh(self):
        self.made += 1
        return "%s-%d.%d" % (self.name, self.p, self.made)

    def key(self):
        return self.rng.choice(self.KEYS)

    def set(self):
        return "PUT", self.key(), {"value": self.fresh()}

    def create(self):
        return "PUT", self.key(), {"value": self.fresh(), "prevExist": "false"}

    def update(self):
        return "PUT", self.key(), {"value": self.fresh(), "prevExist": "true"}

    def known(self):
        return self.rng.choice([k for k in self.KEYS if k in self.seen] or self.KEYS)

    def conditions(self, key):
        value, index = self.seen.get(key, ("nothing", 1))
        kind = self.rng.randrange(3)
        form = {}
        if kind != 0:
            form["prevValue"] = value
        if kind != 1:
            form["prevIndex"] = str(index)
        return form

    def swap(self):
        key = self.known()
        return "PUT", key, dict(self.conditions(key), value=self.fresh())

    def swap_delete(self):
        key = self.known()
        return "DELETE", key, self.conditions(key)

    def delete(self):
        return "DELETE", self.key(), {}

    def delete_dir(self):
        return "DELETE", "/e/d", {"recursive": "true"}

    def in_order(self):
        return "POST", "/e/q", {"value": self.fresh()}

    def get(self):
        return "GET", self.key(), {}

    def listing(self):
        return "GET", "/e", {"recursive": "true", "sorted": "true"}

    def ttl(self):
        return "PUT", self.key(), {"value": self.fresh(), "ttl": self.rng.choice(("1", "2", "60"))}

    def refresh(self):
        return "PUT", self.key(), {"prevExist": "true", "refresh": "true", "ttl": "30"}


class Watcher(Runner):
    """Long polls, one after the other, each from behind the last event; the first from `since`. The
    watcher ends when it has seen the last event of the run."""

    def __init__(self, run, name, since):
        super().__init__(run, name)
        self.since = since

    def work(self):
        run, since = self.run_, self.since
        self.row = run.history.add("watch", path="/e", start=since, events=[], complete=False)
        while not run.ended.is_set():
            c = http.client.HTTPConnection("127.0.0.1", run.tree_port(0), timeout=PATIENCE)
            try:
                while not run.ended.is_set():
                    status, _, body = ask_http(c, "GET", "/e", {
                        "wait": "true", "recursive": "true", "waitIndex": str(since)})
                    if status >= 500:
                        break
                    if status != 200:
                        raise AssertionError("a watch from %d on: %d %r" % (since, status, body))
                    index = body["node"]["modifiedIndex"]
                    self.row["events"].append([index, now(), body])
                    if body["node"]["key"] == "/e/end":
                        self.row["complete"] = True
                        return
                    since = index + 1
            except (OSError, http.client.HTTPException, ValueError) as e:
                if isinstance(e, TimeoutError):
                    raise
            c.close()
            time.sleep(0.01)


class Streamer(Runner):
    """Streams of events; each begins at its opening."""

    def work(self):
        run = self.run_
        while not run.stopping():
            try:
                with socket.create_connection(("127.0.0.1", run.tree_port(1)), 0.2) as s:
                    self.stream(s)
            except (OSError, ValueError):
                pass
            time.sleep(0.01)

    def stream(self, s):
        run = self.run_
        s.sendall(b"GET /v2/keys/e?wait=true&stream=true&recursive=true HTTP/1.1\r\n"
                  b"Host: localhost\r\n\r\n")
        got, row, until = b"", None, now() + int(2e9 * self.rng.random())
        while not run.stopping() and now() < until:
            try:
                more = s.recv(65536)
            except TimeoutError:
                continue
            if not more:
                return
            when, got = now(), got + more
            if row is None:
                if b"\r\n\r\n" not in got:
                    continue
                head, got = got.split(b"\r\n\r\n", 1)
                if b" 200 " not in head.split(b"\r\n")[0]:
                    return
                index = [line for line in head.split(b"\r\n") if line.startswith(b"X-Etcd-Index:")]
                row = run.history.add("watch", path="/e", start=int(index[0].split(b":")[1]) + 1,
                                      events=[])
            while b"\n" in got:  # a chunk: its size, a line of JSON, an empty line
                line, got = got.split(b"\n", 1)
                if line.startswith(b"{"):
                    body = json.loads(line)
                    row["events"].append([body["node"]["modifiedIndex"], when, body])
