"""The first failure of a real job: which worker ended first, on which node, and what rdzvctl says of it.

    why.py [--torch NAME]... [--all] [--tell] [--logs DIR]

Two agents of two workers each train with gloo. A worker is killed; one raises an exception; an operator asks for flight
records; one stands still, and the collective of another times out. Each time, `rdzvctl why` must name the right rank. A
thread of each worker looks for torch's key exception_dump, as NCCL's HeartbeatMonitor does, and for rdzvd/drain, as a script
with a client of its own may. In a second job, one agent and its workers come through a relay, whose label gives them the
first ranks. Torch 1.13 hosts the workers' store itself, so rdzvd must say that it knows no rank.
"""

import argparse
import concurrent.futures
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback

import torches
from job import STOP, Agent, JobFailed, out
from orders import OrderJob
from peers import tell as say

sys.path.insert(0, os.path.join(torches.ROOT, "tests", "support"))
from servers import Rdzvd  # noqa: E402

DUMP_KEY, DRAIN_KEY = "exception_dump", "rdzvd/drain"


# ------------------------------------------------------------ a worker


def take(folder, name):
    """True if the file was there; it is gone then."""
    try:
        os.unlink(os.path.join(folder, name))
    except OSError:
        return False
    return True


def look_for_dump(folder, rank, looks):
    """The thread that stands for HeartbeatMonitor, with a client of its own."""
    import torch.distributed as dist  # noqa: PLC0415
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False,
                          wait_for_workers=False, use_libuv=os.environ.get("USE_LIBUV") != "0")
    while True:
        if store.check([DRAIN_KEY]):
            say("drains", rank=rank, nodes=json.loads(store.get(DRAIN_KEY))["nodes"][0])
        if take(folder, "time-out.%d" % rank):
            store.set(DUMP_KEY, rank.to_bytes(4, "little").decode())
        if store.check([DUMP_KEY]):
            say("dumped", rank=rank, value=store.get(DUMP_KEY).hex())
            time.sleep(2)  # to write the flight record
            os._exit(1)
        looks.set()
        time.sleep(0.5)


def look_for_drain(rank):
    """Of torch before check(), and whose workers' store is in worker 0: at the endpoint of the agents.

    After a time-out, the answer to the wait may still come, and the same client would take it for the next answer."""
    import datetime  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415
    while True:
        store = dist.TCPStore("127.0.0.1", int(os.environ["RDZV_TEST_PORT"]), is_master=False, wait_for_workers=False)
        try:
            store.wait([DRAIN_KEY], datetime.timedelta(milliseconds=100))
            say("drains", rank=rank, nodes=json.loads(store.get(DRAIN_KEY))["nodes"][0])
        except RuntimeError:  # there is none
            pass
        time.sleep(0.5)


def work(folder):
    import datetime  # noqa: PLC0415
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415

    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
    rank = dist.get_rank()
    if hasattr(dist.TCPStore, "check"):
        looks = threading.Event()
        threading.Thread(target=look_for_dump, args=(folder, rank, looks), daemon=True).start()
        looks.wait()
    else:
        threading.Thread(target=look_for_drain, args=(rank,), daemon=True).start()
    dist.barrier()
    say("start", rank=rank, world=dist.get_world_size(), pid=os.getpid(), restart=os.environ["TORCHELASTIC_RESTART_COUNT"])
    over = torch.zeros(1)
    while not over.item():
        if take(folder, "raise.%d" % rank):
            raise ValueError("as the test wants it")
        over[0] = float(rank == 0 and os.path.exists(os.path.join(folder, "over")))
        try:
            dist.all_reduce(over)
        except RuntimeError:  # a collective of NCCL hangs
            time.sleep(5)
            raise
        time.sleep(0.02)


# ------------------------------------------------------------ the job


class WhyJob(OrderJob):
    workers_per_agent = 2
    max_restarts = 20
    conf = []

    def __init__(self, torch, server, folder, tell, relay=None):
        super().__init__(torch, server, folder, "2:2", tell)
        self.relay, self.shares = relay, True

    def program(self):
        return [os.path.join(torches.HERE, "why.py"), self.own_word]

    def start_agent(self, name):
        argv = self.torchrun(name, self.endpoint_of(name), 2, *([] if self.torch.is_1x else ["--local_addr=127.0.0." + name]))
        env = self.environment(TMPDIR=tempfile.gettempdir(), RDZV_TEST_PORT=str(self.port))
        self.agents[name] = Agent(self, name, argv, env)

    def endpoint_of(self, name):
        return "127.0.0.1:%d" % (self.relay.port if self.relay and name == "12" else self.port)

    def await_workers(self, since):
        self.wait(lambda: {e["rank"] for e in self.events[since:] if e["event"] == "start"} == set("0123"), "four new workers")

    def rank(self, rank):
        """The pid of its latest worker, and the agent."""
        return [(int(e["pid"]), e["by"]) for e in self.events if e["event"] == "start" and e["rank"] == str(rank)][-1]

    def drain(self, node):
        """A client of each worker sees the key. The order is taken back, so no node meets."""
        mark = self.mark()
        self.order("drain", node, "--in=60s")
        self.wait(lambda: {(e["rank"], e["nodes"]) for e in self.events[mark:] if e["event"] == "drains"} ==
                  {(rank, node) for rank in "0123"}, "workers that see the drain")
        self.order("uncordon", node)
        self.check_no_start(mark)

    def touch(self, name):
        with open(os.path.join(self.meeting, name), "w"):
            pass

    def why(self, *words):
        """Once `rdzvctl why` says these words of the newest end."""
        while True:
            said = self.ctl("why", "job", codes=(0, 1))
            if all(word in said for word in words):
                return said
            if STOP.is_set() or time.monotonic() > self.deadline:
                raise JobFailed("rdzvctl why never said %s: %s" % (words, said))
            time.sleep(0.1)

    def expect_first(self, rank, pid, agent, mark, knows_pid=True):
        where = "on 127.0.0.%s%s" % (agent, " (pid %d)" % pid if knows_pid else "")
        said = self.why(" ended: rank %d %s ended first; " % (rank, where), "; then rank ", " ms")
        self.tell(said)
        self.await_workers(mark)


def end_rank(job, rank, end, **how):
    mark, (pid, agent) = job.mark(), job.rank(rank)
    end(pid)
    job.expect_first(rank, pid, agent, mark, **how)


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def direct(job):
    for name in ("11", "12"):
        job.start_agent(name)
    job.await_workers(0)
    end_rank(job, 2, kill)
    job.server.wait_log(r"event=first_failure space=default run=job round=0 rank=2 ", 20)
    end_rank(job, 1, lambda _: job.touch("raise.1"))

    mark = job.mark()
    job.order("dump", "job", "--yes")
    job.wait(lambda: {(e["rank"], e["value"]) for e in job.events[mark:] if e["event"] == "dumped"} ==
             {(str(rank), "ffffffff") for rank in range(4)}, "flight records of all ranks")
    job.tell(job.why("an operator has asked for flight records"))
    job.await_workers(mark)
    job.drain("127.0.0.12")

    mark, still = job.mark(), job.rank(3)[0]
    os.kill(still, signal.SIGSTOP)
    job.sleep(5)
    job.touch("time-out.0")
    job.tell(job.why("a collective of rank 0 timed out first", "rank 3 stands still"))
    kill(still)
    job.await_workers(mark)

    job.touch("over")
    job.wait(lambda: all(a.code is not None for a in job.agents.values()), "the end of all agents")
    ended = job.ctl("runs", "--ended")
    if "done" not in ended or "ended first" in ended:
        raise JobFailed("a good end: %s" % ended)


def relayed(job):
    for name in ("11", "12"):
        job.start_agent(name)
    job.await_workers(0)
    if job.rank(0)[1] != "12":
        raise JobFailed("the agent of the relay comes last, but it has a domain")
    end_rank(job, 0, kill, knows_pid=False)


def worker_0_hosts(job):
    """Torch 1.13: both nodes have this machine's name."""
    for name in ("11", "12"):
        job.start_agent(name)
    job.await_workers(0)
    job.drain("*")
    if "worker 0 hosts it" not in job.ctl("dump", "job", "--yes", codes=(5,)):
        raise JobFailed("dump was not refused")
    mark = job.mark()
    kill(job.rank(2)[0])
    said = job.why("a worker of", "no worker is known to have ended before")
    if "ended first" in said:
        raise JobFailed("a rank is named: %s" % said)
    job.tell(said)
    job.await_workers(mark)


def run_case(options, torch, case):
    """True if it passed. Says so, or all that is known about the failure."""
    folder = tempfile.mkdtemp(prefix="rdzv-why-", dir=options.logs)
    begin, job, name = time.monotonic(), None, "torch %s, %s" % (torch.name, case.__name__)

    def tell(text):
        if options.tell:
            out("  [%s, %5.1f s] %s" % (name, time.monotonic() - begin, text))

    with Rdzvd("--listen=unix:" + os.path.join(folder, "sock"), "--regroup-wait=2s") as server, \
            Rdzvd("--upstream=127.0.0.1:%d" % server.port, "--node-label=domain=rack1") as relay:
        try:
            job = WhyJob(torch, server, folder, tell, relay if case is relayed else None)
            case(job)
        except Exception as error:  # reported, counted, and the next one runs
            out("failed  %s (%.1f s): %s" % (name, time.monotonic() - begin, error))
            if not isinstance(error, JobFailed):
                out(traceback.format_exc())
            if job is not None:
                out(job.logs())
            out("---- server\n" + "\n".join(server.log().splitlines()[-100:]))
            return False
        finally:
            if job is not None:
                job.end()
    out("passed  %s (%.1f s)" % (name, time.monotonic() - begin))
    shutil.rmtree(folder, ignore_errors=True)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", action="append", help="%s; repeatable" % ", ".join(torches.ALL))
    parser.add_argument("--all", action="store_true", help="every release")
    parser.add_argument("--tell", action="store_true", help="say what goes on")
    parser.add_argument("--logs", help="a folder for the logs of what fails")
    options = parser.parse_args()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: STOP.set())
    chosen = [(torch, case) for torch in torches.choose(options.torch or (torches.ALL if options.all else None))
              for case in ((worker_0_hosts,) if torch.is_1x else (direct, relayed))]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda c: run_case(options, *c), chosen))
    print("%d passed, %d failed" % (results.count(True), results.count(False)))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    if len(sys.argv) == 2 and sys.argv[1].startswith("--folder="):
        work(sys.argv[1].partition("=")[2])
    else:
        main()
