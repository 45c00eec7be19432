"""Rendezvous states between proto/torch/torch_state.[ch] and the torch releases that are installed.

    run_state.py --tool STATE_TOOL [--torch NAME]... [--all] [--seed N]

Each torch release pickles states; the tool must read the same content from each, and reject bytes that are no state.
Torch must load the states that the tool writes, unchanged and changed, with the same content, and write the same bytes
again. The tool's bytes must not be longer than torch's. Prints the times of a state of 1000 nodes.
"""

import argparse
import copy
import json
import os
import random
import subprocess
import sys
import time

import torches

SHIFT = 25_123_456  # a quarter of what lets carries go through all parts of a time


def run_torch(torch, *arguments, lines=()):
    """Lines of JSON from state.py."""
    child = subprocess.run(
        torch.python + [os.path.join(torches.HERE, "state.py"), *arguments],
        input="".join(json.dumps(line) + "\n" for line in lines), capture_output=True, text=True,
        env=torch.environment(), timeout=900)
    if child.returncode != 0:
        raise AssertionError("state.py %s with torch %s:\n%s" % (
            " ".join(arguments), torch.name, child.stderr[-2000:]))
    return [json.loads(line) for line in child.stdout.splitlines()]


def ask(tool, requests):
    """One answer for each request."""
    child = subprocess.run([tool], input="".join(r + "\n" for r in requests), text=True,
                           stdout=subprocess.PIPE, timeout=900, check=True)
    answers = child.stdout.splitlines()
    assert len(answers) == len(requests), "%d answers to %d requests" % (len(answers), len(requests))
    return answers


def shifted(says):
    says = copy.deepcopy(says)
    if says["deadline"] is not None:
        says["deadline"] += SHIFT
    for node in says["nodes"]:
        if node[6] is not None:
            node[6] += SHIFT
    return says


def beaten(says, node, time_us):
    """With that node's heartbeat; a new one goes where it belongs."""
    says = copy.deepcopy(says)
    for row in says["nodes"]:
        if row[:3] == node:
            row[6] = time_us
            return says
    says["nodes"].append(node + [None, False, False, time_us])
    says["nodes"].sort(key=lambda row: (bytes.fromhex(row[0]), row[1], row[2]))
    return says


def in_range(says):
    """Whether the times can be moved on within what a datetime holds."""
    return all(t is None or t < 253402300800_000000 - 2 * SHIFT
               for t in [says["deadline"]] + [node[6] for node in says["nodes"]])


def changes(case, rng):
    """Name of the change, the request to the tool, and what torch is to read."""
    value, says = case["value"], case["says"]
    yield "as it was", "write " + value, says
    if in_range(says):
        yield "shifted", "shift %d %s" % (SHIFT, value), shifted(says)
    now = 1_795_000_000_000_000 + rng.randrange(10**12)
    nodes = [["new-node".encode().hex(), rng.randrange(1 << 40), 3]]
    if says["nodes"]:
        nodes.append(rng.choice(says["nodes"])[:3])
    for node in nodes:
        if node[0]:  # an empty argument the tool's lines cannot hold
            yield ("heartbeat of %s" % node, "beat %s %d %d %d %s" % (*node, now, value),
                   beaten(says, node, now))


class Tally:
    def __init__(self):
        self.passed = self.failed = 0

    def note(self, what, fault):
        if fault is None:
            self.passed += 1
            return
        self.failed += 1
        if self.failed <= 20:
            print("FAIL %s: %.600s" % (what, fault), flush=True)


def check_views(torch, tool, one, tally):
    """Participants that a view only counts: torch knows how many they are, and writes them as numbers."""
    counts = 1, 2, 255, 256, 999, 1000, 1001, 65535, 131071
    views = ask(tool, ["count %d %s" % (count, one) for count in counts])
    for count, value, known in zip(counts, views, run_torch(torch, "view", lines=views)):
        said = ask(tool, ["show " + value, "counted " + value, "counted " + known["value"], "show " + known["value"]])
        if said != ["not mine", str(count), str(count), "not mine"]:
            tally.note("a view that counts %d, torch %s" % (count, torch.name), "the tool says %s" % said)
        tally.note("a view that counts %d, torch %s" % (count, torch.name),
                   None if known["world"] == count + 1 and known["rank"] == 0 else "torch knows %s" % known)


def run(torch, tool, seed, tally):
    started = time.monotonic()
    cases = run_torch(torch, "make", str(seed))
    shown = ask(tool, ["show " + case["value"] for case in cases])
    for case, answer in zip(cases, shown):
        says = None if answer == "not mine" else json.loads(answer)
        fault = None if says == case["says"] else "%s is read as %s" % (case["value"][:3000], answer)
        tally.note("%s of torch %s, seed %d" % (case["name"], torch.name, seed), fault)

    rng, rewritten, requests = random.Random(seed), [], []
    for case, answer in zip(cases, shown):
        if case["says"] is None or answer == "not mine":
            continue
        for name, request, says in changes(case, rng):
            rewritten.append({"name": "%s, %s" % (case["name"], name), "says": says,
                              "limit": len(case["value"]) if name == "as it was" else None})
            requests.append(request)
    for case, value in zip(rewritten, ask(tool, requests)):
        case["value"] = value
    for case, result in zip(rewritten, run_torch(torch, "check", lines=rewritten)):
        fault = result["fault"]
        # Torch needs a little less where an address happens to be the object that names something.
        if case["limit"] is not None and len(case["value"]) > case["limit"] * 1.001 + 24:
            fault = "%d characters, torch needs %d" % (len(case["value"]), case["limit"])
        tally.note("%s of torch %s, seed %d" % (case["name"], torch.name, seed), fault)

    check_views(torch, tool, next(c["value"] for c in cases if c["name"].startswith("1 nodes")), tally)
    thousand = next(c["value"] for c in cases if c["name"].startswith("1000 nodes"))
    timing = ask(tool, ["time 100 " + thousand])[0].split()
    print("torch %s: %d states, %d of them none, %d rewritten; 1000 nodes in %d characters: "
          "%s us to read, %s us to write (%.0f s)" % (
              torch.name, len(cases), sum(c["says"] is None for c in cases), len(rewritten),
              len(thousand), *timing, time.monotonic() - started), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tool", required=True)
    parser.add_argument("--torch", action="append")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tally = Tally()
    for torch in torches.choose(options.torch, options.all):
        run(torch, options.tool, options.seed, tally)
    print("%d passed, %d failed" % (tally.passed, tally.failed))
    sys.exit(tally.failed != 0)


if __name__ == "__main__":
    main()
