/* The network between an agent and the daemon: a connection, which may be cut, lost, or kept by a
 * relay that has lost the daemon; and the daemon's end of a connection whose host is gone. */
#pragma once

#include "tests/sim/jobs.h"

#define LATENCY_MS      8 /* at most, in one direction */
#define CONNECTION_LOST "its connection was lost"

/* The agent runs, and requests come through. */
bool net_is_reachable(const struct pod *p);
/* For how long they have, when they do. */
uint64_t net_reachable_for(const struct pod *p);
/* When its connection is whole again; in the past: it is. */
uint64_t net_connected_ms(const struct pod *p);
bool net_is_connected(const struct pod *p);
/* True if the agent has a session with the daemon, or with a relay that has not learnt yet that the
 * daemon ended this session. */
bool net_has_session(const struct pod *p);

/* Neither a request nor an answer is under way. */
void net_clear(struct pod *p);
/* The agent learns that its connection has ended, and fails. */
void net_disconnect(struct pod *p, const char *reason);
/* Answers agents that wait for a key, if the key exists now or the wait has timed out. */
void net_answer_waits(struct job *job);
/* What its relay does now. */
void net_run_relay(struct pod *p);
/* Ends the sessions of relays that have been away for too long. */
void net_end_sessions(void);

/* The peer of the link has gone: the daemon notices after `after_ms`, and presumes the agent dead
 * at `give_up_ms` unless that is 0. `link` may be NULL. */
void net_orphan(struct model_link *link, uint64_t after_ms, uint64_t give_up_ms);
/* The daemon notices the lost peers that are due, or all lost peers. */
void net_end_orphans(bool all);

/* For model_space.h. */
void net_on_reply(struct model_link *link, struct slice value);
void net_on_resume(struct model_link *link);
void net_on_close(struct model_link *link, const char *reason);
