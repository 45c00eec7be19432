"""The history of a run: each client's requests and answers with their times, and the faults of the
daemon. One line of JSON each, so that a failing run can be kept and checked again.

    {"k": "op", "p": 12, "call": 1, "ret": 9, "group": "g0", "op": "add", "args": [...], "out": 3}
        A request of the c10d connection 12. Requests of a connection stand in the order of sending. `ret`
        null: no answer ever came. Times are CLOCK_MONOTONIC's nanoseconds.
    {"k": "end", "p": 12, "opened": 0, "at": 20}     that connection ended, with requests open
    {"k": "etcd", "p": 3, "call": 1, "ret": 9, "method": ..., "path": ..., "form": {...},
     "status": 200, "index": 7, "body": {...}}       a request to the tree; status null: no answer,
                                                     and "lost": when its connection had ended
    {"k": "event", "w": 0, "path": ..., "since": 5, "call": 1, "ret": 9, "index": 4, "body": {...}}
    {"k": "daemon", "began": 1, "ended": 9, "how": "SIGKILL"}
    {"k": "pause", "from": 1, "to": 9, "kill": false}   the daemon was away or stopped
"""

import json
import re
import threading
import time

now = time.monotonic_ns
LONG = re.compile(rb"x{50,}|y{50,}")


def shown(value):
    """A value as the history has it: without the padding of long_value()."""
    short = LONG.sub(lambda m: b"<%d%c>" % (len(m.group()), m.group()[0]), value)
    return short.decode("latin-1")


def long_value(name, before, after):
    return b"x" * before + name + b"y" * after


class History:
    def __init__(self, head):
        self.rows = [dict(head, k="head", wall_ns=time.time_ns() - now())]
        self.lock = threading.Lock()
        self.last = -1

    def connection(self):
        """The number of a new one."""
        with self.lock:
            self.last += 1
            return self.last

    def add(self, kind, **row):
        row["k"] = kind
        with self.lock:
            self.rows.append(row)
        return row

    def of(self, kind):
        return [r for r in self.rows if r["k"] == kind]

    def save(self, path):
        with open(path, "w", encoding="utf-8") as f:
            for row in self.rows:
                f.write(json.dumps(row) + "\n")


def load(path):
    h = History({})
    with open(path, encoding="utf-8") as f:
        h.rows = [json.loads(line) for line in f]
    return h
