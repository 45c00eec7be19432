/* Metrics in Prometheus's text format: shared by the files metrics*.c. */
#pragma once

#include <inttypes.h>
#include <stdio.h>

#include "rdzv/admin/run_status.h"
#include "rdzv/admin/run_walk.h"
#include "rdzv/engine/stats.h"
#include "rdzv/http/reply.h"
#include "rdzv/metric_table.h"

/* --- Lines, metrics_daemon.c. Names, types and helps are those of the tables in METRICS.md, of
 * which the build makes enum metric: METRIC_rdzvd_ready. --- */

struct metric_row {
    const char *name, *type, *help;
};

extern const struct metric_row metric_rows[];

/* The head of a metric, which its lines follow: what it is and which kind. */
void metric_head(FILE *out, enum metric m);

/* A line with labels, as printf() makes them of `labels`: reason="%s". */
void metric_line(FILE *out, enum metric m, uint64_t value, const char *labels, ...)
    __attribute__((format(printf, 4, 5)));

/* A metric with one line: its head and a number; or nanoseconds as seconds with `digits`. */
void metric_value(FILE *out, enum metric m, uint64_t value);
void metric_seconds(FILE *out, enum metric m, int digits, uint64_t ns);

/* The value of a label, without its quotes. */
void metric_label(FILE *out, struct slice value);

/* The lines of one histogram, after its head, each with `labels` like `protocol="c10d"`, or "";
 * and a metric with one histogram, with its head. */
void metric_durations(FILE *out, enum metric m, const char *labels, const struct durations *d,
                      uint64_t first_ns);
void metric_histogram(FILE *out, enum metric m, const struct durations *d, uint64_t first_ns);

/* --- The metrics that every daemon has, whatever its role, metrics_daemon.c. --- */

/* Connections, requests by the routes of this daemon, iterations, the log and memory. `role`:
 * "store", "relay", "standby". `is_ready`: as /readyz says. */
void metrics_write_daemon(FILE *out, const struct http_request *r, const char *role, bool is_ready);

/* As every exporter has them. */
void metrics_write_process(FILE *out, const struct engine *e);

/* --- Spaces and their runs, metrics_spaces.c. With many runs this takes long, so the text is
 * gathered in slices; and it is bounded: spaces and runs beyond the bound are summed, in lines
 * whose label is empty. A run is one rendezvous of torch, over c10d or etcd-v2. --- */

/* How many spaces and runs have lines of their own: if there are more, the first used spaces, and
 * the first open runs. */
#define METRIC_SPACES 100
#define METRIC_RUNS   100

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

enum run_figure {
    RUN_PARTICIPANTS,
    RUN_WAITING,
    RUN_MISSING,
    RUN_SILENT,
    RUN_TRAINED_S,
    RUN_WAITED_S,
    RUN_FIGURES
};

/* Of a run; or of several: sums, and the longest time in each state. */
struct run_figures {
    uint64_t values[RUN_FIGURES];
    double state_s[RUN_STATES];
};

struct space_figures {
    const struct engine_space *space; /* NULL: others */
    uint64_t gauges[SPACE_GAUGES];
    uint64_t runs[RUN_STATES];
    struct run_figures others; /* runs without lines of their own */
    uint64_t other_runs;
};

/* A run with a longer name has no lines of its own. */
#define METRIC_RUN_NAME_MAX 128

/* One with lines of its own. */
struct listed_run {
    const struct engine_space *space;
    enum run_backend backend;
    enum run_state state;
    uint8_t name[METRIC_RUN_NAME_MAX];
    size_t name_len;
    int64_t round;
    struct run_figures figures;
};

/* Stays where it is. */
struct metric_spaces {
    struct run_walk walk;
    struct space_figures *into; /* the lines of the space that the walk is in */
    bool are_many;              /* more spaces than METRIC_SPACES */
    size_t count;
    struct space_figures spaces[METRIC_SPACES];
    struct space_figures others;
    bool any_other;
    struct listed_run runs[METRIC_RUNS];
    size_t run_count;
};

/* `only` NULL: all spaces. Everything is gathered when m->walk has ended; gathered or not, the
 * caller ends the walk. */
void metric_spaces_begin(struct metric_spaces *m, const struct engine *engine,
                         const struct engine_space *only);

/* All is gathered. */
void metric_spaces_write(FILE *out, const struct metric_spaces *m);
