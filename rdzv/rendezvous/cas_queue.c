/* Writing the state of a run: one agent after the other.
 *
 * Torch's agents rewrite the whole state with a compare-and-set. When it fails they try again at
 * once from what the answer says, so a thousand that join together fail a thousand times each. Here
 * an agent that has just been answered the newest state holds the write slot: the compare-and-sets
 * of all others are held until it has written or asks for something else, or for four times as long
 * as agents of this run usually need: less than a second, which an agent of a run of thousands on a
 * slow machine does need, or else none of them would ever be in time. Then the first in the queue
 * is answered, which shows it the newest state, and so on: each agent fails once and succeeds once.
 * A slow network could have done the same, so no meaning changes.
 *
 * A queued agent lives and cannot say so: presence.c keeps its heartbeat fresh. A heartbeat that
 * can be merged (compare_set.c) is never queued. A repair (repair.c) does not wait for the slot,
 * since its node lives now; the holder may fail once more for each. */
#include "rdzv/rendezvous/parts.h"

#define SLOT_LEAST_US 20000
#define SLOT_MOST_US  1000000
#define SLOT_FIRST_US 62500 /* what agents are thought to need before any has shown it */

void cas_queue_init(struct write_slot *slot)
{
    *slot = (struct write_slot){.usual_us = SLOT_FIRST_US};
    TAILQ_INIT(&slot->queue);
}

static void set_timer(struct step *s, uint64_t deadline_ms)
{
    struct write_slot *slot = &s->run->slot;

    if (slot->deadline_ms == deadline_ms)
        return;
    slot->deadline_ms = deadline_ms;
    step_emit(s, POLICY_TIMER)->deadline_ms = deadline_ms;
}

void cas_queue_grant(struct step *s, struct agent *a)
{
    struct write_slot *slot = &s->run->slot;
    uint64_t us = slot->usual_us * 4;

    us = us < SLOT_LEAST_US ? SLOT_LEAST_US : us > SLOT_MOST_US ? SLOT_MOST_US : us;
    slot->holder = a;
    slot->granted_ms = s->now->ms;
    set_timer(s, s->now->ms + us / 1000);
}

/* How long agents hold the slot, in the mean of the last few. One that lost it counts as if it had
 * written just then, so the time grows when all of them lose it. */
static void learn(struct step *s)
{
    struct write_slot *slot = &s->run->slot;
    uint64_t took = clock_elapsed_ms(slot->granted_ms, s->now->ms) * 1000;

    slot->usual_us = (slot->usual_us * 7 + (took < SLOT_MOST_US ? took : SLOT_MOST_US)) / 8;
}

static void dequeue(struct write_slot *slot, struct agent *a)
{
    TAILQ_REMOVE(&slot->queue, a, queue);
    slot->queued--;
    a->queued = false;
}

/* False: no memory; it stays in the queue until the slot is passed on again. */
static bool resume(struct step *s, struct agent *a)
{
    if (!step_resume(s, a))
        return false;
    dequeue(&s->run->slot, a);
    return true;
}

void cas_queue_pass(struct step *s)
{
    struct write_slot *slot = &s->run->slot;
    struct agent *next;

    if (slot->holder != NULL)
        learn(s);
    slot->holder = NULL;
    next = TAILQ_FIRST(&slot->queue);
    if (next == NULL) {
        set_timer(s, 0);
        return;
    }
    cas_queue_grant(s, next);
    resume(s, next);
}

void cas_queue_release(struct step *s)
{
    struct write_slot *slot = &s->run->slot;
    struct agent *a;

    slot->holder = NULL;
    while ((a = TAILQ_FIRST(&slot->queue)) != NULL && resume(s, a)) {
    }
    if (a == NULL)
        set_timer(s, 0);
    else
        cas_queue_grant(s, a);
}

void cas_queue_leave(struct step *s, struct agent *a)
{
    struct write_slot *slot = &s->run->slot;

    if (a->queued)
        dequeue(slot, a);
    if (slot->holder == a)
        cas_queue_pass(s);
}

void cas_queue_yield(struct step *s, const struct agent *a)
{
    if (s->run->slot.holder == a)
        cas_queue_pass(s);
}

bool cas_queue_should_hold(struct step *s, struct agent *a)
{
    struct write_slot *slot = &s->run->slot;

    if (slot->holder == NULL || slot->holder == a)
        return false;
    if (a->queued)
        return true;
    TAILQ_INSERT_TAIL(&slot->queue, a, queue);
    slot->queued++;
    a->queued = true;
    return true;
}

void cas_queue_check_time(struct step *s, bool timer)
{
    uint64_t deadline_ms = s->run->slot.deadline_ms;

    if (deadline_ms == 0)
        return;
    if (s->now->ms >= deadline_ms)
        cas_queue_pass(s);
    else if (timer)
        step_emit(s, POLICY_TIMER)->deadline_ms = deadline_ms; /* it came early */
}
