/* One moment of a keymap. See keymap_moment.h for the contract. */
#include "store/keymap/keymap_moment.h"

#include "store/keymap/keymap_entry.h"

/* Picks whose keys have changed; they hold what was there before. */
struct held_picks {
    STAILQ_ENTRY(held_picks) entry;
    struct key_picks *picks;
    size_t next;
    uint8_t is_kept[]; /* a bit for each key: its value is to be written */
};

/* --- Where it stands. --- */

static struct queue *queue_or_end(const struct keymap_moment *k, struct queue *q)
{
    return q != NULL && q->number <= k->pushes ? q : NULL;
}

void keymap_moment_begin(struct keymap_moment *k, struct keymap *m, struct snapshot_ahead *ahead,
                         const char *name, uint64_t worker_store, uint32_t snapshot)
{
    *k = (struct keymap_moment){
        .map = m,
        .ahead = ahead,
        .name = name,
        .worker_store = worker_store,
        .snapshot = snapshot,
        .keys = key_cursor_begin(m),
        .pushes = m->pushes,
        .queue = TAILQ_FIRST(&m->queue_order),
    };
    TAILQ_INIT(&k->entries);
    TAILQ_INIT(&k->queues);
    STAILQ_INIT(&k->picks);
    m->moment = k;
}

/* The key has a value. Once the snapshot has failed, where it stood may be gone. */
static bool is_missing(const struct keymap_moment *k, const struct entry *e)
{
    return !k->ahead->failed && key_cursor_expects(&k->keys, e) && e->snapshot != k->snapshot;
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
            const struct change change = put_of(k, CHANGE_KEY_PUT, e->node.key, e->value);

            if (!batch_add(out, k->name, &change))
                return false;
        }
        key_cursor_move(&k->keys, next);
    }
    return true;
}

/* Behind this element of the queue. */
static void pass_element(struct keymap_moment *k, struct element *element)
{
    k->first = STAILQ_NEXT(element, entry);
    if (k->first != NULL && k->first->number <= k->pushes)
        return;
    k->first = NULL;
    k->queue = queue_or_end(k, TAILQ_NEXT(k->queue, order));
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

static void let_go_of_picks(struct keymap_moment *k)
{
    struct held_picks *held = STAILQ_FIRST(&k->picks);
    struct key_picks *p = held->picks;

    STAILQ_REMOVE_HEAD(&k->picks, entry);
    account_free(ACCOUNT_SNAPSHOT, held, sizeof *held + (p->count + 7) / 8);
    p->is_held = false;
    if (p->is_ended)
        keymap_pick_end(p);
}

static bool write_picks(struct keymap_moment *k, struct batch *out, size_t bytes)
{
    struct held_picks *held;

    while (out->len < bytes && (held = STAILQ_FIRST(&k->picks)) != NULL) {
        size_t i = held->next;

        if (i == held->picks->count) {
            let_go_of_picks(k);
            continue;
        }
        if (held->is_kept[i / 8] & 1u << i % 8) {
            const struct change change = put_of(
                k, CHANGE_KEY_PUT, held->picks->entries[i]->node.key, held->picks->values[i]);

            if (!batch_add(out, k->name, &change))
                return false;
        }
        held->next++;
    }
    return true;
}

bool keymap_moment_write(struct keymap_moment *k, struct batch *out, size_t bytes)
{
    return write_picks(k, out, bytes) && write_keys(k, out, bytes) && write_queues(k, out, bytes);
}

/* --- Changes. --- */

static void mark(const struct keymap_moment *k, struct entry *e)
{
    e->snapshot = k->snapshot & SNAPSHOT_NUMBER_MAX;
}

/* True while the snapshot may take memory. */
static bool may_keep(const struct keymap_moment *k)
{
    k->ahead->failed = k->ahead->failed || !reserve_has_spare(k->map->reserve);
    return !k->ahead->failed;
}

void keymap_moment_changes(struct keymap_moment *k, struct entry *e, bool overwritten)
{
    struct change change;

    if (e->value == NULL || !is_missing(k, e) || !may_keep(k))
        return;
    change = put_of(k, CHANGE_KEY_PUT, e->node.key, e->value);
    ahead_put(k->ahead, k->name, &change, e->value, overwritten);
    mark(k, e);
}

void keymap_moment_loses(struct keymap_moment *k, struct entry *e)
{
    keymap_moment_changes(k, e, false);
    if (!k->ahead->failed)
        key_cursor_loses(&k->keys, e);
}

struct held_picks *keymap_moment_holds(struct keymap_moment *k, struct key_picks *p)
{
    size_t size = sizeof(struct held_picks) + (p->count + 7) / 8;
    struct held_picks *held;

    if (k->ahead->failed || k->keys.next == NULL || !may_keep(k))
        return NULL;
    held = account_request_zeroed(ACCOUNT_SNAPSHOT, account_class_of(size), size);
    if (held == NULL) {
        k->ahead->failed = true;
        return NULL;
    }
    held->picks = p;
    p->is_held = true;
    STAILQ_INSERT_TAIL(&k->picks, held, entry);
    return held;
}

/* The same key twice is kept once. */
void keymap_moment_pick(const struct keymap_moment *k, struct held_picks *held, size_t i)
{
    struct entry *e = held->picks->entries[i];

    if (e->value == NULL || !is_missing(k, e))
        return;
    mark(k, e);
    held->is_kept[i / 8] |= (uint8_t)(1u << i % 8);
}

/* The element is the first of its queue. */
static bool is_element_missing(const struct keymap_moment *k, const struct queue *q,
                               const struct element *element)
{
    if (k->ahead->failed || k->queue == NULL || element->number > k->pushes ||
        q->number < k->queue->number)
        return false;
    return q != k->queue || k->first == NULL || element->number >= k->first->number;
}

void keymap_moment_pops(struct keymap_moment *k, struct queue *q)
{
    struct element *element = STAILQ_FIRST(&q->elements);

    if (is_element_missing(k, q, element) && may_keep(k)) {
        const struct change change = put_of(k, CHANGE_QUEUE_PUSH, q->node.key, element->value);

        ahead_put(k->ahead, k->name, &change, element->value, false);
        if (q == k->queue)
            pass_element(k, element);
    } else if (q == k->queue && q->len == 1 && !k->ahead->failed) {
        pass_element(k, element); /* it came later, and took the place of those of the moment */
    }
}

bool keymap_moment_takes(struct keymap_moment *k, struct entry_list *entries,
                         struct queue_list *queues, size_t bytes)
{
    if (k->ahead->failed || (k->keys.next == NULL && k->queue == NULL) ||
        !TAILQ_EMPTY(&k->entries) || !TAILQ_EMPTY(&k->queues))
        return false;
    TAILQ_CONCAT(&k->entries, entries, order);
    TAILQ_CONCAT(&k->queues, queues, order);
    k->bytes = bytes;
    return true;
}

/* So many keys are kept at once; the snapshot fails for more, as that would take milliseconds. */
#define PICKS_KEPT_MAX 4096

static void keep_picks(struct keymap_moment *k, const struct held_picks *held)
{
    const struct key_picks *p = held->picks;

    k->ahead->failed = k->ahead->failed || p->count - held->next > PICKS_KEPT_MAX;
    for (size_t i = held->next; i < p->count && may_keep(k); i++) {
        if (held->is_kept[i / 8] & 1u << i % 8) {
            const struct change change =
                put_of(k, CHANGE_KEY_PUT, p->entries[i]->node.key, p->values[i]);

            ahead_put(k->ahead, k->name, &change, p->values[i], false);
        }
    }
}

void keymap_moment_drops_picks(struct keymap_moment *k)
{
    for (; !STAILQ_EMPTY(&k->picks); let_go_of_picks(k))
        keep_picks(k, STAILQ_FIRST(&k->picks));
}

void keymap_moment_leaves(struct keymap_moment *k)
{
    k->map->moment = NULL;
    k->map = NULL;
}

void keymap_moment_end(struct keymap_moment *k, struct forgotten_keys *forgotten)
{
    while (!STAILQ_EMPTY(&k->picks))
        let_go_of_picks(k);
    forgotten_keys_add(forgotten, &k->entries, &k->queues, k->bytes);
    if (k->map != NULL)
        k->map->moment = NULL;
    k->map = NULL;
}
