/* A walk through runs in slices. See run_walk.h for the contract. */
#include "rdzv/admin/run_walk.h"

void run_walk_begin(struct run_walk *w, const struct engine *engine,
                    const struct engine_space *only, void (*visit)(void *arg), void *arg)
{
    *w = (struct run_walk){.engine = engine, .only = only, .visit = visit, .arg = arg};
    w->space = only != NULL ? only : TAILQ_FIRST(&engine->spaces);
}

static void run_walk_point_at(struct run_walk *w, struct run_view *run)
{
    struct run_view *before = w->run;

    if (run != NULL)
        run->pins++;
    w->run = run;
    if (before != NULL && before->backend == BACKEND_C10D)
        rendezvous_unpin(before);
    else if (before != NULL)
        etcd_runs_unpin(before);
}

/* Runs over c10d come first. */
static struct run_view *run_walk_next(const struct run_walk *w)
{
    struct run_view *run = w->run;

    if (run == NULL || run->backend == BACKEND_C10D) {
        run = rendezvous_next(w->space, run);
        if (run != NULL)
            return run;
    }
    return etcd_runs_next(w->space, run);
}

static void run_walk_step(struct run_walk *w)
{
    if (w->at == WALK_SPACE_END) {
        w->space = w->only != NULL ? NULL : TAILQ_NEXT(w->space, entry);
        w->at = w->space == NULL ? WALK_DONE : WALK_SPACE;
    } else {
        run_walk_point_at(w, run_walk_next(w));
        w->at = w->run != NULL ? WALK_RUN : WALK_SPACE_END;
    }
}

bool run_walk_facts(const struct run_walk *w, struct run_facts *out)
{
    return w->run->backend == BACKEND_C10D ? rendezvous_facts(w->run, out)
                                           : etcd_runs_facts(w->run, out);
}

bool run_walk_continue(struct run_walk *w, uint64_t ns)
{
    const struct clock *clock = w->engine->options.clock;
    uint64_t until = clock_monotonic_ns(clock) + ns;

    while (w->at != WALK_DONE) {
        w->visit(w->arg);
        run_walk_step(w);
        if (clock_monotonic_ns(clock) >= until)
            break;
    }
    return w->at == WALK_DONE;
}

void run_walk_end(struct run_walk *w)
{
    run_walk_point_at(w, NULL);
    w->at = WALK_DONE;
}
