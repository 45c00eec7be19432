/* Operators, readers, their tokens, and Host headers. See access.h for the contract. */
#include "rdzv/http/access.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "rdzv/config/config_file.h"
#include "rdzv/engine/log.h"
#include "rdzv/net/refusal.h"
#include "rdzv/net/tls.h"

/* --- The token of a file. --- */

static const char scheme[] = "Bearer ";

/* Looks at every byte of what was sent, whatever the first difference. `right` is not empty. */
static bool token_is_same(struct slice sent, struct slice right)
{
    volatile uint8_t differs = sent.len != right.len;

    for (size_t i = 0; i < sent.len; i++)
        differs |= (uint8_t)(sent.ptr[i] ^ right.ptr[i % right.len]);
    return differs == 0;
}

bool token_is_sent(struct slice authorization)
{
    return authorization.len >= strlen(scheme) &&
           strncasecmp((const char *)authorization.ptr, scheme, strlen(scheme)) == 0;
}

enum token_result token_check(const char *path, struct slice authorization)
{
    enum token_result result = TOKEN_UNREADABLE;
    uint8_t text[TOKEN_FILE_MAX + 1];
    struct slice right;

    if (secret_file_read(path, text, sizeof text, &right))
        result = token_is_same(slice_from(authorization, strlen(scheme)), right) ? TOKEN_RIGHT
                                                                                 : TOKEN_WRONG;
    explicit_bzero(text, sizeof text);
    return result;
}

/* --- Waits between wrong tokens. --- */

static struct backoff_entry backoff_key_of(const struct peer *peer)
{
    struct backoff_entry key = {0};

    peer_network(peer, key.address);
    return key;
}

/* FNV-1a. Who chooses addresses that meet in one place throws out his own. */
static size_t backoff_set_of(const struct backoff_entry *key)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < sizeof key->address; i++)
        hash = (hash ^ key->address[i]) * 16777619u;
    return (hash ^ hash >> 16) % BACKOFF_SETS;
}

static bool backoff_is_of(const struct backoff_entry *e, const struct backoff_entry *key)
{
    return e->failures != 0 && memcmp(e->address, key->address, sizeof e->address) == 0;
}

static uint64_t backoff_wait_ms(const struct backoff_entry *e)
{
    uint32_t doublings = e->failures - BACKOFF_FREE;

    if (e->failures < BACKOFF_FREE)
        return 0;
    return doublings < 8 && BACKOFF_FIRST_MS << doublings < BACKOFF_MOST_MS
               ? BACKOFF_FIRST_MS << doublings
               : BACKOFF_MOST_MS;
}

bool backoff_allows(const struct backoff *b, const struct peer *peer, uint64_t now_ms)
{
    const struct backoff_entry key = backoff_key_of(peer), *set = b->entries[backoff_set_of(&key)];

    return !ANY(FOREACH(const struct backoff_entry, e, set, BACKOFF_WAYS),
                backoff_is_of(e, &key) &&
                    clock_elapsed_ms(e->failed_ms, now_ms) < backoff_wait_ms(e));
}

void backoff_failed(struct backoff *b, const struct peer *peer, uint64_t now_ms)
{
    struct backoff_entry key = backoff_key_of(peer), *set = b->entries[backoff_set_of(&key)],
                         *e = &set[0];

    for (size_t i = 0; i < BACKOFF_WAYS; i++) {
        if (backoff_is_of(&set[i], &key)) {
            e = &set[i];
            break;
        }
        if (set[i].failed_ms < e->failed_ms)
            e = &set[i];
    }
    if (backoff_is_of(e, &key) && clock_elapsed_ms(e->failed_ms, now_ms) < BACKOFF_KEEP_MS)
        key.failures = e->failures;
    key.failures += key.failures < UINT32_MAX;
    key.failed_ms = now_ms;
    *e = key;
}

/* --- Operators and readers. --- */

/* Whose the token is that a request has sent. */
enum bearer { BEARER_NOBODY, BEARER_READER, BEARER_OPERATOR };

/* A setting that is not given matches no token. */
static enum token_result token_compare(struct slice authorization, const char *path,
                                       const char *setting)
{
    enum token_result result = path == NULL ? TOKEN_WRONG : token_check(path, authorization);

    if (result == TOKEN_UNREADABLE)
        log_limited(LOG_WARN, "token_unreadable", log_str("setting", setting),
                    log_str("file", path), log_errno("reason", errno),
                    log_str("hint",
                            "write the token into that file, readable for rdzvd; rdzvd reads it "
                            "again for each request"));
    return result;
}

static const char *token_say_wrong(const struct config *config)
{
    if (config->read_token_file == NULL)
        return "The token is not that of --admin-token-file";
    if (config->admin_token_file == NULL)
        return "The token is not that of --read-token-file";
    return "The token is neither that of --admin-token-file nor that of --read-token-file";
}

/* Compares the token that the request has sent. BEARER_NOBODY: *why is a sentence for the client,
 * and the token counts as wrong, unless a file that may hold it cannot be read now. */
static enum bearer find_bearer(const struct http_request *r, const char **why)
{
    const struct config *config = r->http->config;
    struct engine *e = http_engine(r);
    enum token_result admin, reader;

    *why = "Too many wrong tokens came from this address: wait for some seconds";
    if (!backoff_allows(r->http->backoff, &r->conn->peer, engine_now_ms(e))) {
        refusal_note(&e->stats, REFUSAL_BACKOFF, &r->conn->peer, (struct slice){0});
        return BEARER_NOBODY;
    }
    admin = token_compare(r->head->authorization, config->admin_token_file, "--admin-token-file");
    if (admin == TOKEN_RIGHT)
        return BEARER_OPERATOR;
    reader = token_compare(r->head->authorization, config->read_token_file, "--read-token-file");
    if (reader == TOKEN_RIGHT)
        return BEARER_READER;
    *why = "A token's file cannot be read; rdzvd's log says which, and why";
    if (admin == TOKEN_WRONG && reader == TOKEN_WRONG) {
        backoff_failed(r->http->backoff, &r->conn->peer, engine_now_ms(e));
        refusal_note(&e->stats, REFUSAL_TOKEN, &r->conn->peer, (struct slice){0});
        *why = token_say_wrong(config);
    }
    return BEARER_NOBODY;
}

/* A relay's certificate says nothing of its clients. */
static bool has_name_of(const struct http_request *r, const struct string_list *names)
{
    return r->conn->tls != NULL && !r->http->behind_relay &&
           tls_peer_is_one_of(r->conn->tls, names);
}

/* --- Operators. --- */

/* NULL: an operator. Else the reason why the client is none, a sentence for the client, which lives
 * as long as the daemon. A wrong token counts at each call, and its address must wait before the
 * next one: all clients behind one relay together. */
static const char *why_no_operator(const struct http_request *r)
{
    const struct config *config = r->http->config;
    enum bearer bearer;
    const char *why;

    if (peer_is_unix(&r->conn->peer) || has_name_of(r, &config->tls.admin_names))
        return NULL;
    if (config->admin_token_file == NULL)
        return "This is only for operators: send it to rdzvd's Unix socket (--listen=unix:/PATH), "
               "or give rdzvd a token (--admin-token-file)";
    if (!token_is_sent(r->head->authorization))
        return "This is only for operators: send the token of --admin-token-file, as in "
               "Authorization: Bearer TOKEN";
    bearer = find_bearer(r, &why);
    if (bearer == BEARER_READER)
        return "This is only for operators: the token is that of --read-token-file, not of "
               "--admin-token-file";
    return bearer == BEARER_OPERATOR ? NULL : why;
}

/* Always false. */
static bool refuse_access(const struct http_request *r, enum refusal_reason reason, const char *why)
{
    refusal_note(&http_engine(r)->stats, reason, &r->conn->peer, r->path);
    reply_message(r, 403, why, HTTP_ETCD_NONE);
    return false;
}

bool http_may_change_daemon(const struct http_request *r)
{
    const char *why = why_no_operator(r);

    if (why == NULL && r->head->origin.len != 0)
        why = "Web pages cannot use this: send no Origin header";
    return why == NULL || refuse_access(r, REFUSAL_OPERATOR, why);
}

/* --- Readers. --- */

/* The hint for a client without any credentials. */
static const char *ask_for_right(const struct config *config)
{
    if (config->read_token_file != NULL)
        return "This is only for readers: send the token of --read-token-file, as in "
               "Authorization: Bearer TOKEN";
    if (config->admin_token_file != NULL)
        return "This is only for readers: show a certificate with one of --read-names, or send the "
               "token of --admin-token-file";
    return "This is only for readers: show a certificate with one of --read-names";
}

bool http_may_read(const struct http_request *r)
{
    const struct config *config = r->http->config;
    const char *why = ask_for_right(config);

    if (config->read_token_file == NULL && config->tls.read_names.count == 0)
        return true;
    if (peer_is_unix(&r->conn->peer) || has_name_of(r, &config->tls.admin_names) ||
        has_name_of(r, &config->tls.read_names))
        return true;
    if ((config->read_token_file != NULL || config->admin_token_file != NULL) &&
        token_is_sent(r->head->authorization) && find_bearer(r, &why) != BEARER_NOBODY)
        return true;
    return refuse_access(r, REFUSAL_READER, why);
}

/* --- At the start. --- */

void http_check_token_files(const struct config *config)
{
    token_compare(slice_str(scheme), config->admin_token_file, "--admin-token-file");
    token_compare(slice_str(scheme), config->read_token_file, "--read-token-file");
}

/* --- The daemon as a whole. --- */

bool http_shows_all_spaces(const struct http_request *r)
{
    return r->conn->listener->spec->metrics_only || why_no_operator(r) == NULL;
}

/* The first listener that is no Unix socket, whose peers are operators anyhow. */
static bool is_space_of_first_listener(const struct http_request *r)
{
    const struct config *config = r->http->config;
    size_t i = 0;

    while (i < config->listener_count && config->listeners[i].path != NULL)
        i++;
    return i < config->listener_count &&
           strcmp(config->listeners[i].space, r->space->store->name) == 0;
}

bool http_shows_daemon(const struct http_request *r, bool all_spaces)
{
    const struct engine_space *first = TAILQ_FIRST(&http_engine(r)->spaces);

    return all_spaces || TAILQ_NEXT(first, entry) == NULL || is_space_of_first_listener(r);
}

/* --- Host headers. --- */

/* Up to the first colon, behind an address in brackets if there is one. */
static struct slice host_without_port(struct slice host)
{
    const uint8_t *bracket = host.ptr == NULL ? NULL : memrchr(host.ptr, ']', host.len), *colon;
    size_t start = bracket == NULL ? 0 : (size_t)(bracket + 1 - host.ptr);

    colon = start == host.len ? NULL : memchr(host.ptr + start, ':', host.len - start);
    if (colon != NULL)
        host.len = (size_t)(colon - host.ptr);
    return host;
}

static bool host_is_ipv6(struct slice host)
{
    char text[INET6_ADDRSTRLEN + 1];
    struct in6_addr address;

    if (host.len < 2 || host.len - 2 >= sizeof text || host.ptr[0] != '[' ||
        host.ptr[host.len - 1] != ']')
        return false;
    memcpy(text, host.ptr + 1, host.len - 2);
    text[host.len - 2] = '\0';
    return inet_pton(AF_INET6, text, &address) == 1;
}

/* No name of the DNS is made of digits and dots alone: to a browser such a host is an address. */
static bool host_is_ipv4(struct slice host)
{
    for (size_t i = 0; i < host.len; i++) {
        if (host.ptr[i] != '.' && !byte_is_digit(host.ptr[i]))
            return false;
    }
    return true;
}

/* Ignores case: capitals differ in one bit, and no other byte becomes a letter by it. */
static bool host_is_localhost(struct slice host)
{
    return host.len == 9 && (host.ptr[8] | 0x20) == 't' &&
           (bytes_get_u64(host.ptr) | UINT64_C(0x2020202020202020)) ==
               bytes_get_u64((const uint8_t *)"localhos");
}

bool http_host_is_welcome(struct slice host, const struct string_list *allowed, bool loopback)
{
    struct slice name = host_without_port(host);

    for (size_t i = 0; i < allowed->count; i++) {
        if (slice_is(name, allowed->items[i]) || strcmp(allowed->items[i], "*") == 0)
            return true;
    }
    if (!loopback)
        return allowed->count == 0;
    return host_is_ipv4(name) || host_is_localhost(name) ||
           host_is_ipv6(name); /* an empty one, too */
}
