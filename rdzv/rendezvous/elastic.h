/* Elastic jobs: what rdzvd does for torch's rendezvous beyond keeping its keys.
 *
 * rdzv/rendezvous/run.h knows what each run's state says; here is who is connected for it, and what
 * is done so that an unmodified torchrun survives what default torch does not:
 *  - workers of 2.5 and later find their store here, with fresh keys each round
 *    (elastic_workers.c; torch keeps the address of its first round and the keys of all);
 *  - compare-and-sets on the state take turns (elastic_turn.c), and heartbeats merge
 *    (elastic_state.c);
 *  - heartbeats are moved on over a time in which the daemon stood still, and a node that was
 *    taken for dead and comes back is put where it belongs (elastic_repair.c);
 *  - closed runs that everybody has left are forgotten (elastic.c), and who comes a little too
 * early for the next one waits for that (elastic_late.c);
 *  - the log says what happened to whom (elastic_log.c).
 * With --elastic-fixes=off none of this runs: store_options.knows_runs is off, no connection is
 * bound, and every key is plain. */
#pragma once

#include "rdzv/c10d/session.h"
#include "rdzv/rendezvous/run.h"

struct elastic_run;

/* How many sessions use a worker store. */
struct worker_sessions {
    TAILQ_ENTRY(worker_sessions) entry;
    uint64_t id;
    uint64_t count;
};

TAILQ_HEAD(elastic_run_list, elastic_run);

/* What is known of the agents and workers in a space. */
struct rendezvous_space {
    TAILQ_ENTRY(rendezvous_space) entry;
    struct rendezvous *rdzv;
    struct engine_space *space;
    struct elastic_run_list runs; /* those that agents speak of, and those that the store knows */
    struct runs known;            /* what the keys say */
    TAILQ_HEAD(, worker_sessions) sessions;
    struct elastic_run *shared; /* whose workers use the agents' port; NULL: nobody's */
};

TAILQ_HEAD(rendezvous_space_list, rendezvous_space);

struct rendezvous {
    const struct config *config;
    struct engine *engine;
    struct net *net;
    struct rendezvous_space_list spaces;
    uint64_t alive_ms; /* monotonic ms at the end of the last loop iteration; a large gap to now
                          means that the process was stopped */
};

/* All three outlive it. Observes the engine. */
void rendezvous_init(struct rendezvous *r, const struct config *config, struct engine *engine,
                     struct net *net);
void rendezvous_fini(struct rendezvous *r);

/* What is known of a space; made when there is nothing yet. */
struct rendezvous_space *rendezvous_space(struct rendezvous *r, struct engine_space *space);

/* What c10d sessions ask. Empty with --elastic-fixes=off. */
struct c10d_hooks rendezvous_hooks(struct rendezvous *r);

/* At the end of each iteration, and before any agent is told anything: if more time has passed
 * since the last call than a daemon takes that runs, it is given to all whose heartbeats could not
 * come.
 */
void elastic_make_up(struct rendezvous *s);

/* Once a second: whom to forget. */
void elastic_tick(struct rendezvous *s);

/* Forgets a run now, and ends the connections of its agents; false: there is none. `id` is R.
 * *removed counts keys. */
bool elastic_forget(struct engine_space *space, struct slice id, uint64_t *removed);

/* Who is connected for a run. */
struct elastic_presence {
    size_t agents;             /* connections */
    size_t held;               /* those that wait until the closed run is forgotten */
    const struct conn **nodes; /* of each node of the run's state, NULL: none is known. Freed by the
                                  caller; NULL: nothing is known */
};
void elastic_presence(struct engine_space *space, const struct run *run,
                      struct elastic_presence *out);
