"""Agents and workers send random requests to a daemon that must neither crash nor leak: here runs,
agents, workers' keys and ports end in every order.

    fuzz.py [--steps N] [--seed N]

A seed chooses the requests; when the daemon reads them depends on the machine.
"""

import argparse
import collections
import http.client
import os
import random
import re
import select
import socket
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import torch_state as ts  # noqa: E402
from agents import PREFIX  # noqa: E402
from c10d import modern, read_number  # noqa: E402
from servers import OPERATOR, Rdzvd, free_ports, token_flag  # noqa: E402

RUNS = [b"j", b"k", b"j.0/x", b""]
NAMES = ["a", "b", "c", "d", "n" * 300]
CONNECTIONS = 24
DAEMON_STEPS = 5000  # of one daemon


class Client:
    """Never blocks: reads the bytes that have arrived, and drops the bytes that the socket does not take."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.socket.setblocking(False)
        self.got = bytearray()
        self.unsent = b""
        self.key = None

    def send(self, data):
        self.unsent += data
        try:
            self.unsent = self.unsent[self.socket.send(self.unsent):]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return len(self.unsent) < 1 << 20

    def receive(self):
        """False: the other side is gone."""
        try:
            while True:
                more = self.socket.recv(1 << 16)
                if not more:
                    return False
                self.got = (self.got + more)[-1 << 16:]
        except BlockingIOError:
            return True
        except OSError:
            return False

    def last_state(self):
        """The last value that looks like a state, among what has come."""
        at = self.got.rfind(b"gAS")
        if at < 8:
            return None
        size = read_number(self.got[at - 8:at])
        value = bytes(self.got[at:at + size])
        return value if len(value) == size else None

    def close(self, hard):
        if hard:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class Fuzz:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.values = [ts.SENTINEL]
        self.said = 0
        self.events = collections.Counter()

    def flags(self):
        rng = self.rng
        flags = ["--closed-run-ttl", rng.choice(["1ms", "300ms", "1h"]), "--closed-run-wait",
                 rng.choice(["off", "300ms", "1h"]), "--log-level", "debug",
                 "--idle-run-ttl", rng.choice(["off", "100ms", "1s", "1h"]),
                 "--close-needs-all", rng.choice(["on", "off"]),
                 "--restart-on-loss", rng.choice(["silent", "closed", "off"]),
                 "--silent-node-timeout", rng.choice(["off", "6s", "20s"]),
                 "--regroup-wait", rng.choice(["off", "2s"]),
                 "--expect", rng.choice(["off", "1", "3"])]
        off = [n for n in ("drop-disconnected", "end-last-call", "close-from-members") if rng.random() < 1 / 3]
        if off:
            flags += ["--disable", ",".join(off)]
        if rng.random() < 0.4:
            count = 1 + rng.randrange(20)
            low = free_ports(count)
            flags += ["--worker-ports", "%d-%d" % (low, low + count - 1)]
        if rng.random() < 0.3:
            flags += ["--advertise", "somewhere.example:1"]
        if rng.random() < 0.15:
            flags += ["--space-limit", str(rng.choice([4000, 30000]))]
        if rng.random() < 0.2:
            flags += ["--space-idle-timeout", "200ms"]
        return flags

    def node(self):
        return ts.Node(self.rng.choice(NAMES), self.rng.choice([1, 2]), 0)

    def state(self, base):
        try:
            return self.change(ts.loads(base))
        except Exception:  # no state, or one with a byte that is none of torch's
            return self.change(ts.State())

    def change(self, state):
        rng = self.rng
        for _ in range(rng.choice([0, 1, 1, 1, 2, 4])):
            node, what = self.node(), rng.randrange(14)
            if what < 4:
                state.participants[node] = rng.randrange(3)
                state.last_heartbeats[node] = ts.now()
            elif what < 6:
                state.last_heartbeats[node] = ts.now()
            elif what == 6:
                state.wait_list.add(node)
            elif what == 7:
                state.redundancy_list.add(node)
            elif what == 8:
                state.participants.pop(node, None)
                state.last_heartbeats.pop(node, None)
            elif what == 9:
                state.wait_list.clear()
            elif what == 10:
                state.complete = True
                for rank, n in enumerate(sorted(state.participants)):
                    state.participants[n] = rank
            elif what == 11:
                state.complete, state.round = False, state.round + 1
                state.participants = {}
            elif what == 12:
                state.closed = rng.random() < 0.5
            else:
                state.deadline = rng.choice([None, ts.now()])
        return ts.dumps(state, rng.choice([4, 4, 5]))

    def wait(self, *keys):
        """A WAIT, mostly behind a CANCEL_WAIT, since a second WAIT is not allowed."""
        return (modern.cancel_wait() if self.rng.random() < 0.98 else b"") + modern.wait(*keys)

    def round_of(self, value):
        """A round, mostly the current one."""
        try:
            return ts.loads(value).round + self.rng.choice([0, 0, 0, 1])
        except Exception:
            return self.rng.randrange(3)

    def garbage(self, value):
        rng, b = self.rng, bytearray(value)
        what = rng.randrange(4)
        if what == 0 or not b:
            return bytes(rng.randrange(256) for _ in range(rng.randrange(40)))
        if what == 1:
            b[rng.randrange(len(b))] = rng.randrange(256)
        elif what == 2:
            del b[rng.randrange(len(b)):]
        else:
            return rng.choice([b"non_base64", b"", ts.SENTINEL, b"12"])
        return bytes(b)

    def value(self, base):
        value = self.state(base)
        if self.rng.random() < 0.03:
            value = self.garbage(value)
        self.values = self.values[-30:] + [value]
        return value

    def agent_request(self, c, store_port):
        rng, key = self.rng, c.key
        if rng.random() < 0.05:
            key = PREFIX + rng.choice(RUNS)
        known = c.last_state() or rng.choice(self.values)
        what = rng.randrange(24)
        if 20 <= what < 23:  # an agent of today's torch, doing what it should
            return modern.get(key) if rng.random() < 0.4 else \
                modern.compare_set(key, known, self.value(known))
        if what < 9:
            expected = rng.choice([known, known, known, rng.choice(self.values), b""])
            return modern.compare_set(key, expected, self.value(expected))
        if what < 12:
            return modern.get(key)
        if what == 12:
            return modern.set(key, self.value(known))
        if what < 17 or what == 23:
            where = b"%s.%d/MASTER_" % (key, self.round_of(known))
            port = rng.choice([store_port, store_port, 1, 99999])
            return rng.choice([modern.set(where + b"ADDR", b"agent-0") +
                               modern.set(where + b"PORT", b"%d" % port),
                               self.wait(where + b"ADDR", where + b"PORT"),
                               modern.get(where + b"PORT")])
        if what == 17:
            return modern.delete(key)
        if what == 18:
            return modern.multi_set((key, self.value(known)))
        return modern.cancel_wait() + modern.ping() + modern.count()

    def worker_request(self):
        rng = self.rng
        key = b"/w%d" % rng.randrange(6)
        return rng.choice([modern.set(key, b"v" * rng.randrange(300)), modern.get(key),
                           self.wait(key), self.wait(key, b"/never"),
                           modern.add(b"/n", 1), modern.count(), modern.cancel_wait(),
                           modern.delete(key)])

    def one_daemon(self, steps, listening):
        rng = self.rng
        flags = self.flags()
        spaces = ("127.0.0.1:0", "127.0.0.1:0/other")
        with Rdzvd(token_flag(), *flags, listen=spaces) as server:
            clients, ports = [], list(server.ports)
            for _ in range(steps):
                if server.process.poll() is not None:
                    break
                self.said += 1
                what = rng.random()
                if len(clients) < 4 or (what < 0.08 and len(clients) < CONNECTIONS):
                    try:
                        c = Client(rng.choice(ports + server.ports))
                    except OSError:
                        continue
                    c.send(modern.validate() + (modern.ping() if rng.random() < 0.8 else b""))
                    if rng.random() < 0.7:
                        c.key = PREFIX + rng.choice(RUNS)
                        c.send(modern.compare_set(c.key, b"", ts.SENTINEL))
                    clients.append(c)
                    continue
                c = rng.choice(clients)
                alive = c.receive()
                if not alive or what > 0.975:
                    c.close(rng.random() < 0.5)
                    clients.remove(c)
                elif 0.08 <= what < 0.084:
                    try:
                        h = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
                        path = "/rdzv/v1/spaces/" + rng.choice(["default", "other"])
                        h.request(*rng.choice([
                            ("DELETE", path), ("GET", path + "/status"),
                            ("DELETE", path + "/runs/" + rng.choice(["j", "k", "j.0%2Fx"]))]),
                            headers=OPERATOR)
                        h.getresponse().read()
                        h.close()
                    except OSError:
                        break
                elif 0.084 <= what < 0.09:
                    # The workers' ports that the log has named.
                    ports = [int(w) for w in re.findall(
                        r"event=worker_store_assigned .* port=(\d+)", server.log())][-6:]
                elif 0.09 <= what < 0.093:
                    select.select([c.socket], [], [], 0.15)
                else:
                    data = b"".join(self.agent_request(c, listening) if c.key else
                                    self.worker_request()
                                    for _ in range(rng.choice([1, 1, 1, 2, 5])))
                    if rng.random() < 0.005:
                        data = data[:rng.randrange(len(data) + 1)]
                    c.send(data)
            if rng.random() < 0.5:
                for c in clients:
                    c.close(rng.random() < 0.5)
                clients = []
            code = server.stop()
            self.events.update(re.findall(r" event=(\w+)", server.log()))
            for c in clients:
                c.close(True)
            if code != 0:
                raise AssertionError("exit code %d with %s\n%s" % (
                    code, " ".join(flags), "\n".join(server.log().splitlines()[-120:])))


def run(seed, steps):
    print("seed %d (again: tests/elastic/fuzz.py --seed %d --steps %d)" % (seed, seed, steps))
    fuzz, daemons = Fuzz(seed), 0
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listening:
        for done in range(0, steps, DAEMON_STEPS):
            fuzz.one_daemon(min(DAEMON_STEPS, steps - done), listening.getsockname()[1])
            daemons += 1
    print("%d steps, %d daemons; events: %s" % (fuzz.said, daemons, ", ".join(
        "%s %d" % e for e in sorted(fuzz.events.items()))))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--steps", type=int, default=100000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    run(options.seed, options.steps)
