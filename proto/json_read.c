/* JSON text as Go's encoding/json reads it. See json_read.h for the contract.
 *
 * Upstream: Go 1.19, encoding/json/scanner.go (states and error texts) and decode.go (strings). */
#include "proto/json_read.h"

#include <stdio.h>

#include "proto/utf8.h"

/* --- Checking. --- */

struct scan {
    struct slice in;
    size_t at;
    size_t depth;
    uint8_t in_object[(JSON_DEPTH_MAX + 7) / 8]; /* a bit for each level */
    struct json_error *why;
};

/* A byte as Go quotes it. It takes bytes for code points, so that 0xe4 is shown as a letter. */
static void quote(uint8_t c, char out[12])
{
    static const char named[] = "\a\b\f\n\r\t\v", names[] = "abfnrtv";
    const char *name = c == 0 ? NULL : strchr(named, c);

    if (c == '\'' || c == '\\')
        snprintf(out, 12, "'\\%c'", c);
    else if (name != NULL)
        snprintf(out, 12, "'\\%c'", names[name - named]);
    else if (c < 0x20 || c == 0x7f)
        snprintf(out, 12, "'\\x%02x'", c);
    else if (c < 0x7f)
        snprintf(out, 12, "'%c'", c);
    else if (c <= 0xa0 || c == 0xad)
        snprintf(out, 12, "'\\u%04x'", c);
    else
        snprintf(out, 12, "'%c%c'", 0xc0 | c >> 6, 0x80 | (c & 0x3f));
}

static bool fail_with(struct scan *s, uint8_t c, const char *where)
{
    char quoted[12];

    quote(c, quoted);
    snprintf(s->why->text, sizeof s->why->text, "invalid character %s %s", quoted, where);
    return false;
}

/* The fault is at s->at, where a blank would have been right; `where` is what Go was reading. */
static bool fail(struct scan *s, const char *where)
{
    if (s->at < s->in.len)
        return fail_with(s, s->in.ptr[s->at], where);
    snprintf(s->why->text, sizeof s->why->text, "unexpected end of JSON input");
    return false;
}

/* The fault is at s->at, where no blank may be. At the end of the text Go tries one, and reports it
 * instead of the end. */
static bool fail_within(struct scan *s, const char *where)
{
    return fail_with(s, s->at < s->in.len ? s->in.ptr[s->at] : ' ', where);
}

/* True when the next byte is `c`, and then it is passed. */
static bool pass(struct scan *s, char c)
{
    if (s->at == s->in.len || s->in.ptr[s->at] != (uint8_t)c)
        return false;
    s->at++;
    return true;
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void pass_blanks(struct scan *s)
{
    while (s->at < s->in.len && is_blank(s->in.ptr[s->at]))
        s->at++;
}

static bool next_is_digit(const struct scan *s)
{
    return s->at < s->in.len && s->in.ptr[s->at] >= '0' && s->in.ptr[s->at] <= '9';
}

static bool check_digits(struct scan *s, const char *where)
{
    if (!next_is_digit(s))
        return fail_within(s, where);
    while (next_is_digit(s))
        s->at++;
    return true;
}

static bool check_number(struct scan *s)
{
    pass(s, '-');
    if (!pass(s, '0') && !check_digits(s, "in numeric literal"))
        return false;
    if (pass(s, '.') && !check_digits(s, "after decimal point in numeric literal"))
        return false;
    if (!pass(s, 'e') && !pass(s, 'E'))
        return true;
    if (!pass(s, '+'))
        pass(s, '-');
    return check_digits(s, "in exponent of numeric literal");
}

static bool check_literal(struct scan *s, const char *literal)
{
    for (const char *c = literal; *c != '\0'; c++) {
        char where[40];

        if (pass(s, *c))
            continue;
        snprintf(where, sizeof where, "in literal %s (expecting '%c')", literal, *c);
        return fail_within(s, where);
    }
    return true;
}

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool check_escape(struct scan *s)
{
    if (s->at == s->in.len || memchr("bfnrt\\/\"u", s->in.ptr[s->at], 9) == NULL)
        return fail_within(s, "in string escape code");
    if (!pass(s, 'u')) {
        s->at++;
        return true;
    }
    for (int i = 0; i < 4; i++, s->at++) {
        if (s->at == s->in.len || hex_digit(s->in.ptr[s->at]) < 0)
            return fail_within(s, "in \\u hexadecimal character escape");
    }
    return true;
}

/* The rest of a string, behind its first quote. */
static bool check_string(struct scan *s)
{
    for (;;) {
        if (s->at == s->in.len || s->in.ptr[s->at] < 0x20)
            return fail(s, "in string literal");
        if (pass(s, '"'))
            return true;
        if (!pass(s, '\\'))
            s->at++;
        else if (!check_escape(s))
            return false;
    }
}

static bool is_in_object(const struct scan *s)
{
    size_t level = s->depth - 1;

    return s->in_object[level / 8] >> level % 8 & 1;
}

/* Goes into an object or array, whose bracket is at s->at. */
static bool enter(struct scan *s, bool object)
{
    uint8_t bit = (uint8_t)(1u << s->depth % 8);
    uint8_t *byte = &s->in_object[s->depth / 8];

    if (s->depth == JSON_DEPTH_MAX)
        return fail(s, "exceeded max depth");
    *byte = (uint8_t)(object ? *byte | bit : *byte & ~bit);
    s->depth++;
    s->at++;
    return true;
}

static bool check_name(struct scan *s)
{
    pass_blanks(s);
    if (!pass(s, '"'))
        return fail(s, "looking for beginning of object key string");
    if (!check_string(s))
        return false;
    pass_blanks(s);
    return pass(s, ':') || fail(s, "after object key");
}

/* What stands behind a value: the ends of those objects and arrays that end with it, and the way to
 * the next value, if there is one (s->depth is 0 if not). */
static bool check_end(struct scan *s)
{
    while (s->depth > 0) {
        bool object = is_in_object(s);

        pass_blanks(s);
        if (pass(s, ','))
            return !object || check_name(s);
        if (!pass(s, object ? '}' : ']'))
            return fail(s, object ? "after object key:value pair" : "after array element");
        s->depth--;
    }
    return true;
}

/* The start of a value. *whole: and the end of it. */
static bool check_value(struct scan *s, bool *whole)
{
    bool object;

    *whole = true;
    pass_blanks(s);
    if (s->at == s->in.len)
        return fail(s, "");
    switch (s->in.ptr[s->at]) {
    case '{':
    case '[':
        object = s->in.ptr[s->at] == '{';
        if (!enter(s, object))
            return false;
        pass_blanks(s);
        if (pass(s, object ? '}' : ']')) {
            s->depth--;
            return true;
        }
        *whole = false;
        return !object || check_name(s);
    case '"':
        s->at++;
        return check_string(s);
    case 't':
        return check_literal(s, "true");
    case 'f':
        return check_literal(s, "false");
    case 'n':
        return check_literal(s, "null");
    case '-':
        return check_number(s);
    default:
        return next_is_digit(s) ? check_number(s) : fail(s, "looking for beginning of value");
    }
}

bool json_take(struct slice in, bool alone, struct slice *value, struct json_error *why)
{
    struct scan s;
    size_t start;
    bool whole;

    s.in = in;
    s.at = 0;
    s.depth = 0;
    s.why = why;
    pass_blanks(&s);
    start = s.at;
    do {
        if (!check_value(&s, &whole) || (whole && !check_end(&s)))
            return false;
    } while (s.depth > 0);
    *value = (struct slice){in.ptr + start, s.at - start};
    if (alone)
        pass_blanks(&s);
    return !alone || s.at == in.len || fail(&s, "after top-level value");
}

/* --- Walking what has been checked. --- */

enum json_kind json_kind(struct slice value)
{
    switch (value.ptr[0]) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 'n':
        return JSON_NULL;
    case 't':
    case 'f':
        return JSON_BOOL;
    default:
        return JSON_NUMBER;
    }
}

static void drop(struct slice *rest, size_t n)
{
    *rest = slice_from(*rest, n);
}

static void drop_blanks(struct slice *rest)
{
    while (is_blank(rest->ptr[0]))
        drop(rest, 1);
}

static size_t string_len(struct slice s)
{
    size_t at = 1;

    while (s.ptr[at] != '"')
        at += s.ptr[at] == '\\' ? 2 : 1;
    return at + 1;
}

/* Where the value at the start of `s` ends. Something always follows it there: it is within an
 * object or array. */
static size_t value_len(struct slice s)
{
    size_t depth = 0, at = 0;

    if (json_kind(s) < JSON_STRING) {
        while (memchr(",]} \t\r\n", s.ptr[at], 7) == NULL)
            at++;
        return at;
    }
    do {
        uint8_t c = s.ptr[at];

        if (c == '{' || c == '[')
            depth++;
        if (c == '}' || c == ']')
            depth--;
        at += c == '"' ? string_len(slice_from(s, at)) : 1;
    } while (depth > 0);
    return at;
}

static struct slice take(struct slice *rest, size_t len)
{
    struct slice taken = {rest->ptr, len};

    drop(rest, len);
    drop_blanks(rest);
    return taken;
}

/* Passes the opening bracket, or the comma behind the last one. False at the closing bracket, which
 * stays. */
static bool go_on(struct slice *rest)
{
    if (rest->ptr[0] == '}' || rest->ptr[0] == ']')
        return false;
    drop(rest, 1);
    drop_blanks(rest);
    return rest->ptr[0] != '}' && rest->ptr[0] != ']';
}

bool json_next_element(struct slice *rest, struct slice *value)
{
    if (!go_on(rest))
        return false;
    *value = take(rest, value_len(*rest));
    return true;
}

bool json_next_member(struct slice *rest, struct slice *name, struct slice *value)
{
    if (!go_on(rest))
        return false;
    *name = take(rest, string_len(*rest));
    drop(rest, 1); /* the colon */
    drop_blanks(rest);
    *value = take(rest, value_len(*rest));
    return true;
}

/* --- Strings. --- */

static size_t put_utf8(uint32_t code, uint8_t *out)
{
    size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t marks[] = {0, 0, 0xc0, 0xe0, 0xf0};

    for (size_t i = len; i-- > 1; code >>= 6)
        out[i] = (uint8_t)(0x80 | (code & 0x3f));
    out[0] = (uint8_t)(marks[len] | code);
    return len;
}

static uint32_t four_digits(const uint8_t *p)
{
    uint32_t code = 0;

    for (int i = 0; i < 4; i++)
        code = code << 4 | (uint32_t)hex_digit(p[i]);
    return code;
}

/* The code point behind a `\u`; *at is passed over it. Half a surrogate pair is U+FFFD, and does
 * not take the escape behind it with it. */
static uint32_t escaped_code(struct slice s, size_t *at)
{
    uint32_t high = four_digits(s.ptr + *at), low;

    *at += 4;
    if ((high & ~0x7ffu) != 0xd800)
        return high;
    if (high >= 0xdc00 || s.len - *at < 6 || s.ptr[*at] != '\\' || s.ptr[*at + 1] != 'u')
        return 0xfffd;
    low = four_digits(s.ptr + *at + 2);
    if ((low & ~0x3ffu) != 0xdc00)
        return 0xfffd;
    *at += 6;
    return 0x10000 + ((high & 0x3ff) << 10 | (low & 0x3ff));
}

size_t json_unquote(struct slice string, uint8_t *out)
{
    static const char names[] = "bfnrt", values[] = "\b\f\n\r\t";
    struct slice s = {string.ptr, string.len - 1}; /* without the last quote */
    size_t at = 1, len = 0;

    while (at < s.len) {
        uint8_t c = s.ptr[at];
        const char *name;

        if (c != '\\') {
            uint32_t point;
            size_t n = utf8_decode(slice_from(s, at), &point);

            if (n == 0) {
                len += put_utf8(0xfffd, out + len);
                at++;
                continue;
            }
            memcpy(out + len, s.ptr + at, n);
            len += n;
            at += n;
            continue;
        }
        c = s.ptr[at + 1];
        at += 2;
        if (c == 'u') {
            len += put_utf8(escaped_code(s, &at), out + len);
            continue;
        }
        name = strchr(names, c);
        out[len++] = name == NULL ? c : (uint8_t)values[name - names];
    }
    return len;
}

/* A letter as Go folds it: besides the ASCII letters, the Kelvin sign is a k and the long s an s.
 * *at is passed over it. */
static uint8_t folded(struct slice text, size_t *at)
{
    uint8_t c = text.ptr[*at];

    if (slice_starts_with(slice_from(text, *at), slice_str("\u212a"))) {
        *at += 3;
        return 'k';
    }
    if (slice_starts_with(slice_from(text, *at), slice_str("\u017f"))) {
        *at += 2;
        return 's';
    }
    ++*at;
    return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
}

bool json_name_is(struct slice name, const char *field)
{
    uint8_t bytes[JSON_UNQUOTED_MAX(128)];
    struct slice wanted = slice_str(field), text = {bytes, 0};
    size_t at = 0;

    if (name.len > 128) /* even with everything escaped no field of ours is that long */
        return false;
    text.len = json_unquote(name, bytes);
    for (size_t i = 0; i < wanted.len;) {
        if (at == text.len || folded(wanted, &i) != folded(text, &at))
            return false;
    }
    return at == text.len;
}
