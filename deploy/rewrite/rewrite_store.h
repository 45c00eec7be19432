/* The objects that run rdzvd in a rewritten bundle, as YAML text in block style. */
#pragma once

#include <stdbool.h>

#include "deploy/yaml/buf.h"

#define C10D_PORT        29400
#define ETCD_PORT        2379
#define AGENT_STORE_PORT 23456 /* the training operator's MASTER_PORT */

struct store_spec {
    const char *kind;             /* StatefulSet, Deployment or Pod */
    const char *name, *namespace; /* namespace: "" for none */
    const char *service_name;     /* of a StatefulSet */
    const char *image;
    const char *space_idle_timeout; /* "30s", or NULL */
    const char *advertise;          /* HOST:PORT where workers come to, or NULL */
    const char *etcd_name;          /* of the container port */
    unsigned c10d_port, etcd_port;
    unsigned more_ports[8]; /* an etcd may have listened at several */
    size_t more_count;
    const char *instance; /* app.kubernetes.io/instance and the value of our own label */
    /* Copied from what stood there before, as lines with their indentation, or NULL: */
    const char *labels, *pod_labels; /* indented by 0 */
    const char *annotations;         /* of the pod, indented by 0 */
    const char *pod_fields;          /* of the pod's spec, indented by 0 */
    const struct yaml_node *own_labels, *own_pod_labels, *own_annotations; /* whose keys win */
};

/* The workload alone. */
void store_print(struct buf *out, const struct store_spec *s);

/* Service, StatefulSet, PodDisruptionBudget and, when the label of the job's pods is given, the
 * NetworkPolicy that admits them: documents joined by `---`. */
void store_print_all(struct buf *out, const struct store_spec *s, const char *pod_label,
                     const char *pod_value);

/* The container as a native sidecar, at a port where the job looks for rank 0. Beside a container
 * with equal requests and limits it has equal ones too: else the pod would not be Guaranteed. */
void store_print_sidecar(struct buf *out, const char *image, unsigned port, bool guaranteed);
/* Its volume. */
extern const char store_sidecar_volume[];
