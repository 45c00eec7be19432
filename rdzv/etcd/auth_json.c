/* The JSON of etcd's auth endpoints. See auth_json.h for the contract.
 *
 * Upstream: Go's encoding/json on the structs User and Role of etcd 3.4's
 * etcdserver/api/v2auth/auth.go: member names are found in upper and lower case, null leaves a
 * string or a struct as it is and unsets a list. */
#include "rdzv/etcd/auth_json.h"

#include <stdlib.h>

#include "proto/json.h"
#include "rdzv/etcd/json_body.h"

/* --- Reading. --- */

/* Every element of a list stands behind a bracket or a comma. */
static size_t count_elements(struct slice text)
{
    size_t count = 0;

    for (size_t i = 0; i < text.len; i++)
        count += text.ptr[i] == '[' || text.ptr[i] == ',';
    return count;
}

static bool read_string(const cJSON *value, struct slice *out)
{
    if (cJSON_IsNull(value))
        return true;
    if (!cJSON_IsString(value))
        return false;
    *out = slice_str(value->valuestring);
    return true;
}

/* *items: room for as many elements as are left in the body. */
static bool read_list(struct slice **items, const cJSON *value, struct command_list *out)
{
    struct command_list list = {.items = *items};
    const cJSON *element;

    if (cJSON_IsNull(value)) {
        *out = (struct command_list){.absent = true};
        return true;
    }
    if (!cJSON_IsArray(value))
        return false;
    cJSON_ArrayForEach(element, value)
    {
        **items = (struct slice){0};
        if (!read_string(element, (*items)++))
            return false;
        list.count++;
    }
    *out = list;
    return true;
}

static bool read_patterns(struct slice **items, const cJSON *value, struct auth_permissions *out)
{
    const cJSON *member;

    if (!cJSON_IsObject(value))
        return cJSON_IsNull(value);
    cJSON_ArrayForEach(member, value)
    {
        if (json_body_is_named(member, "read") && !read_list(items, member, &out->reads))
            return false;
        if (json_body_is_named(member, "write") && !read_list(items, member, &out->writes))
            return false;
    }
    return true;
}

static const struct auth_permissions no_permissions = {
    .reads = {.absent = true},
    .writes = {.absent = true},
};

static bool read_permissions(struct slice **items, const cJSON *value, struct auth_permissions *out)
{
    const cJSON *member;

    if (!cJSON_IsObject(value))
        return cJSON_IsNull(value);
    out->given = true;
    cJSON_ArrayForEach(member, value)
    {
        if (json_body_is_named(member, "kv") && !read_patterns(items, member, out))
            return false;
    }
    return true;
}

static bool read_user_member(struct slice **items, const cJSON *member, struct auth_user_json *out)
{
    if (json_body_is_named(member, "user"))
        return read_string(member, &out->user);
    if (json_body_is_named(member, "password"))
        return read_string(member, &out->password);
    if (json_body_is_named(member, "roles"))
        return read_list(items, member, &out->roles);
    if (json_body_is_named(member, "grant"))
        return read_list(items, member, &out->grant);
    if (json_body_is_named(member, "revoke"))
        return read_list(items, member, &out->revoke);
    return true;
}

static bool read_role_member(struct slice **items, const cJSON *member, struct auth_role_json *out)
{
    if (json_body_is_named(member, "role"))
        return read_string(member, &out->role);
    if (json_body_is_named(member, "permissions"))
        return read_permissions(items, member, &out->permissions);
    if (json_body_is_named(member, "grant"))
        return read_permissions(items, member, &out->grant);
    if (json_body_is_named(member, "revoke"))
        return read_permissions(items, member, &out->revoke);
    return true;
}

/* An object, or null, which has no members. */
static bool begin(struct slice body, struct auth_json_memory *memory)
{
    memory->tree = json_body_parse(body);
    memory->items = account_heap_request_zeroed(ACCOUNT_INPUT, ACCOUNT_ORDINARY,
                                                (count_elements(body) + 1) * sizeof *memory->items);
    if (memory->items != NULL && (cJSON_IsObject(memory->tree) || cJSON_IsNull(memory->tree)))
        return true;
    auth_json_free(memory);
    return false;
}

bool auth_json_read_user(struct slice body, struct auth_user_json *out)
{
    struct auth_user_json user = {
        .roles = {.absent = true}, .grant = {.absent = true}, .revoke = {.absent = true}};
    struct slice *items;
    const cJSON *member;

    if (!begin(body, &user.memory))
        return false;
    items = user.memory.items;
    cJSON_ArrayForEach(member, user.memory.tree)
    {
        if (!read_user_member(&items, member, &user)) {
            auth_json_free(&user.memory);
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
    struct slice *items;
    const cJSON *member;

    if (!begin(body, &role.memory))
        return false;
    items = role.memory.items;
    cJSON_ArrayForEach(member, role.memory.tree)
    {
        if (!read_role_member(&items, member, &role)) {
            auth_json_free(&role.memory);
            return false;
        }
    }
    *out = role;
    return true;
}

void auth_json_free(struct auth_json_memory *memory)
{
    cJSON_Delete(memory->tree);
    account_heap_free(ACCOUNT_INPUT, memory->items);
    *memory = (struct auth_json_memory){0};
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
