/* A run as the policy knows it: its view, its agents, and the endpoint of its workers' store. */
#pragma once

#include "rdzv/config/elastic_settings.h"
#include "rdzv/rendezvous/agent.h"

/* A loop over the agents of a list of the run. */
#define AGENTS_FOREACH(a, list) TAILQ_EACH(struct agent, a, list, entry)

/* Agents that are about to join the open round: see numbers.c. */
struct numbers {
    struct agent_list agents; /* that have a number, the lowest first */
    size_t count;             /* how many */
    uint64_t tried;           /* an agent has joined the round as each number up to this */
    uint64_t since_ms;        /* no agent has joined since then */
    int64_t round;
};

/* What is being done about the place where the workers of the run find their store. */
enum worker_endpoint_state {
    ENDPOINT_RESTS,         /* nothing */
    ENDPOINT_PROBES,        /* the host of agent 0 is asked */
    ENDPOINT_OPENS_PORT,    /* a port of the run's own has been asked for */
    ENDPOINT_LACKS_RDZVD,   /* rdzvd must be the place, and the space has no room for the keys */
    ENDPOINT_LACKS_WORKER0, /* the same, of worker 0 */
};

/* See worker_store.c. */
struct worker_endpoint {
    enum worker_endpoint_state state;
    struct slice proposed[2]; /* MASTER_ADDR and MASTER_PORT as agent 0 says; owned; NULL: unsaid */
    const struct agent *asked; /* PROBES: agent 0; NULL: it is gone, and with it what listened */
    const char *why_worker0;   /* LACKS_WORKER0 */
    int64_t owed_round; /* nothing is decided, and agents have rdzvd's place, since agent 0 of that
                           round was lost; or ROUND_NONE */
    uint16_t own_port;  /* 0: none */
    uint16_t last_port; /* the own port that was given back while the run was left; 0: none was */
    bool lacks_store;   /* the newest round has got no worker store: the tick tries again */
};

/* Drops what agent 0 says. */
static inline void worker_endpoint_forget(struct worker_endpoint *e)
{
    run_view_drop(&e->proposed[0]);
    run_view_drop(&e->proposed[1]);
}

/* The nodes of a complete round are to meet again: see meeting.c. */
struct meeting {
    enum {
        MEETING_NONE,
        MEETING_GATHERS, /* polls of the participants are held; a node that waits is hidden */
        MEETING_OPEN,    /* the participants are shown that a node waits */
    } phase;
    uint32_t completion; /* the round, by view.completions */
    uint64_t since_ms;   /* begin of the holds, or of the need to meet if no poll is held */
    uint64_t until_ms;   /* they are held until then at the latest */
    uint64_t usual_ms;   /* the longest usual time between two polls that was known then; 0: none */
    struct agent *next;  /* GATHERS: all agents before it in run.agents poll; NULL: all do */
};

/* A close that is judged once all agents are back. */
enum close_kept {
    CLOSE_NOT_KEPT,
    CLOSE_KEPT_OTHER,  /* of an agent that may not close the run for the others */
    CLOSE_KEPT_MEMBER, /* of one that may */
};

/* MIN and MAX are measured on the first agent that joins: see size.c. */
struct looks {
    const struct agent *agent;    /* NULL: not begun, or over */
    uint64_t since_ms;            /* 0: not begun */
    uint64_t min_least, min_most; /* MIN is between these; the second is 0: not known */
};

/* How full the last round is, as far as is known. */
enum run_fill {
    FILL_BELOW_MAX,
    FILL_MAX,
    FILL_MAX_ADMITTED, /* the same, and rdzvd has completed it: admit.c */
};

/* Agents that may come back after a start of the daemon. */
enum run_start {
    START_OVER,
    START_AWAITED, /* not all are back that may come back */
    START_UNNAMED, /* all agents are back; the node of at least one agent is not known */
};

/* A round in which the workers of an agent have ended well: see closing.c. */
struct finishing {
    int64_t round; /* ROUND_NONE: there is none */
    size_t count;  /* number of finished agents, including agents gone since */
    bool released; /* the finished agents no longer wait for the others, which are lost */
};

/* Orders of operators that hold until they are taken back: steering.c. */
struct run_orders {
    enum {
        ORDER_NONE,
        ORDER_HOLD,  /* no node takes part */
        ORDER_CLOSE, /* the run stays closed, also if its agents start again */
    } word;
    uint64_t until;  /* ORDER_HOLD: it ends with this number of nodes; 0: not by that */
    int64_t ends_us; /* the same: it ends then, as policy_now.wall_ns; 0: not by time */
    const struct cordons *cordons; /* hosts that take no part; the driver's; NULL: none */
    const struct cordons *drains;  /* of those, the hosts that save their work first; NULL: none */
};

struct run {
    struct run_view view; /* the first member */
    const struct policy_settings *settings;
    struct run_orders orders; /* the driver writes it, and steps RUN_ORDERED */
    struct run_rules rules;   /* the same: those of the settings, or its own */
    bool is_shut;             /* no place for more nodes; of an open round, for any: steering.c */
    bool keeps_places;        /* there are more nodes than places, and each place is a node's */
    uint64_t places_at_ms;    /* when that was found out, as policy_now.lived_ms */
    struct topology_label lost_label; /* of the last lost node that had a place */
    bool lacks_groups;                /* an agent lacks its group */

    struct agent_list agents;
    struct agent_list rejoining;               /* STANDING_REJOINS: they are not counted */
    struct agent_list gone;                    /* LINK_GONE: neither are these */
    size_t agent_count;                        /* 0: no agent is connected, since `idle_since_ms` */
    size_t held[HELD_KINDS];                   /* number of held requests of agents, by kind */
    struct agent_list held_agents[HELD_KINDS]; /* these agents, the first held first */
    uint64_t still_ms;    /* total time in which no agent could write, at the last event */
    struct table by_node; /* agents that have a node; of two with one node, the later */
    uint64_t idle_since_ms;
    enum run_start start;
    uint64_t unnamed_since_ms; /* START_UNNAMED; as policy_now.lived_ms */
    bool was_meeting;    /* when the daemon ended, the nodes of the round were about to meet */
    bool must_meet;      /* the nodes of this round must meet, also if the lost ones come back */
    bool meets_on_order; /* an operator wants that; unless workers end well before */
    bool ending;         /* it is being forgotten on request: no node is missed */

    /* Its size. MIN and MAX are in no message. */
    enum run_fill fill;
    uint64_t max_nodes;    /* MAX; 0: unknown */
    uint64_t room_for;     /* MAX or less, of the agents that were connected since it was idle */
    uint64_t enough;       /* MIN or more; 0: unknown */
    size_t joined;         /* the most nodes that the round has had, for notes */
    uint64_t completed_ms; /* when the last round was completed, as policy_now.lived_ms */
    uint64_t met_ms;       /* the same, or the start of the daemon */

    /* Its end. */
    enum close_kept close_kept; /* START_AWAITED, START_UNNAMED: an agent wanted to close it */
    bool shares_roles;          /* its agents exchange their roles by keys, to rank their workers */
    struct finishing finishing;
    bool failed;        /* an agent has closed it whose workers have failed: closing.c */
    bool awaits_others; /* no node has joined, and an agent came that must not be first: rejoin.c */

    struct slice poll_text;    /* the last one of policy_poll_again(); owned, from malloc() */
    struct torch_front *front; /* the others in the texts of all agents: agent_view.c; or NULL */
    uint64_t beats_since_ms;   /* view.is_ahead: since then */
    struct last_call {
        int64_t deadline_us; /* as the state has it */
        uint64_t ends_ms;    /* the same, as policy_now.lived_ms */
    } last_call;             /* when it is over */
    struct completer {
        const struct agent *agent; /* NULL: none, or it is gone */
        uint64_t since_ms;
    } completer; /* the agent that completes the round: agent_view.c */
    struct {
        int64_t round;
        enum { POLLING_OPEN, POLLING_CALL_OVER, POLLING_COMPLETE } phase;
    } polling; /* the round as agents have seen it whose polls are held: long_poll.c */
    struct meeting meeting;
    struct numbers numbers;
    struct looks looks;
    struct worker_endpoint endpoint;
};

/* The workers of an agent have ended well in this round, so no node makes the others meet, unless
 * another agent has started its workers again. */
static inline bool run_is_finishing(const struct run *run, int64_t round)
{
    return run->finishing.round == round && !run->must_meet;
}

/* The agent waits for the ranks of its workers in the newest round, and then starts them. */
static inline bool run_lacks_ranks(const struct run *run, const struct agent *a)
{
    return run->shares_roles && a->workers_round != run->view.state.round;
}

/* Each agent is shown that the run is closed, also one that trains. */
static inline bool run_ends_all(const struct run *run)
{
    return run->failed && (run->settings->end_failed_runs || run->orders.word == ORDER_CLOSE);
}

/* True: the participants are shown that a node waits. False: it is hidden from them. */
static inline bool meeting_is_open(const struct run *run)
{
    return run->meeting.phase == MEETING_OPEN && run->meeting.completion == run->view.completions;
}

/* `key`, the settings and what `run` is in live as long as the run. */
void run_init(struct run *run, struct slice key, const struct policy_settings *settings,
              uint64_t seed, uint64_t now_ms);
/* All its agents have disconnected. */
void run_fini(struct run *run);

/* Nothing is left of it: no key and no agent. */
bool run_is_unused(const struct run *run);

/* No other run gets the port of its workers: the run goes on, and one of its agents is connected,
 * or may come back after a start of the daemon, or after rdzvd took it for dead. */
bool run_keeps_port(const struct run *run);

/* An order keeps the node out: it may take part in no round. */
bool run_keeps_out(const struct run *run, const struct torch_node *node);

/* Of so many nodes, so many may take part in a round, by the rules of the run. */
uint64_t run_size(const struct run *run, uint64_t nodes);

/* If no other event comes, RUN_TICK is needed at that time, by the monotonic clock; 0: each second;
 * UINT64_MAX: never. */
uint64_t run_due_ms(const struct run *run);

/* The node of the agent is a participant in the state. */
bool run_takes_part(const struct run *run, const struct agent *a);
/* The agent of that node, or NULL. */
struct agent *run_agent_of(const struct run *run, const struct torch_node *node);
/* The node of that agent in the state, until the view changes; NULL: it is not there or known. */
const struct torch_node *run_node_of(const struct run *run, const struct agent *a);

/* The agent has written as that node; the later of two agents counts. No memory: it is unknown. */
void run_remember_node(struct run *run, struct agent *a, const struct torch_node *node);
void run_forget_node(struct run *run, struct agent *a);
/* The node whose agent.by_node.key is `key`; its address points in there. False: of none. */
bool run_node_of_key(struct slice key, struct torch_node *out);
/* It counts for its node no more; again, unless another one does. */
void run_unlist(struct run *run, struct agent *a);
void run_list(struct run *run, struct agent *a);
/* From now on `a` counts for the node that both agents have, in place of `before`. */
void run_list_again(struct run *run, struct agent *before, struct agent *a);

/* --- ranks.c: functions of the settings, of a round, and of the ranks that nodes have had in this
 * run, called in the step that completes the round. --- */

/* Gives the participants the ranks 0 … n-1. `run` has their agents; NULL: they are not known. They
 * have ranks in torch's order, which they keep if memory is short. */
void ranks_assign(const struct policy_settings *settings, const struct run *run, struct slice kept,
                  struct torch_state *next);

/* `round` is complete: updates *kept, owned and of ACCOUNT_RUNS: MAX, and of each node its last
 * rank and its name, the nodes of the newest round first. False: no change, or memory is short. */
bool ranks_keep(struct slice *kept, const struct torch_state *round, uint64_t max_nodes);
/* Returns that MAX; 0: unknown. Fills the empty *round with these nodes; NULL: does not. */
uint64_t ranks_recall(struct slice kept, struct torch_state *round);
