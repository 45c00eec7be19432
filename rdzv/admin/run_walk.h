/* Walks the runs of one space, or of all, in slices, while runs come and go. */
#pragma once

#include "rdzv/etcd_runs/etcd_runs.h"
#include "rdzv/rendezvous/rendezvous.h"

enum run_walk_at {
    WALK_SPACE,     /* the begin of `space` */
    WALK_RUN,       /* `run` */
    WALK_SPACE_END, /* all runs of `space` have been visited */
    WALK_DONE,
};

/* Stays where it is. */
struct run_walk {
    const struct engine *engine;
    const struct engine_space *only; /* NULL: all spaces */
    enum run_walk_at at;
    const struct engine_space *space;
    struct run_view *run; /* pinned; NULL: none. It may have ended since it was the next */
    void (*visit)(void *arg);
    void *arg;
};

void run_walk_begin(struct run_walk *w, const struct engine *engine,
                    const struct engine_space *only, void (*visit)(void *arg), void *arg);

/* Calls `visit` for each place of the walk, for about that long. True: the walk has ended. */
bool run_walk_continue(struct run_walk *w, uint64_t ns);

/* How its run stands; borrowed until anything changes. False: it does not exist, or no longer. */
bool run_walk_facts(const struct run_walk *w, struct run_facts *out);

/* Ends it, done or not. */
void run_walk_end(struct run_walk *w);
