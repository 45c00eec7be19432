/* A client of gRPC: unary calls to one of several endpoints, over HTTP/2, with or without TLS. One
 * connection at a time; if it fails, stays silent for a call's deadline, or must close, the next
 * address of the endpoint's name follows, and then the next endpoint. The client itself sends no
 * call twice: it notifies the caller, who may make the call again. No thread; names are looked up
 * beside the loop. */
#pragma once

#include <event2/event.h>

#include "proto/queue.h"
#include "rdzv/engine/clock.h"
#include "rdzv/etcd3/entry.h"
#include "rdzv/net/certificate.h"
#include "rdzv/net/resolve.h"

/* The longest message that an answer may be, and the longest text of a status. */
#define GRPC_ANSWER_MAX ((size_t)16 << 20)
#define GRPC_TEXT_MAX   280u
#define GRPC_TOKEN_MAX  1024u

/* A call's end without a status: etcd may have executed the call, may not, or may do so later. */
#define GRPC_UNCLEAR (-1)

struct grpc_call;
struct grpc;

struct grpc_answer {
    int code;             /* gRPC's: 0 is success; or GRPC_UNCLEAR */
    const char *text;     /* what is said about it */
    struct slice message; /* of a success */
};

/* One call. The caller's memory, all zeros before the first use. */
struct grpc_call {
    LIST_ENTRY(grpc_call) entry;
    struct grpc *grpc; /* NULL: it is not under way */
    void (*tell)(void *arg, const struct grpc_answer *answer);
    void *arg;
    struct slice request; /* framed, see message.h; the part that must still be sent */
    struct stream in;
    uint64_t until_ms;
    int32_t stream;
    int code; /* GRPC_UNCLEAR: no status has come */
    char text[GRPC_TEXT_MAX];
};

LIST_HEAD(grpc_calls, grpc_call);

struct grpc_options {
    struct event_base *base;
    const struct upstream_spec *endpoints; /* one at least; they outlive it */
    size_t endpoint_count;
    size_t first; /* which one is asked first */
    const struct clock *clock;
    const struct certificate *tls; /* that asks for "h2"; its context NULL: plain text */
    /* up: the connection takes calls. Not up: the connection is lost, with all its calls. Never
     * called from within grpc_start(). */
    void (*link)(void *arg, bool up);
    void *arg;
};

/* NULL: memory is short. Begins to connect. */
struct grpc *grpc_new(const struct grpc_options *options);

/* No call is notified any more. Takes NULL. */
void grpc_free(struct grpc *g);

/* A message is sent with so many bytes before it, which are the caller's room. */
#define GRPC_FRAME 5u

/* Starts a call, which is not under way: `path` is a literal, `request` (frame and message) stays
 * until tell() is called, once and never from within. False: no connection takes calls now, or
 * memory is short. */
bool grpc_start(struct grpc *g, struct grpc_call *call, const char *path, struct slice request,
                uint64_t patience_ms);

static inline bool grpc_is_under_way(const struct grpc_call *call)
{
    return call->grpc != NULL;
}

/* It ends untold. */
void grpc_cancel(struct grpc_call *call);

/* Goes with each call from now on; NULL: none does. */
void grpc_set_token(struct grpc *g, const char *token);

/* The connection is of no use: with the next grpc_tick() its calls end, unclear, and the next
 * endpoint follows. `why` is a part of a sentence, and a constant. */
void grpc_leave(struct grpc *g, const char *why);

/* Some times a second: deadlines, and the next try. */
void grpc_tick(struct grpc *g);

struct grpc_status {
    const char *where;           /* which endpoint it is, or was */
    const char *reason;          /* why there is no connection; "": there is one */
    const char *failed_endpoint; /* and to which endpoint */
    unsigned unreached; /* to how many of the first 64 endpoints the last try led to none */
};

struct grpc_status grpc_status(const struct grpc *g);
