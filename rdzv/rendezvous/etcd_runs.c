/* Runs over etcd's API. See etcd_runs.h for the contract. */
#include "rdzv/rendezvous/etcd_runs.h"

/* A tick takes no longer than so many nanoseconds, and one run. */
#define TICK_NS 2000000u

/* Reading a byte of JSON takes as long as so many bytes of anything else. */
#define JSON_WEIGHT 32u

void etcd_runs_init(struct etcd_runs *runs, struct engine *engine, struct tree *tree,
                    const struct net *net)
{
    *runs = (struct etcd_runs){.engine = engine, .tree = tree, .net = net};
    run_views_init(&runs->views, engine->options.seed);
}

static void free_run(struct etcd_runs *runs, struct etcd_run *run)
{
    run_views_remove(&runs->views, &run->view);
    etcd_run_fini(run);
    account_free(ACCOUNT_RUNS, run, sizeof *run + run->view.node.key.len);
}

void etcd_runs_fini(struct etcd_runs *runs)
{
    struct run_view *v;

    while ((v = TAILQ_FIRST(&runs->views.list)) != NULL)
        free_run(runs, etcd_run_of(v));
    run_views_fini(&runs->views);
}

/* --- One run. --- */

static int64_t now_us(const struct etcd_runs *runs)
{
    return engine_wall_ns(runs->engine) / 1000;
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
        runs->engine->work += value.len * (run->backend == BACKEND_ETCD ? JSON_WEIGHT : 1);
        if (!etcd_run_update(run, value, exists && n->expiry.at_ns != 0, by, now_us(runs)))
            return;
        run->modified = exists ? n->modified : 0;
        history_count(&run->history, &runs->engine->stats);
    }
}

void etcd_runs_look(struct etcd_runs *runs, struct etcd_run *run)
{
    read_run(runs, run, NULL);
}

void etcd_runs_pin(struct etcd_run *run)
{
    if (run != NULL)
        run->pins++;
}

void etcd_runs_unpin(struct etcd_runs *runs, struct etcd_run *run)
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
    const struct conn *c = runs->net->served;

    if (c == NULL)
        return NULL;
    out->host = peer_host(&c->peer, host);
    out->peer = conn_peer(c, peer);
    return out;
}

void etcd_runs_changed(struct etcd_runs *runs, struct slice path)
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
    etcd_meeting_check(run, engine_now_ms(runs->engine));
}

bool etcd_runs_hold(struct etcd_runs *runs, const struct http_request *r, struct slice path,
                    struct slice value, uint64_t prev_index)
{
    struct etcd_run *run = etcd_run_of(run_views_find(&runs->views, path));

    return run != NULL && etcd_meeting_holds(run, r, value, prev_index);
}

void etcd_runs_reset(struct etcd_runs *runs)
{
    struct etcd_run *run = etcd_run_of(TAILQ_FIRST(&runs->views.list)), *next;

    for (; run != NULL; run = next) {
        next = etcd_run_next(run);
        etcd_runs_pin(run);
        etcd_runs_look(runs, run);
        etcd_runs_unpin(runs, run);
    }
}

void etcd_runs_restore(struct etcd_runs *runs)
{
    const struct table *nodes = &runs->tree->nodes;
    const struct table_node *n;
    struct etcd_run *run;

    for (size_t i = 0; i < table_bucket_count(nodes); i++) {
        for (n = table_bucket(nodes, i); n != NULL; n = n->next) {
            run = etcd_runs_concerns(n->key) ? find_or_add(runs, n->key) : NULL;
            if (run == NULL)
                continue;
            run->history.known_us = now_us(runs);
            etcd_runs_look(runs, run);
        }
    }
}

static void set_next(struct etcd_runs *runs, struct etcd_run *next)
{
    struct etcd_run *before = runs->next;

    etcd_runs_pin(next);
    runs->next = next;
    etcd_runs_unpin(runs, before);
}

/* Each run at most once, from where the last tick has stopped. */
void etcd_runs_tick(struct etcd_runs *runs)
{
    const struct clock *clock = runs->engine->options.clock;
    uint64_t until = clock_monotonic_ns(clock) + TICK_NS;
    size_t count = runs->views.table.count;

    for (size_t i = 0; i < count; i++) {
        struct etcd_run *run = runs->next;

        if (run == NULL)
            run = etcd_run_of(TAILQ_FIRST(&runs->views.list));
        if (run == NULL || clock_monotonic_ns(clock) >= until)
            return;
        etcd_runs_pin(run);
        etcd_runs_look(runs, run);
        etcd_meeting_check(run, engine_now_ms(runs->engine));
        set_next(runs, etcd_run_next(run));
        etcd_runs_unpin(runs, run);
    }
}
