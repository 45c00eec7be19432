/* A job of a bundle: its containers, what they say about the rendezvous, and the edits that take
 * them to a c10d store. */
#pragma once

#include "deploy/rewrite/rdzv_refs.h"
#include "deploy/rewrite/rewrite_etcd.h"

struct rewrite_job {
    struct object *object;
    struct pod_specs pods;
    struct wiring *wirings; /* of each container, in the order of the file */
    size_t count;
    struct yaml_node *policy; /* the elasticPolicy of a PyTorchJob, or NULL */
};

/* False when the object has no containers, or holds others that have them (a List). */
bool job_read(struct bundle *b, struct object *o, struct rewrite_job *out);

/* The same of scripts in a ConfigMap: one wiring for each. */
bool job_read_scripts(struct bundle *b, struct object *o, struct rewrite_job *out);

bool job_uses_torchrun(const struct rewrite_job *j);

/* Whether nothing names a backend, which to torchrun is `static`. */
bool job_is_static(const struct rewrite_job *j);

/* The etcd Service that an endpoint names, or NULL. */
struct object *job_service_of(struct bundle *b, const struct rewrite_job *j, const struct wiring *w,
                              const struct rdzv_ref *endpoint, const struct etcd *e);
/* That of the elasticPolicy. */
struct object *job_policy_service(const struct rewrite_job *j, const struct etcd *e);

/* Whether worker 0 is the store. */
bool job_is_self_hosted(struct bundle *b, const struct rewrite_job *j);

/* The port of the endpoint that worker 0 listens at, or 0. */
unsigned job_hosted_port(struct bundle *b, const struct rewrite_job *j);

/* Whatever meets at the etcd, or else at worker 0, meets over c10d from now on: at the same name if
 * `host` is NULL. `old_port` is no port of the containers any more. */
void job_move(struct bundle *b, struct rewrite_job *j, const struct etcd *e, const char *host,
              unsigned old_port);

/* Notes about what was there before and stays: no id, capabilities, host ports, RestartJob. */
void job_note_known_faults(struct bundle *b, const struct rewrite_job *j, bool c10d,
                           unsigned etcd_port);
