/* The c10d half of the model. See model.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/model.h"

struct bytes bytes_copy(const void *from, size_t len)
{
    struct bytes b = {malloc(len + 1), len};

    if (b.ptr == NULL)
        abort();
    if (len != 0)
        memcpy(b.ptr, from, len);
    b.ptr[len] = '\0';
    return b;
}

void bytes_free(struct bytes *b)
{
    free(b->ptr);
    *b = (struct bytes){0};
}

bool bytes_same(const struct bytes *a, const void *b, size_t len)
{
    return a->len == len && (len == 0 || memcmp(a->ptr, b, len) == 0);
}

/* One more element at the end of an array. */
static void *grow(void *array, size_t count, size_t size)
{
    void *wider = realloc(array, (count + 1) * size);

    if (wider == NULL)
        abort();
    return wider;
}

static void drop(void *array, size_t *count, size_t size, size_t at)
{
    char *gap = (char *)array + at * size;

    (*count)--;
    memmove(gap, gap + size, (*count - at) * size);
}

static struct model_key *find_key(const struct model *m, const void *key, size_t len)
{
    for (size_t i = 0; i < m->key_count; i++) {
        if (bytes_same(&m->keys[i].name, key, len))
            return &m->keys[i];
    }
    return NULL;
}

const struct bytes *model_get(const struct model *m, const void *key, size_t len)
{
    const struct model_key *k = find_key(m, key, len);

    return k == NULL ? NULL : &k->value;
}

size_t model_queue_len(const struct model *m, const void *name, size_t len)
{
    size_t count = 0;

    for (size_t i = 0; i < m->element_count; i++)
        count += bytes_same(&m->elements[i].queue, name, len);
    return count;
}

bool model_exists(const struct model *m, const void *key, size_t len)
{
    return find_key(m, key, len) != NULL || model_queue_len(m, key, len) != 0;
}

/* --- Those who wait. --- */

/* Counts the key for a waiter; true when that was the last thing it lacked. */
static bool count_for(struct model *m, struct model_waiter *w, const void *key, size_t len,
                      size_t from)
{
    size_t missing = 0;

    for (size_t i = 0; i < w->link_count; i++) {
        if (i == from && bytes_same(&w->links[i].name, key, len))
            w->links[i].counted = true;
        missing += !w->links[i].counted;
    }
    if (missing != 0 || w->woken)
        return false;
    w->woken = true;
    m->ready = grow(m->ready, m->ready_count, sizeof *m->ready);
    m->ready[m->ready_count++] = w->id;
    return true;
}

/* The oldest registration first; `one`: until somebody is woken. */
static void key_exists_now(struct model *m, const void *key, size_t len, bool barriers, bool one)
{
    for (size_t i = 0; i < m->waiter_count; i++) {
        struct model_waiter *w = &m->waiters[i];

        if (w->barrier != barriers || w->woken)
            continue;
        for (size_t k = 0; k < w->link_count; k++) {
            if (!w->links[k].counted && count_for(m, w, key, len, k) && one)
                return;
        }
    }
}

static struct model_waiter *add_waiter(struct model *m, uint64_t id, bool barrier)
{
    m->waiters = grow(m->waiters, m->waiter_count, sizeof *m->waiters);
    m->waiters[m->waiter_count] = (struct model_waiter){.id = id, .barrier = barrier};
    return &m->waiters[m->waiter_count++];
}

static void add_link(struct model_waiter *w, const void *key, size_t len)
{
    w->links = grow(w->links, w->link_count, sizeof *w->links);
    w->links[w->link_count++] = (struct model_link){.name = bytes_copy(key, len)};
}

bool model_wait(struct model *m, uint64_t id, const struct pair *names, size_t count)
{
    struct model_waiter *w = NULL;

    for (size_t i = 0; i < count; i++) {
        if (model_exists(m, names[i].key, names[i].key_len))
            continue;
        if (w == NULL)
            w = add_waiter(m, id, false);
        add_link(w, names[i].key, names[i].key_len);
    }
    return w != NULL;
}

void model_barrier_wait(struct model *m, uint64_t id, const void *key, size_t len)
{
    add_link(add_waiter(m, id, true), key, len);
}

void model_cancel(struct model *m, uint64_t id)
{
    for (size_t i = 0; i < m->waiter_count; i++) {
        struct model_waiter *w = &m->waiters[i];

        if (w->id != id)
            continue;
        for (size_t k = 0; k < w->link_count; k++)
            bytes_free(&w->links[k].name);
        free(w->links);
        drop(m->waiters, &m->waiter_count, sizeof *m->waiters, i);
        break;
    }
    for (size_t i = 0; i < m->ready_count; i++) {
        if (m->ready[i] == id) {
            drop(m->ready, &m->ready_count, sizeof *m->ready, i);
            break;
        }
    }
}

/* --- Keys. --- */

static void put(struct model *m, const void *key, size_t key_len, const void *value,
                size_t value_len)
{
    struct model_key *k = find_key(m, key, key_len);
    struct bytes copy = bytes_copy(value, value_len); /* first: it may be a part of the old one */

    if (k != NULL) {
        bytes_free(&k->value);
        k->value = copy;
        return;
    }
    m->keys = grow(m->keys, m->key_count, sizeof *m->keys);
    m->keys[m->key_count++] = (struct model_key){bytes_copy(key, key_len), copy};
}

void model_set(struct model *m, const struct pair *p)
{
    put(m, p->key, p->key_len, p->value, p->value_len);
    key_exists_now(m, p->key, p->key_len, false, false);
}

void model_append(struct model *m, const struct pair *p)
{
    const struct bytes *old = model_get(m, p->key, p->key_len);
    struct bytes whole = bytes_copy(old == NULL ? "" : old->ptr, old == NULL ? 0 : old->len);

    whole.ptr = realloc(whole.ptr, whole.len + p->value_len + 1);
    if (whole.ptr == NULL)
        abort();
    memcpy(whole.ptr + whole.len, p->value, p->value_len);
    whole.len += p->value_len;
    put(m, p->key, p->key_len, whole.ptr, whole.len);
    bytes_free(&whole);
    key_exists_now(m, p->key, p->key_len, false, false);
}

/* The number that is there; 0 when nothing is. */
static bool number_at(const struct model *m, const void *key, size_t len, int64_t *out)
{
    const struct bytes *value = model_get(m, key, len);
    char *end;

    *out = 0;
    if (value == NULL)
        return true;
    errno = 0;
    *out = strtoll(value->ptr, &end, 10); /* bytes_copy() ends with a NUL */
    return end != value->ptr && errno != ERANGE;
}

static void put_number(struct model *m, const void *key, size_t len, int64_t n)
{
    char text[32];

    put(m, key, len, text, (size_t)snprintf(text, sizeof text, "%" PRId64, n));
}

enum model_status model_add(struct model *m, const void *key, size_t len, int64_t delta,
                            int64_t *sum)
{
    int64_t now;

    if (!number_at(m, key, len, &now))
        return MODEL_NOT_A_NUMBER;
    *sum = (int64_t)((uint64_t)now + (uint64_t)delta);
    put_number(m, key, len, *sum);
    key_exists_now(m, key, len, false, false);
    return MODEL_OK;
}

enum model_status model_compare_set(struct model *m, const struct pair *p, const void *expected,
                                    size_t expected_len)
{
    const struct bytes *old = model_get(m, p->key, p->key_len);

    if (old == NULL && expected_len != 0)
        return MODEL_ABSENT;
    if (old == NULL) {
        model_set(m, p);
        return MODEL_OK;
    }
    if (!bytes_same(old, expected, expected_len))
        return MODEL_MISMATCH;
    put(m, p->key, p->key_len, p->value, p->value_len); /* wakes nobody: the key was there */
    return MODEL_OK;
}

enum model_status model_delete(struct model *m, const void *key, size_t len)
{
    struct model_key *k = find_key(m, key, len);

    if (k == NULL)
        return MODEL_ABSENT;
    bytes_free(&k->name);
    bytes_free(&k->value);
    drop(m->keys, &m->key_count, sizeof *m->keys, (size_t)(k - m->keys));
    return MODEL_OK;
}

void model_push(struct model *m, const struct pair *p)
{
    m->elements = grow(m->elements, m->element_count, sizeof *m->elements);
    m->elements[m->element_count++] =
        (struct model_element){bytes_copy(p->key, p->key_len), bytes_copy(p->value, p->value_len)};
    key_exists_now(m, p->key, p->key_len, false, true);
}

enum model_status model_pop(struct model *m, const void *name, size_t len, struct bytes *out,
                            size_t *before)
{
    *before = model_queue_len(m, name, len);
    for (size_t i = 0; i < m->element_count; i++) {
        if (!bytes_same(&m->elements[i].queue, name, len))
            continue;
        *out = m->elements[i].value;
        bytes_free(&m->elements[i].queue);
        drop(m->elements, &m->element_count, sizeof *m->elements, i);
        return MODEL_OK;
    }
    return MODEL_ABSENT;
}

enum model_status model_barrier(struct model *m, const void *key, size_t len, int64_t world,
                                bool *open)
{
    int64_t count;

    if (!number_at(m, key, len, &count))
        return MODEL_NOT_A_NUMBER;
    count = (int64_t)((uint64_t)count + 1);
    put_number(m, key, len, count);
    *open = count >= world;
    if (*open) {
        key_exists_now(m, key, len, true, false);
        key_exists_now(m, key, len, false, false);
    }
    return MODEL_OK;
}

size_t model_forget(struct model *m)
{
    size_t gone = m->key_count;

    while (m->key_count > 0)
        model_delete(m, m->keys[0].name.ptr, m->keys[0].name.len);
    while (m->element_count > 0) {
        struct bytes name = bytes_copy(m->elements[0].queue.ptr, m->elements[0].queue.len);
        struct bytes value;
        size_t before;

        gone++; /* queues count, not what is in them */
        while (model_pop(m, name.ptr, name.len, &value, &before) == MODEL_OK)
            bytes_free(&value);
        bytes_free(&name);
    }
    return gone;
}
