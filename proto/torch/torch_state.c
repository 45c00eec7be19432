/* A rendezvous state in memory: its nodes in order, and the blocks that hold their addresses. See
 * torch_state.h; reading and writing are in torch_state_read.c and torch_state_write.c. */
#include "proto/torch/torch_state.h"

#include <assert.h>
#include <stdlib.h>

#include "proto/torch/torch_state_internal.h"

/* So many addresses more than nodes may be in memory before they are worth the reading. */
#define INSERTED_MOST 64

#define TORCH_RENDEZVOUS "torch.distributed.elastic.rendezvous.dynamic_rendezvous"

const struct torch_class_name torch_classes[TORCH_CLASSES] = {
    [TORCH_STATE_CLASS] = {TORCH_RENDEZVOUS, "_RendezvousState"},
    [TORCH_NODE_CLASS] = {TORCH_RENDEZVOUS, "_NodeDesc"},
    [TORCH_DATETIME_CLASS] = {"datetime", "datetime"},
    [TORCH_TIMEZONE_CLASS] = {"datetime", "timezone"},
    [TORCH_TIMEDELTA_CLASS] = {"datetime", "timedelta"},
};

const size_t torch_list_flags[TORCH_LISTS] = {
    [TORCH_PARTICIPANTS] = offsetof(struct torch_node, participant),
    [TORCH_WAIT_LIST] = offsetof(struct torch_node, waiting),
    [TORCH_REDUNDANCY_LIST] = offsetof(struct torch_node, redundant),
    [TORCH_LAST_HEARTBEATS] = offsetof(struct torch_node, has_heartbeat),
};

struct torch_memory torch_memory = {.alloc = malloc, .grow = reallocarray, .free = free};

void torch_state_set_memory(const struct torch_memory *memory)
{
    torch_memory = *memory;
}

struct torch_block *torch_block_new(size_t size)
{
    struct torch_block *block = torch_memory.alloc(sizeof *block + size);

    if (block != NULL) {
        block->next = NULL;
        block->users = 1;
    }
    return block;
}

void torch_state_free(struct torch_state *s)
{
    struct torch_block *block = s->memory;

    while (block != NULL && --block->users == 0) {
        struct torch_block *next = block->next;

        torch_memory.free(block);
        block = next;
    }
    torch_memory.free(s->nodes);
    *s = (struct torch_state){0};
}

bool torch_state_copy(const struct torch_state *s, struct torch_state *out)
{
    struct torch_state copy = *s;

    copy.nodes = NULL;
    copy.cap = 0;
    if (s->count > 0) {
        copy.cap = s->count + 1; /* most copies get a node */
        copy.nodes = torch_memory.grow(NULL, copy.cap, sizeof *s->nodes);
        if (copy.nodes == NULL)
            return false;
        memcpy(copy.nodes, s->nodes, s->count * sizeof *s->nodes);
    }
    if (copy.memory != NULL)
        copy.memory->users++;
    *out = copy;
    return true;
}

static bool is_writable(int64_t us)
{
    return us >= TORCH_TIME_MIN && us <= TORCH_TIME_MAX;
}

/* False: nothing would be left of it in a text. */
static bool settle_node(struct torch_node *node)
{
    if (!node->participant)
        node->rank = 0;
    if (!node->has_heartbeat)
        node->heartbeat_us = 0;
    return node->participant || node->waiting || node->redundant || node->has_heartbeat;
}

bool torch_state_settle(struct torch_state *s, size_t from, size_t to)
{
    bool has_time = s->has_deadline;
    size_t count = from;

    if (!s->has_deadline)
        s->deadline_us = 0;
    if (!is_writable(s->deadline_us))
        return false;
    for (size_t i = from; i < to; i++) {
        struct torch_node node = s->nodes[i];

        if (!settle_node(&node))
            continue;
        if (!is_writable(node.heartbeat_us))
            return false;
        s->nodes[count++] = node;
    }
    if (count < to)
        memmove(&s->nodes[count], &s->nodes[to], (s->count - to) * sizeof *s->nodes);
    s->count -= to - count;
    for (size_t i = 0; i < s->count && !has_time; i++)
        has_time = s->nodes[i].has_heartbeat;
    return has_time && s->count > 0 && s->inserted <= s->count + INSERTED_MOST;
}

int torch_node_compare(const struct torch_node *a, const struct torch_node *b)
{
    /* Python compares strings by code points; in UTF-8 that is the order of the bytes. */
    int order = a->addr.ptr == b->addr.ptr && a->addr.len == b->addr.len
                    ? 0
                    : slice_compare(a->addr, b->addr);

    if (order == 0)
        order = (a->pid > b->pid) - (a->pid < b->pid);
    if (order == 0)
        order = (a->local_id > b->local_id) - (a->local_id < b->local_id);
    return order;
}

/* The index of the node, or the index at which to insert it. */
static size_t place_of_node(const struct torch_state *s, const struct torch_node *who, bool *found)
{
    size_t low = 0, high = s->count;

    *found = false;
    while (low < high && !*found) {
        size_t middle = low + (high - low) / 2;
        int order = torch_node_compare(who, &s->nodes[middle]);

        if (order > 0) {
            low = middle + 1;
        } else {
            high = middle;
            *found = order == 0;
        }
    }
    return *found ? high : low;
}

struct torch_node *torch_state_find(const struct torch_state *s, const struct torch_node *who)
{
    bool found;
    size_t place = place_of_node(s, who, &found);

    return found ? &s->nodes[place] : NULL;
}

bool torch_state_takes_part(const struct torch_state *s, const struct torch_node *who)
{
    const struct torch_node *node = torch_state_find(s, who);

    return node != NULL && node->participant;
}

static bool make_node_room(struct torch_state *s)
{
    size_t cap = s->cap + s->cap / 2 + 4;
    struct torch_node *nodes = torch_memory.grow(s->nodes, cap, sizeof *nodes);

    if (nodes == NULL)
        return false;
    s->nodes = nodes;
    s->cap = cap;
    return true;
}

bool torch_state_insert(struct torch_state *s, const struct torch_node *who, struct torch_node **at)
{
    bool found;
    size_t place = place_of_node(s, who, &found);
    struct torch_block *block;

    assert(who->addr.len <= TORCH_ADDR_MAX);
    if (found) {
        *at = &s->nodes[place];
        return true;
    }
    if (s->count == s->cap && !make_node_room(s))
        return false;
    block = torch_block_new(who->addr.len);
    if (block == NULL)
        return false;

    block->next = s->memory;
    s->memory = block;
    s->inserted++;
    *at = &s->nodes[place];
    memmove(*at + 1, *at, (s->count - place) * sizeof **at);
    **at = *who;
    (*at)->addr = slice_copy(block->bytes, who->addr);
    s->count++;
    return true;
}

size_t torch_state_participants(const struct torch_state *s)
{
    size_t n = s->unnamed;

    NODES_FOREACH(node, s)
        n += node->participant;
    return n;
}

size_t torch_state_waiting(const struct torch_state *s)
{
    size_t n = 0;

    NODES_FOREACH(node, s)
        n += node->waiting;
    return n;
}

void torch_state_complete(struct torch_state *s)
{
    int64_t rank = 0;

    s->complete = true;
    s->has_deadline = false;
    NODES_FOREACH(node, s) {
        if (node->participant)
            node->rank = rank++;
    }
}
