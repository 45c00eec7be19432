/* The functions of the policy that its files share, under the name of the file. See policy.h. */
#pragma once

#include "proto/torch/torch_intent.h"
#include "rdzv/rendezvous/explain.h"

/* --- agent_states.c --- */

/* Begins to hold the agent's request, for that reason; policy.c then answers POLICY_HOLD. */
void agent_hold(struct step *s, struct agent *a, enum agent_held why);
/* The held request is shown again. False: no memory, it is still held; try again. */
bool agent_release(struct step *s, struct agent *a);
/* The same for up to `most` agents of run.agents that are held for that reason. */
void agent_release_all(struct step *s, enum agent_held why, size_t most);

/* --- compare_set.c --- */

/* Answers AGENT_COMPARE_SET, or holds it. `is_done`: its answer was held, the write is done. */
void compare_set(struct step *s, const struct policy_event *event, bool is_done);

/* --- round_content.c --- */

enum round_way {
    ROUND_HAS_MAX,   /* an agent joins as node MAX */
    ROUND_CALL_OVER, /* the last call is over */
    ROUND_ADMITS,    /* rdzvd admits all waiting nodes */
};
/* Makes the open round of `next` a complete one. */
void round_decide(const struct run *run, enum round_way way, struct torch_state *next);
/* The node was not in the last complete round. */
bool round_is_new(const struct run *run, const struct torch_node *node);

/* --- round.c --- */

/* The agent has written the state. */
void round_written(struct step *s, struct agent *a);
/* Ends the last call if no node is missing. `by`: has just written; NULL: an agent has gone. */
void round_end_last_call(struct step *s, struct agent *by);

/* --- agent_view.c --- */

/* Answers a compare-and-set of the agent with what it is shown. */
void agent_view_answer(struct step *s, struct agent *a);
/* The same for its poll; without an output the agent reads the value itself. */
void agent_view_poll(struct step *s, struct agent *a);
/* True: the agent is shown that its node waits or has joined, and has no reason to act. */
bool agent_view_may_wait(struct step *s, const struct agent *a);
/* True: it would be shown an open round that it can join. */
bool agent_view_is_joining(struct step *s, const struct agent *a);
/* The agent asks for a key of that round. */
void agent_view_note_asked(struct step *s, struct agent *a, int64_t round);

/* --- numbers.c --- */

/* The number as which the agent joins the open round, from 1. */
uint64_t numbers_give(struct step *s, struct agent *a);
/* True: too many agents have a number; its poll is held. */
bool numbers_should_hold_poll(struct step *s, struct agent *a);
/* The number that an agent with this number is shown: so that most texts are short, in a crowd
 * whose MIN and MAX are known, the first number that is neither, unless its own is one of them. */
uint64_t numbers_shown(const struct run *run, uint64_t number);

enum number_verdict {
    NUMBER_COUNTS,
    NUMBER_LATER, /* its write is held until the numbers before it have been tried */
    NUMBER_REFUSED,
};
/* The agent joins as that number; `tells`: it says that this is MIN or MAX. */
enum number_verdict numbers_judge(struct step *s, struct agent *a, uint64_t number, bool tells);
/* It has joined. */
void numbers_joined(struct step *s, struct agent *a);
/* The agent joins no more. */
void numbers_drop(struct run *run, struct agent *a);
/* After each event: releases the agents whose turn it is. */
void numbers_check(struct step *s);
/* Once a second: the number of an agent that does not write goes to another one. */
void numbers_on_tick(struct step *s);

/* --- agent_clock.c --- */

/* True: that heartbeat, by the agent's clock, is *us by ours, and changes nothing that its memo
 * has. The agent's request is not noted yet. */
bool agent_clock_is_steady(const struct step *s, const struct agent *a, int64_t heartbeat_us,
                           int64_t *us);
/* A heartbeat of the agent has come; its time tells the agent's clock. */
void agent_clock_learn(struct step *s, struct agent *a, int64_t heartbeat_us);
/* They may be on one machine. */
bool agent_clock_is_same(const struct agent *a, const struct agent *b);
/* A time of ours by the agent's clock, and the other way round. */
int64_t agent_clock_from_ours(const struct agent *a, int64_t our_us);
int64_t agent_clock_to_ours(const struct agent *a, int64_t agents_us);

/* --- resume_hint.c --- */

/* The node of the agent, its clock or its round has become another one: keeps all three. */
void resume_hint_keep(struct step *s, struct agent *a);
/* rdzvd was started again, and a relay brings the agent back with that memo: takes over its node
 * and its clock, and returns the round in which its workers have ended well, or ROUND_NONE. If the
 * bytes are no memo, or there is no memory for the node, the agent counts as new. */
int64_t resume_hint_take(struct run *run, struct agent *a, struct slice memo);

/* --- closing.c --- */

/* The agent sets a key of a round, adds to it, or has read it: its role once more, if it takes its
 * place in the round again; a key of the exit barrier, if its workers have ended well. */
void closing_note_key(struct step *s, const struct policy_event *event);
/* The workers of the agent have ended well in that round. */
void closing_recall_finished(struct run *run, struct agent *a, int64_t round);
/* Once a second: if all agents with unfinished workers are lost, the others wait no longer. */
void closing_on_tick(struct step *s);
/* The agent has written the state: if it has closed the run, the run may have failed. */
void closing_note_failed(struct step *s, const struct agent *a);
/* Whether the run is closed, now that the agent wants that. */
enum close_verdict {
    CLOSE_COUNTS,
    CLOSE_IGNORED, /* it goes on */
    CLOSE_WAITS,   /* the same, until closing_settle() */
};
enum close_verdict closing_judge(const struct step *s, const struct agent *a);
/* The agent asks to close the run. False: it may not, or not yet. */
bool closing_ask(struct step *s, struct agent *a);
/* Closes the run, at the wish of no named agent. False: it is closed already, or no memory. */
bool closing_close(struct step *s);
/* All agents are back that come back after a start: judges the close. True: the run is closed. */
bool closing_settle(struct step *s);

/* --- rejoin.c --- */

/* Counts a new agent among the agents of its run, or among those that come for a closed run. */
void rejoin_enter(struct step *s, struct agent *a);
void rejoin_leave(struct step *s, struct agent *a);
/* Moves an agent that is taken for dead to run.gone, and back to its former list. */
void rejoin_set_aside(struct step *s, struct agent *a);
void rejoin_take_back(struct step *s, struct agent *a);
/* True: the run is closed, and the agent was not in it: its request waits until the run is
 * forgotten, or for closed_run_wait_ms. */
bool rejoin_should_hold(struct step *s, struct agent *a);
/* True: the job has ended well, and the agent's host must not begin it again. Its write is held
 * until another node has joined; if it is STANDING_REJECTED, it has waited for that in vain. */
bool rejoin_is_too_late(struct step *s, struct agent *a, struct slice host);
/* After each event: when another node has joined, the agents that wait for that join as well. */
void rejoin_check(struct step *s);
/* All agents that came for the closed run begin the next run. */
void rejoin_release_waiting(struct step *s);
/* Agents that have waited for closed_run_wait_ms learn that the run is closed. */
void rejoin_reject_overdue(struct step *s);

/* --- presence.c --- */

/* The agent asks; `waits`: for a key, so that the reply may take long. */
void presence_heard(struct step *s, struct agent *a, bool waits);
/* The time since the last request of the node's agent; 0: no agent is there, or it waits. */
uint64_t presence_silent_ms(const struct step *s, const struct torch_node *node);
/* The node is silent beyond its limit and `least_ms`, or has no agent and an old heartbeat. */
bool presence_is_lost(const struct step *s, const struct torch_node *node, uint64_t least_ms);

/* --- loss.c --- */

/* True if another connection counts for the node of that agent, whose connection has ended. */
bool loss_node_stays(struct run *run, struct agent *gone);
/* The agent's connection counts as ended: takes its node out, and makes the other nodes meet. */
void loss_on_disconnect(struct step *s, struct agent *gone);
/* A lost node is in its round again: removes the mark if no agent needs it, nor has seen it. */
void loss_take_back(const struct run *run, struct torch_state *next);
/* True: this round was completed with more nodes. */
bool loss_lacks_nodes(const struct run *run, const struct torch_state *state);
/* The daemon was started again: if no agent is to come back, the mark is taken away. */
void loss_on_start(struct step *s, bool agents_return);
/* The time for agents to come back is over: a node without a connected agent is lost. */
void loss_on_restore(struct step *s);
/* Once a second, and before a round is completed: takes out the nodes that are lost. */
void loss_drop_silent(struct step *s);
/* The run has failed: the others are shown that it is closed. */
void loss_end_run(struct step *s);
/* Takes the node out, and ends the round if no participant is left, as torch does it. */
void loss_take_out(struct torch_state *state, struct torch_node *node);
/* The round or the run is over: removes the mark that made the nodes meet again. */
void loss_clear_mark(struct step *s);

/* The nodes of the complete round must meet again: an operator wants that; or an agent has taken
 * itself for dead while it was frozen, or has taken out its predecessor and is kept out. */
void loss_make_meet(struct step *s, bool on_order, const char *why);
/* Puts the nodes that are kept out on the redundancy list: those that wait or join, and if the
 * nodes of the complete round meet again, its participants. */
void loss_set_aside(struct step *s, bool meets);

/* --- steering.c --- */

#define STEERING_HERE_MS 5000 /* an agent outside a round polls once a second */

/* An order keeps the node out, or its group has no place. */
bool steering_keeps_out(const struct run *run, const struct torch_node *node);
/* Finds which groups have a place. `again`: the table, the rules or the cordons may be others. */
void steering_note_groups(struct step *s, bool again);
/* The node of the agent is kept out, by an operator, a rule or the nodes of the last round, and is
 * neither in the round nor waits. `own`: as run_node_of(). */
bool steering_is_aside(const struct run *run, const struct agent *a, const struct torch_node *own);
/* The number of connected agents that are not aside. */
size_t steering_agents(const struct run *run);
/* True if an agent has no node among the participants, and its node is not kept out. */
bool steering_is_any_outside(const struct run *run, bool with_group);
/* The number of nodes of the last complete round that are not kept out. */
size_t steering_wanted(const struct run *run);

/* What orders and rules say about an intent. An agent that is aside was shown a complete round. */
enum steering_verdict {
    STEERING_IS_FREE, /* nothing */
    STEERING_ALLOWS,
    STEERING_REFUSES,
};
enum steering_verdict steering_judge(struct step *s, struct agent *a, const struct intent *in);
/* An agent joins as number MAX. False: groups of other nodes that have joined have no place. */
bool steering_may_complete(struct step *s, const struct intent *in);
/* False: by the rules, the nodes that have joined must wait for others. */
bool steering_may_begin(const struct run *run);
/* An operator, the rules, or the nodes of the last round leave the node no place. */
bool steering_lacks_place(const struct run *run, const struct torch_node *node);
/* Sets run.is_shut and run.keeps_places, ends a hold that has the nodes that it waits for, and
 * makes spares of nodes that wait or have joined, and have no place now. */
void steering_check(struct step *s);
/* Answers RUN_ORDERED. */
void steering_on_order(struct step *s, const struct policy_event *event);

/* --- size.c --- */

/* So many others are shown to an agent that is aside: MAX, as far as is known. */
size_t size_others(const struct run *run, const struct agent *a);
/* MAX of the agent is at most as many as it was shown, or more. True: it is that number. */
bool size_note_at_most(const struct run *run, struct agent *a, uint64_t shown);
void size_note_above(struct step *s, struct agent *a, uint64_t shown);
/* The run has MAX of that agent, if it is known; takes so many nodes for MAX, as an agent does. */
void size_learn_max(struct run *run, const struct agent *a);
void size_note_max(struct run *run, uint64_t nodes);
/* The agent has joined; `is_min`: as number MIN. If it is the first one, measures MIN and MAX on
 * it by looks, which it is shown instead of its view. */
void size_begin_looks(struct step *s, struct agent *a, bool is_min);
void size_end_looks(struct step *s, struct agent *a);
/* True: the agent has written the answer to a look, and nothing of it must be done. */
bool size_take_look(struct step *s, struct agent *a, const struct intent *in);
/* So many participants are in the look; *in_round: the agent is one of them. 0: it has no look. */
size_t size_look(const struct run *run, const struct agent *a, bool *in_round);
#define LOOK_RANK 1    /* of the agent in a look */
#define LOOKS_MS  5000 /* all looks; torch needs 10 to 40 ms for each */

/* --- placeholder_keys.c --- */

/* Puts the keys for which agents wait whose round has just lost a node. */
void placeholder_keys_put(struct step *s);
/* Puts the keys of the exit barrier of that round that lost nodes owe those who have finished; of a
 * round before the last one, only those of torch 2.4 and later. */
void placeholder_keys_put_exit(struct step *s, int64_t round);

/* --- last_call.c --- */

/* If no node is missing, ends the last call. True: rdzvd has completed the round by that. */
bool last_call_end(struct step *s);
/* An agent has written the state: if it has set the deadline, --regroup-wait may shorten it, and
 * nodes that wait get time to join. */
void last_call_begun(struct step *s);

/* After each event: a new deadline of the state is noted. */
void last_call_note(struct step *s);
/* The last call is over in so many ms, or was before. */
bool last_call_is_over(struct step *s, uint64_t in_ms);
/* No agent could write for that long, before a start: the last call ends so much later. */
void last_call_put_off(struct step *s, uint64_t away_ms);

/* True: as far as MIN and MAX are known, waiting agents are admitted if all others join. */
bool last_call_may_admit(const struct run *run);

/* --- admit.c --- */

/* The agent has written the state: it may wait now, or no more. */
void admit_note_wait(const struct step *s, struct agent *a);
/* rdzvd has put the agent's node on the wait list, and the agent is shown that. If the agent asks
 * again a second or two later, it has ended its workers, and waits by its own wish from then on. */
void admit_note_shown(struct agent *a, uint64_t now_ms);
/* Its MAX is that at least. */
void admit_note_room(struct run *run, struct agent *a, uint64_t nodes);
/* The round is open. If all connected agents have joined or wait, and are at least `wanted`: admits
 * the waiting nodes, and completes the round. False: nothing was done. */
bool admit_waiting(struct step *s, uint64_t wanted);

/* --- long_poll.c --- */

/* True: the poll of the agent is held, and answered later. */
bool long_poll_should_hold(struct step *s, struct agent *a, enum agent_held why);
/* True: the agent has just written the state, and waits: its answer is held. */
bool long_poll_should_hold_answer(struct step *s, struct agent *a);
/* After each event: releases all these polls if the round has become another one. */
void long_poll_check(struct step *s);
/* Once a second: releases a poll that has been held for long enough. */
void long_poll_on_tick(struct step *s);

/* --- meeting.c --- */

/* A participant polls. True: it is answered when all of them poll: its poll is held. */
bool meeting_should_hold(struct step *s, struct agent *a);
/* The node that the participants are shown then, until the view changes; NULL: none that lives. */
const struct torch_node *meeting_waiting(const struct step *s);
/* Torch 1.13 gives up a poll after read_timeout, which is 60 s by default. */
#define MEETING_HOLD_MS 45000
/* After each event: the meeting begins, opens, or ends. */
void meeting_check(struct step *s);
/* Once a second: answers held polls that lacked memory before. */
void meeting_release(struct step *s);

/* --- pace.c --- */

/* The agent has seen that the round is complete; has read the state; has written it. */
void pace_note_seen(const struct run *run, struct agent *a, uint64_t now_ms);
void pace_note_get(const struct run *run, struct agent *a, uint64_t now_ms);
void pace_note_write(const struct run *run, struct agent *a, uint64_t now_ms);
/* Its poll is held for a meeting no more; it was away; it has left the complete round by itself. */
void pace_note_released(struct agent *a, uint64_t now_ms);
void pace_note_back(struct agent *a);
void pace_note_left(struct agent *a, uint64_t now_ms);
/* The usual time between two polls; 0: not known. */
uint64_t pace_interval_ms(const struct agent *a);
/* Its GET is held, and may be that of a heartbeat: by now, the thread of the workers waits, too. */
bool pace_is_due(const struct agent *a, uint64_t interval_ms, uint64_t now_ms);
/* The agent polls. True: its interval is unknown, and rdzvd holds this poll to find it out. */
bool pace_should_hold(struct step *s, struct agent *a);
/* While rdzvd stood still, both threads of each agent have waited, so both continue at once. */
void pace_forget_shifts(struct run *run);
/* Once a second: those polls are answered. */
void pace_on_tick(struct step *s);

/* --- repair.c --- */

/* The agent asks, so its node lives: puts the node back if it was taken out of the state. May
 * change the view, so pointers into it are void then. False: the connection of the agent ends. */
bool repair_restore(struct step *s, struct agent *a);

/* --- forget.c --- */

/* The run's key is gone, is no run's key any more, or will go with the outputs of this step:
 * clears the view, drops the worker store, and releases all waiting agents. */
void forget_end_run(struct step *s);
/* Forgets the run if all agents have left it for long enough. */
bool forget_if_left(struct step *s);
/* Forgets the run now, and ends the connections of its agents. */
void forget_on_request(struct step *s, const struct policy_event *event);

/* --- worker_store.c --- */

/* A round has been completed by that agent. */
void worker_store_on_completed(struct step *s, struct agent *by);
/* Answers AGENT_SET_ROUND_KEY. */
void worker_store_intercept_set(struct step *s, const struct policy_event *event);
void worker_store_on_probed(struct step *s, const struct policy_event *event);
void worker_store_on_port_opened(struct step *s, const struct policy_event *event);
/* The daemon was started again: workers find their store where it was. */
void worker_store_on_restore(struct step *s);
/* All agents are back that come back after a start. */
void worker_store_on_returned(struct step *s);
/* Agent 0 is lost, and the other agents may wait for its keys MASTER_ADDR and MASTER_PORT. */
void worker_store_owe_place(struct step *s);
/* Gives back the port of a run that is left, and tries again what there was no room for. */
void worker_store_on_tick(struct step *s);
/* The run needs no place for workers any more. */
void worker_store_release(struct step *s);
