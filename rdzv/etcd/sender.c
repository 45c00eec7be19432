/* Who sends a request, by HTTP's basic credentials. See sender.h for the contract.
 *
 * Upstream: etcd 3.4.23, etcdserver/api/v2http/client_auth.go. */
#include "rdzv/etcd/sender.h"

#include "rdzv/etcd/basic_auth.h"
#include "rdzv/etcd/hash_wait.h"
#include "rdzv/http/attempt.h"
#include "rdzv/http/operator.h"
#include "rdzv/net/tls_identity.h"

struct credentials {
    struct slice name, password; /* in `text` */
    uint8_t *text;               /* `small`, when that is long enough */
    uint8_t small[256];
};

static void forget_credentials(const struct http_request *r, struct credentials *c)
{
    explicit_bzero(c->text, r->head->authorization.len);
    if (c->text != c->small)
        account_free(ACCOUNT_INPUT, c->text, r->head->authorization.len);
}

/* Granted: the request has some, and forget_credentials() ends them. */
static enum etcd_access read_credentials(const struct http_request *r, struct credentials *c)
{
    struct slice header = r->head->authorization;

    c->text = header.len <= sizeof c->small
                  ? c->small
                  : account_request(ACCOUNT_INPUT, account_class_of(header.len), header.len);
    if (c->text == NULL) {
        reply_no_memory(r);
        return ETCD_ACCESS_PENDING;
    }
    if (basic_auth_parse(header, c->text, &c->name, &c->password))
        return ETCD_ACCESS_GRANTED;
    forget_credentials(r, c);
    return ETCD_ACCESS_REFUSED;
}

/* A name that is no user's is one with a wrong password, in what it costs too. */
static enum etcd_access check(const struct http_request *r, const struct credentials *c,
                              const struct auth_user **user)
{
    *user = auth_find_user(&r->space->store->auth, c->name);
    switch (hash_wait_check(r, c->password, *user != NULL ? (*user)->hash : password_decoy())) {
    case HASH_CHECK_RIGHT:
        return *user != NULL ? ETCD_ACCESS_GRANTED : ETCD_ACCESS_REFUSED;
    case HASH_CHECK_WRONG:
        http_attempt_failed(r, r->space, REFUSAL_PASSWORD, c->name);
        return ETCD_ACCESS_REFUSED;
    default:
        return ETCD_ACCESS_PENDING;
    }
}

/* Granted: *user is the one whose credentials the request has. Refused when they are none, or
 * wrong, or come too soon after wrong ones. */
static enum etcd_access find_sender(const struct http_request *r, const struct auth_user **user)
{
    enum etcd_access access;
    struct credentials c;

    if (r->head->authorization.len == 0 || !http_may_attempt(r, r->space))
        return ETCD_ACCESS_REFUSED;
    access = read_credentials(r, &c);
    if (access != ETCD_ACCESS_GRANTED)
        return access;
    access = check(r, &c, user);
    forget_credentials(r, &c);
    return access;
}

static enum etcd_access granted_if(bool may)
{
    return may ? ETCD_ACCESS_GRANTED : ETCD_ACCESS_REFUSED;
}

/* With --client-cert-auth, who has sent no credentials is the user with the common name of its
 * certificate. (etcd looks for one with the name of an authority in its chain, too.) NULL: there is
 * none. */
static const struct auth_user *user_of_certificate(const struct http_request *r)
{
    if (!r->http->config->tls.client_cert_auth || r->conn->tls == NULL || r->http->behind_relay)
        return NULL;
    return auth_find_user(&r->space->store->auth, tls_peer_common_name(r->conn->tls));
}

static enum etcd_access sender_is_root(const struct http_request *r)
{
    const struct auth_user *user;
    enum etcd_access access;

    if (r->head->authorization.len == 0) {
        user = user_of_certificate(r);
        return granted_if(user != NULL && auth_is_root(user));
    }
    access = find_sender(r, &user);
    return access == ETCD_ACCESS_GRANTED ? granted_if(auth_is_root(user)) : access;
}

enum etcd_access etcd_access_as_root(const struct http_request *r)
{
    return auth_enabled(&r->space->store->auth) ? sender_is_root(r) : ETCD_ACCESS_GRANTED;
}

enum etcd_access etcd_access_to_set_up(const struct http_request *r)
{
    if (http_is_from_here(r) || http_is_operator(r))
        return ETCD_ACCESS_GRANTED;
    return sender_is_root(r);
}

enum etcd_access etcd_access_to_keys(const struct http_request *r, bool write, bool recursive)
{
    const struct auth *auth = &r->space->store->auth;
    struct slice key = slice_from(r->path, strlen("/v2/keys"));
    const struct auth_user *user;

    if (!auth_enabled(auth))
        return ETCD_ACCESS_GRANTED;
    if (r->head->authorization.len != 0) {
        enum etcd_access access = find_sender(r, &user);

        if (access != ETCD_ACCESS_GRANTED)
            return access; /* not as guest: a client with a wrong password should learn that */
    } else {
        user = user_of_certificate(r);
    }
    return granted_if(auth_allows(auth, user, key, write, recursive));
}

bool etcd_is_held_off(const struct http_request *r)
{
    return r->head->authorization.len != 0 && auth_enabled(&r->space->store->auth) &&
           http_is_held_off(r->http, &r->conn->peer, r->space);
}
