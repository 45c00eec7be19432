/* The store's pod and its flags that name an etcd cluster and Secrets. */
#include "deploy/import/import.h"

#include "deploy/kube/rdzv_conf.h"

#include <string.h>

#define SCHEME "etcd://"

/* The value of a flag; NULL: it is not set. */
static const char *import_flag(struct importer *m, const struct job_store *s, const char *name)
{
    struct job_setting found;

    return job_store_option(&m->jobs, s->container, name, NULL, &found) ? found.value.text : NULL;
}

bool import_restarts_in_place(struct importer *m)
{
    return m->run->store != NULL && import_flag(m, m->run->store, "exit-on-restart") != NULL;
}

bool import_is_replica(struct importer *m, const struct job_store *s)
{
    const char *journal = import_flag(m, s, "journal");

    return journal != NULL && strncmp(journal, SCHEME, strlen(SCHEME)) == 0;
}

/* The Secret and the key in it that are the file a flag names; NULL: it is none. */
static struct yaml_node *key_at(struct importer *m, const struct job_store *s, const char *name)
{
    const char *path = import_flag(m, s, name);
    const struct yaml_node *secret = path == NULL ? NULL : kube_secret_at(s->container, path);
    const struct yaml_node *item;
    struct yaml_node *out = yaml_new(&m->arena, YAML_MAPPING);
    const char *key = path == NULL ? "" : kube_base_name(path);

    if (secret == NULL)
        return NULL;
    item = kube_item(kube_get(secret, "items"), "path", key);
    if (item != NULL)
        key = kube_text(item, "key");
    import_put(m, out, "name", kube_get(secret, "secretName"));
    import_put_text(m, out, "key", key);
    return out;
}

static const char *instance_of(struct importer *m)
{
    const struct yaml_node *instance = yaml_get(m->settings, "instance");

    return instance == NULL ? m->job->name : instance->text;
}

const char *import_store_name(struct importer *m)
{
    return arena_text(&m->arena, "%s-rdzv", instance_of(m));
}

/* --- The pod. --- */

/* Labels or annotations of the store's pod that emit does not write by itself, or NULL. */
static struct yaml_node *others_of(struct importer *m, const struct yaml_node *all)
{
    struct yaml_node *out = yaml_without(
        &m->arena, all,
        WORDS("app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component",
              "cluster-autoscaler.kubernetes.io/safe-to-evict", "prometheus.io/path",
              "prometheus.io/port", "prometheus.io/scheme", "prometheus.io/scrape", "rdzvd",
              "sidecar.istio.io/inject"));

    return out->count > 0 ? out : NULL;
}

/* How the user wants it, wherever it is. */
static void read_wishes(struct importer *m, const struct kube_pods *p, struct yaml_node *rdzv)
{
    FOREACH_WORD(field, "nodeSelector", "tolerations", "affinity", "serviceAccountName",
                 "imagePullSecrets")
        import_put(m, rdzv, field, kube_get(p->spec, field));
    import_put(m, rdzv, "priority", kube_get(p->spec, "priorityClassName"));
    import_put(m, rdzv, "labels", others_of(m, kube_get(p->meta, "labels")));
    import_put(m, rdzv, "annotations", others_of(m, kube_get(p->meta, "annotations")));
}

static void read_own_pod(struct importer *m, const struct kube_pods *p, struct yaml_node *rdzv)
{
    const struct yaml_node *claim = kube_get(p->object->spec, "volumeClaimTemplates[0].spec");

    if (strcmp(p->object->name, import_store_name(m)) != 0)
        import_put_text(m, rdzv, "name", p->object->name);
    if (!kube_same_namespace(p->object, m->job))
        yaml_put_filled(&m->arena, rdzv, "namespace", p->object->namespace);
    import_put(m, rdzv, "durable", kube_get(claim, "resources.requests.storage"));
    import_put(m, rdzv, "storageClass", kube_get(claim, "storageClassName"));
    if (kube_is(p->meta, "annotations.prometheus\\.io/scrape", "true"))
        import_put_text(m, rdzv, "metrics", "annotations");
}

/* --- The journal. --- */

static struct yaml_node *read_etcd_tls(struct importer *m, const struct job_store *s)
{
    const char *ca = import_flag(m, s, "journal-ca");
    const struct yaml_node *secret = ca == NULL ? NULL : kube_secret_at(s->container, ca);
    struct yaml_node *out = yaml_new(&m->arena, YAML_MAPPING);

    if (ca != NULL && secret == NULL)
        import_note(m, s->container->node,
                    "%s: its --journal-ca is in no Secret, and the user file needs one: set "
                    "rdzv.journal.tls",
                    job_store_object(s)->name);
    if (secret == NULL)
        return NULL;
    import_put(m, out, "secret", kube_get(secret, "secretName"));
    if (import_flag(m, s, "journal-cert") == NULL)
        import_put_plain(m, out, "clientCertificate", "false");
    import_put_text(m, out, "serverName", import_flag(m, s, "journal-server-name"));
    return out;
}

static void read_url(struct importer *m, const struct job_store *s, struct yaml_node *journal)
{
    const char *text = import_flag(m, s, "journal") + strlen(SCHEME), *slash = strchr(text, '/');
    const char *namespace = job_store_object(s)->namespace;
    struct yaml_node *list = yaml_new(&m->arena, YAML_SEQUENCE);
    const char *usual = /* as emit writes it */
        arena_text(&m->arena, "%s.%s", *namespace == '\0' ? "$(POD_NAMESPACE)" : namespace,
                   instance_of(m));

    while (*text != '\0' && *text != '/') {
        size_t len = strcspn(text, ",/");

        yaml_append(&m->arena, list, yaml_new_text(&m->arena, text, len));
        text += len + (text[len] == ',');
    }
    import_put(m, journal, "endpoints", list);
    if (slash != NULL && strcmp(slash + 1, usual) != 0)
        import_put_text(m, journal, "prefix", slash + 1);
}

/* The namespace to which the policies of the pods let them out, or NULL. */
static const struct yaml_node *read_namespace(struct importer *m, const struct job_store *s)
{
    static const char path[] =
        "to[0].namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name";

    KUBE_FOREACH(o, &m->bundle) {
        if (o->type != KUBE_NETWORK_POLICY || !kube_same_namespace(o, job_store_object(s)) ||
            !kube_selects_by(kube_get(o->spec, "podSelector"), s->container->pods))
            continue;
        YAML_FOREACH(rule, kube_get(o->spec, "egress")) {
            if (kube_get(rule, path) != NULL)
                return kube_get(rule, path);
        }
    }
    return NULL;
}

static void read_journal(struct importer *m, const struct job_store *s, struct yaml_node *rdzv)
{
    struct yaml_node *journal = yaml_new(&m->arena, YAML_MAPPING);
    long count = s->container->pods->replicas;

    read_url(m, s, journal);
    import_put_text(m, journal, "lease", import_flag(m, s, "journal-lease"));
    import_put_text(m, journal, "user", import_flag(m, s, "journal-user"));
    import_put(m, journal, "password", key_at(m, s, "journal-password-file"));
    import_put(m, journal, "tls", read_etcd_tls(m, s));
    import_put(m, journal, "namespace", read_namespace(m, s));
    if (count > 1 && count != 3)
        yaml_put_number(&m->arena, rdzv, "replicas", count);
    if (m->run->store->kind != JOB_STORE_RELAY)
        import_put_plain(m, rdzv, "relays", "false");
    import_put(m, rdzv, "journal", journal);
}

/* --- TLS. --- */

static const struct kube_object *issued_certificate(struct importer *m, const struct job_store *s,
                                                    const char *secret)
{
    return FIND(o, KUBE_FOREACH(o, &m->bundle),
                strcmp(o->kind, "Certificate") == 0 &&
                    kube_same_namespace(o, job_store_object(s)) &&
                    kube_is(o->spec, "secretName", secret));
}

/* The Secret of the relays, or of agents on etcd-v2; "": none. */
static const char *client_secret(struct importer *m)
{
    const struct job_store *relay = m->run->store;
    const char *ca = relay != NULL && relay->kind == JOB_STORE_RELAY
                         ? import_flag(m, relay, "upstream-ca")
                         : NULL;

    if (ca != NULL)
        return kube_text(kube_secret_at(relay->container, ca), "secretName");
    return kube_text(kube_secret_at(m->container, "/etc/rdzvd/client-tls/ca.crt"), "secretName");
}

/* The first of the names that clients have to have, unless emit would choose it. */
static const char *client_name(struct importer *m, const struct job_store *s, bool issued)
{
    const char *names = import_flag(m, s, "client-names"), *namespace = m->job->namespace, *usual;

    if (names == NULL)
        return NULL;
    names = arena_copy(&m->arena, names, strcspn(names, ","));
    usual = arena_text(&m->arena, "rdzv://relay/%s%s%s", namespace, *namespace == '\0' ? "" : ".",
                       m->job->name);
    return issued && strcmp(names, usual) == 0 ? NULL : names;
}

static void read_tls(struct importer *m, const struct job_store *s, struct yaml_node *rdzv)
{
    const char *cert = import_flag(m, s, "cert"), *store = job_store_object(s)->name, *secret,
               *client;
    struct yaml_node *tls, *issuer;
    const struct kube_object *made;
    bool asks = import_flag(m, s, "client-ca") != NULL;

    if (cert == NULL)
        return;
    tls = yaml_put_new(&m->arena, rdzv, "tls", YAML_MAPPING);
    secret = kube_text(kube_secret_at(s->container, cert), "secretName");
    made = issued_certificate(m, s, secret);
    client = client_secret(m);
    if (made != NULL) {
        issuer = yaml_put_new(&m->arena, tls, "issuer", YAML_MAPPING);
        import_put(m, issuer, "name", kube_get(made->spec, "issuerRef.name"));
        import_put(m, issuer, "kind", kube_get(made->spec, "issuerRef.kind"));
        import_put(m, issuer, "group", kube_get(made->spec, "issuerRef.group"));
    }
    if (*secret != '\0' &&
        (made == NULL || strcmp(secret, arena_text(&m->arena, "%s-tls", store)) != 0))
        import_put_text(m, tls, "secret", secret);
    if (made != NULL && !asks)
        import_put_plain(m, tls, "clientCertificates", "false");
    if (*client != '\0' && strcmp(client, secret) != 0 &&
        (made == NULL || strcmp(client, arena_text(&m->arena, "%s-client-tls", store)) != 0))
        import_put_text(m, tls, "clientSecret", client);
    if (asks)
        import_put_text(m, tls, "clientName", client_name(m, s, made != NULL));
}

/* An id that emit would not choose, since somebody has written it. */
static const char *written_id(struct importer *m)
{
    const struct job_value *id = &m->run->settings[TORCHRUN_RDZV_ID].value;
    const char *usual = arena_joined(&m->arena, m->job->namespace, ".", m->job->name);

    return !id->known || *id->text == '\0' || id->field_count > 0 ||
                   strpbrk(id->text, "$`") != NULL || strcmp(id->text, usual) == 0
               ? NULL
               : id->text;
}

void import_store(struct importer *m, const struct job_store *s, struct yaml_node *rdzv)
{
    import_put_text(m, rdzv, "id", written_id(m));
    if (!s->container->init)
        read_wishes(m, s->container->pods, rdzv);
    if (job_store_object(s) == m->job)
        return;
    read_own_pod(m, s->container->pods, rdzv);
    if (import_is_replica(m, s))
        read_journal(m, s, rdzv);
    read_tls(m, s, rdzv);
    import_put(m, rdzv, "adminToken", key_at(m, s, "admin-token-file"));
}

/* --- Relays to a store of other files. --- */

bool import_relays(struct importer *m, struct yaml_node *rdzv)
{
    const struct job_store *relay = m->run->store;
    struct yaml_node *tls;
    long port = m->run->port, usual = strcmp(m->run->backend, "c10d") == 0 ? 29400 : 2379;
    struct job_upstream up, second;

    if (relay == NULL || !job_relay_upstream(&m->jobs, relay, 0, &up) || !up.known ||
        !up.well_formed || job_relay_upstream(&m->jobs, relay, 1, &second))
        return false;
    import_put_text(m, rdzv, "placement", "relay");
    import_put_text(m, rdzv, "endpoint", up.text);
    import_put_text(m, rdzv, "id", written_id(m));
    import_put(m, rdzv, "image", kube_field(relay->container, "image"));
    if (port > 0 && port != usual)
        yaml_put_number(&m->arena, rdzv, "relayPort", port);
    if (import_flag(m, relay, "upstream-ca") == NULL)
        return true;
    tls = yaml_put_new(&m->arena, rdzv, "tls", YAML_MAPPING);
    import_put_text(m, tls, "clientSecret", client_secret(m));
    if (import_flag(m, relay, "upstream-cert") == NULL)
        import_put_plain(m, tls, "clientCertificates", "false");
    import_put_text(m, tls, "serverName", import_flag(m, relay, "upstream-name"));
    return true;
}

void import_client_tls(struct importer *m, struct yaml_node *rdzv)
{
    const char *conf = job_text(m->run, TORCHRUN_RDZV_CONF), *secret = client_secret(m);
    struct yaml_node *tls;
    struct rdzv_conf_entry e;

    if (*secret == '\0' || !rdzv_conf_find(conf, "ca_cert", &e))
        return;
    tls = yaml_put_new(&m->arena, rdzv, "tls", YAML_MAPPING);
    import_put_text(m, tls, "clientSecret", secret);
    if (!rdzv_conf_find(conf, "ssl_cert", &e))
        import_put_plain(m, tls, "clientCertificates", "false");
}
