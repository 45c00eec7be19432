/* What is below /rdzv/v1/spaces: spaces and their runs. See handlers.h for the contract. */
#include <stdio.h>

#include "proto/json.h"
#include "proto/torch/torch_state.h"
#include "proto/units.h"
#include "rdzv/admin/handlers.h"
#include "rdzv/admin/run_status.h"
#include "rdzv/admin/status.h"
#include "rdzv/engine/log.h"
#include "rdzv/etcd_runs/etcd_runs.h"
#include "rdzv/http/access.h"
#include "rdzv/http/reply.h"
#include "rdzv/relay/restart.h"
#include "rdzv/rendezvous/rendezvous.h"

static const struct reply ok = {.status = 200, .content_type = HTTP_JSON, .no_store = true};

/* {"space":NAME,"removed":N} */
static void reply_removed(const struct http_request *r, const char *what, struct slice name,
                          uint64_t removed)
{
    struct reply_body body;

    reply_body_begin(&body);
    json_open(&body.w, '{');
    json_member(&body.w, what, name);
    json_member_u64(&body.w, "removed", removed);
    writer_str(&body.w, "}\n");
    reply_body_send(r, &ok, &body);
}

/* --- A space. --- */

static void reset_space(const struct http_request *r, struct engine_space *space)
{
    const struct command command = {.kind = COMMAND_SPACE_RESET,
                                    .now_ns = engine_wall_ns(http_engine(r))};
    const char *name = space->store->name;
    /* As the status counts them; the command counts a tree by the children of its root. */
    const struct space_usage use = space_usage(space->store);
    uint64_t removed = use.keys + use.queues + space->store->tree.count - 1;
    struct store_result result;

    engine_apply(http_engine(r), space, &command, &result);
    log_event(LOG_INFO, "space_reset", log_str("space", name), log_u64("removed", removed),
              log_str("peer", CONN_PEER(r->conn)));
    reply_removed(r, "space", slice_str(name), removed);
}

/* --- Orders of operators. --- */

#define TEXT_MAX 200 /* bytes of a reason, and of a name of an operator; the rest is cut off */

/* The parameter of the query, unescaped, with an end; "": it is absent. */
static void read_text(const struct http_request *r, const char *name, char out[TEXT_MAX + 1])
{
    struct slice value;

    url_find_param(r->query, name, &value);
    value.len = value.len < TEXT_MAX ? value.len : TEXT_MAX;
    value = url_unescape_value(value, (uint8_t *)out);
    slice_copy(out, value);
    out[value.len] = '\0';
}

/* About nodes, it also says how many have such a host now. */
static void reply_order(const struct http_request *r, const struct engine_space *space,
                        bool is_about_node, struct slice word, struct slice name)
{
    struct operator_nodes nodes;
    struct reply_body body;

    reply_body_begin(&body);
    json_open(&body.w, '{');
    if (word.len != 0)
        json_member(&body.w, "order", word);
    json_member(&body.w, "about", name);
    if (is_about_node) {
        nodes = operator_count_nodes(space, name);
        json_member_u64(&body.w, "nodes", nodes.all);
        json_member_u64(&body.w, "participants", nodes.participants);
        if (nodes.lacks != NULL)
            json_member(&body.w, "lacks", nodes.lacks->id);
    }
    writer_str(&body.w, "}\n");
    reply_body_send(r, &ok, &body);
}

/* The relays of a run in place make all its containers start again, agents or none. */
static struct operator_answer order_run(struct engine_space *space,
                                        const struct operator_order *order)
{
    struct run_view *run = rendezvous_find(space, order->name);

    if (order->verb == OPERATOR_RESTART && link_restart_order(space)) {
        operator_log(space, order);
        return (struct operator_answer){.status = 200};
    }
    return run != NULL ? operator_order_run(run, order)
                       : (struct operator_answer){.status = 404, .why = "No such run"};
}

/* How long workers have until their node is evicted. */
#define DRAIN_MS      120000u
#define DRAIN_MOST_MS 86400000u
#define FOR_MOST_MS   31536000000u
#define UNTIL_MOST    1000000u

static bool deletes(const struct http_request *r)
{
    return r->head->method == HTTP_DELETE;
}

/* The word of the order. DELETE of an order means the order that takes it back; a pattern of nodes
 * has one order, so DELETE need not name it. Empty: there is no such order. */
static struct slice read_word(const struct http_request *r, bool is_about_node)
{
    struct slice word;

    url_find_param(r->query, "order", &word);
    if (!deletes(r))
        return word;
    if (is_about_node && (word.len == 0 || slice_is(word, "cordon") || slice_is(word, "drain") ||
                          slice_is(word, "evict")))
        return slice_str("uncordon");
    if (slice_is(word, "hold"))
        return slice_str("release");
    return slice_is(word, "rules") ? word : (struct slice){0};
}

/* False: the parameter is there, and is no duration from `least` to `most` ms. */
static bool read_time(const struct http_request *r, const char *name, uint64_t least, uint64_t most,
                      uint64_t *ms)
{
    char text[TEXT_MAX + 1];

    read_text(r, name, text);
    return text[0] == '\0' ||
           (units_parse_duration(text, ms) == UNITS_OK && *ms >= least && *ms <= most);
}

/* NULL: the order is read; else why not. `order->name` is there. */
static const char *read_order(const struct http_request *r, bool is_about_node, struct slice word,
                              struct operator_order *order, char rules[TEXT_MAX + 1])
{
    struct run_rules parsed = {0};
    char until[TEXT_MAX + 1];

    if (!operator_verb_read(word, &order->verb) ||
        operator_is_about_node(order->verb) != is_about_node)
        return deletes(r)      ? "Only hold, rules, cordon, drain and evict are taken back; DELETE "
                                 "of a run without a query forgets the run"
               : is_about_node ? "Say ?order=cordon, drain, evict or uncordon"
                               : "Say ?order=restart, hold, release, close, dump or rules";
    order->in_ms = order->verb == OPERATOR_DRAIN ? DRAIN_MS : 0;
    if (order->verb == OPERATOR_DRAIN && !read_time(r, "in", 0, DRAIN_MOST_MS, &order->in_ms))
        return "in=DURATION is for drain: such as 120s, and 24h at most";
    if (order->verb != OPERATOR_DRAIN &&
        (!read_time(r, "for", 1, FOR_MOST_MS, &order->in_ms) ||
         (order->in_ms != 0 && order->verb != OPERATOR_HOLD && order->verb != OPERATOR_CORDON)))
        return "for=DURATION is for hold and cordon: such as 1h, not 0, and 8760h at most";
    read_text(r, "until", until);
    order->ends_gone = strcmp(until, "gone") == 0 &&
                       (order->verb == OPERATOR_DRAIN || order->verb == OPERATOR_EVICT);
    if (until[0] != '\0' && !order->ends_gone &&
        (!slice_to_u64(slice_str(until), UNTIL_MOST, &order->until) || order->until == 0 ||
         order->verb != OPERATOR_HOLD))
        return "until=gone is for drain and evict, and until=NODES (1 to 1000000) for hold";
    read_text(r, "end", until);
    order->ends_agents = strcmp(until, "true") == 0 && order->verb == OPERATOR_EVICT;
    if (until[0] != '\0' && !order->ends_agents)
        return "end=true is for evict";
    read_text(r, "rules", rules);
    order->rules_text = rules[0] == '\0' || deletes(r) ? NULL : rules;
    return order->rules_text == NULL ? NULL : run_rules_read(rules, &parsed, NULL);
}

/* About the run of that name, or the nodes. */
static void handle_order(const struct http_request *r, struct engine_space *space,
                         bool is_about_node, struct slice name)
{
    struct operator_order order = {.name = name};
    char reason[TEXT_MAX + 1], by[TEXT_MAX + 1], rules[TEXT_MAX + 1],
        whole[TEXT_MAX + CONN_PEER_MAX + 8];
    struct operator_answer answer;
    struct slice word = read_word(r, is_about_node);
    const char *wrong = read_order(r, is_about_node, word, &order, rules);

    if (wrong != NULL) {
        reply_message(r, 400, wrong, HTTP_ETCD_NONE);
        return;
    }
    read_text(r, "reason", reason);
    read_text(r, "by", by);
    snprintf(whole, sizeof whole, "%s%s%s", by, by[0] == '\0' ? "" : " at ", CONN_PEER(r->conn));
    order.reason = reason;
    order.by = whole;
    answer = is_about_node ? operator_order_node(space, &order) : order_run(space, &order);
    if (answer.why != NULL)
        reply_message(r, answer.status, answer.why, HTTP_ETCD_NONE);
    else
        reply_order(r, space, is_about_node, word, name);
}

static void handle_nodes(const struct http_request *r, struct engine_space *space,
                         struct slice pattern)
{
    if (http_is_reading(r))
        reply_order(r, space, true, (struct slice){0}, pattern);
    else
        handle_order(r, space, true, pattern);
}

/* --- A run. --- */

static void reply_node(const struct http_request *r, struct run_view *run)
{
    static const struct status_form form = {.streamed = false};
    const struct torch_node *node = NULL;
    struct run_facts facts;
    struct reply_body body;
    struct slice text;
    uint64_t rank;

    if (!url_find_param(r->query, "rank", &text) || !slice_to_u64(text, INT64_MAX, &rank)) {
        reply_message(r, 400, "Name a node: ?rank=NUMBER", HTTP_ETCD_NONE);
        return;
    }
    rendezvous_facts(run, &facts);
    if (run->state.complete)
        node = node_of_rank(&run->state, (int64_t)rank);
    if (node == NULL || !run_status_counts(&facts, node)) {
        REPLY_MESSAGE(r, 404, HTTP_ETCD_NONE, slice_str("No node has the rank "), text);
        return;
    }
    reply_body_begin(&body);
    status_node_write(&body.w, &facts, node, &form);
    reply_body_send(r, &ok, &body);
}

static void handle_run(const struct http_request *r, struct engine_space *space, struct slice id)
{
    struct run_view *run = rendezvous_find(space, id);
    bool forgets = deletes(r) && r->query.len == 0; /* no order with a fault forgets a run */

    if (run == NULL && forgets && etcd_runs_forget(http_engine(r), space, id))
        reply_removed(r, "run", id, 1);
    else if (run == NULL && forgets && rendezvous_forget_ended(space, id))
        reply_removed(r, "run", id, 0);
    else if (!http_is_reading(r) && !forgets && (run != NULL || slice_is(id, space->store->name)))
        handle_order(r, space, false, id);
    else if (run == NULL)
        REPLY_MESSAGE(r, 404, HTTP_ETCD_NONE, slice_str("No such run: "), id);
    else if (forgets)
        reply_removed(r, "run", id, rendezvous_forget(run));
    else
        reply_node(r, run);
}

/* --- Both. --- */

/* The space, if it exists, the client may see it, and the request may be made; else NULL, and the
 * request is answered. `methods`: those of the path, as the header Allow names them. */
static struct engine_space *find_space_for(const struct http_request *r, struct slice name,
                                           const char *methods)
{
    struct engine_space *space = engine_find_space(http_engine(r), name);

    if (!http_allows(r, methods))
        reply_not_allowed(r, methods, HTTP_ETCD_NONE);
    else if (!http_is_reading(r) && !http_may_change_daemon(r))
        return NULL;
    else if ((space == r->space || http_shows_all_spaces(r)) && space != NULL)
        return space;
    else
        REPLY_MESSAGE(r, 404, HTTP_ETCD_NONE, slice_str("No such space: "), name);
    return NULL;
}

/* "NAME", "NAME/status", "NAME/runs/ID" or "NAME/nodes/PATTERN". A space's name holds no '/'. */
static void handle_below(const struct http_request *r, struct slice path)
{
    static const char runs[] = "/runs/", nodes[] = "/nodes/";
    const uint8_t *slash = memchr(path.ptr, '/', path.len);
    struct slice name = {path.ptr, slash == NULL ? path.len : (size_t)(slash - path.ptr)};
    struct slice rest = slice_from(path, name.len);
    struct engine_space *space;

    if (slice_is(rest, "/status")) {
        if ((space = find_space_for(r, name, "GET,HEAD")) != NULL)
            admin_status_reply(r, space, true);
    } else if (rest.len == 0) {
        if ((space = find_space_for(r, name, "DELETE")) != NULL)
            reset_space(r, space);
    } else if (slice_starts_with(rest, slice_str(runs)) && rest.len > strlen(runs)) {
        if ((space = find_space_for(r, name, "GET,HEAD,PUT,DELETE")) != NULL)
            handle_run(r, space, slice_from(rest, strlen(runs)));
    } else if (slice_starts_with(rest, slice_str(nodes))) {
        if ((space = find_space_for(r, name, "GET,HEAD,PUT,DELETE")) != NULL)
            handle_nodes(r, space, slice_from(rest, strlen(nodes)));
    } else {
        reply_not_found(r);
    }
}

void admin_spaces_handle(const struct http_request *r)
{
    struct slice name = slice_from(r->path, strlen("/rdzv/v1/spaces"));

    if (name.len > 1)
        handle_below(r, slice_from(name, 1));
    else
        reply_not_found(r);
}
