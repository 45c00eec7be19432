"""Starts the two servers that these tests compare, a real etcd and rdzvd."""

import contextlib
import json
import os
import re
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))

import servers  # noqa: E402
import wire  # noqa: E402

REPORT = re.compile(r"runtime error:|Sanitizer")

# Flags that rdzvd sets by itself only under the program name `etcd`.
AS_ETCD = ("--cors=*", "--host-whitelist=*")

# A real etcd syncs every write to disk: in a file system in memory that takes no time.
if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK):
    tempfile.tempdir = "/dev/shm"


@contextlib.contextmanager
def start(name):
    """The server called etcd or rdzvd, or relay, an rdzvd that has another one as its store; with
    `name`, `port` and `url`. It must exit with 0, and no sanitizer may report anything."""
    if name == "relay":
        with start("rdzvd") as store, servers.Rdzvd(
                *AS_ETCD, "--upstream=127.0.0.1:%d" % store.port) as server:
            yield from used(name, server)
    else:
        with (servers.Etcd() if name == "etcd" else servers.Rdzvd(*AS_ETCD)) as server:
            yield from used(name, server)


def used(name, server):
    server.name = name
    settle(server)
    yield server
    code = server.stop()
    # Sanitizers report undefined behaviour and leaks without ending the process at once.
    if name != "etcd" and (code != 0 or REPORT.search(server.log())):
        raise AssertionError("%s ended with %d; its last lines:\n%s" % (
            name, code, "\n".join(server.lines[-60:])))


def settle(server):
    """Waits until the server has decided its cluster version, its last change of its own."""
    deadline = time.monotonic() + 30
    while True:
        with wire.Connection(server.port) as peer:
            peer.send(wire.encode(server.port, "GET", "/version"))
            answer = peer.read()
        if answer.status == 200 and json.loads(bytes(answer.body))["etcdcluster"] == "3.4.0":
            return
        if time.monotonic() > deadline:
            raise AssertionError("no cluster version: %s" % answer.show())
        time.sleep(0.02)
