"""What rewrite makes of words: options of torchrun in every shape and style, restarts, relays, policies. The cases run
with rewrite.py."""

import json
import os
import re

from manifests import Failed, check, documents, read
from rewrite_tool import INPUTS, rewrite, same, store_arguments


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
    ("probes of the port",
     "        args: [--rdzv-backend=etcd-v2, --rdzv-endpoint=meet:2379]\n"
     "        livenessProbe: {tcpSocket: {port: c}}\n        readinessProbe:\n          tcpSocket:\n            port: 2379\n"
     "        startupProbe: {tcpSocket: {port: 9000}}\n        ports: [{name: c, containerPort: 2379}, {containerPort: 9000}]\n",
     "        args: [--rdzv-backend=c10d, --rdzv-endpoint=meet:29400, \"--rdzv-conf=is_host=0\","
     " \"--rdzv-id=train\"]\n"
     "        startupProbe: {tcpSocket: {port: 9000}}\n        ports: [{containerPort: 9000}]\n"),
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
    ("command: [torchrun, --nnodes, '2', --rdzv-backend, etcd, --rdzv-endpoint, meet:2379, --rdzv-id=1, t.py]",
     "command: [torchrun, --nnodes, '2', --rdzv-backend, c10d, --rdzv-endpoint, meet:29400, \"--rdzv-conf\", "
     "is_host=0, \"--max-restarts\", \"100\", --rdzv-id=1, t.py]", RESTARTS_ADDED),
    ("command:\n- torchrun\n- --nnodes\n- '2'\n- --rdzv-backend\n- etcd\n- --rdzv-endpoint\n- meet:2379\n"
     "- --rdzv-id=1\n- t.py",
     "command:\n- torchrun\n- --nnodes\n- '2'\n- --rdzv-backend\n- c10d\n- --rdzv-endpoint\n- meet:29400\n"
     "- --rdzv-conf\n- is_host=0\n- --max-restarts\n- \"100\"\n- --rdzv-id=1\n- t.py", RESTARTS_ADDED),
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
ADDED = r"""\n- ('?)--max-restarts\1\n- ['"]100['"]|, "--max-restarts", "100"|, "--max_restarts=100"|\n.*PET_MAX_RESTARTS, .*| PET_MAX_RESTARTS=100"""


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
    uid = {"batch.kubernetes.io/controller-uid": "JobTrain"}
    job = dump("Job", "train", "batch/v1", {"parallelism": 2, "selector": {"matchLabels": uid}, "template": {
        "metadata": {"labels": dict(uid, own="x")}, "spec": job_pod}})
    job["metadata"]["resourceVersion"] = "1"
    made = [sets, dump("Pod", "etcd-5b8f-abcde", "v1", etcd_pod, sets, app="etcd")]
    made += [dump("Pod", "train-" + end, "v1", job_pod, job) for end in ("abcde", "fghij")]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [etcd, meet, job] + made}, indent=1)
    out, err = rewrite(["-"], data=text.encode(), code=0)
    items = documents(out)[0]["items"]
    same(str(items[3:]), str(made), "what controllers made")
    check("29400" in str(items[2]) and "rdzvd" in str(items[0]), out.decode())
    refused = [key for key in ("resourceVersion", "uid", "selector") if key in str(items[2])]
    same(str(refused), "[]", "fields that the API server refuses in a new Job")
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
