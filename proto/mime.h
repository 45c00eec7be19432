/* The media type of a Content-Type header as Go's mime.ParseMediaType reads it, since etcd sends that
 * parser's words to its clients (error 210). No allocation, no I/O. */
#pragma once

#include <stdbool.h>

#include "proto/bytes.h"

/* The words of an error may quote a byte of the header: `mime: ...`. */
struct mime_error {
    char text[128];
};

enum mime_result {
    MIME_OK,
    MIME_BAD_PARAMETER, /* the type is good, a parameter is not: *type is set, and so is *why */
    MIME_BAD,           /* no type at all: *why is set */
};

/* `value` is the value of a Content-Type header that is there and not empty. *type points into it:
 * the type without parameters and spaces around it, in the case in which it came. */
enum mime_result mime_parse_type(struct slice value, struct slice *type, struct mime_error *why);

/* True when the type is `lower`, case ignored. */
bool mime_type_is(struct slice type, const char *lower);
