/* The journal on a simulated disk, under seeded work: a process that dies, power that is cut and
 * calls that fail, each at every call of the work. After each fault: batches reported as synced
 * exist; appended batches exist if only the process died; and no other batches exist.
 *
 *   sim_journal --seed N --count M [--work K --at CALL --kind NAME]
 *
 * M works beginning with seed N; the last options repeat one case of the seed. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/disk/journal.h"
#include "store/memory/xalloc.h"
#include "tests/support/sim_disk.h"

#define BATCHES_MAX 4096
#define STEPS       60

enum kind { KIND_KILL, KIND_POWER, KIND_EIO, KIND_ENOSPC, KIND_SHORT, KINDS };
static const char *const kind_names[KINDS] = {"kill", "power", "eio", "enospc", "short"};

/* What was handed over. Batches are made anew from this whenever they are needed. */
struct model {
    uint32_t nonce[BATCHES_MAX];
    uint64_t chain[BATCHES_MAX]; /* of all batches up to this one */
    uint64_t handed, appended, synced;
    uint32_t lives;
};

struct life {
    struct sim_disk *disk;
    struct model *model;
    struct journal *journal;
    uint64_t random;
    struct journal_snapshot snapshot;
    bool snapshot_open;
    uint64_t snapshot_parts;
    bool calls_fail; /* some do, so a start may, too */
};

static uint64_t the_seed, the_at;
static enum kind the_kind;
static uint64_t cuts, starts, faults, left_out, repaired;

static void fail(const char *what, uint64_t a, uint64_t b)
{
    fprintf(stderr, "sim_journal: %s (%" PRIu64 ", %" PRIu64 ")\n", what, a, b);
    fprintf(stderr, "again: sim_journal --seed %" PRIu64 " --count 1 --kind %s --at %" PRIu64 "\n",
            the_seed, kind_names[the_kind], the_at);
    exit(1);
}

static uint64_t draw(struct life *l, uint64_t below)
{
    l->random ^= l->random << 13;
    l->random ^= l->random >> 7;
    l->random ^= l->random << 17;
    return (l->random * UINT64_C(0x2545f4914f6cdd1d) >> 16) % below;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    a = (a ^ b) * UINT64_C(0x9e3779b97f4a7c15);
    return a ^ a >> 29;
}

/* --- Batches and parts. --- */

static uint8_t scratch[8][8192];

/* The bytes of a batch; of those in 8 calls. */
static struct slice make_batch(const struct model *m, uint64_t number)
{
    static unsigned turn;
    uint8_t *to = scratch[turn++ % 8];
    uint64_t x = mix(number, m->nonce[number]);
    size_t len = 1 + (size_t)(x % 16 == 0 ? x / 16 % 5000 : x / 16 % 120);

    for (size_t i = 0; i < len; i++) {
        to[i] = (uint8_t)(x >> 56);
        x = mix(x, i + 1);
    }
    return (struct slice){to, len};
}

static void hand_over(struct life *l)
{
    struct model *m = l->model;

    if (m->handed + 1 >= BATCHES_MAX)
        fail("the work is too long", m->handed, 0);
    m->handed++;
    m->nonce[m->handed] = (uint32_t)draw(l, UINT32_MAX);
    m->chain[m->handed] = mix(m->chain[m->handed - 1], mix(m->handed, m->nonce[m->handed]));
}

struct part_text {
    uint64_t number, index, chain;
    uint8_t filler[2000];
};

static void put_part(struct life *l)
{
    struct part_text text = {.number = l->snapshot.header.number, .index = l->snapshot_parts};
    size_t len = sizeof text - (size_t)draw(l, sizeof text.filler);

    text.chain = l->model->chain[l->snapshot.header.number];
    if (journal_snapshot_put(&l->snapshot, (struct slice){(const uint8_t *)&text, len}) == 0)
        l->snapshot_parts++;
}

/* --- Reading. --- */

struct check {
    const struct model *model;
    uint64_t last, parts;
    bool wrong;
};

static bool read_part(void *arg, struct slice bytes)
{
    struct check *c = arg;
    struct part_text text;

    memcpy(&text, bytes.ptr, offsetof(struct part_text, filler));
    c->wrong = c->wrong || text.index != c->parts || text.number > c->model->handed ||
               text.chain != c->model->chain[text.number];
    c->parts++;
    c->last = text.number;
    return true;
}

static bool read_batch(void *arg, uint64_t number, struct slice bytes)
{
    struct check *c = arg;

    c->wrong = c->wrong || number != c->last + 1 || number > c->model->handed ||
               !slice_equal(bytes, make_batch(c->model, number));
    c->last = number;
    return true;
}

/* A start. False: the process died in it, or a fault kept it from starting. */
static bool start(struct life *l, uint64_t must)
{
    struct check check = {.model = l->model};
    const struct journal_reader reader = {.part = read_part, .batch = read_batch, .arg = &check};
    const struct journal_options options = {
        .fs = sim_disk_fs(l->disk), .segment_size = 2000, .new_id = 7};
    struct journal_report report;

    starts++;
    l->journal = journal_open(&options, &reader, &report);
    if (check.wrong)
        fail("something that was not handed over", check.last, l->model->handed);
    if (l->journal == NULL &&
        (report.status != JOURNAL_ERROR || !(l->calls_fail || sim_disk_is_dead(l->disk)))) {
        char text[1000];

        journal_report_text(&report, "DIR", text, sizeof text);
        fail(text, report.status, must);
    }
    if (l->journal == NULL)
        return false;
    if (report.last != check.last || check.last < must)
        fail("something is missing", check.last, must);
    left_out += report.torn_bytes > 0;
    l->model->handed = l->model->appended = l->model->synced = report.last;
    return true;
}

/* --- Work. --- */

static void note(struct life *l)
{
    l->model->appended = journal_figures(l->journal)->last;
    if (journal_figures(l->journal)->durable > l->model->synced)
        l->model->synced = journal_figures(l->journal)->durable;
}

static int rewrite(struct life *l)
{
    int error = journal_rewrite_begin(l->journal);

    for (uint64_t n = journal_figures(l->journal)->durable + 1; error == 0 && n <= l->model->handed;
         n++) {
        const struct journal_batch batch = {n, make_batch(l->model, n)};

        error = journal_rewrite_put(l->journal, &batch, 1);
    }
    return error == 0 ? journal_rewrite_end(l->journal) : error;
}

/* Hands over what was not taken, in groups; after a failed sync in a new segment. */
static int keep(struct life *l)
{
    struct journal_batch batches[4];
    int error = 0;

    if (journal_figures(l->journal)->tainted) {
        repaired++;
        return rewrite(l);
    }
    while (error == 0 && journal_figures(l->journal)->last < l->model->handed) {
        size_t count = 0;

        for (uint64_t n = journal_figures(l->journal)->last + 1; n <= l->model->handed && count < 4;
             n++)
            batches[count++] = (struct journal_batch){n, make_batch(l->model, n)};
        error = journal_append(l->journal, batches, count);
    }
    return error;
}

static void sync_some(struct life *l, bool with_appends)
{
    struct journal_sync sync;
    int result;

    if (!journal_sync_begin(l->journal, &sync))
        return;
    if (with_appends) {
        hand_over(l);
        keep(l);
    }
    result = journal_sync_run(&sync);
    journal_sync_end(l->journal, &sync, result);
}

static void end_snapshot(struct life *l)
{
    char name[JOURNAL_NAME_SIZE];

    l->snapshot_open = false;
    if (l->snapshot.header.number > journal_figures(l->journal)->last ||
        journal_snapshot_end(&l->snapshot) != 0) {
        journal_snapshot_abandon(&l->snapshot);
        return;
    }
    journal_snapshot_done(l->journal, &l->snapshot);
    while (journal_next_needless(l->journal, name))
        sim_disk_fs(l->disk)->remove(sim_disk_fs(l->disk), name);
}

static void step_snapshot(struct life *l)
{
    if (!l->snapshot_open && journal_figures(l->journal)->last == l->model->handed) {
        journal_snapshot_begin(l->journal, l->model->handed, &l->snapshot);
        l->snapshot_open = true;
        l->snapshot_parts = 0;
    } else if (l->snapshot_open && draw(l, 3) > 0) {
        put_part(l);
    } else if (l->snapshot_open && l->snapshot_parts > 0) {
        end_snapshot(l);
    }
}

static void finish(struct life *l)
{
    if (l->snapshot_open)
        journal_snapshot_abandon(&l->snapshot);
    l->snapshot_open = false;
    if (keep(l) == 0)
        journal_finish(l->journal);
    note(l);
    journal_close(l->journal);
    l->journal = NULL;
}

static void step(struct life *l)
{
    uint64_t what = draw(l, 20);

    if (what < 10) {
        for (uint64_t i = 0; i <= what % 3; i++)
            hand_over(l);
        keep(l);
    } else if (what < 14) {
        keep(l);
        sync_some(l, what == 10);
    } else if (what == 14) {
        journal_mark(l->journal);
    } else if (what < 19) {
        step_snapshot(l);
    } else if (draw(l, 4) == 0) {
        finish(l);
    }
}

/* A process: it works until it dies, or `steps` times. */
static void live(struct life *l, unsigned steps, uint64_t must)
{
    if (!start(l, must))
        return;
    note(l);
    while (steps-- > 0 && !sim_disk_is_dead(l->disk)) {
        step(l);
        if (l->journal != NULL)
            note(l);
        else if (!sim_disk_is_dead(l->disk) && !start(l, l->model->synced))
            return;
    }
}

/* The memory of a process that has died, whose files the disk has closed. */
static void forget(struct life *l)
{
    if (l->journal != NULL)
        journal_close(l->journal);
    l->journal = NULL;
    l->snapshot_open = false;
}

/* --- Cases. --- */

/* Ends the process, and returns the last batch that must survive. */
static uint64_t end_life(struct life *l, bool power)
{
    bool trusted = !sim_disk_sync_failed(l->disk);

    /* If the process is not dead yet, it dies here: its later calls do not reach the disk. */
    if (!sim_disk_is_dead(l->disk)) {
        sim_disk_fail(l->disk, SIM_DIE, 1, UINT64_MAX);
        sim_disk_fs(l->disk)->sync_dir(sim_disk_fs(l->disk));
    }
    forget(l);
    cuts++;
    if (power)
        sim_disk_cut_power(l->disk);
    else
        sim_disk_kill(l->disk);
    if (power || !trusted)
        l->model->appended = l->model->synced;
    return l->model->appended;
}

/* Calls of a whole undisturbed life. */
static uint64_t begin_case(struct life *l, uint64_t seed, uint64_t salt)
{
    *l = (struct life){.disk = sim_disk_new(mix(seed, salt)),
                       .model = xcalloc(1, sizeof *l->model),
                       .random = mix(seed, 77) | 1};
    return seed;
}

static void end_case(struct life *l)
{
    forget(l);
    sim_disk_free(l->disk);
    free(l->model);
}

static uint64_t count_calls(uint64_t seed)
{
    struct life l;
    uint64_t calls;

    begin_case(&l, seed, 0);
    live(&l, STEPS, 0);
    calls = sim_disk_calls(l.disk);
    end_case(&l);
    return calls;
}

/* It dies at that call of its work; the next one at some call soon; the third lives. */
static void die_at(uint64_t seed, uint64_t at, bool power)
{
    struct life l;
    uint64_t must;

    begin_case(&l, seed, at);
    sim_disk_fail(l.disk, SIM_DIE, at, UINT64_MAX);
    live(&l, STEPS, 0);
    if (!sim_disk_is_dead(l.disk))
        fail("it did not die", at, 0);
    must = end_life(&l, power);
    sim_disk_fail(l.disk, SIM_DIE, 1 + draw(&l, 60), UINT64_MAX);
    live(&l, STEPS, must);
    must = end_life(&l, draw(&l, 2) == 0);
    live(&l, 10, must);
    end_case(&l);
}

static const enum sim_fault fault_of[KINDS] = {
    [KIND_EIO] = SIM_EIO, [KIND_ENOSPC] = SIM_ENOSPC, [KIND_SHORT] = SIM_SHORT};

/* Some calls fail, beginning with call `at`; the process goes on, and dies later. */
static void fail_at(uint64_t seed, uint64_t at, enum kind kind)
{
    struct life l;
    uint64_t must;

    begin_case(&l, seed, at);
    sim_disk_fail(l.disk, fault_of[kind], at, 1 + at % 7);
    l.calls_fail = true;
    live(&l, STEPS, 0);
    l.calls_fail = false;
    faults++;
    must = end_life(&l, at % 2 == 0);
    live(&l, 10, must);
    end_case(&l);
}

static void run_case(uint64_t seed, uint64_t at, enum kind kind)
{
    the_seed = seed;
    the_at = at;
    the_kind = kind;
    if (kind <= KIND_POWER)
        die_at(seed, at, kind == KIND_POWER);
    else
        fail_at(seed, at, kind);
}

static void run_work(uint64_t seed)
{
    uint64_t calls;

    the_seed = seed;
    calls = count_calls(seed);
    for (uint64_t at = 1; at <= calls; at++) {
        for (enum kind kind = 0; kind < KINDS; kind++)
            run_case(seed, at, kind);
    }
}

static enum kind kind_of(const char *name)
{
    for (enum kind kind = 0; kind < KINDS; kind++) {
        if (strcmp(name, kind_names[kind]) == 0)
            return kind;
    }
    fprintf(stderr, "sim_journal: no such kind: %s\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"seed", required_argument, NULL, 's'},
                                            {"count", required_argument, NULL, 'c'},
                                            {"at", required_argument, NULL, 'a'},
                                            {"kind", required_argument, NULL, 'k'},
                                            {NULL, 0, NULL, 0}};
    uint64_t seed = 1, count = 1, at = 0;
    enum kind kind = KIND_KILL;
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 's')
            seed = strtoull(optarg, NULL, 10);
        else if (c == 'c')
            count = strtoull(optarg, NULL, 10);
        else if (c == 'a')
            at = strtoull(optarg, NULL, 10);
        else if (c == 'k')
            kind = kind_of(optarg);
        else
            return 2;
    }
    if (at > 0) {
        run_case(seed, at, kind);
    } else {
        for (uint64_t i = 0; i < count; i++)
            run_work(seed + i);
    }
    printf("sim_journal: %" PRIu64 " cuts, %" PRIu64 " starts, %" PRIu64
           " runs with faults, %" PRIu64 " left something out, %" PRIu64
           " segments written again\n",
           cuts, starts, faults, left_out, repaired);
    return 0;
}
