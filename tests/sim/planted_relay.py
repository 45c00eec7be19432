#!/usr/bin/env python3
"""Bugs for sim_relay to find: each is a small change of the source, made in a copy of it, and has to
be found within 20,000 worlds.

    planted_relay.py [--worlds N] [NAME...]     runs all bugs, or those whose name has one of these words

Prints in which world each was found. A row whose old text is no longer there has to be brought up
to date; it fails until then.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import namedtuple

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "linear"))
import planted as linear  # noqa: E402

Bug = namedtuple("Bug", "name file old new")

# Those that the runs with real processes have to find, too.
SHARED = ("answers leave before the commit", "a pop is not in the journal",
          "snapshots have no queues",
          "COMPARE_SET compares lengths", "a barrier opens one too early",
          "what a session did is not in the journal", "snapshots have no sessions",
          "a relay takes one more request for done", "a relay sends nothing again",
          "a BARRIER that is sent again counts again")

BUGS = [Bug(b.name, b.file, b.old, b.new) for b in linear.BUGS if b.name in SHARED] + [
    Bug("a relay sends again what was done", "rdzv/relay/relay_frames.c",
        "    knows = (flags & RELAY_KNOWN) == 0 || resume_from(s, frame, flags);",
        "    knows = true || resume_from(s, frame, flags);"),
    Bug("a relay leaves out the numbers of what was given up", "rdzv/relay/relay_sessions.c",
        "        q->number = ++number;", "        number = q->number;"),
    Bug("a relay has answers for nobody after a resume", "rdzv/relay/relay_frames.c",
        "    else if (q != NULL && flags & RELAY_ANSWERED && !deliver_answer(s, frame))",
        "    else if (false && !deliver_answer(s, frame))"),
    Bug("a legacy client hears of a WAIT that it has given up", "rdzv/relay/relay_sessions.c",
        "        give_up_silently(s, s->asked);\n    set_hold(", "        s->asked = s->open = NULL;\n    set_hold("),
    Bug("a store does not end a legacy client's WAIT", "rdzv/c10d/protocol.c",
        "        !c->may_repeat)", "        false)"),
    Bug("a relay sends an HTTP request again that changes something", "rdzv/relay/http_pass.c",
        "    return !p->begun && (p->repeatable || p->state != PASS_ANSWERING);", "    return !p->begun;"),
    Bug("a watch goes on with what its client has", "rdzv/relay/http_text.c",
        "        return t->last + 1;", "        return t->last;"),
    Bug("a watch goes on from when its relay was back", "rdzv/relay/http_text.c",
        "    return t->asked != 0 ? t->asked : t->from + 1;", "    return t->asked;"),
    Bug("a relay does not see that its store has gone back", "rdzv/relay/relay_frames.c",
        "    return opened->flags & RELAY_KNOWN && opened->number < s->changed;",
        "    return false && opened->number < s->changed;"),
    Bug("a change is confirmed behind the number of a read", "rdzv/relay/link_output.c",
        "    if (s->notified < s->changed && s->changed < number)", "    if (false && s->changed < number)"),
    Bug("a read is shared by a client whose change is under way", "rdzv/relay/relay_frames.c",
        " || q != TAILQ_FIRST(&s->requests))", ")"),
    Bug("a number that the store has not seen is used up", "rdzv/relay/relay_frames.c",
        "            s->last--;\n", ""),
    # Those that it has found.
    Bug("a start from a snapshot alone begins anew", "rdzv/engine/recovery.c",
        "    batch_begin(&e->batch, last + 1);",
        "    batch_begin(&e->batch, (r->batches == 0 ? 0 : last) + 1);"),
    Bug("memory that is back is not noticed", "rdzv/engine/data_dir.c",
        "    if (d->engine->has_logged_refusal)", "    if (false)"),
    Bug("a session that its relay has ended stays", "rdzv/relay/relay_sessions.c",
        "        relay_drop_request(s, TAILQ_FIRST(&s->requests));\n    relay_finish(s);",
        "        relay_drop_request(s, TAILQ_FIRST(&s->requests));\n    relay_forget(s);"),
    Bug("a session that was dropped leaves nothing", "rdzv/relay/link_session.c",
        "    if (!may_be_unheard) {", "    if (!may_be_unheard || true) {"),
    Bug("a snapshot does not say when it was written", "rdzv/engine/recovery.c",
        "    if (snapshot_time(&e->store) > r->last_ns)", "    if (false)"),
    Bug("a full disk is taken for one that has written", "store/disk/fs.c",
        "        if (n <= 0)\n", "        if (n == -ENOSPC)\n            return 0;\n        if (n <= 0)\n"),
    Bug("what was written before the disk was full is not synced", "rdzv/engine/journal_writer_thread.c",
        "(!w->failed || !journal_figures(w->journal)->tainted);", "!w->failed;"),
    Bug("a sync is late", "rdzv/engine/journal_writer_loop.c",
        "+ w->sync_interval_ms * 1000000;", "+ w->sync_interval_ms * 3000000;"),
    Bug("a BARRIER that cannot wait is counted, and not noted", "rdzv/c10d/requests.c",
        "        c->backend->functions->done(c, &counted);\n", "        (void)counted;\n"),
]


class Source(linear.Source):
    def make(self):
        self.run("ninja", "-j", os.environ.get("RDZV_JOBS", "2"), "-C", self.build, "tests/sim_relay")
        return os.path.join(self.build, "tests", "sim_relay")


def find(bug, source, worlds):
    """What it came to, or None."""
    path, text = source.edit(bug.file, bug.old, bug.new)
    try:
        program = source.make()
        done = subprocess.run([program, "--seed", "1", "--count", str(worlds)], capture_output=True,
                              text=True, check=False)
        return None if done.returncode == 0 else done.stderr
    finally:
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--worlds", type=int, default=20000)
    p.add_argument("names", nargs="*")
    options = p.parse_args()
    bugs = [b for b in BUGS if not options.names or any(w in b.name for w in options.names)]
    passed = 0
    with tempfile.TemporaryDirectory(prefix="rdzv-planted-") as folder:
        source = Source(folder)
        for bug in bugs:
            try:
                wrong = find(bug, source, options.worlds)
            except AssertionError as e:
                print("FAIL %s: %s" % (bug.name, e), flush=True)
                continue
            seed = re.search(r"--seed (\d+)", wrong or "")
            passed += wrong is not None
            print("%s %s: %s" % ("FAIL" if wrong is None else "found", bug.name,
                                 "not within %d worlds" % options.worlds if wrong is None else
                                 "in world %s: %s" % (seed.group(1) if seed else "?",
                                                      wrong.strip().split("\n")[0][:160])), flush=True)
    print("%d passed, %d failed" % (passed, len(bugs) - passed))
    return 0 if passed == len(bugs) else 1


if __name__ == "__main__":
    sys.exit(main())
