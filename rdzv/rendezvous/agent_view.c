/* The state as an agent is shown it: the only place that makes a text for an agent. POLICY.md has
 * the table of what each agent sees. Of the other nodes that is only their number: torch uses no
 * more of them (dynamic_rendezvous.py, 1.13 to 2.14). All times in a view are by the agent's clock,
 * and all times in the state by ours.
 *
 * An agent that is back after a start, whose node is in no list and may still train, is shown a
 * complete round for which a node waits: so it joins again in any case. */
#include "rdzv/rendezvous/policy.h"

#include <stdlib.h>

#include "rdzv/rendezvous/policy_internal.h"

/* In front of all names of hosts, in the order of nodes. */
#define ANONYMOUS_ADDR "-rdzvd.a-node"
#define FRONT_LEAST    16

/* An older heartbeat is shown as if it was so old: the agent asks, so it lives, and must not take
 * itself for dead. A younger one is shown as it is, so that the agent sends the next one. */
#define OLD_US ((TORCH_HEARTBEAT_MS + 500) * INT64_C(1000))
/* If no node waits, the view of a participant stays the same for so long. */
#define POLL_AGAIN_MS TORCH_HEARTBEAT_MS
/* How long one agent has to complete a round before another one may, too. */
#define COMPLETER_MS   2000
#define POLLS_AGAIN_MS 900
/* A deadline in the past, or in the future, by any clock. */
#define FAR_US (INT64_C(10) * 365 * 24 * 3600 * 1000000)

enum place {
    PLACE_JOINING,
    PLACE_JOINED,
    PLACE_LOOK_MAX, /* the same, and MIN and MAX are measured on it: size.c */
    PLACE_LOOK_MIN,
    PLACE_COMPLETING, /* it has joined, and is to complete the round */
    PLACE_RANKED,     /* a participant that has not read its rank yet */
    PLACE_TRAINING,
    PLACE_WAITING,
    PLACE_OUTSIDE, /* a new one, or a spare */
    PLACE_LEFT,
    PLACE_STRANGER, /* in no list after a start, and it may have workers */
    PLACE_ASIDE,    /* it is kept out: steering.c */
};

/* --- Where the agent is. --- */

/* NULL: it is in no list. */
static const struct torch_node *own_node(const struct step *s, const struct agent *a)
{
    const struct torch_node *own = run_node_of(s->run, a);

    return node_role(own) == NULL ? NULL : own;
}

/* One agent is enough, and all of them would read the whole number. */
static bool is_completer(struct step *s, const struct agent *a)
{
    struct completer *c = &s->run->completer;

    if (!last_call_is_over(s, 0) || s->run->view.state.closed || !steering_may_begin(s->run))
        return false;
    if (c->agent == NULL || clock_elapsed_ms(c->since_ms, s->now->ms) >= COMPLETER_MS)
        *c = (struct completer){a, s->now->ms};
    return c->agent == a;
}

static enum place place_in_open_round(struct step *s, const struct agent *a,
                                      const struct torch_node *own)
{
    bool in_round;

    if (own == NULL || !own->participant)
        return PLACE_JOINING;
    if (size_look(s->run, a, &in_round) != 0)
        return in_round ? PLACE_LOOK_MIN : PLACE_LOOK_MAX;
    return is_completer(s, a) ? PLACE_COMPLETING : PLACE_JOINED;
}

static enum place place_of(struct step *s, const struct agent *a, const struct torch_node *own)
{
    const struct run_view *v = &s->run->view;

    if (steering_is_aside(s->run, a, own))
        return PLACE_ASIDE;
    if (a->origin == ORIGIN_RETURNED && a->nodes == 0 && step_is_open(s) && own == NULL)
        return PLACE_STRANGER;
    if (!v->state.complete)
        return place_in_open_round(s, a, own);
    if (own != NULL && own->participant)
        return a->has_ranks_of == v->completions ? PLACE_TRAINING : PLACE_RANKED;
    if (own != NULL && own->waiting)
        return PLACE_WAITING;
    return own == NULL && a->has_left == v->completions ? PLACE_LEFT : PLACE_OUTSIDE;
}

/* --- Its text. --- */

/* The round as it was completed, unless the agent has another place there by now. */
static size_t others_as_completed(const struct run_view *v, const struct torch_node *own)
{
    const struct torch_node *was = torch_state_find(&v->last_completed, own);

    return was != NULL && was->participant && was->rank == own->rank &&
                   v->last_completed.round == v->state.round
               ? v->completed_participants - 1
               : v->participants - 1;
}

static size_t count_others(struct step *s, struct agent *a, enum place place,
                           const struct torch_node *own)
{
    const struct run_view *v = &s->run->view;
    bool in_round;

    switch (place) {
    case PLACE_JOINING:
        return v->state.closed ? 0 : (size_t)numbers_shown(s->run, numbers_give(s, a)) - 1;
    case PLACE_LOOK_MAX:
    case PLACE_LOOK_MIN:
        return size_look(s->run, a, &in_round) - (place == PLACE_LOOK_MIN);
    case PLACE_COMPLETING:
        return v->participants - 1;
    case PLACE_RANKED:
        return others_as_completed(v, own);
    case PLACE_OUTSIDE:
        return v->participants;
    case PLACE_ASIDE: /* if it may still train, it leaves the list first: see steering.c */
        numbers_drop(s->run, a); /* for another agent */
        return own != NULL && agent_may_train(a) ? 0 : size_others(s->run, a);
    default:
        return 0;
    }
}

/* An agent whose node was set aside ends its workers when it sees that a node waits, however late
 * it polls. Agents that join do not look at the wait list. */
static const struct torch_node *shown_waiting(const struct step *s, enum place place,
                                              const struct torch_node *own)
{
    if (place == PLACE_STRANGER || place == PLACE_ASIDE || (own != NULL && own->redundant) ||
        run_ends_all(s->run)) /* also an agent that is in no list may still train */
        return &loss_mark;
    if ((place == PLACE_TRAINING || place == PLACE_RANKED) && meeting_is_open(s->run))
        return meeting_waiting(s);
    return NULL;
}

/* In the order of a state. */
static void add(struct torch_state *state, const struct torch_node *node)
{
    size_t at = state->count++;

    for (; at > 0 && torch_node_compare(node, &state->nodes[at - 1]) < 0; at--)
        state->nodes[at] = state->nodes[at - 1];
    state->nodes[at] = *node;
}

/* Its heartbeat by its own clock. An agent that looks for its rank would not find it if it took
 * itself for dead, after it was frozen: it is shown a new one. */
static void add_own(const struct step *s, struct agent *a, enum place place,
                    const struct torch_node *own, struct torch_state *state)
{
    int64_t least_us = s->now->wall_ns / 1000 - (place == PLACE_RANKED ? 0 : OLD_US);
    struct torch_node node = *own;

    if (place == PLACE_LOOK_MIN) { /* so that it sends a heartbeat at once */
        node.heartbeat_us = least_us;
        node.rank = LOOK_RANK;
    }
    if (node.has_heartbeat)
        node.heartbeat_us =
            agent_clock_from_ours(a, node.heartbeat_us < least_us ? least_us : node.heartbeat_us);
    a->view.beat_us = node.heartbeat_us;
    add(state, &node);
}

/* Torch 1.13 wants a deadline, if MIN is 1. */
static void set_deadline(const struct step *s, enum place place, struct torch_state *state)
{
    bool is_over = place == PLACE_COMPLETING || place == PLACE_LOOK_MIN;

    state->has_deadline = place == PLACE_JOINED || is_over;
    state->deadline_us = s->now->wall_ns / 1000 + (is_over ? -FAR_US : FAR_US);
}

/* The others, in a text for `like` that names at least as many. NULL: no memory. */
static const struct torch_front *front_of(struct run *run, const struct torch_state *like,
                                          size_t others)
{
    size_t count = FRONT_LEAST;

    if (torch_front_fits(run->front, like, others))
        return run->front;
    while (count < others)
        count *= 2;
    torch_front_free(run->front);
    run->front = torch_front_new(like, slice_str(ANONYMOUS_ADDR), count);
    return run->front;
}

static bool write(struct step *s, struct agent *a, enum place place, const struct torch_node *own,
                  struct slice *text)
{
    const struct torch_node *waiting = shown_waiting(s, place, own);
    struct torch_node nodes[2];
    struct torch_state state = s->run->view.state;
    const struct torch_front *front = NULL;
    size_t others = count_others(s, a, place, own);
    uint8_t *bytes;

    state.nodes = nodes;
    state.count = 0;
    state.complete = state.complete || place == PLACE_STRANGER || place == PLACE_ASIDE ||
                     place == PLACE_LOOK_MAX;
    set_deadline(s, place, &state);
    if (own != NULL && place != PLACE_LOOK_MAX)
        add_own(s, a, place, own, &state);
    if (waiting != NULL)
        add(&state, &(struct torch_node){.addr = waiting->addr,
                                         .pid = waiting->pid,
                                         .local_id = waiting->local_id,
                                         .waiting = true});
    /* An agent of a crowd sees only how many others there are, so that each one reads and writes a
     * short text. Only the agent that completes a round needs names, since it sorts them. */
    if (others + 1 >= s->run->settings->crowd && place != PLACE_JOINING &&
        place != PLACE_COMPLETING && place != PLACE_LOOK_MIN) {
        state.unnamed = others;
        others = 0;
    }
    a->view.others = others;
    a->is_look = place == PLACE_LOOK_MAX || place == PLACE_LOOK_MIN;
    if (others != 0 && (front = front_of(s->run, &state, others)) == NULL)
        return false;
    if (!(others == 0 ? torch_state_write(&state, &bytes, &text->len)
                      : torch_front_write(front, others, &state, &bytes, &text->len)))
        return false;
    text->ptr = bytes;
    return step_own_text(s, bytes);
}

/* --- The same text once more, without a step. --- */

/* Until then, only a change of the value changes the text of this agent. Any other text has more
 * than its node, or the next poll must be held. */
static void keep(const struct step *s, struct agent *a, enum place place,
                 const struct torch_node *own)
{
    bool trains = place == PLACE_TRAINING && s->run->meeting.phase != MEETING_GATHERS;

    a->view.until_ms = 0;
    if ((!trains && (place != PLACE_WAITING || a->line == LINE_ASKED)) ||
        shown_waiting(s, place, own) != NULL)
        return;
    a->view.until_ms = s->now->ms + (trains && s->run->view.waiting == 0 ? POLL_AGAIN_MS : 1000);
    a->view.own = (uint32_t)(own - s->run->view.state.nodes);
    a->view.changes = (uint32_t)s->run->view.changes;
}

/* The text that is kept, in run.poll_text. ptr NULL: none is, or there is no memory. */
static struct slice kept_text(struct run *run, const struct agent *a, uint64_t now_ms)
{
    struct torch_state state = run->view.state;
    struct slice *text = &run->poll_text;
    struct torch_node own;
    uint8_t *bytes;

    if (a->held != HELD_NONE || a->view.changes != (uint32_t)run->view.changes ||
        now_ms >= a->view.until_ms)
        return (struct slice){0};
    own = state.nodes[a->view.own];
    own.heartbeat_us = a->view.beat_us;
    state.nodes = &own;
    state.count = 1;
    state.has_deadline = false;
    free((void *)(uintptr_t)text->ptr);
    torch_state_write(&state, &bytes, &text->len);
    text->ptr = bytes;
    return *text;
}

struct slice policy_poll_again(struct run *run, struct agent *a, bool waits, uint64_t now_ms,
                               uint64_t lived_ms)
{
    struct slice text = kept_text(run, a, now_ms);

    if (text.ptr == NULL)
        return text;
    a->heard_ms = lived_ms;
    a->waits = waits;
    agent_note_asked(run, a, false, now_ms);
    if (!waits)
        pace_note_get(run, a, now_ms);
    return text;
}

/* A kept text has one time: the agent's heartbeat. With a new one, make() would write the same. */
struct slice policy_heartbeat(struct run *run, struct agent *a, struct slice expected,
                              struct slice desired, const struct policy_now *now)
{
    struct slice text = kept_text(run, a, now->ms);
    struct step s = {.run = run, .now = now};
    const struct torch_node *own;
    int64_t agents_us, us;

    if (text.ptr == NULL || !slice_equal(expected, text) ||
        !torch_state_read_beat(expected, desired, &agents_us) ||
        !agent_clock_is_steady(&s, a, agents_us, &us) || us < now->wall_ns / 1000 - OLD_US)
        return (struct slice){0};
    own = &run->view.state.nodes[a->view.own];
    if (us <= own->heartbeat_us)
        return (struct slice){0};
    presence_heard(&s, a, false);
    agent_note_asked(run, a, true, now->ms);
    pace_note_write(run, a, now->ms);
    agent_clock_learn(&s, a, agents_us);
    agent_note_wrote(a);
    step_note_beat(&s, own, us);
    a->view.beat_us = agents_us;
    return desired;
}

/* --- What the agent knows by it. --- */

static void note_seen(const struct step *s, struct agent *a)
{
    if (!s->run->view.is_state || !s->run->view.state.complete ||
        a->has_seen == s->run->view.completions)
        return;
    a->has_seen = s->run->view.completions;
    pace_note_seen(s->run, a, s->now->ms);
}

/* An agent of torch that has seen itself in the complete round has its rank, and reads the state
 * again only while it trains. It polls no sooner than a second later. Most ask for a key of the
 * round before (TORCH_ELASTIC_WORKER_IDENTICAL: none). */
static void note_polls_again(const struct step *s, struct agent *a)
{
    const struct run_view *v = &s->run->view;
    const struct torch_node *own = own_node(s, a);

    if (v->is_state && v->state.complete && own != NULL && own->participant &&
        a->has_seen == v->completions && a->has_ranks_of != v->completions &&
        clock_elapsed_ms(a->pace.seen_ms, s->now->ms) >= POLLS_AGAIN_MS)
        a->has_ranks_of = v->completions;
}

void agent_view_note_asked(struct step *s, struct agent *a, int64_t round)
{
    const struct run_view *v = &s->run->view;

    if (!v->is_state || !v->state.complete || v->state.round != round)
        return;
    note_seen(s, a);
    a->has_ranks_of = v->completions;
    a->pace.seen_ms = s->now->ms;
}

/* --- Answers. --- */

static bool has_view(const struct step *s, const struct agent *a)
{
    return agent_is_introduced(a) && s->run->view.is_state && !s->run->view.unread;
}

/* False: it is shown the value itself. */
static bool make(struct step *s, struct agent *a, struct slice *text)
{
    const struct torch_node *own;
    enum place place;

    if (!has_view(s, a))
        return false;
    own = own_node(s, a);
    place = place_of(s, a, own);
    if (!write(s, a, place, own, text))
        return false;
    if (place == PLACE_WAITING && a->line == LINE_PUT)
        admit_note_shown(a, s->now->ms);
    keep(s, a, place, own);
    return true;
}

static void show(struct step *s, struct agent *a, bool polls)
{
    struct slice text;

    if (make(s, a, &text)) {
        step_agent(s, POLICY_ANSWER_VALUE, a)->value = text;
    } else {
        a->view.until_ms = 0;
        step_catch_up(s);
        if (!polls)
            step_agent(s, POLICY_ANSWER_CURRENT, a);
    }
    note_seen(s, a);
}

void agent_view_answer(struct step *s, struct agent *a)
{
    show(s, a, false);
}

void agent_view_poll(struct step *s, struct agent *a)
{
    note_polls_again(s, a);
    show(s, a, true);
}

/* What rdzvd itself has put on the wait list trains (repair.c), and does not wait for anything. */
bool agent_view_may_wait(struct step *s, const struct agent *a)
{
    enum place place;

    if (!has_view(s, a) || s->run->view.state.closed)
        return false;
    place = place_of(s, a, own_node(s, a));
    return place == PLACE_JOINED || (place == PLACE_WAITING && a->line == LINE_ASKED);
}

bool agent_view_is_joining(struct step *s, const struct agent *a)
{
    const struct run_view *v = &s->run->view;

    return agent_is_introduced(a) && v->exists && !v->unread && !v->state.closed &&
           place_of(s, a, own_node(s, a)) == PLACE_JOINING;
}
