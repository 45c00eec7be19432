"""Runs rdzv-manifest check, and reads what it must find in a file: what the cases of check.py share."""

import json
import os
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


CORPUS = os.path.join(HERE, "check")
EXPECT = re.compile(r"# expect(?: \+(\d+))?: ([a-z0-9-]+(?:, [a-z0-9-]+)*)(?: at (.+?))?\s*$")


def check(condition, text):
    if not condition:
        raise AssertionError(text)


class Tool:
    def __init__(self, path, cases):
        self.path = path
        self.cases = cases  # of the corpus: those to look at

    def run(self, *args, stdin=b"", timeout=120):
        """(exit code, standard output, standard error) as text."""
        done = subprocess.run([self.path, "check", *args], input=stdin, timeout=timeout,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = done.stdout.decode(), done.stderr.decode("utf-8", "backslashreplace")
        check(done.returncode in (0, 1, 2), "exit code %d of %s\n%s" % (
            done.returncode, " ".join(args), err[-3000:]))
        return done.returncode, out, err

    def findings(self, *args, stdin=b""):
        code, out, err = self.run("-o", "json", *args, stdin=stdin)
        check(code != 2, "%s: %s" % (" ".join(args), err))
        found = json.loads(out)["findings"]
        check(code == (1 if found else 0), "exit code %d with %d findings" % (code, len(found)))
        return found


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def names():
    return sorted(f[:-len(".bad.yaml")] for f in os.listdir(CORPUS) if f.endswith(".bad.yaml"))


def options_of(text):
    head = re.search(r"^# options: (.*)$", text, re.M)
    return head.group(1).split() if head else []


def expected(text):
    """{(line, rule): text at which it begins, or None}"""
    out = {}
    for number, line in enumerate(text.split("\n"), 1):
        m = EXPECT.search(line)
        if m:
            for rule in m.group(2).split(", "):
                out[number + int(m.group(1) or 0), rule] = m.group(3)
    return out


def starts(line):
    """The columns, from 1, on which something begins: the first word, items, values."""
    line = line.split("  # expect")[0]
    found = [m.end() + 1 for m in re.finditer(r"^ *|- |: |\[|, |=|\|\s*", line)]
    return [c for c in found if c <= len(line)]


def show(findings):
    return "\n".join("  %d:%d %s: %s" % (f["line"], f["column"], f["rule"], f["message"])
                     for f in findings) or "  nothing"


# ---- output and arguments

def sample(rule="is-host-computed"):
    return os.path.join(CORPUS, rule + ".bad.yaml")


USER_FILE = """\
jobName: train
namespace: ml
containerImage: registry.example/trainer:1
numGpusPerPod: 8
totalMemoryPerPod: 64Gi
numCpusPerPod: 8
mainProgram: train.py
"""
