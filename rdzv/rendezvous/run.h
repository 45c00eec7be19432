/* A run as the policy knows it: its view, the agents that are connected for it, who of them may
 * write, and where its workers find their store. */
#pragma once

#include "rdzv/rendezvous/view.h"

/* When the nodes of a complete round are told to meet again because one of them is lost. */
enum restart_on_loss {
    RESTART_NEVER,
    RESTART_WHEN_CLOSED, /* its agent's connection has ended */
    RESTART_WHEN_SILENT, /* the same, or nothing has come of it for silent_restart_ms */
};

struct policy_settings {
    bool close_needs_all;    /* one agent alone does not close the run for the others */
    bool close_from_members; /* a node whose workers are not in the newest round does not */
    bool end_failed_runs;    /* when an agent has closed it whose workers failed, all others end */
    bool drop_disconnected;  /* a node whose agent's connection ended is taken out at once */
    bool end_last_call;      /* the last call ends when no node is missing */
    uint64_t silent_node_ms; /* a node whose agent is silent for so long is taken out; 0: after
                                torch's 15 s, if a node waits or the round is open */
    enum restart_on_loss restart_on_loss;
    uint64_t silent_restart_ms;
    uint64_t regroup_wait_ms;    /* the last call of later rounds is not longer; 0: as long as the
                                    agents say */
    uint64_t expected_nodes;     /* of the run's first round; 0: unknown */
    bool own_worker_ports;       /* --worker-ports: no run shares the port of the agents */
    uint64_t closed_run_ttl_ms;  /* a closed run without agents is forgotten after this */
    uint64_t closed_run_wait_ms; /* how long an agent that comes for a closed run is held; 0: not */
    uint64_t idle_run_ttl_ms;    /* an open run without agents is forgotten after this; 0: never */
    const char *advertise_host;  /* what workers connect to; NULL: a guess, from the agents */
    uint16_t advertise_port;     /* 0: the port that the agents connect to */
};

#define AGENT_HOST_MAX 46

/* What becomes of an agent's look at the state. */
enum agent_look {
    LOOK_FREE,     /* no look is held */
    LOOK_LONG,     /* its look is held until its round changes: long_look.c */
    LOOK_GATHERED, /* its look is held until all participants look: meeting.c */
    LOOK_SHIFTED,  /* its look is held for a second: pace.c */
    LOOK_NUMBER,   /* its look is held until it can have a number: numbers.c */
    LOOK_RELEASED, /* its look was held, comes again, and is answered */
};

/* How often an agent looks while it trains, and when its heartbeat may come: see pace.c. Times are
 * monotonic; 0: not known. */
struct agent_pace {
    uint64_t round;       /* by view.completions; all times down to wrote_ms are of that round */
    uint64_t seen_ms;     /* then it saw that the round is complete */
    uint64_t shifted_ms;  /* since then its heartbeats come later */
    uint8_t shifts;       /* so many times */
    uint64_t asked_ms;    /* its last GET came then, and no write has followed yet */
    uint64_t looked_ms;   /* its last look came then: a GET that no write has followed */
    uint64_t wrote_ms;    /* its last heartbeat came then, or it saw that the round is complete;
                             0: not known, since it is back after a start */
    uint64_t interval_ms; /* usual time between two looks, in all rounds */
    uint64_t beat_ms;     /* the same of two heartbeats, if below torch's interval */
    uint64_t gap_ms;      /* between the last two writes of that round; 0: there were no two */
    uint64_t held_ms;     /* LOOK_GATHERED, LOOK_SHIFTED: since then */
    bool has_beaten;      /* it has written in that round */
    bool was_in;          /* it saw that before, too: a start, or its relay's absence, is between */
    bool may_beat;        /* LOOK_GATHERED: that may be the GET of its heartbeat */
};

/* Its clock, compared with ours: see agent_clock.c. */
struct agent_clock {
    bool is_known;            /* a heartbeat has come: `beat_us` */
    int64_t ahead_us;         /* ours plus this is its own */
    int64_t beat_us;          /* by its own clock */
    int64_t kept_us;          /* ahead_us as its memo has it */
    uint64_t asked_ms;        /* when its last request came; 0: none has */
    uint64_t asked_before_ms; /* the one before; 0: none */
};

/* What an agent was shown last, if it may be shown the same again. */
struct agent_view {
    struct slice text; /* owned; ptr NULL: nothing */
    uint64_t changes;  /* by view.changes then */
    uint64_t until_ms; /* until then, if nothing has changed */
};

/* A connection of an agent. The caller makes it, zero but for the first five members, and keeps it
 * from AGENT_CONNECTED until AGENT_DISCONNECTED. */
struct agent {
    bool pings;                      /* torch 2.5 or later */
    char local_host[AGENT_HOST_MAX]; /* the address by which it has reached rdzvd; "": unknown */
    uint16_t local_port;             /* the same; 0: unknown */
    bool relayed; /* it is behind a relay, so it outlives the daemon: see memo.c */
    bool returns; /* its relay has brought it over a start of the daemon */

    /* The policy's own. */
    bool away;                 /* its relay is not there: it is silent, and not disconnected */
    bool gone;                 /* the same, and taken for dead: it counts as disconnected */
    TAILQ_ENTRY(agent) entry;  /* in run.gone while `gone`, or run.rejoining, or run.agents */
    struct table_node by_node; /* in run.by_node while `is_listed` */
    bool rejoining;            /* the run was closed when it came: see rejoin.c */
    bool waiting;              /* its first request is held until that run is forgotten */
    bool rejected;             /* it has waited for too long, and learns that the run is closed */
    uint64_t waiting_since_ms; /* since it was held first; 0: it was not */
    bool has_node;             /* it has written the state at least once, as `node` */
    bool is_back;              /* that was before a start of the daemon, and it has not since */
    bool is_listed;
    bool closes;            /* it has asked to close the run, see close_needs_all */
    bool waits;             /* the last that it asked for is a key that may not be there yet */
    uint64_t heard_ms;      /* when it asked for that */
    uint64_t silence_ms;    /* the usual time between two requests, the longest of late */
    struct torch_node node; /* its address points into by_node.key, which is owned */
    uint64_t nodes;         /* how many nodes are in the completed round it is in; 0: in none */
    int64_t round;          /* that round */
    uint64_t room_for;      /* its MAX or less: see let_in.c */
    bool asks_in;           /* it waits for the next round, by a write of its own */
    bool was_put_in_line;   /* it waits by a write of rdzvd's, and may still train: repair.c */
    uint64_t shown_wait_ms; /* the same: it was shown that then; 0: not yet */
    bool has_workers;       /* it has got their ranks in the round `workers_round`, see closing.c */
    int64_t workers_round;
    bool has_finished; /* its workers have ended well in the round `finished_round` */
    int64_t finished_round;

    /* Its look. */
    enum agent_look look;
    uint64_t looks_since_ms; /* LOOK_LONG */
    bool owes_answer;        /* the same: it was a write, which is done */
    struct agent_pace pace;

    bool is_held;       /* its last request is held, and comes again */
    bool is_introduced; /* it has asked for the key to be made, as torch's agents do at first */
    struct agent_clock clock;

    /* What it is shown of the state: agent_view.c. */
    uint64_t has_ranks_of; /* a completed round, by view.completions: it has read who it is in
                              there; 0: none */
    uint64_t has_seen;     /* the same: it has been shown that the round is complete */
    uint64_t has_left;     /* the same: it was a participant, and has left by itself */
    struct agent_view view;

    /* It is about to join an open round: numbers.c. */
    uint64_t number;          /* as this participant; 0: it is not */
    bool holds_join;          /* it has written that, and its request is held */
    TAILQ_ENTRY(agent) queue; /* in run.numbers.agents while it has a number */
};

TAILQ_HEAD(agent_list, agent);

/* Agents that are about to join the open round: see numbers.c. */
struct numbers {
    struct agent_list agents; /* that have a number, the lowest first */
    size_t count;             /* how many */
    size_t held;              /* of so many the write is held, since `since_ms` or later */
    size_t looks;             /* so many have none yet: LOOK_NUMBER */
    uint64_t tried;           /* an agent has joined the round as each number up to this */
    uint64_t since_ms;        /* no agent has joined since then */
    int64_t round;
};

/* Where the workers of the run find their store: see worker_store.c. */
struct worker_endpoint {
    struct slice proposed[2]; /* MASTER_ADDR and MASTER_PORT as agent 0 says; owned; NULL: unsaid */
    bool probing;             /* the host of agent 0 is being asked */
    const struct agent *asked; /* that agent 0; NULL: it is gone, and with it what listened there */
    bool opening_port;         /* a port of the run's own has been asked for */
    uint16_t own_port;         /* 0: none */
    uint16_t last_port;   /* the own port that was given back while the run was left; 0: none was */
    uint16_t agents_port; /* the one that agent 0 connects to */
    enum worker_store_placement pending; /* decided while the space had no room for it */
    const char *pending_reason;
    bool pending_open; /* the same: a worker store for the newest round */
    bool is_owed; /* nothing is decided, and agents have rdzvd's place, since agent 0 was lost */
    int64_t owed_round; /* in that round */
};

/* The nodes of a complete round are to meet again: see meeting.c. */
struct meeting {
    enum {
        MEETING_NONE,
        MEETING_GATHERS, /* the looks of the participants are held, and no node that waits is shown
                          */
        MEETING_OPEN,    /* the participants are shown that a node waits */
    } phase;
    uint64_t completion; /* the round, by view.completions */
    size_t held;         /* so many looks are held, until until_ms at the latest */
    uint64_t since_ms;   /* since then, or since it was due if none is held */
    uint64_t until_ms;
    uint64_t usual_ms;  /* the longest usual time between two looks that was known then; 0: none */
    struct agent *next; /* GATHERS: those in front of it in run.agents look; NULL: all do */
};

/* A close that is judged once all agents are back. */
enum close_kept {
    CLOSE_NOT_KEPT,
    CLOSE_KEPT_OTHER,  /* of an agent that may not close the run for the others */
    CLOSE_KEPT_MEMBER, /* of one that may */
};

/* One of the agents completes the round: see agent_view.c. */
struct completer {
    const struct agent *agent; /* NULL: none, or it is gone */
    uint64_t since_ms;
};

struct run {
    struct run_view view; /* the first member */
    const struct policy_settings *settings;
    struct agent_list agents;
    struct agent_list rejoining; /* came when it was closed: they are not counted */
    struct agent_list gone;      /* neither are those who are taken for dead */
    size_t agent_count;
    size_t waiting_count; /* of those in `rejoining` */
    struct table by_node; /* agents that have a node; of two with one node, the later */
    bool idle;            /* no agent is connected, since `idle_since_ms` */
    uint64_t idle_since_ms;
    bool ending;        /* it is being forgotten on request: no node is missed */
    bool awaits_agents; /* the daemon has started, and not all agents that may come back have */
    uint64_t unnamed_since_ms; /* agents are back of which is not known which node they are: since
                                  all are back that come back; 0: none */
    bool was_told; /* when the daemon ended, the nodes of the round were about to meet */
    enum close_kept close_kept; /* meanwhile, an agent wanted to close it: see closing.c */
    bool reached_max;           /* the last round has MAX nodes, as far as is known */
    bool completed_by_us;       /* rdzvd itself has completed it, see let_in.c */
    uint64_t max_nodes;         /* MAX; 0: unknown */
    uint64_t room_for; /* MAX or less, of the agents that were connected since the run was idle */
    uint64_t enough;   /* MIN or more; 0: unknown */
    bool shares_roles; /* its agents tell each other what they need to know to rank their workers */
    int64_t finishing_round;   /* in that round an agent's workers have ended well; -1: in none */
    size_t finished;           /* so many of its agents have, also those that are gone since */
    bool released;             /* they do not wait for those who are lost */
    bool failed;               /* an agent has closed it whose workers have failed: closing.c */
    uint64_t completed_ms;     /* when the last round was completed */
    uint64_t missing_since_ms; /* a participant is not heard of; 0: none */
    struct completer completer;
    uint64_t beats_since_ms; /* view.has_beats: since then */
    size_t looking;          /* so many agents look long, in that round: */
    int64_t looking_in;
    bool looking_complete;
    bool looking_over; /* one of them is to complete it, as its last call is over */
    struct meeting meeting;
    size_t shifting; /* so many agents' heartbeats are being put off: pace.c */
    struct numbers numbers;
    struct worker_endpoint endpoint;
};

/* `key`, the settings and what `run` is in live as long as the run. */
void run_init(struct run *run, struct slice key, const struct policy_settings *settings,
              uint64_t seed, uint64_t now_ms);
/* All its agents have disconnected. */
void run_fini(struct run *run);

/* Nothing is left of it: no key and no agent. */
bool run_is_unused(const struct run *run);

/* No other run gets the port of its workers: it goes on, and an agent of it is connected, or may be
 * back, after a start of the daemon or after it was taken for dead. */
bool run_keeps_port(const struct run *run);

/* When RUN_TICK may next have something to do, by the monotonic clock, unless another event comes
 * before; 0: at each tick. UINT64_MAX: never. */
uint64_t run_due_ms(const struct run *run);

/* It asks for something; what was held comes again. */
static inline void agent_note_asked(struct agent *a, uint64_t now_ms)
{
    if (!a->is_held) {
        a->clock.asked_before_ms = a->clock.asked_ms;
        a->clock.asked_ms = now_ms;
    }
    a->is_held = false;
}

/* It was there before a start of the daemon, which does not know which node it is: memo.c. */
static inline bool agent_is_unnamed(const struct agent *a)
{
    return a->returns && !a->is_introduced && !a->has_node;
}

/* The agent of that node, or NULL. */
struct agent *run_agent_of(const struct run *run, const struct torch_node *node);
/* The node of that agent in the state; NULL: it is not there, or not known. Valid until the view
 * changes. */
const struct torch_node *run_node_of(const struct run *run, const struct agent *a);

/* The agent has written the state as that node; of two agents of one node the later counts. Without
 * memory it stays unknown. */
void run_remember_node(struct run *run, struct agent *a, const struct torch_node *node);
void run_forget_node(struct run *run, struct agent *a);
/* The node of which that is agent.by_node.key; its address points in there. False: of none. */
bool run_node_of_key(struct slice key, struct torch_node *out);
/* It counts for its node no more; again, unless another one does. */
void run_unlist(struct run *run, struct agent *a);
void run_list(struct run *run, struct agent *a);
/* Of two agents of one node, `a` counts from now on, and no more the one that did. True. */
bool run_list_again(struct run *run, struct agent *before, struct agent *a);

/* Parts of run_init() and run_fini(), in numbers.c and worker_store.c. */
void numbers_init(struct numbers *n);
void worker_store_fini(struct worker_endpoint *e);
