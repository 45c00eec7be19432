"""A daemon with so little address space (ulimit -v) that malloc() soon fails, and a client that fills it
with one kind of thing: rdzvd refuses the client's requests but lives, keeps all acknowledged changes, answers other
clients, and accepts changes again when memory is free.

    little_memory.py [NAME...]     all kinds of things, or the kinds whose name contains a NAME
"""

import os
import re
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", folder) for folder in ("support", "elastic")]
from c10d import NONCE, modern  # noqa: E402
import torch_state  # noqa: E402
from servers import Rdzvd, Server, rdzvd_binary  # noqa: E402

ROOM = (1500, 4000, 9000, 14000)  # KiB beyond what it begins with
MOST = 400  # batches of a client: more than fits into any of these
PATIENCE = 30


def put(path, body, kind="application/x-www-form-urlencoded"):
    return b"PUT %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (
        path, kind.encode(), len(body), body)


# How a thing is asked for, how many are asked for at a time, and what says how many there are.
KINDS = {
    "set": (lambda n: modern.set(b"key/%d" % n, b"v" * 200), 100, "rdzvd_space_keys"),
    "set_large": (lambda n: modern.set(b"key/%d" % n, b"v" * 70000), 5, "rdzvd_space_keys"),
    "add": (lambda n: modern.add(b"key/%d" % n, 1), 500, "rdzvd_space_keys"),
    "push": (lambda n: modern.push(b"queue/%d" % n, b"v" * 200), 100, "rdzvd_space_queues"),
    "push_one": (lambda n: modern.push(b"queue", b"v" * 200), 100, None),
    "runs": (lambda n: modern.set(b"/torch.rendezvous.%d" % n, torch_state.SENTINEL), 100,
             "rdzvd_space_keys"),
    "put": (lambda n: put(b"/v2/keys/d/%d" % n, b"value=" + b"v" * 200), 50, None),
    "put_large": (lambda n: put(b"/v2/keys/d/%d" % n, b"value=" + b"v" * 70000), 5, None),
    "ttl": (lambda n: put(b"/v2/keys/d/%d" % n, b"value=v&ttl=1000"), 100, None),
    "deep": (lambda n: put(b"/v2/keys/%d" % n + b"/d" * 100, b"value=v"), 10, None),
}


def statuses(got):
    """Of the whole answers that have come."""
    out, at = [], 0
    while True:
        end = got.find(b"\r\n\r\n", at)
        length = re.search(rb"Content-Length: (\d+)", got[at:end]) if end >= 0 else None
        if length is None or len(got) < end + 4 + int(length.group(1)):
            return out
        out.append(int(got[at + 9:at + 12]))
        at = end + 4 + int(length.group(1))


class Client:
    """c10d or HTTP, with all answers read."""

    def __init__(self, port, c10d):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.got = b""
        self.c10d = c10d
        if c10d:
            self.socket.sendall(modern.hello())
            self.until(lambda got: got == NONCE)

    def until(self, done):
        self.got = b""
        while not done(self.got):
            more = self.socket.recv(1 << 20)
            if not more:
                raise ConnectionError("the daemon closed the connection")
            self.got += more
        return self.got

    def ask(self, path, method=b"GET"):
        """(status, body)"""
        self.socket.sendall(b"%b %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % (method, path))
        got = self.until(statuses)
        return int(got.split()[1]), got.partition(b"\r\n\r\n")[2]

    def batch(self, requests):
        """How many of them were acknowledged."""
        self.socket.sendall(b"".join(requests))
        if self.c10d:
            self.socket.sendall(b"\x0dpong")
            self.until(lambda got: got.endswith(b"pong"))
            return len(requests)
        self.until(lambda got: len(statuses(got)) == len(requests))
        return sum(200 <= status < 300 for status in statuses(self.got))


def check(truth, what):
    if not truth:
        raise AssertionError(what)


def virtual_size():
    with Rdzvd() as server, open("/proc/%d/status" % server.pid, encoding="ascii") as f:
        return int(re.search(r"VmSize:\s+(\d+)", f.read()).group(1))


def fill(client, make, count):
    """(acknowledged, asked for, was it refused)"""
    done = 0
    for n in range(MOST):
        try:
            got = client.batch([make(i) for i in range(n * count, (n + 1) * count)])
        except (ConnectionError, BrokenPipeError):
            return done, (n + 1) * count, True
        done += got
        if got < count:
            return done, (n + 1) * count, True
    return done, MOST * count, False


def free(server, port, kind, watcher):
    """Those who filled it take it back; there is room again."""
    if kind in ("put", "put_large", "ttl"):
        # Where malloc() has nothing at all, this may be refused like other changes.
        status, body = watcher.ask(b"/v2/keys/d?recursive=true", b"DELETE")
        check(status == 200 or b"--memory-limit" in body, "a DELETE came to %d" % status)
        if status != 200:
            return
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            client = Client(port, False)
            status, _ = client.ask(b"/health")
            client.socket.close()
            check(status == 200, "/health came to %d" % status)
            return
        except ConnectionError:
            check(server.process.poll() is None and time.monotonic() < deadline,
                  "no new connection is answered")
            time.sleep(0.1)


def try_one(kind, limit):
    make, count, metric = KINDS[kind]
    argv = ["sh", "-c", 'ulimit -v %d; exec "$0" "$@"' % limit, rdzvd_binary(), "--listen",
            "127.0.0.1:0"]
    with Server(argv) as server:
        port = int(server.wait_log(r"event=listening address=\S+:(\d+)")[0].group(1))
        client, watcher = Client(port, kind in KINDS_OF_C10D), Client(port, False)
        try:
            done, asked, refused = fill(client, make, count)
            check(server.process.poll() is None, "the daemon ended with %s" % server.process.poll())
            check(watcher.ask(b"/health")[0] == 200, "/health of somebody who was connected")
            if metric:
                status, body = watcher.ask(b"/metrics")
                check(status == 200, "/metrics came to %d" % status)
                have = int(re.search(rb"%b\{\S+ (\d+)" % metric.encode(), body).group(1))
                check(done <= have <= asked, "%d of %d were acknowledged, and %d are there" % (
                    done, asked, have))
            client.socket.close()
            free(server, port, kind, watcher)
        except ConnectionError as e:
            raise AssertionError("somebody who was connected: %s; the log ends:\n%s" % (
                e, server.log()[-1000:])) from None
        except (AssertionError, OSError) as e:
            raise AssertionError("%s; exit code %s; the log ends:\n%s" % (
                e, server.process.poll(), server.log()[-1000:])) from None
        watcher.socket.close()
        code = server.stop()
        check(code == 0, "exit code %d" % code)
        return done, refused


KINDS_OF_C10D = ("set", "set_large", "add", "push", "push_one", "runs")


def main():
    with open(rdzvd_binary(), "rb") as f:
        if b"__asan_init" in f.read():
            print("0 passed, 0 failed, 1 skipped: sanitizers need terabytes of address space")
            return 0
    words, passed, failed = sys.argv[1:], 0, 0
    least = virtual_size()
    for kind in KINDS:
        if words and not any(word in kind for word in words):
            continue
        told = []
        for room in ROOM:
            try:
                done, refused = try_one(kind, least + room)
                told.append("%d%s" % (done, "" if refused else " (all)"))
                passed += 1
            except (AssertionError, subprocess.SubprocessError) as e:
                failed += 1
                print("FAIL %s with %d KiB: %s (again: python3 tests/process/little_memory.py %s)" % (
                    kind, least + room, e, kind), flush=True)
        print("  %-10s %s" % (kind, ", ".join(told)), flush=True)
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
