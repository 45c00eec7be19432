/* For no_memory.py: a malloc() that fails on command, loaded with LD_PRELOAD. The test shares the
 * page in the file $FAIL_MALLOC, and writes there which call must fail. */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>

#include "tests/support/preload.h"

struct page {
    volatile int64_t left;   /* calls until the one that fails; 0: none does */
    volatile int64_t all;    /* 1: after the failure, only freed bytes serve later calls */
    volatile int64_t failed; /* how many have */
    volatile int64_t least;  /* bytes: a call for less neither counts nor fails */
};

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *p);

static struct page *page;
static int64_t freed; /* bytes, since the k-th call */

__attribute__((constructor)) static void find_page(void)
{
    page = preload_page("FAIL_MALLOC", sizeof *page);
}

/* What malloc() takes for them, about. */
static int64_t cost(size_t size)
{
    return (int64_t)size + 16;
}

static int fails(size_t size)
{
    if (page == NULL || page->left == 0) {
        freed = 0;
        return 0;
    }
    if ((int64_t)size < page->least)
        return 0;
    if (page->left > 1) {
        page->left--;
        return 0;
    }
    if (page->all && cost(size) <= freed) {
        freed -= cost(size);
        return 0;
    }
    if (!page->all)
        page->left = 0;
    page->failed++;
    return 1;
}

static void give_back(void *p)
{
    if (p != NULL && page != NULL && page->left == 1)
        freed += cost(malloc_usable_size(p));
}

void *malloc(size_t size)
{
    return fails(size) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails(count * size) ? NULL : __libc_calloc(count, size);
}

/* Pages of one's own, which rdzvd asks for by these alone. */
void *mmap(void *at, size_t len, int protection, int flags, int fd, off_t offset)
{
    static void *(*next)(void *, size_t, int, int, int, off_t);

    preload_next(&next, "mmap");
    if (fd < 0 && fails(len)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return next(at, len, protection, flags, fd, offset);
}

/* Never to a place of the caller's choice. What gets shorter stays where it is. */
void *mremap(void *old, size_t old_len, size_t len, int flags, ...)
{
    static void *(*next)(void *, size_t, size_t, int, ...);

    preload_next(&next, "mremap");
    if (len > old_len && fails(len)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return next(old, old_len, len, flags);
}

/* What gets shorter stays where it is. */
void *realloc(void *old, size_t size)
{
    if (old != NULL && size <= malloc_usable_size(old))
        return __libc_realloc(old, size);
    if (fails(size))
        return NULL;
    give_back(old);
    return __libc_realloc(old, size);
}

void free(void *p)
{
    give_back(p);
    __libc_free(p);
}
