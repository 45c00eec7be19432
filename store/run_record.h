/* A run record says for each rendezvous where its workers have their store. torch has no key for
 * that. The store does not know what a run is; it keeps the record and lists it. The report of an
 * ended run, and an order of an operator, are records as well, which stay when the space is
 * emptied.
 */
#pragma once

#include "proto/queue.h"
#include "store/change/change.h"
#include "store/memory/quota.h"
#include "store/memory/table.h"

struct run_record {
    struct table_node node; /* the run's key; its bytes and the address follow the struct */
    TAILQ_ENTRY(run_record) order;
    enum worker_store_placement placement;
    struct slice address; /* of an ended run: its report; of an order: its text */
    uint16_t port;
    uint64_t worker_store; /* 0: none */
    int64_t round; /* of an ended run, or an order: when that was, in microseconds since 1970 */
};

/* The key of a run begins with '/'. */
#define RUN_ENDED_KEY "ended/" /* the key of an ended run begins so */
#define RUN_ORDER_KEY "order/" /* the same of an order of an operator */

/* The same of the hosts that must not begin a job again that has ended well: ended/hosts/ID. The
 * address is a list of JSON, `round` the time of its end, or of the last refusal. */
#define RUN_HOSTS_KEY RUN_ENDED_KEY "hosts/"

#define RUN_RANKS_KEY   "ranks"   /* before a run's key: the key of the record of its ranks */
#define RUN_GOODPUT_KEY "goodput" /* the same of the record of its times */

/* The key of the record that is named so behind that prefix; `out` holds its bytes. Empty: too long
 * for a record. */
#define RUN_RECORD_KEY_MAX 8300 /* bytes; a key of c10d has 8192 at most */
struct slice run_record_key(const char *prefix, struct slice name, uint8_t out[RUN_RECORD_KEY_MAX]);

static inline bool run_record_is_ended(const struct run_record *record)
{
    return slice_starts_with(record->node.key, slice_str(RUN_ENDED_KEY));
}

TAILQ_HEAD(run_record_list, run_record);

/* Those of one space. */
struct run_records {
    struct table table;
    struct run_record_list list; /* in order of creation */
    struct reserve *reserve;
    size_t bytes;
    struct quota *quota; /* of the space */
};

void run_records_init(struct run_records *r, struct reserve *reserve, uint64_t seed,
                      struct quota *quota);
void run_records_fini(struct run_records *r);

/* NULL if no record has this key. */
struct run_record *run_records_find(const struct run_records *r, struct slice key);

/* Whether a record names this worker store. */
bool run_records_name(const struct run_records *r, uint64_t worker_store);

/* --- Changes; for space.c only. --- */

/* True when the record fits into the space, in the place of the one that there is. */
bool run_records_have_room(const struct run_records *r, const struct run_put *c);

/* What run_records_put() takes of the reserve at most. */
size_t run_records_memory(const struct run_put *c);

void run_records_put(struct run_records *r, const struct run_put *c);

/* Deletes one that there is. */
void run_records_delete(struct run_records *r, struct slice key);
/* Deletes all, or all except the reports of ended runs and the orders of operators. */
void run_records_clear(struct run_records *r, bool all);
