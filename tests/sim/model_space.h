/* The daemon as far as the policy of rendezvous needs one: the real store, runs and their
 * views, probes and ports, with a clock in hand. It carries out what the policy gives out,
 * and checks that this is what policy.h promises. */
#pragma once

#include "rdzv/rendezvous/history.h"
#include "rdzv/rendezvous/policy.h"
#include "store/store.h"

#define MODEL_RUNS 2

/* What the daemon keeps of an agent behind a relay over its end; `len` 0: nothing. */
#define MODEL_MEMO_MAX 64
struct model_memo {
    uint8_t bytes[MODEL_MEMO_MAX];
    size_t len;
};

/* A connection of an agent, as the daemon sees it. */
struct model_link {
    struct agent agent; /* the first member */
    struct model_run *run;
    bool bound; /* it has named a key */
    bool held;  /* its request waits */
    bool up;    /* false: the daemon has closed or will close it */
    uint64_t held_since_ms;
    struct model_memo memo;
    void *owner; /* NULL: its peer is gone, and the daemon has not noticed yet */
};

struct model_run {
    struct run run; /* the first member */
    struct model_space *space;
    char key[64];
    uint64_t incarnation; /* how often it has been forgotten */
    uint64_t probe_ms;    /* the same */
    bool probe_refused;
    uint16_t own_port;
    struct run_orders orders; /* as the daemon's records have them */
    struct run_rules rules;   /* the same, if an operator has given it some */
    bool has_rules;
    struct history history; /* for the rules; it ends with the daemon */
    char ended_hosts[256];  /* as policy_now has them, since the job has ended well */
    uint64_t ended_ms;

    /* Private: the view that is made of the keys, and the value that it was made of. */
    struct run_view fresh;
    uint8_t *fresh_value;
    size_t fresh_len;
    bool is_fresh_made;
};

struct model_space {
    struct policy_settings settings;
    struct policy_now now;
    uint64_t still_ms;       /* total time for which the daemon stood still */
    uint64_t still_since_ms; /* it does; 0: it does not */
    uint64_t seed;
    struct store store;
    struct space *space;
    struct run_views views;
    struct model_run runs[MODEL_RUNS];
    size_t run_count;
    struct cordons cordons; /* of all runs; the caller's */
    const struct model_run *shared;
    size_t room;
    bool ports_fail; /* no port can be opened */

    struct policy_counters counters;
    uint64_t steps;
    uint64_t looks_shown; /* without a step */
    uint64_t heartbeats;  /* the same */

    /* What happens to connections. */
    void (*reply)(struct model_link *link, struct slice value); /* ptr NULL: there is no such key */
    void (*resume)(struct model_link *link);                    /* its request is shown again */
    void (*close)(struct model_link *link, const char *reason);
    void (*stopped)(struct model_run *run); /* a rule closes it; NULL: nothing is called */
    void (*struck)(struct model_run *run, const char *host); /* a rule cordons the host; the same */
    void (*fail)(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
};

void model_space_init(struct model_space *s, uint64_t seed, size_t run_count);
void model_space_fini(struct model_space *s);

/* An agent behind a relay, or not. */
struct model_link *model_link_new(struct model_run *run, void *owner, bool pings, bool relayed);
/* The same, of one whose relay had it before the daemon began. */
struct model_link *model_link_again(struct model_run *run, void *owner, bool pings,
                                    const struct model_memo *memo);
/* The daemon notices that the connection has ended. */
void model_link_free(struct model_link *link);
/* The agent's relay disconnects, ends or returns (AGENT_AWAY, AGENT_GONE, AGENT_BACK). When it
 * returns, it repeats the unanswered requests. */
void model_presence(struct model_link *link, enum policy_event_kind kind);

/* Requests of agents; each is answered by reply(), or held. */
void model_compare_set(struct model_link *link, struct slice expected, struct slice desired);
void model_look(struct model_link *link);
void model_set(struct model_link *link, int64_t round, const char *name, struct slice value);
void model_read(struct model_link *link, int64_t round, const char *name);
/* The roles of that many nodes; agent 0 sets their ranks. */
void model_gather(struct model_link *link, int64_t round, size_t nodes);
void model_rank(struct model_link *link, int64_t round, size_t nodes);
/* Adds 1. */
void model_add(struct model_link *link, int64_t round, const char *name);
/* Is not answered: the caller looks with model_has_key() whether it is. */
void model_wait(struct model_link *link, int64_t round, const char *name);
bool model_has_key(const struct model_run *run, int64_t round, const char *name);

void model_tick(struct model_space *s);
/* Timers and probes that are due. */
void model_run_due(struct model_space *s);
/* The earliest of them; UINT64_MAX: none. */
uint64_t model_next_ms(const struct model_space *s);
/* The daemon stands still from now on; and goes on, after so long. */
void model_stall(struct model_space *s);
void model_stalled(struct model_space *s, uint64_t ms);
/* The daemon ends, and with it these links, which are freed. `killed`: the daemon has not noticed
 * the end of these links, so the keys are unchanged. */
void model_end(struct model_space *s, struct model_link *const *links, size_t count, bool killed);
/* It begins anew from its keys, after so long. `agents_return`: it knows sessions of relays. */
void model_begin_again(struct model_space *s, uint64_t away_ms, bool agents_return);
/* The relays of those sessions have come back, or will not. */
void model_returned(struct model_space *s);
void model_forget(struct model_run *run);
/* An operator's order; run->orders and ->rules, or the cordons of the space, say what holds from
 * now on. `evicts`: nodes that are kept out leave the complete round. */
void model_order(struct model_run *run, enum run_order order, bool evicts);

struct slice model_value(const struct model_run *run);
