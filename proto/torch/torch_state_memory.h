/* What torch_state.c and torch_state_read.c share: the memory that addresses point into. */
#pragma once

#include "proto/torch/torch_state.h"

struct torch_block {
    struct torch_block *next;
    size_t users; /* states whose list begins with it, and blocks before it */
    uint8_t bytes[];
};

/* See torch_state_set_memory(). */
extern struct torch_memory torch_memory;

/* With one user, and no next one. NULL: no memory. Freed by the last state in whose list it is, or
 * with torch_memory.free(). */
struct torch_block *torch_block_new(size_t size);
