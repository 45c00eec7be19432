/* The memory of half a request. See inbuf.h for the contract. */
#include "rdzv/net/inbuf.h"

#include <string.h>

#define PAGES_FROM (1u << 20)
#define PAGE       4096u

static bool is_paged(size_t size)
{
    return size >= PAGES_FROM;
}

void inbuf_free(struct input **in, struct lazy_free *g)
{
    size_t size = *in == NULL ? 0 : inbuf_size((*in)->cap);

    if (is_paged(size))
        lazy_free_pages(g, ACCOUNT_INPUT, *in, size);
    else
        account_free(ACCOUNT_INPUT, *in, size);
    *in = NULL;
}

/* Between the heap and pages of its own. */
static struct input *inbuf_move(struct input *old, struct lazy_free *g, enum account_class class,
                                size_t size)
{
    struct input *in = is_paged(size) ? account_request_pages(ACCOUNT_INPUT, size)
                                      : account_request(ACCOUNT_INPUT, class, size);

    if (in == NULL)
        return NULL;
    memcpy(in, old, inbuf_size(old->len));
    inbuf_free(&old, g);
    return in;
}

bool inbuf_resize(struct input **in, struct lazy_free *g, enum account_class class, size_t cap)
{
    size_t size = inbuf_size(cap), before = inbuf_size((*in)->cap);
    struct input *moved;

    if (is_paged(size))
        size = (size + PAGE - 1) / PAGE * PAGE;
    if (is_paged(size) != is_paged(before))
        moved = inbuf_move(*in, g, class, size);
    else if (is_paged(size))
        moved = account_resize_pages(ACCOUNT_INPUT, *in, before, size);
    else if (size > before)
        moved = account_resize(ACCOUNT_INPUT, class, *in, before, size);
    else
        moved = account_realloc(ACCOUNT_INPUT, *in, before, size);
    if (moved == NULL)
        return false;
    moved->cap = size - inbuf_size(0);
    *in = moved;
    return true;
}
