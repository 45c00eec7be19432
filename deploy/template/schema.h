/* Settings against the description of them, which is data (settings.yaml, formats/):
 *
 *     NAME:
 *       type: int | bool | text | quantity | mapping | list | map | any | one of the names in
 * values.c about: what it means           default: what it is when nobody says min: 1  max: 65535
 * int values: [a, b]                 text: no other keys: {NAME: ...}              mapping: these
 * keys items: {type: ...}             list: of these each: {type: ...}              map: any keys,
 * these values either: [{type: ...}, ...]     the first that fits the kind of value required: true
 */
#pragma once

#include "deploy/yaml/yaml_doc.h"

struct schema {
    struct arena *arena;
    struct diag *diag;
};

/* Returns the value in the form that templates use: integers plain and decimal, texts as strings
 * whatever they look like, no nulls. After an error (in diag) the result has no meaning. `keys`
 * describes the settings that are known; of those in `required` (NULL: none), the ones marked
 * `required: true` must be there. The error about a missing one names `file`. */
struct yaml_node *schema_check(struct schema *s, const struct yaml_node *keys,
                               const struct yaml_node *required, const struct yaml_node *value,
                               const char *file);

/* The key of the mapping that is nearest to the name, or NULL if none is near. */
const char *schema_nearest(const struct yaml_node *keys, const char *name);
