/* Who is an operator. See operator.h for the contract. */
#include "rdzv/http/operator.h"

#include <errno.h>

#include "rdzv/engine/log.h"
#include "rdzv/http/attempt.h"
#include "rdzv/http/message.h"
#include "rdzv/http/token.h"
#include "rdzv/net/refusal.h"
#include "rdzv/net/tls_identity.h"

static void warn_of_file(const char *path, int error)
{
    log_limited(LOG_WARN, "admin_token_unreadable", log_str("file", path),
                log_errno("reason", error),
                log_str("hint", "write the token into the file of --admin-token-file, readable for "
                                "rdzvd; it is read anew for each request"));
}

/* Whose token is compared at all. */
static const char *refuse_token(const struct http_request *r, const char *path)
{
    if (!http_may_attempt(r, NULL))
        return "Too many wrong tokens came from this address: wait for some seconds";
    switch (token_check(path, r->head->authorization)) {
    case TOKEN_RIGHT:
        break;
    case TOKEN_WRONG:
        http_attempt_failed(r, NULL, REFUSAL_TOKEN, (struct slice){0});
        return "The token is not that of --admin-token-file";
    case TOKEN_UNREADABLE:
        warn_of_file(path, errno);
        return "The file of --admin-token-file cannot be read; the log says why";
    }
    return NULL;
}

/* A relay's certificate says nothing of its clients. */
static bool is_named(const struct http_request *r)
{
    return r->conn->tls != NULL && !r->http->behind_relay &&
           tls_peer_is_one_of(r->conn->tls, &r->http->config->tls.admin_names);
}

const char *http_refuse_operator(const struct http_request *r)
{
    const char *path = r->http->config->admin_token_file;

    if (peer_is_unix(&r->conn->peer) || is_named(r))
        return NULL;
    if (path == NULL)
        return "This is only for operators: send it to rdzvd's Unix socket (--listen=unix:/PATH), "
               "or give rdzvd a token (--admin-token-file)";
    if (!token_is_sent(r->head->authorization))
        return "This is only for operators: send the token of --admin-token-file, as in "
               "Authorization: Bearer TOKEN";
    return refuse_token(r, path);
}

bool http_may_change_daemon(const struct http_request *r)
{
    const char *why = http_refuse_operator(r);

    if (why == NULL && r->head->origin.len != 0)
        why = "This is not for a web page: send no Origin header";
    if (why == NULL)
        return true;
    refusal_note(&http_engine(r)->stats, REFUSAL_OPERATOR, &r->conn->peer, r->path);
    reply_message(r, 403, why, HTTP_ETCD_NONE);
    return false;
}

void http_check_token_file(const struct config *config)
{
    if (config->admin_token_file != NULL && !token_file_is_usable(config->admin_token_file))
        warn_of_file(config->admin_token_file, errno);
}
