/* An agent of a run as the policy knows it: one connection of torch's elastic agent.
 *
 * Each state below is an enum that agent_states.c writes, by one function with a table of legal
 * moves. run.h has the lists in which a run keeps its agents. */
#pragma once

#include "rdzv/config/topology.h"
#include "rdzv/rendezvous/view.h"

struct run;

/* --- States. --- */

/* What tells that a connection is an agent's. */
enum agent_origin {
    ORIGIN_TOOL,     /* nothing yet: an agent of torch begins with a request to make the key */
    ORIGIN_UNNAMED,  /* a relay has brought it over a start of the daemon; its node is not known */
    ORIGIN_RETURNED, /* the same; its memo names the node; it has not written since the start */
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
    uint32_t round;       /* by view.completions; all times down to wrote_ms are of that round */
    uint8_t shifts;       /* its heartbeats come later by so many shifts, */
    bool has_beaten : 1;  /* a heartbeat has come in that round */
    bool was_in : 1;      /* it saw that before, too: a start, or its relay's absence, is between */
    bool may_beat : 1;    /* HELD_GATHERED: that may be the GET of its heartbeat */
    uint64_t shifted_ms;  /* since then */
    uint64_t seen_ms;     /* then it saw that the round is complete, or asked for a key of it */
    uint64_t asked_ms;    /* time of the last GET, if no write has followed yet */
    uint64_t polled_ms;   /* time of the last poll: a GET that no write has followed */
    uint64_t wrote_ms;    /* time of the last heartbeat, or when the agent saw the round complete;
                             0: not known, since it is back after a start */
    uint64_t interval_ms; /* usual time between two polls, in all rounds */
    uint64_t beat_ms;     /* the same of two heartbeats, if below torch's interval */
    uint64_t gap_ms;      /* between the last two writes of that round; 0: there were no two */
};

/* The agent may be about to send a heartbeat. */
bool pace_may_beat(const struct agent_pace *p, uint64_t now_ms);
/* So long passed between two polls. The longest of late counts, also if one poll came early. */
void pace_note_interval(struct agent_pace *p, uint64_t interval_ms);

/* Its clock, compared with ours: see agent_clock.c. */
struct agent_clock {
    int64_t ahead_us;         /* ours plus this is its own */
    int64_t beat_us;          /* by its own clock */
    int64_t kept_us;          /* ahead_us as its memo has it */
    uint64_t asked_ms;        /* when its last request came; 0: none has */
    uint64_t asked_before_ms; /* the one before; 0: none */
};

/* The text that an agent was shown last. If it may be shown the same again, that is made of these
 * and of the state, since the texts of all agents would take more memory than all else of them. */
struct agent_view {
    uint64_t until_ms; /* it may until then, if nothing has changed; 0: not */
    int64_t beat_us;   /* its heartbeat there, by its own clock */
    uint32_t changes;  /* the low bits of view.changes then */
    uint32_t own;      /* its node in view.state then */
    size_t others;     /* so many others were in the last text */
};

/* --- The agent. --- */

#define ROUND_NONE (-1)

/* The caller makes it, zero except for the first members, and keeps it from AGENT_CONNECTED until
 * AGENT_DISCONNECTED. */
struct agent {
    const char *local_host; /* the address by which it has reached rdzvd; NULL: unknown */
    const struct topology_label *label; /* of its relay; NULL: none */
    uint16_t local_port;                /* as local_host; 0: unknown */
    bool pings : 1;                     /* torch 2.5 or later */
    bool relayed : 1; /* it is behind a relay, so it outlives the daemon: resume_hint.c */
    enum agent_origin origin : 2; /* ORIGIN_TOOL or ORIGIN_UNNAMED */

    /* The policy's own. */
    enum agent_link link : 2;
    enum agent_standing standing : 2;
    enum agent_naming naming : 2;
    enum agent_line line : 2;
    enum agent_held held : 4;
    bool waits : 1;            /* the last request waits for a key that may have no value yet */
    bool closes : 1;           /* it has asked to close the run, see close_needs_all */
    bool gave_up : 1;          /* its join has timed out */
    bool has_place : 1;        /* that a node of the last round has left: steering.c */
    bool ends : 1;             /* by an order, when its node leaves the round: steering.c */
    bool is_look : 1;          /* its last text measured MIN or MAX: nothing based on it is done */
    bool has_clock : 1;        /* a heartbeat has come: clock.beat_us */
    TAILQ_ENTRY(agent) entry;  /* in run.gone, run.rejoining, or run.agents */
    struct table_node by_node; /* in run.by_node while NAMING_LISTED */
    struct torch_node node; /* unless NAMING_NONE; its address is in by_node.key, which is owned */
    TAILQ_ENTRY(agent) held_entry; /* in run.held_agents, unless HELD_NONE */
    uint64_t held_since_ms;        /* the request that is held, or was held last */
    uint64_t rejoins_since_ms;     /* since then, its first request was held first; 0: it was not */
    uint64_t shown_wait_ms;        /* LINE_PUT: it was shown that then; 0: not yet */

    /* When it asks. */
    uint64_t heard_ms;   /* time of the last request, as policy_now.lived_ms */
    uint64_t silence_ms; /* the usual time between two requests, the longest of late */
    struct agent_pace pace;
    struct agent_clock clock;

    /* Its rounds. */
    uint64_t nodes;          /* number of nodes of the agent's completed round; 0: in none */
    int64_t round;           /* that round */
    uint64_t room_for;       /* its MAX or less: see admit.c */
    int64_t workers_round;   /* its workers have ranks of that round: closing.c; or ROUND_NONE */
    int64_t finished_round;  /* its workers have ended well in that round; or ROUND_NONE */
    uint64_t joins_since_ms; /* since then its node takes part or waits */
    const char *lacks_group; /* why its group has no place: steering.c; NULL: it has, or no group */
    struct topology_group group; /* by the rules */
    uint64_t max_least;          /* MAX of its torchrun is that at least, as measured: size.c */
    uint64_t max_most;           /* the same at most; 0: not known */

    /* What it is shown of the state: agent_view.c. */
    uint32_t has_ranks_of; /* by view.completions: it has read its rank of that round; 0: none */
    uint32_t has_seen;     /* the same: it has been shown that the round is complete */
    uint32_t has_left;     /* the same: it was a participant, and has left, or was set aside */
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

/* Ends the hold of a request that does not come again: its agent has left, or is answered now. */
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
