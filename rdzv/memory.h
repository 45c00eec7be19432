/* The process's memory: how much it may take, and that what libraries take goes through the account
 * (store/memory/account.h), too. */
#pragma once

#include <stdint.h>

/* The share of the memory that the process may use by default; the rest is for sockets and for the
 * machine. */
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

/* Must be called before any library allocates; later calls do nothing. libevent's memory is only
 * counted: it grows with connections, which are refused earlier. OpenSSL, cJSON and the reader of
 * torch's states get no memory over the limit. */
void memory_hooks_set(void);

/* No connection is left: the buffers that were kept for their records are given back. */
void memory_hooks_give_back(void);
