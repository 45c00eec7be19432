/* What the parts of elastic*.c share: agents, and runs as the server sees them. */
#pragma once

#include "rdzv/engine/log.h"
#include "rdzv/net/input.h"
#include "rdzv/rendezvous/elastic.h"
#include "rdzv/rendezvous/run_apply.h"

struct probe;

/* A connection of an agent: it has named a key of some run. */
struct agent {
    TAILQ_ENTRY(agent) entry; /* in elastic_run.agents, or .late */
    TAILQ_ENTRY(agent) line;  /* in elastic_run.line */
    struct conn *conn;
    struct elastic_run *run;
    bool in_line;
    bool late;              /* the run was closed when it came: see elastic_late.c */
    bool told;              /* so much, since it has waited long enough */
    uint64_t held_ms;       /* waits since then to begin the run anew; 0: it does not */
    bool pings;             /* 2.5 or later */
    bool has_node;          /* it has joined at least once, as `node` */
    bool closes;            /* has asked to close the run, see --close-needs-all */
    struct torch_node node; /* its address is owned */
    uint64_t world;         /* how many were in the completed round that it is in; 0: in none */
    int64_t round;          /* which one that is */
    int64_t ahead_us;       /* its clock, compared with ours */
};

TAILQ_HEAD(agent_list, agent);

struct elastic_run {
    TAILQ_ENTRY(elastic_run) entry;
    struct rendezvous *rdzv;
    struct rendezvous_space *home;
    struct slice key; /* "/torch.rendezvous.R"; the bytes follow the struct */
    struct agent_list agents;
    struct agent_list late; /* came when it was closed: they do not count */
    uint64_t left_ms;       /* no agent since then; 0: there is one */
    bool ending;            /* it is being forgotten: nobody is missed */
    bool full; /* the latest round was completed by the one who made it MAX, as far as known */

    /* Who may write: see elastic_turn.c. */
    struct agent *turn; /* was told the newest state and is about to write it; NULL: nobody */
    struct agent_list line;
    struct event turn_ends; /* set up while somebody has the turn */
    int64_t turn_began_ns;
    uint64_t turn_usual_us; /* what agents of this run need for theirs */
    uint64_t refreshed_ms;  /* when heartbeats of those in line were last looked at */

    /* Where its workers are: see elastic_workers.c. */
    struct probe *probe;                /* asks whether agent 0 hosts a store */
    struct listener *port;              /* of its own; NULL: they share the agents' */
    uint16_t agents_port;               /* the one that agent 0 came to */
    enum worker_store_placement undone; /* was decided, and the space had no room for it */
    const char *undone_why;
};

static inline bool elastic_on(const struct rendezvous *s)
{
    return s->config->elastic.fixes;
}

/* R, for logs. */
static inline struct slice elastic_name(const struct elastic_run *er)
{
    return slice_from(er->key, strlen(RUN_PREFIX));
}

/* The store's view of a run; NULL: it knows nothing of it. Valid until the next command. */
static inline struct run *elastic_store_run(const struct elastic_run *er)
{
    return runs_find(&er->home->known, er->key);
}

/* elastic.c */
static inline struct rendezvous *rendezvous_of(const struct conn *c)
{
    return ((const struct c10d *)c->protocol->arg)->hooks.arg;
}
struct elastic_run *elastic_find(struct rendezvous_space *home, struct slice key);
/* Drops worker stores that are not of a latest round and that have no sessions. */
void elastic_sweep(struct rendezvous *s, struct engine_space *space);

/* elastic_late.c, elastic_turn.c, elastic_state.c, elastic_workers.c: parts of on_request(). */
bool elastic_holds(struct conn *c, const struct c10d_request *req);
void elastic_compare_set(struct conn *c, const struct c10d_request *req,
                         struct store_result *result, struct slice *answer);
void elastic_before(struct conn *c, const struct c10d_request *req, struct slice key);
bool elastic_takes_set(struct conn *c, const struct c10d_request *req);

/* elastic_late.c */
/* A new agent is counted among those of its run, or as one who has come too late. */
void elastic_enter(struct elastic_run *er, struct agent *a);
/* True: this request waits until the run is forgotten, or for --closed-run-wait. */
bool elastic_is_held(struct agent *a, const struct c10d_request *req);
/* How many wait so. */
size_t elastic_held(const struct elastic_run *er);
/* Who came too late for the run that was closed is in time for the next. */
void elastic_admit(struct elastic_run *er);
/* Lets those go on who have waited long enough. */
void elastic_tell_late(struct elastic_run *er, uint64_t now);

/* elastic_turn.c */
void elastic_turn_init(struct elastic_run *er);
void elastic_give_turn(struct elastic_run *er, struct agent *a);
/* To the first in line, whose request is shown again; nobody has it when there is none. */
void elastic_pass_turn(struct elastic_run *er);
/* All who are in line go on at once. */
void elastic_end_turns(struct elastic_run *er);
/* The agent no longer waits, writes or exists. */
void elastic_leave_line(struct agent *a);

/* elastic_state.c */
/* Whether all that this compare-and-set changes is one heartbeat, which can be merged. */
bool elastic_is_heartbeat(struct elastic_run *er, const struct c10d_request *req);
/* Replaces the state by `next` with a compare-and-set of our own. */
bool elastic_write(struct elastic_run *er, const struct torch_state *next,
                   struct store_result *out);

/* elastic_repair.c: */
/* Moves the heartbeats of all runs on by the time in which rdzvd could not be reached. */
void elastic_make_up_for(struct rendezvous *s, uint64_t gap_ms);
void elastic_restore(struct agent *a);

/* elastic_workers.c */
void elastic_completed(struct elastic_run *er, struct agent *by);
void elastic_drop_workers(struct elastic_run *er);
/* Tries again to tell agents what the space had no room for. */
void elastic_retry_workers(struct elastic_run *er);

/* elastic_log.c */
#define ELASTIC_NAME_MAX 320
/* "host/pid/local id": how torch tells nodes apart. Returns the text. */
const char *elastic_node_name(const struct torch_node *node, char text[ELASTIC_NAME_MAX]);
/* An agent's connection has ended. */
void elastic_note_lost(const struct agent *a);
/* What has changed from run->before to run->state, and who did it. */
void elastic_log_change(const struct elastic_run *er, const struct run *run,
                        const struct agent *by);
