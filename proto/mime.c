/* Content-Type as Go 1.19 reads it. Three things differ, which no header in use can show: Go takes
 * Unicode's spaces for spaces, folds the two non-ASCII letters whose lower case is ASCII (U+0130,
 * U+212A) into the type, and has no limit on the number of parameters. */
#include "proto/mime.h"

/* Printable ASCII but for ` "(),/:;<=>?@[\]`. */
static const bool is_token_byte[256] = {
    ['!'] = true,         ['#' ... '\''] = true, ['*' ... '+'] = true, ['-' ... '.'] = true,
    ['0' ... '9'] = true, ['A' ... 'Z'] = true,  ['^' ... '~'] = true,
};

static uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 'a' - 'A') : c;
}

static bool equal_fold(struct slice a, struct slice b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++) {
        if (lower(a.ptr[i]) != lower(b.ptr[i]))
            return false;
    }
    return true;
}

bool mime_type_is(struct slice type, const char *lower_case)
{
    return equal_fold(type, slice_str(lower_case));
}

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static struct slice skip_spaces(struct slice s)
{
    while (s.len > 0 && is_space(s.ptr[0]))
        s = slice_from(s, 1);
    return s;
}

static struct slice trim_spaces(struct slice s)
{
    s = skip_spaces(s);
    while (s.len > 0 && is_space(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

static struct slice take_token(struct slice *rest)
{
    size_t len = 0;

    while (len < rest->len && is_token_byte[rest->ptr[len]])
        len++;

    struct slice token = {rest->ptr, len};

    *rest = slice_from(*rest, len);
    return token;
}

/* `type` or `type/subtype`; NULL, or what is wrong. */
static const char *check_type(struct slice type)
{
    struct slice rest = type;

    if (take_token(&rest).len == 0)
        return "mime: no media type";
    if (rest.len == 0)
        return NULL;
    if (rest.ptr[0] != '/')
        return "mime: expected slash after first token";
    rest = slice_from(rest, 1);
    if (take_token(&rest).len == 0)
        return "mime: expected token after slash";
    return rest.len == 0 ? NULL : "mime: unexpected content after media subtype";
}

/* Takes a token or a quoted string. A line end in it can only be a fold, and stands for a space. */
static bool take_value(struct slice *rest)
{
    if (rest->len == 0 || rest->ptr[0] != '"')
        return take_token(rest).len > 0;
    for (size_t i = 1; i < rest->len; i++) {
        if (rest->ptr[i] == '"') {
            *rest = slice_from(*rest, i + 1);
            return true;
        }
        if (rest->ptr[i] == '\\') /* whatever it escapes, it is not the end */
            i++;
    }
    return false;
}

/* Takes `; name = value` and the spaces in it. */
static bool take_parameter(struct slice *rest, struct slice *name)
{
    struct slice s = skip_spaces(*rest);

    if (s.len == 0 || s.ptr[0] != ';')
        return false;
    s = skip_spaces(slice_from(s, 1));
    *name = take_token(&s);
    s = skip_spaces(s);
    if (name->len == 0 || s.len == 0 || s.ptr[0] != '=')
        return false;
    s = skip_spaces(slice_from(s, 1));
    if (!take_value(&s))
        return false;
    *rest = s;
    return true;
}

static bool is_among(struct slice name, const struct slice *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (equal_fold(name, names[i]))
            return true;
    }
    return false;
}

/* The parameters behind a type; NULL, or what is wrong. */
static const char *check_parameters(struct slice rest)
{
    struct slice seen[MIME_PARAMETERS_MAX];

    rest = skip_spaces(rest);
    for (size_t count = 0; rest.len > 0; count++) {
        struct slice name;

        if (count == MIME_PARAMETERS_MAX || !take_parameter(&rest, &name))
            /* one semicolon too many is no fault */
            return slice_is(trim_spaces(rest), ";") ? NULL : "mime: invalid media parameter";
        if (is_among(name, seen, count))
            return "mime: duplicate parameter name";
        seen[count] = name;
        rest = skip_spaces(rest);
    }
    return NULL;
}

bool mime_parse_type(struct slice value, struct slice *type, const char **why)
{
    const uint8_t *semicolon = memchr(value.ptr, ';', value.len);
    size_t end = semicolon == NULL ? value.len : (size_t)(semicolon - value.ptr);
    struct slice base = trim_spaces((struct slice){value.ptr, end});
    const char *fault = check_type(base);

    if (fault == NULL)
        fault = check_parameters(slice_from(value, end));
    if (fault != NULL) {
        *why = fault;
        return false;
    }
    *type = base;
    return true;
}
