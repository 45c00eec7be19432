/* A job of a bundle, with the edits that take it to a c10d store. */
#pragma once

#include "deploy/rewrite/rewrite_input.h"

/* An object with all that starts torch in its containers; or a ConfigMap with scripts that do. */
struct rewrite_job {
    const struct kube_object *object;
    struct job_run **runs;
    size_t count;
    const struct yaml_node *policy; /* the elasticPolicy of a PyTorchJob, or NULL */
};

/* The next job of the bundle; *at starts at 0. False behind the last. */
bool rewrite_next_job(const struct rewrite *w, size_t *at, struct rewrite_job *out);

/* How many pods are to meet, as far as it is known; at least 1. */
long rewrite_job_nodes(const struct rewrite_job *j);

/* Whether worker 0 is the store, and the job can be given another one. */
bool rewrite_is_self_hosted(const struct rewrite_job *j);

/* Takes a run to c10d: at HOST, or if that is NULL at the name where it meets now. `old_port` is no
 * port of its container any more. */
void rewrite_move_run(struct rewrite *w, const struct rewrite_job *j, const struct job_run *r,
                      const char *host, long old_port);
/* The same of the policy, if the run meets where it says. */
bool rewrite_obeys_policy(const struct rewrite_job *j, const struct job_run *r);
void rewrite_move_policy(struct rewrite *w, const struct rewrite_job *j, const char *host);
/* Of the variables that emit would write those that the container, and the run (or NULL), lack. */
void rewrite_add_variables(struct rewrite *w, const struct kube_container *c,
                           const struct job_run *r, const struct yaml_node *env);
