/* c10d on a connection: reads requests, runs each in its slices, and charges for it. */

#include <string.h>

#include "rdzv/c10d/requests.h"

/* What is charged to a peer's budget beside the bytes of request and answer: finding a key costs
 * some cache misses, whatever its length. */
#define REQUEST_COST 64u
#define ENTRY_COST   64u

/* A list that is known is compared, and nothing is looked up. */
#define KNOWN_BYTES_AT_A_COST 8u

/* Requests of up to so many bytes, and lists of up to so many keys, are fast and not measured. */
#define FAST_SIZE (16u << 10)
#define FAST_LIST 1024u

/* A worker outside all runs has ended. The first one of a job may be why the others end. */
static void note_end(struct conn *c, uint32_t rank)
{
    struct engine_space *space = conn_space(c);

    space->ranks_here--;
    if (rank <= ENGINE_RANKS)
        space->rank_writers[rank - 1]--;
    if (space->first_end != 0 || space->c10d_sessions == 1)
        return;
    space->first_end = rank;
    space->first_end_ms = engine_now_ms(c10d_of(c)->engine);
    log_event(LOG_INFO, "rank_ended", log_str("space", space->store->name),
              log_u64("rank", rank - 1), log_str("peer", CONN_PEER(c)),
              log_u64("c10d_clients", space->c10d_sessions - 1));
}

static void end_c10d(struct conn *c)
{
    struct c10d_session *s = c10d_session(c);
    const struct c10d_hooks *hooks = &c10d_of(c)->hooks;

    c10d_drop_wait(c);
    c10d_end_long(c);
    c10d_drop_watches(c);
    if (s->role == C10D_AGENT || s->role == C10D_WORKER)
        hooks->unbind(hooks->arg, c);
    if (s->role == C10D_PLAIN && s->rank > 0)
        note_end(c, s->rank);
    s->role = C10D_UNBOUND;
    engine_session_ended(c10d_of(c)->engine, conn_space(c));
}

/* --- Hooks. --- */

/* Says who the client is, and lets the hooks see an agent's request first. */
__attribute__((noinline)) static enum c10d_verdict ask_hooks(struct conn *c,
                                                             const struct c10d_request *req)
{
    const struct c10d_hooks *hooks = &c10d_of(c)->hooks;
    struct c10d_session *s = c10d_session(c);
    struct slice key = c10d_first_key(req);

    if (s->role < C10D_PLAIN && key.ptr != NULL) {
        /* A session that waits for a key of the space must not change to a worker store. */
        bool stays = s->role == C10D_UNBOUND && (s->waiter != NULL || s->watches != NULL);

        if (s->role == C10D_UNBOUND)
            s->role = C10D_PLAIN;
        if (hooks->bind != NULL && !stays && !hooks->bind(hooks->arg, c, key, req->op)) {
            s->role = C10D_UNBOUND;
            return C10D_LATER;
        }
        if (conn_is_open(c) && c->backend != NULL)
            relayed_keep_binding(c, key);
        if (!conn_is_open(c))
            return C10D_ANSWERED;
    }
    return s->role != C10D_AGENT ? C10D_PROCEED : hooks->on_request(hooks->arg, c, req, key);
}

/* --- Turns. --- */

/* The result for the connection after one slice. */
static enum protocol_result end_slice(struct conn *c)
{
    if (!conn_is_open(c))
        return PROTOCOL_ENDED;
    if (!c10d_is_busy(c))
        return PROTOCOL_MORE;
    conn_wait_for_slice(c);
    return PROTOCOL_DEFERRED;
}

/* What follows a request that relayed_begin_request() has stopped. */
static enum protocol_result end_relayed(struct conn *c, enum relayed verdict)
{
    return verdict == RELAYED_HELD ? PROTOCOL_PARKED : end_slice(c);
}

/* Runs the next slice of the request at the front. A stopping daemon may wait for its end. */
static enum protocol_result run_next_slice(struct conn *c, const struct c10d_request *req)
{
    struct c10d *c10d = c10d_of(c); /* the session may end with this turn */
    bool is_relayed = c->backend != NULL;
    enum relayed verdict = RELAYED_PROCEED;
    uint64_t changes = 0;

    if (is_relayed && (verdict = relayed_begin_request(c, req, &changes)) != RELAYED_PROCEED)
        return end_relayed(c, verdict);
    c10d_run_long(c, req);
    if (is_relayed)
        relayed_end_request(c10d, c, req, changes);
    else if (conn_is_open(c) && !c10d_is_busy(c) && conn_net(c)->draining)
        conn_finish(c);
    return end_slice(c);
}

/* True for the few requests that may take long, or be answered at length. */
static inline bool is_large(const struct c10d_request *req, size_t size)
{
    return size > FAST_SIZE || req->op == C10D_LIST_KEYS || req->count >= C10D_SHARED_KEYS_MIN;
}

/* `known`: another client's request has all that it needs. */
__attribute__((noinline)) static void handle_large(struct conn *c, const struct c10d_request *req,
                                                   const uint8_t *start, size_t size, bool known)
{
    if (known)
        c10d_answer_known(c, req);
    else if (!c10d_begin_long(c, req, start, size))
        c10d_handlers[req->op](c, req);
}

/* What the engine had done before a request. */
struct work {
    uint64_t done, notified;
};

static void charge_request(struct conn *c, size_t cost, const struct engine *engine,
                           struct work before)
{
    conn_charge(c, REQUEST_COST + cost + (engine->work - before.done) +
                       (engine->store.ready.work - before.notified) * C10D_NOTIFY_COST);
}

/* Carries out one whole request of `size` bytes at `start`. A held request is charged each time
 * that it comes here: perhaps it was carried out before, and only its answer is held. */
static enum protocol_result run_c10d_request(struct conn *c, const struct c10d_request *req,
                                             const uint8_t *start, size_t size, bool known)
{
    size_t cost = known ? size / KNOWN_BYTES_AT_A_COST : req->count * ENTRY_COST + size;
    struct c10d *c10d = c10d_of(c); /* the session may end with this request */
    struct engine *engine = c10d->engine;
    const struct work before = {engine->work, engine->store.ready.work};
    uint64_t changes = 0;
    bool is_relayed = c->backend != NULL;
    enum relayed relayed = RELAYED_PROCEED;
    enum c10d_verdict verdict;
    uint8_t role;

    if (is_relayed && (relayed = relayed_begin_request(c, req, &changes)) != RELAYED_PROCEED)
        return end_relayed(c, relayed);
    role = c10d_session(c)->role; /* other requests than those of agents need no rendezvous */
    verdict = role == C10D_PLAIN || role == C10D_WORKER ? C10D_PROCEED : ask_hooks(c, req);
    if (verdict == C10D_HELD) {
        charge_request(c, cost, engine, before);
        return PROTOCOL_PARKED;
    }
    if (verdict == C10D_LATER) {
        conn_wait_for_slice(c);
        return PROTOCOL_DEFERRED;
    }
    engine->stats.c10d_requests[req->op]++;
    if (verdict == C10D_PROCEED && is_large(req, size))
        handle_large(c, req, start, size, known);
    else if (verdict == C10D_PROCEED)
        c10d_handlers[req->op](c, req);
    charge_request(c, cost, engine, before);
    if (is_relayed)
        relayed_end_request(c10d, c, req, changes);
    return end_slice(c);
}

/* --- Reading. --- */

/* A legacy client whose WAIT timed out says nothing and goes on with its next request; a late 0
 * would be read as the first byte of that one's answer. */
static void give_up_wait(struct conn *c)
{
    if (c10d_session(c)->waiter != NULL && c10d_session(c)->version == C10D_LEGACY &&
        !c->may_repeat)
        c10d_drop_wait(c);
}

/* Runs one more slice of the unfinished request, whose bytes begin at `start`. */
static enum protocol_result resume_request(struct conn *c, const uint8_t *start, size_t *size)
{
    const struct c10d_request req = c10d_long_request(c, start, size);
    enum protocol_result result;

    if (!conn_has_budget(c) || !conn_begin_slice(c)) {
        conn_wait_for_slice(c);
        return PROTOCOL_DEFERRED;
    }
    result = run_next_slice(c, &req);
    conn_end_slice(c);
    return result;
}

/* Before a large request. PROTOCOL_MORE: room and time suffice until conn_end_slice(). */
static enum protocol_result begin_large(struct conn *c, const struct c10d_request *req, size_t size)
{
    if (req->op == C10D_LIST_KEYS && !conn_has_room(c, keymap_list_size(c10d_keys(c))))
        return PROTOCOL_PAUSED;
    if (size <= FAST_SIZE && (req->op != C10D_LIST_KEYS || c10d_keys(c)->present <= FAST_LIST))
        return PROTOCOL_MORE;
    return conn_begin_slice(c) ? PROTOCOL_MORE : PROTOCOL_DEFERRED;
}

/* Handles a whole request. It stays in the input if it is held, or needs more slices. */
static inline enum protocol_result take_request(struct conn *c, const struct c10d_request *req,
                                                const uint8_t *start, size_t size)
{
    bool large = is_large(req, size), known = large && c10d_is_known(c, req);
    enum protocol_result result = large && !known ? begin_large(c, req, size) : PROTOCOL_MORE;

    if (result == PROTOCOL_MORE)
        result = run_c10d_request(c, req, start, size, known);
    if (large)
        conn_end_slice(c);
    return result;
}

/* Reads the next request and carries it out. PARSE_DONE: *result says what came of it. */
static inline enum parse_result read_next_request(struct conn *c, struct slice in, size_t *size,
                                                  enum protocol_result *result)
{
    struct c10d_session *s = c10d_session(c);
    struct c10d_refusal refusal;
    struct c10d_request req;
    enum parse_result parsed = c10d_parse(in, (enum c10d_version)s->version, &c10d_of(c)->limits,
                                          &s->work.progress, &req, size, &refusal);

    if (parsed == PARSE_DONE)
        *result = take_request(c, &req, in.ptr, *size);
    else if (parsed == PARSE_BAD)
        conn_drop(c, refusal.is_limit ? DROP_LIMIT : DROP_MALFORMED, refusal.reason,
                  (struct slice){in.ptr, 1});
    return parsed;
}

static enum protocol_result read_c10d_requests(struct conn *c, uint8_t *in, size_t len,
                                               struct protocol_progress *progress)
{
    while (progress->used < len) {
        struct slice rest = {in + progress->used, len - progress->used};
        enum protocol_result result = PROTOCOL_ENDED;
        enum parse_result parsed;
        size_t size;

        if (c10d_is_busy(c)) {
            result = resume_request(c, rest.ptr, &size);
        } else {
            give_up_wait(c);
            if (!conn_can_reply(c))
                return PROTOCOL_PAUSED;
            if (!conn_has_budget(c))
                return PROTOCOL_DEFERRED;
            parsed = read_next_request(c, rest, &size, &result);
            if (parsed == PARSE_BAD)
                return PROTOCOL_ENDED;
            if (parsed == PARSE_MORE) {
                progress->need = progress->used + size;
                return PROTOCOL_MORE;
            }
        }
        if (result == PROTOCOL_PARKED || result == PROTOCOL_DEFERRED)
            progress->need = progress->used + size; /* and more may come behind it */
        else if (result != PROTOCOL_PAUSED)
            progress->used += size;
        if (result != PROTOCOL_MORE)
            return result;
    }
    return PROTOCOL_MORE;
}

static void resume_woken(struct conn *c, struct wake *w)
{
    if (w->kind != WAKE_WAITER) {
        c10d_notify_watches(c);
        return;
    }
    c10d_drop_wait(c);
    if ((c->backend == NULL || c->backend->functions->woken(c)) && conn_can_push(c))
        c10d_reply_u8(c, C10D_STOP_WAITING);
}

/* --- The protocol. --- */

void c10d_begin(const struct protocol *p, struct conn *c, enum c10d_version version, bool pinged)
{
    c->protocol = p;
    memset(&c->session, 0, sizeof c->session);
    c10d_session(c)->version = (uint8_t)version;
    c10d_session(c)->pinged = pinged;
    engine_session_began(c10d_of(c)->engine, conn_space(c));
}

/* At most five bytes tell the version. */
static enum parse_result begin_c10d(const struct protocol *p, struct conn *c, struct slice in,
                                    struct protocol_progress *progress, const char **why)
{
    const struct c10d *c10d = p->arg;
    enum c10d_version version = C10D_LEGACY;
    size_t size = 0;
    enum parse_result result = c10d_detect(in, c10d->config->legacy, &version, &size);

    if (result == PARSE_MORE)
        progress->need = size;
    else if (result == PARSE_BAD)
        *why = in.ptr[0] <= 8 ? "c10d without a handshake (torch 2.0 and before), or a bad "
                                "VALIDATE; see --disable=c10d-legacy"
                              : "no protocol spoken here begins so";
    if (result != PARSE_DONE)
        return result;
    progress->used = size;
    c10d_begin(p, c, version, false);
    return PARSE_DONE;
}

static const char *version_name_of(const struct conn *c)
{
    return c10d_version_name((enum c10d_version)c10d_session(c)->version);
}

void c10d_init(struct c10d *c10d, const struct config *config, struct engine *engine,
               struct c10d_hooks hooks)
{
    *c10d = (struct c10d){.config = config,
                          .engine = engine,
                          .hooks = hooks,
                          .limits = c10d_limits_of(config->limits.value_max)};
}

struct protocol c10d_protocol(struct c10d *c10d)
{
    return (struct protocol){.name = "c10d",
                             .arg = c10d,
                             .begin = begin_c10d,
                             .read = read_c10d_requests,
                             .is_busy = c10d_is_busy,
                             .resume = resume_woken,
                             .end = end_c10d,
                             .version = version_name_of};
}
