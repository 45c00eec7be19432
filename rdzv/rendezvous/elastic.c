/* Who is connected for which run, and runs that are forgotten. See elastic.h. */
#include "rdzv/rendezvous/elastic.h"

#include <stdlib.h>

#include "rdzv/rendezvous/elastic_internal.h"
#include "store/xalloc.h"

struct rendezvous_space *rendezvous_space(struct rendezvous *r, struct engine_space *space)
{
    struct rendezvous_space *home = space->rendezvous;

    if (home != NULL)
        return home;
    home = xcalloc(1, sizeof *home);
    home->rdzv = r;
    home->space = space;
    TAILQ_INIT(&home->runs);
    TAILQ_INIT(&home->sessions);
    runs_init(&home->known, r->engine->options.seed);
    TAILQ_INSERT_TAIL(&r->spaces, home, entry);
    space->rendezvous = home;
    return home;
}

static void free_run(struct elastic_run *er)
{
    elastic_drop_workers(er);
    if (er->turn != NULL)
        evtimer_del(&er->turn_ends);
    TAILQ_REMOVE(&er->home->runs, er, entry);
    free(er);
}

/* Nobody is connected for it, and the store does not know it. */
static void free_if_unused(struct elastic_run *er)
{
    if (TAILQ_EMPTY(&er->agents) && TAILQ_EMPTY(&er->late) && elastic_store_run(er) == NULL)
        free_run(er);
}

struct elastic_run *elastic_find(struct rendezvous_space *home, struct slice key)
{
    struct elastic_run *er;

    TAILQ_FOREACH(er, &home->runs, entry) {
        if (slice_equal(er->key, key))
            return er;
    }
    return NULL;
}

/* NULL when memory is short. */
static struct elastic_run *need_run(struct rendezvous *s, struct rendezvous_space *home,
                                    struct slice key)
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
    er->rdzv = s;
    er->home = home;
    er->key = (struct slice){name, key.len};
    er->left_ms = engine_now_ms(er->rdzv->engine);
    er->full = true;
    TAILQ_INIT(&er->agents);
    TAILQ_INIT(&er->late);
    TAILQ_INIT(&er->line);
    elastic_turn_init(er);
    TAILQ_INSERT_TAIL(&home->runs, er, entry);
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
    struct rendezvous *s = rendezvous_of(c);
    struct rendezvous_space *home = rendezvous_space(s, conn_space(c));
    struct elastic_run *er = need_run(s, home, run_key_of(&home->known, key, compared));
    struct agent *a = er == NULL ? NULL : calloc(1, sizeof *a);

    if (a == NULL)
        return; /* plain it is, then */
    a->conn = c;
    a->run = er;
    a->pings = c10d_session(c)->pinged;
    c10d_session(c)->role = C10D_AGENT;
    c10d_session(c)->bound.agent = a;
    elastic_enter(er, a);
}

/* The worker store that a worker finds: that of the run whose port it came to, or of the one run
 * that shares the agents' port. */
static struct worker_store *worker_store_for(struct conn *c)
{
    struct rendezvous_space *home = rendezvous_space(rendezvous_of(c), conn_space(c));
    struct elastic_run *er = c->listener->temporary ? c->listener->owner : home->shared;
    struct run *run = er == NULL ? NULL : elastic_store_run(er);

    return run == NULL
               ? NULL
               : worker_stores_find(&conn_space(c)->store->worker_stores, run->worker_store);
}

static struct worker_sessions *find_sessions(const struct rendezvous_space *home, uint64_t id)
{
    struct worker_sessions *w;

    TAILQ_FOREACH(w, &home->sessions, entry) {
        if (w->id == id)
            return w;
    }
    return NULL;
}

static void count_session(struct rendezvous_space *home, uint64_t id)
{
    struct worker_sessions *w = find_sessions(home, id);

    if (w == NULL) {
        w = xcalloc(1, sizeof *w);
        w->id = id;
        TAILQ_INSERT_HEAD(&home->sessions, w, entry);
    }
    w->count++;
}

static void end_session(struct rendezvous *s, struct rendezvous_space *home, uint64_t id)
{
    struct worker_sessions *w = find_sessions(home, id);

    if (--w->count != 0)
        return;
    TAILQ_REMOVE(&home->sessions, w, entry);
    free(w);
    if (!runs_use(&home->known, id))
        elastic_sweep(s, home->space);
}

static void bind_session(void *arg, struct conn *c, struct slice key, bool compared)
{
    struct worker_store *store;

    (void)arg;
    if (run_is_agents_key(key)) {
        bind_agent(c, key, compared);
        return;
    }
    store = worker_store_for(c);
    if (store == NULL)
        return;
    count_session(rendezvous_space(rendezvous_of(c), conn_space(c)), store->id);
    c10d_session(c)->role = C10D_WORKER;
    c10d_session(c)->bound.worker_store = store->id;
}

static void unbind_session(void *arg, struct conn *c)
{
    struct agent *a = c10d_session(c)->bound.agent;

    (void)arg;
    if (c10d_session(c)->role == C10D_WORKER) {
        end_session(rendezvous_of(c), rendezvous_space(rendezvous_of(c), conn_space(c)),
                    c10d_session(c)->bound.worker_store);
    } else if (c10d_session(c)->role == C10D_AGENT) {
        struct elastic_run *er = a->run;

        elastic_note_lost(a);
        elastic_leave_line(a);
        TAILQ_REMOVE(a->late ? &er->late : &er->agents, a, entry);
        if (TAILQ_EMPTY(&er->agents) && !a->late)
            er->left_ms = engine_now_ms(er->rdzv->engine);
        free_if_unused(er);
        free((void *)(uintptr_t)a->node.addr.ptr);
        free(a);
    }
    c10d_session(c)->bound.agent = NULL;
}

void elastic_sweep(struct rendezvous *s, struct engine_space *space)
{
    const struct rendezvous_space *home = rendezvous_space(s, space);

    for (size_t i = space->store->worker_stores.count; i-- > 0;) {
        uint64_t id = space->store->worker_stores.items[i]->id;
        const struct command command = {.kind = COMMAND_WORKER_STORE_DROP, .worker_store = id};
        struct store_result result;

        if (!runs_use(&home->known, id) && find_sessions(home, id) == NULL)
            engine_apply(s->engine, space, &command, &result);
    }
}

/* --- Forgetting. --- */

static uint64_t forget(struct elastic_run *er, const char *why)
{
    struct rendezvous *s = er->rdzv;
    struct rendezvous_space *home = er->home;
    struct run *run = elastic_store_run(er);
    bool closed = run->state.closed;
    uint64_t keys = run_forget(s, home->space, run);

    log_event(LOG_INFO, "run_forgotten", log_str("space", home->space->store->name),
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
        conn_drop(a->conn, "its run is forgotten on request; start it again", elastic_name(er));
    }
    er->ending = false;
}

bool elastic_forget(struct engine_space *space, struct slice id, uint64_t *removed)
{
    struct rendezvous_space *home = space->rendezvous;
    struct elastic_run *er;

    if (home == NULL)
        return false;
    TAILQ_FOREACH(er, &home->runs, entry) {
        if (!slice_equal(elastic_name(er), id) || elastic_store_run(er) == NULL)
            continue;
        end_agents(er);
        *removed = forget(er, "asked to");
        return true;
    }
    return false;
}

void elastic_presence(struct engine_space *space, const struct run *run,
                      struct elastic_presence *out)
{
    struct rendezvous_space *home = space->rendezvous;
    const struct elastic_run *er = home == NULL ? NULL : elastic_find(home, run->node.key);
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
    const struct config_elastic *config = &er->rdzv->config->elastic;
    struct run *run = elastic_store_run(er);

    if (er->left_ms == 0 || run == NULL)
        return NULL;
    if (run->state.closed && now - er->left_ms >= config->closed_run_ttl_ms)
        return "it is closed, and nobody was connected for --closed-run-ttl";
    if (config->idle_run_ttl_ms != 0 && now - er->left_ms >= config->idle_run_ttl_ms)
        return "nobody was connected for --idle-run-ttl";
    return NULL;
}

/* Runs that nobody has named since the daemon started are looked after as well. */
static void meet_all(struct rendezvous *s, struct rendezvous_space *home)
{
    struct run *run;

    TAILQ_FOREACH(run, &home->known.list, order)
        need_run(s, home, run->node.key);
}

void elastic_tick(struct rendezvous *s)
{
    struct rendezvous_space *home;
    uint64_t now;

    if (!elastic_on(s))
        return;
    elastic_make_up(s);
    TAILQ_FOREACH(home, &s->spaces, entry)
        meet_all(s, home);
    now = engine_now_ms(s->engine);
    TAILQ_FOREACH(home, &s->spaces, entry) {
        struct elastic_run *er, *next;

        for (er = TAILQ_FIRST(&home->runs); er != NULL; er = next) {
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

static void space_cleared(struct rendezvous *s, struct rendezvous_space *home)
{
    struct elastic_run *er, *next;

    for (er = TAILQ_FIRST(&home->runs); er != NULL; er = next) {
        next = TAILQ_NEXT(er, entry);
        elastic_drop_workers(er);
        elastic_admit(er);
        free_if_unused(er);
    }
    elastic_sweep(s, home->space);
}

static void applied(void *arg, struct engine_space *space, const struct command *command)
{
    struct rendezvous *s = arg;

    run_follow(s, space, command);
    if (command->kind == COMMAND_SPACE_RESET || command->kind == COMMAND_SPACE_FORGET)
        space_cleared(s, rendezvous_space(s, space));
}

/* --- For c10d sessions. --- */

static enum c10d_verdict compare_set(struct conn *c, const struct c10d_request *req)
{
    struct store_result result;
    struct slice instead = {0};

    if (elastic_holds(c, req))
        return C10D_HELD;
    elastic_compare_set(c, req, &result, &instead);
    if (!conn_is_open(c))
        return C10D_ANSWERED;
    if (result.status != STORE_OK && result.status != STORE_ABSENT &&
        result.status != STORE_MISMATCH)
        c10d_reject(c, result.status, req->key);
    else if (instead.ptr != NULL)
        c10d_reply_bytes(c, instead);
    else if (result.status == STORE_OK)
        c10d_reply_blob(c, keymap_get(&conn_space(c)->store->keys, req->key));
    else if (result.status == STORE_ABSENT)
        c10d_reply_bytes(c, req->expected);
    else
        c10d_reply_blob(c, result.value);
    return C10D_ANSWERED;
}

static enum c10d_verdict on_request(void *arg, struct conn *c, const struct c10d_request *req,
                                    struct slice key)
{
    (void)arg;
    if (req->op == C10D_COMPARE_SET)
        return compare_set(c, req);
    elastic_before(c, req, key);
    if (!conn_is_open(c) || (req->op == C10D_SET && elastic_takes_set(c, req)))
        return C10D_ANSWERED;
    return C10D_PROCEED;
}

struct c10d_hooks rendezvous_hooks(struct rendezvous *r)
{
    if (!elastic_on(r))
        return (struct c10d_hooks){0};
    return (struct c10d_hooks){
        .bind = bind_session, .unbind = unbind_session, .on_request = on_request, .arg = r};
}

void rendezvous_init(struct rendezvous *r, const struct config *config, struct engine *engine,
                     struct net *net)
{
    *r = (struct rendezvous){.config = config, .engine = engine, .net = net};
    TAILQ_INIT(&r->spaces);
    if (elastic_on(r))
        engine->observer = (struct engine_observer){.applied = applied, .arg = r};
}

void rendezvous_fini(struct rendezvous *r)
{
    struct rendezvous_space *home;
    struct elastic_run *er;

    while ((home = TAILQ_FIRST(&r->spaces)) != NULL) {
        while ((er = TAILQ_FIRST(&home->runs)) != NULL)
            free_run(er);
        TAILQ_REMOVE(&r->spaces, home, entry);
        runs_fini(&home->known);
        home->space->rendezvous = NULL;
        free(home);
    }
}
