"""Real jobs that hang, or look as if they did, and what rdzvctl says of each: the culprit, or what is known, and a remedy.

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
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support")]  # also of a worker without torchrun
import netns  # noqa: E402
import torches  # noqa: E402
from job import Agent, Job, JobFailed, out  # noqa: E402
from pods import PodRdzvd  # noqa: E402
from servers import Rdzvd, free_port, rdzvd_binary  # noqa: E402

CTL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(rdzvd_binary()))), "client", "rdzvctl")
WITHIN_S = 180  # on a busy machine
AT_ONCE = 3
CASES = {}


def case(what, oldest=(1, 13), flags=()):
    """`oldest`: the first release of which rdzvd knows so much: the workers of older ones keep their store in worker 0.
    `flags`: of rdzvd."""
    def keep(function):
        CASES[function.__name__.replace("_", "-")] = (function, what, oldest, flags)
        return function
    return keep


def recipe():
    """The words of README.md for jobs that begin with two nodes and go on with fewer: a conf key of torch, flags of rdzvd."""
    with open(os.path.join(torches.ROOT, "README.md"), encoding="utf-8") as f:
        words = re.search(r"`last_call_timeout=(\d+)` in `--rdzv-conf`,\s+and\s+`rdzvd (--expect=2) (--regroup-wait=5s)`",
                          f.read())
    return int(words.group(1)), words.groups()[1:]


class Hang(Job):
    """Agents of hosts 127.0.0.2, 127.0.0.3, …"""

    max_restarts = 0

    def __init__(self, torch, server, folder, what):
        super().__init__(torch, "c10d", server.port, folder, "job", "2:2", shares=True)
        self.what, self.relays, self.asked = what, contextlib.ExitStack(), "localhost:%d" % self.port
        self.asks_within = ()  # the words that start rdzvctl
        self.server = server.process

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

    def agent(self, name, address=None, run="job", nnodes="2:2", workers=1, restarts=0, endpoint=None, within=()):
        """`within`: the words that start its command."""
        self.run_id, self.nnodes, self.max_restarts = run, nnodes, restarts
        more = [] if self.torch.is_1x else ["--local_addr=" + (address or "127.0.0.%s" % name)]
        argv = self.torchrun(name, endpoint or self.endpoint_of(name), workers, "--monitor_interval=0.1", *more)
        self.forks_agents = not within
        self.agents[name] = Agent(self, name, [*within, *argv], self.environment(TMPDIR=tempfile.gettempdir()))

    def plain(self, name, rank, world, port=None):
        """A worker without torchrun: rdzvd is its store."""
        env = self.environment(TMPDIR=tempfile.gettempdir(), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port or self.port),
                               RANK=str(rank), WORLD_SIZE=str(world), TORCHELASTIC_USE_AGENT_STORE="True",
                               TORCHELASTIC_RESTART_COUNT="0")
        self.agents[name] = Agent(self, name, [*self.torch.python, "-m", *self.program()], env)

    def static(self, number, count):
        """An agent of torchrun --rdzv-backend=static, in a pod: that of node 0 listens at MASTER_PORT of its own host."""
        pod, name = self.network.pod("node-%d" % number), str(number)
        argv = [*self.torch.python, "-m", "torch.distributed.run", "--nnodes=%d" % count, "--node_rank=%d" % number,
                "--nproc_per_node=1", "--max_restarts=1", "--monitor_interval=0.1", "--rdzv_backend=static",
                "--master_addr=" + self.store.address, "--master_port=%d" % self.port, *self.program()]
        self.forks_agents = False
        env = self.environment(TMPDIR=tempfile.gettempdir(), GLOO_SOCKET_IFNAME="eth0")
        self.agents[name] = Agent(self, name, [*pod.enter(own_pids=False), *argv], env)

    def ctl(self, word):
        done = subprocess.run([*self.asks_within, CTL, "-s", self.asked, *word.split()], capture_output=True, text=True, timeout=60)
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

    def kills(self, names, number=signal.SIGKILL):
        """SIGTERM: an agent ends its workers by itself."""
        for name in names:
            self.agents[name].killed = True
            os.kill(self.agents[name].pid, number)
            for pid in self.workers(name).values() if number == signal.SIGKILL else ():
                self._end_worker(pid)
        self.wait(lambda: all(self.agents[name].code is not None for name in names), "the end of agents %s" % names)

    def started(self, count):
        self.wait(lambda: len([e for e in self.events if e["event"] == "start"]) >= count, "%d workers" % count)


# --- Cases: what the job does wrong, and the sentence of the status. ---


@case("the worker of rank 1 ends with an error after each start, and its agent starts it again")
def loop(job):
    for name in "234":
        job.agent(name, nnodes="3:3", restarts=100)
    rounds = r"HINT: restart loop: in each of the last (\d+) rounds a worker failed, [0-9.]+ s after the begin: read the log of "
    if job.torch.is_1x:  # its workers' store is in worker 0
        return job.says(rounds + r"\S+ \(pid \d+\), whose agent left first")
    match = job.says(rounds + r"the worker that ended first, rank (\d+) (?:on|at) .* \((\d+) of \d+\)")
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
    failed = (r"job +default +failed [^\n]*rank 1 on 127\.0\.0\.3 [^\n]*ended first; workers of 127\.0\.0\.3 \(pid \d+\) failed, "
              r"and its agent had no restart left[^\n]*\n")
    return job.says(failed + failed, word="runs --ended")


@case("rank 1 sleeps while the others are in a collective of gloo", oldest=(2, 6))
def outside(job):
    for name in "234":
        job.agent(name, nnodes="3:3")
    job.started(3)
    job.says("none missing", "WORKERS")  # as of a job that trains
    pids = ", ".join("%d on 127.0.0.%s" % (job.agents[name].pid, name) for name in "234")
    return job.says(r"none missing.*WORKERS: 3 of 3 are connected, and none waits for a key\. If the job stands still, .*"
                    r"py-spy dump -s --pid " + pids, "WAITING", "BARRIER", "HINT", word="status job")


@case("rank 1 has ended well, and the others wait for it in a collective", oldest=(2, 6))
def finished(job):
    job.agent("2", nnodes="1:1", workers=3)
    return job.says(r"HINT: rank 1 (?:on|at) .* has ended its connection \d+ s ago, and the round goes on")


@case("rank 1 does not call init_process_group()", oldest=(2, 6))
def before_init(job):
    for name in "23":
        job.agent(name)
    job.says(r"job +127\.0\.0\.2 +0 +127\.0\.0\.1:\d+ +/default_pg/0//cpu//0/1\n", word="waiters")
    said = job.says(r"WAITING: 1 client .*; 1 of 2 workers are connected.*rank 1 of default_pg, on 127\.0\.0\.3 "
                    r"\(its agent's pid %d\)" % job.agents["3"].pid)
    job.says("exit 1\n.*WAITING: 1 client")  # after 30 s
    return said


@case("the script names a store of its own, where nothing listens", oldest=(2, 6))
def own_store(job):
    for name in "23":
        job.agent(name)
    return job.says(r"WORKERS: 0 of 2 are connected: have they called init_process_group\(\), with torchrun's MASTER_ADDR")


@case("an agent stands still before the third one comes")
def stopped(job):
    for name in "23":
        job.agent(name, nnodes="3:3")
    job.says(r"2 nodes; how many|2 of 3 nodes")
    job.agents["3"].killed = True
    os.kill(job.agents["3"].pid, signal.SIGSTOP)
    job.agent("4", nnodes="3:3")
    # The status has no --nnodes if the round is complete before rdzvd has measured MIN and MAX on the first agent.
    return job.says(r"2 of 3 nodes(?: \(--nnodes=3:3\))?, 1 silent\n  MISSING: 1\n.*silent +\S+ +%d .*"
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
    return job.says(r'HINT: runs of other hosts that also wait for nodes: 1, such as "\w+" of 127\.0\.0\.[23]: do the '
                    r"nodes of one job have different ids \(--rdzv-id\)")


@case("one node of three has come, with torchrun's default id")
def first_round(job):
    job.agent("2", run="none", nnodes="3:3")
    if job.torch.is_1x:
        return job.says(r"exit 6.*1 node; how many are wanted is not known before the first round is complete.*"
                        r"HINT: none is torchrun's default id", "none missing")
    return job.says(r"1 of 3 nodes \(--nnodes=3:3\).*MISSING: 2.*"
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
    if not job.torch.is_1x:  # the keys are gone, and rank 0 is missing
        return job.says(r"WAITING: 1 client.*/default_pg/0//cpu//0/0 +gloo's address +rank 0 of default_pg")
    return job.says(r"HINT: there are keys of clients that had all gone, and new clients read them: --space-idle-timeout")


@case("torchrun --rdzv-backend=static: a node is missing; later a worker is killed, and each agent restarts its own",
      oldest=(2, 6))
def static_nodes(job):
    """With the keys of the attempt before, one agent would use two restarts."""
    job.network = job.relays.enter_context(contextlib.closing(netns.Network(job.folder)))
    job.store = job.network.pod("store")
    server = job.relays.enter_context(PodRdzvd(job.store))
    job.port, job.asks_within = server.port, ["nsenter", "--target", str(job.store.holder.pid), "--net"]
    job.asked = "127.0.0.1:%d" % job.port
    job.static(0, 3)
    job.says("HINT: node 1 of 2 or more has not come: is it started, and does it reach this store")
    job.static(2, 3)
    said = job.says("node 0, when all nodes have come.*HINT: node 1 of 3 or more has not come")
    job.static(1, 3)
    job.started(3)
    job.says("no runs", "HINT")
    os.kill(int(next(e["pid"] for e in job.events if e.get("rank") == "1")), signal.SIGKILL)
    job.started(6)
    server.wait_log("event=space_forgotten .*all ranks of a job have gone")
    return said


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
    return job.says(r"WORKERS: 2 of 2 are connected", "HINT", word="status job")


@case("the nodes reach the store by different addresses, one of them by loopback", oldest=(2, 6))
def two_addresses(job):
    """As above."""
    job.port = job.relays.enter_context(Rdzvd(listen=("0.0.0.0:0",))).port
    job.asked = "localhost:%d" % job.port
    job.agent("2", endpoint="localhost:%d" % job.port)
    job.agent("3", endpoint="127.0.0.3:%d" % job.port)
    job.started(2)
    return job.says(r"WORKERS: 2 of 2 are connected", "HINT", word="status job")


@case("a spare is killed, and the round goes on")
def spare_lost(job):
    for name in "23":
        job.agent(name)
    job.started(2)
    job.agent("4")
    job.says(r'"agents":\s*3\b' if job.torch.is_1x else r'"spares":\s*1\b', word="status job -o json")
    job.kills("4")
    job.says(r'"agents":\s*2\b.*"rounds":\s*\[\s*{\s*"round":', '"ended"', '"why"', word="status job -o json")
    return job.says(r"exit 0\nRUN job  complete, round 0.*2 of 2 nodes \S+, none missing", "EARLIER ROUNDS")


@case("two agents have one name and one pid, and come at the same moment")
def one_name(job):
    """As pods on the network of one host, each with its agent as the first process. The store is stopped until both agents
    are connected, so it sees both for the first time at once."""
    os.kill(job.server.pid, signal.SIGSTOP)
    try:
        for name in "23":
            job.agent(name, address="127.0.0.2", endpoint="127.0.0.1:%d" % job.port, within=[
                "unshare", *[["--map-root-user"], []][os.getuid() == 0], "--pid", "--fork", "--kill-child", "--mount-proc"])
        job.wait(lambda: connected_to(job.port) >= 2, "both agents")
    finally:
        os.kill(job.server.pid, signal.SIGCONT)
    return job.says(r"HINT: two agents are there as \S+ \(pid \d+\), from 127\.0\.0\.1:\d+ and 127\.0\.0\.1:\d+: torch takes "
                    r"them for one node; give each a name of its own \(--local-addr\)")


def connected_to(port):
    """How many clients are. Their own sockets may be of IPv6."""
    with open("/proc/net/tcp") as f:
        return sum(words[1].endswith(":%04X" % port) and words[3] == "01" for words in map(str.split, f))


@case("rdzvctl asks a store of torch, which has no status")
def torchs_store(job):
    kinds = ["legacy"] if job.torch.is_1x or job.environment().get("USE_LIBUV") == "0" else ["libuv", "legacy"]
    for rank, kind in enumerate(kinds):
        port = free_port()
        job.plain(kind, rank if "libuv" in kinds else 1, 2, port)
        job.started(rank + 1)
        job.asked = "127.0.0.1:%d" % port
        status = "Torch's own store does not: is rdzvd there" if job.torch.is_1x else (
            r"torch's own store answers at %s \(.* over HTTP\): it has keys \(`rdzvctl keys`\)" % job.asked)
        said = job.says("exit 3\n.*" + status)
        job.says(r"exit 3\n.*is it a c10d store of torch 2\.5 or later" if job.torch.is_1x else
                 r"exit 0\n.*c10d +ok.*ready +warning: .*is it torch's own store\?", word="preflight --timeout 2s")
    return said


@case("a job is cancelled: all its containers are deleted")
def cancelled(job):
    ended = r"no runs at .*: all have ended|RUN stopped  (?:left|closed), "  # torch 2.3 to 2.7 closes the run at SIGTERM
    for run, number, state in (("stopped", signal.SIGTERM, ended), ("killed", signal.SIGKILL, "RUN killed  left, ")):
        for name in "23":
            job.agent(name, run=run)
        job.started(2)
        job.kills("23", number)
        said = job.says("exit 0\n.*" + state, "MISSING", "FAILED")
        job.events.clear()
    with urllib.request.urlopen("http://localhost:%d/metrics" % job.port, timeout=20) as reply:
        metrics = reply.read().decode()
    waits = re.findall(r"^rdzvd_run_state_seconds{[^}]*joining[^}]*}|^rdzvd_run_missing_nodes{[^}]*} [1-9].*", metrics, re.M)
    if waits or 'state="left"' not in metrics:
        raise JobFailed("alerts are to come: %s\n%s" % (waits, metrics))
    return said


@case("README.md: begin with two nodes, and go on with fewer", flags=recipe()[1])
def fewer_nodes(job):
    """Torch by itself would begin after the last call, and go on after another one. As in README.md, a worker that fails
    with the lost one is started again."""
    job.last_call_s = recipe()[0]
    job.agent("2", nnodes="1:4", restarts=10)
    job.says(r"RUN job  last call, [45]\d\d s left.*1 of 2 nodes.*MISSING: 1")
    job.agent("3", nnodes="1:4", restarts=10)
    job.started(2)
    mark = job.mark()
    job.kill_agent("3")
    job.wait(lambda: [e for e in job.events[mark:] if e["event"] == "start"], "the next round")
    if [e["world"] for e in job.events if e["event"] == "start"] != ["2", "2", "1"]:
        raise JobFailed("it has begun, or gone on, with other numbers of nodes: %s" % job.events)
    return job.says(r"RUN job  complete, round 1.*\n    0 +2 .*\(pid %d\) was lost" % job.agents["3"].pid)


# --- Workers. ---


def work(what):
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415

    culprit = os.environ["RANK"] == "1"
    if what == "torchs-store":
        backend = {"use_libuv": not culprit} if hasattr(dist.TCPStore, "libuvBackend") else {}
        store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), is_master=True, wait_for_workers=False, **backend)
        os.write(1, b"train: start rank=0 world=%d pid=%d\n" % (store.num_keys() + 1, os.getpid()))
        time.sleep(300)
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
    function, what, _, flags = CASES[name]
    folder = tempfile.mkdtemp(prefix="rdzv-hangs-", dir=options.logs)
    began = time.monotonic()
    with Rdzvd(*flags) as server:
        job = Hang(torch, server, folder, name)
        try:
            said = function(job)
        except netns.NoNamespaces as why:
            out("skipped torch %s %s: %s" % (torch.name, name, why))
            return True
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
