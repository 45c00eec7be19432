/* What the parts of the journal on etcd share. Each part is one file, and only that file writes its
 * part of struct journal_etcd; a file calls those above it in this list, and never those below:
 *
 *     connection.c      calls to etcd, the login, and what is wrong
 *     lead.c            the lease, and with it the leader's key
 *     follow.c          what was read of the log
 *     snapshot_out.c    the leader's snapshots
 *     commit.c          the leader's commits
 *     journal_etcd.c the engine's table of functions, and the order in which the parts run */
#pragma once

#include <event2/event_struct.h>

#include "rdzv/engine/pending.h"
#include "rdzv/engine/recovery.h"
#include "rdzv/etcd3/entry.h"
#include "rdzv/etcd3/etcd_hints.h"
#include "rdzv/etcd3/grpc.h"
#include "rdzv/etcd3/journal_etcd.h"
#include "rdzv/etcd3/message.h"

#define KEY_MAX    400u
#define WHO_MAX    400u
#define REASON_MAX 800u

/* How long one try may take; a lost one may still be carried out. */
#define TRY_MS JOURNAL_ETCD_TRY_MS

/* How long an election, or a lost member of etcd, may take before that is worth a word. */
#define PATIENCE_MS 5000u

/* The pause after an unclear answer; after a clear refusal; and after an answer without news. */
#define BUSY_MS  100u
#define AGAIN_MS 1000u
#define LOOK_MS  250u

/* What an entry carries at most; less when etcd takes less. */
#define ENTRY_MAX ((size_t)1 << 20)
#define ENTRY_MIN ((size_t)4 << 10)

enum journal_state {
    JOURNAL_FOLLOWS,    /* reads the log, and waits until nobody leads */
    JOURNAL_LOADS,      /* reads a snapshot */
    JOURNAL_ASKS,       /* for a lease */
    JOURNAL_STANDS,     /* for election: puts itself into the leader's key */
    JOURNAL_CATCHES_UP, /* has won, and reads the rest of the log */
    JOURNAL_BEGINS,     /* commits that its epoch begins */
    JOURNAL_LEADS,
    JOURNAL_ENDED, /* nothing more comes of it */
};

/* The end of a call. `answer` is etcd's answer; NULL: the call has failed, with the reason in `a`.
 * Never called after the journal's end. */
typedef void journal_tell(struct journal_etcd *j, const struct grpc_answer *a, const void *answer);

/* A call to etcd with its message. */
struct journal_call {
    struct grpc_call call;
    struct message request;
    struct journal_etcd *journal;
    const struct etcd_method *method;
    journal_tell *tell;
};

/* connection.c: the connection. */
struct journal_connection {
    struct grpc *grpc;
    struct certificate tls;
    bool up; /* it takes our calls: logged in, if we have to */
    bool logs_in;
    unsigned unclear;  /* answers in a row that say so little that another member may say more */
    uint64_t login_ms; /* not before that */
    struct journal_call login;
};

/* connection.c: what is wrong. */
struct journal_fault {
    char failure[ETCD_REASON_MAX]; /* of the last call that failed; empty: it did not */
    char hint[ETCD_HINT_MAX];      /* what to do about it; empty: nothing is known */
    struct etcd_reasons reasons;   /* that the log has had */
    char reason[REASON_MAX];       /* see engine_refuse(); empty: changes are taken */
    size_t entry_max;              /* what etcd takes */
};

/* lead.c */
struct journal_lease {
    int64_t id;        /* 0: none */
    int64_t epoch;     /* 0: the leader's key is not ours */
    uint64_t sent_ms;  /* when the beat that is under way was sent, by lease_now_ms() */
    uint64_t valid_ms; /* up to then nobody else leads */
    uint64_t beat_ms;  /* when the next one is due */
    struct journal_call beat;
    bool gives_back, given_back; /* see journal_etcd_finish() */
};

/* follow.c: what was read, and committed. */
struct journal_log {
    struct recovery recovery;
    struct stream stream;            /* of batches that have not ended */
    struct log_head at;              /* the last entry */
    uint32_t chain;                  /* its checksum */
    uint64_t batch;                  /* the last one that was applied; as a leader, committed */
    struct snapshot_pointer pointer; /* the newest snapshot; at.index 0: none */
    uint32_t chunk, chunks_checksum; /* of the snapshot that is being loaded: the next one */
    uint64_t chunk_bytes;
    char leader[WHO_MAX]; /* the present leader, if known; empty: none */
    uint64_t
        restart_ms;    /* the time of a restart, because the log is unreadable; 0: it is readable */
    bool is_outdated;  /* a newer rdzvd writes the log, and this one's log says so */
    uint32_t entries;  /* so many are read with the next look */
    uint64_t whole_ms; /* lease_now_ms() when this replica last had all of etcd's log; 0:
                          never yet */
    int64_t whole_wall_ms;    /* the same, by the wall clock */
    uint64_t batch_seen_ms;   /* when the last batch came, by lease_now_ms(); 0: it may have been
                                 written long before */
    unsigned clock_off_looks; /* in a row, with batches of another time; see note_batches() */
};

/* snapshot_out.c */
struct snapshot_out {
    struct snapshot *snapshot; /* NULL: none is being written */
    struct batch part;
    struct stream stream;
    struct snapshot_pointer pointer;
    bool written;      /* the whole snapshot is in the stream, or was sent */
    bool bound;        /* pointer.at is known */
    uint64_t replaces; /* bytes of the log up to there */
    uint64_t before;   /* the last entry of the snapshot before this one; 0: there was none */
    enum snapshot_step { SNAPSHOT_CHUNKS, SNAPSHOT_POINTS, SNAPSHOT_REMOVES } step;
    size_t sent;      /* bytes of the chunk that is under way */
    unsigned refused; /* that step, so many times */
    bool lost;        /* a copy of that chunk may have been taken: it is sent as it is */
    uint64_t again_ms;
    uint64_t after_ms; /* none is begun before that */
    uint32_t begun;    /* how many were, for their names */
    uint64_t began_ns;
    struct journal_call call;
};

/* How long a leader waits for more changes before it sends the next transaction.
 *
 * If the leader sends a transaction as soon as the previous one is answered, it lacks the next
 * changes of all clients that have just received their answers. Each of these clients then waits
 * for two transactions: the one under way when its request arrives, and its own. So the next
 * transaction waits until as many changes have arrived as the last one had, but at most as long as
 * the last one took. If fewer changes come, the following transactions do not wait. */
struct coalesce {
    uint64_t taken;    /* changes so far */
    uint64_t sent;     /* how many of these are in transactions, */
    uint64_t last;     /* and in the last one */
    uint64_t wanted;   /* the next one waits until so many were taken; 0: it does not wait */
    uint64_t until_ns; /* nor beyond that */
    unsigned resting;  /* so many transactions wait for none */
};

/* commit.c */
struct journal_commit {
    struct pending_list pending;
    struct pending *spare;
    size_t cut; /* of the stream of `pending`: committed already */
    struct coalesce coalesce;
    struct event coalesced; /* the end of a wait for more */

    /* The entry that is being committed. */
    bool open;            /* there is one */
    unsigned tries, lost; /* sent; and of these, without an outcome */
    bool refused;         /* etcd has refused this transaction for now */
    uint64_t began_ms, began_ns;
    uint64_t again_ms; /* not before that */
    uint32_t chain;    /* its checksum */
    size_t bytes;      /* of the stream */
    uint64_t batch;    /* the last one that ends in it; 0: none does */
    struct journal_call call;
};

struct journal_etcd {
    struct journal_etcd_options options;
    struct engine *engine;
    void (*pump)(struct journal_etcd *j); /* all that can be sent is sent; journal_etcd.c's */
    struct event timer;
    enum journal_state state; /* journal_enter() writes it */

    /* The one thing that a replica asks at a time, in all states but JOURNAL_LEADS. */
    struct journal_call step;
    uint64_t step_ms; /* not before that */

    char prefix[KEY_MAX / 2];
    char leader_key[KEY_MAX], head_key[KEY_MAX], pointer_key[KEY_MAX];
    char who[WHO_MAX]; /* what this replica puts into the leader's key */

    struct journal_connection connection;
    struct journal_fault fault;
    struct journal_lease lease;
    struct journal_log log;
    struct snapshot_out out;
    struct journal_commit commit;
    struct journal_etcd_stats stats;
};

static inline uint64_t journal_now_ms(const struct journal_etcd *j)
{
    return engine_now_ms(j->engine);
}

/* --- connection.c --- */

void journal_enter(struct journal_etcd *j, enum journal_state next);

/* A clock that goes on while the machine sleeps. */
uint64_t lease_now_ms(void);

/* Begins to connect, first to an endpoint that the number chooses. -1: the log says why not. */
int connection_open(struct journal_etcd *j, uint64_t random);
void connection_close(struct journal_etcd *j);

/* Some times a second: deadlines, and why there is no connection. */
void connection_tick(struct journal_etcd *j);

/* True if a connection accepts calls. Otherwise it logs in, if etcd requires that. */
bool connection_is_up(struct journal_etcd *j);

/* Sends call->request, unless it is under way. */
void journal_send(struct journal_etcd *j, struct journal_call *call,
                  const struct etcd_method *method, journal_tell *tell, uint64_t patience_ms);

/* Notes the failure of a call for the connection and the log. True if etcd's answer says that it
 * has not carried out the call. */
bool journal_note_failure(struct journal_etcd *j, const struct grpc_answer *a);
void journal_note_success(struct journal_etcd *j);

/* An answer says something, whatever fails beside it. */
void journal_note_clear(struct journal_etcd *j);

/* And how long the next try waits: no pause after a lost connection, since the next one is another
 * member's. */
static inline uint64_t journal_pause_ms(const struct grpc_answer *a, bool is_clear)
{
    return is_clear ? AGAIN_MS : a->code == GRPC_UNCLEAR ? 0 : BUSY_MS;
}

/* True: the call was not carried out, and says so itself. */
bool journal_is_refusal(const struct grpc_answer *a);

/* etcd takes less than the `bytes` that were sent: true, and fault.entry_max is less. */
bool journal_shrink(struct journal_etcd *j, const struct grpc_answer *a, size_t bytes);

/* This replica cannot use the log in etcd; `why` is shown to people. */
void journal_note_unusable(struct journal_etcd *j, const char *why);

/* Calls engine_refuse(), and says so in the log. */
void journal_note_reason(struct journal_etcd *j);

/* This replica's state is outdated: the daemon must restart. The caller logs the reason. */
void journal_end(struct journal_etcd *j);
#define JOURNAL_RESTART "rdzvd drops its state, ends all connections, and restarts"

/* --- lead.c --- */

void lead_pump(struct journal_etcd *j);
void lead_give_back(struct journal_etcd *j);

/* Reads the leader's key in the answer to a refused transaction: false: another replica leads, or
 * none, and this journal has ended. */
bool lead_is_ours(struct journal_etcd *j, const Etcd3__KeyValue *leader);

/* --- follow.c --- */

/* The key of an entry of the log, or of a chunk. */
struct slice journal_log_key(const struct journal_etcd *j, uint64_t index, char text[KEY_MAX]);
struct slice journal_chunk_key(const struct journal_etcd *j, const char *id, uint32_t chunk,
                               char text[KEY_MAX]);

void follow_begin(struct journal_etcd *j);
void follow_pump(struct journal_etcd *j);

/* The log has one more entry of `size` bytes; `batch` is the last batch that ends in it. */
void follow_note_entry(struct journal_etcd *j, uint64_t epoch, uint32_t chain, uint64_t batch,
                       size_t bytes);

/* Another snapshot is there; NULL: none. */
void follow_note_snapshot(struct journal_etcd *j, const struct snapshot_pointer *pointer);

/* This replica leads, and has read the whole log. */
void follow_note_leading(struct journal_etcd *j);

/* --- snapshot_out.c --- */

bool snapshot_out_work(void *arg);
void snapshot_out_pump(struct journal_etcd *j);
void snapshot_out_drop(struct journal_etcd *j);

/* No entry goes beyond that batch, while a snapshot of it waits to know its entry; UINT64_MAX. */
uint64_t snapshot_out_limit(const struct journal_etcd *j);

/* An entry was committed; j->log.at and j->log.batch say which. */
void snapshot_out_note(struct journal_etcd *j);

/* --- commit.c --- */

void commit_begin(struct journal_etcd *j);
void commit_end(struct journal_etcd *j);
uint64_t commit_take(void *arg, struct batch *batch);
void commit_pump(struct journal_etcd *j);

/* Declared for tests. coalesce_take(): so many changes came. coalesce_send(): a transaction is
 * sent, with all or some of the waiting changes; in the latter case the next one need not wait.
 * coalesce_answer(): etcd's answer came after that time. */
void coalesce_take(struct coalesce *c, uint64_t changes);
void coalesce_send(struct coalesce *c, bool all);
void coalesce_answer(struct coalesce *c, uint64_t took_ns, uint64_t now_ns);

/* The next one is not sent yet: until c->until_ns at most. */
bool coalesce_waits(struct coalesce *c, uint64_t now_ns);
