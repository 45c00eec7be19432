/* How the containers of a bundle take part in torch's rendezvous: the torchrun command in lists and
 * in scripts, PET_* variables, a PyTorchJob's elasticPolicy, each setting with the place it comes
 * from and with what is known of its value, and the store that the endpoint leads to. */
#pragma once

#include "deploy/kube/kube_view.h"
#include "deploy/kube/torchrun_args.h"

/* From the weakest to the strongest. */
enum job_from {
    JOB_FROM_NOWHERE,
    JOB_FROM_ENV,      /* PET_* in the container's env, or in a ConfigMap of the bundle */
    JOB_FROM_OPERATOR, /* elasticPolicy, or worked out by an operator, which puts it behind the env
                        */
    JOB_FROM_SCRIPT,   /* PET_* set by the script */
    JOB_FROM_FLAG,
};

#define JOB_FIELDS_MAX 8

/* A text in which variables have been replaced, as far as they are known from manifests. */
struct job_value {
    const char *text; /* what is not known stands there as it was written */
    bool known;       /* all of it */
    const char
        *fields[JOB_FIELDS_MAX]; /* what of the pod is in it: "metadata.annotations['...']" */
    size_t field_count;
};

struct job_setting {
    enum job_from from;
    const struct yaml_node
        *node;               /* the scalar (or `valueFrom`) that says it; NULL: nothing written */
    size_t start, end;       /* its bytes in the scalar's text */
    struct arg_text written; /* the same with its text as it is written; text NULL: none */
    const struct torchrun_flag *flag; /* of a torchrun command: whose value it is */
    struct job_value value;           /* text "" where nothing is said */
    const struct job_setting *weaker; /* the next source that says it, or NULL */
};

/* A variable of a container. */
struct job_variable {
    const char *name;
    const struct yaml_node *node;   /* the entry of env, or the value in a ConfigMap */
    const struct yaml_node *value;  /* a scalar, or NULL */
    const struct yaml_node *source; /* valueFrom, or NULL */
    const char *made;               /* by the platform: its value; then there are no nodes */
};

/* One way in which a container starts torch: a torchrun command, or, where none is to be seen,
 * variables that one would read. */
struct job_run {
    const struct kube_container *container;
    const struct torchrun_args *args; /* NULL: no torchrun to be seen */
    struct job_setting settings[TORCHRUN_OPTIONS];
    const char *backend; /* "static" when nothing is said; "" when it is not known */
    const char *host;    /* of the endpoint; "" when it is not known */
    long port;           /* the backend's own when it says none; -1: not known */
    bool port_written;
    long nodes_min, nodes_max; /* -1: not known */
    bool standalone;
    struct kube_target target;     /* what the host is within the bundle */
    bool found;                    /* it is something there */
    bool local;                    /* localhost */
    bool hosted;                   /* a training pod of this job is to be the store */
    const struct job_store *store; /* where the endpoint leads, if that is in the bundle, or NULL */
};

/* A container that serves as a store or in front of one. */
enum job_store_kind { JOB_STORE_NONE, JOB_STORE_RDZVD, JOB_STORE_RELAY, JOB_STORE_ETCD };

struct job_store {
    enum job_store_kind kind;
    const struct kube_container *container;
};

struct job_view {
    struct kube_bundle *bundle; /* the caller's; what is found lies in its arena */
    struct job_run **runs; /* in the order of the bundle, those of an object one after the other */
    size_t count;          /* in containers */
    size_t all_count, cap; /* and behind these in scripts of ConfigMaps, which something runs */
    struct job_store *stores;
    size_t store_count, store_cap;
    size_t *first_store; /* by the index of pods: of their first store, from 1; 0: none */
    /* The variables of the container that was asked for last. */
    const struct kube_container *variables_of;
    const struct job_variable *variables;
    size_t variable_count;
};

void job_find(struct job_view *v, struct kube_bundle *bundle);

/* The words that the container's command and args make, and whether a shell reads one of them as a
 * script: then *script is its index, else it is the count. NULL when the image decides. */
const struct arg_word *job_words(struct arena *a, const struct kube_container *c, size_t *count,
                                 size_t *script);

/* The variables of a container in the order in which they are set; a later one of a name wins. */
const struct job_variable *job_variables(struct job_view *v, const struct kube_container *c,
                                         size_t *count);
/* The one that wins, or NULL. */
const struct job_variable *job_variable(struct job_view *v, const struct kube_container *c,
                                        const char *name);

struct job_value job_variable_value(struct job_view *v, const struct kube_container *c,
                                    const struct job_variable *variable);

/* "PET_RDZV_ID" */
const char *job_variable_name(enum torchrun_option option);

/* The object whose pods run it. */
const struct kube_object *job_run_object(const struct job_run *r);

/* Whether several pods are to meet, as far as it is known. */
bool job_is_multi_node(const struct job_run *r);
/* c10d, etcd, etcd-v2. */
bool job_is_dynamic(const struct job_run *r);
/* A range of nodes. */
bool job_is_elastic(const struct job_run *r);

enum job_store_kind job_store_kind(struct arena *a, const struct kube_container *c);
/* The store in these pods, or NULL. A relay counts. */
const struct job_store *job_store_in(const struct job_view *v, const struct kube_pods *p);

/* The value of a store's option: of `--name=value` or `--name value` among its words, or of the
 * variable (NULL: it has none); false when it is not given. A switch has the value "". */
bool job_store_option(struct job_view *v, const struct kube_container *c, const char *name,
                      const char *variable, struct job_setting *out);
/* The `index`-th value of an option that may be given several times. */
bool job_store_nth_option(struct job_view *v, const struct kube_container *c, const char *name,
                          const char *variable, size_t index, struct job_setting *out);

/* A listener of a store. */
struct job_listener {
    bool local; /* on loopback only */
    bool tls;
    long port;
    const char *option; /* that says it: listen, listen-client-urls, listen-peer-urls... */
    struct job_setting setting;
};
#define JOB_LISTENERS_MAX 8
/* Those for clients; with `peers` all. False when not all can be seen (a settings file, a variable
 * of the cluster's). None at all: the store's own default. */
bool job_store_listeners(struct job_view *v, const struct job_store *s, bool peers,
                         struct job_listener *out, size_t *count);
