/* The model's runs and worlds. See model.h. What a state says is not read here: the simulation
 * tells which values are states, and of which round. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/model.h"

#define PREFIX   "/torch.rendezvous."
#define SENTINEL "Y2FuaW1hZGFt"

static const struct model_state *states;
static size_t state_count;

void model_states(const struct model_state *known, size_t count)
{
    states = known;
    state_count = count;
}

static void *grow(void *array, size_t count, size_t size)
{
    void *wider = realloc(array, (count + 1) * size);

    if (wider == NULL)
        abort();
    return wider;
}

static const struct model_state *state_in(const struct bytes *value)
{
    for (size_t i = 0; i < state_count; i++) {
        if (bytes_same(value, states[i].text.ptr, states[i].text.len))
            return &states[i];
    }
    return NULL;
}

struct model_run *model_find_run(const struct model *m, const void *key, size_t len)
{
    for (size_t i = 0; i < m->run_count; i++) {
        if (bytes_same(&m->runs[i].key, key, len))
            return &m->runs[i];
    }
    return NULL;
}

struct model_world *model_find_world(const struct model *m, uint64_t id)
{
    for (size_t i = 0; i < m->world_count; i++) {
        if (m->worlds[i].id == id)
            return &m->worlds[i];
    }
    return NULL;
}

/* The run of the longest id of which this is "<its key>.<round>/<rest>". */
static struct model_run *run_of_round(const struct model *m, const char *key, size_t len,
                                      long *round, const char **rest, size_t *rest_len)
{
    struct model_run *best = NULL;

    for (size_t i = 0; i < m->run_count; i++) {
        struct model_run *run = &m->runs[i];
        size_t at = run->key.len;
        long number = 0;

        if (len <= at || memcmp(key, run->key.ptr, at) != 0 || key[at] != '.')
            continue;
        for (at++; at < len && key[at] >= '0' && key[at] <= '9'; at++)
            number = number * 10 + key[at] - '0';
        if (at == run->key.len + 1 || at == len || key[at] != '/' ||
            (best != NULL && best->key.len > run->key.len))
            continue;
        best = run;
        *round = number;
        *rest = key + at + 1;
        *rest_len = len - at - 1;
    }
    return best;
}

static void no_longer_current(struct model *m, uint64_t id)
{
    struct model_world *world = model_find_world(m, id);

    if (world != NULL)
        world->current = false;
}

static void free_run(struct model *m, struct model_run *run)
{
    no_longer_current(m, run->world);
    bytes_free(&run->key);
    for (int i = 0; i < 2; i++) {
        bytes_free(&run->place[i]);
        bytes_free(&run->offered[i]);
    }
    m->run_count--;
    memmove(run, run + 1, (size_t)(m->runs + m->run_count - run) * sizeof *run);
}

void model_observe(struct model *m, const void *key, size_t len)
{
    const struct bytes *value = model_get(m, key, len);
    struct model_run *run = model_find_run(m, key, len);
    const struct model_state *now;

    if (len < strlen(PREFIX) || memcmp(key, PREFIX, strlen(PREFIX)) != 0)
        return;
    if (value == NULL) {
        if (run != NULL)
            free_run(m, run);
        return;
    }
    now = state_in(value);
    if (run == NULL) {
        if (now == NULL && !bytes_same(value, SENTINEL, strlen(SENTINEL)))
            return;
        m->runs = grow(m->runs, m->run_count, sizeof *m->runs);
        run = &m->runs[m->run_count++];
        *run = (struct model_run){.key = bytes_copy(key, len)};
    }
    if (now != NULL && now->complete &&
        !(run->state != NULL && run->state->complete && run->state->round == now->round))
        run->then = now;
    run->state = now;
}

/* What is told of a round: both keys at once. */
static void tell(struct model *m, const struct model_run *run, const struct bytes places[2])
{
    static const char *const names[2] = {"MASTER_ADDR", "MASTER_PORT"};

    for (int i = 0; i < 2; i++) {
        char key[256];
        int len = snprintf(key, sizeof key, "%s.%ld/%s", run->key.ptr, run->then->round, names[i]);
        const struct pair p = {key, places[i].ptr, (size_t)len, places[i].len};

        model_set(m, &p);
    }
}

enum model_status model_run_world(struct model *m, const void *key, size_t len)
{
    struct model_run *run = model_find_run(m, key, len);
    struct model_world *world;

    if (run == NULL || run->then == NULL)
        return MODEL_ABSENT;
    no_longer_current(m, run->world);
    m->worlds = grow(m->worlds, m->world_count, sizeof *m->worlds);
    world = &m->worlds[m->world_count++];
    *world = (struct model_world){++m->last_world, true, calloc(1, sizeof *world->keys)};
    if (world->keys == NULL)
        abort();
    run->world = world->id;
    if (run->workers == MODEL_HERE)
        tell(m, run, run->place);
    return MODEL_OK;
}

static void replace(struct bytes *b, const void *value, size_t len)
{
    bytes_free(b);
    *b = bytes_copy(value, len);
}

enum model_status model_run_offer(struct model *m, const struct pair *p)
{
    const char *name;
    size_t len;
    long round;
    struct model_run *run = run_of_round(m, p->key, p->key_len, &round, &name, &len);
    bool addr = run != NULL && len == 11 && memcmp(name, "MASTER_ADDR", 11) == 0;
    bool port = run != NULL && len == 11 && memcmp(name, "MASTER_PORT", 11) == 0;

    if ((!addr && !port) || run->workers != MODEL_UNDECIDED)
        return MODEL_ABSENT;
    replace(&run->offered[port], p->value, p->value_len);
    return MODEL_OK;
}

enum model_status model_run_workers(struct model *m, const struct pair *place, const void *key,
                                    size_t len, bool here)
{
    struct model_run *run = model_find_run(m, key, len);

    if (run == NULL)
        return MODEL_ABSENT;
    run->workers = here ? MODEL_HERE : MODEL_ELSEWHERE;
    replace(&run->place[0], place->key, place->key_len);
    replace(&run->place[1], place->value, place->value_len);
    if (!here) {
        no_longer_current(m, run->world);
        run->world = 0;
    }
    if (run->then != NULL && here)
        tell(m, run, run->place);
    else if (run->then != NULL && run->offered[0].ptr != NULL && run->offered[1].ptr != NULL)
        tell(m, run, run->offered);
    return MODEL_OK;
}

enum model_status model_run_forget(struct model *m, const void *key, size_t len, size_t *gone)
{
    struct model_run *run = model_find_run(m, key, len);

    *gone = 0;
    if (run == NULL)
        return MODEL_ABSENT;
    for (size_t i = m->key_count; i-- > 0;) {
        const struct bytes *name = &m->keys[i].name;
        struct model_run *owner = model_find_run(m, name->ptr, name->len);
        const char *rest;
        size_t rest_len;
        long round;

        if (owner == NULL)
            owner = run_of_round(m, name->ptr, name->len, &round, &rest, &rest_len);
        if (owner == run && model_delete(m, name->ptr, name->len) == MODEL_OK)
            ++*gone;
    }
    free_run(m, run);
    return MODEL_OK;
}

enum model_status model_world_forget(struct model *m, uint64_t id)
{
    struct model_world *world = model_find_world(m, id);

    if (world == NULL || world->current)
        return MODEL_ABSENT;
    model_fini(world->keys);
    free(world->keys);
    m->world_count--;
    memmove(world, world + 1, (size_t)(m->worlds + m->world_count - world) * sizeof *world);
    return MODEL_OK;
}

size_t model_forget_runs(struct model *m)
{
    size_t gone = 0;

    while (m->run_count > 0)
        free_run(m, &m->runs[0]);
    for (size_t i = 0; i < m->world_count; i++) {
        gone += model_forget(m->worlds[i].keys);
        m->worlds[i].current = false;
    }
    return gone;
}

void model_runs_fini(struct model *m)
{
    model_forget_runs(m);
    while (m->world_count > 0)
        model_world_forget(m, m->worlds[0].id);
    free(m->worlds);
    free(m->runs);
}
