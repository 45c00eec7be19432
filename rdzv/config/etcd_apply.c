/* What etcd's flags become here, and the checks that etcd makes across them before it starts. */
#define OPENSSL_API_COMPAT 0x10101000L /* SHA1() fetches a provider, and keeps 130 KB for that */
#include "proto/etcd_types.h"
#include "rdzv/config/config_internal.h"
#include "store/memory/xalloc.h"

#include <inttypes.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

static bool check_etcd_value(struct parse *p, const struct setting *s)
{
    const struct etcd_flag *flag = s->etcd;
    const char *choices = flag->choices;
    bool is_true;
    size_t len;

    if (flag->type == ETCD_TYPE_BOOL && !etcd_parse_bool(slice_str(s->value), &is_true))
        return config_fail(p, s, "invalid value %s; write true or false",
                           config_show(s->value).text);
    if (choices == NULL)
        return true;
    for (; *choices != '\0'; choices += len + (choices[len] == '|')) {
        len = strcspn(choices, "|");
        if (strlen(s->value) == len && memcmp(choices, s->value, len) == 0)
            return true;
    }
    /* Go's flag package checks all of these except one, which etcd checks later. */
    return (strcmp(flag->name, "logger") == 0 ? config_fail_check : config_fail)(
        p, s, "invalid value %s; must be one of %s", config_show(s->value).text, flag->choices);
}

static void note_ignored(struct parse *p, const struct setting *s)
{
    char label[CONFIG_LABEL_MAX];
    /* Of the flags that are ignored, these make a different server of an etcd. */
    bool matters = (strcmp(s->name, "proxy") == 0 && strcmp(s->value, "off") != 0) ||
                   strcmp(s->name, "discovery") == 0 || strcmp(s->name, "discovery-srv") == 0;

    config_note(&p->config, matters ? CONFIG_NOTE_WARNING : CONFIG_NOTE_IGNORED,
                config_label(s, label), "%s", s->etcd->ignored);
}

static void replace_text(char **field, const char *text)
{
    free(*field);
    *field = config_copy_text(text, strlen(text));
}

static void apply_log_outputs(struct parse *p, const struct setting *s)
{
    struct string_list outputs = {0};
    char label[CONFIG_LABEL_MAX];

    string_list_split(&outputs, s->value);
    for (size_t i = 0; i < outputs.count; i++) {
        if (strcmp(outputs.items[i], "default") != 0 && strcmp(outputs.items[i], "stderr") != 0)
            config_note(&p->config, CONFIG_NOTE_IGNORED, config_label(s, label), "%s: %s",
                        config_show(outputs.items[i]).text, ETCD_OWN_LOG);
    }
    string_list_free(&outputs);
}

/* Applies an etcd flag that has an effect here and is not in config_options.c. */
static bool apply_honoured(struct parse *p, const struct setting *s)
{
    struct config *c = &p->config;
    bool flag = s->etcd->type == ETCD_TYPE_BOOL;

    if (flag)
        etcd_parse_bool(slice_str(s->value), &flag);
    if (strcmp(s->name, "listen-client-urls") == 0)
        return config_read_urls(p, s, &p->client_urls);
    if (strcmp(s->name, "listen-metrics-urls") == 0)
        return config_read_urls(p, s, &p->metrics_urls);
    if (strcmp(s->name, "initial-advertise-peer-urls") == 0)
        return config_read_urls(p, s, &c->advertise_peer_urls);
    if (strcmp(s->name, "initial-cluster") == 0) {
        replace_text(&c->initial_cluster, s->value);
    } else if (strcmp(s->name, "initial-cluster-token") == 0) {
        replace_text(&c->initial_cluster_token, s->value);
    } else if (strcmp(s->name, "enable-v2") == 0) {
        p->v2 = flag;
    } else if (strcmp(s->name, "debug") == 0 && flag) {
        c->log_level = LOG_DEBUG;
    } else if (strcmp(s->name, "logger") == 0 && config_last_setting(p, "log-format") == NULL) {
        c->log_format = strcmp(s->value, "zap") == 0 ? LOG_FORMAT_JSON : LOG_FORMAT_LOGFMT;
    } else if (strcmp(s->name, "log-outputs") == 0) {
        apply_log_outputs(p, s);
    } else if (strcmp(s->name, "initial-cluster-state") == 0 && strcmp(s->value, "existing") == 0) {
        char label[CONFIG_LABEL_MAX];

        config_note(c, CONFIG_NOTE_WARNING, config_label(s, label), "%s", ETCD_HAS_NO_PEERS);
    }
    return true;
}

bool etcd_flag_apply(struct parse *p, const struct setting *setting)
{
    struct setting s = *setting;

    if (s.value == NULL)
        s.value = "true";
    if (s.etcd->ignored != NULL) {
        note_ignored(p, &s);
        return true;
    }
    if (!check_etcd_value(p, &s))
        return false;
    if (s.etcd->own == NULL)
        return apply_honoured(p, &s);
    s.option = config_find_option(s.etcd->own, strlen(s.etcd->own));
    return config_apply_option(p, &s);
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
    wire = etcd_url_scheme_is(&parts, "https") ? LISTEN_TLS
           : c->tls.cert != NULL               ? LISTEN_PLAIN
                                               : LISTEN_BY_SETTING;
    if (etcd_url_scheme_is(&parts, "unix") || etcd_url_scheme_is(&parts, "unixs"))
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

static bool add_url_listeners(struct parse *p, const struct setting *from,
                              const struct string_list *urls, bool metrics)
{
    for (size_t i = 0; i < urls->count; i++) {
        if (!add_url_listener(p, from, urls->items[i], metrics))
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

    if (!add_url_listeners(p, urls, &p->client_urls, false) ||
        !add_url_listeners(p, config_last_setting(p, "listen-metrics-urls"), &p->metrics_urls,
                           true))
        return false;
    if (urls != NULL && config_last_setting(p, "advertise-client-urls") == NULL && !urls->etcd_file)
        return config_fail_check(p, urls,
                                 "--advertise-client-urls is required when "
                                 "--listen-client-urls is set explicitly; name the URLs by which "
                                 "clients reach this process");
    if (c->initial_cluster != NULL && !check_cluster(p))
        return false;
    if (c->etcd_mode && !p->v2)
        config_note(c, CONFIG_NOTE_WARNING, "--enable-v2",
                    "%s, but this daemon serves the v2 API all the same",
                    config_last_setting(p, "enable-v2") == NULL ? "is not given" : "is false");
    return true;
}

/* --- Ids: as etcd 3.4 has them, etcdserver/api/membership/member.go and cluster.go. --- */

/* The first eight bytes of its SHA-1. */
static uint64_t sha1_u64(struct slice in)
{
    unsigned char digest[SHA_DIGEST_LENGTH];
    uint64_t id = 0;
    SHA_CTX sha;

    SHA1_Init(&sha);
    SHA1_Update(&sha, in.ptr, in.len);
    SHA1_Final(digest, &sha);
    for (size_t i = 0; i < sizeof id; i++)
        id = id << 8 | digest[i];
    return id;
}

void etcd_ids(const struct config *config, uint64_t *member, uint64_t *cluster)
{
    const struct string_list *urls = &config->advertise_peer_urls;
    size_t cap = strlen(config->initial_cluster_token);
    uint8_t member_bytes[8];
    struct writer w;

    for (size_t i = 0; i < urls->count; i++)
        cap += strlen(urls->items[i]);
    w = (struct writer){.ptr = xcalloc(1, cap + 1), .cap = cap};
    for (size_t i = 0; i < urls->count; i++)
        writer_str(&w, urls->items[i]);
    writer_str(&w, config->initial_cluster_token);
    *member = sha1_u64((struct slice){w.ptr, w.len});
    for (size_t i = 0; i < 8; i++)
        member_bytes[i] = (uint8_t)(*member >> (56 - 8 * i));
    *cluster = sha1_u64((struct slice){member_bytes, sizeof member_bytes});
    free(w.ptr);
}

void etcd_format_id(uint64_t id, char text[17])
{
    snprintf(text, 17, "%" PRIx64, id);
}
