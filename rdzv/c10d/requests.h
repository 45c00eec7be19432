/* What each request of a c10d client does, and how it is answered: for protocol.c, which reads the
 * requests, and long_requests.c. */
#pragma once

#include "rdzv/c10d/session.h"

/* What telling a client of a change is charged to a peer's budget, and what else ready_list.work
 * counts. */
#define C10D_TOLD_COST 128u

/* So many keys of elastic jobs may be in one MULTI_SET: of each it is found, at its one moment,
 * whose it is. torch's agents set one at a time, and workers have a store of their own. */
#define C10D_RUN_KEYS_AT_ONCE 4096

/* By opcode, what the parser lets through, but for LIST_KEYS: carries the request out in one turn.
 * The session may have ended then. */
extern void (*const c10d_handlers[C10D_OP_COUNT])(struct conn *c, const struct c10d_request *req);

static inline void c10d_reply_u8(struct conn *c, uint8_t v)
{
    *conn_reserve(c, 1) = v;
}

static inline void c10d_reply_i64(struct conn *c, int64_t v)
{
    bytes_put_u64(conn_reserve(c, 8), (uint64_t)v);
}

/* Carries out a command that can only fail for want of room, or of a number. False: it has failed,
 * and the session has ended. */
bool c10d_apply(struct conn *c, struct command *command, struct store_result *out);

/* Carries out a COMPARE_SET. `copy`: of the value; NULL: there is none. */
void c10d_compare_set(struct conn *c, const struct c10d_request *req, struct blob *copy);

/* Whether the client may wait now. False: the session has ended. */
bool c10d_may_wait(struct conn *c);

/* Answers a WAIT whose keys are all there, or lets it wait. */
void c10d_reply_wait(struct conn *c, enum store_status status);

/* --- Legacy WATCH_KEY. --- */

/* Sends what the session's watches have seen. The session may have ended then. */
void c10d_tell_watches(struct conn *c);

/* It watches no key any more. */
void c10d_drop_watches(struct conn *c);
