/* What the daemon turns away, and why: one counter and one event, told apart by reason. */
#pragma once

#include "proto/bytes.h"
#include "rdzv/engine/stats.h"

struct peer;

/* Counts a connection or a request that is refused, and logs it: `refused`, with the peer, the
 * reason and what to do. `detail` is what it was about, such as the name that a request gave; it
 * may be empty. Each reason has a bucket of the log to itself, so that no flood of one hides
 * another. */
void refusal_note(struct stats *stats, enum refusal_reason why, const struct peer *peer,
                  struct slice detail);

/* As /metrics and the log name it: "host". */
const char *refusal_name(enum refusal_reason why);
