/* /v2/auth over HTTP. See auth.h.
 *
 * Upstream: etcd 3.4.23, etcdserver/api/v2http/client_auth.go and v2auth/auth.go, texts included.
 * What the store does is in store/auth.h. */
#include "rdzv/etcd/auth.h"

#include <stdlib.h>

#include "proto/json.h"
#include "rdzv/engine/log.h"
#include "rdzv/etcd/auth_json.h"
#include "rdzv/etcd/auth_merge.h"
#include "rdzv/etcd/basic_auth.h"
#include "rdzv/etcd/password.h"
#include "rdzv/http/attempt.h"
#include "rdzv/http/body.h"
#include "rdzv/http/message.h"
#include "rdzv/http/operator.h"
#include "rdzv/http/route.h"
#include "rdzv/net/refusal.h"

/* The list of users repeats each role for each of its users, so it can be far longer than all that
 * clients sent. etcd has no limit and runs out of memory instead. */
#define REPLY_MAX (64u << 20)

/* What a request is charged for each byte of its JSON, which is read into many small pieces. */
#define JSON_COST 16u

/* --- Replies. --- */

static void reply_bytes(const struct http_request *r, unsigned status, struct slice body)
{
    reply_send(r, &(struct reply){.status = status,
                                  .content_type = HTTP_JSON,
                                  .etcd = HTTP_ETCD_CLUSTER,
                                  .body = body});
}

/* A 500; the reason goes to the log alone. */
static void reply_internal_error(const struct http_request *r, const char *reason)
{
    log_limited(LOG_WARN, "auth_failed", log_str("space", r->space->store->name),
                log_bytes("path", r->path), log_str("reason", reason));
    reply_message(r, 500, "Internal Server Error", HTTP_ETCD_CLUSTER);
}

static void reply_written(const struct http_request *r, unsigned status,
                          void (*write)(struct writer *w, const void *what), const void *what)
{
    const struct reply reply = {
        .status = status, .content_type = HTTP_JSON, .etcd = HTTP_ETCD_CLUSTER};
    struct reply_body body;

    reply_body_begin(&body);
    body.max = REPLY_MAX;
    write(&body.w, what);
    if (reply_body_is_whole(&body)) {
        reply_body_send(r, &reply, &body);
        return;
    }
    reply_body_drop(&body);
    reply_internal_error(r, body.w.len > REPLY_MAX ? "the reply is too long" : "out of memory");
}

/* {"message":"auth: …"} */
#define REPLY_ERROR(r, status, ...) \
    REPLY_MESSAGE((r), (status), HTTP_ETCD_CLUSTER, slice_str("auth: "), __VA_ARGS__)

void etcd_auth_reply_refused(const struct http_request *r)
{
    reply_message(r, 401, "Insufficient credentials", HTTP_ETCD_NONE);
}

/* --- The user behind a request. --- */

struct credentials {
    struct slice name, password; /* in `text` */
    uint8_t *text;
    const struct auth_user *user; /* NULL: there is none of that name */
};

/* False: the request has none that can be read. Else forget_credentials() ends them. */
static bool read_credentials(const struct http_request *r, struct credentials *c)
{
    struct slice header = r->head->authorization;

    *c = (struct credentials){.text = header.len == 0 ? NULL : malloc(header.len)};
    if (c->text == NULL || !basic_auth_parse(header, c->text, &c->name, &c->password)) {
        free(c->text);
        return false;
    }
    c->user = auth_find_user(&r->space->store->auth, c->name);
    return true;
}

static void forget_credentials(const struct http_request *r, struct credentials *c)
{
    explicit_bzero(c->text, r->head->authorization.len);
    free(c->text);
}

/* The user whose credentials a request has; NULL when they are none, or wrong, or come too soon
 * after wrong ones. A name that is no user's is one with a wrong password, in what it costs too. */
static const struct auth_user *find_sender(const struct http_request *r)
{
    struct credentials c;
    bool right;

    if (r->head->authorization.len == 0 || !http_may_attempt(r, r->space) ||
        !read_credentials(r, &c))
        return NULL;
    right = password_verify(c.password, c.user != NULL ? c.user->hash : password_decoy());
    if (!right)
        http_attempt_failed(r, r->space, REFUSAL_PASSWORD, c.name);
    forget_credentials(r, &c);
    return right ? c.user : NULL;
}

bool etcd_auth_is_costly(const struct http_request *r)
{
    struct credentials c;
    bool known;

    if (r->head->method == HTTP_PUT && http_is_below(r->path, "/v2/auth/users"))
        return true; /* it may set one */
    if (!auth_enabled(&r->space->store->auth) || !read_credentials(r, &c))
        return false;
    known = c.user != NULL && password_is_remembered(c.password, c.user->hash);
    forget_credentials(r, &c);
    return !known;
}

bool etcd_auth_is_root(const struct http_request *r)
{
    const struct auth_user *user;

    if (!auth_enabled(&r->space->store->auth))
        return true;
    user = find_sender(r);
    return user != NULL && auth_is_root(user);
}

/* Who may make users, and so the first root user, may lock all others out by switching auth on. */
static bool may_set_up(const struct http_request *r)
{
    const struct auth_user *user;

    if (peer_is_loopback(&r->conn->peer) || http_is_operator(r))
        return true;
    user = find_sender(r);
    return user != NULL && auth_is_root(user);
}

/* May the request change users, roles or the switch, as far as the daemon's own settings go? While
 * auth is enabled its users decide. False: it has been answered. */
static bool may_change(const struct http_request *r)
{
    bool off = !r->http->config->etcd_auth;

    if (!off && (auth_enabled(&r->space->store->auth) || may_set_up(r)))
        return true;
    refusal_note(&http_engine(r)->stats, REFUSAL_AUTH, &r->conn->peer, r->path);
    REPLY_ERROR(r, 403,
                slice_str(off ? "switched off with --etcd-auth=off"
                              : "only from rdzvd's own machine, as a root user, or with the token "
                                "of --admin-token-file"));
    return false;
}

bool etcd_auth_allows_keys(const struct http_request *r, bool write, bool recursive)
{
    const struct auth *auth = &r->space->store->auth;
    struct slice key = slice_from(r->path, strlen("/v2/keys"));
    const struct auth_user *user = NULL;

    if (!auth_enabled(auth))
        return true;
    if (r->head->authorization.len != 0) {
        user = find_sender(r);
        if (user == NULL)
            return false; /* not as guest: a client with a wrong password should learn that */
    }
    return auth_allows(auth, user, key, write, recursive);
}

/* --- Changes. --- */

/* Carries out a change. Of AUTH_NO_ROOM this sends the reply, of all else the caller. */
static enum auth_status apply(const struct http_request *r, const struct command *command)
{
    struct store_result result;

    engine_apply(http_engine(r), r->space, command, &result);
    if (result.auth == AUTH_NO_ROOM)
        reply_internal_error(r, "no room for users and roles");
    return result.auth;
}

static bool list_is(const struct command_list *a, const struct command_list *b)
{
    if (a->absent != b->absent || a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        if (!slice_equal(a->items[i], b->items[i]))
            return false;
    }
    return true;
}

/* --- The switch. --- */

static void handle_switch(const struct http_request *r)
{
    static const char on[] = "{\"enabled\":true}\n", off[] = "{\"enabled\":false}\n";
    struct command command = {.kind = COMMAND_AUTH_ENABLE};

    if (r->head->method == HTTP_GET) {
        reply_bytes(r, 200, slice_str(auth_enabled(&r->space->store->auth) ? on : off));
        return;
    }
    if (r->head->method == HTTP_DELETE)
        command.kind = COMMAND_AUTH_DISABLE;
    switch (apply(r, &command)) {
    case AUTH_OK:
        log_event(LOG_INFO, command.kind == COMMAND_AUTH_ENABLE ? "auth_enabled" : "auth_disabled",
                  log_str("space", r->space->store->name));
        reply_bytes(r, 200, (struct slice){0});
        break;
    case AUTH_UNCHANGED:
        REPLY_ERROR(r, 409,
                    slice_str(command.kind == COMMAND_AUTH_ENABLE ? "already enabled"
                                                                  : "already disabled"));
        break;
    case AUTH_NO_ROOT:
        REPLY_ERROR(r, 409, slice_str("No root user available, please create one"));
        break;
    default:
        break;
    }
}

/* --- Users. --- */

/* A user with its roles as objects; those that do not exist are left out. */
static void write_user_with_roles(struct writer *w, const struct auth *a, const struct auth_user *u)
{
    bool any = false;

    writer_str(w, "{\"user\":");
    json_string(w, u->name);
    for (size_t i = 0; i < u->roles.count && w->len <= REPLY_MAX; i++) {
        const struct auth_role *role = auth_find_role(a, u->roles.items[i]);

        if (role == NULL)
            continue;
        writer_str(w, any ? "," : ",\"roles\":[");
        auth_json_write_role(w, role);
        any = true;
    }
    writer_str(w, any ? "]}" : "}");
}

/* etcd keeps users and roles as keys, and keys with an underscore in front are not listed. */
static bool is_hidden(struct slice name)
{
    return name.len != 0 && name.ptr[0] == '_';
}

static void write_users(struct writer *w, const void *what)
{
    const struct auth *a = what;
    bool any = false;

    writer_str(w, "{\"users\":");
    for (size_t i = 0; i < a->user_count && w->len <= REPLY_MAX; i++) {
        if (is_hidden(a->users[i]->name))
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
    REPLY_ERROR(r, 404, slice_str("User "), name, slice_str(" does not exist."));
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
        reply_internal_error(r, why.text);
        return;
    }
    for (size_t i = 0; i < user->roles.count; i++) {
        struct slice role = user->roles.items[i];

        if (auth_find_role(a, role) == NULL) {
            REPLY_ERROR(r, 404, slice_str("Role "), role, slice_str(" does not exist."));
            return;
        }
    }
    reply_written(r, 200, write_one_user, &(struct one_user){a, user});
}

/* The hash of a password, or a copy of the old one when there is no new password. */
static bool make_hash(struct slice password, struct slice old, char made[PASSWORD_HASH_MAX])
{
    if (password.len != 0)
        return password_hash(password, made);
    if (old.len >= PASSWORD_HASH_MAX)
        return false;
    memcpy(made, old.ptr, old.len);
    made[old.len] = '\0';
    return true;
}

/* False: the password cannot be kept, and the reply has been sent. */
static bool check_password(const struct http_request *r, const struct auth_user_json *in)
{
    if (password_is_usable(in->password))
        return true;
    REPLY_ERROR(r, 400, slice_str("The password of user "), in->user,
                slice_str(" is longer than 511 bytes; choose a shorter one"));
    return false;
}

/* Stores a user and replies with it. The name and the roles are the caller's, not borrowed from the
 * user that is replaced, which is gone before the command is written down. */
static void put_user(const struct http_request *r, unsigned status, const struct auth_user *user,
                     struct slice password)
{
    char hash[PASSWORD_HASH_MAX];
    struct command command = {
        .kind = COMMAND_AUTH_USER_PUT, .key = user->name, .names = user->roles};

    if (!make_hash(password, user->hash, hash)) {
        reply_internal_error(r, "the password cannot be hashed");
        return;
    }
    command.value = slice_str(hash);
    if (apply(r, &command) == AUTH_OK)
        reply_written(r, status, write_user_names, user);
}

static void create_user(const struct http_request *r, unsigned status,
                        const struct auth_user_json *in)
{
    struct auth_user user = {.name = in->user, .roles = in->roles};
    struct slice *roles = NULL;

    if (in->password.len == 0) {
        REPLY_ERROR(r, 400, slice_str("Cannot create user "), in->user,
                    slice_str(" with an empty password"));
        return;
    }
    if (auth_find_user(&r->space->store->auth, in->user) != NULL) {
        REPLY_ERROR(r, 409, slice_str("User "), in->user, slice_str(" already exists."));
        return;
    }
    /* The store does the same; it is done here for the sake of the reply. */
    if (slice_is(in->user, "root") && !auth_list_has(&in->roles, slice_str("root"))) {
        roles = malloc((in->roles.count + 1) * sizeof *roles);
        if (roles == NULL) {
            reply_internal_error(r, "out of memory");
            return;
        }
        for (size_t i = 0; i < in->roles.count; i++)
            roles[i] = in->roles.items[i];
        roles[in->roles.count] = slice_str("root");
        user.roles = (struct command_list){.items = roles, .count = in->roles.count + 1};
    }
    put_user(r, status, &user, in->password);
    free(roles);
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
        REPLY_ERROR(r, 409, slice_str("Granting duplicate role "), role, slice_str(" for user "),
                    in->user);
        return;
    case AUTH_MERGE_UNGRANTED:
        REPLY_ERROR(r, 409, slice_str("Revoking ungranted role "), role, slice_str(" for user "),
                    in->user);
        return;
    case AUTH_MERGE_NO_MEMORY:
        reply_internal_error(r, "out of memory");
        return;
    case AUTH_MERGE_DONE:
        break;
    }
    if (in->password.len == 0 && list_is(&old->roles, &merged))
        REPLY_ERROR(r, 400,
                    slice_str("User not updated. Use grant/revoke/password to update the user."));
    else
        put_user(r, 200, &(struct auth_user){in->user, old->hash, merged}, in->password);
    free((void *)merged.items);
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
    switch (apply(r, &(struct command){.kind = COMMAND_AUTH_USER_DELETE, .key = name})) {
    case AUTH_OK:
        reply_bytes(r, 200, (struct slice){0});
        break;
    case AUTH_NOT_FOUND:
        REPLY_ERROR(r, 404, slice_str("User "), name, slice_str(" does not exist"));
        break;
    case AUTH_ROOT_NEEDED:
        REPLY_ERROR(r, 403, slice_str("Cannot delete root user while auth is enabled."));
        break;
    default:
        break;
    }
}

static void handle_user(const struct http_request *r, struct slice name)
{
    struct auth_user_json in;

    if (r->head->method == HTTP_GET) {
        get_user(r, name);
    } else if (r->head->method == HTTP_DELETE) {
        delete_user(r, name);
    } else if (!auth_json_read_user(r->body, &in)) {
        reply_message(r, 400, "Invalid JSON in request body.", HTTP_ETCD_CLUSTER);
    } else {
        change_user(r, name, &in);
        auth_json_free(&in.memory);
    }
}

/* --- Roles. --- */

static void write_roles(struct writer *w, const void *what)
{
    const struct auth *a = what;
    bool any = false;

    writer_str(w, "{\"roles\":[");
    for (size_t i = 0; i < a->role_count && w->len <= REPLY_MAX; i++) {
        if (is_hidden(a->roles[i]->name))
            continue;
        if (any)
            writer_u8(w, ',');
        auth_json_write_role(w, a->roles[i]);
        any = true;
    }
    writer_str(w, "]}\n");
}

static void write_one_role(struct writer *w, const void *what)
{
    auth_json_write_role(w, what);
    writer_u8(w, '\n');
}

static void reply_no_role(const struct http_request *r, struct slice name)
{
    REPLY_ERROR(r, 404, slice_str("Role "), name, slice_str(" does not exist."));
}

static void get_role(const struct http_request *r, struct slice name)
{
    const struct auth_role *role = auth_find_role(&r->space->store->auth, name);

    if (role == NULL)
        reply_no_role(r, name);
    else
        reply_written(r, 200, write_one_role, role);
}

/* Stores a role and replies with it. All of it is the caller's, as with put_user(). */
static void put_role(const struct http_request *r, unsigned status, const struct auth_role *role)
{
    const struct command command = {.kind = COMMAND_AUTH_ROLE_PUT,
                                    .key = role->name,
                                    .value = role->shown,
                                    .names = role->reads,
                                    .writes = role->writes};

    if (apply(r, &command) == AUTH_OK)
        reply_written(r, status, write_one_role, role);
}

static void create_role(const struct http_request *r, const struct auth_role_json *in)
{
    uint8_t shown[AUTH_JSON_SHOWN_MAX];
    struct writer w = {.ptr = shown, .cap = sizeof shown};
    struct auth_role role = {
        .name = in->role, .reads = in->permissions.reads, .writes = in->permissions.writes};

    auth_json_write_shown(&w, in);
    role.shown = (struct slice){w.ptr, w.len};
    if (auth_find_role(&r->space->store->auth, in->role) != NULL)
        REPLY_ERROR(r, 409, slice_str("Role "), in->role, slice_str(" already exists."));
    else
        put_role(r, 201, &role);
}

/* The whole of what grants and revocations make of one list; false: the reply has been sent. */
static bool merge_patterns(const struct http_request *r, const char *kind,
                           const struct command_list *old, const struct command_list *grant,
                           const struct command_list *revoke, struct command_list *out)
{
    struct slice pattern;

    switch (auth_merge(old, grant, revoke, false, out, &pattern)) {
    case AUTH_MERGE_DONE:
        return true;
    case AUTH_MERGE_DUPLICATE:
        REPLY_ERROR(r, 409, slice_str("Granting duplicate "), slice_str(kind),
                    slice_str(" permission "), pattern);
        return false;
    default:
        reply_internal_error(r, "out of memory");
        return false;
    }
}

static void update_role(const struct http_request *r, const struct auth_role_json *in)
{
    const struct auth_role *old = auth_find_role(&r->space->store->auth, in->role);
    struct auth_role merged = {.name = in->role};

    if (old == NULL) {
        reply_no_role(r, in->role);
        return;
    }
    if (merge_patterns(r, "read", &old->reads, &in->grant.reads, &in->revoke.reads,
                       &merged.reads) &&
        merge_patterns(r, "write", &old->writes, &in->grant.writes, &in->revoke.writes,
                       &merged.writes)) {
        if (old->shown.len == 0 && list_is(&old->reads, &merged.reads) &&
            list_is(&old->writes, &merged.writes))
            REPLY_ERROR(r, 400,
                        slice_str("Role not updated. Use grant/revoke to update the role."));
        else
            put_role(r, 200, &merged);
    }
    free((void *)merged.reads.items);
    free((void *)merged.writes.items);
}

static bool is_empty(const struct auth_permissions *p)
{
    return p->reads.count == 0 && p->writes.count == 0;
}

static void reply_root_role(const struct http_request *r)
{
    REPLY_ERROR(r, 403, slice_str("Cannot modify role root: is root role."));
}

static void change_role(const struct http_request *r, struct slice name,
                        const struct auth_role_json *in)
{
    bool changes = !is_empty(&in->grant) || !is_empty(&in->revoke);

    if (!slice_equal(in->role, name))
        reply_message(r, 400, "Role JSON name does not match the name in the URL",
                      HTTP_ETCD_CLUSTER);
    else if (changes && !is_empty(&in->permissions))
        reply_message(r, 400, "Role JSON contains both permissions and grant/revoke",
                      HTTP_ETCD_CLUSTER);
    else if (slice_is(name, "root"))
        reply_root_role(r);
    else if (changes)
        update_role(r, in);
    else
        create_role(r, in);
}

static void delete_role(const struct http_request *r, struct slice name)
{
    switch (apply(r, &(struct command){.kind = COMMAND_AUTH_ROLE_DELETE, .key = name})) {
    case AUTH_OK:
        reply_bytes(r, 200, (struct slice){0});
        break;
    case AUTH_NOT_FOUND:
        REPLY_ERROR(r, 404, slice_str("Role "), name, slice_str(" doesn't exist."));
        break;
    case AUTH_ROOT_ROLE:
        reply_root_role(r);
        break;
    default:
        break;
    }
}

static void handle_role(const struct http_request *r, struct slice name)
{
    struct auth_role_json in;

    if (r->head->method == HTTP_GET) {
        get_role(r, name);
    } else if (r->head->method == HTTP_DELETE) {
        delete_role(r, name);
    } else if (!auth_json_read_role(r->body, &in)) {
        reply_message(r, 400, "Invalid JSON in request body.", HTTP_ETCD_CLUSTER);
    } else {
        change_role(r, name, &in);
        auth_json_free(&in.memory);
    }
}

/* --- Routing. --- */

static bool is_item_method(enum http_method method)
{
    return method == HTTP_GET || method == HTTP_PUT || method == HTTP_DELETE;
}

static void handle_list(const struct http_request *r,
                        void (*write)(struct writer *w, const void *what))
{
    struct url_error why;

    if (r->head->method != HTTP_GET)
        reply_not_allowed(r, "GET", HTTP_ETCD_NONE);
    else if (!etcd_auth_is_root(r))
        etcd_auth_reply_refused(r);
    else if (!url_check_form(r->query, &why))
        reply_internal_error(r, why.text);
    else
        reply_written(r, 200, write, &r->space->store->auth);
}

static void handle_item(const struct http_request *r, struct slice name,
                        void (*handle)(const struct http_request *r, struct slice name))
{
    if (!is_item_method(r->head->method))
        reply_not_allowed(r, "GET,PUT,DELETE", HTTP_ETCD_NONE);
    else if (!etcd_auth_is_root(r))
        etcd_auth_reply_refused(r);
    else
        handle(r, name);
}

/* What stands behind `prefix`, if the path is that, or something below it. A slash at the end does
 * not count. */
static bool below(struct slice path, const char *prefix, struct slice *name)
{
    size_t len = strlen(prefix);

    if (!slice_starts_with(path, slice_str(prefix)))
        return false;
    *name = slice_from(path, len);
    if (name->len == 0)
        return true;
    if (name->ptr[0] != '/')
        return false;
    *name = slice_from(*name, 1);
    if (name->len != 0 && name->ptr[name->len - 1] == '/')
        name->len--;
    return true;
}

void etcd_auth_handle(const struct http_request *r)
{
    struct slice path = slice_from(r->path, strlen("/v2/auth")), name;
    bool users = below(path, "/users", &name);

    conn_charge(r->conn, JSON_COST * r->body.len);
    if (!http_is_reading(r) && !may_change(r))
        return;
    if (users || below(path, "/roles", &name)) {
        if (name.len == 0)
            handle_list(r, users ? write_users : write_roles);
        else if (memchr(name.ptr, '/', name.len) != NULL)
            reply_message(r, 400, "Invalid path", HTTP_ETCD_NONE);
        else
            handle_item(r, name, users ? handle_user : handle_role);
    } else if (!slice_is(path, "/enable")) {
        reply_not_found(r);
    } else if (!is_item_method(r->head->method)) {
        reply_not_allowed(r, "GET,PUT,DELETE", HTTP_ETCD_NONE);
    } else if (r->head->method != HTTP_GET && !etcd_auth_is_root(r)) {
        etcd_auth_reply_refused(r);
    } else {
        handle_switch(r);
    }
}
