/* What the two halves of relay.h share: sessions as clients see them, and as the link does. */
#pragma once

#include "rdzv/relay/relay.h"

/* The session has something to send now: it gets its turn. */
void relay_queue(struct relay_client *s);

/* A request is done with, whatever came of it. */
void relay_drop_request(struct relay_client *s, struct relay_request *q);

/* The client may try again what was held, if there is room for it now. */
void relay_let_go_on(struct relay_client *s);

/* The client waits for an answer of a WAIT or BARRIER no more, and may go on with other requests.
 * If the store may know of it, it is told behind it that nobody waits; a barrier counts it all the
 * same. False: for want of memory the store cannot be told. */
bool relay_give_up(struct relay_client *s, struct relay_request *waits);

/* The link is lost, and with it all that it had a part of: those that were given up meanwhile go.
 */
void relay_take_back_given_up(struct relay_client *s);

/* The store has said what it has carried out, and none of the rest: in this link that is numbered
 * without gaps. The first keeps its number, under which the store may have it open. */
void relay_close_gaps(struct relay_client *s);

/* A session without its client: says CLOSE, or is forgotten, when nothing is left to confirm. */
void relay_finish(struct relay_client *s);

void relay_forget(struct relay_client *s);

/* The client has to go, and what it had open is forgotten; the store, which may know the session,
 * or keep its record until it hears that the relay knows of its end, is told by CLOSE. */
void relay_abandon(struct relay_client *s, enum drop_reason why, const char *reason);

/* The client gets CANCEL_WAIT's answer from the relay. */
void relay_answer_cancel(struct relay_client *s);

/* Of an answer that is being put together. */
void relay_drop_answer(struct answer_so_far *a);

/* The next request that has not been sent; NULL: there is none, or it has to wait. */
struct relay_request *relay_next_request(const struct relay_client *s);
