/* Snapshots: random commands of all kinds run while a snapshot is written bit by bit, and what is
 * loaded from it is the store as it was at the beginning, to the last member, and goes on in the
 * same way. And without memory it is the snapshot that fails, whatever the allocation. */
#include "store/snapshot.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "store/store.h"
#include "tests/sim/dump.h"
#include "tests/support/record_batch.h"
#include "tests/support/sanitized.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define SECOND   INT64_C(1000000000)
#define START    (INT64_C(1800000000) * SECOND)

/* --- Memory that is refused. --- */

static bool refuses;
static long countdown; /* the allocation that is refused; later ones are not */
static bool refused;

void *__wrap_malloc(size_t size);
void *__real_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd, long offset);
void *__real_mmap64(void *at, size_t len, int prot, int flags, int fd, long offset);

static bool is_refused(void)
{
    if (!refuses || --countdown != 0)
        return false;
    refused = true;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return is_refused() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return is_refused() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return is_refused() ? NULL : __real_realloc(old, size);
}

void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd, long offset)
{
    return is_refused() ? (void *)-1 : __real_mmap64(at, len, prot, flags, fd, offset);
}

/* --- Chance. --- */

struct chance {
    uint64_t state;
};

static uint64_t below(struct chance *r, uint64_t n)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u; /* splitmix64 */

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % n;
}

static bool one_in(struct chance *r, uint64_t n)
{
    return below(r, n) == 0;
}

/* --- Commands. --- */

static const char *const space_names[] = {"default", "job-1", "empty"};
#define SPACES 2 /* that commands are about */

enum { KEYS = 40, BYTES = 60000 };
static uint8_t some_bytes[BYTES];

/* A command and what it borrows. */
struct order {
    size_t space;
    struct command command;
    char key[200];
    uint8_t items[2000];
    uint8_t changed[BYTES];
};

static struct slice any_value(struct chance *r)
{
    static const uint64_t lengths[] = {1, 8, 30, 200, 1500, 9000, 50000};
    uint64_t len = below(r, 1 + lengths[below(r, one_in(r, 4) ? 7 : 4)]);

    return (struct slice){some_bytes + below(r, BYTES - len), len};
}

static void any_key(struct chance *r, struct order *o)
{
    snprintf(o->key, sizeof o->key, "key/%" PRIu64, below(r, KEYS));
    o->command.key = slice_str(o->key);
}

static void any_path(struct chance *r, struct order *o)
{
    static const char *const names[] = {"a", "b", "ab", "_h", "c"};
    size_t depth = 1 + below(r, 4), len = 0;

    for (size_t i = 0; i < depth; i++)
        len += (size_t)snprintf(o->key + len, sizeof o->key - len, "/%s",
                                names[below(r, COUNT(names))]);
    o->command.key = slice_str(o->key);
}

static void any_pairs(struct chance *r, struct order *o)
{
    struct writer w = {.ptr = o->items, .cap = sizeof o->items};
    size_t count = below(r, 8);
    uint8_t len[8];

    for (size_t i = 0; i < count; i++) {
        struct slice value = {some_bytes + below(r, 1000), below(r, 100)};

        any_key(r, o);
        bytes_put_u64(len, o->command.key.len);
        writer_put(&w, len, sizeof len);
        writer_slice(&w, o->command.key);
        bytes_put_u64(len, value.len);
        writer_put(&w, len, sizeof len);
        writer_slice(&w, value);
    }
    o->command.items = (struct slice){o->items, w.len};
}

/* Sets a key to its present value with a few changed bytes. */
static void change_little(struct chance *r, struct order *o, const struct space *space)
{
    struct keymap *m = space_keys((struct space *)(uintptr_t)space, o->command.worker_store);
    struct slice now = blob_slice(keymap_get(m, o->command.key));

    if (now.len == 0 || now.len > sizeof o->changed)
        return;
    memcpy(o->changed, now.ptr, now.len);
    o->changed[below(r, now.len)] ^= (uint8_t)(1 + below(r, 255));
    if (one_in(r, 3)) /* all bytes differ, so that the change is no patch */
        for (size_t i = 0; i < now.len; i++)
            o->changed[i] ^= 0x55;
    o->command.kind = COMMAND_KEY_SET;
    o->command.value = (struct slice){o->changed, now.len};
}

static void order_key(struct chance *r, struct order *o, const struct space *space)
{
    static const enum command_kind kinds[] = {
        COMMAND_KEY_SET,         COMMAND_KEY_SET,    COMMAND_KEY_ADD,    COMMAND_KEY_ADD,
        COMMAND_KEY_COMPARE_SET, COMMAND_KEY_APPEND, COMMAND_KEY_DELETE, COMMAND_KEY_DELETE,
        COMMAND_KEY_MULTI_SET,   COMMAND_QUEUE_PUSH, COMMAND_QUEUE_PUSH, COMMAND_QUEUE_POP,
        COMMAND_BARRIER,
    };
    struct command *c = &o->command;

    c->kind = kinds[below(r, COUNT(kinds))];
    any_key(r, o);
    c->value = any_value(r);
    c->number = (int64_t)below(r, 1000);
    if (c->kind == COMMAND_KEY_MULTI_SET)
        any_pairs(r, o);
    if (c->kind == COMMAND_KEY_ADD || c->kind == COMMAND_BARRIER)
        o->key[0] = 'n';
    if (c->kind == COMMAND_QUEUE_PUSH || c->kind == COMMAND_QUEUE_POP)
        o->key[5] = '\0';
    c->key = slice_str(o->key);
    if (space->worker_stores.count != 0 && one_in(r, 2))
        c->worker_store = space->worker_stores.items[below(r, space->worker_stores.count)]->id;
    if (c->kind == COMMAND_KEY_SET && one_in(r, 2))
        change_little(r, o, space);
    if (c->kind == COMMAND_KEY_APPEND && one_in(r, 2))
        c->value.len /= 100;
}

static void order_tree(struct chance *r, struct order *o, int64_t now_ns)
{
    struct command *c = &o->command;

    c->kind = (enum command_kind)(COMMAND_TREE_SET +
                                  below(r, COMMAND_TREE_EXPIRE - COMMAND_TREE_SET + 1));
    if (one_in(r, 3))
        c->kind = COMMAND_TREE_SET;
    any_path(r, o);
    c->value = any_value(r);
    c->now_ns = now_ns;
    c->dir = one_in(r, 5);
    c->recursive = one_in(r, 2);
    c->refresh = one_in(r, 8);
    if (one_in(r, 3)) /* of a few times, so that some are the same */
        c->expires_ns = START + (int64_t)(below(r, 400)) * SECOND;
}

static void order_space(struct chance *r, struct order *o, const struct space *space,
                        int64_t now_ns)
{
    struct command *c = &o->command;

    any_key(r, o);
    c->now_ns = now_ns;
    c->worker_store = below(r, space->worker_stores.last_id + 2);
    c->value = (struct slice){some_bytes, below(r, 60)};
    c->placement = (enum worker_store_placement)below(r, 3);
    c->port = (uint16_t)below(r, 60000);
    c->number = (int64_t)below(r, 9);
    if (one_in(r, 15))
        c->kind = one_in(r, 3) ? COMMAND_SPACE_RESET : COMMAND_SPACE_FORGET;
    else
        c->kind = (enum command_kind)(COMMAND_WORKER_STORE_OPEN + below(r, 4));
}

/* The same chance makes the same of two stores that are the same. */
static void make_order(struct chance *r, struct order *o, const struct store *s, int64_t now_ns)
{
    uint64_t what = below(r, 100);
    const struct space *space;

    memset(o, 0, offsetof(struct order, changed));
    o->space = below(r, SPACES);
    space = store_find_space(s, slice_str(space_names[o->space]));
    if (what < 55)
        order_key(r, o, space);
    else if (what < 85)
        order_tree(r, o, now_ns);
    else
        order_space(r, o, space, now_ns);
}

static struct space *space_of(const struct store *s, const struct order *o)
{
    return store_find_space(s, slice_str(space_names[o->space]));
}

/* --- Stores. --- */

static void open_limited(struct store *s, uint64_t seed, size_t space_bytes_max)
{
    const struct store_options options = {.seed = seed, .space_bytes_max = space_bytes_max};

    store_init(s, &options);
}

static void open_store(struct store *s, uint64_t seed)
{
    open_limited(s, seed, 0);
}

static void open_spaces(struct store *s, uint64_t seed)
{
    open_store(s, seed);
    for (size_t i = 0; i < COUNT(space_names); i++)
        store_space(s, space_names[i])->tree.cut_from = seed % 3 == 0 ? 1 : 64;
}

static struct store_result carry_out(struct store *s, const struct order *o, struct batch *batch)
{
    struct store_result out;

    store_execute(s, space_of(s, o), &o->command, batch, &out);
    return out;
}

/* --- Sessions. --- */

enum { SESSIONS = 12 };

/* What became of the command, to a session that uses the same keys. */
static void answer_session(const struct order *o, const struct store_result *out,
                           struct session_done *c)
{
    static uint8_t number[8];

    bytes_put_u64(number, (uint64_t)out->number + out->count);
    c->flags = RELAY_ANSWERED;
    c->answer = (struct slice){number, o->command.kind == COMMAND_BARRIER ? 1 : 8};
    if (o->command.kind == COMMAND_BARRIER && !out->open) {
        c->flags = RELAY_ARRIVED;
        c->answer = o->command.key;
    } else if (o->command.kind == COMMAND_KEY_COMPARE_SET) {
        c->flags = RELAY_TOOK;
        c->answer = (struct slice){0};
    } else if (o->command.kind == COMMAND_QUEUE_POP) {
        c->popped = true;
        c->blob = out->value;
    }
}

static struct session_hint any_hint(struct chance *r, uint64_t id)
{
    static uint8_t bytes[300];

    bytes_put_u64(bytes, below(r, 1000));
    return (struct session_hint){id, {bytes, below(r, sizeof bytes)}};
}

/* What happens to a session behind a command. False: nothing. */
static bool make_session_change(struct chance *r, struct store *s, const struct order *o,
                                const struct store_result *out, struct change *c)
{
    struct space *space = space_of(s, o);
    uint64_t id = UINT64_MAX / (1 + below(r, SESSIONS)), what = below(r, 30);
    const struct session *session = session_find(&space->sessions, id);
    uint64_t worker_store = session == NULL ? 0 : session->worker_store;

    *c = (struct change){.kind = CHANGE_SESSION_END, .session = id};
    if (what < 2) {
        c->kind = CHANGE_SESSION_BIND;
        c->bind = (struct session_bind){id, what == 0, below(r, space->worker_stores.last_id + 1)};
    } else if (what < 4 && session != NULL) {
        c->kind = CHANGE_SESSION_HINT;
        c->hint = any_hint(r, id);
    } else if (what > 4) {
        if (out->status != STORE_OK || command_part(o->command.kind) != PART_KEYS ||
            worker_store != o->command.worker_store)
            return false;
        c->kind = CHANGE_SESSION_DONE;
        c->done = (struct session_done){
            .id = id, .number = (session == NULL ? 0 : session->number) + 1 + below(r, 300)};
        answer_session(o, out, &c->done);
    }
    return true;
}

static void carry_out_session(struct chance *r, struct store *s, const struct order *o,
                              const struct store_result *out, struct batch *batch)
{
    struct change c;

    if (make_session_change(r, s, o, out, &c))
        store_change(s, space_of(s, o), &c, batch);
}

/* What the client of a MULTI_SET does with many keys: they are picked before. */
static struct batch_lookup *pick(struct space *space, struct order *o)
{
    struct keymap *m = space_keys(space, o->command.worker_store);
    struct slice rest = o->command.items, key = {0}, value = {0};
    struct batch_lookup *p = batch_lookup_begin(m, COUNT(o->items), true);

    assert_non_null(p);
    while (rest.len != 0) {
        key = (struct slice){rest.ptr + 8, bytes_get_u64(rest.ptr)};
        rest = slice_from(rest, 8 + key.len);
        value = (struct slice){rest.ptr + 8, bytes_get_u64(rest.ptr)};
        rest = slice_from(rest, 8 + value.len);
        assert_true(batch_lookup_add_value(p, key, value));
    }
    return p;
}

static void step(struct chance *r, struct store *s, struct batch *batch, int64_t *now_ns)
{
    struct batch_lookup *p = NULL;
    struct store_result out;
    struct order o;

    *now_ns += (int64_t)below(r, (uint64_t)SECOND);
    make_order(r, &o, s, *now_ns);
    if (o.command.kind == COMMAND_KEY_MULTI_SET && one_in(r, 2))
        p = o.command.lookup = pick(space_of(s, &o), &o);
    out = carry_out(s, &o, batch);
    carry_out_session(r, s, &o, &out, batch);
    blob_unref(out.value != NULL && o.command.kind == COMMAND_QUEUE_POP ? out.value : NULL);
    batch_lookup_end(p);
    if (one_in(r, 4))
        lazy_free_run(&s->lazy_free, below(r, 30));
}

/* A store that has made the same changes. */
static void carry_out_batch(struct store *s, const struct record_batch *records)
{
    for (size_t i = 0; i < records->count; i++) {
        struct space *space = store_find_space(s, records->records[i].space);
        struct store_result out = {0};

        assert_true(store_can_apply(s, space, &records->records[i].change));
        store_apply(s, space, &records->records[i].change, &out);
        blob_unref(out.value);
    }
}

static void replay(struct store *s, const struct batch *batch)
{
    struct record_batch records;

    assert_true(record_decode(batch_bytes(batch), &records));
    carry_out_batch(s, &records);
    record_free(&records);
}

static void expect_same_text(char *a, char *b, const char *what, uint64_t seed)
{
    size_t at = 0, line = 0;

    if (strcmp(a, b) != 0) {
        for (; a[at] == b[at]; at++)
            line = a[at] == '\n' ? at + 1 : line;
        fail_msg("seed %" PRIu64 ", %s:\n  expected %.*s\n  found    %.*s", seed, what,
                 (int)strcspn(a + line, "\n"), a + line, (int)strcspn(b + line, "\n"), b + line);
    }
    free(a);
    free(b);
}

/* The same commands come to the same in both. */
static void expect_same_future(struct store *a, struct store *b, struct chance r, int64_t now_ns,
                               uint64_t seed)
{
    for (int i = 0; i < 150; i++) {
        struct store_result x, y;
        struct order o;
        struct chance again;
        bool popped;

        now_ns += (int64_t)below(&r, (uint64_t)SECOND);
        make_order(&r, &o, a, now_ns);
        popped = o.command.kind == COMMAND_QUEUE_POP;
        x = carry_out(a, &o, NULL);
        y = carry_out(b, &o, NULL);
        if (x.status != y.status || x.number != y.number || x.count != y.count ||
            x.open != y.open || x.tree.code != y.tree.code ||
            !slice_equal(blob_slice(x.value), blob_slice(y.value)))
            fail_msg("seed %" PRIu64 ": command %d comes to something else", seed, i);
        again = r;
        carry_out_session(&again, a, &o, &x, NULL);
        carry_out_session(&r, b, &o, &y, NULL);
        blob_unref(popped ? x.value : NULL);
        blob_unref(popped ? y.value : NULL);
    }
}

/* --- Snapshots. --- */

/* The batches of a snapshot. */
struct slices {
    struct batch items[4000];
    size_t count;
};

/* All in their order. */
static void replay_all(struct store *s, const struct slices *l)
{
    for (size_t i = 0; i < l->count; i++) {
        struct record_batch b;

        assert_true(record_decode(batch_bytes(&l->items[i]), &b));
        assert_true(b.count == 0 || b.number == i);
        carry_out_batch(s, &b);
        record_free(&b);
    }
}

static void slices_free(struct slices *l)
{
    while (l->count > 0)
        batch_fini(&l->items[--l->count]);
}

static enum snapshot_state write_slice(struct snapshot *s, struct slices *l, size_t bytes)
{
    enum snapshot_state state;

    assert_true(l->count < COUNT(l->items));
    batch_init(&l->items[l->count]);
    state = snapshot_write(s, bytes, &l->items[l->count++]);
    assert_true(l->items[l->count - 1].number == 0);
    return state;
}

static bool load(struct store *s, const struct slices *l)
{
    bool ok = true;

    for (size_t i = 0; ok && i < l->count; i++) {
        assert_false(snapshot_is_loaded(s));
        ok = snapshot_load(s, batch_bytes(&l->items[i]));
    }
    return ok;
}

static void expect_nothing_left(const size_t before[ACCOUNT_KINDS])
{
    for (int i = 0; i < ACCOUNT_KINDS; i++) {
        if (account.bytes[i] != before[i])
            fail_msg("%s: %zu bytes were held, now %zu", account_kind_name((enum account_kind)i),
                     before[i], account.bytes[i]);
    }
}

struct run {
    struct store live;
    struct store copy; /* replays, and stops at the moment */
    struct batch batch;
    struct slices journal; /* all of them */
    struct slices slices;
    int64_t now_ns;
    char *text; /* of the moment */
};

static void keep_batch(struct slices *l, const struct batch *batch)
{
    struct batch *copy = &l->items[l->count++];

    assert_true(l->count <= COUNT(l->items));
    batch_init(copy);
    batch_begin(copy, batch->number);
    assert_true(batch_append(copy, batch));
}

static void run_begin(struct run *run, struct chance *r)
{
    size_t steps = below(r, one_in(r, 4) ? 3000 : 300);

    open_spaces(&run->live, r->state);
    open_spaces(&run->copy, ~r->state);
    run->now_ns = START;
    batch_init(&run->batch);
    for (size_t i = 0; i < steps; i++) {
        batch_begin(&run->batch, i);
        step(r, &run->live, &run->batch, &run->now_ns);
        replay(&run->copy, &run->batch);
        keep_batch(&run->journal, &run->batch);
    }
    run->text = dump_snapshot_text(&run->live);
}

static void run_end(struct run *run)
{
    store_fini(&run->live);
    store_fini(&run->copy);
    batch_fini(&run->batch);
    slices_free(&run->journal);
    slices_free(&run->slices);
}

static void check_loaded(struct run *run, struct chance r, uint64_t seed)
{
    struct store loaded;
    struct space *a, *b;

    open_store(&loaded, seed * 77);
    assert_true(load(&loaded, &run->slices));
    assert_true(snapshot_is_loaded(&loaded));
    expect_same_text(run->text, dump_snapshot_text(&loaded), "the loaded store", seed);
    TAILQ_FOREACH(a, &run->copy.spaces,
                  entry) { /* refused requests are counted, and not replayed */
        b = store_find_space(&loaded, slice_str(a->name));
        memcpy(a->tree.failed, b->tree.failed, sizeof a->tree.failed);
    }
    expect_same_future(&run->copy, &loaded, r, run->now_ns, seed);
    expect_same_text(dump_snapshot_text(&run->copy), dump_snapshot_text(&loaded),
                     "the same commands later", seed);
    store_fini(&loaded);
}

/* The store changes between the slices of a snapshot. */
static void try_seed(uint64_t seed)
{
    static struct run run;
    struct chance r = {seed}, same;
    size_t before[ACCOUNT_KINDS], size = 1 + below(&r, 1u << below(&r, 16)), busy = below(&r, 8);
    enum snapshot_state state = SNAPSHOT_GOES_ON;
    struct snapshot *s;
    int64_t then;

    memcpy(before, account.bytes, sizeof before);
    run_begin(&run, &r);
    same = r;
    then = run.now_ns;
    s = snapshot_begin(&run.live);
    assert_non_null(s);
    assert_null(snapshot_begin(&run.live));
    while (state == SNAPSHOT_GOES_ON) {
        for (size_t i = below(&r, 1 + 2 * busy); i > 0; i--)
            step(&r, &run.live, NULL, &run.now_ns);
        state = write_slice(s, &run.slices, run.slices.count > 2000 ? 1 << 20 : size);
    }
    assert_int_equal(state, SNAPSHOT_DONE);
    snapshot_end(s);
    run.now_ns = then;
    check_loaded(&run, same, seed);
    run_end(&run);
    expect_nothing_left(before);
}

static void a_loaded_snapshot_is_the_store_of_its_moment(void **state)
{
    const char *text = getenv("SNAPSHOT_SEEDS");
    uint64_t count = text == NULL ? SANITIZED_OR(30, 150) : strtoull(text, NULL, 10);

    (void)state;
    for (uint64_t seed = 1; seed <= count; seed++)
        try_seed(seed);
}

/* With a lower limit than before, a snapshot and a journal are still loaded completely. */
static void a_lower_limit_refuses_nothing_that_was_kept(void **state)
{
    static struct run run;

    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        enum snapshot_state result = SNAPSHOT_GOES_ON;
        struct chance r = {seed};
        struct store loaded, replayed;
        struct snapshot *s;

        run_begin(&run, &r);
        s = snapshot_begin(&run.live);
        while (result == SNAPSHOT_GOES_ON)
            result = write_slice(s, &run.slices, 5000);
        snapshot_end(s);
        open_limited(&loaded, 1, 1);
        assert_true(load(&loaded, &run.slices));
        open_limited(&replayed, 2, 1);
        for (size_t i = 0; i < COUNT(space_names); i++)
            store_space(&replayed, space_names[i]);
        replay_all(&replayed, &run.journal);
        store_fini(&loaded);
        store_fini(&replayed);
        free(run.text);
        run_end(&run);
    }
}

/* --- A journal. --- */

static void a_replay_makes_the_same_store(void **state)
{
    static struct run run;

    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct chance r = {seed};
        struct store s;

        run_begin(&run, &r);
        open_spaces(&s, seed);
        replay_all(&s, &run.journal);
        expect_same_text(dump_text(&run.live), dump_text(&s), "a replay", seed);
        store_fini(&s);
        free(run.text);
        run_end(&run);
    }
}

/* --- Memory. --- */

/* A command whose memory is there when it is let through; from then on, one allocation is refused,
 * the snapshot's or the change's own. */
static struct store_result carry_out_refused(struct store *s, const struct order *o)
{
    struct store_result out;
    struct change change;

    if (store_check(s, space_of(s, o), &o->command, &change, &out)) {
        refuses = true;
        store_apply(s, space_of(s, o), &change, &out);
        refuses = false;
    }
    return out;
}

/* The same of what happens to a session behind it. */
static void carry_out_session_refused(struct chance *r, struct store *s, const struct order *o,
                                      const struct store_result *result)
{
    struct store_result out = {0};
    struct change change;

    if (!make_session_change(r, s, o, result, &change) ||
        !store_can_apply(s, space_of(s, o), &change))
        return;
    refuses = true;
    store_apply(s, space_of(s, o), &change, &out);
    refuses = false;
}

static void expect_same_result(struct store *live, struct store *other, struct chance *r,
                               int64_t now_ns)
{
    struct store_result x, y;
    struct chance again;
    struct order o;

    make_order(r, &o, live, now_ns);
    x = carry_out_refused(live, &o);
    y = carry_out(other, &o, NULL);
    assert_true(x.status == y.status && x.number == y.number && x.count == y.count);
    assert_true(x.tree.code == y.tree.code);
    again = *r;
    carry_out_session_refused(&again, live, &o, &x);
    carry_out_session(r, other, &o, &y, NULL);
    if (o.command.kind != COMMAND_QUEUE_POP)
        return;
    blob_unref(x.value);
    blob_unref(y.value);
}

static enum snapshot_state write_refused(struct run *run, struct chance *r, struct snapshot *s)
{
    enum snapshot_state state = SNAPSHOT_GOES_ON;

    while (state == SNAPSHOT_GOES_ON) {
        for (size_t i = below(r, 5); i > 0; i--)
            expect_same_result(&run->live, &run->copy, r, run->now_ns);
        refuses = true;
        state = write_slice(s, &run->slices, 2000);
        refuses = false;
    }
    return state;
}

/* The k-th allocation is refused, from the beginning of a snapshot on. False: there were not so
 * many. *failures counts snapshots that failed. */
static bool try_refusal(uint64_t seed, long k, size_t *failures)
{
    static struct run run;
    struct chance r = {seed};
    size_t before[ACCOUNT_KINDS];
    struct snapshot *s;

    memcpy(before, account.bytes, sizeof before);
    run_begin(&run, &r);
    countdown = k;
    refused = false;
    refuses = true;
    s = snapshot_begin(&run.live);
    refuses = false;
    assert_true(s != NULL || refused);
    if (s == NULL || write_refused(&run, &r, s) == SNAPSHOT_FAILED) {
        assert_true(refused);
        ++*failures;
    } else {
        struct store loaded;

        open_store(&loaded, seed);
        assert_true(load(&loaded, &run.slices));
        expect_same_text(run.text, dump_snapshot_text(&loaded), "with less memory", seed);
        run.text = NULL;
        store_fini(&loaded);
    }
    free(run.text);
    snapshot_end(s);
    s = snapshot_begin(&run.live); /* another one may be made */
    assert_non_null(s);
    snapshot_end(s);
    expect_same_text(dump_text(&run.copy), dump_text(&run.live), "the store itself", seed);
    run_end(&run);
    expect_nothing_left(before);
    return refused;
}

static void without_memory_the_snapshot_fails_and_nothing_else(void **state)
{
    size_t failures = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        for (long k = 1 + (long)seed % ALLOCATION_STEP; try_refusal(seed, k, &failures);
             k += ALLOCATION_STEP)
            continue;
    }
    assert_in_range(failures, 150 / ALLOCATION_STEP, SIZE_MAX);
}

static void set(struct store *s, const char *key, struct slice value)
{
    struct order o = {.command = {.kind = COMMAND_KEY_SET, .key = slice_str(key), .value = value}};

    assert_int_equal(carry_out(s, &o, NULL).status, STORE_OK);
}

/* A request that finds no memory: a snapshot that keeps much fails, one that keeps little goes on.
 */
static void a_snapshot_that_keeps_much_makes_room(void **state)
{
    (void)state;
    for (int much = 0; much < 2; much++) {
        struct slices *l = calloc(1, sizeof *l);
        struct snapshot *snapshot;
        struct store s;
        char key[20];

        open_spaces(&s, 1);
        for (int i = 0; i < 100; i++) {
            snprintf(key, sizeof key, "%d", i);
            set(&s, key, (struct slice){some_bytes, 20000});
        }
        snapshot = snapshot_begin(&s);
        while (snapshot_write(snapshot, 1, &l->items[0]) == SNAPSHOT_GOES_ON &&
               l->items[0].len < 10000)
            continue; /* until it is at the keys */
        for (int i = 0; i < (much ? 100 : 10); i++) {
            snprintf(key, sizeof key, "%d", i);
            set(&s, key, (struct slice){some_bytes + 1, 20000});
        }
        account_set_limit(account.total + (2u << 20)); /* a part of it is kept back */
        assert_false(store_make_room(&s, ACCOUNT_ORDINARY, 1500000));
        account_set_limit(0);
        assert_int_equal(snapshot_write(snapshot, 1, &l->items[0]),
                         much ? SNAPSHOT_FAILED : SNAPSHOT_GOES_ON);
        snapshot_end(snapshot);
        batch_fini(&l->items[0]);
        free(l);
        store_fini(&s);
    }
}

/* --- One case each. --- */

/* Writes the rest of a snapshot, loads it, and expects `text`. */
static void expect_snapshot(struct store *s, struct snapshot *snapshot, char *text,
                            struct store *loaded)
{
    enum snapshot_state state = SNAPSHOT_GOES_ON;
    struct slices *l = calloc(1, sizeof *l);

    while (state == SNAPSHOT_GOES_ON)
        state = write_slice(snapshot, l, 1000);
    assert_int_equal(state, SNAPSHOT_DONE);
    snapshot_end(snapshot);
    assert_null(s->snapshot);
    open_store(loaded, 9);
    assert_true(load(loaded, l));
    expect_same_text(text, dump_snapshot_text(loaded), "one case", 0);
    slices_free(l);
    free(l);
}

/* Small and large values that are written over in place, by SET, by a part of it, by APPEND. */
static void a_value_may_be_written_over(void **state)
{
    static const size_t lengths[] = {1, 100, 5000, 50000};

    (void)state;
    for (size_t i = 0; i < COUNT(lengths); i++) {
        struct order o = {.command = {.kind = COMMAND_KEY_APPEND, .key = slice_str("a")}};
        struct slice value = {some_bytes, lengths[i]};
        struct store s, loaded;
        struct snapshot *snapshot;
        char *text;

        open_spaces(&s, 1);
        set(&s, "s", value);
        set(&s, "p", value);
        set(&s, "a", value);
        o.command.value = value;
        carry_out(&s, &o, NULL);
        text = dump_snapshot_text(&s);
        snapshot = snapshot_begin(&s);
        set(&s, "s", (struct slice){some_bytes + 1, lengths[i]});
        memcpy(o.changed, some_bytes, lengths[i]);
        o.changed[lengths[i] / 2] ^= 1;
        set(&s, "p", (struct slice){o.changed, lengths[i]});
        o.command.value = slice_str("x");
        carry_out(&s, &o, NULL);
        expect_snapshot(&s, snapshot, text, &loaded);
        store_fini(&s);
        store_fini(&loaded);
    }
}

static void queue(struct store *s, enum command_kind kind, const char *name)
{
    struct order o = {
        .command = {.kind = kind, .key = slice_str(name), .value = slice_str("element")}};
    struct store_result out = carry_out(s, &o, NULL);

    assert_int_equal(out.status, STORE_OK);
    blob_unref(kind == COMMAND_QUEUE_POP ? out.value : NULL);
}

/* The snapshot stands at a queue that has nothing of the moment any more, and that ends. */
static void a_queue_may_end_where_the_snapshot_stands(void **state)
{
    struct store s, loaded;
    struct snapshot *snapshot;
    char *text;

    (void)state;
    open_spaces(&s, 1);
    queue(&s, COMMAND_QUEUE_PUSH, "first");
    queue(&s, COMMAND_QUEUE_PUSH, "second");
    queue(&s, COMMAND_QUEUE_PUSH, "third");
    text = dump_snapshot_text(&s);
    snapshot = snapshot_begin(&s);
    queue(&s, COMMAND_QUEUE_PUSH, "second");
    queue(&s, COMMAND_QUEUE_POP, "second");
    queue(&s, COMMAND_QUEUE_POP, "first");
    queue(&s, COMMAND_QUEUE_POP, "second");
    queue(&s, COMMAND_QUEUE_PUSH, "second"); /* in the same memory, perhaps */
    expect_snapshot(&s, snapshot, text, &loaded);
    store_fini(&s);
    store_fini(&loaded);
}

/* A key of the tree and the event that made it share the value, as they did. */
static void events_and_keys_share_their_values(void **state)
{
    struct order o = {.command = {.kind = COMMAND_TREE_SET, .key = slice_str("/k")}};
    struct store s, loaded;
    const struct tree *t;
    const struct node *n;
    struct slice where;
    size_t before;

    (void)state;
    open_spaces(&s, 1);
    for (size_t i = 0; i < 3; i++) {
        o.command.value = (struct slice){some_bytes + i, 1000};
        carry_out(&s, &o, NULL);
    }
    o.command.refresh = true;
    o.command.value = (struct slice){0};
    for (size_t i = 0; i < 3; i++) {
        o.command.expires_ns = (int64_t)(i + 1) * INT64_C(1000000000000);
        carry_out(&s, &o, NULL);
    }
    before = account.bytes[ACCOUNT_TREES] + account.bytes[ACCOUNT_HISTORY];
    expect_snapshot(&s, snapshot_begin(&s), dump_snapshot_text(&s), &loaded);
    t = &store_find_space(&loaded, slice_str(space_names[0]))->tree;
    assert_int_equal(tree_get((struct tree *)(uintptr_t)t, slice_str("/k"), &n, &where), ETCD_OK);
    assert_int_equal(n->value->refs, 8); /* the node's, its event's, two each of the refreshes */
    assert_int_equal(n->value->kind, ACCOUNT_TREES);
    assert_ptr_equal(t->hub.history[t->index]->prev_value, n->value);
    assert_int_equal(t->hub.history[t->index - 3]->prev_value->refs, 2);
    assert_int_equal(account.bytes[ACCOUNT_TREES] + account.bytes[ACCOUNT_HISTORY], 2 * before);
    store_fini(&s);
    store_fini(&loaded);
}

/* Loads a history with less memory than the store had when it kept the events. */
static void where_memory_is_short_the_history_begins_later(void **state)
{
    struct order o = {.command = {.kind = COMMAND_TREE_SET, .key = slice_str("/k")}};
    struct slices *l = calloc(1, sizeof *l);
    enum snapshot_state at = SNAPSHOT_GOES_ON;
    struct snapshot *snapshot;
    struct store s, loaded;
    const struct tree *t;

    (void)state;
    open_spaces(&s, 1);
    for (size_t i = 0; i < 100; i++) {
        o.command.value = (struct slice){some_bytes + i, 10000};
        carry_out(&s, &o, NULL);
    }
    snapshot = snapshot_begin(&s);
    while (at == SNAPSHOT_GOES_ON)
        at = write_slice(snapshot, l, 100000);
    snapshot_end(snapshot);
    assert_int_equal(at, SNAPSHOT_DONE);
    open_store(&loaded, 9);
    account_set_limit(account.total + ACCOUNT_KEPT_MIN + 500000);
    assert_true(load(&loaded, l));
    account_set_limit(0);
    t = &store_find_space(&loaded, slice_str(space_names[0]))->tree;
    assert_in_range(t->hub.oldest, t->index - 60, t->index + 1);
    o.command.value = (struct slice){some_bytes, 10};
    carry_out(&loaded, &o, NULL);
    assert_non_null(t->hub.history[t->index]);
    slices_free(l);
    free(l);
    store_fini(&s);
    store_fini(&loaded);
}

static void postpone(struct store *s)
{
    struct order o = {.command = {.kind = COMMAND_TREE_POSTPONE, .number = SECOND}};
    struct batch batch;

    batch_init(&batch);
    batch_begin(&batch, 1);
    carry_out(s, &o, &batch);
    assert_int_equal(batch.count, 1);
    batch_fini(&batch);
}

/* All deadlines of a tree move in one step. A snapshot that has already written the tree has the
 * old deadlines; any other snapshot fails, and reports that memory was not the cause. */
static void a_snapshot_has_the_deadlines_of_its_moment_or_fails(void **state)
{
    struct order o = {.command = {.kind = COMMAND_TREE_SET,
                                  .key = slice_str("/k"),
                                  .now_ns = START,
                                  .expires_ns = START + SECOND}};
    struct store s, loaded;
    struct snapshot *snapshot;
    struct batch out;
    char *text;

    (void)state;
    open_spaces(&s, 1);
    carry_out(&s, &o, NULL);
    set(&s, "key", slice_str("value"));
    batch_init(&out);
    snapshot = snapshot_begin(&s);
    postpone(&s);
    assert_int_equal(snapshot_write(snapshot, 100000, &out), SNAPSHOT_OVERTAKEN);
    snapshot_end(snapshot);

    open_store(&loaded, 1);
    text = dump_snapshot_text(&s);
    snapshot = snapshot_begin(&s);
    while (!TAILQ_EMPTY(&s.spaces.tqh_first->tree.snapshots)) {
        assert_int_equal(snapshot_write(snapshot, 1, &out), SNAPSHOT_GOES_ON);
        assert_true(snapshot_load(&loaded, batch_bytes(&out)));
    }
    postpone(&s);
    assert_int_equal(snapshot_write(snapshot, 100000, &out), SNAPSHOT_DONE);
    assert_true(snapshot_load(&loaded, batch_bytes(&out)));
    expect_same_text(text, dump_snapshot_text(&loaded), "deadlines", 0);
    snapshot_end(snapshot);
    batch_fini(&out);
    store_fini(&s);
    store_fini(&loaded);
}

static void a_store_without_spaces_has_a_snapshot(void **state)
{
    struct store s, loaded;

    (void)state;
    open_store(&s, 1);
    expect_snapshot(&s, snapshot_begin(&s), dump_snapshot_text(&s), &loaded);
    assert_true(TAILQ_EMPTY(&loaded.spaces));
    store_fini(&s);
    store_fini(&loaded);
}

/* --- Many keys at once. --- */

enum { MANY = 20000 };

static struct batch_lookup *look_many_up(struct keymap *m, int from)
{
    struct batch_lookup *p = batch_lookup_begin(m, MANY, true);
    char key[20];

    for (int i = from; i < from + MANY; i++) {
        snprintf(key, sizeof key, "%d", i);
        assert_true(batch_lookup_add_value(p, slice_str(key), slice_str(key)));
    }
    return p;
}

static void set_many(struct store *s, uint64_t worker_store, int from)
{
    struct order o = {.command = {.kind = COMMAND_KEY_MULTI_SET, .worker_store = worker_store}};

    o.command.lookup = look_many_up(space_keys(space_of(s, &o), worker_store), from);
    assert_int_equal(carry_out(s, &o, NULL).status, STORE_OK);
    batch_lookup_end(o.command.lookup);
}

/* Half of the keys are written again while the snapshot is open; then the worker store goes, or all
 * keys, or nothing. */
static void many_keys_may_change_at_once(void **state)
{
    static const enum command_kind kinds[] = {COMMAND_NONE, COMMAND_SPACE_FORGET,
                                              COMMAND_WORKER_STORE_DROP};

    (void)state;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        enum snapshot_state result = SNAPSHOT_GOES_ON;
        struct slices *l = calloc(1, sizeof *l);
        struct order o = {.command = {.kind = COMMAND_WORKER_STORE_OPEN}};
        struct store s, loaded;
        struct snapshot *snapshot;
        char *text;

        open_spaces(&s, 1);
        carry_out(&s, &o, NULL);
        set_many(&s, 1, 0);
        text = dump_snapshot_text(&s);
        snapshot = snapshot_begin(&s);
        set_many(&s, 1, MANY / 2);
        assert_in_range(account.bytes[ACCOUNT_SNAPSHOT], 1, 500000); /* a few bytes beside each */
        o.command = (struct command){.kind = kinds[i], .worker_store = 1};
        if (kinds[i] != COMMAND_NONE)
            carry_out(&s, &o, NULL);
        while (result == SNAPSHOT_GOES_ON)
            result = write_slice(snapshot, l, 20000);
        snapshot_end(snapshot);
        open_store(&loaded, 2);
        assert_true(load(&loaded, l));
        expect_same_text(text, dump_snapshot_text(&loaded), "many keys", i);
        store_fini(&loaded);
        store_fini(&s);
        slices_free(l);
        free(l);
    }
    assert_true(account.bytes[ACCOUNT_SNAPSHOT] == 0);
}

/* --- Bytes that are no snapshot. --- */

static void make_snapshot(struct run *run, struct chance *r, size_t size)
{
    enum snapshot_state state = SNAPSHOT_GOES_ON;
    struct snapshot *s;

    run_begin(run, r);
    s = snapshot_begin(&run->live);
    while (state == SNAPSHOT_GOES_ON)
        state = write_slice(s, &run->slices, size);
    snapshot_end(s);
}

static void what_is_not_whole_is_not_taken(void **state)
{
    static struct run run;
    struct chance r = {3};
    struct store s;

    (void)state;
    make_snapshot(&run, &r, 500);
    for (size_t skipped = 0; skipped < run.slices.count; skipped++) {
        bool ok = true;

        open_store(&s, 1);
        for (size_t i = 0; ok && i < run.slices.count; i++) {
            if (i != skipped)
                ok = snapshot_load(&s, batch_bytes(&run.slices.items[i]));
        }
        assert_false(ok && snapshot_is_loaded(&s));
        store_fini(&s);
    }
    open_store(&s, 1);
    assert_true(load(&s, &run.slices));
    assert_false(snapshot_load(&s, batch_bytes(&run.slices.items[0])));
    store_fini(&s);
    free(run.text);
    run_end(&run);
}

/* The result may be another store or none; nothing breaks, and the store can be ended. */
static void any_byte_may_be_wrong(void **state)
{
    static struct run run;
    struct chance r = {5};
    size_t taken = 0;

    (void)state;
    make_snapshot(&run, &r, 3000);
    for (int round = 0; round < 1500; round++) {
        struct batch *b = &run.slices.items[below(&r, run.slices.count)];
        uint8_t *at = &b->bytes[below(&r, b->len)], was = *at;
        struct store s;

        *at = (uint8_t)(one_in(&r, 2) ? was ^ 1u << below(&r, 8) : below(&r, 256));
        open_store(&s, 1);
        taken += load(&s, &run.slices);
        store_fini(&s);
        *at = was;
    }
    assert_in_range(taken, 100, 1499);
    free(run.text);
    run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loaded_snapshot_is_the_store_of_its_moment),
        cmocka_unit_test(a_replay_makes_the_same_store),
        cmocka_unit_test(a_lower_limit_refuses_nothing_that_was_kept),
        cmocka_unit_test(without_memory_the_snapshot_fails_and_nothing_else),
        cmocka_unit_test(a_snapshot_that_keeps_much_makes_room),
        cmocka_unit_test(a_value_may_be_written_over),
        cmocka_unit_test(a_queue_may_end_where_the_snapshot_stands),
        cmocka_unit_test(events_and_keys_share_their_values),
        cmocka_unit_test(where_memory_is_short_the_history_begins_later),
        cmocka_unit_test(a_snapshot_has_the_deadlines_of_its_moment_or_fails),
        cmocka_unit_test(a_store_without_spaces_has_a_snapshot),
        cmocka_unit_test(many_keys_may_change_at_once),
        cmocka_unit_test(what_is_not_whole_is_not_taken),
        cmocka_unit_test(any_byte_may_be_wrong),
    };

    for (size_t i = 0; i < BYTES; i++)
        some_bytes[i] = (uint8_t)(i * 31 >> 3);
    return cmocka_run_group_tests_name("store/snapshot", tests, NULL, NULL);
}
