/* The plan of rewrite for each etcd and each job of the bundle. */
#pragma once

#include "deploy/emit/emit_job.h"
#include "deploy/rewrite/rewrite.h"

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

#define ETCD_FOREACH_SERVICE(s, e) \
    FOREACH_POINTER(const struct kube_object, s, (e)->services, (e)->service_count)

/* The etcds to replace: only torch's jobs use them, or --etcd names them. A note explains why
 * another etcd stays. Returns their number; 0 after an error: an etcd cannot be replaced. */
size_t etcd_find(struct rewrite *w, struct etcd **out);

/* Whether the endpoint of a run leads there. */
bool etcd_serves(const struct etcd *e, const struct job_run *r);
/* Marks the Service that such a run names as used. */
void etcd_want(struct etcd *e, const struct job_run *r);

/* Replaces it by rdzvd, and edits its Services. `c10d`: the jobs will use that protocol. */
void etcd_replace(struct rewrite *w, const struct etcd *e, bool c10d);

/* --- Jobs. --- */

/* Moves the jobs of these etcds to c10d if `c10d` is set; otherwise leaves their protocol
 * unchanged. */
void move_from_etcds(struct rewrite *w, struct etcd *etcds, size_t count, bool c10d);

/* Gives jobs whose worker 0 is the store one of their own; with `look`, only notes them. Returns
 * their number. */
size_t move_self_hosted(struct rewrite *w, bool look);

/* The same for PyTorchJobs that call no torchrun: they get a store beside their Master. */
size_t move_to_agent_store(struct rewrite *w, bool look);

/* --- The settings of emit for the store of an existing job, and the parts of manifests that emit
 * makes from them. --- */

#define C10D_PORT 29400
#define ETCD_PORT 2379

/* What emit needs beside the name and namespace of the object; NULL and 0: its defaults. */
struct store_settings {
    const char *platform, *placement, *protocol, *wiring;
    const char *name, *service, *advertise;
    const char *endpoint; /* address of a store that these settings do not create */
    long nodes, port, etcd_port;
    bool of_one_job; /* then the store can expect `expect` nodes */
    long expect;     /* how many there are at first; 0: unknown */
    bool host_network;
    bool open;                         /* no NetworkPolicy */
    bool durable;                      /* on a volume */
    const struct yaml_node *resources; /* of the container beside the sidecar */
    const struct yaml_node *found;     /* see parts.yaml: storeWorkload */
};

/* False: there are errors in diag, at the object. Call emit_job_free() in any case. */
bool rewrite_open_store(struct rewrite *w, const struct kube_object *o,
                        const struct store_settings *s, struct emit_job *out);

/* The settings of --set, checked as emit does; NULL: there are none, or an error in diag. Of rdzv
 * the user can set the keys of this verb, see settings.yaml; all others follow from the manifests.
 */
const struct yaml_node *store_wishes(struct rewrite *w, const struct yaml_node *settings,
                                     const char *verb);

/* Writes the tree in block style. */
const char *rewrite_text(struct rewrite *w, const struct yaml_node *tree);
