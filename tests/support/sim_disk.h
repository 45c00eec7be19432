/* A directory on a simulated disk, as a table of file functions: it counts calls, can fail or end
 * the process at each call, and forgets or tears unsynced bytes at a power cut.
 *
 * The simulated disk behaves like the worst permitted kernel and disk: of the sectors (512 bytes)
 * that were written since the last sync, any may be kept, lost or torn, and a file may have any
 * size between that of the last sync and the one it had; of the names that were made, renamed and
 * removed since the last sync of the directory, any may have come to pass. A sync that fails leaves
 * pages that count as written: no later sync writes them, and after the process they may be as they
 * were on the disk. */
#pragma once

#include <pthread.h>

#include "store/disk/fs.h"

enum sim_fault {
    SIM_NONE,
    SIM_DIE,    /* the process ends in this call; of a write a part may be done */
    SIM_EIO,    /* it fails; of a write a part may be done */
    SIM_ENOSPC, /* a write fails so, or writes a part; other calls do what they should */
    SIM_SHORT,  /* a write writes a part and says so */
};

struct sim_disk;

struct sim_disk *sim_disk_new(uint64_t seed);
void sim_disk_free(struct sim_disk *d);

/* The table. Its free() does nothing. */
struct fs *sim_disk_fs(struct sim_disk *d);

/* From the call number `at` on (the first one after now is 1), for `calls` calls. */
void sim_disk_fail(struct sim_disk *d, enum sim_fault fault, uint64_t at, uint64_t calls);
/* Calls since sim_disk_fail(). */
uint64_t sim_disk_calls(const struct sim_disk *d);
bool sim_disk_is_dead(struct sim_disk *d);
/* A sync has failed, or the process died in one. */
bool sim_disk_sync_failed(struct sim_disk *d);

/* Bytes of all files. Writes beyond so many bytes in all fail with ENOSPC. */
uint64_t sim_disk_used(struct sim_disk *d);
void sim_disk_limit(struct sim_disk *d, uint64_t bytes);
/* From now on they fail with EDQUOT instead. */
void sim_disk_has_quota(struct sim_disk *d);

/* Files' syncs wait while they are held. */
void sim_disk_hold_syncs(struct sim_disk *d, bool held);
/* Waits until one waits. */
void sim_disk_await_sync(struct sim_disk *d);

/* The process has ended: files are closed, the lock is free. Then the next one may begin. */
void sim_disk_kill(struct sim_disk *d);
/* The same, and the power was cut. */
void sim_disk_cut_power(struct sim_disk *d);

/* -1: there is no such file. */
int64_t sim_disk_size(struct sim_disk *d, const char *name);

/* For tests that damage files, while nothing else uses the disk: bytes of the file, that may be
 * changed; NULL: there is none. */
uint8_t *sim_disk_bytes(struct sim_disk *d, const char *name, size_t *len);
/* Makes or replaces the file, as if it was synced; NULL removes it. */
void sim_disk_put(struct sim_disk *d, const char *name, const void *bytes, size_t len);

/* A copy of the directory in which every byte counts as synced; a checksum of all files except the
 * lock. */
struct sim_disk *sim_disk_copy(const struct sim_disk *d, uint64_t seed);
uint64_t sim_disk_sum(const struct sim_disk *d);
