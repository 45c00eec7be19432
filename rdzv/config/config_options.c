/* Our own flags: the table of them, and how each kind of value gets into struct config. */
#include "proto/utf8.h"
#include "rdzv/config/config_internal.h"
#include "rdzv/config/etcd_url.h"
#include "rdzv/config/units.h"
#include "store/memory/xalloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const switch_names[] = {"off", "on", NULL};
static const char *const log_format_names[] = {"logfmt", "json", NULL};
static const char *const sync_names[] = {"always", "batch", "off", NULL};
static const char *const restart_names[] = {"off", "closed", "silent", NULL};
static const char *const client_cert_names[] = {"required", "optional", NULL};
static const char *const log_level_names[] = {"debug", "info", "warn", "error", NULL};

#define AT(member) offsetof(struct config, member)

static const char listening[] = "Listening";
static const char tls[] = "TLS";
static const char access[] = "Who may do what";
static const char keeping[] = "Keys and spaces";
static const char relaying[] = "As a relay";
static const char elastic[] = "Elastic jobs";
static const char limits[] = "Limits";
static const char logging[] = "Log";
static const char files[] = "Settings";
static const char as_etcd[] = "As an etcd";

const struct option config_options[] = {
    {.name = "listen",
     .kind = OPTION_LISTEN,
     .group = listening,
     .value_name = "ADDR:PORT[/SPACE]",
     .help = "serve here, or unix:/PATH; repeatable"},
    {.name = "c10d-legacy",
     .kind = OPTION_SWITCH,
     .offset = AT(legacy),
     .choices = switch_names,
     .group = listening,
     .value_name = "on|off",
     .help = "accept the c10d version of torch 1.9 to 2.0"},

    {.name = "cert",
     .kind = OPTION_TEXT,
     .offset = AT(tls.cert),
     .left_out = "there is no TLS",
     .group = tls,
     .value_name = "FILE",
     .help = "serve TLS, too: this certificate and those behind it, as PEM"},
    {.name = "key",
     .kind = OPTION_TEXT,
     .offset = AT(tls.key),
     .left_out = "there is no TLS",
     .group = tls,
     .value_name = "FILE",
     .help = "its key, as PEM without a password"},
    {.name = "client-ca",
     .kind = OPTION_TEXT,
     .offset = AT(tls.client_ca),
     .left_out = "clients need no certificate",
     .group = tls,
     .value_name = "FILE",
     .help = "clients have to show a certificate of one of these CAs"},
    {.name = "client-cert",
     .kind = OPTION_CHOICE,
     .offset = AT(tls.client_cert),
     .choices = client_cert_names,
     .group = tls,
     .value_name = "required|optional",
     .help = "optional: or none at all"},
    {.name = "client-names",
     .kind = OPTION_NAMES,
     .offset = AT(tls.client_names),
     .group = tls,
     .value_name = "NAMES",
     .help = "a client's certificate must have one of these names",
     .without = "any"},
    {.name = "crl",
     .kind = OPTION_TEXT,
     .offset = AT(tls.crl),
     .left_out = "no certificate counts as revoked",
     .group = tls,
     .value_name = "FILE",
     .help = "the CAs' lists of certificates that are revoked"},
    {.name = "plaintext",
     .kind = OPTION_TEXT,
     .offset = AT(tls.plaintext),
     .check = config_check_plaintext,
     .group = tls,
     .value_name = "WHO",
     .help = "who may do without TLS: on, off, loopback, or networks",
     .without = "loopback"},

    {.name = "upstream",
     .kind = OPTION_TEXT,
     .offset = AT(upstream),
     .check = config_check_upstream,
     .group = relaying,
     .value_name = "HOST:PORT[,HOST:PORT...]",
     .help = "be a relay of this store; a replica: of the one that leads"},
    {.name = "upstream-ca",
     .kind = OPTION_TEXT,
     .offset = AT(upstream_tls.ca),
     .left_out = "the relay speaks plain text",
     .group = relaying,
     .value_name = "FILE|system",
     .help = "speak TLS with it: its certificate is of one of these CAs"},
    {.name = "upstream-cert",
     .kind = OPTION_TEXT,
     .offset = AT(upstream_tls.cert),
     .left_out = "it shows no certificate",
     .group = relaying,
     .value_name = "FILE",
     .help = "show it this certificate"},
    {.name = "upstream-key",
     .kind = OPTION_TEXT,
     .offset = AT(upstream_tls.key),
     .left_out = "it shows no certificate",
     .group = relaying,
     .value_name = "FILE",
     .help = "the key of that"},
    {.name = "upstream-name",
     .kind = OPTION_TEXT,
     .offset = AT(upstream_tls.name),
     .left_out = "it is the host of --upstream",
     .group = relaying,
     .value_name = "NAME",
     .help = "the name in its certificate",
     .without = "the host of --upstream"},
    {.name = "space",
     .kind = OPTION_TEXT,
     .offset = AT(space),
     .check = config_check_space,
     .group = relaying,
     .value_name = "NAME",
     .help = "the space of that store (default)"},

    {.name = "allow",
     .kind = OPTION_TEXT,
     .offset = AT(allow),
     .check = config_check_allow,
     .group = access,
     .value_name = "NETWORKS",
     .help = "who may connect, beside this machine: 10.0.0.0/8,fd00::/8",
     .without = "anybody"},
    {.name = "admin-token-file",
     .kind = OPTION_TEXT,
     .offset = AT(admin_token_file),
     .left_out = "no token lets clients change things",
     .group = access,
     .value_name = "FILE",
     .help = "clients that send the token in FILE may change things at /rdzv/v1"},
    {.name = "admin-names",
     .kind = OPTION_NAMES,
     .offset = AT(tls.admin_names),
     .group = access,
     .value_name = "NAMES",
     .help = "clients with one of these names in their certificate may, too",
     .without = "none"},
    {.name = "read-token-file",
     .kind = OPTION_TEXT,
     .offset = AT(read_token_file),
     .left_out = "readers need no token",
     .group = access,
     .value_name = "FILE",
     .help = "readers of /rdzv/v1 send the token in FILE",
     .without = "anybody may"},
    {.name = "read-names",
     .kind = OPTION_NAMES,
     .offset = AT(tls.read_names),
     .group = access,
     .value_name = "NAMES",
     .help = "readers with one of these names in their certificate may, too",
     .without = "none"},
    {.name = "relay-names",
     .kind = OPTION_NAMES,
     .offset = AT(tls.relay_names),
     .group = access,
     .value_name = "SPACE=NAME,...",
     .help = "relays of SPACE need a certificate with this name",
     .without = "no space does"},
    {.name = "cors",
     .kind = OPTION_ORIGINS,
     .offset = AT(cors),
     .group = access,
     .value_name = "ORIGINS",
     .help = "origins whose pages may read answers; * is any",
     .without = "none"},
    {.name = "host-whitelist",
     .kind = OPTION_NAMES,
     .offset = AT(host_whitelist),
     .group = access,
     .value_name = "NAMES",
     .help = "Host headers to answer, * is any",
     .without = "any, on loopback its own"},

    {.name = "data-dir",
     .kind = OPTION_TEXT,
     .offset = AT(data_dir),
     .group = keeping,
     .value_name = "DIR",
     .help = "keep all state in DIR, so that it outlives the process"},
    {.name = "sync",
     .kind = OPTION_CHOICE,
     .offset = AT(sync),
     .choices = sync_names,
     .group = keeping,
     .value_name = "always|batch|off",
     .help = "what an answered change survives: a power cut; a kill; nothing"},
    {.name = "journal",
     .kind = OPTION_TEXT,
     .offset = AT(journal.url),
     .check = config_check_journal,
     .group = keeping,
     .value_name = "etcd://HOSTS/NAME",
     .help = "keep all state in this etcd v3; one of several replicas leads"},
    {.name = "journal-endpoints-file",
     .kind = OPTION_TEXT,
     .offset = AT(journal.endpoints_file),
     .group = keeping,
     .value_name = "FILE",
     .help = "etcd's members, a HOST:PORT in each line; with etcd:///NAME"},
    {.name = "journal-lease",
     .kind = OPTION_DURATION,
     .offset = AT(journal.lease_ms),
     .least = 2000,
     .most = 60000,
     .group = keeping,
     .value_name = "DURATION",
     .help = "another replica leads this long after the leader has died"},
    {.name = "journal-user",
     .kind = OPTION_TEXT,
     .offset = AT(journal.user),
     .left_out = "it does not log in",
     .group = keeping,
     .value_name = "NAME",
     .help = "log in to etcd as this user"},
    {.name = "journal-password-file",
     .kind = OPTION_TEXT,
     .offset = AT(journal.password_file),
     .left_out = "it does not log in",
     .group = keeping,
     .value_name = "FILE",
     .help = "that user's password"},
    {.name = "journal-ca",
     .kind = OPTION_TEXT,
     .offset = AT(journal.tls.ca),
     .left_out = "it speaks plain text with etcd",
     .group = keeping,
     .value_name = "FILE|system",
     .help = "speak TLS with etcd: its certificate is of one of these CAs"},
    {.name = "journal-cert",
     .kind = OPTION_TEXT,
     .offset = AT(journal.tls.cert),
     .left_out = "it shows no certificate",
     .group = keeping,
     .value_name = "FILE",
     .help = "show etcd this certificate"},
    {.name = "journal-key",
     .kind = OPTION_TEXT,
     .offset = AT(journal.tls.key),
     .left_out = "it shows no certificate",
     .group = keeping,
     .value_name = "FILE",
     .help = "the key of that"},
    {.name = "journal-server-name",
     .kind = OPTION_TEXT,
     .offset = AT(journal.tls.name),
     .left_out = "it is the host of each endpoint",
     .group = keeping,
     .value_name = "NAME",
     .help = "the name in etcd's certificates",
     .without = "the host of each endpoint"},
    {.name = "space-idle-timeout",
     .kind = OPTION_DURATION,
     .offset = AT(space_idle_timeout_ms),
     .most = UINT64_MAX,
     .may_be_off = true,
     .group = keeping,
     .value_name = "DURATION",
     .help = "forget a space's c10d keys after this time without a c10d client"},
    {.name = "session-timeout",
     .kind = OPTION_DURATION,
     .offset = AT(session_timeout_ms),
     .least = 1,
     .most = UINT64_MAX,
     .group = keeping,
     .value_name = "DURATION",
     .help = "end a relay's session after this time without it"},
    {.name = "exit-when-idle",
     .kind = OPTION_DURATION,
     .offset = AT(exit_when_idle_ms),
     .most = UINT64_MAX,
     .may_be_off = true,
     .group = keeping,
     .value_name = "DURATION",
     .help = "exit after this time without use, once there was use"},
    {.name = "drain-timeout",
     .kind = OPTION_DURATION,
     .offset = AT(drain_timeout_ms),
     .most = UINT64_MAX,
     .may_be_off = true,
     .group = keeping,
     .value_name = "DURATION",
     .help = "after SIGTERM, time for queued replies to leave"},

    {.name = "elastic-fixes",
     .kind = OPTION_SWITCH,
     .offset = AT(elastic.fixes),
     .choices = switch_names,
     .group = elastic,
     .value_name = "on|off",
     .help = "repair elastic jobs, or be a plain store like torch's"},
    {.name = "advertise",
     .kind = OPTION_TEXT,
     .offset = AT(elastic.advertise),
     .check = config_check_advertise,
     .group = elastic,
     .value_name = "HOST[:PORT]",
     .help = "where workers reach this store (as agents do)"},
    {.name = "worker-ports",
     .kind = OPTION_TEXT,
     .offset = AT(elastic.worker_ports),
     .check = config_check_worker_ports,
     .group = elastic,
     .value_name = "LOW-HIGH",
     .help = "a port for each run's workers (the agents' port)"},
    {.name = "closed-run-ttl",
     .kind = OPTION_DURATION,
     .offset = AT(elastic.closed_run_ttl_ms),
     .least = 1,
     .most = UINT64_MAX,
     .group = elastic,
     .value_name = "DURATION",
     .help = "forget a closed run after this time without an agent"},
    {.name = "closed-run-wait",
     .kind = OPTION_DURATION,
     .offset = AT(elastic.closed_run_wait_ms),
     .most = UINT64_MAX,
     .may_be_off = true,
     .group = elastic,
     .value_name = "DURATION",
     .help = "agents wait this long for a closed run to be replaced"},
    {.name = "idle-run-ttl",
     .kind = OPTION_DURATION,
     .offset = AT(elastic.idle_run_ttl_ms),
     .most = UINT64_MAX,
     .may_be_off = true,
     .group = elastic,
     .value_name = "DURATION",
     .help = "forget an open run after this time without an agent"},
    {.name = "silent-node-timeout",
     .kind = OPTION_DURATION,
     .offset = AT(elastic.silent_node_ms),
     .least = 6000,
     .least_why = "torch's agents send a heartbeat each 5s, and 1.13 sends nothing else",
     .most = UINT64_MAX,
     .may_be_off = true,
     .group = elastic,
     .value_name = "DURATION",
     .help = "a node is dead when its agent is silent for this time"},
    {.name = "restart-on-loss",
     .kind = OPTION_CHOICE,
     .offset = AT(elastic.restart_on_loss),
     .choices = restart_names,
     .group = elastic,
     .value_name = "off|closed|silent",
     .help = "when a node is lost, make the others meet again"},
    {.name = "regroup-wait",
     .kind = OPTION_DURATION,
     .offset = AT(elastic.regroup_wait_ms),
     .least = 2000,
     .most = UINT64_MAX,
     .may_be_off = true,
     .group = elastic,
     .value_name = "DURATION",
     .help = "after the first round, wait no longer for missing nodes"},
    {.name = "expect",
     .kind = OPTION_COUNT,
     .offset = AT(elastic.expected_nodes),
     .most = UINT32_MAX,
     .may_be_off = true,
     .group = elastic,
     .value_name = "COUNT",
     .help = "nodes of a job: the first round waits for no more"},
    {.name = "end-failed-runs",
     .kind = OPTION_SWITCH,
     .offset = AT(elastic.end_failed_runs),
     .choices = switch_names,
     .group = elastic,
     .value_name = "on|off",
     .help = "if a node fails for good, all nodes of its run end"},
    {.name = "close-needs-all",
     .kind = OPTION_SWITCH,
     .offset = AT(elastic.close_needs_all),
     .choices = switch_names,
     .group = elastic,
     .value_name = "on|off",
     .help = "a run closes only when all its agents ask (torch 2.3-2.7)"},
    {.name = "disable", .kind = OPTION_NAMES, .offset = AT(disabled), .group = elastic},

    {.name = "value-limit",
     .kind = OPTION_SIZE,
     .offset = AT(limits.value_max),
     .least = 1,
     .most = UINT64_MAX,
     .group = limits,
     .value_name = "SIZE",
     .help = "a c10d value"},
    {.name = "output-limit",
     .kind = OPTION_SIZE,
     .offset = AT(limits.output_max),
     .least = 1024,
     .most = UINT64_MAX,
     .group = limits,
     .value_name = "SIZE",
     .help = "unread replies of one client; above, it is dropped"},
    {.name = "connection-limit",
     .kind = OPTION_COUNT,
     .offset = AT(limits.connections_max),
     .most = UINT32_MAX,
     .may_be_off = true,
     .group = limits,
     .value_name = "COUNT",
     .help = "connections at a time"},
    {.name = "memory-limit",
     .kind = OPTION_SIZE,
     .offset = AT(limits.memory_max),
     .most = UINT64_MAX,
     .may_be_off = true,
     .may_be_auto = true,
     .group = limits,
     .value_name = "SIZE",
     .help = "all of rdzvd; auto is 80% of what there is"},
    {.name = "space-limit",
     .kind = OPTION_SIZE,
     .offset = AT(limits.space_bytes_max),
     .most = UINT64_MAX,
     .may_be_off = true,
     .group = limits,
     .value_name = "SIZE",
     .help = "all that one space keeps"},
    {.name = "request-timeout",
     .kind = OPTION_DURATION,
     .offset = AT(limits.request_timeout_ms),
     .most = UINT64_MAX,
     .may_be_off = true,
     .group = limits,
     .value_name = "DURATION",
     .help = "for a whole request to arrive; idle clients stay"},

    {.name = "log-format",
     .kind = OPTION_CHOICE,
     .offset = AT(log_format),
     .choices = log_format_names,
     .group = logging,
     .value_name = "logfmt|json",
     .help = "one line per event on stderr, in this format"},
    {.name = "log-level",
     .kind = OPTION_CHOICE,
     .offset = AT(log_level),
     .choices = log_level_names,
     .group = logging,
     .value_name = "debug|info|warn|error",
     .help = "the lowest level that is logged"},

    {.name = "name",
     .kind = OPTION_TEXT,
     .offset = AT(name),
     .group = as_etcd,
     .value_name = "NAME",
     .help = "this member's name in /v2/members"},
    {.name = "advertise-client-urls",
     .kind = OPTION_URLS,
     .offset = AT(advertise_client_urls),
     .group = as_etcd,
     .value_name = "URLS",
     .help = "what /v2/members and /v2/machines say"},
    {.name = "config",
     .kind = OPTION_FILE,
     .group = files,
     .value_name = "FILE",
     .help = "read settings from YAML; the names are those of the flags"},
    {.name = "check-config",
     .kind = OPTION_ACTION,
     .least = CONFIG_CHECK,
     .group = files,
     .help = "check the settings, print them as YAML and exit"},
    {.name = "check-data",
     .kind = OPTION_TEXT,
     .offset = AT(check_data),
     .group = files,
     .value_name = "DIR",
     .help = "read a data directory, say what is in it and exit"},
    {.name = "check-health",
     .kind = OPTION_TEXT,
     .offset = AT(check_health),
     .group = files,
     .value_name = "HOST:PORT/PATH",
     .help = "ask the rdzvd there for /livez or /readyz, and exit"},
    {.name = "help",
     .kind = OPTION_ACTION,
     .least = CONFIG_HELP,
     .group = files,
     .help = "print this and exit"},
    {.name = "version",
     .kind = OPTION_ACTION,
     .least = CONFIG_VERSION,
     .group = files,
     .help = "print the version and exit"},
};

const size_t config_option_count = sizeof config_options / sizeof config_options[0];

bool config_is_utf8(const char *text)
{
    struct slice rest = slice_str(text);

    while (rest.len > 0) {
        uint32_t point;
        size_t len = utf8_decode(rest, &point);

        if (len == 0)
            return false;
        rest = slice_from(rest, len);
    }
    return true;
}

static bool is_off(const char *text)
{
    return strcmp(text, "off") == 0 || strcmp(text, "none") == 0;
}

static const char *write_amount(const struct option *o, uint64_t value, char *text)
{
    if (o->kind == OPTION_DURATION)
        return units_format_duration(value, text);
    if (o->kind == OPTION_SIZE)
        return units_format_size(value, text);
    snprintf(text, UNITS_TEXT_MAX, "%" PRIu64, value);
    return text;
}

/* Most durations and sizes may be as large as one likes. */
static bool fail_range(struct draft *d, const struct setting *s)
{
    const struct option *o = s->option;
    const char *colon = o->least_why == NULL ? "" : ": ";
    const char *why = o->least_why == NULL ? "" : o->least_why;
    char least[UNITS_TEXT_MAX], most[UNITS_TEXT_MAX];

    write_amount(o, o->least, least);
    if (o->most == UINT64_MAX)
        return config_fail(d, s, "%s: must be %s at least%s%s", config_show(s->value).text, least,
                           colon, why);
    return config_fail(d, s, "%s: must be from %s to %s%s%s", config_show(s->value).text, least,
                       write_amount(o, o->most, most), colon, why);
}

/* The three numeric kinds, checked against the option's range. */
static bool parse_amount(struct draft *d, const struct setting *s, uint64_t *out)
{
    const struct option *o = s->option;
    bool duration = o->kind == OPTION_DURATION;
    uint64_t value = 0;

    if (o->may_be_off && is_off(s->value)) {
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
            return config_fail(d, s, "%s: not a whole number%s", config_show(s->value).text,
                               o->may_be_off ? "; write one, or off" : "; write one");
        if (!slice_to_u64(slice_str(s->value), UINT64_MAX, &value))
            value = UINT64_MAX;
    } else {
        enum units_result result = duration ? units_parse_duration(s->value, &value, NULL)
                                            : units_parse_size(s->value, &value, NULL);

        if (result != UNITS_OK)
            return config_fail(d, s, "%s: %s", config_show(s->value).text,
                               duration ? units_duration_hint(result) : units_size_hint(result));
    }
    if (value < o->least || value > o->most)
        return fail_range(d, s);
    *out = value;
    return true;
}

/* The place of the value among the choices, as an enum has it. */
static bool parse_choice(struct draft *d, const struct setting *s, unsigned *out)
{
    const struct option *o = s->option;
    bool flag;

    for (unsigned i = 0; o->choices[i] != NULL; i++) {
        if (strcmp(s->value, o->choices[i]) == 0) {
            *out = i;
            return true;
        }
    }
    if (o->kind == OPTION_SWITCH && etcd_flag_parse_bool(s->value, &flag)) {
        *out = flag;
        return true;
    }
    /* etcd's levels above error end the process there; here nothing does. */
    if (o->choices == log_level_names &&
        (strcmp(s->value, "panic") == 0 || strcmp(s->value, "fatal") == 0)) {
        *out = LOG_ERROR;
        return true;
    }
    return config_fail(d, s, "%s: must be one of %s", config_show(s->value).text, o->value_name);
}

bool config_read_urls(struct draft *d, const struct setting *s, struct string_list *list)
{
    struct string_list urls = {0};

    if (s->value[0] == '\0')
        return true; /* etcd keeps its default then */
    string_list_split(&urls, s->value);
    for (size_t i = 0; i < urls.count; i++) {
        const char *problem = etcd_url_check(urls.items[i], NULL);

        if (problem != NULL) {
            config_fail(d, s, "%s: %s", config_show(urls.items[i]).text, problem);
            string_list_free(&urls);
            return false;
        }
    }
    string_list_sort(&urls);
    string_list_free(list);
    *list = urls;
    return true;
}

static bool apply_origins(struct draft *d, const struct setting *s, struct string_list *list)
{
    if (strcmp(s->value, "*") != 0)
        return s->value[0] == '\0' ? config_fail(d, s, "is empty; write * for any origin, or URLs")
                                   : config_read_urls(d, s, list);
    string_list_free(list);
    string_list_add(list, "*", 1);
    return true;
}

static void apply_names(const struct setting *s, struct string_list *list)
{
    string_list_free(list);
    string_list_split(list, s->value);
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i], "*") == 0 || s->value[0] == '\0') {
            string_list_free(list);
            string_list_add(list, "*", 1);
            return;
        }
    }
}

static bool apply_text(struct draft *d, const struct setting *s, char **field)
{
    const struct option *o = s->option;
    const char *problem = o->check == NULL ? NULL : o->check(&d->config, s->value);

    if (problem != NULL)
        return config_fail(d, s, "%s: %s", config_show(s->value).text, problem);
    if (s->value[0] == '\0' && o->left_out != NULL)
        return config_fail(d, s, "is empty; write %s, or leave the setting out: then %s",
                           o->value_name, o->left_out);
    free(*field);
    *field = config_copy_text(s->value, strlen(s->value));
    return true;
}

bool config_apply_option(struct draft *d, const struct setting *s)
{
    void *field = (char *)&d->config + s->option->offset;
    uint64_t amount;
    unsigned choice;
    bool flag;

    switch (s->option->kind) {
    case OPTION_LISTEN:
        return config_apply_listen(d, s);
    case OPTION_DURATION:
    case OPTION_SIZE:
        if (!parse_amount(d, s, &amount))
            return false;
        memcpy(field, &amount, sizeof amount);
        return true;
    case OPTION_COUNT:
        if (!parse_amount(d, s, &amount))
            return false;
        memcpy(field, &(uint32_t){(uint32_t)amount}, sizeof(uint32_t));
        return true;
    case OPTION_SWITCH:
        if (!parse_choice(d, s, &choice))
            return false;
        *(bool *)field = choice != 0;
        return true;
    case OPTION_CHOICE:
        if (!parse_choice(d, s, &choice))
            return false;
        memcpy(field, &choice, sizeof choice); /* our enums are unsigned ints to both compilers */
        if (s->option->choices == log_format_names)
            d->log_format_given = true;
        return true;
    case OPTION_TEXT:
        return apply_text(d, s, field);
    case OPTION_URLS:
        d->advertise_from = s;
        return config_read_urls(d, s, field);
    case OPTION_ORIGINS:
        return apply_origins(d, s, field);
    case OPTION_NAMES:
        apply_names(s, field);
        return true;
    case OPTION_FILE:
        return true; /* config_collect() has read it */
    case OPTION_ACTION:
        if (s->value != NULL && !etcd_flag_parse_bool(s->value, &flag))
            return config_fail(d, s, "%s: takes no value", config_show(s->value).text);
        if (s->value == NULL || flag)
            d->config.action = (enum config_action)s->option->least;
        return true;
    }
    return true;
}
