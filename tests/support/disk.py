"""A small disk, for tests that fill it: a tmpfs, which takes root to mount."""

import contextlib
import os
import subprocess
import tempfile

NEEDS_ROOT = "mounting a small disk takes root"


@contextlib.contextmanager
def small_disk(size):
    """The folder where it is mounted; None when this user may not mount one."""
    folder = tempfile.mkdtemp(prefix="rdzv-disk-")
    mount = ["mount", "-t", "tmpfs", "-o", "size=%d,mode=700" % size, "rdzv-test", folder]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield folder if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "-l", folder], check=True)
        os.rmdir(folder)


def put_ballast(folder, size):
    """A file that takes so much of the disk; its path."""
    path = os.path.join(folder, "of-others")
    with open(path, "wb") as f:
        f.write(bytes(size))
    return path


def fill_disk(peer, key):
    """SETs of 20,000 bytes at key/0, key/1… until one is refused: how many were answered."""
    for i in range(1000):
        peer.set(b"%s/%d" % (key, i), b"%d" % i * 20000)
        try:
            peer.ping()
        except (EOFError, ConnectionError):
            return i
    raise AssertionError("the disk took all")
