#!/usr/bin/python3
"""Ways to write a launch: bash itself says which options torchrun gets, and the tool must have read just these.

    launches.py [--tell] [WORD]...

Each way starts in a real shell, before and after rewrite, where torchrun and programs in front of it write down their
words. The options that check saw must be those; rewrite moves all of the launch, or refuses or leaves it, and says so.
$RDZV_MANIFEST names the tool.
"""

import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from agree import OPTIONS, READ, UNREAD, run, scripted
from manifests import check, yaml

# ------------------------------------------------------------ programs

RECORD = """#!/usr/bin/python3
import json, os, sys
words = sys.argv[1:]
name = os.path.basename(sys.argv[0])
if name.startswith("python"):
    at = [i for i, w in enumerate(words) if w.endswith("torchrun") or w == "torch.distributed.run" or w == "-mtorch.distributed.run"]
    if not at:
        os.execv("/usr/bin/python3", ["python3"] + words)
    words = words[at[0] + 1:]
with open(os.environ["RECORD"], "a") as f:
    f.write(json.dumps([words, {k[4:].lower(): v for k, v in os.environ.items() if k.startswith("PET_")}]) + "\\n")
"""
# A program in front of a launcher: it starts the first word that is one, or a shell.
WRAPPER = """#!/bin/bash
while [ $# -gt 0 ]; do
    case "${1##*/}" in
    torchrun | python | python3 | bash | sh | env | hyperpodrun | ft_launcher) exec "$@" ;;
    gpu:torchrun) shift; exec torchrun "$@" ;;
    esac
    shift
done
"""
TEXT = """#!/bin/bash
while [ $# -gt 0 ]; do
    case "$1" in -c) exec bash -c "$2" ;; esac
    shift
done
"""
LAUNCHERS = ("torchrun", "python", "python3", "python3.11", "ft_launcher", "dlrover-run", "hyperpodrun", "launch")
GONE = "/opt/launch"  # in the container's own root
WRAPPERS = ("sudo", "gosu", "runuser", "uvx", "hatch", "ddtrace-run", "opentelemetry-instrument", "py-spy", "numactl", "conda", "uv",
            "poetry", "nsys", "tini", "dumb-init", "xvfb-run", "catchsegv", "accelerate-wrap", "chrt", "micromamba", "su-exec", "apptainer")
SILENT = ("curl", "pip", "nvidia-smi", "sleep", "getent", "ulimit")


def fill(folder):
    """The programs of an image, as a PATH."""
    for names, text in ((LAUNCHERS, RECORD), (WRAPPERS, WRAPPER), (("su", "script"), TEXT), (SILENT, "#!/bin/sh\n"),
                        (("tune",), '#!/bin/sh\nshift\nexec launch "$@"\n')):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            os.chmod(path, 0o755)


# ------------------------------------------------------------ ways

SET = "E=train-0.nodes:29500; "
T = "torchrun OPTIONS t.py"
LIST = "['torchrun', '--nnodes=4', '--rdzv_backend=c10d', '--rdzv_id=a', '--rdzv_endpoint=train-0.nodes:29500', 't.py']"
# Beside those of agree.py. A text is a script of bash, a list the words of the container.
WAYS = [
    # Around the command
    T + " || exit 1", T + " && echo done", T + " 2>&1 | tee /dev/null", "( " + T + " )", "{ " + T + "; }", "time " + T,
    T + " &\nwait $!", "if " + T + "; then echo good; else exit 1; fi", "if true; then\n  " + T + "\nfi", "! " + T + " || exit 1",
    "for i in 1; do " + T + " && break; done", "until " + T + "; do sleep 5; done", "while true; do " + T + "; break; done",
    "case $JOB_COMPLETION_INDEX in\n  *) " + T + " ;;\nesac", "case a in a) " + T + ";; b) echo b;; esac", "exec " + T, "exec -a me " + T,
    "nohup " + T + " >/dev/null 2>&1", "trap 'echo end' TERM; " + T, "set -euo pipefail; " + T + " > >(cat) 2>&1", "OUT=$(" + T + ")",
    "echo \"$(" + T + ")\"", "\\torchrun OPTIONS t.py", '"torchrun" OPTIONS t.py', "command " + T, "A=1 B='x y' " + T, "env A=1 " + T,
    "env -i PATH=\"$PATH\" RECORD=$RECORD " + T, "torchrun OPTIONS t.py # torchrun --nnodes=9", "# torchrun --nnodes=9\n" + T,
    "stdbuf -oL " + T, "timeout 1h " + T, "timeout -k 5 60 " + T, "nice -n 5 " + T, "setsid -w " + T, "taskset -c 0 " + T,
    "flock ./launches.lock " + T, "xargs torchrun <<< 'OPTIONS t.py'", "echo OPTIONS t.py | xargs torchrun",
    # Texts for a shell
    "bash <<< 'torchrun OPTIONS t.py'", "bash -s <<'E'\ntorchrun OPTIONS t.py\nE", "bash /dev/stdin <<'E'\ntorchrun OPTIONS t.py\nE",
    "cat <<'E' >./launches.go\ntorchrun OPTIONS t.py\nE\nsource ./launches.go", "tee ./launches.go >/dev/null <<'E'\ntorchrun OPTIONS t.py\nE\nsh ./launches.go",
    "su -c 'torchrun OPTIONS t.py' root", "script -q -c 'torchrun OPTIONS t.py' /dev/null", "sudo bash -c 'torchrun OPTIONS t.py'",
    ["bash", "--noprofile", "-c", T], ["/bin/bash", "-exc", T], ["env", "bash", "-c", T], ["tini", "--", "bash", "-c", T],
    ["sh", "-c", "--", T], ["sh", "-c", "exec \"$0\" \"$@\"", "torchrun", "OPTIONS", "t.py"], ["bash", "-c", "\"$@\"", "x", "torchrun", "OPTIONS", "t.py"],
    ["/bin/sh", "-c", "eval \"$1\"", "x", T], ["bash", "-c", "bash -c \"bash -c 'torchrun OPTIONS t.py'\""],
    ["bash", "-o", "pipefail", "-c", T], ["bash", "+x", "-c", T], ["env", "-S", "torchrun OPTIONS t.py"],
    # Texts of Python
    ["python", "-c", "import os; os.system('torchrun OPTIONS t.py')"], ["python", "-c", "import subprocess; subprocess.call(" + LIST + ")"],
    "python - <<'E'\nimport subprocess\nsubprocess.call(" + LIST + ")\nE",
    # Values
    SET + "torchrun --nnodes=4 --rdzv_backend=c10d --rdzv_id=a --rdzv_endpoint $E t.py",
    SET + "torchrun --nnodes 4 --rdzv-backend c10d --rdzv-id a --rdzv-endpoint \"${E}\" t.py",
    "H=train-0.nodes P=29500; torchrun --nnodes=4 --rdzv_backend=c10d --rdzv_id=a --rdzv_endpoint=\"$H\":\"$P\" t.py",
    "H=train-0; torchrun --nnodes=4 --rdzv_backend=c10d --rdzv_id=a --rdzv_endpoint=${H}.nodes:29500 t.py",
    "torchrun --nnodes=$((2 + 2)) --rdzv_backend=c10d --rdzv_id=a --rdzv_endpoint=train-0.nodes:29500 t.py",
    "N=4; torchrun --nnodes=$((N)) --rdzv_backend=c10d --rdzv_id=a --rdzv_endpoint=train-0.nodes:29500 t.py",
    "torchrun --nnodes=4 --rdzv_b=c10d --rdzv_i=a --rdzv_e=train-0.nodes:29500 t.py",
    "torchrun --nnodes=2 --nnodes=4 --rdzv_backend=c10d --rdzv_id=a --rdzv_endpoint=x:1 --rdzv_endpoint=train-0.nodes:29500 t.py",
    "A=\"OPTIONS\"; torchrun ${A} t.py", "A='OPTIONS' ; CMD=\"torchrun $A t.py\"; $CMD", "CMD=\"torchrun OPTIONS t.py\"; eval $CMD",
    "CMD=\"torchrun OPTIONS t.py\"; bash -c \"$CMD\"", "CMD=(torchrun OPTIONS t.py); \"${CMD[@]}\"", "CMD=\"python -m torch.distributed.run\"; $CMD OPTIONS t.py",
    "declare -a A=(OPTIONS); torchrun \"${A[@]}\" t.py", "A=(); A+=(OPTIONS); torchrun \"${A[@]}\" t.py", "A=(OPTIONS)\nA=(\"${A[@]}\" --max_restarts=3)\ntorchrun \"${A[@]}\" t.py",
    "A=(OPTIONS); torchrun \"${A[@]:0}\" t.py", "A=(torchrun t.py OPTIONS); ${A[0]} OPTIONS t.py", "f() { local N=4; torchrun --nnodes=$N \"$@\"; }\nf --rdzv_backend=c10d --rdzv_id=a --rdzv_endpoint=train-0.nodes:29500 t.py",
    "function go { torchrun OPTIONS $1; }; go t.py", "printf -v A '%s ' OPTIONS; torchrun $A t.py", "read -r A <<< 'OPTIONS'; torchrun $A t.py",
    "export PET_NNODES=4 PET_RDZV_BACKEND=c10d PET_RDZV_ID=a PET_RDZV_ENDPOINT=train-0.nodes:29500; torchrun t.py",
    "PET_NNODES=4 PET_RDZV_BACKEND=c10d PET_RDZV_ID=a PET_RDZV_ENDPOINT=train-0.nodes:29500 torchrun t.py",
    "set -a; PET_RDZV_ENDPOINT=train-0.nodes:29500; set +a; torchrun --nnodes=4 --rdzv_backend=c10d --rdzv_id=a t.py",
    "env PET_RDZV_ENDPOINT=train-0.nodes:29500 torchrun --nnodes=4 --rdzv_backend=c10d --rdzv_id=a t.py",
    "HOSTS=train-0.nodes,train-1.nodes; torchrun --nnodes=4 --rdzv_backend=c10d --rdzv_id=a --rdzv_endpoint=${HOSTS%%,*}:29500 t.py",
    "URL=tcp://train-0.nodes:29500; torchrun --nnodes=4 --rdzv_backend=c10d --rdzv_id=a --rdzv_endpoint=${URL#tcp://} t.py",
    "X=train-0; torchrun --nnodes=4 --rdzv_backend=c10d --rdzv_id=a --rdzv_endpoint=${X:+$X.nodes}:29500 t.py",
    "[ -n \"$DEBUG\" ] && A=--max_restarts=3; torchrun $A OPTIONS t.py", "[ \"$JOB_COMPLETION_INDEX\" = 0 ] || A=--role=x; torchrun OPTIONS $A t.py",
    "if [ \"$MODE\" = x ]; then A='--rdzv_endpoint=other:1'; else A='--rdzv_endpoint=train-0.nodes:29500'; fi; torchrun --nnodes=4 --rdzv_backend=c10d --rdzv_id=a $A t.py",
    "torchrun --nnodes=4 --rdzv_backend=c10d --rdzv_id=a --rdzv_endpoint=$UNSET:29500 t.py", "torchrun --nnodes=${UNSET:?} OPTIONS t.py",
    "torchrun OPT{ION,ION}S t.py".replace("OPT{ION,ION}S", "--{nnodes=4,rdzv_backend=c10d} --rdzv_id=a --rdzv_endpoint=train-0.nodes:29500"),
    "torchrun $'--nnodes=4' --rdzv_backend=c10d --rdzv_id=a --rdzv_endpoint=train-0.nodes:29500 t.py",
    "torchrun --nnodes=4 \\\n  --rdzv_backend=c10d \\\n  --rdzv_id=a \\\n  --rdzv_endpoint=train-0.nodes:29500 \\\n  t.py",
    "torchrun --nnodes=4 `# the nodes` \\\n  --rdzv_backend=c10d --rdzv_id=a --rdzv_endpoint=train-0.nodes:29500 t.py",
    "torchrun OPTIONS t.py <<'E'\nyes\nE", "torchrun OPTIONS t.py <<< yes", "xargs -n 9 torchrun t.py <<< 'OPTIONS'",
    "torchrun --nnodes=4 $(: none) --rdzv_backend=c10d --rdzv_id=a --rdzv_endpoint=train-0.nodes:29500 t.py",
    "env -u X PET_RDZV_ENDPOINT=train-0.nodes:29500 PET_NNODES=4 torchrun --rdzv_backend=c10d --rdzv_id=a t.py",
    ["env", "PET_RDZV_ENDPOINT=train-0.nodes:29500", "torchrun", "--nnodes=4", "--rdzv_backend=c10d", "--rdzv_id=a", "t.py"],
    "echo \"torch $(python3 -c 'import sys') of $(torchrun --version)\"; torchrun OPTIONS t.py",
    # Other words for torchrun
    "python -u -m torch.distributed.run OPTIONS t.py", "python3.11 -X faulthandler -m torch.distributed.run OPTIONS t.py",
    "python -mtorch.distributed.run OPTIONS t.py", "PYTHON=python3; $PYTHON -m torch.distributed.run OPTIONS t.py", "T=$(which torchrun); $T OPTIONS t.py",
    "$(command -v torchrun) OPTIONS t.py", "`which torchrun` OPTIONS t.py", "hyperpodrun OPTIONS t.py",
    ["numactl", "--cpunodebind=0", "torchrun", "OPTIONS", "t.py"], ["conda", "run", "--no-capture-output", "-n", "x", "torchrun", "OPTIONS", "t.py"],
    ["uv", "run", "--", "torchrun", "OPTIONS", "t.py"], ["poetry", "run", "python", "-m", "torch.distributed.run", "OPTIONS", "t.py"],
    ["nsys", "profile", "-o", "x", "--trace", "cuda", "torchrun", "OPTIONS", "t.py"], ["xvfb-run", "-a", "torchrun", "OPTIONS", "t.py"],
    ["apptainer", "exec", "--nv", "img.sif", "torchrun", "OPTIONS", "t.py"], ["su-exec", "me:me", "torchrun", "OPTIONS", "t.py"],
]


def values(words, variables):
    """What torchrun reads: variables, and the last of each option, by its whole name or its beginning."""
    found = {"nnodes": "1", "rdzv_backend": "", "rdzv_endpoint": "", "rdzv_id": "", "rdzv_conf": ""}
    found.update({k: v for k, v in variables.items() if k in found})
    for i, word in enumerate(words):
        match = re.match(r"--([a-z_-]+)(?:=(.*))?$", word, re.S)
        if word == "t.py":
            break
        name = match and match.group(1).replace("-", "_")
        names = [n for n in found if name and n.startswith(name)]
        if len(names) == 1 and not (names[0] == "nnodes" and len(name) < 2):
            found[names[0]] = match.group(2) if match.group(2) is not None else words[i + 1]
    return found


def started(text, folder):
    """What the launches of the job read, as its container would start; None: nothing started."""
    docs = [d for d in yaml.safe_load_all(text) if d]
    maps = {d["metadata"]["name"]: d["data"] for d in docs if d["kind"] == "ConfigMap"}
    spec = [d for d in docs if d["kind"] == "Job"][0]["spec"]["template"]["spec"]
    c, record, scripts = spec["containers"][0], os.path.join(folder, "record"), os.path.join(folder, "scripts")
    os.makedirs(scripts, exist_ok=True)
    path = os.path.join(scripts, "go.sh")
    with open(path, "w", encoding="utf-8") as f:
        f.write(maps["scripts"]["go"])
    os.chmod(path, 0o755)
    open(record, "w", encoding="utf-8").close()
    env = {"PATH": folder + "/bin:/usr/bin:/bin", "RECORD": record, "JOB_COMPLETION_INDEX": "0", "HOSTNAME": "train-0"}
    env.update({e["name"]: e.get("value", "") for e in c.get("env") or []})
    words = [re.sub(r"(?<![\w/])/(scripts|w)/", r"%s/\1/" % folder, w) for w in c["command"]]
    words[0] = words[0].replace(GONE, folder + "/bin/launch")
    words = [re.sub(r"(?<=cd )/scripts", scripts, w).replace("/run.sh", folder + "/run.sh") for w in words]
    os.makedirs(folder + "/w", exist_ok=True)
    try:
        subprocess.run(words, env=env, cwd=folder, capture_output=True, check=False, timeout=20, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return None
    with open(record, encoding="utf-8") as f:
        found = [values(*json.loads(line)) for line in f]
    return found[-1] if found else None


def judge(words, folder):
    """`read`, `unread` or what is wrong."""
    text = scripted(words)
    real = started(text, folder)
    seen = json.loads(run("check", "--show", "-", data=text)[1])["jobs"]
    said = run("check", "-", data=text)[2]
    code, out, err = run("rewrite", "-", data=text)
    unread = " not looked at: " in said
    if code == 2:
        if out:
            return "refused, with an output"
    elif out == text:
        if not unread and "leaves it as it is" not in err and real and "train-0" in real["rdzv_endpoint"]:
            return "left without a word: " + err
    else:
        moved = started(out, folder)
        if real and (not moved or moved["rdzv_endpoint"] != "train-rdzv:29400" or moved["rdzv_backend"] != "c10d" or (
                "is_host=0" not in moved["rdzv_conf"] or moved["nnodes"] != real["nnodes"])):
            return "half: %s" % moved
    if unread:
        return "unread"
    job = [j for j in seen if j["kind"] in ("Job", "ConfigMap")]
    if real is None:
        return "does not start"
    if not job:
        return "not seen: %s" % real
    got = {"nnodes": str(job[0].get("nodesMin")), "rdzv_backend": job[0].get("backend", ""), "rdzv_id": job[0].get("id", ""),
           "rdzv_endpoint": job[0].get("endpoint", "")}
    wrong = {k: (v, real[k]) for k, v in got.items() if v != real[k] and "$" not in v and v != "None"}
    return "wrong: (seen, real) %s" % wrong if wrong else "read" if code == 0 and out != text else "read, and not moved: " + err[-300:]


def main():
    wanted = [w for w in sys.argv[1:] if w != "--tell"]
    folder, count, failed = tempfile.mkdtemp(prefix="rdzv-launches-"), {}, []
    os.makedirs(folder + "/bin")
    fill(folder + "/bin")

    def judged(words):
        own = tempfile.mkdtemp(dir=folder)
        os.symlink(folder + "/bin", own + "/bin")
        return words, judge(words, own)

    ways = [w for w in WAYS + READ + UNREAD if w and (not wanted or any(one in str(w) for one in wanted))]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(judged, ways))
    for words, result in results:
        kind = re.split("[:,]", result)[0]
        count[kind] = count.get(kind, 0) + 1
        if "--tell" in sys.argv and kind != "read":
            print("%s\n    %s" % (str(words).replace("\n", "\n    "), result), flush=True)
        if kind not in ("read", "unread", "does not start"):
            failed.append((words, result))
    shutil.rmtree(folder)
    print("%d ways: %s" % (sum(count.values()), ", ".join("%d %s" % (n, k) for k, n in sorted(count.items()))))
    check(not failed, "\n".join("%s: %s" % f for f in failed))


if __name__ == "__main__":
    sys.exit(main())
