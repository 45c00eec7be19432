/* The history of a run: when each round began, was complete and ended, and why, in plain words; and
 * its lost nodes. It is made of the notes of the policy (explain.h) or of etcd's keys (etcd_run.c).
 * Bounded, counted as ACCOUNT_RUNS, and in memory only: a start of rdzvd forgets it, except
 * `goodput` of runs over c10d, which the store keeps. */
#pragma once

#include "rdzv/engine/stats.h"
#include "rdzv/rendezvous/run.h"

struct note;

/* --- Goodput: how long the workers of a run have trained, and how long its nodes have waited, and
 * for what. A run trains from the moment at which a round is complete to the first sign that this
 * round will not last: the loss of a node, a node that leaves or asks for a place, an order, the
 * end. So the start of the workers counts as training, and also work that is lost with a round,
 * since the store does not know when a job has saved its state. --- */

enum goodput_part {
    GOODPUT_TRAINS,
    GOODPUT_FIRST,    /* the run waits for its first nodes */
    GOODPUT_LOST,     /* it waits since a node was lost */
    GOODPUT_LEFT,     /* since a node left its round: after workers failed, in most cases */
    GOODPUT_NEWCOMER, /* since the others meet to admit a node */
    GOODPUT_ORDER,    /* since an operator wants it */
    GOODPUT_STORE,    /* since nodes did not come back after a start of rdzvd */
    GOODPUT_PARTS,
};

/* As status has them: "training", "first_nodes"... */
extern const char *const goodput_names[GOODPUT_PARTS];

/* Begins as zeros. Times are microseconds, moments since 1970. */
struct goodput {
    int64_t us[GOODPUT_PARTS];    /* spent before since_us */
    int64_t times[GOODPUT_PARTS]; /* so often it has begun */
    int64_t since_us;             /* `now` began; 0: no part goes on */
    enum goodput_part now;
    bool is_unsaved; /* it has changed since goodput_save() */
};

/* This part begins. A wait goes on under its first cause. */
void goodput_enter(struct goodput *g, enum goodput_part part, int64_t now_us);
/* The run has ended. */
void goodput_end(struct goodput *g, int64_t now_us);
/* Nothing was there of the run between these moments, so this time is none of its parts. */
void goodput_skip(struct goodput *g, int64_t from_us, int64_t to_us);

/* Spent with it until now. */
int64_t goodput_spent_us(const struct goodput *g, enum goodput_part part, int64_t now_us);

#define GOODPUT_TEXT_MAX 384 /* bytes, with the end */

/* All of it as a text, and back. A text of another kind is ignored. */
void goodput_save(struct goodput *g, char text[GOODPUT_TEXT_MAX]);
void goodput_load(struct goodput *g, struct slice text);

/* --- History. --- */

#define HISTORY_ROUNDS   100 /* the last ones */
#define HISTORY_LOSSES   256 /* the same, of nodes that were lost */
#define HISTORY_TEXT_MAX 512 /* bytes of a reason, with its end */

/* Times are microseconds since 1970; 0: not yet, or rdzvd has not seen it. */
struct history_round {
    TAILQ_ENTRY(history_round) entry;
    int64_t round;
    int64_t began_us, completed_us, ended_us; /* began_us 0: rdzvd was started in this round, at
                                                 completed_us */
    uint64_t nodes;                           /* participants when it was completed */
    char *why;    /* why it ended, or is about to; owned. NULL: nothing has happened to it */
    char *left;   /* `why` is only that this node left, so what comes next may tell more; owned */
    char *failed; /* the node whose agent left first after a worker had failed; owned. NULL: none */
    char *first_at;      /* " on HOST (pid N)", of the worker whose connection ended first shortly
                            before `why`; owned. NULL: not known */
    uint32_t first_rank; /* its rank */
    int64_t first_us;    /* its end */
    char *later_ends;    /* those of workers and agents behind it, in words; owned. NULL: none */
    bool is_logged;      /* the first failure */
    uint64_t progress;   /* the highest rdzvd/progress that workers have set; 0: none is new */
    enum goodput_part cause; /* the wait behind it; GOODPUT_TRAINS: it was never complete, or the
                                run ended with it */
};

/* How a node was lost. */
enum loss_kind {
    LOSS_DISCONNECTED, /* its connection ended */
    LOSS_SILENT,       /* nothing came of it for too long */
    LOSS_REPLACED,     /* it was started again under the same name */
    LOSS_LEFT,         /* over etcd-v2: it left by itself, as a node does between two rounds */
};

struct history_loss {
    TAILQ_ENTRY(history_loss) entry;
    int64_t at_us;
    int64_t silent_us; /* before that, nothing came of it for so long */
    enum loss_kind kind;
    const char *peer; /* whom it was connected as, behind `node`; NULL: not known */
    char node[];      /* "host/pid/local id" */
};

/* Begins as zeros. The newest is the first. */
struct history {
    struct stats *stats; /* where complete rounds are counted; NULL: nowhere */
    TAILQ_HEAD(history_rounds, history_round) rounds;
    size_t count;
    TAILQ_HEAD(history_losses, history_loss) losses;
    size_t loss_count;
    uint64_t min, max;  /* nodes that torchrun was started for, as rounds have shown; 0: unknown */
    bool had_last_call; /* the newest round has had one */
    bool was_complete;  /* a round has been complete */
    char *failed;       /* the node whose workers have failed for the last time; owned */
    int64_t began_us;   /* the run did; 0: not seen */
    char *dumped;       /* an operator has asked the workers of the newest round for flight records,
                           in words; owned. NULL: not */
    int64_t known_us;   /* the run was there before; since then it is seen. 0: from its begin on */
    struct goodput goodput;
    bool is_unjudged;  /* a failure has ended a round: run_rules.c of admin/ */
    char *stop;        /* by a rule, the run must be closed, why; owned */
    char *cordon;      /* the same: this host must be cordoned; owned */
    int64_t struck_us; /* that was so last: failures before it are no strikes */
    uint64_t progress; /* the highest of all rounds */
    uint64_t vain;     /* failures in a row without progress, as run_rules.c counts them */
    int64_t fault_us;  /* since then it lacks a node that it had; 0: it does not */
};

void history_fini(struct history *h);
void history_drop_text(char **text); /* an owned one; NULL after that */

/* The newest round, if it is complete and goes on; else NULL. */
struct history_round *history_standing(const struct history *h);

/* The run is in that round now. If it is not the newest, that has ended. */
void history_reach(struct history *h, int64_t round, int64_t now_us);

/* A complete round of so many nodes goes on at the start of rdzvd. */
void history_resume(struct history *h, int64_t round, uint64_t nodes, int64_t now_us);

/* The newest round is complete; `reached_max`: by the node that made it so many as it may have. */
void history_complete(struct history *h, uint64_t nodes, bool reached_max, int64_t now_us);

/* The newest round has a last call, since so many have joined. */
void history_last_call(struct history *h, uint64_t nodes);

/* Why the newest round, if it is complete, is not going to last. */
enum history_reason {
    REASON_FIRST, /* unless a reason is known already */
    REASON_ALSO,  /* beside any other reason */
};
__attribute__((format(printf, 3, 4))) void
history_add_reason(struct history *h, enum history_reason which, const char *format, ...);

/* The newest round has ended, with the run; `why` may be NULL. */
void history_end(struct history *h, const char *why, int64_t now_us);

/* Workers of the newest round write flight records, and end within minutes: the end of the round
 * has this reason. `order`: ": REASON (BY)". */
void history_dump(struct history *h, const char *order);

/* A node has left by itself; it has joined. `node` is "host/pid/local id". */
void history_leave(struct history *h, const char *node, int64_t now_us);
void history_join(struct history *h, const char *node, bool waits, int64_t now_us);

/* The connection of a worker has ended. If the worker has failed, its agent leaves the round within
 * HISTORY_FIRST_US: before torch 2.4 it polls its workers each 5 s. */
#define HISTORY_FIRST_US INT64_C(10000000)
void history_end_worker(struct history *h, uint32_t rank, const char *at, int64_t now_us);
/* False: the ends of further workers are not kept. */
bool history_takes_end(const struct history_round *r, int64_t now_us);

/* The host whose worker failed first in the round; len 0: not known. */
struct slice history_first_host(const struct history_round *r);

/* A worker that failed, or the loss of a node, has ended the complete round. */
static inline bool history_is_failure(const struct history_round *r)
{
    return r->cause == GOODPUT_LEFT || r->cause == GOODPUT_LOST;
}

/* Which worker's end was the first, `why`, and what followed. */
#define HISTORY_WHY_MAX (4 * HISTORY_TEXT_MAX)
const char *history_why(const struct history_round *r, const char *why, char text[HISTORY_WHY_MAX]);

/* A node was lost. `peer` may be NULL. */
void history_lose(struct history *h, const char *node, enum loss_kind kind, const char *peer,
                  int64_t now_us);

/* A note of the policy about that run. `peer`: of the agent that it is about; may be NULL. */
void history_note(struct history *h, const struct run *run, const struct note *note,
                  const char *peer, int64_t now_us);

/* The last loss of that node; NULL: none is known. */
const struct history_loss *history_find_loss(const struct history *h, const struct torch_node *who);
