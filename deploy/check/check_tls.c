/* Rules about TLS: who speaks it with whom, whose certificates there are, and for which names. */
#include "deploy/check/check.h"

#include "deploy/kube/rdzv_conf.h"

#include <string.h>
#include <strings.h>

static const struct kube_object *object_of(const struct job_store *s)
{
    return s->container->pods->object;
}

/* --- What a store does. --- */

/* How an rdzvd speaks TLS, as far as its flags say. */
struct tls_side {
    bool known;       /* there is no settings file that may say more */
    bool serves;      /* it has a certificate */
    bool takes_plain; /* from other pods, too */
    bool asks;        /* its clients have to show a certificate */
    struct job_setting cert;
};

static const char *option(struct check *c, const struct job_store *s, const char *name,
                          struct job_setting *out)
{
    return job_store_option(&c->jobs, s->container, name, NULL, out) ? out->value.text : NULL;
}

static bool is_switched_on(struct check *c, const struct job_store *s, const char *name)
{
    struct job_setting found;
    const char *text = option(c, s, name, &found);

    return text != NULL && strcasecmp(text, "false") != 0;
}

static struct tls_side side_of(struct check *c, const struct job_store *s)
{
    struct tls_side side = {.known = s->kind == JOB_STORE_RDZVD};
    struct job_setting found;
    const char *plaintext = option(c, s, "plaintext", &found), *wish;

    if (option(c, s, "config", &found) != NULL || option(c, s, "config-file", &found) != NULL)
        side.known = false;
    side.serves =
        option(c, s, "cert", &side.cert) != NULL || option(c, s, "cert-file", &side.cert) != NULL;
    side.takes_plain =
        plaintext != NULL && strcmp(plaintext, "loopback") != 0 && strcmp(plaintext, "off") != 0;
    wish = option(c, s, "client-cert", &found);
    side.asks = (option(c, s, "client-ca", &found) != NULL &&
                 (wish == NULL || strcmp(wish, "optional") != 0)) ||
                is_switched_on(c, s, "client-cert-auth");
    return side;
}

/* --- Relays. --- */

static void look_at_relay(struct check *c, const struct job_store *relay,
                          const struct job_upstream *u)
{
    struct tls_side store = side_of(c, u->store);
    struct job_setting ca, found;
    bool speaks = option(c, relay, "upstream-ca", &ca) != NULL;
    const char *title = check_title(c, object_of(u->store));

    if (!store.known || option(c, relay, "config", &found) != NULL)
        return;
    if (store.serves && !speaks && !store.takes_plain)
        check_report(c, object_of(relay), check_at_option(relay->container, &u->setting),
                     "the relay speaks plain text, which %s takes from its own pod alone", title);
    else if (!store.serves && speaks)
        check_report(c, object_of(relay), check_at_option(relay->container, &ca),
                     "the relay speaks TLS, and %s has no --cert", title);
    else if (store.asks && speaks && option(c, relay, "upstream-cert", &found) == NULL)
        check_report(c, object_of(relay), check_at_option(relay->container, &ca),
                     "the relay shows no certificate, and %s asks for one (--client-ca)", title);
}

void check_tls_relay(struct check *c)
{
    struct job_upstream u;

    for (size_t i = 0; i < c->jobs.store_count; i++) {
        for (size_t n = 0; job_relay_upstream(&c->jobs, &c->jobs.stores[i], n, &u); n++) {
            if (u.store != NULL)
                look_at_relay(c, &c->jobs.stores[i], &u);
        }
    }
}

/* --- Agents. --- */

static bool speaks_https(const struct job_run *r)
{
    const char *conf = check_value(r, TORCHRUN_RDZV_CONF);
    struct rdzv_conf_entry e;

    return rdzv_conf_find(conf, "protocol", &e) && e.end - e.value_start == 5 &&
           strncmp(conf + e.value_start, "https", 5) == 0;
}

void check_tls_c10d(struct check *c)
{
    for (size_t i = 0; i < c->jobs.count; i++) {
        const struct job_run *r = c->jobs.runs[i];
        bool c10d = strcmp(r->backend, "c10d") == 0;
        struct tls_side store;

        if (r->store == NULL || r->local || (!c10d && strncmp(r->backend, "etcd", 4) != 0))
            continue;
        store = side_of(c, r->store);
        if (!store.known)
            continue;
        if (c10d && store.serves && !store.takes_plain)
            check_report(c, job_run_object(r), check_at_setting(r, TORCHRUN_RDZV_ENDPOINT),
                         "torch's c10d clients have no TLS, and %s takes plain text from its own "
                         "pod alone",
                         check_title(c, object_of(r->store)));
        else if (!c10d && store.serves && !store.takes_plain && !speaks_https(r) &&
                 !check_is_opaque(r))
            check_report(c, job_run_object(r), check_at_setting(r, TORCHRUN_RDZV_ENDPOINT),
                         "the conf has no protocol=https, and %s takes plain text from its own pod "
                         "alone",
                         check_title(c, object_of(r->store)));
    }
}

/* --- Certificates. --- */

/* The name of the Secret whose files a container reads at the path, or "". */
static const char *secret_at(const struct kube_container *container, const char *path)
{
    return kube_text(kube_secret_at(container, path), "secretName");
}

/* Certificates of cert-manager by namespace and Secret. */
static void index_certificates(struct check *c, struct kube_index *out)
{
    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];

        if (strcmp(o->kind, "Certificate") == 0)
            kube_index_add(&c->bundle.arena, out, o->namespace, kube_text(o->spec, "secretName"),
                           i);
    }
}

static const struct kube_object *certificate_of(struct check *c, const struct kube_index *all,
                                                const struct kube_object *user, const char *secret)
{
    struct kube_hits hits = kube_index_find(all, user->namespace, secret, strlen(secret));

    return *secret == '\0' || hits.count == 0 ? NULL : c->bundle.objects[hits.list[0]];
}

/* `*.a.b` is any one label before .a.b. */
static bool names(const char *pattern, const char *host)
{
    const char *dot = strchr(host, '.');

    return strcasecmp(pattern, host) == 0 || (pattern[0] == '*' && pattern[1] == '.' &&
                                              dot != NULL && strcasecmp(pattern + 1, dot) == 0);
}

static bool is_for(const struct kube_object *certificate, const char *host)
{
    static const char *const lists[] = {"dnsNames", "ipAddresses"};

    for (size_t k = 0; k < 2; k++) {
        const struct yaml_node *list = kube_get(certificate->spec, lists[k]);

        for (size_t i = 0; i < yaml_length(list); i++) {
            const char *name = yaml_text(list->items[i]);

            if (name != NULL && names(name, host))
                return true;
        }
    }
    return names(kube_text(certificate->spec, "commonName"), host) &&
           kube_get(certificate->spec, "dnsNames") == NULL;
}

static void look_at_name(struct check *c, const struct kube_index *all, const struct job_store *s,
                         const char *host, const struct kube_object *client)
{
    struct tls_side side = side_of(c, s);
    const struct kube_object *found;

    if (!side.known || !side.serves || !side.cert.value.known)
        return;
    found = certificate_of(c, all, object_of(s), secret_at(s->container, side.cert.value.text));
    if (found != NULL && !is_for(found, host))
        check_report(c, found, check_at_first(found->node, "spec.dnsNames spec.secretName"),
                     "%s comes by the name %s, which this certificate does not have",
                     check_title(c, client), host);
}

void check_tls_name(struct check *c)
{
    struct kube_index all = {0};
    struct job_setting name;
    struct job_upstream u;

    index_certificates(c, &all);
    for (size_t i = 0; all.count > 0 && i < c->jobs.store_count; i++) {
        const struct job_store *relay = &c->jobs.stores[i];

        for (size_t n = 0; job_relay_upstream(&c->jobs, relay, n, &u); n++) {
            if (u.store != NULL && option(c, relay, "upstream-ca", &name) != NULL)
                look_at_name(c, &all, u.store,
                             option(c, relay, "upstream-name", &name) != NULL ? name.value.text
                                                                              : u.host,
                             object_of(relay));
        }
    }
    for (size_t i = 0; all.count > 0 && i < c->jobs.count; i++) {
        const struct job_run *r = c->jobs.runs[i];

        if (r->store != NULL && strncmp(r->backend, "etcd", 4) == 0 && speaks_https(r))
            look_at_name(c, &all, r->store, r->host, job_run_object(r));
    }
}

/* --- Secrets that nothing makes. --- */

/* Secrets that pods mount and Prometheus shows, by namespace. */
static void index_used(struct check *c, struct kube_index *out)
{
    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        const struct kube_pods *p = c->bundle.pods[i];
        const struct yaml_node *volumes = kube_get(p->spec, "volumes");

        for (size_t k = 0; k < yaml_length(volumes); k++)
            kube_index_add(&c->bundle.arena, out, p->object->namespace,
                           kube_text(volumes->items[k], "secret.secretName"), i);
    }
    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];
        const struct yaml_node *endpoints =
            strcmp(o->kind, "ServiceMonitor") == 0 ? kube_get(o->spec, "endpoints") : NULL;

        for (size_t k = 0; k < yaml_length(endpoints); k++)
            kube_index_add(&c->bundle.arena, out, o->namespace,
                           kube_text(endpoints->items[k], "tlsConfig.cert.secret.name"), i);
    }
}

/* A Certificate whose Secret nobody in its namespace uses: what somebody was to mount. */
static const struct kube_object *idle_certificate(struct check *c, const struct kube_index *used)
{
    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];
        const char *secret = kube_text(o->spec, "secretName");

        if (strcmp(o->kind, "Certificate") == 0 && *secret != '\0' &&
            kube_index_find(used, o->namespace, secret, strlen(secret)).count == 0)
            return o;
    }
    return NULL;
}

static bool is_made(const struct check *c, const struct kube_index *certificates,
                    const struct kube_object *user, const char *secret)
{
    struct kube_hits hits = kube_index_find(&c->bundle.named, "Secret", secret, strlen(secret));

    for (size_t i = 0; i < hits.count; i++) {
        if (kube_same_namespace(c->bundle.objects[hits.list[i]], user))
            return true;
    }
    return kube_index_find(certificates, user->namespace, secret, strlen(secret)).count > 0;
}

void check_tls_secret(struct check *c)
{
    static const char *const files[] = {"cert", "client-ca", "upstream-ca", "upstream-cert"};
    struct kube_index used = {0}, certificates = {0};
    const struct kube_object *idle;

    index_used(c, &used);
    index_certificates(c, &certificates);
    idle = certificates.count == 0 ? NULL : idle_certificate(c, &used);
    for (size_t i = 0; idle != NULL && i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];

        for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
            struct job_setting file;
            const char *secret;

            if (option(c, s, files[k], &file) == NULL || !file.value.known)
                continue;
            secret = secret_at(s->container, file.value.text);
            if (*secret == '\0' || is_made(c, &certificates, object_of(s), secret))
                continue;
            check_report(c, object_of(s), check_at_option(s->container, &file),
                         "nothing here makes the Secret %s; %s makes %s, which no pod of its "
                         "namespace has",
                         secret, check_title(c, idle), kube_text(idle->spec, "secretName"));
            break;
        }
    }
}

/* --- Probes. --- */

static void look_at_probe(struct check *c, const struct job_store *s, const struct tls_side *side,
                          const struct yaml_node *get, const struct job_listener *l)
{
    bool https = strcmp(kube_text(get, "scheme"), "HTTPS") == 0;
    struct check_position at = check_at_first(get, "scheme port");

    if (!side->serves && https)
        check_report(c, object_of(s), at, "the kubelet speaks TLS, and %s has no --cert",
                     s->container->name);
    else if (side->serves && !https && (l->tls || (!l->plain && !side->takes_plain)))
        check_report(c, object_of(s), at,
                     "the kubelet speaks plain text, which %s takes at port %ld from its own pod "
                     "alone",
                     s->container->name, l->port);
    else if (side->serves && https && l->plain)
        check_report(c, object_of(s), at, "the kubelet speaks TLS, and port %ld plain text alone",
                     l->port);
    else if (side->asks && https)
        check_report(c, object_of(s), at,
                     "the kubelet has no certificate, and %s asks for one (--client-ca)",
                     s->container->name);
}

void check_tls_probe(struct check *c)
{
    static const char *const probes[] = {"startupProbe", "readinessProbe", "livenessProbe"};

    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];
        struct tls_side side = side_of(c, s);
        struct job_listener l[JOB_LISTENERS_MAX];
        size_t count;

        if (!side.known || !job_store_listeners(&c->jobs, s, true, l, &count))
            continue;
        for (size_t k = 0; k < 3; k++) {
            const struct yaml_node *get =
                kube_get(kube_get(s->container->node, probes[k]), "httpGet");
            long port = kube_port_number(kube_get(get, "port"), s->container->pods, s->container);

            for (size_t n = 0; get != NULL && n < count; n++) {
                if (l[n].port == port) {
                    look_at_probe(c, s, &side, get, &l[n]);
                    break;
                }
            }
        }
    }
}
