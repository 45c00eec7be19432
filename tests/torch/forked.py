"""One process that has loaded torch, and forks an agent of torchrun, or a script, for each request: it starts in
milliseconds, and many of them share their memory.

    forked.py            a request on its input is a line of JSON: {"argv": [...], "env": {...}, "output": PATH}.
                         It answers each with `started PID`, and says `ended PID STATUS` when an agent ends

`argv` is that of `python -m torch.distributed.run`, or of `python SCRIPT.py`. `output` is a FIFO that somebody reads. All agents end with
this process. The class Forks is its other side, for tests; it needs the standard library only.
"""

import atexit
import contextlib
import ctypes
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import threading

PR_SET_PDEATHSIG = 1


class ForkedAgent:
    """What a test uses of a subprocess.Popen."""

    def __init__(self, forks, pid, stdout):
        self.forks, self.pid, self.stdout = forks, pid, stdout
        self.returncode = None
        self.ended = threading.Event()

    def end(self, status):
        self.returncode = os.waitstatus_to_exitcode(status)
        self.ended.set()

    def poll(self):
        return self.returncode

    def wait(self, timeout=None):
        if not self.ended.wait(timeout):
            raise subprocess.TimeoutExpired("agent %d" % self.pid, timeout)
        return self.returncode

    def kill(self):
        """The pid is this agent's until `ended`: the process that forked it says that once it has waited for it."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class Forks:
    def __init__(self, torch):
        self.process = subprocess.Popen(
            torch.python + [os.path.abspath(__file__)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=torch.environment(TMPDIR=tempfile.gettempdir(), LOGLEVEL="INFO"), start_new_session=True)
        self.folder = tempfile.TemporaryDirectory(prefix="rdzv-forked-")
        self.agents, self.count = {}, 0
        self.one_at_a_time = threading.Lock()
        self.lock, self.started = threading.Condition(), []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            word, pid, *status = line.split()
            with self.lock:
                if word == "started":
                    self.started.append(int(pid))
                    self.lock.notify_all()
                    self.lock.wait_for(lambda pid=int(pid): pid in self.agents)
                    continue
                agent = self.agents.pop(int(pid))
            agent.end(int(status[0]))
        with self.lock:  # it has ended, and the kernel has killed the agents
            self.started.append(None)
            self.lock.notify_all()
            left = list(self.agents.values())
        for agent in left:
            agent.end(signal.SIGKILL)

    def start(self, argv, env):
        """A process like that of subprocess.Popen(argv, env=env)."""
        with self.one_at_a_time, self.lock:
            self.count += 1
            output = os.path.join(self.folder.name, "output%d" % self.count)
            os.mkfifo(output)
            reader = os.open(output, os.O_RDONLY | os.O_NONBLOCK)  # so that the agent can open it
            self.process.stdin.write(json.dumps({"argv": argv, "env": env, "output": output}) + "\n")
            self.process.stdin.flush()
            self.lock.wait_for(lambda: self.started)
            os.unlink(output)
            pid = self.started[0]
            if pid is None:
                raise AssertionError("forked.py has ended with %s" % self.process.poll())
            self.started.pop(0)
            os.set_blocking(reader, True)
            agent = self.agents[pid] = ForkedAgent(self, pid, os.fdopen(reader, "rb"))
            self.lock.notify_all()
            return agent

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()


class EveryForks:
    """For each release the process that forks its agents, from the first agent to the end of the test."""

    def __init__(self):
        self.lock, self.by_torch = threading.Lock(), {}
        atexit.register(self.close)

    def of(self, torch):
        with self.lock:
            if torch.name not in self.by_torch:
                self.by_torch[torch.name] = Forks(torch)
            return self.by_torch[torch.name]

    def close(self):
        for forks in self.by_torch.values():
            forks.close()


EVERY_FORKS = EveryForks()


# ------------------------------------------------------------ the process itself


def become_agent(request):
    """In the forked process."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a new Python
    null = os.open(os.devnull, os.O_RDONLY)
    for old, new in ((null, 0), (request["output"], 1), (request["output"], 2)):
        os.dup2(old, new)
    os.closerange(3, max(null, request["output"]) + 1)
    os.environ.clear()
    os.environ.update(request["env"])
    random.seed()
    sys.argv[:] = request["argv"]


def run_agent():
    import runpy  # noqa: PLC0415
    import torch.distributed.elastic.multiprocessing.errors  # noqa: F401, PLC0415
    if sys.argv[0].endswith(".py"):
        runpy.run_path(sys.argv[0], run_name="__main__")
        return
    runpy.run_module("torch.distributed.run", run_name="__main__", alter_sys=True)


def fork(request):
    """True in the process that is forked. Its output is open before anybody hears of it."""
    request["output"] = os.open(request["output"], os.O_WRONLY)
    pid = os.fork()
    if pid == 0:
        return True
    os.close(request["output"])
    print("started", pid, flush=True)
    return False


def reap():
    """Says which agents have ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        print("ended", pid, status, flush=True)


def serve():
    """Forks until its input ends; returns the request in an agent, and None at the end."""
    wake_read, wake_write = os.pipe()
    for fd in (wake_read, wake_write):
        os.set_blocking(fd, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write)
    buffer = b""
    while True:
        ready, _, _ = select.select([0, wake_read], [], [])
        if wake_read in ready:
            os.read(wake_read, 4096)
            reap()
        if 0 in ready:
            more = os.read(0, 65536)
            if not more:
                return None
            *lines, buffer = (buffer + more).split(b"\n")
            for line in lines:
                request = json.loads(line)
                if fork(request):
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    os.close(wake_read)
                    os.close(wake_write)
                    return request


def main():
    import torch.distributed.run  # noqa: F401, PLC0415
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # a Ctrl-C is for the test, which closes its input
    request = serve()
    if request is None:
        return
    become_agent(request)
    run_agent()


if __name__ == "__main__":
    del sys.path[0]  # the tests' own modules are none of torch's business
    main()
