/* Lets those who wait into the round that they wait for.
 *
 * When the nodes of a round meet again, each but the last of them leaves it and waits, as new nodes
 * do; the last one begins the next round, and joins it. The others find out at their next look, up
 * to a second later, and join then; and whoever has joined before the last one finds the round
 * complete at the look after that. But a node that waits has said that it wants to be in that
 * round. So when every agent that is connected for the run has joined or waits, and they are as
 * many as the last round had, rdzvd makes those who wait participants and completes the round, as
 * torch's _add_to_participants() and _mark_rendezvous_complete() do it: the agent whose write was
 * the last to come finds that in its answer, and the others at their next look.
 *
 * None is let in that does not know that it waits: such as one that rdzvd itself has put on the
 * wait list (repair.c), and that still trains. None of which nothing has come for two looks.
 *
 * And none when the round might have fewer nodes than MIN, or more than MAX, which are in no
 * message. But MIN is no more than the participants of a round that an agent has completed, or of
 * one in its last call. And MAX is N at least to an agent whose round had N nodes, or that waits to
 * be let into one of N - 1. After a start of the daemon nothing of this is known at first. */
#include "rdzv/rendezvous/explain.h"
#include "rdzv/rendezvous/parts.h"

/* An agent that waits looks once a second. */
#define LOOKS_MS 2000

void let_in_note_wait(const struct step *s, struct agent *a)
{
    const struct run_view *v = &s->run->view;
    const struct torch_node *was = a->has_node ? torch_state_find(&v->before, &a->node) : NULL;
    const struct torch_node *is = run_node_of(s->run, a);

    if (is == NULL || !is->waiting)
        a->asks_in = false;
    else if (was == NULL || !was->waiting)
        a->asks_in = true;
}

void let_in_note_room(struct run *run, struct agent *a, uint64_t nodes)
{
    if (a->room_for < nodes)
        a->room_for = nodes;
    if (run->room_for < nodes)
        run->room_for = nodes;
}

static size_t count_waiting(const struct torch_state *state)
{
    size_t waiting = 0;

    for (size_t i = 0; i < state->count; i++)
        waiting += state->nodes[i].waiting;
    return waiting;
}

static bool may_be_let_in(const struct step *s, const struct agent *a,
                          const struct torch_node *node)
{
    return node->waiting && a->asks_in && !a->away && node->has_heartbeat &&
           presence_silent_ms(s, node) < LOOKS_MS;
}

/* Every agent that is connected has joined or may be let in, and one of them has room for so many.
 */
static bool are_all_here(const struct step *s, size_t nodes)
{
    const struct run *run = s->run;
    bool have_room = false;
    const struct agent *a;

    TAILQ_FOREACH(a, &run->agents, entry) {
        const struct torch_node *node = run_node_of(run, a);

        if (node == NULL || !(node->participant || may_be_let_in(s, a, node)))
            return false;
        have_room = have_room || a->room_for >= nodes;
    }
    return have_room;
}

/* So many are MIN or more. */
static bool are_enough(const struct run *run, size_t nodes)
{
    return run->view.state.has_deadline || (run->enough != 0 && nodes >= run->enough);
}

static void make_participants(struct torch_state *state)
{
    for (size_t i = 0; i < state->count; i++) {
        struct torch_node *node = &state->nodes[i];

        node->participant = node->participant || node->waiting;
        node->waiting = false;
    }
}

static void note_let_in(struct step *s, size_t nodes, size_t waiting)
{
    struct note *note = explain_note(s, NOTE_LAST_CALL_ENDED);

    note->number = nodes;
    note->let_in = waiting;
    note->reason = "all nodes that are connected have joined or wait, as many as the round is to "
                   "have: those that wait are let in";
}

bool let_in_waiting(struct step *s, uint64_t wanted)
{
    struct run *run = s->run;
    const struct run_view *v = &run->view;
    struct torch_state next;
    size_t waiting, nodes;
    bool ok;

    if (!step_is_open(s) || v->state.complete || v->waiting == 0)
        return false;
    waiting = count_waiting(&v->state);
    nodes = v->participants + waiting;
    if (nodes < wanted || nodes > run->room_for || nodes != run->agent_count ||
        !are_enough(run, nodes) || !are_all_here(s, nodes) || presence_is_one_silent(s) ||
        !step_read_state(s, &next))
        return false;
    make_participants(&next);
    torch_state_complete(&next);
    ok = step_put_state(s, &next, 0);
    torch_state_free(&next);
    if (!ok)
        return false;
    run->let_in_round = v->state.round;
    note_let_in(s, nodes, waiting);
    explain_change(s, TAILQ_FIRST(&run->agents));
    compare_set_completed(s, TAILQ_FIRST(&run->agents));
    return true;
}
