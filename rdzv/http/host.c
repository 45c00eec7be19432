/* Which Host headers are answered. See host.h for the contract. */
#include "rdzv/http/host.h"

#include <arpa/inet.h>
#include <string.h>

#include "rdzv/config/config.h"

/* Up to the first colon, behind an address in brackets if there is one. */
static struct slice without_port(struct slice host)
{
    const uint8_t *bracket = host.len == 0 ? NULL : memrchr(host.ptr, ']', host.len), *colon;
    size_t start = bracket == NULL ? 0 : (size_t)(bracket + 1 - host.ptr);

    colon = start == host.len ? NULL : memchr(host.ptr + start, ':', host.len - start);
    if (colon != NULL)
        host.len = (size_t)(colon - host.ptr);
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

/* In capitals, too: they differ in one bit, and nothing else becomes a letter by that. */
static bool is_localhost(struct slice host)
{
    return host.len == 9 && (host.ptr[8] | 0x20) == 't' &&
           (bytes_get_u64(host.ptr) | UINT64_C(0x2020202020202020)) ==
               bytes_get_u64((const uint8_t *)"localhos");
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
