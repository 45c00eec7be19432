"""The preStop hook of rdzv.drainSeconds: on every platform, and run against a store with agents."""

import os
import subprocess
import sys
import tempfile
import threading

import matrix
import tool

sys.path.append(os.path.join(tool.HERE, "..", "..", "elastic"))
import scene  # noqa: E402
from agents import meet  # noqa: E402
from servers import OPERATOR  # noqa: E402

TOKEN = OPERATOR["Authorization"].split()[1]

BASE = """\
jobName: train
containerImage: registry.example/trainer:1
nodes: {min: 2, max: 4}
mainProgram: train.py
"""
RDZV = "rdzv: {drainSeconds: 60, adminToken: {name: admin, key: token}%s}\n"
MORE = {
    "relay": "",
    "service": "",
    "replicas": ", journal: {endpoints: [etcd-0.etcd:2379]}",
    "external": ", endpoint: 'rdzvd.infra:29400', id: train.7",
    "shared relay": ", endpoint: 'rdzvd.infra:29400'",
}


def emit(*args, placement, more=""):
    return tool.run("emit", "-f", "-", "--rdzv", placement, *args, stdin=(BASE + RDZV % more).encode())


def hooks(out):
    """Of each training container: its hook and the time that its pod has."""
    for pod in tool.find_all(tool.documents(out, quickly=True), "spec"):
        for container in pod.get("containers") or [] if isinstance(pod, dict) else []:
            if container["name"] != "rdzvd":
                yield container["lifecycle"]["preStop"]["exec"]["command"], pod["terminationGracePeriodSeconds"]


def test_platforms(check, skip):
    judge = matrix.validator() if os.path.isdir(os.path.join(tool.SHARED, "tools")) else None
    if judge is None:
        skip("the checker of ../shared/tools is not there")
    with tempfile.TemporaryDirectory() as folder:
        for platform in matrix.PLATFORMS:
            for name, more in MORE.items():
                what = "%s, %s" % (platform, name)
                code, out, err = emit("--platform", platform, placement=name.split()[-1], more=more)
                if code != 0 and b"drainSeconds" not in err:
                    continue  # the platform has no such placement
                check(code == 0 and {grace for _, grace in hooks(out)} == {100}, "%s: %s" % (what, err.decode()))
                path = os.path.join(folder, "a.yaml")
                with open(path, "wb") as f:
                    f.write(out)
                ignored = ["--ignore", "rdzv-id-fixed", "--ignore", "rdzv-id-shared"] if platform == "pods" else []
                code, told, err = tool.run("check", *ignored, path)
                check(code == 0, "%s: our own check: %s%s" % (what, told.decode(), err.decode()))
                if judge is not None:
                    check(judge(path) == [], "%s: %s" % (what, judge(path)))


def command_of(port, token, space):
    """A hook for a store at that port of this machine, which reads the operator's token from that file."""
    (command, _), = hooks(emit("--platform", "job", placement="relay", more=", endpoint: 'rdzvd:1'")[1])
    script = command[2].replace("localhost:29400", "127.0.0.1:%d" % port)
    return [*command[:2], script.replace("/etc/rdzvd/operator/token", token).replace("$POD_NAMESPACE.train", space)]


def test_hook(check):
    """It returns when the node trains no more, and its order ends with the agent."""
    with scene.daemon() as server, tempfile.TemporaryDirectory() as folder:
        agents = meet(server.port, "job", ["10.0.0.1", "10.0.0.2"])
        token = os.path.join(folder, "token")
        command = command_of(server.port, token, "$SPACE")

        def run(word, space="default"):
            with open(token, "w", encoding="utf-8") as f:
                f.write(word + "\n")
            env = dict(os.environ, PET_LOCAL_ADDR="10.0.0.1", SPACE=space)
            return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)

        check("token" in run("wrong").stderr, "a wrong token: %r" % run("wrong"))
        check("No such space" in run(TOKEN, "none").stderr, "another space")
        done = []
        thread = threading.Thread(target=lambda: done.append(run(TOKEN)))
        thread.start()
        server.wait_log("event=operator_order space=default order=drain about=10.0.0.1 .*by=\"preStop at ")
        key = b"/rdzvd/drain"
        client = scene.Peer(server.port)
        client.set(b"/rdzvd/checkpointed", b"%d" % scene.json.loads(client.get(key))["id"])
        thread.join()
        check(done[0].returncode == 0 and done[0].stderr == "", "%r" % done)
        server.wait_log("event=drain_over .*confirmed")
        agents[0].close()
        server.wait_log("order=uncordon about=10.0.0.1")


def test(check, skip):
    test_platforms(check, skip)
    test_hook(check)
