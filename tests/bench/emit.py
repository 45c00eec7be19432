#!/usr/bin/python3
"""How long rdzv-manifest emit takes, a process each time, for a job of 1,000 pods on every platform.

    emit.py [--runs N] [--limit MS]

The tool is $RDZV_MANIFEST, else the one in build/. Prints milliseconds of wall clock and of CPU,
medians; with --limit, exit 1 when a median of the CPU is above it.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.environ.get("RDZV_MANIFEST", os.path.join(ROOT, "build", "deploy", "rdzv-manifest"))
PLATFORMS = ["volcano", "pytorchjob", "appwrapper-v1beta1", "appwrapper-v1beta2", "jobset", "job",
             "trainjob", "pods"]
JOB = """\
jobName: train
namespace: ml
containerImage: registry.example/trainer:1
numPods: 1000
numGpusPerPod: 8
numCpusPerPod: 64
totalMemoryPerPod: 1Ti
setupCommands: [cd /workspace]
mainProgram: train.py --epochs 3
"""


def cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(args, runs):
    walls, cpus, size = [], [], 0
    for _ in range(runs):
        before, start = cpu(), time.monotonic()
        out = subprocess.run([TOOL, *args], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             check=True).stdout
        walls.append((time.monotonic() - start) * 1000)
        cpus.append((cpu() - before) * 1000)
        size = len(out)
    return statistics.median(walls), statistics.median(cpus), size


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=31)
    parser.add_argument("--limit", type=float)
    options = parser.parse_args()
    above = False
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "job.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(JOB)
        for platform in PLATFORMS:
            wall, used, size = measure(["emit", "-f", path, "--platform", platform], options.runs)
            print("emit, 1,000 pods, %-18s  %6.1f ms, CPU %5.1f ms, %d bytes"
                  % (platform, wall, used, size))
            above = above or (options.limit is not None and used > options.limit)
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
