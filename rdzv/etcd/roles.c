/* Roles of /v2/auth. See auth_items.h.
 *
 * Upstream: etcd 3.4.23, etcdserver/api/v2http/client_auth.go and v2auth/auth.go, texts included.
 */
#include "rdzv/etcd/auth_items.h"

#include "rdzv/etcd/auth_json.h"
#include "rdzv/etcd/auth_merge.h"
#include "rdzv/etcd/auth_reply.h"
#include "rdzv/etcd/json_body.h"

void etcd_write_roles(struct writer *w, const void *what)
{
    const struct auth *a = what;
    bool any = false;

    writer_str(w, "{\"roles\":[");
    for (size_t i = 0; i < a->role_count && w->len <= ETCD_AUTH_REPLY_MAX; i++) {
        if (etcd_auth_is_hidden(a->roles[i]->name))
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
    ETCD_AUTH_ERROR(r, 404, slice_str("Role "), name, slice_str(" does not exist."));
}

static void get_role(const struct http_request *r, struct slice name)
{
    const struct auth_role *role = auth_find_role(&r->space->store->auth, name);

    if (role == NULL)
        reply_no_role(r, name);
    else
        etcd_auth_reply_written(r, 200, write_one_role, role);
}

/* Stores a role and replies with it. All of it is the caller's, as with put_user(). */
static void put_role(const struct http_request *r, unsigned status, const struct auth_role *role)
{
    const struct command command = {.kind = COMMAND_AUTH_ROLE_PUT,
                                    .key = role->name,
                                    .value = role->shown,
                                    .names = role->reads,
                                    .writes = role->writes};

    if (etcd_auth_apply(r, &command) == AUTH_OK)
        etcd_auth_reply_written(r, status, write_one_role, role);
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
        ETCD_AUTH_ERROR(r, 409, slice_str("Role "), in->role, slice_str(" already exists."));
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
        ETCD_AUTH_ERROR(r, 409, slice_str("Granting duplicate "), slice_str(kind),
                        slice_str(" permission "), pattern);
        return false;
    default:
        etcd_auth_reply_failed(r, "out of memory");
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
        if (old->shown.len == 0 && etcd_auth_list_is(&old->reads, &merged.reads) &&
            etcd_auth_list_is(&old->writes, &merged.writes))
            ETCD_AUTH_ERROR(r, 400,
                            slice_str("Role not updated. Use grant/revoke to update the role."));
        else
            put_role(r, 200, &merged);
    }
    auth_merge_free(&merged.reads);
    auth_merge_free(&merged.writes);
}

static bool is_empty(const struct auth_permissions *p)
{
    return p->reads.count == 0 && p->writes.count == 0;
}

static void reply_root_role(const struct http_request *r)
{
    ETCD_AUTH_ERROR(r, 403, slice_str("Cannot modify role root: is root role."));
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
    switch (etcd_auth_apply(r, &(struct command){.kind = COMMAND_AUTH_ROLE_DELETE, .key = name})) {
    case AUTH_OK:
        etcd_auth_reply(r, 200, (struct slice){0});
        break;
    case AUTH_NOT_FOUND:
        ETCD_AUTH_ERROR(r, 404, slice_str("Role "), name, slice_str(" doesn't exist."));
        break;
    case AUTH_ROOT_ROLE:
        reply_root_role(r);
        break;
    default:
        break;
    }
}

void etcd_role_handle(const struct http_request *r, struct slice name)
{
    struct auth_role_json in;

    if (r->head->method == HTTP_GET) {
        get_role(r, name);
    } else if (r->head->method == HTTP_DELETE) {
        delete_role(r, name);
    } else if (!json_body_has_room(r)) {
        return;
    } else if (!auth_json_read_role(r->body, &in)) {
        reply_message(r, 400, "Invalid JSON in request body.", HTTP_ETCD_CLUSTER);
    } else {
        change_role(r, name, &in);
        auth_json_free(&in.memory);
    }
}
