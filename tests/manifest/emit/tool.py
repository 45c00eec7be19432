"""Runs rdzv-manifest, reads what it prints, and compares manifests by meaning.

The tool is $RDZV_MANIFEST, else the one in build/. YAML is read as YAML 1.1 has it by PyYAML, which has nothing in common
with the reader and writer under test, or, where `quickly` is given, by libyaml, which the tool reads with.
"""

import functools
import json
import os
import re
import subprocess
import sys

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
SHARED = os.path.join(os.path.dirname(ROOT), "shared")
TOOL = os.environ.get("RDZV_MANIFEST", os.path.join(ROOT, "build", "deploy", "rdzv-manifest"))
RDZVD = os.environ.get("RDZVD", os.path.join(ROOT, "build", "rdzv", "rdzvd"))

sys.path.insert(0, HERE)


def run(*args, stdin=None, cwd=None):
    """(exit code, stdout, stderr) of the tool; the outputs are bytes."""
    done = subprocess.run([TOOL, *args], input=stdin, cwd=cwd, capture_output=True, timeout=60,
                          **({"stdin": subprocess.DEVNULL} if stdin is None else {}))
    return done.returncode, done.stdout, done.stderr


def listed(kind):
    """The names that `rdzv-manifest list KIND` prints."""
    return re.findall(r"^  (\S+)$", run("list", kind)[1].decode(), re.M)


@functools.cache
def knows(flag):
    """Whether rdzvd has a flag."""
    done = subprocess.run([RDZVD, "--help"], capture_output=True, text=True, timeout=30, check=True)
    return flag + "=" in done.stdout


def emit(*args, stdin=None, cwd=None, quickly=False):
    """The documents that emit prints; a failure is one of the test."""
    code, out, err = run("emit", *args, stdin=stdin, cwd=cwd)
    if code != 0:
        raise AssertionError("emit %s: exit %d: %s" % (" ".join(args), code, err.decode()))
    return json.loads(out).get("items") if "json" in args else documents(out, quickly)


def documents(text, quickly=False):
    return [d for d in yaml.load_all(text, Loader=yaml.CSafeLoader if quickly else yaml.SafeLoader) if d is not None]


# Lists in which the order means something; all others are sets with names.
ORDERED = {"env", "initContainers", "command", "args", "components", "GenericItems"}


def _item_key(item):
    if isinstance(item, dict):
        for key in ("mountPath", "name", "key"):
            if isinstance(item.get(key), str):
                return item[key]
    return repr(item)


def differences(want, got, path="", name=None):
    """The differences between two trees, one line each."""
    if isinstance(want, dict) and isinstance(got, dict):
        lines = []
        for key in list(want) + [k for k in got if k not in want]:
            at = "%s.%s" % (path, key)
            if key not in got:
                lines.append("%s: is missing: %r" % (at, want[key]))
            elif key not in want:
                lines.append("%s: is too much: %r" % (at, got[key]))
            else:
                lines += differences(want[key], got[key], at, key)
        return lines
    if isinstance(want, list) and isinstance(got, list):
        if name not in ORDERED:
            want, got = sorted(want, key=_item_key), sorted(got, key=_item_key)
        if len(want) != len(got):
            return ["%s: %d items, not %d: %r, not %r" % (path, len(got), len(want), got, want)]
        lines = []
        for i, (a, b) in enumerate(zip(want, got)):
            lines += differences(a, b, "%s[%d]" % (path, i))
        return lines
    if want == got or (name in ("cpu", "memory", "storage") and str(want) == str(got)):
        return []
    return ["%s: %r, not %r" % (path, got, want)]


def find_all(node, key):
    """Every value of that key, however deep."""
    if isinstance(node, dict):
        for k, v in node.items():
            if k == key:
                yield v
            yield from find_all(v, key)
    elif isinstance(node, list):
        for item in node:
            yield from find_all(item, key)


def containers(node):
    """Every container, and every init container."""
    for key in ("containers", "initContainers"):
        for found in find_all(node, key):
            yield from found
