/* Kubernetes objects in YAML files: each with its name and namespace, without the lists and
 * AppWrappers around it, and the pods that it makes. It only reads, and ignores what is missing or
 * of the wrong type. */
#pragma once

#include "deploy/yaml/yaml_doc.h"

/* --- Numbers by a pair of texts, in the order in which they were added. --- */

struct kube_index_entry;

struct kube_index {
    struct kube_index_entry **buckets;
    size_t bucket_count, count;
};

/* The numbers added for one pair of scope and text, in order. Adding to the same pair may move the
 * list. */
struct kube_hits {
    const size_t *list;
    size_t count;
};

/* The texts are copied. */
void kube_index_add(struct arena *a, struct kube_index *i, const char *scope, const char *name,
                    size_t value);
/* Whether nothing was added for the pair; then adds 0. */
bool kube_index_is_new(struct arena *a, struct kube_index *i, const char *scope, const char *name);
struct kube_hits kube_index_find(const struct kube_index *i, const char *scope, const char *name);
struct kube_hits kube_index_find_part(const struct kube_index *i, const char *scope,
                                      const char *name, size_t name_len);
/* Loops over them: each number is *hit.list. */
#define KUBE_FOREACH_HIT(hit, found) \
    for (struct kube_hits hit = found; hit.count > 0; hit.list++, hit.count--)

/* --- Objects. --- */

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
    KUBE_RUNTIME,       /* TrainingRuntime, ClusterTrainingRuntime */
    KUBE_DLROVER,       /* ElasticJob of DLRover */
    KUBE_ELASTIC_JOB,   /* ElasticJob of TorchElastic's controller */
    KUBE_KUBEDL_JOB,    /* PyTorchJob of KubeDL */
    KUBE_HYPERPOD_JOB,  /* HyperPodPyTorchJob */
    KUBE_LEADER_WORKER, /* LeaderWorkerSet */
    KUBE_MPIJOB,
    KUBE_RAY,        /* RayJob, RayCluster */
    KUBE_APPWRAPPER, /* v1beta2: components */
    KUBE_MCAD,       /* v1beta1: GenericItems */
};

/* The kinds of deploy/data/kinds.yaml. */
struct kube_kind {
    const char *group, *kind; /* group: the part of apiVersion before the /; "" for v1 */
    enum kube_type type;
    const char *platform; /* with which emit makes such jobs, or NULL */
};

extern const struct kube_kind kube_kinds[];
extern const size_t kube_kind_count;

struct kube_object {
    enum kube_type type;
    const struct yaml_node *node, *spec;
    const char *kind, *name, *namespace; /* "" if it has none; in a wrapper, what that gives it */
    const char *title;                   /* "Job train", for messages */
    const struct kube_object *wrapper;   /* the AppWrapper that contains it, or NULL */
    const struct yaml_node *entry;       /* its entry there, in components or GenericItems */
    const struct yaml_doc *doc;          /* that it stands in */
    const struct yaml_node *list;        /* the `items` of the List that contains it, or NULL */
    size_t item;                         /* its index there */
    size_t index;                        /* among the bundle's objects */
    size_t first_pods, pods_count;       /* its pods among the bundle's */
    bool used;                           /* a runtime of a TrainJob of the bundle */
    bool templated; /* its file has placeholders, which a tool replaces before kubectl applies the
                       file */
};

#define KUBE_INJECT_LABEL "labels.rdzv\\.dev/inject"

struct kube_label {
    const char *key, *value; /* value NULL: it differs for each pod */
};

struct kube_container {
    const struct kube_pods *pods;
    const struct yaml_node *node;
    const struct yaml_node
        *over; /* the `trainer` of a TrainJob, whose fields win over those of the node */
    const char *name, *image; /* "" if it says none */
    bool init;
    bool sidecar;  /* an init container that runs beside the others: restartPolicy Always */
    bool injected; /* a policy adds it */
};

/* The pods that are made of one template. */
struct kube_pods {
    const struct kube_object *object;
    const char *role;             /* Master, Worker, the name of a task or replicatedJob; else "" */
    const struct yaml_node *part; /* the node that has the template; for a Pod, the object itself */
    const struct yaml_node *meta, *spec; /* of the pods; spec is never NULL */
    long replicas;                       /* how many; -1: unknown */
    bool ends;                           /* they run to their end, unlike those of a Deployment */
    const char *restart;                 /* Always, OnFailure or Never */
    bool host_network;
    const struct yaml_node *injected; /* the label by which a policy adds a relay, and variables */
    struct kube_label *labels;        /* including those that the platform adds */
    size_t label_count, label_cap;
    const char *host_prefix; /* host names are prefix, index, "." and domain; NULL: unknown */
    const char *host_domain; /* "": the name stands alone */
    struct kube_container *containers; /* init containers first */
    size_t count;
    size_t index; /* among the bundle's pods */
};

#define KUBE_FOREACH_CONTAINER(c, p) \
    FOREACH(const struct kube_container, c, (p)->containers, (p)->count)

#define KUBE_ANYWHERE "*" /* no namespace has this name */

/* A few bytes with aliases make many objects. */
#define KUBE_OBJECTS_MAX 50000

struct kube_bundle {
    struct arena arena;
    bool overflow; /* there were more than KUBE_OBJECTS_MAX objects; the others are left out */
    size_t made;   /* how many were left out by kube_drop_made() */
    struct kube_object **objects; /* in the order of the files, an AppWrapper before its parts */
    size_t count, cap;
    struct kube_pods **pods;
    size_t pod_count, pod_cap;
    struct kube_index named; /* objects by their kind and name */
    /* The scope is a namespace or, for objects of all, KUBE_ANYWHERE: */
    struct kube_index services; /* by name */
    struct kube_index hosts;    /* pods by host_prefix */
    struct kube_index labelled; /* pods by namespace and label: see kube_select() */
};

/* Loops over the objects of a bundle, over its pods, and over the pods of one object. */
#define KUBE_FOREACH(o, b)      FOREACH_POINTER(struct kube_object, o, (b)->objects, (b)->count)
#define KUBE_FOREACH_PODS(p, b) FOREACH_POINTER(struct kube_pods, p, (b)->pods, (b)->pod_count)
#define KUBE_FOREACH_PODS_OF(p, b, o) \
    FOREACH_POINTER(struct kube_pods, p, kube_pods_of(b, o), (o)->pods_count)
/* The first of `pods_count`, or NULL. */
struct kube_pods *const *kube_pods_of(const struct kube_bundle *b, const struct kube_object *o);

/* The caller keeps the files, longer than the bundle. */
void kube_add_file(struct kube_bundle *b, const struct yaml_file *file);
/* Call this after all files: it leaves out what controllers made, and finds the pods. */
void kube_find_pods(struct kube_bundle *b);
/* All pods of the object; -1: the number of some is not known. */
long kube_count_pods(const struct kube_bundle *b, const struct kube_object *o);
void kube_free(struct kube_bundle *b);

/* yaml_path(), with NULL for an explicit null, as the API server reads it. */
const struct yaml_node *kube_get(const struct yaml_node *node, const char *path);
/* The text of the scalar at the path, or "". */
const char *kube_text(const struct yaml_node *node, const char *path);
/* Whether it is this text. */
bool kube_is(const struct yaml_node *node, const char *path, const char *text);
/* The number there, or `otherwise`. A number in quotes counts, too. */
long kube_int(const struct yaml_node *node, const char *path, long otherwise);
bool kube_true(const struct yaml_node *node, const char *path);

/* All that a node says (NULL: nothing), as one text: that of another node is the same only if it
 * says the same. */
const char *kube_print(struct arena *a, const struct yaml_node *node);

/* The first item of a list that has the text at the path, or NULL. */
const struct yaml_node *kube_item(const struct yaml_node *list, const char *path, const char *text);

/* A field of a container; `over` wins. */
const struct yaml_node *kube_field(const struct kube_container *c, const char *key);

/* Whether both have the same namespace. A missing one equals only another missing one. */
bool kube_same_namespace(const struct kube_object *a, const struct kube_object *b);
/* The first object of this kind and name in the namespace of another object, or NULL. */
const struct kube_object *kube_named(const struct kube_bundle *b, const char *kind,
                                     const char *name, const struct kube_object *beside);
/* The runtime in the bundle that a TrainJob uses, or NULL. */
const struct kube_object *kube_runtime_of(const struct kube_bundle *b,
                                          const struct kube_object *train);
/* Whether pods of `o` find the ConfigMap: no pod starts without it, so a missing namespace fits. */
bool kube_reads_map(const struct kube_object *o, const struct kube_object *map);

/* The outermost object: an AppWrapper starts and ends with all its parts. */
const struct kube_object *kube_top(const struct kube_object *o);

/* Whether a map of labels (a Service's selector) matches; an empty one matches nothing. */
bool kube_selects(const struct yaml_node *selector, const struct kube_pods *p);
/* The same of a selector with matchLabels and matchExpressions; an empty one matches all. */
bool kube_selects_by(const struct yaml_node *selector, const struct kube_pods *p);
/* Whether an object has all labels of a matchLabels; an empty one, or none, wants nothing. */
bool kube_has_labels(const struct kube_object *o, const struct yaml_node *wanted);

/* Pods of one namespace that a selector selects. */
struct kube_selection {
    const struct kube_bundle *bundle;
    const struct yaml_node *labels, *expressions;
    struct kube_hits candidates;
    size_t at;                    /* among these */
    const struct kube_pods *pods; /* that were found last */
};

/* The pods that a Service selects, of those that kube_index_labels() has added to `labelled`; NULL:
 * of the whole bundle. */
struct kube_selection kube_select(const struct kube_bundle *b, const struct kube_index *labelled,
                                  const struct kube_object *service);
void kube_index_labels(struct arena *a, struct kube_index *labelled, const struct kube_pods *p);
/* Those of an object's namespace, by a selector with matchLabels and matchExpressions. */
struct kube_selection kube_select_by(const struct kube_bundle *b, const struct kube_object *o,
                                     const struct yaml_node *selector);
/* The next one, or NULL. */
const struct kube_pods *kube_select_next(struct kube_selection *s);
/* Loops over them: each is one.pods. */
#define KUBE_FOREACH_SELECTED(one, selection) \
    for (struct kube_selection one = selection; kube_select_next(&one) != NULL;)

/* The first one that a Service selects, or NULL. */
const struct kube_pods *kube_first_selected(const struct kube_bundle *b,
                                            const struct kube_object *service);

/* The mount that holds a file or folder: the one with the longest path, or NULL. */
const struct yaml_node *kube_mount_of(const struct kube_container *container, const char *path);
/* The volume there, or NULL. */
const struct yaml_node *kube_volume_at(const struct kube_container *container, const char *path);

/* A file that a container has from a ConfigMap of the bundle. */
struct kube_file {
    const struct yaml_node *text; /* NULL: there is none */
    const struct kube_object *map;
    const char *key;
};
/* The one at the path or, with `by_name`, the first one of the name at its end. */
struct kube_file kube_file_at(const struct kube_bundle *b, const struct kube_container *container,
                              const char *path, bool by_name);

bool kube_is_headless(const struct kube_object *service);

/* Whether a host name without a namespace leads to an object. */
enum kube_reach {
    KUBE_REACHED,   /* both have one namespace, or the host name has the right one */
    KUBE_UNDECIDED, /* one object has no namespace: kubectl's context decides */
    KUBE_ELSEWHERE, /* they have different namespaces */
};

/* The target of a host name within the cluster, for a pod of `from`. */
struct kube_target {
    const struct kube_object *service; /* one of the bundle */
    const struct kube_pods *pods;      /* or pods with names of their own */
    enum kube_reach reach;
};
bool kube_find_host(const struct kube_bundle *b, const struct kube_object *from, const char *host,
                    struct kube_target *out);

/* How many pods a part of a job has, by its `replicas`; -1: unknown, since something fills it in
 * later. */
long kube_replicas(const struct yaml_node *part);
/* The type of an object, by its apiVersion and kind. */
enum kube_type kube_type_of(const struct yaml_node *object);

/* The platform of emit that makes such objects, or NULL. */
const char *kube_platform(enum kube_type type);

/* Whether its controller makes pods of templates in it, unlike a Service or a Pod. */
bool kube_makes_pods(enum kube_type type);

/* Whether the object is a template inside another object, from which a controller makes any number
 * of objects with values of its own. */
bool kube_is_template(const struct kube_object *o);

/* Whether a Volcano Job has a plugin: pytorch, tensorflow, mpi and ray bring svc. */
bool kube_has_plugin(const struct kube_object *o, const char *name);

/* The last part of a path: torchrun, of `/usr/bin/torchrun`. */
const char *kube_base_name(const char *path);

/* The number of a port that is written as a number or as the name of a container port (of `only`,
 * unless that is NULL); -1 if unknown. */
long kube_port_number(const struct yaml_node *port, const struct kube_pods *p,
                      const struct kube_container *only);

/* --- Objects that controllers made of others. --- */

/* The reference of an object to the controller that made it, or NULL. */
const struct yaml_node *kube_controller(const struct kube_object *o);

/* A cluster prints a job beside the Pods and Services that its controller made of it. These repeat
 * the job's content, so check would count them as second users of the job's names and ids. A
 * Pod, or an object that makes pods, stays if the bundle does not show its owner's pods. */
void kube_drop_made(struct kube_bundle *b);

/* --- What happens after a container of a pod has failed. --- */

enum kube_restart {
    KUBE_RESTART_UNKNOWN, /* the manifests do not say it */
    KUBE_RESTART_NONE,    /* the pod stays failed, or ends its job */
    KUBE_RESTART_ALONE,   /* the container, or a new pod, starts, and the other pods go on */
    KUBE_RESTART_ALL,     /* the controller ends the other pods, too */
};

/* By the restartPolicy of the pods, and by the controller and its limits. The exit code is that of
 * torchrun after a failed worker: 1. */
enum kube_restart kube_restart_of(const struct kube_pods *p);

/* --- Files that are filled in before they are applied, as by envsubst: `name: ${JOB}`. --- */

/* The first placeholder at a place where no shell and no Kubernetes would replace it; NULL: the
 * file has no placeholder, and every $NAME is literal text. */
const struct yaml_node *kube_find_placeholder(const struct yaml_file *file);
