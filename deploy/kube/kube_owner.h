/* Leaves out of a bundle what controllers made of its other objects. */
#pragma once

#include "deploy/kube/kube_view.h"

#include <stddef.h>

/* The reference of an object to the controller that made it, or NULL. */
const struct yaml_node *kube_controller(const struct kube_object *o);

/* A cluster prints a job beside the Pods and Services that its controller made of it. These say
 * again what the job says, so they would be second users of its names and ids. An object stays if
 * the bundle does not show what its owner makes. Call it between kube_add_file() and
 * kube_find_pods(). The result is the number of objects that were left out. */
size_t kube_drop_made(struct kube_bundle *b);
