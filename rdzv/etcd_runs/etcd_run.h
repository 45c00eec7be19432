/* A run of torchrun over etcd's API, as the one key tells of it that its agents change: the state
 * of `etcd-v2`, which is c10d's, or the JSON of the older `etcd`. It is shown (run_status.h), and
 * agents of `etcd-v2` meet together (etcd_meeting.c). Knows no tree, no connection and no clock.
 *
 * Upstream: torch/distributed/elastic/rendezvous/etcd_rendezvous_backend.py, etcd_rendezvous.py
 * (1.13 to 2.14). */
#pragma once

#include "rdzv/rendezvous/run_status.h"

/* A value up to this is read at once: with a request of that length, it takes as long as that. */
#define ETCD_RUN_READ_AT_ONCE (16u << 10)

/* The client that has changed a key: its address, and the address with the port. */
struct etcd_writer {
    const char *host, *peer;
};

/* Of a node of the state. */
struct etcd_member {
    char *peer; /* who wrote as that node; owned. NULL: not seen */
    int64_t joined_us;
    bool gone; /* `etcd`: its keep-alive key is not there */

    /* `etcd-v2`: see etcd_meeting.c. */
    const struct held_request *held; /* its look at the state; NULL: none is held */
    uint64_t held_ms;                /* the same: since then */
    struct agent_pace pace;          /* looked_ms, interval_ms, wrote_ms, may_beat */
};

TAILQ_HEAD(held_request_list, held_request);

/* A node is about to wait for the next round: see etcd_meeting.c. */
struct etcd_meeting {
    enum {
        ETCD_MEETING_NONE,
        ETCD_MEETING_GATHERS, /* its write is held until all participants look */
        ETCD_MEETING_WRITES,  /* the write is carried out; the looks are held until then */
    } phase;
    uint64_t until_ms; /* of that phase */
    size_t writes;     /* that are held */
    struct held_request_list requests;
};

struct etcd_run {
    struct run_view view; /* the first member; its key, the path, follows this struct. `etcd`: a
                             node's pid is its rank, its local id the version */
    enum run_backend backend;
    struct slice root; /* `etcd`: part of the path, the directory of the run */
    uint64_t modified; /* the index of the change that was read last */
    uint64_t expired;  /* the tree's, when the keep-alive keys were looked at */
    unsigned pins;     /* it is not freed before they end */

    bool is_last_call;           /* `etcd`: joinable, and so many have joined as are needed */
    bool is_confirmed;           /* `etcd`: final, so each node has a keep-alive key */
    uint64_t waiting;            /* `etcd`: nodes that wait; nothing tells which */
    struct etcd_member *members; /* of each node of view.state */
    size_t member_room;
    struct history history;
    struct etcd_meeting meeting;
};

/* Which run a path is the key of. False: of none. `etcd`: any prefix before run_ID. */
bool etcd_run_parse(struct slice path, enum run_backend *backend, struct slice *id,
                    struct slice *root);

/* `path` lives as long as the run, and is one that etcd_run_parse() has let through. */
void etcd_run_init(struct etcd_run *r, struct slice path);
void etcd_run_fini(struct etcd_run *r);

/* The key has that value now; ptr NULL: it is gone. `has_ttl`: it expires unless it is written
 * again. `by`: who has written it; NULL: not known. False: memory is short, and the value has to be
 * read again. */
bool etcd_run_update(struct etcd_run *r, struct slice value, bool has_ttl,
                     const struct etcd_writer *by, int64_t now_us);

/* `etcd`: writes the path of the keep-alive key of the i-th node into `out`, which has
 * ETCD_RUN_ROOM bytes more than the path; returns its length. */
#define ETCD_RUN_ROOM 64
size_t etcd_run_keep_alive(const struct etcd_run *r, size_t i, char *out);

/* That key is, or is not, there. */
void etcd_run_mark(struct etcd_run *r, size_t i, bool gone, int64_t now_us);

/* How it stands; borrowed until it changes. */
void etcd_run_facts(const struct etcd_run *r, uint64_t expected, int64_t now_us,
                    struct run_facts *out);
