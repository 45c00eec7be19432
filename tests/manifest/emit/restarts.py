"""torchrun's restarts in jobs of fixed size: the platform gives them if a failed container or pod starts again
while the others go on. The user's own number stays."""

import json
import re

import tool

JOB = {"jobName": "train", "namespace": "ml", "containerImage": "b:1", "numPods": 4, "mainProgram": "t.py"}
ENV = [{"name": "PET_MAX_RESTARTS", "value": "7"}]
# Without a policy, with OnFailure, with Never.
USUAL = {"volcano": "100 100 100", "pytorchjob": "100 100 -", "appwrapper-v1beta1": "- 100 -",
         "appwrapper-v1beta2": "- 100 -", "jobset": "- - -", "job": "- - -", "trainjob": "100 100 100",
         "pods": "- 100 -"}
# With `restarts: 0` and with `restarts: 3`: for a JobSet and a Job it is another number, too.
SAID = {"jobset": "- -", "job": "- 3"}


def restarts(platform, **more):
    """The one number that torchrun is given, or `-`."""
    out = json.dumps(tool.emit("-f", "-", "--platform", platform, stdin=json.dumps({**JOB, **more}).encode()))
    found = set(re.findall(r'--max_restarts=(\d+)', out) +
                re.findall(r'"PET_MAX_RESTARTS", "value": "(\d+)"', out))
    return " and ".join(sorted(found)) or "-"


def test(check, skip):
    for platform, usual in USUAL.items():
        got = [restarts(platform, **p) for p in ({}, {"restartPolicy": "OnFailure"}, {"restartPolicy": "Never"})]
        check(" ".join(got) == usual, "%s: %s, not %s" % (platform, got, usual))
        got = [restarts(platform, restarts=n) for n in (0, 3)]
        check(" ".join(got) == SAID.get(platform, "0 3"), "%s: restarts 0 and 3 become %s" % (platform, got))
        got = restarts(platform, environmentVariables=ENV)
        check(got == "7", "%s: PET_MAX_RESTARTS 7 becomes %s" % (platform, got))
        got = restarts(platform, numPods=1)
        check(got == "-", "%s: one pod gets %s" % (platform, got))
    got = [restarts("volcano", command=["torchrun", "--nnodes=4", "t.py"], mainProgram=None, **more)
           for more in ({}, {"restarts": 0}, {"environmentVariables": ENV})]
    check(got == ["100", "0", "7"], "a command of the user's own: %s" % got)
    got = restarts("volcano", setupCommands=["export PET_MAX_RESTARTS=7"])
    check(got == "-", "a script that says it: %s" % got)
