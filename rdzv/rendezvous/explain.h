/* What happened to a run and its nodes, as notes: made from the state before a change and the one
 * after it, or by the part of the policy that did something. explain_log.c writes them. */
#pragma once

#include "rdzv/rendezvous/step.h"

enum note_kind {
    NOTE_RUN_STARTED,
    NOTE_RUN_ENDED, /* it is closed, or as the driver says */
    NOTE_RUN_FORGOTTEN,
    NOTE_NODE_JOINED,
    NOTE_NODE_LEFT,
    NOTE_NODE_REPLACED, /* its container was started again, under the same name */
    NOTE_NODE_PRESUMED_DEAD,
    NOTE_NODE_SILENT, /* the same, by rdzvd itself */
    NOTE_NODE_DISCONNECTED,
    NOTE_NODE_RECONNECTED,
    NOTE_NODE_SET_ASIDE, /* an order keeps it out */
    NOTE_NODES_RESTARTED,
    NOTE_NODES_LOST,
    NOTE_SIZE_KNOWN,
    NOTE_LAST_CALL,
    NOTE_LAST_CALL_ENDED,
    NOTE_NODES_ADMITTED,
    NOTE_MEETING,
    NOTE_EXIT_BARRIER_ENDED,
    NOTE_ROUND_COMPLETE,
    NOTE_NODE_REPAIRED,
    NOTE_AGENTS_WAITING,
    NOTE_AGENTS_REJECTED,
    NOTE_CLOSE_WAITS,
    NOTE_CLOSE_IGNORED,
    NOTE_WORKER_STORE_ASSIGNED,
    NOTE_WORKER_STORE_EXTERNAL,
    NOTE_WORKER_STORE_FAILED,
    NOTE_KINDS,
};

/* What a kind does not use stays zero. Texts live as long as the outputs. */
struct note {
    enum note_kind kind;
    const struct agent *agent; /* whom it is about; NULL: is not connected */
    const struct agent *by;    /* who wrote */
    const char *node;          /* "host/pid/local id" */
    const char *by_node;
    const char *role; /* "participant", "waiting", "spare", "none" */
    const char *previous;
    const char *reason;
    const char *order; /* ": REASON (BY)", if an order makes the step; may be NULL */
    const char *action;
    const char *end;  /* of a run, as API.md has the words */
    const char *text; /* ranks, an address */
    int64_t round;
    uint64_t number;   /* nodes, participants, agents, keys, a port, max_wait_ms, MIN */
    uint64_t max;      /* 0: not known */
    uint64_t admitted; /* so many of them waited */
    uint64_t late;     /* so many have not polled */
    int64_t ms;        /* heartbeat_age_ms, ends_in_ms, shifted, held_ms */
    bool closed;
};

/* Writes the note of that run R as one line of the log. */
void explain_log(const char *space, struct slice run, const struct note *note);

/* A new output, with these and `round`. Never NULL: if memory is short, it goes nowhere. */
struct note *explain_note(struct step *s, enum note_kind kind, uint64_t number, const char *reason);
/* The same about a node: fills in its agent, its text, and its role, also as `previous`. */
struct note *explain_note_node(struct step *s, enum note_kind kind, const struct torch_node *node);

/* Notes the changes from view.before to view.state, as a write of `by`. */
void explain_change(struct step *s, const struct agent *by);

/* NOTE_RUN_ENDED, NOTE_CLOSE_WAITS, NOTE_CLOSE_IGNORED: of a close by that agent, or NULL. */
void explain_close(struct step *s, enum note_kind kind, const struct agent *by);

/* An agent's connection has ended, or it is `gone`. `stays`: its node has another connection. */
void explain_disconnect(struct step *s, const struct agent *a, bool stays);

/* node_text() that lives as long as the outputs. */
const char *explain_node(struct step *s, const struct torch_node *node);

/* True: it is no node, but the mark that tells the others that one is lost, see loss.c. */
bool loss_is_mark(const struct torch_node *node);
extern const struct torch_node loss_mark;
