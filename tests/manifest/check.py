#!/usr/bin/env python3
"""What `rdzv-manifest check` finds, and what it leaves alone: a corpus of faulty manifests with
corrected twins, real manifests, the forms of output, exit codes, and input that is no manifest.

    check.py [--tool PATH] [--update] [TEST | CASE]...

TEST is a test of this file; CASE is a name of the corpus, and runs the two tests of the corpus on it
alone. The corpus is check/NAME.bad.yaml with NAME.good.yaml beside it. In a bad one `# expect: RULE[, RULE]`
ends the line on which these rules, and no others, have to find something; `# expect +N: ...`, on a line
of its own, speaks of the line N further down (scripts cannot hold such comments); `at TEXT` behind
them says the column: where TEXT begins. `# options: ...` in the head is for the command line.
Everything that is found must be expected, and the other way round; in the good twin nothing is.

--update first writes the table of rules into deploy/README.md. $RDZV_MANIFEST names the tool, as
--tool does. Tests that need ../shared are skipped without it.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

from check_odd import cost_grows_with_the_file, huge_input, no_manifest, nothing_to_find, odd_objects, unusable_input
from check_tool import CORPUS, USER_FILE, Tool, check, expected, names, options_of, read, sample, show, starts

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SHARED = os.path.join(ROOT, "..", "shared")


# ---- the corpus

def faults_are_found(tool):
    """check reports each planted fault at its line, and no other fault."""
    for name in tool.cases:
        path = os.path.join(CORPUS, name + ".bad.yaml")
        text = read(path)
        want, found = expected(text), tool.findings(*options_of(text), path)
        got = {(f["line"], f["rule"]) for f in found}
        check(want, "%s: no fault is marked" % path)
        check(got == set(want), "%s: missed %s, unexpected %s; all of it:\n%s" % (
            path, sorted(set(want) - got), sorted(got - set(want)), show(found)))
        lines = text.split("\n")
        for f in found:
            line, at = lines[f["line"] - 1], want[f["line"], f["rule"]]
            where = "%s:%d:%d: %s" % (path, f["line"], f["column"], f["rule"])
            if at is not None:
                check(line[f["column"] - 1:].startswith(at), "%s is not at %r" % (where, at))
            else:
                check(f["column"] in starts(line), "%s: nothing begins there: %s" % (where, line))


def twins_are_clean(tool):
    for name in tool.cases:
        path = os.path.join(CORPUS, name + ".good.yaml")
        text = read(path)
        check("# expect" not in text, "%s: a fault is marked in the corrected twin" % path)
        found = tool.findings(*options_of(text), path)
        check(not found, "%s:\n%s" % (path, show(found)))


def listed_rules(tool):
    """(id, severity, what it finds, why, remedy), as `rdzv-manifest list rules` has them."""
    done = subprocess.run([tool.path, "list", "rules"], stdout=subprocess.PIPE, text=True, timeout=60)
    return re.findall(r"^([a-z0-9-]+) \((error|warning|note)\): (.*)\n    why:    (.*)\n"
                      r"    remedy: (.*)$", done.stdout.replace("\n" + " " * 12, " "), re.M)


def every_rule_has_a_case(tool):
    """Each rule has a case in the corpus, so no rule stays untested."""
    rules = [rule[0] for rule in listed_rules(tool)]
    planted = {rule for name in names()
               for _, rule in expected(read(os.path.join(CORPUS, name + ".bad.yaml")))}
    check(len(rules) == len(set(rules)) >= 20, rules)
    check(set(rules) == planted, "without a case: %s; unknown: %s" % (
        sorted(set(rules) - planted), sorted(planted - set(rules))))
    check(len(names()) >= 40, "%d cases" % len(names()))


def twins_are_valid(tool):
    """As an API server has it: the corrected twins are no nonsense. Needs ../shared and python3-yaml."""
    del tool
    validator = os.path.join(SHARED, "tools", "validate_manifests.py")
    if not os.path.exists(validator):
        return "skip: ../shared is not there"
    try:
        import yaml  # noqa: F401
    except ImportError:
        return "skip: python3-yaml is not there"
    paths = [os.path.join(CORPUS, name + ".good.yaml") for name in names()]
    kinds = os.path.join(HERE, "emit", "kinds.yaml")  # those that are not in ../shared
    done = subprocess.run([sys.executable, validator, "-q", "--crd", kinds, *paths], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=600)
    bad = [line for line in done.stdout.splitlines() if line and not line.startswith("ok ") and
           "others are behind a gate" not in line]  # the restartPolicy of a container, which Kubernetes 1.35 has
    check(not bad, "\n".join(bad[:20]))
    return None


README = os.path.join(ROOT, "deploy", "README.md")
TABLE = re.compile(r"(<!-- rules: check.py --update writes them -->\n)(.*?)(<!-- end of rules -->)", re.S)


def rule_table(tool):
    rows = ["| rule | severity | what it finds, and what breaks | how to mend it |", "|---|---|---|---|"]
    for rule, severity, title, why, remedy in listed_rules(tool):
        if not title.startswith("torch"):  # a name, in small letters everywhere
            title = title[0].upper() + title[1:]
        rows.append('| <a id="%s"></a>`%s` | %s | **%s.** %s | %s |' % (
            rule, rule, severity, title, why, remedy))
    return "\n".join(rows) + "\n"


def update_readme(tool):
    text = read(README)
    with open(README, "w", encoding="utf-8") as f:
        f.write(TABLE.sub(lambda m: m.group(1) + rule_table(tool) + m.group(3), text))


def readme_has_the_rules(tool):
    """The table of deploy/README.md is the tool's own list; --update writes it."""
    found = TABLE.search(read(README))
    check(found and found.group(2) == rule_table(tool),
          "deploy/README.md has other rules than `rdzv-manifest list rules`: run check.py --update")


# ---- real manifests

def expected_examples_are_clean(tool):
    """What the emitter is to write."""
    folder = os.path.join(SHARED, "spec", "examples")
    if not os.path.isdir(folder):
        return "skip: ../shared is not there"
    count = 0
    for base, _, files in os.walk(folder):
        for file in sorted(files):
            if re.match(r"expected.*\.yaml$", file):
                path = os.path.join(base, file)
                found = tool.findings(path)
                # They are older than these rules, and have --linger, which rdzvd had once.
                found = [f for f in found if f["rule"] not in ("restarts-none", "rdzvd-option")]
                check(not found, "%s:\n%s" % (path, show(found)))
                count += 1
    check(count >= 10, "%d examples" % count)
    return None


def fenced(path):
    """The YAML blocks of a document that are manifests."""
    blocks = re.findall(r"^ *``` *yaml *\n(.*?)^ *```", read(path), re.M | re.S)
    return [b for b in blocks if re.search(r"^apiVersion:", b, re.M)]


# The manifests of the OKE guide, in the order in which they stand there: one alone, or an etcd with
# the job that meets there.
GUIDE = [
    ([0], {"volcano-min-zero", "rdzv-hosted-by-worker", "host-network-port", "capability-prefix",
           "restarts-none"}),
    ([1, 2], {"restarts-none", "etcd-no-v2", "store-bare-pod", "store-no-probe", "store-no-memory-request",
              "not-ready-addresses", "volcano-min-zero", "host-network-port", "capability-prefix"}),
    ([3], {"rdzv-hosted-by-worker", "host-network-operator-port", "capability-prefix"}),
    ([4, 5], {"etcd-no-v2", "store-bare-pod", "store-no-probe", "store-no-memory-request",
              "not-ready-addresses", "rdzv-id-missing", "host-network-operator-port", "option-env-conflict",
              "capability-prefix"}),
]


def known_faults_of_the_guides(tool):
    """In the guides' own manifests, check reports exactly the known faults."""
    folder = os.path.join(SHARED, "seeds")
    if not os.path.isdir(folder):
        return "skip: ../shared is not there"
    guides = [os.path.join(folder, f) for f in sorted(os.listdir(folder))]
    guide = [g for g in guides if "OKE" in read(g)[:200]]
    check(len(guide) == 1, "which of %s is the OKE guide?" % guides)
    blocks = fenced(guide[0])
    check(len(blocks) == 6, "%d manifests" % len(blocks))
    for parts, want in GUIDE:
        text = "---\n".join(blocks[i] for i in parts)
        found = tool.findings("-", stdin=text.encode())
        got = {f["rule"] for f in found}
        check(got == want, "manifests %s: missed %s, unexpected %s:\n%s" % (
            parts, want - got, got - want, show(found)))
    return None


def words_of(tool, what):
    """The names that `rdzv-manifest list WHAT` prints."""
    done = subprocess.run([tool.path, "list", what], stdout=subprocess.PIPE, text=True, timeout=60)
    return [m.group(1) for m in re.finditer(r"^  ([a-z][a-z0-9-]+)$", done.stdout, re.M)]


def emitted_manifests_are_clean(tool):
    """Every platform with every placement, backend and profile that emit takes together."""
    platforms, placements, profiles = (words_of(tool, w) for w in ("platforms", "placements", "profiles"))
    combinations = [["--platform", p, "--rdzv", w, "--backend", b, "--set", nodes]
                    for p in platforms for w in placements for b in ("c10d", "etcd-v2")
                    for nodes in ("numPods=4", "nodes.min=2,nodes.max=4")]
    combinations += [["--platform", p, "--profile", f, "--set", "numPods=4"]
                     for p in platforms for f in profiles]
    clean, refused = 0, 0
    for args in combinations:
        done = subprocess.run([tool.path, "emit", "-f", "-", *args], input=USER_FILE.encode(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        if done.returncode != 0:
            refused += 1
            continue
        found = tool.findings("-", stdin=done.stdout)
        check(not found, "emit %s:\n%s\n%s" % (" ".join(args), show(found), USER_FILE))
        clean += 1
    check(clean >= 40, "%d emitted, %d refused" % (clean, refused))


def rewritten_manifests_are_better(tool):
    """What rewrite makes of an etcd keeps no fault of the store, and brings no new one."""
    folder = os.path.join(SHARED, "spec", "examples", "oke")
    if not os.path.isdir(folder):
        return "skip: ../shared is not there"
    for name in ("rewrite-volcano-in.yaml", "rewrite-pytorchjob-in.yaml"):
        path = os.path.join(folder, name)
        before = {f["rule"] for f in tool.findings(path)}
        for backend in ("c10d", "etcd-v2"):
            done = subprocess.run([tool.path, "rewrite", "--backend", backend, path],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
            check(done.returncode == 0, "rewrite --backend %s %s: %s" % (
                backend, name, done.stderr.decode()))
            found = tool.findings("-", stdin=done.stdout)
            after = {f["rule"] for f in found}
            check(after < before and not [r for r in after if r.startswith(("etcd-", "store-"))],
                  "%s, %s: new %s:\n%s" % (name, backend, after - before, show(found)))
    return None


def several_files_are_one_bundle(tool):
    """check gives the same findings for a store and a job in two files as in one file."""
    text = read(os.path.join(CORPUS, "endpoint-port.bad.yaml"))
    at = text.rindex("---\n")
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, n) for n in ("store.yaml", "job.yaml")]
        for path, part in zip(paths, (text[:at], text[at + 4:])):
            with open(path, "w", encoding="utf-8") as f:
                f.write(part)
        found = tool.findings(*paths)
        check([(f["rule"], f["file"]) for f in found] == [("rdzv-endpoint-port", paths[1])],
              show(found))
        check(part.split("\n")[found[0]["line"] - 1].strip().startswith("value: train-rdzv:29500"),
              show(found))
        # Alone the job's endpoint leads nowhere that is known: nothing can be said of its port.
        check(not [f for f in tool.findings(paths[1]) if f["rule"] == "rdzv-endpoint-port"], "alone")
        found = tool.findings(paths[0], "-", stdin=text[at + 4:].encode())
        check([(f["rule"], f["file"]) for f in found] == [("rdzv-endpoint-port", "<stdin>")],
              show(found))


def lists_are_opened(tool):
    """`kind: List`, as kubectl prints it, in JSON too."""
    item = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"},
            "spec": {"storageClassName": "nil", "accessModes": ["ReadWriteOnce"]}}
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [item]}, indent=2)
    found = tool.findings("-", stdin=text.encode())
    check([f["rule"] for f in found] == ["storage-class-nil"], show(found))
    check('"nil"' in text.split("\n")[found[0]["line"] - 1], show(found))


def live(kind, name, api, spec, owner=None, **meta):
    """An object as a cluster prints it; of an owner, (kind, name, API, uid), that is its controller."""
    meta.update(name=name, namespace="ml", uid="%s-%s" % (kind, name))
    if owner:
        meta["ownerReferences"] = [{"apiVersion": owner[2], "kind": owner[0], "name": owner[1],
                                    "uid": owner[3], "controller": True}]
    return {"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec}


def uid_of(kind, name, api, uid=None):
    return kind, name, api, uid or "%s-%s" % (kind, name)


TORCHRUN = ["torchrun", "--nnodes=4", "--rdzv_backend=c10d", "--rdzv_endpoint=store.infra.svc:29400",
            "--rdzv_conf=is_host=0", "--rdzv_id=js-x", "--max-restarts=3",
            "--local-addr=$(IP)", "train.py"]
ADDRESS = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
JOBSET, BATCH = "jobset.x-k8s.io/v1alpha2", "batch/v1"


def pod_spec(**more):
    return dict({"restartPolicy": "OnFailure", "enableServiceLinks": False, "containers": [
        {"name": "t", "image": "x:1", "command": TORCHRUN, "env": ADDRESS}]}, **more)


def job_spec():
    return {"parallelism": 4, "completions": 4, "completionMode": "Indexed", "template": {"spec": pod_spec()}}


def live_jobset(name="js"):
    """A JobSet with the objects that its controller and the controller of its Job have created."""
    top, job = uid_of("JobSet", name, JOBSET), uid_of("Job", name + "-w-0", BATCH)
    labels = {"jobset.sigs.k8s.io/jobset-name": name}
    network = {"publishNotReadyAddresses": True, "enableDNSHostnames": True}
    return [
        live("JobSet", name, JOBSET, {"network": network, "replicatedJobs": [
            {"name": "w", "replicas": 1, "template": {"spec": job_spec()}}]}),
        live("Service", name, "v1", {"clusterIP": "None", "publishNotReadyAddresses": True,
                                     "selector": labels}, top),
        live("Job", name + "-w-0", BATCH, job_spec(), top, labels=labels),
        *[live("Pod", "%s-w-0-%d-abcde" % (name, i), "v1", pod_spec(), job, labels=labels) for i in range(4)]]


def what_controllers_made_is_no_second_job(tool):
    """The Pods, Jobs and Services in the output of `kubectl get` that belong to a job beside them."""
    def rules(objects):
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        return sorted(f["rule"] for f in tool.findings("-", stdin=text.encode()))

    jobset, service, job, *pods = whole = live_jobset()
    for name, objects in {"all": whole, "in another order": whole[::-1], "without the Job": [jobset, *pods],
                          "without the JobSet": [job, *pods], "Pods alone": pods}.items():
        check(rules(objects) == [], "%s: %s" % (name, rules(objects)))
    _, _, err = tool.run("-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": whole}).encode())
    check("in 1 object, without 6 that controllers made of them" in err, err)

    # What belongs to another object is judged as before.
    for owner in uid_of("JobSet", "js", JOBSET, "deleted"), uid_of("Other", "js", "x.io/v1"):
        beside = live("Service", "js", "v1", service["spec"], owner)
        both = {"apiVersion": "v1", "kind": "List", "items": [jobset, beside]}
        _, _, err = tool.run("-", stdin=json.dumps(both).encode())
        check("in 2 objects" in err, err)
    other = live("Pod", "other-0", "v1", pod_spec(), uid_of("Job", "other", BATCH))
    check(rules([jobset, other]) == ["rdzv-id-shared"], rules([jobset, other]))
    check(rules([pods[0], other]) == ["rdzv-id-shared"], rules([pods[0], other]))

    # Of a TrainJob whose runtime is in the cluster, only the JobSet shows what its pods are.
    train = live("TrainJob", "js", "trainer.kubeflow.org/v1alpha1", {"runtimeRef": {"name": "torch"}})
    wrong = live("JobSet", "js", JOBSET, json.loads(json.dumps(jobset["spec"]).replace("is_host=0", "is_host=x")),
                 uid_of("TrainJob", "js", "trainer.kubeflow.org/v1alpha1"))
    check(rules([train, wrong]) == rules([wrong]) != [], rules([train, wrong]))
    # Of a kind that check does not know, too, unless it has the containers.
    mine = uid_of("Mine", "js", "x.io/v1")
    wrong["metadata"]["ownerReferences"][0].update(kind="Mine", apiVersion="x.io/v1", uid=mine[3])
    check(rules([live("Mine", "js", "x.io/v1", {"image": "x:1"}), wrong]) != [], "a kind without containers")
    cron = live("CronJob", "js", BATCH, {"jobTemplate": {"spec": job_spec()}})
    run = live("Job", "js-29000000", BATCH, job_spec(), uid_of("CronJob", "js", BATCH))
    check(rules([cron, run]) == rules([cron]), rules([cron, run]))


def policies_that_may_admit_are_left_alone(tool):
    """store-blocked is silent as long as something in the files, or outside of them, may let the agents through."""
    text = read(os.path.join(CORPUS, "policy-all.bad.yaml")).split("  # expect")[0]
    rest = read(os.path.join(CORPUS, "policy-all.bad.yaml"))[len(text):].split("\n", 1)[1].split("---\n", 1)[1]

    def count(spec, more="", job=rest):
        policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
                  "metadata": {"name": "p", "namespace": "ml"}, "spec": dict({"podSelector": {}}, **spec)}
        return len(tool.findings("--rule", "store-blocked", "-",
                                 stdin=(json.dumps(policy) + "\n---\n" + more + job).encode()))

    agents = {"podSelector": {"matchLabels": {"batch.kubernetes.io/job-name": "train"}}}
    other = {"podSelector": {"matchLabels": {"app": "x"}}}
    space = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ml"}}}
    dns = {"ports": [{"port": 53, "protocol": "UDP"}]}
    for spec, want in [
            ({}, 1), ({"ingress": []}, 1), ({"ingress": [{}]}, 0), ({"ingress": [{"from": []}]}, 0),
            ({"ingress": [{"from": [other]}]}, 1), ({"ingress": [{"from": [other, agents]}]}, 0),
            ({"ingress": [{"from": [dict(other, **space)]}]}, 1), ({"ingress": [{"from": [space]}]}, 0),
            ({"ingress": [{"from": [dict(agents, namespaceSelector={"matchLabels": {"team": "a"}})]}]}, 0),
            ({"ingress": [{"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "x"}}}]}]}, 1),
            ({"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}, 0),
            ({"ingress": [{"ports": [{"port": 29000, "endPort": 29500}]}]}, 0),
            ({"ingress": [{"ports": [{"port": 29400, "protocol": "UDP"}]}]}, 1),
            ({"ingress": [{"ports": [{"port": "c10d"}]}]}, 0), ({"ingress": [{"ports": [{"port": "web"}]}]}, 1),
            ({"ingress": [{"from": [{"podSelector": {"matchLabels": {"kueue.x-k8s.io/queue-name": "q"}}}]}]}, 0),
            ({"ingress": [{"from": [{"podSelector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "1"}}}]}]}, 0),
            # Only some pods of the job are closed, or none: nobody can see which.
            ({"podSelector": {"matchLabels": {"apps.kubernetes.io/pod-index": "0"}}}, 0),
            ({"podSelector": {"matchLabels": {"app": "x"}}}, 0),
            # The way out: to the store, and to DNS.
            ({"policyTypes": ["Egress"]}, 1), ({"policyTypes": ["Egress"], "egress": [{}]}, 0),
            ({"policyTypes": ["Ingress"], "ingress": [{}], "egress": [dns]}, 0), ({"ingress": [{}], "egress": [dns]}, 1),
            ({"policyTypes": ["Egress"], "egress": [dns, {"to": [{"podSelector": {}}]}]}, 0),
            ({"policyTypes": ["Egress"], "egress": [{"to": [{"podSelector": {}}]}]}, 1),
            ({"policyTypes": ["Egress"], "egress": [{"to": [space]}]}, 1),
            ({"policyTypes": ["Egress"], "egress": [{"to": [{"namespaceSelector": {}}]}]}, 0),
            ({"policyTypes": ["Egress"], "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}, 0)]:
        check(count(spec) == want, "%s: %d, and not %d" % (json.dumps(spec), count(spec), want))
    # What adds to it: policies of other kinds, and those that a template fills in.
    check(count({}, "{apiVersion: cilium.io/v2, kind: CiliumNetworkPolicy, metadata: {name: c, namespace: ml}}\n---\n") == 0, "Cilium")
    check(count({}, job=rest.replace("name: train\n", "name: ${JOB_NAME}\n")) == 0, "a template")
    # Who asks no DNS: an address, or a host that the pod itself knows.
    out = {"policyTypes": ["Egress"], "egress": [{"to": [{"podSelector": {}}]}]}
    check(count(out, job=rest.replace("train-rdzv:29400", "10.0.0.1:29400")) == 0, "an address")
    check(count(out, job=rest.replace("restartPolicy: Never", "restartPolicy: Never\n      dnsPolicy: None")) == 0, "no DNS")
    # The port of a policy is that of the pods, not that of the Service.
    mapped = rest.replace("  clusterIP: None\n", "").replace("    port: 29400\n", "    port: 80\n").replace("rdzv:29400", "rdzv:80")
    for port, want in ((80, 1), (29400, 0)):
        check(count({"ingress": [{"ports": [{"port": port}]}]}, job=mapped) == want, "port %d" % port)


def names_that_may_be_elsewhere_are_left_alone(tool):
    """rdzv-endpoint-unknown: a name that is not in the files may be in the cluster."""
    text = read(os.path.join(CORPUS, "endpoint-typo.good.yaml"))
    store, job = text[:text.rindex("---\n")], text[text.rindex("---\n"):]

    def count(host, more="", job=job):
        data = store + more + job.replace("train-rdzv:29400", host + ":29400")
        return len(tool.findings("--rule", "rdzv-endpoint-unknown", "-", stdin=data.encode()))

    for host, want in (("train-rdzv", 0), ("train-rdzb", 2), ("Train-rdzv", 0), ("Train-rdzb", 2), ("train-rdzv.m1.svc", 2), ("etcd", 0), ("pretrain-store", 0),
                       ("10.0.0.7", 0), ("localhost", 0), ("$(HEAD)", 0), ("train-master-0", 0), ("train-worker-0", 0)):
        check(count(host) == want, "%s: %d findings, and not %d" % (host, count(host), want))
    used = job.replace("name: train\n", "name: other\n", 1)
    check(count("train-rdzb", used) == 0, "the store has a job")
    check(count("train-rdzb", job=job.replace("containers:", "hostAliases: [{ip: 10.0.0.7, hostnames: [train-rdzb]}]\n          containers:")) == 0,
          "a host that the pods know")
    pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: head, namespace: %s}\nspec: {containers: [{name: c, image: c}]}\n"
    check([count("head", pod % n) for n in ("ml", "other")] == [2, 0], "a Pod")
    check(count("head", pod % "ml" + "---\napiVersion: v1\nkind: Service\nmetadata: {name: head, namespace: ml}\nspec: {ports: [{port: 29400}]}\n") == 0,
          "a Pod with a Service")
    batch = "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: head, namespace: ml}\nspec: {template: {spec: {containers: [{name: c, image: c}]}}}\n"
    check([count(h, batch) for h in ("head-0", "head", "head-0.elsewhere")] == [2, 0, 0], "a pod of a Job")


def probes_know_the_paths_of_rdzvd(tool):
    """store-probe-path has the routes of the daemon, those of its listeners for metrics among them."""
    routes = re.findall(r'\{"(/[^"]*)", (ROUTE_\w+), (?:NULL|"[\w,]+"),([^{}]*)\}',
                        read(os.path.join(ROOT, "rdzv", "routes.c")))
    check(len(routes) > 15, routes)

    def faults(path, port, *more):
        container = {"name": "rdzvd", "image": "x/rdzvd:1", "readinessProbe": {"httpGet": {"path": path, "port": port}},
                     "args": ["--listen=0.0.0.0:29400", "--listen-metrics-urls=http://0.0.0.0:29401", *more]}
        text = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "s", "namespace": "ml"},
                           "spec": {"containers": [container]}})
        return tool.findings("--rule", "store-probe-path", "-", stdin=text.encode())

    for path, kind, flags in routes:
        check(not faults(path, 29400), path)
        check(bool(faults(path + "/a", 29400)) == (kind == "ROUTE_EXACT"), path + "/a")
        check(bool(faults(path + "x", 29400)) or path == "/v2/stats/", path + "x")
    store = routes[:[r[0] for r in routes].index("/rdzv/v1/monitor") + 1]
    for table, more in ((store, ()), (routes[len(store):], ("--upstream=s:29400",))):
        for path, _, flags in table:
            check(bool(faults(path, 29401, *more)) == ("ROUTE_ON_METRICS_LISTENERS" not in flags),
                  "%s at the listener for metrics of %s" % (path, more))


def options_are_those_of_rdzvd(tool):
    """rdzvd-option judges values as rdzvd does ($RDZVD), and each default is right."""
    sys.path.insert(0, os.path.join(ROOT, "rdzv", "config"))
    import settings

    def judge(words):
        pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "s%d" % i},
                 "spec": {"containers": [{"name": "r", "image": "x/rdzvd:1", "args": [word]}]}} for i, word in enumerate(words)]
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": pods})
        return {words[int(f["object"]["name"][1:])] for f in tool.findings("--rule", "rdzvd-option", "-", stdin=text.encode())}

    rows = [s for s in settings.rows() if s["kind"] != "alias"]
    check(not judge(["--%s=%s" % (s["name"], s["default"]) for s in rows if "default" in s]), "a default is refused")
    if not os.environ.get("RDZVD"):
        return None
    words = ["--%s=%s" % (s["name"], value) for s in rows if s["kind"] in ("duration", "size", "count", "choice")
             for value in ("30s", "30sec", "0", "1", "off", "auto", "none", "8MiB", "8M", "true", "yes", "silent", "1.5", "panic")]
    for word in sorted(judge(words)):
        done = subprocess.run([os.environ["RDZVD"], "--check-config", word], capture_output=True, text=True, timeout=60)
        check(done.returncode == 2, "rdzvd takes %s: %s" % (word, done.stderr))
    check(len(judge(words)) > 200, len(judge(words)))
    return None


def text_says_all(tool):
    code, out, err = tool.run(sample())
    lines = out.splitlines()
    check(code == 1, "exit code %d" % code)
    check(re.match(re.escape(sample()) + r":\d+:\d+: error: .* \[rdzv-is-host\]$", lines[0]), out)
    check(lines[1].startswith("    why:    ") and any(s.startswith("    remedy: ") for s in lines),
          out)
    check(all(len(s) <= 100 for s in lines[1:]), out)
    check(re.search(r"1 error, 0 warnings, 0 notes in 3 objects", err), err)
    code, out, err = tool.run(sample().replace(".bad.", ".good."))
    check((code, out) == (0, "") and "0 errors" in err, out + err)


def explain_says_all(tool):
    done = subprocess.run([tool.path, "explain", "rdzv-is-host"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60)
    check(done.returncode == 0 and "is_host=0" in done.stdout and "why:" in done.stdout,
          done.stdout + done.stderr)


def json_has_its_shape(tool):
    code, out, _ = tool.run("-o", "json", sample())
    root = json.loads(out)
    check(code == 1 and set(root) == {"findings", "sum"}, out)
    check(root["sum"] == {"errors": 1, "warnings": 0, "notes": 0, "objects": 3}, out)
    for f in root["findings"]:
        check(set(f) == {"rule", "severity", "file", "line", "column", "object", "message", "why",
                         "remedy"}, out)
        check(f["object"] == {"kind": "Job", "name": "train", "namespace": "ml"}, out)
        check(isinstance(f["line"], int) and isinstance(f["column"], int), out)
    code, out, _ = tool.run("-o", "json", sample().replace(".bad.", ".good."))
    check(code == 0 and json.loads(out)["findings"] == [], out)


def sarif_has_its_shape(tool):
    code, out, _ = tool.run("-o", "sarif", sample(), sample("claim"))
    root = json.loads(out)
    run = root["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    check(code == 1 and root["version"] == "2.1.0" and "sarif-2.1.0" in root["$schema"], out[:300])
    check(set(run) == {"tool", "columnKind", "results"}, sorted(run))
    check(len({r["id"] for r in rules}) == len(rules), "two rules of one id")
    for rule in rules:
        check(set(rule) == {"id", "shortDescription", "fullDescription", "help", "defaultConfiguration"}, rule)
        check(rule["defaultConfiguration"]["level"] in ("error", "warning", "note"), rule)
    check({r["ruleId"] for r in run["results"]} >= {"rdzv-is-host", "pvc-access-mode"}, out[-2000:])
    for result in run["results"]:
        check(set(result) == {"ruleId", "ruleIndex", "level", "message", "locations"}, result)
        check(rules[result["ruleIndex"]]["id"] == result["ruleId"], result)
        check(result["message"]["text"], result)
        place = result["locations"][0]["physicalLocation"]
        check("manifest/check/" in place["artifactLocation"]["uri"], place)
        check(place["region"]["startLine"] >= 1 and place["region"]["startColumn"] >= 1, place)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a b%.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(read(sample()))
        _, out, _ = tool.run("-o", "sarif", path)
        check("/a%20b%25.yaml" in out, out[-1500:])


def findings_come_in_order(tool):
    """By file as given, then by place; the same each time."""
    paths = [sample("volcano-minimum-high"), sample("overwritten"), sample()]
    found = tool.findings(*paths)
    keys = [(paths.index(f["file"]), f["line"], f["column"]) for f in found]
    check(keys == sorted(keys) and {k[0] for k in keys} == {0, 1, 2}, keys)
    check(tool.run("-o", "json", *paths) == tool.run("-o", "json", *paths), "two runs differ")


def rules_are_chosen(tool):
    path = sample("listens-loopback")  # has two
    both = ["store-listens-locally", "store-probe-loopback"]
    check(sorted(f["rule"] for f in tool.findings(path)) == both, "all")
    for one, other in (both, both[::-1]):
        check([f["rule"] for f in tool.findings("--rule", one, path)] == [one], one)
        check([f["rule"] for f in tool.findings("--rule=" + one, path)] == [one], one)
        check([f["rule"] for f in tool.findings("--ignore", one, path)] == [other], one)
    check(tool.findings("--rule", both[0], "--rule", both[1], path), "both")
    check(tool.findings(*["--ignore=" + r for r in both], path) == [], "none")
    check(tool.findings("--severity", "error", sample("probe-tcp")) == [], "a note is no error")
    check(len(tool.findings("--severity=note", sample("probe-tcp"))) == 1, "a note")


def bad_arguments(tool):
    for args, says in [
            (["--rule", "rdzv-id-fix", "x"], "did you mean rdzv-id-fixed?"),
            (["--ignore", "nothing-like-it", "x"], "list rules"),
            (["-o", "jsn", "x"], "write text, json, sarif or github"),
            (["--sverity", "error", "x"], "did you mean --severity?"),
            (["--severity", "fatal", "x"], "error, warning or note"),
            (["--severity=fatal", "-z", "x"], "-z is no option of check: see"),
            (["--target", "volcanoo=1.8", "x"], "training-operator, volcano, jobset or istio"),
            (["--target", "volcano=new", "x"], "write one like 1.8"),
            (["--target", "volcano=", "x"], "this is no version"),
            (["--rule"], "--rule needs a value"),
            ([], "no file is given")]:
        code, out, err = tool.run(*args)
        check(code == 2 and out == "" and says in err, "%s: %d %s%s" % (args, code, out, err))
    code, out, err = tool.run("no-such-file.yaml")
    check(code == 2 and out == "" and "no-such-file.yaml" in err, err)


TESTS = [faults_are_found, twins_are_clean, every_rule_has_a_case, twins_are_valid,
         readme_has_the_rules, expected_examples_are_clean, known_faults_of_the_guides,
         emitted_manifests_are_clean, rewritten_manifests_are_better, several_files_are_one_bundle,
         lists_are_opened, policies_that_may_admit_are_left_alone, names_that_may_be_elsewhere_are_left_alone, probes_know_the_paths_of_rdzvd, options_are_those_of_rdzvd, what_controllers_made_is_no_second_job, text_says_all, explain_says_all,
         json_has_its_shape, sarif_has_its_shape, findings_come_in_order, rules_are_chosen,
         bad_arguments, unusable_input, no_manifest, huge_input, cost_grows_with_the_file, nothing_to_find, odd_objects]


def find_tool():
    for build in ("build-test/gcc", "build"):
        path = os.path.join(ROOT, build, "deploy", "rdzv-manifest")
        if os.path.exists(path):
            return path
    sys.exit("check.py: no rdzv-manifest: build it, or name it with --tool or $RDZV_MANIFEST")


def chosen(words):
    """(names of tests, cases of the corpus) that the words ask for; no words ask for all."""
    tests, cases = {test.__name__ for test in TESTS}, set(names())
    unknown = sorted(set(words) - tests - cases)
    if unknown:
        sys.exit("check.py: neither a test nor a case of the corpus: " + ", ".join(unknown))
    wanted, picked = tests & set(words), cases & set(words)
    if picked:
        wanted |= {faults_are_found.__name__, twins_are_clean.__name__}
    return wanted or tests, sorted(picked or cases)


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--tool", default=os.environ.get("RDZV_MANIFEST"))
    ap.add_argument("tests", nargs="*", metavar="TEST | CASE")
    ap.add_argument("--update", action="store_true")
    args = ap.parse_args()
    wanted, cases = chosen(args.tests)
    tool = Tool(os.path.abspath(args.tool) if args.tool else find_tool(), cases)
    passed, failed, skipped = 0, [], 0
    if args.update:
        update_readme(tool)
    for test in TESTS:
        if test.__name__ not in wanted:
            continue
        try:
            said = test(tool)
        except (AssertionError, subprocess.TimeoutExpired) as err:
            failed.append(test.__name__)
            print("FAIL %s: %s\n    again: %s %s" % (test.__name__, err, sys.argv[0],
                                                    test.__name__))
            continue
        if said:
            skipped += 1
            print("%s: %s" % (said, test.__name__))
        else:
            passed += 1
            print("ok %s" % test.__name__)
    print("%d passed, %d failed, %d skipped" % (passed, len(failed), skipped))
    return 1 if failed or passed + skipped == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
