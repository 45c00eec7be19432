/* A store, two relays and their clients in one process, under a seed that has time, network, disk,
 * memory and chance in its hands (world.h): the store dies at any call of its disk, loses power, is
 * slow or stopped; the disk fails, or is full for some time; links break at any byte or hang;
 * relays die; memory fails. Whatever happens, clients of a relay see a store that carries out each
 * request once and in order, and forgets no change (relay_model.h). Only a power cut in mode batch
 * may lose the changes of the last 100 ms, and then the relays end each client whose changes were
 * lost. No client is ended without a reason, and at the end the store keeps no session.
 *
 *   sim_relay --seed N --count M [--every] [--at CALL] [--verbose]
 *
 * Runs M worlds beginning with seed N. --every repeats each world for each call of the disk in the
 * store's first life, and lets the store die at this call; --at repeats one of these runs. */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "rdzv/engine/log.h"
#include "rdzv/net/transport.h"
#include "rdzv/relay/link_session.h"
#include "rdzv/server.h"
#include "store/session/session.h"
#include "tests/sim/relay_client.h"
#include "tests/sim/relay_web.h"
#include "tests/support/sim_disk.h"

#define CLIENTS      8
#define STEADY       4
#define ACTIVE_STEPS 500
#define STEPS_MOST   200000
#define MS           UINT64_C(1000000)
#define COMMITS      4000
#define SYNC_MS      50 /* a sync takes no longer */
#define KINDS_EVERY  4  /* of so many worlds, one has legacy clients, and one clients of etcd's */

struct process {
    struct server server;
    bool up;
    uint64_t starts_ns; /* while it is not up */
    uint64_t slow_ns;   /* it does nothing until then */
    uint64_t joins_ns;  /* a relay: nothing moves between it and the store until then */
};

/* One world. */
static struct {
    uint64_t seed, at;
    bool always;             /* --sync=always: power may be cut */
    bool loses;              /* --sync=batch, and power may be cut: then clients go, or are ended */
    bool has_lost, is_over;  /* power was cut; the store is back, and its clients have ended */
    bool legacy;             /* short-lived clients speak as torch 1.9 to 2.0 */
    bool has_webs;           /* there are clients of etcd's API */
    bool heals;              /* no more faults */
    bool may_end[PROCESSES]; /* clients of that process may be ended */
    bool barriers_break;
    bool breaks; /* a link, soon after memory has failed in the store */
    bool begun[CLIENTS];
    unsigned faults, ids;
    uint64_t empties_ns; /* a full disk is emptied then */
    uint64_t lived_ns;   /* the store has done something then */
    uint64_t ended_ns;   /* the store has died or ended then; 0: it has not yet */
    uint64_t empty_ns;   /* the relays have had no session since then */
    uint64_t linked_ns;  /* a relay with clients to end has had a new link since then */
    uint64_t
        links[PROCESSES]; /* of each relay, when the store was back after it had lost something */
    struct process processes[PROCESSES];
    size_t commit_count;
    struct scripted clients[CLIENTS + 1];
    struct {
        uint64_t number, at_ns;
    } commits[COMMITS]; /* of a world that loses */
} world;

static struct scripted *const auditor = &world.clients[CLIENTS];

static struct config configs[2][PROCESSES];

static struct {
    uint64_t worlds, deaths, fills, powers, forgotten, breaks, parts, relays, no_memory,
        disk_faults, stops, leaves, steps;
} sums;

static bool has_webs(uint64_t seed)
{
    return seed % KINDS_EVERY == 1;
}

void world_fail(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    fprintf(stderr, "sim_relay: ");
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\nagain: sim_relay --seed %" PRIu64, world.seed);
    if (world.at != 0)
        fprintf(stderr, " --at %" PRIu64, world.at);
    fprintf(stderr, "\n");
    _exit(1);
}

/* A process that gives up says only where. */
static void on_abort(int number)
{
    (void)number;
    world_fail("it was ended");
}

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

static void configure(void)
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
static void check_understood(int p)
{
    const struct server *s = &world.processes[p].server;

    if (!has_webs(world.seed) && s->engine.stats.dropped[DROP_MALFORMED] != 0)
        world_fail("process %d has taken for malformed what was said to it", p);
}

static void end_process(int p)
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
static void end_disk(void)
{
    if ((world.always || world.loses) && chance(2)) {
        sums.powers++;
        world.has_lost = world.loses;
        sim_disk_cut_power(world_disk);
    } else {
        sim_disk_kill(world_disk);
    }
}

static void kill_store(void)
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
static bool is_parted(int p)
{
    return world_now_ns < world.processes[p].joins_ns && !world.heals;
}

/* Without a power cut nobody is lost since the store has gone back; and else it takes no time, but
 * for that in which the relay cannot hear the store. */
static void check_ended(void)
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
static bool step_process(int p)
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

/* --- Faults. --- */

/* Whom it had failed cannot be told later. */
static void note_memory(void)
{
    world.may_end[STORE] = world.may_end[STORE] || memory_failed() > 0;
}

/* What it costs a client, its relay may not hear of. */
static void fail_memory(void)
{
    int process = chance(2) ? STORE : (int)draw(PROCESSES);

    note_memory();
    memory_fail(process, draw(150), 1 + (chance(3) ? draw(20) : 0));
    sums.no_memory++;
    world.breaks = process == STORE && chance(2);
}

static void break_store(void)
{
    if (chance(4)) {
        if (world.processes[STORE].up)
            kill_store();
    } else {
        sim_disk_fail(world_disk, SIM_DIE, 1 + draw(25), UINT64_MAX);
    }
}

/* It ends as it should. */
static void stop_store(void)
{
    sums.stops++;
    check_understood(STORE);
    world.ended_ns = world_now_ns;
    world_current = STORE;
    server_fini(&world.processes[STORE].server);
    world.processes[STORE].up = false;
    world_is_over[STORE] = true;
    net_sim_kill(STORE);
    world_current = OUTSIDE;
    end_disk();
    world.processes[STORE].starts_ns = world_now_ns + draw(1500) * MS;
}

static void kill_relay(int p)
{
    if (!world.processes[p].up)
        return;
    sums.relays++;
    world.may_end[p] = world.barriers_break = true;
    end_process(p);
    world.processes[p].starts_ns = world_now_ns + draw(1000) * MS;
}

/* While the disk is full, the store takes no changes, and a start fails if it needs room. */
static void fill_disk(void)
{
    sums.fills++;
    world.may_end[STORE] = true;
    world.empties_ns = world_now_ns + draw(5000) * MS;
    disk_fill(draw(2000));
}

static void maybe_empty_disk(void)
{
    if (disk_is_full() && (world.heals || world_now_ns >= world.empties_ns))
        disk_empty();
}

static void cause_fault(void)
{
    int relay = RELAY_A + (int)draw(2);
    uint64_t what = draw(43);

    world.faults--;
    if (what < 14) {
        break_store();
    } else if (what < 22) {
        sums.breaks += net_sim_break(relay);
    } else if (what < 27) {
        sums.parts++;
        net_sim_part(relay, true);
        world.processes[relay].joins_ns = world_now_ns + draw(chance(4) ? 20000 : 500) * MS;
    } else if (what < 30) {
        world.processes[draw(PROCESSES)].slow_ns = world_now_ns + draw(1900) * MS;
    } else if (what < 33) {
        if (world.processes[STORE].up)
            stop_store();
    } else if (what < 35) {
        fail_memory();
    } else if (what < 36) {
        kill_relay(relay);
    } else if (what >= 40) {
        fill_disk();
    } else if (world.always && world.processes[STORE].up) {
        sums.disk_faults++;
        world.may_end[STORE] = true; /* it takes no changes then */
        sim_disk_fail(world_disk, chance(2) ? SIM_EIO : SIM_SHORT, 1 + draw(10), 1 + draw(4));
    }
}

static void break_after_failure(void)
{
    if (!world.breaks || memory_failed() == 0 || !chance(8))
        return;
    world.breaks = false;
    for (int p = RELAY_A; p <= RELAY_B; p++)
        sums.breaks += net_sim_break(p);
}

static void rejoin(int p)
{
    if (!is_parted(p))
        net_sim_part(p, false);
}

/* --- Clients. --- */

static int home_of(unsigned i)
{
    return i < 3 ? RELAY_A : i < 6 ? RELAY_B : STORE;
}

static bool is_steady(unsigned i)
{
    return i % 3 < 2 && i < 6;
}

/* The first client of a steady place is in all barriers, those after it in none. */
static void begin_client(unsigned i)
{
    bool steady = is_steady(i) && !world.begun[i];
    struct scripted *c = &world.clients[i];
    unsigned requests;

    if (world.ids + 1 == IDS)
        return;
    requests = 3 + (unsigned)draw(14);
    if (!(world.legacy && !steady ? scripted_begin_legacy(c, world.ids, home_of(i), requests)
                                  : scripted_begin(c, world.ids, home_of(i), requests, steady)))
        return;
    world.begun[i] = true;
    world.ids++;
}

static void check_end(const struct scripted *c)
{
    if (c->home == STORE || world.may_end[c->home] || c->missing != NULL)
        return;
    note_memory();
    if (world.may_end[STORE])
        return;
    world_fail("client %u of relay %d was ended, and nothing was wrong", c->id, c->home);
}

static bool step_client(unsigned i)
{
    struct scripted *c = &world.clients[i];
    bool moved = scripted_step(c, STEADY);

    if (c->state == CLIENT_ENDED) {
        check_end(c);
        world.barriers_break = world.barriers_break || c->steady;
        c->state = CLIENT_NONE;
        c->missing = NULL;
        return true;
    }
    if (c == auditor || c->missing != NULL)
        return moved;
    if (c->state == CLIENT_NONE && !world.heals && !world.is_over && chance(20))
        begin_client(i);
    if (c->state > CLIENT_GREETS && !c->steady && !world.heals && chance(400)) {
        sums.leaves++;
        scripted_leave(c);
    }
    return moved;
}

/* --- Steps. --- */

static uint64_t earliest(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Nothing can happen before that. */
static void skip_time(void)
{
    uint64_t next = thread_sim_due_ns();

    for (int p = 0; p < PROCESSES; p++) {
        const struct process *process = &world.processes[p];

        if (!process->up)
            next = earliest(next, process->starts_ns);
        else if (process->slow_ns > world_now_ns)
            next = earliest(next, process->slow_ns);
        else
            next = earliest(next, loop_next_ns(process->server.base));
        if (process->joins_ns > world_now_ns)
            next = earliest(next, process->joins_ns);
    }
    if (disk_is_full() && world.empties_ns > world_now_ns)
        next = earliest(next, world.empties_ns);
    if (next == UINT64_MAX)
        world_fail("nothing will ever happen");
    if (next > world_now_ns)
        world_now_ns = next;
}

static bool step_thread(void)
{
    bool moved = thread_sim_step();

    if (world.processes[STORE].up && world_is_over[STORE])
        kill_store();
    return moved;
}

/* Whoever watches, or has asked for nothing, should not notice that the store has gone. */
static void check_web_end(unsigned i)
{
    int home = web_home(i);

    note_memory();
    if (home != STORE && !world.may_end[home] && !world.may_end[STORE])
        world_fail("web %u of relay %d was ended, and nothing was wrong", i, home);
}

static bool step_some_web(void)
{
    unsigned from = (unsigned)draw(WEBS);

    for (unsigned i = 0; i < WEBS; i++) {
        unsigned at = (from + i) % WEBS;
        enum web_news news;

        if (!world.heals && chance(400)) {
            web_leave(at);
            return true;
        }
        news = web_step(at, !world.heals || at >= WEBS / 2);
        if (news == WEB_ENDED)
            check_web_end(at);
        if (news != WEB_NOTHING)
            return true;
    }
    return false;
}

/* One of them that has something to do. */
static bool step_some_client(void)
{
    unsigned from;

    if (world.has_webs && chance(3) && step_some_web())
        return true;
    from = (unsigned)draw(CLIENTS + 1);
    for (unsigned i = 0; i <= CLIENTS; i++) {
        if (step_client((from + i) % (CLIENTS + 1)))
            return true;
    }
    return false;
}

static bool step_some_process(void)
{
    int from = (int)draw(PROCESSES);

    for (int i = 0; i < PROCESSES; i++) {
        if (step_process((from + i) % PROCESSES))
            return true;
    }
    return false;
}

static bool step_kind(uint64_t kind)
{
    switch (kind) {
    case 0:
        return net_sim_move();
    case 1:
        return step_some_client();
    case 2:
        return step_some_process();
    default:
        return step_thread();
    }
}

static void step(void)
{
    uint64_t kind = draw(4);
    bool moved = false;

    world_step++;
    world_now_ns += draw(50000);
    if (world_step > STEPS_MOST)
        world_fail("it comes to no end");
    if (!world.heals && world.faults > 0 && chance(70))
        cause_fault();
    break_after_failure();
    check_ended();
    maybe_empty_disk();
    rejoin(RELAY_A);
    rejoin(RELAY_B);
    for (uint64_t i = 0; i < 4 && !moved; i++)
        moved = step_kind((kind + i) % 4);
    if (!moved)
        skip_time();
}

/* --- A world. --- */

static bool is_done(const struct scripted *c)
{
    return c->missing == NULL && (c->state == CLIENT_NONE || c->state == CLIENT_DONE);
}

static bool all_are_done(void)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct scripted *c = &world.clients[i];

        if (world.barriers_break && c->missing == NULL && c->state == CLIENT_ASKED &&
            c->asked.kind == DO_BARRIER)
            scripted_leave(c);
        if (!is_done(c))
            return false;
    }
    return true;
}

static bool store_takes_changes(void)
{
    struct process *store = &world.processes[STORE];

    return store->up && engine_refuses(&store->server.engine) == NULL;
}

/* Runs until somebody has read everything, over a relay or not. */
static void audit(void)
{
    int home = (int)draw(PROCESSES);

    do {
        while (auditor->state == CLIENT_NONE && !world.is_over) {
            if (store_takes_changes())
                scripted_audit(auditor, IDS - 1, home, world.ids);
            step();
        }
        step();
    } while (auditor->state != CLIENT_DONE && !world.is_over);
    if (auditor->state != CLIENT_NONE && auditor->missing == NULL)
        scripted_leave(auditor);
}

/* What clients of etcd's have seen is judged, and they go. */
static void audit_webs(void)
{
    while (world.has_webs && !web_judge())
        step();
    if (!world.has_webs)
        return;
    for (unsigned i = 0; i < WEBS; i++)
        web_leave(i);
    world.has_webs = false;
}

static void heal(void)
{
    world.heals = true;
    if (!sim_disk_is_dead(world_disk))
        sim_disk_fail(world_disk, SIM_NONE, 0, 0);
    note_memory();
    memory_fail(-1, 0, 0);
    for (int p = 0; p < PROCESSES; p++)
        world.processes[p].slow_ns = 0;
}

static bool store_is_empty(void)
{
    const struct server *s = &world.processes[STORE].server;
    const struct engine_space *space;

    TAILQ_FOREACH(space, &s->engine.spaces, entry) {
        if (engine_session_next(space, NULL) != NULL || space->store->keys.waiters != 0)
            return false;
    }
    return true;
}

static bool relays_are_empty(void)
{
    for (int p = 0; p < PROCESSES; p++) {
        if (!world.processes[p].up ||
            (p != STORE && world.processes[p].server.forwards.list[0].relay.session_count != 0))
            return false;
    }
    return true;
}

/* Counts sessions, dropped ones included, that no relay has closed: their relays may still send
 * frames for them. */
static size_t sessions_in_links(void)
{
    const struct relay_links *links = &world.processes[STORE].server.store.links;
    const struct relay_session *s;
    size_t count = links->sessions.count;

    TAILQ_FOREACH(s, &links->detached, entry)
        count--;
    TAILQ_FOREACH(s, &links->dropped, returns)
        count -= s->link == NULL;
    return count;
}

/* The store keeps no session for a connected relay that has no clients. */
static void check_links(void)
{
    if (!relays_are_empty() || sessions_in_links() == 0)
        world.empty_ns = world_now_ns;
    else if (world_now_ns - world.empty_ns > 3000 * MS)
        world_fail("%zu sessions stay that no relay has any more", sessions_in_links());
}

static bool nothing_is_left(void)
{
    return auditor->missing == NULL && relays_are_empty() && store_is_empty() &&
           world.processes[STORE].server.store.links.sessions.count == 0;
}

static void begin_world(uint64_t seed, uint64_t at)
{
    memset(&world, 0, offsetof(__typeof__(world), clients));
    for (unsigned i = 0; i <= CLIENTS; i++) {
        world.clients[i].state = CLIENT_NONE;
        world.clients[i].missing = NULL;
    }
    world.seed = seed;
    world.at = at;
    world_seed(seed);
    world_now_ns = world.linked_ns = 1000000 * MS;
    world_step = 0;
    net_sim_reset();
    thread_sim_reset();
    memory_fail(-1, 0, 0);
    model_reset(STEADY);
    for (int p = 0; p < PROCESSES; p++)
        world_is_over[p] = true;
    world.legacy = seed % KINDS_EVERY == KINDS_EVERY - 1;
    world.always = chance(2);
    world.loses = !world.always && chance(4);
    world.has_webs = has_webs(seed) && !world.loses;
    if (world.has_webs)
        web_reset();
    world.faults = at != 0 ? 0 : (unsigned)draw(6);
    disk_new(draw(UINT64_MAX));
    if (at != 0 && at != UINT64_MAX)
        sim_disk_fail(world_disk, SIM_DIE, at, UINT64_MAX);
    for (int p = 0; p < PROCESSES; p++)
        world.processes[p].starts_ns = world_now_ns + (chance(3) ? draw(500) * MS : 0);
}

static void end_world(void)
{
    for (int p = 0; p < PROCESSES; p++) {
        world_current = p;
        check_understood(p);
        server_fini(&world.processes[p].server);
        world_is_over[p] = true;
        net_sim_kill(p);
    }
    world_current = OUTSIDE;
    for (int i = 0; i < ACCOUNT_KINDS; i++) {
        if (account.bytes[i] != 0)
            world_fail("%zu bytes are left of %s", account.bytes[i],
                       account_kind_name((enum account_kind)i));
    }
    if (net_sim_count() != 0)
        world_fail("%zu connections are left", net_sim_count());
    sums.steps += world_step;
    sums.worlds++;
}

/* Returns the calls of the disk in the store's first life, if it has not died. */
static uint64_t run_world(uint64_t seed, uint64_t at)
{
    uint64_t calls;

    begin_world(seed, at);
    while (world_step < ACTIVE_STEPS)
        step();
    calls = sim_disk_calls(world_disk);
    heal();
    audit();
    while (!all_are_done())
        step();
    if (chance(2) && world.processes[STORE].up)
        kill_store();
    audit();
    audit_webs();
    if (!world.is_over)
        model_judge();
    while (!all_are_done()) /* the last death may have been a power cut */
        step();
    for (unsigned i = 0; i < CLIENTS; i++) {
        if (world.clients[i].state == CLIENT_DONE)
            scripted_leave(&world.clients[i]);
    }
    for (world.empty_ns = world_now_ns; !nothing_is_left(); check_links())
        step();
    end_world();
    return calls;
}

static void run_every(uint64_t seed)
{
    uint64_t calls = run_world(seed, UINT64_MAX);

    for (uint64_t at = 1; at <= calls; at++)
        run_world(seed, at);
}

/* Looking at the clock changes what happens: the log does not. */
static uint64_t log_time(void)
{
    return world_now_ns / MS;
}

static void begin_log(void)
{
    const struct log_options log = {.format = LOG_FORMAT_LOGFMT,
                                    .level =
                                        world_tells ? LOG_DEBUG : (enum log_level)(LOG_ERROR + 1),
                                    .fd = 2,
                                    .now_ms = log_time};

    log_init(&log);
}

static void print_sums(void)
{
    printf(
        "sim_relay: %" PRIu64 " worlds, %" PRIu64 " steps; the store died %" PRIu64
        " times (%" PRIu64 " of them by power, with what %" PRIu64
        " clients were told) and was stopped %" PRIu64 " times; %" PRIu64 " links broken, %" PRIu64
        " hung; relays died %" PRIu64 " times; memory failed in %" PRIu64 ", the disk in %" PRIu64
        ", and was full in %" PRIu64 "; %" PRIu64 " clients left\n",
        sums.worlds, sums.steps, sums.deaths, sums.powers, sums.forgotten, sums.stops, sums.breaks,
        sums.parts, sums.relays, sums.no_memory, sums.disk_faults, sums.fills, sums.leaves);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'}, {"count", required_argument, NULL, 'c'},
        {"at", required_argument, NULL, 'a'},   {"every", no_argument, NULL, 'e'},
        {"verbose", no_argument, NULL, 'v'},    {NULL, 0, NULL, 0}};
    uint64_t seed = 1, count = 1, at = 0;
    bool every = false;
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 's')
            seed = strtoull(optarg, NULL, 10);
        else if (c == 'c')
            count = strtoull(optarg, NULL, 10);
        else if (c == 'a')
            at = strtoull(optarg, NULL, 10);
        else if (c == 'e')
            every = true;
        else if (c == 'v')
            world_tells = true;
        else
            return 2;
    }
    signal(SIGABRT, on_abort);
    begin_log();
    configure();
    for (uint64_t i = 0; i < count; i++) {
        if (every)
            run_every(seed + i);
        else
            run_world(seed + i, at);
        if (i % 10000 == 9999)
            print_sums();
    }
    print_sums();
    return 0;
}
