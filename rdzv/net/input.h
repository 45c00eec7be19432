/* The bytes that a peer sends, on their way to the protocol: whole requests are executed where
 * they were received, and only the rest of a half one is kept. */
#pragma once

#include "rdzv/net/conn.h"

/* Receives what there is, once. */
void input_receive(struct conn *c);

/* Of a connection without a socket: takes bytes that have come for it, which the protocol may
 * change. False: it is farther ahead than it may be, by INPUT_AHEAD_MAX behind a request that
 * waits; they are not taken. */
#define INPUT_AHEAD_MAX (2u << 20)
bool input_feed(struct conn *c, uint8_t *bytes, size_t len);

/* Shows the protocol what is kept. A protocol calls it when a parked connection goes on. */
void input_process(struct conn *c);

/* A connection that is parked or held goes on in the next iteration: its request is shown again. */
void input_unpark(struct conn *c);

/* A deferred connection goes on, with the budget of this iteration. */
void input_run_deferred(struct conn *c);

/* Resumes a paused connection when its queue has room for answers, or drops the connection if the
 * peer does not read. */
void input_unpause(struct conn *c);

/* The peer has sent its last byte, or all that came before it has now been carried out. */
void input_on_eof(struct conn *c);

/* The received bytes of unfinished requests; c->in must not be NULL. */
static inline struct slice input_bytes(const struct conn *c)
{
    return (struct slice){c->in->bytes + c->in->start, c->in->len};
}
