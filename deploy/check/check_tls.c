/* Rules about TLS: clients and stores that disagree about it, missing certificates, and names that
 * a certificate lacks. */
#include "deploy/check/check.h"

#include "deploy/kube/rdzv_conf.h"

#include <string.h>
#include <strings.h>

/* --- What a store does. --- */

/* How an rdzvd speaks TLS, as far as its flags and variables say. */
struct tls_side {
    bool known;       /* no setting can come from a file */
    bool serves;      /* it has a certificate */
    bool takes_plain; /* from other pods as well */
    bool asks;        /* its clients have to show a certificate */
    struct job_setting cert;
};

static bool is_text(const char *text, const char *wanted)
{
    return text != NULL && strcmp(text, wanted) == 0;
}

/* rdzvd takes etcd's flags as well: cert-file is its cert, trusted-ca-file its client-ca, and
 * config-file a file of settings as etcd has it. client-cert-auth only wants that CA to be there.
 */
static struct tls_side side_of(struct check *c, const struct job_store *s)
{
    const char *plaintext = check_option(c, s, "plaintext", NULL);
    struct tls_side side = {.known = s->kind == JOB_STORE_RDZVD &&
                                     check_option(c, s, "config", NULL) == NULL &&
                                     check_option(c, s, "config-file", NULL) == NULL};

    side.serves = check_option(c, s, "cert", &side.cert) != NULL ||
                  check_option(c, s, "cert-file", &side.cert) != NULL;
    side.takes_plain =
        plaintext != NULL && !is_text(plaintext, "loopback") && !is_text(plaintext, "off");
    side.asks = (check_option(c, s, "client-ca", NULL) != NULL ||
                 check_option(c, s, "trusted-ca-file", NULL) != NULL) &&
                !is_text(check_option(c, s, "client-cert", NULL), "optional");
    return side;
}

/* --- Relays. --- */

void check_tls_relay(struct check *c, const struct job_upstream *u)
{
    struct tls_side store;
    struct job_setting ca;
    bool speaks = check_option(c, u->relay, "upstream-ca", &ca) != NULL;
    const char *title;

    if (u->store == NULL || check_option(c, u->relay, "config", NULL) != NULL)
        return;
    store = side_of(c, u->store);
    title = job_store_object(u->store)->title;
    if (!store.known)
        return;
    if (store.serves && !speaks && !store.takes_plain)
        check_report(c, check_at_option(u->relay, &u->setting),
                     "the relay speaks plain text, which %s takes only from its own pod", title);
    else if (!store.serves && speaks)
        check_report(c, check_at_option(u->relay, &ca),
                     "the relay speaks TLS, and %s has no --cert", title);
    else if (store.asks && speaks && check_option(c, u->relay, "upstream-cert", NULL) == NULL)
        check_report(c, check_at_option(u->relay, &ca),
                     "the relay shows no certificate, and %s asks for one (--client-ca)", title);
}

/* --- Agents. --- */

static bool speaks_https(const struct job_run *r)
{
    const char *conf = job_text(r, TORCHRUN_RDZV_CONF);
    struct rdzv_conf_entry e;

    return rdzv_conf_find(conf, "protocol", &e) && e.end - e.value_start == 5 &&
           strncmp(conf + e.value_start, "https", 5) == 0;
}

void check_tls_c10d(struct check *c, const struct job_run *r)
{
    bool c10d = strcmp(r->backend, "c10d") == 0;
    struct tls_side store;

    if (r->store == NULL || r->local || (!c10d && !job_is_etcd(r)))
        return;
    store = side_of(c, r->store);
    if (store.known && store.serves && !store.takes_plain &&
        (c10d || (!speaks_https(r) && !check_is_opaque(r))))
        check_report(c, check_at_setting(r, TORCHRUN_RDZV_ENDPOINT),
                     "%s, and %s takes plain text only from its own pod",
                     c10d ? "torch's c10d clients have no TLS" : "the conf has no protocol=https",
                     job_store_object(r->store)->title);
}

/* --- Certificates. --- */

/* The name of the Secret whose files a container reads at the path, or "". */
static const char *secret_at(const struct kube_container *container, const char *path)
{
    return kube_text(kube_volume_at(container, path), "secret.secretName");
}

/* Certificates of cert-manager by namespace and Secret. */
void check_find_certificates(struct check *c, const struct kube_object *o)
{
    if (strcmp(o->kind, "Certificate") == 0)
        kube_index_add(&c->bundle.arena, &c->index, o->namespace, kube_text(o->spec, "secretName"),
                       o->index);
}

static const struct kube_object *
certificate_naming_secret(struct check *c, const struct kube_object *user, const char *secret)
{
    struct kube_hits hits = kube_index_find(&c->index, user->namespace, secret);

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
    FOREACH_WORD(list, "dnsNames", "ipAddresses") {
        if (ANY(YAML_FOREACH(item, kube_get(certificate->spec, list)),
                names(kube_text(item, ""), host)))
            return true;
    }
    return names(kube_text(certificate->spec, "commonName"), host) &&
           kube_get(certificate->spec, "dnsNames") == NULL;
}

static void look_at_name(struct check *c, const struct job_store *s, const char *host)
{
    struct tls_side side = side_of(c, s);
    const struct kube_object *found;

    if (!side.known || !side.serves || !side.cert.value.known)
        return;
    found = certificate_naming_secret(c, job_store_object(s),
                                      secret_at(s->container, side.cert.value.text));
    if (found != NULL && !is_for(found, host))
        check_report_on(c, found, check_at_first(found->node, "spec.dnsNames", "spec.secretName"),
                        "%s comes by the name %s, which this certificate does not have",
                        c->object->title, host);
}

void check_tls_name_of_relay(struct check *c, const struct job_upstream *u)
{
    const char *name = check_option(c, u->relay, "upstream-name", NULL);

    if (u->store != NULL && check_option(c, u->relay, "upstream-ca", NULL) != NULL)
        look_at_name(c, u->store, name != NULL ? name : u->host);
}

void check_tls_name(struct check *c, const struct job_run *r)
{
    if (r->store != NULL && job_is_etcd(r) && speaks_https(r))
        look_at_name(c, r->store, r->host);
}

/* --- Secrets that nothing makes. --- */

/* The scope of Secrets that something in the namespace uses; namespaces have no blanks. */
static const char *used_in(struct check *c, const struct kube_object *o)
{
    return arena_text(&c->bundle.arena, "used in %s", o->namespace);
}

void check_find_mounted_secrets(struct check *c, const struct kube_pods *p)
{
    YAML_FOREACH(volume, kube_get(p->spec, "volumes"))
        kube_index_add(&c->bundle.arena, &c->index, used_in(c, p->object),
                       kube_text(volume, "secret.secretName"), p->index);
}

/* Those that Prometheus shows; and the Certificates. */
void check_find_shown_secrets(struct check *c, const struct kube_object *o)
{
    const struct yaml_node *endpoints =
        strcmp(o->kind, "ServiceMonitor") == 0 ? kube_get(o->spec, "endpoints") : NULL;

    check_find_certificates(c, o);
    YAML_FOREACH(endpoint, endpoints)
        kube_index_add(&c->bundle.arena, &c->index, used_in(c, o),
                       kube_text(endpoint, "tlsConfig.cert.secret.name"), o->index);
}

/* A Certificate whose Secret nothing in its namespace uses: probably the one that is missing. */
void check_find_idle_certificate(struct check *c, const struct kube_object *o)
{
    const char *secret = kube_text(o->spec, "secretName");

    if (c->idle_certificate == NULL && strcmp(o->kind, "Certificate") == 0 && *secret != '\0' &&
        kube_index_find(&c->index, used_in(c, o), secret).count == 0)
        c->idle_certificate = o;
}

void check_tls_secret(struct check *c, const struct job_store *s)
{
    const struct kube_object *idle = c->idle_certificate;

    if (idle == NULL)
        return;
    FOREACH_WORD(name, "cert", "client-ca", "upstream-ca", "upstream-cert") {
        struct job_setting file;
        const char *path = check_option(c, s, name, &file);
        const char *secret = path != NULL && file.value.known ? secret_at(s->container, path) : "";

        if (*secret == '\0' ||
            kube_named(&c->bundle, "Secret", secret, job_store_object(s)) != NULL ||
            certificate_naming_secret(c, job_store_object(s), secret) != NULL)
            continue;
        check_report(
            c, check_at_option(s, &file),
            "nothing here makes the Secret %s; %s makes %s, which no pod of its namespace has",
            secret, idle->title, kube_text(idle->spec, "secretName"));
        return;
    }
}

/* --- Probes. --- */

void check_tls_probe(struct check *c, const struct check_probe *probe)
{
    const struct kube_container *container = probe->store->container;
    const struct yaml_node *get = kube_get(probe->node, "httpGet");
    long port = kube_port_number(kube_get(get, "port"), container->pods, container);
    const struct job_listener *l = job_listener_at(&probe->listeners, port);
    struct tls_side side = side_of(c, probe->store);
    bool https = kube_is(get, "scheme", "HTTPS");
    struct check_position at = check_at_first(get, "scheme", "port");

    if (get == NULL || l == NULL || !side.known || !probe->listeners.all)
        return;
    if (!side.serves && https)
        check_report(c, at, "the kubelet speaks TLS, and %s has no --cert", container->name);
    else if (side.serves && !https && (l->tls || (!l->plain && !side.takes_plain)))
        check_report(
            c, at,
            "the kubelet speaks plain text, which %s takes at port %ld only from its own pod",
            container->name, port);
    else if (side.serves && https && l->plain)
        check_report(c, at, "the kubelet speaks TLS, and port %ld only plain text", port);
    else if (side.asks && https)
        check_report(c, at, "the kubelet has no certificate, and %s asks for one (--client-ca)",
                     container->name);
}
