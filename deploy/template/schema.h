/* The description of settings (settings.yaml, or `settings` of an input format), and its uses.
 * deploy/data/README.md says how settings are described. */
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

/* Whether the text has the form of that type of types.yaml. */
bool schema_fits(const struct yaml_node *type, const char *text);
/* The type of that name; NULL: there is none. It lives as long as the program. */
const struct yaml_node *schema_type(const char *name);
