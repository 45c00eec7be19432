/* The settings that the user gives: files, of which later ones win, and --set over all of them. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

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
