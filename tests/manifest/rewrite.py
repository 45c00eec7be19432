#!/usr/bin/python3
"""rdzv-manifest rewrite: whole files against kept ones, shapes of words, refusals, and properties.

    rewrite.py [--only NAME]... [--seed N] [--rounds N] [--update]

The kept files are rewrite/*.yaml and what comes out of them, rewrite/expected/; --update writes the
latter anew, to be read before they are committed. The properties put noise (comments, blank lines,
other quotes) into the same inputs, and hold that all of it is still there: --seed replays one. With
../shared/ beside the checkout its examples and its validator are used, too.
"""

import argparse
import collections
import json
import os
import random
import re
import subprocess
import sys
import tempfile

from manifests import HERE, MANIFEST, SHARED, Failed, check, documents, rdzvd_binary, read, yaml

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


def golden(options):
    for name, args, files, code in GOLDEN:
        out, err = rewrite(args + files, code=code)
        ending = ".diff" if "--diff" in args else ".json" if files[0].endswith(".json") else ".yaml"
        for data, path in ((out, name + ending), (err, name + ".notes")):
            path = os.path.join(EXPECTED, path)
            if options.update:
                with open(path, "wb") as f:
                    f.write(data)
            else:
                check(os.path.exists(path), "%s is missing: --update" % path)
                same(data, read(path), "rewrite/expected/" + os.path.basename(path))


def golden_outputs():
    """Those that are whole manifests, with their names."""
    for name, args, files, code in GOLDEN:
        if code == 0 and "--diff" not in args:
            yield name, args, files, rewrite(args + files, code=0)[0]


def outputs_are_settled(_):
    """Rewriting what was rewritten changes nothing, and says so with its exit code."""
    for name, args, _, out in golden_outputs():
        args = [a for a in args if not a.startswith("--etcd")]  # it is none any more
        again, err = rewrite(args + ["-"], data=out, code=1)
        same(again, out, "%s, rewritten again," % name)
        check(b"nothing to rewrite" in err, "%s: not said" % name, err.decode())


RANGE = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: train, namespace: ns}
spec:
  serviceName: train
  replicas: %s
  selector: {matchLabels: {app: train}}
  template:
    metadata: {labels: {app: train}}
    spec:
      containers:
      - name: train
        image: train:1
        command: [torchrun, --nnodes=1:4, --rdzv-backend=c10d, --rdzv-endpoint=train-0.train:29400, --rdzv-id=a, t.py]
"""


def a_store_expects_the_pods_that_its_job_has(_):
    """Which may be fewer than torchrun takes; nothing is expected where their number is unknown."""
    for replicas, expected in (("2", ["--expect=2"]), ("4", ["--expect=4"]), ("two", [])):
        out, _ = rewrite(["-"], data=(RANGE % replicas).encode(), code=0)
        for args in store_arguments(documents(out)):
            same([a for a in args if a.startswith("--expect")], expected, replicas)


def a_store_is_scraped_where_that_is_asked_for(_):
    """At a port of its own; and check finds nothing that keeps Prometheus out."""
    for name in ("volcano-etcd.yaml", "pytorchjob-etcd.yaml"):
        out, _ = rewrite(["--metrics=annotations", os.path.join(INPUTS, name)], code=0)
        check('prometheus.io/port: "29401"' in out.decode(), name)
        check("--listen-metrics-urls=http://0.0.0.0:29401" in next(store_arguments(documents(out))), name)
        done = subprocess.run([MANIFEST, "check", "--rule=scrape-blocked", "-"], input=out,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        same(done.returncode, 0, done.stdout)
    out, _ = rewrite(["--metrics=annotations", os.path.join(INPUTS, "deployment.yaml")], code=0)
    check(out.count(b"prometheus.io/port") == 1 and b'prometheus.io/port: "29401"' in out, "the etcd had a port")
    out, _ = rewrite(["--metrics=annotations", "--set", "rdzv.metricsFrom=prom",
                      os.path.join(INPUTS, "pytorchjob-static.yaml")], code=0)
    policy = next(d for d in documents(out) if d["kind"] == "NetworkPolicy")
    same(policy["spec"]["ingress"][1]["from"],
         [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "prom"}}}], "metricsFrom")


ROOT = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train, namespace: ml}
spec:
  elasticPolicy: {rdzvBackend: c10d, minReplicas: 1, maxReplicas: 3, maxRestarts: 100}
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          securityContext: {runAsUser: %s}
          containers:
          - name: pytorch
            image: train:1
            command: [torchrun, t.py]
"""


def a_relay_in_a_pod_of_root_has_a_user_of_its_own(_):
    """Without it, the relay would run as root although it demands runAsNonRoot. A pod with another user or without a
    user may belong to OpenShift, which refuses fixed users."""
    for user, own in (("0", 65532), ("1000", None), ("null", None)):
        out, _ = rewrite(["--rdzv=relay", "-"], data=(ROOT % user).encode(), code=0)
        job = next(d for d in documents(out) if d["kind"] == "PyTorchJob")
        relay, = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["initContainers"]
        context = relay["securityContext"]
        same([context.get("runAsUser"), context.get("runAsGroup")], [own, own], "user " + user)
    master = ROOT.replace("  elasticPolicy: {rdzvBackend: c10d, minReplicas: 1, maxReplicas: 3, maxRestarts: 100}\n", "")
    master = master.replace("Worker:", "Master:").replace("replicas: 2", "replicas: 1").replace("torchrun", "python")
    out, _ = rewrite(["--wiring=agent-store", "-"], data=(master % "0").encode(), code=0)
    job = next(d for d in documents(out) if d["kind"] == "PyTorchJob")
    sidecar, = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["initContainers"]
    same(sidecar["securityContext"].get("runAsUser"), 65532, "a sidecar")


def a_master_moves_by_whatever_name_it_finds_itself(_):
    """The workers move as well if their endpoint is the Master's pod and port; a worker that names itself meets no
    other pod."""
    job = read(os.path.join(INPUTS, "masters.yaml")).decode()
    ip = job.replace("            command:", "            env:\n            - {name: POD_IP, valueFrom: "
                     "{fieldRef: {fieldPath: status.podIP}}}\n            command:", 1)
    for host, text in (("localhost", job), ("127.0.0.1", job), ("$(hostname)", job), ("$(hostname -i)", job),
                       ("$HOSTNAME", job), ("${HOSTNAME}", job), ("`hostname -f`", job), ("$POD_IP", ip)):
        text = text.replace("localhost:", host + ":")
        out, _ = rewrite(["-"], data=text.encode(), code=0)
        same(out.count(b"--rdzv_endpoint=pt-rdzv:29400"), 2, host)
        same(out.count(b"--rdzv_conf=is_host=0"), 2, host)
        same(out.count(b" --max_restarts=100 "), 2, host)
        for port in ("23457", "$PORT"):
            _, err = rewrite(["-"], data=text.replace(host + ":23456", host + ":" + port).encode(), code=2)
            check(b"a training pod is the store of its other runs" in err, host + ":" + port, err.decode())
    swapped = job.replace("localhost", "LOCAL").replace("$MASTER_ADDR", "localhost").replace("LOCAL", "$MASTER_ADDR")
    _, err = rewrite(["-"], data=swapped.encode(), code=2)
    check(b"<stdin>:30:15: PyTorchJob pt: a training pod is" in err, "workers that name themselves", err.decode())


def arguments_are_rdzvds(_):
    """Every argument list that comes out is one that the daemon takes."""
    count = 0
    for name, _, _, out in golden_outputs():
        for args in store_arguments(documents(out)):
            done = subprocess.run([rdzvd_binary(), "--check-config"] + args, capture_output=True,
                                  text=True, check=False)
            check(done.returncode == 0 or "level=" in done.stderr,  # files that are not on this machine
                  "%s: rdzvd %s" % (name, " ".join(args)), done.stderr)
            count += 1
    check(count >= 12, "only %d stores were found" % count)


def store_arguments(node):
    if isinstance(node, dict):
        if node.get("name") == "rdzvd" and "args" in node:
            yield node["args"]
        for value in node.values():
            yield from store_arguments(value)
    elif isinstance(node, list):
        for value in node:
            yield from store_arguments(value)


# ------------------------------------------------------------ words

STORE = """\
apiVersion: v1
kind: Pod
metadata: {name: etcd, labels: {app: etcd}}
spec:
  containers:
  - name: etcd
    image: quay.io/coreos/etcd:v3.3.27
---
apiVersion: v1
kind: Service
metadata: {name: meet}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {app: etcd}, ports: [{name: c, port: 2379}]}
---
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    spec:
      containers:
      - name: main
        image: trainer
"""
# A line of script and its rewritten form; "=": unchanged.
WORDS = [
    ("torchrun --rdzv-backend=etcd-v2 --rdzv-endpoint=meet:2379 --rdzv-id=1 t.py",
     "torchrun --rdzv-backend=c10d --rdzv-endpoint=meet:29400 --rdzv-conf=is_host=0 --rdzv-id=1 t.py"),
    ("torchrun --rdzv_backend etcd --rdzv_endpoint meet:2379 t.py",
     "torchrun --rdzv_backend c10d --rdzv_endpoint meet:29400 --rdzv_conf is_host=0 t.py"),
    ("torchrun --rdzv-backend='etcd-v2' --rdzv-endpoint=\"meet:2379\" t.py",
     "torchrun --rdzv-backend=c10d --rdzv-endpoint=\"meet:29400\" --rdzv-conf=is_host=0 t.py"),
    ("torchrun '--rdzv-backend=etcd-v2' \"--rdzv-endpoint=meet:2379\" t.py",
     "torchrun '--rdzv-backend=c10d' \"--rdzv-endpoint=meet:29400\" --rdzv-conf=is_host=0 t.py"),
    ("torchrun --rdzv-backend=etcd-v2 --rdzv-endpoint=meet --rdzv-conf=last_call_timeout=5 t.py",
     "torchrun --rdzv-backend=c10d --rdzv-endpoint=meet:29400"
     " --rdzv-conf=is_host=0,last_call_timeout=5 t.py"),
    ("torchrun --rdzv-backend=etcd-v2 --rdzv-endpoint=meet.ml.svc.cluster.local:2379"
     " --rdzv-conf='join_timeout=60,is_host=$(test x == y && echo 1)' t.py",
     "torchrun --rdzv-backend=c10d --rdzv-endpoint=meet.ml.svc.cluster.local:29400"
     " --rdzv-conf='join_timeout=60,is_host=0' t.py"),
    ("torchrun --rdzv-backend=etcd-v2 --rdzv-endpoint=etcd-0.meet:2379 --rdzv-conf=is_host=false t.py",
     "torchrun --rdzv-backend=c10d --rdzv-endpoint=etcd-0.meet:29400 --rdzv-conf=is_host=false t.py"),
    ("python3 -m torch.distributed.run --rdzv-backend=etcd-v2 --rdzv-endpoint=meet:2379 t.py",
     "python3 -m torch.distributed.run --rdzv-backend=c10d --rdzv-endpoint=meet:29400"
     " --rdzv-conf=is_host=0 t.py"),
    ("exec bash -c 'torchrun --rdzv-backend=etcd-v2 --rdzv-endpoint=meet:2379 t.py'",
     "exec bash -c 'torchrun --rdzv-backend=c10d --rdzv-endpoint=meet:29400 --rdzv-conf=is_host=0"
     " t.py'"),
    ("FLAGS=\"--rdzv-backend=etcd-v2 --rdzv-endpoint=meet:2379\"; torchrun $FLAGS t.py",
     "FLAGS=\"--rdzv-backend=c10d --rdzv-endpoint=meet:29400 --rdzv-conf=is_host=0\";"
     " torchrun $FLAGS t.py"),
    ("HOST=meet; torchrun --rdzv-backend=etcd-v2 --rdzv-endpoint=$HOST:2379 t.py",
     "HOST=meet; torchrun --rdzv-backend=c10d --rdzv-endpoint=$HOST:29400 --rdzv-conf=is_host=0 t.py"),
    ("END=meet:2379; torchrun --rdzv-backend=etcd-v2 --rdzv-endpoint=$END t.py",
     "END=meet:2379; torchrun --rdzv-backend=c10d --rdzv-endpoint=meet:29400 --rdzv-conf=is_host=0"
     " t.py"),
    ("export PET_RDZV_BACKEND=etcd-v2 PET_RDZV_ENDPOINT=meet:2379; torchrun t.py",
     "export PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT=meet:29400 PET_RDZV_CONF=is_host=0;"
     " torchrun t.py"),
    ("if x; then torchrun --rdzv-backend=etcd-v2 --rdzv-endpoint=meet:2379 a.py;"
     " else torchrun --rdzv-backend=etcd-v2 --rdzv-endpoint=meet:2379 --rdzv-conf=is_host=1 b.py; fi",
     "if x; then torchrun --rdzv-backend=c10d --rdzv-endpoint=meet:29400 --rdzv-conf=is_host=0 a.py;"
     " else torchrun --rdzv-backend=c10d --rdzv-endpoint=meet:29400 --rdzv-conf=is_host=0 b.py; fi"),
    # What etcd reads and c10d does not: timeout has another name there, and the rest goes.
    ("torchrun --rdzv-backend=etcd --rdzv-endpoint=meet:2379 --rdzv-conf=timeout=900 t.py",
     "torchrun --rdzv-backend=c10d --rdzv-endpoint=meet:29400"
     " --rdzv-conf=is_host=0,join_timeout=900 t.py"),
    ("torchrun --rdzv-backend=etcd --rdzv-endpoint=meet:2379"
     " --rdzv-conf='last_call_timeout=$(wait_for),timeout=900' t.py",
     "torchrun --rdzv-backend=c10d --rdzv-endpoint=meet:29400"
     " --rdzv-conf='is_host=0,last_call_timeout=$(wait_for),join_timeout=900' t.py"),
    ("torchrun --rdzv-backend=etcd --rdzv-endpoint=meet:2379"
     " --rdzv-conf=\"protocol=http,timeout=9,etcd_prefix=/a\" t.py",
     "torchrun --rdzv-backend=c10d --rdzv-endpoint=meet:29400"
     " --rdzv-conf=\"is_host=0,join_timeout=9\" t.py"),
    ("torchrun --rdzv-backend=etcd --rdzv-endpoint=meet:2379"
     " --rdzv-conf=is_host=1,join_timeout=5,timeout=9 t.py",
     "torchrun --rdzv-backend=c10d --rdzv-endpoint=meet:29400"
     " --rdzv-conf=is_host=0,join_timeout=5 t.py"),
    ("torchrun --rdzv-backend=etcd-v2 --rdzv-endpoint=meet:2379 --rdzv-conf=timeout=9 t.py",
     "torchrun --rdzv-backend=c10d --rdzv-endpoint=meet:29400 --rdzv-conf=is_host=0,timeout=9 t.py"),
    ("CONF=timeout=9; torchrun --rdzv-backend=etcd --rdzv-endpoint=meet:2379 --rdzv-conf=$CONF t.py",
     "CONF=timeout=9; torchrun --rdzv-backend=c10d --rdzv-endpoint=meet:29400"
     " --rdzv-conf=is_host=0,join_timeout=9 t.py"),
    ("torchrun --rdzv-endpoint=meet:2379 t.py",
     "torchrun --rdzv-endpoint=meet:29400 --rdzv-backend=c10d --rdzv-conf=is_host=0 t.py"),
    ("torchrun --rdzv-backend=etcd-v2 --rdzv-endpoint=elsewhere:2379 t.py", "="),
    ("torchrun --rdzv-backend=etcd-v2 --rdzv-endpoint=$NOBODY_KNOWS t.py", "="),
    ("torchrun --standalone t.py --note 'meet:2379'", "="),
    ("echo --rdzv-endpointmeet:2379 # torchrun --rdzv-endpoint=meet:2379", "="),
]


# The same, where the words have no id yet; elsewhere they have one.
WITHOUT_ID = [
    ("torchrun --rdzv-backend=etcd-v2 --rdzv-endpoint=meet:2379 t.py",
     "torchrun --rdzv-backend=c10d --rdzv-endpoint=meet:29400 --rdzv-conf=is_host=0"
     " --rdzv-id=train t.py"),
    ("torchrun --rdzv_backend etcd --rdzv_endpoint meet:2379 t.py",
     "torchrun --rdzv_backend c10d --rdzv_endpoint meet:29400 --rdzv_conf is_host=0"
     " --rdzv_id train t.py"),
    ("export PET_RDZV_BACKEND=etcd-v2 PET_RDZV_ENDPOINT=meet:2379; torchrun t.py",
     "export PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT=meet:29400 PET_RDZV_CONF=is_host=0"
     " PET_RDZV_ID=train; torchrun t.py"),
]


def with_id(text):
    return text if "--rdzv-id" in text else re.sub(r" ([abt]\.py)", r" --rdzv-id=1 \1", text)


def words(_):
    """Shell text in every style that YAML has for it."""
    for before, after in [(with_id(b), with_id(a)) for b, a in WORDS] + WITHOUT_ID:
        after = before if after == "=" else after
        for style, write in STYLES.items():
            if style == "plain" and (": " in before or " #" in before or before.startswith("'")):
                continue
            job = JOB + "        command: [bash, -c]\n        args:\n%s        # behind\n"
            data = (STORE + job % write(before)).encode()
            try:
                out, _ = rewrite(["--etcd=etcd", "-"], data=data, code=0)
            except Failed as e:
                raise Failed("in style %s\n    %s\n%s" % (style, before, e))
            container = documents(out)[-1]["spec"]["template"]["spec"]["containers"][0]
            got = container["args"][0].strip()
            check(got == after, "in style %s\n    %s\nbecame\n    %s\nand not\n    %s" % (
                style, before, got, after))
            check(out.endswith(b"        # behind\n"), "what stands behind is gone", out.decode())
            if after != before and style in EXACT:
                check((job % write(after)).encode() in out, "quotes or blanks have changed",
                      out.decode())


STYLES = {
    "literal": lambda t: "        - |\n          %s\n" % t,
    "literal-stripped": lambda t: "          -  |-\n               %s\n" % t,
    "folded": lambda t: "        - >\n          %s\n" % t,
    "double": lambda t: "        - %s\n" % json.dumps(t),
    "single": lambda t: "        - '%s'\n" % t.replace("'", "''"),
    "plain": lambda t: "        - %s\n" % t,
}
EXACT = ("literal", "literal-stripped", "double", "single", "plain")


def continued_lines(_):
    """A flag that is added stands on a line of its own where the others do."""
    text = ("        - |\n"
            "            set -e   # stop at the first error\n"
            "\n"
            "            torchrun \\\n"
            "              --rdzv-backend=etcd-v2 \\\n"
            "              --rdzv-endpoint=meet:2379\\\n"
            "              t.py\n")
    out, _ = rewrite(["-"], data=(STORE + JOB + "        args:\n" + text).encode(), code=0)
    want = text.replace("etcd-v2", "c10d").replace(
        "meet:2379\\", "meet:29400 \\\n              --rdzv-conf=is_host=0 \\\n"
                       "              --rdzv-id=train\\")
    check(want.encode() in out, "the lines are\n" + out.decode()[-400:])


# Anything else that names the store; %s is put below the container.
SHAPES = [
    ("a list of words",
     "        command: [torchrun, --rdzv-backend=etcd-v2, '--rdzv-endpoint=meet:2379', t.py]\n",
     "        command: [torchrun, --rdzv-backend=c10d, '--rdzv-endpoint=meet:29400',"
     " \"--rdzv-conf=is_host=0\", \"--rdzv-id=train\", t.py]\n"),
    ("a list with words in pairs",
     "        command:\n        - torchrun\n        - --rdzv_backend\n        - etcd\n"
     "        - --rdzv_endpoint   # where\n        - \"meet:2379\"   # there\n        - t.py\n",
     "        command:\n        - torchrun\n        - --rdzv_backend\n        - c10d\n"
     "        - --rdzv_endpoint   # where\n        - \"meet:29400\"   # there\n"
     "        - \"--rdzv_conf\"\n        - \"is_host=0\"\n"
     "        - \"--rdzv_id\"\n        - \"train\"\n        - t.py\n"),
    ("variables",
     "        command: [torchrun, t.py]\n        env:\n"
     "        - {name: PET_RDZV_BACKEND, value: etcd-v2}\n"
     "        - {name: PET_RDZV_ENDPOINT, value: 'meet:2379'}\n"
     "        - {name: OTHER, value: 'meet:2379'}\n",
     "        command: [torchrun, t.py]\n        env:\n"
     "        - {name: PET_RDZV_BACKEND, value: c10d}\n"
     "        - {name: PET_RDZV_ENDPOINT, value: 'meet:29400'}\n"
     "        - {name: PET_RDZV_CONF, value: is_host=0}\n"
     "        - {name: PET_RDZV_ID, value: train}\n"
     "        - {name: OTHER, value: 'meet:2379'}\n"),
    ("a variable that a flag names",
     "        command: [torchrun, --rdzv-backend=etcd-v2, --rdzv-endpoint=$(WHERE), t.py]\n"
     "        env:\n        - name: WHERE\n          value: meet:2379  # the store\n",
     "        command: [torchrun, --rdzv-backend=c10d, --rdzv-endpoint=$(WHERE),"
     " \"--rdzv-conf=is_host=0\", \"--rdzv-id=train\", t.py]\n"
     "        env:\n        - name: WHERE\n          value: meet:29400  # the store\n"),
    ("a port of the container",
     "        args: [--rdzv-backend=etcd-v2, --rdzv-endpoint=meet:2379]\n"
     "        ports:\n        - containerPort: 2379\n        - containerPort: 9000\n",
     "        args: [--rdzv-backend=c10d, --rdzv-endpoint=meet:29400, \"--rdzv-conf=is_host=0\","
     " \"--rdzv-id=train\"]\n"
     "        ports:\n        - containerPort: 9000\n"),
    ("variables and flags of two commands",
     "        command: [sh, -c, \"F='--rdzv_endpoint=meet:2379'; torchrun $F a.py; torchrun $F b.py\"]\n"
     "      - name: other\n        command: [sh, -c, torchrun a.py; torchrun b.py]\n"
     "        env:\n        - {name: PET_RDZV_ENDPOINT, value: meet}\n",
     "        command: [sh, -c, \"F='--rdzv_endpoint=meet:29400 --rdzv_backend=c10d --rdzv_conf=is_host=0"
     " --rdzv_id=train';"
     " torchrun $F a.py; torchrun $F b.py\"]\n"
     "      - name: other\n        command: [sh, -c, torchrun a.py; torchrun b.py]\n"
     "        env:\n        - {name: PET_RDZV_ENDPOINT, value: meet:29400}\n"
     "        - {name: PET_RDZV_BACKEND, value: c10d}\n"
     "        - {name: PET_RDZV_CONF, value: is_host=0}\n"
     "        - {name: PET_RDZV_ID, value: train}\n"),
    ("two files of script",
     "        args:\n        - |\n          A=1\n          torchrun --rdzv-backend=etcd-v2"
     " --rdzv-endpoint=meet:2379 a.py\n        - |+\n          torchrun --rdzv-backend=etcd-v2"
     " --rdzv-endpoint=meet:2379\n\n        tty: true\n",
     "        args:\n        - |\n          A=1\n          torchrun --rdzv-backend=c10d"
     " --rdzv-endpoint=meet:29400 --rdzv-conf=is_host=0 --rdzv-id=train a.py\n        - |+\n          torchrun"
     " --rdzv-backend=c10d --rdzv-endpoint=meet:29400 --rdzv-conf=is_host=0 --rdzv-id=train\n\n        tty: true\n"),
]


def shapes(_):
    for name, before, after in SHAPES:
        out, _ = rewrite(["-"], data=(STORE + JOB + before).encode(), code=0)
        same(out[out.rindex(b"apiVersion: batch/v1"):], (JOB + after).encode(), name)


POLICY = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train}
spec:
  elasticPolicy:
    rdzvBackend: %s
    rdzvHost: meet
    rdzvPort: %d
    rdzvConf:
    - key: %s   # how long
      value: "900"
%s    rdzvId: a
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - {name: pytorch, image: trainer, command: [torchrun, t.py]}
"""


def a_policys_conf_gets_the_keys_of_c10d(_):
    """timeout of etcd is join_timeout there; what only etcd reads goes, and a note says so."""
    data = STORE + POLICY % ("etcd", 2379, "timeout", "    - key: protocol\n      value: http\n")
    out, err = rewrite(["-"], data=data.encode(), code=0)
    want = POLICY % ("c10d", 29400, "join_timeout", "    - key: is_host\n      value: \"0\"\n    maxRestarts: 100\n")
    same(out[out.index(b"apiVersion: kubeflow"):], want.encode(), "the policy")
    check(b"c10d does not read the conf key `protocol`" in err, "not said", err.decode())


RESTARTED = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  minAvailable: 2
  tasks:
  - name: worker
    replicas: 2   # both
    template:
      spec:
        restartPolicy: %s
        containers:
        - name: main
          image: trainer
%s          ports: []   # none
"""
RESTARTS_ADDED = b"Job train: torchrun had no restarts"
RESTARTS_HIDDEN = b"Job train: rewrite adds no restarts, because it does not see all options"
# A launch, what becomes of it, and a note; None: none speaks of restarts.
RESTARTS = [
    ("command: [torchrun, --nnodes=2, --rdzv_backend=etcd, --rdzv_endpoint=meet:2379, --rdzv_id=1, t.py]  # a",
     "command: [torchrun, --nnodes=2, --rdzv_backend=c10d, --rdzv_endpoint=meet:29400, \"--rdzv_conf=is_host=0\", "
     "\"--max_restarts=100\", --rdzv_id=1, t.py]  # a", RESTARTS_ADDED),
    ("command:\n- torchrun\n- --nnodes\n- '2'\n- '--rdzv-backend'\n- 'etcd-v2'\n- '--rdzv-endpoint'\n- 'meet:2379'\n"
     "- --rdzv-conf=is_host=0\n- --rdzv-id=1  # b\n- t.py",
     "command:\n- torchrun\n- --nnodes\n- '2'\n- '--rdzv-backend'\n- 'c10d'\n- '--rdzv-endpoint'\n- 'meet:29400'\n"
     "- '--max-restarts'\n- '100'\n- --rdzv-conf=is_host=0\n- --rdzv-id=1  # b\n- t.py", RESTARTS_ADDED),
    ("command: [torchrun, t.py]\nenv:\n- {name: PET_NNODES, value: '2'}\n- {name: PET_RDZV_BACKEND, value: etcd}  # c\n"
     "- {name: PET_RDZV_ENDPOINT, value: meet:2379}\n- {name: PET_RDZV_ID, value: a}",
     "command: [torchrun, t.py]\nenv:\n- {name: PET_NNODES, value: '2'}\n- {name: PET_RDZV_BACKEND, value: c10d}  # c\n"
     "- {name: PET_RDZV_ENDPOINT, value: meet:29400}\n- {name: PET_RDZV_CONF, value: is_host=0}\n"
     "- {name: PET_MAX_RESTARTS, value: \"100\"}\n- {name: PET_RDZV_ID, value: a}", RESTARTS_ADDED),
    ("command: [sh, -c, 'export PET_RDZV_ENDPOINT=meet:2379 PET_RDZV_BACKEND=etcd PET_RDZV_CONF=is_host=0 PET_RDZV_ID=a; "
     "torchrun --nnodes=2 t.py']",
     "command: [sh, -c, 'export PET_RDZV_ENDPOINT=meet:29400 PET_MAX_RESTARTS=100 PET_RDZV_BACKEND=c10d "
     "PET_RDZV_CONF=is_host=0 PET_RDZV_ID=a; torchrun --nnodes=2 t.py']", RESTARTS_ADDED),
    # More options may be in the image.
    ("env:\n- {name: PET_NNODES, value: '2'}\n- {name: PET_RDZV_BACKEND, value: etcd}\n"
     "- {name: PET_RDZV_ENDPOINT, value: meet:2379}\n- {name: PET_RDZV_ID, value: a}",
     "env:\n- {name: PET_NNODES, value: '2'}\n- {name: PET_RDZV_BACKEND, value: c10d}\n"
     "- {name: PET_RDZV_ENDPOINT, value: meet:29400}\n- {name: PET_RDZV_CONF, value: is_host=0}\n"
     "- {name: PET_RDZV_ID, value: a}", RESTARTS_HIDDEN),
    # The user's own number, and one node.
    ("command: [torchrun, --nnodes=2, --max-restarts=0, --rdzv-backend=etcd, --rdzv-endpoint=meet:2379, --rdzv-id=1, t.py]",
     "command: [torchrun, --nnodes=2, --max-restarts=0, --rdzv-backend=c10d, --rdzv-endpoint=meet:29400, "
     "\"--rdzv-conf=is_host=0\", --rdzv-id=1, t.py]", None),
    ("command: [torchrun, --nnodes=1, --rdzv-backend=etcd, --rdzv-endpoint=meet:2379, --rdzv-id=1, t.py]",
     "command: [torchrun, --nnodes=1, --rdzv-backend=c10d, --rdzv-endpoint=meet:29400, \"--rdzv-conf=is_host=0\", "
     "--rdzv-id=1, t.py]", None),
]


ADDED = r"""\n- '--max-restarts'\n- '100'|, "--max_restarts=100"|\n.*PET_MAX_RESTARTS, .*| PET_MAX_RESTARTS=100"""


def torchrun_gets_restarts_where_containers_restart_alone(_):
    """In the form of its endpoint, byte for byte; not if some options are out of sight, which a note says."""
    for before, after, note in RESTARTS:
        for policy in ("OnFailure", "Never"):
            def job(text):
                return RESTARTED % (policy, "".join("          %s\n" % line for line in text.split("\n")))
            want = after if policy == "OnFailure" else re.sub(ADDED, "", after)
            out, err = rewrite(["-"], data=(STORE + job(before)).encode(), code=0)
            same(out[out.index(b"apiVersion: batch.volcano"):], job(want).encode(), "%s, %s" % (policy, before))
            said = [n for n in (RESTARTS_ADDED, RESTARTS_HIDDEN) if n in err]
            check(said == ([note] if note and policy == "OnFailure" else []), before, err.decode())


# The conf of a run that gets a relay; None: it has none.
RELAYED = [
    ("etcd-v2", None, "is_host=0,read_timeout=900"),
    ("etcd-v2", "last_call_timeout=5", "is_host=0,last_call_timeout=5,read_timeout=900"),
    ("etcd-v2", "is_host=1", "is_host=0,read_timeout=900"),
    ("etcd-v2", "read_timeout=30", "is_host=0,read_timeout=30"),
    ("etcd", "timeout=9", "is_host=0,join_timeout=9,read_timeout=900"),
    ("etcd", "protocol=http,timeout=9", "is_host=0,join_timeout=9,read_timeout=900"),
]


def relayed_agents_wait_for_their_store(_):
    """As long as those that emit makes, if nobody has said how long."""
    line = "torchrun --rdzv-backend=%s --rdzv-endpoint=%s%s --rdzv-id=1 t.py"
    for backend, before, after in RELAYED:
        text = STORE + JOB + "        command: [sh, -c, \"%s\"]\n"
        before = "" if before is None else " --rdzv-conf=" + before
        out, _ = rewrite(["--rdzv=relay", "-"], data=(text % (line % (backend, "meet:2379", before))).encode(), code=0)
        check((line % ("c10d", "localhost:29400", " --rdzv-conf=" + after)).encode() in out, after, out.decode())
    again, err = rewrite(["--rdzv=relay", "-"], data=out, code=1)
    check(again == out and b"a job that meets at rdzvd already gets no relays" in err, err.decode())
    data = STORE + POLICY % ("etcd", 2379, "timeout", "")
    out, _ = rewrite(["--rdzv=relay", "-"], data=data.encode(), code=0)
    policy = next(d for d in documents(out) if d["kind"] == "PyTorchJob")["spec"]["elasticPolicy"]
    same({c["key"]: c["value"] for c in policy["rdzvConf"]}, {"join_timeout": "900", "is_host": "0", "read_timeout": "900"},
         "the policy's conf")


REFERRERS = """\
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: by-kind}
spec: {targetRef: {apiVersion: v1, kind: Pod, name: etcd}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: way-in}
spec: {rules: [{http: {paths: [{path: /, backend: {service: {name: meet, port: {number: 2379}}}}]}}]}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: watch}
spec: {selector: {matchLabels: {for: torch}}, endpoints: [{port: c}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data:
  store: http://meet:2379
---
apiVersion: v1
kind: ConfigMap
metadata: {name: nothing}
data: {store: "http://meet-elsewhere:2379"}
---
"""


def what_else_refers_to_the_etcd_is_named(_):
    """With its line; what refers to something else is not."""
    store = STORE.replace("metadata: {name: meet}", "metadata: {name: meet, labels: {for: torch}}")
    job = JOB + "        args: [--rdzv-backend=etcd-v2, --rdzv-endpoint=meet:2379]\n"
    out, err = rewrite(["--etcd=etcd", "-"], data=(REFERRERS + store + job).encode(), code=0)
    lines = err.decode().splitlines()
    for at, said in (("4:", "VerticalPodAutoscaler by-kind is for Pod etcd, which goes: delete it"),
                     ("9:", "Ingress way-in leads to Service meet, behind which rdzvd is now"),
                     ("14:", "ServiceMonitor watch scrapes this etcd"),
                     ("20:", "ConfigMap settings names Service meet, behind which rdzvd is now")):
        check(any(line.startswith("<stdin>:" + at) and said in line for line in lines),
              "not said at line %s %s" % (at, said), err.decode())
    check("ConfigMap nothing" not in err.decode(), "said of a stranger", err.decode())
    same(out[:len(REFERRERS)], REFERRERS.encode(), "what refers to it")
    _, err = rewrite(["--etcd=etcd", "--keep-kind", "-"], data=(REFERRERS + store + job).encode(), code=0)
    check(b"VerticalPodAutoscaler by-kind scales Pod etcd, which is rdzvd now" in err, "of one kind",
          err.decode())


def policies_keep_up(_):
    """A policy that lets the job out to its etcd lets it out to c10d's port, too; where rewrite cannot know what to
    admit, it refuses, unless the policy blocked the job before."""
    def policy(egress, pods="{volcano.sh/job-name: yolov5}"):
        return ("---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: out, namespace: %s}\n"
                "spec:\n  podSelector: {matchLabels: " + pods + "}\n  policyTypes: [Egress]\n  egress:\n" + egress)

    dns = "  - ports: [{port: 53, protocol: UDP}]\n"
    rule = "  - ports:\n    - port: %s\n%s"
    to = "    to: [{podSelector: {matchLabels: {app: %s}}}]\n"
    etcd = (STORE.replace("name: etcd,", "name: etcd, namespace: ml,").replace("{name: meet}", "{name: meet, namespace: ml}")
            + JOB.replace("name: train", "name: train, namespace: ml", 1) +
            "        command: [torchrun, --rdzv-backend=etcd-v2, '--rdzv-endpoint=meet:2379', --nnodes=2, t.py]\n")
    pods = "{batch.kubernetes.io/job-name: train}"
    out, err = rewrite(["-"], data=(etcd + policy(dns + rule % (2379, to % "etcd") + rule % (2379, to % "x"), pods) % "ml").encode(), code=0)
    egress = next(d for d in documents(out) if d["kind"] == "NetworkPolicy")["spec"]["egress"]
    same(str([[p["port"] for p in r["ports"]] for r in egress]), "[[53], [2379, 29400], [2379]]", "the ports")
    check("NetworkPolicy out: it now lets its pods out to port 29400, too" in err.decode(), err.decode())
    _, err = rewrite(["-"], data=(etcd + policy(dns + rule % ('2000\n      endPort: 3000', ""), pods) % "ml").encode(), code=2)
    check("give this policy, or another one of the same pods, a rule for port 29400" in err.decode(), err.decode())
    _, err = rewrite(["-"], data=(etcd + policy(dns, pods) % "ml").encode(), code=0)
    check("store-blocked, in the result" in err.decode(), err.decode())

    # The store of worker 0 moves out of the job.
    static = read(os.path.join(INPUTS, "pytorchjob-static.yaml")).decode()
    pods = "{training.kubeflow.org/job-name: ipex-distributed}"
    peers = "  - to: [{podSelector: {matchLabels: %s}}]\n" % pods
    _, err = rewrite(["-"], data=(static + policy(dns + peers, pods) % "kubeflow").encode(), code=2)
    check("no policy lets the pods of PyTorchJob ipex-distributed out to StatefulSet ipex-distributed-rdzv" in err.decode(), err.decode())
    store = rule % (29400, "    to: [{podSelector: {matchLabels: {rdzvd: ipex-distributed}}}]\n")
    rewrite(["-"], data=(static + policy(dns + peers + store, pods) % "kubeflow").encode(), code=0)


def what_controllers_made_stays(_):
    """The Pods in the output of `kubectl get` that belong to an etcd or to a job: they are neither another etcd nor
    another job."""
    def dump(kind, name, api, spec, owner=None, **labels):
        meta = {"name": name, "namespace": "ml", "uid": kind + name, "labels": labels}
        if owner:
            meta["ownerReferences"] = [{"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True,
                                        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}]
        return {"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec}

    etcd_pod = {"containers": [{"name": "etcd", "image": "quay.io/coreos/etcd:v3.3.27"}]}
    words = ["torchrun", "--nnodes=2", "--rdzv-backend=etcd-v2", "--rdzv-endpoint=meet:2379", "--rdzv-id=a", "t.py"]
    job_pod = {"restartPolicy": "Never", "containers": [{"name": "t", "image": "x:1", "command": words}]}
    etcd = dump("Deployment", "etcd", "apps/v1", {"selector": {"matchLabels": {"app": "etcd"}}, "template": {
        "metadata": {"labels": {"app": "etcd"}}, "spec": etcd_pod}})
    sets = dump("ReplicaSet", "etcd-5b8f", "apps/v1", etcd["spec"], etcd, app="etcd")
    meet = dump("Service", "meet", "v1", {"selector": {"app": "etcd"}, "ports": [{"name": "c", "port": 2379}]})
    job = dump("Job", "train", "batch/v1", {"parallelism": 2, "template": {"spec": job_pod}})
    made = [sets, dump("Pod", "etcd-5b8f-abcde", "v1", etcd_pod, sets, app="etcd")]
    made += [dump("Pod", "train-" + end, "v1", job_pod, job) for end in ("abcde", "fghij")]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [etcd, meet, job] + made}, indent=1)
    out, err = rewrite(["-"], data=text.encode(), code=0)
    items = documents(out)[0]["items"]
    same(str(items[3:]), str(made), "what controllers made")
    check("29400" in str(items[2]) and "rdzvd" in str(items[0]), out.decode())
    check("leaves 4 objects that controllers made of others as they are" in err.decode(), err.decode())
    out, _ = rewrite(["--plan", "-"], data=text.encode(), code=0)
    check("replicaset" not in out.decode().lower() and " pod" not in out.decode().lower(), out.decode())


RUNS = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: js, namespace: ml}
spec:
  replicatedJobs:
"""
RUN = """\
  - name: %(name)s
    template:
      spec:
        parallelism: %(pods)d
        completions: %(pods)d
        completionMode: Indexed
        template:
          spec:
            restartPolicy: Never
            containers:
            - name: main
              image: trainer
              command: [torchrun, --nnodes=%(pods)d, --rdzv_backend=c10d, "--rdzv_endpoint=js-%(host)s-0-0.js:29500", %(id)s t.py]
              env: [{name: PART, valueFrom: {fieldRef: {fieldPath: "metadata.labels['jobset.sigs.k8s.io/replicatedjob-name']"}}}]
"""


def runs_of_one_job_stay_apart(_):
    """Two runs of a JobSet share one store, which expects the number of nodes of each run; if both had the same id,
    they would be one run."""
    def job(*parts):
        return (RUNS + "".join(RUN % dict(zip(("name", "pods", "host", "id"), part)) for part in parts)).encode()

    one, two, both, part = "--rdzv_id=one,", "--rdzv_id=two,", "", '"--rdzv_id=$(PART)",'
    for parts, want in (
            ((("a", 2, "a", one), ("b", 4, "b", two)), []), ((("a", 3, "a", one), ("b", 3, "b", two)), ["--expect=3"]),
            ((("a", 2, "a", part), ("b", 4, "b", part)), []), ((("a", 1, "a", one), ("b", 3, "a", one)), ["--expect=4"]),
            ((("a", 1, "a", both), ("b", 3, "a", both)), ["--expect=4"])):
        out, _ = rewrite(["-"], data=job(*parts), code=0)
        args = next(store_arguments(documents(out)))
        same(str([a for a in args if a.startswith("--expect")]), str(want), str(parts))
    for word in (one, both):
        _, err = rewrite(["-"], data=job(("a", 2, "a", word), ("b", 4, "b", word)), code=2)
        check("JobSet js: b meets in other pods than a, and with the same id at one store they would become one run: give each" in err.decode(), err.decode())


# ------------------------------------------------------------ refusals

ETCD_POD = STORE.split("---\n")[0]
REFUSED = [
    ("an anchor at the endpoint", STORE + JOB + "        args: [--rdzv-backend=etcd-v2]\n"
     "        env:\n        - {name: PET_RDZV_ENDPOINT, value: &e 'meet:2379'}\n"
     "        - {name: B, value: *e}\n", r"^<stdin>:2\d:\d+: .*anchor.*: write it"),
    ("an alias at the endpoint", STORE + JOB + "        env:\n"
     "        - {name: B, value: &e 'meet:2379'}\n"
     "        - {name: PET_RDZV_ENDPOINT, value: *e}\n", r"^<stdin>:\d+:\d+: .*alias.*: ?write it"),
    ("an alias for a list of arguments", STORE + JOB + "        args: &a [--rdzv-endpoint=meet:2379]\n"
     "      initContainers:\n      - {name: i, args: *a}\n", r"^<stdin>:\d+:\d+: .*&a is shared"),
    ("tabs", STORE.replace("  containers:", "\tcontainers:"), r"^<stdin>:5:\d+: "),
    ("a template", STORE.replace("name: etcd,", "name: {{ .Release.Name }},"), r"^-?<stdin>:3:"),
    ("a template at the edited place", STORE + JOB +
     "        args: ['--rdzv-backend={{ .x }}', '--rdzv-endpoint=meet:2379']\n"
     "        env: [{name: PET_RDZV_ENDPOINT, value: 'meet:{{ .Values.port }}'}]\n",
     r"^<stdin>:\d+:\d+: .*template.*render it"),
    ("several members", STORE.replace("image: quay.io", "command: [etcd, --initial-cluster, "
     "'a=http://a:2380,b=http://b:2380']\n    image: quay.io"), r"several members.*: leave"),
    ("three replicas", ETCD_POD.replace("v1\nkind: Pod", "apps/v1\nkind: StatefulSet").replace(
        "spec:\n", "spec:\n  replicas: 3\n  template:\n   metadata: {labels: {app: etcd}}\n   spec:\n").replace(
        "  containers:", "    containers:").replace("  - name", "    - name").replace(
        "    image", "      image"), r"several members"),
    ("TLS", STORE.replace("image: quay.io", "args: ['--listen-client-urls=https://0.0.0.0:2379']\n"
                          "    image: quay.io"), r"TLS.*: leave"),
    ("a container beside it", STORE.replace("    image: quay.io/coreos/etcd:v3.3.27",
     "    image: quay.io/coreos/etcd:v3.3.27\n  - name: b\n    image: busybox"), r"beside etcd: move"),
    ("no name", STORE.replace("name: etcd,", "") + JOB +
     "        args: [--rdzv-backend=etcd-v2, '--rdzv-endpoint=meet:2379']\n", r"no name: give it one"),
    ("half a job", read(os.path.join(INPUTS, "masters.yaml")).decode().replace("localhost:", "$(cat /head):"),
     r"^<stdin>:19:15: PyTorchJob pt: a training pod is the store of its other runs"),
    ("half a job without an endpoint", read(os.path.join(INPUTS, "masters.yaml")).decode().replace(
        "--rdzv_endpoint=localhost:23456 ", ""),
     r"^<stdin>:19:15: PyTorchJob pt: a training pod is the store of its other runs.*: give it their endpoint$"),
    ("half a job of an etcd", STORE + JOB + "        command: [torchrun, --rdzv-backend=etcd-v2, "
     "'--rdzv-endpoint=meet:2379', --nnodes=2, t.py]\n      - name: more\n        image: trainer\n"
     "        command: [sh, -c, 'torchrun --rdzv-backend=etcd-v2 --rdzv-endpoint=$ETCD:2379 --nnodes=2 t.py']\n",
     r"^<stdin>:26:27: Job train: an etcd is the store of its other runs.*, or use --keep-backend$"),
    ("options that no file has", STORE + JOB + "        command: [sh, -c, 'torchrun --nnodes=2 --rdzv-backend=etcd "
     "--rdzv-endpoint=meet:2379 $MORE t.py']\n", r"^<stdin>:2\d:\d+: Job train: `\$MORE` may hold .*, or use --keep-backend$"),
    ("a key twice where it edits", STORE + JOB + "        args: [--rdzv-backend=etcd, '--rdzv-endpoint=meet:2379']\n"
     "        args: [--rdzv-backend=etcd-v2, '--rdzv-endpoint=meet:2379']\n", r"^<stdin>:2\d:9: args occurs twice, first in line 2\d"),
    ("folded words", STORE + JOB + "        args:\n        - >\n          torchrun --rdzv-backend\n"
     "          etcd-v2 --rdzv-endpoint=meet:2379 \"--rdzv-conf=a=1,\n          is_host=$(x\n"
     "          y)\" t.py\n", r"folded lines: write the text as a block"),
]


def refusals(_):
    for name, text, pattern in REFUSED:
        try:
            out, err = rewrite(["-"] + ["--etcd=etcd"] * ("name: etcd," in text), data=text.encode(),
                               code=2)
        except Failed as e:
            raise Failed("%s: %s" % (name, e))
        check(out == b"", "%s: something was written" % name, out.decode())
        check(re.search(pattern, err.decode(), re.M), "%s: %s does not say %s" % (
            name, err.decode(), pattern))


def templates_in_files(_):
    """A file that is no YAML yet is named with the line of its braces."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "deployment.yaml")
        with open(path, "w") as f:
            f.write("# {{ a comment }}\nkind: Pod\n{{- if .Values.etcd }}\nmetadata: {}\n{{- end }}\n")
        _, err = rewrite([path], code=2)
        check("%s:3:1: this is a template: render it first" % path in err.decode(), err.decode())


def arguments(_):
    for args, said in ((["--rdzv=task", "-"], "write service, relay or replicas"),
                       (["--rdzv=replicas", "pytorchjob-static.yaml"],
                        "pytorchjob-static.yaml:1:1: rdzv.journal is missing"),
                       (["--rdzv=replicas", "volcano-etcd.yaml"], "lead to one store"),
                       (["--rdzv=relay", "--set=rdzv.tls.secret=s", "volcano-etcd.yaml"], "have no certificate, so"),
                       (["--set=rdzv.tls.secret=s", "pytorchjob-static.yaml"], "clients have no TLS: use placement relay"),
                       (["--rdzv=relay", "--keep-backend", "-"], "leave out --keep-backend, or --rdzv"),
                       (["--rdzv=relay", os.path.join(INPUTS, "volcano-c10d.yaml")], "on the host network"),
                       (["--frm=x", "-"], "--frm is no option of rewrite: did you mean --from?"),
                       (["--backend=raft", "-"], "write c10d or etcd-v2"),
                       (["--in-place", "-"], "cannot be written in place"),
                       (["--etcd=nobody", "untouched.yaml"], "no etcd named nobody"),
                       (["--image=", "-"], "no name of an image"),
                       (["--metrics=servicemonitor", "-"], "write annotations; emit"),
                       (["untouched.yaml", "untouched.yaml"], "named twice"),
                       (["missing.yaml"], "missing.yaml: cannot be read")):
        out, err = rewrite(args, data=b"", code=2)
        check(out == b"" and said in err.decode(), "%s: %s" % (args, err.decode()))


def one_of_two(_):
    """--etcd says which one is meant; the other one stays."""
    both = STORE + STORE.replace("name: etcd,", "name: other, namespace: b,").replace(
        "{name: meet}", "{name: there, namespace: b}")
    for name in ("other", "b/other"):
        out, _ = rewrite(["--etcd=" + name, "-"], data=both.encode(), code=0)
        check(out.startswith(STORE.encode()), "the first one was touched")
        check(documents(out)[2]["kind"] == "StatefulSet", "the second one was not")


# ------------------------------------------------------------ properties


def apply_diff(old, diff):
    """Applies a diff like `patch`, to prove that every byte of the diff is right."""
    lines, out, at = old.splitlines(True), [], 0
    body = diff.splitlines(True)
    i = 0
    while i < len(body):
        if body[i].startswith((b"--- ", b"+++ ")):
            i += 1
            continue
        head = re.match(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", body[i])
        check(head, "no head of a hunk: %r" % body[i])
        start = int(head.group(1)) - (0 if head.group(2) == b"0" else 1)
        out += lines[at:start]
        at, i = start, i + 1
        while i < len(body) and not body[i].startswith((b"@@", b"--- ")):
            sign, text = body[i][:1], body[i][1:]
            if i + 1 < len(body) and body[i + 1].startswith(b"\\ No newline"):
                text, i = text[:-1], i + 1
            if sign in b" -":
                check(lines[at] == text, "line %d is %r, not %r" % (at + 1, lines[at], text))
                at += 1
            if sign in b" +":
                out.append(text)
            i += 1
    return b"".join(out + lines[at:])


def changes(args, data):
    """The output, and the lines that went and came."""
    out, _ = rewrite(args + ["-"], data=data)
    diff, _ = rewrite(args + ["--diff", "-"], data=data)
    same(apply_diff(data, diff), out, "the input with its own diff applied")
    lines = [line for line in diff.splitlines(True)[2:] if not line.startswith(b"@@")]
    return out, [[line[1:] for line in lines if line[:1] == sign] for sign in (b"-", b"+")]


NOISE = re.compile(rb"[ ]*# noise \d+ .*")
PLAIN_INPUTS = [(args, files[0]) for _, args, files, _ in GOLDEN if len(files) == 1 and
                files[0].endswith(".yaml")]


def quiet(gone, come):
    """What went and came without the noise, without what only noise moves (empty lines), and
    without lines that stay but for a comment behind them."""
    sides = []
    for lines in (gone, come):
        lines = [NOISE.sub(b"", line).rstrip() for line in lines]
        sides.append(collections.Counter(line for line in lines if line))
    return sides[0] - sides[1], sides[1] - sides[0]


def add_noise(data, rng):
    """Comments and blank lines wherever they mean nothing: not in block scalars."""
    out, tokens, block = [], [], None
    for line in data.splitlines(True):
        indent = len(line) - len(line.lstrip(b" "))
        if block is not None and line.strip() and indent <= block:
            block, fresh = None, False  # a comment here could be a line of the block yet
        else:
            fresh = True
        if block is None:
            while fresh and rng.random() < 0.15:
                tokens.append(b"# noise %d %s" % (len(tokens), rng.choice(
                    [b"{{ .x }}", b"'\"", b"- a: b", "ä€😀".encode(), b"&a *b |", b"--- etcd:2379"])))
                out.append(b" " * rng.randrange(12) + tokens[-1] + b"\n")
            if rng.random() < 0.1:
                out.append(rng.choice([b"\n", b"   \n"]))
            if re.search(rb"[|>][-+]?\s*$", line):
                block = indent
                dash = re.match(rb" *(- +)+", line)
                block = len(dash.group(0)) - 2 if dash else indent
            elif rng.random() < 0.2 and line.endswith(b"\n") and line.strip() not in (b"---", b"") \
                    and b" #" not in line and not line.startswith(b"#"):
                tokens.append(b"# noise %d %s" % (len(tokens), rng.choice([b"'", b"x: y", b"[", b"|"])))
                line = line[:-1] + b"  " + tokens[-1] + b"\n"
        out.append(line)
    return b"".join(out), tokens


def noise_stays(options):
    """rewrite keeps every comment, blank line and byte outside its edits, and its edits are the same as without the
    noise."""
    for i in range(options.rounds):
        seed = options.seed + i
        rng = random.Random(seed)
        args, name = rng.choice(PLAIN_INPUTS)
        plain = read(os.path.join(INPUTS, name))
        noisy, tokens = add_noise(plain, rng)
        try:
            check(documents(noisy) == documents(plain), "the noise means something")
            plain_out, (plain_gone, plain_come) = changes(args, plain)
            out, (gone, come) = changes(args, noisy)
            check(documents(out) == documents(plain_out), "the noise has changed the result")
            for now, then, what in zip(quiet(gone, come), quiet(plain_gone, plain_come),
                                       ("went", "came")):
                check(now == then, "other lines %s: %s" % (what, (now - then) + (then - now)))
            for line in come:
                noise = NOISE.search(line)
                check(noise is None or any(noise.group(0).strip() in g for g in gone),
                      "noise came: %r" % line)
            kept = sum(token in out for token in tokens)
            lost = sum(any(token in g for g in gone) and not any(token in c for c in come)
                       for token in tokens)
            check(kept + lost == len(tokens), "%d comments, %d kept, %d lost with their lines" % (
                len(tokens), kept, lost))
            again, _ = rewrite(args + ["-"], data=out, code=1)
            same(again, out, "what was rewritten, rewritten again,")
        except Failed as e:
            raise Failed("rewrite.py --only noise --seed %d --rounds 1 (%s %s): %s" % (
                seed, " ".join(args), name, e))


def line_ends(_):
    """CR LF stays CR LF, also in lines that are new; a file without a last newline stays without."""
    for args, name in PLAIN_INPUTS:
        plain = read(os.path.join(INPUTS, name))
        out, _ = rewrite(args + ["-"], data=plain)
        dos, _ = rewrite(args + ["-"], data=plain.replace(b"\n", b"\r\n"))
        same(dos, out.replace(b"\n", b"\r\n"), "%s with CR LF" % name)
        changes(args, plain.replace(b"\n", b"\r\n"))
        bare, _ = rewrite(args + ["-"], data=plain[:-1])
        same(bare, out[:-1], "%s without its last newline" % name)
        changes(args, plain[:-1])


def other_styles(options):
    """The same objects in JSON, and in other styles of YAML, come out with the same meaning."""
    for args, name in PLAIN_INPUTS:
        docs = documents(read(os.path.join(INPUTS, name)))
        want = unpacked(documents(rewrite(args + ["-"], data=read(os.path.join(INPUTS, name)))[0]))
        as_list = {"apiVersion": "v1", "kind": "List", "items": docs}
        dump = {"width": 1000, "sort_keys": False}
        for style, text in {
                "json": json.dumps(as_list), "indented json": json.dumps(as_list, indent=2),
                "flow": yaml.safe_dump_all(docs, default_flow_style=True, **dump),
                "block": yaml.safe_dump_all(docs, default_flow_style=False, **dump),
                "list": yaml.safe_dump(as_list, default_flow_style=False, **dump),
                "double": yaml.safe_dump_all(docs, default_style='"', **dump),
                "single": yaml.safe_dump_all(docs, default_style="'", **dump),
                "indented": "\n".join("   " + line for line in yaml.safe_dump(
                    as_list, default_flow_style=False, **dump).split("\n")).rstrip() + "\n"}.items():
            try:
                out = documents(rewrite(args + ["-"], data=text.encode())[0])
            except Failed as e:
                raise Failed("%s as %s: %s" % (name, style, e))
            out = unpacked(out)
            if style in ("double", "single"):  # there numbers are strings, and stay so
                out, wanted = texts(out), texts(want)
            else:
                wanted = want
            same_objects(one_line(out), one_line(wanted), "%s as %s" % (name, style))
            if style in ("json", "indented json"):
                json.loads(rewrite(args + ["-"], data=text.encode())[0])


def unpacked(docs):
    """The objects, without Lists around them."""
    out = []
    for doc in docs:
        out += unpacked(doc["items"]) if doc["kind"] == "List" else [doc]
    return out


def one_line(node):
    """Continued lines joined: where the style has no lines, an added flag stands beside another."""
    if isinstance(node, dict):
        return {k: one_line(v) for k, v in node.items()}
    if isinstance(node, list):
        return [one_line(v) for v in node]
    return re.sub(r" *\\\n *", " ", node) if isinstance(node, str) else node


def texts(node):
    if isinstance(node, dict):
        return {k: texts(v) for k, v in node.items()}
    if isinstance(node, list):
        return [texts(v) for v in node]
    if isinstance(node, bool):
        return str(node).lower()
    return "null" if node is None else str(node)


def in_place(_):
    """New files in place of the old, the old ones beside them, and nothing else."""
    source = ["files-etcd.yaml", "files-jobs.yaml", "untouched.yaml"]
    with tempfile.TemporaryDirectory() as folder:
        for name in source:
            with open(os.path.join(folder, name), "wb") as f:
                f.write(read(os.path.join(INPUTS, name)))
            os.chmod(os.path.join(folder, name), 0o640)
        os.symlink("files-jobs.yaml", os.path.join(folder, "link.yaml"))
        with open(os.path.join(folder, "files-etcd.yaml.bak"), "w") as f:
            f.write("an older one")
        files = ["files-etcd.yaml", "link.yaml", "untouched.yaml"]
        want = {}
        for name in source[:2]:
            diff, _ = rewrite(["--diff"] + source, code=0)
            part = diff.split(b"--- " + name.encode())[1].split(b"--- files")[0]
            want[name] = apply_diff(read(os.path.join(INPUTS, name)),
                                    b"--- " + name.encode() + part)
        out, err = rewrite(["--in-place"] + files, code=0, cwd=folder)
        check(out == b"", "it printed, too")
        check(sorted(os.listdir(folder)) == sorted(source + [
            "link.yaml", "files-etcd.yaml.bak", "files-etcd.yaml.bak.2", "files-jobs.yaml.bak"]),
            str(os.listdir(folder)), err.decode())
        for name, backup in (("files-etcd.yaml", ".bak.2"), ("files-jobs.yaml", ".bak")):
            same(read(os.path.join(folder, name)), want[name], name)
            same(read(os.path.join(folder, name + backup)), read(os.path.join(INPUTS, name)), backup)
            check(os.stat(os.path.join(folder, name)).st_mode & 0o777 == 0o640, "its rights changed")
        check(os.path.islink(os.path.join(folder, "link.yaml")), "the link is gone")
        before = sorted(os.listdir(folder))
        rewrite(["--in-place"] + files, code=1, cwd=folder)
        check(sorted(os.listdir(folder)) == before, "a second time left something")


def in_place_fails_whole(_):
    """If rewrite cannot write one of the files, it changes no file."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("files-etcd.yaml", "files-jobs.yaml"):
            with open(os.path.join(folder, name), "wb") as f:
                f.write(read(os.path.join(INPUTS, name)))
        fifo = os.path.join(folder, "fifo.yaml")
        os.mkfifo(fifo)
        process = subprocess.Popen([MANIFEST, "rewrite", "--in-place", "files-etcd.yaml",
                                    "fifo.yaml"], cwd=folder, stderr=subprocess.PIPE)
        with open(fifo, "wb") as f:
            f.write(read(os.path.join(INPUTS, "files-jobs.yaml")))
        err = process.communicate()[1]
        check(process.returncode == 2 and b"fifo.yaml: cannot be written" in err, err.decode())
        same(read(os.path.join(folder, "files-etcd.yaml")),
             read(os.path.join(INPUTS, "files-etcd.yaml")), "the file that could be written")
        check(sorted(os.listdir(folder)) == ["fifo.yaml", "files-etcd.yaml", "files-jobs.yaml"],
              str(os.listdir(folder)))


# ------------------------------------------------------------ with the spec beside us


def without_nulls(node):
    if isinstance(node, dict):
        return {k: without_nulls(v) for k, v in node.items() if v is not None}
    return [without_nulls(v) for v in node] if isinstance(node, list) else node


def without_advertise(node):
    """The examples are older than rdzvd's repair of elastic jobs, which is better told where workers
    can reach it."""
    if isinstance(node, dict):
        return {k: without_advertise(v) for k, v in node.items()}
    if isinstance(node, list):
        return [without_advertise(v) for v in node if not str(v).startswith("--advertise=")]
    return node


def spec_examples(_):
    """The examples' content, parsed: layout is ours."""
    folder = os.path.join(SHARED, "spec", "examples")
    for name, args, want in (
            ("oke/rewrite-volcano-in", ["--keep-backend"], "oke/rewrite-volcano-compat"),
            ("oke/rewrite-volcano-in", [], "oke/rewrite-volcano-c10d"),
            ("oke/rewrite-pytorchjob-in", ["--keep-backend"], "oke/rewrite-pytorchjob-compat"),
            ("oke/rewrite-pytorchjob-in", [], "oke/rewrite-pytorchjob-c10d"),
            ("aks/rewrite-in", ["--wiring=agent-store"], "aks/rewrite-agent-store")):
        out = without_nulls(documents(rewrite(args + [os.path.join(folder, name + ".yaml")])[0]))
        text = read(os.path.join(folder, want + ".yaml"))
        text = text.replace(b"--linger=", b"--space-idle-timeout=")  # they are older than this word
        text = text.replace(b"sizeLimit: 256Mi", b"sizeLimit: 1Gi")  # and of a store that wrote nothing
        text = text.replace(b"            --rdzv-conf=is_host=0 \\\n",  # and than the restarts that c10d gets
                            b"            --rdzv-conf=is_host=0 \\\n            --max-restarts=100 \\\n")
        expected = without_nulls(documents(text))
        same_objects(without_advertise(out), expected, want)


def validator(_):
    """The validator, which knows schemas and webhooks, finds no BAD document. It does not know cert-manager's
    Certificate, so the test removes these."""
    tool = os.path.join(SHARED, "tools", "validate_manifests.py")
    for name, _, _, out in golden_outputs():
        if b"kind: Certificate" in out:
            out = yaml.safe_dump_all(d for d in documents(out) if d["kind"] != "Certificate").encode()
        done = subprocess.run([sys.executable, tool, "--bundle", "-"], input=out,
                              capture_output=True, check=False)
        check(done.returncode == 0, "%s: " % name + done.stdout.decode(), done.stderr.decode())


TESTS = [golden, outputs_are_settled, arguments_are_rdzvds, a_relay_in_a_pod_of_root_has_a_user_of_its_own,
         a_master_moves_by_whatever_name_it_finds_itself, a_store_expects_the_pods_that_its_job_has, a_store_is_scraped_where_that_is_asked_for, words, continued_lines, shapes,
         a_policys_conf_gets_the_keys_of_c10d, torchrun_gets_restarts_where_containers_restart_alone, relayed_agents_wait_for_their_store, what_else_refers_to_the_etcd_is_named, policies_keep_up, what_controllers_made_stays, runs_of_one_job_stay_apart, refusals,
         templates_in_files, arguments, one_of_two, noise_stays, line_ends, other_styles, in_place,
         in_place_fails_whole, spec_examples, validator]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", action="append", help="tests whose name begins so")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    if options.update:
        os.makedirs(EXPECTED, exist_ok=True)

    results = {"passed": 0, "failed": 0, "skipped": 0}
    for test in TESTS:
        if options.only and not any(test.__name__.startswith(n) for n in options.only):
            continue
        if test in (spec_examples, validator) and not os.path.isdir(SHARED):
            print("skip: %s: there is no ../shared" % test.__name__)
            results["skipped"] += 1
            continue
        try:
            test(options)
            results["passed"] += 1
        except Failed as e:
            print("FAIL %s: %s\n---- again: rewrite.py --only %s --seed %d" % (
                test.__name__, e, test.__name__, options.seed), flush=True)
            results["failed"] += 1
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % results)
    return 1 if results["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
