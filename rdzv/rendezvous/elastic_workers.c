/* Workers find their store here, and empty.
 *
 * From 2.6 on agent 0 starts a store in its first round and tells all others where, by the keys
 * MASTER_ADDR and MASTER_PORT of the round. Nobody asks again in later rounds: whoever joins then
 * waits for keys that nobody writes, and the workers of a new round find the keys of the old one.
 * So what agents are told is this daemon's own address, in every round, and each completed round
 * gets a world of keys of its own. That is exact, not a guess: an agent ends its workers before it
 * leaves a round, and a round completes only after its participants have joined.
 *
 * Workers come to the agents' own port, since whoever reaches that can reach it for sure; agents
 * and workers are told apart by their keys. A second run in the same space gets a port of its own
 * while the first lives, and with --worker-ports each run does, from there.
 *
 * Two kinds of agents must be left alone. Those of 2.4 and before listen in worker 0, at a new
 * address each round: they do not send PING. And so do later ones with
 * TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1, which look the same, but for one thing: when they say where
 * their store is, nobody listens there yet. So agent 0's host is asked. */
#include "rdzv/rendezvous/elastic_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#include "rdzv/net/listen.h"
#include "rdzv/net/probe.h"

#define PROBE_MS 1000

/* --- Addresses. --- */

/* The local end of a connection; false when the kernel does not tell. */
static bool local_end(const struct conn *c, char host[INET6_ADDRSTRLEN], uint16_t *port,
                      bool *loopback)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}, one[16] = {[15] = 1};
    struct sockaddr_storage at;
    socklen_t len = sizeof at;

    if (getsockname(event_get_fd(&c->event), (struct sockaddr *)&at, &len) < 0)
        return false;
    if (at.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)&at;
        const uint8_t *a = in6->sin6_addr.s6_addr;
        bool v4 = memcmp(a, mapped, sizeof mapped) == 0;

        *port = ntohs(in6->sin6_port);
        *loopback = v4 ? a[12] == 127 : memcmp(a, one, sizeof one) == 0;
        return inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? a + 12 : a, host, INET6_ADDRSTRLEN) != NULL;
    }
    *port = ntohs(((const struct sockaddr_in *)(const void *)&at)->sin_port);
    *loopback = *(const uint8_t *)&((const struct sockaddr_in *)(const void *)&at)->sin_addr == 127;
    return inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)&at)->sin_addr, host,
                     INET6_ADDRSTRLEN) != NULL;
}

/* Without --advertise: the address that agents have reached us by, and rather one that is not
 * loopback, which means nothing on another machine. */
static bool guess_address(const struct elastic_run *er, char host[INET6_ADDRSTRLEN])
{
    char found[INET6_ADDRSTRLEN];
    const struct agent *a;
    bool loopback, any = false;
    uint16_t port;

    TAILQ_FOREACH(a, &er->agents, entry) {
        if (!local_end(a->conn, found, &port, &loopback) || (any && loopback))
            continue;
        memcpy(host, found, sizeof found);
        any = true;
        if (!loopback)
            break;
    }
    return any;
}

/* --- Where the workers of a run come in. --- */

/* Whether a run still needs the port that it shares with the agents. */
static bool is_alive(const struct elastic_run *er)
{
    const struct run *run = elastic_store_run(er);

    return run != NULL && !run->state.closed && !TAILQ_EMPTY(&er->agents);
}

static bool choose_port(struct elastic_run *er, const struct agent *by)
{
    const struct config_elastic *config = &er->rdzv->config->elastic;
    struct rendezvous_space *e = er->home;

    if (er->port != NULL || e->shared == er)
        return true;
    if (config->worker_port_low == 0 && (e->shared == NULL || !is_alive(e->shared))) {
        e->shared = er;
        return true;
    }
    er->port =
        listen_open_like(by->conn->listener, config->worker_port_low, config->worker_port_high, er);
    if (er->port == NULL)
        log_event(LOG_ERROR, "worker_port_failed", log_bytes("run", elastic_name(er)),
                  log_errno("error", errno),
                  log_str("hint", "give --worker-ports a range that is free here"));
    return er->port != NULL;
}

void elastic_drop_workers(struct elastic_run *er)
{
    probe_cancel(er->probe);
    er->probe = NULL;
    if (er->home->shared == er)
        er->home->shared = NULL;
    if (er->port != NULL)
        listen_close_one(er->port);
    er->port = NULL;
    er->undone = WORKER_STORE_UNKNOWN;
}

/* --- Deciding. --- */

static void log_failure(const struct elastic_run *er, enum store_status status)
{
    log_event(LOG_ERROR, "repair_failed", log_bytes("run", elastic_name(er)),
              log_str("reason", status == STORE_FULL ? "the space is full, see --space-limit"
                                                     : "out of memory"));
}

static void decide(struct elastic_run *er, enum worker_store_placement where, const char *address,
                   uint16_t port, const char *why)
{
    enum store_status status;
    char text[8];

    snprintf(text, sizeof text, "%u", port);
    status = run_decide(er->rdzv, er->home->space, elastic_store_run(er), where, slice_str(address),
                        slice_str(text));
    if (status != STORE_OK) {
        if (er->undone == WORKER_STORE_UNKNOWN)
            log_failure(er, status);
        er->undone = where;
        er->undone_why = why;
        return;
    }
    er->undone = WORKER_STORE_UNKNOWN;
    if (where == WORKER_STORE_RDZVD)
        log_event(LOG_INFO, "worker_store_assigned", log_str("space", er->home->space->store->name),
                  log_bytes("run", elastic_name(er)), log_str("address", address),
                  log_u64("port", port), log_str("reason", why));
    else
        log_event(LOG_INFO, "worker_store_external", log_str("space", er->home->space->store->name),
                  log_bytes("run", elastic_name(er)), log_str("reason", why));
    if (where != WORKER_STORE_RDZVD)
        elastic_drop_workers(er);
    elastic_sweep(er->rdzv, er->home->space);
}

static void decide_here(struct elastic_run *er)
{
    const struct config_elastic *config = &er->rdzv->config->elastic;
    char guess[INET6_ADDRSTRLEN];
    const char *host = config->advertise_host;
    uint16_t port = er->port != NULL              ? listen_port(er->port)
                    : config->advertise_port != 0 ? config->advertise_port
                                                  : er->agents_port;

    if (host == NULL && guess_address(er, guess))
        host = guess;
    if (host == NULL || port == 0)
        decide(er, WORKER_STORE_WORKER0, "", 0,
               "rdzvd does not know its own address, see --advertise");
    else
        decide(er, WORKER_STORE_RDZVD, host, port,
               er->port != NULL
                   ? "a port of its own: --worker-ports, or another run has the agents'"
               : host == guess ? "agents reach rdzvd by this address, see --advertise"
                               : "--advertise says so");
}

void elastic_retry_workers(struct elastic_run *er)
{
    if (er->undone == WORKER_STORE_UNKNOWN || elastic_store_run(er) == NULL ||
        TAILQ_EMPTY(&er->agents))
        return;
    if (er->undone == WORKER_STORE_RDZVD)
        decide_here(er);
    else
        decide(er, er->undone, "", 0, er->undone_why);
}

static void on_answer(void *arg, enum probe_answer answer)
{
    struct elastic_run *er = arg;
    const struct run *run = elastic_store_run(er);

    er->probe = NULL;
    if (run == NULL || run->workers != WORKER_STORE_UNKNOWN)
        return;
    if (answer == PROBE_REFUSED)
        decide(er, WORKER_STORE_WORKER0, "", 0,
               "agent 0 hosts no store: worker 0 will (TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1)");
    else
        decide_here(er); /* and if it could not be told, both sorts of agents can live with it */
}

void elastic_completed(struct elastic_run *er, struct agent *by)
{
    struct run *run = elastic_store_run(er);
    bool shared = er->home->shared == er;
    struct listener *port = er->port;
    enum store_status status;

    if (!by->pings || run->workers == WORKER_STORE_WORKER0)
        return;
    if (!choose_port(er, by)) {
        decide(er, WORKER_STORE_WORKER0, "", 0, "there is no port for them, see --worker-ports");
        return;
    }
    if (run->workers == WORKER_STORE_RDZVD &&
        (er->port != port || (er->home->shared == er) != shared))
        decide_here(er); /* another run has taken the place of this one, which was away */
    status = run_open_worker_store(er->rdzv, er->home->space, run);
    if (status != STORE_OK)
        log_failure(er, status);
    elastic_sweep(er->rdzv, er->home->space);
}

/* Asks the host of agent 0 whether it listens where it says that the store is. */
static void ask(struct elastic_run *er, const struct agent *a, const struct run *run)
{
    char host[INET6_ADDRSTRLEN];
    bool loopback;
    uint64_t port;

    if (!local_end(a->conn, host, &er->agents_port, &loopback))
        er->agents_port = 0;
    if (!slice_to_u64(blob_slice(run->offered[RUN_PORT]), UINT16_MAX, &port) || port == 0) {
        decide(er, WORKER_STORE_WORKER0, "", 0, "MASTER_PORT is no port");
        return;
    }
    probe_cancel(er->probe);
    er->probe = probe_start(er->rdzv->net->base, a->conn->peer.address, (uint16_t)port, PROBE_MS,
                            on_answer, er);
    if (er->probe == NULL)
        decide_here(er);
}

bool elastic_takes_set(struct conn *c, const struct c10d_request *req)
{
    struct agent *a = c10d_session(c)->bound.agent;
    struct elastic_run *er = a->run;
    struct slice name;
    int64_t round;
    const struct run *run = runs_find_round(&er->home->known, req->key, &round, &name);

    if (run == NULL || !a->pings || run->workers == WORKER_STORE_WORKER0 ||
        run->worker_store == 0 || round != run->world_then.round ||
        !slice_equal(run->node.key, er->key) ||
        !(slice_is(name, "MASTER_ADDR") || slice_is(name, "MASTER_PORT")))
        return false;
    if (run->workers == WORKER_STORE_RDZVD)
        return true; /* they are told already, and something else */
    if (run_take_offer(&er->home->known, req->key, req->value) != STORE_OK)
        return false;
    if (run->offered[RUN_ADDR] != NULL && run->offered[RUN_PORT] != NULL && er->probe == NULL)
        ask(er, a, run);
    return true;
}
