"""A worker of the troubleshooting test: it joins a process group of gloo, and works in it.

    troubleshooting_worker.py wait SECONDS      of rank 0, while no worker of rank 1 comes
    troubleshooting_worker.py lose SECONDS      rank 1 ends, and rank 0 waits for it in a collective
    troubleshooting_worker.py outside SECONDS   rank 1 sleeps so long, and rank 0 waits for it in a collective
    troubleshooting_worker.py value PORT BYTES  no group: sets a key of so many bytes

All but the last take the rank and the store from the environment, as torchrun sets them.
"""

import datetime
import os
import sys
import time

import torch
import torch.distributed as dist


def main():
    what, number, *more = sys.argv[1:]
    if what == "value":
        store = dist.TCPStore("127.0.0.1", int(number), timeout=datetime.timedelta(seconds=10))
        store.set("key", "x" * int(more[0]))
        store.get("key")
        return
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=float(number)))
    print("has a group", flush=True)
    if dist.get_rank() == 1 and what == "outside":
        time.sleep(float(number))
    elif dist.get_rank() == 1:
        os._exit(3)
    dist.all_reduce(torch.ones(1))


if __name__ == "__main__":
    main()
