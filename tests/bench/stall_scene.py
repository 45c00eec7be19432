"""A daemon, its clients and the probe beside them: what the cases of stall.py share."""

import os
import socket
import sys
import threading
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", where) for where in ("support", "elastic", "wire")]
from c10d import Peer, modern  # noqa: E402
import servers               # noqa: E402
from iterations import Iterations  # noqa: E402


MIB = 1 << 20
PROBED_LEAST = 2  # seconds: a percentile needs some ADDs
FALLS_BACK = 15   # seconds that the memory is given when all have gone
RUN = b"/torch.rendezvous."
CASES = {}
SMALL_MEMORY = "--memory-limit=256MiB"
KEYS_MAX = 131072    # of one request
RUN_KEYS_MAX = 4096  # the same of keys of runs


def case(*flags):
    """A generator that makes a state, yields a description of its requests, sends them, and returns after the last
    answer. It may yield once more and then delete its state, to show whether rdzvd frees the memory. `flags` are for
    its daemon."""
    def add(function):
        CASES[function.__name__.replace("_", "-")] = (function, flags)
        return function
    return add


# --- The scene. ---

class Scene:
    """A daemon, how large the case is to be, and the peers of the case."""

    def __init__(self, flags, options):
        if options.memory_limit:
            flags += ("--memory-limit=" + options.memory_limit,)
        # The probe has a space of its own, so that a case may empty the other one.
        self.iterations = Iterations()
        self.daemon = servers.Rdzvd(servers.token_flag(), *flags, env=self.iterations.environment(),
                                    listen=("127.0.0.1:0", "127.0.0.1:0/probe"))
        self.port, self.probed = self.daemon.ports
        self.options = options
        self.peers = []

    def of(self, count):
        """That many at full scale."""
        return max(1, int(count * self.options.scale))

    def peer(self):
        peer = Peer(self.port)
        peer.socket.settimeout(self.options.patience)
        self.peers.append(peer)
        return peer

    def http(self):
        peer = socket.create_connection(("127.0.0.1", self.port), timeout=self.options.patience)
        self.peers.append(peer)
        return peer

    def ask(self, method, path, body=None, type_="application/json"):
        request = urllib.request.Request(self.daemon.url + path, data=body, method=method,
                                         headers={"Content-Type": type_})
        if path.startswith("/rdzv/"):
            request.headers.update(servers.OPERATOR)
        with urllib.request.urlopen(request, timeout=600) as answer:
            return answer.read()

    def held(self):
        """MiB that the daemon counts for somebody: its account."""
        text = self.ask("GET", "/metrics").decode()
        return sum(float(line.split()[1]) for line in text.splitlines()
                   if line.startswith("rdzvd_memory_bytes{")) / MIB

    def close_peers(self):
        for peer in self.peers:
            peer.close()
        self.peers = []

    def cpu(self):
        with open("/proc/%d/stat" % self.daemon.pid, encoding="ascii") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, name):
        with open("/proc/%d/status" % self.daemon.pid, encoding="ascii") as f:
            for line in f:
                if line.startswith(name):
                    return int(line.split()[1]) / 1024
        return 0


def send_all(sock, data):
    """Sends all data while reading answers, then reads to the end. Returns the number of bytes read."""
    def send():
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the daemon has ended it; the reader sees that too

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    got = 0
    while True:
        more = sock.recv(1 << 20)
        if not more:
            return got
        got += len(more)


def read_to(sock, last):
    """What comes, up to these bytes."""
    got = b""
    while last not in got:
        more = sock.recv(1 << 20)
        if not more:
            raise ConnectionError("the daemon has closed the connection")
        got = got[-len(last):] + more


def multi_set(peer, pairs, most=100000):
    """In requests of some MB, of `most` keys, so that none is over a limit."""
    pairs, size, batch = iter(pairs), 0, []
    for key, value in pairs:
        batch.append((key, value))
        size += len(key) + len(value)
        if size > 4 * MIB or len(batch) == most:
            peer.send(modern.multi_set(*batch))
            size, batch = 0, []
    peer.send(modern.multi_set(*batch))
    peer.ping()


def http_request(method, path, body=b"", headers=""):
    return ("%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n" % (
        method, path, headers, "Content-Length: %d\r\n" % len(body) if body else "")
    ).encode() + body
