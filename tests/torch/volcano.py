#!/usr/bin/python3
"""Elastic jobs as Volcano runs them: what its controller and a kubelet do to a job's pods.

    volcano.py [--case NAME]... [--torch NAME]... [--repeat N] [--jobs N] [--seed N] [--logs DIR]
               [--list] [--tell]

The job comes out of rdzv-manifest ($RDZV_MANIFEST, else the one in build/): a Volcano Job in which
worker 0 hosts the store, rewritten to rdzvd, with its command line as it stands; and for what needs
an elastic one, a short user file that is emitted. Every pod is a network namespace (netns.py) with
its address and host name. The pod has the additions of the env and svc plugins: VC_TASK_INDEX, VC_WORKER_HOSTS,
VC_WORKER_NUM, the host list under /etc/volcano. A container that fails is started again in its pod
(restartPolicy: OnFailure) with the kubelet's back-off; a pod that is deleted is made again under its
name with another address; RestartTask makes all pods of the task again, RestartJob does and counts
the job's version up. `torchrun` is the release's own, and the script is train.py: gloo on CPU.

Needs root and python3-yaml; where network namespaces cannot be made it says so and skips.
"""

import argparse
import concurrent.futures
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import netns
import torches
from job import STOP, Agent, JobFailed, out
from pods import FAULT_SECONDS, Cases, PodJob, PodRdzvd, PodRun, rdzvd_binary

sys.path[:0] = [os.path.join(torches.ROOT, "tests", "manifest")]
import platforms  # noqa: E402

try:
    import yaml
except ImportError:
    sys.exit("volcano.py: python3-yaml is missing: run tests/support/install.sh test")

MANIFEST = os.environ.get("RDZV_MANIFEST",
                          os.path.join(torches.ROOT, "build", "deploy", "rdzv-manifest"))
BACKOFF_SECONDS = (0, 10, 20, 40, 80)  # the kubelet's, before it starts a container again

# Puts the host lists where the svc plugin mounts them. The files that the pod has bound into /etc
# would be hidden, so they are bound again.
VOLUME = r"""
set -e
lists=$1 hosts=$2 resolv=$3 where=$4
shift 4
mount -t overlay volcano -o "lowerdir=$lists:/etc" /etc
mount --bind "$hosts" /etc/hosts
case $where in /etc/*) mount --bind "$resolv" "$where" ;; esac
exec "$@"
"""

# What the image has under the name torchrun: the words in front of the script as they are, then
# our script for the image's.
TORCHRUN = """#!/bin/bash
words=()
for word in "$@"; do
    case $word in
    *.py) words+=(%(script)s); break ;;
    *) words+=("$word") ;;
    esac
done
exec %(python)s -m torch.distributed.run "${words[@]}"
"""


def quote(words):
    return " ".join("'%s'" % w.replace("'", "'\\''") for w in words)


class LivePod:
    """A running pod: its index in the task, its node and its container."""

    def __init__(self, index, spec, node):
        self.index, self.spec, self.node = index, spec, node
        self.agent, self.crashes, self.gone = None, 0, False


class VolcanoJob(PodJob):
    """The controller's and the kubelet's part. Cases call what a person or a node would cause."""

    def __init__(self, torch, network, documents, folder, replicas=None):
        super().__init__(torch, None, folder, None, None)
        self.deadline = time.monotonic() + FAULT_SECONDS
        self.network, self.documents = network, platforms.flatten(documents)
        self.spec = [d for d in self.documents if d["apiVersion"].startswith("batch.volcano.sh/")][0]
        self.task = self.spec["spec"]["tasks"][-1]
        self.count = replicas or self.task.get("replicas", 1)
        self.version, self.uid = 0, str(uuid.uuid4())
        self.pods, self.lock = {}, threading.RLock()
        self.kubelet = threading.Thread(target=self._kubelet, daemon=True)
        self.stopped = threading.Event()
        self._write_image()
        self._write_lists()

    # -------------------------------------------------------- what pods find

    def _write_image(self):
        self.bin = os.path.join(self.folder, "bin")
        os.makedirs(self.bin)
        path = os.path.join(self.bin, "torchrun")
        script = [os.path.join(torches.HERE, "train.py"), "--checkpoint=" + self.checkpoint,
                  "--hold=" + self.hold, "--steps=40", "--tell=5"]
        with open(path, "w") as f:
            f.write(TORCHRUN % {"script": quote(script), "python": quote(self.torch.python)})
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def _write_lists(self):
        """The ConfigMap JOB-svc: a list of hosts for each task."""
        self.lists = os.path.join(self.folder, "lists")
        os.makedirs(os.path.join(self.lists, "volcano"))
        job = self.spec["metadata"]["name"]
        for task in self.spec["spec"]["tasks"]:
            hosts = ["%s-%s-%d.%s\n" % (job, task["name"], i, job)
                     for i in range(task.get("replicas", 1))]
            with open(os.path.join(self.lists, "volcano", task["name"] + ".host"), "w") as f:
                f.writelines(hosts)

    def _specs(self):
        """The task's pods as the controller would make them now."""
        pods = [p for p in platforms.pods_of([self.spec])
                if p.annotations["volcano.sh/task-spec"] == self.task["name"]]
        for pod in pods:
            pod.annotations["scheduling.k8s.io/group-name"] = "%s-%s" % (
                self.spec["metadata"]["name"], self.uid)
            pod.annotations["volcano.sh/job-version"] = str(self.version)
        return pods

    # -------------------------------------------------------- the controller

    def make_pod(self, index):
        spec = self._specs()[index]
        job = self.spec["metadata"]["name"]
        node = self.network.pod(spec.name, ["%s.%s" % (spec.name, job)])
        with self.lock:
            self.pods[index] = LivePod(index, spec, node)
            self._start_container(self.pods[index])

    def make_pods(self, count=None):
        for index in range(count or self.count):
            self.make_pod(index)
        if not self.kubelet.is_alive():
            self.kubelet.start()

    def delete_pod(self, index, grace=2):
        """SIGTERM, then SIGKILL; the controller, which only syncs, makes it again."""
        self._end_pod(index, grace)
        self.make_pod(index)

    def restart_task(self):
        """Policy RestartTask."""
        count = len(self.pods)
        for index in range(count):
            self._end_pod(index, 0)
        for index in range(count):
            self.make_pod(index)

    def restart_job(self):
        """Policy RestartJob: the whole job is killed and made again, as its next version."""
        self.version += 1
        self.restart_task()

    def _end_pod(self, index, grace):
        with self.lock:
            pod = self.pods[index]
            pod.gone = True
        agent = pod.agent
        if agent.code is None and grace:
            first = pod.node.first(agent.process)
            if first is not None:
                os.kill(first, signal.SIGTERM)
            try:
                agent.process.wait(grace)
            except subprocess.TimeoutExpired:
                pass
        if agent.code is None:
            pod.node.kill(agent.process)

    # -------------------------------------------------------- the kubelet

    def _start_container(self, pod):
        container = pod.spec.training()[0]
        env = self.torch.environment()
        del env["GLOO_SOCKET_IFNAME"]  # the pod's name leads to its address, as by default
        env.update(platforms.environment(pod.spec, container, pod.node.address, self.documents))
        env["PATH"] = self.bin + ":" + env["PATH"]
        argv = pod.node.enter() + ["sh", "-c", VOLUME, "sh", self.lists, self.network.hosts,
                                   self.network.resolv, netns.RESOLV]
        name = "%s.%d" % (pod.spec.name, len(self.agents))
        agent = Agent(self, name, argv + platforms.command_line(container, env, []), env)
        agent.pod, agent.index = pod.node, pod.index
        agent.killed = True  # that it fails is no failure of the job's: the kubelet sees to it
        self.agents[name] = pod.agent = agent

    def _kubelet(self):
        """restartPolicy: OnFailure."""
        due = {}
        while not self.stopped.wait(0.1):
            with self.lock:
                for pod in self.pods.values():
                    code = pod.agent.code
                    if pod.gone or code in (None, 0):
                        continue
                    if pod not in due:
                        wait = BACKOFF_SECONDS[min(pod.crashes, len(BACKOFF_SECONDS) - 1)]
                        due[pod] = time.monotonic() + wait
                        pod.crashes += 1
                    elif time.monotonic() >= due[pod]:
                        del due[pod]
                        self._start_container(pod)

    def index_of(self, rank):
        return self.agent_with(rank).index

    def kill_container(self, index):
        self.pods[index].node.kill(self.pods[index].agent.process)

    def complete(self, size):
        """The training ends: every pod's container with 0, as TaskCompleted or minSuccess need."""
        os.unlink(self.hold)
        self.wait(lambda: all(p.agent.code == 0 for p in self.pods.values()),
                  "the success of all pods")
        last = self.worlds()[-1]
        done = [e for e in self.events if e["event"] == "done" and e["id"] == last.name]
        if sorted(int(e["rank"]) for e in done) != list(range(size)):
            raise JobFailed("not every rank of the last world ended: %s" % done)
        if len({e["model"] for e in done}) != 1:
            raise JobFailed("the ranks do not agree on the model: %s" % done)
        self.check_apart()

    def end(self):
        self.stopped.set()
        if self.kubelet.is_alive():
            self.kubelet.join()
        super().end()


# ------------------------------------------------------------ cases

case = Cases()


@case("plain", "the job runs to its end")
def plain(run):
    job = run.train(2)
    job.complete(2)


def worker_killed(run, rank):
    job = run.train(2)
    run.fault(job)
    job.kill_rank(rank)
    run.formed(job, 2)
    job.complete(2)


@case("worker-0", "worker 0 killed")
def worker_0(run):
    worker_killed(run, 0)


@case("worker-1", "worker 1 killed")
def worker_1(run):
    worker_killed(run, 1)


def container_killed(run, rank):
    job = run.train(2)
    run.fault(job)
    job.kill_container(job.index_of(rank))
    run.formed(job, 2)
    job.complete(2)


@case("container-0", "rank 0's container killed, restarted in place")
def container_0(run):
    container_killed(run, 0)


@case("container-1", "the last rank's container killed, restarted in place")
def container_1(run):
    container_killed(run, 1)


@case("containers", "all containers killed, restarted in place")
def containers(run):
    job = run.train(2)
    run.fault(job)
    for index in range(2):
        job.kill_container(index)
    run.formed(job, 2)
    job.complete(2)


def pod_deleted(run, rank):
    job = run.train(2)
    run.fault(job)
    job.delete_pod(job.index_of(rank))
    run.formed(job, 2)
    job.complete(2)


@case("pod-0", "rank 0's pod deleted, made again with another address")
def pod_0(run):
    pod_deleted(run, 0)


@case("pod-1", "the last rank's pod deleted, made again with another address")
def pod_1(run):
    pod_deleted(run, 1)


@case("node-lost", "the last rank's node switched off, its pod made again on another")
def node_lost(run):
    job = run.train(2)
    index = job.index_of(1)
    job.pods[index].node.link(False)
    run.fault(job)
    job.delete_pod(index, 0)
    run.formed(job, 2)
    job.complete(2)


@case("restart-task", "RestartTask")
def restart_task(run):
    job = run.train(2)
    run.fault(job)
    job.restart_task()
    run.formed(job, 2)
    job.complete(2)


@case("restart-job", "RestartJob: the next version of the job")
def restart_job(run):
    job = run.train(2)
    run.fault(job)
    job.restart_job()
    run.formed(job, 2)
    job.complete(2)


@case("node-cut", "a node cut off for 20 s and back")
def node_cut(run):
    job = run.train(2)
    node = job.pods[job.index_of(1)].node
    node.link(False)
    run.pass_seconds(20)
    run.fault(job)
    node.link(True)
    run.formed(job, 2, old_may_go_on=True)
    job.complete(2)


@case("frozen", "an agent frozen for 20 s")
def frozen(run):
    job = run.train(2)
    agent = job.agent_with(1)
    job.signal_pod(agent, signal.SIGSTOP, False)
    run.pass_seconds(20)
    run.fault(job)
    job.signal_pod(agent, signal.SIGCONT, False)
    run.formed(job, 2, old_may_go_on=True)
    job.complete(2)


@case("store-stopped", "the store stopped for 25 s, then a worker killed")
def store_stopped(run):
    job = run.train(2)
    os.kill(run.store.pid, signal.SIGSTOP)
    run.pass_seconds(25)
    os.kill(run.store.pid, signal.SIGCONT)
    run.fault(job)
    job.kill_rank(1)
    run.formed(job, 2)
    job.complete(2)


@case("again", "the job deleted after success and submitted again")
def again(run):
    job = run.train(2)
    job.complete(2)
    again = run.submit(run.rewritten())
    run.fault(again)
    again.make_pods(2)
    run.formed(again, 2)
    again.complete(2)


@case("scale-up", "an elastic job: room for a third and a fourth pod")
def scale_up(run):
    job = run.train(2, run.emitted())
    for size in 3, 4:
        run.fault(job)
        job.make_pod(size - 1)
        run.formed(job, size)
    job.complete(4)


@case("elastic-pod", "an elastic job: a pod deleted, made again")
def elastic_pod(run):
    job = run.train(2, run.emitted())
    run.fault(job)
    job.delete_pod(job.index_of(0))
    run.formed(job, 2)
    job.complete(2)


def joined_after(run, seconds, send):
    """One more pod comes to an elastic job of two after a fault of that many seconds."""
    job = run.train(2, run.emitted())
    send(job, signal.SIGSTOP)
    run.pass_seconds(seconds)
    send(job, signal.SIGCONT)
    run.fault(job)
    job.make_pod(2)
    run.formed(job, 3)
    job.complete(3)


@case("elastic-frozen", "an elastic job: an agent frozen for 20 s, then a third pod")
def elastic_frozen(run):
    joined_after(run, 20, lambda job, number: job.signal_pod(job.agent_with(1), number, False))


@case("elastic-store", "an elastic job: the store stopped for 25 s, then a third pod")
def elastic_store(run):
    joined_after(run, 25, lambda job, number: os.kill(run.store.pid, number))


# ------------------------------------------------------------ running them


class Run(PodRun):
    """One case, once: the store that its documents describe, and the jobs."""

    def manifest(self, words):
        done = subprocess.run([MANIFEST] + words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise JobFailed("rdzv-manifest %s: %s" % (" ".join(words), done.stderr.strip()))
        with open(os.path.join(self.folder, words[0] + ".yaml"), "w") as f:
            f.write(done.stdout)
        return list(yaml.safe_load_all(done.stdout))

    def rewritten(self):
        return self.manifest(["rewrite", os.path.join(
            torches.ROOT, "tests", "manifest", "rewrite", "volcano-c10d.yaml")])

    def emitted(self):
        return self.manifest(["emit", "-f", os.path.join(torches.HERE, "volcano.yaml")])

    def start_store(self, documents):
        """rdzvd with its container's arguments, behind the names of its Services."""
        pods = platforms.pods_of(platforms.flatten(documents))
        spec = [p for p in pods if p.stores()][0]
        names = platforms.service_names(platforms.flatten(documents), pods)[spec]
        node = self.network.pod(spec.name, names + spec.names)
        args = [a for a in spec.stores()[0].get("args") or []
                if not a.startswith(("--listen=", "--data-dir="))]
        return PodRdzvd(node, *args)

    def submit(self, documents):
        folder = os.path.join(self.folder, "job%d" % len(self.jobs))
        os.makedirs(folder)
        job = VolcanoJob(self.torch, self.network, documents, folder)
        self.jobs.append(job)
        return job

    def train(self, count, documents=None):
        documents = documents or self.rewritten()
        self.store = self.start_store(documents)
        self.store.__enter__()
        job, begin = self.submit(documents), time.time()
        job.make_pods(count)
        world = job.wait_world(count, begin)
        self.pass_steps(job)
        self.tell("a world of %d trains, after %.1f s" % (count, world.began - begin))
        return job

    def work(self):
        self.network = netns.Network(self.folder)
        try:
            case[self.name][1](self)
        finally:
            for job in self.jobs:
                job.end()
            if self.store is not None:
                os.kill(self.store.pid, signal.SIGCONT)
                code = self.store.stop()
                with open(os.path.join(self.folder, "store.log"), "w") as f:
                    f.write(self.store.log() + "\n")
            self.network.close()
        if code != 0:
            raise JobFailed("rdzvd ended with %d on SIGTERM" % code)

    def again_command(self):
        return "RDZVD=%s RDZV_MANIFEST=%s %s %s --case %s --torch %s --seed %d" % (
            rdzvd_binary(), MANIFEST, sys.executable, os.path.abspath(__file__), self.name,
            self.torch.name, self.seed)


def run(options, torch, name, seed):
    if STOP.is_set():
        return False
    one = Run(options, "volcano", torch, name, seed)
    try:
        one.work()
    except Exception as error:  # reported, counted, and the next one runs
        out(one.report(error))
        return False
    one.passed()
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=tuple(case), metavar="NAME")
    parser.add_argument("--torch", action="append", choices=torches.ALL[1:], metavar="NAME",
                        help="the job's command line is not for 1.13 (default: 2.13.0)")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--logs", help="a folder for all logs, kept")
    parser.add_argument("--list", action="store_true", help="the cases")
    parser.add_argument("--tell", action="store_true", help="say what goes on")
    options = parser.parse_args()

    if options.list:
        case.print()
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: STOP.set())
    with tempfile.TemporaryDirectory(prefix="rdzv-volcano-probe-") as folder:
        why = netns.refused(folder)
    if why:
        print("skipped: no network namespaces here: " + why)
        print("0 passed, 0 failed, 1 skipped")
        return
    chosen = torches.choose(options.torch or ["2.13.0"])
    runs = [(torch, name, options.seed + i) for i in range(options.repeat)
            for name in options.case or case for torch in chosen]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda r: run(options, *r), runs))
    print("%d passed, %d failed" % (results.count(True), results.count(False)))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
