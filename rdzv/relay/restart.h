/* Restarts in place (--exit-on-restart): the relays of a run, one for each node, start together and
 * end together. Each relay appends its name to a list in the space of its clients. The run has
 * started when all N relays are there. When a relay starts later, since the containers of its node
 * have ended, it begins the next generation, and the relays of the generation before exit: the
 * kubelet starts their containers again, and all meet in the new generation.
 *
 * The lists are plain keys of c10d below RELAY_KEYS, which a session of this relay reads and
 * writes, so a generation is as durable as the store, and a restart of the store ends nothing:
 *
 *     restart          the newest generation, as a decimal number
 *     restart/G/here   a line of each relay of generation G: "N ID NAME". Each process has a new ID
 *     restart/G/seen   the same, appended when `here` has N names
 *     restart/G/runs   exists when `seen` has N names: the run has started
 *
 * Two lists, since a relay may be gone before the last one comes: only relays that still live
 * append to `seen`. A relay whose line is not among those that complete `seen` comes too late for
 * G: its name is there, but from the process before, and the others may have started with that. */
#pragma once

#include "rdzv/relay/relay.h"

enum restart_stage { RESTART_HERE, RESTART_SEEN, RESTART_RUNS };

struct restart {
    struct relay *relay; /* NULL: there is no --exit-on-restart */
    const char *name;    /* of this node */
    uint32_t nodes;      /* N */
    uint32_t ticks;      /* since the lists were read for /startz */
    uint64_t id;
    uint64_t generation;
    uint8_t stage; /* enum restart_stage */
    uint8_t step;  /* what the session has asked for: an enum in restart.c */
    uint8_t op;    /* enum c10d_op of that request */
    bool is_due;   /* the next generation has begun: the relay must exit */
    bool has_left;
    struct relay_client *session; /* NULL: the store has lost it, or memory was short */
    struct blob *in;              /* the answer, as far as it has come */
    struct blob *list;            /* the last one that was read */
    struct blob *before;          /* the complete list before that one; NULL: unknown */
    struct slice *names;          /* N names of a list, and room for as many missing ones */
};

/* `relay` and `name` outlive it. `name` names this node: each process of the node has the same
 * name, and each other node has another one. */
void restart_init(struct restart *r, struct relay *relay, uint32_t nodes, const char *name);
void restart_fini(struct restart *r);

/* The end of an iteration, before the link sends. */
void restart_flush(struct restart *r);

/* Once a second. */
void restart_tick(struct restart *r);

/* The daemon stops: its session ends. */
void restart_leave(struct restart *r);

/* For /startz: true if the run has started with this relay. Fills `text`, also then. */
#define RESTART_SAYS_MAX 600
bool restart_has_started(const struct restart *r, char text[RESTART_SAYS_MAX]);
