/* By how much the clock of an agent is ahead of ours.
 *
 * Torch's agents compare the times in a state with their own clocks: an agent whose clock is 15 s
 * ahead takes all other nodes for dead, and each agent reads the deadline of a last call
 * differently. So the state has all times by our clock. A time is converted when an agent writes
 * it, and back when an agent is shown it (agent_view.c). rdzvd learns the clock of an agent from
 * its first heartbeat, or after a start from the agent's memo (resume_hint.c). */
#include "rdzv/rendezvous/policy_internal.h"

/* So much may be the network's. */
#define NEAR_US INT64_C(5000000)
/* A change of that is worth a memo. */
#define STEP_US INT64_C(1000000)

static bool is_near(int64_t a, int64_t b, int64_t by_us)
{
    int64_t apart;

    return !__builtin_sub_overflow(a, b, &apart) && apart <= by_us && apart >= -by_us;
}

bool agent_clock_is_same(const struct agent *a, const struct agent *b)
{
    return is_near(a->clock.ahead_us, b->clock.ahead_us, NEAR_US);
}

static int64_t add(int64_t at_us, int64_t by_us)
{
    if (__builtin_add_overflow(at_us, by_us, &at_us))
        return by_us < 0 ? INT64_MIN : INT64_MAX;
    return at_us;
}

int64_t agent_clock_from_ours(const struct agent *a, int64_t our_us)
{
    return add(our_us, a->clock.ahead_us);
}

int64_t agent_clock_to_ours(const struct agent *a, int64_t agents_us)
{
    int64_t us;

    return __builtin_sub_overflow(agents_us, a->clock.ahead_us, &us) ? agents_us : us;
}

/* If rdzvd or the network stood still, a heartbeat arrives late, so the agent's clock seems to be
 * behind. But the agent sent the heartbeat after its previous request, so the delay is at most the
 * time since that request. These two limits leave a range for the difference of the clocks; rdzvd
 * takes the value of this range nearest to the previous difference. */
static int64_t ahead_by(const struct step *s, const struct agent *a, int64_t heartbeat_us,
                        uint64_t asked_before_ms)
{
    int64_t was_us = a->has_clock ? a->clock.ahead_us : 0, least_us, most_us;

    if (__builtin_sub_overflow(heartbeat_us, s->now->wall_ns / 1000, &least_us))
        return 0;
    if (was_us < least_us)
        return least_us;
    if (asked_before_ms == 0)
        return was_us; /* it may have come before a start */
    most_us = add(least_us, (int64_t)clock_elapsed_ms(asked_before_ms, s->now->ms) * 1000);
    return was_us > most_us ? most_us : was_us;
}

bool agent_clock_is_steady(const struct step *s, const struct agent *a, int64_t heartbeat_us,
                           int64_t *us)
{
    int64_t ahead_us = ahead_by(s, a, heartbeat_us, a->clock.asked_ms);

    return a->has_clock && is_near(ahead_us, a->clock.kept_us, STEP_US) &&
           !__builtin_sub_overflow(heartbeat_us, ahead_us, us);
}

void agent_clock_learn(struct step *s, struct agent *a, int64_t heartbeat_us)
{
    struct agent_clock *c = &a->clock;

    if (a->has_clock && heartbeat_us == c->beat_us)
        return;
    c->beat_us = heartbeat_us;
    c->ahead_us = ahead_by(s, a, heartbeat_us, c->asked_before_ms);
    a->has_clock = true;
    if (!is_near(c->ahead_us, c->kept_us, STEP_US))
        resume_hint_keep(s, a);
}
