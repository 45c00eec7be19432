/* Jobs of model agents under faults, against the policy of rendezvous, in simulated time.
 *
 *     sim_rendezvous [--seed S] [--count N] [--defaults | --bare] [--workers KIND]
 *         [--orders | --verbs] [--rules] [--verbose]
 *
 * Each sequence is one or two jobs whose nodes join, leave, crash, freeze, lose their network or
 * their connection, fail, end well, and begin again, while rdzvd stands still, or ends, by itself
 * or killed, and begins anew from its keys. The nodes of some jobs have relays. A relay may lose
 * rdzvd and return in time, or too late, when its agents are presumed dead; or it may end and lose
 * all sessions. With --orders, half of the faults are orders of an operator: restart, evict, hold;
 * they are taken back after the last fault. --verbs has more of them: cordon, drain, and rules at
 * run time. With --rules, runs have rules.
 * The workers of a node train together with those of its world. If others of the world are gone,
 * they fail at once (KIND gloo) or after seconds (late), or hang (nccl).
 *
 * After each event:
 *  - no two worlds of one run live at the same time, but for as long as a node takes to notice;
 *  - the ranks of a round are 0 to n-1, each once, and a node keeps its rank if the settings say
 * so;
 *  - all workers of a round use one store, as no other round's do;
 *  - a round that is complete with MAX nodes begins without any that wait; its size obeys the
 * rules;
 *  - each request is answered once, or held with a deadline, and what is held goes on;
 *  - the view of a run is what one would be that is made from the keys (model_space.c);
 *  - no meeting uses a restart, no good end is cut short, and all nodes of a job that fails end
 *    together (job_ends.c).
 * After the last fault all nodes that live are in one completed round within SETTLE_MS, or later by
 * as much as clocks are wrong where dead nodes are not taken out, agents look seldom, or a good end
 * takes long. A stall of jobs at rest ends no round.
 *
 * The settings are the seed's, or the daemon's own, or those without what ends torch's waits.
 *
 * A sequence of seed S is run again with --seed S --count 1; --verbose tells what happens. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/job_check.h"
#include "tests/sim/job_daemon.h"
#include "tests/sim/job_fault.h"
#include "tests/sim/job_net.h"
#include "tests/sim/job_pod.h"
#include "tests/sim/job_workers.h"

#define FAULTS_MAX 5
#define WALL_US    INT64_C(1790000000000000)
#define SETTLE_MS  150000
#define FINISH_MS  160000 /* from the first good end to the last one, and a look at each */
#define STEADY_MS  1500
#define GROW_MS    10000 /* a rule at run time */
#define MEETINGS   4     /* after the last fault, at most */

#define SETTLE_BUCKETS 8

static const uint64_t settle_bounds_s[SETTLE_BUCKETS] = {1, 2, 4, 8, 16, 32, 64, SETTLE_MS / 1000};

static const char *const worker_names[WORKER_KINDS] = {"gloo", "late", "nccl"};

static struct {
    uint64_t sequences, steps, settle_most_ms, faults, looks_shown, heartbeats;
    uint64_t settled[SETTLE_BUCKETS]; /* how soon after the last fault */
    struct policy_counters counters;
} totals;

/* --- Time. --- */

static uint64_t next_ms(void)
{
    uint64_t next =
        sim.faults_left > 0 ? latest(sim.fault_ms, sim.stalled_until_ms, 0) : UINT64_MAX;

    if (sim.stalled_until_ms > sim_now()) {
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
    return next > sim_now() ? next : sim_now() + 1;
}

static void advance(uint64_t to)
{
    sim.space.now.wall_ns += (int64_t)(to - sim_now()) * 1000000;
    sim.space.now.ms = to;
}

static void run_pods(void)
{
    for (size_t k = 0; k < sim.job_count; k++) {
        struct job *job = &sim.jobs[k];

        if (job->again_ms != 0 && job->again_ms <= sim_now())
            job_begin_again(job);
        for (size_t i = 0; i < job->pod_count; i++) {
            struct pod *p = &job->pods[i];
            bool stalled = sim.stalled_until_ms > sim_now();

            if (!net_is_reachable(p))
                p->reachable_since_ms = sim_now();
            if (stalled && p->net == NET_SENT)
                continue;
            pod_run(p);
        }
        net_answer_waits(job);
        workers_check_finished(job);
    }
}

/* The longest interval in which an agent looks. */
static uint64_t longest_monitor_ms(void)
{
    uint64_t most = 0;

    for (size_t k = 0; k < sim.job_count; k++)
        most = latest(most, sim.jobs[k].settings.monitor_ms, 0);
    return most;
}

static bool is_any_job_finishing(void)
{
    for (size_t k = 0; k < sim.job_count; k++) {
        if (sim.jobs[k].finishes)
            return true;
    }
    return false;
}

static uint64_t settle_most_ms(void)
{
    return SETTLE_MS + MEETINGS * longest_monitor_ms() + (is_any_job_finishing() ? FINISH_MS : 0) +
           (sim.has_verbs ? GROW_MS : 0) + sim.space.settings.rules.grow_interval_ms +
           (sim.space.settings.drop_disconnected ? 0 : WRONG_CLOCK_MS);
}

/* True: it goes on. */
static bool step(void)
{
    daemon_run();
    run_pods();
    for (size_t k = 0; k < sim.job_count; k++) {
        tell_change(&sim.jobs[k]);
        job_note_close(&sim.jobs[k]);
        check_job(&sim.jobs[k]);
    }
    if (!all_settled() || sim.faults_left > 0)
        sim.steady_since_ms = 0;
    else if (sim.steady_since_ms == 0)
        sim.steady_since_ms = sim_now();
    if (sim.steady_since_ms != 0 && sim_now() - sim.steady_since_ms >= STEADY_MS)
        return false;
    if (sim.faults_left == 0 && sim_now() - sim.last_fault_ms > settle_most_ms()) {
        for (size_t k = 0; k < sim.job_count; k++)
            tell_state(&sim.jobs[k]);
        sim_fail("not all nodes are in a round %" PRIu64 " s after the last fault",
                 settle_most_ms() / 1000);
    }
    advance(next_ms());
    if (sim.faults_left > 0 && sim.fault_ms <= sim_now() && sim.stalled_since_ms == 0)
        fault_any();
    return true;
}

/* --- Sequences. --- */

/* If the agents of a job are not notified of a loss or a failure, its workers must not hang, since
 * they would hang for ever. */
static enum worker_kind any_workers(const struct policy_settings *settings)
{
    enum worker_kind kind = (enum worker_kind)sim_draw(WORKER_KINDS);

    if (sim.fixed_workers >= 0)
        kind = (enum worker_kind)sim.fixed_workers;
    if (kind == WORKERS_NCCL &&
        !(settings->restart_on_loss == RESTART_WHEN_SILENT && settings->end_failed_runs))
        kind = WORKERS_GLOO;
    return kind;
}

/* The same. */
/* Of releases before 2.5 rdzvd takes the monitor interval for theirs, 5 s, until it has seen more.
 */
#define OLD_MONITOR_MS 5000

static uint64_t any_interval_ms(void)
{
    static const uint64_t intervals_ms[] = {100, 100, 1000, 5000};

    return sim_draw(16) == 0 ? 30000 : intervals_ms[sim_draw(4)];
}

static void tell_job(const struct job *job)
{
    const struct model_settings *settings = &job->settings;

    sim_tell("%s: %zu to %zu nodes, workers %s, a look each %" PRIu64 " ms, %" PRIu64 " restarts%s",
             job->run->key, settings->min_nodes, settings->max_nodes, worker_names[job->workers],
             settings->monitor_ms, settings->max_restarts, job->has_relays ? ", with relays" : "");
}

static void begin_job(struct job *job, struct model_run *run)
{
    size_t nodes = 1 + sim_draw(4);

    job->workers = any_workers(&sim.space.settings);
    job->settings.monitor_ms = any_interval_ms();
    job->settings.max_restarts = sim_draw(4) == 0 ? 1 + sim_draw(3) : 0;
    job->run = run;
    job->settings.min_nodes = 1 + sim_draw(nodes);
    job->settings.max_nodes = nodes + sim_draw(2);
    if (job_size(job, job->settings.min_nodes) != job->settings.min_nodes) /* as documented */
        job->settings.min_nodes = job_size(job, job->settings.max_nodes);
    job->settings.last_call_ms = 1000 + sim_draw(5000);
    job->settings.sharing = (enum model_sharing)(sim_draw(4) % 3);
    if (job->settings.sharing == SHARING_OLD && job->settings.monitor_ms > OLD_MONITOR_MS)
        job->settings.monitor_ms = OLD_MONITOR_MS;
    run->probe_refused = job->settings.sharing == SHARING_NEVER;
    for (size_t i = 0; i < PODS; i++) {
        job->pods[i].job = job;
        snprintf(job->pods[i].name, sizeof job->pods[i].name, "n%d", (int)(i * 7 % PODS));
    }
    tell_job(job);
    for (size_t i = 0; i < nodes; i++)
        job_scale_up(job);
}

/* One after the other: compilers differ in the order of initializers. */
static void draw_settings(struct policy_settings *settings)
{
    static const enum rank_order orders[] = {RANKS_TORCH, RANKS_KEEP, RANKS_KEEP, RANKS_TABLE};
    static char zero[] = "n3";

    settings->rank_order = orders[sim_draw(4)];
    settings->worker_port_low = sim_draw(4) == 0 ? 31000 : 0;
    settings->closed_run_ttl_ms = sim_draw(3) * 2500;
    settings->closed_run_wait_ms = sim_draw(4) == 0 ? 0 : 20000;
    settings->ended_job_ttl_ms = settings->closed_run_ttl_ms * 100;
    settings->drop_disconnected = sim_draw(4) != 0;
    settings->rank_zero = sim_draw(4) == 0 ? zero : NULL;
    settings->restart_on_loss = (enum restart_on_loss)(2 - sim_draw(4) % 3);
    settings->end_last_call = sim_draw(4) != 0;
    settings->regroup_wait_ms = sim_draw(2) == 0 ? 0 : 2000 + sim_draw(2000);
    settings->expected_nodes = (uint32_t)sim_draw(3);
    settings->close_from_members = sim_draw(4) != 0;
    settings->silent_node_ms = sim_draw(3) == 0 ? 6000 + sim_draw(20000) : 0;
    settings->late_text = sim_draw(4) == 0;
    settings->crowd = settings->late_text != 0 ? 1 : 1000;
    (void)sim_draw(3); /* of settings that are gone: seeds keep their sequences */
    (void)sim_draw(4);
    settings->end_failed_runs = sim_draw(4) != 0;
}

/* A hash of the seed decides, not sim_draw(): the world stays the same as without rules. */
static void set_rules(struct policy_settings *settings, uint64_t seed)
{
    uint64_t mix = seed * 0x9e3779b97f4a7c15u >> 32;
    struct run_rules *rules = &settings->rules;
    char error[TOPOLOGY_ERROR_MAX];

    rules->nodes_multiple = mix % 4 == 0 ? 0 : 2 + mix / 4 % 2;
    rules->grow_interval_ms = mix % 4 <= 1 ? 3000 + mix / 16 % 20000 : 0;
    if (mix / 64 % 3 == 0)
        rules->restart_budget = (struct rule_limit){mix / 256 % (BUDGET_MAX + 1), 60000};
    if (mix / 1024 % 3 == 0)
        rules->cordon_after = (struct rule_limit){1 + mix / 4096 % 2, 60000};
    rules->group = mix / 16384 % 3 == 0;
    if (rules->group != 0)
        settings->topology = topology_parse(slice_str("n0 a\nn1 a\nn2 b\nn3 b\n* c"), error);
}

/* Relays do not serve worker ports. And a restarted daemon does not know the node of a session
 * before its agent writes: if the other agents have presumed this node dead by then, its view or
 * restart_on_loss brings the node back. */
static bool draw_relays_return(const struct policy_settings *settings)
{
    return sim_draw(3) == 0 && sim.job_count == 1 && settings->worker_port_low == 0 &&
           settings->restart_on_loss == RESTART_WHEN_SILENT;
}

static void tell_settings(const struct policy_settings *s)
{
    sim_tell("worker_port_low %d drop_disconnected %d restart_on_loss %d end_last_call %d "
             "close_from_members %d end_failed_runs %d",
             s->worker_port_low, s->drop_disconnected, s->restart_on_loss, s->end_last_call,
             s->close_from_members, s->end_failed_runs);
    sim_tell("closed_run_ttl %" PRIu64 " closed_run_wait %" PRIu64 " silent_node %" PRIu64
             " silent_restart %" PRIu64 " regroup_wait %" PRIu64 " expected_nodes %" PRIu32,
             s->closed_run_ttl_ms, s->closed_run_wait_ms, s->silent_node_ms, s->silent_restart_ms,
             s->regroup_wait_ms, s->expected_nodes);
    sim_tell("cordon_after %" PRIu64, s->rules.cordon_after.count);
    sim_tell("nodes_multiple %" PRIu64 " group %" PRIu64 " grow_interval %" PRIu64
             " restart_budget %" PRIu64 "/%" PRIu64,
             s->rules.nodes_multiple, s->rules.group, s->rules.grow_interval_ms,
             s->rules.restart_budget.count, s->rules.restart_budget.ms);
}

/* As the daemon has them, and without what ends torch's waits. */
static const struct policy_settings defaults = {.closed_run_ttl_ms = 5000,
                                                .closed_run_wait_ms = 45000,
                                                .ended_job_ttl_ms = 600000,
                                                .drop_disconnected = true,
                                                .restart_on_loss = RESTART_WHEN_SILENT,
                                                .rank_order = RANKS_KEEP,
                                                .silent_restart_ms = 60000,
                                                .end_last_call = true,
                                                .close_from_members = true,
                                                .end_failed_runs = true};
static const struct policy_settings bare = {.closed_run_ttl_ms = 5000, .closed_run_wait_ms = 45000};

static void begin(uint64_t seed)
{
    sim = (struct sim){.seed = seed,
                       .random = seed,
                       .verbose = sim.verbose,
                       .fixed = sim.fixed,
                       .fixed_workers = sim.fixed_workers,
                       .has_operator = sim.has_operator,
                       .has_verbs = sim.has_verbs,
                       .has_rules = sim.has_rules,
                       .options = sim.options};
    sim.space = (struct model_space){
        .settings = {.silent_restart_ms = 20000},
        .now = {.ms = FIRST_MS, .wall_ns = WALL_US * 1000},
        .reply = net_on_reply,
        .resume = net_on_resume,
        .close = net_on_close,
        .stopped = check_stopped,
        .struck = fault_strike,
        .fail = sim_fail,
    };
    draw_settings(&sim.space.settings);
    sim.job_count = sim_draw(5) == 0 ? 2 : 1;
    if (sim.fixed != NULL)
        sim.space.settings = *sim.fixed;
    if (sim.fixed == &defaults) {
        sim.space.settings.late_text = seed % 4 == 0;
        sim.space.settings.crowd = seed % 4 == 0 ? 1 : 1000;
    }
    if (sim.has_operator) /* a node that was kept out must not begin the job again that has ended */
        sim.space.settings.ended_job_ttl_ms = 0;
    if (sim.has_rules)
        set_rules(&sim.space.settings, seed);
    tell_settings(&sim.space.settings);
    sim.jobs[0].relays_return = draw_relays_return(&sim.space.settings);
    for (size_t k = 0; k < sim.job_count; k++)
        sim.jobs[k].has_relays = sim.jobs[k].relays_return || sim_draw(2) == 0;
    model_space_init(&sim.space, seed, sim.job_count);
    sim.tick_ms = FIRST_MS + sim_draw(1000);
    sim.faults_left = 1 + (int)sim_draw(FAULTS_MAX);
    sim.fault_ms = FIRST_MS + sim_draw(15000);
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

    sim.space.stopped = NULL;
    sim.space.struck = NULL;
    for (size_t k = 0; k < sim.job_count; k++) {
        for (size_t i = 0; i < sim.jobs[k].pod_count; i++)
            pod_end(&sim.jobs[k].pods[i], 0);
    }
    net_end_orphans(true);
    policy_counters_add(sum, more);
    totals.faults += sim.fault_count;
    totals.steps += sim.space.steps;
    totals.looks_shown += sim.space.looks_shown;
    totals.heartbeats += sim.space.heartbeats;
    totals.sequences++;
    count_settled((sim.steady_since_ms != 0 ? sim.steady_since_ms : sim_now()) - sim.last_fault_ms);
    model_space_fini(&sim.space);
    topology_free((struct topology *)(uintptr_t)sim.space.settings.topology);
}

static void run_sequence(uint64_t seed)
{
    begin(seed);
    while (step())
        ;
    if (sim.was_at_rest && sim.space.counters.rounds_completed != sim.rounds_before &&
        sim.space.counters.runs_closed == sim.closes_before)
        sim_fail("a stall has ended a round");
    end();
}

static int usage(void)
{
    fprintf(stderr, "usage: sim_rendezvous [--seed S] [--count N] [--defaults | --bare] "
                    "[--workers gloo|late|nccl] [--orders | --verbs] [--rules] [--verbose]\n");
    return 2;
}

static bool read_workers(const char *name)
{
    for (int i = 0; i < WORKER_KINDS; i++) {
        if (strcmp(name, worker_names[i]) == 0)
            sim.fixed_workers = i;
    }
    return sim.fixed_workers >= 0;
}

/* What a failed sequence is repeated with, beside its seed. */
static void note_options(const char *workers)
{
    static char options[64];

    snprintf(options, sizeof options, "%s%s%s%s%s",
             sim.has_verbs      ? " --verbs"
             : sim.has_operator ? " --orders"
                                : "",
             sim.has_rules ? " --rules" : "",
             sim.fixed == &defaults ? " --defaults"
             : sim.fixed == &bare   ? " --bare"
                                    : "",
             workers == NULL ? "" : " --workers ", workers == NULL ? "" : workers);
    sim.options = options;
}

static void print_totals(uint64_t seed)
{
    printf("%" PRIu64 " sequences from seed %" PRIu64 ": %" PRIu64 " events, %" PRIu64
           " faults, %" PRIu64 " rounds, %" PRIu64 " closes, %" PRIu64 " repairs, %" PRIu64
           " merged writes, %" PRIu64 " looks and %" PRIu64
           " heartbeats without a step; settled within %.1f s\n",
           totals.sequences, seed, totals.steps, totals.faults, totals.counters.rounds_completed,
           totals.counters.runs_closed, totals.counters.runs_repaired,
           totals.counters.writes_merged, totals.looks_shown, totals.heartbeats,
           (double)totals.settle_most_ms / 1000);
    printf("seconds from the last fault to the round of all who live:");
    for (size_t i = 0; i < SETTLE_BUCKETS; i++)
        printf(" <= %" PRIu64 ": %.1f %%", settle_bounds_s[i],
               100 * (double)totals.settled[i] / (double)totals.sequences);
    printf("\n");
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seed", required_argument, NULL, 's'},    {"count", required_argument, NULL, 'n'},
        {"defaults", no_argument, NULL, 'd'},      {"bare", no_argument, NULL, 'b'},
        {"verbose", no_argument, NULL, 'v'},       {"orders", no_argument, NULL, 'o'},
        {"workers", required_argument, NULL, 'w'}, {"rules", no_argument, NULL, 'r'},
        {"verbs", no_argument, NULL, 'V'},         {0}};
    uint64_t seed = 1, count = 1000;
    const char *workers = NULL;

    sim.fixed_workers = -1;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 's') {
            seed = strtoull(optarg, NULL, 10);
        } else if (c == 'n') {
            count = strtoull(optarg, NULL, 10);
        } else if (c == 'd') {
            sim.fixed = &defaults;
        } else if (c == 'b') {
            sim.fixed = &bare;
        } else if (c == 'o') {
            sim.has_operator = true;
        } else if (c == 'V') {
            sim.has_operator = sim.has_verbs = true;
        } else if (c == 'r') {
            sim.has_rules = true;
        } else if (c == 'v') {
            sim.verbose = true;
        } else if (c == 'w' && read_workers(optarg)) {
            workers = optarg;
        } else {
            return usage();
        }
    }
    note_options(workers);
    for (uint64_t i = 0; i < count; i++)
        run_sequence(seed + i);
    print_totals(seed);
    return 0;
}
