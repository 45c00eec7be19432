"""rdzvd as a process: its command line, signals, listeners, settings and log.

    run.py [NAME...]     all cases, or the cases whose name contains a NAME

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
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import cases  # noqa: E402
from c10d import Peer, blob, length, modern  # noqa: E402
from cases import case, check  # noqa: E402
from servers import OPERATOR, Rdzvd, Server, free_port, rdzvd_binary, token_flag  # noqa: E402

HS = modern.hello()


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
        b.send(modern.get(b"/v"))
        check(b.take(8) == length(len(value)), "the answer has begun")
        server.process.send_signal(signal.SIGTERM)
        server.wait_log(r"event=stopping")
        check(b.take(len(value)) == value, "the whole answer")
        check(server.stop() == 0, "exit code")


@case
def streams_of_events_end_as_whole_replies():
    with Rdzvd(token_flag()) as server:
        headers = "".join("%s: %s\r\n" % item for item in OPERATOR.items())
        streams = []
        for path in ("/rdzv/v1/status?watch=true", "/rdzv/v1/monitor", HERE + "/status?watch=true"):
            for version in ("1.1", "1.0"):
                sock = socket.create_connection(("127.0.0.1", server.port), 20)
                sock.sendall(("GET %s HTTP/%s\r\nHost: localhost\r\n%s\r\n" % (
                    path, version, headers)).encode())
                got = b""
                while b"\n\n" not in got:
                    got += sock.recv(1 << 16)
                streams.append((path, version, sock, got))
        server.process.send_signal(signal.SIGTERM)
        for path, version, sock, got in streams:
            while more := sock.recv(1 << 16):
                got += more
            head, body = got.split(b"\r\n\r\n", 1)
            check((b"chunked" in head) == (version == "1.1"), got)
            check(body.endswith(b"\n\n\r\n0\r\n\r\n" if version == "1.1" else b"\n\n"), (path, got[-100:]))
            sock.close()
        check(server.stop() == 0, "exit code")


@case
def a_reader_that_never_reads_does_not_hold_up_the_end():
    with Rdzvd("--drain-timeout", "300ms") as server:
        a = Peer(server.port)
        a.set(b"/v", bytes(8 << 20))
        a.send(modern.get(b"/v") * 4)
        check(a.take(8) == length(8 << 20), "the answer has begun")
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
        check(Peer(server.port, host="::1").add(b"/n", 1) == 1, "IPv6")
    for spelt in ("*:0", ":0"):
        with started(["--listen", spelt]) as server:
            check(Peer(server.port, host="::1").add(b"/n", 1) == 1, "dual stack, IPv6")
            check(Peer(server.port, host="127.0.0.1").add(b"/n", 1) == 2, "dual stack, IPv4")
    with started(["--listen", "0.0.0.0:0"]) as server:
        check(Peer(server.port).add(b"/n", 1) == 1, "IPv4 wildcard")
    port = free_port()
    with started(["--listen", "localhost:%d" % port]) as server:
        check(Peer(port, host="localhost").add(b"/n", 1) == 1, "a host name")


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
    with Rdzvd(token_flag(), listen=("127.0.0.1:0", "127.0.0.1:0/jobA")) as server:
        default, a = (Peer(p) for p in server.ports)
        default.add(b"/n", 1)
        a.add(b"/n", 1)
        status, text = http_get(server.port, "/rdzv/v1/spaces/jobA", "DELETE", headers=OPERATOR)
        check(status == 200 and json.loads(text)["space"] == "jobA", text)
        check(a.count() == 0 and default.count() == 1, "that one alone")
        check(http_get(server.port, "/rdzv/v1/spaces/none", "DELETE", headers=OPERATOR)[0] == 404,
              "unknown")


@case
def the_log_names_the_setting_or_the_way_out():
    with Rdzvd("--request-timeout=1s") as server:
        for data, reason in ((HS + modern.opcode("SET") + length(1 << 40), "longer than 8 KiB"),
                             (HS + modern.opcode("CHECK") + length(1 << 40), "more than 131072 keys"),
                             (HS + modern.opcode("SET") + blob(b"k") + length(1 << 40), "--value-limit"),
                             (HS + modern.opcode("SET") + b"\0" * 3, "--request-timeout"),
                             (b"\x16\3\1\0\x40", "use http:// there"),
                             (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "ETCDCTL_API=2")):
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as s:
                s.sendall(data)
                server.wait_log(r"event=(dropped|refused) peer=%s:%d .*(reason|detail)=.*%s"
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
def rdzvd_exits_with_the_process_at_the_other_end_of_its_stdin():
    """A shell holds the pipe and is killed. A relay, whose client is still connected and whose store is away, ends as
    soon."""
    for role in ([], ["--upstream=127.0.0.1:%d" % free_port(), "--drain-timeout=200ms"]):
        holder = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        argv = ["bash", "-c", 'exec 0<&%d; exec "$0" "$@"' % holder.stdout.fileno()]
        with Rdzvd("--exit-with-stdin=on", *role, wrapper=argv, pass_fds=[holder.stdout.fileno()]) as server:
            holder.stdout.close()
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
                client.sendall(HS)
                server.wait_log(r"event=ready ")
                check(server.process.poll() is None, "it has ended too early")
                holder.kill()
                holder.wait()
                server.wait_log(r'event=stopping signal="none: standard input has ended" connections=1')
                check(server.process.wait(20) == 0, "exit code")


@case
def exit_with_stdin_needs_a_pipe():
    done = subprocess.run([rdzvd_binary(), "--listen=127.0.0.1:0", "--exit-with-stdin=on"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    check(done.returncode == 1 and re.search(r"event=stdin_failed .*hint=.*needs a pipe", done.stderr), done.stderr)


@case
def iterations_are_counted_by_their_length():
    with Rdzvd() as server:
        for _ in range(20):
            http_get(server.port, "/livez")
        metrics = http_get(server.port, "/metrics")[1]
        buckets = [int(n) for n in re.findall(r'(?m)^rdzvd_loop_iteration_seconds_bucket\{le="[^"]+"\} (\d+)$', metrics)]
        value = {name: float(re.search(r"(?m)^rdzvd_loop_%s (\S+)$" % name, metrics).group(1))
                 for name in ("iterations_total", "iteration_seconds_count", "iteration_seconds_sum",
                              "iteration_longest_seconds")}
        check(buckets == sorted(buckets) and len(buckets) == 9, metrics)
        check('le="0.01"' in metrics and 'le="+Inf"' in metrics, metrics)
        check(buckets[-1] == value["iteration_seconds_count"], metrics)
        # the present one is not over yet
        check(value["iteration_seconds_count"] == value["iterations_total"] - 1 >= 20, metrics)
        check(0 < value["iteration_longest_seconds"] <= value["iteration_seconds_sum"], metrics)
        check("rdzvd_memory_removed_bytes 0\n" in metrics, metrics)


@case
def dropped_connections_are_counted_by_reason():
    with Rdzvd() as server:
        for data in (HS + b"\x7f", HS + modern.opcode("SET") + length(1 << 40),
                     HS + modern.opcode("WAIT") + length(1 << 40), b"GET / HTTP/9\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as c:
                c.sendall(data)
                c.recv(4096)
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
def the_measurement_of_stalls_runs():
    here = os.path.dirname(os.path.abspath(__file__))
    names = ["list-keys", "many-runs", "controls", "appends", "list-runs"]
    done = subprocess.run(
        [sys.executable, os.path.join(here, "..", "bench", "stall.py"), "--scale", "0.004", *names],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    check(done.returncode == 0, done.stdout)
    for name in names:
        check(re.search(r"(?m)^%s: .*\n    took .*\n    .*\n    others waited: longest [0-9.]+ ms" % name,
                        done.stdout), (name, done.stdout))
    check("not to the end" not in done.stdout, done.stdout)


@case
def a_chunked_body_that_no_endpoint_reads_is_passed_over():
    with Rdzvd() as server:
        chunk = b"400\r\n" + b"x" * 1024 + b"\r\n"
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as c:
            c.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                      + chunk * 200 + b"0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
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
            probe.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
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
            watch.sendall(b"GET /v2/keys/k?wait=true HTTP/1.1\r\nHost: localhost\r\n\r\n")
            check(watch.recv(4096).startswith(b"HTTP/1.1 200"), "the head of a watch")
            check_stays(server, 5, "a watch is open")
        began = time.monotonic()
        server.wait_log(r"event=idle_exit")
        check(time.monotonic() - began > 2.9, "idle begins with the end of the last request")
        check(server.process.wait(20) == 0, "exit code")


# ------------------------------------------------------------ who is answered


def http_head(port, request, host="127.0.0.1"):
    """The status and the header lines of the answer to a request as it stands."""
    with socket.create_connection((host, port), timeout=20) as c:
        c.sendall(request.replace("\n", "\r\n").encode())
        head = b""
        while b"\r\n\r\n" not in head:
            more = c.recv(4096)
            check(more, "the end comes behind %r" % head)
            head += more
    lines = head.split(b"\r\n\r\n")[0].decode().split("\r\n")
    return int(lines[0].split()[1]), lines[1:]


def cors_of(server, origin="http://page:1"):
    head = http_head(server.port, "GET /v2/keys/ HTTP/1.1\nHost: localhost\nOrigin: %s\n\n" % origin)
    check(head[0] == 200, head)
    return [x.partition(": ")[2] for x in head[1] if x.startswith("Access-Control-Allow-Origin: ")]


@case
def web_pages_may_read_answers_only_if_we_say_so():
    with Rdzvd() as server:
        check(cors_of(server) == [], "by default")
        status, head = http_head(server.port, "OPTIONS /v2/keys/ HTTP/1.1\nHost: localhost\n"
                                 "Origin: http://page:1\n\n")
        check(status == 200 and not any("Access-Control" in x for x in head), head)
    with Rdzvd("--cors=*") as server:
        check(cors_of(server) == ["*"], "any")
    with Rdzvd("--cors=http://page:1,http://other:2") as server:
        check(cors_of(server) == ["http://page:1"], "one of a list")
        check(cors_of(server, "http://page:2") == [], "not on the list")
    with started(["--listen", "127.0.0.1:0"], argv0="etcd") as server:
        check(cors_of(server) == ["*"], "as an etcd")
    with started(["--listen", "127.0.0.1:0", "--cors=http://other:2"], argv0="etcd") as server:
        check(cors_of(server) == [], "as an etcd with a list")


@case
def a_name_that_a_web_page_gave_us_is_refused_on_loopback():
    def status(server, host, method="GET"):
        return http_head(server.port, "%s /v2/keys/ HTTP/1.1\nHost: %s\n\n" % (method, host))[0]

    with Rdzvd() as server:
        for host in "127.0.0.1:%d" % server.port, "localhost", "LocalHost:1", "[::1]:2", "10.1.2.3", "":
            check(status(server, host) == 200, host)
        for host in "evil.example", "evil.example:%d" % server.port, "localhost.evil.example":
            for method in "GET", "PUT", "OPTIONS":
                check(status(server, host, method) == 403, host)
        server.wait_log(r"event=refused peer=127\S+ reason=host detail=localhost.evil.example hint=")
        check('rdzvd_refused_total{reason="host"} 9\n' in http_get(server.port, "/metrics")[1], "counted")
    with Rdzvd("--host-whitelist=my.name") as server:
        check(status(server, "my.name:1") == 200 and status(server, "localhost") == 200, "allowed")
        check(status(server, "evil.example") == 421, "etcd's answer")
    with started(["--listen", "*:0", "--host-whitelist=my.name"]) as server:  # a kubelet says the pod's address
        for path, host, wanted in (("/v2/keys/", "localhost", 421), ("/health", "localhost", 421),
                                   ("/livez", "localhost", 200), ("/readyz?verbose", "10.1.2.3:29400", 200),
                                   ("/readyz", "my.name", 200), ("/livez", "evil.example", 421)):
            got = http_head(server.port, "GET %s HTTP/1.1\nHost: %s\n\n" % (path, host))[0]
            check(got == wanted, "%s of %s: %d" % (path, host, got))
        for path in ("/livez", "/readyz"):
            code, out, _ = once("--check-health=localhost:%d%s" % (server.port, path))
            check(code == 0, out)
    for args, argv0 in ((["--listen", "*:0"], "rdzvd"), (["--listen", "127.0.0.1:0"], "etcd")):
        with started(args, argv0=argv0) as server:
            check(status(server, "rdzv.jobs.svc") == 200, "not on loopback alone, or as an etcd")


def http_unix(path, target, method="GET", headers=None):
    c = http.client.HTTPConnection("localhost", timeout=20)
    c.sock = socket.socket(socket.AF_UNIX)
    c.sock.settimeout(20)
    c.sock.connect(path)
    c.request(method, target, headers=headers or {})
    answer = c.getresponse()
    text = answer.read().decode()
    c.close()
    return answer.status, text


HERE = "/rdzv/v1/spaces/default"


@case
def only_operators_change_things():
    with Rdzvd() as server:  # neither a socket nor a token: nobody
        for headers in {}, OPERATOR:
            status, text = http_get(server.port, HERE, "DELETE", headers=headers)
            check(status == 403 and "--admin-token-file" in text, text)
            check(http_get(server.port, HERE + "/runs/x", "DELETE", headers=headers)[0] == 403, "run")
            check(http_get(server.port, "/config/local/log", "PUT", headers=headers)[0] == 403, "log")
        server.wait_log(r"event=refused peer=127\S+ reason=operator detail=/rdzv/v1/\S+ hint=")
        check('rdzvd_refused_total{reason="operator"} 6\n' in http_get(server.port, "/metrics")[1],
              "counted")


@case
def a_token_makes_an_operator():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "token")
        addresses = ("127.0.1.%d" % n for n in range(1, 255))

        def status(text):
            """By a client that has sent no wrong token before."""
            c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20, source_address=(next(addresses), 0))
            c.request("DELETE", HERE, headers={} if text is None else {"Authorization": text})
            code = c.getresponse().status
            c.close()
            return code

        with Rdzvd("--admin-token-file=" + path) as server:
            server.wait_log(r"event=token_unreadable setting=--admin-token-file file=%s reason=.*No such file" % path)
            check(status("Bearer ") == 403, "no file")
            with open(path, "w", encoding="ascii") as f:
                f.write("first \n\n")
            for wrong in (None, "Bearer ", "Bearer", "Bearer firs", "Bearer firsT",
                          "Bearer firstfirst", "Basic first", "first", "Bearer second"):
                check(status(wrong) == 403, wrong)
            check(status("Bearer first") == 200 and status("bearer first") == 200, "the token")
            level = http_get(server.port, "/config/local/log", "PUT", body='{"Level":"DEBUG"}',
                             headers={"Authorization": "Bearer first"})
            check(level == (204, ""), level)
            server.wait_log(r"event=log_level level=DEBUG")
            with open(path, "w", encoding="ascii") as f:
                f.write("second")
            check(status("Bearer first") == 403 and status("Bearer second") == 200, "read anew")
            with open(path, "w", encoding="ascii") as f:
                f.write("\n")
            check(status("Bearer ") == 403, "an empty token is none")
            os.remove(path)
            os.mkfifo(path)
            check(status("Bearer x") == 403, "a pipe without a writer holds nothing up")


@case
def only_readers_read():
    """With --read-token-file, probes, metrics and etcd's API need no token, as before."""
    with tempfile.TemporaryDirectory() as folder:
        tokens = {name: os.path.join(folder, name) for name in ("read", "admin")}
        for name, path in tokens.items():
            with open(path, "w", encoding="ascii") as f:
                f.write("the-%s-token\n" % name)

        def ask(port, path, token=None, method="GET"):
            return http_get(port, path, method, headers={"Authorization": "Bearer the-%s-token" % token} if token else {})
        with Rdzvd("--read-token-file=" + tokens["read"], "--admin-token-file=" + tokens["admin"]) as server:
            for path in "/rdzv/v1/status", "/rdzv/v1/spaces", HERE + "/status":
                status, text = ask(server.port, path)
                check(status == 403 and "--read-token-file" in text, text)
                check(ask(server.port, path, "read")[0] == 200, "%s, of a reader" % path)
                check(ask(server.port, path, "admin")[0] == 200, "%s, of an operator" % path)
            for path in "/livez", "/readyz", "/health", "/metrics", "/version", "/v2/keys/", "/":
                check(ask(server.port, path)[0] == 200, path)
            check(ask(server.port, HERE, "read", "DELETE")[0] == 403, "a change, of a reader")
            check(ask(server.port, HERE, "admin", "DELETE")[0] == 200, "a change, of an operator")
            for _ in range(10):  # it is no wrong token, whatever it is asked for
                check(ask(server.port, "/rdzv/v1/spaces", "read")[0] == 200, "a reader that asks often")
            server.wait_log(r"event=refused peer=127\S+ reason=reader detail=/rdzv/v1/status hint=")
            for _ in range(5):
                check(ask(server.port, "/rdzv/v1/status", "wrong")[0] == 403, "a wrong token")
            status, text = ask(server.port, "/rdzv/v1/status", "read")
            check(status == 403 and "wait" in text, text)
        with Rdzvd("--read-token-file=" + tokens["read"], "--admin-token-file=" + tokens["admin"]) as server:
            os.rename(tokens["admin"], tokens["admin"] + ".away")
            for _ in range(10):  # it may be right, so it does not count
                status, text = ask(server.port, HERE, "admin", "DELETE")
                check(status == 403 and "cannot be read" in text, text)
            check(ask(server.port, "/rdzv/v1/status", "read")[0] == 200, "a reader meanwhile")
            os.rename(tokens["admin"] + ".away", tokens["admin"])
            check(ask(server.port, HERE, "admin", "DELETE")[0] == 200, "the file is back")
            status, text = ask(server.port, "/rdzv/v1/status", "other")
            check(status == 403 and "neither" in text, text)
        with Rdzvd("--read-token-file=" + tokens["read"]) as server:
            check(ask(server.port, "/rdzv/v1/status", "read")[0] == 200, "without a token of operators")
            status, text = ask(server.port, "/rdzv/v1/status", "admin")
            check(status == 403 and "is not that of --read-token-file" in text, text)
            check(ask(server.port, HERE, "read", "DELETE")[0] == 403, "there are no operators")


@case
def wrong_tokens_have_to_wait():
    with Rdzvd(token_flag()) as server:
        def status(headers):
            return http_get(server.port, HERE, "DELETE", headers=headers)[0]

        for _ in range(5):
            check(status({"Authorization": "Bearer wrong"}) == 403, "wrong")
        server.wait_log(r"event=refused .*reason=token")
        status_now, text = http_get(server.port, HERE, "DELETE", headers=OPERATOR)
        check(status_now == 403 and "wait" in text, text)
        server.wait_log(r"event=refused .*reason=backoff")
        check(status({}) == 403 and http_get(server.port, "/v2/keys/")[0] == 200, "others go on")
        deadline = time.monotonic() + 20
        while status(OPERATOR) != 200:
            check(time.monotonic() < deadline, "waits for ever")


@case
def a_listener_shows_its_own_space_alone():
    def see(port, headers):
        names = [x["name"] for x in json.loads(http_get(port, "/rdzv/v1/spaces", headers=headers)[1])["spaces"]]
        metrics = http_get(port, "/metrics", headers=headers)[1]
        labels = sorted(set(re.findall(r'space="(\w+)"', metrics)))
        runs = [http_get(port, "/rdzv/v1/spaces/%s/status" % s, headers=headers)[0] for s in ("a", "b")]
        return names, labels, runs, "process_open_fds" in metrics and "rdzvd_requests_total" in metrics

    metrics_port = free_port()
    with started([token_flag(), "--listen", "127.0.0.1:0/a", "--listen", "127.0.0.1:0/b",
                  "--listen-metrics-urls", "http://127.0.0.1:%d" % metrics_port],
                 listeners=3) as server:
        a, b = server.ports[:2]
        check(see(a, {}) == (["a"], ["a"], [200, 404], True), see(a, {}))
        check(see(b, {}) == (["b"], ["b"], [404, 200], False), see(b, {}))
        wrong = {"Authorization": "Bearer wrong"}
        check(see(b, wrong) == see(b, {}), "a wrong token")
        for port in a, b:
            every = see(port, OPERATOR)
            check(every == (["a", "b", "default"], ["a", "b", "default"], [200, 200], True), every)
        metrics = http_get(metrics_port, "/metrics")[1]
        check('rdzvd_space_keys{space="b"}' in metrics and "process_open_fds" in metrics, metrics)


@case
def a_unix_socket_is_for_operators():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rdzvd.sock")
        with started(["--listen", "127.0.0.1:0", "--listen", "unix:" + path]) as server:
            server.wait_log(r"event=listening address=unix:%s space=default" % re.escape(path))
            check(os.stat(path).st_mode & 0o777 == 0o600, "for its owner alone")
            a = Peer(server.port)
            a.add(b"/n", 1)
            check(http_unix(path, "/livez") == (200, "ok\n"), "a probe")
            status, text = http_unix(path, HERE, "DELETE", {"Host": "any.name"})
            check(status == 200 and json.loads(text)["removed"] == 1 and a.count() == 0, text)
            server.wait_log(r"event=space_reset .*peer=unix")
            check(http_unix(path, HERE, "DELETE", {"Origin": "http://page"})[0] == 403, "a page")
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(path)
                s.sendall(HS)
                check(s.recv(1) == b"", "HTTP alone")
            server.wait_log(r"event=dropped peer=unix .*HTTP alone")
            check(server.stop() == 0 and not os.path.exists(path), "the file goes with the daemon")


@case
def a_unix_socket_is_taken_only_from_the_dead():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rdzvd.sock")
        args = ["--listen", "127.0.0.1:0", "--listen", "unix:" + path]
        with started(args) as server:
            code, _, err = once(*args)
            check(code == 1 and "another process serves this socket" in err, err)
            check(http_unix(path, "/livez")[0] == 200, "serves on")
            server.stop(signal.SIGKILL)
        check(os.path.exists(path), "left over")
        with started(args) as server:
            check(http_unix(path, "/livez")[0] == 200, "taken over")
            os.remove(path)
            with socket.socket(socket.AF_UNIX) as other:
                other.bind(path)
                check(server.stop() == 0 and os.path.exists(path), "another's file stays")
        os.remove(path)
        with open(path, "w", encoding="ascii") as f:
            f.write("precious")
        code, _, err = once(*args)
        check(code == 1 and "no socket" in err and os.path.getsize(path) == 8, err)
        code, _, err = once("--listen", "unix:" + os.path.join(folder, "none", "s"))
        check(code == 1 and "hint=" in err, err)


def own_address():
    """An address of this machine outside loopback, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))  # sends nothing
            return s.getsockname()[0]
        except OSError:
            return None


@case
def there_are_no_users():
    """As an etcd that has none, except that a change is refused."""
    with Rdzvd() as server:
        for path, body in (("/v2/auth/users/root", '{"user":"root","password":"p"}'), ("/v2/auth/enable", None),
                           ("/v2/auth/roles/r", '{"role":"r"}')):
            for method in "PUT", "DELETE":
                status, text = http_get(server.port, path, method, body=body)
                check(status == 403 and "has no users" in text and "--client-ca" in text, text)
        check(http_get(server.port, "/v2/auth/enable") == (200, '{"enabled":false}\n'), "the switch")
        check(http_get(server.port, "/v2/auth/users") == (200, '{"users":null}\n'), "users")
        for text in "Basic cm9vdDpwdw==", "Basic !", "Bearer x", "":
            check(http_get(server.port, "/v2/keys/", headers={"Authorization": text})[0] == 200, text)


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
            server.wait_log(r"event=recovered")
            check(server.stop() == 0, "exit code")


@case
def advertised_urls_are_what_clients_are_told():
    # python-etcd repeats a request whose connection broke at another URL that it was told; two for
    # one rdzvd are enough.
    urls = ["http://127.0.0.1:7", "http://localhost:7"]
    with Rdzvd("--advertise-client-urls=" + ",".join(urls)) as server:
        told = http_get(server.port, "/v2/machines")[1].split(", ")
        check(told == ["http://127.0.0.1:%d" % server.port] + urls, told)
        member = json.loads(http_get(server.port, "/v2/members")[1])["members"][0]
        check(member["clientURLs"] == urls, member)
    with Rdzvd() as server:  # else the name that the client used
        told = http_get(server.port, "/v2/machines")[1]
        check(told == "http://127.0.0.1:%d" % server.port, told)


@case
def manifests_of_etcd_start_it():
    port = free_port()
    url = "http://127.0.0.1:%d" % port
    # As in torchelastic's Kubernetes samples, and the usual single-node StatefulSet.
    data = tempfile.TemporaryDirectory()  # /var/lib/etcd there
    lines = [
        ["--data-dir", data.name, "--enable-v2", "--listen-client-urls", url,
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
    data.cleanup()


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
def check_health_asks_what_listens_on_loopback():
    def asked(address):
        code, out, err = once("--check-health=" + address)
        check(err == "" and out.count("\n") == 1, (out, err))
        return code, out

    with Rdzvd("--listen=127.0.0.1:0") as server:
        for host in ("127.0.0.1", "localhost"):  # whose ::1 does not answer
            code, out = asked("%s:%d/livez" % (host, server.port))
            check(code == 0 and "/livez answers 200" in out, out)
            for query in ("", "?verbose", "?exclude=store&exclude=loop"):
                code, out = asked("%s:%d/readyz%s" % (host, server.port, query))
                check(code == 0 and "/readyz%s answers 200" % query in out, out)
        port = server.port
    code, out = asked("localhost:%d/livez" % port)
    check(code == 1 and "refused" in out, out)
    for address in ("localhost", "localhost:1", ":29400/livez", "localhost:/livez", "localhost:a/livez", "[]:1/livez",
                    "x" * 300 + ":1/livez", "a:1/b c", "a/b:1", "a:1?b", "a:1/" + "b" * 500):
        code, out = asked(address)
        check(code == 1 and "HOST:PORT/PATH" in out, out)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = "127.0.0.1:%d/livez" % other.getsockname()[1]
        code, out = asked(address)  # it accepts, as every kernel does, and says nothing
        check(code == 1 and "timed out" in out, out)
        other.accept()[0].close()
        for answer, says in ((b"HTTP/1.1 503 No\r\n\r\n", "503"), (b"SSH-2.0-OpenSSH_9.2\r\n", "rotocol"),
                             (b"HTTP/1.1 ", "reset"), (b"", "reset")):
            def serve(said=answer):
                with other.accept()[0] as peer:
                    if peer.recv(4096).startswith(b"GET /livez HTTP/1.1\r\n"):
                        peer.sendall(said)
            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            code, out = asked(address)
            check(code == 1 and says in out, (answer, out))
            thread.join(20)


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


def shake(port, host):
    """A c10d client's connection; None when the daemon has ended it."""
    s = socket.create_connection((host, port), timeout=20)
    try:
        s.sendall(HS)
        if s.recv(4) == HS[6:]:
            return s
    except ConnectionError:
        pass
    s.close()
    return None


def fill(port, host, most):
    """Opens connections until rdzvd refuses one; fails after `most` connections."""
    held = []
    for _ in range(most):
        s = shake(port, host)
        if s is None:
            return held
        held.append(s)
    raise AssertionError("all of %d were let in" % most)


PROBES = ("/health", "/livez", "/readyz", "/metrics")


def with_descriptors(count, *args):
    script = 'ulimit -n %d; exec "$0" "$@"' % count
    server = Server(["/bin/bash", "-c", script, rdzvd_binary(), *args])
    server.port = int(server.wait_log(r"event=listening address=\S+:(\d+)")[0].group(1))
    server.wait_log(r"event=ready")
    return server


@case
def descriptors_that_run_out_are_survived():
    # Of 64 descriptors, 16 are kept: 10 for loopback, 4 for probes, 2 for the daemon itself.
    address = own_address()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "s")
        with with_descriptors(64, "--listen", "*:0", "--listen", "unix:" + path) as server:
            def check_probes(host):
                for probe in PROBES:
                    check(http_get(server.port, probe, host=host)[0] == 200, (host, probe))

            held = []
            if address is not None:
                held += fill(server.port, address, 64)
                check(len(held) >= 20, len(held))
                check_probes(address)
                status, text = http_get(server.port, "/v2/keys/", host=address)
                check(status == 503 and "takes only probes" in text, text)
                # Those who say nothing are in nobody's way.
                silent = [socket.create_connection((address, server.port)) for _ in range(40)]
                check_probes(address)
                check(http_get(server.port, "/v2/keys/")[0] == 200, "loopback")
                server.wait_log(r"event=refused peer=%s:\d+ reason=descriptors hint=.*ulimit" % address)
                for s in silent:
                    s.close()
            held += fill(server.port, "127.0.0.1", 64)
            check_probes("127.0.0.1")
            check(http_get(server.port, "/v2/keys/")[0] == 503, "loopback has filled its part")
            if address is not None:
                check_probes(address)
            check(http_unix(path, HERE, "DELETE")[0] == 200, "an operator")
            metrics = http_unix(path, "/metrics")[1]
            check(re.search(r'rdzvd_refused_total{reason="descriptors"} [1-9]', metrics), metrics)
            check(re.search(r"process_open_fds \d+", metrics), "the daemon's own")
            check("event=accept_failed" not in server.log(), "accepting never failed")
            for s in held:
                s.close()
            deadline = time.monotonic() + 20
            while True:
                s = shake(server.port, address or "127.0.0.1")
                if s is not None:
                    break
                check(time.monotonic() < deadline, "no place for 20 s")
            s.close()
            check(server.stop() == 0, "exit code")


@case
def the_limit_of_connections():
    with Rdzvd("--connection-limit", "2") as server:
        a, b = Peer(server.port), Peer(server.port)
        check(shake(server.port, "127.0.0.1") is None, "the third is refused")
        server.wait_log(r"event=refused .*reason=connections .*--connection-limit")
        silent = [socket.create_connection(("127.0.0.1", server.port), timeout=20) for _ in range(9)]
        check(silent[0].recv(1) == b"", "one more than are waited for")
        for probe in PROBES:
            check(http_get(server.port, probe)[0] == 200, probe)
        check(http_get(server.port, "/v2/keys/")[0] == 503, "no probe")
        check(http_get(server.port, "/health", "PUT")[0] == 503, "no probe either")
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as c:
            c.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
            got = b""
            while more := c.recv(4096):
                got += more
            check(got.count(b"HTTP/1.1 200") == 1 and b"Connection: close" in got, got)
        for s in silent:
            s.close()
        a.close()
        deadline = time.monotonic() + 20
        while shake(server.port, "127.0.0.1") is None:  # until the daemon has seen the close
            check(time.monotonic() < deadline, "no place for 20 s")
        b.close()


@case
def a_pause_of_the_process_drops_no_one():
    """It is stopped for longer than --request-timeout. Meanwhile some go on, and one does not."""
    value = os.urandom(8 << 20)
    put = (b"PUT /v2/keys/paused HTTP/1.1\r\nHost: localhost\r\nContent-Length: 7\r\n"
           b"Content-Type: application/x-www-form-urlencoded\r\n\r\nvalue=v")
    with Rdzvd("--request-timeout=1s") as server:
        halves = [Peer(server.port) for _ in range(50)]
        waiter, reader, stalled = Peer(server.port), Peer(server.port), Peer(server.port)
        http = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        reader.set(b"large", value)
        waiter.wait(b"/0")
        reader.send(modern.get(b"large"))  # and it does not read
        check(reader.take(8) == length(len(value)), "its answer has begun")
        for i, half in enumerate(halves):
            half.send(modern.set(b"/%d" % i, b"v")[:-1])
        stalled.send(modern.opcode("SET"))
        http.sendall(put[:-3])
        check(http_get(server.port, "/health")[0] == 200, "all of that has been read")
        server.process.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        time.sleep(0.5)
        for half in halves:
            half.send(b"v" + modern.count())  # the rest, and one more request
        http.sendall(put[-3:])
        got = reader.take(100000)
        time.sleep(3)
        server.process.send_signal(signal.SIGCONT)
        resumed = time.monotonic()
        check(got + reader.take(len(value) - len(got)) == value, "all of its answer")
        for half in halves:
            check(1 < half.number() <= len(halves) + 1, "carried out")
        waiter.expect_stop_waiting()
        check(b" 201 Created" in http.recv(4096), "the rest of its request is read")
        check(stalled.socket.recv(1) == b"", "the one that does not go on is dropped")
        check(time.monotonic() - resumed < 3, "within its time")
        gap = int(server.wait_log(r"event=resumed paused_ms=(\d+)")[0].group(1))
        check(3000 < gap <= 1000 * (resumed - stopped) + 1500, gap)
        server.wait_log(r"event=dropped .*")
        dropped = re.findall(r"event=dropped .*", server.log())
        check(len(dropped) == 1, dropped)


if __name__ == "__main__":
    sys.exit(cases.run("tests/process/run.py"))
