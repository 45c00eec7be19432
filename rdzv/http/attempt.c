/* Passwords and tokens, and the waits between wrong ones. See attempt.h for the contract. */
#include "rdzv/http/attempt.h"

#include "rdzv/net/backoff.h"
#include "rdzv/net/refusal.h"

bool http_is_held_off(const struct http *http, const struct peer *peer, const void *scope)
{
    return http->config->password_backoff &&
           !backoff_allows(http->backoff, peer, scope, engine_now_ms(http->engine));
}

bool http_may_attempt(const struct http_request *r, const void *scope)
{
    if (!http_is_held_off(r->http, &r->conn->peer, scope))
        return true;
    refusal_note(&http_engine(r)->stats, REFUSAL_BACKOFF, &r->conn->peer, (struct slice){0});
    return false;
}

bool http_is_suspect(const struct http_request *r, const void *scope)
{
    return backoff_has_failed(r->http->backoff, &r->conn->peer, scope,
                              engine_now_ms(http_engine(r)));
}

void http_attempt_failed(const struct http_request *r, const void *scope, enum refusal_reason why,
                         struct slice detail)
{
    struct engine *e = http_engine(r);

    backoff_failed(r->http->backoff, &r->conn->peer, scope, engine_now_ms(e));
    refusal_note(&e->stats, why, &r->conn->peer, detail);
}
