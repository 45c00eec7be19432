/* Agents that come for a run that is closed already.
 *
 * Torch would tell them so: they end, are started anew, and learn the same. With 1,000 pods
 * retrying, one is always connected, so the closed run would never be idle for long enough to be
 * forgotten. Therefore they are not counted among its agents. Their first request is held, as a
 * slow network might hold it, until the run is forgotten: then they begin the next one. After
 * closed_run_wait_ms, which should be shorter than torch's own patience (read_timeout, 60 s), they
 * learn what torch would have told them.
 *
 * An agent that its relay brings back over a start, and that has written the state before, was in
 * the run (memo.c); another one had come for the next one. */
#include "rdzv/rendezvous/explain.h"
#include "rdzv/rendezvous/parts.h"

static bool is_closed(const struct run *run)
{
    return run->view.is_state && run->view.state.closed;
}

static void count_in(struct run *run, struct agent *a)
{
    TAILQ_INSERT_TAIL(&run->agents, a, entry);
    run->agent_count++;
    run->idle = run->ending = false;
}

void rejoin_enter(struct step *s, struct agent *a)
{
    a->rejoining = is_closed(s->run) && !a->has_node;
    if (a->rejoining)
        TAILQ_INSERT_TAIL(&s->run->rejoining, a, entry);
    else
        count_in(s->run, a);
}

static void stop_waiting(struct run *run, struct agent *a)
{
    if (a->waiting)
        run->waiting_count--;
    a->waiting = false;
}

void rejoin_leave(struct step *s, struct agent *a)
{
    struct run *run = s->run;

    TAILQ_REMOVE(a->gone ? &run->gone : a->rejoining ? &run->rejoining : &run->agents, a, entry);
    stop_waiting(run, a);
    if (a->gone || a->rejoining || --run->agent_count > 0)
        return;
    run->idle = true;
    run->idle_since_ms = s->now->ms;
    run->enough = run->max_nodes = run->room_for = 0; /* those who come may have other limits */
}

void rejoin_drop_request(struct step *s, struct agent *a)
{
    stop_waiting(s->run, a);
}

void rejoin_set_aside(struct step *s, struct agent *a)
{
    rejoin_leave(s, a);
    a->gone = true;
    TAILQ_INSERT_TAIL(&s->run->gone, a, entry);
}

/* One that was in a run which was closed since is not one that comes for a closed run. */
void rejoin_take_back(struct step *s, struct agent *a)
{
    struct run *run = s->run;

    rejoin_leave(s, a);
    a->gone = false;
    a->rejoining = a->rejoining && is_closed(run);
    if (a->rejoining)
        TAILQ_INSERT_TAIL(&run->rejoining, a, entry);
    else
        count_in(run, a);
}

bool rejoin_should_hold(struct step *s, struct agent *a)
{
    struct run *run = s->run;
    uint64_t wait_ms = run->settings->closed_run_wait_ms;
    struct note *note;

    if (!a->rejoining || a->rejected || wait_ms == 0 || !is_closed(run))
        return false;
    if (a->waiting)
        return true;
    if (run->waiting_count == 0) { /* one note for all who wait at the same time */
        note = explain_note(s, NOTE_AGENTS_WAITING);
        note->agent = a;
        note->number = wait_ms;
        note->reason =
            run->failed ? "the run has failed: they begin it anew when its last agent has ended"
                        : "the run is closed: they begin it anew when all agents that were in it "
                          "have been gone for --closed-run-ttl";
    }
    a->waiting = true;
    if (a->waiting_since_ms == 0)
        a->waiting_since_ms = s->now->ms;
    run->waiting_count++;
    return true;
}

void rejoin_release_waiting(struct step *s)
{
    struct run *run = s->run;
    struct agent *a;

    while ((a = TAILQ_FIRST(&run->rejoining)) != NULL) {
        if (a->waiting && !step_resume(s, a))
            return; /* no memory; the next tick tries again */
        TAILQ_REMOVE(&run->rejoining, a, entry);
        stop_waiting(run, a);
        a->rejoining = false;
        a->waiting_since_ms = 0;
        count_in(run, a);
    }
}

void rejoin_reject_overdue(struct step *s)
{
    struct run *run = s->run;
    uint64_t count = 0;
    struct note *note;
    struct agent *a;

    if (!is_closed(run))
        rejoin_release_waiting(s);
    TAILQ_FOREACH(a, &run->rejoining, entry) {
        if (!a->waiting ||
            clock_elapsed_ms(a->waiting_since_ms, s->now->ms) < run->settings->closed_run_wait_ms ||
            !step_resume(s, a))
            continue;
        stop_waiting(run, a);
        a->rejected = true;
        count++;
    }
    if (count == 0)
        return;
    note = explain_note(s, NOTE_AGENTS_REJECTED);
    note->number = count;
    note->reason = TAILQ_EMPTY(&run->agents)
                       ? "--closed-run-wait is over, and --closed-run-ttl is not"
                       : "--closed-run-wait is over, and agents that were in the closed run are "
                         "still connected";
}
