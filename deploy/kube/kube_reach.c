/* Finds the pods that a selector selects, and the targets of host names and ports. */
#include "deploy/kube/kube_view.h"

#include <string.h>

/* --- Selecting. --- */

static const struct kube_label *label_of(const struct kube_pods *p, const char *key)
{
    for (size_t i = 0; i < p->label_count; i++) {
        if (strcmp(p->labels[i].key, key) == 0)
            return &p->labels[i];
    }
    return NULL;
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
    for (size_t i = 0; i < yaml_length(values); i++) {
        if (label->value == NULL || yaml_is(values->items[i], label->value))
            return true;
    }
    return false;
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

bool kube_selects_by(const struct yaml_node *selector, const struct kube_pods *p)
{
    const struct yaml_node *labels = kube_get(selector, "matchLabels");
    const struct yaml_node *expressions = kube_get(selector, "matchExpressions");

    if (labels != NULL && (labels->kind != YAML_MAPPING || !labels_match(labels, p)))
        return false;
    for (size_t i = 0; i < yaml_length(expressions); i++) {
        if (!expression_matches(expressions->items[i], p))
            return false;
    }
    return true;
}

const struct kube_pods *kube_next_selected(const struct kube_bundle *b,
                                           const struct kube_object *service,
                                           const struct kube_pods *after)
{
    const struct yaml_node *selector = kube_get(service->spec, "selector");

    for (size_t i = after == NULL ? 0 : after->index + 1; i < b->pod_count; i++) {
        const struct kube_pods *p = b->pods[i];

        if (kube_same_namespace(p->object, service) && kube_selects(selector, p))
            return p;
    }
    return NULL;
}

/* --- Names. --- */

/* Compares `name`, `name.namespace` or `name.namespace.svc...` with a name; *namespace is the one
 * in the host name, or "". */
static bool name_matches(const char *host, const char *name, const char **namespace,
                         size_t *namespace_len)
{
    size_t len = strlen(name);

    *namespace = "";
    *namespace_len = 0;
    if (len == 0 || strncmp(host, name, len) != 0)
        return false;
    if (host[len] == '\0')
        return true;
    if (host[len] != '.')
        return false;
    *namespace = host + len + 1;
    *namespace_len = strcspn(*namespace, ".");
    return (*namespace)[*namespace_len] == '\0' ||
           strncmp(*namespace + *namespace_len, ".svc", 4) == 0;
}

/* Whether the host name, with its namespace or without one, leads to the namespace of the
 * object. */
static bool namespace_matches(const struct kube_object *o, const struct kube_object *from,
                              const char *namespace, size_t len, enum kube_reach *reach)
{
    *reach = KUBE_REACHED;
    if (len > 0)
        return *o->namespace == '\0' ||
               (strlen(o->namespace) == len && strncmp(o->namespace, namespace, len) == 0);
    if (!kube_same_namespace(o, from))
        *reach =
            *o->namespace == '\0' || *from->namespace == '\0' ? KUBE_UNDECIDED : KUBE_ELSEWHERE;
    return true;
}

/* prefix, digits, then "." and domain; `rest` comes after the prefix. */
static bool pod_matches(const struct kube_pods *p, const char *host, const char **namespace,
                        size_t *namespace_len)
{
    size_t len;

    if (p->host_prefix == NULL || *p->host_prefix == '\0')
        return false;
    len = strlen(p->host_prefix);
    if (strncmp(host, p->host_prefix, len) != 0)
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
        *namespace_len = strcspn(*namespace, ".");
        return *host == '.' || *host == '\0';
    }
    return *host == '.' && name_matches(host + 1, p->host_domain, namespace, namespace_len);
}

/* POD.SERVICE of a headless Service, if the pods have the name POD and no more is known of their
 * names: a Pod that becomes a StatefulSet. */
static bool is_pod_behind(const struct kube_bundle *b, const struct kube_object *service,
                          const char *host, const char **namespace, size_t *namespace_len)
{
    const char *dot = strchr(host, '.');
    const struct kube_pods *p = NULL;

    if (dot == NULL || !name_matches(dot + 1, service->name, namespace, namespace_len) ||
        !kube_is_headless(service))
        return false;
    while ((p = kube_next_selected(b, service, p)) != NULL) {
        size_t len = strlen(p->object->name);

        if (p->host_prefix == NULL && len > 0 && strncmp(host, p->object->name, len) == 0)
            return true;
    }
    return false;
}

/* Keeps the target that is reached more surely. */
static void keep_nearer(struct kube_target *found, struct kube_target other)
{
    if ((found->service == NULL && found->pods == NULL) || other.reach < found->reach)
        *found = other;
}

bool kube_find_host(const struct kube_bundle *b, const struct kube_object *from, const char *host,
                    struct kube_target *out)
{
    struct kube_target found = {0};
    enum kube_reach reach;
    const char *namespace;
    size_t namespace_len;

    for (size_t i = 0; i < b->count; i++) {
        const struct kube_object *o = b->objects[i];

        if (o->type == KUBE_SERVICE &&
            (name_matches(host, o->name, &namespace, &namespace_len) ||
             is_pod_behind(b, o, host, &namespace, &namespace_len)) &&
            namespace_matches(o, from, namespace, namespace_len, &reach))
            keep_nearer(&found, (struct kube_target){.service = o, .reach = reach});
    }
    for (size_t i = 0; i < b->pod_count; i++) {
        const struct kube_pods *p = b->pods[i];

        if (pod_matches(p, host, &namespace, &namespace_len) &&
            namespace_matches(p->object, from, namespace, namespace_len, &reach))
            keep_nearer(&found, (struct kube_target){.pods = p, .reach = reach});
    }
    if (found.service == NULL && found.pods == NULL)
        return false;
    *out = found;
    return true;
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
    for (size_t i = 0; i < p->count; i++) {
        const struct yaml_node *ports = kube_get(p->containers[i].node, "ports");

        if (only != NULL && &p->containers[i] != only)
            continue;
        for (size_t j = 0; ports != NULL && ports->kind == YAML_SEQUENCE && j < ports->count; j++) {
            if (strcmp(kube_text(ports->items[j], "name"), text) == 0)
                return kube_int(ports->items[j], "containerPort", -1);
        }
    }
    return -1;
}
