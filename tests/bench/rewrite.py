#!/usr/bin/python3
"""Measures rdzv-manifest rewrite on large manifests: never a pass or a fail.

    rewrite.py [--mebibytes 5] [--rounds 5]

One etcd with its Services, and enough jobs to reach the size: first a bundle where every job meets at this etcd, then a
bundle where every job meets elsewhere. The program is $RDZV_MANIFEST, else the one built in build/; a build with
sanitizers says nothing here.
"""

import argparse
import os
import resource
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MANIFEST = os.environ.get("RDZV_MANIFEST") or os.path.join(ROOT, "build", "deploy", "rdzv-manifest")
INPUT = os.path.join(ROOT, "tests", "manifest", "rewrite", "volcano-etcd.yaml")


def bundle(size, meets):
    """The test's input, its job again and again under other names."""
    with open(INPUT) as f:
        text = f.read()
    at = text.index("apiVersion: batch.volcano.sh")
    store, job = text[:at], text[at:]
    if not meets:
        job = job.replace("etcd-server-headless", "elsewhere")
    parts = [store]
    total = len(store)
    while total < size:
        parts.append(job.replace("yolov5-job", "job-%d" % len(parts)))
        total += len(parts[-1]) + 4
    return "---\n".join(p if p.endswith("\n") else p + "\n" for p in parts).replace(
        "---\n---\n", "---\n")


def measure(path, args, rounds):
    best, best_cpu, code = None, None, None
    for _ in range(rounds):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begin = time.monotonic()
        done = subprocess.run([MANIFEST, "rewrite"] + args + [path], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False)
        took, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        best, best_cpu, code = min(best or took, took), min(best_cpu or cpu, cpu), done.returncode
    return best, best_cpu, code


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mebibytes", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    size = int(options.mebibytes * (1 << 20))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "manifest.yaml")
        for name, meets, args in (("all jobs move to c10d", True, []),
                                  ("the same as a diff", True, ["--diff"]),
                                  ("all stay on etcd-v2", True, ["--keep-backend"]),
                                  ("none meets at the etcd", False, [])):
            with open(path, "w") as f:
                f.write(bundle(size, meets))
            took, cpu, code = measure(path, args, options.rounds)
            print("%-24s %6.1f MiB  %6.0f ms wall, %5.0f ms CPU (best of %d; exit %d) %s" % (
                name, os.path.getsize(path) / (1 << 20), took * 1000, cpu * 1000, options.rounds,
                code, "" if cpu < 1 else "over the 1 s that it is to take"))


if __name__ == "__main__":
    main()
