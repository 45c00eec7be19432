/* The model's worker stores and run records. See model.h. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/model.h"

static void *grow(void *array, size_t count, size_t size)
{
    void *wider = realloc(array, (count + 1) * size);

    if (wider == NULL)
        abort();
    return wider;
}

struct model_store *model_find_store(const struct model *m, uint64_t id)
{
    for (size_t i = 0; i < m->store_count; i++) {
        if (m->stores[i].id == id)
            return &m->stores[i];
    }
    return NULL;
}

uint64_t model_open(struct model *m)
{
    struct model *keys = calloc(1, sizeof *keys);

    if (keys == NULL)
        abort();
    m->stores = grow(m->stores, m->store_count, sizeof *m->stores);
    m->stores[m->store_count++] = (struct model_store){++m->last_store, keys};
    return m->last_store;
}

static void free_store(struct model *m, struct model_store *store)
{
    model_fini(store->keys);
    free(store->keys);
    m->store_count--;
    memmove(store, store + 1, (size_t)(m->stores + m->store_count - store) * sizeof *store);
}

enum model_status model_drop(struct model *m, uint64_t id)
{
    struct model_store *store = model_find_store(m, id);

    if (store == NULL)
        return MODEL_ABSENT;
    for (size_t i = 0; i < m->run_count; i++) {
        if (m->runs[i].worker_store == id)
            return MODEL_IN_USE;
    }
    if (store->keys->waiter_count != 0)
        return MODEL_IN_USE;
    free_store(m, store);
    return MODEL_OK;
}

static struct model_run *find_run(const struct model *m, const void *key, size_t len)
{
    for (size_t i = 0; i < m->run_count; i++) {
        if (bytes_same(&m->runs[i].key, key, len))
            return &m->runs[i];
    }
    return NULL;
}

enum model_status model_put_run(struct model *m, const struct model_run *run)
{
    struct model_run *old = find_run(m, run->key.ptr, run->key.len);

    if (run->worker_store != 0 && model_find_store(m, run->worker_store) == NULL)
        return MODEL_ABSENT;
    if (old == NULL) {
        m->runs = grow(m->runs, m->run_count, sizeof *m->runs);
        old = &m->runs[m->run_count++];
        *old = (struct model_run){0};
    }
    bytes_free(&old->key);
    bytes_free(&old->address);
    *old = *run;
    old->key = bytes_copy(run->key.ptr, run->key.len);
    old->address = bytes_copy(run->address.ptr, run->address.len);
    return MODEL_OK;
}

enum model_status model_delete_run(struct model *m, const void *key, size_t len)
{
    struct model_run *run = find_run(m, key, len);

    if (run == NULL)
        return MODEL_ABSENT;
    bytes_free(&run->key);
    bytes_free(&run->address);
    m->run_count--;
    memmove(run, run + 1, (size_t)(m->runs + m->run_count - run) * sizeof *run);
    return MODEL_OK;
}

size_t model_forget_stores(struct model *m)
{
    size_t gone = 0;

    while (m->run_count > 0)
        model_delete_run(m, m->runs[0].key.ptr, m->runs[0].key.len);
    for (size_t i = 0; i < m->store_count; i++)
        gone += model_forget(m->stores[i].keys);
    return gone;
}

void model_stores_fini(struct model *m)
{
    model_forget_stores(m);
    while (m->store_count > 0)
        free_store(m, &m->stores[0]);
    free(m->stores);
    free(m->runs);
}
