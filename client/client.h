/* What a client is made of: its queue of requests, its connection, and its clock. For client.c,
 * link.c and blocking.c. */
#pragma once

#include "client/request.h"
#include "client/secure.h"
#include "proto/lookup.h"

enum link_state {
    LINK_DOWN,
    LINK_LOOKING_UP,
    LINK_CONNECTING,
    LINK_SECURING, /* the handshake of TLS is under way */
    LINK_HELLO,    /* VALIDATE and PING are under way */
    LINK_UP,
};

struct link;

/* What the owner of a connection is notified of. */
struct link_calls {
    /* The connection was lost, or connecting failed. The owner closes the link. It ends requests
     * with `sent` if the store may have carried them out, else with `unsent`. */
    void (*lost)(struct link *l, enum rdzv_status sent, enum rdzv_status unsent, const char *why);
    void (*arrived)(struct link *l);  /* `in` has as many bytes as the link needs */
    void (*can_send)(struct link *l); /* the store has greeted, or takes more */
};

/* The connection: bytes in both directions, and what answers. */
struct link {
    const struct link_calls *calls;
    struct address address;
    struct secure secure;
    char tls_text[SECURE_PEER_MAX];
    struct c10d_reply_limits limits;
    enum link_state state;
    int epoll; /* has the client's timer, and fd or the lookup's */
    int fd;    /* the socket; -1: none */
    bool wants_out;
    SSL *ssl;               /* NULL: plain text, or not yet */
    struct secure_out *out; /* with `ssl` */
    struct lookup *lookup;
    int lookup_fd;
    struct addrinfo *list, *next; /* addresses of the store, and the next one to try */
    size_t hello_sent;
    uint8_t *in;
    size_t in_len, in_cap, in_need;
};

/* Begins to connect. */
void link_start(struct link *l);
/* Something happened to the connection: `events` are those of epoll. */
void link_on_socket(struct link *l, unsigned events);
void link_on_lookup(struct link *l);
/* Asks for a notice when the socket takes more, or no longer. */
void link_want_out(struct link *l, bool on);
/* As sendmsg(); and whether TLS has bytes that the socket has not taken. */
ssize_t link_send(struct link *l, struct iovec *pieces, size_t count);
bool link_owes(const struct link *l);
/* Closes it, whatever its state. */
void link_close(struct link *l);

struct rdzv_client {
    struct link link; /* the first member */
    char *name;       /* the address as it was given */
    char *prefix;
    int64_t timeout_ms;
    int timer;
    int64_t timer_ms;            /* when it goes off; INT64_MAX: never */
    struct request_list queue;   /* in the order of their answers */
    struct request_list ended;   /* whose callbacks must be called */
    struct rdzv_request *unsent; /* the first queued request with unsent bytes; NULL: none */
    bool has_news;               /* a request has ended since the last rdzv_client_process() */
    struct rdzv_request *last;   /* of the calls that block */
    const char *last_message;
};
