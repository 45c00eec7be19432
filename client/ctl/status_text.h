/* What /rdzv/v1/status says, as text that answers "which node is missing, and what does everyone
 * wait for" on one screen. */
#pragma once

#include <cjson/cJSON.h>
#include <stdio.h>

#include "client/ctl/ctl.h"

/* One run of the space `space`, as an element of "runs". `now_us` is the server's time. */
void status_print_run(FILE *out, const struct ctl *ctl, const char *space, const cJSON *run,
                      int64_t now_us);

/* What clients of the space that are no run's wait for; nothing if there are none. */
void status_print_rest(FILE *out, const struct ctl *ctl, const cJSON *space, int64_t now_us);

/* "joining", "last call, 12 s left" */
void status_state(const cJSON *run, char *out, size_t size);
/* "3 of 4": nodes that take part, and how many are wanted, as far as known. */
void status_nodes(const cJSON *run, char *out, size_t size);
