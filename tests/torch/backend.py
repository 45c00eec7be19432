"""The wheel's rendezvous backend with real torch: `torchrun --rdzv-backend=rdzvd`, and `python -m rdzvd run` with 1.13.

    backend.py [--torch NAME]... [--all] [--case WORD] [--tell]

Each release gets an environment with torch and the wheel only. Two jobs use one store at a time: two agents with a worker
each, and one agent alone, of another user if the test runs as root. The store is killed under both jobs, a relay is killed, and
an agent is killed and replaced.
In other cases, relays end with their agents, and mistakes get a sentence with the remedy. --all: every release, and 100 agents
are killed; the programs are then those of deploy/static.sh, because releases in Debian trees lack libraries."""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

import torches
from forked import Forks
from installed import Installed, Store, wait_gone
from job import STOP, Job, JobFailed

sys.path.insert(0, os.path.join(torches.ROOT, "tests", "support"))
from cases import CASES, case, check  # noqa: E402
from certs import Ca  # noqa: E402
from servers import Rdzvd, free_port  # noqa: E402
from wheels import check_output, make_wheel  # noqa: E402

SCRATCH = tempfile.mkdtemp(prefix="rdzv-backend-")
os.chmod(SCRATCH, 0o755)  # the other user runs programs of the wheel there
OTHER_USER = 65534
# Another user, who may read torch wherever it is.
AS_OTHER_USER = ["setpriv", "--reuid=%d" % OTHER_USER, "--regid=%d" % OTHER_USER, "--clear-groups",
                 "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
DEATHS = 20  # of the store
PATIENCE_S = 60
GONE_S = 1  # after its agent, the relay has ended
REJOIN_S = 2  # from the arrival of the new agent to its round


def children_of(pid):
    """The pids of a process's children, and the words of their command lines."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % name, encoding="utf-8") as f:
                parent = int(f.read().rsplit(")", 1)[1].split()[1])
            with open("/proc/%s/cmdline" % name, encoding="utf-8") as f:
                words = f.read().split("\0")
        except OSError:
            continue
        if parent == pid:
            found[int(name)] = words
    return found


def relays_of(pid):
    """The processes that listen for the agent `pid`, by their parent: their pids and addresses."""
    listens = {child: [w[len("--listen="):] for w in words if w.startswith("--listen=127.29.")]
               for child, words in children_of(pid).items()}
    return {child: found[0] for child, found in listens.items() if found}


def variable_of(pid, name):
    with open("/proc/%d/environ" % pid, "rb") as f:
        return dict(v.split(b"=", 1) for v in f.read().split(b"\0") if b"=" in v)[name.encode()].decode()


class BackendJob(Job):
    """Agents whose workers are always in a collective of gloo, which they form over the store."""

    workers_per_agent = 1
    max_restarts = 3
    forks_agents = False  # they run from the wheel

    def __init__(self, torch, port, folder, run_id, nnodes, user=None):
        super().__init__(torch, "rdzvd", port, folder, run_id, nnodes, seconds=900, shares=True)
        self.user = user

    def environment(self, **extra):
        return self.torch.environment(**extra)

    def endpoint_of(self, name):
        return "127.0.0.1:%d" % self.port

    def torchrun(self, name, endpoint, workers, *more):
        argv = super().torchrun(name, endpoint, workers, *more)
        if self.torch.is_1x:
            at = len(self.torch.python)
            argv[at:at] = ["-m", "rdzvd", "run", "--", *self.torch.python]
        return AS_OTHER_USER + argv if self.user else argv

    def program(self):
        return [os.path.join(torches.HERE, "peers.py"), "--folder=" + self.folder, "--collective=gloo", "--tell=5"]

    @property
    def own_word(self):
        return "--folder=" + self.folder

    def starts(self):
        return len([e for e in self.events if e["event"] == "start"])

    def finish_well(self, names):
        with open(os.path.join(self.folder, "over"), "w", encoding="utf-8"):
            pass
        self.wait(lambda: all(self.agents[n].code is not None for n in names), "the end of all agents")
        check(all(self.agents[n].code == 0 for n in names), "exit codes: %s" % {n: self.agents[n].code for n in names})


class Scene:
    """Two jobs, a store, and one fault after the other."""

    def __init__(self, torch, options):
        self.torch, self.options = torch, options
        self.folder = tempfile.mkdtemp(dir=SCRATCH)
        self.began = time.monotonic()
        self.store = Store(self.folder)
        self.pair = self.make_job("pair", "2:2")
        # A release in a tree needs root for its mounts.
        two_users = os.getuid() == 0 and torch.sees("/")
        self.single = self.make_job("single", "1:1", OTHER_USER if two_users else None)
        self.jobs = (self.pair, self.single)

    def make_job(self, run_id, nnodes, user=None):
        folder = os.path.join(self.folder, run_id)
        os.mkdir(folder)
        if user is not None:
            os.chown(folder, user, user)
        return BackendJob(self.torch, self.store.port, folder, run_id, nnodes, user)

    def tell(self, text):
        if self.options.tell:
            print("  [%s, %5.1f s] %s" % (self.torch.name, time.monotonic() - self.began, text), flush=True)

    def go_on(self):
        for job, world in ((self.pair, 2), (self.single, 1)):
            job.wait_training(world, since=job.mark())

    def relay_of(self, job, name):
        (pid, address), = relays_of(job.agents[name].pid).items()
        return pid, address

    def runs_at(self, address):
        status = check_output(sys.executable, "-m", "rdzvd", "ctl", "-s", address, "-o", "json", "status",
                              env=dict(os.environ, PYTHONPATH=self.options.target))
        return [run for space in json.loads(status) for run in space["runs"]]

    def relays_are_apart(self):
        """Each worker uses its own agent's relay, and each relay shows the run of its own job only."""
        places, users = [], set()
        for job, names in ((self.pair, "ab"), (self.single, "c")):
            for name in names:
                pid, address = self.relay_of(job, name)
                places.append(address)
                users.add((os.stat("/proc/%d" % pid).st_uid, os.stat("/proc/%d" % job.agents[name].pid).st_uid))
                check([run["id"] for run in self.runs_at(address)] == [job.run_id], "runs at " + address)
                for pid in job.workers(name).values():
                    place = "%s:%s" % (variable_of(pid, "MASTER_ADDR"), variable_of(pid, "MASTER_PORT"))
                    check((place == address) != self.torch.is_1x, "the worker uses %s, its relay is %s" % (
                        place, address))
        check(len(set(places)) == 3, "relays at %s" % places)
        other = self.single.user
        check(users == {(os.getuid(),) * 2, (other if other else os.getuid(),) * 2}, "users of relays and agents: %s" % users)

    def store_dies(self):
        starts = [job.starts() for job in self.jobs]
        for _ in range(DEATHS):
            self.store.kill()
            self.store.daemon.wait_log(r"event=link_opened ", count=3)
            self.go_on()
        check([job.starts() for job in self.jobs] == starts, "workers were started again after deaths of the store")
        self.tell("%d deaths of the store" % DEATHS)

    def relay_dies(self):
        if self.torch.is_1x:
            return
        starts = self.pair.starts()
        pid, address = self.relay_of(self.pair, "a")
        before, = self.runs_at(address)
        gives_up = r"event=node_reconnected space=pair "
        given_up = len(re.findall(gives_up, self.store.daemon.log()))
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        self.pair.wait(lambda: relays_of(self.pair.agents["a"].pid).keys() not in ({pid}, set()), "a new relay")
        check(self.relay_of(self.pair, "a")[1] == address, "the new relay has another address")
        took = time.monotonic() - began
        # The store now gives the connection of the relay that has died up, and knows the agent by its new one.
        self.store.daemon.wait_log(gives_up, timeout=60, count=given_up + 1)
        self.go_on()
        run, = self.runs_at(address)
        check((run["state"], run["round"], run["agents"]) == ("complete", before["round"], 2), str(run))
        check(self.pair.starts() == starts, "workers were started again after the death of a relay")
        self.tell("a relay was killed, and started again after %.1f s" % took)

    def agent_dies(self):
        relay, _ = self.relay_of(self.pair, "b")
        self.pair.kill_agent("b")
        wait_gone(relay, GONE_S)
        self.pair.start_agent("b2")
        # Until then, steps may be those of the lost agent's worker, whose output is still read.
        self.pair.wait(lambda: self.pair.workers("b2"), "a worker of the new agent")
        self.pair.wait_training(2, since=self.pair.mark())
        log = [line for line in self.store.daemon.log().splitlines() if "space=pair" in line]
        joined = [line for line in log if "event=node_joined" in line and "/%d/0 " % self.pair.agents["b2"].pid in line][0]
        done = [line for line in log if "event=round_complete" in line][-1]
        took = time_of(done) - time_of(joined)
        check(took <= REJOIN_S, "%.1f s from the arrival of the new agent to its round" % took)
        self.tell("agent b was killed and replaced; its round was complete %.1f s after it had come" % took)

    def run(self):
        try:
            self.pair.start_agent("a")
            self.pair.start_agent("b")
            self.single.start_agent("c")
            self.go_on()
            self.tell("both jobs train")
            self.relays_are_apart()
            self.store_dies()
            self.agent_dies()
            self.relay_dies()
            relays = [self.relay_of(job, name)[0] for job, names in ((self.pair, ("a", "b2")), (self.single, ("c",)))
                      for name in names]
            self.pair.finish_well(("a", "b2"))
            self.single.agents["c"].process.send_signal(signal.SIGTERM)
            self.single.agents["c"].killed = True
            self.single.wait(lambda: self.single.agents["c"].code is not None, "the end after SIGTERM")
            for pid in relays:
                wait_gone(pid, GONE_S)
        except (JobFailed, AssertionError):
            print("\n".join(job.logs(40) for job in self.jobs))
            print("---- rdzvd\n" + "\n".join(self.store.daemon.log().splitlines()[-60:]))
            raise
        finally:
            for job in self.jobs:
                job.end()
            self.store.daemon.stop()


def time_of(line):
    """Seconds of the day, of a line of rdzvd's log."""
    hours, minutes, seconds = re.search(r"T(\d+):(\d+):([\d.]+)Z", line).groups()
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


@case
def jobs_survive_the_store_a_relay_and_an_agent(options):
    for torch in options.torches:
        scene = Scene(torch, options)
        scene.run()
        print("  torch %s: %d deaths of the store (%.1f s)" % (
            torch.name, scene.store.deaths, time.monotonic() - scene.began))


@case
def a_spare_ends_as_its_job_does(options):
    torch = next(t for t in options.torches if not t.is_1x)
    folder = tempfile.mkdtemp(dir=SCRATCH)
    store = Store(folder)
    for code in (0, 3):
        job = BackendJob(torch, store.port, tempfile.mkdtemp(dir=folder), "code-%d" % code, "1:1")
        job.max_restarts = 0
        job.environment = lambda **extra: torch.environment(RDZV_TEST_NODE="a", **extra)
        try:
            job.start_agent("a")
            job.wait_training(1, since=job.mark())
            job.start_agent("spare")
            store.daemon.wait_log("event=node_joined space=code-%d .*role=spare" % code)
            with open(os.path.join(job.folder, "exit.a"), "w", encoding="ascii") as f:
                f.write(str(code))
            for agent in job.agents.values():
                agent.killed = code != 0  # its failure ends no wait
            job.wait(lambda: all(agent.code is not None for agent in job.agents.values()), "the end of both agents")
            codes = [job.agents[name].code for name in ("a", "spare")]
            check(codes == ([1, 1] if code else [0, 0]), "%s\n%s" % (codes, job.logs(20)))
        finally:
            job.end()
    store.daemon.stop()


HOLDER = """
import sys, threading, time
from rdzvd.relay import Relay
def make():
    global relay
    relay = Relay(sys.argv[1:])
    print(relay.pid, relay.host, relay.port, flush=True)
thread = threading.Thread(target=make)  # torch's launcher may run in a thread that ends
thread.start()
thread.join()
while True:
    time.sleep(600)
"""


@case
def no_relay_outlives_its_process(options):
    env = dict(os.environ, PYTHONPATH=options.target)
    slowest = 0
    with Rdzvd() as store:
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            for turn in range(options.kills):
                upstream = store.port if turn % 2 == 0 else free_port()  # the store may be away
                holder = subprocess.Popen([sys.executable, "-c", HOLDER, "--upstream=127.0.0.1:%d" % upstream], env=env,
                                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                relay, host, port = holder.stdout.readline().split()
                connect(host, int(port)).close()
                began = time.monotonic()
                holder.send_signal(number)
                holder.wait(20)
                wait_gone(int(relay), GONE_S)
                slowest = max(slowest, time.monotonic() - began)
                holder.stdout.close()
    print("  %d processes; the slowest relay ended after %.2f s" % (3 * options.kills, slowest))


def await_true(condition, what):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        check(time.monotonic() < until, "never: " + what)
        time.sleep(0.01)


def has_worker(pid):
    return any(words[:1] == ["sleep"] for words in children_of(pid).values())


def end_agent(agent, number):
    """Ends an agent by a signal, then checks that its relay ends. Returns the seconds that the relay has needed."""
    children = children_of(agent.pid)
    relays = list(relays_of(agent.pid))
    os.kill(agent.pid, number)
    agent.wait(PATIENCE_S)
    began = time.monotonic()
    for pid in set(children) - set(relays):  # workers of an agent that was killed
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    check(relays, "the agent has no relay")
    for pid in relays:
        wait_gone(pid, GONE_S)
    return time.monotonic() - began


def start_forked(forks, torch, nnodes, run_id, store):
    return forks.start(
        ["torch.distributed.run", "--nnodes=" + nnodes, "--nproc_per_node=1", "--no_python", "--rdzv_backend=rdzvd",
         "--rdzv_endpoint=127.0.0.1:%d" % store.port, "--rdzv_id=" + run_id, "--local_addr=127.0.0.1", "sleep", "600"],
        torch.environment())


def start_run(torch, program, store):
    return subprocess.Popen(torch.python + ["-m", "rdzvd", "run", "--", program, "--rdzv_endpoint=127.0.0.1:%d" % store.port],
                            env=torch.environment(), stdin=subprocess.DEVNULL)


@case
def no_relay_outlives_its_agent(options):
    """An agent may be killed as soon as it has a relay, while it waits for another node, and while its worker runs."""
    torches_of_agents = [t for t in options.torches if not t.is_1x]
    program = os.path.join(SCRATCH, "agent")  # in the place of torchrun 1.13, which nothing can fork
    with open(program, "w", encoding="ascii") as f:
        f.write("#!/bin/sh\nexec sleep 600\n")
    os.chmod(program, 0o755)
    turns = [(number, phase) for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
             for phase in ("relay", "waits", "trains", "run")]
    slowest, count = 0, 0
    with Rdzvd() as store, contextlib.ExitStack() as stack:
        every = [(torch, stack.enter_context(contextlib.closing(Forks(torch)))) for torch in torches_of_agents]
        while count < 3 * options.kills:
            number, phase = turns[count % len(turns)]
            torch, forks = every[count // len(turns) % len(every)]
            run_id = "job-%d" % count
            if phase == "run":
                agent = start_run(options.old, program, store)
            else:
                agent = start_forked(forks, torch, "2" if phase == "waits" else "1", run_id, store)
            await_true(lambda: relays_of(agent.pid), "a relay of " + run_id)
            if phase == "waits":
                await_true(lambda: "event=node_joined space=%s " % run_id in store.log(), run_id + " joins")
            elif phase == "trains":
                await_true(lambda: has_worker(agent.pid), "a worker of " + run_id)
            slowest = max(slowest, end_agent(agent, number))
            count += 1
            if agent.stdout:
                agent.stdout.close()
    print("  %d agents; the slowest relay ended %.2f s after its agent" % (count, slowest))


def connect(host, port):
    until = time.monotonic() + 20
    while True:
        try:
            return socket.create_connection((host, port), timeout=20)
        except OSError:
            check(time.monotonic() < until, "nobody listens at %s:%d" % (host, port))
            time.sleep(0.01)


@case
def a_relay_starts_again_at_its_address(options):
    sys.path.insert(0, options.target)
    from rdzvd.relay import Relay
    with Rdzvd() as store:
        relays = [Relay(["--upstream=127.0.0.1:%d" % store.port]) for _ in range(8)]
        check(len({relay.host + str(relay.port) for relay in relays}) == 8, "two relays have one address")
        for relay in relays:
            relay.wait_ready(20)
        relay, pid = relays[0], relays[0].pid
        os.kill(pid, signal.SIGKILL)
        check(relay.wait_for_start(1, 20) and relay.pid != pid, "it was not started again")
        relay.wait_ready(20)
        pids = [r.pid for r in relays]
        del relay, relays  # without stop()
        for pid in pids:
            wait_gone(pid, 5)


MISTAKE = """
import json, sys, time
from rdzvd.backend import get_handler
from rdzvd.relay import Relay
from torch.distributed.elastic.rendezvous import RendezvousConnectionError, RendezvousParameters
at_once = Relay._read
def late(*lines):  # on busy cores the thread that reads the child's lines starts after the child's end
    time.sleep(0.3)
    at_once(*lines)
Relay._read = late
for endpoint, most, conf in json.loads(sys.argv[1]):
    try:
        handler = get_handler()(RendezvousParameters("rdzvd", endpoint, "job", 1, most, read_timeout=2, **conf))
        handler.set_closed()
        print("no error")
        handler.shutdown()
    except RendezvousConnectionError as error:
        print("sentence: " + str(error))
"""


@case
def settings_reach_the_store_and_mistakes_get_a_sentence(options):
    torch = next(t for t in options.torches if not t.is_1x)
    ca = Ca()
    cert, key = ca.issue()
    with Rdzvd("--cert=" + cert, "--key=" + key, "--plaintext=off") as secure, \
            Rdzvd(listen=("127.0.0.1:0/other",)) as named:
        down = free_port()
        mistakes = [
            ("no-such-host.invalid:29400", 2, {}, "no-such-host.invalid"),
            ("127.0.0.1:%d" % down, 2, {}, "Connection refused"),
            ("127.0.0.1:%d" % secure.port, 2, {}, "--rdzv-conf ca="),
            ("127.0.0.1:%d" % named.port, 2, {}, "other"),
            ("127.0.0.1:29400", 2, {"token": "secret"}, "rdzvctl (--token-file)"),
            ("127.0.0.1:29400", 2, {"spce": "abc"}, "--rdzv-conf spce=… is wrong: did you mean space=?"),
            ("127.0.0.1:29400", 2, {"ca": "/nowhere.pem"}, "/nowhere.pem"),
            ("http://store:29400", 2, {}, "must be HOST:PORT"),
            ("", 2, {}, "--rdzv-endpoint=HOST:PORT is missing"),
        ]
        out = torch.run("-c", MISTAKE, json.dumps([m[:3] for m in mistakes]), code=0)
        right = [("127.0.0.1:%d" % secure.port, 2, {"ca": ca.pem, "space": "chosen"}), ("", 1, {})]
        fine = torch.run("-c", MISTAKE, json.dumps(right), code=0)
        check(fine.count("no error") == len(right), fine)
        secure.wait_log(r"event=run_ended space=chosen run=job ")
    sentences = re.findall(r"^(sentence: .*|no error)$", out, re.M)
    check(len(sentences) == len(mistakes) and "--upstream" not in "".join(sentences), out)
    for sentence, (endpoint, _, conf, wanted) in zip(sentences, mistakes):
        if options.tell:
            print("  %s %s: %s" % (endpoint, conf, sentence))
        check(wanted in sentence, "%s %s: no %r in: %s" % (endpoint, conf, wanted, sentence))
    with Rdzvd() as first:
        out = check_output(sys.executable, "-m", "rdzvd", "--listen=127.0.0.1:%d" % first.port, code=1,
                           env=dict(os.environ, PYTHONPATH=options.target))
        check("event=listen_failed" in out and "Address already in use" in out, out)


@case
def old_releases_are_sent_to_run(options):
    torch = options.old
    flags = ["--nnodes=1", "--rdzv_endpoint=127.0.0.1:%d" % free_port(), "train.py"]
    out = torch.run("-m", "torch.distributed.run", "--rdzv_backend=rdzvd", *flags, code=1)
    check("The rendezvous backend 'rdzvd' is not registered" in out, out)
    out = torch.run("-m", "rdzvd", "run", "--", "torchrun", "--rdzv_conf=read_timeout=1", *flags, code=1)
    check("The relay has not reached its store for 1 s" in out and "Connection refused" in out, out)
    out = torch.run("-m", "rdzvd", "run", "--", "torchrun", "--rdzv_backend=etcd", *flags, code=1)
    check("--rdzv-backend=etcd is wrong" in out, out)
    check("usage: " in torch.run("-m", "rdzvd", "run", code=1), "usage")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", action="append")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--case", action="append")
    parser.add_argument("--tell", action="store_true")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: STOP.set())
    chosen = torches.choose(options.torch or (torches.ALL if options.all else torches.DEFAULT))
    wheel = make_wheel(SCRATCH, static=not all(t.sees("/") for t in chosen))
    options.kills = 34 if options.all else 4
    options.old = Installed(torches.choose(["1.13.1"])[0], wheel, SCRATCH)
    options.target = options.old.folder
    options.torches = [options.old if t.name == "1.13.1" else Installed(t, wheel, SCRATCH) for t in chosen]
    passed = failed = 0
    for function in CASES:
        if options.case and not any(word in function.__name__ for word in options.case):
            continue
        began = time.monotonic()
        try:
            function(options)
            passed += 1
            print("passed  %s (%.1f s)" % (function.__name__, time.monotonic() - began), flush=True)
        except Exception as error:  # every failure is one, whatever was raised
            failed += 1
            traceback.print_exc(file=sys.stdout)
            print("FAIL %s: %s\nagain: python3 tests/torch/backend.py --case %s --tell" % (
                function.__name__, error, function.__name__), flush=True)
    shutil.rmtree(SCRATCH, ignore_errors=True)
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
