/* The keys that a lost node owes its round. After a round is complete, its agents exchange by keys
 * the place where their workers meet and their ranks, and wait for the keys of a lost node for
 * read_timeout, a minute by default. They get placeholders: the workers that they start with these
 * end a second later, when all meet again (loss.c). Upstream: SimpleElasticAgent:
 * _assign_worker_ranks() (2.4 and later), _share_and_gather(), store.synchronize() (before). */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "rdzv/rendezvous/policy_internal.h"

/* A larger round waits: so many keys would keep all others waiting. */
#define NODES_MOST 16384

/* Without room or memory, agents wait for the key as long as torch does. */
__attribute__((format(printf, 4, 5))) static void owe(struct step *s, int64_t round,
                                                      const char *value, const char *format, ...)
{
    char name[TORCH_KEY_ROOM];
    va_list args;

    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    s->is_full =
        !step_put_round_key(s, POLICY_PUT_IF_ABSENT, round, name, slice_str(value)) || s->is_full;
}

/* Before torch 2.4, each agent reads the keys of each other. From 2.3 on, the state has a
 * redundancy list, and from 2.5 on, agents send PING. */
static bool each_reads_all(const struct run *run)
{
    const struct agent *a = TAILQ_FIRST(&run->agents);

    return !run->view.state.has_redundancy || (a != NULL && !a->pings);
}

static bool agent_zero_reads_all(const struct run *run)
{
    return run->view.state.has_redundancy;
}

/* Agents whose workers listen themselves, such as agents without PING, read where in each round,
 * and get a place that is none. The others read it once in their life. */
static void owe_place(struct step *s, int64_t round)
{
    const struct agent *a = TAILQ_FIRST(&s->run->agents);

    if (s->run->view.record.placement != WORKER_STORE_WORKER0 && (a == NULL || a->pings)) {
        worker_store_owe_place(s);
        return;
    }
    owe(s, round, "localhost", "MASTER_ADDR");
    owe(s, round, "1", "MASTER_PORT");
}

static void owe_role(struct step *s, int64_t round, int64_t rank)
{
    char role[96];

    snprintf(role, sizeof role,
             "{\"role\": \"default\", \"rank\": %" PRId64 ", \"local_world_size\": 1}", rank);
    if (each_reads_all(s->run)) {
        owe(s, round, role, "torchelastic/role_info%" PRId64, rank);
        owe(s, round, "FIN", "torchelastic/role_info%" PRId64 ".FIN", rank);
    }
    if (agent_zero_reads_all(s->run))
        owe(s, round, role, "torchelastic/role_info/%" PRId64, rank);
}

/* What agent 0 tells each of the nodes. */
static void owe_ranks(struct step *s, int64_t round, size_t nodes)
{
    for (size_t i = 0; i < nodes; i++) {
        char ranks[96];

        snprintf(ranks, sizeof ranks, "[%zu, %zu, %zu, %zu]", i, nodes, i, nodes);
        owe(s, round, ranks, "torchelastic/assigned_ranks/%zu", i);
    }
}

/* A thousand nodes may be lost one by one: each gets its placeholders once. */
void placeholder_keys_put(struct step *s)
{
    struct torch_state *then = &s->run->view.last_completed;
    const struct run_view *v = &s->run->view;
    struct node_pairs pairs = {.before = then, .now = &v->state};
    const struct torch_node *was, *now;

    if (!v->has_completed || then->count > NODES_MOST || then->round != v->state.round)
        return;
    /* In the first minute an agent may also be about to ask; and after a start, to ask again. */
    if (s->run->start != START_AWAITED &&
        !ANY(AGENTS_FOREACH(a, &s->run->agents), a->waits || a->origin == ORIGIN_RETURNED) &&
        clock_elapsed_ms(s->run->completed_ms, s->now->lived_ms) > TORCH_READ_TIMEOUT_MS)
        return;
    /* such an agent may read a placeholder, and start workers that fit no others */
    if (ANY(AGENTS_FOREACH(a, &s->run->agents),
            run_lacks_ranks(s->run, a) && run_takes_part(s->run, a)))
        s->run->must_meet = true;
    while (node_pairs_next(&pairs, &was, &now)) {
        if (was == NULL || !was->participant || was->has_placeholders ||
            (now != NULL && now->participant))
            continue;
        s->is_full = false;
        owe_role(s, then->round, was->rank);
        if (was->rank == 0)
            owe_place(s, then->round);
        if (was->rank == 0 && agent_zero_reads_all(s->run))
            owe_ranks(s, then->round, v->completed_participants);
        then->nodes[was - then->nodes].has_placeholders = !s->is_full;
    }
}

/* Finished agents have written their own keys. Upstream: barrier() of elastic/utils/store.py: each
 * finished agent waits for the last one, for 300 s; before 2.4, for each rank. */
void placeholder_keys_put_exit(struct step *s, int64_t round)
{
    const struct torch_state *then = &s->run->view.last_completed;

    if (agent_zero_reads_all(s->run))
        owe(s, round, "<val_ignored>", "torchelastic/agent/terminal_state/last_member");
    if (!each_reads_all(s->run) || round != then->round)
        return;
    for (size_t i = 0; i < then->count && i < NODES_MOST; i++) {
        int64_t rank = then->nodes[i].rank;

        if (!then->nodes[i].participant)
            continue;
        owe(s, round, "lost", "torchelastic/agent/terminal_state%" PRId64, rank);
        owe(s, round, "FIN", "torchelastic/agent/terminal_state%" PRId64 ".FIN", rank);
    }
}
