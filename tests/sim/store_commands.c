/* Commands of c10d, those of worker stores and runs, and the clients that wait: as the store and as
 * the model carry them out. */
#include "tests/sim/store_sim.h"

#include "proto/c10d.h"

/* --- c10d. --- */

struct where own_keys(struct sim *sim, size_t space)
{
    return (struct where){space, 0, &sim->spaces[space]->keys, &sim->models[space]};
}

struct where any_keys(struct sim *sim, size_t space)
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
struct store_result apply(struct sim *sim, size_t space, const struct command *c)
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

void check_key(const struct where *w, struct slice key)
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

void put_blob(struct writer *w, struct slice s)
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

void step_key(struct sim *sim, const struct where *where)
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

void step_queue(struct sim *sim, const struct where *where)
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

void end_waiter(struct sim *sim, size_t at)
{
    struct waiting *w = &sim->waiting[at];

    keymap_cancel(w->where.keys, w->waiter);
    model_cancel(w->where.model, w->id);
    *w = sim->waiting[--sim->waiting_count];
}

void step_wait(struct sim *sim, const struct where *where)
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

void step_barrier(struct sim *sim, const struct where *where)
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
    CHECK(keymap_barrier_wait(where->keys, c.key, c.number, NULL, &waiter) == STORE_OK);
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

void step_stores(struct sim *sim, size_t space)
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
