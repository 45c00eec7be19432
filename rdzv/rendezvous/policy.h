/* What rdzvd does for a run of torch's rendezvous, beyond keeping its keys: a function of the run,
 * of an event and of the time, that answers with commands for the store and with effects. The
 * policy has no socket, clock, loop or log, so tests drive it with a clock in hand. README.md says
 * what an unmodified torchrun survives by it, and POLICY.md which file does what.
 *
 * The caller carries out the outputs of policy_step() in their order. The policy has seen how much
 * room the keys have, so a command fails only when memory is short, or the run records are full. If
 * a put of the run's key has failed, the caller steps RUN_CHANGED, which reads the key again. */
#pragma once

#include "rdzv/rendezvous/events.h"

/* When this returns, the view of the run has all commands of the outputs. */
void policy_step(struct run *run, const struct policy_event *event, const struct policy_now *now,
                 struct policy_out *out);

/* Why the next RUN_TICK forgets the run, as all agents have left it for long enough; NULL: not. */
const char *policy_why_forget(const struct run *run, const struct policy_now *now);

/* MIN nodes are here, as far as MIN is known, without those of that host. */
bool policy_can_spare(const struct run *run, struct slice host);

/* `hosts`, as policy_now.ended_hosts, has that host. */
bool policy_names_host(struct slice hosts, struct slice host);

/* A poll is the most frequent request of agents. If its answer is the same as the last time,
 * returns that text, which lasts until the next call for the run. ptr NULL: step AGENT_POLLED. */
struct slice policy_poll_again(struct run *run, struct agent *a, bool waits, uint64_t now_ms,
                               uint64_t lived_ms);

/* The same for a heartbeat, the most frequent write: `desired` is the text that the agent was shown
 * last, with a new time. Of `now`, only the times count. ptr NULL: step AGENT_COMPARE_SET. */
struct slice policy_heartbeat(struct run *run, struct agent *a, struct slice expected,
                              struct slice desired, const struct policy_now *now);

/* AGENT_GET_ROUND_KEY: the answer, `stored` or, if that is the address or port of the worker store
 * as rdzvd has guessed it, the one by which this agent has reached rdzvd. */
#define PORT_TEXT_MAX 6
struct slice policy_agent_place(const struct run *run, const struct policy_event *event,
                                struct slice stored, char port[PORT_TEXT_MAX]);
