/* Which agent may close the run. An agent of torch closes it whenever it ends but by a signal
 * (launcher/api.py, launch_agent(); 2.3 to 2.7: then, too), whether its workers are done, have
 * failed for the last time, or it could not even start them; and then no agent joins any more. So a
 * close counts from an agent whose workers run in the newest round: a participant of that round,
 * complete, that has got their ranks. All others may leave, and the run goes on for those who are
 * in it.
 *
 * Ranks: the agents of a round tell each other their roles and read the ranks that follow from them
 * (api.py, _assign_worker_ranks()), unless TORCH_ELASTIC_WORKER_IDENTICAL is 1: then no agent of
 * the run does, and a participant counts. */
#include "rdzv/rendezvous/parts.h"

#define ROLE_KEYS  "torchelastic/role_info" /* of 2.3 and before: role_info0, role_info0.FIN */
#define RANKS_KEYS "torchelastic/assigned_ranks/"

static void note_workers(struct agent *a, int64_t round)
{
    a->has_workers = true;
    a->workers_round = round;
}

static bool ends_with(struct slice text, struct slice end)
{
    return text.len >= end.len && slice_equal(slice_from(text, text.len - end.len), end);
}

void closing_note_set(struct step *s, struct agent *a, int64_t round, struct slice name)
{
    if (!slice_starts_with(name, slice_str(ROLE_KEYS)))
        return;
    s->run->shares_roles = true;
    if (ends_with(name, slice_str(".FIN"))) /* it has read the roles of all */
        note_workers(a, round);
}

void closing_note_read(struct agent *a, int64_t round, struct slice name)
{
    if (slice_starts_with(name, slice_str(RANKS_KEYS)))
        note_workers(a, round);
}

static const struct torch_node *node_of(const struct run *run, const struct agent *a)
{
    return a->has_node ? torch_state_find(&run->view.state, &a->node) : NULL;
}

/* Another agent is in its completed round, and does not want to close the run, too. */
static bool others_are_in(const struct run *run, const struct agent *a)
{
    const struct agent *b;

    TAILQ_FOREACH(b, &run->agents, entry) {
        if (b != a && b->nodes != 0 && !b->closes)
            return true;
    }
    return false;
}

/* The same, or it has joined, or waits; or nothing is known of it since the start, or it may still
 * come back. */
static bool others_go_on(const struct run *run, const struct agent *a)
{
    const struct agent *b;

    if (run->awaits_agents)
        return true;
    TAILQ_FOREACH(b, &run->agents, entry) {
        const struct torch_node *node = node_of(run, b);

        if (b != a && !b->closes &&
            (b->nodes != 0 || agent_is_forgotten(b) ||
             (node != NULL && (node->participant || node->waiting || node->redundant))))
            return true;
    }
    return false;
}

static bool runs_workers(const struct run *run, const struct agent *a)
{
    const struct torch_node *node = node_of(run, a);

    return run->view.state.complete && node != NULL && node->participant &&
           (!run->shares_roles || (a->has_workers && a->workers_round == run->view.state.round));
}

bool closing_is_refused(const struct step *s, const struct agent *a)
{
    const struct policy_settings *settings = s->run->settings;

    return (settings->close_needs_all && others_are_in(s->run, a)) ||
           (settings->close_from_members && !runs_workers(s->run, a) && others_go_on(s->run, a));
}
