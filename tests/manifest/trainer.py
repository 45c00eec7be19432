"""The training script of the real runs: gloo on CPU, a toy model, and proof that all ranks met.

Accepts any arguments, like the scripts that it replaces. Each rank prints one line at its end; run_real.py checks that
every rank printed a line, and that all ranks computed the same.

With COUNT_TO in its environment, each rank first prints a line, then adds 1 to a key of the job's store COUNT_TO times,
while run_real.py kills the store: each ADD must count exactly once.

With DDP in its environment, it trains with DistributedDataParallel and torch.optim, which load the compiler of torch 2, and
that takes as long as all the rest of torch. Else it averages the gradients itself.
"""

import datetime
import os
import time

import torch
import torch.distributed as dist

STEPS = 5


def count(each, world):
    """All ranks add to the key `counted`, and wait for the key `all`, which the last ADD sets."""
    store = dist.distributed_c10d._get_default_store()
    os.write(1, ("trainer: counts, restarts=%s\n" % os.environ["TORCHELASTIC_RESTART_COUNT"]).encode())
    for _ in range(each):
        if store.add("counted", 1) == each * world:
            store.set("all", "yes")
        time.sleep(0.01)  # the pace of a job; the store is gone for some of them
    store.wait(["all"])
    total = store.add("counted", 0)
    if total != each * world:
        raise SystemExit("%d ranks counted to %d each, and to %d together" % (world, each, total))


def losses(model, rank):
    for step in range(STEPS):
        x = torch.rand(8, 4, generator=torch.Generator().manual_seed(100 * step + rank))
        yield torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))


def train_ddp(model, rank, _):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for loss in losses(torch.nn.parallel.DistributedDataParallel(model), rank):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def train(model, rank, world):
    for loss in losses(model, rank):
        loss.backward()
        for weight in model.parameters():
            dist.all_reduce(weight.grad)
            weight.data -= 0.1 / world * weight.grad
            weight.grad = None


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=90))
    rank, world = dist.get_rank(), dist.get_world_size()

    seen = torch.zeros(world)
    seen[rank] = rank + 1
    dist.all_reduce(seen)

    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1)
    (train_ddp if "DDP" in os.environ else train)(model, rank, world)
    weight = sum(p.sum().item() for p in model.parameters())

    if "COUNT_TO" in os.environ:
        count(int(os.environ["COUNT_TO"]), world)
    dist.barrier()
    os.write(1, ("trainer: rank=%d world=%d sum=%d weight=%.6f\n" % (
        rank, world, int(seen.sum().item()), weight)).encode())
    # An agent takes whatever comes now for a failed worker, and some releases of torch lock up or
    # abort when a process group ends.
    os._exit(0)


if __name__ == "__main__":
    main()
