/* Ranks: STEERING.md has the rules. See run.h for the contract.
 *
 * Rank 0 goes to a new node first, since torch 2.5 to 2.11 ends an agent that becomes rank 0 later
 * than in its first round (AssertionError in next_rendezvous(), dynamic_rendezvous.py). */
#include "rdzv/rendezvous/run.h"

#include <stdlib.h>

#include "rdzv/config/topology.h"
#include "store/memory/account.h"

/* Instead of ranks. */
#define RANK_NEW  (-1)
#define RANK_NONE (-2) /* its agent has been in a round before */

/* A participant. */
struct seat {
    struct torch_node *node;
    struct topology_place place;
    bool is_zero; /* --rank-zero names it */
    size_t group; /* the first seat of its domain */
    size_t next;  /* of that: the seats of the domain before this one have ranks */
};

struct ranking {
    struct seat *seats; /* in the base order */
    struct seat **by_rank;
    size_t count;
};

/* --- What is kept of the ranks. The first entry has no name: its rank is MAX, and its pid the
 * number of nodes of the newest round, whose entries follow. --- */

#define KEPT_HEAD 32u /* rank, pid, local id, bytes of the address */
#define KEPT_MORE 64u /* nodes outside the round that are kept, beside one for each participant */

static bool next_kept(struct slice *rest, struct torch_node *out)
{
    uint64_t len;

    if (rest->len < KEPT_HEAD)
        return false;
    len = bytes_get_u64(rest->ptr + 24);
    if (len > rest->len - KEPT_HEAD || len > TORCH_ADDR_MAX)
        return false;
    *out = (struct torch_node){.rank = (int64_t)bytes_get_u64(rest->ptr),
                               .pid = (int64_t)bytes_get_u64(rest->ptr + 8),
                               .local_id = (int64_t)bytes_get_u64(rest->ptr + 16),
                               .addr = {rest->ptr + KEPT_HEAD, (size_t)len}};
    *rest = slice_from(*rest, KEPT_HEAD + (size_t)len);
    return true;
}

static size_t put_kept(uint8_t *out, const struct torch_node *node)
{
    bytes_put_u64(out, (uint64_t)node->rank);
    bytes_put_u64(out + 8, (uint64_t)node->pid);
    bytes_put_u64(out + 16, (uint64_t)node->local_id);
    bytes_put_u64(out + 24, node->addr.len);
    slice_copy(out + KEPT_HEAD, node->addr);
    return KEPT_HEAD + node->addr.len;
}

/* How many participants have this name; *last is the last of them. */
static size_t count_named(const struct torch_state *s, struct slice name, struct torch_node **last)
{
    size_t low = 0, high = s->count, count = 0;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (slice_compare(s->nodes[middle].addr, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < s->count && slice_equal(s->nodes[low].addr, name); low++) {
        if (!s->nodes[low].participant)
            continue;
        *last = &s->nodes[low];
        count++;
    }
    return count;
}

/* A node that is away for long gives way: the list grows no longer than the rounds. */
static size_t write_kept(struct slice kept, const struct torch_state *round, uint64_t max_nodes,
                         uint8_t *out)
{
    size_t nodes = torch_state_participants(round), more = KEPT_MORE + nodes;
    struct torch_node was = {.rank = (int64_t)max_nodes, .pid = (int64_t)nodes}, *named;
    size_t len = put_kept(out, &was);

    NODES_FOREACH(node, round) {
        if (node->participant)
            len += put_kept(out + len, node);
    }
    for (; more > 0 && next_kept(&kept, &was); more--) {
        if (was.addr.len != 0 && count_named(round, was.addr, &named) == 0)
            len += put_kept(out + len, &was);
    }
    return len;
}

bool ranks_keep(struct slice *kept, const struct torch_state *round, uint64_t max_nodes)
{
    size_t room = kept->len + KEPT_HEAD;
    uint8_t *bytes;
    size_t len;

    NODES_FOREACH(node, round)
        room += KEPT_HEAD + node->addr.len;
    bytes = account_heap_request(ACCOUNT_RUNS, account_class_of(room), room);
    if (bytes == NULL)
        return false;
    len = write_kept(*kept, round, max_nodes, bytes);
    if (slice_equal((struct slice){bytes, len}, *kept)) {
        account_heap_free(ACCOUNT_RUNS, bytes);
        return false;
    }
    account_heap_free(ACCOUNT_RUNS, (void *)(uintptr_t)kept->ptr);
    *kept = (struct slice){bytes, len};
    return true;
}

uint64_t ranks_recall(struct slice kept, struct torch_state *round)
{
    struct torch_node head, was, *at;

    if (!next_kept(&kept, &head) || head.addr.len != 0)
        return 0;
    for (; round != NULL && head.pid > 0 && next_kept(&kept, &was); head.pid--) {
        was.participant = true;
        torch_state_insert(round, &was, &at);
    }
    return (uint64_t)head.rank;
}

/* An agent that was started again has only its name, which must be that of one agent. */
static void keep_ranks(struct ranking *r, const struct torch_state *next, struct slice kept,
                       bool by_name)
{
    struct torch_node was, *node;

    while (next_kept(&kept, &was)) {
        if (!by_name)
            node = torch_state_find(next, &was);
        else if (count_named(next, was.addr, &node) != 1)
            continue;
        if (node == NULL || !node->participant || node->rank >= 0)
            continue;
        if (!by_name)
            node->rank = RANK_NONE;
        if ((uint64_t)was.rank >= r->count || r->by_rank[was.rank] != NULL)
            continue;
        node->rank = was.rank;
        r->by_rank[was.rank] = r->seats; /* taken */
    }
}

/* --- The base order: domains together, then the index, then the name. --- */

/* Nodes without a domain come last. */
static int compare_seats(const void *a, const void *b)
{
    const struct seat *x = a, *y = b;
    int order = (x->place.domain.len == 0) - (y->place.domain.len == 0);

    if (order == 0)
        order = topology_compare(x->place.domain, y->place.domain);
    if (order == 0)
        order = (x->place.index > y->place.index) - (x->place.index < y->place.index);
    if (order == 0)
        order = topology_compare(x->node->addr, y->node->addr);
    return order != 0 ? order : torch_node_compare(x->node, y->node);
}

static void take_seats(struct ranking *r, const struct policy_settings *s, const struct run *run,
                       struct torch_state *next)
{
    bool has_domains = s->rank_order == RANKS_KEEP || s->rank_order == RANKS_TABLE;
    size_t count = 0;

    NODES_FOREACH(node, next) {
        const struct agent *a = run == NULL || !has_domains ? NULL : run_agent_of(run, node);

        if (!node->participant)
            continue;
        node->rank = RANK_NEW;
        r->seats[count++] = (struct seat){
            .node = node,
            .place = topology_find(has_domains ? s->topology : NULL, node->addr,
                                   a == NULL ? NULL : a->label),
            .is_zero = s->rank_zero != NULL && topology_matches(s->rank_zero, node->addr)};
    }
}

static void sort_seats(struct ranking *r)
{
    qsort(r->seats, r->count, sizeof *r->seats, compare_seats);
    memset(r->by_rank, 0, r->count * sizeof *r->by_rank);
    for (size_t i = 0; i < r->count; i++) {
        struct seat *seat = &r->seats[i];

        seat->group =
            i > 0 && slice_equal(seat[-1].place.domain, seat->place.domain) ? seat[-1].group : i;
        seat->next = i;
        if (seat->node->rank >= 0)
            r->by_rank[seat->node->rank] = seat;
    }
}

/* --- Who gets the free ranks. --- */

static void sit(struct ranking *r, struct seat *seat, size_t rank)
{
    if (seat->node->rank >= 0)
        r->by_rank[seat->node->rank] = NULL;
    seat->node->rank = (int64_t)rank;
    r->by_rank[rank] = seat;
}

/* Only the node of --rank-zero leaves another rank for this one. */
static void choose_zero(struct ranking *r)
{
    struct seat *best = NULL;
    int most = -1;

    for (size_t i = 0; i < r->count && r->by_rank[0] == NULL; i++) {
        struct seat *seat = &r->seats[i];
        int score = 2 * (seat->node->rank == RANK_NEW) + seat->is_zero;

        if (score <= most || (seat->node->rank >= 0 && !seat->is_zero))
            continue;
        best = seat;
        most = score;
    }
    if (best != NULL)
        sit(r, best, 0);
}

/* The next node without a rank from that seat on; with `group`, of its domain. NULL: none. */
static struct seat *take(struct ranking *r, size_t from, bool group)
{
    size_t *at = &r->seats[from].next;

    while (*at < r->count && r->seats[*at].node->rank >= 0)
        ++*at;
    return *at < r->count && (!group || r->seats[*at].group == from) ? &r->seats[*at] : NULL;
}

enum fill {
    FILL_WITHIN, /* gaps within a domain, by nodes of it */
    FILL_BESIDE, /* gaps beside a domain */
    FILL_ALL,
    FILLS,
};

/* The free ranks from `low` to `high`. Rank 0 is taken, so both have a neighbour. */
static void fill_gap(struct ranking *r, size_t low, size_t high, enum fill how)
{
    size_t left = r->by_rank[low - 1]->group;
    size_t right = r->by_rank[high + 1 == r->count ? 0 : high + 1]->group;
    struct seat *seat;

    if (how == FILL_WITHIN && left != right)
        return;
    for (; low <= high && (seat = take(r, how == FILL_ALL ? 0 : left, how != FILL_ALL)); low++)
        sit(r, seat, low);
    for (; low <= high && (seat = take(r, right, true)) != NULL; high--)
        sit(r, seat, high);
}

static void fill_gaps(struct ranking *r)
{
    for (enum fill how = FILL_WITHIN; how < FILLS; how++) {
        r->seats[0].next = 0;
        for (size_t low = 0, high; low < r->count; low = high + 1) {
            for (high = low; high < r->count && r->by_rank[high] == NULL;)
                high++;
            if (low < high)
                fill_gap(r, low, high - 1, how);
        }
    }
}

void ranks_assign(const struct policy_settings *settings, const struct run *run, struct slice kept,
                  struct torch_state *next)
{
    struct ranking r = {.count = torch_state_participants(next)};
    size_t size = r.count * (sizeof *r.seats + sizeof *r.by_rank);

    if (r.count == 0 || settings->rank_order == RANKS_TORCH)
        return;
    r.seats = account_request_zeroed(ACCOUNT_RUNS, account_class_of(size), size);
    if (r.seats == NULL)
        return;
    r.by_rank = (struct seat **)(void *)(r.seats + r.count);
    take_seats(&r, settings, run, next);
    if (settings->rank_order == RANKS_KEEP) {
        keep_ranks(&r, next, kept, false);
        keep_ranks(&r, next, kept, true);
    }
    sort_seats(&r);
    choose_zero(&r);
    fill_gaps(&r);
    account_free(ACCOUNT_RUNS, r.seats, size);
}
