/* Deadlines in order. See expiry.h for the contract. */
#include "store/tree/expiry.h"

void expiry_init(struct expiry *e, struct reserve *reserve)
{
    *e = (struct expiry){.reserve = reserve};
}

void expiry_fini(struct expiry *e)
{
    account_free(ACCOUNT_TREES, e->heap, e->cap * sizeof(struct expiry_node *));
    *e = (struct expiry){.reserve = e->reserve};
}

static bool is_due_before(const struct expiry_node *a, const struct expiry_node *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void place_node(struct expiry *e, size_t slot, struct expiry_node *node)
{
    e->heap[slot] = node;
    node->slot = slot + 1;
}

static void sift_up(struct expiry *e, size_t slot, struct expiry_node *node)
{
    while (slot > 0 && is_due_before(node, e->heap[(slot - 1) / 2])) {
        place_node(e, slot, e->heap[(slot - 1) / 2]);
        slot = (slot - 1) / 2;
    }
    place_node(e, slot, node);
}

static void sift_down(struct expiry *e, size_t slot, struct expiry_node *node)
{
    for (;;) {
        size_t child = 2 * slot + 1;

        if (child + 1 < e->count && is_due_before(e->heap[child + 1], e->heap[child]))
            child++;
        if (child >= e->count || !is_due_before(e->heap[child], node))
            break;
        place_node(e, slot, e->heap[child]);
        slot = child;
    }
    place_node(e, slot, node);
}

static size_t next_cap(const struct expiry *e)
{
    return e->cap == 0 ? 64 : e->cap * 2;
}

void expiry_make_room(struct expiry *e)
{
    struct expiry_node **wider;

    if (e->count < e->cap)
        return;
    wider = account_resize(ACCOUNT_TREES, ACCOUNT_ORDINARY, e->heap,
                           e->cap * sizeof(struct expiry_node *),
                           next_cap(e) * sizeof(struct expiry_node *));
    if (wider == NULL)
        return;
    e->heap = wider;
    e->cap = next_cap(e);
}

size_t expiry_memory(const struct expiry *e)
{
    return e->count < e->cap ? 0 : reserve_cost(next_cap(e) * sizeof(struct expiry_node *));
}

void expiry_add(struct expiry *e, struct expiry_node *node, int64_t at_ns)
{
    expiry_add_again(e, node, at_ns, e->next_order++);
}

void expiry_add_again(struct expiry *e, struct expiry_node *node, int64_t at_ns, uint64_t order)
{
    if (e->count == e->cap) {
        e->heap = reserve_realloc(e->reserve, ACCOUNT_TREES, e->heap,
                                  e->cap * sizeof(struct expiry_node *),
                                  next_cap(e) * sizeof(struct expiry_node *));
        e->cap = next_cap(e);
    }
    node->at_ns = at_ns;
    node->order = order;
    e->count++;
    sift_up(e, e->count - 1, node);
}

void expiry_remove(struct expiry *e, struct expiry_node *node)
{
    struct expiry_node *last;
    size_t slot;

    if (node->slot == 0)
        return;
    slot = node->slot - 1;
    node->slot = 0;
    last = e->heap[--e->count];
    if (last == node)
        return;
    if (slot > 0 && is_due_before(last, e->heap[(slot - 1) / 2]))
        sift_up(e, slot, last);
    else
        sift_down(e, slot, last);
}

/* What would come after the end of time comes at it, so there may be new ties, which go by age. */
void expiry_postpone(struct expiry *e, int64_t by_ns)
{
    for (size_t i = 0; i < e->count; i++) {
        int64_t *at_ns = &e->heap[i]->at_ns;

        if (__builtin_add_overflow(*at_ns, by_ns, at_ns))
            *at_ns = INT64_MAX;
        else if (*at_ns == 0)
            *at_ns = 1;
    }
    for (size_t i = e->count / 2; i-- > 0;)
        sift_down(e, i, e->heap[i]);
}

struct expiry_node *expiry_first(const struct expiry *e)
{
    return e->count == 0 ? NULL : e->heap[0];
}
