/* The token that stands for an operator: a file's text, against a request's Authorization. */
#pragma once

#include "proto/bytes.h"

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
