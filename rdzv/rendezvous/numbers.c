/* Numbers the agents that join an open round.
 *
 * Problem: MIN and MAX are in no message. Torch's agent counts the participants that it is shown,
 * and only the agent that joins as number MIN sets the deadline of the last call, and only the one
 * that joins as number MAX completes the round. If two agents are shown the same count, both join
 * as the same number. Torch's store refuses one of them, so a thousand agents that join together
 * are refused a thousand times each.
 *
 * Remedy: each agent that is about to join is shown one participant more than the agent before it,
 * as if that one had joined already. So each agent writes once, whatever the order in which the
 * writes come. A write that comes too early is held until the numbers before it have been tried.
 *
 * Invariant: the round never has N participants before an agent has joined as number N, and has
 * neither begun the last call nor completed the round with that, unless it did so here as well.
 * Without it, a round could go past MAX, or reach MIN and wait for ever.
 *
 * If no agent joins for a second, those that have a number and have not written lose it; an agent
 * whose connection has ended loses it at once. The agent with the highest number whose write is
 * held is then refused, and joins in place of the missing one. MOST agents have a number at a time,
 * so that a text is not much longer than the state; the looks of further agents are held. Before
 * the first agent has written, nothing tells the dialect of the state, so one agent only has a
 * number. */
#include "rdzv/rendezvous/parts.h"

#define MOST        128
#define PATIENCE_MS 900

void numbers_init(struct numbers *n)
{
    *n = (struct numbers){0};
    TAILQ_INIT(&n->agents);
}

static void drop(struct numbers *n, struct agent *a)
{
    if (a->number == 0)
        return;
    TAILQ_REMOVE(&n->agents, a, queue);
    n->count--;
    a->number = 0;
}

/* How many agents may have a number. */
static size_t most(const struct step *s)
{
    return s->run->view.is_state ? MOST : 1;
}

static uint64_t joined(const struct step *s)
{
    return s->run->view.participants;
}

/* Gives the agent the lowest number that no agent has. */
static void give(struct step *s, struct agent *a)
{
    struct numbers *n = &s->run->numbers;
    struct agent *last = TAILQ_LAST(&n->agents, agent_list), *at;
    uint64_t number = joined(s) + 1;

    if (last != NULL && last->number == joined(s) + n->count) {
        number = last->number + 1;
        at = NULL;
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
}

uint64_t numbers_give(struct step *s, struct agent *a)
{
    drop(&s->run->numbers, a);
    give(s, a);
    return a->number;
}

bool numbers_should_hold_look(struct step *s, struct agent *a)
{
    struct numbers *n = &s->run->numbers;

    if (a->number > joined(s))
        return false;
    if (a->look != LOOK_NUMBER && n->count < most(s)) {
        if (!s->run->view.is_state)
            numbers_give(s, a); /* else it gets one with its view */
        return false;
    }
    if (a->look != LOOK_NUMBER)
        n->looks++;
    a->look = LOOK_NUMBER;
    return true;
}

enum number_verdict numbers_judge(struct step *s, struct agent *a, uint64_t number, bool tells)
{
    struct numbers *n = &s->run->numbers;
    uint64_t next = joined(s) + 1;

    if (number == next || (!tells && next <= n->tried))
        return NUMBER_COUNTS;
    if (number < next || number != a->number || TAILQ_FIRST(&n->agents)->number > next)
        return NUMBER_REFUSED; /* the last: no agent has the next number, so this one gets it */
    if (n->held++ == 0)
        n->since_ms = s->now->ms;
    a->holds_join = true;
    return NUMBER_LATER;
}

void numbers_joined(struct step *s, struct agent *a, uint64_t number)
{
    struct numbers *n = &s->run->numbers;

    if (n->tried < number && number <= joined(s))
        n->tried = number;
    n->since_ms = s->now->ms;
    drop(n, a);
}

/* Without memory the next tick tries again. */
static bool resume_join(struct step *s, struct agent *a)
{
    if (!a->holds_join)
        return true;
    if (!step_resume(s, a))
        return false;
    a->holds_join = false;
    s->run->numbers.held--;
    return true;
}

static void resume_looks(struct step *s, size_t count)
{
    struct agent *a;

    if (s->run->numbers.looks == 0 || count == 0)
        return;
    TAILQ_FOREACH(a, &s->run->agents, entry) {
        if (a->look != LOOK_NUMBER || !step_resume(s, a))
            continue;
        a->look = LOOK_RELEASED;
        s->run->numbers.looks--;
        if (--count == 0)
            return;
    }
}

void numbers_leave(struct run *run, struct agent *a)
{
    drop(&run->numbers, a);
    run->numbers.held -= a->holds_join;
    a->holds_join = false;
    run->numbers.looks -= a->look == LOOK_NUMBER;
    if (a->look == LOOK_NUMBER)
        a->look = LOOK_FREE;
}

/* No agent joins this round any more: each is shown what there is. */
static void end(struct step *s)
{
    struct numbers *n = &s->run->numbers;
    struct agent *a, *next;

    for (a = TAILQ_FIRST(&n->agents); a != NULL; a = next) {
        next = TAILQ_NEXT(a, queue);
        if (resume_join(s, a))
            drop(n, a);
    }
    n->tried = 0;
    resume_looks(s, SIZE_MAX);
}

/* No agent has the next number: the one with the highest number whose write is held gets it. */
static void move_last(struct step *s)
{
    struct numbers *n = &s->run->numbers;
    struct agent *a;

    TAILQ_FOREACH_REVERSE(a, &n->agents, agent_list, queue)
    {
        if (a->holds_join)
            break;
    }
    if (a == NULL || !resume_join(s, a))
        return;
    drop(n, a);
    a->number = joined(s) + 1;
    n->count++;
    TAILQ_INSERT_HEAD(&n->agents, a, queue);
    n->since_ms = s->now->ms;
}

void numbers_check(struct step *s)
{
    struct numbers *n = &s->run->numbers;
    const struct run_view *v = &s->run->view;
    struct agent *a;

    if (n->count == 0 && n->looks == 0) {
        n->tried = 0;
        return;
    }
    if (n->round != v->state.round || v->state.complete || v->state.closed || !v->exists ||
        (!v->is_state && n->held > 0)) { /* or the run was forgotten */
        end(s);
        n->round = v->state.round;
        return;
    }
    while ((a = TAILQ_FIRST(&n->agents)) != NULL && a->number <= joined(s) && resume_join(s, a))
        drop(n, a);
    if (a != NULL && a->holds_join && (a->number == joined(s) + 1 || joined(s) < n->tried))
        resume_join(s, a);
    else if (a != NULL && n->held > 0 && a->number > joined(s) + 1)
        move_last(s);
    if (n->count < most(s))
        resume_looks(s, most(s) - n->count);
}

/* The numbers of all agents that have not written go to others at once: if a rack of machines is
 * frozen, the held writes must not wait a second for each of them. One that writes later is refused
 * once. */
void numbers_on_tick(struct step *s)
{
    struct numbers *n = &s->run->numbers;
    struct agent *a, *next;

    if ((n->held == 0 && n->looks == 0) || clock_elapsed_ms(n->since_ms, s->now->ms) < PATIENCE_MS)
        return;
    for (a = TAILQ_FIRST(&n->agents); a != NULL; a = next) {
        next = TAILQ_NEXT(a, queue);
        if (!a->holds_join)
            drop(n, a);
    }
    n->since_ms = s->now->ms;
}
