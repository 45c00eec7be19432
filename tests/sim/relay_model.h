/* What clients may see of a store that loses nothing, does nothing twice, and keeps each client's
 * order: kept as sums, bounds and chains, so that an answer is judged when it comes. */
#pragma once

#include "proto/bytes.h"

#define IDS      24 /* clients of one seed, and the auditor */
#define COUNTERS 3
#define LOGS     2
#define CELLS    2 /* of COMPARE_SET */
#define QUEUES   2
#define FLAGS    6 /* keys that are waited for */
#define ROUNDS   3 /* of barriers */
#define CAS_MOST 400
#define ADDS     400
#define SEQ_MOST 64

enum kind {
    DO_ADD,
    DO_APPEND,
    DO_READ_LOG,
    DO_SET,
    DO_GET,
    DO_PAIR,
    DO_READ_PAIR,
    DO_CAS,
    DO_PUSH,
    DO_POP,
    DO_FLAG,
    DO_WAIT,
    DO_CHECK,
    DO_PUT,
    DO_DELETE,
    DO_BARRIER,
    DO_READ_COUNTER,
    DO_READ_CELL,
    KINDS,
};

/* A request, and the client's knowledge when it sent the request. */
struct request {
    enum kind kind;
    unsigned which; /* of its keys */
    unsigned other; /* whose */
    unsigned also;  /* WAIT, CHECK: a second flag */
    uint32_t value; /* COMPARE_SET: wanted */
    uint32_t expected;
    uint64_t low;       /* no answer may be older than this */
    uint16_t lows[IDS]; /* the same of each client */
    bool is_there;      /* DELETE, CHECK: it is known to be */
};

void model_reset(unsigned participants);

/* The client sends it: fills in the rest. False: there has been enough of that. */
bool model_send(unsigned id, struct request *r);

/* It is answered, or without an answer known to be done. */
void model_answer(unsigned id, const struct request *r, struct slice first, struct slice second,
                  int64_t number);
void model_done(unsigned id);

/* A WAIT has ended that its client had given up: of what came behind it, that says nothing. */
void model_waited(const struct request *r);

/* Its client has gone: whether it was carried out, nobody knows. */
void model_lost(unsigned id, const struct request *r);

/* Names a change that was answered to that client and that the store has lost; NULL: the store has
 * all. `read` reads a key of the store. */
typedef struct slice model_read_fn(const char *key);
const char *model_missing(unsigned id, model_read_fn *read);

/* After the auditor has read everything. */
void model_judge(void);

/* For those who wait. */
bool model_flag_is_set(unsigned flag);
unsigned model_entered(unsigned round);
uint32_t model_seen(unsigned id, unsigned cell);
