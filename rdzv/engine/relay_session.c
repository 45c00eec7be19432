/* The engine's part of relays' sessions: makes room, records, executes. See engine.h. */
#include "rdzv/engine/engine.h"

#include <stdlib.h>

const struct session *engine_session_find(const struct engine_space *space, uint64_t id)
{
    return session_find(&space->store->sessions, id);
}

struct session *engine_session_next(const struct engine_space *space, const struct session *after)
{
    return after == NULL ? TAILQ_FIRST(&space->store->sessions.list) : TAILQ_NEXT(after, order);
}

/* NULL: nothing is written down. */
static struct batch *batch_of(struct engine *e)
{
    return e->options.journal.commit != NULL ? &e->batch : NULL;
}

static enum store_status change_session(struct engine *e, struct engine_space *space,
                                        const struct change *c)
{
    enum store_status status = store_change(&e->store, space->store, c, batch_of(e));

    e->batch_changes += status == STORE_OK;
    return status;
}

/* Makes room in memory for a new session, and for its place in a barrier. */
static enum store_status prepare_memory(struct engine *e, struct engine_space *space, uint64_t id,
                                        const struct slice *barrier)
{
    struct sessions *s = &space->store->sessions;
    size_t need = SESSION_COST + (barrier == NULL ? 0 : awaited_size(*barrier));

    if (barrier == NULL && session_find(s, id) != NULL)
        return STORE_OK;
    if (store_make_room(&e->store, ACCOUNT_ORDINARY, need))
        return session_prepare(s, id, barrier);
    account.refused++;
    return STORE_NO_MEMORY;
}

enum store_status engine_session_prepare(struct engine *e, struct engine_space *space, uint64_t id,
                                         struct slice key)
{
    struct batch *batch = batch_of(e);
    size_t size = RECORD_SIZE_BASE + SPACE_NAME_MAX + SESSION_ANSWER_MAX + key.len;

    if (batch != NULL && batch->refuses)
        return STORE_READ_ONLY;
    if (batch != NULL && !batch_keep(batch, size))
        return STORE_NO_MEMORY;
    return prepare_memory(e, space, id, key.ptr == NULL ? NULL : &key);
}

void engine_session_done(struct engine *e, struct engine_space *space, uint64_t id, uint64_t number,
                         uint8_t flags, struct slice answer, struct blob *popped)
{
    const struct change c = {.kind = CHANGE_SESSION_DONE,
                             .done = {.id = id,
                                      .number = number,
                                      .flags = flags,
                                      .popped = popped != NULL,
                                      .answer = answer,
                                      .blob = popped}};

    batch_release(&e->batch);
    if (change_session(e, space, &c) != STORE_OK)
        abort(); /* the caller did not prepare it, or passed an impossible result */
}

/* A session was bound to this worker store; 0: to none. It may have been the last. */
static void notify_unbound(struct engine *e, struct engine_space *space, uint64_t id)
{
    const struct worker_store *store = worker_stores_find(&space->store->worker_stores, id);

    if (store != NULL && store->sessions == 0 && e->observer.unbound != NULL)
        e->observer.unbound(e->observer.arg, space, id);
}

enum store_status engine_session_bind(struct engine *e, struct engine_space *space, uint64_t id,
                                      bool is_worker, uint64_t worker_store)
{
    const struct change c = {.kind = CHANGE_SESSION_BIND, .bind = {id, is_worker, worker_store}};
    const struct session *session = session_find(&space->store->sessions, id);
    uint64_t before = session == NULL ? 0 : session->worker_store;
    enum store_status status = session_check_bind(&space->store->sessions, &c.bind);

    if (status == STORE_OK && session != NULL && session->is_worker == is_worker &&
        session->worker_store == worker_store)
        return STORE_OK;
    if (status == STORE_OK)
        status = prepare_memory(e, space, id, NULL);
    if (status == STORE_OK)
        status = change_session(e, space, &c);
    if (status == STORE_OK)
        notify_unbound(e, space, before);
    return status;
}

bool engine_session_set_hint(struct engine *e, struct engine_space *space, uint64_t id,
                             struct slice hint)
{
    const struct change c = {.kind = CHANGE_SESSION_HINT, .hint = {id, hint}};

    return session_hint_fits(&space->store->sessions, &c.hint) &&
           change_session(e, space, &c) == STORE_OK;
}

bool engine_session_end(struct engine *e, struct engine_space *space, uint64_t id)
{
    const struct change c = {.kind = CHANGE_SESSION_END, .session = id};
    const struct session *session = session_find(&space->store->sessions, id);
    uint64_t worker_store;

    if (session == NULL)
        return true;
    worker_store = session->worker_store;
    if (change_session(e, space, &c) != STORE_OK)
        return false;
    notify_unbound(e, space, worker_store);
    return true;
}
