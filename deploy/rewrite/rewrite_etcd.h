/* The etcd of a bundle: found, judged, replaced by rdzvd, and the Services that lead to it. */
#pragma once

#include "deploy/rewrite/rewrite_input.h"

struct etcd {
    const struct kube_object *object;
    const struct kube_container *container;
    long ports[JOB_LISTENERS_MAX + 1]; /* where clients come in; the first is the one that counts */
    size_t port_count;
    long peer_port;
    const struct kube_object **services; /* that select it */
    size_t service_count;
    const struct kube_object **wanted; /* those that jobs name */
    size_t wanted_count;
    long nodes; /* of these jobs */
};

/* NULL when there is none, or when there is an error in diag: one that cannot be replaced, or
 * several and none of them named. */
struct etcd *etcd_find(struct rewrite *w);

/* Whether a run meets there. */
bool etcd_serves(const struct etcd *e, const struct job_run *r);
/* Notes the Service that such a run names. */
void etcd_want(struct etcd *e, const struct job_run *r);

/* Puts rdzvd in its place, and makes its Services fit. `c10d` is said of the jobs: they will come
 * by that protocol. */
void etcd_replace(struct rewrite *w, const struct etcd *e, bool c10d);
