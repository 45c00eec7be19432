/* Numbers the agents that join an open round: POLICY.md has the problem and the remedy.
 *
 * Invariant: the round never has N participants before an agent has joined as number N, and has
 * neither begun the last call nor completed the round with that, unless it did so here as well.
 * Without it, a round could go past MAX, or reach MIN and wait for ever.
 *
 * If no agent joins for a second, the agents that have a number and have not written lose it. Then
 * the agent with the highest number whose write is held is refused, and joins in place of the
 * missing one. Before the first agent has written, nothing tells the dialect of the state, so only
 * one agent has a number. */
#include "rdzv/rendezvous/policy_internal.h"

#define MOST        128
#define PATIENCE_MS 900

void numbers_drop(struct run *run, struct agent *a)
{
    if (a->number == 0)
        return;
    TAILQ_REMOVE(&run->numbers.agents, a, queue);
    run->numbers.count--;
    a->number = 0;
}

/* How many agents may have a number. A crowd waits until MIN and MAX are known. */
static size_t most(const struct step *s)
{
    const struct looks *l = &s->run->looks;
    bool waits = l->agent != NULL && s->run->agent_count >= s->run->settings->crowd &&
                 clock_elapsed_ms(l->since_ms, s->now->ms) < LOOKS_MS;

    return s->run->view.is_state && !waits ? MOST : 1;
}

static uint64_t joined(const struct step *s)
{
    return s->run->view.participants;
}

/* The lowest number that no agent has. */
uint64_t numbers_give(struct step *s, struct agent *a)
{
    struct numbers *n = &s->run->numbers;
    struct agent *last, *at = NULL;
    uint64_t number = joined(s) + 1;

    numbers_drop(s->run, a);
    last = TAILQ_LAST(&n->agents, agent_list);
    if (last != NULL && last->number == joined(s) + n->count) {
        number = last->number + 1;
    } else {
        TAILQ_FOREACH(at, &n->agents, queue) {
            if (at->number > number)
                break;
            number += at->number == number;
        }
    }
    if (n->count++ == 0)
        n->since_ms = s->now->ms;
    a->number = number;
    if (at == NULL)
        TAILQ_INSERT_TAIL(&n->agents, a, queue);
    else
        TAILQ_INSERT_BEFORE(at, a, queue);
    return number;
}

bool numbers_should_hold_poll(struct step *s, struct agent *a)
{
    if (a->number > joined(s))
        return false;
    if (s->run->numbers.count < most(s)) {
        if (!s->run->view.is_state)
            numbers_give(s, a); /* else it gets one with its view */
        return false;
    }
    agent_hold(s, a, HELD_NUMBER);
    return true;
}

static bool is_limit(const struct run *run, uint64_t number)
{
    return number == run->looks.min_most || number == run->max_nodes;
}

uint64_t numbers_shown(const struct run *run, uint64_t number)
{
    const struct looks *l = &run->looks;
    uint64_t few = 1;

    if (run->agent_count < run->settings->crowd || l->since_ms == 0 || l->agent != NULL ||
        l->min_most == 0 || l->min_least != l->min_most || run->max_nodes == 0 ||
        is_limit(run, number))
        return number;
    while (is_limit(run, few))
        few++;
    return few < number ? few : number;
}

/* If an agent has other limits than the measured one, each agent is shown its own number. */
enum number_verdict numbers_judge(struct step *s, struct agent *a, uint64_t number, bool tells)
{
    struct numbers *n = &s->run->numbers;
    uint64_t next = joined(s) + 1;

    if (number != a->number && number == numbers_shown(s->run, a->number)) {
        if (tells)
            s->run->looks.min_most = 0;
        else
            number = a->number;
    }
    if (number == next || (!tells && next <= n->tried))
        return NUMBER_COUNTS;
    if (number < next || number != a->number || TAILQ_FIRST(&n->agents)->number > next)
        return NUMBER_REFUSED; /* the last: no agent has the next number, so this one gets it */
    if (s->run->held[HELD_JOIN] == 0)
        n->since_ms = s->now->ms;
    agent_hold(s, a, HELD_JOIN);
    return NUMBER_LATER;
}

void numbers_joined(struct step *s, struct agent *a)
{
    struct numbers *n = &s->run->numbers;

    if (n->tried < joined(s))
        n->tried = joined(s);
    n->since_ms = s->now->ms;
    numbers_drop(s->run, a);
}

/* Without memory the next tick tries again. */
static bool resume_join(struct step *s, struct agent *a)
{
    return a->held != HELD_JOIN || agent_release(s, a);
}

/* No agent joins this round any more: each is shown what there is. */
static void end(struct step *s)
{
    struct numbers *n = &s->run->numbers;

    TAILQ_EACH_SAFE(struct agent, a, &n->agents, queue) {
        if (resume_join(s, a))
            numbers_drop(s->run, a);
    }
    n->tried = 0;
    agent_release_all(s, HELD_NUMBER, SIZE_MAX);
}

/* No agent has the next number: the one with the highest number whose write is held gets it. */
static void move_last(struct step *s)
{
    struct numbers *n = &s->run->numbers;
    struct agent *a;

    TAILQ_FOREACH_REVERSE(a, &n->agents, agent_list, queue)
    {
        if (a->held == HELD_JOIN)
            break;
    }
    if (a == NULL || !resume_join(s, a))
        return;
    numbers_drop(s->run, a);
    a->number = joined(s) + 1;
    n->count++;
    TAILQ_INSERT_HEAD(&n->agents, a, queue);
    n->since_ms = s->now->ms;
}

void numbers_check(struct step *s)
{
    struct numbers *n = &s->run->numbers;
    const struct run_view *v = &s->run->view;
    const size_t *held = s->run->held;
    struct agent *a;

    if (n->count == 0 && held[HELD_NUMBER] == 0) {
        n->tried = 0;
        return;
    }
    if (n->round != v->state.round || v->state.complete || v->state.closed || !v->exists ||
        (!v->is_state && held[HELD_JOIN] > 0)) { /* or the run was forgotten */
        end(s);
        n->round = v->state.round;
        return;
    }
    while ((a = TAILQ_FIRST(&n->agents)) != NULL && a->number <= joined(s) && resume_join(s, a))
        numbers_drop(s->run, a);
    if (a != NULL && a->held == HELD_JOIN && (a->number == joined(s) + 1 || joined(s) < n->tried))
        resume_join(s, a);
    else if (a != NULL && held[HELD_JOIN] > 0 && a->number > joined(s) + 1)
        move_last(s);
    if (n->count < most(s))
        agent_release_all(s, HELD_NUMBER, most(s) - n->count);
}

/* All agents that have not written lose their numbers at once: if a rack of machines is frozen, the
 * held writes must not wait a second for each. A later write of such an agent is refused once. */
void numbers_on_tick(struct step *s)
{
    struct numbers *n = &s->run->numbers;

    if ((s->run->held[HELD_JOIN] == 0 && s->run->held[HELD_NUMBER] == 0) ||
        clock_elapsed_ms(n->since_ms, s->now->ms) < PATIENCE_MS)
        return;
    TAILQ_EACH_SAFE(struct agent, a, &n->agents, queue) {
        if (a->held != HELD_JOIN)
            numbers_drop(s->run, a);
    }
    n->since_ms = s->now->ms;
}
