"""HTTP through a relay, with kill -9 of its store in between: clients of etcd do not notice.

    relay_http.py [NAME...]     all cases, or the cases whose name contains a NAME

Needs Debian's python3-etcd, etcdctl and curl, as tests/etcd/ does. $RDZV_SEED is the seed of what is
random (1). Everything stays on loopback and in directories that the test made.
"""

import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import etcd

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import cases  # noqa: E402
from cases import case, check  # noqa: E402
from servers import Rdzvd, free_port  # noqa: E402

SEED = int(os.environ.get("RDZV_SEED", "1"))
SPACE = "job-a"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def same(got, wanted, what):
    check(got == wanted, "%s: %.500r, not %.500r" % (what, got, wanted))


def until(condition, what, patience=30):
    deadline = time.monotonic() + patience
    while not condition():
        check(time.monotonic() < deadline, "not within %d s: %s" % (patience, what))
        time.sleep(0.01)


class Scene:
    """A store with a data directory, which comes and goes, and a relay. `direct` is a listener of
    the store that shows the relay's space itself."""

    def __init__(self, *flags, begin=True):
        self.folder = tempfile.mkdtemp(prefix="rdzv-relay-")
        self.at, self.direct = free_port(), free_port()
        self.store = None
        if begin:
            self.start()
        self.relay = Rdzvd("--upstream=127.0.0.1:%d" % self.at, "--space=" + SPACE, *flags)
        self.port = self.relay.port

    def start(self):
        self.store = Rdzvd("--data-dir=" + os.path.join(self.folder, "data"), listen=(
            "127.0.0.1:%d" % self.at, "127.0.0.1:%d/%s" % (self.direct, SPACE)))

    def kill(self, sig=signal.SIGKILL):
        self.store.stop(sig)

    def back_in(self, seconds):
        """The store comes back by itself: for calls that have to wait for it."""
        thread = threading.Timer(seconds, self.start)
        thread.start()
        return thread

    def watchers(self):
        return json.loads(ask(self.direct, "GET", "/v2/stats/store")[2])["watchers"]

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            print("the relay's log ends:\n%s" % self.relay.log()[-2000:])
        code = self.relay.stop()
        if self.store is not None and self.store.process.poll() is None:
            self.store.stop(signal.SIGTERM if kind is None else signal.SIGKILL)
        shutil.rmtree(self.folder)
        if kind is None:
            same(code, 0, "the relay's exit code")


def ask(port, method, path, body=None, connection=None):
    """(status, headers, body) of one HTTP request."""
    c = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    c.request(method, path, body=body, headers=FORM if body else {})
    answer = c.getresponse()
    got = answer.status, dict(answer.getheaders()), answer.read()
    if connection is None:
        c.close()
    return got


def put(port, path, form):
    status, _, body = ask(port, "PUT", "/v2/keys" + path, form)
    check(status in (200, 201), "PUT %s was answered %d %r" % (path, status, body))
    return json.loads(body)["node"]["modifiedIndex"]


def counted(port, name):
    """A counter of the relay's HTTP side."""
    text = ask(port, "GET", "/metrics")[2].decode()
    return int(re.search(r"^rdzvd_relay_http_%s_total (\d+)$" % name, text, re.M).group(1))


def get(port, path):
    status, _, body = ask(port, "GET", "/v2/keys" + path)
    same(status, 200, "GET %s" % path)
    return json.loads(body)["node"]["value"]


class Later:
    """A call in its own thread, with its result or error."""

    def __init__(self, function, *args, **kwargs):
        self.result = self.error = None
        self.thread = threading.Thread(target=self.run, args=(function, args, kwargs), daemon=True)
        self.thread.start()

    def run(self, function, args, kwargs):
        try:
            self.result = function(*args, **kwargs)
        except Exception as error:  # given to who asks for it
            self.error = error

    def get(self, patience=60):
        self.thread.join(patience)
        check(not self.thread.is_alive(), "nothing came within %d s" % patience)
        if self.error is not None:
            raise self.error
        return self.result


def raw_watch(port, query):
    """A watch whose head has come: so it is the store's by now."""
    s = socket.create_connection(("127.0.0.1", port), timeout=60)
    s.sendall(b"GET /v2/keys%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % query.encode())
    stream = s.makefile("rb")
    check(b"200" in stream.readline(), "the watch was refused")
    while stream.readline() not in (b"\r\n", b""):
        pass
    return s, stream


def next_events(stream):
    """The events of a watch, each with what was cut into several chunks put together again; ends
    with the watch."""
    text = b""
    while True:
        size = stream.readline()
        check(size.endswith(b"\r\n"), "the watch broke: %r" % size)
        n = int(size, 16)
        text += stream.read(n)
        same(stream.read(2), b"\r\n", "the end of a chunk")
        while b"\n" in text:
            line, text = text.split(b"\n", 1)
            yield json.loads(line)
        if n == 0:
            same(text, b"", "behind the last event")
            return


# --- Requests.

@case
def the_relay_shows_its_space():
    with Scene() as s:
        put(s.port, "/k", "value=v")
        same(get(s.direct, "/k"), "v", "in its space")
        same(ask(s.at, "GET", "/v2/keys/k")[0], 404, "in the listener's own")
        # What the relay says of itself is not the store's.
        same(ask(s.port, "GET", "/livez")[0], 200, "/livez")
        check(b"rdzvd" in ask(s.port, "GET", "/metrics")[2], "/metrics")
        # Members are who the client talks to: it stays with the relay.
        same(ask(s.port, "GET", "/v2/machines")[2], b"http://127.0.0.1:%d" % s.port, "machines")


@case
def a_body_is_no_request():
    """No endpoint reads a JSON body, and this body is too long to skip: rdzvd answers and closes the connection."""
    with Scene() as s, socket.create_connection(("127.0.0.1", s.port), timeout=60) as c:
        c.sendall(b"PUT /v2/keys/k HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  b"Content-Length: 300000\r\n\r\nGET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
        got = b""
        while more := c.recv(65536):
            got += more
        same((got[:12], got.count(b"HTTP/1.1 "), b"Connection: close" in got), (b"HTTP/1.1 201", 1, True), "the answers")


@case
def another_host_is_refused_by_the_relay():
    with Scene() as s:
        for host, wanted in ("localhost", 200), ("page.example", 403):
            c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
            c.request("GET", "/version", headers={"Host": host})
            same(c.getresponse().status, wanted, host)
            c.close()


@case
def a_listener_of_another_space_is_refused():
    with Scene() as s, Rdzvd("--upstream=127.0.0.1:%d" % s.direct, "--space=job-b") as other:
        other.wait_log("upstream_refused|relay_http_refused")
        c = http.client.HTTPConnection("127.0.0.1", other.port, timeout=1)
        c.request("PUT", "/v2/keys/k", body="value=x", headers=FORM)
        try:
            status = c.getresponse().status
            check(status >= 500, "it was answered %d" % status)
        except socket.timeout:
            pass  # it is held, as there is no store for it
        c.close()
        same(ask(s.direct, "GET", "/v2/keys/k")[0], 404, "in the store's space")


@case
def requests_wait_for_the_store():
    with Scene(begin=False) as s:
        c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=60)
        same(ask(s.port, "GET", "/livez")[0], 200, "/livez without a store")
        back = s.back_in(1)
        same(ask(0, "PUT", "/v2/keys/k", "value=0", c)[0], 201, "PUT, sent before there was a store")
        back.join()
        for i in range(1, 4):
            s.kill()
            back = s.back_in(0.5)
            same(ask(0, "PUT", "/v2/keys/k", "value=%d" % i, c)[0], 200, "PUT while it is away")
            back.join()
            s.kill()
            back = s.back_in(0.5)
            status, _, body = ask(0, "GET", "/v2/keys/k", connection=c)
            same((status, json.loads(body)["node"]["value"]), (200, str(i)), "GET while it is away")
            back.join()
        c.close()


@case
def etcds_clients_do_not_notice():
    env = {k: v for k, v in os.environ.items() if not k.startswith("ETCD")}
    env["ETCDCTL_API"] = "2"
    with Scene() as s:
        url = "http://127.0.0.1:%d" % s.port
        client = etcd.Client(host="127.0.0.1", port=s.port, allow_reconnect=True)
        for i in range(3):
            s.kill()
            back = s.back_in(0.5)
            done = subprocess.run(["etcdctl", "--endpoints", url, "--total-timeout", "60s", "--timeout", "60s",
                                   "set", "/ctl", str(i)],
                                  env=env, capture_output=True, text=True, timeout=60)
            same((done.returncode, done.stdout), (0, "%d\n" % i), "etcdctl set (%s)" % done.stderr)
            back.join()
            s.kill()
            back = s.back_in(0.5)
            client.write("/python", str(i))
            back.join()
            s.kill()
            back = s.back_in(0.5)
            same(client.read("/ctl").value, str(i), "python-etcd")
            back.join()
            s.kill()
            back = s.back_in(0.5)
            done = subprocess.run(["curl", "-s", "-S", url + "/v2/keys/python"], capture_output=True,
                                  text=True, timeout=60)
            same(json.loads(done.stdout)["node"]["value"], str(i), "curl (%s)" % done.stderr)
            back.join()


def stopped(s, method, path, body):
    """The outcome of a request that a store has got and not carried out when it is killed."""
    ask(s.port, "GET", "/version")  # the relay has found the store
    os.kill(s.store.pid, signal.SIGSTOP)
    asked = Later(ask, s.port, method, path, body)
    until(lambda: has_sent(s), "the request is on its way")
    s.kill()
    s.start()
    return asked


def has_sent(s):
    """Bytes wait in a connection of the stopped store."""
    with open("/proc/net/tcp", encoding="ascii") as f:
        for line in f.readlines()[1:]:
            fields = line.split()
            waiting = int(fields[4].split(":")[1], 16)
            if int(fields[1].split(":")[1], 16) == s.at and fields[3] == "01" and waiting > 100:
                return True
    return False


@case
def a_change_is_never_made_twice():
    with Scene() as s:
        put(s.port, "/k", "value=1&ttl=1000")
        index = put(s.port, "/cas", "value=1")
        for method, path, body in (("PUT", "/v2/keys/k", "value=2"), ("DELETE", "/v2/keys/k", None),
                                   ("POST", "/v2/keys/dir", "value=1"),
                                   ("PUT", "/v2/keys/cas", "value=2&prevIndex=%d" % index)):
            try:
                status = stopped(s, method, path, body).get()[0]
                check(False, "%s was answered %d" % (method, status))
            except (http.client.RemoteDisconnected, ConnectionResetError):
                pass
        same(get(s.port, "/k"), "1", "what was not carried out")
        same(stopped(s, "PUT", "/v2/keys/k", "prevExist=true&refresh=true&ttl=500").get()[0], 200,
             "a refresh")
        retried = counted(s.port, "retried")
        same(stopped(s, "GET", "/v2/keys/k", None).get()[0], 200, "a read")
        same(counted(s.port, "cut"), 4, "requests that were cut")
        same((retried, counted(s.port, "retried")), (1, 2), "requests that were sent again")


# --- Watches.

@case
def a_long_poll_goes_on():
    with Scene() as s:
        put(s.port, "/w", "value=0")
        client = etcd.Client(host="127.0.0.1", port=s.port, read_timeout=60)
        for i, sig in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGKILL)):
            event = Later(client.watch, "/w")
            until(lambda: s.watchers() == 1, "the watch is there")
            s.kill(sig)
            s.start()
            # The relay may be back by now, or not: then the event comes from the history.
            wanted = put(s.direct, "/w", "value=%d" % (i + 1))
            got = event.get()
            same((got.value, got.modifiedIndex), (str(i + 1), wanted), "the event")
            same(counted(s.port, "watches_moved"), i + 1, "watches that went on")
        same(counted(s.port, "requests"), 4, "requests that were passed on")
        same(counted(s.port, "cut"), 0, "requests that were cut")


@case
def a_watch_ends_when_the_history_does_not_reach_back():
    with Scene() as s:
        sock, stream = raw_watch(s.port, "/w?wait=true")
        s.relay.process.send_signal(signal.SIGSTOP)
        c = http.client.HTTPConnection("127.0.0.1", s.direct, timeout=60)
        for i in range(1002):
            ask(0, "PUT", "/v2/keys/other", "value=%d" % i, c)
        c.close()
        s.kill()
        s.start()
        s.relay.process.send_signal(signal.SIGCONT)
        same(stream.read(), b"", "behind the head")
        sock.close()


@case
def a_stream_has_each_event_once():
    rng = random.Random(SEED)
    with Scene() as s:
        first = put(s.direct, "/s/first", "value=0") + 1
        sock, stream = raw_watch(s.port, "/s?wait=true&recursive=true&stream=true")
        got = []

        def follow():
            for event in next_events(stream):
                got.append(event["node"]["modifiedIndex"])

        follower = Later(follow)
        for life in range(6):
            killer = threading.Timer(rng.uniform(0.05, 0.4), s.kill)
            killer.start()
            c = http.client.HTTPConnection("127.0.0.1", s.direct, timeout=60)
            try:
                while True:
                    ask(0, "PUT", "/v2/keys/s/%d" % rng.randrange(9),
                        "value=" + "v" * rng.choice((1, 100, 30000)), c)
                    time.sleep(0.002)
            except (http.client.HTTPException, OSError):
                c.close()
            killer.join()
            s.start()
        last = put(s.direct, "/s/last", "value=0")
        until(lambda: follower.error is not None or (got and got[-1] == last), "the last event came")
        if follower.error is not None:
            raise follower.error
        same(got, list(range(first, last + 1)), "the events")
        check(last - first > 50, "only %d events" % (last - first))
        sock.shutdown(socket.SHUT_WR)  # as etcd: that is the end of the watch, and of the answer
        follower.get()
        sock.close()


@case
def a_relay_that_stops_does_not_wait_for_watches():
    with Scene("--drain-timeout=30s") as s:
        sock, stream = raw_watch(s.port, "/w?wait=true")
        began = time.monotonic()
        same(s.relay.stop(), 0, "the exit code")
        check(time.monotonic() - began < 15, "it took %.1f s" % (time.monotonic() - began))
        same(stream.read(), b"", "behind the head")
        sock.close()


if __name__ == "__main__":
    sys.exit(cases.run("tests/process/relay_http.py"))
