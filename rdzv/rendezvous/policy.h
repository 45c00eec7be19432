/* What rdzvd does for a run of torch's rendezvous, beyond keeping its keys: a function of the run,
 * of what happens, and of the time, that answers with commands for the store and with effects. The
 * policy has no socket, clock, loop or log, so tests drive it with a clock in hand.
 *
 * An unmodified torchrun then survives what default torch does not:
 *  - workers of torch 2.5 and later find their store at rdzvd, with fresh keys in each round
 *    (worker_store.c; torch keeps the address of the first round and the keys of all rounds);
 *  - what an agent wants with a write (torch_intent.h) is done to the newest state (compare_set.c),
 * and agents that join together write once each (numbers.c);
 *  - times are shifted over a time in which rdzvd stood still, and a node that was taken for dead
 *    and comes back is put where it belongs (repair.c);
 *  - a node whose connection has ended is dead at once, and the others are told (loss.c,
 *    placeholder_keys.c); one that is connected and silent is taken out later (presence.c);
 *  - the last call ends when no node is missing (last_call.c), waiting nodes are admitted at that
 *    moment (admit.c), and learn it at once (long_poll.c);
 *  - nodes that a complete round has no room for do not make its nodes meet again
 *    (round_content.c);
 *  - an agent is shown its own node and the number of the others, in its own clock (agent_view.c);
 *  - a closed run that all its agents have left is forgotten (forget.c), and an agent that comes
 *    too early for the next one is held until then (rejoin.c);
 *  - notes tell what happened to which node (explain.c).
 *
 * The order of a caller: say what has happened and how things stand, call policy_step(), carry out
 * its outputs in their order.
 * The policy has seen how much room the keys have, so a command fails only when memory is short, or
 * the run records are full. When a put of the run's key has failed, the caller steps RUN_CHANGED,
 * which reads the key again. */
#pragma once

#include "rdzv/rendezvous/events.h"

/* The way in. The view of the run is up to date when this returns, as if the caller had updated
 * it after each command. */
void policy_step(struct run *run, const struct policy_event *event, const struct policy_now *now,
                 struct policy_out *out);

/* Why the next RUN_TICK forgets the run, as all agents have left it for long enough; NULL: not. */
const char *policy_why_forget(const struct run *run, const struct policy_now *now);

/* MIN nodes are here, as far as MIN is known, without those of that host. */
bool policy_can_spare(const struct run *run, struct slice host);

/* `hosts`, as policy_now.ended_hosts, has that host. */
bool policy_names_host(struct slice hosts, struct slice host);

/* A poll is the most frequent request of agents: if its answer is the same as the last time,
 * returns that text, and no step is needed. ptr NULL: the caller must step AGENT_POLLED. */
struct slice policy_poll_again(struct run *run, struct agent *a, bool waits, uint64_t now_ms,
                               uint64_t lived_ms);

/* The same for a heartbeat, the most frequent write: what the agent was shown last, with a new time
 * of its own. Of `now`, only the times. ptr NULL: the caller must step AGENT_COMPARE_SET. */
struct slice policy_heartbeat(struct run *run, struct agent *a, struct slice expected,
                              struct slice desired, const struct policy_now *now);

/* AGENT_GET_ROUND_KEY: the answer, `stored` or, if that is the address or port of the worker store
 * as rdzvd has guessed it, the one by which this agent has reached rdzvd. */
#define PORT_TEXT_MAX 6
struct slice policy_agent_place(const struct run *run, const struct policy_event *event,
                                struct slice stored, char port[PORT_TEXT_MAX]);
