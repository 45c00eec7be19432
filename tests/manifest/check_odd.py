"""Input of rdzv-manifest check that is no manifest, is huge, or has odd objects; and what the check of it costs. The cases
run with check.py."""

import os
import re
import shutil
import subprocess
import tempfile

from check_tool import CORPUS, check, read, sample


# ---- what is no manifest

def nested(depth):
    return b"".join(b" " * i + b"a:\n" for i in range(depth)) if depth < 2000 else b"[" * depth


BAD = [
    ("objects of JSON one after the other", b'{"a": 1}\n{"b": 2}\n', (2, 1)),
    ("a tab", b"kind: Pod\nspec:\n\ta: 1\n", (3, 1)),
    ("an anchor bomb", b"a: &a [x,x,x,x,x,x,x,x,x,x]\n" + b"".join(
        b"%c: &%c [%s]\n" % (n, n, b",".join([b"*%c" % (n - 1)] * 10)) for n in range(98, 108)), None),
    ("an anchor in itself", b"a: &a [*a]\n", (1, 8)),
    ("an unknown alias", b"a: *b\n", (1, 4)),
    ("broken UTF-8", b"kind: Pod\nname: \xff\xfe\n", (2, 7)),
    ("half a character", b"kind: \xe2\x82", None),
    ("a NUL", b"kind: P\0d\n", (1, 8)),
    ("depth 10,000", nested(10000), None),
    ("depth 1,000 in block style", nested(1000), None),
    ("an open quote", b"kind: \"Pod\n", None),
    ("an open list", b"kind: [Pod\n", None),
    ("text behind a mapping", b"kind: Pod\n  x\n- y\n", None),
    ("a second value", b"a: b: c\n", (1, 5)),
]


def unusable_input(tool):
    """`file:line:column: what: remedy`, exit 2, no output; whatever else is in the bundle."""
    good = read(sample()).encode()
    for what, data, place in BAD:
        for forms in ([], ["-o", "json"], ["-o", "sarif"]):
            code, out, err = tool.run(*forms, "-", stdin=data)
            m = re.match(r"<stdin>:(\d+):(\d+): .+: .+", err)
            check(code == 2 and out == "" and m, "%s: %d, %r, %r" % (what, code, out[:200], err[:300]))
            if place:
                check((int(m.group(1)), int(m.group(2))) == place, "%s: %s" % (what, err))
        code, out, err = tool.run("-", sample(), stdin=data)
        check(code == 2 and out == "", "%s beside a good file: %d %s" % (what, code, out[:200]))
        code, out, err = tool.run("-", stdin=good + b"---\n" + data)
        check(code == 2 and out == "", "%s behind a good document: %d %s" % (what, code, out[:200]))


def no_manifest(tool):
    """check refuses a file without objects, and a document that is no Kubernetes object, and names its place."""
    pod = b"apiVersion: v1\nkind: Pod\n"
    nothing, other = "no Kubernetes object in it: ", "this is no Kubernetes object, it has no %s: "
    for data, place, text in (
            (b"", (1, 1), nothing), (b"# nothing\n", (1, 1), nothing),
            (b"---\n---\n", (1, 1), nothing), (b"null\n", (1, 1), nothing),
            (b"[1, 2]\n", (1, 1), other % "apiVersion and kind"),
            (b"just text\n", (1, 1), other % "apiVersion and kind"),
            (b"# why\na: {b: c}\n", (2, 1), other % "apiVersion and kind"),
            (b"kind: Pod\n", (1, 1), other % "apiVersion"),
            (b"apiVersion: v1\n", (1, 1), other % "kind"),
            (pod + b"---\njobName: a\n---\n" + pod, (4, 1), other % "apiVersion and kind")):
        for beside in ([], [sample()]):
            code, out, err = tool.run("-", *beside, stdin=data)
            check(code == 2 and out == "" and err.startswith("<stdin>:%d:%d: %s" % (*place, text)),
                  "%r: %d, %r, %r" % (data, code, out[:200], err[:300]))
    code, out, err = tool.run(os.devnull)
    check(code == 2 and err.startswith(os.devnull + ":1:1: " + nothing), "%d %s" % (code, err))


def huge_input(tool):
    """100 MB are refused before they are read to the end."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "huge.yaml")
        with open(path, "wb") as f:
            f.write(b"kind: Pod\n" + b"# a comment that is long and says nothing at all\n" * 2000000)
        code, out, err = tool.run(path)
        check(code == 2 and out == "" and "MiB" in err and ": " in err, "%d %s" % (code, err[:300]))


# What a file can have many of; %d is the number of each.
MANY = {
    "Services and Pods": """\
apiVersion: v1
kind: Service
metadata: {name: s%(n)d}
spec: {selector: {app: a%(n)d}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p%(n)d, labels: {app: a%(n)d}}
spec: {containers: [{name: c, image: i}]}
---
""",
    "Services that select all Pods": """\
apiVersion: v1
kind: Service
metadata: {name: s%(n)d}
spec: {clusterIP: None, selector: {app: a}, ports: [{port: 29400}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p%(n)d, labels: {app: a}}
spec: {containers: [{name: c, image: i}]}
---
""",
    "jobs at stores of their own": """\
apiVersion: v1
kind: Service
metadata: {name: s%(n)d}
spec: {selector: {app: a%(n)d}, ports: [{port: 29400}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: s%(n)d}
spec:
  serviceName: s%(n)d
  template:
    metadata: {labels: {app: a%(n)d}}
    spec: {containers: [{name: rdzvd, image: rdzvd, args: ["--listen=0.0.0.0:29400"]}]}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: j%(n)d}
spec:
  minAvailable: 2
  plugins: {svc: [], env: []}
  tasks:
  - name: worker
    replicas: 2
    template: {spec: {containers: [{name: w, image: i, command: [torchrun, "--nnodes=2", --rdzv_backend=c10d, "--rdzv_endpoint=s%(n)d:29400", --rdzv_id=same, t.py]}]}}
---
""",
    "stores that are scraped, each with a policy and a ServiceMonitor": """\
apiVersion: v1
kind: Service
metadata: {name: s%(n)d, labels: {app: a%(n)d}}
spec: {selector: {app: a%(n)d}, ports: [{name: m, port: 29401}]}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: s%(n)d}
spec: {selector: {matchLabels: {app: a%(n)d}}, endpoints: [{port: m}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: s%(n)d}
spec:
  podSelector: {matchLabels: {app: a%(n)d}}
  ingress: [{from: [{podSelector: {matchLabels: {app: a%(n)d}}}]}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: s%(n)d}
spec:
  serviceName: s%(n)d
  template:
    metadata: {labels: {app: a%(n)d}, annotations: {prometheus.io/scrape: "true", prometheus.io/port: "29401"}}
    spec: {containers: [{name: rdzvd, image: rdzvd, args: ["--listen=0.0.0.0:29400"]}]}
---
""",
}

# One selector for all of them: what each selects by itself would be the square of the file.
MANY["stores that are scraped, and policies, Services and ServiceMonitors that each select all"] = re.sub(
    r"(podSelector|matchLabels|selector): \{app: a%\(n\)d\}", r"\1: {all: x}", MANY["stores that are scraped, each with a policy and a ServiceMonitor"]
).replace("labels: {app: a%(n)d}", "labels: {app: a%(n)d, all: x}").replace("podSelector: {matchLabels: {all: x}}\n", "podSelector: {}\n")

MANY["ServiceMonitors of all stores, each of a port of its own"] = MANY[
    "stores that are scraped, and policies, Services and ServiceMonitors that each select all"].replace(
    "name: m,", "name: m%(n)d,").replace("port: m}", "port: m%(n)d}")

MANY["ServiceMonitors of all stores, which differ in what does not matter"] = MANY[
    "stores that are scraped, and policies, Services and ServiceMonitors that each select all"].replace(
    "port: m}", "port: m, interval: %(n)ds}")

MANY["stores that are scraped, each in a namespace of its own"] = MANY["stores that are scraped, each with a policy and a ServiceMonitor"].replace(
    "metadata: {name: s%(n)d", "metadata: {namespace: n%(n)d, name: s%(n)d").replace("app: a%(n)d", "app: a")

MANY["policies that each select all pods, of which half are on the host network"] = """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: p%(n)d}
spec: {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: a%(n)d}}}]}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: s%(n)d}
spec: {serviceName: s%(n)d, template: {metadata: {labels: {app: a%(n)d}}, spec: {containers: [{name: c, image: c}]}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: h%(n)d}
spec: {serviceName: h%(n)d, template: {metadata: {labels: {app: h%(n)d}}, spec: {hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet, containers: [{name: c, image: c}]}}}
---
"""
MANY["jobs at stores that are not there"] = MANY["jobs at stores of their own"].replace("endpoint=s%(n)d:", "endpoint=x%(n)d-0:")

MANY["jobs at stores of their own, each with policies of both"] = MANY["jobs at stores of their own"] + """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: s%(n)d}
spec: {podSelector: {matchLabels: {app: a%(n)d}}, ingress: [{from: [{podSelector: {matchLabels: {volcano.sh/job-name: x}}}]}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: j%(n)d}
spec: {podSelector: {matchLabels: {volcano.sh/job-name: j%(n)d}}, policyTypes: [Egress], egress: [{ports: [{port: 53}]}]}
---
"""

MANY["replicas, each with a policy, a Service and a budget"] = """\
apiVersion: v1
kind: Service
metadata: {name: s%(n)d}
spec: {selector: {app: a%(n)d}, ports: [{name: m, port: 29400}]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: s%(n)d}
spec: {selector: {matchLabels: {app: a%(n)d}}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: s%(n)d}
spec: {podSelector: {matchLabels: {app: a%(n)d}}, policyTypes: [Egress], egress: [{ports: [{port: 2379}]}]}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: s%(n)d}
spec: {secretName: s%(n)d, dnsNames: [s%(n)d]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: s%(n)d}
spec:
  replicas: 3
  template:
    metadata: {labels: {app: a%(n)d}}
    spec:
      containers: [{name: rdzvd, image: rdzvd, args: ["--listen=0.0.0.0:29400", "--journal=etcd://e.e.svc:2379/j", --cert=/t/tls.crt],
                    volumeMounts: [{name: t, mountPath: /t}]}]
      volumes: [{name: t, secret: {secretName: s%(n)d}}]
---
"""

# Many of one thing in one object.
WITHIN = {
    "variables of a container that refer to others": """\
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  template:
    spec:
      containers:
      - name: c
        image: i
        command: [torchrun, t.py%(words)s]
        env:
%(lines)s
""",
    "assignments of a script": """\
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  template:
    spec:
      containers:
      - name: c
        image: i
        command:
        - bash
        - -c
        - |
%(script)s
          torchrun t.py
""",
}


def within(text, count):
    return text % {
        "words": ", --rdzv_conf=$(V%d)" % (count // 2),
        "lines": "\n".join("        - {name: V%d, value: 'a$(V%d)'}" % (n, n * 7 % count) for n in range(count)),
        "script": "\n".join("          V%d=$V%d" % (n, n * 7 % count) for n in range(count))}


def instructions(tool, data):
    """What check costs: instructions, which no other process on the machine adds to. None: valgrind cannot say."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write(data)
        f.flush()
        done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", tool.path, "check", f.name],
                              capture_output=True, text=True, check=False, timeout=300)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    return int(collected.group(1)) if collected else None


def cost_grows_with_the_file(tool):
    """Four times as many cost four times as much, not sixteen times."""
    if not shutil.which("valgrind"):
        return "skip: valgrind is not there"
    inputs = {name: lambda count, text=text: "".join(text % {"n": n} for n in range(count)) for name, text in MANY.items()}
    inputs.update({name: lambda count, text=text: within(text, count) for name, text in WITHIN.items()})
    for name, make in inputs.items():
        few, many = (instructions(tool, make(count)) for count in ((500, 2000) if name in WITHIN else (80, 320)))
        if few is None or many is None:
            return "skip: valgrind cannot run this build"
        check(many < 5 * few, "%s: cost %d instructions, and four times as many %d, %.1f times" % (name, few, many, many / few))
    return None


def nothing_to_find(tool):
    """Objects of which nothing is known, empty documents between them."""
    for data in (b"apiVersion: v1\nkind: Pod\n", b"apiVersion: v1\nkind: Pod\nspec: text\n",
                 b"---\n---\napiVersion: v1\nkind: Pod\n---\n# nothing\n",
                 b"apiVersion: v1\nkind: List\nitems: [1, {}, null]\n",
                 b"apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec: {pytorchReplicaSpecs: [1]}\n"):
        check(tool.findings("-", stdin=data) == [], data)


def odd_objects(tool):
    """check passes over fields of the wrong kind, and does not crash."""
    text = read(os.path.join(CORPUS, "mcad-pod.good.yaml"))
    for odd in ("[]", "{}", "text", "1", "null", "[[]]", "[null]", "{a: [1]}", "''"):
        for key in sorted(set(re.findall(r"([A-Za-z]+):(?= |\n)", text))):
            # In flow style, so that what stood below the key goes with it.
            lines, out, skip = text.split("\n"), [], None
            for line in lines:
                depth = len(line) - len(line.lstrip(" -"))
                if skip is not None and line.strip() and (
                        depth > skip or line.lstrip().startswith("- ") and depth - 2 >= skip):
                    continue
                skip = None
                m = re.match(r"^([ -]*)%s:" % key, line)
                if m:
                    skip = len(m.group(1))
                    line = "%s%s: %s" % (m.group(1), key, odd)
                out.append(line)
            code, _, err = tool.run("-", stdin="\n".join(out).encode())
            usable = (0, 1, 2) if key in ("apiVersion", "kind") else (0, 1)
            check(code in usable, "%s: %s: %s" % (key, odd, err[:300]))
