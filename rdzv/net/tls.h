/* TLS of connections: the bytes of one that speaks it, the identity of its peer, and files that are
 * of no use. */
#pragma once

#include "proto/bytes.h"
#include "proto/tls/tls.h"
#include "rdzv/config/config.h"
#include "rdzv/net/conn.h"
#include "rdzv/net/file_watch.h"
#include "rdzv/net/outq.h"

/* --- What is sent and received. --- */

/* As outq_send(), but some more than `max` may go: a record is not cut. What lies one behind the
 * other in the queue is one record; a large value is not copied. */
int tls_send_queue(SSL *ssl, struct outq *q, struct out_pool *pool, size_t max);

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

/* --- The identity of the peer, by its certificate. --- */

/* The certificate was verified, and one of its names is in the list: a DNS name, an address, a URI
 * or an e-mail address of its SAN, or, where it has none of these, its common name. They are
 * compared as they are: a wildcard is no other name. An empty list has nobody. */
bool tls_peer_is_one_of(SSL *ssl, const struct string_list *names);

/* False: its certificate has expired. One that a resumed session names was verified when that
 * session began. */
bool tls_peer_is_in_time(SSL *ssl);

/* The first of these names, for logs: without what would end a line or a word. "" when there is
 * none. Returns `text`. */
#define TLS_NAME_MAX 128
const char *tls_peer_name(SSL *ssl, char text[TLS_NAME_MAX]);

/* --- Files. --- */

/* `why` is what tls_context.h says: the path of one of the files, and what is wrong with it. The
 * settings are of the same order as the paths: "--cert", "--key", "--client-ca", "--crl". */
void certificate_files_failed(const char *const paths[FILE_WATCH_MAX],
                              const char *const settings[FILE_WATCH_MAX], const char *why);
