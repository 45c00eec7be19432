#!/usr/bin/python3
"""One model of manifests: check, rewrite and emit say the same of the same files.

    agree.py [TEST]...

Every manifest under this folder, and of ../shared/corpus/manifests when it is beside the checkout, is
shown to check and to rewrite (--show): both must see the same jobs, stores and endpoints. What
rewrite then says and does must follow from that, and check must see the result in what comes out. The
stores that rewrite writes are those of emit, byte for byte. $RDZV_MANIFEST names the tool.
"""

import json
import os
import re
import subprocess
import sys

from check_tool import USER_FILE
from manifests import HERE, MANIFEST, SHARED, check, yaml

CORPUS = os.path.join(SHARED, "corpus", "manifests")


def run(*args, data=""):
    done = subprocess.run([MANIFEST, *args], input=data.encode(), capture_output=True, check=False,
                          timeout=120)
    out, err = done.stdout.decode(), done.stderr.decode(errors="replace")
    check(done.returncode in (0, 1, 2), "%s ended with %d" % (" ".join(args), done.returncode), err)
    return done.returncode, out, err


def manifests():
    """Every file, also files that contain no YAML or no Kubernetes objects."""
    found = []
    for folder in (HERE, CORPUS):
        for base, _, files in os.walk(folder):
            found += [os.path.join(base, f) for f in files if f.endswith((".yaml", ".json"))]
    return sorted(found)


def title(seen):
    return "%s %s" % (seen.get("kind") or "object", seen.get("name", "without a name"))


def both_see_the_same():
    """check --show and rewrite --show of every manifest."""
    count, jobs, stores = 0, 0, 0
    for path in manifests():
        code, by_check, _ = run("check", "--show", path)
        if code == 2:  # check refuses what is no object at all
            continue
        code, by_rewrite, err = run("rewrite", "--show", path)
        check(code == 0, "rewrite cannot read %s" % path, err)
        check(by_check == by_rewrite, "%s: check sees\n%s\nand rewrite\n%s" % (
            path, by_check, by_rewrite))
        seen = json.loads(by_check)
        count += 1
        jobs += len(seen["jobs"])
        stores += len(seen["stores"])
    check(count > 250 and jobs > 200 and stores > 100, "%d files, %d jobs, %d stores" % (
        count, jobs, stores))


def served_by_etcd(seen):
    return [j for j in seen["jobs"] if j.get("store") == "etcd" and
            j["leadsTo"].get("reached") != "not from this namespace"]


def hosted(seen):
    """Those to which rewrite can give a store: Pods are a job together, and nothing says which; a template makes several."""
    return [j for j in seen["jobs"] if j.get("store") == "a training pod" and "endpoint" in j and
            j["kind"] not in ("Pod", "ConfigMap", "CronJob")]


def rewrite_does_what_is_seen():
    """rewrite moves exactly the jobs that --show sees at an etcd or at worker 0; in its output they meet at rdzvd over
    c10d."""
    moved = 0
    for path in manifests():
        if run("check", "--show", path)[0] == 2:
            continue
        seen = json.loads(run("rewrite", "--show", path)[1])
        code, out, err = run("rewrite", path)
        if code == 2:
            continue
        etcd = {title(j) for j in served_by_etcd(seen)}
        if not re.search(r" was etcd: ", err):
            etcd = set()  # it is of a kind that does not give way, or there is none
        check(set(re.findall(r"note: (\S+ \S+) meets at this etcd", err)) == etcd,
              "%s: seen at the etcd are %s" % (path, etcd), err)
        own = {title(j) for j in hosted(seen)}
        said = set(re.findall(r"note: (\S+ \S+): its worker 0 was the store", err))
        check(own <= said, "%s: seen at worker 0 are %s" % (path, own), err)
        after = json.loads(run("check", "--show", "-", data=out)[1])
        for job in after["jobs"]:
            if title(job) not in etcd | own or job.get("store") == "etcd":
                continue
            if job["kind"] == "ElasticJob":  # its controller sets the backend
                check(job["backend"] == "etcd", "%s: %s" % (path, job))
                continue
            moved += 1
            check(job["backend"] == "c10d" and job.get("port") == 29400 and "leadsTo" in job and
                  job.get("store") in ("rdzvd", "a training pod", None),
                  "%s: %s comes out so:" % (path, title(job)), json.dumps(job, indent=2))
        check(not served_by_etcd(after) or not etcd, "%s: still at an etcd" % path)
        check(not hosted(after), "%s: still at worker 0" % path, json.dumps(after, indent=2))
    check(moved >= 30, "only %d jobs moved" % moved)


def faults(text):
    code, out, err = run("check", "-o", "json", "-", data=text)
    check(code != 2, "check cannot read it", err)
    return {f["rule"] for f in json.loads(out)["findings"]}


def relays_are_given():
    """rewrite --rdzv=relay moves the same jobs, to relays, and check finds no fault of these."""
    moved, refused = 0, 0
    for path in manifests():
        if run("check", "--show", path)[0] == 2:
            continue
        code, out, err = run("rewrite", path)
        relayed, with_relays, said = run("rewrite", "--rdzv=relay", path)
        if code == 2 or relayed == 2:
            refused += relayed == 2 and code != 2
            check(code == 2 or re.search("host network|runtime|accelerate|mpirun|which Pods", said), path, said)
            continue
        titles = set(re.findall(r"note: (\S+ \S+): each of its pods gets a relay", said))
        check(titles <= set(re.findall(r"note: (\S+ \S+) meets at this etcd", err)) | set(
            re.findall(r"note: (\S+ \S+): its worker 0 was the store", err)), path, said, err)
        after = json.loads(run("check", "--show", "-", data=with_relays)[1])
        relays = [s for s in after["stores"] if s["store"] == "relay"]
        for title_ in titles:
            jobs = [j for j in after["jobs"] if title(j) == title_ and j.get("host") == "localhost"]
            check(jobs and all(j["store"] == "relay" and j["port"] == 29400 for j in jobs),
                  "%s: %s" % (path, title_), json.dumps(after, indent=2))
            check([r for r in relays if title(r) == title_ and "leadsTo" in r],
                  "%s: a relay of %s leads nowhere" % (path, title_), json.dumps(relays, indent=2))
            moved += 1
        new = faults(with_relays) - faults(out)
        if "is also used by MASTER_PORT" in said:
            new -= {"store-port-clash"}  # a variable that the job had
        check(not titles or not new, "%s: with relays: %s" % (path, new), said)
    check(moved >= 15 and refused >= 3, "%d jobs have relays, %d files are refused" % (moved, refused))


# ------------------------------------------------------------ stores

SETTINGS = USER_FILE + 'rdzv: {image: "registry.example/rdzvd:7", id: the-run}\n'
# A platform, the name of its worker 0, and more settings.
HOSTED = [
    ("volcano", "train-worker-0.train", "numPods=4"),
    ("volcano", "train-worker-0.train", "numPods=400"),
    ("volcano", "train-worker-0.train", "numPods=2000,hostNetwork=true"),
    ("jobset", "train-node-0-0.train", "numPods=100"),
    ("job", "train-0.train", "numPods=4,pod.subdomain=train"),
    ("pytorchjob", "train-worker-0", "nodes.min=2,nodes.max=300"),
]


def stores_are_those_of_emit():
    """A job whose worker 0 is the store, rewritten, is the job that emit makes with a store."""
    for platform, host, more in HOSTED:
        common = ["emit", "-f", "-", "--platform", platform, "--set", more, "--set"]
        code, job, err = run(*common, "rdzv.placement=external,rdzv.endpoint=%s:29400" % host,
                             data=SETTINGS)
        check(code == 0, "emit %s" % platform, err)
        code, want, err = run(*common, "rdzv.placement=service,rdzv.serviceName=train-rdzv",
                              data=SETTINGS)
        check(code == 0, "emit %s" % platform, err)
        code, got, err = run("rewrite", "--image=registry.example/rdzvd:7", "-", data=job)
        check(code == 0, "rewrite %s" % platform, err)
        check(got == want, "%s %s: rewrite makes\n%s\nand emit\n%s" % (platform, more, got, want))


ETCD = """\
apiVersion: v1
kind: Pod
metadata: {name: etcd, %slabels: {app: etcd}}
spec: {containers: [{name: etcd, image: "quay.io/coreos/etcd:v3.3.27"}]}
---
apiVersion: v1
kind: Service
metadata: {name: meet, %s}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {app: etcd}, ports: [{name: c, port: 2379}]}
---
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train, %s}
spec:
  parallelism: %d
  template:
    spec:
      containers:
      - name: main
        image: trainer
        command: [%s]
"""
WORDS = ("torchrun, --rdzv-backend=etcd-v2, --rdzv-endpoint=meet:2379, --rdzv-id=train, "
         "--local-addr=$(IP), t.py")


def containers(out, kind):
    for doc in yaml.safe_load_all(out):
        if doc and doc["kind"] == kind:
            yield from doc["spec"]["template"]["spec"]["containers"]


def stores_grow_with_their_jobs():
    """In the place of an etcd, too: as emit has it for as many pods."""
    for pods, memory in ((4, "256Mi"), (400, "1Gi"), (2000, "2Gi")):
        code, out, err = run("rewrite", "-", data=ETCD % ("", "") + JOB % ("", pods, WORDS))
        check(code == 0, "%d pods" % pods, err)
        store, = containers(out, "StatefulSet")
        check(store["resources"]["limits"]["memory"] == memory, "%d pods: %s" % (
            pods, store["resources"]))
        emitted = run("emit", "-f", "-", "--platform", "job", "--set", "numPods=%d" % pods,
                      data=SETTINGS)[1]
        check(store["resources"] == list(containers(emitted, "StatefulSet"))[0]["resources"],
              "%d pods: emit has other resources" % pods, emitted)


# ------------------------------------------------------------ where they disagreed


def abbreviations_are_options():
    """argparse takes --rdzv_endp for --rdzv_endpoint; so do both verbs."""
    text = ETCD % ("", "") + JOB % ("", 2, "torchrun, --rdzv_b=etcd-v2, --rdzv_endp=meet:2379, t.py")
    job, = json.loads(run("check", "--show", "-", data=text)[1])["jobs"]
    check(job["endpoint"] == "meet:2379" and job["store"] == "etcd", str(job))
    code, out, err = run("rewrite", "-", data=text)
    check(code == 0 and "Job train meets at this etcd" in err, err)
    words = list(containers(out, "Job"))[0]["command"]
    check(words == ["torchrun", "--rdzv_b=c10d", "--rdzv_endp=meet:29400", "--rdzv_conf=is_host=0",
                    "--rdzv_id=train", "t.py"], str(words))


def namespaces_that_are_not_said():
    """kubectl puts a job without a namespace into that of its context: it meets at a store with a
    namespace only if that is the same, and both verbs say so."""
    undecided = ETCD % ("namespace: ml, ", "namespace: ml") + JOB % ("", 2, WORDS)
    found = json.loads(run("check", "-o", "json", "-", data=undecided)[1])["findings"]
    said = [f["message"] for f in found if f["rule"] == "rdzv-endpoint-namespace"]
    check(len(said) == 1 and "context" in said[0], json.dumps(found, indent=2))
    code, out, err = run("rewrite", "-", data=undecided)
    check(code == 0 and "Job train meets at this etcd" in err and said[0] in err, err)
    check("--rdzv-endpoint=meet:29400" in out, out)

    other = undecided.replace("{name: train, }", "{name: train, namespace: other}")
    found = json.loads(run("check", "-o", "json", "-", data=other)[1])["findings"]
    check("rdzv-endpoint-namespace" in [f["rule"] for f in found], json.dumps(found, indent=2))
    code, out, err = run("rewrite", "-", data=other)
    check("meets at this etcd" not in err and "no job of these files meets there" in err, err)
    check(out == other, out)


def launchers_and_scripts_are_read():
    """What one of the two saw alone: options without a torchrun, scripts in scripts, ConfigMaps."""
    options = "--rdzv-backend=etcd-v2 --rdzv-endpoint=meet:2379 --rdzv-id=train"
    script = "|\n              %s"
    for command in ("torchrun, " + ", ".join(options.split()), "accelerate, launch, '--x=1', " +
                    ", ".join(options.split()), "sh, -c, \"exec bash -c 'torchrun %s t.py'\"" % options,
                    "sh, -c, 'A=\"torchrun %s\"; eval $A'" % options):
        seen = json.loads(run("check", "--show", "-", data=ETCD % ("", "") + JOB % ("", 2, command))[1])
        check([j.get("store") for j in seen["jobs"]] == ["etcd"], command, seen)
    text = ETCD % ("", "") + ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: scripts}\ndata:\n"
                              "  run.sh: " + script % ("torchrun %s t.py\n" % options))
    seen = json.loads(run("check", "--show", "-", data=text)[1])
    check([(j["kind"], j["store"]) for j in seen["jobs"]] == [("ConfigMap", "etcd")], str(seen))


# Four nodes where two pods are: OPTIONS stands for the options that say so.
OPTIONS = "--nnodes=4 --rdzv_backend=c10d --rdzv_id=a --rdzv_endpoint=train-0.nodes:29500"
# Words or a text of a shell from which bash itself, without running a command, could say all options.
READ = [
    "A=(--nnodes=4\n--rdzv_backend=c10d) # both\nB=(--rdzv_id=a)\nB+=(--rdzv_endpoint=train-0.nodes:29500)\n"
    "torchrun ${A[*]} \"${B[@]}\" t.py",
    "A=--nnodes=4\nA+=' --rdzv_backend=c10d'\nA=\"$A --rdzv_id=a\"\ntorchrun $A --rdzv_endpoint=${H:-train-0.nodes}:29500 t.py",
    "N=${N:-\"4\"}\nP=${P:-29500}\ntorchrun --nnodes=$N --rdzv_backend=c10d --rdzv_id=a --rdzv_endpoint=train-0.nodes:$P t.py",
    "cat >/tmp/go <<'EOF'\ntorchrun OPTIONS t.py\nEOF\nchmod +x /tmp/go\n/tmp/go",
    "cat <<-EOF | bash -s\n\ttorchrun OPTIONS \\\\\n\tt.py\n\tEOF\n",
    "echo torchrun OPTIONS t.py | sh",
    "printf '%s\\n' 'exec torchrun OPTIONS t.py' >/run.sh; sh /run.sh",
    "L=torchrun; bash -c \"$L OPTIONS t.py\"",
    "L='torchrun OPTIONS'; exec bash -c '$L t.py'",
    "run() {\n  torchrun OPTIONS \"$@\"\n}\nrun t.py",
    "set -- OPTIONS; torchrun \"$@\" t.py", "L=torchrun; eval \"$L OPTIONS t.py\"",
    "M=OPTIONS_QUOTED; python -m torch.distributed.run $M t.py",
    ["bash", "-c", "torchrun \"$@\" t.py", "me", "OPTIONS"],
    ["ft_launcher", "--ft-timeout=5", "OPTIONS", "t.py"],
    ["sudo", "-E", "-u", "x", "torchrun", "OPTIONS", "t.py"],
    ["env", "-u", "X", "A=1", "torchrun", "OPTIONS", "t.py"],
    ["runuser", "-u", "x", "--", "torchrun", "OPTIONS", "t.py"],
    ["gosu", "x", "torchrun", "OPTIONS", "t.py"],
    ["uvx", "--from", "torch", "torchrun", "OPTIONS", "t.py"],
    ["hatch", "run", "gpu:torchrun", "OPTIONS", "t.py"],
    ["ddtrace-run", "torchrun", "OPTIONS", "t.py"],
    ["opentelemetry-instrument", "--service_name", "x", "torchrun", "OPTIONS", "t.py"],
    ["py-spy", "record", "--", "torchrun", "OPTIONS", "t.py"],
    ["python", "-W", "ignore", "-m", "torch.distributed.run", "OPTIONS", "t.py"],
    ["sh", "-c", "python $(which torchrun) OPTIONS t.py"],
    ["dlrover-run", "--network-check", "OPTIONS", "t.py"],
    ["tune", "run", "OPTIONS", "lora", "--config", "x"],
    ["/opt/launch", "-v", "OPTIONS", "t.py"],
    "bash /scripts/go.sh", "cd /scripts && ./go.sh t.py", "cp /scripts/go.sh /w/ && exec bash -x /w/go.sh",
    ". /scripts/go.sh", ["/bin/bash", "-euo", "pipefail", "/scripts/go.sh", "t.py"], ["/scripts/go.sh"],
]
# What a command, a Secret or the image says.
UNREAD = [
    "torchrun --rdzv_endpoint=train-0.nodes:29500 --rdzv_backend=c10d --nnodes=4 $(cat /o) t.py",
    "torchrun --rdzv_endpoint=train-0.nodes:29500 --rdzv_backend=c10d --nnodes=4 $SECRET t.py",
    "torchrun --rdzv_endpoint=train-0.nodes:29500 --rdzv_backend=c10d --nnodes=4 \"${A[@]}\" t.py",
    "torchrun --rdzv_endpoint=`getent hosts x`:29500 --rdzv_backend=c10d --nnodes=4 t.py",
    "bash /workspace/go.sh", "bash other.sh", "curl x | bash -s go", ["/workspace/other.sh", "train-0.nodes"], ["fit"], None,
    "exec torchrun $*", "torchrun --nnodes=2 --node_rank=$JOB_COMPLETION_INDEX --master_addr=$(getent hosts x) t.py",
    "accelerate launch --num_machines=2 --config_file c.yaml t.py",
]
SCRIPTED = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: scripts}
data:
  go: |
    #!/bin/bash -e
    torchrun OPTIONS train.py "$@"
---
apiVersion: v1
kind: Service
metadata: {name: nodes}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {job-name: train}, ports: [{port: 29500}]}
---
"""


def scripted(words):
    mounts = [{"name": "s", "mountPath": "/scripts/"}]
    if isinstance(words, str):
        words = ["bash", "-c", words]
    c = {"name": "main", "image": "trainer", "volumeMounts": mounts}
    if words:
        c["command"] = [w for word in words for w in (OPTIONS.split() if word == "OPTIONS" else [word])]
        c["command"] = [w.replace("OPTIONS_QUOTED", "'%s'" % OPTIONS).replace("OPTIONS", OPTIONS) for w in c["command"]]
    items = [{"key": "go", "path": "go.sh"}]
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": {
        "completionMode": "Indexed", "completions": 2, "parallelism": 2, "template": {"spec": {
            "subdomain": "nodes", "restartPolicy": "Never", "containers": [c],
            "volumes": [{"name": "s", "projected": {"sources": [{"configMap": {"name": "scripts", "items": items}}]}}]}}}}
    return SCRIPTED.replace("OPTIONS", OPTIONS) + yaml.safe_dump(job, default_style=None)


def every_way_to_write_a_launch():
    """check reads all options of the launch, or reports that it did not; rewrite moves the whole launch, or nothing."""
    for words in READ:
        text = scripted(words)
        found = {f["rule"] for f in json.loads(run("check", "-o", "json", "-", data=text)[1])["findings"]}
        check({"nnodes-too-many", "rdzv-hosted-by-worker"} <= found, "%s: %s" % (words, found), text)
        code, out, err = run("rewrite", "-", data=text)
        check(code == 2 or "train-0.nodes" not in out.split("kind: Job")[-1], "%s: %s" % (words, err), out)
        if code == 0:
            after = [j for j in json.loads(run("check", "--show", "-", data=out)[1])["jobs"] if j["kind"] == "Job"]
            check([j["endpoint"] for j in after] == ["train-rdzv:29400"], "%s: %s" % (words, after), out)
        else:
            check(out == "" and "Job train" in err or "folded" in err, "%s: %s" % (words, err))


def what_is_unread_is_said():
    for words in UNREAD:
        text = scripted(words)
        code, out, err = run("check", "-", data=text)
        check(" not looked at: " in err and "Job train: " in err, "%s: %s" % (words, err), out)
        check(run("check", "--rule=storage-class-nil", "--strict", "-", data=text)[0] == 1, "%s: --strict" % words)
        code, out, err = run("rewrite", "-", data=text)
        check((code == 2 and out == "") or (code == 0 and out == text), "%s: %s" % (words, err), out)
    known = scripted(READ[0])
    check(" not looked at: " not in run("check", "-", data=known)[2], "all is known")
    shared = scripted("bash /scripts/go.sh") + "---\n" + scripted("bash /scripts/go.sh").split("---\n")[-1].replace(
        "name: train", "name: other")
    code, out, err = run("rewrite", "-", data=shared)
    check(code == 2 and out == "" and "starts this command, and so does Job other" in err, err)


def no_name_ends_it():
    """Invalid names in JSON files cause an error or get quotes, but never an abort."""
    for name in ("{h}", "a: b", "x'y", '"q', "#c", "- d", "[", "&a", "*a", "!t", "%x", "|", "\n", ""):
        for kind, api in (("Job", "batch.volcano.sh/v1alpha1"), ("PyTorchJob", "kubeflow.org/v1")):
            pods = {"template": {"spec": {"containers": [{
                "name": "pytorch", "image": name,
                "command": ["torchrun", "--rdzv-backend=c10d", "--rdzv-endpoint=$VC_A_HOSTS:1"]}]}}}
            spec = {"tasks": [dict(pods, name="a")], "pytorchReplicaSpecs": {"Worker": pods}}
            job = {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": name},
                   "spec": spec}
            etcd = json.loads(json.dumps(list(yaml.safe_load_all(ETCD % ("", "")))[:2]))
            for doc in etcd:
                doc["metadata"]["name"] = name
            for objects in ([job], etcd + [job]):
                run("rewrite", "-", data=json.dumps({"apiVersion": "v1", "kind": "List",
                                                     "items": objects}))
    for text in ("{h}", "{h", "[{}]", "{a: {h}}", "&a {b: *a}"):
        run("rewrite", "-", data=text)


TESTS = [both_see_the_same, rewrite_does_what_is_seen, relays_are_given, stores_are_those_of_emit,
         stores_grow_with_their_jobs, abbreviations_are_options, namespaces_that_are_not_said,
         launchers_and_scripts_are_read, every_way_to_write_a_launch, what_is_unread_is_said, no_name_ends_it]


def main():
    failed = 0
    if not os.path.isdir(CORPUS):
        print("skip: ../shared/corpus/manifests is not there: the manifests of this folder alone")
    for test in TESTS:
        if sys.argv[1:] and test.__name__ not in sys.argv[1:]:
            continue
        try:
            test()
            print("ok %s" % test.__name__, flush=True)
        except AssertionError as e:
            failed += 1
            print("FAIL %s: %s\n---- again: tests/manifest/agree.py %s" % (
                test.__name__, e, test.__name__), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
