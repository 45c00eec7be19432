/* An agent of a run as the policy knows it: one connection of torch's elastic agent.
 *
 * Each state below is an enum that agent_states.c writes, by one function with a table of legal
 * moves. run.h has the lists in which a run keeps its agents. */
#pragma once

#include "rdzv/config/topology.h"
#include "rdzv/rendezvous/view.h"

struct run;

#define AGENT_HOST_MAX 46

/* --- States. --- */

/* What tells that a connection is an agent's. */
enum agent_origin {
    ORIGIN_TOOL,     /* nothing yet: no request to make the key has come, with which torch's agents
                        begin */
    ORIGIN_UNNAMED,  /* a relay has brought the connection over a start of the daemon; its node is
                        not known */
    ORIGIN_RETURNED, /* the same, its memo names the node, and the agent has not written the state
                        since the start */
    ORIGIN_AGENT,    /* it has asked for the key, or has written since a start */
};

/* The connection, behind a relay also while the relay is not there. */
enum agent_link {
    LINK_HERE,
    LINK_AWAY, /* its relay is not there: it is silent, and not disconnected */
    LINK_GONE, /* the same, and taken for dead: it counts as disconnected, in run.gone */
};

/* Whether the run counts it among its agents. See rejoin.c. */
enum agent_standing {
    STANDING_MEMBER,
    STANDING_REJOINS, /* the run is closed, and the agent was in no round of it: in run.rejoining */
    STANDING_REJECTED, /* the same; after --closed-run-wait, the agent learns that it is closed */
};

/* What is known of its node. Of two agents with one node, the later one counts. */
enum agent_naming {
    NAMING_NONE,
    NAMING_SHADOWED, /* another agent counts for the same node */
    NAMING_LISTED,   /* the agent counts for its node: in run.by_node */
};

/* How its node has come onto the wait list. See admit.c. */
enum agent_line {
    LINE_NONE,  /* the node is on no wait list, or rdzvd must not admit it */
    LINE_PUT,   /* rdzvd has put the node there; the agent may not know, and may still train */
    LINE_ASKED, /* the agent waits by its own wish */
};

/* Its request that is answered later. */
enum agent_held {
    HELD_NONE,
    HELD_LONG,            /* a poll, until its round changes: long_poll.c */
    HELD_LONG_ANSWER,     /* the same, of a write that is done */
    HELD_LATE,            /* a write that is done, until its text is put: compare_set.c */
    HELD_GATHERED,        /* a poll, until all participants poll: meeting.c */
    HELD_SHIFTED,         /* a poll, for a second: pace.c */
    HELD_NUMBER,          /* a poll, until the agent can have a number: numbers.c */
    HELD_JOIN,            /* a write, until it is its number's turn: numbers.c */
    HELD_REJOIN,          /* any, until the closed run is forgotten: rejoin.c */
    HELD_RELEASED,        /* it comes again as it was held: a poll is answered, a write is judged */
    HELD_RELEASED_ANSWER, /* it comes again, is done, and is answered */
    HELD_KINDS,
};

/* --- Times. --- */

/* How often an agent polls while it trains, and when its heartbeat may come: see pace.c. Times are
 * monotonic; 0: not known. */
struct agent_pace {
    uint64_t round;       /* by view.completions; all times down to wrote_ms are of that round */
    uint64_t seen_ms;     /* then it saw that the round is complete, or asked for a key of it */
    uint64_t shifted_ms;  /* since then its heartbeats come later */
    uint8_t shifts;       /* so many times */
    uint64_t asked_ms;    /* time of the last GET, if no write has followed yet */
    uint64_t polled_ms;   /* time of the last poll: a GET that no write has followed */
    uint64_t wrote_ms;    /* time of the last heartbeat, or when the agent saw the round complete;
                             0: not known, since it is back after a start */
    uint64_t interval_ms; /* usual time between two polls, in all rounds */
    uint64_t beat_ms;     /* the same of two heartbeats, if below torch's interval */
    uint64_t gap_ms;      /* between the last two writes of that round; 0: there were no two */
    bool has_beaten;      /* a heartbeat has come in that round */
    bool was_in;          /* it saw that before, too: a start, or its relay's absence, is between */
    bool may_beat;        /* HELD_GATHERED: that may be the GET of its heartbeat */
};

/* The agent may be about to send a heartbeat. */
bool pace_may_beat(const struct agent_pace *p, uint64_t now_ms);
/* So long passed between two polls. The longest of late counts, so that one poll that came early
 * does not hide it. */
void pace_note_interval(struct agent_pace *p, uint64_t interval_ms);

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
    size_t own;        /* its node in view.state then */
    size_t others;     /* so many others were in the last text, also if that is not kept */
    uint64_t until_ms; /* until then, if nothing has changed */
    bool is_look;      /* the last text measured MIN or MAX: nothing based on it is done */
};

/* --- The agent. --- */

#define ROUND_NONE (-1)

/* The caller makes it, zero except for the first members, and keeps it from AGENT_CONNECTED until
 * AGENT_DISCONNECTED. */
struct agent {
    bool pings;   /* torch 2.5 or later */
    bool relayed; /* it is behind a relay, so it outlives the daemon: resume_hint.c */
    char local_host[AGENT_HOST_MAX]; /* the address by which it has reached rdzvd; "": unknown */
    uint16_t local_port;             /* the same; 0: unknown */
    enum agent_origin origin;        /* ORIGIN_TOOL or ORIGIN_UNNAMED */
    struct topology_label label;     /* of its relay */

    /* The policy's own. */
    enum agent_link link;
    enum agent_standing standing;
    enum agent_naming naming;
    enum agent_line line;
    enum agent_held held;
    TAILQ_ENTRY(agent) entry;  /* in run.gone, run.rejoining, or run.agents */
    struct table_node by_node; /* in run.by_node while NAMING_LISTED */
    struct torch_node node;    /* unless NAMING_NONE; its address points into by_node.key, which is
                                  owned */
    TAILQ_ENTRY(agent) held_entry; /* in run.held_agents, unless HELD_NONE */
    uint64_t held_since_ms;        /* the request that is held, or was held last */
    uint64_t rejoins_since_ms;     /* since then, its first request was held first; 0: it was not */
    uint64_t shown_wait_ms;        /* LINE_PUT: it was shown that then; 0: not yet */

    /* When it asks. */
    bool waits;          /* the last request waits for a key that may have no value yet */
    uint64_t heard_ms;   /* time of the last request, as policy_now.lived_ms */
    uint64_t silence_ms; /* the usual time between two requests, the longest of late */
    struct agent_pace pace;
    struct agent_clock clock;

    /* Its rounds. */
    bool closes;           /* it has asked to close the run, see close_needs_all */
    uint64_t nodes;        /* number of nodes of the agent's completed round; 0: in none */
    int64_t round;         /* that round */
    uint64_t room_for;     /* its MAX or less: see admit.c */
    int64_t workers_round; /* the round in which the workers have got their ranks, see closing.c; or
                              ROUND_NONE */
    int64_t finished_round;  /* its workers have ended well in that round; or ROUND_NONE */
    uint64_t joins_since_ms; /* since then its node takes part or waits */
    bool gave_up;            /* its join has timed out */
    bool has_place;          /* that a node of the last round has left: steering.c */
    const char *lacks_group; /* why its group has no place: steering.c; NULL: it has, or no group */
    struct topology_group group; /* by the rules */
    bool ends;                   /* by an order, when its node leaves the round: steering.c */
    uint64_t max_least;          /* MAX of its torchrun is that at least, as measured: steering.c */
    uint64_t max_most;           /* the same at most; 0: not known */

    /* What it is shown of the state: agent_view.c. */
    uint64_t has_ranks_of; /* a completed round, by view.completions: it has read who it is in
                              there; 0: none */
    uint64_t has_seen;     /* the same: it has been shown that the round is complete */
    uint64_t has_left;     /* the same: it was a participant, and has left, or was set aside */
    struct agent_view view;

    /* It is about to join an open round: numbers.c. */
    uint64_t number;          /* as this participant; 0: it is not */
    TAILQ_ENTRY(agent) queue; /* in run.numbers.agents while it has a number */
};

TAILQ_HEAD(agent_list, agent);

/* --- The states are written here only. An illegal move is a defect of the daemon, and ends a build
 * with assertions. --- */

void agent_set_origin(struct agent *a, enum agent_origin next);
void agent_set_link(struct agent *a, enum agent_link next);
void agent_set_standing(struct agent *a, enum agent_standing next);
void agent_set_line(struct agent *a, enum agent_line next);

/* The agent has written the state, or trains no more: after a start, the same is known of an agent
 * that was connected before. */
void agent_note_wrote(struct agent *a);

/* The agent asks for something; `writes`: a compare-and-set. Returns what its held request was:
 * HELD_NONE if this is another one. A request that was released is held no longer. */
enum agent_held agent_note_asked(struct run *run, struct agent *a, bool writes, uint64_t now_ms);

/* Ends the hold of a request that does not come again: the agent has left, or this step answers the
 * request. */
void agent_drop_held(struct run *run, struct agent *a);

static inline bool agent_is_held(const struct agent *a)
{
    return a->held != HELD_NONE && a->held < HELD_RELEASED;
}

/* It is an agent, no tool. */
static inline bool agent_is_introduced(const struct agent *a)
{
    return a->origin >= ORIGIN_RETURNED;
}

static inline bool agent_has_node(const struct agent *a)
{
    return a->naming != NAMING_NONE;
}

/* A spare whose node was set aside, or may have been before a start: its workers may run. */
static inline bool agent_may_train(const struct agent *a)
{
    return a->has_left != 0 || a->origin == ORIGIN_RETURNED;
}
