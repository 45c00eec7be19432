/* A run, its agents and the space it is in, with a clock in hand: what the tests of the policy
 * share. Commands are carried out here as the daemon does it, and after each step the view is
 * compared with one that is made anew from the keys. */
#pragma once

#include "rdzv/rendezvous/explain.h"
#include "rdzv/rendezvous/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define COUNT(a)    (sizeof(a) / sizeof *(a))
#define SCENE_KEYS  32
#define SCENE_NAMES 512
#define SECOND      INT64_C(1000000)

struct scene_memo {
    uint8_t bytes[1280];
    size_t len; /* 0: none */
};

struct scene {
    struct run run;
    struct policy_settings settings;
    struct policy_now now;
    size_t room;
    enum port_share share;
    uint64_t next_worker_store;
    struct policy_out out; /* of the last step */

    struct {
        char *key; /* NULL: unused */
        char *value;
    } keys[SCENE_KEYS];
    bool has_record;
    struct view_record record;        /* as the commands say; its address is owned */
    struct slice ranks;               /* as the commands say; owned */
    uint64_t open_stores[SCENE_KEYS]; /* worker stores; 0: unused */

    struct agent agents[SCENE_NAMES]; /* all are behind relays */
    struct scene_memo memos[SCENE_NAMES];
    size_t agent_count;
    bool has_long_polls; /* else looks that wait for the next round are answered at once */
};

extern const struct policy_settings scene_settings; /* as the daemon has them by default */

/* A run "job" that does not exist yet, an hour after the clock began. */
void scene_init(struct scene *s);
/* Disconnects all agents who are still connected. */
void scene_fini(struct scene *s);
/* The end of one scene, and the beginning of the next one in the same test. */
void scene_renew(struct scene *s);

/* A test with a scene of its own, to which *state points: scene_init() comes before it, and
 * scene_fini() behind it. */
#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)
int scene_set_up(void **state);
int scene_tear_down(void **state);

void scene_pass(struct scene *s, uint64_t ms);
/* The same of time in which no agent could write. */
void scene_stand_still(struct scene *s, uint64_t ms);
int64_t scene_now_us(const struct scene *s);

/* --- Events. Each returns after its commands are carried out. --- */

void scene_step(struct scene *s, struct policy_event event);
void scene_event(struct scene *s, enum policy_event_kind kind, struct agent *a);
struct agent *scene_connect(struct scene *s, bool pings);
void scene_disconnect(struct scene *s, struct agent *a);

/* The daemon ends, and begins again with the keys and records that it had. */
void scene_restart(struct scene *s, bool agents_return);
/* An agent that its relay brings back then, with the memo that it had. NULL: with none. */
struct agent *scene_return(struct scene *s, const struct agent *was);

/* A compare-and-set of the run's key. What the agent is answered; NULL: it is held or closed. */
const char *scene_cas(struct scene *s, struct agent *a, const char *expected, const char *desired);

/* A GET of the run's key, as the daemon serves it: what the agent is shown. NULL: it is held
 * for a closed run. */
const char *scene_poll(struct scene *s, struct agent *a);

/* SET of a key of the round. True: it was swallowed. */
bool scene_set(struct scene *s, struct agent *a, int64_t round, const char *name,
               const char *value);
/* The role of that agent, which torch sets before it reads its ranks. */
void scene_set_role(struct scene *s, size_t i, int64_t round);

/* --- What there is. --- */

/* The value of a key, "" for the run's own, or of a round: ".0/MASTER_ADDR". NULL: there is none.
 */
const char *scene_get(const struct scene *s, const char *rest);
void scene_put(struct scene *s, const char *rest, const char *value);

/* The key of the run has another value, as if by a tool. The second: of that state, which is freed.
 */
void scene_change(struct scene *s, const char *value);
void scene_put_state(struct scene *s, struct torch_state *state);

/* The state that there is; freed by the caller. */
struct torch_state scene_state_now(const struct scene *s);
size_t scene_participants(const struct scene *s);
/* Nodes of the wait list; the mark is one of them. */
size_t scene_waiting_nodes(const struct scene *s);

/* The node in the state that there is; zeros: it is not there. */
struct torch_node scene_node_now(const struct scene *s, const char *name);

/* How many outputs of that kind the last step had, and the first of them; NULL: none. */
size_t scene_count(const struct scene *s, enum policy_output_kind kind);
const struct policy_output *scene_output(const struct scene *s, enum policy_output_kind kind);
/* The first note of that kind; NULL: none. */
const struct note *scene_note(const struct scene *s, enum note_kind kind);
/* True: the last step had this output for this agent. */
bool scene_has(const struct scene *s, enum policy_output_kind kind, const struct agent *a);

/* --- States. --- */

#define SENTINEL "Y2FuaW1hZGFt"

/* Of a text; the sentinel and NULL give an empty one. Freed by the caller. */
struct torch_state scene_state(const char *text);
/* Its text, and the state is freed. Freed by scene_fini(). */
const char *scene_text(struct scene *s, struct torch_state *state);

/* A copy, freed by scene_fini(). */
const char *scene_copy(const char *text);

/* The present value with `nodes` more nodes, in a text that torch's writer would not produce:
 * rdzvd's own text has about four bytes more for each node. The new nodes share an address that
 * torch's writer would put last; here it comes first and has a number of one byte. */
const char *scene_terse(struct scene *s, size_t nodes);

/* The node in the state, put there if need be. */
struct torch_node *scene_node(struct torch_state *state, const char *name);
void scene_beat(struct torch_state *state, const char *name, int64_t at_us);
/* The agent sends a heartbeat of that node, and so says which one it is. */
void scene_say_node(struct scene *s, struct agent *a, const char *name);
void scene_remove(struct torch_state *state, const char *name);
void scene_complete(struct torch_state *state);
struct torch_state scene_with_deadline(struct torch_state state, int64_t us);

/* The state of that text has that node. */
bool scene_names(const char *text, const char *name);

/* --- What an agent writes that has read that value, with its heartbeat now. --- */

const char *scene_joined(struct scene *s, const char *value, const char *name);
/* The same, as the last of the round, which it completes. */
const char *scene_completed(struct scene *s, const char *value, const char *name);
const char *scene_waiting(struct scene *s, const char *value, const char *name);
const char *scene_beating(struct scene *s, const char *value, const char *name);
/* Without one; with torch's epilogue. */
const char *scene_leaving(struct scene *s, const char *value, const char *name);
const char *scene_closing(struct scene *s, const char *value);

/* --- Rounds. --- */

/* Agents "a", "b", … who have completed round 0; those of agents[] from `first` on. */
void scene_meet(struct scene *s, size_t count);
/* All participants leave the round, which begins the next one, and join it; it is completed. */
void scene_next_round(struct scene *s, size_t count);
/* So many agents, who have introduced themselves; "a" and "b" have joined. Two nodes are a crowd.
 */
void scene_begin_crowd(struct scene *s, size_t count);

/* That agent leaves the round, as it does once it knows that a node waits; and it joins the next
 * one, in which it begins a last call of SCENE_CALL if it is the first: MIN is 1. The second
 * returns what the agent is answered. */
#define SCENE_CALL (30 * SECOND)
void scene_leave(struct scene *s, size_t i);
const char *scene_join(struct scene *s, size_t i);

/* The workers of that agent have ended well: it goes to the exit barrier of torch 2.4 and later. */
void scene_finish(struct scene *s, size_t i);

const char *scene_name(size_t i);
