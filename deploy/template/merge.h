/* Merges two trees into one. Neither of them changes; the result shares their nodes. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

/* As helm merges values: mappings are merged key by key, other values of `over` replace those
 * below, and null removes. A key keeps the place where it came first. Either may be NULL. */
struct yaml_node *merge_values(struct arena *a, const struct yaml_node *base,
                               const struct yaml_node *over);

/* The same for files of settings, in which a null stays: it also switches a default off. */
struct yaml_node *merge_files(struct arena *a, const struct yaml_node *base,
                              const struct yaml_node *over);

/* As helm does, and lists as Kubernetes does: items with the same mountPath, name or key are
 * merged, the others are appended. */
struct yaml_node *merge_patch(struct arena *a, const struct yaml_node *base,
                              const struct yaml_node *over);

/* Settings over the defaults of a profile: in lists, an item replaces the one of the same name,
 * other items are appended, and a text that is already there is not appended again. */
struct yaml_node *merge_over_defaults(struct arena *a, const struct yaml_node *base,
                                      const struct yaml_node *over);
