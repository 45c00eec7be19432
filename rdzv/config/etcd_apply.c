/* What etcd's flags become here, and the checks that etcd makes across them before it starts. */
#define OPENSSL_API_COMPAT 0x10101000L /* SHA1() fetches a provider, and keeps 130 KB for that */
#include "rdzv/config/config_internal.h"
#include "store/memory/xalloc.h"

#include <inttypes.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

static bool check_etcd_value(struct draft *d, const struct setting *s)
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
    /* Of the flags that are ignored, these make a different server of an etcd. */
    bool matters = (strcmp(s->name, "proxy") == 0 && strcmp(s->value, "off") != 0) ||
                   strcmp(s->name, "discovery") == 0 || strcmp(s->name, "discovery-srv") == 0;

    config_note(&d->config, matters ? CONFIG_NOTE_WARNING : CONFIG_NOTE_IGNORED,
                config_label(s, label), "%s", s->etcd->ignored);
}

static void replace_text(char **field, const char *text)
{
    free(*field);
    *field = config_copy_text(text, strlen(text));
}

static void apply_log_outputs(struct draft *d, const struct setting *s)
{
    struct string_list outputs = {0};
    char label[CONFIG_LABEL_MAX];

    string_list_split(&outputs, s->value);
    for (size_t i = 0; i < outputs.count; i++) {
        if (strcmp(outputs.items[i], "default") != 0 && strcmp(outputs.items[i], "stderr") != 0)
            config_note(&d->config, CONFIG_NOTE_IGNORED, config_label(s, label), "%s: %s",
                        config_show(outputs.items[i]).text, ETCD_OWN_LOG);
    }
    string_list_free(&outputs);
}

/* A flag that is honoured and that config_options.c does not know. */
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
    } else if (strcmp(s->name, "cert-file") == 0) {
        replace_text(&c->tls.cert, s->value);
    } else if (strcmp(s->name, "key-file") == 0) {
        replace_text(&c->tls.key, s->value);
    } else if (strcmp(s->name, "trusted-ca-file") == 0) {
        replace_text(&c->tls.client_ca, s->value);
    } else if (strcmp(s->name, "client-crl-file") == 0) {
        replace_text(&c->tls.crl, s->value);
    } else if (strcmp(s->name, "client-cert-allowed-hostname") == 0) {
        string_list_free(&c->tls.client_names);
        if (s->value[0] != '\0')
            string_list_split(&c->tls.client_names, s->value);
    } else if (strcmp(s->name, "log-outputs") == 0) {
        apply_log_outputs(d, s);
    } else if (strcmp(s->name, "initial-cluster-state") == 0 && strcmp(s->value, "existing") == 0) {
        char label[CONFIG_LABEL_MAX];

        config_note(c, CONFIG_NOTE_WARNING, config_label(s, label), "%s", ETCD_HAS_NO_PEERS);
    }
    return true;
}

bool etcd_flag_apply(struct draft *d, const struct setting *setting)
{
    struct setting s = *setting;

    if (s.value == NULL)
        s.value = "true";
    if (!check_etcd_value(d, &s))
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

static bool is_literal_address(const char *host)
{
    return config_is_address(AF_INET, host, strlen(host)) ||
           config_is_address(AF_INET6, host, strlen(host));
}

/* One listener for a URL that etcd would bind. Two URLs of one address are one listener to etcd. */
static bool add_url_listener(struct draft *d, const struct setting *from, const char *url,
                             bool metrics)
{
    struct config *c = &d->config;
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
            d, from,
            "%s: a Unix socket is --listen=unix:/PATH here; write that, or listen "
            "on http://127.0.0.1:PORT",
            config_show(url).text);
    snprintf(host, sizeof host, "%.*s", (int)(parts.host_len < 63 ? parts.host_len : 63),
             parts.host);
    if (strcmp(host, "localhost") == 0)
        strcpy(host, "127.0.0.1");
    if (!is_literal_address(host))
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

    if (strcmp(c->name, "default") == 0)
        return config_copy_text("default=http://localhost:2380", 29);
    for (size_t i = 0; i < c->advertise_peer_urls.count; i++)
        len += strlen(c->name) + strlen(c->advertise_peer_urls.items[i]) + 2;
    text = xcalloc(len, 1);
    for (size_t i = 0, at = 0; i < c->advertise_peer_urls.count; i++)
        at += (size_t)sprintf(text + at, "%s%s=%s", i > 0 ? "," : "", c->name,
                              c->advertise_peer_urls.items[i]);
    return text;
}

/* Do two peer URLs certainly name different places? Host names are not resolved. */
static bool certainly_differ(const char *a, const char *b)
{
    struct etcd_url one = {0}, two = {0};
    char host[64];
    bool literal = true;

    (void)etcd_url_check(a, &one);
    (void)etcd_url_check(b, &two);
    if (one.scheme_len != two.scheme_len || one.port != two.port)
        return true;
    if (one.host_len == two.host_len && strncasecmp(one.host, two.host, one.host_len) == 0)
        return false;
    for (int i = 0; i < 2; i++) {
        const struct etcd_url *url = i == 0 ? &one : &two;

        snprintf(host, sizeof host, "%.*s", (int)(url->host_len < 63 ? url->host_len : 63),
                 url->host);
        /* etcd leaves localhost unresolved, so it equals no address. */
        if (strcmp(host, "localhost") != 0 && !is_literal_address(host))
            literal = false;
    }
    return literal;
}

/* --initial-cluster names this member once and no other, and agrees with what it advertises. */
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
                    "%s, but this daemon serves the v2 API all the same",
                    d->v2_from == NULL ? "is not given" : "is false");
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
