/* The settings that emit would be given for the store of a job that is there already, and the parts
 * of manifests that emit makes of them. */
#pragma once

#include "deploy/emit/emit_job.h"
#include "deploy/rewrite/rewrite_input.h"

#define C10D_PORT 29400
#define ETCD_PORT 2379

/* What emit is to know beside the object's name and namespace; NULL and 0: its defaults. */
struct store_settings {
    const char *platform, *placement, *protocol, *wiring;
    const char *name, *service, *advertise;
    long nodes, port, etcd_port;
    bool host_network;
    bool open;                         /* no NetworkPolicy */
    const struct yaml_node *resources; /* of the container beside which a sidecar stands */
    const struct yaml_node *found;     /* see parts.yaml: storeWorkload */
};

/* False: errors in diag, at the object. emit_job_free() in any case. */
bool rewrite_open_store(struct rewrite *w, const struct kube_object *o,
                        const struct store_settings *s, struct emit_job *out);

/* The tree as text in block style. */
const char *rewrite_text(struct rewrite *w, const struct yaml_node *tree);

/* Sets key to a text, or with `plain` to a number or a boolean; nothing for NULL. */
void rewrite_put(struct rewrite *w, struct yaml_node *mapping, const char *key, const char *text,
                 bool plain);
