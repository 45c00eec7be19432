/* What the files of the keymap share; for keymap.c, keymap_queue.c and keymap_wait.c alone. */
#pragma once

#include "store/keymap.h"

/* What a key or an element costs beside its bytes; close enough for a limit. */
#define ENTRY_COST   sizeof(struct entry)
#define ELEMENT_COST (sizeof(struct element) + sizeof(struct blob))

/* What legacy WATCH_KEY calls a change, as on the wire. */
enum keymap_change {
    KEYMAP_UPDATED = 0,
    KEYMAP_CREATED = 1,
    KEYMAP_DELETED = 2,
    KEYMAP_APPENDED = 4,
};

struct entry *keymap_find(const struct keymap *m, struct slice key);

/* Finds the entry, or adds an absent one. NULL when memory is short. */
struct entry *keymap_need(struct keymap *m, struct slice key);

/* Frees an entry that nobody needs: no value, nobody waiting, nobody watching. */
void keymap_release(struct keymap *m, struct entry *e);

/* True when `more` bytes would break the limit of the space. */
bool keymap_too_much(const struct keymap *m, size_t more);

/* True when a value of that length fits at `key`, in the place of what is there. */
bool keymap_has_room(const struct keymap *m, struct slice key, size_t value_len);

/* NULL when there is none; an empty queue does not exist. */
struct queue *keymap_find_queue(const struct keymap *m, struct slice name);

/* The oldest element, off its queue; the reference passes to the caller. Ends the queue when it was
 * the last. */
struct blob *keymap_take(struct keymap *m, struct queue *q);

/* The key exists now: counts for everybody who waits for it. */
void keymap_wake_all(struct keymap *m, struct entry *e);

/* A queue of that name has one element more: counts for one. */
void keymap_wake_one(struct keymap *m, struct slice name);

/* As many have arrived as were to come. */
void keymap_open_barrier(struct keymap *m, struct entry *e);

/* Tells those who watch the key; `old` and `now` are what the wire shows. */
void keymap_tell(struct keymap *m, struct entry *e, enum keymap_change type, struct slice old,
                 struct slice now);
