/* Barriers that are open, told by what clients wait for: how many have arrived of how many, and who
 * has not, as far as that can be known. */
#pragma once

#include "rdzv/rendezvous/rendezvous.h"

#define BARRIERS_LISTED 8
#define ABSENT_LISTED   64

struct barrier {
    const struct keymap *map;
    const struct entry *at; /* what who has arrived waits for */
    int64_t size;           /* of a BARRIER of c10d, as its clients say; else 0 */
};

struct barrier_list {
    const struct engine_space *space;
    const struct run *run; /* NULL: of no run */
    struct barrier items[BARRIERS_LISTED];
    size_t count;
};

/* The keys that this client waits for may be those of a barrier. */
void barrier_list_note(struct barrier_list *list, const struct keymap *map,
                       const struct waiter *waiter);

/* ,"barriers":[{"key":…,"arrived":…,"size":…,"absent":[rank,…],"absent_nodes":[address,…]},…] */
void barrier_list_write(struct writer *w, const struct barrier_list *list);
