/* Files that emit reads. The data files are settings, input formats, platforms, profiles and
 * placements as YAML, embedded in the program (deploy/data) or written by the user. */
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
/* All of them, with commas between them. */
const char *embedded_names(struct arena *a, const char *kind);

/* --- The user's settings: a later file overrides an earlier file, and --set overrides all files.
 * --- */

struct userfile {
    struct arena arena;
    struct yaml_file *files; /* they live as long as the settings that point into them */
    size_t count;
    struct yaml_node *settings; /* a mapping, merged; a null stands for what it removed */
    const char *first;          /* the first file: errors about missing settings name it */
};

/* Reads `paths` in their order, then `sets` (`a.b[0]=value`, several with commas, as helm has
 * them). False: there are errors in d. Call userfile_free() in any case. */
bool userfile_read(struct userfile *u, const char *const *paths, size_t path_count,
                   const char *const *sets, size_t set_count, struct diag *d);
void userfile_free(struct userfile *u);

/* Merges one more file over the settings. u has room for it, and frees it in the end. */
bool userfile_add(struct userfile *u, const struct yaml_file *file, struct diag *d);

/* Merges one --set over the settings; false after an error in d. */
bool userfile_set(struct arena *a, struct yaml_node **settings, const char *argument,
                  struct diag *d);

/* --- The description of settings (settings.yaml, or `settings` of an input format), and its uses.
 * deploy/data/README.md says how settings are described. --- */

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
