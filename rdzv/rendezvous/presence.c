/* Which nodes live. An agent of torch sends no heartbeat while it waits for a reply, such as for
 * the ranks of a round, which may take a minute. rdzvd knows when each agent sent its last request,
 * and whether the agent waits for a reply. A frozen process asks for nothing: it is lost after
 * --silent-node-timeout, or torch's 15 s. If no agent of a node is connected, its last heartbeat
 * counts, which is in the state by our clock. */
#include "rdzv/rendezvous/policy_internal.h"

/* A held request is one that waits, too. */
static bool waits_for_reply(const struct step *s, const struct agent *a)
{
    return a->link == LINK_HERE &&
           (agent_is_held(a) ||
            (a->waits && clock_elapsed_ms(a->heard_ms, s->now->lived_ms) < TORCH_READ_TIMEOUT_MS));
}

/* Notes how long the agent is silent at most, of late: 30 s if that is its keep_alive_interval. */
void presence_heard(struct step *s, struct agent *a, bool waits)
{
    uint64_t ms = clock_elapsed_ms(a->heard_ms, s->now->lived_ms);
    bool counts = a->heard_ms != 0 && a->held == HELD_NONE && !waits_for_reply(s, a);

    if (counts && a->silence_ms < ms)
        a->silence_ms = ms;
    else if (counts)
        a->silence_ms -= (a->silence_ms - ms) / 8;
    if (clock_elapsed_ms(a->heard_ms, s->now->lived_ms) >= STEERING_HERE_MS)
        s->run->places_at_ms = 0; /* its node may have its place again */
    a->heard_ms = s->now->lived_ms;
    a->waits = waits;
}

uint64_t presence_silent_ms(const struct step *s, const struct torch_node *node)
{
    const struct agent *a = run_agent_of(s->run, node);

    return a == NULL || waits_for_reply(s, a) ? 0 : clock_elapsed_ms(a->heard_ms, s->now->lived_ms);
}

/* Torch takes a node for dead after three intervals without a heartbeat. */
static uint64_t limit_ms(const struct run *run, const struct agent *a)
{
    if (run->settings->silent_node_ms != 0)
        return run->settings->silent_node_ms;
    return a->silence_ms * 3 > TORCH_DEAD_MS ? a->silence_ms * 3 : TORCH_DEAD_MS;
}

bool presence_is_lost(const struct step *s, const struct torch_node *node, uint64_t least_ms)
{
    const struct agent *a = run_agent_of(s->run, node);
    uint64_t most_ms = a == NULL ? TORCH_DEAD_MS : limit_ms(s->run, a);

    if (most_ms < least_ms)
        most_ms = least_ms;
    if (a != NULL)
        return !waits_for_reply(s, a) && clock_elapsed_ms(a->heard_ms, s->now->lived_ms) >= most_ms;
    return s->run->start == START_OVER && node->has_heartbeat &&
           node->heartbeat_us < s->now->wall_ns / 1000 - (int64_t)most_ms * 1000;
}
