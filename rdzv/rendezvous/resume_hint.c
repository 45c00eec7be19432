/* Keeps which node an agent is, and how far its clock is ahead, over a start of the daemon.
 *
 * An agent behind a relay goes on over a start. But only a write of the state tells the agent's
 * node: in a complete round that is a heartbeat each 5 s, and nothing at all once its workers have
 * ended, or while it waits for a key. So the store keeps a memo with the agent's session, for the
 * agent's next request. Without a memo, the node is unknown until the agent's next write. */
#include "rdzv/rendezvous/policy_internal.h"

#define MEMO_VERSION 2u
#define MEMO_ROUND \
    9u /* where the round stands in which its workers have ended well, or ROUND_NONE */
#define MEMO_HEAD 17u /* the version, by how many us its clock is ahead, and that round */

void resume_hint_keep(struct step *s, struct agent *a)
{
    size_t len = MEMO_HEAD + a->by_node.key.len;
    struct policy_output *o;
    uint8_t *memo;

    if (!a->relayed || !agent_has_node(a))
        return;
    memo = step_alloc(s, len);
    if (memo == NULL)
        return;
    memo[0] = MEMO_VERSION;
    bytes_put_u64(memo + 1, (uint64_t)a->clock.ahead_us);
    bytes_put_u64(memo + MEMO_ROUND, (uint64_t)a->finished_round);
    memcpy(memo + MEMO_HEAD, a->by_node.key.ptr, a->by_node.key.len);
    o = step_agent(s, POLICY_KEEP_MEMO, a);
    o->value = (struct slice){memo, len};
    a->clock.kept_us = a->clock.ahead_us;
}

int64_t resume_hint_take(struct run *run, struct agent *a, struct slice memo)
{
    struct torch_node node;

    if (memo.len < MEMO_HEAD || memo.ptr[0] != MEMO_VERSION ||
        !run_node_of_key(slice_from(memo, MEMO_HEAD), &node))
        return ROUND_NONE;
    run_remember_node(run, a, &node);
    if (!agent_has_node(a))
        return ROUND_NONE;
    agent_set_origin(a, ORIGIN_RETURNED);
    a->clock.kept_us = a->clock.ahead_us = (int64_t)bytes_get_u64(memo.ptr + 1);
    a->has_clock = true;
    return (int64_t)bytes_get_u64(memo.ptr + MEMO_ROUND);
}
