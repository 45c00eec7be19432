/* How a run stands. See run_status.h for the contract. */
#include "rdzv/admin/run_status.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "proto/torch/torch_state.h"
#include "rdzv/rendezvous/explain.h"

const char *const run_backend_names[] = {[BACKEND_C10D] = "c10d", [BACKEND_ETCD_V2] = "etcd-v2"};

const char *const run_state_names[RUN_STATES] = {
    [RUN_EMPTY] = "empty",       [RUN_JOINING] = "joining", [RUN_LAST_CALL] = "last_call",
    [RUN_COMPLETE] = "complete", [RUN_FAILED] = "failed",   [RUN_CLOSED] = "closed",
    [RUN_LEFT] = "left",
};

static bool has_failed(const struct run_facts *f)
{
    return f->run != NULL && f->run->failed && f->run->orders.word != ORDER_CLOSE;
}

static size_t agents_of(const struct run_facts *f)
{
    return f->run == NULL ? 0 : f->run->agent_count;
}

static bool is_left(const struct run_facts *f)
{
    return f->run != NULL && f->run->agent_count == 0 && f->run->start == START_OVER;
}

enum run_state run_status_state(const struct run_facts *f)
{
    const struct torch_state *state = &f->view->state;

    return !f->view->is_state    ? RUN_EMPTY
           : has_failed(f)       ? RUN_FAILED
           : state->closed       ? RUN_CLOSED
           : is_left(f)          ? RUN_LEFT
           : state->complete     ? RUN_COMPLETE
           : state->has_deadline ? RUN_LAST_CALL
                                 : RUN_JOINING;
}

int64_t run_status_since_us(const struct run_facts *f)
{
    const struct history_round *r = TAILQ_FIRST(&f->history->rounds);

    if (f->view->is_state && !f->view->state.closed && is_left(f))
        return f->left_us;
    if (!f->view->is_state || r == NULL)
        return 0;
    return f->view->state.closed     ? r->ended_us
           : f->view->state.complete ? (r->began_us == 0 ? 0 : r->completed_us)
           : r->ended_us == 0        ? r->began_us
                                     : 0;
}

int64_t run_status_spent_us(const struct run_facts *f, enum goodput_part part)
{
    return goodput_spent_us(&f->history->goodput, part,
                            is_left(f) && f->left_us != 0 ? f->left_us : f->now_us);
}

/* The heartbeat is by the clock of the node's agent. */
bool run_status_is_silent(const struct run_facts *f, const struct torch_node *node)
{
    const struct node_facts known = f->look(f, node);
    int64_t age_us;

    return node->has_heartbeat && !__builtin_sub_overflow(f->now_us, node->heartbeat_us, &age_us) &&
           !__builtin_add_overflow(age_us, known.ahead_us, &age_us) &&
           age_us >= TORCH_DEAD_MS * INT64_C(1000) && !known.lives;
}

bool run_status_counts(const struct run_facts *f, const struct torch_node *node)
{
    bool is_over = f->run != NULL && (f->view->state.closed || f->run->failed);

    return node_role(node) != NULL && !loss_is_mark(node) &&
           (!is_over || f->look(f, node).connected);
}

/* --- Who is missing. --- */

/* Returns its place in the list; NULL: the list is full. */
static struct missing_node *add_missing(const struct run_facts *f, struct missing_list *list,
                                        const struct torch_node *node)
{
    static const char *const names[] = {[LOSS_DISCONNECTED] = "disconnected",
                                        [LOSS_SILENT] = "silent",
                                        [LOSS_REPLACED] = "replaced",
                                        [LOSS_LEFT] = "left"};
    const struct history_loss *loss;
    struct missing_node *m;

    if (list->count++ >= MISSING_LISTED)
        return NULL;
    loss = history_find_loss(f->history, node);
    m = &list->nodes[list->count - 1];
    *m = (struct missing_node){.node = node, .why = "left", .has_rank = node->participant};
    if (loss != NULL) {
        m->why = names[loss->kind];
        m->since_us = loss->at_us - loss->silent_us;
        m->peer = loss->peer;
    }
    if (f->run != NULL && run_keeps_out(f->run, node))
        m->why = "kept out";
    return m;
}

static void add_silent(const struct run_facts *f, struct missing_list *list,
                       const struct torch_node *node)
{
    struct missing_node *m = add_missing(f, list, node);

    if (m == NULL)
        return;
    m->why = "silent";
    m->has_rank = node->participant && f->view->state.complete;
    if (node->has_heartbeat)
        m->since_us = node->heartbeat_us;
}

/* Between two rounds a node is in neither. A connection tells of it, unless nothing has come of it
 * for too long; over etcd, only that the node left by itself, just now. */
#define BETWEEN_ROUNDS_US INT64_C(5000000)

/* The agent of a node that has left its round is still there, and is about to join the next one. */
static bool is_between_rounds(const struct run_facts *f, const struct torch_node *node)
{
    const struct history_loss *loss = history_find_loss(f->history, node);

    if (f->run != NULL)
        return f->look(f, node).connected && (loss == NULL || loss->kind != LOSS_SILENT);
    return loss != NULL && loss->kind == LOSS_LEFT && f->now_us - loss->at_us < BETWEEN_ROUNDS_US;
}

/* Adds the participants of the last completed round that are absent. A newcomer replaces one absent
 * node of the same address: a restarted agent, whose process id differs, is not missing under its
 * old name. Both states are in the order of addresses; at one address, either of the two may come
 * first. If the newcomer comes second, the absent node that was added last goes again. */
static void add_absent(const struct run_facts *f, struct missing_list *missing)
{
    struct node_pairs pairs = {.before = &f->view->last_completed, .now = &f->view->state};
    const struct torch_node *then, *now;
    struct slice addr = {0};
    int64_t balance = 0; /* at this address: newcomers without, minus absent nodes with no match */

    while (node_pairs_next(&pairs, &then, &now)) {
        bool was_in = then != NULL && then->participant, is_in = node_role(now) != NULL;
        struct slice at = then != NULL ? then->addr : now->addr;

        if (!slice_equal(at, addr))
            balance = 0;
        addr = at;
        if (is_in && !was_in) {
            missing->count -= balance < 0;
            balance++;
        } else if (!is_in && was_in && !is_between_rounds(f, then)) {
            if (balance <= 0)
                add_missing(f, missing, then);
            balance--;
        }
    }
}

/* Nodes that orders keep out, and those without which the last round was completed: the ones that
 * the run is short of, as far as no other explains that, are missing. */
static void add_gone(const struct run_facts *f, struct run_survey *out)
{
    const struct torch_state *gone = &f->view->absent, *state = &f->view->state;

    NODES_FOREACH(node, state) {
        if (out->missing.count < out->missing_count && node->redundant && f->run != NULL &&
            run_keeps_out(f->run, node) && !run_status_is_silent(f, node))
            add_missing(f, &out->missing, node);
    }
    NODES_FOREACH(node, gone) {
        if (node_role(torch_state_find(state, node)) != NULL || is_between_rounds(f, node))
            continue;
        add_missing(f, out->missing.count < out->missing_count ? &out->missing : &out->gone, node);
    }
}

static void count_node(const struct run_facts *f, const struct torch_node *node,
                       struct run_survey *out)
{
    out->nodes++;
    if (run_status_is_silent(f, node)) {
        out->silent++;
        if (!f->view->state.closed && !is_left(f))
            add_silent(f, &out->missing, node);
    } else if (node->participant) {
        out->participants++;
    } else if (node->waiting) {
        out->waiting++;
    } else {
        out->spares++;
    }
}

static void raise_to(uint64_t *count, uint64_t wanted, uint64_t there)
{
    if (wanted > there && wanted - there > *count)
        *count = wanted - there;
}

void run_status_survey(const struct run_facts *f, struct run_survey *out)
{
    const struct run_view *v = f->view;
    uint64_t there;

    memset(out, 0, offsetof(struct run_survey, missing));
    out->missing.count = out->gone.count = 0;
    NODES_FOREACH(node, &v->state) {
        if (run_status_counts(f, node))
            count_node(f, node, out);
    }
    there = out->participants + out->waiting;
    if (v->state.closed || is_left(f) || (f->run != NULL && f->run->orders.word == ORDER_HOLD))
        return; /* all are to go, have gone, or wait on order */
    if (v->is_state && v->has_completed)
        add_absent(f, &out->missing);
    out->missing_count = out->missing.count;
    raise_to(&out->missing_count, f->expected, there + out->spares);
    if (f->run != NULL && (f->run->is_shut || f->run->lacks_groups))
        there += out->spares;
    if (!v->state.complete)
        raise_to(&out->missing_count, f->history->min, there);
    if (v->is_state)
        add_gone(f, out);
}

/* --- Hints. --- */

void run_status_hint(struct hints *h, const char *format, ...)
{
    va_list args;

    if (h->count == HINTS_MAX)
        return;
    va_start(args, format);
    vsnprintf(h->texts[h->count++], HINT_TEXT_MAX, format, args);
    va_end(args);
}

/* The workers of the others wait for the failed ones in a collective. */
static void hint_failed(const struct run_facts *f, struct hints *h)
{
    const char *failed = f->history->failed;
    const struct history_round *r = TAILQ_FIRST(&f->history->rounds);
    char words[NODE_TEXT_MAX], first[NODE_TEXT_MAX] = "";

    if (r != NULL && r->first_at != NULL)
        snprintf(first, sizeof first, "rank %u%.240s ended first; ", r->first_rank, r->first_at);
    run_status_hint(
        h,
        "%sworkers of %s failed, and its agent had no restart left: it closed the run for all "
        "nodes; the log of the first one says why",
        first, failed == NULL ? "a node" : node_words(failed, words));
    if (agents_of(f) > 0)
        run_status_hint(
            h,
            f->run->settings->end_failed_runs
                ? "agents that still end their workers: %zu; when they have ended, agents that are "
                  "started again begin the run anew; torchrun --max-restarts starts workers again "
                  "without that"
                : "agents that still run: %zu (--end-failed-runs=off); their workers wait for the "
                  "failed ones until a collective times out; end them to begin the run anew",
            agents_of(f));
}

static void hint_closed(const struct run_facts *f, struct hints *h)
{
    size_t waiting = f->run == NULL ? 0 : f->run->held[HELD_REJOIN];

    if (f->run != NULL && f->run->orders.word == ORDER_CLOSE)
        run_status_hint(h, "an operator or a rule has closed it: agents that start again find it "
                           "closed; `rdzvctl forget` frees its id");
    else if (waiting > 0)
        run_status_hint(
            h,
            "keys of an earlier run: it is closed, and agents that came for the next one (%zu) "
            "wait until it is forgotten",
            waiting);
    else if (f->run == NULL)
        run_status_hint(h,
                        "keys of an earlier run: it is closed, and agents that come with the same "
                        "--rdzv-id end at once, for a minute or until `rdzvctl forget`");
    else if (agents_of(f) == 0)
        run_status_hint(
            h, "keys of an earlier run: it is closed, and forgotten after --closed-run-ttl; "
               "agents that come with the same --rdzv-id wait until then");
}

static bool is_kept_out(const struct run_facts *f, const struct torch_node *node)
{
    return node_role(node) != NULL && !loss_is_mark(node) && run_keeps_out(f->run, node);
}

static void hint_orders(const struct run_facts *f, struct hints *h)
{
    const struct torch_state *state = &f->view->state;
    size_t count = 0, drained = 0;
    char until[32] = "";
    struct tm utc;
    time_t ends;

    if (f->run == NULL || state->closed)
        return;
    ends = (time_t)(f->run->orders.ends_us / 1000000);
    if (ends != 0 && gmtime_r(&ends, &utc) != NULL)
        strftime(until, sizeof until, " until %Y-%m-%d %H:%M:%SZ", &utc);
    NODES_FOREACH(node, state) {
        if (!is_kept_out(f, node))
            continue;
        count++;
        drained += node->participant && cordons_have(f->run->orders.drains, node->addr);
    }
    if (drained > 0)
        run_status_hint(h,
                        "an operator drains nodes that train: %zu; their workers find the key "
                        "rdzvd/drain, and confirm with rdzvd/checkpointed",
                        drained);
    if (f->run->orders.word == ORDER_HOLD)
        run_status_hint(h,
                        "an operator holds the run%s, so its agents (%zu) wait: `rdzvctl release` "
                        "lets them meet",
                        until, agents_of(f));
    else if (count > drained)
        run_status_hint(h,
                        "nodes that orders keep out: %zu; `rdzvctl uncordon` lets them take part "
                        "again",
                        count - drained);
}

static void hint_rules(const struct run_facts *f, struct hints *h)
{
    const struct torch_state *state = &f->view->state;
    size_t here = f->view->participants; /* and the nodes that orders keep out */

    if (f->run == NULL || !(f->run->is_shut || f->run->lacks_groups) ||
        (f->history->max != 0 && here >= f->history->max))
        return;
    NODES_FOREACH(node, state)
        here += !node->participant && is_kept_out(f, node);
    if (agents_of(f) <= here)
        return;
    run_status_hint(
        h,
        "agents without a place: %zu; the nodes meet for them when the rules of the run "
        "allow it (nodes-multiple, grow-interval, group)%s",
        agents_of(f) - here,
        !f->view->is_state || state->has_redundancy
            ? ""
            : "; each of torch before 2.3 ends when its join_timeout is over");
}

/* Pods on their host's network have its name, and each its agent as the first process. */
static void hint_doubled(const struct run_facts *f, struct hints *h)
{
    char name[NODE_TEXT_MAX], words[NODE_TEXT_MAX];

    run_status_hint(
        h,
        "two agents are there as %.60s, from %s and %s: torch takes them for one node; give each a "
        "name of its own (--local-addr)",
        node_words(node_text(f->doubled, name), words), f->doubled_peers[0], f->doubled_peers[1]);
}

static void hint_elsewhere(const struct run_facts *f, struct hints *h)
{
    const struct view_record *record = &f->view->record;
    char name[NODE_TEXT_MAX], words[NODE_TEXT_MAX];

    run_status_hint(
        h,
        "the agent of %.60s came to %s, and its workers must go to %.*s port %u: give all nodes "
        "the same --rdzv-endpoint, and the run a space of its own if agents use relays",
        node_words(node_text(&f->elsewhere->node, name), words), f->elsewhere->local_host,
        (int)record->address.len, (const char *)record->address.ptr, record->port);
}

/* Rounds of a loop are shorter, and there are so many at least. */
#define LOOP_ROUND_US INT64_C(300000000)
#define LOOP_ROUNDS   3

/* In so many of these rounds, the same worker was first to fail, or the agent of the same host. */
static unsigned count_first(const struct history_round *r, unsigned rounds,
                            const struct history_round *like)
{
    unsigned count = 0;

    for (; rounds > 0; rounds--, r = TAILQ_NEXT(r, entry))
        count += (r->first_at == NULL) == (like->first_at == NULL) &&
                 r->first_rank == like->first_rank &&
                 slice_equal(history_first_host(r), history_first_host(like));
    return count;
}

/* Workers fail in one round after the other. The hint names the one that was first most often. */
static void hint_loop(const struct run_facts *f, struct hints *h)
{
    const struct history_round *r = TAILQ_FIRST(&f->history->rounds), *newest = NULL, *first;
    char words[NODE_TEXT_MAX], log[NODE_TEXT_MAX];
    unsigned rounds = 0, most = 0, same;
    int64_t lasted_us = 0;

    /* The newest round goes on, and of that before no agent may have joined again. */
    for (int i = 0; i < 2 && r != NULL && r->failed == NULL; i++) {
        if (f->now_us - r->began_us >= LOOP_ROUND_US)
            return;
        r = TAILQ_NEXT(r, entry);
    }
    for (first = newest = r;
         r != NULL && r->failed != NULL && r->ended_us - r->completed_us < LOOP_ROUND_US;
         r = TAILQ_NEXT(r, entry)) {
        rounds++;
        lasted_us += r->ended_us - r->completed_us;
    }
    if (rounds < LOOP_ROUNDS)
        return;
    r = newest;
    for (unsigned i = 0; i < rounds; i++, r = TAILQ_NEXT(r, entry)) {
        same = count_first(newest, rounds, r);
        first = same > most ? r : first;
        most = same > most ? same : most;
    }
    if (first->first_at != NULL)
        snprintf(log, sizeof log, "the worker that ended first, rank %u%.200s", first->first_rank,
                 first->first_at);
    else
        snprintf(log, sizeof log, "%s, whose agent left first", node_words(first->failed, words));
    run_status_hint(h,
                    "restart loop: in each of the last %u rounds a worker failed, %.1f s after the "
                    "begin: read the log of %s (%u of %u)",
                    rounds, (double)lasted_us / rounds / 1e6, log, most, rounds);
}

/* The worker has ended well, or hangs without a connection: its agent has not left the round. */
static void hint_ended_worker(const struct run_facts *f, struct hints *h)
{
    const struct history_round *r = TAILQ_FIRST(&f->history->rounds);

    if (r != NULL && r->first_at != NULL && r->why == NULL && r->ended_us == 0 &&
        f->now_us - r->first_us > HISTORY_FIRST_US)
        run_status_hint(h,
                        "rank %u%s has ended its connection %lld s ago, and the round goes on: do "
                        "the other workers wait for it in a collective?",
                        r->first_rank, r->first_at, (long long)(f->now_us - r->first_us) / 1000000);
}

/* Another run of the space has the agents' port, and no range was opened for the others. */
static void hint_own_port(const struct run_facts *f, struct hints *h)
{
    const struct agent *first = f->run == NULL ? NULL : TAILQ_FIRST(&f->run->agents);

    if (first != NULL && !first->relayed && f->run->endpoint.own_port != 0 &&
        f->run->settings->worker_port_low == 0)
        run_status_hint(
            h,
            "its workers use port %u, since another run of this space has the agents' port: a "
            "firewall must let it pass; --worker-ports names a range, and relays need no port",
            f->run->endpoint.own_port);
}

/* Sessions of relays from before a start have --session-timeout to come back, or to end. */
static void hint_awaited(const struct run_facts *f, struct hints *h)
{
    size_t unclaimed = 0;

    if (f->awaited_ms == 0)
        return;
    NODES_FOREACH(node, &f->view->state)
        unclaimed += run_status_counts(f, node) && !f->look(f, node).connected;
    if (unclaimed > f->agents_unnamed)
        run_status_hint(
            h,
            "nodes whose agents are not back since rdzvd was started: %zu; unless they are, they "
            "leave the run in %llu s at the latest (--session-timeout)",
            unclaimed - f->agents_unnamed, (unsigned long long)(f->awaited_ms + 999) / 1000);
}

/* With MIN nodes, torch completes a round or sets its deadline; a rule of the run may wait for
 * more. */
#define STANDS_STILL_US INT64_C(15000000)

static bool stands_still(const struct run_facts *f, const struct run_survey *survey)
{
    int64_t since_us = run_status_since_us(f);

    return f->history->min != 0 && survey->participants >= f->history->min && since_us != 0 &&
           f->now_us - since_us >= STANDS_STILL_US && !f->view->state.has_deadline &&
           (f->run == NULL || !(f->run->is_shut || f->run->lacks_groups));
}

static void hint_open(const struct run_facts *f, const struct run_survey *survey, struct hints *h)
{
    uint64_t there = survey->participants + survey->waiting;
    bool forms = !f->view->state.complete && (f->run == NULL || f->run->orders.word != ORDER_HOLD);

    hint_awaited(f, h);
    if (there + survey->spares == 0 && agents_of(f) == 0 && (f->run != NULL || survey->silent > 0))
        run_status_hint(
            h,
            "all its agents have gone: it goes on if they come back, and `rdzvctl forget` ends it");
    else if (f->expected + f->history->min == 0 && forms)
        run_status_hint(
            h,
            "nodes that have joined: %llu; how many torch waits for is not known: --expect tells",
            (unsigned long long)there);
    if (forms && stands_still(f, survey))
        run_status_hint(h,
                        "nodes that have joined: %llu, enough for an agent with MIN %llu, but the "
                        "round does not complete: do all agents have the same --nnodes?",
                        (unsigned long long)survey->participants,
                        (unsigned long long)f->history->min);
    if (f->view->state.complete && survey->waiting > 0)
        run_status_hint(
            h,
            "nodes that wait for the next round: %llu; it begins when the workers of this one "
            "have been stopped",
            (unsigned long long)survey->waiting);
    if (survey->silent > 0)
        run_status_hint(h, "nodes that have not been heard of for 15 s: %llu",
                        (unsigned long long)survey->silent);
}

void run_status_hints(const struct run_facts *f, const struct run_survey *survey, struct hints *h)
{
    if (f->doubled != NULL)
        hint_doubled(f, h);
    if (f->elsewhere != NULL)
        hint_elsewhere(f, h);
    hint_loop(f, h);
    hint_ended_worker(f, h);
    hint_own_port(f, h);
    hint_orders(f, h);
    hint_rules(f, h);
    if (has_failed(f))
        hint_failed(f, h);
    else if (f->view->state.closed)
        hint_closed(f, h);
    else if (f->view->is_state)
        hint_open(f, survey, h);
    else if (f->run != NULL && f->run->awaits_others)
        run_status_hint(h,
                        "the last job of this id has ended well; agents of its other hosts (%zu) "
                        "wait until another host begins it again, or `rdzvctl forget` lets them",
                        f->run->held[HELD_REJOIN]);
    else if (agents_of(f) > 0)
        run_status_hint(h, "clients that are connected: %zu; none has joined yet", agents_of(f));
    if (slice_is(f->view->id, "none"))
        run_status_hint(h,
                        "none is torchrun's default id: give each job one of its own (--rdzv-id)");
}
