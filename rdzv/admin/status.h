/* The JSON of /rdzv/v1/status, and its streams: shared by the files status*.c. API.md says what
 * each member means. */
#pragma once

#include "proto/torch/torch_keys.h"
#include "rdzv/admin/event_stream.h"
#include "rdzv/admin/run_walk.h"
#include "rdzv/http/reply.h"

/* --- One run, status_run.c. --- */

/* A larger run lists only nodes that are not plain participants, and has a letter per node in order
 * of rank: p: participant, w: waiting, r: spare, s: silent. */
#define STATUS_NODES_LISTED 512

struct status_form {
    bool streamed;  /* without members that change every second by themselves */
    size_t rounds;  /* the last ones */
    size_t nodes;   /* are listed, up to STATUS_NODES_LISTED */
    bool has_twins; /* hints also compare the run with others: its facts are of a live run */
};

/* All but the closing brace: more members may follow. Returns how many nodes are listed. */
uint64_t status_run_write(struct writer *w, const struct run_facts *f,
                          const struct status_form *form);

/* One of its nodes. */
void status_node_write(struct writer *w, const struct run_facts *f, const struct torch_node *node,
                       const struct status_form *form);

struct hints;

/* ,"hints":[…] */
void status_hints_write(struct writer *w, const struct hints *hints);

/* --- Runs over c10d that have ended, ended.c: logged, and kept among the store's records; and
 * ,"ended":[…] of the last day, the newest first. --- */

void status_end_run(struct live_run *run, const struct note *note, int64_t at_us);
void status_ended_write(struct writer *w, const struct engine_space *space, int64_t now_us,
                        size_t most);

/* --- The rules of a run about its failures, run_rules.c. --- */

/* Runs of the same id that have failed one after the other before. */
struct run_past {
    uint64_t runs;     /* within the time of restart-budget */
    uint64_t of_host;  /* by a node of the host that has failed now, within that of cordon-after */
    uint64_t vain;     /* failures without progress at their end */
    uint64_t progress; /* the highest rdzvd/progress */
};

/* After a failure: sets history.stop and history.cordon. The second is for struct rendezvous. */
void run_rules_judge(struct history *h, const struct run_rules *rules, const struct run_past *past,
                     int64_t now_us);
void status_judge(struct live_run *run, int64_t now_us);

/* --- Clients that wait for unwritten keys, status_waits.c. --- */

/* ,"waits":[…],"waits_count":N,"absent_keys":[…],"barriers":[…] of a run over c10d; and those of
 * clients outside all runs. */
void status_waits_write_run(struct writer *w, const struct engine_space *space,
                            const struct run *run);
void status_waits_write_space(struct writer *w, const struct engine_space *space,
                              const struct net *net);

/* For struct rendezvous: logs the first failure, and the first wait of the run's workers that has
 * lasted for 30 s, once for each round. */
void status_waits_log(struct live_run *run);

/* --- The first failure of a round, first_failure.c. --- */

/* For struct rendezvous: a worker's connection ends; a SET or an ADD was carried out. */
void first_failure_note_end(struct rendezvous_space *home, struct conn *c);
void first_failure_note_set(struct rendezvous_space *home, const struct command *command);

/* Logs those of the last two rounds once, about so long after the first end. */
#define FIRST_FAILURE_LOG_US 2000000
void first_failure_log(struct live_run *run, int64_t after_us);

/* --- Open barriers, status_barrier.c: found by the keys that clients wait for: how many of how
 * many clients have arrived, and, if that is knowable, which are missing. --- */

#define BARRIERS_LISTED 8

struct barrier {
    const struct keymap *map;
    const struct awaited *at; /* the key that the clients that have arrived wait for */
    int64_t size;             /* of a BARRIER of c10d, as its clients say; else 0 */
};

struct barrier_list {
    const struct engine_space *space;
    const struct run *run; /* NULL: of no run */
    struct barrier items[BARRIERS_LISTED];
    size_t count;
    bool is_crowded; /* as written: more have arrived at a barrier than can have */
};

/* Notes the keys that this client waits for, which may be a barrier's. */
void barrier_list_note(struct barrier_list *list, const struct keymap *map,
                       const struct waiter *waiter);

/* ,"barriers":[{"key":…,"arrived":…,"size":…,"absent":[rank,…],"absent_nodes":[address,…]},…] */
void barrier_list_write(struct writer *w, struct barrier_list *list);

/* The workers of a round, as its agents have told each other by their keys: the size of the world,
 * the number of workers of the node of that rank, and the rank of its first worker. `keys`: of the
 * agents. 0, for the last one -1: the agents have not. */
uint64_t status_count_workers(const struct run *run, const struct keymap *keys);
int64_t status_count_node_workers(const struct run *run, const struct keymap *keys, int64_t node);
int64_t status_first_worker(const struct run *run, const struct keymap *keys, int64_t node);

/* A node of that round, on a host of its own. */
struct worker_place {
    const struct torch_node *node;
    const struct conn *agent;
    int64_t workers, waiting;
};

/* Fills the places of the round. 0: it has more nodes than places, two of them share a host, or the
 * number of a node's workers is not known. */
#define STATUS_PLACES 128
size_t status_find_places(const struct run *run, const struct keymap *keys,
                          struct worker_place *places);
/* The clients are on one host. If they come through relays, their relay tells the host. */
bool status_is_one_host(const struct conn *a, const struct conn *b);

/* The place of the host from which the connection comes, or NULL. */
struct worker_place *status_place_of(struct worker_place *places, size_t count,
                                     const struct conn *c);

/* --- The writer of a key that is not written yet, status_writer.c. --- */

struct key_writer {
    struct torch_key_writer torch;
    const struct torch_node *node; /* on which the writer runs; NULL: not known */
    char text[512];                /* "rank 3 of default_pg, on node-b (pid 7), in …" */
};

/* The node of a worker. Most jobs have the same number of workers on each node, so the rank tells
 * the node; the node's own keys prove it. NULL: they do not. */
const struct torch_node *status_node_of_worker(const struct run *run, const struct keymap *keys,
                                               int64_t rank);

/* The connection is of a worker in the newest round of the run; `run` NULL: of a worker in the
 * space that no agent has started. */
bool status_is_worker(const struct conn *c, const struct engine_space *space,
                      const struct run *run);

/* The first key that the client still waits for; NULL: there is none. */
const struct awaited *status_absent_key(const struct waiter *waiter);

/* False: the key is no well-known one. `run`: of the client that waits; NULL: of none. `is_agents`:
 * it is an agent. */
bool status_find_writer(const struct engine_space *space, const struct run *run,
                        const struct net *net, struct slice key, bool is_agents,
                        struct key_writer *out);

/* --- ?watch=true, status.c: server-sent events for pages that stay open.
 *
 *     event: status      the whole status as one line of JSON: at the start, and after changes
 *     event: counters    numbers that always change, once a second; they also show that rdzvd lives
 *
 * All clients of one scope share a feed. The feed renders its text once for all of them, in slices,
 * at most twice a second, in at most a twentieth of the time. A client that does not read gets only
 * the newest text when it reads again. --- */

TAILQ_HEAD(status_feeds, status_feed); /* those that have clients */
