/* One step of the policy: what its files share while they answer one event. The event itself is not
 * part of it: it goes to whom it concerns. See policy.h. */
#pragma once

#include "rdzv/engine/clock.h"
#include "rdzv/rendezvous/events.h"

struct step {
    struct run *run;
    const struct policy_now *now;
    struct policy_out *out;

    /* What `now` said, after the commands so far. */
    struct slice value; /* of the run's key; ptr NULL: it has none */
    size_t room;
    bool is_full; /* the last command failed, since the space has no room for it */

    struct torch_state edited;            /* of step_edit() */
    struct torch_state *next;             /* `edited`; or view.state, of step_edit_node() */
    const struct torch_node *failed_node; /* of closing_note_failed(), in view.state; or NULL */
};

static inline bool step_is_open(const struct step *s)
{
    return s->run->view.is_state && !s->run->view.state.closed;
}

/* --- Outputs. --- */

/* An output that is zero but for its kind; valid until the next one. When there is no memory, it
 * goes nowhere, and the step has failed: see struct policy_out. */
struct policy_output *step_emit(struct step *s, enum policy_output_kind kind);
struct policy_output *step_agent(struct step *s, enum policy_output_kind kind, struct agent *a);

/* The agent's connection ends, for that reason, about that. */
void step_close(struct step *s, struct agent *a, const char *reason, struct slice about);

/* Memory that lives as long as the outputs; NULL when there is none. */
uint8_t *step_alloc(struct step *s, size_t len);

/* The outputs own `text`, from malloc(), from now on. False: no memory, it is freed. */
bool step_own_text(struct step *s, uint8_t *text);

/* --- Commands. Each changes the view as well, whose `before` is the state before this command: who
 * tells what has changed does so before the next one. --- */

/* False: the space has no room, nothing has changed. `value` is borrowed. */
bool step_put_value(struct step *s, struct slice value);

/* --- The state: each change is made in a copy, which is put as a whole. --- */

/* A copy of the run's state with all its heartbeats; each node is where it is in view.state. Valid
 * until it is put, or the next one is made. NULL: the run has no state, or no memory. */
struct torch_state *step_edit(struct step *s);
/* The same of another state, of which the run's state is made. */
struct torch_state *step_edit_copy(struct step *s, const struct torch_state *state);

/* Puts the copy, which was made of the value that there is and of `sent` bytes of an agent, and
 * ends it. False: no room, no memory, or its text is too long; nothing has changed. */
bool step_put_edited(struct step *s, size_t sent);

/* POLICY_PUT, POLICY_PUT_IF_ABSENT: puts that key of a round. False: no room, or no memory. */
bool step_put_round_key(struct step *s, enum policy_output_kind kind, int64_t round,
                        const char *name, struct slice value);

/* --- Late texts. A text has all nodes, so a text for each change costs the square of the nodes: if
 * 4,000 nodes join, the texts are 600 MB. A disk or an etcd falls behind, and the lease of a
 * replica ends. So the view may be ahead of the value. A change of an agent is answered after its
 * text is put (compare_set.c); a heartbeat before, since a lost one comes again. --- */

/* As step_edit(), for a change of that node and of the deadline only, which the caller makes if it
 * is not NULL. If the value has settings->late_text bytes or more, it is view.state itself, and
 * view.before is a part: the change has no text yet. `may`: false of any other change. */
struct torch_state *step_edit_node(struct step *s, const struct torch_node *node, bool may);
/* As step_put_edited(), of that, for which an agent has sent so many bytes. Up to 64 such changes,
 * or a sixteenth of the nodes if that is more, have one text, and view.late is not 0. */
bool step_put_late(struct step *s, size_t sent);
/* A node of view.state has a heartbeat; its value follows, after HEARTBEATS_MS at the latest. */
#define HEARTBEATS_MS 5000
void step_note_beat(struct step *s, const struct torch_node *node, int64_t us);
/* Puts the text, if there is room and memory: before it is shown or compared. */
void step_catch_up(struct step *s);
