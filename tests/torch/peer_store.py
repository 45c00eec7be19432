"""torch's own TCPStore server in a process of its own: what rdzvd stands in for.

    peer_store.py [HOST PORT]       without them: 127.0.0.1 and any port

Prints `port N backend B` and serves until its stdin ends. Runs under the Python of the release
whose server is wanted.
"""

import datetime
import sys

import torch.distributed as dist


def main():
    where = (sys.argv[1], int(sys.argv[2])) if len(sys.argv) > 1 else ("127.0.0.1", 0)
    options = {"is_master": True, "wait_for_workers": False,
               "timeout": datetime.timedelta(seconds=60)}
    backend = "legacy"
    if hasattr(dist.TCPStore, "libuvBackend"):
        try:
            store = dist.TCPStore(*where, **options, use_libuv=True)
            backend = "libuv"
        except RuntimeError:  # a build without it
            store = dist.TCPStore(*where, **options, use_libuv=False)
    else:
        store = dist.TCPStore(*where, **options)
    print("port %d backend %s" % (store.port, backend), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
