/* Makes spares of the nodes that wait when a round is complete with MAX nodes.
 *
 * When the workers of one node fail, that node leaves its round, so the round has a free place, and
 * a spare asks for it: now MAX + 1 nodes wait or meet. Torch takes those into the next round that
 * are first, and one stays on the wait list, for which there is no room. But an agent of torch that
 * sees a node wait ends its workers and meets again (num_nodes_waiting() > 0), whether there is
 * room or not. In that next round another one stays behind, and so on.
 *
 * A node that comes when a round has MAX nodes is no such trouble: torch puts it on the redundancy
 * list (2.3 and later) or on no list (before), and it waits until there is a place. So those who
 * still wait when a round is complete with MAX nodes are put there, in the same step: no agent sees
 * the round without that. As soon as the round has fewer than MAX nodes, they leave that list by
 * themselves and wait, at their next look.
 *
 * Left as they are: a node that rdzvd itself has put on the wait list (repair.c), whose agent may
 * still train, and has to learn that it waits; and the mark (loss.c). */
#include "rdzv/rendezvous/explain.h"
#include "rdzv/rendezvous/parts.h"

/* NULL: the node does not wait, or may not know that, or it is not known which agent it has. */
static struct agent *waiting_agent(const struct run *run, const struct torch_node *node)
{
    struct agent *a = node->waiting ? run_agent_of(run, node) : NULL;

    return a == NULL || a->line == LINE_PUT ? NULL : a;
}

static bool is_any_left(const struct run *run)
{
    const struct torch_state *state = &run->view.state;

    for (size_t i = 0; run->view.waiting != 0 && i < state->count; i++) {
        if (waiting_agent(run, &state->nodes[i]) != NULL)
            return true;
    }
    return false;
}

/* As torch leaves it that comes now. One without a redundancy list has no heartbeat either. */
static void make_spare(const struct torch_state *state, struct torch_node *node)
{
    node->waiting = false;
    node->redundant = state->has_redundancy;
    node->has_heartbeat = node->has_heartbeat && node->redundant;
}

static void note_spare(struct step *s, const struct agent *a)
{
    bool has_list = s->run->view.state.has_redundancy;
    struct note *note = explain_note(s, has_list ? NOTE_NODE_JOINED : NOTE_NODE_LEFT);

    note->agent = a;
    note->node = explain_node(s, &a->node);
    note->previous = "waiting";
    if (has_list)
        note->role = "spare";
    else
        note->reason = "the round has as many nodes as it may have; the node waits until one of "
                       "them leaves";
}

static void make_all(const struct run *run, struct torch_state *next)
{
    for (size_t i = 0; i < next->count; i++) {
        if (waiting_agent(run, &next->nodes[i]) != NULL)
            make_spare(next, &next->nodes[i]);
    }
}

/* They were made in the last put. The round as it was completed is shown, too (shown.c). */
static void note_all(struct step *s)
{
    const struct torch_state *before = &s->run->view.before;
    struct torch_state *completed = &s->run->view.last_completed;

    for (size_t i = 0; i < before->count; i++) {
        struct agent *a = waiting_agent(s->run, &before->nodes[i]);
        struct torch_node *then = torch_state_find(completed, &before->nodes[i]);

        if (a == NULL)
            continue;
        if (then != NULL)
            make_spare(completed, then);
        note_spare(s, a);
        agent_set_line(a, LINE_NONE);
    }
}

void spares_make(struct step *s)
{
    struct torch_state next;
    bool ok;

    if (s->run->fill == FILL_BELOW_MAX || !is_any_left(s->run) || !step_read_state(s, &next))
        return;
    make_all(s->run, &next);
    ok = step_put_state(s, &next, 0);
    torch_state_free(&next);
    if (ok && !s->run->view.unread)
        note_all(s);
}
