/* Of the addresses that a name has, which one comes first: one that has not failed, or else the one
 * whose failure is the longest ago. The name's servers, or /etc/hosts, may tell them in one order
 * for ever, and the first one may be of a member that takes connections and says nothing. */
#pragma once

#include "rdzv/net/resolve.h"

/* All zeros: none has failed. It knows so many, and then forgets the oldest failure. */
struct failed_addresses {
    union resolve_address list[RESOLVE_MAX]; /* the last failure last */
    size_t count;
};

void addresses_note_failure(struct failed_addresses *f, const union resolve_address *a);

/* Those that have not failed stay in their order. `count` is RESOLVE_MAX at most. */
void addresses_sort(const struct failed_addresses *f, union resolve_address *addresses,
                    size_t count);
