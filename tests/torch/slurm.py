"""deploy/slurm/job.sbatch in a real cluster of Slurm: one slurmctld and three slurmd on loopback, with torchrun and the wheel.

    slurm.py [NAME...]     all cases, or the cases whose name contains a NAME

Slurm comes from `tests/support/install.sh slurm`, and needs root. An agent is killed, a node goes down, a node is a spare, the
time limit is near, and the store is killed under two jobs that share nodes."""

import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

import torches
from installed import Installed, Store, wait_gone

sys.path.insert(0, os.path.join(torches.ROOT, "tests", "support"))
import cases  # noqa: E402
from cases import case, check  # noqa: E402
from servers import free_ports  # noqa: E402
from wheels import check_output, make_wheel  # noqa: E402

SLURM = os.path.join(torches.CACHE, "slurm")
SCRIPT = os.path.join(torches.ROOT, "deploy", "slurm", "job.sbatch")
SCRATCH = tempfile.mkdtemp(prefix="rdzv-slurm-")
NODES = 3
PATIENCE_S = 300
CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmdParameters=config_overrides
PluginDir={plugins}
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdSpoolDir={folder}/spool-%n
NodeName=n[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def wait_until(look, what):
    return cases.until(look, what, PATIENCE_S)


class Cluster:
    """slurmctld and slurmd as children, and the environment of people who use them."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(dir=SCRATCH)
        libraries = glob.glob(SLURM + "/usr/lib/*-linux-gnu")[0]
        plugins = os.path.join(libraries, "slurm-wlm")
        port = free_ports(NODES + 1)
        self.torch = Installed(torches.choose(["2.13.0"])[0], make_wheel(self.folder), self.folder)
        programs = os.path.dirname(self.torch.python[0])
        config = os.path.join(self.folder, "slurm.conf")
        with open(config, "w", encoding="ascii") as f:
            f.write(CONFIG.format(host=socket.gethostname(), port=port, first=port + 1, last=port + NODES, plugins=plugins,
                                  folder=self.folder, nodes=NODES))
        self.env = self.torch.environment(
            SLURM_CONF=config, TMPDIR=self.folder, LD_LIBRARY_PATH=libraries + ":" + plugins,
            PATH=":".join((programs, SLURM + "/usr/bin", SLURM + "/usr/sbin", os.environ["PATH"])))
        os.mkdir(os.path.join(self.folder, "state"))
        self.daemons = [self.start("slurmctld-wlm")]
        self.daemons += [self.start("slurmd-wlm", "-N", "n%d" % i, "-d", SLURM + "/usr/sbin/slurmstepd-wlm")
                         for i in range(1, NODES + 1)]
        wait_until(lambda: self.ask("sinfo", "--noheader", "--format=%t%D") == "idle%d" % NODES, "idle nodes")

    def start(self, program, *words):
        with open(os.path.join(self.folder, program + ".log"), "ab") as log:
            return subprocess.Popen([os.path.join(SLURM, "usr/sbin", program), "-D", *words], env=self.env, stdout=log, stderr=log)

    def ask(self, *words):
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, timeout=PATIENCE_S)
        return done.stdout.strip()

    def submit(self, nodes, **variables):
        return Job(self, nodes, variables)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ask("scontrol", "update", "nodename=n[1-%d]" % NODES, "state=resume")  # a node that is down ends no task
        self.ask("scancel", "--user=root")
        try:
            wait_until(lambda: self.ask("squeue", "--noheader") == "", "the end of all jobs")
        finally:
            for daemon in self.daemons:
                daemon.terminate()
            for daemon in self.daemons:
                daemon.wait(PATIENCE_S)


class Job:
    """One sbatch of the script, whose workers are always in a collective of gloo."""

    def __init__(self, cluster, nodes, variables):
        self.cluster, self.folder = cluster, tempfile.mkdtemp(dir=SCRATCH)
        out = check_output(
            "sbatch", "--parsable", "--nodes=%d" % nodes, "--output=" + self.output_file(), SCRIPT,
            os.path.join(torches.HERE, "peers.py"), "--folder=" + self.folder, "--collective=gloo", "--tell=5",
            env=dict(cluster.env, STORE_HOST="localhost", **variables), cwd=self.folder)
        self.id = out.strip()

    def output_file(self):
        return os.path.join(self.folder, "output")

    def output(self):
        if not os.path.exists(self.output_file()):
            return ""
        with open(self.output_file(), encoding="utf-8", errors="replace") as f:
            return f.read()

    def events(self, name):
        return [dict(word.split("=", 1) for word in line.split()) for line in
                re.findall(r"train: %s (.*)" % name, self.output())]

    def train(self, world):
        """Until all ranks of that world have done more steps."""
        before = len(self.events("step"))
        ranks = set(map(str, range(world)))

        def look():
            return {e["rank"] for e in self.events("step")[before:] if e.get("world") == str(world)} >= ranks
        try:
            wait_until(look, "%d ranks in training" % world)
        except AssertionError:
            print(self.output()[-8000:])
            raise

    def processes(self, node, word, variable=None):
        """The processes of this job on that node that have the word in their command line, or the variable in their
        environment."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/environ" % pid, "rb") as f:
                    env = f.read().split(b"\0")
                with open("/proc/%s/cmdline" % pid, "rb") as f:
                    words = f.read().split(b"\0")
            except OSError:
                continue
            if {b"SLURM_JOB_ID=" + self.id.encode(), b"SLURMD_NODENAME=" + node.encode()} <= set(env) and (
                    word in words or variable in [v.partition(b"=")[0] for v in env]):
                found.append(int(pid))
        return found

    def kill_agent(self, node):
        agent, = self.processes(node, b"torch.distributed.run")
        for pid in (agent, *self.processes(node, None, b"LOCAL_RANK")):
            os.kill(pid, signal.SIGKILL)
        wait_gone(agent, 60)

    def status(self):
        """What an operator on the first node sees, if the store runs there."""
        return self.cluster.ask("srun", "--jobid=" + self.id, "--overlap", "--nodes=1", "--ntasks=1", "--nodelist=n1", "rdzvctl",
                                "-s", "unix:%s/rdzvd-%s.sock" % (self.cluster.folder, self.id), "status")

    def finish(self):
        """All workers end well; then so does the job."""
        with open(os.path.join(self.folder, "over"), "w", encoding="ascii"):
            pass
        wait_until(lambda: self.field("JobState") not in ("RUNNING", "COMPLETING"), "the end of the job")

    def field(self, name):
        found = re.search(r"\b%s=(\S+)" % name, self.cluster.ask("scontrol", "show", "job", self.id))
        return found.group(1) if found else None


def missing():
    if not os.path.exists(os.path.join(SLURM, ".complete")):
        return "there is no Slurm: tests/support/install.sh slurm"
    return "slurmd needs root" if os.getuid() != 0 else None


@case
def the_store_on_the_first_node_outlives_an_agent_and_ends_with_the_job():
    if missing():
        return missing()
    with Cluster() as cluster:
        job = cluster.submit(2)
        job.train(2)
        store = job.processes("n1", b"--regroup-wait=5s")
        check(len(store) == 1, "stores: %s" % store)
        out = job.status()
        check(re.search(r"RUN %s +complete.*\n +2 of 2 nodes" % job.id, out), out)
        job.kill_agent("n2")
        job.train(2)
        job.finish()
        check((job.field("JobState"), job.field("ExitCode")) == ("COMPLETED", "0:0"), job.output()[-4000:])
        wait_gone(store[0], 60)
    return None


@case
def a_spare_ends_well_with_its_job_and_a_signal_asks_for_a_checkpoint():
    if missing():
        return missing()
    with Cluster() as cluster:
        job = cluster.submit(3, NODES_MAX="2")
        job.train(2)
        wait_until(lambda: re.search(r"2 of 2 nodes.*1 spare", job.status(), re.S), "a spare")
        cluster.ask("scancel", "--batch", "--signal=USR1", job.id)
        wait_until(lambda: re.search(r"drain +\* .*time limit", job.status()), "the drain of all nodes")
        job.finish()
        check((job.field("JobState"), job.field("ExitCode")) == ("COMPLETED", "0:0"), job.output()[-4000:])
    return None


@case
def two_jobs_at_one_store_outlive_its_death_and_that_of_a_node():
    if missing():
        return missing()
    folder = tempfile.mkdtemp(dir=SCRATCH)
    store = Store(folder, "--regroup-wait=2s")
    try:
        with Cluster() as cluster:
            address = "127.0.0.1:%d" % store.port
            first = cluster.submit(3, STORE=address, NODES_MIN="2")
            second = cluster.submit(1, STORE=address)
            first.train(3)
            second.train(1)
            store.kill()
            first.train(3)
            second.train(1)
            cluster.ask("scontrol", "update", "nodename=n3", "state=down", "reason=test")
            first.train(2)
            second.train(1)
            for job in (second, first):
                job.finish()
            check(second.field("JobState") == "COMPLETED", second.output()[-4000:])
            check(len(first.events("done")) == 2, first.output()[-4000:])
    finally:
        store.daemon.stop()
    return None


if __name__ == "__main__":
    try:
        sys.exit(cases.run(os.path.join("tests", "torch", "slurm.py")))
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
