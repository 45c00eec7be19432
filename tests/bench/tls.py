#!/usr/bin/env python3
"""What TLS costs rdzvd: its own CPU for a request, with and without, and for a handshake.

    tls.py [--rounds N] [--beside-nginx] [RDZVD]

RDZVD is a daemon built with --buildtype=release ($RDZVD, else the one in build/). Clients of c10d, 32
connections in lock step, ask for ADDs, within TLS 1.3 and in plain text by turns; then 1,000 clients come
for one ADD each, with a certificate of P-256, and half of them resume a session. CPU is that of the
process, from the kernel's books. Figures are the lowest of the rounds. Nothing here passes or fails.

--beside-nginx measures an nginx (which has to be installed) with the same certificate and the same shared
OpenSSL by turns with rdzvd: clients that connect for one small answer over HTTP each, small answers one
after the other on one connection, and answers of 1 MiB, which nginx reads from a file and rdzvd has as a key.
Ratios are rdzvd's rate to nginx's, per second of CPU.
"""

import argparse
import contextlib
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "elastic")]

from c10d import modern  # noqa: E402
import certs    # noqa: E402
import servers  # noqa: E402

CONNECTIONS, EXCHANGES, CLIENTS = 32, 600, 500
ADD = modern.add(b"/default_pg/0//worker/000000", 1)


def cpu_us(daemon):
    with open("/proc/%d/schedstat" % daemon.pid, encoding="ascii") as f:
        return int(f.read().split()[0]) / 1000


def dial(daemon, context, session=None):
    s = socket.create_connection(("127.0.0.1", daemon.port), timeout=60)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if context:
        s = context.wrap_socket(s, server_hostname="localhost", session=session)
    s.sendall(modern.validate() + ADD)
    take(s)
    return s


def take(s):
    got = 0
    while got < 8:
        got += len(s.recv(8 - got))


def per_add(daemon, context):
    all_of_them = [dial(daemon, context) for _ in range(CONNECTIONS)]
    before = cpu_us(daemon)
    for _ in range(EXCHANGES):
        for s in all_of_them:
            s.sendall(ADD)
        for s in all_of_them:
            take(s)
    spent = cpu_us(daemon) - before
    for s in all_of_them:
        s.close()
    return spent / (CONNECTIONS * EXCHANGES)


def per_client(daemon, context, resumes=False):
    session = None
    if resumes:
        first = dial(daemon, context)
        session = first.session
        first.close()
    before = cpu_us(daemon)
    for _ in range(CLIENTS):
        dial(daemon, context, session).close()
    return (cpu_us(daemon) - before) / CLIENTS


# --- Beside nginx.

MIB = 1 << 20
SMALL = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
ANSWERS, LARGE_ANSWERS = 5000, 200
VERSION = '{"etcdserver":"3.4.23","etcdcluster":"3.4.0"}'

NGINX = """
daemon off;
master_process off;
pid %(folder)s/pid;
error_log %(folder)s/log;
events { worker_connections 1000; }
http {
    access_log off;
    keepalive_requests 1000000;
    client_body_temp_path %(folder)s/a;
    proxy_temp_path %(folder)s/b;
    fastcgi_temp_path %(folder)s/c;
    uwsgi_temp_path %(folder)s/d;
    scgi_temp_path %(folder)s/e;
    server {
        listen 127.0.0.1:%(port)d ssl;
        ssl_certificate %(cert)s;
        ssl_certificate_key %(key)s;
        ssl_session_cache shared:one:1m;
        ssl_protocols TLSv1.2 TLSv1.3;
        root %(folder)s;
        location = /version { default_type application/json; return 200 '%(version)s'; }
    }
}
"""


class Nginx:
    def __init__(self, process, port):
        self.process, self.pid, self.port = process, process.pid, port


@contextlib.contextmanager
def nginx(cert, key):
    port = servers.free_port()
    with tempfile.TemporaryDirectory(prefix="rdzv-nginx-") as folder:
        with open(os.path.join(folder, "large"), "wb") as f:
            f.write(os.urandom(MIB))
        path = os.path.join(folder, "conf")
        with open(path, "w", encoding="ascii") as f:
            f.write(NGINX % {"folder": folder, "port": port, "cert": cert, "key": key, "version": VERSION})
        os.chmod(folder, 0o755)
        process = subprocess.Popen(["nginx", "-p", folder, "-c", path])
        try:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    if process.poll() is not None:
                        sys.exit("nginx does not start")
                    time.sleep(0.01)
            yield Nginx(process, port)
        finally:
            process.terminate()
            process.wait()


def connect(server, context, session=None):
    s = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context.wrap_socket(s, server_hostname="localhost", session=session)


def take_http(s):
    """An answer: its body's length."""
    got = b""
    while b"\r\n\r\n" not in got:
        got += s.recv(1 << 16)
    head, got = got.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 200"), head
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n")
                  if line.lower().startswith(b"content-length:"))
    left = length - len(got)
    while left > 0:
        left -= len(s.recv(min(left, 1 << 16)))
    return length


def per_http_client(server, context, resumes=False):
    session = None
    if resumes:
        s = connect(server, context)
        s.sendall(SMALL)
        take_http(s)
        session = s.session
        s.close()
    before = cpu_us(server)
    for _ in range(CLIENTS):
        s = connect(server, context, session)
        s.sendall(SMALL)
        take_http(s)
        assert s.session_reused == resumes
        s.close()
    return (cpu_us(server) - before) / CLIENTS


def per_answer(server, context):
    s = connect(server, context)
    before = cpu_us(server)
    for _ in range(ANSWERS):
        s.sendall(SMALL)
        take_http(s)
    spent = cpu_us(server) - before
    s.close()
    return spent / ANSWERS


def per_mib_of_nginx(server, context):
    s = connect(server, context)
    before = cpu_us(server)
    for _ in range(LARGE_ANSWERS):
        s.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert take_http(s) == MIB
    spent = cpu_us(server) - before
    s.close()
    return spent / LARGE_ANSWERS


def per_mib(daemon, context):
    s = connect(daemon, context)
    s.sendall(modern.validate() + modern.set(b"large", os.urandom(MIB)) + modern.add(b"n", 1))
    take(s)
    before = cpu_us(daemon)
    for _ in range(LARGE_ANSWERS):
        s.sendall(modern.get(b"large"))
        left = 8 + MIB
        while left > 0:
            left -= len(s.recv(min(left, 1 << 16)))
    spent = cpu_us(daemon) - before
    s.close()
    return spent / LARGE_ANSWERS


def beside_nginx(daemon, context, cert, key, rounds):
    lowest = {}
    with nginx(cert, key) as other:
        for _ in range(rounds):
            for name, ours, theirs in (
                    ("client with one small answer", per_http_client, per_http_client),
                    ("the same, resumed", *[lambda s, c: per_http_client(s, c, True)] * 2),
                    ("small answer", per_answer, per_answer), ("answer of 1 MiB", per_mib, per_mib_of_nginx)):
                was = lowest.get(name, (1e9, 1e9))
                lowest[name] = (min(was[0], ours(daemon, context)), min(was[1], theirs(other, context)))
    for name, (ours, theirs) in lowest.items():
        print("%-34s rdzvd %8.2f us of CPU, nginx %8.2f: %.2f x its rate" % (name, ours, theirs, theirs / ours))


# --- All of it.

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside-nginx", action="store_true")
    parser.add_argument("rdzvd", nargs="?", default=servers.rdzvd_binary())
    options = parser.parse_args()
    ca = certs.Ca()
    cert, key = ca.issue()
    context = ssl.create_default_context(cafile=ca.pem)
    lowest = {}
    with servers.Rdzvd("--cert=" + cert, "--key=" + key, binary=options.rdzvd) as daemon:
        if options.beside_nginx:
            beside_nginx(daemon, context, cert, key, options.rounds)
            return
        for _ in range(options.rounds):
            for name, measured in (("ADD, plain text", lambda: per_add(daemon, None)),
                                   ("ADD, TLS", lambda: per_add(daemon, context)),
                                   ("client with one ADD, plain text", lambda: per_client(daemon, None)),
                                   ("the same, TLS", lambda: per_client(daemon, context)),
                                   ("the same, TLS, resumed", lambda: per_client(daemon, context, True))):
                lowest[name] = min(lowest.get(name, 1e9), measured())
    for name, us in lowest.items():
        print("%-34s %8.2f us of CPU" % (name, us))
    print("ADD with TLS takes %.2f x the CPU of plain text" % (lowest["ADD, TLS"] / lowest["ADD, plain text"]))


if __name__ == "__main__":
    main()
