/* The table of etcd's flags, and how Go reads their values. See etcd_flags.h for the contract. */
#include "rdzv/config/etcd_flags.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

static const char no_raft[] = "there is no raft log here: one process holds the state";
static const char no_peers[] = ETCD_HAS_NO_PEERS;
static const char no_grpc[] = "there is no v3 (gRPC) API here";
static const char no_discovery[] = "there is nothing to discover: this is a cluster of one";
static const char no_proxy[] = "there is no proxy here";
static const char no_disk[] = "nothing is written to disk in this way here";
static const char no_auth[] = "there is no v3 authentication here";
static const char own_log[] = ETCD_OWN_LOG;
static const char long_ago[] = "etcd itself has ignored it for years";
static const char experiment[] = "an experiment of etcd's v3 side";

#define STRING   ETCD_TYPE_STRING
#define BOOL     ETCD_TYPE_BOOL
#define INT      ETCD_TYPE_INT
#define UINT     ETCD_TYPE_UINT
#define DURATION ETCD_TYPE_DURATION
#define URLS     ETCD_TYPE_URLS
#define LIST     ETCD_TYPE_LIST
#define ANCIENT  ETCD_TYPE_ANCIENT

static const struct etcd_flag flags[] = {
    /* Honoured; those that config_options.c knows under the same name are applied there. */
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

    {"cert-file", STRING, NULL, NULL},
    {"key-file", STRING, NULL, NULL},
    {"client-cert-auth", BOOL, NULL, NULL},
    {"trusted-ca-file", STRING, NULL, NULL},
    {"client-crl-file", STRING, NULL, NULL},
    {"client-cert-allowed-hostname", STRING, NULL, NULL},
    {"auto-tls", BOOL, "no certificate is made here: give --cert-file and --key-file", NULL},
    {"cipher-suites", LIST,
     "TLS 1.2 and 1.3 are spoken, with AEAD ciphers and forward secrecy alone", NULL},

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

    /* Of etcd 0.4 and before. */
    {"snapshot", ANCIENT, long_ago, NULL},
    {"v", ANCIENT, long_ago, NULL},
    {"vv", ANCIENT, long_ago, NULL},
    {"force", ANCIENT, long_ago, NULL},
    {"max-result-buffer", ANCIENT, long_ago, NULL},
    {"max-retry-attempts", ANCIENT, long_ago, NULL},
    {"retry-interval", ANCIENT, long_ago, NULL},
    {"cluster-active-size", ANCIENT, long_ago, NULL},
    {"cluster-remove-delay", ANCIENT, long_ago, NULL},
    {"cluster-sync-interval", ANCIENT, long_ago, NULL},
    {"peer-heartbeat-interval", ANCIENT, long_ago, NULL},
    {"peer-election-timeout", ANCIENT, long_ago, NULL},
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
    case ETCD_TYPE_ANCIENT:
        break;
    }
    return true;
}

/* --- URLs. --- */

bool etcd_url_scheme_is(const struct etcd_url *url, const char *scheme)
{
    return url->scheme_len == strlen(scheme) &&
           strncasecmp(url->scheme, scheme, url->scheme_len) == 0;
}

/* HOST:PORT up to `end`. */
static bool split_address(const char *text, const char *end, struct etcd_url *out)
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

const char *etcd_url_check(const char *url, struct etcd_url *out)
{
    struct etcd_url parts = {.scheme = url};
    const char *rest = strstr(url, "://"), *end, *user;

    parts.scheme_len = rest == NULL ? 0 : (size_t)(rest - url);
    if (!etcd_url_scheme_is(&parts, "http") && !etcd_url_scheme_is(&parts, "https") &&
        !etcd_url_scheme_is(&parts, "unix") && !etcd_url_scheme_is(&parts, "unixs"))
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
    if (!etcd_url_scheme_is(&parts, "unix") && !etcd_url_scheme_is(&parts, "unixs")) {
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
