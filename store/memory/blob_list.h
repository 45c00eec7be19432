/* Bytes of any length in many blobs: what is too long to be written, copied or freed in one
 * piece. */
#pragma once

#include "store/memory/blob.h"
#include "store/memory/lazy_free.h"

/* The first is small, each next one twice as long, up to this with struct blob: pages that are
 * taken and given back by themselves. */
#define BLOB_LIST_FIRST (16u << 10)
#define BLOB_LIST_PAGES (256u << 10)

/* The most that blob_list_room() gives. */
#define BLOB_LIST_ROOM (BLOB_LIST_PAGES - sizeof(struct blob))

struct blob_list {
    struct blob **items;
    size_t count;
    size_t cap;
    size_t bytes;    /* of all but the one that is being written */
    struct writer w; /* the room of that one */
    enum account_kind kind;
    bool failed; /* memory was short; what is written is lost */
};

void blob_list_init(struct blob_list *l, enum account_kind kind);

/* Blobs that have no other holder are freed in slices, or with NULL at once. */
void blob_list_free(struct blob_list *l, struct lazy_free *f);

/* For blob_list_room(). */
void blob_list_add(struct blob_list *l, size_t least);

/* A writer with room for `len` bytes (at most BLOB_LIST_ROOM) in one piece. When memory is short,
 * one without room, which counts. */
static inline struct writer *blob_list_room(struct blob_list *l, size_t len)
{
    if (l->w.cap - l->w.len < len)
        blob_list_add(l, len);
    return &l->w;
}

/* All is written. False: memory was short at some time. */
bool blob_list_end(struct blob_list *l);

/* How much is written so far. */
static inline size_t blob_list_len(const struct blob_list *l)
{
    return l->bytes + l->w.len;
}
