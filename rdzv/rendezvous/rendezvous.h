/* Elastic jobs: what rdzvd does for torch's rendezvous beyond keeping its keys. policy.h decides
 * it; here is what connects the policy to sessions, to the store and to the loop.
 *
 * With --elastic-fixes=off none of this runs: no session is bound, and every key is plain. */
#pragma once

#include "rdzv/rendezvous/driver.h"
#include "rdzv/rendezvous/run_facts.h"

/* All three outlive it. Observes the engine. */
void rendezvous_init(struct rendezvous *r, const struct config *config, struct engine *engine,
                     struct net *net);

/* Once the listeners are there: makes the rendezvous part of each space, while there is memory. */
void rendezvous_add_spaces(struct rendezvous *r);

/* The store has come from a data directory, and no agent could write for that long. */
void rendezvous_restore(struct rendezvous *r, uint64_t away_ms);

/* The store takes no changes from now on; or takes them again. To be called when that changes. */
void rendezvous_note_refusal(struct rendezvous *r, bool refuses);

/* All sessions have ended. */
void rendezvous_fini(struct rendezvous *r);

/* What c10d sessions ask. Empty with --elastic-fixes=off. */
struct c10d_hooks rendezvous_hooks(struct rendezvous *r);

/* Once a second. */
void rendezvous_tick(struct rendezvous *r);

/* --- For admin/. --- */

/* The run of a space behind `v`, in order of creation; NULL: the first one. NULL: no more. */
struct run_view *rendezvous_next(const struct engine_space *space, const struct run_view *v);

/* The existing run R; NULL: there is none. */
struct run_view *rendezvous_find(const struct engine_space *space, struct slice id);

/* Forgets a run now, and ends the connections of its agents. Returns how many keys went. */
uint64_t rendezvous_forget(struct run_view *v);

/* All hosts may begin a job again that has ended well. False: they may already. */
bool rendezvous_forget_ended(const struct engine_space *space, struct slice id);

/* --- Orders of operators. The store keeps orders that hold until they are taken back. --- */

enum operator_verb {
    OPERATOR_CORDON, /* a node takes part in no further round */
    OPERATOR_EVICT,  /* the same, and it leaves the round in which it trains */
    OPERATOR_DRAIN,  /* the same, once its workers have saved the work, or after a time: drain.c */
    OPERATOR_UNCORDON,
    OPERATOR_RESTART, /* the nodes of a run meet again */
    OPERATOR_HOLD,    /* no node of a run takes part, and its agents wait */
    OPERATOR_RELEASE,
    OPERATOR_CLOSE, /* the agents of a run end, and it stays closed until it is forgotten */
    OPERATOR_DUMP,  /* the workers of a run write their flight records, and end */
    OPERATOR_RULES, /* a run has rules of its own, or again those of the settings */
};

#define OPERATOR_NAME_MAX 255 /* bytes of a pattern of hosts */
#define OPERATOR_CORDONS  256 /* of a space */

/* All texts are borrowed for the call. */
struct operator_order {
    enum operator_verb verb;
    struct slice name; /* a run, or a pattern of hosts */
    const char *reason, *by;
    uint64_t in_ms;   /* OPERATOR_DRAIN: the time that its workers have; OPERATOR_HOLD,
                         OPERATOR_CORDON: it ends by itself after this; 0: not by time */
    uint64_t until;   /* OPERATOR_HOLD: it ends when so many nodes are there; 0: not by that */
    bool ends_gone;   /* OPERATOR_EVICT, OPERATOR_DRAIN: it ends when no such node is there */
    bool ends_agents; /* OPERATOR_EVICT: the agents of such nodes end */
    const char *rules_text; /* OPERATOR_RULES: these; NULL: those of the settings */
};

struct operator_answer {
    unsigned status; /* of HTTP: 200, or the order was refused, and nothing has changed */
    const char *why; /* NULL: it was not */
};

/* Nodes with such a host in all runs of the space. */
struct operator_nodes {
    size_t all, participants;
    const struct run_view *lacks; /* a run that has fewer nodes than MIN without them; or NULL */
};
struct operator_nodes operator_count_nodes(const struct engine_space *space, struct slice pattern);

/* False: no order has that word. */
bool operator_verb_read(struct slice word, enum operator_verb *verb);
/* The order is about a node; else about a run. */
static inline bool operator_is_about_node(enum operator_verb verb)
{
    return verb <= OPERATOR_UNCORDON;
}
struct operator_answer operator_order_node(struct engine_space *space,
                                           const struct operator_order *order);
struct operator_answer operator_order_run(struct run_view *v, const struct operator_order *order);
/* The event of an order; the two above log it. */
void operator_log(const struct engine_space *space, const struct operator_order *order);
/* Writes the member "orders": those that hold in the space, in the order in which they came. */
void operator_orders_write(struct writer *w, const struct engine_space *space);

/* The run is pinned no more: frees it if it has ended, and nothing else pins it. */
void rendezvous_unpin(struct run_view *v);

/* How the run stands; borrowed until anything changes. False: it does not exist, or not yet. */
bool rendezvous_facts(struct run_view *v, struct run_facts *out);
