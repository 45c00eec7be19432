/* What an agent wants with a compare-and-set. See wish.h. */
#include "rdzv/rendezvous/wish.h"

#include "proto/torch/torch_merge.h"
#include "rdzv/rendezvous/explain.h"
#include "rdzv/rendezvous/parts.h"

bool wish_to_close(struct step *s, struct agent *a)
{
    bool asked = a->closes;
    enum close_verdict verdict;

    a->closes = true;
    verdict = closing_judge(s, a);
    if (verdict == CLOSE_WAITS && !asked)
        closing_keep(s, a);
    return verdict == CLOSE_COUNTS;
}

/* All but the mark is written. The agent is answered what it takes for success; its next look says
 * more. */
static void keep_open(struct step *s, struct agent *a, struct wish *wish)
{
    struct slice text;

    if (!wish->to.closed || wish_to_close(s, a))
        return;
    wish->to.closed = false;
    if (!step_write_state(s, &wish->to, wish->desired.len, &text)) {
        wish->to.closed = true;
        return;
    }
    wish->answer = wish->desired;
    wish->desired = text;
}

/* The state of a text; most agents expect what is there. NULL: it is none. */
static const struct torch_state *read_expected(const struct step *s, struct wish *wish)
{
    if (slice_equal(wish->expected, s->value) && !s->run->view.has_beats)
        return &s->run->view.state;
    return torch_state_read(wish->expected, &wish->memory) == TORCH_STATE_OK ? &wish->memory : NULL;
}

const struct torch_node *wish_writer(const struct agent *a, const struct torch_state *expected,
                                     const struct torch_state *desired)
{
    const struct torch_node *writer = torch_merge_writer(expected, desired);

    if (writer != NULL && a->has_node && torch_node_compare(writer, &a->node) != 0 &&
        explain_role(torch_state_find(expected, &a->node)) != NULL)
        return NULL;
    return writer;
}

void wish_read(struct step *s, struct agent *a, struct slice expected, struct slice desired,
               struct wish *out)
{
    struct torch_node *beat;

    *out = (struct wish){.expected = expected, .desired = desired};
    if (!s->run->view.is_state)
        return;
    out->from = read_expected(s, out);
    if (out->from == NULL)
        return;
    if (torch_state_read(desired, &out->to) != TORCH_STATE_OK) {
        out->from = NULL;
        return;
    }
    if (step_is_open(s))
        keep_open(s, a, out);
    out->writer = wish_writer(a, out->from, &out->to);
    if (torch_merge_heartbeat(out->from, &out->to, &s->run->view.state, &beat, &out->beat_us))
        out->beat = beat;
}

void wish_free(struct wish *wish)
{
    torch_state_free(&wish->memory);
    torch_state_free(&wish->to);
}
