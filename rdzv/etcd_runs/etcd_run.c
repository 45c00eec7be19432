/* The value of a run over `etcd-v2`. See etcd_runs.h for the contract. */
#include "rdzv/etcd_runs/etcd_runs.h"

#include <stdio.h>

#include "proto/torch/torch_intent.h"

void etcd_run_init(struct etcd_run *r, struct slice path)
{
    *r = (struct etcd_run){.view = {.node = {.key = path},
                                    .id = slice_from(path, strlen(ETCD_RUN_PREFIX)),
                                    .backend = BACKEND_ETCD_V2}};
    TAILQ_INIT(&r->meeting.requests);
}

static void replace_members(struct etcd_run *r, struct etcd_member *members, size_t count)
{
    account_free(ACCOUNT_RUNS, r->members, r->member_count * sizeof *r->members);
    r->members = members;
    r->member_count = count;
}

void etcd_run_fini(struct etcd_run *r)
{
    replace_members(r, NULL, 0);
    run_view_fini(&r->view);
    history_fini(&r->history);
}

/* --- What has changed. --- */

/* The members of the state; nodes of the state before keep theirs. If a key is read for the first
 * time, and no client has just written it, its nodes are older than rdzvd. NULL: no memory. */
static struct etcd_member *next_members(const struct etcd_run *r, bool is_first, const char *by,
                                        int64_t now_us)
{
    const struct torch_state *before = &r->view.before, *state = &r->view.state;
    const struct torch_node *writer = by != NULL ? intent_writer(before, state) : NULL;
    size_t len = state->count * sizeof(struct etcd_member);
    struct etcd_member *members = account_request_zeroed(ACCOUNT_RUNS, account_class_of(len), len);

    for (size_t i = 0; members != NULL && i < state->count; i++) {
        const struct torch_node *node = &state->nodes[i], *old = torch_state_find(before, node);

        if (old != NULL)
            members[i] = r->members[old - before->nodes];
        if (node_role(old) == NULL && (by != NULL || !is_first))
            members[i].joined_us = now_us;
        if (by != NULL && node == writer)
            snprintf(members[i].peer, sizeof members[i].peer, "%s", by);
    }
    return members;
}

static const char *member_peer(const struct etcd_member *m)
{
    return m->peer[0] == '\0' ? NULL : m->peer;
}

/* The others take a node out whose heartbeat is too old; or it has left. */
static void note_node_gone(struct etcd_run *r, const struct torch_node *old, int64_t now_us)
{
    const char *peer = member_peer(&r->members[old - r->view.before.nodes]);
    char name[NODE_TEXT_MAX], words[NODE_TEXT_MAX];
    int64_t age_us = 0;

    node_text(old, name);
    if (!old->has_heartbeat || __builtin_sub_overflow(now_us, old->heartbeat_us, &age_us) ||
        age_us < TORCH_DEAD_MS * INT64_C(1000)) {
        history_leave(&r->history, name, now_us);
        history_lose(&r->history, name, LOSS_LEFT, peer, now_us);
        return;
    }
    goodput_enter(&r->history.goodput, GOODPUT_LOST, now_us);
    history_add_reason(&r->history, REASON_ALSO, "%s was lost: its last heartbeat was %lld s old",
                       node_words(name, words), (long long)(age_us / 1000000));
    history_lose(&r->history, name, LOSS_SILENT, peer, now_us);
}

static void note_nodes(struct etcd_run *r, int64_t now_us)
{
    struct node_pairs pairs = {.before = &r->view.before, .now = &r->view.state};
    const struct torch_node *old, *node;
    char name[NODE_TEXT_MAX];

    while (node_pairs_next(&pairs, &old, &node)) {
        if (node_role(node) == node_role(old))
            continue;
        if (node_role(node) == NULL)
            note_node_gone(r, old, now_us);
        else
            history_join(&r->history, node_text(node, name), node->waiting, now_us);
    }
}

static void note_changes(struct etcd_run *r, const char *by, int64_t now_us)
{
    const struct torch_state *state = &r->view.state, *before = &r->view.before;
    bool same_round = before->round == state->round;
    /* torch completes a round when the MAX-th node joins, or when the last call is over */
    bool is_full = before->count > 0 && r->view.participants > torch_state_participants(before);
    char why[HISTORY_TEXT_MAX];

    if (state->closed) {
        snprintf(why, sizeof why, "an agent%s%s closed the run", by == NULL ? "" : " at ",
                 by == NULL ? "" : by);
        history_end(&r->history, why, now_us);
        return;
    }
    note_nodes(r, now_us);
    history_reach(&r->history, state->round, now_us);
    if (state->has_deadline && !(same_round && before->has_deadline))
        history_last_call(&r->history, r->view.participants);
    if (state->complete && !(same_round && before->complete))
        history_complete(&r->history, r->view.participants, is_full, now_us);
}

bool etcd_run_update(struct etcd_run *r, struct slice value, const char *by, int64_t now_us)
{
    bool is_first = !r->view.exists;
    uint64_t completions = r->view.completions;
    struct etcd_member *members = NULL;

    run_view_update(&r->view, value);
    if (r->view.unread)
        return false;
    if (r->view.state.count > 0) {
        members = next_members(r, is_first, by, now_us);
        if (members == NULL) {
            run_view_fini(&r->view);
            replace_members(r, NULL, 0);
            return false;
        }
    }
    if (r->view.is_state)
        note_changes(r, by, now_us);
    else
        history_end(&r->history, NULL, now_us);
    replace_members(r, members, r->view.state.count);
    r->view.exists = value.ptr != NULL;
    if (r->view.completions != completions)
        ranks_keep(&r->view.ranks, &r->view.state, 0);
    return true;
}

static struct node_facts look_at_member(const struct run_facts *f, const struct torch_node *node)
{
    const struct etcd_run *r = etcd_run_of(f->view);
    const struct torch_node *found = torch_state_find(&r->view.state, node);
    const struct etcd_member *m;

    if (found == NULL)
        return (struct node_facts){0};
    m = &r->members[found - r->view.state.nodes];
    return (struct node_facts){.joined_us = m->joined_us, .peer = member_peer(m)};
}

void etcd_run_facts(const struct etcd_run *r, uint64_t expected, int64_t now_us,
                    struct run_facts *out)
{
    *out = (struct run_facts){.view = &r->view,
                              .history = &r->history,
                              .now_us = now_us,
                              .expected = expected,
                              .look = look_at_member};
}
