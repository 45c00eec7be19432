/* Which vocabulary a user file is written in, and the same settings in our own. */
#pragma once

#include "deploy/data.h"
#include "deploy/job.h"

struct dialect {
    const char *name; /* fms, litgpt, intel */
    const char *about;
    struct yaml_node *own;   /* its file; NULL: our own vocabulary */
    struct yaml_node *known; /* all settings that may stand in the user file */
};

/* By option, or by the keys. `settings` is the mapping of our own settings. */
bool dialect_find(struct dialect *out, struct job *job, const struct yaml_node *user,
                  const struct yaml_node *settings, const struct job_options *o, struct diag *d);

/* Checked settings of the dialect as settings of our own; NULL after errors in f->diag. */
struct yaml_node *dialect_translate(const struct dialect *dialect, struct fill *f,
                                    const struct yaml_node *checked,
                                    const struct yaml_node *settings);

/* A mapping in which every one of the keys is null: what nobody has set. */
struct yaml_node *dialect_nulls(struct arena *a, const struct yaml_node *keys);
