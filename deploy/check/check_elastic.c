/* Rules about elastic jobs, and about restarts: ranges, gangs, and pods or workers that do not
 * start again. */
#include "deploy/check/check.h"

#include <string.h>

void check_elastic_policy_range(struct check *c, const struct kube_object *o)
{
    const struct yaml_node *policy = kube_get(o->spec, "elasticPolicy");
    const struct yaml_node *worker = kube_get(o->spec, "pytorchReplicaSpecs.Worker");
    long low = kube_int(policy, "minReplicas", -1), high = kube_int(policy, "maxReplicas", -1);
    long workers = worker == NULL ? -1 : kube_replicas(worker);

    if (o->type != KUBE_PYTORCHJOB || policy == NULL)
        return;
    if (low >= 0 && high >= 0 && low > high)
        check_report(c, check_at_first(policy, "minReplicas"),
                     "minReplicas %ld is more than maxReplicas %ld", low, high);
    else if (workers >= 0 &&
             workers + (kube_get(o->spec, "pytorchReplicaSpecs.Master") != NULL) < low)
        check_report(c, check_at_first(worker, "replicas", "restartPolicy", "template"),
                     "%ld workers, but the rendezvous waits for at least %ld", workers, low);
    else if (workers >= 0 && high >= 0 && workers > high)
        check_report(c, check_at_first(worker, "replicas", "restartPolicy", "template"),
                     "%ld workers, but at most %ld can take part", workers, high);
}

void check_elastic_policy_field(struct check *c, const struct kube_object *o)
{
    const struct yaml_node *policy = kube_get(o->spec, "elasticPolicy");
    const struct yaml_pair *stranger =
        o->type == KUBE_PYTORCHJOB ? job_policy_stranger(policy) : NULL;
    struct job_view_runs runs = job_runs_of(&c->jobs, o);
    long pods = job_training_pods(&c->jobs, o);

    if (policy != NULL && kube_get(o->spec, "pytorchReplicaSpecs.Master") != NULL &&
        runs.count > 0 && runs.list[0]->nodes_max > 0 && pods > runs.list[0]->nodes_max)
        check_report(c, check_at_key(o->spec, "elasticPolicy"),
                     "%ld pods start torchrun, and at most %ld can take part: with elasticPolicy, "
                     "leave out the Master",
                     pods, runs.list[0]->nodes_max);
    if (stranger != NULL)
        check_report(c, check_at(stranger->key), "elasticPolicy has no field %s",
                     stranger->key->text);
    else if (o->type == KUBE_PYTORCHJOB && kube_get(policy, "rdzvHost") != NULL &&
             kube_get(policy, "rdzvPort") == NULL && (runs.count == 0 || !runs.list[0]->hosted))
        check_report(c, check_at_key(policy, "rdzvHost"),
                     "without rdzvPort the operator writes its own, 23456");
}

void check_elastic_range(struct check *c, const struct job_run *r)
{
    if (r->settings[TORCHRUN_NNODES].written.node != NULL && r->nodes_max >= 0 &&
        (r->nodes_min > r->nodes_max || r->nodes_min == 0))
        check_report(c, check_at_setting(r, TORCHRUN_NNODES), "`%s` is not a valid range of nodes",
                     job_text(r, TORCHRUN_NNODES));
}

#define GANG "runPolicy.schedulingPolicy.minAvailable"

/* For how many pods of a PyTorchJob the scheduler waits; 0: for none. */
static long gang_of(const struct kube_object *o)
{
    return o->type == KUBE_PYTORCHJOB ? kube_int(o->spec, GANG, 0) : 0;
}

void check_gang_above(struct check *c, const struct kube_object *o)
{
    long pods = kube_count_pods(&c->bundle, o);

    if (pods > 0 && gang_of(o) > pods)
        check_report(c, check_at_first(o->spec, GANG),
                     "the scheduler waits for %ld pods, but the job has %ld", gang_of(o), pods);
}

void check_elastic_gang(struct check *c, const struct kube_object *o)
{
    long pods = kube_count_pods(&c->bundle, o);
    long low = kube_int(o->spec, "elasticPolicy.minReplicas", -1);

    low += low >= 0 && kube_get(o->spec, "pytorchReplicaSpecs.Master") != NULL;
    if (low >= 0 && gang_of(o) > low && (pods <= 0 || gang_of(o) <= pods))
        check_report(c, check_at_first(o->spec, GANG),
                     "the scheduler waits for %ld pods, though %ld are enough", gang_of(o), low);
}

void check_elastic_restart_never(struct check *c, const struct job_run *r)
{
    const struct kube_pods *p = r->container->pods;
    const struct kube_object *o = p->object;
    const char *limit = o->type == KUBE_PYTORCHJOB ? "runPolicy.backoffLimit" : "backoffLimit";

    if (!job_is_elastic(r) || !job_is_dynamic(r))
        return;
    if ((o->type == KUBE_JOB || o->type == KUBE_PYTORCHJOB) && o->wrapper == NULL &&
        kube_restart_of(p) == KUBE_RESTART_ALL && kube_int(o->spec, limit, -1) == 0)
        check_report(c, check_at_first(o->spec, limit),
                     "the first failure of a pod ends this elastic job with all its pods");
    if (strcmp(p->restart, "Never") == 0 && kube_restart_of(p) == KUBE_RESTART_NONE)
        check_report(c,
                     kube_get(p->part, "restartPolicy") != NULL
                         ? check_at_first(p->part, "restartPolicy")
                         : check_at_first(p->spec, "restartPolicy"),
                     "the pods of this elastic job do not restart, so it can only shrink");
}

/* torchelastic's own launcher had 3 restarts by default; the launchers of others are unknown. */
static bool has_torchs_defaults(const struct job_run *r)
{
    return r->args != NULL && !check_is_opaque(r) && !r->args->is_other &&
           strcmp(r->args->command.text, "torchelastic.distributed.launch") != 0 &&
           strcmp(kube_base_name(r->args->command.text), "hyperpodrun") != 0;
}

void check_restarts_none(struct check *c, const struct job_run *r)
{
    const struct kube_pods *p = r->container->pods;
    const struct job_value *number = &r->settings[TORCHRUN_MAX_RESTARTS].value;
    bool none =
        !job_is_set(r, TORCHRUN_MAX_RESTARTS) || (number->known && strcmp(number->text, "0") == 0);

    if (!(job_is_dynamic(r) || (r->hosted && job_run_object(r)->type == KUBE_PYTORCHJOB)) ||
        !job_is_multi_node(r) || !has_torchs_defaults(r) || !none)
        return;
    if (kube_restart_of(p) == KUBE_RESTART_ALONE)
        check_report(c, check_at_setting(r, TORCHRUN_MAX_RESTARTS),
                     "torchrun has no restarts: it ends at the first failed worker, and then its "
                     "%s starts again without the others",
                     strcmp(p->restart, "Never") == 0 ? "pod" : "container");
    else if (job_is_elastic(r) && strcmp(r->backend, "etcd") == 0)
        check_report(c, check_at_setting(r, TORCHRUN_MAX_RESTARTS),
                     "torchrun has no restarts, and over etcd each node that joins uses one up");
}
