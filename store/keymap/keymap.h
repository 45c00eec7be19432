/* The c10d keys of a space or of a worker store: flat keys, queues, barriers, and waiting clients.
 *
 * The rules are torch's (TCPStoreBackend.cpp, TCPStoreLibUvBackend.cpp), with the differences that
 * the comments name. Changes come only through store_apply(); reads and waits are here. */
#pragma once

#include "store/change/change.h"
#include "store/change/wake.h"
#include "store/memory/lazy_free.h"
#include "store/memory/quota.h"
#include "store/memory/table.h"

/* A registration of a waiter, or of a key_watch, at one key. */
struct wait_link {
    struct wait_link *next, *prev; /* a ring */
    struct waiter *waiter;         /* NULL: of a key_watch */
    struct awaited *at;            /* NULL once the key has counted */
};

/* A key that clients wait for or watch, whether it has a value or not. */
struct awaited {
    struct table_near node;    /* its bytes follow */
    struct wait_link *waiting; /* WAITs, the oldest first */
    struct wait_link *others;  /* watches, the newest first, then BARRIERs */
};

static inline struct slice awaited_key(const struct awaited *a)
{
    return (struct slice){(const uint8_t *)(a + 1), a->node.near >> 8};
}

static inline size_t awaited_size(struct slice key)
{
    return sizeof(struct awaited) + key.len;
}

/* A pending WAIT or BARRIER of one connection. */
struct waiter {
    struct wake wake;  /* the first member; in keymap.open_waiters while `missing` is not 0, then
                          in the ready list; of a client that has left, in ended_waiters */
    uint32_t missing;  /* keys that have not counted yet, plus 1 while keymap_wait() adds more; 0:
                          fulfilled */
    uint32_t count;    /* registrations there are */
    uint32_t cap;      /* registrations there is room for */
    uint32_t size;     /* of a BARRIER, which waits among the others of its key: how many are to
                          come, 1 to UINT32_MAX; 0: of a WAIT */
    uint64_t since_ms; /* the owner's: when it began to wait */
    struct wait_link links[];
};

/* A WATCH_KEY registration; lives as long as its connection. */
struct key_watch {
    struct wait_link link; /* the first member */
    TAILQ_ENTRY(key_watch) all;
    struct subscription *subscription; /* the connection's; all its watches share it */
};

/* A key's place in a group, see struct key_groups. */
struct key_link {
    struct table_near node;       /* the prefix; in the table if this is the first of the group */
    struct key_link *prev, *next; /* a ring */
    uint32_t walked;              /* by the last walk in pieces that came past */
    uint8_t index;                /* in entry.groups */
    bool is_first;
};

struct entry {
    struct table_near node;   /* the key; its bytes follow the links */
    TAILQ_ENTRY(entry) order; /* while it has a value */
    uint64_t number;          /* keymap.changes when it got it: they grow along that list */
    struct blob *value;       /* NULL: absent; it is here only since it is pinned */
    unsigned snapshot : 28;   /* the number of the snapshot that has written its value */
    bool awaited : 1;         /* false: keymap.awaited does not have the key */
    unsigned group_count : 3;
    uint32_t pins; /* number of batch_lookup that hold the entry: it stays in the table, also
                      without a value */
    struct key_link groups[];
};

static inline struct slice entry_key(const struct entry *e)
{
    return (struct slice){(const uint8_t *)&e->groups[e->group_count], e->node.near >> 8};
}

/* No snapshot has a higher number. */
#define SNAPSHOT_NUMBER_MAX ((1u << 28) - 1)

struct element {
    STAILQ_ENTRY(element) entry;
    struct blob *value;
    uint64_t number; /* keymap.pushes when it came: they grow along its queue */
};

struct queue {
    struct table_node node;
    TAILQ_ENTRY(queue) order;
    STAILQ_HEAD(, element) elements;
    uint64_t len;
    uint64_t number; /* of its first element: they grow along the list of queues */
};

/* The position of a walk over the keys of one moment, in their order of creation, while clients add
 * and delete keys; see keymap_entry.h. */
struct key_cursor {
    struct entry *next; /* comes next; NULL: the walk is at its end */
    uint64_t moment;    /* keymap.changes at that time: keys with higher numbers came later */
};

/* The answer to LIST_KEYS for one moment, complete or still being written. */
struct key_list {
    struct lazy lazy;         /* once it has no reader any more; the first member */
    struct key_cursor cursor; /* of those that are not written yet */
    uint64_t count;           /* of keys */
    uint64_t askers;          /* who waits for it: those who asked before its moment */
    size_t size;              /* of the bytes in all chunks */
    size_t written;           /* of them */
    size_t freed;             /* number of chunks released so far */
    size_t chunk_count;
    struct blob *chunks[];
};

/* A looked-up key and its new value. A request may name a key twice: the item counts if the key has
 * this value after the MULTI_SET. */
struct batch_item {
    struct entry *entry;
    const struct blob *value;
};

/* The keys of one request, looked up in slices and held for one moment; see batch_lookup_add(). */
struct batch_lookup {
    struct lazy lazy;                /* once its request has ended; the first member */
    TAILQ_ENTRY(batch_lookup) entry; /* of the keymap */
    struct keymap *map;
    struct blob **values; /* MULTI_SET: what each key is to be; then, what it was. MULTI_GET: what
                             it is. NULL: another */
    uint64_t changes;     /* keymap.lookup_changes when it began */
    size_t room;
    size_t count;
    size_t freed;    /* so many are let go of */
    size_t cost;     /* bytes of keys and values, reckoned as if all keys were new */
    size_t more;     /* bytes of the new values of keys that had a value */
    size_t less;     /* bytes of the old values of these keys */
    bool has_shared; /* one of the keys was looked up before, perhaps by the same request */
    struct batch_item *grouped; /* MULTI_SET: the keys with the prefix of key_groups */
    size_t grouped_count;
    size_t grouped_room;
    bool tells;        /* the keys are set: releasing an entry wakes its waiters */
    uint32_t kept_for; /* the number of a snapshot, which has the first `kept` of the keys */
    size_t kept;
    struct entry *entries[]; /* and the values */
};

TAILQ_HEAD(lookup_list, batch_lookup);
TAILQ_HEAD(wake_list, wake);
TAILQ_HEAD(entry_list, entry);
TAILQ_HEAD(queue_list, queue);
TAILQ_HEAD(key_watch_list, key_watch);

struct keymap_moment;
struct asked_list;

/* Entries and queues that keymaps of a store have forgotten, until lazy_free_run() frees them. */
struct forgotten_keys {
    struct lazy lazy; /* the first member */
    struct lazy_free *lazy_free;
    struct entry_list entries;
    struct queue_list queues;
};

/* `f` NULL: what is forgotten is freed at once. */
void forgotten_keys_init(struct forgotten_keys *keys, struct lazy_free *f);

/* Takes over entries for which no client waits, and queues; the lists are empty then. `bytes` is
 * what they counted for. */
void forgotten_keys_add(struct forgotten_keys *keys, struct entry_list *entries,
                        struct queue_list *queues, size_t bytes);

/* Keys that keymap_walk_group() finds together. For a key that begins with `prefix`, `name` writes
 * the lengths of the key's own prefixes that are its groups: no length twice, and the same lengths
 * at each call. */
#define KEY_GROUPS_MAX 4
struct key_groups {
    struct slice prefix;
    size_t (*name)(struct slice key, size_t lengths[KEY_GROUPS_MAX]);
};

struct keymap {
    struct table keys;
    struct table queues;
    struct table awaited;               /* every struct awaited */
    struct table groups;                /* the first key_link of each */
    const struct key_groups *groups_of; /* set before the first key; NULL: keys have no groups */
    struct entry_list entries;          /* entries with a value, in order of creation */
    struct queue_list queue_order;
    struct ready_list *ready; /* the store's, as is the reserve */
    struct reserve *reserve;
    struct forgotten_keys *forgotten; /* of the store; NULL: all is freed at once */
    struct wake_list open_waiters;    /* not fulfilled; the oldest first */
    struct wake_list ended_waiters;   /* waiters of clients that left, until the lazy free frees
                                         them */
    struct lazy ended;                /* of these */
    struct key_watch_list watches;
    struct lookup_list lookups;
    enum account_kind kind;  /* for the account: the kind of its keys and queues */
    size_t present;          /* keys that have a value */
    size_t present_bytes;    /* of their names */
    uint64_t changes;        /* how often a key came or went; not 0 */
    uint64_t lookup_changes; /* how often a looked-up key came, changed or went */
    uint64_t pushes;         /* how many elements came */
    uint64_t wait_epoch; /* changes if a WAIT that registers now may lack other keys than one that
                            has registered before: a key or queue went, or a client waits for a
                            queue, though it has an element */
    struct asked_list *asked;     /* the long list that clients asked for last; NULL: none */
    struct keymap_moment *moment; /* a snapshot is being written; NULL: none, or not of this */
    struct key_list *list;        /* the answer to LIST_KEYS, being written or still valid; NULL:
                                     none */
    uint64_t list_askers;         /* clients that asked for a list and have not left */
    struct key_cursor sweep;      /* of keymap_sweep_next() */
    uint64_t waiters;             /* open WAITs, BARRIERs and watches */
    size_t bytes;                 /* keys with a value, and queues */
    size_t waiting_bytes; /* of waiters, watches, awaited keys, and the entries of absent keys */
    struct quota *quota;  /* of the space: limits both sums */
    struct blob *popped;  /* by the last change that was decoded; see keymap_take_popped() */
};

void keymap_init(struct keymap *m, enum account_kind kind, struct ready_list *ready,
                 struct reserve *reserve, uint64_t seed, struct quota *quota);

/* All waiters and watches must have ended before. */
void keymap_fini(struct keymap *m);

/* Forgets all keys and queues. Waiters go on waiting, and keys that have counted stay counted. The
 * time depends on the number of watches and looked-up keys, and not on that of all keys. */
void keymap_clear(struct keymap *m);

/* --- Reads. --- */

/* The value, borrowed until the next change; NULL when there is none. */
struct blob *keymap_get(const struct keymap *m, struct slice key);

/* True when the key has a value or a queue of that name has an element: what WAIT and CHECK ask. */
bool keymap_exists(const struct keymap *m, struct slice key);

/* A time of the keymap, for a CHECK that reads its keys in many slices. If each key exists and has
 * existed since that time, all keys existed at that time. Otherwise the key was absent at some time
 * since then. (A value that goes after a queue of its name has come also counts as such a key.) */
struct keymap_time {
    uint64_t changes, pushes;
};

static inline struct keymap_time keymap_time(const struct keymap *m)
{
    return (struct keymap_time){m->changes, m->pushes};
}

bool keymap_exists_since(const struct keymap *m, struct slice key, struct keymap_time since);

uint64_t keymap_queue_len(const struct keymap *m, struct slice name);

/* Bytes that LIST_KEYS takes on the wire behind its count. */
size_t keymap_list_size(const struct keymap *m);

/* A list of all keys takes time. Who asks for one gets a ticket, and goes on with
 * keymap_make_list() until there is a list, of a moment between the two. Who waits at the same time
 * gets the same one; in between, keys may come and go. A ticket is given back with
 * keymap_leave_list(), and is not 0. */
uint64_t keymap_ask_list(struct keymap *m);
void keymap_leave_list(struct keymap *m, uint64_t ticket);

/* Writes about `max` keys, or 64 KiB. *out: the list, borrowed until keymap_leave_list() or the
 * next change; NULL: it is not whole yet. STORE_NO_MEMORY: there will be none. */
enum store_status keymap_make_list(struct keymap *m, uint64_t ticket, size_t max,
                                   const struct key_list **out);

/* Frees a list of all keys without readers, and a shared list for which no client waits. Called now
 * and then. */
void keymap_trim(struct keymap *m);

/* Walks all keys that have a value now, in pieces: between two calls, clients may add and delete
 * keys. A keymap has one such walk: the last that was begun. NULL: it is at its end. */
void keymap_sweep(struct keymap *m);
struct entry *keymap_sweep_next(struct keymap *m);

/* --- Many keys at one moment: the request looks them up one by one, while other clients change
 * them.
 * --- */

/* NULL: memory is short. `with_values`: for a MULTI_SET or MULTI_GET. */
struct batch_lookup *batch_lookup_begin(struct keymap *m, size_t count, bool with_values);

/* Adds a key; false: memory is short. With `with_values`, the lookup also holds the key's value. */
bool batch_lookup_add(struct batch_lookup *p, struct slice key);

/* The same, for a MULTI_SET. */
bool batch_lookup_add_value(struct batch_lookup *p, struct slice key, struct slice value);

/* Before a MULTI_SET is carried out: an open snapshot copies the present values of some more of the
 * looked-up keys. True: the snapshot has copied every looked-up key, or no snapshot is open. */
bool batch_lookup_is_copied(struct batch_lookup *p);

/* Lets go of them, in slices. Takes NULL. */
void batch_lookup_end(struct batch_lookup *p);

/* The key. The next ones are fetched into the cache. */
static inline const struct entry *batch_lookup_entry(const struct batch_lookup *p, size_t i)
{
    if (i + 32 < p->count)
        __builtin_prefetch(&p->entries[i + 32]->value);
    return p->entries[i];
}

/* The moment of a MULTI_GET: keeps references to the values that the keys have now. Later changes
 * do not affect the answer. */
void batch_lookup_take_values(struct batch_lookup *p);

/* The i-th of them; NULL: there was none. */
static inline struct blob *batch_lookup_taken(const struct batch_lookup *p, size_t i)
{
    if (i + 16 < p->count)
        __builtin_prefetch(p->values[i + 16]);
    return p->values[i];
}

/* Walks the keys of one group that have a value, in the order in which they got it. The caller may
 * delete the key that keymap_walk_next() has returned last, and no other key. NULL: the walk has
 * ended. */
struct key_walk {
    struct key_link *next, *last;
};

void keymap_walk_group(const struct keymap *m, struct slice prefix, struct key_walk *walk);
struct entry *keymap_walk_next(struct key_walk *walk);

/* The same in pieces; between two pieces, clients may add and delete keys: keymap_walk_group()
 * begins a piece, and keymap_walk_pause() ends it. Each walk has a number of its own, above 0.
 * NULL: the walk has ended; it has returned each key that stayed in the group from start to end. */
struct entry *keymap_walk_piece(struct key_walk *walk, uint32_t number);
void keymap_walk_pause(struct keymap *m, const struct key_walk *walk);

/* --- Changes; for space.c only. --- */

/* Decides about a KEY_…, QUEUE_… or BARRIER command. STORE_OK: *change is the change to apply, and
 * *out the part of the result that is known before. Any other status: no change. STORE_MISMATCH:
 * out->value is the key's present value. STORE_ABSENT: a KEY_COMPARE_SET expects a value, and the
 * key is absent; torch's clients then receive `expected`. */
enum store_status keymap_check(const struct keymap *m, const struct command *c,
                               struct change *change, struct store_result *out);

/* For decoded changes: true if the keys are in the state that the change assumes. */
bool keymap_can_apply(const struct keymap *m, const struct change *change);

/* What keymap_apply() takes of the reserve at most. */
size_t keymap_memory(const struct keymap *m, const struct change *change);

/* Carries out a change that was checked. QUEUE_POP: the reference in out->value is the caller's. */
void keymap_apply(struct keymap *m, const struct change *change, struct store_result *out);

/* --- Waiting. --- */

/* Registers for each key of `keys` (a checked list of `count` blobs) that does not exist now. NULL
 * with STORE_OK: all keys exist. The caller owns the waiter and ends it with keymap_cancel(),
 * fulfilled or not. waiter->wake.owner is `owner`. STORE_FULL: waiters of the space hold as many
 * bytes as the limit allows. For a BARRIER, keymap_check() has checked this limit before. */
enum store_status keymap_wait(struct keymap *m, struct slice keys, uint64_t count, void *owner,
                              struct waiter **out);

/* The same over many slices. *w is NULL at first; each call adds a key, and `room` is the number of
 * keys still to add. An added key counts at once if it exists, else as soon as it exists. The
 * result equals that of a WAIT in one step. When all keys have counted, each key has existed at
 * some time since the first slice, so a WAIT registered in that slice is fulfilled. While a key has
 * not counted, it has not existed since the last slice, so a WAIT registered in that slice still
 * waits.
 *
 * The caller owns the waiter *w. It cannot be woken before keymap_wait_end(), which returns this
 * waiter, a smaller one in its place, or NULL if all keys exist. After STORE_NO_MEMORY or
 * STORE_FULL the caller must end *w. */
enum store_status keymap_wait_add(struct keymap *m, struct waiter **w, uint64_t room, void *owner,
                                  struct slice key);
struct waiter *keymap_wait_end(struct keymap *m, struct waiter *w);

/* Many clients ask for the same long list of keys, and share the work. True: until the next change,
 * another client's request has all that an equal one needs: with `with_values` a MULTI_GET, else a
 * WAIT. */
bool keymap_is_known(const struct keymap *m, struct slice items, bool with_values);

/* After keymap_is_known(): like keymap_wait() for that list; the answer to the MULTI_GET, borrowed
 * until the next change. */
enum store_status keymap_wait_join(struct keymap *m, void *owner, struct waiter **out);
struct blob *keymap_known_answer(const struct keymap *m);

/* Lets others join: `w` is the result of keymap_wait_end(), and `wait_epoch` is keymap.wait_epoch
 * before the first keymap_wait_add(). Returns the waiter in the place of `w`; if memory is short,
 * `w`. */
struct waiter *keymap_wait_share(struct keymap *m, struct slice items, uint64_t wait_epoch,
                                 struct waiter *w);

/* Lets equal MULTI_GETs get `answer`, which has the values that `lookup` has taken. This function
 * takes `lookup` over, and adds a reference to `answer`. */
void keymap_share_answer(struct keymap *m, struct slice items, struct batch_lookup *lookup,
                         struct blob *answer);

/* Walks the keys that the waiter lacks; *i is 0 at first. NULL: there are no more. */
const struct awaited *waiter_next_key(const struct waiter *w, uint64_t *i);

/* Registers at a barrier of `size` arrivals, as keymap_wait() does at a key. */
enum store_status keymap_barrier_wait(struct keymap *m, struct slice key, int64_t size, void *owner,
                                      struct waiter **out);

/* Ends a waiter and unregisters it from its keys, in slices if they are many. Takes NULL. */
void keymap_cancel(struct keymap *m, struct waiter *w);

/* --- Sessions that stand in a barrier, whether a client of theirs waits or not. --- */

/* The session's place, in memory of its own. */
struct arrival {
    struct wait_link link;             /* the first member; its waiter is the same for all places */
    void (*passes)(struct arrival *a); /* the barrier opens; may free the place */
};

/* Registers it at the barrier, whose key may be absent. *room is awaited_size() bytes of
 * ACCOUNT_WAITERS for the key; NULL afterwards: the key has taken them. */
void keymap_arrive(struct keymap *m, struct slice key, struct arrival *a, void **room);

/* Ends that, before the barrier opens. */
void keymap_depart(struct keymap *m, struct arrival *a);

/* The element that the last QUEUE_POP which was decoded has taken, a reference of the caller's;
 * NULL: none since, or the last. */
struct blob *keymap_take_popped(struct keymap *m);

/* Tells `subscription` of each change of `key`, in the bytes that legacy WATCH_KEY sends, until
 * keymap_unwatch(), which frees *out. STORE_FULL: waiting takes as much as it may. STORE_NO_MEMORY:
 * there is none. */
enum store_status keymap_watch(struct keymap *m, struct slice key,
                               struct subscription *subscription, struct key_watch **out);
void keymap_unwatch(struct keymap *m, struct key_watch *w);
