/* Waiting clients and their keys, as JSON. See status.h for the contract. */
#include "proto/json.h"
#include "rdzv/admin/run_status.h"
#include "rdzv/admin/status.h"
#include "rdzv/engine/log.h"

#define WAITS_LISTED   100
#define WAIT_KEYS      10  /* of each, and of a run altogether */
#define WAIT_KEY_BYTES 200 /* of a name; a longer one ends in "…" */

struct listed_wait {
    const struct waiter *waiter;
    const struct agent *agent; /* NULL: of a worker, or of no run */
};

struct absent_key {
    const struct awaited *at;
    bool is_agents;
    uint64_t waiters;
};

struct waits {
    const struct run *run; /* NULL: of none */
    struct listed_wait listed[WAITS_LISTED];
    size_t listed_count;
    uint64_t count;
    struct absent_key keys[WAIT_KEYS];
    size_t key_count;
    struct worker_place places[STATUS_PLACES]; /* of the run */
    size_t place_count;
    struct barrier_list barriers;
};

/* --- Collecting. --- */

static void note_key(struct waits *all, const struct awaited *at, bool is_agents)
{
    size_t i = 0;

    while (i < all->key_count && all->keys[i].at != at)
        i++;
    if (i == WAIT_KEYS)
        return;
    if (i == all->key_count)
        all->keys[all->key_count++] = (struct absent_key){.at = at, .is_agents = is_agents};
    all->keys[i].waiters++;
}

static void note_wait(struct waits *all, const struct keymap *m, const struct waiter *waiter,
                      const struct agent *agent)
{
    const struct awaited *at;
    uint64_t k = 0;

    all->count++;
    if (all->listed_count < WAITS_LISTED)
        all->listed[all->listed_count++] = (struct listed_wait){waiter, agent};
    for (int i = 0; waiter->size == 0 && i < WAIT_KEYS; i++) {
        at = waiter_next_key(waiter, &k);
        if (at != NULL)
            note_key(all, at, agent != NULL);
    }
    barrier_list_note(&all->barriers, m, waiter);
}

/* Waits of a run's agents are listed with that run. */
static bool is_of_run(struct conn *c)
{
    const struct conn_agent *a = c10d_session(c)->bound.agent;

    return c10d_session(c)->role == C10D_AGENT && a->run->run.view.exists;
}

/* The clients that wait there: they are owned by connections. */
static void note_waiters(struct waits *all, const struct keymap *m)
{
    TAILQ_EACH(const struct wake, wake, &m->open_waiters, entry) {
        if (wake->kind == WAKE_WAITER && !is_of_run(wake->owner))
            note_wait(all, m, (const struct waiter *)wake, NULL);
    }
}

/* --- Writing. --- */

static void write_key(struct writer *w, struct slice key)
{
    bool cut = key.len > WAIT_KEY_BYTES;

    json_comma(w);
    writer_u8(w, '"');
    json_text(w, cut ? (struct slice){key.ptr, WAIT_KEY_BYTES} : key);
    writer_str(w, cut ? "…\"" : "\"");
}

static uint64_t write_wait_keys(struct writer *w, const struct waiter *waiter)
{
    uint64_t absent = 0, i = 0;
    const struct awaited *at;

    writer_u8(w, '[');
    while ((at = waiter_next_key(waiter, &i)) != NULL) {
        if (absent++ < WAIT_KEYS)
            write_key(w, awaited_key(at));
    }
    writer_u8(w, ']');
    return absent;
}

static void write_agent(struct writer *w, const struct run *run, const struct agent *a)
{
    const struct torch_node *node =
        agent_has_node(a) ? torch_state_find(&run->view.state, &a->node) : NULL;

    if (!agent_has_node(a))
        return;
    json_member(w, "node", a->node.addr);
    json_member_i64(w, "pid", a->node.pid);
    if (node != NULL && node->participant && run->view.state.complete)
        json_member_i64(w, "rank", node->rank);
}

/* Its rank tells its node, even if several nodes share a host. */
static void write_worker(struct writer *w, struct waits *all, struct conn *c)
{
    const struct worker_place *place = status_place_of(all->places, all->place_count, c);
    int64_t rank = (int64_t)c10d_session(c)->rank - 1;
    const struct torch_node *node =
        rank < 0 || all->run == NULL
            ? NULL
            : status_node_of_worker(all->run, &all->barriers.space->store->keys, rank);

    if (node != NULL || place != NULL)
        json_member(w, "node", node != NULL ? node->addr : place->node->addr);
    if (node != NULL)
        json_member_i64(w, "pid", node->pid);
    if (rank >= 0)
        json_member_i64(w, "rank", rank);
}

static void write_wait(struct writer *w, struct waits *all, const struct listed_wait *l)
{
    const struct engine *e = conn_net(l->waiter->wake.owner)->engine;
    uint64_t waited_ms = clock_elapsed_ms(l->waiter->since_ms, engine_now_ms(e)), absent;

    json_open(w, '{');
    json_member_str(w, "peer", CONN_PEER(l->waiter->wake.owner));
    json_name(w, "keys");
    absent = write_wait_keys(w, l->waiter);
    json_member_u64(w, "key_count", absent);
    json_member_time(w, "since", engine_wall_ns(e) / 1000 - (int64_t)waited_ms * 1000);
    if (l->agent != NULL)
        write_agent(w, all->run, l->agent);
    else
        write_worker(w, all, l->waiter->wake.owner);
    writer_u8(w, '}');
}

static void write_writer(struct writer *w, const struct waits *all, const struct absent_key *key)
{
    struct key_writer writer;

    if (!status_find_writer(all->barriers.space, all->run,
                            conn_net(all->listed[0].waiter->wake.owner), awaited_key(key->at),
                            key->is_agents, &writer))
        return;
    json_member_str(w, "what", writer.torch.what);
    json_member_i64(w, "writer_rank", writer.torch.rank);
    if (writer.torch.group.len > 0)
        json_member(w, "group", writer.torch.group);
    if (writer.node != NULL)
        json_member(w, "writer_node", writer.node->addr);
    json_member_str(w, "written_by", writer.text);
}

static void write_absent_keys(struct writer *w, const struct waits *all)
{
    json_list(w, "absent_keys");
    for (size_t i = 0; i < all->key_count; i++) {
        json_open(w, '{');
        json_name(w, "key");
        write_key(w, awaited_key(all->keys[i].at));
        json_member_u64(w, "waiters", all->keys[i].waiters);
        write_writer(w, all, &all->keys[i]);
        writer_u8(w, '}');
    }
    writer_u8(w, ']');
}

static void write_waits(struct writer *w, struct waits *all)
{
    json_list(w, "waits");
    for (size_t i = 0; i < all->listed_count; i++)
        write_wait(w, all, &all->listed[i]);
    writer_u8(w, ']');
    json_member_u64(w, "waits_count", all->count);
    write_absent_keys(w, all);
    barrier_list_write(w, &all->barriers);
}

static const struct worker_store *worker_store_of(const struct engine_space *space,
                                                  const struct run *run)
{
    return worker_stores_find(&space->store->worker_stores, run->view.record.worker_store);
}

/* How many of the workers of the round are connected, if its agents have told the number. */
static void write_workers(struct writer *w, const struct engine_space *space, const struct run *run)
{
    const struct worker_store *found = worker_store_of(space, run);
    uint64_t count = found == NULL ? 0 : status_count_workers(run, &space->store->keys);

    if (count == 0)
        return;
    json_member_u64(w, "workers", count);
    json_member_u64(w, "workers_connected", found->users);
}

void status_waits_write_run(struct writer *w, const struct engine_space *space,
                            const struct run *run)
{
    const struct keymap *workers = run->view.record.worker_store == 0
                                       ? NULL
                                       : space_keys(space->store, run->view.record.worker_store);
    struct waits all = {.run = run, .barriers = {.space = space, .run = run}};

    AGENTS_FOREACH(a, &run->agents) {
        const struct waiter *waiter = c10d_session(conn_of(a))->waiter;

        if (waiter != NULL)
            note_wait(&all, &space->store->keys, waiter, a);
    }
    if (workers != NULL)
        note_waiters(&all, workers);
    if (all.count > 0)
        all.place_count = status_find_places(run, &space->store->keys, all.places);
    write_waits(w, &all);
    write_workers(w, space, run);
}

static void hint_ranks(const struct engine_space *space, struct hints *h)
{
    int i = 0;

    while (i < ENGINE_RANKS && space->rank_writers[i] < 2)
        i++;
    if (i < ENGINE_RANKS)
        run_status_hint(h,
                        "%u connected clients are rank %d of " TORCH_DEFAULT_GROUP
                        ": two jobs use one store, or two workers have the same RANK",
                        space->rank_writers[i], i);
}

static void hint_end(const struct engine_space *space, const struct engine *e, struct hints *h)
{
    if (space->first_end != 0)
        run_status_hint(
            h, "rank %u of " TORCH_DEFAULT_GROUP " ended first, %.1f s ago: its log may say why",
            space->first_end - 1,
            (double)clock_elapsed_ms(space->first_end_ms, engine_now_ms(e)) / 1000);
}

/* --- The ranks or nodes of a job without a rendezvous that have not come. --- */

#define ROLL_MAX   4096
#define ROLL_NAMED 8
#define POLLS_MS   1000

/* The number of a rank or node follows the front in its key. */
struct roll {
    const struct keymap *keys;
    const char *noun; /* NULL: no client waits for such a key */
    char front[WAIT_KEY_BYTES];
    uint64_t size;      /* so many there are at least */
    bool is_size_known; /* there are no more */
    bool has_zero;      /* node 0 is here, and has not written its key */
};

static bool roll_has(const struct roll *r, uint64_t number)
{
    char key[WAIT_KEY_BYTES + 24];
    int len = snprintf(key, sizeof key, "%s%llu", r->front, (unsigned long long)number);

    return (number == 0 && r->has_zero) ||
           keymap_exists(r->keys, (struct slice){(const uint8_t *)key, (size_t)len});
}

/* Notes a key for which a client waits. Node 0 waits for the keys of all nodes at once. */
static void roll_note(struct roll *r, struct slice key)
{
    struct torch_key_writer writer;
    bool is_static = torch_key_writer_of_static(key, &writer);
    size_t len = key.len;

    if (!is_static && (!torch_key_writer_of_worker(key, &writer) || !writer.each_writes ||
                       !slice_is(writer.group, TORCH_DEFAULT_GROUP)))
        return;
    while (len > 0 && key.ptr[len - 1] != '/')
        len--;
    if (len >= sizeof r->front)
        return;
    if (is_static && !writer.each_writes)
        len -= sizeof TORCH_RANKS_KEYS - 1; /* each node waits for its ranks, of node 0 */
    r->noun = is_static ? "node" : "rank";
    snprintf(r->front, sizeof r->front, "%.*s%s", (int)len, (const char *)key.ptr,
             is_static && !writer.each_writes ? TORCH_ROLE_KEYS "/" : "");
    r->is_size_known = r->is_size_known || (is_static && writer.each_writes);
    if (r->size <= (uint64_t)writer.rank)
        r->size = (uint64_t)writer.rank + 1;
}

/* Node 0 of --rdzv-backend=static counts the clients every 10 ms, until all nodes have come. */
static bool polls(const struct engine_space *space, const struct net *net)
{
    return ANY(TAILQ_EACH(struct conn, c, &net->conns, entry),
               status_is_worker(c, space, NULL) && c10d_session(c)->waiter == NULL &&
                   conn_silent_ms(c) < POLLS_MS);
}

/* Counts the ranks or nodes whose keys are there: at most one for each client. If no known number
 * lacks its key, node 0 still waits, so the job has at least one node more. */
static void roll_call(struct roll *r, uint64_t clients)
{
    uint64_t here = 0;

    for (uint64_t i = 0; i < ROLL_MAX && here < clients; i++) {
        if (!roll_has(r, i))
            continue;
        here++;
        if (r->size <= i)
            r->size = i + 1;
    }
    if (here == r->size)
        r->size++;
}

/* "ranks 2, 5 of 8 or more have not come" */
static void roll_hint(const struct roll *r, struct hints *h)
{
    char names[100] = "", more[40] = "";
    uint64_t missing = 0;
    size_t len = 0;

    for (uint64_t i = 0; i < r->size && r->size <= ROLL_MAX; i++) {
        if (!roll_has(r, i) && ++missing <= ROLL_NAMED)
            len += (size_t)snprintf(names + len, sizeof names - len, "%s%llu",
                                    missing > 1 ? ", " : "", (unsigned long long)i);
    }
    if (missing == 0)
        return;
    if (missing > ROLL_NAMED)
        snprintf(more, sizeof more, " and %llu more", (unsigned long long)(missing - ROLL_NAMED));
    run_status_hint(h,
                    "%s%s %s%s of %llu%s %s not come: is %s started, and does it reach this store?",
                    r->noun, missing > 1 ? "s" : "", names, more, (unsigned long long)r->size,
                    r->is_size_known ? "" : " or more", missing > 1 ? "have" : "has",
                    missing > 1 ? "each" : "it");
}

static void hint_missing(const struct waits *all, const struct net *net, struct hints *h)
{
    const struct engine_space *space = all->barriers.space;
    struct roll r = {.keys = &space->store->keys};

    for (size_t i = 0; i < all->listed_count; i++) {
        const struct awaited *at;
        uint64_t k = 0;

        while (k < ROLL_MAX && (at = waiter_next_key(all->listed[i].waiter, &k)) != NULL)
            roll_note(&r, awaited_key(at));
    }
    if (all->count == 0 && r.keys->present == 1 && keymap_exists(r.keys, slice_str("init/")))
        r = (struct roll){.keys = r.keys, .noun = "node", .size = 1}; /* node 0 may be the first */
    if (r.noun != NULL && strcmp(r.noun, "node") == 0)
        r.has_zero = polls(space, net);
    if (r.noun == NULL || (all->count == 0 && !r.has_zero))
        return;
    roll_call(&r, space->c10d_sessions);
    roll_hint(&r, h);
}

void status_waits_write_space(struct writer *w, const struct engine_space *space,
                              const struct net *net)
{
    struct waits all = {.barriers = {.space = space}};
    struct hints hints;

    hints.count = 0;
    note_waiters(&all, &space->store->keys);
    write_waits(w, &all);
    hint_missing(&all, net, &hints);
    if (all.barriers.is_crowded)
        run_status_hint(&hints, "more clients have arrived at a barrier than there are: two jobs, "
                                "or keys of an earlier attempt");
    hint_ranks(space, &hints);
    hint_end(space, net->engine, &hints);
    if (space->old_keys > 0 && space->c10d_sessions > 0 && rendezvous_next(space, NULL) == NULL &&
        net->engine->options.space_idle_timeout_ms == 0)
        run_status_hint(&hints, "there are keys of clients that had all gone, and new clients read "
                                "them: --space-idle-timeout forgets them between two attempts");
    status_hints_write(w, &hints);
}

/* --- The log. --- */

#define LOG_AFTER_MS 30000
#define LOG_LOOKS_AT 64 /* open waits; further ones are behind clients that are in a BARRIER */

/* The oldest wait for a key. Open waits are in the order of their begins. NULL: none is old. */
static const struct waiter *overdue_wait(const struct engine *e, const struct keymap *keys)
{
    int looked = 0;

    TAILQ_EACH(const struct wake, wake, &keys->open_waiters, entry) {
        const struct waiter *waiter = (const struct waiter *)wake;

        if (++looked > LOG_LOOKS_AT ||
            clock_elapsed_ms(waiter->since_ms, engine_now_ms(e)) < LOG_AFTER_MS)
            return NULL;
        /* A long WAIT may register more keys after the first ones have come. */
        if (wake->kind == WAKE_WAITER && waiter->size == 0 &&
            waiter_next_key(waiter, &(uint64_t){0}) != NULL)
            return waiter;
    }
    return NULL;
}

static void log_wait(const struct engine_space *space, struct live_run *live,
                     const struct waiter *waiter)
{
    const struct run *run = &live->run;
    struct slice key = awaited_key(waiter_next_key(waiter, &(uint64_t){0}));
    struct key_writer writer;
    bool is_known = status_find_writer(space, run, live->home->rdzv->net, key, false, &writer);

    snprintf(live->awaited, sizeof live->awaited, "%.*s",
             key.len < sizeof live->awaited ? (int)key.len : 0, (const char *)key.ptr);
    if (key.len > WAIT_KEY_BYTES)
        key.len = WAIT_KEY_BYTES;
    log_event(LOG_WARN, "workers_wait", log_str("space", space->store->name),
              log_bytes("run", run->view.id), log_bytes("key", key),
              log_str("what", is_known ? writer.torch.what : "a key"),
              log_str("written_by", is_known ? writer.text : "unknown"),
              log_u64("workers", status_count_workers(run, &space->store->keys)),
              log_u64("workers_connected", worker_store_of(space, run)->users));
}

/* Each round has a worker store of its own. */
void status_waits_log(struct live_run *live)
{
    const struct engine_space *space = live->home->space;
    const struct worker_store *w = worker_store_of(space, &live->run);
    const struct waiter *waiter;

    first_failure_log(live, FIRST_FAILURE_LOG_US);
    if (w == NULL || live->waits_logged_of == w->id ||
        (waiter = overdue_wait(live->home->rdzv->engine, space_keys(space->store, w->id))) == NULL)
        return;
    live->waits_logged_of = w->id;
    log_wait(space, live, waiter);
}
