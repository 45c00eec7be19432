/* Elastic jobs: what rdzvd does for torch's rendezvous beyond keeping its keys.
 *
 * rdzv/rendezvous/run.h knows what each run's state says; here is who is connected for it, and what
 * is done so that an unmodified torchrun survives what default torch does not:
 *  - workers of 2.5 and later find their store here, with fresh keys each round
 *    (elastic_workers.c; torch keeps the address of its first round and the keys of all);
 *  - compare-and-sets on the state take turns (elastic_turn.c), and heartbeats merge
 *    (elastic_state.c);
 *  - heartbeats are moved on over a time in which the daemon stood still, and a node that was
 *    taken for dead and comes back is put where it belongs (elastic_repair.c);
 *  - closed runs that everybody has left are forgotten (elastic.c), and who comes a little too
 * early for the next one waits for that (elastic_late.c);
 *  - the log says what happened to whom (elastic_log.c).
 * With --torch-elastic=plain none of this runs: store_options.knows_runs is off, no connection is
 * bound, and every key is plain. */
#pragma once

#include "rdzv/net/conn.h"

void elastic_space_init(struct elastic_space *e);
void elastic_space_fini(struct elastic_space *e);

/* --- For c10d_session.c. --- */

/* The first key that a connection names tells whose keys it uses: an agent's, those of the world of
 * workers that the run it came for has now, or the space's. `compared`: by a COMPARE_SET. */
void elastic_bind(struct conn *c, struct slice key, bool compared);

/* The session ends. */
void elastic_unbind(struct conn *c);

/* True: this COMPARE_SET waits for its turn, or for a closed run to be forgotten. The session
 * leaves it where it is and parks; it is shown again when its turn has come. */
bool elastic_holds(struct conn *c, const struct c10d_request *req);

/* Carries out a COMPARE_SET of an agent. *answer (empty ptr: what *result says) is what the client
 * is to be told instead of the value; borrowed from the request. */
void elastic_compare_set(struct conn *c, const struct c10d_request *req,
                         struct store_result *result, struct slice *answer);

/* Before any request of an agent but a COMPARE_SET; `key` is the first that it names. */
void elastic_before(struct conn *c, const struct c10d_request *req, struct slice key);

/* True: this SET of an agent was seen to, and the key is not set by it. */
bool elastic_takes_set(struct conn *c, const struct c10d_request *req);

/* --- For server.c and rdzv_api.c. --- */

/* At the end of each turn, and before any agent is told anything: if more time has passed since the
 * last call than a daemon takes that runs, it is given to all whose heartbeats could not come. */
void elastic_make_up(struct server *s);

/* Once a second: whom to forget. */
void elastic_tick(struct server *s);

/* A space was emptied, or forgets its c10d keys. */
void elastic_space_reset(struct server *s, struct space *space);

/* Forgets a run now, and ends the connections of its agents; false: there is none. `id` is R.
 * *removed counts keys. */
bool elastic_forget(struct server *s, struct space *space, struct slice id, uint64_t *removed);

/* Who is connected for a run. */
struct elastic_presence {
    size_t agents;             /* connections */
    size_t held;               /* those that wait until the closed run is forgotten */
    const struct conn **nodes; /* of each node of the run's state, NULL: none is known. Freed by the
                                  caller; NULL: nothing is known */
};
void elastic_presence(struct server *s, const struct space *space, const struct run *run,
                      struct elastic_presence *out);
