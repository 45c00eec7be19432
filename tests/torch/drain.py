"""A node of a real elastic job is drained: its workers save their work, a spare takes the place, and no step is lost.

    drain.py [--torch NAME]... [--all] [--count N] [--tell] [--logs DIR]

Four agents train client/examples/drain.py with --max-restarts=0, and a fifth one is a spare. A rule wants rank 0 on the
third node. Each of --count times `rdzvctl drain --wait` takes out another node, the spare gets its rank, and `rdzvctl
uncordon` makes it the next spare. At last a node ends as a deleted pod: the preStop hook that `rdzv-manifest emit` writes takes
it out, then its agent gets SIGTERM, and no node meets for that. Printed are the seconds from the confirmation to the last start of a worker in the new world, and how many of them passed before the slowest
worker had loaded torch: some seconds of CPU time for each worker, which no store can change.
"""

import argparse
import os
import runpy
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

if sys.argv[1:2] == ["--load"]:  # a worker: notes when it began and when it has torch, then runs the example
    BEGAN = time.monotonic()
    import torch  # noqa: F401
    print("train: loaded seconds=%.3f" % (time.monotonic() - BEGAN), flush=True)
    sys.argv[:2] = []
    runpy.run_path(sys.argv[0], run_name="__main__")
    raise SystemExit

import torches
from job import JobFailed, out
from orders import OrderJob
from servers import OPERATOR, Rdzvd, token_flag

sys.path += [os.path.join(torches.ROOT, "tests", "manifest", "emit")]
import hooks  # noqa: E402

NODES = 4
EXAMPLE = os.path.join(torches.ROOT, "client", "examples", "drain.py")


class DrainJob(OrderJob):
    def __init__(self, *args):
        super().__init__(*args)
        self.shares = True  # with 2.6, too: workers find the key where rdzvd hosts their store

    @property
    def own_word(self):
        return self.checkpoint

    def program(self):
        return [os.path.abspath(__file__), "--load", EXAMPLE, self.own_word]

    def order_drain(self, name):
        self.order("drain", "127.0.0." + name, "--in=60s", "--wait")

    def run_hook(self, name):
        """The preStop hook of that node. It returns when the node trains no more."""
        token = os.path.join(self.folder, "token")
        with open(token, "w", encoding="utf-8") as f:
            f.write(OPERATOR["Authorization"].split()[1])
        done = subprocess.run(hooks.command_of(self.port, token, "default"), capture_output=True, text=True, timeout=90,
                              env=dict(os.environ, PET_LOCAL_ADDR="127.0.0." + name))
        if done.returncode != 0 or done.stderr:
            raise JobFailed("the hook ended with %d: %s" % (done.returncode, done.stderr))
        self.tell("the preStop hook of %s has returned" % name)

    def drain(self, name, names, take_out):
        """Takes out that node. All workers save the same step, and the next world begins with it. The spare gets its rank;
        of rank 0, the rule decides. Returns the seconds to the new world, and those of the slowest load."""
        mark, ranks = self.mark(), self.by_rank(0)
        spare, = set(names) - set(ranks)
        take_out(name)
        self.await_roles("%s is out" % name, participant=sorted(set(names) - {name}), spare=[name])
        self.await_world(NODES, mark)
        after, events = self.by_rank(mark), self.events[mark:]
        if name != ranks[0] and after != [spare if other == name else other for other in ranks]:
            raise JobFailed("%s got the ranks of %s" % (after, ranks))
        saved = {int(e["rank"]): int(e["step"]) for e in events if e["event"] == "saved"}
        begins = {int(e["step"]) for e in events if e["event"] == "start"}
        if set(saved) != set(range(NODES)) or begins != set(saved.values()):
            raise JobFailed("saved %s, and the next world begins with %s" % (saved, begins))
        if len([e for e in events if e["event"] == "start"]) != NODES:
            raise JobFailed("more than one meeting: %s" % events)
        return (max(float(e["seen"]) for e in events if e["event"] == "start") -
                min(float(e["seen"]) for e in events if e["event"] == "saved"),
                max(float(e["seconds"]) for e in events if e["event"] == "loaded"))

    def event(self, event):
        super().event(dict(event, seen="%.3f" % time.monotonic()))


def check(job, count):
    names = ["11", "12", "13", "14"]
    for name in names:
        job.start_agent(name)
    job.await_world(NODES, 0)
    if job.by_rank(0) != ["13", "11", "12", "14"]:
        raise JobFailed("ranks by rank-zero=127.0.0.13: %s" % job.by_rank(0))
    job.start_agent("15")
    job.await_roles("15 is a spare", participant=names, spare=["15"])
    names.append("15")
    times = []
    for i in range(count):
        name = names[i % len(names)]
        job.deadline += 60  # that of the job is for a few drains
        is_last = i == count - 1
        times.append(job.drain(name, names, job.run_hook if is_last else job.order_drain))
        if is_last:
            end_drained(job, name)
            break
        job.order("uncordon", "127.0.0." + name)
    return times


def end_drained(job, name):
    """SIGTERM to its agent: it ends with 1, and the others train on."""
    mark, agent = job.mark(), job.agents[name]
    agent.killed = True
    os.kill(agent.pid, signal.SIGTERM)
    job.wait(lambda: agent.code is not None, "the end of the drained agent")
    job.sleep(3)
    if agent.code != 1 or [e for e in job.events[mark:] if e["event"] == "start"]:
        raise JobFailed("the agent has ended with %s: %s" % (agent.code, job.events[mark:]))


def run_case(options, torch):
    folder = tempfile.mkdtemp(prefix="rdzv-drain-", dir=options.logs)
    job = None

    def tell(text):
        if options.tell:
            out("  [%s] %s" % (torch.name, text))

    flags = ["--data-dir=" + os.path.join(folder, "data"), "--rules=rank-zero=127.0.0.13", token_flag()]
    with Rdzvd("--listen=unix:" + os.path.join(folder, "sock"), *flags) as server:
        try:
            job = DrainJob(torch, server, folder, "%d:%d" % (NODES, NODES), tell)
            times, loads = zip(*check(job, options.count))
        except JobFailed as error:
            out("failed  torch %s: %s\n%s" % (torch.name, error, job.logs()))
            out("---- server\n" + "\n".join(server.log().splitlines()[-100:]))
            return False
        finally:
            if job is not None:
                job.end()
    rest = [time - load for time, load in zip(times, loads)]
    out("passed  torch %s: %d drains, from the confirmation to the new world %.1f s at most, %.1f s median; without the "
        "load of torch %.1f and %.1f s" % (torch.name, len(times), max(times), statistics.median(times), max(rest),
                                           statistics.median(rest)))
    shutil.rmtree(folder, ignore_errors=True)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", action="append", help="%s; repeatable" % ", ".join(torches.ALL))
    parser.add_argument("--all", action="store_true", help="every release that has check()")
    parser.add_argument("--count", type=int, default=2)
    parser.add_argument("--tell", action="store_true", help="say what goes on")
    parser.add_argument("--logs", help="a folder for the logs of what fails")
    options = parser.parse_args()

    chosen = torches.choose(options.torch or (torches.ALL if options.all else None))
    results = [run_case(options, torch) for torch in chosen if not torch.is_1x]
    print("%d passed, %d failed" % (results.count(True), results.count(False)))
    raise SystemExit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
