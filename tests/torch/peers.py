"""A worker that is always in a collective with all others. It starts fast, since it loads torch only for
`--collective gloo`.

    peers.py --folder DIR [--collective ring|hang|alone|gloo] [--tell N] [--step_ms N]

    ring    the ranks hold a ring of connections, and pass each step round it. If a neighbour ends, the worker ends
            at once with 1, as in a collective of gloo
    hang    the same ring. If a neighbour ends, the worker waits for ever, as in a collective of NCCL
    alone   no ring: the worker continues if others end
    gloo    torch's all_reduce of all ranks, without a pause

Started by torchrun. Says what it does as train.py does: `train: EVENT key=value ...`, with

    start   when all ranks are there         step   every N steps     done   the worker ends with 0
    sigterm when SIGTERM came, which ends the worker at once         lost   a neighbour has ended

If the file `over` is in DIR, all ranks end with 0, at one step. If DIR has a file `exit.NODE`, and NODE is the value of
RDZV_TEST_NODE in the environment, the worker ends at once with the number in that file; with a file `slow.NODE`, it ends so
many seconds after SIGTERM. With `gloo`, rank 0 sets rdzvd/progress
to the number in the file `progress` when it starts.
"""

import argparse
import os
import select
import signal
import socket
import sys
import threading
import time

PATIENCE_S = 0.02  # between two looks at the files


def tell(event, **fields):
    words = " ".join("%s=%s" % item for item in dict(fields, at="%.4f" % time.time()).items())
    os.write(1, ("train: %s %s\n" % (event, words)).encode())


class Lost(Exception):
    """A neighbour has ended."""


class Worker:
    def __init__(self, options):
        self.options = options
        env = os.environ
        self.rank, self.world = int(env["RANK"]), int(env["WORLD_SIZE"])
        self.who = {"rank": self.rank, "world": self.world, "pid": os.getpid()}
        self.own_exit = os.path.join(options.folder, "exit." + env.get("RDZV_TEST_NODE", ""))
        self.slow = os.path.join(options.folder, "slow." + env.get("RDZV_TEST_NODE", ""))
        self.over = os.path.join(options.folder, "over")
        self.progress = os.path.join(options.folder, "progress")
        self.id = "-"

    def listen_for_sigterm(self):
        """In a thread, since torch may block the main thread."""
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))

        def wait():
            signal.sigwait((signal.SIGTERM,))
            tell("sigterm", of=self.id, **self.who)
            if os.path.exists(self.slow):
                with open(self.slow) as f:
                    time.sleep(float(f.read()))
            os._exit(128 + signal.SIGTERM)
        threading.Thread(target=wait, daemon=True).start()

    def started(self, name):
        self.id = name
        tell("start", id=name, restart=os.environ["TORCHELASTIC_RESTART_COUNT"], group=os.environ["GROUP_RANK"], loaded="0",
             step=0, **self.who)

    def step(self, count):
        if count % self.options.tell == 0:
            tell("step", id=self.id, step=count, **self.who)

    def done(self):
        tell("done", of=self.id, **self.who)
        os._exit(0)

    def look(self):
        """Ends this worker if a file asks for it."""
        if os.path.exists(self.own_exit):
            with open(self.own_exit) as f:
                code = int(f.read())
            if code != 0:
                os.unlink(self.own_exit)  # the next worker of this node does not end
            tell("done" if code == 0 else "failed", of=self.id, **self.who)
            os._exit(code)

    def is_over(self):
        return os.path.exists(self.over)

    def lost(self):
        tell("lost", of=self.id, **self.who)


# ------------------------------------------------------------ a ring of connections


class Ring:
    """Connections to the next rank and from the rank before. Each rank listens at the path `WORLD.RANK`. A worker
    of an earlier world may still listen at a path, so each failure leads to a new try until the ring is complete."""

    def __init__(self, worker):
        self.worker = worker
        os.chdir(worker.options.folder)  # paths of sockets are short
        self.path = "%d.%d" % (worker.world, worker.rank)
        self.next_path = "%d.%d" % (worker.world, (worker.rank + 1) % worker.world)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind("%s.%d" % (self.path, os.getpid()))
        self.listener.listen(16)
        os.rename("%s.%d" % (self.path, os.getpid()), self.path)
        self.before = self.after = None
        self.buffer = b""

    def connect(self):
        """Until there is a connection to the next rank."""
        while True:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(self.next_path)
                return connection
            except OSError:
                connection.close()
                self.worker.look()
                time.sleep(PATIENCE_S)

    def form(self):
        """Passes a name of this world from rank 0 round the ring, twice. Then each rank knows that all are there."""
        first = self.worker.rank == 0
        name = "%08x" % int.from_bytes(os.urandom(4), "big")
        last = "name " + name if first else ""  # sent again to a new next rank
        self.after = self.connect()
        while True:
            if last:
                self.send(last)
            line = self.forming_line()
            if line is None:  # the next rank was another world's
                self.after.close()
                self.after = self.connect()
                continue
            word, got = line.split()
            if first and got != name:
                last = ""  # of a ring that was broken meanwhile
                continue
            last = "go " + got if first else line
            if word == "go":
                break
        if not first:
            self.send(last)
        self.listener.close()
        return got

    def send(self, line):
        try:
            self.after.sendall(line.encode() + b"\n")
        except OSError:
            pass  # the next look at the connection finds it

    def forming_line(self):
        """A line from the rank before; None: the connection to the next rank has ended."""
        while True:
            watched = [self.listener, self.after] + ([self.before] if self.before else [])
            ready, _, _ = select.select(watched, [], [], 0.1)
            self.worker.look()
            if self.after in ready:
                return None
            if self.listener in ready:
                if self.before:
                    self.before.close()
                self.before, self.buffer = self.listener.accept()[0], b""
            elif self.before in ready:
                more = self.receive()
                if not more:
                    self.before.close()
                    self.before, self.buffer = None, b""
                    continue
                self.buffer += more
            if b"\n" in self.buffer:
                line, self.buffer = self.buffer.split(b"\n", 1)
                return line.decode()

    def receive(self):
        try:
            return self.before.recv(4096)
        except OSError:
            return b""

    def line(self, over):
        """The next line from the rank before; None: there is none yet. Raises Lost. `over`: the next rank may end."""
        ready, _, _ = select.select([self.before] if over else [self.before, self.after], [], [], PATIENCE_S)
        if self.after in ready:
            raise Lost
        if self.before in ready:
            more = self.receive()
            if not more:
                raise Lost
            self.buffer += more
        if b"\n" not in self.buffer:
            return None
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()


def ring(worker):
    """Rank 0 sends each step round; the last line that it sends is `over`."""
    connections = Ring(worker)
    worker.started(connections.form())
    count, due, waits, over = 0, time.monotonic(), False, False
    while True:
        worker.look()
        if worker.rank == 0 and not waits and time.monotonic() >= due:
            due, waits = time.monotonic() + worker.options.step_ms / 1000, True
            over = worker.is_over()
            connections.send("over" if over else "step %d" % (count + 1))
        line = connections.line(over)
        if line is None or line.startswith(("name", "go")):  # a repetition
            continue
        if worker.rank != 0:
            connections.send(line)
        if line == "over":
            worker.done()
        waits, count = False, int(line.split()[1])
        worker.step(count)


def in_ring(worker):
    try:
        ring(worker)
    except Lost:
        worker.lost()
    if worker.options.collective == "ring":
        os._exit(1)
    while True:
        worker.look()
        time.sleep(PATIENCE_S)


def alone(worker):
    """The name of the world is that of the round, as far as a worker knows it."""
    worker.started("%s-%s" % (os.environ["MASTER_PORT"], os.environ["TORCHELASTIC_RESTART_COUNT"]))
    count = 0
    while not worker.is_over():
        worker.look()
        count += 1
        worker.step(count)
        time.sleep(worker.options.step_ms / 1000)
    worker.done()


def gloo(worker):
    """All other ranks wait in all_reduce most of the time: rank 0 joins only after its step_ms."""
    import datetime  # noqa: PLC0415
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415

    try:
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
        first = torch.tensor([int.from_bytes(os.urandom(4), "big")])
        dist.broadcast(first, src=0)
        if worker.rank == 0 and os.path.exists(worker.progress):
            with open(worker.progress) as f:
                dist.distributed_c10d._get_default_store().set("rdzvd/progress", f.read())
        worker.started("%08x" % int(first[0]))
        count = 0
        while True:
            worker.look()
            count += 1
            if worker.rank == 0:
                time.sleep(worker.options.step_ms / 1000)
            shared = torch.tensor([float(worker.rank == 0 and worker.is_over())])
            dist.all_reduce(shared)
            if shared[0].item() > 0:
                worker.done()
            worker.step(count)
    except RuntimeError as error:
        worker.lost()
        print(error, file=sys.stderr, flush=True)
        os._exit(1)


COLLECTIVES = {"ring": in_ring, "hang": in_ring, "alone": alone, "gloo": gloo}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--collective", choices=tuple(COLLECTIVES), default="ring")
    parser.add_argument("--tell", type=int, default=10)
    parser.add_argument("--step_ms", type=int, default=20)
    worker = Worker(parser.parse_args())
    worker.listen_for_sigterm()
    COLLECTIVES[worker.options.collective](worker)


if __name__ == "__main__":
    main()
