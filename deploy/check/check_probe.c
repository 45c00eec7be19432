/* Rules about the probes of stores: a store has probes, and serves the path and port that each
 * probe requests. */
#include "deploy/check/check.h"

#include <stdlib.h>
#include <string.h>

/* --- Whether there are some. --- */

void check_store_no_probe(struct check *c, const struct job_store *s)
{
    const struct yaml_node *of = s->container->node;

    if (kube_get(of, "startupProbe") == NULL && kube_get(of, "readinessProbe") == NULL &&
        kube_get(of, "livenessProbe") == NULL && !check_is_foreign(c, s))
        check_report(c, check_at_store(s), "the store %s has no probe", s->container->name);
}

void check_store_no_startup_probe(struct check *c, const struct job_store *s)
{
    if (s->container->sidecar && kube_get(s->container->node, "startupProbe") == NULL)
        check_report(
            c, check_at_store(s),
            "the sidecar %s has no startup probe, so the training may start before it listens",
            s->container->name);
}

void check_store_probe_tcp(struct check *c, const struct check_probe *probe)
{
    if (kube_get(probe->node, "tcpSocket") != NULL && !check_is_foreign(c, probe->store))
        check_report(c, check_at_key(probe->node, "tcpSocket"),
                     "the %s of %s only shows that the kernel accepts connections", probe->name,
                     probe->store->container->name);
}

void check_store_probe_loopback(struct check *c, const struct check_probe *probe)
{
    const struct kube_container *container = probe->store->container;
    const struct yaml_node *port = kube_get(probe->node, "httpGet.port");
    const struct job_listeners *all = &probe->listeners;
    long number;

    if (port == NULL)
        port = kube_get(probe->node, "tcpSocket.port");
    number = kube_port_number(port, container->pods, container);
    if (all->all && number > 0 && job_listener_at(all, number) != NULL &&
        !ANY(JOB_FOREACH_LISTENER(l, all), l->port == number && !l->local) &&
        kube_get(probe->node, "httpGet.host") == NULL &&
        kube_get(probe->node, "tcpSocket.host") == NULL)
        check_report(c, check_at(port),
                     "the kubelet dials the pod's address, but port %ld is on loopback only",
                     number);
}

/* --- Ports and paths. --- */

/* Whether the ports of all listeners are known, and the store does not just use its defaults. */
static bool has_known_ports(struct check *c, const struct check_probe *probe)
{
    const struct job_store *s = probe->store;
    struct job_listeners clients = job_store_listeners(&c->jobs, s, false);

    if (!clients.all || clients.count == 0 ||
        check_option(c, s, "listen-client-http-urls", NULL) != NULL)
        return false;
    return probe->listeners.all && probe->listeners.count < JOB_LISTENERS_MAX &&
           !ANY(JOB_FOREACH_LISTENER(l, &probe->listeners), l->port <= 0);
}

/* The store listens at the port, or another container of the pod lists it: a proxy in front of the
 * store, say. */
static bool port_is_served(const struct check_probe *probe, long port)
{
    const struct kube_container *own = probe->store->container;

    return job_listener_at(&probe->listeners, port) != NULL ||
           ANY(KUBE_FOREACH_CONTAINER(c, own->pods), c != own && check_lists_port(c, port));
}

static void look_at_port(struct check *c, const struct check_probe *probe,
                         const struct yaml_node *action)
{
    const struct kube_container *container = probe->store->container;
    const struct yaml_node *port = kube_get(action, "port");
    const char *name = kube_text(action, "port"); /* the API server checks only its form */
    long number = kube_port_number(port, container->pods, container);

    if (*kube_text(action, "host") != '\0')
        return;
    if (number < 0 && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0' &&
        strpbrk(name, "abcdefghijklmnopqrstuvwxyz") != NULL)
        check_report(c, check_at(port), "%s has no port named %s", container->name, name);
    else if (number > 0 && !port_is_served(probe, number))
        check_report(c, check_at(port), "%s does not listen at port %ld", container->name, number);
}

/* The port that a probe names as `rdzvd --check-health=localhost:PORT/PATH`; -1: none. */
static long asked_port(const char *word)
{
    const char *colon;
    char *end;
    long port;

    if (word == NULL ||
        !text_begins(word, "--check-health=localhost:", "--check-health=127.0.0.1:"))
        return -1;
    colon = strchr(word, ':');
    port = strtol(colon + 1, &end, 10);
    return end > colon + 1 && *end == '/' ? port : -1;
}

void check_store_probe_port(struct check *c, const struct check_probe *probe)
{
    if (check_is_foreign(c, probe->store) || !has_known_ports(c, probe))
        return;
    look_at_port(c, probe, kube_get(probe->node, "httpGet"));
    look_at_port(c, probe, kube_get(probe->node, "tcpSocket"));
    YAML_FOREACH(word, kube_get(probe->node, "exec.command")) {
        long port = asked_port(yaml_text(word));

        if (port > 0 && !port_is_served(probe, port))
            check_report(c, check_at(word), "%s does not listen at port %ld",
                         probe->store->container->name, port);
    }
}

/* The paths of rdzv/routes.c; a test compares them. `metrics`: those of --listen-metrics-urls. */
static bool has_path(const struct job_store *s, const char *path, bool metrics)
{
    if (metrics)
        return text_is(path, "/metrics") ||
               (s->kind != JOB_STORE_RELAY && text_is(path, "/health"));
    return ANY(FOREACH_WORD(above, "/rdzv/v1/spaces", "/v2/auth", "/v2/keys", "/v2/members"),
               text_begins(path, above) && strchr("/", path[strlen(above)]) != NULL) ||
           text_is(path, "/", "/config/local/log", "/debug/vars", "/health", "/livez", "/metrics",
                   "/rdzv/v1/monitor", "/rdzv/v1/status", "/readyz", "/startz", "/v2/machines",
                   "/v2/stats/leader", "/v2/stats/self", "/v2/stats/store", "/version");
}

static void look_at_path(struct check *c, const struct check_probe *probe, struct check_position at,
                         const char *text, long port)
{
    const struct job_store *s = probe->store;
    const char *path = arena_copy(&c->bundle.arena, text, strcspn(text, "?"));
    /* Only listeners of --listen-metrics-urls have the port. */
    bool metrics = !ANY(JOB_FOREACH_LISTENER(l, &probe->listeners),
                        l->port == port && strcmp(l->option, "listen-metrics-urls") != 0);

    if (*path == '\0')
        path = "/"; /* Kubernetes' default */
    if (job_listener_at(&probe->listeners, port) != NULL && strpbrk(text, "%${}#") == NULL &&
        *path == '/' && !has_path(s, path, metrics))
        check_report(c, at, "%s has no path %s at port %ld%s", s->container->name, path, port,
                     metrics ? ", which is for metrics" : "");
}

void check_store_probe_path(struct check *c, const struct check_probe *probe)
{
    const struct job_store *s = probe->store;
    const struct yaml_node *get = kube_get(probe->node, "httpGet");

    if (s->kind == JOB_STORE_ETCD || !has_known_ports(c, probe))
        return;
    if (get != NULL && *kube_text(get, "host") == '\0')
        look_at_path(c, probe, check_at_first(get, "path", "port"), kube_text(get, "path"),
                     kube_port_number(kube_get(get, "port"), s->container->pods, s->container));
    YAML_FOREACH(word, kube_get(probe->node, "exec.command")) {
        long port = asked_port(yaml_text(word));

        if (port > 0)
            look_at_path(c, probe, check_at(word), strchr(yaml_text(word), '/'), port);
    }
}
