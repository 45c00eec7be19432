/* How the containers of a bundle take part in the rendezvous of torch: torchrun commands in lists
 * and in scripts, PET_* variables, the elasticPolicy of a PyTorchJob, and the store at the
 * endpoint. Each setting has its source, its place in the file and, if known, its value. */
#pragma once

#include "deploy/kube/kube_view.h"
#include "deploy/kube/torchrun_args.h"
#include "proto/units.h"

/* From the weakest to the strongest. */
enum job_from {
    JOB_FROM_NOWHERE,
    JOB_FROM_ENV,      /* PET_* in the container's env, or in a ConfigMap of the bundle */
    JOB_FROM_OPERATOR, /* elasticPolicy, or derived by an operator, which appends it to the env */
    JOB_FROM_SCRIPT,   /* PET_* set by the script */
    JOB_FROM_FLAG,
};

#define JOB_FIELDS_MAX 8

/* A text with its variables replaced, as far as the manifests define them. */
struct job_value {
    const char *text;     /* unknown references stay as they are written */
    bool known;           /* all of it */
    bool lacks_namespace; /* everything except the pod's namespace, which kubectl decides */
    const char *fields[JOB_FIELDS_MAX]; /* fields of the pod that are in it:
                                           "metadata.annotations['...']" */
    size_t field_count;
};

struct job_setting {
    enum job_from from;
    struct arg_word written; /* the word that sets it; node NULL: nothing is written. Without a
                                text, the node is a field of an operator, a `valueFrom`, or the word
                                of an option that has no value */
    const struct torchrun_flag *flag; /* in a torchrun command: the option whose value it is */
    struct job_value value;           /* text "" if nothing is set */
    const struct job_setting *weaker; /* the next source that sets it, or NULL */
};

/* A variable of a container. */
struct job_variable {
    const char *name;
    const struct yaml_node *node;   /* the entry of env, or the value in a ConfigMap */
    const struct yaml_node *value;  /* a scalar, perhaps of a ConfigMap, or NULL */
    const struct yaml_node *source; /* valueFrom, or NULL */
    bool is_made;                   /* a controller sets it; then there are no nodes */
    const char *made; /* the controller's value; NULL: unknown, or different in each pod */
};

/* A run: a torchrun command or, if a container has none, variables that a torchrun would read. */
struct job_run {
    const struct kube_container *container;
    const struct torchrun_args *args; /* NULL: no torchrun is visible */
    const struct arg_word *cleared;   /* by this program, or NULL: the variables of the container */
    const struct arg_word *unread;    /* a text that may have more options, or start torch, and is
                                         not in these files; NULL: all is read */
    const struct kube_object *map;    /* the ConfigMap with the script, or NULL */
    struct job_setting settings[TORCHRUN_OPTIONS];
    const char *backend;       /* "static" if nothing is set; "" if it is unknown */
    const char *host;          /* of the endpoint; "" if it is unknown */
    long port;                 /* the default of the backend if it has none; -1: unknown */
    long nodes_min, nodes_max; /* -1: not known */
    bool standalone;
    struct kube_target target; /* what the host name leads to in the bundle */
    bool found;                /* it is something there */
    bool local;                /* localhost */
    bool own_name;             /* its host is what the pod calls itself: $(hostname), its IP */
    bool hosted;               /* a training pod of this job serves the store */
    const char *misnamed; /* why a pod that should serve the store has no address under the host's
                             name; NULL: it has, or the host is no pod */
    bool of_all;          /* the host is a Service of all training pods */
    bool maybe_hosted;    /* perhaps `hosted`: the manifests hide the endpoint of the other pods */
    const struct job_store *store; /* the store at the endpoint, if it is in the bundle, or NULL */
};

/* A loop over the options of its command. */
#define JOB_FOREACH_FLAG(f, r)                                                    \
    FOREACH(struct torchrun_flag, f, (r)->args == NULL ? NULL : (r)->args->flags, \
            (r)->args == NULL ? 0 : (r)->args->count)

/* Runs in the order of the bundle, and a loop over them. */
struct job_view_runs {
    struct job_run **list;
    size_t count;
};
#define JOB_FOREACH(r, runs) FOREACH_POINTER(struct job_run, r, (runs).list, (runs).count)

/* A container that serves as a store or, with --upstream and no --journal, in front of one. */
enum job_store_kind { JOB_STORE_NONE, JOB_STORE_RDZVD, JOB_STORE_RELAY, JOB_STORE_ETCD };
extern const char *const job_store_names[]; /* "rdzvd", "relay" and "etcd" */

struct job_store {
    enum job_store_kind kind;
    const struct kube_container *container;
    struct job_view_runs runs;      /* in containers, that meet there */
    const struct job_store *behind; /* of a relay: see job_store_behind() */
};

/* A container of a job in which no launcher of torch was read, and what it starts; NULL: its image
 * decides. */
struct job_closed {
    const struct kube_container *container;
    const char *program;
    const struct yaml_node *at; /* where the program is written, or NULL */
    const char *remedy; /* the way to rdzvd for deepspeed and the like, or why nothing reads it */
};

struct job_view {
    struct kube_bundle *bundle; /* of the caller; all results lie in its arena */
    struct job_run **runs;      /* in the order of the bundle; those of an object are adjacent */
    size_t count;               /* in containers */
    size_t all_count, cap;      /* and after these, in scripts of ConfigMaps */
    struct kube_index started;  /* scripts of ConfigMaps that containers start */
    struct job_closed *closed;
    size_t closed_count, closed_cap;
    struct job_store *stores;
    size_t store_count, store_cap;
    size_t *first_store;       /* by index of pods: their first store, counted from 1; 0: none */
    struct kube_index servers; /* the pods with a store that is no relay, by label */
    struct job_view_runs *of_pods; /* by index of pods: their runs in containers */
    /* The variables of the last container. */
    const struct kube_container *variables_of;
    struct job_variable *variables;
    size_t variable_count, variable_cap;
    struct kube_index variable_names; /* their indices by name; empty: they are few */
};

/* Call this after kube_add_file() for all files; kube_find_pods() is a part of it. */
void job_find(struct job_view *v, struct kube_bundle *bundle);

/* The words of command and args; without any, the image decides what runs. */
struct job_words {
    struct arg_word *list;
    size_t count;
    const struct arg_word *script; /* that a shell runs as a script, or NULL */
};
struct job_words job_words(struct arena *a, const struct kube_container *c);

/* Loops over the variables that are written for a container, in the order in which they are set;
 * of one name, the last wins. */
#define JOB_FOREACH_VARIABLE(variable, v, c) \
    FOREACH(const struct job_variable, variable, job_variables(v, c), (v)->variable_count)
const struct job_variable *job_variables(struct job_view *v, const struct kube_container *c);
/* The one that wins, or NULL: what a controller sets wins over what is written. */
const struct job_variable *job_variable(struct job_view *v, const struct kube_container *c,
                                        const char *name);

/* The controller that overrides this variable of the container: `elasticPolicy`, a plugin of
 * Volcano, `the operator`; NULL: none. */
const char *job_made_by(const struct kube_container *c, const char *name);

struct job_value job_variable_value(struct job_view *v, const struct kube_container *c,
                                    const struct job_variable *variable);

/* The first field of an elasticPolicy that the operator does not have, or NULL. */
const struct yaml_pair *job_policy_stranger(const struct yaml_node *policy);

/* Whether a setting is written anywhere, and its value: "" if it is not. */
bool job_is_set(const struct job_run *r, enum torchrun_option option);
const char *job_text(const struct job_run *r, enum torchrun_option option);
/* The id, or torch's `none`. */
const char *job_id(const struct job_run *r);

/* The object whose pods contain the run. */
const struct kube_object *job_run_object(const struct job_run *r);

/* Whether the run has several pods, as far as it is known. */
bool job_is_multi_node(const struct job_run *r);
/* c10d, etcd, etcd-v2, and not --standalone. */
bool job_is_dynamic(const struct job_run *r);
/* etcd, etcd-v2. */
bool job_is_etcd(const struct job_run *r);
/* No manifest says where the endpoint leads: the pod computes it when it runs. */
bool job_endpoint_is_computed(const struct job_run *r);
/* What emit and rewrite set as --max-restarts: usualRestarts of deploy/data/model.yaml. */
#define JOB_USUAL_RESTARTS "100"

/* The host is the pod itself: localhost, 127.0.0.1. */
bool job_is_local(const char *host);
/* A text that decides where the agents meet, and that cannot be read: options in a variable, a
 * script of the image, an endpoint that a command prints. NULL: all is known. */
const char *job_unread(const struct job_run *r);
/* A range of nodes. */
bool job_is_elastic(const struct job_run *r);

enum job_store_kind job_store_kind(struct arena *a, const struct kube_container *c);
/* The object with the container of a store. */
const struct kube_object *job_store_object(const struct job_store *s);
/* The store in these pods, or NULL; a relay counts. */
const struct job_store *job_store_in(const struct job_view *v, const struct kube_pods *p);

/* The runs in the containers of these pods, and those in the containers of the object. */
struct job_view_runs job_runs_in(const struct job_view *v, const struct kube_pods *p);
struct job_view_runs job_runs_of(const struct job_view *v, const struct kube_object *o);
/* How many groups of pods the run has, each of them with all its nodes: of a LeaderWorkerSet, or
 * the Jobs of a replicatedJob. */
long job_groups(const struct job_run *r);
/* An earlier run of the same object that names the same host, but another id or port, though each
 * of the two waits for more nodes than it has pods; NULL: there is none. */
const struct job_run *job_parted_from(const struct job_view *v, const struct job_run *r);
/* How many pods of the object start torch; -1: that is not known. */
long job_training_pods(const struct job_view *v, const struct kube_object *o);

/* The first store in these pods except relays, or NULL. A relay listens on loopback, so other pods
 * cannot reach it. */
const struct job_store *job_server_in(const struct job_view *v, const struct kube_pods *p);

/* The first such store behind a Service, or NULL. */
const struct job_store *job_server_behind(const struct job_view *v,
                                          const struct kube_object *service);
/* The one that a host name leads to, or NULL. */
const struct job_store *job_server_at(const struct job_view *v, const struct kube_target *target);

/* The value of an option of a store: from its words, `--name=value` or `--name value`, else from
 * its variable, RDZVD_NAME or ETCD_NAME. NULL: it is not set. A switch has the value "". `out` may
 * be NULL. */
const char *job_store_option(struct job_view *v, const struct kube_container *c, const char *name,
                             struct job_setting *out);
/* The `index`-th value of an option that may be given several times. */
bool job_store_nth_option(struct job_view *v, const struct kube_container *c, const char *name,
                          size_t index, struct job_setting *out);

/* An option of rdzvd, as rdzv/config/settings.py has it. */
struct job_option {
    const char *name, *takes; /* takes: as in --help: DURATION|off, or on|off */
    const char *const *words; /* that it takes; NULL: any text */
    enum units_result (*parse)(const char *text, uint64_t *out); /* of a number, or NULL */
    const char *const *hints;
    uint64_t least;
};
extern const struct job_option job_options[];
extern const size_t job_option_count;

/* The tag of an image whose name is etcd: "" if it has none; NULL if it is another image, or only a
 * digest says what it is. */
const char *job_etcd_tag(struct arena *a, const struct kube_container *c);
/* Whether the tag is of etcd 3.MINOR or later: `v3.6.1`, `3.6`, `3.6.0-debian-12`, `latest`, "". */
bool job_etcd_is_since(const char *tag, long minor);
/* Whether this etcd certainly has no v2 API: etcd 3.4 and later need --enable-v2 for it. */
bool job_etcd_lacks_v2(struct job_view *v, const struct job_store *s);

/* A listener of a store. */
struct job_listener {
    bool local; /* on loopback only */
    bool tls;   /* TLS alone */
    bool plain; /* plain text with everybody */
    long port;
    const char *option; /* that sets it: listen, listen-client-urls, listen-peer-urls... */
    struct job_setting setting;
};
#define JOB_LISTENERS_MAX 8
/* Where a store listens; nowhere: it uses its defaults. */
struct job_listeners {
    struct job_listener list[JOB_LISTENERS_MAX];
    size_t count;
    bool all; /* there are no others: no settings file, and no variable of the cluster */
};
#define JOB_FOREACH_LISTENER(l, listeners) \
    FOREACH(const struct job_listener, l, (listeners)->list, (listeners)->count)
/* The listeners for clients; with `peers`, all. */
struct job_listeners job_store_listeners(struct job_view *v, const struct job_store *s, bool peers);
/* The one at the port, or NULL. */
const struct job_listener *job_listener_at(const struct job_listeners *l, long port);

/* --- Relays. --- */

/* An address of --upstream, and where it leads. */
struct job_upstream {
    const struct job_store *relay;
    struct job_setting setting; /* with all addresses */
    const char *text;           /* this one: HOST:PORT */
    const char *host;
    long port;
    bool known;       /* the manifests define every variable in the address */
    bool well_formed; /* it is HOST:PORT */
    bool found;       /* the host is something in the bundle: */
    struct kube_target target;
    const struct job_store *store; /* the store there, or NULL; no relay */
};

/* The address of that index; false: the relay has fewer. */
bool job_relay_upstream(struct job_view *v, const struct job_store *relay, size_t index,
                        struct job_upstream *out);
/* Where what the container is told ends up: the store itself or, if it is a relay, the first store
 * of the bundle that it leads to, or NULL. NULL for NULL. */
const struct job_store *job_store_behind(const struct job_store *s);
/* The space that a relay uses; false: it is not written, and so `default`. */
bool job_relay_space(struct job_view *v, const struct job_store *relay, struct job_setting *out);

/* --- Output for users and tests. --- */

/* Prints JSON: each run with its backend, endpoint, id, nodes and the target of its endpoint, and
 * each store with the ports at which it serves clients. */
void job_show(FILE *out, struct job_view *v);
