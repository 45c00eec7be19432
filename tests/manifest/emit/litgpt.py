"""Values of the LitGPT chart of each date, in ../shared/corpus/manifests/user: the output of emit must be equivalent to
the chart's rendering. The chart of 2024-02-28 lies beside them and is rendered here, by helm where that is installed;
the renderings of the earlier charts are written below, derived from their templates."""

import os
import re
import shutil
import subprocess
import tempfile

import yaml

import tool

CORPUS = os.path.join(tool.SHARED, "corpus", "manifests")

# The corpus' files have no values where a user must give some.
MISSING = ["--set", "workload.jobTimestamp=7,workload.gcsExperimentBucket=mine"]

OLD = {"nvidia-install-dir-host": "/usr/local/nvidia/lib64", "tcpx-nccl-plugin-volume": "/usr/local/tcpx",
       "tcpd-socket": "/tmp", "shared-memory": "/dev/shm", "workload-terminated-volume": "/usr/share/litgpt"}
MODEL = {"DATA_DIR": "openwebtext_dataset", "BATCH_SIZE": "6", "MICRO_BATCH_SIZE": "6", "WARMUP_ITERS": "10",
         "CLUSTER_TYPE": "GKE", "GCS_DATA_BUCKET": "litgpt-public-bucket"}
LONG_PATH = "/usr/lib/x86_64-linux-gnu:/usr/local/nvidia/lib64"

# File, arguments beside it, and of its chart: variables that depend on the values, and what the manager is told.
DATES = [
    ("gke-2023-11-08.yaml", [], {
        "JOB_TIMESTAMP": "1", "GCS_BUCKET": "redrock-fdsp-evaluation", "EXPERIMENT_ROOT_DIR": "pir-pythia-6.9b/",
        "DATA_DIR": "openwebtext_dataset", "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}, "--verbose 128 5 0"),
    ("gke-2023-12-14.yaml", MISSING, dict(
        MODEL, JOB_TIMESTAMP="7", GCS_EXPERIMENT_BUCKET="mine", EXPERIMENT_ROOT_DIR="llama2-70b",
        MODEL_NAME="Llama-2-70b-hf", MAX_ITERS="1000", LD_LIBRARY_PATH="/usr/local/nvidia/lib64"),
     "--verbose 128 2 0"),
    ("gke-61debd1.yaml", MISSING, dict(
        MODEL, JOB_TIMESTAMP="7", GCS_EXPERIMENT_BUCKET="mine", EXPERIMENT_ROOT_DIR="llama2-70b",
        MODEL_NAME="Llama-2-70b-hf", MAX_ITERS="1000", COLLECT_NSYS_PROFILE="no",
        LD_LIBRARY_PATH="/usr/local/nvidia/lib64"), "--verbose 128 2 0"),
    ("gke-8c44532.yaml", [], dict(
        MODEL, JOB_TIMESTAMP="1", GCS_EXPERIMENT_BUCKET="tejas_gpu", EXPERIMENT_ROOT_DIR="llama2-7b-combinedblocks",
        MODEL_NAME="Llama-2-7b-hf", MAX_ITERS="10", NUM_BLOCKS_TO_COMBINE="4",
        LD_LIBRARY_PATH="/usr/local/nvidia/lib64"), "--verbose 128 2 0"),
    ("gke-af7f115.yaml", [], dict(
        MODEL, JOB_TIMESTAMP="1", GCS_EXPERIMENT_BUCKET="pirillo-sct-bucket", EXPERIMENT_ROOT_DIR="llama2-13b",
        MODEL_NAME="Llama-2-13b-hf", MAX_ITERS="30", COLLECT_NSYS_PROFILE="yes", NCCL_NVLS_ENABLE="0",
        NCCL_DEBUG="TRACE", LD_LIBRARY_PATH=LONG_PATH), "--verbose 128 2 0"),
    ("gke-8c73edc.yaml", [], dict(
        MODEL, JOB_TIMESTAMP="1", GCS_EXPERIMENT_BUCKET="", EXPERIMENT_ROOT_DIR="llama2-13b",
        MODEL_NAME="Llama-2-13b-hf", COLLECT_NSYS_PROFILE="no", NCCL_NVLS_ENABLE="0", NCCL_DEBUG="INFO",
        NUMBER_OF_EPOCHS="1", STEPS_PER_EPOCH="30", LD_LIBRARY_PATH=LONG_PATH), "--verbose 128 2 0"),
    ("gke-c52e341.yaml", [], dict(
        MODEL, JOB_TIMESTAMP="1", GCS_EXPERIMENT_BUCKET="", EXPERIMENT_ROOT_DIR="llama2-70b-fastrak",
        MODEL_NAME="Llama-2-70b-hf", COLLECT_NSYS_PROFILE="no", NCCL_NVLS_ENABLE="0", NCCL_DEBUG="INFO",
        NUMBER_OF_EPOCHS="1", STEPS_PER_EPOCH="30", LD_LIBRARY_PATH=LONG_PATH),
     "/fts/entrypoint_rxdm_container.sh --num_hops=2 --num_nics=8"),
]

# What ours has beside the chart's: the rendezvous in rdzvd.
OURS = {"TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT"}


def render(template, values, release):
    """What helm makes of the chart's one template, of whose language it uses little: (documents)."""
    def lookup(match):
        node = values
        for key in match.group(1).split("."):
            node = (node or {}).get(key)
        return "" if node is None else str(node)

    text = re.sub(r"\{\{- \$requiredVar.*?-\}\}\s*", "", template).replace("{{$.Release.Name}}", release)
    text = re.sub(r"^\{\{(- )?\$(node_count|root) .*\}\}\n|^\{\{- \$root.*\}\}\n", "", text, flags=re.M)
    text = text.replace("{{$node_count}}", str(values["cluster"]["nNodes"]))
    head, body = re.split(r"\{\{range .*\}\}\n", text)
    body = body.rsplit("{{end}}", 1)[0]
    for i in range(values["cluster"]["nNodes"]):
        pod = re.sub(r"\{\{ ?\$node_index ?\}\}", str(i), body)
        pod = re.sub(r" *\{\{if eq \$node_index 0\}\}\n(.*?) *\{\{end\}\}\n", r"\1" if i == 0 else "", pod, flags=re.S)
        pod = re.sub(r" *\{\{if eq \$root.Values.network.useTcpx \"yes\"\}\}\n(.*?) *\{\{end\}\}\n",
                     r"\1" if values["network"].get("useTcpx") == "yes" else "", pod, flags=re.S)
        head += re.sub(r"\{\{\$(?:root)?\.Values\.([\w.]+)\}\}", lookup, pod)
    return [d for d in yaml.safe_load_all(head) if d]


CACHE = os.environ.get("RDZV_CACHE", os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "rdzv"))
HELM = os.environ.get("HELM") or shutil.which("helm") or os.path.join(CACHE, "helm", "helm")


def helm_template(chart, path, release):
    """The documents that helm makes of a chart with this one template."""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "c", "templates"))
        with open(os.path.join(folder, "c", "Chart.yaml"), "w", encoding="utf-8") as f:
            f.write("apiVersion: v2\nname: c\nversion: 0.1.0\n")
        shutil.copy(chart, os.path.join(folder, "c", "templates"))
        env = dict(os.environ, HELM_CACHE_HOME=folder, HELM_CONFIG_HOME=folder, HELM_DATA_HOME=folder)
        done = subprocess.run([HELM, "template", release, os.path.join(folder, "c"), "-f", path], capture_output=True,
                              env=env, timeout=120, check=True)
    return [d for d in yaml.safe_load_all(done.stdout) if d]


def environment(container):
    return {e["name"]: e.get("value", e.get("valueFrom")) for e in container["env"]}


def training(pod):
    return [c for c in pod["spec"]["containers"] if c["name"] == "litgpt"][0]


def compare_with_chart(check, path, chart):
    """Pod by pod: the chart's manager of the network is a container that waits for a file, ours a native sidecar."""
    with open(path, encoding="utf-8") as f:
        values = yaml.safe_load(f)
    with open(chart, encoding="utf-8") as f:
        want = render(f.read(), values, "r1")
    if os.access(HELM, os.X_OK):
        helms = helm_template(chart, path, "r1")
        check(sorted(map(repr, helms)) == sorted(map(repr, want)), "%s: render() is not helm: %r" % (path, helms))
        want = [d for kind in ("Service", "Pod") for d in helms if d["kind"] == kind]
    got = tool.emit("-f", path, "--release", "r1", "--shape", "pods")
    for kind in ("Service", "Pod"):
        names = [[d["metadata"]["name"] for d in docs if d["kind"] == kind] for docs in (want, got)]
        check(names[0] == names[1], "%s: %s are %s, not %s" % (path, kind, names[1], names[0]))
    check([p["port"] for p in want[0]["spec"]["ports"]][0] in
          [p["port"] for d in got if d["kind"] == "Service" for p in d["spec"]["ports"]], "%s: port" % path)
    pods = [[d for d in docs if d["kind"] == "Pod"] for docs in (want, got)]
    for i, (a, b) in enumerate(zip(*pods)):
        x, y = training(a), training(b)
        given, made = environment(x), environment(y)
        made["NODE_RANK"] = b["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]
        for name in OURS | {n for n in made if n.startswith("PET_")}:
            made.pop(name, None)
        lines = tool.differences(given, made, "pod %d: env" % i)
        for key in ("image", "imagePullPolicy", "securityContext", "volumeMounts"):
            lines += tool.differences(x[key], y[key], key, key)
        lines += tool.differences(x["resources"]["limits"], y["resources"]["limits"], "limits")
        for key in ("hostNetwork", "dnsPolicy", "restartPolicy", "serviceAccountName", "affinity", "tolerations",
                    "volumes"):
            lines += tool.differences(a["spec"][key], b["spec"][key], key, key)
        daemon = [c for c in a["spec"]["containers"] if c["name"] == "tcpd-daemon"][0]
        beside = [c for c in b["spec"]["initContainers"] if c["name"] == "tcpd-daemon"][0]
        started = [c["command"][2].split("\n")[0].replace("exec ", "").replace(" &", "") for c in (daemon, beside)]
        lines += tool.differences(started[0], started[1], "the daemon's command")
        lines += tool.differences(a["spec"]["initContainers"][0], b["spec"]["initContainers"][0], "the installer")
        check(not lines, "%s: %s" % (os.path.basename(path), "\n    ".join(lines)))


def test(check, skip):
    if not os.path.isdir(CORPUS):
        skip("%s is not there" % os.path.relpath(CORPUS, tool.ROOT))
        return
    for name, args, variables, told in DATES:
        path = os.path.join(CORPUS, "user", name)
        documents = tool.emit("-f", path, "--release", "r1", *args)
        job = [d for d in documents if d["kind"] == "Job"][0]["spec"]["template"]
        made = environment(training(job))
        usual = {"NODE_NAME", "NODE_IP", "MASTER_ADDR", "NCCL_SOCKET_IFNAME", "NNODES", "NODE_RANK", "USE_TCPX",
                 "TCPX_FORCE_ACK", "DISABLE_PMTU", "CPU_PINNING_MODE"} | OURS
        lines = tool.differences(variables, {k: v for k, v in made.items() if k not in usual}, "env")
        check(not lines and usual <= set(made), "%s: %s, %s" % (name, lines, usual - set(made)))
        mounts = {m["name"]: m["mountPath"] for m in training(job)["volumeMounts"]}
        later = "gcsExperimentBucket: ''" in open(path, encoding="utf-8").read()
        lines = tool.differences(dict(OLD, **({"data-volume": "/data"} if later else {})), mounts, "mounts")
        lines += [] if len(job["spec"]["tolerations"]) == 1 + later else ["tolerations"]
        check(not lines, "%s: %s" % (name, lines))
        inits = {c["name"]: c for c in job["spec"]["initContainers"]}
        check(told in inits["tcpd-daemon"]["command"][2] and
              ("tcpx-nccl-plugin-installer" in inits) == ("fts" not in told), "%s: %r" % (name, inits))
    compare_with_chart(check, os.path.join(CORPUS, "user", "gke-8c73edc.yaml"),
                       os.path.join(CORPUS, "template", "litgpt-chart.yaml"))
    # A template of October 2023, which is no YAML yet, and charts of another kind: one line each.
    for name, said in (("gke-2023-10-06.yaml", "2:15: "), ("gke-a3-megatron.yaml", "no format"),
                       ("gke-a3-nccltest.yaml", "no format"), ("intel-hf-llm-values.yaml", "no format"),
                       ("intel-hf-llm-medical.yaml", "no format"), ("intel-hf-llm-distilgpt2.yaml", "no format")):
        code, out, err = tool.run("emit", "-f", os.path.join(CORPUS, "user", name), "--release", "r1")
        lines = [t for t in err.decode().strip().split("\n") if ": note: " not in t]
        check(code == 2 and not out and said in lines[0] and len(lines) == 1,
              "%s: exit %d: %s" % (name, code, lines))
    for name in ("intel-2023-12.yaml", "intel-2024-03.yaml", "mlbatch-helloworld.yaml",
                 "mlbatch-helloworld-sakkara.yaml", "mlbatch-tests-helloworld.yaml"):
        documents = tool.emit("-f", os.path.join(CORPUS, "user", name))
        kinds = [d["kind"] for d in documents]
        check(kinds[-1] == ("PyTorchJob" if "intel" in name else "AppWrapper"), "%s: %r" % (name, kinds))
