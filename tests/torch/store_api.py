"""torch's Python store API, as far as this release has it, against the server at HOST:PORT.

    store_api.py HOST PORT [--against rdzvd|torch] [--case WORD]

Runs under the Python of the torch release that is the client (1.13 to 2.14). The program skips calls that the release
lacks, and prints their names. --against torch leaves out what torch's own server of that release is known to do wrong.
The server must be fresh: init_process_group's keys do not tell runs apart.

Every case has a time limit; one that is over ends the program with the stacks of all threads.
"""

import argparse
import faulthandler
import os
import random
import signal
import sys
import threading
import time
import traceback

import torch
import torch.distributed as dist
from store_cases import (
    CASES, CASE_SECONDS, Children, HAS_LIBUV, IS_1X, SERVER, Skip, VERSION, case, connect, in_processes,
    in_threads, need, not_against_torch, own_keys, raises, seconds, times_out)
import store_keys  # noqa: F401


# ------------------------------------------------------------ waiting


@case
def wait_for_what_is_there():
    store = own_keys("wait")
    store.set("a", "1")
    store.set("b", "2")
    store.wait(["a", "b", "a"], seconds(5))
    store.wait([], seconds(5))
    store.wait(["a"])
    assert store.get("a") == b"1"


@case
def wait_is_released_by_each_way_to_write():
    ways = {"set": lambda s, k: s.set(k, "v"),
            "add": lambda s, k: s.add(k, 0)}
    if hasattr(dist.TCPStore, "multi_set"):
        ways["append"] = lambda s, k: s.append(k, "v")
        ways["multi_set"] = lambda s, k: s.multi_set([k], ["v"])
    for name, write in ways.items():
        waiter, writer = own_keys("ways"), own_keys("ways")
        in_threads(lambda: waiter.wait([name], seconds(20)), lambda: write(writer, name))


@case
def get_waits():
    reader, writer = own_keys("get_waits"), own_keys("get_waits")
    got = []
    in_threads(lambda: got.append(reader.get("k")), lambda: writer.set("k", "late"))
    assert got == [b"late"]


@case
def wait_needs_every_key():
    waiter, writer = own_keys("every"), own_keys("every")
    done = threading.Event()

    def wait():
        waiter.wait(["a", "b", "c"], seconds(20))
        done.set()

    def write():
        writer.set("c", "1")
        writer.set("a", "1")
        # An answer of the same connection: a and c are applied, so a client that waits only for these keys continues.
        assert writer.add("n", 1) == 1
        connect(timeout=10).num_keys()
        assert not done.is_set()
        writer.set("b", "1")

    in_threads(wait, write)


@case
def wait_for_thousands_of_keys():
    waiter, writer = own_keys("thousands"), own_keys("thousands")
    keys = ["k%d" % i for i in range(2000)]

    def write():
        for key in reversed(keys):
            writer.set(key, key)

    in_threads(lambda: waiter.wait(keys, seconds(60)), write)
    assert waiter.get("k1999") == b"k1999"


@case
def timeouts_leave_the_store_usable():
    store = own_keys("timeout")
    store.set("there", "1")
    for _ in range(3):
        times_out(lambda: store.wait(["absent", "there"], seconds(0.4)), 0.4)
        assert store.get("there") == b"1"
        store.wait(["there"], seconds(5))


@case
def a_key_that_comes_after_the_timeout_disturbs_nothing():
    if IS_1X:
        not_against_torch("1.x answers the old wait then, and every later answer is shifted")
    store, other = own_keys("late"), own_keys("late")
    for i in range(3):
        key = "late%d" % i
        times_out(lambda: store.wait([key], seconds(0.3)), 0.3)
        # In 1.x nothing tells the server that the wait is over but the next request.
        assert store.add("count", 1) == i + 1
        other.set(key, "came")
        assert other.get(key) == b"came"
        assert store.get(key) == b"came"
        assert store.add("other", 10) == 10 * (i + 1)


@case
def timeouts_of_the_store_itself():
    store = connect(timeout=30)
    assert store.timeout == seconds(30)
    store.set_timeout(seconds(0.5))
    assert store.timeout == seconds(0.5)
    times_out(lambda: store.get("timeouts-absent"), 0.5)
    times_out(lambda: store.wait(["timeouts-absent"]), 0.5)
    store.set_timeout(seconds(20))
    store.set("timeouts-there", "1")
    assert store.get("timeouts-there") == b"1"


@case
def wait_races_with_its_timeout():
    """Keys that come just as the wait gives up: either way the answers stay in step."""
    if IS_1X:
        not_against_torch("1.x answers waits that are over")
    store, other = own_keys("race"), own_keys("race")
    outcomes = {True: 0, False: 0}
    for i in range(60):
        key = "k%d" % i
        timer = threading.Timer(0.02 + (i % 7 - 3) * 0.0005, other.set, (key, "v"))
        timer.start()
        try:
            store.wait([key], seconds(0.02))
            outcomes[True] += 1
        except RuntimeError:
            outcomes[False] += 1
        # 1.x: a 0 that was sent before the next request is no longer to be taken back, so
        # there the wait that failed is left behind with its connection.
        if IS_1X:
            store = own_keys("race")
        assert store.add("n", 1) == i + 1
        timer.join()
        assert store.get(key) == b"v"
    print("  in time %d, too late %d" % (outcomes[True], outcomes[False]))


# ------------------------------------------------------------ queues, barriers, clones


def need_queues():
    need("queue_push", "queue_pop", "queue_len")
    if not HAS_LIBUV:
        raise Skip("this build has no libuv, and refuses queue calls itself")


@case
def queues_are_first_in_first_out():
    need_queues()
    store = own_keys("queue")
    assert store.queue_len("q") == 0
    for i in range(100):
        store.queue_push("q", "%d" % i)
    store.queue_push("q", b"\0\xff")
    store.queue_push("q", "")
    assert store.queue_len("q") == 102
    assert [store.queue_pop("q") for _ in range(100)] == [b"%d" % i for i in range(100)]
    assert store.queue_pop("q") == b"\0\xff"
    assert store.queue_pop("q", block=False) == b""
    assert store.queue_len("q") == 0
    raises(lambda: store.queue_pop("q", block=False))
    store.queue_push("q", "again")
    assert store.queue_pop("q", block=False) == b"again"


@case
def queue_pop_waits_and_gives_up():
    need_queues()
    popper, pusher = own_keys("queue_wait"), own_keys("queue_wait")
    got = []
    in_threads(lambda: got.append(popper.queue_pop("q")), lambda: pusher.queue_push("q", "v"))
    assert got == [b"v"]
    popper.set_timeout(seconds(0.4))
    times_out(lambda: popper.queue_pop("q"), 0.4)
    pusher.queue_push("q", "late")
    assert popper.queue_pop("q") == b"late"
    assert popper.queue_len("q") == 0


@case
def queues_are_no_keys():
    need_queues()
    store = own_keys("queue_key")
    before = store.num_keys()
    store.queue_push("q", "v")
    assert store.num_keys() == before
    assert store.delete_key("q") is False
    assert store.check(["q"]) is True
    store.wait(["q"], seconds(5))
    assert store.queue_pop("q") == b"v"
    assert store.check(["q"]) is False


@case
def queue_items_are_taken_once():
    need_queues()
    total, got, lock = 400, [], threading.Lock()

    def consume():
        mine = own_keys("queue_many")
        while True:
            try:
                item = mine.queue_pop("q")
            except dist.QueueEmptyError:  # another consumer was quicker
                continue
            if item == b"end":
                return
            with lock:
                got.append(int(item))

    def produce(first):
        mine = own_keys("queue_many")
        for i in range(first, first + total // 2):
            mine.queue_push("q", "%d" % i)
        mine.queue_push("q", "end")
        mine.queue_push("q", "end")
        mine.queue_len("q")

    in_threads(*[consume] * 4, lambda: produce(0), lambda: produce(total // 2))
    assert sorted(got) == list(range(total)), "lost or doubled: %d of %d" % (len(got), total)


# A PrefixStore makes its barrier from add, set and wait; only the TCPStore itself asks the server.


def barrier_turns(new_store, name):
    arrived, lock = [], threading.Lock()

    def arrive():
        mine = new_store()
        for turn in range(5):
            with lock:
                arrived.append(turn)
            mine.barrier("%s-%d" % (name, turn), 6, seconds(30))
            with lock:
                assert arrived.count(turn) == 6, "passed with %d of 6" % arrived.count(turn)

    in_threads(*[arrive] * 6)


@case
def barrier_holds_until_all_are_there():
    need("barrier")
    store = connect()
    store.barrier("barrier-one", 1, seconds(10))
    assert store.get("barrier-one") == b"1"
    barrier_turns(connect, "barrier")


@case
def barrier_with_a_prefix():
    need("barrier")
    barrier_turns(lambda: own_keys("barrier"), "b")


@case
def barrier_gives_up_and_still_counts():
    need("barrier")
    store, other = connect(), connect()
    times_out(lambda: store.barrier("barrier-out", 2, seconds(0.4)), 0.4)
    assert store.add("barrier-n", 1) == 1
    other.barrier("barrier-out", 2, seconds(20))
    store.barrier("barrier-out", 2, seconds(20))
    assert store.get("barrier-out") == b"3"


@case
def clone_is_a_connection_of_its_own():
    need("clone")
    store = connect()
    copy = store.clone()
    store.set("clone-k", "v")
    assert store.get("clone-k") == b"v"
    assert copy.get("clone-k") == b"v"
    in_threads(lambda: store.wait(["clone-late"], seconds(20)),
               lambda: copy.set("clone-late", "v"))
    prefixed = dist.PrefixStore("clone-p", store).clone()
    prefixed.set("x", "y")
    assert copy.get("clone-p/x") == b"y"


@case
def prefixes_nest():
    base = connect()
    outer = dist.PrefixStore("outer", base)
    inner = dist.PrefixStore("inner", outer)
    inner.set("k", "v")
    assert base.get("outer/inner/k") == b"v"
    assert outer.get("inner/k") == b"v"
    assert inner.add("n", 3) == 3
    assert base.add("outer/inner/n", 1) == 4
    inner.wait(["k", "n"], seconds(5))
    assert inner.compare_set("k", "v", "w") == b"w"
    assert base.get("outer/inner/k") == b"w"
    assert inner.delete_key("k") is True
    assert outer.delete_key("inner/k") is False
    dist.PrefixStore("", base).set("e", "v")
    assert base.get("/e") == b"v"
    if hasattr(inner, "underlying_store"):
        assert inner.underlying_store.get("inner/n") == b"4"


# ------------------------------------------------------------ many at once


@case
def threads_share_one_store():
    store = own_keys("shared")

    def work(i):
        for j in range(100):
            store.set("t%d" % i, str(j))
            assert store.get("t%d" % i) == str(j).encode()
            store.add("sum", 1)

    in_threads(*[lambda i=i: work(i) for i in range(8)])
    assert store.add("sum", 0) == 800


@case
def threads_wait_in_a_ring():
    count = 12

    def work(i):
        mine = own_keys("ring")
        if i == 0:
            mine.set("token0", "0")
        mine.wait(["token%d" % i], seconds(60))
        got = int(mine.get("token%d" % i))
        mine.set("token%d" % (i + 1), str(got + 1))

    in_threads(*[lambda i=i: work(i) for i in range(count)])
    assert own_keys("ring").get("token%d" % count) == b"12"


@case
def many_clients():
    """Two hundred wait for one key, and one write frees them all."""
    count = 200
    stores = [connect(timeout=60) for _ in range(count)]
    for i, store in enumerate(stores):
        assert store.add("many-n", 1) == i + 1
    writer = connect()
    in_threads(*[lambda s=s: s.wait(["many-go"], seconds(60)) for s in stores],
               lambda: writer.set("many-go", "1"))
    for store in stores:
        assert store.get("many-go") == b"1"


def child_counts(rank, world):
    store = own_keys("processes")
    for _ in range(200):
        store.add("count", 1)
    store.set("rank%d" % rank, random.Random(rank).randbytes(1000) + b"%d" % rank)
    values = [store.get("rank%d" % i) for i in range(world)]
    assert all(v[1000:] == b"%d" % i for i, v in enumerate(values))
    store.add("done", 1)
    if store.add("done", 0) == world:
        store.set("all", "1")
    store.wait(["all"], seconds(60))
    return store.add("count", 0)


@case
def processes_meet():
    world = 4
    assert in_processes(*[(child_counts, i, world) for i in range(world)]) == [200 * world] * world


def child_takes_tickets(name, times):
    """Appends `times` lines of its own to one value by compare-and-set."""
    store = own_keys("tickets")
    value = store.compare_set("list", "", "start")
    for i in range(times):
        while True:
            mine = value + b"\n%s-%d" % (name.encode(), i)
            answer = store.compare_set("list", value.decode(), mine.decode())
            won, value = answer == mine, answer
            if won:
                break
    return times


@case
def compare_set_loses_nothing():
    names, times = ("a", "b", "c"), 60
    in_processes(*[(child_takes_tickets, name, times) for name in names])
    lines = own_keys("tickets").get("list").decode().split("\n")[1:]
    assert sorted(lines) == sorted("%s-%d" % (n, i) for n in names for i in range(times))


def child_sets_and_exits():
    store = own_keys("exits")
    for i in range(100):
        store.set("k%d" % i, "last words")
    store.set("end", "1")
    os._exit(0)


@case
def what_a_process_wrote_before_it_left_is_kept():
    children = Children()
    process, = children.start([(child_sets_and_exits,)])
    process.join(CASE_SECONDS)
    store = own_keys("exits")
    assert store.get("end") == b"1"
    assert all(store.get("k%d" % i) == b"last words" for i in range(100))


def child_waits(key):
    store = own_keys("killed")
    store.add("waiting", 1)
    if store.add("waiting", 0) == 3:
        store.set("ready", "1")
    store.wait([key], seconds(100))
    return "released"


@case
def a_killed_waiter_is_no_waiter():
    children = Children()
    processes = children.start([(child_waits, "k")] * 3)
    store = own_keys("killed")
    store.wait(["ready"], seconds(60))
    os.kill(processes[1].pid, signal.SIGKILL)
    processes[1].join(CASE_SECONDS)
    store.set("k", "1")
    for process in (processes[0], processes[2]):
        process.join(CASE_SECONDS)
        assert process.exitcode == 0
    assert store.add("waiting", 0) == 3


# ------------------------------------------------------------ what torch builds on it


@case
def elastic_store_helpers():
    from torch.distributed.elastic.utils import store as helpers
    world, got = 4, {}

    def work(rank):
        mine = own_keys("elastic")
        got[rank] = helpers.synchronize(mine, b"data%d" % rank, rank, world, "sync", 60)
        if VERSION >= (2, 4):
            helpers.barrier(mine, world, "bar", 60)
        else:
            helpers.barrier(mine, rank, world, "bar", 60)

    in_threads(*[lambda r=r: work(r) for r in range(world)])
    for rank in range(world):
        if rank == 0 or VERSION < (2, 4):
            assert [bytes(v) for v in got[rank]] == [b"data%d" % r for r in range(world)], got


@case
def elastic_state_backend():
    from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
    one = C10dRendezvousBackend(connect(), "api-run")
    two = C10dRendezvousBackend(connect(), "api-run")
    assert one.get_state() is None
    state, token, done = one.set_state(b"s1")
    assert (state, done) == (b"s1", True)
    assert two.get_state()[0] == b"s1"
    state, _, done = two.set_state(b"s2", b"stale token")
    assert (state, done) == (b"s1", False)
    state, _, done = two.set_state(b"s2", token)
    assert (state, done) == (b"s2", True)
    state, _, done = one.set_state(b"s3", token)
    assert (state, done) == (b"s2", False)
    big = random.Random(1).randbytes(300000)
    state, _, done = one.set_state(big, one.get_state()[1])
    assert done and two.get_state()[0] == big


def group_work(rank, world):
    """A few collectives whose results depend on everybody."""
    one = torch.full((100,), float(rank + 1))
    dist.all_reduce(one)
    assert bool((one == world * (world + 1) / 2).all()), one[0]
    dist.barrier()
    value = torch.tensor([float(rank)])
    dist.broadcast(value, src=world - 1)
    assert value.item() == world - 1
    gathered = [torch.zeros(1) for _ in range(world)]
    dist.all_gather(gathered, torch.tensor([float(rank)]))
    assert [t.item() for t in gathered] == list(range(world))
    pair = dist.new_group([0, 1])
    if rank < 2:
        two = torch.ones(1)
        dist.all_reduce(two, group=pair)
        assert two.item() == 2
    dist.monitored_barrier(timeout=seconds(60))


def child_joins_group_by_environment(rank, world, attempt, extra):
    os.environ.update({
        "MASTER_ADDR": SERVER.host, "MASTER_PORT": str(SERVER.port), "RANK": str(rank),
        "WORLD_SIZE": str(world), "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": str(attempt), **extra})
    if not HAS_LIBUV:
        os.environ["USE_LIBUV"] = "0"
    dist.init_process_group("gloo", init_method="env://", timeout=seconds(60))
    group_work(rank, world)
    return "done"


@case
def gloo_group_through_the_environment():
    """All ranks, rank 0 too, become clients of the server that MASTER_ADDR:MASTER_PORT names."""
    before = connect().num_keys()
    world = 3
    answers = in_processes(*[(child_joins_group_by_environment, r, world, 0, {})
                             for r in range(world)])
    assert answers == ["done"] * world
    assert connect().num_keys() > before, "the group did not use this server"


def child_joins_group_with_store(rank, world, extra):
    os.environ.update(extra)
    store = dist.PrefixStore("job-two", connect(timeout=60, world_size=world,
                                                wait_for_workers=True))
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world,
                            timeout=seconds(60))
    group_work(rank, world)
    objects = [None] * world
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(world)]
    return "done"


@case
def gloo_group_with_a_store_of_its_own():
    world = 3
    calls = [(child_joins_group_with_store, r, world, {"TORCH_DIST_INIT_BARRIER": "1"})
             for r in range(world)]
    assert in_processes(*calls) == ["done"] * world


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("--against", choices=("rdzvd", "torch"), default="rdzvd")
    parser.add_argument("--case", default="")
    options = parser.parse_args()
    SERVER.host, SERVER.port, SERVER.against = options.host, options.port, options.against

    count = {"passed": 0, "failed": 0, "skipped": 0}
    for function in CASES:
        name = function.__name__
        if options.case not in name:
            continue
        begin, note = time.monotonic(), ""
        faulthandler.dump_traceback_later(CASE_SECONDS, exit=True)
        try:
            function()
            outcome = "passed"
        except Skip as reason:
            outcome, note = "skipped", ": %s" % reason
        except BaseException:  # noqa: B902 - reported, counted, and the next case runs
            outcome, note = "failed", ":\n" + traceback.format_exc()
        faulthandler.cancel_dump_traceback_later()
        count[outcome] += 1
        print("%-7s %s (%.1f s)%s" % (outcome, name, time.monotonic() - begin, note), flush=True)
    print("torch %s: %d passed, %d failed, %d skipped" % (
        torch.__version__, count["passed"], count["failed"], count["skipped"]), flush=True)
    sys.exit(1 if count["failed"] or not count["passed"] else 0)


if __name__ == "__main__":
    main()
