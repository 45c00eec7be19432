"""torch's own TCPStore server in a process of its own: what rdzvd stands in for.

Prints `port N backend B` and serves until its stdin ends. Runs under the Python of the release
whose server is wanted.
"""

import datetime
import sys

import torch.distributed as dist


def main():
    options = {"is_master": True, "wait_for_workers": False,
               "timeout": datetime.timedelta(seconds=60)}
    backend = "legacy"
    if hasattr(dist.TCPStore, "libuvBackend"):
        try:
            store = dist.TCPStore("127.0.0.1", 0, **options, use_libuv=True)
            backend = "libuv"
        except RuntimeError:  # a build without it
            store = dist.TCPStore("127.0.0.1", 0, **options, use_libuv=False)
    else:
        store = dist.TCPStore("127.0.0.1", 0, **options)
    print("port %d backend %s" % (store.port, backend), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
