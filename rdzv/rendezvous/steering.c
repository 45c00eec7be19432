/* Nodes that are kept out of the rounds: cordoned ones, all nodes of a run on hold, and nodes for
 * which the rules of the run have no place yet. STEERING.md and ORDERS.md say when and how long.
 *
 * No message tells an agent of torch to wait outside. But an agent of torch 2.3 and later waits for
 * any time if it sees its own node on the redundancy list and exactly MAX participants
 * (dynamic_rendezvous.py, _RendezvousJoinOp). So a node that is kept out is put on that list, and
 * its view names MAX participants, however many there are. If the order ends, the view has the true
 * number again: the agent takes itself off the list, begins its join_timeout anew, and joins.
 * Before 2.3, such a node is shown a full round, and its agent ends after its join_timeout.
 *
 * Rules: the run is shut while the nodes outside do not change the size of the round, or
 * grow-interval is not over. Then a new node becomes a spare with the write by which it asks to
 * wait, so no node meets for it. An open round is shut while too few nodes are there. Growth needs
 * MAX: more nodes than that cause no meeting.
 *
 * Places: when the nodes of a round meet again and there are more than MAX, torch takes those that
 * join first, so a spare would get the place of a node whose workers end late. So a node of the
 * last round has its place while it takes part or its agent is about to join. An agent that has
 * left the round polls once a second; if nothing comes of it for STEERING_HERE_MS, its place is
 * free. Free places are for as many others: first those that wait or have joined, then those whose
 * domain is nearest to that of the lost node. All further nodes are kept out. */
#include "rdzv/config/topology.h"
#include "rdzv/rendezvous/policy.h"
#include "rdzv/rendezvous/policy_internal.h"

bool run_keeps_out(const struct run *run, const struct torch_node *node)
{
    return run->orders.word == ORDER_HOLD || cordons_have(run->orders.cordons, node->addr);
}

bool steering_keeps_out(const struct run *run, const struct torch_node *node)
{
    const struct agent *a = run->lacks_groups ? run_agent_of(run, node) : NULL;

    return run_keeps_out(run, node) || (a != NULL && a->lacks_group != NULL);
}

bool steering_lacks_place(const struct run *run, const struct torch_node *node)
{
    const struct agent *a = run->keeps_places ? run_agent_of(run, node) : NULL;

    return run->is_shut || steering_keeps_out(run, node) ||
           (a != NULL && !a->has_place && round_is_new(run, node));
}

static bool is_outside(const struct agent *a, const struct torch_node *own)
{
    return agent_has_node(a) && (own == NULL || (!own->participant && !own->waiting));
}

bool steering_is_aside(const struct run *run, const struct agent *a, const struct torch_node *own)
{
    return is_outside(a, own) && steering_lacks_place(run, &a->node);
}

static bool is_any_kept_out(const struct run *run)
{
    return run->is_shut || run->lacks_groups || run->orders.word == ORDER_HOLD ||
           (run->orders.cordons != NULL && run->orders.cordons->count != 0);
}

size_t steering_agents(const struct run *run)
{
    size_t aside = 0;

    if (run->keeps_places)
        return run->max_nodes;
    if (!is_any_kept_out(run))
        return run->agent_count;
    AGENTS_FOREACH(a, &run->agents)
        aside += steering_is_aside(run, a, run_node_of(run, a));
    return run->agent_count - aside;
}

bool steering_is_any_outside(const struct run *run, bool with_group)
{
    return ANY(AGENTS_FOREACH(a, &run->agents),
               !run_takes_part(run, a) && (a->group.count != 0 || !with_group) &&
                   !(is_outside(a, run_node_of(run, a)) && steering_keeps_out(run, &a->node)));
}

/* Participants that are kept out. */
static size_t count_kept_out(const struct run *run, const struct torch_state *state)
{
    size_t count = 0;

    if (!is_any_kept_out(run))
        return 0;
    NODES_FOREACH(node, state)
        count += node->participant && steering_keeps_out(run, node);
    return count;
}

size_t steering_wanted(const struct run *run)
{
    return run->view.completed_participants - count_kept_out(run, &run->view.last_completed);
}

/* --- Rules. --- */

static bool trains(const struct run *run, const struct agent *a)
{
    return a->naming == NAMING_LISTED && a->nodes != 0 && a->round == run->view.state.round &&
           run->view.state.complete;
}

static bool polls(const struct step *s, const struct agent *a)
{
    return agent_is_held(a) || clock_elapsed_ms(a->heard_ms, s->now->lived_ms) < STEERING_HERE_MS;
}

/* No operator keeps its node out, and it trains, or its agent polls. */
static bool is_here(const struct step *s, const struct agent *a)
{
    return a->naming == NAMING_LISTED &&
           (trains(s->run, a) || (a->link == LINK_HERE && polls(s, a))) &&
           !cordons_have(s->run->orders.cordons, a->node.addr);
}

/* Nodes that are here, and have a place for their groups. One of them may know MAX. */
static uint64_t count_here(struct step *s)
{
    uint64_t here = 0;

    AGENTS_FOREACH(a, &s->run->agents) {
        size_learn_max(s->run, a);
        here += is_here(s, a) && a->lacks_group == NULL;
    }
    return here;
}

/* Gives the group of the agent, or its node, a place. Returns why not, or NULL. */
static const char *choose(struct step *s, const struct agent *a, uint32_t *needs, uint64_t *room)
{
    if (a->group.count != 0)
        return topology_choose(&a->group, needs, room);
    if (trains(s->run, a))
        return NULL;
    if (*room == 0)
        return "whole groups have all places";
    *room -= is_here(s, a);
    return NULL;
}

/* Whole groups have a place first, and those in the round before others. A node of the complete
 * round is there until it is taken out. After a start, agents may not be back. */
void steering_note_groups(struct step *s, bool again)
{
    struct run *run = s->run;
    const struct topology *table = run->start == START_OVER ? run->settings->topology : NULL;
    size_t lines = 0;
    uint32_t *needs;
    uint64_t room;

    if (run->rules.group == 0 && !run->lacks_groups)
        return;
    run->lacks_groups = false;
    AGENTS_FOREACH(a, &run->agents) {
        size_learn_max(run, a);
        a->lacks_group = NULL;
        if (again || a->group.count == 0)
            a->group = topology_group(table, a->node.addr, run->rules.group);
        if (lines < a->group.first + a->group.count)
            lines = a->group.first + a->group.count;
    }
    needs = lines == 0 ? NULL : (uint32_t *)(void *)step_alloc(s, lines * sizeof *needs);
    if (needs == NULL)
        return;
    memset(needs, 0, lines * sizeof *needs);
    room = run->max_nodes == 0 ? UINT64_MAX : run->max_nodes;
    AGENTS_FOREACH(a, &run->agents) {
        uint32_t in = trains(run, a);

        room -= in && room != 0;
        if (a->group.count != 0 && is_here(s, a))
            needs[a->group.own] += (needs[a->group.own] == 0 ? 2 : 1) - in;
    }
    for (int pass = 0; pass < 4; pass++) {
        AGENTS_FOREACH(a, &run->agents) {
            if (!agent_has_node(a) || (a->group.count == 0) != (pass >= 2) ||
                round_is_new(run, &a->node) != (pass % 2 == 1))
                continue;
            a->lacks_group = choose(s, a, needs, &room);
            run->lacks_groups = run->lacks_groups || a->lacks_group != NULL;
        }
    }
}

bool policy_can_spare(const struct run *run, struct slice host)
{
    struct topology_group group = topology_group(run->settings->topology, host, run->rules.group);
    uint64_t least = run->enough, here = 0;

    if (least == 0)
        least = run->max_nodes != 0 ? run->max_nodes : run->view.completed_participants;
    AGENTS_FOREACH(a, &run->agents)
        here += a->naming == NAMING_LISTED && a->link == LINK_HERE && !a->closes &&
                !steering_keeps_out(run, &a->node) && !slice_equal(a->node.addr, host) &&
                (group.count == 0 || a->group.count == 0 || a->group.first != group.first);
    return here >= least;
}

static bool is_shut(struct step *s)
{
    const struct run *run = s->run;
    const struct run_view *v = &run->view;
    uint64_t here;
    bool grows;

    if ((run->rules.nodes_multiple == 0 && run->rules.grow_interval_ms == 0) || v->unread ||
        v->state.closed)
        return false;
    /* else the nodes of the complete round meet, whatever the nodes outside do */
    grows = v->state.complete && !meeting_is_open(run) && !loss_lacks_nodes(run, &v->state);
    if (run->start != START_OVER)
        return grows;
    here = count_here(s);
    if (run->max_nodes != 0 && here > run->max_nodes)
        here = run->max_nodes;
    if (!grows)
        return here != 0 && run_size(run, here) == 0;
    return (run->rules.nodes_multiple != 0 && run->rules.group == 0 &&
            (run->max_nodes == 0 || run_size(run, here) <= v->participants)) ||
           clock_elapsed_ms(run->met_ms, s->now->lived_ms) < run->rules.grow_interval_ms;
}

/* --- Places. --- */

#define PLACES_MS 500 /* all nodes are searched no more often */

/* The nodes of the last round meet again, or are about to, and there are more agents than MAX. */
static bool may_keep_places(const struct run *run)
{
    const struct run_view *v = &run->view;

    return run->rules.group == 0 && v->completed_participants != 0 &&
           v->completed_participants <= run->max_nodes && run->room_for <= run->max_nodes &&
           (run->agent_count > run->max_nodes || run->start == START_AWAITED) && !run->is_shut &&
           v->state.has_redundancy && !v->state.closed && !v->unread &&
           run->orders.word != ORDER_HOLD &&
           !(v->state.complete && v->participants == run->max_nodes);
}

/* The node takes part, or its agent may be about to ask for a place. */
static bool may_take_part(const struct step *s, const struct torch_node *was)
{
    const struct agent *a = run_agent_of(s->run, was);

    return !steering_keeps_out(s->run, was) &&
           (torch_state_takes_part(&s->run->view.state, was) ||
            (a == NULL ? s->run->start == START_AWAITED : !a->closes && polls(s, a)));
}

static struct slice domain_of(const struct run *run, const struct torch_node *node)
{
    const struct agent *a = run_agent_of(run, node);

    return topology_find(run->settings->topology, node->addr,
                         a == NULL ? &run->lost_label : a->label)
        .domain;
}

/* Gives a free place, of a node of that domain, to one of the others. False: there is none. */
static bool give_place(const struct run *run, struct agent *const *others, size_t count,
                       struct slice domain)
{
    struct agent *best = NULL;
    size_t most = 0, common;

    FOREACH_POINTER(struct agent, a, others, count) {
        if (a->has_place)
            continue;
        common = 1 + topology_common(domain, domain_of(run, &a->node)) +
                 (is_outside(a, run_node_of(run, a)) ? 0 : TOPOLOGY_NAME_MAX);
        best = common > most ? a : best;
        most = common > most ? common : most;
    }
    return best != NULL && (best->has_place = true);
}

/* False: there are places for all, or no memory. */
static bool share_places(struct step *s)
{
    struct run *run = s->run;
    uint64_t unused = run->max_nodes - run->view.completed_participants;
    struct agent **others = (void *)step_alloc(s, run->agent_count * sizeof *others);
    size_t count = 0;

    if (others == NULL)
        return false;
    AGENTS_FOREACH(a, &run->agents) {
        a->has_place = false;
        if (a->naming == NAMING_LISTED && round_is_new(run, &a->node) && may_take_part(s, &a->node))
            others[count++] = a;
    }
    NODES_FOREACH(was, &run->view.last_completed) {
        if (was->participant && !may_take_part(s, was) &&
            !give_place(run, others, count, domain_of(run, was)))
            return false;
    }
    while (unused > 0 && give_place(run, others, count, (struct slice){0}))
        unused--;
    return unused == 0;
}

static void note_places(struct step *s)
{
    struct run *run = s->run;
    bool is_over = !may_keep_places(run);

    if (!is_over && clock_elapsed_ms(run->places_at_ms, s->now->lived_ms) < PLACES_MS)
        return;
    run->keeps_places = !is_over && share_places(s);
    run->places_at_ms = is_over ? 0 : s->now->lived_ms;
}

/* By its nodes, or by its time. While the store takes no changes, it could not be taken back. */
static void end_hold(struct step *s)
{
    struct run_orders *orders = &s->run->orders;
    bool is_late = orders->ends_us != 0 && s->now->wall_ns / 1000 >= orders->ends_us;

    if (orders->word != ORDER_HOLD || s->now->refuses)
        return;
    if (is_late)
        orders->until = 0; /* so many nodes are not there */
    if (is_late || (orders->until != 0 && count_here(s) >= orders->until))
        orders->word = ORDER_NONE;
}

/* As steering_check(), but makes no spares. */
static void note_order(struct step *s)
{
    end_hold(s);
    s->run->is_shut = is_shut(s);
    note_places(s);
}

void steering_check(struct step *s)
{
    const struct run_view *v = &s->run->view;

    note_order(s);
    if ((s->run->is_shut || s->run->lacks_groups ||
         (s->run->keeps_places && s->run->places_at_ms == s->now->lived_ms)) && /* just found out */
        (v->waiting != 0 || (!v->state.complete && v->participants != 0)))
        loss_set_aside(s, false);
}

enum steering_verdict steering_judge(struct step *s, struct agent *a, const struct intent *in)
{
    if (in->kind == INTENT_SPARE)
        size_note_max(s->run, in->shown);
    steering_check(s); /* with this node */
    if (!steering_lacks_place(s->run, &in->own))
        return STEERING_IS_FREE;
    switch (in->kind) {
    case INTENT_LEAVE:
        /* It leaves the redundancy list, since its view did not have MAX participants. */
        if (in->was->redundant && a->max_most == in->shown && in->shown > 1)
            a->max_most = in->shown - 1;
        return STEERING_ALLOWS;
    case INTENT_SPARE:
        if (!size_note_at_most(s->run, a, in->shown))
            return STEERING_REFUSES;
        note_order(s); /* with its MAX */
        return steering_lacks_place(s->run, &in->own) ? STEERING_ALLOWS : STEERING_REFUSES;
    case INTENT_WAIT:
        size_note_above(s, a, in->shown);
        return STEERING_REFUSES;
    default:
        return STEERING_REFUSES;
    }
}

bool steering_may_begin(const struct run *run)
{
    return run_size(run, run->view.participants) != 0 &&
           (run->rules.group == 0 || !steering_is_any_outside(run, true));
}

bool steering_may_complete(struct step *s, const struct intent *in)
{
    s->run->max_nodes = in->number;
    steering_note_groups(s, false);
    return !s->run->lacks_groups || (!steering_keeps_out(s->run, &in->own) &&
                                     count_kept_out(s->run, &s->run->view.state) == 0);
}

/* --- Orders. --- */

/* A participant ends when it leaves its round together with the others: loss_set_aside(). */
static void end_agents(struct step *s, const char *pattern)
{
    AGENTS_FOREACH(a, &s->run->agents) {
        const struct torch_node *node = run_node_of(s->run, a);

        if (!agent_has_node(a) || !topology_matches(pattern, a->node.addr))
            continue;
        a->ends = step_is_open(s) && node != NULL && node->participant;
        if (!a->ends)
            step_close(s, a, "an operator ends its agent", a->node.addr);
    }
}

/* A participant that is cordoned, or waits for its group, trains until the nodes meet. */
static bool has_evicted(const struct run *run, const char *pattern)
{
    return ANY(NODES_FOREACH(node, &run->view.state), node->participant &&
                                                          run_keeps_out(run, node) &&
                                                          topology_matches(pattern, node->addr));
}

void steering_on_order(struct step *s, const struct policy_event *event)
{
    s->run->places_at_ms = 0;
    steering_note_groups(s, true);
    note_order(s); /* a hold may be over at once */
    switch (event->order) {
    case RUN_ORDER_RESTART:
        loss_make_meet(s, true, "an operator has asked for it");
        break;
    case RUN_ORDER_CLOSE:
        if (!closing_close(s))
            break;
        s->run->failed = true; /* so all agents learn it at once */
        loss_end_run(s);
        break;
    case RUN_ORDER_KEEP_OUT:
        loss_set_aside(s, false);
        if (event->evicts != NULL && has_evicted(s->run, event->evicts))
            loss_make_meet(s, true, "an operator has asked for it");
        if (event->ends)
            end_agents(s, event->evicts);
        break;
    }
    round_end_last_call(s, NULL);
}
