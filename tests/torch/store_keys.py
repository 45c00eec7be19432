"""Keys and values through torch's Python store API. The cases run with store_api.py."""

import random

from store_cases import (
    HAS_LIBUV, IS_1X, SERVER, case, connect, in_threads, need, not_against_torch, own_keys, raises, seconds,
    times_out)


# ------------------------------------------------------------ keys and values


@case
def set_and_get():
    store = own_keys("set_and_get")
    store.set("k", "first")
    assert store.get("k") == b"first"
    store.set("k", "second")
    assert store.get("k") == b"second"
    for key in ("with blank", "a/b//c", "/", "", "k" * 4000, "\u00e9\u4e2d", "nul\0in", "%s{}\n"):
        store.set(key, "value of " + key)
        assert store.get(key) == ("value of " + key).encode(), repr(key)


@case
def an_empty_value_is_a_value():
    store = own_keys("empty")
    store.set("k", "")
    assert store.get("k") == b""
    store.wait(["k"], seconds(5))


@case
def binary_values():
    store = own_keys("binary")
    value = bytes(range(256)) * 5
    store.set("k", value)
    assert store.get("k") == value
    store.set("nul", b"\0\0")
    assert store.get("nul") == b"\0\0"


@case
def large_values():
    store = own_keys("large")
    for size in (1, 1439, 1440, 1441, 4095, 4096, 65536, 1 << 20, 8 << 20):
        value = bytes([size & 0xff]) * (size - 1) + b"."
        store.set("k", value)
        got = store.get("k")
        assert got == value, "size %d: %d came back" % (size, len(got))


@case
def large_values_to_many_readers():
    store = own_keys("large_many")
    value = random.Random(1).randbytes(1 << 22)

    def read():
        mine = own_keys("large_many")
        assert mine.get("k") == value

    def write():
        store.set("k", value)

    in_threads(*[read] * 8, write)


@case
def many_requests_without_answers():
    store = own_keys("pipelined")
    for i in range(5000):
        store.set("k%d" % (i % 50), str(i))
    assert [int(store.get("k%d" % i)) for i in range(50)] == list(range(4950, 5000))


@case
def add_counts():
    store = own_keys("add")
    assert store.add("n", 5) == 5
    assert store.add("n", -7) == -2
    assert store.get("n") == b"-2"
    assert store.add("n", 0) == -2
    assert store.add("zero", 0) == 0
    assert store.get("zero") == b"0"
    store.set("text", "41")
    assert store.add("text", 1) == 42
    assert store.add("big", (1 << 62)) == 1 << 62
    assert store.add("big", -(1 << 62) - 5) == -5


@case
def add_to_text_ends_that_connection_only():
    other, store = own_keys("add_text"), own_keys("add_text")
    other.set("k", "no number")
    assert other.get("k") == b"no number"  # it is there before the next line asks
    raises(lambda: store.add("k", 1))
    raises(lambda: store.get("k"))
    assert other.get("k") == b"no number"


@case
def compare_set_rules():
    store = own_keys("cas")
    assert store.compare_set("k", "", "first") == b"first"
    assert store.compare_set("k", "wrong", "second") == b"first"
    assert store.compare_set("k", "first", "second") == b"second"
    assert store.get("k") == b"second"
    # If the key is absent and the expectation is not empty, the answer is the expectation, and no key is created.
    assert store.compare_set("absent", "expected", "new") == b"expected"
    times_out(lambda: store.wait(["absent"], seconds(0.3)), 0.3)
    # An empty value is equal to an empty expectation: RPC keeps its lock this way.
    store = own_keys("cas2")
    store.set("lock", "")
    assert store.compare_set("lock", "", "mine") == b"mine"
    assert store.compare_set("lock", "", "yours") == b"mine"
    assert store.compare_set("lock", "mine", "") == b""
    assert store.compare_set("lock", "", "yours") == b"yours"


@case
def compare_set_wakes_when_it_creates():
    if not HAS_LIBUV:
        not_against_torch("without libuv it never wakes here")
    waiter, writer = own_keys("cas_wake"), own_keys("cas_wake")

    def wait():
        waiter.wait(["k"], seconds(20))

    def write():
        assert writer.compare_set("k", "", "made") == b"made"

    in_threads(wait, write)


@case
def delete_key_says_whether_it_was_there():
    store = own_keys("delete")
    store.set("k", "v")
    assert store.delete_key("k") is True
    assert store.delete_key("k") is False
    times_out(lambda: store.wait(["k"], seconds(0.3)), 0.3)
    if not (IS_1X and SERVER.against == "torch"):  # its server still owes an answer to that wait
        store.set("k", "again")
        assert store.get("k") == b"again"


@case
def num_keys_counts():
    store = own_keys("num")
    before = store.num_keys()
    for i in range(10):
        store.set("k%d" % i, "v")
    store.add("n", 1)
    store.set("k0", "again")
    assert store.num_keys() == before + 11
    for i in range(10):
        assert store.delete_key("k%d" % i)
    assert store.num_keys() == before + 1


@case
def world_size_counts_in_init():
    base = connect()
    before = base.num_keys()
    for i in range(3):
        connect(world_size=3, wait_for_workers=True)
    after = base.num_keys()
    # `init/` is one key, however many have arrived; group cases may have made it before.
    assert after - before in (0, 1), (before, after)


@case
def check_answers_at_once():
    need("check")
    store = own_keys("check")
    assert store.check(["a"]) is False
    store.set("a", "")
    assert store.check(["a"]) is True
    assert store.check(["a", "b"]) is False
    store.set("b", "")
    assert store.check(["a", "b", "a"]) is True
    assert store.check([]) is True


@case
def append_extends():
    need("append")
    store = own_keys("append")
    store.append("k", "po")
    store.append("k", "tato")
    assert store.get("k") == b"potato"
    store.set("k", "x")
    store.append("k", bytes([0, 255]))
    store.append("k", "")
    assert store.get("k") == b"x\x00\xff"


@case
def append_wakes():
    need("append")
    waiter, writer = own_keys("append_wake"), own_keys("append_wake")
    in_threads(lambda: waiter.wait(["k"], seconds(20)), lambda: writer.append("k", "v"))


@case
def multi_set_and_multi_get():
    need("multi_get", "multi_set")
    store = own_keys("multi")
    keys = ["k%d" % i for i in range(3000)]
    store.multi_set(keys, ["v%d" % i for i in range(3000)])
    assert store.multi_get(keys) == [b"v%d" % i for i in range(3000)]
    assert store.multi_get(["k7", "k3", "k7"]) == [b"v7", b"v3", b"v7"]
    store.multi_set(["e", "b"], ["", b"\0\1"])
    assert store.multi_get(["e", "b"]) == [b"", b"\0\1"]
    assert store.add("after", 1) == 1


@case
def multi_get_of_nothing():
    need("multi_get", "multi_set")
    store = own_keys("multi_none")
    store.multi_set([], [])
    assert store.multi_get([]) == []
    assert store.add("after", 1) == 1


@case
def multi_get_waits_for_all():
    need("multi_get", "multi_set")
    reader, writer = own_keys("multi_wait"), own_keys("multi_wait")
    got = []

    def write():
        writer.set("b", "2")
        writer.add("c", 3)
        writer.multi_set(["a", "d"], ["1", "4"])

    in_threads(lambda: got.extend(reader.multi_get(["a", "b", "c", "d"])), write)
    assert got == [b"1", b"2", b"3", b"4"], got


@case
def extended_api_is_offered():
    need("has_extended_api")
    assert connect().has_extended_api() is True


@case
def list_keys_names_every_key():
    need("list_keys")
    store = connect()
    before = set(store.list_keys())
    mine = {"list-%d" % i for i in range(200)} | {"list-\u00e9", "list-a/b"}
    for key in mine:
        store.set(key, "v")
    assert store.num_keys() >= len(mine)
    assert set(store.list_keys()) - before == mine
    for key in mine:
        store.delete_key(key)
    assert set(store.list_keys()) == before
