/* The store: spaces, each with keys, queues and an etcd tree of its own, and the only way to change
 * them. Deterministic: no sockets, no clock, no threads, no callbacks into the server. Clients that
 * a change wakes stand on the ready list; store_next_ready() takes them off.
 *
 * A command is what a client asks. store_check() decides about it: limits, comparisons, memory.
 * What it lets through is a change, the outcome, and store_apply() carries that out and cannot
 * fail. A replay decodes changes, asks store_can_apply() and applies them. */
#pragma once

#include "store/disk/record.h"
#include "store/space.h"

struct store_options {
    uint64_t seed; /* for the hash tables; unguessable where peers are not trusted */
    const struct key_groups *key_groups; /* of a space's own keys; NULL: none */
    size_t space_bytes_max; /* of all that one space keeps; of what waits in it, once more; 0: no
                               limit. See quota.h */
};

struct store {
    struct store_options options;
    struct space_list spaces;
    struct ready_list ready;
    struct reserve reserve;
    struct lazy_free lazy_free; /* removed memory that waits to be freed: lazy_free_run() */
    struct forgotten_keys forgotten;
    struct snapshot *snapshot; /* the one that is being written; NULL: none */
    uint32_t snapshots;        /* how many there were */
    struct snapshot_loading {
        int64_t time_ns;  /* the latest of those that batch_end() was given; 0: none */
        uint64_t records; /* so many have been loaded */
        bool is_done;     /* the last one, too */
    } loading;
};

void store_init(struct store *s, const struct store_options *options);

/* All waiters and watches must have ended before. */
void store_fini(struct store *s);

/* Returns the space of that name, and creates it if necessary. It lives as long as the store. */
struct space *store_space(struct store *s, struct slice name);
struct space *store_find_space(const struct store *s, struct slice name);

/* Decides about a command, and changes nothing. True: *change is the outcome, with memory reserved;
 * the caller must journal and apply it before any other call changes the store. False: no change.
 * *out is the result as far as it is known. */
bool store_check(struct store *s, struct space *space, const struct command *command,
                 struct change *change, struct store_result *out);

/* For a decoded change, in place of store_check(): true if the space is in the state that the
 * change assumes, and there is memory. */
bool store_can_apply(struct store *s, struct space *space, const struct change *change);

/* Applies an admitted change, and cannot fail. *out is what store_check() left, or all zeros. */
void store_apply(struct store *s, struct space *space, const struct change *change,
                 struct store_result *out);

/* Executes a command: checks it, encodes the change into `batch` (NULL: nowhere), and applies it.
 * False: nothing has changed. */
bool store_execute(struct store *s, struct space *space, const struct command *command,
                   struct batch *batch, struct store_result *out);

/* False while memory is short (see account_is_short()): forgets old events of etcd's trees until
 * memory suffices or no event is left. */
bool store_spare_history(struct store *s);

/* True if so many bytes are free, perhaps without old events of etcd. Not within a change. */
bool store_make_room(struct store *s, enum account_class class, size_t len);

/* Executes a change that has no command. STORE_ABSENT: the change does not fit the present state.
 * STORE_NO_MEMORY, STORE_READ_ONLY: as for a command. */
enum store_status store_change(struct store *s, struct space *space, const struct change *change,
                               struct batch *batch);

/* The next one who was woken, in order of waking, taken off the list; NULL when there is none. */
struct wake *store_next_ready(struct store *s);
