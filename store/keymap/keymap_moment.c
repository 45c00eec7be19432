/* One moment of a keymap. See keymap_moment.h for the contract. */
#include "store/keymap/keymap_moment.h"

#include "store/keymap/keymap_entry.h"

/* --- Where it stands. --- */

void keymap_moment_begin(struct keymap_moment *k, struct keymap *m, struct cow_buffer *cow,
                         const char *name, uint64_t worker_store, uint32_t snapshot)
{
    *k = (struct keymap_moment){
        .map = m,
        .cow = cow,
        .name = name,
        .worker_store = worker_store,
        .snapshot = snapshot,
        .keys = key_cursor_begin(m),
        .pushes = m->pushes,
        .queue = TAILQ_FIRST(&m->queue_order),
    };
    TAILQ_INIT(&k->entries);
    TAILQ_INIT(&k->queues);
    m->moment = k;
}

/* The key has a value. Once the snapshot has failed, where it stood may be gone. */
static bool is_missing(const struct keymap_moment *k, const struct entry *e)
{
    return !k->cow->failed && key_cursor_expects(&k->keys, e) && e->snapshot != k->snapshot;
}

/* --- Writing. --- */

static struct change put_of(const struct keymap_moment *k, enum change_kind kind, struct slice key,
                            const struct blob *value)
{
    return (struct change){.kind = kind,
                           .worker_store = k->worker_store,
                           .put = {.key = key, .value = blob_slice(value)}};
}

static bool write_keys(struct keymap_moment *k, struct batch *out, size_t bytes)
{
    while (out->len < bytes && k->keys.next != NULL) {
        struct entry *e = k->keys.next, *next = TAILQ_NEXT(e, order);

        if (next != NULL)
            __builtin_prefetch(next->value);
        if (e->snapshot != k->snapshot) {
            const struct change change = put_of(k, CHANGE_KEY_PUT, entry_key(e), e->value);

            if (!batch_add(out, k->name, &change))
                return false;
        }
        key_cursor_move(&k->keys, next);
    }
    return true;
}

/* The walk goes on behind this element of the queue. */
static void pass_element(struct keymap_moment *k, struct element *element)
{
    k->first = STAILQ_NEXT(element, entry);
    if (k->first != NULL && k->first->number <= k->pushes)
        return;
    k->first = NULL;
    k->queue = TAILQ_NEXT(k->queue, order);
    if (k->queue != NULL && k->queue->number > k->pushes)
        k->queue = NULL;
}

static bool write_queues(struct keymap_moment *k, struct batch *out, size_t bytes)
{
    while (out->len < bytes && k->queue != NULL) {
        struct element *element = k->first != NULL ? k->first : STAILQ_FIRST(&k->queue->elements);

        if (element->number <= k->pushes) {
            const struct change change =
                put_of(k, CHANGE_QUEUE_PUSH, k->queue->node.key, element->value);

            if (!batch_add(out, k->name, &change))
                return false;
        }
        pass_element(k, element);
    }
    return true;
}

bool keymap_moment_write(struct keymap_moment *k, struct batch *out, size_t bytes)
{
    return write_keys(k, out, bytes) && write_queues(k, out, bytes);
}

/* --- Changes. --- */

/* True while the snapshot may take memory. */
static bool may_keep(const struct keymap_moment *k)
{
    k->cow->failed = k->cow->failed || !reserve_has_spare(k->map->reserve);
    return !k->cow->failed;
}

void keymap_moment_changes(struct keymap_moment *k, struct entry *e, bool overwritten)
{
    struct change change;

    if (e->value == NULL || !is_missing(k, e) || !may_keep(k))
        return;
    change = put_of(k, CHANGE_KEY_PUT, entry_key(e), e->value);
    cow_put(k->cow, k->name, &change, e->value, overwritten);
    e->snapshot = k->snapshot & SNAPSHOT_NUMBER_MAX;
}

void keymap_moment_loses(struct keymap_moment *k, struct entry *e)
{
    keymap_moment_changes(k, e, false);
    if (!k->cow->failed)
        key_cursor_loses(&k->keys, e);
}

/* The element is the first of its queue. */
static bool is_element_missing(const struct keymap_moment *k, const struct queue *q,
                               const struct element *element)
{
    if (k->cow->failed || k->queue == NULL || element->number > k->pushes ||
        q->number < k->queue->number)
        return false;
    return q != k->queue || k->first == NULL || element->number >= k->first->number;
}

void keymap_moment_pops(struct keymap_moment *k, struct queue *q)
{
    struct element *element = STAILQ_FIRST(&q->elements);

    if (is_element_missing(k, q, element) && may_keep(k)) {
        const struct change change = put_of(k, CHANGE_QUEUE_PUSH, q->node.key, element->value);

        cow_put(k->cow, k->name, &change, element->value, false);
        if (q == k->queue)
            pass_element(k, element);
    } else if (q == k->queue && q->len == 1 && !k->cow->failed) {
        pass_element(k, element); /* it came later, and took the place of those of the moment */
    }
}

bool keymap_moment_takes(struct keymap_moment *k, struct entry_list *entries,
                         struct queue_list *queues, size_t bytes)
{
    if (k->cow->failed || keymap_moment_is_written(k) || !TAILQ_EMPTY(&k->entries) ||
        !TAILQ_EMPTY(&k->queues))
        return false;
    TAILQ_CONCAT(&k->entries, entries, order);
    TAILQ_CONCAT(&k->queues, queues, order);
    k->bytes = bytes;
    return true;
}

void keymap_moment_leaves(struct keymap_moment *k)
{
    k->map->moment = NULL;
    k->map = NULL;
}

void keymap_moment_end(struct keymap_moment *k, struct forgotten_keys *forgotten)
{
    forgotten_keys_add(forgotten, &k->entries, &k->queues, k->bytes);
    if (k->map != NULL)
        keymap_moment_leaves(k);
}
