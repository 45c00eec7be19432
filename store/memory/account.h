/* The account of memory: how many bytes the process holds, for which purpose, and how many it may
 * hold.
 *
 * The process has one heap, so it has one account. All memory that clients can make grow is
 * allocated through it. Each allocation counts with the bytes that malloc() takes for its length,
 * malloc()'s own header included. So the sum is the size of the process, except for the few MiB
 * that it starts with and for the kernel's socket buffers.
 *
 * The caller that allocates keeps the limit (--memory-limit): account_has_room() before the store
 * admits a change, account_request() for any other allocation. An admitted change allocates with
 * account_alloc(), which counts and never refuses. Over the limit, rdzvd refuses the request; it
 * drops nothing that it has acknowledged.
 *
 * A part of the limit is kept back. Only watchers and cleaning requests may come close to the
 * limit, each with a bound of its own:
 *
 *     0                                             limit - kept   limit - kept/2        limit
 *     |------------ everybody -----------------------|-- small -----|-- watching ---------|
 *
 * small: requests that free memory or need little: deletions, answers of some bytes, new
 * connections. watching: probes, metrics, the daemon's own API, connections from this machine. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Whom memory is held for. */
enum account_kind {
    ACCOUNT_KEYS,          /* c10d keys with their values, queues, and awaited keys */
    ACCOUNT_WORKER_STORES, /* the same of worker stores */
    ACCOUNT_TREES,         /* etcd's keys and directories, and their values */
    ACCOUNT_HISTORY,       /* events of etcd, and values that only an event still holds */
    ACCOUNT_RUNS,          /* run records, and the rendezvous' state of each run */
    ACCOUNT_WAITERS,       /* c10d's WAITs and BARRIERs */
    ACCOUNT_WATCHES,       /* watches of both protocols with their unsent events */
    ACCOUNT_ANSWERS,       /* answers in output queues */
    ACCOUNT_INPUT,         /* requests that are incomplete or queued */
    ACCOUNT_SESSIONS,      /* connections and what protocols keep of them */
    ACCOUNT_TLS,           /* OpenSSL's memory for connections and certificates */
    ACCOUNT_LOOP,          /* libevent's memory for connections and timers */
    ACCOUNT_JOURNAL,       /* unsynced batches, snapshot parts on their way to disk */
    ACCOUNT_SNAPSHOT,      /* old values that an open snapshot has copied and not written yet */
    ACCOUNT_KINDS,
};

/* How urgent it is; see above. */
enum account_class { ACCOUNT_ORDINARY, ACCOUNT_SMALL, ACCOUNT_WATCHING };
#define ACCOUNT_CLASSES (ACCOUNT_WATCHING + 1)

/* Read it; the functions below write it. */
struct account {
    size_t bytes[ACCOUNT_KINDS];
    size_t total;
    size_t limit; /* SIZE_MAX: none */
    size_t low;   /* see account_is_short() */
    size_t bound[ACCOUNT_CLASSES];
    uint64_t refused; /* number of allocations that the limit or malloc() refused */
    bool watching;    /* the current request belongs to that class */
    void *spare;      /* see account_keep_spare(); NULL: it is not there */
};

/* Hidden, so that code reaches it without the global offset table. */
extern struct account account __attribute__((visibility("hidden")));

/* Of a limit, this part is kept back: a twentieth, but at least that much. */
#define ACCOUNT_KEPT_MIN (1u << 20)

/* 0: no limit. */
void account_set_limit(size_t limit);

/* The bytes that malloc() takes for `len`: one word more, rounded up to a multiple of 16. */
static inline size_t account_cost(size_t len)
{
    size_t size = (len + 23) & ~(size_t)15;

    return size < 32 ? 32 : size;
}

/* Little memory is left: ordinary allocations may take less than a sixteenth of the limit. */
static inline bool account_is_short(void)
{
    return account.total > account.low;
}

/* Between these two, everything is of the class ACCOUNT_WATCHING: a probe is being answered. */
static inline void account_begin_watching(void)
{
    account.watching = true;
}

static inline void account_end_watching(void)
{
    account.watching = false;
}

/* A spare block of memory, so that a client can read metrics while malloc() refuses all requests.
 * The server frees the block before it writes the metrics, and allocates it again afterwards or as
 * soon as memory is available.
 */
#define ACCOUNT_SPARE (256u << 10)
void account_keep_spare(void);
void account_give_spare(void);

/* True when so many bytes may be taken. */
static inline bool account_has_room(enum account_class class, size_t len)
{
    size_t bound = account.bound[account.watching ? ACCOUNT_WATCHING : class];

    return len <= bound && account.total <= bound - len;
}

/* What is left to be taken. */
size_t account_room(enum account_class class);

/* Small is what fits into a page. */
static inline enum account_class account_class_of(size_t len)
{
    return len <= 4096 ? ACCOUNT_SMALL : ACCOUNT_ORDINARY;
}

/* For the functions below: counts a refused allocation, and returns NULL. */
void *account_refused(void);

/* Counts the block `p` of `len` bytes. */
static inline void *account_taken(enum account_kind kind, void *p, size_t len)
{
    size_t size = account_cost(len);

    if (p == NULL)
        return account_refused();
    account.bytes[kind] += size;
    account.total += size;
    return p;
}

/* The same of a block that goes, which counted for `size`. */
static inline void account_left(enum account_kind kind, size_t size)
{
    account.bytes[kind] -= size;
    account.total -= size;
}

/* As malloc(), realloc() and free(), counted. They never refuse because of the limit: callers are
 * admitted changes, and the daemon's own structures. Free a block with the kind and length that it
 * was allocated with. */
static inline void *account_alloc(enum account_kind kind, size_t len)
{
    return account_taken(kind, malloc(len), len);
}

void *account_realloc(enum account_kind kind, void *old, size_t old_len, size_t len);

static inline void account_free(enum account_kind kind, void *p, size_t len)
{
    account_left(kind, p == NULL ? 0 : account_cost(len));
    free(p);
}

/* The same, and they also return NULL when the limit of the class is reached. The variants with
 * `zeroed` clear the memory. */
void *account_request(enum account_kind kind, enum account_class class, size_t len);
void *account_request_zeroed(enum account_kind kind, enum account_class class, size_t len);
void *account_resize(enum account_kind kind, enum account_class class, void *old, size_t old_len,
                     size_t len);

/* The same for libraries that call these in place of malloc() and do not keep lengths: malloc() is
 * asked for the length. Free a block with its kind. */
void *account_heap_alloc(enum account_kind kind, size_t len);
void *account_heap_realloc(enum account_kind kind, void *old, size_t len);
void *account_heap_request(enum account_kind kind, enum account_class class, size_t len);
void *account_heap_request_zeroed(enum account_kind kind, enum account_class class, size_t len);
void *account_heap_resize(enum account_kind kind, enum account_class class, void *old, size_t len);
/* A copy of the bytes, with a 0 behind them. */
void *account_heap_copy(enum account_kind kind, enum account_class class, const void *bytes,
                        size_t len);
void account_heap_free(enum account_kind kind, void *p);

/* Pages outside malloc(), so that the caller can return them to the system in small pieces. free()
 * returns all adjacent free memory in one call, once nothing in use lies behind it, and such a call
 * takes about 0.1 ms for each MiB. `len` should be a multiple of the page size. Resizing copies no
 * bytes, and shrinking leaves the pages at their address. */
void *account_request_pages(enum account_kind kind, size_t len);
void *account_resize_pages(enum account_kind kind, void *old, size_t old_len, size_t len);
void account_free_pages(enum account_kind kind, void *p, size_t len);

/* Moves the bytes of a block from one kind to another. */
static inline void account_move(enum account_kind from, enum account_kind to, size_t len)
{
    account.bytes[from] -= account_cost(len);
    account.bytes[to] += account_cost(len);
}

/* "keys", "worker_stores": for /metrics and the log. */
const char *account_kind_name(enum account_kind kind);
