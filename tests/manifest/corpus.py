#!/usr/bin/python3
"""Real manifests of other people: the output of check and rewrite for each file.

    corpus.py [--only NAME]...

corpus.txt lists the right results for every file of ../shared/corpus/manifests, as a reader of the file judged them:
the rules with findings, and the changes of rewrite. For each file and for the bundle of all files, the output of
rewrite must have no new fault, and a second rewrite must change nothing. These tests run with YAML, CRLF, JSON and
Lists. ../shared/corpus/faults-3/field has shapes of public reports; its README.md says the right answer for each. wild/
holds small manifests of the same kinds, so that a clone without ../shared tests the same; their expectations stand in
their comments. $RDZV_MANIFEST names the tool.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys

from manifests import HERE, MANIFEST, SHARED, check, read, yaml

WILD = os.path.join(HERE, "wild")
TABLE = os.path.join(HERE, "corpus.txt")
CORPUS = os.path.join(SHARED, "corpus", "manifests")
FAULTS = os.path.join(SHARED, "corpus", "faults-3")

# What rewrite says of each kind of change.
SAID = {"etcd": r" was etcd: ", "c10d": r" meets at this etcd: rewrite moves it to c10d",
        "own-store": r": its worker 0 was the store", "etcd-v2": r"rewrite leaves it on etcd-v2"}


def run(*args, data=None):
    done = subprocess.run([MANIFEST, *args], input=data, capture_output=True, check=False,
                          timeout=120)
    err = done.stderr.decode(errors="replace")
    check(done.returncode in (0, 1, 2), "%s ended with %d" % (" ".join(args), done.returncode), err)
    return done.returncode, done.stdout, err


def findings(data):
    """How often each rule finds something at objects of each name; None: check refuses the input."""
    code, out, _ = run("check", "-o", "json", "-", data=data)
    if code == 2:
        return None
    return collections.Counter(
        (f["rule"], f["object"]["name"]) for f in json.loads(out)["findings"])


def rewritten(data):
    """What rewrite changes, as corpus.txt says it, and what comes out."""
    code, out, err = run("rewrite", "-", data=data)
    if code == 2:
        return "refused", b"", err
    changes = {word for word, said in SAID.items() if re.search(said, err)}
    return "+".join(sorted(changes)) if out != data else "same", out, err


# ------------------------------------------------------------ the table

def table():
    rows = {}
    with open(TABLE, encoding="utf-8") as f:
        for line in f:
            words = line.split("#")[0].split()
            if words:
                rows[words[0]] = (words[1], set(words[2:]) - {"-"})
    return rows


def corpus_is_judged_right():
    """Each file of the corpus, as corpus.txt has it; and none is missing there."""
    if not os.path.isdir(CORPUS):
        return "skip: ../shared is not there"
    rows, wrong = table(), []
    there = {os.path.relpath(os.path.join(base, f), CORPUS)
             for base, folders, files in os.walk(CORPUS) for f in files if f != "SOURCES.txt"}
    check(there == set(rows), "corpus.txt and the corpus differ: %s" % sorted(there ^ set(rows)))
    for name, (change, rules) in sorted(rows.items()):
        data = read(os.path.join(CORPUS, name))
        seen = findings(data)
        found = {"refused"} if seen is None else {rule for rule, _ in seen}
        did = rewritten(data)[0]
        if found != rules:
            wrong.append("%s: check finds %s, and not %s" % (name, sorted(found), sorted(rules)))
        if did != change:
            wrong.append("%s: rewrite: %s, and not %s" % (name, did, change))
    check(not wrong, "\n".join(wrong))
    return None


# ------------------------------------------------------------ shapes of public reports

# Of each file of field/: how severe a finding of that rule is, and words of its message or remedy; `-`: there is none.
# A second row is of the file with one change.
FIELD = [
    ("etcd-bitnami-no-v2", "error", "etcd-no-v2", "serves its v2 API only with --enable-v2"),
    ("job-accelerate-launch", "error", "rdzv-id-missing", "no rendezvous id"),
    ("job-accelerate-launch", "error", "rdzv-is-host", "is_host is not set"),
    ("job-accelerate-launch", "error", "rdzv-endpoint-localhost", "loopback", "--multi_gpu", "--multi_gpu --same_network"),
    ("job-conf-twice", "warning", "option-env-conflict", "--rdzv_conf is given twice: torchrun takes the last one only"),
    ("job-conf-twice", "warning", "rdzv-conf-unknown", "`timeout`"),
    ("job-fallback-localhost", "error", "rdzv-endpoint-localhost", "loopback"),
    ("job-random-id-per-pod", "error", "rdzv-id-differs", "each pod has an id of its own: `$RANDOM`"),
    ("jobset-static-id123", "-", None, None),  # one group, which meets at its first pod: the id does no harm
    ("jobset-static-id123", "error", "rdzv-id-shared", "2 groups of JobSet pytorch", "  - name: workers",
     "  - name: workers\n    replicas: 2"),
    ("jobset-two-replicas-one-id-at-rdzvd", "error", "rdzv-id-shared", "the rendezvous id `sweep` is that of 2 groups"),
    ("lws-torchrun-two-groups", "error", "nnodes-too-many", "at least 5 nodes, but there are 4 pods"),  # each at its own leader
    ("lws-two-groups-one-id-at-rdzvd", "error", "rdzv-id-shared", "the rendezvous id `llama` is that of 2 groups"),
    ("pods-hostname-endpoint", "error", "rdzv-endpoint-localhost", "the endpoint is each pod itself"),
    ("ptj-elastic-etcd-no-id", "error", "rdzv-id-missing", "no rendezvous id"),
    ("ptj-elastic-etcd-no-id", "warning", "option-env-conflict", "PET_NNODES=1:64"),
    ("ptj-elastic-master-and-workers", "error", "elastic-policy-field",
     "3 pods start torchrun, and at most 2 can take part: with elasticPolicy, leave out the Master"),
    ("ptj-elastic-with-launch", "error", "elastic-policy-field", "with elasticPolicy, leave out the Master"),
    ("ptj-fixed-size-onfailure-no-restarts", "warning", "restarts-none", "torchrun has no restarts"),
    ("ptj-istio-without-torchrun", "error", "istio-injected", "between these pods and the store"),
    ("volcano-c10d-worker0-hosts", "warning", "rdzv-hosted-by-worker", "the store is in a training pod"),
    ("volcano-torchx-ddp", "warning", "rdzv-hosted-by-worker", "the store is in a training pod"),
]


FIELD_REFUSED = {"lws-torchrun-two-groups": "has 2 groups of pods, which would meet at one store under one id"}


def right_answers():
    """Of each file of field/ the right answer, as the table in README.md has it."""
    with open(os.path.join(FAULTS, "README.md"), encoding="utf-8") as f:
        rows = [line.split(" | ") for line in f if line.startswith("| `field/")]
    return {name: row[-1].rstrip(" |\n") for row in rows for name in re.findall(r"`field/([^`]+)\.yaml`", row[0])}


def field_is_judged_right():
    """If README.md says `error`, `warning` or `found`, there is such a finding; if `moves`, rewrite leaves no error. What
    rewrite changes must have no new fault."""
    folder, wrong = os.path.join(FAULTS, "field"), []
    if not os.path.isdir(folder):
        return "skip: ../shared is not there"
    right = right_answers()
    names = {f[:-len(".yaml")] for f in os.listdir(folder)}
    check(names == set(right) == {row[0] for row in FIELD}, "field/, README.md and FIELD differ")
    for name, severity, rule, words, *change in FIELD:
        data = read(os.path.join(folder, name + ".yaml")).decode()
        if change:
            check(change[0] in data, "%s has no %r" % (name, change[0]))
            data = data.replace(*change)
        found = json.loads(run("check", "-o", "json", "-", data=data.encode())[1])["findings"]
        texts = ["%s %s %s" % (f["severity"], f["rule"], f["message"]) for f in found]
        if rule is None and found or rule and not any(t.startswith(severity + " " + rule) and words in t for t in texts):
            wrong.append("%s%s: not %s %s %r, but\n%s" % (name, change, severity, rule, words, "\n".join(texts)))
        said = right[name].split()[0].rstrip(":,")
        if not change and rule and said in ("error", "warning") and not any(t.startswith(said) for t in texts):
            wrong.append("%s: README.md says %r" % (name, right[name]))
        did, result, err = rewritten(data.encode())
        if said == "moves" and (did == "same" or findings(result)):
            wrong.append("%s: rewrite: %s\n%s" % (name, did, err))
    for name in sorted(names):
        data = read(os.path.join(folder, name + ".yaml"))
        if name in FIELD_REFUSED:
            check(FIELD_REFUSED[name] in rewritten(data)[2], name, rewritten(data))
        else:
            rewrite_settles(name, data)
    check(not wrong, "\n".join(wrong))
    return None


# ------------------------------------------------------------ properties

def forms(data):
    """The same objects as people have them."""
    yield "YAML", data
    yield "CRLF", data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    try:
        docs = [d for d in yaml.safe_load_all(data) if d is not None]
    except yaml.YAMLError:
        return
    a_list = {"apiVersion": "v1", "kind": "List", "items": docs}
    if len(docs) == 1:
        yield "JSON", json.dumps(docs[0], default=str).encode()
    yield "List", yaml.safe_dump(a_list, sort_keys=False).encode()
    yield "List in JSON", json.dumps(a_list, default=str, indent=1).encode()


def rewrite_settles(name, data):
    """No new faults, and nothing left to rewrite. Returns whether it changed anything."""
    changed = 0
    for form, text in forms(data):
        what = "%s as %s" % (name, form)
        before = findings(text)
        did, out, err = rewritten(text)
        check(did != "refused", what, err)
        if did == "same":
            continue
        changed += 1
        after = findings(out)
        check(after is not None, "%s: check refuses what comes out" % what)
        new = after - before
        check(not new, "%s: new faults: %s" % (what, dict(new)), err)
        check(rewritten(out)[1] == out, "%s: rewriting it again changes it" % what)
        if form in ("JSON", "List in JSON"):
            json.loads(out)
    return changed


def usable(folder):
    """Those that check reads."""
    for base, _, files in sorted(os.walk(folder)):
        for f in sorted(files):
            data = read(os.path.join(base, f))
            if f != "SOURCES.txt" and findings(data) is not None:
                yield os.path.relpath(os.path.join(base, f), folder), data


def bundle(parts):
    return b"".join((p if p.startswith(b"---") else b"---\n" + p).rstrip(b"\n") + b"\n"
                    for p in parts)


def corpus_settles():
    if not os.path.isdir(CORPUS):
        return "skip: ../shared is not there"
    changed = sum(rewrite_settles(name, data) > 0 for name, data in usable(CORPUS))
    check(changed >= 30, "only %d files change" % changed)
    return None


def corpus_settles_as_one_bundle():
    if not os.path.isdir(CORPUS):
        return "skip: ../shared is not there"
    rewrite_settles("the corpus", bundle(data for _, data in usable(CORPUS)))
    return None


def wild_settles():
    check(sum(rewrite_settles(name, data) > 0 for name, data in usable(WILD)) >= 5,
          "too few files change")
    rewrite_settles("all of wild/", bundle(data for _, data in usable(WILD)))


# ------------------------------------------------------------ our own

EXPECT = re.compile(r"^# (rules|rewrite|says|unsaid|changed|kept): *(.*?)$", re.M)


def wild_is_judged_right():
    """The comments at the head of each file of wild/ hold: the `rules` with findings, the changes of `rewrite`, texts
    that the messages of both must contain (`says`) or lack (`unsaid`), and texts that rewrite must replace (`changed`)
    or keep (`kept`)."""
    files, wrong = sorted(os.listdir(WILD)), []
    check(len(files) >= 12, "only %d files" % len(files))
    for name in files:
        data = read(os.path.join(WILD, name))
        code, out, said = run("check", "-o", "json", os.path.join(WILD, name))
        found = json.loads(out)["findings"] if code < 2 else [{"rule": "refused", "message": ""}]
        did, result, err = rewritten(data)
        said += "".join(f["message"] + "\n" for f in found) + err
        body = b"\n".join(l for l in result.split(b"\n") if not l.startswith(b"# "))
        for key, want in EXPECT.findall(data.decode()):
            right = {"rules": {f["rule"] for f in found} == set(want.split()) - {"-"},
                     "rewrite": did == want, "says": want in said, "unsaid": want not in said,
                     "kept": want.encode() in body, "changed": want.encode() not in body}[key]
            if not right:
                wrong.append("%s: %s: %s, but: %s\n%s" % (
                    name, key, want, did, said if key != "kept" else result.decode()))
    check(not wrong, "\n".join(wrong))


TESTS = [wild_is_judged_right, wild_settles, corpus_is_judged_right, field_is_judged_right, corpus_settles,
         corpus_settles_as_one_bundle]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", action="append", help="tests whose name begins so")
    options = parser.parse_args()
    results = {"passed": 0, "failed": 0, "skipped": 0}
    for test in TESTS:
        if options.only and not any(test.__name__.startswith(n) for n in options.only):
            continue
        try:
            skipped = test()
        except AssertionError as e:
            results["failed"] += 1
            print("FAIL %s: %s\n---- again: corpus.py --only %s" % (test.__name__, e, test.__name__))
            continue
        results["skipped" if skipped else "passed"] += 1
        print("%s %s" % (skipped or "ok", test.__name__), flush=True)
    print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % results)
    return results["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
