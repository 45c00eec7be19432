"""Many connections in one process, each driven by a script: a generator that sends, and yields what it
waits for. Knows nothing of what is sent; what arrives is counted, and kept only where a script asks.
"""

import collections
import errno
import heapq
import select
import socket
import struct
import time

SENT, GOT, PAUSE = range(3)  # what a script waits for
SCRATCH = bytearray(1 << 18)
SLOW_READ, SLOW_PERIOD = 4096, 0.02


class Line:
    """A connection. `reading`: how it reads, "all", "slow" or "never"."""

    def __init__(self, swarm, address, reading, receive_buffer=None):
        self.swarm = swarm
        self.out = collections.deque()
        self.got = 0
        self.kept = None  # a bytearray: what has come
        self.ended = False
        self.reading = reading
        self.mask = 0
        self.script = None
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.setblocking(False)
        error = self.socket.connect_ex(address)
        if error in (0, errno.EINPROGRESS):
            if family == socket.AF_INET:
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            swarm.add(self)
        else:
            self.ended = True
            self.socket.close()

    def send(self, *parts):
        self.out.extend(memoryview(part) for part in parts if len(part))
        self.flush()

    def flush(self):
        while self.out and not self.ended:
            try:
                sent = self.socket.send(self.out[0])
            except BlockingIOError:
                break
            except OSError as e:
                if e.errno == errno.ENOTCONN:  # not yet
                    break
                self.end()
                break
            if sent == len(self.out[0]):
                self.out.popleft()
            else:
                self.out[0] = self.out[0][sent:]
        self.watch()

    def receive(self, most):
        """What is there, up to `most` bytes."""
        try:
            count = self.socket.recv_into(SCRATCH, min(most, len(SCRATCH)))
        except BlockingIOError:
            return
        except OSError:
            self.end()
            return
        if count == 0:
            self.end()
            return
        self.got += count
        if self.kept is not None:
            self.kept += SCRATCH[:count]

    def watch(self):
        if self.ended:
            return
        mask = (select.EPOLLIN if self.reading == "all" else 0) | (select.EPOLLOUT if self.out else 0)
        if mask != self.mask:
            self.swarm.poll.modify(self.socket.fileno(), mask)
            self.mask = mask

    def read_as(self, reading):
        self.reading = reading
        self.swarm.slow.discard(self)
        if reading == "slow" and not self.ended:
            self.swarm.slow.add(self)
        self.watch()

    def half_close(self):
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def end(self, reset=False):
        if self.ended:
            return
        self.ended = True
        self.out.clear()
        self.swarm.remove(self)
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class Script:
    """A generator and what it waits for."""

    def __init__(self, generator):
        self.generator = generator
        self.kind, self.line, self.count, self.due = PAUSE, None, 0, 0

    def may_go_on(self, now):
        if now >= self.due:
            return True
        if self.kind == PAUSE:
            return False
        if self.line.ended:
            return True
        return not self.line.out if self.kind == SENT else self.line.got >= self.count


class Swarm:
    def __init__(self):
        self.poll = select.epoll()
        self.lines = {}
        self.slow = set()
        self.scripts = []
        self.timers = []
        self.ticks = 0
        self.opened = 0

    def add(self, line):
        self.lines[line.socket.fileno()] = line
        line.mask = select.EPOLLIN if line.reading == "all" else 0
        self.poll.register(line.socket.fileno(), line.mask)
        self.opened += 1
        if line.reading == "slow":
            self.slow.add(line)

    def remove(self, line):
        del self.lines[line.socket.fileno()]
        self.slow.discard(line)
        self.poll.unregister(line.socket.fileno())

    def begin(self, generator):
        """The generator yields (SENT, line, patience), (GOT, line, count, patience), where count is of
        all bytes since the line began, and (PAUSE, seconds)."""
        self.advance(Script(generator))

    def advance(self, script):
        """Runs the script up to its next wait."""
        now = time.monotonic()
        while True:
            try:
                kind, *rest = next(script.generator)
            except StopIteration:
                return
            script.kind, script.line = kind, None if kind == PAUSE else rest[0]
            script.count = rest[1] if kind == GOT else 0
            script.due = now + rest[-1]
            if script.line is not None:
                script.line.script = script
            if not script.may_go_on(now):
                break
        self.ticks += 1
        heapq.heappush(self.timers, (script.due, self.ticks, script))

    def wake(self, script):
        if script is not None and script.due < float("inf") and script.may_go_on(time.monotonic()):
            script.due = float("inf")  # its timer, which stays in the heap, is void
            fresh = Script(script.generator)
            self.advance(fresh)

    def serve(self, line, events):
        script = line.script
        if events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
            if line.reading == "all" or events & (select.EPOLLHUP | select.EPOLLERR):
                line.receive(len(SCRATCH))
        if not line.ended and events & select.EPOLLOUT:
            line.flush()
        self.wake(script)

    def run(self, until):
        """All scripts go on until that time."""
        slow_due = time.monotonic()
        while True:
            now = time.monotonic()
            if now >= until:
                return
            while self.timers and self.timers[0][0] <= now:
                due, _, script = heapq.heappop(self.timers)
                if script.due == due:
                    self.wake(script)
            if now >= slow_due:
                slow_due = now + SLOW_PERIOD
                for line in list(self.slow):
                    line.receive(SLOW_READ)
                    self.wake(line.script)
            next_due = min(until, slow_due, self.timers[0][0] if self.timers else until)
            for fd, events in self.poll.poll(max(0, next_due - time.monotonic()), 256):
                line = self.lines.get(fd)
                if line is not None:
                    self.serve(line, events)

    def close(self):
        for line in list(self.lines.values()):
            line.end()
        self.poll.close()
