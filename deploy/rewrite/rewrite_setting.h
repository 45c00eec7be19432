/* Sets the settings of torchrun where they are written: in a list of words, in shell text, or in a
 * variable. */
#pragma once

#include "deploy/rewrite/rewrite_input.h"

/* Sets a new value. If the setting is nothing but a variable, the variable gets it. */
void setting_write(struct rewrite *w, const struct job_run *r, const struct job_setting *s,
                   const char *value);

/* Whether bytes [from, to) of the text as it is written stand together, with no quotes between. */
bool setting_has_part(const struct job_setting *s, size_t from, size_t to);

/* Sets a new value for such a part. False: quotes stand within it, and nothing is done. */
bool setting_write_part(struct rewrite *w, const struct job_setting *s, size_t from, size_t to,
                        const char *value);

/* Adds an option or variable after this one, in the same form. */
void setting_add(struct rewrite *w, const struct job_run *r, const struct job_setting *beside,
                 enum torchrun_option option, const char *value);
