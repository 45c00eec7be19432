/* The URLs of etcd's members. See peer_url.h for the contract.
 *
 * Upstream: Go 1.19, net/url Parse() and net SplitHostPort(); etcd 3.4, pkg/types/urls.go. */
#include "rdzv/config/peer_url.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

/* Why Go refuses a URL: `text`, or `before`, the quoted `quoted`, `after`. */
struct url_fault {
    const char *before;
    struct slice quoted;
    const char *after;
};

/* A string as Go's %q shows it, of valid UTF-8. */
static void write_quoted(struct writer *w, struct slice s)
{
    static const char named[] = "\a\b\f\n\r\t\v\\\"", names[] = "abfnrtv\\\"";

    writer_u8(w, '"');
    for (size_t i = 0; i < s.len; i++) {
        uint8_t c = s.ptr[i];
        const char *name = c == 0 ? NULL : strchr(named, c);
        char text[8];

        if (name != NULL) {
            writer_u8(w, '\\');
            writer_u8(w, (uint8_t)names[name - named]);
        } else if (c < 0x20 || c == 0x7f) {
            snprintf(text, sizeof text, "\\x%02x", c);
            writer_str(w, text);
        } else {
            writer_u8(w, c);
        }
    }
    writer_u8(w, '"');
}

static const uint8_t *find(struct slice s, char c)
{
    return s.len == 0 ? NULL : memchr(s.ptr, c, s.len);
}

static const uint8_t *find_last(struct slice s, char c)
{
    return s.len == 0 ? NULL : memrchr(s.ptr, c, s.len);
}

/* What stands before `at`, a place in it. */
static struct slice until(struct slice s, const uint8_t *at)
{
    return (struct slice){s.ptr, (size_t)(at - s.ptr)};
}

/* What stands from `at` on. */
static struct slice since(struct slice s, const uint8_t *at)
{
    return slice_from(s, (size_t)(at - s.ptr));
}

/* The part of *s before `c`; *s is what follows it, empty when there is none. */
static struct slice cut(struct slice *s, char c)
{
    const uint8_t *at = find(*s, c);
    struct slice before = at == NULL ? *s : until(*s, at);

    *s = at == NULL ? (struct slice){0} : since(*s, at + 1);
    return before;
}

/* False with a fault: there is a colon where a scheme should be. An absent scheme is empty. */
static bool take_scheme(struct slice *rest, struct slice *scheme, struct url_fault *fault)
{
    for (size_t i = 0; i < rest->len; i++) {
        uint8_t c = rest->ptr[i];

        if (c == ':' && i == 0) {
            fault->before = "missing protocol scheme";
            return false;
        }
        if (c == ':') {
            *scheme = (struct slice){rest->ptr, i};
            *rest = slice_from(*rest, i + 1);
            return true;
        }
        if (!(isalpha(c) || (i > 0 && (isdigit(c) || c == '+' || c == '-' || c == '.'))))
            return true;
    }
    return true;
}

static bool check_port(struct slice port, struct url_fault *fault)
{
    bool ok = port.len == 0 || port.ptr[0] == ':';

    for (size_t i = 1; i < port.len; i++)
        ok = ok && isdigit(port.ptr[i]);
    if (!ok)
        *fault = (struct url_fault){"invalid port ", port, " after host"};
    return ok;
}

static bool is_escape(struct slice s, size_t at)
{
    return s.len - at >= 3 && isxdigit(s.ptr[at + 1]) && isxdigit(s.ptr[at + 2]);
}

static bool blame_escape(struct slice s, size_t at, struct url_fault *fault)
{
    struct slice escape = slice_from(s, at);

    if (escape.len > 3)
        escape.len = 3;
    *fault = (struct url_fault){"invalid URL escape ", escape, ""};
    return false;
}

static bool check_host_bytes(struct slice host, struct url_fault *fault)
{
    for (size_t i = 0; i < host.len; i++) {
        uint8_t c = host.ptr[i];

        if (c == '%' &&
            (!is_escape(host, i) || (host.ptr[i + 1] < '8' && memcmp(host.ptr + i, "%25", 3) != 0)))
            return blame_escape(host, i, fault);
        if (c < 0x80 && !isalnum(c) && strchr("-_.~!$&'()*+,;=:[]<>\"%", c) == NULL) {
            *fault = (struct url_fault){"invalid character ", {host.ptr + i, 1}, " in host name"};
            return false;
        }
    }
    return true;
}

static bool check_host(struct slice host, struct url_fault *fault)
{
    const uint8_t *end = find_last(host, ']'), *colon = find_last(host, ':');
    struct slice port = {0};

    if (host.len != 0 && host.ptr[0] == '[') {
        if (end == NULL) {
            fault->before = "missing ']' in host";
            return false;
        }
        port = since(host, end + 1);
    } else if (colon != NULL) {
        port = since(host, colon);
    }
    return check_port(port, fault) && check_host_bytes(host, fault);
}

static bool check_user(struct slice user, struct url_fault *fault)
{
    for (size_t i = 0; i < user.len; i++) {
        uint8_t c = user.ptr[i];

        if (!isalnum(c) && (c == 0 || strchr("-._:~!$&'()*+,;=%@", c) == NULL)) {
            fault->before = "net/url: invalid userinfo";
            return false;
        }
    }
    for (size_t i = 0; i < user.len; i++) {
        if (user.ptr[i] == '%' && !is_escape(user, i))
            return blame_escape(user, i, fault);
    }
    return true;
}

static bool check_escapes(struct slice s, struct url_fault *fault)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '%' && !is_escape(s, i))
            return blame_escape(s, i, fault);
    }
    return true;
}

/* The parts of a URL that etcd looks at. */
struct url_parts {
    struct slice scheme;
    struct slice host; /* with its port */
    struct slice path;
};

static bool parse(struct slice url, struct url_parts *out, struct url_fault *fault)
{
    struct slice rest = url, authority, segment;
    const uint8_t *at;

    for (size_t i = 0; i < url.len; i++) {
        if (url.ptr[i] < 0x20 || url.ptr[i] == 0x7f) {
            fault->before = "net/url: invalid control character in URL";
            return false;
        }
    }
    if (!take_scheme(&rest, &out->scheme, fault))
        return false;
    rest = cut(&rest, '?');
    if (rest.len == 0 || rest.ptr[0] != '/') {
        segment = rest;
        if (out->scheme.len != 0)
            return true; /* opaque, as in mailto: */
        segment = cut(&segment, '/');
        if (find(segment, ':') != NULL) {
            fault->before = "first path segment in URL cannot contain colon";
            return false;
        }
    }
    out->path = rest;
    if (slice_starts_with(rest, slice_str("//")) &&
        (out->scheme.len != 0 || !slice_starts_with(rest, slice_str("///")))) {
        authority = slice_from(rest, 2);
        at = find(authority, '/');
        out->path = at == NULL ? (struct slice){0} : since(authority, at);
        if (at != NULL)
            authority = until(authority, at);
        at = find_last(authority, '@');
        out->host = at == NULL ? authority : since(authority, at + 1);
        if (!check_host(out->host, fault))
            return false;
        if (at != NULL && !check_user(until(authority, at), fault))
            return false;
    }
    return check_escapes(out->path, fault);
}

/* As net.SplitHostPort(): exactly one colon, or one behind brackets. */
static bool has_port(struct slice host)
{
    const uint8_t *colon = find_last(host, ':');
    struct slice name;

    if (colon == NULL)
        return false;
    name = until(host, colon);
    if (name.len >= 2 && name.ptr[0] == '[' && name.ptr[name.len - 1] == ']')
        name = (struct slice){name.ptr + 1, name.len - 2};
    else if (find(name, ':') != NULL)
        return false;
    return find(name, '[') == NULL && find(name, ']') == NULL;
}

static bool scheme_is_known(struct slice scheme)
{
    static const char *const known[] = {"http", "https", "unix", "unixs"};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (scheme.len == strlen(known[i]) &&
            strncasecmp((const char *)scheme.ptr, known[i], scheme.len) == 0)
            return true;
    }
    return false;
}

/* etcd's own reasons. */
static const char *find_reason(const struct url_parts *parts)
{
    if (!scheme_is_known(parts->scheme))
        return "URL scheme must be http, https, unix, or unixs: ";
    if (!has_port(parts->host))
        return "URL address does not have the form \"host:port\": ";
    if (parts->path.len != 0)
        return "URL must not contain a path: ";
    return NULL;
}

bool peer_url_check(struct slice url, struct writer *why)
{
    struct slice fragment = url, main_part = cut(&fragment, '#');
    struct url_fault fault = {.after = ""};
    struct url_parts parts = {0};
    const char *reason;
    bool ok = parse(main_part, &parts, &fault);

    if (!ok || !check_escapes(fragment, &fault)) {
        writer_str(why, "parse ");
        write_quoted(why, ok ? url : main_part);
        writer_str(why, ": ");
        writer_str(why, fault.before);
        if (fault.quoted.ptr != NULL)
            write_quoted(why, fault.quoted);
        writer_str(why, fault.after);
        return false;
    }
    reason = find_reason(&parts);
    if (reason == NULL)
        return true;
    writer_str(why, reason);
    writer_slice(why, url);
    return false;
}

/* The length of the blank at the start or the end of `s`: ASCII's, U+0085 and U+00A0. */
static size_t blank_len(struct slice s, bool at_end)
{
    const uint8_t *p;

    if (s.len == 0)
        return 0;
    p = at_end ? s.ptr + s.len - 1 : s.ptr;
    if (memchr(" \t\n\v\f\r", *p, 6) != NULL)
        return 1;
    if (s.len < 2)
        return 0;
    p -= at_end;
    return p[0] == 0xc2 && (p[1] == 0x85 || p[1] == 0xa0) ? 2 : 0;
}

struct slice peer_url_trim(struct slice url)
{
    size_t len;

    while ((len = blank_len(url, false)) != 0)
        url = slice_from(url, len);
    while ((len = blank_len(url, true)) != 0)
        url.len -= len;
    return url;
}
