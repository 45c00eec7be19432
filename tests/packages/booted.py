"""rdzvd as a service of a booted systemd: in namespaces, a clean Debian with what `meson install` puts there.

    booted.py [NAME...]     all cases, or the cases whose name contains a NAME

The build is that of $RDZVD, else build/; it must be complete and have no sanitizers: the unit forbids system calls that
sanitizers need. Needs root. What the machine runs in the clean Debian is thrown away: it lies over it in memory.
"""

import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import cases  # noqa: E402
import clean_debian  # noqa: E402
from cases import case, check  # noqa: E402
from machine import Machine, why_not  # noqa: E402
from servers import rdzvd_binary  # noqa: E402

BUILD = os.path.dirname(os.path.dirname(os.path.abspath(rdzvd_binary())))
INSTALL = ("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir")
SECURITY_MOST = 2.0  # of systemd's 10
OPERATOR = ("-s", "unix:/run/rdzvd/rdzvd.sock")


def key(machine, name):
    return machine.run("rdzvctl", "get", "--raw", name, code=0).stdout


def service_serves(machine):
    machine.run("systemctl", "enable", "--now", "rdzvd.service", code=0)
    check(machine.show("ActiveState") == "active", machine.journal())
    machine.run("rdzvctl", "preflight", "--timeout", "20s", code=0)
    machine.run("rdzvctl", "set", "/kept", "7", code=0)
    check("default" in machine.run("rdzvctl", *OPERATOR, "spaces", code=0).stdout, "for operators")


def service_has_no_rights(machine):
    with_pid = "/proc/%s/status" % machine.show("MainPID")
    status = dict(line.split(":\t", 1) for line in machine.run("cat", with_pid, code=0).stdout.splitlines())
    check("0" not in status["Uid"].split() and "0" not in status["Gid"].split(), status["Uid"] + status["Gid"])
    check(int(status["CapBnd"], 16) == 0 and status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", str(status))
    shown = machine.run("systemd-analyze", "security", "rdzvd.service", "--no-pager", code=0).stdout
    (score,) = re.findall(r"Overall exposure level for rdzvd.service: ([0-9.]+)", shown)
    print("systemd-analyze security of the running service: %s" % score)
    check(float(score) < SECURITY_MOST, shown)
    mode = machine.run("stat", "--format=%a", "/var/lib/private/rdzvd", code=0).stdout.strip()
    check(mode == "700", "the data directory has mode " + mode)


def service_comes_back(machine):
    """With every key, killed more often than systemd by itself starts a service again; and stopped without a fault."""
    for kills in range(1, 8):
        before = machine.show("MainPID")
        machine.run("systemctl", "kill", "--signal=KILL", "rdzvd.service", code=0)
        machine.wait("rdzvd runs again", lambda old=before: machine.show("ActiveState") == "active" and
                     machine.show("MainPID") not in ("0", old))
        check(key(machine, "/kept") == "7" and machine.show("NRestarts") == str(kills), machine.journal())
    machine.run("systemctl", "stop", "rdzvd.service", code=0)
    check(machine.show("Result") == "success" and machine.show("ExecMainStatus") == "0", machine.journal())
    machine.run("systemctl", "start", "rdzvd.service", code=0)
    check(key(machine, "/kept") == "7", machine.journal())


def wrong_setting_ends_it(machine):
    machine.run("sh", "-c", "echo 'no-such-setting: 1' >>/usr/local/etc/rdzvd.yaml", code=0)
    machine.run("systemctl", "restart", "rdzvd.service", code=1)
    check(machine.show("ActiveState") == "failed" and machine.show("NRestarts") == "0" and
          "no-such-setting" in machine.journal(), machine.journal())
    machine.run("sed", "-i", "/no-such-setting/d", "/usr/local/etc/rdzvd.yaml", code=0)
    machine.run("systemctl", "restart", "rdzvd.service", code=0)


def socket_holds_the_port(machine):
    machine.run("systemctl", "stop", "rdzvd.service", code=0)
    machine.run("systemctl", "start", "rdzvd.socket", code=0)
    check(machine.show("ActiveState") == "inactive", "nobody has asked yet")
    check(key(machine, "/kept") == "7", machine.journal())
    check(machine.show("ActiveState") == "active", machine.journal())
    out = machine.run("rdzvctl", "-o", "json", "preflight", "--timeout", "20s", code=0).stdout
    check(json.loads(out), out)


@case
def systemd_runs_rdzvd():
    reason = why_not()
    if reason:
        return reason
    with Machine(clean_debian.tree(), *INSTALL) as machine:
        for part in (service_serves, service_has_no_rights, service_comes_back, wrong_setting_ends_it,
                     socket_holds_the_port):
            part(machine)
    return None


if __name__ == "__main__":
    sys.exit(cases.run(os.path.join("tests", "packages", "booted.py")))
