"""rdzvd with a data directory: what clients were answered is there after kill -9 and after SIGTERM;
rdzvd refuses damaged files; when the disk is full, it refuses changes and loses none.

    durable.py [NAME...]     all cases, or the cases whose name contains a NAME

$RDZV_SEED is the seed of what is random (1). Everything stays on loopback and in directories that
the test made.
"""

import datetime
import http.client
import json
import os
import random
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "elastic")]
import agents  # noqa: E402
import cases  # noqa: E402
from agents import Agent, meet  # noqa: E402
from c10d import Peer  # noqa: E402
from cases import case, check  # noqa: E402
from disk import NEEDS_ROOT, fill_disk, put_ballast, small_disk  # noqa: E402
from filled import ask, contents, fill, goes_on, put, same  # noqa: E402
from servers import Rdzvd, free_port, rdzvd_binary, token_flag  # noqa: E402

MODES = ("batch", "always")
SEED = int(os.environ.get("RDZV_SEED", "1"))
MIB = 1 << 20


class Store:
    """A data directory, and the daemon that uses it just now."""

    def __init__(self, *flags, mode="batch", path=None, listen=("127.0.0.1:0",)):
        self.folder = None if path else tempfile.mkdtemp(prefix="rdzv-durable-")
        self.named = path or os.path.join(self.folder, "data")
        self.path = os.path.join(self.named, "rdzvd")
        self.flags = flags
        self.listen = listen
        self.mode = mode
        self.daemon = None

    def start(self):
        self.daemon = Rdzvd("--data-dir=" + self.named, "--sync=" + self.mode, token_flag(),
                            *self.flags, listen=self.listen)
        self.port = self.daemon.port
        return self.daemon

    def kill(self, sig=signal.SIGKILL):
        code = self.daemon.stop(sig)
        wanted = 0 if sig == signal.SIGTERM else -sig
        check(code == wanted, "the daemon ended with %d, not %d:\n%s" % (code, wanted, self.daemon.log()))

    def again(self, sig=signal.SIGKILL):
        self.kill(sig)
        return self.start()

    def files(self, prefix):
        return sorted(name for name in os.listdir(self.path)
                      if name.startswith(prefix) and not name.endswith(".tmp"))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, *_):
        if kind is not None and self.daemon is not None:
            print("exit code %s; the log ends:\n%s" % (self.daemon.process.poll(), self.daemon.log()[-3000:]))
        if self.daemon is not None and self.daemon.process.poll() is None:
            self.daemon.stop(signal.SIGKILL)
        if self.folder:
            shutil.rmtree(self.folder)


def once(*args):
    done = subprocess.run([rdzvd_binary(), *args], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def kept(mode, sig):
    port = free_port()
    with Store(mode=mode, listen=("127.0.0.1:%d" % port,)) as store:
        fill(store.port)
        before = contents(store.port)
        store.again(sig)
        same(contents(store.port), before, "after a restart")
        store.again(sig)
        same(contents(store.port), before, "after another one")
        goes_on(store.port)
        after = contents(store.port)
        store.again(sig)
        same(contents(store.port), after, "after more changes")


@case
def everything_survives_kill():
    for mode in MODES:
        kept(mode, signal.SIGKILL)


@case
def everything_survives_sigterm():
    for mode in MODES:
        kept(mode, signal.SIGTERM)


def expires(port, key):
    body = json.loads(ask(port, "GET", "/v2/keys" + key)[2])
    return datetime.datetime.fromisoformat(body["node"]["expiration"][:19])


@case
def a_deadline_is_given_the_time_away_alone():
    """And not the time before, in which the store was there and no client wrote: that is what the
    test lets pass."""
    for sig, most in (signal.SIGTERM, 2), (signal.SIGKILL, 6):
        with Store() as store:
            put(store.port, "/k", "value=v&ttl=1000")
            before = expires(store.port, "/k")
            time.sleep(9)
            store.again(sig)
            moved = (expires(store.port, "/k") - before).total_seconds()
            check(0 <= moved <= most, "the deadline came %.0f s later" % moved)


@case
def without_sync_a_restart_starts_empty():
    with Store(mode="off") as store:
        Peer(store.port).add(b"k", 1)
        check(not os.path.exists(store.path), "--sync=off made %s" % store.path)
        store.again()
        same(Peer(store.port).add(b"k", 1), 1, "ADD")


@case
def spaces_are_kept_apart():
    with Store(listen=("127.0.0.1:0/one", "127.0.0.1:0/two")) as store:
        for i, port in enumerate(store.daemon.ports):
            Peer(port).add(b"k", i + 1)
        store.listen = store.listen[::-1]
        daemon = store.again()
        same([Peer(port).add(b"k", 0) for port in daemon.ports], [2, 1], "the keys of two spaces")


# --- What was answered is kept.

class Adder(threading.Thread):
    """Adds 1 to a key of its own and to one that all share, until the daemon goes."""

    def __init__(self, port, name):
        super().__init__(daemon=True)
        self.port, self.name_ = port, name
        self.asked = self.answered = 0
        self.last = 0
        self.wrong = None
        self.start()

    def run(self):
        try:
            peer = Peer(self.port)
            while True:
                self.asked += 1
                got = peer.add(self.name_, 1)
                if self.last and got != self.last + 1:
                    self.wrong = "%r: %d after %d" % (self.name_, got, self.last)
                self.last = got
                self.answered += 1
        except (OSError, EOFError, struct.error):
            pass


class Putter(threading.Thread):
    """The same of an etcd key, with the indexes."""

    def __init__(self, port, name):
        super().__init__(daemon=True)
        self.port, self.path = port, "/v2/keys/" + name
        self.answered = []
        self.start()

    def run(self):
        try:
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            for i in range(1 << 30):
                c.request("PUT", self.path + "/%d" % i, body="value=%d" % i, headers={
                    "Content-Type": "application/x-www-form-urlencoded"})
                answer = json.loads(c.getresponse().read())
                self.answered.append((i, answer["node"]["modifiedIndex"]))
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            pass


def check_adders(port, adders, before):
    peer = Peer(port)
    for a in adders:
        a.join(60)
        check(not a.wrong, a.wrong)
        now = peer.add(a.name_, 0)
        least = before.get(a.name_, 0) + a.answered
        check(least <= now <= least + 1, "%r is %d; %d were answered since it was %d" % (
            a.name_, now, a.answered, before.get(a.name_, 0)))
        before[a.name_] = now
    peer.close()


def check_putters(port, putters):
    highest = 0
    for p in putters:
        p.join(60)
        if not p.answered:
            continue
        _, headers, body = ask(port, "GET", p.path)
        nodes = {n["key"]: n for n in json.loads(body)["node"]["nodes"]}
        for i, index in p.answered:
            node = nodes.get("%s/%d" % (p.path[len("/v2/keys"):], i))
            check(node is not None and node["modifiedIndex"] == index and node["value"] == str(i),
                  "%s/%d was answered with index %d and is now %r" % (p.path, i, index, node))
            highest = max(highest, index)
        check(int(headers["X-Etcd-Index"]) >= highest, "the index is %s, %d was answered" % (
            headers["X-Etcd-Index"], highest))


@case
def answered_changes_survive_kills():
    rng = random.Random("kills/%d" % SEED)
    for mode in MODES:
        with Store(mode=mode) as store:
            before = {}
            for turn in range(6):
                adders = [Adder(store.port, b"own/%d" % i) for i in range(4)]
                putters = [Putter(store.port, "t%d/c%d" % (turn, i)) for i in range(2)]
                time.sleep(0.02 + 0.3 * rng.random())  # the moment is the test's subject
                store.again()
                check_adders(store.port, adders, before)
                check_putters(store.port, putters)
            check(sum(before.values()) > 100, "only %r were added" % before)


# --- The directory.

@case
def the_directory_is_its_owners_alone():
    with Store() as store:
        same(stat.S_IMODE(os.stat(store.path).st_mode), 0o700, "the directory's mode")
        for name in os.listdir(store.path):
            same(stat.S_IMODE(os.stat(os.path.join(store.path, name)).st_mode), 0o600,
                 "the mode of " + name)
        os.chmod(store.path, 0o777)
        store.kill()
        code, _, err = once("--listen=127.0.0.1:0", "--data-dir=" + store.named)
        check(code == 1 and "data_dir_failed" in err, "%d %s" % (code, err))


@case
def a_second_daemon_is_refused():
    with Store() as store:
        code, _, err = once("--listen=127.0.0.1:0", "--data-dir=" + store.named)
        check(code == 1 and "data_dir_failed" in err and "another process" in err, "%d %s" % (code, err))
        same(Peer(store.port).add(b"k", 1), 1, "the first one goes on")


@case
def a_torn_end_is_cut():
    with Store() as store:
        Peer(store.port).add(b"k", 7)
        store.kill()
        name = os.path.join(store.path, store.files("journal-")[-1])
        with open(name, "ab") as f:
            f.write(b"\x40\0\0\0half of a frame")
        daemon = store.start()
        daemon.wait_log("event=journal_cut .*bytes=19")
        same(Peer(store.port).add(b"k", 0), 7, "the key")


@case
def damage_is_refused_with_its_place():
    with Store(mode="always") as store:
        peer = Peer(store.port)
        for i in range(50):
            peer.set(b"key/%d" % i, b"value" * 20)
            peer.ping()
        store.kill()
        name = store.files("journal-")[-1]
        path = os.path.join(store.path, name)
        size = os.path.getsize(path)
        with open(path, "r+b") as f:
            f.seek(size // 2)
            byte = f.read(1)
            f.seek(size // 2)
            f.write(bytes([byte[0] ^ 0x40]))
        before = {n: open(os.path.join(store.path, n), "rb").read() for n in os.listdir(store.path)}
        code, _, err = once("--listen=127.0.0.1:0", "--data-dir=" + store.named)
        check(code == 1, "a damaged directory was taken")
        said = re.search(r'event=data_dir_failed .*reason=("[^"]*")', err)
        check(said and name in said.group(1) and re.search(r"\d{2,}", said.group(1)), err)
        code, out, _ = once("--check-data=" + store.named)
        check(code == 1 and name in out, out)
        same({n: open(os.path.join(store.path, n), "rb").read() for n in os.listdir(store.path)},
             before, "the files")


@case
def check_data_says_what_is_there():
    with Store() as store:
        fill(store.port)
        store.kill()
        code, out, err = once("--check-data=" + store.named)
        same(code, 0, "its exit code (%s)" % err)
        check("space default: " in out and "2 users" not in out, out)
        check(re.search(r"space default: 8 c10d keys, 1 queues, \d+ etcd nodes at index \d+", out), out)
        for flags in (["--check-data=" + store.path], ["--listen=127.0.0.1:0", "--data-dir=" + store.path]):
            code, out, err = once(*flags)
            check(code == 1 and "name the directory above this one" in out + err, out + err)
        with tempfile.TemporaryDirectory(prefix="rdzv-durable-") as folder:
            others = os.path.join(folder, "rdzvd")  # the root of a volume, with a file of others
            os.mkdir(others)
            with Store(path=others):
                with open(os.path.join(others, "lock"), "wb"):
                    pass
            with Store(path=others) as again:
                again.kill()
        code, out, _ = once("--check-data=" + store.named + "/no/such")
        check(code == 1 and out, "a directory that is not there: %d %r" % (code, out))


@case
def a_copy_of_a_running_store_is_a_state_of_then():
    with Store() as store, tempfile.TemporaryDirectory(prefix="rdzv-copies-") as copies:
        counted, ends = [0], threading.Event()

        def count():
            peer = Peer(store.port)
            while not ends.is_set():
                counted[0] = peer.add(b"n", 1)

        load = threading.Thread(target=count, daemon=True)
        load.start()
        made = []
        while len(made) < 8 or counted[0] < 2000:
            copy, before = os.path.join(copies, str(len(made))), counted[0]
            subprocess.run(["cp", "-a", store.named, copy], check=True)
            made.append((copy, before, counted[0] + 1))
            code, out, _ = once("--check-data=" + copy)
            same(code, 0, "--check-data of a copy (%s)" % out)
            check(load.is_alive(), "nobody counts any more")
        same(once("--check-data=" + store.named)[0], 0, "--check-data while the store runs")
        ends.set()
        load.join(60)
        for copy, before, after in made[:2] + made[-2:]:
            with Store(path=copy) as again:
                n = Peer(again.port).add(b"n", 0)
                check(before <= n <= after, "%d is not from %d to %d" % (n, before, after))


@case
def snapshots_bound_the_journal():
    with Store("--memory-limit=1GiB") as store:
        peer, value = Peer(store.port), os.urandom(MIB)
        for i in range(200):
            peer.set(b"key/%d" % (i % 8), value[i:] + value[:i])
            peer.ping()
        store.daemon.wait_log("event=snapshot_written", timeout=60)
        peer.ping()
        used = sum(os.path.getsize(os.path.join(store.path, n)) for n in os.listdir(store.path))
        check(used < 160 * MIB, "%d MiB are used for 8 MiB of keys" % (used >> 20))
        wanted = [value[i:] + value[:i] for i in range(192, 200)]
        store.again()
        peer = Peer(store.port)
        same([peer.get(b"key/%d" % (i % 8)) == wanted[i] for i in range(8)], [True] * 8, "the keys")


# --- A disk that is full.

@case
def a_full_disk_refuses_changes_and_loses_nothing():
    for mode in MODES:
        with small_disk(24 * MIB) as folder:
            if folder is None:
                return NEEDS_ROOT
            full_disk(mode, folder)
    return None


def full_disk(mode, folder):
    with Store(mode=mode, path=os.path.join(folder, "data")) as store:
        put(store.port, "/before", "value=1")
        ballast = put_ballast(folder, 8 * MIB)
        answered = fill_disk(Peer(store.port), b"fill")
        store.daemon.wait_log("event=journal_failed")
        status, _, body = ask(store.port, "GET", "/readyz?verbose")
        check(status == 503 and b"[-]journal failed: " in body, "/readyz: %d %r" % (status, body))
        same(ask(store.port, "GET", "/livez")[0], 200, "/livez")
        status, _, body = ask(store.port, "GET", "/health")  # as etcd 3.4 says it under its alarm NOSPACE
        same((status, body), (503, b'{"health":"false"}\n'), "/health")
        same(ask(store.port, "GET", "/health?exclude=NOSPACE")[0], 200, "/health without that alarm")
        status, _, body = ask(store.port, "PUT", "/v2/keys/after", body="value=1", headers={
            "Content-Type": "application/x-www-form-urlencoded"})
        check(status == 500 and json.loads(body)["errorCode"] == 300, "a PUT: %d %r" % (status, body))
        same(json.loads(ask(store.port, "GET", "/v2/keys/before")[2])["node"]["value"], "1", "a GET")
        same(Peer(store.port).get(b"fill/0"), b"0" * 20000, "a GET of c10d")
        os.unlink(ballast)
        store.daemon.wait_log("event=journal_resumed", timeout=60)
        same(ask(store.port, "GET", "/readyz")[0], 200, "/readyz")
        same(ask(store.port, "GET", "/health")[2], b'{"health":"true"}', "/health")
        put(store.port, "/after", "value=2")
        store.again()
        peer = Peer(store.port)
        for i in range(answered):
            same(peer.get(b"fill/%d" % i), b"%d" % i * 20000, "a key that was answered")
        same(json.loads(ask(store.port, "GET", "/v2/keys/after")[2])["node"]["value"], "2", "a GET")


@case
def a_directory_that_is_read_only_is_refused_and_can_be_looked_at():
    with Store() as store:
        Peer(store.port).add(b"k", 7)
        store.kill(signal.SIGTERM)
        if subprocess.run(["mount", "--bind", store.named, store.named], capture_output=True, check=False).returncode:
            return "mounting a directory takes root"
        try:
            subprocess.run(["mount", "-o", "remount,bind,ro", store.named], check=True)
            code, _, err = once("--listen=127.0.0.1:0", "--data-dir=" + store.named)
            check(code == 1 and "data_dir_failed" in err and "Read-only file system" in err, "%d %s" % (code, err))
            code, text, _ = once("--check-data=" + store.named)
            check(code == 0 and "1 c10d keys" in text, "%d %s" % (code, text))
        finally:
            subprocess.run(["umount", "-l", store.named], check=True)
        store.start()
        same(Peer(store.port).add(b"k", 0), 7, "the key")
    return None


# --- Runs.

@case
def a_run_goes_on_with_new_agents():
    port = free_port()
    with Store("--advertise=127.0.0.1", listen=("127.0.0.1:%d" % port,)) as store:
        a, b = meet(store.port, "job", ["a", "b"])
        a.say_where(0, b"127.0.0.1", store.port)
        where = b.ask_where(0)
        worker = Peer(where[1])
        worker.set(b"of/workers", b"1")
        worker.ping()
        daemon = store.again()
        daemon.wait_log("event=nodes_lost .*run=job .*nodes=2")
        [run] = json.loads(ask(store.port, "GET", "/rdzv/v1/spaces/default/status")[2])["runs"]
        same([(r["round"], r["nodes"], r["why"], "began" in r) for r in run["rounds"]],
             [(0, 2, "nodes that did not come back after rdzvd was started again: 2", False)], "the round that went on at the start")
        again = [Agent(store.port, "job", name) for name in ("c", "d")]
        state = agents.rejoin(again)
        same((state.round, state.complete, len(state.participants)), (1, True, 2), "the next round")
        again[0].say_where(1, b"127.0.0.1", store.port)
        check(not Peer(again[1].ask_where(1)[1]).check(b"of/workers"), "the workers find old keys")


@case
def a_closed_run_is_forgotten_after_a_restart():
    with Store("--closed-run-ttl=1s") as store:
        a, _ = meet(store.port, "job", ["a", "b"])
        a.close_run()
        daemon = store.again()
        daemon.wait_log("event=run_forgotten .*run=job")


if __name__ == "__main__":
    sys.exit(cases.run("tests/process/durable.py"))
