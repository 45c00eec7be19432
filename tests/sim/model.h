/* What a space should be, written a second time and as plainly as possible: arrays, searched from
 * their start, copied when they change. It follows what torch's TCPStore and etcd 3.4's v2store do,
 * not the store's code, and knows neither its types nor its tricks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Owned bytes. */
struct bytes {
    char *ptr;
    size_t len;
};

struct bytes bytes_copy(const void *from, size_t len);
void bytes_free(struct bytes *b);
bool bytes_same(const struct bytes *a, const void *b, size_t len);

/* --- c10d. --- */

struct model_key {
    struct bytes name, value;
};

struct model_element {
    struct bytes queue, value;
};

struct model_link {
    struct bytes name;
    bool counted;
};

struct model_waiter {
    uint64_t id;
    struct model_link *links;
    size_t link_count;
    bool barrier;
    bool woken;
};

/* --- The keys of workers, and what is kept of runs. --- */

struct model_store {
    uint64_t id;
    struct model *keys; /* of which only the c10d half is used */
};

struct model_run {
    struct bytes key, address;
    int placement;
    unsigned port;
    uint64_t worker_store; /* 0: none */
    int64_t round;
};

/* --- etcd. --- */

struct model_node {
    char *path;
    bool dir;
    struct bytes value;
    uint64_t created, modified;
    bool expires;
    int64_t at_ns;
    uint64_t age; /* of the deadline; among equal ones the oldest goes first */
};

/* What watches ask about an event. `index` 0: nothing is there. */
struct model_event {
    uint64_t index;
    char *key;
    char *json;
    bool refresh;
    bool removed_dir;
};

struct model_watch {
    uint64_t id;
    char *path;
    bool recursive, stream;
    uint64_t since;
    bool registered;
    bool ended;
    char **told; /* the JSON of each event that is due */
    size_t told_count;
};

struct model {
    struct model_key *keys; /* in order of creation */
    size_t key_count;
    struct model_element *elements; /* of all queues, the oldest first */
    size_t element_count;
    struct model_waiter *waiters; /* in order of arrival */
    size_t waiter_count;
    uint64_t *ready; /* ids of woken clients, in the order of waking */
    size_t ready_count;

    struct model_run *runs; /* in order of creation */
    size_t run_count;
    struct model_store *stores;
    size_t store_count;
    uint64_t last_store;

    struct model_node *nodes;
    size_t node_count;
    uint64_t index;
    uint64_t next_age;
    struct model_event *events; /* all of them, and gaps where an index was no event */
    size_t event_count;
    struct model_watch *watches;
    size_t watch_count;
};

void model_init(struct model *m);
void model_fini(struct model *m);

enum model_status {
    MODEL_OK,
    MODEL_ABSENT,
    MODEL_MISMATCH,
    MODEL_NOT_A_NUMBER,
    MODEL_IN_USE,
};

struct pair {
    const void *key, *value;
    size_t key_len, value_len;
};

const struct bytes *model_get(const struct model *m, const void *key, size_t len);
bool model_exists(const struct model *m, const void *key, size_t len);
size_t model_queue_len(const struct model *m, const void *name, size_t len);

void model_set(struct model *m, const struct pair *p);
void model_append(struct model *m, const struct pair *p);
enum model_status model_add(struct model *m, const void *key, size_t len, int64_t delta,
                            int64_t *sum);
enum model_status model_compare_set(struct model *m, const struct pair *p, const void *expected,
                                    size_t expected_len);
enum model_status model_delete(struct model *m, const void *key, size_t len);
void model_push(struct model *m, const struct pair *p);
/* The caller frees *out. */
enum model_status model_pop(struct model *m, const void *name, size_t len, struct bytes *out,
                            size_t *before);
enum model_status model_barrier(struct model *m, const void *key, size_t len, int64_t world,
                                bool *open);
/* Keys and queues; returns how many. */
size_t model_forget(struct model *m);

/* False if all names exist, so that the client need not wait. */
bool model_wait(struct model *m, uint64_t id, const struct pair *names, size_t count);
void model_barrier_wait(struct model *m, uint64_t id, const void *key, size_t len);
void model_cancel(struct model *m, uint64_t id);

/* --- */

struct model_store *model_find_store(const struct model *m, uint64_t id);
uint64_t model_open(struct model *m);
enum model_status model_drop(struct model *m, uint64_t id);

/* What is kept is copied. */
enum model_status model_put_run(struct model *m, const struct model_run *run);
enum model_status model_delete_run(struct model *m, const void *key, size_t len);

/* All runs, and the keys of all worker stores; returns how many keys and queues. */
size_t model_forget_stores(struct model *m);
void model_stores_fini(struct model *m);

/* --- */

enum model_operation {
    MODEL_SET,
    MODEL_CREATE,
    MODEL_POST,
    MODEL_UPDATE,
    MODEL_SWAP,
    MODEL_REMOVE,
    MODEL_SWAP_REMOVE,
};

struct model_change {
    const char *path, *value, *prev_value;
    uint64_t prev_index;
    int64_t expires_ns, now_ns;
    bool dir, recursive, refresh;
};

/* `code` is etcd's errorCode, 0: done. `text` (which the caller frees) is the JSON of the event, or
 * the path that is to blame. */
struct model_result {
    int code;
    char *text;
};

struct model_result model_change(struct model *m, enum model_operation op,
                                 const struct model_change *c);
size_t model_expire(struct model *m, int64_t now_ns);
size_t model_clear(struct model *m, int64_t now_ns);

/* As model_change(): the JSON of a get with sorted=true, or who is to blame. */
struct model_result model_list(const struct model *m, const char *path, bool recursive,
                               int64_t now_ns);

/* False: `since` has been cleared from the history. */
bool model_watch(struct model *m, uint64_t id, const char *path, bool recursive, bool stream,
                 uint64_t since);
struct model_watch *model_find_watch(struct model *m, uint64_t id);
void model_unwatch(struct model *m, uint64_t id);
