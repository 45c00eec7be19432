"""Runs rdzv-manifest rewrite, and compares: what the cases of rewrite.py share."""

import json
import os
import subprocess
import tempfile

from manifests import HERE, MANIFEST, Failed, check, yaml


INPUTS = os.path.join(HERE, "rewrite")
EXPECTED = os.path.join(INPUTS, "expected")


def same(got, want, what):
    if got != want:
        with tempfile.NamedTemporaryFile("wb") as a, tempfile.NamedTemporaryFile("wb") as b:
            a.write(want if isinstance(want, bytes) else want.encode())
            b.write(got if isinstance(got, bytes) else got.encode())
            a.flush(), b.flush()
            diff = subprocess.run(["diff", "-u", a.name, b.name], capture_output=True, check=False)
        raise Failed("%s is not as expected (-), but (+):\n%s" % (
            what, diff.stdout.decode(errors="replace")))


def same_objects(got, want, what):
    """Writes them as YAML only if they differ, since that is slow."""
    if json.dumps(got, sort_keys=True, default=repr) != json.dumps(want, sort_keys=True, default=repr):
        same(yaml.safe_dump_all(got), yaml.safe_dump_all(want), what)


def rewrite(args, data=None, code=None, cwd=INPUTS):
    """stdout and stderr as bytes. Without `code` the exit code may be 0 or 1."""
    done = subprocess.run([MANIFEST, "rewrite", "--exit-code"] + args, input=data,
                          capture_output=True, check=False, cwd=cwd)
    wanted = (0, 1) if code is None else (code,)
    check(done.returncode in wanted, "rewrite %s ended with %d" % (" ".join(args), done.returncode),
          done.stderr.decode(errors="replace"))
    return done.stdout, done.stderr


# ------------------------------------------------------------ whole files

# What is kept, the arguments, the files, the exit code.
GOLDEN = [
    ("volcano-etcd.keep", ["--keep-backend"], ["volcano-etcd.yaml"], 0),
    ("volcano-etcd.c10d", [], ["volcano-etcd.yaml"], 0),
    ("volcano-etcd.kind", ["--keep-kind"], ["volcano-etcd.yaml"], 0),
    ("pytorchjob-etcd.keep", ["--keep-backend"], ["pytorchjob-etcd.yaml"], 0),
    ("pytorchjob-etcd.c10d", [], ["pytorchjob-etcd.yaml"], 0),
    ("volcano-c10d", [], ["volcano-c10d.yaml"], 0),
    ("pytorchjob-c10d", [], ["pytorchjob-c10d.yaml"], 0),
    ("masters", [], ["masters.yaml"], 0),
    ("masters.relay", ["--rdzv=relay"], ["masters.yaml"], 0),
    ("pytorchjob-plain", ["--wiring=agent-store"], ["pytorchjob-plain.yaml"], 0),
    ("pytorchjob-plain.look", [], ["pytorchjob-plain.yaml"], 1),
    ("pytorchjob-static", [], ["pytorchjob-static.yaml"], 0),
    ("pytorchjob-static.relay", ["--rdzv=relay"], ["pytorchjob-static.yaml"], 0),
    ("pytorchjob-static.replicas",
     ["--rdzv=replicas", "--set", "rdzv.journal.endpoints[0]=etcd-0.etcd:2379,rdzv.journal.namespace=etcd"],
     ["pytorchjob-static.yaml"], 0),
    ("pytorchjob-static.tls", ["--rdzv=relay", "--set", "rdzv.tls.issuer.name=ca"], ["pytorchjob-static.yaml"], 0),
    ("jobset-c10d.in-place", ["--rdzv=relay", "--set", "rdzv.restart=in-place"], ["jobset-c10d.yaml"], 0),
    ("files.relay", ["--rdzv=relay"], ["files-etcd.yaml", "files-jobs.yaml"], 0),
    ("fms", [], ["fms.yaml"], 0),
    ("deployment", [], ["deployment.yaml"], 0),
    ("deployment.keep", ["--keep-backend", "--keep-kind"], ["deployment.yaml"], 0),
    ("list", [], ["list.yaml"], 0),
    ("json", [], ["list.json"], 0),
    ("files", [], ["files-etcd.yaml", "files-jobs.yaml"], 0),
    ("files-diff", ["--diff"], ["files-etcd.yaml", "files-jobs.yaml"], 0),
    ("beside", ["--etcd=etcd"], ["files-etcd.yaml", "volcano-c10d.yaml"], 0),
    ("beside.from-etcd", ["--etcd=etcd", "--from=etcd"], ["files-etcd.yaml", "volcano-c10d.yaml"], 0),
    ("beside.from-c10d", ["--from=c10d"], ["files-etcd.yaml", "volcano-c10d.yaml"], 0),
    ("untouched", [], ["untouched.yaml"], 1),
]


def store_arguments(node):
    if isinstance(node, dict):
        if node.get("name") == "rdzvd" and "args" in node:
            yield node["args"]
        for value in node.values():
            yield from store_arguments(value)
    elif isinstance(node, list):
        for value in node:
            yield from store_arguments(value)
