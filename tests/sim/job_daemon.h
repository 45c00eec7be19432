/* The daemon as a process: it stands still, ends and begins anew, and notices what has become of
 * its connections. What it does for a run is the policy's, in model_space.h. */
#pragma once

#include "tests/sim/jobs.h"

/* It stands still for a while. */
void daemon_stall(void);
/* It ends, by itself or killed, and begins anew from its keys after a while. */
void daemon_end(void);
/* Does what is due. */
void daemon_run(void);
