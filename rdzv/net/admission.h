/* Who gets in when descriptors or connections run short. A probe that is turned away is a restart,
 * and a restart loses everything: so the last descriptors are kept for those who watch. Pure.
 *
 * A new descriptor is the lowest one that is free, so its number says how many are taken. Of the
 * reserve at the end (32, or a quarter of a small limit)
 *
 *     the first five eighths are for peers on loopback, and for probes;
 *     the next quarter is for probes, and for Unix sockets;
 *     the last eighth is the daemon's own: /metrics reads files, a token is one.
 *
 * A probe is known by what it asks for, so whoever else comes is let in on probation: it may ask
 * for /health, /metrics and the like, once. */
#pragma once

#include "rdzv/engine/stats.h"
#include "rdzv/net/peer.h"

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
