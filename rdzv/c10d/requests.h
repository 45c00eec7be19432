/* What the files of this folder share: protocol.c reads the requests; requests.c executes
 * requests of one slice, and long_requests.c those of several, so that other clients do not wait;
 * relayed.c ensures that each request of a relayed session counts once. */
#pragma once

#include "rdzv/c10d/session.h"

/* Whose keys this connection uses: those of a worker store, or with 0 the space's own. */
static inline uint64_t c10d_worker_store(struct conn *c)
{
    const struct c10d_session *s = c10d_session(c);

    return s->role == C10D_WORKER ? s->bound.worker_store : 0;
}

static inline struct keymap *c10d_keys(struct conn *c)
{
    return space_keys(conn_space(c)->store, c10d_worker_store(c));
}

/* True while a request has begun and needs more slices. */
static inline bool c10d_is_busy(const struct conn *c)
{
    return c10d_session(c)->busy != C10D_IDLE;
}

/* Waits at a barrier that has already counted this client. */
void c10d_await_barrier(struct conn *c, const struct c10d_request *req);

/* --- requests.c --- */

/* The charge for notifying one client, to the peer that causes it; a unit of ready_list.work. */
#define C10D_NOTIFY_COST 128u

/* The most keys of elastic jobs that one MULTI_SET may have. The request looks up the run that owns
 * each key in one slice, so the number of keys needs a limit. The agent of rank 0 sets a key for
 * each node (agent/server/api.py, _assign_worker_ranks(), from 2.4 on). */
#define C10D_RUN_KEYS_AT_ONCE 32768

/* Functions by opcode, for all opcodes that the parser accepts, except LIST_KEYS. Each carries the
 * request out in one slice, and may end the session. */
extern void (*const c10d_handlers[C10D_OP_COUNT])(struct conn *c, const struct c10d_request *req);

static inline void c10d_reply_u8(struct conn *c, uint8_t v)
{
    *conn_reserve(c, 1) = v;
}

static inline void c10d_reply_i64(struct conn *c, int64_t v)
{
    bytes_put_u64(conn_reserve(c, 8), (uint64_t)v);
}

/* False: the command failed, for want of room or of a number, and the session has ended. */
bool c10d_apply(struct conn *c, struct command *command, struct store_result *out);

/* Carries out a COMPARE_SET. `copy`: of the value; NULL: there is none. */
void c10d_compare_set(struct conn *c, const struct c10d_request *req, struct blob *copy);

/* Whether the client may wait now. False: the session has ended. */
bool c10d_may_wait(struct conn *c);

/* Answers a WAIT whose keys all exist, or lets it wait. */
void c10d_reply_wait(struct conn *c, enum store_status status);

/* --- Legacy WATCH_KEY. --- */

/* Sends what the session's watches have seen. The session may have ended then. */
void c10d_notify_watches(struct conn *c);

/* It watches no key any more. */
void c10d_drop_watches(struct conn *c);

/* --- long_requests.c: large requests, each of which still takes effect at one moment. --- */

/* Runs the first slice of a large request of `size` bytes from `start`, as c10d_run_long() runs the
 * others. False: nothing was done, since the request needs one slice, like small requests. */
bool c10d_begin_long(struct conn *c, const struct c10d_request *req, const uint8_t *start,
                     size_t size);

/* The unfinished request, whose bytes lie at `start` now, and its size. */
struct c10d_request c10d_long_request(struct conn *c, const uint8_t *start, size_t *size);

/* Runs one more slice. If c10d_is_busy() then, it needs another. The session may have ended. */
void c10d_run_long(struct conn *c, const struct c10d_request *req);

/* A WAIT or MULTI_GET of at least so many keys shares its work with equal requests. */
#define C10D_SHARED_KEYS_MIN 65u

/* True if the outcome of another client's equal request is still that of this one; then
 * c10d_answer_known() executes it, at any time before the next change. */
bool c10d_is_known(struct conn *c, const struct c10d_request *req);
void c10d_answer_known(struct conn *c, const struct c10d_request *req);

/* --- relayed.c, of connections that have a backend. --- */

/* What the connection does with a request. */
enum relayed {
    RELAYED_PROCEED,
    RELAYED_ENDED, /* nothing any more */
    RELAYED_HELD,  /* it is shown again after input_unpark() */
};

/* Before a turn of a request. *changes is for relayed_end_request(). */
enum relayed relayed_begin_request(struct conn *c, const struct c10d_request *req,
                                   uint64_t *changes);

/* Behind a turn of a request, with which the session may have ended. */
void relayed_end_request(struct c10d *c10d, struct conn *c, const struct c10d_request *req,
                         uint64_t changes);

/* The session has named its first key: the backend must know the keys that the session uses, to
 * restore it later. If the backend cannot keep a worker's binding, the session ends. */
void relayed_keep_binding(struct conn *c, struct slice key);
