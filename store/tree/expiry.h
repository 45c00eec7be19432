/* Deadlines in order: a binary heap of structs that embed an expiry_node. Ties go by age, so that a
 * replay expires in the same order. */
#pragma once

#include "store/memory/reserve.h"

struct expiry_node {
    int64_t at_ns;  /* by the owner's clock */
    uint64_t order; /* of expiry_add(); later calls come later */
    size_t slot;    /* in the heap + 1; 0: in none */
};

struct expiry {
    struct expiry_node **heap;
    size_t count;
    size_t cap;
    uint64_t next_order;
    struct reserve *reserve;
};

void expiry_init(struct expiry *e, struct reserve *reserve);

/* The nodes are the caller's. */
void expiry_fini(struct expiry *e);

/* Makes room for the next expiry_add(), if there is memory, so that it needs none. A large array is
 * better allocated while failing is harmless. */
void expiry_make_room(struct expiry *e);

/* What the next expiry_add() takes of the reserve. */
size_t expiry_memory(const struct expiry *e);

/* Adds a node that is in no heap yet. */
void expiry_add(struct expiry *e, struct expiry_node *node, int64_t at_ns);

/* The same with the order that the node had before; the caller sets expiry->next_order. */
void expiry_add_again(struct expiry *e, struct expiry_node *node, int64_t at_ns, uint64_t order);

/* Takes a node out; nothing happens when it is not in. */
void expiry_remove(struct expiry *e, struct expiry_node *node);

/* Moves all deadlines by `by_ns` (more than 0) into the future; none becomes 0. */
void expiry_postpone(struct expiry *e, int64_t by_ns);

/* The earliest, or NULL. */
struct expiry_node *expiry_first(const struct expiry *e);
