"""rdzvd as a process: its command line, signals, listeners, settings and log.

    run.py [NAME...]     all cases, or those with one of these words in their name

The daemon is $RDZVD, else the one in build/. Everything stays on loopback.
"""

import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import cases  # noqa: E402
from cases import case, check  # noqa: E402
from servers import Rdzvd, Server, free_port, rdzvd_binary  # noqa: E402

HS = bytes.fromhex("00cef7853c0d78563412")


def once(*args, env=None, argv0=None, stdin=None):
    """Runs the daemon to its end: (exit code, stdout, stderr)."""
    done = subprocess.run([argv0 or rdzvd_binary(), *args], executable=rdzvd_binary(), env=env,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def http_get(port, path, method="GET", host="127.0.0.1", body=None, headers=None):
    c = http.client.HTTPConnection(host, port, timeout=20)
    c.request(method, path, body=body, headers=headers or {})
    answer = c.getresponse()
    text = answer.read().decode()
    c.close()
    return answer.status, text


class Peer:
    """A c10d client of the modern version."""

    def __init__(self, port, host="127.0.0.1"):
        self.socket = socket.create_connection((host, port), timeout=20)
        self.socket.sendall(HS)
        check(self.take(4) == HS[6:], "no answer to PING")

    def take(self, n):
        got = b""
        while len(got) < n:
            more = self.socket.recv(n - len(got))
            if not more:
                raise EOFError("the server closed after %r" % got)
            got += more
        return got

    @staticmethod
    def text(s):
        return struct.pack("<Q", len(s)) + s

    def add(self, key, delta):
        self.socket.sendall(b"\x04" + self.text(key) + struct.pack("<q", delta))
        return struct.unpack("<q", self.take(8))[0]

    def get(self, key):
        self.socket.sendall(b"\x03" + self.text(key))
        return self.take(struct.unpack("<Q", self.take(8))[0])

    def set(self, key, value):
        self.socket.sendall(b"\x01" + self.text(key) + self.text(value))

    def count(self):
        self.socket.sendall(b"\x07")
        return struct.unpack("<q", self.take(8))[0]

    def wait(self, key):
        self.socket.sendall(b"\x06" + struct.pack("<Q", 1) + self.text(key))

    def close(self):
        self.socket.close()


def started(args, env=None, argv0="rdzvd", listeners=1, cwd=None):
    """A daemon with exactly these arguments; its ports from the log."""
    server = Server([argv0, *args], executable=rdzvd_binary(), env=env, cwd=cwd)
    found = server.wait_log(r"event=listening address=(\S+):(\d+)", count=listeners)
    server.wait_log(r"event=ready")
    server.ports = [int(m.group(2)) for m in found]
    server.hosts = [m.group(1) for m in found]
    server.port = server.ports[0]
    return server


# ------------------------------------------------------------ stopping


@case
def sigterm_drains_and_exits_0():
    for number in (signal.SIGTERM, signal.SIGINT):
        with Rdzvd() as server:
            a, b = Peer(server.port), Peer(server.port)
            a.wait(b"/never")
            check(b.add(b"/n", 5) == 5, "ADD")
            check(server.stop(number) == 0, "exit code")
            check(b.socket.recv(1) == b"" and a.socket.recv(1) == b"", "peers see the end")
            server.wait_log(r"event=stopping")
            server.wait_log(r"event=stopped")


@case
def queued_answers_leave_before_the_end():
    with Rdzvd() as server:
        a, b = Peer(server.port), Peer(server.port)
        value = random.Random(1).randbytes(8 << 20)
        a.set(b"/v", value)
        check(a.count() == 1, "the value is there")
        b.socket.sendall(b"\x03" + b.text(b"/v"))
        check(b.take(8) == struct.pack("<Q", len(value)), "the answer has begun")
        server.process.send_signal(signal.SIGTERM)
        server.wait_log(r"event=stopping")
        check(b.take(len(value)) == value, "the whole answer")
        check(server.stop() == 0, "exit code")


@case
def a_reader_that_never_reads_does_not_hold_up_the_end():
    with Rdzvd("--drain-timeout", "300ms") as server:
        a = Peer(server.port)
        a.set(b"/v", bytes(8 << 20))
        a.socket.sendall((b"\x03" + a.text(b"/v")) * 4)
        check(a.take(8) == struct.pack("<Q", 8 << 20), "the answer has begun")
        check(server.stop() == 0, "exit code")
        server.wait_log(r"event=drain_timeout")


@case
def signals_that_mean_nothing_end_nothing():
    with Rdzvd() as server:
        a = Peer(server.port)
        for name in ("SIGHUP", "SIGUSR1", "SIGUSR2"):
            server.process.send_signal(getattr(signal, name))
            server.wait_log(r"level=warn event=signal_ignored signal=%s reason=.*restart" % name)
        server.process.send_signal(signal.SIGPIPE)
        check(a.add(b"/n", 1) == 1, "serves on")
        check(server.log().count("event=signal_ignored") == 3, "one line for each")
        check(server.stop() == 0, "exit code")


# ------------------------------------------------------------ listeners and spaces


@case
def one_port_speaks_both_and_spaces_are_apart():
    with Rdzvd(listen=("127.0.0.1:0", "127.0.0.1:0/jobA", "127.0.0.1:0/jobA")) as server:
        default, a1, a2 = (Peer(p) for p in server.ports)
        check(a1.add(b"/n", 1) == 1 and a2.add(b"/n", 1) == 2, "one space on two ports")
        check(default.add(b"/n", 1) == 1, "another space")
        http_get(server.ports[1], "/v2/keys/k", "PUT", body="value=1",
                 headers={"Content-Type": "application/x-www-form-urlencoded"})
        check(http_get(server.ports[2], "/v2/keys/k")[0] == 200, "etcd keys of the space")
        check(http_get(server.ports[0], "/v2/keys/k")[0] == 404, "and not of the other")


@case
def addresses_of_every_kind():
    check(socket.has_ipv6, "this machine has IPv6 sockets")
    with started(["--listen", "[::1]:0"]) as server:
        check(Peer(server.port, "::1").add(b"/n", 1) == 1, "IPv6")
    for spelt in ("*:0", ":0"):
        with started(["--listen", spelt]) as server:
            check(Peer(server.port, "::1").add(b"/n", 1) == 1, "dual stack, IPv6")
            check(Peer(server.port, "127.0.0.1").add(b"/n", 1) == 2, "dual stack, IPv4")
    with started(["--listen", "0.0.0.0:0"]) as server:
        check(Peer(server.port).add(b"/n", 1) == 1, "IPv4 wildcard")
    port = free_port()
    with started(["--listen", "localhost:%d" % port]) as server:
        check(Peer(port, "localhost").add(b"/n", 1) == 1, "a host name")


@case
def a_port_in_use_is_an_error_with_a_remedy():
    with Rdzvd() as server:
        code, _, err = once("--listen", "127.0.0.1:%d" % server.port)
        check(code == 1, "exit code %d" % code)
        check("127.0.0.1:%d" % server.port in err and "hint=" in err, err)
    with socket.socket(socket.AF_INET6) as other:
        # IPv4 alone, where dual stack was asked for, would leave half of the clients outside.
        other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        other.bind(("::", 0))
        other.listen()
        port = other.getsockname()[1]
        code, _, err = once("--listen", "*:%d" % port)
        check(code == 1 and "hint=" in err and ":%d" % port in err, "%d %s" % (code, err))
    code, _, err = once("--listen", "no.such.host.invalid:0")
    check(code == 1 and "no.such.host.invalid" in err and "hint=" in err, err)


@case
def an_agent_beside_us_cannot_take_the_port():
    # torch's guess "am I the host?" ends in a bind that must fail, on IPv4 and on IPv6.
    with started(["--listen", "*:0"]) as server:
        for family, host in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
            with socket.socket(family) as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    s.bind((host, server.port))
                    s.listen()
                    raise AssertionError("bound %s:%d" % (host, server.port))
                except OSError:
                    pass


@case
def a_space_is_forgotten_some_time_after_its_last_client():
    with Rdzvd("--space-idle-timeout", "300ms") as server:
        a = Peer(server.port)
        a.add(b"/n", 1)
        b = Peer(server.port)
        a.close()
        http_get(server.port, "/v2/keys/k", "PUT", body="value=1",
                 headers={"Content-Type": "application/x-www-form-urlencoded"})
        check(b.add(b"/n", 1) == 2, "kept while a client is connected")
        b.close()
        server.wait_log(r"event=space_forgotten space=default keys=1")
        c = Peer(server.port)
        check(c.count() == 0, "a new job finds nothing")
        check(http_get(server.port, "/v2/keys/k")[0] == 200, "etcd never forgets")
        c.close()
        d = Peer(server.port)  # back within the time: nothing is lost
        check(d.add(b"/n", 1) == 1, "ADD")


@case
def forgetting_nothing_is_logged_for_debugging_only():
    with Rdzvd("--space-idle-timeout", "50ms", "--log-level", "debug") as server:
        Peer(server.port).close()
        server.wait_log(r"level=debug event=space_forgotten space=default keys=0")
        check("level=info event=space_forgotten" not in server.log(), "logged as info")


@case
def a_space_is_reset_on_request():
    with Rdzvd(listen=("127.0.0.1:0", "127.0.0.1:0/jobA")) as server:
        default, a = (Peer(p) for p in server.ports)
        default.add(b"/n", 1)
        a.add(b"/n", 1)
        status, text = http_get(server.port, "/rdzv/v1/spaces/jobA", "DELETE")
        check(status == 200 and json.loads(text)["space"] == "jobA", text)
        check(a.count() == 0 and default.count() == 1, "that one alone")
        check(http_get(server.port, "/rdzv/v1/spaces/none", "DELETE")[0] == 404, "unknown")


@case
def the_log_names_the_setting_or_the_way_out():
    with Rdzvd("--request-timeout=1s") as server:
        for data, reason in ((HS + b"\1" + struct.pack("<Q", 1 << 40), "--key-size-limit"),
                             (HS + b"\5" + struct.pack("<Q", 1 << 40), "--keys-per-request"),
                             (HS + b"\1" + struct.pack("<Q1sQ", 1, b"k", 1 << 40), "--value-limit"),
                             (HS + b"\1" + b"\0" * 3, "--request-timeout"),
                             (b"\x16\3\1\0\x40", "use http://"),
                             (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "ETCDCTL_API=2")):
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as s:
                s.sendall(data)
                server.wait_log(r"event=dropped peer=%s:%d .*reason=.*%s"
                                % (*s.getsockname(), re.escape(reason)))


@case
def exit_when_idle():
    with Rdzvd("--exit-when-idle", "1s") as server:
        a = Peer(server.port)
        a.add(b"/n", 1)
        a.close()
        server.wait_log(r"event=idle_exit")
        check(server.process.wait(20) == 0, "exit code")


@case
def dropped_connections_are_counted_by_reason():
    with Rdzvd("--watcher-limit", "1") as server:
        for data in (HS + b"\x7f", HS + b"\1" + struct.pack("<Q", 1 << 40), b"GET / HTTP/9\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as c:
                c.sendall(data)
                c.recv(4096)
        waits = [Peer(server.port) for _ in range(2)]
        for p in waits:
            p.socket.sendall(b"\6" + struct.pack("<Q", 1) + p.text(b"/absent"))
        server.wait_log(r"event=dropped .*--watcher-limit")
        metrics = http_get(server.port, "/metrics")[1]
        for reason, count in (("malformed", 2), ("limit", 2), ("stalled", 0), ("space_full", 0)):
            line = 'rdzvd_connections_dropped_total{reason="%s"} %d\n' % (reason, count)
            check(line in metrics, (line, metrics))


@case
def open_descriptors_are_counted():
    with Rdzvd() as server:
        idle = [Peer(server.port) for _ in range(50)]
        deadline = time.monotonic() + 20
        while True:  # before Linux 6.2, the number may be a second old
            metrics = http_get(server.port, "/metrics")[1]
            counted = int(re.search(r"(?m)^process_open_fds (\d+)$", metrics).group(1))
            # The request's own connection is counted, and may be closed by now.
            if counted - len(os.listdir("/proc/%d/fd" % server.pid)) in (0, 1):
                break
            check(time.monotonic() < deadline, "%d were counted" % counted)
        for p in idle:
            p.close()


@case
def a_chunked_body_that_no_endpoint_reads_is_passed_over():
    with Rdzvd() as server:
        chunk = b"400\r\n" + b"x" * 1024 + b"\r\n"
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as c:
            c.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                      + chunk * 200 + b"0\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            got = b""
            while b'"health"' not in got:
                more = c.recv(65536)
                check(more, "the connection ends: %r" % got[-200:])
                got += more


def check_stays(server, seconds, what):
    try:
        server.process.wait(seconds)
        raise AssertionError("%s: the daemon ended\n%s" % (what, server.log()))
    except subprocess.TimeoutExpired:
        pass


@case
def probes_are_no_use_before_the_job_comes_nor_after_it():
    with Rdzvd("--exit-when-idle", "1s") as server:
        socket.create_connection(("127.0.0.1", server.port), timeout=20).close()
        http_get(server.port, "/health")
        http_get(server.port, "/metrics")
        check_stays(server, 3, "only probed so far")
        a = Peer(server.port)
        check_stays(server, 3, "a c10d client is connected")
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as probe:
            probe.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            check(probe.recv(4096).startswith(b"HTTP/1.1 200"), "/health")
            a.close()
            server.wait_log(r"event=idle_exit")
        check(server.process.wait(20) == 0, "exit code")


@case
def etcd_requests_are_use():
    with Rdzvd("--exit-when-idle", "3s") as server:
        end = time.monotonic() + 5
        while time.monotonic() < end:
            check(http_get(server.port, "/v2/keys/")[0] == 200, "a short request")
            check_stays(server, 0.2, "in use")
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as watch:
            watch.sendall(b"GET /v2/keys/k?wait=true HTTP/1.1\r\nHost: x\r\n\r\n")
            check(watch.recv(4096).startswith(b"HTTP/1.1 200"), "the head of a watch")
            check_stays(server, 5, "a watch is open")
        began = time.monotonic()
        server.wait_log(r"event=idle_exit")
        check(time.monotonic() - began > 2.9, "idle begins with the end of the last request")
        check(server.process.wait(20) == 0, "exit code")


# ------------------------------------------------------------ as an etcd


@case
def torch_etcd_server_helper_starts_it():
    # Exactly torch/distributed/elastic/rendezvous/etcd_server.py's command line.
    with tempfile.TemporaryDirectory() as folder:
        port, peer = free_port(), free_port()
        link = os.path.join(folder, "etcd")
        os.symlink(os.path.realpath(rdzvd_binary()), link)
        server = Server([link, "--enable-v2", "--data-dir", os.path.join(folder, "data"),
                         "--listen-client-urls", "http://localhost:%d" % port,
                         "--advertise-client-urls", "http://localhost:%d" % port,
                         "--listen-peer-urls", "http://localhost:%d" % peer])
        with server:
            server.wait_log(r"ready to serve client requests")
            status, text = http_get(port, "/version")
            check(status == 200 and "etcdserver" in json.loads(text), text)
            check("http://localhost:%d" % port in http_get(port, "/v2/machines")[1], "machines")
            server.wait_log(r"event=flag_ignored flag=--listen-peer-urls reason=\S+")
            server.wait_log(r"event=memory_only")
            check(server.stop() == 0, "exit code")


@case
def manifests_of_etcd_start_it():
    port = free_port()
    url = "http://127.0.0.1:%d" % port
    # As in torchelastic's Kubernetes samples, and the usual single-node StatefulSet.
    lines = [
        ["--data-dir", "/var/lib/etcd", "--enable-v2", "--listen-client-urls", url,
         "--advertise-client-urls", url, "--initial-cluster-state", "new"],
        ["--name", "etcd-server", "--enable-v2=true", "-listen-client-urls=" + url,
         "--listen-peer-urls=http://0.0.0.0:2380", "--advertise-client-urls=" + url,
         "--initial-advertise-peer-urls=http://etcd-server:2380",
         "--initial-cluster=etcd-server=http://etcd-server:2380",
         "--initial-cluster-token=token", "--initial-cluster-state=new",
         "--auto-compaction-retention=1", "--quota-backend-bytes=8589934592",
         "--heartbeat-interval=100", "--election-timeout=1000", "--snapshot-count=10000"],
    ]
    for argv in lines:
        for name in ("etcd", "/usr/local/bin/etcd", "rdzvd"):
            with started(argv, argv0=name) as server:
                status, text = http_get(port, "/health")
                check((status, text) == (200, '{"health":"true"}'), text)


@case
def environment_alone_is_enough():
    port = free_port()
    url = "http://127.0.0.1:%d" % port
    env = dict(os.environ, ETCD_ENABLE_V2="true", ETCD_LISTEN_CLIENT_URLS=url,
               ETCD_ADVERTISE_CLIENT_URLS=url, ETCD_NAME="envy",
               ETCD_PORT="tcp://10.0.0.1:2379", ETCD_SERVICE_HOST="10.0.0.1")
    with started([], env=env) as server:
        check('"name":"envy"' in http_get(port, "/v2/members")[1], "the name")
        server.wait_log(r"event=config_warning flag=ETCD_(PORT|SERVICE_HOST)")
    code, _, err = once("--listen-client-urls", url, env=env, argv0="etcd")
    check(code == 1 and "ETCD_LISTEN_CLIENT_URLS" in err, err)


@case
def etcd_exit_codes():
    code, _, err = once("--no-such-flag", argv0="etcd")
    check(code == 2 and "no-such-flag" in err, (code, err))
    code, _, err = once("--listen-client-urls", "http://127.0.0.1:1", argv0="etcd")
    check(code == 1 and "--advertise-client-urls" in err, (code, err))
    code, out, err = once("--version", argv0="etcd")
    check(code == 0 and out.startswith("etcd Version: 3.4"), out)


@case
def etcd_config_file():
    port = free_port()
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write("name: filed\nenable-v2: true\nlisten-client-urls: http://127.0.0.1:%d\n"
                "advertise-client-urls: http://127.0.0.1:%d\n" % (port, port))
        f.flush()
        with started(["--config-file", f.name], argv0="etcd"):
            check('"name":"filed"' in http_get(port, "/v2/members")[1], "the name")


# ------------------------------------------------------------ settings


@case
def check_config_reads_back_the_same():
    code, first, err = once("--check-config", "--listen", "127.0.0.1:0/a", "--space-idle-timeout", "30s",
                            "--output-limit", "64KiB")
    check(code == 0, err)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write(first)
        f.flush()
        code, second, err = once("--check-config", "--config", f.name)
        check(code == 0 and first == second, "%s\n%s\n%s" % (first, second, err))


@case
def bad_settings_name_the_place_and_the_remedy():
    code, out, err = once("--lisen", "127.0.0.1:0")
    check(code == 2 and "--listen" in err and out == "", (code, err))
    code, _, err = once("--space-idle-timeout", "30 parsecs")
    check(code == 2 and "--space-idle-timeout" in err, (code, err))
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write("space-idle-timeout: 3s\nspace-idle-timeout: 4s\n")
        f.flush()
        code, _, err = once("--config", f.name)
        check(code == 2 and "%s:2:1:" % f.name in err, (code, err))
    code, out, _ = once("--help")
    check(code == 0 and "--listen" in out, out)
    code, out, _ = once("--version")
    check(code == 0 and out.startswith("rdzvd "), out)


# ------------------------------------------------------------ a good citizen


@case
def json_log():
    with Server([rdzvd_binary(), "--log-format", "json", "--listen", "127.0.0.1:0"]) as server:
        server.wait_log(r'"event":"ready"')
        for line in server.lines:
            check("event" in json.loads(line), line)


@case
def limits_are_raised_and_reported():
    with Rdzvd() as server:
        m = server.wait_log(r"event=starting .*nofile=(\d+) backlog=(\d+)")[0]
        with open("/proc/%d/limits" % server.pid) as f:
            line = re.search(r"Max open files\s+(\d+)\s+(\d+)", f.read())
        check(line.group(1) == line.group(2) == m.group(1), "nofile %s" % m.group(1))
        with open("/proc/sys/net/core/somaxconn") as f:
            check(f.read().strip() == m.group(2), "backlog %s" % m.group(2))


@case
def keep_alive_and_no_delay_on_accepted_sockets():
    ss = shutil.which("ss")
    if ss is None:
        return "ss is not installed"
    with Rdzvd() as server:
        a = Peer(server.port)
        local = a.socket.getsockname()[1]
        shown = subprocess.run([ss, "-Htnoi", "sport", "= :%d" % server.port, "dport",
                                "= :%d" % local], capture_output=True, text=True, check=True).stdout
        check("timer:(keepalive" in shown, shown)
    return None


@case
def connect_and_close_is_silent():
    with Rdzvd("--log-level", "debug") as server:
        server.wait_log(r"event=ready")
        before = len(server.lines)
        for _ in range(50):
            socket.create_connection(("127.0.0.1", server.port)).close()
        Peer(server.port).add(b"/n", 1)  # its answer comes after the closes were seen
        lines = [x for x in server.lines[before:] if "event=closed" not in x]
        check(not lines and len(server.lines) - before <= 1, "\n".join(server.lines[before:]))


@case
def probes():
    with Rdzvd() as server:
        for path in ("/livez", "/readyz"):
            check(http_get(server.port, path) == (200, "ok\n"), path)
        status, text = http_get(server.port, "/readyz?verbose")
        check(status == 200 and "[+]" in text, text)
        check(http_get(server.port, "/health") == (200, '{"health":"true"}'), "/health")


@case
def systemd_is_notified():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.bind(path)
            s.settimeout(30)
            with Rdzvd(env=dict(os.environ, NOTIFY_SOCKET=path)) as server:
                check("READY=1" in s.recv(4096).decode(), "READY=1")
                check(server.stop() == 0, "exit code")
                check("STOPPING=1" in s.recv(4096).decode(), "STOPPING=1")


@case
def systemd_hands_over_sockets():
    # The listening socket is made here and inherited as descriptor 3, as systemd does it.
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        script = ('export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=jobA; '
                  'exec "$0" 3<&%d' % listening.fileno())
        os.set_inheritable(listening.fileno(), True)
        process = subprocess.Popen(["/bin/bash", "-c", script, rdzvd_binary()],
                                   pass_fds=[listening.fileno()], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            check(Peer(port).add(b"/n", 1) == 1, "served on the inherited socket")
            check("jobA" in http_get(port, "/rdzv/v1/spaces")[1], "in the space of its name")
        finally:
            process.send_signal(signal.SIGTERM)
            err = process.communicate(timeout=20)[1]
        check(process.returncode == 0, err)


@case
def the_log_may_go_nowhere():
    process = subprocess.Popen([rdzvd_binary(), "--listen", "127.0.0.1:0"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    port = None
    while port is None:
        m = re.search(r"event=listening address=\S+:(\d+)", process.stderr.readline())
        port = int(m.group(1)) if m else None
    process.stderr.close()  # from now on each line meets a broken pipe
    for first in (b"\xff", b"\xfe", b"GET nowhere\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
            s.sendall(first)
            while s.recv(4096):
                pass
    check(Peer(port).add(b"/n", 1) == 1, "serves on")
    process.send_signal(signal.SIGTERM)
    check(process.wait(20) == 0, "exit code")


@case
def descriptors_that_run_out_are_survived():
    # The daemon has 40 descriptors: further clients wait in the backlog and are served later.
    argv = ["/bin/bash", "-c", 'ulimit -n 40; exec "$0" --listen 127.0.0.1:0', rdzvd_binary()]
    with Server(argv) as server:
        port = int(server.wait_log(r"event=listening address=\S+:(\d+)")[0].group(1))
        server.wait_log(r"event=ready")
        peers = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(60)]
        server.wait_log(r"event=accept_failed .*hint=")
        for p in peers[:50]:
            p.close()
        for p in peers[50:]:
            p.sendall(HS)
            check(p.recv(4) == HS[6:], "served in the end")
            p.close()


@case
def the_limit_of_connections():
    with Rdzvd("--connection-limit", "2") as server:
        a, b = Peer(server.port), Peer(server.port)
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as c:
            check(c.recv(1) == b"", "the third is refused")
        server.wait_log(r"event=connection_limit .*limit=2")
        a.close()
        deadline = time.monotonic() + 20
        while True:  # until the daemon has seen the close it refuses each try
            try:
                check(Peer(server.port).add(b"/n", 1) >= 1, "a place is free again")
                break
            except (EOFError, ConnectionError):
                check(time.monotonic() < deadline, "no place for 20 s")
        b.close()


if __name__ == "__main__":
    sys.exit(cases.run("tests/process/run.py"))
