/* Who is connected for which run, and runs that are forgotten. See elastic.h. */
#include "rdzv/rendezvous/elastic.h"

#include <stdlib.h>

#include "rdzv/rendezvous/elastic_internal.h"
#include "store/xalloc.h"

void elastic_space_init(struct elastic_space *e)
{
    TAILQ_INIT(&e->runs);
    TAILQ_INIT(&e->sessions);
    e->shared = NULL;
}

static void free_run(struct elastic_run *er)
{
    elastic_drop_workers(er);
    if (er->turn != NULL)
        evtimer_del(&er->turn_ends);
    TAILQ_REMOVE(&er->home->elastic.runs, er, entry);
    free(er);
}

void elastic_space_fini(struct elastic_space *e)
{
    struct elastic_run *er;

    while ((er = TAILQ_FIRST(&e->runs)) != NULL)
        free_run(er);
}

/* Nobody is connected for it, and the store does not know it. */
static void free_if_unused(struct elastic_run *er)
{
    if (TAILQ_EMPTY(&er->agents) && TAILQ_EMPTY(&er->late) && elastic_store_run(er) == NULL)
        free_run(er);
}

struct elastic_run *elastic_find(struct server_space *home, struct slice key)
{
    struct elastic_run *er;

    TAILQ_FOREACH(er, &home->elastic.runs, entry) {
        if (slice_equal(er->key, key))
            return er;
    }
    return NULL;
}

/* NULL when memory is short. */
static struct elastic_run *need_run(struct server *s, struct server_space *home, struct slice key)
{
    struct elastic_run *er = elastic_find(home, key);
    uint8_t *name;

    if (er != NULL)
        return er;
    er = calloc(1, sizeof *er + key.len);
    if (er == NULL)
        return NULL;
    name = (uint8_t *)(er + 1);
    memcpy(name, key.ptr, key.len);
    er->server = s;
    er->home = home;
    er->key = (struct slice){name, key.len};
    er->left_ms = server_now_ms();
    er->full = true;
    TAILQ_INIT(&er->agents);
    TAILQ_INIT(&er->late);
    TAILQ_INIT(&er->line);
    elastic_turn_init(er);
    TAILQ_INSERT_TAIL(&home->elastic.runs, er, entry);
    return er;
}

/* --- Connections. --- */

/* Which run an agent's key is about: that of the state itself, or that of a round. A key that is
 * neither yet may be the state that is about to be made, and what is compared is always a state,
 * even if R looks like the key of another run's round. */
static struct slice run_key_of(const struct runs *runs, struct slice key, bool compared)
{
    struct slice rest;
    int64_t round;
    struct run *run =
        compared || runs_find(runs, key) != NULL ? NULL : runs_find_round(runs, key, &round, &rest);

    return run == NULL ? key : run->node.key;
}

static void bind_agent(struct conn *c, struct slice key, bool compared)
{
    struct server *s = conn_server(c);
    struct server_space *home = server_space_of(s, c->space);
    struct elastic_run *er = need_run(s, home, run_key_of(&home->runs, key, compared));
    struct agent *a = er == NULL ? NULL : calloc(1, sizeof *a);

    if (a == NULL)
        return; /* plain it is, then */
    a->conn = c;
    a->run = er;
    a->pings = c->pinged;
    c->role = CONN_AGENT;
    c->as.c10d.bound.agent = a;
    elastic_enter(er, a);
}

/* The worker store that a worker finds: that of the run whose port it came to, or of the one run
 * that shares the agents' port. */
static struct worker_store *worker_store_for(struct conn *c)
{
    struct server_space *home = server_space_of(conn_server(c), c->space);
    struct elastic_run *er = c->listener->is_runs ? c->listener->run : home->elastic.shared;
    struct run *run = er == NULL ? NULL : elastic_store_run(er);

    return run == NULL ? NULL : worker_stores_find(&c->space->worker_stores, run->worker_store);
}

static struct worker_sessions *find_sessions(const struct server_space *home, uint64_t id)
{
    struct worker_sessions *w;

    TAILQ_FOREACH(w, &home->elastic.sessions, entry) {
        if (w->id == id)
            return w;
    }
    return NULL;
}

static void count_session(struct server_space *home, uint64_t id)
{
    struct worker_sessions *w = find_sessions(home, id);

    if (w == NULL) {
        w = xcalloc(1, sizeof *w);
        w->id = id;
        TAILQ_INSERT_HEAD(&home->elastic.sessions, w, entry);
    }
    w->count++;
}

static void end_session(struct server *s, struct server_space *home, uint64_t id)
{
    struct worker_sessions *w = find_sessions(home, id);

    if (--w->count != 0)
        return;
    TAILQ_REMOVE(&home->elastic.sessions, w, entry);
    free(w);
    if (!runs_use(&home->runs, id))
        elastic_sweep(s, home->space);
}

void elastic_bind(struct conn *c, struct slice key, bool compared)
{
    struct worker_store *store;

    c->role = CONN_PLAIN;
    if (!elastic_on(conn_server(c)))
        return;
    if (run_is_agents_key(key)) {
        bind_agent(c, key, compared);
        return;
    }
    store = worker_store_for(c);
    if (store == NULL)
        return;
    count_session(server_space_of(conn_server(c), c->space), store->id);
    c->role = CONN_WORKER;
    c->as.c10d.bound.worker_store = store;
}

void elastic_unbind(struct conn *c)
{
    struct agent *a = c->as.c10d.bound.agent;

    if (c->role == CONN_WORKER) {
        end_session(conn_server(c), server_space_of(conn_server(c), c->space),
                    c->as.c10d.bound.worker_store->id);
    } else if (c->role == CONN_AGENT) {
        struct elastic_run *er = a->run;

        elastic_note_lost(a);
        elastic_leave_line(a);
        TAILQ_REMOVE(a->late ? &er->late : &er->agents, a, entry);
        if (TAILQ_EMPTY(&er->agents) && !a->late)
            er->left_ms = server_now_ms();
        free_if_unused(er);
        free((void *)(uintptr_t)a->node.addr.ptr);
        free(a);
    }
    c->role = CONN_UNBOUND;
    c->as.c10d.bound.agent = NULL;
}

void elastic_sweep(struct server *s, struct space *space)
{
    const struct server_space *home = server_space_of(s, space);

    for (size_t i = space->worker_stores.count; i-- > 0;) {
        uint64_t id = space->worker_stores.items[i]->id;
        const struct command command = {.kind = COMMAND_WORKER_STORE_DROP, .worker_store = id};
        struct store_result result;

        if (!runs_use(&home->runs, id) && find_sessions(home, id) == NULL)
            server_apply(s, space, &command, &result);
    }
}

/* --- Forgetting. --- */

static uint64_t forget(struct elastic_run *er, const char *why)
{
    struct server *s = er->server;
    struct server_space *home = er->home;
    struct run *run = elastic_store_run(er);
    bool closed = run->state.closed;
    uint64_t keys = run_forget(s, home->space, run);

    log_event(LOG_INFO, "run_forgotten", log_str("space", home->space->name),
              log_bytes("run", elastic_name(er)), log_bool("closed", closed), log_u64("keys", keys),
              log_str("reason", why));
    elastic_drop_workers(er);
    elastic_sweep(s, home->space);
    elastic_admit(er);
    free_if_unused(er);
    return keys;
}

/* Torch's agents would wait for the run's keys for a minute, and end then. */
static void end_agents(struct elastic_run *er)
{
    struct agent *a, *next;

    er->ending = true;
    for (a = TAILQ_FIRST(&er->agents); a != NULL; a = next) {
        next = TAILQ_NEXT(a, entry);
        conn_cut(a->conn, "its run is forgotten on request; start it again", elastic_name(er));
    }
    er->ending = false;
}

bool elastic_forget(struct server *s, struct space *space, struct slice id, uint64_t *removed)
{
    struct server_space *home = server_space_of(s, space);
    struct elastic_run *er;

    TAILQ_FOREACH(er, &home->elastic.runs, entry) {
        if (!slice_equal(elastic_name(er), id) || elastic_store_run(er) == NULL)
            continue;
        end_agents(er);
        *removed = forget(er, "asked to");
        return true;
    }
    return false;
}

void elastic_presence(struct server *s, const struct space *space, const struct run *run,
                      struct elastic_presence *out)
{
    const struct elastic_run *er = elastic_find(server_space_of(s, space), run->node.key);
    const struct agent *a;

    *out = (struct elastic_presence){0};
    if (er == NULL)
        return;
    TAILQ_FOREACH(a, &er->agents, entry)
        out->agents++;
    out->held = elastic_held(er);
    out->nodes = calloc(run->state.count + 1, sizeof *out->nodes);
    if (out->nodes == NULL)
        return;
    TAILQ_FOREACH(a, &er->agents, entry) {
        const struct torch_node *node =
            a->has_node ? torch_state_find(&run->state, &a->node) : NULL;

        if (node != NULL)
            out->nodes[node - run->state.nodes] = a->conn;
    }
}

/* Whether everybody has left a run for long enough. */
static const char *why_forget(const struct elastic_run *er, uint64_t now)
{
    const struct config_elastic *config = &er->server->config->elastic;
    struct run *run = elastic_store_run(er);

    if (er->left_ms == 0 || run == NULL)
        return NULL;
    if (run->state.closed && now - er->left_ms >= config->closed_grace_ms)
        return "it is closed, and nobody was connected for --closed-grace";
    if (config->run_ttl_ms != 0 && now - er->left_ms >= config->run_ttl_ms)
        return "nobody was connected for --run-ttl";
    return NULL;
}

/* Runs that nobody has named since the daemon started are looked after as well. */
static void meet_all(struct server *s, struct server_space *home)
{
    struct run *run;

    TAILQ_FOREACH(run, &home->runs.list, order)
        need_run(s, home, run->node.key);
}

void elastic_tick(struct server *s)
{
    uint64_t now = server_now_ms();
    struct server_space *home;

    if (!elastic_on(s))
        return;
    elastic_make_up(s);
    TAILQ_FOREACH(home, &s->spaces, entry) {
        struct elastic_run *er, *next;

        meet_all(s, home);
        for (er = TAILQ_FIRST(&home->elastic.runs); er != NULL; er = next) {
            const char *why = why_forget(er, now);

            next = TAILQ_NEXT(er, entry);
            if (why != NULL) {
                forget(er, why);
            } else {
                elastic_tell_late(er, now);
                elastic_retry_workers(er);
                free_if_unused(er);
            }
        }
    }
}

void elastic_space_reset(struct server *s, struct space *space)
{
    struct server_space *home = server_space_of(s, space);
    struct elastic_run *er, *next;

    for (er = TAILQ_FIRST(&home->elastic.runs); er != NULL; er = next) {
        next = TAILQ_NEXT(er, entry);
        elastic_drop_workers(er);
        elastic_admit(er);
        free_if_unused(er);
    }
    elastic_sweep(s, space);
}
