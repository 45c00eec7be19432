#!/usr/bin/env python3
"""rdzv-manifest in the places where people run it: check over a repository and in CI, rewrite behind helm and
kustomize and before kubectl, import, and editors.

    workflows.py [TEST...]

The tool is $RDZV_MANIFEST, else the one in build/. Needs python3-yaml and python3-jsonschema.
"""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import traceback

import yaml

from workflow_import import (
    import_compares_what_numbers_come_to, import_gives_the_job_back, import_gives_the_store_back,
    import_leaves_the_old_rendezvous, import_says_what_plain_pods_need, import_takes_public_jobs)
from workflow_meaning import each_loss_is_a_difference, what_import_says_is_true
from workflow_tool import ETCD, NODES, PLAIN, Skip, TOOL, TRAIN, check, findings, put, rules, run

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


# ---- check

def repository(folder):
    put(folder, "jobs/train.yaml", NODES)
    put(folder, "jobs/deep/er/other.yml", NODES.replace("name: train", "name: other"))
    put(folder, "jobs/kustomization.yaml", "resources: [train.yaml]\n")
    put(folder, "jobs/overlay/patch.yaml",
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [../]\n")
    put(folder, "chart/values.yaml", "image: t:1\nnodes: 2\n")
    put(folder, "chart/templates/job.yaml", "metadata:\n  name: {{ .Values.name }}\n{{- if .Values.x }}\n{{ end }}\n")
    put(folder, "docker-compose.yml", "services: {etcd: {image: etcd}}\n")
    put(folder, "package.json", "// with a comment\n{}\n")
    put(folder, ".github/workflows/ci.yaml", "on: push\n")
    put(folder, "notes.txt", "apiVersion: none\n")
    os.symlink("..", os.path.join(folder, "jobs", "up"))


def folders_are_read():
    """All manifests below a folder; files that hold no objects are counted; a link to a folder is no circle."""
    with tempfile.TemporaryDirectory() as folder:
        repository(folder)
        found, err = findings(".", cwd=folder)
        files = sorted({f["file"] for f in found})
        check(files == ["./jobs/deep/er/other.yml", "./jobs/train.yaml"], repr(files))
        check("rdzv-id-missing" in rules(found), repr(rules(found)))
        check("skipped 6 files without objects: 1 template (render it first), 2 kustomizations, 3 others" in err, err)
        # The same as one by one: one bundle, each file once although a folder has it, too.
        named = ["jobs/train.yaml", "jobs/deep/er/other.yml"]
        again, _ = findings(*named, "jobs", cwd=folder)
        check(len(again) == len(found), "%d, not %d" % (len(again), len(found)))
        check(rules(findings(*named, cwd=folder)[0]) == rules(found), "as files")
        # What somebody names is meant: there, the same file is an error.
        _, err = run("check", "chart/values.yaml", cwd=folder, code=2)
        check("this is no Kubernetes object" in err, err)
        _, err = run("check", "chart", cwd=folder, code=2)
        check("no file of chart holds a Kubernetes object" in err, err)
        os.mkdir(os.path.join(folder, "empty"))
        _, err = run("check", "empty", cwd=folder, code=2)
        check("no .yaml, .yml or .json in this folder" in err, err)
        # Half a manifest among whole ones is not skipped, nor is broken YAML.
        put(folder, "jobs/half.yaml", NODES + "---\nkind: Service\n")
        _, err = run("check", "jobs", cwd=folder, code=2)
        check(re.search(r"^jobs/half.yaml:\d+:1: this is no Kubernetes object, it has no apiVersion", err, re.M), err)
        put(folder, "jobs/half.yaml", "apiVersion: [\n")
        out, err = run("check", "-o", "json", "jobs", cwd=folder, code=2)
        check(err.startswith("jobs/half.yaml:") or "\njobs/half.yaml:" in err, err)
        check(len(json.loads(out)["findings"]) == len(found), "the other files")
        run("check", "--exclude", "jobs/half*", "jobs", cwd=folder, code=1)


def files_of_a_folder_are_no_bundle():
    """Two sizes of a job have what each has alone; what a kustomization lists as a patch is no object."""
    hosted = NODES.replace("store.infra:29400", "train-0.train:29400").replace("    spec:\n", "    spec:\n      subdomain: train\n", 1)
    hosted = ("apiVersion: v1\nkind: Service\nmetadata: {name: train, namespace: ml}\nspec: {clusterIP: None, "
              "publishNotReadyAddresses: true, selector: {job-name: train}, ports: [{port: 29400}]}\n---\n" + hosted)
    patch = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: train, namespace: ml}\nspec: {backoffLimit: 3}\n"
    with tempfile.TemporaryDirectory() as folder:
        put(folder, "small.yaml", hosted)
        put(folder, "large/job.yaml", hosted.replace("nnodes=2", "nnodes=8"))
        put(folder, "over/set.yaml", patch)
        put(folder, "over/kustomization.yaml", "resources: [../small.yaml]\npatches: [{path: ./set.yaml}]\n")
        put(folder, "over/more/kustomization.yml", "patchesStrategicMerge: [../old.yaml]\n")
        put(folder, "over/old.yaml", patch)
        together = sorted((f["file"], f["rule"]) for f in findings(".", cwd=folder)[0])
        alone = sorted((f["file"], f["rule"]) for name in ("./small.yaml", "./large/job.yaml")
                       for f in findings(name, cwd=folder)[0])
        check(together == alone and alone, "%s, and alone %s" % (together, alone))
        named = rules(findings("small.yaml", "large/job.yaml", cwd=folder)[0])
        check("duplicate-object" in named, repr(named))


def config_is_read():
    """The file of the current folder, or the one that is named; the command line wins."""
    with tempfile.TemporaryDirectory() as folder:
        repository(folder)
        all_rules = rules(findings("jobs", cwd=folder)[0])
        check(len(all_rules) > 1, repr(all_rules))
        put(folder, ".rdzv-check.yaml", "ignore: [rdzv-id-missing]\nexclude: ['*/deep']\nfiles: [jobs]\n")
        found, _ = findings(cwd=folder)
        check(rules(found) == [r for r in all_rules if r != "rdzv-id-missing"] and
              {f["file"] for f in found} == {"jobs/train.yaml"}, repr(found))
        check({f["file"] for f in findings("jobs/deep", cwd=folder)[0]} == {"jobs/deep/er/other.yml"}, "other files")
        check(rules(findings("--no-config", "jobs", cwd=folder)[0]) == all_rules, "without")
        put(folder, "ci.yaml", "rules: [rdzv-id-missing]\nseverity: error\noutput: github\ntargets: [volcano=1.8]\n")
        out, _ = run("check", "--config", "ci.yaml", "jobs", cwd=folder, code=1)
        check(out.startswith(b"::error file=jobs/deep/er/other.yml,line="), out.decode())
        out, _ = run("check", "--config=ci.yaml", "-o", "json", "--rule=volcano-min-zero", "jobs", cwd=folder, code=1)
        check(rules(json.loads(out)["findings"]) == ["rdzv-id-missing"], "rules of both")
        for text, said in (("ignores: []\n", "1:1: ignores: there is no such key: did you mean ignore?"),
                           ("ignore: [rdzv-id-mising]\n", "1:10: there is no rule rdzv-id-mising: did you mean"),
                           ("ignore: x\n", "1:9: ignore: a list is expected"),
                           ("severity: [x]\n", "1:11: severity: a word is expected"),
                           ("targets: [k8s]\n", "1:11: there is no target k8s"),
                           ("- a\n", "1:1: one document"), ("rules: [[]]\n", "1:9: rules: a list of words")):
            put(folder, "ci.yaml", text)
            _, err = run("check", "--config", "ci.yaml", "jobs", cwd=folder, code=2)
            check(err.startswith("ci.yaml:" + said), "%r: %s" % (text, err))
        _, err = run("check", "--config", "none.yaml", "jobs", cwd=folder, code=2)
        check("none.yaml" in err, err)


def objects_ignore_rules():
    """rdzv.dev/ignore leaves out what it names, at its object alone; a name that is no rule is said."""
    with tempfile.TemporaryDirectory() as folder:
        put(folder, "a.yaml", NODES)
        before = rules(findings("a.yaml", cwd=folder)[0])
        note = "  annotations: {rdzv.dev/ignore: 'rdzv-id-missing, rdzv-id-fixed'}\nspec:\n  comp"
        put(folder, "a.yaml", NODES.replace("spec:\n  comp", note, 1) + "---\n" + NODES.replace("train", "other"))
        found, err = findings("a.yaml", cwd=folder)
        mine = rules([f for f in found if f["object"]["name"] == "train"])
        check(mine == [r for r in before if r != "rdzv-id-missing"], repr(mine))
        check("rdzv-id-missing" in rules([f for f in found if f["object"]["name"] == "other"]), "the other")
        check("1 more left out by rdzv.dev/ignore" in err, err)
        put(folder, "a.yaml", NODES.replace("spec:\n  comp", note.replace("rdzv-id-missing", "rdzv-id-mising"), 1))
        found, err = findings("a.yaml", cwd=folder)
        check("rdzv-id-missing" in rules(found) and "a.yaml:5:34: note: rdzv.dev/ignore: there is no rule "
              "rdzv-id-mising: did you mean rdzv-id-missing" in err, err)
        # The annotation of an AppWrapper applies to all objects inside; every finding is ignored: exit 0.
        inner = "\n".join("      " + line for line in NODES.split("\n"))
        wrapper = ("apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nmetadata:\n  name: w\n"
                   "  annotations:\n    rdzv.dev/ignore: %s\nspec:\n  components:\n  - template:\n%s" % (
                       ",".join(before), inner))
        put(folder, "w.yaml", wrapper)
        run("check", "w.yaml", cwd=folder, code=0)


def github_annotations():
    """One command for each finding; what would end a command or a property is escaped."""
    with tempfile.TemporaryDirectory() as folder:
        put(folder, "a,b:c%.yaml", NODES)
        out, _ = run("check", "-o", "github", "a,b:c%.yaml", cwd=folder, code=1)
        found, _ = findings("a,b:c%.yaml", cwd=folder)
        lines = out.decode().rstrip("\n").split("\n")
        check(len(lines) == len(found), out.decode())
        for line, f in zip(lines, found):
            m = re.fullmatch(r"::(error|warning|notice) file=a%2Cb%3Ac%25.yaml,line=(\d+),col=(\d+),"
                             r"title=([a-z0-9-]+)::(.+)", line)
            check(m and m.group(1) == {"note": "notice"}.get(f["severity"], f["severity"]) and
                  (int(m.group(2)), int(m.group(3)), m.group(4)) == (f["line"], f["column"], f["rule"]) and
                  m.group(5).startswith(f["message"].replace("%", "%25")), line)


def sarif_is_for_code_scanning():
    """What the standard (SARIF 2.1.0, 3.4, 3.11, 3.27, 3.30, 3.49) and code scanning ask for: URIs relative to the root,
    help for each rule, levels, indexes that lead to the rule. No rule has a page of its own, so nothing names one."""
    with tempfile.TemporaryDirectory() as folder:
        folder = os.path.realpath(folder)
        repository(folder)
        out, _ = run("check", "-o", "sarif", "jobs", cwd=folder, code=1)
        absolute, _ = run("check", "-o", "sarif", os.path.join(folder, "jobs"), cwd=folder, code=1)
        check(json.loads(out) == json.loads(absolute), "absolute paths below the folder are not the same")
        log = json.loads(out)
        check(log["version"] == "2.1.0" and len(log["runs"]) == 1, "head")
        driver = log["runs"][0]["tool"]["driver"]
        check("informationUri" not in driver and not any("helpUri" in r for r in driver["rules"]), repr(driver)[:3000])
        for rule in driver["rules"]:
            check(rule["shortDescription"]["text"] and rule["help"]["text"] and
                  rule["defaultConfiguration"]["level"] in ("error", "warning", "note"), repr(rule))
        results = log["runs"][0]["results"]
        check(results, "nothing")
        for result in results:
            check(driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"], repr(result))
            check(result["level"] in ("error", "warning", "note") and result["message"]["text"], repr(result))
            place = result["locations"][0]["physicalLocation"]
            uri = place["artifactLocation"]
            check(uri["uri"] in ("jobs/train.yaml", "jobs/deep/er/other.yml") and
                  uri["uriBaseId"] == "%SRCROOT%", repr(uri))
            check(place["region"]["startLine"] >= 1 and place["region"]["startColumn"] >= 1, repr(place))
        put(folder, "x y.yaml", NODES)
        out, _ = run("check", "-o", "sarif", "../%s/x y.yaml" % os.path.basename(folder), "./jobs", cwd=folder, code=1)
        uris = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
                for r in json.loads(out)["runs"][0]["results"]}
        check("../%s/x%%20y.yaml" % os.path.basename(folder) in uris and "jobs/train.yaml" in uris, repr(uris))
        elsewhere, _ = run("check", "-o", "sarif", os.path.join(folder, "jobs"), cwd="/", code=1)
        uri = json.loads(elsewhere)["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
        check(uri == {"uri": "file://" + folder + "/jobs/deep/er/other.yml"}, repr(uri))


def exit_codes_are_for_pipes():
    """0 although there is nothing to rewrite, and the output is the input; --exit-code for scripts."""
    out, err = run("rewrite", "-", stdin=PLAIN.encode(), code=0)
    check(out == PLAIN.encode() and "nothing to rewrite" in err, err)
    run("rewrite", "--exit-code", "-", stdin=PLAIN.encode(), code=1)
    run("rewrite", "--exit-code", "-", stdin=(ETCD + "---\n" + TRAIN).encode(), code=0)
    # helm's post-renderer gets no file, and pipes what it rendered.
    out, _ = run("rewrite", stdin=(ETCD + "---\n" + TRAIN).encode(), code=0)
    check(b"kind: StatefulSet" in out and b"rdzvBackend: c10d" in out, out.decode())
    # Nobody types a manifest.
    leader, terminal = pty.openpty()
    done = subprocess.run([TOOL, "rewrite"], stdin=terminal, capture_output=True, timeout=60)
    os.close(leader)
    os.close(terminal)
    check(done.returncode == 2 and b"no file is given" in done.stderr, done.stderr.decode())


def diff_writes_nothing():
    with tempfile.TemporaryDirectory() as folder:
        put(folder, "all.yaml", ETCD + "---\n" + TRAIN)
        for flags in (["--diff"], ["--diff", "--in-place"], ["--plan", "--in-place"]):
            out, _ = run("rewrite", *flags, "all.yaml", cwd=folder, code=0)
            with open(os.path.join(folder, "all.yaml"), encoding="utf-8") as f:
                check(f.read() == ETCD + "---\n" + TRAIN and os.listdir(folder) == ["all.yaml"], repr(flags))
        out, _ = run("rewrite", "--diff", "all.yaml", cwd=folder, code=0)
        subprocess.run(["patch", "-p0"], input=out, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(folder, "all.yaml"), "rb") as f:
            patched = f.read()
        whole, _ = run("rewrite", "-", stdin=(ETCD + "---\n" + TRAIN).encode(), code=0)
        check(patched == whole, "the diff and the file differ")


def plan_is_in_order():
    """What ends first, what no apply can change, the files, and what to wait for; what is the same is not in it."""
    with tempfile.TemporaryDirectory() as folder:
        put(folder, "all.yaml", ETCD + "---\n" + TRAIN + "---\n" + PLAIN)
        out, _ = run("rewrite", "--plan", "all.yaml", cwd=folder, code=0)
        commands = [line for line in out.decode().split("\n") if line and not line.startswith("#")]
        check(commands == ["kubectl delete pytorchjob.kubeflow.org/train -n ml", "kubectl delete pod/etcd-server -n ml",
                           "kubectl apply -f all.yaml", "kubectl rollout status statefulset.apps/etcd-server -n ml"],
              "\n".join(commands))
        # The manifests of the jobs stay unchanged, but the new store is empty: the plan also restarts the jobs.
        out, _ = run("rewrite", "--plan", "--keep-backend", "all.yaml", cwd=folder, code=0)
        check(b"kubectl delete pytorchjob.kubeflow.org/train -n ml\n" in out and
              out.index(b"pytorchjob") < out.index(b"pod/etcd-server") < out.index(b"kubectl apply"), out.decode())
        out, _ = run("rewrite", "--plan", stdin=(ETCD.replace("kind: Pod", "kind: Pod # it's") + "---\n" + TRAIN.replace(
            "name: train,", "name: \"t'$(x)\",")).encode(), code=0)
        check(b"kubectl delete 'pytorchjob.kubeflow.org/t'\\''$(x)' -n ml\n" in out and
              b"kubectl apply -f -\n" in out, out.decode())
    out, _ = run("rewrite", "--plan", stdin=PLAIN.encode(), code=0)
    check(out == b"# The files need no changes.\n", out.decode())
    # Nor can this one be changed.
    with open(os.path.join(HERE, "wild", "etcd-of-a-controller.yaml"), "rb") as f:
        out, _ = run("rewrite", "--plan", stdin=f.read(), code=0)
    check(b"kubectl delete elasticjob.elastic.pytorch.org/train\n" in out, out.decode())


def resource_lists_are_functions():
    """A ResourceList in, one out: items changed, results in the words of the notes, options from functionConfig."""
    items = [d for d in yaml.safe_load_all(ETCD + "---\n" + TRAIN) if d]
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "f"}, "data": {
        "image": "registry.example/mine/rdzvd:7", "rdzv": "relay", "metrics": "annotations", "set": "rdzv.priority=high,rdzv.nodeSelector.pool=cpu"}}
    whole = {"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": items, "functionConfig": config}
    for text in (yaml.safe_dump(whole), yaml.safe_dump(whole, sort_keys=False), json.dumps(whole), json.dumps(whole, indent=1),
                 yaml.safe_dump(whole).rstrip("\n") + " # the end", yaml.safe_dump(whole).replace("\n", "\r\n"),
                 # As kpt writes a file that begins with a comment.
                 yaml.safe_dump(whole).replace("\n- apiVersion", "\n- # mine -\n\n  # - more: # it\n  apiVersion")):
        out, _ = run("rewrite", stdin=text.encode(), code=0)
        got = yaml.safe_load(out)
        if text[0] == "{":
            json.loads(out)
        kinds = [i["kind"] for i in got["items"]]
        check(got["kind"] == "ResourceList" and got["functionConfig"] == config and "StatefulSet" in kinds and
              "Pod" not in kinds, repr(kinds))
        check("registry.example/mine/rdzvd:7" in repr(got["items"]) and "--upstream=" in repr(got["items"]) and
              "prometheus.io/scrape" in repr(got["items"]) and "'pool': 'cpu'" in repr(got["items"]) and
              "'priorityClassName': 'high'" in repr(got["items"]), "options")
        check(out.count(b"# mine -") == text.count("# mine -"), "the comments of objects")
        check(got["results"] and all(set(r) <= {"message", "severity", "resourceRef"} and r["severity"] == "info" and
                                     r["message"] for r in got["results"]), repr(got.get("results")))
        refs = [r["resourceRef"] for r in got["results"] if "resourceRef" in r]
        check({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "train", "namespace": "ml"} in refs, repr(refs))
        # Once more: nothing is left to do, and the results of the first stay alone.
        again, _ = run("rewrite", stdin=out, code=0)
        check(yaml.safe_load(again) == got, "again")
    bad = dict(whole, functionConfig=dict(config, data={"imag": "x"}))
    out, err = run("rewrite", stdin=yaml.safe_dump(bad).encode(), code=2)
    got = yaml.safe_load(out)
    check(got["items"] == items and [r["severity"] for r in got["results"]] == ["error"] and
          "functionConfig takes" in got["results"][0]["message"] and "imag" in err, out.decode()[-500:])
    bad = dict(whole, functionConfig=dict(config, data={"rdzv": "sidecar"}))
    _, err = run("rewrite", stdin=yaml.safe_dump(bad).encode(), code=2)
    check("rdzv of functionConfig: write service, relay or replicas" in err, err)
    for wrong, says in (("rdzv.priority", "--set rdzv.priority"), ("numPods=3", "rewrite makes no job"), (["a=b"], "set: functionConfig")):
        bad = dict(whole, functionConfig=dict(config, data={"set": wrong}))
        out, err = run("rewrite", stdin=yaml.safe_dump(bad).encode(), code=2)
        check(yaml.safe_load(out)["items"] == items and says in err, err)


KUSTOMIZE = os.path.join(ROOT, "deploy", "kustomize")


def load_example(name):
    with open(os.path.join(KUSTOMIZE, name), encoding="utf-8") as f:
        return [d for d in yaml.safe_load_all(f) if d]


def with_tool(folder):
    """The environment of a user who has rdzv-manifest in the PATH."""
    os.symlink(TOOL, os.path.join(folder, "rdzv-manifest"))
    return dict(os.environ, PATH=folder + ":" + os.environ["PATH"])


def check_rewritten_example(objects):
    by_kind = {o["kind"]: o for o in objects}
    store = by_kind["StatefulSet"]["spec"]["template"]["spec"]
    check(store["priorityClassName"] == "high" and store["nodeSelector"] == {"pool": "cpu"} and
          store["containers"][0]["image"] == load_example("rdzv.yaml")[0]["spec"]["image"], repr(store))
    check("--rdzv_endpoint=localhost:29400" in repr(by_kind["Job"]) and "relay" in repr(by_kind["Job"]), repr(by_kind["Job"]))


def the_kustomization_runs_rewrite_and_check():
    """The files of deploy/kustomize, run as kustomize runs a function: the program without arguments, in their folder,
    with the objects and the transformer or validator in one ResourceList; and by a kustomize of the path, if there is one."""
    kustomization = load_example("kustomization.yaml")[0]
    items = [o for name in kustomization["resources"] for o in load_example(name)]
    with tempfile.TemporaryDirectory() as path:
        environment = with_tool(path)

        def run_function(name, items, code=0):
            config = load_example(name)[0]
            program = yaml.safe_load(config["metadata"]["annotations"]["config.kubernetes.io/function"])["exec"]["path"]
            done = subprocess.run([program], cwd=KUSTOMIZE, env=environment, capture_output=True, text=True, check=False, input=yaml.safe_dump(
                {"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": items, "functionConfig": config}))
            check(done.returncode == code, "%d: %s" % (done.returncode, done.stderr))
            return yaml.safe_load(done.stdout)["items"] if code == 0 else done.stderr

        (transformer,), (validator,) = kustomization["transformers"], kustomization["validators"]
        check("[rdzv-hosted-by-worker]" in run_function(validator, items, code=1), "the job as it was has no finding")
        rewritten = run_function(transformer, items)
        check_rewritten_example(rewritten)
        check(run_function(validator, rewritten) == rewritten, "a validator may change nothing")
        if shutil.which("kustomize"):
            done = subprocess.run(["kustomize", "build", "--enable-alpha-plugins", "--enable-exec", "."], cwd=KUSTOMIZE, env=environment,
                                  capture_output=True, text=True, check=False)
            check(done.returncode == 0, done.stderr)
            check_rewritten_example(yaml.safe_load_all(done.stdout))


def kpt_rewrites_the_files_of_a_folder():
    if not shutil.which("kpt"):
        raise Skip("there is no kpt")
    with tempfile.TemporaryDirectory() as path:
        package = shutil.copytree(KUSTOMIZE, os.path.join(path, "package"))
        done = subprocess.run(["kpt", "fn", "eval", package, "--exec", "rdzv-manifest rewrite", "--fn-config",
                               os.path.join(package, "rdzv.yaml")], env=with_tool(path), capture_output=True, text=True, check=False)
        check(done.returncode == 0, done.stderr)
        objects = []
        for name in filter(lambda name: name.endswith(".yaml"), os.listdir(package)):
            with open(os.path.join(package, name), encoding="utf-8") as f:
                objects += yaml.safe_load_all(f)
        check_rewritten_example(objects)


def stores_get_what_the_user_asks():
    """--set rdzv.* of the pod that rewrite makes, checked as emit does."""
    wishes = ["--set", "rdzv.priority=high,rdzv.imagePullSecrets[0].name=pull,rdzv.nodeSelector.pool=cpu",
              "--set", "rdzv.labels.team=vision,rdzv.serviceAccountName=store",
              "--set", "rdzv.tolerations[0].key=infra,rdzv.tolerations[0].operator=Exists,rdzv.resources.requests.memory=1Gi"]
    out, _ = run("rewrite", *wishes, stdin=(ETCD + "---\n" + TRAIN).encode(), code=0)
    store = [d for d in yaml.safe_load_all(out) if d["kind"] == "StatefulSet"][0]["spec"]["template"]
    spec = store["spec"]
    check((spec["priorityClassName"], spec["imagePullSecrets"], spec["nodeSelector"], spec["serviceAccountName"],
           spec["tolerations"]) == ("high", [{"name": "pull"}], {"pool": "cpu"}, "store",
                                    [{"key": "infra", "operator": "Exists"}]), repr(spec))
    check(store["metadata"]["labels"]["team"] == "vision" and
          spec["containers"][0]["resources"]["limits"]["memory"] == "1Gi", repr(store))
    for flag, said in (("rdzv.priorty=x", "did you mean"), ("rdzv.endpoint=a:1", "this follows from the manifests"),
                       ("jobName=x", "--set is for rdzv.* alone"), ("rdzv.nodeSelector.pool=a b", "is not the value of a label")):
        _, err = run("rewrite", "--set", flag, stdin=ETCD.encode(), code=2)
        check(said in err, "%s: %s" % (flag, err))


# ---- emit

USER = "jobName: train\ncontainerImage: b:1\nplatform: job\nnumPods: 2\nmainProgram: t.py\n"


def emit_shows_what_changes():
    """--diff FILE prints the same as diff -u between the file and the new output, and exits like diff."""
    with tempfile.TemporaryDirectory() as folder:
        put(folder, "u.yaml", USER)
        out, _ = run("emit", "-f", "u.yaml", cwd=folder, code=0)
        put(folder, "m.yaml", out.decode())
        same, _ = run("emit", "-f", "u.yaml", "--diff", "m.yaml", cwd=folder, code=0)
        check(same == b"", same.decode())
        for flags in (["--set", "numPods=70"], ["--rdzv", "relay"], ["--platform", "volcano"], ["-o", "json"],
                      ["--set", "containerImage=b:2", "--suffix", "two"]):
            diff, _ = run("emit", "-f", "u.yaml", *flags, "--diff", "m.yaml", cwd=folder, code=1)
            want, _ = run("emit", "-f", "u.yaml", *flags, cwd=folder, code=0)
            shutil.copy(os.path.join(folder, "m.yaml"), os.path.join(folder, "p.yaml"))
            subprocess.run(["patch", "p.yaml"], input=diff, cwd=folder, check=True, stdout=subprocess.DEVNULL)
            with open(os.path.join(folder, "p.yaml"), "rb") as f:
                check(f.read() == want, "%r: %s" % (flags, diff.decode()))
            put(folder, "w.yaml", want.decode())
            shortest = subprocess.run(["diff", "-u", "m.yaml", "w.yaml"], cwd=folder, capture_output=True).stdout
            edits = [sum(line[:1] in b"+-" for line in d.split(b"\n")[2:]) for d in (diff, shortest)]
            check(edits[0] <= edits[1], "%r: %d lines differ, diff finds %d" % (flags, *edits))
        run("emit", "-f", "u.yaml", "--diff", "none.yaml", cwd=folder, code=2)
        # Too long for the shortest answer, and right all the same.
        large = ["emit", "-f", "u.yaml", "--platform", "pods", "--set", "numPods=120"]
        put(folder, "m.yaml", run(*large, cwd=folder, code=0)[0].decode())
        diff, _ = run(*large, "--set", "containerImage=b:2", "--diff", "m.yaml", cwd=folder, code=1)
        subprocess.run(["patch", "m.yaml"], input=diff, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        run(*large, "--set", "containerImage=b:2", "--diff", "m.yaml", cwd=folder, code=0)


def runs_have_names():
    """A suffix is in every name that jobName is in; `hash` is the same for the same settings, and another for others."""
    out, _ = run("emit", "-f", "-", "--suffix", "r7", stdin=USER.encode(), code=0)
    names = {d["kind"]: d["metadata"]["name"] for d in yaml.safe_load_all(out)}
    check(names["Job"] == "train-r7" and names["Service"] == "train-r7-rdzv", repr(names))

    def name(*flags):
        out, _ = run("emit", "-f", "-", *flags, stdin=USER.encode(), code=0)
        return [d["metadata"]["name"] for d in yaml.safe_load_all(out) if d["kind"] == "Job"][0]

    first = name("--suffix", "hash")
    check(re.fullmatch("train-[0-9a-f]{8}", first) and name("--set", "nameSuffix=hash") == first, first)
    others = {name("--suffix", "hash", "--set", s) for s in ("numPods=3", "mainProgram=u.py", "rdzv.port=6000")}
    check(len(others) == 3 and first not in others, repr(others))
    _, err = run("emit", "-f", "-", "--suffix", "x" * 60, stdin=USER.encode(), code=2)
    check("make it shorter" in err, err)


# ---- editors

def schema_and_parser_agree():
    """What the JSON Schema refuses, emit refuses at the same setting; what emit accepts, it accepts; and the other
    way round, where emit's error is about the form of one setting."""
    try:
        import jsonschema
    except ImportError as e:
        raise Skip("python3-jsonschema is not there") from e
    sys.path.insert(0, os.path.join(HERE, "emit"))
    import walk
    schema = json.loads(run("list", "schema", code=0)[0])
    jsonschema.Draft7Validator.check_schema(schema)
    judge = jsonschema.Draft7Validator(schema)
    for name, setting in walk.SETTINGS.items():
        check(schema["properties"][name]["description"] == setting["about"], name)
    check(set(schema["properties"]) == set(walk.SETTINGS), "other settings")

    def emit(job):
        """(whether emit accepts the job, the setting with an invalid form or None, emit's messages)"""
        done = subprocess.run([TOOL, "emit", "-f", "-", "--input-format", "own"], capture_output=True,
                              input=json.dumps(job).encode(), timeout=60)
        said = [t for t in done.stderr.decode().split("\n") if t and ": note: " not in t]
        form = [m.group(1) for m in (re.search(
            r"^\S+: ([\w.-]+?)[.\[\w\]-]*: .*( is not |is too |there is no |did you mean|a .* is not)", t) for t in said) if m]
        return done.returncode == 0, form, said

    seen = {"both": 0, "neither": 0, "rule": 0}
    base = {"jobName": "train", "containerImage": "b:1", "mainProgram": "t.py", "platform": "job"}
    rng = __import__("random").Random(int(os.environ.get("RDZV_SEED", "1")))
    odd = [0, -1, 1.5, True, "", " ", "a b", "A", "-a", "x" * 64, [], {}, [None], ["a"], {"a": 1}, {"A b": "x"}, [{"name": 7}], "1e3",
           "0.0", "/a/../b", "/a:b", "1x", "90s", "$(A)", "CAP_X", "h:99999999", "[::1]:1", "yes", "50m", 10 ** 12]
    for name, setting in walk.SETTINGS.items():
        values = [walk.value(rng, setting, name) for _ in range(3)] + rng.sample(odd, 5)
        for value in values:
            job = dict(base, **{name: value})
            accepted, form, said = emit(job)
            valid = judge.is_valid(job)
            check(valid or not accepted, "%s: emit takes %r, and the schema does not" % (name, value))
            check(not valid or accepted or name not in form or isinstance(value, (bool, float, int)) or "path" in repr(said) or
                  "the id of" in repr(said), "%s: the schema takes %r, and emit does not: %s" % (name, value, said))
            if not valid:
                check(name in "\n".join(said), "%s: %r: emit complains of another setting: %s" % (name, value, said))
            seen["both" if accepted else "neither" if not valid else "rule"] += 1
    check(seen["both"] > 100 and seen["neither"] > 150, repr(seen))
    check(not judge.is_valid({"jobName": "a"}) and not judge.is_valid(dict(base, numPod=2)), "what is missing, what is not known")
    check(judge.is_valid(dict(base, queueName=None, numPods=None)), "null switches off")


def a_patch_narrows_the_node_selector():
    """A term of the user's own does not let the pods onto a node that a setting keeps them from: terms are alternatives."""
    def terms(*own):
        job = {"jobName": "a", "containerImage": "b:1", "mainProgram": "t.py", "platform": "job", "hostIgnoreList": ["broken"],
               "pod": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                   {"matchExpressions": [{"key": k, "operator": "Exists"}]} for k in own]}}}}}
        out, _ = run("emit", "-f", "-", stdin=json.dumps(job).encode(), code=0)
        pod = [d for d in yaml.safe_load_all(out) if d["kind"] == "Job"][0]["spec"]["template"]["spec"]
        found = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        return [[e["key"] for e in t["matchExpressions"]] for t in found]

    check(terms("zone") == [["kubernetes.io/hostname", "zone"]], repr(terms("zone")))
    check(terms("zone", "disk") == [["kubernetes.io/hostname", "zone"], ["kubernetes.io/hostname", "disk"]], repr(terms("zone", "disk")))


def the_story_of_a_repository():
    """deploy/README.md, A repository in CI: its files and commands, in a repository; and a change that it is to catch."""
    with open(os.path.join(ROOT, "deploy", "README.md"), encoding="utf-8") as f:
        story = re.search(r"^### A repository in CI\n(.*?)^## ", f.read(), re.M | re.S).group(1)
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", story, re.M | re.S)
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "bin"))
        os.symlink(TOOL, os.path.join(folder, "bin", "rdzv-manifest"))
        env = dict(os.environ, PATH=os.path.join(folder, "bin") + ":" + os.environ["PATH"])

        def shell(command):
            return subprocess.run(["sh", "-ec", command], cwd=folder, env=env, capture_output=True, timeout=120)

        for kind, text in blocks:
            name = re.match(r"# (\S+\.yaml)\n", text)
            if kind == "yaml":
                put(folder, name.group(1), text)
            else:
                done = shell(text)
                check(done.returncode == 0, "%s: %s" % (text, done.stderr.decode()))
        with open(os.path.join(folder, ".github/workflows/manifests.yaml"), encoding="utf-8") as f:
            steps = [s["run"] for s in yaml.safe_load(f)["jobs"]["manifests"]["steps"] if "run" in s]
        check(len(steps) == 2, repr(steps))
        for step in steps:
            done = shell(step)
            check(done.returncode == 0 and not done.stdout, "%s: %s%s" % (step, done.stdout.decode(), done.stderr.decode()))
        with open(os.path.join(folder, "deploy/train.yaml"), encoding="utf-8") as f:
            made = f.read()
        put(folder, "deploy/train.yaml", made.replace("is_host=0,", ""))
        codes = [shell(step).returncode for step in steps]
        check(codes == [1, 1], "a broken manifest: %r" % codes)
        put(folder, "deploy/train.yaml", made)
        put(folder, "jobs/train.yaml", blocks[0][1].replace("numPods: 4", "numPods: 8"))
        codes = [shell(step).returncode for step in steps]
        check(codes == [1, 0], "another user file: %r" % codes)


TESTS = [a_patch_narrows_the_node_selector, import_gives_the_job_back, import_gives_the_store_back, import_leaves_the_old_rendezvous, import_compares_what_numbers_come_to, import_says_what_plain_pods_need, import_takes_public_jobs, what_import_says_is_true, each_loss_is_a_difference, the_story_of_a_repository, schema_and_parser_agree, emit_shows_what_changes, runs_have_names, exit_codes_are_for_pipes, diff_writes_nothing, plan_is_in_order, resource_lists_are_functions,
         the_kustomization_runs_rewrite_and_check, kpt_rewrites_the_files_of_a_folder,
         stores_get_what_the_user_asks, folders_are_read, files_of_a_folder_are_no_bundle, config_is_read,
         objects_ignore_rules, github_annotations, sarif_is_for_code_scanning]


def main():
    wanted = [t for t in TESTS if t.__name__ in sys.argv[1:]] or TESTS
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for test in wanted:
        try:
            test()
            counts["passed"] += 1
        except Skip as e:
            counts["skipped"] += 1
            print("skip %s: %s" % (test.__name__, e), flush=True)
        except Exception:  # pylint: disable=broad-except
            counts["failed"] += 1
            print("FAIL %s: %s" % (test.__name__, traceback.format_exc()), flush=True)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
