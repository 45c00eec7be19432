/* Users of /v2/auth. See auth_items.h.
 *
 * Upstream: etcd 3.4.23, etcdserver/api/v2http/client_auth.go and v2auth/auth.go, texts included.
 */
#include "rdzv/etcd/auth_items.h"

#include "proto/json.h"
#include "proto/url.h"
#include "rdzv/etcd/auth_json.h"
#include "rdzv/etcd/auth_merge.h"
#include "rdzv/etcd/auth_reply.h"
#include "rdzv/etcd/hash_wait.h"
#include "rdzv/etcd/json_body.h"

/* A user with its roles as objects; those that do not exist are left out. */
static void write_user_with_roles(struct writer *w, const struct auth *a, const struct auth_user *u)
{
    bool any = false;

    writer_str(w, "{\"user\":");
    json_string(w, u->name);
    for (size_t i = 0; i < u->roles.count && w->len <= ETCD_AUTH_REPLY_MAX; i++) {
        const struct auth_role *role = auth_find_role(a, u->roles.items[i]);

        if (role == NULL)
            continue;
        writer_str(w, any ? "," : ",\"roles\":[");
        auth_json_write_role(w, role);
        any = true;
    }
    writer_str(w, any ? "]}" : "}");
}

void etcd_write_users(struct writer *w, const void *what)
{
    const struct auth *a = what;
    bool any = false;

    writer_str(w, "{\"users\":");
    for (size_t i = 0; i < a->user_count && w->len <= ETCD_AUTH_REPLY_MAX; i++) {
        if (etcd_auth_is_hidden(a->users[i]->name))
            continue;
        writer_str(w, any ? "," : "[");
        write_user_with_roles(w, a, a->users[i]);
        any = true;
    }
    writer_str(w, any ? "]}\n" : "null}\n");
}

struct one_user {
    const struct auth *auth;
    const struct auth_user *user;
};

static void write_one_user(struct writer *w, const void *what)
{
    const struct one_user *one = what;

    write_user_with_roles(w, one->auth, one->user);
    writer_u8(w, '\n');
}

/* The reply to a PUT: names of roles, not objects. */
static void write_user_names(struct writer *w, const void *what)
{
    const struct auth_user *u = what;

    writer_str(w, "{\"user\":");
    json_string(w, u->name);
    writer_str(w, ",\"roles\":");
    auth_json_write_list(w, &u->roles);
    writer_str(w, "}\n");
}

static void reply_no_user(const struct http_request *r, struct slice name)
{
    ETCD_AUTH_ERROR(r, 404, slice_str("User "), name, slice_str(" does not exist."));
}

static void get_user(const struct http_request *r, struct slice name)
{
    const struct auth *a = &r->space->store->auth;
    const struct auth_user *user = auth_find_user(a, name);
    struct url_error why;

    if (user == NULL) {
        reply_no_user(r, name);
        return;
    }
    if (!url_check_form(r->query, &why)) {
        etcd_auth_reply_failed(r, why.text);
        return;
    }
    for (size_t i = 0; i < user->roles.count; i++) {
        struct slice role = user->roles.items[i];

        if (auth_find_role(a, role) == NULL) {
            ETCD_AUTH_ERROR(r, 404, slice_str("Role "), role, slice_str(" does not exist."));
            return;
        }
    }
    etcd_auth_reply_written(r, 200, write_one_user, &(struct one_user){a, user});
}

/* The hash of a password, or a copy of the old one when there is no new password. False: the reply
 * has been sent, or the request waits for the hash. */
static bool make_hash(const struct http_request *r, struct slice password, struct slice old,
                      char made[PASSWORD_HASH_MAX])
{
    if (password.len != 0)
        return hash_wait_new(r, password, made);
    if (password_setting_of(old, made))
        return true;
    etcd_auth_reply_failed(r, "the old password is none");
    return false;
}

/* False: the password cannot be kept, and the reply has been sent. */
static bool check_password(const struct http_request *r, const struct auth_user_json *in)
{
    if (password_is_usable(in->password))
        return true;
    ETCD_AUTH_ERROR(r, 400, slice_str("The password of user "), in->user,
                    slice_str(" is longer than 511 bytes; choose a shorter one"));
    return false;
}

/* Stores a user and replies with it, once its password has been hashed. The name and the roles are
 * the caller's, not borrowed from the user that is replaced, which is gone before the command is
 * written down. */
static void put_user(const struct http_request *r, unsigned status, const struct auth_user *user,
                     struct slice password)
{
    char hash[PASSWORD_HASH_MAX];
    struct command command = {
        .kind = COMMAND_AUTH_USER_PUT, .key = user->name, .names = user->roles};

    if (!make_hash(r, password, user->hash, hash))
        return;
    command.value = slice_str(hash);
    if (etcd_auth_apply(r, &command) == AUTH_OK)
        etcd_auth_reply_written(r, status, write_user_names, user);
}

static void create_user(const struct http_request *r, unsigned status,
                        const struct auth_user_json *in)
{
    struct auth_user user = {.name = in->user, .roles = in->roles};
    struct slice *roles = NULL;

    if (in->password.len == 0) {
        ETCD_AUTH_ERROR(r, 400, slice_str("Cannot create user "), in->user,
                        slice_str(" with an empty password"));
        return;
    }
    if (auth_find_user(&r->space->store->auth, in->user) != NULL) {
        ETCD_AUTH_ERROR(r, 409, slice_str("User "), in->user, slice_str(" already exists."));
        return;
    }
    /* The store does the same; it is done here for the sake of the reply. */
    if (slice_is(in->user, "root") && !auth_list_has(&in->roles, slice_str("root"))) {
        roles = account_heap_request(ACCOUNT_INPUT, ACCOUNT_ORDINARY,
                                     (in->roles.count + 1) * sizeof *roles);
        if (roles == NULL) {
            etcd_auth_reply_failed(r, "out of memory");
            return;
        }
        for (size_t i = 0; i < in->roles.count; i++)
            roles[i] = in->roles.items[i];
        roles[in->roles.count] = slice_str("root");
        user.roles = (struct command_list){.items = roles, .count = in->roles.count + 1};
    }
    put_user(r, status, &user, in->password);
    account_heap_free(ACCOUNT_INPUT, roles);
}

static void update_user(const struct http_request *r, const struct auth_user_json *in)
{
    const struct auth_user *old = auth_find_user(&r->space->store->auth, in->user);
    struct command_list merged;
    struct slice role;

    if (old == NULL) {
        reply_no_user(r, in->user);
        return;
    }
    switch (auth_merge(&old->roles, &in->grant, &in->revoke, true, &merged, &role)) {
    case AUTH_MERGE_DUPLICATE:
        ETCD_AUTH_ERROR(r, 409, slice_str("Granting duplicate role "), role,
                        slice_str(" for user "), in->user);
        return;
    case AUTH_MERGE_UNGRANTED:
        ETCD_AUTH_ERROR(r, 409, slice_str("Revoking ungranted role "), role,
                        slice_str(" for user "), in->user);
        return;
    case AUTH_MERGE_NO_MEMORY:
        etcd_auth_reply_failed(r, "out of memory");
        return;
    case AUTH_MERGE_DONE:
        break;
    }
    if (in->password.len == 0 && etcd_auth_list_is(&old->roles, &merged))
        ETCD_AUTH_ERROR(
            r, 400, slice_str("User not updated. Use grant/revoke/password to update the user."));
    else
        put_user(r, 200, &(struct auth_user){.name = in->user, .hash = old->hash, .roles = merged},
                 in->password);
    auth_merge_free(&merged);
}

/* What etcd makes of a PUT depends on what is in it: roles mean a new user; grants and revocations
 * an old one; neither of them either. */
static void change_user(const struct http_request *r, struct slice name,
                        const struct auth_user_json *in)
{
    bool changes_roles = in->grant.count != 0 || in->revoke.count != 0;

    if (!slice_equal(in->user, name))
        reply_message(r, 400, "User JSON name does not match the name in the URL",
                      HTTP_ETCD_CLUSTER);
    else if (changes_roles && in->roles.count != 0)
        reply_message(r, 400, "User JSON contains both roles and grant/revoke", HTTP_ETCD_CLUSTER);
    else if (!check_password(r, in))
        return;
    else if (in->roles.count != 0)
        create_user(r, 200, in);
    else if (changes_roles || auth_find_user(&r->space->store->auth, name) != NULL)
        update_user(r, in);
    else
        create_user(r, 201, in);
}

static void delete_user(const struct http_request *r, struct slice name)
{
    switch (etcd_auth_apply(r, &(struct command){.kind = COMMAND_AUTH_USER_DELETE, .key = name})) {
    case AUTH_OK:
        etcd_auth_reply(r, 200, (struct slice){0});
        break;
    case AUTH_NOT_FOUND:
        ETCD_AUTH_ERROR(r, 404, slice_str("User "), name, slice_str(" does not exist"));
        break;
    case AUTH_ROOT_NEEDED:
        ETCD_AUTH_ERROR(r, 403, slice_str("Cannot delete root user while auth is enabled."));
        break;
    default:
        break;
    }
}

void etcd_user_handle(const struct http_request *r, struct slice name)
{
    struct auth_user_json in;

    if (r->head->method == HTTP_GET) {
        get_user(r, name);
    } else if (r->head->method == HTTP_DELETE) {
        delete_user(r, name);
    } else if (!json_body_has_room(r)) {
        return;
    } else if (!auth_json_read_user(r->body, &in)) {
        reply_message(r, 400, "Invalid JSON in request body.", HTTP_ETCD_CLUSTER);
    } else {
        change_user(r, name, &in);
        auth_json_free(&in.memory);
    }
}
