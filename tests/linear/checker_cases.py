"""Small histories, and what the checkers have to say of them.

    checker_cases.py [NAME...]
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "sim")]
import cases  # noqa: E402
import history  # noqa: E402
import keys  # noqa: E402
import planted  # noqa: E402
import planted_relay  # noqa: E402
import tree  # noqa: E402
from cases import case, check  # noqa: E402


def of_keys(*rows, ends=(), daemons=(), relayed=False):
    """Rows: (connection, call, ret, op, args, out[, cancel])."""
    h = history.History({"relayed": relayed})
    for p, call, ret, op, args, out, *cancel in rows:
        h.add("op", p=p, call=call, ret=ret, group="g", op=op, args=list(args), out=out,
              **({"cancel": cancel[0]} if cancel else {}))
    for p, opened, at in ends:
        h.add("end", p=p, opened=opened, at=at)
    for began, ended in daemons:
        h.add("daemon", began=began, ended=ended, how="SIGKILL")
    return keys.check(h)[0]


def right(wrong):
    check(wrong is None, "refused: %s" % wrong)


def refused(wrong):
    check(wrong is not None, "accepted")


@case
def order_in_time_is_kept():
    set_, late = (0, 1, 2, "set", ("k", "v"), None), (1, 3, 4, "get", ("k",), "")
    refused(of_keys(set_, late))
    right(of_keys((0, 1, 3, "set", ("k", "v"), None), (1, 2, 4, "get", ("k",), "")))
    right(of_keys(set_, (1, 3, 4, "get", ("k",), "v")))


@case
def requests_of_a_connection_stay_in_order():
    rows = (0, 1, 9, "set", ("k", "a"), None), (0, 2, 9, "set", ("k", "b"), None)
    right(of_keys(*rows, (1, 10, 11, "get", ("k",), "b")))
    refused(of_keys(*rows, (1, 10, 11, "get", ("k",), "a")))


@case
def an_answer_counts_once():
    refused(of_keys((0, 1, 2, "add", ("k", 1), 1), (1, 3, 4, "add", ("k", 1), 3)))
    refused(of_keys((0, 1, 4, "add", ("k", 1), 1), (1, 2, 3, "add", ("k", 1), 1)))
    right(of_keys((0, 1, 4, "add", ("k", 1), 2), (1, 2, 3, "add", ("k", 1), 1)))


LOST = {"ends": [(0, 0, 3)], "daemons": [(0, 5), (6, None)]}


@case
def an_unknown_outcome_is_either():
    lost = (0, 2, None, "add", ("k", 1), None)
    for value in "", "1":
        right(of_keys(lost, (1, 10, 11, "get", ("k",), value), **LOST))
    refused(of_keys(lost, (1, 10, 11, "get", ("k",), "2"), **LOST))


@case
def nothing_happens_after_its_daemon_has_ended():
    lost = (0, 2, None, "set", ("k", "c0-0.1"), None)
    refused(of_keys(lost, (1, 10, 11, "get", ("k",), ""), (1, 12, 13, "get", ("k",), "c0-0.1"), **LOST))
    right(of_keys(lost, (1, 10, 11, "get", ("k",), ""), (1, 12, 13, "get", ("k",), "c0-0.1"),
                  ends=[(0, 0, 3)], daemons=[(0, None)]))


@case
def of_a_lost_connection_the_first_requests_happened():
    lost = (0, 1, None, "set", ("a", "c0-0.1"), None), (0, 2, None, "set", ("b", "c0-0.2"), None)
    right(of_keys(*lost, (1, 10, 11, "get", ("a",), "c0-0.1"), (1, 12, 13, "get", ("b",), ""), **LOST))
    refused(of_keys(*lost, (1, 10, 11, "get", ("a",), ""), (1, 12, 13, "get", ("b",), "c0-0.2"), **LOST))


@case
def compare_set_says_what_is_there():
    rows = [(0, 1, 2, "compare_set", ("k", "", "a"), "a")]
    right(of_keys(*rows, (0, 3, 4, "compare_set", ("k", "x", "b"), "a")))
    refused(of_keys(*rows, (0, 3, 4, "compare_set", ("k", "x", "b"), "b")))
    right(of_keys((0, 3, 4, "compare_set", ("k", "x", "b"), "x"), (0, 5, 6, "get", ("k",), "")))


@case
def a_wait_ends_when_all_were_there_since():
    wait = (0, 1, 9, "wait", ("a", "b"), "done")
    first = (1, 2, 3, "set", ("a", "1"), None), (1, 4, 5, "delete", ("a",), 1)
    right(of_keys(wait, *first, (1, 6, 7, "set", ("b", "1"), None)))
    refused(of_keys(wait, *first))
    refused(of_keys((0, 6, 9, "wait", ("a", "b"), "done"), *first, (1, 6, 7, "set", ("b", "1"), None)))


@case
def a_wait_that_was_fulfilled_is_not_cancelled_alone():
    """And a relay may do it."""
    rows = (1, 1, 2, "set", ("a", "1"), None), (0, 3, 9, "wait", ("a",), "cancelled", 5)
    refused(of_keys(*rows))
    right(of_keys(*rows, relayed=True))


@case
def an_element_wakes_the_oldest():
    old, new = (0, 1, 2, "wait", ("g/q",), "cancelled", 2), (1, 3, 9, "wait", ("g/q",), "done")
    push, pop = (2, 5, 6, "push", ("g/q", "x"), None), (2, 7, 8, "pop", ("g/q",), [1, "x"])
    right(of_keys(old, new, push, pop))
    late = (3, 9, 20, "wait", ("g/q",), "done")
    refused(of_keys(new, late, push, pop))
    right(of_keys(new, late, push, pop, (2, 9, 10, "push", ("g/q", "y"), None)))


@case
def a_barrier_opens_for_all():
    first = (0, 1, 9, "barrier", ("b", 2), "done")
    right(of_keys(first, (1, 2, 3, "barrier", ("b", 2), "done")))
    refused(of_keys(first, (1, 2, 3, "get", ("b",), "1")))
    refused(of_keys((0, 1, 2, "barrier", ("b", 2), "done"), (1, 3, 4, "barrier", ("b", 2), "done")))


@case
def an_element_is_popped_once():
    push = (0, 1, 2, "push", ("g/q", "c0-0.1"), None)
    pop = ("pop", ("g/q",), [1, "c0-0.1"])
    right(of_keys(push, (1, 3, 4, *pop)))
    refused(of_keys(push, (1, 3, 4, *pop), (2, 3, 4, *pop)))
    refused(of_keys((1, 3, 4, *pop)))


# --- The tree.

def node(key, value, created, modified=None, **more):
    n = {"key": key, "modifiedIndex": modified or created, "createdIndex": created, **more}
    return dict(n, value=value) if value is not None else n


def asked(call, ret, method, path, form, status, index, body):
    return {"p": 0, "call": call, "ret": ret, "method": method, "path": path, "form": form,
            "status": status, "index": index, "body": body}


def made(at, key, value, index, prev=None, call=None):
    body = {"action": "set", "node": node(key, value, index)}
    if prev:
        body["prevNode"] = prev
    return asked(call or at, at + 1, "PUT", key, {"value": value}, 200, index, body)


def of_tree(*rows, watches=(), final=None, daemons=(), relayed=False):
    h = history.History({"first_index": 3, "final_index": final, "relayed": relayed})
    h.rows[0]["wall_ns"] = 0
    for began, ended in daemons:
        h.add("daemon", began=began, ended=ended, how="SIGKILL")
    for row in rows:
        h.add("etcd", **row)
    for start, complete, *events in watches:
        h.add("watch", path="/e", start=start, complete=complete, events=[list(e) for e in events])
    return tree.check(h)


SET = made(10, "/e/a", "1", 4)
EVENT = (4, 12, SET["body"])


@case
def an_index_is_given_once():
    right(of_tree(SET, made(20, "/e/b", "2", 5)))
    refused(of_tree(SET, made(20, "/e/b", "2", 4)))
    refused(of_tree(SET, made(20, "/e/b", "2", 6), watches=[(4, False, EVENT, (6, 30, made(
        20, "/e/b", "2", 6)["body"]))]))


@case
def indexes_follow_time():
    refused(of_tree(made(20, "/e/b", "2", 4), made(10, "/e/a", "1", 5)))
    right(of_tree(made(20, "/e/b", "2", 4, call=9), made(10, "/e/a", "1", 5)))


@case
def a_read_shows_the_tree_of_its_index():
    def read(index, status, body):
        return asked(20, 21, "GET", "/e/a", {}, status, index, body)
    right(of_tree(SET, read(4, 200, {"action": "get", "node": node("/e/a", "1", 4)})))
    refused(of_tree(SET, read(4, 200, {"action": "get", "node": node("/e/a", "0", 4)})))
    refused(of_tree(SET, read(4, 404, {"errorCode": 100, "index": 4, "cause": "/e/a"})))
    refused(of_tree(SET, read(3, 404, {"errorCode": 100, "index": 3, "cause": "/e/a"})))


@case
def a_change_is_what_was_asked_for():
    prev = node("/e/a", "1", 4)
    body = {"action": "compareAndSwap", "node": node("/e/a", "2", 4, 5), "prevNode": prev}
    for form, ok in ({"prevValue": "1"}, True), ({"prevValue": "0"}, False), ({"prevIndex": "3"}, False):
        row = asked(20, 21, "PUT", "/e/a", dict(form, value="2"), 200, 5, body)
        (right if ok else refused)(of_tree(SET, row))


@case
def a_watch_is_told_of_all_in_order():
    second = made(20, "/e/b", "2", 5)
    event = (5, 22, second["body"])
    right(of_tree(SET, second, watches=[(4, True, EVENT, event)], final=5))
    refused(of_tree(SET, second, watches=[(4, True, EVENT)], final=5))
    refused(of_tree(SET, second, watches=[(4, False, event)]))
    refused(of_tree(SET, second, watches=[(4, False, event, EVENT)]))
    right(of_tree(SET, second, watches=[(5, False, event)]))


@case
def a_change_without_an_answer_is_known_from_a_watch():
    lost = asked(10, None, "PUT", "/e/a", {"value": "1"}, None, None, None)
    right(of_tree(lost, watches=[(4, False, EVENT)]))
    refused(of_tree(lost, watches=[(4, False, EVENT), (4, False, (5, 13, {
        "action": "set", "node": node("/e/a", "1", 5), "prevNode": node("/e/a", "1", 4)}))]))
    refused(of_tree(watches=[(4, False, EVENT)]))


@case
def a_refresh_without_an_answer_is_known_from_a_refusal():
    lost = asked(20, None, "PUT", "/e/a", {"prevExist": "true", "refresh": "true", "ttl": "30"},
                 None, None, None)

    def refused_with(cause):
        return asked(30, 31, "PUT", "/e/a", {"prevValue": "1", "prevIndex": "4", "value": "2"}, 412, 5,
                     {"errorCode": 101, "message": "Compare failed", "cause": cause, "index": 5})
    right(of_tree(SET, lost, refused_with("[4 != 5]")))
    refused(of_tree(SET, lost, refused_with("[4 != 6]")))
    refused(of_tree(SET, refused_with("[4 != 5]")))


@case
def a_relay_keeps_a_change_for_the_next_daemon():
    """One that is killed before it takes the request; the client is lost with the next."""
    later = made(40, "/e/b", "2", 5)
    lost = dict(asked(30, None, "PUT", "/e/b", {"value": "2"}, None, None, None), lost=61)
    read = asked(50, 51, "GET", "/e/a", {}, 200, 4, {"action": "get", "node": node("/e/a", "1", 4)})
    rows = SET, lost, read
    about = {"watches": [(4, False, EVENT, (5, 70, later["body"]))],
             "daemons": [(0, 35), (36, 60), (65, 90)]}
    refused(of_tree(*rows, **about))
    right(of_tree(*rows, relayed=True, **about))


@case
def each_planted_bug_has_its_place():
    """They are looked for with --all alone: a change of the source that moves one is told here."""
    for bug in planted.BUGS + planted_relay.BUGS:
        with open(os.path.join(planted.ROOT, bug.file), encoding="utf-8") as f:
            times = f.read().count(bug.old)
        check(times == 1, "%s: its text is %d times in %s" % (bug.name, times, bug.file))


if __name__ == "__main__":
    sys.exit(cases.run("tests/linear/checker_cases.py"))
