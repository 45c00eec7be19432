/* The media type of a Content-Type header as Go's mime package reads it, since etcd passes that
 * parser's words on to its clients (error 210). No allocation, no I/O. */
#pragma once

#include "proto/bytes.h"

/* Go has no such limit; ours keeps the search for a repeated parameter linear. */
#define MIME_PARAMETERS_MAX 64

/* `value` is the value of a Content-Type header, not empty (Go takes an empty one for an absent
 * one). True: *type points into it, without parameters, in the case in which it came. False: *why,
 * which is static. */
bool mime_parse_type(struct slice value, struct slice *type, const char **why);

/* True when the type is `lower` (given in lower case), case ignored. */
bool mime_type_is(struct slice type, const char *lower);
