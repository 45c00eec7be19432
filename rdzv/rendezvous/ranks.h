/* The ranks of the nodes of a round: functions of the settings, of the round, and of the ranks that
 * nodes have had in this run. Called in the step that completes a round, before an agent sees it
 * complete, by round_content.c and etcd_runs/. STEERING.md has the rules.
 *
 * A run keeps its ranks as bytes, in its view and in a record of the store: of each node its last
 * rank and its name, the nodes of the newest round first. */
#pragma once

#include "rdzv/rendezvous/run.h"

/* Gives the participants the ranks 0 … n-1. `run` has their agents; NULL: they are not known. They
 * have ranks in torch's order, which they keep if memory is short. */
void ranks_assign(const struct policy_settings *settings, const struct run *run, struct slice kept,
                  struct torch_state *next);

/* `round` is complete: makes *kept, owned and of ACCOUNT_RUNS, what is kept from now on. False:
 * that is the same, or memory is short. */
bool ranks_keep(struct slice *kept, const struct torch_state *round);
