"""Settings from several files and --set, and platforms, profiles and placements of the user's own."""

import os
import tempfile

import tool

PLATFORM = """\
platform: bare-pods
about: plain pods, one Service
placements: {supported: [service], default: service}
let:
  defaultContainer: trainer
  writesNodes: true
  writesProcs: true
  writesRestarts: true
  writesMaster: true
  masterPort: 29400
  countsRestarts: false
  restartsAlone: false
  wiresTorchrun: true
  platformPodLabels: {app: '${jobName}'}
  platformNodeRules: null
  platformRunId: ${jobName}
  platformRunEnv: null
  jobSelector: {app: '${jobName}'}
  longestName: ${jobName}
  startsWithLetter: true
  commandComment: null
  trainingPorts: null
  placementNote: null
checks:
  - if: ${podsMax > 3}
    where: ${numPods}
    message: 'numPods: ${podsMax} plain pods are too many: take a Job'
documents:
  - $concat: ${placementDocuments}
  - $for: i in ['0', '1']
    apiVersion: v1
    kind: Pod
    metadata:
      name: ${jobName + '-' + i}
      $include: trainingPodMeta
      $vars: {head: false}
    spec:
      $include: trainingPodSpec
      $vars: {head: false, resources: '${podResources}', restart: Never}
"""

BROKEN = {
    "placements: {supported: [service], default: service}\nlet: {a: '${b}'}\n": "b is not defined",
    "placements: {supported: [service], default: service}\nlet: {a: '${f(1)}'}\n": "there is no function f()",
    "placements: {supported: [service], default: service}\nlet: {a: '${1 +}'}\n": "ends too early",
    "placements: {supported: [service], default: service}\nlet: {a: {$include: nothing}}\n": "there is no part nothing",
    "placements: {supported: [service], default: service}\nparts: {a: {$include: a}}\nlet: {a: {$include: a}}\n": "circle",
    "placements: {supported: [service], default: service}\nlet: {a: '${if(1, 2'}\n": "does not end in }",
    "placements: {supported: [], default: service}\n": "cannot be on",
    "- a\n": "a mapping is expected",
}


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def own_platform(check, folder):
    path = write(folder, "pods.yaml", PLATFORM)
    job = write(folder, "job.yaml", "jobName: a\ncontainerImage: b\nmainProgram: t.py\nnumPods: 2\n")
    documents = tool.emit("-f", job, "--platform", path)
    kinds = [d["kind"] for d in documents]
    check(kinds == ["Service", "StatefulSet", "PodDisruptionBudget", "NetworkPolicy", "Pod", "Pod"],
          "own platform: %r" % kinds)
    command = documents[-1]["spec"]["containers"][0]["command"]
    check(command == ["torchrun", "--nnodes=2", "t.py"], "own platform: %r" % command)
    code, out, err = tool.run("emit", "-f", job, "--platform", path, "--set", "numPods=4")
    check(code == 2 and out == b"" and b"plain pods are too many" in err, "own checks: %r" % err)
    for text, part in BROKEN.items():
        path = write(folder, "broken.yaml", "platform: broken\nabout: x\n" + text if text[0] != "-" else text)
        code, out, err = tool.run("emit", "-f", job, "--platform", path)
        check(code == 2 and out == b"" and part in err.decode() and len(err.splitlines()) <= 2,
              "a broken platform: %r: exit %d: %s" % (text, code, err.decode()))


def built_in_as_own(check, folder):
    """What `explain platforms/NAME` prints is a file that does the same."""
    job = write(folder, "job.yaml", "jobName: a\nnamespace: n\ncontainerImage: b\nmainProgram: t.py\n")
    for name in tool.listed("platforms"):
        code, out, err = tool.run("explain", "platforms/" + name)
        path = write(folder, "own-" + name + ".yaml", out.decode())
        own = tool.run("emit", "-f", job, "--platform", path)
        check(own == tool.run("emit", "-f", job, "--platform", name) and own[0] == 0,
              "%s as a file of one's own: %s" % (name, own[2].decode()))


def own_profile(check, folder):
    path = write(folder, "mine.yaml", "profile: mine\nabout: x\nsettings:\n  shm: 8Gi\n"
                 "  environmentVariables:\n  - {name: A, value: profile}\n  - {name: B, value: profile}\n"
                 "  addCapabilities: [IPC_LOCK]\n")
    job = write(folder, "job.yaml", "jobName: a\ncontainerImage: b\nmainProgram: t.py\nplatform: job\n"
                "addCapabilities: [IPC_LOCK, SYS_PTRACE]\n"
                "environmentVariables:\n- {name: B, value: user}\n- {name: C, value: user}\n")
    pod = tool.emit("-f", job, "--profile", path)[-1]["spec"]["template"]["spec"]
    env = {e["name"]: e.get("value") for e in pod["containers"][0]["env"]}
    check([env["A"], env["B"], env["C"]] == ["profile", "user", "user"], "own profile: %r" % env)
    check(pod["containers"][0]["securityContext"]["capabilities"]["add"] == ["IPC_LOCK", "SYS_PTRACE"],
          "own profile: capabilities")
    check(any(v.get("emptyDir", {}).get("sizeLimit") == "8Gi" for v in pod["volumes"]), "own profile: shm")
    path = write(folder, "mine.yaml", "settings:\n  shmm: 8Gi\n")
    code, out, err = tool.run("emit", "-f", job, "--profile", path)
    check(code == 2 and b"mine.yaml:2:3: shmm: did you mean shm?" in err, "a broken profile: %r" % err)


def layers(check, folder):
    base = write(folder, "base.yaml", "jobName: a\ncontainerImage: b\nmainProgram: t.py\nplatform: job\n"
                 "nodeSelector: {a: x, b: y}\nenvironmentVariables: [{name: A, value: 1}]\nshm: 1Gi\n")
    over = write(folder, "over.yaml", "nodeSelector: {b: z, c: w}\nshm: null\n"
                 "environmentVariables: [{name: B, value: 2}]\n")
    pod = tool.emit("-f", base, "-f", over)[-1]["spec"]["template"]["spec"]
    check(pod["nodeSelector"] == {"a": "x", "b": "z", "c": "w"}, "mappings merge: %r" % pod["nodeSelector"])
    names = [e["name"] for e in pod["containers"][0]["env"]]
    check(names[0] == "B" and "A" not in names, "lists are replaced: %r" % names)
    check(pod["volumes"][0] == {"name": "dshm", "emptyDir": {"medium": "Memory"}}, "null removes")
    sets = ["numPods=3,nodeSelector.c=v", "environmentVariables[1].name=C,environmentVariables[1].value=a\\,b",
            "nodeSelector.kubernetes\\.io/os=linux", "addCapabilities={IPC_LOCK,SYS_PTRACE}", "nodeSelector.a=null"]
    documents = tool.emit("-f", base, *[a for s in sets for a in ("--set", s)])
    pod = documents[-1]["spec"]["template"]["spec"]
    check(documents[-1]["spec"]["completions"] == 3, "--set numPods")
    check(pod["nodeSelector"] == {"b": "y", "c": "v", "kubernetes.io/os": "linux"}, "%r" % pod["nodeSelector"])
    env = {e["name"]: e.get("value") for e in pod["containers"][0]["env"]}
    check(env["A"] == "1" and env["C"] == "a,b", "--set in lists: %r" % env)
    check(pod["containers"][0]["securityContext"]["capabilities"]["add"] == ["IPC_LOCK", "SYS_PTRACE"], "--set {}")


def test(check, skip):
    with tempfile.TemporaryDirectory() as folder:
        own_platform(check, folder)
        built_in_as_own(check, folder)
        own_profile(check, folder)
        layers(check, folder)
