/* The format in which a user file is written, and its settings translated into ours. */
#pragma once

#include "deploy/emit/emit_job.h"
#include "deploy/template/files.h"

struct input_format {
    const char *about;
    struct yaml_node *file;  /* of data/formats */
    bool translated;         /* it has settings that are not ours */
    struct yaml_node *known; /* all settings that the user file may contain */
};

/* Finds the format by its name or, if that is NULL, by the keys of the user file. `settings`
 * describes our own. False: there is an error in d. */
bool input_format_find(struct input_format *out, struct emit_job *job, const struct yaml_node *user,
                       const struct yaml_node *settings, const char *name, struct diag *d);

/* Checked settings of the format, as settings of our own; NULL after errors in t->diag. */
struct yaml_node *input_format_translate(const struct input_format *format,
                                         struct template_state *t, const struct yaml_node *checked,
                                         const struct yaml_node *settings);

/* A mapping in which each of the keys is null: settings that are absent. */
struct yaml_node *input_format_nulls(struct arena *a, const struct yaml_node *keys);
