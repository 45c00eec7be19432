/* Answers to changes of /v2/keys. See put.h for the contract. */
#include "rdzv/etcd/put.h"

#include <stdio.h>

#include "rdzv/http/job.h"
#include "store/tree/event_render.h"

/* The change is made: no error may say that it is not. */
static void drop_for_memory(const struct http_request *r)
{
    conn_drop(r->conn, DROP_NO_MEMORY, "no memory for its answers, see --memory-limit", r->path);
}

static struct reply reply_to(const struct tree_event *e, uint64_t index)
{
    bool created = e->action == ETCD_CREATE || (e->action == ETCD_SET && !e->has_prev);

    return (struct reply){.status = created ? 201 : 200,
                          .content_type = HTTP_JSON,
                          .etcd = HTTP_ETCD_KEYS,
                          .index = index};
}

/* --- A large event, in slices. --- */

struct put_job {
    struct http_job job;
    struct event_render *render;
    uint64_t index; /* of the tree after the change */
};

static void free_job(struct http_job *job)
{
    struct put_job *j = (struct put_job *)job; /* its first member */

    event_render_unref(j->render);
    account_free(ACCOUNT_ANSWERS, j, sizeof *j);
}

static enum http_job_state run_job(struct http_job *job, const struct http_request *r)
{
    struct put_job *j = (struct put_job *)job;
    struct reply reply = reply_to(j->render->event, j->index);

    if (!event_render_run(j->render, HTTP_SLICE_NS))
        return HTTP_JOB_GOES_ON;
    reply.parts = &j->render->out;
    if (j->render->failed)
        drop_for_memory(r);
    else
        reply_send(r, &reply);
    return HTTP_JOB_DONE;
}

static void start_rendering(const struct http_request *r, struct tree_event *e, uint64_t index)
{
    struct event_render *render = event_render_of(e, &http_engine(r)->store.ready);
    struct put_job *j =
        render == NULL ? NULL : account_request(ACCOUNT_ANSWERS, ACCOUNT_SMALL, sizeof *j);

    if (j == NULL) {
        event_render_unref(render);
        drop_for_memory(r);
        return;
    }
    *j = (struct put_job){
        .job = {.run = run_job, .free = free_job}, .render = render, .index = index};
    http_start_job(r, &j->job, HTTP_JOB_GOES_ON);
}

/* --- The whole. --- */

static bool is_brief(const struct etcd_request *q, enum etcd_action action)
{
    return q->no_value_on_success && (action == ETCD_SET || action == ETCD_CREATE ||
                                      action == ETCD_UPDATE || action == ETCD_COMPARE_AND_SWAP);
}

void etcd_reply_changed(const struct http_request *r, const struct etcd_request *q,
                        struct tree_event *e)
{
    uint64_t index = r->space->store->tree.index;
    struct reply reply = reply_to(e, index);
    char text[64];

    if (is_brief(q, e->action)) {
        snprintf(text, sizeof text, "{\"action\":\"%s\"}\n", etcd_action_name(e->action));
        reply.body = slice_str(text);
        reply_send(r, &reply);
    } else if (tree_event_is_large(e)) {
        start_rendering(r, e, index);
    } else {
        reply.shared = tree_event_json(e);
        if (reply.shared == NULL)
            drop_for_memory(r);
        else
            reply_send(r, &reply);
    }
}
