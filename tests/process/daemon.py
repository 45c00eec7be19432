"""What the cases of rdzvd as a process share: runs of the program to its end, starts, and HTTP requests."""

import http.client
import os
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from c10d import modern  # noqa: E402
from servers import Server, rdzvd_binary  # noqa: E402

HS = modern.hello()

SPACE = "/rdzv/v1/spaces/default"


def once(*args, env=None, argv0=None, stdin=None):
    """Runs the daemon to its end: (exit code, stdout, stderr)."""
    done = subprocess.run([argv0 or rdzvd_binary(), *args], executable=rdzvd_binary(), env=env,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def http_get(port, path, method="GET", host="127.0.0.1", body=None, headers=None):
    c = http.client.HTTPConnection(host, port, timeout=20)
    c.request(method, path, body=body, headers=headers or {})
    answer = c.getresponse()
    text = answer.read().decode()
    c.close()
    return answer.status, text


def http_unix(path, target, method="GET", headers=None):
    c = http.client.HTTPConnection("localhost", timeout=20)
    c.sock = socket.socket(socket.AF_UNIX)
    c.sock.settimeout(20)
    c.sock.connect(path)
    c.request(method, target, headers=headers or {})
    answer = c.getresponse()
    text = answer.read().decode()
    c.close()
    return answer.status, text


def own_address():
    """An address of this machine outside loopback, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))  # sends nothing
            return s.getsockname()[0]
        except OSError:
            return None


def started(args, env=None, argv0="rdzvd", listeners=1, cwd=None):
    """A daemon with exactly these arguments; its ports from the log."""
    server = Server([argv0, *args], executable=rdzvd_binary(), env=env, cwd=cwd)
    found = server.wait_log(r"event=listening address=(\S+):(\d+)", count=listeners)
    server.wait_log(r"event=ready")
    server.ports = [int(m.group(2)) for m in found]
    server.hosts = [m.group(1) for m in found]
    server.port = server.ports[0]
    return server
