/* What an agent is shown of its run, in place of the state.
 *
 * While a round is complete, each agent looks at the state once a second and sends a heartbeat each
 * five, and the state has all nodes in it: that is in proportion to the square of their number. But
 * all that an agent then does with it (dynamic_rendezvous.py, 1.13 to 2.14) is to count who waits,
 * to see whether the run is closed, to find itself, and to prune the nodes whose heartbeats are 15
 * s old by its own clock. So it is shown a state of the same round that has no more in it than
 *
 *   as a participant   itself with its rank and heartbeat; one node that waits, if any does and all
 *                      are to see it (meeting.c)
 *   as one that waits  itself with its heartbeat
 *   when it has left   nothing, so that it adds itself to the wait list
 *
 * and in a round that is not complete yet, once it has joined, itself and a deadline far away. A
 * participant that has not seen the complete round yet sees it once as it was completed, and takes
 * its rank from that: of one that is not below the number of nodes torch 1.13 makes an IndexError.
 * There all heartbeats are the same, so that an agent that is frozen before it reads them presumes
 * all nodes dead, itself too, or none. One that was frozen, and writes by what it knew before, is
 * answered the same if a node was lost meanwhile, or looks silent.
 *
 * An agent that is back after a start, whose node is not in the state any more, and of which it is
 * not known whether it trains, is shown a complete round for which a node waits: then it joins anew
 * in any case.
 *
 * shown_write.c takes what it writes as relative to that. Nobody is pruned by agents that see
 * this. Silent participants are, by those who wait or have joined: one of these sees the whole
 * state as soon as there is one (presence.c), and an agent that starts always does.
 *
 * The value itself is shown whenever it is needed or in doubt: until a round is complete; until the
 * agent has read in it which rank it has and how many there are, as its first request for a key of
 * the round tells; to spares, who compare the number of participants with MAX; and to an agent that
 * has a successor. */
#include "rdzv/rendezvous/policy.h"

#include "proto/torch/torch_timing.h"
#include "rdzv/rendezvous/explain.h"
#include "rdzv/rendezvous/parts.h"

/* A participant whose heartbeat is not that old may be shown the same again. Before this, nothing
 * is to be repaired: see repair.c. */
#define FRESH_US ((TORCH_HEARTBEAT_MS + 4000) * INT64_C(1000))
/* Others are looked at once a second, whether they are silent. */
#define RECHECK_MS 1000
/* How long one has to complete a round. */
#define COMPLETER_MS 2000
/* How long one has to presume silent nodes dead: it writes that with its next heartbeat. */
#define PRUNER_MS (TORCH_HEARTBEAT_MS + 2000)
/* How long an agent that was shown a round as it was completed takes no node of it for dead, by any
 * clock. */
#define TOLD_MS        (TORCH_DEAD_MS - (uint64_t)(CLOCKS_US / 1000))
#define LOOKS_AGAIN_MS 900
/* A deadline that has not passed by any clock. */
#define FAR_US (INT64_C(10) * 365 * 24 * 3600 * 1000000)

enum place {
    PLACE_WHOLE, /* it is shown the value */
    PLACE_PARTICIPANT,
    PLACE_WAITING,
    PLACE_JOINED,    /* a participant of a round that is not complete */
    PLACE_JOINING,   /* about to become one */
    PLACE_RANKED,    /* a participant that has not read its rank yet */
    PLACE_COMPLETED, /* the same, and it has not seen the complete round yet */
    PLACE_OUTSIDE,
    PLACE_STRANGER,
};

static bool is_crowd(const struct step *s, size_t nodes)
{
    return nodes >= s->run->settings->crowd_least;
}

static bool has_lost_one(const struct run_view *v)
{
    return torch_state_participants(&v->last_completed) > v->participants;
}

/* It is in the complete round as it was when that was completed. */
static bool is_as_completed(const struct run_view *v, const struct torch_node *own)
{
    const struct torch_node *was;

    if (!v->has_completed || v->last_completed.round != v->state.round)
        return false;
    was = torch_state_find(&v->last_completed, own);
    return was != NULL && was->participant && was->rank == own->rank;
}

/* One that looks for its rank sees a crowd. There nobody has a heartbeat, so none looks silent. */
static bool sees_crowd_for_rank(const struct step *s)
{
    return is_crowd(s, s->run->view.participants);
}

static enum place place_of_participant(const struct step *s, const struct agent *a)
{
    const struct run_view *v = &s->run->view;

    if (a->has_ranks_of != v->completions)
        return sees_crowd_for_rank(s) ? PLACE_RANKED : PLACE_WHOLE;
    return PLACE_PARTICIPANT;
}

/* The first who asks, for that time. */
static bool has_turn(const struct step *s, struct turn *turn, const struct agent *a, uint64_t ms)
{
    if (turn->agent == NULL || clock_elapsed_ms(turn->since_ms, s->now->ms) >= ms)
        *turn = (struct turn){a, s->now->ms};
    return turn->agent == a;
}

/* A participant is silent. All who wait would presume it dead; one of them is enough. */
static bool is_to_prune(struct step *s, const struct agent *a)
{
    return presence_is_any_silent(s) && has_turn(s, &s->run->pruner, a, PRUNER_MS);
}

/* The last call is over: of those who have joined, one completes the round, which needs the whole
 * state; another one if that takes too long, and all if clocks are in the way. */
static bool is_to_complete(struct step *s, const struct agent *a)
{
    const struct torch_state *state = &s->run->view.state;
    struct run *run = s->run;
    int64_t late_us;

    if (!state->has_deadline ||
        __builtin_sub_overflow(s->now->wall_ns / 1000, state->deadline_us, &late_us) || late_us < 0)
        return false;
    return has_turn(s, &run->completer, a, COMPLETER_MS) ||
           (late_us > CLOCKS_US && late_us < CLOCKS_US * 20);
}

static enum place place_of_joined(struct step *s, const struct agent *a,
                                  const struct torch_node *own)
{
    if (own == NULL || !own->participant || !own->has_heartbeat || own->waiting || own->redundant ||
        s->run->view.state.closed || is_to_prune(s, a) || is_to_complete(s, a))
        return PLACE_WHOLE;
    return PLACE_JOINED;
}

/* The round is not complete, and the agent is no participant. The state is large also while all
 * others wait, and few have joined. */
static enum place place_of_joining(struct step *s, const struct agent *a,
                                   const struct torch_node *own)
{
    const struct run_view *v = &s->run->view;

    if (!a->is_introduced || a->is_listed != a->has_node || v->state.closed ||
        !is_crowd(s, v->state.count) || presence_is_any_silent(s))
        return PLACE_WHOLE;
    return own == NULL || (own->has_heartbeat && !own->participant && !own->redundant)
               ? PLACE_JOINING
               : PLACE_WHOLE;
}

/* It is to read its rank in the round as it was. In a crowd no node has a
 * heartbeat; a large round that is no crowd is written anew for an agent only if it has to be. */
static bool missed_the_completion(const struct step *s, const struct agent *a,
                                  const struct torch_node *own)
{
    const struct run_view *v = &s->run->view;

    return v->state.complete && !s->run->failed && a->is_listed && own != NULL &&
           own->participant && !own->waiting && !own->redundant && a->has_seen != v->completions &&
           is_as_completed(v, own) &&
           (has_lost_one(v) || (!sees_crowd_for_rank(s) && (!is_crowd(s, v->participants) ||
                                                            presence_may_one_look_silent(s))));
}

static enum place place_of(struct step *s, const struct agent *a, const struct torch_node *own)
{
    const struct run_view *v = &s->run->view;

    if (v->unread || !v->is_state)
        return PLACE_WHOLE;
    if (missed_the_completion(s, a, own))
        return PLACE_COMPLETED;
    if (presence_is_stranger(s, a))
        return PLACE_STRANGER;
    if (!v->state.complete && (own == NULL || own->waiting))
        return place_of_joining(s, a, own);
    if (v->participants == 0 || !a->is_listed)
        return PLACE_WHOLE;
    if (!v->state.complete)
        return place_of_joined(s, a, own);
    if (own != NULL && own->redundant)
        return PLACE_WHOLE;
    if (own != NULL && own->participant)
        return own->waiting ? PLACE_WHOLE : place_of_participant(s, a);
    if (v->state.closed || is_to_prune(s, a))
        return PLACE_WHOLE;
    if (own != NULL && own->waiting)
        return PLACE_WAITING;
    return a->has_left == v->completions ? PLACE_OUTSIDE : PLACE_WHOLE;
}

/* --- Its text. --- */

/* In the order of a state. */
static void add(struct torch_state *state, const struct torch_node *node)
{
    size_t at = state->count++;

    if (at > 0 && torch_node_compare(node, &state->nodes[0]) < 0) {
        state->nodes[1] = state->nodes[0];
        at = 0;
    }
    state->nodes[at] = *node;
}

static bool write_text(const struct step *s, enum place place, const struct torch_node *own,
                       uint8_t **text, size_t *len)
{
    const struct run_view *v = &s->run->view;
    const struct torch_node *waiting = place == PLACE_STRANGER   ? &loss_mark
                                       : meeting_is_open(s->run) ? meeting_waiting(s)
                                                                 : NULL;
    struct torch_node nodes[2];
    struct torch_state state = v->state;

    state.nodes = nodes;
    state.count = 0;
    state.shares_times = false;
    state.complete = state.complete || place == PLACE_STRANGER;
    if (own != NULL && place != PLACE_OUTSIDE)
        add(&state, own);
    if (place == PLACE_JOINED) { /* torch 1.13 wants one, if MIN is 1 */
        state.has_deadline = true;
        state.deadline_us = own->heartbeat_us + FAR_US;
    }
    if ((place == PLACE_PARTICIPANT || place == PLACE_STRANGER) && waiting != NULL)
        add(&state, &(struct torch_node){.addr = waiting->addr,
                                         .pid = waiting->pid,
                                         .local_id = waiting->local_id,
                                         .waiting = true});
    return torch_state_write(&state, text, len);
}

/* Its participants have not been called to meet again: a node that waits is hidden from them. */
static bool hides_waiting(const struct run *run)
{
    return run->view.waiting != 0 && !meeting_is_open(run);
}

/* Returns how many are left. */
static size_t drop_waiting(struct torch_node *nodes, size_t count)
{
    size_t left = 0;

    for (size_t i = 0; i < count; i++) {
        if (!nodes[i].waiting)
            nodes[left++] = nodes[i];
    }
    return left;
}

/* The round as it was completed, of nodes that all live. */
static bool write_completed(const struct step *s, const struct agent *a, uint8_t **text,
                            size_t *len)
{
    struct torch_state state = s->run->view.last_completed;
    size_t size = state.count * sizeof *state.nodes;
    struct torch_node *nodes;
    int64_t now_us;
    bool ok;

    if (!step_agent_time(s, a, &now_us))
        return false;
    nodes = account_request(ACCOUNT_RUNS, account_class_of(size), size);
    if (nodes == NULL)
        return false;
    memcpy(nodes, state.nodes, size);
    state.nodes = nodes;
    if (!meeting_is_open(s->run))
        state.count = drop_waiting(nodes, state.count);
    for (size_t i = 0; i < state.count; i++)
        nodes[i].heartbeat_us = now_us;
    state.shares_times = false;
    state.closed = s->run->view.state.closed;
    ok = torch_state_write(&state, text, len);
    account_free(ACCOUNT_RUNS, nodes, size);
    return ok;
}

/* False: no memory, and it has none. */
static bool keep(struct agent *a, const uint8_t *text, size_t len)
{
    uint8_t *copy = (uint8_t *)(uintptr_t)a->shown.ptr;

    if (a->shown.len != len) {
        shown_drop(a);
        copy = account_heap_request(ACCOUNT_RUNS, account_class_of(len), len);
        if (copy == NULL)
            return false;
    }
    memcpy(copy, text, len);
    a->shown = (struct slice){copy, len};
    return true;
}

void shown_drop(struct agent *a)
{
    account_heap_free(ACCOUNT_RUNS, (void *)(uintptr_t)a->shown.ptr);
    a->shown = (struct slice){0};
}

void shown_forget(struct step *s, const struct agent *a)
{
    crowd_forget(s->run, a);
    if (s->run->completer.agent == a)
        s->run->completer.agent = NULL;
    if (s->run->pruner.agent == a)
        s->run->pruner.agent = NULL;
}

/* Until when nothing but a change of the value changes what it is shown. */
static uint64_t until(const struct step *s, const struct agent *a, enum place place,
                      const struct torch_node *own)
{
    uint64_t now_ms = s->now->ms;
    int64_t now_us;

    if (place == PLACE_JOINED || (place == PLACE_WAITING && a->asks_in))
        return now_ms; /* its next look is to be held */
    if (place == PLACE_PARTICIPANT && s->run->meeting.phase == MEETING_GATHERS)
        return now_ms; /* the same */
    if (place != PLACE_PARTICIPANT || s->run->view.waiting != 0)
        return now_ms + RECHECK_MS;
    if (!own->has_heartbeat)
        return now_ms + TORCH_HEARTBEAT_MS;
    if (!step_agent_time(s, a, &now_us) || own->heartbeat_us < now_us - FRESH_US)
        return now_ms;
    return now_ms + TORCH_HEARTBEAT_MS;
}

/* NULL: it is in no list. */
static const struct torch_node *own_node(const struct step *s, const struct agent *a)
{
    const struct torch_node *own = run_node_of(s->run, a);

    return explain_role(own) == NULL ? NULL : own;
}

/* What is not kept: it is large, or soon another one. Nothing but crowd.c takes anything as
 * relative to it. */
static struct slice make_crowd(struct step *s, struct agent *a, enum place place,
                               const struct torch_node *own)
{
    struct slice text;
    bool ok = place == PLACE_JOINING ? crowd_show_joining(s, a, own, &text)
                                     : crowd_show_ranked(s, own, &text);

    shown_drop(a);
    a->sees_crowd = ok && place == PLACE_JOINING;
    return ok ? text : (struct slice){0};
}

static void note_told(const struct step *s, struct agent *a)
{
    a->told_rank = s->run->view.completions;
    a->told_ms = s->now->ms;
}

struct slice shown_make(struct step *s, struct agent *a)
{
    const struct run_view *v = &s->run->view;
    const struct torch_node *own = own_node(s, a);
    enum place place = place_of(s, a, own);
    uint8_t *text;
    size_t len;
    bool ok;

    a->sees_crowd = false;
    if (place == PLACE_JOINING || place == PLACE_RANKED)
        return make_crowd(s, a, place, own);
    if (place == PLACE_WHOLE ||
        !(place == PLACE_COMPLETED ? write_completed(s, a, &text, &len)
                                   : write_text(s, place, own, &text, &len)))
        return (struct slice){0};
    ok = keep(a, text, len);
    free(text);
    if (!ok)
        return (struct slice){0};
    if (place == PLACE_COMPLETED)
        note_told(s, a);
    if (place == PLACE_WAITING && a->was_put_in_line)
        let_in_note_told(a, s->now->ms);
    a->shown_changes = v->changes;
    a->shown_until_ms = until(s, a, place, own);
    return a->shown;
}

/* --- Answers. --- */

/* It is answered. */
static void note_seen(const struct step *s, struct agent *a)
{
    if (!s->run->view.is_state || !s->run->view.state.complete ||
        a->has_seen == s->run->view.completions)
        return;
    a->has_seen = s->run->view.completions;
    pace_note_seen(s->run, a, s->now->ms);
}

void shown_answer_whole(struct step *s, struct agent *a)
{
    struct slice text;

    note_seen(s, a);
    step_put_beats(s);
    if (skew_show(s, a, &text))
        step_agent(s, POLICY_ANSWER_VALUE, a)->value = text;
    else
        step_agent(s, POLICY_ANSWER_CURRENT, a);
}

void shown_answer(struct step *s, struct agent *a)
{
    struct slice text = shown_make(s, a);

    note_seen(s, a);
    if (text.ptr != NULL) {
        step_agent(s, POLICY_ANSWER_VALUE, a)->value = text;
        return;
    }
    shown_drop(a);
    shown_answer_whole(s, a);
}

/* It knows its rank, unless it was frozen before it could use what it was shown: then all of that
 * round are dead to its mind, itself too, and it joins anew. */
static bool was_told_rank(const struct step *s, const struct agent *a)
{
    return a->told_rank == s->run->view.completions &&
           clock_elapsed_ms(a->told_ms, s->now->ms) < TOLD_MS;
}

/* It has written relative to a round that was not complete, or that it took for over, since it was
 * frozen meanwhile: it finds its rank in the answer, whatever it was shown before. One that is
 * missing there, or that it presumes dead, would make that too high for those who are left. Once in
 * TOLD_MS: it may have wanted something else. */
static bool is_about_to_read_rank(struct step *s, struct agent *a)
{
    const struct run_view *v = &s->run->view;
    const struct torch_node *own = own_node(s, a);
    enum place place;

    if (!v->state.complete || own == NULL || !own->participant ||
        a->has_ranks_of == v->completions || was_told_rank(s, a) ||
        !(has_lost_one(v) || hides_waiting(s->run) || presence_may_one_look_silent(s)))
        return false;
    a->has_seen = 0;
    note_told(s, a);
    place = place_of(s, a, own);
    return place == PLACE_COMPLETED || place == PLACE_RANKED;
}

/* It trains, and the whole state would show it a node that waits too early. */
static bool is_kept_in_round(const struct step *s, const struct agent *a)
{
    const struct torch_node *own = own_node(s, a);

    return s->run->view.state.complete && own != NULL && own->participant &&
           a->has_ranks_of == s->run->view.completions && hides_waiting(s->run);
}

void shown_answer_newest(struct step *s, struct agent *a)
{
    if (is_kept_in_round(s, a) || is_about_to_read_rank(s, a))
        shown_answer(s, a);
    else
        shown_answer_whole(s, a);
}

bool shown_joining(struct step *s, struct agent *a, struct slice *text)
{
    const struct torch_node *own = own_node(s, a);

    if (place_of(s, a, own) != PLACE_JOINING) {
        a->sees_crowd = false;
        return false;
    }
    *text = make_crowd(s, a, PLACE_JOINING, own);
    return a->sees_crowd;
}

/* What rdzvd itself has put on the wait list trains (repair.c), and does not wait for anything. */
bool shown_may_wait(struct step *s, const struct agent *a)
{
    enum place place = place_of(s, a, own_node(s, a));

    return place == PLACE_JOINED || (place == PLACE_WAITING && a->asks_in);
}

/* An agent of torch that has seen itself in the complete round has its rank, and reads the state
 * again only while it trains. It looks no sooner than a second later. Most ask for a key of the
 * round before (TORCH_ELASTIC_WORKER_IDENTICAL: none). */
static void note_looks_again(const struct step *s, struct agent *a)
{
    const struct run_view *v = &s->run->view;
    const struct torch_node *own = own_node(s, a);

    if (v->is_state && v->state.complete && own != NULL && own->participant &&
        a->has_seen == v->completions && a->has_ranks_of != v->completions &&
        clock_elapsed_ms(a->pace.seen_ms, s->now->ms) >= LOOKS_AGAIN_MS)
        a->has_ranks_of = v->completions;
}

void shown_look(struct step *s, struct agent *a)
{
    struct slice text;

    note_looks_again(s, a);
    text = shown_make(s, a);
    note_seen(s, a);
    if (text.ptr != NULL) {
        step_agent(s, POLICY_ANSWER_VALUE, a)->value = text;
        return;
    }
    shown_drop(a);
    step_put_beats(s);
    if (skew_show(s, a, &text))
        step_agent(s, POLICY_ANSWER_VALUE, a)->value = text;
}

void shown_asked(struct step *s, struct agent *a, int64_t round)
{
    const struct run_view *v = &s->run->view;

    if (!v->is_state || !v->state.complete || v->state.round != round)
        return;
    if (a->has_ranks_of != v->completions)
        shown_drop(a); /* it is shown something else from now on */
    note_seen(s, a);
    a->has_ranks_of = v->completions;
}

struct slice policy_glance(struct run *run, struct agent *a, bool waits, uint64_t now_ms)
{
    if (a->shown.ptr == NULL || a->shown_changes != run->view.changes || !a->is_listed ||
        now_ms >= a->shown_until_ms || run->slot.holder == a)
        return (struct slice){0};
    a->heard_ms = now_ms;
    a->waits = waits;
    agent_note_asked(a, now_ms);
    if (!waits)
        pace_note_get(run, a, now_ms);
    return a->shown;
}
