/* Everything that a store holds, as text: two stores are the same when their dumps are. */
#pragma once

#include <stdio.h>

#include "store/store.h"

/* Waiters and watches are not part of it: they are connections' and not changes'. */
void dump_store(FILE *out, struct store *s);

/* The same in memory, which the caller frees. */
char *dump_text(struct store *s);

/* The whole content of a snapshot of the store, including counters; c10d keys and queues in the
 * order of their names. */
char *dump_snapshot_text(struct store *s);
