/* Which Host headers are answered. See host.h for the contract. */
#include "rdzv/http/host.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "rdzv/config/config.h"

static struct slice without_port(struct slice host)
{
    for (size_t i = host.len; i > 0 && host.ptr[i - 1] != ']'; i--) {
        if (host.ptr[i - 1] == ':')
            host.len = i - 1;
    }
    return host;
}

static bool is_numeric(struct slice host)
{
    bool bracketed = host.len > 1 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']';
    char text[INET6_ADDRSTRLEN + 1];
    struct in6_addr address; /* large enough for both */

    if (bracketed)
        host = (struct slice){host.ptr + 1, host.len - 2};
    if (host.len >= sizeof text)
        return false;
    memcpy(text, host.ptr, host.len);
    text[host.len] = '\0';
    return inet_pton(bracketed ? AF_INET6 : AF_INET, text, &address) == 1;
}

static bool is_localhost(struct slice host)
{
    return host.len == 9 && strncasecmp((const char *)host.ptr, "localhost", 9) == 0;
}

bool http_host_is_welcome(struct slice host, const struct string_list *allowed, bool loopback)
{
    struct slice name = without_port(host);

    for (size_t i = 0; i < allowed->count; i++) {
        if (slice_is(name, allowed->items[i]) || strcmp(allowed->items[i], "*") == 0)
            return true;
    }
    if (!loopback)
        return allowed->count == 0;
    return name.len == 0 || is_numeric(name) || is_localhost(name);
}
