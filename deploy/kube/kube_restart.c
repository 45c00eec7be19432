/* Which of its pods a job starts again after a failure. See kube_view.h for the contract. */
#include "deploy/kube/kube_view.h"

#include <string.h>

/* The kubelet restarts a failed container in its pod. */
static bool restarts_in_place(const struct kube_pods *p)
{
    return text_is(p->restart, "OnFailure", "Always");
}

/* Kubernetes ends a Job at restart number backoffLimit of its containers (0 counts as 1), or if
 * more pods than that have failed. The Training Operator counts restarts alike. */
static enum kube_restart up_to(const struct kube_pods *p, const struct yaml_node *limit, long usual)
{
    long count = limit == NULL ? usual : kube_int(limit, "", -1);

    if (count < 0)
        return KUBE_RESTART_UNKNOWN;
    return count <= (restarts_in_place(p) ? 1 : 0) ? KUBE_RESTART_ALL : KUBE_RESTART_ALONE;
}

static enum kube_restart of_job(const struct kube_pods *p, const struct yaml_node *spec)
{
    if (kube_get(spec, "backoffLimitPerIndex") != NULL)
        return KUBE_RESTART_ALONE;
    if (kube_get(spec, "podFailurePolicy") != NULL) /* it may end the Job at some exit codes */
        return KUBE_RESTART_UNKNOWN;
    return up_to(p, kube_get(spec, "backoffLimit"), 6);
}

/* A policy of the task wins over one of the job. RestartTask restarts the pods of one task, which
 * most jobs train with. */
static enum kube_restart of_volcano_job(const struct kube_pods *p)
{
    const struct yaml_node *parts[] = {p->part, p->object->spec};

    if (restarts_in_place(p)) /* no pod fails, so no policy acts */
        return KUBE_RESTART_ALONE;
    for (size_t k = 0; k < 2; k++) {
        YAML_FOREACH(policy, kube_get(parts[k], "policies")) {
            const char *action = kube_text(policy, "action");

            if (strncmp(action, "Restart", 7) == 0)
                return strcmp(action, "RestartPod") == 0 ? KUBE_RESTART_ALONE : KUBE_RESTART_ALL;
        }
    }
    return KUBE_RESTART_NONE;
}

/* Without a word of it, the group of a failed container starts again as a whole. */
static enum kube_restart of_group(const struct kube_pods *p)
{
    const char *policy = kube_text(p->object->spec, "leaderWorkerTemplate.restartPolicy");

    return text_is(policy, "None", "Default") ? KUBE_RESTART_ALONE : KUBE_RESTART_ALL;
}

enum kube_restart kube_restart_of(const struct kube_pods *p)
{
    const struct kube_object *o = p->object;

    switch (o->type) {
    case KUBE_POD: /* the controller of a Pod may do more */
        return kube_controller(o) != NULL ? KUBE_RESTART_UNKNOWN
               : restarts_in_place(p)     ? KUBE_RESTART_ALONE
                                          : KUBE_RESTART_NONE;
    case KUBE_DEPLOYMENT:
    case KUBE_STATEFULSET:
        return KUBE_RESTART_ALONE;
    case KUBE_JOB:
        return of_job(p, o->spec);
    case KUBE_JOBSET:
    case KUBE_RUNTIME:
        return of_job(p, kube_get(p->part, "template.spec"));
    case KUBE_TRAINJOB: /* without its runtime, there is no template */
        return kube_get(p->part, "template") == NULL
                   ? KUBE_RESTART_UNKNOWN
                   : of_job(p, kube_get(p->part, "template.spec"));
    case KUBE_PYTORCHJOB:
        /* ExitCode retries signals only, and torchrun ends with 1: as Never. */
        return restarts_in_place(p) ? up_to(p, kube_get(o->spec, "runPolicy.backoffLimit"), 1000)
                                    : KUBE_RESTART_NONE;
    case KUBE_VOLCANO_JOB:
        return of_volcano_job(p);
    case KUBE_LEADER_WORKER:
        return of_group(p);
    default:
        return KUBE_RESTART_UNKNOWN;
    }
}
