"""The generator of mlbatch: its chart's own test cases, with the snapshots of what it renders
(../shared/corpus/manifests/pairs). emit of the same settings means the same, but for the rendezvous."""

import os
import re
import tempfile

import yaml

import tool

PAIRS = os.path.join(tool.SHARED, "corpus", "manifests", "pairs")


def set_path(settings, path, value):
    if path == "volumes":  # whose claims have names there that Kubernetes does not allow
        value = [dict(v, claimName=v["claimName"].lower()) for v in value]
    keys = path.split(".")
    for key in keys[:-1]:
        settings = settings.setdefault(key, {})
    settings[keys[-1]] = value


def without(node):
    """A copy without empty values and without devices whose count is 0."""
    if isinstance(node, dict):
        out = {k: without(v) for k, v in node.items() if not (k.startswith("nvidia.com/") and v == 0)}
        return {k: v for k, v in out.items() if v not in ([], {}, None)}
    return [without(v) for v in node] if isinstance(node, list) else node


def user_commands(script):
    """The user's part of the chart's script, and the program that torchrun gets."""
    own = script.split("# User commands\n#\n")[1].rstrip("\n").split("\n")
    torchrun = [line for line in own if line.startswith("torchrun ")]
    setup = [line for line in own if not line.startswith(("torchrun ", "echo executing: torchrun "))]
    return setup, torchrun[0].split('" ')[-1] if torchrun else None


def compare_pods(want, got, sakkara):
    """The lines in which two pod templates differ, but for the rendezvous."""
    a, b = want["spec"], got["spec"]
    x, y = a["containers"][0], b["containers"][0]
    setup, program = user_commands(x.pop("command")[2])
    lines = []
    if sakkara:  # a rank from the scheduler, which a rendezvous over c10d does not ask for; emit says so
        setup = [line for line in setup if "SAKKARA" not in line.upper()]
    script = y.pop("command")[2].rstrip("\n").split("\n")
    if script[:-1] != setup or not re.fullmatch(
            r"exec torchrun --nnodes=4 --nproc_per_node=8 " + re.escape(program), script[-1]):
        lines.append("script: %r, not %r and %r" % (script, setup, program))
    ours = {e["name"] for e in y.get("env", []) if e["name"].startswith("PET_")}
    if not {"PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "PET_RDZV_ID", "PET_RDZV_CONF"} <= ours:
        lines.append("rendezvous: %r" % ours)
    y["env"] = sorted((e for e in y["env"] if e["name"] not in ours), key=lambda e: e["name"])
    x["env"] = sorted((e for e in x.get("env", []) if e["name"] != "SAKKARA_RANK"), key=lambda e: e["name"])
    for key in ("enableServiceLinks", "dnsPolicy"):
        b.pop(key, None)
    b["initContainers"] = [c for c in b.get("initContainers", []) if c["name"] != "rdzvd"]
    b["volumes"] = [v for v in b.get("volumes", []) if v["name"] != "rdzvd-data"]
    labels = dict(got.get("metadata", {}).get("labels", {}))
    labels.pop("rdzvd", None)
    lines += tool.differences(without(want.get("metadata", {}).get("labels", {})), labels, "labels")
    lines += tool.differences(without(want.get("metadata", {}).get("annotations", {})),
                              got.get("metadata", {}).get("annotations", {}), "annotations")
    return lines + tool.differences(without(a), without(b), "spec")


def test(check, skip):
    if not os.path.isdir(PAIRS):
        skip("%s is not there" % os.path.relpath(PAIRS, tool.ROOT))
        return
    with open(os.path.join(PAIRS, "mlbatch-helloworld_test.yaml"), encoding="utf-8") as f:
        cases = yaml.safe_load(f)["tests"]
    with open(os.path.join(PAIRS, "mlbatch-helloworld_test.snap.yaml"), encoding="utf-8") as f:
        snapshots = yaml.safe_load(f)
    base = os.path.join(tool.SHARED, "corpus", "manifests", "user", "mlbatch-tests-helloworld.yaml")
    compared = refused = 0
    for case in cases:
        over = {}
        for path, value in (case.get("set") or {}).items():
            set_path(over, path, value)
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
            yaml.safe_dump(over, f)
            f.flush()
            code, out, err = tool.run("emit", "-f", base, "-f", f.name)
        if any("failedTemplate" in a for a in case["asserts"]):
            refused += 1
            check(code == 2 and not out, "%s: exit %d: %s" % (case["it"], code, out.decode()))
            continue
        check(code == 0, "%s: exit %d: %s" % (case["it"], code, err.decode()))
        snapshot = snapshots.get(case["it"])
        if code != 0 or snapshot is None:
            if case["it"] == "queueName can be disabled":
                wrapper = [d for d in tool.documents(out) if d["kind"] == "AppWrapper"][0]
                check("labels" not in wrapper["metadata"], "%s: %r" % (case["it"], wrapper["metadata"]))
            continue
        want = yaml.safe_load(re.sub(r"(?<=claimName: )\S+", lambda m: m.group(0).lower(), snapshot[1]))
        got = [d for d in tool.documents(out) if d["kind"] == "AppWrapper"][0]
        if want["kind"] == "AppWrapper":
            check(not tool.differences(want["metadata"].get("labels"), got["metadata"].get("labels")),
                  "%s: %r" % (case["it"], got["metadata"]))
            want = want["spec"]["components"][0]["template"]
        elif "components" in want:
            want = want["components"][0]["template"]
        job = [c["template"] for c in got["spec"]["components"] if c["template"]["kind"] == "PyTorchJob"][0]
        replicas, made = want["spec"]["pytorchReplicaSpecs"], job["spec"]["pytorchReplicaSpecs"]
        lines = ["replicas: %r" % list(made)] if set(replicas) != set(made) else []
        for name in set(replicas) & set(made):
            for key in ("replicas", "restartPolicy"):
                lines += tool.differences(replicas[name][key], made[name][key], "%s.%s" % (name, key))
            lines += ["%s: %s" % (name, line) for line in
                      compare_pods(replicas[name]["template"], made[name]["template"], "sakkara" in repr(over))]
        compared += 1
        check(not lines, "%s: %s" % (case["it"], "\n    ".join(lines)))
    check(compared >= 8 and refused >= 4, "%d compared, %d refused" % (compared, refused))
