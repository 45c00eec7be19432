/* What the daemon counts about itself: plain numbers, which /metrics reads. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "proto/c10d.h"
#include "proto/http.h"

/* A histogram of durations whose bounds double: for what happens far less often than requests. */
#define DURATIONS_BOUNDS 14

struct durations {
    uint64_t counts[DURATIONS_BOUNDS + 1]; /* the i-th: up to first_ns << i; the last: longer */
    uint64_t sum_ns;
};

/* `times` durations, each so long; `first_ns` is the smallest bound of this histogram. */
static inline void durations_add(struct durations *d, uint64_t first_ns, uint64_t took_ns,
                                 uint64_t times)
{
    int at = 0;

    while (at < DURATIONS_BOUNDS && took_ns > first_ns << at)
        at++;
    d->counts[at] += times;
    d->sum_ns += took_ns * times;
}

/* Adds counters to others, each to its own: of structs whose members are uint64_t. */
static inline void counters_add(void *sum, const void *more, size_t size)
{
    for (size_t i = 0; i < size / sizeof(uint64_t); i++)
        ((uint64_t *)sum)[i] += ((const uint64_t *)more)[i];
}

/* Why the daemon ends a connection. */
enum drop_reason {
    DROP_MALFORMED,  /* malformed bytes, or a request that is not allowed now */
    DROP_LIMIT,      /* more than a setting allows */
    DROP_STALLED,    /* half a request, or answers that the peer does not read */
    DROP_SPACE_FULL, /* --space-limit */
    DROP_READ_ONLY,  /* the journal takes no changes */
    DROP_NO_MEMORY,
    DROP_RUN,      /* an agent whose run was forgotten, or continues without it */
    DROP_UPSTREAM, /* of a relay: its store has ended or forgotten the session */
    DROP_REASONS,
};

/* Why it turns a connection or a request away. */
enum refusal_reason {
    REFUSAL_CONNECTIONS, /* --connection-limit */
    REFUSAL_DESCRIPTORS, /* the last ones are kept for probes */
    REFUSAL_MEMORY,
    REFUSAL_HOST,      /* a Host header that is not welcome */
    REFUSAL_OPERATOR,  /* a change that only an operator may make */
    REFUSAL_READER,    /* a request for what only a reader may see */
    REFUSAL_TOKEN,     /* a wrong token of an operator or a reader */
    REFUSAL_BACKOFF,   /* a token too soon after wrong ones */
    REFUSAL_RELAY,     /* a relay, which this listener does not accept */
    REFUSAL_ADDRESS,   /* --allow */
    REFUSAL_PLAINTEXT, /* --plaintext */
    REFUSAL_TLS,       /* a failed handshake, or TLS without a certificate */
    REFUSAL_REASONS,
};

#define ITERATION_BOUNDS 8 /* see net/iteration.h */

#define STATS_ROUTES   32  /* see http/session.h: more than any table of routes has */
#define STATS_STATUSES 600 /* of HTTP */

/* The smallest bounds of the histograms below. */
#define REQUEST_FIRST_NS  32000u
#define SYNC_FIRST_NS     1000000u   /* as etcd's */
#define RECOVERY_FIRST_NS 500000000u /* and of rounds */

/* Of elastic jobs: what a step of their policy does; see rendezvous/. */
struct policy_counters {
    uint64_t writes_merged;    /* compare-and-sets of agents, see rendezvous/ */
    uint64_t rounds_completed; /* of all runs */
    uint64_t runs_closed;
    uint64_t runs_failed;        /* of them */
    uint64_t runs_stopped;       /* of them: by a rule */
    uint64_t runs_repaired;      /* lines `repaired` in the log */
    uint64_t nodes_disconnected; /* agents that left while their run was open */
    uint64_t nodes_silent;       /* nodes that were taken out, since nothing came of them */
    uint64_t restarts_asked;     /* rounds whose nodes rdzvd made meet again */
};

static inline void policy_counters_add(struct policy_counters *sum,
                                       const struct policy_counters *more)
{
    counters_add(sum, more, sizeof *sum);
}

struct stats {
    uint64_t accepted;
    uint64_t refused[REFUSAL_REASONS];
    uint64_t closed;
    uint64_t dropped[DROP_REASONS]; /* of those: ended by the daemon, by reason */
    uint64_t c10d_requests[C10D_OP_COUNT];
    uint64_t http_requests;
    uint64_t http_operations[STATS_ROUTES][HTTP_METHODS]; /* of them, those that found a route */
    uint64_t http_replies[STATS_STATUSES];                /* by status */
    uint64_t loop_iterations;
    uint64_t iterations[ITERATION_BOUNDS + 1]; /* that took so long */
    uint64_t iterations_ns;                    /* all of them */
    uint64_t longest_iteration_ns;
    struct durations c10d_durations, http_durations; /* of some requests: see net/iteration.h */
    uint64_t relay_links;                            /* now */
    uint64_t sessions_attached;                      /* of relays' clients, now */
    uint64_t sessions_detached;                      /* the same, without their relay */
    uint64_t sessions_resumed;
    uint64_t sessions_timed_out;
    struct policy_counters jobs;
    struct durations rounds;     /* from the start of a round until it is complete */
    struct durations recoveries; /* from the loss of a node until a round is complete again */
};

static inline uint64_t stats_c10d_requests(const struct stats *s)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < C10D_OP_COUNT; i++)
        sum += s->c10d_requests[i];
    return sum;
}
