/* Refusals of the daemon: which clients may connect when descriptors or connections run short; one
 * counter and one event per reason. */
#pragma once

#include "proto/bytes.h"
#include "rdzv/engine/stats.h"
#include "rdzv/net/peer.h"

/* Counts and logs the refusal of a connection or request: `refused`, with the peer, the reason and
 * a hint. `detail` is the subject, such as the name in a request; it may be empty. Each reason has
 * its own bucket of the log, so a flood of one reason does not hide another. */
void refusal_note(struct stats *stats, enum refusal_reason why, const struct peer *peer,
                  struct slice detail);

/* As /metrics and the log name it: "host". */
const char *refusal_name(enum refusal_reason why);

/* --- Who gets in when descriptors or connections run short. Pure. ---
 *
 * A refused probe makes Kubernetes restart the pod, and a restart loses everything: so the last
 * descriptors are kept for probes and monitors.
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
    size_t connections;       /* without the new connection and those on probation */
    uint32_t connections_max; /* 0: no limit */
};

/* *why is what is short; untouched when there is room. */
enum admission admission_of(const struct admission_room *room, const struct peer *peer,
                            enum refusal_reason *why);
