/* The keys that a lost node owes its round. Agents that have just completed a round tell each other
 * by keys where their workers meet and which ranks they have, and wait for those of a node that is
 * gone for read_timeout: a minute, or what the user says. They get any: what they start with these
 * ends a second later, since they are told to meet again (loss.c). Upstream:
 * SimpleElasticAgent._assign_worker_ranks() (2.4 and later), _share_and_gather() and
 * store.synchronize() (before). */
#include <inttypes.h>
#include <stdio.h>

#include "proto/torch/torch_timing.h"
#include "rdzv/rendezvous/parts.h"

/* A larger round waits: so many keys would keep all others waiting. */
#define NODES_MOST 16384

static void owe_in(struct step *s, int64_t round, const char *name, const char *value)
{
    const struct run_view *v = &s->run->view;
    uint8_t *key = step_alloc(s, v->node.key.len + RUN_KEY_ROOM);
    uint8_t *copy = step_alloc(s, strlen(value));
    struct policy_output *put;
    size_t len, cost;

    if (key == NULL || copy == NULL)
        return;
    memcpy(copy, value, strlen(value));
    len = run_view_round_key(v, round, name, key);
    cost = s->now->key_cost + len + strlen(value);
    if (cost > s->room)
        return; /* they wait for their time */
    if (s->room != SIZE_MAX)
        s->room -= cost;
    put = step_emit(s, POLICY_PUT_IF_ABSENT);
    put->key = (struct slice){key, len};
    put->value = (struct slice){copy, strlen(value)};
}

static void owe(struct step *s, const char *name, const char *value)
{
    owe_in(s, s->run->view.last_completed.round, name, value);
}

static void owe_ranked(struct step *s, const char *name, int64_t rank, const char *value)
{
    char text[RUN_KEY_ROOM];

    snprintf(text, sizeof text, name, rank);
    owe(s, text, value);
}

static void owe_role(struct step *s, int64_t rank, bool each_reads_all)
{
    char role[96];

    snprintf(role, sizeof role,
             "{\"role\": \"default\", \"rank\": %" PRId64 ", \"local_world_size\": 1}", rank);
    if (!each_reads_all) {
        owe_ranked(s, "torchelastic/role_info/%" PRId64, rank, role);
        return;
    }
    owe_ranked(s, "torchelastic/role_info%" PRId64, rank, role);
    owe_ranked(s, "torchelastic/role_info%" PRId64 ".FIN", rank, "FIN");
}

static void owe_ranks(struct step *s, size_t nodes)
{
    for (size_t i = 0; i < nodes; i++) {
        char ranks[96];

        snprintf(ranks, sizeof ranks, "[%zu, %zu, %zu, %zu]", i, nodes, i, nodes);
        owe_ranked(s, "torchelastic/assigned_ranks/%" PRId64, (int64_t)i, ranks);
    }
}

/* Each agent reads what each other wrote: torch before 2.4. The state tells 2.3 and later by its
 * redundancy list, and 2.5 and later send PING. */
static bool each_reads_all(const struct run *run)
{
    const struct agent *a = TAILQ_FIRST(&run->agents);

    return !run->view.state.has_redundancy || (a != NULL && !a->pings);
}

static bool agent_zero_reads_all(const struct run *run)
{
    return run->view.state.has_redundancy;
}

/* The workers of agent 0 listen themselves, as before 2.5: agents without PING are left alone. */
static bool worker_zero_listens(const struct run *run)
{
    const struct agent *a = TAILQ_FIRST(&run->agents);

    return run->view.record.placement == WORKER_STORE_WORKER0 || (a != NULL && !a->pings);
}

/* Agents whose workers listen read where in each round, and get a place that is none. The others
 * read it once in their life. */
static void owe_place(struct step *s)
{
    if (!worker_zero_listens(s->run)) {
        worker_store_owe_place(s);
        return;
    }
    owe(s, "MASTER_ADDR", "localhost");
    owe(s, "MASTER_PORT", "1");
}

/* In the first minute an agent may also be about to ask; and after a start, to ask again. */
static bool may_be_waited_for(const struct step *s)
{
    const struct agent *a;

    if (s->run->start == START_AWAITED ||
        clock_elapsed_ms(s->run->completed_ms, s->now->ms) <= TORCH_READ_TIMEOUT_MS)
        return true;
    TAILQ_FOREACH(a, &s->run->agents, entry) {
        if (a->waits || a->origin == ORIGIN_RETURNED)
            return true;
    }
    return false;
}

void owed_keys_put(struct step *s)
{
    const struct run_view *v = &s->run->view;
    const struct torch_state *then = &v->last_completed;

    if (!v->has_completed || then->count > NODES_MOST || then->round != v->state.round ||
        !may_be_waited_for(s))
        return;
    for (size_t i = 0; i < then->count; i++) {
        const struct torch_node *now = torch_state_find(&v->state, &then->nodes[i]);
        int64_t rank = then->nodes[i].rank;

        if (!then->nodes[i].participant || (now != NULL && now->participant))
            continue;
        if (each_reads_all(s->run))
            owe_role(s, rank, true);
        if (agent_zero_reads_all(s->run))
            owe_role(s, rank, false);
        if (rank != 0)
            continue;
        owe_place(s);
        if (agent_zero_reads_all(s->run))
            owe_ranks(s, torch_state_participants(then));
    }
}

/* The keys of those who have finished are there already. Upstream: barrier() of
 * elastic/utils/store.py, by which each finished agent waits for the last one, for 300 s;
 * before 2.4 for each by its rank. */
void owed_keys_put_exit(struct step *s, int64_t round)
{
    const struct torch_state *then = &s->run->view.last_completed;

    if (agent_zero_reads_all(s->run))
        owe_in(s, round, "torchelastic/agent/terminal_state/last_member", "<val_ignored>");
    if (!each_reads_all(s->run) || round != then->round)
        return;
    for (size_t i = 0; i < then->count && i < NODES_MOST; i++) {
        if (!then->nodes[i].participant)
            continue;
        owe_ranked(s, "torchelastic/agent/terminal_state%" PRId64, then->nodes[i].rank, "lost");
        owe_ranked(s, "torchelastic/agent/terminal_state%" PRId64 ".FIN", then->nodes[i].rank,
                   "FIN");
    }
}
