/* An operator is a client that comes over a Unix socket (the file's mode decides who can), that
 * sends the token of --admin-token-file, or whose certificate has one of --admin-names. A reader is
 * an operator, or a client with the token of --read-token-file or one of --read-names; without
 * these two settings, every client is a reader. Addresses prove nothing: on a host's network, and
 * behind a mesh's proxy, neighbours also come from 127.0.0.1. */
#pragma once

#include "rdzv/http/reply.h"
#include "rdzv/net/peer.h"

/* True when the request is a reader's. Otherwise a 403 has been sent that says why. */
bool http_may_read(const struct http_request *r);

/* True when the request may change what other clients rely on: an operator's, and not from a web
 * page. Otherwise a 403 has been sent that says why. */
bool http_may_change_daemon(const struct http_request *r);

/* --- The daemon as a whole. --- */

/* A listener shows its own space; operators see all spaces, and so does every client of a listener
 * for metrics. Asked once for a request: a wrong token counts. */
bool http_shows_all_spaces(const struct http_request *r);

/* True if the client may see the daemon's own numbers, given whether it sees all spaces. These
 * numbers name no space, but count the requests of all spaces. With several spaces, only clients
 * that may see all spaces get them, and clients of the first listener's space, because monitoring
 * uses that space. */
bool http_shows_daemon(const struct http_request *r, bool all_spaces);

/* Once at the start: warns when a token's file is of no use. */
void http_check_token_files(const struct config *config);

/* --- Which Host headers are answered. ---
 *
 * A web page can give its own name our address (DNS rebinding): the browser then takes this daemon
 * for a part of the page, and passes its answers to the page's scripts. It still sends the page's
 * name as Host, so a listener on loopback, which only this machine reaches, answers only to names
 * of its own. Pure. */

/* True if the Host header (with or without a port; empty if the request has none) is allowed.
 * `allowed` is the list of --host-whitelist: if it has names, only these are allowed, as with etcd;
 * `*` allows any name. On `loopback`, and for probes, numeric addresses and localhost are also
 * allowed, and no other names. */
bool http_host_is_welcome(struct slice host, const struct string_list *allowed, bool loopback);

/* --- The token of an operator: a file's text, against a request's Authorization. --- */

/* Does an Authorization header have a token? Other schemes than Bearer have none. */
bool token_is_sent(struct slice authorization);

enum token_result {
    TOKEN_RIGHT,
    TOKEN_WRONG,
    TOKEN_UNREADABLE, /* the file cannot be read, is no file, is empty or longer than
                         TOKEN_FILE_MAX: errno says so */
};

#define TOKEN_FILE_MAX 4096

/* Compares a header that has a token with the file as it is now, so that a token is replaced by
 * writing the file. White space at the end of the file does not count. How long it takes does not
 * depend on how much of a token is right. */
enum token_result token_check(const char *path, struct slice authorization);

/* --- Waits between wrong tokens. ---
 *
 * A client that has sent wrong tokens must wait before rdzvd checks its next one: some are free,
 * then the time doubles with each, up to a limit. Counted per address, in a table of a fixed size.
 * Pure: the time is passed in. */

#define BACKOFF_FREE     5      /* failures before the first wait */
#define BACKOFF_FIRST_MS 1000u  /* that wait */
#define BACKOFF_MOST_MS  16000u /* the longest one */
#define BACKOFF_KEEP_MS                                                       \
    (10u * 60 * 1000) /* failures are forgotten after this time without a new \
                         one */

#define BACKOFF_SETS 256
#define BACKOFF_WAYS 4 /* addresses that share a place; the one that failed longest ago goes */

struct backoff {
    struct backoff_entry {
        uint8_t address[16]; /* peer_network() */
        uint32_t failures;   /* 0: free */
        uint64_t failed_ms;
    } entries[BACKOFF_SETS][BACKOFF_WAYS];
};

/* All zero is an empty table. */
bool backoff_allows(const struct backoff *b, const struct peer *peer, uint64_t now_ms);
void backoff_failed(struct backoff *b, const struct peer *peer, uint64_t now_ms);
