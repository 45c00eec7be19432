/* A run as JSON. See status.h for the contract. */
#include <stdlib.h>

#include "proto/json.h"
#include "proto/torch/torch_nodes.h"
#include "rdzv/admin/run_status.h"
#include "rdzv/admin/status.h"
#include "rdzv/config/topology.h"

/* --- Nodes. --- */

static void write_name(struct writer *w, const struct torch_node *node)
{
    json_open(w, '{');
    json_member(w, "addr", node->addr);
    json_member_i64(w, "pid", node->pid);
    json_member_i64(w, "local_id", node->local_id);
}

static void write_peer(struct writer *w, const struct run_facts *f, const struct torch_node *node)
{
    const struct node_facts known = f->look(f, node);
    const char *peer = known.conn != NULL ? CONN_PEER(known.conn) : known.peer;

    if (peer != NULL)
        json_member_str(w, "peer", peer);
}

static void write_domain(struct writer *w, const struct run_facts *f, const struct torch_node *node)
{
    const struct topology *table = f->settings == NULL ? NULL : f->settings->topology;
    const struct agent *a = f->run == NULL ? NULL : run_agent_of(f->run, node);
    struct slice domain = topology_find(table, node->addr, a == NULL ? NULL : &a->label).domain;

    if (domain.len > 0)
        json_member(w, "domain", domain);
}

void status_node_write(struct writer *w, const struct run_facts *f, const struct torch_node *node,
                       const struct status_form *form)
{
    write_name(w, node);
    json_member_str(w, "role", node_role_text(node));
    if (node->participant && f->view->state.complete)
        json_member_i64(w, "rank", node->rank);
    write_domain(w, f, node);
    json_member_known(w, "since", f->look(f, node).joined_us);
    if (node->has_heartbeat && !form->streamed)
        json_member_time(w, "heartbeat", node->heartbeat_us);
    if (run_status_is_silent(f, node))
        writer_str(w, ",\"silent\":true");
    if (f->run != NULL && run_keeps_out(f->run, node))
        writer_str(w, ",\"kept_out\":true");
    else if (f->run != NULL && f->run->is_shut && node->redundant)
        writer_str(w, ",\"surplus\":true");
    if (f->run != NULL && node->participant && cordons_have(f->run->orders.drains, node->addr))
        writer_str(w, ",\"draining\":true");
    write_peer(w, f, node);
    writer_u8(w, '}');
}

static char letter_of(const struct run_facts *f, const struct torch_node *node)
{
    return run_status_is_silent(f, node) ? 's'
           : node->participant           ? 'p'
           : node->waiting               ? 'w'
                                         : 'r';
}

static int compare_ranks(const void *a, const void *b)
{
    const struct torch_node *x = *(const struct torch_node *const *)a;
    const struct torch_node *y = *(const struct torch_node *const *)b;
    int order = y->participant - x->participant;

    if (order == 0 && x->participant)
        order = (x->rank > y->rank) - (x->rank < y->rank);
    return order != 0 ? order : torch_node_compare(x, y);
}

/* Writes the nodes in that order. Returns how many are listed. */
static uint64_t write_nodes(struct writer *w, const struct run_facts *f,
                            const struct torch_node **nodes, uint64_t count,
                            const struct status_form *form)
{
    bool all = count <= form->nodes;
    uint64_t listed = 0;

    json_list(w, "nodes");
    for (size_t i = 0; i < count && listed < form->nodes; i++) {
        if (!all && letter_of(f, nodes[i]) == 'p')
            continue;
        listed++;
        status_node_write(w, f, nodes[i], form);
    }
    writer_u8(w, ']');
    if (all)
        return listed;
    json_member_u64(w, "nodes_left_out", count - listed);
    json_name(w, "node_map");
    writer_u8(w, '"');
    for (size_t i = 0; i < count; i++)
        writer_u8(w, (uint8_t)letter_of(f, nodes[i]));
    writer_u8(w, '"');
    return listed;
}

/* Participants by rank, then the others. Without memory, none. */
static uint64_t write_all_nodes(struct writer *w, const struct run_facts *f,
                                const struct status_form *form)
{
    const struct torch_state *state = &f->view->state;
    size_t size = (state->count + 1) * sizeof(struct torch_node *), count = 0;
    const struct torch_node **nodes =
        account_request(ACCOUNT_ANSWERS, account_class_of(size), size);
    uint64_t listed;

    for (size_t i = 0; nodes != NULL && i < state->count; i++) {
        if (run_status_counts(f, &state->nodes[i]))
            nodes[count++] = &state->nodes[i];
    }
    if (nodes != NULL)
        qsort(nodes, count, sizeof *nodes, compare_ranks);
    listed = write_nodes(w, f, nodes, count, form);
    account_free(ACCOUNT_ANSWERS, nodes, size);
    return listed;
}

static void write_missing_nodes(struct writer *w, const struct run_facts *f, const char *name,
                                const struct missing_list *list)
{
    json_list(w, name);
    for (size_t i = 0; i < missing_listed(list); i++) {
        const struct missing_node *m = &list->nodes[i];

        write_name(w, m->node);
        if (m->has_rank)
            json_member_i64(w, "rank", m->node->rank);
        json_member_str(w, "why", m->why);
        json_member_known(w, "since", m->since_us);
        if (m->peer != NULL)
            json_member_str(w, "peer", m->peer);
        else
            write_peer(w, f, m->node);
        writer_u8(w, '}');
    }
    writer_u8(w, ']');
}

/* --- The past. --- */

static void write_round(struct writer *w, const struct history_round *r)
{
    char why[HISTORY_WHY_MAX];

    json_open(w, '{');
    json_member_i64(w, "round", r->round);
    json_member_known(w, "began", r->began_us);
    json_member_known(w, "completed", r->completed_us);
    json_member_known(w, "ended", r->ended_us);
    if (r->completed_us != 0) {
        json_member_u64(w, "nodes", r->nodes);
        json_member_seconds(w, "seconds", r->completed_us - r->began_us);
    }
    if (r->why != NULL)
        json_member_str(w, "why", history_why(r, r->why, why));
    writer_u8(w, '}');
}

static void write_history(struct writer *w, const struct history *h, size_t max)
{
    const struct history_round *r;

    json_list(w, "rounds");
    TAILQ_FOREACH(r, &h->rounds, entry) {
        if (max-- == 0)
            break;
        write_round(w, r);
    }
    writer_u8(w, ']');
}

/* Each part that the run has had. */
static void write_goodput(struct writer *w, const struct run_facts *f)
{
    const struct goodput *g = &f->history->goodput;

    json_list(w, "goodput");
    for (enum goodput_part part = 0; part < GOODPUT_PARTS; part++) {
        if (g->times[part] == 0)
            continue;
        json_open(w, '{');
        json_member_str(w, "part", goodput_names[part]);
        json_member_seconds(w, "seconds", run_status_spent_us(f, part));
        json_member_i64(w, "times", g->times[part]);
        writer_u8(w, '}');
    }
    writer_u8(w, ']');
}

/* --- The whole. --- */

static void write_hints(struct writer *w, const struct run_facts *f, const struct run_survey *s,
                        const struct status_form *form)
{
    struct hints hints;

    hints.count = 0;
    run_status_hints(f, s, &hints);
    if (form->has_twins)
        run_twins_hint(f, &hints);
    json_list(w, "hints");
    for (size_t i = 0; i < hints.count; i++)
        json_item(w, slice_str(hints.texts[i]));
    writer_u8(w, ']');
}

static void write_deadline(struct writer *w, const struct run_facts *f,
                           const struct status_form *form)
{
    int64_t left_us;

    if (!f->view->is_state || !f->view->state.has_deadline || f->view->state.complete ||
        f->view->state.closed)
        return;
    json_member_time(w, "last_call_ends", f->view->state.deadline_us);
    if (!form->streamed && !__builtin_sub_overflow(f->view->state.deadline_us, f->now_us, &left_us))
        json_member_seconds(w, "seconds_left", left_us < 0 ? 0 : left_us);
}

static void write_numbers(struct writer *w, const struct run_facts *f, const struct run_survey *s)
{
    const struct history *h = f->history;

    if (f->view->is_state)
        json_member_i64(w, "round", f->view->state.round);
    if (h->min != 0)
        json_member_u64(w, "min", h->min);
    if (h->max != 0)
        json_member_u64(w, "max", h->max);
    if (f->expected != 0)
        json_member_u64(w, "expect", f->expected);
    if (f->run != NULL && f->run->rules.nodes_multiple != 0)
        json_member_u64(w, "nodes_multiple", f->run->rules.nodes_multiple);
    if (f->run != NULL && f->run->rules.grow_interval_ms != 0)
        json_member_seconds(w, "grow_interval", (int64_t)f->run->rules.grow_interval_ms * 1000);
    json_member_u64(w, "participants", s->participants);
    json_member_u64(w, "waiting", s->waiting);
    json_member_u64(w, "spares", s->spares);
    json_member_u64(w, "silent", s->silent);
}

uint64_t status_run_write(struct writer *w, const struct run_facts *f,
                          const struct status_form *form)
{
    enum run_state state = run_status_state(f);
    struct run_survey survey;
    uint64_t listed;

    run_status_survey(f, &survey);
    json_open(w, '{');
    json_member(w, "id", f->view->id);
    json_member_str(w, "backend", run_backend_names[f->view->backend]);
    json_member_str(w, "state", run_state_names[state]);
    json_member_known(w, "since", run_status_since_us(f));
    if (state == RUN_FAILED && f->history->failed != NULL)
        json_member_str(w, "failed_node", f->history->failed);
    write_numbers(w, f, &survey);
    if (f->settings != NULL)
        json_member_str(w, "rank_order", rank_order_names[f->settings->rank_order]);
    write_deadline(w, f, form);
    if (f->run != NULL) {
        json_member_u64(w, "agents", f->run->agent_count);
        json_member_u64(w, "agents_waiting", f->run->held[HELD_REJOIN]);
    }
    listed = write_all_nodes(w, f, form);
    write_missing_nodes(w, f, "missing", &survey.missing);
    json_member_u64(w, "missing_count", survey.missing_count);
    write_missing_nodes(w, f, "absent", &survey.gone);
    json_member_u64(w, "absent_count", survey.gone.count);
    write_hints(w, f, &survey, form);
    json_member_known(w, "known_since", f->history->known_us);
    if (!form->streamed)
        write_goodput(w, f);
    write_history(w, f->history, form->rounds);
    return listed;
}
