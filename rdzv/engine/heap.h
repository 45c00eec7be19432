/* What malloc() holds beyond what is asked of it. Values of all lengths that come and go leave
 * holes, and a heap gives back what is at its end alone: the process would stay several times as
 * large as what it keeps, and grow beyond --memory-limit, which counts what is kept. So the pages
 * of the holes are given back to the kernel from time to time.
 *
 * malloc() offers that for the whole heap at once, holes that have been given back before included.
 * It takes some 0.15 ms for each MiB that goes, so it is done as soon as some MiB are to be had:
 * never much at once. And it takes some 0.5 us for each hole of a page or more, so if that was the
 * larger part of it, it waits for a thousand times as long as that took, unless the holes grow to a
 * quarter of what is kept; and if that is some milliseconds, until they are an eighth.
 *
 * It cannot be cut into parts. A client that deletes every second one of a million values leaves
 * holes that take a quarter of a second to look at. A look of some milliseconds is a wait that a
 * client may have now and then: it is made when so much time has passed since the last one that
 * it is a thousandth of it. One that would take more than HEAP_LOOK_MOST_NS, for all that is known,
 * waits for a second in which nobody asks for anything, or until the process is larger than
 * --memory-limit.
 *
 * Large holes are another matter: malloc() finds one for a request of its size, and its pages can
 * be given back as long as the request has it. So where holes have many bytes, rdzvd asks for them
 * one by one, the largest first, a few MiB in each iteration, and keeps them until malloc() finds
 * no more: else it would find the same ones again. What is left is for malloc_trim().
 *
 * What was freed stands in a row, of which malloc() sorts up to 10,000 small holes into its lists
 * before it looks for a large one: some milliseconds when they are in no cache any more. So they
 * are sorted as they come, while they are, in each iteration that has freed some. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/memory/account.h"

#define HEAP_HOLLOW_MAX 4096u

struct heap {
    int statm;           /* /proc/self/statm, -1: there is none, and nothing is ever given back */
    size_t page;         /* bytes */
    size_t own;          /* resident bytes that the account knows nothing of */
    size_t total;        /* of the account, at the last look */
    size_t sorted;       /* of the account, when the last holes of it were sorted */
    size_t held;         /* of the account, when it was last tried to give all back */
    size_t left;         /* holes that cannot be given back: the fewest since that was tried */
    uint64_t next_ns;    /* no look before that time */
    uint64_t after_ns;   /* and no trying, unless there are far more holes */
    uint64_t looking_ns; /* how long looking at them took, the last time */
    unsigned sortings;   /* small holes that had to be sorted first: in so many iterations */
    unsigned postponed;  /* a look that is due, while holes are sorted: by so many iterations */
    void *hollow[HEAP_HOLLOW_MAX]; /* holes whose pages are given back, kept for a while */
    size_t hollow_count;
    size_t hollow_size; /* of those that are looked for next; 0: none are */
    uint64_t hollow_ns; /* none are looked for before that time */
    uint64_t requests;  /* that there had been at the last tick */
    bool quiet;         /* and that were as many at the one before */
    bool ticked;        /* a second is over since the last look */
};

void heap_init(struct heap *h);
void heap_fini(struct heap *h);

/* How many bytes are resident; 0 when that is not known. */
size_t heap_resident(const struct heap *h);

/* Gives holes of so many bytes back, if there are. */
void heap_trim(struct heap *h, uint64_t now_ns, size_t worth);

/* Bytes of holes that are worth it at any time; and that are once a second, when refilling them
 * does not count. */
#define HEAP_WORTH       (8u << 20)
#define HEAP_WORTH_QUIET (256u << 10)

/* Longer than that it does not look while there are clients to wait for it; and longer than the
 * second only now and then. */
#define HEAP_LOOK_MOST_NS 12000000u
#define HEAP_LOOK_FREE_NS 4000000u

/* Each second: so many requests there have been. The look at the end of this iteration gives back
 * what is worth it when there is time. */
void heap_tick(struct heap *h, uint64_t requests);

/* Holes of so many bytes are not sorted one by one. */
#define HEAP_SORTED_BYTES (64u << 10)

/* For heap_look(). */
void heap_look_now(struct heap *h, uint64_t now_ns);

/* True when holes have come since the last ones were sorted. */
static inline bool heap_has_shrunk(const struct heap *h)
{
    return h->sorted > account.total && h->sorted - account.total > HEAP_SORTED_BYTES;
}

/* True: there is more to do in the next iteration, and nothing to wait for. */
static inline bool heap_has_work(const struct heap *h)
{
    return h->hollow_size != 0 || h->sortings != 0;
}

/* At the end of each iteration. */
static inline void heap_look(struct heap *h, uint64_t now_ns)
{
    if (now_ns >= h->next_ns || heap_has_shrunk(h))
        heap_look_now(h, now_ns);
}
