/* Decides the content of a round that is being completed: who takes part, in which order, and who
 * is a spare. Whatever completes a round, an agent or rdzvd itself, comes through here, and nothing
 * else decides it. A function of the run and of the state before.
 *
 * Order: as --rank-order says (ranks.h); without memory, torch's own.
 *
 * Spares: nodes that wait when a round is complete with MAX nodes become spares.
 *
 * When the workers of one node fail, that node leaves its round, so the round has a free place, and
 * a spare asks for it: now MAX + 1 nodes wait or meet. Torch takes those into the next round that
 * are first, and one stays on the wait list, for which there is no room. But an agent of torch that
 * sees a node wait ends its workers and meets again (num_nodes_waiting() > 0), whether there is
 * room or not. In that next round another one stays behind, and so on.
 *
 * A node that comes when a round has MAX nodes is no such trouble: torch puts it on the redundancy
 * list (2.3 and later) or on no list (before), and it waits until there is a place. So those who
 * still wait when a round is complete with MAX nodes are put there, by the same write: no agent
 * sees the round without that. As soon as the round has fewer than MAX nodes, they leave that list
 * by themselves and wait, at their next poll.
 *
 * Left as they are: a node that rdzvd itself has put on the wait list (repair.c), whose agent may
 * still train, and has to learn that it waits; and the mark (loss.c). */
#include "rdzv/rendezvous/policy_internal.h"
#include "rdzv/rendezvous/ranks.h"

static void admit_all(struct torch_state *next)
{
    for (size_t i = 0; i < next->count; i++) {
        next->nodes[i].participant = next->nodes[i].participant || next->nodes[i].waiting;
        next->nodes[i].waiting = false;
    }
}

/* The node waits, and its agent is known and knows that. */
static bool waits_knowingly(const struct run *run, const struct torch_node *node)
{
    const struct agent *a = node->waiting ? run_agent_of(run, node) : NULL;

    return a != NULL && a->line != LINE_PUT;
}

/* As torch leaves it that comes now. One without a redundancy list has no heartbeat either. */
static void make_spares(const struct run *run, struct torch_state *next)
{
    for (size_t i = 0; i < next->count; i++) {
        struct torch_node *node = &next->nodes[i];

        if (!waits_knowingly(run, node))
            continue;
        node->waiting = false;
        node->redundant = next->has_redundancy;
        node->has_heartbeat = node->has_heartbeat && node->redundant;
    }
}

void round_decide(const struct run *run, enum round_way way, struct torch_state *next)
{
    if (way == ROUND_ADMITS)
        admit_all(next);
    torch_state_complete(next);
    ranks_assign(run->settings, run->view.ranks, next);
    if (way == ROUND_HAS_MAX)
        make_spares(run, next);
}
