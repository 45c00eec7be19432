/* The end of a run: when rdzvd forgets it, and the keys, agents and stores that go with it. */
#include "rdzv/rendezvous/policy.h"
#include "rdzv/rendezvous/policy_internal.h"

void forget_end_run(struct step *s)
{
    struct run *run = s->run;

    if (run->view.record.worker_store != 0)
        step_emit(s, POLICY_DROP_WORKER_STORE)->worker_store = run->view.record.worker_store;
    run->shares_roles = run->was_meeting = run->must_meet = run->meets_on_order = run->failed =
        run->awaits_others = false;
    run->finishing.round = ROUND_NONE;
    run->close_kept = CLOSE_NOT_KEPT;
    run_view_update(&run->view, (struct slice){0});
    s->value = (struct slice){0};
    worker_store_release(s);
    rejoin_release_waiting(s);
}

/* Torch's agents would wait for the run's keys for a minute, and end then. */
static void end_agents(struct step *s, const struct agent_list *agents, const char *reason)
{
    AGENTS_FOREACH(a, agents)
        step_close(s, a, reason, s->run->view.id);
}

static void forget(struct step *s, const char *reason)
{
    struct run *run = s->run;

    step_emit(s, POLICY_FORGET_RUN)->key = run->view.node.key;
    explain_note(s, NOTE_RUN_FORGOTTEN, 0, reason)->closed = run->view.state.closed;
    forget_end_run(s);
}

/* After a start, those who may still come back have not left: they would take the run that is begun
 * next for theirs. While the store takes no changes, its keys could not be deleted. */
const char *policy_why_forget(const struct run *run, const struct policy_now *now)
{
    const struct policy_settings *settings = run->settings;
    uint64_t idle_ms = clock_elapsed_ms(run->idle_since_ms, now->ms);

    if (run->agent_count > 0 || run->start == START_AWAITED || !run->view.exists || now->refuses)
        return NULL;
    if (run->awaits_others)
        return TAILQ_EMPTY(&run->rejoining) ? "no host has come that may begin the ended job again"
                                            : NULL;
    if (run->failed && run->orders.word != ORDER_CLOSE)
        return "it has failed, and all its agents have ended";
    if (run->view.state.closed && run->orders.word != ORDER_CLOSE &&
        idle_ms >= settings->closed_run_ttl_ms)
        return "it is closed, and no agent was connected for --closed-run-ttl";
    if (settings->idle_run_ttl_ms != 0 && idle_ms >= settings->idle_run_ttl_ms)
        return "no agent was connected for --idle-run-ttl";
    return NULL;
}

/* Agents that were taken for dead would take the next run for theirs as well, and agents of
 * torch 2.6 and later keep the address of the worker store for life. */
bool forget_if_left(struct step *s)
{
    const char *reason = policy_why_forget(s->run, s->now);

    if (reason == NULL)
        return false;
    end_agents(s, &s->run->gone,
               "its run was forgotten while it was taken for dead; start it again");
    forget(s, reason);
    return true;
}

void forget_on_request(struct step *s, const struct policy_event *)
{
    if (!s->run->view.exists)
        return;
    s->run->ending = true;
    end_agents(s, &s->run->agents, "its run is forgotten on request; start it again");
    end_agents(s, &s->run->gone, "its run is forgotten on request; start it again");
    forget(s, "on request");
}
