/* The YAML files that say what settings, input formats, platforms, profiles and placements there
 * are: built in, or the user's own. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

struct embedded_file {
    const char *path; /* as seen from deploy/data: platforms/volcano.yaml */
    size_t len;
    const char *bytes;
};

extern const struct embedded_file embedded_files[]; /* sorted by path */
extern const size_t embedded_file_count;

/* Everything that was read; embedded_free() ends all nodes. */
struct embedded {
    struct yaml_file files[64];
    size_t count;
};

/* The mapping in kind/name.yaml; kind is `platforms`, `profiles`, `placements`, `formats` or ""
 * (then the name is of a file beside these folders). A name with a slash, or that ends in .yaml, is
 * a file of the user's. NULL: an error in d, which lists what there is. */
struct yaml_node *embedded_load(struct embedded *data, const char *kind, const char *name,
                                const struct yaml_node *at, struct diag *d);

/* The built-in file itself, or NULL. */
const struct embedded_file *embedded_find(const char *kind, const char *name);
void embedded_free(struct embedded *data);

/* The names of a kind, one after the other: NULL behind the last. *at starts at 0. */
const char *embedded_next(const char *kind, size_t *at, char *name, size_t size);
