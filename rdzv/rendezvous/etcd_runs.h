/* The runs over etcd's API that a space has. They are found when their keys are written, and read
 * then if that is quick, and else once a second. Memory: ACCOUNT_RUNS; if memory is short, a run is
 * not listed. */
#pragma once

#include "rdzv/http/reply.h"
#include "rdzv/rendezvous/etcd_run.h"

struct etcd_runs {
    struct engine *engine;
    struct tree *tree;      /* of the space */
    const struct net *net;  /* knows who sends the request that is carried out */
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

/* All of them outlive it. */
void etcd_runs_init(struct etcd_runs *runs, struct engine *engine, struct tree *tree,
                    const struct net *net);
void etcd_runs_fini(struct etcd_runs *runs);

/* True when a key may be that of a run. It is asked of each change of a tree: two bytes tell of
 * most. */
static inline bool etcd_runs_concerns(struct slice path)
{
    static const char v2[] = "/torch/elastic/rendezvous/", old[] = "/rdzv/active_version";
    const size_t front = sizeof v2 - 1, end = sizeof old - 1;

    if (path.len <= end)
        return false;
    return (path.ptr[path.len - 1] == 'n' && memcmp(path.ptr + path.len - end, old, end) == 0) ||
           (path.ptr[1] == 't' && path.len > front && memcmp(path.ptr, v2, front) == 0);
}

/* A key that concerns them has been changed. */
void etcd_runs_changed(struct etcd_runs *runs, struct slice path);

/* For struct key_gate, of a key that concerns them. */
bool etcd_runs_hold(struct etcd_runs *runs, const struct http_request *r, struct slice path,
                    struct slice value, uint64_t prev_index);

/* All keys of the space are gone. */
void etcd_runs_reset(struct etcd_runs *runs);

/* The space has come from a data directory. */
void etcd_runs_restore(struct etcd_runs *runs);

/* Once a second. */
void etcd_runs_tick(struct etcd_runs *runs);

/* Reads what has changed since. */
void etcd_runs_look(struct etcd_runs *runs, struct etcd_run *run);

/* A pinned run stays where it is. If the run has ended meanwhile, etcd_runs_unpin() frees it. Both
 * take NULL. */
void etcd_runs_pin(struct etcd_run *run);
void etcd_runs_unpin(struct etcd_runs *runs, struct etcd_run *run);

/* --- etcd_meeting.c: the nodes of a round over `etcd-v2` end their workers together. --- */

/* The request reads the key of the run, if the pointer of `value` is NULL. Otherwise it replaces
 * the value of index `prev_index` by `value`. True: a job has been started for it (http/session.h),
 * which handles it again later, and has pinned the run until then. */
bool etcd_meeting_holds(struct etcd_run *run, const struct http_request *r, struct slice value,
                        uint64_t prev_index);

/* The run has changed, or a second has passed; `now_ms` is monotonic. */
void etcd_meeting_check(struct etcd_run *run, uint64_t now_ms);
