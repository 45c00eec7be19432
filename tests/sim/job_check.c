/* What must hold. See job_check.h. */
#include "tests/sim/job_check.h"

#include "rdzv/rendezvous/explain.h"
#include "tests/sim/job_net.h"
#include "tests/sim/job_workers.h"

#include <stdio.h>

/* rdzvd has heard of a lost node so late that its agents' minute was over at the same time. */
#define NOTICED_MS 1000
#define SPLIT_MS \
    4000 /* how long a node that looks once a second takes to notice that it was replaced */
#define POLLS_MS  3000  /* how long a look is held, at most */
#define GATHER_MS 47000 /* the same, until all look */
/* So long after a fault, nodes may meet again for it. */
#define AFTERMATH_MS 45000
#define VAIN_MOST    3    /* meetings: a dead node that waits counts for 15 s, as with torch */
#define PLACE_MS     3000 /* an agent in reach asks so soon, and after its interval */
#define QUEUED_MS    8000 /* how long a request is held by the queue, at most */

/* --- Worlds. --- */

void check_world(const struct pod *p)
{
    for (size_t i = 0; i < p->job->pod_count; i++) {
        const struct pod *other = &p->job->pods[i];

        if (other == p || !other->training)
            continue;
        if (other->world == p->world && other->agent.rank == p->agent.rank)
            sim_fail("%s and %s have rank %" PRId64, p->name, other->name, p->agent.rank);
        if ((other->world == p->world) != (other->worker_store == p->worker_store) &&
            p->worker_store != 0 && other->worker_store != 0)
            sim_fail("%s and %s share a worker store, or do not", p->name, other->name);
        if (other->world == p->world && p->job->settings.sharing == SHARING_ONCE &&
            (strcmp(other->agent.address, p->agent.address) != 0 ||
             strcmp(other->agent.port, p->agent.port) != 0))
            sim_fail("%s and %s have read different addresses", p->name, other->name);
    }
}

/* Its round goes on without the one that was to say where the workers' store is. */
static bool lacks_agent_0(const struct pod *p)
{
    const struct run_view *v = &p->job->run->run.view;
    const struct torch_state *then = &v->last_completed;

    if (!v->has_completed || !v->state.complete || then->round != p->agent.round ||
        v->state.round != then->round)
        return false;
    for (size_t i = 0; i < then->count; i++) {
        const struct torch_node *now = torch_state_find(&v->state, &then->nodes[i]);

        if (then->nodes[i].participant && then->nodes[i].rank == 0)
            return now == NULL || !now->participant;
    }
    return false;
}

/* True: an agent fails like that by the daemon's doing alone. Of a round that was completed before
 * the daemon began, it does not know how many nodes were in it; nor who an agent is that a relay
 * has brought over that, before it writes. */
static bool is_ours(const struct pod *p)
{
    const struct policy_settings *settings = &sim.space.settings;
    const struct run_view *v = &p->job->run->run.view;
    const char *failure = p->agent.failure;

    if (strcmp(failure, MODEL_RANK_TOO_HIGH) == 0)
        return settings->drop_disconnected && v->has_completed && p->link != NULL &&
               agent_has_node(&p->link->agent) && v->last_completed.round == p->agent.round &&
               (int64_t)torch_state_participants(&v->last_completed) > p->agent.rank;
    if (strcmp(failure, MODEL_NO_ADDRESS) == 0)
        return settings->restart_on_loss == RESTART_WHEN_SILENT && lacks_agent_0(p) &&
               !(p->job->is_due && sim_now() - p->job->due_ms < NOTICED_MS) &&
               net_is_reachable(p) && net_reachable_for(p) >= SPLIT_MS;
    return strstr(failure, "TypeError") != NULL || strstr(failure, "corrupt") != NULL;
}

void check_failure(const struct pod *p)
{
    if (is_ours(p))
        sim_fail("%s: %s", p->name, p->agent.failure);
}

/* --- After each event. --- */

static void check_ranks(const struct job *job)
{
    const struct torch_state *s = &job->run->run.view.state;

    for (size_t i = 0; s->complete && i < s->count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (s->nodes[i].participant && s->nodes[k].participant &&
                s->nodes[i].rank == s->nodes[k].rank)
                sim_fail("rank %" PRId64 " is there twice", s->nodes[i].rank);
        }
    }
}

static bool is_live(const struct pod *p)
{
    return p->training && !p->hangs && !p->agent.workers_failed && net_is_reachable(p) &&
           net_reachable_for(p) >= SPLIT_MS;
}

/* Some agents look seldom. */
static uint64_t split_most_ms(const struct pod *a, const struct pod *b)
{
    return SPLIT_MS - 1000 + latest(a->settings.monitor_ms, b->settings.monitor_ms, 1000);
}

static void check_worlds(struct job *job)
{
    const struct pod *first = NULL;

    for (size_t i = 0; i < job->pod_count; i++) {
        const struct pod *p = &job->pods[i];

        if (!is_live(p))
            continue;
        if (first == NULL)
            first = p;
        if (p->world == first->world)
            continue;
        if (job->split_since_ms == 0)
            job->split_since_ms = sim_now();
        if (sim_now() - job->split_since_ms > split_most_ms(first, p))
            sim_fail("%s trains in round %" PRId64 " and %s in round %" PRId64, first->name,
                     first->agent.round, p->name, p->agent.round);
        return;
    }
    job->split_since_ms = 0;
}

static void check_held(const struct pod *p)
{
    const struct model_link *link = p->link;
    uint64_t since;

    if (link == NULL || !link->held)
        return;
    since = link->held_since_ms;
    if (sim.stalled_until_ms > since)
        since = sim.stalled_until_ms;
    if ((link->agent.held == HELD_JOIN || link->agent.held == HELD_NUMBER) && sim_now() > since &&
        sim_now() - since > QUEUED_MS)
        sim_fail("%s waits for its number for too long", p->name);
    if ((link->agent.held == HELD_LONG || link->agent.held == HELD_LONG_ANSWER) &&
        sim_now() > since && sim_now() - since > POLLS_MS)
        sim_fail("%s looks for too long", p->name);
    if (link->agent.held == HELD_GATHERED && sim_now() > since && sim_now() - since > GATHER_MS)
        sim_fail("%s waits for the others to look for too long", p->name);
    if (link->agent.held == HELD_REJOIN && sim_now() > since &&
        sim_now() - since > sim.space.settings.closed_run_wait_ms + 2000)
        sim_fail("%s has waited for a closed run for too long", p->name);
}

/* When a round has just been completed with MAX nodes, no node may ask for a place: such a node
 * would make the others meet again and again. */
static void check_spares(struct job *job)
{
    const struct run_view *v = &job->run->run.view;

    if (!v->state.complete || v->participants < job->settings.max_nodes)
        return;
    for (size_t i = 0; i < job->pod_count; i++) {
        const struct pod *p = &job->pods[i];
        const struct torch_node *node =
            p->link == NULL ? NULL : run_node_of(&job->run->run, &p->link->agent);

        if (node != NULL && node->waiting && p->link->agent.line != LINE_PUT)
            sim_fail("%s waits for a round that has room for no more", p->name);
    }
}

/* What was measured is what the agents were started with. */
static void check_measured(const struct job *job)
{
    const struct run *run = &job->run->run;
    const struct looks *l = &run->looks;

    if (run->max_nodes != 0 && run->max_nodes != job->settings.max_nodes)
        sim_fail("MAX is measured as %" PRIu64, run->max_nodes);
    if (l->min_most != 0 &&
        (l->min_least > job->settings.min_nodes || l->min_most < job->settings.min_nodes))
        sim_fail("MIN is measured as %" PRIu64 " to %" PRIu64, l->min_least, l->min_most);
}

static int64_t rank_of(const struct torch_state *s, const struct pod *p)
{
    const struct torch_node *node =
        torch_state_find(s, &(struct torch_node){.addr = slice_str(p->name), .pid = 100});

    return node != NULL && node->participant ? node->rank : -1;
}

/* With --rank-order=keep, a node that was in the last round has its rank, if the round has so many.
 * Only the node of --rank-zero may leave it, for rank 0. */
static void check_kept_ranks(struct job *job)
{
    const struct policy_settings *settings = &sim.space.settings;
    const struct run_view *v = &job->run->run.view;
    int64_t nodes = (int64_t)torch_state_participants(&v->last_completed);
    bool is_same_run = job->completions > 0 && v->completions == job->completions + 1 &&
                       job->run->incarnation == job->incarnation &&
                       settings->rank_order == RANKS_KEEP;

    for (size_t i = 0; i < job->pod_count; i++) {
        const struct pod *p = &job->pods[i];
        int64_t before = is_same_run ? job->ranks[i] : -1, rank = rank_of(&v->last_completed, p);

        if (rank >= nodes)
            sim_fail("%s has rank %" PRId64 " of %" PRId64 " nodes", p->name, rank, nodes);
        if (rank >= 0 && before >= 0 && before < nodes && rank != before &&
            (rank != 0 || settings->rank_zero == NULL || strcmp(p->name, settings->rank_zero) != 0))
            sim_fail("%s had rank %" PRId64 " and has %" PRId64, p->name, before, rank);
        job->ranks[i] = rank;
    }
    for (size_t i = job->pod_count; i < PODS; i++)
        job->ranks[i] = -1;
}

/* The number of nodes of this round that the last round lacks; -1: a node of the last round is
 * missing, or its agent has begun anew. */
static int count_more(const struct job *job, const int64_t before[PODS])
{
    int more = 0;

    for (size_t i = 0; i < job->pod_count; i++) {
        if (before[i] >= 0 && (job->ranks[i] < 0 || job->pods[i].started_ms >= job->completed_ms))
            return -1;
        more += before[i] < 0 && job->ranks[i] >= 0;
    }
    return more;
}

/* By the rules of the run, the number of nodes is a multiple, and nodes that meet only for more
 * nodes do not meet too early, nor for nothing: if a node is lost meanwhile, once or twice. */
static void check_size(struct job *job, const int64_t before[PODS])
{
    const struct run_rules *rules = &job->run->run.rules;
    const struct run_view *v = &job->run->run.view;
    uint64_t nodes = torch_state_participants(&v->last_completed);
    int more = count_more(job, before);
    bool grows = job->grows && v->completions == job->completions + 1 &&
                 job->run->incarnation == job->incarnation && more >= 0 &&
                 (rules->nodes_multiple != 0 || rules->group != 0 || rules->grow_interval_ms != 0);

    if (job_size(job, nodes) != nodes)
        sim_fail("%" PRIu64 " nodes are no multiple of %" PRIu64, nodes, rules->nodes_multiple);
    job->vain = grows && more == 0 ? job->vain + 1 : 0;
    if (grows && sim.fault_count == job->completed_faults &&
        job->completed_ms - sim.last_fault_ms > AFTERMATH_MS)
        job->vain = more == 0 || sim_now() - job->completed_ms < rules->grow_interval_ms ? 9 : 0;
    if (job->vain > VAIN_MOST)
        sim_fail("nodes have met for %d nodes more after %" PRIu64 " ms", more,
                 sim_now() - job->completed_ms);
}

static bool is_back(const struct pod *p)
{
    return model_agent_is_alive(&p->agent) && p->started_ms < p->job->completed_ms &&
           net_is_reachable(p) && net_reachable_for(p) >= PLACE_MS + p->settings.monitor_ms &&
           p->link != NULL && !p->link->agent.closes &&
           !run_keeps_out(&p->job->run->run, &(struct torch_node){.addr = slice_str(p->name)});
}

/* No new node takes the place of a node of the last round that is back. When rdzvd begins anew
 * while the nodes meet, it does not know all of them. If it does not take out lost nodes, these
 * have places. */
static void check_places(struct job *job, const int64_t before[PODS])
{
    const struct run_view *v = &job->run->run.view;
    const struct pod *left = NULL;
    bool is_any_new = false;
    size_t nodes = 0;

    for (size_t i = 0; i < job->pod_count; i++) {
        if (before[i] >= 0 && job->ranks[i] < 0 && is_back(&job->pods[i]))
            left = &job->pods[i];
        is_any_new = is_any_new || (before[i] < 0 && job->ranks[i] >= 0);
        nodes += before[i] >= 0;
    }
    if (left != NULL && is_any_new && sim.space.settings.drop_disconnected &&
        job->run->run.rules.group == 0 && nodes == job->nodes_known &&
        job->max_known == job->settings.max_nodes &&
        job->max_known == torch_state_participants(&v->last_completed) && v->state.has_redundancy &&
        v->completions == job->completions + 1 && job->run->incarnation == job->incarnation)
        sim_fail("a new node has the place of %s", left->name);
}

/* A node waits for the complete round, and that has lost none; rdzvd has no other cause either. */
static void note_growth(struct job *job)
{
    const struct run_view *v = &job->run->run.view;

    if (v->completions != job->completions || !v->state.complete || !v->has_completed)
        return;
    if (v->participants != torch_state_participants(&v->last_completed) ||
        torch_state_find(&v->state, &loss_mark) != NULL)
        job->shrinks = true;
    job->grows = job->grows || (v->waiting != 0 && !job->shrinks);
}

static bool is_in(const struct torch_state *s, struct slice name)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->nodes[i].participant && slice_equal(s->nodes[i].addr, name))
            return true;
    }
    return false;
}

static struct topology_group group_of(const struct job *job, struct slice name)
{
    return topology_group(sim.space.settings.topology, name, job->run->run.rules.group);
}

static bool are_together(const struct job *job, struct slice a, struct slice b)
{
    struct topology_group x = group_of(job, a), y = group_of(job, b);

    return x.count != 0 && y.count != 0 && x.first == y.first;
}

/* A round has no part of a group, unless rdzvd does not know all nodes, or lost ones have places.
 */
static void check_groups(const struct job *job)
{
    const struct torch_state *s = &job->run->run.view.last_completed;
    bool counts = job->run->run.start == START_OVER && sim.space.settings.drop_disconnected;

    for (size_t i = 0; counts && i < s->count; i++) {
        for (size_t k = 0; s->nodes[i].participant && k < PODS; k++) {
            struct slice name = slice_str(job->pods[k].name);

            if (are_together(job, s->nodes[i].addr, name) && !is_in(s, name))
                sim_fail("a round has no %s, and another node of its group", job->pods[k].name);
        }
    }
}

static void check_completed(struct job *job)
{
    const struct run_view *v = &job->run->run.view;
    int64_t before[PODS];

    if (v->completions == job->completions)
        return;
    memcpy(before, job->ranks, sizeof before);
    if (v->has_completed) {
        check_kept_ranks(job);
        check_size(job, before);
        check_places(job, before);
        check_groups(job);
    }
    check_spares(job);
    check_measured(job);
    memmove(job->completed_at + 1, job->completed_at, BUDGET_MAX * sizeof *job->completed_at);
    job->completed_at[0] = sim_now();
    job->completed_ms = sim_now();
    job->completed_faults = sim.fault_count;
    job->grows = job->shrinks = false;
    job->completions = v->completions;
    job->incarnation = job->run->incarnation;
}

/* Only after one failure more than the budget has, and each of them ends a complete round. */
void check_stopped(struct model_run *run)
{
    const struct rule_limit *budget = &run->run.rules.restart_budget;
    struct job *job = &sim.jobs[run - sim.space.runs];
    uint64_t first_ms;

    check_completed(job); /* in the same moment, perhaps */
    first_ms = job->completed_at[budget->count];
    sim_tell("%s: its restart budget of %" PRIu64 " is used up", run->key, budget->count);
    if (budget->ms == 0 || first_ms == 0 || !sim.has_faults ||
        (budget->count != 0 && sim_now() - job->completed_at[budget->count - 1] > budget->ms))
        sim_fail("%s is closed, and its restart budget is not used up", run->key);
}

void check_job(struct job *job)
{
    check_ranks(job);
    note_growth(job);
    check_completed(job);
    job->max_known = job->run->run.max_nodes;
    job->nodes_known = job->run->run.view.completed_participants;
    check_worlds(job);
    check_ends(job);
    for (size_t i = 0; i < job->pod_count; i++)
        check_held(&job->pods[i]);
}

/* --- At rest. --- */

/* How many agents of the group of a node are alive and outside of the round: all of its own, and
 * SIZE_MAX if the group is not whole. */
static size_t count_outside(const struct job *job, const struct pod *of)
{
    size_t alive = 0, outside = 0;

    for (size_t i = 0; i < job->pod_count; i++) {
        const struct pod *p = &job->pods[i];

        if (!model_agent_is_alive(&p->agent) ||
            (p != of && !are_together(job, slice_str(of->name), slice_str(p->name))))
            continue;
        alive++;
        outside += !is_in(&job->run->run.view.state, slice_str(p->name));
    }
    return alive < group_of(job, slice_str(of->name)).count ? SIZE_MAX : outside;
}

/* All whole groups take part, as MAX allows. */
static bool is_settled_in_groups(const struct job *job, size_t in, size_t train)
{
    const struct torch_state *s = &job->run->run.view.state;
    size_t free_nodes = 0, whole = 0, most = job->settings.max_nodes;
    bool has_room = false;

    for (size_t i = 0; i < job->pod_count; i++) {
        const struct pod *p = &job->pods[i];
        size_t outside = count_outside(job, p);

        if (!model_agent_is_alive(&p->agent) || outside == SIZE_MAX)
            continue;
        *(group_of(job, slice_str(p->name)).count == 0 ? &free_nodes : &whole) += 1;
        has_room = has_room || (outside != 0 && in + outside <= most);
    }
    whole = whole < most ? whole : most / 2 * 2;
    if (whole + free_nodes < job->settings.min_nodes)
        return train == 0 || in == torch_state_participants(s);
    return !has_room && (in == 0 ? train == 0 && !s->complete : in == torch_state_participants(s));
}

static bool is_settled(const struct job *job)
{
    const struct torch_state *s = &job->run->run.view.state;
    size_t alive = 0, in = 0, train = 0;
    bool stays_closed = job->run->orders.word == ORDER_CLOSE;

    for (size_t i = 0; i < job->pod_count; i++) {
        const struct pod *p = &job->pods[i];
        const struct torch_node who = {.addr = slice_str(p->name), .pid = 100};
        const struct torch_node *node = torch_state_find(s, &who);

        if (!net_is_reachable(p) || (p->wanted && !model_agent_is_alive(&p->agent) &&
                                     !job->run->run.awaits_others && !stays_closed))
            return false;
        alive += model_agent_is_alive(&p->agent);
        train += p->training;
        in += workers_are_whole(p) && p->done_ms == 0 && !p->agent.errs && node != NULL &&
              node->participant && node->rank == p->agent.rank && s->complete &&
              s->round == p->agent.round;
    }
    if (stays_closed)
        return train == 0 && job->again_ms == 0;
    if (job->again_ms != 0 || job->finishes)
        return false;
    if (job->run->run.awaits_others) /* only its spares are left, which wait for another host */
        return train == 0;
    if (sim.has_verbs && in > 0 && in >= job_size(job, alive)) /* a rule moves no node of a round */
        return in == torch_state_participants(s);
    if (job->run->run.rules.group != 0)
        return is_settled_in_groups(job, in, train);
    if (alive < job->settings.min_nodes || job_size(job, alive) == 0)
        return train == 0;
    return in == job_size(job, alive) && torch_state_participants(s) == in;
}

bool all_settled(void)
{
    if (sim.stalled_until_ms > sim_now())
        return false;
    for (size_t k = 0; k < sim.job_count; k++) {
        if (!is_settled(&sim.jobs[k]))
            return false;
    }
    return true;
}

/* True if the other agents will soon presume the node dead: its agent was away for too long, or the
 * daemon has restarted and does not know which node the agent is. */
static bool looks_dead(const struct job *job, const struct torch_node *node)
{
    int64_t now_us = sim.space.now.wall_ns / 1000;

    for (size_t i = 0; i < job->pod_count; i++) {
        if (slice_is(node->addr, job->pods[i].name))
            now_us += job->pods[i].agent.skew_us;
    }
    return node->has_heartbeat && node->heartbeat_us < now_us - TORCH_DEAD_MS * INT64_C(1000);
}

/* True if a job meets, or will soon. If a round has lost a node, its workers fail. A waiting node
 * makes all others meet again, and the next round may be completed with a lost node while its
 * heartbeat is young. */
static bool does_any_job_meet(void)
{
    for (size_t k = 0; k < sim.job_count; k++) {
        const struct run_view *v = &sim.jobs[k].run->run.view;
        const struct torch_state *s = &v->state;

        if (!s->complete ||
            torch_state_participants(s) != torch_state_participants(&v->last_completed))
            return true;
        for (size_t i = 0; i < s->count; i++) {
            if (s->nodes[i].waiting || looks_dead(&sim.jobs[k], &s->nodes[i]))
                return true;
        }
    }
    return false;
}

bool all_at_rest(void)
{
    return all_settled() && !does_any_job_meet();
}

void tell_state(const struct job *job)
{
    const struct torch_state *s = &job->run->run.view.state;

    fprintf(stderr, "%s: round %" PRId64 "%s%s, %zu to %zu nodes\n", job->run->key, s->round,
            s->complete ? ", complete" : "", s->closed ? ", closed" : "", job->settings.min_nodes,
            job->settings.max_nodes);
    for (size_t i = 0; i < job->pod_count; i++) {
        const struct pod *p = &job->pods[i];
        const struct torch_node who = {.addr = slice_str(p->name), .pid = 100};
        const struct torch_node *node = torch_state_find(s, &who);

        fprintf(stderr, "  %s: phase %d, request %d, net %d, round %" PRId64 ", in the state: %s\n",
                p->name, p->agent.phase, p->agent.request, p->net, p->agent.round,
                node == NULL        ? "no"
                : node->participant ? "participant"
                : node->waiting     ? "waiting"
                                    : "spare or gone");
    }
}

/* The node's list: a participant, a node that waits, a spare, a node that is in no list. */
static char list_of(const struct torch_node *node)
{
    return node->participant ? 'P' : node->waiting ? 'w' : node->redundant ? 's' : '-';
}

void tell_change(struct job *job)
{
    const struct run_view *v = &job->run->run.view;
    char text[256] = "";
    size_t len = 0;

    if (!sim.verbose || v->changes == job->told_changes)
        return;
    job->told_changes = v->changes;
    for (size_t i = 0; i < v->state.count && len < sizeof text - 32; i++) {
        const struct torch_node *node = &v->state.nodes[i];

        len += (size_t)snprintf(text + len, sizeof text - len, " %.*s:%c",
                                (int)(node->addr.len > 8 ? 8 : node->addr.len),
                                (const char *)node->addr.ptr, list_of(node));
    }
    sim_tell("  %s: round %" PRId64 "%s%s%s", job->run->key + sizeof TORCH_RUN_PREFIX - 1,
             v->state.round, v->state.complete ? " complete" : "", v->state.closed ? " closed" : "",
             text);
}
