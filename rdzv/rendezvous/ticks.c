/* Time as the event of runs: what is due, what is to be swept, and time in which no agent could
 * write. */
#include "rdzv/rendezvous/rendezvous.h"

#include "proto/torch/torch_timing.h"

/* So many runs a tick looks at, and so many of those that are behind, for so long at most, before
 * others have their turn. */
#define RUNS_PER_ITERATION 200
#define RUNS_NS            1000000u

/* In the next iteration. If that cannot be, the next tick goes on. */
static void go_on_later(struct rendezvous *r)
{
    static const struct timeval at_once;

    net_add_event(&r->ticker, &at_once);
}

static struct live_run *first_run(struct rendezvous_space *home)
{
    while (home != NULL && TAILQ_EMPTY(&home->runs.list))
        home = TAILQ_NEXT(home, entry);
    return home == NULL ? NULL : live_run_of(TAILQ_FIRST(&home->runs.list));
}

static struct live_run *run_behind(const struct live_run *run)
{
    struct run_view *next = TAILQ_NEXT(&run->run.view, order);

    return next != NULL ? live_run_of(next) : first_run(TAILQ_NEXT(run->home, entry));
}

/* The run before that may go with this. */
static void set_behind(struct rendezvous *r, struct live_run *run)
{
    struct live_run *before = r->behind;

    if (run != NULL)
        run->pins++;
    r->behind = run;
    if (before != NULL)
        rendezvous_unpin(&before->run);
}

/* Of ten thousand runs each has a state to read, write and keep: that takes many iterations. */
static void catch_up(struct rendezvous *r)
{
    const struct clock *clock = r->engine->options.clock;
    uint64_t began_ns = r->behind == NULL ? 0 : clock_monotonic_ns(clock);

    for (int i = 0; r->behind != NULL; i++) {
        struct live_run *run = r->behind;

        if (i == RUNS_PER_ITERATION || (i > 0 && clock_monotonic_ns(clock) - began_ns >= RUNS_NS)) {
            go_on_later(r);
            return;
        }
        shell_give_time(run);
        set_behind(r, run_behind(run));
    }
}

/* What is shorter than the interval of heartbeats hurts no node. */
void rendezvous_stood_still(struct rendezvous *r, uint64_t still_ms)
{
    if (still_ms < TORCH_HEARTBEAT_MS)
        return;
    r->still_ms += still_ms;
    set_behind(r, first_run(TAILQ_FIRST(&r->spaces)));
    catch_up(r);
}

static struct live_run *next_due(const struct rendezvous *r)
{
    struct expiry_node *first = expiry_first(&r->due);

    if (first == NULL || first->at_ns / 1000000 > (int64_t)r->ticked_ms)
        return NULL;
    return (struct live_run *)(void *)((uint8_t *)first - offsetof(struct live_run, due));
}

/* A run may have a million keys of its rounds, which takes as many iterations as it has thousands.
 */
static void sweep_later(struct live_run *run)
{
    if (!run->is_sweeping)
        TAILQ_INSERT_TAIL(&run->home->rdzv->sweeping, run, sweeping);
    run->is_sweeping = true;
    shell_update_due(run);
    go_on_later(run->home->rdzv);
}

static void step_tick(struct live_run *run)
{
    const struct policy_now now = shell_now(run);

    if (!policy_forgets(&run->run, &now)) {
        run->sweep = 0;
    } else if (!shell_sweep(run)) {
        sweep_later(run);
        return;
    }
    shell_end_sweep(run);
    shell_step(run, (struct policy_event){.kind = RUN_TICK});
}

static void step_due(struct rendezvous *r)
{
    const struct clock *clock = r->engine->options.clock;
    uint64_t began_ns = clock_monotonic_ns(clock);
    struct live_run *run;

    for (int i = 0; (run = next_due(r)) != NULL; i++) {
        if (i == RUNS_PER_ITERATION || clock_monotonic_ns(clock) - began_ns >= RUNS_NS) {
            go_on_later(r);
            return;
        }
        step_tick(run);
    }
}

static void sweep_next(struct rendezvous *r)
{
    struct live_run *run = TAILQ_FIRST(&r->sweeping);

    if (run == NULL)
        return;
    shell_end_sweep(run);
    step_tick(run);
    if (!TAILQ_EMPTY(&r->sweeping))
        go_on_later(r);
}

void shell_on_ticker(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    sweep_next(arg);
    step_due(arg);
    catch_up(arg);
}

void rendezvous_tick(struct rendezvous *r)
{
    struct rendezvous_space *home;

    r->ticked_ms = engine_now_ms(r->engine);
    step_due(r);
    catch_up(r);
    TAILQ_FOREACH(home, &r->spaces, entry) {
        etcd_runs_tick(&home->etcd_runs);
        worker_uses_retry(home);
    }
}
