/* Reads the manifests of a bundle: files, and folders with all that is in them. */
#pragma once

#include "deploy/check/check.h"

/* Files of folders that hold no objects, and are skipped. */
struct check_skipped {
    size_t kustomizations, templates, others;
};

struct check_input {
    struct arena arena; /* of the paths: they live as long as the findings */
    const char *const *paths;
    size_t path_count;
    const char *const *excluded; /* patterns of paths below folders */
    size_t excluded_count;
    struct check_skipped skipped;
};

/* Reads all files into c->files. A file that is named holds Kubernetes objects and nothing else; of
 * a folder, files that hold none are skipped and counted. False: there are errors in d. */
bool check_input_read(struct check_input *in, struct check *c, struct diag *d);

/* One line about what was skipped, if anything was. */
void check_input_print(FILE *out, const struct check_input *in);

void check_input_fini(struct check_input *in);
