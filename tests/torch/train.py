"""A training job small enough to watch: gloo, a toy model on CPU, gradients that all ranks average.

Started by torchrun. The batch of a step depends on the step and the rank only, and a checkpoint
file lets a restarted world go on where the last one was. Ends after --steps steps, or later: as
long as the file --hold exists, it goes on. Reports its progress in lines of the form

    train: EVENT key=value ...        EVENT: start, step (every --tell steps), done

each written at once, so that lines of several workers do not mix. `at` is the time of this
machine, `id` is rank 0's and the same for all ranks that train together: it tells worlds apart.
`loaded` is how many seconds passed before torch was loaded.
"""

import argparse
import datetime
import hashlib
import os
import time

import torch
import torch.distributed as dist

FEATURES, BATCH = 16, 32


def tell(event, **fields):
    words = " ".join("%s=%s" % item for item in dict(fields, at="%.3f" % time.time()).items())
    os.write(1, ("train: %s %s\n" % (event, words)).encode())


def age():
    """Seconds since this process was started."""
    with open("/proc/self/stat") as stat, open("/proc/uptime") as uptime:
        started = int(stat.read().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
        return float(uptime.read().split()[0]) - started


def batch(step, rank):
    """Inputs, and what a fixed function makes of them."""
    source = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.rand(BATCH, FEATURES, generator=source)
    return x, (x * torch.arange(FEATURES)).sum(1, keepdim=True) / FEATURES


def save(path, model, step):
    torch.save({"step": step, "model": model.state_dict()}, path + ".new")
    os.replace(path + ".new", path)  # killed at any moment, there is a whole checkpoint


def learn(model, loss, world):
    """One step of SGD with the average gradient of all ranks. DistributedDataParallel and torch.optim do the same, but
    load the compiler of torch 2 first, which takes as long as all the rest of torch."""
    loss.backward()
    for weight in model.parameters():
        dist.all_reduce(weight.grad)
        weight.data -= 0.01 / world * weight.grad
        weight.grad = None


def digest(model):
    values = [p.detach().flatten().tolist() for p in model.parameters()]
    return hashlib.sha256(repr(values).encode()).hexdigest()[:16]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--hold", default="")
    parser.add_argument("--tell", type=int, default=10)
    parser.add_argument("--step_ms", type=int, default=20, help="what a step takes at least")
    options = parser.parse_args()

    loaded = age()
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    rank, world = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    first = torch.tensor([0, int.from_bytes(os.urandom(4), "big")])
    if rank == 0 and os.path.exists(options.checkpoint):
        kept = torch.load(options.checkpoint)
        model.load_state_dict(kept["model"])
        first[0] = kept["step"]
    # Rank 0's step and name of this world, and its weights.
    dist.broadcast(first, src=0)
    for weight in model.parameters():
        dist.broadcast(weight.data, src=0)
    step, name = int(first[0]), "%08x" % int(first[1])
    tell("start", rank=rank, world=world, id=name, step=step, pid=os.getpid(), agent=os.getppid(),
         restart=os.environ.get("TORCHELASTIC_RESTART_COUNT"), loaded="%.2f" % loaded)

    while True:
        begin = time.monotonic()
        x, y = batch(step, rank)
        loss = torch.nn.functional.mse_loss(model(x), y)
        learn(model, loss, world)
        step += 1

        # Rank 0 decides when it is over, so that all leave at the same step.
        over = rank == 0 and step >= options.steps and not os.path.exists(options.hold)
        shared = torch.tensor([loss.item() / world, float(over)])
        dist.all_reduce(shared)
        if rank == 0 and step % 5 == 0:
            save(options.checkpoint, model, step)
        if step % options.tell == 0:
            tell("step", rank=rank, world=world, id=name, step=step, loss="%.6f" % shared[0].item())
        if shared[1].item() > 0:
            break
        time.sleep(max(0.0, options.step_ms / 1000 - (time.monotonic() - begin)))

    dist.barrier()
    tell("done", rank=rank, world=world, id=name, step=step, loss="%.6f" % shared[0].item(),
         model=digest(model))
    # The work is done, and an agent takes whatever comes now for a failed worker: torch 2.6 at
    # times locks up in destroy_process_group (it joins a thread of gloo's that waits for the
    # interpreter's lock), 2.13 at times aborts while the interpreter ends.
    os._exit(0)


if __name__ == "__main__":
    main()
