/* Decides the content of a round that is being completed: who takes part, in which order, and who
 * is a spare. Whatever completes a round, an agent or rdzvd itself, comes through here, and nothing
 * else decides it. A function of the run and of the state before.
 *
 * README.md says why nodes that wait when a round is complete with MAX nodes become spares. The
 * same write puts them where torch puts a node that comes later, so no agent sees the round without
 * that: on the redundancy list (2.3 and later), or on no list (before).
 *
 * Left as they are: a node that rdzvd itself has put on the wait list (repair.c), whose agent may
 * still train, and has to learn that it waits; and the mark (loss.c). */
#include "rdzv/rendezvous/policy_internal.h"

static void admit_all(struct torch_state *next)
{
    NODES_FOREACH(node, next) {
        node->participant = node->participant || node->waiting;
        node->waiting = false;
    }
}

static void make_spare(const struct torch_state *next, struct torch_node *node)
{
    node->waiting = false;
    node->redundant = next->has_redundancy;
    node->has_heartbeat = node->has_heartbeat && node->redundant;
}

bool round_is_new(const struct run *run, const struct torch_node *node)
{
    return !torch_state_takes_part(&run->view.last_completed, node);
}

/* A new node before one of the last round, then the higher rank. Rank 0 stays: see ranks.c. */
static bool gives_way(const struct run *run, const struct torch_node *a, const struct torch_node *b)
{
    if (a->rank == 0 || b->rank == 0 || round_is_new(run, a) == round_is_new(run, b))
        return a->rank > b->rank;
    return round_is_new(run, a);
}

/* Participants beyond a multiple become spares. False: there is none. */
static bool cut(const struct run *run, struct torch_state *next)
{
    size_t nodes = torch_state_participants(next), size = run_size(run, nodes);

    if (size == nodes || size == 0)
        return false;
    for (; nodes > size; nodes--) {
        struct torch_node *least = NULL;

        NODES_FOREACH(node, next) {
            if (node->participant && (least == NULL || gives_way(run, node, least)))
                least = node;
        }
        least->participant = false;
        make_spare(next, least);
    }
    return true;
}

/* As torch leaves it that comes now. One without a redundancy list has no heartbeat either. */
static void make_spares(const struct run *run, struct torch_state *next)
{
    NODES_FOREACH(node, next) {
        const struct agent *a = node->waiting ? run_agent_of(run, node) : NULL;

        if (a != NULL && a->line != LINE_PUT) /* it knows that it waits */
            make_spare(next, node);
    }
}

static void complete(const struct run *run, struct torch_state *next)
{
    torch_state_complete(next);
    ranks_assign(run->settings, run, run->view.ranks, next);
}

void round_decide(const struct run *run, enum round_way way, struct torch_state *next)
{
    if (way == ROUND_ADMITS)
        admit_all(next);
    complete(run, next);
    if (cut(run, next))
        complete(run, next);
    if (way == ROUND_HAS_MAX)
        make_spares(run, next);
}
