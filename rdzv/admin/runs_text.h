/* The text of /rdzv/v1/spaces/NAME/runs, written in slices: a job of 10,000 nodes takes longer than
 * one may take of an iteration. Each run is written as it was when its turn came, and its
 * connections as they are. */
#pragma once

#include "rdzv/http/body.h"
#include "rdzv/rendezvous/rendezvous.h"

enum runs_phase { RUNS_RUN, RUNS_NODES, RUNS_MISSING, RUNS_WRITTEN };

/* Stays where it is. */
struct runs_text {
    bool is_single; /* one run alone, without the list around it */
    enum runs_phase phase;
    const struct run *run;                    /* the one that is written; pinned. NULL: none */
    struct torch_state state, last_completed; /* copies of its own */
    bool has_completed;
    size_t next; /* of the nodes of one of them */
    bool any;    /* a run, or a node of the list that is written, is there */
    bool no_memory;
    struct reply_body body;
};

/* All runs of that space. */
void runs_text_begin(struct runs_text *t, const struct engine_space *space);
/* That run. */
void runs_text_begin_one(struct runs_text *t, const struct run *run);

/* Goes on for about that long. True: all is written, in t->body, or memory was short for it. */
bool runs_text_go_on(struct runs_text *t, const struct clock *clock, uint64_t ns);

/* Ends it, whole or not; the body is the caller's to send or to drop. */
void runs_text_end(struct runs_text *t);
