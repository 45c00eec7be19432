/* Rules about elastic jobs: ranges, gangs, and pods that do not restart. */
#include "deploy/check/check.h"

#include <string.h>

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

/* All pods of a PyTorchJob; -1: unknown. */
static long pods_of(const struct kube_object *o)
{
    const struct yaml_node *parts = kube_get(o->spec, "pytorchReplicaSpecs");
    long sum = 0;

    if (parts == NULL || parts->kind != YAML_MAPPING || parts->count == 0)
        return -1;
    for (size_t i = 0; i < parts->count && sum >= 0; i++) {
        const struct yaml_node *part = parts->pairs[i].value;
        long some = kube_get(part, "replicas") == NULL ? 1 : kube_int(part, "replicas", -1);

        sum = some < 0 ? -1 : sum + some;
    }
    return sum;
}

static bool is_gang_above(const struct kube_object *o)
{
    long pods = o->type == KUBE_PYTORCHJOB ? pods_of(o) : -1;

    return pods >= 0 && kube_int(o->spec, "runPolicy.schedulingPolicy.minAvailable", 0) > pods;
}

void check_gang_above(struct check *c)
{
    for (size_t i = 0; i < c->bundle.count; i++) {
        const struct kube_object *o = c->bundle.objects[i];
        const struct yaml_node *gang = kube_get(o->spec, "runPolicy.schedulingPolicy.minAvailable");

        if (is_gang_above(o))
            check_report(c, o, check_at(gang),
                         "the scheduler waits for %s pods, but the job has %ld", yaml_text(gang),
                         pods_of(o));
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
        if (o->type == KUBE_PYTORCHJOB && gang != NULL && low >= 0 && !is_gang_above(o) &&
            kube_int(o->spec, "runPolicy.schedulingPolicy.minAvailable", 0) > low)
            check_report(c, o, check_at(gang),
                         "the scheduler waits for %s pods, though %ld are enough", yaml_text(gang),
                         low);
    }
}

/* The controller replaces failed pods of this kind, whatever their restartPolicy. How often, a
 * limit such as backoffLimit says, which no rule here looks at: 0 counts as if it were high. */
static bool is_made_again(const struct kube_pods *p)
{
    const struct kube_object *o = p->object;
    const struct yaml_node *lists[] = {kube_get(p->part, "policies"),
                                       kube_get(o->spec, "policies")};

    if (o->type == KUBE_JOB || o->type == KUBE_JOBSET || o->type == KUBE_TRAINJOB ||
        o->type == KUBE_RUNTIME)
        return true;
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
