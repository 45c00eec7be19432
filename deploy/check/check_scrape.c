/* A rule about Prometheus: it comes from outside of the job, and policies keep strangers out. */
#include "deploy/check/check.h"

#include "deploy/check/check_selected.h"
#include "deploy/yaml/buf.h"

#include <stdlib.h>
#include <string.h>

/* A port of pods that Prometheus is told to scrape. */
struct scrape {
    const struct kube_pods *pods;
    const char *port;  /* a number or a name; "": not known */
    const char *asker; /* "the annotations of …", for the message */
};

/* The number of a port that is a name in the containers of the pods; -1: there is none. */
static long port_number(const struct kube_pods *p, const char *port)
{
    char *end;
    long number = strtol(port, &end, 10);

    if (*port != '\0' && *end == '\0')
        return number;
    for (size_t i = 0; i < p->count; i++) {
        const struct yaml_node *ports = kube_get(p->containers[i].node, "ports");

        for (size_t j = 0; j < yaml_length(ports); j++) {
            if (strcmp(kube_text(ports->items[j], "name"), port) == 0)
                return kube_int(ports->items[j], "containerPort", -1);
        }
    }
    return -1;
}

/* --- What a policy lets in. --- */

static bool has_port(const struct yaml_node *rule, const struct scrape *s)
{
    const struct yaml_node *ports = kube_get(rule, "ports");
    long wanted = port_number(s->pods, s->port);

    for (size_t i = 0; i < yaml_length(ports); i++) {
        const char *text = kube_text(ports->items[i], "port");
        long first = port_number(s->pods, text), last = kube_int(ports->items[i], "endPort", first);

        if (*text == '\0' || wanted < 0 || (wanted >= first && wanted <= last))
            return true;
    }
    return yaml_length(ports) == 0;
}

/* A selector that matches pods of these files is meant for them, unless it matches all. */
static bool is_for_others(const struct check *c, const struct kube_object *policy,
                          const struct yaml_node *selector)
{
    return selector == NULL || selector->count == 0 ||
           kube_next_selected_by(&c->bundle, policy, selector, NULL) == NULL;
}

/* Pods of another namespace, or pods that are not in these files: one of them may be Prometheus. */
static bool lets_strangers_in(const struct check *c, const struct kube_object *policy,
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

static bool is_for_ingress(const struct kube_object *policy)
{
    const struct yaml_node *types = kube_get(policy->spec, "policyTypes");
    bool ingress = yaml_length(types) == 0;

    for (size_t i = 0; i < yaml_length(types); i++)
        ingress = ingress || yaml_is(types->items[i], "Ingress");
    return policy->type == KUBE_NETWORK_POLICY && ingress;
}

static bool admits(const struct check *c, const struct kube_object *policy, const struct scrape *s)
{
    const struct yaml_node *ingress = kube_get(policy->spec, "ingress");

    for (size_t i = 0; i < yaml_length(ingress); i++) {
        if (has_port(ingress->items[i], s) && lets_strangers_in(c, policy, ingress->items[i]))
            return true;
    }
    return false;
}

/* What the rule looks up, so that it need not go through all objects for each of them. */
struct scrapes {
    struct check *c;
    struct kube_index policies;   /* of incoming traffic, by the number of what they select */
    struct kube_index selections; /* of policies, by the number of the pods */
    struct kube_index closed;     /* what look_at_policies() found, by what it was asked */
    struct kube_index services;   /* by label, and all of them as "" */
    struct kube_index looked; /* monitors and Services, by all that matters here: see is_first() */
};

static const char *number_key(struct check *c, size_t number)
{
    return arena_text(&c->bundle.arena, "%zu", number);
}

static const char *label_key(struct check *c, const char *key, const char *value)
{
    return arena_text(&c->bundle.arena, "%s=%s", key, value);
}

static void index_service(struct scrapes *all, const struct kube_object *o)
{
    const struct yaml_node *labels = kube_get(o->node, "metadata.labels");
    struct arena *a = &all->c->bundle.arena;

    kube_index_add(a, &all->services, "", "", o->index);
    for (size_t i = 0; labels != NULL && labels->kind == YAML_MAPPING && i < labels->count; i++) {
        const char *text = yaml_text(labels->pairs[i].value);

        if (text != NULL)
            kube_index_add(a, &all->services, "",
                           label_key(all->c, labels->pairs[i].key->text, text), o->index);
    }
}

/* Only the pods of stores are looked at. */
static void index_policy(struct scrapes *all, const struct kube_object *o)
{
    struct check *c = all->c;
    struct check_selected *s = check_selected(c, o, kube_get(o->spec, "podSelector"));
    const char *key = number_key(c, s->index);
    bool first = kube_index_find(&all->policies, "", key, strlen(key)).count == 0;

    kube_index_add(&c->bundle.arena, &all->policies, "", key, o->index);
    for (size_t i = 0; i < s->count && first; i++) {
        if (job_store_in(&c->jobs, s->list[i]) != NULL)
            kube_index_add(&c->bundle.arena, &all->selections, "", number_key(c, s->list[i]->index),
                           s->index);
    }
}

static void index_objects(struct scrapes *all)
{
    for (size_t i = 0; i < all->c->bundle.count; i++) {
        const struct kube_object *o = all->c->bundle.objects[i];

        if (o->type == KUBE_SERVICE)
            index_service(all, o);
        else if (is_for_ingress(o))
            index_policy(all, o);
    }
}

/* All that policies ask of a scrape: its port, and the names of ports that they may use. */
static const char *scrape_key(struct scrapes *all, size_t selection, const struct scrape *s)
{
    struct buf b = {.arena = &all->c->bundle.arena};

    buf_print(&b, "%zu %ld", selection, port_number(s->pods, s->port));
    for (size_t i = 0; i < s->pods->count; i++)
        buf_print(
            &b, " %s",
            kube_print(&all->c->bundle.arena, kube_get(s->pods->containers[i].node, "ports")));
    return b.text;
}

/* The last of the policies with one selector if none of them admits the scrape; NULL: one does. */
static const struct kube_object *look_at_policies(struct scrapes *all, size_t selection,
                                                  const struct scrape *s)
{
    struct check *c = all->c;
    const char *asked = scrape_key(all, selection, s), *key = number_key(c, selection);
    struct kube_hits known = kube_index_find(&all->closed, "", asked, strlen(asked));
    struct kube_hits hits = kube_index_find(&all->policies, "", key, strlen(key));
    const struct kube_object *closed = NULL;

    if (known.count > 0)
        return known.list[0] == 0 ? NULL : c->bundle.objects[known.list[0] - 1];
    for (size_t i = 0; i < hits.count; i++) {
        closed = c->bundle.objects[hits.list[i]];
        if (admits(c, closed, s)) {
            closed = NULL;
            break;
        }
    }
    kube_index_add(&c->bundle.arena, &all->closed, "", asked,
                   closed == NULL ? 0 : closed->index + 1);
    return closed;
}

/* Policies add up: one that admits it is enough. */
static void look_at(struct scrapes *all, const struct scrape *s)
{
    struct check *c = all->c;
    const char *key = number_key(c, s->pods->index);
    struct kube_hits hits = kube_index_find(&all->selections, "", key, strlen(key));
    const struct kube_object *closed = NULL;

    for (size_t i = 0; i < hits.count && !s->pods->host_network; i++) {
        const struct kube_object *last = look_at_policies(all, hits.list[i], s);

        if (last == NULL)
            return;
        if (closed == NULL || last->index > closed->index)
            closed = last;
    }
    if (closed != NULL)
        check_report(c, closed, check_at_key(closed->spec, "ingress"),
                     "%s has Prometheus scrape %s%s%s, and this policy admits the job's pods alone",
                     s->asker, check_title(c, s->pods->object), *s->port == '\0' ? "" : " at port ",
                     s->port);
}

/* --- What Prometheus is told. --- */

static void look_at_annotations(struct scrapes *all, const struct kube_pods *p)
{
    struct scrape s = {p, kube_text(p->meta, "annotations.prometheus\\.io/port"),
                       "the annotation prometheus.io/scrape"};

    if (strcmp(kube_text(p->meta, "annotations.prometheus\\.io/scrape"), "true") == 0)
        look_at(all, &s);
}

/* The port of the pods behind a port of the Service. */
static const char *target_port(const struct kube_object *service, const char *name)
{
    const struct yaml_node *ports = kube_get(service->spec, "ports");

    for (size_t i = 0; i < yaml_length(ports); i++) {
        const char *target = kube_text(ports->items[i], "targetPort");

        if (strcmp(kube_text(ports->items[i], "name"), name) == 0)
            return *target != '\0' ? target : kube_text(ports->items[i], "port");
    }
    return "";
}

static void look_at_endpoints(struct scrapes *all, const struct kube_object *monitor,
                              const struct kube_object *service, const struct kube_pods *p)
{
    const struct yaml_node *endpoints = kube_get(monitor->spec, "endpoints");

    for (size_t i = 0; i < yaml_length(endpoints); i++) {
        const char *port = kube_text(endpoints->items[i], "port");
        const char *direct = kube_text(endpoints->items[i], "targetPort");
        struct scrape s = {p, *direct != '\0' ? direct : target_port(service, port),
                           check_title(all->c, monitor)};

        look_at(all, &s);
    }
}

/* The Services that have one of the labels; all, if none is wanted. */
static struct kube_hits services_of(struct scrapes *all, const struct yaml_node *wanted)
{
    const char *key = "";

    if (wanted != NULL && wanted->kind == YAML_MAPPING && wanted->count > 0 &&
        yaml_text(wanted->pairs[0].value) != NULL)
        key = label_key(all->c, wanted->pairs[0].key->text, wanted->pairs[0].value->text);
    return kube_index_find(&all->services, "", key, strlen(key));
}

/* Whether it is the first with this text: another one would find the same, in the same places. */
static bool is_first(struct scrapes *all, const char *scope, const char *text)
{
    bool first = kube_index_find(&all->looked, scope, text, strlen(text)).count == 0;

    if (first)
        kube_index_add(&all->c->bundle.arena, &all->looked, scope, text, 0);
    return first;
}

static bool is_first_monitor(struct scrapes *all, const struct kube_object *monitor)
{
    struct arena *a = &all->c->bundle.arena;

    return is_first(all, "",
                    arena_text(a, "%s %s",
                               kube_print(a, kube_get(monitor->spec, "selector.matchLabels")),
                               kube_print(a, kube_get(monitor->spec, "endpoints"))));
}

/* The first with its pods and ports that the monitor selects. */
static bool is_first_service(struct scrapes *all, const struct kube_object *monitor,
                             const struct kube_object *service)
{
    struct arena *a = &all->c->bundle.arena;

    return is_first(all, number_key(all->c, monitor->index),
                    arena_text(a, "%s %s %s", service->namespace,
                               kube_print(a, kube_get(service->spec, "selector")),
                               kube_print(a, kube_get(service->spec, "ports"))));
}

static void look_at_monitor(struct scrapes *all, const struct kube_object *monitor)
{
    const struct yaml_node *wanted = kube_get(monitor->spec, "selector.matchLabels");
    struct kube_hits hits = services_of(all, wanted);

    for (size_t i = 0; i < hits.count; i++) {
        const struct kube_object *service = all->c->bundle.objects[hits.list[i]];
        const struct kube_pods *p = NULL;

        if (!kube_has_labels(service, wanted) || !is_first_service(all, monitor, service))
            continue;
        while ((p = kube_next_selected(&all->c->bundle, service, p)) != NULL) {
            if (job_store_in(&all->c->jobs, p) != NULL)
                look_at_endpoints(all, monitor, service, p);
        }
    }
}

void check_scrape_blocked(struct check *c)
{
    struct scrapes all = {.c = c};

    if (c->jobs.store_count == 0)
        return;
    index_objects(&all);
    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        if (job_store_in(&c->jobs, c->bundle.pods[i]) != NULL)
            look_at_annotations(&all, c->bundle.pods[i]);
    }
    for (size_t i = 0; i < c->bundle.count; i++) {
        if (strcmp(c->bundle.objects[i]->kind, "ServiceMonitor") == 0 &&
            is_first_monitor(&all, c->bundle.objects[i]))
            look_at_monitor(&all, c->bundle.objects[i]);
    }
}
