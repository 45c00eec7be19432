/* The daemon as a whole: listeners, signals, timers, and the turn of the loop. Everything that
 * happens in a turn is read, applied and queued by callbacks; what has an order, waking,
 * committing, answering and closing, happens at the end of it (end_turn() in server.c). */
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>

#include "rdzv/config/config.h"
#include "rdzv/engine/stats.h"
#include "rdzv/net/outq.h"
#include "rdzv/rendezvous/run.h"

struct conn;
struct listener;
struct elastic_run;

TAILQ_HEAD(listener_list, listener);
TAILQ_HEAD(conn_list, conn);
STAILQ_HEAD(dirty_list, conn);

/* What is known of the agents and workers in a space; see elastic.h. */
TAILQ_HEAD(elastic_run_list, elastic_run);

/* How many connections use a worker store. */
struct worker_sessions {
    TAILQ_ENTRY(worker_sessions) entry;
    uint64_t id;
    uint32_t count;
};

TAILQ_HEAD(worker_sessions_list, worker_sessions);

struct elastic_space {
    struct worker_sessions_list sessions;
    struct elastic_run_list runs; /* those that agents speak of, and those that the store knows */
    struct elastic_run *shared;   /* whose workers use the agents' port; NULL: nobody's */
};

/* A space as the server sees it: who is connected to it, and when it was left. */
struct server_space {
    TAILQ_ENTRY(server_space) entry;
    struct space *space;
    struct runs runs;
    uint64_t c10d_conns;
    struct event linger; /* armed while nobody is connected */
    struct elastic_space elastic;
    struct server *server;
};

TAILQ_HEAD(server_space_list, server_space);

struct server {
    const struct config *config;
    struct event_base *base;
    struct store store;
    struct server_space_list spaces;
    struct listener_list listeners;

    struct conn_list conns;  /* all that are open */
    struct conn_list closed; /* are freed at the end of the turn */
    struct conn_list late;   /* owe the rest of a request, or do not read; the longest first */
    struct dirty_list dirty; /* have output that this turn has queued */
    struct conn_list again;  /* have used up their share of the last turn, and go on in this one */
    size_t conn_count;

    struct event sigterm, sigint;
    struct event tick;         /* once a second: log, deadlines of half requests, idle exit */
    struct event expiry;       /* the next TTL */
    int64_t expiry_armed_ns;   /* the TTL that it is set for; 0: none */
    struct event drain;        /* the end of patience after SIGTERM */
    struct event retry_accept; /* after descriptors ran out */
    bool draining;
    bool stop;
    bool served;            /* has had a connection; --exit-when-idle waits for one */
    uint64_t alive_ms;      /* the end of the last turn; what is later is a time we did not live */
    uint64_t idle_since_ms; /* no connection since then; 0: there is one */

    uint64_t member_id, cluster_id; /* as etcd derives them */
    int64_t started_ns;             /* since 1970 */
    struct stats stats;

    struct out_pool pool;
    uint8_t *recv_buf; /* where idle connections receive; bytes stay there only within a callback */
    uint8_t *scratch;  /* server_scratch() */
    size_t scratch_cap;
};

#define SERVER_RECV_SIZE (64u * 1024)

/* A listening socket as connections know it. Lives as long as the server, or when it is a run's own
 * as long as it is open or has connections, which point to it. */
struct listener {
    TAILQ_ENTRY(listener) entry;
    struct event event;
    struct server *server;
    const struct listen_spec *spec;
    struct space *space;
    bool open;
    struct elastic_run
        *run;     /* whose workers alone come here; NULL: no run's, or one that is gone */
    bool is_runs; /* see elastic_workers.c */
    size_t conns; /* of those alone */
};

/* The clocks: of the wall, which TTLs and logs use, and of intervals. */
int64_t server_now_ns(void);
uint64_t server_now_ms(void);

/* Opens the listeners and says so in the log. 0, or -1 after it logged why not. */
int server_init(struct server *s, const struct config *config);

/* Runs until SIGTERM or SIGINT (drained) or until idle. Returns the exit code. */
int server_run(struct server *s);
void server_fini(struct server *s);

/* Applies a command and collects nobody yet: whoever woke is served at the end of the turn. */
void server_apply(struct server *s, struct space *space, const struct command *command,
                  struct store_result *out);

/* At least `len` bytes to work in, until the next call of this. NULL when memory is short. */
uint8_t *server_scratch(struct server *s, size_t len);

/* For conn.c: who came to speak c10d in a space, and left. */
struct server_space *server_space_of(struct server *s, const struct space *space);
void server_c10d_came(struct server *s, struct space *space);
void server_c10d_left(struct server *s, struct space *space);
