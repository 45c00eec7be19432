"""TLS: one port for TLS and plain text, certificates of servers and clients, hostile handshakes, certificates replaced
at run time; with curl, python-etcd and OpenSSL's own client.

    tls.py [NAME...]     all cases, or the cases whose name contains a NAME

$RDZV_ETCD_PYTHON is a Python that has python-etcd (python3, else the virtual environment with torch).
"""

import ctypes
import ctypes.util
import glob
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "elastic")]
import cases  # noqa: E402
import certs  # noqa: E402
from c10d import NONCE, Peer, modern, number  # noqa: E402
from cases import case, check, until  # noqa: E402
from servers import Rdzvd, Server, free_port, rdzvd_binary  # noqa: E402
from tls_peers import (  # noqa: E402
    CA, OTHER_CA, SERVER, TlsPeer, client_context, connect, curl, daemon, metric, read_all, relay,
    relay_flags, request, s_client, same, tls_flags)
import tls_certificates  # noqa: E402,F401


# --- What is spoken. ---

@case
def curl_over_https():
    with daemon() as d:
        big = "x" * 1_000_000
        with tempfile.NamedTemporaryFile("w") as f:
            f.write("value=" + big)
            f.flush()
            code, out, err = curl(d.port, "/v2/keys/big", "-XPUT", "--data-binary", "@" + f.name, "--http1.1")
        check(code == 0 and big in out, "PUT of 1 MB: %d %s" % (code, err))
        code, out, err = curl(d.port, "/v2/keys/big")
        check(code == 0 and big in out, "GET of 5 MB: %d %s" % (code, err))
        code, out, err = curl(d.port, "/version", "-v", "--tls-max", "1.2")
        check(code == 0 and "TLSv1.2" in err and re.search("ALPN.*server accepted.* http/1.1", err), err)


@case
def c10d_within_tls_is_the_same_store():
    with daemon() as d:
        plain, secret = Peer(d.port), TlsPeer(d.port)
        secret.set(b"key", b"value")
        secret.ping()
        same(secret.get(b"key"), b"value", "within TLS")
        same(plain.get(b"key"), b"value", "without")
        secret.wait(b"later")
        plain.set(b"later", b"1")
        secret.expect_stop_waiting()
        big = os.urandom(8 << 20)
        secret.set(b"big", big)
        secret.ping()
        same(plain.get(b"big") == big, True, "8 MiB written within TLS")
        same(secret.get(b"big") == big, True, "8 MiB read within TLS")
        count = 20000  # many answers to many requests
        answers = secret.exchange(modern.add(b"n", 1) * count, 8 * count)
        same(answers, b"".join(map(number, range(1, count + 1))), "pipelined ADDs")


@case
def records_of_one_byte():
    with daemon() as d:
        peer = TlsPeer(d.port)
        for byte in modern.set(b"slow", b"value") + modern.get(b"slow"):
            peer.send(bytes([byte]))
        same(peer.blob(), b"value", "a request of many records")
        with connect(d.port) as s:
            for byte in request():
                s.sendall(bytes([byte]))
            check(b"etcdserver" in read_all(s), "an HTTP request of many records")


@case
def a_record_behind_a_watch_is_read():
    """The watch ends while OpenSSL has the next request, of which the socket says nothing any more."""
    with daemon() as d, connect(d.port) as s:
        s.sendall(b"GET /v2/keys/awaited?wait=true HTTP/1.1\r\nHost: x\r\n")
        same(curl(d.port, "/version")[0], 0, "another client, when the first part was read")
        s.sendall(b"\r\n" + request().replace(b"\r\n\r\n", b"\r\nX-Long: " + b"x" * 6000 + b"\r\n\r\n"))
        until(lambda: metric(d, "rdzvd_memory_bytes", kind="watches") > 0, "the watch")
        curl(d.port, "/v2/keys/awaited", "-XPUT", "-d", "value=1")
        said = read_all(s)
        check(b'"action":"set"' in said and b"etcdserver" in said, "both are answered: %r" % said[-300:])


@case
def records_in_pieces():
    """A proxy passes on what both say, one byte at a time."""
    with daemon() as d, socket.create_server(("127.0.0.1", 0)) as listener:
        def copy(a, b):
            try:
                while data := a.recv(4096):
                    for byte in data:
                        b.sendall(bytes([byte]))
            except OSError:
                pass

        def serve():
            one = listener.accept()[0]
            other = socket.create_connection(("127.0.0.1", d.port))
            for s in (one, other):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=copy, args=(other, one), daemon=True).start()
            copy(one, other)

        threading.Thread(target=serve, daemon=True).start()
        peer = TlsPeer(listener.getsockname()[1])
        peer.set(b"key", b"v" * 3000)
        same(peer.get(b"key"), b"v" * 3000, "what came in pieces")


@case
def versions_and_what_is_off():
    with daemon() as d:
        for version, fine in (("-tls1_1", False), ("-tls1_2", True), ("-tls1_3", True)):
            said = s_client(d.port, version, "-cipher", "ALL:@SECLEVEL=0")
            same("Verify return code: 0 (ok)" in said and "Cipher is (NONE)" not in said, fine, version)
        said = s_client(d.port, "-tls1_2", "-cipher", "AES128-SHA:AES128-GCM-SHA256:@SECLEVEL=0")
        check("Cipher is (NONE)" in said, "a cipher without forward secrecy: " + said)
        same("Compression: NONE" in s_client(d.port, "-tls1_2", "-comp"), True, "no compression")
        for offered, chosen in (("http/1.1", "ALPN protocol: http/1.1"), ("h2,http/1.1", "ALPN protocol: http/1.1"),
                                ("h2", "ALPN protocol: h2"), ("spdy/1", "no application protocol")):
            check(chosen in s_client(d.port, "-alpn", offered), "ALPN " + offered)
        d.wait_log("event=refused .*reason=tls .*unsupported protocol|event=refused .*reason=tls .*no application protocol")
        said = subprocess.run(["etcdctl", "--endpoints=https://localhost:%d" % d.port, "--cacert=" + CA.pem, "get", "a"],
                              env={**os.environ, "ETCDCTL_API": "3"}, capture_output=True, text=True).stderr
        check("rdzvd has etcd's v2 API" in said, "a client of etcd's v3 API: " + said)
        said = s_client(d.port, "-tls1_2", say="R\n")
        check("no renegotiation" in said or "NO_RENEGOTIATION" in said.upper(), "renegotiation: " + said[-400:])
        same(curl(d.port, "/version")[0], 0, "and the next client")


def ec_key(curve):
    return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:" + curve, "-nodes"]


@case
def keys_groups_and_ciphers():
    """All that clients and certificates may have, whatever the daemon's OpenSSL was built without."""
    old = CA.issue(kind=["-newkey", "rsa:2048", "-nodes"])
    with open(old[1], encoding="ascii") as f:
        check("BEGIN PRIVATE KEY" in f.read(), "PKCS #8")
    certs.openssl("rsa", "-traditional", "-in", old[1], "-out", old[1])  # as older tools write it
    pairs = {"RSA, as PKCS #1": old, "RSA-4096": CA.issue(kind=["-newkey", "rsa:4096", "-nodes"]),
             "P-384": CA.issue(kind=ec_key("P-384")), "P-521": CA.issue(kind=ec_key("P-521")),
             "Ed25519": CA.issue(kind=["-newkey", "ed25519", "-nodes"])}
    for what, pair in pairs.items():
        with daemon("--client-ca=" + CA.pem, pair=pair) as d:
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                with connect(d.port, client_context(pair, version=version)) as s:
                    s.sendall(request())
                    check(b" 200 " in read_all(s), "%s, %s" % (what, version))

    def speaks(d, *args):
        said = s_client(d.port, *args)
        check("Verify return code: 0 (ok)" in said and "Cipher is (NONE)" not in said, "%s: %s" % (args, said[-2000:]))

    with daemon() as d:
        for cipher in ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"):
            speaks(d, "-tls1_3", "-ciphersuites", cipher)
        for cipher in ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305"):
            speaks(d, "-tls1_2", "-cipher", "ECDHE-ECDSA-" + cipher)
    with daemon(pair=pairs["RSA-4096"]) as d:
        for group in ("X25519", "P-256", "P-384", "P-521"):  # of a key of P-256, TLS 1.2 would want P-256 here, too
            for version in ("-tls1_2", "-tls1_3"):
                speaks(d, version, "-groups", group)
        speaks(d, "-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256")


@case
def sessions_are_resumed():
    with daemon() as d:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = client_context(version=version)
            with connect(d.port, context) as s:
                s.sendall(request())
                read_all(s)  # behind it the ticket has come
                session = s.session
            raw = socket.create_connection(("127.0.0.1", d.port), timeout=30)
            with context.wrap_socket(raw, server_hostname="localhost", session=session) as s:
                same(s.session_reused, True, "resumed, %s" % version)
        same(metric(d, "rdzvd_tls_handshakes_total", resumed="true"), 2, "counted")


# --- Ends. ---

@case
def ends_with_and_without_a_word():
    with daemon() as d:
        s = connect(d.port)
        s.sendall(request(close=False)[:20])
        os.close(s.detach())  # half a request, and no close_notify
        s = connect(d.port)
        s.sendall(request(close=False))
        check(b"200 OK" in s.recv(65536), "an answer")
        raw = s.unwrap()  # close_notify, which is answered
        same(raw.recv(1), b"", "the end of both")
        with connect(d.port) as s:
            s.sendall(request())
            check(b"etcdserver" in read_all(s), "the daemon ends with close_notify, or Python raises here")
        peer = TlsPeer(d.port)
        os.close(peer.socket.detach())
        same(curl(d.port, "/version")[0], 0, "and the next client")
        until(lambda: metric(d, "rdzvd_connections") == 1, "all of them are gone")


@case
def who_does_not_read_is_not_waited_for():
    with daemon("--output-limit=1MiB", "--request-timeout=2s") as d:
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect(("127.0.0.1", d.port))
        with client_context().wrap_socket(raw, server_hostname="localhost") as s:
            peer = TlsPeer(d.port)
            peer.set(b"big", bytes(4 << 20))
            peer.ping()
            s.sendall(modern.validate() + modern.get(b"big") * 4)
            d.wait_log("event=dropped .*does not read")
            same(peer.add(b"n", 1), 1, "another client")


@case
def half_of_a_request_is_dropped():
    with daemon("--request-timeout=1s") as d:
        peer = TlsPeer(d.port)
        peer.send(modern.set(b"key", b"value")[:9])
        d.wait_log("event=dropped .*half a request")
        peer.expect_end()


# --- Plain text. ---

@case
def plain_text_has_to_be_allowed():
    own = next((a for a in subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()
                if "." in a), None)
    with daemon("--plaintext=off") as d:
        with socket.create_connection(("127.0.0.1", d.port), timeout=30) as s:
            s.sendall(modern.hello())
            same(s.recv(100), b"", "c10d without TLS is ended")
        d.wait_log("event=refused .*reason=plaintext .*hint=.*TLS")
        code, out, _ = curl(d.port, "/version", scheme="http")
        same((code, out), (0, "Client sent an HTTP request to an HTTPS server.\n"), "HTTP without TLS")
        same(curl(d.port, "/version")[0], 0, "with TLS")
        same(metric(d, "rdzvd_refused_total", reason="plaintext"), 2, "counted")
    for flag, loopback, other in (("--plaintext=on", True, True), ("--plaintext=loopback", True, False),
                                  ("--plaintext=%s/32" % own, False, True), ("--cors=*", True, False)):
        with daemon(flag, listen=("0.0.0.0:0",)) as d:
            for host, fine in (("127.0.0.1", loopback), (own, other)):
                if host is None:
                    continue
                with socket.create_connection((host, d.port), timeout=30) as s:
                    s.sendall(modern.hello())
                    same(s.recv(4) == NONCE, fine, "%s from %s" % (flag, host))
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/socket"
        server = Server([rdzvd_binary(), "--listen=unix:" + path, *tls_flags(), "--plaintext=off"])
        with server:
            server.wait_log("event=ready")
            ran = subprocess.run(["curl", "-sS", "--unix-socket", path, "http://localhost/version"],
                                 capture_output=True, text=True)
            check("etcdserver" in ran.stdout, "a Unix socket: " + ran.stderr)
    return None if own else "there is no address but loopback"


@case
def tls_where_there_is_no_certificate():
    with Rdzvd() as d:
        code, _, err = curl(d.port, "/version")
        check(code == 35 and "alert handshake failure" in err, "%d %s" % (code, err))
        d.wait_log("event=refused .*reason=tls .*there is no certificate here")
        same(Peer(d.port).add(b"n", 1), 1, "and the next client")


@case
def only_allowed_networks_may_connect():
    own = next((a for a in subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()
                if "." in a), None)
    if own is None:
        return "there is no address but loopback"
    for networks, fine in (("203.0.113.0/24", False), ("203.0.113.0/24," + own, True), (own + "/31", True)):
        with Rdzvd("--allow=" + networks, listen=("0.0.0.0:0",)) as d:
            same(Peer(d.port).add(b"n", 1), 1, "this machine")
            with socket.create_connection((own, d.port), timeout=30) as s:
                try:
                    s.sendall(modern.hello())
                    got = s.recv(4)
                except ConnectionResetError:
                    got = b""
            same(got == NONCE, fine, "%s with --allow=%s" % (own, networks))
            if not fine:
                d.wait_log("event=refused peer=%s:.*reason=address" % own)


# --- Hostile handshakes. ---

def hello():
    """The first flight of a client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    side = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


@case
def half_handshakes():
    with daemon() as d:
        peer = Peer(d.port)
        first = hello()
        begun = []
        for i in range(700):  # more than there may be: the oldest go
            s = socket.create_connection(("127.0.0.1", d.port), timeout=30)
            s.sendall(first if i % 2 else first[:100])
            begun.append(s)
            if i % 100 == 99:
                same(curl(d.port, "/version")[0], 0, "a client behind %d of them" % (i + 1))
                peer.add(b"n", 1)
        d.wait_log("event=refused .*reason=tls .*too many open handshakes")
        same(begun[0].recv(100), b"", "the first one has ended")
        check(metric(d, "rdzvd_memory_bytes", kind="tls") < 80e6, "they take no more than some memory")
        d.wait_log("event=refused .*reason=tls .*longer than 10s", timeout=40)
        until(lambda: metric(d, "rdzvd_connections") == 2, "all of them have ended", 60)
        for s in begun:
            s.close()


@case
def a_handshake_byte_by_byte_has_a_bound():
    with daemon() as d:
        first, began = hello(), time.monotonic()
        with socket.create_connection(("127.0.0.1", d.port), timeout=30) as s:
            try:
                for byte in first:
                    s.sendall(bytes([byte]))
                    time.sleep(0.25)
                    if time.monotonic() - began > 40:
                        raise AssertionError("it still goes on after 40 s")
            except OSError:
                pass
        d.wait_log("event=refused .*longer than 10s")


@case
def garbage_behind_the_first_byte():
    with daemon() as d:
        first = hello()
        tails = [b"\x16", b"\x16\x03\x01\xff\xff" + bytes(70000), b"\x16\x03\x01\x00\x05hello", first[:5] + os.urandom(600),
                 first + os.urandom(3000), b"\x16" * 100000, first * 40]
        for tail in tails:
            with socket.create_connection(("127.0.0.1", d.port), timeout=30) as s:
                try:
                    s.sendall(tail)
                    s.shutdown(socket.SHUT_WR)
                    read_all(s)
                except OSError:
                    pass
        with connect(d.port) as s:  # and behind the handshake
            os.write(s.fileno(), os.urandom(1000))
            try:
                read_all(s)
            except (ssl.SSLError, OSError):
                pass
        same(curl(d.port, "/version")[0], 0, "and the next client")
        until(lambda: metric(d, "rdzvd_connections") == 1, "all of them have ended")


def send_new_keys(port, count):
    """Shakes hands, and sends so many KeyUpdates and nothing else. Python's module has no call for it."""
    lib = ctypes.CDLL(ctypes.util.find_library("ssl"))
    for name, result, *arguments in (
            ("TLS_client_method", "p"), ("SSL_CTX_new", "p", "p"), ("SSL_new", "p", "p"), ("SSL_set_fd", "i", "p", "i"),
            ("SSL_connect", "i", "p"), ("SSL_key_update", "i", "p", "i"), ("SSL_do_handshake", "i", "p"),
            ("SSL_free", None, "p"), ("SSL_CTX_free", None, "p")):
        kinds = {"p": ctypes.c_void_p, "i": ctypes.c_int, None: None}
        getattr(lib, name).restype = kinds[result]
        getattr(lib, name).argtypes = [kinds[kind] for kind in arguments]
    with socket.create_connection(("127.0.0.1", port), timeout=30) as raw:
        raw.setblocking(True)
        context = lib.SSL_CTX_new(lib.TLS_client_method())
        peer = lib.SSL_new(context)
        check(lib.SSL_set_fd(peer, raw.fileno()) == 1 and lib.SSL_connect(peer) == 1, "no handshake")
        sent = 0
        while sent < count and lib.SSL_key_update(peer, 0) == 1 and lib.SSL_do_handshake(peer) == 1:
            sent += 1
        lib.SSL_free(peer)
        lib.SSL_CTX_free(context)


@case
def new_keys_and_nothing_else_are_an_end():
    """OpenSSL takes one after the other for as long as they come: 60,000 would be most of a second."""
    with daemon() as d:
        send_new_keys(d.port, 10000)
        d.wait_log('event=dropped .*reason="TLS has failed" detail="too many handshake messages or alerts')
        same(curl(d.port, "/version")[0], 0, "and the next client")


@case
def memory_comes_back():
    with daemon() as d:
        metric(d, "rdzvd_memory_bytes", kind="tls")
        before = metric(d, "rdzvd_memory_bytes", kind="tls")
        peers = [TlsPeer(d.port) for _ in range(50)]
        idle = (metric(d, "rdzvd_memory_bytes", kind="tls") - before) / 50
        check(2000 < idle < 30000, "an idle connection takes %d bytes" % idle)
        for peer in peers:
            peer.close()
        until(lambda: metric(d, "rdzvd_memory_bytes", kind="tls") <= before + 4096, "it is given back")


@case
def without_memory():
    """Each is refused, or served; nothing else."""
    with daemon("--memory-limit=8MiB") as d:
        peers, refused = [], 0
        for _ in range(1200):
            try:
                peers.append(connect(d.port))
            except (ssl.SSLError, OSError):
                refused += 1
        check(peers and refused, "%d served, %d refused" % (len(peers), refused))
        d.wait_log("event=(dropped|refused) .*memory")
        for peer in peers:
            peer.close()
        until(lambda: curl(d.port, "/version")[0] == 0, "there is room again")


@case
def a_relay_over_tls():
    """Everything passes: c10d in frames, HTTP, large values, a store that is killed, new certificates."""
    folder = tempfile.mkdtemp(prefix="rdzv-tls-")
    port = free_port()
    flags = ["--client-ca=" + CA.pem, "--plaintext=off", "--data-dir=" + folder + "/data"]
    mine = [shutil.copy(source, folder) for source in CA.issue("relay", "DNS:relay")]
    store = daemon(*flags, listen=("127.0.0.1:%d" % port,))
    with relay(port, *relay_flags(mine)) as r:
        r.wait_log("event=upstream_connected")
        peer = Peer(r.port)
        same(peer.add(b"n", 1), 1, "ADD")
        big = os.urandom(8 << 20)
        peer.set(b"big", big)
        same(peer.get(b"big") == big, True, "8 MiB there and back")
        count = 5000
        sender = threading.Thread(target=peer.send, args=(modern.add(b"m", 1) * count,))
        sender.start()
        same([peer.number() for _ in range(count)], list(range(1, count + 1)), "pipelined ADDs")
        sender.join()
        value = "x" * 1_000_000
        with tempfile.NamedTemporaryFile("w") as f:
            f.write("value=" + value)
            f.flush()
            code, out, err = curl(r.port, "/v2/keys/big", "-XPUT", "--data-binary", "@" + f.name, scheme="http")
        check(code == 0 and value in out, "PUT through the relay: " + err)
        watch = subprocess.Popen(["curl", "-sS", "http://localhost:%d/v2/keys/later?wait=true" % r.port],
                                 stdout=subprocess.PIPE, text=True)
        waiter = Peer(r.port)
        waiter.wait(b"later")
        store.stop(signal.SIGKILL)
        r.wait_log("event=upstream_lost")
        for source, target in zip(CA.issue("relay-2", "DNS:relay-2"), mine):
            shutil.copy(source, target)
        r.wait_log("event=certificate_loaded")
        store = daemon(*flags, listen=("127.0.0.1:%d" % port,))
        r.wait_log("event=upstream_connected", count=2)
        same(peer.add(b"n", 1), 2, "ADD after the restart")
        peer.set(b"later", b"1")
        waiter.expect_stop_waiting()
        code, out, err = curl(r.port, "/v2/keys/later", "-XPUT", "-d", "value=1", scheme="http")
        check(code == 0, err)
        check('"value":"1"' in watch.communicate(timeout=60)[0], "the watch goes on")
        code, out, _ = curl(r.port, "/v2/keys/big", scheme="http")
        check(value in out, "GET through the relay")
    same(store.stop(), 0, "the store's end")
    shutil.rmtree(folder)


@case
def relays_and_stores_that_refuse_each_other():
    mine = CA.issue("relay", "DNS:relay")
    wrong_store = [
        (CA.expired(), [], "certificate of CN=server: certificate has expired"),
        (CA.issue("server", "DNS:elsewhere"), [], "certificate of CN=server .elsewhere.: hostname mismatch; .*--upstream-name"),
        (SERVER, ["--upstream-name=store.example"], "certificate of CN=server .localhost, 127.0.0.1.: hostname mismatch"),
        (certs.self_signed(CA, "lonesome"), [], "certificate of CN=lonesome: self.signed certificate"),
        (OTHER_CA.issue("stranger"), [],
         "certificate of CN=stranger: unable to get local issuer certificate; give the file of the CA .*--upstream-ca"),
    ]
    for pair, flags, why in wrong_store:
        with daemon(pair=pair) as d, relay(d.port, *flags) as r:
            r.wait_log("event=upstream_failed .*" + why)
            d.wait_log("event=refused .*reason=tls .*alert")
            check("upstream_connected" not in r.log(), why)
    revoked = CA.issue("gone")
    crl = CA.revoke(revoked)
    with daemon(pair=revoked) as d, relay(d.port, "--crl=" + crl) as r:
        r.wait_log("event=upstream_failed .*certificate of CN=gone: certificate revoked")
    with daemon(pair=CA.issue("server", "DNS:elsewhere")) as d, relay(d.port, "--upstream-name=elsewhere") as r:
        r.wait_log("event=upstream_connected")
    with daemon() as d, relay(d.port, host="127.0.0.1") as r:  # an address of the SAN
        r.wait_log("event=upstream_connected")
    with daemon("--client-ca=" + CA.pem) as d:
        for flags, why, told in (
                ([], "certificate required; the server accepts only clients of its own CA",
                 "did not return a certificate"),
                (relay_flags(OTHER_CA.issue("stranger")), "unknown ca; the server accepts only clients of its own CA",
                 "CN=stranger: unable to get local issuer"),
                (relay_flags(CA.expired("old")), "certificate expired; renew this client's certificate",
                 "CN=old: certificate has expired")):
            with relay(d.port, *flags) as r:
                r.wait_log("event=upstream_failed .*this relay's certificate.*alert %s.*--upstream-cert" % why)
                d.wait_log("event=refused .*reason=tls .*" + told)
        with relay(d.port, *relay_flags(mine)) as r:
            r.wait_log("event=upstream_connected")
    with daemon("--plaintext=off") as d, Rdzvd("--upstream=127.0.0.1:%d" % d.port) as r:
        r.wait_log("event=upstream_failed .*If it wants TLS, name its CA with --upstream-ca")
        d.wait_log("event=refused .*reason=plaintext")
    with Rdzvd() as d, relay(d.port) as r:
        r.wait_log("event=upstream_failed .*alert handshake failure")
        d.wait_log("event=refused .*reason=tls .*no certificate here")
    for flags, why in ((["--upstream-ca=x"], "is for a relay"),
                       (["--upstream=a:1", "--upstream-cert=x"], "needs the CA of the store"),
                       (["--upstream=a:1", "--upstream-ca=x", "--upstream-cert=x"], "needs its key"),
                       (["--upstream=a:1", "--upstream-ca=x", "--upstream-key=x"], "needs its certificate")):
        ran = subprocess.run([rdzvd_binary(), *flags, "--check-config"], capture_output=True, text=True)
        check(ran.returncode == 2 and why in ran.stderr, "%s: %s" % (flags, ran.stderr))
    ran = subprocess.run([rdzvd_binary(), "--listen=127.0.0.1:0", "--upstream=a:1", "--upstream-ca=/nowhere"],
                         capture_output=True, text=True, timeout=60)
    check(ran.returncode == 1 and "certificate_failed" in ran.stderr, ran.stderr)


# --- As an etcd. ---

PYTHON_ETCD = """
import etcd, sys
port, ca, cert, key = sys.argv[1:]
client = etcd.Client(host="localhost", port=int(port), protocol="https", ca_cert=ca, cert=(cert, key),
                     allow_reconnect=True)
client.write("/torch/run", "1", ttl=30)
client.test_and_set("/torch/run", "2", "1")
print(client.read("/torch/run").value)
print(" ".join(client.machines))
"""


def etcd_python():
    for python in [os.environ.get("RDZV_ETCD_PYTHON"), "python3"] + glob.glob(os.path.join(
            os.environ.get("RDZV_CACHE", os.path.expanduser("~/.cache/rdzv")), "torch-2.13.0", "bin", "python3")):
        if python and subprocess.run([python, "-c", "import etcd"], capture_output=True).returncode == 0:
            return python
    return None


def start_etcd(*flags):
    port = free_port()
    server = Server([rdzvd_binary(), "--listen-client-urls=https://127.0.0.1:%d" % port,
                     "--advertise-client-urls=https://localhost:%d" % port, "--cert-file=" + SERVER[0],
                     "--key-file=" + SERVER[1], *flags])
    server.port = port
    server.wait_log("event=ready")
    return server


@case
def etcds_own_flags():
    worker = CA.issue("worker", "DNS:worker")
    with start_etcd("--client-cert-auth", "--trusted-ca-file=" + CA.pem) as d:
        check(curl(d.port, "/version")[0] != 0, "a client without a certificate")
        same(curl(d.port, "/version", "--cert", worker[0], "--key", worker[1])[0], 0, "one with it")
        code, out, _ = curl(d.port, "/version", scheme="http")
        check("HTTPS server" in out, "https:// is TLS alone: %d %s" % (code, out))
    for flags, why in ((["--listen-client-urls=https://127.0.0.1:0", "--advertise-client-urls=https://localhost:1"],
                        "needs a certificate"), (["--listen=tls:127.0.0.1:0"], "needs a certificate"),
                       (["--client-cert-auth", *tls_flags()], "needs the CA"),
                       (["--cert=x"], "needs its key"), (["--key=x"], "needs its certificate"),
                       (["--client-ca=x"], "needs a certificate"), (["--crl=x", *tls_flags()], "needs the CA"),
                       (["--plaintext=10.0.0.0/33", *tls_flags()], "write on, loopback, off"),
                       (["--allow=tomorrow"], "write networks")):
        ran = subprocess.run([rdzvd_binary(), *flags, "--check-config"], capture_output=True, text=True)
        check(ran.returncode in (1, 2) and why in ran.stderr, "%s: %s" % (flags, ran.stderr))


@case
def python_etcd_over_https():
    python = etcd_python()
    if python is None:
        return "there is no python-etcd"
    worker = CA.issue("worker", "DNS:worker")
    with start_etcd("--client-cert-auth", "--trusted-ca-file=" + CA.pem) as d:
        ran = subprocess.run([python, "-c", PYTHON_ETCD, str(d.port), CA.pem, *worker], capture_output=True, text=True)
        same(ran.stdout, "2\nhttps://localhost:%d\n" % d.port, "python-etcd: " + ran.stderr[-1000:])


def urls_of(port, host, *args):
    """What /v2/members and /v2/machines say to one who uses that name."""
    args = ["-H", "Host: " + host, *args]
    return (json.loads(curl(port, "/v2/members", *args)[1])["members"][0]["clientURLs"],
            curl(port, "/v2/machines", *args)[1].split(", "))


@case
def clients_are_told_urls_of_tls():
    """Else etcdctl, which asks first, goes on in plain text."""
    with start_etcd() as d:
        mine = "https://localhost:%d" % d.port
        same(urls_of(d.port, "localhost:%d" % d.port), ([mine], [mine]), "as etcd")
        same(urls_of(d.port, "store:1"), ([mine], ["https://store:1", mine]), "as etcd, by another name")
    with daemon() as d:
        same(urls_of(d.port, "localhost:7"), (["https://localhost:7"],) * 2, "by TLS")
        with Rdzvd("--upstream=127.0.0.1:%d" % d.port, *tls_flags()) as r:
            r.wait_log("event=upstream_connected")
            same(urls_of(r.port, "localhost:8"), (["https://localhost:8"],) * 2, "by TLS to a relay")
            plain = urllib.request.Request("http://127.0.0.1:%d/v2/machines" % r.port, headers={"Host": "localhost:9"})
            with urllib.request.urlopen(plain, timeout=60) as answer:
                same(answer.read(), b"http://localhost:9", "in plain text to a relay")


@case
def certificates_stand_for_names():
    """No page of another name gets past the certificate, so etcd looks at names in plain text alone."""
    with daemon("--host-whitelist=store.svc", "--plaintext=on") as d:
        same(curl(d.port, "/health", "-H", "Host: other", "-o", "/dev/null", "-w", "%{http_code}")[1], "200", "by TLS")
        same(curl(d.port, "/health", "-H", "Host: other", "-o", "/dev/null", "-w", "%{http_code}", scheme="http")[1],
             "421", "in plain text")


if __name__ == "__main__":
    sys.exit(cases.run("tests/process/tls.py"))
