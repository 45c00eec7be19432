/* The remedy of each fault of etcd, with the setting to change; and the latest logged faults. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "rdzv/config/config.h"

#define ETCD_REASON_MAX 300u
#define ETCD_HINT_MAX   400u

struct etcd_fault {
    const char *reason;
    int code;          /* GRPC_UNCLEAR: there was none */
    bool has_answered; /* etcd has served this replica before */
};

/* What to do about it. Returns `out`, empty where no remedy is known, or the reason has one. */
const char *etcd_hint_write(const struct config_journal *config, const struct etcd_fault *fault,
                            char out[ETCD_HINT_MAX]);

/* Each fault is in the log once in so many milliseconds, of however many members: those of a
 * cluster fail in turn. All zeros: none is. */
#define ETCD_REASON_AGAIN_MS 60000u
#define ETCD_REASONS         8u

struct etcd_reasons {
    struct {
        char reason[ETCD_REASON_MAX];
        uint64_t said_ms;
    } list[ETCD_REASONS];
};

/* True: the caller must log the fault, which counts as logged from now on. */
bool etcd_reason_is_news(struct etcd_reasons *t, const char *reason, uint64_t now_ms);
