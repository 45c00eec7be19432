/* Bytes in many blobs. See blob_list.h for the contract. */
#include "store/blob_list.h"

#define FIRST_ITEMS 16

void blob_list_init(struct blob_list *l, enum account_kind kind)
{
    *l = (struct blob_list){.kind = kind};
}

void blob_list_fini(struct blob_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        blob_unref(l->items[i]);
    account_free(l->kind, l->items, l->cap * sizeof(struct blob *));
    blob_list_init(l, l->kind);
}

static bool widen(struct blob_list *l)
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

/* Of the next one. */
static size_t next_room(const struct blob_list *l, size_t least)
{
    size_t room = l->count == 0 ? BLOB_LIST_ROOM_FIRST : 2 * l->items[l->count - 1]->len;

    room = room < least ? least : room;
    return room < BLOB_LIST_ROOM ? room : BLOB_LIST_ROOM;
}

void blob_list_add(struct blob_list *l, size_t least)
{
    struct blob *b;

    seal(l);
    b = l->failed || !widen(l) ? NULL : blob_alloc(l->kind, next_room(l, least));
    if (b == NULL) {
        l->failed = true;
        return;
    }
    l->items[l->count++] = b;
    l->w = (struct writer){.ptr = b->bytes, .cap = b->len};
}

/* What is little in the last one is not held in much. */
static bool shrink(struct blob_list *l)
{
    struct blob *b;
    size_t len = l->w.len;

    if (l->w.cap == 0)
        return true;
    b = account_realloc(l->kind, l->items[l->count - 1], blob_size(l->items[l->count - 1]),
                        sizeof *b + len);
    if (b == NULL)
        return false;
    l->items[l->count - 1] = blob_begin(b, l->kind, len);
    l->w.cap = len;
    return true;
}

bool blob_list_end(struct blob_list *l)
{
    if (l->failed || !shrink(l))
        return false;
    seal(l);
    return true;
}
