"""The lines at the top of README.md, as a new user types them: pip installs the wheel into an environment that has only torch,
rdzvd starts, torchrun trains with it, and rdzvctl shows the run.

    first_steps.py [NAME...]     cases with one of these words in their name, or all

The programs are those of the build of $RDZVD, else of build/. torch is 2.13.0. On one machine, the job has one node with one
worker, and the store a free port of loopback."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import torches
from installed import Installed

sys.path.insert(0, os.path.join(torches.ROOT, "tests", "support"))
import cases  # noqa: E402
from cases import case, check  # noqa: E402
from servers import free_port  # noqa: E402
from wheels import make_wheel  # noqa: E402

SCRATCH = tempfile.mkdtemp(prefix="rdzv-first-")
PATIENCE_S = 300
TRAIN = """\
import os, time, torch.distributed as dist
dist.init_process_group("gloo")
while not os.path.exists("over"):
    time.sleep(0.1)
dist.barrier()
print("trained with %d rank" % dist.get_world_size())
"""


def readme_lines():
    """The commands of the first block, without remarks."""
    with open(os.path.join(torches.ROOT, "README.md"), encoding="utf-8") as f:
        block = re.search(r"(?ms)^```sh\n(.*?)^```", f.read()).group(1)
    lines = re.sub(r"\s+# .*", "", block.replace("\\\n", " ")).splitlines()
    return [line for line in lines if line]


class Terminal:
    """A shell in which a user types commands, with only torch in its environment."""

    def __init__(self):
        self.torch = Installed(torches.choose(["2.13.0"])[0], None, SCRATCH)
        self.port, self.running = free_port(), []
        self.env = self.torch.environment(PIP_NO_INDEX="1")
        self.env["PATH"] = os.path.dirname(self.torch.python[0]) + ":" + self.env["PATH"]

    def here(self, line):
        """The line for one machine: its port, its folder, one worker."""
        for old, new in (("'*:29400'", "localhost:%d" % self.port), ("STORE_HOST:29400", "localhost:%d" % self.port),
                         ("$HOME/", SCRATCH + "/"), ("--nnodes=1:4", "--nnodes=1"),
                         ("--nproc-per-node=8", "--nproc-per-node=1"), ("status -w", "status")):
            line = line.replace(old, new)
        return line

    def start(self, line):
        """In a terminal of its own; its output goes into a file of its first word."""
        print("$ " + " ".join(line.split()), flush=True)
        with open(os.path.join(SCRATCH, line.split()[0] + ".log"), "wb") as log:
            process = subprocess.Popen(["sh", "-c", "exec " + self.here(line)], cwd=SCRATCH, env=self.env, stdout=log, stderr=log,
                                       stdin=subprocess.DEVNULL, start_new_session=True)
        self.running.append(process)
        return process

    def type(self, line):
        return subprocess.run(["sh", "-c", self.here(line)], cwd=SCRATCH, env=self.env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S)

    def end(self):
        for process in reversed(self.running):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)


def read(name):
    with open(os.path.join(SCRATCH, name), encoding="utf-8", errors="replace") as f:
        return f.read()


@case
def the_lines_of_the_readme_start_a_job():
    lines = readme_lines()
    check([line.split()[0] for line in lines] == ["pip", "rdzvd", "torchrun", "rdzvctl"], str(lines))
    install, store, agent, status = lines
    with open(os.path.join(SCRATCH, "train.py"), "w", encoding="ascii") as f:
        f.write(TRAIN)
    wheel = make_wheel(SCRATCH)
    terminal = Terminal()
    try:
        check(not os.path.exists(os.path.join(terminal.torch.folder, "bin", "rdzvd")), "it is there before it is installed")
        began = time.monotonic()
        print("$ " + install, flush=True)
        done = terminal.type(install)
        check(done.returncode == 0, "%s\n%s" % (wheel, done.stdout))
        terminal.start(store)
        torchrun = terminal.start(agent)
        print("$ " + status, flush=True)
        shown = ""
        while not re.search(r"RUN JOB +complete, .*space JOB", shown):
            check(torchrun.poll() is None and time.monotonic() - began < PATIENCE_S, "%s\n%s\n%s" % (
                shown, read("torchrun.log"), read("rdzvd.log")))
            shown = terminal.type(status).stdout
            time.sleep(0.1)
        print("%s%.0f s after the first line" % (shown, time.monotonic() - began))
        open(os.path.join(SCRATCH, "over"), "w", encoding="ascii").close()
        check(torchrun.wait(PATIENCE_S) == 0 and "trained with 1 rank" in read("torchrun.log"), read("torchrun.log"))
    finally:
        terminal.end()


if __name__ == "__main__":
    try:
        sys.exit(cases.run(os.path.join("tests", "torch", "first_steps.py")))
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
