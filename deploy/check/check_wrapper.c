/* Rules about AppWrappers, of v1beta2 and of MCAD (v1beta1). */
#include "deploy/check/check.h"

#include <string.h>

/* By index of objects: the AppWrappers with pods that end. One that has none is a service, and is
 * to stay. */
static const bool *find_ending(struct check *c)
{
    bool *ending = arena_alloc(&c->bundle.arena, c->bundle.count + 1);

    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        const struct kube_pods *p = c->bundle.pods[i];

        if (p->object->wrapper != NULL && p->ends)
            ending[p->object->wrapper->index] = true;
    }
    return ending;
}

void check_appwrapper_blocks_completion(struct check *c)
{
    const bool *ending = find_ending(c);

    for (size_t i = 0; i < c->bundle.pod_count; i++) {
        const struct kube_pods *p = c->bundle.pods[i];
        const struct kube_object *o = p->object;
        const struct job_store *s = job_store_in(&c->jobs, p);
        struct job_setting found;
        bool store = s != NULL && o->type == KUBE_POD && !s->container->init &&
                     !job_store_option(&c->jobs, s->container, "exit-when-idle", NULL, &found);

        if (o->wrapper == NULL || kube_is_template(o))
            continue;
        if (!p->ends && o->type != KUBE_OTHER && ending[o->wrapper->index])
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

/* Kinds whose pods MCAD does not see by itself. */
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
