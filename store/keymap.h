/* The c10d world of a space: flat keys, queues, barriers, and those who wait for them.
 *
 * The rules are torch's (TCPStoreBackend.cpp, TCPStoreLibUvBackend.cpp), with the differences that
 * the comments name. Changes come only through store_apply(); reads and waits are here. */
#pragma once

#include "store/table.h"
#include "store/wake.h"

enum store_status {
    STORE_OK,
    STORE_ABSENT,       /* no such key, and nothing changed */
    STORE_MISMATCH,     /* compare-and-set: the value differs, and nothing changed */
    STORE_NOT_A_NUMBER, /* ADD or BARRIER on a value that holds no integer */
    STORE_FULL,         /* the space has no room for it */
    STORE_NO_MEMORY,    /* the machine has none */
};

struct entry;

/* One registration of a waiter at one key. A key listed twice has two. */
struct wait_link {
    TAILQ_ENTRY(wait_link) entry;
    struct waiter *waiter;
    struct entry *at; /* NULL once the key has counted */
};

/* A pending WAIT or BARRIER of one connection. */
struct waiter {
    struct wake wake;
    uint64_t missing; /* registrations that have not counted yet; 0: fulfilled */
    uint64_t count;
    bool barrier; /* waits in the barrier lists of its entries */
    struct wait_link links[];
};

/* A WATCH_KEY registration; lives as long as its connection. */
struct key_watch {
    TAILQ_ENTRY(key_watch) entry;
    struct subscription *subscription; /* of the connection, shared by all its watches */
    struct entry *at;
};

struct entry {
    struct table_node node; /* the key; its bytes follow the struct */
    TAILQ_ENTRY(entry) order;
    struct blob *value; /* NULL: absent; kept only because somebody waits for it */
    TAILQ_HEAD(, wait_link) waiting;
    TAILQ_HEAD(, wait_link) barrier; /* released by the count alone, see keymap_barrier() */
    TAILQ_HEAD(, key_watch) watching;
};

struct element {
    STAILQ_ENTRY(element) entry;
    struct blob *value;
};

struct queue {
    struct table_node node;
    TAILQ_ENTRY(queue) order;
    STAILQ_HEAD(, element) elements;
    uint64_t len;
};

TAILQ_HEAD(entry_list, entry);
TAILQ_HEAD(queue_list, queue);

struct keymap {
    struct table keys;
    struct table queues;
    struct entry_list entries; /* in order of creation; absent ones anywhere between */
    struct queue_list queue_order;
    struct ready_list *ready; /* the store's */
    size_t present;           /* keys that have a value */
    uint64_t waiters;         /* open WAITs, BARRIERs and watches */
    size_t bytes;             /* of keys and values, what the limit counts */
    size_t bytes_max;         /* 0: none */
};

void keymap_init(struct keymap *m, struct ready_list *ready, uint64_t seed, size_t bytes_max);

/* Nobody may be waiting or watching any more. */
void keymap_fini(struct keymap *m);

/* Forgets all keys and queues. Those who wait go on waiting, with what has counted. */
void keymap_clear(struct keymap *m);

/* --- Reads. --- */

/* The value, borrowed until the next change; NULL when there is none. */
struct blob *keymap_get(const struct keymap *m, struct slice key);

/* True when the key has a value or a queue of that name has an element: what WAIT and CHECK ask. */
bool keymap_exists(const struct keymap *m, struct slice key);

uint64_t keymap_queue_len(const struct keymap *m, struct slice name);

/* Bytes that LIST_KEYS takes on the wire behind its count, and those bytes. */
size_t keymap_list_size(const struct keymap *m);
void keymap_list(const struct keymap *m, struct writer *out);

/* --- Changes; for store_apply() alone. Each leaves everything as it was unless STORE_OK. --- */

enum store_status keymap_set(struct keymap *m, struct slice key, struct slice value);
enum store_status keymap_append(struct keymap *m, struct slice key, struct slice more);

/* Adds to the decimal text at `key` (absent: 0) as strtoll reads it, wrapping at 64 bits. */
enum store_status keymap_add(struct keymap *m, struct slice key, int64_t delta, int64_t *sum);

/* STORE_OK: set to `desired`. STORE_MISMATCH: *current is what there is. STORE_ABSENT: there is no
 * key and `expected` is not empty; torch's clients are then answered `expected`. */
enum store_status keymap_compare_set(struct keymap *m, struct slice key, struct slice expected,
                                     struct slice desired, struct blob **current);

enum store_status keymap_delete(struct keymap *m, struct slice key);

/* All pairs or none. `pairs` is a checked list of blobs: key, value, key, value. */
enum store_status keymap_multi_set(struct keymap *m, struct slice pairs);

enum store_status keymap_queue_push(struct keymap *m, struct slice name, struct slice value);

/* Takes the oldest element: its reference passes to the caller. *len is the length before. */
enum store_status keymap_queue_pop(struct keymap *m, struct slice name, struct blob **out,
                                   uint64_t *len);

/* One more arrival. *open: as many as `world` have arrived, so this one passes; the others are on
 * the ready list. When false the caller registers itself with keymap_barrier_wait(). */
enum store_status keymap_barrier(struct keymap *m, struct slice key, int64_t world, bool *open);

/* --- Waiting. --- */

/* Registers for each key of `keys` (a checked list of `count` blobs) that does not exist now. NULL
 * with STORE_OK: all exist, there is nothing to wait for. The waiter is the caller's, who ends it
 * with keymap_cancel(), fulfilled or not. `owner` is found again in waiter->wake.owner. */
enum store_status keymap_wait(struct keymap *m, struct slice keys, uint64_t count, void *owner,
                              struct waiter **out);
enum store_status keymap_barrier_wait(struct keymap *m, struct slice key, void *owner,
                                      struct waiter **out);

/* Ends a waiter: unregisters and frees it. Takes NULL. */
void keymap_cancel(struct keymap *m, struct waiter *w);

/* Tells `subscription` of each change of `key`, in the bytes that legacy WATCH_KEY sends, until
 * keymap_unwatch(), which frees what this returns. NULL when memory is short. */
struct key_watch *keymap_watch(struct keymap *m, struct slice key,
                               struct subscription *subscription);
void keymap_unwatch(struct keymap *m, struct key_watch *w);
