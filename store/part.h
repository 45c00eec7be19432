/* The functions of each part of a space, so that one look-up leads from a command to its code. For
 * store.c, which has the table of parts, and for space.c, which has the part of spaces. */
#pragma once

#include "store/space.h"

/* A part gets the commands and changes that command_part() and change_part() give to it. */
struct part {
    /* Decides about a command, see store_check(); the outcome is a change of the same part. *out
     * and change->worker_store are zero at the call. NULL: this part has no commands. */
    bool (*decide)(struct space *space, const struct command *command, struct change *change,
                   struct store_result *out);

    /* For decoded changes: true if the space is in the state that the change assumes. */
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
