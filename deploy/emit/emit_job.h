/* Makes the documents of a job, or parts of them, from settings and data files. */
#pragma once

#include "deploy/template/files.h"
#include "deploy/template/template.h"

struct emit_options {
    const char *input_format, *platform, *placement, *protocol, *release,
        *suffix; /* NULL: not said */
    const char *const *profiles;
    size_t profile_count;
};

struct job_maker;

struct emit_job {
    struct arena arena;
    struct embedded data;
    struct yaml_node *documents; /* of emit_job_make() */
    struct job_maker *maker;
};

/* Makes all documents. False: there are errors in d. Call emit_job_free() in any case, and before
 * the user file is freed. */
bool emit_job_make(struct emit_job *job, const struct userfile *u, const struct emit_options *o,
                   struct diag *d);

/* For a job that is there already: the variables that these settings come to, which the caller has
 * put together, without what is missing for a whole job. The placement's notes are in d then.
 * `found` is the workload in whose place the store is put, as parts.yaml says, or NULL. Errors name
 * `file`, or where the settings' nodes stand. */
bool emit_job_open(struct emit_job *job, struct yaml_node *settings, const struct yaml_node *found,
                   const char *file, struct diag *d);
/* Sets a variable of the parts that are made from now on; NULL: null. The node outlives the job. */
void emit_job_set(struct emit_job *job, const char *name, const struct yaml_node *value);
/* A part of parts.yaml, or `documents` of the placement, filled in with them; NULL: nothing. It
 * lives as long as the job. */
struct yaml_node *emit_job_part(struct emit_job *job, const char *name);

void emit_job_free(struct emit_job *job);
