/* What torchrun is told, with new values, where each is written: in a list of words, in shell text,
 * in a variable. */
#pragma once

#include "deploy/rewrite/rewrite_input.h"

/* A new value for the whole of it: of the variable that it names, if it is nothing else. */
void setting_write(struct rewrite *w, const struct job_run *r, const struct job_setting *s,
                   const char *value);

/* For bytes [from, to) of the text as it is written; false, and nothing is done, when quotes stand
 * between them. */
bool setting_write_part(struct rewrite *w, const struct job_setting *s, size_t from, size_t to,
                        const char *value);

/* One more option or variable behind this one, in its shape. */
void setting_add(struct rewrite *w, const struct job_run *r, const struct job_setting *beside,
                 enum torchrun_option option, const char *value);
