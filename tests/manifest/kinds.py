#!/usr/bin/python3
"""Faults of jobs that meet nowhere, shapes that are no faults, and jobs that move whole: one row each.

    kinds.py [NAME]...

A row of FAULTS is a kind of fault in one more shape; the twin beside it, in which the fault is mended, must not have the
finding. $RDZV_MANIFEST names the tool.
"""

import json
import os
import subprocess
import sys
import tempfile

from manifests import MANIFEST, check, yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import cases  # noqa: E402
from cases import case  # noqa: E402


def run(*args, data=""):
    done = subprocess.run([MANIFEST, *args], input=data, capture_output=True, text=True, check=False, timeout=60)
    check(done.returncode in (0, 1, 2), " ".join(args), done.stderr)
    return done.returncode, done.stdout, done.stderr


def findings(text):
    code, out, err = run("check", "-o", "json", "-", data=text)
    check(code != 2, "check", err + text)
    return {f["rule"]: f["message"] for f in json.loads(out)["findings"]}


def dump(*objects):
    return yaml.safe_dump_all(objects, sort_keys=False)


def spec(command, **more):
    if isinstance(command, str):
        command = ["sh", "-c", command]
    return {"restartPolicy": "Never", **more, "containers": [
        {"name": "main", "image": "trainer:1", "command": command, **more.pop("container", {})}]}


def pods(command, labels=None, **more):
    container = more.pop("container", {})
    s = spec(command, **more)
    s["containers"][0].update(container)
    return {"metadata": {"labels": {"app": "a", **(labels or {})}}, "spec": s}


def thing(kind, api, body, name="a"):
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "ml"}, "spec": body}


def job(command, count=2, **more):
    fields = more.pop("fields", {"completionMode": "Indexed"})
    return thing("Job", "batch/v1", {"completions": count, "parallelism": count, **fields,
                                     "template": pods(command, **more)})


def stateful(command, fields=None, **more):
    return thing("StatefulSet", "apps/v1", {"serviceName": "a", "replicas": 2, "selector": {"matchLabels": {"app": "a"}},
                                            "template": pods(command, **{**more, "restartPolicy": "Always"}), **(fields or {})})


def service(name="a", selector=None, **more):
    return thing("Service", "v1", {"clusterIP": "None", "publishNotReadyAddresses": True,
                                   "selector": selector or {"app": "a"}, "ports": [{"port": 29400}], **more}, name)


def jobset(*commands, replicas=1, **more):
    return thing("JobSet", "jobset.x-k8s.io/v1alpha2", {"replicatedJobs": [
        {"name": "r%d" % i, "replicas": replicas, "template": {"spec": {
            "completions": 1, "parallelism": 1, "backoffLimit": 0, "template": pods(c, **more)}}}
        for i, c in enumerate(commands)]})


def torchjob(command, policy=None, master=0, workers=2, **more):
    roles = {"Master": master, "Worker": workers}
    template = pods(command, **more)
    template["spec"]["containers"][0]["name"] = "pytorch"
    return thing("PyTorchJob", "kubeflow.org/v1", {
        **({"elasticPolicy": policy} if policy else {}),
        "pytorchReplicaSpecs": {r: {"replicas": n, "restartPolicy": "OnFailure", "template": template}
                                for r, n in roles.items() if n}})


def volcano(command, count=2, **more):
    return thing("Job", "batch.volcano.sh/v1alpha1", {
        "minAvailable": count, "plugins": {"svc": ["--publish-not-ready-addresses=true",
                                                   "--disable-network-policy=true"], "env": []},
        "tasks": [{"name": "w", "replicas": count, "template": pods(command, **more)}]})


def workers(command, replicas=1, size=2):
    return thing("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", {"replicas": replicas, "leaderWorkerTemplate": {
        "size": size, "workerTemplate": pods(command)}})


def static_groups(master):
    return thing("JobSet", "jobset.x-k8s.io/v1alpha2", {"replicatedJobs": [{"name": "r", "replicas": 3, "template": {"spec": {
        "completions": 2, "parallelism": 2, "template": pods(
            "HEAD=$(cat /etc/head); PET_NODE_RANK=$JOB_COMPLETION_INDEX torchrun --nnodes 2 --master-addr %s t.py" % master)}}}]})


def static_on_hosts():
    command = "torchrun --nnodes=2 --node_rank=$JOB_COMPLETION_INDEX --rdzv_id=a --rdzv_endpoint=a-r-0-0.a:29501 t.py"
    return thing("JobSet", "jobset.x-k8s.io/v1alpha2", {"replicatedJobs": [{"name": "r", "template": {"spec": {
        "completions": 2, "parallelism": 2, "backoffLimit": 0, "template": pods(
            command, hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet")}}}]})


def mpijob(command):
    worker = pods(["/usr/sbin/sshd", "-De"])
    return thing("MPIJob", "kubeflow.org/v2beta1", {"slotsPerWorker": 1, "mpiReplicaSpecs": {
        "Launcher": {"replicas": 1, "template": pods(command)}, "Worker": {"replicas": 2, "template": worker}}})


def config_map(text):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "run"}, "data": {"t.sh": text, "N": text}}


RUN_SCRIPT = {"volumes": [{"name": "run", "configMap": {"name": "run"}}],
              "container": {"volumeMounts": [{"name": "run", "mountPath": "/etc/run"}]}}


COPY = {"name": "copy", "image": "busybox", "command": ["sh", "-c", "cp /etc/run/t.sh /w/t.sh"], **RUN_SCRIPT["container"]}
COPIED = {"volumes": RUN_SCRIPT["volumes"], "initContainers": [COPY], "subdomain": "a"}
OF_MAP = {"container": {"env": [{"name": "E", "valueFrom": {"configMapKeyRef": {"name": "run", "key": "N"}}}]}, "subdomain": "a"}
NODES_OF_MAP = {**OF_MAP, "container": {"env": [{**OF_MAP["container"]["env"][0], "name": "PET_RDZV_ENDPOINT"}]}}


def c10d(endpoint, nodes=2, more="--rdzv-id=a", script="t.py"):
    return "torchrun --nnodes=%s --rdzv-backend=c10d --rdzv-endpoint=%s %s %s" % (nodes, endpoint, more, script)


STATIC_AT_JOBSET = "torchrun --nnodes=2 --node_rank=$R --master_addr=a-r0-0-0.a t.py"
POLICY = {"rdzvBackend": "c10d", "rdzvId": "a", "minReplicas": 2, "maxReplicas": 2}
ISTIO = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml", "labels": {"istio-injection": "enabled"}}}
DENY = thing("NetworkPolicy", "networking.k8s.io/v1", {
    "podSelector": {"matchLabels": {"app": "a"}}, "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "b"}}}]}]})
ALLOW = thing("NetworkPolicy", "networking.k8s.io/v1", {
    "podSelector": {"matchLabels": {"app": "a"}}, "ingress": [{"from": [{"podSelector": {}}]}]})
CRON = thing("CronJob", "batch/v1", {"schedule": "@daily", "jobTemplate": {"spec": job(c10d("s.x:29400", 3))["spec"]}})
def named_cron(run):
    return thing("CronJob", "batch/v1", {"schedule": "@daily", "jobTemplate": {
        "spec": job(c10d("s.x:29400", more="--rdzv-id=" + run))["spec"]}})


CRON_OF_3 = thing("CronJob", "batch/v1", {"schedule": "@daily", "jobTemplate": {
    "spec": job(c10d("s.x:29400", 3), 3)["spec"]}})


def trials(command):
    return thing("Experiment", "kubeflow.org/v1beta1", {"parallelTrialCount": 3, "trialTemplate": {"trialSpec": {
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": torchjob(command)["spec"]}}})


ETCD = thing("StatefulSet", "apps/v1", {
    "serviceName": "e", "replicas": 3, "selector": {"matchLabels": {"app": "e"}}, "template": {
        "metadata": {"labels": {"app": "e"}}, "spec": {"containers": [{"name": "e", "image": "quay.io/coreos/etcd:v3.5.9", "command": [
            "sh", "-c", "test -d /d && exec etcd --data-dir=/d; exec etcd --data-dir=/d --initial-cluster=$ALL"]}]}}}, "e")


def asked(path):
    return thing("Pod", "v1", {"containers": [{"name": "s", "image": "x/rdzvd:1", "args": ["--listen=0.0.0.0:29400"], "livenessProbe": {
        "exec": {"command": ["rdzvd", "--check-health=localhost:29400" + path]}}}]}, "s")


def merged(o, more):
    """The object with fields of its spec, at any depth."""
    return {**o, **{k: merged(o.get(k) or {}, v) if isinstance(v, dict) else v for k, v in more.items()}}


def probed(probe, command=None, **fields):
    return [service(), stateful(command or c10d("a-0.a:29400").split(), fields, container={"readinessProbe": probe})]


def jobset_of(job, *commands, **more):
    """A JobSet with fields of each Job."""
    o = jobset(*commands, **more)
    for r in o["spec"]["replicatedJobs"]:
        r["template"]["spec"].update(job)
    return o


def after(status):
    o = jobset(c10d("a-r0-0-0.a:29400"), c10d("a-r0-0-0.a:29400"))
    o["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "r0", "status": status}]
    return o


def beside(port):
    """A PyTorchJob at its Master's store, with another container there that lists a port."""
    o = torchjob(c10d("a-master-0:29400"), master=1)
    template = o["spec"]["pytorchReplicaSpecs"]["Master"]["template"]
    other = {"name": "m", "image": "exporter:1", "ports": [{"containerPort": port}]}
    o["spec"]["pytorchReplicaSpecs"]["Master"]["template"] = merged(
        template, {"spec": {"containers": [*template["spec"]["containers"], other]}})
    return o


def of_label(key):
    return job(c10d("s.x:29400", more="--rdzv-id=a-$ID"), container={"env": [
        {"name": "ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['%s']" % key}}}]})


def denied(annotations=None, **egress):
    """A job at a store elsewhere, and a policy that admits nothing to its pods."""
    o = job(c10d("s.x:29400"))
    return [merged(o, {"spec": {"template": {"metadata": {"annotations": annotations or {}}}}}), thing(
        "NetworkPolicy", "networking.k8s.io/v1", {"podSelector": {"matchLabels": {"app": "a"}}, "ingress": [], **egress})]


def generated(o):
    return {**o, "metadata": {"generateName": "a-", "namespace": "ml"}}


def first_ordinal(o):
    return {**o, "spec": {**o["spec"], "ordinals": {"start": 1}}}


def of_four(o):
    return {**o, "spec": {**o["spec"], "nprocPerNode": "4"}}


def trainjob(command):
    return thing("TrainJob", "trainer.kubeflow.org/v1alpha1", {
        "runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2, "command": command.split()}})


# What it is, the rule, the fault, its twin.
FAULTS = [
    ("no master: StatefulSet", "rdzv-endpoint-localhost", [stateful("torchrun --nnodes 2 --node_rank=${HOSTNAME##*-} t.py")],
     [stateful("torchrun --nnodes 2 --node_rank=${HOSTNAME##*-} --master_addr=a-0.a t.py"), service()]),
    ("no master: Volcano", "rdzv-endpoint-localhost", [volcano(["python", "-m", "torch.distributed.run", "--nnodes=2", "t.py"])],
     [volcano(["python", "-m", "torch.distributed.run", "--nnodes=2", "--master-addr=a-w-0.a", "t.py"])]),
    ("the Service of all pods, by its full name", "rdzv-endpoint-localhost",
     [service(), stateful(c10d("a.ml.svc.cluster.local:29400"))],
     [service(), service("first", {"statefulset.kubernetes.io/pod-name": "a-0"}), stateful(c10d("first:29400"))]),
    ("a Service with an address, of all pods", "rdzv-endpoint-localhost", [service(clusterIP="10.0.0.1"), job(c10d("a:29400"))],
     [service(), job(c10d("a-0.a:29400"), subdomain="a")]),
    ("the pod's own address", "rdzv-endpoint-localhost", [job(c10d("$POD_IP:29400"), container={"env": [
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]})], [job(c10d("$RDZV_HOST:29400"))]),
    ("a fallback of an array", "rdzv-endpoint-localhost", [job("A=(--nnodes=2)\n" + c10d("${H:=127.0.0.1}:1").replace("--nnodes=2", '"${A[@]}"'))],
     [job(c10d("${H:-store.infra}:29400"))]),
    ("a StatefulSet without its Service", "rdzv-host-no-pod", [stateful(c10d("a-0.a:29400"))], [service(), stateful(c10d("a-0.a:29400"))]),
    ("pods without the subdomain", "rdzv-host-no-pod", [service(), job(c10d("a-0.a:29400"))],
     [service(), job(c10d("a-0.a:29400"), subdomain="a")]),
    ("a Service with an address for names of pods", "rdzv-host-no-pod",
     [service(clusterIP="10.0.0.1"), job(c10d("a-0.a:29400"), subdomain="a")], [service(), job(c10d("a-0.a:29400"), subdomain="a")]),
    ("a Job that says NonIndexed", "rdzv-host-no-pod",
     [service(), job(c10d("a-0.a.ml:29400"), subdomain="a", fields={"completionMode": "NonIndexed"})],
     [service(), job(c10d("a-0.a.ml:29400"), subdomain="a")]),
    ("a worker without the name of its job", "rdzv-host-no-pod", [torchjob(c10d("worker-0:29400"))], [torchjob(c10d("a-worker-0:29400"))]),
    ("a Master whose name is misspelt", "rdzv-host-no-pod", [torchjob(c10d("a-mater-0:29400"), master=1)],
     [torchjob(c10d("a-rdzv-0:29400"), master=1)]),
    ("a pod's name without its Service", "rdzv-host-no-pod", [service(), stateful(c10d("a-0:29400"))], [service(), stateful(c10d("b-0:29400"))]),
    ("a pod's name of a Job without the subdomain", "rdzv-host-no-pod", [job(c10d("a-0:29400"))], [job(c10d("a-x:29400"))]),
    ("a name from generateName", "rdzv-host-no-pod", [service(), generated(job(c10d("a-0.a:29400"), subdomain="a"))],
     [service(), generated(job(c10d("s-0.s:29400"), subdomain="a"))]),
    ("a replicatedJob that the runtime does not have", "rdzv-host-no-pod", [trainjob(c10d("a-trainer-0-0.a:29400"))],
     [trainjob(c10d("a-node-0-0.a:29400"))]),
    ("a number beyond the pods of a StatefulSet", "rdzv-host-no-pod", [service(), stateful(c10d("a-2.a:29400"))],
     [service(), stateful(c10d("a-1.a:29400"))]),
    ("a number before the first pod", "rdzv-host-no-pod", [service(), first_ordinal(stateful(c10d("a-0.a:29400")))],
     [service(), first_ordinal(stateful(c10d("a-2.a:29400")))]),
    ("a number beyond a task of Volcano", "rdzv-host-no-pod", [volcano(c10d("a-w-2.a:29400"))], [volcano(c10d("a-w-1.a:29400"))]),
    ("a number beyond a Job of a JobSet", "rdzv-host-no-pod", [jobset(c10d("a-r0-0-1.a:29400"), replicas=2)],
     [jobset(c10d("a-r0-0-0.a:29400"), replicas=2)]),
    ("a number beyond the Workers", "rdzv-host-no-pod", [torchjob(c10d("a-worker-2:29400"))], [torchjob(c10d("a-worker-1:29400"))]),
    ("a headless Service of other pods", "rdzv-host-no-pod", [service(selector={"app": "b"}), stateful(c10d("a-0.a:29400"))],
     [service(), stateful(c10d("a-0.a:29400"))]),
    ("a store's pod behind a Service with an address", "rdzv-host-no-pod",
     [service("e", {"app": "e"}, clusterIP="10.0.0.1"), ETCD, job(c10d("e-0.e:29400"))],
     [service("e", {"app": "e"}), ETCD, job(c10d("e-0.e:29400"))]),
    ("a store's pod that does not exist", "rdzv-host-no-pod", [ETCD, job(c10d("e-3.e:29400"))], [ETCD, job(c10d("e-2.e:29400"))]),
    ("a number of processes", "nnodes-world-size", [of_four(torchjob(c10d("s.x:1", nodes="$WORLD_SIZE")))],
     [of_four(torchjob(c10d("s.x:1", nodes="$((WORLD_SIZE / 4))")))]),
    ("a command in one word", "rdzv-flag-unknown", [job([c10d("s.x:1")])], [job(c10d("s.x:1").split())]),
    ("words behind the script of a shell", "rdzv-flag-unknown", [job(["bash", "-c", *c10d("s.x:1").split()])],
     [job(["bash", "-c", 'torchrun "$@"', "sh", *c10d("s.x:1").split()[1:]])]),
    ("a dash of a text processor", "rdzv-flag-unknown", [job(c10d("s.x:1", more="\u2013\u2013rdzv-id=a").split())], [job(c10d("s.x:1").split())]),
    ("several nodes, each alone", "rdzv-endpoint-localhost", [job("torchrun --standalone --nnodes=2 t.py")],
     [job("torchrun --standalone --nnodes=1 t.py")]),
    ("the DNS of the node", "host-network-dns", [job(c10d("s.x:1"), dnsPolicy="Default")], [job(c10d("s.x:1"), dnsPolicy="ClusterFirst")]),
    ("a store's Service over UDP", "service-target-port",
     [service("e", {"app": "e"}, ports=[{"port": 2379, "protocol": "UDP"}]), ETCD, job(c10d("e:2379"))],
     [service("e", {"app": "e"}, ports=[{"port": 2379, "protocol": "TCP"}]), ETCD, job(c10d("e:2379"))]),
    ("a command that asks for a path that rdzvd does not have", "store-probe-path", [asked("/healthz")], [asked("/health")]),
    ("a store of no replicas", "store-replicas", [service("e", {"app": "e"}), merged(ETCD, {"spec": {"replicas": 0}}), job(c10d("e:2379"))],
     [service("e", {"app": "e"}), ETCD, job(c10d("e:2379"))]),
    ("a JobSet without names in DNS", "rdzv-host-no-pod",
     [merged(jobset(c10d("a-r0-0-0.a:29400")), {"spec": {"network": {"enableDNSHostnames": False}}})],
     [merged(jobset(c10d("a-r0-0-0.a:29400"), subdomain="a"), {"spec": {"network": {"enableDNSHostnames": False}}})]),
    ("a JobSet whose pods have no index", "rdzv-host-no-pod",
     [jobset_of({"completionMode": "NonIndexed"}, c10d("a-r0-0-0.a:29400"))],
     [jobset_of({"completionMode": "Indexed"}, c10d("a-r0-0-0.a:29400"))]),
    ("parts of a JobSet that never run together", "nnodes-too-many", [after("Complete")], [after("Ready")]),
    ("a StatefulSet in order, whose probe asks for the training", "nnodes-too-many",
     probed({"exec": {"command": ["test", "-f", "/tmp/started"]}}),
     probed({"exec": {"command": ["test", "-f", "/tmp/started"]}}, podManagementPolicy="Parallel")),
    ("a StatefulSet in order, whose probe asks for a port of the training", "nnodes-too-many", probed({"httpGet": {"port": 8080}}),
     probed({"httpGet": {"port": 8080}}, "python3 health.py & " + c10d("a-0.a:29400"))),
    ("a StatefulSet in order, whose probe is a script", "nnodes-too-many", probed({"exec": {"command": ["sh", "-c", "test -f /tmp/started"]}}),
     probed({"exec": {"command": ["sh", "-c", "test ! -f /tmp/failed"]}})),
    ("traffic of one node only", "service-selects-nothing",
     [service("e", {"app": "e"}, clusterIP="10.0.0.1", internalTrafficPolicy="Local"), ETCD, job(c10d("e:2379"))],
     [service("e", {"app": "e"}, internalTrafficPolicy="Local"), ETCD, job(c10d("e:2379"))]),
    ("the Service of a store without a selector", "service-selects-nothing",
     [merged(service("e", clusterIP="10.0.0.1"), {"spec": {"selector": None}}), ETCD, job(c10d("e:2379"))],
     [merged(service("e", clusterIP="10.0.0.1"), {"spec": {"selector": None}}), ETCD, job(c10d("e:2379")),
      {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "e", "namespace": "ml"}}]),
    ("a container beside the store of the Master", "store-port-clash", [beside(29400)], [beside(29500)]),
    ("a label that is misspelt", "env-not-expanded", [of_label("batch.kubernetes.io/controler-uid")],
     [of_label("batch.kubernetes.io/controller-uid")]),
    ("nodes that no policy admits to each other", "store-blocked", denied(), denied({"k8s.v1.cni.cncf.io/networks": "rdma"})),
    ("nodes that no policy lets out to each other", "store-blocked",
     denied(ingress=[{}], policyTypes=["Ingress", "Egress"], egress=[{"ports": [{"port": 53, "protocol": "UDP"}]}]),
     denied(ingress=[{}], policyTypes=["Ingress", "Egress"], egress=[{}])),
    ("a range that is none", "rdzv-flag-unknown", [job("torchrun --standalone --nproc-per-node=8x t.py")],
     [job("torchrun --standalone --nproc-per-node=gpu t.py")]),
    ("no module", "rdzv-flag-unknown", [job(["torchrun", "--standalone", "-m"])], [job(["torchrun", "--standalone", "-m", "pkg.train"])]),
    ("a short option", "rdzv-flag-unknown", [job(["torchrun", "-n", "2", "t.py"])], [job(["torchrun", "--standalone", "t.py", "-n", "2"])]),
    ("a name with a dash", "env-not-expanded", [job(["torchrun", "--nnodes=$(num-nodes)", "--rdzv-backend=c10d", "t.py"])],
     [job("torchrun --nnodes=$(nproc) --rdzv-backend=c10d --rdzv-endpoint=s.x:1 --rdzv-id=a t.py")]),
    ("a host of a policy without a port", "elastic-policy-field", [torchjob(["torchrun", "t.py"], {**POLICY, "rdzvHost": "store"})],
     [torchjob(["torchrun", "t.py"], {**POLICY, "rdzvHost": "store", "rdzvPort": 29400})]),
    ("a field that is misspelt", "elastic-policy-field", [torchjob(["torchrun", "t.py"], {**POLICY, "rdzvID": "b"})],
     [torchjob(["torchrun", "t.py"], POLICY)]),
    ("a Master beside a policy", "elastic-policy-field", [torchjob(["torchrun", "t.py"], POLICY, master=1)],
     [torchjob(["torchrun", "t.py"], POLICY)]),
    ("the id of a CronJob names another job", "rdzv-id-fixed", [named_cron("b-nightly")], [named_cron("x-a-y")]),
    ("too few nodes with the Master", "elastic-range", [torchjob(["torchrun", "t.py"], {**POLICY, "minReplicas": 3, "maxReplicas": 3},
     master=1, workers=1)], [torchjob(["torchrun", "t.py"], {**POLICY, "minReplicas": 3, "maxReplicas": 3}, workers=3)]),
    ("two ports in one JobSet", "rdzv-id-differs", [jobset(c10d("a-r0-0-0.a:29400"), c10d("a-r0-0-0.a:29500"))],
     [jobset(c10d("a-r0-0-0.a:29400"), c10d("a-r0-0-0.a:29400"))]),
    ("an id of each pod's own name", "rdzv-id-differs", [job(["torchrun", "--nnodes=2", "--rdzv-backend=c10d",
     "--rdzv-endpoint=s.x:29400", "--rdzv-id=a-$(ME)", "t.py"], container={"env": [
         {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]})],
     [job(c10d("s.x:29400", more="--rdzv-id=a-$(cat /etc/run)"))]),
    ("an id of the time", "rdzv-id-differs", [torchjob("ID=`date +%s`; " + c10d("s.x:29400", more="--rdzv-id=$ID"))],
     [torchjob(c10d("s.x:29400", more="--rdzv-id=a"))]),
    ("an id that is empty", "rdzv-id-differs", [job(c10d("a-0.a:29400", more="--rdzv-id="))], [job(c10d("a-0.a:29400"))]),
    ("an id of one role", "rdzv-id-differs", [jobset(c10d("a-r0-0-0.a:29400"), c10d("a-r0-0-0.a:29400", more=""))],
     [jobset(c10d("a-r0-0-0.a:29400", more="--rdzv-id=none"), c10d("a-r0-0-0.a:29400", more=""))]),
    ("trials that are PyTorchJobs", "rdzv-id-fixed", [trials(c10d("s.x:29400"))], [trials(c10d("s.x:29400", more="--rdzv-id='${trialSpec.Name}'"))]),
    ("groups of one id", "rdzv-id-shared", [workers(c10d("s.x:29400"), replicas=3)], [workers(c10d("s.x:29400"))]),
    ("completions below the pods in a JobSet", "nnodes-too-many", [thing("JobSet", "jobset.x-k8s.io/v1alpha2", {"replicatedJobs": [
        {"name": "r", "template": {"spec": {"completions": 2, "parallelism": 3, "template": pods(c10d("s.x:29400", 3))}}}]})],
     [job(c10d("s.x:29400", 3), 3)]),
    ("the leader of a group", "rdzv-hosted-by-worker", [workers(["torchrun", "--nnodes=$(LWS_GROUP_SIZE)", "--rdzv-backend=c10d",
                                                        "--rdzv-endpoint=$(LWS_LEADER_ADDRESS):1", "t.py"])],
     [workers(c10d("s.x:29400"))]),
    ("JobSet's coordinator by its label", "rdzv-hosted-by-worker", [jobset(c10d("$C:29400", 1 + 1), container={"env": [
        {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['jobset.sigs.k8s.io/coordinator']"}}}]})],
     [jobset(c10d("s.x:29400"))]),
    ("a CronJob with too few pods", "nnodes-too-many", [CRON], [CRON_OF_3]),
    ("a policy between nodes, by labels", "store-blocked", [service(), stateful(c10d("a-0.a:29400")), DENY],
     [service(), stateful(c10d("a-0.a:29400")), ALLOW]),
    ("names of pods that are not ready", "not-ready-addresses", [service(publishNotReadyAddresses=False), job(c10d("a-0.a:29400"), subdomain="a")],
     [service(), job(c10d("a-0.a:29400"), subdomain="a")]),
    ("an id that openssl makes", "rdzv-id-differs", [volcano(c10d("s.x:29400", more="--rdzv-id=run-$(openssl rand -hex 4)"))],
     [volcano(c10d("s.x:29400", more="--rdzv-id=run-$(cat /etc/run)"))]),
    ("an id of the kernel's random numbers, in a variable", "rdzv-id-differs", [torchjob(
        ["bash", "-c", "ID=$((RANDOM % 1000)); export PET_RDZV_ID=a-$ID; " + c10d("s.x:29400", more="")])],
     [torchjob(["bash", "-c", "ID=7; export PET_RDZV_ID=a-$ID; " + c10d("s.x:29400", more="")])]),
    ("the host name that uname prints", "rdzv-endpoint-localhost", [volcano(c10d("`uname -n`:29400"))],
     [volcano(c10d("`cat /etc/volcano/w.host`:29400"))]),
    ("groups of a static JobSet at one master", "rdzv-id-shared", [static_groups("a-r-0-0.a")], [static_groups("$HEAD")]),
    ("a script in a ConfigMap that names no namespace", "nnodes-too-many", [config_map(c10d("s.x:1", 3)), job("sh /etc/run/t.sh", **RUN_SCRIPT)],
     [config_map(c10d("s.x:1")), job("sh /etc/run/t.sh", **RUN_SCRIPT)]),
    ("a number of nodes in a ConfigMap that names no namespace", "nnodes-too-many", [config_map("9"), stateful(
        c10d("s.x:1", "${N}"), container={"envFrom": [{"configMapRef": {"name": "run"}}]})],
     [config_map("2"), stateful(c10d("s.x:1", "${N}"), container={"envFrom": [{"configMapRef": {"name": "run"}}]})]),
    ("a script that an init container copies", "nnodes-too-many", [config_map(c10d("s.x:1", 3)), job(["/w/t.sh"], **COPIED)],
     [config_map(c10d("s.x:1")), job(["/w/t.sh"], **COPIED)]),
    ("a script that cat reads", "nnodes-too-many", [config_map(c10d("s.x:1", 3)), job(["bash", "-c", "bash <(cat /etc/run/t.sh)"], **RUN_SCRIPT)],
     [config_map(c10d("s.x:1")), job(["bash", "-c", "bash <(cat /etc/run/t.sh)"], **RUN_SCRIPT)]),
    ("an endpoint in one value of a ConfigMap", "rdzv-hosted-by-worker", [service(), config_map("a-0.a:29400"), job(c10d("$E"), **OF_MAP)],
     [service(), config_map("s.x:29400"), job(c10d("$E"), **OF_MAP)]),
    ("a program and its first word in one", "nnodes-too-many", [job(["tune run", "--nnodes=3", "recipe"])],
     [job(["tune run", "--nnodes=2", "recipe"])]),
    ("a worker of an MPIJob", "rdzv-hosted-by-worker", [mpijob("mpirun -np 2 " + c10d("a-worker-0.a:29400"))],
     [mpijob("mpirun -np 2 " + c10d("s.x:29400"))]),
    ("a number of restarts given twice", "option-env-conflict", [job(c10d("s.x:1", more="--max_restarts=1 --max-restarts 2"))], [job(c10d("s.x:1"))]),
    ("accelerate at a pod", "rdzv-hosted-by-worker", [volcano("accelerate launch --num_machines=2 --rdzv_backend=c10d "
                                                            "--main_process_ip=a-w-0.a --main_process_port=1 t.py")],
     [volcano("accelerate launch --num_machines=2 --rdzv_backend=c10d --main_process_ip=s.x --main_process_port=1 t.py")]),
    ("accelerate that passes c10d a master", "rdzv-endpoint-localhost", [volcano(
        "accelerate launch --same_network --num_machines=2 --rdzv_backend=c10d --main_process_ip=s.x --main_process_port=1 t.py")],
     [volcano("accelerate launch --num_machines=2 --rdzv_backend=c10d --main_process_ip=s.x --main_process_port=1 t.py")]),
    ("Istio before a Master without torchrun", "istio-injected", [ISTIO, torchjob(["python", "t.py"], master=1)],
     [ISTIO, torchjob(["python", "t.py"], workers=1)]),
    ("a master and a worker, of nodes that are not known", "rdzv-hosted-by-worker",
     [torchjob(c10d("$MASTER_ADDR:$MASTER_PORT", nodes="$(cat /n)"), master=1, workers=1)], [torchjob(c10d("s.x:1", nodes="$(cat /n)"), master=1)]),
    ("a Service in the place of JobSet's own", "not-ready-addresses", [service(publishNotReadyAddresses=False), jobset(STATIC_AT_JOBSET)],
     [service(), jobset(STATIC_AT_JOBSET)]),
    ("a static job that restarts alone", "restarts-none", [torchjob(["torchrun", "t.py"], master=1)],
     [torchjob(["torchrun", "--max_restarts=3", "t.py"], master=1)]),
]


@case
def faults_have_a_finding():
    for name, rule, fault, twin in FAULTS:
        found = findings(dump(*fault))
        check(rule in found, "%s: %s" % (name, found), dump(*fault))
        found = findings(dump(*twin))
        check(rule not in found, "%s, its twin: %s" % (name, found.get(rule)), dump(*twin))


AGENT = thing("Deployment", "apps/v1", {"selector": {"matchLabels": {"app": "x"}}, "template": {
    "metadata": {"labels": {"app": "x"}}, "spec": {"hostNetwork": True, "containers": [
        {"name": "x", "image": "exporter:1", "ports": [{"containerPort": 9100}, {"containerPort": 9101}]}]}}}, "x")
NCCL_TEST = mpijob("mpirun -np 2 all_reduce_perf")
NCCL_TEST["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"].update(hostNetwork=True)
NCCL_TEST["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 2222}]
PROBED = thing("Pod", "v1", {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet", "containers": [{
    "name": "e", "image": "quay.io/coreos/etcd:v3.5.9", "command": ["etcd", "--listen-client-urls=http://127.0.0.1:2379"],
    "readinessProbe": {"tcpSocket": {"host": "localhost", "port": 2379}}}]}, "e")
# What it is, the rules that must be silent (None: all errors), and the objects.
NO_FAULTS = [
    ("a Deployment on the host network", ["host-network-dns"], [AGENT]),
    ("the ports of pods on the host network that meet nowhere", ["host-network-port"], [AGENT, NCCL_TEST]),
    ("the second port of a pod on the host network", ["29501"], [stateful(
        c10d("a-0.a:1"), hostNetwork=True, container={"ports": [{"containerPort": 29500}, {"containerPort": 29501}]})]),
    ("a script in the first word", ["rdzv-flag-unknown"], [job(["tune run", "--nproc_per_node=2", "recipe"])]),
    ("members of a cluster", ["store-replicas"], [ETCD]),
    ("a probe of the loopback", ["store-probe-loopback"], [PROBED]),
    ("a Service of the default subdomain", ["service-name-taken"],
     [service("a", {"jobset.sigs.k8s.io/jobset-name": "a"}), jobset(["python", "t.py"])]),
    ("a number that is not known", ["elastic-range", "nnodes-too-few", "nnodes-too-many"],
     [torchjob(["torchrun", "t.py"], {**POLICY, "maxReplicas": "${MAX}"}, workers="${MAX}")]),
    ("a Master that is one of the nodes", ["elastic-range", "elastic-policy-field"],
     [torchjob(["torchrun", "t.py"], POLICY, master=1, workers=1)]),
    ("the id of a CronJob has its name", ["rdzv-id-fixed"], [named_cron("a-nightly")]),
    ("a host that nothing sets", ["rdzv-endpoint-form", "rdzv-hosted-by-worker"],
     [job(["torchrun", "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=$(HOST.IP):$(PORT)", "t.py"])]),
    ("the pod's own loopback", ["rdzv-id-fixed", "rdzv-id-missing", "rdzv-is-host"],
     [job(c10d("0.0.0.0:29400", more="--rdzv-id=x")), volcano(c10d("[::]:29400", more=""))]),
    ("more nodes than launchers of an MPIJob", ["nnodes-too-many"], [mpijob("mpirun -np 4 " + c10d("s.x:29400", 4))]),
    ("own pods, misspelt", ["rdzv-is-host", "rdzv-id-missing"], [volcano(c10d("w-0:29400", more="")), trainjob(c10d("a-r-0-0.a:29400", more="")),
                                                                 torchjob(c10d("a-mater-0:29400", more=""), master=1)]),
    ("a Service in capitals", ["rdzv-endpoint-unknown"], [service("e", {"app": "e"}), ETCD, job(c10d("E:29400"))]),
    ("a port of peers", ["service-target-port"],
     [service("e", {"app": "e"}, ports=[{"name": "p", "port": 2380}, {"name": "c", "port": 2379}]), ETCD]),
]


@case
def what_is_right_is_left_alone():
    for name, rules, objects in NO_FAULTS:
        found = findings(dump(*objects))
        check(not any(r in found or any(r in m for m in found.values()) for r in rules), "%s: %s" % (name, found), dump(*objects))


STATIC = "torchrun --nnodes=2 --node_rank=$JOB_COMPLETION_INDEX --master_addr=a-0.a t.py"
MASTER_PORT = {"container": {"env": [{"name": "MASTER_PORT", "value": "29400"}]}}
LEADER = ["torchrun", "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-id=a", "--rdzv-endpoint=$(LWS_LEADER_ADDRESS):1", "t.py"]
# What it is, options, objects, and a part of the sentence that refuses them; None: they move.
LABEL = {"app.kubernetes.io/instance": "a"}
MOVES = [
    ("a budget and a Service by the label of the job's name", [], [
        service(selector=LABEL, ports=[{"port": 29500}]), thing("PodDisruptionBudget", "policy/v1", {
            "maxUnavailable": 1, "selector": {"matchLabels": LABEL}}), job(c10d("a-0.a:29500"), subdomain="a", labels=LABEL)], None),
    ("a torchrun that mpirun starts", [], [mpijob("mpirun -np 2 " + c10d("a-worker-0.a:29400"))], None),
    ("relays of pods in which mpirun starts nothing", ["--rdzv=relay"], [mpijob("mpirun -np 2 " + c10d("a-worker-0.a:29400"))],
     "mpirun starts torchrun in other pods"),
    ("Pods that would each get a space", ["--rdzv=relay"], [
        {**ETCD, "kind": "Deployment", "spec": {**ETCD["spec"], "replicas": 1, "template": {
            "metadata": {"labels": {"app": "e"}}, "spec": {"containers": [{"name": "e", "image": "quay.io/coreos/etcd:v3.3.27"}]}}}},
        service("e", {"app": "e"}, ports=[{"port": 2379}])] + [
            thing("Pod", "v1", spec("torchrun --nnodes=2 --rdzv-backend=etcd-v2 --rdzv-endpoint=e:2379 --rdzv-id=a t.py"), "a-%d" % i)
            for i in range(2)], "cannot tell which Pods are one job"),
    ("a static job with an endpoint, on the host network", [], [static_on_hosts()], None),
    ("a policy, and an endpoint of a shell", [], [torchjob(c10d("$MASTER_ADDR:$MASTER_PORT", more=""),
                                                           {**POLICY, "rdzvBackend": "etcd"}, master=1, workers=1)], None),
    ("a variable of no program", ["--rdzv=relay"], [service(), stateful(c10d("a-0.a:29400"), **MASTER_PORT)], None),
    ("a file of Volcano", [], [volcano(c10d("`cat /etc/volcano/w.host`:29500"))], None),
    ("a leader", [], [workers(LEADER)], None),
    ("leaders of two groups", [], [workers(LEADER, replicas=2)], "groups of pods"),
    ("a policy with a field of its own", [], [torchjob(["torchrun", "t.py"], {**POLICY, "endpoint": "a:1"})], "no field endpoint"),
    ("an endpoint in one value of a ConfigMap", [], [service(), config_map("a-0.a:29400"), job(c10d("$E"), **OF_MAP)], None),
    ("a variable in one value of a ConfigMap", [], [service(), config_map("a-0.a:29400"), job(
        ["torchrun", "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-id=a", "--max-restarts=3", "t.py"], **NODES_OF_MAP)], None),
    ("two ids", [], [jobset(c10d("a-r0-0-0.a:29400"), c10d("a-r0-0-0.a:29400", more="--rdzv-id=b"))], "the ids `a` and `b`"),
    ("an id of one role", [], [jobset(c10d("a-r0-0-0.a:29400"), c10d("a-r0-0-0.a:29400", more=""))], "the ids `a` and `none`"),
    ("an id that is empty", [], [service(), job(c10d("a-0.a:29400", more="--rdzv-id="), subdomain="a")], None),
    ("a policy, and a script of the image", [], [torchjob(["bash", "/opt/run.sh"], POLICY)], "`/opt/run.sh` may hold"),
    ("accelerate behind relays", ["--rdzv=relay"], [volcano("accelerate launch --num_machines=2 --rdzv_backend=c10d "
     "--main_process_ip=a-w-0.a --main_process_port=1 t.py")], "can have no relays"),
    ("accelerate without a port", [], [volcano("accelerate launch --num_machines=2 --rdzv_backend=c10d --main_process_ip=a-w-0.a t.py")],
     "write both"),
    ("accelerate", [], [volcano("python -m accelerate.commands.launch --num_machines=2 --rdzv_backend=c10d "
                                "--main_process_ip=a-w-0.a --main_process_port=1 t.py")], None),
    ("the operator's port, written by hand", ["--wiring=agent-store"], [json.loads(json.dumps(torchjob(
        ["python", "t.py"], master=1, container={"ports": [{"name": "pytorchjob-port", "containerPort": 23456}]})))], None),
]


@case
def jobs_move_whole_or_not_at_all():
    for name, options, objects, refusal in MOVES:
        text = dump(*objects)
        code, out, err = run("rewrite", *options, "-", data=text)
        if refusal:
            check(code == 2 and out == "" and refusal in err, "%s: %d %s" % (name, code, err), text)
            continue
        check(code == 0 and out != text, "%s: %s" % (name, err), text)
        before = findings(text)
        after = {r: m for r, m in findings(out).items() if r not in before}
        check(not after, "%s: the result has %s" % (name, after), out)
        check(run("rewrite", *options, "-", data=out)[1] == out, "%s: once more" % name, out)


ANCHORS = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: &meta {name: a, namespace: ml}
spec: &spec
  minAvailable: 2
  plugins: {svc: &flow ["--publish-not-ready-addresses=true"], env: []}
  tasks:
  - &task
    name: w
    replicas: 2
    template: {spec: {restartPolicy: OnFailure, containers: [&c {name: t, image: t, command: [torchrun, --nnodes=2,
      --rdzv-backend=c10d, --rdzv-id=a, "--rdzv-endpoint=a-w-0.a:1", t.py]}]}}
"""


@case
def texts_are_read_as_they_are():
    code, out, err = run("rewrite", "-", data=ANCHORS)
    check(code == 0 and "a-rdzv:29400" in out, "anchors without an alias: " + err)
    train = thing("TrainJob", "trainer.kubeflow.org/v1alpha1", {"runtimeRef": {"name": "torch-distributed"}, "trainer": {
        "image": "t", "command": ["torchrun", "t.py"]}})
    check(run("rewrite", "-", data=dump(train))[1] == dump(train), "a TrainJob of one node moves")
    train["spec"]["trainer"]["numNodes"] = 3
    check("a-rdzv" in run("rewrite", "-", data=dump(train))[1], "a TrainJob of three nodes stays")
    etcd = json.loads(json.dumps(ETCD))
    etcd["spec"]["replicas"], etcd["spec"]["template"]["spec"]["containers"][0]["command"] = 1, ["etcd", "--enable-v2"]
    backup = json.loads(json.dumps(CRON))
    backup["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["command"] = ["sh", "-c", "etcdctl --endpoints=$E snapshot save x"]
    code, out, err = run("rewrite", "--etcd=e", "-", data=dump(etcd, service("e", {"app": "e"}, ports=[{"port": 2379}]), backup))
    check(code == 0 and "CronJob a runs etcdctl" in err, "etcdctl: " + err)
    note = run("check", "-", data=dump({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
                                        "text": "private words {{ .Values.x }} and more"}))[2]
    check("a template ({{ .Values.x }})" in note and "private" not in note, note)


@case
def files_that_are_no_utf8_and_streams_of_json_are_named():
    text = dump(job(c10d("a-0.a:29400")))
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        for verb in ("check", "rewrite"):
            done = subprocess.run([MANIFEST, verb, "-"], input=text.encode(encoding), capture_output=True, check=False)
            check(done.returncode == 2 and done.stdout == b"" and b"<stdin>:1:1: this is UTF-16: convert it" in done.stderr,
                  encoding, done.stderr.decode())
    with tempfile.TemporaryDirectory() as folder:
        for name, data in (("good.yaml", text), ("stream.json", '{"apiVersion": "v1", "kind": "Pod"}\n{"apiVersion": "v1", "kind": "Pod"}'),
                           ("settings.json", '{"a": 1, // why\n}')):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                f.write(data)
        code, out, err = run("check", "-o", "json", folder)
        check(code == 2 and "rdzv-host-no-pod" in out and "stream.json:2:1: " in err and "a List" in err and "settings" not in err, err)


@case
def launchers_without_a_rendezvous_are_named():
    for launcher in ("deepspeed --hostfile /h train.py", "cd /w && exec python3 -m deepspeed.launcher.runner -H /h t.py",
                     "pip list; ipexrun --nnodes 2 t.py", "mpirun -np 2 -x A /usr/bin/python3 -u t", "srun python t.py"):
        for o in (job(launcher), mpijob(launcher), torchjob(launcher)):
            err = run("check", "-", data=dump(o))[2]
            check("not looked at: 1 container" in err or "not looked at: 2 containers" in err, err, launcher)
            check("has no rendezvous, and rank 0 serves the store" in err, err, launcher)
            code, _, err = run("rewrite", "-", data=dump(o))
            check(code == 0 and "it has no rendezvous" in err and "no etcd, and no job" not in err, err, launcher)
    for other in ("mpirun -np 2 all_reduce_perf -b 8", "torchrun --standalone t.py", "mpirun -np 2 torchrun --nnodes=1 t.py"):
        check("no rendezvous" not in run("check", "-", data=dump(job(other)))[2], other)
    ray = thing("RayJob", "ray.io/v1", {"entrypoint": "python t.py", "rayClusterSpec": {
        "headGroupSpec": {"template": pods(["ray", "start"])},
        "workerGroupSpecs": [{"groupName": "g", "replicas": 2, "template": pods(c10d("s.x:1", 3))}]}})
    check("nnodes-too-many" in findings(dump(ray)), "the workers of a Ray cluster")
    ray["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["replicas"] = 3
    check("nnodes-too-many" not in findings(dump(ray)), "enough workers of a Ray cluster")
    ray["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["template"] = pods(["ray", "start"])
    ray["spec"]["entrypoint"] = "cd /w && " + c10d("s.x:29400", 3)
    check("there is 1 pod" in findings(dump(ray)).get("nnodes-too-many", ""), "Ray runs its entrypoint in one pod")
    ray["spec"]["entrypoint"] = "torchrun --standalone --nproc-per-node=4 t.py"
    check(not findings(dump(ray)), "one node as the entrypoint")
    part = thing("Queue", "example.com/v1", {"podTemplate": pods(["torchrun"])})
    check(not findings(dump(part)), "the controller of an unknown kind adds the script")


@case
def an_etcd_that_stays_is_no_absent_one():
    etcd = json.loads(json.dumps(ETCD))
    etcd["spec"]["replicas"], etcd["spec"]["template"]["spec"]["containers"][0]["command"] = 1, ["etcd", "--data-dir=/d"]
    policy = {"rdzvBackend": "etcd-v2", "rdzvHost": "e", "rdzvPort": 2379, "rdzvId": "a", "minReplicas": 2, "maxReplicas": 2}
    text = dump(etcd, service("e", {"app": "e"}, ports=[{"port": 2379}]), torchjob(["torchrun", "--max-restarts=3", "t.py"], policy))
    code, out, err = run("rewrite", "-", data=text)
    check(code == 0 and out == text and "--etcd=ml/e replaces it" in err and "nothing to rewrite" not in err, err)
    code, out, err = run("rewrite", "--etcd=ml/e", "-", data=text)
    check(code == 0 and "etcd-v2" not in out and "rdzvd" in out, err)
    check("--etcd=NAME" in json.loads(run("check", "-o", "json", "--rule", "etcd-no-v2", "-", data=text)[1])["findings"][0]["remedy"], "remedy")


@case
def what_stays_is_named():
    cron = named_cron("a")
    cron["spec"]["jobTemplate"]["spec"] = job(c10d("a.x:29400"), labels={"first": "y"})["spec"]
    one = thing("Pod", "v1", spec(c10d("a.x:29400")))
    one["metadata"]["labels"] = {"first": "y"}
    for o, why in ((cron, "several jobs would share the new store"), (one, "cannot tell which Pods are one job")):
        text = dump({**service(selector={"first": "y"}), "metadata": {"name": "a", "namespace": "x"}}, {**o, "metadata": {**o["metadata"], "namespace": "x"}})
        code, out, err = run("rewrite", "-", data=text)
        check(code == 0 and out == text and why in err and "nothing to rewrite" not in err, err, text)


@case
def launches_out_of_sight_are_named():
    init = {"name": "test", "image": "i:1", "command": ["torchrun", "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=s.x:1", "t.py"]}
    python = {**config_map("import os\nos.execvp('torchrun', ['torchrun', '--nnodes=2', 't.py'])"), "metadata": {"name": "run", "namespace": "ml"}}
    python["data"] = {"t.py": python["data"]["t.sh"]}
    for objects, why in (([job(["python", "t.py"], initContainers=[init])], "runs in an init container"),
                         ([python, job(["python", "/etc/run/t.py"], **RUN_SCRIPT)], "in another language than that of a shell")):
        text = dump(*objects)
        said = run("check", "-", data=text)[2]
        check("not looked at: 1 container" in said and why in said, said, text)
        code, out, err = run("rewrite", "-", data=text)
        check(code == 0 and out == text and why in err and "nothing to rewrite" not in err, err, text)
    text = dump(service(), config_map(c10d("a-0.a:29400")), job(["/opt/run"], subdomain="a"))
    code, out, err = run("rewrite", "-", data=text)
    check(code == 0 and out == text and "no pods of these files start it" in err and "nothing to rewrite" not in err, err, text)


@case
def a_config_map_is_used_by_its_readers():
    etcd = json.loads(json.dumps(ETCD))
    etcd["spec"]["replicas"], etcd["spec"]["template"]["spec"]["containers"][0]["command"] = 1, ["etcd", "--enable-v2"]
    env = {"env": [{"name": "ETCD_HOST", "valueFrom": {"configMapKeyRef": {"name": "run", "key": "ETCD"}}}]}
    trains = job("torchrun --nnodes=2 --rdzv-backend=etcd-v2 --rdzv-endpoint=$ETCD_HOST --rdzv-id=a t.py", container=env)
    other = {**AGENT, "metadata": {"name": "other", "namespace": "ml"}, "spec": {**AGENT["spec"], "template": pods(["other"], container=env)}}
    used = {**config_map(""), "metadata": {"name": "run", "namespace": "ml"}, "data": {"ETCD": "e:2379"}}
    objects = [etcd, service("e", {"app": "e"}, ports=[{"port": 2379}]), used, trains]
    code, out, err = run("rewrite", "-", data=dump(*objects))
    check(code == 0 and "rdzvd" in out and "  ETCD: e:29400" in out, err, out)
    unread = job("torchrun --nnodes=2 --rdzv-backend=etcd-v2 --rdzv-endpoint=e:2379 --rdzv-id=a t.py")
    for users, name in (([unread], "ConfigMap run"), ([unread, other], "Deployment other")):
        text = dump(*objects[:3], *users)
        code, out, err = run("rewrite", "-", data=text)
        check(code == 0 and out == text and name + " uses it, too" in err, err, text)


@case
def import_takes_nothing_away():
    text = dump(service(), job("torchrun --nnodes=2 --nproc_per_node=${NGPU:-$(nvidia-smi -L | wc -l)} --rdzv-backend=c10d "
                               "--rdzv-endpoint=a-0.a:29400 t.py", subdomain="a"))
    code, out, err = run("import", "-", data=text)
    check(code == 0 and "nvidia-smi" in out and "29400" not in out, err, out)
    for command, says in (("accelerate launch --num_machines=2 --main_process_ip=a-0.a t.py", "accelerate"),
                          ('torchrun --nnodes=2 --rdzv-endpoint=a-0.a:1 "$OPTIONS" t.py'.replace('"', ""), "`$OPTIONS`")):
        code, out, err = run("import", "-", data=dump(service(), job(command, subdomain="a")))
        check(code == 2 and out == "" and says in err, err, command)
    at = c10d("a-0.a:1")
    for command, says in (("if $DEBUG; then torchrun --standalone t.py; else %s; fi" % at, "torchrun --standalone t.py; else torchrun"),
                          ("torchrun --nproc-per-node=1 prepare.py && " + at, "give it --standalone"),
                          (at + " && " + c10d("a-0.a:1", more="--rdzv-id=b"), "a launch with one node or another id"),
                          ("if $FIRST; then %s; else %s; fi" % (c10d("localhost:1"), at), "numPods: 2")):
        code, out, err = run("import", "-", data=dump(service(), job(command, subdomain="a")))
        check(says in out + err and "placement" not in out, command, err + out)
    dumped = job(at, subdomain="a", labels={"controller-uid": "9d4b", "batch.kubernetes.io/controller-uid": "9d4b", "job-name": "a"})
    dumped["spec"]["selector"] = {"matchLabels": {"controller-uid": "9d4b"}}
    code, out, err = run("import", "-", data=dump(service(), dumped))
    check(code == 0 and "9d4b" not in out and "job-name" not in out and "selector" not in err, err, out)
    for command in (at.replace("t.py", "--max-restarts=5 t.py"), at.replace("t.py", "--max-restarts 5 t.py").split(), "cd /w; " + at.replace("t.py", "--max_restarts=5 t.py")):
        for o in (job(command, subdomain="a"), torchjob(command)):
            emitted = run("emit", "-f", "-", data=run("import", "-", data=dump(service(), o))[1])[1]
            check("PET_MAX_RESTARTS" not in emitted and "option-env-conflict" not in findings(emitted), command, emitted)
    code, out, err = run("import", "-", data=dump(service(), job(STATIC, subdomain="a")))
    check(code == 0 and "--node_rank set the ranks" in err, err, out)
    code, out, err = run("import", "-", data=dump(job(c10d("s.x:1"), container={"image": ""})))
    check(code == 2 and "no image" in err and "runtime" not in err, err)
    code, out, err = run("emit", "-f", "-", data="jobName: a\nplatform: job\ncontainerImage: i:1\nnumPods: 2\nmainProgram: deepspeed t.py")
    check(code == 2 and "torchrun runs it: remove deepspeed in front" in err, err)
    for line in ("mainProgram: accelerate launch t.py", "command: [sh, -c, 'exec accelerate launch t.py']"):
        code, out, err = run("emit", "-f", "-", data="jobName: a\nplatform: job\ncontainerImage: i:1\nnumPods: 2\n" + line)
        check(code == 2 and out == "" and "accelerate launch does not read" in err, err, line)


if __name__ == "__main__":
    sys.exit(cases.run("tests/manifest/kinds.py"))
