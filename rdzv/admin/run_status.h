/* The status of a run: its state, its missing nodes with the reason of each, and a hint for the
 * operator. A function of what its keys tell and of what rdzvd has seen, over c10d and etcd-v2. */
#pragma once

#include "rdzv/rendezvous/run_facts.h"

/* The names of enum run_backend. */
extern const char *const run_backend_names[];

enum run_state {
    RUN_EMPTY,
    RUN_JOINING,
    RUN_LAST_CALL,
    RUN_COMPLETE,
    RUN_FAILED,
    RUN_CLOSED,
    RUN_LEFT, /* open, without an agent, and none is awaited */
    RUN_STATES
};

extern const char *const run_state_names[RUN_STATES];

enum run_state run_status_state(const struct run_facts *f);
/* Since when; 0: not known. */
int64_t run_status_since_us(const struct run_facts *f);
/* The time that the run has spent with it until now, or until its last agent left. */
int64_t run_status_spent_us(const struct run_facts *f, enum goodput_part part);

/* A node of the state that has not been heard of for as long as torch waits. */
bool run_status_is_silent(const struct run_facts *f, const struct torch_node *node);

/* A node of the state that counts: not the mark of rdzvd; in a failed run, only one whose agent has
 * not ended. */
bool run_status_counts(const struct run_facts *f, const struct torch_node *node);

#define MISSING_LISTED 256 /* nodes of one list */

struct missing_node {
    const struct torch_node *node; /* of the state, or of a completed round */
    bool has_rank;
    const char *why;  /* "disconnected", "silent", "replaced", "left" */
    const char *peer; /* NULL: not known */
    int64_t since_us; /* 0: not known */
};

struct missing_list {
    struct missing_node nodes[MISSING_LISTED];
    uint64_t count; /* also of those that are not listed */
};

/* Everything is borrowed from the facts. */
struct run_survey {
    uint64_t nodes;                         /* in any list */
    uint64_t participants, waiting, spares; /* of them, without those that are silent */
    uint64_t silent;
    uint64_t missing_count; /* the nodes in `missing`, or the number by which the run falls short of
                               --expect or MIN */
    struct missing_list missing; /* nodes that were there and are gone */
    struct missing_list gone;    /* nodes that nobody waits for: the run goes on */
};

/* Who came in the place of a node that is gone, at the same address, makes up for it. Of those
 * without which the last round was completed, so many are missing as the run is short of what is
 * expected; without the others it goes on. */
void run_status_survey(const struct run_facts *f, struct run_survey *out);

/* Sentences about what looks wrong, for one run. */
#define HINTS_MAX     6
#define HINT_TEXT_MAX 640

struct hints {
    char texts[HINTS_MAX][HINT_TEXT_MAX];
    size_t count;
};

/* Adds a sentence, if there is room. */
__attribute__((format(printf, 2, 3))) void run_status_hint(struct hints *h, const char *format,
                                                           ...);

/* About the run itself. */
void run_status_hints(const struct run_facts *f, const struct run_survey *survey, struct hints *h);
