/* The writer of a key for which clients wait, by name. See status.h for the contract.
 *
 * Torch's most frequent error is the time-out of such a wait. It names the key, and neither the
 * rank that writes the key nor the node of that rank. The text of the key tells the rank
 * (torch_keys.h), and the agents of the round have told each other which ranks each node has. */
#include <stdio.h>
#include <time.h>

#include "rdzv/admin/status.h"

const struct torch_node *status_node_of_worker(const struct run *run, const struct keymap *keys,
                                               int64_t rank)
{
    int64_t size = status_count_node_workers(run, keys, 0), node = size == 0 ? 0 : rank / size;
    int64_t base = size == 0 ? -1 : status_first_worker(run, keys, node);

    if (base < 0 || rank < base || rank >= base + status_count_node_workers(run, keys, node) ||
        run->view.last_completed.round != run->view.record.round)
        return NULL;
    return node_of_rank(&run->view.last_completed, node);
}

#define LOOKED_AT 4096 /* connections, to find a worker; with more, it is not looked for */
#define SILENT_MS 10000

bool status_is_worker(const struct conn *c, const struct engine_space *space, const struct run *run)
{
    const struct c10d_session *s = c10d_session(c);

    if (c->protocol == NULL || strcmp(c->protocol->name, "c10d") != 0 || conn_space(c) != space)
        return false;
    return run == NULL
               ? s->role == C10D_PLAIN
               : s->role == C10D_WORKER && s->bound.worker_store == run->view.record.worker_store;
}

/* The connection of the worker of that rank; NULL: no key has named the rank, or the space has too
 * many connections. */
static const struct conn *find_worker(const struct engine_space *space, const struct run *run,
                                      const struct net *net, int64_t rank)
{
    const struct conn *c = net->conn_count > LOOKED_AT ? NULL : TAILQ_FIRST(&net->conns);

    while (c != NULL &&
           ((int64_t)c10d_session(c)->rank != rank + 1 || !status_is_worker(c, space, run)))
        c = TAILQ_NEXT(c, entry);
    return c;
}

/* A worker of which nothing comes computes, or hangs, outside of the store. The text has the moment
 * and no duration, so that a stream of the status has no news each second. */
static void write_silence(const struct conn *c, struct key_writer *out)
{
    size_t at = strlen(out->text);
    uint64_t ms = conn_silent_ms(c);
    time_t since = (time_t)(engine_wall_ns(conn_net(c)->engine) / 1000000000 - (int64_t)ms / 1000);
    struct tm utc;

    if (ms != UINT64_MAX && ms >= SILENT_MS && gmtime_r(&since, &utc) != NULL)
        strftime(out->text + at, sizeof out->text - at,
                 "; it is connected, and has asked nothing since %H:%M:%SZ", &utc);
}

/* `pid`: of the worker; 0: no key names it, and the pid of its agent is written. */
static void write_text(struct key_writer *out, bool is_agents, uint32_t pid)
{
    size_t len = out->torch.group.len;
    int group = (int)(len == TORCH_GROUP_HASH ? 8 : len < 100 ? len : 100), at;

    at = snprintf(out->text, sizeof out->text, "%s %lld%s%s%.*s", group > 0 ? "rank" : "node",
                  (long long)out->torch.rank, group > 0 ? " of " : "",
                  group == 0 || slice_is(out->torch.group, TORCH_DEFAULT_GROUP) ? "" : "group ",
                  group, (const char *)out->torch.group.ptr);
    if (out->node != NULL)
        at += snprintf(out->text + at, sizeof out->text - (size_t)at, ", on %.*s (%s %lld)",
                       out->node->addr.len < 200 ? (int)out->node->addr.len : 200,
                       (const char *)out->node->addr.ptr,
                       is_agents || pid != 0 ? "pid" : "its agent's pid",
                       pid != 0 ? (long long)pid : (long long)out->node->pid);
    snprintf(out->text + at, sizeof out->text - (size_t)at, ", %s", out->torch.when);
}

bool status_find_writer(const struct engine_space *space, const struct run *run,
                        const struct net *net, struct slice key, bool is_agents,
                        struct key_writer *out)
{
    const struct rendezvous_space *home = space->rendezvous;
    const struct conn *worker = NULL;
    struct slice name;
    int64_t round;

    *out = (struct key_writer){0};
    if (run != NULL && is_agents) {
        if (run_views_find_round(&home->runs, key, &round, &name) != &run->view ||
            !torch_key_writer_of_round(name, &out->torch))
            return false;
        if (round == run->view.last_completed.round)
            out->node = node_of_rank(&run->view.last_completed, out->torch.rank);
    } else {
        if (!torch_key_writer_of_worker(key, &out->torch) &&
            (run != NULL || !torch_key_writer_of_static(key, &out->torch)))
            return false;
        if (run != NULL && slice_is(out->torch.group, TORCH_DEFAULT_GROUP))
            out->node = status_node_of_worker(run, &space->store->keys, out->torch.rank);
    }
    if (!is_agents && slice_is(out->torch.group, TORCH_DEFAULT_GROUP))
        worker = find_worker(space, run, net, out->torch.rank);
    write_text(out, is_agents, worker == NULL ? 0 : c10d_session(worker)->pid);
    if (worker != NULL)
        write_silence(worker, out);
    return true;
}
