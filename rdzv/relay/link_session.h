/* What a store keeps of links, and of the sessions of relays' clients: connections whose bytes go
 * in the frames of a link. Internal to link.c, which has the links, to link_session.c, which has
 * the sessions, and to link_output.c, which sends their answers. */
#pragma once

#include "proto/relay.h"
#include "rdzv/c10d/session.h"
#include "rdzv/http/session.h"
#include "rdzv/relay/hello.h"
#include "store/memory/table.h"

/* A relay that lives tries to get another link at once, then after 50 ms, doubling to a second and
 * never later than 1.25 s (upstream_retry_ms()): at least six times within this time, which also
 * lets the copy of a lost SYN arrive. */
#define RELAY_RETURN_MS 3000u

/* Number of dropped sessions whose records are kept until their relays know. */
#define RELAY_DROPPED_MAX 1024u

/* Sessions of one link: as many as one address can open to one port. */
#define RELAY_CLIENTS_MAX 65536u

/* A replica without the lead lets a relay wait this long, if asked to: it may lead soon. */
#define RELAY_STANDBY_MS 2000u

/* The text that such a relay gets. */
#define RELAY_LEADER_MAX 160

struct relay_link;
struct relay_session;

TAILQ_HEAD(relay_link_list, relay_link);
TAILQ_HEAD(relay_session_list, relay_session);

struct relay_links {
    const struct config *config;
    struct engine *engine;
    struct net *net;
    const struct protocol *c10d;
    struct http http[2]; /* of HTTP that comes through relays; [1]: of clients that speak TLS */
    struct protocol http_protocols[2]; /* over these */
    char store_name[CONN_VIA_MAX];
    size_t clients_max;           /* sessions of one link: RELAY_CLIENTS_MAX */
    struct hello_journal journal; /* that replicas share; its name is empty: there are none */

    bool stands_by;                       /* this replica does not lead yet */
    char stands_by_why[RELAY_LEADER_MAX]; /* and the leader, if known */
    struct relay_link_list waiting;       /* for that; their relays have said HELLO */

    struct table sessions;              /* by id and space */
    struct relay_session_list detached; /* the longest first */
    struct relay_session_list awaited;  /* of those: their relay has closed the link, and may yet be
                                           back within RELAY_RETURN_MS */
    struct relay_session_list dropped;  /* those are no connections any more: link_session.h */
    size_t dropped_count;
    bool gives_up;               /* more awaited sessions are due */
    struct relay_link_list lost; /* have sessions that are not detached yet */
    uint64_t cut_off_ms; /* engine_lived_ms() when this replica was last cut off: until then no
                          * relay could come back */
    uint64_t started_ms; /* engine_lived_ms() of relay_links_start(): --session-timeout of sessions
                            that only the engine knows begins */
    bool sweeps;         /* there may be some */
    struct blob *kept;   /* the last request that a link has kept; NULL: none */
    struct {
        struct engine_space *space; /* NULL: the first */
        uint64_t session;           /* 0: the first */
    } sweep;                        /* where the search for them goes on */
    bool stopping;                  /* sessions stay in the engine, for the next start */
};

/* Looks for sessions that only the engine knows, from the first on. */
static inline void relay_links_restart_sweep(struct relay_links *all)
{
    all->sweeps = true;
    all->sweep.space = NULL;
    all->sweep.session = 0;
}

struct relay_link {
    struct conn_backend clients;   /* of its sessions' connections: also of detached sessions, until
                                      another link opens them. The name and the label are the relay's;
                                      via NULL: it has not said HELLO yet */
    struct conn *conn;             /* NULL: it is lost */
    TAILQ_ENTRY(relay_link) entry; /* in all->waiting while it waits; in all->lost */
    struct relay_links *all;
    struct engine_space *space; /* NULL: the relay has not said HELLO yet */
    uint64_t number;            /* of this link among the relay's: see struct RelayOpen */
    struct table channels;      /* of struct relay_session */
    struct relay_session_list sessions;
    struct relay_session_list blocked; /* have something to send, and the link is full */
    struct relay_session *last;        /* the session that the last frame was for; NULL: none */
    struct blob *kept;                 /* of RELAY_SAME; NULL: none. Links may share it */
    uint64_t since_ms; /* it waits, or has been lost, since then: engine_lived_ms() */
    uint32_t refs;     /* by its sessions' connections; 1 more until it has left all->lost */
    bool waits;
    bool peer_left;               /* the relay's side has closed it */
    bool shares;                  /* its relay wants RELAY_READS */
    struct restart_node *restart; /* of a relay with --exit-on-restart; NULL: of none */
};

static inline const char *relay_link_name(const struct relay_link *link)
{
    return (const char *)link->clients.via->bytes;
}

/* Queued bytes, and the request that they answer. */
struct link_answer {
    uint64_t number;
    size_t bytes;
};

/* Where a session is. Only relay_session_enter() writes it. */
enum relay_session_state {
    RELAYED_NONE,     /* it is being made, or freed */
    RELAYED_OPENING,  /* in a link; the relay must hear that it is open */
    RELAYED_OPEN,     /* in a link, and the relay has heard so */
    RELAYED_CLOSING,  /* in a link; the relay has said CLOSE, and hears nothing more */
    RELAYED_DETACHED, /* without a link: in all->detached */
    RELAYED_AWAITED,  /* the same; its relay has closed the link: also in all->awaited */
    RELAYED_DROPPED,  /* without its connection: in all->dropped */
};

/* What the engine has of it. Only set_record() of link_session.c writes it. */
enum relay_session_record {
    RECORD_NONE,
    RECORD_KEPT,
    RECORD_RESTORED, /* from before the start */
    RECORD_MISSING,  /* from before the start, and nothing has come of the session yet */
};

/* A session, and the connection of its client. */
struct relay_session {
    struct table_near by_id;
    uint64_t id;                  /* of by_id: another space may have the same */
    struct table_near by_channel; /* while it is in a link */
    uint32_t channel;
    struct peer local;    /* the address by which the client has reached the relay */
    uint8_t state;        /* enum relay_session_state */
    uint8_t record;       /* enum relay_session_record */
    uint32_t ahead;       /* so many requests have been received that are not executed */
    uint8_t opened_flags; /* of RELAY_OPENED, whose number is `notified`, while RELAYED_OPENING */
    bool is_in_link : 1;  /* in link->sessions */
    bool is_partial : 1;  /* the rest of a request comes in the next frame */
    bool is_blocked : 1;  /* in link->blocked: it sends when it is the first there */
    bool sent_reads : 1;  /* the relay has got RELAY_READS on this link, or wants none */
    bool has_stopped : 1; /* `waits` has been answered, and was the last request */
    bool has_done : 1;    /* more requests may have been answered: done_of() in link_output.c */
    bool keeps_conn : 1;  /* until conn_free() is done with `conn` */
    TAILQ_ENTRY(relay_session) entry; /* in link->sessions or all->detached */
    /* In link->blocked; without a link in all->awaited; or in all->dropped. */
    TAILQ_ENTRY(relay_session) waiting;
    union {
        uint64_t detached_ms; /* without a link: since then; engine_lived_ms() */
        uint64_t notified;    /* in a link: the relay knows that requests up to it are answered */
    };

    /* Requests, by their numbers. The store has executed those up to `executed`. The relay has sent
     * all up to `executed + ahead` since it opened the session. */
    uint64_t executed;
    uint64_t changed;              /* the last one that changed anything; 0: none */
    uint64_t waits;                /* a WAIT or BARRIER that is open, or has_stopped; 0: none */
    struct link_answer answers[2]; /* what is queued */

    struct conn conn; /* the last member: it has only CONN_RELAYED_SIZE bytes */
};

/* The link that has opened the session, or had. */
static inline struct relay_link *relay_session_link(const struct relay_session *s)
{
    return (void *)((uintptr_t)s->conn.backend - offsetof(struct relay_link, clients));
}

static inline struct relay_session *relay_session_of(const struct conn *c)
{
    return (void *)((uintptr_t)c - offsetof(struct relay_session, conn));
}

/* The store may drop a session by itself, for example because memory is short. Perhaps its last
 * request has just changed a key, and RELAY_ENDED is lost with the link: then the relay would send
 * this request again, to a store that has forgotten the session. So the engine keeps the session's
 * record until the relay has answered by RELAY_CLOSE, or has been away for --session-timeout; if
 * the relay opens the session again before that, it receives the recorded answer. Meanwhile the
 * relay_session stays without a connection in all->dropped, and in its link while the link lives.
 * If the run of an agent was forgotten, the record ends at once, so that the agent cannot return.
 * Beyond RELAY_DROPPED_MAX records, the oldest one ends, too. */
static inline bool relay_session_was_dropped(const struct relay_session *s)
{
    return s->state == RELAYED_DROPPED;
}

/* True until its link is lost: frames of it come and go. */
static inline bool relay_session_has_link(const struct relay_session *s)
{
    return s->is_in_link && relay_session_link(s)->conn != NULL;
}

/* What conn_backend has for all of them. */
extern const struct backend_functions relay_session_functions;

void relay_session_enter(struct relay_session *s, enum relay_session_state next);

/* Frees everything of it except its record. */
void relay_session_free(struct relay_session *s);

/* Once a second. */
void relay_dropped_tick(struct relay_links *all, uint64_t now_ms);

/* A relay opens a session: its id, version and channel are fine. If the store has no room for the
 * session, the relay hears so. */
void relay_session_open(struct relay_link *link, uint32_t channel, const Rdzv__RelayOpen *open);

/* A part of a request. NULL, or why a relay would not send that: the link is to be dropped. */
const char *relay_session_feed(struct relay_session *s, const struct relay_frame *frame,
                               uint8_t *payload);

/* The client has left. The store still carries out the client's earlier requests. */
void relay_session_close(struct relay_session *s);

/* Detaches the session, because its link is lost or another link has opened it. */
void relay_session_detach(struct relay_session *s);

/* Its relay has not come back: its client is taken for dead. */
void relay_session_give_up(struct relay_session *s);

/* It has been detached for too long. */
void relay_session_time_out(struct relay_session *s);

/* NULL: none with that id is here. */
struct relay_session *relay_session_of_id(const struct relay_links *all,
                                          const struct engine_space *space, uint64_t id);

/* Drops a reference; with the last one, the link is freed. */
void relay_link_unref(struct relay_link *link);

/* Queues a frame of a link without regard to commits; the payload is copied. */
void relay_link_put(struct relay_link *link, const struct relay_frame *frame);

/* The same in the session's channel. */
void relay_session_put(struct relay_session *s, enum relay_kind kind, uint8_t flags,
                       uint64_t number, struct slice payload);

/* If the link has room, the session that waits longest for it has its turn. */
void relay_link_continue(struct relay_link *link);

/* The session has nothing more to send: the next one has its turn. */
void relay_session_end_turn(struct relay_session *s);

/* Sends queued answers, and says which requests have been answered. */
int relay_session_send(struct conn *c, size_t max);

/* The bytes that have been queued since relay_session_note_answers() answer the last request. */
size_t relay_session_unnoted_bytes(const struct relay_session *s);
void relay_session_note_answers(struct relay_session *s);
void relay_session_forget_answers(struct relay_session *s);

#define RELAY_LINK_QUEUE_MAX (256u << 10)
