/* TLS of connections: the bytes of one that speaks it, and the identity of its peer. */
#pragma once

#include "proto/bytes.h"
#include "proto/tls/tls.h"
#include "rdzv/config/config.h"
#include "rdzv/net/conn.h"
#include "rdzv/net/outq.h"

/* --- What is sent and received. --- */

/* As outq_send(), but some more than `max` may go: a record is not cut. What lies one behind the
 * other in the queue is one record; a large value is not copied. */
int tls_send_queue(SSL *ssl, struct outq *q, struct out_pool *pool, size_t max);

/* As recv() from its socket. What is left to be received without an event of the socket comes with
 * an event of its own. */
ssize_t conn_recv_tls(struct conn *c, void *bytes, size_t len);

/* As outq_send() of c->out, through TLS or not. */
static inline int conn_send(struct conn *c, size_t max)
{
    return c->tls != NULL ? tls_send_queue(c->tls, &c->out, &conn_net(c)->pool, max)
                          : outq_send(&c->out, &conn_net(c)->pool, conn_fd(c), max);
}

/* --- The identity of the peer, by its certificate. --- */

/* The certificate was verified, and one of its names is in the list: a DNS name, an address, a URI
 * or an e-mail address of its SAN, or, where it has none of these, its common name. They are
 * compared as they are: a wildcard is no other name. An empty list has nobody. */
bool tls_peer_is_one_of(SSL *ssl, const struct string_list *names);

/* False: its certificate has expired. One that a resumed session names was verified when that
 * session began. */
bool tls_peer_is_in_time(SSL *ssl);
