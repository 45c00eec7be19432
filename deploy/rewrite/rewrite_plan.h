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

/* --- A job of a bundle, and the edits that move it to a c10d store, rewrite_job.c. --- */

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

/* Refuses a text below the node that waits for the old store, as all init containers do (`waits`),
 * and notes any other text that names it. Call it after the edits of the job. */
void old_address_refuse(struct rewrite *w, const struct rewrite_job *j, const struct yaml_node *n,
                        bool waits);

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
