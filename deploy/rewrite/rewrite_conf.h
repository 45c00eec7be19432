/* Moves the conf of a rendezvous to c10d: is_host=0 keeps workers from being the store, behind
 * relays agents wait for their store as long as those that emit makes, and keys that only the old
 * backend reads get the name that c10d has for them, or go. */
#pragma once

#include "deploy/rewrite/rewrite_input.h"
#include "deploy/yaml/arena.h"

/* What a run has that had none. */
const char *conf_of_c10d(const struct rewrite *w);

/* `s` is a source of the run's conf that is written somewhere. */
void conf_move(struct rewrite *w, const struct job_run *r, const struct job_setting *s);

/* The same for rdzvConf of an elasticPolicy, whose backend was `backend`. If it is not there, its
 * lines go to `missing`. */
void conf_move_policy(struct rewrite *w, const struct yaml_node *policy, const char *backend,
                      struct buf *missing);
