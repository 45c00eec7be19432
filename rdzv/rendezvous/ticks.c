/* Time as the event of runs: the ticks of runs, and the clock of their limits. */
#include "rdzv/rendezvous/rendezvous.h"

/* The limits of one iteration: number of ticked runs, and time. */
#define RUNS_PER_ITERATION 200
#define RUNS_NS            1000000u

void driver_tick_soon(struct rendezvous *r)
{
    static const struct timeval at_once;

    net_add_event(&r->ticker, &at_once);
}

void rendezvous_note_refusal(struct rendezvous *r, bool refuses)
{
    uint64_t now = engine_lived_ms(r->engine);

    if (!refuses)
        r->refused_ms += now - r->refuses_since_ms;
    r->refuses_since_ms = refuses ? now : 0;
}

static struct live_run *next_due(const struct rendezvous *r)
{
    struct expiry_node *first = expiry_first(&r->due);

    if (first == NULL || first->at_ns / 1000000 > (int64_t)r->ticked_ms)
        return NULL;
    return (struct live_run *)(void *)((uint8_t *)first - offsetof(struct live_run, due));
}

/* A run may have a million keys of its rounds: each iteration deletes some keys, and then the run
 * is forgotten. False: the deletion continues after the other due runs. */
static bool step_tick(struct live_run *run)
{
    const struct policy_now now = driver_now(run);
    bool forgets = policy_why_forget(&run->run, &now) != NULL;

    if (!forgets) {
        run->sweep = 0;
    } else if (!effects_sweep_keys(run)) {
        driver_set_due(run, run->home->rdzv->ticked_ms);
        return false;
    }
    if (run->left_us != 0 && run->run.start == START_OVER &&
        (forgets || clock_elapsed_ms(run->run.idle_since_ms, now.ms) >= RUN_LEFT_MS)) {
        driver_end_run(run, "left", "all agents have gone, and none has come back", run->left_us);
        run->left_reported = true;
    }
    run->home->rdzv->before_tick(run);
    driver_step(run, (struct policy_event){.kind = RUN_TICK});
    return true;
}

static void step_due(struct rendezvous *r)
{
    const struct clock *clock = r->engine->options.clock;
    uint64_t began_ns = clock_monotonic_ns(clock);
    struct live_run *run;

    TAILQ_EACH(struct rendezvous_space, home, &r->spaces, entry)
        drain_tick(home);
    for (int i = 0; (run = next_due(r)) != NULL; i++) {
        if (i == RUNS_PER_ITERATION || clock_monotonic_ns(clock) - began_ns >= RUNS_NS ||
            !step_tick(run)) {
            driver_tick_soon(r);
            return;
        }
    }
}

void driver_on_ticker(evutil_socket_t, short, void *arg)
{
    step_due(arg);
}

void rendezvous_tick(struct rendezvous *r)
{
    r->ticked_ms = engine_now_ms(r->engine);
    step_due(r);
    TAILQ_EACH(struct rendezvous_space, home, &r->spaces, entry) {
        if (home->misses_drops && engine_takes_changes(r->engine))
            effects_drop_unused(home);
        operator_tick(home);
    }
}
