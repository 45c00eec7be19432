#!/usr/bin/env python3
"""What TLS costs rdzvd: its own CPU for a request, with and without, and for a handshake.

    tls.py [--rounds N] [RDZVD]

RDZVD is a daemon built with --buildtype=release ($RDZVD, else the one in build/). Clients of c10d, 32
connections in lock step, ask for ADDs, within TLS 1.3 and in plain text by turns; then 1,000 clients come
for one ADD each, with a certificate of P-256, and half of them resume a session. CPU is that of the
process, from the kernel's books. Figures are the lowest of the rounds. Nothing here passes or fails.
"""

import argparse
import os
import socket
import ssl
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "elastic")]

import agents   # noqa: E402
import certs    # noqa: E402
import servers  # noqa: E402

CONNECTIONS, EXCHANGES, CLIENTS = 32, 600, 500
ADD = b"\4" + agents.text(b"/default_pg/0//worker/000000") + struct.pack("<q", 1)


def cpu_us(daemon):
    with open("/proc/%d/schedstat" % daemon.pid, encoding="ascii") as f:
        return int(f.read().split()[0]) / 1000


def dial(daemon, context, session=None):
    s = socket.create_connection(("127.0.0.1", daemon.port), timeout=60)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if context:
        s = context.wrap_socket(s, server_hostname="localhost", session=session)
    s.sendall(agents.VALIDATE + ADD)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("rdzvd", nargs="?", default=servers.rdzvd_binary())
    options = parser.parse_args()
    ca = certs.Ca()
    cert, key = ca.issue()
    context = ssl.create_default_context(cafile=ca.pem)
    lowest = {}
    with servers.Rdzvd("--cert=" + cert, "--key=" + key, binary=options.rdzvd) as daemon:
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
