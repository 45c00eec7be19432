/* Rules about single fields and objects that Kubernetes refuses or cannot use. */
#include "deploy/check/check.h"

#include <stdlib.h>
#include <string.h>

static void look_at_capabilities(struct check *c, const struct kube_object *o,
                                 const struct yaml_node *list)
{
    for (size_t i = 0; i < yaml_length(list); i++) {
        const char *text = yaml_text(list->items[i]);

        if (text != NULL && strncmp(text, "CAP_", 4) == 0)
            check_report(c, o, check_at(list->items[i]), "there is no capability %s; write %s",
                         text, text + 4);
    }
}

void check_capability_prefix(struct check *c)
{
    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        const struct kube_pods *p = c->bundle.pods[i];

        for (size_t j = 0; j < p->count; j++) {
            const struct yaml_node *caps =
                kube_get(p->containers[j].node, "securityContext.capabilities");

            look_at_capabilities(c, p->object, kube_get(caps, "add"));
            look_at_capabilities(c, p->object, kube_get(caps, "drop"));
        }
    }
}

static void look_at_quantities(struct check *c, const struct kube_object *o,
                               const struct yaml_node *map)
{
    for (size_t i = 0; map != NULL && map->kind == YAML_MAPPING && i < map->count; i++) {
        if (yaml_type(map->pairs[i].value) == YAML_FLOAT)
            check_report(c, o, check_at(map->pairs[i].value),
                         "%s: %s is a fraction, and a %s accepts none", map->pairs[i].key->text,
                         yaml_text(map->pairs[i].value), o->kind);
    }
}

static bool is_custom(const struct kube_object *o)
{
    return o->type == KUBE_JOBSET || o->type == KUBE_VOLCANO_JOB || o->type == KUBE_PYTORCHJOB ||
           o->type == KUBE_TRAINJOB || o->type == KUBE_RUNTIME;
}

void check_quantity_fraction(struct check *c)
{
    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        const struct kube_pods *p = c->bundle.pods[i];

        for (size_t j = 0; j < p->count && is_custom(p->object); j++) {
            const struct yaml_node *resources = kube_get(p->containers[j].node, "resources");

            look_at_quantities(c, p->object, kube_get(resources, "requests"));
            look_at_quantities(c, p->object, kube_get(resources, "limits"));
        }
    }
    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];
        const struct yaml_node *custom = kube_get(o->entry, "custompodresources");

        look_at_quantities(c, o, kube_get(o->spec, "trainer.resourcesPerNode.requests"));
        look_at_quantities(c, o, kube_get(o->spec, "trainer.resourcesPerNode.limits"));
        for (size_t j = 0; j < yaml_length(custom); j++) {
            look_at_quantities(c, o->wrapper, kube_get(custom->items[j], "requests"));
            look_at_quantities(c, o->wrapper, kube_get(custom->items[j], "limits"));
        }
    }
}

/* Of every claim, by namespace and name, the pods that mount it. */
static void index_claims(struct check *c, struct kube_index *claims)
{
    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        const struct kube_pods *p = c->bundle.pods[i];
        const struct yaml_node *lists[] = {
            kube_get(p->spec, "volumes"),
            p->object->type == KUBE_VOLCANO_JOB ? kube_get(p->object->spec, "volumes") : NULL};

        for (size_t k = 0; k < 2; k++) {
            const char *path = k == 0 ? "persistentVolumeClaim.claimName" : "volumeClaimName";

            for (size_t j = 0; j < yaml_length(lists[k]); j++)
                kube_index_add(&c->bundle.arena, claims, p->object->namespace,
                               kube_text(lists[k]->items[j], path), i);
        }
    }
}

static long count_mounting(const struct check *c, const struct kube_index *claims,
                           const struct kube_object *claim)
{
    struct kube_hits hits =
        kube_index_find(claims, claim->namespace, claim->name, strlen(claim->name));
    long sum = 0;

    for (size_t i = 0; i < hits.count; i++) {
        long replicas = c->bundle.pods[hits.list[i]]->replicas;

        sum += replicas > 0 ? replicas : 0;
    }
    return sum;
}

void check_pvc_access_mode(struct check *c)
{
    struct kube_index claims = {0};

    index_claims(c, &claims);
    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];
        const struct yaml_node *modes = kube_get(o->spec, "accessModes");
        bool many = false;
        long pods;

        if (o->type != KUBE_CLAIM || yaml_length(modes) == 0 || *o->name == '\0')
            continue;
        for (size_t j = 0; j < yaml_length(modes); j++)
            many = many || yaml_is(modes->items[j], "ReadWriteMany") ||
                   yaml_is(modes->items[j], "ReadOnlyMany");
        pods = many ? 0 : count_mounting(c, &claims, o);
        if (pods > 1)
            check_report(c, o, check_at(modes->items[0]),
                         "%ld pods mount this claim, but its volume can be on one node only", pods);
    }
}

static void look_at_class(struct check *c, const struct kube_object *o,
                          const struct yaml_node *spec)
{
    const char *text = kube_text(spec, "storageClassName");

    if (strcmp(text, "nil") == 0 || strcmp(text, "null") == 0 || strcmp(text, "None") == 0)
        check_report(c, o, check_at_first(spec, "storageClassName"),
                     "this asks for a storage class with the name `%s`", text);
}

void check_storage_class_nil(struct check *c)
{
    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];
        const struct yaml_node *claims = kube_get(o->spec, "volumeClaimTemplates");

        if (o->type == KUBE_CLAIM)
            look_at_class(c, o, o->spec);
        for (size_t j = 0; j < yaml_length(claims); j++)
            look_at_class(c, o, kube_get(claims->items[j], "spec"));
    }
}

static const char *group_of(struct check *c, const struct kube_object *o)
{
    const char *api = kube_text(o->node, "apiVersion"), *slash = strchr(api, '/');

    return slash == NULL ? "" : arena_copy(&c->bundle.arena, api, (size_t)(slash - api));
}

static int by_name(const void *a, const void *b)
{
    const struct kube_object *first = *(const struct kube_object *const *)a;
    const struct kube_object *second = *(const struct kube_object *const *)b;
    int order = strcmp(first->name, second->name);

    if (order == 0)
        order = strcmp(first->kind, second->kind);
    if (order == 0)
        order = strcmp(first->namespace, second->namespace);
    return order != 0 ? order : (first->index > second->index) - (first->index < second->index);
}

void check_duplicate_object(struct check *c)
{
    const struct kube_object **sorted =
        arena_alloc(&c->bundle.arena, (c->bundle.count + 1) * sizeof *sorted);

    for (size_t i = 0; i < c->bundle.count; i++)
        sorted[i] = c->bundle.objects[i];
    qsort(sorted, c->bundle.count, sizeof *sorted, by_name);
    for (size_t i = 1; i < c->bundle.count; i++) {
        const struct kube_object *a = sorted[i - 1], *b = sorted[i];

        if (*a->name != '\0' && *a->kind != '\0' && strcmp(a->name, b->name) == 0 &&
            strcmp(a->kind, b->kind) == 0 && kube_same_namespace(a, b) &&
            strcmp(group_of(c, a), group_of(c, b)) == 0)
            check_report(c, b, check_at_first(b->node, "metadata.name"),
                         "%s %s is defined a second time", b->kind, b->name);
    }
}
