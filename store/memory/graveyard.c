/* Frees what was cut off. See graveyard.h for the contract. */
#include "store/memory/graveyard.h"

#include "store/keymap/keymap_entry.h"
#include "store/snapshot.h"
#include "store/tree/tree.h"

static bool is_empty(const struct graveyard *g)
{
    return TAILQ_EMPTY(&g->entries) && TAILQ_EMPTY(&g->queues) && TAILQ_EMPTY(&g->lists) &&
           TAILQ_EMPTY(&g->picks) && TAILQ_EMPTY(&g->waiters) && TAILQ_EMPTY(&g->trees) &&
           g->snapshots == NULL && SLIST_EMPTY(&g->pages);
}

void graveyard_init(struct graveyard *g)
{
    *g = (struct graveyard){0};
    TAILQ_INIT(&g->entries);
    TAILQ_INIT(&g->queues);
    TAILQ_INIT(&g->lists);
    TAILQ_INIT(&g->picks);
    TAILQ_INIT(&g->waiters);
    TAILQ_INIT(&g->trees);
    SLIST_INIT(&g->pages);
}

void graveyard_add(struct graveyard *g, struct entry_list *entries, struct queue_list *queues,
                   size_t bytes)
{
    TAILQ_CONCAT(&g->entries, entries, order);
    TAILQ_CONCAT(&g->queues, queues, order);
    if (!is_empty(g))
        g->bytes += bytes;
}

void graveyard_add_list(struct graveyard *g, struct key_list *l)
{
    TAILQ_INSERT_TAIL(&g->lists, l, buried);
    g->bytes += l->size + sizeof *l;
}

void graveyard_add_tree(struct graveyard *g, struct tree *t, size_t bytes)
{
    if (!t->is_buried)
        TAILQ_INSERT_TAIL(&g->trees, t, buried);
    t->is_buried = true;
    g->bytes += bytes;
}

/* `bytes` is 0 when all is freed, and not before, though keys may count for more than is known
 * here.
 */
static void count_freed(struct graveyard *g, size_t bytes)
{
    g->bytes = is_empty(g) ? 0 : bytes < g->bytes ? g->bytes - bytes : 1;
}

void graveyard_forget_tree(struct graveyard *g, struct tree *t, size_t bytes)
{
    if (t->is_buried)
        TAILQ_REMOVE(&g->trees, t, buried);
    t->is_buried = false;
    count_freed(g, bytes);
}

/* What counts it, counts its key. */
static enum account_kind kind_of(const struct blob *value)
{
    return (enum account_kind)value->kind;
}

static void free_entry(struct graveyard *g, struct entry *e)
{
    enum account_kind kind = kind_of(e->value);

    TAILQ_REMOVE(&g->entries, e, order);
    count_freed(g, ENTRY_COST + e->node.key.len + e->value->len);
    blob_unref(e->value);
    account_free(kind, e, entry_allocated(e));
}

/* The oldest element, and the queue with its last one. */
static void free_element(struct graveyard *g, struct queue *q)
{
    struct element *element = STAILQ_FIRST(&q->elements);
    enum account_kind kind = kind_of(element->value);

    STAILQ_REMOVE_HEAD(&q->elements, entry);
    count_freed(g, ELEMENT_COST + element->value->len);
    blob_unref(element->value);
    account_free(kind, element, sizeof *element);
    if (!STAILQ_EMPTY(&q->elements))
        return;
    TAILQ_REMOVE(&g->queues, q, order);
    count_freed(g, ENTRY_COST + q->node.key.len);
    account_free(kind, q, sizeof *q + q->node.key.len);
}

static size_t waiter_bytes(const struct waiter *w)
{
    return sizeof *w + w->cap * sizeof(struct wait_link);
}

void graveyard_add_waiter(struct graveyard *g, struct waiter *w)
{
    TAILQ_INSERT_TAIL(&g->waiters, &w->wake, entry);
    g->bytes += waiter_bytes(w);
}

void graveyard_forget_waiter(struct graveyard *g, struct waiter *w)
{
    TAILQ_REMOVE(&g->waiters, &w->wake, entry);
    count_freed(g, waiter_bytes(w));
}

static void free_waiter(struct graveyard *g, struct waiter *w)
{
    if (w->count == 0)
        graveyard_forget_waiter(g, w);
    waiter_free_some(w);
}

static size_t picks_bytes(const struct key_picks *p)
{
    return sizeof *p + p->room * sizeof(struct entry *);
}

void graveyard_add_picks(struct graveyard *g, struct key_picks *p)
{
    p->is_buried = true;
    TAILQ_INSERT_TAIL(&g->picks, p, buried);
    g->bytes += picks_bytes(p);
}

void graveyard_forget_picks(struct graveyard *g, struct key_picks *p)
{
    TAILQ_REMOVE(&g->picks, p, buried);
    p->is_buried = false;
    count_freed(g, picks_bytes(p));
}

/* Those who are told of its key count like what is freed. */
static void free_pick(struct graveyard *g, struct key_picks *p, size_t *count)
{
    const struct ready_list *ready = p->map->ready;
    uint64_t told = ready->work;

    if (p->freed == p->count)
        graveyard_forget_picks(g, p);
    key_picks_free_one(p);
    told = ready->work - told;
    *count -= told < *count ? (size_t)told : *count - 1;
}

static void free_chunk(struct graveyard *g, struct key_list *l)
{
    size_t size = sizeof *l + l->size;
    bool last = l->freed == l->chunk_count;

    if (last)
        TAILQ_REMOVE(&g->lists, l, buried);
    key_list_free_chunk(l);
    if (last)
        count_freed(g, size);
}

void graveyard_add_snapshot(struct graveyard *g, struct snapshot *s, size_t bytes)
{
    *snapshot_next_buried(s) = g->snapshots;
    g->snapshots = s;
    g->bytes += bytes + 1;
}

static void free_of_snapshot(struct graveyard *g)
{
    struct snapshot *next = *snapshot_next_buried(g->snapshots);
    size_t bytes = snapshot_free_one(g->snapshots);

    if (bytes == 0)
        g->snapshots = next;
    count_freed(g, bytes);
}

/* --- Pages. --- */

/* At their start, when nobody uses them any more. */
struct buried_mapping {
    SLIST_ENTRY(buried_mapping) entry;
    enum account_kind kind;
    size_t len;
};

void graveyard_add_pages(struct graveyard *g, enum account_kind kind, void *p, size_t len)
{
    struct buried_mapping *m = p;

    m->kind = kind;
    m->len = len;
    SLIST_INSERT_HEAD(&g->pages, m, entry);
    g->bytes += len;
}

/* Some of them, from the end. */
#define UNMAPPED_AT_A_TIME (1u << 20)
static void free_pages(struct graveyard *g, struct buried_mapping *m)
{
    size_t len = m->len, left = len > UNMAPPED_AT_A_TIME ? len - UNMAPPED_AT_A_TIME : 0;

    if (left != 0 && account_resize_pages(m->kind, m, len, left) != NULL) {
        m->len = left;
        count_freed(g, len - left);
        return;
    }
    SLIST_REMOVE_HEAD(&g->pages, entry);
    account_free_pages(m->kind, m, len);
    count_freed(g, len);
}

/* --- The whole. --- */

static void free_nodes(struct graveyard *g, struct tree *t, size_t *count)
{
    size_t freed, bytes;

    freed = tree_free_dead(t, *count < 4 || *count == SIZE_MAX ? *count : 4, &bytes);
    *count -= freed;
    if (!tree_has_dead(t))
        graveyard_forget_tree(g, t, bytes);
    else
        count_freed(g, bytes);
}

/* One, or a few nodes of a tree; false: there is nothing. */
static bool free_one(struct graveyard *g, size_t *count)
{
    if (TAILQ_EMPTY(&g->picks) && !TAILQ_EMPTY(&g->trees)) {
        free_nodes(g, TAILQ_FIRST(&g->trees), count);
        return true;
    }
    if (!TAILQ_EMPTY(&g->picks)) /* somebody may wait for their keys */
        free_pick(g, TAILQ_FIRST(&g->picks), count);
    else if (g->snapshots != NULL)
        free_of_snapshot(g);
    else if (!TAILQ_EMPTY(&g->entries))
        free_entry(g, TAILQ_FIRST(&g->entries));
    else if (!TAILQ_EMPTY(&g->queues))
        free_element(g, TAILQ_FIRST(&g->queues));
    else if (!TAILQ_EMPTY(&g->lists))
        free_chunk(g, TAILQ_FIRST(&g->lists));
    else if (!TAILQ_EMPTY(&g->waiters))
        free_waiter(g, (struct waiter *)TAILQ_FIRST(&g->waiters)); /* wake is the first member */
    else if (!SLIST_EMPTY(&g->pages))
        free_pages(g, SLIST_FIRST(&g->pages));
    else
        return false;
    --*count;
    return true;
}

void graveyard_free(struct graveyard *g, size_t count)
{
    size_t most = count == SIZE_MAX ? SIZE_MAX : GRAVEYARD_BYTES_MOST, total = account.total;

    while (count > 0 && total - account.total <= most && free_one(g, &count))
        continue;
}
