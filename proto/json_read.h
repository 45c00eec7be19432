/* JSON text as Go's encoding/json reads it: what it refuses is refused here, in its words, since
 * clients of etcd see those. A text is checked whole and then walked; nothing is allocated, and
 * every slice points into the text. (cJSON takes control characters in strings and numbers like 01,
 * refuses half surrogates, and ends a string at \u0000.) */
#pragma once

#include "proto/bytes.h"

#define JSON_DEPTH_MAX 10000 /* Go's limit */

enum json_kind {
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
};

/* Go's text. */
struct json_error {
    char text[96];
};

/* Takes the first value off the front of `in`, without blanks around it. With `alone` nothing but
 * blanks may follow, as json.Unmarshal() wants it; else what follows is not looked at, as by Go's
 * Decoder. False: *why; *value is untouched. */
bool json_take(struct slice in, bool alone, struct slice *value, struct json_error *why);

/* --- Of a value that json_take() gave, or of a part of one. --- */

enum json_kind json_kind(struct slice value);

/* The next member or element; *rest starts as the whole object or array. False at the end. `name`
 * is a string with its quotes. */
bool json_next_member(struct slice *rest, struct slice *name, struct slice *value);
bool json_next_element(struct slice *rest, struct slice *value);

/* True when Go would store the member of that name in a field called `field` (ASCII): upper and
 * lower case are the same. Of two members for one field the later one counts. */
bool json_name_is(struct slice name, const char *field);

/* The bytes of a string, of which the slice has the quotes. Returns how many there are: at most
 * JSON_UNQUOTED_MAX(string.len), which `out` has room for. */
#define JSON_UNQUOTED_MAX(len) ((len)*3)
size_t json_unquote(struct slice string, uint8_t *out);
