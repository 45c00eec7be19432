/* Commands about the users and roles of a space, whose changes take indexes of its tree. See part.h
 * for the contract. */
#include "store/part.h"

static bool decide_auth(struct space *space, const struct command *c, struct change *change,
                        struct store_result *out)
{
    return auth_check(&space->auth, c, change, &out->auth);
}

static bool can_apply_auth(struct space *space, const struct change *change)
{
    return auth_can_apply(&space->auth, change);
}

static size_t memory_for_auth(struct space *space, const struct change *change)
{
    return auth_memory(&space->auth, change);
}

static void no_memory_for_auth(struct space *space, const struct change *change,
                               struct store_result *out)
{
    (void)space;
    (void)change;
    *out = (struct store_result){.auth = AUTH_NO_ROOM};
}

static void apply_auth(struct space *space, const struct change *change, struct store_result *out)
{
    (void)out;
    auth_apply(&space->auth, &space->tree, change);
}

const struct part part_auth = {
    .decide = decide_auth,
    .can_apply = can_apply_auth,
    .memory = memory_for_auth,
    .out_of_memory = no_memory_for_auth,
    .apply = apply_auth,
};
