/* One run of torch's over HTTP. See handlers.h for the contract. */
#include "proto/json.h"
#include "rdzv/admin/handlers.h"
#include "rdzv/admin/run_status.h"
#include "rdzv/admin/status.h"
#include "rdzv/http/access.h"
#include "rdzv/rendezvous/rendezvous.h"

static const struct reply ok = {.status = 200, .content_type = HTTP_JSON, .no_store = true};

/* NULL: no node of the round has this rank. */
static const struct torch_node *find_rank(const struct run_facts *f, uint64_t rank)
{
    const struct torch_state *state = &f->view->state;

    for (size_t i = 0; state->complete && i < state->count; i++) {
        const struct torch_node *node = &state->nodes[i];

        if (node->participant && node->rank == (int64_t)rank && run_status_counts(f, node))
            return node;
    }
    return NULL;
}

static void reply_node(const struct http_request *r, struct run_view *run)
{
    static const struct status_form form = {.streamed = false};
    const struct torch_node *node;
    struct run_facts facts;
    struct reply_body body;
    struct slice text;
    uint64_t rank;

    if (!url_find_param((struct slice){0}, r->query, "rank", &text) ||
        !slice_to_u64(text, INT64_MAX, &rank)) {
        reply_message(r, 400, "Name a node: ?rank=NUMBER", HTTP_ETCD_NONE);
        return;
    }
    rendezvous_facts(run, &facts);
    node = find_rank(&facts, rank);
    if (node == NULL) {
        REPLY_MESSAGE(r, 404, HTTP_ETCD_NONE, slice_str("No node has the rank "), text);
        return;
    }
    reply_body_begin(&body);
    status_node_write(&body.w, &facts, node, &form);
    reply_body_send(r, &ok, &body);
}

static void reply_forget(const struct http_request *r, struct run_view *run, struct slice id)
{
    struct reply_body body;
    uint64_t removed = rendezvous_forget(run);

    reply_body_begin(&body);
    json_open(&body.w, '{');
    json_member(&body.w, "run", id);
    json_member_u64(&body.w, "removed", removed);
    writer_str(&body.w, "}\n");
    reply_body_send(r, &ok, &body);
}

void admin_run_handle(const struct http_request *r, struct engine_space *space, struct slice name,
                      struct slice id)
{
    struct run_view *run = space == NULL ? NULL : rendezvous_find(space, id);
    bool deletes = r->head->method == HTTP_DELETE;

    if (!deletes && !http_is_reading(r))
        reply_not_allowed(r, "GET,HEAD,DELETE", HTTP_ETCD_NONE);
    else if (deletes && !http_may_change_daemon(r))
        return;
    else if (space == NULL)
        REPLY_MESSAGE(r, 404, HTTP_ETCD_NONE, slice_str("No such space: "), name);
    else if (run == NULL)
        REPLY_MESSAGE(r, 404, HTTP_ETCD_NONE, slice_str("No such run: "), id);
    else if (deletes)
        reply_forget(r, run, id);
    else
        reply_node(r, run);
}
