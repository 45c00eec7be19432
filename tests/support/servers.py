"""Starts and stops the servers that tests talk to: rdzvd and, as its peer, a real etcd.

Every server gets a port of its own that the kernel chose, runs in a process of its own, and is
ended by its own pid. Nothing here knows what a test sends. Python's standard library only.
"""

import fcntl
import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def rdzvd_binary():
    """The daemon under test: $RDZVD, else the one in build/."""
    return os.environ.get("RDZVD", os.path.join(ROOT, "build", "rdzv", "rdzvd"))


def bench_binary():
    """rdzv-bench of the same build."""
    return os.path.join(os.path.dirname(rdzvd_binary()), "..", "tests", "bench", "rdzv-bench")


def etcd_binary():
    """The etcd below replicas: $ETCD, which is a path or `trixie` or `forky`, whose etcd
    support/install.sh puts into the cache; else this machine's own."""
    wanted = os.environ.get("ETCD", "etcd")
    if wanted not in ("trixie", "forky"):
        return wanted
    cache = os.environ.get("RDZV_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "rdzv")
    return os.path.join(cache, "etcd-" + wanted, "etcd")


OPERATOR = {"Authorization": "Bearer operator-of-tests"}


def token_flag():
    """The flag that makes an operator of whoever sends the headers in OPERATOR."""
    return "--admin-token-file=" + os.path.join(ROOT, "tests", "support", "operator.token")


class Ports:
    """Ports for servers that cannot be told port 0, or that come back at the port they had.

    A port is free, and reserved until this process ends: to reserve it, a test locks one byte of a file that all tests
    of this user share, and the kernel releases the locks of a dead process. The ports lie below the range that the
    kernel assigns to connections and to listeners on port 0."""

    FIRST = 10000

    def __init__(self):
        self.lock, self.mine, self.file = threading.Lock(), set(), None
        self.tries = itertools.count(os.getpid())
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
            self.end = max(int(f.read().split()[0]), 2 * self.FIRST)

    def claim(self, ports):
        if not self.mine.isdisjoint(ports):
            return False
        try:
            fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB, len(ports), ports[0])
            for port in ports:
                with socket.socket() as s:
                    s.bind(("", port))
        except OSError:  # another test or another server has one of them
            return False
        self.mine.update(ports)
        return True

    def take(self, count):
        with self.lock:
            if self.file is None:
                path = os.path.join(tempfile.gettempdir(), "rdzv-test-ports-%d" % os.getuid())
                self.file = open(path, "ab")
            while True:
                first = self.FIRST + next(self.tries) * 251 % (self.end - self.FIRST - count)
                if self.claim(range(first, first + count)):
                    return first


_ports = Ports()


def free_ports(count):
    """The first of `count` ports in a row."""
    return _ports.take(count)


def free_port():
    return free_ports(1)


class Server:
    """A child process with its stderr kept line by line."""

    def __init__(self, argv, env=None, cwd=None, executable=None, pass_fds=()):
        self.lines = []
        self._grew = threading.Condition()
        self.process = subprocess.Popen(
            argv, executable=executable, env=env, cwd=cwd, pass_fds=pass_fds,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self):
        return self.process.pid

    def _read(self):
        for line in self.process.stderr:
            with self._grew:
                self.lines.append(line.rstrip("\n"))
                self._grew.notify_all()
        with self._grew:
            self._grew.notify_all()

    def log(self):
        with self._grew:
            return "\n".join(self.lines)

    def wait_log(self, pattern, timeout=30, count=1, since=0):
        """The first `count` matches of `pattern` in the log after its first `since` lines, as match objects;
        waits for them."""
        deadline = time.monotonic() + timeout
        with self._grew:
            while True:
                found = [m for m in (re.search(pattern, line) for line in self.lines[since:]) if m]
                if len(found) >= count:
                    return found[:count]
                left = deadline - time.monotonic()
                if left <= 0 or not self._reader.is_alive():
                    raise AssertionError("no %r in the log of pid %d (exit code %s):\n%s" % (
                        pattern, self.pid, self.process.poll(), "\n".join(self.lines)))
                self._grew.wait(min(left, 0.5))

    def stop(self, sig=signal.SIGTERM, timeout=20):
        """Sends `sig` and returns the exit code (negative: the signal that ended it)."""
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("pid %d ignored signal %d for %d s" % (self.pid, sig, timeout))
        self._reader.join(timeout)
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop()


class Rdzvd(Server):
    """rdzvd on loopback ports of the kernel's choice. `port` is the first listener's. `binary`:
    another one than that under test."""

    def __init__(self, *args, listen=("127.0.0.1:0",), wrapper=(), binary=None, **kwargs):
        argv = list(wrapper) + [binary or rdzvd_binary()]
        for address in listen:
            argv += ["--listen", address]
        super().__init__(argv + list(args), **kwargs)
        found = self.wait_log(r"event=listening address=(\S+):(\d+)", timeout=300 if wrapper else 60,
                              count=max(1, len(listen)))
        self.ports = [int(m.group(2)) for m in found]
        self.port = self.ports[0]
        self.url = "http://127.0.0.1:%d" % self.port


class Etcd(Server):
    """The real thing, one node, v2 API on, its data in a directory that goes with it."""

    def __init__(self, *args):
        self.dir = tempfile.mkdtemp(prefix="rdzv-etcd-")
        self.port, peer = free_port(), free_port()
        self.url = "http://127.0.0.1:%d" % self.port
        super().__init__([
            "etcd", "--enable-v2", "--data-dir", self.dir,
            "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
            "--listen-peer-urls", "http://127.0.0.1:%d" % peer, *args])
        self.wait_log("ready to serve client requests", timeout=60)

    def __exit__(self, *exc):
        super().__exit__(*exc)
        shutil.rmtree(self.dir, ignore_errors=True)
