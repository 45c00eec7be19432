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
#include "tests/sim/store_sim.h"

#include <getopt.h>
#include <stdarg.h>

#include "tests/support/key_list.h"

const char *const space_names[SPACES] = {"default", "job-1"};

static const char *const tally_names[TALLIES] = {
    [TALLY_CHANGES] = "changes", [TALLY_REFUSED] = "refused",   [TALLY_WOKEN] = "woken",
    [TALLY_EVENTS] = "events",   [TALLY_FULL] = "full",         [TALLY_EXPIRED] = "expired",
    [TALLY_CLEARED] = "cleared", [TALLY_TOO_OLD] = "too_old",   [TALLY_OPENED] = "opened",
    [TALLY_DROPPED] = "dropped", [TALLY_RUNS] = "runs",         [TALLY_PATCHES] = "patches",
    [TALLY_BATCHES] = "batches", [TALLY_COMPARED] = "compared", [TALLY_SNAPSHOTS] = "snapshots",
};

static struct sim *current; /* for fail(), which may be called from a sink */

void fail(const char *fmt, ...)
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
