/* The clients' sessions on the relay's side: which requests the store has not confirmed, which
 * answers have partly arrived, and which frames the next link must repeat. It turns requests into
 * frames and frames into answers; sockets are the matter of client.h and upstream.h. */
#pragma once

#include "proto/c10d.h"
#include "proto/queue.h"
#include "proto/relay.h"
#include "proto/relay.pb-c.h"
#include "rdzv/engine/stats.h"
#include "rdzv/net/outq.h"
#include "rdzv/net/peer.h"
#include "store/memory/blob.h"
#include "store/memory/table.h"

/* The most bytes of all clients' requests that may be kept: beyond it, clients that already keep
 * some wait before their next large request is taken. */
#define RELAY_KEPT_MAX (64u << 20)

/* What the sessions need of those who hold the clients' connections. */
struct relay_calls {
    /* The next bytes for the client; a long answer begins with a queue, which is emptied. */
    void (*answer)(void *client, struct slice bytes);
    void (*answer_queue)(void *client, struct outq *bytes);
    /* A request that was RELAY_HELD may be tried again. */
    void (*go_on)(void *client);
    /* The session has ended: so has the client to go. */
    void (*end)(void *client, enum drop_reason why, const char *reason);
};

/* A request that the store has not confirmed yet. The relay keeps the client's bytes, in the pieces
 * that go upstream, so that it can send them again. */
struct relay_request {
    TAILQ_ENTRY(relay_request) entry; /* in its session's, in their order */
    uint64_t number;
    uint64_t since_ns; /* when it came, by relay->now_ns */
    size_t size;       /* bytes of the request */
    size_t filled;     /* of those: are here */
    size_t value_at;   /* COMPARE_SET: where the desired value begins */
    size_t value_len;
    uint32_t piece_count;
    uint32_t sent;   /* pieces that the present link was given */
    uint8_t op;      /* enum c10d_op */
    bool has_answer; /* the store answers it */
    bool wanted;     /* and the client gets the answer */
    bool changes;    /* true: executing it certainly changes something */
    bool repeatable; /* true: executing it twice has the same outcome */
    bool was_sent;   /* a link was given the last piece of it */
    bool reads;      /* it only reads, and the answer comes at once */
    bool polls;      /* it may be RELAY_POLL_HOLD_NS late */
    bool given_up;   /* a WAIT that its client has given up, while the link has only a part of it */
    struct blob *pieces[];
};

TAILQ_HEAD(relay_request_list, relay_request);

/* True for requests that may be answered much later: they are no burden until then. */
static inline bool relay_request_waits(const struct relay_request *q)
{
    return q->op == C10D_WAIT || q->op == C10D_BARRIER;
}

/* How far a session is on the present link. */
enum relay_client_state {
    SESSION_AWAY,   /* the link does not know of it */
    SESSION_ASKING, /* OPEN has been sent; the reply decides which requests are repeated */
    SESSION_OPEN,
};

TAILQ_HEAD(relay_client_list, relay_client);

struct relay_client {
    TAILQ_ENTRY(relay_client) entry; /* in relay->sessions */
    TAILQ_ENTRY(relay_client) sends; /* in relay->sending while `queued`, or in leader->followers */
    TAILQ_ENTRY(relay_client) helds; /* in relay->held, if held == HELD_BY_ALL */
    struct table_node node;          /* in relay->channels, except in SESSION_AWAY */
    struct relay *relay;
    void *client; /* NULL: gone; CLOSE follows when all requests are confirmed */
    struct relay_request_list requests;
    size_t silent, silent_bytes;   /* of these: requests without an answer */
    struct relay_request *filling; /* the last request, while its bytes are being copied */
    struct relay_request *asked;   /* the last one whose answer the client waits for */
    struct relay_request *open;    /* the last one with an answer that this link was given */
    struct relay_client *leader;   /* its answer to `open` is this session's, too; NULL: none */
    struct relay_client_list followers; /* of this leader */
    struct outq answer;                 /* that is not whole yet; broken: memory was short */
    uint64_t answer_number;             /* of its request */
    uint64_t id;
    uint64_t last;     /* the number that was given last */
    uint64_t reads;    /* number of RELAY_READS on this link; 0: none has come */
    uint64_t check_ns; /* its last CHECK came, by relay->now_ns; 0: there was none */
    uint64_t alone_ns; /* and the last that the link was given */
    uint64_t changed;  /* the last request that has changed something, as a store has confirmed */
    uint32_t channel;
    struct peer peer, local;
    uint8_t version; /* enum c10d_version */
    uint8_t state;   /* enum relay_client_state */
    uint8_t held;    /* enum relay_hold */
    bool queued;
    bool pings;    /* the client has sent PING, as torch 2.5 and later do */
    bool opened;   /* some store has heard of it */
    bool has_sent; /* this link was given a request, or a part of one */
    bool recorded; /* the store keeps a record of what it has changed */
};

enum relay_hold {
    HELD_NOT,
    HELD_BY_ITSELF, /* an answer of its own is missing, or its window is full */
    HELD_BY_ALL,    /* RELAY_KEPT_MAX */
};

/* Why clients were ended because of their store. */
enum relay_loss {
    LOST_ENDED,     /* it has ended the session */
    LOST_UNKNOWN,   /* it does not know it, and should */
    LOST_GONE_BACK, /* the store knows fewer changes of the session than it has confirmed */
    LOSSES,
};

const char *relay_loss_name(enum relay_loss loss);

struct relay_stats {
    uint64_t confirmed;    /* requests, but those that may wait */
    uint64_t confirmed_ns; /* the sum of their times from arrival to confirmation */
    uint64_t shared;       /* reads that got the answer to another session's */
    uint64_t resumed;      /* requests that were sent again, on a new link */
    uint64_t lost[LOSSES]; /* sessions whose clients were ended */
    uint64_t links;        /* that were welcomed */
    uint64_t away_ns;      /* between them, but since the last one was lost; see relay_away_ns() */
};

/* Torch's ranks look each second whether one of them has failed. So a CHECK that follows the last
 * one of its session after RELAY_POLL_NS waits so long for those of other ranks, or until any other
 * request is sent. */
#define RELAY_POLL_NS      UINT64_C(500000000)
#define RELAY_POLL_HOLD_NS UINT64_C(10000000)

struct relay {
    const struct relay_calls *calls;
    struct out_pool *pool;
    struct relay_client_list sessions, sending, held;
    struct relay_client *leader; /* the last read of this relay_send() was its; NULL: none */
    struct blob *asked;          /* the last long piece of a request; NULL: none */
    struct blob *answered; /* what the present frame has brought of an answer; NULL: not copied */
    uint64_t due_ns;       /* `sending` goes out then, by now_ns; UINT64_MAX while it is empty */
    struct table channels;
    size_t session_count;
    size_t pending_count; /* requests of all sessions */
    size_t pending_bytes; /* of those that are not waited for */
    struct c10d_limits limits;
    uint64_t seed; /* of session ids */
    uint32_t last_channel;
    bool link;     /* there is one, and it was welcomed */
    bool keeps;    /* its store takes RELAY_SAME */
    bool is_kept;  /* and keeps `asked` for this link */
    bool welcomed; /* there was one at some time */
    uint64_t session_timeout_ms;
    uint64_t away_since_ns; /* the link was lost then */
    uint64_t now_ns;        /* the time of this iteration; the owner sets it */
    struct relay_stats stats;
};

/* `limits` hold until a store has said its own. */
void relay_init(struct relay *r, const struct relay_calls *calls, struct out_pool *pool,
                const struct c10d_limits *limits, uint64_t seed);

/* All clients have gone. */
void relay_fini(struct relay *r);

/* --- Clients. --- */

/* Begins a client's session; `local` is the address to which the client has connected. NULL when
 * memory is short. */
struct relay_client *relay_client_new(struct relay *r, enum c10d_version version,
                                      const struct peer *peer, const struct peer *local,
                                      void *client);

enum relay_taken {
    RELAY_TAKEN,     /* the request is done with, as far as the client's input goes */
    RELAY_TAKING,    /* show the same request again: it is long */
    RELAY_HELD,      /* it has to wait until `go_on` */
    RELAY_NO_MEMORY, /* the client has to go */
};

/* A whole request, but VALIDATE, PING and WATCH_KEY, that begins at `start` with `size` bytes. It
 * may be answered before this returns: CANCEL_WAIT. */
enum relay_taken relay_take(struct relay_client *s, const struct c10d_request *req,
                            const uint8_t *start, size_t size);

/* RELAY_TAKING: more of it. `*size` is that of the request. */
enum relay_taken relay_take_more(struct relay_client *s, const uint8_t *start, size_t *size);

/* PING is answered once a store was there, behind all that the client has sent before: true. False:
 * it is held. */
bool relay_may_pong(struct relay_client *s);

/* The client reads no more answers, but its requests still count: an open WAIT ends. */
void relay_stop_waiting(struct relay_client *s);

/* The client waits for an answer that comes by itself. */
static inline bool relay_is_asked(const struct relay_client *s)
{
    return s->asked != NULL && !relay_request_waits(s->asked);
}

/* The client has gone: its answers are dropped, a WAIT ends, and a BARRIER still counts unless
 * memory is short. The relay ends the session when the store has confirmed the rest; `s` may be
 * freed. */
void relay_leave(struct relay_client *s);

/* --- The link. --- */

/* Another link was welcomed. */
void relay_link_up(struct relay *r, const Rdzv__RelayWelcome *welcome);

/* It was lost. */
void relay_link_down(struct relay *r);

/* Adds frames to the link's queue until it has `max` bytes, or nothing is left to send. */
void relay_send(struct relay *r, struct outq *q, size_t max);

/* There is something to be put there. */
static inline bool relay_has_output(const struct relay *r)
{
    return r->link && r->due_ns <= r->now_ns && !TAILQ_EMPTY(&r->sending);
}

/* A frame of a session has come. NULL, or why the link has to end. */
const char *relay_receive(struct relay *r, const struct relay_frame *frame);

/* Once a second, and when memory is free: clients that waited for it try again. Sessions whose
 * clients have gone stay, however long the link is away: after a restart, the store waits for these
 * sessions. */
void relay_tick(struct relay *r);

/* The store has received everything. */
bool relay_is_done(const struct relay *r);

/* The age of the oldest request that a store should have confirmed by now; 0: there is none. A WAIT
 * or BARRIER counts until the present link was given it. The age counts from the arrival of the
 * request, or from the loss of the link that had carried it. */
uint64_t relay_lag_ns(const struct relay *r);

/* The total time without a link since the first link. */
uint64_t relay_away_ns(const struct relay *r);

/* --- What relay_frames.c, which has the link, needs of relay_sessions.c. --- */

/* The session has something to send now: it gets its turn. */
void relay_queue(struct relay_client *s);

/* Removes a request that needs no further frames, whether it succeeded or not. */
void relay_drop_request(struct relay_client *s, struct relay_request *q);

/* The session gets no answer of another one any more, or gives none. */
void relay_unfollow(struct relay_client *s);

/* The client may retry its held request, if there is room now. */
void relay_allow_sending(struct relay_client *s);

/* The client gives up a WAIT or BARRIER, and may send other requests. If the store may know of the
 * request, a frame behind it cancels it; a barrier counts it anyway. False: no memory for that
 * frame. */
bool relay_give_up(struct relay_client *s, struct relay_request *waits);

/* The link is lost, with every request that was partly sent: requests that were given up meanwhile
 * are dropped. */
void relay_take_back_given_up(struct relay_client *s);

/* The store has confirmed its requests, and knows none of the rest: number the rest without gaps in
 * this link. The first keeps its number, since the store may have it open under that number. */
void relay_close_gaps(struct relay_client *s);

/* A session without its client: says CLOSE, or is forgotten, when nothing is left to confirm. */
void relay_finish(struct relay_client *s);

void relay_forget(struct relay_client *s);

/* Ends the client and forgets its requests. Sends CLOSE, because the store may still have the
 * session, or may keep its record until the relay confirms the end. */
void relay_abandon(struct relay_client *s, enum drop_reason why, const char *reason);

/* The client gets CANCEL_WAIT's answer from the relay. */
void relay_answer_cancel(struct relay_client *s);

/* Drops an incomplete answer. */
void relay_drop_answer(struct relay_client *s);

/* The session has a frame for the link now. */
bool relay_can_send(const struct relay_client *s);

/* The next unsent request; NULL: none, or it must wait. */
struct relay_request *relay_next_request(const struct relay_client *s);
