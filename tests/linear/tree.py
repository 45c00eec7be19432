"""Whether a history of etcd requests and watches is one that a single etcd tree may have had
(spec: etcd-v2.md 3 to 10).

No search is needed: every answer says at which index of the tree it was made. So the changes are
put in the order of their indexes, each is applied to a model and has to fit there, each read has
to show the model as it was at its index, and what came after another answer has no smaller index.
A change that nobody got an answer to is known from those who watched.
"""

import bisect
import datetime
import heapq
import json
import re

SECOND = 10**9
INFINITE = 1 << 62
SLACK = SECOND // 50

# How far a deadline may move for one absence, beyond its length: a store says at least that often
# that it is there.
SEEN_ALIVE = 6 * SECOND
EXPIRES_WITHIN = 4 * SECOND


class Wrong(Exception):
    pass


def require(truth, text, *args):
    if not truth:
        raise Wrong(text % args if args else text)


def _deadline(text):
    """Nanoseconds of the wall clock."""
    m = re.fullmatch(r"([^.Z]*)(?:\.(\d{1,9}))?Z", text)
    whole = datetime.datetime.fromisoformat(m.group(1)).replace(tzinfo=datetime.timezone.utc)
    return int(whole.timestamp()) * SECOND + int((m.group(2) or "").ljust(9, "0"))


def _plain(node):
    """A copy of a node or event without the fields that depend on the time of the request."""
    if not isinstance(node, dict):
        return node
    return {k: _plain(v) for k, v in node.items() if k not in ("expiration", "ttl")}


def action_of(row):
    form, method = row["form"], row["method"]
    compares = "prevValue" in form or "prevIndex" in form
    if method == "GET":
        return "get"
    if method == "POST":
        return "in-order"
    if method == "DELETE":
        return "compareAndDelete" if compares else "delete"
    if form.get("prevExist") == "false":
        return "create"
    if compares:
        return "compareAndSwap"
    return "update" if form.get("prevExist") == "true" else "set"


class Change:
    """What happened at an index."""

    def __init__(self, index):
        self.index = index
        self.body = None
        self.row = None  # the request, if its answer came
        self.seen = INFINITE  # when somebody had first heard of it

    def learn(self, body, when):
        self.seen = min(self.seen, when)
        if self.body is None:
            self.body = body
        require(_plain(self.body) == _plain(body), "index %d is two changes:\n    %s\n    %s",
                self.index, json.dumps(self.body), json.dumps(body))


class Tree:
    def __init__(self, history):
        head = history.rows[0]
        self.wall = head["wall_ns"]
        self.first, self.final = head["first_index"], head.get("final_index")
        self.rows = history.of("etcd")
        self.watches = history.of("watch")
        self.pauses = history.of("pause")
        self.daemons = history.of("daemon")
        self.relayed = head.get("relayed", False)
        self.changes = {}
        self.nodes = {}
        self.asked = 0  # the last change that was replayed came after that
        self.unknown = {}  # what a change would look like -> requests without an answer
        self.deadlines = {}  # (path, modifiedIndex) -> (deadline, when the change was asked for)

    # --- Gathering.

    def _change(self, index):
        return self.changes.setdefault(index, Change(index))

    def _note_unknown(self, row):
        action, path = action_of(row), row["path"]
        if action == "get":
            return
        # A relay keeps it until there is a daemon to carry it out: one, while the client waits.
        since = (row.get("lost") or row["ret"] or INFINITE) if self.relayed else row["call"]
        row["until"] = min((d["ended"] for d in self.daemons
                            if d["ended"] and d["ended"] > since), default=INFINITE)
        value = None if row["method"] == "DELETE" else row["form"].get("value", "")
        if row["form"].get("refresh"):
            value = "a refresh"
        self.unknown.setdefault((action, path, value), []).append(row)

    def _gather(self):
        self.reads = []
        for row in self.rows:
            if row["status"] is None or row["status"] >= 500:
                self._note_unknown(row)
            elif row["status"] < 300 and row["method"] != "GET":
                c = self._change(row["body"]["node"]["modifiedIndex"])
                require(c.row is None, "index %d was given to two requests:\n    %s\n    %s",
                        c.index, c.row, row)
                c.row = row
                c.learn(row["body"], row["ret"])
                require(row["index"] == c.index, "X-Etcd-Index is %s: %s", row["index"], row)
            else:
                self.reads.append(row)
        for w in self.watches:
            for index, when, body in w["events"]:
                require(body["node"]["modifiedIndex"] == index, "%s", body)
                self._change(index).learn(body, when)

    # --- Watches: each must see all its events, in order.

    def _check_watch(self, w):
        shown = [i for i in sorted(self.changes) if i >= w["start"] and self._is_below(i, w)]
        told = [i for i, _, _ in w["events"]]
        require(told == sorted(set(told)), "watch %s was told out of order: %s", w["path"], told)
        end = told[-1] if told else -1
        if w.get("complete") and self.final is not None:
            end = self.final
        wanted = [i for i in shown if i <= end]
        require(told == wanted, "the watch of %s from %d on was not told of %s, and told of %s",
                w["path"], w["start"], [i for i in wanted if i not in told],
                [i for i in told if i not in wanted])

    def _is_below(self, index, w):
        c = self.changes[index]
        if c.body is None or (c.row is not None and c.row["form"].get("refresh")):
            return False
        return c.body["node"]["key"].startswith(w["path"] + "/")

    # --- Time.

    def _moves(self, since, until):
        """How far deadlines may have moved between two moments."""
        sum_ = 0
        for p in self.pauses:
            if p["from"] <= until and (p["to"] or INFINITE) >= since:
                sum_ += (p["to"] or until) - p["from"] + SEEN_ALIVE
        return sum_

    def _check_deadline(self, node, call, ret):
        """A node with a deadline as somebody saw it."""
        known = self.deadlines.get((node["key"], node["modifiedIndex"]))
        if known is None:
            return
        require("expiration" in node, "the deadline of %s is gone", node)
        first, since = known
        moved, may = _deadline(node["expiration"]) - first, self._moves(since, ret)
        require(0 <= moved <= may, "the deadline of %s has moved by %.3f s, and may by %.3f s",
                node, moved / SECOND, may / SECOND)
        if may == 0:
            require(call + self.wall < first + EXPIRES_WITHIN, "%s should have expired", node)

    def _learn_deadline(self, c):
        node = c.body["node"]
        if "expiration" not in node:
            return
        deadline = _deadline(node["expiration"])
        if c.row is not None and c.row["form"].get("ttl"):
            ttl = int(c.row["form"]["ttl"]) * SECOND
            require(c.row["call"] - SLACK <= deadline - ttl - self.wall <= (c.row["ret"] or INFINITE) + SLACK,
                    "the deadline is not %s s after the request: %s", c.row["form"]["ttl"], c.row)
        call = c.row["call"] if c.row is not None else c.seen - 60 * SECOND
        self.deadlines[node["key"], c.index] = deadline, call

    def _check_expiry(self, c, old):
        known = self.deadlines.get((c.body["node"]["key"], old["modified"]))
        require(known is not None, "expired without a deadline: %s", c.body)
        require(c.seen + self.wall >= known[0], "expired too early: %s", c.body)

    # --- Order in time.

    def _check_order(self):
        """Who asks after an answer has come, is answered with no smaller index."""
        done = [(r["call"], r["ret"], r["index"], r) for r in self.reads if r["index"] is not None]
        for c in self.changes.values():
            if c.row is not None:
                done.append((c.row["call"], c.row.get("until") or c.row["ret"], c.index, c.row))
        done.sort(key=lambda d: d[0])
        seen = [(c.seen, c.index) for c in self.changes.values()]
        ends = [(ret, index) for _, ret, index, _ in done] + seen
        heapq.heapify(ends)
        least = self.first
        for call, _, index, row in done:
            while ends and ends[0][0] < call:
                least = max(least, heapq.heappop(ends)[1])
            changes = row["method"] != "GET" and (row["status"] or 0) < 300
            require(index > least if changes else index >= least,
                    "an answer of index %d had come before this was asked: %s", least, row)

    # --- The replay.

    def _put(self, path, node):
        self.nodes[path] = node

    def _make_parents(self, path, index):
        at = path.rfind("/")
        while at > 0:
            path = path[:at]
            if path in self.nodes:
                return
            self._put(path, {"dir": True, "created": index, "modified": index})
            at = path.rfind("/")

    def _fits(self, row, c, old):
        """True if that unanswered request may have made the change: the request was under way at that
        time, and its conditions fit the old value."""
        form = row["form"]
        return self.asked <= row["until"] and row["call"] <= c.seen and (
            old is None or (form.get("prevValue", old.get("value")) == old.get("value") and
                            int(form.get("prevIndex", old["modified"])) == old["modified"]))

    def _owner(self, c, old):
        """The request that made a change whose answer nobody got."""
        body, node = c.body, c.body["node"]
        action, path = body["action"], node["key"]
        value = node.get("value") if action not in ("delete", "compareAndDelete") else None
        shapes = [(action, path, value)]
        if action == "create":
            shapes.append(("in-order", path.rsplit("/", 1)[0], value))
        for shape in shapes:
            rows = [r for r in self.unknown.get(shape, ()) if self._fits(r, c, old)]
            if rows:
                row = min(rows, key=lambda r: r["until"])
                self.unknown[shape].remove(row)
                return row
        raise Wrong("nobody asked for %s" % json.dumps(body))

    def _check_request(self, c, old):
        """The change is what its request asked for."""
        row, body, node = c.row, c.body, c.body["node"]
        form, path, action = row["form"], row["path"], action_of(row)
        if action == "in-order":
            path, action = "%s/%020d" % (path, c.index), "create"
        require(body["action"] == action and node["key"] == path, "%s was made of %s", body, row)
        require((old is None) if action == "create" else (old is not None or action == "set"),
                "%s happened although it was %s", row, old)
        if "prevValue" in form:
            require(old["value"] == form["prevValue"], "%s happened although it was %s", row, old)
        if "prevIndex" in form:
            require(old["modified"] == int(form["prevIndex"]), "%s happened although it was %s",
                    row, old)
        if row["method"] != "DELETE":
            require(("expiration" in node) == ("ttl" in form), "%s was made of %s", body, row)
            value = old["value"] if form.get("refresh") else form.get("value", "")
            require(node.get("value") == value, "%s was made of %s", body, row)

    def _check_prev(self, c, old):
        prev = c.body.get("prevNode")
        if old is None:
            require(prev is None, "there was nothing before: %s", json.dumps(c.body))
            return
        require(prev is not None, "prevNode is missing: %s", json.dumps(c.body))
        self._check_node(prev, old, "before %s" % json.dumps(c.body))

    def _check_node(self, node, have, where):
        require((node.get("value"), node.get("dir"), node["createdIndex"], node["modifiedIndex"]) ==
                (have.get("value"), have.get("dir"), have["created"], have["modified"]),
                "%s is not %s, %s", json.dumps(node), have, where)

    def _apply(self, c):
        body = c.body
        node, action = body["node"], body["action"]
        path = node["key"]
        old = self.nodes.get(path)
        if action == "expire":
            require(old is not None, "what was not there expired: %s", json.dumps(body))
            self._check_expiry(c, old)
        else:
            if c.row is None:
                c.row = self._owner(c, old)
            self.asked = max(self.asked, c.row["call"])
            self._check_request(c, old)
        self._check_prev(c, old)
        if action in ("delete", "compareAndDelete", "expire"):
            require(old is not None, "what was not there went: %s", json.dumps(body))
            for p in [p for p in self.nodes if p == path or p.startswith(path + "/")]:
                del self.nodes[p]
            return
        created = c.index if action in ("set", "create") else old["created"]
        require(node["createdIndex"] == created, "createdIndex is not %d: %s", created, body)
        self._learn_deadline(c)
        self._make_parents(path, c.index)
        self._put(path, {"value": node["value"], "created": created, "modified": c.index})

    def _hidden(self, index):
        """Refreshes that nobody was told of: those without an answer. Through a relay also the first
        of two: it sends a refresh again when the store was lost (rdzv/relay/http_pass.h), and the
        second may find no node any more."""
        found = [r for shape, rows in self.unknown.items() if shape[2] == "a refresh" for r in rows]
        if self.relayed:
            found += [r for r in self.rows if r["form"].get("refresh") and
                      r["status"] in (200, 404) and r["index"] > index]
        return found

    def _apply_hidden(self, index):
        """A change that nobody was told of: a refresh, or of no interest."""
        rows = self._hidden(index)
        require(rows or index > self.told, "nobody knows what happened at index %d", index)
        for row in rows:
            n = self.nodes.get(row["path"])
            if n is not None and index in self.sightings.get(row["path"], ()):
                n["modified"] = index
                if row["status"] not in (200, 404):
                    self.unknown["update", row["path"], "a refresh"].remove(row)
                return

    # --- Reads.

    def _children(self, path):
        """As GET of a directory shows them, recursive and sorted: (path, node)."""
        return sorted((p, n) for p, n in self.nodes.items() if p.startswith(path + "/"))

    def _flatten(self, node):
        for child in node.get("nodes", ()):
            yield child
            yield from self._flatten(child)

    def _check_read(self, row):
        body, have = row["body"], self.nodes.get(row["path"])
        if "errorCode" in body:
            self._check_failure(row, body, have)
            return
        require(have is not None, "it was not there: %s", row)
        self._check_node(body["node"], have, "as %s says" % row)
        if not have.get("dir"):
            self._check_deadline(body["node"], row["call"], row["ret"])
            return
        shown = sorted((n["key"], n) for n in self._flatten(body["node"]))
        wanted = self._children(row["path"])
        require([k for k, _ in shown] == [k for k, _ in wanted], "%s has %s, not %s, as %s says",
                row["path"], [k for k, _ in shown], [k for k, _ in wanted], row)
        for (_, node), (_, n) in zip(shown, wanted):
            self._check_node(node, n, "as %s says" % row)
            if not n.get("dir"):
                self._check_deadline(node, row["call"], row["ret"])

    def _check_failure(self, row, body, have):
        code, form = body["errorCode"], row["form"]
        require(body["index"] == row["index"], "two indexes: %s", row)
        if code == 100:
            require(have is None and action_of(row) not in ("set", "create", "in-order"),
                    "it was there, as %s: %s", have, row)
        elif code == 105:
            require(have is not None and action_of(row) == "create", "it was %s: %s", have, row)
        elif code == 101:
            require(have is not None, "it was not there: %s", row)
            causes = []
            if form.get("prevValue", have["value"]) != have["value"]:
                causes.append("[%s != %s]" % (form["prevValue"], have["value"]))
            if int(form.get("prevIndex", have["modified"])) != have["modified"]:
                causes.append("[%s != %d]" % (form["prevIndex"], have["modified"]))
            require(causes and body["cause"] == " ".join(causes), "the cause is %s: %s", causes, row)
        else:
            raise Wrong("no answer to expect: %s" % row)

    def _note_sightings(self):
        """path -> modifiedIndexes that somebody saw of it."""
        self.sightings = {}
        for row in self.rows:
            for n in ("node", "prevNode"):
                if row["body"] and n in row["body"]:
                    node = row["body"][n]
                    for m in [node] + list(self._flatten(node)):
                        if "key" in m:
                            self.sightings.setdefault(m["key"], set()).add(m["modifiedIndex"])
            refused = row["status"] == 412 and "prevIndex" in row["form"] and \
                re.search(r"\[\d+ != (\d+)\]$", row["body"]["cause"])
            if refused:
                self.sightings.setdefault(row["path"], set()).add(int(refused.group(1)))
        for w in self.watches:
            for _, _, body in w["events"]:
                if "prevNode" in body:
                    n = body["prevNode"]
                    self.sightings.setdefault(n["key"], set()).add(n["modifiedIndex"])

    def check(self):
        self._gather()
        self._note_sightings()
        self.told = max((w["events"][-1][0] for w in self.watches if w["events"]), default=0)
        for w in self.watches:
            self._check_watch(w)
        self.reads.sort(key=lambda r: r["index"])
        indexes = [r["index"] for r in self.reads]
        last = max(list(self.changes) + indexes + [self.first])
        at = 0
        for index in range(self.first, last + 1):
            if index > self.first:
                c = self.changes.get(index)
                if c is not None:
                    self._apply(c)
                else:
                    self._apply_hidden(index)
            end = bisect.bisect_right(indexes, index)
            for row in self.reads[at:end]:
                self._check_read(row)
            at = end
        self._check_order()


def check(history):
    """What is wrong, as text; None: nothing."""
    try:
        Tree(history).check()
    except Wrong as e:
        return "the tree: %s" % e
    return None
