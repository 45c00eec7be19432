#!/usr/bin/python3
"""rdzv-manifest rewrite: whole files against kept ones, shapes of words, refusals, and properties.

    rewrite.py [--only NAME]... [--seed N] [--rounds N] [--update]

The kept files are rewrite/*.yaml and what comes out of them, rewrite/expected/; --update writes the
latter anew, to be read before they are committed. The properties put noise (comments, blank lines,
other quotes) into the same inputs, and hold that all of it is still there: --seed replays one. With
../shared/ beside the checkout its examples and its validator are used, too.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

from manifests import MANIFEST, SHARED, Failed, check, documents, rdzvd_binary, read, yaml
from rewrite_properties import in_place, in_place_fails_whole, line_ends, noise_stays, other_styles
from rewrite_tool import EXPECTED, GOLDEN, INPUTS, rewrite, same, same_objects, store_arguments
from rewrite_words import (
    JOB, STORE, a_policys_conf_gets_the_keys_of_c10d, continued_lines, policies_keep_up,
    relayed_agents_wait_for_their_store, runs_of_one_job_stay_apart, shapes,
    torchrun_gets_restarts_where_containers_restart_alone, what_controllers_made_stays,
    what_else_refers_to_the_etcd_is_named, words)


def golden(options):
    for name, args, files, code in GOLDEN:
        out, err = rewrite(args + files, code=code)
        ending = ".diff" if "--diff" in args else ".json" if files[0].endswith(".json") else ".yaml"
        for data, path in ((out, name + ending), (err, name + ".notes")):
            path = os.path.join(EXPECTED, path)
            if options.update:
                with open(path, "wb") as f:
                    f.write(data)
            else:
                check(os.path.exists(path), "%s is missing: --update" % path)
                same(data, read(path), "rewrite/expected/" + os.path.basename(path))


def golden_outputs():
    """Those that are whole manifests, with their names."""
    for name, args, files, code in GOLDEN:
        if code == 0 and "--diff" not in args:
            yield name, args, files, rewrite(args + files, code=0)[0]


def outputs_are_settled(_):
    """Rewriting what was rewritten changes nothing, and says so with its exit code."""
    for name, args, _, out in golden_outputs():
        args = [a for a in args if not a.startswith("--etcd")]  # it is none any more
        again, err = rewrite(args + ["-"], data=out, code=1)
        same(again, out, "%s, rewritten again," % name)
        check(b"nothing to rewrite" in err, "%s: not said" % name, err.decode())


RANGE = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: train, namespace: ns}
spec:
  serviceName: train
  replicas: %s
  selector: {matchLabels: {app: train}}
  template:
    metadata: {labels: {app: train}}
    spec:
      containers:
      - name: train
        image: train:1
        command: [torchrun, --nnodes=1:4, --rdzv-backend=c10d, --rdzv-endpoint=train-0.train:29400, --rdzv-id=a, t.py]
"""


def a_store_expects_the_pods_that_its_job_has(_):
    """Which may be fewer than torchrun takes; nothing is expected where their number is unknown."""
    for replicas, expected in (("2", ["--expect=2"]), ("4", ["--expect=4"]), ("two", [])):
        out, _ = rewrite(["-"], data=(RANGE % replicas).encode(), code=0)
        for args in store_arguments(documents(out)):
            same([a for a in args if a.startswith("--expect")], expected, replicas)


def a_store_is_scraped_where_that_is_asked_for(_):
    """At a port of its own; and check finds nothing that keeps Prometheus out."""
    for name in ("volcano-etcd.yaml", "pytorchjob-etcd.yaml"):
        out, _ = rewrite(["--metrics=annotations", os.path.join(INPUTS, name)], code=0)
        check('prometheus.io/port: "29401"' in out.decode(), name)
        check("--listen-metrics-urls=http://0.0.0.0:29401" in next(store_arguments(documents(out))), name)
        done = subprocess.run([MANIFEST, "check", "--rule=scrape-blocked", "-"], input=out,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        same(done.returncode, 0, done.stdout)
    out, _ = rewrite(["--metrics=annotations", os.path.join(INPUTS, "deployment.yaml")], code=0)
    check(out.count(b"prometheus.io/port") == 1 and b'prometheus.io/port: "29401"' in out, "the etcd had a port")
    out, _ = rewrite(["--metrics=annotations", "--set", "rdzv.metricsFrom=prom",
                      os.path.join(INPUTS, "pytorchjob-static.yaml")], code=0)
    policy = next(d for d in documents(out) if d["kind"] == "NetworkPolicy")
    same(policy["spec"]["ingress"][1]["from"],
         [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "prom"}}}], "metricsFrom")


ROOT = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train, namespace: ml}
spec:
  elasticPolicy: {rdzvBackend: c10d, minReplicas: 1, maxReplicas: 3, maxRestarts: 100}
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      restartPolicy: OnFailure
      template:
        spec:
          securityContext: {runAsUser: %s}
          containers:
          - name: pytorch
            image: train:1
            command: [torchrun, t.py]
          - {name: beside, image: "beside:1", command: [tensorboard, --logdir=/x]}
"""


def a_relay_in_a_pod_of_root_has_a_user_of_its_own(_):
    """Without it, the relay would run as root although it demands runAsNonRoot. A pod with another user or without a
    user may belong to OpenShift, which refuses fixed users."""
    for user, own in (("0", 65532), ("1000", None), ("null", None)):
        out, _ = rewrite(["--rdzv=relay", "-"], data=(ROOT % user).encode(), code=0)
        job = next(d for d in documents(out) if d["kind"] == "PyTorchJob")
        relay, = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["initContainers"]
        context = relay["securityContext"]
        same([context.get("runAsUser"), context.get("runAsGroup")], [own, own], "user " + user)
    taken = ROOT % "0" + "          - {name: exporter, image: 'e:1', ports: [{containerPort: 29400}]}\n"
    _, err = rewrite(["--rdzv=relay", "-"], data=taken.encode(), code=2)
    check("18:52: PyTorchJob train: the relay in its pods needs port 29400: give exporter another port" in err.decode(), err.decode())
    master = ROOT.replace("  elasticPolicy: {rdzvBackend: c10d, minReplicas: 1, maxReplicas: 3, maxRestarts: 100}\n", "")
    master = master.replace("Worker:", "Master:").replace("replicas: 2", "replicas: 1").replace("torchrun", "python")
    out, _ = rewrite(["--wiring=agent-store", "-"], data=(master % "0").encode(), code=0)
    job = next(d for d in documents(out) if d["kind"] == "PyTorchJob")
    sidecar, = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["initContainers"]
    same(sidecar["securityContext"].get("runAsUser"), 65532, "a sidecar")


def a_master_moves_by_whatever_name_it_finds_itself(_):
    """The workers move as well if their endpoint is the Master's pod and port; a worker that names itself meets no
    other pod."""
    job = read(os.path.join(INPUTS, "masters.yaml")).decode()
    ip = job.replace("            command:", "            env:\n            - {name: POD_IP, valueFrom: "
                     "{fieldRef: {fieldPath: status.podIP}}}\n            command:", 1)
    for host, text in (("localhost", job), ("127.0.0.1", job), ("$(hostname)", job), ("$(hostname -i)", job),
                       ("$HOSTNAME", job), ("${HOSTNAME}", job), ("`hostname -f`", job), ("$POD_IP", ip)):
        text = text.replace("localhost:", host + ":")
        out, _ = rewrite(["-"], data=text.encode(), code=0)
        same(out.count(b"--rdzv_endpoint=pt-rdzv:29400"), 2, host)
        same(out.count(b"--rdzv_conf=is_host=0"), 2, host)
        same(out.count(b" --max_restarts=100 "), 2, host)
        for port in ("23457", "$PORT"):
            _, err = rewrite(["-"], data=text.replace(host + ":23456", host + ":" + port).encode(), code=2)
            check(b"a training pod is the store of its other runs" in err, host + ":" + port, err.decode())
    swapped = job.replace("localhost", "LOCAL").replace("$MASTER_ADDR", "localhost").replace("LOCAL", "$MASTER_ADDR")
    _, err = rewrite(["-"], data=swapped.encode(), code=2)
    check(b"<stdin>:30:15: PyTorchJob pt: a training pod is" in err, "workers that name themselves", err.decode())


def a_copy_from_worker_0_is_no_wait_for_it(_):
    """A line that only copies is noted; nc is a word of its own."""
    job = read(os.path.join(INPUTS, "masters.yaml")).decode()
    for program, code in (("rsync", 0), ("sync", 0), ("nc", 2), ("/bin/nc", 2), ("(nc", 2)):
        text = job.replace("torchrun", program + " $MASTER_ADDR:23456; torchrun")
        _, err = rewrite(["-"], data=text.encode(), code=code)
        check(b": this names the store of worker 0" in err, program, err.decode())


def arguments_are_rdzvds(_):
    """Every argument list that comes out is one that the daemon takes."""
    count = 0
    for name, _, _, out in golden_outputs():
        for args in store_arguments(documents(out)):
            done = subprocess.run([rdzvd_binary(), "--check-config"] + args, capture_output=True,
                                  text=True, check=False)
            check(done.returncode == 0 or "level=" in done.stderr,  # files that are not on this machine
                  "%s: rdzvd %s" % (name, " ".join(args)), done.stderr)
            count += 1
    check(count >= 12, "only %d stores were found" % count)


# ------------------------------------------------------------ refusals

ETCD_POD = STORE.split("---\n")[0]
MASTERS = read(os.path.join(INPUTS, "masters.yaml")).decode()
RUNTIME = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: rt, namespace: ml}
spec:
  mlPolicy: {numNodes: 2, torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec:
            template:
              spec: {containers: [{name: node, command: [torchrun, --rdzv_backend=c10d, "--rdzv_endpoint=$(PET_MASTER_ADDR):29500", t.py]}]}
"""
TRAINJOB = """\
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: %s, namespace: ml}
spec: {runtimeRef: {name: rt, kind: TrainingRuntime}}
"""

REFUSED = [
    ("an anchor at the endpoint", STORE + JOB + "        args: [--rdzv-backend=etcd-v2]\n"
     "        env:\n        - {name: PET_RDZV_ENDPOINT, value: &e 'meet:2379'}\n"
     "        - {name: B, value: *e}\n", r"^<stdin>:2\d:\d+: .*anchor.*: write it"),
    ("an alias at the endpoint", STORE + JOB + "        env:\n"
     "        - {name: B, value: &e 'meet:2379'}\n"
     "        - {name: PET_RDZV_ENDPOINT, value: *e}\n", r"^<stdin>:\d+:\d+: .*alias.*: ?write it"),
    ("an alias for a list of arguments", STORE + JOB + "        args: &a [--rdzv-endpoint=meet:2379]\n"
     "      initContainers:\n      - {name: i, args: *a}\n", r"^<stdin>:\d+:\d+: .*&a is shared"),
    ("tabs", STORE.replace("  containers:", "\tcontainers:"), r"^<stdin>:5:\d+: "),
    ("a template", STORE.replace("name: etcd,", "name: {{ .Release.Name }},"), r"^-?<stdin>:3:"),
    ("a template at the edited place", STORE + JOB +
     "        args: ['--rdzv-backend={{ .x }}', '--rdzv-endpoint=meet:2379']\n"
     "        env: [{name: PET_RDZV_ENDPOINT, value: 'meet:{{ .Values.port }}'}]\n",
     r"^<stdin>:\d+:\d+: .*template.*render it"),
    ("several members", STORE.replace("image: quay.io", "command: [etcd, --initial-cluster, "
     "'a=http://a:2380,b=http://b:2380']\n    image: quay.io"), r"several members.*: leave"),
    ("three replicas", ETCD_POD.replace("v1\nkind: Pod", "apps/v1\nkind: StatefulSet").replace(
        "spec:\n", "spec:\n  replicas: 3\n  template:\n   metadata: {labels: {app: etcd}}\n   spec:\n").replace(
        "  containers:", "    containers:").replace("  - name", "    - name").replace(
        "    image", "      image"), r"several members"),
    ("TLS", STORE.replace("image: quay.io", "args: ['--listen-client-urls=https://0.0.0.0:2379']\n"
                          "    image: quay.io"), r"TLS.*: leave"),
    ("a container beside it", STORE.replace("    image: quay.io/coreos/etcd:v3.3.27",
     "    image: quay.io/coreos/etcd:v3.3.27\n  - name: b\n    image: busybox"), r"beside etcd: move"),
    ("no name", STORE.replace("name: etcd,", "") + JOB +
     "        args: [--rdzv-backend=etcd-v2, '--rdzv-endpoint=meet:2379']\n", r"no name: give it one"),
    ("half a job", MASTERS.replace("localhost:", "$(cat /head):"),
     r"^<stdin>:19:15: PyTorchJob pt: a training pod is the store of its other runs"),
    ("half a job without an endpoint", MASTERS.replace(
        "--rdzv_endpoint=localhost:23456 ", ""),
     r"^<stdin>:19:15: PyTorchJob pt: a training pod is the store of its other runs.*: give it their endpoint$"),
    ("a command of two jobs", RUNTIME + TRAINJOB % "one" + TRAINJOB % "two",
     r"^<stdin>:14:58: TrainJob one starts this command, and so does TrainJob two: give each job one of its own$"),
    ("cleared variables", MASTERS.replace("--rdzv_backend=c10d ", "").replace("torchrun", "sudo -u me torchrun").replace(
        "--rdzv_endpoint=localhost:23456 --rdzv_conf=is_host=1 --rdzv_id=pt ", "").replace("--rdzv_endpoint=$MASTER_ADDR:23456 --rdzv_id=pt ", ""),
     r"^<stdin>:19:15: PyTorchJob pt: `sudo` clears the variables by which torchrun would find its store: write"),
    ("a wait for worker 0", MASTERS.replace("torchrun", "until nc -z $MASTER_ADDR 23456; do sleep 1; done; torchrun"),
     r"^<stdin>:19:28: PyTorchJob pt: this names the store of worker 0, and nothing listens there.*: remove it$"),
    ("a wait in an init container", MASTERS + "          initContainers:\n          - {name: wait, image: i, command: [wait-for, "
     "'pt-master-0.ml:23456']}\n", r"^<stdin>:32:57: PyTorchJob pt: this names the store of worker 0"),
    ("half a job of an etcd", STORE + JOB + "        command: [torchrun, --rdzv-backend=etcd-v2, "
     "'--rdzv-endpoint=meet:2379', --nnodes=2, t.py]\n      - name: more\n        image: trainer\n"
     "        command: [sh, -c, 'torchrun --rdzv-backend=etcd-v2 --rdzv-endpoint=$ETCD:2379 --nnodes=2 t.py']\n",
     r"^<stdin>:26:27: Job train: an etcd is the store of its other runs.*, or use --keep-backend$"),
    ("options that no file has", STORE + JOB + "        command: [sh, -c, 'torchrun --nnodes=2 --rdzv-backend=etcd "
     "--rdzv-endpoint=meet:2379 $MORE t.py']\n", r"^<stdin>:2\d:\d+: Job train: `\$MORE` may hold .*, or use --keep-backend$"),
    ("a key twice where it edits", STORE + JOB + "        args: [--rdzv-backend=etcd, '--rdzv-endpoint=meet:2379']\n"
     "        args: [--rdzv-backend=etcd-v2, '--rdzv-endpoint=meet:2379']\n", r"^<stdin>:2\d:9: args occurs twice, first in line 2\d"),
    ("folded words", STORE + JOB + "        args:\n        - >\n          torchrun --rdzv-backend\n"
     "          etcd-v2 --rdzv-endpoint=meet:2379 \"--rdzv-conf=a=1,\n          is_host=$(x\n"
     "          y)\" t.py\n", r"folded lines: write the text as a block"),
]


def refusals(_):
    for name, text, pattern in REFUSED:
        try:
            out, err = rewrite(["-"] + ["--etcd=etcd"] * ("name: etcd," in text), data=text.encode(),
                               code=2)
        except Failed as e:
            raise Failed("%s: %s" % (name, e))
        check(out == b"", "%s: something was written" % name, out.decode())
        check(re.search(pattern, err.decode(), re.M), "%s: %s does not say %s" % (
            name, err.decode(), pattern))


def templates_in_files(_):
    """A file that is no YAML yet is named with the line of its braces."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "deployment.yaml")
        with open(path, "w") as f:
            f.write("# {{ a comment }}\nkind: Pod\n{{- if .Values.etcd }}\nmetadata: {}\n{{- end }}\n")
        _, err = rewrite([path], code=2)
        check("%s:3:1: this is a template: render it first" % path in err.decode(), err.decode())


def arguments(_):
    for args, said in ((["--rdzv=task", "-"], "write service, relay or replicas"),
                       (["--rdzv=replicas", "pytorchjob-static.yaml"],
                        "pytorchjob-static.yaml:1:1: rdzv.journal is missing"),
                       (["--rdzv=replicas", "volcano-etcd.yaml"], "lead to one store"),
                       (["--rdzv=relay", "--set=rdzv.tls.secret=s", "volcano-etcd.yaml"], "have no certificate, so"),
                       (["--set=rdzv.tls.secret=s", "pytorchjob-static.yaml"], "clients have no TLS: use placement relay"),
                       (["--rdzv=relay", "--keep-backend", "-"], "leave out --keep-backend, or --rdzv"),
                       (["--rdzv=relay", os.path.join(INPUTS, "volcano-c10d.yaml")], "on the host network"),
                       (["--frm=x", "-"], "--frm is no option of rewrite: did you mean --from?"),
                       (["--backend=raft", "-"], "write c10d or etcd-v2"),
                       (["--in-place", "-"], "cannot be written in place"),
                       (["--etcd=nobody", "untouched.yaml"], "no etcd named nobody"),
                       (["--image=", "-"], "no name of an image"),
                       (["--metrics=servicemonitor", "-"], "write annotations; emit"),
                       (["untouched.yaml", "untouched.yaml"], "named twice"),
                       (["missing.yaml"], "missing.yaml: cannot be read")):
        out, err = rewrite(args, data=b"", code=2)
        check(out == b"" and said in err.decode(), "%s: %s" % (args, err.decode()))


def one_of_two(_):
    """--etcd says which one is meant; the other one stays."""
    both = STORE + STORE.replace("name: etcd,", "name: other, namespace: b,").replace(
        "{name: meet}", "{name: there, namespace: b}")
    for name in ("other", "b/other"):
        out, _ = rewrite(["--etcd=" + name, "-"], data=both.encode(), code=0)
        check(out.startswith(STORE.encode()), "the first one was touched")
        check(documents(out)[2]["kind"] == "StatefulSet", "the second one was not")


# ------------------------------------------------------------ with the spec beside us


def without_nulls(node):
    if isinstance(node, dict):
        return {k: without_nulls(v) for k, v in node.items() if v is not None}
    return [without_nulls(v) for v in node] if isinstance(node, list) else node


def without_advertise(node):
    """The examples are older than rdzvd's repair of elastic jobs, which is better told where workers
    can reach it."""
    if isinstance(node, dict):
        return {k: without_advertise(v) for k, v in node.items()}
    if isinstance(node, list):
        return [without_advertise(v) for v in node if not str(v).startswith("--advertise=")]
    return node


def spec_examples(_):
    """The examples' content, parsed: layout is ours."""
    folder = os.path.join(SHARED, "spec", "examples")
    for name, args, want in (
            ("oke/rewrite-volcano-in", ["--keep-backend"], "oke/rewrite-volcano-compat"),
            ("oke/rewrite-volcano-in", [], "oke/rewrite-volcano-c10d"),
            ("oke/rewrite-pytorchjob-in", ["--keep-backend"], "oke/rewrite-pytorchjob-compat"),
            ("oke/rewrite-pytorchjob-in", [], "oke/rewrite-pytorchjob-c10d"),
            ("aks/rewrite-in", ["--wiring=agent-store"], "aks/rewrite-agent-store")):
        out = without_nulls(documents(rewrite(args + [os.path.join(folder, name + ".yaml")])[0]))
        text = read(os.path.join(folder, want + ".yaml"))
        text = text.replace(b"--linger=", b"--space-idle-timeout=")  # they are older than this word
        text = text.replace(b"sizeLimit: 256Mi", b"sizeLimit: 1Gi")  # and of a store that wrote nothing
        text = text.replace(b"            --rdzv-conf=is_host=0 \\\n",  # and than the restarts that c10d gets
                            b"            --rdzv-conf=is_host=0 \\\n            --max-restarts=100 \\\n")
        expected = without_nulls(documents(text))
        same_objects(without_advertise(out), expected, want)


def validator(_):
    """The validator, which knows schemas and webhooks, finds no BAD document. It does not know cert-manager's
    Certificate, nor the restart rules of containers, so the test removes these."""
    tool = os.path.join(SHARED, "tools", "validate_manifests.py")
    for name, _, _, out in golden_outputs():
        if b"kind: Certificate" in out:
            out = yaml.safe_dump_all(d for d in documents(out) if d["kind"] != "Certificate").encode()
        out = re.sub(rb" restartPolicy: Never\n( *)restartPolicyRules:", rb" restartPolicyRules:", out)
        done = subprocess.run([sys.executable, tool, "--bundle", "-"], input=out,
                              capture_output=True, check=False)
        check(done.returncode == 0, "%s: " % name + done.stdout.decode(), done.stderr.decode())


TESTS = [golden, outputs_are_settled, arguments_are_rdzvds, a_relay_in_a_pod_of_root_has_a_user_of_its_own,
         a_master_moves_by_whatever_name_it_finds_itself, a_copy_from_worker_0_is_no_wait_for_it,
         a_store_expects_the_pods_that_its_job_has, a_store_is_scraped_where_that_is_asked_for, words, continued_lines, shapes,
         a_policys_conf_gets_the_keys_of_c10d, torchrun_gets_restarts_where_containers_restart_alone, relayed_agents_wait_for_their_store, what_else_refers_to_the_etcd_is_named, policies_keep_up, what_controllers_made_stays, runs_of_one_job_stay_apart, refusals,
         templates_in_files, arguments, one_of_two, noise_stays, line_ends, other_styles, in_place,
         in_place_fails_whole, spec_examples, validator]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", action="append", help="tests whose name begins so")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    if options.update:
        os.makedirs(EXPECTED, exist_ok=True)

    results = {"passed": 0, "failed": 0, "skipped": 0}
    for test in TESTS:
        if options.only and not any(test.__name__.startswith(n) for n in options.only):
            continue
        if test in (spec_examples, validator) and not os.path.isdir(SHARED):
            print("skip: %s: there is no ../shared" % test.__name__)
            results["skipped"] += 1
            continue
        try:
            test(options)
            results["passed"] += 1
        except Failed as e:
            print("FAIL %s: %s\n---- again: rewrite.py --only %s --seed %d" % (
                test.__name__, e, test.__name__, options.seed), flush=True)
            results["failed"] += 1
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % results)
    return 1 if results["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
