/* A rule about Prometheus: it comes from outside of the job, and policies keep strangers out. */
#include "deploy/check/check.h"

#include <string.h>

/* Policies that let strangers in at other ports are compared with each scrape, and Services with
 * each monitor; beyond this the rule is silent. */
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

/* Whether this comes for the first time: again it would find the same, in the same places.
 * Namespaces have no space in them, ports neither. */
static bool is_first(struct check *c, const char *scope, const char *port, const char *what)
{
    const char *text = arena_text(&c->bundle.arena, "%s %s %s", scope, port, what);

    return kube_index_is_new(&c->bundle.arena, &c->index, "looked", text);
}

/* What an endpoint of a ServiceMonitor scrapes: the port of that name where a Service has it, else
 * a port of the pods, else each. */
struct endpoint {
    const struct kube_object *monitor;
    const struct yaml_node *wanted; /* labels of Services */
    const struct yaml_node *names;  /* their namespaces; none: that of the monitor */
    bool everywhere;                /* they may be in any namespace */
    const char *port, *direct;
};

static bool is_wanted(const struct endpoint *e, const struct kube_object *service)
{
    bool here = yaml_length(e->names) > 0 ? yaml_contains(e->names, service->namespace)
                                          : kube_same_namespace(service, e->monitor);

    return (e->everywhere || here) && kube_has_labels(service, e->wanted);
}

/* The pods behind a Service that has the port, whose pods may call it otherwise. */
static void look_at_service(struct check *c, const struct endpoint *e,
                            const struct kube_object *service)
{
    const struct yaml_node *ports = kube_get(service->spec, "ports");
    const struct yaml_node *named =
        FIND(item, YAML_FOREACH(item, ports), yaml_is(yaml_get(item, "name"), e->port));
    const char *target = kube_text(named, "targetPort");
    const char *port = *e->port == '\0'  ? e->direct
                       : *target == '\0' ? kube_text(named, "port")
                                         : target;

    if ((*e->port != '\0' && named == NULL) ||
        !is_first(c, service->namespace, port,
                  kube_print(&c->bundle.arena, kube_get(service->spec, "selector"))))
        return;
    KUBE_FOREACH_SELECTED(one, kube_select(&c->bundle, NULL, service))
    {
        struct scrape s = {one.pods, port, e->monitor->title};

        if (job_store_in(&c->jobs, one.pods) != NULL)
            report_closed_scrape(c, &s);
    }
}

static void look_at_endpoint(struct check *c, const struct endpoint *e)
{
    struct arena *a = &c->bundle.arena;
    const char *scope = e->everywhere               ? "*"
                        : yaml_length(e->names) > 0 ? kube_print(a, e->names)
                                                    : e->monitor->namespace;

    if (!is_first(c, scope, arena_text(a, "%s %s", e->port, e->direct), kube_print(a, e->wanted)))
        return;
    KUBE_FOREACH(o, &c->bundle) {
        if (o->type == KUBE_SERVICE && c->looks++ < LOOKS_MAX && is_wanted(e, o))
            look_at_service(c, e, o);
    }
}

void check_scrape_of_monitor(struct check *c, const struct kube_object *o)
{
    const struct yaml_node *endpoints =
        strcmp(o->kind, "ServiceMonitor") == 0 ? kube_get(o->spec, "endpoints") : NULL;

    YAML_FOREACH(at, endpoints) {
        const char *port = kube_text(at, "port");
        struct endpoint e = {.monitor = o,
                             .wanted = kube_get(o->spec, "selector.matchLabels"),
                             .names = kube_get(o->spec, "namespaceSelector.matchNames"),
                             .everywhere = kube_is(o->spec, "namespaceSelector.any", "true"),
                             .port = port,
                             .direct = *port != '\0' ? "" : kube_text(at, "targetPort")};

        look_at_endpoint(c, &e);
    }
}
