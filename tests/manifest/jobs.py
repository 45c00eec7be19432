"""Jobs of other people for run_real.py: each runs with the store that it has, is rewritten, and runs again.

Public files of ../shared/corpus, of wild/ and of real/shapes/, with replacements for things that this machine lacks: their
size, their downloads, an image's own paths. Two pods of each remain. Standard library only.
"""

import os
import re
import shutil
import subprocess

from manifests import HERE, SHARED, Failed

SHAPES, WILD = os.path.join(HERE, "real", "shapes"), os.path.join(HERE, "wild")
CORPUS, FAULTS = os.path.join(SHARED, "corpus", "manifests"), os.path.join(SHARED, "corpus", "faults-3")
PROGRAMS = "/opt/programs"  # in front of a container's PATH

# ------------------------------------------------------------ programs

SILENT = ("pip", "pip3", "wget", "git", "apt-get", "huggingface-cli", "aws", "gsutil", "ldconfig", "sleep")
SUDO = """#!/bin/sh
while :; do
    case "$1" in -u | -g) shift 2 ;; -*) shift ;; *) break ;; esac
done
exec env "$@"
"""
LAUNCHER = """#!/bin/bash
for word; do
    case $word in --ft-*) ;; *) words+=("$word") ;; esac
done
exec torchrun "${words[@]}"
"""
# mpirun starts its command in the pods of its host file. As in a cluster, an sshd there listens.
MPIRUN = """#!/usr/bin/env python3
import json, socket, sys, threading, time
words, codes = sys.argv[1:], []
while words[0].startswith("-"):
    del words[:1 if words[0] == "--allow-run-as-root" else 2]
def go(host):
    for _ in range(300):
        try:
            peer = socket.create_connection((host, 2222))
            break
        except OSError:
            time.sleep(0.1)
    peer.sendall(json.dumps(words).encode() + b"\\n")
    codes.append(int(peer.makefile().read() or 255))
with open("/etc/mpi/hostfile") as f:
    threads = [threading.Thread(target=go, args=(line.split()[0],)) for line in f]
for t in threads:
    t.start()
for t in threads:
    t.join()
sys.exit(max(codes))
"""
SSHD = """#!/usr/bin/env python3
import json, socket, subprocess
server = socket.create_server(("", 2222))
while True:
    peer, _ = server.accept()
    peer.sendall(b"%d" % subprocess.call(json.loads(peer.makefile().readline())))
    peer.close()
"""


def programs():
    """{path: text} of what an image or a machine with GPUs would have."""
    found = {PROGRAMS + "/" + name: "#!/bin/sh\n" for name in SILENT}
    found.update({PROGRAMS + "/" + name: text for name, text in (
        ("nvidia-smi", "#!/bin/sh\necho 'GPU 0: none'\n"), ("sudo", SUDO), ("ft_launcher", LAUNCHER), ("mpirun", MPIRUN))})
    found["/usr/sbin/sshd"] = SSHD
    if accelerate():
        found[PROGRAMS + "/accelerate"] = "#!/bin/sh\nPYTHONPATH=%s exec python -m accelerate.commands.accelerate_cli \"$@\"\n" % (
            accelerate())
    return found


def accelerate():
    """The folder with accelerate and what it needs except torch; nothing installs it for the tests."""
    return os.environ.get("ACCELERATE")


# ------------------------------------------------------------ jobs

# One process in each pod, an image's own torchrun and PATH, and what would go on for ever.
SMALLER = [(r"""(--nproc[-_]per[-_]node[= ])("[^"]*"|[^\s"',\]\\]+)""", r"\g<1>1"), (r"(nprocPerNode: )\S+", r'\1"1"'),
           (r"(nProcPerNode: )\S+", r"\g<1>1"), (r"/\S*/bin/(torchrun|python3?)\b", r"\1"), (r'"-lc"', '"-c"'),
           (r"\\\n\s*&& sleep infinity", "")]
TWO = [(r"(parallelism|completions|replicas): \d+", r"\1: 2"), (r"(--nnodes[= ])\d+\b", r"\g<1>2")]
HALF = [(r"(parallelism|completions|replicas): [2-9]\d*", r"\1: 1"), (r"(--nnodes[= ])\d+\b", r"\g<1>2")]

# The kind of job, its files, and replacements. `before`: whether it can work before it is rewritten; `after`: the
# options of rewrite with which it then runs.
PLAIN, BOTH = ("",), ("", "--rdzv=relay")
JOBS = {
    # -- public
    "jobset-master": (CORPUS, ["c10d/jobset-mnist"], TWO, {}),
    "jobset-c10d": (CORPUS, ["docs/jobset-kueue-c10d"], [(r"(parallelism|completions): 8", r"\1: 2"), (r"--nnodes=8", "--nnodes=2")], {"before": False}),
    "statefulset-script": (CORPUS, ["c10d/mltrain-train-statefulset"], [*TWO, (r"--nnodes=2:64", "--nnodes=2")], {}),
    "volcano-plugin": (CORPUS, ["c10d/nebius-nccl-test-pytorch"], [], {}),
    "volcano-host-network": (CORPUS, ["etcd/oke-guide-1"], [], {"after": PLAIN}),
    "pytorchjob-variables": (CORPUS, ["static/kto-demo"], HALF, {}),
    "pytorchjob-static": (CORPUS, ["c10d/coreweave-imagenet"], HALF, {}),
    "pytorchjob-elastic": (CORPUS, ["c10d/kai-pytorch-elastic"], TWO, {}),
    "pytorchjob-module": (CORPUS, ["c10d/kto-echo"], [], {}),
    "pytorchjob-etcd": (CORPUS, ["etcd/awsome-task-governance-1"], [(r"(?<=Worker:\n      replicas: )\d+", "2"), (r"--nnodes=3", "--nnodes=2")], {}),
    "pytorchjob-template": (CORPUS, ["template/awsome-ddp-custom"], [(r"\$NUM_NODES", "2"), (r"\$CPU_PER_NODE", "1")], {}),
    "pytorchjob-here-document": (CORPUS, ["static/mlbatch-kubecon-pytorch-training"], [
        (r"(?s)(<< EOM\n).*?( *EOM\n)", r"\1\2"), (r'printf "%s" .*\n', ""), (r'"\$program_path/ephemeral_script.py"\n', "t.py\n")], {}),
    "appwrapper-script": (CORPUS, ["static/mlbatch-rendered-volumes"], [*HALF, (r"cd python-helloworld\n", "cd /tmp\n")], {}),
    "trainjob": (CORPUS, ["static/trainer-torch_distributed", "static/trainer-01-multi-node"],
                 [(r"(?s)- --no-python\n.*", "- t.py\n")], {"after": PLAIN}),
    # -- paraphrased from public ones
    "policy-and-flag": (FAULTS, ["elastic-policy-and-endpoint-flag"], [(r"replicas: 3", "replicas: 1")], {}),
    "configmap-etcd": (FAULTS, ["configmap-script-etcd-pytorchjob"], TWO, {}),
    "configmap-c10d": (FAULTS, ["configmap-script-c10d"], [(r'value: "4"', 'value: "2"')], {}),
    "accelerate": (WILD, ["accelerate"], [
        (r"replicas: 4", "replicas: 2"), (r"--num_processes=32 --num_machines=4", "--num_processes=2 --num_machines=2"),
        (r"maxReplicas: 4", "maxReplicas: 2")], {"after": PLAIN}),
    "job-branches": (WILD, ["branches-of-one-pod"], [(r": 4\b", ": 2"), (r"=4\b", "=2")], {}),
    "job-variables": (WILD, ["variables-of-indexed-jobs"], TWO, {}),
    "volcano-anchors": (WILD, ["plugin-pytorch"], [], {}),
    "volcano-etcd": (WILD, ["etcd-of-torch"], [], {}),
    "appwrapper-policy": (WILD, ["appwrapper-namespace"], [(r"minReplicas: 1", "minReplicas: 2")], {}),
    "jobset-static": (WILD, ["static-jobset"], [(r": 4\b", ": 2"), (r"=4\b", "=2")], {}),
    "leader-worker-set": (SHAPES, ["lws"], [], {}),
    "mpijob": (SHAPES, ["mpijob"], [], {"after": PLAIN}),
    "cronjob": (SHAPES, ["cronjob"], [], {"after": ()}),  # rewrite leaves templates where they meet
    "pods": (SHAPES, ["pods"], [], {"after": PLAIN}),
    "volcano-file": (SHAPES, ["volcano-file"], [], {}),
    "volcano-hosts": (SHAPES, ["volcano-hosts"], [], {}),
    "wrappers": (SHAPES, ["wrapped"], [], {}),
    "chart": (SHAPES, ["chart"], [], {}),
    "jobset-coordinator": (SHAPES, ["jobset-variables"], [], {}),
    "kustomize": (SHAPES, ["kustomize"], [], {}),
}
USUAL = ("leader-worker-set",)


def read(folder, name):
    path = os.path.join(folder, name)
    if os.path.isdir(path):
        return subprocess.run(["kubectl", "kustomize", path], capture_output=True, text=True, check=True).stdout
    with open(path + ".yaml", encoding="utf-8") as f:
        return f.read()


def text_of(row):
    folder, names, changes, _ = row
    text = "---\n".join(read(folder, name).rstrip() + "\n" for name in names)
    for pattern, new in changes + SMALLER:
        text = re.sub(pattern, new, text, flags=re.M)
    return text


def is_script(path):
    return not path.endswith(".py")


def unable(name):
    """Why this machine cannot run it, or None."""
    folder = JOBS[name][0]
    if not os.path.isdir(folder):
        return "../shared is not there"
    if name == "accelerate" and not accelerate():
        return "$ACCELERATE names no folder with accelerate"
    if name == "kustomize" and shutil.which("kubectl") is None:
        return "there is no kubectl"
    return None


# ------------------------------------------------------------ the result

def check_result(rules, before, after):
    """The rewritten manifest has no error, and no finding that it did not have before."""
    had = {f["rule"] for f in rules(before)}
    new = [f for f in rules(after) if f["rule"] not in had or f["severity"] == "error"]
    if new:
        raise Failed("check finds in the result: %s" % "; ".join("%s: %s" % (f["rule"], f["message"]) for f in new))
