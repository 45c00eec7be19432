/* Torch's runs over HTTP. See handlers.h for the contract. Their text is written in slices: a job
 * of 10,000 nodes takes longer than one may take of an iteration. The text shows each run at the
 * time when its slice began, and its connections at the time of writing. */
#include "rdzv/admin/handlers.h"
#include "rdzv/admin/json_member.h"
#include "rdzv/http/access.h"
#include "rdzv/http/reply.h"
#include "rdzv/http/session.h"
#include "rdzv/rendezvous/explain.h"
#include "rdzv/rendezvous/rendezvous.h"

enum runs_phase { RUNS_RUN, RUNS_NODES, RUNS_MISSING, RUNS_WRITTEN };

struct runs_job {
    struct http_job job; /* the first member */
    bool is_single;      /* one run alone, without the list around it */
    enum runs_phase phase;
    const struct run *run;                    /* the one that is written; pinned. NULL: none */
    struct torch_state state, last_completed; /* copies of its own */
    bool has_completed;
    size_t next; /* of the nodes of one of them */
    bool no_memory;
    struct reply_body body;
};

/* --- One node. --- */

static void write_run_node(struct writer *w, const struct torch_state *state,
                           const struct torch_node *node, const struct conn *conn)
{
    char peer[CONN_PEER_MAX];

    json_open(w, '{');
    json_member(w, "addr", node->addr);
    json_member_i64(w, "pid", node->pid);
    json_member_i64(w, "local_id", node->local_id);
    json_member_str(w, "role", node_role_text(node));
    if (node->participant && state->complete)
        json_member_i64(w, "rank", node->rank);
    if (node->has_heartbeat)
        json_member_time(w, "heartbeat", node->heartbeat_us);
    if (conn != NULL)
        json_member_str(w, "peer", conn_peer(conn, peer));
    writer_u8(w, '}');
}

/* --- One run. --- */

static void write_run_store(struct writer *w, const struct view_record *record)
{
    static const char *const stores[] = {[WORKER_STORE_UNKNOWN] = "unknown",
                                         [WORKER_STORE_WORKER0] = "worker0",
                                         [WORKER_STORE_RDZVD] = "rdzvd"};
    char port[8];

    json_member_str(w, "worker_store", stores[record->placement]);
    if (record->placement != WORKER_STORE_RDZVD)
        return;
    snprintf(port, sizeof port, "%u", record->port);
    json_member(w, "address", record->address);
    json_member_str(w, "port", port);
}

/* All but its nodes. */
static void write_run_head(struct writer *w, const struct run *run)
{
    const struct torch_state *state = &run->view.state;

    json_open(w, '{');
    json_member(w, "id", run->view.id);
    json_member_str(w, "state",
                    !run->view.is_state ? "empty"
                    : run->failed       ? "failed"
                    : state->closed     ? "closed"
                    : state->complete   ? "complete"
                                        : "joining");
    json_member_i64(w, "round", state->round);
    json_member_i64(w, "nodes_joined", (int64_t)torch_state_participants(state));
    if (state->has_deadline && !state->complete)
        json_member_time(w, "last_call_ends", state->deadline_us);
    write_run_store(w, &run->view.record);
    json_member_i64(w, "agents", (int64_t)run->agent_count);
    json_member_i64(w, "agents_waiting", (int64_t)run->waiting_count);
}

static void drop_nodes(struct runs_job *t)
{
    torch_state_free(&t->state);
    torch_state_free(&t->last_completed);
    t->has_completed = false;
}

/* The nodes as they are now: they change while they are written. False: memory is short. */
static bool copy_nodes(struct runs_job *t)
{
    const struct run_view *view = &t->run->view;

    if (!torch_state_copy(&view->state, &t->state))
        return false;
    t->has_completed =
        view->has_completed && torch_state_copy(&view->last_completed, &t->last_completed);
    return t->has_completed == view->has_completed;
}

static void begin_nodes(struct runs_job *t, const char *name, enum runs_phase phase)
{
    json_list(&t->body.w, name);
    t->phase = phase;
    t->next = 0;
}

static void runs_job_point_at(struct runs_job *t, const struct run *run)
{
    rendezvous_pin(run);
    rendezvous_unpin(t->run);
    t->run = run;
}

static void write_next_run(struct runs_job *t)
{
    if (t->run == NULL) {
        writer_str(&t->body.w, t->is_single ? "\n" : "]}\n");
        t->phase = RUNS_WRITTEN;
    } else if (!t->run->view.exists) {
        /* The run has ended since the slice before. */
        runs_job_point_at(t, rendezvous_next(t->run));
    } else if (!copy_nodes(t)) {
        t->no_memory = true;
        t->phase = RUNS_WRITTEN;
    } else {
        write_run_head(&t->body.w, t->run);
        begin_nodes(t, "nodes", RUNS_NODES);
    }
}

static void write_next_node(struct runs_job *t)
{
    const struct torch_node *node;

    if (t->next == t->state.count) {
        writer_u8(&t->body.w, ']');
        begin_nodes(t, "missing", RUNS_MISSING);
        return;
    }
    node = &t->state.nodes[t->next++];
    if (loss_is_mark(node))
        return;
    write_run_node(&t->body.w, &t->state, node, rendezvous_conn_of(t->run, node));
}

static void end_run(struct runs_job *t)
{
    writer_str(&t->body.w, "]}");
    drop_nodes(t);
    runs_job_point_at(t, t->is_single ? NULL : rendezvous_next(t->run));
    t->phase = RUNS_RUN;
}

/* Nodes of the last completed round that are in no list and have no connection. */
static void write_next_missing(struct runs_job *t)
{
    const struct torch_node *node;

    if (!t->has_completed || t->next == t->last_completed.count) {
        end_run(t);
        return;
    }
    node = &t->last_completed.nodes[t->next++];
    if (!node->participant || run_agent_of(t->run, node) != NULL ||
        node_role(torch_state_find(&t->state, node)) != NULL)
        return;
    write_run_node(&t->body.w, &t->last_completed, node, NULL);
}

/* --- Slices. --- */

static void write_next(struct runs_job *t)
{
    switch (t->phase) {
    case RUNS_RUN:
        write_next_run(t);
        break;
    case RUNS_NODES:
        write_next_node(t);
        break;
    case RUNS_MISSING:
        write_next_missing(t);
        break;
    case RUNS_WRITTEN:
        break;
    }
}

/* True: t->body is complete, or memory was short. */
static bool write_slice(struct runs_job *t, const struct clock *clock)
{
    uint64_t until = clock_monotonic_ns(clock) + HTTP_SLICE_NS;

    while (t->phase != RUNS_WRITTEN) {
        write_next(t);
        if (clock_monotonic_ns(clock) >= until)
            break;
    }
    return t->phase == RUNS_WRITTEN;
}

/* --- Requests. --- */

static const struct reply ok = {.status = 200, .content_type = HTTP_JSON};

static void runs_job_free(struct http_job *job)
{
    struct runs_job *j = (struct runs_job *)(void *)job;

    drop_nodes(j);
    runs_job_point_at(j, NULL);
    reply_body_drop(&j->body);
    account_free(ACCOUNT_ANSWERS, j, sizeof *j);
}

static enum http_job_state runs_job_run(struct http_job *job, const struct http_request *r)
{
    struct runs_job *j = (struct runs_job *)(void *)job;

    if (!write_slice(j, http_engine(r)->options.clock))
        return HTTP_JOB_GOES_ON;
    if (j->no_memory)
        reply_no_memory(r);
    else
        reply_body_send(r, &ok, &j->body);
    return HTTP_JOB_DONE;
}

/* `run` NULL: all runs of the space. */
static void runs_job_begin(struct runs_job *t, const struct engine_space *space,
                           const struct run *run)
{
    *t = (struct runs_job){.job = {.run = runs_job_run, .free = runs_job_free, .no_use = true},
                           .is_single = run != NULL};
    reply_body_begin(&t->body);
    runs_job_point_at(t, run != NULL ? run : rendezvous_first(space));
    if (run == NULL)
        writer_str(&t->body.w, "{\"runs\":[");
}

/* `run` NULL: all of them. */
static void reply_runs(const struct http_request *r, const struct engine_space *space,
                       const struct run *run)
{
    struct runs_job *j = account_request(ACCOUNT_ANSWERS, ACCOUNT_SMALL, sizeof *j);

    if (j == NULL) {
        reply_no_memory(r);
        return;
    }
    runs_job_begin(j, space, run);
    if (runs_job_run(&j->job, r) == HTTP_JOB_GOES_ON)
        http_start_job(r, &j->job, HTTP_JOB_GOES_ON);
    else
        runs_job_free(&j->job);
}

static void reply_run(const struct http_request *r, const struct engine_space *space,
                      struct slice id)
{
    const struct run *run = rendezvous_find(space, id);

    if (run == NULL)
        REPLY_MESSAGE(r, 404, HTTP_ETCD_NONE, slice_str("No such run: "), id);
    else
        reply_runs(r, space, run);
}

static void reply_forget(const struct http_request *r, struct engine_space *space, struct slice id)
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
    json_open(&body.w, '{');
    json_member(&body.w, "run", id);
    json_member_u64(&body.w, "removed", removed);
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
        reply_runs(r, space, NULL);
    else if (rest.len == 0)
        reply_not_allowed(r, "GET,HEAD", HTTP_ETCD_NONE);
    else if (r->head->method == HTTP_DELETE)
        reply_forget(r, space, slice_from(rest, 1));
    else if (reads)
        reply_run(r, space, slice_from(rest, 1));
    else
        reply_not_allowed(r, "GET,HEAD,DELETE", HTTP_ETCD_NONE);
}
