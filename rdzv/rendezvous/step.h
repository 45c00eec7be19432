/* One step of the policy: what its files share while they answer one event. See policy.h. */
#pragma once

#include "rdzv/rendezvous/policy.h"

struct step {
    struct run *run;
    const struct policy_event *event;
    const struct policy_now *now;
    struct policy_out *out;

    struct slice value; /* of the run's key, after the commands so far; ptr NULL: it has none */
    size_t room;        /* the same of the space */

    /* The two states of an AGENT_COMPARE_SET, read when they are first asked for. */
    struct torch_state expected, desired;
    enum { STATE_UNREAD, STATE_READ, STATE_NONE } expected_read, desired_read;
};

/* NULL: not a state. The expected one is borrowed until the next command. */
const struct torch_state *step_expected(struct step *s);
struct torch_state *step_desired(struct step *s);

static inline bool step_is_open(const struct step *s)
{
    return s->run->view.is_state && !s->run->view.state.closed;
}

/* Microseconds since 1970 by the clock of that agent. False: out of range. */
bool step_agent_time(const struct step *s, const struct agent *a, int64_t *us);

/* --- Outputs. --- */

struct policy_output *step_emit(struct step *s, enum policy_output_kind kind);
void step_answer(struct step *s, enum policy_output_kind kind);
void step_agent(struct step *s, enum policy_output_kind kind, struct agent *a);

/* Memory that lives as long as the outputs; NULL when there is none. */
uint8_t *step_alloc(struct step *s, size_t len);
/* The outputs own `text`, from malloc(), from now on. */
void step_own(struct step *s, uint8_t *text);

/* --- Commands. Each changes the view as well. --- */

/* False: the space has no room, nothing has changed. `value` is borrowed. */
bool step_put_value(struct step *s, struct slice value);

/* Puts the text of a state. False: no room or no memory, nothing has changed. */
bool step_put_state(struct step *s, const struct torch_state *next);

/* A copy of the run's state, to be changed and put. False: it has none, or no memory. */
bool step_read_state(const struct step *s, struct torch_state *out);

/* The run has no key any more, or will have none. Releases all that depends on it. */
void step_end_run(struct step *s);

/* --- cas_queue.c --- */

void cas_queue_init(struct write_slot *slot);
/* True: this compare-and-set waits for its turn. */
bool cas_queue_should_defer(struct step *s);
/* This agent has just been answered the newest state, and is expected to write. */
void cas_queue_grant(struct step *s, struct agent *a);
/* To the first in the queue, whose request is shown again. */
void cas_queue_pass(struct step *s);
/* All who are queued go on at once. */
void cas_queue_release(struct step *s);
/* The agent no longer waits, writes or exists. */
void cas_queue_leave(struct step *s, struct agent *a);

/* --- rejoin.c --- */

/* A new agent is counted among those of its run, or as one that comes for a closed run. */
void rejoin_enter(struct step *s, struct agent *a);
void rejoin_leave(struct step *s, struct agent *a);
/* True: this request waits until the run is forgotten, or for closed_run_wait_ms. */
bool rejoin_should_defer(struct step *s);
/* All who came for the closed run begin the next one. */
void rejoin_release_waiting(struct step *s);
/* Those who have waited for too long learn that the run is closed. */
void rejoin_reject_overdue(struct step *s);

/* --- repair.c --- */

/* Moves heartbeats and the deadline on by the time in which no agent could write. */
void repair_shift_heartbeats(struct step *s, uint64_t stalled_ms);
/* The agent asks, so its node lives, whatever the state says. False: its connection ends. */
bool repair_restore(struct step *s, struct agent *a);

/* --- worker_store.c --- */

/* A round has been completed by that agent. */
void worker_store_on_completed(struct step *s, struct agent *by);
/* Answers AGENT_SET_ROUND_KEY. */
void worker_store_intercept_set(struct step *s);
void worker_store_on_probed(struct step *s);
void worker_store_on_port_opened(struct step *s);
/* Does what the space had no room for. */
void worker_store_retry(struct step *s);
/* The run needs no place for workers any more. */
void worker_store_release(struct step *s);
void worker_store_fini(struct worker_endpoint *e);
