/* Events of an etcd tree: the last thousand of them, and the watches for the next. Matching is
 * etcd's, quirks included (v2store/event_history.go, watcher_hub.go). */
#pragma once

#include "proto/etcd_types.h"
#include "store/change/wake.h"
#include "store/memory/quota.h"
#include "store/memory/table.h"

#define HISTORY_EVENTS 1000

struct event_state;

/* Keys and values that the history may hold. etcd has no such limit: a thousand values of 10 MB are
 * 10 GB there. Here the oldest events go early, and a client that asks for them gets
 * ETCD_INDEX_CLEARED, as it does when there have been a thousand more. */
#define HISTORY_BYTES_MAX (256u << 20)

/* One change of the tree. Immutable and shared: the history holds it, and the answer to the change
 * is made of it. */
struct tree_event {
    uint32_t refs;
    enum etcd_action action;
    bool has_prev;
    bool refresh;          /* takes a place in the history, and no watch gets it */
    struct etcd_node node; /* key and values point into what this struct owns */
    struct etcd_node prev;
    struct blob *value;
    struct blob *prev_value;
    struct blob *chunk; /* rendered when first asked for; let go when the next event comes */
    uint8_t key[];
};

/* An event with one reference, its key copied and its nodes empty; its memory is reserved. */
struct tree_event *tree_event_new(struct reserve *reserve, enum etcd_action action,
                                  struct slice key);
struct tree_event *tree_event_ref(struct tree_event *e);
void tree_event_unref(struct tree_event *e);

/* The event as one chunk of HTTP's chunked encoding, borrowed from the event; NULL when memory is
 * short. Nearly all watches take the chunk as it is, so they share one copy, and the answer to the
 * change shares the JSON in it, which ends in a newline. */
struct blob *tree_event_chunk(struct tree_event *e);
struct slice tree_chunk_json(const struct blob *chunk);

struct watch_point;

/* One watch. Owned by the one who opened it; watch_close() ends it. */
struct watch {
    struct subscription subscription;
    TAILQ_ENTRY(watch) entry;
    struct watch_point *at; /* NULL: not registered (any more) */
    bool recursive;
    bool stream;
    uint64_t since; /* no event before this index */
};

struct watch_hub {
    struct tree_event *history[HISTORY_EVENTS]; /* by index modulo; NULL: none is kept */
    uint64_t last;                              /* the newest index that is counted */
    uint64_t oldest;                            /* nothing before it is kept */
    size_t bytes;                               /* of the events that are kept */
    struct tree_event *fresh;                   /* the newest event, whose JSON is kept */
    struct table points;
    struct ready_list *ready;
    struct reserve *reserve;
    struct quota *quota;  /* of the space */
    size_t waiting_bytes; /* of watches */
    uint64_t registered;
};

/* `last` is the index that the tree starts at. */
void watch_hub_init(struct watch_hub *h, struct ready_list *ready, struct reserve *reserve,
                    struct quota *quota, uint64_t seed, uint64_t last);

/* All watches are closed by now. */
void watch_hub_fini(struct watch_hub *h);

/* Adds an event to the history and tells the watches of its key and above it. */
void watch_publish(struct watch_hub *h, struct tree_event *e);

/* Tells those who watch exactly `path` that it went with the directory that `e` removes. Called for
 * each node that goes, before watch_publish(). */
void watch_notify_removed(struct watch_hub *h, struct tree_event *e, struct slice path);

/* Walks the watched paths in no order; `walk` begins as zeros. Watches of the last returned path
 * may end meanwhile, and no others. */
struct watch_walk {
    size_t bucket;
    struct table_node *next;
};

bool watch_next_path(struct watch_hub *h, struct watch_walk *walk, struct slice *path);

/* Memory is short: what is rendered goes, then the oldest event. False: there is but the newest,
 * which stays. */
bool watch_forget_oldest(struct watch_hub *h);

/* For snapshot_load(): the events come in their order; hub's `last` and `oldest` must be set
 * before. False: the record is invalid. If memory is short, the history begins behind this
 * event. */
bool watch_load(struct watch_hub *h, const struct event_state *state);

/* The event of an index that changed this key to this value; NULL: it is none, or is not kept. */
struct tree_event *watch_find_event(const struct watch_hub *h, uint64_t index, struct slice key,
                                    struct slice value);

/* True when the space lets one more client wait. */
bool watch_has_room(const struct watch_hub *h, struct slice key);

/* Starts a watch on `key` from index `since` on; 0: from now on. ETCD_INDEX_CLEARED: `since` is
 * older than what is kept. ETCD_INTERNAL: memory is short. A past event is queued at once, and then
 * the watch is not registered. */
enum etcd_code watch_open(struct watch_hub *h, struct slice key, bool recursive, bool stream,
                          uint64_t since, void *owner, struct watch **out);

/* Ends a watch and frees it. Takes NULL. */
void watch_close(struct watch_hub *h, struct watch *w);
