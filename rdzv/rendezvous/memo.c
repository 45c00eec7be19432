/* Keeps which node an agent is, and how far its clock is ahead, over a start of the daemon.
 *
 * An agent behind a relay goes on over a start. But it says which node it is only when it writes
 * the state: in a complete round that is a heartbeat each 5 s, and nothing at all once its workers
 * have ended, or while it waits for a key. So the store keeps a memo with the agent's session, and
 * the daemon reads it when the agent asks for something again. If a release before this one has
 * served the agent, there is no memo, and its node is unknown until it writes. */
#include "rdzv/rendezvous/parts.h"

#define MEMO_VERSION 2u
#define MEMO_ROUND   9u  /* where the round stands in which its workers have ended well, or -1 */
#define MEMO_HEAD    17u /* the version, by how many us its clock is ahead, and that round */

void memo_keep(struct step *s, struct agent *a)
{
    size_t len = MEMO_HEAD + a->by_node.key.len;
    struct policy_output *o;
    uint8_t *memo;

    if (!a->relayed || !a->has_node)
        return;
    memo = step_alloc(s, len);
    if (memo == NULL)
        return;
    memo[0] = MEMO_VERSION;
    bytes_put_u64(memo + 1, (uint64_t)a->clock.ahead_us);
    bytes_put_u64(memo + MEMO_ROUND, (uint64_t)(a->has_finished ? a->finished_round : -1));
    memcpy(memo + MEMO_HEAD, a->by_node.key.ptr, a->by_node.key.len);
    o = step_agent(s, POLICY_KEEP_MEMO, a);
    o->value = (struct slice){memo, len};
    a->clock.kept_us = a->clock.ahead_us;
}

/* It was a participant when the round was completed, and may have been presumed dead since. Most
 * likely its workers run. */
static void recall_round(struct run *run, struct agent *a)
{
    const struct run_view *v = &run->view;
    const struct torch_node *then =
        v->has_completed ? torch_state_find(&v->last_completed, &a->node) : NULL;

    if (then == NULL || !then->participant)
        return;
    a->nodes = torch_state_participants(&v->last_completed);
    a->round = v->last_completed.round;
    a->has_workers = true;
    a->workers_round = a->round;
    let_in_note_room(run, a, a->nodes);
}

void memo_recall(struct step *s, struct agent *a, struct slice memo)
{
    struct torch_node node = {0};
    int64_t finished_round;

    if (memo.len < MEMO_HEAD || memo.ptr[0] != MEMO_VERSION ||
        !run_node_of_key(slice_from(memo, MEMO_HEAD), &node))
        return;
    run_remember_node(s->run, a, &node);
    if (!a->has_node)
        return;
    a->is_introduced = a->is_back = true;
    agent_clock_recall(a, (int64_t)bytes_get_u64(memo.ptr + 1));
    recall_round(s->run, a);
    finished_round = (int64_t)bytes_get_u64(memo.ptr + MEMO_ROUND);
    if (finished_round >= 0)
        closing_recall_finished(s->run, a, finished_round);
}
