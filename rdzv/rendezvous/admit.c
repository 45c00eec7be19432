/* Admits the nodes that wait for a round: POLICY.md has the reason and the conditions. A node on
 * the wait list has asked for a place in the next round. So rdzvd makes it a participant and
 * completes the round, as torch's _add_to_participants() and _mark_rendezvous_complete() do it. */
#include "rdzv/rendezvous/policy_internal.h"

/* An agent that waits polls once a second. */
#define POLLS_MS 2000
/* Between two polls of an agent that waits; heartbeats come sooner after a poll, or later. */
#define ASKS_AGAIN_LEAST_MS 500
#define ASKS_AGAIN_MOST_MS  4000

void admit_note_wait(const struct step *s, struct agent *a)
{
    const struct run_view *v = &s->run->view;
    const struct torch_node *was =
        agent_has_node(a) ? torch_state_find(&v->before, &a->node) : NULL;
    const struct torch_node *is = run_node_of(s->run, a);

    if (is == NULL || !is->waiting)
        agent_set_line(a, LINE_NONE);
    else if (was == NULL || !was->waiting)
        agent_set_line(a, LINE_ASKED);
}

/* The request may come from the thread of the heartbeats, before that of the workers has polled. */
void admit_note_shown(struct agent *a, uint64_t now_ms)
{
    uint64_t ago_ms = clock_elapsed_ms(a->shown_wait_ms, now_ms);

    if (a->shown_wait_ms == 0 || ago_ms > ASKS_AGAIN_MOST_MS)
        a->shown_wait_ms = now_ms;
    else if (ago_ms >= ASKS_AGAIN_LEAST_MS)
        agent_set_line(a, LINE_ASKED);
}

void admit_note_room(struct run *run, struct agent *a, uint64_t nodes)
{
    if (a->room_for < nodes)
        a->room_for = nodes;
    if (run->room_for < nodes)
        run->room_for = nodes;
}

static bool may_be_admitted(const struct step *s, const struct agent *a,
                            const struct torch_node *node)
{
    return a->line == LINE_ASKED && a->link == LINK_HERE && !a->closes && node->has_heartbeat &&
           (agent_is_held(a) || clock_elapsed_ms(a->heard_ms, s->now->lived_ms) < POLLS_MS);
}

/* Joined and waiting nodes are those of all agents; and MAX of an agent allows so many nodes. */
static bool are_all_here(const struct step *s, size_t nodes)
{
    const struct run *run = s->run;
    bool have_room = false;

    if (nodes != steering_agents(run))
        return false;
    NODES_FOREACH(node, &run->view.state) {
        const struct agent *a;

        if (!node->participant && !node->waiting)
            continue;
        a = run_agent_of(run, node);
        if (a == NULL || (node->waiting && !may_be_admitted(s, a, node)) ||
            (node->participant && presence_is_lost(s, node, 0)))
            return false;
        have_room = have_room || a->room_for >= nodes;
    }
    return have_room;
}

bool admit_waiting(struct step *s, uint64_t wanted)
{
    const struct run *run = s->run;
    const struct run_view *v = &run->view;
    struct torch_state *next;
    size_t waiting, nodes;

    if (v->waiting == 0)
        return false;
    waiting = torch_state_waiting(&v->state);
    nodes = v->participants + waiting;
    if (nodes < wanted || run->enough == 0 || nodes < run->enough || nodes > run->room_for ||
        run_size(run, nodes) == 0 || !are_all_here(s, nodes) || (next = step_edit(s)) == NULL)
        return false;
    round_decide(run, ROUND_ADMITS, next);
    /* Ranks are written for each node, and times in another order, which makes a longer text. */
    if (!step_put_edited(s, TORCH_STATE_GROWTH(s->value.len) - s->value.len))
        return false;
    if (!v->unread)
        explain_note(s, NOTE_NODES_ADMITTED, nodes,
                     "all nodes that are connected have joined or wait, at least as many as the "
                     "last round had")
            ->admitted = waiting;
    return true;
}
