/* The workers of a run whose store is at rdzvd: how many there are, by what their agents have told
 * each other, and on which nodes they are, by the addresses they come from. */
#pragma once

#include "rdzv/rendezvous/rendezvous.h"

/* The world size of the round that the worker store is for. `keys`: those of agents. 0: its agents
 * have not said. */
uint64_t status_workers_count(const struct run *run, const struct keymap *keys);

/* The nodes of the round that have fewer workers waiting for that key than they run, at most `max`.
 * 0 unless these are exactly the `short_of` that are missing, and no two nodes have one address. */
size_t status_workers_absent(const struct run *run, const struct keymap *keys,
                             const struct entry *at, uint64_t short_of, struct slice *nodes,
                             size_t max);
