/* Barriers and who is not there yet. See status.h for the contract.
 *
 * Keys of torch's barriers, 1.13 to 2.14: each arrival adds 1 to a counter, and waits for a key
 * that the last arrival sets. P/num_members and P/last_member in elastic/utils/store.py,
 * store_based_barrier_key:G and store_based_barrier_key:G:last_worker in distributed_c10d.py. An
 * exchange of one key per rank (P/0, P/1, … or P0, P1, …) counts as a barrier as well: rank 0 waits
 * for all keys.
 *
 * Its workers: elastic/agent/server/api.py, _assign_worker_ranks (2.4 to 2.14): each agent says how
 * many workers it runs, and agent 0 tells each of them [base rank, world size, …]. */
#include "proto/json.h"
#include "rdzv/admin/status.h"

#include <cjson/cJSON.h>

#include "rdzv/net/backend.h"

#define ABSENT_LISTED 64

#define LAST_MEMBER "/last_member"
#define NUM_MEMBERS "/num_members"
#define LAST_WORKER ":last_worker"
#define FINISHED    ".FIN" /* behind a rank: 1.13 */

#define KEY_MAX 1024 /* bytes of a key that is made here */

#define WORKERS_COMPARED 4096
#define TEXT_MAX         1024

/* Where the rank begins, of a key of an agent's exchange. 0: it is none. */
static size_t rank_at(struct slice key)
{
    size_t end = slice_ends_with(key, FINISHED) ? key.len - strlen(FINISHED) : key.len, at = end;

    while (at > 0 && key.ptr[at - 1] >= '0' && key.ptr[at - 1] <= '9')
        at--;
    return at == end || end - at > 9 ? 0 : at;
}

/* True for a key of the run's agents in its newest completed round. */
static bool is_agents(const struct barrier_list *list, const struct keymap *map, struct slice key)
{
    const struct rendezvous_space *home = list->space->rendezvous;
    struct slice rest;
    int64_t round;

    return list->run != NULL && map == &list->space->store->keys && list->run->view.has_completed &&
           torch_key_is_agents(key) &&
           run_views_find_round(&home->runs, key, &round, &rest) == &list->run->view &&
           round == list->run->view.last_completed.round;
}

/* False for the keys that tell each node its ranks: node 0 writes all of them. */
static bool is_exchange(const struct barrier_list *list, const struct keymap *map, struct slice key)
{
    return rank_at(key) > 0 && is_agents(list, map, key) &&
           memmem(key.ptr, key.len, TORCH_RANKS_KEYS, strlen(TORCH_RANKS_KEYS)) == NULL;
}

/* Two keys of one exchange differ in their ranks. */
static bool is_same_exchange(struct slice a, struct slice b)
{
    size_t at = rank_at(a);

    return at > 0 && at == rank_at(b) && memcmp(a.ptr, b.ptr, at) == 0 &&
           slice_ends_with(a, FINISHED) == slice_ends_with(b, FINISHED);
}

static void barrier_list_add(struct barrier_list *list, const struct keymap *map,
                             const struct awaited *at, int64_t size)
{
    bool exchange = is_exchange(list, map, awaited_key(at));

    if (list->count == BARRIERS_LISTED)
        return;
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].at == at ||
            (exchange && is_same_exchange(awaited_key(list->items[i].at), awaited_key(at))))
            return;
    }
    list->items[list->count++] = (struct barrier){map, at, size};
}

void barrier_list_note(struct barrier_list *list, const struct keymap *map,
                       const struct waiter *waiter)
{
    /* Torch waits for keys of one kind at a time. */
    const struct awaited *at = waiter_next_key(waiter, &(uint64_t){0});

    if (at != NULL &&
        (waiter->size != 0 || slice_ends_with(awaited_key(at), LAST_MEMBER) ||
         slice_ends_with(awaited_key(at), LAST_WORKER) || is_exchange(list, map, awaited_key(at))))
        barrier_list_add(list, map, at, waiter->size);
}

/* --- Ranks and nodes that are not there. --- */

struct absent {
    int64_t ranks[ABSENT_LISTED];
    struct slice nodes[ABSENT_LISTED];
    size_t rank_count, node_count;
};

static void add_rank(struct absent *a, const struct torch_node *node)
{
    if (a->rank_count == ABSENT_LISTED)
        return;
    a->ranks[a->rank_count++] = node->rank;
    a->nodes[a->node_count++] = node->addr;
}

static bool waits_for(const struct agent *a, const struct awaited *at)
{
    const struct waiter *w = a == NULL ? NULL : c10d_session(conn_of(a))->waiter;
    const struct awaited *found = NULL;
    uint64_t i = 0;

    while (w != NULL && (found = waiter_next_key(w, &i)) != NULL && found != at)
        continue;
    return found != NULL;
}

/* Finds the agents that do not wait for this key, if they are as many as the missing arrivals. */
static void find_agents(const struct run *run, const struct awaited *at, uint64_t short_of,
                        struct absent *out)
{
    uint64_t found = 0;

    NODES_FOREACH(node, &run->view.last_completed) {
        if (!node->participant || waits_for(run_agent_of(run, node), at))
            continue;
        found++;
        add_rank(out, node);
    }
    if (found != short_of)
        *out = (struct absent){0};
}

/* Ranks whose keys are not there; returns how many. */
static uint64_t find_ranks(const struct barrier_list *list, const struct barrier *b,
                           struct absent *out)
{
    struct slice key = awaited_key(b->at);
    uint64_t found = 0;

    NODES_FOREACH(node, &list->run->view.last_completed) {
        char text[KEY_MAX + 32];
        int len;

        if (!node->participant)
            continue;
        len = snprintf(text, sizeof text, "%.*s%lld%s", (int)rank_at(key), (const char *)key.ptr,
                       (long long)node->rank, slice_ends_with(key, FINISHED) ? FINISHED : "");
        if (keymap_get(b->map, (struct slice){(const uint8_t *)text, (size_t)len}) != NULL)
            continue;
        found++;
        add_rank(out, node);
    }
    return found;
}

/* --- Workers of a run whose worker store is in rdzvd. Their number comes from the keys that the
 * agents have set; their nodes come from the addresses of their connections. --- */

/* A whole number that a key of the round that the worker store is for says: an item of its list, or
 * a member of its object. -1: there is none. */
static int64_t read_round_number(const struct run *run, const struct keymap *keys, const char *name,
                                 int64_t rank, int item, const char *member)
{
    uint8_t key[TEXT_MAX + TORCH_KEY_ROOM];
    struct slice value = {0};
    const cJSON *number;
    int64_t found = -1;
    char full[64];
    cJSON *json;

    snprintf(full, sizeof full, "torchelastic/%s/%lld", name, (long long)rank);
    if (run->view.node.key.len <= TEXT_MAX)
        value = blob_slice(keymap_get(
            keys, (struct slice){key, torch_key_write(run->view.node.key, run->view.record.round,
                                                      full, key)}));
    if (value.len == 0 || value.len > TEXT_MAX)
        return -1;
    json = cJSON_ParseWithLength((const char *)value.ptr, value.len);
    number = member == NULL ? cJSON_GetArrayItem(json, item)
                            : cJSON_GetObjectItemCaseSensitive(json, member);
    if (cJSON_IsNumber(number) && number->valuedouble >= 0 && number->valuedouble < 1e9)
        found = (int64_t)number->valuedouble;
    cJSON_Delete(json);
    return found;
}

uint64_t status_count_workers(const struct run *run, const struct keymap *keys)
{
    int64_t count = read_round_number(run, keys, "assigned_ranks", 0, 1, NULL);

    return count < 0 ? 0 : (uint64_t)count;
}

int64_t status_count_node_workers(const struct run *run, const struct keymap *keys, int64_t node)
{
    int64_t count = read_round_number(run, keys, "role_info", node, 0, "local_world_size");

    return count < 0 ? 0 : count;
}

int64_t status_first_worker(const struct run *run, const struct keymap *keys, int64_t node)
{
    return read_round_number(run, keys, "assigned_ranks", node, 0, NULL);
}

bool status_is_one_host(const struct conn *a, const struct conn *b)
{
    const struct blob *via_a = a->backend == NULL ? NULL : a->backend->via;
    const struct blob *via_b = b->backend == NULL ? NULL : b->backend->via;

    if (via_a == NULL || via_b == NULL)
        return via_a == via_b && memcmp(a->peer.address, b->peer.address, 16) == 0;
    return slice_equal(blob_slice(via_a), blob_slice(via_b));
}

struct worker_place *status_place_of(struct worker_place *places, size_t count,
                                     const struct conn *c)
{
    for (size_t i = 0; i < count; i++) {
        if (status_is_one_host(places[i].agent, c))
            return &places[i];
    }
    return NULL;
}

size_t status_find_places(const struct run *run, const struct keymap *keys,
                          struct worker_place *places)
{
    size_t count = 0;

    NODES_FOREACH(node, &run->view.last_completed) {
        const struct agent *a = run_agent_of(run, node);
        const struct conn *c = a == NULL ? NULL : conn_of(a);

        if (!node->participant)
            continue;
        if (c == NULL || count == STATUS_PLACES || status_place_of(places, count, c) != NULL)
            return 0;
        places[count] = (struct worker_place){
            .node = node, .agent = c, .workers = status_count_node_workers(run, keys, node->rank)};
        if (places[count++].workers == 0)
            return 0;
    }
    return count;
}

/* False: a worker comes from another host, or there are too many. */
static bool count_waiting_workers(struct worker_place *places, size_t count,
                                  const struct awaited *at)
{
    const struct wait_link *link = at->waiting;
    size_t looked = 0;

    for (; link != NULL; link = link->next == at->waiting ? NULL : link->next) {
        struct worker_place *p;

        if (link->waiter->wake.kind != WAKE_WAITER || ++looked > WORKERS_COMPARED)
            return false;
        p = status_place_of(places, count, link->waiter->wake.owner);
        if (p == NULL)
            return false;
        p->waiting++;
    }
    return true;
}

/* Finds up to `max` nodes of the round with fewer workers waiting for the key than they run.
 * Returns 0 unless these account exactly for the `short_of` missing arrivals, and all nodes have
 * different addresses. */
static size_t find_absent_workers(const struct run *run, const struct keymap *keys,
                                  const struct awaited *at, uint64_t short_of, struct slice *nodes,
                                  size_t max)
{
    struct worker_place places[STATUS_PLACES];
    size_t count = status_find_places(run, keys, places), found = 0;
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

/* --- Writing. --- */

/* The counter that goes with the key for which they wait; *len bytes of `text`. */
static void name_counter(struct slice key, char text[KEY_MAX + 32], size_t *len)
{
    size_t front = key.len;
    const char *end = "";

    if (slice_ends_with(key, LAST_WORKER)) {
        front -= strlen(LAST_WORKER);
    } else if (slice_ends_with(key, LAST_MEMBER)) {
        front -= strlen(LAST_MEMBER);
        end = NUM_MEMBERS;
    }
    memcpy(text, key.ptr, front);
    memcpy(text + front, end, strlen(end));
    *len = front + strlen(end);
}

static void write_absent_ranks(struct writer *w, const struct absent *a)
{
    if (a->rank_count > 0) {
        json_list(w, "absent");
        for (size_t i = 0; i < a->rank_count; i++) {
            json_comma(w);
            json_i64(w, a->ranks[i]);
        }
        writer_u8(w, ']');
    }
    if (a->node_count > 0) {
        json_list(w, "absent_nodes");
        for (size_t i = 0; i < a->node_count; i++)
            json_item(w, a->nodes[i]);
        writer_u8(w, ']');
    }
}

static void write_exchange(struct writer *w, const struct barrier_list *list,
                           const struct barrier *b)
{
    uint64_t size = torch_state_participants(&list->run->view.last_completed), missing;
    struct slice key = awaited_key(b->at);
    struct absent absent = {0};

    missing = find_ranks(list, b, &absent);
    json_member(w, "key", (struct slice){key.ptr, rank_at(key)});
    json_member_u64(w, "arrived", size - missing);
    json_member_u64(w, "size", size);
    write_absent_ranks(w, &absent);
}

/* 0: not known. */
static uint64_t barrier_size(const struct barrier_list *list, const struct barrier *b)
{
    if (b->size > 0)
        return (uint64_t)b->size;
    if (is_agents(list, b->map, awaited_key(b->at)))
        return torch_state_participants(&list->run->view.last_completed);
    if (list->run != NULL && b->map != &list->space->store->keys)
        return status_count_workers(list->run, &list->space->store->keys);
    return 0;
}

static void write_counted(struct writer *w, struct barrier_list *list, const struct barrier *b)
{
    uint64_t size = barrier_size(list, b), arrived = 0;
    struct absent absent = {0};
    char text[KEY_MAX + 32];
    struct slice counter = {(const uint8_t *)text, 0};

    name_counter(awaited_key(b->at), text, &counter.len);
    json_member(w, "key", counter);
    if (!slice_to_u64(blob_slice(keymap_get(b->map, counter)), INT64_MAX, &arrived))
        return;
    json_member_u64(w, "arrived", arrived);
    list->is_crowded =
        list->is_crowded ||
        (size > 0 ? arrived > size : list->run == NULL && arrived > list->space->c10d_sessions);
    if (size == 0)
        return;
    json_member_u64(w, "size", size);
    if (arrived >= size)
        return;
    if (is_agents(list, b->map, awaited_key(b->at)))
        find_agents(list->run, b->at, size - arrived, &absent);
    else if (list->run != NULL && b->map != &list->space->store->keys)
        absent.node_count = find_absent_workers(list->run, &list->space->store->keys, b->at,
                                                size - arrived, absent.nodes, ABSENT_LISTED);
    write_absent_ranks(w, &absent);
}

void barrier_list_write(struct writer *w, struct barrier_list *list)
{
    json_list(w, "barriers");
    FOREACH(const struct barrier, b, list->items, list->count) {
        if (awaited_key(b->at).len > KEY_MAX)
            continue;
        json_open(w, '{');
        if (b->size == 0 && is_exchange(list, b->map, awaited_key(b->at)))
            write_exchange(w, list, b);
        else
            write_counted(w, list, b);
        writer_u8(w, '}');
    }
    writer_u8(w, ']');
}
