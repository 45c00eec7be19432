/* Sets the settings of torchrun where they are written: in a list of words, in shell text, or in a
 * variable. */
#pragma once

#include "deploy/rewrite/rewrite_input.h"

/* Sets a new value. If the setting is nothing but a variable, the variable gets it. */
void setting_write(struct rewrite *w, const struct job_run *r, const struct job_setting *s,
                   const char *value);

/* The same for bytes [from, to) of the text as it is written. False: quotes stand between them, and
 * nothing is done. */
bool setting_write_part(struct rewrite *w, const struct job_setting *s, size_t from, size_t to,
                        const char *value);

/* Adds an option or variable after this one, in the same form. */
void setting_add(struct rewrite *w, const struct job_run *r, const struct job_setting *beside,
                 enum torchrun_option option, const char *value);
