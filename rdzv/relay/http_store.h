/* The connections of a relay to its store that carry HTTP. One carries one request at a time; when
 * its answer is over, it is kept for the next request of anybody, since each request says all of
 * what it is about. Each opens with what http_entry.h says. */
#pragma once

#include "rdzv/relay/http_relay.h"

/* What came of the bytes that were shown. */
enum store_taken {
    STORE_TAKES_MORE, /* *used are done with; the others are shown again, with what comes */
    STORE_TAKES_NEXT, /* the answer is over: the connection is free */
    STORE_TAKES_NONE, /* the same, and it is of no use any more */
    STORE_IS_LEFT,    /* the user has called store_conn_drop() already */
};

/* Who uses a connection: the first member of a request that is passed on. */
struct store_user {
    const struct store_user_calls *calls;
    struct store_conn *conn; /* NULL: it has none; set and cleared here */
};

struct store_user_calls {
    void (*ready)(struct store_user *u);    /* a dialed connection is open */
    void (*writable)(struct store_user *u); /* after store_conn_send() took less than all */
    bool (*has_room)(struct store_user *u); /* false: nothing is received just now */
    enum store_taken (*receive)(struct store_user *u, struct slice in, size_t *used);
    /* The connection has gone; `conn` is NULL already. */
    void (*lost)(struct store_user *u, const char *why);
    /* True: that would do no harm. */
    bool (*may_lose)(const struct store_user *u);
};

enum store_got {
    STORE_GOT_NONE,   /* no store is known, or there are no means: try again later */
    STORE_GOT_DIALED, /* calls->ready() or lost() follows */
    STORE_GOT_OPEN,   /* a request may be sent at once */
};

/* What a connection says to the store of all whose requests it brings. */
struct store_clients {
    bool over_tls; /* they speak TLS with us */
};

/* For a request of such a client. */
enum store_got store_conn_get(struct relay_http *h, struct store_user *u,
                              struct store_clients clients);

/* Sends what the socket takes of two pieces. False: the connection is lost (lost() is not called,
 * `conn` is NULL). */
bool store_conn_send(struct store_user *u, struct slice first, struct slice second, size_t *sent);

/* calls->writable() follows. */
void store_conn_wait_writable(struct store_user *u);

/* No more requests: the store answers what it has, and closes. */
void store_conn_send_end(struct store_user *u);

/* The user has room again. */
void store_conn_unpause(struct store_user *u);

/* The user goes, and with it the connection. Nothing when it has none. */
void store_conn_drop(struct store_user *u);

/* Looks after connections that are being dialed; for a timer. True: there are some. */
bool store_conn_tick(struct relay_http *h);

/* Frees those that nobody uses. */
void store_conn_drop_idle(struct relay_http *h);

/* Those whose users may lose them are lost. */
void store_conn_lose_all(struct relay_http *h);
