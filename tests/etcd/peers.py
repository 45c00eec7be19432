"""Starts the two servers these tests compare, a real etcd and rdzvd, ready and at rest."""

import json
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))

import servers  # noqa: E402
import wire  # noqa: E402

# A real etcd syncs every write to disk; in memory that costs nothing and means the same here.
if os.path.isdir("/dev/shm") and os.access("/dev/shm", os.W_OK):
    tempfile.tempdir = "/dev/shm"


def start(name):
    """The server called etcd or rdzvd, as a context manager with `port` and `url`."""
    server = servers.Etcd() if name == "etcd" else servers.Rdzvd()
    try:
        settle(server)
    except BaseException:
        server.__exit__(None, None, None)
        raise
    server.name = name
    return server


def settle(server):
    """Waits until the server has decided its cluster version: from then on its index rests."""
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
