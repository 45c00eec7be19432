"""Every platform with every placement, profile and kind of job: a refusal says why; what is emitted has all
it needs, rdzvd accepts every argument, and the checker of manifests beside this tree (in ../shared/tools, if
it is there) finds nothing."""

import glob
import importlib.util
import itertools
import os
import re
import subprocess
import tempfile

import tool

PLATFORMS = tool.listed("platforms")
PROFILES = [None, *tool.listed("profiles")]
PLACEMENTS = [None, *tool.listed("placements")]
BACKENDS = ["c10d", "etcd-v2"]
RELAYED = ("relay", "replicas")
KINDS = os.path.join(tool.HERE, "kinds.yaml")  # schemas of kinds that ../shared has none of

RICH = """\
numPods: 4
numCpusPerPod: 64
totalMemoryPerPod: 1Ti
limitMemoryPerPod: 2Ti
numRoceGdr: 2
multiNicNetworkName: multi-nic-network
mountNVMe: {storage: 800Gi}
autopilotHealthChecks: [gpu, net]
initContainers: [{name: first, image: "registry.example/first:1", command: "echo $(hostname)"}]
shm: 8Gi
topologyFileConfigMap: topo
ncclGdrEnvConfigMap: nccl
proxyConfigMap: proxy
proxies: {http_proxy: "http://p:1", no_proxy: localhost}
claims: [{name: data, size: 10Gi, storageClass: fast}]
volumes:
- {name: data, claimName: data, mountPath: /data}
- {name: scratch, emptyDir: {}, mountPath: /scratch}
- {name: code, configMap: code, mountPath: /code, readOnly: true}
- {name: keys, secret: keys}
hostDevices: [{name: devinf, path: /dev/infiniband}]
sshGitCloneConfig: {secretName: key, configMapName: hosts}
envFrom: [{secretRef: {name: tokens}}]
hostIgnoreList: [node-17]
serviceAccountName: gdr
addCapabilities: [SYS_PTRACE]
imagePullSecrets: [{name: pull}]
imagePullPolicy: Always
nodeSelector: {kind: gpu}
tolerations: [{key: sku, operator: Equal, value: gpu, effect: NoSchedule}]
podAnnotations: {sidecar.istio.io/inject: "false"}
podLabels: {version: "1.10"}
workingDir: /code
hostIPC: true
terminationGracePeriodSeconds: 60
ttlSecondsAfterFinished: 600
restarts: 100
pod: {runtimeClassName: nvidia, securityContext: {runAsUser: 1000}}
container: {lifecycle: {preStop: {exec: {command: [sleep, "5"]}}}}
"""

JOBS = {
    "fixed": "numPods: 4\n",
    "one": "numPods: 1\n",
    "elastic": "nodes: {min: 2, max: 4}\n",
    "host": "numPods: 4\nhostNetwork: true\n",
    "script": "numPods: 4\nsetupCommands: [cd /data, export A=$(hostname)]\n",
    "rich": RICH,
    "large": "numPods: 1000\nnumGpusPerPod: 8\ntotalMemoryPerPod: 64Gi\nnumCpusPerPod: 8\n",
}
BASE = """\
jobName: train
namespace: ml
containerImage: registry.example/trainer:1
numGpusPerPod: 1
mainProgram: train.py --epochs 3
priority: high-priority
customLabels: {team: vision}
environmentVariables: [{name: A, value: yes}, {name: B, value: 0x10}]
"""


def combinations():
    for platform, profile, placement, backend, (job, text) in itertools.product(
            PLATFORMS, PROFILES, PLACEMENTS, BACKENDS, JOBS.items()):
        # All of the product would take minutes: what has nothing to do with the placement goes with one,
        # profiles with two jobs, etcd-v2 with three.
        if placement is not None and job in ("one", "script", "large"):
            continue
        if job == "rich" and (profile is not None or backend != "c10d"):
            continue
        if profile is not None and (job not in ("fixed", "elastic") or backend != "c10d"):
            continue
        if backend != "c10d" and job not in ("fixed", "elastic", "host"):
            continue
        yield platform, profile, placement, backend, job, text


def settings(placement, text):
    base = BASE
    for key in re.findall(r"^(\w+):", text, re.M):
        base = re.sub(r"^%s:.*\n" % key, "", base, flags=re.M)
    if placement == "external":
        base += "rdzv: {endpoint: 'rdzvd.infra:29400', id: ml.train.7}\n"
    if placement == "replicas":
        base += "rdzv: {journal: {endpoints: [etcd-0.etcd:2379, etcd-1.etcd:2379]}}\n"
    return base + text


AGENT = """\
jobName: agent
namespace: ml
containerImage: registry.example/a:1
numPods: 2
numGpusPerPod: 1
mainProgram: python train.py
rdzv: {wiring: agent-store}
"""


def agent_store_jobs():
    """Programs that call no torchrun, on every platform that can have them: (name, manifest)."""
    for platform in PLATFORMS:
        if platform == "appwrapper-v1beta1":
            continue
        for placement in (None, "service", "sidecar", "relay"):
            args = ["emit", "-f", "-", "--platform", platform] + (["--rdzv", placement] if placement else [])
            code, out, _ = tool.run(*args, stdin=AGENT.encode())
            if code == 0 or placement is None:
                yield " ".join(args), out


def check_config(args):
    """rdzvd's own errors about these arguments, or None."""
    if any(a.startswith("--upstream=") for a in args) and not tool.knows("--upstream"):
        return None
    done = subprocess.run([tool.RDZVD, *args, "--check-config"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=30)
    return None if done.returncode == 0 or "level=" in done.stderr else done.stderr.strip()


def store_ports(documents):
    return {p["containerPort"] for c in tool.containers(documents) if c["name"] == "rdzvd"
            for p in c["ports"]}


def relay_problems(documents, placement):
    """A relay in each training pod and nowhere else: a native sidecar that listens on loopback alone, at the
    agents' endpoint, with a Service of these documents behind it."""
    pods = [s for s in tool.find_all(documents, "spec") if isinstance(s, dict) and "containers" in s]
    upstreams = {"%s:%d" % (d["metadata"]["name"], p["port"])
                 for d in documents if d["kind"] == "Service" for p in d["spec"]["ports"]}
    endpoints = {e["value"] for env in tool.find_all(documents, "env") for e in env
                 if e["name"] == "PET_RDZV_ENDPOINT"}
    endpoints |= {"%s:%d" % (p["rdzvHost"], p["rdzvPort"])
                  for p in tool.find_all(documents, "elasticPolicy")}
    spaces = set()
    for pod in pods:
        relays = [c for c in pod.get("initContainers") or [] if c["name"] == "rdzvd-relay"]
        if len(relays) != (placement in RELAYED and pod["containers"][0]["name"] != "rdzvd"):
            yield "%d relays in a pod" % len(relays)
        for relay in relays:
            flags = dict(a[2:].split("=", 1) for a in relay["args"])
            probes = [p["exec"]["command"][1] for k, p in relay.items() if k.endswith("Probe")]
            spaces.add(flags["space"])
            if relay != pod["initContainers"][0] or relay["restartPolicy"] != "Always":
                yield "a relay that is no sidecar, or not the first"
            if flags["upstream"] not in upstreams:
                yield "upstream %s: there are %s" % (flags["upstream"], upstreams)
            if {flags["listen"]} != endpoints or not flags["listen"].startswith("localhost:"):
                yield "a relay listens at %s, and torch goes to %s" % (flags["listen"], endpoints)
            if probes != ["--check-health=%s/livez" % flags["listen"]] * 2 or "ports" in relay:
                yield "probes of a relay: %r, ports %r" % (probes, relay.get("ports"))
            claimed = [p["containerPort"] for c in pod["containers"] for p in c.get("ports") or []
                       if p["name"] == "rdzvd-relay"]
            if claimed != [int(flags["listen"].split(":")[1])] * bool(pod.get("hostNetwork")):
                yield "ports of the node for relays: %r" % claimed
    if placement in RELAYED and spaces != {"ml.train"}:
        yield "spaces %r" % spaces


def problems(documents, placement, backend, elastic):
    """What every output must hold, whatever the platform."""
    yield from relay_problems(documents, placement)
    text = repr(documents)
    stores = [c for c in tool.containers(documents) if c["name"] == "rdzvd"]
    names = {(d["kind"], d["metadata"]["name"]) for d in documents}
    if len(names) != len(documents):
        yield "two documents of one name"
    if len(stores) != (placement != "external"):
        yield "%d stores" % len(stores)
    expects = [a.split("=")[0] for c in stores for a in c["args"] if a.startswith("--expect=")]
    if expects != ["--expect"] * (backend == "c10d" and placement != "external"):
        yield "expects: %r" % expects
    if "${" in text:
        yield "a template is left over"
    for pod in tool.find_all(documents, "spec"):
        if not isinstance(pod, dict) or "containers" not in pod:
            continue
        if pod.get("enableServiceLinks") is not False:
            yield "service links"
        if pod.get("hostNetwork") and pod.get("dnsPolicy") != "ClusterFirstWithHostNet":
            yield "host network without its DNS policy"
        if pod.get("hostNetwork") and any(c["name"] == "rdzvd" for c in tool.containers(pod)):
            yield "the store is on the host network"
    backends = [e["value"] for env in tool.find_all(documents, "env") for e in env
                if e["name"] == "PET_RDZV_BACKEND"]
    backends += list(tool.find_all(documents, "rdzvBackend"))
    if not backends or set(backends) != {backend}:
        yield "backends %r" % backends
    confs = [e["value"] for env in tool.find_all(documents, "env") for e in env
             if e["name"] == "PET_RDZV_CONF"]
    confs += ["%s=%s" % (c["key"], c["value"]) for conf in tool.find_all(documents, "rdzvConf")
              for c in conf]
    if (backend == "c10d") != any(c.startswith("is_host=0") for c in confs):
        yield "is_host: %r" % confs
    if ("TORCH_DISABLE_SHARE_RDZV_TCP_STORE" in text) != (backend == "etcd-v2"):
        yield "whether torch shares its store"
    commands = [" ".join(c) for c in tool.find_all(documents, "command")
                if isinstance(c, list) and "torchrun" in " ".join(c)]
    if not commands:
        yield "no torchrun"
    if elastic and "2:4" not in " ".join(commands) and not list(
            tool.find_all(documents, "elasticPolicy")):
        yield "not elastic: %r" % commands


def validator(older=()):
    """A function from the path of a manifest to what the checker of ../shared/tools says of it as a bundle, one
    line each. Its schemas take a second to load, once. Schemas in `older` replace those of today."""
    script = os.path.join(tool.SHARED, "tools", "validate_manifests.py")
    spec = importlib.util.spec_from_file_location("validate_manifests", script)
    checker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(checker)
    schemas = checker.Schemas(os.path.join(tool.SHARED, "crds"), [KINDS, *older], False)

    def judge(path):
        with open(path, encoding="utf-8") as f:
            results = checker.validate(f.read(), schemas)
        checker.check_bundle([(d, r) for d, r in results if isinstance(d, dict)])
        return ["%s: %s: %s" % (checker.title(d), at or ".", why)
                for d, r in results for at, why in r.problems
                if "others are behind a gate" not in why]  # Kubernetes 1.35 has the restartPolicy of a container
    return judge


def validate(paths, older=()):
    """What that checker says of each file: path -> its complaints."""
    judge = validator(older)
    said = {path: judge(path) for path in paths}
    return {path: lines for path, lines in said.items() if lines}


def test(check, skip):
    emitted, refused, arguments = {}, 0, {}
    with tempfile.TemporaryDirectory() as folder:
        for platform, profile, placement, backend, job, text in combinations():
            name = "-".join(str(x) for x in (platform, profile, placement, backend, job) if x)
            args = ["--platform", platform, "--backend", backend, "-f", "-"]
            args += ["--rdzv", placement] if placement else []
            args += ["--profile", profile] if profile else []
            source = settings(placement, text)
            code, out, err = tool.run("emit", *args, stdin=source.encode())
            replay = "emit %s <<'EOF'\n%sEOF" % (" ".join(args), source)
            if code != 0:
                refused += 1
                told = err.decode().strip().split("\n")
                check(code == 2 and out == b"" and
                      all(re.search(r"^(<stdin>:\d+:\d+|--rdzv \w+:1:1|profiles/[a-z-]+.yaml:\d+:\d+): .+: .+", t) for t in told),
                      "%s: refused without reason: exit %d: %s\n%s"
                      % (name, code, err.decode(), replay))
                continue
            documents = tool.documents(out, quickly=True)
            found = list(problems(documents, placement, backend, job == "elastic"))
            check(not found, "%s: %s\n%s" % (name, "; ".join(found), replay))
            for container in tool.containers(documents):
                if container["name"] in ("rdzvd", "rdzvd-relay"):
                    arguments.setdefault(tuple(container["args"]), name)
            path = os.path.join(folder, name + ".yaml")
            with open(path, "wb") as f:
                f.write(out)
            emitted[path] = replay
            # Plain pods have neither a value that changes with each submission nor a common owner; rdzvd
            # forgets closed runs.
            ignore = ["--ignore", "rdzv-id-fixed", "--ignore", "rdzv-id-shared"]
            ignore = ignore if platform == "pods" else []
            code, out, err = tool.run("check", *ignore, path)
            check(code == 0, "%s: our own check: %s%s\n%s"
                  % (name, out.decode(), err.decode(), replay))
        for name, out in agent_store_jobs():
            documents = tool.documents(out, quickly=True)
            texts = [e["name"] for env in tool.find_all(documents, "env") for e in env]
            check("TORCHELASTIC_USE_AGENT_STORE" in texts and "PET_RDZV_ID" not in texts and
                  "torchrun" not in repr(documents), "%s: %r" % (name, texts))
            path = os.path.join(folder, name.replace(" ", "_") + ".yaml")
            with open(path, "wb") as f:
                f.write(out)
            emitted[path] = "%s <<'EOF'\n%sEOF" % (name, AGENT)
            told = tool.run("check", path)
            check(told[0] == 0, "%s: our own check: %s" % (name, told[1].decode()))
        check(len(emitted) > 200 and refused < len(emitted) * 2,
              "%d emitted, %d refused" % (len(emitted), refused))
        for args, name in arguments.items():
            told = check_config(args)
            check(told is None, "%s: rdzvd %s: %s" % (name, " ".join(args), told))
        if not os.path.isdir(os.path.join(tool.SHARED, "tools")):
            skip("the checker of ../shared/tools is not there: %d manifests unchecked" % len(emitted))
            return
        # An API server drops fields that its schema lacks: of a sidecar it would leave a container
        # that never ends. The oldest releases that have them are those that placement relay names.
        relays = sorted(p for p in emitted if re.search("-(%s)-" % "|".join(RELAYED), os.path.basename(p)))
        older = glob.glob(os.path.join(tool.SHARED, "crds", "alt", "*.yaml"))
        check(len(relays) > 50 and older, "%d with relays, older schemas %s" % (len(relays), older))
        bad = dict(validate(relays, older), **validate(sorted(emitted)))
        for path in sorted(emitted):
            check(path not in bad, "%s: %s\n%s" % (os.path.basename(path), bad.get(path),
                                                   emitted[path]))
