#!/usr/bin/env python3
"""Runs etcdctl's whole v2 command set against two servers and compares what it prints.

    etcdctl.py [--a etcd] [--b rdzvd]

Each step runs `etcdctl` with ETCDCTL_API=2 (3.4's own) on both servers; its output, its errors and
its exit code must be the same once indexes, times, ids and addresses are taken out, and the exit
code must be the one that stands here. In arguments @index:/key@ is the key's modifiedIndex, @now@
the current index and @member@ the member's id on that server.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import compare
import peers
import wire

ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("ETCD")}
ENVIRONMENT["ETCDCTL_API"] = "2"

TTL = re.compile(r'(TTL: |"ttl":)(-?\d+)')
EXPIRATION = re.compile(r'"expiration":"[^"]+"')
INDEX = re.compile(r'(Created-Index: |Modified-Index: |PrevNode\.Index: |index |Index": ?|"index":|'
                   r'"(?:created|modified)Index":|MODIFIED_INDEX=)(\d+)')
AT_INDEX = re.compile(r"\[(\d+)\](?=\n|$)")
COMPARED = re.compile(r"\[(\d+) != (\d+)\]")
CLEARED = re.compile(r"\[(\d+)/(\d+)\]")


class Step:
    """One command: its arguments, its expected exit code, and its input."""

    def __init__(self, *args, code=0, stdin="", unordered=False, own_words=False, options=()):
        self.args = list(args)
        self.code = code
        self.stdin = stdin
        self.unordered = unordered
        self.own_words = own_words  # of an error, which rdzvd explains in words of its own
        self.options = list(options)


class During:
    """A command that waits, and the steps during its wait. The command ends by itself, or is killed after `lines` lines
    of output."""

    def __init__(self, step, *meanwhile, lines=None, waits=True):
        self.step = step
        self.meanwhile = meanwhile
        self.lines = lines
        self.waits = waits  # for a change to come, and so is seen as a watcher


class Writes:
    """Many changes of one key, past etcdctl: it would take too long."""

    def __init__(self, key, count):
        self.key = key
        self.count = count


def fails(*args, code=4, **kwargs):
    return Step(*args, code=code, **kwargs)


USER = ["-u", "al:pw"]
STEPS = [
    Step("ls"),
    Step("ls", "/", options=["-o", "json"]),
    # set, get
    Step("set", "/k", "one"),
    Step("get", "/k"),
    Step("get", "k"),
    Step("get", "/k", "--quorum"),
    Step("get", "/k", options=["-o", "extended"]),
    Step("get", "/k", options=["-o", "json"]),
    Step("get", "/k", options=["--no-sync"]),
    Step("get", "/k", options=["--debug"]),
    Step("set", "/k", "two"),
    Step("set", "/k", "two", options=["-o", "extended"]),
    Step("set", "/k", "two", options=["-o", "json"]),
    Step("set", "/k", stdin="from the input\nsecond line\n"),
    Step("set", "--", "/k", "-dash"),
    Step("set", "/k", ""),
    Step("set", "/k", "\u00e9 <&> \"quoted\" 100% a+b"),
    Step("get", "/k", options=["-o", "json"]),
    Step("set", "/k with space/\u00e9", "1"),
    Step("get", "/k with space/\u00e9"),
    Step("set", "/t", "1", "--ttl", "1000"),
    Step("get", "/t", options=["-o", "extended"]),
    Step("get", "/t", options=["-o", "json"]),
    fails("get", "/none"),
    fails("get", "/none", options=["-o", "json"]),
    fails("get", code=1),
    fails("set", "/k", code=1),
    fails("set", "/k/x", "1"),
    fails("set", "/", "1"),
    # swaps
    Step("set", "/s", "1"),
    Step("set", "/s", "2", "--swap-with-value", "1"),
    fails("set", "/s", "3", "--swap-with-value", "1"),
    Step("set", "/s", "3", "--swap-with-index", "@index:/s@"),
    fails("set", "/s", "4", "--swap-with-index", "1"),
    Step("set", "/s", "4", "--swap-with-value", "3", "--ttl", "500"),
    fails("set", "/none", "4", "--swap-with-value", "3"),
    # mk, update
    Step("mk", "/m", "1"),
    fails("mk", "/m", "1"),
    Step("mk", "/m2", stdin="input"),
    Step("mk", "/m3", "1", "--ttl", "1000"),
    Step("mk", "/q", "first", "--in-order"),
    Step("mk", "/q", "second", "--in-order", options=["-o", "extended"]),
    Step("mk", "/q", "third", "--in-order", "--ttl", "1000", options=["-o", "json"]),
    Step("ls", "/q", "--sort"),
    Step("update", "/m", "2"),
    Step("update", "/m", "3", "--ttl", "1000", options=["-o", "extended"]),
    Step("update", "/m", stdin="input"),
    fails("update", "/none", "1"),
    fails("mk", "/m/x", "1"),
    # directories
    Step("mkdir", "/d"),
    fails("mkdir", "/d"),
    Step("mkdir", "/dt", "--ttl", "1000"),
    Step("mkdir", "/dj", options=["-o", "json"]),
    Step("setdir", "/e"),
    fails("setdir", "/e", "--ttl", "1000"),
    Step("updatedir", "/e", "--ttl", "2000"),
    fails("updatedir", "/none", "--ttl", "1000"),
    Step("updatedir", "/d", "x"),
    fails("get", "/d", code=1),
    fails("set", "/d", "1"),
    fails("update", "/d", "1"),
    fails("get", "/d", "--sort", code=1),
    Step("set", "/d/b", "1"),
    Step("set", "/d/a", "1"),
    Step("set", "/d/sub/x", "1"),
    Step("set", "/d/_hidden", "1"),
    Step("ls", "/d", unordered=True),
    Step("ls", "/d", "--sort"),
    Step("ls", "/d", "--sort", "--recursive"),
    Step("ls", "/d", "--sort", "--recursive", "-p"),
    Step("ls", "/d", "--sort", "-p", "--quorum"),
    Step("ls", "/d", "--sort", "--recursive", options=["-o", "json"]),
    Step("ls", "/d", "--sort", options=["-o", "extended"]),
    Step("ls", "--sort", "--recursive", "-p"),
    Step("ls", "/d/a"),
    Step("ls", "/d/", unordered=True),
    fails("ls", "/none"),
    # rm, rmdir
    fails("rm", "/none"),
    fails("rm", "/d"),
    fails("rm", "/d", "--dir"),
    fails("rmdir", "/d"),
    Step("rmdir", "/dj"),
    Step("rm", "/dt", "--dir"),
    fails("rm", "/m", "--with-value", "no"),
    fails("rm", "/m", "--with-index", "1"),
    Step("rm", "/m", "--with-index", "@index:/m@"),
    Step("rm", "/m2", "--with-value", "input"),
    Step("rm", "/m3", options=["-o", "json"]),
    Step("rm", "/s", options=["-o", "extended"]),
    Step("rm", "/d", "--recursive"),
    Step("rmdir", "/k"),
    fails("rm", "/", "--recursive"),
    fails("rm", code=1),
    # watch, exec-watch
    During(Step("watch", "/w"), Step("set", "/w", "1")),
    During(Step("watch", "/w", options=["-o", "extended"]), Step("set", "/w", "2")),
    During(Step("watch", "/w", options=["-o", "json"]), Step("set", "/w", "3")),
    During(Step("watch", "/w", "--recursive"), Step("set", "/other", "1"),
           Step("set", "/w2/a", "1"), Step("rm", "/w")),
    During(Step("watch", "/wd", "--recursive"), Step("set", "/wd/a/b", "1")),
    During(Step("watch", "/wd/a/b"), Step("rm", "/wd/a/b")),
    During(Step("watch", "/w", "--forever"), Step("set", "/w", "1"),
           Step("set", "/w", "2", "--ttl", "1000"), Step("rm", "/w"), lines=3),
    During(Step("watch", "/wx"), Step("set", "/wx", "1", "--ttl", "1"), Step("get", "/wx")),
    During(Step("watch", "/wx", "--after-index", "@now@"), waits=True),
    Step("set", "/w", "past"),
    During(Step("watch", "/w", "--after-index", "@index:/w-1@"), waits=False),
    # Without options it takes the key last, whatever its usage says.
    During(Step("exec-watch", "printenv", "ETCD_WATCH_VALUE", "/w"),
           Step("set", "/w", "1"), lines=1),
    During(Step("exec-watch", "--recursive", "/w2", "--", "sh", "-c",
                "env | grep ^ETCD_WATCH | sort"),
           Step("set", "/w2/b", "1"), lines=4),
    fails("watch", code=1),
    fails("exec-watch", "/w", code=1),
    Writes("/history", 1100),
    fails("watch", "/w", "--after-index", "@index:/w@"),
    # the cluster
    Step("cluster-health"),
    Step("member", "list"),
    fails("member", "add", "x", "http://localhost:2380", code=1, own_words=True),
    fails("member", "add", "x", "nonsense", code=1),
    fails("member", "add", "x", "http://127.0.0.1:1/path", code=1),
    fails("member", "add", code=1),
    fails("member", "remove", "1234", code=1),
    fails("member", "remove", "@member@", code=1, own_words=True),
    fails("member", "update", "1234", "http://127.0.0.1:1", code=1),
    fails("member", "update", "@member@", "nonsense", code=1),
    Step("--version"),
    fails("nonsense", code=3),
    # users, of whom there are none
    Step("user", "list"),
    Step("role", "list"),
    Step("role", "get", "root"),
    fails("role", "get", "none", code=1),
    fails("user", "get", "none", code=1),
    Step("set", "/k", "1", options=USER),
    Step("get", "/k", options=USER),
    Step("ls", "--recursive", "--sort", "/", options=USER),
    Step("rm", "/k"),
    Step("ls", "--sort", "--recursive", "-p"),
]


class Outcome:
    """What a command did, with the server's own numbers taken out."""

    def __init__(self, target, step, code, out, err):
        self.code = code
        self.raw = "exit %s\n%s%s" % (code, out, err)
        self.ttls = []
        self.out = self._plain(target, out)
        if step.unordered:
            self.out = "\n".join(sorted(self.out.split("\n")))
        self.err = "in own words" if step.own_words else self._plain(target, err)

    def _plain(self, target, text):
        def relative(match):
            return match.group(1) + target.relative(match.group(2))

        text = compare.OWN_URL.sub("URL", text)
        text = text.replace(target.member, "MEMBER")
        text = compare.SEQUENCE.sub(lambda m: "SEQ%+d" % (int(m.group()) - target.base), text)
        text = TTL.sub(self._ttl, text)
        text = EXPIRATION.sub('"expiration":"T"', text)
        text = COMPARED.sub(lambda m: "[%s != %s]" % tuple(
            target.relative(n) if int(n) > target.base else n for n in m.groups()), text)
        text = CLEARED.sub(lambda m: "[%s/%s]" % tuple(map(target.relative, m.groups())), text)
        text = AT_INDEX.sub(lambda m: "[%s]" % target.relative(m.group(1)), text)
        return INDEX.sub(relative, text)

    def _ttl(self, match):
        self.ttls.append(int(match.group(2)))
        return match.group(1) + "T"

    def same(self, other):
        return (self.code, self.out, self.err) == (other.code, other.out, other.err) and len(
            self.ttls) == len(other.ttls) and all(
                abs(x - y) <= 1 for x, y in zip(self.ttls, other.ttls))


class Target(compare.Side):
    """One server as etcdctl's endpoint."""

    def __init__(self, server):
        super().__init__(server)
        self.url = server.url
        self.base = self.index("/")
        self.member = self.json("/v2/members")["members"][0]["id"]

    def request(self, method, path, form=None):
        headers = [("Content-Type", wire.FORM)] if form is not None else []
        with wire.Connection(self.port) as connection:
            connection.send(wire.encode(self.port, method, path, headers, form))
            return connection.read(method)

    def json(self, path):
        return json.loads(bytes(self.request("GET", path).body))

    def index(self, key):
        answer = self.request("GET", "/v2/keys" + key)
        return answer.index() if key == "/" else json.loads(
            bytes(answer.body))["node"]["modifiedIndex"]

    def watchers(self):
        return self.json("/v2/stats/store")["watchers"]

    def fill(self, text):
        def index(match):
            return str(self.index(match.group(1)) + int(match.group(2) or 0))

        text = text.replace("@member@", self.member).replace("@now@", str(self.now()))
        return re.sub(r"@index:(/[a-z]+)([+-]\d+)?@", index, text)

    def now(self):
        return self.request("GET", "/v2/keys/").index()

    def command(self, step):
        return ["etcdctl", "--endpoints", self.url] + step.options + [
            self.fill(arg) for arg in step.args]

    def run(self, step):
        done = subprocess.run(self.command(step), input=step.stdin, capture_output=True, text=True,
                              env=ENVIRONMENT, timeout=60, check=False)
        return [Outcome(self, step, done.returncode, done.stdout, done.stderr)]

    def run_during(self, during):
        """The outcomes of the steps taken meanwhile, and then that of the command which waited."""
        before = self.watchers()
        with tempfile.TemporaryFile("w+") as err:
            process = subprocess.Popen(self.command(during.step), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=err, text=True,
                                       env=ENVIRONMENT)
            watchdog = threading.Timer(30, process.kill)
            watchdog.start()
            try:
                if during.waits and (during.meanwhile or during.lines):
                    self.wait_registered(before, process)
                outcomes = [self.run(step)[0] for step in during.meanwhile]
                if not during.meanwhile and during.waits:
                    self.wait_registered(before, process)
                    self.request("PUT", "/v2/keys" + during.step.args[1], "value=later")
                out = self.output(process, during.lines)
            finally:
                watchdog.cancel()
                process.stdout.close()
            err.seek(0)
            code = process.returncode
            if during.lines and out.count("\n") < during.lines:
                code = "none, but not all lines came in time"
            outcomes.append(Outcome(self, during.step, code, out, err.read()))
        return outcomes

    @staticmethod
    def output(process, lines):
        """All output of a command that ends by itself, else that many lines of it."""
        if lines is None:
            out = process.stdout.read()
            process.wait()
            return out
        out = "".join(process.stdout.readline() for _ in range(lines))
        process.send_signal(signal.SIGINT)
        process.wait()
        return out

    def wait_registered(self, before, process):
        deadline = time.monotonic() + 15
        while self.watchers() <= before and process.poll() is None:
            if time.monotonic() > deadline:
                raise AssertionError("%s: the watch was not registered" % self.name)
            time.sleep(0.01)

    def run_writes(self, writes):
        with wire.Connection(self.port) as connection:
            for _ in range(writes.count):
                connection.send(wire.encode(self.port, "PUT", "/v2/keys" + writes.key,
                                            [("Content-Type", wire.FORM)], "value=x"))
                connection.read("PUT")
        return []

    def take(self, item):
        if isinstance(item, During):
            return self.run_during(item)
        if isinstance(item, Writes):
            return self.run_writes(item)
        return self.run(item)


def steps_of(item):
    if isinstance(item, During):
        return [*item.meanwhile, item.step]
    return [item] if isinstance(item, Step) else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--a", choices=("etcd", "rdzvd", "relay"), default="etcd")
    parser.add_argument("--b", choices=("etcd", "rdzvd", "relay"), default="rdzvd")
    args = parser.parse_args()

    passed = failed = 0
    with peers.start(args.a) as first, peers.start(args.b) as second:
        targets = [Target(first), Target(second)]
        for item in STEPS:
            try:
                results = [target.take(item) for target in targets]
            except (AssertionError, KeyError, OSError, wire.Closed) as error:
                failed += 1
                print("etcdctl %r: could not be run: %s: %s" % (
                    [step.args for step in steps_of(item)], type(error).__name__, error))
                continue
            for step, one, other in zip(steps_of(item), *results):
                if one.same(other) and one.code == step.code:
                    passed += 1
                    continue
                failed += 1
                print("etcdctl %s: exit %d expected" % (
                    " ".join(map(repr, step.options + step.args)), step.code))
                for target, outcome in zip(targets, (one, other)):
                    print("  %s:" % target.name)
                    print("\n".join("    " + line for line in outcome.raw.rstrip("\n").split("\n")),
                          flush=True)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
