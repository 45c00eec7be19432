/* What agents' changes of a rendezvous state have to do with each other. See torch_merge.h. */
#include "proto/torch/torch_merge.h"

static bool is_same_place(const struct torch_node *a, const struct torch_node *b)
{
    return a->participant == b->participant && a->waiting == b->waiting &&
           a->redundant == b->redundant && a->has_heartbeat == b->has_heartbeat &&
           (!a->participant || a->rank == b->rank);
}

static bool same_head(const struct torch_state *a, const struct torch_state *b)
{
    return a->round == b->round && a->complete == b->complete && a->closed == b->closed &&
           a->has_deadline == b->has_deadline &&
           (!a->has_deadline || a->deadline_us == b->deadline_us);
}

/* Both lists are in the same order, so one pass over both sees every difference. */
bool torch_merge_heartbeat(const struct torch_state *expected, const struct torch_state *desired,
                           struct torch_state *now, struct torch_node **node, int64_t *heartbeat_us)
{
    const struct torch_node *beat = NULL;
    struct torch_node *found;
    size_t i = 0, k = 0;

    if (!same_head(expected, desired))
        return false;
    while (i < expected->count || k < desired->count) {
        int order = i == expected->count ? 1
                    : k == desired->count
                        ? -1
                        : torch_node_compare(&expected->nodes[i], &desired->nodes[k]);

        if (order > 0)
            return false; /* somebody joins */
        if (order < 0) {
            if (torch_state_find(now, &expected->nodes[i++]) != NULL)
                return false;
            continue;
        }
        if (!is_same_place(&expected->nodes[i], &desired->nodes[k]))
            return false;
        if (desired->nodes[k].has_heartbeat &&
            desired->nodes[k].heartbeat_us != expected->nodes[i].heartbeat_us) {
            if (beat != NULL || desired->nodes[k].heartbeat_us < expected->nodes[i].heartbeat_us)
                return false;
            beat = &desired->nodes[k];
        }
        i++;
        k++;
    }
    found = beat == NULL ? NULL : torch_state_find(now, beat);
    if (found == NULL || !found->has_heartbeat)
        return false;
    *node = found;
    *heartbeat_us =
        beat->heartbeat_us > found->heartbeat_us ? beat->heartbeat_us : found->heartbeat_us;
    return true;
}

const struct torch_node *torch_merge_writer(const struct torch_state *expected,
                                            const struct torch_state *desired)
{
    const struct torch_node *writer = NULL;
    size_t k = 0;

    for (size_t i = 0; i < desired->count; i++) {
        const struct torch_node *node = &desired->nodes[i], *old = NULL;

        while (k < expected->count && torch_node_compare(&expected->nodes[k], node) < 0)
            k++;
        if (k < expected->count && torch_node_compare(&expected->nodes[k], node) == 0)
            old = &expected->nodes[k];
        if (!node->has_heartbeat ||
            (old != NULL && old->has_heartbeat && old->heartbeat_us == node->heartbeat_us))
            continue;
        if (writer != NULL)
            return NULL;
        writer = node;
    }
    return writer;
}

bool torch_merge_rebase(const struct torch_state *expected, struct torch_state *desired,
                        const struct torch_state *now)
{
    if (!same_head(expected, now) || expected->count != now->count)
        return false;
    for (size_t i = 0; i < now->count; i++) {
        const struct torch_node *was = &expected->nodes[i], *is = &now->nodes[i];
        struct torch_node *next;

        if (torch_node_compare(was, is) != 0 || !is_same_place(was, is))
            return false;
        if (!is->has_heartbeat || is->heartbeat_us == was->heartbeat_us)
            continue;
        next = torch_state_find(desired, is);
        if (next == NULL || !next->has_heartbeat)
            return false;
        if (next->heartbeat_us < is->heartbeat_us)
            next->heartbeat_us = is->heartbeat_us;
    }
    return true;
}
