"""A model of c10d keys, queues, waits and barriers (spec: c10d-wire.md 3 and 4), by which search.py
decides whether a history is possible.

Clients use keys in groups, and no request names keys of two groups, so each group is checked by itself.
Clients that count or list keys have their own space, which is a single group.
"""

import re

from search import INFINITE, Client, Search, Step, Undecided

# --- The model of a group. A state is (values, queues, waiters, barriers), all tuples:
# values: sorted (key, value); queues: sorted (name, elements), none empty; waiters: (client, names
# that are missing), the oldest first; barriers: (client, key).


def _set(pairs, key, value):
    rest = tuple(p for p in pairs if p[0] != key)
    return rest if value is None else tuple(sorted(rest + ((key, value),)))


def _get(pairs, key):
    for k, v in pairs:
        if k == key:
            return v
    return None


def _exists(state, name):
    return _get(state[0], name) is not None or _get(state[1], name) is not None


def _number(text):
    return 0 if text is None else int(text)


class Keys:
    """`relayed`: behind a relay, whose clients' waits are registered anew after the store was
    away. Then a wait may also end because all its names are there, a queue may wake more than
    one, and a cancellation may win although the wait had been fulfilled."""

    def __init__(self, relayed=False):
        self.relayed = relayed

    EMPTY = ((), (), (), ())

    def step(self, state, client, data):
        op, args, out = data
        return getattr(self, "_" + op)(state, client, out, *args)

    def _wake(self, state, key):
        waiters = []
        for client, names in state[2]:
            names = tuple(n for n in names if n != key)
            if names:
                waiters.append((client, names))
        return (state[0], state[1], tuple(waiters), state[3])

    def _put(self, state, key, value, wakes=True):
        new = (_set(state[0], key, value),) + state[1:]
        return self._wake(new, key) if wakes else new

    # Changes without an answer.

    def _set(self, state, _, __, key, value):
        return [self._put(state, key, value)]

    def _append(self, state, _, __, key, value):
        return [self._put(state, key, (_get(state[0], key) or "") + value)]

    def _multi_set(self, state, _, __, pairs):
        for key, value in pairs:
            state = self._put(state, key, value)
        return [state]

    def _push(self, state, _, __, queue, value):
        queues = _set(state[1], queue, (_get(state[1], queue) or ()) + (value,))
        waiters, woken = [], False
        for client, names in state[2]:
            if not woken and queue in names:
                names = tuple(n for n in names if n != queue)
                woken = not names
            if names:
                waiters.append((client, names))
        return [(state[0], queues, tuple(waiters), state[3])]

    # Changes with one; out None: nobody knows it.

    def _add(self, state, _, out, key, delta):
        value = _number(_get(state[0], key)) + delta
        return [self._put(state, key, str(value))] if out in (None, value) else []

    def _compare_set(self, state, _, out, key, expected, desired):
        have = _get(state[0], key)
        new, answer = state, have
        if have is None and expected == "":
            new, answer = self._put(state, key, desired), desired
        elif have is None:
            answer = expected
        elif have == expected:
            new, answer = self._put(state, key, desired, wakes=False), desired
        return [new] if out in (None, answer) else []

    def _delete(self, state, _, out, key):
        there = _get(state[0], key) is not None
        return [(_set(state[0], key, None),) + state[1:]] if out in (None, int(there)) else []

    def _pop(self, state, _, out, queue):
        elements = _get(state[1], queue) or ()
        answer = [len(elements)] + list(elements[:1])
        if out is not None and list(out) != answer:
            return []
        return [(state[0], _set(state[1], queue, elements[1:] or None)) + state[2:]]

    # Reads.

    def _answers(self, state, out, answer):
        return [state] if out == answer else []

    def _get(self, state, _, out, key):
        return self._answers(state, out, _get(state[0], key) or "")

    def _multi_get(self, state, _, out, *keys):
        return self._answers(state, out, [_get(state[0], k) or "" for k in keys])

    def _check(self, state, _, out, *names):
        return self._answers(state, out, all(_exists(state, n) for n in names))

    def _queue_len(self, state, _, out, queue):
        return self._answers(state, out, len(_get(state[1], queue) or ()))

    def _count(self, state, _, out):
        return self._answers(state, out, len(state[0]))

    def _list(self, state, _, out):
        return self._answers(state, out, [k for k, _ in state[0]])

    # Waits. A wait begins, and later ends or is cancelled.

    def _wait(self, state, client, _, *names):
        missing = tuple(sorted({n for n in names if not _exists(state, n)}))
        if not missing:
            return [state]
        waiters = state[2] + ((client, missing),)
        if not any("/q" in n for _, ns in waiters for n in ns):
            waiters = tuple(sorted(waiters))  # only queues look at who was first
        return [state[:2] + (waiters,) + state[3:]]

    def _waited(self, state, client, _, *__):
        names = next((n for c, n in state[2] if c == client), ())
        if not names:
            return [state]
        if self.relayed and all(_exists(state, n) for n in names):
            return [self._gone(state, client)[0]]
        return []

    def _cancelled(self, state, client, _):
        """The 1 came alone: nothing had fulfilled it."""
        waits = any(c == client for c, _ in state[2] + state[3])
        return self._gone(state, client) if waits or self.relayed else []

    def _barrier(self, state, client, _, key, world):
        count = _number(_get(state[0], key)) + 1
        if count >= world:
            state = self._put(state, key, str(count))
            return [state[:3] + (tuple(b for b in state[3] if b[1] != key),)]
        state = self._put(state, key, str(count), wakes=False)
        return [state[:3] + (tuple(sorted(state[3] + ((client, key),))),)]

    def _passed(self, state, client, _, *__):
        return [state] if all(c != client for c, _ in state[3]) else []

    def _gone(self, state, client, *_):
        return [state[:2] + (tuple(w for w in state[2] if w[0] != client),
                             tuple(b for b in state[3] if b[0] != client))]


# --- From a history to that.

READS = {"get", "multi_get", "check", "queue_len", "count", "list"}
WAITS = {"wait": "waited", "barrier": "passed"}


def _reads(row):
    op, out, args = row["op"], row["out"], row["args"]
    return (op in READS or (op == "delete" and out == 0) or (op == "pop" and out[0] == 0) or
            (op == "compare_set" and out != args[2]))


def _data(args):
    return tuple(tuple(map(tuple, a)) if isinstance(a, list) else a for a in args)


def _steps(row):
    """What it does at which moments; of an unanswered request, what it may have done."""
    ret, args = row["ret"] or INFINITE, _data(row["args"])
    known, op = row["ret"] is not None, row["op"]
    if op in WAITS:
        steps = [Step(row["call"], ret, False, (op, args, None), row["call"] + 200000)]
        if known and row["out"] == "cancelled":
            steps.append(Step(row["cancel"], ret, False, ("cancelled", (), None)))
        elif known:
            steps.append(Step(row["call"], ret, True, (WAITS[op], args, None)))
        return steps
    if not known and op in READS:
        return []
    out = row["out"]
    return [Step(row["call"], ret, known and _reads(row), (op, args, out))]


# What clients.fresh() makes: whoever is shown such a value shows that its request was carried out.
FRESH = re.compile(r"[a-z][a-z0-9]*-\d+\.\d+")


def _made(row):
    return [tag for a in row["args"][1:] if isinstance(a, str) for tag in FRESH.findall(a)] \
        if row["op"] != "compare_set" else FRESH.findall(row["args"][2])


def _first_shown(rows):
    """{fresh value: when somebody had first been shown it}"""
    shown = {}
    for row in rows:
        own = row["args"][1:] if row["op"] == "compare_set" else ()  # it may echo those
        if row["ret"] is not None and row["out"] is not None and row["out"] not in own:
            for tag in FRESH.findall(str(row["out"])):
                shown[tag] = min(shown.get(tag, INFINITE), row["ret"])
    return shown


def _end_of(end, daemons):
    """What a connection that ended had asked its daemon came before that. Behind a relay: it asked
    the one that was there when the relay died."""
    since = end["seen"] if end.get("relayed") else end["opened"]
    return min((d["ended"] for d in daemons if d["ended"] and d["ended"] > since), default=INFINITE)


def _client(number, rows, end, daemons, shown):
    steps, sure = [], 0
    ended = INFINITE if end is None else _end_of(end, daemons)
    for row in rows:
        when = min((shown[tag] for tag in _made(row) if tag in shown), default=None)
        more = _steps(row)
        if row["ret"] is None and when is not None:
            for s in more:
                s.ret = min(when, ended)
        steps += more
        if row["ret"] is not None or when is not None:
            sure = len(steps)
    for i in range(sure - 1, 0, -1):  # what a connection asked before came before
        steps[i - 1].ret = min(steps[i - 1].ret, steps[i].ret)
    if end is None or len(steps) == sure and not any(r["ret"] is None for r in rows):
        return Client(number, steps, sure)
    gone = Step(min(end["at"], ended), ended, False, ("gone", (), None))
    return Client(number, steps, sure, gone, ended)


def groups_of(history):
    """{group: [Client]}"""
    ends = {r["p"]: r for r in history.of("end")}
    daemons = history.of("daemon")
    found, shown = {}, {}
    for row in history.of("op"):
        found.setdefault(row["group"], {}).setdefault(row["p"], []).append(row)
    for g, by in found.items():
        shown[g] = _first_shown([r for rows in by.values() for r in rows])
    return {g: [_client(p, rows, ends.get(p), daemons, shown[g]) for p, rows in sorted(by.items())]
            for g, by in sorted(found.items())}


def check(history):
    """What is wrong, as text; None: nothing. And how many states were looked at."""
    model, visited = Keys(history.rows[0].get("relayed", False)), 0
    for group, clients in groups_of(history).items():
        s = Search(model, clients)
        try:
            ok = s.run(model.EMPTY)
        except Undecided as e:
            return "group %s: not decided %s" % (group, e), visited + s.visited
        visited += s.visited
        if not ok:
            return "group %s is not linearizable\n%s" % (group, s.explain()), visited
    return None, visited
