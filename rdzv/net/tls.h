/* TLS of connections: receiving and sending with TLS, and the identity of the peer. */
#pragma once

#include "proto/tls/tls.h"
#include "rdzv/config/config.h"
#include "rdzv/net/conn.h"
#include "rdzv/net/outq.h"

/* --- What is sent and received. --- */

/* As outq_send(), but it may send somewhat more than `max`: it does not cut a record. Adjacent
 * bytes of the queue form one record; a large value is not copied. */
int tls_send_queue(SSL *ssl, struct outq *q, struct out_pool *pool, size_t max);

/* As recv() from its socket. Data that OpenSSL already holds causes no event of the socket, so the
 * connection gets an event of its own. */
ssize_t conn_recv_tls(struct conn *c, void *bytes, size_t len);

/* As outq_send() of c->out, through TLS or not. */
static inline int conn_send(struct conn *c, size_t max)
{
    return c->tls != NULL ? tls_send_queue(c->tls, &c->out, &conn_net(c)->pool, max)
                          : outq_send(&c->out, &conn_net(c)->pool, c->fd, max);
}

/* --- The identity of the peer, by its certificate. --- */

/* True if the certificate was verified and one of its names is in the list: a DNS name, address,
 * URI or e-mail address of its SAN, or else its common name. Names must be equal: a wildcard
 * matches only itself. An empty list matches no peer. */
bool tls_peer_is_one_of(SSL *ssl, const struct string_list *names);

/* True if its certificate has not expired; a resumed session's was verified when it began. */
bool tls_peer_is_in_time(SSL *ssl);
