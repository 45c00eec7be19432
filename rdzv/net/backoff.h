/* Who has sent wrong tokens has to wait before the next one is looked at: some are free, then
 * the time doubles with each, up to a limit. Counted per address, in a table of a fixed size. Pure:
 * the time is passed in. */
#pragma once

#include "rdzv/net/peer.h"

#define BACKOFF_FREE     5                 /* failures before the first wait */
#define BACKOFF_FIRST_MS 1000u             /* that wait */
#define BACKOFF_MOST_MS  16000u            /* the longest one */
#define BACKOFF_KEEP_MS  (10u * 60 * 1000) /* failures are forgotten after this time without one */

#define BACKOFF_SETS 256
#define BACKOFF_WAYS 4 /* addresses that share a place; the one that failed longest ago goes */

struct backoff {
    struct backoff_entry {
        uint8_t address[16]; /* peer_network() */
        uint32_t failures;   /* 0: free */
        uint64_t failed_ms;
    } entries[BACKOFF_SETS][BACKOFF_WAYS];
};

/* All zero is an empty table. */
bool backoff_allows(const struct backoff *b, const struct peer *peer, uint64_t now_ms);
void backoff_failed(struct backoff *b, const struct peer *peer, uint64_t now_ms);
