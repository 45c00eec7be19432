/* One change of the store. A command is all that a change depends on: applying the same commands in
 * the same order to an empty store gives the same store. What the clock says comes in with it. */
#pragma once

#include "proto/bytes.h"

/* The numbers are those of proto/command.proto. */
enum command_kind {
    COMMAND_NONE = 0,
    COMMAND_KEY_SET = 1,
    COMMAND_KEY_ADD = 2,
    COMMAND_KEY_COMPARE_SET = 3,
    COMMAND_KEY_APPEND = 4,
    COMMAND_KEY_DELETE = 5,
    COMMAND_KEY_MULTI_SET = 6,
    COMMAND_QUEUE_PUSH = 7,
    COMMAND_QUEUE_POP = 8,
    COMMAND_BARRIER = 9,
    COMMAND_TREE_SET = 20,
    COMMAND_TREE_CREATE = 21,
    COMMAND_TREE_CREATE_IN_ORDER = 22,
    COMMAND_TREE_UPDATE = 23,
    COMMAND_TREE_COMPARE_AND_SWAP = 24,
    COMMAND_TREE_DELETE = 25,
    COMMAND_TREE_COMPARE_AND_DELETE = 26,
    COMMAND_TREE_EXPIRE = 27,
    COMMAND_AUTH_USER_PUT = 40,
    COMMAND_AUTH_USER_DELETE = 41,
    COMMAND_AUTH_ROLE_PUT = 42,
    COMMAND_AUTH_ROLE_DELETE = 43,
    COMMAND_AUTH_ENABLE = 44,
    COMMAND_AUTH_DISABLE = 45,
    COMMAND_AUTH_TOUCH = 46, /* a change that was refused, but made etcd set up its auth data */
    COMMAND_SPACE_RESET = 60,
    COMMAND_SPACE_FORGET = 61,
    COMMAND_RUN_WORLD = 70,
    COMMAND_RUN_OFFER = 71,
    COMMAND_RUN_WORKERS = 72,
    COMMAND_RUN_FORGET = 73,
    COMMAND_WORLD_FORGET = 74,
};

/* Which world a kind belongs to; of a kind that is none of ours, none. */
static inline bool command_is_key(enum command_kind kind)
{
    return kind >= COMMAND_KEY_SET && kind <= COMMAND_BARRIER;
}

static inline bool command_is_tree(enum command_kind kind)
{
    return kind >= COMMAND_TREE_SET && kind <= COMMAND_TREE_EXPIRE;
}

static inline bool command_is_auth(enum command_kind kind)
{
    return kind >= COMMAND_AUTH_USER_PUT && kind <= COMMAND_AUTH_TOUCH;
}

static inline bool command_is_space(enum command_kind kind)
{
    return kind == COMMAND_SPACE_RESET || kind == COMMAND_SPACE_FORGET;
}

/* What concerns torch's runs and their workers' keys; see store.h. */
static inline bool command_is_run(enum command_kind kind)
{
    return kind >= COMMAND_RUN_WORLD && kind <= COMMAND_WORLD_FORGET;
}

/* A list of names or patterns; `absent` tells null from an empty one. */
struct command_list {
    const struct slice *items;
    size_t count;
    bool absent;
};

/* Slices are borrowed for the call that takes the command. What a kind does not use stays zero. */
struct command {
    enum command_kind kind;
    struct slice key;      /* key, queue, barrier, etcd path, user or role. RUN_…: the run's key;
                              RUN_OFFER: the round's key that agent 0 has set */
    struct slice value;    /* value, desired value, password hash. RUN_WORKERS: the address */
    struct slice expected; /* KEY_COMPARE_SET; TREE_COMPARE_…: compared when not empty.
                              RUN_WORKERS: the port */
    struct slice items;    /* KEY_MULTI_SET: a checked list of blobs: key, value, … */
    int64_t number;        /* KEY_ADD: the delta. BARRIER: the world size. RUN_WORKERS: enum
                              run_workers */
    uint64_t world;      /* KEY_…, QUEUE_…, BARRIER, WORLD_FORGET: its number; 0: no world's */
    uint64_t prev_index; /* TREE_COMPARE_…: compared when not 0 */
    int64_t expires_ns;  /* TREE_…: since 1970; 0: permanent */
    int64_t now_ns;      /* TREE_… and SPACE_RESET: when the command was made */
    bool dir;
    bool recursive;
    bool refresh;
    struct command_list names;  /* AUTH_USER_PUT: roles. AUTH_ROLE_PUT: patterns of reading */
    struct command_list writes; /* AUTH_ROLE_PUT: patterns of writing */
};
