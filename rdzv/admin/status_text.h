/* The text of /rdzv/v1/status, written in slices: with many runs it takes long, and runs come and
 * go meanwhile. Each run is written as it is at one moment. */
#pragma once

#include "rdzv/admin/status_run.h"
#include "rdzv/http/body.h"
#include "rdzv/rendezvous/rendezvous.h"

/* What is written. */
struct status_scope {
    const struct net *net;
    const struct engine_space *space; /* one; NULL: all */
    bool is_single;                   /* the space alone, and not the daemon with it */
    bool has_requests;                /* those of the daemon are counted, see access.h */
    struct status_form form;
};

enum status_phase {
    STATUS_SPACE_BEGINS,
    STATUS_RUNS,
    STATUS_ETCD_RUNS,
    STATUS_SPACE_ENDS,
    STATUS_WRITTEN,
};

/* Stays where it is. */
struct status_text {
    struct status_scope scope;
    enum status_phase phase;
    const struct engine_space *at; /* the space that is being written */
    const struct run *run;         /* the next one; pinned. NULL: none */
    struct etcd_run *etcd_run;     /* the same */
    bool any_run;
    size_t nodes_left, runs_left; /* so many more are written */
    uint64_t runs_left_out;       /* of the space */
    size_t head_len;              /* what changes each time is before that */
    struct reply_body body;
};

void status_text_begin(struct status_text *t, const struct status_scope *scope);

/* Goes on for about that long. True: all is written, in t->body. */
bool status_text_go_on(struct status_text *t, uint64_t ns);

/* Ends it, whole or not; the body is the caller's to send or to drop. */
void status_text_end(struct status_text *t);

/* ,"keys":…,"bytes":… and so on of a space: what changes all the time. */
void status_write_counters(struct writer *w, const struct engine_space *space);
