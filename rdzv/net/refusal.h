/* What the daemon turns away: who gets in when descriptors or connections run short, and one
 * counter and one event for every refusal, told apart by reason. */
#pragma once

#include "proto/bytes.h"
#include "rdzv/engine/stats.h"
#include "rdzv/net/peer.h"

/* Counts a connection or a request that is refused, and logs it: `refused`, with the peer, the
 * reason and what to do. `detail` is what it was about, such as the name that a request gave; it
 * may be empty. Each reason has a bucket of the log to itself, so that no flood of one hides
 * another. */
void refusal_note(struct stats *stats, enum refusal_reason why, const struct peer *peer,
                  struct slice detail);

/* As /metrics and the log name it: "host". */
const char *refusal_name(enum refusal_reason why);

/* --- Who gets in when descriptors or connections run short. Pure. ---
 *
 * A probe that is turned away is a restart, and a restart loses everything: so the last descriptors
 * are kept for those who watch.
 *
 * A new descriptor is the lowest one that is free, so its number says how many are taken. Of the
 * reserve at the end (32, or a quarter of a small limit)
 *
 *     the first five eighths are for peers on loopback, and for probes;
 *     the next quarter is for probes, and for Unix sockets;
 *     the last eighth is the daemon's own: /metrics reads files, a token is one.
 *
 * Only its request shows that a connection is a probe. So the reserve takes every connection on
 * probation: the client may ask once for /health, /metrics and the like. */

enum admission {
    ADMISSION_FULL,
    ADMISSION_PROBATION,
    ADMISSION_NONE,
};

struct admission_room {
    uint64_t descriptor;      /* of the new connection */
    uint64_t descriptors_max; /* all that there may be */
    size_t connections;       /* without the new one and those on probation */
    uint32_t connections_max; /* 0: no limit */
};

/* *why is what is short; untouched when there is room. */
enum admission admission_of(const struct admission_room *room, const struct peer *peer,
                            enum refusal_reason *why);
