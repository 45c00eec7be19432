/* Kubernetes objects in YAML files, as far as the verbs care: each object with its name and
 * namespace, the lists and AppWrappers around it opened, and the pods that it makes. Only looks;
 * what is missing or of the wrong kind is passed over. */
#pragma once

#include "deploy/yaml/arena.h"
#include "deploy/yaml/yaml_doc.h"

#include <stdbool.h>
#include <stddef.h>

enum kube_type {
    KUBE_OTHER,
    KUBE_SERVICE,
    KUBE_CONFIG_MAP,
    KUBE_CLAIM,
    KUBE_NAMESPACE,
    KUBE_NETWORK_POLICY,
    KUBE_POD,
    KUBE_DEPLOYMENT, /* and ReplicaSet, DaemonSet */
    KUBE_STATEFULSET,
    KUBE_JOB, /* batch/v1 */
    KUBE_JOBSET,
    KUBE_VOLCANO_JOB,
    KUBE_PYTORCHJOB,
    KUBE_TRAINJOB,
    KUBE_RUNTIME,    /* TrainingRuntime, ClusterTrainingRuntime */
    KUBE_APPWRAPPER, /* v1beta2: components */
    KUBE_MCAD,       /* v1beta1: GenericItems */
};

struct kube_object {
    enum kube_type type;
    const struct yaml_node *node, *spec;
    const char *kind, *name,
        *namespace; /* "" if it says none; inside a wrapper, the wrapper's namespace */
    const struct kube_object *wrapper; /* the AppWrapper that it stands in, or NULL */
    const struct yaml_node *entry;     /* its entry there: of components or GenericItems */
    const struct yaml_doc *doc;        /* that it stands in */
    const struct yaml_node *list;      /* the `items` of a List that it is one of, or NULL */
    size_t item;                       /* its index there */
    size_t index;                      /* among the bundle's objects */
};

struct kube_label {
    const char *key, *value; /* value NULL: another one on each pod */
};

struct kube_container {
    const struct kube_pods *pods;
    const struct yaml_node *node;
    const struct yaml_node *over; /* a TrainJob's `trainer`, whose fields come before the node's */
    const char *name, *image;     /* "" if it says none */
    bool init;
    bool sidecar; /* init, and runs beside the others: restartPolicy Always */
};

/* The pods that are made of one template. */
struct kube_pods {
    const struct kube_object *object;
    const char *role;             /* Master, Worker, name of the task or replicatedJob; else "" */
    const struct yaml_node *part; /* what holds the template; of a Pod the object itself */
    const struct yaml_node *meta, *spec; /* of the pods; spec is never NULL */
    long replicas;                       /* how many; -1: not said as a number */
    bool counted;                        /* `replicas` is written there, not a default */
    bool ends;                           /* they run to their end, unlike those of a Deployment */
    const char *restart;                 /* Always, OnFailure, Never: what the pod gets */
    bool host_network;
    struct kube_label *labels; /* with those that the platform adds */
    size_t label_count;
    const char *host_prefix; /* host names are prefix, index, "." and domain; NULL: unknown */
    const char *host_domain; /* "": the name stands alone */
    struct kube_container *containers; /* init containers first */
    size_t count;
    size_t index; /* among the bundle's pods */
};

/* Rules look at pairs of objects; and aliases make many of few bytes. */
#define KUBE_OBJECTS_MAX 50000

struct kube_bundle {
    struct arena arena;
    bool overflow; /* there were more objects than KUBE_OBJECTS_MAX, and they are left out */
    struct kube_object **objects; /* in the order of the files, an AppWrapper before its parts */
    size_t count, cap;
    struct kube_pods **pods;
    size_t pod_count, pod_cap;
};

/* Files stay the caller's, and longer than the bundle. */
void kube_add_file(struct kube_bundle *b, const struct yaml_file *file);
/* When all files are in: finds the pods. */
void kube_find_pods(struct kube_bundle *b);
void kube_free(struct kube_bundle *b);

/* yaml_path(), with an explicit null for absent, as a server has it. */
const struct yaml_node *kube_get(const struct yaml_node *node, const char *path);
/* Text of a scalar at the path, or "". */
const char *kube_text(const struct yaml_node *node, const char *path);
/* The number there, or `otherwise`. A number in quotes counts: to people it is one. */
long kube_int(const struct yaml_node *node, const char *path, long otherwise);
bool kube_true(const struct yaml_node *node, const char *path);

/* The key of a mapping, for what is wrong about a value as a whole; the mapping if it is not there.
 */
const struct yaml_node *kube_key(const struct yaml_node *mapping, const char *key);

/* A field of a container; `over` comes first. */
const struct yaml_node *kube_field(const struct kube_container *c, const char *key);

/* The same namespace. One that is not said is that of the command line, and no other. */
bool kube_same_namespace(const struct kube_object *a, const struct kube_object *b);

/* The outermost: an AppWrapper lives and dies with all its parts. */
const struct kube_object *kube_top(const struct kube_object *o);

/* Whether a map of labels (a Service's selector) matches; an empty one matches nothing. */
bool kube_selects(const struct yaml_node *selector, const struct kube_pods *p);
/* The same of a selector with matchLabels and matchExpressions; an empty one matches all. */
bool kube_selects_by(const struct yaml_node *selector, const struct kube_pods *p);
/* Pods of the Service's namespace that it selects; the next one behind `after` (NULL: the first).
 */
const struct kube_pods *kube_next_selected(const struct kube_bundle *b,
                                           const struct kube_object *service,
                                           const struct kube_pods *after);

bool kube_is_headless(const struct kube_object *service);

/* Whether a host name that names no namespace leads to an object. */
enum kube_reach {
    KUBE_REACHED,   /* one namespace, or the host name says which */
    KUBE_UNDECIDED, /* one of the two names none: it lands in the namespace of kubectl's context */
    KUBE_ELSEWHERE, /* two namespaces: it does not */
};

/* What a host name stands for within the cluster, seen from a pod of `from`. */
struct kube_target {
    const struct kube_object *service; /* one of the bundle */
    const struct kube_pods *pods;      /* or pods with names of their own */
    enum kube_reach reach;
};
bool kube_find_host(const struct kube_bundle *b, const struct kube_object *from, const char *host,
                    struct kube_target *out);

/* The Service that a controller makes for the object, or "". */
const char *kube_made_service(const struct kube_object *o);

/* The last part of a path: what `/usr/bin/torchrun` is called. */
const char *kube_base_name(const char *path);

/* The number of a port that is written as a number or as a name of a container's port (of `only`,
 * if that is not NULL); -1 if unknown. */
long kube_port_number(const struct yaml_node *port, const struct kube_pods *p,
                      const struct kube_container *only);
