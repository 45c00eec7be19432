/* MIN and MAX of a run, which are in no message: POLICY.md says how they are measured. No write of
 * a measured agent is done until both bounds meet. A heartbeat of an agent that still trains is no
 * measurement. */
#include "rdzv/rendezvous/policy_internal.h"

/* A view with more nodes would take too much memory. */
#define OTHERS_MOST 32768

static uint64_t least_of(const struct run *run, const struct agent *a)
{
    uint64_t least = a->max_least > a->room_for ? a->max_least : a->room_for;

    if (run->max_nodes > least)
        least = run->max_nodes;
    if (a->max_most != 0 && least > a->max_most)
        least = a->max_most; /* a torchrun with another MAX than that of the others */
    return least == 0 ? 1 : least;
}

size_t size_others(const struct run *run, const struct agent *a)
{
    uint64_t least = least_of(run, a), twice = 2 * (least - 1);
    uint64_t others = (least + a->max_most) / 2;

    if (a->max_most == 0)
        others = least == run->max_nodes || least == 1 ? least : twice;
    else if (least < a->max_most && a->max_most == twice)
        others = twice - 1; /* most jobs have as many nodes as were shown last */
    return others < OTHERS_MOST ? others : OTHERS_MOST;
}

static bool knows_max(const struct run *run, const struct agent *a)
{
    return a->max_most != 0 && least_of(run, a) >= a->max_most;
}

bool size_note_at_most(const struct run *run, struct agent *a, uint64_t shown)
{
    if (a->max_most == 0 || shown < a->max_most)
        a->max_most = shown;
    return knows_max(run, a);
}

void size_note_above(struct step *s, struct agent *a, uint64_t shown)
{
    if (shown >= OTHERS_MOST)
        step_close(
            s, a,
            "its node is kept out, and a MAX above 32768 in --nnodes leaves it no way to wait",
            a->node.addr);
    if (a->max_least <= shown)
        a->max_least = shown + 1;
    if (a->max_most != 0 && a->max_most < a->max_least)
        a->max_most = 0;
}

void size_note_max(struct run *run, uint64_t nodes)
{
    if (run->max_nodes == 0 && nodes == run->view.completed_participants)
        run->max_nodes = nodes;
}

/* A heartbeat that comes before the agent leaves the redundancy list tells a lower MAX. */
void size_learn_max(struct run *run, const struct agent *a)
{
    if (run->max_nodes < a->max_most && knows_max(run, a))
        run->max_nodes = a->max_most;
}

/* --- MIN and MAX of the first agent. --- */

#define STRANGERS_MOST 16384

size_t size_look(const struct run *run, const struct agent *a, bool *in_round)
{
    const struct looks *l = &run->looks;

    if (l->agent != a)
        return 0;
    *in_round = knows_max(run, a);
    if (!*in_round)
        return size_others(run, a);
    return (size_t)(l->min_most < a->max_most ? (l->min_least + l->min_most) / 2 : l->min_most - 1);
}

void size_begin_looks(struct step *s, struct agent *a, bool is_min)
{
    const struct run_view *v = &s->run->view;

    if (s->run->looks.since_ms != 0 || v->participants != 1 || !v->state.has_redundancy ||
        v->state.complete)
        return;
    if (a->max_least < 2)
        a->max_least = 2; /* else the round would be complete */
    s->run->looks = (struct looks){a, s->now->ms, is_min ? 1 : 2, is_min};
}

void size_end_looks(struct step *s, struct agent *a)
{
    struct looks *l = &s->run->looks;

    if (l->agent != a)
        return;
    l->agent = NULL;
    if (l->min_least == l->min_most)
        s->run->enough = l->min_most;
    if (!knows_max(s->run, a))
        return;
    s->run->max_nodes = a->max_most;
    explain_note(s, NOTE_SIZE_KNOWN, l->min_least == l->min_most ? l->min_most : 0, NULL)->max =
        a->max_most;
}

/* False: all is known, or the answer is none of torch's. */
static bool learn(struct step *s, struct agent *a, const struct intent *in)
{
    struct looks *l = &s->run->looks;
    bool in_round;

    if (in->shown != size_look(s->run, a, &in_round))
        return false;
    if (!in_round && in->kind == INTENT_WAIT)
        size_note_above(s, a, in->shown);
    else if (!in_round && in->kind == INTENT_SPARE)
        size_note_at_most(s->run, a, in->shown);
    else if (in_round && in->kind == INTENT_COMPLETE)
        l->min_most = in->shown;
    else if (in_round && in->kind == INTENT_HEARTBEAT && in->is->rank == LOOK_RANK)
        l->min_least = in->shown + 1;
    else
        return false;
    if (!knows_max(s->run, a))
        return size_others(s->run, a) <= STRANGERS_MOST;
    if (l->min_most == 0)
        l->min_most = a->max_most;
    return l->min_least < l->min_most;
}

bool size_take_look(struct step *s, struct agent *a, const struct intent *in)
{
    struct looks *l = &s->run->looks;
    bool answers = a->is_look && (in->kind == INTENT_WAIT || in->kind == INTENT_SPARE ||
                                  in->kind == INTENT_HEARTBEAT || in->kind == INTENT_COMPLETE);
    bool has_time = step_is_open(s) && !s->run->view.state.complete &&
                    clock_elapsed_ms(l->since_ms, s->now->ms) < LOOKS_MS;

    if (l->agent == a && !(answers && has_time && learn(s, a, in)))
        size_end_looks(s, a);
    return answers;
}
