/* The JSON of etcd's auth endpoints: users and roles as clients send them, and as they are shown.
 */
#pragma once

#include "store/auth.h"

/* `given` false: there was no such member, or it was null. The lists are absent when they are null
 * or not there. */
struct auth_permissions {
    bool given;
    struct command_list reads;
    struct command_list writes;
};

/* What the slices of a user or a role point into. */
struct auth_json_memory {
    struct cJSON *tree;
    struct slice *items; /* of all lists */
};

struct auth_user_json {
    struct slice user;
    struct slice password;
    struct command_list roles;
    struct command_list grant;
    struct command_list revoke;
    struct auth_json_memory memory;
};

struct auth_role_json {
    struct slice role;
    struct auth_permissions permissions;
    struct auth_permissions grant;
    struct auth_permissions revoke;
    struct auth_json_memory memory;
};

/* Reads the first JSON value of a body; what follows it is not looked at. False: not JSON, a member
 * of the wrong type, or no memory. Else the caller ends it with auth_json_free(&out->memory). */
bool auth_json_read_user(struct slice body, struct auth_user_json *out);
bool auth_json_read_role(struct slice body, struct auth_role_json *out);
void auth_json_free(struct auth_json_memory *memory);

/* null, or an array of strings. */
void auth_json_write_list(struct writer *w, const struct command_list *list);

/* {"role":…,"permissions":{"kv":{"read":…,"write":…}}} */
void auth_json_write_role(struct writer *w, const struct auth_role *role);

/* What else a new role shows: etcd keeps the empty grants and revocations that it was sent with. */
#define AUTH_JSON_SHOWN_MAX 128
void auth_json_write_shown(struct writer *w, const struct auth_role_json *role);
