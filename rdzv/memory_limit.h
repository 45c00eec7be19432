/* How much memory the process may take: what the setting says, or else most of what its container,
 * or the machine, has. */
#pragma once

#include <stdint.h>

/* Part of what there is that the process may take by itself; the rest is for sockets and for what
 * the machine needs. */
#define MEMORY_SHARE_PERCENT 80

struct memory_limit {
    uint64_t bytes; /* 0: none */
    const char *reason;
};

/* `setting` is config_limits.memory_max. `root` is where /proc and /sys are: "", or another place
 * for tests. `machine` is the memory of the machine; 0: unknown. */
struct memory_limit memory_limit_find(uint64_t setting, const char *root, uint64_t machine);

/* The memory of this machine; 0: unknown. */
uint64_t memory_of_machine(void);
