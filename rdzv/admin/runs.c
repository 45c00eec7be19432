/* Torch's runs over HTTP. See runs_api.h.
 *
 *     GET /rdzv/v1/spaces/NAME/runs       {"runs":[{"id":…,"state":…,"round":…,"world":…,
 *                                         "last_call_ends":…,"workers":…,"address":…,"port":…,
 *                                         "agents":…,"held":…,
 *                                         "nodes":[{"addr":…,"pid":…,"local_id":…,"as":…,
 *                                         "rank":…,"heartbeat":…,"peer":…},…]},…]}
 *     GET /rdzv/v1/spaces/NAME/runs/R     one of them
 *     DELETE /rdzv/v1/spaces/NAME/runs/R  forgets a run and ends its agents' connections:
 *                                         {"run":R,"removed":N}, N being its keys
 *
 * A node without a peer has no connection: its agent is gone, or one that rdzvd has not heard
 * writing since it started.
 */
#include "rdzv/admin/runs.h"

#include <stdlib.h>

#include "proto/json.h"
#include "rdzv/net/conn.h"
#include "rdzv/rendezvous/elastic.h"

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
    json_time(w, us < INT64_MAX / 1000 ? us * 1000 : 0);
}

static void write_node(struct writer *w, const struct torch_state *state,
                       const struct torch_node *node, const struct conn *conn)
{
    char peer[CONN_PEER_MAX];

    writer_str(w, "{\"addr\":");
    json_string(w, node->addr);
    number(w, "pid", node->pid);
    number(w, "local_id", node->local_id);
    member(w, "as",
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

static void write_run(struct writer *w, struct server *s, const struct space *space,
                      const struct run *run)
{
    static const char *const workers[] = {[WORKER_STORE_UNKNOWN] = "undecided",
                                          [WORKER_STORE_WORKER0] = "own store",
                                          [WORKER_STORE_RDZVD] = "here"};
    const struct torch_state *state = &run->state;
    struct elastic_presence presence;

    elastic_presence(s, space, run, &presence);
    writer_str(w, "{\"id\":");
    json_string(w, run->id);
    member(w, "state",
           slice_str(!run->known       ? "empty"
                     : state->closed   ? "closed"
                     : state->complete ? "complete"
                                       : "joining"));
    number(w, "round", state->round);
    number(w, "world", (int64_t)torch_state_participants(state));
    if (state->has_deadline && !state->complete)
        write_time(w, "last_call_ends", state->deadline_us);
    member(w, "workers", slice_str(workers[run->workers]));
    if (run->workers == WORKER_STORE_RDZVD) {
        member(w, "address", blob_slice(run->place[RUN_ADDR]));
        member(w, "port", blob_slice(run->place[RUN_PORT]));
    }
    number(w, "agents", (int64_t)presence.agents);
    number(w, "held", (int64_t)presence.held);
    writer_str(w, ",\"nodes\":[");
    for (size_t i = 0; i < state->count; i++) {
        if (i > 0)
            writer_u8(w, ',');
        write_node(w, state, &state->nodes[i], presence.nodes == NULL ? NULL : presence.nodes[i]);
    }
    writer_str(w, "]}");
    free(presence.nodes);
}

static void write_runs(struct writer *w, struct server *s, const struct space *space,
                       const struct run *one)
{
    const struct run *run;

    if (one != NULL) {
        write_run(w, s, space, one);
        writer_u8(w, '\n');
        return;
    }
    writer_str(w, "{\"runs\":[");
    TAILQ_FOREACH(run, &server_space_of(s, space)->runs.list, order) {
        if (run != TAILQ_FIRST(&server_space_of(s, space)->runs.list))
            writer_u8(w, ',');
        write_run(w, s, space, run);
    }
    writer_str(w, "]}\n");
}

/* All runs of a space, or one. */
static void show(const struct http_request *r, const struct space *space, const struct run *one)
{
    struct writer w = {0};

    write_runs(&w, r->server, space, one);
    conn_spend(r->conn, w.len);
    w = (struct writer){.ptr = malloc(w.len), .cap = w.len};
    if (w.ptr != NULL)
        write_runs(&w, r->server, space, one);
    http_reply(r, &(struct http_answer){.status = w.ptr == NULL ? 500 : 200,
                                        .content_type = HTTP_JSON,
                                        .body = {w.ptr, w.ptr == NULL ? 0 : w.len}});
    free(w.ptr);
}

static void show_one(const struct http_request *r, const struct space *space, struct slice id)
{
    const struct run *run;

    TAILQ_FOREACH(run, &server_space_of(r->server, space)->runs.list, order) {
        if (slice_equal(run->id, id)) {
            show(r, space, run);
            return;
        }
    }
    HTTP_REPLY_MESSAGE(r, 404, HTTP_ETCD_NONE, slice_str("No such run: "), id);
}

static void forget_run(const struct http_request *r, struct space *space, struct slice id)
{
    struct writer w = {0};
    uint64_t removed;

    if (!runs_api_may_change(r))
        return;
    if (!elastic_forget(r->server, space, id, &removed)) {
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
        show(r, space, NULL);
    else if (rest.len == 0)
        http_reply_not_allowed(r, "GET,HEAD", HTTP_ETCD_NONE);
    else if (r->head->method == HTTP_DELETE)
        forget_run(r, space, slice_from(rest, 1));
    else if (reads)
        show_one(r, space, slice_from(rest, 1));
    else
        http_reply_not_allowed(r, "GET,HEAD,DELETE", HTTP_ETCD_NONE);
}
