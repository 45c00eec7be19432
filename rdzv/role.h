/* What a daemon does with what its clients ask: a store carries it out, a relay passes it on. The
 * server has one role, chosen by the configuration, and calls it at these points. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "rdzv/config/config.h"
#include "rdzv/engine/engine.h"

struct server;

struct role {
    /* What the engine is made with, beside clock and seed. */
    void (*options)(const struct config *config, struct engine_options *options);

    /* Engine and net are there: sets what they are served with, s->protocols and the rest. */
    void (*init)(struct server *s);

    /* Before and after the listeners open. 0, or -1 after it logged why not. */
    int (*open)(struct server *s);
    int (*begin)(struct server *s);

    /* Once a second. */
    void (*tick)(struct server *s);

    /* The end of an iteration, when all answers are queued. True: there is more to do, so that the
     * loop must not sleep. */
    bool (*end_iteration)(struct server *s);

    /* The daemon is to stop, and has no connections any more: true when it may. */
    bool (*may_stop)(struct server *s);

    /* The daemon ends: all connections are going to be closed. */
    void (*stop)(struct server *s);

    /* They were cut off, since --drain-timeout is over: how long it may take until may_stop(). 0:
     * it need not be awaited. */
    uint64_t (*end_ms)(const struct server *s);

    /* All of them are closed. */
    void (*fini)(struct server *s);
};

extern const struct role store_role, relay_role;
