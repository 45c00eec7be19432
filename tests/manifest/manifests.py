"""What the scripts of this folder share: where things are, which tool is under test, and how a check fails.

$RDZV_MANIFEST names the tool; without it, it is the one beside rdzvd.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SHARED = os.path.join(os.path.dirname(ROOT), "shared")
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from servers import rdzvd_binary  # noqa: E402

try:
    import yaml
except ImportError:
    sys.exit("%s: python3-yaml is missing: run tests/support/install.sh test" % os.path.basename(sys.argv[0]))

MANIFEST = os.environ.get("RDZV_MANIFEST") or os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(rdzvd_binary()))), "deploy", "rdzv-manifest")


class Failed(AssertionError):
    pass


def check(truth, text, *more):
    if not truth:
        raise Failed("\n".join([text] + [str(m) for m in more]))


def read(path):
    with open(path, "rb") as f:
        return f.read()


def documents(data):
    """With libyaml, which the tool reads with, since PyYAML's own reader is ten times slower: run_emit.py uses that one."""
    return [d for d in yaml.load_all(data, Loader=yaml.CSafeLoader) if d]
