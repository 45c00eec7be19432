"""rdzv-manifest import: a job comes back from its manifests. The cases run with workflows.py."""

import json
import os
import re
import shlex
import subprocess
import sys

import yaml

from workflow_tool import Skip, TOOL, check, rules, run

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SHARED = os.path.join(os.path.dirname(ROOT), "shared")


# ---- import

def meaning(node):
    """A value that is equal for equivalent manifests: lists of named items lose their order, and empty values are
    removed."""
    if isinstance(node, dict):
        return {k: meaning(v) for k, v in node.items() if v not in (None, {}, [])}
    if isinstance(node, list):
        items = [meaning(i) for i in node]
        names = [i.get("name", i.get("mountPath")) if isinstance(i, dict) else None for i in items]
        return dict(zip(names, items)) if items and None not in names and len(set(names)) == len(names) else items
    return str(node)


WORKLOADS = {"Job", "JobSet", "PyTorchJob", "AppWrapper", "TrainJob", "TrainingRuntime"}


def workloads(out):
    """What trains: jobs, and AppWrappers without the parts that are the store's."""
    docs = [d for d in yaml.safe_load_all(out) if d and d["kind"] in WORKLOADS]
    for d in docs:
        if d["kind"] == "AppWrapper" and "components" in d["spec"]:
            d["spec"]["components"] = [c for c in d["spec"]["components"] if c["template"]["kind"] == "PyTorchJob"]
        elif d["kind"] == "AppWrapper":
            items = d["spec"]["resources"]["GenericItems"]
            d["spec"]["resources"]["GenericItems"] = [i for i in items if i["generictemplate"]["kind"] in ("PodGroup", "PyTorchJob")]
    return [meaning(d) for d in docs]


def import_gives_the_job_back():
    """emit, import and emit again: the job is the same, or a note says where it is not. Over a random walk of settings."""
    sys.path.insert(0, os.path.join(HERE, "emit"))
    import walk
    seed, wanted = int(os.environ.get("RDZV_SEED", "1")), int(os.environ.get("RDZV_IMPORTS", "150"))
    same = told = at = 0
    while same + told < wanted and at < 20 * wanted:
        at += 1
        args, job = walk.step(seed, at)
        again = "seed %d, step %d: %s" % (seed, at, walk.replay(args, job))
        done = subprocess.run([TOOL, "emit", *args, "-f", "-"], input=json.dumps(job).encode(), capture_output=True, timeout=60)
        # Plain pods are no job that can be told from others, and import wants to see torchrun.
        if done.returncode != 0 or args[1] == "pods" or b"PET_RDZV_BACKEND" not in done.stdout or (
                "mainProgram" not in job):
            continue
        read, said = run("import", stdin=done.stdout)
        check(read, "%s\n%s" % (said, again))
        twice, _ = run("emit", "-f", "-", "--input-format", "own", stdin=read, code=0)
        if workloads(twice) == workloads(done.stdout):
            same += 1
        else:
            check("no setting of a user file says" in said, "another job, and no word of it:\n%s\n%s\n%s" % (
                read.decode(), said, again))
            told += 1
    print("import: %d jobs are the same, %d differ where a note says so" % (same, told), flush=True)
    check(same + told == wanted and same > 0.8 * wanted, "%d the same, %d differ" % (same, told))


KEPT = ["replicas", "tls-relay", "tls-etcd", "tls-shared", "relay-shared"]

ISSUED = """\
jobName: train
namespace: ml
platform: job
containerImage: b:1
numPods: 2
mainProgram: t.py
rdzv:
  placement: replicas
  relays: %s
  protocol: %s
  replicas: 5
  namespace: infra
  tls: {issuer: {name: ca, kind: ClusterIssuer}}
  adminToken: {name: tokens, key: of-rdzvd}
  journal:
    endpoints: ['10.0.0.7:2379']
    prefix: team.train
    namespace: etcd
    user: rdzvd
    password: {name: users, key: pw}
    tls: {secret: etcd-ca, clientCertificate: false, serverName: etcd.example}
"""


def rdzvds(node):
    """Every container that is rdzvd or a relay."""
    if isinstance(node, dict):
        if str(node.get("name")).startswith("rdzvd") and "args" in node:
            yield node
        for value in node.values():
            yield from rdzvds(value)
    elif isinstance(node, list):
        for value in node:
            yield from rdzvds(value)


def import_gives_the_store_back():
    """import restores persistence and access of the store: replicas, Secrets, certificates, relays to a store in other
    files."""
    texts = [ISSUED % ("true", "c10d"), ISSUED % ("false", "etcd-v2")]
    unnamed = [t.replace("namespace: ml\n", "").replace("  namespace: infra\n", "").replace("    prefix: team.train\n", "")
               for t in texts]
    texts = [run("emit", "-f", "-", stdin=t.encode(), code=0)[0] for t in texts + unnamed]
    for name in KEPT:
        with open(os.path.join(HERE, "emit", "golden", name + ".yaml"), "rb") as f:
            texts.append(f.read())

    def store(text):
        found = {}
        for doc in yaml.safe_load_all(text):
            name = doc["kind"], doc["metadata"]["name"], doc["metadata"].get("namespace")
            found[name] = doc if doc["kind"] not in ("Job", "PyTorchJob", "TrainingRuntime", "JobSet") else [
                (c["args"], c.get("volumeMounts")) for c in rdzvds(doc)]
        return found

    for text in texts:
        read, _ = run("import", stdin=text, code=0)
        twice, _ = run("emit", "-f", "-", "--input-format", "own", stdin=read, code=0)
        check(store(twice) == store(text), "%s\n%r\nis not\n%r" % (read.decode(), store(twice), store(text)))


ETCD_JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: old, namespace: ml, labels: {team: a}}
spec:
  runPolicy: {cleanPodPolicy: None}
  pytorchReplicaSpecs:
    Worker:
      replicas: 4
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - name: pytorch
            image: b:1
            command: [%s]
            env: [{name: A, value: "1"}, {name: PET_RDZV_BACKEND, value: etcd}]
          - {name: log, image: c:1}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kept}
"""
FLAGS = "--rdzv_endpoint=etcd:2379 --rdzv_id 7 --nnodes=2:4 --nproc_per_node=8 --rdzv_conf=timeout=60,protocol=http"


def import_leaves_the_old_rendezvous():
    """What torchrun runs stays, whatever the form of its command; the options of the old rendezvous go, and notes name
    the line of what a user file cannot say."""
    plain = "--tee 3 t.py --lr 1e-3 'a b'"
    for start in ("torchrun", "python3 -m torch.distributed.run"):
        form = "%s %s %s" % (start, FLAGS, plain)
        commands = [", ".join(json.dumps(w) for w in shlex.split(form)), 'sh, -c, "exec %s"' % form]
        for command in commands[:2 if start == "torchrun" else 1]:
            out, said = run("import", stdin=(ETCD_JOB % command).encode(), code=0)
            user = yaml.safe_load(out)
            check(user["mainProgram"] == plain, "%s: %r" % (command, user))
            check(user["nodes"] == {"min": 2, "max": 4} and user["procsPerNode"] == 8, repr(user))
            check(user["environmentVariables"] == [{"name": "A", "value": "1"}] and user["restartPolicy"] == "OnFailure", repr(user))
            check(user["rdzv"] == {"conf": {"join_timeout": "60"}}, repr(user["rdzv"]))
            check([c["name"] for c in user["pod"]["containers"]] == ["log"], repr(user["pod"]))
            for line in (r"^<stdin>:3:\d+: note: metadata.labels: no setting", r"^<stdin>:5:\d+: note: spec.runPolicy: no setting",
                         "so keep their manifests if you need them: ConfigMap kept"):
                check(re.search(line, said, re.M), "%s: not in\n%s" % (line, said))
    # More than torchrun: the command stays, but for the rendezvous.
    out, said = run("import", stdin=(ETCD_JOB % ('bash, -c, "cd /x && torchrun %s t.py; rm -r /tmp/x"' % FLAGS)).encode(), code=0)
    check(yaml.safe_load(out)["command"][2] == "cd /x && torchrun --nnodes=2:4 --nproc_per_node=8 t.py; rm -r /tmp/x", out.decode())
    check("its --nnodes stay unchanged: change it where you change numPods" in said, said)
    for command, why in (('bash, -c, "PET_RDZV_ID=1 torchrun t.py"', "the script sets PET_RDZV_ID"), ("python3, t.py", "starts torchrun where import can see it")):
        data = (ETCD_JOB % command).replace("{name: PET_RDZV_BACKEND, value: etcd}", "{name: B, value: c}").encode()
        out, said = run("import", stdin=data, code=2)
        check(out == b"" and why in said, said)
    two = ETCD_JOB % "torchrun, t.py" + "---\n" + (ETCD_JOB % "torchrun, u.py").replace("name: old", "name: new")
    _, said = run("import", stdin=two.encode(), code=2)
    check("the files have several jobs, old and new among them: name one with --job" in said, said)
    out, _ = run("import", "--job", "new", "--platform", "job", stdin=two.encode(), code=0)
    check(yaml.safe_load(out)["mainProgram"] == "u.py" and yaml.safe_load(out)["platform"] == "job", out.decode())
    # From a cluster: the Pods that the controller of a job made of it are no other jobs.
    one = ETCD_JOB % "torchrun, t.py"
    job = yaml.safe_load(one.split("---\n")[0])
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": job["metadata"]["name"], "uid": "1", "controller": True}
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "t", "image": "x:1", "command": ["torchrun", "t.py"]}]},
           "metadata": dict(job["metadata"], name="old-worker-0", ownerReferences=[owner])}
    out, _ = run("import", stdin=(one + "---\n" + json.dumps(pod)).encode(), code=0)
    same, _ = run("import", stdin=one.encode(), code=0)
    check(out == same, out.decode())


POLICY_JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: a, namespace: ml}
spec:
  nprocPerNode: "4"
  elasticPolicy: {minReplicas: 1, maxReplicas: 3, maxRestarts: 7, rdzvBackend: c10d, rdzvId: "5", metrics: [{type: Pods}]}
  pytorchReplicaSpecs:
    Worker:
      replicas: 3
      restartPolicy: OnFailure
      template: {spec: {containers: [{name: pytorch, image: "b:1", command: %s}]}}
"""

GANG_JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a, namespace: ml}
spec:
  minAvailable: %d
  plugins: {svc: [], env: []}
  tasks:
  - name: etcd
    replicas: 1
    template: {spec: {containers: [{name: etcd, image: "quay.io/coreos/etcd:v3.5.9", command: [etcd, --enable-v2, --listen-client-urls, "http://0.0.0.0:2379", --advertise-client-urls, "http://a-etcd-0.a:2379"]}]}}
  - name: worker
    replicas: 4
    minAvailable: %d
    template:
      spec:
        restartPolicy: OnFailure
        containers: [{name: worker, image: "b:1", command: [torchrun, --max_restarts=100, --nnodes=4, --nproc_per_node=2, --rdzv_backend=etcd-v2, "--rdzv_endpoint=a-etcd-0.a:2379", --rdzv_id=a, t.py]}]
"""


def import_compares_what_numbers_come_to():
    """Nodes, processes, restarts and gangs: emit writes them in other places, and notes tell where they come to something else."""
    def imported(text, *args):
        out, said = run("import", *args, stdin=text.encode(), code=0)
        return yaml.safe_load(out), [n for n in said.split("\n") if "emit makes" in n or "no setting of" in n]

    for command in ('[torchrun, t.py]', '[sh, -c, "cd /x && torchrun t.py"]'):
        user, notes = imported(POLICY_JOB % command)
        check(user["nodes"] == {"min": 1, "max": 3} and user["procsPerNode"] == 4 and user["restarts"] == 7, repr(user))
        check(len(notes) == 1 and re.search(r"^<stdin>:6:\d+: note: spec.elasticPolicy.metrics: no setting", notes[0]), repr(notes))
        made, _ = run("emit", "-f", "-", stdin=json.dumps(user).encode(), code=0)
        spec = [d for d in yaml.safe_load_all(made) if d["kind"] == "PyTorchJob"][0]["spec"]
        policy = spec["elasticPolicy"]
        check((spec["nprocPerNode"], policy["minReplicas"], policy["maxReplicas"], policy["maxRestarts"]) == ("4", 1, 3, 7), repr(spec))
    # Of a command that stays, no option says it; the operator does, also without a policy.
    fixed = re.sub(r"  elasticPolicy: .*\n", "", POLICY_JOB % '[sh, -c, "cd /x && torchrun t.py"]')
    user, notes = imported(fixed)
    # emit lets torchrun restart, since the containers of this job restart one by one.
    check(user["procsPerNode"] == 4 and len(notes) == 1 and "torchrun has 0 restarts here, and 100 in the job" in notes[0], "%r\n%r" % (user, notes))
    for command, wanted in (("torchrun --max_restarts=7 t.py", 7), ("torchrun --max-restarts 0 t.py", 0), ("torchrun --max-restarts=100 t.py", None)):
        user, notes = imported(re.sub(r"  elasticPolicy: .*\n", "", POLICY_JOB % ("[%s]" % command.replace(" ", ", "))))
        check((user["mainProgram"], user.get("restarts"), notes) == ("t.py", wanted, []), "%s: %r\n%r" % (command, user, notes))
    user, notes = imported(fixed)
    made, _ = run("emit", "-f", "-", stdin=json.dumps(user).encode(), code=0)
    check([d for d in yaml.safe_load_all(made) if d["kind"] == "PyTorchJob"][0]["spec"]["nprocPerNode"] == "4", made.decode())
    # A policy of a job that --nnodes makes none of a range: no field of emit's job has its restarts, a variable has.
    user, notes = imported(POLICY_JOB % '[sh, -c, "cd /x && torchrun --nnodes=3 t.py"]')
    check({"name": "PET_MAX_RESTARTS", "value": "7"} in user["environmentVariables"] and not any("restarts" in n for n in notes), repr((user, notes)))
    # On another platform the numbers are compared, and the pods.
    user, notes = imported(POLICY_JOB % "[torchrun, t.py]", "--platform", "job")
    check(any("emit makes another kind of object of this PyTorchJob" in n for n in notes) and not any("torchrun" in n for n in notes), repr(notes))
    never = POLICY_JOB % "[torchrun, t.py]"
    _, notes = imported(never.replace(" maxRestarts: 7,", ""))
    check(any(re.search(r"^<stdin>:1:1: note: torchrun has 0 restarts here, and 100 in the job that emit makes: set `restarts`", n) for n in notes), repr(notes))
    # The store's pod is in the gang of both.
    check(imported(GANG_JOB % (5, 4))[1] == [], repr(imported(GANG_JOB % (5, 4))))
    for gang, line, whose in (((3, 4), 5, "2 training pods of the job"), ((5, 2), 13, "2 training pods of the tasks")):
        _, notes = imported(GANG_JOB % gang)
        check(len(notes) == 1 and re.search(r"^<stdin>:%d:\d+: note: the scheduler waits for %s here, and for 4 in the job" % (line, whose), notes[0]), repr(notes))


def import_says_what_plain_pods_need():
    """Several Pods form no job object: the proposed options turn them into one job with all nodes."""
    made, _ = run("emit", "-f", "-", stdin=b"{jobName: a, platform: pods, containerImage: 'b:1', numPods: 2, mainProgram: t.py}", code=0)
    _, said = run("import", stdin=made, code=2)
    check("several Pods run torchrun, a-pod0 and a-pod1 among them: name the first with --job, and what is to make" in said, said)
    _, said = run("import", "--job", "a-pod0", stdin=made, code=2)
    check(re.search(r"^<stdin>:\d+:1: emit makes no Pod: name what is to run the pods with --platform, such as job", said), said)
    out, _ = run("import", "--job", "a-pod0", "--platform", "job", stdin=made, code=0)
    check(yaml.safe_load(out)["numPods"] == 2, out.decode())


def import_takes_public_jobs():
    """For each job of the corpus that import accepts, the manifest from emit has no error that the original lacks."""
    corpus = os.path.join(SHARED, "corpus", "manifests")
    if not os.path.isdir(corpus):
        raise Skip("../shared is not there")
    taken = 0

    def faults(data, severity):
        out, _ = run("check", "-o", "json", "--severity", severity, "-", stdin=data)
        rules = {f["rule"] for f in json.loads(out)["findings"]} if out else set()
        return rules | ({"nnodes-missing"} if "gang-alone" in rules else set())  # the same fault, with a store and without

    for base, _, files in sorted(os.walk(corpus)):
        for name in sorted(f for f in files if f.endswith(".yaml")):
            path = os.path.join(base, name)
            user, said = run("import", path)
            if not user:
                check(": " in said, "%s: %s" % (path, said))
                continue
            taken += 1
            made, _ = run("emit", "-f", "-", "--input-format", "own", stdin=user, code=0)
            with open(path, "rb") as f:
                new = faults(made, "error") - faults(f.read(), "note")
            check(not new, "%s: %r\n%s" % (path, new, user.decode()))
    check(taken >= 30, "import took %d" % taken)
