/* A run as text: missing nodes, waits, nodes, history; see print.h. */

#include <stdlib.h>
#include <string.h>

#include "client/ctl/print.h"
#include "client/ctl_run.h"

#define NAMES_MOST   12 /* pieces of nodes in short */
#define MISSING_MOST 16 /* lines, but with -o wide */
#define WAITS_MOST   5
#define ROUNDS_MOST  5

struct short_text status_state(const cJSON *run)
{
    const char *state = member_text(run, "state");

    if (cJSON_IsTrue(member_item(run, "held")))
        return text_made("held");
    if (strcmp(state, "last_call") != 0)
        return text_made("%s", state);
    return cJSON_HasObjectItem(run, "seconds_left")
               ? text_made("last call, %ld s left", member_number(run, "seconds_left"))
               : text_made("last call");
}

/* How many nodes the run should have; 0: unknown. */
static long nodes_wanted(const cJSON *run)
{
    long expect = member_number(run, "expect"), min = member_number(run, "min");
    long missing = member_number(run, "missing_count"), here = member_number(run, "participants");

    if (here + missing > expect && missing > 0)
        return here + missing;
    return expect > min ? expect : min;
}

bool status_size_is_unknown(const cJSON *run)
{
    const char *state = member_text(run, "state");

    return (strcmp(state, "joining") == 0 || strcmp(state, "last_call") == 0) &&
           nodes_wanted(run) == 0 && member_number(run, "participants") > 0;
}

struct short_text status_nodes(const cJSON *run)
{
    long here = member_number(run, "participants"), all = nodes_wanted(run);

    return all > 0 ? text_made("%ld of %ld", here, all > here ? all : here)
                   : text_made("%ld", here);
}

/* --- Parts of a run. --- */

/* The --nnodes of torchrun, as far as the keys have shown them. */
static void print_range(FILE *out, const cJSON *run)
{
    long min = member_number(run, "min"), max = member_number(run, "max");

    if (cJSON_HasObjectItem(run, "min") && cJSON_HasObjectItem(run, "max"))
        fprintf(out, " (--nnodes=%ld:%ld)", min, max);
    else if (cJSON_HasObjectItem(run, "min"))
        fprintf(out, " (at least %ld)", min);
    else if (cJSON_HasObjectItem(run, "max"))
        fprintf(out, " (at most %ld)", max);
}

static void print_head(FILE *out, const struct ctl *ctl, const char *space, const cJSON *run,
                       int64_t now_us)
{
    const struct short_text nodes = status_nodes(run), age = member_age(run, "since", now_us);
    long missing = member_number(run, "missing_count"), waiting = member_number(run, "waiting");
    long agents = member_number(run, "agents_waiting");

    text_styled(out, STYLE_HEAD, ctl->colour, "RUN ");
    text_put(out, member_text(run, "id"), 200);
    fprintf(out, "  %s, round %ld", status_state(run).text, member_number(run, "round"));
    fprintf(out, "%s%s  (%s, space ", age.text[0] != '\0' ? ", for " : "", age.text,
            member_text(run, "backend"));
    text_put(out, space, 200);
    fputs(")\n  ", out);
    fprintf(out, "%s node%s", nodes.text, strcmp(nodes.text, "1") == 0 ? "" : "s");
    print_range(out, run);
    if (waiting > 0)
        fprintf(out, ", %ld wait%s for the next round", waiting, waiting == 1 ? "s" : "");
    if (member_number(run, "spares") > 0)
        fprintf(out, ", %ld spare", member_number(run, "spares"));
    if (member_number(run, "silent") > 0)
        fprintf(out, ", %ld silent", member_number(run, "silent"));
    if (agents > 0)
        fprintf(out, ", %ld agent%s until %s", agents, agents == 1 ? " waits" : "s wait",
                strcmp(member_text(run, "state"), "empty") == 0
                    ? "another host begins the run"
                    : "the last agent of the closed run has ended");
    if (status_size_is_unknown(run))
        fputs("; how many are wanted is not known before the first round is complete", out);
    else if (missing == 0 && strcmp(member_text(run, "state"), "failed") != 0)
        fputs(", none missing", out);
    if (member_number(run, "absent_count") > 0)
        fprintf(out, ", %ld absent", member_number(run, "absent_count"));
    fputc('\n', out);
}

/* More nodes than fit on a screen: names in short, grouped by reason. */
static void print_many_absent(FILE *out, const cJSON *absent, size_t count)
{
    static const char *const whys[] = {"disconnected", "silent", "replaced", "left", "kept out"};
    const char **names = ctl_memory(calloc(count + 1, sizeof *names));

    for (size_t i = 0; i < sizeof whys / sizeof *whys; i++) {
        size_t n = 0;

        JSON_EACH(node, absent) {
            if (strcmp(member_text(node, "why"), whys[i]) == 0)
                names[n++] = member_text(node, "addr");
        }
        if (n == 0)
            continue;
        fprintf(out, "    %zu %s: ", n, whys[i]);
        text_names(out, names, n, NAMES_MOST);
        fputc('\n', out);
    }
    free(names);
}

/* The names of absent nodes. */
static void print_absent_nodes(FILE *out, const struct ctl *ctl, const cJSON *absent,
                               int64_t now_us)
{
    static const struct table_column columns[] = COLUMNS_ABSENT;
    int named = cJSON_GetArraySize(absent);

    if (named > MISSING_MOST && ctl->output != OUTPUT_WIDE)
        print_many_absent(out, absent, (size_t)named);
    else if (named > 0)
        table_show(out, "    ", columns, absent, NULL, now_us, ctl->colour);
}

static void print_missing(FILE *out, const struct ctl *ctl, const cJSON *run, int64_t now_us)
{
    const cJSON *missing = member_item(run, "missing");
    long count = member_number(run, "missing_count"), named = cJSON_GetArraySize(missing);
    long unseen = count - named;
    char line[96];

    if (count == 0)
        return;
    snprintf(line, sizeof line, "  MISSING: %ld\n", count);
    text_styled(out, STYLE_BAD, ctl->colour, line);
    print_absent_nodes(out, ctl, missing, now_us);
    if (unseen > 0)
        fprintf(out, "    %ld %s not been seen yet\n", unseen,
                named > 0 ? (unseen == 1 ? "more has" : "more have")
                          : (unseen == 1 ? "node has" : "nodes have"));
}

/* Prints the nodes that took part in an earlier round but not in the latest one. */
static void print_absent_list(FILE *out, const struct ctl *ctl, const cJSON *run, int64_t now_us)
{
    const cJSON *absent = member_item(run, "absent");
    long count = member_number(run, "absent_count"), named = cJSON_GetArraySize(absent);

    if (count == 0)
        return;
    text_styled(out, STYLE_HEAD, ctl->colour, "  ABSENT");
    fprintf(out, ": %ld, and the run goes on without %s\n", count, count == 1 ? "it" : "them");
    print_absent_nodes(out, ctl, absent, now_us);
    if (count > named)
        fprintf(out, "    %ld more, which the store does not list\n", count - named);
}

/* Python takes seconds to load. If all workers are connected, as of a job that trains, only a run
 * that was asked for says so. */
static void print_workers(FILE *out, const struct ctl *ctl, const cJSON *run, int64_t now_us)
{
    long workers = member_number(run, "workers"), here = member_number(run, "workers_connected");
    int64_t for_us = now_us - text_time_us(member_text(run, "since"));
    const cJSON *nodes = member_item(run, "nodes"), *node;

    if (workers == 0 || strcmp(member_text(run, "state"), "complete") != 0 ||
        (here < workers ? for_us < STATUS_OVERDUE_US : ctl->arg_count == 0))
        return;
    text_styled(out, STYLE_HEAD, ctl->colour, "  WORKERS");
    fprintf(out, ": %ld of %ld are connected%s", here, workers,
            here == 0        ? ": have they called init_process_group(), with torchrun's "
                               "MASTER_ADDR and MASTER_PORT?"
            : here < workers ? ": have the others called init_process_group()?"
                             : ", and none waits for a key. If the job stands still, one is "
                               "outside the collective of the others, or their network fails.");
    for (int i = 0; i < NAMES_MOST && (node = cJSON_GetArrayItem(nodes, i)) != NULL; i++) {
        if (strcmp(member_text(node, "role"), "participant") != 0)
            break; /* participants are first, and only they have workers */
        fprintf(out, "%s%ld on ", i == 0 ? " To see each: py-spy dump -s --pid " : ", ",
                member_number(node, "pid"));
        text_put(out, member_text(node, "addr"), 100);
    }
    fputc('\n', out);
}

void status_print_waits(FILE *out, const struct ctl *ctl, const cJSON *owner, int64_t now_us)
{
    static const struct table_column columns[] = COLUMNS_WAITS;
    long waits = member_number(owner, "waits_count"), workers = member_number(owner, "workers");
    long connected = member_number(owner, "workers_connected");
    struct table t;
    int shown = 0;

    table_begin(&t, columns, 0);
    JSON_EACH(key, member_item(owner, "absent_keys")) {
        if (shown++ == WAITS_MOST && ctl->output != OUTPUT_WIDE)
            break;
        table_add_json(&t, STYLE_PLAIN, key);
    }
    if (shown == 0 && (waits == 0 || connected < workers))
        print_workers(out, ctl, owner, now_us);
    if (shown == 0)
        return;
    text_styled(out, STYLE_HEAD, ctl->colour, "  WAITING");
    fprintf(out, ": %ld client%s for keys that are not written yet (rdzvctl waiters)", waits,
            waits == 1 ? "" : "s");
    if (connected < workers)
        fprintf(out, "; %ld of %ld workers are connected", connected, workers);
    fputc('\n', out);
    table_print(&t, out, "    ", ctl->colour);
}

static void print_absent(FILE *out, const cJSON *barrier)
{
    const char *before = "; absent: rank ";

    JSON_EACH(rank, member_item(barrier, "absent")) {
        fprintf(out, "%s%ld", before, (long)rank->valuedouble);
        before = ", ";
    }
    before = " of ";
    JSON_EACH(node, member_item(barrier, "absent_nodes")) {
        fputs(before, out);
        text_put(out, cJSON_GetStringValue(node), 100);
        before = ", ";
    }
}

static void print_barriers(FILE *out, const struct ctl *ctl, const cJSON *owner)
{
    JSON_EACH(barrier, member_item(owner, "barriers")) {
        text_styled(out, STYLE_HEAD, ctl->colour, "  BARRIER ");
        text_put(out, member_text(barrier, "key"), 120);
        if (cJSON_HasObjectItem(barrier, "arrived") && cJSON_HasObjectItem(barrier, "size"))
            fprintf(out, ": %ld of %ld are there", member_number(barrier, "arrived"),
                    member_number(barrier, "size"));
        else if (cJSON_HasObjectItem(barrier, "arrived"))
            fprintf(out, ": %ld are there", member_number(barrier, "arrived"));
        print_absent(out, barrier);
        fputc('\n', out);
    }
}

static void print_hints(FILE *out, const struct ctl *ctl, const cJSON *run)
{
    JSON_EACH(hint, member_item(run, "hints")) {
        text_styled(out, STYLE_HEAD, ctl->colour, "  HINT");
        fputs(": ", out);
        text_put(out, cJSON_GetStringValue(hint), 500);
        fputc('\n', out);
    }
}

static bool is_silent(const cJSON *node)
{
    return cJSON_IsTrue(member_item(node, "silent"));
}

static enum text_style style_of_node(const cJSON *node)
{
    return is_silent(node) ? STYLE_BAD : STYLE_PLAIN;
}

static void cell_role(struct table *t, const cJSON *node, const char *member)
{
    const char *why = member_text(node, "why");

    table_printf(t, "%s%s%s%s%s", member_text(node, member), is_silent(node) ? ", silent" : "",
                 cJSON_IsTrue(member_item(node, "draining"))   ? ", draining"
                 : cJSON_IsTrue(member_item(node, "kept_out")) ? ", kept out"
                 : cJSON_IsTrue(member_item(node, "surplus"))  ? ", surplus"
                                                               : "",
                 why[0] == '\0' ? "" : ", ", why);
}

/* The nodes of one role, in short; silent nodes are listed as silent only. */
static void print_role(FILE *out, const cJSON *run, const char *role, const char *title)
{
    const cJSON *nodes = member_item(run, "nodes");
    const char **names = ctl_memory(calloc((size_t)cJSON_GetArraySize(nodes) + 1, sizeof *names));
    size_t count = 0;

    JSON_EACH(node, nodes) {
        const char *is = is_silent(node) ? "silent" : member_text(node, "role");
        const char *addr = member_text(node, "addr");

        if (strcmp(is, "spare") == 0 && cJSON_IsTrue(member_item(node, "kept_out")))
            is = "kept out";
        if (strcmp(is, role) == 0)
            names[count++] = addr[0] != '\0' ? addr : "(address not seen)";
    }
    if (count > 0) {
        fprintf(out, "  %s: ", title);
        text_names(out, names, count, NAMES_MOST);
        fputc('\n', out);
    }
    free(names);
}

static void print_nodes(FILE *out, const struct ctl *ctl, const cJSON *run, int64_t now_us)
{
    static const struct table_column columns[] = COLUMNS_NODES;
    const cJSON *nodes = member_item(run, "nodes");
    long left_out = member_number(run, "nodes_left_out");

    print_role(out, run, "silent", "SILENT");
    if (ctl->output == OUTPUT_WIDE && cJSON_GetArraySize(nodes) > 0) {
        table_show(out, "    ", columns, nodes, style_of_node, now_us, ctl->colour);
    } else if (ctl->output != OUTPUT_WIDE) {
        print_role(out, run, "participant", "HERE");
        print_role(out, run, "waiting", "WAIT FOR THE NEXT ROUND");
        print_role(out, run, "spare", "SPARE");
        print_role(out, run, "kept out", "KEPT OUT BY ORDERS");
    }
    if (left_out > 0)
        fprintf(out, "  HERE: %ld more nodes, which the store does not list\n", left_out);
}

void cell_took(struct table *t, const cJSON *row, const char *member)
{
    double seconds = member_double(row, member);

    if (seconds >= 60)
        table_cell(t, text_age((int64_t)seconds * 1000000).text);
    else if (cJSON_HasObjectItem(row, member))
        table_printf(t, "%.1fs", seconds);
    else
        table_cell(t, NULL);
}

static void cell_ago(struct table *t, const cJSON *round, const char *member)
{
    if (cJSON_HasObjectItem(round, member))
        table_printf(t, "%s ago", member_age(round, member, t->now_us).text);
    else
        table_cell(t, NULL);
}

static void print_rounds(FILE *out, const struct ctl *ctl, const cJSON *run, int64_t now_us)
{
    static const struct table_column columns[] = COLUMNS_ROUNDS;
    struct table t;
    const struct short_text since = member_age(run, "known_since", now_us);
    int shown = 0;

    table_begin(&t, columns, now_us);
    JSON_EACH(round, member_item(run, "rounds")) {
        if (member_text(round, "why")[0] == '\0')
            continue; /* it has not ended */
        if (shown++ == ROUNDS_MOST && ctl->output != OUTPUT_WIDE)
            break;
        table_add_json(&t, STYLE_PLAIN, round);
    }
    if (shown == 0 && since.text[0] == '\0')
        return;
    text_styled(out, STYLE_HEAD, ctl->colour, "  EARLIER ROUNDS");
    fprintf(out, since.text[0] != '\0' ? " are known since the store was started, %s ago\n" : "\n",
            since.text);
    if (shown > 0)
        table_print(&t, out, "    ", ctl->colour);
}

void status_print_run(FILE *out, const struct ctl *ctl, const char *space, const cJSON *run,
                      int64_t now_us)
{
    print_head(out, ctl, space, run, now_us);
    print_missing(out, ctl, run, now_us);
    print_absent_list(out, ctl, run, now_us);
    status_print_waits(out, ctl, run, now_us);
    print_barriers(out, ctl, run);
    print_hints(out, ctl, run);
    print_nodes(out, ctl, run, now_us);
    print_rounds(out, ctl, run, now_us);
}

static void cell_about(struct table *t, const cJSON *order, const char *)
{
    table_cell(t, member_text(order, cJSON_HasObjectItem(order, "run") ? "run" : "node"));
}

/* A time, or "gone". */
static void cell_ends(struct table *t, const cJSON *order, const char *member)
{
    const char *by = member_text(order, "until"); /* a drain becomes an eviction */
    const char *text = by[0] != '\0' ? by : member_text(order, member);
    int64_t us = text_time_us(text);

    if (us < 0)
        table_cell(t, text);
    else
        table_printf(t, "in %s", text_age(us - t->now_us).text);
}

void status_print_orders(FILE *out, const struct ctl *ctl, const cJSON *space, int64_t now_us)
{
    static const struct table_column columns[] = COLUMNS_ORDERS;
    const cJSON *orders = member_item(space, "orders");

    if (cJSON_GetArraySize(orders) == 0)
        return;
    text_styled(out, STYLE_HEAD, ctl->colour, "ORDERS");
    fputs(" of operators in the space ", out);
    text_put(out, member_text(space, "name"), 200);
    fputc('\n', out);
    table_show(out, "  ", columns, orders, NULL, now_us, ctl->colour);
}

void status_print_rest(FILE *out, const struct ctl *ctl, const cJSON *space)
{
    if (cJSON_GetArraySize(member_item(space, "absent_keys")) == 0 &&
        cJSON_GetArraySize(member_item(space, "barriers")) == 0 &&
        cJSON_GetArraySize(member_item(space, "hints")) == 0)
        return;
    text_styled(out, STYLE_HEAD, ctl->colour, "SPACE ");
    text_put(out, member_text(space, "name"), 200);
    fputs("  clients that belong to no run\n", out);
    status_print_waits(out, ctl, space, 0);
    print_barriers(out, ctl, space);
    print_hints(out, ctl, space);
}
