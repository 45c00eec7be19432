/* The states of an agent, and the legal moves between them. See agent.h. */
#include <assert.h>

#include "rdzv/rendezvous/policy_internal.h"

#define MOVE(to) (1u << (to))

void agent_set_origin(struct agent *a, enum agent_origin next)
{
    static const unsigned legal[] = {
        [ORIGIN_TOOL] = MOVE(ORIGIN_RETURNED) | MOVE(ORIGIN_AGENT),
        [ORIGIN_UNNAMED] = MOVE(ORIGIN_RETURNED) | MOVE(ORIGIN_AGENT),
        [ORIGIN_RETURNED] = MOVE(ORIGIN_AGENT),
        [ORIGIN_AGENT] = MOVE(ORIGIN_AGENT),
    };

    assert(legal[a->origin] & MOVE(next));
    a->origin = next;
}

void agent_note_wrote(struct agent *a)
{
    if (a->origin == ORIGIN_RETURNED)
        agent_set_origin(a, ORIGIN_AGENT);
}

void agent_set_link(struct agent *a, enum agent_link next)
{
    static const unsigned legal[] = {
        [LINK_HERE] = MOVE(LINK_HERE) | MOVE(LINK_AWAY),
        [LINK_AWAY] = MOVE(LINK_HERE) | MOVE(LINK_AWAY) | MOVE(LINK_GONE),
        [LINK_GONE] = MOVE(LINK_HERE) | MOVE(LINK_AWAY),
    };

    assert(legal[a->link] & MOVE(next));
    a->link = next;
}

void agent_set_standing(struct agent *a, enum agent_standing next)
{
    static const unsigned legal[] = {
        [STANDING_MEMBER] = MOVE(STANDING_MEMBER) | MOVE(STANDING_REJOINS),
        [STANDING_REJOINS] = MOVE(STANDING_MEMBER) | MOVE(STANDING_REJECTED),
        [STANDING_REJECTED] = MOVE(STANDING_MEMBER),
    };

    assert(legal[a->standing] & MOVE(next));
    a->standing = next;
}

void agent_set_line(struct agent *a, enum agent_line next)
{
    a->line = next;
    a->shown_wait_ms = 0;
}

/* --- Its request that is answered later. --- */

/* The hold of a write that is done, so that only its answer waits. */
static bool is_done(enum agent_held held)
{
    return held == HELD_LONG_ANSWER || held == HELD_LATE;
}

static enum agent_held released(enum agent_held held)
{
    return is_done(held) ? HELD_RELEASED_ANSWER : HELD_RELEASED;
}

static void set_held(struct run *run, struct agent *a, enum agent_held next)
{
    assert(a->held == HELD_NONE
               ? next != HELD_NONE && next < HELD_RELEASED
               : next == HELD_NONE || (agent_is_held(a) && next == released(a->held)));
    if (a->held != HELD_NONE) {
        run->held[a->held]--;
        TAILQ_REMOVE(&run->held_agents[a->held], a, held_entry);
    }
    if (next != HELD_NONE) {
        run->held[next]++;
        TAILQ_INSERT_TAIL(&run->held_agents[next], a, held_entry);
    }
    a->held = next;
}

void agent_drop_held(struct run *run, struct agent *a)
{
    if (a->held != HELD_NONE)
        set_held(run, a, HELD_NONE);
}

enum agent_held agent_note_asked(struct run *run, struct agent *a, bool writes, uint64_t now_ms)
{
    bool wrote = is_done(a->held) || a->held == HELD_JOIN || a->held == HELD_REJOIN;
    enum agent_held was;

    if (agent_is_held(a) && wrote != writes)
        agent_drop_held(run, a);
    was = a->held;
    if (was == HELD_NONE) {
        a->clock.asked_before_ms = a->clock.asked_ms;
        a->clock.asked_ms = now_ms;
    } else if (!agent_is_held(a)) {
        set_held(run, a, HELD_NONE);
    }
    return was;
}

void agent_hold(struct step *s, struct agent *a, enum agent_held why)
{
    set_held(s->run, a, why);
    a->held_since_ms = s->now->ms;
}

bool agent_release(struct step *s, struct agent *a)
{
    if (is_done(a->held) && s->run->view.late != 0)
        step_catch_up(s);
    if (step_agent(s, POLICY_RESUME, a) == &s->out->lost)
        return false;
    set_held(s->run, a, released(a->held));
    return true;
}

void agent_release_all(struct step *s, enum agent_held why, size_t most)
{
    TAILQ_EACH_SAFE(struct agent, a, &s->run->held_agents[why], held_entry) {
        if (most == 0)
            return;
        most -= agent_release(s, a);
    }
}
