/* The bytes of a connection that speaks TLS. See conn_tls.h for the contract. */
#include "rdzv/net/conn_tls.h"

#include "rdzv/net/tls_queue.h"

/* Nanoseconds, see budget.h: of a call, and of what it decrypts. */
#define RECORD_COST 1000u
#define BYTES_A_NS  2u

ssize_t conn_recv_tls(struct conn *c, void *bytes, size_t len)
{
    ssize_t n = tls_recv(c->tls, bytes, len);

    budget_spend(&conn_net(c)->budget, RECORD_COST + (n > 0 ? (size_t)n / BYTES_A_NS : 0));
    if (n > 0 && tls_has_pending(c->tls))
        event_active(&c->event, EV_READ, 1);
    return n;
}

int conn_send_tls(struct conn *c, size_t max)
{
    return tls_send_queue(c->tls, &c->out, &conn_net(c)->pool, max);
}

void conn_end_tls(struct conn *c)
{
    tls_end(c->tls);
}
