/* What the parts of the journal on etcd share: journal_etcd.c (the table, the connection, what is
 * wrong), follow.c (reading), lead.c (the lease), commit.c (writing) and snapshot_out.c. */
#pragma once

#include <event2/event_struct.h>

#include "rdzv/engine/pending.h"
#include "rdzv/engine/recovery.h"
#include "rdzv/etcd3/entry.h"
#include "rdzv/etcd3/gather.h"
#include "rdzv/etcd3/grpc.h"
#include "rdzv/etcd3/journal_etcd.h"
#include "rdzv/etcd3/message.h"
#include "rdzv/etcd3/trouble.h"

#define KEY_MAX    400u
#define WHO_MAX    400u
#define REASON_MAX 800u

/* How long one try may take; a lost one may still be carried out. */
#define TRY_MS  JOURNAL_ETCD_TRY_MS
#define BEAT_MS 800u

/* After an answer that says nothing; after a clear refusal; and when there is nothing new to read.
 */
#define BUSY_MS  100u
#define AGAIN_MS 1000u
#define LOOK_MS  250u

/* GRPC_ANSWER_MAX has room for so many entries of the log, however long. */
#define ENTRIES_LEAST 8u

/* What an entry carries at most; less when etcd takes less. */
#define ENTRY_MAX ((size_t)1 << 20)
#define ENTRY_MIN ((size_t)4 << 10)

enum journal_state {
    JOURNAL_FOLLOWS,    /* reads the log, and waits until nobody leads */
    JOURNAL_LOADS,      /* reads a snapshot */
    JOURNAL_ASKS,       /* for a lease */
    JOURNAL_STANDS,     /* for election: puts itself into the leader's key */
    JOURNAL_CATCHES_UP, /* has won, and reads what was committed before that */
    JOURNAL_BEGINS,     /* commits that its epoch begins */
    JOURNAL_LEADS,
    JOURNAL_ENDED, /* nothing more comes of it */
};

/* The entry that is being committed. */
struct commit {
    bool open;              /* there is one */
    struct message request; /* its transaction */
    unsigned tries, lost;   /* sent; and of these, without an outcome */
    bool refused;           /* etcd has said that it does not take it now */
    uint64_t began_ms, began_ns;
    uint64_t again_ms; /* not before that */
    uint32_t chain;    /* its checksum */
    size_t bytes;      /* of the stream */
    uint64_t batch;    /* the last one that ends in it; 0: none does */
    struct grpc_call call;
};

struct snapshot_out {
    struct snapshot *snapshot; /* NULL: none is being written */
    struct batch part;
    struct stream stream;
    struct snapshot_pointer pointer;
    bool written;      /* all of it is in the stream, or was sent */
    bool bound;        /* pointer.at is known */
    uint64_t replaces; /* bytes of the log up to there */
    uint64_t before;   /* the last entry of the snapshot before this one; 0: there was none */
    enum snapshot_step { SNAPSHOT_CHUNKS, SNAPSHOT_POINTS, SNAPSHOT_REMOVES } step;
    size_t sent;      /* bytes of the chunk that is under way */
    unsigned refused; /* that step, so many times */
    bool lost;        /* a copy of that chunk may have been taken: it is sent as it is */
    struct message request;
    uint64_t again_ms;
    uint64_t after_ms; /* none is begun before that */
    uint32_t begun;    /* how many were, for their names */
    uint64_t began_ns;
    struct grpc_call call;
};

struct journal_etcd {
    struct journal_etcd_options options;
    struct engine *engine;
    struct grpc *grpc;
    struct endpoints endpoints;
    struct certificate tls;
    struct event timer;
    enum journal_state state;

    char prefix[KEY_MAX / 2];
    char leader_key[KEY_MAX], head_key[KEY_MAX], pointer_key[KEY_MAX];
    char who[WHO_MAX]; /* what this replica puts into the leader's key */

    /* The connection. */
    bool up; /* it takes our calls: logged in, if we have to */
    bool logs_in;
    unsigned unclear;  /* answers in a row that say so little that another member may say more */
    uint64_t login_ms; /* not before that */
    struct grpc_call login_call;
    struct message login;

    /* What was read, and committed. */
    struct recovery recovery;
    struct stream stream;            /* of batches that have not ended */
    struct log_head at;              /* the last entry */
    uint32_t chain;                  /* its checksum */
    uint64_t batch;                  /* the last one that was applied; as a leader, committed */
    struct snapshot_pointer pointer; /* the newest snapshot; at.index 0: none */
    char pointer_text[POINTER_TEXT]; /* as it stands in etcd; empty: it does not */
    uint32_t chunk, chunks_checksum; /* of the snapshot that is being loaded: the next one */
    uint64_t chunk_bytes;
    char leader[WHO_MAX];       /* who leads, as far as it is known; empty: nobody */
    uint64_t anew_ms;           /* what is there cannot be read: all begins anew then; 0: it can */
    bool is_outdated;           /* a newer rdzvd writes the log, and this one's log says so */
    uint64_t look_ms;           /* not before that */
    uint32_t entries;           /* so many are read with the next look */
    uint64_t whole_ms;          /* lease_now_ms() when all was here that etcd had; 0: never yet */
    int64_t whole_wall_ms;      /* the same, by the wall clock */
    uint64_t batch_seen_ms;     /* when the last batch came, by lease_now_ms(); 0: it may have been
                                   written long before */
    unsigned clock_off_looks;   /* in a row, with batches of another time; see note_batches() */
    struct grpc_call step_call; /* of all states but JOURNAL_LEADS */
    struct message step;

    /* The lease. */
    int64_t lease; /* 0: none */
    int64_t epoch; /* 0: the leader's key is not ours */
    uint64_t ttl_ms;
    uint64_t sent_ms;  /* when the beat that is under way was sent, by lease_now_ms() */
    uint64_t valid_ms; /* up to then nobody else leads */
    uint64_t beat_ms;  /* when the next one is due */
    struct grpc_call beat_call;
    struct message beat;
    bool gives_back, given_back; /* see journal_etcd_finish() */

    /* Writing. */
    struct pending_list pending;
    struct pending *spare;
    size_t cut; /* of the stream of `pending`: committed already */
    struct gather gather;
    struct event gathered; /* the end of a wait for more */
    size_t entry_max;
    struct commit commit;
    struct snapshot_out out;
    uint64_t committed_ms; /* the engine's last commit */

    char trouble[TROUBLE_MAX];   /* of the last call that failed; empty: it did not */
    char hint[TROUBLE_HINT_MAX]; /* what to do about it; empty: nothing is known */
    struct troubles troubles;    /* that the log has had */
    char reason[REASON_MAX];     /* see engine_refuses(); empty: changes are taken */
    bool refused;                /* the log says that none are */
    struct journal_etcd_stats stats;
};

/* --- journal_etcd.c --- */

static inline uint64_t journal_now_ms(const struct journal_etcd *j)
{
    return engine_now_ms(j->engine);
}

/* A clock that goes on while the machine sleeps. */
uint64_t lease_now_ms(void);

/* The key of an entry of the log, or of a chunk. */
struct slice journal_log_key(const struct journal_etcd *j, uint64_t index, char text[KEY_MAX]);
struct slice journal_chunk_key(const struct journal_etcd *j, const char *id, uint32_t chunk,
                               char text[KEY_MAX]);

/* All that can be sent is sent. */
void journal_pump(struct journal_etcd *j);

/* A call has failed: what it means for the connection and the log. True: it was not carried out,
 * and says so itself. */
bool journal_note_failure(struct journal_etcd *j, const struct grpc_answer *a);
void journal_note_success(struct journal_etcd *j);

/* And how long the next try waits: not at all where the connection has gone, as the next one is
 * another member's. */
static inline uint64_t journal_pause_ms(const struct grpc_answer *a, bool is_clear)
{
    return is_clear ? AGAIN_MS : a->code == GRPC_UNCLEAR ? 0 : BUSY_MS;
}

/* True: the call was not carried out, and says so itself. */
bool journal_is_refusal(const struct grpc_answer *a);

/* etcd takes less than the `bytes` that were sent: true, and j->entry_max is less. */
bool journal_shrink(struct journal_etcd *j, const struct grpc_answer *a, size_t bytes);

/* Sets engine_refuses(), and says so in the log. */
void journal_note_reason(struct journal_etcd *j);

/* What this replica has is of no use any more: all begins anew. The caller says why in the log. */
void journal_end(struct journal_etcd *j);
#define JOURNAL_ANEW "rdzvd drops what it has, ends all connections, and begins anew"

/* Calls the path with that message, unless one is under way. */
void journal_call(struct journal_etcd *j, struct grpc_call *call, const char *path,
                  const struct message *m, uint64_t patience_ms);

/* --- follow.c --- */
void follow_pump(struct journal_etcd *j);

/* --- lead.c --- */
void lead_pump(struct journal_etcd *j);
void lead_give_back(struct journal_etcd *j);
/* The leader's key as etcd has it, of a refused transaction: false: another replica leads, or none
 * does, and this journal has ended. */
bool lead_is_ours(struct journal_etcd *j, const Etcd3__KeyValue *leader);

/* --- commit.c --- */
uint64_t commit_take(void *arg, struct batch *batch);
void commit_pump(struct journal_etcd *j);
void commit_on_gathered(evutil_socket_t fd, short what, void *arg);
void commit_drop(struct journal_etcd *j);

/* --- snapshot_out.c --- */
bool snapshot_out_work(struct journal_etcd *j);
void snapshot_out_pump(struct journal_etcd *j);
void snapshot_out_drop(struct journal_etcd *j);
/* No entry goes beyond that batch, while a snapshot of it waits to know its entry; UINT64_MAX. */
uint64_t snapshot_out_limit(const struct journal_etcd *j);
/* An entry was committed; j->at and j->batch say which. */
void snapshot_out_note(struct journal_etcd *j);
