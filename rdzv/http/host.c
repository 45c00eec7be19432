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

static bool is_ipv6(struct slice host)
{
    char text[INET6_ADDRSTRLEN + 1];
    struct in6_addr address;

    if (host.len < 2 || host.len - 2 >= sizeof text || host.ptr[0] != '[' ||
        host.ptr[host.len - 1] != ']')
        return false;
    memcpy(text, host.ptr + 1, host.len - 2);
    text[host.len - 2] = '\0';
    return inet_pton(AF_INET6, text, &address) == 1;
}

/* No name of the DNS is made of digits and dots alone: to a browser such a host is an address. */
static bool is_ipv4(struct slice host)
{
    for (size_t i = 0; i < host.len; i++) {
        if (host.ptr[i] != '.' && (host.ptr[i] < '0' || host.ptr[i] > '9'))
            return false;
    }
    return true;
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
    return is_ipv4(name) || is_localhost(name) || is_ipv6(name); /* an empty one, too */
}
