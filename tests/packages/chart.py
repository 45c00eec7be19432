"""The Helm chart against rdzv-manifest: the same store, object by object, for every kind of job; and what
helm itself and the chart's own schema say.

    chart.py [NAME...]     all cases, or the cases whose name contains a NAME

helm is $HELM, else that of the path, else that of tests/support/install.sh; without one all is skipped.
rdzv-manifest is $RDZV_MANIFEST, else that of build/.
"""

import os
import shutil
import subprocess
import sys
import tempfile

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import cases  # noqa: E402
from cases import case, check  # noqa: E402
from servers import ROOT  # noqa: E402

CACHE = os.environ.get("RDZV_CACHE", os.path.join(
    os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "rdzv"))
HELM = os.environ.get("HELM") or shutil.which("helm") or os.path.join(CACHE, "helm", "helm")
MANIFEST = os.environ.get("RDZV_MANIFEST", os.path.join(ROOT, "build", "deploy", "rdzv-manifest"))
CHART = os.path.join(ROOT, "deploy", "helm", "rdzv")
# What helm adds to the labels of objects; nothing selects by these.
OF_HELM = ("app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart")
IMAGE = {"image": {"repository": "REGISTRY/rdzvd", "tag": "0.1.0"}}


def run(*argv, code=0, stdin=None):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, input=stdin)
    check(done.returncode == code, "%s: exit %d\n%s%s" % (" ".join(argv), done.returncode, done.stdout, done.stderr))
    return done.stdout + (done.stderr if code else "")


def helm(*argv, code=0):
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(HELM_CACHE_HOME=home, HELM_CONFIG_HOME=home, HELM_DATA_HOME=home)
        return run(HELM, *argv, code=code)


def template(values, release="my-job", namespace="ml", code=0):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        yaml.safe_dump(values, f)
        f.flush()
        return helm("template", release, CHART, "--namespace", namespace, "-f", f.name, code=code)


def objects(text):
    """The objects by kind and name, without Helm's labels."""
    found = {}
    for o in yaml.safe_load_all(text):
        if o is None:
            continue
        for label in OF_HELM:
            o["metadata"]["labels"].pop(label, None)
        found[o["kind"], o["metadata"]["name"]] = o
    return found


def emitted(job, *flags):
    """The store that rdzv-manifest writes for a job: all objects but the job's own."""
    text = run(MANIFEST, "emit", "-f", "-", *flags, stdin=yaml.safe_dump(job))
    docs = [o for o in yaml.safe_load_all(text)
            if o["metadata"].get("labels", {}).get("app.kubernetes.io/component") == "rendezvous"]
    return {(o["kind"], o["metadata"]["name"]): o for o in docs}


def job(platform="job", nodes=2, **rdzv):
    return {"jobName": "my-job", "namespace": "ml", "platform": platform, "containerImage": "REGISTRY/train:1",
            "nodes": {"min": 1, "max": nodes}, "procsPerNode": 8, "mainProgram": "train.py",
            "rdzv": dict(rdzv, image="REGISTRY/rdzvd:0.1.0")}


def same(user_file, values):
    ours, helms = emitted(user_file), objects(template(dict(IMAGE, **values)))
    check(len(ours) >= 2, str(list(ours)))
    check(set(ours) == set(helms), "%s, and helm %s" % (sorted(ours), sorted(helms)))
    for key, want in ours.items():
        check(helms[key] == want, "%s\n%s-- and the chart\n%s" % (key, yaml.safe_dump(want), yaml.safe_dump(helms[key])))


JOB = {"batch.kubernetes.io/job-name": "my-job"}


@case
def helm_takes_the_chart():
    out = helm("lint", "--strict", CHART)
    check("0 chart(s) failed" in out, out)


@case
def packed_it_is_the_same():
    with tempfile.TemporaryDirectory() as folder:
        run(os.path.join(ROOT, "deploy", "release.sh"), folder, "chart")
        (packed,) = [os.path.join(folder, n) for n in os.listdir(folder) if n.endswith(".tgz")]
        check(helm("template", "my-job", packed) == helm("template", "my-job", CHART), "other objects")


@case
def with_relays_it_is_the_store_that_emit_writes():
    same(job(placement="relay"), {"jobSelector": JOB, "expect": 2})


@case
def without_relays_too():
    same(job(placement="service"), {"relay": False, "jobSelector": JOB, "expect": 2})


@case
def a_volume_without_relays():
    same(job(placement="service", durable="5Gi", storageClass="fast"),
         {"relay": False, "durable": True, "size": "5Gi", "storageClass": "fast", "jobSelector": JOB, "expect": 2})


@case
def other_ports_and_times():
    same(job(placement="service", port=23456, etcdPort=2380, spaceIdleTimeout="2m", expect=False),
         {"relay": False, "port": 23456, "etcdPort": 2380, "spaceIdleTimeout": "2m", "jobSelector": JOB})


@case
def other_names_and_no_policy():
    same(job(placement="relay", name="store", networkPolicy=False, openshift=True, pdb=False),
         {"fullnameOverride": "store", "openshift": True, "expect": 2})


@case
def a_large_job_on_another_platform():
    user = job("volcano", nodes=300, placement="relay")
    store = emitted(user)
    (policy,) = [o for (kind, _), o in store.items() if kind == "NetworkPolicy"]
    (workload,) = [o for (kind, _), o in store.items() if kind == "StatefulSet"]
    selector = policy["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
    same(user, {"jobSelector": selector, "expect": 300, "size": "4Gi",
                "resources": workload["spec"]["template"]["spec"]["containers"][0]["resources"]})


@case
def check_finds_nothing_in_it():
    """Nor in a job that emit writes for the store of the chart."""
    for values, placement in (({}, "relay"), ({"relay": False}, "external")):
        store = template(dict(IMAGE, jobSelector=JOB, **values))
        user = job(placement=placement, endpoint="my-job-rdzv:29400")
        text = run(MANIFEST, "emit", "-f", "-", stdin=yaml.safe_dump(user))
        out = run(MANIFEST, "check", "-", stdin=store + "\n---\n" + text)
        check(out.strip() == "", out)


@case
def pods_get_what_clusters_want():
    text = template(dict(IMAGE, nodeSelector={"pool": "cpu"}, priorityClassName="high", podAnnotations={"a": "b"},
                         tolerations=[{"operator": "Exists"}], imagePullSecrets=[{"name": "pull"}],
                         affinity={"nodeAffinity": {}}, extraArgs=["--log-format=json"], advertise="10.0.0.1:29400"))
    (pod,) = [o["spec"]["template"] for (kind, _), o in objects(text).items() if kind == "StatefulSet"]
    spec = pod["spec"]
    check(spec["nodeSelector"] == {"pool": "cpu"} and spec["priorityClassName"] == "high", str(spec))
    check(spec["tolerations"] == [{"operator": "Exists"}] and spec["imagePullSecrets"] == [{"name": "pull"}], str(spec))
    check(pod["metadata"]["annotations"]["a"] == "b" and spec["affinity"] == {"nodeAffinity": {}}, str(pod))
    args = spec["containers"][0]["args"]
    check("--log-format=json" in args and "--advertise=10.0.0.1:29400" in args, str(args))


@case
def wrong_values_are_refused():
    for values, word in (({"port": 80}, "port"), ({"relays": True}, "relays"), ({"size": "big"}, "size"),
                         ({"expect": -1}, "expect"), ({"extraArgs": ["-x"]}, "extraArgs"),
                         ({"spaceIdleTimeout": "soon"}, "spaceIdleTimeout"), ({"image": {"repository": ""}}, "repository"),
                         ({"jobSelector": {"a": 1}}, "jobSelector")):
        out = template(dict(IMAGE, **values), code=1)
        check(word in out, "%s: %s" % (values, out))
    out = template(IMAGE, release="r" * 50, code=1)
    check("set fullnameOverride" in out, out)


@case
def every_value_is_described_and_has_a_type():
    with open(os.path.join(CHART, "values.yaml"), encoding="utf-8") as f:
        values = yaml.safe_load(f)
    with open(os.path.join(CHART, "values.schema.json"), encoding="utf-8") as f:
        schema = yaml.safe_load(f)
    check(set(values) == set(schema["properties"]) - {"global"}, str(set(values) ^ set(schema["properties"])))


@case
def rewrite_is_a_post_renderer():
    """Of Helm 4 as a plugin, of Helm 3 as a program: an etcd of a chart comes out as rdzvd."""
    etcd = """\
apiVersion: v1
kind: Service
metadata: {name: meet}
spec: {selector: {app: meet}, ports: [{port: 2379}]}
---
apiVersion: v1
kind: Pod
metadata: {name: meet, labels: {app: meet}}
spec: {containers: [{name: etcd, image: "quay.io/coreos/etcd:v3.5.9", command: [etcd, --enable-v2]}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 2
  template: {spec: {restartPolicy: Never, containers: [{name: t, image: t, command: [torchrun, --nnodes=2, --rdzv_backend=etcd-v2, "--rdzv_endpoint=meet:2379", t.py]}]}}
"""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "chart", "templates"))
        for name, text in (("Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n"), ("templates/all.yaml", etcd)):
            with open(os.path.join(folder, "chart", name), "w", encoding="utf-8") as f:
                f.write(text)
        os.symlink(MANIFEST, os.path.join(folder, "rdzv-manifest"))
        os.environ["PATH"] = folder + ":" + os.environ["PATH"]
        os.environ["HELM_PLUGINS"] = os.path.join(ROOT, "deploy", "helm")
        args = ["--post-renderer", "rdzv"]
        if helm("version", "--short").startswith("v3"):
            args = ["--post-renderer", "rdzv-manifest", "--post-renderer-args", "rewrite"]
        out = helm("template", "r", os.path.join(folder, "chart"), *args, "--post-renderer-args", "--image=REGISTRY/rdzvd:9")
        check("image: REGISTRY/rdzvd:9" in out and "coreos/etcd" not in out and "--rdzv_backend=c10d" in out, out)
        out = helm("template", "r", os.path.join(folder, "chart"), *args, "--post-renderer-args", "--rdzv=here", code=1)
        check("post" in out and "meet" not in out, out)  # Helm 4 does not pass on what rewrite says


if __name__ == "__main__":
    if not os.access(HELM, os.X_OK):
        print("skip: there is no helm\n0 passed, 0 failed, %d skipped" % len(cases.CASES))
        sys.exit(0)
    sys.exit(cases.run(os.path.join("tests", "packages", "chart.py")))
