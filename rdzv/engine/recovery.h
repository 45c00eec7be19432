/* Fills an engine with the content of a data directory: the frames of a snapshot, then the batches
 * that came after it, in their order. It reads no files: the caller hands over their bytes. */
#pragma once

#include "rdzv/engine/engine.h"

struct recovery {
    struct engine *engine;
    struct engine_space *space; /* of the last change */
    uint64_t batches;
    uint64_t changes;
    int64_t last_ns;   /* when the process before this one has last written, since 1970: a batch or
                          a part of the snapshot; 0: unknown */
    const char *fault; /* why a part was not taken; NULL: all were */
};

/* The engine is empty. */
void recovery_begin(struct recovery *r, struct engine *engine);

/* Loads a frame of a snapshot, or a batch. False if the bytes are malformed, do not follow the
 * frames before, or if memory is short; its `fault` says which. As struct journal_reader wants
 * them. */
bool recovery_take_snapshot(void *recovery, struct slice bytes);
bool recovery_take_batch(void *recovery, uint64_t number, struct slice bytes);

/* Called between frames and batches. False without the snapshot's last frame; `fault` says so. */
bool recovery_end_snapshot(void *recovery);

/* Ends recovery: all records up to batch `last` have come, in a snapshot or behind it; the engine
 * continues after that batch, and r->last_ns is right. */
void recovery_end(struct recovery *r, uint64_t last);

/* From then to now; 0 when that is unknown. */
uint64_t recovery_away_ms(const struct recovery *r);
