/* One line of the log for each note of the policy. */
#pragma once

#include "rdzv/rendezvous/explain.h"

/* The run R of that space. `keys`: how many went, of NOTE_RUN_FORGOTTEN. */
void explain_log(const char *space, struct slice run, const struct note *note, uint64_t keys);
