/* The settings of emit for the store of an existing job, and the parts of manifests that emit makes
 * from them. */
#pragma once

#include "deploy/emit/emit_job.h"
#include "deploy/rewrite/rewrite_input.h"

#define C10D_PORT 29400
#define ETCD_PORT 2379

/* What emit needs beside the name and namespace of the object; NULL and 0: its defaults. */
struct store_settings {
    const char *platform, *placement, *protocol, *wiring;
    const char *name, *service, *advertise;
    const char *endpoint; /* of a store that is not made with these settings */
    long nodes, port, etcd_port;
    bool of_one_job; /* so that it may expect the nodes of that */
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

/* The settings of --set, checked as emit does; NULL: there are none, or an error in diag. */
const struct yaml_node *store_wishes(struct rewrite *w, const struct yaml_node *settings);

/* Writes the tree in block style. */
const char *rewrite_text(struct rewrite *w, const struct yaml_node *tree);
/* The same as JSON, without a newline behind it and without tabs, which are no blanks of YAML. */
const char *rewrite_json(struct rewrite *w, const struct yaml_node *tree);
