/* Targets, paths and form data as Go 1.19 reads them. etcd 3.4.23 was observed to refuse and to
 * accept the same texts; for odd cases, tests/unit/test_url.c has etcd's answers. */
#include "proto/url.h"

#include <stdio.h>

/* What a path shows without an escape: letters, digits and $&+,-./:;=@_~ */
static const bool is_path_byte[256] = {
    ['$'] = true,         ['&'] = true, ['+' ... ';'] = true, ['='] = true,
    ['@' ... 'Z'] = true, ['_'] = true, ['a' ... 'z'] = true, ['~'] = true,
};

/* Where `c` first stands in `s`, or s.len. */
static size_t find_byte(struct slice s, char c)
{
    const uint8_t *at = s.len == 0 ? NULL : memchr(s.ptr, c, s.len);

    return at == NULL ? s.len : (size_t)(at - s.ptr);
}

static uint8_t is_hex(uint8_t c)
{
    return (uint8_t)(c - '0') <= 9 || (uint8_t)((c | 0x20) - 'a') <= 5;
}

/* In ASCII, a letter has the bit 0x40, and a digit has not. */
static uint8_t hex_value(uint8_t digit)
{
    return (uint8_t)((digit & 15) + (digit >> 6) * 9);
}

/* Past blocks without a bad escape: binary values are megabytes of good ones. Every byte is looked
 * at in the same way, whatever it is, which a compiler makes many at a time. A '%' is no digit, so
 * none is missed inside of another escape. */
#define BLOCK 256u
static size_t skip_good(struct slice s, size_t at)
{
    for (; s.len - at >= BLOCK + 2; at += BLOCK) {
        const uint8_t *p = s.ptr + at;
        uint8_t bad = 0;

        for (size_t i = 0; i < BLOCK; i++)
            bad |= (uint8_t)((p[i] == '%') & ((is_hex(p[i + 1]) & is_hex(p[i + 2])) ^ 1));
        if (bad != 0)
            break;
    }
    return at;
}

/* The place of the first bad escape from `at` on, or s.len. Escapes mostly come in a row. */
__attribute__((noinline)) static size_t check_escapes(struct slice s, size_t at)
{
    at = skip_good(s, at);
    if (at < s.len && s.ptr[at] != '%')
        at += find_byte(slice_from(s, at), '%');
    while (at < s.len) {
        if (s.len - at < 3 || !is_hex(s.ptr[at + 1]) || !is_hex(s.ptr[at + 2]))
            return at; /* two hexadecimal digits do not follow the '%' */
        at += 3;
        for (size_t end = at + 16; at < s.len && at < end && s.ptr[at] != '%';)
            at++;
        if (at < s.len && s.ptr[at] != '%')
            at += find_byte(slice_from(s, at), '%');
    }
    return s.len;
}

/* The place of the first bad escape, or s.len. */
static size_t find_bad_escape(struct slice s)
{
    size_t at = find_byte(s, '%');

    return at == s.len ? at : check_escapes(s, at);
}

/* The next unescaped byte, with *at moved behind it. Every escape in `s` is good. */
static uint8_t next_byte(struct slice s, size_t *at, bool plus_is_space)
{
    const uint8_t *p = s.ptr + *at, c = *p;

    if (c == '%') {
        *at += 3;
        return (uint8_t)(hex_value(p[1]) << 4 | hex_value(p[2]));
    }
    *at += 1;
    return c == '+' && plus_is_space ? ' ' : c;
}

/* Nothing in it stands for something else. */
static bool is_unescaped(struct slice s, bool plus_is_space)
{
    return find_byte(s, '%') == s.len && !(plus_is_space && find_byte(s, '+') < s.len);
}

/* Reading never falls behind writing, so `out` may be the escaped bytes themselves. */
static struct slice unescape_into(struct slice s, bool plus_is_space, uint8_t *out)
{
    size_t len = 0;

    if (s.len > 0 && is_unescaped(s, plus_is_space)) {
        memmove(out, s.ptr, s.len);
        return (struct slice){out, s.len};
    }
    for (size_t at = 0; at < s.len;)
        out[len++] = next_byte(s, &at, plus_is_space);
    return (struct slice){out, len};
}

/* Takes `scheme:` off the front of *rest, if it is there. False for `:` without a scheme. */
static bool take_scheme(struct slice *rest, bool *taken)
{
    for (size_t i = 0; i < rest->len; i++) {
        uint8_t c = rest->ptr[i];

        if (c == ':') {
            *taken = i > 0;
            *rest = slice_from(*rest, i + 1);
            return *taken;
        }
        if (!byte_is_letter(c) &&
            (i == 0 || !(byte_is_digit(c) || c == '+' || c == '-' || c == '.')))
            break;
    }
    return true;
}

/* Looks at all bytes, without a way out of the loop: so the compiler looks at many at a time. */
static bool has_control(struct slice s)
{
    unsigned found = 0;

    for (size_t i = 0; i < s.len; i++)
        found |= (unsigned)(s.ptr[i] < ' ') | (unsigned)(s.ptr[i] == 0x7f);
    return found != 0;
}

/* Takes `user@host:port` off the front of *rest; the host is what follows the last '@'. The host is
 * only compared and never resolved, so it may have any bytes. */
static struct slice take_host(struct slice *rest)
{
    struct slice authority = {rest->ptr, find_byte(*rest, '/')};
    const uint8_t *at = authority.len == 0 ? NULL : memrchr(authority.ptr, '@', authority.len);

    *rest = slice_from(*rest, authority.len);
    return at == NULL ? authority : slice_from(authority, (size_t)(at - authority.ptr) + 1);
}

bool url_parse_target(struct slice raw, bool authority, struct url_target *out)
{
    struct url_target t = {.asterisk = slice_is(raw, "*")};
    struct slice rest = raw;
    bool scheme = false;
    size_t cut;

    if (has_control(raw))
        return false;
    if (!authority) {
        if (raw.len == 0)
            return false;
        if (t.asterisk) {
            t.path = raw;
            *out = t;
            return true;
        }
        if (!take_scheme(&rest, &scheme))
            return false;
    }

    cut = find_byte(rest, '?');
    if (cut < rest.len) {
        t.query = slice_from(rest, cut + 1);
        rest.len = cut;
    }

    if (authority) {
        t.host = take_host(&rest);
    } else if (scheme && slice_starts_with(rest, slice_str("//"))) {
        rest = slice_from(rest, 2);
        t.host = take_host(&rest);
    } else if (!slice_starts_with(rest, slice_str("/"))) {
        if (!scheme)
            return false;
        rest.len = 0; /* for Go, `mailto:someone` has no path */
    }
    if (find_bad_escape(rest) != rest.len)
        return false;
    t.path = rest;
    *out = t;
    return true;
}

struct slice url_unescape_path(struct slice escaped, uint8_t *out)
{
    return unescape_into(escaped, false, out);
}

/* Removes `//`, `.` and `..` from a path that starts with a slash, in place. */
static size_t clean_path(uint8_t *path, size_t len)
{
    size_t from = 0, to = 0;
    bool trailing = path[len - 1] == '/';

    while (from < len) {
        size_t start = ++from; /* behind the slash */

        while (from < len && path[from] != '/')
            from++;
        if (from == start || (from == start + 1 && path[start] == '.'))
            continue;
        if (from == start + 2 && path[start] == '.' && path[start + 1] == '.') {
            while (to > 0 && path[--to] != '/')
                ;
            continue;
        }
        path[to++] = '/';
        memmove(path + to, path + start, from - start);
        to += from - start;
    }
    if (to == 0 || trailing)
        path[to++] = '/';
    return to;
}

struct slice url_clean_path(struct slice escaped, uint8_t *out, bool *moved)
{
    size_t len = url_unescape_path(escaped, out).len;
    size_t clean_len;

    *moved = false;
    if (len == 0 || out[0] != '/') {
        memmove(out + 1, out, len);
        out[0] = '/';
        len++;
        *moved = true;
    }
    clean_len = clean_path(out, len);
    *moved = *moved || clean_len != len; /* cleaning takes away and adds nothing */
    return (struct slice){out, clean_len};
}

static void write_escape(struct writer *w, uint8_t c, const char *digits)
{
    writer_u8(w, '%');
    writer_u8(w, (uint8_t)digits[c >> 4]);
    writer_u8(w, (uint8_t)digits[c & 15]);
}

static void url_write_path(struct writer *w, struct slice path)
{
    for (size_t i = 0; i < path.len; i++) {
        uint8_t c = path.ptr[i];

        if (is_path_byte[c])
            writer_u8(w, c);
        else
            write_escape(w, c, "0123456789ABCDEF");
    }
}

/* Go lets the path's escapes be upper-case, and these, which it adds for the header, lower-case. */
void url_write_location(struct writer *w, struct slice path, struct slice query)
{
    url_write_path(w, path);
    if (query.len > 0)
        writer_u8(w, '?');
    for (size_t i = 0; i < query.len; i++) {
        if (query.ptr[i] < 0x80)
            writer_u8(w, query.ptr[i]);
        else
            write_escape(w, query.ptr[i], "0123456789abcdef");
    }
}

static void write_html(struct writer *w, uint8_t c)
{
    static const char *const names[256] = {
        ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;", ['"'] = "&#34;", ['\''] = "&#39;"};

    if (names[c] != NULL)
        writer_str(w, names[c]);
    else
        writer_u8(w, c);
}

void url_write_moved_page(struct writer *w, struct slice path, struct slice query)
{
    writer_str(w, "<a href=\"");
    for (size_t i = 0; i < path.len; i++) {
        if (path.ptr[i] == '&') /* the only character that needs HTML escaping and that
                                   url_write_path() leaves unchanged */
            write_html(w, '&');
        else
            url_write_path(w, (struct slice){path.ptr + i, 1});
    }
    if (query.len > 0)
        writer_u8(w, '?');
    for (size_t i = 0; i < query.len; i++)
        write_html(w, query.ptr[i]);
    writer_str(w, "\">Moved Permanently</a>.\n\n");
}

/* A byte as Go's %q shows it; those above ASCII stay as they are. */
static void quote_byte(struct writer *w, uint8_t c)
{
    static const char short_forms[] = "abtnvfr"; /* of 7 to 13 */
    char hex[8];

    if (c == '"' || c == '\\') {
        writer_u8(w, '\\');
        writer_u8(w, c);
    } else if (c >= 7 && c <= 13) {
        writer_u8(w, '\\');
        writer_u8(w, (uint8_t)short_forms[c - 7]);
    } else if (c < ' ' || c == 0x7f) {
        snprintf(hex, sizeof hex, "\\x%02x", (unsigned)c);
        writer_str(w, hex);
    } else {
        writer_u8(w, c);
    }
}

static void describe_escape(struct slice s, size_t at, struct url_error *why)
{
    struct writer w = {.ptr = (uint8_t *)why->text, .cap = sizeof why->text};

    writer_str(&w, "invalid URL escape \"");
    for (size_t i = at; i < s.len && i < at + 3; i++)
        quote_byte(&w, s.ptr[i]);
    writer_str(&w, "\"");
    writer_u8(&w, 0);
}

bool url_check_form(struct slice form, struct url_error *why)
{
    struct slice rest = form;
    struct url_param p;

    if (find_byte(form, ';') < form.len) {
        *why = (struct url_error){"invalid semicolon separator in query"};
        return false;
    }
    if (find_bad_escape(form) == form.len)
        return true;
    for (size_t n = 0; n < URL_PARAMS_MAX && url_next_param(&rest, &p); n++) {
        struct slice part = find_bad_escape(p.name) < p.name.len ? p.name : p.value;
        size_t bad = find_bad_escape(part); /* Go's message quotes only the first bad escape */

        if (bad < part.len) {
            describe_escape(part, bad, why);
            return false;
        }
    }
    *why = (struct url_error){"invalid URL escape"};
    return false;
}

bool url_next_param(struct slice *rest, struct url_param *out)
{
    struct slice piece;
    size_t empty = 0, equals;

    while (empty < rest->len && rest->ptr[empty] == '&')
        empty++;
    *rest = slice_from(*rest, empty);
    if (rest->len == 0)
        return false;
    piece = (struct slice){rest->ptr, find_byte(*rest, '&')};
    *rest = slice_from(*rest, piece.len < rest->len ? piece.len + 1 : piece.len);
    equals = find_byte(piece, '=');
    out->name = (struct slice){piece.ptr, equals};
    out->value = slice_from(piece, equals < piece.len ? equals + 1 : equals);
    return true;
}

/* True when the unescaped bytes of `escaped` are exactly `name`. */
static bool is_param_named(struct slice escaped, const char *name)
{
    size_t at = 0;

    while (at < escaped.len && *name != '\0') {
        if (next_byte(escaped, &at, true) != (uint8_t)*name++)
            return false;
    }
    return at == escaped.len && *name == '\0';
}

bool url_find_params(struct slice form, struct slice query, const char *const *names, size_t count,
                     struct slice *values)
{
    struct slice sources[] = {form, query};
    size_t seen = 0;

    for (size_t i = 0; i < count; i++)
        values[i] = (struct slice){0};
    for (size_t i = 0; i < 2; i++) {
        struct url_param p;

        while (url_next_param(&sources[i], &p)) {
            if (seen++ == URL_PARAMS_MAX)
                return false;
            for (size_t n = 0; n < count; n++) {
                if (values[n].ptr == NULL && is_param_named(p.name, names[n]))
                    values[n] = p.value;
            }
        }
    }
    return true;
}

bool url_find_param(struct slice query, const char *name, struct slice *value)
{
    struct url_error why;

    *value = (struct slice){0};
    if (url_check_form(query, &why))
        url_find_params((struct slice){0}, query, &name, 1, value);
    return value->ptr != NULL;
}

size_t url_value_len(struct slice escaped)
{
    size_t len = 0;

    for (size_t at = 0; at < escaped.len; len++)
        at += escaped.ptr[at] == '%' ? 3 : 1;
    return len;
}

bool url_is_plain_value(struct slice escaped)
{
    return is_unescaped(escaped, true);
}

struct slice url_unescape_value(struct slice escaped, uint8_t *out)
{
    return unescape_into(escaped, true, out);
}
