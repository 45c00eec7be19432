"""torchrun end to end: elastic training jobs that meet through rdzvd, or through its peers.

    elastic.py [--torch NAME]... [--all | --usual] [--backend NAME]... [--scenario NAME]...
               [--server rdzvd|peer | --port PORT] [--own_store] [--tls] [--at_once N] [--tell] [--logs DIR]

Without names: both usual releases, the three backends, the four scenarios. --usual leaves out what other steps
of every run do, too. The peers are torch's own TCPStore server in its own process for c10d, and a real etcd for etcd-v2 and etcd. --port names
a server on loopback that runs already; else every run has a fresh one. With --tls, etcd's backends speak HTTPS
with a certificate each, and rdzvd takes nothing else. --tell says in plain words
what goes on.

Over c10d and rdzvd torch has its default settings. The peers, etcd's backends and torch 2.6, where
a rank 0 that moves is torch's own AssertionError, need TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1, and
with --own_store all have it: worker 0 hosts the workers' store then.
"""

import argparse
import concurrent.futures
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback

import torches
from job import BACKENDS, STOP, Job, JobFailed, out
from run_store_api import PeerStore

sys.path.insert(0, os.path.join(torches.ROOT, "tests", "support"))
import certs  # noqa: E402
from servers import Etcd, Rdzvd  # noqa: E402



# ------------------------------------------------------------ scenarios


def started_once(job, since=0):
    """The workers of two agents, that is; all of it has happened behind `since`."""
    starts = [e for e in job.events[since:] if e["event"] == "start"]
    if len(starts) != 2 * job.workers_per_agent:
        raise JobFailed("workers were started again without a reason: %s" % starts)


def plain(start, tell):
    """The workers of two agents train to the end."""
    job = start("2:2")
    world = 2 * job.workers_per_agent
    job.start_agent("a")
    job.start_agent("b")
    job.wait_training(world)
    tell("%d workers of 2 agents train" % world)
    job.finish(world)
    started_once(job)


def worker_crash(start, tell):
    """A worker dies, the one that matters most: rank 0. The world forms again and goes on."""
    job = start("2:2")
    world = 2 * job.workers_per_agent
    job.start_agent("a")
    job.start_agent("b")
    job.wait_training(world)
    started_once(job)
    mark = job.mark()
    name = job.agent_of(0)
    pid = job.kill_worker(name, 0)
    tell("%d workers train; killed rank 0 (pid %d, agent %s)" % (world, pid, name))
    job.wait_new_training(world, since=mark)
    if job.first_step(world, since=mark) == 0:
        raise JobFailed("the new world did not go on from the checkpoint")
    tell("%d workers train again, from step %d on" % (world, job.first_step(world, since=mark)))
    job.finish(world)
    started_once(job, since=mark)


def agent_death(start, tell):
    """A machine is lost, with its agent and workers; another takes its place."""
    job = start("2:2")
    world = 2 * job.workers_per_agent
    job.start_agent("a")
    job.start_agent("b")
    job.wait_training(world)
    tell("%d workers of 2 agents train" % world)
    mark, lost = job.mark(), job.last_agent()
    job.kill_agent(lost)
    tell("killed agent %s and its workers; starting a new agent, c" % lost)
    job.start_agent("c")
    job.wait_new_training(world, since=mark)
    first = job.first_step(world, since=mark)
    if first == 0:
        raise JobFailed("the new world did not go on from the checkpoint")
    tell("%d workers train again, agent c's among them, from step %d on" % (world, first))
    last = job.finish(world)
    tell("finished at step %s with loss %s; both agents left ended with exit code 0" % (
        last["step"], last["loss"]))


def scale_up(start, tell):
    """One agent trains alone; two more come."""
    job = start("1:3")
    job.start_agent("a")
    job.wait_training(job.workers_per_agent)
    tell("the workers of 1 agent train; starting two more agents")
    mark = job.mark()
    job.start_agent("b")
    job.start_agent("c")
    world = 3 * job.workers_per_agent
    job.wait_new_training(world, since=mark)
    tell("%d workers of 3 agents train, from step %d on" % (world, job.first_step(world, since=mark)))
    job.finish(world)


SCENARIOS = {"plain": plain, "worker-crash": worker_crash, "agent-death": agent_death,
             "scale-up": scale_up}


def is_usual(torch, backend, scenario):
    """Whether a run of all tests has it here. `plain` is how worker-crash begins and ends. repair.py scales up over
    c10d. torch 2.13.0 sends the same requests to etcd as 1.13.1, and status.py loses and replaces an agent of 2.13.0 over
    each backend."""
    if scenario == "plain" or (backend, scenario) == ("c10d", "scale-up"):
        return False
    return torch.name != "2.13.0" or (backend, scenario) == ("c10d", "worker-crash")


# ------------------------------------------------------------ running them


class Running:
    """A server that somebody else started."""

    def __init__(self, port):
        self.port = port

    def log(self):
        return ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


# How torch's two backends name the files: --rdzv-conf.
TLS_CONF = {"etcd-v2": ("ca_cert", "ssl_cert", "ssl_cert_key"), "etcd": ("cacert", "cert", "key")}


def tls_conf(backend, ca):
    files = (ca.pem, *ca.issue("agent", None))
    return ["protocol=https"] + ["%s=%s" % pair for pair in zip(TLS_CONF[backend], files)]


def server_for(options, torch, backend, ca):
    if ca:
        cert, key = ca.issue()
        return Rdzvd("--cert=" + cert, "--key=" + key, "--client-ca=" + ca.pem, "--plaintext=off")
    if options.port:
        return Running(options.port)
    if options.server == "rdzvd":
        return Rdzvd()
    return PeerStore(torch) if backend == "c10d" else Etcd()


def run(options, torch, backend, scenario):
    """True if it passed. Says so, or all that is known about the failure."""
    if STOP.is_set():
        return False
    name = "torch %s %s %s" % (torch.name, backend, scenario)
    run_id = "job-%s-%s-%d" % (backend, scenario, os.getpid())
    if options.logs:
        folder = os.path.join(os.path.abspath(options.logs), name.replace(" ", "-"))
        os.makedirs(folder)
    else:
        folder = tempfile.mkdtemp(prefix="rdzv-elastic-")
    begin, jobs, server = time.monotonic(), [], None
    ca = certs.Ca() if options.tls else None
    shares = (backend == "c10d" and options.server == "rdzvd" and not options.own_store
              and torch.name != "2.6")

    def start(nnodes):
        jobs.append(Job(torch, backend, server.port, folder, run_id, nnodes, shares=shares))
        if backend != "c10d":
            jobs[0].workers_per_agent = 1  # the workers do not meet at the store
        if ca:
            jobs[0].conf = tls_conf(backend, ca)
        return jobs[0]

    def tell(text):
        if options.tell:
            out("  [%s, %5.1f s] %s" % (backend, time.monotonic() - begin, text))

    try:
        with server_for(options, torch, backend, ca) as server:
            try:
                SCENARIOS[scenario](start, tell)
            finally:
                for job in jobs:
                    job.end()
            if isinstance(server, Rdzvd):
                code = server.stop()
                if code != 0:
                    raise JobFailed("rdzvd ended with %d on SIGTERM" % code)
    except Exception as error:  # reported, counted, and the next one runs
        out("failed  %s (%.1f s): %s" % (name, time.monotonic() - begin, error))
        if not isinstance(error, JobFailed):
            out(traceback.format_exc())
        for job in jobs:
            out(job.logs())
        if server is not None and server.log():
            out("---- server\n" + "\n".join(server.log().splitlines()[-100:]))
        out("again: %s %s --torch %s --backend %s --scenario %s --server %s%s\nlogs: %s" % (
            sys.executable, os.path.abspath(__file__), torch.name, backend, scenario,
            options.server, " --own_store" * options.own_store + " --tls" * options.tls, folder))
        return False
    out("passed  %s (%.1f s)" % (name, time.monotonic() - begin))
    if not options.logs:
        shutil.rmtree(folder, ignore_errors=True)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", action="append", help="%s; repeatable" % ", ".join(torches.ALL))
    parser.add_argument("--all", action="store_true", help="every release, not only the usual two")
    parser.add_argument("--usual", action="store_true", help="without what other tests do, too")
    parser.add_argument("--backend", action="append", choices=BACKENDS)
    parser.add_argument("--scenario", action="append", choices=tuple(SCENARIOS))
    parser.add_argument("--server", choices=("rdzvd", "peer"), default="rdzvd")
    parser.add_argument("--port", type=int, help="a running server's port on 127.0.0.1")
    parser.add_argument("--own_store", action="store_true", help="worker 0 hosts the workers' store")
    parser.add_argument("--tls", action="store_true", help="etcd's backends over HTTPS")
    parser.add_argument("--at_once", type=int, default=2, help="how many runs at a time")
    parser.add_argument("--tell", action="store_true", help="say what goes on")
    parser.add_argument("--logs", help="a folder for all logs, kept")
    options = parser.parse_args()

    if options.tls and (options.server != "rdzvd" or options.port or "c10d" in (options.backend or BACKENDS)):
        parser.error("--tls is for a fresh rdzvd, with --backend etcd-v2 or etcd: torch's c10d has no TLS")

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: STOP.set())

    runs = [(torch, backend, scenario) for torch in torches.choose(options.torch, options.all)
            for backend in options.backend or BACKENDS
            for scenario in options.scenario or SCENARIOS
            if not options.usual or is_usual(torch, backend, scenario)]
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        results = list(pool.map(lambda r: run(options, *r), runs))
    print("%d passed, %d failed" % (results.count(True), results.count(False)))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
