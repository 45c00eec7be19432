"""A minimal Debian of this machine's release with systemd and the libraries that our packages need.
tests/support/install.sh makes it once."""

import os
import subprocess

INSTALL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support", "install.sh")


def tree():
    """The folder of the clean Debian. Other tests share it: change a copy or an overlay."""
    done = subprocess.run(["bash", "-c", '. "$1"; debian_tree >&2; echo "$RDZV_CACHE_DIR/tree-clean"', "bash", INSTALL],
                          capture_output=True, text=True, timeout=3600)
    if done.returncode != 0:
        raise RuntimeError("there is no clean Debian: " + done.stderr[-2000:])
    return done.stdout.splitlines()[-1]
