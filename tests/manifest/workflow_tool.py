"""Runs rdzv-manifest in folders: what the cases of workflows.py share."""

import json
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


TOOL = os.environ.get("RDZV_MANIFEST", os.path.join(ROOT, "build", "deploy", "rdzv-manifest"))


class Skip(Exception):
    """Skips the rest of a test, which needs a missing program or file."""


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def run(verb, *args, stdin=b"", cwd=None, code=None):
    """(standard output, standard error); `code`: the exit code that it has to be."""
    done = subprocess.run([TOOL, verb, *args], input=stdin, cwd=cwd, capture_output=True, timeout=120)
    check(code is None or done.returncode == code, "%s %s: exit %d, not %r: %s%s" % (
        verb, " ".join(args), done.returncode, code, done.stdout.decode()[-400:], done.stderr.decode()[-800:]))
    return done.stdout, done.stderr.decode()


def put(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


# A job with two faults: it has no run id at a shared store, and its agents may host the store. JOB has a third fault.
JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: train
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      enableServiceLinks: false
      containers:
      - name: t
        image: t:1
        command: [torchrun, --rdzv_backend=c10d, "--rdzv_endpoint=store.infra:29400", t.py]
"""

NODES = JOB.replace("torchrun,", "torchrun, --nnodes=2, --local_addr=$(IP),").replace(
    "        command", "        env:\n        - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}\n        command")


def findings(*args, cwd=None):
    done = subprocess.run([TOOL, "check", "-o", "json", *args], cwd=cwd, capture_output=True, timeout=120)
    check(done.returncode in (0, 1), done.stderr.decode())
    return json.loads(done.stdout)["findings"], done.stderr.decode()


def rules(found):
    return sorted({f["rule"] for f in found})


# ---- rewrite

ETCD = """\
apiVersion: v1
kind: Service
metadata: {name: etcd-client, namespace: ml}
spec:
  ports: [{name: client, port: 2379}]
  selector: {app: etcd}
---
apiVersion: v1
kind: Pod
metadata: {name: etcd-server, namespace: ml, labels: {app: etcd}}
spec:
  containers:
  - name: etcd
    image: quay.io/coreos/etcd:v3.4.9
    command: [/usr/local/bin/etcd, --enable-v2, --listen-client-urls=http://0.0.0.0:2379, --advertise-client-urls=http://etcd-client:2379]
    ports: [{containerPort: 2379}]
"""

TRAIN = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train, namespace: ml}
spec:
  elasticPolicy: {rdzvBackend: etcd-v2, rdzvHost: etcd-client, rdzvPort: 2379, rdzvId: train, minReplicas: 1, maxReplicas: 2}
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - name: pytorch
            image: t:1
            command: [torchrun, t.py]
"""
PLAIN = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
