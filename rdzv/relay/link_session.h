/* A session of a relay's client: a connection whose bytes go in the frames of a link. Internal to
 * link.c and link_session.c. */
#pragma once

#include "proto/relay.h"
#include "rdzv/relay/links.h"

struct relay_link {
    struct carrier carrier; /* of its own connection: looks in when that has sent something */
    struct conn *conn;      /* NULL: it is lost, and in all->lost */
    TAILQ_ENTRY(relay_link) entry;
    struct relay_links *all;
    struct engine_space *space; /* NULL: the relay has not said HELLO yet */
    struct table channels;      /* of struct relay_session */
    struct relay_session_list sessions;
    struct relay_session_list blocked; /* have something to send, and the link is full */
    struct relay_session *last;        /* the session that the last frame was for; NULL: none */
    TAILQ_ENTRY(relay_link) waiting;   /* in all->waiting while it waits */
    bool waits;
    uint64_t waits_since_ms; /* engine_lived_ms() */
    char name[CONN_VIA_MAX];
    uint64_t lost_ms; /* engine_lived_ms() */
    bool peer_left;   /* the relay's side has closed it */
};

/* Bytes that are queued, and the request that they answer. */
struct link_answer {
    uint64_t number;
    size_t bytes;
};

struct relay_session {
    struct carrier carrier; /* the first member */
    struct table_node by_id;
    struct table_node by_channel; /* while it is attached */
    uint8_t id_key[16];           /* the id, and the space */
    uint8_t channel_key[4];
    TAILQ_ENTRY(relay_session) entry;   /* in link->sessions or all->detached */
    TAILQ_ENTRY(relay_session) waiting; /* in link->blocked while is_blocked */
    TAILQ_ENTRY(relay_session) holds;   /* in all->held while is_held */
    TAILQ_ENTRY(relay_session) returns; /* in all->awaited while is_awaited; in all->dropped */
    struct relay_links *all;
    struct relay_link *link; /* NULL: it is detached */
    struct engine_space *space;
    struct conn *conn;    /* NULL: it was dropped */
    struct peer local;    /* where the client came to */
    uint64_t detached_ms; /* since then; engine_lived_ms() */
    uint64_t id;
    uint64_t link_number; /* of the last link that has opened it; see struct RelayOpen */
    uint32_t channel;
    char via[CONN_VIA_MAX]; /* the relay's name */

    /* Requests, by their numbers. Since it was opened, the relay has sent all of `received`, of
     * which `carried` is the last that has been carried out. */
    uint64_t received;
    uint64_t carried;
    uint64_t changed; /* the last one that changed anything; 0: none */
    uint64_t done;    /* that and all before it have no answer left to come */
    uint64_t told;    /* so much of that the relay has been told */
    uint64_t waits;   /* a WAIT or BARRIER that is open; 0: none */
    uint64_t stopped; /* one that has been answered, and was the last request; 0: none */
    struct link_answer answers[2]; /* what is queued */
    size_t noted;                  /* bytes of it, all together */
    uint64_t opened_number;        /* of RELAY_OPENED, while is_opening */
    uint8_t opened_flags;

    bool is_partial; /* the rest of a request comes in the next frame */
    bool is_fresh;   /* no request has come since it was opened */
    bool is_opening; /* the relay is to be told that it is open */
    bool is_known;   /* to the engine */
    bool has_memo;   /* from before the start */
    bool is_missing; /* from before the start, and nothing has come of it yet */
    bool is_blocked; /* in link->blocked */
    bool is_held;    /* in all->held */
    bool is_awaited; /* in all->awaited */
    bool has_turn;   /* it was the first there */
    bool has_ended;  /* the relay has said so, and needs not be told */
    bool is_due;     /* its record is to end, as soon as the journal takes that */
};

/* A session that the store drops by itself, say for want of memory, has perhaps just changed
 * something, and its relay may lose RELAY_ENDED with the link: it would send that request again,
 * and to a store that knew nothing of the session. So the engine keeps its record until the relay
 * has answered by RELAY_CLOSE, or has been away for --session-timeout; if the relay opens the
 * session again before, it goes on with what it was answered. Meanwhile relay_session is here
 * without its connection, in all->dropped, and while its link lives in that. Of an agent whose run
 * was forgotten the record ends at once, so that it cannot come back. Beyond RELAY_DROPPED_MAX,
 * that of the first one ends, too. */
static inline bool relay_session_was_dropped(const struct relay_session *s)
{
    return s->conn == NULL;
}

/* True until its link is lost: frames of it come and go. */
static inline bool relay_session_has_link(const struct relay_session *s)
{
    return s->link != NULL && s->link->conn != NULL;
}

/* Its connection has been closed: it was dropped, or it ends with its record. */
void relay_session_end(struct relay_session *s);

/* One that was dropped ends; `and_record`: with what the engine has of it. Its link is lost. */
void relay_session_bury(struct relay_session *s, bool and_record);
void relay_session_detach_dropped(struct relay_session *s);

/* Once a second; at the end of all links. */
void relay_dropped_tick(struct relay_links *all, uint64_t now_ms);
void relay_dropped_fini(struct relay_links *all);

/* For detached.c: it is in its link no more; it is no more at all, but for its record. */
void relay_session_leave_channel(struct relay_session *s);
void relay_session_free(struct relay_session *s);

/* A relay opens a session. `open` is checked. False: there is no room for it, and the relay has
 * been told. */
struct relay_opening {
    uint64_t id;
    enum c10d_version version;
    struct peer peer, local;
    uint64_t link; /* its number among those of the relay; 0: the relay does not say */
    bool resumes, pings;
};
void relay_session_open(struct relay_link *link, uint32_t channel, const struct relay_opening *o);

/* NULL: the link has none of that channel. */
struct relay_session *relay_session_find(struct relay_link *link, uint32_t channel);

/* A part of a request. NULL, or why a relay would not send that: the link is to be dropped. */
const char *relay_session_feed(struct relay_session *s, const struct relay_frame *frame,
                               uint8_t *payload);

/* The client has left. What it has asked for before is still carried out. */
void relay_session_close(struct relay_session *s);

/* Its link is lost, or another one has it now. */
void relay_session_detach(struct relay_session *s);

/* What waited for the journal is shown to it again. */
void relay_session_release(struct relay_session *s);

/* Its relay has not come back: its client is taken for dead. */
void relay_session_give_up(struct relay_session *s);

/* It has been detached for too long. */
void relay_session_time_out(struct relay_session *s);

/* True when one with that id is here. */
bool relay_session_is_here(const struct relay_links *all, const struct engine_space *space,
                           uint64_t id);

/* The connection of the link ends. Its sessions have no link from now on, and are detached, if they
 * are many, by relay_lost_detach(); when all are, the link is freed. */
void relay_link_lose(struct relay_link *link);
void relay_lost_detach(struct relay_links *all);

/* All sessions are gone. */
void relay_lost_fini(struct relay_links *all);

/* Queues a frame of a link without regard to commits; the payload is copied. */
void relay_link_put(struct relay_link *link, const struct relay_frame *frame);

/* If the link has room, the session that waits longest for it has its turn. */
void relay_link_go_on(struct relay_link *link);

#define RELAY_LINK_QUEUE_MAX (256u << 10)
