"""rdzvctl against a real rdzvd: every command, what it prints, its exit codes; and its help, manual page
and completions against each other.

    ctl.py [NAME...]     all cases, or the cases whose name contains a NAME

The daemon is $RDZVD, else that of build/; rdzvctl comes from the same build.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("support", "elastic"):
    sys.path.insert(0, os.path.join(HERE, "..", folder))
import cases  # noqa: E402
from agents import meet  # noqa: E402
from c10d import Peer  # noqa: E402
from cases import case, check  # noqa: E402
from disk import NEEDS_ROOT, fill_disk, put_ballast, small_disk  # noqa: E402
from servers import Etcd, Rdzvd, free_port, rdzvd_binary, token_flag  # noqa: E402
from ctl_program import FINE, MISSING, RDZVCTL, REFUSED, TOKEN, UNREACHABLE, USAGE, environment, has, job, rdzvctl  # noqa: E402
from ctl_runs import line_with, running  # noqa: E402


# ---- keys


@case
def keys_are_written_and_read():
    with Rdzvd() as daemon:
        check(rdzvctl("set", "/a", "one", server=daemon) == ("", ""), "set says nothing")
        check(rdzvctl("get", "/a", server=daemon)[0] == "one\n", "get")
        check(rdzvctl("get", "--raw", "/a", server=daemon)[0] == "one", "get --raw")
        check(rdzvctl("add", "/n", server=daemon)[0] == "1\n", "add")
        check(rdzvctl("add", "/n", "-5", server=daemon)[0] == "-4\n", "add a negative number")
        binary = bytes(range(256)) * 40
        rdzvctl("set", "/b", "-", server=daemon, stdin=binary)
        done = subprocess.run([RDZVCTL, "-s", "127.0.0.1:%d" % daemon.port, "get", "--raw", "/b"],
                              capture_output=True, timeout=60)
        check(done.stdout == binary, "bytes come back as they are")
        folder = os.open("/", os.O_RDONLY)
        done = subprocess.run([RDZVCTL, "-s", "127.0.0.1:%d" % daemon.port, "set", "/b", "-"], stdin=folder,
                              capture_output=True, text=True, timeout=60)
        os.close(folder)
        check(done.returncode == 5 and "Is a directory; nothing was set" in done.stderr, repr(done))
        out, _ = rdzvctl("get", "/b", server=daemon)
        has(out, "\\x00\\x01", "\\xff")
        pair = json.loads(rdzvctl("get", "/b", "-o", "json", server=daemon)[0])
        import base64
        check(base64.b64decode(pair["base64"]) == binary, "JSON has base64 of what is no text")
        check(rdzvctl("keys", server=daemon)[0] == "/a\n/b\n/n\n", "keys")
        check(rdzvctl("keys", "/n", server=daemon)[0] == "/n\n", "keys of a prefix")
        out, _ = rdzvctl("keys", "-o", "wide", server=daemon)
        check(re.search(r"^/b +10240 +\\x00", out, re.M) and re.search(r"^/n +2 +-4$", out, re.M), out)
        out, err = rdzvctl("delete", "/a", "/absent", "/n", server=daemon, code=MISSING)
        check(out == "/a\n/n\n" and "/absent" in err, out + err)


@case
def what_is_absent_is_said_with_what_to_do():
    with Rdzvd() as daemon:
        rdzvctl("set", "/torch", "1", server=daemon)
        _, err = rdzvctl("get", "torch", server=daemon, code=MISSING)
        has(err, "has no key torch; there is /torch")
        _, err = rdzvctl("get", "/other", server=daemon, code=MISSING)
        has(err, "`rdzvctl keys` lists")
        _, err = rdzvctl("add", "/bad", server=daemon)
        rdzvctl("set", "/bad", "text", server=daemon)
        _, err = rdzvctl("add", "/bad", server=daemon, code=UNREACHABLE)
        has(err, "closed the connection", "no number")


@case
def a_store_that_says_nothing_has_no_key_missing():
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = "127.0.0.1:%d" % mute.getsockname()[1]
        for command in (("get", "/k"), ("set", "/k", "v"), ("delete", "/k"), ("add", "/k"), ("keys",), ("status",)):
            _, err = rdzvctl("-s", address, "--timeout", "50ms", *command, code=UNREACHABLE)
            has(err, "within 0.05 s" if command[0] != "status" else address)
        for command in (("wait", "/k"), ("get", "--wait", "/k")):
            _, err = rdzvctl("-s", address, "--timeout", "50ms", *command, code=UNREACHABLE)
            has(err, address)


@case
def a_stream_has_to_begin_in_time():
    """And may then last longer."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = "127.0.0.1:%d" % mute.getsockname()[1]
        for command in (["monitor"], ["status", "-w"]):
            began = time.monotonic()
            _, err = rdzvctl("-s", address, "--timeout", "500ms", *command, code=UNREACHABLE)
            has(err, "nothing at %s answers HTTP (" % address, "is it reached from here, and not stopped?")
            check(time.monotonic() - began < 9, "%s took as long as without --timeout" % command)
    with Rdzvd(token_flag()) as daemon:
        with running(daemon, "status", "-w", "--timeout", "1s") as process:
            line_with(process, "no runs")
            time.sleep(2.2)  # more than --timeout, and the second after which rdzvctl looks at it
            peer = meet(daemon.port, "JOB", ["a"])[0]
            line_with(process, "RUN JOB")
            peer.close()


@case
def a_long_interval_is_waited_for():
    with Rdzvd() as daemon:
        process = subprocess.Popen([RDZVCTL, "-s", "127.0.0.1:%d" % daemon.port, "spaces", "--watch",
                                    "--interval", "4295s"], stdout=subprocess.PIPE, text=True)
        process.stdout.readline()
        try:
            process.communicate(timeout=0.3)
            check(False, "it has ended")
        except subprocess.TimeoutExpired as e:
            check((e.stdout or b"").count(b"SPACE") == 0, "it looked again: %r" % e.stdout)
        finally:
            process.terminate()
            process.wait()


@case
def an_empty_variable_is_none():
    with Rdzvd() as daemon:
        rdzvctl("spaces", server=daemon, RDZVCTL_TOKEN_FILE="", RDZVCTL_CACERT="")


@case
def a_wait_ends_with_the_key_or_with_time():
    with Rdzvd() as daemon:
        _, err = rdzvctl("wait", "--timeout", "1s", "/x", "/y", server=daemon, code=MISSING)
        has(err, '"/x" and 1 more', "within 1 s")
        rdzvctl("wait", "--timeout", "0s", "/x", server=daemon, code=MISSING)
        process = subprocess.Popen([RDZVCTL, "-s", "127.0.0.1:%d" % daemon.port, "get", "--wait",
                                    "/x"], stdout=subprocess.PIPE, text=True)
        while not re.search(r"^default .* 1 +0 +0$", rdzvctl("spaces", server=daemon)[0], re.M):
            pass
        rdzvctl("set", "/x", "here", server=daemon)
        check(process.communicate(timeout=60)[0] == "here\n" and process.returncode == 0, "get --wait")
        rdzvctl("wait", "/x", server=daemon)


@case
def watch_prints_each_value():
    with Rdzvd() as daemon:
        process = subprocess.Popen([RDZVCTL, "-s", "127.0.0.1:%d" % daemon.port, "watch", "/w",
                                    "--interval", "10ms"], stdout=subprocess.PIPE, text=True)
        for value in ("one", "two", "three"):
            rdzvctl("set", "/w", value, server=daemon)
            check(process.stdout.readline() == value + "\n", value)
        process.terminate()
        process.communicate(timeout=60)


@case
def values_that_are_too_much_for_one_answer_come_in_several():
    with Rdzvd() as daemon:
        peer = Peer(daemon.port)
        for i in range(20):
            peer.set(b"large/%02d" % i, b"x" * (4 << 20))
            peer.set(b"small/%02d" % i, b"y")
            peer.ping()
        out, _ = rdzvctl("keys", "-o", "wide", server=daemon)
        check(len(re.findall(r"^large/\d\d +4194304 +x+", out, re.M)) == 20, out[:500])
        check(len(re.findall(r"^small/\d\d +1 +y$", out, re.M)) == 20, out[:500])


# ---- can it be used?


@case
def preflight_passes_and_says_what_it_saw():
    with Rdzvd() as daemon:
        out, _ = rdzvctl("preflight", server=daemon)
        check(re.findall(r"^(\w+) +ok: ", out, re.M)[:5] == ["name", "c10d", "ready", "round_trip", "clock"], out)
        has(out, " ms, the best of 5\n")
        result = json.loads(rdzvctl("preflight", "-o", "json", server=daemon)[0])
        check(result["ok"] and result["tries"] == 1 and abs(result["clock_ahead_seconds"]) < 2 and
              0 < result["round_trip_ms"] < 1000, str(result))


@case
def preflight_tells_the_name_that_torch_takes():
    """A warning, for torchrun may have another --local-addr than the environment says."""
    with Rdzvd() as daemon:
        for given, state, wanted in (("localhost", "ok", "torch calls this machine localhost, which is "),
                                     ("no-such-host.invalid", "warning", "torch calls this machine no-such-host.invalid: "),
                                     ("192.0.2.1", "warning", "192.0.2.1: it has no such address: 192.0.2.1; agent 0 "
                                      "would hang here for minutes: torchrun --local-addr=ADDRESS")):
            out, _ = rdzvctl("preflight", server=daemon, PET_LOCAL_ADDR=given)
            has(out, "\nself        %s: " % state, wanted)
        out, _ = rdzvctl("preflight", server=daemon, PET_LOCAL_ADDR="")
        name = re.search(r"torch calls this machine ([^\s,:]+)", out).group(1)
        check(name in (socket.getfqdn(), socket.gethostname()), out)  # the latter where nothing resolves it


@case
def preflight_checks_the_token_that_it_has():
    with tempfile.TemporaryDirectory() as folder:
        right, wrong = (os.path.join(folder, name) for name in ("right", "wrong"))
        for path in (right, wrong):
            with open(path, "w", encoding="ascii") as f:
                f.write("token of %s\n" % path)
        with Rdzvd("--read-token-file=" + right) as daemon:
            check("token" not in rdzvctl("preflight", server=daemon)[0], "there is none")
            has(rdzvctl("preflight", "--token-file", right, server=daemon)[0], "token       ok: the store lets this client read\n")
            out, _ = rdzvctl("preflight", "--token-file", wrong, server=daemon, code=REFUSED)
            has(out, "token       failed: The token is not that of --read-token-file; it is in " + wrong, "self ")
            out, _ = rdzvctl("preflight", "-o", "json", "--token-file", wrong, server=daemon, code=REFUSED)
            check(not json.loads(out)["ok"], out)


@case
def preflight_waits_for_a_store_that_comes_later():
    port = free_port()
    process = subprocess.Popen([RDZVCTL, "-s", "127.0.0.1:%d" % port, "preflight", "--timeout",
                                "60s", "-o", "json"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=environment())
    first = process.stderr.readline()
    has(first, "Connection refused", "trying for 60 s")
    with Rdzvd(listen=("127.0.0.1:%d" % port,)):
        out, err = process.communicate(timeout=60)
    result = json.loads(out)
    check(process.returncode == FINE and result["ok"] and result["tries"] > 1, out + err)


@case
def preflight_takes_no_longer_than_it_may():
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = "127.0.0.1:%d" % mute.getsockname()[1]
        result = json.loads(rdzvctl("-s", address, "preflight", "--timeout", "500ms", "-o", "json",
                                    code=UNREACHABLE)[0])
        check(result["tries"] == 1 and result["seconds"] < 2, str(result))
        check(result["steps"][1]["state"] == "failed", str(result))


@case
def preflight_says_which_step_fails():
    _, err = rdzvctl("-s", "no-such-host.invalid:29400", "preflight", "--timeout", "0s",
                     code=UNREACHABLE)
    out, _ = rdzvctl("-s", "no-such-host.invalid:29400", "preflight", "--timeout", "0s", "-o", "json",
                     code=UNREACHABLE)
    steps = {s["step"]: s["state"] for s in json.loads(out)["steps"] if s["step"] != "self"}
    check(steps == {"name": "failed", "c10d": "not tried", "ready": "not tried",
                    "round_trip": "not tried", "clock": "not tried"}, str(steps))
    with socket.create_server(("127.0.0.1", 0)) as mute:  # accepts, and says nothing
        address = "127.0.0.1:%d" % mute.getsockname()[1]
        out, err = rdzvctl("-s", address, "preflight", "--timeout", "0s", code=UNREACHABLE)
        has(out, "c10d", "failed", "no greeting within 3 s")


@case
def preflight_says_that_a_store_takes_no_changes():
    """A PING is answered all the same."""
    with small_disk(20 << 20) as folder:  # what it keeps is more than the reserve
        if folder is None:
            return NEEDS_ROOT
        ballast = put_ballast(folder, 8 << 20)
        with Rdzvd("--data-dir=" + folder) as daemon:
            fill_disk(Peer(daemon.port), b"fill")
            daemon.wait_log("event=journal_failed")
            out, err = rdzvctl("preflight", "--timeout", "1s", server=daemon, code=UNREACHABLE)
            has(out, "c10d        ok", "ready       failed: journal failed: ", "No space left on device")
            has(err, "No space left on device; trying for 1 s")
            os.unlink(ballast)
            has(rdzvctl("preflight", server=daemon)[0], "ready       ok")
    return None


@case
def a_relay_without_its_store_is_told_from_nothing():
    port = free_port()
    with Rdzvd("--upstream=127.0.0.1:%d" % port) as relay:
        never = "upstream failed: no store was reached yet, at 127.0.0.1:%d" % port
        relay.wait_log("event=upstream_failed")
        out, _ = rdzvctl("preflight", "--timeout", "0s", server=relay, code=UNREACHABLE)
        has(out, "c10d        warning: 127.0.0.1:%d accepts connections but does not answer" % relay.port, never)
        for command in ("status", "spaces"):
            _, err = rdzvctl(command, "--timeout", "1s", server=relay, code=UNREACHABLE)
            has(err, "127.0.0.1:%d has not answered, since it is not ready: " % relay.port + never)
        with Rdzvd(listen=("127.0.0.1:%d" % port,)):
            relay.wait_log("event=upstream_connected")
            has(rdzvctl("preflight", server=relay)[0], "ready       ok")
            has(rdzvctl("top", "--interval", "100ms", server=relay)[0], "This relay has no spaces")
        relay.wait_log("event=upstream_lost")
        out, _ = rdzvctl("preflight", "--timeout", "0s", server=relay, code=UNREACHABLE)
        has(out, "c10d        ok", "ready       failed: the store has been away for ")
        _, err = rdzvctl("status", "--timeout", "1s", server=relay, code=UNREACHABLE)
        has(err, "has not answered, since it is not ready: the store has been away for ")


@case
def an_etcd_is_told_from_an_rdzvd():
    if shutil.which("etcd") is None:
        return "there is no etcd"
    with Etcd() as etcd:
        for command in (["status"], ["preflight", "--timeout", "1s"]):
            out, err = rdzvctl(*command, server=etcd, code=1 if command == ["status"] else UNREACHABLE)
            has(out + err, "an etcd answers there, and rdzvctl asks rdzvd only")
    return None


@contextlib.contextmanager
def follower():
    """A replica that does not lead: nothing listens where its etcd is to be."""
    with Rdzvd("--journal=etcd://127.0.0.1:%d/test" % free_port()) as replica:
        yield replica


@case
def a_replica_that_does_not_lead_is_told_from_nothing():
    with follower() as replica:
        for command in (["keys"], ["get", "/k"], ["latency"]):
            _, err = rdzvctl(*command, server=replica, code=UNREACHABLE)
            has(err, "a replica that does not lead (see its /readyz)?", "`rdzvctl health --ready` says so")
        out, _ = rdzvctl("preflight", "--timeout", "0s", server=replica, code=UNREACHABLE)
        has(out, "c10d        warning: 127.0.0.1:%d accepts connections but does not answer" % replica.port,
            "ready       failed: journal failed: this replica does not lead")
        out, _ = rdzvctl("health", "--ready", "-o", "wide", server=replica, code=MISSING)
        has(out, "[-]journal failed: this replica does not lead", "[-]leader failed: this replica does not lead")
        has(rdzvctl("top", "--interval", "100ms", server=replica)[0], "SPACE ",
            "It is a replica that does not lead, and has no spaces")
        top = json.loads(rdzvctl("top", "--interval", "100ms", "-o", "json", server=replica)[0])
        check(top["role"] == "standby" and top["spaces"] == [], str(top))
        _, err = rdzvctl("status", server=replica, code=MISSING)
        has(err, "this replica does not lead; see /readyz; with rdzvctl: health --ready")


@case
def who_misses_a_space_hears_where_it_may_be():
    with Rdzvd(token_flag()) as daemon, \
            Rdzvd("--upstream=127.0.0.1:%d" % daemon.port, "--space=jobb") as relay:
        daemon.wait_log("event=space_made space=jobb .*a relay names this new space")
        relay.wait_log("event=upstream_connected .*space=jobb")
        for command in ("status", "spaces"):
            has(rdzvctl(command, server=daemon)[0], "(only space default, that of this listener; operators")
            check("only space" not in rdzvctl(command, "--token-file", TOKEN, server=daemon)[0], command)
        for command, code in (["runs"], 0), (["runs", "--ended"], 0), (["why", "jobb"], MISSING), (["status", "jobb"], MISSING):
            has(rdzvctl(*command, server=daemon, code=code)[1], "(only space default, that of this listener; operators")
            check("only space" not in rdzvctl(*command, "--token-file", TOKEN, server=daemon, code=code)[1], command)
        has(rdzvctl("spaces", "--token-file", TOKEN, server=daemon)[0], "jobb")


@case
def a_token_that_is_no_operators_is_said_to_be_none():
    """The store lets anybody read, and shows what it shows without a token."""
    with tempfile.TemporaryDirectory() as folder, Rdzvd(token_flag()) as daemon:
        wrong = os.path.join(folder, "wrong")
        with open(wrong, "w", encoding="ascii") as f:
            f.write("a guess\n")
        for command in (["spaces"], ["status"], ["runs", "-o", "json"], ["waiters"]):
            _, err = rdzvctl(*command, "--token-file", wrong, server=daemon)
            has(err, "does not take the token in %s (--token-file) for an operator's" % wrong, "only space default")
            for token in (["--token-file", TOKEN], []):
                check("does not take the token" not in rdzvctl(*command, *token, server=daemon)[1], command)
        with running(daemon, "status", "-w", "--token-file", wrong) as process:
            line_with(process, "no runs")
            has(process.stderr.readline(), "for an operator's")


@case
def health_is_the_twin_of_check_health():
    def both(port, path="--"):
        old = subprocess.run([rdzvd_binary(), "--check-health=localhost:%d/livez" % port],
                             capture_output=True, text=True, timeout=60)
        new = subprocess.run([RDZVCTL, "-s", "localhost:%d" % port, "health"], capture_output=True,
                             text=True, timeout=60)
        return old, new

    with Rdzvd() as daemon:
        old, new = both(daemon.port)
        check((old.returncode, old.stdout) == (new.returncode, new.stdout) and old.returncode == 0,
              "%r %r" % (old, new))
        check(rdzvctl("health", "--ready", server=daemon)[0].endswith("/readyz answers 200\n"), "nothing more")
        has(rdzvctl("health", "--ready", "-o", "wide", server=daemon)[0], "/readyz answers 200\n[+]loop ok\n")
    old, new = both(daemon.port)
    check(old.returncode == 1 and new.returncode == UNREACHABLE, "%r %r" % (old, new))
    has(new.stderr, "localhost:%d: Connection refused" % daemon.port)
    with Rdzvd("--upstream=127.0.0.1:1") as relay:
        out, _ = rdzvctl("health", "--ready", server=relay, code=MISSING)
        has(out, "/readyz answers 503\n[", "\n[-]upstream failed: no store was reached yet, at 127.0.0.1:1: ")
        check("\\x" not in out and out.endswith("\n"), out)
        rdzvctl("health", server=relay)


@case
def health_is_json_for_a_script():
    with Rdzvd() as daemon:
        server = "127.0.0.1:%d" % daemon.port
        told = json.loads(rdzvctl("health", "-o", "json", server=daemon)[0])
        check(told == {"server": server, "path": "/livez", "status": 200, "ok": True}, str(told))
        told = json.loads(rdzvctl("health", "--ready", "-o", "json", server=daemon)[0])
        check(told["ok"] and {"check": "loop", "ok": True} in told["checks"], str(told))
        check(all(c["ok"] for c in told["checks"]), str(told))
    with follower() as replica:
        told = json.loads(rdzvctl("health", "--ready", "-o", "json", server=replica, code=MISSING)[0])
        wrong = [c for c in told["checks"] if not c["ok"]]
        check(not told["ok"] and told["status"] == 503, str(told))
        check([c["check"] for c in wrong] == ["journal", "leader"], wrong)
        check(all(c["detail"].startswith("this replica does not lead") for c in wrong), wrong)


@case
def latency_is_measured():
    with Rdzvd() as daemon:
        found = json.loads(rdzvctl("latency", "-c", "10", "--interval", "1ms", "-o", "json",
                                   server=daemon)[0])
        check(found["count"] == 10 and 0 < found["min_ms"] <= found["median_ms"] <= found["p99_ms"] <=
              found["max_ms"] < 10000, str(found))
        has(rdzvctl("latency", "-c", "3", "--interval", "1ms", server=daemon)[0], "3 pings of")


# ---- operators


@case
def only_operators_forget_and_clear():
    with job(["a", "b"]) as (daemon, _):
        rdzvctl("set", "/x", "1", server=daemon)
        _, err = rdzvctl("clear", "default", server=daemon, code=USAGE)
        has(err, "Remove all keys of the space default", "--yes")
        _, err = rdzvctl("clear", "default", "--yes", server=daemon, code=REFUSED)
        has(err, "only for operators", "--token-file")
        out, _ = rdzvctl("forget", "JOB", "-y", "--token-file", TOKEN, server=daemon)
        has(out, "JOB: ", "keys removed")
        rdzvctl("status", "JOB", server=daemon, code=MISSING)
        rdzvctl("clear", "default", "-y", server=daemon, RDZVCTL_TOKEN_FILE=TOKEN)
        check(rdzvctl("keys", server=daemon)[0] == "", "all keys are gone")
        _, err = rdzvctl("forget", "NO", "-y", "--token-file", TOKEN, server=daemon, code=MISSING)
        has(err, "No such run")
        _, err = rdzvctl("clear", "x", "-y", "--token-file", "/no/such/file", server=daemon, code=USAGE)
        has(err, "--token-file: /no/such/file cannot be read: No such file")
        _, err = rdzvctl("clear", "x", "-y", "--token-file", "/dev/null", server=daemon, code=USAGE)
        has(err, "--token-file: /dev/null is empty")


@case
def a_unix_socket_makes_an_operator():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "socket")
        with Rdzvd("--listen=unix:" + path) as daemon:
            rdzvctl("set", "/x", "1", server=daemon)
            has(rdzvctl("-s", "unix:" + path, "clear", "default", "--yes")[0], "1 keys removed")
            has(rdzvctl("-s", "unix:" + path, "spaces")[0], "default")
            _, err = rdzvctl("-s", "unix:" + path, "keys", code=USAGE)
            has(err, "keys go over c10d")
            _, err = rdzvctl("-s", "unix:" + path, "preflight", code=USAGE)
            has(err, "it needs HOST:PORT; at a Unix socket, use `rdzvctl health --ready`")
            rdzvctl("-s", "unix:" + path, "health", "--ready")


# ---- errors


@case
def an_unreachable_server_is_named():
    port = free_port()
    _, err = rdzvctl("-s", "localhost:%d" % port, "status", code=UNREACHABLE)
    has(err, "no rdzvd at localhost:%d: Connection refused; is it started with --listen?" % port,
        "-s HOST:PORT")
    _, err = rdzvctl("keys", code=UNREACHABLE, RDZVCTL_SERVER="127.0.0.1:%d" % port)
    has(err, "127.0.0.1:%d: Connection refused" % port)
    with socket.create_server(("127.0.0.1", 0)) as listener:  # as torch's own store does with HTTP

        def hang_up():
            peer, _ = listener.accept()
            peer.recv(100)
            peer.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        _, err = rdzvctl("-s", "127.0.0.1:%d" % listener.getsockname()[1], "status",
                         code=UNREACHABLE)
        thread.join()
        has(err, "nothing at 127.0.0.1:", " answers HTTP (", "Torch's own store does not")


@case
def a_wrong_command_line_is_explained():
    for words, wanted in ((["stats"], "there is no command stats"), (["list"], "did you mean runs?"), ([], "name a command"),
                          (["get"], "write `rdzvctl get KEY`"), (["get", "a", "b"], "write `rdzvctl"),
                          (["get", "--watch", "a"], "`get` takes no --watch"),
                          (["--colour", "runs"], "there is no option --colour"),
                          (["runs", "-o", "xml"], "-o xml: there are table"),
                          (["runs", "-o"], "-o needs a value"), (["runs", "--watch=1"], "takes no value"),
                          (["-s", "http://x", "--cacert", "f", "runs"], "without TLS"),
                          (["--cert", "f", "runs"], "--cert=f needs its key"),
                          (["--key", "f", "runs"], "needs its certificate"), (["-s", "a:b", "runs"], "no address"),
                          (["wait", "--timeout", "5x", "x"], "--timeout: 5x: no unit of time; use ms"),
                          (["stat"], "did you mean status?"), (["latncy"], "did you mean latency?"),
                          (["runs", "--outpt", "json"], "no option --outpt: did you mean --output?"),
                          (["latency", "-c", "0"], "no number from 1"), (["add", "x", "y"], "no number"),
                          (["completion", "tcsh"], "not for tcsh"), (["help", "stats"], "no command")):
        out, err = rdzvctl(*words, code=USAGE)
        check(out == "" and wanted in err and err.startswith("rdzvctl: "), "%s: %s" % (words, err))


@case
def colours_are_for_terminals():
    with job(["a", "b"], "--expect=3") as (daemon, _):
        argv = [RDZVCTL, "-s", "127.0.0.1:%d" % daemon.port, "status"]

        def shown(**env):
            import pty
            main, end = pty.openpty()
            process = subprocess.Popen(argv, stdout=end, env=environment(**env))
            os.close(end)
            text = b""
            with contextlib.suppress(OSError):  # EIO: the program has ended
                while part := os.read(main, 4096):
                    text += part
            os.close(main)
            process.wait(60)
            return text

        check(b"\x1b[1;31m  MISSING: 1" in shown(), "red, at a terminal")
        check(b"\x1b" not in shown(NO_COLOR="1"), "NO_COLOR")
        check("\x1b" not in rdzvctl("status", server=daemon, code=MISSING)[0], "into a pipe")


@case
def a_full_disk_is_no_answer():
    with open("/dev/full", "wb") as full:
        done = subprocess.run([RDZVCTL, "help"], stdout=full, stderr=subprocess.PIPE, timeout=60)
    check(done.returncode == 5 and b"cannot be written" in done.stderr, str(done))


# ---- help, manual page, completions


def commands():
    return re.findall(r"^  ([a-z]+) {2,}\S", rdzvctl("help")[0].split("Options of")[0], re.M)


def options(command):
    return re.findall(r"^  (?:-\w,|   ) --([a-z-]+)", rdzvctl("help", command)[0], re.M)


@case
def help_has_every_command_with_examples():
    check(len(commands()) >= 19, str(commands()))
    for command in commands():
        out, _ = rdzvctl("help", command)
        check(rdzvctl(command, "--help")[0] == out, command)
        for option in re.findall(r"^  (?:-\w,|   ) --.*", out, re.M):
            check(re.fullmatch(r".{6}--[a-z-]+( [A-Z]+)?(  +\S.*)?| {6}--\S+ \S+", option), option)
        has(out, "usage: rdzvctl %s" % command, "Examples:\n  rdzvctl ", "--server")
        check(max(map(len, out.splitlines())) < 120, out)
        # What an example shows is a command line that is right.
        for example in re.findall(r"^  rdzvctl (.*?)  +#", out, re.M):
            words = re.split(r" [|<>]", example)[0].split()
            if "--help" not in words:
                done = subprocess.run([RDZVCTL, *words, "--help"], capture_output=True, text=True)
                check(done.returncode == 0, "%s: %s" % (example, done.stderr))


@case
def the_manual_page_says_what_help_says():
    page, _ = rdzvctl("help", "--man")
    text = page.replace("\\-", "-").replace("\\e", "\\").replace("\\&", "")
    for command in commands():
        has(text, ".SS %s " % command)
        section = re.search(r"\.SS %s (.*?)(?=\n\.S[SH])" % command, text, re.S).group(1)
        for option in set(options(command)) - set(options("help")) | {"man"} & set(options(command)):
            has(section, "--" + option)
        for example in re.findall(r"^  (rdzvctl .*?)  +#", rdzvctl("help", command)[0], re.M):
            has(section, example)
    for option in options("help"):
        has(text, "--" + option)
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=page, text=True,
                              capture_output=True)
        check(done.returncode == 0 and done.stderr == "", done.stderr)


@case
def bash_completes():
    with job(["a", "b"]) as (daemon, _):
        script, _ = rdzvctl("completion", "bash")

        def completions(line):
            code = script + """
                COMP_LINE=$1 COMP_POINT=${#1}; _rdzvctl; printf '%s\\n' "${COMPREPLY[@]}" """
            done = subprocess.run(["bash", "-c", code, "bash", line], capture_output=True, text=True,
                                  env=environment(PATH=os.path.dirname(RDZVCTL) + ":" +
                                                  os.environ["PATH"]), timeout=60)
            check(done.stderr == "", done.stderr)
            return done.stdout.split()

        server = "rdzvctl -s 127.0.0.1:%d " % daemon.port
        check(completions("rdzvctl ") == commands(), "commands")
        check(completions("rdzvctl st") == ["status"], "a part of one")
        check(completions(server + "st") == ["status"], "behind an address")
        for command in commands():
            check({"--" + o for o in options(command)} ==
                  {o for o in completions("rdzvctl %s --" % command)}, command)
        check(completions(server + "status ") == ["JOB"], "runs")
        check(completions(server + "status J") == ["JOB"], "a part of one")
        check("/torch.rendezvous.JOB" in completions(server + "get /torch.r"), "keys")
        check(completions(server + "clear ") == ["default"], "spaces")
        check(completions("rdzvctl runs -o ") == ["table", "wide", "name", "json", "yaml"], "formats")
        check(completions("rdzvctl completion ") == ["bash", "zsh", "fish"], "shells")
        check(completions("rdzvctl help to") == ["top"], "commands of help")


@case
def zsh_and_fish_know_the_same():
    for shell, option in (("zsh", "--%s"), ("fish", " -l %s ")):
        script, _ = rdzvctl("completion", shell)
        for command in commands():
            has(script, {"zsh": "'%s:", "fish": "-a %s -d"}[shell] % command)
            part = {"zsh": r"^    %s\)\n(.*?);;$", "fish": r"from %s'(.*)"}[shell] % command
            own = "\n".join(re.findall(part, script, re.M | re.S if shell == "zsh" else re.M))
            for name in options(command):
                if shell == "zsh" or name not in options("keys"):
                    has(own, option % name)
        if shutil.which(shell):
            done = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True)
            check(done.returncode == 0 and done.stderr == "", done.stderr)


def in_shell(*argv):
    path = os.path.dirname(RDZVCTL) + ":" + os.environ["PATH"]
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd=home,
                              env=environment(PATH=path, HOME=home, ZDOTDIR=home))
    check(done.stderr == "", done.stderr)
    return done.stdout


@case
def fish_completes():
    if not shutil.which("fish"):
        return "there is no fish"
    for line, wanted in (("sta", "status\t"), ("latency --c", "--count\t"), ("runs -o wi", "wide\t"),
                         ("completion z", "zsh"), ("help to", "top")):
        out = in_shell("fish", "-c", "rdzvctl completion fish | source; complete -C 'rdzvctl %s'" % line)
        check(any(found.startswith(wanted) for found in out.splitlines()), "%s: %s" % (line, out))


@case
def zsh_takes_it():
    if not shutil.which("zsh"):
        return "there is no zsh"
    out = in_shell("zsh", "-fc", "autoload -U compinit; compinit -u; source <(rdzvctl completion zsh);"
                                 "print $_comps[rdzvctl]")
    check(out == "_rdzvctl\n", out)


if __name__ == "__main__":
    sys.exit(cases.run("tests/client/ctl.py"))
