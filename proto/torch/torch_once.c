/* Equal addresses and times of a state. See torch_state_internal.h. */
#include "proto/torch/torch_state_internal.h"

#include <stdlib.h>

static bool same_addr(struct slice a, struct slice b)
{
    return a.len == b.len && (a.ptr == b.ptr || slice_equal(a, b));
}

/* In the order of nodes those that share an address are neighbours. */
static void find_addresses(struct torch_once *o, const struct torch_state *s)
{
    uint32_t first = 0;

    for (size_t i = 0; i < s->count; i++) {
        if (i == 0 || !same_addr(s->nodes[i].addr, s->nodes[first].addr)) {
            first = (uint32_t)i;
            o->addr_bytes += s->nodes[i].addr.len;
        }
        o->nodes[i] = (struct torch_once_node){TORCH_UNWRITTEN, TORCH_UNWRITTEN, first};
    }
}

static int compare_times(const void *a, const void *b)
{
    int64_t left = ((const struct torch_once_time *)a)->us;
    int64_t right = ((const struct torch_once_time *)b)->us;

    return (left > right) - (left < right);
}

static bool find_times(struct torch_once *o, const struct torch_state *s)
{
    o->times = malloc((s->count + 1) * sizeof *o->times);
    if (o->times == NULL)
        return false;
    if (s->has_deadline)
        o->times[o->time_count++] = (struct torch_once_time){s->deadline_us, TORCH_UNWRITTEN};
    for (size_t i = 0; i < s->count; i++) {
        if (s->nodes[i].has_heartbeat)
            o->times[o->time_count++] =
                (struct torch_once_time){s->nodes[i].heartbeat_us, TORCH_UNWRITTEN};
    }
    qsort(o->times, o->time_count, sizeof *o->times, compare_times);
    return true;
}

bool torch_once_init(struct torch_once *o, const struct torch_state *s)
{
    *o = (struct torch_once){.nodes = malloc(s->count * sizeof *o->nodes + 1)};
    if (o->nodes == NULL)
        return false;
    find_addresses(o, s);
    if (s->shares_times && !find_times(o, s)) {
        torch_once_fini(o);
        return false;
    }
    return true;
}

void torch_once_fini(struct torch_once *o)
{
    free(o->nodes);
    free(o->times);
    *o = (struct torch_once){0};
}

/* The first of those that are equal. */
uint32_t *torch_once_time(struct torch_once *o, int64_t us)
{
    size_t low = 0, high = o->time_count;

    if (o->times == NULL)
        return NULL;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (o->times[middle].us < us)
            low = middle + 1;
        else
            high = middle;
    }
    return &o->times[low].number;
}
