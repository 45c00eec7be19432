/* From a user's settings to the documents of a job: the data files put together. */
#pragma once

#include "deploy/data.h"
#include "deploy/fill.h"
#include "deploy/userfile.h"

struct job_options {
    const char *dialect, *platform, *way, *protocol, *release; /* NULL: not said */
    const char *const *profiles;
    size_t profile_count;
};

struct job {
    struct arena arena;
    struct data data;
    struct yaml_node *documents;
};

/* False: errors in d. job_free() in any case, and before the user file's. */
bool job_make(struct job *job, const struct userfile *u, const struct job_options *o,
              struct diag *d);
void job_free(struct job *job);
