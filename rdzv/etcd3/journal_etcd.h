/* The engine's journal on an etcd v3 cluster, for any number of replicas on one prefix, of which
 * one leads. It is a part of the loop: no thread.
 *
 * A replica that does not lead follows: it reads the log a few times a second, applies it to its
 * engine, and waits until nobody leads. Then it takes a lease, puts itself into the leader's key
 * under it, reads the rest of the log, writes that its epoch begins, and leads.
 *
 * The problem: a leader may be paused for a minute, wake up, and still believe that it leads. Its
 * clock and its lease cannot prevent this: the process may be paused again between its check of the
 * clock and the write. And if the connection breaks after a transaction was sent, the leader does
 * not know whether etcd executed it; a second copy could apply the changes twice.
 *
 * The invariant: the log is one chain of entries, and only the present leader extends it. etcd
 * keeps it, because each transaction has two conditions: the leader's key still has the revision
 * under which this replica put it there, and the head of the log is still the previous entry. The
 * first condition stops a leader that has lost its lease; the second one lets only one copy of a
 * transaction take effect. So if the outcome is unknown, the leader sends the same bytes again
 * until etcd tells whether they took effect. The leader commits one transaction at a time, with all
 * batches that have gathered meanwhile, and answers wait for it.
 *
 * The conditions protect writes, not reads: a leader without a lease could still answer GET from
 * old state. The lease protects these: all answers also wait when the lease may have ended, which
 * is JOURNAL_MARGIN_MS before etcd's own time.
 *
 * If etcd refuses a transaction, or if the lease has ended, the leader's engine holds changes that
 * may never be committed. It sends no further answers: options.ended() makes the daemon drop all
 * state and start again.
 *
 * Faults, as of the file journal: while etcd takes no writes, engine.refusal says why, no change
 * is admitted, and pending changes are retried without end. */
#pragma once

#include <event2/event.h>

#include "rdzv/config/config.h"
#include "rdzv/engine/engine.h"

/* So long before the end of a lease nothing is answered any more: an etcd that has lost its own
 * leader may say for a little too long that a lease is renewed. Of a short lease, half of it. */
#define JOURNAL_MARGIN_MS 2000u

struct journal_etcd;

struct journal_etcd_options {
    struct event_base *base;
    const struct config_journal *config; /* outlives it */
    /* This replica leads, and its engine has every committed change. */
    void (*leads)(void *arg);
    /* Another one does, from about now on; `leader` is who, for people. NULL: nobody asks. */
    void (*follows)(void *arg, const char *leader);
    /* The engine's state is outdated: the caller must end it and restart the server. */
    void (*ended)(void *arg);
    void *arg;
};

struct journal_etcd_stats {
    bool leads;
    uint64_t batches, bytes; /* committed, payloads alone */
    uint64_t commits;        /* transactions that were */
    uint64_t repeats;        /* that were sent once more */
    uint64_t failures;       /* calls that failed, each try */
    uint64_t slowest_ns;     /* the slowest of those commits, from its first try on */
    size_t pending_batches, pending_bytes;
    uint64_t bytes_behind, snapshot_bytes;
    uint64_t snapshots;
    uint64_t index;   /* of the newest entry that is known */
    uint64_t cluster; /* the id that etcd gives its cluster; 0: not known yet */
};

/* Makes the cluster the journal of the engine, which is empty, until engine_close_journal(). It
 * takes no change before options.leads(). 0, or -1 after it logged why not. */
int journal_etcd_open(struct journal_etcd **out, const struct journal_etcd_options *options,
                      struct engine *engine);

/* The daemon is about to stop: when all is committed, the lease is given back, so that another
 * replica leads at once. True: that is done, or of no use. To be asked again until then. */
bool journal_etcd_finish(struct journal_etcd *j);

/* How long journal_etcd_finish() takes at most while etcd answers: one try to commit the pending
 * batches, and one to revoke the lease. */
#define JOURNAL_ETCD_TRY_MS 1000u
#define JOURNAL_ETCD_END_MS (2 * JOURNAL_ETCD_TRY_MS)

const struct journal_etcd_stats *journal_etcd_stats(const struct journal_etcd *j);
