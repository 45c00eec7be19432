#!/usr/bin/python3
"""rdzv-manifest emit, list and explain, as a user runs them.

    run_emit.py [--update] [PART...]    parts: golden examples readme bad_input values own_files
                                        store_pod restarts hooks litgpt mlbatch walk matrix

The tool is $RDZV_MANIFEST, else the one in build/; rdzvd, which judges the arguments that are
emitted for it, $RDZVD. Needs python3-yaml. --update writes the files of golden/.
"""

import importlib
import os
import sys
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "emit"))

PARTS = ["golden", "examples", "readme", "bad_input", "values", "own_files", "store_pod", "restarts", "hooks", "litgpt", "mlbatch", "walk", "matrix"]


def main():
    args = sys.argv[1:]
    update = "--update" in args
    wanted = [a for a in args if a != "--update"] or PARTS
    unknown = [w for w in wanted if w not in PARTS]
    if unknown:
        sys.exit("run_emit.py: no such part: %s; they are %s" % (unknown[0], " ".join(PARTS)))
    counts = {"passed": 0, "failed": 0, "skipped": 0}

    def check(truth, what):
        counts["passed" if truth else "failed"] += 1
        if not truth:
            print("FAIL %s: %s" % (part, what), flush=True)

    def skip(what):
        counts["skipped"] += 1
        print("skip %s: %s" % (part, what), flush=True)

    for part in wanted:
        module = importlib.import_module(part)
        try:
            if part == "golden":
                module.test(check, skip, update)
            else:
                module.test(check, skip)
        except Exception:  # pylint: disable=broad-except
            check(False, traceback.format_exc())
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
