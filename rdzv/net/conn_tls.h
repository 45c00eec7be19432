/* The bytes of a connection that speaks TLS: conn.tls is there. */
#pragma once

#include "rdzv/net/conn.h"

/* As recv() from its socket. What is left to be received without an event of the socket comes with
 * an event of its own. */
ssize_t conn_recv_tls(struct conn *c, void *bytes, size_t len);

/* As outq_send() of c->out, but some more than `max` may go: a record is not cut. */
int conn_send_tls(struct conn *c, size_t max);

/* Nothing more is sent: says so in TLS. */
void conn_end_tls(struct conn *c);

/* What conn_send_tls() is for a socket without TLS, too. */
static inline int conn_send(struct conn *c, size_t max)
{
    return c->tls != NULL ? conn_send_tls(c, max)
                          : outq_send(&c->out, &conn_net(c)->pool, conn_fd(c), max);
}
