/* The commands of runs, for store_apply(); what they mean is in store.h. */
#pragma once

#include "store/store.h"

/* Carries out a COMMAND_RUN_… or COMMAND_WORLD_FORGET; true: something changed. */
bool run_apply(struct store *s, struct space *space, const struct command *command,
               struct store_result *out);
