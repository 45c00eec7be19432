/* Finds the owners of objects in their bundle. See kube_view.h for the contract. */
#include "deploy/kube/kube_view.h"

#include <string.h>

struct owners {
    struct kube_bundle *bundle;
    bool *shown, *made; /* by index of objects: see shows_pods(); the result */
};

const struct yaml_node *kube_controller(const struct kube_object *o)
{
    return FIND(item, YAML_FOREACH(item, kube_get(o->node, "metadata.ownerReferences")),
                kube_true(item, "controller"));
}

/* --- Which object an owner is. --- */

/* An apiVersion without its version; the core group has no name. */
static bool same_group(const char *api, const char *other)
{
    const char *end = strchr(api, '/'), *other_end = strchr(other, '/');
    size_t len = end == NULL ? 0 : (size_t)(end - api);

    return len == (other_end == NULL ? 0 : (size_t)(other_end - other)) &&
           strncmp(api, other, len) == 0;
}

/* The object of this kind and name that may own `o`; `api` has its group, `uid` may be empty. An
 * owner without a namespace belongs to the whole cluster, or its file leaves it open. */
static const struct kube_object *find_owner(const struct owners *w, const struct kube_object *o,
                                            const char *api, const char *kind, const char *uid,
                                            const char *name, size_t len)
{
    KUBE_FOREACH_HIT(hit, kube_index_find_part(&w->bundle->named, kind, name, len)) {
        const struct kube_object *owner = w->bundle->objects[*hit.list];
        const char *own = kube_text(owner->node, "metadata.uid");

        if (owner != o && (*owner->namespace == '\0' || kube_same_namespace(owner, o)) &&
            same_group(kube_text(owner->node, "apiVersion"), api) &&
            (*uid == '\0' || *own == '\0' || strcmp(uid, own) == 0))
            return owner;
    }
    return NULL;
}

/* The owner's owner, where only that one is in the bundle: the JobSet of a Pod whose Job is not
 * there, the Deployment of a Pod whose ReplicaSet is not. */
static const struct kube_object *find_indirect(const struct owners *w, const struct kube_object *o,
                                               const struct yaml_node *reference)
{
    static const struct {
        const char *label, *api, *kind;
    } labels[] = {
        {"jobset\\.sigs\\.k8s\\.io/jobset-name", "jobset.x-k8s.io/", "JobSet"},
        {"jobset\\.sigs\\.k8s\\.io/jobset-name", "trainer.kubeflow.org/", "TrainJob"},
        {"leaderworkerset\\.sigs\\.k8s\\.io/name", "leaderworkerset.x-k8s.io/", "LeaderWorkerSet"},
    };
    const struct yaml_node *given = kube_get(o->node, "metadata.labels");
    const char *set = kube_text(reference, "name"), *hash = strrchr(set, '-');
    const struct kube_object *owner;

    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        const char *name = kube_text(given, labels[i].label);

        owner = *name == '\0'
                    ? NULL
                    : find_owner(w, o, labels[i].api, labels[i].kind, "", name, strlen(name));
        if (owner != NULL)
            return owner;
    }
    if (!kube_is(reference, "kind", "ReplicaSet") || hash == NULL)
        return NULL;
    return find_owner(w, o, "apps/", "Deployment", "", set, (size_t)(hash - set));
}

/* --- What an owner shows. --- */

static bool has_containers(const struct yaml_node *node)
{
    if (node == NULL || node->kind == YAML_SCALAR || node->alias)
        return false;
    if (yaml_length(kube_get(node, "containers")) > 0)
        return true;
    return ANY(for (size_t i = 0; i < node->count; i++), has_containers(yaml_child(node, i)));
}

/* Whether the manifests show the owner's pods completely. The pods of a TrainJob come mostly from
 * its runtime; an object of an unknown kind may name only an image. */
static bool shows_pods(const struct owners *w, const struct kube_object *owner)
{
    return owner->type == KUBE_OTHER      ? has_containers(owner->spec)
           : owner->type == KUBE_TRAINJOB ? kube_runtime_of(w->bundle, owner) != NULL
                                          : true;
}

static bool is_made_by_owner(const struct owners *w, const struct kube_object *o)
{
    const struct yaml_node *reference = kube_controller(o);
    const char *name = kube_text(reference, "name");
    const struct kube_object *owner;

    if (o->wrapper != NULL && w->made[o->wrapper->index]) /* a wrapper comes before its parts */
        return true;
    if (reference == NULL)
        return false;
    owner = find_owner(w, o, kube_text(reference, "apiVersion"), kube_text(reference, "kind"),
                       kube_text(reference, "uid"), name, strlen(name));
    if (owner == NULL)
        owner = find_indirect(w, o, reference);
    if (owner == NULL)
        return false;
    if (o->type == KUBE_POD || kube_makes_pods(o->type))
        return w->shown[owner->index];
    return owner->type != KUBE_OTHER; /* no rule says that an unknown kind makes, say, a Service */
}

void kube_drop_made(struct kube_bundle *b)
{
    struct owners w = {.bundle = b};
    size_t kept = 0, before = b->count;

    w.shown = arena_alloc(&b->arena, (before + 1) * sizeof *w.shown);
    w.made = arena_alloc(&b->arena, (before + 1) * sizeof *w.made);
    for (size_t i = 0; i < before; i++)
        kube_index_add(&b->arena, &b->named, b->objects[i]->kind, b->objects[i]->name, i);
    for (size_t i = 0; i < before; i++)
        w.shown[i] = shows_pods(&w, b->objects[i]);
    for (size_t i = 0; i < before; i++)
        w.made[i] = is_made_by_owner(&w, b->objects[i]);
    for (size_t i = 0; i < before; i++) {
        if (w.made[i])
            continue;
        b->objects[kept] = b->objects[i];
        b->objects[kept]->index = kept;
        kept++;
    }
    b->named = (struct kube_index){0}; /* objects have new places */
    b->count = kept;
    b->made = before - kept;
}
