"""What README.md tells a new user, done to the letter in a booted clean Debian: the packages are installed, systemd
runs rdzvd, three nodes train by README's torchrun, one is killed; and within a minute rdzvctl and the status page
name it.

    newcomer.py [--made FOLDER]     FOLDER has the packages that deploy/release.sh has made; else they are made

Needs root; and a browser for the page, else only what the page is fed with is read.
"""

import contextlib
import ctypes
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path[:0] = [os.path.join(HERE, "..", name) for name in ("support", "torch", "page")]
import cases  # noqa: E402
import clean_debian  # noqa: E402
import torches  # noqa: E402
import webdriver  # noqa: E402
from cases import case, check  # noqa: E402
from machine import Machine, why_not  # noqa: E402

MADE = []
FOUND_MOST_S = 60
AWAIT_S = 240
NODES = 3
CLONE_NEWNET = 0x40000000

# The packages; and packages may start services, as on any machine.
PUT = 'mkdir -p "$2/root" && cp -r "$1" "$2/root/dist" && rm "$2/usr/sbin/policy-rc.d"'


# ---- what README says


def readme_commands():
    """Its shell commands, each in one line."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        blocks = re.findall(r"(?ms)^```sh\n(.*?)^```", f.read())
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in (re.sub(r"\s+# .*", "", line).strip() for line in lines) if line]


def command(word, *others):
    """The first command of README with these words."""
    found = [c for c in readme_commands() if word in c and all(o in c for o in others)]
    check(found, "README has no command with %s" % word)
    return found[0]


# ---- nodes


def start_node(machine, name, folder, torch):
    """README's torchrun, for one worker a node: three of them share a machine here."""
    words = shlex.split(command("torchrun", "--rdzv-backend=c10d").replace("STORE_HOST", "localhost"))
    check(words[0] == "torchrun" and words[-1] == "train.py", str(words))
    words = [re.sub("^--nproc-per-node=.*", "--nproc-per-node=1", w) for w in words[1:-1]]
    argv = ["nsenter", "--target", machine.first(), "--net", *torch.python, "-m", "torch.distributed.run", *words,
            "--local-addr=127.0.0.1", os.path.join(torches.HERE, "train.py"),
            "--checkpoint=" + os.path.join(folder, "checkpoint.pt"), "--hold=" + os.path.join(folder, "hold")]
    with open(os.path.join(folder, name), "wb") as log:
        return subprocess.Popen(argv, env=torch.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                start_new_session=True)


def kill_node(node):
    """As if its machine were gone: the agent, and its workers, which have sessions of their own."""
    node.kill()
    node.wait()


def end_workers(folder):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                ours = ("--checkpoint=" + folder).encode() in f.read()
            if ours:
                os.kill(int(pid), signal.SIGKILL)


@contextlib.contextmanager
def nodes(machine):
    (torch,) = torches.choose(["2.13.0"])
    with tempfile.TemporaryDirectory(prefix="rdzv-newcomer-") as folder:
        open(os.path.join(folder, "hold"), "w", encoding="ascii").close()
        started = []
        try:
            started.extend(start_node(machine, "node-%d" % i, folder, torch) for i in range(NODES))
            yield started, lambda: logs(folder)
        finally:
            for node in started:
                kill_node(node)
            end_workers(folder)


def logs(folder):
    text = ""
    for name in sorted(os.listdir(folder)):
        if name.startswith("node-"):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as f:
                text += "---- %s\n%s" % (name, f.read()[-2000:])
    return text


# ---- a browser on this machine, a store in the other one


def pump(source, sink):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for s in (source, sink):
        with contextlib.suppress(OSError):
            s.shutdown(socket.SHUT_RDWR)


def serve_port(listener, machine, port):
    """In a thread of its own, which changes into the machine's network: connections go to its port."""
    with open("/proc/%s/ns/net" % machine.first(), "rb") as network:
        if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        store = socket.create_connection(("localhost", port))
        for pair in ((client, store), (store, client)):
            threading.Thread(target=pump, args=pair, daemon=True).start()


@contextlib.contextmanager
def page(machine):
    """The status page in a browser; None where there is none."""
    if webdriver.missing():
        print("skip page: %s" % webdriver.missing())
        yield None
        return
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve_port, args=(listener, machine, 29400), daemon=True).start()
        browser = webdriver.Browser()
        try:
            browser.open("http://localhost:%d/" % listener.getsockname()[1])
            yield browser
        finally:
            browser.close()
            listener.shutdown(socket.SHUT_RDWR)


# ---- the walk


def until(what, condition, told=lambda: ""):
    end = time.monotonic() + AWAIT_S
    while not condition():
        check(time.monotonic() < end, "never: %s\n%s" % (what, told()))
        time.sleep(0.1)


def install(machine):
    line = command("apt install").split("&&")[1].strip()
    machine.run("sh", "-c", "cd /root && DEBIAN_FRONTEND=noninteractive " + line, code=0)
    shown = machine.run("sh", "-c", command("systemctl status rdzvd").split(";")[0] + " --no-pager", code=0).stdout
    check("active (running)" in shown and "--config=/etc/rdzvd.yaml" in shown, shown)


def rdzvctl(machine):
    """README's words for "which node is missing?", without its waiting."""
    words = shlex.split(command("rdzvctl -s STORE_HOST:29400 status -w").replace("STORE_HOST", "localhost"))
    return machine.run(*(w for w in words if w != "-w"))


def status(machine):
    runs = json.loads(machine.run("rdzvctl", "-o", "json", "status").stdout)[0]["runs"]
    return runs[0] if runs else {}


@case
def a_new_user_finds_the_missing_node():
    reason = why_not()
    if reason:
        return reason
    with Machine(clean_debian.tree(), "sh", "-c", PUT, "sh", MADE[0]) as machine:
        install(machine)
        with nodes(machine) as (started, told), page(machine) as browser:
            until("three nodes train", lambda: status(machine).get("state") == "complete" and
                  len(status(machine)["nodes"]) == NODES, lambda: rdzvctl(machine).stdout + told())
            lost = started[1].pid
            begin = time.monotonic()
            kill_node(started[1])
            # rdzvctl lists the node as missing until the others meet, then as gone.
            until("rdzvctl names it", lambda: re.search(r" disconnected .* %d " % lost, rdzvctl(machine).stdout),
                  lambda: rdzvctl(machine).stdout + told())
            by_rdzvctl = time.monotonic() - begin
            if browser is not None:
                browser.wait("return document.querySelector('main').textContent.includes(arguments[0])",
                             "(pid %d)" % lost)
            by_page = time.monotonic() - begin
            until("the others train without it, and it is named still",
                  lambda: re.search(r"  2 .*nodes.*, none missing, 1 absent\n  ABSENT: 1, .*\n.*\n.* disconnected .* %d " % lost,
                                    rdzvctl(machine).stdout), lambda: rdzvctl(machine).stdout + told())
            if browser is not None:
                browser.wait("return document.querySelector('main').textContent.includes(arguments[0])", "1 node is absent: ")
        print("the missing node was named by rdzvctl after %.1f s, by the page after %.1f s" % (by_rdzvctl, by_page))
        check(by_page < FOUND_MOST_S, "that is too late")
    return None


def main():
    made = sys.argv[2:3] if sys.argv[1:2] == ["--made"] else []
    with tempfile.TemporaryDirectory(prefix="rdzv-dist-") as folder:
        if not made:
            subprocess.run([os.path.join(ROOT, "deploy", "release.sh"), folder, "debian"], check=True)
        MADE.extend(made or [folder])
        sys.argv = sys.argv[:1]
        return cases.run(os.path.join("tests", "packages", "newcomer.py"))


if __name__ == "__main__":
    sys.exit(main())
