"""rdzvd in place of an etcd, its settings, the log, systemd, probes, and limits of the system."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from c10d import Peer, length, modern
from cases import case, check
from daemon import HS, SPACE, once, http_get, http_unix, own_address, started
from servers import Rdzvd, Server, free_port, rdzvd_binary


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
def check_config_looks_at_the_machine():
    with tempfile.TemporaryDirectory() as folder:
        file, data = os.path.join(folder, "file"), os.path.join(folder, "data")
        with open(file, "w", encoding="utf-8") as f:
            f.write("no certificate\n")
        code, out, err = once("--check-config", "--data-dir", data, "--admin-token-file", file)
        check(code == 0 and out.startswith("# configuration ok\n") and err == "", out + err)
        check(os.listdir(folder) == ["file"], "it has made something")
        for flags, wanted in ((["--data-dir", data + "/deep/"], r"data_dir_failed .*reason=\"No such file or "
                               r"directory\" detail=%s/\." % data),
                              (["--data-dir", file], r"data_dir_failed .*reason=\"Not a directory\""),
                              (["--cert", file, "--key", file], r"certificate_failed setting=--cert .*hint="),
                              (["--upstream=a:1", "--upstream-ca", data], r"certificate_failed setting=--upstream-ca"),
                              (["--memory-limit=900TiB"], r"memory_limit bytes=\d+ .*above the memory of this")):
            code, out, err = once("--check-config", *flags)
            check(code == 1 and re.search("level=error event=" + wanted, err) and
                  out.startswith("# this machine lacks") and "\nlisten:" in out, "%s: %d %s%s" % (flags, code, out, err))
        code, out, err = once("--listen=127.0.0.1:0", "--data-dir", data + "/deep")
        check(code == 1 and 'detail="make the folder above it first"' in err, err)
        code, out, err = once("--check-config", "--read-token-file", data)
        check(code == 0 and "event=token_unreadable setting=--read-token-file" in err, out + err)


@case
def variables_are_read_like_flags():
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, RDZVD_LISTEN="127.0.0.1:%d" % port, RDZVD_DATA_DIR=folder, RDZVD_LOG_LEVL="debug",
                   RDZVD_PORT="tcp://10.0.0.1:29400", RDZVD_SERVICE_HOST="10.0.0.1")
        with started([], env=env) as server:
            check(http_get(port, "/livez")[0] == 200, "it listens elsewhere")
            server.wait_log(r"event=config_warning flag=RDZVD_LOG_LEVL .*did you mean RDZVD_LOG_LEVEL")
            server.wait_log(r"event=recovered data_dir=%s" % folder)
            check("RDZVD_PORT" not in server.log() and "SERVICE" not in server.log(), server.log())
    code, _, err = once(env=dict(os.environ, RDZVD_EXPECT="two"))
    check(code == 2 and err.startswith("rdzvd: RDZVD_EXPECT: "), err)


@case
def a_flag_of_etcd_that_changes_the_role_is_named():
    code, out, err = once("--debug", "--check-config")
    check(code == 0 and "# warning: --debug: is a setting of etcd's, so rdzvd serves as an etcd" in out, out + err)


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
            check('"name":"jobA"' in http_get(port, "/rdzv/v1/status")[1], "in the space of its name")
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
            check(http_unix(path, SPACE, "DELETE")[0] == 200, "an operator")
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
