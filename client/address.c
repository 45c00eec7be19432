/* HOST:PORT from text; see address.h. */
#include "client/address.h"

#include <stdlib.h>
#include <string.h>

static bool is_port(const char *text)
{
    size_t len = strlen(text);
    long port;

    if (len == 0 || len > 5 || strspn(text, "0123456789") != len)
        return false;
    port = strtol(text, NULL, 10);
    return port > 0 && port <= 65535;
}

bool address_parse(const char *text, struct rdzv_address *out)
{
    const char *colon = strrchr(text, ':'), *host = text;
    size_t len = colon == NULL ? 0 : (size_t)(colon - text);
    struct rdzv_address a = {0};

    if (len > 2 && host[0] == '[' && host[len - 1] == ']') {
        host++;
        len -= 2;
    } else if (strcspn(text, ":[]") < len) {
        return false; /* an IPv6 address without its brackets */
    }
    if (len == 0 || len >= sizeof a.host || !is_port(colon + 1) || memchr(host, '/', len) != NULL)
        return false;
    memcpy(a.host, host, len);
    strcpy(a.port, colon + 1);
    *out = a;
    return true;
}
