/* What goes wrong. */
#pragma once

#include "tests/sim/jobs.h"

/* One fault, any that there is; and when the next one comes, if any is left. */
void fault_any(void);
/* A rule cordons the host. */
void fault_strike(struct model_run *run, const char *host);
/* An operator takes back all orders. */
void fault_take_back_orders(void);
