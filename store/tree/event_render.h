/* The JSON of an event with a large value: written in slices, once for all who are told of it and
 * for the one who made the change. Those who are told wait for it without being asked; it is on the
 * list ready_list.unfinished then, whose owner calls event_render_run(). */
#pragma once

#include "store/memory/blob_list.h"
#include "store/tree/watch.h"

struct render_wait;

struct event_render {
    uint32_t refs;
    bool done;
    bool failed; /* memory was short; then it is done, too */
    bool listed; /* in ready->unfinished */
    TAILQ_ENTRY(event_render) entry;
    TAILQ_HEAD(, render_wait) waiting; /* deliveries whose subscriptions are woken at the end */
    struct ready_list *ready;
    struct tree_event *event;
    const struct etcd_node *node; /* is being written; NULL: none yet */
    size_t at;                    /* of its value */
    struct blob_list out;         /* whole when it is done and has not failed */
};

/* The one of this event, with one reference more; NULL when memory is short. */
struct event_render *event_render_of(struct tree_event *e, struct ready_list *ready);

struct event_render *event_render_ref(struct event_render *r);

/* Takes NULL. */
void event_render_unref(struct event_render *r);

/* Goes on for about that many nanoseconds; true when it is done. */
bool event_render_run(struct event_render *r, int64_t work_ns);
