/* monitor, forget, clear, and orders to runs and nodes: what only operators may do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/commands.h"
#include "client/ctl/http.h"
#include "client/ctl/print.h"

/* --- monitor: requests as the store carries them out, from /rdzv/v1/monitor --- */

struct monitoring {
    const struct ctl *ctl;
    int64_t left;  /* --count; -1: for ever */
    uint64_t more; /* requests that were not shown, since the last line that said so */
    bool has_head;
};

static void print_request(const struct ctl *ctl, const cJSON *request)
{
    const char *time = member_text(request, "time");
    const char *clock = time + strcspn(time, "T") + (strchr(time, 'T') != NULL);
    char shown[] = "00:00:00.000000"; /* the store leaves out zeros at the end */
    size_t len = strcspn(clock, "Z");

    if (ctl->output == OUTPUT_JSON) {
        char *line = ctl_memory(cJSON_PrintUnformatted(request));

        puts(line);
        free(line);
        return;
    }
    memcpy(shown, clock, len < sizeof shown ? len : sizeof shown - 1);
    printf("%s  %-21s  %-10s  %-11s  %7ld  ", shown, member_text(request, "peer"),
           member_text(request, "space"), member_text(request, "operation"),
           member_number(request, "bytes"));
    text_put(stdout, member_text(request, "key"), SIZE_MAX);
    if (member_number(request, "keys") > 1)
        printf(" and %ld more", member_number(request, "keys") - 1);
    putchar('\n');
}

/* One line for so many requests, so that lines come seldom. */
#define MORE_LEAST 1000

static void say_more(struct monitoring *m, bool now)
{
    if (m->more == 0 || (!now && m->more < MORE_LEAST) || m->ctl->output == OUTPUT_JSON)
        return;
    printf("%-15s  %llu more requests, which are not shown\n", "…", (unsigned long long)m->more);
    m->more = 0;
}

/* The store sends a sample of all spaces' requests. --space prints a part of the sample; the rest
 * of the sample is not counted in `more`. */
static void print_requests(struct monitoring *m, const cJSON *json)
{
    const char *space = m->ctl->space;
    double all = member_double(json, "c10d_requests") + member_double(json, "http_requests");
    double shown = member_double(json, "shown");

    JSON_EACH(request, member_item(json, "requests")) {
        if (m->left == 0)
            return;
        if (space != NULL && strcmp(member_text(request, "space"), space) != 0)
            continue;
        print_request(m->ctl, request);
        m->left -= m->left > 0;
    }
    m->more += all > shown ? (uint64_t)(all - shown) : 0;
    say_more(m, false);
}

static bool on_monitor_event(void *arg, const char *event, const char *data)
{
    struct monitoring *m = arg;
    cJSON *json = cJSON_Parse(data);

    if (!m->has_head && m->ctl->output <= OUTPUT_WIDE) /* the store has accepted this client */
        printf("%-15s  %-21s  %-10s  %-11s  %7s  %s\n", "TIME", "PEER", "SPACE", "OPERATION",
               "BYTES", "KEY");
    m->has_head = true;
    if (json != NULL && strcmp(event, "requests") == 0)
        print_requests(m, json);
    else if (json != NULL && strcmp(event, "missed") == 0)
        m->more += (uint64_t)member_number(json, "requests");
    cJSON_Delete(json);
    fflush(stdout);
    return m->left != 0;
}

enum ctl_exit run_monitor(const struct ctl *ctl)
{
    struct monitoring m = {.ctl = ctl, .left = ctl->count > 0 ? ctl->count : -1};
    enum ctl_exit code = http_stream(ctl, "/rdzv/v1/monitor", on_monitor_event, &m);

    say_more(&m, true);
    return code;
}

/* --- forget, clear --- */

#define SPACES "/rdzv/v1/spaces/"

/* With --yes, if the person at the terminal agrees, or if the command asks nothing. */
static bool is_confirmed(const struct ctl *ctl, const char *space)
{
    char question[512], answer[16];

    if (ctl->yes || ctl->command->question == NULL)
        return true;
    snprintf(question, sizeof question, ctl->command->question, ctl->args[0], space, ctl->server);
    if (!isatty(STDIN_FILENO)) {
        ctl_say(CTL_USAGE, "%s Say so with --yes", question);
        return false;
    }
    fprintf(stderr, "%s [y/N] ", question);
    return fgets(answer, sizeof answer, stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y');
}

/* Takes `path`. */
static enum ctl_exit delete_path(const struct ctl *ctl, char *path, const char *what)
{
    cJSON *json = NULL;
    enum ctl_exit code = http_json(ctl, "DELETE", path, &json);

    free(path);
    if (code == CTL_FINE)
        printf("%s: %.0f keys removed\n", what, member_double(json, "removed"));
    cJSON_Delete(json);
    return code;
}

/* --- Orders --- */

/* "/rdzv/v1/spaces/SPACE/runs/NAME", or nodes; the caller frees it. */
static char *path_in_space(const char *space, const char *kind, const char *name)
{
    char *front = http_path(SPACES, space, kind), *path = http_path(front, name, NULL);

    free(front);
    return path;
}

/* The space has such a run, or a node that the pattern names; for uncordon, an order about it. */
static bool is_in_space(const struct ctl *ctl, const cJSON *space, const char *kind)
{
    bool is_run = strcmp(kind, "/runs/") == 0, found;
    cJSON *json = NULL;
    char *path;

    if (is_run || strcmp(ctl->command->name, "uncordon") == 0)
        return ANY(JSON_EACH(item, member_item(space, is_run ? "runs" : "orders")),
                   strcmp(member_text(item, is_run ? "id" : "node"), ctl->args[0]) == 0);
    path = path_in_space(member_text(space, "name"), kind, ctl->args[0]);
    found = http_json(ctl, "GET", path, &json) == CTL_FINE && member_number(json, "nodes") > 0;
    cJSON_Delete(json);
    free(path);
    return found;
}

/* Finds the space of the run or node: --space, or the only space that has it, or the only space
 * that this client sees, or "default". Then asks the person. The caller frees the name. */
static enum ctl_exit confirm_space(const struct ctl *ctl, const char *kind, char **name)
{
    const cJSON *found = NULL;
    cJSON *json = NULL;
    enum ctl_exit code = CTL_FINE;

    if (ctl->space == NULL)
        code = http_json(ctl, "GET", "/rdzv/v1/status", &json);
    JSON_EACH(space, member_item(json, "spaces")) {
        if (cJSON_GetArraySize(member_item(json, "spaces")) > 1 && !is_in_space(ctl, space, kind))
            continue;
        if (found != NULL)
            code = ctl_say(CTL_USAGE, "%s is in the spaces %s and %s: choose one with --space",
                           ctl->args[0], member_text(found, "name"), member_text(space, "name"));
        found = space;
    }
    if (code == CTL_FINE) {
        const char *chosen = found != NULL ? member_text(found, "name") : "default";

        *name = ctl_memory(strdup(ctl->space != NULL ? ctl->space : chosen));
        code = is_confirmed(ctl, *name) ? CTL_FINE : CTL_USAGE;
    }
    cJSON_Delete(json);
    return code;
}

enum ctl_exit run_forget(const struct ctl *ctl)
{
    char *space = NULL;
    enum ctl_exit code = confirm_space(ctl, "/runs/", &space);

    if (code == CTL_FINE)
        code = delete_path(ctl, path_in_space(space, "/runs/", ctl->args[0]), ctl->args[0]);
    free(space);
    return code;
}

/* Takes `path`. */
static char *with_parameter(char *path, const char *name, const char *value)
{
    char *head = ctl_memory(malloc(strlen(path) + strlen(name) + 3)), *whole;

    sprintf(head, "%s%c%s=", path, strchr(path, '?') == NULL ? '?' : '&', name);
    free(path);
    whole = http_path(head, value, NULL);
    free(head);
    return whole;
}

#define DRAIN_LOOK_MS 500

/* Until no node of that name trains. --timeout ends that. */
static enum ctl_exit await_drained(const struct ctl *ctl, const char *space)
{
    double ends_s = ctl_now_s() + (double)ctl_timeout(ctl, INT32_MAX) / 1000;
    enum ctl_exit code;
    long left;

    do {
        char *path = path_in_space(space, "/nodes/", ctl->args[0]);
        cJSON *json = NULL;

        ctl_pause(DRAIN_LOOK_MS);
        code = http_json(ctl, "GET", path, &json);
        left = member_number(json, "participants");
        cJSON_Delete(json);
        free(path);
    } while (code == CTL_FINE && left > 0 && ctl_now_s() < ends_s);
    if (code == CTL_FINE && left > 0)
        return ctl_say(CTL_MISSING, "such nodes still train: %ld", left);
    return code;
}

/* The caller frees it. */
static char *order_path(const struct ctl *ctl, const char *space, const char *kind)
{
    const char *word = ctl->command->name;
    char by[128], host[64] = "", in[32], *path;

    gethostname(host, sizeof host - 1);
    snprintf(by, sizeof by, "uid %u@%s", (unsigned)getuid(), host);
    if (getenv("USER") != NULL && getenv("USER")[0] != '\0')
        snprintf(by, sizeof by, "%.60s@%s", getenv("USER"), host);
    path = with_parameter(path_in_space(space, kind, ctl->args[0]), "order", word);
    path = with_parameter(with_parameter(path, "by", by), "reason",
                          ctl->reason == NULL ? "" : ctl->reason);
    if (ctl->in_ms >= 0) {
        snprintf(in, sizeof in, "%lldms", (long long)ctl->in_ms);
        path = with_parameter(path, strcmp(word, "drain") == 0 ? "in" : "for", in);
    }
    if (ctl->until != NULL)
        path = with_parameter(path, "until", ctl->until);
    if (ctl->end)
        path = with_parameter(path, "end", "true");
    return ctl->arg_count > 1 ? with_parameter(path, "rules", ctl->args[1]) : path;
}

enum ctl_exit run_order(const struct ctl *ctl)
{
    const char *word = ctl->command->name;
    bool is_node = strstr("cordon uncordon evict drain", word) != NULL;
    const char *kind = is_node ? "/nodes/" : "/runs/";
    char *space = NULL, *path;
    enum ctl_exit code = confirm_space(ctl, kind, &space);
    cJSON *json = NULL;
    long nodes;

    if (code != CTL_FINE) {
        free(space);
        return code;
    }
    path = order_path(ctl, space, kind);
    code = http_json(ctl, "PUT", path, &json);
    free(path);
    nodes = member_number(json, "nodes");
    if (code == CTL_FINE && is_node)
        printf("%s: the store has the order to %s it; such nodes in the space %s now: %ld\n",
               ctl->args[0], word, space, nodes);
    else if (code == CTL_FINE && strcmp(word, "rules") == 0)
        printf("%s: %s\n", ctl->args[0],
               ctl->arg_count > 1 ? "the store has the rules" : "it has no rules of its own");
    else if (code == CTL_FINE)
        printf("%s: the store has the order to %s it\n", ctl->args[0], word);
    fflush(stdout);
    if (member_item(json, "lacks") != NULL && strcmp(word, "uncordon") != 0)
        ctl_say(code, "without such nodes, %s has fewer than its MIN, so it will wait",
                member_text(json, "lacks"));
    cJSON_Delete(json);
    if (code == CTL_FINE && ctl->wait && nodes > 0)
        code = await_drained(ctl, space);
    else if (code == CTL_FINE && is_node && nodes == 0 && strcmp(word, "uncordon") != 0)
        code = ctl_say(ctl->wait ? CTL_MISSING : CTL_FINE,
                       "no run has a node %s now; `rdzvctl status -o wide` lists the nodes, and "
                       "`rdzvctl uncordon %s` takes back the order",
                       ctl->args[0], ctl->args[0]);
    free(space);
    return code;
}

enum ctl_exit run_clear(const struct ctl *ctl)
{
    if (!is_confirmed(ctl, ctl->args[0]))
        return CTL_USAGE;
    return delete_path(ctl, http_path(SPACES, ctl->args[0], NULL), ctl->args[0]);
}
