/* Sessions of relays' clients. See session.h and requests.h for the contract. */
#include "rdzv/c10d/requests.h"

/* --- Requests, each of which counts once. --- */

static bool may_change(enum c10d_op op)
{
    static const bool changes[C10D_OP_COUNT] = {
        [C10D_SET] = true,        [C10D_COMPARE_SET] = true, [C10D_ADD] = true,
        [C10D_DELETE_KEY] = true, [C10D_APPEND] = true,      [C10D_MULTI_SET] = true,
        [C10D_QUEUE_PUSH] = true, [C10D_QUEUE_POP] = true,   [C10D_BARRIER] = true,
    };

    return changes[op];
}

/* Passes the result to the backend after the last slice; `before`: the number of changes before the
 * request. Changes that follow a refused COMPARE_SET are not the request's own. */
static void notify_backend(struct conn *c, const struct c10d_request *req, uint64_t before)
{
    struct c10d *c10d = c10d_of(c);
    struct backend_result result = {.changed = may_change(req->op) &&
                                               engine_changes(c10d->engine) != before,
                                    .waits = c10d_waits(c),
                                    .key = req->key,
                                    .popped = c10d->popped,
                                    .popped_of = c10d->popped_of};

    if (req->op == C10D_COMPARE_SET) {
        result.took = result.changed &&
                      slice_equal(blob_slice(keymap_get(c10d_keys(c), req->key)), req->value);
        result.changed = result.took;
    }
    c->backend->functions->done(c, &result);
}

enum relayed relayed_begin_request(struct conn *c, const struct c10d_request *req,
                                   uint64_t *changes)
{
    const struct slice barrier = req->op == C10D_BARRIER ? req->key : (struct slice){0};

    /* A client without a backend is dropped instead, as the protocol has no error answer. The first
     * key of an unbound session binds the session to a store, and this binding is a change, too. */
    if (!engine_takes_changes(c10d_of(c)->engine) &&
        (may_change(req->op) || c10d_session(c)->role == C10D_UNBOUND)) {
        conn_hold(c);
        return RELAYED_HELD;
    }
    *changes = engine_changes(c10d_of(c)->engine);
    switch (c->backend->functions->begin(c, may_change(req->op), barrier)) {
    case VERDICT_PROCEED:
        return RELAYED_PROCEED;
    case VERDICT_REFUSED: /* the backend has answered */
        return RELAYED_ENDED;
    case VERDICT_WAITS_AGAIN: /* counted before a restart, or on a link that was lost */
        c10d_await_barrier(c, req);
        break;
    case VERDICT_REPEATED: /* carried out before: the backend has sent its answer again */
        break;
    }
    if (conn_is_open(c))
        notify_backend(c, req, *changes);
    return RELAYED_ENDED;
}

void relayed_end_request(struct c10d *c10d, struct conn *c, const struct c10d_request *req,
                         uint64_t changes)
{
    if (conn_is_open(c) && !c10d_is_busy(c))
        notify_backend(c, req, changes);
    blob_unref(c10d->popped);
    c10d->popped = NULL;
}

void relayed_keep_binding(struct conn *c, struct slice key)
{
    enum store_status status = c->backend->functions->bound(c, c10d_worker_store(c));

    if (status != STORE_OK && c10d_session(c)->role == C10D_WORKER)
        c10d_reject(c, status, key);
}

/* --- The session. --- */

bool c10d_restore(struct conn *c, uint64_t worker_store)
{
    const struct c10d_hooks *hooks = &c10d_of(c)->hooks;

    c10d_session(c)->role = C10D_RESUMED;
    if (worker_store != 0 && hooks->rebind != NULL)
        hooks->rebind(hooks->arg, c, worker_store);
    return worker_store == 0 || c10d_session(c)->role == C10D_WORKER;
}

bool c10d_set_presence(struct conn *c, enum c10d_presence presence)
{
    const struct c10d_hooks *hooks = &c10d_of(c)->hooks;

    if (c10d_session(c)->role != C10D_AGENT)
        return false;
    hooks->set_presence(hooks->arg, c, presence);
    return true;
}

void c10d_note_returned(const struct protocol *p, struct engine_space *space)
{
    const struct c10d *c10d = p->arg;

    if (c10d->hooks.returned != NULL)
        c10d->hooks.returned(c10d->hooks.arg, space);
}
