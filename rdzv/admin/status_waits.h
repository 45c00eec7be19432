/* Who waits for keys that are not written yet, and who is missing at a barrier: of a run, or of
 * what belongs to none. Members of the JSON of /rdzv/v1/status. */
#pragma once

#include "rdzv/rendezvous/rendezvous.h"

#define WAITS_LISTED   100
#define WAIT_KEYS      10  /* of each, and of a run altogether */
#define WAIT_KEY_BYTES 200 /* of a name; what is longer ends in "…" */

/* ,"waits":[…],"waits_count":N,"absent_keys":[…],"barriers":[…] of a run over c10d. */
void status_waits_write_run(struct writer *w, const struct engine_space *space,
                            const struct engine *engine, const struct run *run);

/* ,"waits":[…],"waits_count":N,"absent_keys":[…],"barriers":[…] of clients that are no run's. */
void status_waits_write_space(struct writer *w, const struct engine_space *space,
                              const struct engine *engine);
