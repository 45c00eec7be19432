/* The list of memory that is freed in slices. See lazy_free.h for the contract. */
#include "store/memory/lazy_free.h"

void lazy_free_init(struct lazy_free *f)
{
    *f = (struct lazy_free){0};
    TAILQ_INIT(&f->list);
}

void lazy_free_add(struct lazy_free *f, struct lazy *l, size_t bytes)
{
    struct lazy_free now;

    if (f == NULL) {
        lazy_free_init(&now);
        lazy_free_add(&now, l, bytes);
        lazy_free_run(&now, SIZE_MAX);
        return;
    }
    if (!lazy_is_listed(l)) {
        TAILQ_INSERT_TAIL(&f->list, l, entry);
        bytes += bytes == 0; /* so that a listed item never looks unlisted */
    }
    l->bytes += bytes;
    f->bytes += bytes;
}

void lazy_free_add_first(struct lazy_free *f, struct lazy *l, size_t bytes)
{
    lazy_free_add(f, l, bytes);
    if (f == NULL)
        return;
    TAILQ_REMOVE(&f->list, l, entry);
    TAILQ_INSERT_HEAD(&f->list, l, entry);
}

void lazy_free_count(struct lazy_free *f, struct lazy *l, size_t bytes)
{
    if (bytes >= l->bytes)
        bytes = l->bytes - 1;
    l->bytes -= bytes;
    f->bytes -= bytes;
}

void lazy_free_remove(struct lazy_free *f, struct lazy *l)
{
    if (!lazy_is_listed(l))
        return;
    TAILQ_REMOVE(&f->list, l, entry);
    f->bytes -= l->bytes;
    l->bytes = 0;
}

void lazy_free_run(struct lazy_free *f, size_t count)
{
    size_t most = count == SIZE_MAX ? SIZE_MAX : LAZY_FREE_BYTES_MOST, total = account.total;
    struct lazy *l;

    while (count > 0 && total - account.total <= most && (l = TAILQ_FIRST(&f->list)) != NULL)
        count -= l->free_some(f, l, count);
}

/* --- Pages. --- */

/* The header of a free block of pages, at its start. */
struct lazy_pages {
    struct lazy lazy; /* the first member */
    enum account_kind kind;
    size_t len;
};

/* From their end. */
#define UNMAPPED_AT_A_TIME (1u << 20)
static size_t unmap_some(struct lazy_free *f, struct lazy *l, size_t)
{
    struct lazy_pages *p = (struct lazy_pages *)l;
    size_t len = p->len, left = len > UNMAPPED_AT_A_TIME ? len - UNMAPPED_AT_A_TIME : 0;

    if (left != 0 && account_resize_pages(p->kind, p, len, left) != NULL) {
        p->len = left;
        lazy_free_count(f, l, len - left);
        return 1;
    }
    lazy_free_remove(f, l);
    account_free_pages(p->kind, p, len);
    return 1;
}

void lazy_free_pages(struct lazy_free *f, enum account_kind kind, void *p, size_t len)
{
    struct lazy_pages *pages = p;

    *pages = (struct lazy_pages){.lazy = {.free_some = unmap_some}, .kind = kind, .len = len};
    lazy_free_add(f, &pages->lazy, len);
}
