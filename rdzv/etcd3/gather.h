/* How long a leader waits for more changes before it sends the next transaction. Pure.
 *
 * A transaction that is sent in the moment in which the one before is answered lacks the changes of
 * all clients that were answered just then and are about to ask again: each of them waits for two
 * transactions, the one that is under way when it asks, and its own. So the next one waits until as
 * many changes have come as the last one had, but for no longer than the last one took. Where that
 * many do not come, the next ones wait for none. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct gather {
    uint64_t taken;    /* changes so far */
    uint64_t sent;     /* how many of these are in transactions, */
    uint64_t last;     /* and in the last one */
    uint64_t wanted;   /* the next one waits until so many were taken; 0: it does not wait */
    uint64_t until_ns; /* nor beyond that */
    unsigned resting;  /* so many transactions wait for none */
};

/* So many changes came. */
void gather_take(struct gather *g, uint64_t changes);

/* A transaction is made, of all that came, or of a part of it: then there is enough for the next.
 */
void gather_send(struct gather *g, bool all);

/* It was answered, after so long. */
void gather_answer(struct gather *g, uint64_t took_ns, uint64_t now_ns);

/* The next one is not sent yet: until g->until_ns at most. */
bool gather_waits(struct gather *g, uint64_t now_ns);
