/* Request targets, paths and form data as Go's net/url, path and net/http read them, since that is
 * what etcd's clients talk to. Escapes are checked before anything is used, so that decoding cannot
 * fail. No allocation: what decodes writes into the caller's bytes, and says how many it needs. */
#pragma once

#include "proto/bytes.h"

/* The target of a request line. The slices point into it and are still escaped; every escape in
 * `path` is known to be good. An absent part is empty. */
struct url_target {
    struct slice host;  /* of `http://HOST/path` or `CONNECT HOST`: with its port, without a user;
                           any bytes but controls */
    struct slice path;  /* "" for `http://host`, "*" for `OPTIONS *` */
    struct slice query; /* what follows the first '?' */
    bool asterisk;      /* the target is `*` alone */
};

/* False if Go refuses the target (the reply is a plain 400). `authority` is for a CONNECT with a
 * bare host as target, without a leading '/'. */
bool url_parse_target(struct slice raw, bool authority, struct url_target *out);

/* The path behind `escaped` (a url_target's path), unescaped and cleaned as Go's ServeMux does: no
 * `//`, `.` or `..`, a leading slash, and a trailing slash only if it had one. `%2F` counts as a
 * slash, `+` as a plus. `out` needs room for escaped.len + 1 bytes and holds the result. If
 * cleaning changed the path, *moved is true, and the reply is a redirect to the clean path. */
struct slice url_clean_path(struct slice escaped, uint8_t *out, bool *moved);

/* The same without cleaning, for CONNECT, which Go never redirects. Needs escaped.len bytes. */
struct slice url_unescape_path(struct slice escaped, uint8_t *out);

/* A redirect to a cleaned path, with the query as it came: the value of the `Location` header, and
 * the page for a GET. */
void url_write_location(struct writer *w, struct slice path, struct slice query);
void url_write_moved_page(struct writer *w, struct slice path, struct slice query);

/* Room for every text of url_check_form(). */
struct url_error {
    char text[64];
};

/* Checks form data (a query or a form body): false with Go's words if the form has a bad escape or
 * a semicolon. Of several faults it names the same one as Go: a semicolon anywhere, else the first
 * bad escape. For a request with both, check the form body first: its fault wins. */
bool url_check_form(struct slice form, struct url_error *why);

/* One `name=value`, still escaped. Without a `=` the value is empty. */
struct url_param {
    struct slice name;
    struct slice value;
};

/* Takes the next parameter off *rest (start with the whole form); false at the end. Empty pieces
 * (`a=1&&b=2`) are passed over. */
bool url_next_param(struct slice *rest, struct url_param *out);

/* No client needs more, and each parameter takes time. */
#define URL_PARAMS_MAX 10000

/* For each name: the escaped value of its first parameter in `form`, else in `query`; its ptr is
 * NULL only if neither has the parameter. Both have passed url_check_form(). False: the two have
 * more than URL_PARAMS_MAX parameters. */
bool url_find_params(struct slice form, struct slice query, const char *const *names, size_t count,
                     struct slice *values);

/* The same for one name, in a query that nobody has checked. False: it is not there, or the query
 * has a fault. */
bool url_find_param(struct slice query, const char *name, struct slice *value);

/* Unescapes checked form data: `+` is a space, `%XX` a byte. `out` needs url_value_len() bytes,
 * which is never more than escaped.len, and may be the escaped bytes themselves. */
size_t url_value_len(struct slice escaped);

/* True when unescaping would not change the value. */
bool url_is_plain_value(struct slice escaped);
struct slice url_unescape_value(struct slice escaped, uint8_t *out);
