/* What selectors select, looked up once for all objects with the same selector: in a file where
 * each policy selects every pod, the pods of each policy by itself would be the square of its
 * length. */
#pragma once

#include "deploy/check/check.h"

/* Pods in the order of the bundle. */
struct check_selected {
    const struct kube_pods **list;
    size_t count;
    size_t index;               /* a number of its own */
    size_t on_host;             /* how many of them are on the host network */
    const struct job_run *user; /* see check_network.c */
    bool user_known;
    bool has_budget; /* see check_replicas.c */
};

/* The pods that the podSelector of an object selects, in its namespace. They live as long as the
 * bundle. */
struct check_selected *check_selected(struct check *c, const struct kube_object *o,
                                      const struct yaml_node *selector);
