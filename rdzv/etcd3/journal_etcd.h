/* The engine's journal on an etcd v3 cluster, for any number of replicas on one prefix, of which
 * one leads. It is a part of the loop: no thread.
 *
 * A replica that does not lead follows: it reads the log a few times a second, applies it to its
 * engine, and waits until nobody leads. Then it takes a lease, puts itself into the leader's key
 * under it, reads the rest of the log, writes that its epoch begins, and leads.
 *
 * The leader commits one transaction at a time, with all batches that have gathered meanwhile. Each
 * holds only while the leader's key has the revision under which this replica has put it, and while
 * the head of the log is the entry before: a leader that has lost its lease can commit nothing, and
 * of several copies of one transaction one counts. So a transaction whose outcome is unknown is
 * sent again, the same bytes, until etcd says which it was. Answers wait for it. They also wait
 * while the lease may have ended (JOURNAL_MARGIN_MS before etcd's own time): then another replica
 * may lead, and what is known here may be old.
 *
 * A leader whose transaction is refused, or whose lease has ended, has applied what may never have
 * been committed. It answers nothing more: options.ended() has all thrown away and begun anew.
 *
 * Faults, as of the file journal: while etcd cannot be written, engine_refuses() says why, no
 * change is taken, and what was taken before is tried again, for as long as it takes. */
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
    /* The engine is of no use any more: it is to be ended, and the daemon to begin anew. */
    void (*ended)(void *arg);
    void *arg;
};

struct journal_etcd_stats {
    bool leads;
    uint64_t batches, bytes; /* committed, payloads alone */
    uint64_t commits;        /* transactions that were */
    uint64_t repeats;        /* that were sent once more */
    uint64_t failures;       /* calls that failed, each try */
    uint64_t slowest_ns;     /* of those commits, from the first try on */
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

/* How long journal_etcd_finish() takes at most while etcd answers: one try to commit what there is,
 * and one to give the lease back. */
#define JOURNAL_ETCD_TRY_MS 1000u
#define JOURNAL_ETCD_END_MS (2 * JOURNAL_ETCD_TRY_MS)

const struct journal_etcd_stats *journal_etcd_stats(const struct journal_etcd *j);
