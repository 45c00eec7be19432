/* The YAML files that say what settings, dialects, platforms, profiles and ways there are: built
 * in, or the user's own. */
#pragma once

#include "deploy/yaml_doc.h"

struct data_file {
    const char *path; /* as seen from deploy/: platforms/volcano.yaml */
    size_t len;
    const char *bytes;
};

extern const struct data_file data_files[]; /* sorted by path */
extern const size_t data_file_count;

/* Everything that was read; data_free() ends all nodes. */
struct data {
    struct yaml_file files[64];
    size_t count;
};

/* The mapping in kind/name.yaml; kind is `platforms`, `profiles`, `ways`, `dialects` or "" (then
 * the name is of a file beside these folders). A name with a slash, or that ends in .yaml, is a
 * file of the user's. NULL: an error in d, which lists what there is. */
struct yaml_node *data_load(struct data *data, const char *kind, const char *name,
                            const struct yaml_node *at, struct diag *d);

/* The built-in file itself, or NULL. */
const struct data_file *data_find(const char *kind, const char *name);
void data_free(struct data *data);

/* The names of a kind, one after the other: NULL behind the last. *at starts at 0. */
const char *data_next(const char *kind, size_t *at, char *name, size_t size);
