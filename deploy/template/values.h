/* What templates do with values: merges, and quantities. Nothing here changes its
 * arguments; results share their nodes. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

/* --- Merges of two trees, of which either may be NULL. --- */

enum merge {
    /* As helm merges values: mappings are merged key by key, other values of `over` replace those
     * below, and null removes. A key keeps the place where it came first. */
    MERGE_VALUES,
    /* The same for files of settings, in which a null stays: it also switches a default off. */
    MERGE_FILES,
    /* As helm does, and lists as Kubernetes does: items with the same mountPath, name or key are
     * merged, the others are appended. */
    MERGE_PATCH,
    /* Settings over the defaults of a profile: in lists, an item replaces the one of the same name,
     * other items are appended, and a text that is already there is not appended again. */
    MERGE_OVER_DEFAULTS,
};

struct yaml_node *merge_nodes(enum merge how, struct arena *a, const struct yaml_node *base,
                              const struct yaml_node *over);

/* --- Quantities of Kubernetes, and the requests and limits of a container. --- */

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

/* --- Literals of CEL, in which policies of Kubernetes and of Kyverno make objects. --- */

/* Within a text, marks around an expression of CEL, whose value stands there. */
#define CEL_EXPRESSION(text) "\001" text "\002"

/* Writes a value as an expression. `type` is that of a mapping, such as
 * `Object.spec.initContainers`. A mapping with the key `cel` is an expression itself: a list of
 * texts, of {type, value}, and of such lists. */
void cel_write(struct buf *out, const char *type, const struct yaml_node *n);
