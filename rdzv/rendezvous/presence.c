/* Keeps the heartbeats of nodes that live. An agent of torch sends none while it waits for a reply,
 * such as for the ranks of a round, which may take a minute; and the others presume it dead when
 * its last one is 15 s old. Here it is known when each agent has last asked, and whether it waits
 * for a reply: its node's heartbeat is moved on to then. A frozen process asks for nothing, so its
 * heartbeat grows as old as torch wants, or as --silent-node-timeout. */
#include "proto/torch/torch_timing.h"
#include "rdzv/rendezvous/explain.h"
#include "rdzv/rendezvous/parts.h"

/* Younger heartbeats are good as they are: agents send one each 5 s. */
#define STALE_US INT64_C(7000000)
/* What a heartbeat is moved on by, at least. */
#define STEP_US INT64_C(1000000)

void presence_heard(struct step *s, struct agent *a, bool waits)
{
    a->heard_ms = s->now->ms;
    a->waits = waits;
}

void presence_stood_still(struct step *s, uint64_t still_ms)
{
    struct agent *a;

    TAILQ_FOREACH(a, &s->run->agents, entry) {
        uint64_t ago_ms = clock_elapsed_ms(a->heard_ms, s->now->ms);

        a->heard_ms += still_ms < ago_ms ? still_ms : ago_ms;
        a->pace.shifts = 0; /* both threads of the agent waited, and go on at the same moment */
    }
}

/* A held request is one that waits, too. */
static bool waits_for_reply(const struct step *s, const struct agent *a)
{
    if (a->away)
        return false;
    return a->queued || a->waiting || (a->look != LOOK_FREE && a->look != LOOK_RELEASED) ||
           (a->waits && clock_elapsed_ms(a->heard_ms, s->now->ms) < TORCH_READ_TIMEOUT_MS);
}

uint64_t presence_silent_ms(const struct step *s, const struct torch_node *node)
{
    const struct agent *a = run_agent_of(s->run, node);

    return a == NULL || waits_for_reply(s, a) ? 0 : clock_elapsed_ms(a->heard_ms, s->now->ms);
}

/* How long ago the agent lived, as far as the others are to know: one that is silent lives until
 * silent_node_ms are over, also where that is longer than they would wait. */
static uint64_t lived_ago_ms(const struct step *s, const struct agent *a)
{
    uint64_t ago_ms = clock_elapsed_ms(a->heard_ms, s->now->ms);

    if (waits_for_reply(s, a) || (s->run->settings->silent_node_ms > TORCH_DEAD_MS &&
                                  ago_ms < s->run->settings->silent_node_ms))
        return 0;
    return ago_ms;
}

/* When the node of this heartbeat is known to have lived, by its agent's clock. False: its agent is
 * not connected, or nothing newer is known. */
static bool lived_at(const struct step *s, const struct torch_node *node, int64_t *us)
{
    const struct agent *a = run_agent_of(s->run, node);
    uint64_t ago_ms;
    int64_t now_us;

    if (a == NULL || !node->has_heartbeat || !step_agent_time(s, a, &now_us) ||
        node->heartbeat_us >= now_us - STALE_US)
        return false;
    ago_ms = lived_ago_ms(s, a);
    if (ago_ms > TORCH_READ_TIMEOUT_MS)
        return false;
    *us = now_us - (int64_t)ago_ms * 1000;
    return *us - STEP_US > node->heartbeat_us;
}

static bool is_any_stale(const struct step *s)
{
    const struct torch_state *state = &s->run->view.state;
    int64_t us;

    for (size_t i = 0; i < state->count; i++) {
        if (lived_at(s, &state->nodes[i], &us))
            return true;
    }
    return false;
}

void presence_refresh(struct step *s)
{
    struct torch_state next;
    int64_t us;

    if (!step_is_open(s) || !is_any_stale(s) || !step_read_state(s, &next))
        return;
    for (size_t i = 0; i < next.count; i++) {
        if (lived_at(s, &next.nodes[i], &us))
            next.nodes[i].heartbeat_us = us;
    }
    step_put_state(s, &next, 0);
    torch_state_free(&next);
}

/* The node has a heartbeat older than this, by its agent's clock if it is connected. */
static bool is_older(const struct step *s, const struct torch_node *node, int64_t us)
{
    const struct agent *a = run_agent_of(s->run, node);
    int64_t now_us = s->now->wall_ns / 1000;

    if (a != NULL && !step_agent_time(s, a, &now_us))
        return false;
    return node->has_heartbeat && node->heartbeat_us < now_us - us;
}

bool presence_is_too_old(const struct step *s, const struct torch_node *node)
{
    return is_older(s, node, TORCH_DEAD_MS * INT64_C(1000));
}

bool presence_misses_heartbeats(const struct step *s)
{
    const struct torch_state *state = &s->run->view.state;

    for (size_t i = 0; i < state->count; i++) {
        const struct torch_node *node = &state->nodes[i];
        const struct agent *a;

        if (!node->participant || !presence_is_too_old(s, node))
            continue;
        a = run_agent_of(s->run, node);
        if (a == NULL || !waits_for_reply(s, a))
            return true;
    }
    return false;
}

static bool is_one_older(const struct step *s, int64_t us)
{
    const struct torch_state *state = &s->run->view.state;

    for (size_t i = 0; i < state->count; i++) {
        if (state->nodes[i].participant && is_older(s, &state->nodes[i], us))
            return true;
    }
    return false;
}

bool presence_is_one_silent(const struct step *s)
{
    return is_one_older(s, TORCH_DEAD_MS * INT64_C(1000));
}

bool presence_may_one_look_silent(const struct step *s)
{
    return is_one_older(s, TORCH_DEAD_MS * INT64_C(1000) - CLOCKS_US);
}

bool presence_is_any_silent(struct step *s)
{
    struct run *run = s->run;

    if (clock_elapsed_ms(run->silent_checked_ms, s->now->ms) >= 1000) {
        run->is_any_silent = presence_is_one_silent(s);
        run->silent_checked_ms = s->now->ms;
    }
    return run->is_any_silent;
}

bool presence_is_stranger(const struct step *s, const struct agent *a)
{
    return a->is_back && a->nodes == 0 && step_is_open(s) &&
           explain_role(run_node_of(s->run, a)) == NULL;
}
