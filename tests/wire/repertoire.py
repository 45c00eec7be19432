"""What hostile clients say: every request of every protocol, with keys that collide, sizes from zero to
over the limits, and torch states of all kinds. A random number generator chooses; nothing is sent here.
"""

import base64
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", folder) for folder in ("support", "elastic", "etcd")]

import admin as etcd_admin           # noqa: E402
import generate as etcd_requests     # noqa: E402
import torch_state as ts             # noqa: E402
from agents import PREFIX, complete_round   # noqa: E402
from c10d import LEGACY, SNAPSHOT, legacy, modern  # noqa: E402
from mutation import VALID, fields, mutate  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
HELLO = modern.hello()

KEYS = [b"a", b"b", b"c", b"d", b"", b"/k", b"/k/l", b"n" * 100]
RUNS = [b"r", b"s", b"r.0/x", b"", b"t" * 200]
NUMBERS = [0, 1, -1, 2, 1 << 31, (1 << 63) - 1, -(1 << 63)]
# The three kinds of bytes that values are made of: text, what JSON has to escape, anything.
PATTERNS = [b"0123456789abcdef", b"\x01\x02\x1f\x00", bytes(range(256))]


class Side:
    """What etcd's templates are filled with: no index is known, so they are near the beginning."""

    port = 1

    @staticmethod
    def render(data):
        return data.replace(b"{{B", b"1000000").replace(b"{{SEQ", b"00000000000000000100").replace(
            b"{{MEMBER}}", b"8e9e05c52164694d").replace(b"}}", b"")


class Repertoire:
    """What one swarm can say. `limits`: value, key, keys, request; `tokens`: right and wrong ones."""

    def __init__(self, limits, token, spaces):
        self.limits = limits
        self.token = token
        self.spaces = spaces
        self.bulk = [pattern * (12 * MIB // len(pattern)) for pattern in PATTERNS]
        self.states = self.torch_states()

    # ---- values

    @staticmethod
    def torch_states():
        """What agents write in the order in which they would, then states that none would."""
        state, out = ts.State(), [ts.SENTINEL, ts.dumps(ts.State())]
        for name in ("a", "b", "c", "d"):
            node = ts.Node(name, 100, 0)
            state.participants[node] = 0
            state.last_heartbeats[node] = ts.now()
            out.append(ts.dumps(state))
        complete_round(state)
        out += [ts.dumps(state), ts.dumps(state, 5)]
        state.wait_list.add(ts.Node("e", 1, 0))
        state.redundancy_list.add(ts.Node("f", 1, 0))
        out.append(ts.dumps(state))
        state.complete, state.round = False, 1
        state.participants = {}
        out.append(ts.dumps(state))
        state.deadline = ts.now()
        out.append(ts.dumps(state))
        state.closed = True
        out.append(ts.dumps(state))
        big = ts.State()
        for i in range(1000):
            node = ts.Node("node-%d.example.org" % i, i, 0)
            big.participants[node] = i
            big.last_heartbeats[node] = ts.now()
        out.append(ts.dumps(big))
        wrong = ts.State()
        wrong.round, wrong.participants = 1 << 70, {ts.Node("x" * 5000, -1, "y"): "z"}
        out.append(ts.dumps(wrong))
        return out

    def state(self, rng):
        value = rng.choice(self.states)
        what = rng.random()
        if what < 0.7:
            return value
        if what < 0.8:
            return value[:rng.randrange(len(value) + 1)]
        if what < 0.9:
            return mutate(rng, value)
        try:
            raw = mutate(rng, base64.b64decode(value))
        except ValueError:
            raw = b""
        return base64.b64encode(raw)

    def size(self, rng, over=0.01):
        """Mostly small; up to the limit of values, and rarely over it."""
        most, what = self.limits["value"], rng.random()
        if what < over:
            return most + 1
        if what < 0.6:
            return rng.choice((0, 1, 7, 8, 9, 100, 300))
        if what < 0.9:
            return min(most, rng.choice((1000, 4000, 4097, 16000, 65535, 65537)))
        if what < 0.97:
            return min(most, rng.randrange(1, 2 * MIB))
        return max(0, most - rng.choice((0, 1, 1000)))

    def bytes(self, rng, size):
        return self.bulk[rng.randrange(3)][:size]

    def value(self, rng, over=0.01):
        return self.bytes(rng, self.size(rng, over))

    def key(self, rng):
        what = rng.random()
        if what < 0.85:
            return rng.choice(KEYS)
        if what < 0.95:
            return b"%d" % rng.randrange(5000)
        if what < 0.997:
            return b"L" * (self.limits["key"] - rng.choice((0, 1, 200)))
        return b"L" * (self.limits["key"] + 1)

    def run_key(self, rng):
        return PREFIX + rng.choice(RUNS) + rng.choice((b"", b"", b"", b".0/MASTER_ADDR",
                                                       b".0/MASTER_PORT", b".1/MASTER_PORT", b"/.1"))

    def keys(self, rng):
        what = rng.random()
        if what < 0.7:
            return [self.key(rng) for _ in range(rng.choice((0, 1, 2, 5)))]
        count = rng.choice((50, 1000, min(5000, self.limits["keys"])))
        if what < 0.85:
            return [rng.choice(KEYS)] * count
        first = rng.randrange(100000)
        return [b"key/%d" % n for n in range(first, first + count)]

    # ---- c10d

    def c10d(self, rng):
        """One request of the modern version."""
        key = self.run_key(rng) if rng.random() < 0.15 else self.key(rng)
        what = rng.randrange(20)
        if key.startswith(PREFIX) and what < 12:
            value = self.state(rng)
        else:
            value = self.value(rng)
        if what == 0:
            return modern.set(key, value)
        if what in (1, 2):
            return modern.compare_set(key, rng.choice((b"", b"", value, b"old")), value)
        if what in (3, 4):
            return modern.get(key)
        if what in (5, 6):
            return modern.add(key, rng.choice(NUMBERS))
        if what == 7:
            return rng.choice((modern.check, modern.check, modern.multi_get))(*self.keys(rng))
        if what == 8:
            return modern.wait(*self.keys(rng)) + rng.choice((b"", modern.cancel_wait()))
        if what == 9:
            return rng.choice((modern.count(), modern.cancel_wait(), modern.list_keys(), modern.ping(b"abcd")))
        if what in (10, 11):
            return modern.delete(key)
        if what == 12:
            return modern.append(key, value)
        if what == 13:
            return modern.multi_set(*[(key, value[:1000]) for key in self.keys(rng)])
        if what in (14, 15):
            return modern.push(key, value)
        if what == 16:
            return rng.choice((modern.pop, modern.queue_len))(key)
        if what == 17:
            return modern.barrier(key, rng.choice(NUMBERS))
        return modern.set(self.key(rng), self.bytes(rng, 50))

    def legacy(self, rng):
        """One request of the legacy version, or of the snapshots of torch behind it."""
        op, key = rng.choice(sorted(LEGACY + SNAPSHOT)), self.key(rng)
        if op in ("SET", "APPEND"):
            return getattr(legacy, op.lower())(key, self.value(rng))
        if op == "COMPARE_SET":
            return legacy.compare_set(key, b"", self.value(rng))
        if op == "ADD":
            return legacy.add(key, rng.choice(NUMBERS))
        if op in ("CHECK", "WAIT", "MULTI_GET"):
            return getattr(legacy, op.lower())(*self.keys(rng))
        if op == "MULTI_SET":
            return legacy.multi_set(*((key, b"v" * 20) for key in self.keys(rng)))
        if op in ("GETNUMKEYS", "CANCEL_WAIT"):
            return legacy.opcode(op)
        return {"GET": legacy.get, "WATCH_KEY": legacy.watch, "DELETE_KEY": legacy.delete}[op](key)

    # ---- HTTP

    def http(self, method, path, body=None, kind="application/x-www-form-urlencoded", headers=()):
        lines = ["%s %s HTTP/1.1" % (method, path), "Host: localhost", *headers]
        if body is not None:
            lines += ["Content-Type: " + kind, "Content-Length: %d" % len(body)]
        return "\r\n".join(lines + ["", ""]).encode() + (body or b"")

    def chunked(self, rng, body):
        out, head = b"", b"PUT /v2/keys/%b HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n" \
            b"Content-Type: application/x-www-form-urlencoded\r\n\r\n" % rng.choice((b"a", b"b/c"))
        step = max(1, len(body) // rng.choice((1, 3, 40)))
        for at in range(0, len(body), step):
            part = body[at:at + step]
            out += b"%x\r\n%b\r\n" % (len(part), part)
        return head + out + b"0\r\n\r\n"

    def etcd_path(self, rng):
        what = rng.random()
        if what < 0.8:
            return "/v2/keys/" + "/".join(rng.choices("abcd", k=rng.choice((1, 1, 2, 3))))
        if what < 0.9:
            return "/v2/keys/many/%d" % rng.randrange(3000)
        if what < 0.95:
            return "/v2/keys" + "/d" * rng.choice((10, 300, 1000, 1100))
        return "/v2/keys/" + "p" * rng.choice((100, 4000, 5000, 100000))

    def put(self, rng):
        query = rng.choice(("", "", "", "?prevExist=true", "?prevExist=false", "?prevIndex=5",
                            "?prevValue=x", "?ttl=1", "?ttl=1", "?ttl=3600", "?dir=true&ttl=1",
                            "?noValueOnSuccess=true", "?refresh=true&ttl=2&prevExist=true"))
        body = b"value=" + self.value(rng)
        if rng.random() < 0.1:
            return self.chunked(rng, body)
        return self.http(rng.choice(("PUT", "PUT", "PUT", "POST")), self.etcd_path(rng) + query, body)

    def look(self, rng):
        query = rng.choice(("", "", "?recursive=true", "?recursive=true&sorted=true", "?quorum=true"))
        return self.http(rng.choice(("GET", "GET", "HEAD")),
                         rng.choice((self.etcd_path(rng), "/v2/keys/", "/v2/keys/many")) + query)

    def watch(self, rng):
        query = "?wait=true" + rng.choice(("", "&recursive=true", "&stream=true&recursive=true")) + \
            rng.choice(("", "", "&waitIndex=1", "&waitIndex=1000000", "&waitIndex=30"))
        return self.http("GET", rng.choice((self.etcd_path(rng), "/v2/keys/")) + query)

    def remove(self, rng):
        return self.http("DELETE", rng.choice((self.etcd_path(rng), "/v2/keys/many")) + rng.choice(
            ("", "?recursive=true", "?dir=true", "?prevValue=x")))

    def auth(self, rng):
        """What there is of users: reads, changes that are refused, credentials that nobody reads."""
        headers = ("Authorization: %s" % etcd_admin.Admin(rng).credentials()[1],) if rng.random() < 0.5 else ()
        what = rng.random()
        if what < 0.3:
            body = b'{"user":"al","grant":["%s"]}' % (b"r" * rng.choice((1, 1000, 200000)))
            return self.http("PUT", "/v2/auth/users/al", body, "application/json", headers)
        if what < 0.4:
            return self.http(rng.choice(("PUT", "DELETE")), "/v2/auth/enable", b"", headers=headers)
        if what < 0.6:
            return self.http("GET", rng.choice(("/v2/keys/", "/v2/keys/a")), headers=headers)
        return etcd_admin.Admin(rng).auth().encode(Side)

    def admin(self, rng):
        """What is ours and etcd's beside the keys, as an operator and as anybody."""
        headers = rng.choice(((), (), ("Authorization: Bearer " + self.token,),
                              ("Authorization: Bearer " + self.token,),
                              ("Authorization: Bearer wrong",), ("Origin: http://evil.example",)))
        space = rng.choice(self.spaces + ["nobody"])
        what = rng.random()
        if what < 0.06:
            return self.http("DELETE", "/rdzv/v1/spaces/" + space, headers=headers)
        if what < 0.2:
            return self.http(rng.choice(("DELETE", "GET")), "/rdzv/v1/spaces/%s/runs/%s?rank=0" % (
                space, rng.choice(("r", "s", "r.0%2Fx", "", "none"))), headers=headers)
        if what < 0.3:
            return self.http("GET", "/rdzv/v1/spaces/%s/status" % space, headers=headers)
        if what < 0.4:
            return self.status(rng, headers)
        if what < 0.7:
            return self.http(rng.choice(("GET", "GET", "HEAD", "PUT")), rng.choice(
                ("/metrics", "/health", "/livez", "/readyz", "/readyz?verbose", "/version",
                 "/debug/vars", "/v2/stats/store", "/v2/stats/self", "/v2/machines")))
        return etcd_admin.Admin(rng).page().encode(Side)

    def status(self, rng, headers=()):
        """How things stand, once, and the page that shows it."""
        path = rng.choice(("/rdzv/v1/status", "/rdzv/v1/spaces/%s/status" % rng.choice(self.spaces), "/"))
        return self.http(rng.choice(("GET", "GET", "HEAD", "POST")), path, headers=tuple(headers) + rng.choice(
            ((), ("Accept-Encoding: gzip",), ('If-None-Match: "x"',))))

    def onlooking(self, rng):
        """What goes on until its client leaves; and a scrape."""
        token = rng.choice((("Authorization: Bearer " + self.token,),) * 2 + ((),))
        path = rng.choice(("/rdzv/v1/status?watch=true", "/rdzv/v1/status?watch=true", "/rdzv/v1/monitor",
                           "/rdzv/v1/spaces/%s/status?watch=true" % rng.choice(self.spaces), "/metrics"))
        return self.http("GET", path, headers=token)

    def odd(self, rng):
        """As etcd's comparison asks: parameters and paths that are hard to get right, odd HTTP."""
        if rng.random() < 0.2:
            return etcd_admin.Admin(rng).raw()[1].replace(b"{port}", b"1")
        requests = etcd_requests.Generator(rng, etcd_requests.Model())
        return rng.choice((requests.request, requests.request, requests.mortal, requests.doomed,
                           requests.watch))().encode(Side)

    def any_http(self, rng):
        return rng.choices((self.put, self.look, self.remove, self.odd, self.admin, self.auth),
                           (8, 6, 3, 4, 3, 1))[0](rng)

    # ---- whole conversations

    def conversation(self, rng):
        """A valid conversation of any protocol, which the caller will damage."""
        what = rng.random()
        if what < 0.4:
            return rng.choice(VALID)
        if what < 0.6:
            return HELLO + b"".join(self.c10d(rng) for _ in range(3))[:100 * KIB]
        if what < 0.7:
            return b"".join(self.legacy(rng) for _ in range(3))[:100 * KIB]
        if what < 0.85:
            return b"".join(self.any_http(rng) for _ in range(2))[:100 * KIB]
        key, state = PREFIX + rng.choice(RUNS), rng.choice(self.states)
        return HELLO + modern.compare_set(key, b"", self.states[0]) + \
            modern.compare_set(key, self.states[0], state) + modern.get(key)


__all__ = ["Repertoire", "HELLO", "fields", "mutate"]
