"""Certificates of clients and of the server, new ones at run time, and the rights that a certificate gives. The cases
run with tls.py."""

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
import certs  # noqa: E402
from c10d import Peer  # noqa: E402
from cases import case, check  # noqa: E402
from servers import Rdzvd, rdzvd_binary  # noqa: E402
from tls_peers import (  # noqa: E402
    CA, OTHER_CA, SERVER, TlsPeer, client_context, connect, curl, daemon, read_all, relay, relay_flags,
    request, same, tls_flags)


# --- Certificates of clients, and of the server. ---

@case
def certificates_of_clients():
    revoked = CA.issue("revoked", "DNS:revoked.example")
    crl = CA.revoke(revoked)
    wrong = [
        (None, "peer did not return a certificate"),
        (OTHER_CA.issue("stranger"), "the certificate of CN=stranger: unable to get local issuer"),
        (CA.expired("old"), "certificate of CN=old: certificate has expired"),
        (CA.early("young"), "certificate of CN=young: certificate is not yet valid"),
        (certs.self_signed(CA), "certificate of CN=alone: self.signed certificate"),
        (revoked, "certificate of CN=revoked: certificate revoked"),
    ]
    with daemon("--client-ca=" + CA.pem, "--crl=" + crl) as d:
        for pair, why in wrong:
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                try:
                    with connect(d.port, client_context(pair, version=version)) as s:
                        s.sendall(request())
                        got = read_all(s)
                except (ssl.SSLError, ConnectionResetError, BrokenPipeError):
                    got = b""
                same(got, b"", "%s with %s" % (why, version))
            d.wait_log("event=refused .*reason=tls .*(%s)" % why, count=2)
        right = CA.issue("worker", "DNS:worker-0.example,URI:spiffe://cluster/job")
        code, out, err = curl(d.port, "/version", "--cert", right[0], "--key", right[1])
        check(code == 0 and "etcdserver" in out, err)
    with daemon("--client-ca=" + CA.pem, "--client-cert=optional") as d:
        same(curl(d.port, "/version")[0], 0, "optional: none")
        cert, key = OTHER_CA.issue("stranger")
        check(curl(d.port, "/version", "--cert", cert, "--key", key)[0] != 0, "optional: a wrong one")
    with daemon("--client-ca=" + CA.pem, "--client-cert=optional", "--client-names=worker-0.example") as d:
        same(curl(d.port, "/version")[0], 0, "optional, with names: none")
        same(curl(d.port, "/version", "--cert", right[0], "--key", right[1])[0], 0, "optional: a name of the list")
        cert, key = CA.issue("other", "DNS:worker-2.example")
        check(curl(d.port, "/version", "--cert", cert, "--key", key)[0] != 0, "optional: no name of the list")
    with daemon("--client-ca=" + CA.pem, "--client-names=worker-1.example,spiffe://cluster/job") as d:
        same(curl(d.port, "/version", "--cert", right[0], "--key", right[1])[0], 0, "a name of the list")
        cert, key = CA.issue("worker-1.example", "DNS:worker-2.example")  # the common name does not count
        check(curl(d.port, "/version", "--cert", cert, "--key", key)[0] != 0, "no name of the list")
        d.wait_log("event=refused .*no name of --client-names")


@case
def certificates_of_the_server():
    for pair, ca, why in ((CA.expired(), CA, "expired"), (CA.issue("server", "DNS:elsewhere"), CA, "subject name"),
                          (SERVER, OTHER_CA, "unable to get local issuer"),
                          (certs.self_signed(CA, "lonely"), CA, "self.signed")):
        with daemon(pair=pair) as d:
            code, _, err = curl(d.port, "/version", ca=ca)
            check(code == 60 and re.search(why, err), "%s: %d %s" % (why, code, err))
            if why == "expired":
                d.wait_log("event=certificate_expired")
            if ca is OTHER_CA:
                d.wait_log("event=refused .*reason=tls .*alert unknown ca")


@case
def files_of_no_use():
    with tempfile.TemporaryDirectory() as folder:
        empty = folder + "/empty"
        open(empty, "w", encoding="ascii").close()
        cert, key = SERVER
        upstream, journal = ["--upstream=a:1"], ["--journal=etcd://127.0.0.1:1/a"]
        for flags, setting, why in (
                (["--cert=/nowhere", "--key=" + key], "--cert", "/nowhere: No such file"),
                (["--cert=" + empty, "--key=" + key], "--cert", empty + ": no start line"),
                (["--cert=" + cert, "--key=" + empty], "--key", empty),
                (["--cert=" + cert, "--key=" + CA.issue()[1]], "--key",
                 "key values mismatch: it is not the key of the certificate"),
                (["--client-ca=" + empty] + tls_flags(), "--client-ca", empty),
                (["--client-ca=" + CA.pem, "--crl=" + empty] + tls_flags(), "--crl", empty),
                (upstream + ["--upstream-ca=" + empty], "--upstream-ca", empty),
                (upstream + ["--upstream-ca=" + CA.pem, "--upstream-cert=" + cert, "--upstream-key=" + CA.issue()[1]],
                 "--upstream-key", "key values mismatch"),
                (journal + ["--journal-ca=" + CA.pem, "--journal-cert=" + empty, "--journal-key=" + key],
                 "--journal-cert", empty)):
            ran = subprocess.run([rdzvd_binary(), "--listen=127.0.0.1:0", *flags], capture_output=True, text=True,
                                 timeout=60)
            check(ran.returncode == 1 and "event=certificate_failed setting=%s reason=" % setting in ran.stderr
                  and why in ran.stderr and "hint=" in ran.stderr, "%s: %s" % (flags, ran.stderr))


# --- New certificates. ---

def serial(port):
    with connect(port) as s:
        return s.getpeercert()["serialNumber"]


@case
def new_certificates_under_load():
    """As Kubernetes changes a secret: tls.crt -> ..data/tls.crt, ..data -> ..one, which becomes ..two."""
    folder = tempfile.mkdtemp(prefix="rdzv-secret-")
    made = []

    def put(name, pair):
        os.mkdir(os.path.join(folder, name))
        for source, target in zip(pair, ("tls.crt", "tls.key")):
            shutil.copy(source, os.path.join(folder, name, target))
        os.symlink(name, os.path.join(folder, "..new"))
        os.rename(os.path.join(folder, "..new"), os.path.join(folder, "..data"))

    put("..one", SERVER)
    for name in ("tls.crt", "tls.key"):
        os.symlink("..data/" + name, os.path.join(folder, name))
    errors, stop, requests = [], threading.Event(), [0]

    def load(port):
        while not stop.is_set():
            try:
                with urllib.request.urlopen("https://localhost:%d/version" % port, context=client_context(),
                                            timeout=30) as reply:
                    same(reply.status, 200, "status")
                requests[0] += 1
            except Exception as error:  # all of them are failures
                errors.append(repr(error))

    flags = ["--cert=%s/tls.crt" % folder, "--key=%s/tls.key" % folder]
    with Rdzvd(*flags) as d:
        old = TlsPeer(d.port)
        threads = [threading.Thread(target=load, args=(d.port,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        seen = {serial(d.port)}
        for i in range(2, 5):
            put("..%d" % i, CA.issue())
            d.wait_log("event=certificate_loaded", count=i)
            made.append(serial(d.port))
            check(made[-1] not in seen, "the new certificate is in use")
            seen.add(made[-1])
        put("..bad", (CA.issue()[0], SERVER[1]))  # a key of another certificate
        d.wait_log("event=certificate_kept .*key values mismatch")
        same(serial(d.port), made[-1], "the old one stays")
        put("..good", CA.issue())
        d.wait_log("event=certificate_loaded", count=5)
        d.process.send_signal(signal.SIGHUP)
        d.wait_log("event=certificate_loaded", count=6)
        same(old.add(b"n", 1), 1, "a connection from before")
        stop.set()
        for thread in threads:
            thread.join()
        check(requests[0] > 10, "%d requests" % requests[0])
        same(errors, [], "errors")
    shutil.rmtree(folder)


def asks(d, context, session=None):
    """What comes of a request over a new connection; empty: it is refused. And the session."""
    try:
        raw = socket.create_connection(("127.0.0.1", d.port), timeout=30)
        with context.wrap_socket(raw, server_hostname="localhost", session=session) as s:
            s.sendall(request())
            return read_all(s), s.session
    except (ssl.SSLError, OSError):
        return b"", None


def short_sessions(d, valid_s):
    """Of a client whose certificate is valid for so long: with each version a session."""
    now = time.time()
    begin, end = (time.strftime("%Y%m%d%H%M%SZ", time.gmtime(now + s)) for s in (-60, valid_s))
    pair = CA.issue("worker", "DNS:worker", (begin, end))
    contexts = [client_context(pair, version=v) for v in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)]
    return pair, [(context, asks(d, context)[1]) for context in contexts]


@case
def a_session_ends_with_its_certificate():
    with daemon("--client-ca=" + CA.pem) as d:
        for valid_s in 3, 12, 48:  # a slow machine takes longer for its two sessions
            pair, sessions = short_sessions(d, valid_s)
            if all(session is not None for _, session in sessions):
                break
        while asks(d, client_context(pair))[0] != b"":
            pass
        for context, session in sessions:
            same(asks(d, context, session)[0], b"", "over a session from before")
        d.wait_log("event=refused .*resumes a session whose certificate has expired", count=2)


@case
def a_revoked_client_is_out_when_the_list_changes():
    ca = certs.Ca()
    pair, server = ca.issue("worker", "DNS:worker"), ca.issue()
    crl = ca.revoke()
    with daemon("--client-ca=" + ca.pem, "--crl=" + crl, pair=server) as d:
        context = client_context(pair, ca=ca)
        with connect(d.port, context) as s:
            s.sendall(request())
            read_all(s)
            session = s.session
        ca.revoke(pair)
        d.wait_log("event=certificate_loaded", count=2)
        try:
            raw = socket.create_connection(("127.0.0.1", d.port), timeout=30)
            with context.wrap_socket(raw, server_hostname="localhost", session=session) as s:
                s.sendall(request())
                got = read_all(s)
        except (ssl.SSLError, OSError):
            got = b""
        same(got, b"", "its session is not resumed")
        d.wait_log("event=refused .*certificate revoked")


# --- Who may do what. ---

@case
def operators_by_certificate():
    admin, other = CA.issue("admin", "DNS:admin.example"), CA.issue("other", "DNS:other.example")
    with daemon("--client-ca=" + CA.pem, "--client-cert=optional", "--admin-names=admin.example,x") as d:
        for pair, status in ((admin, "200"), (other, "403"), (None, "403")):
            args = ["--cert", pair[0], "--key", pair[1]] if pair else []
            _, out, err = curl(d.port, "/rdzv/v1/spaces/default", "-XDELETE", "-o", "/dev/null", "-w",
                               "%{http_code}", *args)
            same(out, status, "with %r: %s" % (pair, err))
        with Rdzvd("--upstream=localhost:%d" % d.port, "--upstream-ca=" + CA.pem, *relay_flags(admin)) as r:
            r.wait_log("event=upstream_connected")
            _, out, _ = curl(r.port, "/rdzv/v1/spaces/default", "-XDELETE", "-o", "/dev/null", "-w", "%{http_code}",
                             scheme="http")
            same(out, "403", "a client of the admin's relay")


@case
def readers_by_certificate():
    admin, reader, other = [CA.issue(name, "DNS:%s.example" % name) for name in ("admin", "reader", "other")]
    with daemon("--client-ca=" + CA.pem, "--client-cert=optional", "--admin-names=admin.example",
                "--read-names=reader.example") as d:
        for pair, method, status in ((reader, "GET", "200"), (admin, "GET", "200"), (other, "GET", "403"), (None, "GET", "403"),
                                     (reader, "DELETE", "403"), (admin, "DELETE", "200")):
            args = ["--cert", pair[0], "--key", pair[1]] if pair else []
            _, out, err = curl(d.port, "/rdzv/v1/status" if method == "GET" else "/rdzv/v1/spaces/default", "-X" + method,
                               "-o", "/dev/null", "-w", "%{http_code}", *args)
            same(out, status, "%s with %r: %s" % (method, pair, err))


@case
def relays_by_certificate():
    a, b = CA.issue("a", "URI:spiffe://cluster/a"), CA.issue("b", "DNS:b.example")
    with daemon("--client-ca=" + CA.pem, "--client-cert=optional",
                "--relay-names=job-a=spiffe://cluster/a,job-b=b.example,job-b=c.example") as d:
        for pair, space, fine in ((a, "job-a", True), (b, "job-b", True), (a, "job-b", False), (b, "job-a", False),
                                  (None, "job-a", False), (None, "job-c", True), (a, "job-c", True)):
            with relay(d.port, "--space=" + space, *(relay_flags(pair) if pair else ())) as r:
                r.wait_log("event=upstream_connected" if fine else "event=upstream_refused .*--relay-names")
                if fine:
                    same(Peer(r.port).add(b"n", 1) > 0, True, "ADD")
        with Rdzvd("--upstream=127.0.0.1:%d" % d.port, "--space=job-a") as r:
            r.wait_log("event=upstream_refused .*--relay-names")
        d.wait_log("event=refused .*reason=relay .*--relay-names", count=4)
    for flags, why in ((["--relay-names=a=b", *tls_flags()], "needs the CA"),
                       (["--admin-names=*", "--client-ca=x", *tls_flags()], "is no name"),
                       (["--read-names=a", *tls_flags()], "needs the CA"),
                       (["--relay-names=ab", "--client-ca=x", *tls_flags()], "write SPACE=NAME"),
                       (["--relay-names==b", "--client-ca=x", *tls_flags()], "write SPACE=NAME")):
        ran = subprocess.run([rdzvd_binary(), *flags, "--check-config"], capture_output=True, text=True)
        check(ran.returncode == 2 and why in ran.stderr, "%s: %s" % (flags, ran.stderr))
