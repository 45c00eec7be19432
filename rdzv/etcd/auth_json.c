/* The JSON of etcd's auth endpoints. See auth_json.h for the contract.
 *
 * Upstream: Go's encoding/json on the structs User and Role of etcd 3.4's
 * etcdserver/api/v2auth/auth.go: member names are found in upper and lower case, a later member
 * wins over an earlier one, null leaves a string or a struct as it is and unsets a list. */
#include "rdzv/etcd/auth_json.h"

#include <stdlib.h>

#include "proto/json.h"
#include "proto/json_read.h"

/* --- Reading. --- */

/* Room for every list element and every string of a text, allocated at once. */
struct room {
    struct slice *slices;
    uint8_t *bytes;
};

/* Every element of an array stands behind a bracket or a comma. */
static size_t count_elements(struct slice text)
{
    size_t count = 0;

    for (size_t i = 0; i < text.len; i++)
        count += text.ptr[i] == '[' || text.ptr[i] == ',';
    return count;
}

/* Returns the memory, NULL when there is none. */
static void *make_room(struct slice text, struct room *room)
{
    size_t slices = count_elements(text) * sizeof *room->slices;
    uint8_t *memory = malloc(slices + JSON_UNQUOTED_MAX(text.len));

    room->slices = (struct slice *)(void *)memory;
    room->bytes = memory + slices;
    return memory;
}

static bool read_string(struct room *room, struct slice value, struct slice *out)
{
    if (json_kind(value) == JSON_NULL)
        return true;
    if (json_kind(value) != JSON_STRING)
        return false;
    *out = (struct slice){room->bytes, json_unquote(value, room->bytes)};
    room->bytes += out->len;
    return true;
}

static bool read_list(struct room *room, struct slice value, struct command_list *out)
{
    struct command_list list = {.items = room->slices};
    struct slice element;

    if (json_kind(value) == JSON_NULL) {
        *out = (struct command_list){.absent = true};
        return true;
    }
    if (json_kind(value) != JSON_ARRAY)
        return false;
    while (json_next_element(&value, &element)) {
        *room->slices = (struct slice){0};
        if (!read_string(room, element, room->slices++))
            return false;
        list.count++;
    }
    *out = list;
    return true;
}

static bool read_patterns(struct room *room, struct slice value, struct auth_permissions *out)
{
    struct slice name, member;

    if (json_kind(value) == JSON_NULL)
        return true;
    if (json_kind(value) != JSON_OBJECT)
        return false;
    while (json_next_member(&value, &name, &member)) {
        if (json_name_is(name, "read") && !read_list(room, member, &out->reads))
            return false;
        if (json_name_is(name, "write") && !read_list(room, member, &out->writes))
            return false;
    }
    return true;
}

static const struct auth_permissions no_permissions = {
    .reads = {.absent = true},
    .writes = {.absent = true},
};

static bool read_permissions(struct room *room, struct slice value, struct auth_permissions *out)
{
    struct slice name, member;

    if (json_kind(value) == JSON_NULL)
        return true;
    if (json_kind(value) != JSON_OBJECT)
        return false;
    out->given = true;
    while (json_next_member(&value, &name, &member)) {
        if (json_name_is(name, "kv") && !read_patterns(room, member, out))
            return false;
    }
    return true;
}

/* Grants and revocations are pointers in etcd: null takes away what an earlier member said. */
static bool read_change(struct room *room, struct slice value, struct auth_permissions *out)
{
    if (json_kind(value) == JSON_NULL)
        *out = no_permissions;
    return read_permissions(room, value, out);
}

static bool read_user_member(struct room *room, struct slice name, struct slice value,
                             struct auth_user_json *out)
{
    if (json_name_is(name, "user"))
        return read_string(room, value, &out->user);
    if (json_name_is(name, "password"))
        return read_string(room, value, &out->password);
    if (json_name_is(name, "roles"))
        return read_list(room, value, &out->roles);
    if (json_name_is(name, "grant"))
        return read_list(room, value, &out->grant);
    if (json_name_is(name, "revoke"))
        return read_list(room, value, &out->revoke);
    return true;
}

static bool read_role_member(struct room *room, struct slice name, struct slice value,
                             struct auth_role_json *out)
{
    if (json_name_is(name, "role"))
        return read_string(room, value, &out->role);
    if (json_name_is(name, "permissions"))
        return read_permissions(room, value, &out->permissions);
    if (json_name_is(name, "grant"))
        return read_change(room, value, &out->grant);
    if (json_name_is(name, "revoke"))
        return read_change(room, value, &out->revoke);
    return true;
}

/* The value that a body begins with: an object, or null, which has no members. */
static bool take_object(struct slice body, struct slice *value)
{
    struct json_error why;

    if (!json_take(body, false, value, &why))
        return false;
    if (json_kind(*value) == JSON_NULL)
        *value = slice_str("{}");
    return json_kind(*value) == JSON_OBJECT;
}

bool auth_json_read_user(struct slice body, struct auth_user_json *out)
{
    struct auth_user_json user = {
        .roles = {.absent = true}, .grant = {.absent = true}, .revoke = {.absent = true}};
    struct slice text, name, value;
    struct room room;

    if (!take_object(body, &text))
        return false;
    user.memory = make_room(text, &room);
    if (user.memory == NULL)
        return false;
    while (json_next_member(&text, &name, &value)) {
        if (!read_user_member(&room, name, value, &user)) {
            free(user.memory);
            return false;
        }
    }
    *out = user;
    return true;
}

bool auth_json_read_role(struct slice body, struct auth_role_json *out)
{
    struct auth_role_json role = {
        .permissions = no_permissions, .grant = no_permissions, .revoke = no_permissions};
    struct slice text, name, value;
    struct room room;

    if (!take_object(body, &text))
        return false;
    role.memory = make_room(text, &room);
    if (role.memory == NULL)
        return false;
    while (json_next_member(&text, &name, &value)) {
        if (!read_role_member(&room, name, value, &role)) {
            free(role.memory);
            return false;
        }
    }
    *out = role;
    return true;
}

/* --- Writing. --- */

void auth_json_write_list(struct writer *w, const struct command_list *list)
{
    if (list->absent) {
        writer_str(w, "null");
        return;
    }
    writer_u8(w, '[');
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0)
            writer_u8(w, ',');
        json_string(w, list->items[i]);
    }
    writer_u8(w, ']');
}

static void write_permissions(struct writer *w, const char *name, const struct command_list *reads,
                              const struct command_list *writes)
{
    writer_str(w, ",\"");
    writer_str(w, name);
    writer_str(w, "\":{\"kv\":{\"read\":");
    auth_json_write_list(w, reads);
    writer_str(w, ",\"write\":");
    auth_json_write_list(w, writes);
    writer_str(w, "}}");
}

void auth_json_write_role(struct writer *w, const struct auth_role *role)
{
    writer_str(w, "{\"role\":");
    json_string(w, role->name);
    write_permissions(w, "permissions", &role->reads, &role->writes);
    writer_slice(w, role->shown);
    writer_u8(w, '}');
}

void auth_json_write_shown(struct writer *w, const struct auth_role_json *role)
{
    if (role->grant.given)
        write_permissions(w, "grant", &role->grant.reads, &role->grant.writes);
    if (role->revoke.given)
        write_permissions(w, "revoke", &role->revoke.reads, &role->revoke.writes);
}
