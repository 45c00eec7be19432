/* What etcd's flags become here, and the checks that etcd makes across them before it starts. */
#define OPENSSL_API_COMPAT 0x10101000L /* SHA1() fetches a provider, and keeps 130 KB for that */
#include "rdzv/config/config_internal.h"

#include <endian.h>
#include <inttypes.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

/* --- URLs. --- */

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

/* The end of "http://" or another scheme that etcd knows; NULL: it is none of them. */
static const char *skip_scheme(const char *url, struct etcd_url *out)
{
    static const char *const schemes[] = {"http://", "https://", "unix://", "unixs://"};

    for (size_t i = 0; i < 4; i++) {
        out->is_tls = i % 2 == 1;
        out->is_unix = i >= 2;
        if (strncasecmp(url, schemes[i], strlen(schemes[i])) == 0)
            return url + strlen(schemes[i]);
    }
    return NULL;
}

const char *etcd_url_check(const char *url, struct etcd_url *out)
{
    struct etcd_url parts = {0};
    const char *rest = skip_scheme(url, &parts), *end, *user;

    if (rest == NULL)
        return "URL scheme must be http, https, unix, or unixs; write http://HOST:PORT";
    for (const char *c = rest; *c != '\0'; c++) {
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            return "URL must not contain blanks or control characters; write http://HOST:PORT";
    }
    end = rest + strcspn(rest, "/?#");
    user = memrchr(rest, '@', (size_t)(end - rest));
    if (user != NULL)
        rest = user + 1;
    if (!parts.is_unix) {
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

/* --- Flags that only etcd has, and their checks across each other. --- */

/* What --debug, --logger and --log-outputs make of our log. */
static void finish_log(struct parse *p)
{
    struct config *c = &p->config;
    const struct string_list *outputs = &c->etcd.log_outputs;

    if (c->etcd.debug)
        c->log_level = LOG_DEBUG;
    if (config_last_setting(p, "logger") != NULL && config_last_setting(p, "log-format") == NULL)
        c->log_format = c->etcd.logger;
    for (size_t i = 0; i < outputs->count; i++) {
        if (strcmp(outputs->items[i], "default") != 0 && strcmp(outputs->items[i], "stderr") != 0)
            config_note(c, CONFIG_NOTE_IGNORED, CONFIG_LABEL(config_last_setting(p, "log-outputs")),
                        "%s: %s", config_show(outputs->items[i]).text, ETCD_OWN_LOG);
    }
}

/* A listener for a URL that etcd would bind. For etcd, URLs with one address are one listener. */
static bool add_url_listener(struct parse *p, const struct setting *from, const char *url,
                             bool metrics)
{
    struct config *c = &p->config;
    struct etcd_url parts = {0};
    struct listen_spec *spec;
    enum listen_wire wire;
    char host[64];

    (void)etcd_url_check(url, &parts); /* it was fine when it was read */
    wire = parts.is_tls ? LISTEN_TLS : c->tls.cert != NULL ? LISTEN_PLAIN : LISTEN_BY_SETTING;
    if (parts.is_unix)
        return config_fail_check(
            p, from,
            "%s: a Unix socket is --listen=unix:/PATH here; write that, or listen "
            "on http://127.0.0.1:PORT",
            config_show(url).text);
    snprintf(host, sizeof host, "%.*s", (int)(parts.host_len < 63 ? parts.host_len : 63),
             parts.host);
    if (strcmp(host, "localhost") == 0)
        strcpy(host, "127.0.0.1");
    if (!config_is_address(AF_INET, host, strlen(host)) &&
        !config_is_address(AF_INET6, host, strlen(host)))
        return config_fail_check(p, from,
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
            if (c->listeners[i].wire != wire)
                c->listeners[i].wire = LISTEN_PLAIN; /* which is both */
            return true;
        }
    }
    spec = config_add_listener(c, host, strlen(host), parts.port, CONFIG_DEFAULT_SPACE);
    spec->metrics_only = metrics;
    spec->wire = wire;
    return true;
}

/* Those of the last setting of that name. */
static bool add_url_listeners(struct parse *p, const char *name, const struct string_list *urls,
                              bool metrics)
{
    for (size_t i = 0; i < urls->count; i++) {
        if (!add_url_listener(p, config_last_setting(p, name), urls->items[i], metrics))
            return false;
    }
    return true;
}

/* Checks that --initial-cluster names only this member. */
static bool check_cluster(struct parse *p)
{
    const struct config *c = &p->config;
    const struct setting *from = config_last_setting(p, "initial-cluster");
    struct string_list entries = {0};
    const char *other = NULL;
    bool is_named = false, ok = true;

    string_list_split(&entries, c->initial_cluster);
    for (size_t i = 0; ok && i < entries.count; i++) {
        char *name = entries.items[i], *equals = strchr(name, '=');
        const char *problem = etcd_url_check(equals == NULL ? "" : equals + 1, NULL);

        if (name[0] == '\0')
            continue;
        if (problem != NULL) {
            ok = config_fail_check(p, from, "%s: %s, as in NAME=http://HOST:2380",
                                   config_show(name).text, problem);
            break;
        }
        *equals = '\0';
        if (strcmp(name, c->name) == 0)
            is_named = true;
        else
            other = name;
    }
    if (ok && !is_named)
        ok = config_fail_check(p, from,
                               "couldn't find local name %s in the initial cluster "
                               "configuration; write --initial-cluster %s=%s, or give another "
                               "--name",
                               config_show(c->name).text, c->name, c->advertise_peer_urls.items[0]);
    if (ok && other != NULL)
        ok = config_fail_check(p, from,
                               "names %s beside %s, but this is a cluster of one; run one, "
                               "and point all clients at it",
                               config_show(other).text, config_show(c->name).text);
    string_list_free(&entries);
    return ok;
}

bool etcd_flags_finish(struct parse *p)
{
    struct config *c = &p->config;
    const struct setting *urls = config_last_setting(p, "listen-client-urls");

    if (!add_url_listeners(p, "listen-client-urls", &c->etcd.client_urls, false) ||
        !add_url_listeners(p, "listen-metrics-urls", &c->etcd.metrics_urls, true))
        return false;
    string_list_free(&c->etcd.client_urls); /* they are listeners now */
    if (urls != NULL && config_last_setting(p, "advertise-client-urls") == NULL && !urls->etcd_file)
        return config_fail_check(p, urls,
                                 "--advertise-client-urls is required when "
                                 "--listen-client-urls is set explicitly; name the URLs by which "
                                 "clients reach this process");
    if (c->initial_cluster != NULL && !check_cluster(p))
        return false;
    finish_log(p);
    if (c->etcd.cluster_state == ETCD_CLUSTER_EXISTING)
        config_note(c, CONFIG_NOTE_WARNING,
                    CONFIG_LABEL(config_last_setting(p, "initial-cluster-state")), "%s",
                    ETCD_HAS_NO_PEERS);
    if (c->etcd_mode && !c->etcd.v2)
        config_note(c, CONFIG_NOTE_WARNING, "--enable-v2",
                    "%s, but this daemon serves the v2 API all the same",
                    config_last_setting(p, "enable-v2") == NULL ? "is not given" : "is false");
    return true;
}

/* --- Ids: as etcd 3.4 has them, etcdserver/api/membership/member.go and cluster.go. --- */

/* The first eight bytes of the SHA-1. */
static uint64_t sha1_end(SHA_CTX *sha)
{
    unsigned char digest[SHA_DIGEST_LENGTH];
    uint64_t id;

    SHA1_Final(digest, sha);
    memcpy(&id, digest, sizeof id);
    return be64toh(id);
}

void etcd_ids(const struct config *config, uint64_t *member, uint64_t *cluster)
{
    const struct string_list *urls = &config->advertise_peer_urls;
    uint64_t big_endian;
    SHA_CTX sha;

    SHA1_Init(&sha);
    for (size_t i = 0; i < urls->count; i++)
        SHA1_Update(&sha, urls->items[i], strlen(urls->items[i]));
    SHA1_Update(&sha, config->initial_cluster_token, strlen(config->initial_cluster_token));
    *member = sha1_end(&sha);
    big_endian = htobe64(*member);
    SHA1_Init(&sha);
    SHA1_Update(&sha, &big_endian, sizeof big_endian);
    *cluster = sha1_end(&sha);
}

const char *etcd_format_id(uint64_t id, char text[ETCD_ID_MAX])
{
    snprintf(text, ETCD_ID_MAX, "%" PRIx64, id);
    return text;
}
