/* The runs of torch's rendezvous over etcd's API, by space: how status, metrics and page find them,
 * and which requests wait until the nodes of a round meet (etcd_meeting.c).
 *
 * A run is found when its key is written. It is read then if that is quick, and else by the tick
 * once a second. Memory: ACCOUNT_RUNS; if memory is short, a run is not listed.
 *
 * The files: etcd_run.c reads the key of one run, etcd_meeting.c lets the nodes of a round meet,
 * etcd_runs.c keeps all runs. With --elastic-fixes=off none of this runs. */
#pragma once

#include "rdzv/etcd_runs/etcd_run.h"
#include "rdzv/http/reply.h"

struct etcd_rendezvous {
    const struct config *config;
    struct engine *engine;
    const struct net *net; /* knows the client whose request is carried out */
    struct key_gate gate;
};

/* Of one space, made when a key concerns it first. */
struct etcd_runs {
    const struct etcd_rendezvous *home;
    struct tree *tree;      /* of the space */
    struct run_views views; /* each of an etcd_run, in order of discovery */
    struct etcd_run *next;  /* pinned: the next tick goes on with it. NULL: with the first */
};

/* Views are the first members of their runs. The second: the one behind it. */
static inline struct etcd_run *etcd_run_of(struct run_view *v)
{
    return (struct etcd_run *)(void *)v;
}

static inline struct etcd_run *etcd_run_next(const struct etcd_run *run)
{
    return etcd_run_of(TAILQ_NEXT(&run->view, order));
}

/* All three outlive it. Observes the engine's trees. */
void etcd_runs_init(struct etcd_rendezvous *r, const struct config *config, struct engine *engine,
                    const struct net *net);
void etcd_runs_fini(struct etcd_rendezvous *r);

/* What holds requests of agents. NULL with --elastic-fixes=off. */
const struct key_gate *etcd_runs_key_gate(const struct etcd_rendezvous *r);

/* The store has come from a data directory. */
void etcd_runs_restore(struct etcd_rendezvous *r);

/* Once a second. */
void etcd_runs_tick(struct etcd_rendezvous *r);

/* --- For admin/. --- */

/* The first run of the space; NULL: none. */
struct etcd_run *etcd_runs_first(const struct engine_space *space);

/* A pinned run stays where it is. If the run has ended meanwhile, etcd_runs_unpin() frees it. Both
 * take NULL. */
void etcd_runs_pin(struct etcd_run *run);
void etcd_runs_unpin(const struct engine_space *space, struct etcd_run *run);

/* How the run stands now; borrowed until it changes. */
void etcd_runs_facts(const struct engine_space *space, struct etcd_run *run, struct run_facts *out);

/* --- etcd_meeting.c: the nodes of a round over `etcd-v2` end their workers together. --- */

/* The request reads the key of the run, if the pointer of `value` is NULL. Otherwise it replaces
 * the value of index `prev_index` by `value`. True: a job has been started for it (http/session.h),
 * which handles it again later, and has pinned the run until then. */
bool etcd_meeting_holds(struct etcd_run *run, const struct http_request *r, struct slice value,
                        uint64_t prev_index);

/* The run has changed, or a second has passed; `now_ms` is monotonic. */
void etcd_meeting_check(struct etcd_run *run, uint64_t now_ms);
