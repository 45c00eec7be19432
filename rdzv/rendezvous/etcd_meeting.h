/* Lets the nodes of a round over `etcd-v2` end their workers in the same moment, as meeting.c does
 * it over c10d. Here every agent reads and writes the whole state, so no node can be hidden: the
 * write by which a node begins to wait is held, and the next read of each participant, until all of
 * them read. Then the write is carried out, and all reads are answered.
 *
 * An agent sends no heartbeat while its read is held, and nothing else can tell the others that it
 * lives, so the hold is shorter than over c10d: agents with a --monitor-interval of more than 5 s
 * are not waited for. An agent that has not written since rdzvd was started is not waited for
 * either. Nothing is held if the state has more than 16 KiB.
 *
 * Upstream: EtcdRendezvousBackend (rendezvous/etcd_rendezvous_backend.py), 1.13 to 2.14. */
#pragma once

#include "rdzv/http/reply.h"
#include "rdzv/rendezvous/etcd_run.h"

/* The request reads the key of the run, if the pointer of `value` is NULL. Otherwise it replaces
 * the value of index `prev_index` by `value`. True: a job has been started for it (http/session.h),
 * which handles it again later, and has pinned the run until then. */
bool etcd_meeting_holds(struct etcd_run *run, const struct http_request *r, struct slice value,
                        uint64_t prev_index);

/* The run has changed, or a second has passed; `now_ms` is monotonic. */
void etcd_meeting_check(struct etcd_run *run, uint64_t now_ms);
