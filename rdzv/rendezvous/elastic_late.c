/* Agents who come for a run that is closed already.
 *
 * Torch would have them told so: they end, are started anew, and are told the same. Of a thousand
 * pods that do this there is always one connected, and the run would never be left for as long as
 * --closed-run-ttl asks. So they are not counted among its agents; and the first thing they ask for
 * waits, as it might in a slow network, until the run is forgotten: then they begin the next one.
 * After --closed-run-wait, which torch's own patience (read_timeout, 60 s) should outlast, they are
 * told what torch would have them told. */
#include "rdzv/rendezvous/elastic_internal.h"

static bool is_closed(const struct elastic_run *er)
{
    const struct run *run = elastic_store_run(er);

    return run != NULL && run->known && run->state.closed;
}

void elastic_enter(struct elastic_run *er, struct agent *a)
{
    a->late = is_closed(er);
    TAILQ_INSERT_TAIL(a->late ? &er->late : &er->agents, a, entry);
    if (!a->late)
        er->left_ms = 0;
}

static bool waits(const struct agent *a)
{
    return a->held_ms != 0 && !a->told;
}

size_t elastic_held(const struct elastic_run *er)
{
    const struct agent *a;
    size_t n = 0;

    TAILQ_FOREACH(a, &er->late, entry)
        n += waits(a);
    return n;
}

/* One line for all who wait at the same time. */
static void log_first(const struct agent *a)
{
    const struct elastic_run *er = a->run;
    const struct agent *other;
    char peer[CONN_PEER_MAX];

    TAILQ_FOREACH(other, &er->late, entry) {
        if (waits(other))
            return;
    }
    log_event(LOG_INFO, "agents_waiting", log_str("space", er->home->space->store->name),
              log_bytes("run", elastic_name(er)), log_str("first", conn_peer(a->conn, peer)),
              log_u64("for_ms", er->rdzv->config->elastic.closed_run_wait_ms),
              log_str("reason", "the run is closed: they begin it anew when all who were in it "
                                "have been gone for --closed-run-ttl"));
}

bool elastic_is_held(struct agent *a, const struct c10d_request *req)
{
    uint64_t hold_ms = a->run->rdzv->config->elastic.closed_run_wait_ms;

    /* With this every agent of every release introduces itself. */
    if (!a->late || a->told || hold_ms == 0 || req->op != C10D_COMPARE_SET ||
        req->expected.len != 0 || !slice_equal(req->key, a->run->key))
        return false;
    if (a->held_ms == 0) {
        log_first(a);
        a->held_ms = engine_now_ms(a->run->rdzv->engine);
    }
    return true;
}

void elastic_admit(struct elastic_run *er)
{
    struct agent *a;

    while ((a = TAILQ_FIRST(&er->late)) != NULL) {
        TAILQ_REMOVE(&er->late, a, entry);
        TAILQ_INSERT_TAIL(&er->agents, a, entry);
        er->left_ms = 0;
        a->late = false;
        if (a->held_ms != 0)
            input_unpark(a->conn);
    }
}

void elastic_tell_late(struct elastic_run *er, uint64_t now)
{
    struct agent *a;
    uint64_t count = 0;

    if (!is_closed(er))
        elastic_admit(er);
    TAILQ_FOREACH(a, &er->late, entry) {
        if (!waits(a) || now - a->held_ms < er->rdzv->config->elastic.closed_run_wait_ms)
            continue;
        a->told = true;
        count++;
        input_unpark(a->conn);
    }
    if (count > 0)
        log_event(LOG_WARN, "agents_rejected", log_str("space", er->home->space->store->name),
                  log_bytes("run", elastic_name(er)), log_u64("agents", count),
                  log_str("reason", TAILQ_EMPTY(&er->agents)
                                        ? "--closed-run-wait is over, and --closed-run-ttl is not"
                                        : "--closed-run-wait is over, and agents that were in the "
                                          "closed run are still connected"));
}
