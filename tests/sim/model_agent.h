/* A model of torch's agent in a rendezvous, as a machine that a simulation drives: the handler
 * DynamicRendezvousHandler of torch 2.13 (join, last call, complete, heartbeats, leave, close), and
 * SimpleElasticAgent above it (ranks of the workers, the look at the workers each monitor interval,
 * restarts, exit barrier). The agent has one connection, so one request at a time; the simulation
 * passes the answer, and time. */
#pragma once

#include "proto/torch/torch_state.h"

/* How the agents of a run share their workers' store, which depends on the release. */
enum model_sharing {
    SHARING_ONCE, /* 2.6 and later: the address is said and read in the first round of each agent */
    SHARING_NEVER, /* TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1: said and read in each round */
    SHARING_OLD,   /* 2.4 and before: the same, and no PING */
};

struct model_settings {
    size_t min_nodes, max_nodes;
    uint64_t last_call_ms;
    enum model_sharing sharing;
    uint64_t monitor_ms;   /* --monitor-interval */
    uint64_t max_restarts; /* --max-restarts */
};

enum model_phase {
    MODEL_OFF,         /* not started */
    MODEL_INTRODUCING, /* creates the key, or finds it */
    MODEL_LEAVING,     /* the round that it may still be in */
    MODEL_JOINING,
    MODEL_SAYING,    /* rank 0 sets the two keys of the round */
    MODEL_READING,   /* waits for them */
    MODEL_TELLING,   /* sets its role */
    MODEL_GATHERING, /* rank 0 waits for the roles of all */
    MODEL_RANKING,   /* rank 0 sets the ranks of all workers */
    MODEL_RANKED,    /* waits for the ranks of its own workers */
    MODEL_TRAINING,  /* its workers run */
    MODEL_ARRIVING,  /* its workers have ended well: counts itself in the exit barrier */
    MODEL_LAST,      /* the last agent that arrives opens the barrier */
    MODEL_BARRIER,   /* waits for the others */
    MODEL_CLOSING,
    MODEL_DONE,   /* its job is done */
    MODEL_FAILED, /* its platform starts it anew */
};

enum model_request_kind {
    REQUEST_NONE,
    REQUEST_COMPARE_SET, /* expected: the last value it has seen */
    REQUEST_LOOK,        /* WAIT and GET of the state */
    REQUEST_SET,         /* of `name` of the round, to `text` */
    REQUEST_READ,        /* of `name` of the round; NULL while it is not there */
    REQUEST_GATHER,      /* the roles of all nodes of the round; NULL while one is not there */
    REQUEST_RANK,        /* sets the ranks of all nodes of the round */
    REQUEST_ADD,         /* 1 to `name` of the round; the answer is the sum */
    REQUEST_WAIT,        /* for `name` of the round; NULL when BARRIER_MS are over */
};

#define MODEL_BARRIER_MS 300000 /* exit_barrier_timeout */

/* Why an agent is about to end its workers, or has. */
enum model_leave {
    MODEL_STAYS,
    MODEL_LEAVES_TO_MEET, /* a node waits: no restart is used */
    MODEL_LEAVES_FAILED,  /* its workers have failed: a restart is used, or the run is closed */
    MODEL_LEAVES_DONE,    /* its workers have ended well */
};

/* Failures. */
#define MODEL_RANK_TOO_HIGH "IndexError: its rank is not below the number of nodes"
#define MODEL_NO_ADDRESS    "MASTER_ADDR or MASTER_PORT did not come within a minute"
#define MODEL_NO_RANKS      "the roles or the ranks did not come within a minute"
#define MODEL_NO_RESTART    "its workers have failed, and no restart is left"

struct model_agent {
    const struct model_settings *settings;
    char name[80];
    int64_t pid;
    int64_t skew_us; /* of its clock */

    enum model_phase phase;
    const char *failure; /* MODEL_FAILED: why */
    uint64_t next_ms;    /* when it acts next, unless it waits for an answer */

    enum model_request_kind request; /* what it waits for */
    uint8_t *text;                   /* the value that it wants to write */
    size_t text_len;
    const char *name_of_key;
    char key_text[48]; /* where that name is made */

    struct torch_state state; /* its own copy, without those it presumes dead */
    uint8_t *token;           /* the value that it was made of */
    size_t token_len;
    bool is_as_read; /* the copy is what the token says */
    bool dirty;
    bool has_synced;
    uint64_t synced_ms;

    bool errs; /* it ends by an error of its own, and closes the run, whatever it does */

    /* MODEL_TRAINING. The poll and the heartbeat share a lock: while the poll waits for its answer,
     * no heartbeat begins, and the reverse; but the agent looks at its workers without the lock. */
    bool workers_failed, workers_done; /* the simulation says so, and the agent sees it later */
    uint64_t look_ms;                  /* when it looks at its workers next */
    bool polling; /* its workers run, and it asks how many nodes wait, or waits for the lock */
    bool beating; /* its timer thread sends a heartbeat now */
    uint64_t heartbeat_ms;
    enum model_leave leaves; /* as of its last workers */
    uint64_t failures;       /* it has seen its workers fail so often */

    bool knows_address; /* it has read, or said, where the store is */
    char address[64];
    char port[16];
    bool has_joined; /* a round: the next four are of the last one */
    bool has_ranks;  /* and it has the ranks of its workers */
    int64_t rank;
    int64_t round;
    size_t world_size;
    uint64_t entered_ms;
};

/* Starts one that is off, done or failed: a new process. */
void model_agent_start(struct model_agent *a, const struct model_settings *settings,
                       const char *name, int64_t pid, int64_t skew_us, uint64_t now_ms);
void model_agent_stop(struct model_agent *a);

/* Acts, until it has a request or nothing to do before next_ms. */
void model_agent_act(struct model_agent *a, uint64_t now_ms, int64_t wall_us);

/* The answer to its request; ptr NULL: there is no such key. */
void model_agent_answer(struct model_agent *a, struct slice value, uint64_t now_ms,
                        int64_t wall_us);

/* How many nodes wait in its copy of the state. */
size_t model_agent_sees_waiting(const struct model_agent *a);
/* When it acts next by itself; UINT64_MAX: never. */
uint64_t model_agent_next_ms(const struct model_agent *a);

/* It reads and sets keys of a complete round, and its workers do not run yet. */
static inline bool model_agent_starts_workers(const struct model_agent *a)
{
    return a->phase >= MODEL_SAYING && a->phase <= MODEL_RANKED;
}

/* Its workers have ended well. */
static inline bool model_agent_is_done(const struct model_agent *a)
{
    return a->leaves == MODEL_LEAVES_DONE && a->phase >= MODEL_ARRIVING && a->phase <= MODEL_DONE;
}

static inline bool model_agent_is_alive(const struct model_agent *a)
{
    return a->phase != MODEL_OFF && a->phase != MODEL_DONE && a->phase != MODEL_FAILED;
}
