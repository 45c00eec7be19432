/* Runs over `etcd-v2`, of all spaces. See etcd_runs.h for the contract. */
#include "rdzv/etcd_runs/etcd_runs.h"

#include <stdlib.h>

#include "rdzv/engine/log.h"
#include "store/memory/xalloc.h"

/* A tick takes no longer than so many nanoseconds, and one run. */
#define TICK_NS     2000000u
#define CLOSED_TTLS 12 /* by default a minute, of twelve heartbeats */

/* --- One run. --- */

static int64_t now_us(const struct etcd_runs *runs)
{
    return engine_wall_ns(runs->home->engine) / 1000;
}

/* Reads the value if it has changed. `by` as for etcd_run_update(). */
static void read_run(struct etcd_run *run, const char *by)
{
    const struct node *n = tree_peek(run->runs->tree, run->view.node.key);
    bool exists = n != NULL && n->value != NULL;
    struct slice value = exists ? blob_slice(n->value) : (struct slice){0};
    struct engine *engine = run->runs->home->engine;

    if (exists == run->view.exists && (!exists || n->modified == run->modified))
        return;
    engine->work += value.len;
    run->changed_ms = engine_now_ms(engine);
    if (etcd_run_update(run, value, by, now_us(run->runs)))
        run->modified = exists ? n->modified : 0;
}

static void free_run(struct etcd_run *run)
{
    run_views_remove(&run->runs->views, &run->view);
    etcd_run_fini(run);
    account_free(ACCOUNT_RUNS, run, sizeof *run + run->view.node.key.len);
}

/* NULL: memory is short. */
static struct etcd_run *find_or_add(struct etcd_runs *runs, struct slice path)
{
    struct run_view *found = run_views_find(&runs->views, path);
    struct etcd_run *run;

    if (found != NULL)
        return etcd_run_of(found);
    run = account_request(ACCOUNT_RUNS, ACCOUNT_ORDINARY, sizeof *run + path.len);
    if (run == NULL)
        return NULL;
    etcd_run_init(run, slice_copy(run + 1, path));
    run->runs = runs;
    run->history.stats = &runs->home->engine->stats;
    run_views_add(&runs->views, &run->view);
    return run;
}

/* --- For admin/. --- */

struct run_view *etcd_runs_next(const struct engine_space *space, const struct run_view *v)
{
    const struct etcd_runs *runs = space->etcd_runs;

    return v != NULL ? TAILQ_NEXT(v, order) : runs != NULL ? TAILQ_FIRST(&runs->views.list) : NULL;
}

void etcd_runs_unpin(struct run_view *v)
{
    v->pins--;
    if (v->pins == 0 && !v->exists)
        free_run(etcd_run_of(v));
}

static bool forget_run(struct engine *engine, struct engine_space *space, const struct run_view *v,
                       const char *reason)
{
    const struct command command = {.kind = COMMAND_TREE_DELETE,
                                    .key = v->node.key,
                                    .now_ns = engine_wall_ns(engine),
                                    .recursive = true};
    struct store_result result;

    log_event(LOG_INFO, "run_forgotten", log_str("space", space->store->name),
              log_bytes("run", v->id), log_bool("closed", v->state.closed), log_u64("keys", 1),
              log_str("reason", reason));
    engine_apply(engine, space, &command, &result);
    return result.status == STORE_OK;
}

bool etcd_runs_forget(struct engine *engine, struct engine_space *space, struct slice id)
{
    struct run_view *v = etcd_runs_next(space, NULL), directory = {.id = id};
    char path[1024];
    int len;

    while (v != NULL && !(v->exists && slice_equal(v->id, id)))
        v = TAILQ_NEXT(v, order);
    if (v == NULL) {
        len = snprintf(path, sizeof path, "/torchelastic/p2p/run_%.*s", (int)id.len,
                       (const char *)id.ptr);
        directory.node.key = (struct slice){(const uint8_t *)path, (size_t)len};
        if ((size_t)len >= sizeof path ||
            tree_peek(&space->store->tree, directory.node.key) == NULL)
            return false;
        v = &directory;
    }
    return forget_run(engine, space, v, "on request");
}

bool etcd_runs_facts(struct run_view *v, struct run_facts *out)
{
    struct etcd_run *run = etcd_run_of(v);
    const struct etcd_runs *runs = run->runs;

    read_run(run, NULL);
    etcd_run_facts(run, runs->home->settings->expected_nodes, now_us(runs), out);
    out->settings = runs->home->settings;
    return v->exists;
}

/* --- The runs of a space. --- */

static struct etcd_runs *runs_of(struct etcd_rendezvous *r, struct engine_space *space)
{
    struct etcd_runs *runs = space->etcd_runs;

    if (runs != NULL)
        return runs;
    runs = space->etcd_runs = xcalloc(1, sizeof *runs);
    *runs = (struct etcd_runs){.home = r, .tree = &space->store->tree};
    run_views_init(&runs->views, r->engine->options.seed);
    return runs;
}

static void on_applied(void *arg, struct engine_space *space, const struct command *command)
{
    struct etcd_rendezvous *r = arg;
    const struct conn *by = r->net->served;
    const struct node *n;
    struct etcd_run *run;

    if (command_part(command->kind) != PART_TREE || !etcd_run_is_key(command->key))
        return;
    n = tree_peek(&space->store->tree, command->key);
    run = find_or_add(runs_of(r, space), command->key);
    if (run == NULL || (n != NULL && n->value != NULL && n->value->len > ETCD_RUN_READ_AT_ONCE))
        return; /* the next tick reads a long value */
    read_run(run, by == NULL ? NULL : CONN_PEER(by));
    etcd_meeting_check(run);
}

static void find_all(struct etcd_runs *runs)
{
    const struct table *nodes = &runs->tree->nodes;
    const struct table_node *n;
    struct etcd_run *run;

    for (size_t i = 0; i < table_bucket_count(nodes); i++) {
        for (n = table_bucket(nodes, i); n != NULL; n = n->next) {
            run = etcd_run_is_key(n->key) ? find_or_add(runs, n->key) : NULL;
            if (run == NULL)
                continue;
            run->history.known_us = now_us(runs);
            read_run(run, NULL);
        }
    }
}

/* A connected agent writes its heartbeat, also when the run is closed. An agent that comes for a
 * closed run only reads that, and ends. */
static void forget_if_left(struct engine_space *space, struct etcd_run *run)
{
    const struct etcd_rendezvous *r = run->runs->home;
    uint64_t still_ms = clock_elapsed_ms(run->changed_ms, engine_now_ms(r->engine));

    if (run->view.exists && run->view.state.closed && engine_takes_changes(r->engine) &&
        still_ms / CLOSED_TTLS >= r->settings->closed_run_ttl_ms)
        forget_run(r->engine, space, &run->view,
                   "it is closed, and no agent has written for twelve times --closed-run-ttl");
}

static void set_next(struct etcd_runs *runs, struct run_view *next)
{
    struct etcd_run *before = runs->next;

    if (next != NULL)
        next->pins++;
    runs->next = next == NULL ? NULL : etcd_run_of(next);
    if (before != NULL)
        etcd_runs_unpin(&before->view);
}

/* Each run at most once, from where the last tick has stopped. */
static void tick(struct etcd_runs *runs, struct engine_space *space)
{
    const struct clock *clock = runs->home->engine->options.clock;
    uint64_t until = clock_monotonic_ns(clock) + TICK_NS;
    size_t count = runs->views.table.count;

    for (size_t i = 0; i < count; i++) {
        if (runs->next == NULL)
            set_next(runs, TAILQ_FIRST(&runs->views.list));
        if (runs->next == NULL || clock_monotonic_ns(clock) >= until)
            return;
        read_run(runs->next, NULL);
        etcd_meeting_check(runs->next);
        forget_if_left(space, runs->next);
        set_next(runs, TAILQ_NEXT(&runs->next->view, order));
    }
}

/* --- All spaces. --- */

/* The writer takes state and ranks from the answer: etcd_rendezvous_backend.py, set_state(). */
static void give_ranks(struct etcd_rendezvous *home, const struct etcd_run *run,
                       struct slice *value, uint64_t prev_index)
{
    const struct run_view *v = &run->view;
    struct torch_state next;
    size_t len;

    if (v->unread || !v->is_state || v->state.complete || prev_index != run->modified ||
        value->len > ETCD_RUN_READ_AT_ONCE || home->settings->rank_order == RANKS_TORCH)
        return;
    home->engine->work += value->len;
    if (torch_state_read(*value, &next) != TORCH_STATE_OK)
        return;
    free(home->text);
    home->text = NULL;
    if (next.complete)
        ranks_assign(home->settings, NULL, v->ranks, &next);
    if (next.complete && torch_state_write(&next, &home->text, &len))
        *value = (struct slice){home->text, len};
    torch_state_free(&next);
}

static bool holds_request(void *arg, const struct http_request *r, struct slice key,
                          struct slice *value, uint64_t prev_index)
{
    const struct etcd_runs *runs = etcd_run_is_key(key) ? r->space->etcd_runs : NULL;
    struct run_view *v = runs == NULL ? NULL : run_views_find(&runs->views, key);

    if (v == NULL)
        return false;
    if (etcd_meeting_holds(etcd_run_of(v), r, *value, prev_index))
        return true;
    if (value->ptr != NULL)
        give_ranks(arg, etcd_run_of(v), value, prev_index);
    return false;
}

void etcd_runs_init(struct etcd_rendezvous *r, const struct policy_settings *settings,
                    struct engine *engine, const struct net *net)
{
    *r = (struct etcd_rendezvous){.settings = settings, .engine = engine, .net = net};
    r->gate = (struct key_gate){.holds = holds_request, .arg = r};
    if (settings->fixes)
        engine->tree_observer = (struct engine_observer){.applied = on_applied, .arg = r};
}

void etcd_runs_fini(struct etcd_rendezvous *r)
{
    struct run_view *v;

    free(r->text);
    TAILQ_EACH(struct engine_space, space, &r->engine->spaces, entry) {
        struct etcd_runs *runs = space->etcd_runs;

        if (runs == NULL)
            continue;
        while ((v = TAILQ_FIRST(&runs->views.list)) != NULL)
            free_run(etcd_run_of(v));
        run_views_fini(&runs->views);
        free(runs);
        space->etcd_runs = NULL;
    }
}

const struct key_gate *etcd_runs_key_gate(const struct etcd_rendezvous *r)
{
    return r->settings->fixes ? &r->gate : NULL;
}

void etcd_runs_restore(struct etcd_rendezvous *r)
{
    if (!r->settings->fixes)
        return;
    TAILQ_EACH(struct engine_space, space, &r->engine->spaces, entry)
        find_all(runs_of(r, space));
}

void etcd_runs_tick(struct etcd_rendezvous *r)
{
    TAILQ_EACH(struct engine_space, space, &r->engine->spaces, entry) {
        if (space->etcd_runs != NULL)
            tick(space->etcd_runs, space);
    }
}
