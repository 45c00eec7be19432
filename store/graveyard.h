/* What was cut off from the store in one step, and is freed in many: so that forgetting a million
 * keys keeps nobody waiting. Nothing here is part of the store's state. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

struct entry;
struct queue;

TAILQ_HEAD(entry_list, entry);
TAILQ_HEAD(queue_list, queue);

struct graveyard {
    struct entry_list entries;
    struct queue_list queues;
    size_t bytes; /* about what they take */
};

void graveyard_init(struct graveyard *g);

/* Takes over entries for which no client waits, and queues; the lists are empty then. `bytes` is
 * what they counted for. */
void graveyard_add(struct graveyard *g, struct entry_list *entries, struct queue_list *queues,
                   size_t bytes);

static inline bool graveyard_is_empty(const struct graveyard *g)
{
    return TAILQ_EMPTY(&g->entries) && TAILQ_EMPTY(&g->queues);
}

/* Frees at most so many of them. */
void graveyard_free(struct graveyard *g, size_t count);
