/* Agents that come for a run that is closed already, or have written nothing when it closes.
 *
 * Torch would tell them so: they end, are started anew, and learn the same. With 1,000 pods, one is
 * always connected, so the closed run would never be forgotten. Therefore they are not counted
 * among its agents. Their next request is held until the run is forgotten: then they begin the next
 * one. After closed_run_wait_ms (below torch's read_timeout, 60 s) they learn that the run is
 * closed.
 *
 * A job that has ended well stays ended for its other hosts, as README.md says. Until such an agent
 * writes, its host is not known, so its first write is held in the same way.
 *
 * An agent that its relay brings back over a start, and that has written the state before, was in
 * the run (resume_hint.c); another one had come for the next one. */
#include "proto/json.h"
#include "rdzv/rendezvous/policy.h"
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

    if (run->meeting.next == a)
        run->meeting.next = TAILQ_NEXT(a, entry);
    TAILQ_REMOVE(a->link == LINK_GONE ? &run->gone
                 : counts             ? &run->agents
                                      : &run->rejoining,
                 a, entry);
    run->places_at_ms = 0;
    if (!counts || --run->agent_count > 0)
        return;
    run->idle_since_ms = s->now->ms;
    /* those who come may have other limits */
    run->enough = run->max_nodes = run->room_for = run->looks.since_ms = 0;
}

void rejoin_set_aside(struct step *s, struct agent *a)
{
    rejoin_leave(s, a);
    agent_set_link(a, LINK_GONE);
    TAILQ_INSERT_TAIL(&s->run->gone, a, entry);
}

/* An agent that was a member before the run was closed does not come for a closed run. */
void rejoin_take_back(struct step *s, struct agent *a)
{
    rejoin_leave(s, a);
    agent_set_link(a, LINK_HERE);
    if (!is_closed(s->run))
        agent_set_standing(a, STANDING_MEMBER);
    enter(s->run, a);
}

static void hold(struct step *s, struct agent *a, const char *why)
{
    if (s->run->held[HELD_REJOIN] == 0) /* one note for all agents that wait at the same time */
        explain_note(s, NOTE_AGENTS_WAITING, s->run->settings->closed_run_wait_ms, why)->agent = a;
    if (a->rejoins_since_ms == 0)
        a->rejoins_since_ms = s->now->ms;
    agent_hold(s, a, HELD_REJOIN);
}

/* It is no member any more. */
static void send_back(struct step *s, struct agent *a)
{
    if (a->standing != STANDING_MEMBER)
        return;
    rejoin_leave(s, a);
    agent_set_standing(a, STANDING_REJOINS);
    enter(s->run, a);
}

bool rejoin_should_hold(struct step *s, struct agent *a)
{
    struct run *run = s->run;
    bool was_in = a->standing == STANDING_MEMBER && (agent_has_node(a) || a->closes);

    if (a->origin != ORIGIN_AGENT || a->standing == STANDING_REJECTED || was_in ||
        run->settings->closed_run_wait_ms == 0 || !is_closed(run) ||
        run->orders.word == ORDER_CLOSE)
        return false;
    send_back(s, a);
    hold(s, a,
         run->failed ? "the run has failed: they begin it anew when its last agent has ended"
                     : "the run is closed: they begin it anew when all agents that were in it have "
                       "been gone for --closed-run-ttl");
    return true;
}

/* --- The job has ended well. --- */

bool policy_names_host(struct slice hosts, struct slice host)
{
    uint8_t quoted[TORCH_ADDR_MAX + 2];
    struct writer w = {.ptr = quoted, .cap = sizeof quoted};

    json_string(&w, host);
    return w.len <= w.cap && hosts.len != 0 && memmem(hosts.ptr, hosts.len, quoted, w.len) != NULL;
}

bool rejoin_is_too_late(struct step *s, struct agent *a, struct slice host)
{
    struct run *run = s->run;

    if (run->view.is_state ||
        (a->standing != STANDING_REJECTED && !policy_names_host(s->now->ended_hosts, host)))
        return false;
    if (a->standing == STANDING_REJECTED)
        return true;
    run->awaits_others = true;
    numbers_drop(run, a); /* another agent may join first */
    send_back(s, a);
    if (run->settings->closed_run_wait_ms == 0)
        agent_set_standing(a, STANDING_REJECTED);
    else
        hold(s, a,
             "the job has ended well, and not on their hosts: they join when another host begins "
             "it again (--ended-job-ttl)");
    return true;
}

void rejoin_check(struct step *s)
{
    if (!s->run->awaits_others || (s->run->view.exists && !s->run->view.is_state))
        return;
    s->run->awaits_others = false;
    if (!is_closed(s->run))
        rejoin_release_waiting(s);
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
    const char *why;

    if (!is_closed(run) && !run->awaits_others)
        rejoin_release_waiting(s);
    AGENTS_FOREACH(a, &run->rejoining) {
        if (a->held != HELD_REJOIN ||
            clock_elapsed_ms(a->rejoins_since_ms, s->now->ms) < run->settings->closed_run_wait_ms ||
            !agent_release(s, a))
            continue;
        agent_set_standing(a, STANDING_REJECTED);
        count++;
    }
    if (count == 0)
        return;
    why = run->awaits_others
              ? "the job has ended well, and no other host has begun it again: rdzvctl "
                "forget, or another --rdzv-id, begins it at once"
          : TAILQ_EMPTY(&run->agents)
              ? "--closed-run-wait is over, and --closed-run-ttl is not"
              : "--closed-run-wait is over, and agents that were in the closed run are still "
                "connected";
    explain_note(s, NOTE_AGENTS_REJECTED, count, why)->closed = is_closed(run);
}
