/* What happens after a container of a pod has failed. */
#pragma once

#include "deploy/kube/kube_view.h"

enum kube_restart {
    KUBE_RESTART_UNKNOWN, /* the manifests do not say it */
    KUBE_RESTART_NONE,    /* the pod stays failed, or ends its job */
    KUBE_RESTART_ALONE,   /* the container, or a new pod, starts, and the other pods go on */
    KUBE_RESTART_ALL,     /* the controller ends the other pods, too */
};

/* By the restartPolicy of the pods, and by the controller and its limits. The exit code is that of
 * torchrun after a failed worker: 1. */
enum kube_restart kube_restart_of(const struct kube_pods *p);
