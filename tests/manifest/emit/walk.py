"""A random walk over all settings, platforms, placements and profiles: whatever emit accepts is valid. The
checker of manifests in ../shared/tools judges it as an API server and its webhooks would, and our own check
for what breaks a rendezvous; what emit refuses has a place and a remedy.

The settings come from data/settings.yaml, by their types, so a new one is walked over without a line here.
$RDZV_SEED (1) is the first seed, $RDZV_WALK the number of manifests (250). Run directly, this program walks and
prints for each failure the arguments that reproduce it:

    walk.py [--seed N] [--first N] [--count N] [--at N]        --at: step N alone, with its input
"""

import argparse
import json
import os
import random
import re
import sys
import tempfile

import yaml

import matrix
import tool

with open(os.path.join(tool.ROOT, "deploy", "data", "settings.yaml"), encoding="utf-8") as _f:
    SETTINGS = yaml.safe_load(_f)

NAMES = ["a", "my-job", "train", "7b", "x" * 40, "y" * 63, "llama-3-8b-pretrain", "rdzvd", "master", "0"]
QUANTITIES = ["0", "1", "2", "4", "0.5", "500m", "1.5", "1e3", "64Mi", "1Gi", "16Gi", "1Ti", "100", 1, 3, 0.25]

SUPPORTED = {}
for _name in matrix.PLATFORMS:
    with open(os.path.join(tool.ROOT, "deploy", "data", "platforms", _name + ".yaml"), encoding="utf-8") as _f:
        SUPPORTED[_name] = [None, *yaml.safe_load(_f)["placements"]["supported"]]

# Values by type: those that people write, and the ends of what the type accepts.
VALUES = {
    "name": NAMES,
    "subdomain": ["a", "pull-secret", "data.v1", "node-17", "gdr", "z" * 60 + ".data", "7"],
    "labelKey": ["team", "example.com/team", "nvidia.com/gpu", "kind", "a_b.c", "sku", "autopilot", "rdzvd"],
    "labelValue": ["", "vision", "a100", "true", "1.10", "low", "high", "default", "L" * 63],
    "variable": ["NCCL_DEBUG", "PATH", "a.b", "_x", "RANK", "MASTER_ADDR", "WORLD_SIZE", "join_timeout"],
    "quantity": QUANTITIES,
    "word": ["900", "true", "a-b.c"],
    "size": ["1Gi", "10Gi", "0.5", "1e3", 100],
    "duration": ["5s", "90s", "1h30m", "500ms", "10m", "1d", "1.5s"],
    "path": ["/", "/data", "/dev/infiniband", "/mnt/a b", "/tmp", "/dev/shm", "/workspace/"],
    "image": ["b:1", "registry.example/train:1", "registry.example:5000/a/b@sha256:" + "0" * 64],
    "endpoint": ["rdzvd.infra:29400", "10.0.0.7:29400", "[fd00::7]:29400", "rdzvd.infra.svc.cluster.local:1"],
    "runId": ["101", "ml.train.7", "$(RUN)", "$(VC_GROUP).$(VC_VERSION)", "a:b"],
    "capability": ["IPC_LOCK", "SYS_ADMIN", "SYS_PTRACE"],
    "filled": ["train.py", "t.py --epochs 3", "t.py $HOME && echo 'done'", "-m pkg.mod --lr=1e-3", "900", "\"$(date)\" x"],
    "text": ["x", "yes", "0x10", "echo $(hostname) && true", "a b", "1", "multi-nic-network", "INFO", "$(NOWHERE)"],
}

CONTAINERS = [
    {"name": "first", "image": "b:1", "command": "echo $(hostname)"},
    {"name": "copy", "image": "b:1", "command": ["cp", "-r", "/a", "/b"]},
    {"name": "beside", "image": "b:1", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1m"}}},
]

# Settings of any type: what Kubernetes has there.
ANY = {
    "initContainers": [[c] for c in CONTAINERS] + [CONTAINERS],
    "tolerations": [[{"operator": "Exists"}], [{"key": "sku", "value": "gpu", "effect": "NoSchedule"}]],
    "envFrom": [[{"secretRef": {"name": "tokens"}}], [{"configMapRef": {"name": "c"}, "prefix": "A_"}]],
    "podFailurePolicy": [{"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget",
                                                                             "status": "True"}]}]}],
    "pod": [{"runtimeClassName": "nvidia"}, {"securityContext": {"runAsUser": 1000}}, {"hostPID": True},
            {"volumes": [{"name": "more", "emptyDir": {}}]}, {"priority": 5, "priorityClassName": "p"},
            {"containers": [{"name": "log", "image": "b:1", "command": ["true"]}]},
            {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
                                            "whenUnsatisfiable": "DoNotSchedule",
                                            "labelSelector": {"matchLabels": {"a": "b"}}}]}],
    "container": [{"lifecycle": {"preStop": {"exec": {"command": ["sleep", "5"]}}}}, {"tty": True},
                  {"env": [{"name": "MORE", "value": "1"}]}, {"ports": [{"containerPort": 8265}]},
                  {"resources": {"claims": []}}, {"volumeMounts": [{"name": "dshm", "mountPath": "/s"}]}],
    "emptyDir": [{}, {"medium": "Memory"}, {"medium": "Memory", "sizeLimit": "1Gi"}],
    "valueFrom": [{"fieldRef": {"fieldPath": "metadata.name"}}, {"secretKeyRef": {"name": "s", "key": "k"}},
                  {"resourceFieldRef": {"resource": "limits.cpu"}}],
}

# Valid settings of TLS, at least with some placements.
TLS = [{"issuer": {"name": "ca"}}, {"issuer": {"name": "ca", "kind": "ClusterIssuer"}, "clientCertificates": False},
       {"secret": "store", "clientSecret": "relays", "clientName": "spiffe://c/relays"}, {"secret": "store"},
       {"clientSecret": "relays", "serverName": "rdzvd.infra"}, {"clientSecret": "relays", "clientCertificates": False}]

# Of these, an item has one.
SOURCES = {"environmentVariables": ["valueFrom", "secret", "configmap", "value"],
           "volumes": ["hostPath", "emptyDir", "configMap", "secret", "claimName"]}

# Chosen more often than the others: they decide what the job is.
OFTEN = ["nodes", "numPods", "numGpusPerPod", "resources", "limitCpusPerPod", "limitMemoryPerPod", "hostNetwork",
         "restartPolicy", "rdzv", "masterResources", "volumes", "environmentVariables", "shm"]

# What check says of settings that are the user's own wish: rule -> a setting that asks for it.
WISHES = {
    # A command of the user's own has the flags that the user gave it.
    "nnodes-missing": lambda job, args: "command" in job,
    "rdzv-id-fixed": lambda job, args: "id" in job.get("rdzv", {}) or "pods" in args,
    "rdzv-conf-unknown": lambda job, args: "conf" in job.get("rdzv", {}),
    "sidecar-not-guaranteed": lambda job, args: "initContainers" in job,
    "env-overwritten": lambda job, args: {"RANK", "MASTER_ADDR", "WORLD_SIZE"} & set(
        [e["name"] for e in job.get("environmentVariables", [])] + list(job.get("proxies", {}))),
    "volcano-max-retry": lambda job, args: "restarts" in job,
    "host-network-port": lambda job, args: "container" in job,
    "pvc-access-mode": lambda job, args: any("accessMode" in c for c in job.get("claims", [])),
    "relay-without-store": lambda job, args: "endpoint" in job.get("rdzv", {}),
    "rdzv-id-shared": lambda job, args: "pods" in args,
    "elastic-restart-never": lambda job, args: job.get("restartPolicy") == "Never",
    "nproc-above-gpus": lambda job, args: {"resources", "masterResources", "container", "procsPerNode"} & set(job),
    "rdzvd-option": lambda job, args: "lease" in job.get("rdzv", {}).get("journal", {}),
    "restarts-none": lambda job, args: job.get("restarts") == 0,
    "agent-store-restart": lambda job, args: "restartPolicy" in job,
    "replicas-no-budget": lambda job, args: job.get("rdzv", {}).get("pdb") is False,
    "store-data-lost": lambda job, args: job.get("rdzv", {}).get("durable") is False,
}


def value(rng, schema, name):
    """A value that the description of a setting accepts, or nearly."""
    if "either" in schema:
        return value(rng, rng.choice(schema["either"]), name)
    kind = schema["type"]
    if name in ANY and rng.random() < 0.95:
        return rng.choice(ANY[name])
    if "values" in schema:
        return rng.choice(schema["values"])
    if kind == "int":
        low, high = schema.get("min", 0), schema.get("max", 1000)
        usual = [29400, 2379, 23456, 6002] if high == 65535 else [low, low + 1, 2, 3, 4, 8, 64, 300]
        return min(high, max(low, rng.choice(usual)))
    if kind == "bool":
        return rng.random() < 0.6
    if kind == "any":
        return rng.choice(ANY.get(name, [{}]))
    if kind == "list":
        return [value(rng, schema["items"], name) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
    if kind == "map":
        return {value(rng, schema["key"], name): value(rng, schema["each"], name)
                for _ in range(rng.choice([0, 1, 1, 2]))}
    if kind == "mapping":
        return mapping(rng, schema["keys"])
    return rng.choice(VALUES[kind])


def mapping(rng, keys):
    out = {}
    for key, schema in keys.items():
        if schema.get("required") or rng.random() < min(0.5, 2.5 / len(keys)):
            out[key] = value(rng, schema, key)
    return out


def resources(rng):
    """Random requests and limits, related or unrelated to each other."""
    names = ["cpu", "memory", "nvidia.com/gpu", "ephemeral-storage", "rdma/hca"]
    out = {part: {n: rng.choice([8, "8", "16", "1", "2"] if "/" in n else QUANTITIES)
                  for n in names if rng.random() < 0.4} for part in ("requests", "limits")}
    return {part: out[part] for part in out if rng.random() < 0.8}


def step(seed, at):
    """Arguments and settings of one step of a walk."""
    rng = random.Random("%d:%d" % (seed, at))
    job = {"jobName": rng.choice(NAMES[:4]) if rng.random() < 0.8 else rng.choice(NAMES),
           "containerImage": "b:1", "mainProgram": "t.py"}
    if rng.random() < 0.6:
        job["namespace"] = "ml"
    free = [k for k in SETTINGS if k not in job and k not in ("platform", "profile", "release", "command", "args")]
    for key in rng.sample(free, rng.choice([0, 1, 1, 2, 2, 3, 5, 9])) + [k for k in OFTEN if rng.random() < 0.15]:
        job[key] = value(rng, SETTINGS[key], key)
    if "numPods" in job and "nodes" in job and rng.random() < 0.95:
        del job[rng.choice(["numPods", "nodes"])]
    if rng.random() < 0.9:
        job.pop("limitGpusPerPod", None)
    if "proxies" in job:
        job["proxyConfigMap"] = "proxy"
    for key, sources in SOURCES.items():
        for item in job.get(key, []):
            for source in rng.sample(sources, len(sources))[1:]:
                item.pop(source, None)
            if not set(item) & set(sources):
                item[sources[-1]] = "a"
    for key in ("resources", "masterResources"):
        if key in job:
            job[key] = resources(rng)
    if rng.random() < 0.15:
        del job["mainProgram"]
        job.update(rng.choice([{}, {"command": []}, {"command": ["torchrun", "t.py"]}, {"args": ["--x"]},
                               {"setupCommands": ["cd /x", "make"]}]))
    rdzv = job.get("rdzv")
    if rdzv is not None:
        rdzv.pop("placement", None)
        if "image" in rdzv:
            rdzv["image"] = "registry.example/rdzvd:1"
        if rng.random() < 0.5:
            rdzv.pop("wiring", None)
    args = ["--platform", rng.choice(matrix.PLATFORMS)]
    placement = rng.choice(SUPPORTED[args[1]] if rng.random() < 0.95 else matrix.PLACEMENTS)
    if placement == "external":
        job["rdzv"] = rdzv = dict(rdzv or {}, endpoint="rdzvd.infra:29400", id="ml.7")
    elif rdzv is not None and placement != "relay":
        rdzv.pop("endpoint", None)
    if placement == "replicas":
        job["rdzv"] = rdzv = dict(rdzv or {})
        rdzv.setdefault("journal", {"endpoints": ["etcd-0.etcd:2379"]})
        rdzv.pop("durable", None)
    elif rdzv is not None:
        for key in ("journal", "replicas", "relays"):
            rdzv.pop(key, None)
    if rdzv is not None and rng.random() < 0.15:
        rdzv["tls"] = rng.choice(TLS)
    args += ["--rdzv", placement] if placement else []
    profile = rng.choice(matrix.PROFILES)
    args += ["--profile", profile] if profile and rng.random() < 0.5 else []
    if rng.random() < 0.2:
        args += ["--backend", rng.choice(matrix.BACKENDS)]
    if rng.random() < 0.1:
        args += ["--release", rng.choice(NAMES)]
    return args, job


def replay(args, job):
    return "emit %s -f - <<'EOF'\n%s\nEOF" % (" ".join(args), json.dumps(job))


def refusal_problem(code, out, err):
    """The fault of a refusal, or None: each line must have a place and, after a colon, a remedy."""
    told = err.decode().strip().split("\n")
    place = r"^(<stdin>:\d+:\d+|(--\w[\w-]* )?[\w./-]+:\d+:\d+): .+"
    if code != 2 or out != b"" or not all(re.search(place, t) for t in told):
        return "refused without reason: exit %d: %s" % (code, err.decode())
    return None


def own_check(path, job, args):
    """The findings of `check` that no wish of the user explains."""
    code, out, err = tool.run("check", "-o", "json", path)
    if code not in (0, 1):
        return ["check: exit %d: %s" % (code, err.decode())]
    return ["check: %(rule)s, line %(line)d: %(message)s" % f for f in json.loads(out)["findings"]
            if not WISHES.get(f["rule"], lambda *_: False)(job, args)]


def walk(seed, steps, judge, folder, tell):
    """Emits steps of a walk: (accepted, refused). tell(at, problem, replay) hears of each failure."""
    accepted = refused = 0
    for at in steps:
        args, job = step(seed, at)
        code, out, err = tool.run("emit", *args, "-f", "-", stdin=json.dumps(job).encode())
        if code != 0:
            refused += 1
            problem = refusal_problem(code, out, err)
            if problem:
                tell(at, problem, replay(args, job))
            continue
        accepted += 1
        path = os.path.join(folder, "walk.yaml")
        with open(path, "wb") as f:
            f.write(out)
        for problem in own_check(path, job, args) + judge(path):
            tell(at, problem, replay(args, job))
    return accepted, refused


def judges():
    """What to ask about a file beside our own check; None if the checker of ../shared/tools is not there."""
    if not os.path.isdir(os.path.join(tool.SHARED, "tools")):
        return None
    return matrix.validator()


def test(check, skip):
    judge = judges()
    if judge is None:
        skip("the checker of ../shared/tools is not there: a walk judged by our own check alone")
    seed, wanted = int(os.environ.get("RDZV_SEED", "1")), int(os.environ.get("RDZV_WALK") or "250")

    def tell(at, problem, again):
        check(False, "seed %d, step %d: %s\n%s" % (seed, at, problem, again))

    with tempfile.TemporaryDirectory() as folder:
        accepted, refused, at = 0, 0, 0
        while accepted < wanted and at < 8 * wanted:
            a, r = walk(seed, [at], judge or (lambda _: []), folder, tell)
            accepted, refused, at = accepted + a, refused + r, at + 1
        check(accepted == wanted, "seed %d: %d accepted, %d refused" % (seed, accepted, refused))
        print("walk: seed %d, %d manifests, %d refusals" % (seed, accepted, refused), flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--count", type=int, default=1000, help="steps")
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--at", type=int)
    o = options.parse_args()
    failures = {}

    def tell(at, problem, again):
        shape = re.sub(r"\d+|'[^']*'|\"[^\"]*\"", "_", problem)
        if shape not in failures:
            print("step %d: %s\n%s\n" % (at, problem, again), flush=True)
        failures[shape] = failures.get(shape, 0) + 1

    with tempfile.TemporaryDirectory() as folder:
        steps = [o.at] if o.at is not None else range(o.first, o.first + o.count)
        accepted, refused = walk(o.seed, steps, judges() or (lambda _: []), folder, tell)
        if o.at is not None:
            print(replay(*step(o.seed, o.at)))
    for shape, times in sorted(failures.items(), key=lambda f: -f[1]):
        print("%d times: %s" % (times, shape))
    print("seed %d: %d emitted, %d refused, %d bad" % (o.seed, accepted, refused, sum(failures.values())))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
