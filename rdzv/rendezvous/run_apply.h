/* What is done about a run: several commands of the store, in order. */
#pragma once

#include "rdzv/rendezvous/elastic.h"

/* A command has changed something: the runs whose states it has changed follow. */
void run_follow(struct rendezvous *s, struct engine_space *space, const struct command *c);

/* Opens a worker store for the latest completed round, and with WORKER_STORE_RDZVD writes the
 * round's MASTER_ADDR and MASTER_PORT; all or nothing. The run's older one goes on for its sessions
 * alone. STORE_ABSENT: no round was complete. */
enum store_status run_open_worker_store(struct rendezvous *s, struct engine_space *space,
                                        struct run *run);

/* Keeps, of a run that is undecided, what agent 0 has set MASTER_ADDR or MASTER_PORT to. */
enum store_status run_take_offer(struct runs *runs, struct slice key, struct slice value);

/* Decides. WORKER_STORE_RDZVD: the workers' store is here, at this address and port.
 * WORKER_STORE_WORKER0: it is where agent 0 said. The latest round's two keys are written. */
enum store_status run_decide(struct rendezvous *s, struct engine_space *space, struct run *run,
                             enum worker_store_placement placement, struct slice address,
                             struct slice port);

/* The run and its keys are gone, as if it had never been. Returns how many keys went. */
uint64_t run_forget(struct rendezvous *s, struct engine_space *space, struct run *run);
