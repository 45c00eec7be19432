/* Server-sent events: a stream has many clients, each of them an endless reply. An event is
 * rendered once for all clients. */
#pragma once

#include "rdzv/http/session.h"

/* --- Events. --- */

/* An event of one line of data; NULL: there is no memory. It is counted as ACCOUNT_WATCHES. */
struct blob *event_make(const char *name, struct slice data);

/* The same with the text of `body`, which it frees. NULL: incomplete text, or memory is short. */
struct blob *event_make_of_body(const char *name, struct reply_body *body);

/* How many bytes of it stand before the data. */
size_t event_head_len(const char *name);

/* --- Streams. --- */

struct event_stream;
struct event_client;

/* What the owner of a stream does. */
struct event_stream_calls {
    void (*tick)(struct event_stream *s);        /* the timer has gone off: sends events */
    uint64_t (*wait_ms)(struct event_stream *s); /* from now until the next tick */
    void (*idle)(struct event_stream *s);        /* the last client has left; may free the stream */
    void (*drained)(struct event_client *client); /* it has read everything; NULL: do nothing */
};

TAILQ_HEAD(event_client_list, event_client);

struct event_stream {
    const struct event_stream_calls *calls;
    struct net *net;
    struct event_client_list clients; /* one may leave when it is sent something */
    size_t client_count;
    struct event timer;
    bool is_at_work; /* a client that leaves now does not make the stream idle */
};

struct event_client {
    struct http_job job; /* the first member */
    TAILQ_ENTRY(event_client) entry;
    struct event_stream *stream;
    struct conn *conn;
    bool chunked;
    /* For the stream's owner: */
    bool has_text;   /* it has been sent a text of the status */
    bool is_behind;  /* it lacks the newest text, since it did not read */
    uint64_t missed; /* requests that the monitor left out, since it did not read */
};

void event_stream_init(struct event_stream *s, struct net *net,
                       const struct event_stream_calls *calls);

/* Begins to wait for the next tick. False: there is no memory for the timer. */
bool event_stream_arm(struct event_stream *s);

/* A client to be, which a request joins a stream with; NULL: there is no memory. */
struct event_client *event_client_new(void);
void event_client_free(struct event_client *client);

/* The reply to the request ends when its client leaves. Takes `client`. */
void event_stream_join(struct event_stream *s, struct event_client *client,
                       const struct http_request *r);

/* True: the client has not read earlier events. */
static inline bool event_client_is_blocked(const struct event_client *client)
{
    return client->conn->output == OUTPUT_BLOCKED;
}

/* Queues an event; nothing if the client's stream has ended. */
void event_client_send(struct event_client *client, struct blob *event);

/* Ends all replies and connections: without a timer no event would come. */
void event_stream_end_replies(struct event_stream *s);
