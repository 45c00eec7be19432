/* Gives the pages of the heap's holes back. See heap.h for the contract. */
#include "rdzv/engine/heap.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LOOK_NS    10000000u /* between two looks */
#define PATIENCE   1000u     /* the pause after a check, as a multiple of the check's time */
#define BYTES_A_NS 4u        /* given back: what takes longer than that is looking */
#define HOLE_NS    500u      /* the time to check a hole of a page or more */

/* SORTING_SIZE: a size that no small hole fits, but below malloc()'s limit for mmap(). If malloc()
 * of this size takes less than SORTED_NS, its row of unsorted holes was short; if it takes more
 * than LONG_ROW_NS, malloc() sorted as many holes as it sorts in a single call. */
#define SORTING_SIZE  65000u
#define SORTED_NS     15000u
#define LONG_ROW_NS   200000u
#define SORTINGS_MOST 200u /* then the memory is returned unsorted */

/* If holes have at least this many bytes in all, rdzvd returns them singly; the sizes of the
 * largest holes, which come first, and of the smallest; the time limit per iteration; and how long
 * malloc_trim() then has the rest. */
#define HOLLOW_FROM  (12u << 20)
#define HOLLOW_MOST  (4u << 20)
#define HOLLOW_LEAST (16u << 10)
#define HOLLOW_TIME  700000u   /* ns */
#define HOLLOW_LATER 15000000u /* ns */

/* If the last check took longer, the next one must promise an eighth of the account's bytes. */
#define LONG_LOOK_NS 2000000u

void heap_init(struct heap *h)
{
    size_t resident;

    *h = (struct heap){.page = (size_t)sysconf(_SC_PAGESIZE)};
    h->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    resident = heap_resident(h);
    h->own = resident > account.total ? resident - account.total : 0;
}

/* Holes that were kept are holes again. */
static void fill_hollow(struct heap *h)
{
    while (h->hollow_count > 0)
        free(h->hollow[--h->hollow_count]);
}

void heap_fini(struct heap *h)
{
    fill_hollow(h);
    if (h->statm >= 0)
        close(h->statm);
    h->statm = -1;
}

/* "SIZE RESIDENT SHARED …", in pages. */
size_t heap_resident(const struct heap *h)
{
    char text[100];
    char *end;
    ssize_t n = h->statm < 0 ? -1 : pread(h->statm, text, sizeof text - 1, 0);

    if (n <= 0)
        return 0;
    text[n] = '\0';
    strtoul(text, &end, 10);
    return strtoul(end, NULL, 10) * h->page;
}

/* CPU time, because other processes may use the machine meanwhile. */
static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Freed blocks stand in malloc()'s unsorted row until a request that fits none of them; each such
 * request makes malloc() sort up to 10,000 of them. 100,000 freed values cost malloc_trim() 30 ms,
 * and here some 0.5 ms a step, or 4 ms with cold caches. Returns the time that it took. */
static uint64_t sort_holes(void)
{
    uint64_t began_ns = cpu_ns();
    void *volatile large = malloc(SORTING_SIZE);

    free(large);
    return cpu_ns() - began_ns;
}

/* True if malloc() has sorted its freed blocks, so that the next large request is quick. */
static bool are_holes_sorted(void)
{
    uint64_t took = sort_holes();

    if (took >= SORTED_NS && took < LONG_ROW_NS)
        took = sort_holes(); /* sorts the blocks of this iteration: do more remain? */
    return took < SORTED_NS;
}

/* How long malloc() was looking at holes. */
static uint64_t give_back(struct heap *h, size_t resident, size_t holes)
{
    uint64_t began_ns = cpu_ns(), took;
    size_t now, given;

    malloc_trim(0);
    h->sortings = 0;
    h->held = account.total;
    took = cpu_ns() - began_ns;
    now = heap_resident(h);
    given = now < resident ? resident - now : 0;
    h->left = given < holes ? holes - given : 0;
    h->check_ns = took > given / BYTES_A_NS ? took - given / BYTES_A_NS : 0;
    return h->check_ns;
}

/* --- Hole by hole. --- */

/* Gives the pages of a hole of that size back to the kernel. False if no such hole exists: malloc()
 * extended the heap instead. */
static bool give_back_hole(struct heap *h, size_t size)
{
    const uintptr_t end = (uintptr_t)sbrk(0);
    void *volatile hole = malloc(size);
    const uintptr_t at = (uintptr_t)hole, pages = (at + h->page - 1) / h->page * h->page;

    if (hole == NULL || h->hollow_count == HEAP_HOLLOW_MAX || at >= end ||
        (uintptr_t)sbrk(0) != end) {
        free(hole);
        return false;
    }
    madvise((void *)pages, (at + size - pages) / h->page * h->page, MADV_DONTNEED);
    h->hollow[h->hollow_count++] = hole;
    return true;
}

/* As many as there is time for. False: no more are found. */
static bool give_back_holes(struct heap *h)
{
    uint64_t began_ns = cpu_ns();
    size_t given = 0;

    while (given < HOLLOW_MOST && cpu_ns() - began_ns < HOLLOW_TIME) {
        if (give_back_hole(h, h->hollow_size))
            given += h->hollow_size;
        else if (h->hollow_size > HOLLOW_LEAST)
            h->hollow_size /= 4;
        else
            return false;
    }
    return true;
}

/* True: that is enough for this iteration. */
static bool goes_hole_by_hole(struct heap *h, uint64_t now_ns, size_t fresh)
{
    if (h->hollow_size == 0 && (fresh < HOLLOW_FROM || now_ns < h->hollow_ns))
        return false;
    if (h->hollow_size == 0)
        h->hollow_size = HOLLOW_MOST;
    h->next_ns = now_ns;
    if (fresh >= HOLLOW_LEAST && give_back_holes(h))
        return true;
    fill_hollow(h);
    h->hollow_size = 0;
    h->hollow_ns = now_ns + HOLLOW_LATER;
    return true;
}

/* --- When. --- */

/* True if a check would keep clients waiting too long. The estimate is the worst case, in which all
 * fresh bytes are holes of one page. */
static bool has_no_time(const struct heap *h, uint64_t now_ns, size_t resident, size_t fresh)
{
    if (h->check_ns <= HEAP_CHECK_FREE_NS || h->quiet || resident > account.limit)
        return false;
    return now_ns < h->after_ns || h->check_ns + fresh / h->page * HOLE_NS > HEAP_CHECK_MOST_NS;
}

/* The least bytes of holes that make a check worth its time, if `holes` bytes of them exist. */
static size_t least_holes(const struct heap *h, uint64_t now_ns, size_t holes, size_t worth)
{
    size_t part = 0;

    if (now_ns < h->after_ns && h->check_ns > holes / BYTES_A_NS)
        part = account.total / 4; /* checking would take longer than returning memory */
    else if (h->check_ns > LONG_LOOK_NS)
        part = account.total / 8;
    return worth > part ? worth : part;
}

void heap_trim(struct heap *h, uint64_t now_ns, size_t worth)
{
    size_t resident = heap_resident(h), known = account.total + h->own;
    size_t holes = resident > known ? resident - known : 0, fresh;

    h->total = account.total;
    h->next_ns = now_ns + LOOK_NS;
    if (account.total < h->held / 2) { /* what stood between holes has gone */
        h->left = 0;
        h->held = account.total;
    }
    if (holes < h->left)
        h->left = holes;
    fresh = holes - h->left;
    if (goes_hole_by_hole(h, now_ns, fresh))
        return;
    if (has_no_time(h, now_ns, resident, fresh) || fresh < least_holes(h, now_ns, fresh, worth))
        h->sortings = 0;
    else if (h->sortings++ < SORTINGS_MOST && !are_holes_sorted())
        h->next_ns = now_ns; /* it goes on in the next iteration */
    else
        h->after_ns = now_ns + PATIENCE * give_back(h, resident, holes);
}

/* The account is far smaller than at the last look: the next one should not wait, as what is given
 * back at once takes its time. */
static bool is_trim_due(const struct heap *h, uint64_t now_ns)
{
    return now_ns >= h->next_ns ||
           (h->total > account.total && h->total - account.total > HEAP_WORTH);
}

/* One long row of holes is enough for an iteration: returning memory waits for the next one, unless
 * holes keep coming. */
void heap_check_now(struct heap *h, uint64_t now_ns)
{
    bool has_shrunk = heap_has_shrunk(h), goes_on = has_shrunk && !are_holes_sorted();

    if (account.total > h->sorted || (has_shrunk && !goes_on))
        h->sorted = account.total;
    if (!is_trim_due(h, now_ns) || (goes_on && h->postponed++ < SORTINGS_MOST))
        return;
    h->postponed = 0;
    heap_trim(h, now_ns, h->sortings == 0 && !h->ticked ? HEAP_WORTH : HEAP_WORTH_QUIET);
    h->ticked = false;
}

void heap_tick(struct heap *h, uint64_t requests)
{
    h->quiet = requests == h->requests;
    h->requests = requests;
    h->ticked = true;
    h->next_ns = 0;
}
