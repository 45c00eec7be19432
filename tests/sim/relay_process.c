/* The store and the relays of sim_relay: how they start, run and end, and what must be true then.
 */
#include "tests/sim/relay_sim.h"

#include <stdlib.h>

#include "rdzv/net/transport.h"
#include "rdzv/relay/link_session.h"
#include "store/session/session.h"
#include "tests/sim/relay_web.h"
#include "tests/support/sim_disk.h"

static struct config configs[2][PROCESSES];

/* --- Processes. --- */

static void parse(struct config *out, const char *const *flags)
{
    char *argv[16] = {(char *)(uintptr_t) "rdzvd", (char *)(uintptr_t) "--listen",
                      (char *)(uintptr_t) "127.0.0.1:29400",
                      (char *)(uintptr_t) "--host-whitelist=*"};
    char *const none[] = {NULL};
    struct config_error error;
    int argc = 4;

    for (size_t i = 0; flags[i] != NULL; i++)
        argv[argc++] = (char *)(uintptr_t)flags[i];
    if (!config_parse(argc, argv, none, out, &error)) {
        fprintf(stderr, "%s\n", error.text);
        exit(2);
    }
}

void configure(void)
{
    static const char *const store[2][4] = {{"--data-dir=/sim", "--sync=batch", NULL},
                                            {"--data-dir=/sim", "--sync=always", NULL}};
    static const char *const relay[] = {"--upstream=store:20000", NULL};

    for (int mode = 0; mode < 2; mode++) {
        for (int p = 0; p < PROCESSES; p++) {
            parse(&configs[mode][p], p == STORE ? store[mode] : relay);
            configs[mode][p].listeners[0].fd = LISTENER_FD + p;
        }
    }
}

/* Neither clients nor relays send what those who read it would not; but HTTP that breaks off is
 * counted so. */
void check_understood(int p)
{
    const struct server *s = &world.processes[p].server;

    if (s->forwards.count > 0)
        sums.shared += s->forwards.list[0].relay.stats.shared;
    if (!has_webs(world.seed) && s->engine.stats.dropped[DROP_MALFORMED] != 0)
        world_fail("process %d has taken for malformed what was said to it", p);
}

void end_process(int p)
{
    struct process *process = &world.processes[p];
    int before = world_current;

    check_understood(p);
    world_current = p;
    world_is_over[p] = true;
    process->up = false;
    if (p == STORE)
        world.ended_ns = world_now_ns;
    server_fini(&process->server);
    net_sim_kill(p);
    world_current = before;
}

/* The store's files as they are after its death. */
void end_disk(void)
{
    if ((world.always || world.loses) && chance(2)) {
        sums.powers++;
        world.has_lost = world.loses;
        sim_disk_cut_power(world_disk);
    } else {
        sim_disk_kill(world_disk);
    }
}

void kill_store(void)
{
    struct fs *fs = sim_disk_fs(world_disk);

    if (!sim_disk_is_dead(world_disk)) {
        sim_disk_fail(world_disk, SIM_DIE, 1, UINT64_MAX);
        fs->sync_dir(fs);
    }
    sums.deaths++;
    end_process(STORE);
    end_disk();
    world.processes[STORE].starts_ns = world_now_ns + draw(1500) * MS;
}

/* When answers might go that depend on this batch, and those before it. */
static void note_commits(void)
{
    uint64_t number = world.processes[STORE].server.engine.committed;
    size_t count = world.commit_count;

    if (!world.loses || (count > 0 && world.commits[count - 1].number >= number))
        return;
    if (count == COMMITS)
        world_fail("more than %d commits", COMMITS);
    world.commits[count].number = number;
    world.commits[count].at_ns = world_now_ns;
    world.commit_count++;
}

/* In mode batch, a power cut may lose only batches that were younger than SYNC_INTERVAL_MS and a
 * sync when the last process ended; batches that this process loaded at its start count from that
 * start. */
static void check_lost(uint64_t kept)
{
    for (size_t i = 0; i < world.commit_count; i++) {
        uint64_t age_ms = (world.lived_ns - world.commits[i].at_ns) / MS;

        if (world.commits[i].number > kept && age_ms > SYNC_INTERVAL_MS + SYNC_MS)
            world_fail("batch %" PRIu64 " was answered %" PRIu64 " ms before its end, and "
                       "the last one that is left is %" PRIu64,
                       world.commits[i].number, age_ms, kept);
    }
}

/* The store's key as it is now. */
static struct slice read_key(const char *key)
{
    struct engine *e = &world.processes[STORE].server.engine;
    const struct blob *value =
        keymap_get(&engine_find_space(e, slice_str("default"))->store->keys, slice_str(key));

    return value == NULL ? (struct slice){0} : blob_slice(value);
}

/* Each relay must end the clients whose answered changes were lost. The other clients leave,
 * because their later answers cannot be judged. */
static void end_clients(void)
{
    world.is_over = true;
    for (int p = RELAY_A; p <= RELAY_B; p++)
        world.links[p] = world.processes[p].up
                             ? world.processes[p].server.forwards.list[0].relay.stats.links
                             : 0;
    for (unsigned i = 0; i <= CLIENTS; i++) {
        struct scripted *c = &world.clients[i];

        if (c->state == CLIENT_NONE || c->missing != NULL)
            continue;
        if (c->state != CLIENT_ENDED && c->home != STORE)
            c->missing = model_missing(c->id, read_key);
        sums.forgotten += c->missing != NULL;
        if (c->missing != NULL)
            continue;
        if (c->state != CLIENT_ENDED)
            scripted_leave(c);
        c->state = CLIENT_NONE;
    }
}

/* Nothing moves between that relay and the store. */
bool is_parted(int p)
{
    return world_now_ns < world.processes[p].joins_ns && !world.heals;
}

/* Without a power cut nobody is lost since the store has gone back; and else it takes no time, but
 * for that in which the relay cannot hear the store. */
void check_ended(void)
{
    bool waits = false;

    for (int p = RELAY_A; p <= RELAY_B; p++) {
        const struct process *process = &world.processes[p];
        const struct relay *r;

        if (!process->up)
            continue;
        r = &process->server.forwards.list[0].relay;
        if (r->stats.lost[LOST_GONE_BACK] != 0 && !world.is_over)
            world_fail("relay %d says that the store has gone back, and it has not", p);
        for (unsigned i = 0; i <= CLIENTS; i++)
            waits = waits || (r->link && r->stats.links > world.links[p] && !is_parted(p) &&
                              world.clients[i].home == p && world.clients[i].missing != NULL);
    }
    if (!waits)
        world.linked_ns = world_now_ns;
    if (world_now_ns - world.linked_ns < 5000 * MS)
        return;
    for (unsigned i = 0; i <= CLIENTS; i++) {
        if (world.clients[i].missing != NULL)
            world_fail("client %u was told that %s is done, which a power cut has taken; and it is "
                       "not ended",
                       world.clients[i].id, world.clients[i].missing);
    }
}

/* The store must extend deadlines by the whole time for which it was away. */
static void check_away(const struct engine_found *d)
{
    uint64_t away_ms = (world_now_ns - world.ended_ns) / MS;

    if (d->any && world.ended_ns != 0 && d->away_ms + 10 < away_ms)
        world_fail("the store was away for %" PRIu64 " ms, and knows of %" PRIu64, away_ms,
                   d->away_ms);
}

static void check_start(const struct server *s)
{
    check_away(&s->engine.found);
    if (world.has_lost) {
        check_lost(s->engine.committed);
        end_clients();
    }
    world.has_lost = false;
    world.commit_count = 0;
    note_commits(); /* all that is here */
}

static void start(int p)
{
    struct process *process = &world.processes[p];
    int result;

    world_current = p;
    world_is_over[p] = false;
    if (p == STORE && world.faults > 0 && !world.heals && chance(6)) {
        world.faults--;
        sim_disk_fail(world_disk, SIM_DIE, 1 + draw(60), UINT64_MAX);
    }
    result = server_init(&process->server, &configs[world.always][p]);
    process->up = true;
    world_current = OUTSIDE;
    if (p == STORE && world_is_over[STORE])
        kill_store();
    else if (result != 0 && p == STORE && disk_is_full())
        kill_store(); /* it says why, and is started again */
    else if (result != 0)
        world_fail("process %d does not start", p);
    else if (p == STORE)
        check_start(&process->server);
}

static void iterate(int p)
{
    struct process *process = &world.processes[p];

    world_current = p;
    world_may_fail = true;
    process->server.stop = false;
    loop_stop = &process->server.stop;
    if (p != STORE)
        world_resolve(p, !chance(10));
    server_run(&process->server);
    world_may_fail = false;
    world_current = OUTSIDE;
    if (p == STORE && world_is_over[STORE])
        kill_store();
    else if (p == STORE)
        note_commits();
    if (p == STORE && process->up)
        world.lived_ns = world_now_ns;
}

/* True: it had something to do. */
bool step_process(int p)
{
    struct process *process = &world.processes[p];
    bool busy;

    if (!process->up && world_now_ns >= process->starts_ns) {
        start(p);
        return true;
    }
    if (!process->up || world_now_ns < process->slow_ns)
        return false;
    busy = loop_is_ready(process->server.base) || transport_has_work(&process->server.net);
    iterate(p);
    return busy;
}
