/* The data files: settings, input formats, platforms, profiles and placements as YAML, embedded in
 * the program (deploy/data) or written by the user. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

struct embedded_file {
    const char *path; /* relative to deploy/data: platforms/volcano.yaml */
    size_t len;
    const char *bytes;
};

extern const struct embedded_file embedded_files[]; /* sorted by path */
extern const size_t embedded_file_count;

/* All files that were loaded. embedded_free() frees their nodes. */
struct embedded {
    struct yaml_file files[64];
    size_t count;
};

/* Loads kind/name.yaml and returns its mapping. kind is `platforms`, `profiles`, `placements`,
 * `formats`, or "" for the files beside these folders. A name that contains a slash or ends in
 * .yaml is the path of a file of the user. NULL: there is an error in d, which lists the names that
 * exist. */
struct yaml_node *embedded_load(struct embedded *data, const char *kind, const char *name,
                                const struct yaml_node *at, struct diag *d);

/* The embedded file itself, or NULL. */
const struct embedded_file *embedded_find(const char *kind, const char *name);
void embedded_free(struct embedded *data);

/* Walks through the names of a kind; NULL after the last one. *at starts at 0. */
const char *embedded_next(const char *kind, size_t *at, char *name, size_t size);
