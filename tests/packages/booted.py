"""rdzvd as a service of a booted systemd: in namespaces, a clean Debian with what `meson install` puts there.

    booted.py [NAME...]     all cases, or those with one of these words in their name

The build is that of $RDZVD, else build/; it has to be complete, and without sanitizers, which need what the
unit forbids. Needs root. What the machine runs in the clean Debian is thrown away: it lies over it in memory.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import cases  # noqa: E402
import clean_debian  # noqa: E402
from cases import case, check  # noqa: E402
from servers import rdzvd_binary  # noqa: E402

BUILD = os.path.dirname(os.path.dirname(os.path.abspath(rdzvd_binary())))
BOOT_S = 120
SECURITY_MOST = 2.0  # of systemd's 10
OPERATOR = ("-s", "unix:/run/rdzvd/rdzvd.sock")

# Runs in namespaces of its own: makes the machine's file system, and becomes its first process. What belongs to
# the kernel, and so to everybody, can only be read.
BOOT = r"""
set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs "$2"
mkdir "$2/upper" "$2/work" "$2/root"
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
meson install -C "$3" --no-rebuild --quiet --destdir "$2/root"
cd "$2/root"
mkdir -p old
echo "127.0.0.1 localhost" >etc/hosts # as an installer writes it
mount -t proc proc proc
mount --bind -o ro proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do
    touch "dev/$name"
    mount --bind "/dev/$name" "dev/$name"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs tmpfs dev/shm
chroot . ldconfig
ip link set lo up
pivot_root . old
umount -l /old
exec env -i container=rdzv-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --show-status=false
"""


def why_not():
    if os.getuid() != 0:
        return "this needs root"
    if not group_folder():
        return "there is no cgroup2 file system"
    done = subprocess.run(["unshare", "--fork", "--pid", "--mount", "--net", "--uts", "--ipc", "--cgroup", "true"],
                          capture_output=True, text=True)
    return "there are no namespaces: " + done.stderr if done.returncode != 0 else None


def group_folder():
    """Where the control groups of version 2 are that this process may make; None: nowhere."""
    with open("/proc/self/cgroup", encoding="ascii") as f:
        own = [line.strip()[3:] for line in f if line.startswith("0::")]
    with open("/proc/mounts", encoding="utf-8") as f:
        mounts = [line.split()[1] for line in f if line.split()[2] == "cgroup2"]
    return mounts[0] + own[0].rstrip("/") if own and mounts else None


class Machine:
    def __init__(self, tree):
        self.folder = tempfile.mkdtemp(prefix="rdzv-booted-")
        self.group = os.path.join(group_folder(), os.path.basename(self.folder))
        os.mkdir(self.group)
        with open(os.path.join(self.folder, "log"), "w", encoding="utf-8") as log:
            # 0: the process that writes.
            self.outer = subprocess.Popen(
                ["sh", "-c", 'echo 0 >"$1/cgroup.procs"; shift; exec "$@"', "sh", self.group, "unshare", "--fork",
                 "--kill-child", "--pid", "--mount", "--net", "--uts", "--ipc", "--cgroup", "sh", "-c", BOOT, "sh",
                 tree, self.folder, BUILD], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.wait("the machine has booted", lambda: self.run("systemctl", "is-system-running").stdout.strip() in (
            "running", "degraded"))
        failed = self.run("systemctl", "list-units", "--failed", "--plain", "--no-legend").stdout
        check(not failed, "units failed: " + failed)

    def wait(self, what, condition):
        end = time.monotonic() + BOOT_S
        while not condition():
            check(self.outer.poll() is None and time.monotonic() < end, "never: %s\n%s%s" % (
                what, open(os.path.join(self.folder, "log"), encoding="utf-8").read()[-2000:], self.journal()))
            time.sleep(0.05)

    def first(self):
        """The pid of the machine's first process as this machine sees it; None: not started."""
        with open("/proc/%d/task/%d/children" % (self.outer.pid, self.outer.pid), encoding="ascii") as f:
            return (f.read().split() or [None])[0]

    def run(self, *argv, code=None):
        pid = self.first()
        done = subprocess.run(["nsenter", "--target", pid or "0", "--all", "env", "-i", "LC_ALL=C.UTF-8",
                               "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", *argv],
                              capture_output=True, text=True, timeout=BOOT_S)
        check(code is None or done.returncode == code, "%s: exit %d\n%s%s\n%s" % (
            " ".join(argv), done.returncode, done.stdout, done.stderr, self.journal() if code is not None else ""))
        return done

    def journal(self):
        return self.run("journalctl", "--no-pager", "-n", "40", "-u", "rdzvd.service", "-u", "rdzvd.socket").stdout

    def show(self, name):
        return self.run("systemctl", "show", "--value", "-p", name, "rdzvd.service", code=0).stdout.strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.outer.kill()  # and its child with it, and all that is below that
        self.outer.wait()
        for at, _, _ in os.walk(self.group, topdown=False):
            while True:
                try:
                    os.rmdir(at)
                    break
                except OSError:  # a process of it is about to be gone
                    time.sleep(0.05)
        shutil.rmtree(self.folder)


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
    with Machine(clean_debian.tree()) as machine:
        for part in (service_serves, service_has_no_rights, service_comes_back, wrong_setting_ends_it,
                     socket_holds_the_port):
            part(machine)
    return None


if __name__ == "__main__":
    sys.exit(cases.run(os.path.join("tests", "packages", "booted.py")))
