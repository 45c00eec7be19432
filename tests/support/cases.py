"""Runs the cases of a test file: functions marked with @case, one after the other.

A case passes when it returns None, fails when it raises, and is skipped when it returns a reason.
"""

import sys
import traceback

CASES = []


def case(function):
    CASES.append(function)
    return function


def check(truth, what):
    if not truth:
        raise AssertionError(what)


def run(path):
    """Runs all cases, or those with a word of the command line in their name; the exit code.
    `path` is the test file's, as a command line that repeats one case names it."""
    words = sys.argv[1:]
    passed = failed = skipped = 0
    for function in CASES:
        name = function.__name__
        if words and not any(word in name for word in words):
            continue
        try:
            why = function()
            if why:
                print("skip %s: %s" % (name, why), flush=True)
                skipped += 1
            else:
                passed += 1
        except Exception:  # every failure is one, whatever was raised
            failed += 1
            print("FAIL %s (again: python3 %s %s)" % (name, path, name), flush=True)
            traceback.print_exc(file=sys.stdout)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0
