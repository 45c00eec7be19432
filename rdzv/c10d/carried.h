/* c10d sessions without a socket: what those who carry them (net/carrier.h) ask of the session, and
 * what the session tells its carrier, so that each request counts once. */
#pragma once

#include "rdzv/c10d/session.h"

/* --- For carriers. --- */

/* Begins the session of a carried connection; `p` is the protocol of this c10d. `pinged`: the
 * carrier has answered a PING. */
void c10d_begin_carried(const struct protocol *p, struct conn *c, enum c10d_version version,
                        bool pinged);

/* It is known from before a start. `worker_store`: whose keys it uses; 0: those of the space.
 * False: those keys are not there. */
bool c10d_restore(struct conn *c, uint64_t worker_store);

/* A request that has begun, and takes more turns, begins anew: its bytes come again. What it waits
 * for stays. */
void c10d_rewind(struct conn *c);

/* Says whether the session's relay is there. False: it is no agent's, and its run does not care. */
bool c10d_set_presence(struct conn *c, enum c10d_presence presence);

/* All sessions of the space from before a start that come back at all are here again. */
void c10d_note_returned(const struct protocol *p, struct engine_space *space);

/* --- For protocol.c and requests.c, of connections that have a carrier. --- */

/* What is to be done with a request. */
enum carried {
    CARRIED_PROCEED,
    CARRIED_ENDED, /* nothing any more */
    CARRIED_HELD,  /* it is shown again after input_unpark() */
};

/* Before a turn of a request. *changes is for carried_end(). */
enum carried carried_begin(struct conn *c, const struct c10d_request *req, uint64_t *changes);

/* Behind a turn of a request, with which the session may have ended. */
void carried_end(struct c10d *c10d, struct conn *c, const struct c10d_request *req,
                 uint64_t changes);

/* The request has taken that element off a queue; the carrier is told when the request is done. */
void carried_note_popped(const struct conn *c, const struct store_result *result);

/* A BARRIER has been counted, and its session is about to be dropped since it cannot wait for it.
 */
void carried_note_arrived(struct conn *c, const struct c10d_request *req);

/* The session has just named its first key: the carrier has to know whose keys it uses when it
 * brings the session again. If it cannot keep that of a worker, the session ends. */
void carried_keep_binding(struct conn *c, struct slice key);
