/* What must hold, after each event and when all is done: see sim_rendezvous.c. A check that does
 * not hold ends the program. */
#pragma once

#include "tests/sim/jobs.h"

/* Called when a pod enters a world, or when its workers have found their store: ranks of a world
 * are unique, and all workers of a world, and no others, use one store. */
void check_world(const struct pod *p);
/* Its agent has failed, and not by the daemon's doing. */
void check_failure(const struct pod *p);
/* Its agent has seen its workers fail: see job_ends.c. */
void check_restart(const struct pod *p);
/* Its workers are about to end. */
void check_end(const struct pod *p);
/* After each event: nodes that must end do so in time. */
void check_ends(struct job *job);
/* A rule closes its run. */
void check_stopped(struct model_run *run);
/* After each event. */
void check_job(struct job *job);

/* All nodes that live are in one completed round, or spare. */
bool all_settled(void);
/* The same, and no nodes are about to meet. */
bool all_at_rest(void);
/* For a person who must find out why they have not settled. */
void tell_state(const struct job *job);
/* With --verbose: the state, if it has changed. */
void tell_change(struct job *job);
