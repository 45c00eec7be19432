"""Another process that sends an ADD each millisecond, on time whether the last one has been answered or
not, and says for how long each of them waited.

A wait may be the machine's doing: on a busy one, processes wait for a core. The kernel counts for each
process how long it ran and how long it stood in line for a core. The time that daemon and probe stood in line is not
the daemon's fault; of the rest, only as much counts as the daemon ran. Where it is allowed (to root), both get a core
before all others, so that they hardly stand in line. A virtual machine may stand still, and count that as time that it
ran: but then the probe, which should wake every millisecond, sleeps.

    with Probe(port, daemon's pid) as probe: …; waits = probe.end()
"""

import gc
import json
import os
import select
import socket
import subprocess
import sys
import time

from c10d import NONCE, modern, read_number

PERIOD = 0.001
ADD = modern.add(b"probe/count", 1)

GAP = 0.004
FIRST = -15  # a priority, beside 0 of all others


def put_first(pid):
    try:
        os.setpriority(os.PRIO_PROCESS, pid, FIRST)
    except OSError:
        pass  # it stands in line as all others do


class Line:
    """For how long a process has stood in line for a core since it began, in seconds."""

    def __init__(self, pid):
        try:
            self.file = os.open("/proc/%d/schedstat" % pid, os.O_RDONLY)
        except OSError:
            self.file = None

    def times(self):
        """(for how long it ran, for how long it stood in line)"""
        if self.file is None:
            return 0, 0
        try:
            ran, stood, _ = os.pread(self.file, 100, 0).split()
        except OSError:
            return 0, 0
        return int(ran) / 1e9, int(stood) / 1e9

    def stood(self):
        return self.times()[1]


class Asker:
    """The connection, its pending ADDs, and the results of the finished ADDs."""

    def __init__(self, port, pid):
        self.port = port
        self.daemon, self.own = Line(pid), Line(os.getpid())
        self.waits = []  # [when it was due, how long it waited, how much of that for a core, how long
                         # the daemon ran meanwhile]
        self.closed = []  # when the daemon ended the connection, and our name then
        self.wrong = []
        self.gaps = []    # [from when to when it did not wake]
        self.last = 0
        self.connect()

    def connect(self):
        """Comes again when the daemon has ended the connection: what was asked may have been done."""
        self.sent, self.left, self.known = [], b"", False
        self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.name = "%s:%d" % self.socket.getsockname()
        self.socket.sendall(modern.hello())
        if self.socket.recv(4, socket.MSG_WAITALL) != NONCE:
            raise ConnectionError("no answer to the first PING")
        self.socket.setblocking(False)
        self.woke = time.monotonic()  # that wait was the daemon's

    def reconnect(self):
        self.closed.append([time.monotonic(), self.name])
        deadline = time.monotonic() + 60
        while True:
            self.socket.close()
            try:
                return self.connect()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def wake(self, now):
        if now - self.woke > GAP:
            self.gaps.append((self.woke, now))
        self.woke = now

    def asleep(self, began, ended):
        """How long of that."""
        return sum(max(0, min(ended, until) - max(began, since)) for since, until in self.gaps[-20:])

    def ask(self, due, own):
        try:
            self.socket.send(ADD)
        except OSError:
            return self.reconnect()
        self.sent.append((due, self.daemon.times(), own))

    def read(self):
        try:
            got = self.socket.recv(1 << 16)
        except BlockingIOError:
            return None
        except OSError:
            got = b""
        if not got:
            return self.reconnect()
        self.left += got
        now, (ran, daemon), own = time.monotonic(), self.daemon.times(), self.own.stood()
        count = len(self.left) // 8
        for i, (due, (ran_then, daemon_then), own_then) in enumerate(self.sent[:count]):
            number = read_number(self.left[8 * i:8 * i + 8])
            core = max(daemon - daemon_then, own - own_then, self.asleep(due, now))  # at the same time, perhaps
            self.waits.append((due, now - due, core, ran - ran_then))
            if number != self.last + 1 if self.known else number <= self.last:
                self.wrong.append("%d came behind %d" % (number, self.last))
            self.last, self.known = number, True
        self.left = self.left[8 * count:]
        del self.sent[:count]


def ask_until_stdin_ends(port, pid):
    asker = Asker(port, pid)
    gc.disable()  # it would be a wait of ours
    print("ready", flush=True)
    due, ended, patience = time.monotonic(), False, None
    while not ended or asker.sent:
        own, now = asker.own.stood(), time.monotonic()
        asker.wake(now)
        if not ended and now >= due:
            asker.ask(due, own)
            due += PERIOD
            continue
        if ended and now > patience:
            asker.wrong.append("no answer in 60 s")
            break
        watched = [asker.socket] if ended else [asker.socket, sys.stdin]
        for ready in select.select(watched, [], [], 1 if ended else due - now)[0]:
            if ready is sys.stdin:
                ended, patience = True, now + 60
            else:
                asker.read()
    print(json.dumps({"waits": asker.waits, "closed": asker.closed, "wrong": asker.wrong}),
          flush=True)


class Waits:
    """What a probe saw. Times in which the daemon was stopped on purpose do not count."""

    def __init__(self, found, pauses=()):
        self.closed, self.wrong = found["closed"], found["wrong"]
        all_of, own = [], []
        for due, wait, core, ran in found["waits"]:
            for began, ended in pauses:
                wait -= max(0, min(due + wait, ended) - max(due, began))
            all_of.append(wait)
            own.append(max(0, min(wait - core, ran)))
        self.count = len(all_of)
        self.longest, self.p999 = self.most(all_of)
        self.longest_own, self.p999_own = self.most(own)

    @staticmethod
    def most(waits):
        waits.sort()
        if not waits:
            return float("inf"), float("inf")
        return waits[-1], waits[int(len(waits) * 0.999)]

    def text(self):
        return "longest %.1f ms, p99.9 %.1f ms (by the daemon: %.1f, %.1f)" % tuple(
            1000 * s for s in (self.longest, self.p999, self.longest_own, self.p999_own))


class Probe:
    """The process. `pid` is the daemon's."""

    def __init__(self, port, pid):
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), str(port), str(pid)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise AssertionError("the probe did not begin: exit code %s" % self.process.wait())
        for first in (pid, self.process.pid):
            put_first(first)

    def end(self, pauses=()):
        out = self.process.communicate()[0]
        return Waits(json.loads(out) if out else
                     {"waits": [], "closed": [], "wrong": ["the probe ended"]}, pauses)

    def __enter__(self):
        return self

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def __exit__(self, *_):
        self.close()


if __name__ == "__main__":
    ask_until_stdin_ends(int(sys.argv[1]), int(sys.argv[2]))
