/* A run as JSON. See status.h for the contract. */
#include <ctype.h>
#include <stdlib.h>

#include "proto/json.h"
#include "proto/torch/torch_state.h"
#include "rdzv/admin/run_status.h"
#include "rdzv/admin/status.h"
#include "rdzv/config/topology.h"
#include "rdzv/rendezvous/rendezvous.h"

/* --- Runs that may be one job: its nodes have different ids, or different spaces, and wait for
 * each other in vain. --- */

#define SHOWN_BYTES 80 /* of an id, and of a host */
/* Runs and spaces that are looked at for one hint: a status with many runs stays linear. */
#define TWINS_LOOKED_AT 256
#define TWINS_WITHIN_US 60000000 /* the nodes of a job begin within so long */

/* Torch still waits for MIN nodes: it makes no last call. */
static bool is_forming(const struct run_view *v)
{
    return v->is_state && !v->state.complete && !v->state.closed && !v->state.has_deadline &&
           v->state.count > 0;
}

/* The first agent of a run that forms; NULL: it is another run. */
static const struct agent *first_agent(struct run_view *v)
{
    return is_forming(v) ? run_agent_of(&live_run_of(v)->run, &v->state.nodes[0]) : NULL;
}

/* The ids differ in case, or in one character: exchanged, or put in. One digit more or less, or
 * another digit, is how people number their jobs. */
static bool are_nearly_equal(struct slice a, struct slice b)
{
    size_t most = a.len < b.len ? b.len : a.len, least = a.len + b.len - most;
    size_t front = 0, back = 0;

    while (front < least && tolower(a.ptr[front]) == tolower(b.ptr[front]))
        front++;
    while (back < least - front &&
           tolower(a.ptr[a.len - 1 - back]) == tolower(b.ptr[b.len - 1 - back]))
        back++;
    return front == most ||
           (front + back + 1 == most && ((front + back < a.len && !isdigit(a.ptr[front])) ||
                                         (front + back < b.len && !isdigit(b.ptr[front]))));
}

static bool may_be_one_job(struct run_view *x, struct run_view *y)
{
    const struct agent *a = first_agent(x), *b = first_agent(y);
    int64_t apart_us;

    if (a == NULL || b == NULL || slice_equal(a->node.addr, b->node.addr))
        return false;
    apart_us = conn_agent_of(a)->joined_us - conn_agent_of(b)->joined_us;
    return apart_us < TWINS_WITHIN_US && apart_us > -TWINS_WITHIN_US &&
           ((x->state.count == 1 && y->state.count == 1) || are_nearly_equal(x->id, y->id));
}

static int shown_len(struct slice text)
{
    return text.len < SHOWN_BYTES ? (int)text.len : SHOWN_BYTES;
}

static void hint_other_ids(const struct engine_space *space, struct run_view *own, struct hints *h)
{
    struct run_view *first = NULL, *v = NULL;
    size_t count = 0;

    for (size_t i = 0; i < TWINS_LOOKED_AT && (v = rendezvous_next(space, v)) != NULL; i++) {
        if (v == own || !may_be_one_job(own, v))
            continue;
        if (count++ == 0 || are_nearly_equal(own->id, v->id))
            first = v;
    }
    if (first != NULL)
        run_status_hint(
            h,
            "runs of other hosts that also wait for nodes: %zu, such as \"%.*s\" of %.*s: do the "
            "nodes of one job have different ids (--rdzv-id)?",
            count, shown_len(first->id), (const char *)first->id.ptr,
            shown_len(first->state.nodes[0].addr), (const char *)first->state.nodes[0].addr.ptr);
}

/* Without the name: a client may not know of other spaces. */
static void hint_other_space(const struct engine *e, const struct run_view *own, struct hints *h)
{
    size_t looked = 0;

    TAILQ_EACH(const struct engine_space, space, &e->spaces, entry) {
        const struct run_view *v = rendezvous_find(space, own->id);

        if (v != NULL && v != own && is_forming(v)) {
            run_status_hint(h, "a run of this id also waits for nodes in another space of this "
                               "store: is the --space of a relay mistyped?");
            return;
        }
        if (++looked == TWINS_LOOKED_AT)
            return;
    }
}

static void run_twins_hint(const struct run_facts *f, struct hints *h)
{
    const struct rendezvous_space *home;

    if (f->run == NULL || !is_forming(f->view))
        return;
    home = ((const struct live_run *)(const void *)f->run)->home;
    hint_other_ids(home->space, (struct run_view *)(uintptr_t)f->view, h);
    hint_other_space(home->rdzv->engine, f->view, h);
}

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

static void write_domain(struct writer *w, const struct run_facts *f, const struct torch_node *node,
                         const struct agent *a)
{
    const struct topology *table = f->settings == NULL ? NULL : f->settings->topology;
    struct slice domain = topology_find(table, node->addr, a == NULL ? NULL : a->label).domain;

    if (domain.len > 0)
        json_member(w, "domain", domain);
}

void status_node_write(struct writer *w, const struct run_facts *f, const struct torch_node *node,
                       const struct status_form *form)
{
    const struct agent *a = f->run == NULL ? NULL : run_agent_of(f->run, node);

    write_name(w, node);
    json_member_str(w, "role", node_role_text(node));
    if (node->participant && f->view->state.complete)
        json_member_i64(w, "rank", node->rank);
    write_domain(w, f, node, a);
    json_member_known(w, "since", f->look(f, node).joined_us);
    if (node->has_heartbeat && !form->streamed)
        json_member_time(w, "heartbeat", node->heartbeat_us);
    if (run_status_is_silent(f, node))
        writer_str(w, ",\"silent\":true");
    if (f->run != NULL && run_keeps_out(f->run, node))
        writer_str(w, ",\"kept_out\":true");
    else if (a != NULL && a->lacks_group != NULL && !node->participant)
        json_member_str(w, "why", a->lacks_group);
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

    NODES_FOREACH(node, state) {
        if (nodes != NULL && run_status_counts(f, node))
            nodes[count++] = node;
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
    for (size_t i = 0; i < list->count && i < MISSING_LISTED; i++) {
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
    json_member_known(w, "completed", r->began_us == 0 ? 0 : r->completed_us);
    json_member_known(w, "ended", r->ended_us);
    if (r->completed_us != 0)
        json_member_u64(w, "nodes", r->nodes);
    if (r->completed_us != 0 && r->began_us != 0)
        json_member_seconds(w, "seconds", r->completed_us - r->began_us);
    if (r->completed_us != 0 && r->began_us != 0 && r->ended_us != 0)
        json_member_seconds(w, "lasted", r->ended_us - r->completed_us);
    if (r->why != NULL)
        json_member_str(w, "why", history_why(r, r->why, why));
    writer_u8(w, '}');
}

static void write_history(struct writer *w, const struct history *h, size_t max)
{
    json_list(w, "rounds");
    TAILQ_EACH(const struct history_round, r, &h->rounds, entry) {
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

void status_hints_write(struct writer *w, const struct hints *hints)
{
    json_list(w, "hints");
    for (size_t i = 0; i < hints->count; i++)
        json_item(w, slice_str(hints->texts[i]));
    writer_u8(w, ']');
}

static void write_hints(struct writer *w, const struct run_facts *f, const struct run_survey *s,
                        const struct status_form *form)
{
    struct hints hints;

    hints.count = 0;
    run_status_hints(f, s, &hints);
    if (form->has_twins)
        run_twins_hint(f, &hints);
    status_hints_write(w, &hints);
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
    if (f->run != NULL && f->run->rules.group != 0)
        json_member_u64(w, "group", f->run->rules.group);
    if (f->run != NULL && f->run->orders.word == ORDER_HOLD)
        writer_str(w, ",\"held\":true");
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
