"""The user's settings for the store's pod, from rdzv.* and from the job, reach the pod on every platform and with every
placement that has such a pod. Also: null switches a default off, and Kueue's label."""

import json
import re

import matrix
import tool

JOB = {"jobName": "train", "namespace": "ml", "containerImage": "b:1", "numPods": 2, "mainProgram": "t.py",
       "imagePullSecrets": [{"name": "of-job"}], "priority": "high-priority"}
WISHES = {"priority": "urgent", "serviceAccountName": "store", "nodeSelector": {"pool": "cpu"},
          "imagePullPolicy": "Always", "imagePullSecrets": [{"name": "of-store"}], "name": "meet",
          "tolerations": [{"key": "infra", "operator": "Exists"}], "labels": {"team": "vision"},
          "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
              {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]}},
          "annotations": {"example.com/owner": "me"}}
# What has a pod of the store alone.
PLACEMENTS = [("volcano", "task"), ("volcano", "service"), ("jobset", "job"), ("jobset", "service"),
              ("appwrapper-v1beta1", "pod"), ("appwrapper-v1beta2", "pod"), ("appwrapper-v1beta2", "service"),
              ("pytorchjob", "relay"), ("job", "relay"), ("trainjob", "service"), ("pods", "service")]
KUEUE = "kueue.x-k8s.io/queue-name"


def emit(job, *args):
    return tool.emit("-f", "-", *args, stdin=json.dumps(job).encode())


def templates(node):
    """Every {metadata, spec} whose spec has containers."""
    if isinstance(node, dict):
        if isinstance(node.get("spec"), dict) and "containers" in node["spec"]:
            yield node
        for value in node.values():
            yield from templates(value)
    elif isinstance(node, list):
        for value in node:
            yield from templates(value)


def stores(documents):
    return [t for t in templates(documents) if t["spec"]["containers"][0]["name"] == "rdzvd"]


def wishes(check):
    for platform, placement in PLACEMENTS:
        args = ["--platform", platform, "--rdzv", placement]
        documents = emit(dict(JOB, rdzv=WISHES), *args)
        found = stores(documents)
        check(len(found) == 1, "%s: %d stores" % (args, len(found)))
        meta, spec = found[0]["metadata"], found[0]["spec"]
        got = {"priority": spec.get("priorityClassName"), "imagePullPolicy": spec["containers"][0].get("imagePullPolicy")}
        got.update({k: spec.get(k) for k in ("serviceAccountName", "nodeSelector", "imagePullSecrets",
                                             "tolerations", "affinity")})
        want = {k: v for k, v in WISHES.items() if k not in ("name", "labels", "annotations")}
        check(got == want, "%s: %r, not %r" % (args, got, want))
        check(meta["labels"]["team"] == "vision" and meta["labels"]["rdzvd"] == "train" and
              meta["annotations"]["example.com/owner"] == "me", "%s: %r" % (args, meta))
        check(spec.get("automountServiceAccountToken") is False, "%s: a token" % args)
        # The training pods get none of these settings, except the pull secrets if they also run the image.
        for other in templates(documents):
            if other in found:
                continue
            secrets = [s["name"] for s in other["spec"]["imagePullSecrets"]]
            check(secrets == ["of-job"] + ["of-store"] * (placement == "relay"), "%s: %r" % (args, secrets))
            check("nodeSelector" not in other["spec"] and other["spec"]["priorityClassName"] == "high-priority",
                  "%s: %r" % (args, other["spec"].get("nodeSelector")))
        # Without settings of its own, the store inherits the suitable settings of the job.
        spec = stores(emit(JOB, *args))[0]["spec"]
        check(spec.get("priorityClassName") == "high-priority" and
              spec.get("imagePullSecrets") == [{"name": "of-job"}] and "serviceAccountName" not in spec,
              "%s: inherited %r" % (args, spec))
    sidecar = emit(dict(JOB, rdzv={"imagePullSecrets": [{"name": "of-job"}, {"name": "more"}]}), "--rdzv", "sidecar")
    secrets = [[s["name"] for s in t["spec"]["imagePullSecrets"]] for t in templates(sidecar)]
    check(secrets == [["of-job", "more"], ["of-job"]], "sidecar: %r" % secrets)


def elsewhere(check):
    """A store in a namespace of its own: a policy that lets the job's in, and an endpoint that leads there."""
    documents = emit(dict(JOB, rdzv={"namespace": "infra"}), "--platform", "job", "--rdzv", "service")
    spaces = {d["kind"]: d["metadata"]["namespace"] for d in documents}
    check(spaces == {"Service": "infra", "StatefulSet": "infra", "PodDisruptionBudget": "infra",
                     "NetworkPolicy": "infra", "Job": "ml"}, repr(spaces))
    policy = [d for d in documents if d["kind"] == "NetworkPolicy"][0]["spec"]["ingress"][0]["from"]
    check([p["namespaceSelector"]["matchLabels"] for p in policy] == [{"kubernetes.io/metadata.name": "ml"}] and
          "podSelector" in policy[0], repr(policy))
    endpoints = [e["value"] for env in tool.find_all(documents, "env") for e in env if e["name"] == "PET_RDZV_ENDPOINT"]
    check(endpoints == ["train-rdzv.infra:29400"], repr(endpoints))
    relayed = emit(dict(JOB, rdzv={"namespace": "infra"}), "--platform", "job", "--rdzv", "relay")
    check("--upstream=train-rdzv.infra:29400" in repr(relayed), "relay")
    # A ServiceMonitor selects Services of its own namespace.
    scraped = emit(dict(JOB, rdzv={"namespace": "infra", "metrics": "servicemonitor"}), "--platform", "job", "--rdzv", "service")
    monitors = [d["metadata"]["namespace"] for d in scraped if d["kind"] == "ServiceMonitor"]
    check(monitors == ["infra"], repr(monitors))
    for wrong, placement in (({"namespace": "ml"}, "sidecar"), ({"namespace": "infra", "labels": {"rdzvd": "x"}}, "service"),
                             ({"affinity": "x"}, "service")):
        code, _, err = tool.run("emit", "-f", "-", "--platform", "pytorchjob", "--rdzv", placement,
                                stdin=json.dumps(dict(JOB, rdzv=wrong)).encode())
        check(code == 2 and b"rdzv." in err, "%r: exit %d %r" % (wrong, code, err))


def queues(check):
    """Kueue's label, at the object that Kueue admits, and there alone."""
    places = {"pytorchjob": "PyTorchJob", "job": "Job", "jobset": "JobSet", "trainjob": "TrainJob",
              "appwrapper-v1beta2": "AppWrapper"}
    for platform, kind in places.items():
        documents = emit(dict(JOB, queueName="gpu"), "--platform", platform)
        labels = {d["kind"]: d["metadata"].get("labels", {}).get(KUEUE) for d in documents}
        check({k: v for k, v in labels.items() if v} == {kind: "gpu"} and repr(documents).count(KUEUE) == 1,
              "%s: %r" % (platform, labels))
    pods = [d for d in emit(dict(JOB, queueName="gpu"), "--platform", "pods") if d["kind"] == "Pod"]
    check(len(pods) == 2, "%d pods" % len(pods))
    for pod in pods:
        labels, notes = pod["metadata"]["labels"], pod["metadata"]["annotations"]
        check(labels[KUEUE] == "gpu" and labels["kueue.x-k8s.io/pod-group-name"] == "train" and
              notes["kueue.x-k8s.io/pod-group-total-count"] == "2", repr(pod["metadata"]))
    volcano = [d for d in emit(dict(JOB, queueName="gpu"), "--platform", "volcano") if d["kind"] == "Job"][0]
    check(volcano["spec"]["queue"] == "gpu" and KUEUE not in repr(volcano), "volcano")


def nulls(check):
    """null switches off what a platform or a profile sets, in a file and with --set; a later file turns it on again."""
    base = {k: v for k, v in JOB.items() if k not in ("priority", "imagePullSecrets")}
    off = dict(base, queueName=None, priority=None)
    for documents in (emit(off), emit(base, "--set", "queueName=null,priority=null")):
        wrapper = [d for d in documents if d["kind"] == "AppWrapper"][0]
        check("labels" not in wrapper["metadata"] and "priorityClassName" not in repr(wrapper), repr(wrapper["metadata"]))
    on = [d for d in emit(off, "--set", "queueName=q") if d["kind"] == "AppWrapper"][0]
    check(on["metadata"]["labels"] == {KUEUE: "q"}, repr(on["metadata"]))
    usual = [d for d in emit(base) if d["kind"] == "AppWrapper"][0]
    check(usual["metadata"]["labels"] == {KUEUE: "default-queue"}, repr(usual["metadata"]))
    documents = emit(dict(base, privileged=None, hostDevices=None), "--platform", "job", "--profile", "oke-rdma")
    check("privileged" not in repr(documents) and "/dev/infiniband" not in repr(documents) and
          "hostNetwork" in repr(documents), "profile")


def journal_in(namespace, documents):
    """--journal, as the kubelet of that namespace gives it to rdzvd."""
    rdzvd = stores(documents)[0]["spec"]["containers"][0]
    own = {e["name"]: namespace for e in rdzvd.get("env") or []
           if e["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.namespace"}}}
    flag = next(a for a in rdzvd["args"] if a.startswith("--journal="))
    return re.sub(r"\$\((\w+)\)", lambda m: own[m.group(1)], flag)


def relays_of(documents):
    return [c for t in templates(documents) for c in t["spec"].get("initContainers") or [] if c["name"] == "rdzvd-relay"]


def spaces(check):
    """Nor do jobs of one name in two namespaces share a space of a store that both use."""
    job = dict(JOB, rdzv={"placement": "relay", "endpoint": "rdzvd.infra.svc:29400"})
    unnamed = {k: v for k, v in job.items() if k != "namespace"}
    for platform in matrix.PLATFORMS:
        if platform == "appwrapper-v1beta1":
            continue  # emit refuses it without a namespace
        documents = emit(unnamed, "--platform", platform)
        relays = relays_of(documents)
        for relay in relays:
            check("--space=$(POD_NAMESPACE).train" in relay["args"] and
                  {e["name"]: e["valueFrom"]["fieldRef"]["fieldPath"] for e in relay["env"]}["POD_NAMESPACE"] ==
                  "metadata.namespace", platform)
        check(relays, "%s: no relay" % platform)
        named = relays_of(emit(job, "--platform", platform))
        check(all("--space=ml.train" in c["args"] and "POD_NAMESPACE" not in repr(c) for c in named), platform)


def journals(check):
    """Two namespaces share no journal on one etcd, whether the file or whoever applies it names them."""
    job = dict(JOB, rdzv={"journal": {"endpoints": ["etcd-0.etcd:2379"]}})
    unnamed = {k: v for k, v in job.items() if k != "namespace"}
    for platform in matrix.PLATFORMS:
        for more in ([], ["--set", "rdzv.relays=false"]):
            args = ["--platform", platform, "--rdzv", "replicas", *more]
            if platform == "appwrapper-v1beta1":
                continue  # emit refuses it without a namespace
            documents = emit(unnamed, *args)
            for namespace in ("ml", "other"):
                got, want = journal_in(namespace, documents), "--journal=etcd://etcd-0.etcd:2379/%s.train" % namespace
                check(got == want, "%s: %s, not %s" % (args, got, want))
                check(matrix.check_config([got]) is None, "%s: rdzvd refuses %s" % (args, got))
            named = emit(job, *args)
            check(journal_in("ml", named) == journal_in("ml", documents) and "POD_NAMESPACE" not in repr(named),
                  "%s: %s" % (args, journal_in("ml", named)))
            own = emit(unnamed, *args, "--set", "rdzv.journal.prefix=mine")
            check(journal_in("ml", own).endswith("/mine") and "POD_NAMESPACE" not in repr(own), "%s: a prefix" % args)


def test(check, _):
    journals(check)
    spaces(check)
    wishes(check)
    elsewhere(check)
    queues(check)
    nulls(check)
