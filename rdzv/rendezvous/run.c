/* A run and its agents, by node. See run.h. */
#include "rdzv/rendezvous/run.h"

#include <assert.h>
#include <stdlib.h>

void run_init(struct run *run, struct slice key, const struct policy_settings *settings,
              uint64_t seed, uint64_t now_ms)
{
    *run = (struct run){.settings = settings,
                        .rules = settings->rules,
                        .idle_since_ms = now_ms,
                        .fill = FILL_MAX,
                        .finishing = {.round = ROUND_NONE},
                        .endpoint = {.owed_round = ROUND_NONE}};
    run_view_init(&run->view, key);
    TAILQ_INIT(&run->agents);
    TAILQ_INIT(&run->rejoining);
    TAILQ_INIT(&run->gone);
    for (size_t i = 0; i < HELD_KINDS; i++)
        TAILQ_INIT(&run->held_agents[i]);
    table_init(&run->by_node, ACCOUNT_RUNS, seed, NULL);
    TAILQ_INIT(&run->numbers.agents);
}

void run_fini(struct run *run)
{
    assert(TAILQ_EMPTY(&run->agents) && TAILQ_EMPTY(&run->rejoining) && TAILQ_EMPTY(&run->gone));
    worker_endpoint_forget(&run->endpoint);
    torch_front_free(run->front);
    free((void *)(uintptr_t)run->poll_text.ptr);
    table_fini(&run->by_node);
    run_view_fini(&run->view);
}

bool run_is_unused(const struct run *run)
{
    return !run->view.exists && !run->view.unread && TAILQ_EMPTY(&run->agents) &&
           TAILQ_EMPTY(&run->rejoining) && TAILQ_EMPTY(&run->gone);
}

bool run_keeps_port(const struct run *run)
{
    return run->view.exists && !run->view.state.closed &&
           (run->agent_count > 0 || run->start == START_AWAITED || !TAILQ_EMPTY(&run->gone));
}

/* A run that all agents have left, and that has no port to give back, only waits for a time. */
uint64_t run_due_ms(const struct run *run)
{
    const struct policy_settings *settings = run->settings;
    uint64_t ttl_ms = settings->idle_run_ttl_ms == 0 ? UINT64_MAX : settings->idle_run_ttl_ms;

    if (run->agent_count > 0 || run->start == START_UNNAMED || run->view.unread ||
        run->view.is_ahead || run->failed || run->awaits_others || run_is_unused(run) ||
        !TAILQ_EMPTY(&run->rejoining) || run->endpoint.own_port != 0 ||
        run->orders.word == ORDER_HOLD)
        return 0;
    if (run->view.state.closed && settings->closed_run_ttl_ms < ttl_ms)
        ttl_ms = settings->closed_run_ttl_ms;
    return ttl_ms > UINT64_MAX - run->idle_since_ms ? UINT64_MAX : run->idle_since_ms + ttl_ms;
}

/* A job of fewer nodes is free of the rule, and so is one of groups. */
uint64_t run_size(const struct run *run, uint64_t nodes)
{
    uint64_t multiple = run->rules.nodes_multiple;
    bool is_free = multiple == 0 || run->rules.group != 0 ||
                   (run->max_nodes != 0 && run->max_nodes < multiple);

    return is_free ? nodes : nodes - nodes % multiple;
}

/* --- Agents by node. --- */

#define NODE_HEAD (2 * sizeof(uint64_t))

/* The key of a node among others: pid, local id, address. */
static size_t node_key(const struct torch_node *node, uint8_t *out)
{
    bytes_put_u64(out, (uint64_t)node->pid);
    bytes_put_u64(out + sizeof(uint64_t), (uint64_t)node->local_id);
    slice_copy(out + NODE_HEAD, node->addr);
    return NODE_HEAD + node->addr.len;
}

bool run_node_of_key(struct slice key, struct torch_node *out)
{
    if (key.len < NODE_HEAD || key.len > NODE_HEAD + TORCH_ADDR_MAX)
        return false;
    *out = (struct torch_node){.pid = (int64_t)bytes_get_u64(key.ptr),
                               .local_id = (int64_t)bytes_get_u64(key.ptr + sizeof(uint64_t)),
                               .addr = slice_from(key, NODE_HEAD)};
    return true;
}

const struct torch_node *run_node_of(const struct run *run, const struct agent *a)
{
    return agent_has_node(a) ? torch_state_find(&run->view.state, &a->node) : NULL;
}

struct agent *run_agent_of(const struct run *run, const struct torch_node *node)
{
    uint8_t key[NODE_HEAD + TORCH_ADDR_MAX];
    struct table_node *found = table_find(&run->by_node, (struct slice){key, node_key(node, key)});

    return found == NULL
               ? NULL
               : (struct agent *)(void *)((uint8_t *)found - offsetof(struct agent, by_node));
}

bool run_takes_part(const struct run *run, const struct agent *a)
{
    return agent_has_node(a) && torch_state_takes_part(&run->view.state, &a->node);
}

static void add_to_listed(struct run *run, struct agent *a)
{
    table_add(&run->by_node, &a->by_node);
    a->naming = NAMING_LISTED;
}

void run_unlist(struct run *run, struct agent *a)
{
    if (a->naming != NAMING_LISTED)
        return;
    table_remove(&run->by_node, &a->by_node);
    a->naming = NAMING_SHADOWED;
}

void run_list(struct run *run, struct agent *a)
{
    if (a->naming == NAMING_SHADOWED && run_agent_of(run, &a->node) == NULL)
        add_to_listed(run, a);
}

void run_forget_node(struct run *run, struct agent *a)
{
    run_unlist(run, a);
    run_view_drop(&a->by_node.key);
    a->view.until_ms = 0;
    a->by_node = (struct table_node){0};
    a->node = (struct torch_node){0};
    a->naming = NAMING_NONE;
}

void run_list_again(struct run *run, struct agent *before, struct agent *a)
{
    run_unlist(run, before);
    add_to_listed(run, a);
}

void run_remember_node(struct run *run, struct agent *a, const struct torch_node *node)
{
    uint8_t *key = account_heap_request(ACCOUNT_RUNS, ACCOUNT_SMALL, NODE_HEAD + node->addr.len);
    struct agent *old = run_agent_of(run, node);

    if (key == NULL)
        return;
    if (old != NULL) /* a container that was started again comes before its old connection ends */
        run_unlist(run, old);
    run_forget_node(run, a);
    a->by_node.key = (struct slice){key, node_key(node, key)};
    a->node = *node;
    a->node.addr = slice_from(a->by_node.key, NODE_HEAD);
    add_to_listed(run, a);
}
