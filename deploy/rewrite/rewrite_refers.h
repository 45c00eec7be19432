/* What else in a bundle refers to an etcd: autoscalers, monitors, ingresses, and texts. */
#pragma once

#include "deploy/rewrite/rewrite_etcd.h"

/* The first scalar within a node that names the Service as an address: NAME or NAME.NAMESPACE...
 * with a port behind it, or as the whole value of a variable like ETCD_HOST. NULL: none. */
const struct yaml_node *etcd_named_in(const struct yaml_node *n, const char *service);

/* Notes each object that refers to the etcd, or to a Service that leads to it, and what becomes of
 * that once rdzvd is there as a workload of this kind. rewrite changes none of them. */
void note_referrers(struct rewrite *w, const struct etcd *e, const char *kind);
