/* Restarts in place (--exit-on-restart): the relays of a run, one for each node, start together and
 * end together. A space has one such run. Its store keeps the barrier, with one RELAY_RESTART frame
 * for each event (proto/relay.h):
 *
 * Each relay sends its generation, the number N of nodes and the name of its node when it is
 * welcomed, and once a second while it waits. When N nodes are there, the store asks all of them
 * once more, since a relay may be gone before its link ends. When all have answered, the generation
 * has started. If a relay comes later, the containers of its node have ended: the store begins the
 * next generation, and the relays of the generation before exit. The kubelet starts their
 * containers again, and all meet in the new generation.
 *
 * A relay that was asked in the generation that has started was one of the N, so it misses nothing
 * if its link ends before it hears of the start. A store keeps nothing on disk: after its start, or
 * when another replica leads, the relays bring the generation with them. */
#pragma once

#include "rdzv/relay/link_session.h"

enum restart_stage {
    RESTART_AWAY,  /* of a store: the relay has no link */
    RESTART_WAITS, /* for N nodes */
    RESTART_ASKED, /* the relay has answered, in this generation */
    RESTART_RUNS,  /* its generation has started */
    RESTART_STAGES
};

#define RESTART_NAME_MAX    400u
#define RESTART_MESSAGE_MAX (4 + RESTART_NAME_MAX)
#define RESTART_SAYS_MAX    600

/* --- Of a relay. --- */

struct restart {
    const char *name; /* of this node: each other node has another one */
    uint32_t nodes;   /* N; 0: there is no --exit-on-restart */
    uint8_t stage;    /* enum restart_stage */
    bool is_due;      /* the next generation has begun: the relay must exit */
    uint64_t generation;
    char says[RESTART_SAYS_MAX]; /* for /startz */
};

/* The frame for the store; its payload lies in `room`. */
struct relay_frame restart_frame(const struct restart *r, uint8_t room[RESTART_MESSAGE_MAX]);

/* The store's frame. True: the relay must answer by restart_frame(). */
bool restart_receive(struct restart *r, const struct relay_frame *frame);

/* --- Of a store. --- */

/* NULL, or why a relay would not send that. */
const char *link_restart_take(struct relay_link *link, const struct relay_frame *frame);

/* The link has ended. */
void link_restart_leave(struct relay_link *link);

/* An operator restarts the run. False: the space has no run in place, or it has not started. */
bool link_restart_order(struct engine_space *space);

/* Once a second: relays that wait hear which nodes are missing. */
void link_restart_tick(const struct engine *e);

/* All links have ended. */
void link_restart_fini(const struct engine *e);
