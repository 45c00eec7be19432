/* Torch's runs over HTTP. See runs.h for the contract. */
#include "rdzv/admin/runs.h"

#include <stdio.h>

#include "proto/json.h"
#include "rdzv/admin/access.h"
#include "rdzv/http/body.h"
#include "rdzv/http/message.h"
#include "rdzv/http/operator.h"
#include "rdzv/net/conn.h"
#include "rdzv/rendezvous/explain.h"
#include "rdzv/rendezvous/rendezvous.h"

/* ,"name":"text" */
static void member(struct writer *w, const char *name, struct slice text)
{
    writer_str(w, ",\"");
    writer_str(w, name);
    writer_str(w, "\":");
    json_string(w, text);
}

static void number(struct writer *w, const char *name, int64_t value)
{
    writer_str(w, ",\"");
    writer_str(w, name);
    writer_str(w, "\":");
    json_i64(w, value);
}

static void write_time(struct writer *w, const char *name, int64_t us)
{
    writer_str(w, ",\"");
    writer_str(w, name);
    writer_str(w, "\":");
    json_time_us(w, us);
}

static void write_node(struct writer *w, const struct torch_state *state,
                       const struct torch_node *node, const struct conn *conn)
{
    char peer[CONN_PEER_MAX];

    writer_str(w, "{\"addr\":");
    json_string(w, node->addr);
    number(w, "pid", node->pid);
    number(w, "local_id", node->local_id);
    member(w, "role",
           slice_str(node->participant ? "participant"
                     : node->waiting   ? "waiting"
                     : node->redundant ? "spare"
                                       : "none"));
    if (node->participant && state->complete)
        number(w, "rank", node->rank);
    if (node->has_heartbeat)
        write_time(w, "heartbeat", node->heartbeat_us);
    if (conn != NULL)
        member(w, "peer", slice_str(conn_peer(conn, peer)));
    writer_u8(w, '}');
}

static void write_nodes(struct writer *w, const struct run *run)
{
    const struct torch_state *state = &run->view.state;
    bool more = false;

    writer_str(w, ",\"nodes\":[");
    for (size_t i = 0; i < state->count; i++) {
        if (loss_is_mark(&state->nodes[i]))
            continue;
        if (more)
            writer_u8(w, ',');
        more = true;
        write_node(w, state, &state->nodes[i], rendezvous_conn_of(run, &state->nodes[i]));
    }
    writer_u8(w, ']');
}

/* Nodes of the last completed round that are in no list any more, and not connected. */
static void write_missing(struct writer *w, const struct run *run)
{
    const struct torch_state *then = &run->view.last_completed;
    bool more = false;

    writer_str(w, ",\"missing\":[");
    for (size_t i = 0; run->view.has_completed && i < then->count; i++) {
        const struct torch_node *node = &then->nodes[i];

        if (!node->participant || run_agent_of(run, node) != NULL ||
            explain_role(torch_state_find(&run->view.state, node)) != NULL)
            continue;
        if (more)
            writer_u8(w, ',');
        more = true;
        write_node(w, then, node, NULL);
    }
    writer_u8(w, ']');
}

static void write_run(struct writer *w, const struct run *run)
{
    static const char *const stores[] = {[WORKER_STORE_UNKNOWN] = "unknown",
                                         [WORKER_STORE_WORKER0] = "worker0",
                                         [WORKER_STORE_RDZVD] = "rdzvd"};
    const struct torch_state *state = &run->view.state;
    const struct view_record *record = &run->view.record;

    writer_str(w, "{\"id\":");
    json_string(w, run->view.id);
    member(w, "state",
           slice_str(!run->view.is_state ? "empty"
                     : state->closed     ? "closed"
                     : state->complete   ? "complete"
                                         : "joining"));
    number(w, "round", state->round);
    number(w, "nodes_joined", (int64_t)torch_state_participants(state));
    if (state->has_deadline && !state->complete)
        write_time(w, "last_call_ends", state->deadline_us);
    member(w, "worker_store", slice_str(stores[record->placement]));
    if (record->placement == WORKER_STORE_RDZVD) {
        char port[8];

        snprintf(port, sizeof port, "%u", record->port);
        member(w, "address", record->address);
        member(w, "port", slice_str(port));
    }
    number(w, "agents", (int64_t)run->agent_count);
    number(w, "agents_waiting", (int64_t)run->waiting_count);
    write_nodes(w, run);
    write_missing(w, run);
    writer_u8(w, '}');
}

static void write_runs(struct writer *w, const struct engine_space *space)
{
    const struct run *first = rendezvous_first(space), *run;

    writer_str(w, "{\"runs\":[");
    for (run = first; run != NULL; run = rendezvous_next(run)) {
        if (run != first)
            writer_u8(w, ',');
        write_run(w, run);
    }
    writer_str(w, "]}\n");
}

static const struct reply ok = {.status = 200, .content_type = HTTP_JSON};

static void show_all(const struct http_request *r, struct engine_space *space)
{
    struct reply_body body;

    reply_body_begin(&body);
    write_runs(&body.w, space);
    reply_body_send(r, &ok, &body);
}

static void show_one(const struct http_request *r, struct engine_space *space, struct slice id)
{
    const struct run *run = rendezvous_find(space, id);
    struct reply_body body;

    if (run == NULL) {
        REPLY_MESSAGE(r, 404, HTTP_ETCD_NONE, slice_str("No such run: "), id);
        return;
    }
    reply_body_begin(&body);
    write_run(&body.w, run);
    writer_u8(&body.w, '\n');
    reply_body_send(r, &ok, &body);
}

static void forget_run(const struct http_request *r, struct engine_space *space, struct slice id)
{
    const struct run *run;
    struct reply_body body;
    uint64_t removed;

    if (!http_may_change_daemon(r))
        return;
    run = rendezvous_find(space, id);
    if (run == NULL) {
        REPLY_MESSAGE(r, 404, HTTP_ETCD_NONE, slice_str("No such run: "), id);
        return;
    }
    removed = rendezvous_forget(run);
    reply_body_begin(&body);
    writer_str(&body.w, "{\"run\":");
    json_string(&body.w, id);
    number(&body.w, "removed", (int64_t)removed);
    writer_str(&body.w, "}\n");
    reply_body_send(r, &ok, &body);
}

void admin_runs_handle(const struct http_request *r, struct engine_space *space, struct slice name,
                       struct slice rest)
{
    bool reads = http_is_reading(r);

    if (space == NULL)
        REPLY_MESSAGE(r, 404, HTTP_ETCD_NONE, slice_str("No such space: "), name);
    else if (rest.len == 0 && reads)
        show_all(r, space);
    else if (rest.len == 0)
        reply_not_allowed(r, "GET,HEAD", HTTP_ETCD_NONE);
    else if (r->head->method == HTTP_DELETE)
        forget_run(r, space, slice_from(rest, 1));
    else if (reads)
        show_one(r, space, slice_from(rest, 1));
    else
        reply_not_allowed(r, "GET,HEAD,DELETE", HTTP_ETCD_NONE);
}
