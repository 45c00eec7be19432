/* A walk through runs in slices. See run_walk.h for the contract. */
#include "rdzv/admin/run_walk.h"

void run_walk_begin(struct run_walk *w, const struct engine *engine,
                    const struct engine_space *only)
{
    *w = (struct run_walk){.engine = engine, .only = only};
    w->space = only != NULL ? only : TAILQ_FIRST(&engine->spaces);
}

static void run_walk_point_at(struct run_walk *w, const struct run *run)
{
    rendezvous_pin(run);
    rendezvous_unpin(w->run);
    w->run = run;
}

static void run_walk_point_at_etcd(struct run_walk *w, struct etcd_run *run)
{
    etcd_runs_pin(run);
    etcd_runs_unpin(w->space, w->etcd_run);
    w->etcd_run = run;
}

static void run_walk_step(struct run_walk *w)
{
    switch (w->at) {
    case WALK_SPACE:
    case WALK_RUN:
        run_walk_point_at(w, w->at == WALK_SPACE ? rendezvous_first(w->space)
                                                 : rendezvous_next(w->run));
        w->at = WALK_RUN;
        if (w->run != NULL)
            return;
        run_walk_point_at_etcd(w, etcd_runs_first(w->space));
        break;
    case WALK_ETCD_RUN:
        run_walk_point_at_etcd(w, etcd_run_next(w->etcd_run));
        break;
    case WALK_SPACE_END:
        w->space = w->only != NULL ? NULL : TAILQ_NEXT(w->space, entry);
        w->at = w->space == NULL ? WALK_DONE : WALK_SPACE;
        return;
    case WALK_DONE:
        return;
    }
    w->at = w->etcd_run != NULL ? WALK_ETCD_RUN : WALK_SPACE_END;
}

bool run_walk_continue(struct run_walk *w, uint64_t ns, void (*visit)(void *arg), void *arg)
{
    const struct clock *clock = w->engine->options.clock;
    uint64_t until = clock_monotonic_ns(clock) + ns;

    while (w->at != WALK_DONE) {
        visit(arg);
        run_walk_step(w);
        if (clock_monotonic_ns(clock) >= until)
            break;
    }
    return w->at == WALK_DONE;
}

void run_walk_end(struct run_walk *w)
{
    run_walk_point_at(w, NULL);
    run_walk_point_at_etcd(w, NULL);
    w->at = WALK_DONE;
}
