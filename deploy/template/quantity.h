/* Kubernetes' quantities, and what they are to each other in the resources of a container. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

#include <stdbool.h>

/* The number that a quantity stands for; negative if it is none. */
long double quantity_value(const char *text);

/* The resources `over` on those of `base` (mappings of requests and limits; NULL: nothing). Where
 * `over` has only one of request and limit, the other one follows it if both were equal, if they
 * have to be (devices, huge pages), or if the request would be above the limit. */
struct yaml_node *quantity_fit(struct arena *a, const struct yaml_node *base,
                               const struct yaml_node *over);

/* A list of {name, request, limit} of what no API server accepts: a request above its limit, a
 * device whose request is not its limit, and a fraction of a device. */
struct yaml_node *quantity_conflicts(struct arena *a, const struct yaml_node *resources);
