/* Jobs of model agents under faults, against the policy of rendezvous, in simulated time.
 *
 *     sim_rendezvous [--seed S] [--count N] [--defaults | --bare] [--verbose]
 *
 * Each sequence is one or two jobs whose nodes join, leave, crash, freeze, lose their network or
 * their connection, close the run and begin it again, while rdzvd stands still, or ends, by itself
 * or killed, and begins anew from its keys. The nodes of some jobs have relays: these lose rdzvd
 * and come back, in time or too late, after they were taken for dead or not, or are lost with all
 * that they know. After each event:
 *  - no two worlds of one run live at the same time, but for as long as a node takes to notice;
 *  - the ranks of a round are unique, and all its workers use one store, as no other round's do;
 *  - each request is answered once, or held with a deadline, and what is held goes on;
 *  - the view of a run is what one would be that is made from the keys (model_space.c).
 * After the last fault all nodes that live are in one completed round within SETTLE_MS, or later by
 * as much as clocks are wrong where dead nodes are not taken out. A stall of jobs at rest ends no
 * round.
 *
 * The settings are the seed's, or the daemon's own, or those without what ends torch's waits.
 *
 * A sequence of seed S is run again with --seed S --count 1; --verbose tells what happens. */
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/model_agent.h"
#include "tests/sim/model_space.h"

#define PODS           6 /* of one run, at most */
#define FAULTS_MAX     5
#define FIRST_MS       1000000
#define WALL_US        INT64_C(1790000000000000)
#define LATENCY_MS     8    /* at most, in one direction */
#define STALL_LEAST    5000 /* what the daemon calls a stall, as in the shell */
#define SETTLE_MS      150000
#define WRONG_CLOCK_MS 120000 /* by so much some clocks are wrong */
#define STEADY_MS      1500
#define SPLIT_MS       4000  /* how long a node takes to notice that it was replaced */
#define QUEUED_MS      8000  /* how long a request is held by the queue, at most */
#define WORKERS_MS     2000  /* how long workers load torch before they come */
#define GONE_MS        30000 /* when the daemon notices that a host is gone */
#define SESSION_MS     60000 /* for how long the daemon keeps the session of a relay that is away */
#define RETURN_MS      3000 /* the same, and takes its agent for alive, if it has closed its link */
#define NEVER          UINT64_MAX
#define ORPHANS_MAX    64
#define LINKS_MAX      (MODEL_RUNS * PODS + ORPHANS_MAX)

#define CONNECTION_LOST "its connection was lost"

enum net { NET_IDLE, NET_SENT, NET_HELD, NET_ANSWERED };

/* A place where an agent runs, and what is between it and the daemon. */
struct pod {
    struct model_agent agent;
    struct model_link *link;
    struct job *job;
    char name[8];
    bool wanted;   /* it is started again when it fails */
    bool is_known; /* the daemon has served its agent */
    uint64_t restart_ms;
    uint64_t frozen_until_ms, cut_until_ms;
    uint64_t away_since_ms, away_until_ms; /* its relay has no daemon; 0: it has */
    uint64_t reachable_since_ms;
    uint64_t give_up_ms; /* its relay has closed the link, and it is taken for dead then; 0: it has
                            not, or it is already */

    enum net net;
    uint64_t due_ms;
    uint64_t asked_ms;
    uint8_t *answer;
    size_t answer_len;
    bool answer_absent;

    bool training;
    uint64_t world;        /* the incarnation of the run and the round */
    uint64_t worker_store; /* that its workers use; 0: they have not come yet, or have their own */
    uint64_t break_ms;     /* its workers fail then, since others of their world are gone */
};

struct job {
    struct model_run *run;
    struct model_settings settings;
    struct pod pods[PODS];
    size_t pod_count;
    bool has_relays;    /* one at each pod */
    bool relays_return; /* they outlive the daemon, and its agents with them */
    uint64_t split_since_ms;
    uint64_t again_ms; /* the job is done, and begins again then */
};

/* Connections whose peer is gone, until the daemon notices. */
struct orphan {
    struct model_link *link;
    uint64_t until_ms;
    uint64_t give_up_ms; /* as in a pod */
};

static struct sim {
    struct model_space space;
    struct job jobs[MODEL_RUNS];
    size_t job_count;
    struct orphan orphans[ORPHANS_MAX];
    size_t orphan_count;
    uint64_t seed, random;
    uint64_t tick_ms, fault_ms, stalled_until_ms, stalled_since_ms;
    bool has_ended; /* the daemon does not stand still: it begins again then */
    bool agents_return;
    bool sessions_lost; /* with their relays, before it began */
    uint64_t
        returned_ms; /* the sessions of before its beginning are here or lost then; 0: they are */
    uint64_t last_fault_ms, steady_since_ms;
    uint64_t
        rounds_before; /* the last fault was a stall of jobs at rest: no round is to end by it */
    bool was_at_rest;
    int faults_left;
    bool verbose;
    const struct policy_settings *fixed; /* instead of those of the seed; NULL: none */
} sim;

#define SETTLE_BUCKETS 8

static const uint64_t settle_bounds_s[SETTLE_BUCKETS] = {1, 2, 4, 8, 16, 32, 64, SETTLE_MS / 1000};

static struct {
    uint64_t sequences, steps, settle_most_ms, faults, looks_shown;
    uint64_t settled[SETTLE_BUCKETS]; /* how soon after the last fault */
    struct policy_counters counters;
} totals;

/* --- Chance, and telling. --- */

static uint64_t draw(uint64_t n)
{
    uint64_t z = sim.random += 0x9e3779b97f4a7c15u; /* splitmix64 */

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % n;
}

static uint64_t now(void)
{
    return sim.space.now.ms;
}

static int64_t wall_us(void)
{
    return sim.space.now.wall_ns / 1000;
}

static void print(FILE *to, const char *format, va_list list)
{
    fprintf(to, "%8.3f ", (double)(now() - FIRST_MS) / 1000);
    vfprintf(to, format, list);
    fputc('\n', to);
}

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
    va_list list;

    if (!sim.verbose)
        return;
    va_start(list, format);
    print(stdout, format, list);
    va_end(list);
}

__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...)
{
    va_list list;

    fflush(stdout);
    fprintf(stderr, "sim_rendezvous --seed %" PRIu64 " --count 1 --verbose: ", sim.seed);
    va_start(list, format);
    print(stderr, format, list);
    va_end(list);
    exit(1);
}

/* --- The network. --- */

static bool is_reachable(const struct pod *p)
{
    return p->frozen_until_ms <= now() && p->cut_until_ms <= now() && p->away_until_ms <= now() &&
           sim.stalled_until_ms <= now();
}

/* For how long it has been, when it is. */
static uint64_t reachable_for(const struct pod *p)
{
    uint64_t since = p->reachable_since_ms;
    const uint64_t ends[] = {p->frozen_until_ms, p->cut_until_ms, p->away_until_ms,
                             sim.stalled_until_ms};

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        since = ends[i] > since ? ends[i] : since;
    return now() - since;
}

static void orphan(struct model_link *link, uint64_t after_ms, uint64_t give_up_ms)
{
    if (link == NULL)
        return;
    if (sim.orphan_count == sizeof sim.orphans / sizeof *sim.orphans)
        fail("too many connections without a peer");
    link->owner = NULL;
    sim.orphans[sim.orphan_count++] = (struct orphan){link, now() + after_ms, give_up_ms};
}

static void leave_world(struct pod *p)
{
    if (!p->training)
        return;
    p->training = false;
    p->break_ms = 0;
    for (size_t i = 0; i < p->job->pod_count; i++) {
        struct pod *other = &p->job->pods[i];

        if (other->training && other->world == p->world && other->break_ms == 0)
            other->break_ms = now() + 1000 + draw(7000);
    }
}

static void clear_net(struct pod *p)
{
    free(p->answer);
    p->answer = NULL;
    p->net = NET_IDLE;
}

/* The process ends; the daemon notices after `notice_ms`. */
static void end_pod(struct pod *p, uint64_t notice_ms)
{
    leave_world(p);
    orphan(p->link, notice_ms, 0);
    p->link = NULL;
    clear_net(p);
    model_agent_stop(&p->agent);
    p->frozen_until_ms = p->cut_until_ms = 0;
    p->away_since_ms = p->away_until_ms = p->give_up_ms = 0;
    p->restart_ms = 0;
    p->is_known = false;
}

/* How far its clock is ahead. */
static int64_t any_clock_us(bool relays_return)
{
    int64_t us = (int64_t)draw(600) * 1000 - 300000;
    bool wrong = draw(6) == 0, ahead = draw(2) == 0;

    if (!wrong || relays_return || !sim.space.settings.agent_views ||
        !sim.space.settings.merge_heartbeats)
        return us;
    return us + (ahead ? 1000 : -1000) * WRONG_CLOCK_MS;
}

static void start_pod(struct pod *p)
{
    const struct job *job = p->job;
    int64_t clock_us = any_clock_us(job->relays_return);
    uint64_t first_ms = now() + draw(300);

    end_pod(p, 0);
    p->wanted = true;
    p->link = model_link_new(job->run, p, job->settings.sharing != SHARING_OLD, false);
    p->reachable_since_ms = now();
    model_agent_start(&p->agent, &job->settings, p->name, 100, clock_us, first_ms);
    tell("%s/%s starts, its clock %+.1f s", job->run->key, p->name, (double)clock_us / 1e6);
}

static void on_reply(struct model_link *link, struct slice value)
{
    struct pod *p = link->owner;

    if (p == NULL)
        return;
    free(p->answer);
    p->answer = malloc(value.len + 1);
    if (p->answer == NULL)
        abort();
    if (value.len != 0)
        memcpy(p->answer, value.ptr, value.len);
    p->answer_len = value.len;
    p->answer_absent = value.ptr == NULL;
    p->net = NET_ANSWERED;
    p->due_ms = now() + draw(LATENCY_MS);
}

static void on_resume(struct model_link *link)
{
    struct pod *p = link->owner;

    if (p == NULL)
        return;
    p->net = NET_SENT;
    p->due_ms = now();
}

static void disconnect(struct pod *p, const char *reason)
{
    tell("%s is closed: %s", p->name, reason);
    clear_net(p);
    p->away_since_ms = p->give_up_ms = 0;
    p->agent.request = REQUEST_NONE;
    p->agent.phase = MODEL_FAILED;
    p->agent.failure = reason;
}

static void on_close(struct model_link *link, const char *reason)
{
    if (link->owner != NULL)
        disconnect(link->owner, reason);
}

static void close_job(struct job *job);

/* It is a participant again by the request that it makes: it was taken for dead, and the round that
 * it was in goes on. */
static bool is_put_back(const struct pod *p)
{
    const struct agent *a = &p->link->agent;

    return a->nodes != 0 && a->round == p->job->run->run.view.state.round;
}

/* An agent that ends by an error of its own wants to close the run: only one that is in the newest
 * round may do that to another one that trains, also while that one has yet to come back after a
 * start of the daemon. */
static void close_run(struct pod *p, struct slice expected, struct slice desired)
{
    const struct run_view *v = &p->job->run->run.view;
    const struct torch_node who = {.addr = slice_str(p->name), .pid = 100};
    const struct torch_node *node = torch_state_find(&v->state, &who);
    bool may = v->state.closed || !sim.space.settings.close_from_members ||
               (v->state.complete && ((node != NULL && node->participant) || is_put_back(p)));
    bool dead = false;

    for (size_t i = 0; i < p->job->pod_count && !may; i++) {
        const struct pod *other = &p->job->pods[i];

        if (other == p || other->link == NULL || !other->training || other->agent.errs ||
            other->agent.phase != MODEL_TRAINING ||
            (other->link->agent.nodes == 0 && !agent_is_forgotten(&other->link->agent)))
            continue;
        if (other->link->agent.gone) {
            dead = true; /* it is taken for that, and goes on in vain */
            continue;
        }
        model_compare_set(p->link, expected, desired);
        if (v->state.closed)
            fail("%s closed the run of %s", p->name, other->name);
        return;
    }
    model_compare_set(p->link, expected, desired);
    if ((may || dead) && v->state.closed && p->job->again_ms == 0)
        close_job(p->job); /* who trains still, in this round or before it, has nothing to join */
}

/* A request comes to the daemon. */
static void serve(struct pod *p)
{
    struct model_agent *a = &p->agent;
    struct slice expected;

    p->net = NET_HELD; /* until it is answered */
    p->is_known = true;
    switch (a->request) {
    case REQUEST_COMPARE_SET:
        expected = (struct slice){a->token, a->token_len};
        if (a->phase == MODEL_INTRODUCING)
            model_compare_set(p->link, (struct slice){0}, (struct slice){a->text, a->text_len});
        else if (a->phase == MODEL_CLOSING && a->errs)
            close_run(p, expected, (struct slice){a->text, a->text_len});
        else
            model_compare_set(p->link, expected, (struct slice){a->text, a->text_len});
        break;
    case REQUEST_LOOK:
        model_look(p->link);
        break;
    case REQUEST_SET:
        model_set(p->link, a->round, a->name_of_key, (struct slice){a->text, a->text_len});
        break;
    case REQUEST_READ:
        model_read(p->link, a->round, a->name_of_key);
        break;
    case REQUEST_NONE:
        fail("%s asks for nothing", p->name);
    }
}

/* --- A pod's own life. --- */

static void check_world(const struct pod *p)
{
    for (size_t i = 0; i < p->job->pod_count; i++) {
        const struct pod *other = &p->job->pods[i];

        if (other == p || !other->training)
            continue;
        if (other->world == p->world && other->agent.rank == p->agent.rank)
            fail("%s and %s have rank %" PRId64, p->name, other->name, p->agent.rank);
        if ((other->world == p->world) != (other->worker_store == p->worker_store) &&
            p->worker_store != 0 && other->worker_store != 0)
            fail("%s and %s share a worker store, or do not", p->name, other->name);
        if (other->world == p->world && p->job->settings.sharing == SHARING_ONCE &&
            (strcmp(other->agent.address, p->agent.address) != 0 ||
             strcmp(other->agent.port, p->agent.port) != 0))
            fail("%s and %s have read different addresses", p->name, other->name);
    }
}

static void enter_world(struct pod *p)
{
    p->training = true;
    p->world = p->job->run->incarnation << 32 | (uint64_t)p->agent.round;
    p->worker_store = 0;
    p->break_ms = 0;
    tell("%s trains: round %" PRId64 " rank %" PRId64 " at %s:%s", p->name, p->agent.round,
         p->agent.rank, p->agent.address, p->agent.port);
    check_world(p);
}

/* By what its agent has seen last. */
static bool is_in_round(const struct pod *p)
{
    const struct torch_node who = {.addr = slice_str(p->name), .pid = 100};
    const struct torch_node *own = torch_state_find(&p->agent.state, &who);

    return own != NULL && own->participant;
}

/* Its workers come to the worker store that there is for new sessions. When a network comes back,
 * they may be there before their agent learns that its round is over, and no store can tell them
 * from those of the new round; here the agent is first. */
static void connect_workers(struct pod *p)
{
    const struct view_record *record = &p->job->run->run.view.record;

    if (p->worker_store != 0 || record->placement != WORKER_STORE_RDZVD || !is_in_round(p) ||
        now() - p->agent.entered_ms < WORKERS_MS || !is_reachable(p) ||
        reachable_for(p) < WORKERS_MS)
        return;
    p->worker_store = record->worker_store;
    check_world(p);
}

/* Its workers meet, or their collective fails: an agent that is a participant may be gone. */
static void check_mates(struct pod *p)
{
    size_t mates = 0;

    for (size_t i = 0; i < p->job->pod_count; i++)
        mates += p->job->pods[i].training && p->job->pods[i].world == p->world;
    if (p->break_ms == 0 && !p->agent.workers_failed && now() - p->agent.entered_ms > 8000 &&
        mates < torch_state_participants(&p->job->run->run.view.last_completed) &&
        p->world ==
            (p->job->run->incarnation << 32 | (uint64_t)p->job->run->run.view.last_completed.round))
        p->break_ms = now() + 1;
}

/* With the daemon, or with a relay that does not know yet that the daemon has ended it. */
static bool has_session(const struct pod *p)
{
    return p->link != NULL || p->away_since_ms != 0;
}

/* True: an agent fails like that by the daemon's doing alone. Of a round that was completed before
 * the daemon began, it does not know how many nodes were in it; nor who an agent is that a relay
 * has brought over that, before it writes. */
static bool is_ours(const struct pod *p)
{
    const struct policy_settings *settings = &sim.space.settings;
    const struct run_view *v = &p->job->run->run.view;
    const char *failure = p->agent.failure;

    if (strcmp(failure, MODEL_RANK_TOO_HIGH) == 0)
        return settings->agent_views && settings->merge_heartbeats && settings->drop_disconnected &&
               v->has_completed && p->link != NULL && p->link->agent.has_node &&
               v->last_completed.round == p->agent.round &&
               (int64_t)torch_state_participants(&v->last_completed) > p->agent.rank;
    return strstr(failure, "TypeError") != NULL || strstr(failure, "corrupt") != NULL;
}

static void after_act(struct pod *p)
{
    struct model_agent *a = &p->agent;

    if (p->training && a->phase != MODEL_TRAINING)
        leave_world(p);
    if (!p->training && a->phase == MODEL_TRAINING)
        enter_world(p);
    if (p->training) {
        connect_workers(p);
        check_mates(p);
    }
    if (a->phase == MODEL_FAILED && p->restart_ms == 0) {
        tell("%s failed: %s", p->name, a->failure);
        if (is_ours(p))
            fail("%s: %s", p->name, a->failure);
        leave_world(p);
        orphan(p->link, 0, 0);
        p->link = NULL;
        clear_net(p);
        p->restart_ms = now() + 500 + draw(2500);
    }
    if (a->phase == MODEL_DONE && p->link != NULL) {
        leave_world(p);
        orphan(p->link, 0, 0);
        p->link = NULL;
    }
    if (has_session(p) && a->request != REQUEST_NONE && p->net == NET_IDLE) {
        p->net = NET_SENT;
        p->asked_ms = now();
        p->due_ms = now() + draw(LATENCY_MS);
    }
}

static void take_answer(struct pod *p)
{
    struct slice value = {p->answer, p->answer_len};

    p->net = NET_IDLE;
    if (p->answer_absent && p->agent.request == REQUEST_LOOK && now() - p->asked_ms < 60000) {
        p->net = NET_SENT; /* WAIT lasts until there is a key again */
        p->due_ms = now() + 200;
        return;
    }
    model_agent_answer(&p->agent, p->answer_absent ? (struct slice){0} : value, now(), wall_us());
}

static uint64_t latest(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t most = a > b ? a : b;

    return most > c ? most : c;
}

static uint64_t connected_ms(const struct pod *p)
{
    return latest(p->cut_until_ms, p->away_until_ms, 0);
}

static bool is_connected(const struct pod *p)
{
    return connected_ms(p) <= now();
}

/* Its relay has found the daemon again, which knows the session, or has ended it meanwhile. */
static void end_away(struct pod *p)
{
    p->away_since_ms = p->give_up_ms = 0;
    if (p->link != NULL)
        model_presence(p->link, AGENT_BACK);
    else
        disconnect(p, CONNECTION_LOST);
}

static void run_relay(struct pod *p)
{
    if (p->away_since_ms == 0 || sim.stalled_until_ms > now())
        return;
    if (p->away_until_ms <= now()) {
        end_away(p);
    } else if (p->give_up_ms != 0 && p->give_up_ms <= now()) {
        tell("%s is taken for dead", p->name);
        p->give_up_ms = 0;
        if (p->link != NULL)
            model_presence(p->link, AGENT_GONE);
    }
}

static void run_pod(struct pod *p)
{
    struct model_agent *a = &p->agent;

    run_relay(p);
    if (p->restart_ms != 0 && p->restart_ms <= now() && p->wanted)
        start_pod(p);
    if (p->net == NET_SENT && is_connected(p) && p->due_ms <= now())
        serve(p);
    if (p->frozen_until_ms > now())
        return;
    if (p->break_ms != 0 && p->break_ms <= now() && a->phase == MODEL_TRAINING) {
        tell("%s: its workers fail", p->name);
        a->workers_failed = true;
        a->next_ms = now();
        p->break_ms = 0;
    }
    if (p->net == NET_ANSWERED && is_connected(p) && p->due_ms <= now())
        take_answer(p);
    model_agent_act(a, now(), wall_us());
    after_act(p);
}

/* --- Faults. --- */

static struct pod *any_pod(bool alive)
{
    struct job *job = &sim.jobs[draw(sim.job_count)];
    struct pod *p = &job->pods[draw(job->pod_count)];

    return model_agent_is_alive(&p->agent) == alive ? p : NULL;
}

/* The relay ends, and nobody else knows of its sessions. Its kernel closes the link, or is gone. */
static void lose_relay(struct pod *p)
{
    bool closes = draw(2) == 0;

    tell("%s loses its relay%s", p->name, closes ? ", which closes its link" : "");
    if (p->link != NULL && p->away_since_ms == 0)
        model_presence(p->link, AGENT_AWAY);
    orphan(p->link, SESSION_MS,
           closes && p->away_since_ms == 0 ? now() + RETURN_MS : p->give_up_ms);
    p->link = NULL;
}

static void crash(struct pod *p)
{
    bool comes_back = draw(2) == 0;

    tell("%s crashes%s", p->name, comes_back ? "" : ", for good");
    if (p->job->has_relays && draw(2) == 0)
        lose_relay(p);
    end_pod(p, draw(3) == 0 ? GONE_MS : draw(20));
    p->wanted = comes_back;
    p->restart_ms = now() + 500 + draw(20000);
}

static void freeze(struct pod *p)
{
    uint64_t ms = 1000 + draw(30000);

    tell("%s is frozen for %" PRIu64 " ms", p->name, ms);
    p->frozen_until_ms = now() + ms;
}

static void cut(struct pod *p)
{
    uint64_t ms = 1000 + draw(30000);

    tell("%s is cut off for %" PRIu64 " ms", p->name, ms);
    p->cut_until_ms = now() + ms;
}

static void lose_connection(struct pod *p)
{
    disconnect(p, CONNECTION_LOST);
    after_act(p);
}

static uint64_t any_absence_ms(void)
{
    switch (draw(6)) {
    case 0:
        return SESSION_MS + draw(10000);
    case 1:
    case 2:
        return 100 + draw(2 * RETURN_MS);
    default:
        return 100 + draw(30000);
    }
}

/* The relay and the daemon lose each other: mostly for less than the daemon keeps sessions. */
static void lose_daemon(struct pod *p)
{
    uint64_t ms = any_absence_ms();
    bool closes = draw(2) == 0;

    if (p->away_since_ms != 0 || p->link == NULL)
        return;
    tell("%s's relay %s for %" PRIu64 " ms", p->name, closes ? "closes its link" : "is away", ms);
    model_presence(p->link, AGENT_AWAY);
    p->away_since_ms = now();
    p->away_until_ms = now() + ms;
    p->give_up_ms = closes ? now() + RETURN_MS : 0;
    if (p->net == NET_HELD)
        p->net = NET_SENT; /* again */
}

static void fail_relay(struct pod *p)
{
    if (draw(3) == 0) {
        lose_relay(p);
        lose_connection(p);
    } else {
        lose_daemon(p);
    }
}

static void err(struct pod *p)
{
    tell("%s ends by an error of its own", p->name);
    p->agent.errs = true;
    p->agent.next_ms = now();
}

static void scale_up(struct job *job)
{
    if (job->pod_count == PODS)
        return;
    start_pod(&job->pods[job->pod_count++]);
}

static void close_job(struct job *job)
{
    tell("%s is done", job->run->key);
    for (size_t i = 0; i < job->pod_count; i++) {
        job->pods[i].agent.wants_close = true;
        if (draw(4) == 0)
            job->pods[i].wanted = false;
    }
    job->again_ms = now() + draw(15000);
}

static void begin_again(struct job *job)
{
    tell("%s begins again", job->run->key);
    job->again_ms = 0;
    for (size_t i = 0; i < job->pod_count; i++)
        start_pod(&job->pods[i]);
}

static void stall(void)
{
    uint64_t ms = 500 + draw(40000);

    tell("rdzvd stands still for %" PRIu64 " ms", ms);
    sim.stalled_since_ms = now();
    sim.stalled_until_ms = now() + ms;
}

static void end_orphans(bool all)
{
    for (size_t i = 0; i < sim.orphan_count;) {
        struct orphan *o = &sim.orphans[i];

        if (!all && o->until_ms > now()) {
            if (o->give_up_ms != 0 && o->give_up_ms <= now()) {
                o->give_up_ms = 0;
                model_presence(o->link, AGENT_GONE);
            }
            i++;
            continue;
        }
        model_link_free(o->link);
        sim.orphans[i] = sim.orphans[--sim.orphan_count];
    }
}

static bool all_settled(bool *restless);

/* Nodes meet, or are about to: the workers of a round that has lost one fail; one that waits makes
 * all others meet again, and the next round may be completed with one that is gone, as long as its
 * heartbeat is young. */
static bool does_any_job_meet(void)
{
    for (size_t k = 0; k < sim.job_count; k++) {
        const struct run_view *v = &sim.jobs[k].run->run.view;
        const struct torch_state *s = &v->state;

        if (!s->complete ||
            torch_state_participants(s) != torch_state_participants(&v->last_completed))
            return true;
        for (size_t i = 0; i < s->count; i++) {
            if (s->nodes[i].waiting)
                return true;
        }
    }
    return false;
}

/* A stall alone must not cost any node its place. */
static void stall_at_rest(void)
{
    bool restless, rest = all_settled(&restless);

    sim.was_at_rest = rest && !restless && !does_any_job_meet();
    sim.rounds_before = sim.space.counters.rounds_completed;
    stall();
}

/* The agents of a run are ended with it, as far as they have asked since the daemon began. */
static void forget_job(struct job *job)
{
    for (size_t i = 0; i < job->pod_count; i++) {
        if (job->relays_return && has_session(&job->pods[i]) &&
            (job->pods[i].link == NULL || !job->pods[i].link->bound))
            return;
    }
    tell("%s is forgotten on request", job->run->key);
    model_forget(job->run);
}

/* What its connections were to the daemon that ends: agents behind relays open them again. */
static void reconnect(struct pod *p)
{
    if (p->link == NULL)
        return;
    p->link = NULL;
    if (!p->job->relays_return) {
        lose_connection(p);
        return;
    }
    p->link = model_link_new(p->job->run, p, p->job->settings.sharing != SHARING_OLD, p->is_known);
    if (p->away_since_ms != 0)
        p->away_since_ms = sim.stalled_until_ms;
    p->give_up_ms = 0;
    if (p->net == NET_HELD || p->net == NET_SENT) {
        p->net = NET_SENT;
        p->due_ms = sim.stalled_until_ms + draw(2000);
    }
}

static size_t all_links(struct model_link *links[LINKS_MAX])
{
    size_t n = 0;

    for (size_t k = 0; k < sim.job_count; k++) {
        for (size_t i = 0; i < sim.jobs[k].pod_count; i++) {
            if (sim.jobs[k].pods[i].link != NULL)
                links[n++] = sim.jobs[k].pods[i].link;
        }
    }
    for (size_t i = 0; i < sim.orphan_count; i++)
        links[n++] = sim.orphans[i].link;
    sim.orphan_count = 0;
    return n;
}

static bool is_to_return(const struct model_link *link)
{
    return link->bound && sim.jobs[link->run - sim.space.runs].relays_return;
}

/* What the next daemon knows of its sessions. */
static void note_sessions(struct model_link *const *links, size_t count)
{
    bool any = false, lost = false;

    for (size_t i = 0; i < count; i++) {
        any = any || is_to_return(links[i]);
        lost = lost || (links[i]->owner == NULL && is_to_return(links[i]));
    }
    sim.agents_return = any || (sim.agents_return && sim.returned_ms != 0);
    sim.sessions_lost = lost || (sim.sessions_lost && sim.returned_ms != 0);
}

/* A daemon that ends and comes back must not cost a node its place whose relay has kept it. */
static void end_daemon(void)
{
    bool restless, rest = all_settled(&restless), killed = draw(2) == 0;
    uint64_t ms = draw(2) == 0 ? draw(1000) : draw(20000);
    struct model_link *links[LINKS_MAX];
    size_t count = all_links(links);

    tell("rdzvd %s, for %" PRIu64 " ms", killed ? "is killed" : "ends", ms);
    sim.was_at_rest = rest && !restless && !does_any_job_meet();
    sim.rounds_before = sim.space.counters.rounds_completed;
    note_sessions(links, count);
    model_end(&sim.space, links, count, killed);
    sim.has_ended = true;
    sim.stalled_since_ms = now();
    sim.stalled_until_ms = now() + ms;
    for (size_t k = 0; k < sim.job_count; k++) {
        sim.was_at_rest = sim.was_at_rest && sim.jobs[k].relays_return;
        for (size_t i = 0; i < sim.jobs[k].pod_count; i++)
            reconnect(&sim.jobs[k].pods[i]);
    }
}

static void fault(void)
{
    struct job *job = &sim.jobs[draw(sim.job_count)];
    struct pod *p = any_pod(true);

    sim.was_at_rest = false;
    switch (draw(14)) {
    case 0:
    case 1:
        if (p != NULL)
            crash(p);
        break;
    case 2:
        if (p != NULL)
            freeze(p);
        break;
    case 3:
        if (p != NULL)
            cut(p);
        break;
    case 4:
        if (p != NULL)
            lose_connection(p);
        break;
    case 5:
        if (p != NULL && p->training)
            p->break_ms = now() + 1;
        break;
    case 6:
        scale_up(job);
        break;
    case 7:
        close_job(job);
        break;
    case 8:
        stall_at_rest();
        break;
    case 9:
        end_daemon();
        break;
    case 10:
        forget_job(job);
        break;
    case 11:
        if (p != NULL)
            err(p);
        break;
    case 12:
    case 13:
        if (p != NULL && p->job->has_relays)
            fail_relay(p);
        break;
    }
    totals.faults++;
    sim.last_fault_ms = now();
    if (--sim.faults_left > 0)
        sim.fault_ms = now() + 200 + draw(draw(2) == 0 ? 2000 : 25000);
}

/* --- Checks. --- */

static void check_ranks(const struct job *job)
{
    const struct torch_state *s = &job->run->run.view.state;

    for (size_t i = 0; s->complete && i < s->count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (s->nodes[i].participant && s->nodes[k].participant &&
                s->nodes[i].rank == s->nodes[k].rank)
                fail("rank %" PRId64 " is there twice", s->nodes[i].rank);
        }
    }
}

static bool is_live(const struct pod *p)
{
    return p->training && is_reachable(p) && reachable_for(p) >= SPLIT_MS;
}

static void check_worlds(struct job *job)
{
    const struct pod *first = NULL;

    for (size_t i = 0; i < job->pod_count; i++) {
        const struct pod *p = &job->pods[i];

        if (!is_live(p))
            continue;
        if (first == NULL)
            first = p;
        if (p->world == first->world)
            continue;
        if (job->split_since_ms == 0)
            job->split_since_ms = now();
        if (now() - job->split_since_ms > SPLIT_MS)
            fail("%s trains in round %" PRId64 " and %s in round %" PRId64, first->name,
                 first->agent.round, p->name, p->agent.round);
        return;
    }
    job->split_since_ms = 0;
}

static void check_held(const struct pod *p)
{
    const struct model_link *link = p->link;
    const struct run *run = &p->job->run->run;
    uint64_t since;

    if (link == NULL || !link->held)
        return;
    since = link->held_since_ms;
    if (sim.stalled_until_ms > since)
        since = sim.stalled_until_ms;
    if (link->agent.queued && (run->slot.holder == NULL || run->slot.deadline_ms == 0 ||
                               p->job->run->timer_ms != run->slot.deadline_ms))
        fail("%s is queued, and no timer runs", p->name);
    if (link->agent.queued && now() > since && now() - since > QUEUED_MS)
        fail("%s has been queued for too long", p->name);
    if (link->agent.waiting && now() > since &&
        now() - since > sim.space.settings.closed_run_wait_ms + 2000)
        fail("%s has waited for a closed run for too long", p->name);
}

static void check_job(struct job *job)
{
    check_ranks(job);
    check_worlds(job);
    for (size_t i = 0; i < job->pod_count; i++)
        check_held(&job->pods[i]);
}

/* All nodes that live are in one completed round, or spare. *restless: there are spare ones, and
 * then torch may never come to rest: a node that waits while MAX others complete a round goes on
 * waiting, which makes them leave it. */
static bool is_settled(const struct job *job, bool *restless)
{
    const struct torch_state *s = &job->run->run.view.state;
    size_t alive = 0, in = 0;

    for (size_t i = 0; i < job->pod_count; i++) {
        const struct pod *p = &job->pods[i];
        const struct torch_node who = {.addr = slice_str(p->name), .pid = 100};
        const struct torch_node *node = torch_state_find(s, &who);

        if (!is_reachable(p) || (p->wanted && !model_agent_is_alive(&p->agent)))
            return false;
        alive += model_agent_is_alive(&p->agent);
        in += p->training && p->break_ms == 0 && !p->agent.workers_failed && !p->agent.errs &&
              node != NULL && node->participant && node->rank == p->agent.rank && s->complete &&
              s->round == p->agent.round;
    }
    if (job->again_ms != 0)
        return false;
    *restless = *restless || alive > job->settings.max_nodes;
    if (alive < job->settings.min_nodes)
        return in == 0;
    return in == (alive < job->settings.max_nodes ? alive : job->settings.max_nodes) &&
           torch_state_participants(s) == in;
}

static void tell_state(const struct job *job)
{
    const struct torch_state *s = &job->run->run.view.state;

    fprintf(stderr, "%s: round %" PRId64 "%s%s, %zu to %zu nodes\n", job->run->key, s->round,
            s->complete ? ", complete" : "", s->closed ? ", closed" : "", job->settings.min_nodes,
            job->settings.max_nodes);
    for (size_t i = 0; i < job->pod_count; i++) {
        const struct pod *p = &job->pods[i];
        const struct torch_node who = {.addr = slice_str(p->name), .pid = 100};
        const struct torch_node *node = torch_state_find(s, &who);

        fprintf(stderr, "  %s: phase %d, request %d, net %d, round %" PRId64 ", in the state: %s\n",
                p->name, p->agent.phase, p->agent.request, p->net, p->agent.round,
                node == NULL        ? "no"
                : node->participant ? "participant"
                : node->waiting     ? "waiting"
                                    : "spare or gone");
    }
}

/* --- Time. --- */

static void earlier(uint64_t *next, uint64_t at)
{
    if (at != 0 && at < *next)
        *next = at;
}

static uint64_t pod_next_ms(const struct pod *p)
{
    uint64_t next = NEVER;

    if (p->wanted)
        earlier(&next, p->restart_ms);
    if (p->net == NET_SENT)
        earlier(&next, latest(p->due_ms, connected_ms(p), sim.stalled_until_ms));
    else if (p->net == NET_ANSWERED)
        earlier(&next, latest(p->due_ms, connected_ms(p), p->frozen_until_ms));
    if (!has_session(p))
        return next;
    if (p->away_since_ms != 0)
        earlier(&next, latest(p->away_until_ms, sim.stalled_until_ms, 0));
    if (p->give_up_ms != 0)
        earlier(&next, latest(p->give_up_ms, sim.stalled_until_ms, 0));
    if (p->net == NET_IDLE)
        earlier(&next, latest(p->agent.next_ms, p->frozen_until_ms, 0));
    if (p->break_ms != 0)
        earlier(&next, latest(p->break_ms, p->frozen_until_ms,
                              p->net == NET_SENT ? sim.stalled_until_ms : 0));
    return next;
}

static uint64_t next_ms(void)
{
    uint64_t next = sim.faults_left > 0 ? latest(sim.fault_ms, sim.stalled_until_ms, 0) : NEVER;

    if (sim.stalled_until_ms > now()) {
        earlier(&next, sim.stalled_until_ms);
    } else {
        earlier(&next, sim.tick_ms);
        earlier(&next, model_next_ms(&sim.space));
        earlier(&next, sim.returned_ms);
        for (size_t i = 0; i < sim.orphan_count; i++) {
            earlier(&next, sim.orphans[i].until_ms);
            earlier(&next, sim.orphans[i].give_up_ms);
        }
    }
    for (size_t k = 0; k < sim.job_count; k++) {
        earlier(&next, sim.jobs[k].again_ms);
        for (size_t i = 0; i < sim.jobs[k].pod_count; i++)
            earlier(&next, pod_next_ms(&sim.jobs[k].pods[i]));
    }
    return next > now() ? next : now() + 1;
}

static void advance(uint64_t to)
{
    sim.space.now.wall_ns += (int64_t)(to - now()) * 1000000;
    sim.space.now.ms = to;
}

/* The daemon goes on: it tells all runs how long it stood still before it serves any agent. */
static void end_stall(void)
{
    uint64_t ms = now() - sim.stalled_since_ms;

    if (sim.stalled_since_ms == 0 || sim.stalled_until_ms > now())
        return;
    sim.stalled_since_ms = 0;
    if (sim.has_ended) {
        sim.has_ended = false;
        sim.returned_ms = sim.agents_return ? now() + SESSION_MS : 0;
        model_begin_again(&sim.space, ms, sim.agents_return);
    } else if (ms >= STALL_LEAST) {
        model_stalled(&sim.space, ms);
    }
}

/* Those of relays that have been away for too long. */
static void end_sessions(void)
{
    for (size_t k = 0; k < sim.job_count; k++) {
        for (size_t i = 0; i < sim.jobs[k].pod_count; i++) {
            struct pod *p = &sim.jobs[k].pods[i];

            if (p->away_since_ms == 0 || p->link == NULL || now() - p->away_since_ms < SESSION_MS)
                continue;
            tell("the session of %s has ended", p->name);
            model_link_free(p->link);
            p->link = NULL;
        }
    }
}

static bool is_missing(const struct model_link *link)
{
    return link != NULL && link->agent.returns && !link->bound;
}

/* Of an agent it is known as soon as it asks for something. */
static bool is_any_missing(void)
{
    for (size_t k = 0; k < sim.job_count; k++) {
        for (size_t i = 0; i < sim.jobs[k].pod_count; i++) {
            if (is_missing(sim.jobs[k].pods[i].link))
                return true;
        }
    }
    for (size_t i = 0; i < sim.orphan_count; i++) {
        if (is_missing(sim.orphans[i].link))
            return true;
    }
    return sim.sessions_lost;
}

static void note_returned(void)
{
    if (sim.returned_ms == 0 || (sim.returned_ms > now() && is_any_missing()))
        return;
    sim.returned_ms = 0;
    sim.sessions_lost = false;
    model_returned(&sim.space);
}

static void run_daemon(void)
{
    end_stall();
    if (sim.stalled_until_ms > now())
        return;
    end_orphans(false);
    end_sessions();
    model_run_due(&sim.space);
    if (sim.tick_ms <= now()) {
        note_returned();
        model_tick(&sim.space);
        sim.tick_ms = now() + 1000;
    }
}

static void run_pods(void)
{
    for (size_t k = 0; k < sim.job_count; k++) {
        struct job *job = &sim.jobs[k];

        if (job->again_ms != 0 && job->again_ms <= now())
            begin_again(job);
        for (size_t i = 0; i < job->pod_count; i++) {
            struct pod *p = &job->pods[i];
            bool stalled = sim.stalled_until_ms > now();

            if (!is_reachable(p))
                p->reachable_since_ms = now();
            if (stalled && p->net == NET_SENT)
                continue;
            run_pod(p);
        }
    }
}

static bool all_settled(bool *restless)
{
    *restless = false;
    if (sim.stalled_until_ms > now())
        return false;
    for (size_t k = 0; k < sim.job_count; k++) {
        if (!is_settled(&sim.jobs[k], restless))
            return false;
    }
    return true;
}

static uint64_t settle_most_ms(void)
{
    return SETTLE_MS + (sim.space.settings.drop_disconnected ? 0 : WRONG_CLOCK_MS);
}

/* True: it goes on. */
static bool step(void)
{
    bool restless;

    run_daemon();
    run_pods();
    for (size_t k = 0; k < sim.job_count; k++)
        check_job(&sim.jobs[k]);
    if (!all_settled(&restless) || sim.faults_left > 0)
        sim.steady_since_ms = 0;
    else if (sim.steady_since_ms == 0)
        sim.steady_since_ms = now();
    if (sim.steady_since_ms != 0 && (restless || now() - sim.steady_since_ms >= STEADY_MS))
        return false;
    if (sim.faults_left == 0 && now() - sim.last_fault_ms > settle_most_ms()) {
        for (size_t k = 0; k < sim.job_count; k++)
            tell_state(&sim.jobs[k]);
        fail("not all nodes are in a round %" PRIu64 " s after the last fault",
             settle_most_ms() / 1000);
    }
    advance(next_ms());
    if (sim.faults_left > 0 && sim.fault_ms <= now() && sim.stalled_since_ms == 0)
        fault();
    return true;
}

/* --- Sequences. --- */

static void begin_job(struct job *job, struct model_run *run)
{
    size_t nodes = 1 + draw(4);

    job->run = run;
    job->settings.min_nodes = 1 + draw(nodes);
    job->settings.max_nodes = nodes + draw(2);
    job->settings.last_call_ms = 1000 + draw(5000);
    job->settings.sharing = (enum model_sharing)(draw(4) % 3);
    run->probe_result = job->settings.sharing == SHARING_NEVER ? PROBED_REFUSED : PROBED_UNKNOWN;
    for (size_t i = 0; i < PODS; i++) {
        job->pods[i].job = job;
        snprintf(job->pods[i].name, sizeof job->pods[i].name, "n%d", (int)(i * 7 % PODS));
    }
    for (size_t i = 0; i < nodes; i++)
        scale_up(job);
}

/* One after the other: compilers differ in the order of initializers. */
static void draw_settings(struct policy_settings *settings)
{
    settings->merge_heartbeats = draw(4) != 0;
    settings->own_worker_ports = draw(4) == 0;
    settings->closed_run_ttl_ms = draw(3) * 2500;
    settings->closed_run_wait_ms = draw(4) == 0 ? 0 : 20000;
    settings->drop_disconnected = draw(4) != 0;
    settings->keep_connected = draw(4) != 0;
    settings->restart_on_loss = (enum restart_on_loss)(2 - draw(4) % 3);
    settings->end_last_call = draw(4) != 0;
    settings->regroup_wait_ms = draw(2) == 0 ? 0 : 2000 + draw(2000);
    settings->expected_nodes = draw(3);
    settings->close_from_members = draw(4) != 0;
    settings->silent_node_ms = draw(3) == 0 ? 6000 + draw(20000) : 0;
    settings->agent_views = draw(4) != 0;
    settings->crowd_least = draw(3);
}

/* What relays do not serve is a port of a run's own. And a daemon that begins again does not know
 * of which node a session is before its agent writes: one that the others have presumed dead by
 * then is brought back by its view, or by restart_on_loss. */
static bool draw_relays_return(const struct policy_settings *settings)
{
    return draw(3) == 0 && sim.job_count == 1 && !settings->own_worker_ports &&
           settings->agent_views && settings->merge_heartbeats &&
           settings->restart_on_loss == RESTART_WHEN_SILENT;
}

static void begin(uint64_t seed)
{
    sim = (struct sim){.seed = seed, .random = seed, .verbose = sim.verbose, .fixed = sim.fixed};
    sim.space = (struct model_space){
        .settings = {.silent_restart_ms = 20000},
        .now = {.ms = FIRST_MS, .wall_ns = WALL_US * 1000},
        .reply = on_reply,
        .resume = on_resume,
        .close = on_close,
        .fail = fail,
    };
    draw_settings(&sim.space.settings);
    sim.job_count = draw(5) == 0 ? 2 : 1;
    if (sim.fixed != NULL)
        sim.space.settings = *sim.fixed;
    sim.jobs[0].relays_return = draw_relays_return(&sim.space.settings);
    for (size_t k = 0; k < sim.job_count; k++)
        sim.jobs[k].has_relays = sim.jobs[k].relays_return || draw(2) == 0;
    model_space_init(&sim.space, seed, sim.job_count);
    sim.tick_ms = FIRST_MS + draw(1000);
    sim.faults_left = 1 + (int)draw(FAULTS_MAX);
    sim.fault_ms = FIRST_MS + draw(15000);
    for (size_t k = 0; k < sim.job_count; k++)
        begin_job(&sim.jobs[k], &sim.space.runs[k]);
}

static void count_settled(uint64_t ms)
{
    size_t i = 0;

    while (i < SETTLE_BUCKETS - 1 && ms > settle_bounds_s[i] * 1000)
        i++;
    totals.settled[i]++;
    if (ms > totals.settle_most_ms)
        totals.settle_most_ms = ms;
}

static void end(void)
{
    struct policy_counters *sum = &totals.counters;
    const struct policy_counters *more = &sim.space.counters;

    for (size_t k = 0; k < sim.job_count; k++) {
        for (size_t i = 0; i < sim.jobs[k].pod_count; i++)
            end_pod(&sim.jobs[k].pods[i], 0);
    }
    end_orphans(true);
    policy_counters_add(sum, more);
    totals.steps += sim.space.steps;
    totals.looks_shown += sim.space.looks_shown;
    totals.sequences++;
    count_settled((sim.steady_since_ms != 0 ? sim.steady_since_ms : now()) - sim.last_fault_ms);
    model_space_fini(&sim.space);
}

static void run_sequence(uint64_t seed)
{
    begin(seed);
    while (step())
        ;
    if (sim.was_at_rest && sim.space.counters.rounds_completed != sim.rounds_before)
        fail("a stall has ended a round");
    end();
}

/* As the daemon has them, and without what ends torch's waits. */
static const struct policy_settings defaults = {.merge_heartbeats = true,
                                                .closed_run_ttl_ms = 5000,
                                                .closed_run_wait_ms = 45000,
                                                .drop_disconnected = true,
                                                .keep_connected = true,
                                                .restart_on_loss = RESTART_WHEN_SILENT,
                                                .silent_restart_ms = 60000,
                                                .end_last_call = true,
                                                .agent_views = true,
                                                .crowd_least = 2,
                                                .close_from_members = true};
static const struct policy_settings bare = {
    .merge_heartbeats = true, .closed_run_ttl_ms = 5000, .closed_run_wait_ms = 45000};

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'}, {"count", required_argument, NULL, 'n'},
        {"defaults", no_argument, NULL, 'd'},   {"bare", no_argument, NULL, 'b'},
        {"verbose", no_argument, NULL, 'v'},    {0}};
    uint64_t seed = 1, count = 1000;

    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 's') {
            seed = strtoull(optarg, NULL, 10);
        } else if (c == 'n') {
            count = strtoull(optarg, NULL, 10);
        } else if (c == 'd') {
            sim.fixed = &defaults;
        } else if (c == 'b') {
            sim.fixed = &bare;
        } else if (c == 'v') {
            sim.verbose = true;
        } else {
            fprintf(stderr, "usage: sim_rendezvous [--seed S] [--count N] "
                            "[--defaults | --bare] [--verbose]\n");
            return 2;
        }
    }
    for (uint64_t i = 0; i < count; i++)
        run_sequence(seed + i);
    printf("%" PRIu64 " sequences from seed %" PRIu64 ": %" PRIu64 " events, %" PRIu64
           " faults, %" PRIu64 " rounds, %" PRIu64 " closes, %" PRIu64 " repairs, %" PRIu64
           " merged writes, %" PRIu64 " looks without a step; settled within %.1f s\n",
           totals.sequences, seed, totals.steps, totals.faults, totals.counters.rounds_completed,
           totals.counters.runs_closed, totals.counters.runs_repaired,
           totals.counters.writes_merged, totals.looks_shown, (double)totals.settle_most_ms / 1000);
    printf("seconds from the last fault to the round of all who live:");
    for (size_t i = 0; i < SETTLE_BUCKETS; i++)
        printf(" <= %" PRIu64 ": %.1f %%", settle_bounds_s[i],
               100 * (double)totals.settled[i] / (double)totals.sequences);
    printf("\n");
    return 0;
}
