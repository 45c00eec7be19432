/* Bytes of any length in many blobs: what is too long to be written, copied or freed in one
 * piece. */
#pragma once

#include "store/blob.h"

/* What fits into each of them; into the first ones less, so that what is short takes little. The
 * large ones are pages of their own, which malloc() takes and gives back by themselves (see
 * main.c): it gives back what borders on each other in one piece, and a hundred megabytes of that
 * take ten milliseconds. */
#define BLOB_LIST_ROOM       ((256u << 10) - sizeof(struct blob) - 32)
#define BLOB_LIST_ROOM_FIRST (16u << 10)

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
void blob_list_fini(struct blob_list *l);

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
