"""A release of torch with the wheel, and a store that dies: what backend.py and slurm.py share."""

import glob
import os
import signal
import subprocess
import sys
import time

import torches

sys.path.insert(0, os.path.join(torches.ROOT, "tests", "support"))
from cases import check  # noqa: E402
from servers import Rdzvd, free_port  # noqa: E402
from wheels import check_output, make_environment  # noqa: E402


class Installed(torches.Torch):
    """A release with the wheel: in an environment of its own, or for Debian's releases in a folder on its path."""

    def __init__(self, torch, wheel, folder):
        super().__init__(torch.name, torch.python, torch.mark)
        self.folder = os.path.join(folder, torch.name)
        self.variables = {}
        if torch.name == "2.13.0":
            site, = glob.glob(os.path.join(os.path.dirname(torch.mark), "lib", "python3*", "site-packages"))
            self.python = [make_environment(self.folder, "/usr/bin/python3", wheel)]
            with open(glob.glob(self.folder + "/lib/python3*/site-packages")[0] + "/torch.pth", "w",
                      encoding="utf-8") as f:
                f.write(site + "\n")
            torchrun = os.path.join(self.folder, "bin", "torchrun")
            with open(torchrun, "w", encoding="ascii") as f:
                f.write('#!/bin/sh\nexec %s -m torch.distributed.run "$@"\n' % self.python[0])
            os.chmod(torchrun, 0o755)
        else:
            check_output(sys.executable, "-m", "pip", "install", "--no-index", "--quiet", "--target", self.folder, wheel)
            self.variables = {"PYTHONPATH": self.folder}

    def environment(self, **extra):
        return super().environment(**dict(self.variables, **extra))

    def run(self, *words, code=None):
        """The output of its Python."""
        done = subprocess.run(self.python + list(words), env=self.environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, timeout=120)
        check(code is None or done.returncode == code, "exit %d:\n%s" % (done.returncode, done.stdout))
        return done.stdout


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_gone(pid, seconds):
    until = time.monotonic() + seconds
    while is_alive(pid):
        check(time.monotonic() < until, "%d s after its agent, the relay %d still runs" % (seconds, pid))
        time.sleep(0.01)


class Store:
    def __init__(self, folder, *flags):
        self.port, self.deaths, self.daemon = free_port(), 0, None
        self.flags = ["--data-dir=" + os.path.join(folder, "data"), *flags]
        self.start()

    def start(self):
        self.daemon = Rdzvd(*self.flags, listen=("127.0.0.1:%d" % self.port,))
        self.daemon.wait_log(r"event=ready ")

    def kill(self):
        check(self.daemon.stop(signal.SIGKILL) == -signal.SIGKILL, "the store has ended before")
        self.deaths += 1
        self.start()
