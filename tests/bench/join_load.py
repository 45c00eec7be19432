"""The nodes of join.py: real DynamicRendezvousHandlers, as threads in a few processes.

Runs under the Python of the torch release that is measured. torch is imported once; each trial then
gets processes of its own, forked from here, which talk to join.py over a connection to the port
that the trial names, one JSON object a line. A trial is one line on stdin:

    {"control": PORT, "store": PORT, "run": ID, "nodes": N, "min": MIN, "max": MAX,
     "processes": P, "config": {...}, "trace": FOLDER or null}

What torch does is torch's own code, unchanged: the handler is what create_handler() makes of a
C10dRendezvousBackend on a TCPStore. Counted is beside it: the backend talks to its store through
an object that takes notes, and the handler's keep-alive is called through a function that does.
"""

import base64
import ctypes
import datetime
import json
import logging
import os
import queue
import random
import resource
import signal
import socket
import sys
import threading
import time

from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous import c10d_rendezvous_backend as c10d
from torch.distributed.elastic.rendezvous import dynamic_rendezvous as dynamic

# torchrun looks after its workers every 0.1 s (2.4 and later), and a look younger than 1 s costs
# the store nothing: one poll in 1.0 to 1.1 s.
POLL_SECONDS = 1.05

# Agents see within a moment of each other that workers have failed, or are done: they look every
# 0.1 s, and have their own workers to end.
SKEW_SECONDS = 0.3

EXIT_SECONDS = 0.5  # from the end of shutdown() to that of the process and its connection

PR_SET_PDEATHSIG = 1  # of <sys/prctl.h>: what a process gets when its parent ends
thread_name = threading.local()


def pod_name(index):
    """61 characters, as the name of a worker's pod in its headless Service is long."""
    return "llm-pretrain-7f3c9a-worker-%05d.llm-pretrain-7f3c9a.ml-team-a" % index


def own_name():
    return thread_name.value


class Notes:
    """A store that writes down every request: (when, how long, kind, outcome, up, down).

    The sizes are those of the modern version: an opcode, and eight bytes before each string; a get
    is a WAIT and a GET. The outcome is what the backend will make of the answer: "set" or "not"."""

    def __init__(self, store):
        self.store = store
        self.requests = []

    def compare_set(self, key, expected, desired):
        start = time.monotonic()
        answer = self.store.compare_set(key, expected, desired)
        took = time.monotonic() - start
        outcome = "set" if answer == desired.encode() else "not"
        self.requests.append((start, took, "cas", outcome,
                              26 + len(key) + len(expected) + len(desired), 8 + len(answer)))
        return answer

    def get(self, key):
        start = time.monotonic()
        answer = self.store.get(key)
        self.requests.append((start, time.monotonic() - start, "get", "",
                              36 + 2 * len(key), 9 + len(answer)))
        return answer


class Node:
    """One node: a handler, its thread and its measurements."""

    def __init__(self, process, index):
        self.process, self.index = process, index
        self.heartbeats = []  # (when, how long, compare-and-sets, how many set, fresh)
        self.ranks = []       # (when, round, rank, world)
        self.thread = threading.Thread(target=self.run, daemon=True)

    def connect(self):
        trial = self.process.trial
        params = RendezvousParameters(
            backend="c10d", endpoint="127.0.0.1:%d" % trial["store"], run_id=trial["run"],
            min_nodes=trial["min"], max_nodes=trial["max"], local_addr=pod_name(self.index),
            is_host="0", **trial["config"])
        thread_name.value = pod_name(self.index)  # 1.13 has no local_addr
        store = c10d._create_tcp_store(params)
        self.notes = Notes(store)
        backend = c10d.C10dRendezvousBackend(self.notes, params.run_id)
        self.handler = dynamic.create_handler(store, backend, params)
        self.keep_alive = self.handler._keep_alive
        self.handler._keep_alive = self.noted_keep_alive

    def noted_keep_alive(self):
        start, first = time.monotonic(), len(self.notes.requests)
        self.keep_alive()
        holder = self.handler._state_holder
        cas = [r for r in self.notes.requests[first:] if r[2] == "cas"]
        beat = holder.state.last_heartbeats.get(self.handler._this_node)
        if beat is None:
            fresh = "gone"
        else:
            now = datetime.datetime.now(beat.tzinfo) if beat.tzinfo else datetime.datetime.utcnow()
            age = (now - beat).total_seconds()
            fresh = "fresh" if age < holder._settings.keep_alive_interval.total_seconds() else "old"
        self.heartbeats.append((start, time.monotonic() - start, len(cas),
                                sum(r[3] == "set" for r in cas), fresh))

    def run(self):
        try:
            self.connect()
            self.process.ready.put(None)
            order = self.process.first.follow()
            while order.name != "close":
                if order.name == "again":
                    time.sleep(random.uniform(0, SKEW_SECONDS))
                self.join(order)
                order = self.work(order)
            time.sleep(random.uniform(0, SKEW_SECONDS))
            self.close(order)
        except Exception as e:  # told, and the trial goes on without this node
            self.process.failed("%s: %s" % (type(e).__name__, str(e)[:200]))

    def work(self, order):
        """Until there is a new order, or a node is waiting: the order to act on."""
        order.over.wait(random.uniform(0, POLL_SECONDS))
        while not order.over.is_set():
            if self.handler.num_nodes_waiting() > 0:
                self.process.out(self)
                return order
            order.over.wait(POLL_SECONDS)
        return order.follow()

    def close(self, order):
        ok = self.handler.shutdown()
        self.process.done(self, order, time.monotonic())
        if not ok:
            self.process.failed("shutdown() returns False")
        time.sleep(EXIT_SECONDS)
        self.handler._store = self.notes.store = None  # ends the connection

    def join(self, order):
        info = self.handler.next_rendezvous()
        rank, world = (info[1:] if isinstance(info, tuple) else (info.rank, info.world_size))
        now = time.monotonic()
        self.ranks.append((now, self.handler._state_holder.state.round, rank, world))
        if world == self.process.trial["nodes"]:
            self.process.done(self, order, now)


class Order:
    """An order to all nodes, valid from a moment on: join, again (join once more), close."""

    def __init__(self, name, at):
        self.name, self.at = name, at
        self.over = threading.Event()  # there is a next one
        self.next = None

    def follow(self):
        self.over.wait()
        time.sleep(max(0, self.next.at - time.monotonic()))
        return self.next


class Process:
    """The nodes of one process, and its line to join.py."""

    def __init__(self, trial, indices):
        self.trial = trial
        self.connection = socket.create_connection(("127.0.0.1", trial["control"]))
        self.orders = self.connection.makefile("r")
        self.lock = threading.Lock()
        self.inside = set()
        self.ready = queue.Queue()
        self.first = self.order = Order("connect", 0)
        self.nodes = [Node(self, i) for i in indices]

    def say(self, **words):
        with self.lock:
            self.send(words)

    def send(self, words):
        self.connection.sendall((json.dumps(words) + "\n").encode())

    def give(self, name, at):
        with self.lock:
            last, self.order = self.order, Order(name, at)
            self.inside = set()
        last.next = self.order
        last.over.set()

    def done(self, node, order, now):
        """It has done what the order says, unless that is an old one by now."""
        with self.lock:
            if order is self.order:
                self.inside.add(node)
                self.send({"event": "in", "order": order.name, "count": len(self.inside),
                           "at": now})

    def out(self, node):
        """The node must join once more, since another node waits."""
        with self.lock:
            self.inside.discard(node)
            self.send({"event": "in", "order": self.order.name, "count": len(self.inside),
                       "at": time.monotonic()})

    def failed(self, text):
        self.ready.put(None)
        self.say(event="error", text=text)

    def serve(self):
        for node in self.nodes:
            node.thread.start()
        for _ in self.nodes:
            self.ready.get()
        self.say(event="ready", pid=os.getpid())
        for line in self.orders:
            order = json.loads(line)
            if order["order"] in ("join", "again", "close"):
                self.give(order["order"], order["at"])
            elif order["order"] == "cpu":
                used = resource.getrusage(resource.RUSAGE_SELF)
                self.say(event="cpu", seconds=used.ru_utime + used.ru_stime)
            elif order["order"] == "report":
                self.say(event="report", sums=self.sums(order["begin"], order["end"]))
            elif order["order"] == "end":
                break
        if self.trial["trace"]:
            self.write_trace()

    def sums(self, begin, end):
        """Sums of this process's nodes, measured from `begin` to `end`."""
        total = dict.fromkeys(("cas", "set", "get", "up", "down", "cas_seconds", "beats", "merged",
                               "one", "beat_cas", "not_fresh"), 0)
        total["cas_max"] = total["beat_max"] = 0.0
        for node in self.nodes:
            for at, took, kind, outcome, up, down in list(node.notes.requests):
                if begin <= at < end:
                    total[kind] += 1
                    total["up"] += up
                    total["down"] += down
                    if kind == "cas":
                        total["set"] += outcome == "set"
                        total["cas_seconds"] += took
                        total["cas_max"] = max(total["cas_max"], took)
            for at, took, cas, was_set, fresh in list(node.heartbeats):
                if begin <= at < end and cas:  # none: what the store had was young enough
                    total["beats"] += 1
                    total["one"] += cas == 1 and fresh == "fresh"
                    total["merged"] += was_set == 0 and fresh == "fresh"
                    total["beat_cas"] += cas
                    total["not_fresh"] += fresh != "fresh"
                    total["beat_max"] = max(total["beat_max"], took)
        return total

    def write_trace(self):
        path = os.path.join(self.trial["trace"], "%s-%d.jsonl" % (self.trial["run"], os.getpid()))
        with open(path, "w") as f:
            for node in self.nodes:
                for r in list(node.notes.requests):
                    f.write(json.dumps([node.index, *r]) + "\n")
                for h in list(node.heartbeats):
                    f.write(json.dumps([node.index, "heartbeat", *h]) + "\n")
                for r in node.ranks:
                    f.write(json.dumps([node.index, "rank", *r]) + "\n")


class Watcher:
    """Reads the state each quarter of a second, as a tool and not as an agent, which would be shown
    what concerns it; and tells how it looks."""

    def __init__(self, trial):
        self.connection = socket.create_connection(("127.0.0.1", trial["control"]))
        params = RendezvousParameters(
            backend="c10d", endpoint="127.0.0.1:%d" % trial["store"], run_id=trial["run"],
            min_nodes=1, max_nodes=1, is_host="0")
        self.store = c10d._create_tcp_store(params)
        self.key = "torch.rendezvous." + params.run_id

    def serve(self):
        self.say(event="ready", pid=os.getpid())
        over = threading.Event()
        threading.Thread(target=self.await_end, args=(over,), daemon=True).start()
        while not over.wait(0.25):
            value = self.store.get(self.key)
            if value == c10d.C10dRendezvousBackend._NULL_SENTINEL.encode():
                continue
            state = dynamic.pickle.loads(base64.b64decode(value))
            ages = []
            for beat in state.last_heartbeats.values():
                now = (datetime.datetime.now(beat.tzinfo) if beat.tzinfo
                       else datetime.datetime.utcnow())
                ages.append((now - beat).total_seconds())
            self.say(event="state", at=time.monotonic(), round=state.round,
                     complete=state.complete, participants=len(state.participants),
                     waiting=len(state.wait_list), bytes=len(value),
                     oldest=max(ages, default=0.0))

    def await_end(self, over):
        for line in self.connection.makefile("r"):
            if json.loads(line)["order"] == "end":
                break
        over.set()

    def say(self, **words):
        self.connection.sendall((json.dumps(words) + "\n").encode())


def child(trial, index):
    """Process `index` of the trial; the last one is the watcher."""
    if index == trial["processes"]:
        Watcher(trial).serve()
    else:
        Process(trial, range(index, trial["nodes"], trial["processes"])).serve()


def main():
    # What goes wrong is counted; a warning for each of some hundred nodes says no more.
    logging.getLogger("torch.distributed.elastic").setLevel(logging.ERROR)
    socket.getfqdn = lambda name="": own_name()
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    print("ready", flush=True)
    for line in sys.stdin:
        trial = json.loads(line)
        children = []
        for index in range(trial["processes"] + 1):
            pid = os.fork()
            if pid == 0:
                ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                try:
                    child(trial, index)
                except BrokenPipeError:
                    pass
                except BaseException as e:
                    print("join_load: %s: %s" % (type(e).__name__, e), file=sys.stderr, flush=True)
                os._exit(0)
            children.append(pid)
        for pid in children:
            os.waitpid(pid, 0)
        print("over", flush=True)


if __name__ == "__main__":
    main()
