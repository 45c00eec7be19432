/* The text of runs in slices. See runs_text.h for the contract. */
#include "rdzv/admin/runs_text.h"

#include <stdio.h>

#include "proto/json.h"
#include "rdzv/net/conn.h"
#include "rdzv/rendezvous/explain.h"

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

/* --- One run. --- */

static void write_placement(struct writer *w, const struct view_record *record)
{
    static const char *const stores[] = {[WORKER_STORE_UNKNOWN] = "unknown",
                                         [WORKER_STORE_WORKER0] = "worker0",
                                         [WORKER_STORE_RDZVD] = "rdzvd"};
    char port[8];

    member(w, "worker_store", slice_str(stores[record->placement]));
    if (record->placement != WORKER_STORE_RDZVD)
        return;
    snprintf(port, sizeof port, "%u", record->port);
    member(w, "address", record->address);
    member(w, "port", slice_str(port));
}

/* All but its nodes. */
static void write_run(struct writer *w, const struct run *run)
{
    const struct torch_state *state = &run->view.state;

    writer_str(w, "{\"id\":");
    json_string(w, run->view.id);
    member(w, "state",
           slice_str(!run->view.is_state ? "empty"
                     : run->failed       ? "failed"
                     : state->closed     ? "closed"
                     : state->complete   ? "complete"
                                         : "joining"));
    number(w, "round", state->round);
    number(w, "nodes_joined", (int64_t)torch_state_participants(state));
    if (state->has_deadline && !state->complete)
        write_time(w, "last_call_ends", state->deadline_us);
    write_placement(w, &run->view.record);
    number(w, "agents", (int64_t)run->agent_count);
    number(w, "agents_waiting", (int64_t)run->waiting_count);
}

static void drop_copies(struct runs_text *t)
{
    torch_state_free(&t->state);
    torch_state_free(&t->last_completed);
    t->has_completed = false;
}

/* The nodes as they are now: they change while they are written. False: memory is short. */
static bool copy_nodes(struct runs_text *t)
{
    const struct run_view *view = &t->run->view;

    if (!torch_state_copy(&view->state, &t->state))
        return false;
    t->has_completed =
        view->has_completed && torch_state_copy(&view->last_completed, &t->last_completed);
    return t->has_completed == view->has_completed;
}

static void separate(struct runs_text *t)
{
    if (t->any)
        writer_u8(&t->body.w, ',');
    t->any = true;
}

static void begin_list(struct runs_text *t, const char *name, enum runs_phase phase)
{
    writer_str(&t->body.w, name);
    t->phase = phase;
    t->next = 0;
    t->any = false;
}

static void point_at(struct runs_text *t, const struct run *run)
{
    rendezvous_pin(run);
    rendezvous_unpin(t->run);
    t->run = run;
}

static void write_next_run(struct runs_text *t)
{
    if (t->run == NULL) {
        writer_str(&t->body.w, t->is_single ? "\n" : "]}\n");
        t->phase = RUNS_WRITTEN;
    } else if (!t->run->view.exists) {
        point_at(t, rendezvous_next(t->run)); /* it has ended since it was the next one */
    } else if (!copy_nodes(t)) {
        t->no_memory = true;
        t->phase = RUNS_WRITTEN;
    } else {
        separate(t);
        write_run(&t->body.w, t->run);
        begin_list(t, ",\"nodes\":[", RUNS_NODES);
    }
}

static void write_next_node(struct runs_text *t)
{
    const struct torch_node *node;

    if (t->next == t->state.count) {
        begin_list(t, "],\"missing\":[", RUNS_MISSING);
        return;
    }
    node = &t->state.nodes[t->next++];
    if (loss_is_mark(node))
        return;
    separate(t);
    write_node(&t->body.w, &t->state, node, rendezvous_conn_of(t->run, node));
}

static void end_run(struct runs_text *t)
{
    writer_str(&t->body.w, "]}");
    drop_copies(t);
    point_at(t, t->is_single ? NULL : rendezvous_next(t->run));
    t->any = true;
    t->phase = RUNS_RUN;
}

/* Nodes of the last completed round that are in no list any more, and not connected. */
static void write_next_missing(struct runs_text *t)
{
    const struct torch_node *node;

    if (!t->has_completed || t->next == t->last_completed.count) {
        end_run(t);
        return;
    }
    node = &t->last_completed.nodes[t->next++];
    if (!node->participant || run_agent_of(t->run, node) != NULL ||
        explain_role(torch_state_find(&t->state, node)) != NULL)
        return;
    separate(t);
    write_node(&t->body.w, &t->last_completed, node, NULL);
}

/* --- Slices. --- */

static void begin(struct runs_text *t, const struct run *first, bool is_single)
{
    *t = (struct runs_text){.is_single = is_single};
    reply_body_begin(&t->body);
    point_at(t, first);
}

void runs_text_begin(struct runs_text *t, const struct engine_space *space)
{
    begin(t, rendezvous_first(space), false);
    writer_str(&t->body.w, "{\"runs\":[");
}

void runs_text_begin_one(struct runs_text *t, const struct run *run)
{
    begin(t, run, true);
}

static void do_next(struct runs_text *t)
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

bool runs_text_go_on(struct runs_text *t, const struct clock *clock, uint64_t ns)
{
    uint64_t until = clock_monotonic_ns(clock) + ns;

    while (t->phase != RUNS_WRITTEN) {
        do_next(t);
        if (clock_monotonic_ns(clock) >= until)
            break;
    }
    return t->phase == RUNS_WRITTEN;
}

void runs_text_end(struct runs_text *t)
{
    drop_copies(t);
    point_at(t, NULL);
    t->phase = RUNS_WRITTEN;
}
