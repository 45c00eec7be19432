/* Which job goes which way, and what has to stand beside it. */
#pragma once

#include "deploy/rewrite/rewrite_etcd.h"

/* Jobs that meet at the etcd: over c10d from now on, or as they are. */
void move_from_etcd(struct rewrite *w, struct etcd *e, bool c10d);

/* Jobs whose worker 0 is the store get one of their own. With `look` they are only named. Returns
 * how many there are. */
size_t move_self_hosted(struct rewrite *w, bool look);

/* PyTorchJobs that call no torchrun get a store beside their Master, in the same way. */
size_t move_to_agent_store(struct rewrite *w, bool look);
