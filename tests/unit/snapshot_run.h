/* Random commands on a store, and snapshots of it, with memory that is refused. */
#pragma once

#include "store/snapshot.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "store/store.h"
#include "tests/sim/dump.h"
#include "tests/support/record_batch.h"
#include "tests/support/refused_memory.h"
#include "tests/support/sanitized.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define SECOND   INT64_C(1000000000)
#define START    (INT64_C(1800000000) * SECOND)

void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd, long offset)
{
    return allocation_is_refused() ? (void *)-1 : __real_mmap64(at, len, prot, flags, fd, offset);
}

/* --- Chance. --- */

struct chance {
    uint64_t state;
};

static inline uint64_t below(struct chance *r, uint64_t n)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u; /* splitmix64 */

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % n;
}

static inline bool one_in(struct chance *r, uint64_t n)
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

static inline struct slice any_value(struct chance *r)
{
    static const uint64_t lengths[] = {1, 8, 30, 200, 1500, 9000, 50000};
    uint64_t len = below(r, 1 + lengths[below(r, one_in(r, 4) ? 7 : 4)]);

    return (struct slice){some_bytes + below(r, BYTES - len), len};
}

static inline void any_key(struct chance *r, struct order *o)
{
    snprintf(o->key, sizeof o->key, "key/%" PRIu64, below(r, KEYS));
    o->command.key = slice_str(o->key);
}

static inline void any_path(struct chance *r, struct order *o)
{
    static const char *const names[] = {"a", "b", "ab", "_h", "c"};
    size_t depth = 1 + below(r, 4), len = 0;

    for (size_t i = 0; i < depth; i++)
        len += (size_t)snprintf(o->key + len, sizeof o->key - len, "/%s",
                                names[below(r, COUNT(names))]);
    o->command.key = slice_str(o->key);
}

static inline void any_pairs(struct chance *r, struct order *o)
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
static inline void change_little(struct chance *r, struct order *o, const struct space *space)
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

static inline void order_key(struct chance *r, struct order *o, const struct space *space)
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

static inline void order_tree(struct chance *r, struct order *o, int64_t now_ns)
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

static inline void order_space(struct chance *r, struct order *o, const struct space *space,
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
static inline void make_order(struct chance *r, struct order *o, const struct store *s,
                              int64_t now_ns)
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

static inline struct space *space_of(const struct store *s, const struct order *o)
{
    return store_find_space(s, slice_str(space_names[o->space]));
}

/* --- Stores. --- */

static inline void open_limited(struct store *s, uint64_t seed, size_t space_bytes_max)
{
    const struct store_options options = {.seed = seed, .space_bytes_max = space_bytes_max};

    store_init(s, &options);
}

static inline void open_store(struct store *s, uint64_t seed)
{
    open_limited(s, seed, 0);
}

static inline void open_spaces(struct store *s, uint64_t seed)
{
    open_store(s, seed);
    for (size_t i = 0; i < COUNT(space_names); i++)
        store_space(s, slice_str(space_names[i]))->tree.cut_from = seed % 3 == 0 ? 1 : 64;
}

static inline struct store_result carry_out(struct store *s, const struct order *o,
                                            struct batch *batch)
{
    struct store_result out;

    store_execute(s, space_of(s, o), &o->command, batch, &out);
    return out;
}

/* --- Sessions. --- */

enum { SESSIONS = 12 };

/* What became of the command, to a session that uses the same keys. */
static inline void answer_session(const struct order *o, const struct store_result *out,
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

static inline struct session_hint any_hint(struct chance *r, uint64_t id)
{
    static uint8_t bytes[300];

    bytes_put_u64(bytes, below(r, 1000));
    return (struct session_hint){id, {bytes, below(r, sizeof bytes)}};
}

/* What happens to a session behind a command. False: nothing. */
static inline bool make_session_change(struct chance *r, struct store *s, const struct order *o,
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

static inline void carry_out_session(struct chance *r, struct store *s, const struct order *o,
                                     const struct store_result *out, struct batch *batch)
{
    struct change c;

    if (make_session_change(r, s, o, out, &c))
        store_change(s, space_of(s, o), &c, batch);
}

/* What the client of a MULTI_SET does with many keys: they are picked before. */
static inline struct batch_lookup *pick(struct space *space, struct order *o)
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

static inline void step(struct chance *r, struct store *s, struct batch *batch, int64_t *now_ns)
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
static inline void carry_out_batch(struct store *s, const struct record_batch *records)
{
    for (size_t i = 0; i < records->count; i++) {
        struct space *space = store_find_space(s, records->records[i].space);
        struct store_result out = {0};

        assert_true(store_can_apply(s, space, &records->records[i].change));
        store_apply(s, space, &records->records[i].change, &out);
        blob_unref(out.value);
    }
}

static inline void replay(struct store *s, const struct batch *batch)
{
    struct record_batch records;

    assert_true(record_decode(batch_bytes(batch), &records));
    carry_out_batch(s, &records);
    record_free(&records);
}

static inline void expect_same_text(char *a, char *b, const char *what, uint64_t seed)
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
static inline void expect_same_future(struct store *a, struct store *b, struct chance r,
                                      int64_t now_ns, uint64_t seed)
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
static inline void replay_all(struct store *s, const struct slices *l)
{
    for (size_t i = 0; i < l->count; i++) {
        struct record_batch b;

        assert_true(record_decode(batch_bytes(&l->items[i]), &b));
        assert_true(b.count == 0 || b.number == i);
        carry_out_batch(s, &b);
        record_free(&b);
    }
}

static inline void slices_free(struct slices *l)
{
    while (l->count > 0)
        batch_fini(&l->items[--l->count]);
}

static inline enum snapshot_state write_slice(struct snapshot *s, struct slices *l, size_t bytes)
{
    enum snapshot_state state;

    assert_true(l->count < COUNT(l->items));
    batch_init(&l->items[l->count]);
    state = snapshot_write(s, bytes, &l->items[l->count++]);
    assert_true(l->items[l->count - 1].number == 0);
    return state;
}

static inline bool load(struct store *s, const struct slices *l)
{
    bool ok = true;

    for (size_t i = 0; ok && i < l->count; i++) {
        assert_false(snapshot_is_loaded(s));
        ok = snapshot_load(s, batch_bytes(&l->items[i]));
    }
    return ok;
}

static inline void expect_nothing_left(const size_t before[ACCOUNT_KINDS])
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

static inline void keep_batch(struct slices *l, const struct batch *batch)
{
    struct batch *copy = &l->items[l->count++];

    assert_true(l->count <= COUNT(l->items));
    batch_init(copy);
    batch_begin(copy, batch->number);
    assert_true(batch_append(copy, batch));
}

static inline void run_begin(struct run *run, struct chance *r)
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

static inline void run_end(struct run *run)
{
    store_fini(&run->live);
    store_fini(&run->copy);
    batch_fini(&run->batch);
    slices_free(&run->journal);
    slices_free(&run->slices);
}

static inline void check_loaded(struct run *run, struct chance r, uint64_t seed)
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
static inline void try_seed(uint64_t seed)
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

static inline void set(struct store *s, const char *key, struct slice value)
{
    struct order o = {.command = {.kind = COMMAND_KEY_SET, .key = slice_str(key), .value = value}};

    assert_int_equal(carry_out(s, &o, NULL).status, STORE_OK);
}

/* The setup of the tests. */
static inline int fill_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < BYTES; i++)
        some_bytes[i] = (uint8_t)(i * 31 >> 3);
    return 0;
}
