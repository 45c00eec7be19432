"""Real ranks of torch on one machine: each opens its store and a process group of gloo, so all meet all.

    gloo.py PORT RANKS

One process loads torch and forks the ranks, which begin at the same moment: what a rank does before that is no part of
the figures. Prints `work=gloo seconds=S ranks=N failed=F`: from the moment until the last rank has its group.
"""

import os
import signal
import sys
import time

import torch  # noqa: F401: before the fork
import torch.distributed as dist


def be_rank(rank, port, ranks, gate, ready):
    os.write(ready, b".")
    os.read(gate, 1)  # until all write ends are closed
    store = dist.TCPStore("127.0.0.1", port, ranks, False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    os.write(ready, b"+")
    signal.pause()  # a rank that ends would close its connections while others still open theirs


def fork_ranks(port, ranks, gate, ready):
    pids = []
    for rank in range(ranks):
        pid = os.fork()
        if pid == 0:
            os.close(gate[1])
            os.close(ready[0])
            try:
                be_rank(rank, port, ranks, gate[0], ready[1])
            except Exception as e:
                os.write(ready[1], b"-")
                os.write(2, ("rank %d: %s\n" % (rank, e)).encode())
            os._exit(0)
        pids.append(pid)
    os.close(gate[0])
    os.close(ready[1])
    return pids


def take(fd, count):
    """The next `count` bytes."""
    got = b""
    while len(got) < count:
        got += os.read(fd, count - len(got)) or b"-"
    return got


def main():
    port, ranks = int(sys.argv[1]), int(sys.argv[2])
    gate, ready = os.pipe(), os.pipe()
    pids = fork_ranks(port, ranks, gate, ready)
    try:
        take(ready[0], ranks)
        begin = time.monotonic()
        os.close(gate[1])
        failed = take(ready[0], ranks).count(b"-")
        print("work=gloo seconds=%.3f ranks=%d failed=%d" % (time.monotonic() - begin, ranks, failed), flush=True)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
