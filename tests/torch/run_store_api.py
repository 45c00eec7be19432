"""Runs store_api.py with each installed torch against a fresh server of its own.

    run_store_api.py [--server rdzvd|relay|peer] [--torch NAME]... [--all] [--case WORD]

The peer is torch's own TCPStore server of the same release; a relay is rdzvd with --upstream, in front
of a store with a data directory. $RDZVD names the daemon under test.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

import torches

sys.path.insert(0, os.path.join(torches.ROOT, "tests", "support"))
from servers import Rdzvd  # noqa: E402

LIMIT_SECONDS = 900


class PeerStore:
    """torch's own server, in a process that ends when its stdin does."""

    def __init__(self, torch, *where, wrapper=()):
        self.process = subprocess.Popen(
            list(wrapper) + torch.python + [os.path.join(torches.HERE, "peer_store.py"), *where],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=torch.environment())
        line = self.process.stdout.readline()
        match = re.match(r"port (\d+) backend (\w+)", line)
        if not match:
            self.stop()
            raise AssertionError("torch %s hosts no store: %r" % (torch.name, line))
        self.port, self.backend = int(match.group(1)), match.group(2)

    def stop(self):
        self.process.stdin.close()
        self.process.stdout.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def log(self):
        return ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Relay(Rdzvd):
    """A relay, and the store that it is in front of."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.store = Rdzvd("--data-dir=" + self.folder.name)
        super().__init__("--upstream=127.0.0.1:%d" % self.store.port)

    def stop(self, *args, **kwargs):
        code = super().stop(*args, **kwargs)
        below = self.store.stop()
        self.folder.cleanup()
        return code or below

    def log(self):
        return super().log() + "\n" + self.store.log()


SERVERS = {"rdzvd": Rdzvd, "relay": Relay}


def guard(child):
    """Ends the group of processes of `child` when it has ended, or its time has."""
    try:
        child.wait(LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        print("ended after %d s" % LIMIT_SECONDS, flush=True)
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run(torch, server_kind, word):
    """Whether every case passed with this release, and the three counts."""
    ours = server_kind in SERVERS
    with (SERVERS[server_kind]() if ours else PeerStore(torch)) as server:
        against = "rdzvd" if ours else "torch"
        argv = torch.python + [os.path.join(torches.HERE, "store_api.py"), "127.0.0.1",
                               str(server.port), "--against", against]
        if word:
            argv += ["--case", word]
        print("== torch %s against %s" % (torch.name, server_kind if ours else
                                          "its own server (%s)" % server.backend), flush=True)
        child = subprocess.Popen(argv, env=torch.environment(), text=True, errors="replace",
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 start_new_session=True)
        threading.Thread(target=guard, args=(child,), daemon=True).start()
        counts = None
        for line in child.stdout:  # ends when the whole group has
            print(line, end="", flush=True)
            counts = re.search(r"(\d+) passed, (\d+) failed, (\d+) skipped", line) or counts
        child.wait()
        passed, failed, skipped = map(int, counts.groups()) if counts else (0, 1, 0)
        if child.returncode != 0:
            failed = max(failed, 1)
            print("-- torch %s: exit code %d. Again: %s" % (
                torch.name, child.returncode, " ".join(
                    [sys.executable, __file__, "--server", server_kind, "--torch", torch.name])))
            print("\n".join("   server: " + l for l in server.log().splitlines()[-60:]), flush=True)
        if ours:
            code = server.stop()
            if code != 0:
                failed += 1
                print("-- rdzvd ended with %d on SIGTERM:\n%s" % (code, server.log()), flush=True)
    return passed, failed, skipped


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", choices=("rdzvd", "relay", "peer"), default="rdzvd")
    parser.add_argument("--torch", action="append", help="%s; repeatable" % ", ".join(torches.ALL))
    parser.add_argument("--all", action="store_true", help="every release, not only the usual two")
    parser.add_argument("--case", default="", help="only cases with this in their name")
    options = parser.parse_args()

    results = [run(torch, options.server, options.case)
               for torch in torches.choose(options.torch, options.all)]
    passed, failed, skipped = map(sum, zip(*results))
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
