/* What the user gives: files, of which later ones win, and --set on top of all. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

struct userfile {
    struct arena arena;
    struct yaml_file *files; /* they live as long as the settings that were read from them */
    size_t count;
    struct yaml_node *settings; /* a mapping, merged; nulls have removed what was below them */
    const char *first;          /* the file that is named when something is missing */
};

/* `paths` in their order, then `sets` (`a.b[0]=value`, several with commas, as helm has it). False:
 * errors in d. userfile_free() in any case. */
bool userfile_read(struct userfile *u, const char *const *paths, size_t path_count,
                   const char *const *sets, size_t set_count, struct diag *d);
void userfile_free(struct userfile *u);

/* The settings of one more file over those that are there; u has room for it, and ends it. */
bool userfile_add(struct userfile *u, const struct yaml_file *file, struct diag *d);

/* One --set over the settings: false after an error in d. */
bool userfile_set(struct arena *a, struct yaml_node **settings, const char *argument,
                  struct diag *d);
