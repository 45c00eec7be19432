/* The c10d keys and queues of one keymap at one moment, written in slices while clients change
 * them; for snapshot.c and keymap*.c.
 *
 * Keys, queues and elements stand in the order of their creation, and each has a number. The number
 * shows whether a key existed at the moment, and whether the snapshot has it. Before a key changes
 * or is deleted, the snapshot copies its old value (cow_buffer.h), and a key that stays is
 * marked as written. When a keymap forgets all its keys, the snapshot takes over their lists
 * without looking at a key. */
#pragma once

#include "store/disk/cow_buffer.h"
#include "store/keymap/keymap.h"

struct keymap_moment {
    struct keymap *map; /* has a pointer to this; NULL: it has ended, or this has */
    struct cow_buffer *cow;
    const char *name; /* of the space */
    uint64_t worker_store;
    uint32_t snapshot;         /* its number: entries that have it are written */
    struct key_cursor keys;    /* of those that are not written yet */
    uint64_t pushes;           /* keymap.pushes then: elements and queues above it came later */
    struct queue *queue;       /* is written next; NULL: all are */
    struct element *first;     /* of that queue; NULL: none of its elements is written yet */
    struct entry_list entries; /* forgotten since the moment, and perhaps unwritten */
    struct queue_list queues;
    size_t bytes; /* what these counted for */
};

/* `name` lives longer. */
void keymap_moment_begin(struct keymap_moment *k, struct keymap *m, struct cow_buffer *cow,
                         const char *name, uint64_t worker_store, uint32_t snapshot);

/* Adds unwritten keys and elements until the batch has about `bytes` bytes. False: no memory. */
bool keymap_moment_write(struct keymap_moment *k, struct batch *out, size_t bytes);

static inline bool keymap_moment_is_written(const struct keymap_moment *k)
{
    return k->keys.next == NULL && k->queue == NULL;
}

/* Ends the snapshot of this keymap, finished or not; forgotten entries go to `forgotten`. */
void keymap_moment_end(struct keymap_moment *k, struct forgotten_keys *forgotten);

/* --- For changes; keymap->moment is this. Nothing here fails but the snapshot. --- */

/* The value of a key is going to change. `overwritten`: its bytes are, where they stand. */
void keymap_moment_changes(struct keymap_moment *k, struct entry *e, bool overwritten);

/* A key is going to lose its value; it is still in the list. */
void keymap_moment_loses(struct keymap_moment *k, struct entry *e);

/* Called before the oldest element of a queue goes, and with the last element the queue. */
void keymap_moment_pops(struct keymap_moment *k, struct queue *q);

/* Takes over the entries of forgotten keys and empties the lists; false: it needs none of them. */
bool keymap_moment_takes(struct keymap_moment *k, struct entry_list *entries,
                         struct queue_list *queues, size_t bytes);

/* The keymap has ended. */
void keymap_moment_leaves(struct keymap_moment *k);
