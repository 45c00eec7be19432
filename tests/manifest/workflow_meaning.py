"""What comes back of a job: emit of import, compared with the manifest by what its pods run. Nothing here asks the tool.

Pods are those that run_real.py would start: their command lines without options of the rendezvous, what torchrun then has of
nodes, processes and restarts, their variables, and every other field. The cases run with workflows.py.
"""

import os
import re
import shlex

import yaml

import platforms
from manifests import HERE, SHARED
from workflow_tool import Skip, check, run

# What an import changes or a cluster writes, and fields that say the same elsewhere.
RDZV = r"rdzv[-_]\w+|node[-_]rank|master[-_]\w+|local[-_]addr|standalone"
NUMBERS = r"nnodes|nproc[-_]per[-_]node|max[-_]restarts"
OPTION = re.compile(r"(?:\s|\\\n|^)+--(%s|%s)(?:[= ](\"[^\"]*\"|'[^']*'|(?:\$\([^)]*\)|[^\s\\\"'])+))?" % (RDZV, NUMBERS), re.M)
ELSEWHERE = {"status", "creationTimestamp", "uid", "resourceVersion", "generation", "managedFields", "elasticPolicy", "nprocPerNode",
             "minAvailable", "replicas", "parallelism", "completions", "completionMode", "numNodes", "numProcPerNode", "name",
             "kueue.x-k8s.io/queue-name"}
OF_STORE = {"rdzvd", "rdzvd-relay", "rdzvd-data", "rdzvd-client-tls"}
JOBS = {"Job", "JobSet", "PyTorchJob", "TrainJob", "CronJob", "LeaderWorkerSet", "StatefulSet", "Pod"}


def leaves(node, path=()):
    """(path, text) of all values: items of lists by their names, nothing of what is empty."""
    if isinstance(node, dict):
        for key, value in node.items():
            if str(key) not in ELSEWHERE:
                yield from leaves(value, path + (str(key),))
    elif isinstance(node, list):
        for i, item in enumerate(node):
            name = item.get("name", item.get("mountPath")) if isinstance(item, dict) else None
            if name not in OF_STORE:
                yield from leaves(item, path + (str(name if name is not None else i),))
    elif node is not None:
        yield path, str(node)


def launch(container, env):
    """The command line without the rendezvous, and what torchrun has of nodes, processes and restarts."""
    words = [str(w) for w in (container.get("command") or []) + (container.get("args") or [])]
    numbers = {name: env.get("PET_" + name.upper(), "") for name in ("nnodes", "nproc_per_node", "max_restarts")}
    shell = len(words) > 1 and re.search(r"\b(ba)?sh$", words[0])
    text = words[-1] if shell else " ".join(w if re.match(r"[^\s'\"\\]+$", w) else shlex.quote(w) for w in words)

    def take(match):
        name = match.group(1).replace("-", "_")
        if name in numbers and match.group(2):
            numbers[name] = match.group(2).strip("\"'")
        return " "

    if re.search(r"torchrun|torch\.distributed\.run", text):
        text = OPTION.sub(take, text)
    text = re.sub(r"(python3?|/\S+/python3?) -m torch\.distributed\.run", "torchrun", text)
    text = re.sub(r"^exec (?=torchrun)", "", re.sub(r"[\s\\]+", " ", text).strip())
    if numbers["nnodes"].count(":") == 1 and len(set(numbers["nnodes"].split(":"))) == 1:
        numbers["nnodes"] = numbers["nnodes"].split(":")[0]
    return " ".join(shlex.split(text)) if quoted(text) else " ".join(words[:-1] + [text]) if shell else text, {
        k: v or {"nnodes": "1", "nproc_per_node": "1", "max_restarts": "0"}[k] for k, v in numbers.items()}


def quoted(text):
    """It is a list of plain words, whatever the quotes around them."""
    try:
        return not re.search(r"[;&|<>(){}`#$*?!]", text) and bool(shlex.split(text))
    except ValueError:
        return False


def pods(documents, names):
    """[(what it runs, numbers, {path: text})] of each pod that trains."""
    found = []
    own = [d for d in documents if d["kind"] in JOBS and d["metadata"]["name"] in names] + [
        d for d in documents if d["kind"] in ("TrainingRuntime", "ClusterTrainingRuntime")]
    for pod in platforms.pods_of(own):
        training = [c for c in pod.training() if c]
        if not training or pod.etcds():
            continue
        one = {}
        for c in training:
            env = platforms.environment(pod, c, "10.0.0.1", documents, strict=True)
            words, numbers = launch(c, env)
            one["runs", c["name"]] = words
            if re.search("torchrun|distributed|PET_", words + str(env)):
                one["numbers", c["name"]] = numbers
                one.update({("env", n): v for n, v in env.items() if not n.startswith(("PET_", "MASTER_", "VC_")) and n not in (
                    "RANK", "WORLD_SIZE", "POD_IP", "RUN_UID")})
            rest = {k: v for k, v in c.items() if k not in ("command", "args", "ports", "env", "envFrom")}
            one.update({("container", c["name"]) + p: t for p, t in leaves(rest)})
        rest = dict(pod.spec, containers=[], initContainers=[
            c for c in pod.spec.get("initContainers") or [] if platforms.image_name(c) != "rdzvd"])
        one.update({("pod",) + p: t for p, t in leaves(rest)})
        found.append(one)
    return found


def outside(documents, name):
    """The fields of the job's object around its pods."""
    found = {}
    for d in documents:
        if d["kind"] in JOBS and d["metadata"]["name"] == name:
            found.update({(d["kind"],) + p: t for p, t in leaves(d) if "containers" not in p and "template" not in p[2:]})
    return found


def differences(old, new, name):
    """Settings of the pods of `old` that the pods of `new` lack."""
    old, new = (platforms.flatten(list(yaml.load_all(t, Loader=yaml.CSafeLoader))) for t in (old, new))
    before, after = pods(old, {name}), pods(new, {name})
    found = [] if len(before) == len(after) else ["%d pods, and %d" % (len(before), len(after))]
    for a, b in zip(before, after):
        for key, value in a.items():
            if b.get(key) != value:
                found.append("%s: %r, and %r" % (".".join(key), value, b.get(key)))
    made = outside(new, name)
    found += ["%s: %r, and %r" % (".".join(k), v, made.get(k)) for k, v in outside(old, name).items() if made.get(k) != v]
    return list(dict.fromkeys(found))


SAID = "emit gives all of the job back"
# What notes say of numbers: nodes, processes and restarts, and of the number of pods.
OF_NUMBERS = r"in the job that emit makes|replicas: this is|emit makes another kind"


def is_said(lost, said):
    """A note names the field, or one around it."""
    if lost.startswith("numbers.") or re.match(r"\d+ pods, ", lost):
        return re.search(OF_NUMBERS, said)
    if lost.startswith("env.V"):
        return True  # Volcano's own number of a pod, whose task has another name now
    words = re.split(r"[.\[\]]+", re.sub("^container\\.", "containers.", lost.split(": ")[0]))
    for path in re.findall(r"note: (\S+): (?:no setting|this is)", said):
        names = [n for n in re.split(r"[.\[\]]+", path) if n]
        for i in range(len(names)):
            tail = names[i:]
            if any(words[k:k + len(tail)] == tail for k in range(2)):
                return True
    return False


LOST = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: a, labels: {team: t}}
spec:
  runPolicy: {cleanPodPolicy: None}
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          nodeSelector: {zone: z}
          volumes: [{name: v, emptyDir: {medium: Memory}}]
          containers:
          - name: pytorch
            image: b:1
            command: [sh, -c, "cd /x; torchrun --nnodes=2 --nproc_per_node=${N:-8} --rdzv_id=7 t.py --lr 1"]
            env: [{name: A, value: "1"}]
            resources: {limits: {nvidia.com/gpu: 8}}
            volumeMounts: [{name: v, mountPath: /v, subPath: s}]
"""


def each_loss_is_a_difference():
    for old, new in (("b:1", "b:2"), ('value: "1"', 'value: "2"'), ("--lr 1", "--lr 2"), ("cd /x; ", ""), ("nnodes=2", "nnodes=3"),
                     ("--nproc_per_node=${N:-8} ", ""), ("gpu: 8", "gpu: 4"), ("zone: z", "zone: y"), ("Memory", "Disk"), ("replicas: 2", "replicas: 3"),
                     ("subPath: s", "readOnly: true"), ("OnFailure", "Never"), ("None", "All"), ("team: t", "team: u"), ("sh, -c", "bash, -c")):
        check(differences(LOST, LOST.replace(old, new), "a"), "%s is lost, and nothing differs" % old)
    check(not differences(LOST, LOST.replace("--rdzv_id=7 ", ""), "a"), "the rendezvous may differ")


def public_files():
    folders = [os.path.join(SHARED, "corpus", "manifests"), os.path.join(HERE, "wild"), os.path.join(HERE, "real", "shapes")]
    folders += os.environ.get("RDZV_MANIFESTS", "").split(":")
    for folder in folders:
        for base, _, files in sorted(os.walk(folder)) if folder else ():
            yield from (os.path.join(base, f) for f in sorted(files) if f.endswith((".yaml", ".json")))


def what_import_says_is_true():
    """Of each public job: if import says that all comes back, it does; else a note names each field that does not."""
    whole, part, wrong = 0, 0, []
    for path in public_files():
        user, said = run("import", path)
        if not user:
            continue
        made, _ = run("emit", "-f", "-", "--input-format", "own", stdin=user, code=0)
        name = yaml.safe_load(user)["jobName"]
        with open(path, "rb") as f:
            try:
                lost = differences(f.read(), made, name)
            except platforms.Unknown:  # a runtime of another file, or a label that a lost field makes
                lost = ["unknown"] if SAID in said else []
        lost = lost if SAID in said else [one for one in lost if not is_said(one, said)]
        if lost:
            wrong.append("%s: %s" % (path, "\n  ".join(lost)))
        whole, part = whole + (SAID in said), part + (SAID not in said)
    check(not wrong, "\n".join(wrong))
    print("import: %d public jobs come back whole, %d in part" % (whole, part), flush=True)
    if not os.path.isdir(SHARED):
        raise Skip("../shared is not there")
