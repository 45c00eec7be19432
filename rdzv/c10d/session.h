/* c10d on a connection: requests become commands and reads, and their results answers. What is done
 * for torch's agents beyond that comes in through a table of hooks, which rendezvous/ fills. */
#pragma once

#include "proto/c10d.h"
#include "rdzv/net/conn.h"

/* Whose c10d keys a session uses. */
enum c10d_role {
    C10D_UNBOUND, /* those of the space: the session has used no key yet, or has only read agents'
                     keys */
    C10D_RESUMED, /* those of the space; whether it is an agent, its keys will tell */
    C10D_PLAIN,   /* those of the space */
    C10D_AGENT,   /* the same, as torch's agents */
    C10D_WORKER,  /* those of a worker store */
};

/* A large request that has begun and needs more slices. */
enum c10d_busy {
    C10D_IDLE, /* there is none */
    C10D_LISTS,
    C10D_BATCH,  /* finds its keys, one after the other */
    C10D_COPIES, /* copies its value */
};

struct c10d_session {
    union {
        struct c10d_progress progress; /* C10D_IDLE: of the next request, which is not whole yet */
        uint64_t list_ticket;          /* C10D_LISTS: of the request that `busy` is about */
        struct c10d_job *job;          /* the other two: the same */
    } work;
    struct waiter *waiter;        /* an open WAIT or BARRIER; NULL: none */
    struct c10d_watches *watches; /* of legacy WATCH_KEY; NULL: none */
    union {
        void *agent;           /* C10D_AGENT: the hooks' own */
        uint64_t worker_store; /* C10D_WORKER: whose keys, by number */
    } bound;
    uint8_t version; /* enum c10d_version */
    uint8_t role;    /* enum c10d_role */
    uint8_t busy;    /* enum c10d_busy */
    bool pinged;     /* has sent PING: a client of torch 2.5 or later */
    uint32_t rank; /* of a worker, plus 1, as the first key tells that only its rank writes; 0: not
                      known */
    uint32_t pid;  /* of the client, as its PING says; 0: not known, as behind a relay */
    uint32_t dump_s; /* of a worker: when it last asked for TORCH_DUMP_KEY, by engine_now_ms() in
                        seconds; 0: never */
};

/* What a hook did with a request of an agent. */
enum c10d_verdict {
    C10D_PROCEED, /* executed like any other request */
    C10D_HELD,    /* it stays in the input, and is shown again after input_unpark() */
    C10D_LATER,   /* the same, with its next slice */
    C10D_ANSWERED /* all that there is to do; or the connection has ended */
};

/* Whether the client of a relayed session is connected. */
enum c10d_presence {
    C10D_HERE,
    C10D_AWAY, /* its backend has lost it for now */
    C10D_GONE, /* like C10D_AWAY, and probably for good: but it may return */
};

/* What rdzvd does for torch's agents. Without hooks (bind NULL) every key is plain. */
struct c10d_hooks {
    /* The first key that a session names: sets role and bound, or leaves C10D_PLAIN, which the
     * caller has set. After C10D_UNBOUND and C10D_RESUMED it is called again for the next one,
     * unless the session waits for a key by then. False: for the same one, with its next slice. */
    bool (*bind)(void *arg, struct conn *c, struct slice key, enum c10d_op op);
    /* A bound session ends. */
    void (*unbind)(void *arg, struct conn *c);
    /* A session that used that worker store before a start is here again: sets role and bound. */
    void (*rebind)(void *arg, struct conn *c, uint64_t worker_store);
    /* What c10d_set_presence() says of an agent's session. */
    void (*set_presence)(void *arg, struct conn *c, enum c10d_presence presence);
    /* What c10d_note_returned() says. */
    void (*returned)(void *arg, struct engine_space *space);
    /* Before any request of an agent. `key` is the first that it names; empty: none. */
    enum c10d_verdict (*on_request)(void *arg, struct conn *c, const struct c10d_request *req,
                                    struct slice key);
    void *arg;
};

struct c10d {
    const struct config *config;
    struct engine *engine;
    struct c10d_hooks hooks;
    struct c10d_limits limits;
    struct blob *popped; /* taken off a queue by the present request of a relayed session */
    uint64_t popped_of;
};

/* Config and engine outlive it. */
void c10d_init(struct c10d *c10d, const struct config *config, struct engine *engine,
               struct c10d_hooks hooks);

/* The table that connections get; `c10d` outlives it. */
struct protocol c10d_protocol(struct c10d *c10d);

static inline struct c10d_session *c10d_session(const struct conn *c)
{
    _Static_assert(sizeof(struct c10d_session) <= CONN_SESSION_SIZE, "it lies in the connection");
    return (struct c10d_session *)(void *)c->session.bytes;
}

static inline struct c10d *c10d_of(const struct conn *c)
{
    return c->protocol->arg;
}

/* A number of the keys that the session reads: sessions of one space with one number get the same
 * answer to the same read. 0: an agent, which is shown its own view, or not settled yet. */
static inline uint64_t c10d_reads(const struct conn *c)
{
    const struct c10d_session *s = c10d_session(c);

    return s->role == C10D_WORKER ? s->bound.worker_store + 1 : s->role == C10D_PLAIN;
}

/* For hooks: the answers of COMPARE_SET. */
void c10d_reply_bytes(struct conn *c, struct slice value);
void c10d_reply_blob(struct conn *c, struct blob *value);

/* For hooks: a command that failed ends the connection, since the protocol has no error answer. */
void c10d_reject(struct conn *c, enum store_status status, struct slice key);

/* An open WAIT or BARRIER; it waits no more. */
static inline bool c10d_waits(struct conn *c)
{
    return c10d_session(c)->waiter != NULL;
}
void c10d_drop_wait(struct conn *c);

/* --- Sessions that have a backend (net/backend.h): each of their requests counts once. --- */

/* Begins a session; `p` is the protocol of this c10d. `pinged`: a backend has answered a PING. */
void c10d_begin(const struct protocol *p, struct conn *c, enum c10d_version version, bool pinged);

/* A session from before a start; `worker_store`: see c10d_worker_store(). False: it is gone. */
bool c10d_restore(struct conn *c, uint64_t worker_store);

/* Ends an unfinished request in slices, and frees what it holds: it is carried out or dropped, or
 * its bytes come again. A WAIT that the session has already stays: c10d_drop_wait() ends that. */
void c10d_end_long(struct conn *c);

/* Notifies the run of an agent whether its relay is connected. False: it is no agent's session. */
bool c10d_set_presence(struct conn *c, enum c10d_presence presence);

/* All sessions of the space from before a restart that will return at all have returned. */
void c10d_note_returned(const struct protocol *p, struct engine_space *space);
