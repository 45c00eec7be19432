/* Runs over etcd's API. See etcd_runs.h for the contract. */
#include "rdzv/etcd_runs/etcd_runs.h"

#include <stdlib.h>

#include "store/memory/xalloc.h"

/* A tick takes no longer than so many nanoseconds, and one run. */
#define TICK_NS 2000000u

/* Reading a byte of JSON takes as long as so many bytes of anything else. */
#define JSON_WEIGHT 32u

static void free_run(struct etcd_runs *runs, struct etcd_run *run)
{
    run_views_remove(&runs->views, &run->view);
    etcd_run_fini(run);
    account_free(ACCOUNT_RUNS, run, sizeof *run + run->view.node.key.len);
}

/* True when a key may be that of a run. It is asked of each change of a tree: two bytes tell of
 * most. */
static bool concerns_run(struct slice path)
{
    static const char v2[] = "/torch/elastic/rendezvous/", old[] = "/rdzv/active_version";
    const size_t front = sizeof v2 - 1, end = sizeof old - 1;

    if (path.len <= end)
        return false;
    return (path.ptr[path.len - 1] == 'n' && memcmp(path.ptr + path.len - end, old, end) == 0) ||
           (path.ptr[1] == 't' && path.len > front && memcmp(path.ptr, v2, front) == 0);
}

/* --- One run. --- */

static int64_t now_us(const struct etcd_runs *runs)
{
    return engine_wall_ns(runs->home->engine) / 1000;
}

/* Torch's older backend deletes its key, and makes it anew, between two versions: the run is there
 * while its directory is. */
static bool has_ended(const struct etcd_runs *runs, const struct etcd_run *run)
{
    return !run->view.exists &&
           (run->backend == BACKEND_ETCD_V2 || tree_peek(runs->tree, run->root) == NULL);
}

/* Keep-alive keys expire when an agent does not refresh them. */
static void check_keep_alives(struct etcd_runs *runs, struct etcd_run *run)
{
    const struct tree *t = runs->tree;
    size_t room = run->root.len + ETCD_RUN_ROOM;
    char *path;

    if (run->expired == t->expired)
        return;
    path = account_request(ACCOUNT_RUNS, ACCOUNT_ORDINARY, room);
    if (path == NULL)
        return; /* the next look tries again */
    for (size_t i = 0; i < run->view.state.count; i++) {
        size_t len = etcd_run_keep_alive(run, i, path);
        bool gone = tree_peek(t, (struct slice){(const uint8_t *)path, len}) == NULL;

        etcd_run_mark(run, i, gone, now_us(runs));
    }
    account_free(ACCOUNT_RUNS, path, room);
    run->expired = t->expired;
}

static void read_run(struct etcd_runs *runs, struct etcd_run *run, const struct etcd_writer *by)
{
    const struct node *n = tree_peek(runs->tree, run->view.node.key);
    bool exists = n != NULL && n->value != NULL;
    struct slice value = exists ? blob_slice(n->value) : (struct slice){0};

    if (run->is_confirmed)
        check_keep_alives(runs, run); /* first: whose key has expired may be why it was changed */
    if (exists != run->view.exists || (exists && n->modified != run->modified)) {
        runs->home->engine->work += value.len * (run->backend == BACKEND_ETCD ? JSON_WEIGHT : 1);
        if (!etcd_run_update(run, value, exists && n->expiry.at_ns != 0, by, now_us(runs)))
            return;
        run->modified = exists ? n->modified : 0;
        history_count(&run->history, &runs->home->engine->stats);
    }
}

void etcd_runs_pin(struct etcd_run *run)
{
    if (run != NULL)
        run->pins++;
}

static void unpin(struct etcd_runs *runs, struct etcd_run *run)
{
    if (run != NULL && --run->pins == 0 && has_ended(runs, run))
        free_run(runs, run);
}

/* --- All of them. --- */

/* NULL: the key is not a run's, or memory is short. */
static struct etcd_run *find_or_add(struct etcd_runs *runs, struct slice path)
{
    struct etcd_run *run = etcd_run_of(run_views_find(&runs->views, path));
    enum run_backend backend;
    struct slice id, root;
    uint8_t *name;

    if (run != NULL || !etcd_run_parse(path, &backend, &id, &root))
        return run;
    run = account_request(ACCOUNT_RUNS, ACCOUNT_ORDINARY, sizeof *run + path.len);
    if (run == NULL)
        return NULL;
    name = (uint8_t *)(run + 1);
    memcpy(name, path.ptr, path.len);
    etcd_run_init(run, (struct slice){name, path.len});
    run_views_add(&runs->views, &run->view);
    return run;
}

/* Who sends the request that is carried out just now. */
static const struct etcd_writer *writer(const struct etcd_runs *runs, struct etcd_writer *out,
                                        char host[PEER_HOST_MAX], char peer[CONN_PEER_MAX])
{
    const struct conn *c = runs->home->net->served;

    if (c == NULL)
        return NULL;
    out->host = peer_host(&c->peer, host);
    out->peer = conn_peer(c, peer);
    return out;
}

static void read_changed(struct etcd_runs *runs, struct slice path)
{
    const struct node *n = tree_peek(runs->tree, path);
    bool exists = n != NULL && n->value != NULL;
    char host[PEER_HOST_MAX], peer[CONN_PEER_MAX];
    struct etcd_run *run;
    struct etcd_writer by;

    run = exists ? find_or_add(runs, path) : etcd_run_of(run_views_find(&runs->views, path));
    if (run == NULL || (exists && n->value->len > ETCD_RUN_READ_AT_ONCE))
        return; /* the next tick reads a long value */
    read_run(runs, run, writer(runs, &by, host, peer));
    etcd_meeting_check(run, engine_now_ms(runs->home->engine));
}

static void read_all(struct etcd_runs *runs)
{
    struct etcd_run *run = etcd_run_of(TAILQ_FIRST(&runs->views.list)), *next;

    for (; run != NULL; run = next) {
        next = etcd_run_next(run);
        etcd_runs_pin(run);
        read_run(runs, run, NULL);
        unpin(runs, run);
    }
}

static void find_all(struct etcd_runs *runs)
{
    const struct table *nodes = &runs->tree->nodes;
    const struct table_node *n;
    struct etcd_run *run;

    for (size_t i = 0; i < table_bucket_count(nodes); i++) {
        for (n = table_bucket(nodes, i); n != NULL; n = n->next) {
            run = concerns_run(n->key) ? find_or_add(runs, n->key) : NULL;
            if (run == NULL)
                continue;
            run->history.known_us = now_us(runs);
            read_run(runs, run, NULL);
        }
    }
}

static void set_next(struct etcd_runs *runs, struct etcd_run *next)
{
    struct etcd_run *before = runs->next;

    etcd_runs_pin(next);
    runs->next = next;
    unpin(runs, before);
}

/* Each run at most once, from where the last tick has stopped. */
static void tick(struct etcd_runs *runs)
{
    const struct clock *clock = runs->home->engine->options.clock;
    uint64_t until = clock_monotonic_ns(clock) + TICK_NS;
    size_t count = runs->views.table.count;

    for (size_t i = 0; i < count; i++) {
        struct etcd_run *run = runs->next;

        if (run == NULL)
            run = etcd_run_of(TAILQ_FIRST(&runs->views.list));
        if (run == NULL || clock_monotonic_ns(clock) >= until)
            return;
        etcd_runs_pin(run);
        read_run(runs, run, NULL);
        etcd_meeting_check(run, engine_now_ms(runs->home->engine));
        set_next(runs, etcd_run_next(run));
        unpin(runs, run);
    }
}

/* --- All spaces. --- */

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
    if (command->kind == COMMAND_SPACE_RESET && space->etcd_runs != NULL)
        read_all(space->etcd_runs);
    else if (command_part(command->kind) == PART_TREE && concerns_run(command->key))
        read_changed(runs_of(arg, space), command->key);
}

static bool holds_request(void *arg, const struct http_request *r, struct slice key,
                          struct slice value, uint64_t prev_index)
{
    struct etcd_run *run =
        concerns_run(key) ? etcd_run_of(run_views_find(&runs_of(arg, r->space)->views, key)) : NULL;

    return run != NULL && etcd_meeting_holds(run, r, value, prev_index);
}

void etcd_runs_init(struct etcd_rendezvous *r, const struct config *config, struct engine *engine,
                    const struct net *net)
{
    *r = (struct etcd_rendezvous){.config = config, .engine = engine, .net = net};
    r->gate = (struct key_gate){.holds = holds_request, .arg = r};
    if (config->elastic.fixes)
        engine->tree_observer = (struct engine_observer){.applied = on_applied, .arg = r};
}

void etcd_runs_fini(struct etcd_rendezvous *r)
{
    struct engine_space *space;
    struct run_view *v;

    TAILQ_FOREACH(space, &r->engine->spaces, entry) {
        struct etcd_runs *runs = space->etcd_runs;

        if (runs == NULL)
            continue;
        while ((v = TAILQ_FIRST(&runs->views.list)) != NULL)
            free_run(runs, etcd_run_of(v));
        run_views_fini(&runs->views);
        free(runs);
        space->etcd_runs = NULL;
    }
}

const struct key_gate *etcd_runs_key_gate(const struct etcd_rendezvous *r)
{
    return r->config->elastic.fixes ? &r->gate : NULL;
}

void etcd_runs_restore(struct etcd_rendezvous *r)
{
    struct engine_space *space;

    if (!r->config->elastic.fixes)
        return;
    TAILQ_FOREACH(space, &r->engine->spaces, entry)
        find_all(runs_of(r, space));
}

void etcd_runs_tick(struct etcd_rendezvous *r)
{
    struct engine_space *space;

    TAILQ_FOREACH(space, &r->engine->spaces, entry) {
        if (space->etcd_runs != NULL)
            tick(space->etcd_runs);
    }
}

/* --- For admin/. --- */

struct etcd_run *etcd_runs_first(const struct engine_space *space)
{
    const struct etcd_runs *runs = space->etcd_runs;

    return runs == NULL ? NULL : etcd_run_of(TAILQ_FIRST(&runs->views.list));
}

void etcd_runs_unpin(const struct engine_space *space, struct etcd_run *run)
{
    if (run != NULL)
        unpin(space->etcd_runs, run);
}

void etcd_runs_facts(const struct engine_space *space, struct etcd_run *run, struct run_facts *out)
{
    struct etcd_runs *runs = space->etcd_runs;

    read_run(runs, run, NULL);
    etcd_run_facts(run, runs->home->config->elastic.expected_nodes, now_us(runs), out);
}
