/* HTTP/2 below the gRPC client: bytes to calls and back, by libnghttp2. No socket and no clock:
 * what fuzzes it hands it bytes. */
#pragma once

#include <event2/event_struct.h>

#include "rdzv/etcd3/grpc.h"

struct nghttp2_session;

struct grpc {
    struct grpc_options options;
    enum grpc_state { GRPC_DOWN, GRPC_LOOKS_UP, GRPC_CONNECTS, GRPC_UP } state;
    size_t target;                                /* the endpoint */
    union resolve_address addresses[RESOLVE_MAX]; /* its */
    size_t address_count, at;
    size_t tried;                 /* number of its tried addresses since it became the target */
    union resolve_address failed; /* the address that failed last */
    struct resolve *resolve;
    int fd;                          /* -1: none */
    SSL *ssl;                        /* NULL: plain text, or not yet */
    char why[TLS_WHY_MAX + 200];     /* of a fault of TLS */
    struct event event;              /* of the socket */
    uint64_t next_ms;                /* the time of the next try, or of giving up */
    unsigned failures;               /* in a row */
    const char *broken;              /* why the next tick must leave it; NULL: it is fine */
    struct nghttp2_session *session; /* NULL: none */
    struct slice out;                /* the session's bytes, still to be sent */
    struct grpc_calls calls, ended; /* under way; and ended ones that wait for their notification */
    char where[300];
    char reason[GRPC_TEXT_MAX + 300];
    char failed_endpoint[300];  /* whose it was: the next try may be another endpoint's */
    uint64_t unreached;         /* a bit for each of the first 64 endpoints whose last try failed */
    char token[GRPC_TOKEN_MAX]; /* empty: none */
};

bool grpc_session_begin(struct grpc *g);
void grpc_session_end(struct grpc *g);

/* Reads received bytes. False: no HTTP/2, or memory is short. Calls that end go to g->ended. */
bool grpc_session_input(struct grpc *g, const uint8_t *bytes, size_t len);
/* The next bytes to be sent, good until the session is used again; none: out->len is 0. */
bool grpc_session_output(struct grpc *g, struct slice *out);

/* False: no further call can begin. The server has said that it goes away, or all numbers of
 * streams are used up. */
bool grpc_session_takes_calls(const struct grpc *g);

/* A stream for a call; a call without its stream. */
bool grpc_session_submit(struct grpc *g, struct grpc_call *call, const char *path);
void grpc_session_forget(struct grpc *g, struct grpc_call *call);

/* Sets answer->message to the message of a successful call; if the message is incomplete, the
 * answer becomes unclear. */
void grpc_message(const struct grpc_call *call, struct grpc_answer *answer);

/* For grpc_session.c's users: tells, and forgets the call before. */
void grpc_end_call(struct grpc_call *call);
