/* Request targets, paths and form data as Go's net/url, path and mime packages read them, since that
 * is what etcd's clients have been talking to. Escapes are checked before anything is used, so that
 * decoding cannot fail later. No allocation: what decodes writes into the caller's bytes, and says
 * how many it needs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "proto/bytes.h"

/* The target of a request line. The slices point into it; `path` and `query` are still escaped, and
 * every escape in `path` is known to be good. An absent part is empty. */
struct url_target {
    struct slice scheme;
    struct slice host;  /* of `http://HOST/path` or `CONNECT HOST`; with its port, without user */
    struct slice path;  /* "" for `http://host`, "*" for `OPTIONS *` */
    struct slice query; /* what follows the first '?' */
    bool asterisk;      /* the target is `*` alone */
};

/* False when Go refuses the target (the answer is a plain 400). `authority` is for CONNECT, whose
 * target may be a bare host. */
bool url_parse_target(struct slice raw, bool authority, struct url_target *out);

/* The path behind `escaped` (a url_target's path), unescaped and cleaned as Go's ServeMux does: no
 * `//`, `.` or `..`, a leading slash, and a trailing one only if it was there. `out` needs room for
 * escaped.len + 1 bytes; the result points into it. *moved says that cleaning changed the path, so
 * that the answer is a redirect. `%2F` counts as a slash and `+` as a plus. */
struct slice url_clean_path(struct slice escaped, uint8_t *out, bool *moved);

/* The same without cleaning (Go does not clean the path of CONNECT). Needs escaped.len bytes. */
struct slice url_unescape_path(struct slice escaped, uint8_t *out);

/* The `Location` of a redirect to a clean path, with the query as it came, its non-ASCII bytes
 * escaped as Go does in headers. `ascii_only` false gives the form for the `href` of the body
 * (to be escaped for HTML by the caller's writer). Needs at most 3 * (path.len + query.len) + 1. */
void url_write_location(struct writer *w, struct slice path, struct slice query, bool ascii_only);

/* path, escaped for the path of a URL: upper-case hex, and only letters, digits and `$&+,/:;=@-_.~`
 * left alone. Needs at most 3 * path.len bytes. */
void url_escape_path(struct writer *w, struct slice path);

/* An error text: room for `invalid URL escape "%\u0085"` and its like. */
struct url_error {
    char text[64];
};

/* Checks form data (a query or a form body): false, and Go's words for it, when it has a bad escape
 * or a semicolon. Of several faults the one that Go names is named: any semicolon before any escape,
 * then the first escape. For a request with both, check the form first: its fault wins. */
bool url_check_form(struct slice form, struct url_error *why);

/* One `name=value` as it stands, still escaped. `name` without `=` has an empty value. */
struct url_param {
    struct slice name;
    struct slice value;
};

/* Takes the next parameter off *rest (start with the whole form); false at the end. Empty pieces
 * (`a=1&&b=2`) are passed over. The form has passed url_check_form(). */
bool url_next_param(struct slice *rest, struct url_param *out);

/* True when the unescaped bytes of `escaped` are exactly `text`. */
bool url_value_is(struct slice escaped, struct slice text);

/* The first parameter of that name in form, then in query: the still escaped value. Both have passed
 * url_check_form(). */
bool url_find_param(struct slice form, struct slice query, const char *name, struct slice *value);

/* Unescapes form data: `+` is a space, `%XX` a byte. Needs url_value_len() bytes, never more than
 * escaped.len; `out` may be the escaped bytes themselves. */
size_t url_value_len(struct slice escaped);
struct slice url_unescape_value(struct slice escaped, uint8_t *out);
