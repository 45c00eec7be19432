/* Random commands on a real store, held against a naive model and against a replica.
 *
 *   sim_store [--seed S] [--steps N]
 *
 * An episode is some thousand steps on a fresh store of two spaces. In each of them
 *   - what a c10d command, one of worker stores and runs, a change of the etcd tree, a read or a
 *     watch comes to is what the model says, and so is who was woken, in which order;
 *   - the changes are written down, and after every batch of them a second store with another hash
 *     seed, on which no client waits, applies the records. What they have touched is compared each
 *     time, and the whole of both stores, to the last bit, now and then;
 *   - snapshots are written bit by bit, and a third store that is loaded from one is the store as
 * it was when that began. The same seed runs the same steps again. */
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/c10d.h"
#include "store/snapshot.h"
#include "store/store.h"
#include "tests/sim/dump.h"
#include "tests/sim/model.h"
#include "tests/support/key_list.h"
#include "tests/support/record_batch.h"

#define SPACES        2
#define EPISODE_STEPS 30000 /* at most; enough for events to leave the history */
#define WAITERS_MAX   40
#define WATCHES_MAX   20
#define SECOND        INT64_C(1000000000)
#define START         (INT64_C(1800000000) * SECOND)
#define COUNT(a)      (sizeof(a) / sizeof *(a))

static const char *const space_names[SPACES] = {"default", "job-1"};

/* A set of keys as the store and as the model know it: a space's own, or those of a
 * worker store. */
struct where {
    size_t space;
    uint64_t worker_store; /* 0: none */
    struct keymap *keys;
    struct model *model;
};

/* One that waits or watches, as the store and as the model know it. */
struct waiting {
    uint64_t id;
    struct where where;
    struct waiter *waiter;
};

struct watching {
    uint64_t id;
    size_t space;
    struct watch *watch;
};

/* What happened, so that a run can say that it has tried everything. */
enum {
    TALLY_CHANGES,
    TALLY_REFUSED,
    TALLY_WOKEN,
    TALLY_EVENTS,
    TALLY_FULL,
    TALLY_EXPIRED,
    TALLY_CLEARED,
    TALLY_TOO_OLD,
    TALLY_OPENED,
    TALLY_DROPPED,
    TALLY_RUNS,
    TALLY_PATCHES,
    TALLY_BATCHES,
    TALLY_COMPARED,
    TALLY_SNAPSHOTS,
    TALLIES,
};

static const char *const tally_names[TALLIES] = {
    [TALLY_CHANGES] = "changes", [TALLY_REFUSED] = "refused",   [TALLY_WOKEN] = "woken",
    [TALLY_EVENTS] = "events",   [TALLY_FULL] = "full",         [TALLY_EXPIRED] = "expired",
    [TALLY_CLEARED] = "cleared", [TALLY_TOO_OLD] = "too_old",   [TALLY_OPENED] = "opened",
    [TALLY_DROPPED] = "dropped", [TALLY_RUNS] = "runs",         [TALLY_PATCHES] = "patches",
    [TALLY_BATCHES] = "batches", [TALLY_COMPARED] = "compared", [TALLY_SNAPSHOTS] = "snapshots",
};

struct sim {
    uint64_t seed; /* of the whole run, for the message of a failure */
    uint64_t step;
    uint64_t random;
    int64_t now_ns;
    bool limited; /* the spaces have a limit on bytes */
    struct store store;
    struct space *spaces[SPACES];
    struct store replica;
    struct batch batch;
    struct snapshot *snapshot; /* is being written; NULL: none is */
    struct store loaded;       /* from that, as far as it is written */
    char *moment;              /* what that is going to be */
    struct model models[SPACES];
    uint64_t next_id;
    struct waiting waiting[WAITERS_MAX];
    size_t waiting_count;
    struct watching watching[WATCHES_MAX];
    size_t watching_count;
    uint64_t tally[TALLIES];
};

static struct sim *current; /* for fail(), which may be called from a sink */

static void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

static void fail(const char *fmt, ...)
{
    va_list args;

    fflush(stdout);
    fprintf(stderr, "sim_store --seed %" PRIu64 " --steps %" PRIu64 ": ", current->seed,
            current->step);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    putc('\n', stderr);
    abort();
}

#define CHECK(condition)                                                 \
    do {                                                                 \
        if (!(condition))                                                \
            fail("%s:%d: not true: %s", __FILE__, __LINE__, #condition); \
    } while (0)

/* --- Chance. --- */

static uint64_t next_random(struct sim *sim)
{
    uint64_t z = sim->random += 0x9e3779b97f4a7c15u; /* splitmix64 */

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t below(struct sim *sim, uint64_t n)
{
    return next_random(sim) % n;
}

static bool one_in(struct sim *sim, uint64_t n)
{
    return below(sim, n) == 0;
}

#define BYTES(s)                            \
    {                                       \
        (const uint8_t *)(s), sizeof(s) - 1 \
    }

static struct slice any_key(struct sim *sim)
{
    static const struct slice keys[] = {
        BYTES("init/"),
        BYTES("/a"),
        BYTES("/b"),
        BYTES("/c"),
        BYTES("/default_pg/0//cuda//0"),
        BYTES(""),
        BYTES("/"),
        BYTES("/q"),
        BYTES("/nul\0nul"),
        BYTES("/\xff\xfe"),
        BYTES("/d"),
        BYTES("/e"),
        BYTES("/f"),
        BYTES("/g"),
        BYTES("/h"),
        BYTES("/i"),
        BYTES("/j"),
    };
    return keys[below(sim, COUNT(keys))];
}

/* Two of them are valid at a time. */
static struct slice any_value(struct sim *sim)
{
    static const struct slice values[] = {
        BYTES(""),
        BYTES("1"),
        BYTES("-5"),
        BYTES(" 12abc"),
        BYTES("12\0"
              "3"),
        BYTES("text"),
        BYTES("9223372036854775807"),
        BYTES("99999999999999999999"),
        BYTES("+"),
        BYTES("00000000000000000000000000000000000000007"),
    };
    static uint8_t bytes[2][700];
    static int turn;
    size_t len;

    if (!one_in(sim, 4))
        return values[below(sim, COUNT(values))];
    turn ^= 1;
    len = below(sim, sizeof bytes[0]);
    if (one_in(sim, 2)) {
        memset(bytes[turn], (int)below(sim, 256), len);
    } else { /* like others of its kind, but for a few bytes */
        for (size_t i = 0; i < len; i++)
            bytes[turn][i] = (uint8_t)(i * 7);
        for (size_t i = below(sim, len + 1), end = i + below(sim, 20); i < end && i < len; i++)
            bytes[turn][i] = (uint8_t)below(sim, 256);
    }
    return (struct slice){bytes[turn], len};
}

static bool is_large(const struct bytes *value)
{
    return value != NULL && value->len >= 256 && value->len <= 1000;
}

/* Mostly what is there already, but for a few bytes. */
static struct slice next_value(struct sim *sim, const struct bytes *now)
{
    static uint8_t bytes[1024];
    size_t len, start;

    if (!is_large(now) || one_in(sim, 4))
        return any_value(sim);
    start = below(sim, now->len);
    len = start + below(sim, 24);
    memcpy(bytes, now->ptr, start);
    for (size_t i = start; i < len; i++)
        bytes[i] = (uint8_t)below(sim, 256);
    start += one_in(sim, 2) ? below(sim, now->len - start + 1) : 0;
    memcpy(bytes + len, now->ptr + start, now->len - start);
    return (struct slice){bytes, len + now->len - start};
}

static int64_t any_number(struct sim *sim)
{
    static const int64_t numbers[] = {0, 1, -1, 2, 5, 1000, INT64_MAX, INT64_MIN};

    return numbers[below(sim, COUNT(numbers))];
}

static const char *any_path(struct sim *sim, char *buf, size_t cap)
{
    static const char *const names[] = {"a", "b", "ab", "_h", "c"};
    size_t depth = below(sim, 5), len = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < depth; i++)
        len += (size_t)snprintf(buf + len, cap - len, "/%s", names[below(sim, COUNT(names))]);
    /* Now and then the name that an in-order key is going to have. */
    if (one_in(sim, 40))
        snprintf(buf + len, cap - len, "/%020" PRIu64,
                 sim->spaces[0]->tree.index + 1 + below(sim, 3));
    return buf[0] == '\0' ? "/" : buf;
}

/* --- The replica. --- */

static void report_difference(const char *a, const char *b)
{
    while (*a != '\0' && *b != '\0') {
        size_t a_len = strcspn(a, "\n"), b_len = strcspn(b, "\n");

        if (a_len != b_len || memcmp(a, b, a_len) != 0)
            break;
        a += a_len + 1;
        b += b_len + 1;
    }
    fail("it is another store\n  expected: %.*s\n  found:    %.*s", (int)strcspn(a, "\n"), a,
         (int)strcspn(b, "\n"), b);
}

static void compare_stores(struct sim *sim)
{
    char *a = dump_text(&sim->store), *b = dump_text(&sim->replica);

    if (strcmp(a, b) != 0)
        report_difference(a, b);
    free(a);
    free(b);
    sim->tally[TALLY_COMPARED]++;
}

static const struct keymap *keys_in(const struct space *space, uint64_t worker_store)
{
    return worker_store == 0 ? &space->keys
                             : &worker_stores_find(&space->worker_stores, worker_store)->keys;
}

static void compare_key(const struct keymap *a, const struct keymap *b, struct slice key)
{
    CHECK(slice_equal(blob_slice(keymap_get(a, key)), blob_slice(keymap_get(b, key))));
    CHECK(keymap_exists(a, key) == keymap_exists(b, key));
    CHECK(keymap_queue_len(a, key) == keymap_queue_len(b, key));
    CHECK(a->bytes == b->bytes && a->present == b->present);
}

static void compare_trees(struct tree *a, struct tree *b)
{
    struct tree_event *x = a->hub.history[a->index % HISTORY_EVENTS];
    struct tree_event *y = b->hub.history[b->index % HISTORY_EVENTS];

    CHECK(a->index == b->index && a->bytes == b->bytes && a->count == b->count);
    CHECK(a->cuts != 0 || b->cuts != 0 || a->expiry.count == b->expiry.count);
    CHECK(a->hub.oldest == b->hub.oldest);
    CHECK((x == NULL) == (y == NULL));
    if (x != NULL && (x->refresh != y->refresh ||
                      !slice_equal(blob_slice(tree_event_json(x)), blob_slice(tree_event_json(y)))))
        fail("another event\n  store:   %.*s\n  replica: %.*s", (int)x->json->len,
             (const char *)x->json->bytes, (int)y->json->len, (const char *)y->json->bytes);
}

/* After a batch: the key or node that a change touched is equal in the store and in its replica. */
static void compare_touched(struct sim *sim, const struct record *r)
{
    struct space *a = store_find_space(&sim->store, r->space);
    struct space *b = store_find_space(&sim->replica, r->space);
    const struct change *c = &r->change;
    struct slice key = c->kind == CHANGE_KEY_PUT_ALL ? (struct slice){0} : c->put.key;

    CHECK(a->worker_stores.count == b->worker_stores.count);
    CHECK(a->worker_stores.last_id == b->worker_stores.last_id && a->runs.bytes == b->runs.bytes);
    /* Each of these begins with the key; and the store may have been dropped since. */
    if (change_part(c->kind) == PART_KEYS &&
        (c->worker_store == 0 || worker_stores_find(&a->worker_stores, c->worker_store) != NULL))
        compare_key(keys_in(a, c->worker_store), keys_in(b, c->worker_store), key);
    if (change_part(c->kind) == PART_TREE)
        compare_trees(&a->tree, &b->tree);
}

/* The end of an iteration: the replica gets what has been written down. */
static void commit(struct sim *sim)
{
    struct record_batch batch;

    if (sim->batch.count == 0)
        return;
    CHECK(record_decode(batch_bytes(&sim->batch), &batch));
    CHECK(batch.number == sim->batch.number && batch.count == sim->batch.count);
    for (size_t i = 0; i < batch.count; i++) {
        const struct record *r = &batch.records[i];
        struct space *space = store_find_space(&sim->replica, r->space);
        struct store_result result = {0};

        CHECK(space != NULL && store_can_apply(&sim->replica, space, &r->change));
        store_apply(&sim->replica, space, &r->change, &result);
        blob_unref(result.value); /* of a QUEUE_POP */
        sim->tally[TALLY_PATCHES] += r->change.kind == CHANGE_KEY_PATCH;
    }
    CHECK(TAILQ_EMPTY(&sim->replica.ready));
    for (size_t i = 0; i < batch.count; i++)
        compare_touched(sim, &batch.records[i]);
    record_free(&batch);
    sim->tally[TALLY_BATCHES]++;
    batch_begin(&sim->batch, sim->batch.number + 1);
}

/* --- Snapshots. --- */

static void begin_snapshot(struct sim *sim)
{
    const struct store_options options = {.seed = next_random(sim),
                                          .key_groups = sim->store.options.key_groups,
                                          .space_bytes_max = sim->store.options.space_bytes_max};

    store_init(&sim->loaded, &options);
    sim->moment = dump_snapshot_text(&sim->store);
    sim->snapshot = snapshot_begin(&sim->store);
    CHECK(sim->snapshot != NULL);
}

static void end_snapshot(struct sim *sim)
{
    snapshot_end(sim->snapshot);
    sim->snapshot = NULL;
    store_fini(&sim->loaded);
    free(sim->moment);
}

static void compare_snapshot(struct sim *sim)
{
    char *text = dump_snapshot_text(&sim->loaded);

    CHECK(snapshot_is_loaded(&sim->loaded));
    if (strcmp(sim->moment, text) != 0)
        report_difference(sim->moment, text);
    free(text);
    sim->tally[TALLY_SNAPSHOTS]++;
}

/* The next slice of a snapshot, and the last one now and then before it is whole. */
static void step_snapshot(struct sim *sim)
{
    enum snapshot_state state;
    struct batch out;

    if (sim->snapshot == NULL) {
        begin_snapshot(sim);
        return;
    }
    if (one_in(sim, 500)) {
        end_snapshot(sim);
        return;
    }
    batch_init(&out);
    state = snapshot_write(sim->snapshot, 1 + below(sim, 4000), &out);
    CHECK(state != SNAPSHOT_FAILED && snapshot_load(&sim->loaded, batch_bytes(&out)));
    batch_fini(&out);
    if (state == SNAPSHOT_GOES_ON)
        return;
    compare_snapshot(sim);
    end_snapshot(sim);
}

/* --- c10d. --- */

static struct where own_keys(struct sim *sim, size_t space)
{
    return (struct where){space, 0, &sim->spaces[space]->keys, &sim->models[space]};
}

static struct where any_keys(struct sim *sim, size_t space)
{
    const struct model *model = &sim->models[space];
    const struct model_store *store;

    if (model->store_count == 0 || !one_in(sim, 3))
        return own_keys(sim, space);
    store = &model->stores[below(sim, model->store_count)];
    return (struct where){space, store->id,
                          &worker_stores_find(&sim->spaces[space]->worker_stores, store->id)->keys,
                          store->keys};
}

/* Carries out a command and writes down what comes of it. */
static struct store_result apply(struct sim *sim, size_t space, const struct command *c)
{
    struct store_result r;
    struct change change;
    bool changes = store_check(&sim->store, sim->spaces[space], c, &change, &r);

    sim->tally[changes ? TALLY_CHANGES : TALLY_REFUSED]++;
    if (!changes)
        return r;
    CHECK(store_can_apply(&sim->store, sim->spaces[space], &change));
    CHECK(batch_add(&sim->batch, space_names[space], &change));
    store_apply(&sim->store, sim->spaces[space], &change, &r);
    return r;
}

/* True when the command was refused for want of room: the model is not told of it. */
static bool was_full(struct sim *sim, enum store_status status)
{
    if (status != STORE_FULL)
        return false;
    CHECK(sim->limited);
    sim->tally[TALLY_FULL]++;
    return true;
}

static enum store_status status_of(enum model_status status)
{
    static const enum store_status same[] = {[MODEL_OK] = STORE_OK,
                                             [MODEL_ABSENT] = STORE_ABSENT,
                                             [MODEL_MISMATCH] = STORE_MISMATCH,
                                             [MODEL_NOT_A_NUMBER] = STORE_NOT_A_NUMBER,
                                             [MODEL_IN_USE] = STORE_IN_USE};

    return same[status];
}

static bool holds(const struct bytes *expected, const struct blob *b)
{
    if (expected == NULL || b == NULL)
        return expected == NULL && b == NULL;
    return bytes_same(expected, b->bytes, b->len);
}

static void check_key(const struct where *w, struct slice key)
{
    const struct keymap *m = w->keys;
    const struct model *model = w->model;

    if (!holds(model_get(model, key.ptr, key.len), keymap_get(m, key)))
        fail("the value of %.*s is another one", (int)key.len, (const char *)key.ptr);
    CHECK(keymap_exists(m, key) == model_exists(model, key.ptr, key.len));
    CHECK(keymap_queue_len(m, key) == model_queue_len(model, key.ptr, key.len));
}

static struct pair pair_of(struct slice key, struct slice value)
{
    return (struct pair){key.ptr, value.ptr, key.len, value.len};
}

static void put_blob(struct writer *w, struct slice s)
{
    uint8_t len[8];

    bytes_put_u64(len, s.len);
    writer_put(w, len, sizeof len);
    writer_slice(w, s);
}

static void step_multi_set(struct sim *sim, const struct where *where)
{
    uint8_t buf[8192];
    struct writer w = {.ptr = buf, .cap = sizeof buf};
    struct slice keys[6], rest, key, value;
    size_t count = below(sim, COUNT(keys));
    struct command c = {.kind = COMMAND_KEY_MULTI_SET, .worker_store = where->worker_store};
    struct store_result r;

    for (size_t i = 0; i < count; i++) {
        put_blob(&w, any_key(sim));
        put_blob(&w, any_value(sim));
    }
    CHECK(w.len <= w.cap);
    c.items = rest = (struct slice){buf, w.len};
    r = apply(sim, where->space, &c);
    if (was_full(sim, r.status))
        return;
    CHECK(r.status == STORE_OK);
    while (c10d_next_blob(&rest, &key) && c10d_next_blob(&rest, &value)) {
        struct pair p = pair_of(key, value);

        model_set(where->model, &p);
    }
}

static void step_key(struct sim *sim, const struct where *where)
{
    struct model *model = where->model;
    struct command c = {
        .key = any_key(sim), .number = any_number(sim), .worker_store = where->worker_store};
    const struct bytes *now = model_get(model, c.key.ptr, c.key.len);
    struct pair p = pair_of(c.key, c.value = next_value(sim, now));
    enum model_status expected = MODEL_OK;
    struct store_result r;
    int64_t sum = 0;

    switch (below(sim, is_large(now) ? 6 : 9)) {
    case 0:
        c.kind = COMMAND_KEY_SET;
        r = apply(sim, where->space, &c);
        if (was_full(sim, r.status))
            return;
        model_set(model, &p);
        break;
    case 1:
        c.kind = COMMAND_KEY_APPEND;
        if (now != NULL && now->len > 2000)
            return;
        c.number = one_in(sim, 4) ? (int64_t)below(sim, 3000) : 0;
        r = apply(sim, where->space, &c);
        if (c.number != 0 && (now == NULL ? 0 : now->len) + c.value.len > (size_t)c.number) {
            CHECK(r.status == STORE_TOO_LONG);
            check_key(where, c.key);
            return;
        }
        if (was_full(sim, r.status))
            return;
        model_append(model, &p);
        break;
    case 2:
        c.kind = COMMAND_KEY_ADD;
        r = apply(sim, where->space, &c);
        if (was_full(sim, r.status))
            return;
        expected = model_add(model, c.key.ptr, c.key.len, c.number, &sum);
        CHECK(expected != MODEL_OK || r.number == sum);
        break;
    case 3:
        c.kind = COMMAND_KEY_COMPARE_SET;
        if (now != NULL && one_in(sim, 2))
            c.expected = (struct slice){(const uint8_t *)now->ptr, now->len};
        else
            c.expected = any_value(sim);
        r = apply(sim, where->space, &c);
        if (was_full(sim, r.status))
            return;
        if (r.status == STORE_MISMATCH)
            CHECK(holds(now, r.value));
        expected = model_compare_set(model, &p, c.expected.ptr, c.expected.len);
        break;
    case 4:
        step_multi_set(sim, where);
        return;
    default: /* often, or all keys would exist most of the time and nobody would wait */
        c.kind = COMMAND_KEY_DELETE;
        r = apply(sim, where->space, &c);
        expected = model_delete(model, c.key.ptr, c.key.len);
    }
    CHECK(r.status == status_of(expected));
    check_key(where, c.key);
}

static void step_queue(struct sim *sim, const struct where *where)
{
    struct model *model = where->model;
    struct command c = {
        .key = any_key(sim), .value = any_value(sim), .worker_store = where->worker_store};
    struct pair p = pair_of(c.key, c.value);
    enum model_status expected = MODEL_OK;
    struct bytes value = {0};
    struct store_result r;
    size_t before = 0;

    if (one_in(sim, 2)) {
        c.kind = COMMAND_QUEUE_PUSH;
        r = apply(sim, where->space, &c);
        if (was_full(sim, r.status))
            return;
        model_push(model, &p);
    } else {
        c.kind = COMMAND_QUEUE_POP;
        r = apply(sim, where->space, &c);
        expected = model_pop(model, c.key.ptr, c.key.len, &value, &before);
        if (expected == MODEL_OK) {
            CHECK(r.count == before && holds(&value, r.value));
            blob_unref(r.value);
            bytes_free(&value);
        }
    }
    CHECK(r.status == status_of(expected));
    check_key(where, c.key);
}

/* --- Those who wait. --- */

static void keep_waiter(struct sim *sim, const struct where *where, struct waiter *waiter)
{
    struct waiting *w = &sim->waiting[sim->waiting_count++];

    *w = (struct waiting){sim->next_id, *where, waiter};
    waiter->wake.owner = (void *)(uintptr_t)sim->next_id++;
}

static void end_waiter(struct sim *sim, size_t at)
{
    struct waiting *w = &sim->waiting[at];

    keymap_cancel(w->where.keys, w->waiter);
    model_cancel(w->where.model, w->id);
    *w = sim->waiting[--sim->waiting_count];
}

static void step_wait(struct sim *sim, const struct where *where)
{
    uint8_t buf[512];
    struct writer w = {.ptr = buf, .cap = sizeof buf};
    struct pair names[6];
    size_t count = below(sim, COUNT(names));
    struct waiter *waiter;
    enum store_status status;
    bool waits;

    if (sim->waiting_count == WAITERS_MAX)
        end_waiter(sim, below(sim, WAITERS_MAX));
    for (size_t i = 0; i < count; i++) {
        struct slice key = any_key(sim);

        names[i] = pair_of(key, key);
        put_blob(&w, key);
    }
    status = keymap_wait(where->keys, (struct slice){buf, w.len}, count, NULL, &waiter);
    if (was_full(sim, status)) {
        CHECK(waiter == NULL);
        return;
    }
    CHECK(status == STORE_OK);
    waits = model_wait(where->model, sim->next_id, names, count);
    CHECK(waits == (waiter != NULL));
    if (waits)
        keep_waiter(sim, where, waiter);
}

static void step_barrier(struct sim *sim, const struct where *where)
{
    struct command c = {
        .kind = COMMAND_BARRIER, .key = any_key(sim), .worker_store = where->worker_store};
    struct model *model = where->model;
    enum model_status expected;
    struct store_result r;
    struct waiter *waiter;
    bool open = false;

    c.number = one_in(sim, 20) ? any_number(sim) : (int64_t)below(sim, 8);
    if (sim->waiting_count == WAITERS_MAX)
        end_waiter(sim, below(sim, WAITERS_MAX));
    r = apply(sim, where->space, &c);
    if (was_full(sim, r.status))
        return;
    expected = model_barrier(model, c.key.ptr, c.key.len, c.number, &open);
    CHECK(r.status == status_of(expected));
    check_key(where, c.key);
    if (expected != MODEL_OK)
        return;
    CHECK(r.open == open);
    if (open)
        return;
    CHECK(keymap_barrier_wait(where->keys, c.key, NULL, &waiter) == STORE_OK);
    model_barrier_wait(model, sim->next_id, c.key.ptr, c.key.len);
    keep_waiter(sim, where, waiter);
}

/* --- Worker stores and run records. --- */

static void step_drop(struct sim *sim, size_t space)
{
    const struct model *model = &sim->models[space];
    const struct command c = {.kind = COMMAND_WORKER_STORE_DROP,
                              .worker_store = below(sim, model->last_store + 2)};
    const struct model_store *store = model_find_store(model, c.worker_store);
    struct store_result r;

    for (size_t i = sim->waiting_count; store != NULL && one_in(sim, 2) && i-- > 0;) {
        if (sim->waiting[i].where.model == store->keys)
            end_waiter(sim, i);
    }
    r = apply(sim, space, &c);
    CHECK(r.status == status_of(model_drop(&sim->models[space], c.worker_store)));
    sim->tally[TALLY_DROPPED] += r.status == STORE_OK;
}

static void step_put_run(struct sim *sim, size_t space)
{
    struct model *model = &sim->models[space];
    struct command c = {
        .kind = COMMAND_RUN_PUT,
        .key = any_key(sim),
        .value = any_value(sim),
        .placement = (enum worker_store_placement)below(sim, 3),
        .port = (uint16_t)below(sim, UINT16_MAX + 1),
        .worker_store = one_in(sim, 2) ? 0 : below(sim, model->last_store + 2),
        .number = any_number(sim),
    };
    const struct model_run run = {
        .key = {(char *)(uintptr_t)c.key.ptr, c.key.len},
        .address = {(char *)(uintptr_t)c.value.ptr, c.value.len},
        .placement = (int)c.placement,
        .port = c.port,
        .worker_store = c.worker_store,
        .round = c.number,
    };
    struct store_result r = apply(sim, space, &c);

    if (was_full(sim, r.status))
        return;
    CHECK(r.status == status_of(model_put_run(model, &run)));
    sim->tally[TALLY_RUNS] += r.status == STORE_OK;
}

static void step_stores(struct sim *sim, size_t space)
{
    struct model *model = &sim->models[space];
    struct command c = {.kind = COMMAND_RUN_DELETE, .key = any_key(sim)};
    struct store_result r;

    switch (below(sim, 8)) {
    case 0:
        c.kind = COMMAND_WORKER_STORE_OPEN;
        r = apply(sim, space, &c);
        if (was_full(sim, r.status))
            break;
        CHECK(r.status == STORE_OK && r.count == model_open(model));
        sim->tally[TALLY_OPENED]++;
        break;
    case 1:
    case 2:
    case 3:
        step_drop(sim, space);
        break;
    case 4:
        step_put_run(sim, space);
        break;
    default:
        r = apply(sim, space, &c);
        CHECK(r.status == status_of(model_delete_run(model, c.key.ptr, c.key.len)));
    }
}

/* --- The tree. --- */

/* "code cause" or the event, as the model has it. */
static void check_change(struct sim *sim, size_t space, const struct store_result *r,
                         const struct model_result *expected)
{
    const struct tree_result *t = &r->tree;
    struct slice text = t->path;

    if ((int)t->code != expected->code)
        fail("code %d, expected %d %s", (int)t->code, expected->code, expected->text);
    if (t->code == ETCD_OK) {
        struct blob *b = tree_event_json(t->event);

        CHECK(b != NULL);
        text = blob_slice(b);
    }
    if (!slice_is(text, expected->text))
        fail("code %d\n  store: %.*s\n  model: %s", (int)t->code, (int)text.len,
             (const char *)text.ptr, expected->text);
    CHECK(sim->spaces[space]->tree.index == sim->models[space].index);
}

static int64_t any_deadline(struct sim *sim)
{
    static const int64_t odd[] = {-1, INT64_MIN, INT64_MAX, 1};

    if (one_in(sim, 2))
        return 0;
    if (one_in(sim, 12))
        return odd[below(sim, COUNT(odd))];
    return sim->now_ns + (int64_t)below(sim, 6) * SECOND;
}

static void step_tree(struct sim *sim, size_t space)
{
    static const struct {
        enum command_kind kind;
        enum model_operation op;
    } operations[] = {
        {COMMAND_TREE_SET, MODEL_SET},       {COMMAND_TREE_SET, MODEL_SET},
        {COMMAND_TREE_CREATE, MODEL_CREATE}, {COMMAND_TREE_CREATE_IN_ORDER, MODEL_POST},
        {COMMAND_TREE_UPDATE, MODEL_UPDATE}, {COMMAND_TREE_COMPARE_AND_SWAP, MODEL_SWAP},
        {COMMAND_TREE_DELETE, MODEL_REMOVE}, {COMMAND_TREE_COMPARE_AND_DELETE, MODEL_SWAP_REMOVE},
    };
    static const char *const values[] = {"", "v", "w", "a-longer-value-0123456789"};
    size_t which = below(sim, COUNT(operations));
    struct tree *t = &sim->spaces[space]->tree;
    char path[256];
    struct model_change mc = {
        .path = any_path(sim, path, sizeof path),
        .value = values[below(sim, COUNT(values))],
        .prev_value = values[below(sim, 3)],
        .prev_index = one_in(sim, 2) ? 0 : t->index - below(sim, 4),
        .expires_ns = any_deadline(sim),
        .now_ns = sim->now_ns,
        .dir = one_in(sim, 4),
        .recursive = one_in(sim, 3),
        .refresh = one_in(sim, 6),
    };
    const struct command c = {
        .kind = operations[which].kind,
        .key = slice_str(mc.path),
        .value = slice_str(mc.value),
        .expected = slice_str(mc.prev_value),
        .prev_index = mc.prev_index,
        .expires_ns = mc.expires_ns,
        .now_ns = mc.now_ns,
        .dir = mc.dir,
        .recursive = mc.recursive,
        .refresh = mc.refresh,
    };
    struct store_result r = apply(sim, space, &c);
    struct model_result expected;

    if (r.tree.code == ETCD_INTERNAL) {
        CHECK(sim->limited);
        sim->tally[TALLY_FULL]++;
        return;
    }
    expected = model_change(&sim->models[space], operations[which].op, &mc);
    check_change(sim, space, &r, &expected);
    free(expected.text);
}

static void check_listing(struct sim *sim, size_t space, const char *path, bool recursive)
{
    struct model_result expected = model_list(&sim->models[space], path, recursive, sim->now_ns);
    struct tree *t = &sim->spaces[space]->tree;
    const struct node *n;
    struct slice where;
    enum etcd_code code = tree_get(t, slice_str(path), &n, &where);
    struct writer w = {0};

    CHECK((int)code == expected.code);
    if (code != ETCD_OK) {
        CHECK(slice_is(where, expected.text));
        free(expected.text);
        return;
    }
    CHECK(tree_write_get(t, n, recursive, true, sim->now_ns, &w));
    w = (struct writer){.ptr = malloc(w.len), .cap = w.len};
    CHECK(w.ptr != NULL);
    CHECK(tree_write_get(t, n, recursive, true, sim->now_ns, &w));
    if (!slice_is((struct slice){w.ptr, w.len}, expected.text))
        fail("a listing of %s differs\n  store: %.*s  model: %s", path, (int)w.len,
             (const char *)w.ptr, expected.text);
    free(w.ptr);
    free(expected.text);
}

static void step_list(struct sim *sim, size_t space)
{
    char path[256];

    check_listing(sim, space, any_path(sim, path, sizeof path), one_in(sim, 2));
}

static void step_time(struct sim *sim, size_t space)
{
    const struct command c = {.kind = COMMAND_TREE_EXPIRE, .now_ns = sim->now_ns};
    struct store_result r;
    size_t expected, count = 0;

    sim->now_ns += (int64_t)below(sim, 2 * (uint64_t)SECOND);
    if (one_in(sim, 200))
        sim->now_ns -= 10 * SECOND; /* somebody sets the clock */
    if (one_in(sim, 2))
        return;
    do {
        r = apply(sim, space, &c);
        count += r.count;
    } while (r.count != 0);
    expected = model_expire(&sim->models[space], c.now_ns);
    if (count != expected)
        fail("%zu nodes expired, expected %zu", count, expected);
    sim->tally[TALLY_EXPIRED] += expected;
    CHECK(sim->spaces[space]->tree.index == sim->models[space].index);
}

static void end_watch(struct sim *sim, size_t at)
{
    struct watching *w = &sim->watching[at];

    watch_close(&sim->spaces[w->space]->tree.hub, w->watch);
    model_unwatch(&sim->models[w->space], w->id);
    *w = sim->watching[--sim->watching_count];
}

static void step_watch(struct sim *sim, size_t space)
{
    struct tree *t = &sim->spaces[space]->tree;
    bool recursive = one_in(sim, 2), stream = one_in(sim, 2);
    uint64_t since = one_in(sim, 2) ? 0 : 1 + below(sim, t->index + 5), id = sim->next_id++;
    struct watch *watch = NULL;
    enum etcd_code code;
    char buf[256];
    const char *path = any_path(sim, buf, sizeof buf);

    if (sim->watching_count == WATCHES_MAX)
        end_watch(sim, below(sim, WATCHES_MAX));
    code = watch_open(&t->hub, slice_str(path), recursive, stream, since, (void *)(uintptr_t)id,
                      &watch);
    if (!model_watch(&sim->models[space], id, path, recursive, stream, since)) {
        CHECK((code == ETCD_INDEX_CLEARED || (sim->limited && code == ETCD_INTERNAL)) &&
              watch == NULL);
        sim->tally[TALLY_TOO_OLD]++;
        return;
    }
    if (code !=
        ETCD_OK) { /* watches have reached their limit, or old events need too much memory */
        CHECK(sim->limited && watch == NULL);
        model_unwatch(&sim->models[space], id);
        return;
    }
    sim->watching[sim->watching_count++] = (struct watching){id, space, watch};
}

/* What the watch was told is what the model told its own. */
static void take_events(struct sim *sim, struct watching *w)
{
    struct model_watch *expected = model_find_watch(&sim->models[w->space], w->id);
    struct blob *b;
    size_t count = 0;

    while ((b = subscription_next(&w->watch->subscription)) != NULL) {
        if (count == expected->told_count)
            fail("a watch on %s was told too much: %.*s", expected->path, (int)b->len,
                 (const char *)b->bytes);
        if (!slice_is(watch_json(b), expected->told[count]))
            fail("a watch on %s was told of\n  %.*sand not of\n  %s", expected->path, (int)b->len,
                 (const char *)b->bytes, expected->told[count]);
        blob_unref(b);
        free(expected->told[count++]);
        sim->tally[TALLY_EVENTS]++;
    }
    if (count != expected->told_count)
        fail("a watch on %s was not told of\n  %s", expected->path, expected->told[count]);
    expected->told_count = 0;
    CHECK(w->watch->subscription.ended == expected->ended);
}

/* --- Who is ready. --- */

static void expect_none_ready(const struct model *model)
{
    if (model->ready_count != 0)
        fail("%" PRIu64 " should have been woken", model->ready[0]);
}

static void drain_ready(struct sim *sim)
{
    struct wake *wake;

    while ((wake = store_next_ready(&sim->store)) != NULL) {
        uint64_t id = (uint64_t)(uintptr_t)wake->owner;
        size_t i = 0;

        if (wake->kind == WAKE_SUBSCRIPTION)
            continue; /* all watches are looked at below */
        while (i < sim->waiting_count && sim->waiting[i].id != id)
            i++;
        if (i == sim->waiting_count)
            fail("somebody is woken who does not wait: %" PRIu64, id);
        CHECK(sim->waiting[i].waiter->missing == 0);
        if (sim->waiting[i].where.model->ready_count == 0)
            fail("%" PRIu64 " is woken, and should wait", id);
        if (sim->waiting[i].where.model->ready[0] != id)
            fail("%" PRIu64 " is woken before %" PRIu64, id, sim->waiting[i].where.model->ready[0]);
        end_waiter(sim, i); /* takes it off the model's list too */
        sim->tally[TALLY_WOKEN]++;
    }
    for (size_t i = 0; i < SPACES; i++) {
        expect_none_ready(&sim->models[i]);
        for (size_t k = 0; k < sim->models[i].store_count; k++)
            expect_none_ready(sim->models[i].stores[k].keys);
    }
    for (size_t i = 0; i < sim->watching_count; i++)
        take_events(sim, &sim->watching[i]);
}

/* --- The end of everything. --- */

static void step_clear(struct sim *sim, size_t space)
{
    struct command c = {.kind = one_in(sim, 2) ? COMMAND_SPACE_RESET : COMMAND_SPACE_FORGET,
                        .now_ns = sim->now_ns};
    struct store_result r = apply(sim, space, &c);
    size_t expected = model_forget(&sim->models[space]);

    expected += model_forget_stores(&sim->models[space]);
    if (c.kind == COMMAND_SPACE_RESET)
        expected += model_clear(&sim->models[space], sim->now_ns);
    CHECK(r.count == expected);
    CHECK(sim->spaces[space]->tree.index == sim->models[space].index);
    sim->tally[TALLY_CLEARED]++;
}

/* --- The whole. --- */

static void compare_keys(const struct where *w)
{
    size_t size = keymap_list_size(w->keys);
    struct writer got = {.ptr = malloc(size + 1), .cap = size}, want = {0};

    CHECK(got.ptr != NULL);
    CHECK(key_list_now(w->keys, &got));
    CHECK(got.len == size && w->keys->present == w->model->key_count);
    want.ptr = malloc(size + 1);
    want.cap = size;
    CHECK(want.ptr != NULL);
    for (size_t k = 0; k < w->model->key_count; k++) {
        struct slice name = {(const uint8_t *)w->model->keys[k].name.ptr,
                             w->model->keys[k].name.len};

        put_blob(&want, name);
        check_key(w, name);
    }
    if (want.len != got.len || memcmp(want.ptr, got.ptr, got.len) != 0)
        fail("the list of keys differs");
    free(got.ptr);
    free(want.ptr);
}

static void compare_worker_stores(struct sim *sim, size_t space)
{
    const struct model *model = &sim->models[space];
    struct space *s = sim->spaces[space];
    const struct run_record *run = TAILQ_FIRST(&s->runs.list);

    for (size_t i = 0; i < model->run_count; i++, run = TAILQ_NEXT(run, order)) {
        const struct model_run *expected = &model->runs[i];

        CHECK(run != NULL && bytes_same(&expected->key, run->node.key.ptr, run->node.key.len));
        CHECK(run_records_find(&s->runs, run->node.key) == run);
        CHECK(bytes_same(&expected->address, run->address.ptr, run->address.len));
        CHECK((int)run->placement == expected->placement && run->port == expected->port);
        CHECK(run->worker_store == expected->worker_store && run->round == expected->round);
    }
    CHECK(run == NULL);
    CHECK(s->worker_stores.count == model->store_count);
    CHECK(s->worker_stores.last_id == model->last_store);
    for (size_t i = 0; i < model->store_count; i++) {
        const struct model_store *expected = &model->stores[i];
        struct worker_store *store = s->worker_stores.items[i];
        const struct where w = {space, store->id, &store->keys, expected->keys};

        CHECK(store->id == expected->id);
        compare_keys(&w);
    }
}

/* Everything that both know, at once. */
static void compare_all(struct sim *sim)
{
    for (size_t i = 0; i < SPACES; i++) {
        const struct where own = own_keys(sim, i);

        compare_keys(&own);
        compare_worker_stores(sim, i);
        check_listing(sim, i, "/", true);
        check_listing(sim, i, "/_h", true);
        CHECK(sim->spaces[i]->tree.count == sim->models[i].node_count);
    }
}

static void step(struct sim *sim)
{
    size_t space = one_in(sim, 3);
    uint64_t what = below(sim, 1000);
    const struct where where = any_keys(sim, space);

    if (what < 200)
        step_key(sim, &where);
    else if (what < 260)
        step_queue(sim, &where);
    else if (what < 300)
        step_barrier(sim, &where);
    else if (what < 400)
        step_wait(sim, &where);
    else if (what < 480)
        step_stores(sim, space);
    else if (what < 530 && sim->waiting_count > 0)
        end_waiter(sim, below(sim, sim->waiting_count));
    else if (what < 780)
        step_tree(sim, space);
    else if (what < 830)
        step_time(sim, space);
    else if (what < 870)
        step_watch(sim, space);
    else if (what < 885 && sim->watching_count > 0)
        end_watch(sim, below(sim, sim->watching_count));
    else if (what < 891)
        step_clear(sim, space);
    else if (what < 915)
        step_list(sim, space);
    else
        drain_ready(sim);
    if (one_in(sim, 8))
        step_snapshot(sim);
    if (one_in(sim, 10)) /* how far the freeing has come must not show */
        lazy_free_run(&sim->store.lazy_free, below(sim, 20));
    if (!one_in(sim, 3)) /* else the batch grows by a step */
        commit(sim);
    if (one_in(sim, 100))
        compare_all(sim);
}

/* Keys are in a group each for their first byte and their first half, if these are two. */
static size_t groups_of(struct slice key, size_t lengths[KEY_GROUPS_MAX])
{
    lengths[0] = 1;
    lengths[1] = key.len / 2;
    return key.len < 2 ? 0 : key.len < 4 ? 1 : 2;
}

static const struct key_groups key_groups = {.name = groups_of};

static void open_stores(struct sim *sim)
{
    struct store_options options = {.seed = next_random(sim), .key_groups = &key_groups};

    sim->limited = one_in(sim, 4);
    if (sim->limited)
        options.space_bytes_max = 2000 + below(sim, 8000);
    store_init(&sim->store, &options);
    options.seed = ~options.seed;
    store_init(&sim->replica, &options);
    for (size_t i = 0; i < SPACES; i++) {
        sim->spaces[i] = store_space(&sim->store, slice_str(space_names[i]));
        sim->spaces[i]->tree.cut_from = one_in(sim, 2); /* the replica frees small trees at once */
        store_space(&sim->replica, slice_str(space_names[i]));
        model_init(&sim->models[i]);
    }
    batch_init(&sim->batch);
    batch_begin(&sim->batch, 1);
}

/* Nothing is left that was accounted. */
static void close_stores(struct sim *sim)
{
    if (sim->snapshot != NULL)
        end_snapshot(sim);
    for (size_t i = 0; i < SPACES; i++) {
        const struct command c = {.kind = COMMAND_SPACE_RESET};
        struct space *space = sim->spaces[i];

        apply(sim, i, &c);
        CHECK(space->keys.waiters == 0 && space->keys.waiting_bytes == 0);
        CHECK(space->keys.bytes == 0 && space->keys.keys.count == 0 && space->runs.bytes == 0);
        for (size_t k = 0; k < space->worker_stores.count; k++) {
            CHECK(space->worker_stores.items[k]->keys.bytes == 0);
            CHECK(space->worker_stores.items[k]->keys.waiting_bytes == 0);
        }
        model_fini(&sim->models[i]);
    }
    store_fini(&sim->store);
    store_fini(&sim->replica);
    batch_fini(&sim->batch);
}

static void episode(struct sim *sim, uint64_t steps_left)
{
    uint64_t steps = 1 + below(sim, EPISODE_STEPS);

    sim->now_ns = START;
    open_stores(sim);
    for (uint64_t i = 0; i < steps && i < steps_left; i++) {
        sim->step++;
        step(sim);
        if (one_in(sim, 1000)) {
            commit(sim);
            compare_stores(sim);
        }
    }
    drain_ready(sim);
    compare_all(sim);
    commit(sim);
    compare_stores(sim);
    while (sim->waiting_count > 0)
        end_waiter(sim, 0);
    while (sim->watching_count > 0)
        end_watch(sim, 0);
    CHECK(TAILQ_EMPTY(&sim->store.ready));
    close_stores(sim);
}

static uint64_t number(const char *text)
{
    char *end;
    uint64_t n = strtoull(text, &end, 10);

    if (*text == '\0' || *end != '\0') {
        fprintf(stderr, "sim_store: not a number: %s\n", text);
        exit(2);
    }
    return n;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'}, {"steps", required_argument, NULL, 'n'}, {0}};
    static struct sim sim = {.next_id = 1, .seed = 1};
    uint64_t steps = 20000;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 's') {
            sim.seed = number(optarg);
        } else if (option == 'n') {
            steps = number(optarg);
        } else {
            fprintf(stderr, "usage: sim_store [--seed S] [--steps N]\n");
            return 2;
        }
    }
    sim.random = sim.seed;
    current = &sim;
    printf("sim_store --seed %" PRIu64 " --steps %" PRIu64 "\n", sim.seed, steps);
    fflush(stdout);
    while (sim.step < steps)
        episode(&sim, steps - sim.step);
    for (size_t i = 0; i < TALLIES; i++)
        printf("%s=%" PRIu64 "%c", tally_names[i], sim.tally[i], i + 1 < TALLIES ? ' ' : '\n');
    return 0;
}
