/* Rules about the probes of stores: that they are there, and that what they ask for is served. */
#include "deploy/check/check.h"

#include <stdlib.h>
#include <string.h>

static const struct kube_object *store_object(const struct job_store *s)
{
    return s->container->pods->object;
}

static struct check_position at_name(const struct job_store *s)
{
    return check_at_first(s->container->node, "name image");
}

/* --- Whether there are some. --- */

static const char *const probes[] = {"startupProbe", "readinessProbe", "livenessProbe"};

void check_store_no_probe(struct check *c)
{
    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];
        size_t found = 0;

        for (size_t j = 0; j < 3; j++)
            found += kube_get(s->container->node, probes[j]) != NULL;
        if (found == 0 && !check_is_foreign(c, s))
            check_report(c, store_object(s), at_name(s), "the store %s has no probe",
                         s->container->name);
    }
}

void check_store_no_startup_probe(struct check *c)
{
    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];

        if (s->container->sidecar && kube_get(s->container->node, probes[0]) == NULL)
            check_report(
                c, store_object(s), at_name(s),
                "the sidecar %s has no startup probe, so the training may start before it listens",
                s->container->name);
    }
}

void check_store_probe_tcp(struct check *c)
{
    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];

        for (size_t j = 0; j < 3; j++) {
            const struct yaml_node *probe = kube_get(s->container->node, probes[j]);

            if (kube_get(probe, "tcpSocket") != NULL && !check_is_foreign(c, s))
                check_report(c, store_object(s), check_at_key(probe, "tcpSocket"),
                             "the %s of %s only shows that the kernel accepts connections",
                             probes[j], s->container->name);
        }
    }
}

static void look_at_probe(struct check *c, const struct job_store *s, const struct yaml_node *probe,
                          const struct job_listener *l, size_t count)
{
    const struct yaml_node *port = kube_get(probe, "httpGet.port");
    long number;

    if (port == NULL)
        port = kube_get(probe, "tcpSocket.port");
    number = kube_port_number(port, s->container->pods, s->container);
    for (size_t i = 0; i < count && number > 0; i++) {
        if (l[i].port == number && !l[i].local)
            return;
    }
    for (size_t i = 0; i < count && number > 0; i++) {
        if (l[i].port == number)
            check_report(c, store_object(s), check_at(port),
                         "the kubelet dials the pod's address, but port %ld is on loopback only",
                         number);
    }
}

void check_store_probe_loopback(struct check *c)
{
    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];
        struct job_listener l[JOB_LISTENERS_MAX];
        size_t count;

        if (!job_store_listeners(&c->jobs, s, true, l, &count))
            continue;
        for (size_t j = 0; j < 3; j++)
            look_at_probe(c, s, kube_get(s->container->node, probes[j]), l, count);
    }
}

/* --- Ports and paths. --- */

/* The listeners of the store, for clients and others; false: there may be more. */
static bool all_listeners(struct check *c, const struct job_store *s, struct job_listener *out,
                          size_t *count)
{
    struct job_setting found;

    if (!job_store_listeners(&c->jobs, s, false, out, count) || *count == 0 ||
        job_store_option(&c->jobs, s->container, "listen-client-http-urls",
                         "ETCD_LISTEN_CLIENT_HTTP_URLS", &found) ||
        !job_store_listeners(&c->jobs, s, true, out, count) || *count == JOB_LISTENERS_MAX)
        return false;
    for (size_t i = 0; i < *count; i++) {
        if (out[i].port <= 0)
            return false;
    }
    return true;
}

static bool has_listener(const struct job_listener *l, size_t count, long port)
{
    for (size_t i = 0; i < count; i++) {
        if (l[i].port == port)
            return true;
    }
    return false;
}

/* Another container of the pod lists the port: a proxy in front of the store, say. */
static bool is_of_other(const struct job_store *s, long port)
{
    const struct kube_pods *p = s->container->pods;

    for (size_t i = 0; i < p->count; i++) {
        const struct yaml_node *ports = kube_get(p->containers[i].node, "ports");

        for (size_t j = 0; &p->containers[i] != s->container && j < yaml_length(ports); j++) {
            if (kube_int(ports->items[j], "containerPort", -1) == port)
                return true;
        }
    }
    return false;
}

/* The name of a port, of which the API server takes the form alone. */
static bool is_port_name(const char *text)
{
    return text != NULL && text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0' &&
           strpbrk(text, "abcdefghijklmnopqrstuvwxyz") != NULL;
}

static void look_at_port(struct check *c, const struct job_store *s, const struct yaml_node *port,
                         const struct job_listener *l, size_t count)
{
    long number = kube_port_number(port, s->container->pods, s->container);

    if (number < 0 && is_port_name(yaml_text(port)))
        check_report(c, store_object(s), check_at(port), "%s has no port named %s",
                     s->container->name, yaml_text(port));
    else if (number > 0 && !has_listener(l, count, number) && !is_of_other(s, number))
        check_report(c, store_object(s), check_at(port), "%s does not listen at port %ld",
                     s->container->name, number);
}

/* The port that a probe names as `rdzvd --check-health=localhost:PORT/PATH`; -1: none. */
static long asked_port(const char *word)
{
    static const char *const starts[] = {"--check-health=localhost:", "--check-health=127.0.0.1:"};

    for (size_t i = 0; word != NULL && i < sizeof starts / sizeof *starts; i++) {
        size_t len = strlen(starts[i]);
        char *end;
        long port;

        if (strncmp(word, starts[i], len) != 0)
            continue;
        port = strtol(word + len, &end, 10);
        return end > word + len && *end == '/' ? port : -1;
    }
    return -1;
}

static void look_at_command(struct check *c, const struct job_store *s,
                            const struct yaml_node *words, const struct job_listener *l,
                            size_t count)
{
    for (size_t i = 0; i < yaml_length(words); i++) {
        long port = asked_port(yaml_text(words->items[i]));

        if (port > 0 && !has_listener(l, count, port) && !is_of_other(s, port))
            check_report(c, store_object(s), check_at(words->items[i]),
                         "%s does not listen at port %ld", s->container->name, port);
    }
}

void check_store_probe_port(struct check *c)
{
    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];
        struct job_listener l[JOB_LISTENERS_MAX];
        size_t count;

        if (check_is_foreign(c, s) || !all_listeners(c, s, l, &count))
            continue;
        for (size_t j = 0; j < 3; j++) {
            const struct yaml_node *probe = kube_get(s->container->node, probes[j]);

            if (*kube_text(probe, "httpGet.host") == '\0')
                look_at_port(c, s, kube_get(probe, "httpGet.port"), l, count);
            if (*kube_text(probe, "tcpSocket.host") == '\0')
                look_at_port(c, s, kube_get(probe, "tcpSocket.port"), l, count);
            look_at_command(c, s, kube_get(probe, "exec.command"), l, count);
        }
    }
}

/* The paths of rdzv/routes.c; a test compares them. */
static const struct probe_path {
    const char *path;
    bool below;        /* and all paths below it */
    bool with_metrics; /* the listeners of --listen-metrics-urls have it, too */
    bool of_relays;    /* and those of a relay */
} probe_paths[] = {
    {"/", false, false, false},
    {"/config/local/log", false, false, false},
    {"/debug/vars", false, false, false},
    {"/health", false, true, false},
    {"/livez", false, false, false},
    {"/metrics", false, true, true},
    {"/rdzv/v1/monitor", false, false, false},
    {"/rdzv/v1/spaces", true, false, false},
    {"/rdzv/v1/status", false, false, false},
    {"/readyz", false, false, false},
    {"/v2/auth", true, false, false},
    {"/v2/keys", true, false, false},
    {"/v2/machines", false, false, false},
    {"/v2/members", true, false, false},
    {"/v2/stats/leader", false, false, false},
    {"/v2/stats/self", false, false, false},
    {"/v2/stats/store", false, false, false},
    {"/version", false, false, false},
};

static bool has_path(const struct job_store *s, const char *path, size_t len, bool metrics)
{
    for (size_t i = 0; i < sizeof probe_paths / sizeof *probe_paths; i++) {
        const struct probe_path *p = &probe_paths[i];
        size_t own = strlen(p->path);

        if (strncmp(path, p->path, own < len ? own : len) == 0 &&
            (len == own || (p->below && len > own && path[own] == '/')) &&
            (!metrics || (s->kind == JOB_STORE_RELAY ? p->of_relays : p->with_metrics)))
            return true;
    }
    return false;
}

/* Only listeners of --listen-metrics-urls have the port. */
static bool is_for_metrics(const struct job_listener *l, size_t count, long port)
{
    for (size_t i = 0; i < count; i++) {
        if (l[i].port == port && strcmp(l[i].option, "listen-metrics-urls") != 0)
            return false;
    }
    return true;
}

static void look_at_path(struct check *c, const struct job_store *s, const struct yaml_node *get,
                         const struct job_listener *l, size_t count)
{
    const char *path = kube_text(get, "path");
    size_t len = strcspn(path, "?");
    long port = kube_port_number(kube_get(get, "port"), s->container->pods, s->container);
    bool metrics = is_for_metrics(l, count, port);

    if (get == NULL || *kube_text(get, "host") != '\0' || !has_listener(l, count, port) ||
        strpbrk(path, "%${}#") != NULL)
        return;
    if (len == 0) { /* Kubernetes' default */
        path = "/";
        len = 1;
    }
    if (*path == '/' && !has_path(s, path, len, metrics))
        check_report(c, store_object(s), check_at_first(get, "path port"),
                     "%s has no path %.*s at port %ld%s", s->container->name, (int)len, path, port,
                     metrics ? ", which is for metrics" : "");
}

void check_store_probe_path(struct check *c)
{
    for (size_t i = 0; i < c->jobs.store_count; i++) {
        const struct job_store *s = &c->jobs.stores[i];
        struct job_listener l[JOB_LISTENERS_MAX];
        size_t count;

        if (s->kind == JOB_STORE_ETCD || !all_listeners(c, s, l, &count))
            continue;
        for (size_t j = 0; j < 3; j++)
            look_at_path(c, s, kube_get(kube_get(s->container->node, probes[j]), "httpGet"), l,
                         count);
    }
}
