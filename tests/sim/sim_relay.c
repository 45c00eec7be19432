/* A store, two relays and their clients run in one process. A seed decides time, network, disk,
 * memory and chance (world.h). Faults: the store dies at any call of its disk, loses power, is slow
 * or stops; the disk fails or is full; links hang, or break at any byte; relays die; memory fails.
 * The clients of a relay must see a store that executes each request once and in order, and keeps
 * each change (relay_model.h). Only a power cut with --sync=batch may lose the changes of the last
 * 100 ms; then the relays must end each client that made a lost change. They end no other client
 * without a reason. At the end, the store must have no session.
 *
 *   sim_relay --seed N --count M [--every] [--at CALL] [--verbose]
 *
 * Runs M worlds, from seed N on. --every counts the calls of the disk in the store's first life,
 * and repeats each world once for each call, at which the store dies; --at repeats one of these
 * runs. */
#include "tests/sim/relay_sim.h"

#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "rdzv/engine/log.h"
#include "rdzv/net/transport.h"
#include "rdzv/relay/link_session.h"
#include "store/session/session.h"
#include "tests/sim/relay_web.h"
#include "tests/support/sim_disk.h"

struct relay_world world;
struct relay_sums sums;

static struct scripted *const auditor = &world.clients[CLIENTS];

bool has_webs(uint64_t seed)
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

/* After a failed assertion: the message of assert() lacks the seed. */
static void on_abort(int number)
{
    (void)number;
    world_fail("it was ended");
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

/* Steps a random client, or every client with work: ranks of a job often send requests together. */
static bool step_some_client(void)
{
    bool moved = false, all;
    unsigned from;

    if (world.has_webs && chance(3) && step_some_web())
        return true;
    from = (unsigned)draw(CLIENTS + 1);
    all = chance(4);
    for (unsigned i = 0; i <= CLIENTS && (all || !moved); i++)
        moved = step_client((from + i) % (CLIENTS + 1)) || moved;
    return moved;
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

    return store->up && store->server.engine.refusal == NULL;
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
    TAILQ_FOREACH(s, &links->dropped, waiting)
        count -= !s->is_in_link;
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
    printf("sim_relay: %" PRIu64 " worlds, %" PRIu64 " steps; the store died %" PRIu64
           " times (%" PRIu64 " of them by power, with what %" PRIu64
           " clients were told) and was stopped %" PRIu64 " times; %" PRIu64
           " links broken, %" PRIu64 " hung; relays died %" PRIu64
           " times; memory failed in %" PRIu64 ", the disk in %" PRIu64 ", and was full in %" PRIu64
           "; %" PRIu64 " clients left; %" PRIu64 " reads were shared\n",
           sums.worlds, sums.steps, sums.deaths, sums.powers, sums.forgotten, sums.stops,
           sums.breaks, sums.parts, sums.relays, sums.no_memory, sums.disk_faults, sums.fills,
           sums.leaves, sums.shared);
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
