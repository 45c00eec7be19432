/* What the rules of the verb check share: the bundle that they examine, and how they report. A rule
 * is a row in check_rules.c and a function that examines the whole bundle. */
#pragma once

#include "deploy/kube/job_view.h"
#include "deploy/yaml/diag.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum check_severity {
    CHECK_NOTE,    /* worth knowing */
    CHECK_WARNING, /* breaks after another event: a lost node, a second job, a restart */
    CHECK_ERROR,   /* breaks */
};

struct check;
struct check_selected;

struct check_rule {
    const char *id; /* also the anchor in deploy/README.md */
    enum check_severity severity;
    const char *title;  /* what it finds */
    const char *why;    /* what happens then */
    const char *remedy; /* how to mend it */
    void (*run)(struct check *c);
};

/* The whole table, by subject. */
extern const struct check_rule check_rules[];
extern const size_t check_rule_count;

const struct check_rule *check_rule_named(const char *id);

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
    const char *name;
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

struct check {
    struct yaml_file *files;
    size_t file_count;
    struct kube_bundle bundle;
    size_t made_count; /* objects that the bundle leaves out: see kube_drop_made() */
    struct job_view jobs;
    struct check_target targets[CHECK_TARGETS];
    const struct check_rule *rule;        /* the one that runs now */
    struct kube_index reported;           /* the places of its findings */
    bool *endpoints;                      /* by index of objects: see check_is_endpoint() */
    const struct kube_object *pods_of;    /* whose training pods were counted last */
    long pods_known;                      /* how many they are; -1: unknown */
    const struct job_run **users;         /* by number of a store: one that meets there */
    const struct job_run **users_on_host; /* by index of pods: one on the host network */
    struct kube_index rdzvds;             /* stores by "of" and their namespace */
    bool *behind_relays;                  /* by number of a store: see check_is_behind_relays() */
    struct kube_index selectors;          /* by namespace and text: see check_selected() */
    struct check_selected **selected;     /* what they select */
    size_t selected_count, selected_cap;
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
/* The value of the first of the paths (separated by blanks) that exists, else the node. */
struct check_position check_at_first(const struct yaml_node *node, const char *paths);
struct check_position check_at_text(const struct arg_text *text);
/* Where a setting is written; if it is not, the torchrun command or the container. */
struct check_position check_at_setting(const struct job_run *r, enum torchrun_option option);
struct check_position check_at_run(const struct job_run *r);
struct check_position check_at_option(const struct kube_container *c, const struct job_setting *s);

/* Reports a finding. `format` has only what was found here: why and remedy are in the table. */
void check_report(struct check *c, const struct kube_object *o, struct check_position at,
                  const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The index of the file with this very name; the number of files if there is none. */
size_t check_file_index(const struct check *c, const char *name);

/* A --target names a release before this one. */
bool check_is_before(const struct check *c, enum check_target_name target, int major, int minor);

/* Runs each wanted rule (NULL: all) on the files, which the caller has read. False: there are too
 * many objects. */
bool check_bundle(struct check *c, const bool *wanted);

/* --- What several rules ask. --- */

bool check_is_set(const struct job_run *r, enum torchrun_option option);
const char *check_value(const struct job_run *r, enum torchrun_option option);
/* The text of a setting as it is written, before variables are replaced. */
const char *check_written(struct check *c, const struct job_setting *s);
/* The command may have options that cannot be seen. */
bool check_is_opaque(const struct job_run *r);
/* The store starts and ends with the job, so no other job sees its state. */
bool check_owns_store(struct check *c, const struct job_run *r);
/* "Job train", for messages. */
const char *check_title(struct check *c, const struct kube_object *o);
/* The Service has the port; a headless one without ports has all. */
bool check_has_port(const struct kube_object *service, long number);
/* The endpoint of some run, or the upstream of some relay, leads to the Service. */
bool check_is_endpoint(struct check *c, const struct kube_object *service);
/* An etcd without the v2 API, where no job meets: it serves other programs, and torch cannot use
 * it. */
bool check_is_foreign(struct check *c, const struct job_store *store);
/* A store that relays lead to. */
bool check_is_behind_relays(struct check *c, const struct job_store *store);
/* Pods that train, or may train: their containers start torch, or they run to an end and are no
 * store. */
bool check_trains(const struct check *c, const struct kube_pods *p);

/* The pods are Guaranteed, but for what their sidecars request. Init containers count. */
bool check_would_be_guaranteed(const struct kube_pods *p);

/* The rdzvd and etcds that would be native sidecars, and are init containers that never end: the
 * first one (`after` NULL), and the one behind `after`; NULL: no more. */
const struct kube_container *check_next_never_ready(struct check *c, const struct kube_pods *p,
                                                    const struct kube_container *after);

/* --- The rules, by file. --- */

#define CHECK_RULE(name) void check_##name(struct check *c)

/* check_rdzv.c */
CHECK_RULE(id_missing);
CHECK_RULE(id_fixed);
CHECK_RULE(id_shared);
CHECK_RULE(backend_missing);
CHECK_RULE(backend_unknown);
CHECK_RULE(is_host);
CHECK_RULE(host_no_pod);
CHECK_RULE(hosted_by_worker);
CHECK_RULE(conf_unknown);
CHECK_RULE(conf_syntax);
CHECK_RULE(flag_unknown);
CHECK_RULE(nodes_missing);
CHECK_RULE(gang_alone);
CHECK_RULE(nodes_too_many);
CHECK_RULE(nodes_too_few);
CHECK_RULE(nodes_world_size);
CHECK_RULE(local_addr_missing);
CHECK_RULE(agent_store_restart);
/* check_endpoint.c */
CHECK_RULE(endpoint_form);
CHECK_RULE(endpoint_localhost);
CHECK_RULE(endpoint_port);
CHECK_RULE(endpoint_namespace);
CHECK_RULE(service_selects_nothing);
CHECK_RULE(service_target_port);
CHECK_RULE(headless_port_mapping);
CHECK_RULE(not_ready_addresses);
CHECK_RULE(service_name_taken);
CHECK_RULE(enable_service_links);
/* check_host.c */
CHECK_RULE(endpoint_unknown);
/* check_env.c */
CHECK_RULE(option_env_conflict);
CHECK_RULE(env_overwritten);
CHECK_RULE(env_reserved);
CHECK_RULE(env_not_expanded);
CHECK_RULE(env_order);
CHECK_RULE(env_value_not_string);
/* check_store.c */
CHECK_RULE(etcd_no_v2);
CHECK_RULE(etcd_advertise);
CHECK_RULE(store_listens_locally);
CHECK_RULE(store_replicas);
CHECK_RULE(store_rolling_update);
CHECK_RULE(store_bare_pod);
CHECK_RULE(store_no_memory_request);
CHECK_RULE(store_port_clash);
CHECK_RULE(store_blocks_completion);
CHECK_RULE(store_in_memory);
CHECK_RULE(store_data_lost);
/* check_probe.c */
CHECK_RULE(store_no_probe);
CHECK_RULE(store_no_startup_probe);
CHECK_RULE(store_probe_tcp);
CHECK_RULE(store_probe_loopback);
CHECK_RULE(store_probe_port);
CHECK_RULE(store_probe_path);
/* check_relay.c */
CHECK_RULE(relay_upstream);
CHECK_RULE(relay_without_store);
CHECK_RULE(relay_settings);
CHECK_RULE(relay_space);
CHECK_RULE(relay_listens_outside);
/* check_replicas.c */
CHECK_RULE(journal_files);
CHECK_RULE(journal_blocked);
CHECK_RULE(journal_shared);
CHECK_RULE(replicas_probe);
CHECK_RULE(replicas_one_node);
CHECK_RULE(replicas_no_budget);
/* check_tls.c */
CHECK_RULE(tls_relay);
CHECK_RULE(tls_c10d);
CHECK_RULE(tls_name);
CHECK_RULE(tls_secret);
CHECK_RULE(tls_probe);
/* check_policy.c */
CHECK_RULE(store_blocked);
/* check_scrape.c */
CHECK_RULE(scrape_blocked);
/* check_volcano.c */
CHECK_RULE(volcano_minimum);
CHECK_RULE(volcano_min_above);
CHECK_RULE(volcano_min_zero);
CHECK_RULE(volcano_min_success);
CHECK_RULE(volcano_gang_too_small);
CHECK_RULE(volcano_restart_job_id);
CHECK_RULE(volcano_evicted_loop);
CHECK_RULE(volcano_pending_timeout);
CHECK_RULE(volcano_restart_pod);
CHECK_RULE(volcano_max_retry);
CHECK_RULE(volcano_plugin_missing);
/* check_elastic.c */
CHECK_RULE(elastic_range);
CHECK_RULE(elastic_gang);
CHECK_RULE(gang_above);
CHECK_RULE(elastic_restart_never);
CHECK_RULE(restarts_none);
/* check_sidecar.c */
CHECK_RULE(sidecar_blocks_completion);
CHECK_RULE(sidecar_never_ready);
CHECK_RULE(sidecar_too_old);
CHECK_RULE(sidecar_not_guaranteed);
CHECK_RULE(rdzvd_as_root);
/* check_wrapper.c */
CHECK_RULE(appwrapper_blocks_completion);
CHECK_RULE(mcad_namespace);
CHECK_RULE(mcad_resources);
CHECK_RULE(mcad_labels);
/* check_object.c */
CHECK_RULE(capability_prefix);
CHECK_RULE(quantity_fraction);
CHECK_RULE(pvc_access_mode);
CHECK_RULE(storage_class_nil);
CHECK_RULE(duplicate_object);
/* check_network.c */
CHECK_RULE(host_network_dns);
CHECK_RULE(host_network_port);
CHECK_RULE(host_network_operator_port);
CHECK_RULE(host_network_policy);
CHECK_RULE(host_network_store);
CHECK_RULE(istio_injected);
