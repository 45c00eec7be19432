/* A run over etcd's API. See etcd_run.h for the contract. */
#include "rdzv/etcd_runs/etcd_run.h"

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
    *r = (struct etcd_run){.view = {.node = {.key = path}}};
    etcd_run_parse(path, &r->backend, &r->view.id, &r->root);
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
    run_view_fini(&r->view);
    history_fini(&r->history);
}

/* --- What a value says. --- */

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

/* Fills in what is known of each. A node joins with a write of its own; if several nodes are new at
 * once, their names are unknown. */
static void name_nodes(const struct torch_state *before, int64_t version, struct torch_node *nodes,
                       size_t count, const struct etcd_writer *by)
{
    size_t old = before->round == version ? before->count : 0;

    for (size_t i = 0; i < count; i++)
        nodes[i] = (struct torch_node){
            .pid = (int64_t)i, .rank = (int64_t)i, .local_id = version, .participant = true};
    for (size_t i = 0; i < old; i++) {
        if (before->nodes[i].rank < (int64_t)count)
            nodes[before->nodes[i].rank].addr = before->nodes[i].addr;
    }
    if (by != NULL && count == old + 1)
        nodes[old].addr = slice_str(by->host);
}

/* False: memory is short. In their order, each node is put behind the last one. */
static bool add_nodes(const struct torch_state *before, struct torch_state *state, size_t count,
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
    name_nodes(before, state->round, nodes, count, by);
    qsort(nodes, count, sizeof *nodes, compare_nodes);
    for (size_t i = 0; i < count && ok; i++)
        ok = torch_state_insert(state, &nodes[i], &at);
    account_free(ACCOUNT_RUNS, nodes, len);
    return ok;
}

/* Everything but the nodes. Their count; -1: it is no state that torch writes. */
static int64_t read_json(struct etcd_run *r, const cJSON *json, bool has_ttl,
                         struct torch_state *out)
{
    const char *status = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "status"));
    const char *version = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "version"));
    const cJSON *ranks = cJSON_GetObjectItemCaseSensitive(json, "participants");
    int64_t waiting = count_of(cJSON_GetObjectItemCaseSensitive(json, "num_workers_waiting"));
    bool closed = status != NULL && strcmp(status, "closed") == 0;
    uint64_t number = 0;

    if (status == NULL || !(closed || version != NULL) || !are_ranks(ranks))
        return -1;
    if (version != NULL && slice_to_u64(slice_str(version), INT64_MAX, &number))
        out->round = (int64_t)number;
    out->closed = closed;
    out->complete = r->is_confirmed = strcmp(status, "final") == 0;
    r->is_last_call = has_ttl && strcmp(status, "joinable") == 0;
    r->waiting = waiting > 0 ? (uint64_t)waiting : 0;
    return cJSON_GetArraySize(ranks);
}

/* False: memory is short. The last completed round is that of the same job until the run is closed.
 */
static bool read_etcd(struct etcd_run *r, struct slice value, bool has_ttl,
                      const struct etcd_writer *by)
{
    struct torch_state next = {0};
    uint64_t refused = account.refused;
    int64_t count;
    cJSON *json;

    json =
        value.len > ETCD_STATE ? NULL : cJSON_ParseWithLength((const char *)value.ptr, value.len);
    if (json == NULL && account.refused != refused)
        return false;
    r->is_last_call = r->is_confirmed = false;
    r->waiting = 0;
    count = read_json(r, json, has_ttl, &next);
    cJSON_Delete(json);
    if (count > 0 && !add_nodes(&r->view.state, &next, (size_t)count, by)) {
        torch_state_free(&next);
        return false;
    }
    if (value.ptr == NULL && r->view.state.closed)
        run_view_fini(&r->view);
    else
        run_view_take(&r->view, value, next, count >= 0);
    return !r->view.unread;
}

/* False: memory is short. */
static bool read_value(struct etcd_run *r, struct slice value, bool has_ttl,
                       const struct etcd_writer *by)
{
    if (r->backend == BACKEND_ETCD)
        return read_etcd(r, value, has_ttl, by);
    run_view_update(&r->view, value);
    return !r->view.unread;
}

/* --- Members. --- */

static size_t index_of(const struct torch_state *state, const struct torch_node *node)
{
    return (size_t)(node - state->nodes);
}

/* What is known of the nodes of the state: of those of the state before, the same. Nodes of a key
 * that is read for the first time, and that nobody has just written, were there before rdzvd was
 * started. */
static struct etcd_member *next_members(const struct etcd_run *r, bool is_first,
                                        const struct etcd_writer *by, int64_t now_us)
{
    const struct torch_state *before = &r->view.before, *state = &r->view.state;
    const struct torch_node *writer =
        r->backend == BACKEND_ETCD_V2 && by != NULL ? intent_writer(before, state) : NULL;
    size_t len = state->count * sizeof(struct etcd_member);
    struct etcd_member *members = account_request_zeroed(ACCOUNT_RUNS, account_class_of(len), len);

    for (size_t i = 0; members != NULL && i < state->count; i++) {
        const struct torch_node *node = &state->nodes[i], *old = torch_state_find(before, node);
        bool fresh = node_role(old) == NULL;

        if (old != NULL) {
            struct etcd_member *m = &r->members[index_of(before, old)];

            members[i] = *m;
            m->peer = NULL;
        }
        if (fresh && (by != NULL || !is_first))
            members[i].joined_us = now_us;
        if (by != NULL &&
            (node == writer || (fresh && r->backend == BACKEND_ETCD && node->addr.len > 0))) {
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
    const char *from = r->members[index_of(&r->view.before, old)].peer;
    char text[NODE_TEXT_MAX], name[NODE_TEXT_MAX];
    int64_t age_us = 0;

    node_text(old, name);
    if (!old->has_heartbeat || __builtin_sub_overflow(now_us, old->heartbeat_us, &age_us) ||
        age_us < TORCH_DEAD_MS * INT64_C(1000)) {
        history_leave(&r->history, name, now_us);
        history_lose(&r->history, name, LOSS_LEFT, from, now_us);
        return;
    }
    history_add_reason(&r->history, REASON_ALSO, "%s was lost: its last heartbeat was %lld s old",
                       words(r, old, text), (long long)(age_us / 1000000));
    history_lose(&r->history, name, LOSS_SILENT, from, now_us);
}

static void note_departures(struct etcd_run *r, int64_t now_us)
{
    const struct torch_state *before = &r->view.before;

    for (size_t i = 0; i < before->count; i++) {
        const struct torch_node *old = &before->nodes[i];

        if (node_role(old) != NULL && node_role(torch_state_find(&r->view.state, old)) == NULL)
            note_node_gone(r, old, now_us);
    }
}

static void note_arrivals(struct etcd_run *r)
{
    const struct torch_state *state = &r->view.state;
    char name[NODE_TEXT_MAX];

    for (size_t i = 0; i < state->count; i++) {
        const struct torch_node *node = &state->nodes[i];

        if (node_role(node) != NULL &&
            node_role(torch_state_find(&r->view.before, node)) != node_role(node))
            history_join(&r->history, node_text(node, name), node->waiting);
    }
}

static bool has_address(const struct torch_state *state, struct slice addr)
{
    for (size_t i = 0; i < state->count; i++) {
        if (slice_equal(state->nodes[i].addr, addr))
            return true;
    }
    return false;
}

/* `etcd`: an agent waits for the next version. Nothing tells which, but the address that it comes
 * from. */
static void note_waiting(struct etcd_run *r, const struct etcd_writer *by)
{
    if (by == NULL)
        history_add_reason(&r->history, REASON_FIRST,
                           "an agent came, and the others meet again to let it in");
    else if (has_address(&r->view.before, slice_str(by->host)))
        history_add_reason(
            &r->history, REASON_FIRST,
            "an agent at %s, where a node of the round is, waits for the next one: a "
            "worker failed there, or an agent was started",
            by->host);
    else
        history_add_reason(&r->history, REASON_FIRST,
                           "an agent at %s came, and the others meet again to let it in", by->host);
}

static void note_run_closed(struct etcd_run *r, const struct etcd_writer *by, int64_t now_us)
{
    char why[HISTORY_TEXT_MAX];

    snprintf(why, sizeof why, "an agent%s%s closed the run", by == NULL ? "" : " at ",
             by == NULL ? "" : by->host);
    history_end(&r->history, why, now_us);
}

/* Torch completes a round with the write by which the MAX-th node joins, or later, when the last
 * call is over. `etcd` completes it when all have confirmed. */
static bool reached_max(const struct etcd_run *r, const struct etcd_run *was)
{
    return was->view.is_state && r->backend == BACKEND_ETCD_V2 &&
           r->view.participants > was->view.participants;
}

/* Nodes of `etcd` are not told apart from one version to the next, so none is seen to leave. */
static void note_changes(struct etcd_run *r, const struct etcd_run *was,
                         const struct etcd_writer *by, int64_t now_us)
{
    const struct torch_state *state = &r->view.state, *before = &r->view.before;
    bool same_round = before->round == state->round;

    if (state->closed) {
        note_run_closed(r, by, now_us);
        return;
    }
    if (r->backend == BACKEND_ETCD_V2)
        note_departures(r, now_us);
    else if (was->view.is_state && r->waiting > was->waiting)
        note_waiting(r, by);
    history_reach(&r->history, state->round, now_us);
    note_arrivals(r);
    if ((state->has_deadline || r->is_last_call) &&
        !(same_round && (before->has_deadline || was->is_last_call)))
        history_last_call(&r->history, r->view.participants);
    if (state->complete && !(same_round && before->complete))
        history_complete(&r->history, r->view.participants, reached_max(r, was), now_us);
}

/* --- The whole. --- */

bool etcd_run_update(struct etcd_run *r, struct slice value, bool has_ttl,
                     const struct etcd_writer *by, int64_t now_us)
{
    const struct etcd_run was = *r; /* for its numbers: all else is freed or moved */
    struct etcd_member *members = NULL;

    if (!read_value(r, value, has_ttl, by))
        return false;
    if (r->view.state.count > 0)
        members = next_members(r, !was.view.exists, by, now_us);
    if (r->view.state.count > 0 && members == NULL) {
        run_view_fini(&r->view);
        return false;
    }
    if (r->view.is_state)
        note_changes(r, &was, by, now_us);
    else
        history_end(&r->history, NULL, now_us);
    drop_members(r->members, r->member_room);
    r->members = members;
    r->member_room = r->view.state.count;
    r->view.exists = value.ptr != NULL;
    return true;
}

size_t etcd_run_keep_alive(const struct etcd_run *r, size_t i, char *out)
{
    memcpy(out, r->root.ptr, r->root.len);
    return r->root.len + (size_t)snprintf(out + r->root.len, ETCD_RUN_ROOM,
                                          "/rdzv/v_%lld/rank_%lld", (long long)r->view.state.round,
                                          (long long)r->view.state.nodes[i].rank);
}

void etcd_run_mark(struct etcd_run *r, size_t i, bool gone, int64_t now_us)
{
    const struct torch_node *node = &r->view.state.nodes[i];
    char text[NODE_TEXT_MAX], name[NODE_TEXT_MAX];

    if (gone && !r->members[i].gone) {
        history_add_reason(&r->history, REASON_ALSO, "the keep-alive key of %s expired",
                           words(r, node, text));
        history_lose(&r->history, node_text(node, name), LOSS_SILENT, r->members[i].peer, now_us);
    }
    r->members[i].gone = gone;
}

/* --- How it stands. --- */

static const struct etcd_member *member_of_node(const struct run_facts *f,
                                                const struct torch_node *node)
{
    const struct etcd_run *r = f->arg;
    const struct torch_node *found = torch_state_find(&r->view.state, node);

    return found == NULL ? NULL : &r->members[index_of(&r->view.state, found)];
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
                              .view = &r->view,
                              .history = &r->history,
                              .now_us = now_us,
                              .is_last_call = r->is_last_call,
                              .unnamed_waiting = r->waiting,
                              .expected = expected,
                              .look = etcd_node_facts,
                              .peer = etcd_node_peer,
                              .arg = r};
}
