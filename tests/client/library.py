"""librdzv against real stores: rdzvd, and torch's own server in both its backends.

    library.py [NAME...]     all cases, or the cases whose name contains a NAME

The daemon is $RDZVD, else that of build/; the programs come from the same build. One with sanitizers
counts a leak as a failure.
"""

import contextlib
import os
import re
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("support", "torch"):
    sys.path.insert(0, os.path.join(HERE, "..", folder))
import cases  # noqa: E402
from cases import case, check  # noqa: E402
from servers import ROOT, Rdzvd, free_port, rdzvd_binary  # noqa: E402
from torches import TORCHES  # noqa: E402

BUILD = os.path.dirname(os.path.dirname(os.path.abspath(rdzvd_binary())))
TORCH = "2.13.0"

# torch's server, with the backend named; it serves until its stdin ends.
SERVER = """
import sys, torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=%r)
print(store.port, flush=True)
sys.stdin.read()
"""

# A client of torch's that meets librdzv at the keys of one store.
PARTNER = """
import datetime, sys, torch.distributed as dist
store = dist.TCPStore("127.0.0.1", int(sys.argv[1]), is_master=False, wait_for_workers=False,
                      timeout=datetime.timedelta(seconds=30))
assert store.get("hello/greeting") == b"bonjour"
assert dist.PrefixStore("hello", store).add("visits", 1) == 2
print("met", flush=True)
"""


def run(program, *args, timeout=300):
    done = subprocess.run([os.path.join(BUILD, program), *map(str, args)], capture_output=True,
                          text=True, timeout=timeout, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def every_call(address, *options):
    code, _, err = run("tests/every_call", address, *options)
    check(code == 0, "every_call %s %s: exit %d: %s" % (address, " ".join(options), code, err))


@contextlib.contextmanager
def torch_server(libuv):
    torch = TORCHES[TORCH]
    process = subprocess.Popen(torch.python + ["-c", SERVER % libuv], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               env=torch.environment())
    try:
        yield int(process.stdout.readline())
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(30)


@case
def every_call_works_with_rdzvd():
    with Rdzvd() as daemon:
        every_call("127.0.0.1:%d" % daemon.port, "--queues", "--barrier")
        every_call("localhost:%d" % daemon.port, "--queues", "--barrier")


@case
def every_call_works_with_torchs_libuv_server():
    with torch_server(True) as port:
        every_call("127.0.0.1:%d" % port, "--queues", "--barrier")


@case
def every_call_works_with_torchs_other_server():
    """It has no queues, and closes the connection of who gets an absent key."""
    with torch_server(False) as port:
        every_call("127.0.0.1:%d" % port, "--barrier")


@case
def every_allocation_may_fail():
    with Rdzvd() as daemon:
        every_call("localhost:%d" % daemon.port, "--queues", "--barrier", "--memory")


@case
def the_examples_do_what_they_say():
    with Rdzvd() as daemon:
        address = "127.0.0.1:%d" % daemon.port
        code, out, err = run("client/example_hello", address)
        check(code == 0 and out.splitlines()[0] == "bonjour, visit 1 (7 bytes)", out + err)
        check('get of "hello/nothing" at %s: there is no such key' % address in out, out)
        code, out, err = run("client/example_loop", address, "some-key")
        # Two clients: either may hear first that the key is there.
        check(code == 0 and out.startswith("still waiting\n") and
              sorted(out.splitlines()) == ["still waiting", "the key is there", "written: ok"], out + err)


@case
def keys_have_the_names_that_torch_gives_them():
    torch = TORCHES[TORCH]
    with Rdzvd() as daemon:
        address = "127.0.0.1:%d" % daemon.port
        code, _, err = run("client/example_hello", address)
        check(code == 0, err)
        # What the example deletes at its end is put back by rdzvctl, by its name in the store.
        code, _, err = run("client/rdzvctl", "-s", address, "set", "/hello/greeting", "bonjour")
        check(code == 0, err)
        done = subprocess.run(torch.python + ["-c", PARTNER, str(daemon.port)], timeout=120,
                              capture_output=True, text=True, env=torch.environment())
        check(done.stdout == "met\n", done.stdout + done.stderr)


@case
def a_server_that_does_not_listen_is_named():
    port = free_port()
    code, _, err = run("client/example_hello", "127.0.0.1:%d" % port)
    check(code == 1 and "unreachable: " in err and "at 127.0.0.1:%d: Connection refused" % port in err,
          err)


@case
def a_name_that_does_not_exist_is_named():
    code, _, err = run("client/example_hello", "no-such-host.invalid:29400")
    check(code == 1 and "no-such-host.invalid:29400: " in err and "host name" in err, err)


@case
def a_server_that_goes_away_is_said_to():
    with Rdzvd() as daemon:
        address = "127.0.0.1:%d" % daemon.port
        process = subprocess.Popen([os.path.join(BUILD, "client/rdzvctl"), "-s", address, "wait",
                                    "/never"], stderr=subprocess.PIPE, text=True)
        daemon.wait_log("event=ready")
        while b'rdzvd_space_waiters{space="default"} 1' not in fetch(daemon, "/metrics"):
            pass
        check(daemon.stop() == 0, "rdzvd stops")
        err = process.communicate(timeout=60)[1]
        check(process.returncode == 3 and "closed the connection" in err, err)


def fetch(daemon, path):
    import http.client  # here alone
    c = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=20)
    c.request("GET", path)
    body = c.getresponse().read()
    c.close()
    return body


@case
def a_peer_that_is_no_store_is_not_believed():
    """A server that answers in HTTP, one that answers with garbage, and one that says nothing."""
    import socket
    for answer in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff" * 64, b""):
        with socket.create_server(("127.0.0.1", 0)) as listener:

            def serve():
                peer, _ = listener.accept()
                with peer:
                    peer.recv(10)
                    peer.sendall(answer)

            thread = threading.Thread(target=serve)
            thread.start()
            code, _, err = run("client/example_hello", "127.0.0.1:%d" % listener.getsockname()[1])
            thread.join()
            want = "does not speak c10d" if answer else "did not greet"
            check(code == 1 and want in err, "%r: %s" % (answer, err))


@case
def only_what_the_header_names_is_exported():
    out = subprocess.run(["nm", "-D", "--defined-only", os.path.join(BUILD, "client/librdzv.so")],
                         capture_output=True, text=True, check=True).stdout
    exported = set(re.findall(r" [TDBR] (\w+)$", out, re.M))
    with open(os.path.join(ROOT, "client/rdzv_client.h"), encoding="utf-8") as f:
        named = set(re.findall(r"^RDZV_API [^(]*?\b(rdzv_\w+)\(", f.read(), re.M))
    stray = {name for name in exported if not name.startswith(("__asan", "__odr_asan"))} - named
    check(named <= exported and not stray, "not exported: %s; stray: %s" % (named - exported, stray))


@case
def it_can_be_built_against_as_installed():
    """meson install, pkg-config, a C and a C++ compiler, as a program elsewhere would."""
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        if "-fsanitize" in open(os.path.join(BUILD, "build.ninja"), encoding="utf-8").read():
            return "a build with sanitizers is not installed"
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", folder],
                       check=True, capture_output=True)
        found = [where for where, _, files in os.walk(folder) if "rdzv.pc" in files]
        check(found, "rdzv.pc is installed")
        env = dict(os.environ, PKG_CONFIG_PATH=found[0], PKG_CONFIG_SYSROOT_DIR=folder)
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "rdzv"], env=env, check=True,
                               capture_output=True, text=True).stdout.split()
        source = os.path.join(ROOT, "client/examples/hello.c")
        program = os.path.join(folder, "hello")
        subprocess.run(["cc", source, "-o", program, *flags], check=True)
        header = os.path.join(folder, "t.cc")
        with open(header, "w", encoding="ascii") as f:
            f.write("#include <rdzv_client.h>\nint main() { return rdzv_version() == nullptr; }\n")
        subprocess.run(["c++", header, "-o", program + "++", *flags], check=True)
        libraries = os.path.dirname(found[0])
        with Rdzvd() as daemon:
            done = subprocess.run([program, "127.0.0.1:%d" % daemon.port], capture_output=True,
                                  text=True, env=dict(os.environ, LD_LIBRARY_PATH=libraries))
        check(done.returncode == 0 and "bonjour" in done.stdout, done.stdout + done.stderr)
        check(os.path.exists(os.path.join(libraries, "librdzv.so.0")), "the soname is librdzv.so.0")


if __name__ == "__main__":
    sys.exit(cases.run("tests/client/library.py"))
