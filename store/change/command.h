/* One command: what a client, or the server itself, asks the store to change. store_check() decides
 * the outcome; the command carries the time, so the store reads no clock. */
#pragma once

#include "proto/bytes.h"

enum command_kind {
    COMMAND_NONE,
    COMMAND_KEY_SET,
    COMMAND_KEY_ADD,
    COMMAND_KEY_COMPARE_SET,
    COMMAND_KEY_APPEND,
    COMMAND_KEY_DELETE,
    COMMAND_KEY_MULTI_SET,
    COMMAND_QUEUE_PUSH,
    COMMAND_QUEUE_POP,
    COMMAND_BARRIER,
    COMMAND_TREE_SET,
    COMMAND_TREE_CREATE,
    COMMAND_TREE_CREATE_IN_ORDER,
    COMMAND_TREE_UPDATE,
    COMMAND_TREE_COMPARE_AND_SWAP,
    COMMAND_TREE_DELETE,
    COMMAND_TREE_COMPARE_AND_DELETE,
    COMMAND_TREE_EXPIRE,   /* the first node that is due; the caller repeats it until none is */
    COMMAND_TREE_POSTPONE, /* all deadlines by `number` ns: nobody could be served meanwhile */
    COMMAND_SPACE_RESET,   /* forgets everything */
    COMMAND_SPACE_FORGET,
    COMMAND_WORKER_STORE_OPEN,
    COMMAND_WORKER_STORE_DROP,
    COMMAND_RUN_PUT,
    COMMAND_RUN_DELETE,
    COMMAND_KINDS,
};

/* The parts of a space: each decides about its commands and applies its changes. */
enum space_part {
    PART_KEYS, /* c10d keys, queues and barriers, the space's own and those of worker stores */
    PART_TREE,
    PART_SPACE,   /* the whole, its worker stores and run records */
    PART_SESSION, /* sessions of relays' clients; no command has this part: see store_change() */
};

/* Which part a command is about; PART_SPACE refuses a command of unknown kind. By range: a new kind
 * goes between the first and the last of its part. */
static inline enum space_part command_part(enum command_kind kind)
{
    if (kind >= COMMAND_KEY_SET && kind <= COMMAND_BARRIER)
        return PART_KEYS;
    if (kind >= COMMAND_TREE_SET && kind <= COMMAND_TREE_POSTPONE)
        return PART_TREE;
    return PART_SPACE;
}

/* Where the workers of a run have their store. */
enum worker_store_placement {
    WORKER_STORE_UNKNOWN, /* agent 0 has not said where */
    WORKER_STORE_RDZVD,   /* in this store */
    WORKER_STORE_WORKER0, /* worker 0 hosts it: torch up to 2.4, or sharing switched off */
};

/* Slices are borrowed for the call that takes the command. What a kind does not use stays zero. */
struct command {
    enum command_kind kind;
    struct slice key;            /* key, queue, barrier, etcd path or run */
    struct slice value;          /* value, desired value. RUN_PUT: the address */
    struct blob *blob;           /* KEY_SET, KEY_COMPARE_SET: the same bytes as `value`, for
                                    the change to keep instead of a copy; the reference stays the
                                    caller's, who changes them no more. NULL: a copy is made */
    struct slice expected;       /* KEY_COMPARE_SET; TREE_COMPARE_…: compared when not empty */
    struct slice items;          /* KEY_MULTI_SET: a checked list of blobs: key, value, … */
    struct batch_lookup *lookup; /* KEY_MULTI_SET: the same, found and prepared; NULL: not */
    int64_t number;        /* KEY_ADD: the delta. KEY_APPEND: the length that the value may get; 0:
                              any. BARRIER: the world size. RUN_PUT: the round.
                              TREE_POSTPONE: ns, more than 0 */
    uint64_t worker_store; /* KEY_…, QUEUE_…, BARRIER: whose keys; 0: the space's own.
                              WORKER_STORE_DROP: which. RUN_PUT: the run's; 0: it has none */
    enum worker_store_placement placement; /* RUN_PUT */
    uint16_t port;                         /* RUN_PUT */
    uint64_t prev_index;                   /* TREE_COMPARE_…: compared when not 0 */
    int64_t expires_ns;                    /* TREE_…: since 1970; 0: permanent */
    int64_t now_ns;                        /* TREE_… and SPACE_RESET: when the command was made */
    bool dir;
    bool recursive;
    bool refresh;
};
