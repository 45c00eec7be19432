/* Our own flags: the table of them, and how each kind of value gets into struct config. */
#include "proto/etcd_types.h"
#include "proto/units.h"
#include "rdzv/config/config_internal.h"
#include "store/memory/xalloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const switch_names[] = {"off", "on", NULL};
static const char *const log_format_names[] = {"logfmt", "json", NULL};
static const char *const sync_names[] = {"always", "batch", "off", NULL};
static const char *const restart_names[] = {"off", "closed", "silent", NULL};
const char *const rank_order_names[] = {"torch", "natural", "keep", "table", NULL};
static const char *const client_cert_names[] = {"required", "optional", NULL};
#define DISABLE_NAMES                                                               \
    CONFIG_C10D_LEGACY ", " CONFIG_CLOSE_FROM_MEMBERS ", " CONFIG_DROP_DISCONNECTED \
                       ", " CONFIG_END_LAST_CALL
static const char *const disable_names[] = {CONFIG_C10D_LEGACY, CONFIG_CLOSE_FROM_MEMBERS,
                                            CONFIG_DROP_DISCONNECTED, CONFIG_END_LAST_CALL, NULL};
static const char *const log_level_names[] = {"debug", "info", "warn", "error", NULL};

#define AT(member) offsetof(struct config, member)

/* The first fields of a row; more fields of the option may follow. A group of the help begins at
 * the row with the group's name. */
#define ROW(flag, type, member, value, text) \
    .name = (flag), .kind = (type), .offset = AT(member), .value_name = (value), .help = (text)
#define TEXT(flag, member, value, text)  ROW(flag, OPTION_TEXT, member, value, text)
#define NAMES(flag, member, value, text) ROW(flag, OPTION_NAMES, member, value, text)
#define CHOICE(flag, member, names, value, text) \
    ROW(flag, OPTION_CHOICE, member, value, text), .choices = (names)
#define SWITCH(flag, member, text) \
    ROW(flag, OPTION_SWITCH, member, "on|off", text), .choices = switch_names
#define DURATION(flag, member, text) ROW(flag, OPTION_DURATION, member, "DURATION", text)
#define SIZE(flag, member, text)     ROW(flag, OPTION_SIZE, member, "SIZE", text)
#define COUNT(flag, member, text)    ROW(flag, OPTION_COUNT, member, "COUNT", text)
#define ACTION(flag, value, text) \
    .name = (flag), .kind = OPTION_ACTION, .action = (value), .help = (text)

const struct option config_options[] = {
    {ROW("listen", OPTION_LISTEN, listeners, "ADDR:PORT[/SPACE]",
         "serve here, or unix:/PATH; repeatable"),
     .group = "Listening"},

    {TEXT("cert", tls.cert, "FILE", "serve TLS with this certificate and its chain, as PEM"),
     .group = "TLS", .left_out = "there is no TLS"},
    {TEXT("key", tls.key, "FILE", "its key, as PEM without a password"),
     .left_out = "there is no TLS"},
    {TEXT("client-ca", tls.client_ca, "FILE",
          "clients must show a certificate of one of these CAs"),
     .left_out = "clients need no certificate"},
    {CHOICE("client-cert", tls.client_cert, client_cert_names, "required|optional",
            "optional: clients may show no certificate")},
    {NAMES("client-names", tls.client_names, "NAMES",
           "a client's certificate must have one of these names"),
     .without = "any"},
    {TEXT("crl", tls.crl, "FILE", "the CAs' lists of certificates that are revoked"),
     .left_out = "no certificate counts as revoked"},
    {TEXT("plaintext", tls.plaintext, "WHO",
          "clients that may use no TLS: on, off, loopback, or networks"),
     .check = config_check_plaintext, .without = "loopback"},

    {TEXT("upstream", upstream, "HOST:PORT[,HOST:PORT...]",
          "be a relay of this store; a replica relays to the leader"),
     .group = "As a relay", .check = config_check_upstream},
    {TEXT("upstream-ca", upstream_tls.ca, "FILE|system",
          "speak TLS with the store, whose certificate has one of these CAs"),
     .left_out = "the relay speaks plain text"},
    {TEXT("upstream-cert", upstream_tls.cert, "FILE", "show it this certificate"),
     .left_out = "it shows no certificate"},
    {TEXT("upstream-key", upstream_tls.key, "FILE", "the key of that"),
     .left_out = "it shows no certificate"},
    {TEXT("upstream-name", upstream_tls.name, "NAME", "the name in its certificate"),
     .left_out = "it is the host of --upstream", .without = "the host of --upstream"},
    {TEXT("space", space, "NAME", "the space of that store (default)"),
     .check = config_check_space},
    {COUNT("exit-on-restart", exit_on_restart,
           "exit with this when a relay of the run (--expect) starts anew"),
     .most = 255, .may_be_off = true},
    {TEXT("name", name, "NAME", "the node's name there; as an etcd, the member's")},

    {TEXT("allow", allow, "NETWORKS", "who may connect, beside this machine: 10.0.0.0/8,fd00::/8"),
     .group = "Who may do what", .check = config_check_allow, .without = "anybody"},
    {TEXT("admin-token-file", admin_token_file, "FILE",
          "clients that send the token in FILE may change things at /rdzv/v1"),
     .left_out = "no token lets clients change things"},
    {NAMES("admin-names", tls.admin_names, "NAMES",
           "operators may instead show a certificate with one of these names"),
     .without = "none"},
    {TEXT("read-token-file", read_token_file, "FILE", "readers of /rdzv/v1 send the token in FILE"),
     .left_out = "readers need no token", .without = "anybody may", .on_relay = RELAY_REFUSES},
    {NAMES("read-names", tls.read_names, "NAMES",
           "readers may instead show a certificate with one of these names"),
     .without = "none", .on_relay = RELAY_REFUSES},
    {NAMES("relay-names", tls.relay_names, "SPACE=NAME,...",
           "relays of SPACE need a certificate with this name"),
     .without = "no space does"},
    {ROW("cors", OPTION_ORIGINS, cors, "ORIGINS", NULL)}, /* etcd's, and documented there */
    {NAMES("host-whitelist", host_whitelist, "NAMES", "Host headers to answer, * is any"),
     .without = "any, on loopback its own"},

    {TEXT("data-dir", data_dir, "DIR", "keep all state in DIR, so that it outlives the process"),
     .group = "Keys and spaces", .left_out = "a restart starts empty", .on_relay = RELAY_REFUSES,
     .is_for_files = true},
    {CHOICE("sync", sync, sync_names, "always|batch|off",
            "what an answered change survives: a power cut; a kill; nothing"),
     .on_relay = RELAY_REFUSES, .is_for_files = true},
    {TEXT("journal", journal.url, "etcd://HOSTS/NAME",
          "keep all state in this etcd v3; one of several replicas leads"),
     .check = config_check_journal},
    {DURATION("journal-lease", journal.lease_ms,
              "another replica leads this long after the leader has died"),
     .least = 2000, .most = 60000, .on_relay = RELAY_REFUSES},
    {TEXT("journal-user", journal.user, "NAME", "user name of the login to etcd"),
     .left_out = "it does not log in", .on_relay = RELAY_REFUSES},
    {TEXT("journal-password-file", journal.password_file, "FILE", "that user's password"),
     .left_out = "it does not log in", .on_relay = RELAY_REFUSES},
    {TEXT("journal-ca", journal.tls.ca, "FILE|system",
          "speak TLS with etcd, whose certificate has one of these CAs"),
     .left_out = "it speaks plain text with etcd"},
    {TEXT("journal-cert", journal.tls.cert, "FILE", "show etcd this certificate"),
     .left_out = "it shows no certificate"},
    {TEXT("journal-key", journal.tls.key, "FILE", "the key of that"),
     .left_out = "it shows no certificate"},
    {TEXT("journal-server-name", journal.tls.name, "NAME", "the name in etcd's certificates"),
     .left_out = "it is the host of each endpoint", .without = "the host of each endpoint"},
    {DURATION("space-idle-timeout", space_idle_timeout_ms,
              "forget a space's c10d keys after this time without a c10d client"),
     .may_be_off = true, .on_relay = RELAY_REFUSES},
    {DURATION("session-timeout", session_timeout_ms,
              "end a relay's session after this time without it"),
     .least = 1, .on_relay = RELAY_REFUSES},
    {DURATION("exit-when-idle", exit_when_idle_ms,
              "exit after this time without use, once there was use"),
     .may_be_off = true},
    {SWITCH("exit-with-stdin", exit_with_stdin, NULL)}, /* for programs that start rdzvd */
    {DURATION("drain-timeout", drain_timeout_ms, NULL), .may_be_off = true}, /* for the same */

    {SWITCH("elastic-fixes", elastic.fixes,
            "repair elastic jobs, or be a plain store like torch's"),
     .group = "Elastic jobs", .on_relay = RELAY_IGNORES},
    {TEXT("advertise", elastic.advertise, "HOST[:PORT]",
          "where workers reach this store (as agents do)"),
     .check = config_check_advertise, .on_relay = RELAY_IGNORES},
    {TEXT("worker-ports", elastic.worker_ports, "LOW-HIGH",
          "a port for each run's workers (the agents' port)"),
     .check = config_check_worker_ports, .on_relay = RELAY_IGNORES},
    {DURATION("closed-run-ttl", elastic.closed_run_ttl_ms,
              "forget a closed run after this time without an agent"),
     .least = 1, .on_relay = RELAY_IGNORES},
    {DURATION("closed-run-wait", elastic.closed_run_wait_ms,
              "agents wait this long for a closed run to be replaced"),
     .may_be_off = true, .on_relay = RELAY_IGNORES},
    {DURATION("ended-job-ttl", elastic.ended_job_ttl_ms,
              "spares and lost nodes do not begin an ended job again"),
     .may_be_off = true, .on_relay = RELAY_IGNORES},
    {DURATION("idle-run-ttl", elastic.idle_run_ttl_ms,
              "forget an open run after this time without an agent"),
     .may_be_off = true, .on_relay = RELAY_IGNORES},
    {DURATION("silent-node-timeout", elastic.silent_node_ms,
              "a node is dead when its agent is silent for this time"),
     .least = 6000,
     .least_why = "torch's agents send a heartbeat each 5s, and 1.13 sends nothing else",
     .may_be_off = true, .on_relay = RELAY_IGNORES},
    {CHOICE("restart-on-loss", elastic.restart_on_loss, restart_names, "off|closed|silent",
            "when a node is lost, make the others meet again"),
     .on_relay = RELAY_IGNORES},
    {DURATION("regroup-wait", elastic.regroup_wait_ms,
              "after a loss, go on without missing nodes (MIN are left)"),
     .least = 2000, .may_be_off = true, .on_relay = RELAY_IGNORES},
    {COUNT("expect", elastic.expected_nodes, "nodes of a job: the first round waits for no more"),
     .may_be_off = true, .on_relay = RELAY_IGNORES},
    {CHOICE("rank-order", elastic.rank_order, rank_order_names, "torch|natural|keep|table",
            "keep: nodes keep their ranks, new nodes take free ones"),
     .on_relay = RELAY_IGNORES},
    {TEXT("rank-zero", elastic.rank_zero, "NAME", "rank 0 is for the node of this name or pattern"),
     .on_relay = RELAY_IGNORES, .left_out = "any node gets rank 0", .without = "any node"},
    {TEXT("topology-file", elastic.topology_file, "FILE",
          "the rack or domain of each node, for their ranks"),
     .on_relay = RELAY_IGNORES, .left_out = "all nodes are in one domain"},
    {SWITCH("end-failed-runs", elastic.end_failed_runs,
            "if a node fails for good, all nodes of its run end"),
     .on_relay = RELAY_IGNORES},
    {SWITCH("close-needs-all", elastic.close_needs_all,
            "a run closes only when all its agents ask (torch 2.3-2.7)"),
     .on_relay = RELAY_IGNORES},
    {NAMES("disable", disabled, DISABLE_NAMES, NULL), .choices = disable_names},

    {SIZE("value-limit", limits.value_max, "a c10d value"), .group = "Limits", .least = 1},
    {SIZE("output-limit", limits.output_max, "unread replies of one client; above, it is dropped"),
     .least = 1024},
    {COUNT("connection-limit", limits.connections_max, "connections at a time"),
     .may_be_off = true},
    {SIZE("memory-limit", limits.memory_max,
          "memory of rdzvd; auto is 80% of the available memory"),
     .least = 1 << 20, .least_why = "a number alone counts bytes", .may_be_off = true,
     .may_be_auto = true},
    {SIZE("space-limit", limits.space_bytes_max, "memory of each space"), .may_be_off = true},
    {DURATION("request-timeout", limits.request_timeout_ms,
              "for a whole request to arrive; idle clients stay"),
     .may_be_off = true},

    {CHOICE("log-format", log_format, log_format_names, "logfmt|json",
            "one line per event on stderr, in this format"),
     .group = "Log"},
    {CHOICE("log-level", log_level, log_level_names, "debug|info|warn|error",
            "the lowest level that is logged")},

    {ROW("advertise-client-urls", OPTION_URLS, advertise_client_urls, "URLS", NULL)},

    {ROW("config", OPTION_FILE, config_file, "FILE",
         "read settings from YAML; the names are those of the flags"),
     .group = "Settings"},
    {ACTION("check-config", CONFIG_CHECK, "check the settings, print them as YAML and exit")},
    {TEXT("check-data", check_data, "DIR", "read a data directory, print its content and exit")},
    {TEXT("check-health", check_health, "HOST:PORT/PATH",
          "ask the rdzvd there for /livez, /readyz or /startz, and exit")},
    {ACTION("help", CONFIG_HELP, "print this and exit")},
    {ACTION("version", CONFIG_VERSION, "print the version and exit")},
};

const size_t config_option_count = sizeof config_options / sizeof config_options[0];

const struct option *config_find_option(const char *name, size_t len)
{
    for (size_t i = 0; i < config_option_count; i++) {
        if (strlen(config_options[i].name) == len && memcmp(config_options[i].name, name, len) == 0)
            return &config_options[i];
    }
    return NULL;
}

const char *config_format_amount(const struct option *o, uint64_t value, char *text)
{
    if (o->kind == OPTION_DURATION)
        return units_format_duration(value, text);
    if (o->kind == OPTION_SIZE)
        return units_format_size(value, text);
    snprintf(text, UNITS_TEXT_MAX, "%" PRIu64, value);
    return text;
}

static uint64_t most_of(const struct option *o)
{
    return o->most != 0 ? o->most : o->kind == OPTION_COUNT ? UINT32_MAX : UINT64_MAX;
}

/* Most durations and sizes may be as large as one likes. */
static bool fail_range(struct parse *p, const struct setting *s)
{
    const struct option *o = s->option;
    const char *colon = o->least_why == NULL ? "" : ": ";
    const char *why = o->least_why == NULL ? "" : o->least_why;
    char least[UNITS_TEXT_MAX], most[UNITS_TEXT_MAX];

    config_format_amount(o, o->least, least);
    if (most_of(o) == UINT64_MAX)
        return config_fail(p, s, "%s: must be %s at least%s%s", config_show(s->value).text, least,
                           colon, why);
    return config_fail(p, s, "%s: must be from %s to %s%s%s", config_show(s->value).text, least,
                       config_format_amount(o, most_of(o), most), colon, why);
}

/* The three numeric kinds, checked against the option's range. */
static bool parse_amount(struct parse *p, const struct setting *s, uint64_t *out)
{
    const struct option *o = s->option;
    bool duration = o->kind == OPTION_DURATION;
    uint64_t value = 0;

    if (o->may_be_off && (strcmp(s->value, "off") == 0 || strcmp(s->value, "none") == 0)) {
        *out = 0;
        return true;
    }
    if (o->may_be_auto && strcmp(s->value, "auto") == 0) {
        *out = CONFIG_AUTO;
        return true;
    }
    if (o->kind == OPTION_COUNT) {
        size_t len = strlen(s->value);

        if (len == 0 || strspn(s->value, "0123456789") < len)
            return config_fail(p, s, "%s: not a whole number%s", config_show(s->value).text,
                               o->may_be_off ? "; write one, or off" : "; write one");
        if (!slice_to_u64(slice_str(s->value), UINT64_MAX, &value))
            value = UINT64_MAX;
    } else {
        enum units_result result =
            duration ? units_parse_duration(s->value, &value) : units_parse_size(s->value, &value);

        if (result != UNITS_OK)
            return config_fail(p, s, "%s: %s", config_show(s->value).text,
                               duration ? units_duration_hint(result) : units_size_hint(result));
    }
    if (value < o->least || value > most_of(o))
        return fail_range(p, s);
    *out = value;
    return true;
}

static bool find_choice(const struct option *o, const char *word, unsigned *out)
{
    for (unsigned i = 0; o->choices[i] != NULL; i++) {
        if (strcmp(word, o->choices[i]) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

/* The place of the value among the choices, as an enum has it. */
static bool parse_choice(struct parse *p, const struct setting *s, unsigned *out)
{
    const struct option *o = s->option;
    bool flag;

    if (find_choice(o, s->value, out))
        return true;
    if (o->kind == OPTION_SWITCH && etcd_parse_bool(slice_str(s->value), &flag)) {
        *out = flag;
        return true;
    }
    /* etcd's levels above error end the process there; here nothing does. */
    if (o->choices == log_level_names &&
        (strcmp(s->value, "panic") == 0 || strcmp(s->value, "fatal") == 0)) {
        *out = LOG_ERROR;
        return true;
    }
    return config_fail(p, s, "%s: must be one of %s", config_show(s->value).text, o->value_name);
}

bool config_read_urls(struct parse *p, const struct setting *s, struct string_list *list)
{
    struct string_list urls = {0};

    if (s->value[0] == '\0')
        return true; /* etcd keeps its default then */
    string_list_split(&urls, s->value);
    for (size_t i = 0; i < urls.count; i++) {
        const char *problem = etcd_url_check(urls.items[i], NULL);

        if (problem != NULL) {
            config_fail(p, s, "%s: %s", config_show(urls.items[i]).text, problem);
            string_list_free(&urls);
            return false;
        }
    }
    string_list_sort(&urls);
    string_list_free(list);
    *list = urls;
    return true;
}

static bool apply_origins(struct parse *p, const struct setting *s, struct string_list *list)
{
    if (strcmp(s->value, "*") != 0)
        return s->value[0] == '\0' ? config_fail(p, s, "is empty; write * for any origin, or URLs")
                                   : config_read_urls(p, s, list);
    string_list_free(list);
    string_list_add(list, "*", 1);
    return true;
}

static bool apply_names(struct parse *p, const struct setting *s, struct string_list *list)
{
    const struct option *o = s->option;

    string_list_free(list);
    if (s->value[0] == '\0' && s->etcd != NULL && s->etcd->own != NULL)
        return true; /* none, to etcd */
    string_list_split(list, s->value);
    for (size_t i = 0; i < list->count; i++) {
        if (o->choices != NULL && !find_choice(o, list->items[i], &(unsigned){0}))
            return config_fail(p, s, "%s: is none of %s", config_show(list->items[i]).text,
                               o->value_name);
        if (strcmp(list->items[i], "*") == 0 || s->value[0] == '\0') {
            string_list_free(list);
            string_list_add(list, "*", 1);
            return true;
        }
    }
    return true;
}

static bool apply_text(struct parse *p, const struct setting *s, char **field)
{
    const struct option *o = s->option;
    const char *problem = o->check == NULL ? NULL : o->check(&p->config, s->value);

    if (problem != NULL)
        return config_fail(p, s, "%s: %s", config_show(s->value).text, problem);
    if (s->value[0] == '\0' && o->left_out != NULL && (s->etcd == NULL || s->etcd->own == NULL))
        return config_fail(p, s, "is empty; write %s, or leave the setting out: then %s",
                           o->value_name, o->left_out);
    free(*field);
    *field = config_copy_text(s->value, strlen(s->value));
    return true;
}

bool config_apply_option(struct parse *p, const struct setting *s)
{
    void *field = (char *)&p->config + s->option->offset;
    uint64_t amount;
    unsigned choice;
    bool flag;

    switch (s->option->kind) {
    case OPTION_LISTEN:
        return config_apply_listen(p, s);
    case OPTION_DURATION:
    case OPTION_SIZE:
        if (!parse_amount(p, s, &amount))
            return false;
        memcpy(field, &amount, sizeof amount);
        return true;
    case OPTION_COUNT:
        if (!parse_amount(p, s, &amount))
            return false;
        memcpy(field, &(uint32_t){(uint32_t)amount}, sizeof(uint32_t));
        return true;
    case OPTION_SWITCH:
        if (!parse_choice(p, s, &choice))
            return false;
        *(bool *)field = choice != 0;
        return true;
    case OPTION_CHOICE:
        if (!parse_choice(p, s, &choice))
            return false;
        memcpy(field, &choice, sizeof choice); /* our enums are unsigned ints to both compilers */
        return true;
    case OPTION_TEXT:
        return apply_text(p, s, field);
    case OPTION_URLS:
        return config_read_urls(p, s, field);
    case OPTION_ORIGINS:
        return apply_origins(p, s, field);
    case OPTION_NAMES:
        return apply_names(p, s, field);
    case OPTION_FILE:
        return true; /* config_collect() has read it */
    case OPTION_ACTION:
        if (s->value != NULL && !etcd_parse_bool(slice_str(s->value), &flag))
            return config_fail(p, s, "%s: takes no value", config_show(s->value).text);
        if (s->value == NULL || flag)
            p->config.action = s->option->action;
        return true;
    }
    return true;
}
