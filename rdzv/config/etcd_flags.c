/* The table of etcd's flags, and what etcd refuses of URLs. See config_internal.h. */
#include "rdzv/config/config_internal.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "proto/bytes.h"

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

#define TAKEN(flag, kind)        .name = (flag), .type = ETCD_TYPE_##kind
#define IGNORED(flag, kind, why) TAKEN(flag, kind), .ignored = (why)

static const struct etcd_flag flags[] = {
    /* Honoured; those that config_options.c knows under the same name are applied there. */
    {TAKEN("name", TEXT)},
    {TAKEN("data-dir", TEXT)},
    {TAKEN("listen-client-urls", LIST)},
    {TAKEN("advertise-client-urls", LIST)},
    {TAKEN("listen-metrics-urls", LIST)},
    {TAKEN("initial-advertise-peer-urls", LIST)},
    {TAKEN("initial-cluster", TEXT)},
    {TAKEN("initial-cluster-token", TEXT)},
    {TAKEN("initial-cluster-state", TEXT), .choices = "new|existing"},
    {TAKEN("enable-v2", BOOL)},
    {TAKEN("cors", LIST)},
    {TAKEN("host-whitelist", LIST)},
    {TAKEN("config-file", TEXT)},
    {TAKEN("log-level", TEXT)},
    {TAKEN("logger", TEXT), .choices = "capnslog|zap"},
    {TAKEN("log-outputs", LIST)},
    {TAKEN("debug", BOOL)},
    {TAKEN("version", BOOL)},

    {IGNORED("wal-dir", TEXT, no_raft)},
    {IGNORED("snapshot-count", TEXT, no_raft)},
    {IGNORED("heartbeat-interval", TEXT, no_raft)},
    {IGNORED("election-timeout", TEXT, no_raft)},
    {IGNORED("initial-election-tick-advance", BOOL, no_raft)},
    {IGNORED("max-snapshots", TEXT, no_raft)},
    {IGNORED("max-wals", TEXT, no_raft)},
    {IGNORED("strict-reconfig-check", BOOL, no_raft)},
    {IGNORED("pre-vote", BOOL, no_raft)},
    {IGNORED("force-new-cluster", BOOL, no_raft)},
    {IGNORED("unsafe-no-fsync", BOOL, no_disk)},
    {IGNORED("quota-backend-bytes", TEXT, no_grpc)},
    {IGNORED("backend-batch-interval", TEXT, no_grpc)},
    {IGNORED("backend-batch-limit", TEXT, no_grpc)},
    {IGNORED("max-txn-ops", TEXT, no_grpc)},
    {IGNORED("max-request-bytes", TEXT, "etcd does not apply it to its v2 API either")},
    {IGNORED("max-concurrent-streams", TEXT, no_grpc)},
    {IGNORED("grpc-keepalive-min-time", TEXT, no_grpc)},
    {IGNORED("grpc-keepalive-interval", TEXT, no_grpc)},
    {IGNORED("grpc-keepalive-timeout", TEXT, no_grpc)},
    {IGNORED("enable-grpc-gateway", BOOL, no_grpc)},
    {IGNORED("auto-compaction-retention", TEXT, no_grpc)},
    {IGNORED("auto-compaction-mode", TEXT, no_grpc)},

    {IGNORED("listen-peer-urls", LIST, no_peers)},
    {IGNORED("peer-cert-file", TEXT, no_peers)},
    {IGNORED("peer-key-file", TEXT, no_peers)},
    {IGNORED("peer-client-cert-auth", BOOL, no_peers)},
    {IGNORED("peer-trusted-ca-file", TEXT, no_peers)},
    {IGNORED("peer-cert-allowed-cn", TEXT, no_peers)},
    {IGNORED("peer-cert-allowed-hostname", TEXT, no_peers)},
    {IGNORED("peer-auto-tls", BOOL, no_peers)},
    {IGNORED("peer-crl-file", TEXT, no_peers)},
    {IGNORED("discovery", TEXT, no_discovery)},
    {IGNORED("discovery-fallback", TEXT, no_discovery)},
    {IGNORED("discovery-proxy", TEXT, no_discovery)},
    {IGNORED("discovery-srv", TEXT, no_discovery)},
    {IGNORED("discovery-srv-name", TEXT, no_discovery)},

    {TAKEN("cert-file", TEXT), .own = "cert"},
    {TAKEN("key-file", TEXT), .own = "key"},
    {TAKEN("client-cert-auth", BOOL)},
    {TAKEN("trusted-ca-file", TEXT), .own = "client-ca"},
    {TAKEN("client-crl-file", TEXT), .own = "crl"},
    {TAKEN("client-cert-allowed-hostname", TEXT), .own = "client-names"},
    {IGNORED("auto-tls", BOOL, "no certificate is made here: give --cert-file and --key-file")},
    {IGNORED("cipher-suites", LIST,
             "TLS 1.2 and 1.3 are spoken, with AEAD ciphers and forward secrecy alone")},

    {IGNORED("auth-token", TEXT, no_auth)},
    {IGNORED("auth-token-ttl", TEXT, no_auth)},
    {IGNORED("bcrypt-cost", TEXT, no_auth)},
    {IGNORED("enable-pprof", BOOL, "there is no Go runtime to profile")},
    {IGNORED("metrics", TEXT, "there is one level of detail")},
    {IGNORED("log-output", LIST, own_log)},
    {IGNORED("log-package-levels", TEXT, own_log)},

    {IGNORED("proxy", TEXT, no_proxy)},
    {IGNORED("proxy-failure-wait", TEXT, no_proxy)},
    {IGNORED("proxy-refresh-interval", TEXT, no_proxy)},
    {IGNORED("proxy-dial-timeout", TEXT, no_proxy)},
    {IGNORED("proxy-write-timeout", TEXT, no_proxy)},
    {IGNORED("proxy-read-timeout", TEXT, no_proxy)},

    {IGNORED("experimental-initial-corrupt-check", BOOL, experiment)},
    {IGNORED("experimental-corrupt-check-time", TEXT, experiment)},
    {IGNORED("experimental-enable-v2v3", TEXT, experiment)},
    {IGNORED("experimental-backend-bbolt-freelist-type", TEXT, experiment)},
    {IGNORED("experimental-enable-lease-checkpoint", BOOL, experiment)},
    {IGNORED("experimental-compaction-batch-limit", TEXT, experiment)},
    {IGNORED("experimental-peer-skip-client-san-verification", BOOL, experiment)},
    {IGNORED("experimental-watch-progress-notify-interval", TEXT, experiment)},
    {IGNORED("experimental-warning-apply-duration", TEXT, experiment)},

    /* Of etcd 0.4 and before. */
    {IGNORED("snapshot", ANCIENT, long_ago)},
    {IGNORED("v", ANCIENT, long_ago)},
    {IGNORED("vv", ANCIENT, long_ago)},
    {IGNORED("force", ANCIENT, long_ago)},
    {IGNORED("max-result-buffer", ANCIENT, long_ago)},
    {IGNORED("max-retry-attempts", ANCIENT, long_ago)},
    {IGNORED("retry-interval", ANCIENT, long_ago)},
    {IGNORED("cluster-active-size", ANCIENT, long_ago)},
    {IGNORED("cluster-remove-delay", ANCIENT, long_ago)},
    {IGNORED("cluster-sync-interval", ANCIENT, long_ago)},
    {IGNORED("peer-heartbeat-interval", ANCIENT, long_ago)},
    {IGNORED("peer-election-timeout", ANCIENT, long_ago)},
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
    uint64_t port;

    if (colon == NULL ||
        !slice_to_u64((struct slice){(const uint8_t *)colon + 1, (size_t)(end - colon) - 1},
                      UINT16_MAX, &port))
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
