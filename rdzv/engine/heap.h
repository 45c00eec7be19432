/* Gives memory that malloc() holds in holes back to the kernel. Values of all lengths that come and
 * go leave holes in the heap, and malloc() itself returns only the end of the heap. So the process
 * would stay several times as large as its data, and grow beyond --memory-limit, which counts only
 * the data.
 *
 * malloc_trim() treats the whole heap at once, including holes whose pages the kernel already has.
 * It takes 0.15 ms for each MiB that it returns, so it runs as soon as holes have a few MiB: then
 * each run is short. It also takes 0.5 us to check each hole of a page or more. If checking was the
 * larger part of the last run, the next run waits a thousand times as long, unless the holes grow
 * to a quarter of the data; if checking took some milliseconds, it waits until they are an eighth.
 *
 * malloc_trim() cannot be cut into slices. A client that deletes every second one of a million
 * values leaves holes that take a quarter of a second to look at. Clients can bear a wait of some
 * milliseconds now and then, so such a look may use a thousandth of the time. If a look is expected
 * to take more than HEAP_CHECK_MOST_NS, it waits for a second without requests, or until the
 * process is larger than --memory-limit.
 *
 * Large holes are another matter: malloc() finds one for a request of its size, and its pages can
 * be returned while the request holds it. So if the holes have many bytes, rdzvd requests them one
 * by one, the largest first, a few MiB in each iteration, and holds them until malloc() finds no
 * more: otherwise malloc() would return the same holes again. malloc_trim() handles the rest.
 *
 * malloc() keeps freed blocks in an unsorted row. Before it looks for a large hole, it sorts up to
 * 10,000 blocks of this row into its lists, which takes some milliseconds if the CPU's caches do
 * not hold them. So each iteration that has freed blocks sorts them at its end, while the CPU's
 * caches hold them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/memory/account.h"

#define HEAP_HOLLOW_MAX 4096u

struct heap {
    int statm;          /* /proc/self/statm; -1: unreadable, so rdzvd returns no memory */
    size_t page;        /* bytes */
    size_t own;         /* resident bytes that the account knows nothing of */
    size_t total;       /* of the account, at the last look */
    size_t sorted;      /* the account's total when its last holes were sorted */
    size_t held;        /* the account's total at the latest attempt to return all memory */
    size_t left;        /* holes that cannot be given back: the fewest since that was tried */
    uint64_t next_ns;   /* no look before that time */
    uint64_t after_ns;  /* no malloc_trim() before, except if the holes have grown far */
    uint64_t check_ns;  /* how long looking at them took, the last time */
    unsigned sortings;  /* iterations in which small holes had to be sorted first */
    unsigned postponed; /* a look that is due, while holes are sorted: by so many iterations */
    void *hollow[HEAP_HOLLOW_MAX]; /* holes whose pages are given back, kept for a while */
    size_t hollow_count;
    size_t hollow_size; /* of those that are looked for next; 0: none are */
    uint64_t hollow_ns; /* none are looked for before that time */
    uint64_t requests;  /* the count at the latest tick */
    bool quiet;         /* the last second had no requests */
    bool ticked;        /* a second is over since the last look */
};

void heap_init(struct heap *h);
void heap_fini(struct heap *h);

/* How many bytes are resident; 0 when that is not known. */
size_t heap_resident(const struct heap *h);

/* Gives holes of so many bytes back, if there are. */
void heap_trim(struct heap *h, uint64_t now_ns, size_t worth);

/* Bytes of holes that are worth a malloc_trim() at any time; and once a second, when the cost of
 * new page faults does not matter. */
#define HEAP_WORTH       (8u << 20)
#define HEAP_WORTH_QUIET (256u << 10)

/* The longest look while clients are active; and the longest look that may run at any time. */
#define HEAP_CHECK_MOST_NS 12000000u
#define HEAP_CHECK_FREE_NS 4000000u

/* Called each second: `requests` is the daemon's count. The check at the end of this iteration
 * returns memory that is worth it, if there is time. */
void heap_tick(struct heap *h, uint64_t requests);

/* If fewer bytes were freed since the last sort, the freed blocks stay unsorted. */
#define HEAP_SORTED_BYTES (64u << 10)

/* For heap_check(). */
void heap_check_now(struct heap *h, uint64_t now_ns);

/* True if more than HEAP_SORTED_BYTES were freed since the last sort. */
static inline bool heap_has_shrunk(const struct heap *h)
{
    return h->sorted > account.total && h->sorted - account.total > HEAP_SORTED_BYTES;
}

/* True if the next iteration has more work here, so the loop must not sleep. */
static inline bool heap_has_work(const struct heap *h)
{
    return h->hollow_size != 0 || h->sortings != 0;
}

/* At the end of each iteration. */
static inline void heap_check(struct heap *h, uint64_t now_ns)
{
    if (now_ns >= h->next_ns || heap_has_shrunk(h))
        heap_check_now(h, now_ns);
}
