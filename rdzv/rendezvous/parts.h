/* What the parts of the policy ask of each other in one step. Each function is in the file that the
 * heading above it names. See policy.h. */
#pragma once

#include "rdzv/rendezvous/step.h"

/* --- compare_set.c --- */

/* Answers AGENT_COMPARE_SET. */
void compare_set(struct step *s, const struct policy_event *event);
/* The agent has written the state. */
void compare_set_written(struct step *s, struct agent *a);
/* That agent has just completed a round; `by_us`: rdzvd has, in its place. */
void compare_set_completed(struct step *s, struct agent *a, bool by_us);
/* The agent learns the newest state, and holds the write slot if it is free. */
void compare_set_refuse(struct step *s, struct agent *a, bool expects_nothing);

/* --- shown.c --- */

/* What the agent is shown in place of the value; ptr NULL: the value itself. Valid until the next
 * call for that agent. */
struct slice shown_make(struct step *s, struct agent *a);
/* Answers the agent: with that, or with the value. */
void shown_answer(struct step *s, struct agent *a);
/* Answers it with the value, in its own clock if that is wrong. */
void shown_answer_whole(struct step *s, struct agent *a);
/* Answers a write: the same; or, if the agent is about to read its rank in a round that has lost a
 * node since, or of which one looks silent, with the round as it was completed. */
void shown_answer_newest(struct step *s, struct agent *a);
/* The agent looks at the state. */
void shown_look(struct step *s, struct agent *a);
/* True: it would be shown that it waits, or has joined, and nothing that makes it act. */
bool shown_may_wait(struct step *s, const struct agent *a);
/* The agent asks for a key of that round. */
void shown_asked(struct step *s, struct agent *a, int64_t round);
/* It is not shown that any more, so nothing is taken as relative to it. */
void shown_drop(struct agent *a);
/* The agent no longer exists. */
void shown_forget(struct step *s, const struct agent *a);

/* --- shown_write.c --- */

/* True: what the agent expects is what it was shown, and not the value; it is answered. */
bool shown_write(struct step *s, const struct policy_event *event);

/* True: the agent is shown a crowd to join, `text`, which lives as long as the outputs. */
bool shown_joining(struct step *s, struct agent *a, struct slice *text);

/* --- crowd.c --- */

/* What an agent is shown to which the other nodes are but a number: one that is about to join,
 * whose node is `own` if it waits, and one of the complete round that looks for its rank. The texts
 * live as long as the outputs, or until the next one. False: no memory. */
bool crowd_show_joining(struct step *s, const struct agent *a, const struct torch_node *own,
                        struct slice *text);
bool crowd_show_ranked(struct step *s, const struct torch_node *own, struct slice *text);
/* No more agents are about to join this round; or that one does not exist any more. */
void crowd_drop(struct run *run);
void crowd_forget(struct run *run, const struct agent *a);
/* True: the agent was shown the first of these, and is answered, or held. */
bool crowd_write(struct step *s, const struct policy_event *event);

/* --- skew.c --- */

struct wish;

/* A heartbeat of the agent has come, and tells what time it is there. */
void skew_learn(struct step *s, struct agent *a, int64_t heartbeat_us);
/* The same, if there is one in what it wants to write. */
void skew_learn_from(struct step *s, struct agent *a, const struct wish *wish);
/* They may be on one machine. */
bool skew_is_same(const struct agent *a, const struct agent *b);
/* The agent no longer exists. */
void skew_forget(struct step *s, struct agent *a);
/* Its clock was ahead by that before a start of the daemon: its node's heartbeat is moved there. */
void skew_recall(struct step *s, struct agent *a, int64_t ahead_us);
/* True: the agent is to see this text and not the value, which has times of other clocks. It lives
 * as long as the outputs. */
bool skew_show(struct step *s, struct agent *a, struct slice *text);
/* Moves back what the agent has made of such a text. False: it has seen other times than those that
 * there are, and is to be refused. */
bool skew_restore(struct step *s, struct agent *a, struct wish *wish);
/* A deadline that the agent has set, by our clock. */
int64_t skew_deadline(const struct agent *a, int64_t deadline_us);

/* --- memo.c --- */

/* It is known which node the agent is, or its clock is another one than it was taken for. */
void memo_keep(struct step *s, struct agent *a);
/* The agent is connected, and that was kept of it before a start; what is no memo says nothing. */
void memo_recall(struct step *s, struct agent *a, struct slice memo);

/* --- closing.c --- */

/* The agent sets a key of that round, which may exist already; or has read one. An agent that sets
 * its role once more takes its place in the round again. */
void closing_note_set(struct step *s, struct agent *a, int64_t round, struct slice name,
                      bool exists);
void closing_note_read(struct agent *a, int64_t round, struct slice name);
/* The agent has set a key of that round, or has added to it: its workers may have ended well. */
void closing_note_finished(struct step *s, struct agent *a, int64_t round, struct slice name);
/* The same was so before a start of the daemon. */
void closing_recall_finished(struct run *run, struct agent *a, int64_t round);
/* Once a second, since it searches all nodes: if all agents that have not finished are lost, those
 * that have finished wait for them no longer. */
void closing_on_tick(struct step *s);
/* The agent has written the state: if that has closed the run, it may have failed. */
void closing_note_failed(struct step *s, const struct agent *a);
/* Whether the run is closed, now that the agent wants that. */
enum close_verdict {
    CLOSE_COUNTS,
    CLOSE_IGNORED, /* it goes on */
    CLOSE_WAITS,   /* the same, until closing_settle() */
};
enum close_verdict closing_judge(const struct step *s, const struct agent *a);
/* CLOSE_WAITS: the agent has asked. */
void closing_keep(struct step *s, const struct agent *a);
void closing_forget(struct run *run);
/* All agents are back that come back after a start: what waits is judged. True: the run is closed.
 */
bool closing_settle(struct step *s);

/* --- cas_queue.c --- */

/* For a compare-and-set that needs the slot. True: the agent is queued, and its request is held. */
bool cas_queue_should_hold(struct step *s, struct agent *a);
/* This agent has just been answered the newest state, and is expected to write. */
void cas_queue_grant(struct step *s, struct agent *a);
/* Passes the slot to the first in the queue, whose request is shown again. */
void cas_queue_pass(struct step *s);
/* The agent has written, or asks for something else: passes the slot on if it holds it. */
void cas_queue_yield(struct step *s, const struct agent *a);
/* All who are queued go on at once. */
void cas_queue_release(struct step *s);
/* The agent no longer waits, writes or exists. */
void cas_queue_leave(struct step *s, struct agent *a);
/* Passes the slot on if the holder's time is over. `timer`: RUN_TIMER has come, and is asked for
 * again if it was early. */
void cas_queue_check_time(struct step *s, bool timer);

/* --- rejoin.c --- */

/* A new agent is counted among those of its run, or as one that comes for a closed run. */
void rejoin_enter(struct step *s, struct agent *a);
void rejoin_leave(struct step *s, struct agent *a);
/* Its held request is no more; it comes again. */
void rejoin_drop_request(struct step *s, struct agent *a);
/* One that is taken for dead is counted nowhere; and where it was before, when it is back. */
void rejoin_set_aside(struct step *s, struct agent *a);
void rejoin_take_back(struct step *s, struct agent *a);
/* True: its compare-and-set, which expects nothing, waits until the run is forgotten, or for
 * closed_run_wait_ms. */
bool rejoin_should_hold(struct step *s, struct agent *a);
/* All who came for the closed run begin the next one. */
void rejoin_release_waiting(struct step *s);
/* Those who have waited for too long learn that the run is closed. */
void rejoin_reject_overdue(struct step *s);

/* --- presence.c --- */

/* By how much a clock may be wrong that is taken for right: see skew.c. */
#define CLOCKS_US INT64_C(6000000)

/* The agent asks; `waits`: for a key, so that the reply may take long. */
void presence_heard(struct step *s, struct agent *a, bool waits);
/* No agent could ask for anything for that long: none was silent. */
void presence_stood_still(struct step *s, uint64_t still_ms);
/* Once a second: moves on the heartbeats of agents that are connected and live. */
void presence_refresh(struct step *s);
/* How long nothing has come of the node's agent, which is connected, and waits for no reply; 0: it
 * is not, or waits. */
uint64_t presence_silent_ms(const struct step *s, const struct torch_node *node);
/* A participant has a heartbeat that is too old for torch, and its agent waits for nothing. */
bool presence_misses_heartbeats(const struct step *s);
/* That node has a heartbeat that is too old for torch, by its agent's clock if it is connected. */
bool presence_is_too_old(const struct step *s, const struct torch_node *node);
/* A participant has one; the second: as of the last second; the third: it may be so by the clock of
 * an agent, or soon. */
bool presence_is_one_silent(const struct step *s);
bool presence_is_any_silent(struct step *s);
bool presence_may_one_look_silent(const struct step *s);
/* True: the agent was there before a start, its node is not, and whether it has workers is not
 * known. */
bool presence_is_stranger(const struct step *s, const struct agent *a);

/* --- loss.c --- */

/* The connection of that agent has ended, or is taken to have, and it is counted out: takes its
 * node out of the run, and tells the others. */
void loss_on_disconnect(struct step *s, struct agent *gone);
/* An agent begins with new workers in the round in which it had some: the others meet with it. */
void loss_on_rejoin(struct step *s);
/* The daemon was started again: if no agent is to come back, the mark is taken away. */
void loss_on_start(struct step *s, bool agents_return);
/* All who come back have done so: nodes whose agents are not connected are lost. */
void loss_on_restore(struct step *s);
/* Once a second: takes out the nodes that are silent for silent_node_ms, and tells the others. */
void loss_drop_silent(struct step *s);
/* Once a second: tells the others of a node that is silent for silent_restart_ms. */
void loss_on_tick(struct step *s);
/* The run has failed: the others are shown that it is closed. */
void loss_end_run(struct step *s);
/* Takes the node out, and ends the round if no participant is left, as torch does it. */
void loss_take_out(struct torch_state *state, struct torch_node *node);
/* The round is over, or the run: the mark goes that made the nodes meet again. */
void loss_clear_mark(struct step *s);

/* --- owed_keys.c --- */

/* Puts the keys for which agents wait whose round has just lost a node. */
void owed_keys_put(struct step *s);
/* Puts the keys of the exit barrier of that round that lost nodes owe those who have finished; of a
 * round before the last one, only those of torch 2.4 and later. */
void owed_keys_put_exit(struct step *s, int64_t round);

/* --- last_call.c --- */

/* Ends the last call if no node is missing. `by`: has just written; NULL: an agent has gone. */
void last_call_end(struct step *s, struct agent *by);
/* That agent has written the state, and may have set the deadline: it is put by our clock,
 * --regroup-wait may shorten it, and nodes that wait have the time to join. */
void last_call_begun(struct step *s, const struct agent *by);

/* True: in a round that has begun, agents that wait are let in if all others join, as far as it is
 * known how many nodes a round may have. */
bool last_call_may_let_in(const struct run *run);

/* --- let_in.c --- */

/* The agent has written the state: it may wait now, or no more. */
void let_in_note_wait(const struct step *s, struct agent *a);
/* rdzvd has put the agent's node on the wait list, and the agent is shown that. Once the agent asks
 * again a second or two later, it has ended its workers, and waits by its own wish from then on. */
void let_in_note_told(struct agent *a, uint64_t now_ms);
/* Its MAX is that at least. */
void let_in_note_room(struct run *run, struct agent *a, uint64_t nodes);
/* The round is open. If all agents that are connected have joined or wait, and are `wanted` at
 * least: lets those in that wait, and completes the round for `by`; NULL: for one of them. False:
 * nothing was done. */
bool let_in_waiting(struct step *s, uint64_t wanted, struct agent *by);

/* --- spares.c --- */

/* A round has just been completed: if it has MAX nodes, those who wait become spares. */
void spares_make(struct step *s);

/* --- long_look.c --- */

/* True: the agent looks, and is answered later: its look is held. */
bool long_look_should_hold(struct step *s, struct agent *a);
/* The same of one that has just written the state, if it waits: its answer is held. */
bool long_look_hold_answer(struct step *s, struct agent *a);
/* That write is shown again: true, and the agent is answered what there is by now. False: there was
 * none, or the run is gone. */
bool long_look_answer(struct step *s, struct agent *a);
/* It looks no more. */
void long_look_leave(struct run *run, struct agent *a);
/* After each event: all whose looks are held are answered if the round has become another one. */
void long_look_check(struct step *s);
/* Once a second: those are who have looked for long enough. */
void long_look_on_tick(struct step *s);

/* --- meeting.c --- */

/* True: the participants are shown that a node waits. False: it is hidden from them. */
bool meeting_is_open(const struct run *run);
/* A participant looks. True: it is answered when all of them look: its look is held. */
bool meeting_should_hold(struct step *s, struct agent *a);
/* The node that the participants are shown then; NULL: none that lives. Valid until the view
 * changes. */
const struct torch_node *meeting_waiting(const struct step *s);
/* Torch 1.13 gives up a look after read_timeout, which is 60 s by default. */
#define MEETING_HOLD_MS 45000
/* An agent that was away is back. */
void meeting_note_back(struct run *run);
/* It looks no more. To be called while the agent is in run.agents. */
void meeting_leave(struct run *run, struct agent *a);
/* After each event: the meeting begins, opens, or ends. */
void meeting_check(struct step *s);
/* Once a second: answers the looks for which there was no memory. */
void meeting_on_tick(struct step *s);

/* --- pace.c --- */

/* The agent has seen that the round is complete; has read the state; has written it. */
void pace_note_seen(const struct run *run, struct agent *a, uint64_t now_ms);
void pace_note_get(const struct run *run, struct agent *a, uint64_t now_ms);
void pace_note_write(const struct run *run, struct agent *a, uint64_t now_ms);
/* Its look is held for a meeting; and no more. */
void pace_note_held(struct agent *a, uint64_t now_ms);
void pace_note_released(struct agent *a, uint64_t now_ms);
/* The agent is back after a start: neither is known when its heartbeats come, nor how often it
 * looks. Its next look must not be held, since only the request after that one tells. */
bool pace_is_unknown(const struct agent *a);
/* The usual time between two looks; 0: not known. */
uint64_t pace_interval_ms(const struct agent *a, uint64_t now_ms);
/* The agent looks. True: it is not known how often it does, and its look is held to find out. */
bool pace_should_hold(struct step *s, struct agent *a);
/* It looks no more. */
void pace_leave(struct run *run, struct agent *a);
/* Once a second: those looks are answered. */
void pace_on_tick(struct step *s);

/* --- repair.c --- */

/* Moves heartbeats and the deadline on by the time in which no agent could write. */
void repair_shift_heartbeats(struct step *s, uint64_t still_ms);
/* After a start: makes heartbeats younger by torch's interval, since the next ones may have come,
 * and rdzvd had not put them yet (step.h) when it ended. One that was younger than that stays as it
 * is: moved on, it would keep its agent from sending the next one. What is by the clock of an agent
 * that is not back yet is put by ours. */
void repair_add_lost_beats(struct step *s, uint64_t away_ms);
/* The agent asks, so its node lives, whatever the state says. May put the state: what points into
 * the view is void then. False: its connection ends. */
bool repair_restore(struct step *s, struct agent *a);

/* --- forget.c --- */

/* The run's key is gone, is no run's any more, or will be gone when the outputs are carried out:
 * clears the view, drops its worker store, and lets everyone go on who waits. */
void forget_end_run(struct step *s);
/* Forgets the run if all agents have left it for long enough. */
bool forget_if_left(struct step *s);
/* Forgets the run now, and ends the connections of its agents. */
void forget_on_request(struct step *s);

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
/* Agent 0 is lost, and the others may wait for what it was to say. */
void worker_store_owe_place(struct step *s);
/* The agent no longer exists. */
void worker_store_leave(struct step *s, const struct agent *a);
/* Gives back the port of a run that is left, does what the space had no room for, and decides what
 * agent 0 leaves open. */
void worker_store_on_tick(struct step *s);
/* The run needs no place for workers any more. */
void worker_store_release(struct step *s);
