/* What a snapshot keeps of the store before it comes to write it: before a key changes or goes
 * while the snapshot is open, its old value is copied. For snapshot.c and keymap_moment.c.
 *
 * Small values are encoded at once, many in one chunk; of large ones a reference is kept, or a copy
 * where the change writes over the value. When memory is short the snapshot fails, and nothing
 * else.
 *
 * The problem: a snapshot must show the store after one batch, and writing it takes many iterations
 * in which clients change the store. Stopping the clients would stop all jobs; fork() would copy
 * the page tables and could double the memory; a copy of all keys would double it for certain. So
 * the snapshot walks the keys in slices, and each change first passes a key that the walk has not
 * reached to cow_put(). The invariant: at each time the file, `items` and the unreached keys
 * together are the store of that batch, and each key is in exactly one of the three.
 * keymap_moment.c and session.c keep it with a number: an entry that carries the snapshot's number
 * is already written or kept. */
#pragma once

#include "proto/queue.h"
#include "store/disk/record.h"
#include "store/memory/blob.h"

struct cow_item;
STAILQ_HEAD(cow_list, cow_item);

struct cow_buffer {
    struct cow_list items; /* in the order of writing */
    struct cow_item *last; /* a chunk that may have room; NULL: none */
    size_t bytes;          /* size of the items */
    bool failed;           /* memory was short: nothing more is kept */
};

void cow_init(struct cow_buffer *a);

/* Keeps a change that is a KEY_PUT, a QUEUE_PUSH or a SNAPSHOT_HELD of this value, or any other
 * small one with `value` NULL. `overwritten`: the value's bytes are going to change. `name` is the
 * space's, and lives longer. */
void cow_put(struct cow_buffer *a, const char *name, const struct change *change,
             struct blob *value, bool overwritten);

/* Moves kept changes to the batch until it has about `bytes` bytes. False: memory is short. */
bool cow_write(struct cow_buffer *a, struct batch *out, size_t bytes);

/* Frees one item; false: there is none. */
bool cow_free_one(struct cow_buffer *a);
