/* etcd's flags: what each becomes here, how Go reads their values, and the checks that etcd makes
 * across them before it starts. */
#include "rdzv/config/etcd_flags.h"

#include "rdzv/config/config_internal.h"
#include "store/xalloc.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

static const char no_raft[] = "there is no raft log here: one process holds the state";
static const char no_peers[] = "there are no peers: this is a cluster of one";
static const char no_grpc[] = "there is no v3 (gRPC) API here";
static const char no_tls[] = "there is no TLS here yet; terminate it in front";
static const char no_discovery[] = "there is nothing to discover: this is a cluster of one";
static const char no_proxy[] = "there is no proxy here";
static const char no_disk[] = "nothing is written to disk in this way here";
static const char no_auth[] = "there is no v3 authentication here";
static const char own_log[] = "one line per event goes to stderr; see --log-format, --log-level";
static const char long_ago[] = "etcd itself has ignored it for years";
static const char experiment[] = "an experiment of etcd's v3 side";

#define STRING   ETCD_TYPE_STRING
#define BOOL     ETCD_TYPE_BOOL
#define INT      ETCD_TYPE_INT
#define UINT     ETCD_TYPE_UINT
#define DURATION ETCD_TYPE_DURATION
#define URLS     ETCD_TYPE_URLS
#define LIST     ETCD_TYPE_LIST

static const struct etcd_flag flags[] = {
    /* Honoured; those that config.c knows under the same name are applied there. */
    {"name", STRING, NULL, NULL},
    {"data-dir", STRING, NULL, NULL},
    {"listen-client-urls", URLS, NULL, NULL},
    {"advertise-client-urls", URLS, NULL, NULL},
    {"listen-metrics-urls", URLS, NULL, NULL},
    {"initial-advertise-peer-urls", URLS, NULL, NULL},
    {"initial-cluster", STRING, NULL, NULL},
    {"initial-cluster-token", STRING, NULL, NULL},
    {"initial-cluster-state", STRING, NULL, "new|existing"},
    {"enable-v2", BOOL, NULL, NULL},
    {"cors", LIST, NULL, NULL},
    {"host-whitelist", LIST, NULL, NULL},
    {"config-file", STRING, NULL, NULL},
    {"log-level", STRING, NULL, NULL},
    {"logger", STRING, NULL, "capnslog|zap"},
    {"log-outputs", LIST, NULL, NULL},
    {"debug", BOOL, NULL, NULL},
    {"version", BOOL, NULL, NULL},

    {"wal-dir", STRING, no_raft, NULL},
    {"snapshot-count", UINT, no_raft, NULL},
    {"heartbeat-interval", UINT, no_raft, NULL},
    {"election-timeout", UINT, no_raft, NULL},
    {"initial-election-tick-advance", BOOL, no_raft, NULL},
    {"max-snapshots", UINT, no_raft, NULL},
    {"max-wals", UINT, no_raft, NULL},
    {"strict-reconfig-check", BOOL, no_raft, NULL},
    {"pre-vote", BOOL, no_raft, NULL},
    {"force-new-cluster", BOOL, no_raft, NULL},
    {"unsafe-no-fsync", BOOL, no_disk, NULL},
    {"quota-backend-bytes", INT, no_grpc, NULL},
    {"backend-batch-interval", DURATION, no_grpc, NULL},
    {"backend-batch-limit", INT, no_grpc, NULL},
    {"max-txn-ops", UINT, no_grpc, NULL},
    {"max-request-bytes", UINT, "etcd does not apply it to its v2 API either", NULL},
    {"max-concurrent-streams", UINT, no_grpc, NULL},
    {"grpc-keepalive-min-time", DURATION, no_grpc, NULL},
    {"grpc-keepalive-interval", DURATION, no_grpc, NULL},
    {"grpc-keepalive-timeout", DURATION, no_grpc, NULL},
    {"enable-grpc-gateway", BOOL, no_grpc, NULL},
    {"auto-compaction-retention", STRING, no_grpc, NULL},
    {"auto-compaction-mode", STRING, no_grpc, NULL},

    {"listen-peer-urls", URLS, no_peers, NULL},
    {"peer-cert-file", STRING, no_peers, NULL},
    {"peer-key-file", STRING, no_peers, NULL},
    {"peer-client-cert-auth", BOOL, no_peers, NULL},
    {"peer-trusted-ca-file", STRING, no_peers, NULL},
    {"peer-cert-allowed-cn", STRING, no_peers, NULL},
    {"peer-cert-allowed-hostname", STRING, no_peers, NULL},
    {"peer-auto-tls", BOOL, no_peers, NULL},
    {"peer-crl-file", STRING, no_peers, NULL},
    {"discovery", STRING, no_discovery, NULL},
    {"discovery-fallback", STRING, no_discovery, "exit|proxy"},
    {"discovery-proxy", STRING, no_discovery, NULL},
    {"discovery-srv", STRING, no_discovery, NULL},
    {"discovery-srv-name", STRING, no_discovery, NULL},

    {"cert-file", STRING, no_tls, NULL},
    {"key-file", STRING, no_tls, NULL},
    {"client-cert-auth", BOOL, no_tls, NULL},
    {"trusted-ca-file", STRING, no_tls, NULL},
    {"client-crl-file", STRING, no_tls, NULL},
    {"client-cert-allowed-hostname", STRING, no_tls, NULL},
    {"auto-tls", BOOL, no_tls, NULL},
    {"cipher-suites", LIST, no_tls, NULL},

    {"auth-token", STRING, no_auth, NULL},
    {"auth-token-ttl", UINT, no_auth, NULL},
    {"bcrypt-cost", UINT, no_auth, NULL},
    {"enable-pprof", BOOL, "there is no Go runtime to profile", NULL},
    {"metrics", STRING, "there is one level of detail", NULL},
    {"log-output", LIST, own_log, NULL},
    {"log-package-levels", STRING, own_log, NULL},

    {"proxy", STRING, no_proxy, "off|readonly|on"},
    {"proxy-failure-wait", UINT, no_proxy, NULL},
    {"proxy-refresh-interval", UINT, no_proxy, NULL},
    {"proxy-dial-timeout", UINT, no_proxy, NULL},
    {"proxy-write-timeout", UINT, no_proxy, NULL},
    {"proxy-read-timeout", UINT, no_proxy, NULL},

    {"experimental-initial-corrupt-check", BOOL, experiment, NULL},
    {"experimental-corrupt-check-time", DURATION, experiment, NULL},
    {"experimental-enable-v2v3", STRING, experiment, NULL},
    {"experimental-backend-bbolt-freelist-type", STRING, experiment, NULL},
    {"experimental-enable-lease-checkpoint", BOOL, experiment, NULL},
    {"experimental-compaction-batch-limit", INT, experiment, NULL},
    {"experimental-peer-skip-client-san-verification", BOOL, experiment, NULL},
    {"experimental-watch-progress-notify-interval", DURATION, experiment, NULL},
    {"experimental-warning-apply-duration", DURATION, experiment, NULL},

    /* Of etcd 0.4 and before. Booleans to Go, so none takes the next word; any =value will do. */
    {"snapshot", BOOL, long_ago, NULL},
    {"v", BOOL, long_ago, NULL},
    {"vv", BOOL, long_ago, NULL},
    {"force", BOOL, long_ago, NULL},
    {"max-result-buffer", BOOL, long_ago, NULL},
    {"max-retry-attempts", BOOL, long_ago, NULL},
    {"retry-interval", BOOL, long_ago, NULL},
    {"cluster-active-size", BOOL, long_ago, NULL},
    {"cluster-remove-delay", BOOL, long_ago, NULL},
    {"cluster-sync-interval", BOOL, long_ago, NULL},
    {"peer-heartbeat-interval", BOOL, long_ago, NULL},
    {"peer-election-timeout", BOOL, long_ago, NULL},
};

#define FLAG_COUNT (sizeof flags / sizeof flags[0])

const struct etcd_flag *etcd_flag_find(const char *name, size_t len)
{
    for (size_t i = 0; i < FLAG_COUNT; i++) {
        if (strlen(flags[i].name) == len && memcmp(flags[i].name, name, len) == 0)
            return &flags[i];
    }
    return NULL;
}

const struct etcd_flag *etcd_flag_at(size_t index)
{
    return index < FLAG_COUNT ? &flags[index] : NULL;
}

/* ParseInt with base 0: 0x, 0o, 0b or 0 in front, `_` between digits, up to 64 bits. */
static bool is_go_integer(const char *text, bool is_signed)
{
    static const char digits[] = "0123456789abcdef";
    unsigned base = 10;
    uint64_t value = 0, most = is_signed ? INT64_MAX : UINT64_MAX;
    bool any = false;

    if (is_signed && (*text == '-' || *text == '+'))
        text++;
    if (text[0] == '0' && text[1] != '\0') {
        char c = (char)(text[1] | 0x20);

        base = c == 'x' ? 16 : c == 'b' ? 2 : 8;
        text += c == 'x' || c == 'b' || c == 'o' ? 2 : 1;
    }
    for (; *text != '\0'; text++) {
        const char *at = *text == '_' ? NULL : strchr(digits, *text >= 'A' ? *text | 0x20 : *text);

        if (*text == '_' && any)
            continue;
        if (at == NULL || at - digits >= (ptrdiff_t)base)
            return false;
        if (value > (most - (uint64_t)(at - digits)) / base)
            return false;
        value = value * base + (uint64_t)(at - digits);
        any = true;
    }
    return any;
}

/* ParseDuration: signed, decimal fractions, units down to ns; a bare 0 is the only bare number. */
static bool is_go_duration(const char *text)
{
    static const char *const units[] = {"ns", "us", "µs", "μs", "ms", "s", "m", "h"};

    if (*text == '-' || *text == '+')
        text++;
    if (strcmp(text, "0") == 0)
        return true;
    do {
        size_t whole = strspn(text, "0123456789"), part = 0, unit = 0;

        text += whole;
        if (*text == '.') {
            part = strspn(++text, "0123456789");
            text += part;
        }
        if (whole + part == 0)
            return false;
        /* The longest that fits, since m begins ms. */
        for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
            size_t len = strlen(units[i]);

            if (len > unit && strncmp(text, units[i], len) == 0)
                unit = len;
        }
        if (unit == 0)
            return false;
        text += unit;
    } while (*text != '\0');
    return true;
}

bool etcd_flag_parse_bool(const char *text, bool *out)
{
    static const char *const words[] = {"0", "f", "F", "FALSE", "false", "False",
                                        "1", "t", "T", "TRUE",  "true",  "True"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(text, words[i]) == 0) {
            *out = i >= 6;
            return true;
        }
    }
    return false;
}

bool etcd_flag_value_ok(enum etcd_flag_type type, const char *text)
{
    bool value;

    switch (type) {
    case ETCD_TYPE_BOOL:
        return etcd_flag_parse_bool(text, &value);
    case ETCD_TYPE_INT:
        return is_go_integer(text, true);
    case ETCD_TYPE_UINT:
        return is_go_integer(text, false);
    case ETCD_TYPE_DURATION:
        return is_go_duration(text);
    case ETCD_TYPE_STRING:
    case ETCD_TYPE_URLS:
    case ETCD_TYPE_LIST:
        break;
    }
    return true;
}

static bool scheme_is(const struct url_parts *url, const char *scheme)
{
    return url->scheme_len == strlen(scheme) &&
           strncasecmp(url->scheme, scheme, url->scheme_len) == 0;
}

/* HOST:PORT up to `end`. */
static bool split_address(const char *text, const char *end, struct url_parts *out)
{
    const char *colon = memrchr(text, ':', (size_t)(end - text));
    unsigned port = 0;

    if (colon == NULL || colon + 1 == end || end - colon > 6)
        return false;
    for (const char *c = colon + 1; c < end; c++) {
        if (*c < '0' || *c > '9')
            return false;
        port = port * 10 + (unsigned)(*c - '0');
    }
    if (port > UINT16_MAX)
        return false;
    out->port = (uint16_t)port;
    out->host = text;
    out->host_len = (size_t)(colon - text);
    if (*text == '[') {
        if (colon == text || colon[-1] != ']')
            return false;
        out->host++;
        out->host_len -= 2;
        return true;
    }
    return memchr(text, ':', out->host_len) == NULL; /* IPv6 without brackets */
}

const char *etcd_url_check(const char *url, struct url_parts *out)
{
    struct url_parts parts = {.scheme = url};
    const char *rest = strstr(url, "://"), *end, *user;

    parts.scheme_len = rest == NULL ? 0 : (size_t)(rest - url);
    if (!scheme_is(&parts, "http") && !scheme_is(&parts, "https") && !scheme_is(&parts, "unix") &&
        !scheme_is(&parts, "unixs"))
        return "URL scheme must be http, https, unix, or unixs; write http://HOST:PORT";
    for (const char *c = rest; *c != '\0'; c++) {
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            return "URL must not contain blanks or control characters; write http://HOST:PORT";
    }
    rest += 3;
    end = rest + strcspn(rest, "/?#");
    user = memrchr(rest, '@', (size_t)(end - rest));
    if (user != NULL)
        rest = user + 1;
    if (!scheme_is(&parts, "unix") && !scheme_is(&parts, "unixs")) {
        if (!split_address(rest, end, &parts))
            return "URL address does not have the form \"host:port\"; write http://HOST:PORT";
        if (*end == '/')
            return "URL must not contain a path; end it behind the port";
        if (*end != '\0')
            return "URL must not contain a query or fragment; end it behind the port";
    }
    if (out != NULL)
        *out = parts;
    return NULL;
}

static bool check_value(struct draft *d, const struct setting *s)
{
    static const char *const expected[] = {[ETCD_TYPE_BOOL] = "true or false",
                                           [ETCD_TYPE_INT] = "a whole number",
                                           [ETCD_TYPE_UINT] = "a whole number, not negative",
                                           [ETCD_TYPE_DURATION] =
                                               "a duration with units, such as 5s or 100ms"};
    const struct etcd_flag *flag = s->etcd;
    const char *choices = flag->choices;
    size_t len;

    if (!etcd_flag_value_ok(flag->type, s->value))
        return config_fail(d, s, "invalid value %s; write %s", config_show(s->value).text,
                           expected[flag->type]);
    if (choices == NULL)
        return true;
    for (; *choices != '\0'; choices += len + (choices[len] == '|')) {
        len = strcspn(choices, "|");
        if (strlen(s->value) == len && memcmp(choices, s->value, len) == 0)
            return true;
    }
    /* All of these are checked by Go's flag package, but for the one that etcd checks later. */
    return (strcmp(flag->name, "logger") == 0 ? config_fail_check : config_fail)(
        d, s, "invalid value %s; must be one of %s", config_show(s->value).text, flag->choices);
}

static void note_ignored(struct draft *d, const struct setting *s)
{
    char label[CONFIG_LABEL_MAX];
    /* Of what is ignored, these two would have made a different server of this one. */
    bool matters = (strcmp(s->name, "proxy") == 0 && strcmp(s->value, "off") != 0) ||
                   strcmp(s->name, "discovery") == 0 || strcmp(s->name, "discovery-srv") == 0;

    config_note(&d->config, matters ? CONFIG_NOTE_WARNING : CONFIG_NOTE_IGNORED,
                config_label(s, label), "%s", s->etcd->ignored);
}

static void replace_text(char **field, const char *text)
{
    free(*field);
    *field = strdup(text);
    if (*field == NULL)
        abort();
}

static void apply_log_outputs(struct draft *d, const struct setting *s)
{
    struct string_list outputs = {0};
    char label[CONFIG_LABEL_MAX];

    string_list_split(&outputs, s->value);
    for (size_t i = 0; i < outputs.count; i++) {
        if (strcmp(outputs.items[i], "default") != 0 && strcmp(outputs.items[i], "stderr") != 0)
            config_note(&d->config, CONFIG_NOTE_IGNORED, config_label(s, label), "%s: %s",
                        config_show(outputs.items[i]).text, own_log);
    }
    string_list_free(&outputs);
}

/* A flag that is honoured and that config.c does not know. */
static bool apply_honoured(struct draft *d, const struct setting *s)
{
    struct config *c = &d->config;
    bool flag = s->etcd->type == ETCD_TYPE_BOOL;

    if (flag)
        etcd_flag_parse_bool(s->value, &flag);
    if (strcmp(s->name, "listen-client-urls") == 0) {
        d->client_urls_from = s;
        return config_read_urls(d, s, &d->client_urls);
    }
    if (strcmp(s->name, "listen-metrics-urls") == 0) {
        d->metrics_urls_from = s;
        return config_read_urls(d, s, &d->metrics_urls);
    }
    if (strcmp(s->name, "initial-advertise-peer-urls") == 0) {
        d->peers_from = s;
        return config_read_urls(d, s, &c->advertise_peer_urls);
    }
    if (strcmp(s->name, "initial-cluster") == 0) {
        d->cluster_from = s;
        replace_text(&c->initial_cluster, s->value);
    } else if (strcmp(s->name, "initial-cluster-token") == 0) {
        replace_text(&c->initial_cluster_token, s->value);
    } else if (strcmp(s->name, "enable-v2") == 0) {
        d->v2_from = s;
        d->v2 = flag;
    } else if (strcmp(s->name, "debug") == 0 && flag) {
        c->log_level = LOG_DEBUG;
    } else if (strcmp(s->name, "logger") == 0 && !d->log_format_given) {
        c->log_format = strcmp(s->value, "zap") == 0 ? LOG_FORMAT_JSON : LOG_FORMAT_LOGFMT;
    } else if (strcmp(s->name, "log-outputs") == 0) {
        apply_log_outputs(d, s);
    } else if (strcmp(s->name, "initial-cluster-state") == 0 && strcmp(s->value, "existing") == 0) {
        char label[CONFIG_LABEL_MAX];

        config_note(c, CONFIG_NOTE_WARNING, config_label(s, label), "%s", no_peers);
    }
    return true;
}

bool etcd_flag_apply(struct draft *d, const struct setting *setting)
{
    struct setting s = *setting;

    if (s.value == NULL)
        s.value = "true";
    if (s.etcd->ignored == long_ago) {
        note_ignored(d, &s);
        return true;
    }
    if (!check_value(d, &s))
        return false;
    if (s.etcd->ignored == NULL)
        return apply_honoured(d, setting->value == NULL ? &s : setting);
    if (s.etcd->type == ETCD_TYPE_URLS) {
        struct string_list urls = {0};
        bool ok = config_read_urls(d, &s, &urls);

        string_list_free(&urls);
        if (!ok)
            return false;
    }
    note_ignored(d, &s);
    return true;
}

static bool is_literal(const char *host)
{
    return config_is_address(AF_INET, host, strlen(host)) ||
           config_is_address(AF_INET6, host, strlen(host));
}

/* One listener for a URL that etcd would bind. Two URLs of one address are one listener to etcd. */
static bool add_url_listener(struct draft *d, const struct setting *from, const char *url,
                             bool metrics)
{
    struct config *c = &d->config;
    struct url_parts parts = {0};
    struct listen_spec *spec;
    char host[64];

    (void)etcd_url_check(url, &parts); /* it was fine when it was read */
    if (scheme_is(&parts, "unix") || scheme_is(&parts, "unixs"))
        return config_fail_check(d, from,
                                 "%s: Unix sockets are not served here; listen on "
                                 "http://127.0.0.1:PORT",
                                 config_show(url).text);
    if (scheme_is(&parts, "https"))
        return config_fail_check(d, from,
                                 "%s: TLS is not available yet; listen on http:// and "
                                 "terminate TLS in front of it",
                                 config_show(url).text);
    snprintf(host, sizeof host, "%.*s", (int)(parts.host_len < 63 ? parts.host_len : 63),
             parts.host);
    if (strcmp(host, "localhost") == 0)
        strcpy(host, "127.0.0.1");
    if (!is_literal(host))
        return config_fail_check(d, from,
                                 "expected IP in URL for binding (%s); write an address "
                                 "of this machine, localhost, or 0.0.0.0 for all",
                                 url);
    if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0)
        host[0] = '\0';
    for (size_t i = 0; i < c->listener_count; i++) {
        if (c->listeners[i].port != 0 && c->listeners[i].port == parts.port &&
            strcmp(c->listeners[i].host, host) == 0) {
            /* Where clients are served, /metrics is served too. */
            c->listeners[i].metrics_only = c->listeners[i].metrics_only && metrics;
            return true;
        }
    }
    spec = config_add_listener(c, host, strlen(host), parts.port, CONFIG_DEFAULT_SPACE);
    spec->metrics_only = metrics;
    return true;
}

static bool add_url_listeners(struct draft *d)
{
    for (size_t i = 0; i < d->client_urls.count; i++) {
        if (!add_url_listener(d, d->client_urls_from, d->client_urls.items[i], false))
            return false;
    }
    for (size_t i = 0; i < d->metrics_urls.count; i++) {
        if (!add_url_listener(d, d->metrics_urls_from, d->metrics_urls.items[i], true))
            return false;
    }
    return true;
}

/* What etcd makes of no --initial-cluster: NAME=PEER-URL,... for the advertised peer URLs, except
 * that under the default name it stays at the default URL. */
static char *default_cluster(const struct config *c)
{
    size_t len = 1;
    char *text;

    if (strcmp(c->name, "default") == 0) {
        text = strdup("default=http://localhost:2380");
        if (text == NULL)
            abort();
        return text;
    }
    for (size_t i = 0; i < c->advertise_peer_urls.count; i++)
        len += strlen(c->name) + strlen(c->advertise_peer_urls.items[i]) + 2;
    text = xcalloc(len, 1);
    for (size_t i = 0, at = 0; i < c->advertise_peer_urls.count; i++)
        at += (size_t)sprintf(text + at, "%s%s=%s", i > 0 ? "," : "", c->name,
                              c->advertise_peer_urls.items[i]);
    return text;
}

/* Whether two peer URLs certainly name different places. Host names are not resolved: etcd would,
 * but what it finds is of no use to us. */
static bool certainly_differ(const char *a, const char *b)
{
    struct url_parts one = {0}, two = {0};
    char host[64];
    bool literal = true;

    (void)etcd_url_check(a, &one);
    (void)etcd_url_check(b, &two);
    if (one.scheme_len != two.scheme_len || one.port != two.port)
        return true;
    if (one.host_len == two.host_len && strncasecmp(one.host, two.host, one.host_len) == 0)
        return false;
    for (int i = 0; i < 2; i++) {
        const struct url_parts *url = i == 0 ? &one : &two;

        snprintf(host, sizeof host, "%.*s", (int)(url->host_len < 63 ? url->host_len : 63),
                 url->host);
        /* etcd leaves localhost unresolved, so it equals no address. */
        if (strcmp(host, "localhost") != 0 && !is_literal(host))
            literal = false;
    }
    return literal;
}

/* --initial-cluster names this member once, nobody else, and agrees with what it advertises. */
static bool check_cluster(struct draft *d)
{
    struct config *c = &d->config;
    const struct setting *from = d->cluster_from != NULL ? d->cluster_from : d->peers_from;
    struct string_list entries = {0}, own = {0};
    const char *other = NULL;
    bool ok = true;

    string_list_split(&entries, c->initial_cluster);
    for (size_t i = 0; ok && i < entries.count; i++) {
        char *equals = strchr(entries.items[i], '=');
        const char *url = equals == NULL ? "" : equals + 1;
        const char *problem = entries.items[i][0] == '\0' ? NULL : etcd_url_check(url, NULL);

        if (entries.items[i][0] == '\0')
            continue;
        if (problem != NULL) {
            ok = config_fail_check(d, from, "%s: %s, as in NAME=http://HOST:2380",
                                   config_show(entries.items[i]).text, problem);
            break;
        }
        *equals = '\0';
        if (strcmp(entries.items[i], c->name) == 0)
            string_list_add(&own, url, strlen(url));
        else
            other = entries.items[i];
    }
    if (ok && own.count == 0)
        ok = config_fail_check(d, from,
                               "couldn't find local name %s in the initial cluster "
                               "configuration; write --initial-cluster %s=%s, or give another "
                               "--name",
                               config_show(c->name).text, c->name, c->advertise_peer_urls.items[0]);
    if (ok && other != NULL)
        ok = config_fail_check(d, from,
                               "names %s beside %s, but this is a cluster of one; run one, "
                               "and point all clients at it",
                               config_show(other).text, config_show(c->name).text);
    string_list_sort(&own);
    for (size_t i = 0; ok && i < own.count; i++) {
        if (own.count != c->advertise_peer_urls.count ||
            certainly_differ(own.items[i], c->advertise_peer_urls.items[i]))
            ok = config_fail_check(
                d, from,
                "--initial-cluster has %s=%s but missing from "
                "--initial-advertise-peer-urls=%s; make the two agree, or leave both out",
                c->name, own.items[i], c->advertise_peer_urls.items[0]);
    }
    string_list_free(&entries);
    string_list_free(&own);
    return ok;
}

bool etcd_flags_finish(struct draft *d)
{
    struct config *c = &d->config;

    if (!add_url_listeners(d))
        return false;
    if (d->client_urls_from != NULL && d->advertise_from == NULL && !d->client_urls_from->etcd_file)
        return config_fail_check(d, d->client_urls_from,
                                 "--advertise-client-urls is required when "
                                 "--listen-client-urls is set explicitly; name the URLs by which "
                                 "clients reach this process");
    if (c->initial_cluster == NULL)
        c->initial_cluster = default_cluster(c);
    if (c->etcd_mode && !check_cluster(d))
        return false;
    if (c->etcd_mode && !d->v2)
        config_note(c, CONFIG_NOTE_WARNING, "--enable-v2",
                    "%s, but the v2 API is served all the same: it is what this daemon is for",
                    d->v2_from == NULL ? "is not given" : "is false");
    return true;
}
