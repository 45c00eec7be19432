/* The URLs of etcd's flags and members. See etcd_url.h for the contract. */
#include "rdzv/config/etcd_url.h"

#include <string.h>
#include <strings.h>

bool etcd_url_scheme_is(const struct etcd_url *url, const char *scheme)
{
    return url->scheme_len == strlen(scheme) &&
           strncasecmp(url->scheme, scheme, url->scheme_len) == 0;
}

/* HOST:PORT up to `end`. */
static bool split_address(const char *text, const char *end, struct etcd_url *out)
{
    const char *colon = memrchr(text, ':', (size_t)(end - text));
    unsigned port = 0;

    if (colon == NULL || colon + 1 == end || end - colon > 6)
        return false;
    for (const char *c = colon + 1; c < end; c++) {
        if (*c < '0' || *c > '9')
            return false;
        port = port * 10 + (unsigned)(*c - '0');
    }
    if (port > UINT16_MAX)
        return false;
    out->port = (uint16_t)port;
    out->host = text;
    out->host_len = (size_t)(colon - text);
    if (*text == '[') {
        if (colon == text || colon[-1] != ']')
            return false;
        out->host++;
        out->host_len -= 2;
        return true;
    }
    return memchr(text, ':', out->host_len) == NULL; /* IPv6 without brackets */
}

const char *etcd_url_check(const char *url, struct etcd_url *out)
{
    struct etcd_url parts = {.scheme = url};
    const char *rest = strstr(url, "://"), *end, *user;

    parts.scheme_len = rest == NULL ? 0 : (size_t)(rest - url);
    if (!etcd_url_scheme_is(&parts, "http") && !etcd_url_scheme_is(&parts, "https") &&
        !etcd_url_scheme_is(&parts, "unix") && !etcd_url_scheme_is(&parts, "unixs"))
        return "URL scheme must be http, https, unix, or unixs; write http://HOST:PORT";
    for (const char *c = rest; *c != '\0'; c++) {
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            return "URL must not contain blanks or control characters; write http://HOST:PORT";
    }
    rest += 3;
    end = rest + strcspn(rest, "/?#");
    user = memrchr(rest, '@', (size_t)(end - rest));
    if (user != NULL)
        rest = user + 1;
    if (!etcd_url_scheme_is(&parts, "unix") && !etcd_url_scheme_is(&parts, "unixs")) {
        if (!split_address(rest, end, &parts))
            return "URL address does not have the form \"host:port\"; write http://HOST:PORT";
        if (*end == '/')
            return "URL must not contain a path; end it behind the port";
        if (*end != '\0')
            return "URL must not contain a query or fragment; end it behind the port";
    }
    if (out != NULL)
        *out = parts;
    return NULL;
}
