/* Where a journal's cluster is: the endpoints of --journal, or those of a file, which rdzvd reads
 * again before each try: when members of etcd change, no replica needs a restart. */
#pragma once

#include "rdzv/config/endpoints.h"

struct endpoints {
    const struct upstream_spec *list; /* as of the last call */
    size_t count;                     /* 0: the file was never good yet */
    const char *file;                 /* NULL: they do not change */
    struct endpoint_set sets[2]; /* of the file: the current set, and a buffer for the next set */
    unsigned used;
    char wrong[560]; /* what is wrong with the file, as the log says it; empty: nothing is */
};

/* `config` outlives them. They are not to be moved. */
void endpoints_begin(struct endpoints *e, const struct config_journal *config);

/* Reads the file again, if the endpoints come from one. True: the endpoints have changed. An
 * unreadable or wrong file changes nothing, and is logged once. */
bool endpoints_refresh(struct endpoints *e);
