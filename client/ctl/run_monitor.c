/* monitor: requests as the store carries them out, from /rdzv/v1/monitor. */
#include <stdlib.h>
#include <string.h>

#include "client/ctl/http.h"
#include "client/ctl/run.h"
#include "client/ctl/status_text.h"
#include "client/ctl/text.h"

struct monitoring {
    const struct ctl *ctl;
    int64_t left;  /* --count; -1: for ever */
    uint64_t more; /* requests that were not shown, since the last line that said so */
    bool has_head;
};

static bool is_wanted(const struct ctl *ctl, const cJSON *request)
{
    return ctl->space == NULL || strcmp(status_text(request, "space"), ctl->space) == 0;
}

/* "12:34:56.789012" of a time as the store writes it. */
static void print_time(const char *time)
{
    const char *clock = strchr(time, 'T');

    printf("%-15.15s", clock == NULL ? time : clock + 1);
}

static void print_request(const struct ctl *ctl, const cJSON *request)
{
    const char *key = status_text(request, "key");

    if (ctl->output == OUTPUT_JSON) {
        char *line = ctl_memory(cJSON_PrintUnformatted(request));

        puts(line);
        free(line);
        return;
    }
    print_time(status_text(request, "time"));
    printf("  %-21s  %-10s  %-11s  %7ld  ", status_text(request, "peer"),
           status_text(request, "space"), status_text(request, "operation"),
           status_number(request, "bytes"));
    text_safe(stdout, key, strlen(key), strlen(key));
    if (status_number(request, "keys") > 1)
        printf(" and %ld more", status_number(request, "keys") - 1);
    putchar('\n');
}

/* Once in a while, not ten times a second. */
#define MORE_LEAST 1000

static void say_more(struct monitoring *m, bool now)
{
    if (m->more == 0 || (!now && m->more < MORE_LEAST) || m->ctl->output == OUTPUT_JSON)
        return;
    printf("%-15s  %llu more requests, which are not shown\n", "…", (unsigned long long)m->more);
    m->more = 0;
}

static void print_requests(struct monitoring *m, const cJSON *json)
{
    const cJSON *request;
    double all = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(json, "c10d_requests")) +
                 cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(json, "http_requests"));
    double shown = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(json, "shown"));

    cJSON_ArrayForEach(request, cJSON_GetObjectItemCaseSensitive(json, "requests"))
    {
        if (m->left == 0)
            return;
        if (!is_wanted(m->ctl, request))
            continue;
        print_request(m->ctl, request);
        m->left -= m->left > 0;
    }
    m->more += all > shown ? (uint64_t)(all - shown) : 0;
    say_more(m, false);
}

/* The store lets this client in. */
static void print_head(struct monitoring *m)
{
    if (!m->has_head && m->ctl->output <= OUTPUT_WIDE)
        printf("%-15s  %-21s  %-10s  %-11s  %7s  %s\n", "TIME", "PEER", "SPACE", "OPERATION",
               "BYTES", "KEY");
    m->has_head = true;
}

static bool on_event(void *arg, const char *event, const char *data)
{
    struct monitoring *m = arg;
    cJSON *json = cJSON_Parse(data);

    print_head(m);
    if (json != NULL && strcmp(event, "requests") == 0)
        print_requests(m, json);
    else if (json != NULL && strcmp(event, "missed") == 0)
        m->more += (uint64_t)status_number(json, "requests");
    cJSON_Delete(json);
    fflush(stdout);
    return m->left != 0;
}

enum ctl_exit run_monitor(const struct ctl *ctl)
{
    struct monitoring m = {.ctl = ctl, .left = ctl->count > 0 ? ctl->count : -1};
    enum ctl_exit code;

    code = http_stream(ctl, "/rdzv/v1/monitor", on_event, &m);
    say_more(&m, true);
    return code;
}
