"""A machine in namespaces of its own: a clean Debian, booted by its systemd, with a private network. Changes to its
files lie in memory, over the clean Debian, and vanish at the end. Needs root."""

import os
import shutil
import subprocess
import tempfile
import time

from cases import check

BOOT_S = 120

# Runs in namespaces of its own: makes the machine's file system, and becomes its first process. What belongs to
# the kernel, and so to everybody, can only be read.
BOOT = r"""
set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs "$2"
mkdir "$2/upper" "$2/work" "$2/root"
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
root=$2/root
shift 2
"$@" "$root"
cd "$root"
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
    def __init__(self, tree, *put):
        """`tree`: the clean Debian. `put`: words of a command that puts something into the folder behind them,
        the machine's root."""
        self.folder = tempfile.mkdtemp(prefix="rdzv-booted-")
        self.group = os.path.join(group_folder(), os.path.basename(self.folder))
        os.mkdir(self.group)
        with open(os.path.join(self.folder, "log"), "w", encoding="utf-8") as log:
            # 0: the process that writes.
            self.outer = subprocess.Popen(
                ["sh", "-c", 'echo 0 >"$1/cgroup.procs"; shift; exec "$@"', "sh", self.group, "unshare", "--fork",
                 "--kill-child", "--pid", "--mount", "--net", "--uts", "--ipc", "--cgroup", "sh", "-c", BOOT, "sh",
                 tree, self.folder, *put], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
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
