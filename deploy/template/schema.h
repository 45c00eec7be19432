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

/* The value as the templates want it: integers plain and decimal, texts as strings whatever they
 * look like, nulls gone. After errors (in diag) the result is of no use. `keys` are the settings
 * that are known, `required` those of which the required ones must be there (NULL: none); `file`
 * is named when one is missing. */
struct yaml_node *schema_check(struct schema *s, const struct yaml_node *keys,
                               const struct yaml_node *required, const struct yaml_node *value,
                               const char *file);

/* The nearest of the mapping's keys, or NULL when none is near. */
const char *schema_nearest(const struct yaml_node *keys, const char *name);
