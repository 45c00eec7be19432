"""A training loop that saves its work when an operator drains a node: `rdzvctl drain NODE`.

The lines between the two marks are those to copy. All ranks must act in the same step, so rank 0 asks the store, and
broadcasts the answer. After the confirmation, rdzvd ends the workers within seconds; the others meet without the node.

    torchrun … drain.py CHECKPOINT [STEPS]
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist

# --- begin
from torch.distributed.distributed_c10d import _get_default_store


def drain_id():
    """The id of an open drain, the same on all ranks; 0: there is none."""
    found = torch.zeros(1, dtype=torch.int64)
    if dist.get_rank() == 0 and _get_default_store().check(["rdzvd/drain"]):
        found[0] = json.loads(_get_default_store().get("rdzvd/drain"))["id"]
    dist.broadcast(found, src=0)
    return int(found)


def drain_confirm(drain):
    """To be called by all ranks, after rank 0 has saved the work."""
    if dist.get_rank() == 0:
        _get_default_store().set("rdzvd/checkpointed", str(drain))
    time.sleep(30)  # a step would be in vain: SIGTERM comes in a second or two
# --- end


def say(event, step):
    print("train: %s rank=%d world=%d step=%d restart=%s" % (
        event, dist.get_rank(), dist.get_world_size(), step, os.environ["TORCHELASTIC_RESTART_COUNT"]), flush=True)


def main():
    path, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000000
    dist.init_process_group("gloo")
    step = torch.zeros(1, dtype=torch.int64)
    if dist.get_rank() == 0 and os.path.exists(path):
        step = torch.load(path)
    dist.broadcast(step, src=0)
    say("start", step)
    while int(step) < steps:
        dist.all_reduce(torch.ones(1))  # the training of a step
        step += 1
        time.sleep(0.01)
        drain = drain_id() if int(step) % 10 == 0 else 0
        if drain != 0:
            if dist.get_rank() == 0:
                torch.save(step, path + ".new")
                os.replace(path + ".new", path)
            say("saved", step)
            drain_confirm(drain)


main()
