/* The text of /rdzv/v1/status in slices. See status.h for the contract. */
#include "proto/json.h"
#include "rdzv/admin/handlers.h"
#include "rdzv/admin/status.h"

/* Limits of runs and nodes in a stream, since its text goes to many clients again and again. */
#define STREAMED_RUNS  500
#define STREAMED_NODES 1024
#define STREAMED_ENDED 20 /* of each space */

static const struct engine *engine_of(const struct status_text *t)
{
    return t->scope.net->engine;
}

/* --- Spaces. --- */

void status_write_counters(struct writer *w, const struct engine_space *space)
{
    const struct space_usage use = space_usage(space->store);

    json_member_u64(w, "keys", use.keys);
    json_member_u64(w, "bytes", use.bytes);
    json_member_u64(w, "queues", use.queues);
    json_member_u64(w, "etcd_nodes", space->store->tree.count - 1);
    json_member_u64(w, "c10d_clients", space->c10d_sessions);
    json_member_u64(w, "waiters", use.waiters);
}

static void write_space_head(struct status_text *t)
{
    const struct engine_space *space = t->walk.space;
    struct writer *w = &t->body.w;

    if (!t->scope.is_single)
        json_open(w, '{');
    json_member_str(w, "name", space->store->name);
    if (!t->scope.form.streamed)
        status_write_counters(w, space);
    json_list(w, "runs");
    t->runs_left_out = 0;
}

static void write_space_end(struct status_text *t)
{
    struct writer *w = &t->body.w;

    writer_u8(w, ']');
    if (t->runs_left_out > 0)
        json_member_u64(w, "runs_left_out", t->runs_left_out);
    status_ended_write(w, t->walk.space, engine_wall_ns(engine_of(t)) / 1000,
                       t->scope.form.streamed ? STREAMED_ENDED : SIZE_MAX);
    operator_orders_write(w, t->walk.space);
    status_waits_write_space(w, t->walk.space, t->scope.net);
    writer_u8(w, '}');
    if (!t->scope.is_single && (t->walk.only != NULL || TAILQ_NEXT(t->walk.space, entry) == NULL))
        writer_str(w, "]}"); /* that was the last space */
}

/* --- Runs. --- */

static void write_worker_store(struct writer *w, const struct view_record *record)
{
    static const char *const stores[] = {[WORKER_STORE_UNKNOWN] = "unknown",
                                         [WORKER_STORE_WORKER0] = "worker0",
                                         [WORKER_STORE_RDZVD] = "rdzvd"};

    json_member_str(w, "worker_store", stores[record->placement]);
    if (record->placement != WORKER_STORE_RDZVD)
        return;
    json_member(w, "address", record->address);
    json_member_u64(w, "port", record->port);
}

/* False: the text has reached its limit of runs, and only counts this one. */
static bool takes_run(struct status_text *t)
{
    if (t->runs_left == 0)
        t->runs_left_out++;
    else
        t->runs_left--;
    return t->runs_left_out == 0;
}

static void write_run(struct status_text *t)
{
    struct status_form form = t->scope.form;
    struct writer *w = &t->body.w;
    struct run_facts facts;

    if (!run_walk_facts(&t->walk, &facts) || !takes_run(t))
        return;
    form.has_twins = true;
    form.nodes = t->nodes_left < STATUS_NODES_LISTED ? t->nodes_left : STATUS_NODES_LISTED;
    t->nodes_left -= (size_t)status_run_write(w, &facts, &form);
    if (facts.run != NULL) {
        write_worker_store(w, &facts.view->record);
        status_waits_write_run(w, t->walk.space, engine_of(t), facts.run);
    }
    writer_u8(w, '}');
}

/* --- The whole. --- */

static void write_place(void *arg)
{
    struct status_text *t = arg;

    switch (t->walk.at) {
    case WALK_SPACE:
        write_space_head(t);
        break;
    case WALK_RUN:
        write_run(t);
        break;
    case WALK_SPACE_END:
        write_space_end(t);
        break;
    case WALK_DONE:
        break;
    }
}

void status_text_begin(struct status_text *t, const struct status_scope *scope)
{
    struct writer *w = &t->body.w;

    *t = (struct status_text){.scope = *scope};
    run_walk_begin(&t->walk, engine_of(t), scope->space, write_place, t);
    reply_body_begin(&t->body);
    json_open(w, '{');
    json_member_time(w, "now", engine_wall_ns(engine_of(t)) / 1000);
    t->head_len = w->len;
    t->nodes_left = scope->form.streamed ? STREAMED_NODES : SIZE_MAX;
    t->runs_left = scope->form.streamed ? STREAMED_RUNS : SIZE_MAX;
    if (scope->is_single)
        return;
    json_member_str(w, "version", RDZV_VERSION);
    json_member_str(w, "role", "store");
    json_member_time(w, "started", engine_of(t)->started_ns / 1000);
    writer_str(w, scope->space == NULL ? ",\"all_spaces\":true" : ",\"all_spaces\":false");
    writer_str(w, health_is_store_ready(scope->net, NULL) ? ",\"ready\":true" : ",\"ready\":false");
    json_list(w, "spaces");
}
