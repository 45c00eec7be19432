/* The account of memory. See account.h for the contract. */
#include "store/memory/account.h"

#include <malloc.h>
#include <string.h>
#include <sys/mman.h>

struct account account = {
    .limit = SIZE_MAX,
    .low = SIZE_MAX,
    .bound = {SIZE_MAX, SIZE_MAX, SIZE_MAX},
};

void account_set_limit(size_t limit)
{
    size_t kept = limit / 20 > ACCOUNT_KEPT_MIN ? limit / 20 : ACCOUNT_KEPT_MIN;

    if (kept > limit)
        kept = limit; /* nothing, if there is no limit */
    account.limit = limit == 0 ? SIZE_MAX : limit;
    account.bound[ACCOUNT_ORDINARY] = account.limit - kept;
    account.bound[ACCOUNT_SMALL] = account.limit - kept / 2;
    account.bound[ACCOUNT_WATCHING] = account.limit;
    account.low =
        account.bound[ACCOUNT_ORDINARY] - (limit == 0 ? 0 : account.bound[ACCOUNT_ORDINARY] / 16);
}

size_t account_room(enum account_class class)
{
    size_t bound = account.bound[account.watching ? ACCOUNT_WATCHING : class];

    return account.total < bound ? bound - account.total : 0;
}

/* --- What is kept for metrics. --- */

void account_keep_spare(void)
{
    void *p;

    if (account.spare != NULL || !account_has_room(ACCOUNT_ORDINARY, ACCOUNT_SPARE))
        return;
    p = malloc(ACCOUNT_SPARE);
    if (p != NULL) /* nobody is refused anything */
        account.spare = account_taken(ACCOUNT_LOOP, p, malloc_usable_size(p));
}

void account_give_spare(void)
{
    account_heap_free(ACCOUNT_LOOP, account.spare);
    account.spare = NULL;
}

/* --- Counting. --- */

void *account_refused(void)
{
    account.refused++;
    return NULL;
}

/* Counts the block `p` of `len` bytes in the place of one that counted for `before`. NULL: the old
 * block stays. */
static void *account_replaced(enum account_kind kind, size_t before, void *p, size_t len)
{
    if (p != NULL)
        account_left(kind, before);
    return account_taken(kind, p, len);
}

void *account_realloc(enum account_kind kind, void *old, size_t old_len, size_t len)
{
    size_t before = old == NULL ? 0 : account_cost(old_len);

    return account_replaced(kind, before, realloc(old, len), len);
}

void *account_request(enum account_kind kind, enum account_class class, size_t len)
{
    return account_has_room(class, len) ? account_alloc(kind, len) : account_refused();
}

void *account_request_zeroed(enum account_kind kind, enum account_class class, size_t len)
{
    return account_has_room(class, len) ? account_taken(kind, calloc(1, len), len)
                                        : account_refused();
}

/* While it is moved, both are there. */
void *account_resize(enum account_kind kind, enum account_class class, void *old, size_t old_len,
                     size_t len)
{
    return account_has_room(class, len) ? account_realloc(kind, old, old_len, len)
                                        : account_refused();
}

/* --- Memory whose length malloc() knows. --- */

void *account_heap_alloc(enum account_kind kind, size_t len)
{
    void *p = malloc(len);

    return account_taken(kind, p, malloc_usable_size(p));
}

void *account_heap_realloc(enum account_kind kind, void *old, size_t len)
{
    size_t before = old == NULL ? 0 : account_cost(malloc_usable_size(old));
    void *p = realloc(old, len == 0 ? 1 : len);

    return account_replaced(kind, before, p, malloc_usable_size(p));
}

void *account_heap_request(enum account_kind kind, enum account_class class, size_t len)
{
    return account_has_room(class, len) ? account_heap_alloc(kind, len) : account_refused();
}

void *account_heap_request_zeroed(enum account_kind kind, enum account_class class, size_t len)
{
    void *p = account_has_room(class, len) ? calloc(1, len) : NULL;

    return account_taken(kind, p, malloc_usable_size(p));
}

/* While it is moved, both are there. */
void *account_heap_resize(enum account_kind kind, enum account_class class, void *old, size_t len)
{
    return account_has_room(class, len) ? account_heap_realloc(kind, old, len) : account_refused();
}

void *account_heap_copy(enum account_kind kind, enum account_class class, const void *bytes,
                        size_t len)
{
    char *copy = account_heap_request(kind, class, len + 1);

    if (copy == NULL)
        return NULL;
    if (len != 0)
        memcpy(copy, bytes, len);
    copy[len] = '\0';
    return copy;
}

void account_heap_free(enum account_kind kind, void *p)
{
    account_free(kind, p, malloc_usable_size(p));
}

/* --- Pages. --- */

void *account_request_pages(enum account_kind kind, size_t len)
{
    void *p = MAP_FAILED;

    if (account_has_room(ACCOUNT_ORDINARY, len))
        p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return account_taken(kind, p == MAP_FAILED ? NULL : p, len);
}

void *account_resize_pages(enum account_kind kind, void *old, size_t old_len, size_t len)
{
    void *p = MAP_FAILED;

    if (len <= old_len) /* where qemu stands in for the kernel, it would be moved if it might */
        p = mremap(old, old_len, len, 0);
    else if (account_has_room(ACCOUNT_ORDINARY, len - old_len))
        p = mremap(old, old_len, len, MREMAP_MAYMOVE);
    return account_replaced(kind, account_cost(old_len), p == MAP_FAILED ? NULL : p, len);
}

void account_free_pages(enum account_kind kind, void *p, size_t len)
{
    account_left(kind, account_cost(len));
    munmap(p, len);
}

/* --- Names. --- */

const char *account_kind_name(enum account_kind kind)
{
    static const char *const names[ACCOUNT_KINDS] = {
        [ACCOUNT_KEYS] = "keys",       [ACCOUNT_WORKER_STORES] = "worker_stores",
        [ACCOUNT_TREES] = "trees",     [ACCOUNT_HISTORY] = "history",
        [ACCOUNT_RUNS] = "runs",       [ACCOUNT_WAITERS] = "waiters",
        [ACCOUNT_WATCHES] = "watches", [ACCOUNT_ANSWERS] = "answers",
        [ACCOUNT_INPUT] = "input",     [ACCOUNT_SESSIONS] = "sessions",
        [ACCOUNT_TLS] = "tls",         [ACCOUNT_LOOP] = "loop",
        [ACCOUNT_JOURNAL] = "journal", [ACCOUNT_SNAPSHOT] = "snapshot",
    };

    return names[kind];
}
