/* The parts of sim_store: a real store, the models of its spaces, and a replica that gets its
 * records. Each function ends the program with fail() when the store does not come to what the
 * model says. */
#pragma once

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"
#include "tests/sim/dump.h"
#include "tests/sim/model.h"
#include "tests/support/record_batch.h"

#define SPACES        2
#define EPISODE_STEPS 30000 /* at most; enough for events to leave the history */
#define WAITERS_MAX   40
#define WATCHES_MAX   20
#define SECOND        INT64_C(1000000000)
#define START         (INT64_C(1800000000) * SECOND)
#define COUNT(a)      (sizeof(a) / sizeof *(a))

extern const char *const space_names[SPACES];

/* A set of keys as the store and as the model know it: a space's own, or those of a
 * worker store. */
struct where {
    size_t space;
    uint64_t worker_store; /* 0: none */
    struct keymap *keys;
    struct model *model;
};

/* One that waits or watches, as the store and as the model know it. */
struct waiting {
    uint64_t id;
    struct where where;
    struct waiter *waiter;
};

struct watching {
    uint64_t id;
    size_t space;
    struct watch *watch;
};

/* What happened, so that a run can say that it has tried everything. */
enum {
    TALLY_CHANGES,
    TALLY_REFUSED,
    TALLY_WOKEN,
    TALLY_EVENTS,
    TALLY_FULL,
    TALLY_EXPIRED,
    TALLY_CLEARED,
    TALLY_TOO_OLD,
    TALLY_OPENED,
    TALLY_DROPPED,
    TALLY_RUNS,
    TALLY_PATCHES,
    TALLY_BATCHES,
    TALLY_COMPARED,
    TALLY_SNAPSHOTS,
    TALLIES,
};

struct sim {
    uint64_t seed; /* of the whole run, for the message of a failure */
    uint64_t step;
    uint64_t random;
    int64_t now_ns;
    bool limited; /* the spaces have a limit on bytes */
    struct store store;
    struct space *spaces[SPACES];
    struct store replica;
    struct batch batch;
    struct snapshot *snapshot; /* is being written; NULL: none is */
    struct store loaded;       /* from that, as far as it is written */
    char *moment;              /* what that is going to be */
    struct model models[SPACES];
    uint64_t next_id;
    struct waiting waiting[WAITERS_MAX];
    size_t waiting_count;
    struct watching watching[WATCHES_MAX];
    size_t watching_count;
    uint64_t tally[TALLIES];
};

/* Prints the seed and the step of the run, and aborts. */
void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#define CHECK(condition)                                                 \
    do {                                                                 \
        if (!(condition))                                                \
            fail("%s:%d: not true: %s", __FILE__, __LINE__, #condition); \
    } while (0)

#define BYTES(s)                            \
    {                                       \
        (const uint8_t *)(s), sizeof(s) - 1 \
    }

/* --- store_chance.c --- */

uint64_t next_random(struct sim *sim);
uint64_t below(struct sim *sim, uint64_t n);
bool one_in(struct sim *sim, uint64_t n);
struct slice any_key(struct sim *sim);
struct slice any_value(struct sim *sim);
bool is_large(const struct bytes *value);
struct slice next_value(struct sim *sim, const struct bytes *now);
int64_t any_number(struct sim *sim);
const char *any_path(struct sim *sim, char *buf, size_t cap);

/* --- store_replica.c --- */

void compare_stores(struct sim *sim);
void commit(struct sim *sim);
void end_snapshot(struct sim *sim);
void step_snapshot(struct sim *sim);

/* --- store_commands.c --- */

struct where own_keys(struct sim *sim, size_t space);
struct where any_keys(struct sim *sim, size_t space);
struct store_result apply(struct sim *sim, size_t space, const struct command *c);
void check_key(const struct where *w, struct slice key);
void put_blob(struct writer *w, struct slice s);
void step_key(struct sim *sim, const struct where *where);
void step_queue(struct sim *sim, const struct where *where);
void end_waiter(struct sim *sim, size_t at);
void step_wait(struct sim *sim, const struct where *where);
void step_barrier(struct sim *sim, const struct where *where);
void step_stores(struct sim *sim, size_t space);

/* --- store_tree.c --- */

void step_tree(struct sim *sim, size_t space);
void check_listing(struct sim *sim, size_t space, const char *path, bool recursive);
void step_list(struct sim *sim, size_t space);
void step_time(struct sim *sim, size_t space);
void end_watch(struct sim *sim, size_t at);
void step_watch(struct sim *sim, size_t space);
void take_events(struct sim *sim, struct watching *w);
