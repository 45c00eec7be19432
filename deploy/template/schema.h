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

/* A type of settings that are texts of a certain form. */
struct value_type {
    const char *name; /* as in `type:` */
    const char *what; /* "is not ..." */
    const char *remedy;
    const char
        *pattern; /* a regular expression of ECMA 262; without (?...) it is one of POSIX, too */
    size_t max;   /* bytes; 0: any number */
    bool (*fits)(const char *text); /* what the pattern does not say; NULL: nothing */
};

/* NULL: no type of that name. */
const struct value_type *value_type_find(const char *name);
bool value_type_fits(const struct value_type *type, const char *text);
/* A mapping of the patterns of all types by their names. */
struct yaml_node *value_type_patterns(struct arena *a);
