/* What the store asks of each part of a space, so that a command takes one look-up to the code that
 * knows it. For store.c, which has the table, and for space.c, which has its rows. */
#pragma once

#include "store/space.h"

/* A part gets the commands and changes that command_part() and change_part() give to it. */
struct part {
    /* Decides about a command, see store_check(); what comes of it is a change of the same part.
     * *out comes as zeros, and change->worker_store as 0. NULL: no command is about this part. */
    bool (*decide)(struct space *space, const struct command *command, struct change *change,
                   struct store_result *out);

    /* True when a change that was decoded finds what it takes for granted. */
    bool (*can_apply)(struct space *space, const struct change *change);

    /* What apply() takes of the reserve at most. */
    size_t (*memory)(struct space *space, const struct change *change);

    /* Carries out a change for which the memory is held. */
    void (*apply)(struct space *space, const struct change *change, struct store_result *out);
};

extern const struct part part_keys;
extern const struct part part_tree;
extern const struct part part_space;
extern const struct part part_session;
