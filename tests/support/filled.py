"""Fills a store with state of each kind, and reads every part that clients can see: tests compare the readings before
and after a restart.
"""

import http.client
import json
import re

from c10d import Peer, modern
from cases import check


def same(got, wanted, what):
    if isinstance(got, dict) and isinstance(wanted, dict) and got != wanted:
        for key in sorted(set(got) | set(wanted), key=repr):
            same(got.get(key), wanted.get(key), "%s: %r" % (what, key))
    check(got == wanted, "%s: %.500r, not %.500r" % (what, got, wanted))


def ask(port, method, path, body=None, headers=None):
    """(status, headers, body) of one HTTP request."""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    c.request(method, path, body=body, headers=headers or {})
    answer = c.getresponse()
    got = answer.status, dict(answer.getheaders()), answer.read()
    c.close()
    return got


def put(port, path, form):
    status, headers, body = ask(port, "PUT", "/v2/keys" + path, body=form, headers={
        "Content-Type": "application/x-www-form-urlencoded"})
    check(status in (200, 201), "PUT %s was answered %d %r" % (path, status, body))
    return json.loads(body)["node"]["modifiedIndex"]


VALUES = {b"empty": b"", b"": b"no name", b"large": bytes(range(256)) * 4096, b"number": b"41"}


def fill(port):
    """Something of each kind."""
    p = Peer(port)
    for key, value in VALUES.items():
        p.set(key, value)
    p.set(b"gone", b"soon")
    same(p.delete(b"gone"), 1, "DELETE_KEY")
    same(p.add(b"number", 1), 42, "ADD")
    same(p.cas(b"compared", b"", b"first"), b"first", "COMPARE_SET")
    same(p.cas(b"compared", b"first", b"second"), b"second", "COMPARE_SET")
    for part in b"ab", b"cd":
        p.append(b"appended", part)
    p.send(modern.multi_set((b"m1", b"v1"), (b"m2", b"v2")))
    for value in b"one", b"two", b"three":
        p.push(b"queue", value)
    same(p.pop(b"queue"), b"one", "QUEUE_POP")
    p.ping()
    p.close()
    put(port, "/dir/a", "value=1")
    put(port, "/dir/a", "value=2")
    put(port, "/dir/b", "value=3&ttl=3600")
    put(port, "/dir/sub/c", "value=4")
    put(port, "/gone", "value=5")
    ask(port, "DELETE", "/v2/keys/gone")
    status, _, body = ask(port, "POST", "/v2/keys/queue", body="value=in%20order", headers={
        "Content-Type": "application/x-www-form-urlencoded"})
    same(status, 201, "an in-order key (%r)" % body)


def without_ttl(body):
    """An answer without deadlines, which are given the time in which the store is away."""
    return re.sub(rb'"expiration":"[^"]*","ttl":\d+', b'"ttl":T', body)


def contents(port):
    """All that clients can see, without changing anything."""
    p = Peer(port)
    out = {"keys": sorted(p.list_keys())}
    for key in out["keys"]:
        out[key] = p.get(key)
    out["queue"] = p.queue_len(b"queue")
    p.close()
    for path in ("/v2/keys/?recursive=true&sorted=true",
                 "/v2/keys/dir/a?wait=true&waitIndex=4", "/v2/keys/gone?wait=true&waitIndex=5",
                 "/v2/members"):
        status, headers, body = ask(port, "GET", path)
        out[path] = status, headers.get("X-Etcd-Index"), headers.get("X-Etcd-Cluster-Id"), without_ttl(body)
    return out


def goes_on(port):
    """The store behaves as if it had never ended."""
    p = Peer(port)
    same(p.add(b"number", 1), 43, "ADD")
    same(p.cas(b"compared", b"second", b"third"), b"third", "COMPARE_SET")
    same([p.pop(b"queue") for _ in range(2)], [b"two", b"three"], "the queue")
    p.close()
    before = int(ask(port, "GET", "/v2/keys/")[1]["X-Etcd-Index"])
    same(put(port, "/dir/a", "value=9"), before + 1, "the index")
