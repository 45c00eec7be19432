/* Two trees become one. Neither changes; the result shares their parts. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

/* As helm merges values: mappings key by key, everything else is replaced, null removes. Keys stay
 * where they came first. Either may be NULL. */
struct yaml_node *merge_values(struct arena *a, const struct yaml_node *base,
                               const struct yaml_node *over);

/* As Kubernetes merges lists, too: items that have the same mountPath, name or key are merged, and
 * others are added behind. */
struct yaml_node *merge_patch(struct arena *a, const struct yaml_node *base,
                              const struct yaml_node *over);

/* As settings lie above the defaults of a profile: in lists, items of the same name are replaced,
 * others are added, and a text that is there already is not added again. */
struct yaml_node *merge_over_defaults(struct arena *a, const struct yaml_node *base,
                                      const struct yaml_node *over);
