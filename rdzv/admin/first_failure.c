/* The first failure of a round: which worker a connection is of, and the record in words, as JSON
 * and in the log. See status.h for the contract. */
#include "proto/json.h"
#include "proto/relay.h"
#include "rdzv/admin/status.h"
#include "rdzv/engine/log.h"

#define HOST_WORKERS 64   /* of a node whose ranks are inferred */
#define COMPARED_MAX 2048 /* connections; with more, no rank is inferred */
#define STOPPED_S    3    /* NCCL asks each second */
#define STOPPED_LEN  400  /* bytes; no more ranks are named then */

static struct live_run *run_of_store(const struct rendezvous_space *home, uint64_t worker_store)
{
    TAILQ_EACH(struct run_view, v, &home->runs.list, order) {
        if (v->record.worker_store == worker_store)
            return live_run_of(v);
    }
    return NULL;
}

/* Another connection of the same process may have the rank. Else: agents start their workers in the
 * order of ranks, so the pids of a host grow, and all workers of it are there. If the connection
 * `ends`, a second connection of its process means that the worker goes on. -1: the rank is not
 * known. All connections are compared, for each end of a worker: so COMPARED_MAX. */
static int64_t infer_rank(const struct live_run *run, struct conn *c, bool ends)
{
    const struct keymap *keys = &run->home->space->store->keys;
    uint32_t pids[HOST_WORKERS], pid = c10d_session(c)->pid;
    struct worker_place places[STATUS_PLACES];
    const struct worker_place *place =
        status_place_of(places, status_find_places(&run->run, keys, places), c);
    int64_t first, below = 0, count = 0, i;

    TAILQ_EACH(struct conn, other, &run->home->rdzv->net->conns, entry) {
        const struct c10d_session *s = c10d_session(other);

        if (other == c || !status_is_worker(other, run->home->space, &run->run) || s->pid == 0 ||
            !status_is_one_host(other, c))
            continue;
        if (s->pid == pid && (ends || s->rank != 0))
            return ends ? -1 : (int64_t)s->rank - 1;
        for (i = 0; i < count && pids[i] != s->pid; i++)
            continue;
        if (s->pid == pid || i < count || count == HOST_WORKERS)
            continue;
        pids[count++] = s->pid;
        below += s->pid < pid;
    }
    if (place == NULL || place->workers != count + 1)
        return -1;
    first = status_first_worker(&run->run, keys, place->node->rank);
    return first < 0 ? -1 : first + below;
}

/* Writes where the worker is, as history_round.first_at has it. Returns its rank; -1: not known. */
static int64_t find_worker(const struct live_run *run, struct conn *c, bool ends,
                           char at[NODE_TEXT_MAX])
{
    const struct c10d_session *s = c10d_session(c);
    bool infers = s->rank == 0 && s->pid != 0 && run->home->rdzv->net->conn_count <= COMPARED_MAX;
    int64_t rank = infers ? infer_rank(run, c, ends) : (int64_t)s->rank - 1;
    const struct torch_node *node =
        rank < 0 ? NULL : status_node_of_worker(&run->run, &run->home->space->store->keys, rank);
    char peer[CONN_PEER_MAX], pid[32] = "";

    if (s->pid != 0)
        snprintf(pid, sizeof pid, " (pid %u)", s->pid);
    snprintf(at, NODE_TEXT_MAX, "%s%s%.*s%s", infers ? " (inferred from its pid)" : "",
             node == NULL ? " at " : " on ", node == NULL ? CONN_PEER_MAX : (int)node->addr.len,
             node == NULL ? conn_peer(c, peer) : (const char *)node->addr.ptr, pid);
    return rank;
}

/* Adds the oldest wait of a worker, or the long one that has timed out. */
static void say_awaited(const struct live_run *run, char *text, size_t room)
{
    const struct keymap *keys = &live_run_worker_store(run)->keys;
    const struct waiter *w = (const struct waiter *)TAILQ_FIRST(&keys->open_waiters);
    const struct awaited *at =
        w == NULL || w->wake.kind != WAKE_WAITER ? NULL : waiter_next_key(w, &(uint64_t){0});
    bool is_late = at == NULL && run->waits_logged_of == run->run.view.record.worker_store;
    struct slice key = at != NULL ? awaited_key(at) : slice_str(is_late ? run->awaited : "");
    struct key_writer writer;

    if (key.len == 0 || keymap_exists(keys, key))
        return;
    if (!status_find_writer(run->home->space, &run->run, run->home->rdzv->net, key, false, &writer))
        snprintf(writer.text, sizeof writer.text, "another worker");
    snprintf(text, room, " (waits then: %llu, the %s for %.*s of %.120s)",
             (unsigned long long)keys->waiters, is_late ? "last" : "first",
             (int)(key.len < 120 ? key.len : 120), (const char *)key.ptr, writer.text);
}

void first_failure_note_end(struct rendezvous_space *home, struct conn *c)
{
    struct live_run *run = run_of_store(home, c10d_session(c)->bound.worker_store);
    const struct history_round *r = run == NULL ? NULL : history_standing(&run->history);
    int64_t now_us = engine_wall_ns(home->rdzv->engine) / 1000, rank;
    char at[2 * NODE_TEXT_MAX];

    if (r == NULL || !history_takes_end(r, now_us))
        return;
    rank = find_worker(run, c, true, at);
    if (rank < 0)
        return;
    if (r->first_at == NULL)
        say_awaited(run, at + strlen(at), sizeof at - strlen(at));
    history_end_worker(&run->history, (uint32_t)rank, at, now_us);
}

/* Adds the ranks whose thread that asks for the key has stopped. */
static void say_stopped(const struct live_run *run, char text[HISTORY_TEXT_MAX])
{
    const struct net *net = run->home->rdzv->net;
    uint32_t now_s = (uint32_t)(engine_now_ms(net->engine) / 1000);
    size_t len = strlen(text);
    char at[NODE_TEXT_MAX];
    int64_t rank;

    TAILQ_EACH(struct conn, c, &net->conns, entry) {
        if (status_is_worker(c, run->home->space, &run->run) && c10d_session(c)->dump_s != 0 &&
            len < STOPPED_LEN &&
            now_s - c10d_session(c)->dump_s >=
                (conn_is_relayed(c) ? RELAY_ALONE_S : 0) + STOPPED_S &&
            (rank = find_worker(run, c, false, at)) >= 0)
            len += (size_t)snprintf(text + len, HISTORY_TEXT_MAX - len, "; rank %lld stands still",
                                    (long long)rank);
    }
}

/* Workers set the key in the store of their run; if worker 0 hosts that, a client of the space sets
 * the key. */
static void note_progress(struct rendezvous_space *home, const struct command *command)
{
    const struct space *space = home->space->store;
    const struct worker_store *w = worker_stores_find(&space->worker_stores, command->worker_store);
    const struct keymap *keys = w == NULL ? &space->keys : &w->keys;
    struct slice value = blob_slice(keymap_get(keys, command->key));
    uint64_t number;

    TAILQ_EACH(struct run_view, v, &home->runs.list, order) {
        struct history *h = &live_run_of(v)->history;
        struct history_round *r = history_standing(h);

        if ((w == NULL || v->record.worker_store == w->id) && r != NULL &&
            slice_to_u64(value, UINT64_MAX, &number) && number > h->progress)
            h->progress = r->progress = number;
    }
}

void first_failure_note_set(struct rendezvous_space *home, const struct command *command)
{
    struct slice key = command->key;
    const struct history_round *r;
    char text[HISTORY_TEXT_MAX];
    struct live_run *run;
    int32_t rank;

    if (slice_ends_with(key, "rdzvd/progress"))
        note_progress(home, command);
    if (command->value.len != sizeof rank || command->kind != COMMAND_KEY_SET ||
        command->worker_store == 0 ||
        (!slice_is(key, TORCH_DUMP_KEY) &&
         memmem(key.ptr, key.len, TORCH_REMOTE_ERROR, strlen(TORCH_REMOTE_ERROR)) == NULL))
        return;
    memcpy(&rank, command->value.ptr, sizeof rank);
    run = run_of_store(home, command->worker_store);
    r = run == NULL || rank < 0 ? NULL : history_standing(&run->history);
    if (r == NULL || r->why != NULL)
        return;
    snprintf(text, sizeof text,
             "a collective of rank %d timed out first: the rank that hangs is another one", rank);
    if (run->history.dumped == NULL) /* else each thread has stopped, with its flight record */
        say_stopped(run, text);
    history_add_reason(&run->history, REASON_FIRST, "%s", text);
}

void first_failure_log(struct live_run *run, int64_t after_us)
{
    int64_t now_us = engine_wall_ns(run->home->rdzv->engine) / 1000;
    struct history_round *r = TAILQ_FIRST(&run->history.rounds);
    char text[HISTORY_WHY_MAX];

    for (int i = 0; i < 2 && r != NULL; i++, r = TAILQ_NEXT(r, entry)) {
        if (r->why == NULL || r->first_at == NULL || r->is_logged ||
            now_us - r->first_us < after_us)
            continue;
        r->is_logged = true;
        log_event(LOG_WARN, "first_failure", log_str("space", run->home->space->store->name),
                  log_bytes("run", run->run.view.id), log_i64("round", r->round),
                  log_u64("rank", r->first_rank), log_str("reason", history_why(r, r->why, text)));
    }
}
