/* Bytes in many blobs. See blob_list.h for the contract. */
#include "store/memory/blob_list.h"

#define FIRST_ITEMS 16 /* pointers */

void blob_list_init(struct blob_list *l, enum account_kind kind)
{
    *l = (struct blob_list){.kind = kind};
}

/* Giving pages back takes the kernel longer than all else. */
static void free_blob(struct blob *b, struct lazy_free *f)
{
    if (f != NULL && b->paged && b->refs == 1)
        lazy_free_pages(f, (enum account_kind)b->kind, b, blob_size(b));
    else
        blob_unref(b);
}

void blob_list_free(struct blob_list *l, struct lazy_free *f)
{
    for (size_t i = 0; i < l->count; i++)
        free_blob(l->items[i], f);
    account_free(l->kind, l->items, l->cap * sizeof(struct blob *));
    blob_list_init(l, l->kind);
}

static bool blob_list_widen(struct blob_list *l)
{
    size_t cap = l->cap == 0 ? FIRST_ITEMS : 2 * l->cap;
    struct blob **wider;

    if (l->count < l->cap)
        return true;
    wider = account_resize(l->kind, account_class_of(cap * sizeof *wider), l->items,
                           l->cap * sizeof *wider, cap * sizeof *wider);
    if (wider == NULL)
        return false;
    l->items = wider;
    l->cap = cap;
    return true;
}

/* No more is written to the last one. */
static void seal(struct blob_list *l)
{
    if (l->w.cap != 0)
        blob_leave_spare(l->items[l->count - 1], l->w.cap - l->w.len);
    l->bytes += l->w.len;
    l->w = (struct writer){0};
}

static struct blob *alloc(enum account_kind kind, size_t size)
{
    struct blob *b;

    if (size < BLOB_LIST_PAGES)
        return blob_alloc(kind, size - sizeof *b);
    b = account_request_pages(kind, BLOB_LIST_PAGES);
    if (b == NULL)
        return NULL;
    blob_begin(b, kind, BLOB_LIST_ROOM);
    b->paged = true;
    return b;
}

void blob_list_add(struct blob_list *l, size_t least)
{
    size_t size = l->count == 0 ? BLOB_LIST_FIRST : 2 * blob_size(l->items[l->count - 1]);
    struct blob *b;

    seal(l);
    if (size < least + sizeof *b)
        size = least + sizeof *b;
    b = l->failed || !blob_list_widen(l) ? NULL : alloc(l->kind, size);
    if (b == NULL) {
        l->failed = true;
        return;
    }
    l->items[l->count++] = b;
    l->w = (struct writer){.ptr = b->bytes, .cap = b->len};
}

/* What is little in the last one is not held in much. Of pages, those that were not used are not
 * there. */
static bool shrink(struct blob_list *l)
{
    struct blob *b = l->count == 0 ? NULL : l->items[l->count - 1];

    if (b == NULL || b->paged)
        return true;
    b = account_realloc(l->kind, b, blob_size(b), sizeof *b + l->w.len);
    if (b == NULL)
        return false;
    l->items[l->count - 1] = blob_begin(b, l->kind, l->w.len);
    l->w.cap = l->w.len;
    return true;
}

bool blob_list_end(struct blob_list *l)
{
    if (l->failed || !shrink(l))
        return false;
    seal(l);
    return true;
}
