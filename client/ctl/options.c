/* Reads words and options of rdzvctl by its table; see commands.h. */
#include "client/ctl/commands.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/bytes.h"
#include "proto/lookup.h"
#include "proto/nearest.h"
#include "proto/queue.h"
#include "proto/units.h"

#define DEFAULT_SERVER "localhost:29400"
#define DEFAULT_PORT   ":29400"

#define DURATION_MOST_MS (UINT64_C(3650) * 86400000) /* which any type holds that counts time */

#define OPTIONS_OF_TLS \
    (1u << OPTION_CACERT | 1u << OPTION_CERT | 1u << OPTION_KEY | 1u << OPTION_TLS_SERVER_NAME)

struct parse {
    struct ctl *ctl;
    unsigned given; /* options, each 1u << its id */
    bool plain;     /* the address says http:// */
    char *error;
    size_t error_size;
};

__attribute__((format(printf, 2, 3))) static bool wrong(struct parse *p, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(p->error, p->error_size, format, args);
    va_end(args);
    return false;
}

static bool take_duration(struct parse *p, const char *name, const char *text, int64_t *out)
{
    uint64_t ms;
    enum units_result result = units_parse_duration(text, &ms);

    if (result != UNITS_OK || ms > DURATION_MOST_MS)
        return wrong(p, "--%s: %s: %s", name, text,
                     units_duration_hints[result != UNITS_OK ? result : UNITS_TOO_BIG]);
    *out = (int64_t)ms;
    return true;
}

static bool take_count(struct parse *p, const char *text)
{
    uint64_t v;

    if (!slice_to_u64(slice_str(text), 1000000, &v) || v == 0)
        return wrong(p, "--count: %s is no number from 1 to 1000000", text);
    p->ctl->count = (int64_t)v;
    return true;
}

static bool take_output(struct parse *p, const char *text)
{
    static const char *const names[] = {"table", "wide", "name", "json", "yaml"};

    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], text) == 0) {
            p->ctl->output = (enum ctl_output)i;
            return true;
        }
    }
    return wrong(p, "-o %s: there are table, wide, name, json and yaml", text);
}

static bool take_server(struct parse *p, const char *given)
{
    struct ctl *ctl = p->ctl;
    struct address address;
    char text[sizeof ctl->server];
    size_t len;

    if (strlen(given) >= sizeof text - strlen(DEFAULT_PORT))
        return wrong(p, "the address of the server is too long");
    ctl->tls = strncmp(given, "https://", 8) == 0;
    p->plain = strncmp(given, "http://", 7) == 0;
    strcpy(text, given + (ctl->tls ? 8 : p->plain ? 7 : 0));
    if (strncmp(text, "unix:/", 6) == 0) {
        p->plain = true;
        strcpy(ctl->server, text);
        ctl->unix_path = ctl->server + 5;
        return true;
    }
    len = strlen(text);
    if (len > 0 && text[len - 1] == '/')
        text[--len] = '\0';
    if (strrchr(text, ':') == NULL || (len > 0 && text[len - 1] == ']'))
        strcat(text, DEFAULT_PORT);
    if (!address_parse(text, &address))
        return wrong(p, "%s is no address: write HOST:PORT, such as localhost:29400, or unix:/PATH",
                     given);
    strcpy(ctl->server, text);
    ctl->unix_path = NULL;
    return true;
}

static bool take_option(struct parse *p, enum ctl_option_id id, const char *value)
{
    struct ctl *ctl = p->ctl;
    const struct ctl_option *o = &ctl_options[id];
    void *member = (char *)ctl + o->member;

    p->given |= 1u << id;
    if (o->member != 0 && o->value != NULL)
        *(const char **)member = value;
    else if (o->member != 0)
        *(bool *)member = true;
    switch (id) {
    case OPTION_SERVER:
        return take_server(p, value);
    case OPTION_SPACE:
        return value[0] != '\0' || wrong(p, "--space needs a name");
    case OPTION_OUTPUT:
        return take_output(p, value);
    case OPTION_TIMEOUT:
        return take_duration(p, "timeout", value, &ctl->timeout_ms);
    case OPTION_INTERVAL:
        return take_duration(p, "interval", value, &ctl->interval_ms);
    case OPTION_IN:
    case OPTION_FOR:
        return take_duration(p, o->name, value, &ctl->in_ms);
    case OPTION_COUNT:
        return take_count(p, value);
    default:
        return true;
    }
}

/* NULL: there is none. */
static const struct ctl_command *command_by_name(const char *name)
{
    return FIND(c, for (const struct ctl_command *c = ctl_commands; c->name != NULL; c++),
                strcmp(c->name, name) == 0);
}

static bool refuse_unknown(struct parse *p, const char *what, const char *dashes,
                           const struct nearest *near)
{
    if (near->found == NULL)
        return wrong(p, "there is no %s %s%s: `rdzvctl help` lists them", what, dashes, near->name);
    return wrong(p, "there is no %s %s%s: did you mean %s%s?", what, dashes, near->name, dashes,
                 near->found);
}

/* Commands of other programs, and ours. */
static const char *const foreign_commands[][2] = {
    {"list", "runs"},      {"ls", "runs"},        {"jobs", "runs"},   {"nodes", "status"},
    {"agents", "status"},  {"show", "status"},    {"info", "status"}, {"describe", "status"},
    {"ping", "health"},    {"del", "delete"},     {"rm", "delete"},   {"put", "set"},
    {"unhold", "release"}, {"resume", "release"}, {"pause", "hold"},  {NULL, NULL}};

static bool take_command_word(struct parse *p, const char *word)
{
    struct ctl *ctl = p->ctl;
    struct nearest near = nearest_to(word);

    if (ctl->command == NULL) {
        ctl->command = command_by_name(word);
        for (const struct ctl_command *c = ctl_commands; c->name != NULL; c++)
            nearest_try_word(&near, c->name);
        nearest_try_foreign(&near, foreign_commands);
        return ctl->command != NULL || refuse_unknown(p, "command", "", &near);
    }
    if (ctl->arg_count == CTL_ARGS_MOST)
        return wrong(p, "no more than %d words", CTL_ARGS_MOST);
    ctl->args[ctl->arg_count++] = word;
    return true;
}

/* The option that `word` names: "--name", "--name=value" or "-n"; -1: none. */
static int option_by_word(const char *word, size_t len)
{
    for (int id = 0; id < OPTION_COUNT_OF_ALL; id++) {
        const struct ctl_option *o = &ctl_options[id];

        if (len == 2 && o->letter != 0 && word[1] == o->letter)
            return id;
        if (len > 2 && word[1] == '-' && strlen(o->name) == len - 2 &&
            memcmp(o->name, word + 2, len - 2) == 0)
            return id;
    }
    return -1;
}

/* Reads the option at argv[*at], with its value in the same word ("--name=value") or the next. */
static bool parse_option(struct parse *p, char **argv, int argc, int *at)
{
    const char *word = argv[*at], *value = NULL;
    bool is_long = word[1] == '-';
    size_t len = is_long ? strcspn(word, "=") : 2;
    int id = option_by_word(word, len);
    char name[100];

    snprintf(name, sizeof name, "%.*s", (int)len, word);
    if (id < 0) {
        struct nearest near = nearest_to(name + strspn(name, "-"));

        for (id = 0; is_long && id < OPTION_COUNT_OF_ALL; id++)
            nearest_try_word(&near, ctl_options[id].name);
        return refuse_unknown(p, "option", is_long ? "--" : "-", &near);
    }
    if (word[len] != '\0')
        value = word + len + (is_long ? 1 : 0);
    if (ctl_options[id].value == NULL && value != NULL)
        return wrong(p, "%s takes no value", name);
    if (ctl_options[id].value != NULL && value == NULL) {
        if (++*at == argc)
            return wrong(p, "%s needs a value: %s", word, ctl_options[id].value);
        value = argv[*at];
    }
    return take_option(p, (enum ctl_option_id)id, value);
}

static bool parse_words(struct parse *p, int argc, char **argv)
{
    bool options_ended = false;

    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        bool is_number = word[0] == '-' && word[1] >= '0' && word[1] <= '9';
        bool is_option = word[0] == '-' && word[1] != '\0' && !is_number;

        if (!options_ended && strcmp(word, "--") == 0)
            options_ended = true;
        else if (!options_ended && is_option ? !parse_option(p, argv, argc, &i)
                                             : !take_command_word(p, word))
            return false;
    }
    return true;
}

static bool check_command(struct parse *p)
{
    struct ctl *ctl = p->ctl;
    const struct ctl_command *c = ctl->command;
    unsigned stray = p->given & ~c->options;

    for (int id = 0; id < OPTION_COUNT_OF_ALL; id++) {
        if ((stray & 1u << id) != 0)
            return wrong(p, "`%s` takes no --%s: see `rdzvctl help %s`", c->name,
                         ctl_options[id].name, c->name);
    }
    if (ctl->arg_count < c->least || ctl->arg_count > c->most)
        return wrong(p, "write `rdzvctl %s%s%s`: see `rdzvctl help %s`", c->name,
                     c->words[0] != '\0' ? " " : "", c->words, c->name);
    return true;
}

/* Options with files for TLS switch TLS on, except if the address says http://. Variables like
 * RDZVCTL_CACERT apply to every server; a server without TLS ignores them. */
static bool decide_tls(struct parse *p)
{
    struct ctl *ctl = p->ctl;
    bool given = (p->given & OPTIONS_OF_TLS) != 0;

    if (given && p->plain)
        return wrong(p,
                     "%s is reached without TLS: leave out --cacert, --cert, --key and "
                     "--tls-server-name, or use -s https://HOST:PORT",
                     ctl->server);
    if (!p->plain && (given || ctl->tls_with.ca != NULL || ctl->tls_with.cert != NULL))
        ctl->tls = true;
    if (ctl->tls && ctl->tls_with.cert != NULL && ctl->tls_with.key == NULL)
        return wrong(p, "--cert=%s needs its key: --key=FILE", ctl->tls_with.cert);
    if (ctl->tls && ctl->tls_with.key != NULL && ctl->tls_with.cert == NULL)
        return wrong(p, "--key=%s needs its certificate: --cert=FILE", ctl->tls_with.key);
    return true;
}

/* An empty variable is none. */
static const char *given_in(char *(*environment)(const char *name), const char *name)
{
    const char *value = environment(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

bool options_parse(int argc, char **argv, char *(*environment)(const char *name), struct ctl *out,
                   char *error, size_t error_size)
{
    struct parse p = {.ctl = out, .error = error, .error_size = error_size};
    const char *server = given_in(environment, "RDZVCTL_SERVER");

    *out = (struct ctl){.timeout_ms = -1,
                        .interval_ms = -1,
                        .in_ms = -1,
                        .count = -1,
                        .token_file = given_in(environment, "RDZVCTL_TOKEN_FILE"),
                        .tls_with = {.ca = given_in(environment, "RDZVCTL_CACERT"),
                                     .cert = given_in(environment, "RDZVCTL_CERT"),
                                     .key = given_in(environment, "RDZVCTL_KEY"),
                                     .name = given_in(environment, "RDZVCTL_TLS_SERVER_NAME")}};
    if (!take_server(&p, server != NULL ? server : DEFAULT_SERVER))
        return false;
    p.given = 0;
    if (!parse_words(&p, argc, argv))
        return false;
    if (out->version) {
        out->command = NULL;
        return true;
    }
    if (out->help) { /* `rdzvctl get --help` is `rdzvctl help get` */
        out->arg_count = out->command != NULL;
        out->args[0] = out->command != NULL ? out->command->name : NULL;
        out->command = command_by_name("help");
        return true;
    }
    if (out->command == NULL)
        return wrong(&p, "name a command: `rdzvctl help` lists them");
    return check_command(&p) && decide_tls(&p);
}
