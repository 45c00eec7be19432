/* Metrics in Prometheus's text format: their lines, and the answer that they are in. */
#pragma once

#include <inttypes.h>
#include <stdio.h>

#include "proto/bytes.h"
#include "rdzv/engine/durations.h"
#include "rdzv/http/reply.h"

/* --- Lines. --- */

/* The head of a metric: what it is and which kind. */
static inline void metric_head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static inline void metric_counter(FILE *out, const char *name, const char *help, uint64_t value)
{
    metric_head(out, name, "counter", help);
    fprintf(out, "%s %" PRIu64 "\n", name, value);
}

static inline void metric_gauge(FILE *out, const char *name, const char *help, uint64_t value)
{
    metric_head(out, name, "gauge", help);
    fprintf(out, "%s %" PRIu64 "\n", name, value);
}

/* The value of a label, without its quotes. */
void metric_label(FILE *out, struct slice value);

/* The lines of one histogram, behind its head. `labels` are those of all lines, as in
 * `protocol="c10d"`, or "". */
void metric_durations(FILE *out, const char *name, const char *labels, const struct durations *d,
                      uint64_t first_ns);

/* --- The answer to GET /metrics of a daemon, whatever it is: it is given also while malloc() has
 * little left, which is when it is needed most. --- */

/* Answers with what `write` writes, which is given `arg`; 500 when there is no memory for it. The
 * connection is charged `cost` beside the length of the text. */
typedef void metric_write_fn(FILE *out, const struct http_request *r, const void *arg);
void metric_reply(const struct http_request *r, uint64_t cost, metric_write_fn *write,
                  const void *arg);
