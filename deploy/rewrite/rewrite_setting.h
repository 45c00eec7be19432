/* Sets the settings of torchrun where they are written: in a list of words, in shell text, or in a
 * variable. */
#pragma once

#include "deploy/rewrite/rewrite_input.h"

/* Sets a new value. If the setting is nothing but a variable, the variable gets it. */
void setting_write(struct rewrite *w, const struct job_run *r, const struct job_setting *s,
                   const char *value);

/* Sets a new value for such a part. False: quotes stand within it, and nothing is done. */
bool setting_write_part(struct rewrite *w, const struct job_setting *s, size_t from, size_t to,
                        const char *value);

/* Adds an option or variable after this one, in the same form. */
void setting_add(struct rewrite *w, const struct job_run *r, const struct job_setting *beside,
                 enum torchrun_option option, const char *value);

/* --- The conf of a rendezvous on its way to c10d: is_host=0 keeps workers from being the store,
 * behind relays agents wait for their store as long as those that emit makes, and keys that only
 * the old backend reads get the name that c10d has for them, or go. --- */

/* What a run has that had none. */
const char *conf_of_c10d(const struct rewrite *w);

/* `s` is a source of the run's conf that is written somewhere. */
void conf_move(struct rewrite *w, const struct job_run *r, const struct job_setting *s);

/* The same for rdzvConf of an elasticPolicy, whose backend was `backend`. If it is not there, its
 * lines go to `missing`. */
void conf_move_policy(struct rewrite *w, const struct yaml_node *policy, const char *backend,
                      struct buf *missing);
