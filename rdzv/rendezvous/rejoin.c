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
 * the run (resume_hint.c); another one had come for the next one. */
#include "rdzv/rendezvous/explain.h"
#include "rdzv/rendezvous/policy_internal.h"

static bool is_closed(const struct run *run)
{
    return run->view.is_state && run->view.state.closed;
}

static void count_in(struct run *run, struct agent *a)
{
    TAILQ_INSERT_TAIL(&run->agents, a, entry);
    run->agent_count++;
    run->ending = false;
}

static void enter(struct run *run, struct agent *a)
{
    if (a->standing == STANDING_MEMBER)
        count_in(run, a);
    else
        TAILQ_INSERT_TAIL(&run->rejoining, a, entry);
}

void rejoin_enter(struct step *s, struct agent *a)
{
    agent_set_standing(a, is_closed(s->run) && !agent_has_node(a) ? STANDING_REJOINS
                                                                  : STANDING_MEMBER);
    enter(s->run, a);
}

void rejoin_leave(struct step *s, struct agent *a)
{
    struct run *run = s->run;
    bool counts = a->link != LINK_GONE && a->standing == STANDING_MEMBER;

    TAILQ_REMOVE(a->link == LINK_GONE ? &run->gone
                 : counts             ? &run->agents
                                      : &run->rejoining,
                 a, entry);
    if (!counts || --run->agent_count > 0)
        return;
    run->idle_since_ms = s->now->ms;
    run->enough = run->max_nodes = run->room_for = 0; /* those who come may have other limits */
}

void rejoin_set_aside(struct step *s, struct agent *a)
{
    rejoin_leave(s, a);
    agent_set_link(a, LINK_GONE);
    TAILQ_INSERT_TAIL(&s->run->gone, a, entry);
}

/* An agent that was a member before the run was closed does not count as one that comes for a
 * closed run. */
void rejoin_take_back(struct step *s, struct agent *a)
{
    rejoin_leave(s, a);
    agent_set_link(a, LINK_HERE);
    if (!is_closed(s->run))
        agent_set_standing(a, STANDING_MEMBER);
    enter(s->run, a);
}

bool rejoin_should_hold(struct step *s, struct agent *a)
{
    struct run *run = s->run;
    uint64_t wait_ms = run->settings->closed_run_wait_ms;
    struct note *note;

    if (a->standing != STANDING_REJOINS || wait_ms == 0 || !is_closed(run))
        return false;
    if (run->held[HELD_REJOIN] == 0) { /* one note for all agents that wait at the same time */
        note = explain_note(s, NOTE_AGENTS_WAITING);
        note->agent = a;
        note->number = wait_ms;
        note->reason =
            run->failed ? "the run has failed: they begin it anew when its last agent has ended"
                        : "the run is closed: they begin it anew when all agents that were in it "
                          "have been gone for --closed-run-ttl";
    }
    if (a->rejoins_since_ms == 0)
        a->rejoins_since_ms = s->now->ms;
    agent_hold(s, a, HELD_REJOIN);
    return true;
}

void rejoin_release_waiting(struct step *s)
{
    struct run *run = s->run;
    struct agent *a;

    while ((a = TAILQ_FIRST(&run->rejoining)) != NULL) {
        if (a->held == HELD_REJOIN && !agent_release(s, a))
            return; /* no memory; the next tick tries again */
        TAILQ_REMOVE(&run->rejoining, a, entry);
        agent_set_standing(a, STANDING_MEMBER);
        a->rejoins_since_ms = 0;
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
        if (a->held != HELD_REJOIN ||
            clock_elapsed_ms(a->rejoins_since_ms, s->now->ms) < run->settings->closed_run_wait_ms ||
            !agent_release(s, a))
            continue;
        agent_set_standing(a, STANDING_REJECTED);
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
