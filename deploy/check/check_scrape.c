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

/* Whether a rule admits pods of another namespace, or pods outside these files: Prometheus may be
 * among them. A selector that matches pods of these files is meant for them, unless it is for all.
 */
static bool is_for_strangers(const struct check *c, const struct kube_object *policy,
                             const struct yaml_node *rule)
{
    const struct yaml_node *peers = kube_get(rule, "from");

    YAML_FOREACH(peer, peers) {
        const struct yaml_node *pods = kube_get(peer, "podSelector");
        struct kube_selection own = kube_select_by(&c->bundle, policy, pods);

        if (kube_get(peer, "ipBlock") != NULL || yaml_get_pair(peer, "namespaceSelector") != NULL ||
            pods == NULL || pods->count == 0 || kube_select_next(&own) == NULL)
            return true;
    }
    return yaml_length(peers) == 0;
}

/* A rule of the policy lets strangers in, at the port of the scrape; NULL: at any port. */
static bool policy_admits_scrape(struct check *c, const struct kube_object *policy,
                                 const struct scrape *s)
{
    long port =
        s == NULL ? -1 : kube_port_number(yaml_new_plain(&c->bundle.arena, s->port), s->pods, NULL);

    return ANY(YAML_FOREACH(rule, kube_get(policy->spec, "ingress")),
               (s == NULL || check_admits_port(rule, s->pods, port)) &&
                   is_for_strangers(c, policy, rule));
}

/* --- Services, found by namespace, name of a port, and label, each of which "" leaves open. --- */

static const char *label_key(struct check *c, const char *key, const char *value)
{
    return arena_text(&c->bundle.arena, "%s=%s", key, value);
}

static const char *service_scope(struct check *c, const char *namespace, const char *port)
{
    return arena_text(&c->bundle.arena, "%s %s", namespace, port);
}

static void index_labels(struct check *c, const struct kube_object *o, const char *scope)
{
    struct arena *a = &c->bundle.arena;

    kube_index_add(a, &c->index, scope, "", o->index);
    YAML_FOREACH_PAIR(label, kube_get(o->node, "metadata.labels")) {
        const char *text = yaml_text(label->value);

        if (text != NULL)
            kube_index_add(a, &c->index, scope, label_key(c, label->key->text, text), o->index);
    }
}

static void index_port(struct check *c, const struct kube_object *o, const char *port)
{
    index_labels(c, o, service_scope(c, "", port));
    if (*o->namespace != '\0')
        index_labels(c, o, service_scope(c, o->namespace, port));
}

void check_find_services(struct check *c, const struct kube_object *o)
{
    if (o->type != KUBE_SERVICE)
        return;
    index_port(c, o, "");
    YAML_FOREACH(port, kube_get(o->spec, "ports")) {
        const char *name = kube_text(port, "name");

        if (*name != '\0')
            index_port(c, o, name);
    }
}

/* --- Policies. --- */

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

/* Policies add up: one that admits the scrape is enough, and pods on the network of the host are
 * under none. If all are closed, each could be mended: the finding is at the last one of the
 * bundle. */
static void report_closed_scrape(struct check *c, const struct scrape *s)
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
            s->pods->object->title, *s->port == '\0' ? "" : " at port ", s->port);
}

/* --- What Prometheus is told. --- */

void check_scrape_of_pods(struct check *c, const struct kube_pods *p)
{
    const struct yaml_node *notes = kube_get(p->meta, "annotations");
    struct scrape s = {p, kube_text(notes, "prometheus\\.io/port"),
                       "the annotation prometheus.io/scrape"};

    if (job_store_in(&c->jobs, p) != NULL && kube_is(notes, "prometheus\\.io/scrape", "true"))
        report_closed_scrape(c, &s);
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
static bool is_first(struct check *c, const char *scope, const char *what, const char *port)
{
    const char *text = arena_text(&c->bundle.arena, "%s %s %s", scope, port, what);
    bool first = kube_index_find(&c->index, "looked", text).count == 0;

    if (first)
        kube_index_add(&c->bundle.arena, &c->index, "looked", text, 0);
    return first;
}

/* What an endpoint of a ServiceMonitor scrapes: the port of that name where a Service has it, else
 * a port of the pods, else each. */
struct endpoint {
    const struct kube_object *monitor;
    const struct yaml_node *wanted; /* labels of Services */
    const char *port, *direct;
};

static void look_at_service(struct check *c, const struct endpoint *e,
                            const struct kube_object *service)
{
    const char *port = *e->port == '\0' ? e->direct : target_port(service, e->port);
    struct kube_selection pods = kube_select(&c->bundle, NULL, service);
    const struct kube_pods *p;

    if (!is_first(c, service->namespace,
                  kube_print(&c->bundle.arena, kube_get(service->spec, "selector")), port))
        return;
    while ((p = kube_select_next(&pods)) != NULL) {
        struct scrape s = {p, port, e->monitor->title};

        if (job_store_in(&c->jobs, p) != NULL)
            report_closed_scrape(c, &s);
    }
}

/* In one namespace; "": in all. */
static void look_in(struct check *c, const struct endpoint *e, const char *namespace)
{
    const char *scope = service_scope(c, namespace, e->port), *label = "";
    const struct yaml_node *wanted = e->wanted;

    if (!is_first(c, scope, kube_print(&c->bundle.arena, wanted), e->direct))
        return;
    if (wanted != NULL && wanted->kind == YAML_MAPPING && wanted->count > 0 &&
        yaml_text(wanted->pairs[0].value) != NULL)
        label = label_key(c, wanted->pairs[0].key->text, wanted->pairs[0].value->text);
    KUBE_FOREACH_HIT(hit, kube_index_find(&c->index, scope, label)) {
        const struct kube_object *service = c->bundle.objects[*hit.list];

        if (kube_has_labels(service, wanted))
            look_at_service(c, e, service);
    }
}

/* A monitor selects Services in its own namespace, in `matchNames`, or in every namespace. */
static void look_at_endpoint(struct check *c, const struct endpoint *e)
{
    const struct yaml_node *spec = e->monitor->spec;
    const struct yaml_node *names = kube_get(spec, "namespaceSelector.matchNames");

    if (kube_is(spec, "namespaceSelector.any", "true")) {
        look_in(c, e, "");
        return;
    }
    YAML_FOREACH(item, names) {
        const char *name = yaml_text(item);

        if (name != NULL && *name != '\0')
            look_in(c, e, name);
    }
    if (yaml_length(names) == 0)
        look_in(c, e, e->monitor->namespace);
}

void check_scrape_of_monitor(struct check *c, const struct kube_object *o)
{
    const struct yaml_node *endpoints =
        strcmp(o->kind, "ServiceMonitor") == 0 ? kube_get(o->spec, "endpoints") : NULL;

    YAML_FOREACH(at, endpoints) {
        const char *port = kube_text(at, "port");
        struct endpoint e = {o, kube_get(o->spec, "selector.matchLabels"), port,
                             *port != '\0' ? "" : kube_text(at, "targetPort")};

        look_at_endpoint(c, &e);
    }
}
