/* How often an agent polls the state while it trains. See struct agent_pace.
 *
 * An agent of torch has two threads that read the state. The first thread polls the workers each
 * monitor interval, and then reads the state, if the last read is more than a second old. The other
 * one sends a heartbeat each 5 s (keep_alive_interval, 2.7 and later), and reads the state before,
 * if that was read more than a second ago. A lock lets only one of them ask. So a GET that comes 5
 * s after the last heartbeat may be that of either thread, and only while the first one waits for
 * its answer, or for the lock, no thread polls the workers.
 *
 * If the interval may be that of the heartbeats, one GET is held for a second: from then on they
 * come a second later (README.md). If the first thread did not ask during that second, its later
 * GETs show its interval. If it asked, it has waited for the lock and keeps step with the
 * heartbeat; so if no other GET comes for PROVEN_MS, the interval is that of the heartbeats. Or the
 * moment was a bad one: each poll of an agent with an interval of 30 s comes less than a second
 * after a heartbeat. So heartbeats are put off SHIFTS times.
 *
 * Upstream: num_nodes_waiting(), _keep_alive() and sync() (rendezvous/dynamic_rendezvous.py),
 * _invoke_run() (agent/server/api.py); the same in 1.13 to 2.14. */
#include "rdzv/rendezvous/policy_internal.h"

/* A heartbeat may be early by so much, by our clock; two heartbeats are so far apart at least. */
#define BEAT_EARLY_MS 200
#define BEAT_LEAST_MS 900
/* How long a GET is held to put heartbeats off, and how often. */
#define SHIFT_MS 1100
#define SHIFTS   2
/* The longest interval between polls that is waited for in full. */
#define PROVEN_MS 35000
/* Torch keeps an answer for a second, and a busy machine polls later. An agent that has its ranks
 * starts its workers, and only then waits for its interval. */
#define LATE_MS  1500
#define SPAWN_MS 2000

static uint64_t beat_ms(const struct agent_pace *p)
{
    return p->beat_ms != 0 ? p->beat_ms : TORCH_HEARTBEAT_MS;
}

/* A second attempt to write comes too soon to count. One interval alone proves nothing, since its
 * second write may be the one by which the agent leaves: the longer of two in a row counts. */
void pace_note_write(const struct run *run, struct agent *a, uint64_t now_ms)
{
    struct agent_pace *p = &a->pace;
    uint64_t since_ms = clock_elapsed_ms(p->wrote_ms, now_ms);

    if (p->round != run->view.completions)
        return;
    if (p->has_beaten && since_ms >= BEAT_LEAST_MS) {
        uint64_t longer_ms = since_ms > p->gap_ms ? since_ms : p->gap_ms;

        if (p->gap_ms != 0 && longer_ms < beat_ms(p))
            p->beat_ms = longer_ms;
        p->gap_ms = since_ms;
    }
    p->has_beaten = true;
    p->asked_ms = 0;
    p->wrote_ms = now_ms;
}

bool pace_may_beat(const struct agent_pace *p, uint64_t now_ms)
{
    return p->wrote_ms == 0 || clock_elapsed_ms(p->wrote_ms, now_ms) + BEAT_EARLY_MS >= beat_ms(p);
}

void pace_note_interval(struct agent_pace *p, uint64_t interval_ms)
{
    if (interval_ms > MEETING_HOLD_MS)
        interval_ms = MEETING_HOLD_MS;
    if (p->interval_ms < interval_ms)
        p->interval_ms = interval_ms;
    else
        p->interval_ms -= (p->interval_ms - interval_ms) / 16;
}

/* For PROVEN_MS, only the thread of its heartbeat has asked. While a GET is held, no thread can. */
static bool is_proven(const struct agent_pace *p, uint8_t shifts, uint64_t now_ms)
{
    return p->shifts >= shifts && clock_elapsed_ms(p->shifted_ms, now_ms) >= PROVEN_MS;
}

void pace_note_get(const struct run *run, struct agent *a, uint64_t now_ms)
{
    struct agent_pace *p = &a->pace;

    if (!run->view.state.complete || p->round != run->view.completions ||
        (a->has_ranks_of != run->view.completions && p->wrote_ms != 0) ||
        a->has_left == run->view.completions)
        return;
    if (p->asked_ms != 0 && p->polled_ms != 0)
        pace_note_interval(p, clock_elapsed_ms(p->polled_ms, p->asked_ms));
    else if (p->interval_ms == 0 && !p->was_in &&
             !pace_may_beat(p, now_ms)) /* the first poll, or soon after */
        pace_note_interval(p, clock_elapsed_ms(p->seen_ms, now_ms));
    if (p->interval_ms == 0 && is_proven(p, SHIFTS, now_ms))
        p->interval_ms = TORCH_HEARTBEAT_MS;
    if (p->asked_ms != 0)
        p->polled_ms = p->asked_ms;
    p->asked_ms = now_ms;
}

void pace_note_released(struct agent *a, uint64_t now_ms)
{
    a->pace.polled_ms = a->pace.may_beat ? 0 : now_ms;
    a->pace.asked_ms = a->pace.shifts = 0; /* both threads go on at the same moment */
}

/* An agent leaves a round after a poll of its workers, so its interval is no longer than the time
 * since it started them. A long time tells too little. */
void pace_note_left(struct agent *a, uint64_t now_ms)
{
    uint64_t ms = clock_elapsed_ms(a->pace.seen_ms, now_ms);

    if (a->pings && a->pace.interval_ms == 0 && !a->pace.was_in && ms < 3 * TORCH_HEARTBEAT_MS)
        a->pace.interval_ms = ms;
}

/* Its relay repeats the poll that was not answered, so the time since that poll is no interval. */
void pace_note_back(struct agent *a)
{
    a->pace.asked_ms = a->pace.polled_ms = 0;
}

/* Before torch 2.4, the default is 5 s. */
uint64_t pace_interval_ms(const struct agent *a)
{
    return a->pace.interval_ms == 0 && !a->pings ? TORCH_HEARTBEAT_MS : a->pace.interval_ms;
}

/* Since the last write, a poll of the workers has sent a GET, unless torch still kept the answer.
 * So the next poll comes an interval after one of these at the latest. */
bool pace_is_due(const struct agent *a, uint64_t interval_ms, uint64_t now_ms)
{
    const struct agent_pace *p = &a->pace;
    uint64_t held_ms = clock_elapsed_ms(a->held_since_ms, now_ms);

    return interval_ms != 0 && (held_ms >= interval_ms ||
                                (held_ms != 0 && p->wrote_ms != 0 &&
                                 clock_elapsed_ms(p->wrote_ms, now_ms) >= interval_ms + LATE_MS &&
                                 clock_elapsed_ms(p->polled_ms, now_ms) >= interval_ms + LATE_MS &&
                                 clock_elapsed_ms(p->seen_ms, now_ms) >= interval_ms + SPAWN_MS));
}

/* A start, or an absence of its relay, does not change when an agent sends its next heartbeat. */
static uint64_t last_beat_ms(const struct run *run, const struct agent *a, uint64_t now_ms)
{
    if (a->pace.round == run->view.completions)
        return a->pace.wrote_ms;
    return a->origin == ORIGIN_RETURNED ? 0 : now_ms;
}

void pace_note_seen(const struct run *run, struct agent *a, uint64_t now_ms)
{
    uint64_t wrote_ms = last_beat_ms(run, a, now_ms);

    a->pace = (struct agent_pace){.round = run->view.completions,
                                  .seen_ms = now_ms,
                                  .wrote_ms = wrote_ms,
                                  .was_in = wrote_ms != now_ms,
                                  .interval_ms = a->pace.interval_ms,
                                  .beat_ms = a->pace.beat_ms};
}

/* --- Heartbeats are put off. --- */

bool pace_should_hold(struct step *s, struct agent *a)
{
    struct agent_pace *p = &a->pace;

    if (s->run->meeting.phase != MEETING_NONE || s->run->view.state.closed ||
        run_is_finishing(s->run, s->run->view.state.round) || p->interval_ms != 0 ||
        p->asked_ms == 0 || p->wrote_ms == 0 || !pace_may_beat(p, s->now->ms) ||
        p->shifts == SHIFTS || (p->shifts != 0 && !is_proven(p, p->shifts, s->now->ms)))
        return false;
    agent_hold(s, a, HELD_SHIFTED);
    return true;
}

void pace_forget_shifts(struct run *run)
{
    AGENTS_FOREACH(a, &run->agents)
        a->pace.shifts = 0;
}

void pace_on_tick(struct step *s)
{
    TAILQ_EACH_SAFE(struct agent, a, &s->run->held_agents[HELD_SHIFTED], held_entry) {
        if (clock_elapsed_ms(a->held_since_ms, s->now->ms) < SHIFT_MS || !agent_release(s, a))
            continue;
        a->pace.shifted_ms = s->now->ms;
        a->pace.shifts++;
        a->pace.asked_ms = 0;
    }
}
