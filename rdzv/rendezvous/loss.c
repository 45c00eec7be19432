/* Takes lost nodes out of a run, and makes the other nodes meet again: README.md says when and why.
 *
 * A mark makes them meet: a node of rdzvd's own in the wait list. It is taken away as soon as the
 * round is over, before any agent counts it. No mark is set when a node waits anyhow, as long as
 * that one is there, nor once an agent's workers have ended well: the others are about to. A run
 * that has failed is closed and gets the mark as well, so that its agents end (closing.c). */
#include <stdio.h>

#include "rdzv/rendezvous/policy_internal.h"

#define LOST_SHOWN 8
#define MARK_ADDR  "rdzvd.a-node-is-lost"

const struct torch_node loss_mark = {.addr = {(const uint8_t *)MARK_ADDR, sizeof MARK_ADDR - 1},
                                     .waiting = true};

bool loss_is_mark(const struct torch_node *node)
{
    return torch_node_compare(node, &loss_mark) == 0;
}

/* True: there was one. */
static bool clear_mark(struct torch_state *state)
{
    struct torch_node *found = torch_state_find(state, &loss_mark);

    if (found == NULL || !found->waiting)
        return false;
    loss_take_out(state, found);
    return true;
}

void loss_clear_mark(struct step *s)
{
    const struct run_view *v = &s->run->view;

    if (v->is_state && torch_state_find(&v->state, &loss_mark) != NULL && step_edit(s) != NULL &&
        clear_mark(&s->edited))
        step_put_edited(s, 0);
}

/* --- The survivors. --- */

/* True: the participants left cannot go on. After a start, their agents may come back later. */
static bool have_to_meet(const struct run *run, const struct torch_state *state)
{
    return state->complete && !state->closed && !run_is_finishing(run, state->round) &&
           (run->agent_count > 0 || run->start == START_AWAITED) &&
           torch_state_participants(state) > 0;
}

/* The participants must meet again, and no node on the wait list shows them that. */
static bool should_notify(const struct run *run, const struct torch_state *state)
{
    return have_to_meet(run, state) && torch_state_waiting(state) == 0;
}

bool loss_lacks_nodes(const struct run *run, const struct torch_state *state)
{
    const struct run_view *v = &run->view;

    return v->has_completed && v->last_completed.round == state->round &&
           torch_state_participants(state) < v->completed_participants;
}

/* A mark is not needed any more once the lost nodes are back, unless more than their absence was
 * its reason: an agent that has started its workers again, a meeting that had begun before a start
 * of the daemon, or a placeholder that an agent may have taken for the key of a lost node. */
void loss_take_back(const struct run *run, struct torch_state *next)
{
    if (run->start == START_OVER && !run->must_meet && !run->meets_on_order &&
        !meeting_is_open(run) && !loss_lacks_nodes(run, next))
        clear_mark(next);
}

static void set_mark(struct torch_state *next)
{
    struct torch_node *at;

    if (torch_state_insert(next, &loss_mark, &at))
        at->waiting = true; /* the mark may be in the state already, in no list */
}

/* The nodes that the last change has taken out of the round or off a list, the first few. */
static const char *lost_nodes(struct step *s)
{
    const struct run_view *v = &s->run->view;
    char *text = (char *)step_alloc(s, LOST_SHOWN * NODE_TEXT_MAX);
    size_t len = 0, shown = 0;

    NODES_FOREACH(was, &v->before) {
        if (text == NULL || shown == LOST_SHOWN || node_role(was) == NULL || loss_is_mark(was) ||
            node_role(torch_state_find(&v->state, was)) != NULL)
            continue;
        len += (size_t)snprintf(text + len, NODE_TEXT_MAX, "%s%s", shown++ == 0 ? "" : " ",
                                explain_node(s, was));
    }
    return shown == 0 ? "" : text;
}

static void notify_survivors(struct step *s, const char *why)
{
    struct note *note =
        explain_note(s, NOTE_NODES_RESTARTED, torch_state_participants(&s->run->view.state), why);

    note->text = lost_nodes(s);
    note->action = "the others end their workers and meet again: with a successor, or, if "
                   "MIN are left, without the lost node after the last call (--regroup-wait)";
    s->out->counters.restarts_asked++;
}

/* Each agent sees the mark at its next poll, also an agent that was away. The mark is set even if
 * nodes wait: these may leave before each agent has polled. */
void loss_end_run(struct step *s)
{
    if (!run_ends_all(s->run) || step_edit(s) == NULL)
        return;
    set_mark(&s->edited);
    step_put_edited(s, 0);
}

/* --- A node whose connection has ended. --- */

/* Such a connection is a clone of the agent's store, or that of its successor. A connection that is
 * away, or that has another clock, belongs to a predecessor and does not count. */
bool loss_node_stays(struct run *run, struct agent *gone)
{
    if (gone->naming != NAMING_LISTED)
        return true;
    AGENTS_FOREACH(a, &run->agents) {
        if (a == gone || !agent_has_node(a) || a->link != LINK_HERE ||
            !agent_clock_is_same(a, gone) || torch_node_compare(&a->node, &gone->node) != 0)
            continue;
        run_list_again(run, gone, a);
        return true;
    }
    return false;
}

/* As torch's _remove_participant_epilogue(), but for a deadline when fewer than MIN are left: MIN
 * is in no message, and an agent checks it before it completes a round. */
void loss_take_out(struct torch_state *state, struct torch_node *node)
{
    bool was_in = node->participant;

    node->participant = node->waiting = node->redundant = node->has_heartbeat = false;
    if (!was_in || !state->complete || torch_state_participants(state) > 0)
        return;
    state->complete = false;
    if (state->round < INT64_MAX)
        state->round++;
}

/* Puts the edited state, without the nodes that are lost. `missed`: the nodes that are left cannot
 * go on, so they get the mark, if no node waits, and the keys that the lost nodes owe them. Losses
 * that notify no agent may have one text, as when all pods of a large job end. */
static void put_without(struct step *s, bool missed, const char *why)
{
    struct torch_state *next = s->next;
    bool meet = missed && have_to_meet(s->run, next);
    bool notify = meet && torch_state_waiting(next) == 0;

    if (notify)
        set_mark(next);
    if (!next->complete)
        clear_mark(next);
    if (!(notify ? step_put_edited(s, 0) : step_put_late(s, 0)))
        return;
    if (notify)
        notify_survivors(s, why);
    if (meet)
        placeholder_keys_put(s);
}

/* A node on the wait list is missed as well if only this node shows the others an earlier loss.
 * `was` is NULL: the agent had left the round, or had taken out its predecessor, and had not joined
 * again. The text may be late if the loss neither ends the round, nor sets or clears the mark. */
void loss_on_disconnect(struct step *s, struct agent *gone)
{
    const struct run_view *v = &s->run->view;
    const struct torch_state *state = &v->state;
    const struct torch_node *was = torch_state_find(state, &gone->node);
    struct torch_state *next;
    bool may, missed;

    if (!round_is_new(s->run, &gone->node))
        s->run->lost_label = gone->label == NULL ? (struct topology_label){0} : *gone->label;
    if (!s->run->settings->drop_disconnected || !step_is_open(s) || s->run->ending ||
        (was == NULL && !(loss_lacks_nodes(s->run, state) && should_notify(s->run, state))))
        return;
    may = was != NULL && (state->complete ? v->participants > 1 && v->waiting != 0 &&
                                                was != &state->nodes[v->waiting - 1]
                                          : torch_state_find(state, &loss_mark) == NULL);
    missed = was == NULL || was->participant || (was->waiting && loss_lacks_nodes(s->run, state));
    next = step_edit_node(s, &gone->node, may);
    if (next != NULL && was != NULL)
        loss_take_out(next, torch_state_find(next, &gone->node));
    if (next != NULL)
        put_without(s, missed && s->run->settings->restart_on_loss != RESTART_NEVER,
                    "the connection of one of them has ended");
}

void loss_make_meet(struct step *s, bool on_order, const char *why)
{
    if (!step_is_open(s) || (on_order ? !s->run->view.state.complete
                                      : s->run->settings->restart_on_loss == RESTART_NEVER))
        return;
    *(on_order ? &s->run->meets_on_order : &s->run->must_meet) = true;
    if (should_notify(s->run, &s->run->view.state) && step_edit(s) != NULL)
        put_without(s, true, why);
}

/* True: the survivors must meet without this node. */
static bool is_missed(const struct run *run, const struct torch_state *next,
                      const struct torch_node *node)
{
    if (node->waiting)
        return loss_lacks_nodes(run, next) && run->settings->restart_on_loss != RESTART_NEVER;
    return node->participant && run->settings->restart_on_loss == RESTART_WHEN_SILENT;
}

/* --- Nodes that an order or a rule keeps out. --- */

static void set_aside(struct step *s, struct torch_state *next, struct torch_node *node)
{
    struct note *note = explain_note_node(s, NOTE_NODE_SET_ASIDE, node);
    struct agent *a = run_agent_of(s->run, node);
    bool has_heartbeat = node->has_heartbeat, is_ordered = run_keeps_out(s->run, node);

    note->reason = is_ordered                            ? "an order keeps it out"
                   : a != NULL && a->lacks_group != NULL ? a->lacks_group
                   : s->run->is_shut                     ? "by --rules it has no place yet"
                                     : "the nodes of the last round have its place";
    if (a != NULL && (node->participant || a->line == LINE_PUT)) /* it may still train */
        a->has_left = s->run->view.completions;
    if (a != NULL)
        agent_set_line(a, LINE_NONE);
    loss_take_out(next, node);
    node->redundant = next->has_redundancy;
    node->has_heartbeat = has_heartbeat && node->redundant;
    if (a != NULL && is_ordered && (a->ends || !node->redundant))
        step_close(s, a,
                   a->ends ? "an operator ends its agent"
                           : "an order keeps its node out, and torch before 2.3 cannot wait "
                             "outside",
                   a->node.addr);
}

void loss_set_aside(struct step *s, bool meets)
{
    struct torch_state *next = step_is_open(s) ? step_edit(s) : NULL;
    bool trains, missed = false;
    size_t moved = 0;

    if (next == NULL)
        return;
    trains = next->complete && !meets;
    NODES_FOREACH(node, next) {
        if (loss_is_mark(node) || !(node->waiting || (node->participant && !trains)) ||
            !(node->participant && next->complete ? steering_keeps_out(s->run, node)
                                                  : steering_lacks_place(s->run, node)))
            continue;
        missed = missed || s->run->must_meet || s->run->meets_on_order ||
                 (node->participant && next->complete) || is_missed(s->run, next, node);
        set_aside(s, next, node);
        moved++;
    }
    if (moved != 0 && !next->complete && torch_state_participants(next) == 0) {
        next->has_deadline = false; /* of the next last call, that is for other nodes */
        s->run->numbers.tried = 0;
    }
    if (moved != 0)
        put_without(s, missed,
                    s->run->is_shut || s->run->lacks_groups
                        ? "one of them is lost, and too few others are there"
                        : "an order has taken a node out");
}

/* --- All of them. --- */

static size_t take_out_absent(const struct run *run, struct torch_state *state)
{
    size_t gone = 0;

    NODES_FOREACH(node, state) {
        if (node_role(node) == NULL || run_agent_of(run, node) != NULL || loss_is_mark(node))
            continue;
        loss_take_out(state, node);
        gone++;
    }
    return gone;
}

/* Not all may have seen that something waits: for those who come back, the mark stays. If the
 * waiting node is gone when all agents are back in the same round, rdzvd sets the mark. */
void loss_on_start(struct step *s, bool agents_return)
{
    const struct run_view *v = &s->run->view;

    s->run->was_meeting = v->is_state && v->state.complete && v->waiting != 0;
    s->run->failed =
        v->is_state && v->state.closed && torch_state_find(&v->state, &loss_mark) != NULL;
    if (!agents_return || !s->run->was_meeting)
        loss_clear_mark(s);
}

/* With a port of the run's own, the workers' store has gone with the daemon: the round is over, and
 * a newly started agent must not take itself for its predecessor in that round. */
void loss_on_restore(struct step *s)
{
    bool was_meeting = s->run->was_meeting, missed;
    bool drops = s->run->settings->drop_disconnected || s->run->settings->worker_port_low != 0;
    struct torch_state *next = step_is_open(s) ? step_edit(s) : NULL;
    size_t before, gone;

    s->run->was_meeting = false;
    if (next == NULL)
        return;
    before = torch_state_participants(next);
    gone = drops ? take_out_absent(s->run, next) : 0;
    missed = (was_meeting || torch_state_participants(next) < before) &&
             s->run->settings->restart_on_loss != RESTART_NEVER;
    if (gone != 0)
        explain_note(s, NOTE_NODES_LOST, gone,
                     "rdzvd was started again, and their agents have not come back: only a relay "
                     "connects again");
    s->run->must_meet = s->run->must_meet || was_meeting;
    if (was_meeting && missed && have_to_meet(s->run, next) && torch_state_waiting(next) != 0)
        set_mark(next); /* the nodes that wait may leave before each agent has polled */
    if (gone > 0 || was_meeting || (missed && should_notify(s->run, next)))
        put_without(s, missed,
                    was_meeting
                        ? "they were about to meet when rdzvd ended"
                        : "the agent of one of them has not come back after a start of rdzvd");
}

/* --- Nodes that are lost without the end of a connection. --- */

/* For so long at least, a node must be silent to be taken out. UINT64_MAX: it stays. Without
 * --silent-node-timeout, a lost node has its place again if its agent comes back, and the others
 * are notified after a minute. A node that asks for a place does not wait so long: in an open
 * round, or if an agent outside the round is connected. */
static uint64_t patience_ms(const struct run *run)
{
    if (run->settings->silent_node_ms != 0 || !run->view.state.complete || run->view.waiting != 0 ||
        steering_is_any_outside(run, false))
        return 0;
    return run->settings->restart_on_loss == RESTART_WHEN_SILENT ? run->settings->silent_restart_ms
                                                                 : UINT64_MAX;
}

/* Agents whose workers have ended well wait for each other, for five minutes in one request. */
static bool is_overdue(const struct step *s, const struct torch_node *node, uint64_t patience_ms)
{
    const struct run *run = s->run;

    return node_role(node) != NULL && !loss_is_mark(node) &&
           presence_is_lost(s, node, patience_ms) &&
           (!run_is_finishing(run, run->view.state.round) || run_agent_of(run, node) == NULL);
}

static void note_silent(struct step *s, const struct torch_node *node)
{
    struct note *note = explain_note_node(s, NOTE_NODE_SILENT, node);

    s->out->counters.nodes_silent++;
    note->ms = (int64_t)presence_silent_ms(s, node);
    note->reason = note->agent == NULL
                       ? "no agent of the node is connected, and its heartbeat is old"
                   : s->run->settings->silent_node_ms != 0
                       ? "nothing has come of its agent for --silent-node-timeout"
                       : "nothing has come of its agent for a minute, or for 15s while a node asks "
                         "for a place";
}

/* Should an agent only have slept, it is put back when it asks again: see repair.c. */
void loss_drop_silent(struct step *s)
{
    const struct run *run = s->run;
    uint64_t patience = patience_ms(run);
    struct torch_state *next = NULL;
    bool missed = false;

    if (!step_is_open(s) || patience == UINT64_MAX || run->agent_count == 0)
        return;
    NODES_FOREACH(node, &run->view.state) {
        struct torch_node *lost;

        if (!is_overdue(s, node, patience))
            continue;
        if (next == NULL && (next = step_edit(s)) == NULL)
            return;
        lost = &next->nodes[node - run->view.state.nodes];
        note_silent(s, lost);
        missed = missed || is_missed(run, next, lost);
        loss_take_out(next, lost);
    }
    if (next == NULL)
        return;
    put_without(s, missed,
                run->settings->silent_node_ms != 0
                    ? "one of them is silent for --silent-node-timeout"
                    : "one of them is silent for a minute, or for 15s and a node asks for a place");
    placeholder_keys_put(s);
}
