/* rdzvctl's client of c10d, and the words for what fails. For commands about keys. */
#pragma once

#include "client/ctl/ctl.h"
#include "client/rdzv_client.h"

#define STORE_TLS_OPTIONS " (--cacert, --cert, --key, --tls-server-name)"

/* As rdzv_client_new(), for the store of `ctl`, with its TLS. */
enum rdzv_status store_new(const struct ctl *ctl, int64_t timeout_ms, struct rdzv_client **out);

/* Runs a command with a client for the store of `ctl`, whose keys are named as the store has them.
 * If there can be no such client, stderr says why. */
enum ctl_exit store_run(const struct ctl *ctl,
                        enum ctl_exit (*run)(const struct ctl *ctl, struct rdzv_client *c));

/* The code for the last call that blocked, after a line on stderr unless it is RDZV_OK. */
enum ctl_exit store_failed(struct rdzv_client *c, enum rdzv_status status);
