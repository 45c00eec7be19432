/* From a user's settings to the documents of a job: the data files put together. */
#pragma once

#include "deploy/template/embedded.h"
#include "deploy/template/template.h"
#include "deploy/template/userfile.h"

struct emit_options {
    const char *input_format, *platform, *placement, *protocol, *release; /* NULL: not said */
    const char *const *profiles;
    size_t profile_count;
};

struct emit_job {
    struct arena arena;
    struct embedded data;
    struct yaml_node *documents;
};

/* False: errors in d. emit_job_free() in any case, and before the user file's. */
bool emit_job_make(struct emit_job *job, const struct userfile *u, const struct emit_options *o,
                   struct diag *d);
void emit_job_free(struct emit_job *job);
