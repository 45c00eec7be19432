/* Who is an operator. See access.h for the contract. */
#include "rdzv/admin/access.h"

#include <errno.h>
#include <string.h>

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

bool admin_shows_all_spaces(const struct http_request *r)
{
    return r->conn->listener->spec->metrics_only || admin_is_operator(r);
}

/* The first that is no Unix socket, whose peers are operators anyhow. */
static bool is_space_of_first_listener(const struct http_request *r)
{
    const struct config *config = r->http->config;
    size_t i = 0;

    while (i < config->listener_count && config->listeners[i].path != NULL)
        i++;
    return i < config->listener_count &&
           strcmp(config->listeners[i].space, r->space->store->name) == 0;
}

bool admin_shows_daemon(const struct http_request *r)
{
    const struct engine_space *first = TAILQ_FIRST(&http_engine(r)->spaces);

    return TAILQ_NEXT(first, entry) == NULL || is_space_of_first_listener(r) ||
           admin_shows_all_spaces(r);
}

void admin_check_token_file(const struct config *config)
{
    if (config->admin_token_file != NULL && !token_file_is_usable(config->admin_token_file))
        warn_of_file(config->admin_token_file, errno);
}
