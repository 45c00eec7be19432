#!/usr/bin/env python3
"""Starts a real server of another project behind rdzvd's command line, so that run.py can prove
its cases on it: peers.py KIND --listen 127.0.0.1:0/SPACE ...

KIND is torch-legacy or torch-libuv (TCPStore of the torch that this python imports), or etcd.
torch: each listener is a server of its own. etcd: all listeners are one and the same.
"""

import os
import signal
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))


def announce(port, space):
    print("event=listening address=127.0.0.1:%d space=%s" % (port, space),
          file=sys.stderr, flush=True)


def main():
    kind, args = sys.argv[1], sys.argv[2:]
    spaces = [value.rpartition("/")[2] for flag, value in zip(args, args[1:]) if flag == "--listen"]
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    if kind == "etcd":
        import servers
        with servers.Etcd() as server:
            for space in spaces:
                announce(server.port, space)
            stop.wait()
        return

    import torch
    import torch.distributed as dist
    # torch before 2.2 has a single backend, and no argument that selects a backend.
    options = {} if torch.__version__ < "2" else {"use_libuv": kind == "torch-libuv"}
    kept = []
    for space in spaces:
        store = dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False, **options)
        kept.append(store)
        announce(store.port, space)
    stop.wait()
    os._exit(0)  # torch's own end would join threads that wait for clients


main()
