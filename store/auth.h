/* Who may do what to a space's etcd tree: users, roles and the switch, as etcd's v2 auth keeps
 * them.
 *
 * Deterministic: passwords come in hashed, and the caller (rdzv/etcd/auth.c) has merged grants and
 * revocations, so that a command carries the whole new state of one user or role. Changes come only
 * through store_apply(). etcd keeps these data in its tree, so each change takes an index there. */
#pragma once

#include "store/command.h"
#include "store/tree.h"

/* Bytes of all names, hashes and patterns, and of those of one user or role, all of which is copied
 * for each change of it. etcd has no limits and runs out of memory instead. */
#define AUTH_BYTES_MAX (16u << 20)
#define AUTH_ITEM_MAX  (256u << 10)

/* Users and roles live until the next change of them. Lists may be null (absent) or empty, which
 * clients can tell apart. */
struct auth_user {
    struct slice name;
    struct slice hash;
    struct command_list roles; /* names, in the order they were given; need not exist. The user
                                  root always has the role root */
    uint32_t refs;             /* the array, and a snapshot that is being written */
};

struct auth_role {
    struct slice name;
    struct command_list reads; /* patterns of keys; see auth_allows() */
    struct command_list writes;
    struct slice shown; /* JSON members that etcd shows behind the permissions; mostly empty */
    uint32_t refs;      /* 0: it is built in */
};

struct auth {
    const struct auth_user **users; /* both in order of names */
    size_t user_count;
    const struct auth_role **roles; /* the built-in role root is one of them */
    size_t role_count;
    size_t user_room, role_room; /* of the arrays */
    size_t bytes;
    struct quota *quota; /* of the space */
    bool enabled;
    bool exists; /* etcd would have made its directories for users and roles by now */
};

/* `quota` is that of the space. */
void auth_init(struct auth *a, struct quota *quota);
void auth_fini(struct auth *a);

/* --- Changes; for part_*.c alone. --- */

/* Decides about an AUTH_… command. True: *change is what comes of it, if only that the tree takes
 * indexes, as it does when the first change of all is a deletion that fails; *out says what the
 * command came to either way. */
bool auth_check(const struct auth *a, const struct command *c, struct change *change,
                enum auth_status *out);

/* True when a change that was decoded finds what it takes for granted. */
bool auth_can_apply(const struct auth *a, const struct change *change);

/* What auth_apply() takes of the reserve at most. */
size_t auth_memory(const struct auth *a, const struct change *change);

/* No users, no roles, not enabled. What a reset makes of it; it stays an auth that exists. */
bool auth_is_clear(const struct auth *a);
void auth_clear(struct auth *a);

/* Carries out a change that was checked. */
void auth_apply(struct auth *a, struct tree *t, const struct change *change);

/* Puts what a snapshot has of users and roles, which is no change: no index is taken. False: it is
 * none, or memory is short. */
bool auth_load(struct auth *a, struct reserve *reserve, const struct change *change);

/* One holder more or less. */
void auth_user_ref(const struct auth_user *u);
void auth_user_unref(const struct auth_user *u);
void auth_role_ref(const struct auth_role *r);
void auth_role_unref(const struct auth_role *r);

/* --- Reads. --- */

static inline bool auth_enabled(const struct auth *a)
{
    return a->enabled;
}

/* NULL when there is none. The role root is always found. */
const struct auth_user *auth_find_user(const struct auth *a, struct slice name);
const struct auth_role *auth_find_role(const struct auth *a, struct slice name);

bool auth_list_has(const struct command_list *list, struct slice item);

/* May a user (NULL: a client without credentials, who has the role guest) do this, if the switch is
 * on? `key` is what the request's path has behind /v2/keys, with its trailing slash. A pattern that
 * ends in `*` covers all keys that begin with the rest of it, any other one exactly itself. What a
 * user does recursively is covered by the first kind only; guests are not told apart there. */
bool auth_allows(const struct auth *a, const struct auth_user *user, struct slice key, bool write,
                 bool recursive);

/* Has the role root, and so may change users, roles, the switch and members. */
bool auth_is_root(const struct auth_user *user);
