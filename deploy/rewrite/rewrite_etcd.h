/* The etcd of a bundle: found, judged, replaced by rdzvd, and the Services that lead to it. */
#pragma once

#include "deploy/rewrite/rewrite_edit.h"

struct etcd {
    struct object *object;
    struct yaml_node *template; /* the mapping with its pods' metadata and spec */
    struct yaml_node *spec;     /* of its pods */
    struct yaml_node *container;
    const struct yaml_node *labels; /* of its pods */
    unsigned ports[8];              /* where clients come in; the first is the one that counts */
    size_t port_count;
    unsigned peer_port;
    struct object **services; /* that select it */
    size_t service_count;
};

/* NULL when there is none, or when there is an error in diag: one that cannot be replaced, or
 * several and none of them named. */
struct etcd *etcd_find(struct bundle *b);

/* Puts rdzvd in its place, and makes its Services fit. `c10d` is said of the jobs: they will come
 * by that protocol. Services in `wanted` get its port though they are neither headless nor have
 * several. */
void etcd_replace(struct bundle *b, struct etcd *e, bool c10d, struct object **wanted,
                  size_t wanted_count);

/* The Service of this etcd that a host name leads to, seen from a namespace, or NULL. The name may
 * be that of the pod behind a headless one. */
struct object *etcd_service_of(const struct etcd *e, const char *host, size_t len,
                               const char *namespace);
