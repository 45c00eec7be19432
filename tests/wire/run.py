#!/usr/bin/env python3
"""Acts out *.wire files against a server, and says which cases held.

    run.py [FILE.wire | FILE.wire:CASE | FILE.wire:CASE@CUT]...

Without files: all beside this program. Each file gets a daemon of its own, and each case in it a
listener and space of its own; the daemon must outlive the cases and exit 0 on SIGTERM. script.py
explains the language (also: run.py --language).
"""

import argparse
import glob
import os
import re
import shlex
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

import script as wire  # noqa: E402
import servers         # noqa: E402
from c10d import NONCE, modern       # noqa: E402
from stage import Connection, Unmet  # noqa: E402

# What a server can be besides ours: how long silence must last to count. Another server may have
# threads, or may stall on a half request (torch's legacy one does), so that an answer on another
# connection proves nothing about it.
FOREIGN_SILENCE = 0.15

PING = wire.to_bytes("\x0d")

# Requests in scripts name whatever host they like, and show <TOKEN> to be an operator's.
FLAGS = ["--host-whitelist=*", servers.token_flag()]


class Daemon(servers.Server):
    """The server of one file, with a listener for each of `spaces`."""

    def __init__(self, command, spaces, flags):
        argv = command + [part for space in spaces for part in
                          ("--listen", "127.0.0.1:0/" + space)]
        super().__init__(argv + FLAGS + flags)
        try:
            found = self.wait_log(r"event=listening .*", timeout=60, count=len(spaces))
        except AssertionError:
            self.stop(signal.SIGKILL)
            raise
        self.ports = {}
        for match in found:
            port = re.search(r"address=\S+:(\d+)", match.group(0)).group(1)
            space = re.search(r"space=(\S+)", match.group(0)).group(1)
            self.ports[space] = int(port)


class Fixed:
    """A server that runs already: one address, one space, no log."""

    def __init__(self, port):
        self.port = port

    @property
    def ports(self):
        return self

    def __getitem__(self, _space):
        return self.port


class Play:
    """One run of one case."""

    def __init__(self, options, daemon, case, cut=None):
        self.options, self.daemon, self.case, self.cut = options, daemon, case, cut
        self.env = {"SPACE": space_of(case), "TOKEN": servers.OPERATOR["Authorization"]}
        self.connections, self.open, self.control = {}, [], None

    def connect(self, space=None):
        earlier = 0 if self.options.foreign or self.options.connect else len(self.daemon.lines)
        a = Connection((self.options.host, self.daemon.ports[space or space_of(self.case)]),
                       self.options.patience)
        a.earlier = earlier  # lines of the log about connections of other cases, which may have had the same port
        return a

    def sync(self, pause=FOREIGN_SILENCE):
        """Returns when the server has read what was sent. Ours is one loop: a PING that it answers
        in one turn, and another in a later one, came after the bytes that were there before."""
        if self.options.foreign:
            time.sleep(pause)
            return
        if self.control is None:
            self.control = self.connect()
            self.control.send(modern.hello())
            self.control.expect([NONCE])
        for nonce in (b"one.", b"two."):
            self.control.send(PING + nonce)
            self.control.expect([nonce])

    def run(self):
        try:
            for statement in self.case.statements:
                try:
                    self.act(statement)
                except (Unmet, ValueError, OSError, AssertionError) as error:
                    raise Failure(statement, error) from None
            self.expect_quiet_end()
        finally:
            for connection in list(self.connections.values()) + [self.control]:
                if connection is not None:
                    connection.close()

    def expect_quiet_end(self):
        if not self.open:
            return
        self.sync()
        for who in self.open:
            try:
                self.connections[who].expect_nothing(0)
            except Unmet as error:
                end = wire.Statement(self.case.statements[-1].line, "(end of the case)", who, "end")
                raise Failure(end, "%s: %s" % (who, error)) from None

    def act(self, statement):
        verb, who, what = statement.verb, statement.who, statement.what
        if verb == "sync":
            return self.sync()
        if verb == "open":
            return self.open_connection(who, what)
        if who not in self.connections:
            raise ValueError("%s was never opened" % who)
        a = self.connections[who]

        if verb == ">":
            a.send(what(self.env))
        elif verb == ">>":
            for byte in what(self.env):
                a.send(bytes([byte]))
                self.sync(pause=0.002)
        elif verb == ">|":
            data = what(self.env)
            if self.cut is not None:
                a.send(data[:self.cut])
                self.sync(pause=0.002)
                data = data[self.cut:]
            a.send(data)
        elif verb == "<":
            a.expect([choice(self.env) for choice in what])
        elif verb == "<nothing":
            self.sync()
            a.expect_nothing(0 if self.options.foreign else self.options.silence)
        elif verb in ("<closed", "<cut"):
            a.expect_closed(skip=verb == "<cut")
            self.open.remove(who)
        elif verb == "<http":
            for _ in range(what.times):
                a.expect_http(what, self.env)
        elif verb == "<event":
            glob, last = what
            a.expect_event(glob, self.env)
            if last:
                a.expect_end()
        elif verb == "<end":
            a.expect_end()
        elif verb == "log":
            self.expect_log(a, what)
        else:
            {"half-close": a.half_close, "close": a.close, "reset": a.reset}[verb]()
            if verb != "half-close" and who in self.open:
                self.open.remove(who)

    def open_connection(self, who, args):
        if who in self.open:
            raise ValueError("%s is open already" % who)
        a = self.connect(args[1] if args and args[0] == "at" else None)
        self.connections[who] = a
        self.open.append(who)
        if args == ["modern"]:
            a.send(modern.hello())
            a.expect([NONCE])

    def expect_log(self, a, pattern):
        if self.options.foreign or self.options.connect:
            return
        about_a = re.compile(r"%s\b" % re.escape(a.name))

        def lines():
            return [line for line in self.daemon.log().split("\n")[a.earlier:] if about_a.search(line)]

        if pattern is None:
            # A later line of another peer shows that all earlier lines have been read from the pipe.
            self.sync()
            mark = self.connect()
            mark.send(b"\x7f")
            mark.expect_closed()
            mark.close()
            self.daemon.wait_log(r"%s\b" % re.escape(mark.name), self.options.patience, since=mark.earlier)
            if lines():
                raise Unmet("no line about %s in the log" % a.name, "\n".join(lines()))
            return
        try:
            self.daemon.wait_log(r"%s\b" % re.escape(a.name), self.options.patience, since=a.earlier)
        except AssertionError:
            pass
        if not any(pattern.match(line.encode("latin-1", "replace"), self.env) for line in lines()):
            raise Unmet("a line about %s like %s" % (a.name, pattern),
                        "\n".join(lines()) or "none in\n" + self.daemon.log()[-2000:])


class Failure(Exception):
    def __init__(self, statement, error):
        super().__init__(str(error))
        self.statement, self.error = statement, error


def space_of(case):
    return case.id


class Runner:
    def __init__(self, options):
        self.options = options
        self.passed = self.failed = self.skipped = 0

    def again(self, script, case=None, cut=None):
        """The command that runs only this again."""
        what = os.path.relpath(script.path)
        if case is not None:
            what += ":" + case.id + ("@%d" % cut if cut is not None else "")
        argv = ["python3", os.path.relpath(os.path.join(HERE, "run.py"))]
        for name in ("server", "connect", "wrapper"):
            value = getattr(self.options, name)
            if name == "server" and not value and not self.options.connect:
                value = os.environ.get("RDZVD")
            if value:
                argv += ["--" + name, value]
        if self.options.foreign:
            argv += ["--as", getattr(self.options, "as")]
        return shlex.join(argv + [what])

    def fail(self, where, lines, again):
        self.failed += 1
        print("FAIL %s" % where)
        for line in lines:
            print("    " + line.replace("\n", "\n        "))
        print("    again:    %s" % again, flush=True)

    def start(self, script, cases):
        if self.options.connect:
            return Fixed(self.options.port)
        command = shlex.split(self.options.wrapper) + shlex.split(
            self.options.server or servers.rdzvd_binary())
        spaces = [space_of(case) for case in cases] + script.spaces
        return Daemon(command, spaces, script.flags)

    def run_script(self, script, only, cut):
        cases = [case for case in script.cases if only in (None, case.id)]
        if only is not None and not cases:
            raise SystemExit("%s has no case %s" % (script.path, only))
        if self.options.foreign:
            meant = [c for c in cases if getattr(self.options, "as") in c.also]
            self.skipped += len(cases) - len(meant)
            cases = meant
        if not cases:
            return
        try:
            daemon = self.start(script, cases)
        except (AssertionError, OSError) as error:
            return self.fail(script.path, ["the daemon does not start: %s" % error],
                             self.again(script))
        try:
            for case in cases:
                self.run_case(script, daemon, case, cut)
        finally:
            if not self.options.connect:
                self.stop(script, daemon)

    def run_case(self, script, daemon, case, cut):
        where, started = "%s:%d: %s" % (
            os.path.relpath(script.path), case.line, case.id), time.monotonic()
        cuts = [cut]
        statement = case.cut_statement()
        if statement is not None and cut is None:
            try:
                # Its length must not depend on variables; the rest may.
                cuts = range(1, len(statement.what(ANY_NUMBER)))
            except ValueError as error:
                return self.fail(where, [str(error)], self.again(script, case))
        for cut in cuts:
            try:
                Play(self.options, daemon, case, cut).run()
            except Failure as failure:
                at = failure.statement
                where = "%s:%d: %s" % (os.path.relpath(script.path), at.line, case.id)
                lines = ["%s: %s" % (case.id, case.title), at.text]
                if isinstance(failure.error, Unmet):
                    lines += ["expected: %s" % failure.error.expected,
                              "got:      %s" % failure.error.got]
                else:
                    lines += ["error:    %s" % failure.error]
                if cut is not None:
                    lines.append("cut:      after %d bytes" % cut)
                return self.fail(where, lines, self.again(script, case, cut))
        self.passed += 1
        if self.options.verbose:
            print("ok   %s %s (%.0f ms)" % (where, case.title,
                                            1000 * (time.monotonic() - started)), flush=True)

    def stop(self, script, daemon):
        """The daemon must survive all cases; if it did not, its log says more than the failed cases."""
        code = daemon.process.poll()
        if code is not None:
            problem = "the daemon ended with %d" % code
        else:
            try:
                code = daemon.stop(timeout=max(20, self.options.patience))
                problem = "the daemon's exit code on SIGTERM is %d" % code
            except AssertionError as error:
                problem = str(error)
        if code != 0:
            self.fail(script.path, [problem, "its log ends:\n" + daemon.log()[-3000:]],
                      self.again(script))


class AnyNumber(dict):
    def __contains__(self, _name):
        return True

    def __missing__(self, _name):
        return "1"


ANY_NUMBER = AnyNumber()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--language", action="store_true", help="explain *.wire files and exit")
    parser.add_argument("--server", help="a command that takes rdzvd's --listen (default: $RDZVD, "
                        "else build/rdzv/rdzvd)")
    parser.add_argument("--connect", metavar="HOST:PORT", help="a server that runs already; "
                        "all cases share it, so name the one to run")
    parser.add_argument("--wrapper", default="", help="a command in front of the server's")
    parser.add_argument("--as", metavar="PEER", help="run only the cases that say also: PEER, and "
                        "take the server for that (peers.py: torch-1.13, etcd, ...)")
    parser.add_argument("--patience", type=float, help="seconds an answer may take "
                        "(default 10; 60 with --wrapper, 30 with --as)")
    parser.add_argument("--silence", type=float, default=0.01, help="seconds that `nothing` "
                        "listens on after the server has read all (default 0.01)")
    parser.add_argument("--verbose", "-v", action="store_true", help="name each case")
    parser.add_argument("files", nargs="*", metavar="FILE[:CASE[@CUT]]")
    options = parser.parse_args()
    options.foreign = getattr(options, "as") is not None
    if options.patience is None:
        # torch's libuv server reads lists in quadratic time; both look up names as they accept.
        options.patience = 60 if options.wrapper else 30 if options.foreign else 10
    options.host = "127.0.0.1"
    if options.connect:
        host, _, port = options.connect.rpartition(":")
        options.host, options.port = host.strip("[]"), int(port)
    return options


def main():
    options = arguments()
    if options.language:
        print(wire.__doc__)
        return 0
    runner = Runner(options)
    for name in options.files or sorted(glob.glob(os.path.join(HERE, "*.wire"))):
        match = re.fullmatch(r"(.*?)(?::([A-Za-z0-9-]+)(?:@(\d+))?)?", name)
        path, only, cut = match.groups()
        try:
            script = wire.read_script(path)
        except (wire.ScriptError, OSError) as error:
            raise SystemExit(str(error))
        runner.run_script(script, only, int(cut) if cut else None)
    if runner.skipped:
        print("%d cases are not for %s" % (runner.skipped, getattr(options, "as")))
    print("%d passed, %d failed" % (runner.passed, runner.failed))
    return 1 if runner.failed or not runner.passed else 0


if __name__ == "__main__":
    sys.exit(main())
