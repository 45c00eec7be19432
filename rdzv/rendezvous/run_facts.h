/* How a run stands, as its keys tell and as rdzvd has seen it, over c10d and etcd-v2. The status
 * follows from this alone: rdzv/admin/run_status.c. */
#pragma once

#include "rdzv/net/conn.h"
#include "rdzv/rendezvous/history.h"

/* What is known of a node beside the run's keys. */
struct node_facts {
    bool connected;          /* c10d: it has an open connection */
    bool lives;              /* c10d: it has sent a request of late, or waits for a reply */
    const struct conn *conn; /* that one; NULL: none */
    const char *peer;        /* etcd-v2: the client that writes as that node; NULL: not seen */
    int64_t joined_us;       /* since 1970; 0: not seen */
    int64_t ahead_us;        /* its clock, compared with ours */
};

struct run_facts {
    const struct run_view *view;
    const struct run *run; /* c10d: of that view; NULL: over etcd-v2 */
    const struct history *history;
    const struct policy_settings *settings; /* NULL: nothing of the ranks is known */
    int64_t now_us;
    uint64_t lived_ms;     /* c10d: the clock of agent.heard_ms */
    int64_t left_us;       /* c10d: since then no agent is connected; 0: not known, or one is */
    uint64_t expected;     /* --expect; 0: unknown */
    size_t agents_unnamed; /* c10d: agents back after a start, with an unknown node */
    uint64_t awaited_ms;   /* c10d: others may come back after a start for so long; 0: none */
    const struct torch_node *doubled; /* c10d: two agents are there as this node; NULL: none */
    char doubled_peers[2][CONN_PEER_MAX];
    const struct agent *elsewhere; /* c10d: it did not come to the address that its workers get;
                                      NULL: none is known */
    struct node_facts (*look)(const struct run_facts *f, const struct torch_node *node);
};
