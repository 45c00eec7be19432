/* What is known of torch's rendezvous. See run.h for the contract. */
#include "rdzv/rendezvous/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void runs_init(struct runs *r, uint64_t seed)
{
    table_init(&r->table, seed, NULL);
    TAILQ_INIT(&r->list);
}

void runs_fini(struct runs *r)
{
    runs_clear(r);
    table_fini(&r->table);
}

struct run *runs_find(const struct runs *r, struct slice key)
{
    return (struct run *)table_find(&r->table, key); /* node is the first member */
}

bool run_is_agents_key(struct slice key)
{
    return slice_starts_with(key, slice_str(RUN_PREFIX));
}

/* R may hold dots, digits and slashes itself: what counts is the last ".<digits>/" whose front is
 * the key of a run. */
struct run *runs_find_round(const struct runs *r, struct slice key, int64_t *round,
                            struct slice *rest)
{
    if (!run_is_agents_key(key))
        return NULL;
    for (size_t slash = key.len; slash-- > strlen(RUN_PREFIX);) {
        size_t dot = slash;
        struct run *run;
        uint64_t number;

        if (key.ptr[slash] != '/')
            continue;
        while (dot > 0 && key.ptr[dot - 1] >= '0' && key.ptr[dot - 1] <= '9')
            dot--;
        if (dot == slash || dot == 0 || key.ptr[dot - 1] != '.' ||
            !slice_to_u64((struct slice){key.ptr + dot, slash - dot}, INT64_MAX, &number))
            continue;
        run = runs_find(r, (struct slice){key.ptr, dot - 1});
        if (run == NULL)
            continue;
        *round = (int64_t)number;
        *rest = slice_from(key, slash + 1);
        return run;
    }
    return NULL;
}

static struct run *add(struct runs *r, struct slice key)
{
    struct run *run = calloc(1, sizeof *run + key.len);
    uint8_t *name;

    if (run == NULL)
        return NULL;
    name = (uint8_t *)(run + 1);
    memcpy(name, key.ptr, key.len);
    run->node.key = (struct slice){name, key.len};
    run->id = slice_from(run->node.key, strlen(RUN_PREFIX));
    table_add(&r->table, &run->node);
    TAILQ_INSERT_TAIL(&r->list, run, order);
    return run;
}

static void drop(struct runs *r, struct run *run)
{
    for (int i = 0; i < RUN_PLACES; i++) {
        blob_unref(run->place[i]);
        blob_unref(run->offered[i]);
    }
    torch_state_free(&run->state);
    torch_state_free(&run->before);
    torch_state_free(&run->world_then);
    TAILQ_REMOVE(&r->list, run, order);
    table_remove(&r->table, &run->node);
    free(run);
}

/* What torch's first compare-and-set puts there: nobody has joined yet. */
static bool is_sentinel(struct slice value)
{
    return slice_is(value, "Y2FuaW1hZGFt");
}

bool runs_observe(struct runs *r, struct slice key, const struct blob *value)
{
    struct run *run = runs_find(r, key);
    struct torch_state next = {0};
    bool known;

    if (run == NULL && (value == NULL || !run_is_agents_key(key)))
        return false;
    if (value == NULL) {
        drop(r, run);
        return false;
    }
    known = torch_state_read(blob_slice(value), &next) == TORCH_STATE_OK;
    if (!known && run == NULL && !is_sentinel(blob_slice(value)))
        return false;
    if (run == NULL)
        run = add(r, key);
    if (run == NULL) {
        torch_state_free(&next);
        return false; /* short of memory: this run is not looked after, and its key works */
    }
    torch_state_free(&run->before);
    run->before = run->state;
    run->state = next;
    run->known = known;
    if (known && next.complete && !(run->before.complete && run->before.round == next.round)) {
        torch_state_free(&run->world_then);
        run->completed = torch_state_read(blob_slice(value), &run->world_then) == TORCH_STATE_OK;
    }
    return true;
}

struct run *runs_owner(const struct runs *r, struct slice key)
{
    struct run *owner = runs_find(r, key); /* rather a run than the key of a round */
    struct slice rest;
    int64_t round;

    return owner != NULL ? owner : runs_find_round(r, key, &round, &rest);
}

bool runs_use(const struct runs *r, uint64_t worker_store)
{
    const struct run *run;

    TAILQ_FOREACH(run, &r->list, order) {
        if (run->worker_store == worker_store)
            return true;
    }
    return false;
}

void runs_clear(struct runs *r)
{
    struct run *run;

    while ((run = TAILQ_FIRST(&r->list)) != NULL)
        drop(r, run);
}

size_t run_round_key(const struct run *run, int64_t round, const char *name, uint8_t *out)
{
    size_t len = run->node.key.len;

    memcpy(out, run->node.key.ptr, len);
    return len + (size_t)snprintf((char *)out + len, RUN_KEY_ROOM, ".%" PRId64 "/%s", round, name);
}
