"""Daemons and clients with TLS, and their certificates: what the cases of tls.py share."""

import os
import re
import select
import socket
import ssl
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "elastic")]
import certs  # noqa: E402
from c10d import NONCE, Peer, modern  # noqa: E402
from cases import check  # noqa: E402
from servers import Rdzvd  # noqa: E402


CA, OTHER_CA = certs.Ca(), certs.Ca("another-ca")
SERVER = CA.issue()


def same(got, wanted, what):
    check(got == wanted, "%s: %.300r, not %.300r" % (what, got, wanted))


def tls_flags(pair=None):
    cert, key = pair or SERVER
    return ["--cert=" + cert, "--key=" + key]


def daemon(*flags, pair=None, **kwargs):
    return Rdzvd(*tls_flags(pair), *flags, **kwargs)


def client_context(pair=None, ca=CA, version=None):
    context = ssl.create_default_context(cafile=ca.pem)
    if pair:
        context.load_cert_chain(*pair)
    if version:
        context.minimum_version = context.maximum_version = version
    return context


def connect(port, context=None, host="127.0.0.1"):
    raw = socket.create_connection((host, port), timeout=30)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return (context or client_context()).wrap_socket(raw, server_hostname="localhost")


class TlsPeer(Peer):
    """A TCPStore client within TLS, as no torch has it."""

    def __init__(self, port, context=None):
        self.socket = connect(port, context)
        self.name = "%s:%d" % self.socket.getsockname()[:2]
        self.send(modern.hello())
        self.expect(NONCE)

    def exchange(self, data, size):
        """Sends `data` and receives `size` bytes at the same time, in one thread: OpenSSL forbids two threads at one
        connection, and Python 3.11 has no lock for this."""
        data, got, timeout = memoryview(data), bytearray(), self.socket.gettimeout()
        self.socket.setblocking(False)
        while data or len(got) < size:
            wants = ([self.socket], [], [])
            try:
                part = self.socket.recv(1 << 16)
                check(part, "the server closed after %d of %d bytes" % (len(got), size))
                got += part
                continue
            except ssl.SSLWantReadError:
                pass
            try:
                if data:
                    data = data[self.socket.send(data[:1 << 16]):]
                    continue
            except ssl.SSLWantWriteError:
                wants = ([self.socket], [self.socket], [])
            check(any(select.select(*wants, 60)), "nothing for a minute, after %d of %d bytes" % (len(got), size))
        self.socket.settimeout(timeout)
        return bytes(got)


def curl(port, path, *args, ca=CA, scheme="https"):
    ran = subprocess.run(["curl", "-sS", "--max-time", "60", "--cacert", ca.pem, *args,
                          "%s://localhost:%d%s" % (scheme, port, path)], capture_output=True, text=True)
    return ran.returncode, ran.stdout, ran.stderr


def s_client(port, *args, say=""):
    ran = subprocess.run(["openssl", "s_client", "-connect", "127.0.0.1:%d" % port, "-CAfile", CA.pem, *args],
                         input=say, capture_output=True, text=True, timeout=60)
    return ran.stdout + ran.stderr


def request(path="/version", close=True):
    return ("GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n" % (path, "Connection: close\r\n" if close else "")).encode()


def read_all(s):
    got = b""
    while data := s.recv(65536):
        got += data
    return got


def metric(d, name, **labels):
    context = client_context()
    with connect(d.port, context) as s:
        s.sendall(request("/metrics"))
        body = read_all(s).decode()
    wanted = name + ("{%s}" % ",".join('%s="%s"' % kv for kv in labels.items()) if labels else "")
    found = re.search("^" + re.escape(wanted) + " (\\S+)$", body, re.M)
    check(found, "no %s in the metrics" % wanted)
    return float(found.group(1))



def relay(port, *flags, host="localhost"):
    return Rdzvd("--upstream=%s:%d" % (host, port), "--upstream-ca=" + CA.pem, *flags)


def relay_flags(pair):
    return ["--upstream-cert=" + pair[0], "--upstream-key=" + pair[1]]
