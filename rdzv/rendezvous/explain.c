/* Notes of what happened to a run and its nodes. See explain.h. */
#include "rdzv/rendezvous/explain.h"

#include <stdio.h>

#define RANKS_SHOWN   16
#define RANK_TEXT_MAX 128
#define END_TEXT_MAX  512

struct note *explain_note(struct step *s, enum note_kind kind, uint64_t number, const char *reason)
{
    static struct note nowhere;
    struct note *note = (struct note *)(void *)step_alloc(s, sizeof *note);

    if (note == NULL)
        return &nowhere;
    *note = (struct note){
        .kind = kind, .round = s->run->view.state.round, .number = number, .reason = reason};
    step_emit(s, POLICY_NOTE)->note = note;
    return note;
}

const char *explain_node(struct step *s, const struct torch_node *node)
{
    char *text = (char *)step_alloc(s, NODE_TEXT_MAX);

    return text == NULL ? "unknown" : node_text(node, text);
}

/* The node of the agent, or "unknown". */
static const char *explain_agent(struct step *s, const struct agent *a)
{
    return a != NULL && agent_has_node(a) ? explain_node(s, &a->node) : "unknown";
}

struct note *explain_note_node(struct step *s, enum note_kind kind, const struct torch_node *node)
{
    struct note *note = explain_note(s, kind, 0, NULL);

    note->agent = run_agent_of(s->run, node);
    note->node = explain_node(s, node);
    note->role = note->previous = node_role_text(node);
    return note;
}

static int64_t heartbeat_age_us(const struct step *s, const struct torch_node *node)
{
    int64_t age_us = s->now->wall_ns / 1000;

    return __builtin_sub_overflow(age_us, node->heartbeat_us, &age_us) ? INT64_MAX : age_us;
}

/* It left by itself, was started again, or another agent has not heard of it for torch's 15 s.
 * Torch's first step is to leave the round it may still be in: a container that was started again
 * has the name and the pid that it had before, and so it takes its own place there away. */
static void note_departure(struct step *s, const struct torch_node *old, const struct agent *by)
{
    const struct run_view *v = &s->run->view;
    int64_t age_us = heartbeat_age_us(s, old);
    bool itself = agent_has_node(by) && torch_node_compare(&by->node, old) == 0;
    bool has_no_place = old->waiting && v->state.complete && !v->before.complete;
    bool is_new = !agent_has_node(by) && old->has_heartbeat && age_us < TORCH_DEAD_MS * 1000;
    enum note_kind kind = itself || has_no_place ? NOTE_NODE_LEFT
                          : is_new               ? NOTE_NODE_REPLACED
                                                 : NOTE_NODE_PRESUMED_DEAD;
    struct note *note = explain_note_node(s, kind, old);

    if (itself)
        note->agent = by;
    note->by = by;
    note->by_node = explain_agent(s, by);
    note->ms = old->has_heartbeat ? age_us / 1000 : -1;
    if (has_no_place)
        note->reason = "the round has as many nodes as it may have; the node waits until one of "
                       "them leaves";
    else if (itself && by->gave_up)
        note->reason = "its join has timed out";
    else if (itself)
        note->reason = v->state.round != v->before.round ? "all nodes meet again in a new round"
                       : v->state.closed                 ? "the run is closed"
                       : meeting_is_open(s->run)         ? "to meet the other nodes again"
                                                         : "by itself";
    else if (kind == NOTE_NODE_REPLACED)
        note->reason = "it was started again under the same name";
}

static void note_nodes(struct step *s, const struct agent *by)
{
    const struct run_view *v = &s->run->view;
    struct torch_state part = v->state;
    struct node_pairs pairs = {.before = &v->before, .now = &part};
    const struct torch_node *old, *node;

    if (v->before.is_part) {
        part.nodes = torch_state_find(&v->state, v->before.nodes);
        part.count = part.nodes != NULL;
    }
    while (node_pairs_next(&pairs, &old, &node)) {
        if (node_role(node) == node_role(old))
            continue;
        if (node_role(node) != NULL)
            explain_note_node(s, NOTE_NODE_JOINED, node)->previous = node_role_text(old);
        else
            note_departure(s, old, by);
    }
}

/* "0=node-a 1=node-b …", the first few. */
static void note_complete(struct step *s)
{
    const struct torch_state *now = &s->run->view.state;
    struct note *note = explain_note(s, NOTE_ROUND_COMPLETE, torch_state_participants(now), NULL);
    char *text = (char *)step_alloc(s, (size_t)RANKS_SHOWN * RANK_TEXT_MAX);
    size_t at = 0;

    note->text = text;
    if (text == NULL)
        return;
    text[0] = '\0';
    for (int64_t rank = 0; rank < RANKS_SHOWN; rank++) {
        const struct torch_node *node = node_of_rank(now, rank);

        if (node == NULL)
            break;
        at += (size_t)snprintf(text + at, RANK_TEXT_MAX, "%s%lld=%.100s", rank == 0 ? "" : " ",
                               (long long)rank, explain_node(s, node));
    }
}

static void note_last_call(struct step *s)
{
    const struct torch_state *now = &s->run->view.state;
    struct note *note = explain_note(s, NOTE_LAST_CALL, torch_state_participants(now), NULL);
    int64_t left_us;

    if (!__builtin_sub_overflow(now->deadline_us, s->now->wall_ns / 1000, &left_us))
        note->ms = left_us / 1000;
}

void explain_change(struct step *s, const struct agent *by)
{
    const struct torch_state *before = &s->run->view.before, *now = &s->run->view.state;
    size_t joined = s->run->view.participants;

    if (joined > s->run->joined || now->round != before->round ||
        (before->count == 0 && joined > 0))
        s->run->joined = joined;
    if (before->count == 0 && now->count != 0 && now->round == 0)
        explain_note(s, NOTE_RUN_STARTED, 0, NULL);
    note_nodes(s, by);
    if (now->has_deadline && !before->has_deadline)
        note_last_call(s);
    if (now->complete && !(before->complete && before->round == now->round))
        note_complete(s);
    if (now->closed && !before->closed)
        explain_close(s, NOTE_RUN_ENDED, by);
}

/* An agent whose join has timed out leaves the round, or the wait list, and then closes the run. */
static void explain_end(struct step *s, struct note *note, const struct agent *by)
{
    bool gave_up = by != NULL && by->gave_up;
    bool is_done = s->run->finishing.round == s->run->view.state.round;
    char *text = (char *)step_alloc(s, END_TEXT_MAX), words[NODE_TEXT_MAX], waits[NODE_TEXT_MAX];
    const char *node = node_words(note->by_node, words);

    if (s->failed_node != NULL)
        note->by_node = explain_node(s, s->failed_node);
    if (s->run->orders.word == ORDER_CLOSE) {
        note->end = "closed";
        note->by_node = "";
        note->reason = "an operator has closed it";
        return;
    }
    note->end = s->run->failed ? "failed" : gave_up ? "join_timeout" : is_done ? "done" : "closed";
    note->reason = text;
    if (text == NULL)
        note->reason = note->end;
    else if (s->failed_node != NULL && s->failed_node != &by->node)
        snprintf(text, END_TEXT_MAX,
                 "workers of %s have ended well, those of %s have not: its agent waits for a new "
                 "round",
                 node, node_words(note->by_node, waits));
    else if (s->run->failed)
        snprintf(text, END_TEXT_MAX, "workers of %s failed, and its agent had no restart left",
                 node);
    else if (gave_up)
        snprintf(text, END_TEXT_MAX,
                 "the join of %s timed out after %.0f s; nodes that had joined: %zu", node,
                 (double)clock_elapsed_ms(by->joins_since_ms, s->now->ms) / 1000, s->run->joined);
    else
        snprintf(text, END_TEXT_MAX, "%s closed the run%s", node,
                 is_done ? ": its workers have ended well" : "");
}

void explain_close(struct step *s, enum note_kind kind, const struct agent *by)
{
    struct note *note = explain_note(s, kind, 0, NULL);

    note->by = by;
    note->by_node = explain_agent(s, by);
    if (kind == NOTE_RUN_ENDED)
        explain_end(s, note, by);
    else if (kind == NOTE_CLOSE_WAITS)
        note->reason = "since rdzvd was started, not all agents are back that may come back: the "
                       "close counts when it is known that it may";
    else
        note->reason = s->run->settings->close_needs_all
                           ? "other nodes are still in the run, see --close-needs-all"
                           : "its workers are in no round, and others go on";
}

/* Long before torch's 15 s are over, and only here, it is known that an agent is gone. */
void explain_disconnect(struct step *s, const struct agent *a, bool stays)
{
    const struct torch_node *node;
    struct note *note;

    if (!step_is_open(s) || !agent_has_node(a) || s->run->ending)
        return;
    node = torch_state_find(&s->run->view.state, &a->node);
    if (node_role(node) == NULL)
        return;
    note = explain_note_node(s, stays ? NOTE_NODE_RECONNECTED : NOTE_NODE_DISCONNECTED, node);
    note->agent = a;
    if (stays)
        return;
    s->out->counters.nodes_disconnected++;
    note->reason = a->link == LINK_GONE
                       ? "its relay has closed the link and not come back, so both have ended"
                   : s->run->settings->drop_disconnected
                       ? "its connection ended, so its agent has"
                       : "its connection ended; it is taken out when its heartbeat is 15s old";
}
