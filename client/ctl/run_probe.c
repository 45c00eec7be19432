/* latency, preflight and health: can the store be used, and how fast is it? */
#include <math.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/ctl/http.h"
#include "client/ctl/print.h"
#include "client/ctl_run.h"
#include "proto/lookup.h"

#define LATENCY_COUNT        20
#define LATENCY_INTERVAL_MS  100
#define PREFLIGHT_TIMEOUT_MS 60000
#define PREFLIGHT_TRY_MS     3000
#define PREFLIGHT_PAUSE_MS   500
#define HEALTH_TIMEOUT_MS    2000 /* as `rdzvd --check-health` */
#define CLOCK_WARN_S         5.0

/* --- latency --- */

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

static double latency_share(const double *sorted, int64_t count, double part)
{
    return sorted[(int64_t)((double)(count - 1) * part + 0.5)] * 1000;
}

static void print_latency(const struct ctl *ctl, double *seconds, int64_t count)
{
    static const struct {
        const char *name;
        double part;
    } shares[] = {{"min", 0}, {"median", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"max", 1}};
    cJSON *json = ctl_memory(cJSON_CreateObject());

    qsort(seconds, (size_t)count, sizeof *seconds, by_size);
    cJSON_AddStringToObject(json, "server", ctl->server);
    cJSON_AddNumberToObject(json, "count", (double)count);
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        char name[32];

        snprintf(name, sizeof name, "%s_ms", shares[i].name);
        cJSON_AddNumberToObject(json, name, latency_share(seconds, count, shares[i].part));
    }
    if (!print_structured(ctl, json)) {
        printf("%lld pings of %s:", (long long)count, ctl->server);
        for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
            printf("%s %s %.3f ms", i == 0 ? "" : ",", shares[i].name,
                   latency_share(seconds, count, shares[i].part));
        putchar('\n');
    }
    cJSON_Delete(json);
}

enum ctl_exit run_latency(const struct ctl *ctl, struct rdzv_client *c)
{
    int64_t interval = ctl->interval_ms >= 0 ? ctl->interval_ms : LATENCY_INTERVAL_MS;
    int64_t count = ctl->count > 0 ? ctl->count : LATENCY_COUNT;
    double *seconds = ctl_memory(calloc((size_t)count + 1, sizeof *seconds));
    enum ctl_exit code = CTL_FINE;

    for (int64_t i = 0; i <= count && code == CTL_FINE; i++) {
        double start = ctl_now_s();

        code = store_failed(c, rdzv_ping(c));
        seconds[i] = ctl_now_s() - start;
        if (i < count)
            ctl_pause(interval);
    }
    if (code == CTL_FINE)
        print_latency(ctl, seconds + 1, count);
    free(seconds);
    return code;
}

/* --- preflight --- */

enum step {
    STEP_NAME,
    STEP_TLS,
    STEP_C10D,
    STEP_READY,
    STEP_TRIP,
    STEP_CLOCK,
    STEP_TOKEN,
    STEP_SELF,
    STEPS
};

static const char *const step_names[STEPS] = {"name",       "tls",   "c10d",  "ready",
                                              "round_trip", "clock", "token", "self"};

enum step_state { NOT_TRIED, PASSED, WARNS, FAILED };

struct preflight {
    struct {
        enum step_state state;
        char text[HTTP_READY_MAX + 100];
    } steps[STEPS];
    double round_trip_s, clock_s; /* what the store's clock is ahead; NAN: not known */
    double started_s, ends_s;
    int tries;
};

__attribute__((format(printf, 4, 5))) static bool
preflight_note(struct preflight *p, enum step step, enum step_state state, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(p->steps[step].text, sizeof p->steps[step].text, format, args);
    va_end(args);
    p->steps[step].state = state;
    return state != FAILED;
}

/* The time limit of one of up to `parts` further steps, within the time for all. With --timeout=0
 * there is one try, which may take its full time. */
static int64_t patience_ms(const struct ctl *ctl, const struct preflight *p, int parts)
{
    double left = (p->ends_s - ctl_now_s()) * 1000 / parts;

    if (ctl->timeout_ms == 0 || left > PREFLIGHT_TRY_MS)
        return PREFLIGHT_TRY_MS;
    return left > 1 ? (int64_t)left : 1;
}

/* "10.0.0.7, 10.0.0.8" */
static void show_addresses(const struct addrinfo *list, char *out, size_t size)
{
    size_t len = 0;

    out[0] = '\0';
    for (const struct addrinfo *a = list; a != NULL && len + NI_MAXHOST / 8 < size;
         a = a->ai_next) {
        char host[128];

        if (getnameinfo(a->ai_addr, a->ai_addrlen, host, sizeof host, NULL, 0, NI_NUMERICHOST) == 0)
            len += (size_t)snprintf(out + len, size - len, "%s%s", len == 0 ? "" : ", ", host);
    }
}

static bool preflight_look_up(const struct ctl *ctl, struct preflight *p)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct address address;
    struct addrinfo *list = NULL;
    char shown[300];
    int error;

    if (!address_parse(ctl->server, &address))
        return preflight_note(p, STEP_NAME, FAILED, "%s is no HOST:PORT", ctl->server);
    error = getaddrinfo(address.host, address.port, &hints, &list);
    if (error != 0)
        return preflight_note(p, STEP_NAME, FAILED,
                              "%s: %s; is the name right, and does its Service exist?",
                              address.host, gai_strerror(error));
    show_addresses(list, shown, sizeof shown);
    freeaddrinfo(list);
    return preflight_note(p, STEP_NAME, PASSED, "%s is %s", address.host, shown);
}

/* A relay that has never reached its store answers nothing in c10d, and a replica that does not
 * lead ends the connection: each of them says why over HTTP. */
static bool note_no_hello(const struct ctl *ctl, struct preflight *p, const char *message)
{
    char why[HTTP_READY_MAX];
    enum http_ready ready = http_ready(ctl, patience_ms(ctl, p, 2), why);

    if (ready == READY_UNKNOWN && http_is_etcd(ctl, patience_ms(ctl, p, 1)))
        return preflight_note(p, STEP_C10D, FAILED, "%s: " HTTP_IS_ETCD, ctl->server);
    if (ready != READY_NOT)
        return preflight_note(p, STEP_C10D, FAILED, "%s", message);
    preflight_note(p, STEP_C10D, WARNS, "%s accepts connections but does not answer", ctl->server);
    return preflight_note(p, STEP_READY, FAILED, "%s", why);
}

/* Connects, and greets in c10d. */
static bool preflight_hello(const struct ctl *ctl, struct preflight *p, struct rdzv_client **c)
{
    char why[CTL_TLS_WHY_MAX];
    enum rdzv_status status;

    if (!ctl_check_tls_files(ctl, why))
        return preflight_note(p, STEP_TLS, FAILED, "%s", why);
    status = store_new(ctl, patience_ms(ctl, p, 2), c);
    if (status == RDZV_OK)
        status = rdzv_ping(*c);
    if (status == RDZV_TLS)
        return preflight_note(p, STEP_TLS, FAILED, "%s" STORE_TLS_OPTIONS, rdzv_client_message(*c));
    if (*c != NULL && rdzv_client_tls(*c) != NULL)
        preflight_note(p, STEP_TLS, PASSED, "%s", rdzv_client_tls(*c));
    if (status == RDZV_OK)
        return preflight_note(p, STEP_C10D, PASSED, "%s answers", ctl->server);
    return note_no_hello(ctl, p, *c == NULL ? rdzv_status_name(status) : rdzv_client_message(*c));
}

/* A store that takes no changes, and a relay whose store is away, answer a PING all the same. */
static bool ask_ready(const struct ctl *ctl, struct preflight *p)
{
    char why[HTTP_READY_MAX];
    enum http_ready ready = http_ready(ctl, patience_ms(ctl, p, 1), why);

    if (ready == READY_UNKNOWN)
        return preflight_note(p, STEP_READY, WARNS, "not known: %s; is it torch's own store?", why);
    if (ready == READY_NOT)
        return preflight_note(p, STEP_READY, FAILED, "%s", why);
    return preflight_note(p, STEP_READY, PASSED, "it says so");
}

/* The time of an answer, the best of five. */
static bool preflight_measure(struct rdzv_client *c, struct preflight *p)
{
    enum rdzv_status status = RDZV_OK;

    p->round_trip_s = INFINITY;
    for (int i = 0; i < 5 && status == RDZV_OK; i++) {
        double start = ctl_now_s();

        status = rdzv_ping(c);
        p->round_trip_s = fmin(p->round_trip_s, ctl_now_s() - start);
    }
    return preflight_note(p, STEP_TRIP, status == RDZV_OK ? PASSED : FAILED,
                          status == RDZV_OK ? "%.3f ms, the best of 5"
                                            : "it answered once, and not again",
                          p->round_trip_s * 1000);
}

/* By the header Date, which knows whole seconds: enough to see a clock that is wrong, and as cheap
 * for the store as a probe, when a thousand init containers ask. */
static void compare_clocks(const struct ctl *ctl, struct preflight *p)
{
    struct http_answer answer;
    struct http_failure failure;
    double unsure;

    if (!http_try(ctl, "GET", "/livez", patience_ms(ctl, p, 1), &answer, &failure)) {
        preflight_note(p, STEP_CLOCK, WARNS,
                       "not known: no answer over HTTP; is it torch's own store?");
        return;
    }
    if (answer.date >= 0)
        p->clock_s = (double)answer.date + 0.5 - (double)answer.sent_us / 1e6;
    unsure = answer.seconds / 2 + 0.5;
    free(answer.body);
    if (isnan(p->clock_s))
        preflight_note(p, STEP_CLOCK, WARNS, "not known: the store does not say its time");
    else
        preflight_note(p, STEP_CLOCK, fabs(p->clock_s) > CLOCK_WARN_S + unsure ? WARNS : PASSED,
                       "the store's is %.1f s %s (give or take %.1f s)", fabs(p->clock_s),
                       p->clock_s < 0 ? "behind" : "ahead", unsure);
}

/* Only once, since a store lets an address wait after some wrong tokens. The path is of no page,
 * but the store first asks whether the client may read. False: it may not. */
static bool check_token(const struct ctl *ctl, struct preflight *p)
{
    struct http_answer answer;
    struct http_failure failure;
    cJSON *json;

    if (!http_try(ctl, "GET", "/rdzv/v1/spaces", PREFLIGHT_TRY_MS, &answer, &failure))
        return preflight_note(p, STEP_TOKEN, WARNS, "not known: %s", failure.text);
    json = cJSON_Parse(answer.body);
    preflight_note(p, STEP_TOKEN, PASSED, "the store lets this client read");
    if (answer.status == 403)
        preflight_note(p, STEP_TOKEN, FAILED, "%s; it is in %s (--token-file)",
                       member_text(json, "message"), ctl->token_file);
    cJSON_Delete(json);
    free(answer.body);
    return answer.status != 403;
}

/* The name that torch takes for this machine: --local-addr from the environment, or, as Python's
 * getfqdn(), the name of the first address of the host's name. */
static void find_own_name(char *name, socklen_t size)
{
    const char *given = getenv("PET_LOCAL_ADDR");
    struct addrinfo *list = NULL;

    gethostname(name, size);
    if (given != NULL && given[0] != '\0')
        snprintf(name, size, "%s", given);
    else if (getaddrinfo(name, NULL, NULL, &list) == 0)
        (void)getnameinfo(list->ai_addr, list->ai_addrlen, name, size, NULL, 0, NI_NAMEREQD);
    if (list != NULL)
        freeaddrinfo(list);
}

static bool is_own_address(const struct addrinfo *a)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_own = fd >= 0 && bind(fd, a->ai_addr, a->ai_addrlen) == 0;

    if (fd >= 0)
        close(fd);
    return is_own;
}

/* Agent 0 connects to its own name, and gives it to all workers. */
static void check_self(struct preflight *p)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *own;
    struct addrinfo *list = NULL;
    char name[NI_MAXHOST] = "", shown[300];
    int error;

    find_own_name(name, sizeof name - 1);
    error = getaddrinfo(name, "0", &hints, &list);
    show_addresses(list, shown, sizeof shown);
    for (own = list; own != NULL && !is_own_address(own);)
        own = own->ai_next;
    if (own != NULL)
        preflight_note(p, STEP_SELF, PASSED, "torch calls this machine %s, which is %s", name,
                       shown);
    else
        preflight_note(p, STEP_SELF, WARNS,
                       "torch calls this machine %s: %s%s; agent 0 would hang here for minutes: "
                       "torchrun --local-addr=ADDRESS, an address of this machine",
                       name, error != 0 ? gai_strerror(error) : "it has no such address: ", shown);
    if (list != NULL)
        freeaddrinfo(list);
}

static bool try_once(const struct ctl *ctl, struct preflight *p)
{
    struct rdzv_client *c = NULL;
    bool passed;

    p->tries++;
    for (int i = 0; i < STEPS; i++)
        p->steps[i].state = NOT_TRIED;
    passed = preflight_look_up(ctl, p) && preflight_hello(ctl, p, &c) && ask_ready(ctl, p) &&
             preflight_measure(c, p);
    if (passed)
        compare_clocks(ctl, p);
    rdzv_client_free(c);
    return passed;
}

/* The text of the step that has failed. */
static const char *preflight_failure(const struct preflight *p)
{
    int step = 0;

    while (step < STEPS - 1 && p->steps[step].state != FAILED)
        step++;
    return p->steps[step].text;
}

static void print_preflight(const struct ctl *ctl, const struct preflight *p, bool passed)
{
    static const char *const states[] = {"not tried", "ok", "warning", "failed"};
    cJSON *json = ctl_memory(cJSON_CreateObject()), *steps;

    cJSON_AddStringToObject(json, "server", ctl->server);
    cJSON_AddBoolToObject(json, "ok", passed);
    cJSON_AddNumberToObject(json, "tries", p->tries);
    cJSON_AddNumberToObject(json, "seconds", ctl_now_s() - p->started_s);
    if (passed)
        cJSON_AddNumberToObject(json, "round_trip_ms", p->round_trip_s * 1000);
    if (passed && !isnan(p->clock_s))
        cJSON_AddNumberToObject(json, "clock_ahead_seconds", p->clock_s);
    steps = cJSON_AddArrayToObject(json, "steps");
    for (int i = 0; i < STEPS; i++) {
        cJSON *step;

        if ((i == STEP_TLS && !ctl->tls) || (i == STEP_TOKEN && ctl->token_file == NULL))
            continue; /* there is no such step */
        step = ctl_memory(cJSON_CreateObject());
        cJSON_AddStringToObject(step, "step", step_names[i]);
        cJSON_AddStringToObject(step, "state", states[p->steps[i].state]);
        if (p->steps[i].state != NOT_TRIED)
            cJSON_AddStringToObject(step, "detail", p->steps[i].text);
        cJSON_AddItemToArray(steps, step);
    }
    if (!print_structured(ctl, json)) {
        for (int i = 0; i < STEPS; i++) {
            if (p->steps[i].state == NOT_TRIED)
                continue;
            printf("%-11s ", step_names[i]);
            text_styled(stdout,
                        p->steps[i].state == PASSED  ? STYLE_GOOD
                        : p->steps[i].state == WARNS ? STYLE_HEAD
                                                     : STYLE_BAD,
                        ctl->colour, states[p->steps[i].state]);
            printf(": %s\n", p->steps[i].text);
        }
    }
    cJSON_Delete(json);
}

enum ctl_exit run_preflight(const struct ctl *ctl)
{
    double timeout_s = (double)ctl_timeout(ctl, PREFLIGHT_TIMEOUT_MS) / 1000, start_s = ctl_now_s();
    struct preflight p = {.clock_s = NAN, .started_s = start_s, .ends_s = start_s + timeout_s};
    bool passed, refused;

    if (ctl->unix_path != NULL)
        return ctl_say(CTL_USAGE, "preflight takes the way of torch's agents: it needs HOST:PORT; "
                                  "at a Unix socket, use `rdzvctl health --ready`");
    while (!(passed = try_once(ctl, &p)) && ctl_now_s() + PREFLIGHT_PAUSE_MS / 1000.0 < p.ends_s) {
        if (p.tries == 1)
            fprintf(stderr, "rdzvctl: %s; trying for %.3g s\n", preflight_failure(&p), timeout_s);
        ctl_pause(PREFLIGHT_PAUSE_MS);
    }
    refused = passed && ctl->token_file != NULL && !check_token(ctl, &p);
    check_self(&p);
    print_preflight(ctl, &p, passed && !refused);
    return refused ? CTL_REFUSED : passed ? CTL_FINE : CTL_UNREACHABLE;
}

/* --- health --- */

#define LINE_MOST 500

static void print_lines(const char *text)
{
    while (*text != '\0') {
        size_t len = strcspn(text, "\n");

        text_safe(stdout, text, len, LINE_MOST);
        putchar('\n');
        text += len + (text[len] == '\n');
    }
}

/* "[+]loop ok" or "[-]leader failed: this replica stands by", lines of /readyz?verbose. */
static void add_check(cJSON *list, const char *line, size_t len)
{
    char text[HTTP_READY_MAX], *name = text + 3, *detail;
    cJSON *check;

    snprintf(text, sizeof text, "%.*s", (int)len, line);
    if (strncmp(text, "[+]", 3) != 0 && strncmp(text, "[-]", 3) != 0)
        return;
    detail = strstr(name, ": ");
    name[strcspn(name, " ")] = '\0';
    check = ctl_memory(cJSON_CreateObject());
    cJSON_AddStringToObject(check, "check", name);
    cJSON_AddBoolToObject(check, "ok", text[1] == '+');
    if (detail != NULL)
        cJSON_AddStringToObject(check, "detail", detail + 2);
    cJSON_AddItemToArray(list, check);
}

static cJSON *list_checks(const char *text)
{
    cJSON *list = ctl_memory(cJSON_CreateArray());

    while (*text != '\0') {
        size_t len = strcspn(text, "\n");

        add_check(list, text, len);
        text += len + (text[len] == '\n');
    }
    return list;
}

static void print_health(const struct ctl *ctl, const char *path, const struct http_answer *answer)
{
    cJSON *json = ctl_memory(cJSON_CreateObject());

    cJSON_AddStringToObject(json, "server", ctl->server);
    cJSON_AddStringToObject(json, "path", path);
    cJSON_AddNumberToObject(json, "status", (double)answer->status);
    cJSON_AddBoolToObject(json, "ok", answer->status == 200);
    if (ctl->ready)
        cJSON_AddItemToObject(json, "checks", list_checks(answer->body));
    if (!print_structured(ctl, json)) {
        printf("%s: %s answers %ld\n", ctl->server, path, answer->status);
        if (ctl->ready && (answer->status != 200 || ctl->output == OUTPUT_WIDE))
            print_lines(answer->body);
    }
    cJSON_Delete(json);
}

enum ctl_exit run_health(const struct ctl *ctl)
{
    struct http_answer answer;
    struct http_failure failure;
    enum ctl_exit code;

    if (!http_try(ctl, "GET", ctl->ready ? "/readyz?verbose" : "/livez",
                  ctl_timeout(ctl, HEALTH_TIMEOUT_MS), &answer, &failure))
        return failure.fault == FAULT_FILE
                   ? ctl_say(CTL_USAGE, "%s", failure.text)
                   : ctl_say(CTL_UNREACHABLE, "%s: %s", ctl->server, failure.text);
    if (http_wants_tls(ctl, &answer)) {
        code = ctl_say(CTL_USAGE, "%s: " HTTP_WANTS_TLS, ctl->server);
    } else {
        print_health(ctl, ctl->ready ? "/readyz" : "/livez", &answer);
        code = answer.status == 200 ? CTL_FINE : CTL_MISSING;
    }
    free(answer.body);
    return code;
}
