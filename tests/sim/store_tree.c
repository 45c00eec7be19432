/* Changes, listings and watches of etcd's tree: as the store and as the model carry them out. */
#include "tests/sim/store_sim.h"

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
        struct blob *b = tree_event_chunk(t->event);

        CHECK(b != NULL);
        text = tree_chunk_json(b);
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

void step_tree(struct sim *sim, size_t space)
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

void check_listing(struct sim *sim, size_t space, const char *path, bool recursive)
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

void step_list(struct sim *sim, size_t space)
{
    char path[256];

    check_listing(sim, space, any_path(sim, path, sizeof path), one_in(sim, 2));
}

void step_time(struct sim *sim, size_t space)
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

void end_watch(struct sim *sim, size_t at)
{
    struct watching *w = &sim->watching[at];

    watch_close(&sim->spaces[w->space]->tree.hub, w->watch);
    model_unwatch(&sim->models[w->space], w->id);
    *w = sim->watching[--sim->watching_count];
}

void step_watch(struct sim *sim, size_t space)
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
void take_events(struct sim *sim, struct watching *w)
{
    struct model_watch *expected = model_find_watch(&sim->models[w->space], w->id);
    struct blob *b;
    size_t count = 0;

    while ((b = subscription_next(&w->watch->subscription)) != NULL) {
        if (count == expected->told_count)
            fail("a watch on %s was told too much: %.*s", expected->path, (int)b->len,
                 (const char *)b->bytes);
        if (!slice_is(tree_chunk_json(b), expected->told[count]))
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
