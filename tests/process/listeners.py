"""Signals, the end, listeners, spaces, and when rdzvd counts as used."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time

from c10d import Peer, blob, length, modern
from cases import case, check
from daemon import HS, SPACE, once, http_get, started
from servers import OPERATOR, Rdzvd, free_port, rdzvd_binary, token_flag


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
        for path in ("/rdzv/v1/status?watch=true", "/rdzv/v1/monitor", SPACE + "/status?watch=true"):
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
                             (b"\x16\3\1\0\x40", "use http:// there")):
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as s:
                s.sendall(data)
                server.wait_log(r"event=(dropped|refused) peer=%s:%d .*(reason|detail)=.*%s"
                                % (*s.getsockname(), re.escape(reason)))


def etcdctl_v3(*words):
    done = subprocess.run(["etcdctl", *words], env={**os.environ, "ETCDCTL_API": "3"}, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@case
def a_client_of_etcds_v3_api_learns_which_api_this_is():
    with Rdzvd() as server, Rdzvd("--upstream=127.0.0.1:%d" % server.port) as relay:
        for port in (server.port, relay.port):
            for words in (["get", "a"], ["put", "a", "b"], ["watch", "a"], ["endpoint", "status"]):
                code, said = etcdctl_v3("--endpoints=127.0.0.1:%d" % port, *words)
                check(code != 0 and "code = Unimplemented" in said and "ETCDCTL_API=2" in said, said)
        check("event=dropped" not in server.log(), "their connections are sound")


@case
def frames_of_http2_are_answered_however_they_are_cut():
    headers = b"\0\0\1\1\4\0\0\0\7x"
    frames = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\6\4\0\0\0\0\0\0\3\0\0\0\1" + headers
    frames += b"\0\0\5\0\1\0\0\0\7abcde" + b"\0\0\0\4\1\0\0\0\0" + b"\0\0\x08\6\0\0\0\0\0PINGPING"
    with Rdzvd() as server:
        got = []
        for step in (1, 7, len(frames)):
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as s:
                for at in range(0, len(frames), step):
                    s.sendall(frames[at:at + step])
                s.shutdown(socket.SHUT_WR)
                got.append(b"".join(iter(lambda: s.recv(4096), b"")))
        check(got[0] == got[1] == got[2], got)
        check(got[0].startswith(b"\0\0\0\4\0\0\0\0\0" b"\0\0\0\4\1\0\0\0\0"), "SETTINGS, and its answer")
        check(b"\1\5\0\0\0\7\x88" in got[0] and got[0].endswith(b"\6\1\0\0\0\0PINGPING"), got[0])
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as s:
            s.sendall(frames[:24] + b"\0\x40\1\0\0\0\0\0\1")
            server.wait_log(r"event=dropped .*a long frame of HTTP/2")


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
