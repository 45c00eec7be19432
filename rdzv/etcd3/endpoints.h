/* Where a journal's cluster is: its endpoints, and the order in which the addresses of an
 * endpoint's name are tried. */
#pragma once

#include "rdzv/config/endpoints.h"
#include "rdzv/net/resolve.h"

/* --- Endpoints: those of --journal, or those of a file, which is read again before each try: when
 * members of etcd change, no replica needs a restart. --- */

struct endpoints {
    const struct upstream_spec *list; /* as of the last call */
    size_t count;                     /* 0: the file was never good yet */
    const char *file;                 /* NULL: they do not change */
    struct endpoint_set sets[2];      /* of the file: the one in use, and one to read into */
    unsigned used;
    char wrong[560]; /* what is wrong with the file, as the log says it; empty: nothing is */
};

/* `config` outlives them. They are not to be moved. */
void endpoints_begin(struct endpoints *e, const struct config_journal *config);

/* Reads the file again, if there is one. True: the endpoints are others now. A file that cannot be
 * read, or is wrong, leaves them, and the log says so once. */
bool endpoints_refresh(struct endpoints *e);

/* --- Addresses: the one that has not failed comes first, or else the one whose failure is the
 * longest ago. The name's servers, or /etc/hosts, may list them in one order for ever, and the
 * first one may be of a member that takes connections and says nothing. --- */

/* All zeros: none has failed. It knows so many, and then forgets the oldest failure. */
struct failed_addresses {
    union resolve_address list[RESOLVE_MAX]; /* the last failure last */
    size_t count;
};

void addresses_note_failure(struct failed_addresses *f, const union resolve_address *a);

/* Addresses without a failure keep their order. `count` is RESOLVE_MAX at most. */
void addresses_sort(const struct failed_addresses *f, union resolve_address *addresses,
                    size_t count);
