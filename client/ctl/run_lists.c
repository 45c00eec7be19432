/* status, runs, spaces and waiters: commands that show what /rdzv/v1/status says. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/commands.h"
#include "client/ctl/http.h"
#include "client/ctl/print.h"

#define INTERVAL_MS 2000

/* The store's answer, for a command. `spaces` is a list; with --space it has one item. */
struct ctl_view {
    const struct ctl *ctl;
    const cJSON *answer, *spaces;
    int64_t now_us;
};

typedef enum ctl_exit show_fn(const struct ctl_view *view);

/* The caller frees it. */
static char *status_path(const struct ctl *ctl, bool streamed)
{
    if (ctl->space == NULL)
        return http_path("/rdzv/v1/status", NULL, streamed ? "?watch=true" : NULL);
    return http_path("/rdzv/v1/spaces/", ctl->space, streamed ? "/status?watch=true" : "/status");
}

/* Turns the answer of one space into the form of all: {"now", "spaces": [json]}. Takes `json`. */
static cJSON *as_all(cJSON *json)
{
    cJSON *all;

    if (cJSON_IsArray(member_item(json, "spaces")))
        return json;
    all = ctl_memory(cJSON_CreateObject());
    cJSON_AddStringToObject(all, "now", member_text(json, "now"));
    cJSON_AddStringToObject(all, "started", member_text(json, "started"));
    cJSON_AddItemToArray(cJSON_AddArrayToObject(all, "spaces"), json);
    return all;
}

/* Removes the runs of the list `member` that have another name; false: no run is left. */
static bool keep_run(cJSON *spaces, const char *member, const char *id)
{
    bool found = false;

    JSON_EACH(space, spaces) {
        cJSON *runs = cJSON_GetObjectItemCaseSensitive(space, member), *run, *next;

        for (run = runs == NULL ? NULL : runs->child; run != NULL; run = next) {
            next = run->next;
            if (strcmp(member_text(run, "id"), id) == 0)
                found = true;
            else
                cJSON_Delete(cJSON_DetachItemViaPointer(runs, run));
        }
    }
    return found;
}

/* A store that every client may read ignores a wrong token, and answers as without a token. */
static void warn_of_token(const struct ctl *ctl, const cJSON *json)
{
    const cJSON *first = cJSON_GetArrayItem(member_item(json, "spaces"), 0);

    if (ctl->token_file != NULL && cJSON_IsFalse(member_item(json, "all_spaces")))
        ctl_say(CTL_FINE,
                "%s does not take the token in %s (--token-file) for an operator's: it shows only "
                "space %s, that of this listener",
                ctl->server, ctl->token_file, member_text(first, "name"));
}

/* If a space is missing in the list, perhaps a relay's --space is mistyped. */
static void print_scope(const struct ctl_view *view, FILE *out)
{
    if (cJSON_IsFalse(member_item(view->answer, "all_spaces")) && view->ctl->token_file == NULL)
        fprintf(out,
                "(only space %s, that of this listener; operators also see the spaces that relays "
                "have made: --token-file, or -s unix:/PATH)\n",
                member_text(view->spaces->child, "name"));
}

/* Takes `json`. */
static enum ctl_exit show_all(const struct ctl *ctl, cJSON *json, show_fn *fn)
{
    cJSON *spaces = cJSON_GetObjectItemCaseSensitive(json, "spaces");
    struct ctl_view view = {.ctl = ctl, .answer = json, .spaces = spaces};
    struct ctl ended = *ctl;
    enum ctl_exit code;

    if (ctl->watch && isatty(STDOUT_FILENO))
        fputs("\033[H\033[2J", stdout); /* home, and an empty screen */
    warn_of_token(ctl, json);
    view.now_us = text_time_us(member_text(json, "now"));
    if (ctl->arg_count == 0 || keep_run(spaces, "runs", ctl->args[0])) {
        code = fn(&view);
    } else if (keep_run(spaces, "ended", ctl->args[0])) {
        ended.ended = true;
        view.ctl = &ended;
        print_runs(&view);
        code = ctl_say(CTL_MISSING, "the run %s has ended", ctl->args[0]);
    } else {
        code = ctl_say(CTL_MISSING, "%s knows no run %s; `rdzvctl runs` lists those that it knows",
                       ctl->server, ctl->args[0]);
        print_scope(&view, stderr);
    }
    cJSON_Delete(json);
    if (ctl->watch && ctl->output <= OUTPUT_WIDE)
        puts("");
    fflush(stdout);
    return code;
}

/* --- Watching. --- */

struct watching {
    const struct ctl *ctl;
    show_fn *show;
    cJSON *newest; /* what the store has said last; NULL: nothing yet */
};

/* Adds the members that a stream leaves out because they change with time. */
static void add_seconds_left(cJSON *json)
{
    int64_t now_us = text_time_us(member_text(json, "now"));

    JSON_EACH(space, cJSON_GetObjectItemCaseSensitive(json, "spaces")) {
        JSON_EACH(run, cJSON_GetObjectItemCaseSensitive(space, "runs")) {
            int64_t left_us = text_time_us(member_text(run, "last_call_ends")) - now_us;

            if (member_item(run, "last_call_ends") != NULL)
                cJSON_AddNumberToObject(run, "seconds_left",
                                        left_us > 0 ? (double)left_us / 1e6 : 0);
        }
    }
}

/* The store sends each change, and its time each second, so that the ages on a screen grow. */
static bool on_status_event(void *arg, const char *event, const char *data)
{
    struct watching *w = arg;
    cJSON *json = cJSON_Parse(data), *now, *shown;
    bool is_news = strcmp(event, "status") == 0;

    if (json != NULL && is_news) {
        cJSON_Delete(w->newest);
        w->newest = as_all(json);
    } else if (json != NULL && w->newest != NULL) {
        now = cJSON_CreateString(member_text(json, "now"));
        cJSON_ReplaceItemInObjectCaseSensitive(w->newest, "now", ctl_memory(now));
        cJSON_Delete(json);
    } else {
        cJSON_Delete(json);
        return true;
    }
    if (!is_news && !isatty(STDOUT_FILENO))
        return true;
    shown = ctl_memory(cJSON_Duplicate(w->newest, true));
    add_seconds_left(shown);
    show_all(w->ctl, shown, w->show);
    return true;
}

/* Prints once, or with --watch until a signal, or until the store cannot be reached. */
static enum ctl_exit show_again(const struct ctl *ctl, show_fn *fn)
{
    int64_t interval = ctl->interval_ms >= 0 ? ctl->interval_ms : INTERVAL_MS;
    enum ctl_exit code;

    do {
        char *path = status_path(ctl, false);
        cJSON *json = NULL;

        code = http_json(ctl, "GET", path, &json);
        free(path);
        if (code == CTL_FINE)
            code = show_all(ctl, as_all(json), fn);
        if (ctl->watch)
            ctl_pause(interval < 100 ? 100 : interval);
    } while (ctl->watch && (code <= CTL_MISSING || code == CTL_UNKNOWN));
    return code;
}

/* --- Lists: a table of objects, or their names, or JSON. --- */

struct listing {
    const char *name;                              /* the member that -o name prints */
    enum text_style (*style)(const cJSON *object); /* NULL: plain */
    struct table_column columns[TABLE_COLUMNS];
};

/* `structured` is what scripts get. True: it was a table. */
static bool print_listing(const struct ctl_view *view, const cJSON *structured,
                          const cJSON *objects, const struct listing *listing)
{
    if (print_structured(view->ctl, structured))
        return false;
    if (view->ctl->output == OUTPUT_NAME) {
        JSON_EACH(object, objects)
            printf("%s\n", member_text(object, listing->name));
        return false;
    }
    table_show(stdout, "", listing->columns, objects, listing->style, view->now_us,
               view->ctl->colour);
    if (cJSON_GetArraySize(objects) == 0) {
        ctl_say(CTL_FINE, "there are none");
        if (view->ctl->arg_count == 0)
            print_scope(view, stderr);
    }
    return true;
}

/* --- status --- */

struct shown_run {
    const char *space;
    const cJSON *run;
    size_t at;
    const cJSON *ended; /* the runs of its space that have ended, the newest first */
};

/* Nodes are missing, or workers of a node have failed for the last time. */
static bool is_in_trouble(const cJSON *run)
{
    return member_number(run, "missing_count") > 0 ||
           strcmp(member_text(run, "state"), "failed") == 0;
}

/* 0: nodes are missing while others wait for them, or the run has failed. 1: no node is missing. 2:
 * all nodes have left, so only keys of an ended job are left. */
static int run_urgency(const cJSON *run)
{
    long here = member_number(run, "participants") + member_number(run, "waiting") +
                member_number(run, "agents") + member_number(run, "silent");

    if (here == 0)
        return 2;
    return is_in_trouble(run) ? 0 : 1;
}

static int urgent_first(const void *left, const void *right)
{
    const struct shown_run *a = left, *b = right;
    int order = run_urgency(a->run) - run_urgency(b->run);

    if (order == 0) /* of runs that have ended, the newest */
        order = strcmp(member_text(b->run, "ended"), member_text(a->run, "ended"));
    return order != 0 ? order : (a->at > b->at) - (a->at < b->at);
}

/* All runs of all spaces, which each space lists as `member`; the caller frees it. */
static struct shown_run *all_runs(const struct ctl_view *view, const char *member, size_t *count)
{
    struct shown_run *runs;

    *count = 0;
    JSON_EACH(space, view->spaces)
        *count += (size_t)cJSON_GetArraySize(member_item(space, member));
    runs = ctl_memory(calloc(*count + 1, sizeof *runs));
    *count = 0;
    JSON_EACH(space, view->spaces) {
        JSON_EACH(run, member_item(space, member)) {
            runs[*count] = (struct shown_run){member_text(space, "name"), run, *count,
                                              member_item(space, "ended")};
            ++*count;
        }
    }
    qsort(runs, *count, sizeof *runs, urgent_first);
    return runs;
}

/* Each with the name of its space. */
static cJSON *list_runs(const struct shown_run *runs, size_t count)
{
    cJSON *list = ctl_memory(cJSON_CreateArray());

    for (size_t i = 0; i < count; i++) {
        cJSON *run = ctl_memory(cJSON_Duplicate(runs[i].run, true));

        cJSON_AddStringToObject(run, "space", runs[i].space);
        cJSON_AddItemToArray(list, run);
    }
    return list;
}

/* At the end of a job, agents wait for each other as long as the slowest one trains. */
static bool waits_too_long(const cJSON *owner, int64_t now_us)
{
    JSON_EACH(wait, member_item(owner, "waits")) {
        const char *key = cJSON_GetStringValue(cJSON_GetArrayItem(member_item(wait, "keys"), 0));

        if (key != NULL && strstr(key, "/terminal_state") == NULL &&
            now_us - text_time_us(member_text(wait, "since")) >= STATUS_OVERDUE_US)
            return true;
    }
    return false;
}

static enum ctl_exit are_all_fine(const struct ctl_view *view, const struct shown_run *runs,
                                  size_t count)
{
    enum ctl_exit code = CTL_FINE;

    if (view->ctl->arg_count == 0 &&
        ANY(JSON_EACH(space, view->spaces), waits_too_long(space, view->now_us)))
        return CTL_MISSING;
    for (size_t i = 0; i < count; i++) {
        if (is_in_trouble(runs[i].run) || waits_too_long(runs[i].run, view->now_us))
            return CTL_MISSING;
        if (status_size_is_unknown(runs[i].run))
            code = CTL_UNKNOWN;
    }
    return code;
}

/* Returns the newest run of this id that has failed before, unless a run since then has ended
 * otherwise; NULL: there is none. `view`: prints it, and how many there were; or NULL. */
static const cJSON *failed_before(const struct ctl_view *view, const struct shown_run *of)
{
    const char *state = member_text(of->run, "state");
    const cJSON *newest = NULL;
    long count = 0;

    if (strcmp(state, "failed") == 0 || strcmp(state, "closed") == 0)
        return NULL; /* its own end is in the list */
    JSON_EACH(ended, of->ended) {
        if (strcmp(member_text(ended, "id"), member_text(of->run, "id")) != 0)
            continue;
        if (strcmp(member_text(ended, "end"), "failed") != 0)
            break;
        newest = newest == NULL ? ended : newest;
        count++;
    }
    if (view != NULL && newest != NULL) {
        printf("  EARLIER RUNS of this id that have failed: %ld; the last one, %s ago: ", count,
               member_age(newest, "ended", view->now_us).text);
        text_put(stdout, member_text(newest, "why"), SIZE_MAX);
        puts("");
    }
    return newest;
}

static void status_as_text(const struct ctl_view *view, const struct shown_run *runs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            fputc('\n', stdout);
        status_print_run(stdout, view->ctl, runs[i].space, runs[i].run, view->now_us);
        failed_before(view, &runs[i]);
    }
    JSON_EACH(space, view->spaces) {
        if (view->ctl->arg_count == 0 || member_item(space, "runs")->child != NULL)
            status_print_orders(stdout, view->ctl, space, view->now_us);
    }
    if (view->ctl->arg_count > 0)
        return;
    if (count == 0) {
        free(all_runs(view, "ended", &count));
        printf("no runs at %s: ", view->ctl->server);
        if (count > 0)
            printf("all have ended, %zu in the last day: `rdzvctl runs --ended`\n", count);
        else if (view->now_us - text_time_us(member_text(view->answer, "started")) >
                 INT64_C(86400000000))
            puts("no agent has come in the last day (jobs without torchrun have no run)");
        else
            printf("no agent has come since the store was started, %s ago (jobs without torchrun "
                   "have no run)\n",
                   member_age(view->answer, "started", view->now_us).text);
        print_scope(view, stdout);
    }
    JSON_EACH(space, view->spaces)
        status_print_rest(stdout, view->ctl, space);
}

static enum ctl_exit print_status(const struct ctl_view *view)
{
    size_t count;
    struct shown_run *runs = all_runs(view, "runs", &count);
    enum ctl_exit code = are_all_fine(view, runs, count);

    if (view->ctl->output == OUTPUT_NAME) {
        for (size_t i = 0; i < count; i++)
            printf("%s\n", member_text(runs[i].run, "id"));
    } else if (view->ctl->arg_count > 0 && count > 0 && view->ctl->output >= OUTPUT_JSON) {
        cJSON *list = count == 1 ? NULL : list_runs(runs, count); /* in as many spaces */

        print_structured(view->ctl, list == NULL ? runs[0].run : list);
        cJSON_Delete(list);
    } else if (!print_structured(view->ctl, view->spaces)) {
        status_as_text(view, runs, count);
    }
    free(runs);
    return code;
}

/* With --watch again after each change, until a signal, or until the store is lost. The stream
 * leaves out the age of heartbeats, which -o wide has. */
enum ctl_exit run_status(const struct ctl *ctl)
{
    struct watching w = {.ctl = ctl, .show = print_status};
    enum ctl_exit code;
    char *path;

    if (!ctl->watch || ctl->interval_ms >= 0 || ctl->output == OUTPUT_WIDE)
        return show_again(ctl, print_status);
    path = status_path(ctl, true);
    code = http_stream(ctl, path, on_status_event, &w);
    free(path);
    cJSON_Delete(w.newest);
    return code;
}

enum ctl_exit run_list(const struct ctl *ctl)
{
    return show_again(ctl, ctl->command->print);
}

/* --- runs --- */

static void cell_state(struct table *t, const cJSON *run, const char *)
{
    table_cell(t, status_state(run).text);
}

static void cell_nodes(struct table *t, const cJSON *run, const char *)
{
    table_cell(t, status_nodes(run).text);
}

static void cell_names(struct table *t, const cJSON *run, const char *member)
{
    char names[256] = "";

    JSON_EACH(name, member_item(run, member))
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s",
                 names[0] == '\0' ? "" : ", ", cJSON_IsString(name) ? name->valuestring : "");
    table_cell(t, names);
}

static enum text_style style_of_run(const cJSON *run)
{
    return is_in_trouble(run) || strcmp(member_text(run, "end"), "failed") == 0 ? STYLE_BAD
                                                                                : STYLE_PLAIN;
}

enum ctl_exit print_runs(const struct ctl_view *view)
{
    static const struct listing listing = {"id", style_of_run, COLUMNS_RUNS};
    static const struct listing ended = {"id", style_of_run, COLUMNS_ENDED};
    size_t count;
    struct shown_run *runs = all_runs(view, view->ctl->ended ? "ended" : "runs", &count);
    cJSON *list = list_runs(runs, count);

    print_listing(view, list, list, view->ctl->ended ? &ended : &listing);
    cJSON_Delete(list);
    free(runs);
    return CTL_FINE;
}

/* --- spaces --- */

static long missing_in(const cJSON *space)
{
    long missing = 0;

    JSON_EACH(run, member_item(space, "runs"))
        missing += member_number(run, "missing_count");
    return missing;
}

static void cell_runs(struct table *t, const cJSON *space, const char *runs)
{
    table_printf(t, "%d", cJSON_GetArraySize(member_item(space, runs)));
}

static void cell_missing(struct table *t, const cJSON *space, const char *)
{
    table_printf(t, "%ld", missing_in(space));
}

static enum text_style style_of_space(const cJSON *space)
{
    return missing_in(space) > 0 ? STYLE_BAD : STYLE_PLAIN;
}

static cJSON *spaces_alone(const cJSON *spaces)
{
    cJSON *list = ctl_memory(cJSON_Duplicate(spaces, true));

    JSON_EACH(space, list) {
        int runs = cJSON_GetArraySize(member_item(space, "runs"));

        for (size_t i = 0; i < 5; i++) {
            static const char *const lists[] = {"runs", "waits", "waits_count", "absent_keys",
                                                "barriers"};

            cJSON_DeleteItemFromObjectCaseSensitive(space, lists[i]);
        }
        cJSON_AddNumberToObject(space, "runs", runs);
    }
    return list;
}

enum ctl_exit print_spaces(const struct ctl_view *view)
{
    static const struct listing listing = {"name", style_of_space, COLUMNS_SPACES};
    cJSON *alone = spaces_alone(view->spaces);

    if (print_listing(view, alone, view->spaces, &listing))
        print_scope(view, stdout);
    cJSON_Delete(alone);
    return CTL_FINE;
}

/* --- waiters --- */

static void add_waits(cJSON *list, const cJSON *owner, const char *space, const char *run)
{
    JSON_EACH(wait, member_item(owner, "waits")) {
        cJSON *copy = ctl_memory(cJSON_Duplicate(wait, true));

        cJSON_AddStringToObject(copy, "space", space);
        if (run != NULL)
            cJSON_AddStringToObject(copy, "run", run);
        cJSON_AddItemToArray(list, copy);
    }
}

/* The texts of RFC 3339 times in one zone sort by time. */
static int oldest_first(const void *left, const void *right)
{
    return strcmp(member_text(*(const cJSON *const *)left, "since"),
                  member_text(*(const cJSON *const *)right, "since"));
}

static void sort_list(cJSON *list, int (*order)(const void *left, const void *right))
{
    size_t count = (size_t)cJSON_GetArraySize(list), n = 0;
    cJSON **items = ctl_memory(calloc(count + 1, sizeof *items));
    cJSON *item;

    while ((item = cJSON_DetachItemFromArray(list, 0)) != NULL)
        items[n++] = item;
    qsort(items, n, sizeof *items, order);
    for (size_t i = 0; i < n; i++)
        cJSON_AddItemToArray(list, items[i]);
    free(items);
}

static void cell_wait_keys(struct table *t, const cJSON *wait, const char *keys)
{
    const char *first = cJSON_GetStringValue(cJSON_GetArrayItem(member_item(wait, keys), 0));
    long count = member_number(wait, "key_count");

    if (count > 1)
        table_printf(t, "%s and %ld more", first == NULL ? "" : first, count - 1);
    else
        table_cell(t, first);
}

enum ctl_exit print_waiters(const struct ctl_view *view)
{
    static const struct listing listing = {"peer", NULL, COLUMNS_WAITERS};
    cJSON *list = ctl_memory(cJSON_CreateArray());

    JSON_EACH(space, view->spaces) {
        JSON_EACH(run, member_item(space, "runs"))
            add_waits(list, run, member_text(space, "name"), member_text(run, "id"));
        if (view->ctl->arg_count == 0)
            add_waits(list, space, member_text(space, "name"), NULL);
    }
    sort_list(list, oldest_first);
    print_listing(view, list, list, &listing);
    cJSON_Delete(list);
    return CTL_FINE;
}

/* --- goodput --- */

enum ctl_exit print_goodput(const struct ctl_view *view)
{
    static const struct listing listing = {"part", NULL, COLUMNS_GOODPUT};
    size_t count;
    struct shown_run *runs = all_runs(view, "runs", &count);
    cJSON *parts = ctl_memory(cJSON_Duplicate(member_item(runs[0].run, "goodput"), true));
    double all = 0;
    char share[16];

    JSON_EACH(part, parts)
        all += member_item(part, "seconds")->valuedouble;
    JSON_EACH(part, parts) {
        snprintf(share, sizeof share, "%.1f %%",
                 all > 0 ? 100 * member_item(part, "seconds")->valuedouble / all : 0);
        cJSON_AddStringToObject(part, "share", share);
    }
    if (print_listing(view, parts, parts, &listing))
        failed_before(view, &runs[0]);
    cJSON_Delete(parts);
    free(runs);
    return CTL_FINE;
}

/* --- ranks --- */

static int lowest_first(const void *left, const void *right)
{
    return (int)(member_number(*(const cJSON *const *)left, "rank") -
                 member_number(*(const cJSON *const *)right, "rank"));
}

/* The nodes of the run that have a rank. */
static cJSON *ranked_nodes(const cJSON *run)
{
    cJSON *list = ctl_memory(cJSON_CreateArray());

    JSON_EACH(node, member_item(run, "nodes")) {
        if (member_item(node, "rank") != NULL)
            cJSON_AddItemToArray(list, ctl_memory(cJSON_Duplicate(node, true)));
    }
    sort_list(list, lowest_first);
    return list;
}

/* Marks each node whose successor in the ring is in another domain. Returns how many it marks. */
static int mark_edges(cJSON *nodes)
{
    int edges = 0;

    JSON_EACH(node, nodes) {
        const cJSON *next = node->next != NULL ? node->next : nodes->child;
        const char *domain = member_text(next, "domain");

        if (strcmp(member_text(node, "domain"), domain) == 0)
            continue;
        cJSON_AddStringToObject(node, "next_domain", domain[0] == '\0' ? "none" : domain);
        edges++;
    }
    return edges;
}

enum ctl_exit print_ranks(const struct ctl_view *view)
{
    static const struct listing listing = {"addr", NULL, COLUMNS_RANKS};
    size_t count;
    struct shown_run *runs = all_runs(view, "runs", &count);
    const cJSON *run = runs[0].run;
    cJSON *nodes = ranked_nodes(run);
    int edges = mark_edges(nodes), size = cJSON_GetArraySize(nodes);
    enum ctl_exit code = size > 0 ? CTL_FINE : CTL_MISSING;
    bool is_text = true;

    free(runs);
    if (member_number(run, "nodes_left_out") > 0)
        code = ctl_say(CTL_FAILED, "the store lists the ranks of 512 nodes at most");
    else if (size == 0)
        ctl_say(code, "%s has no ranks: its round is not complete", member_text(run, "id"));
    else if ((is_text = print_listing(view, nodes, nodes, &listing)))
        printf(edges == 0
                   ? "round %ld, --rank-order=%s\n"
                   : "round %ld, --rank-order=%s: %d of %d edges of the ring cross domains\n",
               member_number(run, "round"), member_text(run, "rank_order"), edges, size);
    JSON_EACH(node, member_item(run, "nodes")) {
        if (is_text && member_item(node, "why") != NULL)
            ctl_say(code, "%s is a spare: %s", member_text(node, "addr"), member_text(node, "why"));
    }
    cJSON_Delete(nodes);
    return code;
}

/* --- why --- */

/* The newest complete round that has ended, or is about to; NULL: there is none. */
static const cJSON *ended_round(const cJSON *run)
{
    return FIND(round, JSON_EACH(round, member_item(run, "rounds")),
                member_item(round, "why") != NULL && member_item(round, "nodes") != NULL);
}

/* The end of that round; before it, why no later one became complete. */
static void print_ends(const cJSON *run, const cJSON *last)
{
    JSON_EACH(round, member_item(run, "rounds")) {
        if (member_item(round, "why") == NULL)
            continue;
        printf("round %ld ended: ", member_number(round, "round"));
        text_put(stdout, member_text(round, "why"), SIZE_MAX);
        puts("");
        if (round == last)
            break;
    }
    if (last != NULL && strstr(member_text(last, "why"), " ended first") == NULL)
        puts("no worker is known to have ended before");
}

enum ctl_exit print_why(const struct ctl_view *view)
{
    size_t count;
    struct shown_run *runs = all_runs(view, "runs", &count);
    const cJSON *run = runs[0].run, *round = ended_round(run);
    const cJSON *shown = round != NULL ? round : failed_before(NULL, &runs[0]);

    if (shown == NULL || !print_structured(view->ctl, shown)) {
        print_ends(run, round);
        if (round == NULL)
            failed_before(view, &runs[0]);
        status_print_waits(stdout, view->ctl, run, view->now_us);
    }
    free(runs);
    if (shown != NULL)
        return CTL_FINE;
    return ctl_say(CTL_MISSING, "no complete round of %s has ended%s", view->ctl->args[0],
                   cJSON_HasObjectItem(run, "known_since") ? " since the store was started" : "");
}
