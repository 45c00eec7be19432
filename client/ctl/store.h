/* rdzvctl's client of c10d, and the words for what fails. For commands about keys. */
#pragma once

#include "client/ctl/ctl.h"
#include "client/rdzv_client.h"

#define STORE_TLS_OPTIONS " (--cacert, --cert, --key, --tls-server-name)"

/* As rdzv_client_new(), for the store of `ctl`, with its TLS. */
enum rdzv_status store_new(const struct ctl *ctl, int64_t timeout_ms, struct rdzv_client **out);

/* A client for the store of `ctl`, whose keys are named as the store has them; the caller gives it
 * to rdzv_client_free(). NULL: stderr says why, and *code is what to exit with. */
struct rdzv_client *store_open(const struct ctl *ctl, enum ctl_exit *code);

/* The code for it, after a line on stderr unless it is RDZV_OK. `message` is the library's. */
enum ctl_exit store_say(enum rdzv_status status, const char *message);
/* The same of the last call that blocked. */
enum ctl_exit store_failed(struct rdzv_client *c, enum rdzv_status status);
/* The same of a WAIT: when its time was up, a key is missing. */
enum ctl_exit store_waited(struct rdzv_client *c, enum rdzv_status status);
/* The code alone. */
enum ctl_exit store_code(enum rdzv_status status);

struct rdzv_bytes store_text(const char *text);
