/* top: what a store does just now, from two looks at /metrics. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/ctl/http.h"
#include "client/ctl/print.h"
#include "client/ctl_run.h"

#define INTERVAL_MS       2000
#define INTERVAL_LEAST_MS 100 /* what happens in less says little */

struct sample {
    char *text; /* of /metrics */
    double at_s;
};

static enum ctl_exit take_sample(const struct ctl *ctl, struct sample *out)
{
    struct http_answer answer;
    enum ctl_exit code = http_ask(ctl, "GET", "/metrics", &answer);

    if (code == CTL_FINE)
        *out = (struct sample){answer.body, ctl_now_s()};
    return code;
}

/* What stands behind the last blank of the line; labels may have blanks. */
static double metric_value(const char *line)
{
    const char *at = line + strcspn(line, "\n");

    while (at > line && at[-1] != ' ')
        at--;
    return strtod(at, NULL);
}

/* The sum of the lines that begin with `name`: a whole one, or one that ends behind some labels, as
 * in `requests_total{protocol="c10d"`. */
static double metric_sum(const char *text, const char *name)
{
    size_t len = strlen(name);
    double sum = 0;

    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 &&
            (line[len] == ' ' || line[len] == ',' || line[len] == '}'))
            sum += metric_value(line);
        if (*line == '\0')
            break;
    }
    return sum;
}

/* Finds the next space that has keys, from *at on; its name goes to `space`. */
static bool next_space(const char **at, char *space, size_t size)
{
    static const char head[] = "\nrdzvd_space_keys{space=\"";
    const char *found = strstr(*at, head);

    if (found == NULL)
        return false;
    found += sizeof head - 1;
    *at = found + strcspn(found, "\"");
    snprintf(space, size, "%.*s", (int)(*at - found), found);
    return true;
}

/* The daemon's role: "store", "relay", or "standby" (a replica without the lead); "": unknown. */
static void read_role(const char *text, char *role, size_t size)
{
    const char *info = strstr(text, "\nrdzvd_build_info{");
    const char *at = info == NULL ? NULL : strstr(info, "role=\"");

    role[0] = '\0';
    if (at != NULL)
        snprintf(role, size, "%.*s", (int)strcspn(at + 6, "\"\n"), at + 6);
}

static const struct {
    const char *name, *metric;
    bool is_rate;
} figures[] = {
    {"c10d_requests_per_second", "rdzvd_requests_total{protocol=\"c10d\"", true},
    {"http_requests_per_second", "rdzvd_requests_total{protocol=\"http\"", true},
    {"connections_accepted_per_second", "rdzvd_connections_accepted_total", true},
    {"connections_closed_per_second", "rdzvd_connections_closed_total", true},
    {"cpu_seconds_per_second", "process_cpu_seconds_total", true},
    {"connections", "rdzvd_connections", false},
    {"resident_bytes", "process_resident_memory_bytes", false},
    {"relay_links", "rdzvd_relay_links", false},
};

static const struct table_column space_columns[] = COLUMNS_TOP;

static cJSON *space_json(const char *text, const char *name)
{
    cJSON *space = ctl_memory(cJSON_CreateObject());
    char metric[400];

    cJSON_AddStringToObject(space, "name", name);
    for (const struct table_column *c = space_columns + 1; c->head != NULL; c++) {
        snprintf(metric, sizeof metric, "rdzvd_space_%s{space=\"%s\"", c->member, name);
        cJSON_AddNumberToObject(space, c->member, metric_sum(text, metric));
    }
    return space;
}

static cJSON *top_json(const struct sample *before, const struct sample *now)
{
    cJSON *json = ctl_memory(cJSON_CreateObject()), *spaces;
    const char *at = now->text;
    char name[256];

    read_role(now->text, name, sizeof name);
    cJSON_AddStringToObject(json, "role", name);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        double value = metric_sum(now->text, figures[i].metric);

        if (figures[i].is_rate)
            value =
                (value - metric_sum(before->text, figures[i].metric)) / (now->at_s - before->at_s);
        cJSON_AddNumberToObject(json, figures[i].name, value);
    }
    spaces = cJSON_AddArrayToObject(json, "spaces");
    while (next_space(&at, name, sizeof name))
        cJSON_AddItemToArray(spaces, space_json(now->text, name));
    return json;
}

static void print_top(const struct ctl *ctl, const cJSON *json)
{
    const char *role = member_text(json, "role");

    printf("%.0f c10d and %.0f HTTP requests/s, %.1f connects/s; %.0f connections, %.0f relays\n",
           member_double(json, "c10d_requests_per_second"),
           member_double(json, "http_requests_per_second"),
           member_double(json, "connections_accepted_per_second"),
           member_double(json, "connections"), member_double(json, "relay_links"));
    printf("%.0f %% of a core, %s of memory\n\n",
           member_double(json, "cpu_seconds_per_second") * 100,
           text_bytes(member_double(json, "resident_bytes")).text);
    table_show(stdout, "", space_columns, member_item(json, "spaces"), NULL, 0, ctl->colour);
    /* In place of the spaces, which only the store has. */
    if (strcmp(role, "standby") == 0)
        puts("It is a replica that does not lead, and has no spaces: ask the one that leads, which "
             "`rdzvctl health --ready -o wide` names");
    if (strcmp(role, "relay") == 0)
        puts("This relay has no spaces: `rdzvctl spaces` asks its store");
}

static void show_top(const struct ctl *ctl, const struct sample *before, const struct sample *now)
{
    cJSON *json = top_json(before, now);

    if (ctl->watch && isatty(STDOUT_FILENO))
        fputs("\033[H\033[2J", stdout);
    if (!print_structured(ctl, json))
        print_top(ctl, json);
    cJSON_Delete(json);
    fflush(stdout);
}

enum ctl_exit run_top(const struct ctl *ctl)
{
    int64_t interval = ctl->interval_ms < 0                   ? INTERVAL_MS
                       : ctl->interval_ms < INTERVAL_LEAST_MS ? INTERVAL_LEAST_MS
                                                              : ctl->interval_ms;
    struct sample before, now;
    enum ctl_exit code = take_sample(ctl, &before);

    if (code != CTL_FINE)
        return code;
    do {
        ctl_pause(interval);
        code = take_sample(ctl, &now);
        if (code == CTL_FINE) {
            show_top(ctl, &before, &now);
            free(before.text);
            before = now;
        }
    } while (code == CTL_FINE && ctl->watch);
    free(before.text);
    return code;
}
