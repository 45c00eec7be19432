/* Finds the owners of objects in their bundle. See kube_view.h for the contract. */
#include "deploy/kube/kube_view.h"

#include <string.h>

enum shown { SHOWN_UNKNOWN, SHOWN_NO, SHOWN_YES };

struct owners {
    struct kube_bundle *bundle;
    struct kube_index named; /* objects by kind and name */
    char *shown;             /* by index of objects: enum shown, see shows_pods() */
    bool *made;              /* by index of objects */
};

const struct yaml_node *kube_controller(const struct kube_object *o)
{
    const struct yaml_node *list = kube_get(o->node, "metadata.ownerReferences");

    for (size_t i = 0; i < yaml_length(list); i++) {
        if (kube_true(list->items[i], "controller"))
            return list->items[i];
    }
    return NULL;
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

/* An owner without a namespace belongs to the whole cluster, or its file leaves it open. */
static bool may_own(const struct kube_object *owner, const struct kube_object *o)
{
    return owner != o && (*owner->namespace == '\0' || kube_same_namespace(owner, o));
}

static bool is_referenced(const struct kube_object *owner, const struct kube_object *o,
                          const struct yaml_node *reference)
{
    const char *uid = kube_text(reference, "uid");
    const char *owner_uid = kube_text(owner->node, "metadata.uid");

    return may_own(owner, o) &&
           same_group(kube_text(owner->node, "apiVersion"), kube_text(reference, "apiVersion")) &&
           (*uid == '\0' || *owner_uid == '\0' || strcmp(uid, owner_uid) == 0);
}

static const struct kube_object *find_direct(const struct owners *w, const struct kube_object *o,
                                             const struct yaml_node *reference)
{
    const char *name = kube_text(reference, "name");
    struct kube_hits hits =
        kube_index_find(&w->named, kube_text(reference, "kind"), name, strlen(name));

    for (size_t i = 0; i < hits.count; i++) {
        const struct kube_object *owner = w->bundle->objects[hits.list[i]];

        if (is_referenced(owner, o, reference))
            return owner;
    }
    return NULL;
}

static const struct kube_object *find_typed(const struct owners *w, const struct kube_object *o,
                                            const char *kind, enum kube_type type, const char *name,
                                            size_t len)
{
    struct kube_hits hits = kube_index_find(&w->named, kind, name, len);

    for (size_t i = 0; i < hits.count; i++) {
        const struct kube_object *owner = w->bundle->objects[hits.list[i]];

        if (owner->type == type && may_own(owner, o))
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
        const char *label, *kind;
        enum kube_type type;
    } labels[] = {
        {"jobset\\.sigs\\.k8s\\.io/jobset-name", "JobSet", KUBE_JOBSET},
        {"jobset\\.sigs\\.k8s\\.io/jobset-name", "TrainJob", KUBE_TRAINJOB},
        {"leaderworkerset\\.sigs\\.k8s\\.io/name", "LeaderWorkerSet", KUBE_LEADER_WORKER},
    };
    const struct yaml_node *given = kube_get(o->node, "metadata.labels");
    const char *set = kube_text(reference, "name"), *hash = strrchr(set, '-');
    const struct kube_object *owner;

    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        const char *name = kube_text(given, labels[i].label);

        owner = *name == '\0'
                    ? NULL
                    : find_typed(w, o, labels[i].kind, labels[i].type, name, strlen(name));
        if (owner != NULL)
            return owner;
    }
    if (strcmp(kube_text(reference, "kind"), "ReplicaSet") != 0 || hash == NULL)
        return NULL;
    return find_typed(w, o, "Deployment", KUBE_DEPLOYMENT, set, (size_t)(hash - set));
}

/* --- What an owner shows. --- */

static bool has_containers(const struct yaml_node *node)
{
    if (node == NULL || node->kind == YAML_SCALAR || node->alias)
        return false;
    if (yaml_length(kube_get(node, "containers")) > 0)
        return true;
    for (size_t i = 0; i < node->count; i++) {
        if (has_containers(yaml_child(node, i)))
            return true;
    }
    return false;
}

static bool has_runtime(const struct owners *w, const struct kube_object *train)
{
    const char *kind = kube_text(train->spec, "runtimeRef.kind");
    const char *name = kube_text(train->spec, "runtimeRef.name");

    return kube_index_find(&w->named, *kind == '\0' ? "ClusterTrainingRuntime" : kind, name,
                           strlen(name))
               .count > 0;
}

/* What check sees of its pods is all that they are. A TrainJob has most of that from its runtime;
 * an object of an unknown kind may name an image and no more. */
static bool shows_pods(struct owners *w, const struct kube_object *owner)
{
    char *shown = &w->shown[owner->index];

    if (owner->type != KUBE_OTHER && owner->type != KUBE_TRAINJOB)
        return true;
    if (*shown == SHOWN_UNKNOWN)
        *shown = (owner->type == KUBE_OTHER ? has_containers(owner->spec) : has_runtime(w, owner))
                     ? SHOWN_YES
                     : SHOWN_NO;
    return *shown == SHOWN_YES;
}

static bool is_made_by_owner(struct owners *w, const struct kube_object *o)
{
    const struct yaml_node *reference = kube_controller(o);
    const struct kube_object *owner;

    if (o->wrapper != NULL && w->made[o->wrapper->index])
        return true;
    if (reference == NULL)
        return false;
    owner = find_direct(w, o, reference);
    if (owner == NULL)
        owner = find_indirect(w, o, reference);
    if (owner == NULL)
        return false;
    if (o->type == KUBE_POD || kube_makes_pods(o->type))
        return shows_pods(w, owner);
    return owner->type != KUBE_OTHER; /* nothing says that an unknown kind makes this Service */
}

size_t kube_drop_made(struct kube_bundle *b)
{
    struct owners w = {.bundle = b};
    size_t kept = 0, before = b->count;

    w.shown = arena_alloc(&b->arena, before + 1);
    w.made = arena_alloc(&b->arena, (before + 1) * sizeof *w.made);
    for (size_t i = 0; i < before; i++)
        kube_index_add(&b->arena, &w.named, b->objects[i]->kind, b->objects[i]->name, i);
    for (size_t i = 0; i < before; i++)
        w.made[i] = is_made_by_owner(&w, b->objects[i]);
    for (size_t i = 0; i < before; i++) {
        if (w.made[i])
            continue;
        b->objects[kept] = b->objects[i];
        b->objects[kept]->index = kept;
        kept++;
    }
    b->count = kept;
    return before - kept;
}
