"""Runs rdzvctl, and jobs of scripted agents for it: what the cases of ctl.py share."""

import contextlib
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("support", "elastic"):
    sys.path.insert(0, os.path.join(HERE, "..", folder))
from agents import meet  # noqa: E402
from cases import check  # noqa: E402
from servers import ROOT, Rdzvd, rdzvd_binary, token_flag  # noqa: E402


BUILD = os.path.dirname(os.path.dirname(os.path.abspath(rdzvd_binary())))
RDZVCTL = os.path.join(BUILD, "client", "rdzvctl")
TOKEN = os.path.join(ROOT, "tests", "support", "operator.token")
FINE, MISSING, USAGE, UNREACHABLE, REFUSED, FAILED, UNKNOWN = range(7)


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("RDZVCTL_", "NO_COLOR"))}
    return dict(env, TERM="xterm", **more)


def rdzvctl(*args, server=None, code=FINE, stdin=b"", **env):
    """What it printed on stdout, and on stderr. The exit code has to be `code`."""
    argv = [RDZVCTL] + (["-s", "127.0.0.1:%d" % server.port] if server else []) + list(args)
    done = subprocess.run(argv, input=stdin, capture_output=True, timeout=120,
                          env=environment(**env))
    out, err = done.stdout, done.stderr.decode()
    check(done.returncode == code, "%s: exit %d, not %d\n%s%s" % (
        " ".join(args), done.returncode, code, out.decode(errors="replace"), err))
    return out.decode(errors="replace"), err


def has(text, *wanted):
    for word in wanted:
        check(word in text, "no %r in:\n%s" % (word, text))


def lines_in_order(text, *wanted):
    at = 0
    for word in wanted:
        found = text.find(word, at)
        check(found >= 0, "no %r behind character %d of:\n%s" % (word, at, text))
        at = found


@contextlib.contextmanager
def job(names, *flags):
    """A daemon, and the agents of a complete round in it."""
    with Rdzvd(token_flag(), *flags) as daemon:
        agents = meet(daemon.port, "JOB", names)
        yield daemon, agents
        for agent in agents:
            agent.close()
