"""Runs the cases of a test file: functions marked with @case, one after the other or side by side.

A case passes when it returns None, fails when it raises, and is skipped when it returns a reason.
"""

import concurrent.futures
import sys
import threading
import time
import traceback

CASES = []


def case(function):
    CASES.append(function)
    return function


def check(truth, what):
    if not truth:
        raise AssertionError(what)


def until(ask, what, seconds=30):
    """Asks until the answer is something, and returns it. `what` says what did not come."""
    deadline = time.monotonic() + seconds
    while True:
        answer = ask()
        if answer:
            return answer
        check(time.monotonic() < deadline, "not within %d s: %s" % (seconds, what))
        time.sleep(0.05)


class OutputByThread:
    """Keeps the output of each case by itself while cases run side by side."""

    def __init__(self, real):
        self.real, self.local = real, threading.local()

    def begin(self):
        self.local.text = []

    def end(self):
        text, self.local.text = "".join(self.local.text), None
        return text

    def write(self, text):
        kept = getattr(self.local, "text", None)
        if kept is None:
            self.real.write(text)
        else:
            kept.append(text)

    def flush(self):
        self.real.flush()


def run_case(function, path):
    """Returns "passed", "skipped" or "failed"."""
    name = function.__name__
    try:
        why = function()
    except Exception:  # every failure is one, whatever was raised
        print("FAIL %s (again: python3 %s %s)" % (name, path, name), flush=True)
        traceback.print_exc(file=sys.stdout)
        return "failed"
    if why:
        print("skip %s: %s" % (name, why), flush=True)
    return "skipped" if why else "passed"


def run_side_by_side(wanted, path, at_once):
    out = sys.stdout = OutputByThread(sys.stdout)

    def run_alone(function):
        out.begin()
        began = time.monotonic()
        result = run_case(function, path)
        return result, time.monotonic() - began, out.end()

    results = []
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        for function, done in [(f, pool.submit(run_alone, f)) for f in wanted]:
            result, seconds, text = done.result()
            print("%s %s (%.1f s)\n%s" % (result, function.__name__, seconds, text), end="", flush=True)
            results.append(result)
    sys.stdout = out.real
    return results


def run(path, words=None, at_once=1):
    """Runs all cases, or those whose name has one of the words (by default, those of the command line); returns the exit
    code. `path` is the test file's, for the command that repeats a failed case."""
    words = sys.argv[1:] if words is None else words
    wanted = [f for f in CASES if not words or any(word in f.__name__ for word in words)]
    if at_once > 1:
        results = run_side_by_side(wanted, path, at_once)
    else:
        results = [run_case(f, path) for f in wanted]
    print("%d passed, %d failed, %d skipped" % tuple(map(results.count, ("passed", "failed", "skipped"))))
    return 1 if "failed" in results or not wanted else 0
