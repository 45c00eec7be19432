/* Runs of torchrun over `etcd-v2`, by space: their state is c10d's, in a key of etcd's tree. rdzvd
 * shows them (run_facts.h), lets the nodes of a round meet, and decides their ranks.
 *
 * A run is found when its key is written. The value is read then if that is quick; otherwise once a
 * second, and when the status is asked for. If memory is short (ACCOUNT_RUNS), a run is not shown.
 *
 * The files: etcd_run.c reads the value of one run, etcd_meeting.c lets the nodes of a round meet,
 * etcd_runs.c keeps all runs. With --elastic-fixes=off none of this runs.
 *
 * Upstream: torch/distributed/elastic/rendezvous/etcd_rendezvous_backend.py (1.13 to 2.14). */
#pragma once

#include "rdzv/config/elastic_settings.h"
#include "rdzv/http/reply.h"
#include "rdzv/rendezvous/run_facts.h"

#define ETCD_RUN_PREFIX "/torch/elastic/rendezvous/" /* of their keys; R follows */

/* A value up to this is read at once: with a request of that length, it takes as long as that. */
#define ETCD_RUN_READ_AT_ONCE (16u << 10)

struct etcd_rendezvous {
    const struct policy_settings *settings;
    struct engine *engine;
    const struct net *net; /* knows the client whose request is carried out */
    struct key_gate gate;
    uint8_t *text; /* the last value with our ranks; NULL: none */
};

/* Of one space, made when a key concerns it first. */
struct etcd_runs {
    const struct etcd_rendezvous *home;
    const struct tree *tree; /* of the space */
    struct run_views views;  /* each of an etcd_run, in order of discovery */
    struct etcd_run *next;   /* pinned: the next tick goes on with it. NULL: with the first */
};

/* Of a node of the state. */
struct etcd_member {
    char peer[CONN_PEER_MAX]; /* the client that wrote as that node; "": not seen */
    int64_t joined_us;        /* since 1970; 0: not seen */

    /* See etcd_meeting.c. */
    const struct held_request *held; /* its read of the state; NULL: none is held */
    uint64_t held_ms;                /* the same: since then */
    struct agent_pace pace;          /* polled_ms, interval_ms, wrote_ms, may_beat */
};

TAILQ_HEAD(held_request_list, held_request);

/* A node is about to wait for the next round: see etcd_meeting.c. */
struct etcd_meeting {
    enum {
        ETCD_MEETING_NONE,
        ETCD_MEETING_GATHERS, /* its write is held until all participants poll */
        ETCD_MEETING_WRITES,  /* the write is carried out; the polls are held until then */
    } phase;
    uint64_t until_ms; /* of that phase */
    size_t writes;     /* that are held */
    struct held_request_list requests;
};

struct etcd_run {
    struct run_view view; /* the first member; its key, the path, follows this struct */
    struct etcd_runs *runs;
    uint64_t modified;           /* the index of the change that was read last */
    uint64_t changed_ms;         /* when that was read; monotonic */
    struct etcd_member *members; /* of each node of view.state */
    size_t member_count;
    struct history history;
    struct etcd_meeting meeting;
};

static inline struct etcd_run *etcd_run_of(const struct run_view *v)
{
    return (struct etcd_run *)(uintptr_t)v; /* its first member */
}

/* --- etcd_run.c --- */

/* True for the key of a run. It is asked of each change of a tree. */
static inline bool etcd_run_is_key(struct slice path)
{
    return path.len >= sizeof ETCD_RUN_PREFIX &&
           memcmp(path.ptr, ETCD_RUN_PREFIX, sizeof ETCD_RUN_PREFIX - 1) == 0;
}

/* `path` is such a key, and lives as long as the run. */
void etcd_run_init(struct etcd_run *r, struct slice path);
void etcd_run_fini(struct etcd_run *r);

/* The key has that value now; ptr NULL: it is gone. `by`: the client that has written it; NULL: not
 * known. False: memory is short, and the value has to be read again. */
bool etcd_run_update(struct etcd_run *r, struct slice value, const char *by, int64_t now_us);

/* How the run stands; borrowed until it changes. */
void etcd_run_facts(const struct etcd_run *r, uint64_t expected, int64_t now_us,
                    struct run_facts *out);

/* --- etcd_runs.c --- */

/* All three outlive it. Observes the engine's trees. */
void etcd_runs_init(struct etcd_rendezvous *r, const struct policy_settings *settings,
                    struct engine *engine, const struct net *net);
void etcd_runs_fini(struct etcd_rendezvous *r);

/* What holds requests of agents. NULL with --elastic-fixes=off. */
const struct key_gate *etcd_runs_key_gate(const struct etcd_rendezvous *r);

/* The store has come from a data directory. */
void etcd_runs_restore(struct etcd_rendezvous *r);

/* Once a second. */
void etcd_runs_tick(struct etcd_rendezvous *r);

/* The run of a space behind `v`; NULL: the first one. Returns NULL: no more. */
struct run_view *etcd_runs_next(const struct engine_space *space, const struct run_view *v);

/* Deletes the key of the run R, or its directory of torch's backend `etcd`, so that agents may
 * begin it anew. False: there is none. */
bool etcd_runs_forget(struct engine *engine, struct engine_space *space, struct slice id);

/* The run is pinned no more: frees it if it has ended, and nothing else pins it. */
void etcd_runs_unpin(struct run_view *v);

/* How the run stands now; borrowed until it changes. False: its key is gone. */
bool etcd_runs_facts(struct run_view *v, struct run_facts *out);

/* --- etcd_meeting.c: the nodes of a round end their workers together. --- */

/* The request reads the key of the run, if the pointer of `value` is NULL. Otherwise it replaces
 * the value of index `prev_index` by `value`. True: a job has been started for it (http/session.h),
 * which handles it again later, and has pinned the run until then. */
bool etcd_meeting_holds(struct etcd_run *run, const struct http_request *r, struct slice value,
                        uint64_t prev_index);

/* The run has changed, or a second has passed. */
void etcd_meeting_check(struct etcd_run *run);
