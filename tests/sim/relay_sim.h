/* The parts of sim_relay: the store and its relays as processes of a world, and the faults in it.
 */
#pragma once

#include <inttypes.h>
#include <stdio.h>

#include "rdzv/server.h"
#include "tests/sim/relay_client.h"

#define CLIENTS      8
#define STEADY       4
#define ACTIVE_STEPS 500
#define STEPS_MOST   200000
#define MS           UINT64_C(1000000)
#define COMMITS      4000
#define SYNC_MS      50 /* a sync takes no longer */
#define KINDS_EVERY  4  /* of so many worlds, one has legacy clients, and one clients of etcd's */

struct process {
    struct server server;
    bool up;
    uint64_t starts_ns; /* while it is not up */
    uint64_t slow_ns;   /* it does nothing until then */
    uint64_t joins_ns;  /* a relay: nothing moves between it and the store until then */
};

/* One world. */
struct relay_world {
    uint64_t seed, at;
    bool always;             /* --sync=always: power may be cut */
    bool loses;              /* --sync=batch, and power may be cut: then clients go, or are ended */
    bool has_lost, is_over;  /* power was cut; the store is back, and its clients have ended */
    bool legacy;             /* short-lived clients speak as torch 1.9 to 2.0 */
    bool has_webs;           /* there are clients of etcd's API */
    bool heals;              /* no more faults */
    bool may_end[PROCESSES]; /* clients of that process may be ended */
    bool barriers_break;
    bool breaks; /* a link, soon after memory has failed in the store */
    bool begun[CLIENTS];
    unsigned faults, ids;
    uint64_t empties_ns; /* a full disk is emptied then */
    uint64_t lived_ns;   /* the store has done something then */
    uint64_t ended_ns;   /* the store has died or ended then; 0: it has not yet */
    uint64_t empty_ns;   /* the relays have had no session since then */
    uint64_t linked_ns;  /* a relay with clients to end has had a new link since then */
    uint64_t
        links[PROCESSES]; /* of each relay, when the store was back after it had lost something */
    struct process processes[PROCESSES];
    size_t commit_count;
    struct scripted clients[CLIENTS + 1];
    struct {
        uint64_t number, at_ns;
    } commits[COMMITS]; /* of a world that loses */
};

extern struct relay_world world;

/* In the world of that seed there are clients of etcd's API. */
bool has_webs(uint64_t seed);

/* Of all worlds of the run. */
struct relay_sums {
    uint64_t worlds, deaths, fills, powers, forgotten, breaks, parts, relays, no_memory,
        disk_faults, stops, leaves, steps, shared;
};

extern struct relay_sums sums;

/* --- relay_process.c --- */

void configure(void);
void check_understood(int p);
void end_process(int p);
void end_disk(void);
void kill_store(void);
bool is_parted(int p);
void check_ended(void);
bool step_process(int p);

/* --- relay_fault.c --- */

void note_memory(void);
void maybe_empty_disk(void);
void cause_fault(void);
void break_after_failure(void);
void rejoin(int p);
