"""librdzv and rdzvctl over TLS, with a real rdzvd: connections that work, and the error message for each fault.

    tls.py [NAME...]     all cases, or the cases whose name contains a NAME

The daemon is $RDZVD, else that of build/; the programs come from the same build.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import cases  # noqa: E402
import certs  # noqa: E402
from cases import case, check  # noqa: E402
from servers import ROOT, Rdzvd, free_port, rdzvd_binary  # noqa: E402

BUILD = os.path.dirname(os.path.dirname(os.path.abspath(rdzvd_binary())))
RDZVCTL = os.path.join(BUILD, "client", "rdzvctl")
TOKEN = os.path.join(ROOT, "tests", "support", "operator.token")

CA, OTHER_CA = certs.Ca(), certs.Ca("another-ca")
SERVER, CLIENT = CA.issue(), CA.issue("agent", None)
USAGE, UNREACHABLE = 2, 3


def pair_flags(pair):
    return ["--cert=" + pair[0], "--key=" + pair[1]]


def daemon(*flags, pair=SERVER):
    return Rdzvd(*pair_flags(pair), "--plaintext=off", *flags)


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("RDZVCTL_")}
    return dict(env, **more)


def rdzvctl(*args, code=0, **env):
    done = subprocess.run([RDZVCTL, *args], capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, env=environment(**env))
    check(done.returncode == code, "%s: exit %d, not %d\n%s%s" % (
        " ".join(args), done.returncode, code, done.stdout, done.stderr))
    return done.stdout, done.stderr


def has(text, *wanted):
    for word in wanted:
        check(word in text, "no %r in:\n%s" % (word, text))


def every_call(*args):
    done = subprocess.run([os.path.join(BUILD, "tests/every_call"), *args], capture_output=True,
                          text=True, timeout=300)
    check(done.returncode == 0, "every_call %s: exit %d: %s" % (
        " ".join(args), done.returncode, done.stderr))


# --- What works. ---


@case
def every_call_works_over_tls():
    with daemon("--client-ca=" + CA.pem) as d:
        for host in ("localhost", "127.0.0.1"):
            every_call("%s:%d" % (host, d.port), "--queues", "--barrier", "--tls", CA.pem, *CLIENT)


@case
def every_allocation_may_fail():
    with daemon("--client-ca=" + CA.pem) as d:
        every_call("127.0.0.1:%d" % d.port, "--memory", "--tls", CA.pem, *CLIENT)


@case
def every_kind_of_command_works_over_tls():
    """c10d, HTTP and a stream of events; by flags, and by the environment."""
    env = dict(RDZVCTL_CACERT=CA.pem, RDZVCTL_CERT=CLIENT[0], RDZVCTL_KEY=CLIENT[1])
    with daemon("--client-ca=" + CA.pem, "--admin-token-file=" + TOKEN) as d:
        flags = ["--cacert", CA.pem, "--cert", CLIENT[0], "--key=" + CLIENT[1]]
        for server in ("localhost:%d", "https://localhost:%d", "https://127.0.0.1:%d/"):
            words = ["-s", server % d.port]
            rdzvctl(*words, *flags, "set", "/a", "one")
            check(rdzvctl(*words, "get", "/a", **env)[0] == "one\n", "a value")
            has(rdzvctl(*words, *flags, "spaces")[0], "default")
            has(rdzvctl(*words, "health", **env)[0], "answers 200")
        env["RDZVCTL_SERVER"] = "https://localhost:%d" % d.port
        process = subprocess.Popen([RDZVCTL, "monitor", "-c", "4", "--token-file", TOKEN], text=True,
                                   stdout=subprocess.PIPE, env=environment(**env))
        while process.poll() is None:
            rdzvctl("add", "/n", **env)
        has(process.communicate()[0], " ADD ")
        has(rdzvctl("top", "--interval", "50ms", **env)[0], "requests/s")


@case
def a_plain_server_beside_the_files_of_another():
    """Files in the environment are for all servers; what says http:// is asked without TLS."""
    with Rdzvd() as d:
        for command in (["keys"], ["spaces"]):
            rdzvctl("-s", "http://127.0.0.1:%d" % d.port, *command, RDZVCTL_CACERT=CA.pem)


@case
def preflight_checks_certificates():
    with daemon() as d:
        words = ["-s", "localhost:%d" % d.port, "--cacert", CA.pem, "preflight"]
        out, _ = rdzvctl(*words, PET_LOCAL_ADDR="127.0.0.1")
        check(re.findall(r"^(\w+) +ok: ", out, re.M) == [
            "name", "tls", "c10d", "ready", "round_trip", "clock", "self"], out)
        check(re.search(r"^tls +ok: TLSv1.3, the certificate of localhost ends 20\d\d-\d\d-\d\d$", out, re.M), out)
        steps = json.loads(rdzvctl(*words, "-o", "json")[0])["steps"]
        check(steps[1]["step"] == "tls" and steps[1]["state"] == "ok", str(steps))
        words[3] = OTHER_CA.pem
        out, err = rdzvctl(*words, "--timeout", "0s", code=UNREACHABLE)
        check(re.search(r"^tls +failed: .*signed it.*--cacert", out, re.M) and "c10d" not in out, out)


@case
def a_replica_that_does_not_lead_says_so():
    """It closes c10d connections when TLS has come about."""
    with daemon("--journal=etcd://127.0.0.1:%d/test" % free_port()) as d:
        words = ["-s", "localhost:%d" % d.port, "--cacert", CA.pem]
        for command in (["keys"], ["get", "/a"], ["latency"]):
            has(rdzvctl(*words, *command, code=UNREACHABLE)[1], "does it take this client",
                "a replica that does not lead", "`rdzvctl health --ready`")
        out, _ = rdzvctl(*words, "preflight", "--timeout", "0s", code=UNREACHABLE, PET_LOCAL_ADDR="127.0.0.1")
        check(re.findall(r"^(\w+) +(\w+): ", out, re.M) == [
            ("name", "ok"), ("tls", "ok"), ("c10d", "warning"), ("ready", "failed"), ("self", "ok")], out)
        has(out, "TLSv1.3, the certificate of localhost ends", "this replica does not lead")


@case
def a_name_can_be_expected_that_is_not_the_host():
    pair = CA.issue("store", "DNS:rdzvd.ml.svc")
    with daemon(pair=pair) as d:
        words = ["-s", "localhost:%d" % d.port, "--cacert", CA.pem]
        for command in (["add", "/n"], ["spaces"], ["preflight"]):
            rdzvctl(*words, *command, "--tls-server-name", "rdzvd.ml.svc")
            rdzvctl(*words, *command, RDZVCTL_TLS_SERVER_NAME="rdzvd.ml.svc")


@case
def files_that_change_are_taken_with_the_next_connection():
    """An init container waits until the right CA is there."""
    ca = CA.path("changing.pem")
    shutil.copy(OTHER_CA.pem, ca)
    with daemon() as d:
        process = subprocess.Popen([RDZVCTL, "-s", "localhost:%d" % d.port, "--cacert", ca, "preflight",
                                    "--timeout", "60s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=environment())
        has(process.stderr.readline(), "signed it", "trying for 60 s")
        shutil.copy(CA.pem, ca + ".new")
        os.rename(ca + ".new", ca)
        out, err = process.communicate(timeout=60)
        check(process.returncode == 0, out + err)


@case
def the_clients_word_is_tls_1_2_or_later():
    with daemon() as d, tls_server("-tls1_1", "-cipher", "ALL:@SECLEVEL=0") as port:
        rdzvctl("-s", "localhost:%d" % d.port, "--cacert", CA.pem, "keys")
        for command in ("keys", "spaces"):
            _, err = rdzvctl("-s", "localhost:%d" % port, "--cacert", CA.pem, command, code=UNREACHABLE)
            has(err, "protocol version", "TLS 1.2 or later")


# --- What is refused. ---


@contextlib.contextmanager
def tls_server(*flags):
    """OpenSSL's own server, which is no store."""
    port = free_port()
    process = subprocess.Popen(["openssl", "s_server", "-accept", "127.0.0.1:%d" % port, "-cert", SERVER[0],
                                "-key", SERVER[1], *flags], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace")
    try:
        while "ACCEPT" not in (line := process.stdout.readline()):
            check(line, "openssl s_server has ended")
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield port
    finally:
        process.kill()
        process.wait()


def refused(port, args, *wanted, both=True):
    """What c10d, HTTP and preflight say of a fault: the same."""
    commands = (["get", "/a"], ["spaces"], ["preflight", "--timeout", "0s"])
    for command in commands if both else commands[:1]:
        out, err = rdzvctl("-s", "localhost:%d" % port, *args, *command, code=UNREACHABLE)
        said = out if command[0] == "preflight" else err
        has(said, *wanted)
        if command[0] != "preflight":
            check(len(err.splitlines()) == 1, err)
            check("--cacert" in err or "did not greet" in err, err)


@case
def a_server_whose_certificate_is_no_good():
    ca = ["--cacert", CA.pem]
    for pair, args, words in (
            (SERVER, ["--cacert", OTHER_CA.pem], ("unable to get local issuer certificate", "CA that signed it")),
            (certs.self_signed(CA), ca, ("self-signed certificate", "CA that signed it")),
            (CA.expired(), ca, ("certificate has expired", "clock of this machine")),
            (CA.early(), ca, ("certificate is not yet valid", "clock of this machine")),
            (CA.issue("store", "DNS:rdzvd.ml.svc"), ca, ("connect by a name of that certificate",))):
        with daemon(pair=pair) as d:
            refused(d.port, args, *words)
    with daemon(pair=CA.issue("store", "DNS:rdzvd.ml.svc,IP:10.1.2.3")) as d:
        refused(d.port, ca, "CN=store (rdzvd.ml.svc, 10.1.2.3): hostname mismatch", both=False)


@case
def a_client_whose_certificate_is_no_good():
    ca = ["--cacert", CA.pem]
    with daemon("--client-ca=" + CA.pem) as d, \
            tls_server("-tls1_2", "-Verify", "1", "-verify_return_error", "-CAfile", CA.pem) as old:
        # TLS 1.3 tells of it behind the handshake, 1.2 within.
        refused(d.port, ca, "alert certificate required", "give such a certificate")
        refused(old, ca, "alert handshake failure", "a certificate of ours?")
        for port in (d.port, old):
            refused(port, ca + pair_flags(OTHER_CA.issue("stranger", None)), "alert unknown ca", "its own CA")
            refused(port, ca + pair_flags(CA.expired("agent", None)), "alert certificate expired", "renew this client",
                    both=port == d.port)  # libcurl has words of its own for it
    with daemon("--client-ca=" + CA.pem, "--client-names=trainer") as d:
        refused(d.port, ca + pair_flags(CLIENT), "did not greet", "does it take this client", both=False)


@case
def files_of_ours_that_are_no_good():
    """c10d, HTTP and a probe say the same, name the option, and ask no store. preflight waits for them."""
    empty = CA.write("empty.pem", "")
    ca, cert = ["--cacert", CA.pem], ["--cert", CLIENT[0]]
    for args, words in (
            (["--cacert", "/no/such/file"], ("--cacert: /no/such/file: No such file", "certificates of CAs, in PEM")),
            (["--cacert", empty], ("--cacert: " + empty,)),
            (ca + ["--cert", "/no/cert", "--key", CLIENT[1]], ("--cert: /no/cert: No such file", "a certificate in PEM")),
            (ca + ["--cert", empty, "--key", CLIENT[1]], ("--cert: " + empty,)),
            (ca + cert + ["--key", "/no/key"], ("--key: /no/key: No such file",)),
            (ca + cert + ["--key", empty], ("--key: " + empty, "in PEM and without a password")),
            (ca + cert + ["--key", SERVER[1]], ("--key: %s: key values mismatch" % SERVER[1], "certificate in --cert"))):
        server = ["-s", "localhost:%d" % free_port()]
        for command in (["get", "/a"], ["spaces"], ["status", "-w"], ["health"]):
            out, err = rdzvctl(*server, *args, *command, code=USAGE)
            has(err, *words)
            check(out == "" and len(err.splitlines()) == 1, out + err)
        out, err = rdzvctl(*server, *args, "preflight", "--timeout", "0s", code=UNREACHABLE)
        check(re.search("^tls +failed: " + re.escape(words[0]), out, re.M), out)


@case
def what_speaks_no_tls():
    with Rdzvd() as d:
        refused(d.port, ["--cacert", CA.pem], "alert handshake failure", "does this port speak TLS at all")
    for answer in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b""):
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def serve():
                with contextlib.suppress(OSError):
                    while True:
                        peer = listener.accept()[0]
                        with peer:
                            peer.recv(1000)
                            peer.sendall(answer)

            threading.Thread(target=serve, daemon=True).start()
            port = listener.getsockname()[1]
            refused(port, ["--cacert", CA.pem], *(("wrong version number", "speaks no TLS") if answer else ()),
                    both=bool(answer))


@case
def tls_that_is_no_store():
    with tls_server() as port:  # it says nothing
        _, err = rdzvctl("-s", "localhost:%d" % port, "--cacert", CA.pem, "get", "/a", "--timeout", "1s", code=3)
        has(err, "no greeting within 1 s", "the port of another service?")


@case
def a_client_without_tls_hears_that_it_is_wanted():
    with daemon() as d:
        _, err = rdzvctl("-s", "localhost:%d" % d.port, "get", "/a", code=UNREACHABLE)
        has(err, "Does it want TLS?")
        for command in (["spaces"], ["health"], ["health", "--ready"]):
            out, err = rdzvctl("-s", "localhost:%d" % d.port, *command, code=2)
            has(err, "it speaks TLS alone: use -s https://")
            check(out == "", out)


if __name__ == "__main__":
    sys.exit(cases.run("tests/client/tls.py"))
