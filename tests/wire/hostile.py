"""Hostile clients of all protocols, as one process: each of them does one thing after the other that a
daemon must bear.

    hostile.py            its orders come as JSON on stdin; it ends when they say, or with stdin

What client C of seed N does as its L-th thing is decided by the three numbers alone; when the daemon
gets it is not.
"""

import json
import os
import random
import resource
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from repertoire import HELLO, KEYS, MIB, PREFIX, RUNS, Repertoire, mutate  # noqa: E402
from c10d import modern                      # noqa: E402
import relay_frames as relay                 # noqa: E402
from swarm import GOT, PAUSE, SENT, Line, Swarm  # noqa: E402

LEFT_OPEN = 30  # connections that one client leaves open behind it, at most
BURST = 32 * MIB


class Client:
    """One client: its lives, one after the other."""

    def __init__(self, swarm, say, orders, number_):
        self.swarm = swarm
        self.say = say
        self.orders = orders
        self.number = number_
        self.left = []
        self.tally = {}

    def live(self):
        turn = 0
        only = self.orders["only"]
        while True:
            rng = random.Random("%s/%d/%d" % (self.orders["seed"], self.number, turn))
            turn += 1
            names = [only] if only else list(LIVES)
            weights = [LIVES[name][1] for name in names]
            name = rng.choices(names, weights)[0]
            self.tally[name] = self.tally.get(name, 0) + 1
            yield from LIVES[name][0](self, rng)
            yield PAUSE, rng.choice((0, 0, 0, 0.01, 0.1))

    # ---- what lives are made of

    def open(self, rng, reading="all", says_hello=False, polite_too=False):
        """At a space of the hostile ones, or at one that polite clients use."""
        places = self.orders["hostile"]
        address = rng.choice(places)
        if polite_too and rng.random() < 0.3:
            address = self.orders["shared"]
        line = Line(self.swarm, tuple(address), reading,
                    rng.choice((None, None, None, 4096)) if reading != "all" else None)
        if says_hello:
            line.send(HELLO)
        return line

    def leave(self, rng, line):
        """Closes or resets the connection, closes half of it, or lets it stay."""
        how = rng.choice(("close", "close", "reset", "half-close", "stay", "stay"))
        if how == "half-close":
            line.half_close()
        if how in ("half-close", "stay"):
            if rng.random() < 0.5:
                line.read_as("never")
            self.left.append(line)
            if len(self.left) > LEFT_OPEN:
                self.left.pop(0).end()
        else:
            line.end(reset=how == "reset")

    def reading(self, rng):
        return rng.choice(("all", "all", "all", "slow", "never"))

    def send_cut(self, rng, line, data):
        """Sends the data in segments, with or without pauses."""
        view = memoryview(data)
        for _ in range(rng.choice((0, 1, 3, 10))):
            if len(view) < 2 or line.ended:
                break
            cut = rng.choice((1, 2, 7, 50, max(1, len(view) // 2), max(1, len(view) - 1)))
            line.send(view[:cut])
            view = view[cut:]
            yield PAUSE, rng.choice((0, 0, 0.001, 0.01))
        line.send(view)
        yield SENT, line, rng.choice((0.1, 1, 3))

    # ---- lives

    def talk(self, rng):
        """Requests of one protocol, some at a time, each answered before the next ones or not."""
        kind = rng.choice(("c10d", "c10d", "c10d", "legacy", "http", "http", "http"))
        line = self.open(rng, self.reading(rng), kind == "c10d")
        say = {"c10d": self.say.c10d, "legacy": self.say.legacy, "http": self.say.any_http}[kind]
        size = 0
        for _ in range(rng.choice((1, 5, 20))):
            batch = [say(rng) for _ in range(rng.choice((1, 1, 10, 50)))]
            size += sum(map(len, batch))
            if line.ended or size > BURST:
                break
            line.send(b"".join(batch))
            yield SENT, line, rng.choice((0.1, 1, 3))
            yield GOT, line, line.got + 1, rng.choice((0, 0.001, 0.05))
        self.leave(rng, line)

    def flood(self, rng):
        """Sends one expensive request thousands of times at once."""
        what = rng.choice(("list", "count", "get", "multi", "add", "check", "look", "metrics", "runs",
                           "agent", "watch", "http", "waits", "auth", "status"))
        say, says_hello = self.say, True
        if what in ("look", "metrics", "runs", "watch", "http", "auth", "status"):
            says_hello = False
        request = {
            "list": lambda: modern.list_keys(),
            "count": lambda: modern.count(),
            "get": lambda: modern.get(rng.choice(KEYS)),
            "multi": lambda: modern.multi_get(*[rng.choice(KEYS)] * rng.choice((10, 1000))),
            "add": lambda: modern.add(b"number", 1),
            "check": lambda: modern.check(*say.keys(rng)),
            "waits": lambda: modern.wait(*say.keys(rng)) + modern.cancel_wait(),
            "agent": lambda: modern.compare_set(PREFIX + b"r", b"", say.states[5]),
            "look": lambda: say.look(rng),
            "metrics": lambda: say.http("GET", "/metrics"),
            "runs": lambda: say.http("GET", "/rdzv/v1/spaces/one/status"),
            "watch": lambda: say.watch(rng),
            "http": lambda: say.any_http(rng),
            "auth": lambda: say.auth(rng),
            "status": lambda: say.status(rng),
        }[what]()
        count = min(rng.choice((10, 300, 3000, 16000)), max(1, BURST // len(request)))
        line = self.open(rng, self.reading(rng), says_hello, polite_too=what not in (
            "check", "http", "agent", "auth", "waits"))
        line.send(request * count)
        yield SENT, line, rng.choice((0.1, 1, 3))
        yield GOT, line, rng.choice((1, MIB, 100 * MIB)), rng.choice((0, 0.1, 1))
        self.leave(rng, line)

    def half(self, rng):
        """Part of a request; then nothing, or the rest much later."""
        data = rng.choice((self.say.c10d, self.say.any_http, self.say.legacy))(rng)
        says_hello = rng.random() < 0.5
        for _ in range(rng.choice((1, 1, 5, 20))):
            rest_too = rng.random() < 0.2
            line = self.open(rng, says_hello=says_hello, polite_too=not rest_too)
            cut = rng.randrange(max(1, len(data)))
            line.send(data[:cut])
            yield PAUSE, rng.choice((0, 0, 0.01))
            if rest_too:
                line.send(data[cut:])
            self.leave(rng, line)

    def agents(self, rng):
        """Agents of colliding runs: compare-and-sets with what came last, or with something else."""
        line = self.open(rng, says_hello=True)
        key = PREFIX + rng.choice(RUNS)
        line.kept = bytearray()
        yield GOT, line, 4, 3
        known, read = b"", 4
        for _ in range(rng.choice((3, 10, 40))):
            state, expected = self.say.state(rng), rng.choice((None, None, None, b"", b"old"))
            what, pause = rng.randrange(8), rng.choice((0, 0, 0.001, 0.05))
            where = b"%s.%d/MASTER_" % (key, rng.randrange(2))
            if what == 0:
                line.send(modern.set(where + b"ADDR", b"localhost"),
                          modern.set(where + b"PORT", b"%d" % rng.choice((1, 99999, 4000))))
            elif what == 1:
                line.send(modern.cancel_wait() + modern.wait(where + b"ADDR", where + b"PORT"))
                break  # what else came back is not told apart from answers to compare-and-sets
            line.send(modern.compare_set(key, known if expected is None else expected, state))
            yield GOT, line, read + 8, rng.choice((0.5, 3))
            if len(line.kept) < read + 8:
                break
            size = int.from_bytes(line.kept[read:read + 8], "little")
            yield GOT, line, read + 8 + size, 3
            known = bytes(line.kept[read + 8:read + 8 + size])
            read += 8 + size
            yield PAUSE, pause
        self.leave(rng, line)

    def waiters(self, rng):
        """Opens many waits or watches; then the clients leave, or their keys are set."""
        says_hello = rng.random() < 0.5
        lines = []
        for _ in range(rng.choice((1, 5, 20))):
            line = self.open(rng, rng.choice(("all", "never")), says_hello)
            if says_hello:
                line.send(rng.choice((modern.wait(*self.say.keys(rng)),
                                      modern.barrier(rng.choice(KEYS), 1 << 20))))
            else:
                line.send(self.say.watch(rng))
            lines.append(line)
        yield PAUSE, rng.choice((0, 0.01, 0.1))
        if rng.random() < 0.5:
            other = self.open(rng, says_hello=says_hello)
            for _ in range(rng.choice((1, 20, 300))):
                other.send(modern.set(self.say.key(rng), b"v" * 300) if says_hello
                           else self.say.http("PUT", self.say.etcd_path(rng), b"value=" + b"v" * 300))
            yield SENT, other, 1
            lines.append(other)
        for line in lines:
            self.leave(rng, line)

    def fill(self, rng):
        """As much as fits: keys, values, queues, directories, times to live, runs, paths."""
        what = rng.choice(("keys", "values", "queue", "append", "tree", "ttl", "deep", "runs", "large"))
        says_hello = what in ("keys", "values", "queue", "append", "runs")
        line = self.open(rng, rng.choice(("all", "all", "never")), says_hello)
        for _ in range(rng.choice((1, 3, 8))):
            first = rng.randrange(200000)
            if what == "keys":
                count = min(self.orders["limits"]["keys"], rng.choice((1000, 20000)))
                data = modern.multi_set(*[(b"fill/%d" % n, b"v") for n in range(first, first + count)])
            elif what == "values":
                data = modern.set(b"large/%d" % (first % 50), self.say.bytes(
                    rng, self.orders["limits"]["value"]))
            elif what == "queue":
                data = modern.push(b"queue", b"v" * 100) * rng.choice((100, 5000))
            elif what == "append":
                data = modern.append(b"grow", b"v" * 1000) * rng.choice((10, 1000))
            elif what == "runs":
                data = b"".join(modern.compare_set(PREFIX + b"fill-%d" % n, b"", self.say.states[2])
                                for n in range(first, first + 200))
            elif what == "tree":
                data = b"".join(self.say.http("PUT", "/v2/keys/many/%d/%d" % (n % 50, n), b"value=v")
                                for n in range(first, first + 500))
            elif what == "ttl":
                data = b"".join(self.say.http("PUT", "/v2/keys/ttl/%d" % n, b"value=v&ttl=1")
                                for n in range(first, first + 500))
            elif what == "deep":
                data = b"".join(self.say.http("PUT", "/v2/keys" + "/d%d" % n * 200, b"value=v")
                                for n in range(first % 100, first % 100 + 20))
            else:
                data = self.say.http("PUT", "/v2/keys/large/%d" % (first % 20),
                                     b"value=" + self.say.bytes(rng, rng.choice((MIB, 9 * MIB))))
            if line.ended:
                break
            line.send(data)
            yield SENT, line, 3
        self.leave(rng, line)

    def churn(self, rng):
        """Connections that come and go."""
        for _ in range(rng.choice((10, 50, 200))):
            line = self.open(rng, polite_too=True)
            first = rng.choice((b"", b"", HELLO, HELLO[:3], b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n",
                                b"\x16\x03\x01"))
            line.send(first)
            if rng.random() < 0.2:
                yield GOT, line, 1, 0.02
            line.end(reset=rng.random() < 0.5)
            if rng.random() < 0.05:
                yield PAUSE, 0.001
        yield PAUSE, 0.01

    def never_read(self, rng):
        """Asks for much, and reads nothing of it."""
        line = self.open(rng, "never", says_hello=rng.random() < 0.5)
        data = rng.choice((
            lambda: modern.list_keys() * 50,
            lambda: modern.multi_get(*[b"large/1", b"a", b"b"] * rng.choice((1, 1000))) * 5,
            lambda: modern.get(b"large/1") * 200,
            lambda: self.say.http("GET", "/v2/keys/?recursive=true") * 20,
            lambda: self.say.http("GET", "/v2/keys/large/1") * 20,
            lambda: self.say.http("GET", "/v2/keys/?wait=true&recursive=true&stream=true"),
        ))()
        line.send(data)
        yield SENT, line, 1
        yield PAUSE, rng.choice((0.1, 0.5, 2))
        if rng.random() < 0.5:
            line.read_as(rng.choice(("all", "slow")))
            yield GOT, line, 100 * MIB, rng.choice((0.1, 1))
        self.leave(rng, line)

    def mutated(self, rng):
        """A conversation with something wrong in it."""
        data = mutate(rng, self.say.conversation(rng))
        line = self.open(rng, rng.choice(("all", "all", "never")), polite_too=False)
        yield from self.send_cut(rng, line, data)
        yield GOT, line, 1, rng.choice((0, 0.01))
        self.leave(rng, line)

    def garbage(self, rng):
        """Bytes."""
        line = self.open(rng, polite_too=True)
        data = rng.choice((b"", b"", HELLO, b"GET /")) + rng.randbytes(rng.choice((1, 5, 60, 3000)))
        yield from self.send_cut(rng, line, data)
        self.leave(rng, line)

    def operate(self, rng):
        """Requests of operators, and of etcd's users and roles: mostly at the TCP ports, with and without a token."""
        socket_path = rng.random() < 0.3
        line = Line(self.swarm, self.orders["unix"], "all") if socket_path else self.open(rng)
        for _ in range(rng.choice((1, 3, 10))):
            if line.ended:
                break
            line.send(rng.choice((self.say.admin, self.say.admin, self.say.auth))(rng))
            yield GOT, line, line.got + 1, rng.choice((0.01, 0.5))
        self.leave(rng, line)


    def onlookers(self, rng):
        """Open status pages, monitors, and scrapers; many, at the same time, who read or do not. Then
        runs change."""
        lines = []
        for _ in range(rng.choice((1, 10, 60))):
            line = self.open(rng, self.reading(rng), polite_too=True)
            line.send(self.say.onlooking(rng) * rng.choice((1, 1, 3)))
            lines.append(line)
        other = self.open(rng, says_hello=True)
        for n in range(rng.choice((0, 3, 30))):
            if other.ended:
                break
            other.send(b"".join(modern.set(PREFIX + b"seen-%d" % (n % 7), self.say.state(rng))
                                for _ in range(rng.choice((1, 20)))))
            yield PAUSE, rng.choice((0, 0.01, 0.05))
        yield PAUSE, rng.choice((0, 0.3, 1))
        for line in lines + [other]:
            self.leave(rng, line)

    def relayed(self, rng):
        """A relay: its clients come, ask, go, and are resumed over another connection. Some send what
        no relay does."""
        at = rng.randrange(len(self.orders["spaces"]))
        space = self.orders["spaces"][at].encode()
        address = tuple(self.orders["hostile"][-1 if at else 0])
        sessions = [1 + rng.randrange(1 << rng.choice((3, 60))) for _ in range(rng.choice((1, 3, 40)))]
        done = [0] * len(sessions)
        for link in range(rng.choice((1, 2, 3))):
            line = Line(self.swarm, address, self.reading(rng))
            is_http = rng.random() < 0.2
            line.send(relay.hello(space if rng.random() < 0.95 else b"none", is_http,
                                  rng.choice(((1, 1), (1, 1), (1, 1), (0, 9), (2, 3)))))
            if is_http:
                line.send(b"".join(self.say.any_http(rng) for _ in range(rng.choice((1, 5)))))
            else:
                yield from self.relay_sessions(rng, line, sessions, done, resumes=link > 0)
            yield SENT, line, rng.choice((0.1, 1))
            self.leave(rng, line)

    def relay_sessions(self, rng, line, sessions, done, resumes):
        """Requests of those sessions over one connection; `done` is how many each has sent."""
        wrong = rng.random() < 0.3
        for channel, session in enumerate(sessions, 1):
            line.send(relay.opened(channel, session, resumes, rng.choice((3, 3, 3, 0, 7)) if wrong else 3))
        for _ in range(rng.choice((1, 10, 60))):
            channel = rng.randrange(len(sessions))
            done[channel] += 1
            number_ = done[channel] if not wrong or rng.random() < 0.9 else rng.choice((0, 1, 1 << 63))
            data = relay.request(self.say.c10d(rng)[:4 * MIB], channel + 1, number_)
            if wrong and rng.random() < 0.1:
                data = rng.choice((
                    lambda: mutate(rng, data), lambda: relay.frame(relay.CLOSE, channel=channel + 1),
                    lambda: relay.frame(rng.randrange(16), b"x" * rng.choice((0, 20, 70000)), channel + 1),
                    lambda: relay.restart(rng.choice((b"a", b"b", b"c")), rng.choice((0, 2, 1 << 31)), rng.randrange(4),
                                          rng.randrange(5)),
                    lambda: relay.frame(relay.PING, number=rng.randrange(1 << 64)) * 1000,
                    lambda: relay.opened(channel + 1, sessions[0], True)))()
            if line.ended:
                break
            line.send(data)
            yield GOT, line, line.got + 1, rng.choice((0, 0.001, 0.05))
        if rng.random() < 0.5:
            line.send(b"".join(relay.frame(relay.CLOSE, channel=n + 1) for n in range(len(sessions))))


# What clients do, and how often.
LIVES = {
    "talk": (Client.talk, 20),
    "flood": (Client.flood, 15),
    "half": (Client.half, 8),
    "agents": (Client.agents, 12),
    "waiters": (Client.waiters, 10),
    "fill": (Client.fill, 10),
    "churn": (Client.churn, 5),
    "never-read": (Client.never_read, 8),
    "mutated": (Client.mutated, 10),
    "garbage": (Client.garbage, 4),
    "operate": (Client.operate, 6),
    "onlookers": (Client.onlookers, 6),
    "relayed": (Client.relayed, 8),
}


def main():
    orders = json.loads(sys.stdin.readline())
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    say = Repertoire(orders["limits"], orders["token"], orders["spaces"])
    print("ready", flush=True)
    sys.stdin.readline()  # all others are ready, too
    swarm = Swarm()
    clients = [Client(swarm, say, orders, n) for n in orders["clients"]]
    for client in clients:
        swarm.begin(client.live())
    swarm.run(time.monotonic() + orders["seconds"])
    swarm.close()
    tally = {}
    for client in clients:
        for name, count in client.tally.items():
            tally[name] = tally.get(name, 0) + count
    print(json.dumps({"connections": swarm.opened, "lives": tally}), flush=True)


if __name__ == "__main__":
    main()
