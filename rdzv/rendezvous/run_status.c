/* How a run stands. See run_status.h for the contract. */
#include "rdzv/rendezvous/run_status.h"

#include <stdarg.h>
#include <stdio.h>

#include "proto/torch/torch_timing.h"
#include "rdzv/rendezvous/explain.h"

const char *run_status_name(const struct run_facts *f)
{
    const struct torch_state *state = &f->view->state;

    return !f->view->is_state                       ? "empty"
           : f->failed                              ? "failed"
           : state->closed                          ? "closed"
           : state->complete                        ? "complete"
           : state->has_deadline || f->is_last_call ? "last_call"
                                                    : "joining";
}

int64_t run_status_since_us(const struct run_facts *f)
{
    const struct history_round *r = LIST_FIRST(&f->history->rounds);

    if (!f->view->is_state || r == NULL)
        return 0;
    return f->view->state.closed     ? r->ended_us
           : f->view->state.complete ? r->completed_us
           : r->ended_us == 0        ? r->began_us
                                     : 0;
}

/* The heartbeat is by the clock of the node's agent. */
bool run_status_is_silent(const struct run_facts *f, const struct torch_node *node)
{
    const struct node_facts known = f->look(f, node);
    int64_t age_us;

    if (known.gone)
        return true;
    return node->has_heartbeat && !__builtin_sub_overflow(f->now_us, node->heartbeat_us, &age_us) &&
           !__builtin_add_overflow(age_us, known.ahead_us, &age_us) &&
           age_us >= TORCH_DEAD_MS * INT64_C(1000);
}

bool run_status_counts(const struct run_facts *f, const struct torch_node *node)
{
    return node_role(node) != NULL && !loss_is_mark(node) &&
           (!f->failed || f->look(f, node).connected);
}

/* --- Who is missing. --- */

static void add_absent(const struct run_facts *f, struct missing_list *list,
                       const struct torch_node *node)
{
    static const char *const names[] = {[LOSS_DISCONNECTED] = "disconnected",
                                        [LOSS_SILENT] = "silent",
                                        [LOSS_REPLACED] = "replaced",
                                        [LOSS_LEFT] = "left"};
    const struct history_loss *loss;
    struct missing_node *m;

    if (list->count++ >= MISSING_LISTED)
        return;
    loss = history_find_loss(f->history, node);
    m = &list->nodes[list->listed++];
    *m = (struct missing_node){.node = node, .why = "left", .has_rank = node->participant};
    if (loss == NULL)
        return;
    m->why = names[loss->kind];
    m->since_us = loss->at_us;
    m->peer = loss->peer;
}

static void add_silent(const struct run_facts *f, struct missing_list *list,
                       const struct torch_node *node)
{
    struct missing_node *m;

    add_absent(f, list, node);
    if (list->count > MISSING_LISTED)
        return;
    m = &list->nodes[list->listed - 1];
    m->why = "silent";
    m->has_rank = node->participant && f->view->state.complete;
    if (node->has_heartbeat)
        m->since_us = node->heartbeat_us;
}

/* Nodes of one address, of both states: from each index to before its end. */
struct address_group {
    size_t now, now_end, then, then_end;
};

static size_t end_of_address(const struct torch_state *state, size_t i, struct slice addr)
{
    while (i < state->count && slice_equal(state->nodes[i].addr, addr))
        i++;
    return i;
}

/* Between two rounds a node is in neither. A connection tells of it, unless nothing has come of it
 * for too long; over etcd, only that the node left by itself, just now. */
#define BETWEEN_ROUNDS_US INT64_C(5000000)

static bool is_between_rounds(const struct run_facts *f, const struct torch_node *node)
{
    const struct history_loss *loss = history_find_loss(f->history, node);

    if (f->backend == BACKEND_C10D)
        return f->look(f, node).connected && (loss == NULL || loss->kind != LOSS_SILENT);
    return loss != NULL && loss->kind == LOSS_LEFT && f->now_us - loss->at_us < BETWEEN_ROUNDS_US;
}

/* True: the node was in a completed round, and is absent. */
static bool is_gone(const struct run_facts *f, const struct torch_node *node)
{
    return node->participant && node_role(torch_state_find(&f->view->state, node)) == NULL &&
           !is_between_rounds(f, node);
}

/* What nearly all are: the one node of its address is there. */
static bool is_unchanged(const struct run_view *v, const struct address_group *g)
{
    return g->now_end - g->now == 1 && g->then_end - g->then == 1 &&
           node_role(&v->state.nodes[g->now]) != NULL &&
           torch_node_compare(&v->state.nodes[g->now], &v->last_completed.nodes[g->then]) == 0;
}

/* Each newcomer at that address makes up for one absent node; nodes with a noted loss are made up
 * for last. */
static void compare_group(const struct run_facts *f, const struct address_group *g,
                          struct missing_list *missing)
{
    const struct torch_state *state = &f->view->state, *then = &f->view->last_completed;
    size_t newcomers = 0;

    for (size_t i = g->now; i < g->now_end; i++) {
        const struct torch_node *node = &state->nodes[i];
        const struct torch_node *old = torch_state_find(then, node);

        newcomers += node_role(node) != NULL && (old == NULL || !old->participant);
    }
    for (int lost = 0; lost <= 1; lost++) {
        for (size_t i = g->then; i < g->then_end; i++) {
            const struct torch_node *node = &then->nodes[i];

            if (!is_gone(f, node) || (history_find_loss(f->history, node) != NULL) != lost)
                continue;
            if (newcomers > 0)
                newcomers--;
            else
                add_absent(f, missing, node);
        }
    }
}

/* Both states are in the order of addresses. */
static void compare_rounds(const struct run_facts *f, struct missing_list *missing)
{
    const struct torch_state *state = &f->view->state, *then = &f->view->last_completed;
    struct address_group g = {0};

    while (g.then < then->count) {
        struct slice addr = then->nodes[g.then].addr;

        while (g.now < state->count && slice_compare(state->nodes[g.now].addr, addr) < 0)
            g.now++;
        g.now_end = end_of_address(state, g.now, addr);
        g.then_end = end_of_address(then, g.then, addr);
        if (!is_unchanged(f->view, &g))
            compare_group(f, &g, missing);
        g.now = g.now_end;
        g.then = g.then_end;
    }
}

/* Those without which the last round was completed: the ones that the run is short of, as far as no
 * other explains that, are missing. */
static void add_gone(const struct run_facts *f, struct run_survey *out)
{
    const struct torch_state *gone = &f->view->gone;

    for (size_t i = 0; i < gone->count; i++) {
        if (is_gone(f, &gone->nodes[i]))
            add_absent(f, out->missing.count < out->missing_count ? &out->missing : &out->gone,
                       &gone->nodes[i]);
    }
}

static void count_node(const struct run_facts *f, const struct torch_node *node,
                       struct run_survey *out)
{
    out->nodes++;
    if (run_status_is_silent(f, node)) {
        out->silent++;
        if (!f->view->state.closed)
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
    out->missing.listed = out->missing.count = out->gone.listed = out->gone.count = 0;
    for (size_t i = 0; i < v->state.count; i++) {
        if (run_status_counts(f, &v->state.nodes[i]))
            count_node(f, &v->state.nodes[i], out);
    }
    there = out->participants + out->waiting;
    out->waiting += f->unnamed_waiting; /* participants, or others */
    if (v->state.closed)
        return; /* all are to go */
    if (v->is_state && v->has_completed)
        compare_rounds(f, &out->missing);
    out->missing_count = out->missing.count;
    raise_to(&out->missing_count, f->expected, there + out->spares);
    if (!v->state.complete)
        raise_to(&out->missing_count, f->history->min, there);
    if (v->is_state)
        add_gone(f, out);
}

/* --- Hints. --- */

struct hints {
    char (*texts)[HINT_TEXT_MAX];
    size_t count;
};

__attribute__((format(printf, 2, 3))) static void hint(struct hints *h, const char *format, ...)
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
    char words[NODE_TEXT_MAX];

    hint(h,
         "workers of %s failed, and its agent had no restart left: it closed the run for all "
         "nodes; its log says why they failed",
         failed == NULL ? "a node" : node_words(failed, words));
    if (f->agents > 0 && f->ends_failed)
        hint(h,
             "agents that still end their workers: %zu; when they have ended, agents that are "
             "started again begin the run anew; torchrun --max-restarts starts workers again "
             "without that",
             f->agents);
    else if (f->agents > 0)
        hint(
            h,
            "agents that still run: %zu (--end-failed-runs=off); their workers wait for the failed "
            "ones until a collective times out; end these agents to begin the run anew",
            f->agents);
}

static void hint_closed(const struct run_facts *f, struct hints *h)
{
    if (f->agents_waiting > 0)
        hint(h,
             "keys of an earlier run: it is closed, and agents that came for the next one (%zu) "
             "wait "
             "until it is forgotten",
             f->agents_waiting);
    else if (f->backend != BACKEND_C10D)
        hint(h, "keys of an earlier run: it is closed, and agents that come with the same "
                "--rdzv-id end at once, until these keys expire or are deleted");
    else if (f->agents == 0)
        hint(h, "keys of an earlier run: it is closed, and forgotten after --closed-run-ttl; "
                "agents that come with the same --rdzv-id wait until then");
}

/* Pods on their host's network have its name, and each its agent as the first process. */
static void hint_doubled(const struct run_facts *f, struct hints *h)
{
    char name[NODE_TEXT_MAX], words[NODE_TEXT_MAX], text[STATUS_PEER_MAX];
    const char *peer = f->peer(f, f->doubled, text);

    hint(
        h,
        "two agents are there as %.60s, from %s and %s: torch takes them for one node; give each a "
        "name of its own (--local-addr)",
        node_words(node_text(f->doubled, name), words), peer == NULL ? "" : peer, f->doubled_peer);
}

/* Sessions of relays from before a start have --session-timeout to come back, or to end. */
static void hint_awaited(const struct run_facts *f, struct hints *h)
{
    size_t unclaimed = 0;

    if (f->awaited_ms == 0)
        return;
    for (size_t i = 0; i < f->view->state.count; i++) {
        const struct torch_node *node = &f->view->state.nodes[i];

        unclaimed += run_status_counts(f, node) && !f->look(f, node).connected;
    }
    if (unclaimed > f->agents_unnamed)
        hint(h,
             "nodes whose agents are not back since rdzvd was started: %zu; unless they are, they "
             "leave the run in %llu s at the latest (--session-timeout)",
             unclaimed - f->agents_unnamed, (unsigned long long)(f->awaited_ms + 999) / 1000);
}

static void hint_open(const struct run_facts *f, const struct run_survey *survey, struct hints *h)
{
    uint64_t there = survey->participants + survey->waiting;

    hint_awaited(f, h);
    if (there + survey->spares == 0 && f->agents == 0 &&
        (f->backend == BACKEND_C10D || survey->silent > 0))
        hint(h, "keys of an earlier run: none of its agents is here");
    else if (f->expected > there && !f->view->state.complete)
        hint(h, "nodes that have joined: %llu of %llu (--expect)", (unsigned long long)there,
             (unsigned long long)f->expected);
    else if (f->expected == 0 && f->history->min == 0 && !f->view->state.complete)
        hint(h,
             "nodes that have joined: %llu; how many the agents wait for is in none of their "
             "messages, so that --expect has to tell rdzvd",
             (unsigned long long)there);
    if (f->view->state.complete && survey->waiting > 0)
        hint(h,
             "nodes that wait for the next round: %llu; it begins when the workers of this one "
             "have been stopped",
             (unsigned long long)survey->waiting);
    if (survey->silent > 0)
        hint(h, "nodes that have not been heard of for %d s: %llu",
             f->backend == BACKEND_ETCD ? 10 : 15, (unsigned long long)survey->silent);
}

size_t run_status_hints(const struct run_facts *f, const struct run_survey *survey,
                        char hints[HINTS_MAX][HINT_TEXT_MAX])
{
    struct hints h = {.texts = hints};

    if (f->doubled != NULL)
        hint_doubled(f, &h);
    if (f->failed)
        hint_failed(f, &h);
    else if (f->view->state.closed)
        hint_closed(f, &h);
    else if (f->view->is_state)
        hint_open(f, survey, &h);
    else if (f->agents > 0)
        hint(&h, "clients that are connected: %zu; none has joined yet", f->agents);
    return h.count;
}
