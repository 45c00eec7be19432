/* What all connections share: the loop, the engine below, memory, and the lists of those to whom
 * something has to happen before the iteration ends. transport.h has the functions. */
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>

#include "rdzv/config/config.h"
#include "rdzv/engine/engine.h"
#include "rdzv/net/certificate.h"
#include "rdzv/net/iteration.h"
#include "rdzv/net/outq.h"
#include "rdzv/net/sockets.h"

struct conn;
struct handshake;
struct listener;
struct monitor;
struct protocol;

TAILQ_HEAD(conn_list, conn);
TAILQ_HEAD(listener_list, listener);
TAILQ_HEAD(handshake_list, handshake);

/* How TLS begins, see handshake.h. */
struct handshakes {
    struct certificate certificate; /* without a context, rdzvd does not speak TLS */
    const struct config_tls *config;
    struct handshake_list open; /* the oldest first */
    size_t count;
    uint64_t done, resumed, failed; /* of `done`, `resumed` continued an earlier session */
};

#define NET_PROBATION_MAX 8

struct net {
    struct event_base *base;
    struct engine *engine;
    const struct config_limits *limits;
    /* Protocols in the order in which they see a connection's first bytes; NULL ends each list. */
    const struct protocol *const *protocols;
    const struct protocol *const *http_protocols; /* where HTTP alone is spoken */

    struct handshakes handshakes;
    const struct cidr_list *allowed; /* who may connect; empty: anybody */
    struct listener_list listeners;
    uint64_t overflows_ended;  /* see listen_queue(): of temporary ones that are closed */
    struct event retry_accept; /* after descriptors ran out */
    bool retry_needed;         /* and that event could not be had; see listen_tick() */

    struct sockets sockets;    /* of the connections of all listeners */
    struct conn_list conns;    /* all that are not closed */
    struct conn_list closed;   /* are freed at the end of the iteration */
    struct conn_list stalled;  /* owe the rest of a request, or do not read; the longest first */
    uint64_t stalled_until_ms; /* connections that have stalled since then or longer are dropped; 0:
                                  none */
    struct conn_list queued;   /* have answers to send */
    struct conn_list notified; /* have notices to send, behind the answers of all */
    struct conn_list bulk;     /* have much to send, behind all others */
    uint64_t committed;        /* the engine's last commit at the latest check of `uncommitted` */
    struct conn_list uncommitted; /* have output that shows an uncommitted change */
    /* They go on in a later iteration, first come first served: */
    struct conn_list deferred; /* have used up their budget, or found the iteration's used up */
    struct conn_list slow;     /* their next request is slow */
    struct conn_list unread;   /* TLS has bytes of theirs that the kernel does not know of */
    size_t deferred_count;     /* of both */
    struct conn_list held;     /* relayed: wait until the journal takes changes again */
    const struct conn *slice_owner; /* runs its slice now, and stood in `slow` before */
    const struct conn *measured;    /* runs a slow request now */
    const struct conn *served;      /* its HTTP request is executed now; NULL: none */
    struct budget budget;
    unsigned cut_off; /* number of consecutive iterations without time to read all */
    struct latency latency;
    struct monitor *monitor; /* of requests; see admin/monitor.h. NULL: there is none */
    size_t conn_count;
    uint64_t descriptors_max; /* the limit of open files */
    /* Open ones that may only ask for a probe; the oldest first. */
    struct conn *probation[NET_PROBATION_MAX];
    size_t probation_count;
    bool draining; /* the daemon stops: no new connections, and the open ones end */

    struct out_pool pool;
    uint8_t *recv_buf; /* idle connections receive here; bytes stay only within a callback */
    uint8_t *scratch;  /* net_scratch() */
    size_t scratch_cap;
};

#define NET_RECV_SIZE    (64u * 1024)
#define NET_SCRATCH_KEPT (64u * 1024)

/* `limits`, `engine`, `base` and the protocols outlive the net. */
void net_init(struct net *n, struct event_base *base, struct engine *engine,
              const struct config_limits *limits);

/* All connections are freed, all listeners closed. */
void net_fini(struct net *n);

/* For callbacks of libevent: budget_spend(), and after the time limit libevent calls no more
 * callbacks in this iteration; the next iteration calls them, in the same order. */
static inline void net_spend(struct net *n, uint64_t ns)
{
    latency_note(&n->latency);
    budget_spend(&n->budget, ns);
    if (n->budget.over)
        event_base_loopbreak(n->base);
}

/* At least `len` bytes to work in, until the next call of this or the end of the iteration. NULL
 * when memory is short. */
uint8_t *net_scratch(struct net *n, size_t len);

/* The memory to work in goes. */
void net_drop_scratch(struct net *n);

/* Closes a descriptor (-1: there is none). Returns -1, with that errno. */
int net_fail(int fd, int error);

/* event_add(), checked: it fails for want of memory, or of the kernel's epoll watches. False, with
 * errno, after it logged why: the caller ends what needs the event, or tries again later. */
bool net_add_event(struct event *event, const struct timeval *timeout);

/* Returns false, with errno, after it logged why the kernel does not watch a descriptor. */
bool net_note_unwatched(void);

/* The same for a timer, which goes off after so many microseconds. */
bool net_set_timer(struct event *timer, uint64_t us);
