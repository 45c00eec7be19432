/* A run over etcd's API. See etcd_run.h for the contract. */
#include "rdzv/rendezvous/etcd_run.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/torch/torch_timing.h"
#include "rdzv/rendezvous/explain.h"
#include "rdzv/rendezvous/intent.h"

#define V2_PREFIX  "/torch/elastic/rendezvous/"
#define ETCD_KEY   "/rdzv/active_version"
#define ETCD_RUN   "/run_"
#define ETCD_STATE (256u << 10) /* bytes of a JSON that is read: some four thousand nodes */
#define ETCD_NODES 20000        /* more than can be in that */

/* --- Paths. --- */

static bool parse_etcd(struct slice path, struct slice *id, struct slice *root)
{
    size_t end = path.len - strlen(ETCD_KEY), at = end;

    while (at > 0 && path.ptr[at - 1] != '/')
        at--;
    if (at == 0 ||
        !slice_starts_with((struct slice){path.ptr + at - 1, end - at + 1}, slice_str(ETCD_RUN)))
        return false;
    *root = (struct slice){path.ptr, end};
    *id = (struct slice){path.ptr + at - 1 + strlen(ETCD_RUN), end - at + 1 - strlen(ETCD_RUN)};
    return id->len > 0;
}

bool etcd_run_parse(struct slice path, enum run_backend *backend, struct slice *id,
                    struct slice *root)
{
    const struct slice v2 = slice_str(V2_PREFIX), key = slice_str(ETCD_KEY);

    *root = (struct slice){0};
    if (slice_starts_with(path, v2) && path.len > v2.len) {
        *backend = BACKEND_ETCD_V2;
        *id = slice_from(path, v2.len);
        return true;
    }
    *backend = BACKEND_ETCD;
    return path.len > key.len && slice_equal(slice_from(path, path.len - key.len), key) &&
           parse_etcd(path, id, root);
}

void etcd_run_init(struct etcd_run *r, struct slice path)
{
    *r = (struct etcd_run){.node = {.key = path}};
    etcd_run_parse(path, &r->backend, &r->id, &r->root);
    TAILQ_INIT(&r->meeting.requests);
}

static void drop_peer(struct etcd_member *m)
{
    account_heap_free(ACCOUNT_RUNS, m->peer);
    m->peer = NULL;
}

static void drop_members(struct etcd_member *members, size_t room)
{
    for (size_t i = 0; i < room; i++)
        drop_peer(&members[i]);
    account_free(ACCOUNT_RUNS, members, room * sizeof *members);
}

void etcd_run_fini(struct etcd_run *r)
{
    drop_members(r->members, r->member_room);
    torch_state_free(&r->state);
    torch_state_free(&r->last_completed);
    torch_state_free(&r->gone);
    history_fini(&r->history);
}

/* --- What a value says. --- */

struct reading {
    struct torch_state state;
    bool is_state, is_last_call, is_confirmed;
    uint64_t waiting;
};

/* -1: it is no number of nodes. */
static int64_t count_of(const cJSON *item)
{
    return cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble <= ETCD_NODES
               ? (int64_t)item->valuedouble
               : -1;
}

/* The ranks are 0, 1, 2, … in this order: each is given to the next one who joins. */
static bool are_ranks(const cJSON *ranks)
{
    const cJSON *item;
    int64_t next = 0;

    cJSON_ArrayForEach(item, ranks)
    {
        if (count_of(item) != next++)
            return false;
    }
    return true;
}

static int compare_nodes(const void *a, const void *b)
{
    return torch_node_compare(a, b);
}

/* Fills in what is known of each. A node joins with a write of its own: of several new ones, it is
 * not known who they are. */
static void name_nodes(const struct etcd_run *r, int64_t version, struct torch_node *nodes,
                       size_t count, const struct etcd_writer *by)
{
    size_t old = r->is_state && r->state.round == version ? r->state.count : 0;

    for (size_t i = 0; i < count; i++)
        nodes[i] = (struct torch_node){
            .pid = (int64_t)i, .rank = (int64_t)i, .local_id = version, .participant = true};
    for (size_t i = 0; i < old; i++) {
        if (r->state.nodes[i].rank < (int64_t)count)
            nodes[r->state.nodes[i].rank].addr = r->state.nodes[i].addr;
    }
    if (by != NULL && count == old + 1)
        nodes[old].addr = slice_str(by->host);
}

/* False: memory is short. In their order, each node is put behind the last one. */
static bool add_nodes(const struct etcd_run *r, struct torch_state *state, size_t count,
                      const struct etcd_writer *by)
{
    size_t len = count * sizeof(struct torch_node);
    struct torch_node *nodes, *at;
    bool ok = true;

    if (count == 0)
        return true;
    nodes = account_request(ACCOUNT_RUNS, account_class_of(len), len);
    if (nodes == NULL)
        return false;
    name_nodes(r, state->round, nodes, count, by);
    qsort(nodes, count, sizeof *nodes, compare_nodes);
    for (size_t i = 0; i < count && ok; i++)
        ok = torch_state_insert(state, &nodes[i], &at);
    account_free(ACCOUNT_RUNS, nodes, len);
    return ok;
}

/* Everything but the nodes. Their count; -1: it is nothing that torch writes. */
static int64_t read_json(const cJSON *json, bool has_ttl, struct reading *out)
{
    const char *status = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "status"));
    const char *version = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "version"));
    const cJSON *ranks = cJSON_GetObjectItemCaseSensitive(json, "participants");
    int64_t waiting = count_of(cJSON_GetObjectItemCaseSensitive(json, "num_workers_waiting"));
    uint64_t number = 0;

    if (status == NULL || !are_ranks(ranks))
        return -1;
    if (version != NULL && slice_to_u64(slice_str(version), INT64_MAX, &number))
        out->state.round = (int64_t)number;
    out->state.closed = strcmp(status, "closed") == 0;
    out->state.complete = out->is_confirmed = strcmp(status, "final") == 0;
    out->is_last_call = has_ttl && strcmp(status, "joinable") == 0;
    out->is_state = out->state.closed || version != NULL;
    out->waiting = waiting > 0 ? (uint64_t)waiting : 0;
    return out->is_state ? cJSON_GetArraySize(ranks) : 0;
}

/* False: memory is short. */
static bool read_value(const struct etcd_run *r, struct slice value, bool has_ttl,
                       const struct etcd_writer *by, struct reading *out)
{
    int64_t count;
    cJSON *json;

    *out = (struct reading){0};
    if (value.ptr == NULL)
        return true;
    if (r->backend == BACKEND_ETCD_V2) {
        enum torch_state_status status = torch_state_read(value, &out->state);

        out->is_state = status == TORCH_STATE_OK;
        return status != TORCH_STATE_NO_MEMORY;
    }
    json =
        value.len > ETCD_STATE ? NULL : cJSON_ParseWithLength((const char *)value.ptr, value.len);
    count = read_json(json, has_ttl, out);
    cJSON_Delete(json);
    if (count < 0)
        *out = (struct reading){0};
    if (count < 0 || add_nodes(r, &out->state, (size_t)count, by))
        return true;
    torch_state_free(&out->state);
    return false;
}

/* --- Members. --- */

static size_t index_of(const struct torch_state *state, const struct torch_node *node)
{
    return (size_t)(node - state->nodes);
}

/* What is known of the nodes of the next state: of those that there were, the same. */
static struct etcd_member *next_members(struct etcd_run *r, const struct torch_state *next,
                                        const struct etcd_writer *by, int64_t now_us)
{
    const struct torch_node *writer =
        r->backend == BACKEND_ETCD_V2 && by != NULL ? intent_writer(&r->state, next) : NULL;
    struct etcd_member *members =
        account_request_zeroed(ACCOUNT_RUNS, account_class_of(next->count * sizeof *members),
                               next->count * sizeof *members);

    for (size_t i = 0; members != NULL && i < next->count; i++) {
        const struct torch_node *old = torch_state_find(&r->state, &next->nodes[i]);
        bool fresh = old == NULL || node_role(old) == NULL;

        if (old != NULL) {
            struct etcd_member *m = &r->members[index_of(&r->state, old)];

            members[i] = *m;
            m->peer = NULL;
        }
        if (fresh && (r->exists || by != NULL)) /* else it was there before rdzvd was started */
            members[i].joined_us = now_us;
        if (by != NULL && (&next->nodes[i] == writer ||
                           (fresh && r->backend == BACKEND_ETCD && next->nodes[i].addr.len > 0))) {
            drop_peer(&members[i]);
            members[i].peer =
                account_heap_copy(ACCOUNT_RUNS, ACCOUNT_ORDINARY, by->peer, strlen(by->peer));
        }
    }
    return members;
}

/* --- What has changed. --- */

static const char *words(const struct etcd_run *r, const struct torch_node *node,
                         char text[NODE_TEXT_MAX])
{
    char name[NODE_TEXT_MAX];

    if (r->backend == BACKEND_ETCD_V2)
        return node_words(node_text(node, name), text);
    snprintf(text, NODE_TEXT_MAX, node->addr.len > 0 ? "rank %lld (%.*s)" : "rank %lld",
             (long long)node->rank, (int)(node->addr.len < 200 ? node->addr.len : 200),
             (const char *)node->addr.ptr);
    return text;
}

/* The others take a node out whose heartbeat is too old; or it has left. */
static void note_node_gone(struct etcd_run *r, const struct torch_node *old, int64_t now_us)
{
    const char *from = r->members[index_of(&r->state, old)].peer;
    char text[NODE_TEXT_MAX], name[NODE_TEXT_MAX];
    int64_t age_us = 0;

    node_text(old, name);
    if (!old->has_heartbeat || __builtin_sub_overflow(now_us, old->heartbeat_us, &age_us) ||
        age_us < TORCH_DEAD_MS * INT64_C(1000)) {
        history_leave(&r->history, name, now_us);
        history_lose(&r->history, name, LOSS_LEFT, from, now_us);
        return;
    }
    history_add(&r->history, "%s was lost: its last heartbeat was %lld s old", words(r, old, text),
                (long long)(age_us / 1000000));
    history_lose(&r->history, name, LOSS_SILENT, from, now_us);
}

static void note_departures(struct etcd_run *r, const struct torch_state *next, int64_t now_us)
{
    for (size_t i = 0; r->is_state && i < r->state.count; i++) {
        const struct torch_node *old = &r->state.nodes[i];

        if (node_role(old) != NULL && node_role(torch_state_find(next, old)) == NULL)
            note_node_gone(r, old, now_us);
    }
}

static void note_arrivals(struct etcd_run *r, const struct torch_state *next)
{
    char name[NODE_TEXT_MAX];

    for (size_t i = 0; i < next->count; i++) {
        const struct torch_node *node = &next->nodes[i];
        const struct torch_node *old = r->is_state ? torch_state_find(&r->state, node) : NULL;

        if (node_role(node) != NULL && node_role(old) != node_role(node))
            history_join(&r->history, node_text(node, name), node->waiting);
    }
}

/* Torch completes a round with the write by which the MAX-th node joins, or later, when the last
 * call is over. `etcd` completes it when all have confirmed. */
static bool reached_max(const struct etcd_run *r, const struct torch_state *next)
{
    return r->is_state && r->backend == BACKEND_ETCD_V2 &&
           torch_state_participants(next) > torch_state_participants(&r->state);
}

static void note_v2(struct etcd_run *r, const struct reading *next, int64_t now_us)
{
    note_departures(r, &next->state, now_us);
    history_reach(&r->history, next->state.round, now_us);
    note_arrivals(r, &next->state);
}

static bool has_address(const struct torch_state *state, struct slice addr)
{
    for (size_t i = 0; i < state->count; i++) {
        if (slice_equal(state->nodes[i].addr, addr))
            return true;
    }
    return false;
}

/* An agent waits for the next version: nothing tells which, but the address that it comes from. */
static void note_waiting(struct etcd_run *r, const struct etcd_writer *by)
{
    if (by == NULL)
        history_blame(&r->history, "an agent came, and the others meet again to let it in");
    else if (has_address(&r->state, slice_str(by->host)))
        history_blame(&r->history,
                      "an agent at %s, where a node of the round is, waits for the next one: a "
                      "worker failed there, or an agent was started",
                      by->host);
    else
        history_blame(&r->history, "an agent at %s came, and the others meet again to let it in",
                      by->host);
}

/* Nodes are not told apart from one version to the next. */
static void note_etcd(struct etcd_run *r, const struct reading *next, const struct etcd_writer *by,
                      int64_t now_us)
{
    if (r->is_state && next->waiting > r->waiting)
        note_waiting(r, by);
    history_reach(&r->history, next->state.round, now_us);
}

/* The round has just been completed. */
static bool is_completed(const struct etcd_run *r, const struct reading *next)
{
    return next->is_state && next->state.complete &&
           !(r->is_state && r->state.complete && r->state.round == next->state.round);
}

static void note_run_closed(struct etcd_run *r, const struct etcd_writer *by, int64_t now_us)
{
    char why[HISTORY_TEXT_MAX];

    snprintf(why, sizeof why, "an agent%s%s closed the run", by == NULL ? "" : " at ",
             by == NULL ? "" : by->host);
    history_end(&r->history, why, now_us);
}

static void note_changes(struct etcd_run *r, const struct reading *next,
                         const struct etcd_writer *by, int64_t now_us)
{
    const struct torch_state *state = &next->state;
    bool same_round = r->is_state && r->state.round == state->round;
    bool had_call = same_round && (r->state.has_deadline || r->is_last_call);

    if (state->closed) {
        note_run_closed(r, by, now_us);
        return;
    }
    if (r->backend == BACKEND_ETCD_V2)
        note_v2(r, next, now_us);
    else
        note_etcd(r, next, by, now_us);
    if ((state->has_deadline || next->is_last_call) && !had_call)
        history_last_call(&r->history, torch_state_participants(state));
    if (is_completed(r, next))
        history_complete(&r->history, torch_state_participants(state), reached_max(r, state),
                         now_us);
}

/* --- The whole. --- */

static void forget_completed(struct etcd_run *r)
{
    torch_state_free(&r->last_completed);
    torch_state_free(&r->gone);
    r->has_completed = false;
}

static void put_reading(struct etcd_run *r, const struct reading *next, struct etcd_member *members)
{
    drop_members(r->members, r->member_room);
    torch_state_free(&r->state);
    r->members = members;
    r->member_room = next->state.count;
    r->state = next->state;
    r->is_state = next->is_state;
    r->is_last_call = next->is_last_call;
    r->is_confirmed = next->is_confirmed;
    r->waiting = next->waiting;
}

bool etcd_run_update(struct etcd_run *r, struct slice value, bool has_ttl,
                     const struct etcd_writer *by, int64_t now_us)
{
    struct etcd_member *members = NULL;
    struct reading next;

    if (!read_value(r, value, has_ttl, by, &next))
        return false;
    if (is_completed(r, &next)) {
        if (!nodes_keep_completed(&next.state, r->has_completed, &r->last_completed, &r->gone)) {
            torch_state_free(&next.state);
            return false;
        }
        r->has_completed = true;
    }
    if (next.state.closed)
        forget_completed(r); /* who comes next is of another job */
    if (next.is_state)
        note_changes(r, &next, by, now_us);
    else if (r->is_state)
        history_end(&r->history, NULL, now_us);
    if (next.state.count > 0)
        members = next_members(r, &next.state, by, now_us);
    if (next.state.count > 0 && members == NULL) {
        torch_state_free(&next.state);
        return false;
    }
    put_reading(r, &next, members);
    r->exists = value.ptr != NULL;
    return true;
}

size_t etcd_run_keep_alive(const struct etcd_run *r, size_t i, char *out)
{
    memcpy(out, r->root.ptr, r->root.len);
    return r->root.len + (size_t)snprintf(out + r->root.len, ETCD_RUN_ROOM,
                                          "/rdzv/v_%lld/rank_%lld", (long long)r->state.round,
                                          (long long)r->state.nodes[i].rank);
}

void etcd_run_mark(struct etcd_run *r, size_t i, bool gone, int64_t now_us)
{
    const struct torch_node *node = &r->state.nodes[i];
    char text[NODE_TEXT_MAX], name[NODE_TEXT_MAX];

    if (gone && !r->members[i].gone) {
        history_add(&r->history, "the keep-alive key of %s expired", words(r, node, text));
        history_lose(&r->history, node_text(node, name), LOSS_SILENT, r->members[i].peer, now_us);
    }
    r->members[i].gone = gone;
}

/* --- How it stands. --- */

static const struct etcd_member *member_of_node(const struct run_facts *f,
                                                const struct torch_node *node)
{
    const struct etcd_run *r = f->arg;
    const struct torch_node *found = torch_state_find(&r->state, node);

    return found == NULL ? NULL : &r->members[index_of(&r->state, found)];
}

static struct node_facts etcd_node_facts(const struct run_facts *f, const struct torch_node *node)
{
    const struct etcd_member *m = member_of_node(f, node);

    return m == NULL ? (struct node_facts){0}
                     : (struct node_facts){.gone = m->gone, .joined_us = m->joined_us};
}

static const char *etcd_node_peer(const struct run_facts *f, const struct torch_node *node,
                                  char text[STATUS_PEER_MAX])
{
    const struct etcd_member *m = member_of_node(f, node);

    (void)text;
    return m == NULL ? NULL : m->peer;
}

void etcd_run_facts(const struct etcd_run *r, uint64_t expected, int64_t now_us,
                    struct run_facts *out)
{
    *out = (struct run_facts){.backend = r->backend,
                              .id = r->id,
                              .now_us = now_us,
                              .is_state = r->is_state,
                              .is_last_call = r->is_last_call,
                              .unnamed_waiting = r->waiting,
                              .state = &r->state,
                              .last_completed = r->has_completed ? &r->last_completed : NULL,
                              .gone = &r->gone,
                              .history = &r->history,
                              .expected = expected,
                              .look = etcd_node_facts,
                              .peer = etcd_node_peer,
                              .arg = r};
}
