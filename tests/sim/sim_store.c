/* Random commands on a real store, held against a naive model and against a replay.
 *
 *   sim_store [--seed S] [--steps N]
 *
 * An episode is some thousand steps on a fresh store of two spaces. In each of them
 *   - what a c10d command, one of runs and worlds, a change of the etcd tree, a read or a watch
 * comes to is what the model says, and so is who was woken, in which order;
 *   - the commands that were written down, decoded and applied to an empty store with other hash
 *     seeds, give the same records again and the same store, to the last bit.
 * The same seed runs the same steps again. */
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/c10d.h"
#include "store/record.h"
#include "store/store.h"
#include "tests/sim/dump.h"
#include "tests/sim/model.h"

#define SPACES        2
#define EPISODE_STEPS 30000 /* at most; enough for events to leave the history */
#define WAITERS_MAX   40
#define WATCHES_MAX   20
#define SECOND        INT64_C(1000000000)
#define START         (INT64_C(1800000000) * SECOND)
#define COUNT(a)      (sizeof(a) / sizeof *(a))

static const char *const space_names[SPACES] = {"default", "job-1"};

struct record_bytes {
    uint8_t *ptr;
    size_t len;
};

/* A set of keys as the store and as the model know it: a space's own, or a world's. */
struct where {
    size_t space;
    uint64_t world; /* 0: none */
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
    TALLY_REPLAYED,
    TALLY_CLEARED,
    TALLY_TOO_OLD,
    TALLY_ROUNDS,
    TALLY_TOLD,
    TALLY_FORGOTTEN,
    TALLIES,
};

static const char *const tally_names[TALLIES] = {
    [TALLY_CHANGES] = "changes",   [TALLY_REFUSED] = "refused", [TALLY_WOKEN] = "woken",
    [TALLY_EVENTS] = "events",     [TALLY_FULL] = "full",       [TALLY_EXPIRED] = "expired",
    [TALLY_REPLAYED] = "replayed", [TALLY_CLEARED] = "cleared", [TALLY_TOO_OLD] = "too_old",
    [TALLY_ROUNDS] = "rounds",     [TALLY_TOLD] = "told",       [TALLY_FORGOTTEN] = "forgotten",
};

struct sim {
    uint64_t seed; /* of the whole run, for the message of a failure */
    uint64_t step;
    uint64_t random;
    int64_t now_ns;
    bool limited; /* the spaces have a limit on bytes */
    bool knows_runs;
    struct store store;
    struct space *spaces[SPACES];
    struct model models[SPACES];
    struct record_bytes *records;
    size_t record_count;
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

static const struct slice agents_keys[] = {
    BYTES("/torch.rendezvous.j"), /* runs' own first */
    BYTES("/torch.rendezvous.j.0/x"),
    BYTES("/torch.rendezvous."),
    BYTES("/torch.rendezvous.j.0/MASTER_ADDR"),
    BYTES("/torch.rendezvous.j.1/MASTER_PORT"),
    BYTES("/torch.rendezvous.j.0/x.2/MASTER_ADDR"),
    BYTES("/torch.rendezvous..0/MASTER_PORT"),
    BYTES("/torch.rendezvous.j.1/torchelastic/role_info/0"),
    BYTES("/torch.rendezvous.j.00/"),
    BYTES("/torch.rendezvous.j.0"),
    BYTES("/torch.rendezvous.j./MASTER_ADDR"),
    BYTES("/torch.rendezvous"),
};

static struct slice any_agents_key(struct sim *sim)
{
    return agents_keys[below(sim, one_in(sim, 2) ? 3 : COUNT(agents_keys))];
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
    if (one_in(sim, 3))
        return any_agents_key(sim);
    return keys[below(sim, COUNT(keys))];
}

/* --- Rendezvous states: all that the simulation knows, made once. --- */

#define ROUNDS 3

static struct model_state states[ROUNDS * 4];

static void make_states(void)
{
    for (size_t i = 0; i < COUNT(states); i++) {
        struct torch_state s = {.round = (int64_t)(i / 4),
                                .complete = i % 4 / 2 != 0,
                                .closed = i % 2 != 0,
                                .aware = true,
                                .has_redundancy = true,
                                .protocol = 4};
        struct torch_node node = {.addr = slice_str("node-a"),
                                  .pid = 7,
                                  .participant = i % 3 != 0,
                                  .waiting = i % 3 == 0,
                                  .has_heartbeat = true,
                                  .heartbeat_us = INT64_C(1800000000000000)};
        struct torch_node *at;
        uint8_t *text;
        size_t len;

        CHECK(torch_state_insert(&s, &node, &at) && torch_state_write(&s, &text, &len));
        torch_state_free(&s);
        states[i] = (struct model_state){{(char *)text, len}, (long)(i / 4), i % 4 / 2 != 0};
    }
    model_states(states, COUNT(states));
}

static void free_states(void)
{
    for (size_t i = 0; i < COUNT(states); i++)
        bytes_free(&states[i].text);
}

static bool is_agents(struct slice key)
{
    return slice_starts_with(key, slice_str("/torch.rendezvous"));
}

static struct slice any_value(struct sim *sim);

/* What agents write: now and then another value. */
static struct slice value_for(struct sim *sim, struct slice key)
{
    const struct model_state *s = &states[below(sim, COUNT(states))];

    if (!is_agents(key) || one_in(sim, 6))
        return any_value(sim);
    return one_in(sim, 8) ? slice_str("Y2FuaW1hZGFt")
                          : (struct slice){(const uint8_t *)s->text.ptr, s->text.len};
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
    static uint8_t bytes[2][400];
    static int turn;
    size_t len;

    if (!one_in(sim, 4))
        return values[below(sim, COUNT(values))];
    turn ^= 1; /* two values may be in use at a time */
    len = below(sim, sizeof bytes[0]);
    memset(bytes[turn], (int)below(sim, 256), len);
    return (struct slice){bytes[turn], len};
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

/* --- Writing down, and replaying. --- */

static void write_down(void *to, const struct space *space, const struct command *c)
{
    struct sim *sim = to;
    struct record_bytes r;

    CHECK(record_encode(space->name, c, &r.ptr, &r.len));
    sim->records = realloc(sim->records, (sim->record_count + 1) * sizeof *sim->records);
    CHECK(sim->records != NULL);
    sim->records[sim->record_count++] = r;
}

/* A second store that is told the same; what it writes down has to be the same as well. */
struct replay {
    struct sim *sim;
    size_t at;
};

static void compare_record(void *to, const struct space *space, const struct command *c)
{
    struct replay *replay = to;
    const struct record_bytes *expected = &replay->sim->records[replay->at++];
    struct record_bytes r;

    CHECK(record_encode(space->name, c, &r.ptr, &r.len));
    if (r.len != expected->len || memcmp(r.ptr, expected->ptr, r.len) != 0)
        fail("replay: record %zu, kind %d, is written down differently", replay->at - 1,
             (int)c->kind);
    free(r.ptr);
}

static char *dump_text(struct store *s, bool key_bytes)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    CHECK(out != NULL);
    dump_store(out, s, key_bytes);
    fclose(out);
    return text;
}

static void report_difference(const char *a, const char *b)
{
    while (*a != '\0' && *b != '\0') {
        size_t a_len = strcspn(a, "\n"), b_len = strcspn(b, "\n");

        if (a_len != b_len || memcmp(a, b, a_len) != 0)
            break;
        a += a_len + 1;
        b += b_len + 1;
    }
    fail("replay gives another store\n  store:  %.*s\n  replay: %.*s", (int)strcspn(a, "\n"), a,
         (int)strcspn(b, "\n"), b);
}

static void replay(struct sim *sim)
{
    struct replay to = {.sim = sim};
    struct store_options options = sim->store.options;
    struct store again;
    char *before, *after;

    options.seed = ~options.seed;
    options.sink = (struct command_sink){.add = compare_record, .to = &to};
    store_init(&again, &options);
    for (size_t i = 0; i < SPACES; i++)
        store_space(&again, space_names[i]);
    for (size_t i = 0; i < sim->record_count; i++) {
        struct store_result result;
        struct record r;
        struct space *space;

        CHECK(record_decode((struct slice){sim->records[i].ptr, sim->records[i].len}, &r));
        space = store_find_space(&again, r.space);
        CHECK(space != NULL);
        store_apply(&again, space, &r.command, &result);
        if (to.at != i + 1)
            fail("replay: record %zu, kind %d, changes nothing", i, (int)r.command.kind);
        if (r.command.kind == COMMAND_QUEUE_POP)
            blob_unref(result.value);
        record_free(&r);
        CHECK(TAILQ_EMPTY(&again.ready));
    }
    before = dump_text(&sim->store, sim->waiting_count == 0);
    after = dump_text(&again, sim->waiting_count == 0);
    if (strcmp(before, after) != 0)
        report_difference(before, after);
    free(before);
    free(after);
    store_fini(&again);
    sim->tally[TALLY_REPLAYED] += sim->record_count;
}

/* --- c10d. --- */

static struct where own_keys(struct sim *sim, size_t space)
{
    return (struct where){space, 0, &sim->spaces[space]->keys, &sim->models[space]};
}

static struct where any_keys(struct sim *sim, size_t space)
{
    const struct model *model = &sim->models[space];
    const struct model_world *world;

    if (model->world_count == 0 || !one_in(sim, 3))
        return own_keys(sim, space);
    world = &model->worlds[below(sim, model->world_count)];
    return (struct where){space, world->id,
                          &worlds_find(&sim->spaces[space]->worlds, world->id)->keys, world->keys};
}

/* A key of the space's own has changed: what the model makes of it. */
static void observed(struct sim *sim, const struct where *w, struct slice key)
{
    if (sim->knows_runs && w->world == 0)
        model_observe(w->model, key.ptr, key.len);
}

static struct store_result apply(struct sim *sim, size_t space, const struct command *c)
{
    struct store_result r;
    size_t before = sim->record_count;

    store_apply(&sim->store, sim->spaces[space], c, &r);
    sim->tally[sim->record_count == before ? TALLY_REFUSED : TALLY_CHANGES]++;
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
                                             [MODEL_NOT_A_NUMBER] = STORE_NOT_A_NUMBER};

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
    struct command c = {.kind = COMMAND_KEY_MULTI_SET, .world = where->world};
    struct store_result r;

    for (size_t i = 0; i < count; i++) {
        struct slice name = any_key(sim);

        put_blob(&w, name);
        put_blob(&w, value_for(sim, name));
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
    for (rest = c.items; c10d_next_blob(&rest, &key) && c10d_next_blob(&rest, &value);)
        observed(sim, where, key);
}

static void step_key(struct sim *sim, const struct where *where)
{
    struct model *model = where->model;
    struct command c = {.key = any_key(sim), .number = any_number(sim), .world = where->world};
    struct pair p = pair_of(c.key, c.value = value_for(sim, c.key));
    const struct bytes *now = model_get(model, c.key.ptr, c.key.len);
    enum model_status expected = MODEL_OK;
    struct store_result r;
    int64_t sum = 0;

    switch (below(sim, 9)) {
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
        r = apply(sim, where->space, &c);
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
    if (expected == MODEL_OK)
        observed(sim, where, c.key);
    check_key(where, c.key);
}

static void step_queue(struct sim *sim, const struct where *where)
{
    struct model *model = where->model;
    struct command c = {.key = any_key(sim), .value = any_value(sim), .world = where->world};
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
    struct command c = {.kind = COMMAND_BARRIER, .key = any_key(sim), .world = where->world};
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

/* --- Runs and worlds. --- */

/* The place of a round's two keys may be short: neither is there then. */
static void step_workers(struct sim *sim, size_t space)
{
    struct command c = {.kind = COMMAND_RUN_WORKERS,
                        .key = any_agents_key(sim),
                        .value = any_value(sim),
                        .expected = any_value(sim),
                        .number = one_in(sim, 9) ? any_number(sim) : RUN_HERE};
    struct pair place = pair_of(c.value, c.expected);
    struct store_result r = apply(sim, space, &c);

    if (was_full(sim, r.status))
        return;
    CHECK(r.status == status_of(model_run_workers(&sim->models[space], &place, c.key.ptr, c.key.len,
                                                  c.number == RUN_HERE)));
    sim->tally[TALLY_TOLD] += r.status == STORE_OK;
}

static void step_world(struct sim *sim, size_t space)
{
    const struct command c = {.kind = COMMAND_RUN_WORLD, .key = any_agents_key(sim)};
    struct store_result r = apply(sim, space, &c);

    if (was_full(sim, r.status))
        return;
    CHECK(r.status == status_of(model_run_world(&sim->models[space], c.key.ptr, c.key.len)));
    sim->tally[TALLY_ROUNDS] += r.status == STORE_OK;
}

static void step_world_ends(struct sim *sim, size_t space)
{
    const struct model *model = &sim->models[space];
    const struct command c = {.kind = COMMAND_WORLD_FORGET,
                              .world = below(sim, model->last_world + 2)};
    const struct model_world *world = model_find_world(model, c.world);
    struct store_result r;

    if (world != NULL && !world->current) {
        for (size_t i = sim->waiting_count; i-- > 0;) {
            if (sim->waiting[i].where.model == world->keys)
                end_waiter(sim, i); /* its last session has gone */
        }
    }
    r = apply(sim, space, &c);
    CHECK(r.status == status_of(model_world_forget(&sim->models[space], c.world)));
}

static void step_run(struct sim *sim, size_t space)
{
    struct model *model = &sim->models[space];
    struct command c = {.key = any_agents_key(sim), .value = any_value(sim)};
    const struct pair p = pair_of(c.key, c.value);
    struct store_result r;
    size_t gone;

    switch (below(sim, 10)) {
    case 0:
    case 1:
        step_workers(sim, space);
        break;
    case 2:
    case 3:
    case 4:
        step_world(sim, space);
        break;
    case 5:
    case 6:
        step_world_ends(sim, space);
        break;
    case 7:
        if (!one_in(sim, 4))
            return;
        c.kind = COMMAND_RUN_FORGET;
        r = apply(sim, space, &c);
        CHECK(r.status == status_of(model_run_forget(model, c.key.ptr, c.key.len, &gone)));
        CHECK(r.count == gone);
        sim->tally[TALLY_FORGOTTEN] += r.status == STORE_OK;
        break;
    default:
        c.kind = COMMAND_RUN_OFFER;
        r = apply(sim, space, &c);
        CHECK(r.status == status_of(model_run_offer(model, &p)));
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
    size_t expected;

    sim->now_ns += (int64_t)below(sim, 2 * (uint64_t)SECOND);
    if (one_in(sim, 200))
        sim->now_ns -= 10 * SECOND; /* somebody sets the clock */
    if (one_in(sim, 2))
        return;
    r = apply(sim, space, &c);
    expected = model_expire(&sim->models[space], c.now_ns);
    if (r.count != expected)
        fail("%" PRIu64 " nodes expired, expected %zu", r.count, expected);
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
    code = tree_watch(t, slice_str(path), recursive, stream, since, (void *)(uintptr_t)id, &watch);
    if (!model_watch(&sim->models[space], id, path, recursive, stream, since)) {
        CHECK(code == ETCD_INDEX_CLEARED && watch == NULL);
        sim->tally[TALLY_TOO_OLD]++;
        return;
    }
    CHECK(code == ETCD_OK);
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
        if (!slice_is(blob_slice(b), expected->told[count]))
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
        for (size_t k = 0; k < sim->models[i].world_count; k++)
            expect_none_ready(sim->models[i].worlds[k].keys);
    }
    for (size_t i = 0; i < sim->watching_count; i++)
        take_events(sim, &sim->watching[i]);
}

/* --- Users, roles, and the end of everything. --- */

static void step_auth(struct sim *sim, size_t space)
{
    static const struct slice names[] = {
        {(const uint8_t *)"root", 4}, {(const uint8_t *)"guest", 5}, {(const uint8_t *)"u", 1},
        {(const uint8_t *)"", 0},     {(const uint8_t *)"/a*", 3},
    };
    struct slice list[3];
    struct command c = {.kind = (enum command_kind)(COMMAND_AUTH_USER_PUT + below(sim, 7)),
                        .key = names[below(sim, COUNT(names))],
                        .value = any_value(sim)};
    uint64_t before = sim->spaces[space]->tree.index, after;

    for (size_t i = 0; i < COUNT(list); i++)
        list[i] = names[below(sim, COUNT(names))];
    c.names = (struct command_list){list, below(sim, 4), false};
    c.writes = (struct command_list){list, below(sim, 4), false};
    c.names.absent = c.names.count == 0 && one_in(sim, 2);
    c.writes.absent = c.writes.count == 0 && one_in(sim, 2);
    apply(sim, space, &c);
    after = sim->spaces[space]->tree.index;
    CHECK(after >= before && after <= before + 6);
    for (; before < after;
         before++) /* how many is auth's business; that they are counted is ours */
        model_take_index(&sim->models[space]);
}

static void step_clear(struct sim *sim, size_t space)
{
    struct command c = {.kind = one_in(sim, 2) ? COMMAND_SPACE_RESET : COMMAND_SPACE_FORGET,
                        .now_ns = sim->now_ns};
    struct store_result r = apply(sim, space, &c);
    size_t expected = model_forget(&sim->models[space]);

    expected += model_forget_runs(&sim->models[space]);
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
    keymap_list(w->keys, &got);
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

static void compare_runs(struct sim *sim, size_t space)
{
    const struct model *model = &sim->models[space];
    struct space *s = sim->spaces[space];
    const struct run *run = TAILQ_FIRST(&s->runs.list);

    for (size_t i = 0; i < model->run_count; i++, run = TAILQ_NEXT(run, order)) {
        const struct model_run *expected = &model->runs[i];

        CHECK(run != NULL && bytes_same(&expected->key, run->node.key.ptr, run->node.key.len));
        CHECK(runs_find(&s->runs, run->node.key) == run);
        CHECK(run->known == (expected->state != NULL));
        CHECK(!run->known || (run->state.round == expected->state->round &&
                              run->state.complete == expected->state->complete));
        CHECK(run->completed == (expected->then != NULL));
        CHECK(!run->completed || run->world_then.round == expected->then->round);
        CHECK((int)run->workers == (int)expected->workers);
        CHECK((run->world == NULL ? 0 : run->world->id) == expected->world);
    }
    CHECK(run == NULL);
    CHECK(s->worlds.count == model->world_count && s->worlds.last_id == model->last_world);
    for (size_t i = 0; i < model->world_count; i++) {
        const struct model_world *expected = &model->worlds[i];
        struct world *world = s->worlds.items[i];
        const struct where w = {space, world->id, &world->keys, expected->keys};

        CHECK(world->id == expected->id && world->current == expected->current);
        compare_keys(&w);
    }
}

/* Everything that both know, at once. */
static void compare_all(struct sim *sim)
{
    for (size_t i = 0; i < SPACES; i++) {
        const struct where own = own_keys(sim, i);

        compare_keys(&own);
        compare_runs(sim, i);
        check_listing(sim, i, "/", true);
        check_listing(sim, i, "/_h", true);
        CHECK(sim->spaces[i]->tree.nodes.count == sim->models[i].node_count);
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
        step_run(sim, space);
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
    else if (what < 900)
        step_auth(sim, space);
    else if (what < 906)
        step_clear(sim, space);
    else if (what < 930)
        step_list(sim, space);
    else
        drain_ready(sim);
    if (one_in(sim, 100))
        compare_all(sim);
    if (one_in(sim, 4000))
        replay(sim);
}

static void episode(struct sim *sim, uint64_t steps_left)
{
    uint64_t steps = 1 + below(sim, EPISODE_STEPS);
    struct store_options options = {.seed = next_random(sim),
                                    .sink = {.add = write_down, .to = sim}};

    sim->knows_runs = options.knows_runs = !one_in(sim, 5);
    sim->limited = one_in(sim, 4);
    if (sim->limited)
        options.space_bytes_max = 2000 + below(sim, 8000);
    sim->now_ns = START;
    store_init(&sim->store, &options);
    for (size_t i = 0; i < SPACES; i++) {
        sim->spaces[i] = store_space(&sim->store, space_names[i]);
        model_init(&sim->models[i]);
    }
    for (uint64_t i = 0; i < steps && i < steps_left; i++) {
        sim->step++;
        step(sim);
    }
    drain_ready(sim);
    compare_all(sim);
    replay(sim);
    while (sim->waiting_count > 0)
        end_waiter(sim, 0);
    while (sim->watching_count > 0)
        end_watch(sim, 0);
    replay(sim); /* now to the last byte of what is accounted */
    CHECK(TAILQ_EMPTY(&sim->store.ready));
    for (size_t i = 0; i < SPACES; i++) {
        struct keymap *m = &sim->spaces[i]->keys;

        CHECK(m->waiters == 0);
        keymap_clear(m);
        CHECK(m->bytes == 0 && m->keys.count == 0);
        worlds_clear(&sim->spaces[i]->worlds);
        for (size_t k = 0; k < sim->spaces[i]->worlds.count; k++)
            CHECK(sim->spaces[i]->worlds.items[k]->keys.bytes == 0);
        model_fini(&sim->models[i]);
    }
    store_fini(&sim->store);
    for (size_t i = 0; i < sim->record_count; i++)
        free(sim->records[i].ptr);
    free(sim->records);
    sim->records = NULL;
    sim->record_count = 0;
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
    struct sim sim = {.next_id = 1, .seed = 1};
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
    make_states();
    while (sim.step < steps)
        episode(&sim, steps - sim.step);
    for (size_t i = 0; i < TALLIES; i++)
        printf("%s=%" PRIu64 "%c", tally_names[i], sim.tally[i], i + 1 < TALLIES ? ' ' : '\n');
    free_states();
    return 0;
}
