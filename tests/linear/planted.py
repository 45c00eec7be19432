"""Bugs for the checker to find: each is a small change of the source, made in a copy of it. A row
whose old text is no longer there has to be brought up to date; it fails until then.

Plant only bugs that this checker is made for: bugs that careless unit tests miss, and that show only when
the store dies, or only in the order of answers.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections import namedtuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# `relayed`: it takes a relay to see it. `replicas`: it takes several replicas on an etcd cluster, and
# that case of process/replicas.py finds it.
Bug = namedtuple("Bug", "name file old new mode relayed replicas", defaults=("both", False, None))

# In all of them snapshots are made often.
OFTEN = (
    ("rdzv/engine/journal_writer_loop.c", "((uint64_t)64 << 20)", "((uint64_t)64 << 10)"),
    ("rdzv/etcd3/snapshot_out.c", "((uint64_t)16 << 20)", "((uint64_t)64 << 10)"),
)

BUGS = [
    # Durability.
    Bug("answers leave before the commit", "rdzv/engine/engine.c",
        "        durable = e->options.journal.commit(", "        e->options.journal.commit(",
        "always"),
    Bug("a pop is not in the journal", "store/disk/record.c",
        "    message_put(fields, change, &counted);\n",
        "    if (change->kind == CHANGE_QUEUE_POP)\n        return true;\n"
        "    message_put(fields, change, &counted);\n"),
    Bug("a patch is not in the journal", "store/disk/record.c",
        "    message_put(fields, change, &counted);\n",
        "    if (change->kind == CHANGE_KEY_PATCH)\n        return true;\n"
        "    message_put(fields, change, &counted);\n"),
    Bug("the last change of a batch is not replayed", "rdzv/engine/recovery.c",
        "        if (!recovery_take_record(r, &record))",
        "        if (reader.bytes.at + 9 < reader.bytes.in.len && !recovery_take_record(r, &record))"),
    Bug("a start copies one batch too few", "store/disk/journal_open.c",
        "while (error == 0 && *copied < r->last && ", "while (error == 0 && *copied + 1 < r->last && "),
    Bug("the torn end of a journal is taken for whole", "store/disk/frame.c",
        "    if (in.len < *size)\n        return FRAME_MORE;\n    out->payload.ptr",
        "    if (in.len < *size) {\n        *size = in.len;\n        out->payload.len = 0;\n"
        "        return FRAME_WHOLE;\n    }\n    out->payload.ptr"),
    Bug("what a failed write left is not taken back", "store/disk/journal.c",
        "    j->now.last += count;\n    j->claimed = j->now.durable;\n    j->now.bytes_behind +=",
        "    j->now.last += count;\n    j->claimed = j->now.durable;\n"
        "    j->tail.end += j->now.last % 64 == 0;\n    j->now.bytes_behind +="),
    Bug("snapshots have no queues", "store/keymap/keymap_moment.c",
        "        if (element->number <= k->pushes) {", "        if (element->number == 0) {"),
    Bug("snapshots have no events", "store/tree/watch.c",
        "        h->history[index % HISTORY_EVENTS] = e;\n        h->bytes += event_size(e);\n        return true;",
        "        tree_event_unref(e);\n        return true;"),
    Bug("a start from a snapshot skips an index", "store/tree/tree_snapshot.c",
        "t->index = t->hub.last = state->tree_index;",
        "t->index = t->hub.last = state->tree_index + 1;"),
    # Order and answers.
    Bug("COMPARE_SET compares lengths", "store/keymap/keymap_check.c",
        "    if (!slice_equal(entry_value(at.entry), c->expected)) {",
        "    if (entry_value(at.entry).len != c->expected.len) {"),
    Bug("a key that somebody waits for is there", "store/keymap/keymap.c",
        "return keymap_get(m, key) != NULL || keymap_find_queue(m, key) != NULL;",
        "return keymap_find(m, key) != NULL || keymap_find_queue(m, key) != NULL;"),
    # Not "wakes all who wait": a WAIT may begin as late as it ends, so no client could prove it.
    Bug("an element goes before those that are there", "store/keymap/keymap_queue.c",
        "STAILQ_INSERT_TAIL(&q->elements, element, entry)",
        "STAILQ_INSERT_HEAD(&q->elements, element, entry)"),
    Bug("an element wakes nobody when two wait", "store/keymap/keymap_wait.c",
        "(link = a->waiting) != NULL) {\n        members =",
        "(link = a->waiting) != NULL && link->next == link) {\n        members ="),
    Bug("a barrier opens one too early", "store/keymap/keymap_check.c",
        "out->open = count >= c->number;", "out->open = count + 1 >= c->number;"),
    Bug("prevIndex is not compared", "store/tree/tree_check.c",
        "c->prev_index != 0 && c->prev_index != (*n)->modified", "false"),
    Bug("update keeps a deadline", "store/tree/tree.c",
        "    set_deadline(t, n, c->expires_ns);\n    view_outcome(e, n, c);\n    return e;\n}\n\n"
        "static void remove_node",
        "    if (c->expires_ns != 0)\n        set_deadline(t, n, c->expires_ns);\n"
        "    view_outcome(e, n, c);\n    return e;\n}\n\nstatic void remove_node"),
    Bug("a look at a node moves its deadline", "store/tree/tree_read.c",
        "    tree_state_view(n, n->value, n->expiry.at_ns, n->modified, now_ns, out);",
        "    ((struct node *)(uintptr_t)n)->expiry.at_ns += n->expiry.at_ns == 0 ? 0 : 1000000;\n"
        "    tree_state_view(n, n->value, n->expiry.at_ns, n->modified, now_ns, out);"),
    Bug("a watch is not told of what wakes it from the past", "store/tree/watch.c",
        "for (uint64_t index = since; index <= h->last; index++)",
        "for (uint64_t index = since + 1; index <= h->last; index++)"),
    # Relays.
    Bug("what a session did is not in the journal", "store/disk/record.c",
        "    message_put(fields, change, &counted);\n",
        "    if (change->kind == CHANGE_SESSION_DONE)\n        return true;\n"
        "    message_put(fields, change, &counted);\n", relayed=True),
    Bug("snapshots have no sessions", "store/snapshot.c",
        "        return session_load(&space->sessions, &c->session_state);",
        "        return true;", relayed=True),
    Bug("a relay takes one more request for done", "rdzv/relay/relay_frames.c",
        "    after_confirm(s, confirm_request(s, frame->number, false));",
        "    after_confirm(s, confirm_request(s, frame->number + 1, false));", relayed=True),
    Bug("a relay sends nothing again", "rdzv/relay/relay_frames.c",
        "            q->sent = 0;\n", "            ;\n", relayed=True),
    Bug("a BARRIER that is sent again counts again", "rdzv/relay/link_session.c",
        "    if (number > last)\n        return VERDICT_PROCEED;",
        "    if (number > last || barrier.ptr != NULL)\n        return VERDICT_PROCEED;",
        relayed=True),
    # The journal on etcd.
    Bug("a leader without its lease commits", "rdzv/etcd3/commit.c",
        "    txn_if_created(&t, leader, j->lease.epoch);\n    if (j->log.at.index == 0)\n"
        "        txn_if_created(&t, head, 0);\n    else\n"
        "        txn_if_value(&t, head, slice_str(before));\n", "",
        replicas="a_paused_leader_commits_nothing"),
    Bug("a leader without its lease answers reads", "rdzv/etcd3/journal_etcd.c",
        "j->state == JOURNAL_LEADS && lease_now_ms() <= j->lease.valid_ms ? j->log.batch : 0",
        "j->state == JOURNAL_LEADS ? j->log.batch : 0", replicas="a_paused_leader_answers_no_read"),
    Bug("answers leave before etcd has answered", "rdzv/etcd3/journal_etcd.c",
        "lease_now_ms() <= j->lease.valid_ms ? j->log.batch : 0",
        "lease_now_ms() <= j->lease.valid_ms ? UINT64_MAX : 0", replicas="an_etcd_that_comes_back"),
    Bug("a commit whose outcome is unknown is made anew", "rdzv/etcd3/commit.c",
        "        now.index == j->log.at.index + 1 && now.epoch == (uint64_t)j->lease.epoch)\n"
        "        note_committed(j);\n",
        "        now.index == j->log.at.index + 1 && now.epoch == (uint64_t)j->lease.epoch) {\n"
        "        j->log.at = now;\n        j->log.chain = j->commit.chain;\n"
        "        j->commit.open = false;\n"
        "    }\n", replicas="a_lost_answer"),
    Bug("a snapshot removes one entry too many", "rdzv/etcd3/snapshot_out.c",
        "journal_log_key(j, o->before + 1, to)", "journal_log_key(j, o->before + 2, to)",
        replicas="a_snapshot_takes_the_place_of_the_log"),
]


def tree_files():
    found = subprocess.run(["git", "-c", "safe.directory=" + ROOT, "ls-files", "-z", "--cached",
                            "--others", "--exclude-standard"], cwd=ROOT, check=True,
                           capture_output=True).stdout.decode().split("\0")
    return [f for f in found if f and os.path.exists(os.path.join(ROOT, f))]


class Source:
    """A copy of the tree, built with one bug at a time."""

    def __init__(self, folder):
        self.src = os.path.join(folder, "src")
        self.build = os.path.join(folder, "build")
        for f in tree_files():
            to = os.path.join(self.src, f)
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copy2(os.path.join(ROOT, f), to)
        for edit in OFTEN:
            self.edit(*edit)
        self.run("meson", "setup", self.build, self.src)

    def run(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError("%s:\n%s" % (" ".join(command), (done.stdout + done.stderr)[-3000:]))

    def edit(self, file, old, new):
        """The text that was there before."""
        path = os.path.join(self.src, file)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        if text.count(old) != 1:
            raise AssertionError("%s has this %d times, not once:\n%s" % (file, text.count(old), old))
        with open(path, "w", encoding="utf-8") as f:
            f.write(text.replace(old, new))
        return path, text

    def make(self):
        self.run("ninja", "-j", os.environ.get("RDZV_JOBS", "2"), "-C", self.build, "rdzv/rdzvd",
                 "tests/libfail_disk.so")
        return os.path.join(self.build, "rdzv", "rdzvd")


def ask_replicas(case, count):
    script = os.path.join(ROOT, "tests", "process", "replicas.py")
    for i in range(count):
        done = subprocess.run([sys.executable, script, case], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = [line for line in done.stdout.split("\n") if "Error: " in line]
            return i + 1, said[-1] if said else done.stdout[-200:]
    return 0, None


def find(bug, source, options, one_run, count):
    """In which run it was found; 0: in none."""
    path, text = source.edit(bug.file, bug.old, bug.new)
    try:
        os.environ["RDZVD"] = source.make()
        if bug.replicas:
            return ask_replicas(bug.replicas, min(count, 3))
        for i in range(count):
            seed = options.seed + i
            mode = bug.mode if bug.mode != "both" else ("batch", "always")[seed % 2]
            options.relayed = bug.relayed
            wrong, figures = one_run(seed, mode, options)
            if options.tell:
                print("    seed %d, %s: %s: %s" % (seed, mode, figures, wrong), flush=True)
            if wrong:
                return i + 1, wrong
        return 0, None
    finally:
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


def find_all(options, one_run):
    """The exit code: each of the bugs has to be found within `--runs`."""
    bugs = [b for b in BUGS if not options.planted or any(w in b.name for w in options.planted)]
    passed, keep, options.keep = 0, options.keep, options.keep if options.tell else None
    with tempfile.TemporaryDirectory(prefix="rdzv-planted-") as folder:
        source = Source(folder)
        for bug in bugs:
            try:
                at, wrong = find(bug, source, options, one_run, options.runs or 50)
            except AssertionError as e:
                print("FAIL %s: %s" % (bug.name, e), flush=True)
                continue
            passed += at > 0
            first = (wrong or "").split("\n")[0][:160]
            print("%s %s: %s" % ("found" if at else "FAIL", bug.name,
                                 "in run %d: %s" % (at, first) if at else
                                 "not within %d runs" % (options.runs or 50)), flush=True)
    options.keep = keep
    print("%d passed, %d failed" % (passed, len(bugs) - passed))
    return 0 if passed == len(bugs) else 1
