/* What the rules of the verb check share: the bundle that they examine, and how they report. A rule
 * is an entry of data/rules.yaml and a function that examines one thing of the bundle: a run, a
 * store, a container. The engine calls it for each of them. */
#pragma once

#include "deploy/kube/job_view.h"

enum check_severity {
    CHECK_NOTE,    /* worth knowing */
    CHECK_WARNING, /* breaks after another event: a lost node, a second job, a restart */
    CHECK_ERROR,   /* breaks */
};

struct check;

/* A probe of a store, with all that is known of where the store listens. */
struct check_probe {
    const struct job_store *store;
    const char *name; /* startupProbe, readinessProbe or livenessProbe */
    const struct yaml_node *node;
    struct job_listeners listeners; /* for clients and others */
};

typedef void check_per_object(struct check *c, const struct kube_object *o);
typedef void check_per_policy(struct check *c, const struct yaml_node *policy);
typedef void check_per_pods(struct check *c, const struct kube_pods *p);
typedef void check_per_container(struct check *c, const struct kube_container *container);
typedef void check_per_store(struct check *c, const struct job_store *s);
typedef void check_per_upstream(struct check *c, const struct job_upstream *u);
typedef void check_per_probe(struct check *c, const struct check_probe *probe);
typedef void check_per_run(struct check *c, const struct job_run *r);

/* The functions of a rule, each called for every item of its kind. NULL: the rule ignores this
 * kind. */
struct check_calls {
    check_per_object *object;
    check_per_policy *policy; /* of a Volcano Job and of its tasks */
    check_per_pods *pods;
    check_per_container *container; /* init containers as well */
    check_per_store *store;
    check_per_upstream *upstream; /* an address to which a relay leads */
    check_per_probe *probe;       /* that a store has */
    check_per_run *run;
};

struct check_rule {
    const char *id; /* also the anchor in deploy/README.md */
    enum check_severity severity;
    struct check_calls before; /* these find what the others look up */
    struct check_calls calls;
    const char *title;  /* what it finds */
    const char *why;    /* what happens then */
    const char *remedy; /* how to mend it */
};

/* The whole table, by subject: see deploy/data/rules.yaml. */
extern const struct check_rule check_rules[];
extern const size_t check_rule_count;

const struct check_rule *check_rule_named(const char *id);
/* The id of a rule that was probably meant, or NULL. */
const char *check_rule_near(const char *id);

struct check_finding {
    const struct check_rule *rule;
    const struct kube_object *object;
    const char *file;  /* as in messages */
    size_t file_index; /* among the bundle's files */
    struct yaml_mark mark;
    const char *text;
};

/* A --target: `istio`, or `volcano` of a version. */
struct check_target {
    bool given;
    int major, minor; /* -1: no version */
};

enum check_target_name {
    CHECK_KUBERNETES,
    CHECK_TRAINING_OPERATOR,
    CHECK_VOLCANO,
    CHECK_JOBSET,
    CHECK_ISTIO,
    CHECK_TARGETS,
};

/* In the order of the bundle. */
struct check_policies {
    const struct kube_object **list;
    size_t count, cap;
};

/* What a selector selects, looked up once for all objects with the same selector: in a file where
 * each policy selects every pod, the pods of each policy by itself would be the square of its
 * length. */
struct check_selected {
    const struct kube_pods **list; /* in the order of the bundle */
    size_t count, cap;
    size_t on_host;             /* how many of them are on the host network */
    const struct job_run *user; /* see check_network.c */
    bool user_known;
    bool has_budget;                         /* see check_replicas.c */
    bool strangers_known, lets_strangers_in; /* see check_scrape.c */
    bool is_of_policies;
    struct check_policies ingress, egress; /* the NetworkPolicies that have it, by direction */
};

struct check_selections {
    struct check_selected **list;
    size_t count, cap;
};

struct check {
    struct yaml_file *files;
    size_t file_count;
    size_t named_count; /* the first of the files were named; the others are of folders */
    struct kube_bundle bundle;
    struct job_view jobs;
    struct check_target targets[CHECK_TARGETS];
    /* What leads where, found before the first rule runs: */
    bool *is_endpoint;            /* by index of objects: a run, or a relay, dials this Service */
    bool *is_behind_relay;        /* by number of a store: a relay leads to it */
    bool *is_selected;            /* by index of pods with a store: a Service selects them */
    const struct job_run **users; /* by number of a store: the first run that meets there, or behind
                                     a relay of it */
    const struct job_run **users_on_host; /* by index of pods: the same, on the host network */
    struct check_selections *selections;  /* by index of pods: those of policies */
    bool
        has_odd_policies; /* a CNI's own policies admit more traffic, or a template hides a selector
                           */
    /* The rule that runs now: */
    const struct check_rule *rule;
    const struct kube_object *object; /* that it examines */
    size_t run_number;                /* if it examines a run: which one */
    size_t looks;                     /* how many policies it has compared with something */
    /* For its own use, empty before it runs: */
    struct kube_index index;
    bool *marks;                                /* by index of objects, or of pods */
    const struct job_store *idle_store;         /* see check_find_idle_store() */
    const struct kube_object *idle_certificate; /* see check_find_idle_certificate() */
    /* All rules: */
    size_t *groups;                   /* see check_replicas.c: find_groups() */
    struct kube_index reported;       /* the places of findings */
    struct kube_index selectors;      /* by namespace and text: see check_selected() */
    struct check_selected **selected; /* what they select */
    size_t selected_cap;
    struct check_finding *findings;
    size_t count, cap;
};

/* A node, or the byte `at` of a scalar's text. */
struct check_position {
    const struct yaml_node *node;
    size_t at;
};

struct check_position check_at(const struct yaml_node *node);
/* The key if it is there, else the mapping. */
struct check_position check_at_key(const struct yaml_node *mapping, const char *key);
/* The value of the first of the paths that exists, else the node. */
#define check_at_first(node, ...) check_at_first_of(node, WORDS(__VA_ARGS__))
struct check_position check_at_first_of(const struct yaml_node *node, const char *const *paths);
struct check_position check_at_text(const struct arg_word *text);
/* Where a setting is written; if it is not, the torchrun command or the container. */
struct check_position check_at_setting(const struct job_run *r, enum torchrun_option option);
struct check_position check_at_run(const struct job_run *r);
/* The same of a store; without a setting, its name. */
struct check_position check_at_option(const struct job_store *s, const struct job_setting *setting);
struct check_position check_at_store(const struct job_store *s);

/* Reports a finding about an object. `format` has only what was found here: why and remedy are in
 * the table. */
void check_report_on(struct check *c, const struct kube_object *o, struct check_position at,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The same about the object that the rule examines now. */
#define check_report(c, ...) check_report_on(c, (c)->object, __VA_ARGS__)

/* A --target names a release before this one. */
bool check_is_before(const struct check *c, enum check_target_name target, int major, int minor);

/* Runs each wanted rule (NULL: all) on the files, which the caller has read. False: there are too
 * many objects. */
bool check_bundle(struct check *c, const bool *wanted);

/* Removes the findings that an annotation leaves out: names of rules, with commas between them, of
 * the object or of the AppWrapper around it. Returns how many; a note in d says where an annotation
 * names no rule. */
#define CHECK_IGNORE "rdzv.dev/ignore"
size_t check_ignore(struct check *c, struct diag *d);

/* --- What several rules ask. --- */

/* Finds what leads where: see struct check. */
void check_find_links(struct check *c);
/* The pods that the selector of an object selects, in its namespace. They live as long as the
 * bundle. */
struct check_selected *check_selected(struct check *c, const struct kube_object *o,
                                      const struct yaml_node *selector);

/* The text of a setting as it is written, before variables are replaced. */
const char *check_written(struct check *c, const struct job_setting *s);
/* The command may have options that cannot be seen. */
bool check_is_opaque(const struct job_run *r);
/* The command has the option twice; the last one wins. */
bool check_is_twice(const struct job_run *r, enum torchrun_option option);
/* The store starts and ends with the job, so no other job sees its state. */
bool check_owns_store(const struct job_run *r);
/* See job_store_option(). */
#define check_option(c, s, name, out) job_store_option(&(c)->jobs, (s)->container, name, out)
/* The container uses the store that rdzvd serves for its agent (TORCHELASTIC_USE_AGENT_STORE). */
bool check_uses_agent_store(struct check *c, const struct kube_container *container);
/* The container lists the port. */
bool check_lists_port(const struct kube_container *container, long port);
/* The object is in a file of a folder: these are variants and examples as often as parts of one
 * bundle. */
bool check_is_of_folder(const struct check *c, const struct kube_object *o);
/* The Service has the port; a headless one without ports has all. */
bool check_has_port(const struct kube_object *service, long number);
/* An etcd without the v2 API, where no job meets: it serves other programs, and torch cannot use
 * it. */
bool check_is_foreign(struct check *c, const struct job_store *store);
/* The pods are Guaranteed if the requests of their sidecars are left out. Init containers count. */
bool check_would_be_guaranteed(const struct kube_pods *p);

/* An rdzvd or etcd of the pods would be a native sidecar, but is an endless init container. */
bool check_has_never_ready(struct check *c, const struct kube_pods *p);

/* The journal of an rdzvd, if it is in etcd and known: "HOST:PORT,HOST:PORT/NAME"; else NULL. */
const char *check_journal_of(struct check *c, const struct job_store *s, struct job_setting *out);
/* The address of a journal at *at, which moves behind it. False: there are no more. */
bool check_next_endpoint(struct check *c, const char **at, const char **host, long *port);

/* --- NetworkPolicies: see check_policy.c. --- */

/* Whether `o` is a NetworkPolicy that restricts `direction`, "Ingress" or "Egress". */
bool check_policy_is_for(const struct kube_object *o, const char *direction);
/* The plugin svc of Volcano makes a policy that admits the pods of the job to each other. */
bool check_has_policy_of_plugin(const struct kube_object *o);
/* Finds what policies select: see struct check. */
void check_find_policies(struct check *c);
/* Whether a rule of a policy admits a port of pods (NULL: they are not in these files). A policy
 * sees the port of the pod, whatever port its Service has. -1: it is not known. */
bool check_admits_port(const struct yaml_node *rule, const struct kube_pods *p, long port);

#include "deploy/rule_calls.h" /* the functions of the rules */
