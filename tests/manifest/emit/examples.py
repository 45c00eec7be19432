"""The examples beside this tree, in ../shared/spec/examples if they are there: the output of emit must be equivalent to
the expected files there."""

import os
import re
import tempfile

import tool

# Input, further arguments, expected output, and the additions of our output to the expected file.
EXAMPLES = [
    (["fms/user_file.yaml"], [], "fms/expected-v1beta2.yaml"),
    (["fms/user_file.yaml"], ["--platform", "appwrapper-v1beta1", "--rdzv", "pod"],
     "fms/expected-v1beta1.yaml"),
    (["fms/user_file_vela.yaml", "fms/values-vela-roce.yaml"], [], "fms/expected-vela.yaml"),
    (["oke/job.yaml"], [], "oke/expected-volcano.yaml"),
    (["aks/job.yaml"], [], "aks/expected.yaml"),
    (["intel/values.yaml"], [], "intel/expected.yaml"),
    (["gke/values.yaml"], ["--release", "litgpt-test"], "gke/expected-job.yaml"),
    (["others/job-jobset.yaml"], [], "others/expected-jobset.yaml"),
    (["others/job-trainer-v2.yaml"], [], "others/expected-trainjob.yaml"),
    (["others/job-volcano-task.yaml"], [], "others/expected-volcano-task.yaml"),
]


def forget_size(node):
    """How large the folder of the store may be: the examples are of a store that wrote nothing."""
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        forget_size(inner)
    if isinstance(node, dict) and node.get("name") == "rdzvd-data" and "emptyDir" in node:
        node["emptyDir"] = {}


def of_today(node):
    """Without --advertise, --expect and --max_restarts, and with --space-idle-timeout: the examples
    are older than these flags, and than the restarts of jobs of fixed size."""
    forget_size(node)
    for container in [*tool.containers(node), node.get("spec", {}).get("trainer", {})]:
        if "command" in container:
            container["command"] = [w for w in container["command"] if w != "--max_restarts=100"]
        if container.get("name") == "rdzvd":
            container["args"] = [re.sub(r"^--linger=", "--space-idle-timeout=", a)
                                 for a in container["args"]
                                 if not a.startswith(("--advertise=", "--expect="))]
    return node


def in_todays_words(path, folder):
    """A copy of a user file with today's names of settings: the examples use older names."""
    with open(path, encoding="utf-8") as f:
        text = re.sub(r"\bway: (?=[a-z])", "placement: ", f.read())
    if "platform: jobset" in text:  # there, service once meant a job of the JobSet
        text = text.replace("placement: service", "placement: job")
    copy = os.path.join(folder, os.path.basename(path))
    with open(copy, "w", encoding="utf-8") as f:
        f.write(text)
    return copy


def test(check, skip):
    folder = os.path.join(tool.SHARED, "spec", "examples")
    if not os.path.isdir(folder):
        skip("%s is not there" % os.path.relpath(folder, tool.ROOT))
        return
    for inputs, args, expected in EXAMPLES:
        with tempfile.TemporaryDirectory() as words:
            files = [a for i in inputs
                     for a in ("-f", in_todays_words(os.path.join(folder, i), words))]
            got = tool.emit(*files, *args)
        with open(os.path.join(folder, expected), "rb") as f:
            want = tool.documents(f.read())
        lines = ["document %d" % len(got)] if len(want) != len(got) else []
        for a, b in zip(want, got):
            lines += tool.differences(of_today(a), of_today(b), a["kind"])
        check(not lines, "%s: %s" % (expected, "\n    ".join(lines)))
