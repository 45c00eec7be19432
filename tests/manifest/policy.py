#!/usr/bin/python3
"""rdzv-manifest policy: a pod with the label comes out as `rewrite --rdzv=relay` would write it.

    policy.py [NAME...]     cases with one of these words in their name, or all

admission.py says which evaluator of CEL this uses, and what it cannot show. Manifests are those of rewrite/, real/ and
wild/ here and, if it is beside the checkout, of ../shared/corpus/manifests. platforms.py makes the pods of both sides:
the policy gets those of the manifest as it is, with the label. Options of torchrun in a command win over variables, so
--rdzv-endpoint and --rdzv-backend are removed from it first, and --rdzv-conf becomes PET_RDZV_CONF, as
deploy/INJECTION.md tells people. $RDZV_MANIFEST names the tool.
"""

import collections
import copy
import glob
import json
import os
import re
import subprocess
import sys

import admission
import platforms
from manifests import HERE, MANIFEST, SHARED, read, yaml

sys.path.insert(0, os.path.join(HERE, "..", "support"))
import cases  # noqa: E402
from cases import case, check  # noqa: E402

LABEL = "rdzv.dev/inject"
POLICIES = {}


def tool(*args, data=None, code=0):
    done = subprocess.run([MANIFEST, *args], input=data, capture_output=True, text=True, check=False, timeout=60)
    check(done.returncode == code, "%s: exit %d\n%s" % (" ".join(args), done.returncode, done.stderr))
    return done.stderr if code == 2 else done.stdout


def policy(*args):
    if args not in POLICIES:
        POLICIES[args] = admission.Policy(next(yaml.safe_load_all(tool("policy", *args))))
    return POLICIES[args]


# ------------------------------------------------------------ pods

OPTION = re.compile(r"""--(?:rdzv[-_](endpoint|backend|id|conf)|(max[-_]restarts))[= ]\s*("[^"]*"|'[^']*'|[^\s\\]+)""")


def words_of(container):
    return [w for key in ("command", "args") for w in container.get(key) or [] if isinstance(w, str)]


def without_options(container):
    """What a user does who sets the label: the container, and the conf that was in its command."""
    conf = []

    def dropped(match):
        if match.group(1) == "conf":
            conf.append(match.group(3).strip("\"'"))
        return match.group(0) if match.group(1) in (None, "id") else ""
    container = copy.deepcopy(container)
    for key in ("command", "args"):
        if key in container:
            words = container[key]
            joined = [w + " " + words[i + 1] if re.fullmatch(r"--rdzv[-_]\w+", str(w)) and i + 1 < len(words) else w
                      for i, w in enumerate(words)
                      if i == 0 or not re.fullmatch(r"--rdzv[-_]\w+", str(words[i - 1]))]
            container[key] = [w for w in (OPTION.sub(dropped, w) if isinstance(w, str) else w for w in joined) if w]
    if conf:
        container["env"] = [e for e in container.get("env") or [] if e["name"] != "PET_RDZV_CONF"]
        container["env"].append({"name": "PET_RDZV_CONF", "value": conf[-1]})
    return container


def admitted_pod(pod, job):
    """The Pod as its controller sends it to the API server."""
    spec = copy.deepcopy(pod.spec)
    spec["containers"] = [
        dict(without_options(c), env=[{"name": k, "value": v} for k, v in pod.before.items()] +
             (without_options(c).get("env") or []) + [{"name": k, "value": str(v)} for k, v in pod.after.items()])
        for c in spec["containers"]]
    for c in spec["containers"]:
        if not c["env"]:
            del c["env"]
    return {"apiVersion": "v1", "kind": "Pod", "spec": spec, "metadata": {
        "name": pod.name, "namespace": pod.namespace, "labels": dict(pod.labels, **{LABEL: job}),
        "annotations": pod.annotations}}


def meaning(pod, container, documents):
    """What torchrun in the container sees: its variables, and its options over them."""
    env = platforms.environment(pod, container, "10.0.0.1", documents)
    out = {key: env.get("PET_" + key.upper()) for key in
           ("rdzv_endpoint", "rdzv_backend", "rdzv_id", "rdzv_conf", "max_restarts", "local_addr", "nnodes")}
    for rdzv, other, value in OPTION.findall(" ".join(words_of(container))):
        value = re.sub(r"\$\(?\{?([A-Za-z_]\w*)\}?\)?", lambda m: env.get(m.group(1), m.group(0)), value.strip("\"'"))
        out["rdzv_" + rdzv if rdzv else other.replace("-", "_")] = value
    out["rdzv_conf"] = dict(p.partition("=")[::2] for p in (out["rdzv_conf"] or "").split(",") if p)
    return out


def with_restart_policy(doc):
    """The job with the restartPolicy that its controller gives to its pods."""
    spec = doc.get("spec") or {}
    for replica in (spec.get("pytorchReplicaSpecs") or {}).values():
        policy = replica.get("restartPolicy", "OnFailure")
        replica["template"]["spec"]["restartPolicy"] = "Never" if policy == "ExitCode" else policy
    for part in spec.get("replicatedJobs") or []:
        part["template"]["spec"]["template"]["spec"].setdefault("restartPolicy", "OnFailure")
    return doc


def as_run(pod):
    return platforms.Pod(pod["metadata"]["name"], pod, labels=pod["metadata"]["labels"],
                         annotations=pod["metadata"].get("annotations"))


def option_of(relay, name):
    return next(a.partition("=")[2] for a in relay["args"] if a.startswith("--%s=" % name))


def without_index(containers):
    """Without the number of the pod, which is in another place for each kind of job: the policy knows that of Jobs."""
    out = json.loads(json.dumps(containers))
    for c in out:
        c["args"] = [a for a in c.get("args") or [] if not a.startswith("--node-label=")]
        c["env"] = [e for e in c.get("env") or [] if e["name"] != "POD_INDEX"]
    return out


class Compared:
    """Pods of a manifest, by policy and by rewrite."""

    def __init__(self):
        self.templates, self.ids, self.runs, self.ended_by_job = set(), {}, 0, 0
        self.before, self.pods = [], []

    def manifest(self, path):
        try:
            documents = [d for d in yaml.safe_load_all(read(path)) if isinstance(d, dict)]
            for doc in platforms.flatten(documents):
                doc.setdefault("metadata", {}).setdefault("namespace", "ml")
            done = subprocess.run([MANIFEST, "rewrite", "--rdzv=relay", "-"], input=yaml.safe_dump_all(documents),
                                  capture_output=True, text=True, check=False, timeout=60)
            rewritten = platforms.flatten(d for d in yaml.safe_load_all(done.stdout) if d)
            after = {(p.namespace, p.name): p for p in platforms.pods_of(rewritten)}
            objects = [with_restart_policy(d) for d in platforms.flatten(documents)]
            before = platforms.pods_of(objects)
        except (yaml.YAMLError, platforms.Unknown, AttributeError, KeyError, TypeError):
            return  # a template of helm, a field with a placeholder, an object that no controller takes
        for pod in before:
            twin = after.get((pod.namespace, pod.name))
            if twin is not None and twin.relays():
                self.pod(path, pod, twin, objects, rewritten)

    def pod(self, path, pod, twin, documents, rewritten):
        relay = twin.relays()[0]
        where = "%s: %s" % (path, pod.name)
        judge = policy("--store=" + option_of(relay, "upstream"))
        job = option_of(relay, "space").partition(".")[2]
        self.before.append(admission.defaulted(admitted_pod(pod, job)))
        got = judge.admit(self.before[-1])
        check(judge.admit(got) == got, where + ": a second application changes it")
        want = admission.defaulted({"spec": twin.spec})["spec"]
        check(without_index(got["spec"]["initContainers"]) == without_index(want["initContainers"]), "%s: init containers\n%s\nbut rewrite\n%s" % (
            where, json.dumps(got["spec"]["initContainers"]), json.dumps(want["initContainers"])))
        for old, mine, theirs in zip(pod.spec["containers"], got["spec"]["containers"], want["containers"]):
            his = meaning(twin, theirs, rewritten)
            if his["rdzv_endpoint"] == "localhost:29400":
                self.runs += 1
                self.run(where, job, meaning(as_run(got), mine, documents), his, meaning(pod, old, documents), pod)
        self.templates.add((path, json.dumps(pod.spec, sort_keys=True, default=str)))
        self.pods.append(got)

    def run(self, where, job, mine, his, first, pod):
        said = "%s:\n%s\nbut rewrite\n%s" % (where, mine, his)
        for key in ("rdzv_backend", "rdzv_endpoint", "rdzv_conf", "nnodes"):
            check(mine[key] == his[key], "%s: %s" % (key, said))
        check(his["local_addr"] in (None, mine["local_addr"]), said)
        # An id of the user's stays. Where rewrite takes the job's name, that of emit is as good: the space is the job's.
        check(mine["rdzv_id"] == (first["rdzv_id"] or mine["rdzv_id"]), said)
        check(his["rdzv_id"] in (mine["rdzv_id"], job), said)
        check(self.ids.setdefault((where.split(": ")[0], job), mine["rdzv_id"]) == mine["rdzv_id"], said)
        # No pod shows that its Job ends at the first restart, so there the policy adds restarts, and rewrite does not.
        if (mine["max_restarts"], his["max_restarts"]) == ("100", None):
            self.ended_by_job += 1
            check("batch.kubernetes.io/job-name" in pod.labels and pod.spec["restartPolicy"] == "OnFailure", said)
        elif pod.spec.get("restartPolicy") != "Never":
            check(mine["max_restarts"] == his["max_restarts"], said)


def validated(pods):
    """The objections of Kubernetes' schema to these pods; none without ../shared."""
    tools = os.path.join(SHARED, "tools", "validate_manifests.py")
    if not os.path.exists(tools):
        return set()
    text = "---\n".join(json.dumps(pod) + "\n" for pod in pods)
    done = subprocess.run([sys.executable, tools, "-q", "-v", "-"], input=text, capture_output=True, text=True, check=False)
    check("ok " in done.stdout or "BAD " in done.stdout, done.stderr)
    return {re.sub(r"\[\d+\]", "[]", line) for line in done.stdout.splitlines() if not line.startswith("ok ")}


def compared(paths, least):
    both = Compared()
    for path in sorted(paths):
        both.manifest(path)
    print("%d templates, %d pods, %d runs of torchrun" % (len(both.templates), len(both.pods), both.runs))
    check(len(both.templates) >= least and both.runs >= len(both.templates), "only %d templates" % len(both.templates))
    check(both.ended_by_job <= 4, "%d pods of Jobs that end" % both.ended_by_job)
    bad = validated(both.pods) - validated(both.before)  # some have placeholders
    check(not bad, "\n".join(bad))


@case
def own_manifests_come_out_as_rewrite_writes_them():
    if admission.missing():
        return admission.missing()
    return compared(sum((glob.glob(os.path.join(HERE, d, "*.yaml")) for d in ("rewrite", "real", "wild")), []), 14)


@case
def public_manifests_come_out_as_rewrite_writes_them():
    corpus = os.path.join(SHARED, "corpus", "manifests")
    if admission.missing() or not os.path.isdir(corpus):
        return admission.missing() or "there is no ../shared/corpus"
    return compared(glob.glob(corpus + "/*/*.yaml"), 31)


# ------------------------------------------------------------ single pods


def simple(env=(), labels=None, metadata=None, **spec):
    container = {"name": "trainer", "image": "x/train:1", "command": ["torchrun", "--nnodes=2", "t.py"]}
    if env:
        container["env"] = [{"name": k, "value": v} for k, v in dict(env).items()]
    return {"apiVersion": "v1", "kind": "Pod", "spec": dict({"containers": [container]}, **spec), "metadata": dict(
        {"name": "train-0", "namespace": "ml", "labels": {LABEL: "train"} if labels is None else labels},
        **metadata or {})}


def variables(pod, index=0):
    return {e["name"]: e.get("value", e.get("valueFrom")) for e in pod["spec"]["containers"][index]["env"]}


@case
def pods_without_the_name_of_a_job_stay_as_they_are():
    if admission.missing():
        return admission.missing()
    for labels in ({}, {LABEL: ""}, {LABEL: "true"}, {LABEL: "false"}, {"rdzv.dev/other": "train"}):
        check(not policy().matches(simple(labels=labels)), str(labels))
    check(policy().matches(simple()), "a pod with a job is not selected")


@case
def pods_with_a_relay_or_on_the_host_network_stay_as_they_are():
    if admission.missing():
        return admission.missing()
    relay = {"name": "mine", "image": "registry.example/rdzvd:0.1.0", "args": ["--upstream=a:1"]}
    other = {"name": "proxy", "image": "oauth2-proxy:7", "args": ["--upstream=http://localhost"]}
    for pod in (simple(hostNetwork=True), simple(initContainers=[{"name": "rdzvd-relay", "image": "x"}]),
                simple(initContainers=[relay]), simple(containers=simple()["spec"]["containers"] + [relay])):
        check(policy().admit(pod) == admission.defaulted(pod), json.dumps(pod))
    for pod in (simple(hostNetwork=False), simple(initContainers=[other]), simple(initContainers=[dict(relay, args=["x"])])):
        check(policy().matches(pod), json.dumps(pod))


@case
def every_container_gets_the_variables_and_those_of_its_own_stay():
    if admission.missing():
        return admission.missing()
    pod = simple(env={"A": "1", "PET_RDZV_ENDPOINT": "train-0:29400", "PET_RDZV_BACKEND": "etcd",
                      "PET_RDZV_ID": "mine", "PET_RDZV_CONF": "timeout=5,is_host=1,read_timeout=30", "PET_LOCAL_ADDR": "::1",
                      "PET_MAX_RESTARTS": "3"})
    pod["spec"]["containers"].append({"name": "other", "image": "x"})
    got = policy("--store=rdzvd.infra:29400").admit(pod)
    check(variables(got) == {
        "A": "1", "PET_RDZV_ENDPOINT": "localhost:29400", "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ID": "mine",
        "PET_RDZV_CONF": "is_host=0,read_timeout=900,timeout=5,is_host=1,read_timeout=30,is_host=0",
        "PET_LOCAL_ADDR": "::1", "PET_MAX_RESTARTS": "3"}, str(variables(got)))
    check(len(got["spec"]["containers"][0]["env"]) == 7, "a variable is there twice")
    check(variables(got, 1) == {
        "PET_RDZV_ENDPOINT": "localhost:29400", "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ID": "ml.train",
        "PET_RDZV_CONF": "is_host=0,read_timeout=900", "PET_MAX_RESTARTS": "100",
        "PET_LOCAL_ADDR": {"fieldRef": {"fieldPath": "status.podIP"}}}, str(variables(got, 1)))
    relay = got["spec"]["initContainers"][0]
    check(relay["args"] == ["--upstream=rdzvd.infra:29400", "--space=ml.train", "--listen=localhost:29400",
                            "--node-label=index=$(POD_INDEX)"], str(relay))
    check(relay["env"] == [{"name": "POD_INDEX", "valueFrom": {"fieldRef": {
        "fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}}], str(relay))
    check("PET_MAX_RESTARTS" not in variables(policy().admit(simple(restartPolicy="Never"))), "restarts of a pod that ends")
    check(policy().admit(simple())["spec"]["initContainers"][0]["args"][0] == "--upstream=train-rdzv:29400", "own store")


@case
def the_run_id_changes_with_each_submission_where_pods_show_it():
    if admission.missing():
        return admission.missing()
    job, jobset = "batch.kubernetes.io/controller-uid", "jobset.sigs.k8s.io/jobset-uid"
    for keys, kind, wanted in (
            ([job], "labels", ["$(RUN_UID)"]), ([job, jobset], "labels", ["$(RUN_UID).$(RUN_TRY)"]),
            (["scheduling.k8s.io/group-name"], "annotations", ["$(VC_GROUP).$(VC_VERSION)"]), ([], "labels", ["ml.train"])):
        pod = simple()
        pod["metadata"].setdefault(kind, {}).update(dict.fromkeys(keys, "7"))
        got = policy().admit(pod)
        check(variables(got)["PET_RDZV_ID"] == wanted[0], str(variables(got)))
        names = [e["name"] for e in got["spec"]["containers"][0]["env"]]
        for name in re.findall(r"\$\((\w+)\)", wanted[0]):
            check(names.index(name) < names.index("PET_RDZV_ID"), "%s is behind the id: %s" % (name, names))


@case
def the_relay_is_guaranteed_where_its_pod_is_and_never_root():
    """Both as rewrite writes them for the same pods, which own manifests have in part only."""
    if admission.missing():
        return admission.missing()
    some = {"limits": {"cpu": 8, "memory": "64Gi"}}
    init = {"name": "prepare", "image": "x", "command": ["sh", "-c", "ls"]}
    side = dict(init, name="side", restartPolicy="Always")
    for fields in ({}, {"resources": some}, {"resources": dict(some, requests={"cpu": 4})}, {"user": 0}, {"user": 1000},
                   {"resources": some, "user": 0}, {"init": [init]}, {"init": [dict(init, resources=some)], "resources": some},
                   {"init": [init], "resources": some}, {"init": [side], "resources": some}):
        pod = simple(restartPolicy="Never", subdomain="train")
        pod["spec"]["containers"][0]["command"][1:1] = ["--rdzv_backend=c10d", "--rdzv_endpoint=train-0.train:29400"]
        pod["spec"]["containers"][0]["resources"] = fields.get("resources", {})
        pod["spec"].update({"initContainers": fields["init"]} if "init" in fields else {})
        pod["spec"].update({"securityContext": {"runAsUser": fields["user"]}} if "user" in fields else {})
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "ml"},
               "spec": {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": {"spec": pod["spec"]}}}
        out = tool("rewrite", "--rdzv=relay", "-", data=yaml.safe_dump(job))
        wanted = next(d for d in yaml.safe_load_all(out) if d["kind"] == "Job")["spec"]["template"]
        got = policy().admit(pod)
        check(got["spec"]["initContainers"] == admission.defaulted(wanted)["spec"]["initContainers"], "%s\n%s" % (
            fields, json.dumps(got["spec"]["initContainers"])))
        check(not validated([got]), str(validated([got])))


@case
def relays_speak_tls_with_the_secret_of_the_namespace():
    if admission.missing():
        return admission.missing()
    judge = policy("--set=rdzv.tls.clientSecret=relay-tls,rdzv.tls.clientCertificates=false", "--store=s.infra:29400")
    for volumes in (None, [{"name": "a", "emptyDir": {}}]):
        got = judge.admit(simple(**({"volumes": volumes} if volumes else {})))
        check(got["spec"]["volumes"] == (volumes or []) + [{"name": "rdzvd-client-tls", "secret": {
            "secretName": "relay-tls", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}], str(got["spec"]["volumes"]))
        check("--upstream-ca=/etc/rdzvd/client-tls/ca.crt" in got["spec"]["initContainers"][0]["args"], str(got))
        check(not validated([got]), str(validated([got])))


@case
def settings_of_the_relay_reach_its_pods():
    if admission.missing():
        return admission.missing()
    got = policy("--image=reg/rdzvd:7", "--set=rdzv.relayPort=7001,rdzv.conf.last_call_timeout=5",
                 "--set=rdzv.relayResources.limits.cpu=1,rdzv.imagePullPolicy=Always").admit(simple())
    relay = got["spec"]["initContainers"][0]
    check((relay["image"], relay["imagePullPolicy"], relay["resources"]["limits"]["cpu"]) == ("reg/rdzvd:7", "Always", "1"),
          str(relay))
    check("--listen=localhost:7001" in relay["args"], str(relay))
    check(variables(got)["PET_RDZV_ENDPOINT"] == "localhost:7001", str(got))
    check(variables(got)["PET_RDZV_CONF"] == "is_host=0,read_timeout=900,last_call_timeout=5", str(got))
    check(not validated([got]), str(validated([got])))


# ------------------------------------------------------------ documents


@case
def each_api_has_the_same_policy():
    documents = {api: list(yaml.safe_load_all(tool("policy", "--api=" + api))) for api in ("v1", "v1beta1", "kyverno")}
    check(documents["v1"] == list(yaml.safe_load_all(tool("policy"))), "v1 is not the default")
    check([d["kind"] for d in documents["v1"]] == ["MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"], "kinds")
    check(documents["v1"][1]["spec"] == {"policyName": documents["v1"][0]["metadata"]["name"]}, "binding")
    check([d["kind"] for d in documents["kyverno"]] == ["MutatingPolicy"], "kinds of Kyverno")
    for api, version in (("v1", "admissionregistration.k8s.io/v1"), ("v1beta1", "admissionregistration.k8s.io/v1beta1"),
                         ("kyverno", "policies.kyverno.io/v1")):
        check({d["apiVersion"] for d in documents[api]} == {version}, api)
        check(documents[api][0]["spec"] == documents["v1"][0]["spec"], "the policy of %s is another" % api)


@case
def wrong_arguments_are_refused():
    for args, said in ((["--api=v2"], "v1, v1beta1 or kyverno"), (["job.yaml"], "reads no file"),
                       (["--store=rdzvd"], "rdzv.endpoint"), (["--image=a b"], "rdzv.image"),
                       (["--set=numPods=2"], "rdzv.* alone"), (["--set=rdzv.placement=service"], "rdzv.placement"),
                       (["--set=rdzv.durable=true"], "rdzv.durable"), (["--set=rdzv.tls.secret=x"], "rdzv.tls"),
                       (["--sett"], "--sett")):
        err = tool("policy", *args, code=2)
        check(said in err, "%s: %s" % (args, err))


@case
def check_and_rewrite_know_the_relay_of_a_labelled_job():
    for name in ("inject-option.good.yaml", "inject-old.good.yaml"):
        path = os.path.join(HERE, "check", name)
        seen = json.loads(tool("check", "--show", path))
        check([(j["store"], j["endpoint"]) for j in seen["jobs"]] == [("relay", "localhost:29400")], str(seen))
        check(tool("rewrite", "--rdzv=relay", path) == read(path).decode(), "rewrite changes " + name)
    unlabelled = re.sub(r"labels:\n *rdzv.dev/inject: train", "labels: {}", read(path).decode())
    seen = json.loads(tool("check", "--show", "-", data=unlabelled))
    check("relay" not in [j.get("store") for j in seen["jobs"]], str(seen))


@case
def an_expression_that_no_cluster_would_take_is_found():
    """The evaluator judges types, and admission.py the names of typed literals."""
    if admission.missing():
        return admission.missing()
    text = tool("policy")
    for old, new in (("Object.spec.initContainers.startupProbe.exec{", "Object.spec.initContainers.exec{"),
                     ("string(i)", "strin(i)"), ("variables.root ?", "1 + 'a' ?"), ("} }] +", "} } +")):
        check(old in text, old)
        try:
            admission.Policy(next(yaml.safe_load_all(text.replace(old, new))))
        except admission.Refused:
            continue
        raise AssertionError("%s is taken for %s" % (new, old))


if __name__ == "__main__":
    admission.restart_with_evaluator()
    sys.exit(cases.run("tests/manifest/policy.py"))
