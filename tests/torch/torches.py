"""The torch releases tests can run: the command and environment of each release's Python.

tests/support/install.sh puts them on the machine. 2.6 and 2.14 live in Debian trees, in which a
command runs through in_tree.sh. Python's standard library only.
"""

import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CACHE = os.environ.get("RDZV_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "rdzv")

DEFAULT = ("1.13.1", "2.13.0")
ALL = ("1.13.1", "2.6", "2.13.0", "2.14")


class Torch:
    """One release: the words that start its Python, and the file that says it is installed."""

    def __init__(self, name, python, mark):
        self.name, self.python, self.mark = name, python, mark

    @property
    def installed(self):
        return os.path.exists(self.mark)

    def sees(self, path):
        """Its processes have that path, too: in a tree, what in_tree.sh binds there alone."""
        bound = [os.path.realpath(folder) + os.sep for folder in (ROOT, tempfile.gettempdir())]
        return "tree" not in self.mark or (os.path.realpath(path) + os.sep).startswith(tuple(bound))

    @property
    def is_1x(self):
        return self.name.startswith("1.")

    def environment(self, **extra):
        """This process's environment, without what would steer torch, on loopback and quiet."""
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("PET_", "TORCH", "MASTER_", "USE_LIBUV", "GLOO_", "ETCD"))
               and k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "PYTHONPATH", "PYTHONHOME")}
        env.update({
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONWARNINGS": "ignore",
            "TORCH_CPP_LOG_LEVEL": "ERROR",  # each timeout and each lost peer is a page otherwise
            # torch looks for a name of every address it connects to, for its log: a slow name
            # server would cost 5 s per connection.
            "RES_OPTIONS": "timeout:1 attempts:1",
        })
        if "tree" in self.mark:
            env["USE_LIBUV"] = "0"  # Debian's build has none
            env["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
            env["LANG"] = "C.UTF-8"
        env.update(extra)
        return env


def _tree(name, suite):
    folder = os.path.join(CACHE, "tree-" + suite)
    return Torch(name, [os.path.join(HERE, "in_tree.sh"), folder, "/usr/bin/python3"],
                 os.path.join(folder, ".complete"))


def _venv(name):
    folder = os.path.join(CACHE, "torch-" + name)
    return Torch(name, [os.path.join(folder, "bin", "python")], os.path.join(folder, ".complete"))


TORCHES = {
    "1.13.1": Torch("1.13.1", ["/usr/bin/python3"],
                    "/usr/lib/python3/dist-packages/torch/__init__.py"),
    "2.6": _tree("2.6", "trixie"),
    "2.13.0": _venv("2.13.0"),
    "2.14": _tree("2.14", "forky"),
}


def choose(names, every=False):
    """The releases to run: the named releases, else all (`every`) or the default set.

    A requested release that is not installed ends the program: a silently skipped release would be a test that cannot
    fail."""
    names = names or (ALL if every else DEFAULT)
    for name in names:
        if name not in TORCHES:
            sys.exit("no torch %r: there are %s" % (name, ", ".join(ALL)))
        if not TORCHES[name].installed:
            sys.exit("torch %s is not installed (%s is missing): run tests/support/install.sh%s" % (
                name, TORCHES[name].mark, " trees" if "tree" in TORCHES[name].mark else ""))
    return [TORCHES[name] for name in names]
