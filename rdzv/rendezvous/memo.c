/* What the daemon knows of an agent when it has started again. An agent of torch says which node it
 * is when it writes the state, which in a complete round is a heartbeat each 5 s, and none at all
 * once it has ended its workers, or waits for a key. An agent behind a relay goes on over a start
 * of the daemon: so with its session a memo is kept, of its node and of its clock, and given back
 * when it asks again. Of one whose relay's session came from a release that kept none it is not
 * known which node it is before it writes. */
#include "rdzv/rendezvous/parts.h"

#define MEMO_VERSION 1u
#define MEMO_HEAD    9u /* the version, and by how many us its clock is ahead */

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
    bytes_put_u64(memo + 1, (uint64_t)a->clock_ahead_us);
    memcpy(memo + MEMO_HEAD, a->by_node.key.ptr, a->by_node.key.len);
    o = step_agent(s, POLICY_KEEP_MEMO, a);
    o->value = (struct slice){memo, len};
    a->kept_ahead_us = a->clock_ahead_us;
}

/* It was a participant when the round was completed, and may have been presumed dead since. */
static void recall_round(struct run *run, struct agent *a)
{
    const struct run_view *v = &run->view;
    const struct torch_node *then =
        v->has_completed ? torch_state_find(&v->last_completed, &a->node) : NULL;

    if (then == NULL || !then->participant)
        return;
    a->nodes = torch_state_participants(&v->last_completed);
    a->round = v->last_completed.round;
    let_in_note_room(run, a, a->nodes);
}

void memo_recall(struct step *s, struct agent *a, struct slice memo)
{
    struct torch_node node = {0};

    if (memo.len < MEMO_HEAD || memo.ptr[0] != MEMO_VERSION ||
        !run_node_of_key(slice_from(memo, MEMO_HEAD), &node))
        return;
    run_remember_node(s->run, a, &node);
    if (!a->has_node)
        return;
    a->is_introduced = a->is_back = true;
    a->kept_ahead_us = (int64_t)bytes_get_u64(memo.ptr + 1);
    recall_round(s->run, a);
    skew_recall(s, a, a->kept_ahead_us);
}
