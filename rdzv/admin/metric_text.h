/* Lines of Prometheus's text format, and those of them that every daemon has. */
#pragma once

#include <inttypes.h>
#include <stdio.h>

#include "rdzv/net/net.h"

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

/* Connections, requests, iterations, the log and memory. */
void metrics_write_daemon(FILE *out, const struct net *n);

/* As every exporter has them. */
void metrics_write_process(FILE *out, const struct engine *e);
