/* Large events as JSON. See event_render.h for the contract. */
#include "store/tree/event_render.h"

#include "proto/json.h"

#define BYTE_COST_NS 2 /* of a value */
#define STEP_COST_NS 500

struct event_render *event_render_of(struct tree_event *e, struct ready_list *ready)
{
    struct event_render *r = e->render;

    if (r != NULL)
        return event_render_ref(r);
    r = account_request(ACCOUNT_ANSWERS, ACCOUNT_SMALL, sizeof *r);
    if (r == NULL)
        return NULL;
    *r = (struct event_render){.refs = 1, .ready = ready, .event = tree_event_ref(e)};
    TAILQ_INIT(&r->waiting);
    blob_list_init(&r->out, ACCOUNT_ANSWERS);
    e->render = r;
    return r;
}

struct event_render *event_render_ref(struct event_render *r)
{
    r->refs++;
    return r;
}

void event_render_unref(struct event_render *r)
{
    if (r == NULL || --r->refs != 0)
        return;
    if (r->listed)
        TAILQ_REMOVE(&r->ready->unfinished, r, entry);
    r->event->render = NULL;
    tree_event_unref(r->event);
    blob_list_free(&r->out, r->ready->lazy_free);
    account_free(ACCOUNT_ANSWERS, r, sizeof *r);
}

/* --- Slices. --- */

static void begin_node(struct event_render *r, const struct etcd_node *node, const char *name)
{
    struct writer *w = blob_list_room(&r->out, 64 + ETCD_NODE_ROOM(node->key.len));

    if (r->node == NULL) {
        writer_str(w, "{\"action\":\"");
        writer_str(w, etcd_action_name(r->event->action));
        writer_str(w, "\"");
    }
    writer_str(w, name);
    etcd_write_node_begin(w, node);
    r->node = node;
    r->at = 0;
}

static void end_node(struct event_render *r)
{
    struct writer *w = blob_list_room(&r->out, ETCD_NODE_ROOM(0));
    struct tree_event *e = r->event;

    etcd_write_node_rest(w, r->node);
    etcd_write_node_close(w, r->node);
    if (r->node == &e->node && e->has_prev) {
        begin_node(r, &e->prev, ",\"prevNode\":");
        return;
    }
    writer_str(blob_list_room(&r->out, 2), "}\n");
    r->done = true;
}

/* As much of a value as one blob takes, or what stands between two. */
static int64_t step(struct event_render *r)
{
    size_t from = r->at;

    if (r->node == NULL) {
        begin_node(r, &r->event->node, ",\"node\":");
    } else if (r->at < r->node->value.len) {
        r->at = json_text_part(blob_list_room(&r->out, 16), r->node->value, from);
        return (int64_t)(r->at - from) * BYTE_COST_NS;
    } else {
        end_node(r);
    }
    return STEP_COST_NS;
}

bool event_render_run(struct event_render *r, int64_t work_ns)
{
    if (r->done)
        return true;
    while (work_ns > 0 && !r->done && !r->out.failed)
        work_ns -= step(r);
    if (!r->done && !r->out.failed)
        return false;
    r->done = true;
    r->failed = !blob_list_end(&r->out);
    if (r->listed)
        TAILQ_REMOVE(&r->ready->unfinished, r, entry);
    r->listed = false;
    subscriptions_wake(r);
    return true;
}
