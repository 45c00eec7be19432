/* Changes of sessions. No command is about them: who has carried out a request of one says so
 * himself, with store_change(). See part.h for the contract. */
#include "store/part.h"

static bool decide_session(struct space *space, const struct command *c, struct change *change,
                           struct store_result *out)
{
    (void)space;
    (void)c;
    (void)change;
    (void)out;
    return false;
}

static bool can_apply_session(struct space *space, const struct change *change)
{
    switch (change->kind) {
    case CHANGE_SESSION_DONE:
        return session_can_be_done(&space->sessions, &change->done);
    case CHANGE_SESSION_BIND:
        return session_check_bind(&space->sessions, &change->bind) == STORE_OK;
    case CHANGE_SESSION_MEMO:
        return session_can_have_memo(&space->sessions, &change->memo);
    case CHANGE_SESSION_END:
        return session_find(&space->sessions, change->session) != NULL;
    default:
        return false;
    }
}

static size_t memory_for_session(struct space *space, const struct change *change)
{
    switch (change->kind) {
    case CHANGE_SESSION_DONE:
        return session_memory(&space->sessions, change->done.id);
    case CHANGE_SESSION_BIND:
        return session_memory(&space->sessions, change->bind.id);
    case CHANGE_SESSION_MEMO:
        return reserve_blob_cost(change->memo.bytes.len);
    default:
        return 0;
    }
}

static void no_memory_for_session(struct space *space, const struct change *change,
                                  struct store_result *out)
{
    (void)space;
    (void)change;
    *out = (struct store_result){.status = STORE_NO_MEMORY};
}

static void apply_session(struct space *space, const struct change *change,
                          struct store_result *out)
{
    struct sessions *s = &space->sessions;

    (void)out;
    if (change->kind == CHANGE_SESSION_DONE)
        session_do(s, &change->done);
    else if (change->kind == CHANGE_SESSION_BIND)
        session_bind(s, &change->bind);
    else if (change->kind == CHANGE_SESSION_MEMO)
        session_set_memo(s, &change->memo);
    else
        session_end(s, session_find(s, change->session));
}

const struct part part_session = {
    .decide = decide_session,
    .can_apply = can_apply_session,
    .memory = memory_for_session,
    .out_of_memory = no_memory_for_session,
    .apply = apply_session,
};
