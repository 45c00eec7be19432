/* What happens to each etcd and to each job of the bundle. */
#pragma once

#include "deploy/rewrite/rewrite_input.h"

/* --- Etcds: found, replaced by rdzvd, with edits of the Services that lead to them. --- */

struct etcd {
    const struct kube_object *object;
    const struct kube_container *container;
    long ports[JOB_LISTENERS_MAX + 1]; /* the ports for clients; the first one counts */
    size_t port_count;
    long peer_port;
    const struct kube_object **services; /* that select it */
    size_t service_count;
    const struct kube_object **wanted; /* those that jobs name */
    size_t wanted_count;
    long nodes;    /* of these jobs */
    size_t direct; /* those of them that get no relay */
    size_t moved;  /* those of them that move to c10d */
    size_t fixed;  /* those whose controller knows etcd alone */
};

/* The etcds to replace: those at which jobs of torch meet, and nobody else; with --etcd the one of
 * that name. Of the others a note says why they stay. Returns their number; none after an error,
 * which is in diag: one of them cannot be replaced. */
size_t etcd_find(struct rewrite *w, struct etcd **out);

/* Whether the endpoint of a run leads there. */
bool etcd_serves(const struct etcd *e, const struct job_run *r);
/* Marks the Service that such a run names as used. */
void etcd_want(struct etcd *e, const struct job_run *r);

/* Replaces it by rdzvd, and edits its Services. `c10d`: the jobs will use that protocol. */
void etcd_replace(struct rewrite *w, const struct etcd *e, bool c10d);

/* --- Jobs. --- */

/* Handles jobs that meet at these etcds: they move to c10d, or stay as they are. */
void move_from_etcds(struct rewrite *w, struct etcd *etcds, size_t count, bool c10d);

/* Gives jobs whose worker 0 is the store one of their own; with `look`, only notes them. Returns
 * their number. */
size_t move_self_hosted(struct rewrite *w, bool look);

/* The same for PyTorchJobs that call no torchrun: they get a store beside their Master. */
size_t move_to_agent_store(struct rewrite *w, bool look);
