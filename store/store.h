/* The store: spaces, each with keys, queues and an etcd tree of its own, and the one way in which
 * they change. Deterministic: no sockets, no clock, no threads, no callbacks into the server. The
 * clients that a change wakes are taken off the ready list with store_next_ready().
 *
 * A command is what a client asks. store_check() decides about it: limits, comparisons, memory.
 * What it lets through is a change, the outcome, and store_apply() carries that out and cannot
 * fail. A replay decodes changes, asks store_can_apply() and applies them. */
#pragma once

#include "store/disk/record.h"
#include "store/space.h"

struct store_options {
    uint64_t seed; /* for the hash tables; unguessable where peers are not trusted */
    const struct key_groups
        *key_groups;        /* of a space's own keys; NULL: none, see struct key_groups */
    size_t space_bytes_max; /* of all that one space keeps; of what waits in it, once more; 0: no
                               limit. See quota.h */
};

struct store {
    struct store_options options;
    struct space_list spaces;
    struct ready_list ready;
    struct reserve reserve;
    struct lazy_free lazy_free; /* what was forgotten, and is not freed yet: lazy_free_run() */
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

/* By now all waiters and watches are ended. */
void store_fini(struct store *s);

/* Returns the space of that name; creates it if it does not exist. Spaces live as long as the
 * store. */
struct space *store_space(struct store *s, const char *name);
struct space *store_find_space(const struct store *s, struct slice name);

/* Decides about a command, and changes nothing. True: *change is what comes of it, to be written
 * down and applied before anything else happens to the store; the memory for it is held. False:
 * nothing is to change. *out says what the command came to, as far as it is known already. */
bool store_check(struct store *s, struct space *space, const struct command *command,
                 struct change *change, struct store_result *out);

/* For a change that was decoded, in the place of store_check(): true when the space has what the
 * change takes for granted, and there is memory. */
bool store_can_apply(struct store *s, struct space *space, const struct change *change);

/* Carries out a change that was let through. Cannot fail. *out is what store_check() left, or all
 * zeros. */
void store_apply(struct store *s, struct space *space, const struct change *change,
                 struct store_result *out);

/* A command from its beginning to its end: checked, written down in `batch` (NULL: nowhere),
 * applied. False: it changed nothing. */
bool store_execute(struct store *s, struct space *space, const struct command *command,
                   struct batch *batch, struct store_result *out);

/* False while memory is short (see account_is_short()): forgets old events of etcd's trees until
 * memory suffices or no event is left. */
bool store_spare_history(struct store *s);

/* True when so many bytes may be taken; old events of etcd's trees go for it. Not from within a
 * change. */
bool store_make_room(struct store *s, enum account_class class, size_t len);

/* A change that no command makes, from its beginning to its end. STORE_ABSENT: it does not fit to
 * what there is. STORE_NO_MEMORY, STORE_READ_ONLY: as of a command. */
enum store_status store_change(struct store *s, struct space *space, const struct change *change,
                               struct batch *batch);

/* The next one who was woken, in order of waking, taken off the list; NULL when there is none. */
struct wake *store_next_ready(struct store *s);
