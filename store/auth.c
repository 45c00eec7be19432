/* Users, roles and the auth switch of a space. See auth.h for the contract.
 *
 * Upstream: etcd 3.4.23, etcdserver/api/v2auth/auth.go. */
#include "store/auth.h"

#include <stdlib.h>

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

static bool needs_root_role(const struct auth_user *u)
{
    return slice_is(u->name, "root") && !auth_list_has(&u->roles, root_role.name);
}

/* What the copy takes that is kept. */
static size_t bytes_of_user(const struct auth_user *u)
{
    size_t bytes = sizeof *u + u->name.len + u->hash.len + bytes_of_list(&u->roles);

    return bytes + (needs_root_role(u) ? sizeof(struct slice) + root_role.name.len : 0);
}

static size_t bytes_of_role(const struct auth_role *r)
{
    return sizeof *r + r->name.len + r->shown.len + bytes_of_list(&r->reads) +
           bytes_of_list(&r->writes);
}

/* The number is all that changes of one that is kept. */
static uint32_t *refs_of_user(const struct auth_user *u)
{
    return &((struct auth_user *)(uintptr_t)u)->refs;
}

static uint32_t *refs_of_role(const struct auth_role *r)
{
    return &((struct auth_role *)(uintptr_t)r)->refs;
}

void auth_user_ref(const struct auth_user *u)
{
    ++*refs_of_user(u);
}

void auth_user_unref(const struct auth_user *u)
{
    if (--*refs_of_user(u) == 0)
        account_free(ACCOUNT_USERS, (void *)(uintptr_t)u, bytes_of_user(u));
}

void auth_role_ref(const struct auth_role *r)
{
    if (r != &root_role)
        ++*refs_of_role(r);
}

void auth_role_unref(const struct auth_role *r)
{
    if (r != &root_role && --*refs_of_role(r) == 0)
        account_free(ACCOUNT_USERS, (void *)(uintptr_t)r, bytes_of_role(r));
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

/* The user root gets its role, behind those that were named. */
static struct auth_user *copy_user(struct reserve *reserve, const struct auth_user *u)
{
    struct auth_user *copy = reserve_alloc(reserve, ACCOUNT_USERS, bytes_of_user(u));
    struct room room;

    room.slices = (struct slice *)(copy + 1);
    room.bytes = (uint8_t *)(room.slices + u->roles.count + needs_root_role(u));
    copy->refs = 1;
    copy->name = keep(&room, u->name);
    copy->hash = keep(&room, u->hash);
    copy->roles = keep_list(&room, &u->roles);
    if (needs_root_role(u)) {
        *room.slices = keep(&room, root_role.name);
        copy->roles.count++;
        copy->roles.absent = false;
    }
    return copy;
}

static struct auth_role *copy_role(struct reserve *reserve, const struct auth_role *r)
{
    struct auth_role *copy = reserve_alloc(reserve, ACCOUNT_USERS, bytes_of_role(r));
    struct room room;

    room.slices = (struct slice *)(copy + 1);
    room.bytes = (uint8_t *)(room.slices + r->reads.count + r->writes.count);
    copy->refs = 1;
    copy->name = keep(&room, r->name);
    copy->reads = keep_list(&room, &r->reads);
    copy->writes = keep_list(&room, &r->writes);
    copy->shown = keep(&room, r->shown);
    return copy;
}

/* --- Checks. --- */

/* What `name` takes now; 0 when there is none of it. */
static size_t bytes_of_old_user(const struct auth *a, struct slice name)
{
    const struct auth_user *old = auth_find_user(a, name);

    return old == NULL ? 0 : bytes_of_user(old);
}

static size_t bytes_of_old_role(const struct auth *a, struct slice name)
{
    const struct auth_role *old = auth_find_role(a, name);

    return old == NULL ? 0 : bytes_of_role(old);
}

/* True when `size` bytes fit in the place of `old` ones. */
static bool fits(const struct auth *a, size_t old, size_t size)
{
    size_t others = a->bytes - old;

    return size <= AUTH_ITEM_MAX && others <= AUTH_BYTES_MAX && size <= AUTH_BYTES_MAX - others &&
           quota_has_room(a->quota, old, size);
}

static struct auth_user user_of(const struct auth_user_put *c)
{
    return (struct auth_user){.name = c->name, .hash = c->hash, .roles = c->roles};
}

static struct auth_role role_of(const struct auth_role_put *c)
{
    return (struct auth_role){
        .name = c->name, .reads = c->reads, .writes = c->writes, .shown = c->shown};
}

/* Guests may do everything until there is another role of that name. */
static struct auth_role guest_role(void)
{
    return (struct auth_role){
        .name = slice_str("guest"), .reads = root_role.reads, .writes = root_role.writes};
}

static enum auth_status check_user_put(const struct auth *a, const struct auth_user_put *c)
{
    const struct auth_user user = user_of(c);
    size_t old = bytes_of_old_user(a, c->name);

    return fits(a, old, bytes_of_user(&user)) ? AUTH_OK : AUTH_NO_ROOM;
}

static enum auth_status check_role_put(const struct auth *a, const struct auth_role_put *c)
{
    const struct auth_role role = role_of(c);

    if (slice_equal(c->name, root_role.name))
        return AUTH_ROOT_ROLE;
    return fits(a, bytes_of_old_role(a, c->name), bytes_of_role(&role)) ? AUTH_OK : AUTH_NO_ROOM;
}

static enum auth_status check_user_delete(const struct auth *a, struct slice name)
{
    if (a->enabled && slice_is(name, "root"))
        return AUTH_ROOT_NEEDED;
    return auth_find_user(a, name) == NULL ? AUTH_NOT_FOUND : AUTH_OK;
}

static enum auth_status check_role_delete(const struct auth *a, struct slice name)
{
    if (slice_equal(name, root_role.name))
        return AUTH_ROOT_ROLE;
    return auth_find_role(a, name) == NULL ? AUTH_NOT_FOUND : AUTH_OK;
}

static enum auth_status check_switch(const struct auth *a, bool enabled)
{
    const struct auth_role guest = guest_role();

    if (a->enabled == enabled)
        return AUTH_UNCHANGED;
    if (!enabled)
        return AUTH_OK;
    if (auth_find_user(a, root_role.name) == NULL)
        return AUTH_NO_ROOT;
    return auth_find_role(a, guest.name) != NULL || fits(a, 0, bytes_of_role(&guest))
               ? AUTH_OK
               : AUTH_NO_ROOM;
}

/* Whether a change may be made. */
static enum auth_status judge(const struct auth *a, const struct change *change)
{
    switch (change->kind) {
    case CHANGE_AUTH_USER_PUT:
        return check_user_put(a, &change->user_put);
    case CHANGE_AUTH_USER_DELETE:
        return check_user_delete(a, change->name);
    case CHANGE_AUTH_ROLE_PUT:
        return check_role_put(a, &change->role_put);
    case CHANGE_AUTH_ROLE_DELETE:
        return check_role_delete(a, change->name);
    case CHANGE_AUTH_SWITCH:
        return check_switch(a, change->auth_enabled);
    default: /* CHANGE_AUTH_TOUCH */
        return AUTH_UNCHANGED;
    }
}

/* What the command asks for. */
static void asked_for(const struct command *c, struct change *change)
{
    static const enum change_kind kinds[] = {
        [COMMAND_AUTH_USER_PUT] = CHANGE_AUTH_USER_PUT,
        [COMMAND_AUTH_USER_DELETE] = CHANGE_AUTH_USER_DELETE,
        [COMMAND_AUTH_ROLE_PUT] = CHANGE_AUTH_ROLE_PUT,
        [COMMAND_AUTH_ROLE_DELETE] = CHANGE_AUTH_ROLE_DELETE,
        [COMMAND_AUTH_ENABLE] = CHANGE_AUTH_SWITCH,
        [COMMAND_AUTH_DISABLE] = CHANGE_AUTH_SWITCH,
        [COMMAND_AUTH_TOUCH] = CHANGE_AUTH_TOUCH,
    };

    change->kind = kinds[c->kind];
    if (change->kind == CHANGE_AUTH_USER_PUT)
        change->user_put =
            (struct auth_user_put){.name = c->key, .hash = c->value, .roles = c->names};
    else if (change->kind == CHANGE_AUTH_ROLE_PUT)
        change->role_put = (struct auth_role_put){
            .name = c->key, .reads = c->names, .writes = c->writes, .shown = c->value};
    else if (change->kind == CHANGE_AUTH_SWITCH)
        change->auth_enabled = c->kind == COMMAND_AUTH_ENABLE;
    else
        change->name = c->key;
}

/* etcd makes its directories before it writes or deletes anything in them, not before it finds that
 * there is nothing to write: a deletion that fails can be the first change. */
bool auth_check(const struct auth *a, const struct command *c, struct change *change,
                enum auth_status *out)
{
    asked_for(c, change);
    *out = judge(a, change);
    if (*out == AUTH_OK)
        return true;
    if (a->exists || (*out != AUTH_NOT_FOUND && c->kind != COMMAND_AUTH_TOUCH))
        return false;
    change->kind = CHANGE_AUTH_TOUCH;
    return true;
}

/* It had room when it was made; limits may be others now. */
bool auth_can_apply(const struct auth *a, const struct change *change)
{
    enum auth_status status = judge(a, change);

    return change->kind == CHANGE_AUTH_TOUCH ? !a->exists
                                             : status == AUTH_OK || status == AUTH_NO_ROOM;
}

static size_t user_memory(const struct auth *a, const struct auth_user *user)
{
    return reserve_cost(bytes_of_user(user)) + reserve_cost((a->user_count + 1) * sizeof *a->users);
}

static size_t role_memory(const struct auth *a, const struct auth_role *role)
{
    return reserve_cost(bytes_of_role(role)) + reserve_cost((a->role_count + 1) * sizeof *a->roles);
}

size_t auth_memory(const struct auth *a, const struct change *change)
{
    const struct auth_role guest = guest_role();
    struct auth_user user;
    struct auth_role role;

    if (change->kind == CHANGE_AUTH_USER_PUT) {
        user = user_of(&change->user_put);
        return user_memory(a, &user);
    }
    if (change->kind != CHANGE_AUTH_ROLE_PUT && change->kind != CHANGE_AUTH_SWITCH)
        return 0;
    role = change->kind == CHANGE_AUTH_SWITCH ? guest : role_of(&change->role_put);
    return role_memory(a, &role);
}

/* --- Changes. --- */

/* Room for one more. */
static void *make_place(struct reserve *reserve, void *things, size_t count, size_t *room,
                        size_t at)
{
    void **place = reserve_realloc(reserve, ACCOUNT_USERS, things, *room * sizeof *place,
                                   (count + 1) * sizeof *place);

    *room = count + 1;
    memmove(place + at + 1, place + at, (count - at) * sizeof *place);
    return place;
}

static void close_gap(void *things, size_t count, size_t at)
{
    void **gap = (void **)things + at;

    memmove(gap, gap + 1, (count - at - 1) * sizeof *gap);
}

static void put_user(struct auth *a, struct reserve *reserve, const struct auth_user *user)
{
    size_t at;
    struct auth_user *copy = copy_user(reserve, user);

    if (find_user(a, user->name, &at)) {
        quota_keep(a->quota, &a->bytes, 0, bytes_of_user(a->users[at]));
        auth_user_unref(a->users[at]);
    } else {
        a->users = make_place(reserve, a->users, a->user_count, &a->user_room, at);
        a->user_count++;
    }
    a->users[at] = copy;
    quota_keep(a->quota, &a->bytes, bytes_of_user(copy), 0);
}

static void put_role(struct auth *a, struct reserve *reserve, const struct auth_role *role)
{
    size_t at;
    struct auth_role *copy = copy_role(reserve, role);

    if (find_role(a, role->name, &at)) {
        quota_keep(a->quota, &a->bytes, 0, bytes_of_role(a->roles[at]));
        auth_role_unref(a->roles[at]);
    } else {
        a->roles = make_place(reserve, a->roles, a->role_count, &a->role_room, at);
        a->role_count++;
    }
    a->roles[at] = copy;
    quota_keep(a->quota, &a->bytes, bytes_of_role(copy), 0);
}

static void delete_user(struct auth *a, struct slice name)
{
    size_t at;

    find_user(a, name, &at);
    quota_keep(a->quota, &a->bytes, 0, bytes_of_user(a->users[at]));
    auth_user_unref(a->users[at]);
    close_gap(a->users, a->user_count--, at);
}

static void delete_role(struct auth *a, struct slice name)
{
    size_t at;

    find_role(a, name, &at);
    quota_keep(a->quota, &a->bytes, 0, bytes_of_role(a->roles[at]));
    auth_role_unref(a->roles[at]);
    close_gap(a->roles, a->role_count--, at);
}

static void enable(struct auth *a, struct tree *t)
{
    const struct auth_role guest = guest_role();

    a->enabled = true;
    if (auth_find_role(a, guest.name) != NULL)
        return;
    put_role(a, t->reserve, &guest);
    tree_bump_index(t);
}

static void change_data(struct auth *a, struct tree *t, const struct change *change)
{
    struct auth_user user;
    struct auth_role role;

    switch (change->kind) {
    case CHANGE_AUTH_USER_PUT:
        user = user_of(&change->user_put);
        put_user(a, t->reserve, &user);
        break;
    case CHANGE_AUTH_USER_DELETE:
        delete_user(a, change->name);
        break;
    case CHANGE_AUTH_ROLE_PUT:
        role = role_of(&change->role_put);
        put_role(a, t->reserve, &role);
        break;
    case CHANGE_AUTH_ROLE_DELETE:
        delete_role(a, change->name);
        break;
    case CHANGE_AUTH_SWITCH:
        a->enabled = false;
        if (change->auth_enabled)
            enable(a, t);
        break;
    default: /* CHANGE_AUTH_TOUCH */
        break;
    }
}

void auth_apply(struct auth *a, struct tree *t, const struct change *change)
{
    change_data(a, t, change);
    for (int i = 0; !a->exists && i < AUTH_FIRST_INDEXES; i++)
        tree_bump_index(t);
    a->exists = true;
    if (change->kind != CHANGE_AUTH_TOUCH)
        tree_bump_index(t);
}

bool auth_load(struct auth *a, struct reserve *reserve, const struct change *change)
{
    struct auth_user user;
    struct auth_role role;

    if (change->kind == CHANGE_SNAPSHOT_USER) {
        user = user_of(&change->user_put);
        if (auth_find_user(a, user.name) != NULL || !reserve_hold(reserve, user_memory(a, &user)))
            return false;
        put_user(a, reserve, &user);
    } else {
        role = role_of(&change->role_put);
        if (auth_find_role(a, role.name) != NULL || !reserve_hold(reserve, role_memory(a, &role)))
            return false;
        put_role(a, reserve, &role);
    }
    reserve_settle(reserve);
    return true;
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

void auth_init(struct auth *a, struct quota *quota)
{
    *a = (struct auth){.role_count = 1, .role_room = 1, .quota = quota};
    a->roles = account_alloc(ACCOUNT_USERS, sizeof *a->roles);
    if (a->roles == NULL)
        abort(); /* spaces are made at start */
    a->roles[0] = &root_role;
}

bool auth_is_clear(const struct auth *a)
{
    return a->user_count == 0 && a->role_count == 1 && !a->enabled;
}

static void free_all(struct auth *a)
{
    for (size_t i = 0; i < a->user_count; i++)
        auth_user_unref(a->users[i]);
    for (size_t i = 0; i < a->role_count; i++)
        auth_role_unref(a->roles[i]);
}

void auth_clear(struct auth *a)
{
    free_all(a);
    a->roles[0] = &root_role;
    a->role_count = 1;
    a->user_count = 0;
    quota_keep(a->quota, &a->bytes, 0, a->bytes);
    a->enabled = false;
}

void auth_fini(struct auth *a)
{
    free_all(a);
    account_free(ACCOUNT_USERS, a->users, a->user_room * sizeof *a->users);
    account_free(ACCOUNT_USERS, a->roles, a->role_room * sizeof *a->roles);
    *a = (struct auth){0};
}
