/* Reads requests on stdin, one in a line, does them with proto/torch/torch_state.h and prints one
 * line for each: for tests that compare with torch itself.
 *
 *   show VALUE                           what the value says, as JSON (addresses in hex)
 *   write VALUE                          the value, read and written
 *   shift US VALUE                       with all times moved on
 *   beat ADDR PID LOCAL_ID US VALUE      with that node's heartbeat set; it is added if need be
 *   count N VALUE                        the value as a view with N more participants
 *   counted VALUE                        how many participants the view VALUE only counts
 *   time N VALUE                         microseconds of CPU for a reading and for a writing, of N
 *
 * The answer to a value that is no state is `not mine`. ADDR is in hex. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/torch/torch_state.h"

static _Noreturn void die(const char *why)
{
    fprintf(stderr, "state_tool: %s\n", why);
    exit(2);
}

static int64_t number(const char *text)
{
    char *end;
    long long v;

    if (text == NULL)
        die("a number is missing");
    errno = 0;
    v = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || end == text)
        die("a number is none");
    return v;
}

static void print_hex(struct slice s)
{
    for (size_t i = 0; i < s.len; i++)
        printf("%02x", s.ptr[i]);
}

static const char *truth(bool b)
{
    return b ? "true" : "false";
}

/* A number, or null. */
static void print_if(bool known, int64_t v)
{
    if (known)
        printf("%" PRId64, v);
    else
        printf("null");
}

static void print_state(const struct torch_state *s)
{
    printf("{\"round\": %" PRId64 ", \"complete\": %s, \"closed\": %s, \"deadline\": ", s->round,
           truth(s->complete), truth(s->closed));
    print_if(s->has_deadline, s->deadline_us);
    printf(", \"fqdn\": %s, \"aware\": %s, \"redundancy\": %s, \"protocol\": %d, \"nodes\": [",
           truth(s->fqdn), truth(s->aware), truth(s->has_redundancy), s->protocol);
    for (size_t i = 0; i < s->count; i++) {
        const struct torch_node *n = &s->nodes[i];

        printf("%s[\"", i == 0 ? "" : ", ");
        print_hex(n->addr);
        printf("\", %" PRId64 ", %" PRId64 ", ", n->pid, n->local_id);
        print_if(n->participant, n->rank);
        printf(", %s, %s, ", truth(n->waiting), truth(n->redundant));
        print_if(n->has_heartbeat, n->heartbeat_us);
        printf("]");
    }
    printf("]}\n");
}

static void print_value(const struct torch_state *s)
{
    uint8_t *text;
    size_t len;

    if (!torch_state_write(s, &text, &len))
        die("no memory");
    printf("%.*s\n", (int)len, (const char *)text);
    free(text);
}

static void shift(struct torch_state *s, int64_t us)
{
    s->deadline_us += us;
    for (size_t i = 0; i < s->count; i++)
        s->nodes[i].heartbeat_us += us;
}

static struct slice from_hex(char *text)
{
    size_t len = text == NULL ? 0 : strlen(text) / 2;

    for (size_t i = 0; i < len; i++) {
        unsigned byte;

        if (sscanf(text + 2 * i, "%2x", &byte) != 1)
            die("an address is not in hex");
        text[i] = (char)byte;
    }
    return (struct slice){(const uint8_t *)text, len};
}

static void beat(struct torch_state *s, char **rest)
{
    struct torch_node who = {.has_heartbeat = true}, *at;

    who.addr = from_hex(strsep(rest, " "));
    who.pid = number(strsep(rest, " "));
    who.local_id = number(strsep(rest, " "));
    who.heartbeat_us = number(strsep(rest, " "));
    if (!torch_state_insert(s, &who, &at))
        die("no memory");
    at->has_heartbeat = true;
    at->heartbeat_us = who.heartbeat_us;
    if (torch_state_find(s, &who) != at)
        die("what has been inserted is not found");
}

static double cpu_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void measure(struct slice value, int64_t count)
{
    double start, between, end;
    struct torch_state s;
    uint8_t *text;
    size_t len;

    start = cpu_us();
    for (int64_t i = 0; i < count; i++) {
        if (torch_state_read(value, &s) != TORCH_STATE_OK)
            die("a value that was read is not read again");
        torch_state_free(&s);
    }
    between = cpu_us();
    if (torch_state_read(value, &s) != TORCH_STATE_OK)
        die("a value that was read is not read again");
    for (int64_t i = 0; i < count; i++) {
        if (!torch_state_write(&s, &text, &len))
            die("no memory");
        free(text);
    }
    end = cpu_us();
    torch_state_free(&s);
    printf("%.1f %.1f\n", (between - start) / (double)count, (end - between) / (double)count);
}

/* Carries out one request; `arguments` is the text between its name and its value. */
static void answer(const char *name, char *arguments, struct slice value)
{
    bool is_view = strcmp(name, "counted") == 0;
    struct torch_state s;

    switch (is_view ? torch_state_read_view(value, &s) : torch_state_read(value, &s)) {
    case TORCH_STATE_NOT_MINE:
        printf("not mine\n");
        return;
    case TORCH_STATE_NO_MEMORY:
        die("no memory");
    case TORCH_STATE_OK:
        break;
    }
    if (strcmp(name, "show") == 0) {
        print_state(&s);
    } else if (strcmp(name, "write") == 0) {
        print_value(&s);
    } else if (strcmp(name, "shift") == 0) {
        shift(&s, number(arguments));
        print_value(&s);
    } else if (strcmp(name, "beat") == 0) {
        beat(&s, &arguments);
        print_value(&s);
    } else if (strcmp(name, "count") == 0) {
        s.unnamed = (size_t)number(arguments);
        print_value(&s);
    } else if (is_view) {
        printf("%zu\n", s.unnamed);
    } else if (strcmp(name, "time") == 0) {
        measure(value, number(arguments));
    } else {
        die("no such request");
    }
    torch_state_free(&s);
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;

    while ((len = getline(&line, &cap, stdin)) > 0) {
        char *value, *arguments;

        if (line[len - 1] == '\n')
            line[--len] = '\0';
        value = strrchr(line, ' ');
        if (value == NULL)
            die("a request without a value");
        *value++ = '\0';
        arguments = line;
        strsep(&arguments, " ");
        answer(line, arguments, slice_str(value));
        fflush(stdout);
    }
    free(line);
    return 0;
}
