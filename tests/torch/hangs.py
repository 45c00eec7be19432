"""Real jobs that hang, and what `rdzvctl status` says of each: the culprit, or what is known, and a remedy.

    hangs.py [--torch NAME]... [--all] [--case NAME]... [--tell] [--logs DIR]

Without the store's own words a user has only the time-out of torch, after minutes. If the store cannot know the culprit, the
status must not name one: *outside* has a rank that sleeps while the others are in a collective of gloo.
"""

import argparse
import concurrent.futures
import contextlib
import datetime
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support")]  # also of a worker without torchrun
import torches  # noqa: E402
from job import Agent, Job, JobFailed, out  # noqa: E402
from servers import Rdzvd, rdzvd_binary  # noqa: E402

CTL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(rdzvd_binary()))), "client", "rdzvctl")
WITHIN_S = 180  # on a busy machine
AT_ONCE = 3
CASES = {}


def case(what, oldest=(1, 13)):
    """`oldest`: the first release of which rdzvd knows so much: the workers of older ones keep their store in worker 0."""
    def keep(function):
        CASES[function.__name__.replace("_", "-")] = (function, what, oldest)
        return function
    return keep


class Hang(Job):
    """Agents of hosts 127.0.0.2, 127.0.0.3, …"""

    max_restarts = 0

    def __init__(self, torch, port, folder, what):
        super().__init__(torch, "c10d", port, folder, "job", "2:2", shares=True)
        self.what, self.relays, self.asked = what, contextlib.ExitStack(), "localhost:%d" % port

    def relay(self, host, space):
        """The address of a relay. From then on, rdzvctl asks that."""
        server = self.relays.enter_context(Rdzvd("--upstream=127.0.0.1:%d" % self.port, "--space=" + space, listen=(host + ":0",)))
        self.asked = "%s:%d" % (host, server.port)
        return self.asked

    def end(self):
        super().end()
        self.relays.close()

    @property
    def own_word(self):
        return "--hang=" + os.path.join(self.folder, self.what)

    def program(self):
        return [os.path.abspath(__file__), self.own_word]

    def agent(self, name, address=None, run="job", nnodes="2:2", workers=1, restarts=0, endpoint=None):
        self.run_id, self.nnodes, self.max_restarts = run, nnodes, restarts
        more = [] if self.torch.is_1x else ["--local_addr=" + (address or "127.0.0.%s" % name)]
        argv = self.torchrun(name, endpoint or self.endpoint_of(name), workers, "--monitor_interval=0.1", *more)
        self.agents[name] = Agent(self, name, argv, self.environment(TMPDIR=tempfile.gettempdir()))

    def plain(self, name, rank, world):
        """A worker without torchrun: rdzvd is its store."""
        env = self.environment(TMPDIR=tempfile.gettempdir(), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self.port), RANK=str(rank),
                               WORLD_SIZE=str(world), TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RESTART_COUNT="0")
        self.agents[name] = Agent(self, name, [*self.torch.python, "-m", *self.program()], env)

    def ctl(self, word):
        done = subprocess.run([CTL, "-s", self.asked, *word.split()], capture_output=True, text=True, timeout=60)
        return "exit %d\n%s%s" % (done.returncode, done.stdout, done.stderr)

    def says(self, pattern, *never, word="status"):
        """The match in the first output of `rdzvctl WORD` that has it, which has none of `never`."""
        self.deadline, text = time.monotonic() + WITHIN_S, ""
        while not re.search(pattern, text, re.S):
            if time.monotonic() > self.deadline:
                raise JobFailed("it never said %r: %s" % (pattern, text))
            time.sleep(0.2)
            text = self.ctl(word)
        for other in never:
            if re.search(other, text):
                raise JobFailed("it says %r: %s" % (other, text))
        return re.search(pattern, text, re.S)

    def started(self, count):
        self.wait(lambda: len([e for e in self.events if e["event"] == "start"]) >= count, "%d workers" % count)


# --- Cases: what the job does wrong, and the sentence of the status. ---


@case("the worker of rank 1 ends with an error after each start, and its agent starts it again")
def loop(job):
    for name in "234":
        job.agent(name, nnodes="3:3", restarts=100)
    rounds = r"HINT: restart loop: in each of the last (\d+) rounds a worker failed, [0-9.]+ s after the begin: read the log"
    agent = r"; the first agent to leave was that of \S+ \(pid \d+\)"
    if job.torch.is_1x:  # its workers' store is in worker 0
        return job.says(rounds + agent)
    match = job.says(rounds + r" of the worker that ended first, rank (\d+) (?:on|at) .* \((\d+) of \d+\)" + agent)
    if int(match.group(2)) != 1 or int(match.group(3)) < int(match.group(1)) - 1:
        raise JobFailed("the wrong rank: " + match.group())
    return match


@case("the worker of rank 1 ends with an error, and the containers of all agents start again", oldest=(2, 6))
def failed_again(job):
    for _ in range(2):
        for name in "23":
            job.agent(name)
            job.agents[name].killed = True  # it is to fail
        job.wait(lambda: all(job.agents[name].code is not None for name in "23"), "the end of both agents")
    failed = (r"job +default +failed [^\n]*workers of 127\.0\.0\.3 \(pid \d+\) failed, and its agent had no restart left; "
              r"rank 1 [^\n]* ended first\n")
    return job.says(failed + failed, word="runs --ended")


@case("rank 1 sleeps while the others are in a collective of gloo", oldest=(2, 6))
def outside(job):
    for name in "234":
        job.agent(name, nnodes="3:3")
    job.started(3)
    return job.says(r"none missing.*WORKERS: 3 of 3 are connected, and none waits for a key\. If the job stands still: "
                    r"py-spy dump --pid PID of each worker", "WAITING", "BARRIER", "HINT")


@case("rank 1 has ended well, and the others wait for it in a collective", oldest=(2, 6))
def finished(job):
    job.agent("2", nnodes="1:1", workers=3)
    return job.says(r"HINT: rank 1 (?:on|at) .* has ended its connection \d+ s ago, and the round goes on")


@case("rank 1 does not call init_process_group()", oldest=(2, 6))
def before_init(job):
    for name in "23":
        job.agent(name)
    job.says(r"job +127\.0\.0\.2 +0 +127\.0\.0\.1:\d+ +/default_pg/0//cpu//0/1\n", word="waiters")
    return job.says(r"WAITING: 1 client .*; 1 of 2 workers are connected.*rank 1 of default_pg, on 127\.0\.0\.3")


@case("the script names a store of its own, where nothing listens", oldest=(2, 6))
def own_store(job):
    for name in "23":
        job.agent(name)
    return job.says(r"WORKERS: 0 of 2 are connected: have they called init_process_group\(\), with torchrun's MASTER_ADDR")


@case("an agent stands still before the third one comes")
def stopped(job):
    for name in "23":
        job.agent(name, nnodes="3:3")
    job.says("2 nodes; how many")
    job.agents["3"].killed = True
    os.kill(job.agents["3"].pid, signal.SIGSTOP)
    job.agent("4", nnodes="3:3")
    return job.says(r"2 of 3 nodes \(--nnodes=3:3\), 1 silent\n  MISSING: 1\n.*silent +\S+ +%d .*"
                    r"HINT: nodes that have not been heard of for 15 s: 1" % job.agents["3"].pid)


@case("rank 1 does not call new_group()", oldest=(2, 6))
def before_group(job):
    for name in "23":
        job.agent(name)
    job.started(2)
    return job.says(r"WAITING: 1 client .*rank 1 of ")


@case("the machine of agent 0 does not know its own name", oldest=(2, 6))
def own_name(job):
    for name in "23":
        job.agent(name, address="gpu-%s.cluster.invalid" % name)
    return job.says(r"MASTER_ADDR.*node 0, on gpu-2\.cluster\.invalid .*does its own name resolve there \(rdzvctl preflight\)")


@case("the nodes have different ids")
def other_ids(job):
    job.agent("2", run="first")
    job.agent("3", run="second")
    if job.torch.is_1x:  # both have the machine's name
        return job.says("RUN first.*RUN second")
    return job.says(r"HINT: runs in which one node of another host waits as well: 1, such as \w+ of 127\.0\.0\.[23]: do the "
                    r"nodes of one job have different ids \(--rdzv-id\)")


@case("one node of three has come, with torchrun's default id")
def first_round(job):
    job.agent("2", run="none", nnodes="3:3")
    return job.says(r"exit 6.*1 node; how many are wanted is not known before the first round is complete.*"
                    r"HINT: none is torchrun's default id", "none missing")


@case("without torchrun, two workers have rank 0, and none has rank 1", oldest=(2, 6))
def one_rank_twice(job):
    for name in "23":
        job.plain(name, 0, 2)
    return job.says(r"HINT: 2 connected clients are rank 0 of default_pg: two jobs use one store, or two workers have the same RANK")


@case("without torchrun, two workers of three have come")
def world_too_large(job):
    for name in "23":
        job.plain(name, int(name) - 2, 3)
    return job.says(r"WAITING: 2 clients .*rank 2 of default_pg")


@case("without torchrun, the keys of an attempt that was killed are there, and rank 0 does not come again")
def old_keys(job):
    for name in "23":
        job.plain(name, int(name) - 2, 2)
    job.started(2)
    for name in "23":
        job.agents[name].killed = True
        job.agents[name].process.kill()
    job.wait(lambda: re.search(r"^default.*(?: +0){6} *$", job.ctl("spaces"), re.M), "the end of both clients")
    job.plain("4", 1, 2)
    return job.says(r"HINT: there are keys of clients that had all gone, and new clients read them: --space-idle-timeout")


@case("a second job uses the store of the first one, so its workers have a port of their own", oldest=(2, 6))
def second_job(job):
    job.agent("2", run="first", nnodes="1:1")
    job.started(1)
    job.agent("3", run="second", nnodes="1:1")
    return job.says(r"RUN second.*HINT: its workers use port \d+, since another run of this space has the agents' port")


@case("the space of a relay is mistyped")
def mistyped_space(job):
    for name, space in (("2", "team-a"), ("3", "team_a")):
        job.agent(name, endpoint=job.relay("127.0.0." + name, space))
    return job.says(r"HINT: a run of this id also waits for nodes in another space of this store: is the --space of a relay "
                    r"mistyped")


@case("each agent has a relay of its own, at an address that the other one does not reach", oldest=(2, 6))
def two_relays(job):
    """This job does not hang: each worker finds its store where its agent does."""
    for name in "23":
        job.agent(name, endpoint=job.relay("127.0.0." + name, "team"))
    job.started(2)
    return job.says(r"WORKERS: 2 of 2 are connected", "HINT")


@case("the nodes reach the store by different addresses, one of them by loopback", oldest=(2, 6))
def two_addresses(job):
    """As above."""
    job.port = job.relays.enter_context(Rdzvd(listen=("0.0.0.0:0",))).port
    job.asked = "localhost:%d" % job.port
    job.agent("2", endpoint="localhost:%d" % job.port)
    job.agent("3", endpoint="127.0.0.3:%d" % job.port)
    job.started(2)
    return job.says(r"WORKERS: 2 of 2 are connected", "HINT")


# --- Workers. ---


def work(what):
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415

    culprit = os.environ["RANK"] == "1"
    if what == "before-init" and culprit:
        time.sleep(300)
    elsewhere = {"init_method": "tcp://127.0.0.1:9", "rank": 1, "world_size": 2} if what == "own-store" else {}
    try:
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=300), **elsewhere)
    except RuntimeError:  # of old-keys: gloo connects to the old address, or waits for that, by their order
        if what == "old-keys":
            time.sleep(300)
        raise
    os.write(1, b"train: start rank=%d world=%d pid=%d\n" % (dist.get_rank(), dist.get_world_size(), os.getpid()))
    dist.barrier()
    if culprit and what in ("loop", "failed-again"):
        sys.exit(1)
    if culprit and what == "finished":
        os._exit(0)
    if culprit:
        time.sleep(300)
    if what == "before-group":
        dist.new_group([0, 1])
    if what != "finished":  # there, the end of rank 1 would be an error of gloo
        dist.all_reduce(torch.ones(1))
    time.sleep(300)


# --- All cases. ---


def run_case(options, torch, name):
    function, what, _ = CASES[name]
    folder = tempfile.mkdtemp(prefix="rdzv-hangs-", dir=options.logs)
    began = time.monotonic()
    with Rdzvd() as server:
        job = Hang(torch, server.port, folder, name)
        try:
            said = function(job)
        except Exception as error:  # reported, counted, and the next one runs
            out("failed  torch %s %s: %s\n%s%s\n---- server\n%s" % (
                torch.name, name, error, "" if isinstance(error, JobFailed) else traceback.format_exc(), job.logs(),
                "\n".join(server.log().splitlines()[-100:])))
            return False
        finally:
            job.end()
    out("passed  torch %s %s (%.1f s)" % (torch.name, name, time.monotonic() - began))
    if options.tell:
        out("  %s\n  %s" % (what, said.group()))
    shutil.rmtree(folder, ignore_errors=True)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", action="append", help="%s; repeatable" % ", ".join(torches.ALL))
    parser.add_argument("--all", action="store_true", help="every release")
    parser.add_argument("--case", action="append", choices=CASES)
    parser.add_argument("--tell", action="store_true", help="say what the status says")
    parser.add_argument("--logs", help="a folder for the logs of what fails")
    options = parser.parse_args()

    chosen = torches.choose(options.torch or ([] if options.all else ["2.13.0"]), options.all)
    trials = [(torch, name) for torch in chosen for name in options.case or CASES
              if tuple(int(n) for n in torch.name.split(".")[:2]) >= CASES[name][2]]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(lambda t: run_case(options, *t), trials))
    print("%d passed, %d failed" % (results.count(True), results.count(False)))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("--hang="):
        work(os.path.basename(sys.argv[1]))
    else:
        main()
