"""torch's client of the store, on a connection that is made anew when the relay of this agent was started again.

torch's TCPStore never reconnects. A TCPStore of this agent ends only with its relay, since the relay holds the
connection while the store is away. So each request first compares the relay's number of starts with that of the
connection, and a request that fails because the relay has died is sent again, except ADD and APPEND, which the store
could execute twice.

Three seconds after the end of the relay, the store takes the agent's node out of the run, unless it knows by then that the
agent has come back. It learns the node of a connection only from what the agent writes, and torch's next heartbeat may
come later. So a new connection begins with a heartbeat."""

import base64
import pickle
import threading
from datetime import datetime, timezone

from torch.distributed import Store

DEATH_SEEN_S = 1  # between an error of a connection and the end of the child that has caused it
ONCE = ("add", "append")
REQUESTS = ("set", "add", "append", "check", "wait", "multi_get", "multi_set", "delete_key",
            "num_keys", "has_extended_api", "queue_push", "queue_pop", "queue_len", "barrier", "list_keys")
NO_STATE = "Y2FuaW1hZGFt"  # torch's value for a run without nodes
IN_CPP = {"deleteKey": "delete_key", "getNumKeys": "num_keys"}  # by these names, C++ calls a store of Python


def read_state(text):
    """torch's state of a run, as torch's agents read it: a pickle. None: no node has joined yet."""
    return None if text in ("", NO_STATE) else pickle.loads(base64.b64decode(text))


def find_own_node(before, after):
    """The node that has written `after` in the place of `before`: its heartbeat has changed."""
    before, after = read_state(before), read_state(after)
    old = before.last_heartbeats if before else {}
    changed = [node for node, when in (after.last_heartbeats if after else {}).items() if old.get(node) != when]
    return changed[0] if len(changed) == 1 else None


class ReconnectingStore(Store):
    def __init__(self, relay, connect):
        """`connect()` returns a new TCPStore of torch."""
        super().__init__()
        self._relay, self._connect = relay, connect
        self._starts, self._store = relay.starts, connect()
        self._own_timeout = None
        self._key = self._node = None  # the key of the state, and this agent's node in it
        self._shown = None  # the state as this agent has seen it last
        self._lock = threading.Lock()  # torch's heartbeats come from another thread

    def set_timeout(self, timeout):
        self._own_timeout = timeout
        super().set_timeout(timeout)
        self._store.set_timeout(timeout)

    def _reconnect(self):
        with self._lock:
            starts = self._relay.starts
            if self._starts == starts:
                return
            store = self._connect()
            if self._own_timeout is not None:
                store.set_timeout(self._own_timeout)
            if self._node is not None and self._shown is not None:
                self._send_heartbeat(store)
            self._store, self._starts = store, starts

    def _send_heartbeat(self, store):
        """In the state that the connection before has seen, since the store shows its nodes to their agents only."""
        state = read_state(self._shown)
        when = state.last_heartbeats.get(self._node) if state else None
        if when is not None:
            state.last_heartbeats[self._node] = datetime.now(timezone.utc).replace(tzinfo=when.tzinfo)
            store.compare_set(self._key, self._shown, base64.b64encode(pickle.dumps(state)).decode())

    def compare_set(self, key, before, after):
        if self._node is None:
            self._key, self._node = key, find_own_node(before, after)
        result = self._request("compare_set", (key, before, after), {})
        self._shown = result.decode()
        return result

    def get(self, key):
        result = self._request("get", (key,), {})
        if key == self._key:
            self._shown = result.decode()
        return result

    def _request(self, name, args, kwargs):
        while True:
            if self._starts != self._relay.starts:
                self._reconnect()
            try:
                return getattr(self._store, name)(*args, **kwargs)
            except RuntimeError:
                if name in ONCE or not self._relay.wait_for_start(self._starts, DEATH_SEEN_S):
                    raise


def _make(name):
    def request(self, *args, **kwargs):
        return self._request(name, args, kwargs)

    request.__name__ = name
    return request


for _name in REQUESTS:
    setattr(ReconnectingStore, _name, _make(_name))
for _cpp, _name in IN_CPP.items():
    setattr(ReconnectingStore, _cpp, _make(_name))
