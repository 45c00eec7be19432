/* A queue of what is to be sent, through TLS. See tls_queue.h for the contract. */
#include "rdzv/net/tls_queue.h"

#include <errno.h>

int tls_send_queue(SSL *ssl, struct outq *q, struct out_pool *pool, size_t max)
{
    uint8_t room[TLS_RECORD_MAX];
    size_t sent = 0;

    while (q->bytes > 0 && sent < max) {
        struct slice front = outq_front(q, room, sizeof room);
        ssize_t n = tls_send(ssl, front.ptr, front.len);

        if (n < 0)
            return -errno;
        outq_sent(q, pool, (size_t)n);
        sent += (size_t)n;
    }
    return 0;
}
