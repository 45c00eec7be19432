/* The workers of a run. See status.h for the contract.
 *
 * Upstream: elastic/agent/server/api.py, _assign_worker_ranks (2.4 to 2.14): each agent says how
 * many workers it runs, and agent 0 tells each of them [base rank, world size, …]. */
#include "rdzv/admin/status.h"

#include <cjson/cJSON.h>

#include "rdzv/net/carrier.h"

#define NODES_COMPARED   128 /* with more nodes or workers, missing ones are not named */
#define WORKERS_COMPARED 4096
#define TEXT_MAX         1024

static int64_t whole(const cJSON *item)
{
    return cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble < 1e9
               ? (int64_t)item->valuedouble
               : 0;
}

/* What a key of the round that the worker store is for says; cJSON_Delete() ends it. */
static cJSON *read_round_key(const struct run *run, const struct keymap *keys, const char *name,
                             int64_t rank)
{
    uint8_t key[TEXT_MAX + RUN_KEY_ROOM];
    struct slice value;
    char full[64];

    if (run->view.node.key.len > TEXT_MAX)
        return NULL;
    snprintf(full, sizeof full, "torchelastic/%s/%lld", name, (long long)rank);
    value = blob_slice(keymap_get(
        keys,
        (struct slice){key, run_view_round_key(&run->view, run->view.record.round, full, key)}));
    return value.len == 0 || value.len > TEXT_MAX
               ? NULL
               : cJSON_ParseWithLength((const char *)value.ptr, value.len);
}

uint64_t status_workers_count(const struct run *run, const struct keymap *keys)
{
    cJSON *ranks = read_round_key(run, keys, "assigned_ranks", 0);
    int64_t count = whole(cJSON_GetArrayItem(ranks, 1));

    cJSON_Delete(ranks);
    return (uint64_t)count;
}

struct place {
    const struct torch_node *node;
    const struct conn *agent;
    int64_t workers, waiting;
};

/* If clients come through relays, their relay tells the hosts apart. */
static bool is_one_host(const struct conn *a, const struct conn *b)
{
    const char *via_a = a->carrier == NULL ? NULL : a->carrier->via;
    const char *via_b = b->carrier == NULL ? NULL : b->carrier->via;

    if (via_a == NULL || via_b == NULL)
        return via_a == via_b && memcmp(a->peer.address, b->peer.address, 16) == 0;
    return strcmp(via_a, via_b) == 0;
}

static struct place *place_of_host(struct place *places, size_t count, const struct conn *c)
{
    for (size_t i = 0; i < count; i++) {
        if (is_one_host(places[i].agent, c))
            return &places[i];
    }
    return NULL;
}

/* The nodes of the round, each on a host of its own, and how many workers it runs. 0: there are too
 * many nodes, or the number of a node's workers is unknown. */
static size_t find_node_places(const struct run *run, const struct keymap *keys,
                               struct place *places)
{
    const struct torch_state *round = &run->view.last_completed;
    size_t count = 0;

    for (size_t i = 0; i < round->count; i++) {
        const struct torch_node *node = &round->nodes[i];
        const struct conn *c = rendezvous_conn_of(run, node);
        cJSON *role;

        if (!node->participant)
            continue;
        if (c == NULL || count == NODES_COMPARED || place_of_host(places, count, c) != NULL)
            return 0;
        role = read_round_key(run, keys, "role_info", node->rank);
        places[count] = (struct place){
            .node = node,
            .agent = c,
            .workers = whole(cJSON_GetObjectItemCaseSensitive(role, "local_world_size"))};
        cJSON_Delete(role);
        if (places[count++].workers == 0)
            return 0;
    }
    return count;
}

/* False: a worker comes from another host, or there are too many. */
static bool count_waiting_workers(struct place *places, size_t count, const struct entry *at)
{
    const struct wait_link *link;
    size_t looked = 0;

    TAILQ_FOREACH(link, &at->waiting, entry) {
        struct place *p;

        if (link->waiter->wake.kind != WAKE_WAITER || ++looked > WORKERS_COMPARED)
            return false;
        p = place_of_host(places, count, link->waiter->wake.owner);
        if (p == NULL)
            return false;
        p->waiting++;
    }
    return true;
}

size_t status_workers_absent(const struct run *run, const struct keymap *keys,
                             const struct entry *at, uint64_t short_of, struct slice *nodes,
                             size_t max)
{
    struct place places[NODES_COMPARED];
    size_t count = find_node_places(run, keys, places), found = 0;
    int64_t missing = 0;

    if (run->view.last_completed.round != run->view.record.round ||
        !count_waiting_workers(places, count, at))
        return 0;
    for (size_t i = 0; i < count; i++) {
        missing += places[i].workers - places[i].waiting;
        if (places[i].waiting < places[i].workers && found < max)
            nodes[found++] = places[i].node->addr;
    }
    return missing == (int64_t)short_of ? found : 0;
}
