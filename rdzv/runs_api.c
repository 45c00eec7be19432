/* Torch's runs over HTTP. See runs_api.h.
 *
 *     GET /rdzv/v1/spaces/NAME/runs       {"runs":[{"id":…,"state":…,"round":…,"world":…,
 *                                         "workers":…,"address":…,"port":…,"agents":…,
 *                                         "nodes":[{"addr":…,"pid":…,"local_id":…,"as":…,
 *                                         "rank":…,"heartbeat":…},…]},…]}
 *     DELETE /rdzv/v1/spaces/NAME/runs/R  forgets a run: {"run":R,"removed":N}, N being its keys
 */
#include "rdzv/runs_api.h"

#include <stdlib.h>

#include "proto/json.h"
#include "rdzv/conn.h"
#include "rdzv/elastic.h"

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

static void write_node(struct writer *w, const struct torch_node *node)
{
    writer_str(w, "{\"addr\":");
    json_string(w, node->addr);
    number(w, "pid", node->pid);
    number(w, "local_id", node->local_id);
    member(w, "as",
           slice_str(node->participant ? "participant"
                     : node->waiting   ? "waiting"
                     : node->redundant ? "spare"
                                       : "none"));
    if (node->participant)
        number(w, "rank", node->rank);
    if (node->has_heartbeat) {
        writer_str(w, ",\"heartbeat\":");
        json_time(w, node->heartbeat_us < INT64_MAX / 1000 ? node->heartbeat_us * 1000 : 0);
    }
    writer_u8(w, '}');
}

static void write_run(struct writer *w, struct server *s, const struct space *space,
                      const struct run *run)
{
    static const char *const workers[] = {
        [RUN_UNDECIDED] = "undecided", [RUN_OWN_STORE] = "own store", [RUN_HERE] = "here"};
    const struct torch_state *state = &run->state;

    writer_str(w, "{\"id\":");
    json_string(w, run->id);
    member(w, "state",
           slice_str(!run->known       ? "empty"
                     : state->closed   ? "closed"
                     : state->complete ? "complete"
                                       : "joining"));
    number(w, "round", state->round);
    number(w, "world", (int64_t)torch_state_participants(state));
    member(w, "workers", slice_str(workers[run->workers]));
    if (run->workers == RUN_HERE) {
        member(w, "address", blob_slice(run->place[RUN_ADDR]));
        member(w, "port", blob_slice(run->place[RUN_PORT]));
    }
    number(w, "agents", (int64_t)elastic_agents(s, space, run->node.key));
    writer_str(w, ",\"nodes\":[");
    for (size_t i = 0; i < state->count; i++) {
        if (i > 0)
            writer_u8(w, ',');
        write_node(w, &state->nodes[i]);
    }
    writer_str(w, "]}");
}

static void write_runs(struct writer *w, struct server *s, const struct space *space)
{
    const struct run *run;

    writer_str(w, "{\"runs\":[");
    TAILQ_FOREACH(run, &space->runs.list, order) {
        if (run != TAILQ_FIRST(&space->runs.list))
            writer_u8(w, ',');
        write_run(w, s, space, run);
    }
    writer_str(w, "]}\n");
}

static void list_runs(const struct http_request *r, const struct space *space)
{
    struct writer w = {0};

    write_runs(&w, r->server, space);
    conn_spend(r->conn, w.len);
    w = (struct writer){.ptr = malloc(w.len), .cap = w.len};
    if (w.ptr != NULL)
        write_runs(&w, r->server, space);
    http_reply(r, &(struct http_answer){.status = w.ptr == NULL ? 500 : 200,
                                        .content_type = HTTP_JSON,
                                        .body = {w.ptr, w.ptr == NULL ? 0 : w.len}});
    free(w.ptr);
}

static void forget_run(const struct http_request *r, struct space *space, struct slice id)
{
    struct writer w = {0};
    uint64_t removed;

    if (!runs_api_may_change(r))
        return;
    if (!elastic_forget(r->server, space, id, "asked to", &removed)) {
        HTTP_REPLY_MESSAGE(r, 404, HTTP_ETCD_NONE, slice_str("No such run: "), id);
        return;
    }
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1)
            w = (struct writer){.ptr = malloc(w.len), .cap = w.len};
        if (pass == 1 && w.ptr == NULL)
            w.cap = 0;
        writer_str(&w, "{\"run\":");
        json_string(&w, id);
        number(&w, "removed", (int64_t)removed);
        writer_str(&w, "}\n");
    }
    http_reply(r, &(struct http_answer){.status = 200,
                                        .content_type = HTTP_JSON,
                                        .body = {w.ptr, w.ptr == NULL ? 0 : w.len}});
    free(w.ptr);
}

bool runs_api_may_change(const struct http_request *r)
{
    if (!conn_peer_is_loopback(r->conn))
        http_reply_message(r, 403,
                           "This is only for the machine that rdzvd runs on: send this request "
                           "there, to 127.0.0.1 or [::1]",
                           HTTP_ETCD_NONE);
    else if (r->head->origin.len != 0)
        /* Any page that a browser on this machine shows could send it. */
        http_reply_message(r, 403, "This is not for a web page: send no Origin header",
                           HTTP_ETCD_NONE);
    else
        return true;
    return false;
}

void runs_api_handle(const struct http_request *r, struct space *space, struct slice name,
                     struct slice rest)
{
    bool reads = r->head->method == HTTP_GET || r->head->method == HTTP_HEAD;

    if (space == NULL)
        HTTP_REPLY_MESSAGE(r, 404, HTTP_ETCD_NONE, slice_str("No such space: "), name);
    else if (rest.len == 0 && reads)
        list_runs(r, space);
    else if (rest.len == 0)
        http_reply_not_allowed(r, "GET,HEAD", HTTP_ETCD_NONE);
    else if (r->head->method == HTTP_DELETE)
        forget_run(r, space, slice_from(rest, 1));
    else
        http_reply_not_allowed(r, "DELETE", HTTP_ETCD_NONE);
}
