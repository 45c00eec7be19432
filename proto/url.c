/* Targets, paths and form data as Go 1.19 reads them. What is refused and what is passed through
 * was seen on etcd 3.4.23; where it looks odd, tests/unit/test_url.c says what etcd answered. */
#include "proto/url.h"

#include <stdio.h>

static bool is_alpha(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static int hex_digit(uint8_t c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Where a byte may stand unescaped. */
enum place {
    IN_SCHEME = 1, /* behind the first letter */
    IN_USER = 2,
    IN_HOST = 4,
    IN_PATH = 8, /* as url_write_path() writes it; more is read */
    ANYWHERE = 15,
};

static const uint8_t places[256] = {
    ['0' ... '9'] = ANYWHERE,
    ['A' ... 'Z'] = ANYWHERE,
    ['a' ... 'z'] = ANYWHERE,
    ['!'] = IN_USER | IN_HOST,
    ['"'] = IN_HOST,
    ['$'] = IN_USER | IN_HOST | IN_PATH,
    ['%'] = IN_USER,
    ['&'] = IN_USER | IN_HOST | IN_PATH,
    ['\''] = IN_USER | IN_HOST,
    ['('] = IN_USER | IN_HOST,
    [')'] = IN_USER | IN_HOST,
    ['*'] = IN_USER | IN_HOST,
    ['+'] = IN_SCHEME | IN_USER | IN_HOST | IN_PATH,
    [','] = IN_USER | IN_HOST | IN_PATH,
    ['-'] = IN_SCHEME | IN_USER | IN_HOST | IN_PATH,
    ['.'] = IN_SCHEME | IN_USER | IN_HOST | IN_PATH,
    ['/'] = IN_PATH,
    [':'] = IN_USER | IN_HOST | IN_PATH,
    [';'] = IN_USER | IN_HOST | IN_PATH,
    ['<'] = IN_HOST,
    ['='] = IN_USER | IN_HOST | IN_PATH,
    ['>'] = IN_HOST,
    ['@'] = IN_USER | IN_PATH,
    ['['] = IN_HOST,
    [']'] = IN_HOST,
    ['_'] = IN_USER | IN_HOST | IN_PATH,
    ['~'] = IN_USER | IN_HOST | IN_PATH,
};

static bool may_stand(uint8_t c, enum place place)
{
    return (places[c] & place) != 0;
}

/* Where `c` first stands in `s`, or s.len. */
static size_t find_byte(struct slice s, char c)
{
    const uint8_t *at = s.len == 0 ? NULL : memchr(s.ptr, c, s.len);

    return at == NULL ? s.len : (size_t)(at - s.ptr);
}

/* The same from the end. */
static size_t find_last_byte(struct slice s, char c)
{
    for (size_t i = s.len; i > 0; i--) {
        if (s.ptr[i - 1] == (uint8_t)c)
            return i - 1;
    }
    return s.len;
}

/* The byte that the escape at s.ptr[at], a '%', stands for; -1 when it is not two hex digits. */
static int escape_at(struct slice s, size_t at)
{
    int high, low;

    if (s.len - at < 3)
        return -1;
    high = hex_digit(s.ptr[at + 1]);
    low = hex_digit(s.ptr[at + 2]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* The place of the first bad escape, or s.len. */
static size_t find_bad_escape(struct slice s)
{
    size_t at = 0;

    while (at < s.len) {
        size_t step = find_byte(slice_from(s, at), '%');

        at += step;
        if (at == s.len)
            break;
        if (escape_at(s, at) < 0)
            return at;
        at += 3;
    }
    return s.len;
}

/* The next unescaped byte, with *at moved behind it. Every escape in `s` is good. */
static uint8_t next_byte(struct slice s, size_t *at, bool plus_is_space)
{
    uint8_t c = s.ptr[*at];

    if (c == '%') {
        c = (uint8_t)escape_at(s, *at);
        *at += 3;
        return c;
    }
    *at += 1;
    return c == '+' && plus_is_space ? ' ' : c;
}

/* Reading never falls behind writing, so `out` may be the escaped bytes themselves. */
static struct slice unescape(struct slice s, bool plus_is_space, uint8_t *out)
{
    size_t at = 0, len = 0;

    if (s.len > 0 && find_byte(s, '%') == s.len && !(plus_is_space && find_byte(s, '+') < s.len)) {
        memmove(out, s.ptr, s.len);
        return (struct slice){out, s.len};
    }
    while (at < s.len)
        out[len++] = next_byte(s, &at, plus_is_space);
    return (struct slice){out, len};
}

/* What an escape in a host may stand for: bytes above ASCII, and the percent sign before a zone. In
 * the zone of an IPv6 address: what may be written plainly there, the percent sign and a space. */
static bool may_be_escaped(uint8_t c, bool zone)
{
    return c == '%' || (zone ? c == ' ' || may_stand(c, IN_HOST) : c >= 0x80);
}

/* A host, or a part of one; `zone`: what follows an IPv6 address, from its `%25` on. */
static bool check_host_part(struct slice s, bool zone)
{
    for (size_t at = 0; at < s.len;) {
        uint8_t c = s.ptr[at];

        if (c == '%') {
            int byte = escape_at(s, at);

            if (byte < 0 || !may_be_escaped((uint8_t)byte, zone))
                return false;
            at += 3;
        } else if (c < 0x80 && !may_stand(c, IN_HOST)) {
            return false;
        } else {
            at++;
        }
    }
    return true;
}

/* `` or `:` and digits, of which there may be none. */
static bool check_port(struct slice s)
{
    if (s.len > 0 && s.ptr[0] != ':')
        return false;
    for (size_t i = 1; i < s.len; i++) {
        if (!is_digit(s.ptr[i]))
            return false;
    }
    return true;
}

static bool check_host(struct slice host)
{
    if (host.len > 0 && host.ptr[0] == '[') {
        size_t end = find_last_byte(host, ']');
        struct slice address = {host.ptr, end};

        if (end == host.len || !check_port(slice_from(host, end + 1)))
            return false;
        for (size_t at = 0; at + 3 <= address.len; at++) {
            if (memcmp(address.ptr + at, "%25", 3) == 0)
                return check_host_part((struct slice){host.ptr, at}, false) &&
                       check_host_part(slice_from(address, at), true) &&
                       check_host_part(slice_from(host, end), false);
        }
    } else {
        size_t colon = find_last_byte(host, ':');

        if (!check_port(slice_from(host, colon)))
            return false;
    }
    return check_host_part(host, false);
}

static bool check_user(struct slice user)
{
    for (size_t i = 0; i < user.len; i++) {
        if (!may_stand(user.ptr[i], IN_USER))
            return false;
    }
    return find_bad_escape(user) == user.len;
}

/* `user@host:port`; *host is what follows the last '@'. */
static bool parse_authority(struct slice s, struct slice *host)
{
    size_t at = find_last_byte(s, '@');
    struct slice user = {s.ptr, at};

    *host = s;
    if (at == s.len)
        return check_host(s);
    *host = slice_from(s, at + 1);
    return check_host(*host) && check_user(user);
}

/* Takes `scheme:` off the front of *rest, when there is one. False for `:` without a scheme. */
static bool take_scheme(struct slice *rest, struct slice *scheme)
{
    for (size_t i = 0; i < rest->len; i++) {
        uint8_t c = rest->ptr[i];

        if (c == ':') {
            *scheme = (struct slice){rest->ptr, i};
            *rest = slice_from(*rest, i + 1);
            return i > 0;
        }
        if (!(i == 0 ? is_alpha(c) : may_stand(c, IN_SCHEME)))
            break;
    }
    return true;
}

static bool has_control(struct slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < ' ' || s.ptr[i] == 0x7f)
            return true;
    }
    return false;
}

bool url_parse_target(struct slice raw, bool authority, struct url_target *out)
{
    struct url_target t = {.asterisk = slice_is(raw, "*")};
    struct slice rest = raw;
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
        if (!take_scheme(&rest, &t.scheme))
            return false;
    }

    cut = find_byte(rest, '?');
    if (cut < rest.len) {
        t.query = slice_from(rest, cut + 1);
        rest.len = cut;
    }

    if (authority || (t.scheme.len > 0 && slice_starts_with(rest, slice_str("//")))) {
        struct slice where = authority ? rest : slice_from(rest, 2);

        cut = find_byte(where, '/');
        rest = slice_from(where, cut);
        where.len = cut;
        if (!parse_authority(where, &t.host))
            return false;
    } else if (!slice_starts_with(rest, slice_str("/"))) {
        /* `mailto:someone` has no path as far as Go is concerned; without a scheme it is nothing.
         */
        if (t.scheme.len == 0)
            return false;
        rest.len = 0;
    }
    if (find_bad_escape(rest) != rest.len)
        return false;
    t.path = rest;
    *out = t;
    return true;
}

struct slice url_unescape_path(struct slice escaped, uint8_t *out)
{
    return unescape(escaped, false, out);
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

void url_write_path(struct writer *w, struct slice path)
{
    for (size_t i = 0; i < path.len; i++) {
        uint8_t c = path.ptr[i];

        if (may_stand(c, IN_PATH))
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

/* An escaped path needs this for nothing but `&`. */
static void write_html(struct writer *w, uint8_t c)
{
    switch (c) {
    case '&':
        writer_str(w, "&amp;");
        break;
    case '<':
        writer_str(w, "&lt;");
        break;
    case '>':
        writer_str(w, "&gt;");
        break;
    case '"':
        writer_str(w, "&#34;");
        break;
    case '\'':
        writer_str(w, "&#39;");
        break;
    default:
        writer_u8(w, c);
    }
}

void url_write_moved_page(struct writer *w, struct slice path, struct slice query)
{
    writer_str(w, "<a href=\"");
    for (size_t i = 0; i < path.len; i++) {
        if (path.ptr[i] == '&')
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

/* U+0080 to U+07FF, as far as Go (Unicode 13) does not print them. Two bytes of UTF-8 is all that
 * can stand behind the '%' of a quoted escape. */
static bool is_printable(unsigned rune)
{
    static const struct {
        uint16_t first, last;
    } hidden[] = {
        {0x80, 0xa0},   {0xad, 0xad},   {0x378, 0x379}, {0x380, 0x383}, {0x38b, 0x38b},
        {0x38d, 0x38d}, {0x3a2, 0x3a2}, {0x530, 0x530}, {0x557, 0x558}, {0x58b, 0x58c},
        {0x590, 0x590}, {0x5c8, 0x5cf}, {0x5eb, 0x5ee}, {0x5f5, 0x605}, {0x61c, 0x61d},
        {0x6dd, 0x6dd}, {0x70e, 0x70f}, {0x74b, 0x74c}, {0x7b2, 0x7bf}, {0x7fb, 0x7fc},
    };

    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        if (rune >= hidden[i].first && rune <= hidden[i].last)
            return false;
    }
    return true;
}

/* One ASCII byte as Go's %q shows it. */
static void quote_ascii(struct writer *w, uint8_t c)
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

/* Up to three bytes as Go's %q shows them. */
static void quote(struct writer *w, struct slice s)
{
    char hex[8];

    for (size_t i = 0; i < s.len; i++) {
        uint8_t c = s.ptr[i];

        if (c < 0x80) {
            quote_ascii(w, c);
        } else if (c >= 0xc2 && c <= 0xdf && i + 1 < s.len && (s.ptr[i + 1] & 0xc0) == 0x80) {
            unsigned rune = (c & 0x1fu) << 6 | (s.ptr[i + 1] & 0x3fu);

            snprintf(hex, sizeof hex, "\\u%04x", rune);
            if (is_printable(rune))
                writer_put(w, s.ptr + i, 2);
            else
                writer_str(w, hex);
            i++;
        } else {
            snprintf(hex, sizeof hex, "\\x%02x", (unsigned)c);
            writer_str(w, hex);
        }
    }
}

static void describe_escape(struct slice s, size_t at, struct url_error *why)
{
    struct writer w = {.ptr = (uint8_t *)why->text, .cap = sizeof why->text};
    struct slice bad = slice_from(s, at);

    if (bad.len > 3)
        bad.len = 3;
    writer_str(&w, "invalid URL escape \"");
    quote(&w, bad);
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
    while (url_next_param(&rest, &p)) { /* which has it, since Go shows no more than that */
        size_t bad = find_bad_escape(p.name);

        if (bad < p.name.len) {
            describe_escape(p.name, bad, why);
            return false;
        }
        bad = find_bad_escape(p.value);
        if (bad < p.value.len) {
            describe_escape(p.value, bad, why);
            return false;
        }
    }
    return true;
}

bool url_next_param(struct slice *rest, struct url_param *out)
{
    while (rest->len > 0) {
        size_t end = find_byte(*rest, '&');
        struct slice piece = {rest->ptr, end};
        size_t equals = find_byte(piece, '=');

        *rest = slice_from(*rest, end < rest->len ? end + 1 : end);
        if (piece.len == 0)
            continue;
        out->name = (struct slice){piece.ptr, equals};
        out->value = slice_from(piece, equals < piece.len ? equals + 1 : equals);
        return true;
    }
    return false;
}

/* True when the unescaped bytes of `escaped` are exactly `name`. */
static bool is_named(struct slice escaped, const char *name)
{
    size_t at = 0;

    while (at < escaped.len && *name != '\0') {
        if (next_byte(escaped, &at, true) != (uint8_t)*name++)
            return false;
    }
    return at == escaped.len && *name == '\0';
}

void url_find_params(struct slice form, struct slice query, const char *const *names, size_t count,
                     struct slice *values)
{
    struct slice sources[] = {form, query};

    for (size_t i = 0; i < count; i++)
        values[i] = (struct slice){0};
    for (size_t i = 0; i < 2; i++) {
        struct url_param p;

        while (url_next_param(&sources[i], &p)) {
            for (size_t n = 0; n < count; n++) {
                if (values[n].ptr == NULL && is_named(p.name, names[n]))
                    values[n] = p.value;
            }
        }
    }
}

bool url_find_param(struct slice form, struct slice query, const char *name, struct slice *value)
{
    url_find_params(form, query, &name, 1, value);
    return value->ptr != NULL;
}

size_t url_value_len(struct slice escaped)
{
    size_t len = 0;

    for (size_t at = 0; at < escaped.len; len++)
        at += escaped.ptr[at] == '%' ? 3 : 1;
    return len;
}

struct slice url_unescape_value(struct slice escaped, uint8_t *out)
{
    return unescape(escaped, true, out);
}
