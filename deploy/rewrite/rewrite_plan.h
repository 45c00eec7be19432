/* What happens to each job of the bundle. */
#pragma once

#include "deploy/rewrite/rewrite_etcd.h"

/* Handles jobs that meet at these etcds: they move to c10d, or stay as they are. */
void move_from_etcds(struct rewrite *w, struct etcd *etcds, size_t count, bool c10d);

/* Gives jobs whose worker 0 is the store one of their own; with `look`, only notes them. Returns
 * their number. */
size_t move_self_hosted(struct rewrite *w, bool look);

/* The same for PyTorchJobs that call no torchrun: they get a store beside their Master. */
size_t move_to_agent_store(struct rewrite *w, bool look);
