/* The workers of the nodes: the world in which they train together, their failures, and their good
 * end. */
#pragma once

#include "tests/sim/jobs.h"

/* The workers have begun to train. */
void workers_enter(struct pod *p);
/* They have ended, as `p->agent.leaves` says if the agent has ended them; the process of the agent
 * may be about to end. */
void workers_leave(struct pod *p);
/* They are about to fail by a fault. */
void workers_break(struct pod *p);
/* They fail, or end well, if it is time; find their store; and miss others of their world. */
void workers_run(struct pod *p);
/* When that is next; UINT64_MAX: never. */
uint64_t workers_next_ms(const struct pod *p);

/* All nodes of its world train, and nothing is about to end that. */
bool workers_are_whole(const struct pod *p);
/* The workers of its newest round end well, one node after the other. */
void workers_finish(struct job *job);
/* The job begins again later if all of these have ended. */
void workers_check_finished(struct job *job);
