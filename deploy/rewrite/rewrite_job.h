/* A job of a bundle, and the edits that move it to a c10d store. */
#pragma once

#include "deploy/rewrite/rewrite.h"

/* An object with all runs in its containers, or a ConfigMap with scripts that start torch. */
struct rewrite_job {
    const struct kube_object *object;
    struct job_view_runs runs;
    const struct yaml_node *policy; /* the elasticPolicy of a PyTorchJob, or NULL */
};

/* Finds the next job of the bundle; *at starts at 0. False: there is none. */
bool rewrite_next_job(const struct rewrite *w, size_t *at, struct rewrite_job *out);

/* With how many pods each run of the job begins; 0: that is not known, or differs. */
long rewrite_job_pods(const struct rewrite_job *j);

/* A run that meets in other training pods than an earlier one, *with, under the same id, so that
 * both would be one at one store; NULL: there is none. */
const struct job_run *rewrite_job_merged(const struct rewrite_job *j, const struct job_run **with);

/* The number of pods, as far as it is known, or that of nodes that torchrun takes; at least 1. */
long rewrite_job_nodes(const struct rewrite_job *j);

/* Whether worker 0 is the store, and the job can get another one. */
bool rewrite_is_self_hosted(const struct rewrite_job *j);

/* What happens to the restarts of a run that moves. */
enum rewrite_restarts {
    RESTARTS_KEPT,            /* the user set a number, or the pods do not start again one by one */
    RESTARTS_ADDED,           /* torchrun had none, and gets them */
    RESTARTS_OUT_OF_SIGHT,    /* not all of its options are in view */
    RESTARTS_OF_UNKNOWN_PODS, /* a script of a ConfigMap */
};
enum rewrite_restarts rewrite_restarts_of(const struct rewrite *w, const struct job_run *r);

/* With rdzv.restart, no torchrun restarts its workers: all containers start again. */
static inline bool rewrite_restarts_in_place(const struct rewrite *w)
{
    return yaml_get(w->options->wishes, "restart") != NULL;
}

/* Moves a run to c10d: at HOST or, if that is NULL, at the name that it uses now. Removes
 * `old_port` from its container. */
void rewrite_move_run(struct rewrite *w, const struct rewrite_job *j, const struct job_run *r,
                      const char *host, long old_port);
/* The same for the policy, if the run meets where the policy says. */
bool rewrite_obeys_policy(const struct rewrite_job *j, const struct job_run *r);
void rewrite_move_policy(struct rewrite *w, const struct rewrite_job *j, const char *host);
/* Adds an item before (or after) all others of a list of the pod, which may not exist. */
void rewrite_add_to_pod(struct rewrite *w, const struct kube_pods *p, const char *key, bool before,
                        struct yaml_node *item);
/* Adds those variables that emit would write and that the container, and the run (or NULL),
 * lack. */
void rewrite_add_variables(struct rewrite *w, const struct kube_container *c,
                           const struct job_run *r, const struct yaml_node *env);

/* --- Settings of torchrun, where they are written: in a list of words, in shell text, or in a
 * variable. --- */

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

/* The same for rdzvConf of an elasticPolicy, whose backend was `backend`. If the policy has no
 * rdzvConf, the lines to add go to `missing`. */
void conf_move_policy(struct rewrite *w, const struct yaml_node *policy, const char *backend,
                      struct buf *missing);
