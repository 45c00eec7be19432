/* The answer to GET /metrics of a daemon, whatever it is: it is given also while malloc() has
 * little left, which is when somebody needs it most. */
#pragma once

#include <stdio.h>

#include "rdzv/http/reply.h"

/* Answers with what `write` writes, which is given `arg`; 500 when there is no memory for it. The
 * connection is charged `cost` beside the length of the text. */
typedef void metric_write_fn(FILE *out, const struct http_request *r, const void *arg);
void metric_reply(const struct http_request *r, uint64_t cost, metric_write_fn *write,
                  const void *arg);
