"""A daemon with a data directory, relays if there are any, and what is done to them at random."""

import mmap
import os
import random
import shutil
import signal
import struct
import tempfile
import time

from history import now
from proxy import Proxy
from servers import Rdzvd, free_port, rdzvd_binary

FIELDS = ("write_error", "sync_error", "sync_us", "write_us", "writes_left", "failed",
          "free_percent")
ENOSPC, EIO = 28, 5


def preload():
    """fail_disk.c, of the build that the daemon is of."""
    return os.path.join(os.path.dirname(os.path.abspath(rdzvd_binary())), "..", "tests",
                        "libfail_disk.so")


class Disk:
    """The page that fail_disk.c reads."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "disk")
        with open(self.path, "wb") as f:
            f.write(bytes(8 * len(FIELDS)))
        with open(self.path, "r+b") as f:
            self.page = mmap.mmap(f.fileno(), 8 * len(FIELDS))

    def set(self, **fields):
        for name, value in fields.items():
            struct.pack_into("<q", self.page, 8 * FIELDS.index(name), value)

    def heal(self):
        self.set(write_error=0, sync_error=0, sync_us=0, write_us=0, writes_left=0, free_percent=0)


class Cluster:
    """Everything that a run needs running."""

    def __init__(self, h, seed, mode, relays=0):
        self.h, self.mode = h, mode
        self.rng = random.Random("faults/%s" % seed)
        self.folder = tempfile.mkdtemp(prefix="rdzv-linear-")
        self.disk = Disk(self.folder)
        self.env = dict(os.environ, LD_PRELOAD=preload(), FAIL_DISK=self.disk.path)
        self.daemon = self.row = self.ports = None
        self.log = []
        self.proxy, self.relays, self.killed_relays = None, [], set()
        self.first_start()  # may have begun with the proxy
        if relays:
            self.proxy = self.proxy or Proxy(self.ports[0])
            self.relays = [self.relay("default") for _ in range(relays)] + [self.relay("small")]

    # --- The daemon.

    def first_start(self):
        """On ports that it keeps."""
        self.ports = self.ports or [free_port() for _ in range(3)]
        self.start()

    def start(self):
        began = now()
        self.daemon = Rdzvd(
            "--data-dir=" + os.path.join(self.folder, "data"), "--sync=" + self.mode,
            listen=["127.0.0.1:%d%s" % (p, s) for p, s in zip(self.ports, ("", "/small", "/fill"))],
            env=self.env)
        self.row = self.h.add("daemon", began=began, ended=None, how=None)

    def ended(self, how):
        self.daemon.process.wait(20)
        self.row.update(ended=now(), how=how)
        self.log.append(self.daemon.log())

    def expect_alive(self):
        code = self.daemon.process.poll()
        if code is not None:
            raise AssertionError("the daemon ended by itself, with %d:\n%s" % (
                code, self.daemon.log()[-3000:]))

    def restart(self, how="SIGKILL", dies=False):
        """`dies`: it does so by itself."""
        row = self.h.add("pause", **{"from": now(), "to": None, "kill": True})
        if not dies:
            self.expect_alive()
            self.daemon.process.send_signal(getattr(signal, how))
        self.ended(how)
        self.disk.heal()
        if self.rng.random() < 0.3:
            time.sleep(self.rng.random() * 0.2)
        self.start()
        row["to"] = now()

    # --- Relays.

    def relay(self, space):
        r = Rdzvd("--upstream=127.0.0.1:%d" % self.proxy.port, "--space=" + space)
        r.space = space
        return r

    def kill_relay(self):
        """Its clients see it."""
        at = self.rng.randrange(len(self.relays))
        old = self.relays[at]
        self.killed_relays.add(old.port)
        old.process.kill()
        old.process.wait()
        self.log.append(old.log())
        self.relays[at] = self.relay(old.space)

    # --- Faults. Each takes some time, and leaves nothing behind.

    def a_while(self, least=0.01, most=0.4):
        time.sleep(least + (most - least) * self.rng.random())

    def kill(self):
        self.restart()

    def kill_twice(self):
        self.restart()
        self.a_while(0, 0.03)
        self.restart()

    def terminate(self):
        self.restart("SIGTERM")

    def stop(self):
        row = self.h.add("pause", **{"from": now(), "to": None, "kill": False})
        self.daemon.process.send_signal(signal.SIGSTOP)
        self.a_while(0.02, 0.4)
        if self.rng.random() < 0.3:
            self.restart()
        else:
            self.daemon.process.send_signal(signal.SIGCONT)
        row["to"] = now()

    def die_writing(self):
        """In the middle of a write to the journal, or to a snapshot."""
        self.disk.set(writes_left=self.rng.choice((1, 2, 3, 10, 30)))
        until = now() + 10**9
        while now() < until and self.daemon.process.poll() is None:
            time.sleep(0.005)
        self.restart(dies=self.daemon.process.poll() is not None)

    def slow_disk(self):
        self.disk.set(sync_us=self.rng.choice((1000, 30000, 200000)),
                      write_us=self.rng.choice((0, 0, 3000)))
        self.a_while(0.1, 0.5)
        if self.rng.random() < 0.5:
            self.restart()
        self.disk.heal()

    def failing_disk(self):
        kind = self.rng.choice(("write_error", "sync_error"))
        row = self.h.add("pause", **{"from": now(), "to": None, "kill": True})
        self.disk.set(**{kind: self.rng.choice((ENOSPC, EIO))})
        self.a_while(0.05, 0.4)
        if self.rng.random() < 0.4:
            self.restart()
        self.disk.heal()
        row["to"] = now()

    def cut(self):
        self.proxy.cut()

    def cut_between_bytes(self):
        self.proxy.cut_after(self.rng.randrange(1, 3000))
        self.a_while(0.05, 0.2)

    def stall(self):
        self.proxy.flows.clear()
        self.a_while(0.02, 0.4)
        if self.rng.random() < 0.5:
            self.restart()
        self.proxy.flows.set()

    DIRECT = (("kill", 8), ("kill_twice", 1), ("terminate", 1), ("stop", 3), ("die_writing", 5),
              ("slow_disk", 2), ("failing_disk", 2))
    RELAYED = (("kill", 8), ("kill_twice", 1), ("terminate", 1), ("stop", 2), ("die_writing", 5),
               ("slow_disk", 1), ("cut", 5), ("cut_between_bytes", 5), ("stall", 2), ("kill_relay", 1))

    def strike(self):
        names, weights = zip(*(self.RELAYED if self.relays else self.DIRECT))
        self.expect_alive()
        name = self.rng.choices(names, weights)[0]
        getattr(self, name)()
        for r in self.relays:
            if r.process.poll() is not None:
                raise AssertionError("a relay ended, with %d:\n%s" % (
                    r.process.poll(), r.log()[-3000:]))
        return name

    # --- The end.

    def close(self):
        if self.daemon.process.poll() is None:
            self.daemon.process.kill()
            self.daemon.process.wait()
        self.log.append(self.daemon.log())
        for r in self.relays:
            r.process.kill()
            r.process.wait()
            self.log.append(r.log())
        if self.proxy:
            self.proxy.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        return "\n--\n".join(self.log)
