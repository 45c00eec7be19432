/* Who is an operator. See access.h for the contract. */
#include "rdzv/admin/access.h"

#include <errno.h>

#include "rdzv/admin/token.h"
#include "rdzv/engine/log.h"
#include "rdzv/http/message.h"
#include "rdzv/net/refusal.h"

static void warn_of_file(const char *path, int error)
{
    log_limited(LOG_WARN, "admin_token_unreadable", log_str("file", path),
                log_errno("reason", error),
                log_str("hint", "write the token into the file of --admin-token-file, readable for "
                                "rdzvd; it is read anew for each request"));
}

/* NULL, or why not. */
static const char *refuse_operator(const struct http_request *r)
{
    const char *path = r->http->config->admin_token_file;

    if (peer_is_unix(&r->conn->peer))
        return NULL;
    if (path == NULL)
        return "This is only for operators: send it to rdzvd's Unix socket (--listen=unix:/PATH), "
               "or give rdzvd a token (--admin-token-file)";
    switch (token_check(path, r->head->authorization)) {
    case TOKEN_RIGHT:
        return NULL;
    case TOKEN_ABSENT:
        return "This is only for operators: send the token of --admin-token-file, as in "
               "Authorization: Bearer TOKEN";
    case TOKEN_WRONG:
        return "The token is not that of --admin-token-file";
    case TOKEN_UNREADABLE:
        warn_of_file(path, errno);
        return "The file of --admin-token-file cannot be read; the log says why";
    }
    return NULL;
}

bool admin_is_operator(const struct http_request *r)
{
    return refuse_operator(r) == NULL;
}

bool admin_may_change(const struct http_request *r)
{
    const char *why = refuse_operator(r);

    if (why == NULL && r->head->origin.len != 0)
        why = "This is not for a web page: send no Origin header";
    if (why == NULL)
        return true;
    refusal_note(&http_engine(r)->stats, REFUSAL_OPERATOR, &r->conn->peer, r->path);
    reply_message(r, 403, why, HTTP_ETCD_NONE);
    return false;
}

void admin_check_token_file(const struct config *config)
{
    if (config->admin_token_file != NULL && !token_file_is_usable(config->admin_token_file))
        warn_of_file(config->admin_token_file, errno);
}
