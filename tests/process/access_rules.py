"""Which requests rdzvd answers: web pages, host names, operators, readers, Unix sockets."""

import http.client
import json
import os
import re
import signal
import socket
import tempfile
import time

from c10d import Peer
from cases import case, check
from daemon import HS, SPACE, once, http_get, http_unix, started
from servers import OPERATOR, Rdzvd, free_port, token_flag


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


@case
def only_operators_change_things():
    with Rdzvd() as server:  # neither a socket nor a token: nobody
        for headers in {}, OPERATOR:
            status, text = http_get(server.port, SPACE, "DELETE", headers=headers)
            check(status == 403 and "--admin-token-file" in text, text)
            check(http_get(server.port, SPACE + "/runs/x", "DELETE", headers=headers)[0] == 403, "run")
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
            c.request("DELETE", SPACE, headers={} if text is None else {"Authorization": text})
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
            for path in "/rdzv/v1/status", SPACE + "/status":
                status, text = ask(server.port, path)
                check(status == 403 and "--read-token-file" in text, text)
                check(ask(server.port, path, "read")[0] == 200, "%s, of a reader" % path)
                check(ask(server.port, path, "admin")[0] == 200, "%s, of an operator" % path)
            for path in "/livez", "/readyz", "/health", "/metrics", "/version", "/v2/keys/", "/":
                check(ask(server.port, path)[0] == 200, path)
            check(ask(server.port, SPACE, "read", "DELETE")[0] == 403, "a change, of a reader")
            check(ask(server.port, SPACE, "admin", "DELETE")[0] == 200, "a change, of an operator")
            for _ in range(10):  # it is no wrong token, whatever it is asked for
                check(ask(server.port, "/rdzv/v1/status", "read")[0] == 200, "a reader that asks often")
            server.wait_log(r"event=refused peer=127\S+ reason=reader detail=/rdzv/v1/status hint=")
            for _ in range(5):
                check(ask(server.port, "/rdzv/v1/status", "wrong")[0] == 403, "a wrong token")
            status, text = ask(server.port, "/rdzv/v1/status", "read")
            check(status == 403 and "wait" in text, text)
        with Rdzvd("--read-token-file=" + tokens["read"], "--admin-token-file=" + tokens["admin"]) as server:
            os.rename(tokens["admin"], tokens["admin"] + ".away")
            for _ in range(10):  # it may be right, so it does not count
                status, text = ask(server.port, SPACE, "admin", "DELETE")
                check(status == 403 and "cannot be read" in text, text)
            check(ask(server.port, "/rdzv/v1/status", "read")[0] == 200, "a reader meanwhile")
            os.rename(tokens["admin"] + ".away", tokens["admin"])
            check(ask(server.port, SPACE, "admin", "DELETE")[0] == 200, "the file is back")
            status, text = ask(server.port, "/rdzv/v1/status", "other")
            check(status == 403 and "neither" in text, text)
        with Rdzvd("--read-token-file=" + tokens["read"]) as server:
            check(ask(server.port, "/rdzv/v1/status", "read")[0] == 200, "without a token of operators")
            status, text = ask(server.port, "/rdzv/v1/status", "admin")
            check(status == 403 and "is not that of --read-token-file" in text, text)
            check(ask(server.port, SPACE, "read", "DELETE")[0] == 403, "there are no operators")


@case
def wrong_tokens_have_to_wait():
    with Rdzvd(token_flag()) as server:
        def status(headers):
            return http_get(server.port, SPACE, "DELETE", headers=headers)[0]

        for _ in range(5):
            check(status({"Authorization": "Bearer wrong"}) == 403, "wrong")
        server.wait_log(r"event=refused .*reason=token")
        status_now, text = http_get(server.port, SPACE, "DELETE", headers=OPERATOR)
        check(status_now == 403 and "wait" in text, text)
        server.wait_log(r"event=refused .*reason=backoff")
        check(status({}) == 403 and http_get(server.port, "/v2/keys/")[0] == 200, "others go on")
        deadline = time.monotonic() + 20
        while status(OPERATOR) != 200:
            check(time.monotonic() < deadline, "waits for ever")


@case
def a_listener_shows_its_own_space_alone():
    def see(port, headers):
        names = [x["name"] for x in json.loads(http_get(port, "/rdzv/v1/status", headers=headers)[1])["spaces"]]
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
            status, text = http_unix(path, SPACE, "DELETE", {"Host": "any.name"})
            check(status == 200 and json.loads(text)["removed"] == 1 and a.count() == 0, text)
            server.wait_log(r"event=space_reset .*peer=unix")
            check(http_unix(path, SPACE, "DELETE", {"Origin": "http://page"})[0] == 403, "a page")
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
