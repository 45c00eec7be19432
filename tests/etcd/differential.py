#!/usr/bin/env python3
"""Sends the same random etcd v2 requests to two servers in lock step and reports what differs.

    differential.py --requests 20000 --seed 123 [--a etcd --b rdzvd] [--shift 7] [--trace FILE]

Everything follows from the seed. The run is made of phases: ordinary requests one at a time,
pipelined ones, watches with changes under them, short TTLs, pages beside the keys, auth, odd HTTP.
It makes nodes with TTLs of one or two seconds within a fraction of a second, and sends nothing
while they expire: so all changes have the same order on both sides, although each server sweeps by
its own clock. After a difference it empties both trees and takes new bases: one cause counts once.
"""

import argparse
import json
import random
import re
import select
import sys
import time
import urllib.parse

import admin
import compare
import generate
import peers
import wire
from generate import Request

MOST_DIFFERENCES = 20
# A TTL below this ends during the run.
MORTAL_S = 1000
# Both servers have sent all events when nothing came for this long.
QUIET_S = 0.02
# On a loaded machine a server may take this long for an answer that must come.
PATIENCE_S = 30
# When making the nodes with short TTLs takes longer, their order of expiry is not certain.
BURST_S = 0.6


class Refused(wire.Answer):
    """Stands for an answer that did not come."""

    def __init__(self, text):
        super().__init__(0, "", [], b"(no answer: %s)" % text.encode())
        self.complete = True
        self.body += re.sub(r"after .*", "", text).encode()


class Tested(compare.Side):
    """A side with the connection that ordinary requests take."""

    def __init__(self, server):
        super().__init__(server)
        self.connection = None

    def open(self):
        """The main connection. A new connection begins with one short request, since etcd limits
        the first request line of a connection, and no later one, to 4096 bytes."""
        if self.connection is None or not self.connection.usable:
            self.close()
            self.connection = self.connect()
        return self.connection

    def connect(self):
        connection = wire.Connection(self.port)
        connection.send(wire.encode(self.port, "GET", "/version"))
        connection.read()
        return connection

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def render(self, template):
        if b"{{MEMBER}}" in template:
            template = template.replace(b"{{MEMBER}}", (self.member or "0").encode())
        return super().render(template)

    def begin(self, request):
        """The head of the answer to the request that was sent last."""
        try:
            return self.connection.begin(request.method)
        except (wire.Closed, wire.Garbled, OSError) as error:
            self.connection.usable = False
            return Refused("%s: %s" % (type(error).__name__, error))

    def finish(self, answer):
        try:
            return answer if answer.complete else self.connection.finish(answer)
        except (wire.Closed, wire.Garbled, OSError):
            self.connection.usable = False
            return answer

    def get(self, target, method="GET", headers=(), body=None):
        """Sends a request whose answers are not compared."""
        connection = self.open()
        connection.send(wire.encode(self.port, method, target, headers, body))
        return connection.read(method)


class Watch:
    """A watch that is open on both sides."""

    def __init__(self, request, number, connections, answers, behind):
        self.request = request
        self.number = number
        self.connections = connections
        self.answers = answers
        self.behind = behind  # a request that was pipelined behind it, or None

    def open(self):
        return not all(answer.complete for answer in self.answers)

    def state(self, i):
        return bytes(self.answers[i].body).count(b"\n"), self.answers[i].complete

    def poll(self, timeout):
        """Reads what has come on either side. True when something came."""
        came = False
        for connection, answer in zip(self.connections, self.answers):
            if not answer.complete and not answer.cut:
                try:
                    came |= connection.poll(answer, timeout)
                except (wire.Garbled, OSError):
                    answer.cut = True
        return came

    def close(self):
        for connection in self.connections:
            connection.close()


class Run:
    """One differential run."""

    def __init__(self, servers, args):
        self.args = args
        self.rng = random.Random(args.seed)
        self.sides = [Tested(server) for server in servers]
        self.model = generate.Model()
        self.generator = generate.Generator(self.rng, self.model)
        self.admin = admin.Admin(self.rng)
        self.sent = 0
        self.differences = 0
        self.stalls = 0
        self.resync = False
        self.mortals = {}
        self.trace = open(args.trace, "w", encoding="utf-8") if args.trace else None

    # -- one request on both sides ---------------------------------------------------------------

    def ask(self, request):
        """Sends a request to both and compares the answers; the first side's is returned."""
        self.note(request)
        cut = self.rng.random() if self.generator.chance(4) else 0
        for side in self.sides:
            data = request.encode(side)
            at = int(len(data) * cut)
            if at > 0:
                # Clients send head and body apart, and networks cut where they like.
                side.open().send(data[:at])
            side.open().send(data[at:])
        answers = [side.begin(request) for side in self.sides]
        answers = [side.finish(answer) for side, answer in zip(self.sides, answers)]
        self.judge(request, answers, self.sent)
        return answers[0]

    def note(self, request):
        self.sent += 1
        if self.trace:
            self.trace.write("%d %s\n" % (self.sent, request.curl(self.sides[1])))

    def judge(self, request, answers, number):
        """Compares, reports, and teaches the model what the first side said."""
        text = compare.difference(*self.sides, request, *answers)
        if text is not None:
            self.report(request.curl(self.sides[1]), answers, number, text)
        index = answers[0].index()
        if index:
            self.model.index = max(self.model.index, index - self.sides[0].base)
        if answers[0].status in (200, 201) and request.about == "keys":
            self.learn(bytes(answers[0].body))

    def learn(self, body):
        for line in body.split(b"\n"):
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if isinstance(event, dict) and "action" in event:
                self.model.learn(event, self.sides[0].base)
                self.remember_mortal(event)

    def remember_mortal(self, event):
        node = event.get("node") or {}
        if event["action"] in ("get", "expire", "delete", "compareAndDelete"):
            return
        if node.get("ttl", MORTAL_S if "expiration" not in node else 0) < MORTAL_S:
            self.mortals[generate.template_key(node["key"], self.sides[0].base)] = True

    def report(self, command, answers, number, text):
        self.differences += 1
        self.resync = True
        print("difference %d: seed %d, request %d: %s" % (
            self.differences, self.args.seed, number, text))
        print("  " + command)
        for side, answer in zip(self.sides, answers):
            shown = answer.show()
            if len(shown) > 3000:
                shown = shown[:3000] + "...(%d characters)" % len(shown)
            print("  -- %s (indexes from %d):" % (side.name, side.base))
            print("\n".join("     " + line for line in shown.split("\n")), flush=True)
        if self.differences >= MOST_DIFFERENCES:
            raise StopIteration

    # -- the state both start from -----------------------------------------------------------------

    def rebase(self):
        """Empties both trees and takes each side's index as its base."""
        for side in self.sides:
            self.empty(side)
            answer = side.get("/v2/keys/")
            side.base = answer.index() or 0
            side.cluster = answer.header("X-Etcd-Cluster-Id")
            members = json.loads(bytes(side.get("/v2/members").body))
            side.member = members["members"][0]["id"]
        self.model.nodes.clear()
        self.model.index = 0
        self.mortals.clear()
        self.resync = False

    @staticmethod
    def empty(side):
        root = json.loads(bytes(side.get("/v2/keys/").body))["node"]
        keys = [node["key"].encode() for node in root.get("nodes", [])]
        for key in keys + [b"/_h", b"/_", b"/__"]:
            side.get(b"/v2/keys" + escape(key, "/") + b"?recursive=true", "DELETE")
        # Servers list a name that is not UTF-8 as something else: its escapes find it.
        for name in generate.ODD_NAMES:
            if name and side.get(b"/v2/keys/" + name.replace(b"\\", b"%5C")).status == 200:
                side.get(b"/v2/keys/" + name + b"?recursive=true", "DELETE")

    # -- phases ------------------------------------------------------------------------------------

    def plain(self):
        for _ in range(self.rng.randrange(20, 80)):
            self.ask(self.generator.request())
            if self.resync:
                return
        if len(self.model.nodes) > 120:
            self.prune()

    def prune(self):
        """Keeps the tree small, so that requests go on meeting the same keys."""
        for name in sorted(set(generate.NAMES)):
            self.remove(b"/v2/keys/" + name.encode())
        for key in [k for k in self.model.known() if k.count(b"/") == 1]:
            self.remove(b"/v2/keys" + key)
        self.model.nodes.clear()

    def remove(self, path):
        self.ask(self.generator.plain("DELETE", path, [(b"recursive", b"true")]))

    def pipeline(self):
        """Several requests in one segment; the answers must come in order."""
        requests = [self.generator.request(odd=0) for _ in range(self.rng.randrange(2, 12))]
        first = self.sent + 1
        for request in requests:
            self.note(request)
        for side in self.sides:
            side.open().send(b"".join(request.encode(side) for request in requests))
        for number, request in enumerate(requests, first):
            answers = []
            for side in self.sides:
                answers.append(side.finish(side.begin(request)))
            self.judge(request, answers, number)
            if self.resync:
                # Answers that are still on their way would be read as answers to later requests.
                for side in self.sides:
                    side.close()
                return

    def tree(self):
        """The whole tree, hidden names too."""
        for path in (b"/v2/keys/", b"/v2/keys/_h", b"/v2/keys/a/_h", b"/v2/keys/_"):
            request = Request("GET", path, b"recursive=true&sorted=true")
            request.ordered = True
            self.ask(request)

    def pages(self):
        for _ in range(self.rng.randrange(10, 40)):
            self.ask(self.admin.page())
            if self.resync:
                return

    def index(self):
        """Compares the index alone, after answers that do not show it."""
        self.ask(Request("HEAD", b"/v2/keys/"))

    def auth(self):
        """Requests users and roles, which do not exist, and accesses keys with credentials."""
        for _ in range(self.rng.randrange(8, 25)):
            request = self.admin.auth() if self.generator.chance(50) else self.generator.request(odd=1)
            if self.generator.chance(75):
                request.headers = [h for h in request.headers if h[0] != "Authorization"]
                request.headers.append(self.admin.credentials())
            self.ask(request)
            if self.resync:
                return

    def odd_http(self):
        for _ in range(self.rng.randrange(4, 12)):
            self.raw(*self.admin.raw())
            if self.resync:
                return

    def raw(self, name, data):
        """Sends raw bytes on a connection of their own and compares all answers, until the server
        closes or has sent as many as there are requests."""
        self.sent += 1
        if self.trace:
            self.trace.write("%d raw %s\n" % (self.sent, name))
        method = data.split(b" ")[0].decode("latin-1") or "GET"
        request = Request(method, b"")
        request.about = "members" if b"/v2/members" in data else "keys"
        answers = []
        for side in self.sides:
            connection = side.connect()
            connection.send(data.replace(b"{port}", b"%d" % side.port))
            answers.append(self.raw_answers(connection, method, data))
            connection.close()
        command = "raw (%s): %s" % (name, generate.shell_bytes(data))
        if len(answers[0]) != len(answers[1]):
            self.report(command, [a[0] for a in answers], self.sent,
                        "number of answers and ends: %d, %d" % (len(answers[0]), len(answers[1])))
            return
        for pair in zip(*answers):
            text = compare.difference(*self.sides, request, *pair)
            if text is not None:
                self.report(command, pair, self.sent, text)
                return

    @staticmethod
    def raw_answers(connection, method, data):
        """All answers, and at the end why no more come."""
        out = []
        expected = data.count(b" HTTP/1.1\r\nHost: 127")
        while True:
            try:
                interim = b"100-" in data and not out
                answer = connection.interim(PATIENCE_S) if interim else connection.begin(
                    method if not out else "GET", PATIENCE_S)
                if answer.status >= 200:
                    connection.finish(answer, PATIENCE_S)
                else:
                    answer.complete = True
                out.append(answer)
            except (wire.Closed, wire.Garbled, OSError) as error:
                out.append(Refused(type(error).__name__))
                return out
            if connection.usable and len(out) >= max(1, expected) and answer.status >= 200:
                return out

    # -- watches -----------------------------------------------------------------------------------

    def watches(self):
        """Opens watches on both sides, makes changes, and compares the events of both sides."""
        opened = []
        for _ in range(self.rng.randrange(1, 7)):
            self.open_watch(opened)
            if self.resync:
                break
        for _ in range(self.rng.randrange(1, 12)):
            if self.resync:
                break
            if self.generator.chance(20):
                self.open_watch(opened)
            self.ask(self.change(opened))
        self.collect(opened)

    def change(self, opened):
        """A change, mostly one that meets a watched path."""
        path = None
        if self.generator.chance(65):
            path = self.rng.choice(opened).request.path
            if path.startswith(b"/v2/keys/"):
                key = self.generator.near(path[len(b"/v2/keys"):].rstrip(b"/"))
                path = b"/v2/keys" + (key or b"/a")
        turn = self.rng.random()
        if turn < 0.65:
            return self.generator.put(1, path)
        if turn < 0.75:
            return self.generator.post(1, path)
        if turn < 0.88:
            return self.generator.delete(1, path)
        path = path or b"/v2/keys/" + self.rng.choice(generate.NAMES).encode()
        return self.generator.plain("DELETE", path, [(b"recursive", b"true")])

    def open_watch(self, opened, request=None):
        """Opens a watch on both sides, a random one unless it is given."""
        request = request or self.generator.watch()
        self.note(request)
        number = self.sent
        behind = None
        if self.generator.chance(10):
            behind = Request("GET", b"/v2/keys/a", b"recursive=%zz")
            self.note(behind)
        connections = []
        answers = []
        for side in self.sides:
            connection = side.connect()
            connection.send(request.encode(side) + (behind.encode(side) if behind else b""))
            connections.append(connection)
        for connection in connections:
            try:
                answers.append(connection.begin("GET"))
            except (wire.Closed, wire.Garbled, OSError) as error:
                answers.append(Refused("%s: %s" % (type(error).__name__, error)))
        # On one side the body may have come with the head: it is compared when both are whole.
        opened.append(Watch(request, number, connections, answers, behind))

    def collect(self, opened):
        """Waits until both sides have sent as many events, or PATIENCE_S is over; then compares."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self.quiet(opened)
            uneven = [w for w in opened if w.state(0) != w.state(1)]
            if not uneven or time.monotonic() > deadline:
                break
            for watch in uneven:
                watch.poll(0.05)
        half_close = self.generator.chance(20)
        for watch in opened:
            try:
                if not self.resync:
                    self.judge(watch.request, watch.answers, watch.number)
                if not self.resync:
                    self.after(watch, half_close)
            finally:
                watch.close()

    @staticmethod
    def quiet(opened):
        """Reads all watches until every watch has been silent for QUIET_S."""
        while True:
            sockets = {}
            for watch in opened:
                watch.poll(0.0005)
                for connection, answer in zip(watch.connections, watch.answers):
                    if not answer.complete and not answer.cut:
                        sockets[connection.socket] = watch
            if not sockets:
                return
            ready, _, _ = select.select(list(sockets), [], [], QUIET_S)
            if not ready:
                return

    def after(self, watch, half_close):
        """Sends one more request when a watch has ended, or ends an open watch by a half-close."""
        side_a, side_b = self.sides
        if watch.behind is not None and not watch.open():
            request = watch.behind
        elif (not watch.open() and all(c.usable for c in watch.connections)
              and self.generator.chance(30)):
            request = self.generator.get(odd=0)
            self.note(request)
            for side, connection in zip(self.sides, watch.connections):
                connection.send(request.encode(side))
        elif watch.open() and half_close and watch.behind is None:
            self.half_close(watch)
            return
        else:
            return
        answers = []
        for connection in watch.connections:
            try:
                answers.append(connection.read("GET", PATIENCE_S))
            except (wire.Closed, wire.Garbled, OSError) as error:
                answers.append(Refused("%s: %s" % (type(error).__name__, error)))
        text = compare.difference(side_a, side_b, request, *answers)
        if text is not None:
            self.report("after the watch of request %d: %s" % (watch.number, request.curl(side_b)),
                        answers, self.sent, text)

    def half_close(self, watch):
        """Half-closes the connections, which ends the watch on both sides."""
        for connection, answer in zip(watch.connections, watch.answers):
            connection.socket.shutdown(1)
            try:
                connection.finish(answer, PATIENCE_S)
            except (wire.Closed, wire.Garbled, OSError):
                pass
        text = compare.difference(*self.sides, watch.request, *watch.answers)
        if text is not None:
            self.report("half-closed: " + watch.request.curl(self.sides[1]), watch.answers,
                        watch.number, text)

    # -- expiry ------------------------------------------------------------------------------------

    def expiry(self):
        """Makes nodes with short TTLs quickly; sends nothing until both sides have expired them."""
        opened = []
        for _ in range(self.rng.randrange(0, 5)):
            self.open_watch(opened)
        for name in sorted(set(generate.NAMES)):
            if self.generator.chance(30):
                path = b"/v2/keys/" + name.encode() + b"/k"
                self.ask(self.generator.plain("PUT", path, [(b"value", b"v")]))
        began = time.monotonic()
        for _ in range(self.rng.randrange(4, 16)):
            if self.resync:
                break
            turn = self.rng.random()
            if turn < 0.75:
                self.ask(self.generator.mortal())
            elif turn < 0.85:
                self.open_watch(opened)
            else:
                request = self.generator.get(odd=0)
                self.ask(request)
        if self.generator.chance(50) and not self.resync:
            self.ask(self.generator.doomed())
        if time.monotonic() - began > BURST_S:
            # The machine was slow: the order in which the nodes expire is not certain.
            self.stalls += 1
            for watch in opened:
                watch.close()
            self.wait_expired()
            self.rebase()
            return
        gone = self.wait_expired()
        if not self.resync:
            self.tree()
        for _ in range(self.rng.randrange(0, 4) if gone else 0):
            # Watches from past indexes send the expirations that the history holds.
            index = b"{{B%+d}}" % max(1, self.model.index - self.rng.randrange(0, 6))
            request = Request("GET", b"/v2/keys/", b"wait=true&recursive=true&waitIndex=" + index)
            request.wait_index = index
            self.open_watch(opened, request)
        self.collect(opened)

    def wait_expired(self):
        """Waits until all nodes with a short TTL are gone on both sides. False: some are left."""
        deadline = time.monotonic() + PATIENCE_S
        while self.mortals and time.monotonic() < deadline:
            self.mortals = {key: True for key in self.mortals
                            if any(self.is_mortal(side, key) for side in self.sides)}
            if self.mortals:
                time.sleep(0.04)
        left = sorted(self.mortals)
        self.mortals.clear()
        return not left

    @staticmethod
    def is_mortal(side, key):
        answer = side.get(side.render(b"/v2/keys" + key))
        if answer.status != 200:
            return False
        node = json.loads(bytes(answer.body))["node"]
        return "expiration" in node and node.get("ttl", 0) < MORTAL_S

    # -- the whole ---------------------------------------------------------------------------------

    def phase(self):
        """The next kind of phase. Expiry takes real time, so it is rare."""
        turn = self.rng.random() * 1000
        for share, phase in (
                (420, self.plain), (70, self.pipeline), (330, self.watches), (50, self.pages),
                (50, self.odd_http), (15, self.tree), (40, self.expiry), (25, self.auth)):
            if turn < share:
                return phase
            turn -= share
        return self.plain

    def go(self):
        for _ in range(self.args.shift):
            self.sides[1].get("/v2/keys/shift", "PUT")
        self.rebase()
        try:
            while self.sent < self.args.requests:
                self.phase()()
                if not self.resync:
                    self.index()
                if self.resync:
                    self.rebase()
            self.tree()
        except StopIteration:
            print("stopped after %d differences" % self.differences)
        for side in self.sides:
            side.close()
        if self.trace:
            self.trace.close()


def escape(name, safe=""):
    return urllib.parse.quote_from_bytes(name, safe).encode()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--a", choices=("etcd", "rdzvd", "relay"), default="etcd")
    parser.add_argument("--b", choices=("etcd", "rdzvd", "relay"), default="rdzvd")
    parser.add_argument("--shift", type=int, default=7,
                        help="changes made on b first, so that no two indexes are equal by chance")
    parser.add_argument("--trace", help="write every request to this file")
    args = parser.parse_args()

    began = time.monotonic()
    print("differential: %s against %s, seed %d" % (args.a, args.b, args.seed), flush=True)
    with peers.start(args.a) as first, peers.start(args.b) as second:
        run = Run([first, second], args)
        run.go()
    print("differential: %d requests, seed %d: %d differences (%.0f s, %d stalled phases)" % (
        run.sent, args.seed, run.differences, time.monotonic() - began, run.stalls))
    print("%d passed, %d failed" % (run.sent - run.differences, run.differences))
    return 1 if run.differences else 0


if __name__ == "__main__":
    sys.exit(main())
