/* Gives the pages of the heap's holes back. See heap.h for the contract. */
#include "rdzv/engine/heap.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#define LOOK_NS     10000000u  /* between two looks */
#define HOLES_LEAST (8u << 20) /* bytes that are worth it */
#define PATIENCE    1000u      /* so many times as long as it took, when it was of little use */

void heap_init(struct heap *h, const struct clock *clock)
{
    size_t resident;

    *h = (struct heap){.clock = clock, .page = (size_t)sysconf(_SC_PAGESIZE)};
    h->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    resident = heap_resident(h);
    h->own = resident > account.total ? resident - account.total : 0;
}

void heap_fini(struct heap *h)
{
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

void heap_trim(struct heap *h, uint64_t now_ns)
{
    size_t resident = heap_resident(h), known = account.total + h->own;
    size_t holes = resident > known ? resident - known : 0;

    h->total = account.total;
    h->next_ns = now_ns + LOOK_NS;
    if (holes < HOLES_LEAST + account.total / 8)
        return;
    malloc_trim(0);
    if (heap_resident(h) + holes / 2 > resident)
        h->next_ns += PATIENCE * (clock_monotonic_ns(h->clock) - now_ns);
}
