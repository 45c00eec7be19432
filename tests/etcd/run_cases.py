#!/usr/bin/env python3
"""Replays the recorded conformance cases of etcd's v2 API (cases.json) against a fresh server.

The cases were recorded from etcd 3.4.23. Each has steps before the index B is taken (`pre`), steps
after (`setup`), the request itself, steps sent while it is open (`during`), what it must answer
(`expect`) and steps that tidy (`teardown`). Placeholders in both directions: {{B+n}} an index,
{{SEQ+n}} the same as 20 digits, {{EXP}} an expiration time, {{TTL+n}} n or n-1, {{NUM}}, {{HEX}},
{{ANY}} text without quotes, {{URLS}} JSON strings, {{REST}} anything.

    run_cases.py [--server rdzvd|etcd] [--only N,M] [--quick]
"""

import argparse
import json
import os
import re
import sys
import time

import normal
import peers
import wire

PLACEHOLDER = re.compile(r"\{\{(B|SEQ|TTL|EXP|NUM|HEX|ANY|URLS|REST)([+-]\d+)?\}\}")
PATTERNS = {
    "EXP": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{0,8}[1-9])?(?:Z|[+-]\d\d:\d\d)",
    "NUM": r"\d+",
    "HEX": r"[0-9a-f]+",
    "ANY": r'[^"]*',
    "URLS": r'"[^"]*"(?:,"[^"]*")*',
    "REST": r".*",
}
# When an answer must stay open, no more bytes may come for this long.
SILENCE_S = 0.15


def fill(text, base):
    """`text` with the placeholders that a request may have replaced."""
    def value(match):
        number = base + int(match.group(2) or 0)
        if match.group(1) == "B":
            return str(number)
        if match.group(1) == "SEQ":
            return "%020d" % number
        return match.group()
    return PLACEHOLDER.sub(value, text)


def pattern(text, base):
    """A regular expression for an expected text."""
    text = fill(text, base)
    out = []
    at = 0
    for match in PLACEHOLDER.finditer(text):
        out.append(re.escape(text[at:match.start()]))
        if match.group(1) == "TTL":
            ttl = int(match.group(2))
            out.append("(?:%d|%d)" % (ttl, ttl - 1))
        else:
            out.append(PATTERNS[match.group(1)])
        at = match.end()
    out.append(re.escape(text[at:]))
    return re.compile("".join(out), re.S)


class Runner:
    """Sends steps to one server, over one connection for as long as that lives."""

    def __init__(self, port):
        self.port = port
        self.connection = None

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def open(self):
        if self.connection is None or not self.connection.usable:
            self.close()
            self.connection = wire.Connection(self.port)
        return self.connection

    def send(self, connection, step, base):
        """Sends a request; with Expect: 100-continue the body waits for the interim answer."""
        headers = [(k, fill(v, base)) for k, v in step.get("headers", {}).items()]
        target = step["path"] + ("?" + step["query"] if step.get("query") is not None else "")
        body = step.get("body")
        if step.get("form") is not None:
            body = step["form"]
            headers.append(("Content-Type", wire.FORM))
        data = wire.encode(self.port, step["method"], fill(target, base), headers,
                           None if body is None else fill(body, base))
        if step.get("headers", {}).get("Expect", "").lower() != "100-continue":
            connection.send(data)
            return
        head, _, rest = data.partition(b"\r\n\r\n")
        connection.send(head + b"\r\n\r\n")
        answer = connection.interim()
        if answer.status != 100:
            raise wire.Garbled("no 100 Continue but %d" % answer.status)
        connection.send(rest)

    def step(self, step, base):
        """Carries out one step of setup or teardown; the last answer is returned."""
        if "sleep_ms" in step:
            time.sleep(step["sleep_ms"] / 1000)
            return None
        for _ in range(step.get("repeat", 1)):
            connection = self.open()
            self.send(connection, step, base)
            answer = connection.read(step["method"])
        return answer

    def index(self):
        return self.step({"method": "GET", "path": "/v2/keys/"}, 0).index()

    def run(self, case):
        """Carries out a case and returns what was wrong, as a list of texts."""
        for step in case.get("pre", []):
            self.step(step, 0)
        base = self.index()
        if base is None:
            return ["no X-Etcd-Index to begin with"]
        for step in case["setup"]:
            self.step(step, base)
        try:
            with wire.Connection(self.port) as connection:
                self.send(connection, case["request"], base)
                answer = connection.begin(case["request"]["method"])
                for step in case.get("during", []):
                    self.step(step, base)
                self.collect(connection, answer, case, base)
                return self.compare(answer, case, base)
        except (wire.Closed, wire.Garbled, TimeoutError) as error:
            return ["an answer expected, got %s: %s" % (type(error).__name__, error)]
        finally:
            for step in case.get("teardown", []):
                self.step(step, base)

    @staticmethod
    def collect(connection, answer, case, base):
        """Reads the body to its end. When it must stay open, reads what it must hold, and what
        comes within SILENCE_S after that."""
        if case["expect"].get("complete", True):
            connection.finish(answer)
            return
        want = pattern(case["expect"].get("body", ""), base)
        deadline = time.monotonic() + connection.timeout
        while not want.fullmatch(bytes(answer.body).decode("utf-8", "replace")):
            if answer.complete or time.monotonic() > deadline or not connection.poll(answer, 5):
                return
        connection.poll(answer, SILENCE_S)

    @staticmethod
    def compare(answer, case, base):
        expect = case["expect"]
        wrong = []
        if answer.status != expect["status"]:
            wrong.append("status %d expected, got %d" % (expect["status"], answer.status))
        for name, value in expect["headers"].items():
            got = answer.header(name)
            if value is None:
                if got is not None:
                    wrong.append("no %s expected, got %r" % (name, got))
            elif got is None or not pattern(value, base).fullmatch(got):
                wrong.append("%s: %s expected, got %r" % (name, fill(value, base), got))
        if "body" in expect:
            want = expect["body"]
            got = bytes(answer.body).decode("utf-8", "backslashreplace")
            if case.get("unordered"):
                want, got = normal.sort_nodes(fill(want, base)), normal.sort_nodes(got)
            if not pattern(want, base).fullmatch(got):
                wrong.append("body %r expected, got %r" % (fill(want, base), got))
        if answer.complete != expect.get("complete", True):
            wrong.append("an answer that %s expected" % (
                "stays open" if answer.complete else "ends"))
        return wrong


def sleeps(case):
    return any("sleep_ms" in step for part in ("pre", "setup", "during", "teardown")
               for step in case.get(part, []))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", choices=("rdzvd", "etcd", "relay"), default="rdzvd")
    parser.add_argument("--only", help="case numbers, separated by commas")
    parser.add_argument("--quick", action="store_true", help="leave out what waits for time")
    args = parser.parse_args()

    with open(os.path.join(peers.HERE, "cases.json"), encoding="utf-8") as file:
        cases = json.load(file)
    if args.only:
        only = {int(n) for n in args.only.split(",")}
        cases = [case for case in cases if case["n"] in only]
    if args.quick:
        cases = [case for case in cases if not sleeps(case)]

    failed = 0
    with peers.start(args.server) as server:
        runner = Runner(server.port)
        for case in cases:
            try:
                wrong = runner.run(case)
            except (wire.Closed, wire.Garbled, OSError) as error:
                runner.close()
                wrong = ["a step of it failed: %s: %s" % (type(error).__name__, error)]
            if wrong:
                failed += 1
                print("case %d (%s): %s" % (case["n"], case["name"], "; ".join(wrong)), flush=True)
        runner.close()
    print("%d passed, %d failed" % (len(cases) - failed, failed))
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
