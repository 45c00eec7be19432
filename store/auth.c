/* Users, roles and the auth switch of a space. See auth.h for the contract.
 *
 * Upstream: etcd 3.4, etcdserver/api/v2auth/auth.go; the spec folder's etcd-v2.md, sections 10 and
 * 12. */
#include "store/auth.h"

#include "store/xalloc.h"

/* What etcd's first change of auth data takes by itself: three directories and the switch. */
#define AUTH_FIRST_INDEXES 4

static const struct slice everything[] = {{(const uint8_t *)"/*", 2}};

static const struct auth_role root_role = {
    .name = {(const uint8_t *)"root", 4},
    .reads = {everything, 1, false},
    .writes = {everything, 1, false},
};

/* --- Sorted arrays of things that begin with their name. --- */

static struct slice name_of(const void *thing)
{
    return *(const struct slice *)thing;
}

_Static_assert(offsetof(struct auth_user, name) == 0 && offsetof(struct auth_role, name) == 0,
               "name_of() takes either");

/* True: *at is where the name is. False: where it belongs. */
static bool search(const void *const *things, size_t count, struct slice name, size_t *at)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (slice_compare(name_of(things[middle]), name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *at = low;
    return low < count && slice_equal(name_of(things[low]), name);
}

static bool find_user(const struct auth *a, struct slice name, size_t *at)
{
    return search((const void *const *)a->users, a->user_count, name, at);
}

static bool find_role(const struct auth *a, struct slice name, size_t *at)
{
    return search((const void *const *)a->roles, a->role_count, name, at);
}

/* --- Users and roles, each one piece of memory: the struct, its lists, its bytes. --- */

static size_t bytes_of_list(const struct command_list *list)
{
    size_t bytes = list->count * sizeof *list->items;

    for (size_t i = 0; i < list->count; i++)
        bytes += list->items[i].len;
    return bytes;
}

static size_t bytes_of_user(const struct auth_user *u)
{
    return sizeof *u + u->name.len + u->hash.len + bytes_of_list(&u->roles);
}

static size_t bytes_of_role(const struct auth_role *r)
{
    return sizeof *r + r->name.len + r->shown.len + bytes_of_list(&r->reads) +
           bytes_of_list(&r->writes);
}

/* Where the copy goes: slices grow from the front of the room, bytes follow behind them. */
struct room {
    struct slice *slices;
    uint8_t *bytes;
};

static struct slice keep(struct room *room, struct slice s)
{
    struct slice kept = {room->bytes, s.len};

    if (s.len != 0)
        memcpy(room->bytes, s.ptr, s.len);
    room->bytes += s.len;
    return kept;
}

static struct command_list keep_list(struct room *room, const struct command_list *list)
{
    struct command_list kept = {room->slices, list->count, list->absent};

    for (size_t i = 0; i < list->count; i++)
        *room->slices++ = keep(room, list->items[i]);
    return kept;
}

static struct auth_user *copy_user(const struct auth_user *u)
{
    struct auth_user *copy = malloc(bytes_of_user(u));
    struct room room;

    if (copy == NULL)
        return NULL;
    room.slices = (struct slice *)(copy + 1);
    room.bytes = (uint8_t *)(room.slices + u->roles.count);
    copy->name = keep(&room, u->name);
    copy->hash = keep(&room, u->hash);
    copy->roles = keep_list(&room, &u->roles);
    return copy;
}

static struct auth_role *copy_role(const struct auth_role *r)
{
    struct auth_role *copy = malloc(bytes_of_role(r));
    struct room room;

    if (copy == NULL)
        return NULL;
    room.slices = (struct slice *)(copy + 1);
    room.bytes = (uint8_t *)(room.slices + r->reads.count + r->writes.count);
    copy->name = keep(&room, r->name);
    copy->reads = keep_list(&room, &r->reads);
    copy->writes = keep_list(&room, &r->writes);
    copy->shown = keep(&room, r->shown);
    return copy;
}

/* --- Changes. --- */

/* Room for one more. The memory is a few bytes for each user that exists, so this may abort. */
static void *make_place(void *things, size_t count, size_t at)
{
    void **place = xrealloc(things, (count + 1) * sizeof *place);

    memmove(place + at + 1, place + at, (count - at) * sizeof *place);
    return place;
}

static void close_gap(void *things, size_t count, size_t at)
{
    void **gap = (void **)things + at;

    memmove(gap, gap + 1, (count - at - 1) * sizeof *gap);
}

/* Takes the place of `old` bytes with `new` ones, if they fit. */
static bool account(struct auth *a, size_t old, size_t new)
{
    size_t rest = a->bytes - old;

    if (new > AUTH_BYTES_MAX - rest)
        return false;
    a->bytes = rest + new;
    return true;
}

static enum auth_status put_user(struct auth *a, const struct auth_user *user)
{
    size_t at;
    bool found = find_user(a, user->name, &at);
    size_t old = found ? bytes_of_user(a->users[at]) : 0;
    struct auth_user *copy = copy_user(user);

    if (copy == NULL || !account(a, old, bytes_of_user(copy))) {
        free(copy);
        return AUTH_NO_ROOM;
    }
    if (found) {
        free((void *)a->users[at]);
    } else {
        a->users = make_place(a->users, a->user_count, at);
        a->user_count++;
    }
    a->users[at] = copy;
    return AUTH_OK;
}

/* Gives the user root its role, behind those that were named. */
static enum auth_status put_root_user(struct auth *a, const struct auth_user *user)
{
    struct auth_user with_role = *user;
    enum auth_status status;
    struct slice *roles;

    if (auth_list_has(&user->roles, root_role.name))
        return put_user(a, user);
    roles = malloc((user->roles.count + 1) * sizeof *roles);
    if (roles == NULL)
        return AUTH_NO_ROOM;
    if (user->roles.count != 0)
        memcpy(roles, user->roles.items, user->roles.count * sizeof *roles);
    roles[user->roles.count] = root_role.name;
    with_role.roles = (struct command_list){roles, user->roles.count + 1, false};
    status = put_user(a, &with_role);
    free(roles);
    return status;
}

static enum auth_status put_role(struct auth *a, const struct auth_role *role)
{
    size_t at, old;
    struct auth_role *copy;
    bool found = find_role(a, role->name, &at);

    if (slice_equal(role->name, root_role.name))
        return AUTH_ROOT_ROLE;
    old = found ? bytes_of_role(a->roles[at]) : 0;
    copy = copy_role(role);
    if (copy == NULL || !account(a, old, bytes_of_role(copy))) {
        free(copy);
        return AUTH_NO_ROOM;
    }
    if (found) {
        free((void *)a->roles[at]);
    } else {
        a->roles = make_place(a->roles, a->role_count, at);
        a->role_count++;
    }
    a->roles[at] = copy;
    return AUTH_OK;
}

static enum auth_status delete_user(struct auth *a, struct slice name)
{
    size_t at;

    if (a->enabled && slice_is(name, "root"))
        return AUTH_ROOT_NEEDED;
    if (!find_user(a, name, &at))
        return AUTH_NOT_FOUND;
    a->bytes -= bytes_of_user(a->users[at]);
    free((void *)a->users[at]);
    close_gap(a->users, a->user_count--, at);
    return AUTH_OK;
}

static enum auth_status delete_role(struct auth *a, struct slice name)
{
    size_t at;

    if (slice_equal(name, root_role.name))
        return AUTH_ROOT_ROLE;
    if (!find_role(a, name, &at))
        return AUTH_NOT_FOUND;
    a->bytes -= bytes_of_role(a->roles[at]);
    free((void *)a->roles[at]);
    close_gap(a->roles, a->role_count--, at);
    return AUTH_OK;
}

/* Guests may do everything until someone says otherwise. */
static enum auth_status enable(struct auth *a, struct tree *t)
{
    const struct auth_role guest = {
        .name = slice_str("guest"),
        .reads = root_role.reads,
        .writes = root_role.writes,
    };

    if (a->enabled)
        return AUTH_UNCHANGED;
    if (auth_find_user(a, root_role.name) == NULL)
        return AUTH_NO_ROOT;
    if (auth_find_role(a, guest.name) == NULL) {
        enum auth_status status = put_role(a, &guest);

        if (status != AUTH_OK)
            return status;
        tree_take_index(t);
    }
    a->enabled = true;
    return AUTH_OK;
}

static enum auth_status disable(struct auth *a)
{
    if (!a->enabled)
        return AUTH_UNCHANGED;
    a->enabled = false;
    return AUTH_OK;
}

static enum auth_status change(struct auth *a, struct tree *t, const struct command *c)
{
    const struct auth_user user = {.name = c->key, .hash = c->value, .roles = c->names};
    const struct auth_role role = {
        .name = c->key, .reads = c->names, .writes = c->writes, .shown = c->value};

    switch (c->kind) {
    case COMMAND_AUTH_USER_PUT:
        return slice_is(c->key, "root") ? put_root_user(a, &user) : put_user(a, &user);
    case COMMAND_AUTH_USER_DELETE:
        return delete_user(a, c->key);
    case COMMAND_AUTH_ROLE_PUT:
        return put_role(a, &role);
    case COMMAND_AUTH_ROLE_DELETE:
        return delete_role(a, c->key);
    case COMMAND_AUTH_ENABLE:
        return enable(a, t);
    case COMMAND_AUTH_DISABLE:
        return disable(a);
    default: /* COMMAND_AUTH_TOUCH: only makes sure that there are auth data */
        return AUTH_UNCHANGED;
    }
}

/* etcd makes its directories before it writes or deletes anything in them, not before it finds that
 * there is nothing to write. */
static bool makes_auth_data(const struct command *c, enum auth_status status)
{
    return status == AUTH_OK || status == AUTH_NOT_FOUND || c->kind == COMMAND_AUTH_TOUCH;
}

bool auth_apply(struct auth *a, struct tree *t, const struct command *command,
                enum auth_status *out)
{
    bool first;

    *out = change(a, t, command);
    first = !a->exists && makes_auth_data(command, *out);
    if (first) {
        a->exists = true;
        for (int i = 0; i < AUTH_FIRST_INDEXES; i++)
            tree_take_index(t);
    }
    if (*out == AUTH_OK)
        tree_take_index(t);
    return first || *out == AUTH_OK;
}

/* --- Reads. --- */

const struct auth_user *auth_find_user(const struct auth *a, struct slice name)
{
    size_t at;

    return find_user(a, name, &at) ? a->users[at] : NULL;
}

const struct auth_role *auth_find_role(const struct auth *a, struct slice name)
{
    size_t at;

    return find_role(a, name, &at) ? a->roles[at] : NULL;
}

bool auth_list_has(const struct command_list *list, struct slice item)
{
    for (size_t i = 0; i < list->count; i++) {
        if (slice_equal(list->items[i], item))
            return true;
    }
    return false;
}

static bool covers(struct slice pattern, struct slice key, bool recursive)
{
    if (pattern.len != 0 && pattern.ptr[pattern.len - 1] == '*')
        return slice_starts_with(key, (struct slice){pattern.ptr, pattern.len - 1});
    return !recursive && slice_equal(pattern, key);
}

static bool role_allows(const struct auth_role *r, struct slice key, bool write, bool recursive)
{
    const struct command_list *patterns = write ? &r->writes : &r->reads;

    if (r == &root_role)
        return true;
    for (size_t i = 0; i < patterns->count; i++) {
        if (covers(patterns->items[i], key, recursive))
            return true;
    }
    return false;
}

bool auth_allows(const struct auth *a, const struct auth_user *user, struct slice key, bool write,
                 bool recursive)
{
    const struct auth_role *role;

    if (!a->enabled)
        return true;
    if (user == NULL) {
        role = auth_find_role(a, slice_str("guest"));
        return role != NULL && role_allows(role, key, write, false);
    }
    for (size_t i = 0; i < user->roles.count; i++) {
        role = auth_find_role(a, user->roles.items[i]);
        if (role != NULL && role_allows(role, key, write, recursive))
            return true;
    }
    return false;
}

bool auth_is_root(const struct auth_user *user)
{
    return auth_list_has(&user->roles, root_role.name);
}

/* --- The whole. --- */

void auth_init(struct auth *a)
{
    *a = (struct auth){.role_count = 1};
    a->roles = xcalloc(1, sizeof *a->roles);
    a->roles[0] = &root_role;
}

void auth_fini(struct auth *a)
{
    for (size_t i = 0; i < a->user_count; i++)
        free((void *)a->users[i]);
    for (size_t i = 0; i < a->role_count; i++) {
        if (a->roles[i] != &root_role)
            free((void *)a->roles[i]);
    }
    free(a->users);
    free(a->roles);
    *a = (struct auth){0};
}
