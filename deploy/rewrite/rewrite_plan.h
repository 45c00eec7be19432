/* The jobs of a bundle: those that meet at its etcd, those whose worker 0 is the store, and those
 * that call no torchrun. */
#pragma once

#include "deploy/rewrite/rewrite_etcd.h"

/* Objects that meet at this etcd; with `c10d` they are moved, else only looked at. How many there
 * are; *services are the Services that they name. */
size_t move_from_etcd(struct bundle *b, const struct etcd *e, bool c10d, struct object ***services,
                      size_t *service_count);

/* Jobs that host their store themselves get one of their own. With `look` they stay, and a note
 * says what could be done. How many there are. */
size_t move_self_hosted(struct bundle *b, bool look);

/* PyTorchJobs whose program finds its store through MASTER_ADDR, without torchrun: rdzvd sits where
 * rank 0 would have listened. With `look` as above. */
size_t move_to_agent_store(struct bundle *b, bool look);
