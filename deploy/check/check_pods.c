/* Rules about elastic jobs, containers that do not end, wrappers, and what Kubernetes wants
 * written. */
#include "deploy/check/check.h"

#include <stdlib.h>
#include <string.h>

/* --- Elastic. --- */

static void look_at_policy_range(struct check *c, const struct kube_object *o)
{
    const struct yaml_node *policy = kube_get(o->spec, "elasticPolicy");
    const struct yaml_node *worker = kube_get(o->spec, "pytorchReplicaSpecs.Worker");
    long low = kube_int(policy, "minReplicas", -1), high = kube_int(policy, "maxReplicas", -1);
    long workers = kube_int(worker, "replicas", 1);

    if (policy == NULL)
        return;
    if (low >= 0 && high >= 0 && low > high)
        check_report(c, o, check_at_first(policy, "minReplicas"),
                     "minReplicas %ld is more than maxReplicas %ld", low, high);
    else if (worker != NULL && low >= 0 && workers < low)
        check_report(c, o, check_at_first(worker, "replicas restartPolicy template"),
                     "%ld workers, but the rendezvous waits for at least %ld", workers, low);
    else if (worker != NULL && high >= 0 && workers > high)
        check_report(c, o, check_at_first(worker, "replicas restartPolicy template"),
                     "%ld workers, but at most %ld can take part", workers, high);
}

void check_elastic_range(struct check *c)
{
    for (size_t i = 0; i < c->bundle.count; i++) {
        if (c->bundle.objects[i]->type == KUBE_PYTORCHJOB)
            look_at_policy_range(c, c->bundle.objects[i]);
    }
    for (size_t i = 0; i < c->jobs.count; i++) {
        const struct job_run *r = c->jobs.runs[i];

        if (r->settings[TORCHRUN_NNODES].node != NULL && r->nodes_max >= 0 &&
            (r->nodes_min > r->nodes_max || r->nodes_min == 0))
            check_report(c, r->container->pods->object, check_at_setting(r, TORCHRUN_NNODES),
                         "`%s` is not a valid range of nodes", check_value(r, TORCHRUN_NNODES));
    }
}

void check_elastic_gang(struct check *c)
{
    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];
        const struct yaml_node *gang = kube_get(o->spec, "runPolicy.schedulingPolicy.minAvailable");
        const struct yaml_node *policy = kube_get(o->spec, "elasticPolicy");
        long low = kube_int(policy, "minReplicas", -1);

        if (kube_get(o->spec, "pytorchReplicaSpecs.Master") != NULL)
            low += low >= 0;
        if (o->type == KUBE_PYTORCHJOB && gang != NULL && low >= 0 &&
            kube_int(o->spec, "runPolicy.schedulingPolicy.minAvailable", 0) > low)
            check_report(c, o, check_at(gang),
                         "the scheduler waits for %s pods, though %ld are enough", yaml_text(gang),
                         low);
    }
}

/* Somebody makes failed pods of this kind again, whatever their restartPolicy. */
static bool is_made_again(const struct kube_pods *p)
{
    const struct kube_object *o = p->object;
    const struct yaml_node *lists[] = {kube_get(p->part, "policies"),
                                       kube_get(o->spec, "policies")};

    if (o->type == KUBE_JOB || o->type == KUBE_JOBSET || o->type == KUBE_TRAINJOB ||
        o->type == KUBE_RUNTIME)
        return true; /* backoffLimit decides */
    for (size_t k = 0; k < 2 && o->type == KUBE_VOLCANO_JOB; k++) {
        for (size_t i = 0; i < yaml_length(lists[k]); i++) {
            if (strncmp(kube_text(lists[k]->items[i], "action"), "Restart", 7) == 0)
                return true;
        }
    }
    return false;
}

void check_elastic_restart_never(struct check *c)
{
    for (size_t i = 0; i < c->jobs.count; i++) {
        const struct job_run *r = c->jobs.runs[i];
        const struct kube_pods *p = r->container->pods;

        if (job_is_elastic(r) && job_is_dynamic(r) && strcmp(p->restart, "Never") == 0 &&
            !is_made_again(p))
            check_report(c, p->object,
                         kube_get(p->part, "restartPolicy") != NULL
                             ? check_at_first(p->part, "restartPolicy")
                             : check_at_first(p->spec, "restartPolicy"),
                         "the pods of this elastic job do not restart, so it can only shrink");
    }
}

/* --- Containers that do not end. --- */

static bool waits_for_ever(struct check *c, const struct kube_container *container)
{
    static const char *const signs[] = {"sleep infinity", "sleep inf", "tail -f",      "tail -F",
                                        "while true;",    "while :;",  "while true\n", "while :\n"};
    size_t count, script;
    const struct arg_word *words = job_words(&c->bundle.arena, container, &count, &script);
    const char *text = "";

    if (count > 8 || (script == count && count < 2))
        return false;
    for (size_t i = 0; i < count; i++)
        text = arena_text(&c->bundle.arena, "%s%s%s", text, i == 0 ? "" : " ", words[i].text);
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        /* A loop with a way out may end. */
        if (strstr(text, signs[i]) != NULL && strstr(text, "break") == NULL &&
            strstr(text, "exit") == NULL && strstr(text, "kill") == NULL)
            return true;
    }
    return false;
}

static size_t count_regular(const struct kube_pods *p)
{
    size_t count = 0;

    for (size_t i = 0; i < p->count; i++)
        count += !p->containers[i].init;
    return count;
}

static bool is_main(const struct check *c, const struct kube_container *container)
{
    for (size_t i = 0; i < c->jobs.count; i++) {
        if (c->jobs.runs[i]->container == container)
            return true;
    }
    return container->pods->object->type == KUBE_PYTORCHJOB &&
           strcmp(container->name, "pytorch") == 0;
}

void check_sidecar_blocks_completion(struct check *c)
{
    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        const struct kube_pods *p = c->bundle.pods[i];

        for (size_t j = 0; j < p->count && p->ends && count_regular(p) > 1; j++) {
            const struct kube_container *container = &p->containers[j];
            enum job_store_kind kind = job_store_kind(&c->bundle.arena, container);
            struct job_setting found;

            if (container->init || is_main(c, container))
                continue;
            if (kind == JOB_STORE_NONE
                    ? waits_for_ever(c, container)
                    : !job_store_option(&c->jobs, container, "exit-when-idle", NULL, &found))
                check_report(c, p->object, check_at_first(container->node, "name"),
                             "the container %s never ends, so the pod never ends", container->name);
        }
    }
}

/* --- Native sidecars. --- */

static const struct {
    enum kube_type type;
    enum check_target_name target;
    int major, minor;
    const char *what;
} sidecar_releases[] = {
    {KUBE_PYTORCHJOB, CHECK_TRAINING_OPERATOR, 1, 8, "Training Operator"},
    {KUBE_VOLCANO_JOB, CHECK_VOLCANO, 1, 9, "Volcano"},
    {KUBE_JOBSET, CHECK_JOBSET, 0, 7, "JobSet"},
};

static void look_at_sidecar_release(struct check *c, const struct kube_container *container)
{
    const struct kube_object *o = container->pods->object;
    struct check_position at = check_at_first(container->node, "restartPolicy");

    if (check_is_before(c, CHECK_KUBERNETES, 1, 29)) {
        check_report(c, o, at,
                     "Kubernetes before 1.29 takes %s for an init container that never ends",
                     container->name);
        return;
    }
    for (size_t i = 0; i < sizeof sidecar_releases / sizeof *sidecar_releases; i++) {
        if (o->type == sidecar_releases[i].type &&
            check_is_before(c, sidecar_releases[i].target, sidecar_releases[i].major,
                            sidecar_releases[i].minor))
            check_report(c, o, at,
                         "%s before %d.%d drops this field, and %s becomes an init container that "
                         "never ends",
                         sidecar_releases[i].what, sidecar_releases[i].major,
                         sidecar_releases[i].minor, container->name);
    }
}

void check_sidecar_too_old(struct check *c)
{
    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        for (size_t j = 0; j < c->bundle.pods[i]->count; j++) {
            if (c->bundle.pods[i]->containers[j].sidecar)
                look_at_sidecar_release(c, &c->bundle.pods[i]->containers[j]);
        }
    }
}

/* CPU and memory are limited, and asked for in full: what a Guaranteed pod needs of each container.
 */
static bool is_guaranteed(const struct kube_container *container)
{
    static const char *const names[] = {"cpu", "memory"};
    const struct yaml_node *resources = kube_field(container, "resources");

    for (size_t i = 0; i < 2; i++) {
        const char *limit = kube_text(kube_get(resources, "limits"), names[i]);
        const char *request = kube_text(kube_get(resources, "requests"), names[i]);

        if (*limit == '\0' || (*request != '\0' && strcmp(limit, request) != 0))
            return false;
    }
    return true;
}

/* Init containers count as others do. */
static bool would_be_guaranteed(const struct kube_pods *p)
{
    for (size_t i = 0; i < p->count; i++) {
        if (!p->containers[i].sidecar && !is_guaranteed(&p->containers[i]))
            return false;
    }
    return true;
}

void check_sidecar_not_guaranteed(struct check *c)
{
    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        const struct kube_pods *p = c->bundle.pods[i];

        for (size_t j = 0; j < p->count && would_be_guaranteed(p); j++) {
            const struct kube_container *container = &p->containers[j];

            if (container->sidecar && !is_guaranteed(container))
                check_report(c, p->object,
                             kube_get(container->node, "resources") != NULL
                                 ? check_at_key(container->node, "resources")
                                 : check_at_first(container->node, "name"),
                             "%s makes a Guaranteed pod Burstable", container->name);
        }
    }
}

/* --- AppWrappers. --- */

void check_appwrapper_blocks_completion(struct check *c)
{
    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        const struct kube_pods *p = c->bundle.pods[i];
        const struct kube_object *o = p->object;
        const struct job_store *s = job_store_in(&c->jobs, p);
        struct job_setting found;
        bool store = s != NULL && o->type == KUBE_POD && !s->container->init &&
                     !job_store_option(&c->jobs, s->container, "exit-when-idle", NULL, &found);

        if (o->wrapper == NULL)
            continue;
        if (!p->ends && o->type != KUBE_OTHER)
            check_report(c, o, check_at_first(o->node, "kind"),
                         "pods of this %s are always restarted, so the AppWrapper never succeeds",
                         o->kind);
        else if (store)
            check_report(c, o, check_at_first(s->container->node, "name"),
                         "%s never ends, so the AppWrapper never succeeds", s->container->name);
    }
}

static bool is_in_mcad(const struct kube_object *o)
{
    return o->wrapper != NULL && o->wrapper->type == KUBE_MCAD;
}

void check_mcad_namespace(struct check *c)
{
    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];

        if (is_in_mcad(o) && *kube_text(o->node, "metadata.namespace") == '\0' &&
            o->type != KUBE_NAMESPACE)
            check_report(c, o, check_at_first(o->node, "metadata.name kind"),
                         "MCAD makes this %s in the namespace `default`, because it sets none",
                         o->kind);
    }
}

/* Kinds whose pods the dispatcher does not see by itself. */
static bool hides_its_pods(const struct kube_object *o)
{
    return o->type == KUBE_PYTORCHJOB || o->type == KUBE_JOBSET || o->type == KUBE_VOLCANO_JOB ||
           o->type == KUBE_TRAINJOB;
}

void check_mcad_resources(struct check *c)
{
    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];

        if (is_in_mcad(o) && hides_its_pods(o) && kube_get(o->entry, "custompodresources") == NULL)
            check_report(c, o, check_at_first(o->node, "kind"),
                         "MCAD cannot count the pods of a %s", o->kind);
    }
}

void check_mcad_labels(struct check *c)
{
    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        const struct kube_pods *p = c->bundle.pods[i];

        if (is_in_mcad(p->object) && hides_its_pods(p->object) &&
            strcmp(kube_text(p->meta, "labels.appwrapper\\.mcad\\.ibm\\.com"),
                   p->object->wrapper->name) != 0)
            check_report(c, p->object, check_at_key(p->part, "template"),
                         "these pods lack the label appwrapper.mcad.ibm.com: %s, so MCAD does not "
                         "count them",
                         p->object->wrapper->name);
    }
}

/* --- As Kubernetes wants it written. --- */

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

/* Pods that mount the claim, of the claim's namespace. */
static long count_mounting(const struct check *c, const struct kube_object *claim)
{
    long sum = 0;

    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        const struct kube_pods *p = c->bundle.pods[i];
        const struct yaml_node *volumes = kube_get(p->spec, "volumes");

        for (size_t j = 0; j < yaml_length(volumes) && kube_same_namespace(p->object, claim); j++) {
            if (strcmp(kube_text(volumes->items[j], "persistentVolumeClaim.claimName"),
                       claim->name) == 0 &&
                p->replicas > 0)
                sum += p->replicas;
        }
    }
    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        const struct kube_pods *p = c->bundle.pods[i];
        const struct yaml_node *volumes = kube_get(p->object->spec, "volumes");

        for (size_t j = 0; p->object->type == KUBE_VOLCANO_JOB && j < yaml_length(volumes) &&
                           kube_same_namespace(p->object, claim);
             j++) {
            if (strcmp(kube_text(volumes->items[j], "volumeClaimName"), claim->name) == 0 &&
                p->replicas > 0)
                sum += p->replicas;
        }
    }
    return sum;
}

void check_pvc_access_mode(struct check *c)
{
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
        pods = many ? 0 : count_mounting(c, o);
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
