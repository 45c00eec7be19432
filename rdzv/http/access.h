/* An operator is a client that comes over a Unix socket, whose file says who may, that sends the
 * token of --admin-token-file, or whose certificate has one of --admin-names. A reader is one of
 * them, or a client with the token of --read-token-file or one of --read-names; without these two
 * settings, all are readers. An address says nothing: on a host's network, and behind a mesh's
 * proxy, neighbours come from 127.0.0.1, too. */
#pragma once

#include "proto/bytes.h"
#include "rdzv/http/reply.h"

/* NULL: an operator. Else why not, as a sentence for the client. Who sends wrong tokens has to wait
 * between them, see net/backoff.h. */
const char *http_refuse_operator(const struct http_request *r);

static inline bool http_is_operator(const struct http_request *r)
{
    return http_refuse_operator(r) == NULL;
}

/* True when the request is a reader's. Otherwise a 403 has been sent that says why. */
bool http_may_read(const struct http_request *r);

/* True when the request may change what other clients rely on: an operator's, and not from a web
 * page. Otherwise a 403 has been sent that says why. */
bool http_may_change_daemon(const struct http_request *r);

/* --- The daemon as a whole. --- */

/* A listener shows its own space; operators see all spaces, and so does every client of a listener
 * for metrics. Asked once for a request: a wrong token counts. */
bool http_shows_all_spaces(const struct http_request *r);

/* Are the numbers of the whole daemon shown, given whether all spaces are? They name no space, but
 * with several spaces they are about all of them: then they are shown only to clients that see all
 * spaces, and in the space of the first listener, for whoever watches the daemon. */
bool http_shows_daemon(const struct http_request *r, bool all_spaces);

/* Once at the start: warns when a token's file is of no use. */
void http_check_token_files(const struct config *config);

/* --- The token that stands for an operator: a file's text, against a request's Authorization. ---
 */

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

/* Can tokens be compared with that file? False with errno. */
bool token_file_is_usable(const char *path);
