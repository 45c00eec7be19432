/* What /metrics says of spaces and of the runs in them. With many runs that takes long, so it is
 * gathered in slices; and it is bounded: what is over the bound is summed, in lines whose label is
 * empty. A run is one rendezvous of torch, over c10d or etcd's API. */
#pragma once

#include <stdio.h>

#include "rdzv/rendezvous/rendezvous.h"

#define METRIC_SPACES 100 /* with lines of their own: of more, the first ones that are in use */
#define METRIC_RUNS   100 /* the same: the first ones that are not closed */

enum run_state {
    RUN_EMPTY,
    RUN_JOINING,
    RUN_LAST_CALL,
    RUN_COMPLETE,
    RUN_FAILED,
    RUN_CLOSED,
    RUN_STATES
};

enum space_gauge {
    SPACE_C10D_CONNECTIONS,
    SPACE_BYTES,
    SPACE_ETCD_NODES,
    SPACE_ETCD_WATCHERS,
    SPACE_KEYS,
    SPACE_QUEUES,
    SPACE_WAITERS,
    SPACE_WORKER_STORES,
    SPACE_QUEUED_WRITES,
    SPACE_GAUGES,
};

/* Of a run; or of several: sums, and the longest of those in each state. */
struct run_figures {
    uint64_t participants, waiting, missing, silent;
    double state_s[RUN_STATES];
};

struct space_figures {
    const struct engine_space *space; /* NULL: others */
    uint64_t gauges[SPACE_GAUGES];
    uint64_t runs[RUN_STATES];
    struct run_figures others; /* runs without lines of their own */
    uint64_t other_runs;
};

struct listed_run; /* one with lines of its own */

enum metric_spaces_phase {
    METRIC_SPACE_BEGINS,
    METRIC_RUNS_C10D,
    METRIC_RUNS_ETCD,
    METRIC_SPACES_GATHERED,
};

/* Stays where it is. */
struct metric_spaces {
    const struct engine *engine;
    const struct engine_space *only; /* NULL: all spaces */
    enum metric_spaces_phase phase;
    const struct engine_space *at;
    struct space_figures *into; /* the lines of `at` */
    const struct run *run;      /* the next one; pinned. NULL: none */
    struct etcd_run *etcd_run;  /* the same */
    bool are_many;              /* more spaces than METRIC_SPACES */
    size_t count;
    struct space_figures spaces[METRIC_SPACES];
    struct space_figures others;
    bool any_other;
    struct listed_run *runs;
    size_t run_count, run_room;
};

void metric_spaces_begin(struct metric_spaces *m, const struct engine *engine,
                         const struct engine_space *only);

/* Goes on for about that long. True: all is gathered. */
bool metric_spaces_go_on(struct metric_spaces *m, uint64_t ns);

/* All is gathered. */
void metric_spaces_write(FILE *out, const struct metric_spaces *m);

/* Ends it, gathered or not. */
void metric_spaces_end(struct metric_spaces *m);
