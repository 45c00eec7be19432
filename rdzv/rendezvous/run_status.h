/* The status of a run: its state, its missing nodes with the reason of each, and a hint for the
 * operator. A function of what its keys tell and of what rdzvd has seen, for all three backends of
 * torchrun; it knows no connection and no clock. */
#pragma once

#include "rdzv/rendezvous/history.h"

enum run_backend {
    BACKEND_C10D,
    BACKEND_ETCD_V2,
    BACKEND_ETCD, /* names no nodes: the address is the one that the node came from, empty if that
                     was not seen; the pid is the rank, and the local id the round */
};

#define STATUS_PEER_MAX 160

/* What is known of a node beside the run's keys. */
struct node_facts {
    bool connected;    /* c10d: it has an open connection */
    bool gone;         /* etcd: it has let its keep-alive key expire */
    int64_t joined_us; /* since 1970; 0: not seen */
    int64_t ahead_us;  /* its clock, compared with ours */
};

struct run_facts {
    enum run_backend backend;
    const struct run_view *view;
    const struct history *history;
    int64_t now_us;
    bool is_last_call;        /* etcd: the last call has begun; its end is unknown */
    bool failed;              /* c10d: it is closed, since workers of a node have failed */
    bool ends_failed;         /* the same: then rdzvd makes the others end */
    uint64_t unnamed_waiting; /* etcd: nodes that wait; the state does not have them */
    uint64_t expected;        /* --expect; 0: unknown */
    size_t agents;            /* c10d: connections */
    size_t agents_waiting;    /* those who came when it was closed */
    size_t agents_unnamed;    /* c10d: agents back after a start, with an unknown node */
    uint64_t awaited_ms;      /* c10d: others may come back after a start for so long; 0: none */
    const struct torch_node *doubled;   /* c10d: two agents are there as this node; NULL: none */
    char doubled_peer[STATUS_PEER_MAX]; /* the one that node->peer is not */
    struct node_facts (*look)(const struct run_facts *f, const struct torch_node *node);
    /* Who writes as that node; NULL: not known. */
    const char *(*peer)(const struct run_facts *f, const struct torch_node *node,
                        char text[STATUS_PEER_MAX]);
    const void *arg; /* for these two */
};

/* "empty", "joining", "last_call", "complete", "failed", "closed"; and since when, 0: not known. */
const char *run_status_name(const struct run_facts *f);
int64_t run_status_since_us(const struct run_facts *f);

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
    size_t listed;
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

/* Sentences about what looks wrong. Returns how many. */
#define HINTS_MAX     6
#define HINT_TEXT_MAX 640
size_t run_status_hints(const struct run_facts *f, const struct run_survey *survey,
                        char hints[HINTS_MAX][HINT_TEXT_MAX]);
