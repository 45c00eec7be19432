/* A queue of what is to be sent, through TLS. */
#pragma once

#include "proto/tls/tls.h"
#include "rdzv/net/outq.h"

/* As outq_send(), but some more than `max` may go: a record is not cut. What lies one behind the
 * other in the queue is one record; a large value is not copied. */
int tls_send_queue(SSL *ssl, struct outq *q, struct out_pool *pool, size_t max);
