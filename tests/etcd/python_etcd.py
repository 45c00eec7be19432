#!/usr/bin/env python3
"""Uses everything that python-etcd 0.4.5 offers, against a real etcd and against rdzvd alike.

    python_etcd.py [--server both|etcd|rdzvd] [--only NAME]

torch's etcd rendezvous backends stand on this client. Needs Debian's python3-etcd, so it is run by
/usr/bin/python3. Every case states what must hold, and must hold on both servers.
"""

import argparse
import logging
import sys
import threading
import time
import traceback

import etcd
import etcd.auth

import peers
import servers

CASES = []
# The client also logs each error that it raises.
logging.getLogger("etcd").setLevel(logging.CRITICAL)
logging.getLogger("urllib3").setLevel(logging.CRITICAL)


def case(function):
    CASES.append(function)
    return function


def same(got, expected):
    assert got == expected, "%r expected, got %r" % (expected, got)


def raises(kind, function, *args, **kwargs):
    """The exception that the call raised; exactly of that kind, as subclasses tell errors apart."""
    try:
        result = function(*args, **kwargs)
    except etcd.EtcdException as error:
        assert type(error) is kind, "%s expected, got %s: %s" % (
            kind.__name__, type(error).__name__, error)
        return error
    raise AssertionError("%s expected, got %r" % (kind.__name__, result))


def until(condition, what):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "not within 10 s: " + what
        time.sleep(0.005)


class Background:
    """Runs a call in a thread and gives its result, or raises what it raised."""

    def __init__(self, function, *args, **kwargs):
        self._result = None
        self._error = None
        self._thread = threading.Thread(target=self._run, args=(function, args, kwargs),
                                        daemon=True)
        self._thread.start()

    def _run(self, function, args, kwargs):
        try:
            self._result = function(*args, **kwargs)
        except Exception as error:  # handed over to the thread that asks for the result
            self._error = error

    def running(self):
        return self._thread.is_alive()

    def result(self):
        self._thread.join(15)
        assert not self._thread.is_alive(), "the call did not return within 15 s"
        if self._error is not None:
            raise self._error
        return self._result


class Bench:
    """What a case works with: the server, clients for it, and a directory of its own."""

    def __init__(self, server, directory):
        self.server = server
        self.dir = directory
        self.client = self.connect()

    def connect(self, **kwargs):
        kwargs.setdefault("read_timeout", 10)
        return etcd.Client(host="127.0.0.1", port=self.server.port, **kwargs)

    def key(self, name=""):
        return self.dir + ("/" + name if name else "")

    def watching(self, function, *args, **kwargs):
        """Starts a watch in the background and returns once the server holds it."""
        before = self.client.store_stats["watchers"]
        watch = Background(function, *args, **kwargs)
        until(lambda: self.client.store_stats["watchers"] > before, "the watch is registered")
        return watch


# -- the server -----------------------------------------------------------------------------------

@case
def version_and_cluster_version_are_those_of_etcd_3_4(b):
    assert b.client.version.startswith("3.4."), b.client.version
    same(b.client.cluster_version, "3.4.0")


@case
def machines_lists_the_advertised_url(b):
    machines = b.client.machines
    same(len(machines), 1)
    assert machines[0].endswith(":%d" % b.server.port), machines


@case
def members_has_one_member_and_it_leads(b):
    members = b.client.members
    same(len(members), 1)
    (identity, member), = members.items()
    same(member["id"], identity)
    same(sorted(member), ["clientURLs", "id", "name", "peerURLs"])
    same(member["clientURLs"], b.client.machines)
    same(b.client.leader, member)


@case
def stats_have_their_members(b):
    own = b.client.stats
    same(own["state"], "StateLeader")
    same(own["leaderInfo"]["leader"], own["id"])
    for name in ("startTime", "name", "recvAppendRequestCnt", "sendAppendRequestCnt"):
        assert name in own, own
    same(b.client.leader_stats, {"leader": own["id"], "followers": {}})
    before = b.client.store_stats
    b.client.write(b.key("k"), "1")
    b.client.read(b.key("k"))
    after = b.client.store_stats
    for name in ("getsSuccess", "setsSuccess"):
        assert after[name] > before[name], (name, before, after)
    same(sorted(after), sorted([
        "getsSuccess", "getsFail", "setsSuccess", "setsFail", "deleteSuccess", "deleteFail",
        "updateSuccess", "updateFail", "createSuccess", "createFail", "compareAndSwapSuccess",
        "compareAndSwapFail", "compareAndDeleteSuccess", "compareAndDeleteFail", "expireCount",
        "watchers"]))


@case
def the_cluster_id_is_checked(b):
    b.client.write(b.key("k"), "1")
    known = b.client.expected_cluster_id
    assert known, "no X-Etcd-Cluster-Id"
    b.client.read(b.key("k"))
    same(b.client.expected_cluster_id, known)
    other = b.connect(expected_cluster_id="1234")
    raises(etcd.EtcdClusterIdChanged, other.read, b.key("k"))
    same(other.read(b.key("k")).value, "1")


@case
def a_client_that_may_reconnect_finds_the_living_server(b):
    dead = servers.free_port()
    client = etcd.Client(host=(("127.0.0.1", dead), ("127.0.0.1", b.server.port)),
                         allow_reconnect=True, read_timeout=10)
    client.write(b.key("k"), "1")
    same(client.read(b.key("k")).value, "1")
    same(client.port, b.server.port)


@case
def a_client_without_a_server_fails(b):
    client = etcd.Client(host="127.0.0.1", port=servers.free_port(), read_timeout=2)
    raises(etcd.EtcdConnectionFailed, client.read, b.key("k"))


# -- reading and writing --------------------------------------------------------------------------

@case
def what_is_written_is_read(b):
    made = b.client.write(b.key("k"), "one")
    same((made.action, made.key, made.value, made.newKey), ("set", b.key("k"), "one", True))
    same(made.modifiedIndex, made.createdIndex)
    same(made.ttl, None)
    got = b.client.read(b.key("k"))
    same((got.action, got.value, got.modifiedIndex), ("get", "one", made.modifiedIndex))
    assert got.etcd_index >= made.modifiedIndex and got.raft_index >= 1
    same(b.client.get(b.key("k")), got)


@case
def a_key_needs_no_leading_slash(b):
    b.client.write(b.key("k")[1:], "1")
    same(b.client.read(b.key("k")).value, "1")


@case
def writing_over_a_key_tells_the_old_value(b):
    first = b.client.set(b.key("k"), "one")
    second = b.client.set(b.key("k"), "two")
    same((second.newKey, second._prev_node.value), (False, "one"))
    same(second._prev_node.modifiedIndex, first.modifiedIndex)
    same(second.modifiedIndex, first.modifiedIndex + 1)


@case
def values_are_kept_as_they_are(b):
    for value in ("", " ", "a b+c&d=e%41", "\u00e9\u4e2d\U0001f600", "line\nline\r\n\t\x00\x7f",
                  '{"status": "frozen", "participants": [0, 1]}', "<a href='x'>&\u2028",
                  "x" * 1000000):
        b.client.write(b.key("k"), value)
        same(b.client.read(b.key("k")).value, value)


@case
def numbers_are_written_as_text(b):
    b.client.write(b.key("k"), 42)
    same(b.client.read(b.key("k")).value, "42")


@case
def keys_may_hold_any_character(b):
    names = ("a b", "\u00e9", "a+b", "a=b", "dG9yY2g=", "a:b@c", "(a)'*!", "a.b", "a~b")
    for name in names + ("a%2Fb",):
        b.client.write(b.key(name), name)
    found = {node.value: node.key for node in b.client.read(b.key(), recursive=True).leaves}
    for name in names:
        same(found[name], b.key(name))
        same(b.client.read(b.key(name)).value, name)
    same(found["a%2Fb"], b.key("a/b"))


@case
def doubled_slashes_are_redirected_away(b):
    b.client.write(b.key("a//b"), "1")
    same(b.client.read(b.key("a/b")).value, "1")
    same(b.client.read(b.key("a//b")).key, b.key("a/b"))
    b.client.write(b.key("a//b"), "2", prevValue="1")
    b.client.delete(b.key("a//b"))
    assert b.key("a/b") not in b.client


@case
def contains_asks_for_the_key(b):
    assert b.key("k") not in b.client
    b.client.write(b.key("k"), "1")
    assert b.key("k") in b.client


@case
def many_clients_write_at_once(b):
    def add(number):
        client = b.connect()
        for i in range(25):
            client.write(b.key("t%d/%d" % (number, i)), str(i))
    for task in [Background(add, number) for number in range(8)]:
        task.result()
    leaves = list(b.client.read(b.key(), recursive=True).leaves)
    same(len(leaves), 200)
    same(len({leaf.modifiedIndex for leaf in leaves}), 200)


@case
def counting_by_compare_and_swap_loses_nothing(b):
    b.client.write(b.key("n"), "0")

    def count():
        client = b.connect()
        done = 0
        while done < 20:
            now = client.read(b.key("n"))
            try:
                client.test_and_set(b.key("n"), str(int(now.value) + 1), now.value)
                done += 1
            except etcd.EtcdCompareFailed:
                pass
    for task in [Background(count) for _ in range(5)]:
        task.result()
    same(b.client.read(b.key("n")).value, "100")


# -- directories ----------------------------------------------------------------------------------

@case
def directories_are_made_and_listed(b):
    made = b.client.write(b.key("d"), None, dir=True)
    same((made.dir, made.value, made.newKey), (True, None, True))
    empty = b.client.read(b.key("d"))
    same((empty.dir, list(empty.leaves)), (True, [empty]))
    for name in ("b", "a", "sub/x", "_hidden"):
        b.client.write(b.key("d/" + name), name)
    flat = b.client.read(b.key("d"), sorted=True)
    same([n.key for n in flat.children], [b.key("d/" + n) for n in ("a", "b", "sub")])
    deep = b.client.read(b.key("d"), recursive=True, sorted=True)
    same([n.key for n in deep.leaves], [b.key("d/" + n) for n in ("a", "b", "sub/x")])
    same([n.key for n in deep.get_subtree()],
         [b.key("d" + n) for n in ("", "/a", "/b", "/sub", "/sub/x")])
    same(b.client.read(b.key("d/_hidden")).value, "_hidden")
    same(b.client.read(b.key("d/"), quorum=True, recursive=True, sorted=True), deep)


@case
def a_directory_takes_no_value(b):
    raises(etcd.EtcdException, b.client.write, b.key("d"), "x", dir=True)
    b.client.write(b.key("d/x"), "1")
    error = raises(etcd.EtcdNotFile, b.client.write, b.key("d"), "1")
    same(error.payload["errorCode"], 102)
    raises(etcd.EtcdNotFile, b.client.write, b.key("d"), None, dir=True)
    raises(etcd.EtcdAlreadyExist, b.client.write, b.key("d"), None, dir=True, prevExist=False)
    error = raises(etcd.EtcdNotDir, b.client.write, b.key("d/x/y"), "1")
    same((error.payload["errorCode"], error.payload["cause"]), (104, b.key("d/x")))


@case
def appended_keys_are_in_order(b):
    made = [b.client.write(b.key("q"), "v%d" % i, append=True) for i in range(5)]
    assert all(m.newKey and m.action == "create" for m in made)
    same([m.key for m in made], [b.key("q/%020d" % m.createdIndex) for m in made])
    queue = b.client.read(b.key("q"), sorted=True)
    same([n.value for n in queue.children], ["v%d" % i for i in range(5)])
    b.client.write(b.key("q"), "mortal", append=True, ttl=100)
    raises(etcd.EtcdNotDir, b.client.write, made[0].key, "x", append=True)


# -- conditions -----------------------------------------------------------------------------------

@case
def create_and_update_need_the_key_to_be_missing_or_there(b):
    error = raises(etcd.EtcdKeyNotFound, b.client.write, b.key("k"), "1", prevExist=True)
    same((error.payload["errorCode"], error.payload["cause"]), (100, b.dir))
    same(b.client.write(b.key("k"), "1", prevExist=False).action, "create")
    error = raises(etcd.EtcdAlreadyExist, b.client.write, b.key("k"), "2", prevExist=False)
    same(error.payload["errorCode"], 105)
    changed = b.client.write(b.key("k"), "2", prevExist=True)
    same((changed.action, changed._prev_node.value), ("update", "1"))
    assert changed.createdIndex < changed.modifiedIndex


@case
def test_and_set_compares_the_value(b):
    b.client.write(b.key("k"), "1")
    done = b.client.test_and_set(b.key("k"), "2", "1", ttl=100)
    same((done.action, done.value, done.ttl), ("compareAndSwap", "2", 100))
    error = raises(etcd.EtcdCompareFailed, b.client.test_and_set, b.key("k"), "3", "1")
    same((error.payload["errorCode"], error.payload["cause"]), (101, "[1 != 2]"))
    same(str(error), "Compare failed : [1 != 2]")
    assert isinstance(error, ValueError)
    raises(etcd.EtcdKeyNotFound, b.client.test_and_set, b.key("none"), "3", "1")
    same(b.client.test_and_set(b.key("k"), "3", "2").ttl, None)


@case
def swaps_compare_the_index(b):
    first = b.client.write(b.key("k"), "1")
    done = b.client.write(b.key("k"), "2", prevIndex=first.modifiedIndex)
    same(done.createdIndex, first.createdIndex)
    error = raises(etcd.EtcdCompareFailed, b.client.write, b.key("k"), "3",
                   prevIndex=first.modifiedIndex)
    same(error.payload["cause"], "[%d != %d]" % (first.modifiedIndex, done.modifiedIndex))
    raises(etcd.EtcdCompareFailed, b.client.write, b.key("k"), "3",
           prevIndex=done.modifiedIndex, prevValue="1")
    b.client.write(b.key("k"), "3", prevIndex=done.modifiedIndex, prevValue="2")


@case
def an_object_is_updated_unless_it_has_changed(b):
    b.client.write(b.key("k"), "1", ttl=100)
    mine = b.client.read(b.key("k"))
    mine.value = "2"
    done = b.client.update(mine)
    same((done.action, done.value), ("compareAndSwap", "2"))
    assert 98 <= done.ttl <= 100
    raises(etcd.EtcdCompareFailed, b.client.update, mine)


@case
def an_update_of_a_directory_changes_its_ttl(b):
    b.client.write(b.key("d/k"), "1")
    directory = b.client.read(b.key("d"))
    directory.ttl = 100
    done = b.client.update(directory)
    same((done.action, done.ttl), ("update", 100))
    assert b.client.read(b.key("d")).ttl in (99, 100)
    same(b.client.read(b.key("d/k")).ttl, None)


# -- deleting -------------------------------------------------------------------------------------

@case
def a_deleted_key_is_gone(b):
    made = b.client.write(b.key("k"), "1")
    gone = b.client.delete(b.key("k"))
    same((gone.action, gone.key, gone.value), ("delete", b.key("k"), None))
    same((gone._prev_node.value, gone.createdIndex), ("1", made.createdIndex))
    error = raises(etcd.EtcdKeyNotFound, b.client.read, b.key("k"))
    same(error.payload["index"], gone.modifiedIndex)
    raises(etcd.EtcdKeyNotFound, b.client.delete, b.key("k"))


@case
def pop_returns_what_was_there(b):
    b.client.write(b.key("k"), "1")
    same(b.client.pop(b.key("k")).value, "1")
    assert b.key("k") not in b.client


@case
def directories_go_only_when_asked_for(b):
    b.client.write(b.key("d/k"), "1")
    raises(etcd.EtcdNotFile, b.client.delete, b.key("d"))
    error = raises(etcd.EtcdDirNotEmpty, b.client.delete, b.key("d"), dir=True)
    same((error.payload["errorCode"], error.payload["cause"]), (108, b.key("d")))
    gone = b.client.delete(b.key("d"), recursive=True)
    same((gone.dir, gone._prev_node.dir), (True, True))
    raises(etcd.EtcdKeyNotFound, b.client.read, b.key("d/k"))
    b.client.write(b.key("e"), None, dir=True)
    b.client.delete(b.key("e"), dir=True)


@case
def deletes_compare_value_and_index(b):
    made = b.client.write(b.key("k"), "1")
    raises(etcd.EtcdCompareFailed, b.client.delete, b.key("k"), prevValue="2")
    raises(etcd.EtcdCompareFailed, b.client.delete, b.key("k"), prevIndex=made.modifiedIndex + 1)
    same(b.client.delete(b.key("k"), prevValue="1", prevIndex=made.modifiedIndex).action,
         "compareAndDelete")


# -- time to live ---------------------------------------------------------------------------------

@case
def a_key_expires_and_watchers_are_told(b):
    made = b.client.write(b.key("k"), "1", ttl=1)
    same(made.ttl, 1)
    assert made.expiration.endswith("Z"), made.expiration
    gone = b.client.watch(b.key("k"), index=made.modifiedIndex + 1)
    same((gone.action, gone.key, gone.value), ("expire", b.key("k"), None))
    same((gone._prev_node.value, gone.createdIndex), ("1", made.createdIndex))
    raises(etcd.EtcdKeyNotFound, b.client.read, b.key("k"))


@case
def a_directory_expires_with_all_below(b):
    b.client.write(b.key("d"), None, dir=True, ttl=1)
    made = b.client.write(b.key("d/k"), "1")
    gone = b.client.watch(b.key("d/k"), index=made.modifiedIndex + 1)
    same((gone.action, gone.key), ("expire", b.key("d")))
    raises(etcd.EtcdKeyNotFound, b.client.read, b.key("d"))


@case
def writing_without_a_ttl_makes_permanent(b):
    b.client.write(b.key("k"), "1", ttl=100)
    same(b.client.write(b.key("k"), "2").ttl, None)
    same(b.client.read(b.key("k")).ttl, None)


@case
def refresh_moves_the_end_and_no_watch_sees_it(b):
    made = b.client.write(b.key("k"), "1", ttl=1)
    watch = b.watching(b.client.watch, b.key("k"), index=made.modifiedIndex + 1)
    done = b.client.refresh(b.key("k"), 100)
    same((done.action, done.value, done.ttl), ("update", "1", 100))
    b.client.write(b.key("k"), "2", prevExist=True)
    told = watch.result()
    same((told.action, told.value), ("update", "2"))
    same(told.modifiedIndex, done.modifiedIndex + 1)
    raises(etcd.EtcdKeyNotFound, b.client.refresh, b.key("none"), 10)


@case
def a_directory_is_refreshed(b):
    b.client.write(b.key("d"), None, dir=True, prevExist=False, ttl=1000)
    b.client.write(b.key("d/k"), "1")
    done = b.client.refresh(b.key("d"), 2000)
    same((done.dir, done.ttl), (True, 2000))
    same(b.client.read(b.key("d/k")).value, "1")


# -- watching -------------------------------------------------------------------------------------

@case
def a_watch_returns_the_next_change(b):
    b.client.write(b.key("k"), "1")
    watch = b.watching(b.client.watch, b.key("k"))
    b.client.write(b.key("other"), "x")
    b.client.write(b.key("k"), "2")
    told = watch.result()
    same((told.action, told.value, told._prev_node.value), ("set", "2", "1"))
    assert told.etcd_index < told.modifiedIndex


@case
def a_watch_reads_the_past(b):
    made = [b.client.write(b.key("k"), str(i)) for i in range(4)]
    for change in made:
        told = b.client.watch(b.key("k"), index=change.modifiedIndex)
        same((told.value, told.modifiedIndex), (change.value, change.modifiedIndex))


@case
def a_recursive_watch_sees_what_lies_below(b):
    b.client.write(b.key("d/k"), "1")
    watch = b.watching(b.client.watch, b.key("d"), recursive=True)
    b.client.write(b.key("dd"), "x")
    b.client.write(b.key("d/_h"), "x")
    b.client.write(b.key("d/s/k"), "2")
    same(watch.result().key, b.key("d/s/k"))


@case
def a_watch_times_out_and_the_client_goes_on(b):
    b.client.write(b.key("k"), "1")
    error = raises(etcd.EtcdWatchTimedOut, b.client.watch, b.key("k"), timeout=0.2)
    assert isinstance(error, etcd.EtcdConnectionFailed)
    same(b.client.read(b.key("k")).value, "1")


@case
def an_eternal_watch_tells_each_change_in_order(b):
    start = b.client.write(b.key("d/start"), "x").modifiedIndex
    events = b.client.eternal_watch(b.key("d"), index=start + 1, recursive=True)

    def change():
        client = b.connect()
        for i in range(10):
            client.write(b.key("d/k%d" % (i % 3)), str(i))
        client.delete(b.key("d/k0"))
        client.write(b.key("d/k9"), "9", prevExist=False)
        client.test_and_set(b.key("d/k9"), "10", "9")
        client.delete(b.key("d"), recursive=True)
    changes = Background(change)
    seen = [next(events) for _ in range(14)]
    changes.result()
    same([e.action for e in seen],
         ["set"] * 10 + ["delete", "create", "compareAndSwap", "delete"])
    same([e.value for e in seen[:10]], [str(i) for i in range(10)])
    same([e.modifiedIndex for e in seen], list(range(start + 1, start + 15)))


@case
def many_watchers_of_one_key_are_all_told(b):
    index = b.client.write(b.key("k"), "1").modifiedIndex + 1
    watches = [b.watching(b.connect().watch, b.key("k"), index=index) for _ in range(20)]
    b.client.write(b.key("k"), "2")
    same([watch.result().value for watch in watches], ["2"] * 20)


@case
def a_watch_too_far_back_says_so(b):
    start = b.client.write(b.key("k"), "0").modifiedIndex
    for i in range(1001):
        b.client.write(b.key("k"), str(i))
    error = raises(etcd.EtcdEventIndexCleared, b.client.watch, b.key("k"), index=start)
    same(error.payload["errorCode"], 401)
    same(error.payload["cause"], "the requested history has been cleared [%d/%d]" % (
        start + 2, start))
    same(b.client.watch(b.key("k"), index=start + 2).value, "1")


# -- locks ----------------------------------------------------------------------------------------

@case
def a_lock_has_one_holder(b):
    first, second = etcd.Lock(b.client, b.dir[1:]), etcd.Lock(b.connect(), b.dir[1:])
    same(first.acquire(blocking=True, lock_ttl=None), True)
    same((first.is_acquired, second.is_acquired), (True, False))
    same(second.acquire(blocking=False, lock_ttl=100), False)
    first.release()
    same(first.is_acquired, False)
    same(second.acquire(blocking=True, lock_ttl=100), True)
    second.release()


@case
def a_waiter_gets_the_lock_when_it_is_released(b):
    first, second = etcd.Lock(b.client, b.dir[1:]), etcd.Lock(b.connect(), b.dir[1:])
    first.acquire(lock_ttl=100)
    waiter = b.watching(second.acquire, lock_ttl=100)
    assert waiter.running()
    first.release()
    same(waiter.result(), True)
    assert second.is_acquired
    second.release()


@case
def a_lock_expires_for_the_next_one(b):
    first, second = etcd.Lock(b.client, b.dir[1:]), etcd.Lock(b.connect(), b.dir[1:])
    first.acquire(lock_ttl=1)
    same(second.acquire(lock_ttl=100), True)
    same(first.is_acquired, False)
    raises(etcd.EtcdLockExpired, first._acquired)
    second.release()


@case
def a_held_lock_is_renewed(b):
    lock = etcd.Lock(b.client, b.dir[1:])
    lock.acquire(lock_ttl=50)
    same(lock.acquire(lock_ttl=1000), True)
    assert b.client.read(lock.lock_key).ttl > 900
    lock.release()


@case
def a_lock_is_a_context(b):
    with etcd.Lock(b.client, b.dir[1:]) as lock:
        assert lock.is_acquired
        other = etcd.Lock(b.client, b.dir[1:])
        other.uuid = lock.uuid
        same(other.lock_key, lock.lock_key)
    same(lock.is_acquired, False)
    try:
        etcd.Lock(b.client, b.dir[1:]).uuid = "no such lock"
    except ValueError:
        pass
    else:
        raise AssertionError("a lock without an owner was found")


# -- errors ---------------------------------------------------------------------------------------

@case
def each_error_has_its_exception(b):
    b.client.write(b.key("k"), "1")
    table = (
        (100, etcd.EtcdKeyNotFound, "/keys%s" % b.key("none"), "GET", None),
        (101, etcd.EtcdCompareFailed, "/keys%s" % b.key("k"), "PUT", {"prevValue": "x"}),
        (102, etcd.EtcdNotFile, "/keys%s" % b.dir, "PUT", {"value": "x"}),
        (104, etcd.EtcdNotDir, "/keys%s" % b.key("k/x"), "GET", None),
        (105, etcd.EtcdAlreadyExist, "/keys%s" % b.key("k"), "PUT", {"prevExist": "false"}),
        (107, etcd.EtcdRootReadOnly, "/keys/", "DELETE", {"recursive": "true"}),
        (108, etcd.EtcdDirNotEmpty, "/keys%s" % b.dir, "DELETE", {"dir": "true"}),
        (201, etcd.EtcdValueError, "/keys%s" % b.key("k"), "PUT", {"prevValue": ""}),
        (202, etcd.EtcdValueError, "/keys%s" % b.key("k"), "PUT", {"ttl": "x"}),
        (203, etcd.EtcdValueError, "/keys%s" % b.key("k"), "PUT", {"prevIndex": "x"}),
        (203, etcd.EtcdValueError, "/keys%s" % b.key("k"), "GET",
         {"wait": "true", "waitIndex": "x"}),
        (209, etcd.EtcdValueError, "/keys%s" % b.key("k"), "GET", {"recursive": "x"}),
        (209, etcd.EtcdValueError, "/keys%s" % b.key("k"), "PUT", {"prevExist": "x"}),
        (211, etcd.EtcdException, "/keys%s" % b.key("k"), "PUT",
         {"refresh": "true", "value": "x", "ttl": "5"}),
        (212, etcd.EtcdException, "/keys%s" % b.key("k"), "PUT", {"refresh": "true"}),
    )
    for code, kind, path, method, params in table:
        error = raises(kind, b.client.api_execute, "/v2" + path, method, params=params)
        same(error.payload["errorCode"], code)
    assert issubclass(etcd.EtcdKeyNotFound, etcd.EtcdKeyError)


@case
def a_page_that_is_not_there_is_a_missing_key_to_this_client(b):
    error = raises(etcd.EtcdException, b.client.api_execute, "/v2/keysfoo", "GET")
    same(error.payload, {"message": "Bad response", "cause": "404 page not found\n"})
    error = raises(etcd.EtcdKeyNotFound, b.client.api_execute, "/v2/members/1234", "DELETE")
    same(error.payload["message"], "No such member: 1234")
    raises(etcd.EtcdException, b.client.api_execute, "/v2/stats/self", "PUT")


@case
def removed_primitives_stay_removed(b):
    for use in (b.client.get_lock, lambda: b.client.election):
        try:
            use()
        except NotImplementedError:
            continue
        raise AssertionError("%r is back" % use)


# -- auth -----------------------------------------------------------------------------------------

@case
def there_are_no_users(b):
    same(etcd.auth.Auth(b.client).active, False)
    raises(etcd.EtcdKeyNotFound, etcd.auth.EtcdUser(b.client, "al").read)
    raises(etcd.EtcdKeyNotFound, etcd.auth.EtcdRole(b.client, "r1").read)
    same([r["role"] for r in etcd.auth.EtcdRole(b.client, "r1").names], ["root"])
    al = b.connect(username="al", password="pw")
    al.write(b.key("k"), "1")
    same(al.read(b.key("k")).value, "1")


def run(name, only):
    """All cases against one server; how many passed and failed."""
    passed = failed = 0
    with peers.start(name) as server:
        for number, function in enumerate(CASES):
            if only and only not in function.__name__:
                continue
            try:
                function(Bench(server, "/case%02d" % number))
                passed += 1
            except Exception as error:  # whatever it is, the other cases shall run too
                failed += 1
                where = traceback.extract_tb(error.__traceback__)
                line = [f.lineno for f in where if f.filename == __file__ and f.name not in (
                    "same", "raises", "until")][-1]
                print("%s: %s (line %d): %s: %s" % (
                    name, function.__name__, line, type(error).__name__, error), flush=True)
    return passed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", choices=("both", "etcd", "rdzvd", "relay"), default="both")
    parser.add_argument("--only", help="cases whose name contains this")
    args = parser.parse_args()
    names = ("etcd", "rdzvd") if args.server == "both" else (args.server,)
    results = [run(name, args.only) for name in names]
    passed, failed = (sum(counts) for counts in zip(*results))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
