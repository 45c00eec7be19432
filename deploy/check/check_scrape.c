/* A rule about Prometheus: it comes from outside of the job, and policies keep strangers out. */
#include "deploy/check/check.h"

#include <string.h>

/* Policies that let strangers in at other ports are compared with each scrape; beyond this the rule
 * is silent. */
#define LOOKS_MAX 1000000

/* A port of pods that Prometheus is told to scrape. */
struct scrape {
    const struct kube_pods *pods;
    const char *port;  /* a number or a name; "": not known */
    const char *asker; /* "the annotations of …", for the message */
};

/* --- What a policy lets in. --- */

/* A selector that matches pods of these files is meant for them, unless it matches all. */
static bool is_for_others(const struct check *c, const struct kube_object *policy,
                          const struct yaml_node *selector)
{
    return selector == NULL || selector->count == 0 ||
           kube_next_selected_by(&c->bundle, policy, selector, NULL) == NULL;
}

/* Pods of another namespace, or pods that are not in these files: one of them may be Prometheus. */
static bool is_for_strangers(const struct check *c, const struct kube_object *policy,
                             const struct yaml_node *rule)
{
    const struct yaml_node *peers = kube_get(rule, "from");

    for (size_t i = 0; i < yaml_length(peers); i++) {
        const struct yaml_node *peer = peers->items[i];

        if (kube_get(peer, "ipBlock") != NULL || yaml_get_pair(peer, "namespaceSelector") != NULL ||
            is_for_others(c, policy, kube_get(peer, "podSelector")))
            return true;
    }
    return yaml_length(peers) == 0;
}

/* A rule of the policy lets strangers in, at the port of the scrape; NULL: at any port. */
static bool policy_admits_scrape(struct check *c, const struct kube_object *policy,
                                 const struct scrape *s)
{
    const struct yaml_node *ingress = kube_get(policy->spec, "ingress");
    long port =
        s == NULL ? -1 : kube_port_number(yaml_new_plain(&c->bundle.arena, s->port), s->pods, NULL);

    for (size_t i = 0; i < yaml_length(ingress); i++) {
        if ((s == NULL || check_admits_port(ingress->items[i], s->pods, port)) &&
            is_for_strangers(c, policy, ingress->items[i]))
            return true;
    }
    return false;
}

/* What the rule looks up, so that it need not go through all objects for each of them. */
struct scrapes {
    struct check *c;
    bool *stores;               /* by index of pods: there is a store */
    struct kube_index services; /* see index_service() */
    struct kube_index looked;   /* endpoints, and pods of Services, by all that matters here */
};

static const char *label_key(struct check *c, const char *key, const char *value)
{
    return arena_text(&c->bundle.arena, "%s=%s", key, value);
}

/* Services are found by namespace, name of a port, and label, each of which "" leaves open. */
static const char *service_scope(struct check *c, const char *namespace, const char *port)
{
    return arena_text(&c->bundle.arena, "%s %s", namespace, port);
}

static void index_labels(struct scrapes *all, const struct kube_object *o, const char *scope)
{
    const struct yaml_node *labels = kube_get(o->node, "metadata.labels");
    struct arena *a = &all->c->bundle.arena;

    kube_index_add(a, &all->services, scope, "", o->index);
    for (size_t i = 0; labels != NULL && labels->kind == YAML_MAPPING && i < labels->count; i++) {
        const char *text = yaml_text(labels->pairs[i].value);

        if (text != NULL)
            kube_index_add(a, &all->services, scope,
                           label_key(all->c, labels->pairs[i].key->text, text), o->index);
    }
}

static void index_port(struct scrapes *all, const struct kube_object *o, const char *port)
{
    index_labels(all, o, service_scope(all->c, "", port));
    if (*o->namespace != '\0')
        index_labels(all, o, service_scope(all->c, o->namespace, port));
}

static void index_service(struct scrapes *all, const struct kube_object *o)
{
    const struct yaml_node *ports = kube_get(o->spec, "ports");

    index_port(all, o, "");
    for (size_t i = 0; i < yaml_length(ports); i++) {
        const char *name = kube_text(ports->items[i], "name");

        if (*name != '\0')
            index_port(all, o, name);
    }
}

static void index_for_scrapes(struct scrapes *all)
{
    struct check *c = all->c;

    for (size_t i = 0; i < c->bundle.pod_count; i++)
        all->stores[i] = job_store_in(&c->jobs, c->bundle.pods[i]) != NULL;
    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];

        if (o->type == KUBE_SERVICE)
            index_service(all, o);
    }
}

/* Whether one of the policies with a selector lets strangers in, at any port. */
static bool lets_strangers_in(struct check *c, struct check_selected *s)
{
    for (size_t i = 0; i < s->ingress.count && !s->strangers_known && !s->lets_strangers_in; i++)
        s->lets_strangers_in = policy_admits_scrape(c, s->ingress.list[i], NULL);
    s->strangers_known = true;
    return s->lets_strangers_in;
}

/* The last of the policies with one selector if none of them admits the scrape; NULL: one does. */
static const struct kube_object *policy_closing_scrape(struct check *c, struct check_selected *of,
                                                       const struct scrape *s)
{
    for (size_t i = 0; i < of->ingress.count && lets_strangers_in(c, of); i++) {
        if (c->looks++ > LOOKS_MAX || policy_admits_scrape(c, of->ingress.list[i], s))
            return NULL;
    }
    return of->ingress.list[of->ingress.count - 1];
}

/* Policies add up: one that admits it is enough. */
static void look_at_scrape(struct check *c, const struct scrape *s)
{
    const struct check_selections *of = &c->selections[s->pods->index];
    const struct kube_object *closed = NULL;

    for (size_t i = 0; i < of->count && !s->pods->host_network; i++) {
        const struct kube_object *last;

        if (of->list[i]->ingress.count == 0)
            continue;
        last = policy_closing_scrape(c, of->list[i], s);
        if (last == NULL)
            return;
        if (closed == NULL || last->index > closed->index)
            closed = last;
    }
    if (closed != NULL)
        check_report_on(
            c, closed, check_at_key(closed->spec, "ingress"),
            "%s has Prometheus scrape %s%s%s, and this policy admits only the job's pods", s->asker,
            check_title(c, s->pods->object), *s->port == '\0' ? "" : " at port ", s->port);
}

/* --- What Prometheus is told. --- */

static void look_at_annotations(struct scrapes *all, const struct kube_pods *p)
{
    const struct yaml_node *notes = kube_get(p->meta, "annotations");
    struct scrape s = {p, kube_text(notes, "prometheus\\.io/port"),
                       "the annotation prometheus.io/scrape"};

    if (strcmp(kube_text(notes, "prometheus\\.io/scrape"), "true") == 0)
        look_at_scrape(all->c, &s);
}

/* The port of the pods behind a port of the Service. */
static const char *target_port(const struct kube_object *service, const char *name)
{
    const struct yaml_node *port = kube_item(kube_get(service->spec, "ports"), "name", name);
    const char *target = kube_text(port, "targetPort");

    return *target != '\0' ? target : kube_text(port, "port");
}

/* Whether these pods, or this endpoint, come for the first time: again they would find the same, in
 * the same places. Namespaces have no space in them, ports neither. */
static bool is_first(struct scrapes *all, const char *scope, const char *what, const char *port)
{
    struct arena *a = &all->c->bundle.arena;
    const char *text = arena_text(a, "%s %s", port, what);
    bool first = kube_index_find(&all->looked, scope, text, strlen(text)).count == 0;

    if (first)
        kube_index_add(a, &all->looked, scope, text, 0);
    return first;
}

/* What an endpoint of a ServiceMonitor scrapes: the port of that name where a Service has it, else
 * a port of the pods, else each. */
struct endpoint {
    const struct kube_object *monitor;
    const struct yaml_node *wanted; /* labels of Services */
    const char *port, *direct;
};

static void look_at_service(struct scrapes *all, const struct endpoint *e,
                            const struct kube_object *service)
{
    const char *port = *e->port == '\0' ? e->direct : target_port(service, e->port);
    const struct kube_pods *p = NULL;

    if (!is_first(all, service->namespace,
                  kube_print(&all->c->bundle.arena, kube_get(service->spec, "selector")), port))
        return;
    while ((p = kube_next_selected(&all->c->bundle, service, p)) != NULL) {
        struct scrape s = {p, port, check_title(all->c, e->monitor)};

        if (all->stores[p->index])
            look_at_scrape(all->c, &s);
    }
}

/* In one namespace; "": in all. */
static void look_in(struct scrapes *all, const struct endpoint *e, const char *namespace)
{
    struct check *c = all->c;
    const char *scope = service_scope(c, namespace, e->port), *label = "";
    const struct yaml_node *wanted = e->wanted;
    struct kube_hits hits;

    if (!is_first(all, scope, kube_print(&c->bundle.arena, wanted), e->direct))
        return;
    if (wanted != NULL && wanted->kind == YAML_MAPPING && wanted->count > 0 &&
        yaml_text(wanted->pairs[0].value) != NULL)
        label = label_key(c, wanted->pairs[0].key->text, wanted->pairs[0].value->text);
    hits = kube_index_find(&all->services, scope, label, strlen(label));
    for (size_t i = 0; i < hits.count; i++) {
        const struct kube_object *service = c->bundle.objects[hits.list[i]];

        if (kube_has_labels(service, wanted))
            look_at_service(all, e, service);
    }
}

/* A monitor selects Services of its own namespace, of those that it names, or of any. */
static void look_at_endpoint(struct scrapes *all, const struct endpoint *e)
{
    const struct yaml_node *spec = e->monitor->spec;
    const struct yaml_node *names = kube_get(spec, "namespaceSelector.matchNames");

    if (strcmp(kube_text(spec, "namespaceSelector.any"), "true") == 0) {
        look_in(all, e, "");
        return;
    }
    for (size_t i = 0; i < yaml_length(names); i++) {
        const char *name = yaml_text(names->items[i]);

        if (name != NULL && *name != '\0')
            look_in(all, e, name);
    }
    if (yaml_length(names) == 0)
        look_in(all, e, e->monitor->namespace);
}

static void look_at_monitor(struct scrapes *all, const struct kube_object *monitor)
{
    const struct yaml_node *endpoints = kube_get(monitor->spec, "endpoints");

    for (size_t i = 0; i < yaml_length(endpoints); i++) {
        const struct yaml_node *at = endpoints->items[i];
        const char *port = kube_text(at, "port");
        struct endpoint e = {monitor, kube_get(monitor->spec, "selector.matchLabels"), port,
                             *port != '\0' ? "" : kube_text(at, "targetPort")};

        look_at_endpoint(all, &e);
    }
}

void check_scrape_blocked(struct check *c)
{
    struct scrapes all = {.c = c, .stores = arena_alloc(&c->bundle.arena, c->bundle.pod_count + 1)};

    if (c->jobs.store_count == 0)
        return;
    index_for_scrapes(&all);
    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        if (all.stores[i])
            look_at_annotations(&all, c->bundle.pods[i]);
    }
    for (size_t i = 0; i < c->bundle.count; i++) {
        if (strcmp(c->bundle.objects[i]->kind, "ServiceMonitor") == 0)
            look_at_monitor(&all, c->bundle.objects[i]);
    }
}
