/* What a client is made of: its queue of requests, its connection, its clock. For client.c, link.c
 * and blocking.c. */
#pragma once

#include "client/address.h"
#include "client/lookup.h"
#include "client/request.h"
#include "client/secure.h"

enum link_state {
    LINK_DOWN,
    LINK_LOOKING_UP,
    LINK_CONNECTING,
    LINK_SECURING, /* the handshake of TLS is under way */
    LINK_GREETING, /* VALIDATE and PING are under way */
    LINK_UP,
};

/* The connection: bytes in both directions, and what answers. */
struct link {
    enum link_state state;
    int epoll; /* has timer, and fd or the lookup's */
    int fd;    /* the socket; -1: none */
    bool wants_out;
    SSL *ssl;               /* NULL: plain text, or not yet */
    struct secure_out *out; /* with `ssl` */
    struct lookup *lookup;
    int lookup_fd;
    struct addrinfo *list, *next; /* addresses, and the one to try when this fails */
    size_t hello_sent;
    uint8_t *in;
    size_t in_len, in_cap, in_need;
};

struct rdzv_client {
    struct link link;
    char *name; /* the address as it was given */
    struct rdzv_address address;
    struct secure secure;
    char tls_text[SECURE_PEER_MAX];
    char *prefix;
    int64_t timeout_ms;
    struct c10d_reply_limits limits;
    int timer;
    int64_t timer_ms;            /* when it goes off; INT64_MAX: never */
    struct request_list queue;   /* in the order of their answers */
    struct request_list ended;   /* whose callbacks are to be called */
    struct rdzv_request *unsent; /* the first in the queue that has more to send; NULL: none */
    bool has_news;               /* a request has ended since the last rdzv_client_process() */
    struct rdzv_request *last;   /* of the calls that block */
    const char *last_message;
};

int64_t client_now_ms(void);

/* The connection is lost, or there is none to be had: ends all requests, with `sent` those that may
 * have been carried out, with `unsent` the others. The next request connects anew. */
void client_lost(struct rdzv_client *c, enum rdzv_status sent, enum rdzv_status unsent,
                 const char *why);

/* Takes the answers at the start of what has come, sends what may be sent. */
void client_take_answers(struct rdzv_client *c);
void client_send(struct rdzv_client *c);

/* Begins to connect. Failures are told by client_lost(). */
void link_start(struct rdzv_client *c);
/* Something happened to the connection: `events` are those of epoll. */
void link_on_socket(struct rdzv_client *c, unsigned events);
void link_on_lookup(struct rdzv_client *c);
/* Wants to be told when more can be sent, or no longer. */
void link_want_out(struct rdzv_client *c, bool on);
/* As sendmsg(); and TLS has bytes that were taken, and that the socket has not. */
ssize_t link_send(struct rdzv_client *c, struct iovec *pieces, size_t count);
bool link_owes(const struct link *l);
/* Closes it, whatever its state. */
void link_close(struct rdzv_client *c);
