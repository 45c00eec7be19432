/* Agents whose clocks are wrong. A state has times in it, each by the clock of the agent that wrote
 * it, and torch's agents compare them with their own clock: one that is 15 s ahead of the others
 * presumes them all dead, and the deadline of a last call means something else to each.
 *
 * How far a clock is ahead is known from each heartbeat, when it comes. Up to SKEW_LEAST_US that
 * does no harm, and is taken for the network. An agent beyond that is shown the whole state in its
 * own clock, and so are the others while it is in there: each heartbeat and the deadline are moved
 * by the difference of the two clocks. What the agent writes is moved back. The value itself has
 * heartbeats as torch would have put them there, and the deadline by our clock (last_call.c): it
 * outlives the agent that has set it, and a start of the daemon.
 *
 * The clock of an agent that starts is not known before its first heartbeat; after a start of the
 * daemon, that of one behind a relay is (memo.c). Until then, in what it is shown, nodes that live
 * have heartbeats that no clock takes for too old, and nodes that are silent have some that every
 * clock takes for that. */
#include "rdzv/rendezvous/wish.h"

#include "proto/torch/torch_merge.h"
#include "rdzv/rendezvous/parts.h"

#define SKEW_LEAST_US INT64_C(5000000)
/* The same skew is not learned anew for less: what an agent was shown is recognized by its bytes.
 */
#define SKEW_STEP_US INT64_C(1000000)
/* Further than clocks are wrong. */
#define FAR_US (INT64_C(10) * 365 * 24 * 3600 * 1000000)

static bool is_near(int64_t a, int64_t b)
{
    int64_t apart;

    return !__builtin_sub_overflow(a, b, &apart) && apart <= SKEW_STEP_US && apart >= -SKEW_STEP_US;
}

bool skew_is_same(const struct agent *a, const struct agent *b)
{
    return is_near(a->skew_us, b->skew_us);
}

static void set_skew(struct step *s, struct agent *a, int64_t skew_us)
{
    s->run->skewed -= a->skew_us != 0;
    s->run->skewed += skew_us != 0;
    a->skew_us = skew_us;
}

static void learn_skew(struct step *s, struct agent *a)
{
    int64_t ahead_us = a->clock_ahead_us;
    bool small = ahead_us <= SKEW_LEAST_US && ahead_us >= -SKEW_LEAST_US;
    int64_t skew_us = small ? 0 : ahead_us;

    if (!is_near(skew_us, a->skew_us))
        set_skew(s, a, skew_us);
}

static int64_t moved(int64_t at_us, int64_t from_skew_us, int64_t to_skew_us)
{
    int64_t by_us;

    if (__builtin_sub_overflow(to_skew_us, from_skew_us, &by_us) ||
        __builtin_add_overflow(at_us, by_us, &at_us))
        return INT64_MAX;
    return at_us;
}

/* A heartbeat may have been under way for long, such as while rdzvd stood still or the network did,
 * so it makes the clock look as if it was behind. But the agent has sent it after its request
 * before, so by no more than the time since. Of what the clock may be ahead by then, that is taken
 * which is nearest to what it was taken for. */
static int64_t ahead_by(const struct step *s, const struct agent *a, int64_t heartbeat_us)
{
    int64_t was_us = a->has_clock ? a->clock_ahead_us : 0, least_us, most_us;

    if (__builtin_sub_overflow(heartbeat_us, s->now->wall_ns / 1000, &least_us))
        return 0;
    if (was_us < least_us)
        return least_us;
    if (a->asked_before_ms == 0)
        return was_us; /* it may have come before a start */
    most_us = moved(least_us, 0, (int64_t)clock_elapsed_ms(a->asked_before_ms, s->now->ms) * 1000);
    return was_us > most_us ? most_us : was_us;
}

void skew_learn(struct step *s, struct agent *a, int64_t heartbeat_us)
{
    if (a->has_clock && heartbeat_us == a->clock_beat_us)
        return;
    a->clock_beat_us = heartbeat_us;
    a->clock_ahead_us = ahead_by(s, a, heartbeat_us);
    a->has_clock = true;
    learn_skew(s, a);
    if (!is_near(a->clock_ahead_us, a->kept_ahead_us))
        memo_keep(s, a);
}

/* Moves the heartbeat of its node, if it has one, from one clock to another. */
static void move_beat(struct step *s, const struct agent *a, int64_t from_us, int64_t to_us)
{
    struct torch_node *node;
    struct torch_state next;

    if (!a->is_listed || !step_is_open(s) || !step_read_state(s, &next))
        return;
    node = torch_state_find(&next, &a->node);
    if (node != NULL && node->has_heartbeat) {
        node->heartbeat_us = moved(node->heartbeat_us, from_us, to_us);
        step_put_state(s, &next, 0);
    }
    torch_state_free(&next);
}

/* Its node may stay, and its clock is not known any more: its heartbeat is moved to ours. */
void skew_forget(struct step *s, struct agent *a)
{
    int64_t skew_us = a->skew_us;

    set_skew(s, a, 0);
    if (skew_us != 0)
        move_beat(s, a, skew_us, 0);
}

/* The heartbeat is by our clock: skew_forget() has put it so, or repair_add_lost_beats(). */
void skew_recall(struct step *s, struct agent *a, int64_t ahead_us)
{
    a->has_clock = true;
    a->clock_ahead_us = ahead_us;
    learn_skew(s, a);
    if (a->skew_us != 0)
        move_beat(s, a, 0, a->skew_us);
}

/* --- The state in the clock of an agent. --- */

static int64_t skew_of(const struct run *run, const struct torch_node *node)
{
    const struct agent *a = run_agent_of(run, node);

    return a == NULL ? 0 : a->skew_us;
}

/* The heartbeat of a node of the state, as `a` sees it. */
static int64_t beat_seen(const struct step *s, const struct agent *a, const struct torch_node *node)
{
    if (a->sees_far)
        return moved(node->heartbeat_us, 0, presence_is_too_old(s, node) ? -FAR_US : FAR_US);
    return moved(node->heartbeat_us, skew_of(s->run, node), a->skew_us);
}

static int64_t deadline_seen(const struct agent *a, int64_t deadline_us)
{
    return moved(deadline_us, 0, a->sees_far ? 0 : a->skew_us);
}

int64_t skew_deadline(const struct agent *a, int64_t deadline_us)
{
    return moved(deadline_us, a->skew_us, 0);
}

/* True: some are other times now. */
static bool move_times(const struct step *s, const struct agent *a, struct torch_state *state)
{
    bool any = false;

    for (size_t i = 0; i < state->count; i++) {
        struct torch_node *node = &state->nodes[i];
        int64_t us = node->has_heartbeat ? beat_seen(s, a, node) : node->heartbeat_us;

        any = any || us != node->heartbeat_us;
        node->heartbeat_us = us;
    }
    if (state->has_deadline) {
        int64_t us = deadline_seen(a, state->deadline_us);

        any = any || us != state->deadline_us;
        state->deadline_us = us;
    }
    return any;
}

/* A tool sees what there is. */
static bool may_apply(const struct step *s, const struct agent *a)
{
    const struct run *run = s->run;

    return run->view.is_state && a->is_introduced && (a->sees_far || run->skewed != 0);
}

enum seen { SEEN_AS_IT_IS, SEEN_MOVED, SEEN_NO_MEMORY };

static enum seen see(struct step *s, const struct agent *a, struct slice *text)
{
    enum seen seen = SEEN_NO_MEMORY;
    struct torch_state state;

    if (!may_apply(s, a))
        return SEEN_AS_IT_IS;
    if (!step_read_state(s, &state))
        return SEEN_NO_MEMORY;
    if (!move_times(s, a, &state))
        seen = SEEN_AS_IT_IS;
    else if (step_write_state(s, &state, s->value.len, text))
        seen = SEEN_MOVED;
    torch_state_free(&state);
    return seen;
}

bool skew_show(struct step *s, struct agent *a, struct slice *text)
{
    a->sees_far = a->is_introduced && !a->has_clock;
    return see(s, a, text) == SEEN_MOVED;
}

/* --- What it writes. --- */

static void restore_deadline(const struct run *run, const struct agent *a, struct torch_state *to)
{
    const struct torch_state *now = &run->view.state;

    if (to->has_deadline && now->has_deadline &&
        to->deadline_us == deadline_seen(a, now->deadline_us))
        to->deadline_us = now->deadline_us;
}

static void restore_times(const struct step *s, const struct agent *a, struct torch_state *to)
{
    const struct torch_state *now = &s->run->view.state;

    for (size_t i = 0; i < to->count; i++) {
        struct torch_node *node = &to->nodes[i];
        const struct torch_node *then = torch_state_find(now, node);

        if (then != NULL && then->has_heartbeat && node->heartbeat_us == beat_seen(s, a, then))
            node->heartbeat_us = then->heartbeat_us;
    }
    restore_deadline(s->run, a, to);
}

/* Exact, whatever has changed since: no clock is that wrong. */
static void restore_from_far(const struct step *s, const struct agent *a, struct torch_state *state)
{
    int64_t now_us = s->now->wall_ns / 1000;

    for (size_t i = 0; i < state->count; i++) {
        struct torch_node *node = &state->nodes[i];

        if (node->has_heartbeat && node->heartbeat_us > now_us + FAR_US / 2)
            node->heartbeat_us -= FAR_US;
        else if (node->has_heartbeat && node->heartbeat_us < now_us - FAR_US / 2)
            node->heartbeat_us += FAR_US;
    }
    restore_deadline(s->run, a, state);
}

/* The heartbeats of others that have come since do not spoil its write. */
static bool rebase_from_far(struct step *s, const struct agent *a, struct wish *wish)
{
    restore_from_far(s, a, &wish->memory);
    restore_from_far(s, a, &wish->to);
    return torch_merge_rebase(&wish->memory, &wish->to, &s->run->view.state);
}

/* What it wants, now made of the value. False: no memory. */
static bool expect_value(struct step *s, struct wish *wish)
{
    if (!step_write_state(s, &wish->to, s->value.len + wish->desired.len, &wish->desired))
        return false;
    wish->from = &s->run->view.state;
    wish->expected = s->value;
    return true;
}

bool skew_restore(struct step *s, struct agent *a, struct wish *wish)
{
    struct slice text = {0};

    if (wish->from == NULL || slice_equal(wish->expected, s->value))
        return true;
    if (a->sees_far)
        return rebase_from_far(s, a, wish) && expect_value(s, wish);
    switch (see(s, a, &text)) {
    case SEEN_AS_IT_IS:
        return true;
    case SEEN_NO_MEMORY:
        return false;
    case SEEN_MOVED:
        break;
    }
    if (wish->beat != NULL)
        return true; /* of its own node, whose time is its own */
    if (!slice_equal(wish->expected, text))
        return false;
    restore_times(s, a, &wish->to);
    return expect_value(s, wish);
}

void skew_learn_from(struct step *s, struct agent *a, const struct wish *wish)
{
    if (wish->writer != NULL)
        skew_learn(s, a, wish->writer->heartbeat_us);
}
