/* Finds the pods that a selector selects, and the targets of host names and ports. */
#include "deploy/kube/kube_view.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* --- Selecting. --- */

static const struct kube_label *label_of(const struct kube_pods *p, const char *key)
{
    return FIND(l, FOREACH(const struct kube_label, l, p->labels, p->label_count),
                strcmp(l->key, key) == 0);
}

static bool labels_match(const struct yaml_node *wanted, const struct kube_pods *p)
{
    for (size_t i = 0; i < wanted->count; i++) {
        const char *value = yaml_text(wanted->pairs[i].value);
        const struct kube_label *label = label_of(p, wanted->pairs[i].key->text);

        if (label == NULL || value == NULL ||
            (label->value != NULL && strcmp(label->value, value) != 0))
            return false;
    }
    return true;
}

bool kube_selects(const struct yaml_node *selector, const struct kube_pods *p)
{
    return selector != NULL && selector->kind == YAML_MAPPING && selector->count > 0 &&
           labels_match(selector, p);
}

static bool has_value(const struct yaml_node *values, const struct kube_label *label)
{
    return ANY(YAML_FOREACH(value, values), label->value == NULL || yaml_is(value, label->value));
}

static bool expression_matches(const struct yaml_node *e, const struct kube_pods *p)
{
    const struct kube_label *label = label_of(p, kube_text(e, "key"));
    const struct yaml_node *values = kube_get(e, "values");
    const char *op = kube_text(e, "operator");

    if (strcmp(op, "In") == 0)
        return label != NULL && has_value(values, label);
    if (strcmp(op, "NotIn") == 0)
        return label == NULL || label->value == NULL || !has_value(values, label);
    if (strcmp(op, "Exists") == 0)
        return label != NULL;
    return label == NULL; /* DoesNotExist */
}

static bool selects(const struct yaml_node *labels, const struct yaml_node *expressions,
                    const struct kube_pods *p)
{
    if (labels != NULL && (labels->kind != YAML_MAPPING || !labels_match(labels, p)))
        return false;
    return !ANY(YAML_FOREACH(e, expressions), !expression_matches(e, p));
}

bool kube_selects_by(const struct yaml_node *selector, const struct kube_pods *p)
{
    return selects(kube_get(selector, "matchLabels"), kube_get(selector, "matchExpressions"), p);
}

bool kube_has_labels(const struct kube_object *o, const struct yaml_node *wanted)
{
    const struct yaml_node *labels = kube_get(o->node, "metadata.labels");

    return !ANY(YAML_FOREACH_PAIR(label, wanted),
                label->value->kind != YAML_SCALAR ||
                    !yaml_is(yaml_get(labels, label->key->text), label->value->text));
}

/* --- Selecting among many. --- */

/* Room for a prefix of 253 bytes, two names of 63 bytes, and separators. What is longer is cut off:
 * then more pods are candidates. */
#define LABEL_MAX 384

void kube_index_labels(struct arena *a, struct kube_index *labelled, const struct kube_pods *p)
{
    kube_index_add(a, labelled, p->object->namespace, "", p->index);
    FOREACH(const struct kube_label, l, p->labels, p->label_count) {
        char name[LABEL_MAX];

        snprintf(name, sizeof name, "%s=%s", l->key, l->value == NULL ? "" : l->value);
        kube_index_add(a, labelled, p->object->namespace, l->value == NULL ? l->key : name,
                       p->index);
    }
}

/* The pods of the label that the fewest of them have, or all of the namespace. A label whose value
 * differs for each of some pods narrows nothing. */
static struct kube_hits find_candidates(const struct kube_index *labelled, const char *namespace,
                                        const struct yaml_node *labels)
{
    struct kube_hits best = kube_index_find(labelled, namespace, "");

    YAML_FOREACH_PAIR(label, labels) {
        const char *key = label->key->text, *value = yaml_text(label->value);
        struct kube_hits found;
        char name[LABEL_MAX];

        snprintf(name, sizeof name, "%s=%s", key, value == NULL ? "" : value);
        found = kube_index_find(labelled, namespace, name);
        if (found.count < best.count && kube_index_find(labelled, namespace, key).count == 0)
            best = found;
    }
    return best;
}

struct kube_selection kube_select(const struct kube_bundle *b, const struct kube_index *labelled,
                                  const struct kube_object *service)
{
    const struct yaml_node *selector = kube_get(service->spec, "selector");
    struct kube_selection s = {.bundle = b, .labels = selector};

    if (selector != NULL && selector->kind == YAML_MAPPING && selector->count > 0)
        s.candidates = find_candidates(labelled == NULL ? &b->labelled : labelled,
                                       service->namespace, selector);
    return s;
}

struct kube_selection kube_select_by(const struct kube_bundle *b, const struct kube_object *o,
                                     const struct yaml_node *selector)
{
    struct kube_selection s = {.bundle = b,
                               .labels = kube_get(selector, "matchLabels"),
                               .expressions = kube_get(selector, "matchExpressions")};

    if (s.labels == NULL || s.labels->kind == YAML_MAPPING)
        s.candidates = find_candidates(&b->labelled, o->namespace, s.labels);
    return s;
}

const struct kube_pods *kube_select_next(struct kube_selection *s)
{
    while (s->at < s->candidates.count) {
        s->pods = s->bundle->pods[s->candidates.list[s->at++]];
        if (selects(s->labels, s->expressions, s->pods))
            return s->pods;
    }
    return NULL;
}

const struct kube_pods *kube_first_selected(const struct kube_bundle *b,
                                            const struct kube_object *service)
{
    struct kube_selection s = kube_select(b, NULL, service);

    return kube_select_next(&s);
}

/* --- Names. --- */

/* Compares `name`, `name.namespace` or `name.namespace.svc...` with a name. *namespace ends at a
 * dot or with the host; "": there is none. */
static bool name_matches(const char *host, const char *name, const char **namespace)
{
    size_t len = strlen(name);

    *namespace = "";
    if (len == 0 || strncmp(host, name, len) != 0)
        return false;
    host += len;
    if (*host != '.')
        return *host == '\0';
    *namespace = host + 1;
    host += 1 + strcspn(host + 1, ".");
    return *host == '\0' || strncmp(host, ".svc", 4) == 0;
}

/* Whether the host name, with its namespace or without one, leads to the namespace of the
 * object. */
static bool namespace_matches(const struct kube_object *o, const struct kube_object *from,
                              const char *namespace, enum kube_reach *reach)
{
    size_t len = strcspn(namespace, ".");

    *reach = KUBE_REACHED;
    if (len > 0)
        return *o->namespace == '\0' ||
               (strlen(o->namespace) == len && strncmp(o->namespace, namespace, len) == 0);
    if (!kube_same_namespace(o, from))
        *reach =
            *o->namespace == '\0' || *from->namespace == '\0' ? KUBE_UNDECIDED : KUBE_ELSEWHERE;
    return true;
}

/* prefix, digits, then "." and domain. */
static bool pod_matches(const struct kube_pods *p, const char *host, const char **namespace)
{
    size_t len = p->host_prefix == NULL ? 0 : strlen(p->host_prefix);

    if (len == 0 || strncmp(host, p->host_prefix, len) != 0)
        return false;
    host += len;
    if (p->host_prefix[len - 1] == '-') {
        size_t digits = strspn(host, "0123456789");

        if (digits == 0)
            return false;
        host += digits;
    }
    if (*p->host_domain == '\0') {
        *namespace = *host == '.' ? host + 1 : "";
        return *host == '.' || *host == '\0';
    }
    return *host == '.' && name_matches(host + 1, p->host_domain, namespace);
}

/* POD.SERVICE of a headless Service, if the pods have the name POD and no more is known of their
 * names: a Pod that becomes a StatefulSet. */
static bool is_pod_behind(const struct kube_bundle *b, const struct kube_object *service,
                          const char *host, const char **namespace)
{
    const char *dot = strchr(host, '.');

    return dot != NULL && name_matches(dot + 1, service->name, namespace) &&
           kube_is_headless(service) &&
           ANY(KUBE_FOREACH_SELECTED(one, kube_select(b, NULL, service)),
               one.pods->host_prefix == NULL && *one.pods->object->name != '\0' &&
                   text_begins(host, one.pods->object->name));
}

/* --- Looking for a host name. --- */

struct host_search {
    const struct kube_bundle *bundle;
    const struct kube_object *from;
    const char *host;
    struct kube_target best;
    size_t index; /* of the best one */
};

static bool is_in_file_of(const struct host_search *s, const struct kube_target *t)
{
    const struct kube_object *o = t->service != NULL ? t->service : t->pods->object;

    return o->node->file == s->from->node->file;
}

/* Keeps the target that is reached more surely: a Service rather than pods, one of the same file,
 * since other files of a folder may be variants, and the first of several. */
static void search_keep(struct host_search *s, struct kube_target other, size_t index)
{
    const struct kube_target *best = &s->best;
    bool none = best->service == NULL && best->pods == NULL;
    bool same_kind = (best->service != NULL) == (other.service != NULL);
    int nearer = none ? 1 : is_in_file_of(s, &other) - is_in_file_of(s, best);

    if (none || other.reach < best->reach ||
        (other.reach == best->reach && (!same_kind    ? other.service != NULL
                                        : nearer != 0 ? nearer > 0
                                                      : index < s->index))) {
        s->best = other;
        s->index = index;
    }
}

static void try_hits(struct host_search *s, struct kube_hits hits, bool services)
{
    for (size_t i = 0; i < hits.count; i++) {
        struct kube_target t = {.service = services ? s->bundle->objects[hits.list[i]] : NULL,
                                .pods = services ? NULL : s->bundle->pods[hits.list[i]]};
        const struct kube_object *o = services ? t.service : t.pods->object;
        const char *namespace;
        bool matches = services ? name_matches(s->host, o->name, &namespace) ||
                                      is_pod_behind(s->bundle, o, s->host, &namespace)
                                : pod_matches(t.pods, s->host, &namespace);

        if (!matches || !namespace_matches(o, s->from, namespace, &t.reach))
            continue;
        search_keep(s, t, hits.list[i]);
        if (t.reach == KUBE_REACHED && is_in_file_of(s, &t))
            return; /* the others come later */
    }
}

static void try_namespace(struct host_search *s, const char *namespace, size_t namespace_len,
                          const char *name, size_t len, bool services)
{
    const struct kube_index *index = services ? &s->bundle->services : &s->bundle->hosts;
    char scope[256]; /* a longer one is none of Kubernetes */

    snprintf(scope, sizeof scope, "%.*s", (int)namespace_len, namespace);
    try_hits(s, kube_index_find_part(index, scope, name, len), services);
}

/* Tries all objects of this name: in the namespace of the asking pod, without namespace, in the
 * namespace of the host name, and, if nothing was found yet, in all namespaces. */
static void try_name(struct host_search *s, const char *name, size_t len, bool services)
{
    struct kube_hits anywhere = kube_index_find_part(
        services ? &s->bundle->services : &s->bundle->hosts, KUBE_ANYWHERE, name, len);
    const char *dot = strchr(s->host, '.');

    if (anywhere.count > 4) {
        try_namespace(s, s->from->namespace, strlen(s->from->namespace), name, len, services);
        try_namespace(s, "", 0, name, len, services);
        for (size_t i = 0; i < 2 && dot != NULL; i++) {
            try_namespace(s, dot + 1, strcspn(dot + 1, "."), name, len, services);
            dot = strchr(dot + 1, '.');
        }
        if (s->best.service != NULL || s->best.pods != NULL)
            return;
    }
    try_hits(s, anywhere, services);
}

bool kube_find_host(const struct kube_bundle *b, const struct kube_object *from, const char *host,
                    struct kube_target *out)
{
    struct host_search s = {.bundle = b, .from = from, .host = host};
    const char *dot = strchr(host, '.');
    size_t len = strlen(host);
    char lower[256] = ""; /* DNS ignores case */

    /* A name has no dot in a cluster; a file may have one. */
    for (size_t i = 1; i <= len && i <= 253; i++) {
        bool end = host[i] == '.' || host[i] == '\0';

        if (end)
            try_name(&s, host, i, true);
        if (end || host[i - 1] == '-')
            try_name(&s, host, i, false);
        if (end && dot != NULL && host + i > dot + 1) /* the Service of POD.SERVICE */
            try_name(&s, dot + 1, (size_t)(host + i - dot - 1), true);
    }
    *out = s.best;
    if (s.best.service != NULL || s.best.pods != NULL)
        return true;
    for (size_t i = 0; i < len && i < sizeof lower - 1; i++)
        lower[i] = (char)tolower((unsigned char)host[i]);
    return strcmp(lower, host) != 0 && len < sizeof lower && kube_find_host(b, from, lower, out);
}

long kube_port_number(const struct yaml_node *port, const struct kube_pods *p,
                      const struct kube_container *only)
{
    const char *text = yaml_text(port);
    int64_t number;

    if (text == NULL)
        return -1;
    if (yaml_to_int(port, &number))
        return number > 0 && number < 65536 ? (long)number : -1;
    KUBE_FOREACH_CONTAINER(c, p) {
        const struct yaml_node *named = kube_item(kube_get(c->node, "ports"), "name", text);

        if (named != NULL && (only == NULL || only == c))
            return kube_int(named, "containerPort", -1);
    }
    return -1;
}
