/* Which vocabulary a user file is written in, and the same settings in our own. */
#pragma once

#include "deploy/emit/emit_job.h"
#include "deploy/template/embedded.h"

struct input_format {
    const char *name; /* fms, litgpt, intel */
    const char *about;
    struct yaml_node *own;   /* its file; NULL: our own vocabulary */
    struct yaml_node *known; /* all settings that may stand in the user file */
};

/* By option, or by the keys. `settings` is the mapping of our own settings. */
bool input_format_find(struct input_format *out, struct emit_job *job, const struct yaml_node *user,
                       const struct yaml_node *settings, const struct emit_options *o,
                       struct diag *d);

/* Checked settings of the format as settings of our own; NULL after errors in t->diag. */
struct yaml_node *input_format_translate(const struct input_format *format, struct template *t,
                                         const struct yaml_node *checked,
                                         const struct yaml_node *settings);

/* A mapping in which every one of the keys is null: what nobody has set. */
struct yaml_node *input_format_nulls(struct arena *a, const struct yaml_node *keys);
