/* What is wrong with etcd, in words: the remedy of each fault, which names the setting that it is
 * about, and which faults the log has had lately. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rdzv/config/config.h"

#define TROUBLE_MAX      300u
#define TROUBLE_HINT_MAX 400u

struct trouble {
    const char *reason;
    int code;          /* GRPC_UNCLEAR: there was none */
    bool has_answered; /* etcd has served this replica before */
};

/* What to do about it. Returns `out`, empty where no remedy is known, or the reason has one. */
const char *trouble_hint(const struct config_journal *config, const struct trouble *trouble,
                         char out[TROUBLE_HINT_MAX]);

/* Each fault is in the log once in so many milliseconds, of however many members: those of a
 * cluster fail in turn. All zeros: none is. */
#define TROUBLE_AGAIN_MS 60000u
#define TROUBLES         8u

struct troubles {
    struct {
        char reason[TROUBLE_MAX];
        uint64_t said_ms;
    } list[TROUBLES];
};

/* True: the caller must log the fault, which counts as logged from now on. */
bool troubles_is_news(struct troubles *t, const char *reason, uint64_t now_ms);
